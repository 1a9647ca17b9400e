//! A venue with a full disk, from its clients' view: over SoupBinTCP, UDP and FIX, on networks and a disk in memory.

use std::net::SocketAddr;

use client::participant;
use gateway::{
    ConnectionId, FeedServerNetworks,
    fake::{FakeDatagram, FakeStream},
};
use journal::CrashStorage;
use market::{Price, Quantity, RejectReason, Side, Symbol, TimeInForce, Timestamp};
use ring::Agent;
use venue::{
    config::{Config, DurabilityConfig, OrderEntryFixConfig, ParticipantConfig, ProtocolName},
    pipeline::{self, Edges, Gauges, Networks},
    recovery,
    stage::{Perturbations, journal_status},
};
use wire::{
    fix::{Builder, Fields, Framed, Version, frame},
    moldudp64::{self, PacketKind},
    ouch::MessageBuffer,
    soupbintcp::{Client, ClientHappening, LoginRequest, Timers},
};

const S: u64 = 1_000_000_000;
/// 2026-01-02 09:30 UTC.
const START_NS: u64 = 1_767_346_200 * S;
const SEGMENT: u64 = 256 << 10;

struct Venue {
    agents: Vec<Box<dyn Agent>>,
    gauges: Gauges,
    disk: CrashStorage,
    order_entry: FakeStream,
    fix: FakeStream,
    udp: FakeDatagram,
    snapshot: FakeStream,
    now_ns: u64,
}

impl Venue {
    fn new(durability: DurabilityConfig) -> Self {
        let mut config = Config::default();
        config.journal.durability = durability;
        config.journal.segment.0 = SEGMENT;
        config.rings.submissions = 64;
        config.rings.inputs = 64;
        config.order_entry_fix = Some(OrderEntryFixConfig::default());
        config.participants.push(ParticipantConfig {
            username: "ALICE".into(),
            password: Some("alice".into()),
            protocol: ProtocolName::Fix,
            ..config.participants[0].clone()
        });
        let [order_entry, fix, snapshot] = [(); 3].map(|()| FakeStream::new());
        let [udp, market_data] = [(); 2].map(|()| FakeDatagram::new());
        let networks = Networks {
            order_entry: order_entry.clone(),
            order_entry_fix: Some(fix.clone()),
            order_entry_udp: udp.clone(),
            market_data,
            feed_server: FeedServerNetworks {
                snapshot: snapshot.clone(),
                ..FeedServerNetworks::default()
            },
            ..Networks::default()
        };
        let edges = Edges {
            feed_destination: SocketAddr::from(([127, 0, 0, 1], 50_000)),
            operator_events: |_| None,
            start_id: 1,
            perturbations: Perturbations::default(),
        };
        let disk = CrashStorage::new();
        let (storage, files) = (Box::new(disk.clone()), Box::new(disk.clone()));
        let venue = pipeline::assemble(&config, networks, &edges, storage, files, 1, START_NS);
        let venue = venue.unwrap_or_else(|failure| panic!("{failure}"));
        let agents = venue.agents.into_values().chain(venue.follower).chain([venue.feed_history]);
        let agents = agents.collect();
        let gauges = venue.gauges;
        let now_ns = START_NS;
        Self { agents, gauges, disk, order_entry, fix, udp, snapshot, now_ns }
    }

    fn turns(&mut self, count: usize) {
        for _ in 0..count {
            self.now_ns += 1_000_000;
            for agent in &mut self.agents {
                agent.do_work(self.now_ns).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }

    /// Fills the disk: it takes no further bytes.
    fn fill_disk(&self) {
        let len = |name: &String| self.disk.bytes(name).map_or(0, |bytes| bytes.len());
        self.disk.set_capacity(Some(self.disk.names().iter().map(len).sum::<usize>() as u64));
    }

    /// Makes room again, and gives the venue time to notice.
    fn make_room(&mut self) {
        self.disk.set_capacity(None);
        self.now_ns += 2 * S;
        self.turns(20);
    }

    fn refuses(&self) -> Option<RejectReason> {
        self.gauges.journal.reason()
    }

    /// Messages of the feed so far.
    fn fed(&self) -> u64 {
        self.gauges.market_data.read().messages
    }

    /// Logs in a participant over SoupBinTCP; fails the test if it gets no answer.
    fn log_in(&mut self, number: u8) -> Soup {
        let (username, password) = (format!("user{number:02}"), format!("password{number:02}"));
        let login = LoginRequest::new(&username, &password).unwrap();
        let id = self.order_entry.connect("127.0.0.1:4000".parse().unwrap());
        let client = Client::new(Timers::default(), login, self.now_ns);
        let mut soup = Soup { id, client, is_in: false, replies: Vec::new() };
        soup.turn(self, 3);
        assert!(soup.is_in, "a login is answered");
        soup
    }
}

struct Soup {
    id: ConnectionId,
    client: Client,
    is_in: bool,
    replies: Vec<Vec<u8>>,
}

impl Soup {
    fn turn(&mut self, venue: &mut Venue, count: usize) {
        venue.order_entry.deliver(self.id, self.client.outgoing());
        self.client.sent(self.client.outgoing().len());
        venue.turns(count);
        loop {
            let bytes = venue.order_entry.take(self.id, 4096);
            if bytes.is_empty() {
                return;
            }
            self.client.receive(&bytes, venue.now_ns).unwrap();
            while let Some(happening) = self.client.next().unwrap() {
                match happening {
                    ClientHappening::Accepted { .. } => self.is_in = true,
                    ClientHappening::Sequenced(_, message) => self.replies.push(message.to_vec()),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Sends this message, and returns the types of the replies to it.
    fn ask(&mut self, venue: &mut Venue, message: &MessageBuffer) -> String {
        let before = self.replies.len();
        self.client.send(message, venue.now_ns);
        self.turn(venue, 3);
        self.replies[before..].iter().map(|message| message[0] as char).collect()
    }
}

/// A bid; bids alone never trade.
fn bid(number: u32) -> MessageBuffer {
    let (symbol, price) = (Symbol::new("AAPL").unwrap(), Some(Price(10_000)));
    participant::enter(number, Side::Buy, symbol, Quantity(100), price, TimeInForce::Day)
}

/// A client that speaks FIX 4.4.
struct Fix {
    id: ConnectionId,
    bytes: Vec<u8>,
    next: u64,
}

impl Fix {
    fn connect(venue: &Venue) -> Self {
        let id = venue.fix.connect("127.0.0.1:4001".parse().unwrap());
        Self { id, bytes: Vec::new(), next: 1 }
    }

    fn send(&mut self, venue: &Venue, msg_type: &str, fields: &str) {
        let (mut buffer, now) = ([0; 1024], Timestamp(venue.now_ns));
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, msg_type).number(34, self.next).text(49, "ALICE").time(52, now);
        builder.text(56, "DAMRAK").fields(fields.replace('|', "\x01").as_bytes());
        if msg_type == "D" {
            builder.time(60, now);
        }
        venue.fix.deliver(self.id, builder.finish(Version::Fix44));
        self.next += 1;
    }

    /// The values of these tags in the next message; empty for missing ones.
    fn read(&mut self, venue: &Venue, tags: &[u32]) -> Vec<String> {
        self.bytes.extend(venue.fix.take(self.id, usize::MAX));
        let Framed::Whole(len) = frame(&self.bytes) else { return Vec::new() };
        let bytes: Vec<u8> = self.bytes.drain(..len).collect();
        let mut fields = Fields::default();
        let message = fields.read(&bytes);
        let value =
            |tag: &u32| String::from_utf8_lossy(message.get(*tag).unwrap_or_default()).into();
        tags.iter().map(value).collect()
    }

    fn log_on(&mut self, venue: &Venue) {
        self.send(venue, "A", "98=0|108=30|553=ALICE|554=alice|");
    }

    fn order(&mut self, venue: &Venue, id: &str) {
        self.send(venue, "D", &format!("11={id}|21=1|55=AAPL|54=1|38=100|40=2|44=1|"));
    }
}

/// Sends bids until the venue refuses them; returns the number of the next.
fn bid_until_full(venue: &mut Venue, one: &mut Soup) -> u32 {
    venue.fill_disk();
    let mut number = 0;
    while venue.refuses().is_none() {
        number += 1;
        assert_eq!(one.ask(venue, &bid(number)), "A", "{number}");
    }
    assert_eq!(venue.refuses(), Some(RejectReason::NoRoom));
    number + 1
}

/// On a full disk new orders are rejected with the reason, over each protocol. Clients stay connected, new ones may log
/// in, cancels are taken, market data and snapshots continue. With room, orders are accepted again without an
/// intervention.
#[test]
fn a_full_disk_refuses_orders_and_nothing_else() {
    for durability in [DurabilityConfig::Written, DurabilityConfig::Synced] {
        let mut venue = Venue::new(durability);
        let mut one = venue.log_in(1);
        let next = bid_until_full(&mut venue, &mut one);
        let status = journal_status(&venue.gauges.journal);
        assert_eq!((&status["refusing"], &status["holding"]), (&"NoRoom".into(), &false.into()));

        assert_eq!(one.ask(&mut venue, &bid(next)), "J");
        let rejected = one.replies.last().unwrap();
        assert_eq!(rejected[13..15], 0x000A_u16.to_be_bytes(), "{rejected:?}");
        let fed = venue.fed();
        assert_eq!(one.ask(&mut venue, &participant::cancel(1, Quantity::ZERO)), "C");
        assert!(venue.fed() > fed, "the cancel is on the feed");

        let mut two = venue.log_in(2);
        assert_eq!(two.ask(&mut venue, &bid(1)), "J");

        while venue.udp.take().is_some() {}
        let address = "127.0.0.1:26404".parse().unwrap();
        venue.udp.deliver(address, &bid(1));
        venue.turns(3);
        let mut answers = std::iter::from_fn(|| venue.udp.take()).flat_map(|(to, packet)| {
            assert_eq!(to, address);
            let PacketKind::Data(blocks) = moldudp64::parse(&packet).unwrap().kind else {
                return Vec::new();
            };
            blocks.into_iter().map(|message| message[0]).collect()
        });
        assert!(answers.any(|kind| kind == b'J'));

        let mut fix = Fix::connect(&venue);
        fix.log_on(&venue);
        venue.turns(3);
        assert_eq!(fix.read(&venue, &[35]), ["A"]);
        fix.order(&venue, "ONE");
        venue.turns(3);
        let report = fix.read(&venue, &[35, 150, 11, 58]);
        assert_eq!(report, ["8", "8", "ONE", "no room in the journal"]);

        let snapshot = venue.snapshot.connect("127.0.0.1:4002".parse().unwrap());
        let login = LoginRequest::new("user03", "password03").unwrap();
        let client = Client::new(Timers::default(), login, venue.now_ns);
        venue.snapshot.deliver(snapshot, client.outgoing());
        venue.now_ns += S / 10;
        venue.turns(20);
        assert!(venue.snapshot.take(snapshot, usize::MAX).len() > 1_000, "the books are sent");

        venue.make_room();
        assert_eq!(venue.refuses(), None);
        assert_eq!(one.ask(&mut venue, &bid(next + 1)), "A");
        assert_eq!(two.ask(&mut venue, &bid(2)), "A");
        fix.order(&venue, "TWO");
        venue.turns(3);
        assert_eq!(fix.read(&venue, &[35, 150, 11]), ["8", "0", "TWO"]);
        check_replay(&mut venue);
    }
}

/// Before a full disk has no room left, commands wait, and no session ends: logins are answered, the feed has its
/// heartbeats, and with room every waiting command is answered in its order.
#[test]
fn a_disk_that_stays_full_holds_commands_back() {
    const ORDERS: u32 = 5_000;
    for durability in [DurabilityConfig::Written, DurabilityConfig::Synced] {
        let mut venue = Venue::new(durability);
        let mut one = venue.log_in(1);
        let next = bid_until_full(&mut venue, &mut one);
        let before = one.replies.len();
        for number in next..next + ORDERS {
            one.client.send(&bid(number), venue.now_ns);
        }
        one.turn(&mut venue, 300);
        assert!(venue.gauges.journal.holds());
        let answered = one.replies.len() - before;
        assert!(answered < ORDERS as usize, "{answered}");

        let (durable, packets) = (venue.gauges.durable(), venue.gauges.market_data.read().packets);
        let two = venue.log_in(2);
        let mut fix = Fix::connect(&venue);
        fix.log_on(&venue);
        venue.now_ns += 2 * S;
        venue.turns(20);
        assert_eq!(venue.gauges.durable(), durable, "nothing is taken");
        assert!(venue.gauges.market_data.read().packets > packets, "the feed lives");
        assert!(fix.read(&venue, &[35]).is_empty(), "a logon by FIX needs the journal");

        venue.make_room();
        for _ in 0..30 {
            one.turn(&mut venue, 10);
        }
        assert_eq!(one.replies.len() - before, ORDERS as usize, "{:?}", venue.refuses());
        let numbers = one.replies[before..].iter().map(|it| match it[0] {
            kind @ (b'A' | b'J') => (kind, u32::from_be_bytes(it[9..13].try_into().unwrap())),
            other => panic!("{}", other as char),
        });
        let numbers: Vec<(u8, u32)> = numbers.collect();
        assert!(numbers.iter().map(|it| it.1).eq(next..next + ORDERS), "in their order");
        assert!(numbers.is_sorted_by_key(|it| it.0 == b'A'), "taken again once, to the end");
        assert_eq!(fix.read(&venue, &[35]), ["A"]);
        assert!(venue.order_entry.is_open(one.id) && venue.order_entry.is_open(two.id));
        assert_eq!(venue.refuses(), None);
        check_replay(&mut venue);
    }
}

/// Checks that every acknowledged command is in the journal.
fn check_replay(venue: &mut Venue) {
    venue.turns(20);
    let replay = recovery::replay(&mut venue.disk.clone(), &mut |_, _, _| {}, &mut |_| {}).unwrap();
    assert!(replay.state.engine.sequence().0 >= venue.gauges.durable().0);
}
