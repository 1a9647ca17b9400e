//! The venue's side of one connection of a FIX session: numbers, gaps, heartbeats, resends.
//!
//! Invariant: the session makes no numbered message alone. A message that takes a number is first a note in the log; a
//! resend consists of messages that were sent before.

mod resend;

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};
use core::ops::Range;

use market::{Note, SessionId, Timestamp};

use self::resend::Resend;
use super::{
    APPL_VER_ID, Fault, Fields, Framed, MESSAGE_LEN_MAX, Message, SOH, SessionReject,
    SessionSchedule, Version,
    dictionary::{self, Direction},
    frame,
    note::{ClOrdId, CompId, FixNote, LogonNote, PageNote},
    text::{Text, business_reject},
    time::read_time,
};

/// The most bytes that may wait to be taken.
const UNREAD_MAX: usize = 128 * 1024;
/// The longest TestReqID that is answered, in bytes.
const TEST_ID_LEN_MAX: usize = 64;
/// The maximum distance of SendingTime from the venue's clock, in nanoseconds.
const SENDING_TIME_NS: u64 = 120_000_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Settings of all sessions of a port.
#[derive(Clone, Copy, Debug)]
pub struct FixTimers {
    /// CompID of the venue.
    pub venue: CompId,
    /// The time for a connection to log on, or to be logged out, in nanoseconds.
    pub login_timeout_ns: u64,
    /// The kind of application messages that are accepted.
    pub service: FixService,
    /// The opening times of sessions; `None` means always open.
    pub schedule: Option<SessionSchedule>,
}

/// The service of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixService {
    /// Order entry, and requests for instruments and the day.
    Orders,
    /// Market data.
    MarketData,
}

/// The venue's side of one connection.
#[derive(Debug)]
pub struct Acceptor {
    settings: FixTimers,
    state: State,
    version: Version,
    client: CompId,
    logon: Logon,
    incoming: Vec<u8>,
    /// The fields of the message taken last; `None` before the first.
    fields: Option<Box<Fields>>,
    taken: usize,
    outgoing: Vec<u8>,
    written: usize,
    /// The time when the current state began.
    since_ns: u64,
    heard_ns: u64,
    put_ns: u64,
    now_ns: u64,
    heartbeat_ns: u64,
    /// The time of a TestRequest that has not been answered.
    tested_ns: Option<u64>,
    /// MsgSeqNum of the next message of the client.
    expected: u64,
    /// The number of the message that caused the pending ResendRequest.
    gap_to: Option<u64>,
    /// Number in the reply stream less MsgSeqNum.
    base: u64,
    /// MsgSeqNum of the last message that was sent.
    sent_last: u64,
    resend: Option<Resend>,
    /// Notes to be put into the log.
    notes: VecDeque<Note>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Only a Logon is accepted.
    Connected,
    /// The caller decides on a Logon.
    LogonAsked,
    /// The answer is on its way through the log.
    Accepted,
    LoggedOn,
    /// A Logout is on its way through the log; no message is accepted.
    LogoutAsked {
        /// False if the Logon was refused: messages before the Logout are not sent.
        was_logged_on: bool,
    },
    /// The Logout was sent.
    LoggedOut,
}

/// The fields of the Logon.
#[derive(Clone, Copy, Debug, Default)]
struct Logon {
    number: u64,
    heartbeat_s: u32,
    reset: bool,
}

/// A request of a client.
#[derive(Debug)]
pub enum FixHappening<'a> {
    /// A Logon: answer with [`Acceptor::accept`] or close the connection.
    Logon {
        /// SenderCompID.
        client: &'a [u8],
        /// Password, or RawData.
        password: &'a [u8],
    },
    /// A note to be put into the log; the caller sets its session.
    Note(Note),
    /// A message of the application with the right number, and fields that agree with the dictionary.
    Application(Message<'a>),
    /// A message of the session, or garbled bytes, were taken: the caller has nothing to do.
    Taken,
    /// The session has ended in order: close the connection.
    Logout,
}

/// The time limit that a client exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixTimeout {
    /// No Logon arrived, or no answer to one could be sent.
    Logon,
    /// No message arrived, not even after a TestRequest.
    Silence,
}

impl Acceptor {
    /// A newly accepted connection.
    #[must_use]
    pub fn new(settings: FixTimers, now_ns: u64) -> Self {
        Self {
            settings,
            state: State::Connected,
            version: Version::Fix44,
            client: CompId::BLANK,
            logon: Logon::default(),
            incoming: Vec::new(),
            fields: None,
            taken: 0,
            outgoing: Vec::new(),
            written: 0,
            since_ns: now_ns,
            heard_ns: now_ns,
            put_ns: now_ns,
            now_ns,
            heartbeat_ns: 0,
            tested_ns: None,
            expected: 1,
            gap_to: None,
            base: 0,
            sent_last: 0,
            resend: None,
            notes: VecDeque::new(),
        }
    }

    /// MsgSeqNum of the next message of the client.
    #[must_use]
    pub const fn expected(&self) -> u64 {
        self.expected
    }

    /// Takes bytes as the socket gave them, cut anywhere.
    ///
    /// # Errors
    /// More than 128 KiB wait to be taken.
    pub fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), &'static str> {
        self.now_ns = now_ns;
        if self.incoming.len() - self.taken + bytes.len() > UNREAD_MAX {
            return Err("more than 128 KiB wait to be read");
        }
        self.incoming.drain(..self.taken);
        self.taken = 0;
        self.incoming.extend_from_slice(bytes);
        Ok(())
    }

    /// The next request of the client; `None` until more bytes arrive. Each call takes at most one message, so a
    /// caller can bound its work by the number of calls.
    ///
    /// # Errors
    /// The first message is not a Logon that can be answered: close the connection without an answer.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from it")]
    pub fn next(&mut self) -> Result<Option<FixHappening<'_>>, &'static str> {
        if let Some(note) = self.notes.pop_front() {
            return Ok(Some(FixHappening::Note(note)));
        }
        match self.state {
            State::LoggedOut if self.outgoing().is_empty() => {
                return Ok(Some(FixHappening::Logout));
            }
            State::Connected | State::LoggedOn => {}
            _ => return Ok(None),
        }
        let unread = &self.incoming[self.taken..];
        let start = self.taken;
        match frame(unread) {
            Framed::Partial => return Ok(None),
            Framed::Garbled(len) => {
                self.taken += len;
                return match self.state {
                    State::Connected => Err("the first message is not a Logon"),
                    _ => Ok(Some(FixHappening::Taken)),
                };
            }
            Framed::Whole(len) => self.taken += len,
        }
        let whole = start..self.taken;
        if self.state == State::Connected {
            return self.first(whole).map(Some);
        }
        self.heard_ns = self.now_ns;
        self.tested_ns = None;
        // The received bytes are moved out while they are read, so that the session can change.
        let incoming = core::mem::take(&mut self.incoming);
        let mut fields = self.fields.take().unwrap_or_default();
        let is_application = self.takes(&fields.read(&incoming[whole.clone()]));
        self.incoming = incoming;
        let fields = self.fields.insert(fields);
        Ok(Some(match is_application {
            true => FixHappening::Application(fields.message(&self.incoming[whole])),
            false => self.notes.pop_front().map_or(FixHappening::Taken, FixHappening::Note),
        }))
    }

    /// Reads the first message.
    fn first(&mut self, whole: Range<usize>) -> Result<FixHappening<'_>, &'static str> {
        let fields = self.fields.get_or_insert_default();
        fields.read(&self.incoming[whole.clone()]);
        let message =
            self.fields.as_ref().expect("it was put there").message(&self.incoming[whole]);
        let version = Version::from_begin_string(message.begin_string())
            .ok_or("BeginString is none of FIX.4.2, FIX.4.4 and FIXT.1.1")?;
        if message.msg_type() != b"A" {
            return Err("the first message is not a Logon");
        }
        let row = dictionary::message(b"A", version).expect("every version has a Logon");
        dictionary::check(&message, row, version).map_err(|_| "the Logon is malformed")?;
        let speaks = message.get(1137);
        if speaks.is_some_and(|speaks| speaks != APPL_VER_ID.as_bytes()) {
            return Err("DefaultApplVerID is not 8, FIX 5.0 SP1");
        }
        if message.get(56) != Some(self.settings.venue.trimmed()) {
            return Err("TargetCompID is not the venue");
        }
        if message.number(98) != Some(0) {
            return Err("EncryptMethod is not 0");
        }
        let client = message.get(49).unwrap_or_default();
        self.client = str::from_utf8(client)
            .ok()
            .and_then(CompId::new)
            .ok_or("SenderCompID is longer than 16 characters")?;
        let (Some(number), Some(heartbeat_s)) = (message.number(34), message.number(108)) else {
            return Err("the Logon is malformed");
        };
        let is_near = message.get(52).and_then(read_time).is_some_and(|time| self.is_near(time));
        if !is_near {
            return Err("SendingTime is more than 2 minutes from the venue's clock");
        }
        if number == 0 || number > u64::from(u32::MAX) || heartbeat_s > 86_400 {
            return Err("MsgSeqNum or HeartBtInt is out of range");
        }
        let reset = message.is_yes(141);
        if reset && number != 1 {
            return Err("a Logon with ResetSeqNumFlag has MsgSeqNum 1");
        }
        self.version = version;
        self.logon = Logon { number, heartbeat_s: heartbeat_s as u32, reset };
        self.heartbeat_ns = heartbeat_s * NANOS_PER_SECOND;
        (self.state, self.since_ns) = (State::LogonAsked, self.now_ns);
        let password = message.get(554).or_else(|| message.get(96)).unwrap_or_default();
        Ok(FixHappening::Logon { client, password })
    }

    /// Accepts the Logon; `expected` is the next MsgSeqNum that the session expects of the client, `spoken` the version of
    /// its messages so far. Messages are sent from the answer on. A Logon in another version that does not reset the
    /// numbers ends the session without an answer, since resent messages would be in the earlier version.
    ///
    /// # Panics
    /// No Logon waits for an answer.
    pub fn accept(&mut self, expected: u64, spoken: Option<Version>, now_ns: u64) {
        assert!(self.state == State::LogonAsked, "a Logon is answered once: {:?}", self.state);
        self.now_ns = now_ns;
        let Logon { number, heartbeat_s, reset } = self.logon;
        self.expected = if reset { 1 } else { expected };
        if !reset && spoken.is_some_and(|spoken| spoken != self.version) {
            return self.enter(State::LoggedOut);
        }
        if number < self.expected {
            let mut text = Text::default();
            text.too_low(self.expected, number);
            return self.log_out(text.as_bytes(), 0);
        }
        let is_expected = number == self.expected;
        let counted = if is_expected { number as u32 } else { 0 };
        let (venue, client) = (self.settings.venue, self.client);
        let version = self.version;
        let logon = LogonNote { version, reset, counted, heartbeat_s, venue, client };
        self.note(&FixNote::Logon(logon));
        if is_expected {
            self.expected += 1;
        } else {
            self.request_resend(number);
        }
        self.enter(State::Accepted);
    }

    /// Resets both numbers with the Logon, as if the Logon had requested it.
    pub const fn begin_anew(&mut self) {
        self.logon.reset = true;
    }

    /// Answers the Logon with a Logout that gives the reason. `spoken` is as in [`accept`](Self::accept).
    ///
    /// # Panics
    /// No Logon waits for an answer.
    pub fn turn_away(&mut self, words: &[u8], spoken: Option<Version>, now_ns: u64) {
        assert!(self.state == State::LogonAsked, "a Logon is answered once: {:?}", self.state);
        self.now_ns = now_ns;
        match spoken {
            Some(spoken) if spoken != self.version => return self.enter(State::LoggedOut),
            Some(_) => {}
            // Before the first Logon, the log does not have the version and the names of the session.
            None => {
                let (venue, client) = (self.settings.venue, self.client);
                let Logon { heartbeat_s, .. } = self.logon;
                let version = self.version;
                let logon =
                    LogonNote { version, reset: true, counted: 0, heartbeat_s, venue, client };
                self.note(&FixNote::Logon(logon));
            }
        }
        self.log_out(words, 0);
    }

    /// The time when the session last received bytes or a tick.
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// True if the Logon resets both numbers.
    #[must_use]
    pub const fn logon_resets(&self) -> bool {
        self.logon.reset
    }

    /// The version of the Logon.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The next note to be put into the log, if one waits.
    pub(super) fn next_note(&mut self) -> Option<Note> {
        self.notes.pop_front()
    }

    /// True while messages of the application may be sent.
    pub(super) fn is_logged_on(&self) -> bool {
        self.state == State::LoggedOn
    }

    /// Ends a session with a Logout, if it has logged on.
    pub fn end(&mut self, words: &[u8], now_ns: u64) {
        self.now_ns = now_ns;
        if self.state == State::LoggedOn {
            self.log_out(words, 0);
        }
    }

    /// Refuses the Logon with a Logout that gives the reason.
    ///
    /// # Panics
    /// No Logon waits for an answer.
    pub(super) fn refuse(&mut self, words: &[u8], now_ns: u64) {
        assert!(self.state == State::LogonAsked, "a Logon is answered once: {:?}", self.state);
        self.now_ns = now_ns;
        self.log_out(words, 0);
    }

    /// Decides on a message of a logged-on session; true if it is for the application.
    fn takes(&mut self, message: &Message<'_>) -> bool {
        if Version::from_begin_string(message.begin_string()) != Some(self.version) {
            self.log_out(b"BeginString is not that of the Logon", 0);
            return false;
        }
        let Some(number) = message.number(34).filter(|number| *number <= u64::from(u32::MAX))
        else {
            self.log_out(b"MsgSeqNum is missing", 0);
            return false;
        };
        for (tag, expected) in [(49, self.client), (56, self.settings.venue)] {
            if message.get(tag) != Some(expected.trimmed()) {
                self.reject(message, Fault { tag, reason: SessionReject::CompId }, 0);
                self.log_out(b"SenderCompID or TargetCompID is not that of the session", 0);
                return false;
            }
        }
        let msg_type = message.msg_type();
        if msg_type == b"4" && !message.is_yes(123) {
            self.reset_to(message);
            return false;
        }
        if number < self.expected {
            self.too_low(message, number);
            return false;
        }
        if number > self.expected {
            if msg_type == b"2" && self.check(message, 0) {
                self.serve_resend(message, 0);
            }
            self.request_resend(number);
            if msg_type == b"5" {
                self.log_out(b"", 0);
            }
            return false;
        }
        self.expected += 1;
        if self.gap_to.is_some_and(|gap_to| gap_to < self.expected) {
            self.gap_to = None;
        }
        let counted = number as u32;
        let sent = message.get(52).and_then(read_time);
        if sent.is_some_and(|sent| !self.is_near(sent)) {
            self.reject(message, Fault { tag: 52, reason: SessionReject::SendingTime }, counted);
            self.log_out(b"SendingTime is more than 2 minutes from the venue's clock", 0);
            return false;
        }
        match msg_type {
            b"A" | b"0" | b"1" | b"2" | b"3" | b"4" | b"5" | b"j" => {
                if self.check(message, counted) {
                    self.takes_session(message, msg_type, counted);
                }
                false
            }
            _ => self.takes_application(message, msg_type, counted),
        }
    }

    /// A message of the session with the right number and fields.
    fn takes_session(&mut self, message: &Message<'_>, msg_type: &[u8], counted: u32) {
        match msg_type {
            b"1" => {
                let id = message.get(112).unwrap_or_default();
                if id.len() > TEST_ID_LEN_MAX {
                    let fault = Fault { tag: 112, reason: SessionReject::ValueOutOfRange };
                    return self.reject(message, fault, counted);
                }
                let mut text = Text::default();
                text.put(b"0\x01112=").put(id).put(&[SOH]);
                self.say(counted, text.as_bytes());
            }
            b"2" => self.serve_resend(message, counted),
            b"4" => match message.number(36) {
                Some(new) if self.expected <= new && new <= u64::from(u32::MAX) => {
                    self.expected = new;
                    if self.gap_to.is_some_and(|gap_to| gap_to < new) {
                        self.gap_to = None;
                    }
                }
                _ => {
                    let fault = Fault { tag: 36, reason: SessionReject::ValueOutOfRange };
                    self.reject(message, fault, counted);
                }
            },
            b"5" => self.log_out(b"", counted),
            b"A" => {
                let fault = Fault { tag: 35, reason: SessionReject::Other };
                self.reject(message, fault, counted);
            }
            _ => {}
        }
    }

    /// Checks an application message with the expected number: true if the venue takes messages of its type and its
    /// fields are right.
    fn takes_application(&mut self, message: &Message<'_>, msg_type: &[u8], counted: u32) -> bool {
        let version = message.get(1128).filter(|_| self.version == Version::Fix50Sp1);
        if version.is_some_and(|version| version != APPL_VER_ID.as_bytes()) {
            self.reject(message, Fault { tag: 1128, reason: SessionReject::ApplVersion }, counted);
            return false;
        }
        let row = dictionary::message(msg_type, self.version);
        let is_market_data = self.settings.service == FixService::MarketData;
        let is_offered = row.is_some_and(|row| {
            row.direction == Direction::ToVenue && row.is_of_market_data() == is_market_data
        });
        if !is_offered {
            let text = business_reject(counted, msg_type, b"3", b"message type is not offered");
            self.say(counted, text.as_bytes());
            return false;
        }
        if !self.check(message, counted) {
            return false;
        }
        let is_name = |tag| {
            message.get(tag).is_none_or(|name| {
                name.last() != Some(&b' ') && ClOrdId::from_slice(name).is_some()
            })
        };
        if let Some(tag) = [11, 41, 262, 320, 324, 335].into_iter().find(|tag| !is_name(*tag)) {
            let fault = Fault { tag, reason: SessionReject::ValueOutOfRange };
            self.reject(message, fault, counted);
            return false;
        }
        true
    }

    /// Compares a message with the dictionary, and rejects it if it has a fault.
    fn check(&mut self, message: &Message<'_>, counted: u32) -> bool {
        let row = dictionary::message(message.msg_type(), self.version);
        let Some(row) = row else { return false };
        match dictionary::check(message, row, self.version) {
            Ok(()) => true,
            Err(fault) => {
                self.reject(message, fault, counted);
                false
            }
        }
    }

    fn too_low(&mut self, message: &Message<'_>, number: u64) {
        if !message.is_yes(43) {
            let mut text = Text::default();
            text.too_low(self.expected, number);
            return self.log_out(text.as_bytes(), 0);
        }
        let (sent, first) = (message.get(52), message.get(122));
        match (sent.and_then(read_time), first.and_then(read_time)) {
            (_, None) => {
                let fault = Fault { tag: 122, reason: SessionReject::RequiredTagMissing };
                self.reject(message, fault, 0);
            }
            (Some(sent), Some(first)) if sent < first => {
                self.reject(message, Fault { tag: 122, reason: SessionReject::SendingTime }, 0);
                self.log_out(b"OrigSendingTime is after SendingTime", 0);
            }
            _ => {}
        }
    }

    /// SequenceReset in reset mode: its own number is ignored.
    fn reset_to(&mut self, message: &Message<'_>) {
        if !self.check(message, 0) {
            return;
        }
        match message.number(36) {
            Some(new) if self.expected <= new && new <= u64::from(u32::MAX) => {
                self.expected = new;
                self.gap_to = None;
            }
            _ => {
                let fault = Fault { tag: 36, reason: SessionReject::ValueOutOfRange };
                self.reject(message, fault, 0);
            }
        }
    }

    fn reject(&mut self, message: &Message<'_>, fault: Fault, counted: u32) {
        let mut text = Text::default();
        text.put(b"3\x0145=").number(message.number(34).unwrap_or(0).min(u32::MAX.into()));
        if fault.tag > 0 {
            text.put(b"\x01371=").number(fault.tag.into());
        }
        let msg_type = message.msg_type();
        let is_plain = msg_type.iter().all(u8::is_ascii_alphanumeric) && !msg_type.is_empty();
        if is_plain && msg_type.len() <= 2 {
            text.put(b"\x01372=").put(msg_type);
        }
        if let Some(code) = fault.reason.code(self.version) {
            text.put(b"\x01373=").number(code.into());
        }
        // Cut to the room of a note.
        let words = fault.reason.text().as_bytes();
        let room = text.room() - b"\x0158=\x01".len();
        text.put(b"\x0158=").put(&words[..words.len().min(room)]).put(&[SOH]);
        self.say(counted, text.as_bytes());
    }

    fn log_out(&mut self, words: &[u8], counted: u32) {
        let mut text = Text::default();
        text.put(b"5\x01");
        if !words.is_empty() {
            text.put(b"58=").put(words).put(&[SOH]);
        }
        self.say(counted, text.as_bytes());
        let was_logged_on = self.state == State::LoggedOn;
        self.enter(State::LogoutAsked { was_logged_on });
    }

    fn say(&mut self, counted: u32, fields: &[u8]) {
        self.note(&FixNote::Session { counted, fields });
    }

    fn note(&mut self, note: &FixNote<'_>) {
        self.notes.push_back(note.note(SessionId(0)));
    }

    fn is_near(&self, sent: Timestamp) -> bool {
        self.now_ns.abs_diff(sent.0) <= SENDING_TIME_NS
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.since_ns = self.now_ns;
    }

    /// Sends the next message of the session; `number` is its number in the reply stream. Messages before the
    /// answer to the Logon are not sent: the client sees the gap and requests them.
    pub fn send(&mut self, message: &[u8], number: u64, now_ns: u64) {
        self.now_ns = now_ns;
        let Some((msg_type, msg_seq_num)) = head(message) else { return };
        match self.state {
            State::Accepted if msg_type == b"A" => {
                self.heard_ns = now_ns;
                self.enter(State::LoggedOn);
            }
            State::LoggedOn => {}
            State::LogoutAsked { was_logged_on } if was_logged_on || msg_type == b"5" => {
                if msg_type == b"5" {
                    self.enter(State::LoggedOut);
                }
            }
            _ => return,
        }
        self.base = number - msg_seq_num;
        self.sent_last = msg_seq_num;
        self.put(message, now_ns);
    }

    fn put(&mut self, message: &[u8], now_ns: u64) {
        self.make_room();
        self.outgoing.extend_from_slice(message);
        self.put_ns = now_ns;
    }

    /// Removes the written bytes, once they are the larger part.
    fn make_room(&mut self) {
        if self.written > 4096 && self.written * 2 > self.outgoing.len() {
            self.outgoing.drain(..self.written);
            self.written = 0;
        }
    }

    /// Requests the next page of a list, after the client was sent all pages so far.
    pub fn ask_for_more(&mut self, page: PageNote) {
        if self.state == State::LoggedOn {
            self.note(&FixNote::More(page));
        }
    }

    /// Bytes to be written to the socket.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing[self.written..]
    }

    /// Bytes held in memory, those taken and written included: 128 KiB of incoming ones at most.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.incoming.len() + self.outgoing.len()
    }

    /// Marks the first `len` bytes of [`outgoing`](Self::outgoing) as written.
    ///
    /// # Panics
    /// `len` is more than the waiting bytes.
    pub fn sent(&mut self, len: usize) {
        assert!(len <= self.outgoing.len() - self.written, "no more is written than waits");
        self.written += len;
        if self.written == self.outgoing.len() {
            self.outgoing.clear();
            self.written = 0;
        }
    }

    /// True if [`next`](Self::next) returns something without another byte: a note, or the end.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.notes.is_empty() || (self.state == State::LoggedOut && self.outgoing().is_empty())
    }

    /// Lets time pass: requests a note for a Heartbeat or a TestRequest that is due.
    ///
    /// # Errors
    /// The client exceeded a time limit.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), FixTimeout> {
        self.now_ns = now_ns;
        let since = |moment: u64| now_ns.saturating_sub(moment);
        if self.state != State::LoggedOn {
            let is_over = since(self.since_ns) >= self.settings.login_timeout_ns;
            return if is_over { Err(FixTimeout::Logon) } else { Ok(()) };
        }
        if self.heartbeat_ns == 0 {
            return Ok(());
        }
        if let Some(tested_ns) = self.tested_ns {
            if since(tested_ns) >= self.heartbeat_ns {
                return Err(FixTimeout::Silence);
            }
        } else if since(self.heard_ns) >= self.heartbeat_ns + self.heartbeat_ns / 5 {
            self.tested_ns = Some(now_ns);
            self.put_ns = now_ns;
            self.say(0, b"1\x01112=TEST\x01");
        }
        if since(self.put_ns) >= self.heartbeat_ns && self.outgoing().is_empty() {
            self.put_ns = now_ns;
            self.say(0, b"0\x01");
        }
        Ok(())
    }
}

/// MsgType and MsgSeqNum of a message that the venue wrote; `None` if it is not a FIX message.
fn head(message: &[u8]) -> Option<(&[u8], u64)> {
    let mut fields = message.split(|byte| *byte == SOH);
    if !fields.next()?.starts_with(b"8=FIX") {
        return None;
    }
    let msg_type = fields.nth(1)?.strip_prefix(b"35=")?;
    let number = super::message::unsigned(fields.next()?.strip_prefix(b"34=")?)?;
    Some((msg_type, number))
}

const _: () =
    assert!(MESSAGE_LEN_MAX <= UNREAD_MAX / 2, "a message fits beside what a read brings");
