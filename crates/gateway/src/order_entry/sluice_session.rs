//! Sluice as a session protocol of an order entry port: OUCH 5.0 in datagrams, with a login.
//!
//! Invariant: the bytes it is given carry the token of its login; [`SluiceNetwork`](crate::SluiceNetwork) has checked
//! it.

use std::ops::Range;

use market::{Command, SessionId, Timestamp};
use wire::{
    fix::Reports,
    sluice::{FRAME_LEN_MAX, Server, ServerHappening},
    soupbintcp::Timeout,
};

use super::{
    ClientSession, FirstReply, Known, Login, SessionEvent,
    client_session::{Ouch50, OuchVersion, SoupBinTcpOptions, reject_reason},
};
use crate::{Dialect, LoginFault};

/// OUCH 5.0 by Sluice.
pub struct SluiceSession {
    session: [u8; 10],
    server: Server,
    /// The time at which it was last given datagrams.
    now_ns: u64,
}

impl ClientSession for SluiceSession {
    type Options = SoupBinTcpOptions;
    type Memory = ();
    type Message<'a> = &'a [u8];

    const AGENT: &'static str = "order entry sluice";
    const FRAME_BYTES: usize = FRAME_LEN_MAX;
    const STEPS_MAX: usize = 32;
    const STEPS_SHARED_MAX: usize = 32;
    const DIALECT: Dialect = Dialect::Ouch;

    fn open(options: &SoupBinTcpOptions, now_ns: u64) -> Self {
        let SoupBinTcpOptions { session, timers } = *options;
        Self { session, server: Server::new(timers, session, now_ns), now_ns }
    }

    fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), String> {
        self.now_ns = now_ns;
        self.server.receive(bytes).map_err(|violation| violation.to_string())
    }

    fn next(&mut self) -> Result<Option<SessionEvent<&[u8]>>, String> {
        let Self { session, server, now_ns } = self;
        let happening = server.next(*now_ns).map_err(|violation| violation.to_string())?;
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
                        0 => FirstReply::Newest,
                        number => FirstReply::Number(number),
                    },
                })
            }
        }))
    }

    fn commands(
        message: &[u8],
        memory: &mut (),
        known: Known<'_>,
        session_id: SessionId,
        received: Timestamp,
        commands: &mut Vec<Command>,
    ) -> Result<(), String> {
        Ouch50::commands(message, memory, known, session_id, received, commands)
    }

    fn accept(&mut self, next_reply: u64, (): &mut (), _: Option<&Reports>, now_ns: u64) {
        self.server.accept(next_reply, now_ns);
    }

    fn reject(&mut self, fault: &LoginFault, now_ns: u64) {
        self.server.reject(reject_reason(fault), now_ns);
    }

    fn send_reply(&mut self, reply: &[u8], number: u64, now_ns: u64) {
        self.server.send_reply(reply, number, now_ns);
    }

    fn resend_range(&self) -> Option<Range<u64>> {
        self.server.resend_next().map(|number| number..number + 1)
    }

    fn resend(&mut self, reply: Option<&[u8]>, now_ns: u64) -> bool {
        self.server.resend(reply, now_ns);
        true
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

    fn sent(&mut self, count: usize) {
        self.server.sent(count);
    }

    fn held(&self) -> usize {
        self.server.held()
    }

    fn tick(&mut self, now_ns: u64) -> Result<(), Timeout> {
        self.server.tick(now_ns)
    }
}
