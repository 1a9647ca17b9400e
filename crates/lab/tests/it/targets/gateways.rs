//! A venue with participants and strangers: order entry over TCP and UDP, admission, throttles, re-requests. Bytes set
//! the sender, the message and the time of each step.
//!
//! Invariant: a venue never fails, whatever comes, and its tables and buffers stay within their bounds.

use std::{net::SocketAddr, time::Duration};

use gateway::{
    ConnectionId, FaultTable, FeedServerNetworks, Submission,
    fake::{FakeDatagram, FakeStream},
};
use journal::CrashStorage;
use ring::Agent;
use venue::{
    config::{Bytes, Config},
    operator::DeskEnds,
    pipeline::{self, Edges, Gauges, Networks},
    stage::Perturbations,
};
use wire::soupbintcp::{Client, LoginRequest, Timers};

use super::script::Script;

/// 2026-01-02 09:30 UTC.
pub const START_NS: u64 = 1_767_346_200_000_000_000;

const JOURNAL_ID: u64 = 1;

/// A venue with small tables, on a disk and networks in memory.
pub struct Small {
    pub config: Config,
    disk: CrashStorage,
    agents: Vec<Box<dyn Agent>>,
    pub desk: DeskEnds,
    pub faults: FaultTable,

    pub gauges: Gauges,
    pub order_entry: FakeStream,
    pub order_entry_fix: FakeStream,
    order_entry_udp: FakeDatagram,
    pub order_entry_sluice: FakeDatagram,
    market_data: FakeDatagram,
    pub re_request: FakeDatagram,
    pub snapshot: FakeStream,
    pub stream: FakeStream,
    pub market_data_fix: FakeStream,
    now_ns: u64,
}

impl Small {
    pub fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.rings.submissions = 64;
        config.rings.inputs = 64;
        config.rings.outputs = 64;
        config.order_entry.connections_max = 12;
        config.order_entry.reply_store = Bytes(1 << 20);
        config.order_entry_udp.reply_store = Bytes(1 << 20);
        config.market_data.store = Bytes(1 << 20);
        config.throttle.messages_burst = 60;
        config.throttle.no_effect_burst = 30;
        config.throttle.block.0 = Duration::from_secs(1);
        change(&mut config);
        let disk = CrashStorage::new();
        let mut networks = Networks::<FakeStream, FakeDatagram>::default();
        let order_entry_fix = FakeStream::new();
        networks.order_entry_fix =
            config.order_entry_fix.is_some().then(|| order_entry_fix.clone());
        let order_entry_sluice = FakeDatagram::new();
        networks.order_entry_sluice =
            config.order_entry_sluice.is_some().then(|| order_entry_sluice.clone());
        let market_data_fix = FakeStream::new();
        networks.market_data_fix =
            config.market_data_fix.is_some().then(|| market_data_fix.clone());
        let Networks { order_entry, order_entry_udp, market_data, feed_server, .. } = &networks;
        let FeedServerNetworks { requests, snapshot, stream } = feed_server;
        let (order_entry, market_data) = (order_entry.clone(), market_data.clone());
        let (order_entry_udp, re_request) = (order_entry_udp.clone(), requests.clone());
        let (snapshot, stream) = (snapshot.clone(), stream.clone());
        let edges = Edges {
            feed_destination: SocketAddr::from(([127, 0, 0, 1], 50_000)),
            operator_events: |_| None,
            start_id: 1,
            perturbations: Perturbations::default(),
        };
        let (storage, files) = (Box::new(disk.clone()), Box::new(disk.clone()));
        let venue =
            pipeline::assemble(&config, networks, &edges, storage, files, JOURNAL_ID, START_NS);
        let venue = venue.unwrap_or_else(|failure| panic!("{failure}"));
        Self {
            agents: venue
                .agents
                .into_values()
                .chain(venue.follower)
                .chain([venue.feed_history])
                .collect(),
            config,
            disk,
            desk: venue.desk,
            faults: venue.faults,
            gauges: venue.gauges,
            order_entry,
            order_entry_fix,
            order_entry_udp,
            order_entry_sluice,
            market_data,
            re_request,
            snapshot,
            stream,
            market_data_fix,
            now_ns: START_NS,
        }
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The session of the feed.
    pub fn session() -> [u8; 10] {
        pipeline::stream_session(JOURNAL_ID)
    }

    /// A command beside the gateways.
    pub fn submit(&mut self, submission: Submission) {
        assert!(self.desk.commands.try_publish(submission).is_ok(), "the ring has room");
    }

    /// Time passes, and each agent has a turn.
    pub fn turn(&mut self, step_ns: u64) {
        self.now_ns += step_ns;
        for agent in &mut self.agents {
            let done = agent.do_work(self.now_ns);
            done.unwrap_or_else(|error| panic!("{}: {error}", agent.name()));
        }
        for datagrams in [&self.market_data, &self.re_request, &self.order_entry_udp] {
            while datagrams.take().is_some() {}
        }
    }

    /// The disk, once all is written.
    pub fn stop(mut self) -> CrashStorage {
        for _ in 0..20 {
            self.turn(100_000_000);
        }
        self.disk.clone()
    }

    pub fn check_bounds(&self) {
        let connections_max = self.config.order_entry.connections_max as u64;
        let more = self.gauges.order_entry_fix.iter().chain(&self.gauges.order_entry_sluice);
        for entry in more.chain([&self.gauges.order_entry]).map(|counters| counters.read()) {
            assert!(entry.connections <= connections_max, "{entry:?}");
            let held_max = gateway::CONNECTION_BYTES_MAX as u64 * connections_max;
            assert!(entry.connection_bytes <= held_max, "{entry:?}");
            // Beside the bytes, 160 KiB of the newest replies of each user.
            assert!(entry.store_bytes <= (1 << 20) + 3 * (160 << 10), "{entry:?}");
        }
        let datagrams = self.gauges.order_entry_udp.read();
        assert!(datagrams.backlog <= gateway::BACKLOG_MAX as u64, "{datagrams:?}");
    }
}

/// The addresses of the senders: one machine of the participants, and strangers in this country and abroad.
const ADDRESSES: [([u8; 4], u16); 4] =
    [([127, 0, 0, 1], 40_000), ([127, 0, 0, 2], 9), ([10, 0, 0, 1], 26_501), ([8, 8, 8, 8], 53)];

pub fn address(script: &mut Script<'_>) -> SocketAddr {
    SocketAddr::from(ADDRESSES[script.below(ADDRESSES.len())])
}

/// Whatever arrives at its sockets, cut and timed at will, the venue works on within its bounds.
pub fn gateways(bytes: &[u8]) {
    let mut small = Small::new(|_| {});
    let udp = small.config.participants.iter().find_map(|it| it.udp).expect("one speaks UDP");
    let mut connections: Vec<ConnectionId> = Vec::new();
    let mut script = Script(bytes);
    while !script.is_over() {
        let kind = script.byte() % 12;
        let connection = match connections.len() {
            0 => None,
            len if kind < 7 => Some(connections[script.below(len.min(256))]),
            _ => None,
        };
        match (kind, connection) {
            (0, Some(id)) => small.order_entry.deliver(id, script.bytes()),
            (1, Some(id)) => small.order_entry.deliver(id, &packet(script.bytes())),
            (2, Some(id)) => small.order_entry.deliver(id, &login(&small.config, &mut script)),
            (3, Some(id)) => small.order_entry.finish(id),
            (4, Some(id)) => small.order_entry.cut(id),
            (5, Some(id)) => small.order_entry.set_room(id, 16 * usize::from(script.byte())),
            (6, Some(id)) => drop(small.order_entry.take(id, 64 * usize::from(script.byte()))),
            (7, _) => {
                let from = if script.byte() % 2 == 0 { udp } else { address(&mut script) };
                small.order_entry_udp.deliver(from, script.bytes());
            }
            (8, _) => {
                let len = 2_000 + usize::from(script.byte());
                small.order_entry_udp.deliver(udp, &vec![script.byte(); len]);
            }
            (9, _) => {
                let from = address(&mut script);
                small.re_request.deliver(from, script.bytes());
            }
            (10, _) => {
                // The same message again and again: a flood.
                let datagram = script.bytes();
                for _ in 0..script.byte() {
                    small.order_entry_udp.deliver(udp, datagram);
                    if let Some(id) = connections.last() {
                        small.order_entry.deliver(*id, &packet(datagram));
                    }
                }
            }
            (11, _) => small.turn(script.time_ns()),
            (_, None) => connections.push(small.order_entry.connect(address(&mut script))),
            _ => unreachable!("kinds below 7 have a connection"),
        }
        if connections.len() > 64 {
            connections.retain(|id| small.order_entry.is_open(*id));
        }
        small.turn(1_000);
        small.check_bounds();
    }
    small.turn(1_000_000_000);
    small.check_bounds();
}

/// An unsequenced message in its SoupBinTCP packet.
pub fn packet(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16 + 1).to_be_bytes()[..], b"U", message].concat()
}

/// The login of a participant, its password right in seven of eight.
pub fn login(config: &Config, script: &mut Script<'_>) -> Vec<u8> {
    let participant = &config.participants[script.below(config.participants.len())];
    let password = match (script.byte() % 8, &participant.password) {
        (1.., Some(password)) => password,
        _ => "guess",
    };
    let mut login = LoginRequest::new(&participant.username, password).expect("they fit");
    login.sequence_number = Some(u64::from(script.byte()));
    Client::new(Timers::default(), login, 0).outgoing().to_vec()
}
