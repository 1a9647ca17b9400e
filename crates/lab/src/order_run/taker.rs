//! The readers of the engine's events, and the end of a run.
//!
//! Invariant: a reader takes only events whose inputs are durable.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use market::Output;
use ring::{Agent, AgentError, Consumer, Cursor, Flow};

use super::recover_lock;

/// How many events are taken in a turn.
const TURN_LIMIT: usize = 4096;

/// A reader's use of the events.
pub trait Sink: Send + 'static {
    /// The next event.
    ///
    /// # Errors
    /// It cannot be written, or contradicts those before it.
    fn take(&mut self, output: &Output) -> Result<(), AgentError>;

    /// Called when all events of the inputs up to this one are taken.
    fn is_at(&mut self, sequence: u64, now_ns: u64) {
        let _ = (sequence, now_ns);
    }
}

/// Takes events once their inputs are durable.
pub(super) struct Taker<S> {
    name: &'static str,
    outputs: Consumer<Output>,
    sink: Arc<Mutex<S>>,
    ending: Arc<Ending>,
    /// Which of the takers of the ending it is.
    number: usize,
    is_over: bool,
}

impl<S: Sink> Taker<S> {
    pub(super) fn new(
        name: &'static str,
        outputs: Consumer<Output>,
        sink: Arc<Mutex<S>>,
        ending: Arc<Ending>,
        number: usize,
    ) -> Self {
        Self { name, outputs, sink, ending, number, is_over: false }
    }
}

impl<S: Sink> Agent for Taker<S> {
    fn name(&self) -> &str {
        self.name
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        // Read first: the events of what is applied now are in the ring already.
        let settled = self.ending.settled();
        let durable = self.ending.durable.get();
        let mut failed = None;
        let Self { outputs, sink, .. } = self;
        let mut sink = recover_lock(sink);
        let mut work = outputs.poll(TURN_LIMIT, |output, _| {
            if output.cause.0 > durable {
                return Flow::Hold;
            }
            match sink.take(output) {
                Ok(()) => Flow::Continue,
                Err(error) => {
                    failed = Some(error);
                    Flow::Hold
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if self.outputs.available() == 0 {
            let taken = &self.ending.taken[self.number];
            if taken.get() < settled {
                taken.set(settled);
                sink.is_at(settled, now_ns);
                work += 1;
            }
            if !self.is_over && settled >= self.ending.last() {
                self.is_over = true;
                self.ending.one_is_over();
                work += 1;
            }
        }
        Ok(work)
    }

    fn is_held_up(&self) -> bool {
        false
    }
}

/// How far a run is from its end, and how long it took.
#[derive(Debug)]
pub struct Ending {
    /// Events of inputs up to here are in the ring.
    applied: Arc<Cursor>,
    /// Inputs up to here are as durable as was asked for.
    durable: Arc<Cursor>,
    /// The last input; `u64::MAX` while it is not known.
    last: AtomicU64,
    begun_ns: AtomicU64,
    /// By taker: all that came of inputs up to here is taken.
    taken: Vec<Cursor>,
    /// How many of the takers are not over yet.
    takers: AtomicU64,
}

impl Ending {
    /// With so many takers of events.
    pub(super) fn new(applied: Arc<Cursor>, durable: Arc<Cursor>, takers: u64) -> Self {
        Self {
            applied,
            durable,
            last: AtomicU64::new(u64::MAX),
            begun_ns: AtomicU64::new(0),
            taken: (0..takers).map(|_| Cursor::new(0)).collect(),
            takers: AtomicU64::new(takers),
        }
    }

    /// The first command is submitted.
    pub(super) fn begin(&self, now_ns: u64) {
        self.begun_ns.store(now_ns, Ordering::Relaxed);
    }

    /// When the first command was submitted.
    #[must_use]
    pub fn begun_ns(&self) -> u64 {
        self.begun_ns.load(Ordering::Relaxed)
    }

    /// There are no more commands than these.
    pub(super) fn set_last(&self, last: u64) {
        self.last.store(last, Ordering::Release); // pairs with the Acquire in `last`
    }

    /// The last input; `u64::MAX` while it is not known.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire) // pairs with the Release in `set_last`
    }

    /// The last input whose results may be published: applied and durable.
    #[must_use]
    pub fn settled(&self) -> u64 {
        self.applied.get().min(self.durable.get())
    }

    /// All that came of inputs up to here is taken by everybody.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.iter().map(Cursor::get).min().unwrap_or(u64::MAX)
    }

    fn one_is_over(&self) {
        self.takers.fetch_sub(1, Ordering::Release); // pairs with the Acquire in `is_over`
    }

    /// True once every taker has all that there will be.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.takers.load(Ordering::Acquire) == 0 // pairs with the Release in `one_is_over`
    }
}
