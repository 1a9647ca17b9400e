//! A venue with participants and strangers: order entry over TCP and UDP, admission, throttles,
//! re-requests; and the receiver of the feed. Bytes say who sends what, and when.
//!
//! Invariant: a venue never fails, whatever comes, and its tables and buffers stay within their bounds.

use std::{cell::RefCell, collections::VecDeque, io, net::SocketAddr, rc::Rc, time::Duration};

use client::{
    participant::DatagramSocket,
    subscriber::{FeedBook, FeedReceiver},
};
use gateway::{
    ConnectionId, FeedServerNetworks, Submission,
    fake::{FakeDatagram, FakeStream},
};
use journal::CrashStorage;
use ring::{Agent, Producer};
use venue::{
    config::{Bytes, Config},
    pipeline::{self, Edges, Gauges, Networks},
    stage::Perturbations,
};
use wire::{
    moldudp64::ReceiverLimits,
    soupbintcp::{Client, LoginRequest, Timers},
};

use super::script::Script;

/// 2026-01-02 09:30 UTC.
const START_NS: u64 = 1_767_346_200_000_000_000;

/// A venue with small tables, on a disk and networks in memory.
pub struct Small {
    config: Config,
    disk: CrashStorage,
    agents: Vec<Box<dyn Agent>>,
    commands: Producer<Submission>,
    gauges: Gauges,
    order_entry: FakeStream,
    order_entry_udp: FakeDatagram,
    market_data: FakeDatagram,
    re_request: FakeDatagram,
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
        let networks = Networks {
            order_entry: FakeStream::new(),
            order_entry_fix: None,
            order_entry_udp: FakeDatagram::new(),
            market_data: FakeDatagram::new(),
            feed_server: FeedServerNetworks {
                requests: FakeDatagram::new(),
                snapshot: FakeStream::new(),
                stream: FakeStream::new(),
            },
        };
        let Networks { order_entry, order_entry_udp, market_data, feed_server, .. } = &networks;
        let ends = (
            order_entry.clone(),
            order_entry_udp.clone(),
            market_data.clone(),
            feed_server.requests.clone(),
        );
        let edges = Edges {
            feed_destination: SocketAddr::from(([127, 0, 0, 1], 50_000)),
            operator_events: |_| None,
            perturbations: Perturbations::default(),
        };
        let (storage, files) = (Box::new(disk.clone()), Box::new(disk.clone()));
        let venue = pipeline::assemble(&config, networks, &edges, storage, files, 1, START_NS);
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
            commands: venue.desk.commands,
            gauges: venue.gauges,
            order_entry: ends.0,
            order_entry_udp: ends.1,
            market_data: ends.2,
            re_request: ends.3,
            now_ns: START_NS,
        }
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// A command beside the gateways.
    pub fn submit(&mut self, submission: Submission) {
        assert!(self.commands.try_publish(submission).is_ok(), "the ring has room");
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

    fn check_bounds(&self) {
        let entry = self.gauges.order_entry.read();
        let connections_max = self.config.order_entry.connections_max as u64;
        assert!(entry.connections <= connections_max, "{entry:?}");
        let held_max = gateway::CONNECTION_BYTES_MAX as u64 * connections_max;
        assert!(entry.connection_bytes <= held_max, "{entry:?}");
        // Beside the bytes, 160 KiB of the newest replies of each user.
        assert!(entry.store_bytes <= (1 << 20) + 3 * (160 << 10), "{entry:?}");
        let datagrams = self.gauges.order_entry_udp.read();
        assert!(datagrams.backlog <= gateway::BACKLOG_MAX as u64, "{datagrams:?}");
    }
}

/// Who speaks: one machine of the participants, and strangers in this country and abroad.
const ADDRESSES: [([u8; 4], u16); 4] =
    [([127, 0, 0, 1], 40_000), ([127, 0, 0, 2], 9), ([10, 0, 0, 1], 26_501), ([8, 8, 8, 8], 53)];

fn address(script: &mut Script<'_>) -> SocketAddr {
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

/// A message in its SoupBinTCP packet.
fn packet(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16 + 1).to_be_bytes()[..], b"U", message].concat()
}

/// The login of a participant, its password right in seven of eight.
fn login(config: &Config, script: &mut Script<'_>) -> Vec<u8> {
    let participant = &config.participants[script.below(config.participants.len())];
    let password = match (script.byte() % 8, &participant.password) {
        (1.., Some(password)) => password,
        _ => "guess",
    };
    let mut login = LoginRequest::new(&participant.username, password).expect("they fit");
    login.sequence_number = Some(u64::from(script.byte()));
    Client::new(Timers::default(), login, 0).outgoing().to_vec()
}

/// Datagrams on their way, one end of a socket.
#[derive(Clone, Default)]
struct Socket(Rc<RefCell<VecDeque<Vec<u8>>>>);

impl DatagramSocket for Socket {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        assert_eq!(datagram.len(), 20, "a receiver sends requests only");
        Ok(())
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let datagram = self.0.borrow_mut().pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        let len = datagram.len().min(buffer.len());
        buffer[..len].copy_from_slice(&datagram[..len]);
        Ok(len)
    }
}

/// Whatever comes as the feed, its receiver keeps no more than its limits, hands on messages in
/// order, and the book that takes them is sound or says what is wrong.
pub fn feed_receiver(bytes: &[u8]) {
    let limits =
        ReceiverLimits { pending_messages_max: 8, pending_bytes_max: 512, ..Default::default() };
    let (feed, requests) = (Socket::default(), Socket::default());
    let mut receiver = FeedReceiver::over(feed.clone(), Some(requests.clone()), 1, limits);
    let mut book = FeedBook::new();
    let (mut next, mut now_ns) = (1, START_NS);
    let mut script = Script(bytes);
    while !script.is_over() {
        let kind = script.byte();
        let socket = if kind % 2 == 0 { &feed } else { &requests };
        socket.0.borrow_mut().push_back(script.bytes().to_vec());
        if kind % 8 > 1 {
            now_ns += script.time_ns();
        }
        let polled = receiver.poll(now_ns, &mut |number, message| {
            assert_eq!(number, next);
            next += 1;
            let _ = book.apply(number, message);
        });
        assert!(receiver.report().messages.pending <= limits.pending_messages_max);
        assert!(receiver.stalled_ns(now_ns) <= now_ns);
        if polled.is_err() {
            return;
        }
    }
}
