//! Older messages of sessions, a page at a time, from a reader of the journal on another thread.
//!
//! Invariant: memory has a bound of one page; sessions have pages by turns; the gateway never waits for the disk.

use std::collections::VecDeque;

use market::{Output, Text};
use ring::{Builder, Consumer, Flow, Producer};
use wire::fix::BUILDER_LEN_MAX;

use crate::{
    message_archive::MessageArchive,
    replay_store::{Missing, ReplayStore},
    streams::ReplyStreams,
};

/// Messages of a page: at 1 KiB each, 2 MiB.
const PAGE_MESSAGES: u64 = 2048;
const ANSWER_SLOTS: usize = PAGE_MESSAGES as usize;
const WANTED_SLOTS: usize = 2;
/// Bytes of messages that a reader keeps: more than those of one input.
const READER_BYTES: usize = 16 << 20;

/// Messages `first` to `end`, `end` excluded, of the stream of a session, to be read from the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastReplyRange {
    pub username: Text<6>,
    pub first: u64,
    pub end: u64,
}

/// A message of a session with its number in the stream.
#[derive(Clone, Copy)]
pub struct PastReply {
    pub number: u64,
    len: u16,
    bytes: [u8; BUILDER_LEN_MAX],
}

impl PastReply {
    /// `None` for a message that is longer than any of FIX.
    #[must_use]
    pub fn new(number: u64, message: &[u8]) -> Option<Self> {
        let mut bytes = [0; BUILDER_LEN_MAX];
        bytes.get_mut(..message.len())?.copy_from_slice(message);
        Some(Self { number, len: message.len() as u16, bytes })
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// What the reader of the journal answers.
#[derive(Clone, Copy)]
#[expect(
    clippy::large_enum_variant,
    reason = "a slot of a ring has room for a message, and most have one"
)]
pub enum PastReplyAnswer {
    /// The next message of the range.
    Message(PastReply),
    /// The messages before this one cannot be had.
    Gone { first_kept: u64 },
}

/// The reader's ends of the rings.
pub struct PastReplyEnds {
    pub wanted: Consumer<PastReplyRange>,
    pub answers: Producer<PastReplyAnswer>,
}

/// The replies to one session, derived anew from the journal.
pub struct SessionReplies(ReplyStreams<ReplayStore>);

impl SessionReplies {
    /// Before the first output.
    #[must_use]
    pub fn new(username: Text<6>) -> Self {
        Self(ReplyStreams::of_users(&[username], ReplayStore::new(1, READER_BYTES)))
    }

    /// Takes what was sent before a snapshot, before the first output.
    pub fn restore(&mut self, archive: &MessageArchive) {
        self.0.restore(archive);
    }

    pub fn take(&mut self, output: &Output) {
        self.0.take(output);
    }

    /// Number of the next message.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.0.store().next(0)
    }

    /// A message by its number.
    ///
    /// # Errors
    /// It is not there any more, or not yet.
    pub fn get(&self, number: u64) -> Result<&[u8], Missing> {
        self.0.store().get(0, number)
    }
}

/// The rings between an order entry gateway and a reader of the journal.
#[must_use]
pub fn past_reply_rings() -> (PastReplies, PastReplyEnds) {
    let mut builder = Builder::new("past replies wanted", WANTED_SLOTS);
    let to_reader = builder.gating("history");
    let (wanted, _) = builder.build();
    let mut builder = Builder::new("past replies", ANSWER_SLOTS);
    let from_reader = builder.gating("order entry");
    let (answers, _) = builder.build();
    let past = PastReplies { wanted, answers: from_reader, page: None, waiting: VecDeque::new() };
    (past, PastReplyEnds { wanted: to_reader, answers })
}

/// The gateway's ends, and the page that is read.
pub struct PastReplies {
    wanted: Producer<PastReplyRange>,
    answers: Consumer<PastReplyAnswer>,
    page: Option<Page>,
    /// Users that wait for a page, each once.
    waiting: VecDeque<(usize, PastReplyRange)>,
}

struct Page {
    user: usize,
    range: PastReplyRange,
    /// Number of the first message that can be had.
    first_kept: u64,
    messages: Vec<PastReply>,
}

impl Page {
    fn has(&self, user: usize, number: u64) -> bool {
        self.user == user && (self.range.first..self.range.end).contains(&number)
    }

    fn is_whole(&self) -> bool {
        self.first_kept + self.messages.len() as u64 >= self.range.end
    }
}

/// What is known of an older message.
pub(super) enum PastMessage<'a> {
    Here(&'a [u8]),
    /// It is being read.
    Awaited,
    /// It cannot be had.
    Gone,
}

impl PastReplies {
    /// A message of a user from before `end`, the first that the store keeps; has it read if it is not here.
    pub(super) fn get(
        &mut self,
        user: usize,
        username: Text<6>,
        number: u64,
        end: u64,
    ) -> PastMessage<'_> {
        if !self.page.as_ref().is_some_and(|page| page.has(user, number)) {
            if self.waiting.iter().all(|(waits, _)| *waits != user) {
                let end = end.min(number + PAGE_MESSAGES);
                self.waiting.push_back((user, PastReplyRange { username, first: number, end }));
            }
            return PastMessage::Awaited;
        }
        let page = self.page.as_ref().expect("it is here");
        let Some(index) = number.checked_sub(page.first_kept) else { return PastMessage::Gone };
        page.messages
            .get(index as usize)
            .map_or(PastMessage::Awaited, |message| PastMessage::Here(message.as_bytes()))
    }

    /// Takes what the reader has read, and asks for the next page once nobody needs this one: `wanted` is the
    /// number that a user wants next. Returns the users that are to be served now.
    pub(super) fn poll(&mut self, wanted: impl Fn(usize) -> Option<u64>) -> Vec<usize> {
        let Self { answers, page, .. } = self;
        let mut taken = false;
        if let Some(page) = page {
            answers.poll(ANSWER_SLOTS, |answer, _end_of_batch| {
                match answer {
                    PastReplyAnswer::Message(message) => page.messages.push(*message),
                    PastReplyAnswer::Gone { first_kept } => {
                        // What was read of it before is given up too: it cannot be had twice.
                        page.messages.clear();
                        page.first_kept = (*first_kept).max(page.range.first + 1);
                        page.range.end = page.range.end.min(page.first_kept);
                    }
                }
                taken = true;
                Flow::Continue
            });
        }
        let is_done = |page: &mut Page| {
            page.is_whole() && wanted(page.user).is_none_or(|number| !page.has(page.user, number))
        };
        // Mostly empty, and then it takes no memory.
        let mut served = Vec::new();
        served.extend(self.page.as_ref().filter(|_| taken).map(|page| page.user));
        if self.page.take_if(is_done).is_some() || self.page.is_none() {
            // A user that has left has no use for a page; one that wants another asks for that.
            while let Some((user, range)) = self.waiting.pop_front() {
                match wanted(user) {
                    Some(number) if number == range.first => {}
                    Some(_) => {
                        served.push(user);
                        continue;
                    }
                    None => continue,
                }
                if self.wanted.try_publish(range).is_err() {
                    self.waiting.push_front((user, range));
                    break;
                }
                let (first_kept, messages) = (range.first, Vec::new());
                self.page = Some(Page { user, range, first_kept, messages });
                break;
            }
        }
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Text<6> = Text::BLANK;

    /// Answers what is wanted, all of it or as if the journal began with `first_kept`.
    fn read(ends: &mut PastReplyEnds, first_kept: Option<u64>) -> Option<PastReplyRange> {
        let mut wanted = None;
        ends.wanted.poll(1, |range, _| {
            wanted = Some(*range);
            Flow::Continue
        });
        let range = wanted?;
        match first_kept {
            Some(first_kept) => {
                ends.answers.try_publish(PastReplyAnswer::Gone { first_kept }).ok().unwrap();
            }
            None => {
                for number in range.first..range.end {
                    let reply = PastReply::new(number, &number.to_le_bytes()).unwrap();
                    ends.answers.try_publish(PastReplyAnswer::Message(reply)).ok().unwrap();
                }
            }
        }
        Some(range)
    }

    fn is_here(past: &mut PastReplies, user: usize, number: u64, end: u64) -> bool {
        match past.get(user, NAME, number, end) {
            PastMessage::Here(message) => {
                assert_eq!(message, number.to_le_bytes());
                true
            }
            PastMessage::Awaited => false,
            PastMessage::Gone => panic!("it is there"),
        }
    }

    /// Two users that want many messages have a page each by turns; one that has left has none.
    #[test]
    fn pages_are_given_by_turns() {
        let (mut past, mut ends) = past_reply_rings();
        let mut next = [1, 1, 1];
        let end = 3 * PAGE_MESSAGES;
        let mut turns = Vec::new();
        for user in [0, 1, 2] {
            assert!(!is_here(&mut past, user, 1, end));
        }
        while next[0] < end || next[1] < end {
            // User 2 has left.
            past.poll(|user| (user < 2).then(|| next[user]));
            let Some(range) = read(&mut ends, None) else { panic!("nothing is read: {next:?}") };
            let served = past.poll(|user| (user < 2).then(|| next[user]));
            let [user] = served[..] else { panic!("{served:?}") };
            turns.push(user);
            assert_eq!(range.first, next[user]);
            while next[user] < end && is_here(&mut past, user, next[user], end) {
                next[user] += 1;
            }
        }
        assert_eq!(turns, [0, 1, 0, 1, 0, 1]);
    }

    /// What the journal no longer has is gone, and what comes after it is asked for.
    #[test]
    fn what_is_gone_is_said() {
        let (mut past, mut ends) = past_reply_rings();
        assert!(!is_here(&mut past, 0, 10, 100));
        past.poll(|_| Some(10));
        read(&mut ends, Some(40)).unwrap();
        assert_eq!(past.poll(|_| Some(10)), [0]);
        for number in 10..40 {
            assert!(matches!(past.get(0, NAME, number, 100), PastMessage::Gone), "{number}");
        }
        assert!(!is_here(&mut past, 0, 40, 100));
        past.poll(|_| Some(40));
        assert_eq!(read(&mut ends, None).map(|range| (range.first, range.end)), Some((40, 100)));
        past.poll(|_| Some(40));
        assert!((40..100).all(|number| is_here(&mut past, 0, number, 100)));
    }

    /// A user that has come back and wants another message is served, so that it asks for that.
    #[test]
    fn another_wish_takes_the_place_of_the_first() {
        let (mut past, mut ends) = past_reply_rings();
        assert!(!is_here(&mut past, 0, 10, 100));
        assert_eq!(past.poll(|_| Some(50)), [0]);
        assert!(!is_here(&mut past, 0, 50, 100));
        past.poll(|_| Some(50));
        assert_eq!(read(&mut ends, None).map(|range| range.first), Some(50));
    }
}
