//! Runs an order file through the whole pipeline: everything of a venue but its sockets.
//!
//! ```text
//! source ─▶ the chain of `venue::core` ─┬▶ ledger
//!                                       └▶ reporter
//! ```
//!
//! Start at [`start`]. The source reads rows and submits them as fast as the rings take them; the ledger and the
//! reporter take durable events, as the gateways of a venue do. Nothing here depends on which agents share a thread: a
//! [`Layout`] is a matter of speed.

mod source;
mod output_consumer;
mod hashed_lines;
mod ledger;
mod origin;
mod reporter;
mod results;

use std::{marker::PhantomData, path::PathBuf, sync::Arc, time::Duration};

use crate::order_file::{BalanceFile, FileError, InstrumentTable, OrderFile, ReadProgress};
use engine::Engine;
use gateway::Submission;
use journal::{Durability, Folder, WriterOptions};
use market::Timestamp;
use ring::{Agent, AtomicGauge, Cursor, Monitor, Parker, RingReport, ThreadParker};

use venue::{
    clock::SystemClock,
    core::{Chain, Core, CoreOptions, RingSlots},
    failure::Failure,
    layout::{self, AgentGroup, AgentName, Layout, Machine, Wait, describe},
    recovery,
    stage::EngineStage,
};

pub use ledger::{Balance, LedgerSink};
pub use output_consumer::Sink;
pub use reporter::{Counts, InstrumentCounts, ReporterSink};
pub use results::{BookResult, Files, Results};
pub use source::{FileRows, Pace, RequestCounts, Rows, Setup};

use output_consumer::OutputConsumer;
use source::Source;

/// The time of reception of a file's first command: 2026-01-02 09:30 UTC. Each later command comes a
/// fixed interval after the one before, so order and time are the same in every run.
const START_NS: u64 = 1_767_346_200_000_000_000;
const STEP_NS: u64 = 1_000;

/// A run is soon over: a larger segment, prepared ahead, would cost more than all the writes to it.
const SEGMENT_BYTES: u64 = 32 << 20;

/// Slots for agents on so many threads. Agents that share a thread take turns, and the events that one hands to the
/// next should still be in its cache: a ring that is longer than a turn only moves on through memory. Threads of their
/// own need room to run ahead of each other; two, no more than their caches hold.
fn slots_of_threads(threads: usize) -> RingSlots {
    match threads {
        1 => RingSlots { submissions: 256, inputs: 256, outputs: 2048 },
        2 => RingSlots { submissions: 512, inputs: 512, outputs: 4096 },
        _ => RingSlots::default(),
    }
}

/// The agents of a run, in the order in which an order passes them.
pub const AGENTS: [AgentName; 6] = [
    AgentName::Source,
    AgentName::Sequencer,
    AgentName::Journaler,
    AgentName::Engine,
    AgentName::Ledger,
    AgentName::Reporter,
];

#[derive(Clone, Debug)]
pub struct RunOptions {
    pub orders: PathBuf,
    /// Opening balances; without them orders need no money.
    pub balances: Option<PathBuf>,
    /// The instruments; without a file the one of [`InstrumentTable::default`].
    pub instruments: Option<PathBuf>,
    pub layout: Layout,
    pub wait: Wait,
    /// How durable an input must be before its result is published.
    pub durability: Durability,
    /// The journal's folder, which must not exist yet.
    pub journal: PathBuf,
    /// Folder for the files of trades, book, balances and ledger.
    pub out: Option<PathBuf>,
    /// True to report balances as the origin's rounding would have left them.
    pub origin_rounding: bool,
    /// Ring capacities; `None` chooses by the number of threads.
    pub slots: Option<RingSlots>,
}

pub struct Started {
    launched: Launched<LedgerSink, ReporterSink>,
    progress: ReadProgress,
    instruments: InstrumentTable,
    layout: String,
}

/// Opens the files, wires the pipeline and launches its threads.
///
/// # Errors
/// A file cannot be read or has an invalid row, or the journal cannot be made.
pub fn start(options: &RunOptions, clock: SystemClock) -> Result<Started, Failure> {
    let instruments = match &options.instruments {
        Some(path) => InstrumentTable::read(path).map_err(|error| file_failure(&error))?,
        None => InstrumentTable::default(),
    };
    let balances = match &options.balances {
        Some(path) => Some(BalanceFile::open(path).map_err(|error| file_failure(&error))?),
        None => None,
    };
    let orders = OrderFile::open(&options.orders, instruments.clone())
        .map_err(|error| file_failure(&error))?;
    let progress = orders.progress();
    let has_money = balances.is_some();
    let (ledger_file, trades_file) = match &options.out {
        Some(folder) => {
            let files = Files::create(folder, instruments.only().is_none())?;
            (Some(files.ledger), Some(files.trades))
        }
        None => (None, None),
    };
    let ledger = LedgerSink::new(&instruments, ledger_file, options.origin_rounding);
    let reporter = ReporterSink::new(&instruments, trades_file);

    let rows = FileRows::new(Setup::new(instruments.clone(), has_money), balances, orders);
    let groups = groups(&options.layout, options.durability)?;
    let layout = describe(&groups);
    let wiring = RunWiring {
        durability: options.durability,
        journal: options.journal.clone(),
        slots: options.slots,
        pace: Pace::Free,
        groups,
        wait: options.wait,
    };
    let launched = launch(wiring, Box::new(rows), (ledger, reporter), clock)?;
    Ok(Started { launched, progress, instruments, layout })
}

/// The groups of a layout for the agents of a run.
///
/// # Errors
/// It has an agent that a run does not have, or lacks one.
pub fn groups(layout: &Layout, durability: Durability) -> Result<Vec<AgentGroup>, Failure> {
    let machine = Machine::this(false, durability == Durability::Synced);
    layout.groups(&AGENTS, machine).map_err(|what| Failure::usage(format!("--layout: {what}")))
}

impl Started {
    pub fn progress(&self) -> &ReadProgress {
        &self.progress
    }

    /// True once everything is done, or a thread has failed.
    pub fn is_over(&self) -> bool {
        self.launched.is_over()
    }

    /// Waits for the end and returns the results.
    ///
    /// # Errors
    /// A row is invalid, the journal cannot be written, or the results contradict each other.
    pub fn finish(self, options: &RunOptions) -> Result<Results, Failure> {
        results::gather(
            options,
            results::Parts {
                ended: self.launched.finish()?,
                instruments: self.instruments,
                layout: self.layout,
            },
        )
    }
}

pub struct RunWiring {
    /// Durability to reach before results are reported.
    pub durability: Durability,
    /// The journal's folder, which must not exist yet.
    pub journal: PathBuf,
    /// Ring capacities; `None` chooses by the number of threads.
    pub slots: Option<RingSlots>,
    /// When the source submits the next command.
    pub pace: Pace,
    pub groups: Vec<AgentGroup>,
    pub wait: Wait,
}

/// The progress of a run towards its end.
struct Ending {
    /// The sequence of the last input; `u64::MAX` while it is not known.
    last: Arc<AtomicGauge>,
    /// All events of inputs up to here are taken, by reader.
    taken: Vec<Arc<Cursor>>,
}

pub struct Launched<L, R> {
    threads: ring::RunningAgents,
    monitors: Vec<Monitor>,
    ending: Ending,
    sinks: PhantomData<(L, R)>,
}

pub struct Ended<L, R> {
    pub engine: Engine,
    pub ledger: L,
    pub reporter: R,
    /// When the first command was submitted.
    pub begun_ns: u64,
    pub last: u64,
    /// See [`Pace::OneAtATime`].
    pub times_ns: Vec<u64>,
    pub requests: RequestCounts,
}

/// Wires a core between these rows and the sinks of ledger and reporter, and starts a thread for each
/// group.
///
/// # Errors
/// The journal cannot be made, or exists already; a group names a core that this process may not use.
pub fn launch<L: Sink, R: Sink>(
    wiring: RunWiring,
    rows: Box<dyn Rows>,
    (ledger, reporter): (L, R),
    clock: SystemClock,
) -> Result<Launched<L, R>, Failure> {
    use AgentName::{Ledger, Reporter, Source as SourceAgent};
    let RunWiring { durability, journal, slots, pace, groups, wait } = wiring;
    let slots = slots.unwrap_or_else(|| slots_of_threads(groups.len()));
    let now_ns = clock.now_ns();
    let options = WriterOptions {
        durability,
        segment_bytes: SEGMENT_BYTES,
        ..WriterOptions::new(now_ns, now_ns)
    };
    let (state, writer, report) =
        recovery::recover(Box::new(Folder::new(&journal)), &options, &mut |_| ())?;
    if report.last_sequence > 0 {
        return Err(Failure::usage(format!("there is a journal in {} already", journal.display()))
            .hint("a run begins with an empty one; name another folder"));
    }
    let mut core = Core::new(slots);
    let submissions = core.source("submissions", SourceAgent);
    let (by_ledger, of_ledger) = core.cursor("taken by the ledger", Ledger, SourceAgent);
    let (by_reporter, of_reporter) = core.cursor("taken by the reporter", Reporter, SourceAgent);
    let taken = vec![of_ledger, of_reporter];
    let last = Arc::new(AtomicGauge::new(u64::MAX));
    let ending = Ending { last: Arc::clone(&last), taken: taken.clone() };
    let source = Source::new(rows, submissions, pace, last, taken);
    let ledger = OutputConsumer::new(&mut core, Ledger, by_ledger, ledger);
    let reporter = OutputConsumer::new(&mut core, Reporter, by_reporter, reporter);
    // The time of a run is that of its rows, so the clock of the machine changes nothing.
    let options = CoreOptions { has_clock: false, ..CoreOptions::new(durability) };
    let Chain { mut agents, wiring, .. } = core.build(state, writer, options);
    agents.insert(SourceAgent, Box::new(source));
    agents.insert(Ledger, Box::new(ledger));
    agents.insert(Reporter, Box::new(reporter));
    let parker = |_: &AgentGroup| Ok(Box::new(ThreadParker::default()) as Box<dyn Parker>);
    let threads = layout::launch(agents, &wiring, &groups, wait, Arc::new(clock), parker)?;
    let monitors = wiring.monitors().to_vec();
    Ok(Launched { threads, monitors, ending, sinks: PhantomData })
}

impl<L: Sink, R: Sink> Launched<L, R> {
    /// True once everything is done, or a thread has failed.
    pub fn is_over(&self) -> bool {
        let Ending { last, taken } = &self.ending;
        let last = last.get();
        taken.iter().all(|taken| taken.get() >= last) || self.threads.stopped()
    }

    pub fn rings(&self) -> Vec<RingReport> {
        self.monitors.iter().map(Monitor::read).collect()
    }

    /// Stops the threads, and takes the final state of the agents.
    ///
    /// # Errors
    /// An agent failed: a row makes no sense, or the journal cannot be written.
    pub fn finish(self) -> Result<Ended<L, R>, Failure> {
        self.threads.stop();
        let ended = self.threads.join();
        let mut agents =
            ended.map_err(|failure| match failure.error.downcast_ref::<FileError>() {
                Some(error) => file_failure(error),
                None => Failure::runtime(format!("the run stopped: {failure}")),
            })?;
        let Source { pace, submitted, begun_ns, requests, .. } = take(&mut agents);
        let (engine, ledger, reporter): (EngineStage, OutputConsumer<L>, OutputConsumer<R>) =
            (take(&mut agents), take(&mut agents), take(&mut agents));
        Ok(Ended {
            engine: engine.into_engine(),
            ledger: ledger.into_sink(),
            reporter: reporter.into_sink(),
            begun_ns,
            last: submitted,
            times_ns: match pace {
                Pace::Free => Vec::new(),
                Pace::OneAtATime { times_ns, .. } => times_ns,
            },
            requests,
        })
    }
}

fn take<A: Agent>(agents: &mut Vec<Box<dyn Agent>>) -> A {
    *ring::take_agent(agents).expect("each agent of a run has ended")
}

/// How often the caller of a run looks whether it is over.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The command that is the `number`-th of a run, from 1, with the time of its reception.
pub(crate) fn submission(number: u64, command: market::Command) -> Submission {
    Submission { received: Timestamp(START_NS + number * STEP_NS), command }
}

/// A file with invalid content is the caller's error, a damaged one is a failed verification.
pub(crate) fn file_failure(error: &FileError) -> Failure {
    let mut what = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        what.push_str(&format!(": {cause}"));
    }
    if error.is_corruption() { Failure::verification(what) } else { Failure::usage(what) }
}
