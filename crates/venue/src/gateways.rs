//! The agents at the edges of a venue, wired to the core's chain: order entry by each protocol, the feed, and the
//! servers for its subscribers.
//!
//! Invariant: every agent has the state from before the start before its first turn.

use std::sync::Arc;

use engine::Engine;
use gateway::{
    ClientSession, Credentials, DatagramNetwork, DerivedMirror, DerivedUpdate, FaultTable,
    FeedServer, FeedServerOptions, FixSession, MarketData, MarketDataFix, MarketDataFixOptions,
    MarketDataOptions, Newcomers, OrderEntry, OrderEntryCounters, OrderEntryLimits,
    OrderEntryOptions, OrderEntryPort, OrderEntryUdp, OrderEntryUdpCounters, OrderEntryUdpOptions,
    Ouch42, PasswordChecker, PastEnds, PastReplyEnds, SluiceCounters, SluiceNetwork, SluiceSession,
    SoupBinTcp, SoupBinTcpOptions, StreamNetwork, StreamOptions, UdpParticipant, past_reply_rings,
    past_rings,
};
use ring::{AtomicGauge, LossyConsumer, Producer};
use wire::{
    fix::{FixService, FixTimers},
    soupbintcp::Timers,
};

use crate::{
    config::{
        Bytes, Config, MarketDataFixConfig, OrderEntryConfig, OrderEntryFixConfig,
        ParticipantConfig, ProtocolName, Span,
    },
    core::Core,
    delta_streams::WiredStreams,
    failure::Failure,
    layout::{AgentName, Agents},
    pipeline::{DERIVED_SLOTS, Edges, FEED_SLOTS, Networks},
    public_state::public_state,
    recovery::Past,
};

/// Counters of the ports of order entry.
#[derive(Clone)]
pub(crate) struct PortCounters {
    pub(crate) order_entry: Arc<OrderEntryCounters>,
    pub(crate) order_entry_fix: Option<Arc<OrderEntryCounters>>,
    pub(crate) order_entry_ouch42: Option<Arc<OrderEntryCounters>>,
    pub(crate) order_entry_sluice: Option<Arc<OrderEntryCounters>>,
    /// Counters of Sluice's datagrams.
    pub(crate) sluice: Option<Arc<SluiceCounters>>,
    pub(crate) order_entry_udp: Arc<OrderEntryUdpCounters>,
}

/// The agents at the edges of a venue.
pub(crate) struct Gateways<N: StreamNetwork, D: DatagramNetwork> {
    /// Order entry by each protocol that is configured.
    ports: Vec<(AgentName, Box<dyn OrderEntryPort>)>,
    pub(crate) counters: PortCounters,
    pub(crate) market_data: MarketData<D>,
    pub(crate) feed_server: FeedServer<N, D>,
    pub(crate) market_data_fix: Option<MarketDataFix<N>>,
    pub(crate) streams: WiredStreams<D>,
    pub(crate) derived: Option<DerivedMirror>,
    pub(crate) faults: FaultTable,
    /// The handle for adding users to each running port.
    pub(crate) newcomers: Vec<(ProtocolName, Newcomers)>,
    /// Compares passwords with hashes for all ports; `None` once taken.
    pub(crate) passwords: Option<PasswordChecker>,
    /// The ends of the feed history; `None` once taken.
    pub(crate) past: Option<PastEnds>,
    pub(crate) past_replies: Option<PastReplyEnds>,
    /// The progress of the venue's stop; written outside the layout.
    pub(crate) drain: Arc<AtomicGauge>,
}

impl<N, D> Gateways<N, D>
where
    N: StreamNetwork + Send + 'static,
    D: DatagramNetwork + Send + 'static,
{
    pub(crate) fn new(
        config: &Config,
        networks: Networks<N, D>,
        edges: &Edges,
        core: &mut Core,
        session: [u8; 10],
        streams: Vec<StreamOptions>,
    ) -> Result<Self, Failure> {
        let users = users(config)?;
        let faults = FaultTable::new(users.iter().map(|(_, user)| user.username()));
        let subscribers = feed_server_config(config, session, &users, streams.clone())?;
        let readers = subscribers.users.clone();
        let speaking = |protocol| -> Vec<Credentials> {
            let speak = users.iter().filter(|(speaks, _)| *speaks == protocol);
            speak.map(|(_, user)| user.clone()).collect()
        };
        let mut ports: Vec<(AgentName, Box<dyn OrderEntryPort>)> = Vec::new();
        let mut passwords = PasswordChecker::default();

        let of_ouch = |protocol, connections_max, reply_store| {
            let settings = &config.order_entry;
            OrderEntryOptions {
                protocol: soupbintcp_config(settings, session),
                users: speaking(protocol),
                limits: limits(connections_max, settings.slow_client_timeout, reply_store),
                throttle: config.throttle.throttle(),
            }
        };
        let settings = &config.order_entry;
        let entry = of_ouch(ProtocolName::Ouch, settings.connections_max, settings.reply_store);
        let agent = AgentName::OrderEntry;
        let mut port: OrderEntry<N> =
            wire_port(core, agent, "submissions", networks.order_entry, entry);
        port.check_passwords_by(passwords.connect());
        let order_entry = port.counters();
        let mut newcomers = vec![(ProtocolName::Ouch, port.newcomers())];
        ports.push((agent, Box::new(port)));

        let (mut order_entry_fix, mut past_replies) = (None, None);
        if let (Some(settings), Some(network)) = (&config.order_entry_fix, networks.order_entry_fix)
        {
            let (connections_max, reply_store) = (settings.connections_max, settings.reply_store);
            let entry = OrderEntryOptions {
                protocol: order_entry_fix_config(settings)?,
                users: speaking(ProtocolName::Fix),
                limits: limits(connections_max, settings.slow_client_timeout, reply_store),
                throttle: config.throttle.throttle(),
            };
            let agent = AgentName::OrderEntryFix;
            let mut port: OrderEntry<N, FixSession> =
                wire_port(core, agent, "submissions fix", network, entry);
            let (past, ends) = past_reply_rings();
            port.set_past(past);
            port.check_passwords_by(passwords.connect());
            newcomers.push((ProtocolName::Fix, port.newcomers()));
            (order_entry_fix, past_replies) = (Some(port.counters()), Some(ends));
            ports.push((agent, Box::new(port)));
        }
        let mut order_entry_ouch42 = None;
        if let (Some(settings), Some(network)) =
            (&config.order_entry_ouch42, networks.order_entry_ouch42)
        {
            let entry =
                of_ouch(ProtocolName::Ouch42, settings.connections_max, settings.reply_store);
            let agent = AgentName::OrderEntryOuch42;
            let mut port: OrderEntry<N, SoupBinTcp<Ouch42>> =
                wire_port(core, agent, "submissions ouch42", network, entry);
            port.check_passwords_by(passwords.connect());
            order_entry_ouch42 = Some(port.counters());
            newcomers.push((ProtocolName::Ouch42, port.newcomers()));
            ports.push((agent, Box::new(port)));
        }
        let (mut order_entry_sluice, mut sluice) = (None, None);
        if let (Some(settings), Some(network)) =
            (&config.order_entry_sluice, networks.order_entry_sluice)
        {
            let entry =
                of_ouch(ProtocolName::Sluice, settings.connections_max, settings.reply_store);
            let network = SluiceNetwork::new(network);
            sluice = Some(network.counters());
            let agent = AgentName::OrderEntrySluice;
            let mut port: OrderEntry<_, SluiceSession> =
                wire_port(core, agent, "submissions sluice", network, entry);
            port.check_passwords_by(passwords.connect());
            order_entry_sluice = Some(port.counters());
            newcomers.push((ProtocolName::Sluice, port.newcomers()));
            ports.push((agent, Box::new(port)));
        }
        let agent = AgentName::OrderEntryUdp;
        let submissions = core.source("submissions udp", agent);
        let (outputs, durable) = core.reader(agent);
        let entry = order_entry_udp_config(config, session)?;
        let port =
            OrderEntryUdp::new(networks.order_entry_udp, entry, submissions, outputs, durable);
        let order_entry_udp = port.counters();
        ports.push((agent, Box::new(port)));
        let counters = PortCounters {
            order_entry,
            order_entry_fix,
            order_entry_ouch42,
            order_entry_sluice,
            sluice,
            order_entry_udp,
        };

        let (outputs, durable) = core.reader(AgentName::MarketData);
        let (to_server, messages) =
            core.ring("feed", FEED_SLOTS, AgentName::MarketData, AgentName::FeedServer);
        let feed = MarketDataOptions { session, group: edges.feed_destination };
        let mut market_data =
            MarketData::new(networks.market_data, feed, outputs, durable, to_server);
        if let Some((network, group)) = networks.market_data_b {
            market_data.add_line(network, group);
        }
        let streams = WiredStreams::new(config, networks.streams, &streams, &mut market_data, core);
        let (ends, past) = past_rings();
        let mut feed_server = FeedServer::new(networks.feed_server, subscribers, messages, ends);
        feed_server.check_passwords_by([passwords.connect(), passwords.connect()]);
        let derived = config.derived_data.as_ref();
        let derived = derived.map(|settings| {
            let (to, from) = core.outside_ring("derived", DERIVED_SLOTS, AgentName::FeedServer);
            derive(to, from, settings.trades, &mut feed_server)
        });
        let mut market_data_fix = None;
        if let (Some(settings), Some(network)) = (&config.market_data_fix, networks.market_data_fix)
        {
            let (server, reader) = (AgentName::FeedServer, AgentName::MarketDataFix);
            let (to, from) = core.dropping_ring("derived fix", DERIVED_SLOTS, server, reader);
            let mirror = derive(to, from, settings.trades, &mut feed_server);
            let options = market_data_fix_config(settings, readers)?;
            let mut agent = MarketDataFix::new(network, options, mirror);
            agent.check_passwords_by(passwords.connect());
            market_data_fix = Some(agent);
        }
        let drain = Arc::new(AtomicGauge::new(0));
        if let Some(fix) = &mut market_data_fix {
            fix.set_drain(Arc::clone(&drain));
            if let Some(sink) = (edges.operator_events)("market data fix") {
                fix.set_operator_events(sink);
            }
        }
        for (_, port) in &mut ports {
            port.set_faults(&faults);
            port.set_drain(Arc::clone(&drain));
            if let Some(sink) = (edges.operator_events)(port.component()) {
                port.set_operator_events(sink);
            }
        }
        let past = Some(past);
        Ok(Self {
            ports,
            counters,
            market_data,
            feed_server,
            market_data_fix,
            streams,
            derived,
            faults,
            newcomers,
            passwords: Some(passwords),
            past,
            past_replies,
            drain,
        })
    }

    /// Restores the state from before the start.
    pub(crate) fn take(&mut self, past: Past<'_>) {
        match past {
            Past::Messages(archive) => {
                self.ports.iter_mut().for_each(|(_, port)| port.restore(archive));
                self.market_data.restore(archive);
                self.feed_server.restore(archive);
            }
            Past::State(engine) => {
                let now_ns = engine.timestamp().0;
                self.feed_server.restore_books(now_ns, |each| public_state(engine, each));
            }
            Past::Line(line) => {
                self.ports.iter_mut().for_each(|(_, port)| port.replay(line));
                let Self { market_data, feed_server, .. } = self;
                let now_ns = line.timestamp.0;
                market_data.replay(line, &mut |number, message| {
                    feed_server.replay(number, message, now_ns);
                });
            }
        }
    }

    /// Gives the gateways the last number of each session, also of those used before a snapshot.
    pub(crate) fn know_used_numbers(&mut self, engine: &Engine) {
        for session in engine.sessions() {
            let session_id = session.session_id();
            for (channel, last) in session.user_ref_nums_last() {
                for (_, port) in &mut self.ports {
                    port.know_used(session_id, channel, last);
                }
            }
        }
    }

    pub(crate) fn join(self, agents: &mut Agents) {
        for (name, port) in self.ports {
            agents.insert(name, port);
        }
        agents.insert(AgentName::MarketData, Box::new(self.market_data));
        agents.insert(AgentName::FeedServer, Box::new(self.feed_server));
        if let Some(fix) = self.market_data_fix {
            agents.insert(AgentName::MarketDataFix, Box::new(fix));
        }
        self.streams.join(agents);
    }
}

/// Makes the feed server derive levels, trades and statistics for a mirror at the end of a ring.
fn derive<N: StreamNetwork, D: DatagramNetwork>(
    to: Producer<DerivedUpdate>,
    from: LossyConsumer<DerivedUpdate>,
    trades: usize,
    feed_server: &mut FeedServer<N, D>,
) -> DerivedMirror {
    let wanted = Arc::new(AtomicGauge::new(0));
    feed_server.derive(to, Arc::clone(&wanted), trades);
    DerivedMirror::new(from, wanted, trades)
}

/// A port that passes its orders to the chain through a ring of this name.
fn wire_port<N: StreamNetwork, S: ClientSession>(
    core: &mut Core,
    agent: AgentName,
    ring: &'static str,
    network: N,
    options: OrderEntryOptions<S::Options>,
) -> OrderEntry<N, S> {
    let submissions = core.source(ring, agent);
    let (outputs, durable) = core.reader(agent);
    OrderEntry::new(network, options, submissions, outputs, durable)
}

fn soupbintcp_config(settings: &OrderEntryConfig, session: [u8; 10]) -> SoupBinTcpOptions {
    SoupBinTcpOptions {
        session,
        timers: Timers {
            heartbeat_ns: settings.heartbeat.0.as_nanos() as u64,
            receive_timeout_ns: settings.receive_timeout.0.as_nanos() as u64,
            login_timeout_ns: settings.login_timeout.0.as_nanos() as u64,
        },
    }
}

/// The settings of the feed server: participants with a password and subscribers may log in, with the timers of order
/// entry.
fn feed_server_config(
    config: &Config,
    session: [u8; 10],
    users: &[(ProtocolName, Credentials)],
    streams: Vec<StreamOptions>,
) -> Result<FeedServerOptions, Failure> {
    let (settings, entry) = (&config.market_data, &config.order_entry);
    let participants = users.iter().map(|(_, user)| Ok(user.clone()));
    let subscribers = settings.subscribers.iter().map(|row| row.credentials());
    Ok(FeedServerOptions {
        session,
        users: participants.chain(subscribers).collect::<Result<_, _>>().map_err(Failure::usage)?,
        timers: soupbintcp_config(entry, session).timers,
        slow_client_timeout_ns: entry.slow_client_timeout.0.as_nanos() as u64,
        store_bytes_max: settings.store.0 as usize,
        requests: settings.requests().map_err(Failure::usage)?,
        streams,
    })
}

fn order_entry_fix_config(settings: &OrderEntryFixConfig) -> Result<FixTimers, Failure> {
    Ok(FixTimers {
        venue: settings.comp_id().map_err(Failure::usage)?,
        login_timeout_ns: settings.login_timeout.0.as_nanos() as u64,
        service: FixService::Orders,
        schedule: settings.schedule().map_err(Failure::usage)?,
    })
}

/// The settings of market data by FIX: users of the feed server may log on.
fn market_data_fix_config(
    settings: &MarketDataFixConfig,
    users: Vec<Credentials>,
) -> Result<MarketDataFixOptions, Failure> {
    Ok(MarketDataFixOptions {
        timers: FixTimers {
            venue: settings.comp_id().map_err(Failure::usage)?,
            login_timeout_ns: settings.login_timeout.0.as_nanos() as u64,
            service: FixService::MarketData,
            schedule: None,
        },
        users,
        depth_max: settings.depth_max,
        subscriptions_max: settings.subscriptions_max,
        interval_ns: settings.interval.0.as_nanos() as u64,
        slow_client_timeout_ns: settings.slow_client_timeout.0.as_nanos() as u64,
    })
}

fn limits(
    connections_max: usize,
    slow_client_timeout: Span,
    reply_store: Bytes,
) -> OrderEntryLimits {
    OrderEntryLimits {
        connections_max,
        slow_client_timeout_ns: slow_client_timeout.0.as_nanos() as u64,
        store_bytes_max: reply_store.0 as usize,
        ..OrderEntryLimits::default()
    }
}

/// The participants with a password, each with its protocol.
fn users(config: &Config) -> Result<Vec<(ProtocolName, Credentials)>, Failure> {
    config.participants.iter().filter_map(|it| user(it).transpose()).collect()
}

/// The protocol and login of a participant; `None` if it has no password.
pub(crate) fn user(
    participant: &ParticipantConfig,
) -> Result<Option<(ProtocolName, Credentials)>, Failure> {
    let Some(password) = participant.password.as_deref() else { return Ok(None) };
    let user = Credentials::new(&participant.username, password).map_err(Failure::usage)?;
    let firms = participant.firms().map_err(Failure::usage)?;
    let wanted = participant.cancel_on_disconnect;
    let user = user.with_cancel_on_disconnect(wanted).with_firms(firms);
    Ok(Some((participant.protocol, user)))
}

fn order_entry_udp_config(
    config: &Config,
    session: [u8; 10],
) -> Result<OrderEntryUdpOptions, Failure> {
    let users = config
        .participants
        .iter()
        .filter_map(|participant| {
            let address = participant.udp?;
            let user = participant.username().and_then(|username| {
                Ok(UdpParticipant { address, username, firms: participant.firms()? })
            });
            Some(user.map_err(Failure::usage))
        })
        .collect::<Result<_, _>>()?;
    Ok(OrderEntryUdpOptions {
        session,
        users,
        store_bytes_max: config.order_entry_udp.reply_store.0 as usize,
        throttle: config.throttle.throttle(),
    })
}
