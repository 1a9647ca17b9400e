//! The agents at the edges of a venue, wired to the core's chain: order entry by each protocol, the feed and what serves
//! its subscribers.
//!
//! Invariant: what was before the start reaches every agent before its first turn.

use std::sync::Arc;

use engine::Engine;
use gateway::{
    Credentials, DatagramNetwork, DerivedMirror, DerivedUpdate, FaultTable, FeedServer,
    FeedServerOptions, FixSession, MarketData, MarketDataFix, MarketDataFixOptions,
    MarketDataOptions, OrderEntry, OrderEntryLimits, OrderEntryOptions, OrderEntryUdp,
    OrderEntryUdpOptions, Ouch42, PastEnds, PastReplyEnds, SluiceCounters, SluiceNetwork,
    SluiceSession, SoupBinTcp, SoupBinTcpOptions, StreamNetwork, StreamOptions, UdpParticipant,
    past_reply_rings, past_rings,
};
use ring::{AtomicGauge, LossyConsumer, Producer};
use wire::{
    fix::{FixService, FixTimers},
    soupbintcp::Timers,
};

use crate::{
    config::{
        Bytes, Config, MarketDataFixConfig, OrderEntryFixConfig, ParticipantConfig, ProtocolName,
        Span,
    },
    core::Core,
    delta_streams::WiredStreams,
    failure::Failure,
    layout::{AgentName, Agents},
    pipeline::{DERIVED_SLOTS, Edges, FEED_SLOTS, Networks},
    public_state::public_state,
    recovery::Past,
};

/// The agents at the edges of a venue.
pub(crate) struct Gateways<N: StreamNetwork, D: DatagramNetwork> {
    pub(crate) order_entry: OrderEntry<N>,
    pub(crate) order_entry_fix: Option<OrderEntry<N, FixSession>>,
    pub(crate) order_entry_ouch42: Option<OrderEntry<N, SoupBinTcp<Ouch42>>>,
    pub(crate) order_entry_sluice: Option<OrderEntry<SluiceNetwork<D>, SluiceSession>>,
    /// Counts the datagrams of Sluice.
    pub(crate) sluice: Option<Arc<SluiceCounters>>,
    pub(crate) order_entry_udp: OrderEntryUdp<D>,
    pub(crate) market_data: MarketData<D>,
    pub(crate) feed_server: FeedServer<N, D>,
    pub(crate) market_data_fix: Option<MarketDataFix<N>>,
    pub(crate) streams: WiredStreams<D>,
    pub(crate) derived: Option<DerivedMirror>,
    pub(crate) faults: FaultTable,
    /// The ends of the feed history, until it is made.
    pub(crate) past: Option<PastEnds>,
    pub(crate) past_replies: Option<PastReplyEnds>,
    /// How far the venue is in stopping; written outside the layout.
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
        let submissions = core.source("submissions", AgentName::OrderEntry);
        let (outputs, durable) = core.reader(AgentName::OrderEntry);
        let entry = order_entry_config(config, session)?;
        let subscribers = feed_server_config(config, session, &entry, streams.clone())?;
        let readers = subscribers.users.clone();
        let mut names: Vec<_> = entry.users.iter().map(Credentials::username).collect();
        let mut order_entry =
            OrderEntry::new(networks.order_entry, entry, submissions, outputs, durable);
        let mut order_entry_fix = None;
        if let (Some(settings), Some(network)) = (&config.order_entry_fix, networks.order_entry_fix)
        {
            let submissions = core.source("submissions fix", AgentName::OrderEntryFix);
            let (outputs, durable) = core.reader(AgentName::OrderEntryFix);
            let entry = order_entry_fix_config(config, settings)?;
            order_entry_fix = Some(OrderEntry::new(network, entry, submissions, outputs, durable));
        }
        let mut order_entry_ouch42 = None;
        if let (Some(settings), Some(network)) =
            (&config.order_entry_ouch42, networks.order_entry_ouch42)
        {
            let submissions = core.source("submissions ouch42", AgentName::OrderEntryOuch42);
            let (outputs, durable) = core.reader(AgentName::OrderEntryOuch42);
            let mut entry = order_entry_config(config, session)?;
            entry.users = users(config, ProtocolName::Ouch42)?;
            entry.limits.connections_max = settings.connections_max;
            entry.limits.store_bytes_max = settings.reply_store.0 as usize;
            order_entry_ouch42 =
                Some(OrderEntry::new(network, entry, submissions, outputs, durable));
        }
        let (mut order_entry_sluice, mut sluice) = (None, None);
        if let (Some(settings), Some(network)) =
            (&config.order_entry_sluice, networks.order_entry_sluice)
        {
            let submissions = core.source("submissions sluice", AgentName::OrderEntrySluice);
            let (outputs, durable) = core.reader(AgentName::OrderEntrySluice);
            let mut entry = order_entry_config(config, session)?;
            entry.users = users(config, ProtocolName::Sluice)?;
            entry.limits.connections_max = settings.connections_max;
            entry.limits.store_bytes_max = settings.reply_store.0 as usize;
            let network = SluiceNetwork::new(network);
            sluice = Some(network.counters());
            order_entry_sluice =
                Some(OrderEntry::new(network, entry, submissions, outputs, durable));
        }
        let submissions = core.source("submissions udp", AgentName::OrderEntryUdp);
        let (outputs, durable) = core.reader(AgentName::OrderEntryUdp);
        let entry = order_entry_udp_config(config, session)?;
        let mut order_entry_udp =
            OrderEntryUdp::new(networks.order_entry_udp, entry, submissions, outputs, durable);
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
            market_data_fix = Some(MarketDataFix::new(network, options, mirror));
        }
        names.extend(users(config, ProtocolName::Fix)?.iter().map(Credentials::username));
        names.extend(users(config, ProtocolName::Ouch42)?.iter().map(Credentials::username));
        names.extend(users(config, ProtocolName::Sluice)?.iter().map(Credentials::username));
        let faults = FaultTable::new(names);
        order_entry.set_faults(&faults);
        order_entry_fix.iter_mut().for_each(|fix| fix.set_faults(&faults));
        order_entry_ouch42.iter_mut().for_each(|ouch42| ouch42.set_faults(&faults));
        order_entry_sluice.iter_mut().for_each(|sluice| sluice.set_faults(&faults));
        let drain = Arc::new(AtomicGauge::new(0));
        if let Some(fix) = &mut market_data_fix {
            fix.set_drain(Arc::clone(&drain));
            if let Some(sink) = (edges.operator_events)("market data fix") {
                fix.set_operator_events(sink);
            }
        }
        order_entry.set_drain(Arc::clone(&drain));
        let mut past_replies = None;
        if let Some(fix) = &mut order_entry_fix {
            let (past, ends) = past_reply_rings();
            fix.set_past(past);
            past_replies = Some(ends);
            fix.set_drain(Arc::clone(&drain));
            if let Some(sink) = (edges.operator_events)("order entry fix") {
                fix.set_operator_events(sink);
            }
        }
        if let Some(ouch42) = &mut order_entry_ouch42 {
            ouch42.set_drain(Arc::clone(&drain));
            if let Some(sink) = (edges.operator_events)("order entry ouch42") {
                ouch42.set_operator_events(sink);
            }
        }
        if let Some(sluice) = &mut order_entry_sluice {
            sluice.set_drain(Arc::clone(&drain));
            if let Some(sink) = (edges.operator_events)("order entry sluice") {
                sluice.set_operator_events(sink);
            }
        }
        order_entry_udp.set_drain(Arc::clone(&drain));
        if let Some(sink) = (edges.operator_events)("order entry") {
            order_entry.set_operator_events(sink);
        }
        if let Some(sink) = (edges.operator_events)("order entry udp") {
            order_entry_udp.set_operator_events(sink);
        }
        let past = Some(past);
        Ok(Self {
            order_entry,
            order_entry_fix,
            order_entry_ouch42,
            order_entry_sluice,
            sluice,
            order_entry_udp,
            market_data,
            feed_server,
            market_data_fix,
            streams,
            derived,
            faults,
            past,
            past_replies,
            drain,
        })
    }

    /// Takes up what was before the start.
    pub(crate) fn take(&mut self, past: Past<'_>) {
        match past {
            Past::Messages(archive) => {
                self.order_entry.restore(archive);
                if let Some(fix) = &mut self.order_entry_fix {
                    fix.restore(archive);
                }
                if let Some(ouch42) = &mut self.order_entry_ouch42 {
                    ouch42.restore(archive);
                }
                if let Some(sluice) = &mut self.order_entry_sluice {
                    sluice.restore(archive);
                }
                self.order_entry_udp.restore(archive);
                self.market_data.restore(archive);
                self.feed_server.restore(archive);
            }
            Past::State(engine) => {
                let now_ns = engine.timestamp().0;
                self.feed_server.restore_books(now_ns, |each| public_state(engine, each));
            }
            Past::Output(output) => {
                self.order_entry.replay(output);
                if let Some(fix) = &mut self.order_entry_fix {
                    fix.replay(output);
                }
                if let Some(ouch42) = &mut self.order_entry_ouch42 {
                    ouch42.replay(output);
                }
                if let Some(sluice) = &mut self.order_entry_sluice {
                    sluice.replay(output);
                }
                self.order_entry_udp.replay(output);
                let Self { market_data, feed_server, .. } = self;
                let now_ns = output.timestamp.0;
                market_data.replay(output, &mut |number, message| {
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
                self.order_entry.know_used(session_id, channel, last);
                if let Some(fix) = &mut self.order_entry_fix {
                    fix.know_used(session_id, channel, last);
                }
                if let Some(ouch42) = &mut self.order_entry_ouch42 {
                    ouch42.know_used(session_id, channel, last);
                }
                if let Some(sluice) = &mut self.order_entry_sluice {
                    sluice.know_used(session_id, channel, last);
                }
                self.order_entry_udp.know_used(session_id, channel, last);
            }
        }
    }

    pub(crate) fn join(self, agents: &mut Agents) {
        agents.insert(AgentName::OrderEntry, Box::new(self.order_entry));
        if let Some(fix) = self.order_entry_fix {
            agents.insert(AgentName::OrderEntryFix, Box::new(fix));
        }
        if let Some(ouch42) = self.order_entry_ouch42 {
            agents.insert(AgentName::OrderEntryOuch42, Box::new(ouch42));
        }
        if let Some(sluice) = self.order_entry_sluice {
            agents.insert(AgentName::OrderEntrySluice, Box::new(sluice));
        }
        agents.insert(AgentName::OrderEntryUdp, Box::new(self.order_entry_udp));
        agents.insert(AgentName::MarketData, Box::new(self.market_data));
        agents.insert(AgentName::FeedServer, Box::new(self.feed_server));
        if let Some(fix) = self.market_data_fix {
            agents.insert(AgentName::MarketDataFix, Box::new(fix));
        }
        self.streams.join(agents);
    }
}

/// Has the feed server derive levels, trades and statistics, for a mirror at the end of a ring.
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

fn order_entry_config(
    config: &Config,
    session: [u8; 10],
) -> Result<OrderEntryOptions<SoupBinTcpOptions>, Failure> {
    let settings = &config.order_entry;
    Ok(OrderEntryOptions {
        protocol: SoupBinTcpOptions {
            session,
            timers: Timers {
                heartbeat_ns: settings.heartbeat.0.as_nanos() as u64,
                receive_timeout_ns: settings.receive_timeout.0.as_nanos() as u64,
                login_timeout_ns: settings.login_timeout.0.as_nanos() as u64,
            },
        },
        users: users(config, ProtocolName::Ouch)?,
        limits: limits(
            settings.connections_max,
            settings.slow_client_timeout,
            settings.reply_store,
        ),
        throttle: config.throttle.throttle(),
    })
}

/// Participants with a password and subscribers may log in, with the timers of order entry.
fn feed_server_config(
    config: &Config,
    session: [u8; 10],
    entry: &OrderEntryOptions<SoupBinTcpOptions>,
    streams: Vec<StreamOptions>,
) -> Result<FeedServerOptions, Failure> {
    let settings = &config.market_data;
    let fix = users(config, ProtocolName::Fix)?;
    let ouch42 = users(config, ProtocolName::Ouch42)?;
    let sluice = users(config, ProtocolName::Sluice)?;
    let subscribers = settings.subscribers.iter().map(|row| row.credentials());
    let subscribers: Vec<_> = subscribers.collect::<Result<_, _>>().map_err(Failure::usage)?;
    Ok(FeedServerOptions {
        session,
        users: [entry.users.clone(), fix, ouch42, sluice, subscribers].concat(),
        timers: entry.protocol.timers,
        slow_client_timeout_ns: entry.limits.slow_client_timeout_ns,
        store_bytes_max: settings.store.0 as usize,
        requests: settings.requests().map_err(Failure::usage)?,
        streams,
    })
}

fn order_entry_fix_config(
    config: &Config,
    settings: &OrderEntryFixConfig,
) -> Result<OrderEntryOptions<FixTimers>, Failure> {
    Ok(OrderEntryOptions {
        protocol: FixTimers {
            venue: settings.comp_id().map_err(Failure::usage)?,
            login_timeout_ns: settings.login_timeout.0.as_nanos() as u64,
            service: FixService::Orders,
        },
        users: users(config, ProtocolName::Fix)?,
        limits: limits(
            settings.connections_max,
            settings.slow_client_timeout,
            settings.reply_store,
        ),
        throttle: config.throttle.throttle(),
    })
}

/// Those that may log in to the feed server may log on here.
fn market_data_fix_config(
    settings: &MarketDataFixConfig,
    users: Vec<Credentials>,
) -> Result<MarketDataFixOptions, Failure> {
    Ok(MarketDataFixOptions {
        timers: FixTimers {
            venue: settings.comp_id().map_err(Failure::usage)?,
            login_timeout_ns: settings.login_timeout.0.as_nanos() as u64,
            service: FixService::MarketData,
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

/// The participants with a password that speak a protocol.
fn users(config: &Config, protocol: ProtocolName) -> Result<Vec<Credentials>, Failure> {
    let speak = config.participants.iter().filter(|it| it.protocol == protocol);
    let user = |participant: &ParticipantConfig| {
        let password = participant.password.as_deref()?;
        let user = Credentials::new(&participant.username, password).map_err(Failure::usage);
        let wanted = participant.cancel_on_disconnect;
        let firms = participant.firms().map_err(Failure::usage);
        Some(user.and_then(|user| Ok(user.with_cancel_on_disconnect(wanted).with_firms(firms?))))
    };
    speak.filter_map(user).collect()
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
