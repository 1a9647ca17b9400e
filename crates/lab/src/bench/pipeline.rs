//! An order file through the pipeline in every layout, and through the core alone.
//!
//! Start at [`measure`]. The commands are read before the clock starts. A measured run equals that of
//! `damrak run`, with journal and ledger, but without result files and without hashing lines.
//! The throughput run publishes commands as fast as the rings accept them. The latency run does the
//! same up to the last commands, then waits for all results of a command before the next: the latency
//! of a command in an idle pipeline.
//!
//! Invariant: every layout ends with the state hash of the core alone.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use crate::order_file::{
    BalanceFile, FileError, InstrumentTable, OrderFile, generate::FileProfile,
};
use engine::{BATCH_MAX, Engine, LOOK_AHEAD_FROM};
use gateway::Submission;
use journal::Durability;
use market::{Command, Event, Input, Outcome, OutputLine, Sequence};
use os::thread_cpu_ns;
use ring::{AgentError, RingReport};
use serde_json::{Value, json};

use super::{Outbox, Runs, percentile};

use crate::order_run::{
    self, FileRows, LOOK_INTERVAL, LedgerSink, Pace, Rows, RunWiring, Setup, Sink, file_failure,
    submission,
};
use venue::{
    clock::SystemClock,
    core::RingSlots,
    failure::Failure,
    layout::{AgentGroup, Layout, Wait},
};

/// Commands at the end of a file that are timed one by one.
const ONE_AT_A_TIME: usize = 50_000;

#[derive(Clone, Debug)]
pub struct PipelineOptions {
    pub layouts: Vec<(String, Layout)>,
    pub runs: usize,
    /// How durable a command must be before its results are published.
    pub durability: Durability,
    pub wait: Wait,
    /// Where journals go while a run lasts.
    pub scratch: PathBuf,
    /// Ring capacities; `None` chooses by the number of threads.
    pub slots: Option<RingSlots>,
}

pub struct Prepared {
    name: String,
    rows: Arc<[Command]>,
    instruments: InstrumentTable,
}

#[derive(Clone, Debug)]
pub struct LayoutRow {
    pub layout: String,
    pub threads: usize,
    pub commands_per_second: Runs,
    /// CPU time of all threads per command in nanoseconds, one value per run.
    pub cpu_ns_per_command: Runs,
    /// Latencies of commands in an idle pipeline, sorted.
    pub times_ns: Vec<u64>,
    /// The largest batches and occupancies of the fastest run.
    pub rings: Vec<RingReport>,
    pub state_hash: u64,
}

#[derive(Clone, Debug)]
pub struct CoreRow {
    pub commands_per_second: Runs,
    pub events: u64,
    pub state_hash: u64,
}

#[derive(Clone, Debug)]
pub struct PipelineReport {
    pub name: String,
    pub commands: usize,
    pub core: CoreRow,
    pub rows: Vec<LayoutRow>,
}

/// Reads `orders.csv.gz` and `balances_init.csv`, or `balances.csv`, of a folder.
pub fn prepare_folder(folder: &Path) -> Result<Prepared, Failure> {
    let either = |names: [&str; 2]| {
        let paths = names.map(|name| folder.join(name));
        let [first, _] = &paths;
        paths.iter().find(|path| path.is_file()).unwrap_or(first).clone()
    };
    let orders = either(["orders.csv.gz", "orders.csv"]);
    let balances = either(["balances_init.csv", "balances.csv"]);
    let name = folder.file_name().map_or(folder.as_os_str(), |name| name);
    prepare(
        name.to_string_lossy().into_owned(),
        InstrumentTable::default(),
        || BalanceFile::open(&balances),
        |instruments| OrderFile::open(&orders, instruments),
    )
}

/// Generates a file with the shape of the origin's larger one from a seed.
pub fn prepare_generated(seed: u64, orders: u64) -> Result<Prepared, Failure> {
    let profile = FileProfile::from_name("origin").expect("there is one of that name");
    let written = |error: io::Error| Failure::runtime(error);
    let mut rows = Vec::new();
    profile.write_orders(seed, orders, &mut rows).map_err(written)?;
    let mut balances = Vec::new();
    profile.write_balances(&mut balances).map_err(written)?;
    prepare(
        format!("generated origin {orders} seed {seed}"),
        profile.instruments(),
        || BalanceFile::from_reader("balances", io::Cursor::new(balances)),
        |instruments| OrderFile::from_reader("orders", io::Cursor::new(rows), instruments),
    )
}

fn prepare(
    name: String,
    instruments: InstrumentTable,
    balances: impl FnOnce() -> Result<BalanceFile, FileError>,
    orders: impl FnOnce(InstrumentTable) -> Result<OrderFile, FileError>,
) -> Result<Prepared, Failure> {
    let files = balances().and_then(|balances| Ok((balances, orders(instruments.clone())?)));
    let (balances, orders) = files.map_err(|error| file_failure(&error))?;
    let rows = FileRows::new(Setup::new(instruments.clone(), true), Some(balances), orders);
    Ok(Prepared { name, rows: all(rows)?, instruments })
}

fn all(mut rows: FileRows) -> Result<Arc<[Command]>, Failure> {
    let mut all = Vec::new();
    loop {
        match rows.look(1 << 12) {
            Ok([]) => return Ok(all.into()),
            Ok(found) => {
                all.extend_from_slice(found);
                let count = found.len();
                rows.take(count);
            }
            Err(error) => {
                return Err(match error.downcast_ref() {
                    Some(error) => file_failure(error),
                    None => Failure::runtime(error),
                });
            }
        }
    }
}

/// Runs a file through the core and through the pipeline, the layouts in turn, so that background load
/// affects all of them alike.
pub fn measure(prepared: &Prepared, options: &PipelineOptions) -> Result<PipelineReport, Failure> {
    let clock = SystemClock::start();
    let mut core = CoreRow { commands_per_second: Runs::default(), events: 0, state_hash: 0 };
    let mut rows = Vec::new();
    let mut groups_of = Vec::new();
    for (name, layout) in &options.layouts {
        let groups = order_run::groups(layout, options.durability)?;
        rows.push(LayoutRow {
            layout: name.clone(),
            threads: groups.len(),
            commands_per_second: Runs::default(),
            cpu_ns_per_command: Runs::default(),
            times_ns: Vec::new(),
            rings: Vec::new(),
            state_hash: 0,
        });
        groups_of.push(groups);
    }
    let count = prepared.rows.len();
    for _ in 0..options.runs {
        core_alone(prepared, &mut core);
        for (groups, row) in groups_of.iter().zip(&mut rows) {
            let free = run(prepared, options, groups, Pace::Free, clock)?;
            let rate = count as f64 / free.seconds;
            if row.commands_per_second.most() < rate {
                row.rings = free.rings;
            }
            row.commands_per_second.push(rate);
            row.cpu_ns_per_command.push(free.cpu_ns as f64 / count as f64);
            row.state_hash = free.state_hash;
            if free.state_hash != core.state_hash {
                return Err(Failure::verification(format!(
                    "{}: layout {} ends with state {:016x}, but the core alone with {:016x}",
                    prepared.name, row.layout, free.state_hash, core.state_hash
                )));
            }
        }
    }
    for (groups, row) in groups_of.iter().zip(&mut rows) {
        let pace = Pace::OneAtATime {
            from: (count.saturating_sub(ONE_AT_A_TIME) + 1) as u64,
            times_ns: Vec::with_capacity(ONE_AT_A_TIME),
            submitted_ns: 0,
            clock,
        };
        row.times_ns = run(prepared, options, groups, pace, clock)?.times_ns;
        row.times_ns.sort_unstable();
    }
    Ok(PipelineReport { name: prepared.name.clone(), commands: count, core, rows })
}

fn core_alone(prepared: &Prepared, row: &mut CoreRow) {
    let inputs: Vec<Input> = prepared
        .rows
        .iter()
        .zip(1..)
        .map(|(command, number)| {
            let Submission { received, command } = submission(number, *command);
            Input { sequence: Sequence(number), timestamp: received, command }
        })
        .collect();
    let mut engine = Engine::new();
    let mut outbox = Vec::with_capacity(1 << 16);
    let mut events = 0;
    let before = thread_cpu_ns();
    for inputs in inputs.chunks(BATCH_MAX) {
        let mut batch = engine.batch(inputs, LOOK_AHEAD_FROM, ring::fetch);
        while let Some(next) = batch.next_input() {
            let input = next.input();
            next.apply_to(&mut Outbox::new(&mut outbox, input, |_| ()));
            events += outbox.len() as u64;
            outbox.clear();
        }
    }
    let seconds = (thread_cpu_ns() - before) as f64 / 1e9;
    row.commands_per_second.push(inputs.len() as f64 / seconds);
    row.events = events;
    row.state_hash = engine.state_hash();
}

struct MemoryRows {
    rows: Arc<[Command]>,
    next: usize,
}

impl Rows for MemoryRows {
    fn look(&mut self, limit: usize) -> Result<&[Command], AgentError> {
        let rest = &self.rows[self.next..];
        Ok(&rest[..limit.min(rest.len())])
    }

    fn take(&mut self, count: usize) {
        self.next += count;
    }
}

/// Counts the trades among the lines.
#[derive(Default)]
struct TradeCount {
    trades: u64,
    ended_ns: u64,
}

impl Sink for TradeCount {
    #[inline]
    fn take(&mut self, line: &OutputLine) -> Result<(), AgentError> {
        self.trades += u64::from(matches!(line.outcome, Outcome::Event(Event::Traded(_))));
        Ok(())
    }

    fn is_at(&mut self, _sequence: u64, now_ns: u64) {
        self.ended_ns = now_ns;
    }
}

struct Run {
    seconds: f64,
    cpu_ns: u64,
    times_ns: Vec<u64>,
    rings: Vec<RingReport>,
    state_hash: u64,
}

fn run(
    prepared: &Prepared,
    options: &PipelineOptions,
    groups: &[AgentGroup],
    pace: Pace,
    clock: SystemClock,
) -> Result<Run, Failure> {
    let journal = options.scratch.join(format!("damrak-bench-{}", std::process::id()));
    let rows = MemoryRows { rows: Arc::clone(&prepared.rows), next: 0 };
    let wiring = RunWiring {
        durability: options.durability,
        journal: journal.clone(),
        slots: options.slots,
        pace,
        groups: groups.to_vec(),
        wait: options.wait,
    };
    let sinks = (LedgerSink::new(&prepared.instruments, None, false), TradeCount::default());
    let before_ns = os::process_cpu_ns();
    let launched = order_run::launch(wiring, Box::new(rows), sinks, clock)?;
    while !launched.is_over() {
        thread::sleep(LOOK_INTERVAL);
    }
    let cpu_ns = os::process_cpu_ns() - before_ns;
    let rings = launched.rings();
    let ended = launched.finish();
    // The journal is no longer needed: its rest only takes space.
    let _ = fs::remove_dir_all(&journal);
    let ended = ended?;
    ended.ledger.check().map_err(Failure::verification)?;
    let (counted, made) = (ended.reporter.trades, ended.engine.counters().trades);
    if counted != made {
        return Err(Failure::verification(format!(
            "{}: the engine made {made} trades, but the output ring brought {counted}",
            prepared.name
        )));
    }
    Ok(Run {
        seconds: (ended.reporter.ended_ns - ended.begun_ns) as f64 / 1e9,
        cpu_ns,
        times_ns: ended.times_ns,
        rings,
        state_hash: ended.engine.state_hash(),
    })
}

impl LayoutRow {
    /// The value that `per_mille` thousandths of the values do not exceed.
    pub fn percentile(&self, per_mille: usize) -> u64 {
        percentile(&self.times_ns, per_mille, 1_000)
    }
}

pub fn summary(
    reports: &[PipelineReport],
    options: &PipelineOptions,
    environment: &Value,
) -> Value {
    let rates = |figures: &Runs| figures.all().iter().map(|rate| rate.round()).collect::<Vec<_>>();
    let files = reports.iter().map(|report| {
        json!({
            "file": report.name,
            "commands": report.commands,
            "core": {
                "commands_per_second": report.core.commands_per_second.most().round(),
                "commands_per_second_runs": rates(&report.core.commands_per_second),
                "events": report.core.events,
                "state_hash": format!("{:016x}", report.core.state_hash),
            },
            "layouts": report.rows.iter().map(|row| json!({
                "layout": row.layout,
                "threads": row.threads,
                "commands_per_second": row.commands_per_second.most().round(),
                "commands_per_second_runs": rates(&row.commands_per_second),
                "cpu_ns_per_command": row.cpu_ns_per_command.median(),
                "ns_per_command": {
                    "p50": row.percentile(500),
                    "p99": row.percentile(990),
                    "p999": row.percentile(999),
                    "max": row.percentile(1000),
                },
                "rings": row.rings.iter().map(|ring| json!({
                    "name": ring.name,
                    "capacity": ring.capacity,
                    "batch_max": ring.readers.iter().map(|it| it.batch_max).max(),
                    "high_water": ring.high_water,
                    "stalls": ring.stalls,
                    "readers": ring.readers.iter().map(|reader| json!({
                        "name": reader.name,
                        "batch_max": reader.batch_max,
                    })).collect::<Vec<_>>(),
                })).collect::<Vec<_>>(),
                "state_hash": format!("{:016x}", row.state_hash),
            })).collect::<Vec<_>>(),
        })
    });
    json!({
        "schema": "damrak/bench-pipeline/1",
        "durability": format!("{:?}", options.durability).to_lowercase(),
        "runs": options.runs,
        "files": files.collect::<Vec<_>>(),
        "environment": environment,
    })
}
