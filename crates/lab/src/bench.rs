//! Matching engines on the same flow: time per operation, and whether the trades are right.
//!
//! Start at [`Contender`], the interface of an engine, and [`measure`], which runs several engines in
//! turn. The flow is translated into each engine's own operations before the clock starts, because a
//! venue decodes commands elsewhere. All engines append their trades to the same list; the hash over
//! that list is computed after the clock has stopped.
//!
//! [`mod@rivals`] runs third-party engines, each in its own process, in turn with ours.
//! [`mod@pipeline`] runs order files through rings, journal and ledger, [`mod@gateway`] requests through sockets,
//! [`mod@queues`] values from thread to thread, [`mod@codecs`] messages on the wire.
//!
//! Invariant: only [`Contender::apply_batch`] and [`Contender::apply`] run while the clock does.

mod agent_thread;
pub mod changes;
pub mod codecs;
pub mod feed;
mod feed_flow;
pub mod feed_snapshots;
pub mod gateway;
pub mod journal;
pub mod matching;
pub mod model_btree;
pub mod null;
pub mod paired;
pub mod shapes;
pub mod pipeline;
pub mod queues;
pub mod recovery;
pub mod rivals;
pub mod whole_engine;
pub mod worst_cases;

use std::{hint::black_box, path::PathBuf};

use crate::comparison::{ComparisonFlow, FlowName, FlowOperation, Tally};
use engine::{BATCH_MAX, Emit};
use market::{
    AddInstrument, AddSession, Command, Event, Firm, Input, Outcome, OutputLine, Price, Quantity,
    SelfMatchPrevention, Sequence, Symbol, SystemEvent, Text, Timestamp,
};
use os::{InstructionCounter, thread_cpu_ns};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use rivals::{RivalError, Rivals};
use venue::clock::SystemClock;

pub trait Contender: Sized {
    /// One call of the engine, in its own types. An operation is one step or several.
    type Step;

    const NAME: &'static str;

    /// An empty engine, ready for the symbols and users of this flow.
    fn new(flow: &ComparisonFlow) -> Self;

    /// Translates an operation into the engine's own steps.
    fn steps(&mut self, operation: &FlowOperation, steps: &mut Vec<Self::Step>);

    fn apply(&mut self, step: &Self::Step, trades: &mut Vec<BenchTrade>);

    /// Applies the next steps, at most [`BATCH_MAX`]: one by one, or with their look-ups done together.
    fn apply_batch(&mut self, steps: &[Self::Step], trades: &mut Vec<BenchTrade>) {
        for step in steps {
            self.apply(step, trades);
        }
    }

    /// The flow's id for an order id in a trade of this engine.
    fn flow_order_id(&self, order_id: u64) -> u64 {
        order_id
    }
}

#[derive(Clone, Copy, Debug)]
pub struct BenchTrade {
    /// The resting order, by the engine's id.
    pub maker: u64,
    /// The incoming order, by the engine's id.
    pub taker: u64,
    /// Lots.
    pub quantity: u32,
    /// Ticks.
    pub price: u32,
}

/// An engine to measure, as a value without its types.
#[derive(Clone, Copy, Debug)]
pub struct Entrant {
    name: &'static str,
    run: fn(&ComparisonFlow, &Tally) -> Run,
    latency: fn(&ComparisonFlow, &Tally, &SystemClock, usize) -> OperationTimes,
}

impl Entrant {
    pub const fn of<C: Contender>() -> Self {
        Self { name: C::NAME, run: run::<C>, latency: latencies::<C> }
    }

    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// The built-in engines: the core's book alone, the whole core, a `BTreeMap` book for comparison,
/// and an empty engine, which gives the measurement's own cost.
pub const ENTRANTS: [Entrant; 5] = [
    Entrant::of::<matching::Matching>(),
    Entrant::of::<whole_engine::WholeEngine<false>>(),
    Entrant::of::<whole_engine::WholeEngine<true>>(),
    Entrant::of::<model_btree::ModelBTree>(),
    Entrant::of::<null::Null>(),
];

#[derive(Clone, Copy, Debug)]
pub struct BookOptions {
    pub seed: u64,
    pub divisor: u64,
    /// Runs of each engine on each flow, in turn with the others.
    pub runs: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct BookRow {
    pub engine: String,
    /// CPU time of the thread per operation, in nanoseconds, one value per run.
    pub ns_per_op: Runs,
    /// User-mode instructions per operation in the run with the fewest; `None` where the machine does
    /// not count them.
    pub instructions_per_op: Option<f64>,
    #[serde(flatten)]
    pub tally: Tally,
    /// Whether the tally equals the expected one; `None` for the empty engine, which makes no trades, and
    /// for the plain book, whose tally is the expected one.
    pub agrees: Option<bool>,
    /// Measured in separate runs.
    #[serde(rename = "latency_ns")]
    pub latency: OperationTimes,
    /// True for a third-party engine in its own process.
    pub rival: bool,
}

/// Percentiles of the time of an operation in nanoseconds, reading the clock included.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct OperationTimes {
    pub p50: u32,
    pub p99: u32,
    pub p999: u32,
    pub max: u32,
    /// Percentiles of each operation's minimum across runs, which removes one-off disturbances of the machine. Rivals
    /// have one run, and do not report them.
    #[serde(default)]
    pub least_p50: u32,
    #[serde(default)]
    pub least_p999: u32,
}

/// A figure measured in several runs.
#[derive(Clone, Debug, Default)]
pub struct Runs(Vec<f64>);

impl Runs {
    pub fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    pub fn all(&self) -> &[f64] {
        &self.0
    }

    pub fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn most(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    /// The middle value, or the mean of the two middle ones; NaN without a run.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            len => (sorted[(len - 1) / 2] + sorted[len / 2]) / 2.0,
        }
    }
}

impl FromIterator<f64> for Runs {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Self {
        Self(figures.into_iter().collect())
    }
}

/// In JSON, the best value is the least time.
impl Serialize for Runs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"best": self.least(), "median": self.median(), "runs": self.0}).serialize(serializer)
    }
}

/// The value that `part` of `whole` sorted values do not exceed; the default for none.
pub(crate) fn percentile<T: Copy + Default>(sorted: &[T], part: usize, whole: usize) -> T {
    let index = (sorted.len() * part / whole).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default()
}

/// The commands that add these instruments, with price increment and round lot, and sessions without
/// limits, and open the market.
pub(crate) fn market_set_up(
    symbols: &[Symbol],
    (price_increment, round_lot): (Price, Quantity),
    sessions: u32,
) -> impl Iterator<Item = Command> {
    let system = |event| [Command::System(event)];
    let instruments = symbols.iter().map(move |symbol| {
        Command::AddInstrument(AddInstrument { symbol: *symbol, price_increment, round_lot })
    });
    let sessions = (0..sessions).map(|number| {
        Command::AddSession(AddSession {
            username: Text::new(&format!("U{number:05}")).expect("six characters"),
            firm: Firm::new("FIRM").expect("four characters"),
            live_orders_max: u32::MAX,
            self_match_prevention: SelfMatchPrevention::Off,
        })
    });
    let day = system(SystemEvent::StartOfMessages).into_iter().chain(instruments).chain(sessions);
    day.chain(system(SystemEvent::StartOfSystemHours))
}

/// Collects the events of an input as the ring of outputs does, and shows each.
struct Outbox<'a, F> {
    outputs: &'a mut Vec<OutputLine>,
    cause: Sequence,
    timestamp: Timestamp,
    on_event: F,
}

impl<'a, F: FnMut(&Event)> Outbox<'a, F> {
    #[inline(always)]
    fn new(outputs: &'a mut Vec<OutputLine>, input: &Input, on_event: F) -> Self {
        Self { outputs, cause: input.sequence, timestamp: input.timestamp, on_event }
    }
}

impl<F: FnMut(&Event)> Emit for Outbox<'_, F> {
    #[inline(always)]
    fn emit(&mut self, event: Event) {
        (self.on_event)(&event);
        self.emit_at_once(Outcome::Event(event));
    }

    #[inline(always)]
    fn emit_at_once(&mut self, outcome: Outcome) {
        let Self { cause, timestamp, .. } = *self;
        self.outputs.push(OutputLine { cause, timestamp, outcome });
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    pub flow: FlowName,
    pub operations: usize,
    pub prefill: usize,
    pub expected: Tally,
    pub rows: Vec<BookRow>,
}

/// Upper bound of the runs in which single operations are timed.
const LATENCY_RUNS: usize = 5;

struct Run {
    cpu_ns: u64,
    /// `None` where the machine does not count them.
    instructions: Option<u64>,
    tally: Tally,
}

/// Runs every engine and the rival programs at `rivals` over a flow, in turn, so that background
/// load affects all of them alike.
pub fn measure(
    name: FlowName,
    options: &BookOptions,
    entrants: &[Entrant],
    rivals: &[PathBuf],
) -> Result<FlowReport, RivalError> {
    let (flow, expected) = ComparisonFlow::generate(name, options.seed, options.divisor);
    let mut rivals = Rivals::start(name, &flow, rivals)?;
    let operations = flow.split().1.len();
    let row = |engine: String, rival: bool| BookRow {
        // The expected tally is that of the plain book itself.
        agrees: (![null::NAME, model_btree::ModelBTree::NAME].contains(&&*engine)).then_some(true),
        engine,
        ns_per_op: Runs::default(),
        instructions_per_op: None,
        tally: Tally::default(),
        latency: OperationTimes::default(),
        rival,
    };
    let own = entrants.iter().map(|entrant| row(entrant.name.to_owned(), false));
    let mut rows: Vec<BookRow> =
        own.chain(rivals.engines().map(|engine| row(engine, true))).collect();
    for _ in 0..options.runs {
        let (own_rows, rival_rows) = rows.split_at_mut(entrants.len());
        for (entrant, row) in entrants.iter().zip(own_rows) {
            let run = (entrant.run)(&flow, &expected);
            let an_operation = |count: u64| count as f64 / operations.max(1) as f64;
            let instructions = run.instructions.map(an_operation);
            row.add(an_operation(run.cpu_ns), instructions, run.tally, run.tally == expected);
        }
        for (turn, row) in rivals.run()?.into_iter().zip(rival_rows) {
            row.add(turn.ns_per_op, turn.instructions_per_op, turn.tally, turn.agrees(&expected));
        }
    }
    let clock = SystemClock::start();
    for (entrant, row) in entrants.iter().zip(&mut rows) {
        row.latency = (entrant.latency)(&flow, &expected, &clock, options.runs.min(LATENCY_RUNS));
    }
    for (latency, row) in rivals.latencies()?.into_iter().zip(&mut rows[entrants.len()..]) {
        row.latency = latency;
    }
    Ok(FlowReport { flow: name, operations, prefill: flow.prefill, expected, rows })
}

/// Duration of two clock reads in nanoseconds: the median of many.
pub fn timer_ns() -> u32 {
    let clock = SystemClock::start();
    let mut times: Vec<u32> = (0..10_001).map(|_| timed(&clock, || ())).collect();
    times.sort_unstable();
    percentile(&times, 1, 2)
}

struct Prepared<C: Contender> {
    contender: C,
    steps: Vec<C::Step>,
    /// The index after the last step of each operation.
    ends: Vec<usize>,
    prefill: usize,
    trades: Vec<BenchTrade>,
}

impl<C: Contender> Prepared<C> {
    fn new(flow: &ComparisonFlow, expected: &Tally) -> Self {
        let mut contender = C::new(flow);
        let mut steps = Vec::with_capacity(flow.operations.len() * 21 / 20 + 64);
        let mut ends = Vec::with_capacity(flow.operations.len());
        for operation in &flow.operations {
            contender.steps(operation, &mut steps);
            ends.push(steps.len());
        }
        let prefill = flow.prefill.checked_sub(1).map_or(0, |last| ends[last]);
        // Filled once in advance, so that the run does not pay page faults for the trades.
        let mut trades = vec![
            BenchTrade { maker: 0, taker: 0, quantity: 0, price: 0 };
            expected.trades as usize
        ];
        trades.clear();
        let mut prepared = Self { contender, steps, ends, prefill, trades };
        let Self { contender, steps, trades, .. } = &mut prepared;
        for step in &steps[..prefill] {
            contender.apply(step, trades);
        }
        prepared
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for trade in &self.trades {
            let [maker, taker] =
                [trade.maker, trade.taker].map(|it| self.contender.flow_order_id(it));
            tally.trade(maker, taker, trade.quantity, i64::from(trade.price));
        }
        tally
    }
}

fn run<C: Contender>(flow: &ComparisonFlow, expected: &Tally) -> Run {
    let mut prepared = Prepared::<C>::new(flow, expected);
    let Prepared { contender, steps, prefill, trades, .. } = &mut prepared;
    let mut counter = InstructionCounter::start();
    let mut count = || counter.as_mut().and_then(InstructionCounter::count);
    let before = count();
    let started = thread_cpu_ns();
    measured_steps(contender, &steps[*prefill..], trades);
    let cpu_ns = thread_cpu_ns() - started;
    let instructions = before.zip(count()).map(|(before, after)| after - before);
    Run { cpu_ns, instructions, tally: prepared.tally() }
}

/// The measured code, in its own function so that a profiler can be limited to it
/// (bench/instructions.sh).
#[inline(never)]
fn measured_steps<C: Contender>(
    contender: &mut C,
    steps: &[C::Step],
    trades: &mut Vec<BenchTrade>,
) {
    for batch in steps.chunks(BATCH_MAX) {
        contender.apply_batch(batch, trades);
    }
    black_box(trades);
}

/// The times of each operation: of the last run, and the minimum of all runs.
fn latencies<C: Contender>(
    flow: &ComparisonFlow,
    expected: &Tally,
    clock: &SystemClock,
    runs: usize,
) -> OperationTimes {
    let mut times = vec![0; flow.split().1.len()];
    let mut least = vec![u32::MAX; times.len()];
    for _ in 0..runs {
        let mut prepared = Prepared::<C>::new(flow, expected);
        let Prepared { contender, steps, ends, prefill, trades } = &mut prepared;
        let mut first = *prefill;
        for (time, end) in times.iter_mut().zip(&ends[flow.prefill..]) {
            *time = timed(clock, || {
                for step in &steps[first..*end] {
                    contender.apply(step, trades);
                }
            });
            first = *end;
        }
        for (least, time) in least.iter_mut().zip(&times) {
            *least = (*least).min(*time);
        }
    }
    percentiles(times, least)
}

fn timed(clock: &SystemClock, work: impl FnOnce()) -> u32 {
    let started = clock.since_start();
    work();
    u32::try_from((clock.since_start() - started).as_nanos()).unwrap_or(u32::MAX)
}

/// Percentiles of the last run, and of the minimum of all runs.
fn percentiles(mut times: Vec<u32>, mut least: Vec<u32>) -> OperationTimes {
    times.sort_unstable();
    least.sort_unstable();
    OperationTimes {
        p50: percentile(&times, 1, 2),
        p99: percentile(&times, 99, 100),
        p999: percentile(&times, 999, 1_000),
        max: percentile(&times, 1, 1),
        least_p50: percentile(&least, 1, 2),
        least_p999: percentile(&least, 999, 1_000),
    }
}

impl BookRow {
    /// The median ratio of the other engine's time to this one's, over runs made next to each other.
    pub fn ratio_of(&self, other: &Self) -> f64 {
        let pairs = self.ns_per_op.all().iter().zip(other.ns_per_op.all());
        pairs.map(|(own, other)| other / own).collect::<Runs>().median()
    }

    fn add(&mut self, ns_per_op: f64, instructions: Option<f64>, tally: Tally, agrees: bool) {
        self.ns_per_op.push(ns_per_op);
        self.instructions_per_op =
            self.instructions_per_op.into_iter().chain(instructions).min_by(f64::total_cmp);
        self.tally = tally;
        self.agrees = self.agrees.map(|agreed| agreed && agrees);
    }
}

impl FlowReport {
    /// The third-party engine with the right trades and the lowest time relative to our first engine.
    pub fn best_rival(&self) -> Option<&BookRow> {
        let own = self.rows.first()?;
        let rivals = self.rows.iter().filter(|row| row.rival && row.agrees == Some(true));
        rivals.min_by(|one, other| own.ratio_of(one).total_cmp(&own.ratio_of(other)))
    }
}

/// The whole report as one JSON object, the same for our engines and rivals.
pub fn summary(
    reports: &[FlowReport],
    options: &BookOptions,
    environment: &Value,
    timer_ns: u32,
) -> Value {
    json!({
        "schema": "damrak/bench-book/1",
        "seed": options.seed,
        "divisor": options.divisor,
        "runs": options.runs,
        "timer_ns": timer_ns,
        "environment": environment,
        "flows": reports,
    })
}
