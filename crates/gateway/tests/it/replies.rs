use gateway::{CloseReason, OperatorEvent, OrderEntryPort as _, fake::FakeStream};
use market::{Event, SystemEvent};
use wire::{
    ouch::{Outbound, decode_outbound},
    soupbintcp::{LoginRejectReason::SessionNotAvailable, LoginRequest},
};

use crate::harness::{Harness, SECOND, Seen, TestClient, Venue, config, order};

/// Replies of the exchange are sent to their owner, numbered from 1.
#[test]
fn replies_go_to_their_owner() {
    let mut harness = Harness::new();
    let mut one = harness.log_in("USER01");
    let mut two = harness.log_in("USER02");
    one.enter(1, harness.now_ns);
    two.enter(5, harness.now_ns);
    two.enter(6, harness.now_ns);
    harness.turn_with(&mut [&mut one, &mut two]);
    let numbers = |replies: Vec<(u64, Vec<u8>)>| -> Vec<(u64, u32)> {
        let number = |(number, message): (u64, Vec<u8>)| match decode_outbound(&message) {
            Ok(Outbound::OrderAccepted(accepted, _)) => (number, accepted.user_ref_num.get()),
            other => panic!("{other:?}"),
        };
        replies.into_iter().map(number).collect()
    };
    assert_eq!(numbers(one.replies()), [(1, 1)]);
    assert_eq!(numbers(two.replies()), [(1, 5), (2, 6)]);
}

/// An event for all sessions goes to each, connected or not, in its place in each stream.
#[test]
fn what_is_for_all_is_in_every_stream() {
    let mut harness = Harness::new();
    let mut one = harness.log_in("USER01");
    one.enter(1, harness.now_ns);
    harness.turn_with(&mut [&mut one]);
    harness.venue.put_out(&[Event::System(SystemEvent::EndOfSystemHours)]);
    harness.turn_with(&mut [&mut one]);
    let last = one.replies().pop().unwrap();
    assert_eq!(last.0, 2);
    assert!(matches!(decode_outbound(&last.1), Ok(Outbound::SystemEvent(..))));
    let two = harness.log_in("USER02");
    assert_eq!(two.replies(), [(1, last.1)]);
}

/// A client that logs in again gets the same bytes from any earlier number on.
#[test]
fn a_client_that_comes_back_gets_the_same_bytes() {
    let mut harness = Harness::new();
    let mut client = harness.log_in("USER01");
    for number in 1..=50 {
        client.enter(number, harness.now_ns);
        harness.turn_with(&mut [&mut client]);
    }
    let first_time = client.replies();
    assert_eq!(first_time.len(), 50);
    harness.network.cut(client.connection);
    harness.turn();

    for from in [1, 2, 25, 50, 51] {
        let again = harness.log_in_from("USER01", Some(from));
        assert_eq!(again.seen[0], Seen::Accepted(from));
        assert_eq!(again.replies(), first_time[from as usize - 1..]);
        harness.network.cut(again.connection);
        harness.turn();
    }
}

/// Number 0 starts with the newest reply; no number starts with the first.
#[test]
fn number_0_starts_with_the_newest() {
    let mut harness = Harness::new();
    assert_eq!(harness.log_in_from("USER03", Some(0)).seen, [Seen::Accepted(1)]);
    let mut client = harness.log_in("USER01");
    for number in 1..=5 {
        client.enter(number, harness.now_ns);
    }
    harness.turn_with(&mut [&mut client]);
    harness.network.cut(client.connection);
    harness.turn();
    let again = harness.log_in_from("USER01", Some(0));
    assert_eq!(again.seen[0], Seen::Accepted(5));
    assert_eq!(again.replies(), client.replies()[4..]);
    harness.network.cut(again.connection);
    harness.turn();
    let again = harness.log_in_from("USER01", None);
    assert_eq!(again.replies(), client.replies());
}

/// A number beyond the next one is refused, with a message about it.
#[test]
fn a_number_in_the_future_is_refused() {
    let mut harness = Harness::new();
    let client = harness.log_in_from("USER01", Some(2));
    let text = "the next reply is 1".to_owned();
    assert_eq!(client.seen, [Seen::Debug(text), Seen::Rejected(SessionNotAvailable)]);
    let client = harness.log_in_from("USER01", Some(u64::MAX));
    assert_eq!(client.seen.last(), Some(&Seen::Rejected(SessionNotAvailable)));
}

/// Replies that were dropped to make room cannot be requested; the oldest reply that is kept can.
#[test]
fn replies_that_were_dropped_are_refused() {
    let mut harness = Harness::new();
    let session_id = market::SessionId(1);
    for number in 1..=40_000 {
        harness.venue.accept(&order(session_id, number));
        if number % 1000 == 0 {
            harness.turn();
        }
    }
    assert!(harness.count().store_bytes <= 1 << 20);
    let client = harness.log_in("USER01");
    let [Seen::Debug(text), Seen::Rejected(SessionNotAvailable)] = &client.seen[..] else {
        panic!("{:?}", client.seen)
    };
    let first: u64 = text
        .strip_prefix("replies before ")
        .and_then(|text| text.split(' ').next())
        .and_then(|first| first.parse().ok())
        .unwrap();
    assert!(1 < first && first < 40_000);
    let mut client = harness.log_in_from("USER01", Some(first));
    harness.turn_with(&mut [&mut client]);
    while client.client.next_sequence() < 40_001 {
        harness.turn_with(&mut [&mut client]);
    }
    assert_eq!(client.replies().len() as u64, 40_001 - first);
}

/// No reply leaves before its cause is durable; then all leave, in order.
#[test]
fn replies_wait_for_the_durable_cursor() {
    let mut harness = Harness::new();
    let mut client = harness.log_in("USER01");
    harness.venue.holds = true;
    for number in 1..=10 {
        client.enter(number, harness.now_ns);
        harness.turn_with(&mut [&mut client]);
    }
    assert_eq!(harness.venue.asked.len(), 10);
    assert_eq!(client.replies(), []);
    let before = harness.venue.durable.get();
    harness.venue.durable.set(before + 3);
    harness.turn_with(&mut [&mut client]);
    assert_eq!(client.replies().len(), 3);
    harness.venue.release();
    harness.turn_with(&mut [&mut client]);
    assert_eq!(client.replies().len(), 10);
}

/// A client that reads nothing is cut off after ten seconds; others never notice, and it can come back and continue
/// where it was.
#[test]
fn a_client_that_stops_reading_is_cut_off_and_can_come_back() {
    let mut harness = Harness::new();
    let mut stuck = harness.log_in("USER01");
    let mut other = harness.log_in("USER02");
    harness.network.set_room(stuck.connection, 1000);
    for number in 1..=100 {
        stuck.enter(number, harness.now_ns);
        stuck.write(&harness.network);
        other.enter(number, harness.now_ns);
        harness.turn_with(&mut [&mut other]);
    }
    assert_eq!(other.replies().len(), 100);
    for _ in 0..12 {
        // It is not silent: it continues to send.
        stuck.client.tick(harness.now_ns).unwrap();
        stuck.write(&harness.network);
        harness.pass(SECOND, &mut [&mut other]);
    }
    assert!(!harness.network.is_open(stuck.connection));
    assert!(harness.network.is_open(other.connection));
    assert_eq!(harness.count().slow_closed, 1);
    assert!(
        harness.operator_events.lock().unwrap().iter().any(|event| matches!(
            event,
            OperatorEvent::LoggedOut { reason: CloseReason::Slow, .. }
        ))
    );

    // The connection broke in the middle of a reply; the client counted whole replies.
    stuck.read(&harness.network, harness.now_ns);
    let next = stuck.client.next_sequence();
    assert!(1 < next && next < 100);
    let again = harness.log_in_from("USER01", Some(next));
    assert_eq!(again.replies().len() as u64, 101 - next);
    assert_eq!(again.replies()[0].0, next);
}

/// A client that reads slowly, but reads, is not cut off and misses nothing.
#[test]
fn a_slow_reader_misses_nothing() {
    let mut harness = Harness::new();
    let mut slow = harness.log_in("USER01");
    harness.network.set_room(slow.connection, 100);
    for number in 1..=50 {
        slow.enter(number, harness.now_ns);
    }
    slow.write(&harness.network);
    harness.turn();
    for _ in 0..100 {
        harness.now_ns += SECOND;
        slow.client.tick(harness.now_ns).unwrap();
        harness.turn_with(&mut [&mut slow]);
    }
    assert_eq!(slow.replies().len(), 50);
    assert!(harness.network.is_open(slow.connection));
}

/// A client whose next reply was dropped from the store receives a debug packet and is cut off.
#[test]
fn a_client_that_falls_behind_the_store_is_cut_off() {
    let mut config = config();
    config.limits.slow_client_timeout_ns = 3600 * SECOND;
    let mut harness = Harness::with(config, 1024);
    let mut stuck = harness.log_in("USER01");
    harness.network.set_room(stuck.connection, 10);
    for number in 1..=40_000 {
        harness.venue.accept(&order(market::SessionId(1), number));
        if number % 1000 == 0 {
            harness.turn();
        }
    }
    harness.network.set_room(stuck.connection, 1 << 20);
    harness.turn_with(&mut [&mut stuck]);
    assert!(
        matches!(stuck.seen.last(), Some(Seen::Debug(text)) if text.contains("no longer kept"))
    );
    assert!(harness.network.is_finished(stuck.connection));
    assert!(harness.operator_events.lock().unwrap().iter().any(|event| matches!(
        event,
        OperatorEvent::LoggedOut { reason: CloseReason::FellBehind, .. }
    )));
}

/// The connection may break at any byte: a client that counts whole replies and comes back gets each of them once.
#[test]
fn a_cut_at_any_byte_loses_and_doubles_nothing() {
    let mut harness = Harness::new();
    let mut client = harness.log_in("USER01");
    for number in 1..=20 {
        client.enter(number, harness.now_ns);
    }
    harness.turn_with(&mut [&mut client]);
    let all = client.replies();
    assert_eq!(all.len(), 20);
    harness.network.cut(client.connection);
    harness.turn();

    let stream_len: usize = all.iter().map(|(_, message)| 3 + message.len()).sum();
    for cut in 1..33 + stream_len {
        let connection = harness.network.connect("10.0.0.1:1".parse().unwrap());
        harness.network.cut_after(connection, cut);
        let login = LoginRequest::new("USER01", "PASSWORD01").unwrap();
        let mut broken = TestClient::new(connection, login, harness.now_ns);
        harness.turn_with(&mut [&mut broken]);
        let mut replies = broken.replies();
        let again = harness.log_in_from("USER01", Some(replies.len() as u64 + 1));
        replies.extend(again.replies());
        assert_eq!(replies, all, "cut after {cut} bytes");
        harness.network.cut(again.connection);
        harness.turn();
    }
}

/// A gateway that is given the outputs again after a restart has the same replies under the same numbers, and
/// continues from there.
#[test]
fn replies_survive_a_restart() {
    let mut harness = Harness::new();
    let mut client = harness.log_in("USER01");
    for number in 1..=10 {
        client.enter(number, harness.now_ns);
    }
    harness.turn_with(&mut [&mut client]);

    let network = FakeStream::new();
    let mut after = Harness::over(network.clone(), network, config(), Venue::empty(1024));
    for output in &harness.venue.log {
        after.agent.replay(&(*output).into());
    }
    let mut again = after.log_in("USER01");
    assert_eq!(again.replies(), client.replies());
    again.enter(11, after.now_ns);
    after.turn_with(&mut [&mut again]);
    assert_eq!(again.replies().len(), 11);
}
