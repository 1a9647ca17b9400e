use std::{net::SocketAddr, sync::Arc};

use gateway::{
    DRAIN_ENDS, DRAIN_REFUSES, MarketData, MarketDataCount, MarketDataOptions, fake::FakeDatagram,
};
use market::{Event, SessionId, SystemEvent};
use ring::{Agent, AtomicGauge};
use wire::{
    itch,
    moldudp64::{PacketKind, Receiver, ReceiverLimits, Request, parse},
};

use crate::harness::{Ends, SECOND, SESSION, START, Venue, order};

struct FeedBench {
    agent: MarketData<FakeDatagram>,
    feed: FakeDatagram,
    requests: FakeDatagram,
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

    fn over((venue, ends): (Venue, Ends), store_bytes_max: usize) -> Self {
        let (feed, requests) = (FakeDatagram::new(), FakeDatagram::new());
        let agent = MarketData::new(
            feed.clone(),
            requests.clone(),
            MarketDataOptions { store_bytes_max, ..MarketDataOptions::new(SESSION, group()) },
            ends.outputs,
            ends.durable,
        );
        Self { agent, feed, requests, venue, now_ns: START }
    }

    fn turn(&mut self) {
        while self.agent.do_work(self.now_ns).unwrap() > 0 {}
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

/// What the public may know goes out numbered, in the order in which it happened.
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

/// One turn's messages share packets, and no packet is longer than 1,400 bytes; none waits for
/// more to come.
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

/// A stop ends the feed after its last message, with the number of the next one.
#[test]
fn a_stop_ends_the_feed() {
    let mut harness = FeedBench::new();
    let drain = Arc::new(AtomicGauge::new(DRAIN_REFUSES));
    harness.agent.set_drain(Arc::clone(&drain));
    harness.turn();
    assert_eq!(messages(&harness.packets()).len(), 2, "the gateways drain first");
    harness.venue.holds = true;
    harness.venue.accept(&order(SessionId(1), 1));
    drain.set(DRAIN_ENDS);
    harness.turn();
    let ends = |packets: &[Vec<u8>]| -> Vec<u64> {
        let packets = packets.iter().map(|packet| parse(packet).unwrap());
        let ends = packets.filter(|it| it.kind == PacketKind::EndOfSession);
        ends.map(|it| it.sequence_number).collect()
    };
    assert_eq!(ends(&harness.packets()), [3, 3, 3], "what is not durable is not published");
    harness.turn();
    assert_eq!(harness.packets(), Vec::<Vec<u8>>::new(), "and nothing follows");
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

/// A request is answered to who asked, with whole messages, the same bytes, one packet at most;
/// what is not there is not answered.
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
    assert_eq!(harness.count().requests_answered, 4);
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
    assert_eq!((harness.count().requests, harness.count().requests_unanswered), (10, 6));
    assert_eq!(harness.requests.take(), None);
}

/// Many requests at once are answered up to a bound a turn; the feed goes on.
#[test]
fn answers_are_bounded_in_a_turn() {
    let mut harness = FeedBench::new();
    harness.turn();
    let request = Request { session: SESSION, sequence_number: 1, count: 1 }.encode();
    for _ in 0..1000 {
        harness.requests.deliver(SocketAddr::from(([10, 0, 0, 9], 9)), &request);
    }
    harness.venue.accept(&order(SessionId(1), 1));
    harness.agent.do_work(harness.now_ns).unwrap();
    assert_eq!(harness.count().requests_answered, 64);
    assert_eq!(messages(&harness.packets()).len(), 3);
}

/// Only so much is kept: older messages are not answered, newer ones are.
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
    assert!(harness.count().store_bytes <= 1 << 20);
    assert!(harness.ask(SESSION, 1, 10).is_empty());
    assert_eq!(messages(&harness.ask(SESSION, 60_002, 1)).len(), 1);
    assert_eq!(harness.count().messages_skipped, 0);
}

/// A full network delays the feed, and holds the exchange back before anything could be lost.
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

/// A subscriber on a network that loses every third packet asks for what is missing and has the
/// whole feed, in order.
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

/// After a restart the numbers go on where they were, and what was sent before can be asked for.
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
        after.agent.replay(output);
    }
    after.turn();
    let packets = after.packets();
    let [packet] = &packets[..] else { panic!("one heartbeat: {packets:?}") };
    assert_eq!(parse(packet).unwrap().sequence_number, 13);
    assert_eq!(messages(&after.ask(SESSION, 1, 12)), all);
    after.venue.accept(&order(SessionId(1), 11));
    after.turn();
    assert_eq!(messages(&after.packets())[0].0, 13);
}

/// A forged address of the internet gets no answer, and one address no more than its rate.
#[test]
fn requests_are_answered_within_bounds() {
    let mut harness = FeedBench::new();
    harness.turn();
    let request = Request { session: SESSION, sequence_number: 1, count: 1 }.encode();
    harness.requests.deliver(SocketAddr::from(([8, 8, 8, 8], 53)), &request);
    harness.turn();
    assert_eq!((harness.count().requests_refused, harness.requests.take()), (1, None));
    for _ in 0..200 {
        for _ in 0..64 {
            harness.requests.deliver(SocketAddr::from(([10, 0, 0, 9], 9)), &request);
        }
        harness.turn();
    }
    assert_eq!(harness.count().requests_answered, 10_000);
    assert_eq!(harness.count().requests_refused, 1 + 2_800);
}
