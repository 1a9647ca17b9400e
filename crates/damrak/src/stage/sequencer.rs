use gateway::Submission;
use market::{Input, Sequence, Timestamp};
use ring::{Agent, AgentError, Consumer, Flow, Producer};

use super::TURN_LIMIT;

/// Gives each command its place and time: the only place where that happens.
///
/// The time of an input is the time its bytes were received, or that of the input before it if
/// that is later, so that time never goes back.
pub struct Sequencer {
    sources: Vec<Consumer<Submission>>,
    inputs: Producer<Input>,
    last_sequence: Sequence,
    last_timestamp: Timestamp,
    /// Which source is asked first; goes round, so that none is favoured.
    turn: usize,
}

impl Sequencer {
    /// Goes on after `last_sequence`.
    #[must_use]
    pub fn new(
        last_sequence: Sequence,
        last_timestamp: Timestamp,
        sources: Vec<Consumer<Submission>>,
        inputs: Producer<Input>,
    ) -> Self {
        Self { sources, inputs, last_sequence, last_timestamp, turn: 0 }
    }
}

impl Agent for Sequencer {
    fn name(&self) -> &str {
        "sequencer"
    }

    fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
        let mut free = self.inputs.free().min(TURN_LIMIT);
        let mut work = 0;
        let mut batch = self.inputs.batch();
        let mut sequence = |command, received: Timestamp| {
            self.last_sequence = self.last_sequence.next();
            self.last_timestamp = self.last_timestamp.max(received);
            let (sequence, timestamp) = (self.last_sequence, self.last_timestamp);
            let published = batch.push(Input { sequence, timestamp, command });
            assert!(published.is_ok(), "no more is taken than the ring has room for");
        };
        self.turn = self.turn.wrapping_add(1);
        let sources = self.sources.len();
        for nth in 0..sources {
            let source = &mut self.sources[(self.turn + nth) % sources];
            // Each may take its share of what is left; the last takes the rest.
            let share = free.div_ceil(sources - nth);
            let taken = source.poll(share, |submission, _| {
                sequence(submission.command, submission.received);
                Flow::Continue
            });
            free -= taken;
            work += taken;
        }
        Ok(work)
    }
}
