use std::{net::SocketAddr, sync::Arc};

use gateway::{
    DRAIN_ENDS, DRAIN_REFUSES, OperatorEvent, OrderEntryPort as _, OrderEntryUdp,
    OrderEntryUdpCount, OrderEntryUdpOptions, Throttle, UdpParticipant,
    fake::{FakeDatagram, Transit},
};
use market::{Command, Lots, SessionId, Text};
use ring::{Agent, AtomicGauge};
use wire::moldudp64::{PacketKind, Receiver, ReceiverLimits, Request, parse};

use crate::harness::{SECOND, SESSION, START, Venue, enter, entered, order};

struct UdpBench {
    agent: OrderEntryUdp<FakeDatagram>,
    network: FakeDatagram,
    venue: Venue,
    now_ns: u64,
}

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 7000))
}

fn config() -> OrderEntryUdpOptions {
    let user = |number, name| UdpParticipant {
        address: address(number),
        username: Text::new(name).unwrap(),
        firms: Vec::new(),
    };
    OrderEntryUdpOptions {
        session: SESSION,
        users: vec![user(1, "UDP001"), user(2, "UDP002")],
        store_bytes_max: 1 << 20,
        throttle: Throttle::default(),
    }
}

impl UdpBench {
    fn new(submissions_max: usize) -> Self {
        let mut harness = Self::over(Venue::new(submissions_max));
        harness.venue.add_session("UDP001");
        harness.venue.add_session("UDP002");
        harness.turn();
        harness
    }

    fn over((venue, ends): (Venue, crate::harness::Ends)) -> Self {
        let network = FakeDatagram::new();
        let agent = OrderEntryUdp::new(
            network.clone(),
            config(),
            ends.submissions,
            ends.outputs,
            ends.durable,
        );
        Self { agent, network, venue, now_ns: START }
    }

    fn turn(&mut self) {
        for _ in 0..100_000 {
            if self.agent.do_work(self.now_ns).unwrap() + self.venue.answer() == 0 {
                return;
            }
        }
        panic!("the gateway never becomes idle");
    }

    /// The packets it has sent to this address.
    fn packets(&mut self, to: SocketAddr) -> Vec<Vec<u8>> {
        let all: Vec<_> = std::iter::from_fn(|| self.network.take()).collect();
        all.into_iter().filter(|(address, _)| *address == to).map(|(_, packet)| packet).collect()
    }

    fn count(&self) -> OrderEntryUdpCount {
        self.agent.counters().read()
    }
}

/// The messages of data packets, each with its number.
fn messages(packets: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    for packet in packets {
        let packet = parse(packet).unwrap();
        assert_eq!(packet.session, SESSION);
        if let PacketKind::Data(blocks) = packet.kind {
            let numbers = packet.sequence_number..;
            all.extend(numbers.zip(blocks).map(|(number, message)| (number, message.to_vec())));
        }
    }
    all
}

fn blocks<'a>(messages: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut datagram = Vec::new();
    for message in messages {
        datagram.extend((message.len() as u16).to_be_bytes());
        datagram.extend(message);
    }
    datagram
}

/// A datagram carries one message or several: the sender's address identifies their session, and its replies go there.
#[test]
fn one_or_several_messages_a_datagram() {
    let mut harness = UdpBench::new(1024);
    harness.network.deliver(address(1), &enter(1));
    harness.network.deliver(address(2), &blocks(&[enter(10), enter(11), enter(12)]));
    harness.network.deliver(address(1), &blocks(&[enter(2)]));
    harness.turn();
    let sessions: Vec<_> = harness
        .venue
        .asked
        .iter()
        .map(|command| match command {
            Command::Enter(order) => (order.key.session_id.0, order.key.user_ref_num),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sessions, [(1, 1), (2, 10), (2, 11), (2, 12), (1, 2)]);
    let all: Vec<_> = std::iter::from_fn(|| harness.network.take()).collect();
    let to = |number| -> Vec<Vec<u8>> {
        let there = all.iter().filter(|(to, _)| *to == address(number));
        there.map(|(_, packet)| packet.clone()).collect()
    };
    assert_eq!(messages(&to(1)).len(), 2);
    let numbers: Vec<_> = messages(&to(2)).iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

/// A datagram from an address that names no session is dropped, counted and reported.
#[test]
fn an_unknown_sender_is_dropped() {
    let mut harness = UdpBench::new(16);
    let (sender, operator_events) = std::sync::mpsc::channel();
    harness.agent.set_operator_events(Box::new(move |event| sender.send(event).unwrap()));
    let stranger = SocketAddr::from(([10, 0, 0, 1], 7001));
    harness.network.deliver(stranger, &enter(1));
    harness.turn();
    assert_eq!(harness.venue.asked, []);
    assert_eq!(harness.count().unknown_senders, 1);
    assert_eq!(operator_events.try_recv(), Ok(OperatorEvent::UnknownSender { address: stranger }));
}

/// A datagram that cannot be read costs only itself; the whole messages in it count.
#[test]
fn malformed_datagrams_cost_only_themselves() {
    let mut harness = UdpBench::new(64);
    let good = enter(1);
    let mut cut_short = blocks(&[enter(2), enter(3)]);
    cut_short.pop();
    let mut wrong_inside = blocks(&[enter(4), b"?".to_vec(), Vec::new(), enter(5)]);
    wrong_inside.push(0);
    for datagram in [
        &b""[..],
        b"\x00",
        b"?",
        b"~",
        b"\xff\xff",
        b"0123456789",
        &good[..good.len() - 10],
        &cut_short,
        &wrong_inside,
        &enter(6),
    ] {
        harness.network.deliver(address(1), datagram);
    }
    harness.turn();
    assert_eq!(entered(&harness.venue.asked), [2, 4, 5, 6]);
    assert_eq!(harness.count().malformed, 7 + 1 + 3);
}

/// Orders of a session that is not on the exchange yet are dropped and counted.
#[test]
fn an_early_datagram_is_dropped() {
    let mut harness = UdpBench::over(Venue::new(16));
    harness.network.deliver(address(1), &enter(1));
    harness.turn();
    assert_eq!(harness.count().early, 1);
    assert_eq!(harness.network.take(), None, "nor are there heartbeats for it");
    harness.venue.add_session("UDP001");
    harness.turn();
    harness.network.deliver(address(1), &enter(2));
    harness.turn();
    assert_eq!(entered(&harness.venue.asked), [2]);
}

/// While the ring is full, no datagram is taken: datagrams wait, and none is lost.
#[test]
fn a_full_ring_lets_datagrams_wait() {
    let mut harness = UdpBench::new(8);
    for number in 0..200_u32 {
        let messages: Vec<_> = (1..=10).map(|part| enter(number * 10 + part)).collect();
        harness.network.deliver(address(1), &blocks(&messages));
    }
    while harness.agent.do_work(harness.now_ns).unwrap() > 0 {}
    assert_eq!(harness.count().submitted, 8);
    assert_eq!((harness.network.waiting(), harness.count().excess), (0, 0));
    assert!(harness.count().stalls > 0);
    harness.turn();
    assert_eq!(entered(&harness.venue.asked), (1..=2000).collect::<Vec<_>>());
}

/// Replies fill packets up to 1,400 bytes.
#[test]
fn replies_are_packed() {
    let mut harness = UdpBench::new(1024);
    for number in 1..=100 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let mut packets = harness.packets(address(1));
    packets.retain(|packet| parse(packet).unwrap().kind != PacketKind::Heartbeat);
    let messages = messages(&packets);
    assert_eq!(messages.len(), 100);
    let len = messages[0].1.len() + 2;
    assert_eq!(packets[0].len(), 20 + (1380 / len) * len);
    assert_eq!(packets.len(), 100_usize.div_ceil(1380 / len));
}

/// No reply leaves before its cause is durable.
#[test]
fn replies_wait_for_the_durable_cursor() {
    let mut harness = UdpBench::new(16);
    harness.venue.holds = true;
    harness.network.deliver(address(1), &enter(1));
    harness.turn();
    assert_eq!(messages(&harness.packets(address(1))), []);
    harness.venue.release();
    harness.turn();
    assert_eq!(messages(&harness.packets(address(1))).len(), 1);
}

/// A user to whom nothing else is sent gets a heartbeat with the next number once a second.
#[test]
fn heartbeats_tell_the_next_number() {
    let mut harness = UdpBench::new(16);
    harness.network.deliver(address(1), &enter(1));
    harness.turn();
    let _ = harness.packets(address(1));
    for tenth in 1..=30 {
        harness.now_ns += SECOND / 10;
        harness.turn();
        let packets = harness.packets(address(1));
        let expected = usize::from(tenth % 10 == 0);
        assert_eq!(packets.len(), expected, "after {tenth} tenths");
        for packet in packets {
            let packet = parse(&packet).unwrap();
            assert_eq!((packet.kind, packet.sequence_number), (PacketKind::Heartbeat, 2));
        }
    }
}

/// A stop reads no more requests, sends the replies to those that were read, and ends each session
/// with the number of its next reply.
#[test]
fn a_stop_ends_each_session() {
    let mut harness = UdpBench::new(16);
    let drain = Arc::new(AtomicGauge::new(0));
    harness.agent.set_drain(Arc::clone(&drain));
    harness.network.deliver(address(1), &enter(1));
    harness.turn();
    drain.set(DRAIN_REFUSES);
    harness.network.deliver(address(1), &enter(2));
    harness.turn();
    assert_eq!(entered(&harness.venue.asked), [1]);
    drain.set(DRAIN_ENDS);
    harness.turn();
    let all: Vec<_> = std::iter::from_fn(|| harness.network.take()).collect();
    let ends = |user| -> Vec<u64> {
        let packets = all.iter().filter(|(to, _)| *to == address(user));
        let packets = packets.map(|(_, packet)| parse(packet).unwrap());
        let ends = packets.filter(|it| it.kind == PacketKind::EndOfSession);
        ends.map(|it| it.sequence_number).collect()
    };
    assert_eq!((ends(1), ends(2)), (vec![2, 2, 2], vec![1, 1, 1]));
}

/// A request resends the replies: the same bytes, as many as fit one packet.
#[test]
fn a_request_gets_replies_again() {
    let mut harness = UdpBench::new(1024);
    for number in 1..=100 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    harness.turn();
    let all = messages(&harness.packets(address(1)));
    let ask = |harness: &mut UdpBench, session, sequence_number, count| {
        let request = Request { session, sequence_number, count };
        harness.network.deliver(address(1), &request.encode());
        harness.turn();
        messages(&harness.packets(address(1)))
    };
    assert_eq!(ask(&mut harness, SESSION, 3, 2), all[2..4]);
    let full = ask(&mut harness, SESSION, 50, 1000);
    assert!(full.len() > 10);
    assert_eq!(full, all[49..49 + full.len()]);
    assert_eq!(ask(&mut harness, SESSION, 100, 10), all[99..]);
    for (session, first, count) in
        [(*b"0000000041", 1, 1), (SESSION, 0, 1), (SESSION, 101, 1), (SESSION, 1, 0)]
    {
        assert_eq!(ask(&mut harness, session, first, count), []);
    }
    assert_eq!((harness.count().requests_answered, harness.count().requests_unanswered), (3, 4));
}

/// When the network is full, replies wait for it and none is skipped.
#[test]
fn a_full_network_delays_replies_and_loses_none() {
    let mut harness = UdpBench::new(1024);
    harness.network.set_room(1);
    for number in 1..=200 {
        harness.venue.accept(&order(SessionId(1), number));
    }
    let mut all = Vec::new();
    for _ in 0..100 {
        harness.turn();
        all.extend(messages(&harness.packets(address(1))));
    }
    assert_eq!(all.len(), 200);
    assert!(all.iter().map(|(number, _)| *number).eq(1..=200));
}

/// Over a network that loses, doubles and reorders replies, the client's receiver requests the missing ones and gets
/// every reply once, in order.
#[test]
fn a_bad_network_costs_nothing_but_time() {
    let mut harness = UdpBench::new(1024);
    let limits = ReceiverLimits { request_timeout_ns: SECOND / 50, ..ReceiverLimits::default() };
    let mut receiver = Receiver::new(1, limits);
    let mut to_client: Transit<Vec<u8>> = Transit::new();
    let mut delivered = Vec::new();
    let mut fate = 1_u64;
    for step in 0..20_000_u32 {
        harness.now_ns += SECOND / 1000;
        if step < 1000 {
            harness.network.deliver(address(1), &enter(step + 1));
        }
        harness.turn();
        for packet in harness.packets(address(1)) {
            fate = fate.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let delay_ns = (fate >> 40) % 5_000_000;
            if !(fate >> 33).is_multiple_of(4) {
                to_client.send(harness.now_ns + delay_ns, packet.clone());
            }
            if (fate >> 35).is_multiple_of(4) {
                to_client.send(harness.now_ns + 2 * delay_ns, packet);
            }
        }
        while let Some(packet) = to_client.arrived(harness.now_ns) {
            receiver
                .receive(&packet, harness.now_ns, &mut |number, _| delivered.push(number))
                .unwrap();
        }
        if let Some(request) = receiver.next_request(harness.now_ns) {
            harness.network.deliver(address(1), &request.encode());
        }
        if delivered.len() == 1000 {
            break;
        }
    }
    assert!(delivered.iter().copied().eq(1..=1000), "{} delivered", delivered.len());
    assert!(receiver.statistics().gaps > 0);
}

/// After a restart no reply is sent twice unasked; the heartbeat shows how far the session got, and every reply can be
/// requested.
#[test]
fn replies_survive_a_restart() {
    let mut harness = UdpBench::new(1024);
    for number in 1..=10 {
        harness.network.deliver(address(1), &enter(number));
    }
    harness.turn();
    let all = messages(&harness.packets(address(1)));
    let mut after = UdpBench::over(Venue::empty(16));
    for output in &harness.venue.log {
        after.agent.replay(&(*output).into());
    }
    after.turn();
    let packets = after.packets(address(1));
    let [packet] = &packets[..] else { panic!("one heartbeat: {packets:?}") };
    assert_eq!(parse(packet).unwrap().sequence_number, 11);
    let request = Request { session: SESSION, sequence_number: 1, count: 10 };
    after.network.deliver(address(1), &request.encode());
    after.turn();
    assert_eq!(messages(&after.packets(address(1))), all);
}

/// A session over UDP that sends too many messages without effect is blocked for a while: its datagrams are dropped
/// and counted, and reported once. Others are not affected.
#[test]
fn queries_block_their_session_over_udp() {
    let mut harness = UdpBench::new(1 << 14);
    let query = market::AccountQuery { session_id: market::SessionId(0), channel: 0 };
    let query = wire::ouch::request(&Command::QueryAccount(query)).unwrap().to_vec();
    let burst = Throttle::default().no_effect_burst;
    for _ in 0..burst + 100 {
        harness.network.deliver(address(1), &query);
    }
    harness.network.deliver(address(2), &enter(1));
    harness.turn();
    assert_eq!(harness.venue.asked.len() as u64, burst + 1);
    assert_eq!(harness.count().blocked, 100);
    harness.now_ns += Throttle::default().block_ns;
    harness.network.deliver(address(1), &enter(1));
    harness.turn();
    assert_eq!(harness.venue.asked.len() as u64, burst + 2);
}

/// A datagram that is longer than the buffer is counted and reported; the next one is taken.
#[test]
fn a_datagram_that_is_too_long_is_reported() {
    let mut harness = UdpBench::new(64);
    let events = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    harness.agent.set_operator_events(Box::new(move |event| sink.lock().unwrap().push(event)));
    harness.network.deliver(address(1), &[0; 2049]);
    harness.network.deliver(address(1), &enter(1));
    harness.turn();
    assert_eq!((harness.count().too_long, harness.count().datagrams), (1, 2));
    assert_eq!(*events.lock().unwrap(), [OperatorEvent::DatagramTooLong { address: address(1) }]);
    assert_eq!(entered(&harness.venue.asked), [1]);
}

/// One session's flood does not keep another's order waiting, although both use one socket.
#[test]
fn a_flood_over_udp_does_not_keep_others_waiting() {
    let mut harness = UdpBench::new(1 << 14);
    for number in 1..=4_000 {
        harness.network.deliver(address(1), &enter(number));
    }
    harness.network.deliver(address(2), &enter(20_000));
    harness.agent.do_work(harness.now_ns).unwrap();
    harness.venue.answer();
    let place = entered(&harness.venue.asked).iter().position(|number| *number == 20_000);
    assert!(place.is_some_and(|place| place < 100), "{place:?}");
    harness.turn();
    assert_eq!(harness.venue.asked.len(), 4_001);
    assert_eq!(harness.count().excess, 0);
}

/// A turn also has a bound of messages: a datagram may have hundreds, and those without an effect fill no ring.
#[test]
fn a_flood_of_full_datagrams_does_not_keep_others_waiting() {
    let mut harness = UdpBench::new(1 << 14);
    let same = vec![enter(1); 25];
    for _ in 0..400 {
        harness.network.deliver(address(1), &blocks(&same));
    }
    harness.network.deliver(address(2), &enter(20_000));
    harness.agent.do_work(harness.now_ns).unwrap();
    let first = harness.count().messages;
    assert!((512..1_024 + 25).contains(&first), "{first} in the first turn");
    harness.agent.do_work(harness.now_ns).unwrap();
    harness.venue.answer();
    assert_eq!(entered(&harness.venue.asked), [1, 20_000]);
    assert!(harness.count().messages - first < 1_024 + 25);
    harness.turn();
    assert_eq!((harness.count().messages, harness.count().excess), (10_001, 0));
}

/// While sessions of the venue trade, a turn takes a quarter of the messages, and 64 of a session before others have
/// their turn.
#[test]
fn a_turn_is_short_while_several_sessions_trade() {
    let mut harness = UdpBench::new(1 << 14);
    for session in [1, 2] {
        harness.venue.accept(&order(SessionId(session), 1));
    }
    harness.turn();
    let before = harness.count().messages;
    for _ in 0..400 {
        harness.network.deliver(address(1), &blocks(&vec![enter(1); 25]));
    }
    harness.network.deliver(address(2), &enter(20_000));
    harness.agent.do_work(harness.now_ns).unwrap();
    let first = harness.count().messages - before;
    assert!((200..256 + 25).contains(&first), "{first} in the first turn");
    harness.agent.do_work(harness.now_ns).unwrap();
    harness.venue.answer();
    assert_eq!(entered(&harness.venue.asked), [20_000]);
    harness.turn();
    assert_eq!((harness.count().messages - before, harness.count().excess), (10_001, 0));
}

/// An order for which the core looks at hundreds of orders counts as 32 messages of a turn.
#[test]
fn a_turn_over_udp_has_few_searches() {
    let mut harness = UdpBench::new(1 << 14);
    let search = |number| {
        let mut order = order(SessionId(0), number);
        order.conditions.minimum_quantity = Lots::new(2);
        wire::ouch::request(&Command::Enter(order)).unwrap().to_vec()
    };
    for datagram in 0..40 {
        let orders: Vec<_> = (1..=20).map(|place| search(20 * datagram + place)).collect();
        harness.network.deliver(address(1), &blocks(&orders));
    }
    harness.agent.do_work(harness.now_ns).unwrap();
    harness.venue.answer();
    let first = harness.venue.asked.len();
    assert!((32..=32 + 20).contains(&first), "{first} in the first turn");
    harness.turn();
    assert_eq!((harness.venue.asked.len(), harness.count().excess), (800, 0));
}

/// One session's flood of requests for earlier replies does not cost another session the answer to its request.
#[test]
fn a_flood_of_requests_keeps_no_answer_from_others() {
    let mut harness = UdpBench::new(1024);
    for session in [1, 2] {
        harness.venue.accept(&order(SessionId(session), 1));
    }
    harness.turn();
    let first = messages(&harness.packets(address(2)));
    let request = Request { session: SESSION, sequence_number: 1, count: 1 };
    for _ in 0..500 {
        harness.network.deliver(address(1), &request.encode());
    }
    harness.network.deliver(address(2), &request.encode());
    harness.agent.do_work(harness.now_ns).unwrap();
    assert_eq!(messages(&harness.packets(address(2))), first);
    assert_eq!((harness.count().requests_answered, harness.count().requests_unanswered), (17, 48));
}

/// While the venue takes nothing, the messages of a flood beyond its own memory are dropped, counted and reported;
/// another session loses nothing.
#[test]
fn the_excess_of_a_flood_is_its_own_loss() {
    let mut harness = UdpBench::new(64);
    let events = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    harness.agent.set_operator_events(Box::new(move |event| sink.lock().unwrap().push(event)));
    for number in 1..=30_000 {
        harness.network.deliver(address(1), &enter(number));
        if number % 1_000 == 0 {
            harness.network.deliver(address(2), &enter(100_000 + number));
        }
    }
    while harness.network.waiting() > 0 {
        harness.agent.do_work(harness.now_ns).unwrap();
    }
    let excess = harness.count().excess;
    assert!(excess > 10_000, "{excess}");
    let (username, address) = (Text::new("UDP001").unwrap(), address(1));
    let of_flood = OperatorEvent::ExcessDatagrams { username, address };
    assert!(events.lock().unwrap().iter().all(|event| *event == of_flood));
    harness.turn();
    let numbers = entered(&harness.venue.asked);
    assert_eq!(numbers.iter().filter(|number| **number > 100_000).count(), 30);
    assert_eq!(numbers.len() as u64, 30_030 - excess);
}
