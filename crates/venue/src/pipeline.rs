//! The wiring of a venue: its gateways around the chain of [`crate::core`]. Read this first.
//!
//! ```text
//! order entry ─────▶ submissions ─────▶ ┌───────┐ ─▶ outputs ─▶ order entry
//! order entry udp ─▶ submissions udp ─▶ │ chain │            ├▶ order entry udp
//! operators ───────▶ submissions venue ▶└───────┘            └▶ market data ─▶ feed ─▶ feed server
//!                                           ├─▶ journal ─▶ follower ─▶ snapshots, ledger, replies of FIX on disk
//!                                           └─▶ journal ─▶ history ─▶ feed server, order entry fix
//! logins ─▶ passwords ─▶ logins
//! ```

use std::sync::Arc;

use engine::Engine;
use gateway::{
    DatagramNetwork, DerivedMirror, FaultTable, FeedServerCounters, FeedServerNetworks,
    MarketDataCounters, MarketDataFix, MarketDataFixCounters, Newcomers, OperatorEventSink,
    OrderEntryCounters, OrderEntryUdpCounters, PasswordChecker, SluiceCounters, StreamNetwork,
};
use journal::{Durability, RecoveryReport, SnapshotError, SnapshotSummary, Storage, WriterOptions};
use market::{Sequence, Timestamp};
use ring::{
    Agent, AgentError, AtomicGauge, Cursor, LossyConsumer, Monitor, Parker, Producer, RingReport,
};

use crate::{
    admin::Sources,
    config::{Config, ProtocolName, ScheduleConfig},
    core::{CHECKPOINT_SLOTS, Chain, Core, CoreOptions, LoadSheddingOptions},
    delta_streams::{self, StreamGauges},
    failure::Failure,
    gateways::Gateways,
    layout::{AgentName, Agents},
    ledger::{
        LedgerGauges, LedgerWriter, LedgerWriterConfig,
        store::{Access, Location, StoreError},
    },
    operator::{self, Answered, DeskEnds, Directory},
    public_state::public_state,
    recovery::{self, Past, Recovery},
    reply_files::{ReplyFileFigures, ReplyFileWriter, ReplyFilesPlan},
    stage::{
        Checkpoint, FeedHistory, Following, JournalFigures, Perturbations, Progress, ReplyHistory,
        Schedule, SnapshotFigures, SnapshotPlan, Snapshots,
    },
    stage_times::StageTimes,
    wiring::Wiring,
};

/// The agents of every venue, in the order in which an order passes them.
const AGENTS: [AgentName; 7] = [
    AgentName::OrderEntry,
    AgentName::OrderEntryUdp,
    AgentName::Sequencer,
    AgentName::Journaler,
    AgentName::Engine,
    AgentName::MarketData,
    AgentName::FeedServer,
];

/// Slots of the ring from market data to the feed server; market data waits while it is full.
pub(crate) const FEED_SLOTS: usize = 16_384;

/// Slots of the ring to the readers of derived data; no agent waits for them.
pub(crate) const DERIVED_SLOTS: usize = 65_536;

/// True if a second engine follows the journal, for snapshots, the ledger or the replies on disk.
pub(crate) fn follows(config: &Config) -> bool {
    snapshot_plan(config).is_wanted() || config.ledger.is_kept() || config.has_reply_files()
}

/// The agents of a venue with this configuration, in the order in which an order passes them.
pub fn agents(config: &Config) -> Vec<AgentName> {
    let has_fix = config.order_entry_fix.is_some();
    let has_ouch42 = config.order_entry_ouch42.is_some();
    let has_sluice = config.order_entry_sluice.is_some();
    let (first, rest) = AGENTS.split_first().expect("a venue has agents");
    let fix = has_fix.then_some(AgentName::OrderEntryFix);
    let ouch42 = has_ouch42.then_some(AgentName::OrderEntryOuch42);
    let sluice = has_sluice.then_some(AgentName::OrderEntrySluice);
    let sends = |name: &AgentName| {
        config.market_data.streams.iter().any(|stream| stream.agent_name() == *name)
    };
    let streams = AgentName::STREAMS.into_iter().filter(sends);
    let rest = rest.iter().copied();
    let data = config.market_data_fix.is_some().then_some(AgentName::MarketDataFix);
    let entry = [*first].into_iter().chain(fix).chain(ouch42).chain(sluice);
    entry.chain(rest).chain(data).chain(streams).collect()
}

/// The edges of a venue: sockets, or their substitutes in a simulation.
///
/// The default, if both types have one (networks in memory do), is without FIX.
#[derive(Default)]
pub struct Networks<S, D> {
    pub order_entry: S,
    /// `None` unless FIX is configured.
    pub order_entry_fix: Option<S>,
    /// `None` unless OUCH 4.2 is configured.
    pub order_entry_ouch42: Option<S>,
    /// `None` unless Sluice is configured.
    pub order_entry_sluice: Option<D>,
    pub order_entry_udp: D,
    pub market_data: D,
    /// Line B of the feed and its destination, if one is configured.
    pub market_data_b: Option<(D, std::net::SocketAddr)>,
    pub feed_server: FeedServerNetworks<S, D>,
    /// `None` unless market data by FIX is configured.
    pub market_data_fix: Option<S>,
    /// One network for each configured delta stream.
    pub streams: Vec<D>,
}

/// Settings of the edges, beside their sockets.
pub struct Edges {
    pub feed_destination: std::net::SocketAddr,
    /// Makes the sink for the operator events of a gateway by its name; called on the threads of the gateways.
    pub operator_events: fn(&'static str) -> Option<Box<dyn OperatorEventSink>>,
    /// A number that no other start of the journal has.
    pub start_id: u64,
    /// Perturbations of the stages: none except in a simulation.
    pub perturbations: Perturbations,
}

/// A venue wired, recovered and ready to take its first turn.
pub struct Venue {
    /// Every agent, to be grouped by a layout.
    pub agents: Agents,
    pub wiring: Wiring,
    /// The sources for queries of the ledger, if there is one.
    pub admin: Option<Sources>,
    /// The data derived from the feed, if configured.
    pub derived: Option<DerivedMirror>,
    pub gauges: Gauges,
    /// The faults of sessions, for operators to switch on.
    pub faults: FaultTable,
    /// The handle for adding users to each running port of order entry.
    pub newcomers: Vec<(ProtocolName, Newcomers)>,
    /// Follows the journal for snapshots, the ledger and the replies on disk, if the configuration asks for one of
    /// them. Not part of a layout: it waits for disk and store, and no agent waits for it.
    pub follower: Option<Box<dyn Agent>>,
    /// Reads older messages of the feed, and of FIX sessions, from the journal. Not part of a layout either.
    pub feed_history: Box<dyn Agent>,
    /// Wakes the feed history, if the gateways do so.
    pub history_parker: Option<Box<dyn Parker>>,
    /// Compares passwords of logins with hashes. Not part of a layout either: a check takes tens of milliseconds.
    pub passwords: PasswordChecker,
    /// The desk's ends: commands of operators go in, and their results come out.
    pub desk: DeskEnds,
    pub recovered: Recovered,
}

/// The state at the start of a venue.
#[derive(Debug)]
pub struct Recovered {
    pub journal_id: u64,
    pub report: RecoveryReport,
    pub checkpoint: Checkpoint,
    /// The hash of the whole state, independent of the way to it.
    pub state_hash: u64,
    /// The time of its last input.
    pub timestamp: Timestamp,
    /// The snapshot at which the replay began, if there was one.
    pub snapshot: Option<SnapshotSummary>,
    /// Newer snapshots that could not be used, and the reasons.
    pub passed_over: Vec<SnapshotError>,
    /// Settings of the journal that the configuration has changed, as text.
    pub changes: Vec<String>,
}

/// Figures of a running venue; readers do not disturb it.
pub struct Gauges {
    rings: Vec<Monitor>,
    checkpoints: LossyConsumer<Checkpoint>,
    checkpoint: Checkpoint,
    durable: Arc<Cursor>,
    /// The progress of the venue's stop; see [`gateway::DRAIN_REFUSES`].
    pub drain: Arc<AtomicGauge>,
    pub journal: Arc<JournalFigures>,
    /// The times of orders from stage to stage.
    pub stage_times: Arc<StageTimes>,
    /// Inputs up to here are in the journal, and their events in the ring of outputs.
    pub journaled: Arc<AtomicGauge>,
    pub applied: Arc<Cursor>,
    pub order_entry: Arc<OrderEntryCounters>,
    /// Counters of order entry by FIX, if configured.
    pub order_entry_fix: Option<Arc<OrderEntryCounters>>,
    /// Counters of order entry by OUCH 4.2, if configured.
    pub order_entry_ouch42: Option<Arc<OrderEntryCounters>>,
    /// Counters of order entry by Sluice, if configured.
    pub order_entry_sluice: Option<Arc<OrderEntryCounters>>,
    /// Counters of Sluice's datagrams.
    pub sluice: Option<Arc<SluiceCounters>>,
    pub order_entry_udp: Arc<OrderEntryUdpCounters>,
    pub market_data: Arc<MarketDataCounters>,
    pub feed_server: Arc<FeedServerCounters>,
    /// Counters of market data by FIX, if configured.
    pub market_data_fix: Option<Arc<MarketDataFixCounters>>,
    /// Gauges of each delta stream.
    pub streams: Vec<StreamGauges>,
    /// Figures of the snapshots, if any are made.
    pub snapshots: Option<Arc<SnapshotFigures>>,
    /// Figures of the messages to FIX sessions on disk, if they are kept.
    pub reply_files: Option<Arc<ReplyFileFigures>>,
    /// Gauges of the ledger, if there is one.
    pub ledger: Option<Arc<LedgerGauges>>,
}

impl Gauges {
    /// Reports of all rings since the last call.
    pub fn rings(&self) -> Vec<RingReport> {
        self.rings.iter().map(Monitor::read).collect()
    }

    /// Inputs up to here are as durable as configured.
    pub fn durable(&self) -> Sequence {
        Sequence(self.durable.get())
    }

    /// The newest checkpoint of the core that is durable.
    pub fn checkpoint(&mut self) -> Checkpoint {
        let durable = self.durable.get();
        let newest = &mut self.checkpoint;
        self.checkpoints.poll(CHECKPOINT_SLOTS, |checkpoint| {
            if checkpoint.progress.sequence.0 <= durable {
                *newest = *checkpoint;
            }
        });
        *newest
    }
}

/// The name of every stream of a venue, 10 decimal digits: the same for the life of its journal.
pub fn stream_session(journal_id: u64) -> [u8; 10] {
    format!("{:010}", journal_id % 10_000_000_000)
        .into_bytes()
        .try_into()
        .expect("ten digits are ten bytes")
}

/// Wires a venue, replays its journal through it, and adds the instruments, participants and settings
/// that the configuration has and the journal lacks.
///
/// `files` is a second handle of the folder of `storage`, for snapshots. `journal_id` and `now_ns` make a new journal,
/// if there is none.
///
/// # Errors
/// The journal cannot be used, or the configuration contradicts it.
pub fn assemble<N, D>(
    config: &Config,
    networks: Networks<N, D>,
    edges: &Edges,
    mut storage: Box<dyn Storage>,
    mut files: Box<dyn Storage>,
    journal_id: u64,
    now_ns: u64,
) -> Result<Venue, Failure>
where
    N: StreamNetwork + Send + 'static,
    D: DatagramNetwork + Send + 'static,
{
    let journal_id = journal::identity(&mut *storage).unwrap_or(journal_id);
    let session = stream_session(journal_id);
    let mut core = Core::new(config.rings);
    let streams = delta_streams::sessions(config, session, edges.start_id)?;
    let mut gateways = Gateways::new(config, networks, edges, &mut core, session, streams)?;
    let commands = core.source_outside("submissions venue", operator::SLOTS);
    let (to_results, results) = operator::results();
    let (durable, checkpoints) = core.outside("status");

    let durability = Durability::from(config.journal.durability);
    let options = WriterOptions {
        durability,
        segment_bytes: config.journal.segment.0,
        journal_id_if_new: journal_id,
        created: now_ns,
        from: 0,
    };
    let plan = snapshot_plan(config);
    let mut take = |past: Past<'_>| gateways.take(past);
    let Recovery { mut state, mut writer, report, snapshot, passed_over } =
        recovery::replay_beside(&mut take, |each| {
            recovery::resume(storage, &mut *files, &options, plan.archive_bytes, each)
        })?;
    // Streams are named after the journal; an unreadable journal would have another id.
    assert_eq!(writer.journal_id(), journal_id, "the journal is the one the streams are named for");
    // If the wall clock is behind the journal, the day continues from the journal's last moment.
    let now_ns = now_ns.max(state.engine.timestamp().0);
    let schedule = schedule(config, &state.engine, now_ns)?;
    let changes = recovery::complete(config, now_ns, &mut state, &mut writer, &mut |line| {
        take(Past::Line(line));
    })?;

    let engine = &state.engine;
    gateways.know_used_numbers(engine);
    gateways.feed_server.begin(now_ns, |each| public_state(engine, each));

    let access = Location::of(&config.ledger).map(Access::new);
    let sequence = engine.sequence().0;
    let ledger = access.as_ref().map(|access| ledger(config, access, journal_id, sequence));
    let ledger = ledger.transpose()?;
    let checkpoint = Checkpoint { progress: Progress::of(engine), digest: state.digest };
    // Once, before the first client, since hashing reads the whole state.
    let state_hash = engine.state_hash();
    let timestamp = engine.timestamp();
    let desk = DeskEnds {
        commands,
        results,
        durable: Arc::clone(&durable),
        directory: Directory::of(engine),
        numbers: operator::numbers(engine),
    };
    let options = core_options(config, edges, schedule, to_results);
    let chain = core.build(state, writer, options);
    let Chain { mut agents, wiring, journal, journaled, applied, stage_times } = chain;
    let last_snapshot = snapshot.map_or(0, |summary| summary.header.sequence);
    let snapshots = plan.is_wanted().then(|| Snapshots::new(plan, last_snapshot));
    let reply_files =
        reply_files_plan(config, journal_id).map(|plan| ReplyFileWriter::new(files.second(), plan));
    let ports = gateways.counters.clone();
    let gauges = Gauges {
        rings: wiring.monitors().to_vec(),
        checkpoints,
        checkpoint,
        durable,
        drain: Arc::clone(&gateways.drain),
        journal,
        stage_times,
        journaled: Arc::clone(&journaled),
        applied,
        order_entry: ports.order_entry,
        order_entry_fix: ports.order_entry_fix,
        order_entry_ouch42: ports.order_entry_ouch42,
        order_entry_sluice: ports.order_entry_sluice,
        sluice: ports.sluice,
        order_entry_udp: ports.order_entry_udp,
        market_data: gateways.market_data.counters(),
        feed_server: gateways.feed_server.counters(),
        market_data_fix: gateways.market_data_fix.as_ref().map(MarketDataFix::counters),
        streams: gateways.streams.gauges.clone(),
        snapshots: snapshots.as_ref().map(Snapshots::figures),
        reply_files: reply_files.as_ref().map(ReplyFileWriter::figures),
        ledger: ledger.as_ref().map(LedgerWriter::gauges),
    };
    let past = gateways.past.take().expect("it is taken once");
    let feed = FeedHistory::new(files.second(), Arc::clone(&journaled), past);
    let past = gateways.past_replies.take();
    let (mut history_parker, mut replies) = (None, None);
    if let Some(mut past) = past {
        history_parker = past.parker.take();
        let reader = reply_files.as_ref().map(ReplyFileWriter::reader);
        replies = Some(ReplyHistory::new(files.second(), Arc::clone(&journaled), past, reader));
    }
    let feed_history = Box::new(History { feed, replies });
    let admin = access.zip(gauges.ledger.clone());
    let admin = admin.map(|(ledger, gauges)| Sources { ledger, gauges });
    let follower = follows(config).then(|| -> Box<dyn Agent> {
        let follower =
            Following::new(files, journaled, snapshots, ledger).with_replies(reply_files);
        Box::new(follower.with_perturbations(edges.perturbations.clone()))
    });
    let passwords = gateways.passwords.take().expect("it is taken once");
    let derived = gateways.derived.take();
    let faults = gateways.faults.clone();
    let newcomers = std::mem::take(&mut gateways.newcomers);
    gateways.join(&mut agents);
    let recovered = Recovered {
        journal_id,
        report,
        checkpoint,
        state_hash,
        timestamp,
        snapshot,
        passed_over,
        changes,
    };
    Ok(Venue {
        agents,
        wiring,
        follower,
        feed_history,
        history_parker,
        passwords,
        admin,
        derived,
        gauges,
        faults,
        newcomers,
        desk,
        recovered,
    })
}

/// The readers of the journal for the edges, one after the other.
struct History {
    feed: FeedHistory,
    replies: Option<ReplyHistory>,
}

impl Agent for History {
    fn name(&self) -> &str {
        "history"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let replies = self.replies.as_mut().map_or(Ok(0), |replies| replies.do_work(now_ns))?;
        Ok(replies + self.feed.do_work(now_ns)?)
    }
}

fn schedule(config: &Config, engine: &Engine, now_ns: u64) -> Result<Schedule, Failure> {
    let entries = config.schedule.iter().map(ScheduleConfig::command).collect::<Result<_, _>>();
    let entries = entries.map_err(Failure::usage)?;
    Ok(Schedule::new(entries, engine.timestamp(), now_ns))
}

fn core_options(
    config: &Config,
    edges: &Edges,
    schedule: Schedule,
    results: Producer<Answered>,
) -> CoreOptions {
    let slow_ns = config.journal.slow.0.as_nanos() as u64;
    CoreOptions {
        digest_every: config.journal.digest_every,
        schedule: Some(schedule),
        results: Some(results),
        load_shedding: Some(LoadSheddingOptions { slow_ns }),
        perturbations: edges.perturbations.clone(),
        ..CoreOptions::new(Durability::from(config.journal.durability))
    }
}

fn ledger(
    config: &Config,
    access: &Access,
    journal_id: u64,
    journaled: u64,
) -> Result<LedgerWriter, Failure> {
    let place = access.clone();
    let writer = LedgerWriterConfig {
        open: Box::new(move || place.open()),
        journal_id,
        commit_interval_ns: config.ledger.commit_interval.0.as_nanos() as u64,
    };
    LedgerWriter::new(writer, journaled).map_err(|error: StoreError| {
        Failure::usage(format!("ledger: {error}"))
            .hint(format!("move {access} away, or name another: it is rebuilt from the journal"))
    })
}

fn reply_files_plan(config: &Config, journal_id: u64) -> Option<ReplyFilesPlan> {
    let settings = config.order_entry_fix.as_ref().filter(|_| config.has_reply_files())?;
    let (bytes_max, free_min) = (settings.reply_files.0, config.journal.free_min.0);
    Some(ReplyFilesPlan { bytes_max, free_min, journal_id })
}

pub(crate) fn snapshot_plan(config: &Config) -> SnapshotPlan {
    let settings = &config.snapshots;
    SnapshotPlan {
        inputs: settings.inputs,
        time_ns: settings.time.0.as_nanos() as u64,
        archive_bytes: settings.replies.0 as usize,
        old_segments: settings.old_segments,
    }
}
