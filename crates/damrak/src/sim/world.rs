use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use engine::Engine;
use flow::{
    feed::FeedBook,
    generator::{CommandFlow, Profile},
    model::Model,
    rng::Rng,
};
use gateway::{
    Submission,
    fake::{FakeDatagram, FakeStream},
};
use journal::{Crash, CrashStorage};
use market::{Command, Event, InstrumentChange, Timestamp, VenueCommand};
use ring::{Clock, Producer, Runner};
use wire::ouch;

use super::{
    client::{DatagramClient, TcpClient},
    faults::Faults,
};
use crate::{
    audit::{self, Derived, Digest},
    config::{Config, DurabilityConfig},
    pipeline::{self, Edges, Gauges, Networks},
    recovery,
};

/// Sessions that speak SoupBinTCP; they come first.
const TCP_SESSIONS: usize = 3;

/// Sessions that speak OUCH over UDP.
const UDP_SESSIONS: usize = 1;

/// 2026-01-02 09:30 UTC, when every simulated day begins.
const START_NS: u64 = 1_767_346_200_000_000_000;

/// Quiet ticks after which everything under way has arrived and every timer has run out, of this
/// length at most: 10 s together, where the longest wait for a lost message is some 3 s (a
/// heartbeat that tells of it, a request that times out, the answer).
const SETTLE_TICKS: u64 = 20_000;
const SETTLE_TICK_NS_MAX: u64 = 1_000_000;

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Everything follows from it.
    pub seed: u64,
    /// Turns of the venue with clients sending.
    pub ticks: u64,
    /// Messages are lost, repeated, reordered and cut, and the venue is killed.
    pub faults: bool,
}

/// What a run that found nothing wrong came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The seed.
    pub seed: u64,
    /// Inputs in the journal.
    pub inputs: u64,
    /// Orders accepted.
    pub orders: u64,
    /// Trades.
    pub trades: u64,
    /// Replies that clients heard.
    pub replies: u64,
    /// Messages the feed's reader heard.
    pub feed_messages: u64,
    /// Connections clients made.
    pub connections: u64,
    /// Times the venue was killed.
    pub kills: u64,
    /// Of them, times the power went with it.
    pub power_cuts: u64,
    /// Times it started from a snapshot.
    pub snapshot_starts: u64,
    /// Simulated time, in nanoseconds.
    pub simulated_ns: u64,
    /// Hash of the final state.
    pub state_hash: u64,
}

/// Something that must hold did not.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The seed that shows it.
    pub seed: u64,
    /// After this tick.
    pub tick: u64,
    /// What did not hold.
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
    world.play(options.ticks).map_err(|what| Violation {
        seed: options.seed,
        tick: world.tick,
        what,
    })
}

struct FakeClock(AtomicU64);

impl Clock for FakeClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The venue as it runs between two kills.
struct VenueLife {
    runner: Runner,
    gauges: Gauges,
    commands: Producer<Submission>,
    order_entry: FakeStream,
    order_entry_udp: FakeDatagram,
    market_data: FakeDatagram,
    re_request: FakeDatagram,
}

struct World {
    seed: u64,
    tick: u64,
    rng: Rng,
    faults: Faults,
    with_faults: bool,
    is_settling: bool,
    clock: Arc<FakeClock>,
    config: Config,
    disk: CrashStorage,
    venue: Option<VenueLife>,
    flow: CommandFlow,
    tcp: Vec<TcpClient>,
    udp: Vec<DatagramClient>,
    feed: DatagramClient,
    kills: u64,
    power_cuts: u64,
    snapshot_starts: u64,
}

impl World {
    fn new(options: &Options) -> Self {
        let mut rng = Rng::new(options.seed);
        let config = config(&mut rng);
        let profile = Profile {
            sessions: (TCP_SESSIONS + UDP_SESSIONS) as u16,
            instruments: config.instruments.len() as u16,
            beyond_ouch_percent: 0,
            venue_per_mille: 6,
            waits_percent: 0,
            patient_percent: 0,
            good_till_time_percent: 0,
            ..Profile::default()
        };
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let tcp = (0..TCP_SESSIONS)
            .map(|index| {
                let row = &config.participants[index];
                let password = row.password.as_deref().unwrap_or_default();
                TcpClient::new(&row.username, password, address(40_000 + index as u16))
            })
            .collect();
        let udp = config.participants[TCP_SESSIONS..]
            .iter()
            .map(|row| DatagramClient::new(row.udp.expect("the others speak UDP")))
            .collect();
        Self {
            seed: options.seed,
            tick: 0,
            faults: Faults {
                on: options.faults,
                loss_per_mille: rng.below(100),
                duplication_per_mille: rng.below(50),
            },
            with_faults: options.faults,
            is_settling: false,
            clock: Arc::new(FakeClock(AtomicU64::new(START_NS))),
            flow: CommandFlow::new(rng.next_u64(), profile),
            rng,
            config,
            disk: CrashStorage::new(),
            venue: None,
            tcp,
            udp,
            feed: DatagramClient::new(address(50_000)),
            kills: 0,
            power_cuts: 0,
            snapshot_starts: 0,
        }
    }

    fn play(&mut self, ticks: u64) -> Result<Summary, String> {
        self.start_venue()?;
        for _ in 0..ticks {
            self.trade();
            self.turn()?;
            if self.with_faults {
                self.break_something()?;
            }
        }
        self.settle()?;
        let summary = self.audit()?;
        Ok(summary)
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn start_venue(&mut self) -> Result<(), String> {
        let networks = Networks {
            order_entry: FakeStream::new(),
            order_entry_udp: FakeDatagram::new(),
            market_data: FakeDatagram::new(),
            re_request: FakeDatagram::new(),
        };
        let life = (
            networks.order_entry.clone(),
            networks.order_entry_udp.clone(),
            networks.market_data.clone(),
            networks.re_request.clone(),
        );
        let edges = Edges { feed_destination: self.feed.address(), notices: || None };
        let now_ns = self.now_ns();
        let venue = pipeline::assemble(
            &self.config,
            networks,
            &edges,
            Box::new(self.disk.clone()),
            Box::new(self.disk.clone()),
            self.seed,
            now_ns,
        )
        .map_err(|failure| format!("the venue does not start: {failure}"))?;
        self.snapshot_starts += u64::from(venue.recovered.snapshot.is_some());
        let clock: Arc<dyn Clock> = self.clock.clone();
        let agents = venue.agents.into_values().chain(venue.snapshots).collect();
        self.venue = Some(VenueLife {
            runner: Runner::new(agents, clock),
            gauges: venue.gauges,
            commands: venue.commands,
            order_entry: life.0,
            order_entry_udp: life.1,
            market_data: life.2,
            re_request: life.3,
        });
        Ok(())
    }

    /// Some client may ask for something.
    fn trade(&mut self) {
        let now_ns = self.now_ns();
        let command = self.flow.next_command();
        if self.submit(&command) {
            return;
        }
        // The flow also asks for what no field of OUCH can hold; that is for the core alone.
        if lots(&command) > u64::from(u32::MAX) {
            return;
        }
        let Some(message) = ouch::request(&command) else { return };
        let Some(session) = session_of(&command) else { return };
        let bytes: &[u8] = &message;
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
            client.send(datagram, &self.faults, &mut self.rng, now_ns);
        }
        // And sometimes there is noise on the wire.
        if self.faults.on && self.rng.below(500) == 0 {
            let noise: Vec<u8> =
                (0..self.rng.below(60)).map(|_| self.rng.next_u64() as u8).collect();
            match self.rng.below(2) {
                0 => {
                    let client = self.rng.below(TCP_SESSIONS as u64) as usize;
                    self.tcp[client].send(&noise, now_ns);
                }
                _ => self.udp[0].send(noise, &self.faults, &mut self.rng, now_ns),
            }
        }
    }

    /// What only the venue itself may ask goes in beside what participants ask. Increments and round
    /// lots stay those of the configuration, which is held against them at each start.
    fn submit(&mut self, command: &Command) -> bool {
        let is_configured = match command {
            Command::Venue(VenueCommand::ConfigureInstrument(configure)) => matches!(
                configure.change,
                InstrumentChange::PriceIncrement(_) | InstrumentChange::RoundLot(_)
            ),
            Command::Venue(_) => false,
            _ => return false,
        };
        let removes = matches!(command, Command::Venue(VenueCommand::RemoveInstrument(_)));
        if !is_configured && !removes {
            let received = Timestamp(self.now_ns());
            let venue = self.venue.as_mut().expect("the venue runs between kills");
            // A full ring is a command that was not given.
            let _ = venue.commands.try_publish(Submission { received, command: *command });
        }
        true
    }

    /// Time goes on, the venue takes a turn, and what is under way arrives.
    fn turn(&mut self) -> Result<(), String> {
        self.tick += 1;
        let step = if self.is_settling {
            self.rng.below(SETTLE_TICK_NS_MAX)
        } else if self.with_faults && self.rng.below(2000) == 0 {
            self.rng.below(3_000_000_000)
        } else {
            self.rng.below(200_000)
        };
        self.clock.0.fetch_add(step, Ordering::Relaxed);
        let now_ns = self.now_ns();
        let venue = self.venue.as_mut().expect("the venue runs between kills");
        venue.runner.turn().map_err(|failure| format!("an agent failed: {failure}"))?;

        for client in &mut self.tcp {
            client.turn(&venue.order_entry, &self.faults, &mut self.rng, now_ns)?;
        }
        while let Some((to, datagram)) = venue.order_entry_udp.take() {
            let client = self.udp.iter_mut().find(|client| client.address() == to);
            client
                .ok_or_else(|| format!("the venue sent replies to {to}, where nobody is"))?
                .incoming(datagram, &self.faults, &mut self.rng, now_ns);
        }
        for client in &mut self.udp {
            client.turn(&venue.order_entry_udp, &self.faults, &mut self.rng, now_ns)?;
        }
        for source in [&venue.market_data, &venue.re_request] {
            while let Some((to, datagram)) = source.take() {
                if to != self.feed.address() {
                    return Err(format!("the venue sent market data to {to}, where nobody is"));
                }
                self.feed.incoming(datagram, &self.faults, &mut self.rng, now_ns);
            }
        }
        self.feed.turn(&venue.re_request, &self.faults, &mut self.rng, now_ns)
    }

    /// A connection is cut, or the venue is killed, now and then.
    fn break_something(&mut self) -> Result<(), String> {
        let now_ns = self.now_ns();
        if self.rng.below(700) == 0 {
            let index = self.rng.below(TCP_SESSIONS as u64) as usize;
            let venue = self.venue.as_ref().expect("the venue runs between kills");
            self.tcp[index].cut(&venue.order_entry, now_ns);
        }
        if self.rng.below(4000) == 0 {
            self.kill()?;
        }
        Ok(())
    }

    /// The venue is killed as it stands, perhaps with the power, and started again.
    fn kill(&mut self) -> Result<(), String> {
        self.kills += 1;
        self.venue = None;
        // What is promised to survive decides what may be taken away.
        let power =
            self.config.journal.durability == DurabilityConfig::Synced && self.rng.below(2) == 0;
        if power {
            self.power_cuts += 1;
            self.disk.crash(Crash::Power {
                unsynced_bytes: self.rng.below(256),
                unsynced_names: self.rng.below(2) == 0,
            });
        } else {
            self.disk.crash(Crash::Process);
        }
        let now_ns = self.now_ns();
        self.tcp.iter_mut().for_each(|client| client.venue_died(now_ns));
        self.audit_promises()?;
        self.start_venue()
    }

    /// Faults end, and everything under way arrives.
    fn settle(&mut self) -> Result<(), String> {
        self.faults.on = false;
        self.is_settling = true;
        for _ in 0..SETTLE_TICKS {
            self.turn()?;
        }
        match self.tcp.iter().position(|client| !client.is_logged_in()) {
            Some(index) => Err(format!("client {index} cannot log in, though nothing is broken")),
            None => Ok(()),
        }
    }

    /// Nothing that was heard may be missing from the journal.
    fn audit_promises(&mut self) -> Result<(), String> {
        let mut derived = Derived::new();
        recovery::replay(&mut self.disk.clone(), &mut |_, _| {}, &mut |output| {
            derived.output(output);
        })
        .map_err(|failure| failure.to_string())?;
        for (index, heard) in self.heard().enumerate() {
            let username = &self.config.participants[index].username;
            let numbered = (1..).zip(digests(heard));
            let lost = audit::lost(numbered, derived.replies_of(username));
            if lost > 0 {
                return Err(format!("{username} heard {lost} replies that did not survive"));
            }
        }
        if self.feed.heard.len() as u64 > derived.feed_messages {
            return Err("the feed told what did not survive".into());
        }
        Ok(())
    }

    fn heard(&self) -> impl Iterator<Item = &Vec<Vec<u8>>> {
        self.tcp.iter().map(|client| &client.heard).chain(self.udp.iter().map(|c| &c.heard))
    }

    /// The engine against the model, input by input, and everything that was heard against what
    /// follows from the journal.
    fn audit(&mut self) -> Result<Summary, String> {
        let mut model = Model::new();
        let mut modeled: Vec<Event> = Vec::new();
        let mut derived = Derived::new();
        let mut found: Vec<Event> = Vec::new();
        let replay = recovery::replay(
            &mut self.disk.clone(),
            &mut |input, _| modeled.extend(model.apply(input)),
            &mut |output| {
                derived.output(output);
                found.push(output.event);
            },
        )
        .map_err(|failure| failure.to_string())?;
        let events = found.len().max(modeled.len());
        if let Some(at) = (0..events).find(|at| found.get(*at) != modeled.get(*at)) {
            return Err(format!(
                "event {at}: the engine says {:?}, the model {:?}",
                found.get(at),
                modeled.get(at)
            ));
        }
        let engine = &replay.engine;
        if engine.state_hash() != engine.state_hash_slow() {
            return Err("the state hash kept is not the state hash walked".into());
        }
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
        Ok(Summary {
            seed: self.seed,
            inputs: engine.sequence().0,
            orders: checkpoint.orders,
            trades: checkpoint.trades,
            replies: self.heard().map(|heard| heard.len() as u64).sum(),
            feed_messages: self.feed.heard.len() as u64,
            connections: self.tcp.iter().map(|client| client.connections).sum(),
            kills: self.kills,
            power_cuts: self.power_cuts,
            snapshot_starts: self.snapshot_starts,
            simulated_ns: self.now_ns() - START_NS,
            state_hash: engine.state_hash(),
        })
    }

    fn audit_streams(&self, engine: &Engine, derived: &Derived) -> Result<(), String> {
        for (index, heard) in self.heard().enumerate() {
            let username = &self.config.participants[index].username;
            if digests(heard) != derived.replies_of(username) {
                return Err(format!(
                    "{username} heard {} replies that are not the {} of the journal",
                    heard.len(),
                    derived.replies_of(username).len()
                ));
            }
        }
        if let Some(error) = &derived.feed_error {
            return Err(error.clone());
        }
        let mut book = FeedBook::new();
        for (index, message) in self.feed.heard.iter().enumerate() {
            book.apply(index as u64 + 1, message).map_err(|error| error.to_string())?;
        }
        if book.message_count() != derived.feed_messages {
            return Err(format!(
                "the feed's reader heard {} messages of {}",
                book.message_count(),
                derived.feed_messages
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
        Command::Refuse(refused) => refused.key.session_id,
        Command::CancelOnDisconnect(_)
        | Command::Time
        | Command::System(_)
        | Command::AddInstrument(_)
        | Command::AddSession(_)
        | Command::Money(_)
        | Command::Venue(_) => return None,
    };
    usize::from(session_id.0).checked_sub(1)
}

/// A venue with small rings, so that they fill, and a durability of the seed's choice.
fn config(rng: &mut Rng) -> Config {
    let mut config = Config::default();
    config.journal.durability = match rng.below(2) {
        0 => DurabilityConfig::Written,
        _ => DurabilityConfig::Synced,
    };
    config.journal.segment.0 = 1 << 16;
    config.snapshots.inputs = rng.below(3) * (20 + rng.below(800));
    config.snapshots.time.0 = Duration::from_millis(rng.below(3) * (1 + rng.below(2_000)));
    config.journal.state_hash_every = 64;
    config.rings.submissions = 64;
    config.rings.inputs = 64 << rng.below(3);
    config.rings.outputs = 64 << rng.below(3);
    config.participants.truncate(TCP_SESSIONS + UDP_SESSIONS);
    for participant in &mut config.participants[..TCP_SESSIONS] {
        participant.cancel_on_disconnect = rng.below(4) == 0;
    }
    config
}
