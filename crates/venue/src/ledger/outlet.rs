use std::sync::Arc;

use market::{Output, Sequence};
use ring::{Agent, AgentError, Consumer, Cursor, Flow, Producer};

/// Outputs taken in one turn.
const TURN_LIMIT: usize = 1024;

/// What the ledger's ring carries.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// The next output.
    Output(Output),
    /// All outputs of inputs up to here were told, as far as there are any.
    Complete(Sequence),
    /// The ring was full: outputs are missing from here on, until told otherwise.
    Gap,
    /// The answer to a request with this number: from here on, all outputs of inputs after this one
    /// are told.
    Resumed {
        /// Number of the request.
        request: u64,
        /// The last input of which none is told.
        after: Sequence,
    },
}

/// Hands the durable outputs on to the recorder, and never waits for it: what its ring has no room
/// for is left out, and the recorder, told so, takes it from the journal.
pub struct Outlet {
    outputs: Consumer<Output>,
    /// Inputs up to here are as durable as configured.
    durable: Arc<Cursor>,
    /// All outputs of inputs up to here are in the ring of outputs.
    applied: Arc<Cursor>,
    recorder: Producer<Told>,
    /// Number of the recorder's last request to be told again.
    requests: Arc<Cursor>,
    answered: u64,
    state: State,
    /// The input of the last output taken.
    taken: Sequence,
    completed: Sequence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Everything is told.
    Telling,
    /// Nothing is, and the recorder does not know yet.
    Full,
    /// Nothing is, until the recorder asks.
    Silent,
}

impl Outlet {
    /// Silent, until asked by a number in `requests` above 0.
    #[must_use]
    pub fn new(
        outputs: Consumer<Output>,
        durable: Arc<Cursor>,
        applied: Arc<Cursor>,
        recorder: Producer<Told>,
        requests: Arc<Cursor>,
    ) -> Self {
        Self {
            outputs,
            durable,
            applied,
            recorder,
            requests,
            answered: 0,
            state: State::Silent,
            taken: Sequence::NONE,
            completed: Sequence::NONE,
        }
    }

    /// Tells what is durable; all outputs of inputs up to `complete` are in the ring.
    fn tell(&mut self, complete: u64) -> usize {
        let (recorder, state) = (&mut self.recorder, &mut self.state);
        let (taken, durable) = (&mut self.taken, &self.durable);
        let mut batch = recorder.batch();
        let work = self.outputs.poll(TURN_LIMIT, |output, _| {
            if output.cause.0 > durable.get() {
                return Flow::Hold;
            }
            if batch.push(Told::Output(*output)).is_err() {
                *state = State::Full;
                return Flow::Hold;
            }
            *taken = output.cause;
            Flow::Continue
        });
        // Else there may be more of those inputs in the ring.
        let is_all = work < TURN_LIMIT && *state == State::Telling;
        if is_all
            && self.completed.0 < complete
            && batch.push(Told::Complete(Sequence(complete))).is_ok()
        {
            self.completed = Sequence(complete);
            return work + 1;
        }
        work
    }

    /// Leaves out what is durable. One who asks is answered at the end of an input: `complete` is
    /// one whose outputs are all in the ring.
    fn pass(&mut self, complete: u64) -> usize {
        let request = self.requests.get();
        // What was begun to be left out is left out to its end.
        let is_asked = request > self.answered && self.taken.0 <= complete;
        let (taken, durable) = (&mut self.taken, &self.durable);
        let work = self.outputs.poll(TURN_LIMIT, |output, _| {
            let last = if is_asked { complete } else { durable.get() };
            if output.cause.0 > last {
                return Flow::Hold;
            }
            *taken = output.cause;
            Flow::Continue
        });
        let after = Sequence(complete);
        if is_asked
            && work < TURN_LIMIT
            && self.recorder.try_publish(Told::Resumed { request, after }).is_ok()
        {
            (self.answered, self.completed) = (request, after);
            self.state = State::Telling;
            return work + 1;
        }
        work
    }
}

impl Agent for Outlet {
    fn name(&self) -> &str {
        "ledger"
    }

    fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
        // First, so that what is complete then is in the ring before it is polled.
        let complete = self.applied.get().min(self.durable.get());
        if self.state == State::Telling && self.requests.get() > self.answered {
            self.state = State::Silent;
        }
        Ok(match self.state {
            State::Telling => self.tell(complete),
            State::Full => {
                if self.recorder.try_publish(Told::Gap).is_ok() {
                    self.state = State::Silent;
                }
                self.pass(complete)
            }
            State::Silent => self.pass(complete),
        })
    }
}
