//! The interface between a session protocol, which handles bytes and messages, and the agent, which handles sockets,
//! admission, turns and throttles. Another protocol over TCP implements [`ClientSession`].
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

/// The session of one connection: takes bytes and time, returns the client's requests, and holds the bytes to write.
pub trait ClientSession: Sized {
    /// The options shared by all sessions of a port.
    type Options;
    /// The state a session keeps between its connections.
    type Memory: Default;
    /// A client message, as the session has read it.
    type Message<'a>: Copy;

    /// The name of the agent that serves these sessions.
    const AGENT: &'static str;

    /// The most bytes that the session adds to a reply.
    const FRAME_BYTES: usize;

    /// The most commands of one message.
    const COMMANDS_MAX: usize = 1;

    /// The most steps of a connection in one turn while its session alone trades. A step is a packet taken or a read.
    const STEPS_MAX: usize;

    /// The most steps in one turn while other sessions of the venue trade, by any protocol: their requests wait for
    /// the end of the turn.
    const STEPS_SHARED_MAX: usize;

    /// The format of its requests and replies.
    const DIALECT: Dialect;

    /// The time at which the current session began by its schedule, if it has one.
    fn begin_ns(_options: &Self::Options, _now_ns: u64) -> Option<u64> {
        None
    }

    /// Opens the session of a connection accepted now.
    fn open(options: &Self::Options, now_ns: u64) -> Self;

    /// Takes bytes as the socket delivered them, cut anywhere.
    ///
    /// # Errors
    /// The client broke the protocol, in these words.
    fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), String>;

    /// Returns the client's next request, or `None` until more bytes arrive. After a login, returns none until it is
    /// answered.
    ///
    /// # Errors
    /// The client broke the protocol, in these words.
    fn next(&mut self) -> Result<Option<SessionEvent<Self::Message<'_>>>, String>;

    /// Adds the commands of a message; none if it has no effect. `known` is the log's view of the session.
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

    /// Accepts the login; `next_reply` is the number of the first reply sent to the client.
    fn accept(
        &mut self,
        next_reply: u64,
        memory: &mut Self::Memory,
        reports: Option<&Reports>,
        now_ns: u64,
    );

    /// Notes the end of the connection of a session that is logged in.
    fn leave(&self, _memory: &mut Self::Memory) {}

    /// Rejects the login. The connection is closed once the rejection is written.
    fn reject(&mut self, fault: &LoginFault, now_ns: u64);

    /// Sends the next reply, as stored under this number.
    fn send_reply(&mut self, reply: &[u8], number: u64, now_ns: u64);

    /// The numbers of the replies to resend next, as the client requested.
    fn resend_range(&self) -> Option<Range<u64>> {
        None
    }

    /// Resends the first of them; `None` if it is no longer kept. Returns false if that is enough for one turn.
    fn resend(&mut self, _reply: Option<&[u8]>, _now_ns: u64) -> bool {
        false
    }

    /// True if [`next`](Self::next) returns something without another byte.
    fn has_more(&self) -> bool {
        false
    }

    /// Called when the client has been sent all replies so far. Returns true if the client must be served again,
    /// because the session requests more.
    fn follow(&mut self, _reports: Option<&Reports>) -> bool {
        false
    }

    /// Sends text for a human reader, if the protocol has such a message.
    fn send_text(&mut self, text: &str, now_ns: u64);

    /// Ends a session that is logged in: no reply follows.
    fn end(&mut self, now_ns: u64);

    /// Bytes to be written to the socket.
    fn outgoing(&self) -> &[u8];

    /// Removes the first `count` bytes of [`outgoing`](Self::outgoing): they were written.
    fn sent(&mut self, count: usize);

    /// The number of bytes in its buffers.
    fn held(&self) -> usize;

    /// Advances the time, and sends a heartbeat where one is due.
    ///
    /// # Errors
    /// The client exceeded a time limit.
    fn tick(&mut self, now_ns: u64) -> Result<(), Timeout>;
}

/// The log's view of a session, beside its replies.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Present if the session has logged on by FIX.
    pub reports: Option<&'a Reports>,
    /// Present if the session has sent a message in OUCH 4.2.
    pub tokens: Option<&'a Tokens>,
}

/// A request of a client.
#[derive(Debug)]
pub enum SessionEvent<M> {
    /// A login: answer with [`ClientSession::accept`] or [`ClientSession::reject`].
    Login(Login),
    Message(M),
    /// An input that the session protocol handled alone: it only counts as a step.
    Taken,
    Logout,
}

/// A request to log in.
#[derive(Debug)]
pub struct Login {
    pub username: Text<6>,
    pub password: Text<10>,
    /// False if the login names a session that is not this one.
    pub is_this_session: bool,
    pub first_reply: FirstReply,
}

/// The reply at which a client wants to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstReply {
    Number(u64),
    /// The next reply to be generated.
    Next,
    /// The newest reply; if there is none, the first.
    Newest,
}

/// The options shared by all sessions of OUCH over SoupBinTCP or by Sluice.
#[derive(Clone, Debug)]
pub struct SoupBinTcpOptions {
    /// The name of the session: 10 decimal digits. It stays the same across restarts of the venue.
    pub session: [u8; 10],
    /// Heartbeats and timeouts.
    pub timers: Timers,
}

/// OUCH over SoupBinTCP; version 5.0 unless another is named.
pub struct SoupBinTcp<V = Ouch50> {
    session: [u8; 10],
    server: Server,
    version: PhantomData<V>,
}

/// A version of OUCH.
pub trait OuchVersion {
    /// The state a session keeps between its connections.
    type Memory: Default;

    /// The name of the agent that serves these sessions.
    const AGENT: &'static str;
    /// The format of requests and replies.
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
    /// The note that the session speaks OUCH 4.2, and the command.
    const COMMANDS_MAX: usize = 2;
    const STEPS_MAX: usize = 32;
    /// An order takes about 4 µs: its token is looked up and kept, and its replies are translated.
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

/// The reason sent to the client for a rejected login.
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

    /// The length and type of a packet.
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
                        // A client that names no number gets every reply, so that it misses none.
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

    /// `docs/security.md` states these numbers; `a_flood_does_not_keep_others_waiting` and similar tests show that a
    /// turn ends there.
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
