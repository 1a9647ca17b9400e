//! Answers about instruments and the trading day: Security List, Security Definition, Security Status, Trading
//! Session Status.
//!
//! Invariant: a request makes at most one page of answers. Each further page of a list is a separate note in the log,
//! so a longer list uses more of its session's allowance, and never makes a long turn for other sessions.

use market::{Phase, SystemEvent, Timestamp};

use super::{Reports, SendMessage};
use crate::fix::{
    BUILDER_LEN_MAX, Builder, Version,
    directory::{Directory, Listed},
    note::{PageNote, QueryNote},
};

/// The one trading session of the venue.
const TRADING_SESSION: &str = "DAY";
/// Instruments of one Security List, as many as fit a message.
const LIST_INSTRUMENTS: usize = 12;
/// Messages of a page.
const PAGE_MESSAGES: usize = 4;

/// A list of instruments that has not been sent to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) query: QueryNote,
    /// The place in the directory of the next instrument.
    pub(super) next: u32,
}

/// The reason why a request cannot be answered.
#[derive(Clone, Copy)]
enum Fault {
    NotOffered(&'static str),
    Unknown,
    Busy,
}

impl Fault {
    const fn text(self) -> &'static str {
        match self {
            Self::NotOffered(text) => text,
            Self::Unknown => "unknown symbol",
            Self::Busy => "another list is being sent: ask again after its end",
        }
    }
}

impl Reports {
    /// Answers a request; for a list, sends the first page.
    pub(super) fn take_query(
        &mut self,
        query: &QueryNote,
        directory: &Directory,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        self.receive(query.counted);
        match query.msg_type {
            b'x' => self.list_request(query, directory, time, send),
            b'c' => self.definition_request(query, directory, time, send),
            b'e' => self.status_request(query, directory, time, send),
            _ => self.day_request(query, directory, time, send),
        }
    }

    fn begin_list(
        &mut self,
        query: &QueryNote,
        directory: &Directory,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        self.listing = Some(Listing { query: *query, next: 0 });
        let page = PageNote { counted: query.counted, first: 0 };
        self.list_page(&page, directory, time, send);
    }

    /// Sends this page of the list, if it is the next one.
    pub(super) fn list_page(
        &mut self,
        page: &PageNote,
        directory: &Directory,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        if self.next_page() != Some(*page) {
            return;
        }
        for _ in 0..PAGE_MESSAGES {
            let Some(listing) = self.listing else { return };
            let is_list = listing.query.msg_type == b'x';
            let of_message = if is_list { LIST_INSTRUMENTS } else { 1 };
            let mut rest = directory.after(listing.next as usize);
            let mut end = listing.next;
            let mut members = [None; LIST_INSTRUMENTS];
            for (member, (next, listed)) in members.iter_mut().zip(rest.by_ref().take(of_message)) {
                *member = Some(*listed);
                end = next as u32;
            }
            let is_last = rest.next().is_none();
            let members = || members.iter().flatten();
            let total = directory.count() as u64;
            if is_list {
                self.list(&listing.query, members(), total, is_last, time, send);
            } else if let Some(listed) = members().next() {
                self.definition(&listing.query, listed, total, time, send);
            }
            self.listing = (!is_last).then_some(Listing { next: end, ..listing });
        }
    }

    fn list_request(
        &mut self,
        query: &QueryNote,
        directory: &Directory,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let fault = match query.code {
            _ if query.is_subscription() => Fault::NotOffered("lists are sent once: 263=0"),
            b'0' => match directory.find(query.symbol) {
                Some(listed) => {
                    return self.list(query, [listed].into_iter(), 1, true, time, send);
                }
                None => Fault::Unknown,
            },
            b'4' if self.listing.is_some() => Fault::Busy,
            b'4' if directory.count() > 0 => return self.begin_list(query, directory, time, send),
            b'4' => Fault::Unknown,
            _ => Fault::NotOffered("SecurityListRequestType is 0 or 4"),
        };
        let result = match fault {
            Fault::NotOffered(_) => 1,
            Fault::Unknown => 2,
            Fault::Busy => 4,
        };
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = self.begin_answer(&mut buffer, b"y", query, time);
        builder.number(560, result).text(58, fault.text());
        self.finish(builder, send);
    }

    fn list<'a>(
        &mut self,
        query: &QueryNote,
        members: impl Iterator<Item = &'a Listed> + Clone,
        total: u64,
        is_last: bool,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = self.begin_answer(&mut buffer, b"y", query, time);
        builder.number(560, 0).number(393, total).char(893, if is_last { b'Y' } else { b'N' });
        builder.number(146, members.clone().count() as u64);
        for listed in members {
            builder.text(55, listed.instrument.symbol.as_str());
            put_terms(&mut builder, listed, self.session.logon.version);
        }
        self.finish(builder, send);
    }

    fn definition_request(
        &mut self,
        query: &QueryNote,
        directory: &Directory,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let is_42 = self.session.logon.version == Version::Fix42;
        let fault = match query.code {
            _ if query.is_subscription() => Fault::NotOffered("definitions are sent once: 263=0"),
            b'0' => match directory.find(query.symbol) {
                Some(listed) => return self.definition(query, listed, 1, time, send),
                None => Fault::Unknown,
            },
            b'3' if !is_42 => Fault::NotOffered("lists are requested by Security List Request"),
            b'3' if self.listing.is_some() => Fault::Busy,
            b'3' if directory.count() > 0 => return self.begin_list(query, directory, time, send),
            b'3' => Fault::Unknown,
            _ => Fault::NotOffered("SecurityRequestType is 0, or 3 in FIX 4.2"),
        };
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = self.begin_answer(&mut buffer, b"d", query, time);
        builder.number(323, if matches!(fault, Fault::Unknown) { 6 } else { 5 });
        if is_42 {
            builder.number(393, 0);
        }
        builder.text(58, fault.text());
        self.finish(builder, send);
    }

    fn definition(
        &mut self,
        query: &QueryNote,
        listed: &Listed,
        total: u64,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let version = self.session.logon.version;
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = self.begin_answer(&mut buffer, b"d", query, time);
        builder.number(323, if query.code == b'3' { 4 } else { 1 });
        if version == Version::Fix42 {
            builder.number(393, total);
        }
        builder.text(55, listed.instrument.symbol.as_str());
        put_terms(&mut builder, listed, version);
        builder.text(336, TRADING_SESSION);
        self.finish(builder, send);
    }

    fn status_request(
        &mut self,
        query: &QueryNote,
        directory: &Directory,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        if query.is_subscription() {
            let text = "a status is sent once: 263=0";
            return self.reject_query(query, 0, text, time, send);
        }
        let version = self.session.logon.version;
        let listed = directory.find(query.symbol);
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = self.begin(&mut buffer, b"f", time);
        builder.text(324, query.id.as_str());
        // A symbol that is too long for the venue is not repeated.
        let symbol = if query.symbol.is_blank() { "?" } else { query.symbol.as_str() };
        builder.text(55, symbol);
        let phase = listed.and_then(|listed| listed.phase);
        let (status, text) = match phase {
            Some(phase) => (status_code(phase, version), phase_text(phase)),
            None => (20, Fault::Unknown.text()),
        };
        builder.text(336, TRADING_SESSION).number(326, status).time(60, time).text(58, text);
        self.finish(builder, send);
    }

    fn day_request(
        &mut self,
        query: &QueryNote,
        directory: &Directory,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let text = if query.is_subscription() {
            "the status of the day is sent once: 263=0"
        } else if query.code == b'N' {
            "TradingSessionID is DAY"
        } else {
            let mut buffer = [0; BUILDER_LEN_MAX];
            let mut builder = self.begin(&mut buffer, b"h", time);
            let (status, text) = day_status(directory.part());
            builder.text(335, query.id.as_str()).text(336, TRADING_SESSION);
            // Electronic, and no test.
            builder.number(338, 1).number(339, 2).number(340, status).text(58, text);
            return self.finish(builder, send);
        };
        if self.session.logon.version == Version::Fix42 {
            return self.reject_query(query, u64::from(query.code == b'N'), text, time, send);
        }
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = self.begin(&mut buffer, b"h", time);
        builder.text(335, query.id.as_str()).text(336, TRADING_SESSION).number(340, 6);
        builder.number(567, if query.code == b'N' { 1 } else { 99 }).text(58, text);
        self.finish(builder, send);
    }

    /// A BusinessMessageReject, where the answer to the request has no field for the reason.
    fn reject_query(
        &mut self,
        query: &QueryNote,
        reason: u64,
        text: &str,
        time: Timestamp,
        send: SendMessage<'_>,
    ) {
        let mut buffer = [0; BUILDER_LEN_MAX];
        let mut builder = self.begin(&mut buffer, b"j", time);
        builder.number(45, query.counted.into()).char(372, query.msg_type);
        builder.text(379, query.id.as_str()).number(380, reason).text(58, text);
        self.finish(builder, send);
    }

    /// The fields with which an answer about instruments begins.
    fn begin_answer<'a>(
        &self,
        buffer: &'a mut [u8],
        msg_type: &[u8],
        query: &QueryNote,
        time: Timestamp,
    ) -> Builder<'a> {
        let mut builder = self.begin(buffer, msg_type, time);
        builder.text(320, query.id.as_str()).number(322, self.session.next);
        builder
    }
}

/// Price increment and round lot: no version here has a field for the first, and FIX 4.2 none for the second.
fn put_terms(builder: &mut Builder<'_>, listed: &Listed, version: Version) {
    let (increment, lot) = (listed.instrument.price_increment.0, listed.instrument.round_lot.0);
    let (whole, ticks) = (increment / 10_000, increment % 10_000);
    match version {
        Version::Fix42 => {
            let text = format_args!("price increment {whole}.{ticks:04}, round lot {lot}");
            builder.display(107, &text);
        }
        Version::Fix44 | Version::Fix50Sp1 => {
            builder.display(107, &format_args!("price increment {whole}.{ticks:04}"));
            builder.number(561, lot);
        }
    }
}

/// SecurityTradingStatus (326).
const fn status_code(phase: Phase, version: Version) -> u64 {
    match (phase, version) {
        (Phase::Continuous, _) => 17,
        (Phase::Halted, _) => 2,
        (Phase::Closed, _) | (Phase::PreOpen, Version::Fix42) => 18,
        (Phase::PreOpen, _) => 21,
        (Phase::OpeningAuction, Version::Fix44 | Version::Fix50Sp1) => 22,
        // Orders are collected, and the price at which they would trade is published.
        (Phase::OpeningAuction | Phase::VolatilityAuction | Phase::ClosingAuction, _) => 5,
    }
}

const fn phase_text(phase: Phase) -> &'static str {
    match phase {
        Phase::PreOpen => "pre-open",
        Phase::OpeningAuction => "opening auction",
        Phase::Continuous => "continuous trading",
        Phase::VolatilityAuction => "volatility auction",
        Phase::Halted => "halted",
        Phase::ClosingAuction => "closing auction",
        Phase::Closed => "closed",
    }
}

/// TradSesStatus (340), and its text.
const fn day_status(part: Option<SystemEvent>) -> (u64, &'static str) {
    match part {
        None | Some(SystemEvent::StartOfMessages) => (4, "before order entry opens"),
        Some(SystemEvent::StartOfSystemHours) => (2, "order entry is open"),
        Some(SystemEvent::StartOfMarketHours) => (2, "market hours"),
        Some(SystemEvent::EndOfMarketHours) => (2, "after market hours, order entry is open"),
        Some(SystemEvent::EndOfSystemHours) => (3, "order entry is closed"),
        Some(SystemEvent::EndOfMessages) => (3, "the day has ended"),
    }
}
