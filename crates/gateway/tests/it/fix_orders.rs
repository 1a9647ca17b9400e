//! Orders by FIX through the agent, over a network in memory.

use std::collections::BTreeSet;

use gateway::{
    ConnectionId, Credentials, FixSession, OrderEntry, OrderEntryLimits, OrderEntryOptions,
    Throttle, fake::FakeStream,
};
use market::Timestamp;
use ring::Agent as _;
use wire::fix::{Builder, CompId, FixService, FixTimers, Version};

use crate::harness::{SECOND, START, Venue, entered};

/// The most orders that a session has in one turn: its steps.
const STEPS_MAX: usize = 16;
/// The most orders in one turn while another session trades.
const STEPS_SHARED_MAX: usize = 4;

/// A venue, an agent of FIX sessions, and clients that have logged on.
struct FixHarness {
    agent: OrderEntry<FakeStream, FixSession>,
    network: FakeStream,
    venue: Venue,
    clients: Vec<FixClient>,
}

struct FixClient {
    name: String,
    connection: ConnectionId,
    /// The MsgSeqNum of its next message.
    next: u64,
}

impl FixHarness {
    fn new(users: usize) -> Self {
        let (mut venue, ends) = Venue::new(1 << 14);
        let names: Vec<_> = (1..=users).map(|number| format!("USER{number:02}")).collect();
        let options = OrderEntryOptions {
            protocol: FixTimers {
                venue: CompId::new("VENUE").unwrap(),
                login_timeout_ns: 5 * SECOND,
                service: FixService::Orders,
                schedule: None,
            },
            users: names.iter().map(|it| Credentials::new(it, "PASSWORD01").unwrap()).collect(),
            limits: OrderEntryLimits { store_bytes_max: 1 << 20, ..OrderEntryLimits::default() },
            throttle: Throttle::default(),
        };
        let network = FakeStream::new();
        let mut agent =
            OrderEntry::new(network.clone(), options, ends.submissions, ends.outputs, ends.durable);
        for name in &names {
            venue.add_session(name);
        }
        while agent.do_work(START).unwrap() > 0 {}
        let mut harness = Self { agent, network, venue, clients: Vec::new() };
        for name in names {
            let connection = harness.network.connect("10.0.0.1:5000".parse().unwrap());
            harness.clients.push(FixClient { name, connection, next: 1 });
            let logon = harness.clients.last_mut().unwrap().message("A", |builder| {
                builder.number(98, 0).number(108, 0).text(554, "PASSWORD01");
            });
            harness.network.deliver(connection, &logon);
            harness.turn();
            let answer = String::from_utf8(harness.network.take(connection, 4096)).unwrap();
            assert!(answer.contains("\x0135=A\x01"), "{answer:?}");
        }
        harness
    }

    /// Runs the gateway and the venue until no work is left.
    fn turn(&mut self) {
        while self.agent.do_work(START).unwrap() + self.venue.answer() > 0 {}
    }

    /// Runs one turn of the gateway; returns the users whose orders it took, by index, one entry for each order.
    fn owners_of_one_turn(&mut self) -> Vec<usize> {
        let before = self.venue.asked.len();
        self.agent.do_work(START).unwrap();
        self.venue.answer();
        let owner = |command: &market::Command| match command {
            market::Command::Enter(order) => Some(usize::from(order.key.session_id.0) - 1),
            _ => None,
        };
        self.venue.asked[before..].iter().filter_map(owner).collect()
    }

    /// Enters `count` orders as this client.
    fn enter(&mut self, client: usize, count: usize) {
        for _ in 0..count {
            let client = &mut self.clients[client];
            let id = format!("{}-{}", client.name, client.next);
            let order = client.message("D", |builder| {
                builder.text(11, &id).char(21, b'1').text(55, "AAPL").char(54, b'1');
                builder.time(60, Timestamp(START)).number(38, 100).char(40, b'2').number(44, 150);
            });
            self.network.deliver(client.connection, &order);
        }
    }
}

impl FixClient {
    fn message(&mut self, msg_type: &str, put: impl FnOnce(&mut Builder<'_>)) -> Vec<u8> {
        let mut buffer = [0; 512];
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, msg_type).number(34, self.next).text(49, &self.name);
        builder.time(52, Timestamp(START)).text(56, "VENUE");
        put(&mut builder);
        self.next += 1;
        builder.finish(Version::Fix44).to_vec()
    }
}

/// A session with many orders has 16 steps of a turn, and others have theirs in the same turn.
#[test]
fn a_flood_by_fix_does_not_keep_others_waiting() {
    let mut harness = FixHarness::new(2);
    harness.enter(0, 500);
    harness.enter(1, 1);
    let owners = harness.owners_of_one_turn();
    let place = owners.iter().position(|owner| *owner == 1);
    assert!(place.is_some_and(|place| place <= STEPS_MAX), "{place:?}");
    harness.turn();
    assert_eq!(entered(&harness.venue.asked).len(), 501, "all are taken in the end");
}

/// A session has a whole turn while it is alone, and a quarter of it from the answer to another session's order on.
#[test]
fn a_session_that_is_not_alone_has_a_short_turn() {
    let mut harness = FixHarness::new(2);
    harness.enter(0, 500);
    for turn in 0..3 {
        let taken = harness.owners_of_one_turn().len();
        assert!((STEPS_SHARED_MAX + 1..=STEPS_MAX).contains(&taken), "{taken} in turn {turn}");
    }
    harness.enter(1, 1);
    while !harness.owners_of_one_turn().contains(&1) {}
    for turn in 0..3 {
        let taken = harness.owners_of_one_turn().len();
        assert!((1..=STEPS_SHARED_MAX).contains(&taken), "{taken} in turn {turn}");
    }
}

/// Many sessions with many orders have at most 16 steps each and 256 in all; sessions that were not reached come first
/// in the next turn.
#[test]
fn floods_by_fix_share_a_turn() {
    const USERS: usize = 20;
    let mut harness = FixHarness::new(USERS);
    (0..USERS).for_each(|client| harness.enter(client, 500));
    let mut reached = BTreeSet::new();
    for turn in 0..3 {
        let owners = harness.owners_of_one_turn();
        // From the second turn on several sessions trade.
        let most = if turn == 0 { 256 } else { USERS * STEPS_SHARED_MAX };
        assert!((most / 2..=most).contains(&owners.len()), "{} in turn {turn}", owners.len());
        let mut of_user = [0; USERS];
        owners.iter().for_each(|owner| of_user[*owner] += 1);
        assert!(of_user.iter().all(|orders| *orders <= STEPS_MAX), "{of_user:?} in turn {turn}");
        reached.extend(owners);
    }
    assert_eq!(reached.len(), USERS);
}

/// While other agents of its thread have work under way, one turn in eight is for resends; else every turn.
#[test]
fn a_resend_lets_the_work_of_others_pass() {
    let mut harness = FixHarness::new(1);
    harness.enter(0, 1_000);
    let connection = harness.clients[0].connection;
    harness.turn();
    while !harness.network.take(connection, usize::MAX).is_empty() {
        harness.turn();
    }
    let request = harness.clients[0].message("2", |builder| {
        builder.number(7, 1).number(16, 0);
    });
    harness.network.deliver(connection, &request);
    // The request is taken in one turn, and answered once the log has it.
    for _ in 0..3 {
        harness.agent.do_work(START).unwrap();
        harness.venue.answer();
    }
    let first = harness.network.take(connection, usize::MAX);
    assert!(String::from_utf8(first).unwrap().contains("\x0143=Y\x01"), "it has begun");
    let mut turns_with_messages = |is_busy| {
        let turns = (0..16).filter(|_| {
            harness.agent.note_busy(is_busy);
            harness.agent.do_work(START).unwrap();
            !harness.network.take(connection, usize::MAX).is_empty()
        });
        turns.count()
    };
    assert_eq!((turns_with_messages(true), turns_with_messages(false)), (2, 16));
}
