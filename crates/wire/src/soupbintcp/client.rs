//! The client's side of a connection.

use market::Text;
use zerocopy::{FromBytes, IntoBytes};

use super::{
    CLIENT_HEARTBEAT, DEBUG, END_OF_SESSION, LENGTH_MAX, LOGOUT, LoginAcceptedPacket,
    LoginRejectReason, LoginRejectedPacket, LoginRequest, SEQUENCED, SERVER_HEARTBEAT, Timeout,
    Timers, UNSEQUENCED, Violation, buffer::Packet, line::Line, number, text,
};
use crate::layout::Message;

/// The client's side of one connection. It sends its login first.
///
/// Give [`receive`](Self::receive) the socket's bytes, call [`next`](Self::next) until it
/// returns `None`, and write [`outgoing`](Self::outgoing); call [`tick`](Self::tick) now and then.
#[derive(Debug)]
pub struct Client {
    line: Line,
    state: State,
    /// Number of the next sequenced message.
    next_sequence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The login has no answer yet.
    LoginAsked,
    /// Logged in.
    LoggedIn,
    /// The session has ended.
    Ended,
    /// Done: rejected, logged out or in violation.
    Closed,
}

/// A packet from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientHappening<'a> {
    /// The login is accepted.
    Accepted {
        /// The open session; a login that continues it names it.
        session: Text<10>,
        /// Number of the next sequenced message.
        next_sequence: u64,
    },
    /// The login is rejected; the server closes.
    Rejected(LoginRejectReason),
    /// A sequenced message and its number.
    Sequenced(u64, &'a [u8]),
    /// An unsequenced message.
    Unsequenced(&'a [u8]),
    /// The session ended: no sequenced message follows, and the server closes.
    EndOfSession,
    /// Text for a human reader; programs ignore it.
    Debug(&'a [u8]),
}

impl Client {
    /// A new connection; `outgoing` has the login.
    ///
    /// # Panics
    /// The heartbeat timeout is above 99,999 ms.
    #[must_use]
    pub fn new(timers: Timers, login: LoginRequest, now_ns: u64) -> Self {
        let mut line = Line::new(timers, now_ns);
        line.outgoing.put_whole(login.packet().as_bytes(), now_ns);
        if let Some(heartbeat_timeout) = login.heartbeat_timeout() {
            line.outgoing.put_whole(&heartbeat_timeout, now_ns);
        }
        Self { line, state: State::LoginAsked, next_sequence: login.sequence_number.unwrap_or(1) }
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

    /// The server's next packet; `None` until more bytes arrive.
    ///
    /// # Errors
    /// The server violated the protocol.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from it")]
    pub fn next(&mut self) -> Result<Option<ClientHappening<'_>>, Violation> {
        // Nearly all packets are sequenced data.
        if self.state == State::LoggedIn
            && let Some(payload) = self.line.next_of(SEQUENCED)
        {
            let number = self.take_number();
            return Ok(Some(ClientHappening::Sequenced(number, self.line.incoming.at(payload))));
        }
        match self.next_packet() {
            Ok(Some(Taken::Accepted { session, next_sequence })) => {
                Ok(Some(ClientHappening::Accepted { session, next_sequence }))
            }
            Ok(Some(Taken::Rejected(reason))) => Ok(Some(ClientHappening::Rejected(reason))),
            Ok(Some(Taken::Sequenced(packet))) => {
                let number = self.take_number();
                Ok(Some(ClientHappening::Sequenced(number, self.line.incoming.payload(&packet))))
            }
            Ok(Some(Taken::Unsequenced(packet))) => {
                Ok(Some(ClientHappening::Unsequenced(self.line.incoming.payload(&packet))))
            }
            Ok(Some(Taken::EndOfSession)) => Ok(Some(ClientHappening::EndOfSession)),
            Ok(Some(Taken::Debug(packet))) => {
                Ok(Some(ClientHappening::Debug(self.line.incoming.payload(&packet))))
            }
            Ok(None) => Ok(None),
            Err(violation) => {
                self.state = State::Closed;
                Err(violation)
            }
        }
    }

    /// The number of the sequenced message that was just taken.
    fn take_number(&mut self) -> u64 {
        let number = self.next_sequence;
        self.next_sequence = number.saturating_add(1);
        number
    }

    fn next_packet(&mut self) -> Result<Option<Taken>, Violation> {
        loop {
            if self.state == State::Closed {
                return Ok(None);
            }
            let Some(packet) = self.line.next(LENGTH_MAX)? else { return Ok(None) };
            return Ok(Some(match (packet.packet_type, self.state) {
                (DEBUG, _) => Taken::Debug(packet),
                (SERVER_HEARTBEAT, _) => {
                    packet.is_bare()?;
                    continue;
                }
                (LoginAcceptedPacket::TYPE, State::LoginAsked) => self.accepted(&packet)?,
                (LoginRejectedPacket::TYPE, State::LoginAsked) => {
                    packet.has_length(2)?;
                    let code = self.line.incoming.payload(&packet)[0];
                    let reason = LoginRejectReason::from_code(code)
                        .ok_or(Violation::Field("RejectReasonCode"))?;
                    self.state = State::Closed;
                    Taken::Rejected(reason)
                }
                (SEQUENCED, State::LoggedIn) => Taken::Sequenced(packet),
                (UNSEQUENCED, State::LoggedIn | State::Ended) => Taken::Unsequenced(packet),
                (END_OF_SESSION, State::LoggedIn) => {
                    packet.is_bare()?;
                    self.state = State::Ended;
                    Taken::EndOfSession
                }
                (
                    LoginAcceptedPacket::TYPE
                    | LoginRejectedPacket::TYPE
                    | SEQUENCED
                    | UNSEQUENCED
                    | END_OF_SESSION,
                    _,
                ) => return Err(Violation::OutOfPlace(packet.packet_type)),
                (packet_type, _) => return Err(Violation::UnknownType(packet_type)),
            }));
        }
    }

    fn accepted(&mut self, packet: &Packet) -> Result<Taken, Violation> {
        let fields =
            LoginAcceptedPacket::ref_from_bytes(self.line.incoming.whole(packet)).map_err(
                |_| Violation::Length { packet_type: packet.packet_type, length: packet.length },
            )?;
        let session = text(&fields.session, "Session")?;
        let next_sequence = number(&fields.sequence_number, "SequenceNumber")?
            .ok_or(Violation::Field("SequenceNumber"))?;
        self.next_sequence = next_sequence;
        self.state = State::LoggedIn;
        Ok(Taken::Accepted { session, next_sequence })
    }

    /// Sends a message.
    ///
    /// # Panics
    /// The client is not logged in, or the message is longer than
    /// [`MESSAGE_LEN_MAX`](super::MESSAGE_LEN_MAX).
    pub fn send(&mut self, message: &[u8], now_ns: u64) {
        assert!(self.is_logged_in(), "a message needs a login: {:?}", self.state);
        self.line.outgoing.put(UNSEQUENCED, message, now_ns);
    }

    /// Logs out. The connection is done: write the rest of `outgoing` and close it.
    pub fn logout(&mut self, now_ns: u64) {
        if self.state != State::Closed {
            self.line.outgoing.put(LOGOUT, &[], now_ns);
            self.state = State::Closed;
        }
    }

    /// Bytes in memory: at most 128 KiB of incoming ones, and of outgoing ones twice the waiting bytes plus
    /// 4 KiB.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.line.held()
    }

    /// Bytes to be written to the socket.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        self.line.outgoing.waiting()
    }

    /// Marks the first `len` bytes of [`outgoing`](Self::outgoing) as written.
    pub fn sent(&mut self, len: usize) {
        self.line.outgoing.sent(len);
    }

    /// Adds a heartbeat to `outgoing` if one is due and the client is logged in.
    ///
    /// # Errors
    /// The server was silent for too long.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), Timeout> {
        match self.state {
            State::LoginAsked => self.line.await_login(now_ns),
            State::LoggedIn | State::Ended => self.line.beat(CLIENT_HEARTBEAT, now_ns),
            State::Closed => Ok(()),
        }
    }

    /// True from the accepted login until the connection is done.
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        matches!(self.state, State::LoggedIn | State::Ended)
    }

    /// True once the connection is done: write the rest of `outgoing` and close it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Number of the next sequenced message, for the next login.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }
}

/// A packet by type, before its payload is borrowed.
enum Taken {
    Accepted { session: Text<10>, next_sequence: u64 },
    Rejected(LoginRejectReason),
    Sequenced(Packet),
    Unsequenced(Packet),
    EndOfSession,
    Debug(Packet),
}
