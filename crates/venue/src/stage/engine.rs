//! The engine's stage: inputs in, events out, in turns.
//!
//! Invariant: events that find no room wait in the outbox, and no further input is taken until they are out.

use std::sync::Arc;

use engine::{BATCH_MAX, Emit, Engine, LOOK_AHEAD_FROM, NextInput};
use market::{
    Command, Event, Input, OperatorResult, Outcome, OutputLine, Sequence, Timestamp, VenueEvent,
};
use ring::{Agent, AgentError, AtomicGauge, Batch, Consumer, Cursor, Producer, Words};

use super::{Perturbation, Perturbations, TURN_LIMIT};
use crate::operator::Answered;

/// Events the outbox holds before it must grow: more than all but the largest sweeps.
const OUTBOX_CAPACITY: usize = 1 << 16;

/// The shortest time between two progress notes, in nanoseconds.
const PROGRESS_INTERVAL_NS: u64 = 50_000_000;

/// Runs the core: inputs in, events out.
///
/// One input may cause more events than the output ring has slots. Events without room wait in the
/// outbox, and the stage takes the next input only when the outbox is empty, so it never waits inside
/// a turn. The outbox is bounded by the events of one input.
pub struct EngineStage {
    inputs: Consumer<Input>,
    engine: Engine,
    outputs: Producer<OutputLine>,
    outbox: Vec<OutputLine>,
    /// The number of events in the outbox already sent.
    sent: usize,
    progress: Producer<Progress>,
    progress_due_ns: u64,
    /// The sequence of the last note.
    noted: Sequence,
    /// The time of the engine's next timed action, for the sequencer, in ns; [`u64::MAX`] is none.
    due: Arc<AtomicGauge>,
    /// Events of inputs up to here are in the ring.
    applied: Option<Arc<Cursor>>,
    /// The results of operators' commands, for their desk.
    results: Option<Producer<Answered>>,
    perturbations: Perturbations,
}

/// The work of the core up to a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub sequence: Sequence,
    /// Orders accepted so far, replacements included.
    pub orders: u64,
    pub trades: u64,
    pub live_orders: u64,
}

impl Progress {
    /// The progress of an engine.
    pub fn of(engine: &Engine) -> Self {
        let counters = engine.counters();
        Self {
            sequence: engine.sequence(),
            orders: counters.orders_accepted + counters.orders_replaced,
            trades: counters.trades,
            live_orders: u64::from(counters.orders_live),
        }
    }
}

impl Words for Progress {
    const WORDS: usize = 4;

    fn to_words(&self, words: &mut [u64]) {
        let Self { sequence, orders, trades, live_orders } = *self;
        words.copy_from_slice(&[sequence.0, orders, trades, live_orders]);
    }

    fn from_words(words: &[u64]) -> Self {
        let [sequence, orders, trades, live_orders] =
            *words.first_chunk().expect("a note of the progress has four words");
        Self { sequence: Sequence(sequence), orders, trades, live_orders }
    }
}

impl EngineStage {
    /// A stage that continues from the state of `engine`, and keeps `due` up to date.
    pub fn new(
        inputs: Consumer<Input>,
        engine: Engine,
        outputs: Producer<OutputLine>,
        progress: Producer<Progress>,
        due: Arc<AtomicGauge>,
    ) -> Self {
        due.set(due_ns(&engine));
        Self {
            inputs,
            engine,
            outputs,
            outbox: Vec::with_capacity(OUTBOX_CAPACITY),
            sent: 0,
            progress,
            progress_due_ns: 0,
            noted: Sequence::NONE,
            due,
            applied: None,
            results: None,
            perturbations: Perturbations::default(),
        }
    }

    /// Publishes in `applied` the last input whose events are all in the ring; some inputs cause none.
    pub fn telling(mut self, applied: Arc<Cursor>) -> Self {
        applied.set(self.engine.sequence().0);
        self.applied = Some(applied);
        self
    }

    /// Sends the results of operators' commands to their desk.
    pub fn answering(mut self, results: Producer<Answered>) -> Self {
        self.results = Some(results);
        self
    }

    pub fn with_perturbations(mut self, perturbations: Perturbations) -> Self {
        self.perturbations = perturbations;
        self
    }

    pub fn into_engine(self) -> Engine {
        self.engine
    }

    /// Publishes as many events as the ring has room for; returns true if the outbox is then empty.
    fn send(
        outputs: &mut Producer<OutputLine>,
        outbox: &mut Vec<OutputLine>,
        sent: &mut usize,
    ) -> bool {
        if outbox.is_empty() {
            return true;
        }
        let mut batch = outputs.batch();
        while *sent < outbox.len() {
            if batch.push(outbox[*sent]).is_err() {
                return false;
            }
            *sent += 1;
        }
        outbox.clear();
        *sent = 0;
        true
    }

    fn note_progress(&mut self, now_ns: u64) {
        let is_due = now_ns >= self.progress_due_ns;
        if !(is_due || self.perturbations.happens(Perturbation::EarlyCheckpoint))
            || self.noted == self.engine.sequence()
        {
            return;
        }
        let progress = Progress::of(&self.engine);
        // The ring has only lossy readers, so it always has room.
        if self.progress.try_publish(progress).is_ok() {
            self.noted = progress.sequence;
            self.progress_due_ns = now_ns + PROGRESS_INTERVAL_NS;
        }
    }
}

/// Puts an input's events into the ring, and those without room into the outbox.
struct Outgoing<'a, 'b> {
    cause: Sequence,
    timestamp: Timestamp,
    batch: &'a mut Batch<'b, OutputLine>,
    has_room: bool,
    outbox: &'a mut Vec<OutputLine>,
}

impl Emit for Outgoing<'_, '_> {
    #[inline(always)]
    fn emit(&mut self, event: Event) {
        self.emit_at_once(Outcome::Event(event));
    }

    // Inlined into the caller, so that an outcome is written once, into its slot.
    #[inline(always)]
    fn emit_at_once(&mut self, outcome: Outcome) {
        let Self { cause, timestamp, .. } = *self;
        let line = || OutputLine { cause, timestamp, outcome };
        if self.has_room && self.batch.push_with(line).is_some() {
            return;
        }
        self.has_room = false;
        keep(self.outbox, line());
    }
}

/// Applies a command of an operator, and gives its result to the desk. The desk waits for fewer results
/// than the ring has slots, so a result without room has no waiter and is dropped.
#[cold]
fn operate(
    input: NextInput<'_, '_>,
    outgoing: &mut Outgoing<'_, '_>,
    results: Option<&mut Producer<Answered>>,
) {
    let cause = input.input().sequence;
    let mut operating = Operating { outgoing, result: None };
    input.apply_to(&mut operating);
    if let (Some(result), Some(results)) = (operating.result, results) {
        let _ = results.try_publish(Answered { cause, result });
    }
}

/// Passes an operator's command on, and keeps its result.
struct Operating<'a, 'b, 'c> {
    outgoing: &'a mut Outgoing<'b, 'c>,
    result: Option<OperatorResult>,
}

impl Emit for Operating<'_, '_, '_> {
    fn emit(&mut self, event: Event) {
        self.emit_at_once(Outcome::Event(event));
    }

    fn emit_at_once(&mut self, outcome: Outcome) {
        if let Outcome::Event(Event::Venue(VenueEvent::Operated(result))) = outcome {
            self.result = Some(result);
        }
        self.outgoing.emit_at_once(outcome);
    }
}

#[cold]
fn keep(outbox: &mut Vec<OutputLine>, line: OutputLine) {
    outbox.push(line);
}

/// The time of the engine's next timed action, in ns; [`u64::MAX`] is none.
fn due_ns(engine: &Engine) -> u64 {
    engine.due().map_or(u64::MAX, |due| due.0)
}

impl Agent for EngineStage {
    fn name(&self) -> &str {
        "engine"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let waiting = self.outbox.len() - self.sent;
        if !Self::send(&mut self.outputs, &mut self.outbox, &mut self.sent) {
            return Ok(waiting - (self.outbox.len() - self.sent));
        }
        let Self { inputs, engine, outputs, outbox, sent, results, .. } = self;
        let most = self.perturbations.at_most(Perturbation::ShortEngineTurn, TURN_LIMIT);
        let keeps = self.perturbations.happens(Perturbation::KeptEvents);
        let looks = self.perturbations.happens(Perturbation::EarlyLookups);
        let look_from = if looks { 0 } else { LOOK_AHEAD_FROM };
        let mut work = 0;
        loop {
            let limit = BATCH_MAX.min(most - work);
            let mut batch = outputs.batch();
            let done = inputs.poll_batch(limit, |inputs| {
                let mut inputs = engine.batch(inputs, look_from, ring::fetch);
                let mut done = 0;
                while outbox.is_empty()
                    && let Some(next) = inputs.next_input()
                {
                    let Input { sequence: cause, timestamp, ref command } = *next.input();
                    let (batch, has_room) = (&mut batch, !keeps);
                    let mut outgoing = Outgoing { cause, timestamp, batch, has_room, outbox };
                    match command {
                        Command::Operate(_) => operate(next, &mut outgoing, results.as_mut()),
                        _ => next.apply_to(&mut outgoing),
                    }
                    done += 1;
                }
                done
            });
            drop(batch);
            work += done;
            if done < limit || work == most || !outbox.is_empty() {
                break;
            }
        }
        self.due.set(due_ns(&self.engine));
        debug_assert_eq!(*sent, 0, "all events in the outbox are of this turn");
        if let Some(applied) = self.applied.as_ref().filter(|_| self.outbox.is_empty()) {
            applied.set(self.engine.sequence().0);
        }
        self.note_progress(now_ns);
        Ok(waiting + work)
    }

    fn is_held_up(&self) -> bool {
        !self.outbox.is_empty()
    }
}
