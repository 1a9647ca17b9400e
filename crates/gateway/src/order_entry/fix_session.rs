//! FIX 4.2, 4.4 and 5.0 SP1 as a session protocol of an order entry port.
//!
//! Invariant: it sends only what the reply stream has, so every MsgSeqNum is a function of the log.

use std::ops::Range;

use market::{AccountQuery, Command, Note, SessionId, Text, Timestamp};
use wire::{
    fix::{
        Acceptor, FixHappening, FixNote, FixTimeout, FixTimers, Intake, Message, PageNote, Reports,
    },
    soupbintcp::Timeout,
};

use super::{ClientSession, FirstReply, Known, Login, SessionEvent};
use crate::{Dialect, LoginFault};

/// FIX over TCP.
pub struct FixSession {
    acceptor: Acceptor,
    /// The note that is handed over.
    note: Option<Note>,
    /// The last page of a list that was asked for.
    asked: Option<PageNote>,
}

/// What a FIX session keeps between its connections.
#[derive(Debug, Default)]
pub struct FixMemory {
    intake: Intake,
    /// MsgSeqNum of the client's next message; 0 before the first connection.
    expected: u64,
}

impl ClientSession for FixSession {
    type Options = FixTimers;
    type Memory = FixMemory;

    const AGENT: &'static str = "order entry fix";
    const DIALECT: Dialect = Dialect::Fix;
    const FRAME_BYTES: usize = 0;
    /// The note of a request, its command, and the note of its end.
    const COMMANDS_MAX: usize = 3;

    fn open(options: &FixTimers, now_ns: u64) -> Self {
        Self { acceptor: Acceptor::new(*options, now_ns), note: None, asked: None }
    }

    fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), String> {
        self.acceptor.receive(bytes, now_ns).map_err(str::to_owned)
    }

    fn next(&mut self) -> Result<Option<SessionEvent<'_>>, String> {
        let Some(happening) = self.acceptor.next()? else { return Ok(None) };
        Ok(Some(match happening {
            FixHappening::Logon { client, password } => SessionEvent::Login(Login {
                username: text(client),
                password: text(password),
                is_this_session: true,
                first_reply: FirstReply::Next,
            }),
            FixHappening::Note(note) => SessionEvent::Message(self.note.insert(note).bytes()),
            FixHappening::Application(message) => SessionEvent::Message(message),
            FixHappening::Taken => SessionEvent::Taken,
            FixHappening::Logout => SessionEvent::Logout,
        }))
    }

    fn commands(
        message: &[u8],
        memory: &mut FixMemory,
        known: Known<'_>,
        session_id: SessionId,
        received: Timestamp,
        commands: &mut Vec<Command>,
    ) -> Result<(), String> {
        if let Some(note) = FixNote::read(message) {
            if matches!(note, FixNote::Logon(_)) {
                // Its answer says which UserRefNum is the next, whatever protocol used them before.
                commands.push(Command::QueryAccount(AccountQuery { session_id, channel: 0 }));
            }
            commands.push(Command::Note(note.note(session_id)));
            return Ok(());
        }
        let reports = known.reports.ok_or("the session has not logged on")?;
        let message = Message::read(message);
        memory.intake.commands(&message, session_id, received, reports, commands);
        Ok(())
    }

    fn accept(&mut self, _: u64, memory: &mut FixMemory, reports: Option<&Reports>, now_ns: u64) {
        let received = reports.map_or(0, |reports| u64::from(reports.received()));
        let spoken = reports.map(Reports::version);
        self.acceptor.accept(memory.expected.max(received + 1), spoken, now_ns);
    }

    fn leave(&self, memory: &mut FixMemory) {
        memory.expected = self.acceptor.expected();
    }

    /// The connection is closed without a word, as FIX wants it of a Logon that is refused.
    fn reject(&mut self, _: &LoginFault, _: u64) {}

    fn send_reply(&mut self, reply: &[u8], number: u64, now_ns: u64) {
        self.acceptor.send(reply, number, now_ns);
    }

    fn resend_range(&self) -> Option<Range<u64>> {
        self.acceptor.resend_range()
    }

    fn resend(&mut self, reply: Option<&[u8]>, now_ns: u64) -> bool {
        self.acceptor.resend(reply, now_ns)
    }

    fn has_more(&self) -> bool {
        self.acceptor.has_more()
    }

    fn follow(&mut self, reports: Option<&Reports>) -> bool {
        let page = reports.and_then(Reports::next_page);
        let Some(page) = page.filter(|page| self.asked != Some(*page)) else { return false };
        self.asked = Some(page);
        self.acceptor.ask_for_more(page);
        true
    }

    fn send_text(&mut self, _: &str, _: u64) {}

    /// A Logout would take a number that is not in the log: the connection is closed without one.
    fn end(&mut self, _: u64) {}

    fn outgoing(&self) -> &[u8] {
        self.acceptor.outgoing()
    }

    fn held(&self) -> usize {
        self.acceptor.held()
    }

    fn sent(&mut self, count: usize) {
        self.acceptor.sent(count);
    }

    fn tick(&mut self, now_ns: u64) -> Result<(), Timeout> {
        self.acceptor.tick(now_ns).map_err(|timeout| match timeout {
            FixTimeout::Logon => Timeout::Login,
            FixTimeout::Silence => Timeout::Silence,
        })
    }
}

/// A name or a password; blank, which is nobody's, if it is too long.
pub(crate) fn text<const N: usize>(bytes: &[u8]) -> Text<N> {
    str::from_utf8(bytes).ok().and_then(Text::new).unwrap_or_default()
}
