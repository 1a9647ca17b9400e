use market::{Command, SessionId};

use crate::bench::{Bench, START, config, enter, entered};

/// An order entered on a session arrives at the sequencer as that session's, with the time of its
/// turn.
#[test]
fn an_order_is_submitted_under_its_session() {
    let mut bench = Bench::new();
    let mut client = bench.log_in("USER02");
    client.enter(7, bench.now_ns);
    client.write(&bench.network);
    bench.now_ns += 5;
    bench.turn_without_venue();
    let mut submitted = Vec::new();
    bench.venue.submissions.drain(10, |submission, _| submitted.push(*submission));
    let [submission] = submitted[..] else { panic!("one order: {submitted:?}") };
    assert_eq!(submission.received.0, START + 5);
    let Command::Enter(order) = submission.command else { panic!("{submission:?}") };
    assert_eq!(order.key.session_id, SessionId(2));
    assert_eq!(order.key.user_ref_num, 7);
}

/// Orders cut anywhere by the network arrive whole and in order.
#[test]
fn packets_may_be_cut_anywhere() {
    for piece in [1, 2, 3, 7, 49, 50, 51, 97, 1000] {
        let mut bench = Bench::new();
        let mut client = bench.log_in("USER01");
        for number in 1..=20 {
            client.enter(number, bench.now_ns);
        }
        let bytes = client.client.outgoing().to_vec();
        for bytes in bytes.chunks(piece) {
            bench.network.deliver(client.connection, bytes);
            bench.turn();
        }
        assert_eq!(entered(&bench.venue.asked), (1..=20).collect::<Vec<_>>(), "{piece}");
    }
}

/// What a client sends together with its login is taken after it.
#[test]
fn orders_may_follow_the_login_at_once() {
    let mut bench = Bench::new();
    let connection = bench.network.connect("10.0.0.1:1".parse().unwrap());
    let mut bytes = b"\x00\x2fLUSER01PASSWORD01          ".to_vec();
    bytes.extend(b"                   1");
    for number in 1..=3 {
        let message = enter(number);
        bytes.extend((message.len() as u16 + 1).to_be_bytes());
        bytes.push(b'U');
        bytes.extend(message);
    }
    bench.network.deliver(connection, &bytes);
    bench.turn();
    assert_eq!(entered(&bench.venue.asked), [1, 2, 3]);
}

/// While the ring is full, orders wait in the network; none is lost and none overtakes another.
#[test]
fn a_full_ring_holds_orders_back() {
    let mut bench = Bench::with(config(), 4);
    let mut one = bench.log_in("USER01");
    let mut two = bench.log_in("USER02");
    for number in 1..=300 {
        one.enter(number, bench.now_ns);
        two.enter(1000 + number, bench.now_ns);
    }
    one.write(&bench.network);
    two.write(&bench.network);
    bench.turn_without_venue();
    assert_eq!(bench.count().submitted, 4);
    assert!(bench.count().stalls > 0);
    // Nothing changes while nobody takes from the ring.
    bench.turn_without_venue();
    assert_eq!(bench.count().submitted, 4);

    bench.turn();
    let numbers = entered(&bench.venue.asked);
    let (ones, twos): (Vec<u32>, Vec<u32>) =
        numbers.into_iter().partition(|number| *number <= 1000);
    assert_eq!(ones, (1..=300).collect::<Vec<_>>());
    assert_eq!(twos, (1001..=1300).collect::<Vec<_>>());
}

/// A client that is held back because the ring is full is not taken for silent.
#[test]
fn who_is_held_back_is_not_silent() {
    let mut bench = Bench::with(config(), 1);
    let mut client = bench.log_in("USER01");
    for number in 1..=1000 {
        client.enter(number, bench.now_ns);
    }
    client.write(&bench.network);
    for _ in 0..20 {
        bench.now_ns += crate::bench::SECOND;
        bench.turn_without_venue();
    }
    assert!(bench.network.is_open(client.connection));
    bench.turn();
    assert_eq!(bench.venue.asked.len(), 1000);
}

/// A client with much to say has its share of a turn, and others have theirs.
#[test]
fn a_flood_does_not_keep_others_waiting() {
    let mut bench = Bench::with(config(), 1 << 14);
    let mut flood = bench.log_in("USER01");
    let mut other = bench.log_in("USER02");
    for number in 1..=10_000 {
        flood.enter(number, bench.now_ns);
    }
    flood.write(&bench.network);
    other.enter(20_000, bench.now_ns);
    other.write(&bench.network);
    ring::Agent::do_work(&mut bench.agent, bench.now_ns).unwrap();
    bench.venue.answer();
    let place = entered(&bench.venue.asked).iter().position(|number| *number == 20_000);
    assert!(place.is_some_and(|place| place < 100), "{place:?}");
    bench.turn();
    assert_eq!(bench.venue.asked.len(), 10_001);
}
