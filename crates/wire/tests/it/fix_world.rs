//! A FIX session without sockets: a log that answers at once, a client that sends anything. The fuzz target of the
//! session and the tests share it.

use market::{Command, Event, Note, Output, Sequence, SessionId, Timestamp};
use wire::fix::{
    Acceptor, CompId, Directory, Fields, FixHappening, FixNote, FixService, FixTimers, Framed,
    Intake, Message, PageNote, Reports, frame,
};

pub const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 14:30:00.
pub const START: u64 = 1_795_271_400 * SECOND;
pub const SESSION: SessionId = SessionId(1);

pub fn timers() -> FixTimers {
    FixTimers {
        venue: CompId::new("EXCH").unwrap(),
        login_timeout_ns: 5 * SECOND,
        service: FixService::Orders,
        schedule: None,
    }
}

/// A session with its log: notes are events at once, and messages are sent at once.
pub struct World {
    pub acceptor: Acceptor,
    pub reports: Option<Reports>,
    pub directory: Directory,
    intake: Intake,
    /// The last page of a requested list.
    asked: Option<PageNote>,
    /// Every message of the venue, in the order of the stream.
    pub stream: Vec<Vec<u8>>,
    pub applications: Vec<u64>,
    pub is_over: bool,
    pub now_ns: u64,
    /// The number that the previous connection expected next.
    pub expected: u64,
}

impl World {
    pub fn new() -> Self {
        Self {
            acceptor: Acceptor::new(timers(), START),
            reports: None,
            directory: Directory::default(),
            intake: Intake::default(),
            asked: None,
            stream: Vec::new(),
            applications: Vec::new(),
            is_over: false,
            now_ns: START,
            expected: 1,
        }
    }

    /// The client connects again.
    pub fn reconnect(&mut self) {
        self.expected = self.acceptor.expected();
        self.acceptor = Acceptor::new(timers(), self.now_ns);
        self.is_over = false;
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        self.is_over |= self.acceptor.receive(bytes, self.now_ns).is_err();
        self.run();
    }

    /// Takes all notes and requests of the acceptor.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Takes the next note or request of the acceptor; false if there is none.
    pub fn step(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        let happening = match self.acceptor.next() {
            Ok(Some(happening)) => happening,
            Ok(None) => return false,
            Err(_) => {
                self.is_over = true;
                return false;
            }
        };
        match happening {
            FixHappening::Logon { .. } => {
                let received = self.reports.as_ref().map_or(0, Reports::received);
                let expected = self.expected.max(u64::from(received) + 1);
                let spoken = self.reports.as_ref().map(Reports::version);
                self.acceptor.accept(expected, spoken, self.now_ns);
            }
            FixHappening::Note(note) => self.take(note),
            FixHappening::Application(message) => {
                let bytes = message.bytes().to_vec();
                let mut fields = Fields::default();
                let message = fields.read(&bytes);
                let number = message.number(34).unwrap();
                self.applications.push(number);
                let mut notes = vec![FixNote::End { counted: number as u32 }.note(SESSION)];
                if matches!(message.msg_type(), b"x" | b"c" | b"e" | b"g") {
                    notes = self.query(&message);
                }
                notes.into_iter().for_each(|note| self.take(note));
            }
            FixHappening::Taken => {}
            FixHappening::Logout => self.is_over = true,
        }
        let page = self.reports.as_ref().and_then(Reports::next_page);
        if let Some(page) = page.filter(|page| self.asked != Some(*page)) {
            self.asked = Some(page);
            self.acceptor.ask_for_more(page);
        }
        while let Some(number) = self.acceptor.resend_next() {
            let message = self.stream.get(number as usize - 1).map(Vec::as_slice);
            self.acceptor.resend(message, self.now_ns);
        }
        true
    }

    /// The notes of a request about instruments.
    fn query(&mut self, message: &Message<'_>) -> Vec<Note> {
        let (received, mut commands) = (Timestamp(self.now_ns), Vec::new());
        let reports = self.reports.as_ref().expect("it has logged on");
        self.intake.commands(message, SESSION, received, reports, &mut commands);
        let note = |command| match command {
            Command::Note(note) => note,
            command => panic!("{command:?}"),
        };
        commands.into_iter().map(note).collect()
    }

    /// Sends the messages of a note, once the log has it.
    pub fn take(&mut self, note: Note) {
        if let Some(FixNote::Logon(logon)) = FixNote::read(note.bytes()) {
            self.reports.get_or_insert_with(|| Reports::new(&logon));
        }
        let Some(reports) = &mut self.reports else { return };
        let event = Event::Noted(note);
        let first = self.stream.len();
        let stream = &mut self.stream;
        reports.take(&output(self.now_ns, event), &self.directory, |_| true, &mut |it| {
            stream.push(it.to_vec())
        });
        for (index, message) in self.stream.iter().enumerate().skip(first) {
            self.acceptor.send(message, index as u64 + 1, self.now_ns);
        }
    }

    /// Takes the messages that wait for the socket.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        while let Framed::Whole(len) = frame(self.acceptor.outgoing()) {
            messages.push(self.acceptor.outgoing()[..len].to_vec());
            self.acceptor.sent(len);
        }
        assert!(self.acceptor.outgoing().is_empty(), "only whole messages wait");
        messages
    }
}

pub fn output(now_ns: u64, event: Event) -> Output {
    Output { cause: Sequence(1), timestamp: Timestamp(now_ns), event }
}
