//! FIX 4.2, 4.4 and 5.0 SP1 as a session protocol of an order entry port.
//!
//! Invariant: it sends only messages of the reply stream, so every MsgSeqNum is a function of the log.

use std::ops::Range;

use market::{AccountQuery, Command, Note, SessionId, Text, Timestamp};
use wire::{
    fix::{
        Acceptor, FixHappening, FixNote, FixTimeout, FixTimers, Intake, Message, PageNote, Reports,
        SessionSchedule, write_time,
    },
    soupbintcp::Timeout,
};

use super::{ClientSession, FirstReply, Known, Login, SessionEvent};
use crate::{Dialect, LoginFault};

/// FIX over TCP.
pub struct FixSession {
    acceptor: Acceptor,
    /// The note being handed over.
    note: Option<Note>,
    /// The page of a list that was requested last.
    asked: Option<PageNote>,
    schedule: Option<SessionSchedule>,
    /// The end of the window in which it logged on.
    ends_ns: Option<u64>,
}

/// A request of a FIX session.
#[derive(Clone, Copy, Debug)]
pub enum FixMessage<'a> {
    /// A note of the session itself.
    Note(&'a Note),
    /// A request of the client.
    Application(Message<'a>),
}

/// The state a FIX session keeps between its connections.
#[derive(Debug, Default)]
pub struct FixMemory {
    intake: Intake,
    /// The MsgSeqNum of the client's next message; 0 before the first connection.
    expected: u64,
    /// The time at which the last connection ended.
    left_ns: u64,
}

impl ClientSession for FixSession {
    type Options = FixTimers;
    type Memory = FixMemory;
    type Message<'a> = FixMessage<'a>;

    const AGENT: &'static str = "order entry fix";
    const DIALECT: Dialect = Dialect::Fix;
    const FRAME_BYTES: usize = 0;
    /// The note of a request, its command, and the note of its end.
    const COMMANDS_MAX: usize = 3;
    /// A message takes several times as long as one of OUCH.
    const STEPS_MAX: usize = 16;
    const STEPS_SHARED_MAX: usize = 4;

    fn begin_ns(options: &FixTimers, now_ns: u64) -> Option<u64> {
        Some(options.schedule?.window(Timestamp(now_ns))?.start.0)
    }

    fn open(options: &FixTimers, now_ns: u64) -> Self {
        let acceptor = Acceptor::new(*options, now_ns);
        Self { acceptor, note: None, asked: None, schedule: options.schedule, ends_ns: None }
    }

    fn receive(&mut self, bytes: &[u8], now_ns: u64) -> Result<(), String> {
        self.acceptor.receive(bytes, now_ns).map_err(str::to_owned)
    }

    fn next(&mut self) -> Result<Option<SessionEvent<FixMessage<'_>>>, String> {
        let Some(happening) = self.acceptor.next()? else { return Ok(None) };
        Ok(Some(match happening {
            FixHappening::Logon { client, password } => SessionEvent::Login(Login {
                username: text(client),
                password: text(password),
                is_this_session: true,
                first_reply: FirstReply::Next,
            }),
            FixHappening::Note(note) => {
                SessionEvent::Message(FixMessage::Note(self.note.insert(note)))
            }
            FixHappening::Application(message) => {
                SessionEvent::Message(FixMessage::Application(message))
            }
            FixHappening::Taken => SessionEvent::Taken,
            FixHappening::Logout => SessionEvent::Logout,
        }))
    }

    fn commands(
        message: FixMessage<'_>,
        memory: &mut FixMemory,
        known: Known<'_>,
        session_id: SessionId,
        received: Timestamp,
        commands: &mut Vec<Command>,
    ) -> Result<(), String> {
        match message {
            FixMessage::Note(note) => {
                if FixNote::read_logon(note.bytes()).is_some() {
                    // The answer gives the next UserRefNum, whatever protocol used the ones before.
                    let query = AccountQuery { session_id, channel: 0 };
                    commands.push(Command::QueryAccount(query));
                }
                let mut note = *note;
                note.session_id = session_id;
                commands.push(Command::Note(note));
            }
            FixMessage::Application(message) => {
                let reports = known.reports.ok_or("the session has not logged on")?;
                memory.intake.commands(&message, session_id, received, reports, commands);
            }
        }
        Ok(())
    }

    fn accept(&mut self, _: u64, memory: &mut FixMemory, reports: Option<&Reports>, now_ns: u64) {
        let received = reports.map_or(0, |reports| u64::from(reports.received()));
        let spoken = reports.map(Reports::version);
        if let Some(schedule) = self.schedule {
            let now = Timestamp(now_ns);
            let Some(window) = schedule.window(now) else {
                let next = write_time(schedule.next_start(now));
                let words = [b"the session is closed until ", &next[..], b" UTC"].concat();
                return self.acceptor.turn_away(&words, spoken, now_ns);
            };
            self.ends_ns = Some(window.end.0);
            if memory.left_ns < window.start.0 {
                memory.expected = 0;
            }
            // The gateway's note to the log at the begin of a session may still be on its way.
            if reports.is_some_and(|reports| reports.begun_ns() < window.start.0) {
                self.acceptor.begin_anew();
            }
        }
        self.acceptor.accept(memory.expected.max(received + 1), spoken, now_ns);
    }

    fn leave(&self, memory: &mut FixMemory) {
        memory.expected = self.acceptor.expected();
        memory.left_ns = self.acceptor.now_ns();
    }

    /// Rejects without a message: FIX requires this for a refused Logon. The connection is closed.
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

    /// Ends without a Logout, which would take a number that is not in the log. The connection is closed.
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
        if self.ends_ns.is_some_and(|ends_ns| ends_ns <= now_ns) {
            self.ends_ns = None;
            self.acceptor.end(b"the session has ended by its schedule", now_ns);
        }
        self.acceptor.tick(now_ns).map_err(|timeout| match timeout {
            FixTimeout::Logon => Timeout::Login,
            FixTimeout::Silence => Timeout::Silence,
        })
    }
}

/// A name or a password. A text that is too long becomes blank, which is no user's.
pub(crate) fn text<const N: usize>(bytes: &[u8]) -> Text<N> {
    Text::from_slice(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use market::{Event, Output, Sequence};
    use wire::fix::{
        Builder, CompId, Directory, Fields, FixService, SOH, Version, WeekTime, read_time,
    };

    use super::*;

    const SESSION: SessionId = SessionId(1);
    const SECOND: u64 = 1_000_000_000;

    /// From 7:00 to 18:00 UTC on Mondays and Tuesdays.
    fn timers() -> FixTimers {
        let day = |day: u32| {
            let at = |hour: u32| WeekTime::new(day, hour * 3600).unwrap();
            (at(7), at(18))
        };
        FixTimers {
            venue: CompId::new("V").unwrap(),
            login_timeout_ns: 5 * SECOND,
            service: FixService::Orders,
            schedule: SessionSchedule::new(&[day(0), day(1)], 0),
        }
    }

    fn at(text: &str) -> u64 {
        read_time(text.as_bytes()).unwrap().0
    }

    /// A session whose log answers at once.
    #[derive(Default)]
    struct World {
        reports: Option<Reports>,
        memory: FixMemory,
        /// The number of messages in the reply stream so far.
        count: u64,
    }

    impl World {
        /// The log takes a note; returns the messages that follow.
        fn take(&mut self, note: &[u8], now_ns: u64) -> Vec<(u64, Vec<u8>)> {
            let fix_note = FixNote::read(note).unwrap();
            if let FixNote::Logon(logon) = &fix_note {
                self.reports.get_or_insert_with(|| Reports::new(logon));
            }
            let event = Event::Noted(Note::new(SESSION, note).unwrap());
            let output = Output { cause: Sequence(1), timestamp: Timestamp(now_ns), event };
            let mut messages = Vec::new();
            if let Some(reports) = &mut self.reports {
                reports.take(&output, &Directory::default(), |_| true, &mut |message| {
                    self.count += 1;
                    messages.push((self.count, message.to_vec()));
                });
            }
            messages
        }

        /// Carries out the requests of a session, and returns the messages it sent, with `|` for SOH; true if it is
        /// over.
        fn run(&mut self, session: &mut FixSession, now_ns: u64) -> (String, bool) {
            let (mut said, mut is_over) = (String::new(), false);
            while !is_over {
                let note = match session.next().unwrap() {
                    None => break,
                    Some(SessionEvent::Message(FixMessage::Note(note))) => {
                        Some(note.bytes().to_vec())
                    }
                    Some(SessionEvent::Logout) => {
                        is_over = true;
                        None
                    }
                    Some(_) => None,
                };
                match note {
                    Some(note) => {
                        for (number, message) in self.take(&note, now_ns) {
                            session.send_reply(&message, number, now_ns);
                        }
                    }
                    None if is_over => session.leave(&mut self.memory),
                    None => {
                        session.accept(1, &mut self.memory, self.reports.as_ref(), now_ns);
                    }
                }
                let outgoing = String::from_utf8(session.outgoing().to_vec()).unwrap();
                said += &outgoing.replace(char::from(SOH), "|");
                session.sent(outgoing.len());
            }
            (said, is_over)
        }

        fn log_on(&mut self, number: u64, now_ns: u64) -> (FixSession, String, bool) {
            let mut session = FixSession::open(&timers(), now_ns);
            let mut buffer = [0; 256];
            let mut builder = Builder::new(&mut buffer);
            builder.text(35, "A").number(34, number).text(49, "C").time(52, Timestamp(now_ns));
            builder.text(56, "V").number(98, 0).number(108, 0);
            session.receive(builder.finish(Version::Fix44), now_ns).unwrap();
            let (said, is_over) = self.run(&mut session, now_ns);
            (session, said, is_over)
        }
    }

    /// A session ends by time alone, with a Logout. A Logon outside the window is refused with the time of the next
    /// session. That session begins with 1, by its record in the log or, where the record comes late, by the Logon.
    /// Later records and Logons of the day begin no session.
    #[test]
    fn a_session_ends_and_begins_by_its_schedule() {
        for record_first in [true, false] {
            let mut world = World::default();
            let monday = at("20261123-17:59:59");
            let (mut session, said, _) = world.log_on(1, monday);
            assert!(said.contains("|35=A|34=1|"), "{said}");
            session.tick(monday + SECOND - 1).unwrap();
            assert!(!session.has_more(), "it is open");
            session.tick(monday + SECOND).unwrap();
            let (said, is_over) = world.run(&mut session, monday + SECOND);
            assert!(said.contains("|35=5|34=2|"), "{said}");
            assert!(said.contains("|58=the session has ended by its schedule|"), "{said}");
            assert!(is_over);

            let night = at("20261123-23:00:00");
            assert_eq!(FixSession::begin_ns(&timers(), night), None);
            let (_, said, is_over) = world.log_on(2, night);
            assert!(said.contains("|35=5|34=3|"), "{said}");
            assert!(said.contains("|58=the session is closed until 20261124-07:00:00.000 UTC|"));
            assert!(is_over);

            let tuesday = at("20261124-07:00:03");
            let start_ns = FixSession::begin_ns(&timers(), tuesday).unwrap();
            assert_eq!(start_ns, at("20261124-07:00:00"));
            assert!(world.reports.as_ref().unwrap().begun_ns() < start_ns);
            let begin = FixNote::Begin { start_ns }.note(SESSION);
            if record_first {
                assert!(world.take(begin.bytes(), tuesday).is_empty());
            }
            let (session, said, _) = world.log_on(1, tuesday);
            assert!(said.contains("|35=A|34=1|"), "{said}");
            assert_eq!(said.contains("|141=Y|"), !record_first, "{said}");
            session.leave(&mut world.memory);
            // The record comes late, or again.
            world.take(begin.bytes(), tuesday);
            let (_, said, _) = world.log_on(2, tuesday + 60 * SECOND);
            assert!(said.contains("|35=A|34=2|"), "{said}");
        }
    }

    /// A session that has never logged on is also refused with a text, and begins with 1 when it is open.
    #[test]
    fn a_first_logon_may_come_too_early() {
        let mut world = World::default();
        let (_, said, is_over) = world.log_on(1, at("20261122-12:00:00"));
        assert!(said.contains("|58=the session is closed until 20261123-07:00:00.000 UTC|"));
        assert!(is_over);
        let (_, said, _) = world.log_on(1, at("20261123-07:00:00"));
        assert!(said.contains("|35=A|34=1|"), "{said}");
        let message = said.replace('|', "\x01");
        assert_eq!(Fields::default().read(message.as_bytes()).msg_type(), b"A");
    }
}
