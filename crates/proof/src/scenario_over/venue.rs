//! The venue of a scenario: assembled as always, on a disk and a clock in memory, and on a network in memory or
//! on sockets.
//!
//! Invariant: every turn of its agents is a call of [`ScenarioVenue::settle`], so that a run is a function of its lines.

use std::{collections::BTreeMap, io, net::SocketAddr, time::Duration};

use gateway::{FeedServerNetworks, Submission};
use journal::{CrashStorage, Durability, WriterOptions};
use market::{Command, Event, OrderKey, SelfMatchPrevention, SessionId, Timestamp};
use ring::{Agent, Producer};
use venue::{
    config::{
        Config, FirmNames, OrderEntryFixConfig, OrderEntryOuch42Config, OrderEntrySluiceConfig,
        ParticipantConfig, PreventionName, ProtocolName, Span,
    },
    follower::Follower,
    pipeline::{self, Edges, Networks},
    recovery,
    stage::Perturbations,
};

use super::{
    Protocol, Step, Transport,
    network::{DatagramLink, StreamLink, UnderWay, VenueDatagrams, VenueStreams},
    session::{Crossed, ScenarioSession, TradePart},
    session_of,
};
use crate::{restored, scenario::World};

const JOURNAL_ID: u64 = 13;
/// A time longer than any scenario.
const PATIENCE: Span = Span(Duration::from_secs(1 << 32));
/// The number of turns after which a venue with work left counts as one that never rests.
const TURNS_MAX: usize = 100_000;
/// The number of consecutive turns without work that show that the venue rests.
const IDLE_TURNS: usize = 4;

pub struct ScenarioVenue {
    protocol: Protocol,
    agents: Vec<Box<dyn Agent>>,
    commands: Producer<Submission>,
    /// Derives the state from the journal.
    follower: Follower,
    names: BTreeMap<String, SessionId>,
    sessions: BTreeMap<SessionId, ScenarioSession>,
    /// The ends of sessions that have not logged on.
    links: BTreeMap<SessionId, (StreamLink, DatagramLink)>,
    under_way: UnderWay,
    now_ns: u64,
}

impl ScenarioVenue {
    /// A venue whose journal begins with these inputs.
    pub fn start(
        before: &[Step],
        protocol: Protocol,
        transport: Transport,
    ) -> Result<Self, String> {
        let under_way = UnderWay::default();
        let why = |error: io::Error| error.to_string();
        let networks = networks(protocol, transport, &under_way).map_err(why)?;
        let mut links = BTreeMap::new();
        let storage = CrashStorage::new();
        let options =
            WriterOptions { durability: Durability::Written, ..WriterOptions::new(JOURNAL_ID, 0) };
        let (_, mut writer, _) =
            recovery::recover(Box::new(storage.clone()), &options, &mut |_| {})
                .map_err(|failure| failure.to_string())?;
        let mut config = config(protocol);
        let mut names = BTreeMap::new();
        let mut now_ns = 0;
        for (sequence, Step { input, .. }) in (1..).zip(before) {
            let mut payload = [0; Command::ENCODED_LEN_MAX];
            let len = input.command.encode(&mut payload);
            now_ns = input.timestamp.0;
            writer.append(sequence, now_ns, &payload[..len]).map_err(|error| error.to_string())?;
            if let Command::AddSession(added) = &input.command {
                let name = added.username.to_string();
                let number = config.participants.len() + 1;
                let link = link(&networks, protocol, address(number)).map_err(why)?;
                let udp = link.1.address().map_err(why)?;
                config.participants.push(ParticipantConfig {
                    username: name.clone(),
                    protocol: match protocol {
                        Protocol::SoupBinTcp | Protocol::Udp => ProtocolName::Ouch,
                        Protocol::Sluice => ProtocolName::Sluice,
                        Protocol::Ouch42 => ProtocolName::Ouch42,
                        Protocol::Fix42 | Protocol::Fix44 | Protocol::Fix50Sp1 => ProtocolName::Fix,
                    },
                    password: (protocol != Protocol::Udp).then(|| name.clone()),
                    firm: FirmNames::One(added.firm.to_string()),
                    udp: (protocol == Protocol::Udp).then_some(udp),
                    cancel_on_disconnect: protocol != Protocol::Udp,
                    live_orders_max: added.live_orders_max,
                    self_match_prevention: prevention(added.self_match_prevention)?,
                    account: None,
                    drop_copy: None,
                });
                let session_id = SessionId(number as u16);
                links.insert(session_id, link);
                names.insert(name, session_id);
            }
        }
        writer.commit().map_err(|error| error.to_string())?;
        drop(writer);
        let edges = Edges {
            feed_destination: config.market_data.line_a().fallback,
            operator_events: |_| None,
            start_id: 1,
            perturbations: Perturbations::default(),
        };
        let files = || Box::new(storage.clone());
        let venue =
            pipeline::assemble(&config, networks, &edges, files(), files(), JOURNAL_ID, now_ns)
                .map_err(|failure| failure.to_string())?;
        let mut this = Self {
            protocol,
            agents: venue.agents.into_values().chain([venue.feed_history]).collect(),
            commands: venue.desk.commands,
            follower: Follower::from_the_first(&storage, None),
            names,
            sessions: BTreeMap::new(),
            links,
            under_way,
            now_ns,
        };
        this.settle()?;
        this.events()?;
        Ok(this)
    }

    /// Plays a line; returns the events of its inputs, but those of a session's own messages.
    pub fn play(&mut self, step: &Step) -> Result<Vec<Event>, String> {
        let command = &step.input.command;
        self.now_ns = self.now_ns.max(step.input.timestamp.0);
        match session_of(command) {
            Some(session_id) => {
                self.log_on(session_id)?;
                let session = self.sessions.get_mut(&session_id).expect("it has logged on");
                session.send(command, self.now_ns)?;
            }
            // The sequencer notices the passage of time without a command.
            None if matches!(command, Command::Time) => {}
            None => {
                let submission = Submission { received: Timestamp(self.now_ns), command: *command };
                self.commands.try_publish(submission).map_err(|_| "the ring is full")?;
            }
        }
        self.settle()?;
        let is_query = matches!(command, Command::QueryAccount(_));
        let mut events = self.events()?;
        events.retain(|event| match event {
            Event::Noted(_) => false,
            Event::AccountQueried(_) => is_query,
            _ => true,
        });
        Ok(events)
    }

    /// Opens the session, unless it is open.
    fn log_on(&mut self, session_id: SessionId) -> Result<(), String> {
        let named = self.names.iter().find(|(_, id)| **id == session_id);
        let (name, _) = named.ok_or("there is no such session")?;
        let Self { sessions, links, protocol, .. } = self;
        let session = sessions.entry(session_id).or_insert_with(|| {
            let (stream, datagrams) = links.remove(&session_id).expect("each session has ends");
            ScenarioSession::new(*protocol, name, stream, datagrams)
        });
        if session.is_logged_on() {
            return Ok(());
        }
        session.open(self.now_ns)?;
        self.settle()?;
        self.events()?;
        match self.sessions[&session_id].is_logged_on() {
            true => Ok(()),
            false => Err("the venue refuses the login".into()),
        }
    }

    /// Gives venue and sessions turns until nothing is under way.
    fn settle(&mut self) -> Result<(), String> {
        let mut idle = 0;
        for _ in 0..TURNS_MAX {
            let mut work = 0;
            for agent in &mut self.agents {
                work += agent.do_work(self.now_ns).map_err(|error| error.to_string())?;
            }
            for session in self.sessions.values_mut() {
                work += session.turn(self.now_ns)?;
            }
            let is_idle = work == 0 && self.under_way.is_none();
            idle = if is_idle { idle + 1 } else { 0 };
            if work == 0 && !is_idle {
                // The bytes under way are in the kernel.
                std::thread::yield_now();
            }
            if idle == IDLE_TURNS {
                return Ok(());
            }
        }
        Err(format!("the venue has work left in {TURNS_MAX} turns"))
    }

    /// The events of the inputs since the last call.
    fn events(&mut self) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        let each = &mut |line: &market::OutputLine| line.each(|output| events.push(output.event));
        while self.follower.poll(1 << 16, u64::MAX, each).map_err(|it| it.to_string())? > 0 {}
        Ok(events)
    }

    /// Books and balances in the names of the scenario.
    pub fn state(&self, aliases: &BTreeMap<OrderKey, OrderKey>) -> Result<String, String> {
        let mut world = World::default();
        world.engine = restored(self.follower.engine())?;
        world.sessions.clone_from(&self.names);
        world.aliases.clone_from(aliases);
        Ok(world.state())
    }

    /// The OUCH messages of all sessions.
    pub fn crossed(&self) -> Vec<Crossed> {
        self.sessions.values().flat_map(ScenarioSession::crossed).collect()
    }

    /// The trades that the sessions know, in order.
    pub fn fills(&self) -> Result<Vec<TradePart>, String> {
        let mut fills = Vec::new();
        for (session_id, session) in &self.sessions {
            fills.extend(session.fills(*session_id)?);
        }
        fills.sort_unstable();
        Ok(fills)
    }
}

type ScenarioNetworks = Networks<VenueStreams, VenueDatagrams>;

/// The venue's ends. Only the port of the protocol is on sockets.
fn networks(
    protocol: Protocol,
    transport: Transport,
    under_way: &UnderWay,
) -> io::Result<ScenarioNetworks> {
    let used = |is_used: bool| if is_used { transport } else { Transport::Memory };
    let streams = |is_used| VenueStreams::new(used(is_used), under_way);
    let datagrams = |is_used| VenueDatagrams::new(used(is_used), under_way);
    let is_fix = protocol.fix_version().is_some();
    Ok(Networks {
        order_entry: streams(protocol == Protocol::SoupBinTcp)?,
        order_entry_fix: Some(streams(is_fix)?),
        order_entry_ouch42: Some(streams(protocol == Protocol::Ouch42)?),
        order_entry_sluice: Some(datagrams(protocol == Protocol::Sluice)?),
        order_entry_udp: datagrams(protocol == Protocol::Udp)?,
        market_data: datagrams(false)?,
        market_data_b: None,
        feed_server: FeedServerNetworks {
            requests: datagrams(false)?,
            snapshot: streams(false)?,
            stream: streams(false)?,
        },
        market_data_fix: None,
        streams: Vec::new(),
    })
}

/// A participant's ends; in memory their address is `address`.
fn link(
    networks: &ScenarioNetworks,
    protocol: Protocol,
    address: SocketAddr,
) -> io::Result<(StreamLink, DatagramLink)> {
    let streams = match protocol {
        Protocol::SoupBinTcp | Protocol::Udp | Protocol::Sluice => &networks.order_entry,
        Protocol::Ouch42 => networks.order_entry_ouch42.as_ref().expect("it is there"),
        Protocol::Fix42 | Protocol::Fix44 | Protocol::Fix50Sp1 => {
            networks.order_entry_fix.as_ref().expect("it is there")
        }
    };
    let datagrams = match protocol {
        Protocol::Sluice => networks.order_entry_sluice.as_ref().expect("it is there"),
        _ => &networks.order_entry_udp,
    };
    Ok((streams.link(address), datagrams.link(address)?))
}

fn config(protocol: Protocol) -> Config {
    let mut config =
        Config { instruments: Vec::new(), participants: Vec::new(), ..Config::default() };
    config.order_entry.receive_timeout = PATIENCE;
    config.order_entry.slow_client_timeout = PATIENCE;
    if protocol == Protocol::Sluice {
        config.order_entry_sluice = Some(OrderEntrySluiceConfig::default());
    }
    if protocol.fix_version().is_some() {
        config.order_entry_fix = Some(OrderEntryFixConfig::default());
    }
    if protocol == Protocol::Ouch42 {
        config.order_entry_ouch42 = Some(OrderEntryOuch42Config::default());
    }
    config
}

fn prevention(prevention: SelfMatchPrevention) -> Result<PreventionName, String> {
    PreventionName::ALL
        .into_iter()
        .find(|name| name.prevention() == prevention)
        .ok_or_else(|| format!("no configuration says {prevention:?}"))
}

/// The address of the session with this number.
fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number as u8], 7_000))
}
