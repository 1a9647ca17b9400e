//! A client's side of a session, from the hello on.

use alloc::{collections::VecDeque, vec::Vec};
use core::fmt;

use zerocopy::{FromBytes, IntoBytes};

use super::{
    ClientHeartbeatPacket, DATAGRAM_LEN_MAX, DebugPacket, HelloPacket, Login, LoginAcceptedPacket,
    LoginRejectReason, LoginRejectedPacket, LogoutRequestPacket, MessagesPacket,
    RESEND_REPLIES_MAX, ResendRequestPacket, Timers, TokenPacket, VERSION,
};
use crate::{
    layout::Message,
    moldudp64::{BLOCK_HEADER_LEN, ReceiveError, Receiver, ReceiverLimits},
    soupbintcp::Timeout,
};

/// An unanswered request is sent again after this time, in nanoseconds.
const RETRY_NS: u64 = 250_000_000;

/// A client's side of one session.
///
/// Give the venue's datagrams to [`receive`](Self::receive), call [`tick`](Self::tick) regularly, and send the datagrams
/// of [`take_outgoing`](Self::take_outgoing). The client requests missing replies. The caller must repeat an OUCH request
/// that gets no answer; this is safe, because a request with a used number has no effect.
#[derive(Debug)]
pub struct Client {
    timers: Timers,
    login: Login,
    nonce: u64,
    token: u64,
    state: ClientState,
    /// The receiver of replies, once the login was accepted.
    receiver: Option<Receiver>,
    /// Replies below this number were requested again, at that time.
    resend_end: u64,
    resend_ns: u64,
    outgoing: VecDeque<Vec<u8>>,
    /// The last text of the venue for a human reader.
    text: Option<Vec<u8>>,
    begun_ns: u64,
    heard_ns: u64,
    sent_ns: u64,
}

/// The state of a client in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// The client requests a token.
    Greets,
    /// The client has a token, and requests to log in.
    LogsIn,
    /// The client may send messages.
    LoggedIn,
    /// The venue has refused the login.
    Rejected(LoginRejectReason),
    /// The venue has ended the session, and all replies were delivered.
    Ended,
    /// The client has ended the session.
    LoggedOut,
}

/// A datagram that is not one of the venue's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFault {
    /// No datagram of this protocol has this type and length.
    Unknown,
    /// A packet of replies cannot be taken.
    Packet(ReceiveError),
}

impl fmt::Display for ClientFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("a datagram of no known type and length"),
            Self::Packet(error) => write!(f, "a packet of replies: {error}"),
        }
    }
}

impl core::error::Error for ClientFault {}

impl Client {
    /// Greets the venue. The nonce must differ for each session, and be hard to guess.
    #[must_use]
    pub fn new(timers: Timers, login: Login, nonce: u64, now_ns: u64) -> Self {
        let mut client = Self {
            timers,
            login,
            nonce,
            token: 0,
            state: ClientState::Greets,
            receiver: None,
            resend_end: 0,
            resend_ns: 0,
            outgoing: VecDeque::new(),
            text: None,
            begun_ns: now_ns,
            heard_ns: now_ns,
            sent_ns: now_ns,
        };
        client.ask(now_ns);
        client
    }

    /// The state of the session.
    #[must_use]
    pub const fn state(&self) -> ClientState {
        self.state
    }

    /// Takes a datagram of the venue, and delivers the replies that are next in order, each with its number.
    ///
    /// # Errors
    /// The datagram is not of this session; nothing has changed.
    pub fn receive(
        &mut self,
        datagram: &[u8],
        now_ns: u64,
        deliver: &mut impl FnMut(u64, &[u8]),
    ) -> Result<(), ClientFault> {
        let kind = *datagram.first().ok_or(ClientFault::Unknown)?;
        match kind {
            TokenPacket::TYPE => {
                let packet =
                    TokenPacket::ref_from_bytes(datagram).map_err(|_| ClientFault::Unknown)?;
                if self.state == ClientState::Greets && packet.nonce.get() == self.nonce {
                    self.token = packet.token.get();
                    self.state = ClientState::LogsIn;
                    self.ask(now_ns);
                }
            }
            LoginAcceptedPacket::TYPE => {
                let packet = LoginAcceptedPacket::ref_from_bytes(datagram)
                    .map_err(|_| ClientFault::Unknown)?;
                if self.state == ClientState::LogsIn && packet.token.get() == self.token {
                    self.state = ClientState::LoggedIn;
                    let next = packet.next_sequence_number.get();
                    let limits = ReceiverLimits {
                        request_timeout_ns: RETRY_NS,
                        ..ReceiverLimits::default()
                    };
                    self.receiver = Some(Receiver::for_session(packet.session, next, limits));
                }
            }
            LoginRejectedPacket::TYPE => {
                let packet = LoginRejectedPacket::ref_from_bytes(datagram)
                    .map_err(|_| ClientFault::Unknown)?;
                let reason = LoginRejectReason::from_code(packet.reject_reason_code);
                let reason = reason.ok_or(ClientFault::Unknown)?;
                if self.state == ClientState::LogsIn && packet.token.get() == self.token {
                    self.state = ClientState::Rejected(reason);
                }
            }
            DebugPacket::TYPE => self.text = Some(datagram[1..].to_vec()),
            b'0'..=b'9' => {
                // Replies before the answer to the login are requested after it.
                let Some(receiver) = &mut self.receiver else { return Ok(()) };
                receiver.receive(datagram, now_ns, deliver).map_err(ClientFault::Packet)?;
                if receiver.is_ended() && self.state == ClientState::LoggedIn {
                    self.state = ClientState::Ended;
                }
            }
            _ => return Err(ClientFault::Unknown),
        }
        self.heard_ns = now_ns;
        Ok(())
    }

    /// Lets time pass: repeats unanswered requests, and sends a heartbeat if one is due.
    ///
    /// # Errors
    /// The venue was silent for too long.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), Timeout> {
        let unsent_ns = now_ns.saturating_sub(self.sent_ns);
        match self.state {
            ClientState::Greets | ClientState::LogsIn => {
                if now_ns.saturating_sub(self.begun_ns) >= self.timers.login_timeout_ns {
                    return Err(Timeout::Login);
                }
                if unsent_ns >= RETRY_NS {
                    self.ask(now_ns);
                }
            }
            ClientState::LoggedIn => {
                if now_ns.saturating_sub(self.heard_ns) >= self.timers.receive_timeout_ns {
                    return Err(Timeout::Silence);
                }
                // An answer of several packets is under way for a while.
                let is_under_way = now_ns.saturating_sub(self.resend_ns) < RETRY_NS;
                let end = if is_under_way { self.resend_end } else { 0 };
                let receiver = self.receiver.as_mut().filter(|it| end <= it.expected());
                let missing = receiver.and_then(|receiver| receiver.next_request(now_ns));
                if let Some(request) = missing {
                    let count = request.count.min(RESEND_REPLIES_MAX);
                    self.resend_end = request.sequence_number + u64::from(count);
                    self.resend_ns = now_ns;
                    let packet = ResendRequestPacket {
                        packet_type: ResendRequestPacket::TYPE,
                        token: self.token.into(),
                        sequence_number: request.sequence_number.into(),
                        reply_count: count.into(),
                    };
                    self.put(packet.as_bytes(), now_ns);
                } else if unsent_ns >= self.timers.heartbeat_ns {
                    let packet = ClientHeartbeatPacket {
                        packet_type: ClientHeartbeatPacket::TYPE,
                        token: self.token.into(),
                    };
                    self.put(packet.as_bytes(), now_ns);
                }
            }
            ClientState::Rejected(_) | ClientState::Ended | ClientState::LoggedOut => {}
        }
        Ok(())
    }

    /// Sends a message; several share a datagram while they wait and fit.
    ///
    /// # Panics
    /// The client is not logged in, or the message does not fit a datagram.
    pub fn send(&mut self, message: &[u8], now_ns: u64) {
        assert!(self.state == ClientState::LoggedIn, "messages need a login: {:?}", self.state);
        let block_len = BLOCK_HEADER_LEN + message.len();
        assert!(size_of::<MessagesPacket>() + block_len <= DATAGRAM_LEN_MAX, "a message fits");
        let last = self.outgoing.back().filter(|last| {
            last[0] == MessagesPacket::TYPE && last.len() + block_len <= DATAGRAM_LEN_MAX
        });
        if last.is_none() {
            let header =
                MessagesPacket { packet_type: MessagesPacket::TYPE, token: self.token.into() };
            self.put(header.as_bytes(), now_ns);
        }
        let datagram = self.outgoing.back_mut().expect("there is one with room");
        datagram.extend_from_slice(&(message.len() as u16).to_be_bytes());
        datagram.extend_from_slice(message);
        self.sent_ns = now_ns;
    }

    /// Ends the session. The venue sends no answer; if the logout is lost, the client's silence ends the session.
    pub fn log_out(&mut self, now_ns: u64) {
        if self.state == ClientState::LoggedIn {
            let packet = LogoutRequestPacket {
                packet_type: LogoutRequestPacket::TYPE,
                token: self.token.into(),
            };
            self.put(packet.as_bytes(), now_ns);
        }
        self.state = ClientState::LoggedOut;
    }

    /// The oldest datagram to send.
    pub fn take_outgoing(&mut self) -> Option<Vec<u8>> {
        self.outgoing.pop_front()
    }

    /// Takes the last text of the venue for a human reader.
    pub fn take_text(&mut self) -> Option<Vec<u8>> {
        self.text.take()
    }

    /// Requests the token, or the login.
    fn ask(&mut self, now_ns: u64) {
        if self.state == ClientState::Greets {
            let hello = HelloPacket {
                packet_type: HelloPacket::TYPE,
                version: VERSION,
                nonce: self.nonce.into(),
                padding: [b' '; 22],
            };
            self.put(hello.as_bytes(), now_ns);
        } else {
            let login = self.login.packet(self.token, self.nonce);
            self.put(login.as_bytes(), now_ns);
        }
    }

    fn put(&mut self, datagram: &[u8], now_ns: u64) {
        self.outgoing.push_back(datagram.to_vec());
        self.sent_ns = now_ns;
    }
}
