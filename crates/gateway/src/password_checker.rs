//! Passwords compared with argon2 hashes, on a thread of its own: a check takes tens of milliseconds, which no turn of
//! an agent with clients may take.
//!
//! Invariant: a port has one check at a time, and ports take turns. The answer depends on the question alone.

use std::sync::Arc;

use ring::{Agent, AgentError, Builder, Consumer, Flow, Parker, Producer, ThreadParker, Unparker};

use crate::password_hash::{HashMemory, PasswordHash};

/// Asks whether a hash is that of a password.
#[derive(Clone, Copy)]
pub(crate) struct PasswordQuestion {
    pub(crate) hash: PasswordHash,
    pub(crate) password: [u8; 10],
}

/// The agent. It has a thread of its own, on which no other agent waits for it.
pub struct PasswordChecker {
    ports: Vec<CheckedPort>,
    parker: Option<ThreadParker>,
    unparker: Arc<dyn Unparker>,
    memory: HashMemory,
}

/// The checker's ends of the rings of a port.
struct CheckedPort {
    questions: Consumer<PasswordQuestion>,
    answers: Producer<bool>,
}

/// The ends of a port.
pub struct PasswordAsker {
    questions: Producer<PasswordQuestion>,
    answers: Consumer<bool>,
    checker: Arc<dyn Unparker>,
}

impl Default for PasswordChecker {
    fn default() -> Self {
        let parker = ThreadParker::default();
        let unparker = parker.unparker();
        Self { ports: Vec::new(), parker: Some(parker), unparker, memory: HashMemory::default() }
    }
}

impl PasswordChecker {
    /// The rings of one more port, before the first turn.
    pub fn connect(&mut self) -> PasswordAsker {
        let mut builder = Builder::new("passwords", 1);
        let taken = builder.gating("password checker");
        let (questions, _) = builder.build();
        let mut builder = Builder::new("checked passwords", 1);
        let answers = builder.gating("port");
        let (answered, _) = builder.build();
        self.ports.push(CheckedPort { questions: taken, answers: answered });
        PasswordAsker { questions, answers, checker: Arc::clone(&self.unparker) }
    }

    /// The parker that a question wakes; to be taken once.
    ///
    /// # Panics
    /// The parker was taken before.
    pub fn take_parker(&mut self) -> Box<dyn Parker> {
        Box::new(self.parker.take().expect("it is taken once"))
    }
}

impl Agent for PasswordChecker {
    fn name(&self) -> &str {
        "password checker"
    }

    fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
        let Self { ports, memory, .. } = self;
        let mut work = 0;
        for port in ports {
            let mut is_right = None;
            port.questions.poll(1, |question, _end_of_batch| {
                is_right = Some(question.hash.is_of(&question.password, memory));
                Flow::Continue
            });
            if let Some(is_right) = is_right {
                port.answers.try_publish(is_right).expect("a port asks again after its answer");
                work += 1;
            }
        }
        Ok(work)
    }
}

impl PasswordAsker {
    /// Asks a question; the last one must have been answered.
    pub(crate) fn ask(&mut self, question: PasswordQuestion) {
        let asked = self.questions.try_publish(question);
        assert!(asked.is_ok(), "a port has one question at a time");
        self.checker.unpark();
    }

    /// The answer, once it is available.
    pub(crate) fn answer(&mut self) -> Option<bool> {
        let mut answer = None;
        self.answers.poll(1, |is_right, _end_of_batch| {
            answer = Some(*is_right);
            Flow::Continue
        });
        answer
    }
}
