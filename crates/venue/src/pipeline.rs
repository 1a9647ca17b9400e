//! The wiring: the writer and the readers of each ring. Read this first.
//!
//! ```text
//! order entry ─────▶ submissions ─────▶ ┐            ┌─▶ journaler ─▶ durable cursor
//! order entry udp ─▶ submissions udp ─▶ sequencer ─▶ inputs
//!                                                    └─▶ engine ─▶ outputs ─▶ order entry
//!                                                          │                ├▶ order entry udp
//!                                                          ▼                └▶ market data
//!                                                      checkpoints
//!                                                       (lossy)
//!
//! journal ─▶ follower ─▶ snapshots, ledger
//!
//! engine ─▶ time of its next timed action ─▶ sequencer, which appends the time if no command comes
//! journaler ─▶ reason of load shedding ─▶ sequencer, which refuses new orders
//! ```

use std::{collections::BTreeMap, sync::Arc};

use gateway::{
    Credentials, DatagramNetwork, MarketData, MarketDataConfig, MarketDataCounters,
    OperatorEventSink, OrderEntry, OrderEntryConfig, OrderEntryCounters, OrderEntryLimits,
    OrderEntryUdp, OrderEntryUdpConfig, OrderEntryUdpCounters, StreamNetwork, Submission,
};
use journal::{Durability, Options, Report, SnapshotError, SnapshotSummary, Storage};
use market::{Input, Output, Sequence};
use ring::{Agent, AtomicGauge, Builder, Cursor, LossyConsumer, Monitor, RingReport};

use wire::soupbintcp::Timers;

use crate::{
    admin::Sources,
    config::{AgentName, Config, ScheduleConfig},
    failure::Failure,
    ledger::{
        LedgerGauges, LedgerWriter, LedgerWriterConfig,
        store::{Access, Location, StoreError},
    },
    log::LocalLog,
    operator::{self, DeskEnds, Directory},
    recovery::{self, Past, Recovery},
    stage::{
        Checkpoint, EngineStage, Following, JournalFigures, Journaler, Relief, Schedule, Sequencer,
        SnapshotFigures, SnapshotPlan, Snapshots, Whims,
    },
};

/// Slots of the ring of checkpoints; it is lossy, so more would only hold older ones.
const CHECKPOINT_SLOTS: usize = 64;

/// The (writer, reader) pairs of rings and cursors: the picture above as a table.
pub const READ_BY: &[(AgentName, AgentName)] = &[
    (AgentName::OrderEntry, AgentName::Sequencer),
    (AgentName::OrderEntryUdp, AgentName::Sequencer),
    (AgentName::Sequencer, AgentName::Journaler),
    (AgentName::Sequencer, AgentName::Engine),
    (AgentName::Journaler, AgentName::OrderEntry),
    (AgentName::Journaler, AgentName::OrderEntryUdp),
    (AgentName::Journaler, AgentName::MarketData),
    (AgentName::Engine, AgentName::OrderEntry),
    (AgentName::Engine, AgentName::OrderEntryUdp),
    (AgentName::Engine, AgentName::MarketData),
];

/// The edges of a venue: sockets, or their substitutes in a simulation.
pub struct Networks<S, D> {
    /// OUCH over SoupBinTCP.
    pub order_entry: S,
    /// OUCH over UDP.
    pub order_entry_udp: D,
    /// The feed leaves by it.
    pub market_data: D,
    /// Requests for lost messages come in by it.
    pub re_request: D,
}

/// Settings of the edges, beside their sockets.
pub struct Edges {
    /// Where the feed goes.
    pub feed_destination: std::net::SocketAddr,
    /// Takes operator events; called on the threads of the gateways.
    pub operator_events: fn() -> Option<OperatorEventSink>,
    /// Perturbations of the stages: none except in a simulation.
    pub whims: Whims,
}

/// A venue that is wired, recovered and ready to take its first turn.
pub struct Venue {
    /// Every agent, to be grouped by a layout.
    pub agents: BTreeMap<AgentName, Box<dyn Agent>>,
    /// The readable ledger, if one is kept.
    pub admin: Option<Sources>,
    /// Its figures, readable while it runs.
    pub gauges: Gauges,
    /// Follows the journal for snapshots and the ledger, if the configuration asks for one of them. It is not
    /// part of a layout: it waits for disk and store, and nothing waits for it.
    pub follower: Option<Box<dyn Agent>>,
    /// Where the commands of operators go in, and their results come out.
    pub desk: DeskEnds,
    /// The recovered state.
    pub recovered: Recovered,
}

/// The state a venue starts from.
#[derive(Debug)]
pub struct Recovered {
    /// The identity of the journal.
    pub journal_id: u64,
    /// The figures of the replay.
    pub report: Report,
    /// The state after it.
    pub checkpoint: Checkpoint,
    /// The snapshot at which the replay began, if there was one.
    pub snapshot: Option<SnapshotSummary>,
    /// Newer snapshots that could not be used, and why.
    pub passed_over: Vec<SnapshotError>,
    /// Settings of the journal that the configuration has changed, in words.
    pub changes: Vec<String>,
}

/// Figures of a running venue; reading them does not disturb it.
pub struct Gauges {
    rings: Vec<Monitor>,
    checkpoints: LossyConsumer<Checkpoint>,
    checkpoint: Checkpoint,
    durable: Arc<Cursor>,
    /// How far the venue is in stopping; see [`gateway::DRAIN_REFUSES`].
    pub drain: Arc<AtomicGauge>,
    /// Of the journal.
    pub journal: Arc<JournalFigures>,
    /// Of order entry over TCP.
    pub order_entry: Arc<OrderEntryCounters>,
    /// Of order entry over UDP.
    pub order_entry_udp: Arc<OrderEntryUdpCounters>,
    /// Of the feed.
    pub market_data: Arc<MarketDataCounters>,
    /// Of the snapshots, if some are made.
    pub snapshots: Option<Arc<SnapshotFigures>>,
    /// Of the ledger, where one is kept.
    pub ledger: Option<Arc<LedgerGauges>>,
}

impl Gauges {
    /// Every ring, since this was last asked.
    #[must_use]
    pub fn rings(&self) -> Vec<RingReport> {
        self.rings.iter().map(Monitor::read).collect()
    }

    /// Inputs up to here are as durable as configured.
    #[must_use]
    pub fn durable(&self) -> Sequence {
        Sequence(self.durable.get())
    }

    /// The newest state of the core that is durable.
    pub fn checkpoint(&mut self) -> Checkpoint {
        let durable = self.durable.get();
        let newest = &mut self.checkpoint;
        self.checkpoints.poll(CHECKPOINT_SLOTS, |checkpoint| {
            if checkpoint.sequence.0 <= durable {
                *newest = *checkpoint;
            }
        });
        *newest
    }
}

/// The name of every stream of a venue, 10 decimal digits: the same for the life of its journal.
#[must_use]
pub fn stream_session(journal_id: u64) -> [u8; 10] {
    format!("{:010}", journal_id % 10_000_000_000)
        .into_bytes()
        .try_into()
        .expect("ten digits are ten bytes")
}

/// Wires a venue, replays its journal through it, and adds the instruments, participants and settings
/// that the configuration has and the journal lacks.
///
/// `files` is the folder of `storage` once more, for snapshots. `journal_id` and `now_ns` make a new
/// journal, if there is none.
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
    let durability = Durability::from(config.journal.durability);
    let unconditional = durability == Durability::None;

    let mut submissions = Builder::<Submission>::new("submissions", config.rings.submissions);
    let from_order_entry = submissions.gating("sequencer");
    let (to_sequencer, submissions_monitor) = submissions.build();
    let mut submissions_udp =
        Builder::<Submission>::new("submissions udp", config.rings.submissions);
    let from_order_entry_udp = submissions_udp.gating("sequencer");
    let (to_sequencer_udp, submissions_udp_monitor) = submissions_udp.build();

    let (commands, results, desk_ends) = operator::rings();

    let mut outputs = Builder::<Output>::new("outputs", config.rings.outputs);
    let to_order_entry = outputs.gating("order entry");
    let to_order_entry_udp = outputs.gating("order entry udp");
    let to_market_data = outputs.gating("market data");
    let (outputs_producer, outputs_monitor) = outputs.build();

    let mut checkpoints = Builder::<Checkpoint>::new("checkpoints", CHECKPOINT_SLOTS);
    let checkpoint_tap = checkpoints.lossy("status");
    let hash_tap = checkpoints.lossy("journaler");
    let (checkpoints_producer, _) = checkpoints.build();

    let durable = Arc::new(Cursor::new(0));
    let journal_id = journal::identity(&mut *storage).unwrap_or(journal_id);
    let session = stream_session(journal_id);

    let mut order_entry = OrderEntry::new(
        networks.order_entry,
        order_entry_config(config, session)?,
        to_sequencer,
        to_order_entry,
        Arc::clone(&durable),
    );
    let mut order_entry_udp = OrderEntryUdp::new(
        networks.order_entry_udp,
        order_entry_udp_config(config, session)?,
        to_sequencer_udp,
        to_order_entry_udp,
        Arc::clone(&durable),
    );
    let mut market_data = MarketData::new(
        networks.market_data,
        networks.re_request,
        MarketDataConfig {
            store_bytes_max: config.market_data.store.0 as usize,
            ..MarketDataConfig::new(session, edges.feed_destination)
        },
        to_market_data,
        Arc::clone(&durable),
    );
    let drain = Arc::new(AtomicGauge::new(0));
    order_entry.set_drain(Arc::clone(&drain));
    order_entry_udp.set_drain(Arc::clone(&drain));
    market_data.set_drain(Arc::clone(&drain));
    if let Some(sink) = (edges.operator_events)() {
        order_entry.set_operator_events(sink);
    }
    if let Some(sink) = (edges.operator_events)() {
        order_entry_udp.set_operator_events(sink);
    }

    let options = Options {
        durability,
        segment_bytes: config.journal.segment.0,
        journal_id_if_new: journal_id,
        created: now_ns,
        from: 0,
    };
    let plan = snapshot_plan(config);
    let mut take = |past: Past<'_>| match past {
        Past::Messages(archive) => {
            order_entry.restore(archive);
            order_entry_udp.restore(archive);
            market_data.restore(archive);
        }
        Past::Output(output) => {
            order_entry.replay(output);
            order_entry_udp.replay(output);
            market_data.replay(output);
        }
    };
    let Recovery { mut engine, mut writer, report, snapshot, passed_over } =
        recovery::resume(storage, &mut *files, &options, plan.archive_bytes, &mut take)?;
    // Streams are named after it; a journal that could not be read above would have another.
    assert_eq!(writer.journal_id(), journal_id, "the journal is the one the streams are named for");
    let entries = config.schedule.iter().map(ScheduleConfig::command).collect::<Result<_, _>>();
    let entries = entries.map_err(Failure::usage)?;
    let schedule = Schedule::new(entries, engine.timestamp(), now_ns);
    let changes = recovery::complete(config, now_ns, &mut engine, &mut writer, &mut |output| {
        take(Past::Output(output));
    })?;
    durable.set(if unconditional { u64::MAX } else { engine.sequence().0 });

    let mut inputs = Builder::<Input>::new("inputs", config.rings.inputs);
    let to_journaler = inputs.gating("journaler");
    let to_engine = inputs.gating("engine");
    let (inputs_producer, inputs_monitor) = inputs.build();

    let journaled = Arc::new(AtomicGauge::new(engine.sequence().0));
    let access = Location::of(&config.ledger).map(Access::new);
    let ledger = access.as_ref().map(|access| ledger(config, access, journal_id, journaled.get()));
    let ledger = ledger.transpose()?;
    let checkpoint = Checkpoint::of(&engine);
    let desk = DeskEnds {
        commands,
        results,
        durable: Arc::clone(&durable),
        directory: Directory::of(&engine),
        numbers: operator::numbers(&engine),
    };
    let mut gauges = Gauges {
        rings: vec![submissions_monitor, submissions_udp_monitor, inputs_monitor, outputs_monitor],
        checkpoints: checkpoint_tap,
        checkpoint,
        durable: Arc::clone(&durable),
        drain,
        journal: Arc::default(),
        order_entry: order_entry.counters(),
        order_entry_udp: order_entry_udp.counters(),
        market_data: market_data.counters(),
        snapshots: None,
        ledger: ledger.as_ref().map(LedgerWriter::gauges),
    };
    let due = Arc::new(AtomicGauge::new(u64::MAX));
    let journal_figures = Arc::clone(&gauges.journal);
    let sequencer = Sequencer::new(
        LocalLog::new(engine.sequence(), engine.timestamp()),
        vec![from_order_entry, from_order_entry_udp, desk_ends.commands],
        inputs_producer,
        Arc::clone(&due),
    )
    .with_schedule(schedule)
    .refusing(Arc::clone(&journal_figures.refusing))
    .with_whims(edges.whims.clone());
    let hash_every = config.journal.state_hash_every;
    // Without a consumer of operator events, as in a simulation, there are no alarms.
    let alarm: fn(&str) =
        if (edges.operator_events)().is_some() { |what| eprintln!("{what}") } else { |_| {} };
    let slow_ns = config.journal.slow.0.as_nanos() as u64;
    let journaler = Journaler::new(to_journaler, writer, durable, unconditional)
        .relieved_by(Relief::new(Arc::clone(&journal_figures), slow_ns, alarm))
        .telling(Arc::clone(&journaled))
        .noting(hash_tap, hash_every)
        .with_whims(edges.whims.clone());
    let last_snapshot = snapshot.map_or(0, |summary| summary.header.sequence);
    let snapshots =
        (plan.inputs > 0 || plan.time_ns > 0).then(|| Snapshots::new(plan, last_snapshot));
    let engine = EngineStage::new(to_engine, engine, outputs_producer, checkpoints_producer, due)
        .hashing_every(hash_every)
        .answering(desk_ends.results)
        .with_whims(edges.whims.clone());
    let agents: [(AgentName, Box<dyn Agent>); 6] = [
        (AgentName::OrderEntry, Box::new(order_entry)),
        (AgentName::OrderEntryUdp, Box::new(order_entry_udp)),
        (AgentName::Sequencer, Box::new(sequencer)),
        (AgentName::Journaler, Box::new(journaler)),
        (AgentName::Engine, Box::new(engine)),
        (AgentName::MarketData, Box::new(market_data)),
    ];
    gauges.snapshots = snapshots.as_ref().map(Snapshots::figures);
    let admin = access.zip(gauges.ledger.clone());
    let admin = admin.map(|(ledger, gauges)| Sources { ledger, gauges });
    let follower = (snapshots.is_some() || ledger.is_some()).then(|| -> Box<dyn Agent> {
        let follower = Following::new(files, journaled, snapshots, ledger);
        Box::new(follower.with_whims(edges.whims.clone()))
    });
    let recovered = Recovered { journal_id, report, checkpoint, snapshot, passed_over, changes };
    Ok(Venue { agents: BTreeMap::from(agents), follower, admin, gauges, desk, recovered })
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
        notice: |what| eprintln!("note: {what}"),
    };
    LedgerWriter::new(writer, journaled).map_err(|error: StoreError| {
        Failure::usage(format!("ledger: {error}"))
            .hint(format!("move {access} away, or name another: it is rebuilt from the journal"))
    })
}

fn snapshot_plan(config: &Config) -> SnapshotPlan {
    let settings = &config.snapshots;
    SnapshotPlan {
        inputs: settings.inputs,
        time_ns: settings.time.0.as_nanos() as u64,
        archive_bytes: settings.replies.0 as usize,
        old_segments: settings.old_segments,
    }
}

fn order_entry_config(config: &Config, session: [u8; 10]) -> Result<OrderEntryConfig, Failure> {
    let settings = &config.order_entry;
    let users = config
        .participants
        .iter()
        .filter_map(|participant| {
            let password = participant.password.as_deref()?;
            let user = Credentials::new(&participant.username, password).map_err(Failure::usage);
            let wanted = participant.cancel_on_disconnect;
            Some(user.map(|user| user.with_cancel_on_disconnect(wanted)))
        })
        .collect::<Result<_, _>>()?;
    Ok(OrderEntryConfig {
        session,
        users,
        timers: Timers {
            heartbeat_ns: settings.heartbeat.0.as_nanos() as u64,
            receive_timeout_ns: settings.receive_timeout.0.as_nanos() as u64,
            login_timeout_ns: settings.login_timeout.0.as_nanos() as u64,
        },
        limits: OrderEntryLimits {
            slow_client_timeout_ns: settings.slow_client_timeout.0.as_nanos() as u64,
            store_bytes_max: settings.reply_store.0 as usize,
            ..OrderEntryLimits::default()
        },
    })
}

fn order_entry_udp_config(
    config: &Config,
    session: [u8; 10],
) -> Result<OrderEntryUdpConfig, Failure> {
    let users = config
        .participants
        .iter()
        .filter_map(|participant| {
            let address = participant.udp?;
            Some(participant.username().map(|username| (address, username)).map_err(Failure::usage))
        })
        .collect::<Result<_, _>>()?;
    Ok(OrderEntryUdpConfig {
        session,
        users,
        store_bytes_max: config.order_entry_udp.reply_store.0 as usize,
    })
}
