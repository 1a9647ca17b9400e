//! The feed and its server: numbers, heartbeats, re-requests, snapshots and the feed over TCP.

use std::net::SocketAddr;

use gateway::{
    Credentials, FeedMessage, FeedServer, FeedServerCount, FeedServerNetworks, FeedServerOptions,
    MarketData, MarketDataCount, MarketDataOptions, PasswordChecker, PastAnswer, PastEnds,
    PastRange, RequestLimits,
    fake::{FakeDatagram, FakeStream},
    past_rings,
};
use market::{
    Event, Fill, InstrumentId, OrderId, OrderKey, Price, Quantity, SessionId, Side, SystemEvent,
    TradeId, Traded,
};
use ring::{Agent, Builder, Flow};
use wire::{
    glimpse::EndOfSnapshot,
    itch,
    moldudp64::{PacketKind, Receiver, ReceiverLimits, Request, parse},
    soupbintcp::{LoginRejectReason, LoginRequest, Timers},
};

use crate::harness::{
    Ends, SECOND, SESSION, START, Seen, TestClient, Venue, order, replies, users,
};

struct FeedBench {
    agent: MarketData<FakeDatagram>,
    server: FeedServer<FakeStream, FakeDatagram>,
    feed: FakeDatagram,
    requests: FakeDatagram,
    snapshot: FakeStream,
    stream: FakeStream,
    past: PastEnds,
    venue: Venue,
    now_ns: u64,
}

fn group() -> SocketAddr {
    SocketAddr::from(([239, 10, 10, 10], 26477))
}

impl FeedBench {
    fn new() -> Self {
        Self::over(Venue::new(16), 64 << 20)
    }

    fn over(venue: (Venue, Ends), store_bytes_max: usize) -> Self {
        Self::of_users(users(), venue, store_bytes_max)
    }

    fn of_users(
        users: Vec<Credentials>,
        (venue, ends): (Venue, Ends),
        store_bytes_max: usize,
    ) -> Self {
        let (feed, requests) = (FakeDatagram::new(), FakeDatagram::new());
        let (snapshot, stream) = (FakeStream::new(), FakeStream::new());
        let mut ring = Builder::new("feed", 1 << 14);
        let taken = ring.gating("feed server");
        let (to_server, _) = ring.build();
        let agent = MarketData::new(
            feed.clone(),
            MarketDataOptions { session: SESSION, group: group() },
            ends.outputs,
            ends.durable,
            to_server,
        );
        let networks = FeedServerNetworks {
            requests: requests.clone(),
            snapshot: snapshot.clone(),
            stream: stream.clone(),
        };
        let options = FeedServerOptions {
            session: SESSION,
            users,
            timers: Timers::default(),
            slow_client_timeout_ns: 10 * SECOND,
            store_bytes_max,
            requests: RequestLimits::default(),
            streams: Vec::new(),
        };
        let (ends, past) = past_rings();
        let server = FeedServer::new(networks, options, taken, ends);
        Self { agent, server, feed, requests, snapshot, stream, past, venue, now_ns: START }
    }

    fn turn(&mut self) {
        while self.agent.do_work(self.now_ns).unwrap() + self.server.do_work(self.now_ns).unwrap()
            > 0
        {}
    }

    fn packets(&mut self) -> Vec<Vec<u8>> {
        let packet = |(to, packet)| {
            assert_eq!(to, group());
            packet
        };
        std::iter::from_fn(|| self.feed.take()).map(packet).collect()
    }

    fn ask(&mut self, session: [u8; 10], sequence_number: u64, count: u16) -> Vec<Vec<u8>> {
        let asker = SocketAddr::from(([10, 0, 0, 9], 9));
        let request = Request { session, sequence_number, count };
        self.requests.deliver(asker, &request.encode());
        self.turn();
        let packet = |(to, packet)| {
            assert_eq!(to, asker);
            packet
        };
        std::iter::from_fn(|| self.requests.take()).map(packet).collect()
    }

    fn count(&self) -> MarketDataCount {
        self.agent.counters().read()
    }

    fn served(&self) -> FeedServerCount {
        self.server.counters().read()
    }

    /// Logs in for a snapshot, or for the feed from a number on, and takes the messages that come.
    fn join(&mut self, network: &FakeStream, number: u64) -> TestClient {
        let mut login = LoginRequest::new("USER01", "PASSWORD01").unwrap();
        login.sequence_number = Some(number);
        self.join_as(network, login)
    }

    fn join_as(&mut self, network: &FakeStream, login: LoginRequest) -> TestClient {
        let connection = network.connect("10.0.0.1:5000".parse().unwrap());
        let mut client = TestClient::new(connection, login, self.now_ns);
        client.write(network);
        self.hear(network, &mut client);
        client
    }

    /// Runs the server, and the client takes all bytes sent to it.
    fn hear(&mut self, network: &FakeStream, client: &mut TestClient) {
        for _ in 0..1000 {
            self.turn();
            if network.waiting(client.connection) == 0 {
                return;
            }
            client.read(network, self.now_ns);
        }
        panic!("the server never stops");
    }

    /// All messages of the feed, requested packet by packet.
    fn all(&mut self) -> Vec<(u64, Vec<u8>)> {
        let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
        loop {
            let packets = self.ask(SESSION, all.len() as u64 + 1, u16::MAX);
            if packets.is_empty() {
                return all;
            }
            all.extend(messages(&packets));
        }
    }
}

fn messages(packets: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    for packet in packets {
        let packet = parse(packet).unwrap();
        if let PacketKind::Data(blocks) = packet.kind {
            let numbers = packet.sequence_number..;
            all.extend(numbers.zip(blocks).map(|(number, message)| (number, message.to_vec())));
        }
    }
    all
}

/// Public events go out numbered, in the order in which they happened.
#[test]
fn the_feed_is_numbered_and_in_order() {
    let mut harness = FeedBench::new();
    harness.venue.put_out(&[Event::System(SystemEvent::StartOfMarketHours)]);
    harness.venue.add_session("USER01");
    harness.venue.accept(&order(SessionId(1), 1));
    harness.turn();
    let messages = messages(&harness.packets());
    assert!(messages.iter().map(|(number, _)| *number).eq(1..=4));
    let types: Vec<u8> = messages.iter().map(|(_, message)| message[0]).collect();
    assert_eq!(types, *b"RHSA", "the session is nobody else's business");
    for (_, message) in &messages {
        assert!(itch::decode(message).is_ok());
    }
}

/// One turn's messages share packets, and no packet is longer than 1,400 bytes; none waits for later messages.
#[test]
fn packets_are_filled_and_never_wait() {
    let mut harness = FeedBench::new();
    harness.turn();
    let _ = harness.packets();
    for number in 1..=100 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.agent.do_work(harness.now_ns).unwrap();
    let packets = harness.packets();
    assert_eq!(messages(&packets).len(), 100);
    assert!(packets.iter().all(|packet| packet.len() <= 1400));
    assert_eq!(packets.len(), 3, "36 bytes and 2 each");
    harness.venue.accept(&order(SessionId(1), 101));
    harness.agent.do_work(harness.now_ns).unwrap();
    assert_eq!(messages(&harness.packets()).len(), 1);
}

/// A heartbeat with the next number goes out each second in which nothing else did.
#[test]
fn heartbeats_fill_silent_seconds() {
    let mut harness = FeedBench::new();
    harness.turn();
    let _ = harness.packets();
    for tenth in 1..=25 {
        harness.now_ns += SECOND / 10;
        harness.turn();
        let packets = harness.packets();
        assert_eq!(packets.len(), usize::from(tenth % 10 == 0), "after {tenth} tenths");
        for packet in packets {
            let packet = parse(&packet).unwrap();
            assert_eq!((packet.kind, packet.sequence_number), (PacketKind::Heartbeat, 3));
        }
    }
    harness.venue.accept(&order(SessionId(1), 1));
    harness.turn();
    harness.now_ns += SECOND * 9 / 10;
    harness.turn();
    assert_eq!(harness.count().heartbeats, 2, "the message of half a second ago was sign enough");
}

/// Nothing is published before its cause is durable.
#[test]
fn the_feed_waits_for_the_durable_cursor() {
    let mut harness = FeedBench::new();
    harness.turn();
    let _ = harness.packets();
    harness.venue.holds = true;
    for number in 1..=5 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    assert_eq!(harness.packets().len(), 0);
    harness.venue.durable.set(harness.venue.durable.get() + 2);
    harness.turn();
    assert_eq!(messages(&harness.packets()).len(), 2);
    harness.venue.release();
    harness.turn();
    assert_eq!(messages(&harness.packets()).len(), 3);
}

/// A request is answered to its sender, with whole messages, the same bytes, at most one packet; a request for
/// messages that do not exist is not answered.
#[test]
fn requests_are_answered_with_one_packet() {
    let mut harness = FeedBench::new();
    for number in 1..=200 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let all = messages(&harness.packets());
    assert_eq!(all.len(), 202);
    assert_eq!(messages(&harness.ask(SESSION, 1, 1)), all[..1]);
    assert_eq!(messages(&harness.ask(SESSION, 100, 5)), all[99..104]);
    let full = harness.ask(SESSION, 3, u16::MAX);
    assert_eq!(full.len(), 1);
    assert_eq!(messages(&full), all[2..2 + 36]);
    assert_eq!(messages(&harness.ask(SESSION, 202, 7)), all[201..]);
    assert_eq!(harness.served().requests_answered, 4);
    for (session, first, count) in [
        (*b"0000000041", 1, 1),
        (SESSION, 0, 5),
        (SESSION, 203, 1),
        (SESSION, u64::MAX, 1),
        (SESSION, 1, 0),
    ] {
        assert!(harness.ask(session, first, count).is_empty());
    }
    harness.requests.deliver(group(), b"not a request");
    harness.turn();
    assert_eq!((harness.served().requests, harness.served().requests_unanswered), (10, 6));
    assert_eq!(harness.requests.take(), None);
}

/// Many requests at once are answered up to a bound in each turn; the feed goes on.
#[test]
fn answers_are_bounded_in_a_turn() {
    let mut harness = FeedBench::new();
    harness.turn();
    let request = Request { session: SESSION, sequence_number: 1, count: 1 }.encode();
    for _ in 0..1000 {
        harness.requests.deliver(SocketAddr::from(([10, 0, 0, 9], 9)), &request);
    }
    harness.venue.accept(&order(SessionId(1), 1));
    // Subscribers are served at most 100 µs later, even while messages come in.
    harness.now_ns += 100_000;
    harness.agent.do_work(harness.now_ns).unwrap();
    harness.server.do_work(harness.now_ns).unwrap();
    assert_eq!(harness.served().requests_answered, 64);
    assert_eq!(messages(&harness.packets()).len(), 3);
}

/// Memory for messages is limited: older messages are not resent, newer ones are.
#[test]
fn what_was_dropped_is_not_answered() {
    let mut harness = FeedBench::over(Venue::new(16), 1 << 20);
    for number in 1..=60_000 {
        harness.venue.accept(&order(SessionId(1), number));
        if number % 1000 == 0 {
            harness.turn();
            let _ = harness.packets();
        }
    }
    assert!(harness.served().store_bytes <= 1 << 20);
    assert!(harness.ask(SESSION, 1, 10).is_empty());
    assert_eq!(messages(&harness.ask(SESSION, 60_002, 1)).len(), 1);
}

/// A full network delays the feed, and holds the exchange back before a message could be lost.
#[test]
fn a_full_network_delays_the_feed() {
    let mut harness = FeedBench::new();
    harness.feed.set_room(0);
    for number in 1..=7_000 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let taken = harness.count().outputs;
    assert!(taken < 12_000, "{taken} of 14,001 outputs were taken");
    assert!(harness.count().stalls > 0);
    harness.feed.set_room(usize::MAX);
    harness.turn();
    assert!(messages(&harness.packets()).iter().map(|(number, _)| *number).eq(1..=7_002));
}

/// Both lines have every message under its number, and heartbeats. A line that stands still delays no message of the
/// other, and then sends all the messages it still has to send.
#[test]
fn two_lines_have_the_same_messages() {
    let mut harness = FeedBench::new();
    let (line_b, to_b) = (FakeDatagram::new(), SocketAddr::from(([239, 10, 10, 12], 26478)));
    harness.agent.add_line(line_b.clone(), to_b);
    let packets_b = || -> Vec<Vec<u8>> {
        let packet = |(to, packet)| {
            assert_eq!(to, to_b);
            packet
        };
        std::iter::from_fn(|| line_b.take()).map(packet).collect()
    };
    harness.turn();
    assert_eq!((harness.packets().len(), packets_b().len()), (1, 1), "the directory on each");
    line_b.set_room(0);
    harness.venue.add_session("USER01");
    for number in 1..=100 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let of_a = messages(&harness.packets());
    assert_eq!((of_a.len(), packets_b().len()), (100, 0));
    assert!(harness.count().stalls > 0);
    line_b.set_room(usize::MAX);
    harness.turn();
    assert_eq!(messages(&packets_b()), of_a);
    assert_eq!(harness.packets(), Vec::<Vec<u8>>::new(), "line A repeats nothing");
    harness.now_ns += SECOND;
    harness.turn();
    assert_eq!((harness.packets().len(), packets_b().len()), (1, 1), "a heartbeat on each");
}

/// A subscriber on a network that loses every third packet requests the missing messages and gets the whole feed, in
/// order.
#[test]
fn a_subscriber_fills_its_gaps() {
    let mut harness = FeedBench::new();
    let mut receiver = Receiver::new(1, ReceiverLimits::default());
    let mut delivered = Vec::new();
    let mut sent = 0;
    for number in 1..=3_000 {
        if number <= 1_000 {
            harness.venue.accept(&order(SessionId(1), number));
        }
        harness.now_ns += SECOND / 100;
        harness.turn();
        let mut arrived = harness.packets();
        arrived.retain(|_| {
            sent += 1;
            sent % 3 != 0
        });
        if let Some(request) = receiver.next_request(harness.now_ns) {
            arrived.extend(harness.ask(request.session, request.sequence_number, request.count));
        }
        for packet in arrived {
            receiver
                .receive(&packet, harness.now_ns, &mut |number, _| delivered.push(number))
                .unwrap();
        }
    }
    assert!(delivered.iter().copied().eq(1..=1_002), "{} delivered", delivered.len());
    assert!(receiver.statistics().gaps > 100);
}

/// After a restart the numbers continue, and messages sent before can be requested.
#[test]
fn the_feed_survives_a_restart() {
    let mut harness = FeedBench::new();
    for number in 1..=10 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let all = messages(&harness.packets());
    let mut after = FeedBench::over(Venue::empty(16), 64 << 20);
    for output in &harness.venue.log {
        after.agent.replay(&(*output).into(), &mut |number, message| {
            after.server.replay(number, message, START)
        });
    }
    after.server.begin(START, |each| all.iter().for_each(|(_, message)| each(message)));
    after.turn();
    let packets = after.packets();
    let [packet] = &packets[..] else { panic!("one heartbeat: {packets:?}") };
    assert_eq!(parse(packet).unwrap().sequence_number, 13);
    assert_eq!(messages(&after.ask(SESSION, 1, 12)), all);
    after.venue.accept(&order(SessionId(1), 11));
    after.turn();
    assert_eq!(messages(&after.packets())[0].0, 13);
}

/// A forged address of the internet gets no answer, and one address gets no more than its rate.
#[test]
fn requests_are_answered_within_bounds() {
    let mut harness = FeedBench::new();
    harness.turn();
    let request = Request { session: SESSION, sequence_number: 1, count: 1 }.encode();
    harness.requests.deliver(SocketAddr::from(([8, 8, 8, 8], 53)), &request);
    harness.turn();
    assert_eq!((harness.served().requests_refused, harness.requests.take()), (1, None));
    for _ in 0..200 {
        for _ in 0..64 {
            harness.requests.deliver(SocketAddr::from(([10, 0, 0, 9], 9)), &request);
        }
        harness.turn();
    }
    assert_eq!(harness.served().requests_answered, 10_000);
    assert_eq!(harness.served().requests_refused, 1 + 2_800);
}

fn executed(order_id: OrderId, quantity: u64) -> Event {
    let fill = |session| Fill {
        key: OrderKey { session_id: SessionId(session), channel: 0, user_ref_num: 1 },
        order_id,
        leaves: Quantity::ZERO,
    };
    Event::Traded(Traded {
        trade_id: TradeId(1),
        instrument_id: InstrumentId(1),
        taker_side: Side::Sell,
        price: Price(1_500_000),
        quantity: Quantity(quantity),
        maker_shown: Quantity(1_000),
        maker: fill(1),
        taker: fill(2),
        auction: None,
    })
}

/// A snapshot has the directory, the states and the displayed orders with their remaining quantities, and ends with
/// the number of the first message to apply. A login gets a fresh one, and then the end.
#[test]
fn a_snapshot_ends_with_the_next_number() {
    let mut harness = FeedBench::new();
    for number in 1..=3 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let network = harness.snapshot.clone();
    let first = harness.join(&network, 1);
    let all = harness.all();
    assert_eq!(all.len(), 5);
    let snapshot = |client: &TestClient| -> Vec<Vec<u8>> {
        replies(&client.seen).into_iter().map(|(_, message)| message).collect()
    };
    let said = snapshot(&first);
    assert!(said[..5].iter().eq(all.iter().map(|(_, message)| message)), "nothing happened since");
    assert_eq!((said.len(), EndOfSnapshot::read(&said[5])), (6, Some(6)));
    assert_eq!(first.seen.last(), Some(&Seen::Ended));
    assert!(replies(&first.seen).iter().map(|(number, _)| *number).eq(1..=6));

    let itch::Message::AddOrder(resting) = itch::decode(&said[2]).unwrap() else { panic!() };
    let order_id = OrderId(resting.order_reference_number.get());
    harness.venue.put_out(&[executed(order_id, 40)]);
    let said = snapshot(&harness.join(&network, 1));
    assert_eq!((said.len(), EndOfSnapshot::read(&said[5])), (6, Some(7)));
    let itch::Message::AddOrder(resting) = itch::decode(&said[2]).unwrap() else { panic!() };
    assert_eq!(resting.shares.get(), 60);
    assert_eq!(harness.served().snapshots_complete, 2);
}

/// A subscriber in the middle of a snapshot gets the books as of its login, whatever happens meanwhile, and one that
/// stops reading is cut off while the feed goes on.
#[test]
fn a_slow_snapshot_is_cut_off_and_holds_nothing_up() {
    let mut harness = FeedBench::new();
    for number in 1..=4_000 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let network = harness.snapshot.clone();
    let connection = network.connect("10.0.0.1:5000".parse().unwrap());
    let login = LoginRequest::new("USER01", "PASSWORD01").unwrap();
    let mut client = TestClient::new(connection, login, harness.now_ns);
    client.write(&network);
    harness.turn();
    for number in 4_001..=6_000 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let count = harness.served();
    assert_eq!((count.messages, count.orders, count.snapshots_complete), (6_002, 6_000, 0));
    harness.hear(&network, &mut client);
    let said = replies(&client.seen);
    assert_eq!(said.len(), 2 + 4_000 + 1);
    assert_eq!(EndOfSnapshot::read(&said.last().unwrap().1), Some(4_003));

    let stalled = network.connect("10.0.0.1:5000".parse().unwrap());
    network.deliver(stalled, TestClient::new(stalled, login, harness.now_ns).client.outgoing());
    harness.turn();
    harness.now_ns += 11 * SECOND;
    harness.turn();
    assert_eq!(harness.served().slow_closed, 1);
    harness.venue.accept(&order(SessionId(1), 6_001));
    harness.turn();
    assert_eq!(harness.served().messages, 6_003);
}

/// Joiners that come in bursts, each with its login already sent, all get their snapshot, though more bytes must be
/// sent than a turn writes, and silent connections follow: a login is read before its sender may have to make room.
#[test]
fn a_burst_of_joiners_is_let_in() {
    // The number accepted in a turn, and allowed without a login from one address, and as one user.
    const BURST: u16 = 32;
    let mut harness = FeedBench::new();
    for number in 1..=4_000 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let network = harness.snapshot.clone();
    let mut clients = Vec::new();
    for burst in 0..4 {
        for port in 0..BURST {
            let connection = network.connect(SocketAddr::from(([10, 0, 1, burst], 5000 + port)));
            if burst < 3 {
                let username = format!("USER0{}", burst + 1);
                let login = LoginRequest::new(&username, "PASSWORD01").unwrap();
                let mut client = TestClient::new(connection, login, harness.now_ns);
                client.write(&network);
                clients.push(client);
            }
        }
        harness.server.do_work(harness.now_ns).unwrap();
    }
    for client in &mut clients {
        harness.hear(&network, client);
        assert_eq!(client.seen.last(), Some(&Seen::Ended));
    }
    let count = harness.served();
    assert_eq!((count.snapshots_complete, count.turned_away), (clients.len() as u64, 0));
}

/// However many subscribers request the whole feed at once, a turn writes 128 KiB plus the bytes of one more send, and
/// each subscriber gets all messages.
#[test]
fn a_turn_writes_so_much() {
    const TURN_BYTES_MAX: usize = (128 + 64) << 10;
    let mut harness = FeedBench::new();
    for number in 1..=4_000 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let network = harness.stream.clone();
    let mut clients: Vec<_> = (0..20)
        .map(|port| {
            let connection = network.connect(SocketAddr::from(([10, 0, 0, 1], 5000 + port)));
            let mut login = LoginRequest::new("USER01", "PASSWORD01").unwrap();
            login.sequence_number = Some(1);
            let mut client = TestClient::new(connection, login, harness.now_ns);
            client.write(&network);
            client
        })
        .collect();
    let waiting = |clients: &[TestClient]| -> usize {
        clients.iter().map(|it| network.waiting(it.connection)).sum()
    };
    let mut before = 0;
    while harness.server.do_work(harness.now_ns).unwrap() > 0 {
        let after = waiting(&clients);
        assert!(after - before <= TURN_BYTES_MAX, "{} bytes", after - before);
        before = after;
    }
    for client in &mut clients {
        harness.hear(&network, client);
        assert_eq!(replies(&client.seen).len(), 4_002);
    }
}

/// Counts the times that connections are looked at while a thousand messages come, each in a turn of its own and taken
/// by a quick subscriber at once; beside two stalled subscribers, or alone. The messages of a stalled subscriber are
/// equal in the end.
fn looks(has_stalled: bool) -> u64 {
    let mut harness = FeedBench::new();
    for number in 1..=2_000 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let (stream, snapshot) = (harness.stream.clone(), harness.snapshot.clone());
    let mut stalled = Vec::new();
    for network in [&stream, &snapshot].into_iter().filter(|_| has_stalled) {
        let mut login = LoginRequest::new("USER01", "PASSWORD01").unwrap();
        login.sequence_number = Some(1);
        let connection = network.connect("10.0.0.1:5000".parse().unwrap());
        network.set_room(connection, 4096);
        let mut client = TestClient::new(connection, login, harness.now_ns);
        client.write(network);
        stalled.push((network, client));
    }
    let mut quick = harness.join(&stream, 1);
    // So that timers are checked.
    harness.now_ns += 20_000_000;
    harness.hear(&stream, &mut quick);
    assert_eq!(harness.served().stalled, stalled.len() as u64);
    let calls = |(network, client): &(&FakeStream, TestClient)| network.calls(client.connection);
    let calls_before: Vec<_> = stalled.iter().map(calls).collect();
    let looks_before = harness.served().served;
    for number in 2_001..=3_000 {
        harness.venue.accept(&order(SessionId(1), number));
        harness.now_ns += 200_000;
        harness.hear(&stream, &mut quick);
    }
    assert_eq!(stalled.iter().map(calls).collect::<Vec<_>>(), calls_before, "system calls");
    let looks = harness.served().served - looks_before;
    assert_eq!(replies(&quick.seen).len(), 2 + 3_000);
    if let Some((network, client)) = stalled.first_mut() {
        harness.hear(network, client);
        assert_eq!(replies(&client.seen), replies(&quick.seen));
    }
    looks
}

/// A subscriber whose socket is full costs no turn anything: it is neither read nor written until its socket takes
/// bytes again. Then it gets all the messages that it missed.
#[test]
fn a_stalled_subscriber_costs_no_turn_anything() {
    assert_eq!(looks(true), looks(false));
}

/// The feed over TCP starts at any number and continues with new messages; a number that does not exist yet, a wrong
/// password and another session are rejected, the last two alike for both services.
#[test]
fn the_feed_over_tcp_starts_at_any_number() {
    let mut harness = FeedBench::new();
    for number in 1..=10 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let all = harness.all();
    let (stream, snapshot) = (harness.stream.clone(), harness.snapshot.clone());
    let mut client = harness.join(&stream, 4);
    assert_eq!(client.seen[0], Seen::Accepted(4));
    assert_eq!(replies(&client.seen), all[3..]);
    harness.venue.accept(&order(SessionId(1), 11));
    harness.hear(&stream, &mut client);
    assert_eq!(replies(&client.seen).last().unwrap().0, 13);

    let rejected = |client: TestClient| match client.seen.last() {
        Some(Seen::Rejected(reason)) => *reason,
        other => panic!("{other:?}"),
    };
    let unavailable = LoginRejectReason::SessionNotAvailable;
    assert_eq!(rejected(harness.join(&stream, 15)), unavailable);
    assert_eq!(rejected(harness.join(&snapshot, 2)), unavailable, "a snapshot begins with 1");
    for network in [&stream, &snapshot] {
        let login = LoginRequest::new("USER01", "WRONG").unwrap();
        assert_eq!(rejected(harness.join_as(network, login)), LoginRejectReason::NotAuthorized);
        let mut login = LoginRequest::new("USER01", "PASSWORD01").unwrap();
        login.session = market::Text::new("OTHER").unwrap();
        assert_eq!(rejected(harness.join_as(network, login)), unavailable);
    }
}

/// Where a password is a hash, snapshots and streams begin after its check on another thread; meanwhile others are
/// served.
#[test]
fn subscribers_wait_for_the_check_of_a_hash() {
    // The hash of `SECRET`, with the least memory that argon2 allows.
    const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$ODsLdKIDu5zi0rnHxY0qhw";
    let mut users = users();
    users[0] = Credentials::new("USER01", HASH).unwrap();
    let mut harness = FeedBench::of_users(users, Venue::new(16), 64 << 20);
    let mut checker = PasswordChecker::default();
    harness.server.check_passwords_by([checker.connect(), checker.connect()]);
    harness.venue.accept(&order(SessionId(1), 1));
    harness.turn();
    for network in [harness.stream.clone(), harness.snapshot.clone()] {
        let login = |name: &str, password: &str| LoginRequest::new(name, password).unwrap();
        let mut right = harness.join_as(&network, login("USER01", "Secret"));
        let mut wrong = harness.join_as(&network, login("USER01", "PASSWORD01"));
        assert!(right.seen.is_empty() && wrong.seen.is_empty());
        let gone = harness.join_as(&network, login("USER01", "Secret"));
        network.cut(gone.connection);
        let plain = harness.join_as(&network, login("USER02", "PASSWORD01"));
        assert_eq!(plain.seen[0], Seen::Accepted(1));
        while checker.do_work(harness.now_ns).unwrap() > 0 {
            harness.turn();
        }
        harness.hear(&network, &mut right);
        harness.hear(&network, &mut wrong);
        assert_eq!(right.seen[0], Seen::Accepted(1));
        assert!(replies(&right.seen).len() > 1);
        assert_eq!(wrong.seen, [Seen::Rejected(LoginRejectReason::NotAuthorized)]);
        let again = harness.join_as(&network, login("USER01", "SECRET"));
        assert_eq!(again.seen[0], Seen::Accepted(1), "it is known now");
    }
    let mut late =
        harness.join_as(&harness.stream.clone(), LoginRequest::new("USER01", "WRONG").unwrap());
    harness.now_ns += 10 * SECOND;
    harness.turn();
    late.read(&harness.stream, harness.now_ns);
    assert!(late.seen.is_empty() && !harness.stream.is_open(late.connection), "not in time");
}

/// Messages no longer in memory are requested from the reader of the journal, page by page, and answered over UDP and
/// TCP as soon as they have come; if they are not available, the answer says so.
#[test]
fn older_messages_come_from_the_reader_of_the_journal() {
    let mut harness = FeedBench::over(Venue::new(16), 1 << 20);
    let mut published = Vec::new();
    for number in 1..=60_000 {
        harness.venue.accept(&order(SessionId(1), number));
        if number % 1000 == 0 {
            harness.turn();
            published.extend(messages(&harness.packets()));
        }
    }
    assert!(harness.ask(SESSION, 9, 3).is_empty(), "it is not there yet");
    // It is the reader's turn.
    let read = |harness: &mut FeedBench| -> Vec<PastRange> {
        let mut ranges = Vec::new();
        harness.past.wanted.poll(8, |range, _| {
            ranges.push(*range);
            Flow::Continue
        });
        for range in &ranges {
            for (number, message) in &published[range.first as usize - 1..range.end as usize - 1] {
                let message = PastAnswer::Message(FeedMessage::new(*number, message));
                assert!(harness.past.answers.try_publish(message).is_ok());
            }
        }
        harness.turn();
        ranges
    };
    assert_eq!(read(&mut harness), [PastRange { first: 1, end: 8193 }]);
    assert_eq!(messages(&harness.ask(SESSION, 9, 3)), published[8..11]);

    let stream = harness.stream.clone();
    let mut client = harness.join(&stream, 8_000);
    while replies(&client.seen).len() < 60_002 - 7_999 {
        harness.now_ns += SECOND / 50;
        read(&mut harness);
        harness.hear(&stream, &mut client);
    }
    assert!(replies(&client.seen) == published[7_999..]);

    let mut harness = FeedBench::over(Venue::new(16), 1 << 20);
    for number in 1..=60_000 {
        harness.venue.accept(&order(SessionId(1), number));
        if number % 1000 == 0 {
            harness.turn();
        }
    }
    let mut client = harness.join(&stream_of(&harness), 1);
    let gone = PastAnswer::Gone { first_kept: 20_000 };
    assert!(harness.past.answers.try_publish(gone).is_ok());
    harness.now_ns += SECOND / 50;
    harness.hear(&stream_of(&harness), &mut client);
    assert!(
        matches!(client.seen.last(), Some(Seen::Debug(text)) if text.contains("before 20000")),
        "{:?}",
        client.seen.last()
    );
    let rejected = harness.join(&stream_of(&harness), 19_999);
    assert!(matches!(rejected.seen.last(), Some(Seen::Rejected(_))), "{:?}", rejected.seen);
    assert_eq!(harness.served().past_gone, 1);
}

fn stream_of(harness: &FeedBench) -> FakeStream {
    harness.stream.clone()
}

/// If its feed server takes nothing, the exchange is held back, and no message is lost.
#[test]
fn a_feed_server_that_stops_holds_the_feed_back() {
    let mut harness = FeedBench::new();
    for number in 1..=7_000 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    while harness.agent.do_work(harness.now_ns).unwrap() > 0 {}
    for number in 7_001..=14_000 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    while harness.agent.do_work(harness.now_ns).unwrap() > 0 {}
    for number in 14_001..=18_000 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    while harness.agent.do_work(harness.now_ns).unwrap() > 0 {}
    assert!(harness.agent.is_held_up() && harness.count().held_up > 0);
    assert!(harness.count().messages <= 1 << 14);
    harness.turn();
    assert_eq!((harness.count().messages, harness.served().messages), (18_002, 18_002));
    assert!(messages(&harness.packets()).iter().map(|(number, _)| *number).eq(1..=18_002));
}

/// A request that is longer than the buffer is counted and not answered; the next one is.
#[test]
fn a_request_that_is_too_long_is_counted() {
    let mut harness = FeedBench::new();
    harness.turn();
    let address = SocketAddr::from(([10, 0, 0, 9], 9));
    harness.requests.deliver(address, &[0; 2049]);
    harness
        .requests
        .deliver(address, &Request { session: SESSION, sequence_number: 1, count: 1 }.encode());
    harness.turn();
    let count = harness.served();
    assert_eq!((count.requests, count.requests_unanswered, count.requests_answered), (2, 1, 1));
}
