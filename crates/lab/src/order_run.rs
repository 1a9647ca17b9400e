//! Runs an order file through the whole pipeline: everything of a venue but its sockets.
//!
//! ```text
//! source ─▶ submissions ─▶ sequencer ─▶ inputs ─┬▶ journaler ─▶ durable cursor
//!                                               └▶ engine ─▶ outputs ─┬▶ ledger
//!                                                                     └▶ reporter
//! ```
//!
//! Start at [`start`]. The source reads rows and submits them as fast as the rings accept them; the
//! ledger and the reporter read durable outputs, as the gateways of a venue do.
//!
//! Invariant: results do not depend on which agents share a thread; [`Grouping`] only changes the speed.

mod grouping;
mod source;
mod taker;
mod ledger;
mod origin;
mod reporter;
mod results;

use std::{
    collections::BTreeMap,
    num::NonZero,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use crate::order_file::{BalanceFile, FileError, Instruments, OrderFile, Progress};
use gateway::Submission;
use journal::{Durability, Folder, Options};
use market::{Input, Output, Sequence, Timestamp};
use ring::{Agent, AtomicGauge, Builder, Cursor, Group, IdleStrategy, Monitor};

use venue::{
    clock::SystemClock,
    failure::Failure,
    log::LocalLog,
    recovery,
    stage::{Checkpoint, EngineHeir, EngineStage, Journaler, Sequencer},
    wake_targets,
};

pub use grouping::{AgentGroup, Grouping, OrdersAgent};
pub use ledger::{Balance, LedgerSink};
pub use reporter::{Counts, InstrumentCounts, ReporterSink};
pub use results::{BookResult, Files, Results};
pub use source::{Counted, FileRows, Pace, Rows, Setup};
pub use taker::{Ending, Sink};

use source::Source;
use taker::Taker;

/// The time of reception of a file's first command: 2026-01-02 09:30 UTC. Each later command comes a
/// fixed interval after the one before, so order and time are the same in every run.
const START_NS: u64 = 1_767_346_200_000_000_000;
const STEP_NS: u64 = 1_000;

/// For each ring and cursor the writer and the reader: the picture above as a table. The source reads
/// the readers' positions when it waits for them.
const READ_BY: &[(OrdersAgent, OrdersAgent)] = &[
    (OrdersAgent::Source, OrdersAgent::Sequencer),
    (OrdersAgent::Sequencer, OrdersAgent::Journaler),
    (OrdersAgent::Sequencer, OrdersAgent::Engine),
    (OrdersAgent::Journaler, OrdersAgent::Ledger),
    (OrdersAgent::Journaler, OrdersAgent::Reporter),
    (OrdersAgent::Engine, OrdersAgent::Ledger),
    (OrdersAgent::Engine, OrdersAgent::Reporter),
    (OrdersAgent::Ledger, OrdersAgent::Source),
    (OrdersAgent::Reporter, OrdersAgent::Source),
];

/// A run is short: a larger preallocated segment would cost more than everything written to it.
const SEGMENT_BYTES: u64 = 32 << 20;

/// How many slots the rings have.
#[derive(Clone, Copy, Debug)]
pub struct RingSlots {
    /// From the source to the sequencer.
    pub submissions: usize,
    /// From the sequencer to journaler and engine.
    pub inputs: usize,
    /// From the engine to ledger and reporter.
    pub outputs: usize,
}

impl RingSlots {
    /// For agents on so many threads. Those that share one take turns, and what one hands to the next
    /// should still be in its cache: a ring that is longer than a turn only moves on through memory.
    /// Threads of their own need room to run ahead of each other; two, no more than their caches hold.
    #[must_use]
    pub const fn of_threads(threads: usize) -> Self {
        match threads {
            1 => Self { submissions: 256, inputs: 256, outputs: 2048 },
            2 => Self { submissions: 512, inputs: 512, outputs: 4096 },
            _ => Self { submissions: 4096, inputs: 8192, outputs: 16_384 },
        }
    }
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The order file.
    pub orders: PathBuf,
    /// Opening balances; without them orders need no money.
    pub balances: Option<PathBuf>,
    /// The instruments; without a file the one of [`Instruments::default`].
    pub instruments: Option<PathBuf>,
    /// Which agents share threads.
    pub grouping: Grouping,
    /// What an idle thread does; `None` chooses by the number of cores and threads.
    pub idle: Option<IdleStrategy>,
    /// How durable an input must be before its results are published.
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

/// A run in progress.
pub struct Started {
    threads: ring::Running,
    seen: Seen<LedgerSink, ReporterSink>,
    progress: Progress,
    counted: Arc<Counted>,
    instruments: Instruments,
    grouping: String,
}

/// Opens the files, wires the pipeline and launches its threads.
///
/// # Errors
/// A file cannot be read or has an invalid row, or the journal cannot be made.
pub fn start(options: &RunOptions, clock: SystemClock) -> Result<Started, Failure> {
    let instruments = match &options.instruments {
        Some(path) => Instruments::read(path).map_err(|error| file_failure(&error))?,
        None => Instruments::default(),
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

    let counted = Arc::new(Counted::default());
    let rows = FileRows::new(Setup::new(instruments.clone(), has_money), balances, orders);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let grouping = options.grouping.groups(cores);
    let wired = wire(
        Wiring {
            durability: options.durability,
            journal: options.journal.clone(),
            slots: options.slots.unwrap_or(RingSlots::of_threads(grouping.len())),
            pace: Pace::Free,
        },
        Box::new(rows),
        Arc::clone(&counted),
        (ledger, reporter),
        &clock,
    )?;
    let names = grouping.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
    let threads = launch(wired.agents, &grouping, options.idle, cores, clock)?;
    Ok(Started { threads, seen: wired.seen, progress, counted, instruments, grouping: names })
}

impl Started {
    /// How far the order file is read.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// True once everything is done, or a thread has failed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.seen.ending.is_over() || self.threads.stopped()
    }

    /// Waits for the end and returns the results.
    ///
    /// # Errors
    /// A row is invalid, the journal cannot be written, or the results contradict each other.
    pub fn finish(self, options: &RunOptions) -> Result<Results, Failure> {
        self.threads.stop();
        self.threads.join().map_err(|failure| match failure.error.downcast_ref::<FileError>() {
            Some(error) => file_failure(error),
            None => Failure::runtime(format!("the run stopped: {failure}")),
        })?;
        let Seen { ending, heir, ledger, reporter, .. } = self.seen;
        let engine = recover_lock(&heir).take();
        results::gather(
            options,
            results::Parts {
                engine: engine.expect("the engine stage returns its engine when it is closed"),
                ledger: take_out(ledger),
                reporter: take_out(reporter),
                begun_ns: ending.begun_ns(),
                last: ending.last(),
                counted: &self.counted,
                instruments: self.instruments,
                grouping: self.grouping,
            },
        )
    }
}

/// How the agents are wired.
pub struct Wiring {
    /// How durable an input must be before its results are published.
    pub durability: Durability,
    /// The journal's folder, which must not exist yet.
    pub journal: PathBuf,
    /// Ring capacities.
    pub slots: RingSlots,
    /// When the source submits the next command.
    pub pace: Pace,
}

/// Agents that are wired to each other, and what can be seen of them from outside.
pub struct Wired<L, R> {
    /// In the order in which an order passes them.
    pub agents: Vec<(OrdersAgent, Box<dyn Agent>)>,
    /// What can be seen of them.
    pub seen: Seen<L, R>,
}

/// What can be seen of the agents from outside.
pub struct Seen<L, R> {
    /// Of the rings of submissions, inputs and outputs.
    pub monitors: Vec<Monitor>,
    /// Says when all is done.
    pub ending: Arc<Ending>,
    /// Where the engine is left at the end.
    pub heir: EngineHeir,
    /// What the ledger makes of the events.
    pub ledger: Arc<Mutex<L>>,
    /// What the reporter makes of the events.
    pub reporter: Arc<Mutex<R>>,
}

/// Wires a pipeline around these rows and these two readers of events.
///
/// # Errors
/// The journal cannot be made, or exists already.
pub fn wire<L: Sink, R: Sink>(
    wiring: Wiring,
    rows: Box<dyn Rows>,
    counted: Arc<Counted>,
    (ledger, reporter): (L, R),
    clock: &SystemClock,
) -> Result<Wired<L, R>, Failure> {
    let mut submissions = Builder::<Submission>::new("submissions", wiring.slots.submissions);
    let to_sequencer = submissions.gating("sequencer");
    let (submissions, submissions_monitor) = submissions.build();
    let mut inputs = Builder::<Input>::new("inputs", wiring.slots.inputs);
    let (to_journaler, to_engine) = (inputs.gating("journaler"), inputs.gating("engine"));
    let (inputs, inputs_monitor) = inputs.build();
    let mut outputs = Builder::<Output>::new("outputs", wiring.slots.outputs);
    let (to_ledger, to_reporter) = (outputs.gating("ledger"), outputs.gating("reporter"));
    let (outputs, outputs_monitor) = outputs.build();
    let (checkpoints, _) = Builder::<Checkpoint>::new("checkpoints", 64).build();

    let now_ns = clock.now_ns();
    let options = Options {
        durability: wiring.durability,
        segment_bytes: SEGMENT_BYTES,
        ..Options::new(now_ns, now_ns)
    };
    let storage = Box::new(Folder::new(&wiring.journal));
    let (engine, writer, report) = recovery::recover(storage, &options, &mut |_| ())?;
    if report.last_sequence > 0 {
        return Err(Failure::usage(format!(
            "there is already a journal in {}",
            wiring.journal.display()
        ))
        .hint("a run needs an empty folder; name another one"));
    }
    let unconditional = wiring.durability == Durability::None;
    let durable = Arc::new(Cursor::new(if unconditional { u64::MAX } else { 0 }));
    let applied = Arc::new(Cursor::new(0));
    let ending = Arc::new(Ending::new(Arc::clone(&applied), Arc::clone(&durable), 2));
    let heir = EngineHeir::default();
    let (ledger, reporter) = (Arc::new(Mutex::new(ledger)), Arc::new(Mutex::new(reporter)));

    // The time of a run is the time of its rows: the sequencer receives no timer requests of the
    // engine, so the machine's clock changes nothing.
    let sequencer = Sequencer::new(
        LocalLog::new(Sequence::NONE, Timestamp::default()),
        vec![to_sequencer],
        inputs,
        Arc::new(AtomicGauge::new(u64::MAX)),
    );
    let due = Arc::new(AtomicGauge::new(u64::MAX));
    let engine = EngineStage::new(to_engine, engine, outputs, checkpoints, due)
        .telling(applied)
        .leaving_to(Arc::clone(&heir));
    let ledger_taker = Taker::new("ledger", to_ledger, Arc::clone(&ledger), Arc::clone(&ending), 0);
    let reporter_taker =
        Taker::new("reporter", to_reporter, Arc::clone(&reporter), Arc::clone(&ending), 1);
    let source = Source::new(rows, submissions, wiring.pace, Arc::clone(&ending), counted);
    let agents: Vec<(OrdersAgent, Box<dyn Agent>)> = vec![
        (OrdersAgent::Source, Box::new(source)),
        (OrdersAgent::Sequencer, Box::new(sequencer)),
        (
            OrdersAgent::Journaler,
            Box::new(Journaler::new(to_journaler, writer, durable, unconditional)),
        ),
        (OrdersAgent::Engine, Box::new(engine)),
        (OrdersAgent::Ledger, Box::new(ledger_taker)),
        (OrdersAgent::Reporter, Box::new(reporter_taker)),
    ];
    let monitors = vec![submissions_monitor, inputs_monitor, outputs_monitor];
    Ok(Wired { agents, seen: Seen { monitors, ending, heir, ledger, reporter } })
}

/// Starts a thread for each group.
///
/// # Errors
/// A core is named that this process may not use.
///
/// # Panics
/// An agent is in no group, or in two.
pub fn launch(
    agents: Vec<(OrdersAgent, Box<dyn Agent>)>,
    grouping: &[AgentGroup],
    idle: Option<IdleStrategy>,
    cores: usize,
    clock: SystemClock,
) -> Result<ring::Running, Failure> {
    let mut agents: BTreeMap<_, _> = agents.into_iter().collect();
    let idle = idle.unwrap_or_else(|| IdleStrategy::adaptive(grouping.len(), cores));
    let members_of: Vec<_> = grouping.iter().map(|group| group.agents.as_slice()).collect();
    let mut groups = Vec::new();
    for (number, AgentGroup { agents: members, core }) in grouping.iter().enumerate() {
        if let Some(core) = *core {
            venue::running::check_core(core)?;
        }
        let members =
            members.iter().map(|name| agents.remove(name).expect("each agent stands in one group"));
        let mut launched = Group::new(format!("damrak-{number}"), members.collect(), idle);
        launched.wake_targets = Some(wake_targets::of(number, &members_of, READ_BY));
        launched.on_start = core.map(venue::running::pin_at_start);
        groups.push(launched);
    }
    assert!(agents.is_empty(), "each agent stands in a group");
    Ok(ring::launch(groups, Arc::new(clock)))
}

/// How often the caller of a run looks whether it is over.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The command that is the `number`-th of a run, from 1, with the time of its reception.
pub(crate) fn submission(number: u64, command: market::Command) -> Submission {
    Submission { received: Timestamp(START_NS + number * STEP_NS), command }
}

/// A file that makes no sense is the caller's, one that is broken is a verification that failed.
pub(crate) fn file_failure(error: &FileError) -> Failure {
    let mut what = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        what.push_str(&format!(": {cause}"));
    }
    if error.is_corruption() { Failure::verification(what) } else { Failure::usage(what) }
}

pub(crate) fn recover_lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic of a thread is passed on by `join`, so nobody looks at what it left half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn take_out<T>(shared: Arc<Mutex<T>>) -> T {
    let mutex = Arc::into_inner(shared).expect("the agents are gone, and nobody else has it");
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
