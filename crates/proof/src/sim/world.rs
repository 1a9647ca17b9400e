//! One simulated venue with its clients, network, disk and clock, and the checks at its end.
//!
//! Invariant: everything that happens follows from the seed.

use std::{
    collections::BTreeSet,
    fmt,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    agreement,
    engine_checks::{self, LedgerBalances},
    generator::{CommandFlow, Profile},
    model::Model,
    rng::Rng,
};
use client::subscriber::FeedBook;
use engine::Engine;
use gateway::{
    Submission,
    fake::{FakeDatagram, FakeStream},
};
use market::{Command, Event, Timestamp, VenueEvent};
use ring::{Agent, Producer};
use wire::ouch;

use super::{
    attacker::{Attacker, Doors},
    client::{DatagramClient, SimulatedTcpClient},
    disk::Disk,
    faults::{FaultKind, FaultSet, Faults, Hits, KILLED_AFTER, PERTURBATIONS},
    probe::{self, Growth, Probe},
};
use crate::audit::{self, Derived, Digest};
use venue::{
    config::{Config, Decimal, DurabilityConfig, FirmNames},
    pipeline::{self, Edges, Gauges, Networks},
    recovery,
    stage::{Perturbation, Perturbations},
};

/// Sessions that speak SoupBinTCP; they come first.
const TCP_SESSIONS: usize = 3;

/// Sessions that speak OUCH over UDP.
const UDP_SESSIONS: usize = 1;

/// Participants of a run with an attacker, after the others: two honest ones whose replies are timed,
/// over TCP and over UDP, and the attacker's two.
const PROBES: [usize; 2] = [4, 5];
const ATTACKERS: [usize; 2] = [6, 7];

/// 2026-01-02 09:30 UTC, when every simulated day begins.
const START_NS: u64 = 1_767_346_200_000_000_000;

/// A client that received nothing for this long has received everything: once nothing breaks, the
/// longest wait for a lost message is some 3 s (the heartbeat that shows it, a request that times out,
/// the answer).
const QUIET_NS: u64 = 4_000_000_000;

/// Least and longest time until a run has recovered from its faults: both ends notice within 15 s
/// that a connection is dead, and a client that notices late logs in again.
const MEND_NS: u64 = 16_000_000_000;
const MEND_NS_MAX: u64 = 60_000_000_000;

/// Time between two ticks while all mends, at most.
const MEND_TICK_NS_MAX: u64 = 100_000_000;

/// Time between two ticks while all settles, at most.
const SETTLE_TICK_NS_MAX: u64 = 20_000_000;

/// An honest client has the reply to its order after so many ticks, 0.1 ms on average, of which the
/// network takes 40: whatever an attacker does, if nothing else goes wrong.
pub const REPLY_TICKS_MAX: u64 = 200;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// Turns of the venue with clients sending.
    pub ticks: u64,
    pub faults: FaultSet,
    /// The commands that are given, by their numbers from 1, one each tick; all of them for `None`.
    pub commands: Option<BTreeSet<u64>>,
}

impl Options {
    pub fn new(seed: u64, ticks: u64, faults: FaultSet) -> Self {
        Self { seed, ticks, faults, commands: None }
    }
}

macro_rules! counts {
    ($($(#[doc = $doc:literal])* $name:ident,)+) => {
        /// What happened in a run, or in several.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[doc = $doc])* pub $name: u64,)+
        }

        impl Counts {
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }

            /// Names and numbers.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

counts! {
    inputs,
    orders,
    trades,
    ledger_entries,
    /// Replies that clients received.
    replies,
    /// Messages that the feed's reader received.
    feed_messages,
    /// Connections that clients made.
    connections,
    /// Times an operator logged a session out that speaks SoupBinTCP; its client connects again.
    log_outs,
    /// Times the venue was killed, or stopped because its disk failed.
    kills,
    /// Kills with which the power failed.
    power_cuts,
    /// Times the venue started from a snapshot.
    snapshot_starts,
}

/// A run without findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub seed: u64,
    pub counts: Counts,
    pub simulated_ns: u64,
    pub state_hash: u64,
    /// What went wrong on purpose.
    pub hits: Hits,
}

/// Something that must hold did not.
#[derive(Clone, Debug)]
pub struct Violation {
    pub seed: u64,
    pub tick: u64,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, tick {}: {}", self.seed, self.tick, self.what)
    }
}

impl std::error::Error for Violation {}

/// Runs one seed from the first order to the last audit.
///
/// # Errors
/// Something that must hold did not.
pub fn run(options: &Options) -> Result<Summary, Violation> {
    let mut world = World::new(options);
    // Where a panic ends the process, this never returns.
    let played = catch_unwind(AssertUnwindSafe(|| world.play(options.ticks)));
    let outcome = played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    outcome.map_err(|what| Violation { seed: options.seed, tick: world.tick, what })
}

/// What a run would ask for, by number: all, or those of the options.
#[must_use]
pub fn commands(options: &Options) -> Vec<(u64, Command)> {
    let mut flow = World::new(options).flow;
    let numbers = 1..=options.ticks;
    let all = numbers.map(|number| (number, flow.next_command()));
    let is_given = |number| options.commands.as_ref().is_none_or(|given| given.contains(&number));
    all.filter(|(number, _)| is_given(*number)).collect()
}

/// The venue as it runs between two kills.
struct VenueLife {
    agents: Vec<Box<dyn Agent>>,
    /// The ticks until which each has no turn.
    stuck_until: Vec<u64>,
    gauges: Gauges,
    commands: Producer<Submission>,
    order_entry: FakeStream,
    order_entry_udp: FakeDatagram,
    market_data: FakeDatagram,
    re_request: FakeDatagram,
}

/// What a run is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Clients ask, and things go wrong.
    Trading,
    /// Nothing goes wrong any more.
    Mending,
    /// And nothing is sequenced any more.
    Ending,
}

/// How a turn of the venue ended before its end.
enum Stopped {
    /// It was killed after the turn of this stage.
    Killed(String),
    /// Its storage stopped in the middle of something.
    Torn(String),
    /// A stage could not go on.
    Failed(String),
}

struct World {
    seed: u64,
    tick: u64,
    rng: Rng,
    faults: Faults,
    phase: Phase,
    now_ns: Arc<AtomicU64>,
    config: Config,
    disk: Disk,
    perturbations: Perturbations,
    venue: Option<VenueLife>,
    flow: CommandFlow,
    given: Option<BTreeSet<u64>>,
    tcp: Vec<SimulatedTcpClient>,
    udp: Vec<DatagramClient>,
    feed: DatagramClient,
    attacker: Option<Attacker>,
    probes: Vec<Probe>,
    /// Accidents happen beside attacks, so a reply may be late.
    with_accidents: bool,
    /// Answers to requests for the feed.
    answers: u64,
    counts: Counts,
}

impl World {
    fn new(options: &Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let mut config = config(&mut rng);
        // In a quarter of the runs an attacker is all that goes wrong, so that replies can be timed.
        let attacks = options.faults.and(FaultSet::ATTACKS);
        let with_attacker = attacks != FaultSet::NONE;
        let only_attacks =
            with_attacker && (attacks == options.faults || options.seed.is_multiple_of(4));
        let fault_set = if only_attacks { attacks } else { options.faults };
        let with_accidents = fault_set.and(FaultSet::ACCIDENTS) != FaultSet::NONE;
        if with_attacker {
            admit_attacker(&mut config);
        }
        let profile = profile(&mut rng, config.instruments.len() as u16);
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let honest = || (40_000..).zip(config.participants.iter().take(ATTACKERS[0]));
        let tcp = honest()
            .filter_map(|(port, row)| {
                let password = row.password.as_deref()?;
                Some(SimulatedTcpClient::new(&row.username, password, address(port)))
            })
            .collect();
        let udp = honest()
            .filter_map(|(_, row)| Some(DatagramClient::new(&row.username, row.udp?)))
            .collect();
        let attacker = with_attacker.then(|| {
            let [over_tcp, over_udp] = ATTACKERS.map(|index| &config.participants[index]);
            let password = over_tcp.password.clone().unwrap_or_default();
            let others = honest().map(|(_, row)| row.username.clone()).collect();
            let udp = over_udp.udp.expect("it speaks UDP");
            let stream = pipeline::stream_session(options.seed);
            Attacker::new((over_tcp.username.clone(), password), udp, others, stream)
        });
        let with_perturbations = options.faults != FaultSet::NONE && rng.below(4) > 0;
        let perturbations = with_perturbations.then(|| {
            let mut choices = Rng::new(rng.next_u64());
            Perturbations::of(Box::new(move |bound| choices.below(bound)), rng.range(2, 60))
        });
        Self {
            seed: options.seed,
            tick: 0,
            faults: Faults::new(rng.next_u64(), fault_set),
            phase: Phase::Trading,
            now_ns: Arc::new(AtomicU64::new(START_NS)),
            flow: CommandFlow::new(rng.next_u64(), profile),
            given: options.commands.clone(),
            rng,
            config,
            disk: Disk::new(),
            // Under an attack alone the stages choose as in a production venue.
            perturbations: perturbations.filter(|_| !only_attacks).unwrap_or_default(),
            venue: None,
            tcp,
            udp,
            feed: DatagramClient::new("", address(50_000)),
            attacker,
            probes: if with_attacker { PROBES.map(|_| Probe::default()).into() } else { vec![] },
            with_accidents,
            answers: 0,
            counts: Counts::default(),
        }
    }

    fn play(&mut self, ticks: u64) -> Result<Summary, String> {
        self.start_venue()?;
        for _ in 0..ticks {
            self.trade();
            self.turn()?;
            self.probe()?;
        }
        if !self.with_accidents && self.probes.iter().any(|probe| probe.answered == 0) {
            return Err("an honest client had no reply, though only an attacker disturbs it".into());
        }
        self.settle()?;
        self.audit()
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn start_venue(&mut self) -> Result<(), String> {
        let networks = Networks::<FakeStream, FakeDatagram>::default();
        let life = (
            networks.order_entry.clone(),
            networks.order_entry_udp.clone(),
            networks.market_data.clone(),
            networks.feed_server.requests.clone(),
        );
        let edges = Edges {
            feed_destination: self.feed.address(),
            operator_events: |_| None,
            perturbations: self.perturbations.clone(),
        };
        let now_ns = self.now_ns();
        let venue = pipeline::assemble(
            &self.config,
            networks,
            &edges,
            Box::new(self.disk.storage().clone()),
            Box::new(self.disk.storage().clone()),
            self.seed,
            now_ns,
        )
        .map_err(|failure| format!("the venue does not start: {failure}"))?;
        self.counts.snapshot_starts += u64::from(venue.recovered.snapshot.is_some());
        let aside = venue.follower.into_iter().chain([venue.feed_history]);
        let agents: Vec<_> = venue.agents.into_values().chain(aside).collect();
        self.venue = Some(VenueLife {
            stuck_until: vec![0; agents.len()],
            agents,
            gauges: venue.gauges,
            commands: venue.desk.commands,
            order_entry: life.0,
            order_entry_udp: life.1,
            market_data: life.2,
            re_request: life.3,
        });
        Ok(())
    }

    /// Some client may ask for something, or the venue's own people.
    fn trade(&mut self) {
        let now_ns = self.now_ns();
        let command = self.flow.next_command();
        let number = self.tick + 1;
        if self.given.as_ref().is_some_and(|given| !given.contains(&number)) {
            return;
        }
        let session = session_of(&command);
        // The flow also asks for what no field of OUCH can hold; that is for the core alone.
        if session.is_some() && lots(&command) > u64::from(u32::MAX) {
            return;
        }
        match (session, ouch::request(&command)) {
            (Some(session), Some(message)) => {
                let bytes: &[u8] = &message;
                self.send(session, bytes, now_ns);
            }
            // What OUCH cannot say comes in beside it, as from another gateway.
            _ => self.submit(command),
        }
        // And sometimes there is noise on the wire.
        if self.faults.strikes(FaultKind::Noise) {
            let length = self.faults.below(FaultKind::Noise, 60);
            let mut byte = || self.faults.below(FaultKind::Noise, 256) as u8;
            let noise: Vec<u8> = (0..length).map(|_| byte()).collect();
            let sessions = (TCP_SESSIONS + UDP_SESSIONS) as u64;
            let session = self.faults.below(FaultKind::Noise, sessions) as usize;
            self.send(session, &noise, now_ns);
        }
    }

    fn send(&mut self, session: usize, bytes: &[u8], now_ns: u64) {
        if session < TCP_SESSIONS {
            self.tcp[session].send(bytes, now_ns);
        } else if let Some(client) = self.udp.get_mut(session - TCP_SESSIONS) {
            let datagram = if self.rng.below(2) == 0 {
                bytes.to_vec()
            } else {
                let mut block = (bytes.len() as u16).to_be_bytes().to_vec();
                block.extend(bytes);
                block
            };
            client.send(datagram, &mut self.faults, &mut self.rng, now_ns);
        }
    }

    /// What the venue's own people ask goes in beside what participants ask. Days do not end, and
    /// sessions are those of the configuration.
    fn submit(&mut self, command: Command) {
        if matches!(command, Command::System(_) | Command::AddSession(_)) {
            return;
        }
        let received = Timestamp(self.now_ns());
        let venue = self.venue.as_mut().expect("the venue runs between kills");
        // A full ring is a command that was not given.
        let _ = venue.commands.try_publish(Submission { received, command });
    }

    /// Time goes on, the venue takes a turn, and what is under way arrives.
    fn turn(&mut self) -> Result<(), String> {
        self.tick += 1;
        let step = if self.phase == Phase::Mending {
            self.rng.below(MEND_TICK_NS_MAX)
        } else if self.phase != Phase::Trading {
            self.rng.below(SETTLE_TICK_NS_MAX)
        } else if self.faults.strikes(FaultKind::TimeJump) {
            self.faults.below(FaultKind::TimeJump, 3_000_000_000)
        } else {
            self.rng.below(200_000)
        };
        self.now_ns.fetch_add(step, Ordering::Relaxed);
        self.disk.suffer(&mut self.faults, self.tick);
        if let Err(stopped) = self.turn_venue() {
            self.restart(stopped)?;
        }
        self.check_bounds()?;
        let now_ns = self.now_ns();
        let venue = self.venue.as_mut().expect("the venue runs between kills");
        if let Some(attacker) = &mut self.attacker {
            let doors = Doors {
                order_entry: &venue.order_entry,
                order_entry_udp: &venue.order_entry_udp,
                re_request: &venue.re_request,
            };
            attacker.turn(&doors, &mut self.faults, self.tick);
        }
        for client in &mut self.tcp {
            client.turn(&venue.order_entry, &mut self.faults, &mut self.rng, now_ns)?;
        }
        while let Some((to, datagram)) = venue.order_entry_udp.take() {
            let client = self.udp.iter_mut().find(|client| client.address() == to);
            if self.attacker.as_ref().is_some_and(|attacker| attacker.udp == to) {
                continue;
            }
            client
                .ok_or_else(|| format!("the venue sent replies to {to}, where nobody is"))?
                .incoming(datagram, &mut self.faults, &mut self.rng, now_ns);
        }
        for client in &mut self.udp {
            client.turn(&venue.order_entry_udp, &mut self.faults, &mut self.rng, now_ns)?;
        }
        for source in [&venue.market_data, &venue.re_request] {
            while let Some((to, datagram)) = source.take() {
                if self.attacker.as_ref().is_some_and(|attacker| attacker.may_be_answered(to)) {
                    self.answers += 1;
                    continue;
                }
                if to != self.feed.address() {
                    return Err(format!("the venue sent market data to {to}, where nobody is"));
                }
                self.feed.incoming(datagram, &mut self.faults, &mut self.rng, now_ns);
            }
        }
        self.feed.turn(&venue.re_request, &mut self.faults, &mut self.rng, now_ns)
    }

    /// One turn of each stage, but of those that are slow or stuck.
    fn turn_venue(&mut self) -> Result<(), Stopped> {
        let now_ns = self.now_ns();
        let faults = &mut self.faults;
        let venue = self.venue.as_mut().expect("the venue runs between kills");
        for (agent, stuck_until) in venue.agents.iter_mut().zip(&mut venue.stuck_until) {
            if faults.strikes(FaultKind::StuckStage) {
                *stuck_until = self.tick + faults.below(FaultKind::StuckStage, 400);
            }
            let is_stuck = match self.phase {
                Phase::Trading => *stuck_until > self.tick,
                Phase::Mending => false,
                Phase::Ending => agent.name() == "sequencer",
            };
            if !is_stuck && !faults.strikes(FaultKind::SlowStage) {
                let done = agent.do_work(now_ns);
                if self.disk.storage().stopped().is_some() {
                    return Err(Stopped::Torn(agent.name().to_owned()));
                }
                done.map_err(|error| Stopped::Failed(format!("{}: {error}", agent.name())))?;
            }
            if faults.strikes(FaultKind::Kill) {
                return Err(Stopped::Killed(agent.name().to_owned()));
            }
        }
        for kind in
            [FaultKind::PowerCut, FaultKind::ScatteredPowerCut, FaultKind::UnpromisedPowerCut]
        {
            if faults.wants(kind) && self.disk.may_lose_power(kind, &self.config) {
                faults.count(kind);
                self.disk.lose_power_next(kind);
                return Err(Stopped::Killed("all stages".to_owned()));
            }
        }
        Ok(())
    }

    /// The tables and buffers of the gateways stay within their bounds.
    fn check_bounds(&self) -> Result<(), String> {
        let venue = self.venue.as_ref().expect("the venue runs between kills");
        let entry = venue.gauges.order_entry.read();
        let udp = venue.gauges.order_entry_udp.read();
        let feed = venue.gauges.feed_server.read();
        let connections_max = self.config.order_entry.connections_max as u64;
        let held_max = connections_max * gateway::CONNECTION_BYTES_MAX as u64;
        for (what, held, bound) in [
            ("connections", entry.connections, connections_max),
            ("bytes of connections", entry.connection_bytes, held_max),
            ("failed logins", entry.failed_logins_kept, gateway::FAILED_LOGINS_MAX as u64),
            ("messages over UDP that wait", udp.backlog, gateway::BACKLOG_MAX as u64),
            ("requesters", feed.requesters_kept, gateway::REQUESTERS_MAX as u64),
        ] {
            if held > bound {
                return Err(format!("the gateways hold {held} {what}, and {bound} at most may be"));
            }
        }
        Ok(())
    }

    /// Honest clients send an order now and then and wait for its reply, which the attacker must not
    /// delay.
    fn probe(&mut self) -> Result<(), String> {
        let (tick, now_ns) = (self.tick, self.now_ns());
        for (index, probe) in self.probes.iter_mut().enumerate() {
            let received = match index {
                0 => &self.tcp[TCP_SESSIONS].received,
                _ => &self.udp[UDP_SESSIONS].received,
            };
            if let Some(ticks) = probe.take(received, tick) {
                probe::count(&mut self.faults.hits, ticks);
            }
            match probe.waited(tick) {
                Some(waited) if waited > REPLY_TICKS_MAX => {
                    if !self.with_accidents {
                        return Err(format!(
                            "an honest client waits {waited} ticks for a reply, though only an \
                             attacker disturbs it"
                        ));
                    }
                    probe.give_up();
                }
                _ => {}
            }
            if let Some(order) = probe.next(tick) {
                match index {
                    0 if !self.tcp[TCP_SESSIONS].send(&order, now_ns) => probe.give_up(),
                    0 => {}
                    _ => {
                        let client = &mut self.udp[UDP_SESSIONS];
                        client.send(order.to_vec(), &mut self.faults, &mut self.rng, now_ns);
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts what the gateways of this life turned away; they forget it with the venue.
    fn count_defences(&mut self) {
        if let (Some(_), Some(venue)) = (&self.attacker, &self.venue) {
            let Gauges { order_entry, order_entry_udp, feed_server, .. } = &venue.gauges;
            let (entry, udp) = (order_entry.read(), order_entry_udp.read());
            probe::count_defences(&mut self.faults.hits, &entry, &udp, &feed_server.read());
        }
    }

    /// Restarts the venue after it has ended, perhaps by a power cut.
    fn restart(&mut self, stopped: Stopped) -> Result<(), String> {
        let after = match stopped {
            Stopped::Killed(name) | Stopped::Torn(name) => name,
            Stopped::Failed(what) => {
                if !self.disk.may_fail() {
                    return Err(format!("an agent failed, though its disk is well: {what}"));
                }
                what.split(':').next().unwrap_or_default().to_owned()
            }
        };
        self.faults.hits.count(KILLED_AFTER, &after, 1);
        self.counts.kills += 1;
        self.count_defences();
        self.venue = None;
        if let Some(attacker) = &mut self.attacker {
            attacker.venue_died();
        }
        let is_synced = self.config.journal.durability == DurabilityConfig::Synced;
        let with_power = self.disk.crash(&mut self.faults, is_synced);
        self.counts.power_cuts += u64::from(with_power);
        if self.faults.strikes(FaultKind::ClockSetBack) {
            let back = self.faults.below(FaultKind::ClockSetBack, 2_000_000_000);
            let now_ns = self.now_ns();
            self.now_ns.store((now_ns - back).max(START_NS), Ordering::Relaxed);
        }
        let now_ns = self.now_ns();
        self.tcp.iter_mut().for_each(|client| client.venue_died(now_ns));
        self.disk.judge(&self.config, &mut self.faults)?;
        self.audit_promises()?;
        self.start_venue()
    }

    /// Faults end, everybody comes back, and everything under way arrives.
    fn settle(&mut self) -> Result<(), String> {
        self.faults.on = false;
        self.phase = Phase::Mending;
        self.disk.recover_room();
        let begun_ns = self.now_ns();
        while self.now_ns() - begun_ns < MEND_NS || !self.are_all_in() {
            self.turn()?;
            if self.now_ns() - begun_ns > MEND_NS_MAX {
                return Err("a client cannot log in, though nothing is broken".into());
            }
        }
        // Orders that expire and auctions that are announced would go on for long.
        self.phase = Phase::Ending;
        let begun_ns = self.now_ns();
        let (mut received, mut quiet_since_ns) = (0, begun_ns);
        while self.now_ns() - quiet_since_ns < QUIET_NS || !self.are_all_in() {
            if self.now_ns() - begun_ns > MEND_NS_MAX {
                return Err("a client cannot stay logged in, though nothing is broken".into());
            }
            self.turn()?;
            let now_received = self.received().map(|(_, received)| received.len()).sum::<usize>()
                + self.feed.received.len();
            if received != now_received {
                (received, quiet_since_ns) = (now_received, self.now_ns());
            }
        }
        Ok(())
    }

    fn are_all_in(&self) -> bool {
        self.tcp.iter().all(SimulatedTcpClient::is_logged_in)
    }

    /// Checks that every received reply is in the journal. The configuration adopts the changed
    /// instruments and limits, as an operator would.
    fn audit_promises(&mut self) -> Result<(), String> {
        let mut derived = Derived::new();
        let replay =
            recovery::replay(&mut self.disk.storage().clone(), &mut |_, _| {}, &mut |output| {
                derived.output(output);
            })
            .map_err(|failure| failure.to_string())?;
        for (username, received) in self.received() {
            let numbered = (1..).zip(digests(received));
            let lost = audit::lost(numbered, derived.replies_of(username));
            if lost > 0 {
                return Err(format!("{username} received {lost} replies that did not survive"));
            }
        }
        if self.feed.received.len() as u64 > derived.feed_messages() {
            return Err("the feed reported what did not survive".into());
        }
        for instrument in &mut self.config.instruments {
            let symbol = instrument.symbol()?;
            let known = replay.engine.instruments().find(|known| known.symbol == symbol);
            if let Some(known) = known {
                instrument.price_increment = Decimal(known.price_increment.0);
                instrument.round_lot = known.round_lot.0 as u32;
            }
        }
        for participant in &mut self.config.participants {
            let username = participant.username()?;
            let known = replay.engine.sessions().find(|known| *known.username() == username);
            if let Some(known) = known {
                participant.live_orders_max = known.live_orders_max();
            }
        }
        Ok(())
    }

    /// The honest participants, and what they received.
    fn received(&self) -> impl Iterator<Item = (&str, &Vec<Vec<u8>>)> {
        let tcp = self.tcp.iter().map(|client| (client.username.as_str(), &client.received));
        tcp.chain(self.udp.iter().map(|client| (client.username.as_str(), &client.received)))
    }

    /// Compares the engine with the model, input by input, order by order and unit by unit, and every
    /// received reply with the streams that follow from the journal.
    fn audit(&mut self) -> Result<Summary, String> {
        let mut model = Model::default();
        let mut modeled: Vec<Event> = Vec::new();
        let mut derived = Derived::new();
        let mut found: Vec<Event> = Vec::new();
        let mut growth = ATTACKERS.map(|_| Growth::default());
        let mut effects = ATTACKERS.map(|_| 0);
        let mut ledger = LedgerBalances::default();
        // What the medium has: a latent fault is not the venue's.
        let mut disk = self.disk.storage().duplicate(true);
        let replay = recovery::replay(
            &mut disk,
            &mut |input, _| {
                modeled.extend(model.apply(input));
                let attacker = session_of(&input.command)
                    .and_then(|session| ATTACKERS.iter().position(|index| *index == session));
                if let Some(attacker) = attacker {
                    growth[attacker].input(&input.command);
                }
            },
            &mut |output| {
                derived.output(output);
                let attacker = probe::with_effect(&output.event)
                    .and_then(|id| ATTACKERS.iter().position(|it| it + 1 == usize::from(id.0)));
                if let Some(attacker) = attacker {
                    effects[attacker] += 1;
                }
                ledger.enter(&output.event);
                found.push(output.event);
            },
        )
        .map_err(|failure| failure.to_string())?;
        agreement::same_events(&found, &modeled)?;
        if self.attacker.is_some() {
            let lives = 1 + self.counts.kills;
            // A clock that was set back gives a second twice.
            let seconds = (self.now_ns() - START_NS).div_ceil(1_000_000_000) + 2 * lives;
            for (growth, effects) in growth.iter().zip(effects) {
                growth.check(&self.config.throttle.throttle(), lives, seconds, effects)?;
            }
            let limits = self.config.market_data.requests()?;
            let answers_max = limits.total_per_second * (2 * lives + seconds);
            if self.answers > answers_max {
                return Err(format!("{} answers, and {answers_max} at most may be", self.answers));
            }
        }
        let engine = &replay.engine;
        agreement::compare(engine, &model).map_err(|why| format!("at the end: {why}"))?;
        engine_checks::check(engine, &ledger).map_err(|why| format!("at the end: {why}"))?;
        let venue = self.venue.as_mut().expect("the venue runs");
        let checkpoint = venue.gauges.checkpoint();
        if (checkpoint.sequence, checkpoint.state_hash) != (engine.sequence(), engine.state_hash())
        {
            return Err(format!(
                "the venue is at {checkpoint:?}, the replay at sequence {} with hash {:016x}",
                engine.sequence(),
                engine.state_hash()
            ));
        }
        self.audit_streams(engine, &derived)?;
        self.count_defences();
        let mut hits = self.faults.hits.clone();
        for (perturbation, times) in Perturbation::ALL.iter().zip(self.perturbations.counts()) {
            hits.count(PERTURBATIONS, perturbation.as_str(), times);
        }
        let entries = found.iter().filter(|event| matches!(event, Event::Ledger(_)));
        let log_outs = found.iter().filter(|event| match event {
            Event::Venue(VenueEvent::LoggedOut(id)) => usize::from(id.0) <= TCP_SESSIONS,
            _ => false,
        });
        let counts = Counts {
            inputs: engine.sequence().0,
            orders: checkpoint.orders,
            trades: checkpoint.trades,
            ledger_entries: entries.count() as u64,
            replies: self.received().map(|(_, received)| received.len() as u64).sum(),
            feed_messages: self.feed.received.len() as u64,
            connections: self.tcp.iter().map(|client| client.connections).sum(),
            log_outs: log_outs.count() as u64,
            ..self.counts.clone()
        };
        Ok(Summary {
            seed: self.seed,
            counts,
            simulated_ns: self.now_ns() - START_NS,
            state_hash: engine.state_hash(),
            hits,
        })
    }

    fn audit_streams(&self, engine: &Engine, derived: &Derived) -> Result<(), String> {
        for (username, received) in self.received() {
            if digests(received) != derived.replies_of(username) {
                return Err(format!(
                    "{username} received {} replies that are not the {} of the journal",
                    received.len(),
                    derived.replies_of(username).len()
                ));
            }
        }
        if let Some(error) = derived.feed_error() {
            return Err(error.to_owned());
        }
        let mut book = FeedBook::new();
        for (index, message) in self.feed.received.iter().enumerate() {
            book.apply(index as u64 + 1, message).map_err(|error| error.to_string())?;
        }
        if book.message_count() != derived.feed_messages() {
            return Err(format!(
                "the feed's reader received {} messages of {}",
                book.message_count(),
                derived.feed_messages()
            ));
        }
        match audit::book_difference(engine, &book) {
            Some(difference) => Err(format!("the book from the feed: {difference}")),
            None => Ok(()),
        }
    }
}

fn digests(messages: &[Vec<u8>]) -> Vec<Digest> {
    messages.iter().map(|message| Digest::of(message)).collect()
}

/// The lots a command names, 0 if it names none.
fn lots(command: &Command) -> u64 {
    match command {
        Command::Enter(order) => order.quantity.0,
        Command::Replace(replace) => replace.terms.map_or(0, |terms| terms.quantity.0),
        Command::Cancel(cancel) => cancel.quantity.0,
        Command::Modify(modify) => modify.quantity.0,
        _ => 0,
    }
}

/// Whose command it is, as an index of the participants.
fn session_of(command: &Command) -> Option<usize> {
    let session_id = match command {
        Command::Enter(order) => order.key.session_id,
        Command::Replace(replace) => replace.key.session_id,
        Command::Cancel(cancel) => cancel.key.session_id,
        Command::Modify(modify) => modify.key.session_id,
        Command::MassCancel(mass) => mass.key.session_id,
        Command::SwitchEntry(switch) => switch.key.session_id,
        Command::QueryAccount(query) => query.session_id,
        Command::Reject(refused) => refused.key.session_id,
        Command::CancelOnDisconnect(_)
        | Command::Note(_)
        | Command::Time
        | Command::System(_)
        | Command::AddInstrument(_)
        | Command::AddSession(_)
        | Command::Money(_)
        | Command::Venue(_)
        | Command::Operate(_) => return None,
    };
    usize::from(session_id.0).checked_sub(1)
}

/// Adds the attacker's participants and those whose replies are timed, and makes the bounds so small that a
/// run of some hundred ticks reaches them.
fn admit_attacker(config: &mut Config) {
    let [mut over_tcp, mut over_udp] = [TCP_SESSIONS - 1, TCP_SESSIONS + UDP_SESSIONS - 1]
        .map(|index| config.participants[index].clone());
    over_tcp.cancel_on_disconnect = false;
    for (name, firm) in [("probe", "PROB"), ("evil", "EVIL")] {
        for row in [&mut over_tcp, &mut over_udp] {
            let protocol = if row.udp.is_some() { "u" } else { "t" };
            row.username = format!("{name}{protocol}");
            row.firm = FirmNames::One(firm.into());
            row.live_orders_max = 300;
            if let Some(address) = &mut row.udp {
                address.set_port(address.port() + 1);
            }
            config.participants.push(row.clone());
        }
    }
    config.order_entry.connections_max = config.participants.len() + 30;
    config.order_entry.slow_client_timeout.0 /= 8;
    let throttle = &mut config.throttle;
    (throttle.messages_per_second, throttle.messages_burst) = (5_000, 400);
    (throttle.no_effect_per_second, throttle.no_effect_burst) = (100, 400);
    throttle.block.0 = Duration::from_millis(20);
    config.market_data.re_requests_per_second = 50;
    config.market_data.re_requests_total_per_second = 1_000;
}

/// A market in which all that can be asked is asked now and then; in half of them accounts pay.
fn profile(rng: &mut Rng, instruments: u16) -> Profile {
    Profile {
        sessions: (TCP_SESSIONS + UDP_SESSIONS) as u16,
        instruments,
        accounts: if rng.below(2) == 0 { 3 } else { 0 },
        beyond_ouch_percent: rng.below(3) * 10,
        waits_percent: rng.below(3) * 10,
        minimum_percent: rng.below(3) * 10,
        pegs_percent: rng.below(3) * 10,
        good_till_time_percent: rng.below(3) * 5,
        starts_s: (START_NS / 1_000_000_000) as u32,
        commands_per_second: 10_000,
        venue_per_mille: rng.below(4) * 8,
        odd_percent: rng.below(20),
        spread: 5 + rng.below(60),
        live_orders: 50 + rng.below(400) as usize,
        ..Profile::default()
    }
}

/// A venue with small rings, so that they fill, and a durability of the seed's choice.
fn config(rng: &mut Rng) -> Config {
    let mut config = Config::default();
    config.journal.durability = match rng.below(2) {
        0 => DurabilityConfig::Written,
        _ => DurabilityConfig::Synced,
    };
    config.journal.segment.0 = 1 << (14 + rng.below(3));
    config.snapshots.inputs = rng.below(3) * (20 + rng.below(800));
    config.snapshots.time.0 = Duration::from_millis(rng.below(3) * (1 + rng.below(2_000)));
    config.journal.state_hash_every = 64;
    config.rings.submissions = 64;
    config.rings.inputs = 64 << rng.below(3);
    config.rings.outputs = 64 << rng.below(3);
    config.order_entry.slow_client_timeout.0 = Duration::from_millis(100 + rng.below(3_000));
    config.participants.truncate(TCP_SESSIONS + UDP_SESSIONS);
    for participant in &mut config.participants[..TCP_SESSIONS] {
        participant.cancel_on_disconnect = rng.below(4) == 0;
    }
    config
}
