use std::sync::Arc;

use journal::Writer;
use market::{Command, Input};
use ring::{Agent, AgentError, Consumer, Cursor, Flow, Latest};

/// Inputs written by one commit at most; bounds the time of a turn.
const COMMIT_LIMIT: usize = 4096;

/// Writes inputs to the journal: all that wait by one write, and by one sync where the policy
/// asks for it, and then says up to where they are durable.
pub struct Journaler {
    inputs: Consumer<Input>,
    writer: Writer,
    /// Replies and market data of inputs up to here may leave.
    durable: Arc<Cursor>,
    /// True if replies do not wait for the journal.
    unconditional: bool,
    /// Inputs up to here were given to the journal and are as durable as they will be for now.
    journaled: Option<Arc<Latest>>,
}

impl Journaler {
    /// Takes up from the ring what follows the last record of `writer`. With `unconditional`,
    /// replies do not wait and the durable cursor is left alone.
    #[must_use]
    pub fn new(
        inputs: Consumer<Input>,
        writer: Writer,
        durable: Arc<Cursor>,
        unconditional: bool,
    ) -> Self {
        Self { inputs, writer, durable, unconditional, journaled: None }
    }

    /// Says from now on up to which input the journal has been committed, whatever the policy.
    #[must_use]
    pub fn telling(mut self, journaled: Arc<Latest>) -> Self {
        journaled.set(self.writer.last_sequence());
        self.journaled = Some(journaled);
        self
    }
}

impl Agent for Journaler {
    fn name(&self) -> &str {
        "journaler"
    }

    fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
        let mut failed = None;
        let writer = &mut self.writer;
        let taken = self.inputs.poll(COMMIT_LIMIT, |input, _| {
            let mut payload = [0; Command::ENCODED_LEN_MAX];
            let len = input.command.encode(&mut payload);
            match writer.append(input.sequence.0, input.timestamp.0, &payload[..len]) {
                Ok(()) => Flow::Continue,
                Err(error) => {
                    failed = Some(error);
                    Flow::Hold
                }
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        if taken > 0 {
            let sequence = self.writer.commit()?;
            if !self.unconditional {
                self.durable.set(sequence);
            }
            if let Some(journaled) = &self.journaled {
                journaled.set(sequence);
            }
        }
        Ok(taken)
    }

    fn is_held_up(&self) -> bool {
        false
    }

    fn close(&mut self) {
        // What the rings held was drained before. Everything is brought to the medium, and marked.
        // A failure here has no reply to hold back, and the next start finds out what is there.
        let _ = self.writer.sync();
    }
}
