//! The seam between a session protocol, which knows bytes and messages, and the agent, which knows
//! sockets, admission, turns and throttles. Another protocol over TCP implements [`ClientSession`].
//!
//! Invariant: a session has no socket, no clock and no users.

use std::{marker::PhantomData, ops::Range};

use market::{Command, SessionId, Text, Timestamp};
use wire::{
    fix::Reports,
    ouch,
    ouch42::{Requests, Tokens},
    soupbintcp::{LoginRejectReason, Server, ServerHappening, Timeout, Timers},
};

use crate::{Dialect, LoginFault};

/// One connection's session: takes bytes and time, gives what the client asks for, and holds the bytes to be
/// written.
pub trait ClientSession: Sized {
    /// What all sessions of a port have in common.
    type Options;
    /// What a session keeps between its connections.
    type Memory: Default;
    /// A message of a client, as the session has read it.
    type Message<'a>: Copy;

    /// The name of the agent that serves these sessions.
    const AGENT: &'static str;

    /// Bytes that it adds to a reply, at most.
    const FRAME_BYTES: usize;

    /// The most commands of one message.
    const COMMANDS_MAX: usize = 1;

    /// Steps (a packet taken or a read) that a connection has in one turn while its session alone trades.
    const STEPS_MAX: usize;

    /// As many at most, while other sessions of the venue trade, by any protocol: their requests wait for the end of the turn.
    const STEPS_SHARED_MAX: usize;

    /// What its requests and replies are written in.
    const DIALECT: Dialect;

    /// When the session that is open now began by its schedule, if there is one.
    fn begin_ns(_options: &Self::Options, _now_ns: u64) -> Option<u64> {
        None
    }

    /// The session of a connection that was accepted now.
    fn open(options: &Self::Options, now_ns: u64) -> Self;

    /// Takes bytes as the socket gave them, cut anywhere.
    ///
    /// # Errors
    /// The client broke the protocol, in these words.
    fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), String>;

    /// What the client asks for next; `None` until more arrives. After a login nothing until it is answered.
    ///
    /// # Errors
    /// The client broke the protocol, in these words.
    fn next(&mut self) -> Result<Option<SessionEvent<Self::Message<'_>>>, String>;

    /// Adds the commands of a message, none if it has no effect. `known` is the session as the log has it.
    ///
    /// # Errors
    /// The message cannot be read, for this reason. It is ignored and counted.
    fn commands(
        message: Self::Message<'_>,
        memory: &mut Self::Memory,
        known: Known<'_>,
        session_id: SessionId,
        received: Timestamp,
        commands: &mut Vec<Command>,
    ) -> Result<(), String>;

    /// Accepts the login; `next_reply` is the number of the first reply that it is sent.
    fn accept(
        &mut self,
        next_reply: u64,
        memory: &mut Self::Memory,
        reports: Option<&Reports>,
        now_ns: u64,
    );

    /// The connection of a session that is logged in ends.
    fn leave(&self, _memory: &mut Self::Memory) {}

    /// Rejects the login. The connection is closed once that is written.
    fn reject(&mut self, fault: &LoginFault, now_ns: u64);

    /// Sends the next reply, as it is in the store under this number.
    fn send_reply(&mut self, reply: &[u8], number: u64, now_ns: u64);

    /// The numbers of the replies that the client wants to be sent again next.
    fn resend_range(&self) -> Option<Range<u64>> {
        None
    }

    /// Sends the first of them again; `None` if it is no longer kept. False if that is enough for one turn.
    fn resend(&mut self, _reply: Option<&[u8]>, _now_ns: u64) -> bool {
        false
    }

    /// True if [`next`](Self::next) gives something without another byte.
    fn has_more(&self) -> bool {
        false
    }

    /// The client has been sent all that there is. True if it is to be served again, because the session asks for
    /// something that follows.
    fn follow(&mut self, _reports: Option<&Reports>) -> bool {
        false
    }

    /// Sends text for a human reader, where the protocol has such a message.
    fn send_text(&mut self, text: &str, now_ns: u64);

    /// Ends a session that is logged in: no reply follows.
    fn end(&mut self, now_ns: u64);

    /// Bytes to be written to the socket.
    fn outgoing(&self) -> &[u8];

    /// The first `count` of [`outgoing`](Self::outgoing) were written.
    fn sent(&mut self, count: usize);

    /// Bytes in its buffers.
    fn held(&self) -> usize;

    /// Lets time pass: sends a heartbeat where one is due.
    ///
    /// # Errors
    /// The client let a time limit pass.
    fn tick(&mut self, now_ns: u64) -> Result<(), Timeout>;
}

/// What the log has of a session, beside its replies.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Of a session that has logged on by FIX.
    pub reports: Option<&'a Reports>,
    /// Of a session that has sent something in OUCH 4.2.
    pub tokens: Option<&'a Tokens>,
}

/// A request of a client.
#[derive(Debug)]
pub enum SessionEvent<M> {
    /// It asks to log in: answer with [`ClientSession::accept`] or [`ClientSession::reject`].
    Login(Login),
    Message(M),
    /// Something that the session protocol deals with itself: a step, and nothing else.
    Taken,
    Logout,
}

/// A request to log in.
#[derive(Debug)]
pub struct Login {
    pub username: Text<6>,
    pub password: Text<10>,
    /// False if it names a session that is not here.
    pub is_this_session: bool,
    pub first_reply: FirstReply,
}

/// The reply at which a client wants to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstReply {
    Number(u64),
    /// The next one that there will be.
    Next,
    /// The newest one; if there is none, the first.
    Newest,
}

/// What all sessions of OUCH over SoupBinTCP, or by Sluice, have in common.
#[derive(Clone, Debug)]
pub struct SoupBinTcpOptions {
    /// Name of the session: 10 decimal digits. It outlives restarts of the venue.
    pub session: [u8; 10],
    /// Heartbeats and timeouts.
    pub timers: Timers,
}

/// OUCH over SoupBinTCP; 5.0 unless another version is named.
pub struct SoupBinTcp<V = Ouch50> {
    session: [u8; 10],
    server: Server,
    version: PhantomData<V>,
}

/// A version of OUCH.
pub trait OuchVersion {
    /// What a session keeps between its connections.
    type Memory: Default;

    /// The name of the agent that serves these sessions.
    const AGENT: &'static str;
    /// What requests and replies are written in.
    const DIALECT: Dialect;
    /// The most commands of one message.
    const COMMANDS_MAX: usize;
    /// See [`ClientSession::STEPS_MAX`].
    const STEPS_MAX: usize;
    /// See [`ClientSession::STEPS_SHARED_MAX`].
    const STEPS_SHARED_MAX: usize;

    /// See [`ClientSession::commands`].
    ///
    /// # Errors
    /// The message cannot be read, for this reason. It is ignored and counted.
    fn commands(
        message: &[u8],
        memory: &mut Self::Memory,
        known: Known<'_>,
        session_id: SessionId,
        received: Timestamp,
        commands: &mut Vec<Command>,
    ) -> Result<(), String>;
}

/// OUCH 5.0.
pub struct Ouch50;

impl OuchVersion for Ouch50 {
    type Memory = ();

    const AGENT: &'static str = "order entry";
    const DIALECT: Dialect = Dialect::Ouch;
    const COMMANDS_MAX: usize = 1;
    const STEPS_MAX: usize = 32;
    const STEPS_SHARED_MAX: usize = 32;

    #[inline]
    fn commands(
        message: &[u8],
        (): &mut (),
        _: Known<'_>,
        session_id: SessionId,
        received: Timestamp,
        commands: &mut Vec<Command>,
    ) -> Result<(), String> {
        let command = ouch::command(message, session_id, received);
        commands.push(command.map_err(|fault| fault.to_string())?);
        Ok(())
    }
}

/// OUCH 4.2.
pub struct Ouch42;

impl OuchVersion for Ouch42 {
    type Memory = Requests;

    const AGENT: &'static str = "order entry ouch42";
    const DIALECT: Dialect = Dialect::Ouch42;
    /// The note that the session speaks it, and the command.
    const COMMANDS_MAX: usize = 2;
    const STEPS_MAX: usize = 32;
    /// An order takes some 4 µs: its token is looked up and kept, and its replies are translated.
    const STEPS_SHARED_MAX: usize = 6;

    fn commands(
        message: &[u8],
        memory: &mut Requests,
        known: Known<'_>,
        session_id: SessionId,
        received: Timestamp,
        commands: &mut Vec<Command>,
    ) -> Result<(), String> {
        memory
            .commands(message, session_id, received, known.tokens, commands)
            .map_err(|fault| fault.to_string())
    }
}

/// The reason that a client receives for a login that is rejected.
pub(super) const fn reject_reason(fault: &LoginFault) -> LoginRejectReason {
    match fault {
        LoginFault::Credentials | LoginFault::Paused(_) => LoginRejectReason::NotAuthorized,
        LoginFault::Blocked(_)
        | LoginFault::NoSuchSession
        | LoginFault::OtherDialect(..)
        | LoginFault::NotYetAdded(_)
        | LoginFault::AlreadyConnected(_)
        | LoginFault::RepliesDropped(..)
        | LoginFault::NumberInFuture(..) => LoginRejectReason::SessionNotAvailable,
    }
}

impl<V: OuchVersion> ClientSession for SoupBinTcp<V> {
    type Options = SoupBinTcpOptions;
    type Memory = V::Memory;
    type Message<'a> = &'a [u8];

    const AGENT: &'static str = V::AGENT;
    const DIALECT: Dialect = V::DIALECT;
    const COMMANDS_MAX: usize = V::COMMANDS_MAX;
    const STEPS_MAX: usize = V::STEPS_MAX;
    const STEPS_SHARED_MAX: usize = V::STEPS_SHARED_MAX;

    /// Length and type of a packet.
    const FRAME_BYTES: usize = 3;

    fn open(options: &SoupBinTcpOptions, now_ns: u64) -> Self {
        let (session, server) = (options.session, Server::new(options.timers, now_ns));
        Self { session, server, version: PhantomData }
    }

    fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), String> {
        self.server.receive(bytes, now_ns).map_err(|violation| violation.to_string())
    }

    #[inline]
    fn next(&mut self) -> Result<Option<SessionEvent<&[u8]>>, String> {
        let Self { session, server, .. } = self;
        let happening = server.next().map_err(|violation| violation.to_string())?;
        Ok(happening.map(|happening| match happening {
            ServerHappening::Message(message) => SessionEvent::Message(message),
            ServerHappening::Taken => SessionEvent::Taken,
            ServerHappening::Logout => SessionEvent::Logout,
            ServerHappening::Login(request) => {
                let named = request.session.as_str().as_bytes();
                SessionEvent::Login(Login {
                    username: request.username,
                    password: request.password,
                    is_this_session: named.is_empty() || named == session.trim_ascii(),
                    first_reply: match request.sequence_number {
                        // SoupBinTCP 3.00: 0 starts with the most recently generated message.
                        Some(0) => FirstReply::Newest,
                        Some(number) => FirstReply::Number(number),
                        // A client that names none gets everything, so that nothing is missed.
                        None => FirstReply::Number(1),
                    },
                })
            }
        }))
    }

    #[inline]
    fn commands(
        message: &[u8],
        memory: &mut V::Memory,
        known: Known<'_>,
        session_id: SessionId,
        received: Timestamp,
        commands: &mut Vec<Command>,
    ) -> Result<(), String> {
        V::commands(message, memory, known, session_id, received, commands)
    }

    fn accept(&mut self, next_reply: u64, _: &mut V::Memory, _: Option<&Reports>, now_ns: u64) {
        self.server.accept(&self.session, next_reply, now_ns);
    }

    fn reject(&mut self, fault: &LoginFault, now_ns: u64) {
        self.server.reject(reject_reason(fault), now_ns);
    }

    #[inline]
    fn send_reply(&mut self, reply: &[u8], _: u64, now_ns: u64) {
        self.server.send_sequenced(reply, now_ns);
    }

    fn send_text(&mut self, text: &str, now_ns: u64) {
        self.server.send_debug(text, now_ns);
    }

    fn end(&mut self, now_ns: u64) {
        self.server.end_of_session(now_ns);
    }

    fn outgoing(&self) -> &[u8] {
        self.server.outgoing()
    }

    fn held(&self) -> usize {
        self.server.held()
    }

    fn sent(&mut self, count: usize) {
        self.server.sent(count);
    }

    fn tick(&mut self, now_ns: u64) -> Result<(), Timeout> {
        self.server.tick(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FixSession, SluiceSession};

    /// `docs/security.md` has these; `a_flood_does_not_keep_others_waiting` and its like show that a turn ends there.
    #[test]
    fn turns_have_the_steps_that_are_documented() {
        const fn steps<S: ClientSession>() -> (usize, usize) {
            (S::STEPS_MAX, S::STEPS_SHARED_MAX)
        }
        assert_eq!(steps::<SoupBinTcp<Ouch50>>(), (32, 32));
        assert_eq!(steps::<SoupBinTcp<Ouch42>>(), (32, 6));
        assert_eq!(steps::<SluiceSession>(), (32, 32));
        assert_eq!(steps::<FixSession>(), (16, 4));
    }
}
