//! The readers of a run's events: each passes to its sink the durable events, and nothing else.

use std::sync::Arc;

use market::OutputLine;
use ring::{Agent, AgentError, Consumer, Cursor, Flow};
use venue::{core::Core, layout::AgentName};

/// How many lines are taken in a turn.
const TURN_LIMIT: usize = 4096;

/// A consumer of the events.
pub trait Sink: Send + 'static {
    /// Takes the events of a line.
    fn take(&mut self, line: &OutputLine) -> Result<(), AgentError>;

    /// All events of the inputs up to this one are taken.
    fn is_at(&mut self, sequence: u64, now_ns: u64) {
        let _ = (sequence, now_ns);
    }
}

pub(super) struct OutputConsumer<S> {
    name: AgentName,
    outputs: Consumer<OutputLine>,
    /// Inputs up to here are as durable as was asked for.
    durable: Arc<Cursor>,
    /// The events of inputs up to here are in the ring.
    applied: Arc<Cursor>,
    /// All events of inputs up to here are taken.
    taken: Arc<Cursor>,
    sink: S,
}

impl<S: Sink> OutputConsumer<S> {
    /// A reader of this core's events, which moves `taken`.
    pub(super) fn new(core: &mut Core, name: AgentName, taken: Arc<Cursor>, sink: S) -> Self {
        let (outputs, durable) = core.reader(name);
        let applied = core.applied(name);
        Self { name, outputs, durable, applied, taken, sink }
    }

    pub(super) fn into_sink(self) -> S {
        self.sink
    }
}

impl<S: Sink> Agent for OutputConsumer<S> {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        // Read first: the events of the inputs applied by now are in the ring already.
        let durable = self.durable.get();
        let finished = self.applied.get().min(durable);
        let mut failed = None;
        let Self { outputs, sink, .. } = self;
        let mut work = outputs.poll(TURN_LIMIT, |line, _| {
            if line.cause.0 > durable {
                return Flow::Hold;
            }
            failed = sink.take(line).err();
            if failed.is_none() { Flow::Continue } else { Flow::Hold }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if self.outputs.available() == 0 && self.taken.get() < finished {
            self.sink.is_at(finished, now_ns);
            self.taken.set(finished);
            work += 1;
        }
        Ok(work)
    }

    fn is_held_up(&self) -> bool {
        false
    }
}
