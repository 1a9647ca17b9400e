//! The venue's side of a FIX session without a log: its numbers restart with each connection, and sent messages are not
//! sent again. Market data has such sessions.
//!
//! Invariant: numbers have no gap, and a ResendRequest is answered by a gap fill. Only messages that wait for the socket
//! are in memory.

use market::{Note, Timestamp};

use super::{
    APPL_VER_ID, Acceptor, Builder, FixHappening, FixTimeout, FixTimers, SOH, Version,
    note::{CompId, FixNote},
};

/// Room for a message of the session: its header, and the fields of a note.
const SESSION_LEN_MAX: usize = 512;

/// One connection. Messages that the acceptor would note in a log are sent at once.
#[derive(Debug)]
pub struct LiveSession {
    acceptor: Acceptor,
    /// The answer to the last message taken.
    note: Option<Note>,
    venue: CompId,
    client: CompId,
    version: Version,
    /// MsgSeqNum of the next message.
    next: u64,
    /// Resends that were filled.
    fills: u64,
}

impl LiveSession {
    /// A newly accepted connection.
    #[must_use]
    pub fn new(settings: FixTimers, now_ns: u64) -> Self {
        Self {
            acceptor: Acceptor::new(settings, now_ns),
            note: None,
            venue: settings.venue,
            client: CompId::BLANK,
            version: Version::Fix44,
            next: 1,
            fills: 0,
        }
    }

    /// The number of resends that were filled, because messages are not sent again.
    #[must_use]
    pub const fn fills(&self) -> u64 {
        self.fills
    }

    /// Takes bytes as the socket gave them, cut anywhere.
    ///
    /// # Errors
    /// As of [`Acceptor::receive`].
    pub fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), &'static str> {
        self.acceptor.receive(bytes, now_ns)
    }

    /// The next request of the client; `None` until more bytes arrive. All messages of the session itself have been
    /// answered when it returns `None`.
    ///
    /// # Errors
    /// As of [`Acceptor::next`].
    pub fn next(&mut self, now_ns: u64) -> Result<Option<FixHappening<'_>>, &'static str> {
        self.answer(now_ns);
        Ok(match self.acceptor.next()? {
            Some(FixHappening::Note(note)) => {
                self.note = Some(note);
                Some(FixHappening::Taken)
            }
            happening => happening,
        })
    }

    /// Sends noted messages, and fills requested gaps.
    fn answer(&mut self, now_ns: u64) {
        while let Some(note) = self.note.take().or_else(|| self.acceptor.next_note()) {
            self.say(&note, now_ns);
        }
        self.fills += u64::from(self.acceptor.fill(now_ns));
    }

    fn say(&mut self, note: &Note, now_ns: u64) {
        let mut buffer = [0; SESSION_LEN_MAX];
        let message = match FixNote::read(note.bytes()) {
            Some(FixNote::Logon(logon)) => {
                (self.client, self.version) = (logon.client, logon.version);
                let mut builder = self.begin(&mut buffer, b"A", now_ns);
                builder.number(98, 0).number(108, logon.heartbeat_s.into()).char(141, b'Y');
                if self.version == Version::Fix50Sp1 {
                    builder.text(1137, APPL_VER_ID);
                }
                builder.finish(self.version)
            }
            Some(FixNote::Session { fields, .. }) => {
                let end = fields.iter().position(|byte| *byte == SOH);
                let (msg_type, fields) = fields.split_at(end.expect("MsgType has an end"));
                let mut builder = self.begin(&mut buffer, msg_type, now_ns);
                builder.fields(&fields[1..]);
                builder.finish(self.version)
            }
            _ => return,
        };
        self.acceptor.send(message, self.next, now_ns);
        self.next += 1;
    }

    /// Accepts the Logon if it resets both numbers; otherwise sends a Logout with that reason.
    ///
    /// # Panics
    /// No Logon waits for an answer, or its client is not this one.
    pub fn accept(&mut self, client: CompId, now_ns: u64) -> bool {
        self.client = client;
        self.version = self.acceptor.version();
        let resets = self.acceptor.logon_resets();
        match resets {
            true => self.acceptor.accept(1, None, now_ns),
            false => self.acceptor.refuse(
                b"market data is not kept: log on with ResetSeqNumFlag=Y and MsgSeqNum 1",
                now_ns,
            ),
        }
        self.answer(now_ns);
        resets
    }

    /// Ends the session with a Logout.
    pub fn end(&mut self, words: &str, now_ns: u64) {
        self.acceptor.end(words.as_bytes(), now_ns);
        self.answer(now_ns);
    }

    /// Begins a message of this type with its header.
    pub fn begin<'a>(&self, buffer: &'a mut [u8], msg_type: &[u8], now_ns: u64) -> Builder<'a> {
        let mut builder = Builder::new(buffer);
        builder.bytes(35, msg_type).number(34, self.next).text(49, self.venue.as_str());
        builder.time(52, Timestamp(now_ns)).text(56, self.client.as_str());
        builder
    }

    /// Sends the message begun last by [`begin`](Self::begin).
    pub fn send(&mut self, builder: Builder<'_>, now_ns: u64) {
        self.acceptor.send(builder.finish(self.version), self.next, now_ns);
        self.next += 1;
    }

    /// Bytes to be written to the socket.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        self.acceptor.outgoing()
    }

    /// Marks the first `len` bytes of [`outgoing`](Self::outgoing) as written.
    pub fn sent(&mut self, len: usize) {
        self.acceptor.sent(len);
    }

    /// True if [`next`](Self::next) returns a request without another byte.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.note.is_some() || self.acceptor.has_more()
    }

    /// True while messages of the application may be sent.
    #[must_use]
    pub fn is_logged_on(&self) -> bool {
        self.acceptor.is_logged_on()
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// The client exceeded a time limit.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), FixTimeout> {
        let result = self.acceptor.tick(now_ns);
        self.answer(now_ns);
        result
    }
}
