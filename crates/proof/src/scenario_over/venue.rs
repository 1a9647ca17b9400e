//! The venue of a scenario: assembled as always, on a network, a disk and a clock in memory.
//!
//! Invariant: every turn of its agents is a call of [`ScenarioVenue::settle`], so that a run is a function of its lines.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use gateway::{
    FeedServerNetworks, Submission,
    fake::{FakeDatagram, FakeStream},
};
use journal::{CrashStorage, Durability, WriterOptions};
use market::{Command, Event, OrderKey, SelfMatchPrevention, SessionId, Timestamp};
use ring::{Agent, Producer};
use venue::{
    config::{
        Config, FirmNames, OrderEntryFixConfig, OrderEntryOuch42Config, ParticipantConfig,
        PreventionName, ProtocolName, Span,
    },
    follower::Follower,
    pipeline::{self, Edges, Networks},
    recovery,
    stage::Perturbations,
};

use super::{
    Protocol, Step,
    session::{ScenarioSession, TradePart},
    session_of,
};
use crate::{restored, scenario::World};

const JOURNAL_ID: u64 = 13;
/// Longer than any scenario.
const PATIENCE: Span = Span(Duration::from_secs(1 << 32));
/// Turns after which a venue that does not rest never will.
const TURNS_MAX: usize = 100_000;
/// Turns without work that show that it rests.
const IDLE_TURNS: usize = 4;

pub struct ScenarioVenue {
    protocol: Protocol,
    agents: Vec<Box<dyn Agent>>,
    commands: Producer<Submission>,
    /// Derives the state from the journal.
    follower: Follower,
    names: BTreeMap<String, SessionId>,
    sessions: BTreeMap<SessionId, ScenarioSession>,
    streams: FakeStream,
    datagrams: FakeDatagram,
    now_ns: u64,
}

impl ScenarioVenue {
    /// A venue whose journal begins with these inputs.
    pub fn start(before: &[Step], protocol: Protocol) -> Result<Self, String> {
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
                config.participants.push(ParticipantConfig {
                    username: name.clone(),
                    protocol: match protocol {
                        Protocol::SoupBinTcp | Protocol::Udp => ProtocolName::Ouch,
                        Protocol::Ouch42 => ProtocolName::Ouch42,
                        Protocol::Fix42 | Protocol::Fix44 => ProtocolName::Fix,
                    },
                    password: (protocol != Protocol::Udp).then(|| name.clone()),
                    firm: FirmNames::One(added.firm.to_string()),
                    udp: (protocol == Protocol::Udp).then(|| address(number)),
                    cancel_on_disconnect: protocol != Protocol::Udp,
                    live_orders_max: added.live_orders_max,
                    self_match_prevention: prevention(added.self_match_prevention)?,
                    account: None,
                });
                names.insert(name, SessionId(number as u16));
            }
        }
        writer.commit().map_err(|error| error.to_string())?;
        drop(writer);
        let networks = Networks::<FakeStream, FakeDatagram> {
            order_entry: FakeStream::new(),
            order_entry_fix: Some(FakeStream::new()),
            order_entry_ouch42: Some(FakeStream::new()),
            order_entry_udp: FakeDatagram::new(),
            market_data: FakeDatagram::new(),
            feed_server: FeedServerNetworks {
                requests: FakeDatagram::new(),
                snapshot: FakeStream::new(),
                stream: FakeStream::new(),
            },
            streams: Vec::new(),
        };
        let streams = match protocol {
            Protocol::SoupBinTcp | Protocol::Udp => networks.order_entry.clone(),
            Protocol::Ouch42 => networks.order_entry_ouch42.clone().expect("it is there"),
            Protocol::Fix42 | Protocol::Fix44 => {
                networks.order_entry_fix.clone().expect("it is there")
            }
        };
        let datagrams = networks.order_entry_udp.clone();
        let edges = Edges {
            feed_destination: config.unicast_fallback(),
            operator_events: |_| None,
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
            streams,
            datagrams,
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
            // The sequencer notices itself that time has passed.
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
        let number = usize::from(session_id.0);
        let named = self.names.iter().find(|(_, id)| **id == session_id);
        let (name, _) = named.ok_or("there is no such session")?;
        let now_ns = self.now_ns;
        let Self { sessions, streams, datagrams, protocol, .. } = self;
        let session = sessions.entry(session_id).or_insert_with(|| {
            ScenarioSession::new(
                *protocol,
                name,
                address(number),
                streams.clone(),
                datagrams.clone(),
            )
        });
        if session.is_open() {
            return Ok(());
        }
        session.open(now_ns);
        self.settle()?;
        self.events()?;
        match self.sessions[&session_id].is_logged_on() {
            true => Ok(()),
            false => Err("the venue refuses the login".into()),
        }
    }

    /// Lets venue and sessions have turns until nothing is under way.
    fn settle(&mut self) -> Result<(), String> {
        let mut idle = 0;
        for _ in 0..TURNS_MAX {
            let mut work = 0;
            for agent in &mut self.agents {
                work += agent.do_work(self.now_ns).map_err(|error| error.to_string())?;
            }
            while let Some((to, datagram)) = self.datagrams.take() {
                let mut sessions = self.sessions.values_mut();
                if let Some(session) = sessions.find(|session| session.address() == to) {
                    session.take_datagram(&datagram, self.now_ns)?;
                }
            }
            for session in self.sessions.values_mut() {
                work += session.turn(self.now_ns)?;
            }
            idle = if work == 0 { idle + 1 } else { 0 };
            if idle == IDLE_TURNS {
                return Ok(());
            }
        }
        Err(format!("the venue has work left in {TURNS_MAX} turns"))
    }

    /// The events of the inputs since this was last asked.
    fn events(&mut self) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        let each = &mut |output: &market::Output| events.push(output.event);
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

fn config(protocol: Protocol) -> Config {
    let mut config =
        Config { instruments: Vec::new(), participants: Vec::new(), ..Config::default() };
    config.order_entry.receive_timeout = PATIENCE;
    config.order_entry.slow_client_timeout = PATIENCE;
    if matches!(protocol, Protocol::Fix42 | Protocol::Fix44) {
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

/// Where the session of this number is.
fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number as u8], 7_000))
}
