//! The server's side of a connection.

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
/// Give [`receive`](Self::receive) the socket's bytes, call [`next`](Self::next) until it
/// returns `None`, answer, and write [`outgoing`](Self::outgoing); call [`tick`](Self::tick) now and then.
/// After an error, a logout or a reject the connection is done: write the rest of `outgoing` and close.
#[derive(Debug)]
pub struct Server {
    line: Line,
    state: State,
    /// Number of the next sequenced message.
    next_sequence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Only a login is accepted.
    Connected,
    /// The caller has a login and has not answered; later bytes wait.
    LoginAsked,
    /// Logged in.
    LoggedIn,
    /// Logged in, after the end of the session: no sequenced message follows.
    Ended,
    /// Done: rejected, logged out or in violation.
    Closed,
}

/// A packet from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerHappening<'a> {
    /// A login: answer with [`Server::accept`] or [`Server::reject`]. No other packet is returned
    /// until then.
    Login(LoginRequest),
    /// A message.
    Message(&'a [u8]),
    /// A packet without an effect was taken: a heartbeat, or debug text.
    Taken,
    /// A logout: close the connection.
    Logout,
}

impl Server {
    /// A new connection.
    #[must_use]
    pub fn new(timers: Timers, now_ns: u64) -> Self {
        Self { line: Line::new(timers, now_ns), state: State::Connected, next_sequence: 1 }
    }

    /// Takes bytes from the socket, cut anywhere.
    ///
    /// # Errors
    /// More bytes wait than one read may bring. A caller that calls [`next`](Self::next) until `None`
    /// before each read of at most 64 KiB never gets this error.
    pub fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), Violation> {
        if self.state == State::Closed {
            return Ok(());
        }
        self.line.receive(bytes, now_ns).inspect_err(|_| self.state = State::Closed)
    }

    /// The client's next packet; `None` until more bytes arrive.
    ///
    /// # Errors
    /// The client violated the protocol.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from it")]
    pub fn next(&mut self) -> Result<Option<ServerHappening<'_>>, Violation> {
        match self.next_packet() {
            Ok(Some(Taken::Login(login))) => Ok(Some(ServerHappening::Login(login))),
            Ok(Some(Taken::Message(packet))) => {
                Ok(Some(ServerHappening::Message(self.line.incoming.payload(&packet))))
            }
            Ok(Some(Taken::Nothing)) => Ok(Some(ServerHappening::Taken)),
            Ok(Some(Taken::Logout)) => Ok(Some(ServerHappening::Logout)),
            Ok(None) => Ok(None),
            Err(violation) => {
                self.state = State::Closed;
                Err(violation)
            }
        }
    }

    fn next_packet(&mut self) -> Result<Option<Taken>, Violation> {
        let length_max = match self.state {
            State::Connected => LOGIN_LENGTH_MAX,
            State::LoggedIn | State::Ended => LENGTH_MAX,
            State::LoginAsked | State::Closed => return Ok(None),
        };
        let Some(packet) = self.line.next(length_max)? else { return Ok(None) };
        match (packet.packet_type, self.state) {
            (DEBUG, _) => Ok(Some(Taken::Nothing)),
            (CLIENT_HEARTBEAT, _) => packet.is_bare().map(|()| Some(Taken::Nothing)),
            (LoginRequestPacket::TYPE, State::Connected) => {
                if packet.length != LOGIN_LENGTH {
                    packet.has_length(LOGIN_LENGTH_MAX)?;
                }
                let login = LoginRequest::read(self.line.incoming.whole(&packet))?;
                self.state = State::LoginAsked;
                if let Some(milliseconds) = login.heartbeat_timeout_ms.filter(|ms| *ms > 0) {
                    self.line.bear(u64::from(milliseconds) * 1_000_000);
                }
                Ok(Some(Taken::Login(login)))
            }
            (UNSEQUENCED, State::LoggedIn | State::Ended) => Ok(Some(Taken::Message(packet))),
            (LOGOUT, _) => {
                packet.is_bare()?;
                self.state = State::Closed;
                Ok(Some(Taken::Logout))
            }
            (LoginRequestPacket::TYPE | UNSEQUENCED, _) => {
                Err(Violation::OutOfPlace(packet.packet_type))
            }
            (packet_type, _) => Err(Violation::UnknownType(packet_type)),
        }
    }

    /// Accepts a login; the next sequenced message has this number.
    ///
    /// # Panics
    /// No login waits for an answer.
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

    /// Rejects a login. The connection is done.
    ///
    /// # Panics
    /// No login waits for an answer.
    pub fn reject(&mut self, reason: LoginRejectReason, now_ns: u64) {
        assert!(self.state == State::LoginAsked, "a login is answered once: {:?}", self.state);
        self.line.outgoing.put(LoginRejectedPacket::TYPE, &[reason.code()], now_ns);
        self.state = State::Closed;
    }

    /// Sends a sequenced message.
    ///
    /// # Panics
    /// No client is logged in, the session has ended, or the message is longer than
    /// [`MESSAGE_LEN_MAX`].
    pub fn send_sequenced(&mut self, message: &[u8], now_ns: u64) {
        assert!(self.state == State::LoggedIn, "sequenced data needs a login: {:?}", self.state);
        self.line.outgoing.put(SEQUENCED, message, now_ns);
        self.next_sequence += 1;
    }

    /// Sends an unsequenced message; clients of version 3.00 do not know them.
    ///
    /// # Panics
    /// No client is logged in, or the message is longer than [`MESSAGE_LEN_MAX`].
    pub fn send_unsequenced(&mut self, message: &[u8], now_ns: u64) {
        assert!(self.is_logged_in(), "unsequenced data needs a login: {:?}", self.state);
        self.line.outgoing.put(UNSEQUENCED, message, now_ns);
    }

    /// Sends text for a human reader, at any time; the end of a long text is cut.
    pub fn send_debug(&mut self, text: &str, now_ns: u64) {
        let text = &text.as_bytes()[..text.len().min(MESSAGE_LEN_MAX)];
        self.line.outgoing.put(DEBUG, text, now_ns);
    }

    /// Sends the end of the session: no sequenced message follows.
    ///
    /// # Panics
    /// No client is logged in, or the session has ended before.
    pub fn end_of_session(&mut self, now_ns: u64) {
        assert!(self.state == State::LoggedIn, "only an open session ends: {:?}", self.state);
        self.line.outgoing.put(END_OF_SESSION, &[], now_ns);
        self.state = State::Ended;
    }

    /// Bytes in memory: at most 128 KiB of incoming ones, and of outgoing ones twice the waiting bytes plus
    /// 4 KiB.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.line.held()
    }

    /// Bytes to be written to the socket. The caller bounds their number.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        self.line.outgoing.waiting()
    }

    /// Marks the first `len` bytes of [`outgoing`](Self::outgoing) as written.
    pub fn sent(&mut self, len: usize) {
        self.line.outgoing.sent(len);
    }

    /// Adds a heartbeat to `outgoing` if one is due.
    ///
    /// # Errors
    /// The client was silent for too long, or was not logged in in time.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), Timeout> {
        match self.state {
            State::Connected | State::LoginAsked => self.line.await_login(now_ns),
            State::LoggedIn | State::Ended => self.line.beat(SERVER_HEARTBEAT, now_ns),
            State::Closed => Ok(()),
        }
    }

    /// True from [`accept`](Self::accept) until the connection is done.
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        matches!(self.state, State::LoggedIn | State::Ended)
    }

    /// True once the connection is done: write the rest of `outgoing` and close it.
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

/// A packet by type, before its payload is borrowed.
enum Taken {
    Login(LoginRequest),
    Message(super::buffer::Packet),
    Nothing,
    Logout,
}
