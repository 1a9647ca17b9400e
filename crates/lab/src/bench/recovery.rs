//! Startup time from a snapshot, by replay and of a whole venue, compared with a bare read of the same bytes; and
//! the cost of a running snapshot to the core.
//!
//! Invariant: all ways of starting give the same state hash.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use engine::{BATCH_MAX, Engine, LOOK_AHEAD_FROM};
use gateway::fake::{FakeDatagram, FakeStream};
use journal::{Durability, Folder, Storage, Writer, WriterOptions, snapshot_file_name};
use market::{
    CancelOrder, Command, EnterOrder, Input, OrderKey, Price, Quantity, Sequence, SessionId, Side,
    Symbol, Timestamp,
};
use proof::rng::Rng;
use ring::AtomicGauge;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Runs, agent_thread::AgentThread, market_set_up, percentile};

use venue::{
    clock::SystemClock,
    config::{Config, OldSegments},
    failure::Failure,
    follower::Follower,
    pipeline::{self, Edges, Networks, Venue},
    recovery,
    stage::{Following, Perturbations, SnapshotPlan, Snapshots},
};

const ARCHIVE_BYTES: usize = 64 << 20;

/// Instruments and sessions over which the orders are spread.
const INSTRUMENTS: u64 = 100;
const SESSIONS: u64 = 50;

const BATCH: u64 = 64;

/// A start on a journal with a given number of resting orders.
#[derive(Clone, Debug, Serialize)]
pub struct RestartRow {
    pub orders: u64,
    pub journal_bytes: u64,
    pub snapshot_bytes: u64,
    /// Seconds to open the journal from its snapshot, one value per run.
    pub restart_s: Runs,
    /// Seconds to read the snapshot's bytes and discard them.
    pub bare_read_s: Runs,
    /// Seconds to replay the journal from its first record: read, verify, decode, apply.
    pub replay_s: f64,
    /// Seconds to start a venue by replay, over networks in memory: order entry and feed take up all messages.
    pub venue_start_s: Runs,
    /// Seconds in which the core applies the same commands from memory.
    pub core_s: f64,
    /// Seconds to write the snapshot, including the last sync.
    pub write_s: f64,
    pub agrees: bool,
}

/// The core with and without a snapshot in progress.
#[derive(Clone, Debug, Serialize)]
pub struct CostRow {
    /// True if a follower reads the journal and writes snapshots during the whole run.
    pub with_snapshots: bool,
    pub inputs_per_s: Vec<f64>,
    /// 99.9 % of the commits of 64 inputs took at most this, in nanoseconds, one value per run.
    #[serde(rename = "commit_p999_ns")]
    pub p999_ns: Vec<u64>,
    /// Half of the commits took at most this.
    #[serde(rename = "commit_p50_ns")]
    pub p50_ns: Vec<u64>,
    pub snapshots: u64,
}

/// Measures starts on a journal with `orders` resting orders, in an empty folder.
pub fn restart(folder: &Path, orders: u64, runs: usize) -> Result<RestartRow, Failure> {
    let clock = SystemClock::start();
    let seconds = |begun: f64| clock.since_start().as_secs_f64() - begun;
    let now = || clock.since_start().as_secs_f64();
    let mut flow = RestingFlow::new();
    {
        let mut writer = open(folder, Durability::None)?;
        prefill(&mut flow, &mut writer, orders, |_, _| ())?;
        writer.sync().map_err(Failure::runtime)?;
    }

    let mut venue_start_s = Runs::default();
    let mut venue_hashes = Vec::new();
    for _ in 0..runs {
        let begun = now();
        let venue = start_venue(folder, clock)?;
        venue_start_s.push(seconds(begun));
        venue_hashes.push(venue.recovered.state_hash);
    }

    let begun = now();
    let replayed = recovery::replay_folder(folder, &mut |_, _, _| {}, &mut |_| {})?;
    let replay_s = seconds(begun);
    let core_s = core_alone(orders, clock);
    let expected = replayed.state.engine.state_hash();
    let journal_bytes = replayed.report.byte_count;
    // The first start adds the settings of its configuration to the journal, and the others find them there.
    let mut agrees = u64::from(replayed.state.engine.counters().orders_live) == orders
        && venue_hashes.iter().all(|hash| *hash == expected);
    drop(replayed);

    let storage = Folder::new(folder);
    let mut files = storage.second();
    let mut follower = Follower::from_the_first(&storage, Some(ARCHIVE_BYTES));
    while follower.poll(1 << 16, u64::MAX, &mut |_| {})? > 0 {}
    let begun = now();
    let snapshot_bytes = follower.write(&mut *files, clock.now_ns()).map_err(Failure::runtime)?;
    let write_s = seconds(begun);
    let sequence = follower.engine().sequence().0;
    drop(follower);

    let (mut restart_s, mut bare_read_s) = (Runs::default(), Runs::default());
    for _ in 0..runs {
        let begun = now();
        let bytes = bare_read(&folder.join(snapshot_file_name(sequence)))
            .map_err(|error| Failure::runtime(format!("cannot read the snapshot: {error}")))?;
        bare_read_s.push(seconds(begun));
        agrees &= bytes == snapshot_bytes;
        let options = WriterOptions { durability: Durability::Written, ..WriterOptions::new(1, 1) };
        let begun = now();
        let found = recovery::resume(
            Box::new(Folder::new(folder)),
            &mut *files,
            &options,
            ARCHIVE_BYTES,
            &mut |_| {},
        )?;
        restart_s.push(seconds(begun));
        agrees &= found.state.engine.state_hash() == expected && found.snapshot.is_some();
    }
    Ok(RestartRow {
        orders,
        journal_bytes,
        snapshot_bytes,
        restart_s,
        bare_read_s,
        replay_s,
        venue_start_s,
        core_s,
        write_s,
        agrees,
    })
}

/// Starts a venue with the sessions of the journal as its participants.
fn start_venue(folder: &Path, clock: SystemClock) -> Result<Venue, Failure> {
    let participants = (0..SESSIONS).map(|number| {
        let name = format!("U{number:05}");
        format!(
            "[[participants]]\nusername = {name:?}\npassword = {name:?}\nfirm = \"FIRM\"\n\
             live_orders_max = {}\n",
            u32::MAX
        )
    });
    let text = format!("[journal]\ndirectory = {folder:?}\ndurability = \"written\"\n");
    let text = participants.fold(text, |text, participant| text + &participant);
    let config = Config::parse(&text, "the venue of the measurement")?;
    let edges = Edges {
        feed_destination: config.market_data.line_a().fallback,
        operator_events: |_| None,
        start_id: 1,
        perturbations: Perturbations::default(),
    };
    let networks = Networks::<FakeStream, FakeDatagram>::default();
    let files = || Box::new(Folder::new(folder));
    pipeline::assemble(&config, networks, &edges, files(), files(), 1, clock.now_ns())
}

/// Seconds to apply the commands of a journal with `orders` resting orders, in batches as a replay does, without
/// generating them.
fn core_alone(orders: u64, clock: SystemClock) -> f64 {
    let (mut flow, mut engine) = (RestingFlow::new(), Engine::new());
    let last = orders + flow.setup_count();
    let mut chunk = Vec::with_capacity(4096);
    let (mut sequence, mut seconds) = (0, 0.0);
    while sequence < last {
        chunk.clear();
        while sequence < last && chunk.len() < 4096 {
            sequence += 1;
            let command = flow.next(sequence);
            let (sequence, timestamp) = (Sequence(sequence), Timestamp(sequence));
            chunk.push(Input { sequence, timestamp, command });
        }
        let begun = clock.since_start();
        for inputs in chunk.chunks(BATCH_MAX) {
            let mut batch = engine.batch(inputs, LOOK_AHEAD_FROM, ring::fetch);
            while let Some(input) = batch.next_input() {
                input.apply_to(&mut |event| {
                    std::hint::black_box(&event);
                });
            }
        }
        seconds += (clock.since_start() - begun).as_secs_f64();
    }
    seconds
}

/// Runs sequencing, journal (`written`) and core on one thread, as the layout `single` does, over a
/// book of `orders` orders with constant turnover: without and with a follower that makes one snapshot
/// after the other, run by run.
pub fn cost(folder: &Path, orders: u64, inputs: u64, runs: usize) -> Result<[CostRow; 2], Failure> {
    let row = |with_snapshots| CostRow {
        with_snapshots,
        inputs_per_s: Vec::new(),
        p999_ns: Vec::new(),
        p50_ns: Vec::new(),
        snapshots: 0,
    };
    let mut rows = [row(false), row(true)];
    for run in 0..runs {
        for row in &mut rows {
            let place = folder.join(format!("run-{run}-{}", u8::from(row.with_snapshots)));
            let (seconds, mut times, made) = cost_run(&place, orders, inputs, row.with_snapshots)?;
            times.sort_unstable();
            row.inputs_per_s.push(inputs as f64 / seconds);
            row.p50_ns.push(percentile(&times, 1, 2));
            row.p999_ns.push(percentile(&times, 999, 1_000));
            row.snapshots += made;
            std::fs::remove_dir_all(&place)
                .map_err(|error| Failure::runtime(format!("cannot remove {place:?}: {error}")))?;
        }
    }
    Ok(rows)
}

/// Returns the seconds, the time of each commit, and the number of snapshots.
fn cost_run(
    place: &Path,
    orders: u64,
    inputs: u64,
    with_snapshots: bool,
) -> Result<(f64, Vec<u64>, u64), Failure> {
    let clock = SystemClock::start();
    let mut flow = RestingFlow::new();
    let mut writer = open(place, Durability::Written)?;
    let mut engine = Engine::new();
    let mut apply = |sequence: u64, command: Command| {
        let (sequence, timestamp) = (Sequence(sequence), Timestamp(sequence));
        engine.apply(&Input { sequence, timestamp, command }, &mut |event| {
            std::hint::black_box(&event);
        });
    };
    let prefilled = prefill(&mut flow, &mut writer, orders, &mut apply)?;

    let journaled = Arc::new(AtomicGauge::new(prefilled));
    let plan = SnapshotPlan {
        inputs: (inputs / 8).max(1),
        time_ns: 0,
        archive_bytes: ARCHIVE_BYTES,
        old_segments: OldSegments::Keep,
    };
    let snapshots = Snapshots::new(plan, 0);
    let figures = snapshots.figures();
    let storage = Box::new(Folder::new(place));
    let follower = Following::new(storage, Arc::clone(&journaled), Some(snapshots), None);
    let follower = with_snapshots.then(|| {
        // As in a venue. Without the permission the thread keeps its priority.
        let begin = || drop(os::lower_priority());
        AgentThread::start(follower, clock, begin, || thread::sleep(Duration::from_millis(1)))
    });

    let mut times = Vec::with_capacity((inputs / BATCH) as usize + 1);
    let begun = clock.since_start();
    let mut sequence = prefilled;
    while sequence < prefilled + inputs {
        let before = clock.since_start();
        for _ in 0..BATCH {
            sequence += 1;
            let command = flow.turn_over();
            append(&mut writer, sequence, &command)?;
            apply(sequence, command);
        }
        journaled.set(writer.commit().map_err(Failure::runtime)?);
        times.push((clock.since_start() - before).as_nanos() as u64);
    }
    let seconds = (clock.since_start() - begun).as_secs_f64();
    if let Some(follower) = follower {
        follower.stop().map_err(Failure::runtime)?;
    }
    Ok((seconds, times, figures.made.get()))
}

fn bare_read(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 4 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(bytes),
            count => bytes += std::hint::black_box(count) as u64,
        }
    }
}

fn open(folder: &Path, durability: Durability) -> Result<Writer, Failure> {
    let options = WriterOptions { durability, ..WriterOptions::new(1, 1) };
    let storage = Box::new(Folder::new(folder));
    let (state, writer, _) = recovery::recover(storage, &options, &mut |_| {})?;
    if state.engine.sequence() != Sequence::NONE {
        let folder = folder.display();
        return Err(Failure::usage(format!("there is a journal in {folder} already")));
    }
    Ok(writer)
}

fn append(writer: &mut Writer, sequence: u64, command: &Command) -> Result<(), Failure> {
    let encode = |place: &mut [u8; Command::ENCODED_LEN_MAX]| command.encode(place);
    writer.append_with(sequence, sequence, encode).map_err(Failure::runtime)
}

/// Writes the set-up and `orders` resting orders, and shows each; returns the last sequence.
fn prefill(
    flow: &mut RestingFlow,
    writer: &mut Writer,
    orders: u64,
    mut show: impl FnMut(u64, Command),
) -> Result<u64, Failure> {
    let last = orders + flow.setup_count();
    for sequence in 1..=last {
        let command = flow.next(sequence);
        append(writer, sequence, &command)?;
        show(sequence, command);
        if sequence.is_multiple_of(4096) {
            writer.commit().map_err(Failure::runtime)?;
        }
    }
    writer.commit().map_err(Failure::runtime)?;
    Ok(last)
}

/// Resting orders: buys below, sells above, spread over prices, instruments and sessions.
struct RestingFlow {
    rng: Rng,
    setup: Vec<Command>,
    entered: u64,
    canceled: u64,
}

impl RestingFlow {
    fn new() -> Self {
        let symbols: Vec<_> = (0..INSTRUMENTS).map(symbol).collect();
        let setup = market_set_up(&symbols, (Price(100), Quantity(100)), SESSIONS as u32).collect();
        Self { rng: Rng::new(1), setup, entered: 0, canceled: 0 }
    }

    fn setup_count(&self) -> u64 {
        self.setup.len() as u64
    }

    /// The commands that set up the market, then one order after the other.
    fn next(&mut self, sequence: u64) -> Command {
        match self.setup.get(sequence as usize - 1) {
            Some(command) => *command,
            None => self.enter(),
        }
    }

    /// Alternately cancels the oldest order and enters a new one: the size of the book is constant.
    fn turn_over(&mut self) -> Command {
        if (self.entered + self.canceled).is_multiple_of(2) {
            let key = key(self.canceled);
            self.canceled += 1;
            return Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO });
        }
        self.enter()
    }

    fn enter(&mut self) -> Command {
        let number = self.entered;
        self.entered += 1;
        let side = if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell };
        let away = self.rng.below(2_000) * 100;
        let price = if side.is_buy() { 1_000_000 - away } else { 1_000_100 + away };
        let quantity = Quantity(100 + self.rng.below(900));
        let symbol = symbol(self.rng.below(INSTRUMENTS));
        Command::Enter(EnterOrder::limit(key(number), side, symbol, quantity, Price(price)))
    }
}

fn symbol(number: u64) -> Symbol {
    Symbol::new(&format!("REST{number:04}")).expect("eight characters")
}

fn key(number: u64) -> OrderKey {
    OrderKey {
        session_id: SessionId((number % SESSIONS) as u16 + 1),
        channel: 0,
        user_ref_num: (number / SESSIONS) as u32 + 1,
    }
}

impl RestartRow {
    /// With the rates that follow from the figures.
    pub fn to_json(&self) -> Value {
        let mut json = json!(self);
        json["replay_inputs_per_s"] = json!(self.orders as f64 / self.replay_s);
        json["replay_rate_of_core"] = json!(self.core_s / self.replay_s);
        json["venue_start_inputs_per_s"] = json!(self.orders as f64 / self.venue_start_s.least());
        json
    }
}

impl CostRow {
    /// Inputs per second, the median of the runs.
    pub fn rate(&self) -> f64 {
        self.inputs_per_s.iter().copied().collect::<Runs>().median()
    }

    /// See [`p999_ns`](Self::p999_ns); the median of the runs.
    pub fn p999(&self) -> f64 {
        self.p999_ns.iter().map(|ns| *ns as f64).collect::<Runs>().median()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A start from the snapshot gives the state of the replay, and its orders rest.
    #[test]
    fn what_is_measured_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let row = restart(&folder.path().join("journal"), 2_000, 2).unwrap();
        assert!(row.agrees, "{row:?}");
        assert_eq!(row.restart_s.all().len(), 2);
        assert!(row.snapshot_bytes > 2_000 * 40, "{row:?}");
    }

    /// The book of the cost measurement keeps its number of orders, and snapshots are made during the run.
    #[test]
    fn the_cost_is_that_of_snapshots() {
        let folder = tempfile::tempdir().unwrap();
        let [without, with] = cost(folder.path(), 1_000, 20_000, 1).unwrap();
        assert_eq!((without.snapshots, with.inputs_per_s.len()), (0, 1));
        assert!(with.snapshots > 0, "{with:?}");
    }
}
