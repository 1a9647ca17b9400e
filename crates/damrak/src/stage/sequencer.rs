use std::sync::Arc;

use gateway::Submission;
use market::{Command, Input, RefusedOrder, RejectReason, Sequence, Timestamp};
use ring::{Agent, AgentError, Consumer, Flow, Latest, Producer};

use super::{Schedule, TURN_LIMIT};

/// Gives each command its place and time: the only place where that happens.
///
/// The time of an input is the time its bytes were received, or that of the input before it if
/// that is later, so that time never goes back. If nothing comes by the moment for which the engine
/// waits, it lets time pass: an input that asks nothing ([`Command::Time`]).
///
/// While the journal cannot take orders, what comes is made a [`Command::Refuse`] if it is a new order
/// or a replace, and that is what is recorded: nobody after the sequencer knows of the journal's state.
pub struct Sequencer {
    sources: Vec<Consumer<Submission>>,
    inputs: Producer<Input>,
    last: Last,
    /// The moment for which the engine waits, in nanoseconds; [`u64::MAX`] is none.
    due: Arc<Latest>,
    /// Which source is asked first; goes round, so that none is favoured.
    turn: usize,
    /// True if the last turn found or left the ring of inputs full.
    is_full: bool,
    schedule: Option<Schedule>,
    /// Code of the reason for which new orders are refused; 0 is none.
    refusing: Option<Arc<Latest>>,
}

impl Sequencer {
    /// Goes on after `last_sequence`.
    #[must_use]
    pub fn new(
        last_sequence: Sequence,
        last_timestamp: Timestamp,
        sources: Vec<Consumer<Submission>>,
        inputs: Producer<Input>,
        due: Arc<Latest>,
    ) -> Self {
        let last = Last { sequence: last_sequence, timestamp: last_timestamp };
        Self { sources, inputs, last, due, turn: 0, is_full: false, schedule: None, refusing: None }
    }

    /// Refuses new orders and replaces for the reason whose code stands there; 0 is none.
    #[must_use]
    pub fn refusing(mut self, reason: Arc<Latest>) -> Self {
        self.refusing = Some(reason);
        self
    }

    /// Gives the commands of a schedule as well, each when it is due.
    #[must_use]
    pub fn with_schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }
}

/// Place and time of the last input.
struct Last {
    sequence: Sequence,
    timestamp: Timestamp,
}

impl Last {
    /// The command in the next place, at a time that is not before that of the last.
    fn next(&mut self, command: Command, received: Timestamp) -> Input {
        self.sequence = self.sequence.next();
        self.timestamp = self.timestamp.max(received);
        Input { sequence: self.sequence, timestamp: self.timestamp, command }
    }
}

/// A new order, or a replace with its new terms, as one that is refused; all else as it is.
fn refused(command: Command, reason: RejectReason) -> Command {
    let (key, client_order_id) = match &command {
        Command::Enter(order) => (order.key, order.attributes.client_order_id),
        Command::Replace(replace) => match &replace.terms {
            Some(terms) => (replace.key, terms.client_order_id),
            None => return command,
        },
        _ => return command,
    };
    Command::Refuse(RefusedOrder { key, client_order_id, reason })
}

impl Agent for Sequencer {
    fn name(&self) -> &str {
        "sequencer"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let room = self.inputs.free();
        let mut free = room.min(TURN_LIMIT);
        let mut work = 0;
        let mut batch = self.inputs.batch();
        let mut publish = |input| {
            let published = batch.push(input);
            assert!(published.is_ok(), "no more is taken than the ring has room for");
        };
        self.turn = self.turn.wrapping_add(1);
        let code = self.refusing.as_ref().map_or(0, |code| code.get());
        let refusing = u8::try_from(code).ok().and_then(RejectReason::from_code);
        let sources = self.sources.len();
        for nth in 0..sources {
            let source = &mut self.sources[(self.turn + nth) % sources];
            // Each may take its share of what is left; the last takes the rest.
            let share = free.div_ceil(sources - nth);
            let taken = source.poll(share, |submission, _| {
                let command = match refusing {
                    None => submission.command,
                    Some(reason) => refused(submission.command, reason),
                };
                publish(self.last.next(command, submission.received));
                Flow::Continue
            });
            free -= taken;
            work += taken;
        }
        if let Some(schedule) = self.schedule.as_mut().filter(|schedule| schedule.per_day() < free)
        {
            let given = schedule.due(now_ns, |command| {
                publish(self.last.next(command, Timestamp(now_ns)));
            });
            free -= given;
            work += given;
        }
        // An input that is not before the moment is enough, whatever it asks.
        let due_ns = self.due.get();
        if due_ns <= now_ns && self.last.timestamp.0 < due_ns && free > 0 {
            publish(self.last.next(Command::Time, Timestamp(now_ns)));
            work += 1;
        }
        self.is_full = room == work;
        Ok(work)
    }

    fn is_held_up(&self) -> bool {
        self.is_full
    }
}
