//! Resends: requested messages are sent again, and gap fills cover the remaining numbers.
//!
//! Invariant: each requested number is sent once, in order: as its message, or within a gap.

use core::ops::Range;

use market::Timestamp;

use super::Acceptor;
use crate::fix::{
    BUILDER_LEN_MAX, Builder, Fault, Message, SessionReject, again::Again, dictionary, text::Text,
    time::TimeText,
};

/// The most numbers filled in one turn without sending a byte.
const FILLED_MAX: u64 = 4096;

/// Messages to be sent again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resend {
    next: u64,
    end: u64,
    /// The first of the numbers being filled, if any.
    fill_from: Option<u64>,
    /// The last SendingTime.
    time: TimeText,
}

impl Acceptor {
    /// Takes a ResendRequest.
    pub(super) fn serve_resend(&mut self, message: &Message<'_>, counted: u32) {
        let (begin, end) = (message.number(7).unwrap_or(0), message.number(16).unwrap_or(0));
        if begin == 0 || (end != 0 && end < begin) || begin > self.sent_last {
            let fault = Fault { tag: 7, reason: SessionReject::ValueOutOfRange };
            return self.reject(message, fault, counted);
        }
        let end = if end == 0 { self.sent_last } else { end.min(self.sent_last) };
        let time = TimeText::default();
        self.resend = Some(Resend { next: begin, end, fill_from: None, time });
    }

    /// Requests the missing messages before this one.
    pub(super) fn request_resend(&mut self, number: u64) {
        if self.gap_to.is_some() {
            return;
        }
        self.gap_to = Some(number);
        let mut text = Text::default();
        text.put(b"2\x017=").number(self.expected).put(b"\x0116=0\x01");
        self.say(0, text.as_bytes());
    }

    /// The number in the reply stream of the next message to send again.
    #[must_use]
    pub fn resend_next(&self) -> Option<u64> {
        self.resend_range().map(|range| range.start)
    }

    /// The numbers in the reply stream of the messages to send again.
    #[must_use]
    pub fn resend_range(&self) -> Option<Range<u64>> {
        self.resend.map(|resend| self.base + resend.next..self.base + resend.end + 1)
    }

    /// Sends that message again, or fills its number if it is one of the session or no longer kept (`None`). Returns
    /// false once the work of one turn is done.
    pub fn resend(&mut self, message: Option<&[u8]>, now_ns: u64) -> bool {
        let Some(mut resend) = self.resend else { return false };
        let number = resend.next;
        resend.next += 1;
        let again = message.and_then(Again::of).filter(|again| {
            let kind = dictionary::message(again.msg_type(), self.version);
            kind.is_some_and(|row| !row.is_of_session())
        });
        let mut is_short = true;
        if let Some(again) = again {
            if let Some(from) = resend.fill_from.take() {
                self.fill_gap(from, number, now_ns);
            }
            self.make_room();
            again.put(&resend.time.of(Timestamp(now_ns)), &mut self.outgoing);
            self.put_ns = now_ns;
        } else {
            let from = *resend.fill_from.get_or_insert(number);
            is_short = !(number - from + 1).is_multiple_of(FILLED_MAX);
        }
        if resend.next <= resend.end {
            self.resend = Some(resend);
        } else {
            if let Some(from) = resend.fill_from {
                self.fill_gap(from, resend.next, now_ns);
            }
            self.resend = None;
        }
        is_short
    }

    /// Fills all numbers that are to be sent again with one SequenceReset. True if there were any.
    pub(in crate::fix) fn fill(&mut self, now_ns: u64) -> bool {
        let Some(resend) = self.resend.take() else { return false };
        self.fill_gap(resend.next, resend.end + 1, now_ns);
        true
    }

    /// A SequenceReset in place of the messages from `from` to before `to`.
    fn fill_gap(&mut self, from: u64, to: u64, now_ns: u64) {
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = Builder::new(&mut buffer);
        let now = Timestamp(now_ns);
        builder.char(35, b'4').number(34, from).char(43, b'Y');
        builder.text(49, self.settings.venue.as_str()).time(52, now);
        builder.text(56, self.client.as_str()).time(122, now).char(123, b'Y').number(36, to);
        self.put(builder.finish(self.version), now_ns);
    }
}
