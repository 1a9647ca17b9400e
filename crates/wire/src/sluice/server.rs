//! The venue's side of a session, from the login on.

use alloc::{collections::VecDeque, vec::Vec};
use core::ops::Range;

use zerocopy::{FromBytes, IntoBytes};

use super::{
    CLIENT_HEARTBEAT, DATAGRAM_LEN_MAX, DEBUG, FRAME_HEADER_LEN, HEADER_LEN, LOGOUT, Login,
    LoginAcceptedPacket, LoginRejectReason, LoginRejectedPacket, LoginRequestPacket, MESSAGES,
    RESEND, RESEND_REPLIES_MAX, ResendRequestPacket, Timers, Violation, split_frame,
};
use crate::{
    layout::Message,
    moldudp64::{self, BLOCK_HEADER_LEN, MESSAGE_COUNT_MAX, Session},
    soupbintcp::Timeout,
};

/// The most bytes that may wait to be taken.
const UNREAD_MAX: usize = 128 * 1024;
/// The most waiting resend requests; further ones are ignored, and the client repeats them.
const RESENDS_MAX: usize = 16;

/// The venue's side of one session.
///
/// Give [`receive`](Self::receive) the client's datagrams, each after its length in two bytes, call
/// [`next`](Self::next) until it returns `None`, answer, and send [`outgoing`](Self::outgoing), datagrams in the same
/// form; call [`tick`](Self::tick) now and then. The caller has compared their token with that of
/// the login. After an error, a logout or a reject the session is done: send the rest of `outgoing`.
#[derive(Debug)]
pub struct Server {
    timers: Timers,
    /// The name of the session in the packets of replies.
    session: Session,
    state: State,
    incoming: Vec<u8>,
    /// The number of bytes at the front of `incoming` that were taken.
    taken: usize,
    /// The remaining blocks of the datagram taken last, in `incoming`.
    blocks: Range<usize>,
    outgoing: Vec<u8>,
    /// Bytes at the front of `outgoing` that were sent.
    written: usize,
    /// The last packet of `outgoing`, while a reply may join it.
    open: Option<OpenPacket>,
    /// Number of the next reply to be sent for the first time.
    next_reply: u64,
    /// Replies to be sent again, by number.
    resends: VecDeque<Range<u64>>,
    token: u64,
    /// The number of the first reply, as in the answer to the login.
    accepted_at: u64,
    heard_ns: u64,
    sent_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Only a login is accepted.
    Connected,
    /// The caller has a login and has not answered; later datagrams wait.
    LoginAsked,
    LoggedIn,
    /// Logged in, after the end of the session: no reply follows.
    Ended,
    /// Done: rejected, logged out or in violation.
    Closed,
}

#[derive(Clone, Copy, Debug)]
struct OpenPacket {
    /// The beginning of its frame in `outgoing`.
    at: usize,
    /// The number of the reply that may join it.
    next: u64,
    count: u16,
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerHappening<'a> {
    /// A login: answer with [`Server::accept`] or [`Server::reject`]. No other request is returned until then.
    Login(Login),
    /// A message.
    Message(&'a [u8]),
    /// A datagram that the session handles alone.
    Taken,
    /// A logout: the session is over.
    Logout,
}

enum Taken {
    Login(Login),
    Message(Range<usize>),
    Nothing,
    Logout,
}

impl Server {
    /// Waits for a login.
    #[must_use]
    pub const fn new(timers: Timers, session: Session, now_ns: u64) -> Self {
        Self {
            timers,
            session,
            state: State::Connected,
            incoming: Vec::new(),
            taken: 0,
            blocks: 0..0,
            outgoing: Vec::new(),
            written: 0,
            open: None,
            next_reply: 1,
            resends: VecDeque::new(),
            token: 0,
            accepted_at: 1,
            heard_ns: now_ns,
            sent_ns: now_ns,
        }
    }

    /// Takes datagrams, each after its length, cut anywhere.
    ///
    /// # Errors
    /// More bytes wait than may. A caller that calls [`next`](Self::next) until `None` before each call with at
    /// most 64 KiB never gets this error.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        if self.state == State::Closed {
            return Ok(());
        }
        // A block that was not returned keeps its bytes.
        let kept = if self.blocks.is_empty() { self.taken } else { self.blocks.start };
        if self.incoming.len() - kept + bytes.len() > UNREAD_MAX {
            self.state = State::Closed;
            return Err(Violation::TooMuchUnread);
        }
        self.incoming.drain(..kept);
        self.taken -= kept;
        self.blocks = self.blocks.start.saturating_sub(kept)..self.blocks.end.saturating_sub(kept);
        self.incoming.extend_from_slice(bytes);
        Ok(())
    }

    /// The next request of the client; `None` until more datagrams arrive.
    ///
    /// # Errors
    /// The client broke the protocol.
    pub fn next(&mut self, now_ns: u64) -> Result<Option<ServerHappening<'_>>, Violation> {
        match self.take(now_ns) {
            Ok(Some(Taken::Login(login))) => Ok(Some(ServerHappening::Login(login))),
            Ok(Some(Taken::Message(message))) => {
                Ok(Some(ServerHappening::Message(&self.incoming[message])))
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

    fn take(&mut self, now_ns: u64) -> Result<Option<Taken>, Violation> {
        if matches!(self.state, State::LoginAsked | State::Closed) {
            return Ok(None);
        }
        if !self.blocks.is_empty() {
            return self.take_block().map(|message| Some(Taken::Message(message)));
        }
        let Some((datagram, _)) = split_frame(&self.incoming[self.taken..]) else {
            return Ok(None);
        };
        let begins = self.taken + FRAME_HEADER_LEN;
        self.taken = begins + datagram.len();
        self.heard_ns = now_ns;
        let kind = *datagram.first().ok_or(Violation::Length(0))?;
        let is_bare = || match datagram.len() {
            HEADER_LEN => Ok(()),
            _ => Err(Violation::Length(kind)),
        };
        match (kind, self.state) {
            (LoginRequestPacket::TYPE, State::Connected) => {
                let login = Login::read(datagram)?;
                let header = LoginRequestPacket::ref_from_bytes(datagram).expect("it was read");
                self.token = header.token.get();
                self.state = State::LoginAsked;
                return Ok(Some(Taken::Login(login)));
            }
            // The answer was lost, or is under way.
            (LoginRequestPacket::TYPE, State::LoggedIn) => {
                Login::read(datagram)?;
                self.put_accepted(now_ns);
            }
            (MESSAGES, State::LoggedIn | State::Ended) => {
                if datagram.len() < HEADER_LEN {
                    return Err(Violation::Length(kind));
                }
                self.blocks = begins + HEADER_LEN..self.taken;
            }
            (CLIENT_HEARTBEAT, State::LoggedIn | State::Ended) => is_bare()?,
            (RESEND, State::LoggedIn | State::Ended) => {
                let request = ResendRequestPacket::ref_from_bytes(datagram)
                    .map_err(|_| Violation::Length(kind))?;
                let first = request.sequence_number.get().max(1);
                let count = request.reply_count.get().min(RESEND_REPLIES_MAX);
                let end = first.saturating_add(count.into());
                // Replies that were not sent yet follow anyway.
                let wanted = first..end.min(self.next_reply);
                if !wanted.is_empty() && self.resends.len() < RESENDS_MAX {
                    self.resends.push_back(wanted);
                }
            }
            (LOGOUT, State::LoggedIn | State::Ended) => {
                is_bare()?;
                self.state = State::Closed;
                return Ok(Some(Taken::Logout));
            }
            (LoginRequestPacket::TYPE | MESSAGES | CLIENT_HEARTBEAT | RESEND | LOGOUT, _) => {
                return Err(Violation::OutOfPlace(kind));
            }
            _ => return Err(Violation::UnknownType(kind)),
        }
        Ok(Some(Taken::Nothing))
    }

    fn take_block(&mut self) -> Result<Range<usize>, Violation> {
        let blocks = &self.incoming[self.blocks.clone()];
        let (message, _) = split_frame(blocks).ok_or(Violation::Block)?;
        let begins = self.blocks.start + BLOCK_HEADER_LEN;
        let message = begins..begins + message.len();
        self.blocks.start = message.end;
        Ok(message)
    }

    /// Accepts a login; the next reply has this number.
    ///
    /// # Panics
    /// No login waits for an answer.
    pub fn accept(&mut self, next_reply: u64, now_ns: u64) {
        assert!(self.state == State::LoginAsked, "a login is answered once: {:?}", self.state);
        self.state = State::LoggedIn;
        (self.next_reply, self.accepted_at) = (next_reply, next_reply);
        self.heard_ns = now_ns;
        self.put_accepted(now_ns);
    }

    fn put_accepted(&mut self, now_ns: u64) {
        let accepted = LoginAcceptedPacket {
            packet_type: LoginAcceptedPacket::TYPE,
            token: self.token.into(),
            session: self.session,
            next_sequence_number: self.accepted_at.into(),
        };
        self.put(accepted.as_bytes(), now_ns);
    }

    /// Rejects a login. The session is done.
    ///
    /// # Panics
    /// No login waits for an answer.
    pub fn reject(&mut self, reason: LoginRejectReason, now_ns: u64) {
        assert!(self.state == State::LoginAsked, "a login is answered once: {:?}", self.state);
        self.state = State::Closed;
        let rejected = LoginRejectedPacket {
            packet_type: LoginRejectedPacket::TYPE,
            token: self.token.into(),
            reject_reason_code: reason.code(),
        };
        self.put(rejected.as_bytes(), now_ns);
    }

    /// Sends the next reply; several share a packet while they fit.
    ///
    /// # Panics
    /// No client is logged in, or the number is below that of the next reply.
    pub fn send_reply(&mut self, reply: &[u8], number: u64, now_ns: u64) {
        assert!(self.state == State::LoggedIn, "a reply needs a login: {:?}", self.state);
        assert!(self.next_reply <= number, "replies are sent in order");
        self.next_reply = number + 1;
        self.put_reply(reply, number, now_ns);
    }

    /// The number of the next reply to send again, at the client's request.
    #[must_use]
    pub fn resend_next(&self) -> Option<u64> {
        self.resends.front().map(|wanted| wanted.start)
    }

    /// Sends that reply again; `None` if it is no longer kept, which ends its request.
    ///
    /// # Panics
    /// The client requested none.
    pub fn resend(&mut self, reply: Option<&[u8]>, now_ns: u64) {
        let wanted = self.resends.front_mut().expect("it was asked for");
        let number = wanted.start;
        wanted.start += 1;
        if wanted.is_empty() || reply.is_none() {
            self.resends.pop_front();
        }
        if let Some(reply) = reply {
            self.put_reply(reply, number, now_ns);
        }
    }

    /// Sends text for a human reader; the end of a long text is cut.
    pub fn send_debug(&mut self, text: &str, now_ns: u64) {
        let text = &text.as_bytes()[..text.len().min(DATAGRAM_LEN_MAX - 1)];
        self.begin_frame(1 + text.len());
        self.outgoing.push(DEBUG);
        self.outgoing.extend_from_slice(text);
        self.sent_ns = now_ns;
    }

    /// Sends the end of the session: no reply follows.
    ///
    /// # Panics
    /// No client is logged in, or the session has ended before.
    pub fn end_of_session(&mut self, now_ns: u64) {
        assert!(self.state == State::LoggedIn, "only an open session ends: {:?}", self.state);
        self.state = State::Ended;
        self.put(&moldudp64::header(self.session, self.next_reply, u16::MAX), now_ns);
    }

    /// Adds a heartbeat to `outgoing` if one is due.
    ///
    /// # Errors
    /// The client was silent for too long, or was not logged in in time.
    pub fn tick(&mut self, now_ns: u64) -> Result<(), Timeout> {
        let silent_ns = now_ns.saturating_sub(self.heard_ns);
        match self.state {
            State::Connected | State::LoginAsked if silent_ns >= self.timers.login_timeout_ns => {
                Err(Timeout::Login)
            }
            State::LoggedIn | State::Ended if silent_ns >= self.timers.receive_timeout_ns => {
                Err(Timeout::Silence)
            }
            State::LoggedIn => {
                let is_due = now_ns.saturating_sub(self.sent_ns) >= self.timers.heartbeat_ns;
                if is_due && self.outgoing().is_empty() {
                    self.put(&moldudp64::header(self.session, self.next_reply, 0), now_ns);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Datagrams to be sent, each after its length. The caller bounds their bytes.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing[self.written..]
    }

    /// Marks the first `len` bytes of [`outgoing`](Self::outgoing) as sent: whole datagrams with their lengths.
    ///
    /// # Panics
    /// `len` is more than the waiting bytes.
    pub fn sent(&mut self, len: usize) {
        assert!(len <= self.outgoing().len(), "no more is sent than waits");
        self.written += len;
        self.open = self.open.filter(|open| self.written <= open.at);
        if self.written == self.outgoing.len() {
            self.outgoing.clear();
            self.written = 0;
        }
    }

    /// Bytes in memory: at most 128 KiB of incoming ones, and of outgoing ones twice the waiting bytes plus 4 KiB.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.incoming.len() + self.outgoing.len()
    }

    fn put_reply(&mut self, reply: &[u8], number: u64, now_ns: u64) {
        let block_len = BLOCK_HEADER_LEN + reply.len();
        let joined = self.open.filter(|open| {
            let len = self.outgoing.len() - open.at - FRAME_HEADER_LEN;
            let has_room = open.count < MESSAGE_COUNT_MAX && len + block_len <= DATAGRAM_LEN_MAX;
            open.next == number && has_room
        });
        let mut open = joined.unwrap_or_else(|| {
            self.begin_frame(moldudp64::HEADER_LEN);
            let at = self.outgoing.len() - FRAME_HEADER_LEN;
            self.outgoing.extend_from_slice(&moldudp64::header(self.session, number, 0));
            OpenPacket { at, next: number, count: 0 }
        });
        let reply_len = u16::try_from(reply.len()).expect("a reply fits a block");
        self.outgoing.extend_from_slice(&reply_len.to_be_bytes());
        self.outgoing.extend_from_slice(reply);
        open.count += 1;
        open.next += 1;
        let begins = open.at + FRAME_HEADER_LEN;
        let len = u16::try_from(self.outgoing.len() - begins).expect("a packet fits its length");
        self.outgoing[open.at..begins].copy_from_slice(&len.to_be_bytes());
        let count_at = begins + moldudp64::HEADER_LEN - size_of::<u16>();
        self.outgoing[count_at..count_at + size_of::<u16>()]
            .copy_from_slice(&open.count.to_be_bytes());
        self.open = Some(open);
        self.sent_ns = now_ns;
    }

    fn put(&mut self, datagram: &[u8], now_ns: u64) {
        self.begin_frame(datagram.len());
        self.outgoing.extend_from_slice(datagram);
        self.sent_ns = now_ns;
    }

    /// Begins another datagram of this length, and moves the rest to the front once most of the buffer was sent.
    fn begin_frame(&mut self, len: usize) {
        self.open = None;
        if self.written > 4096 && self.written * 2 > self.outgoing.len() {
            self.outgoing.drain(..self.written);
            self.written = 0;
        }
        let len = u16::try_from(len).expect("a datagram fits its length");
        self.outgoing.extend_from_slice(&len.to_be_bytes());
    }
}
