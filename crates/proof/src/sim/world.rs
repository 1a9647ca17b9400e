//! One simulated venue with its clients, network, disk and clock, and the checks at its end.
//!
//! Invariant: everything that happens follows from the seed.

mod audit;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use gateway::{
    Submission,
    fake::{FakeDatagram, FakeStream},
};
use market::{Command, Timestamp};
use ring::{Agent, Producer};
use wire::ouch;

use venue::{
    config::{Config, DurabilityConfig},
    pipeline::{self, Edges, Gauges, Networks},
    stage::Perturbations,
};

use super::{
    attacker::{Attacker, Doors},
    client::{DatagramClient, SimulatedTcpClient},
    disk::Disk,
    faults::{FaultKind, FaultSet, Faults, KILLED_AFTER},
    outcome::{Counts, Summary, Violation},
    probe::{self, Probe},
    setup::{
        ATTACKERS, LARGE_SCALE, PROBES, START_NS, SUBSCRIBER, TCP_SESSIONS, UDP_SESSIONS,
        admit_attacker, config, profile,
    },
    subscriber::{FeedDoors, Subscribers, Way},
};
use crate::{generator::CommandFlow, rng::Rng, scenario_over};

/// A client that received nothing for this long, in nanoseconds, has received all messages: without
/// faults the longest wait for a lost message is some 3 s (the heartbeat that shows the loss, a request
/// that times out, the answer).
const QUIET_NS: u64 = 4_000_000_000;

/// Least and longest time until a run has recovered from its faults: both ends notice within 15 s
/// that a connection is dead, and a client that notices late logs in again.
const MEND_NS: u64 = 16_000_000_000;
const MEND_NS_MAX: u64 = 60_000_000_000;

/// The longest time between two ticks while the run recovers.
const MEND_TICK_NS_MAX: u64 = 100_000_000;

/// The longest time between two ticks while the run settles.
const SETTLE_TICK_NS_MAX: u64 = 20_000_000;

/// The most ticks until an honest client has the reply to its order, whatever an attacker does, if
/// nothing else goes wrong. A tick is 0.1 ms on average; the network takes 40 of them.
pub const REPLY_TICKS_MAX: u64 = 200;

/// The run to simulate.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// Turns of the venue with clients sending.
    pub ticks: u64,
    pub faults: FaultSet,
    /// The numbers of the commands to give, from 1, one each tick; `None` for all.
    pub commands: Option<BTreeSet<u64>>,
}

impl Options {
    pub fn new(seed: u64, ticks: u64, faults: FaultSet) -> Self {
        Self { seed, ticks, faults, commands: None }
    }
}

/// Runs one seed from the first order to the last audit.
///
/// # Errors
/// A property that must hold did not hold.
pub fn run(options: &Options) -> Result<Summary, Violation> {
    let mut world = World::new(options);
    // Where a panic ends the process, this call never returns.
    let played = catch_unwind(AssertUnwindSafe(|| world.play(options.ticks)));
    let outcome = played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    outcome.map_err(|what| Violation { seed: options.seed, tick: world.tick, what })
}

/// The commands of a run, by number: all, or those of the options.
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
    /// The tick until which each agent has no turn.
    stuck_until: Vec<u64>,
    gauges: Gauges,
    commands: Producer<Submission>,
    order_entry: FakeStream,
    order_entry_udp: FakeDatagram,
    market_data: FakeDatagram,
    re_request: FakeDatagram,
    stream: FakeDatagram,
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Clients send requests, and faults strike.
    Trading,
    /// No fault strikes any more.
    Mending,
    /// Nor is anything sequenced any more.
    Ending,
}

/// The reason for which a turn of the venue stopped early.
enum Stopped {
    /// The venue was killed after the turn of this stage.
    Killed(String),
    /// The venue's storage stopped in the middle of an operation.
    Torn(String),
    /// A stage could not continue.
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
    subscribers: Subscribers,
    attacker: Option<Attacker>,
    probes: Vec<Probe>,
    /// Accidents happen beside attacks, so a reply may be late.
    with_accidents: bool,
    /// The number of answers to requests for the feed.
    answers: u64,
    counts: Counts,
}

impl World {
    fn new(options: &Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let mut config = config(&mut rng);
        // In a quarter of the runs an attacker is the only fault, so that replies can be timed.
        let attacks = options.faults.and(FaultSet::ATTACKS);
        let with_attacker = attacks != FaultSet::NONE;
        let only_attacks =
            with_attacker && (attacks == options.faults || options.seed.is_multiple_of(4));
        let fault_set = if only_attacks { attacks } else { options.faults };
        let with_accidents = fault_set.and(FaultSet::ACCIDENTS) != FaultSet::NONE;
        if with_attacker {
            admit_attacker(&mut config);
        }
        let mut profile = profile(&mut rng, config.instruments.len() as u16);
        if options.seed % 8 == 7 {
            profile.quantity_scale = LARGE_SCALE;
        }
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
            subscribers: Subscribers::new(!options.seed, fault_set, SUBSCRIBER),
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
        let mut networks = Networks::<FakeStream, FakeDatagram>::default();
        let stream = FakeDatagram::new();
        networks.streams = vec![stream.clone()];
        let doors = FeedDoors {
            snapshot: networks.feed_server.snapshot.clone(),
            stream: networks.feed_server.stream.clone(),
        };
        let life = (
            networks.order_entry.clone(),
            networks.order_entry_udp.clone(),
            networks.market_data.clone(),
            networks.feed_server.requests.clone(),
        );
        let edges = Edges {
            feed_destination: self.feed.address(),
            operator_events: |_| None,
            start_id: self.seed ^ self.counts.kills.rotate_right(16),
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
            stream,
        });
        self.subscribers.venue_started(&doors);
        Ok(())
    }

    /// A client, or an operator of the venue, may give a command.
    fn trade(&mut self) {
        let now_ns = self.now_ns();
        let command = self.flow.next_command();
        let number = self.tick + 1;
        if self.given.as_ref().is_some_and(|given| !given.contains(&number)) {
            return;
        }
        match (session_of(&command), ouch::request(&command)) {
            (Some(session), Some(message)) => {
                let bytes: &[u8] = &message;
                self.send(session, bytes, now_ns);
            }
            // Commands without an OUCH message arrive as if from another gateway, among them those for more lots
            // than 32 bits can hold.
            _ => self.submit(command),
        }
        // Sometimes there is noise on the wire.
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

    /// Submits a command without a participant's gateway. Days do not end, and sessions are those of the
    /// configuration.
    fn submit(&mut self, command: Command) {
        if matches!(command, Command::System(_) | Command::AddSession(_)) {
            return;
        }
        let received = Timestamp(self.now_ns());
        let venue = self.venue.as_mut().expect("the venue runs between kills");
        // If the ring is full, the command is not given.
        let _ = venue.commands.try_publish(Submission { received, command });
    }

    /// Lets time pass, gives the venue a turn, and delivers the bytes and datagrams that arrive.
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
        while let Some((to, datagram)) = venue.market_data.take() {
            if to != self.feed.address() {
                return Err(format!("the venue sent the feed to {to}, which is not its group"));
            }
            self.subscribers.feed(&datagram, now_ns);
            self.feed.incoming(datagram, &mut self.faults, &mut self.rng, now_ns);
        }
        while let Some((to, datagram)) = venue.re_request.take() {
            if self.attacker.as_ref().is_some_and(|attacker| attacker.may_be_answered(to)) {
                self.answers += 1;
            } else if to == self.feed.address() {
                self.feed.incoming(datagram, &mut self.faults, &mut self.rng, now_ns);
            } else if !self.subscribers.datagram(to, &datagram, true, now_ns) {
                return Err(format!("the venue answered {to}, where nobody is"));
            }
        }
        while let Some((to, datagram)) = venue.stream.take() {
            if to != Way::Stream.address() {
                return Err(format!("the venue sent a stream to {to}, where nobody is"));
            }
            self.subscribers.datagram(to, &datagram, false, now_ns);
        }
        self.subscribers.turn(&venue.re_request, now_ns)?;
        self.feed.turn(&venue.re_request, &mut self.faults, &mut self.rng, now_ns)
    }

    /// One turn of each stage, except slow or stuck ones.
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

    /// Checks that the tables and buffers of the gateways stay within their bounds.
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
                return Err(format!(
                    "the gateways hold {held} {what}: the most allowed is {bound}"
                ));
            }
        }
        Ok(())
    }

    /// Lets honest clients send an order now and then and wait for its reply, which the attacker must not
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

    /// Adds the refusals that the gateways counted in this life; the counts end with the venue.
    fn count_defences(&mut self) {
        if let (Some(_), Some(venue)) = (&self.attacker, &self.venue) {
            let Gauges { order_entry, order_entry_udp, feed_server, .. } = &venue.gauges;
            let (entry, udp) = (order_entry.read(), order_entry_udp.read());
            probe::count_defences(&mut self.faults.hits, &entry, &udp, &feed_server.read());
        }
    }

    /// Adds the messages that the delta stream dropped in this life.
    fn count_drops(&mut self) {
        if let Some(venue) = &self.venue {
            let streams = venue.gauges.streams.iter();
            self.counts.stream_drops +=
                streams.map(|stream| stream.counters.read().dropped).sum::<u64>();
        }
    }

    /// Restarts the venue after it has ended, perhaps by a power cut.
    fn restart(&mut self, stopped: Stopped) -> Result<(), String> {
        let after = match stopped {
            Stopped::Killed(name) | Stopped::Torn(name) => name,
            Stopped::Failed(what) => {
                if !self.disk.may_fail() {
                    return Err(format!("an agent failed, though its disk has no fault: {what}"));
                }
                what.split(':').next().unwrap_or_default().to_owned()
            }
        };
        self.faults.hits.count(KILLED_AFTER, &after, 1);
        self.counts.kills += 1;
        self.count_defences();
        self.count_drops();
        self.venue = None;
        self.subscribers.venue_died();
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

    /// Ends the faults, and runs until all clients are back and everything under way has arrived.
    fn settle(&mut self) -> Result<(), String> {
        self.faults.on = false;
        self.subscribers.faults.on = false;
        self.phase = Phase::Mending;
        self.disk.recover_room();
        let begun_ns = self.now_ns();
        while self.now_ns() - begun_ns < MEND_NS || !self.are_all_in() {
            self.turn()?;
            if self.now_ns() - begun_ns > MEND_NS_MAX {
                return Err("a client cannot log in, though nothing is broken".into());
            }
        }
        // Expiring orders and announced auctions would continue for long.
        self.phase = Phase::Ending;
        let begun_ns = self.now_ns();
        let (mut received, mut quiet_since_ns) = (0, begun_ns);
        while self.now_ns() - quiet_since_ns < QUIET_NS
            || !self.are_all_in()
            || !self.have_subscribers_all()
        {
            if self.now_ns() - begun_ns > MEND_NS_MAX {
                return Err(match self.are_all_in() {
                    true => "a subscriber cannot catch up, though nothing is broken".into(),
                    false => "a client cannot stay logged in, though nothing is broken".into(),
                });
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

    /// True if the books of every subscriber have all published messages.
    fn have_subscribers_all(&self) -> bool {
        let venue = self.venue.as_ref().expect("the venue runs between kills");
        let stream = venue.gauges.streams[0].counters.read();
        let next_of_feed = venue.gauges.feed_server.read().messages + 1;
        self.subscribers.are_caught_up(next_of_feed, stream.messages + stream.dropped + 1)
    }

    /// The honest participants, with the messages that they received.
    fn received(&self) -> impl Iterator<Item = (&str, &Vec<Vec<u8>>)> {
        let tcp = self.tcp.iter().map(|client| (client.username.as_str(), &client.received));
        tcp.chain(self.udp.iter().map(|client| (client.username.as_str(), &client.received)))
    }
}

/// The index of the participant that gives a command; `None` for a command of the venue or its gateways.
fn session_of(command: &Command) -> Option<usize> {
    let session_id = match command {
        Command::CancelOnDisconnect(_) => None,
        command => scenario_over::session_of(command),
    };
    usize::from(session_id?.0).checked_sub(1)
}
