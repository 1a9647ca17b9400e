//! One connection, seen from the server.

use super::{
    CLIENT_HEARTBEAT, DEBUG, END_OF_SESSION, LENGTH_MAX, LOGIN_LENGTH, LOGIN_LENGTH_MAX, LOGOUT,
    LoginAcceptedPacket, LoginRejectReason, LoginRejectedPacket, LoginRequest, LoginRequestPacket,
    MESSAGE_LEN_MAX, SEQUENCED, SERVER_HEARTBEAT, Timeout, Timers, UNSEQUENCED, Violation,
    line::Line,
};
use crate::{
    field::{decimal_right_aligned, text_right_aligned},
    layout::Message,
};
use zerocopy::IntoBytes;

/// The server's side of one connection.
///
/// [`receive`](Self::receive) what the socket gives, take it up with [`next`](Self::next) until it
/// says `None`, answer, and write [`outgoing`](Self::outgoing); [`tick`](Self::tick) now and then.
/// After an error, a logout or a reject the connection is done: write what waits and close.
#[derive(Debug)]
pub struct Server {
    line: Line,
    state: State,
    /// Number of the next sequenced message.
    next_sequence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing but a login is taken.
    Connected,
    /// A login was handed to the caller, who has not answered; what follows it waits.
    LoginAsked,
    /// Messages go both ways.
    LoggedIn,
    /// As logged in, but nothing sequenced will come any more.
    Ended,
    /// Done: rejected, logged out or in violation.
    Closed,
}

/// What a client did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerHappening<'a> {
    /// It asks to log in: answer with [`Server::accept`] or [`Server::reject`]. Nothing more
    /// happens until then.
    Login(LoginRequest),
    /// It sent a message.
    Message(&'a [u8]),
    /// It is gone: close.
    Logout,
}

impl Server {
    /// A connection that was accepted now.
    #[must_use]
    pub fn new(timers: Timers, now_ns: u64) -> Self {
        Self { line: Line::new(timers, now_ns), state: State::Connected, next_sequence: 1 }
    }

    /// Takes bytes as the socket gave them, cut anywhere.
    ///
    /// # Errors
    /// If more waits than [`next`](Self::next) was asked for: a reader that takes up everything
    /// before it reads at most 64 KiB more never sees this.
    pub fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), Violation> {
        if self.state == State::Closed {
            return Ok(());
        }
        self.line.receive(bytes, now_ns).inspect_err(|_| self.state = State::Closed)
    }

    /// What the client did next; `None` until more arrives.
    ///
    /// # Errors
    /// If the client broke the rules.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from it")]
    pub fn next(&mut self) -> Result<Option<ServerHappening<'_>>, Violation> {
        match self.next_packet() {
            Ok(Some(Taken::Login(login))) => Ok(Some(ServerHappening::Login(login))),
            Ok(Some(Taken::Message(packet))) => {
                Ok(Some(ServerHappening::Message(self.line.incoming.payload(&packet))))
            }
            Ok(Some(Taken::Logout)) => Ok(Some(ServerHappening::Logout)),
            Ok(None) => Ok(None),
            Err(violation) => {
                self.state = State::Closed;
                Err(violation)
            }
        }
    }

    fn next_packet(&mut self) -> Result<Option<Taken>, Violation> {
        loop {
            let length_max = match self.state {
                State::Connected => LOGIN_LENGTH_MAX,
                State::LoggedIn | State::Ended => LENGTH_MAX,
                State::LoginAsked | State::Closed => return Ok(None),
            };
            let Some(packet) = self.line.next(length_max)? else { return Ok(None) };
            match (packet.packet_type, self.state) {
                (DEBUG, _) => {}
                (CLIENT_HEARTBEAT, _) => packet.is_bare()?,
                (LoginRequestPacket::TYPE, State::Connected) => {
                    if packet.length != LOGIN_LENGTH {
                        packet.has_length(LOGIN_LENGTH_MAX)?;
                    }
                    let login = LoginRequest::read(self.line.incoming.whole(&packet))?;
                    self.state = State::LoginAsked;
                    if let Some(milliseconds) = login.heartbeat_timeout_ms.filter(|ms| *ms > 0) {
                        self.line.bear(u64::from(milliseconds) * 1_000_000);
                    }
                    return Ok(Some(Taken::Login(login)));
                }
                (UNSEQUENCED, State::LoggedIn | State::Ended) => {
                    return Ok(Some(Taken::Message(packet)));
                }
                (LOGOUT, _) => {
                    packet.is_bare()?;
                    self.state = State::Closed;
                    return Ok(Some(Taken::Logout));
                }
                (LoginRequestPacket::TYPE | UNSEQUENCED, _) => {
                    return Err(Violation::OutOfPlace(packet.packet_type));
                }
                (packet_type, _) => return Err(Violation::UnknownType(packet_type)),
            }
        }
    }

    /// Answers a login: the session is open and the next sequenced message has this number.
    ///
    /// # Panics
    /// If no login was asked.
    pub fn accept(&mut self, session: &[u8; 10], next_sequence: u64, now_ns: u64) {
        assert!(self.state == State::LoginAsked, "a login is answered once: {:?}", self.state);
        let accepted = LoginAcceptedPacket {
            packet_length: 31.into(),
            packet_type: LoginAcceptedPacket::TYPE,
            session: text_right_aligned(session),
            sequence_number: decimal_right_aligned(next_sequence),
        };
        self.line.outgoing.put_whole(accepted.as_bytes(), now_ns);
        self.next_sequence = next_sequence;
        self.line.hear(now_ns);
        self.state = State::LoggedIn;
    }

    /// Answers a login: no. The connection is done.
    ///
    /// # Panics
    /// If no login was asked.
    pub fn reject(&mut self, reason: LoginRejectReason, now_ns: u64) {
        assert!(self.state == State::LoginAsked, "a login is answered once: {:?}", self.state);
        self.line.outgoing.put(LoginRejectedPacket::TYPE, &[reason.code()], now_ns);
        self.state = State::Closed;
    }

    /// Sends a message that counts.
    ///
    /// # Panics
    /// If nobody is logged in, the session has ended, or the message is longer than
    /// [`MESSAGE_LEN_MAX`].
    pub fn send_sequenced(&mut self, message: &[u8], now_ns: u64) {
        assert!(self.state == State::LoggedIn, "sequenced data needs a login: {:?}", self.state);
        self.line.outgoing.put(SEQUENCED, message, now_ns);
        self.next_sequence += 1;
    }

    /// Sends a message that does not count; clients of version 3.00 do not know them.
    ///
    /// # Panics
    /// If nobody is logged in, or the message is longer than [`MESSAGE_LEN_MAX`].
    pub fn send_unsequenced(&mut self, message: &[u8], now_ns: u64) {
        assert!(self.is_logged_in(), "unsequenced data needs a login: {:?}", self.state);
        self.line.outgoing.put(UNSEQUENCED, message, now_ns);
    }

    /// Sends text for a human reader, at any time; what is too long is cut.
    pub fn send_debug(&mut self, text: &str, now_ns: u64) {
        let text = &text.as_bytes()[..text.len().min(MESSAGE_LEN_MAX)];
        self.line.outgoing.put(DEBUG, text, now_ns);
    }

    /// Says that nothing sequenced will come in this session any more.
    ///
    /// # Panics
    /// If nobody is logged in, or the session has ended before.
    pub fn end_of_session(&mut self, now_ns: u64) {
        assert!(self.state == State::LoggedIn, "only an open session ends: {:?}", self.state);
        self.line.outgoing.put(END_OF_SESSION, &[], now_ns);
        self.state = State::Ended;
    }

    /// Bytes to be written to the socket. Their number is for the caller to bound.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        self.line.outgoing.waiting()
    }

    /// The first `len` of [`outgoing`](Self::outgoing) were written.
    pub fn sent(&mut self, len: usize) {
        self.line.outgoing.sent(len);
    }

    /// Lets time pass: a heartbeat is put out if one is due.
    ///
    /// # Errors
    /// If the client let a time pass.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), Timeout> {
        match self.state {
            State::Connected => self.line.await_login(now_ns),
            State::LoggedIn | State::Ended => self.line.beat(SERVER_HEARTBEAT, now_ns),
            State::LoginAsked | State::Closed => Ok(()),
        }
    }

    /// True from [`accept`](Self::accept) until the connection is done.
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        matches!(self.state, State::LoggedIn | State::Ended)
    }

    /// True once the connection is done: write what waits and close.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Number of the next sequenced message.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }
}

/// A happening before it borrows.
enum Taken {
    Login(LoginRequest),
    Message(super::buffer::Packet),
    Logout,
}
