use std::collections::BTreeSet;

use gateway::{Credentials, OrderEntryOptions, OrderEntryPort as _, Throttle};
use market::{CancelOrder, Command, Firm, Lots, OrderKey, Quantity, RejectReason, SessionId};
use wire::{
    ouch,
    soupbintcp::{
        LoginRejectReason::{NotAuthorized, SessionNotAvailable},
        LoginRequest,
    },
};

use crate::harness::{
    Harness, SECOND, START, Seen, TestClient, Venue, config, enter, entered, order,
};

/// The OUCH message that cancels an order.
fn cancel(user_ref_num: u32) -> Vec<u8> {
    let key = OrderKey { session_id: SessionId(0), channel: 0, user_ref_num };
    let cancel = CancelOrder { key, quantity: Quantity::ZERO };
    ouch::request(&Command::Cancel(cancel)).unwrap().to_vec()
}

/// A number that was used never reaches the log again, not even after a restart from the log.
#[test]
fn duplicates_do_not_reach_the_log() {
    let mut harness = Harness::new();
    let mut client = harness.log_in("USER01");
    for number in [1, 1, 2, 1, 2, 2, 3] {
        client.enter(number, harness.now_ns);
    }
    harness.turn_with(&mut [&mut client]);
    assert_eq!(entered(&harness.venue.asked), [1, 2, 3]);
    assert_eq!(harness.count().duplicates, 4);
    assert_eq!(client.replies().len(), 3);

    let log = std::mem::take(&mut harness.venue.log);
    let network = gateway::fake::FakeStream::new();
    let venue = Venue::empty(64);
    let mut again = Harness::over(network.clone(), network, config(), venue);
    log.iter().for_each(|output| again.agent.replay(&(*output).into()));
    again.agent.know_used(SessionId(1), 0, 3);
    let mut client = again.log_in("USER01");
    for number in [1, 2, 3, 4] {
        client.enter(number, again.now_ns);
    }
    client.write(&again.network);
    again.turn_without_venue();
    again.venue.submissions.drain(10, |submission, _| again.venue.asked.push(submission.command));
    assert_eq!(entered(&again.venue.asked), [4]);
}

/// An order of a firm other than the participant's goes to the log as rejected.
#[test]
fn an_order_of_a_foreign_firm_is_rejected() {
    let mut config = config();
    let own = Firm::new("OWN").unwrap();
    config.users[0] = config.users[0].clone().with_firms(vec![own]);
    let mut harness = Harness::with(config, 64);
    let mut client = harness.log_in("USER01");
    for (number, firm) in [(1, own), (2, Firm::new("ACME").unwrap()), (3, Firm::BLANK)] {
        let mut order = order(SessionId(0), number);
        order.attributes.firm = firm;
        let message = ouch::request(&Command::Enter(order)).unwrap();
        client.client.send(&message, harness.now_ns);
    }
    harness.turn_with(&mut [&mut client]);
    assert_eq!(entered(&harness.venue.asked), [1, 3]);
    let Command::Reject(refused) = harness.venue.asked[1] else { panic!("not refused") };
    assert_eq!((refused.key.user_ref_num, refused.reason), (2, RejectReason::EntryDisabled));
    assert_eq!(harness.count().refused, 1);
}

/// A session that sends too many messages without effect is logged out with a reason, and may log in again when its
/// block is over. The log grew by its allowance, and others were not affected.
#[test]
fn cancels_of_nothing_block_their_session() {
    let mut config = config();
    config.throttle = Throttle {
        no_effect_per_second: 10,
        no_effect_burst: 50,
        block_ns: 5 * SECOND,
        ..Throttle::default()
    };
    let mut harness = Harness::with(config, 1024);
    let mut flood = harness.log_in("USER01");
    let mut other = harness.log_in("USER02");
    for number in 1..=1000 {
        flood.client.send(&cancel(number), harness.now_ns);
    }
    other.enter(1, harness.now_ns);
    harness.turn_with(&mut [&mut flood, &mut other]);
    assert_eq!(harness.venue.asked.len(), 50 + 1);
    let reason = "blocked for 5 s: too many messages without effect";
    assert_eq!(flood.seen[1..], [Seen::Debug(reason.into())]);
    assert_eq!(other.replies().len(), 1);
    let early = harness.log_in("USER01");
    assert_eq!(early.seen, [Seen::Debug(reason.into()), Seen::Rejected(SessionNotAvailable)]);
    harness.pass(5 * SECOND, &mut [&mut other]);
    assert_eq!(harness.log_in("USER01").seen, [Seen::Accepted(1)]);
}

/// An order entered on a session arrives at the sequencer under that session, with the time of its turn.
#[test]
fn an_order_is_submitted_under_its_session() {
    let mut harness = Harness::new();
    let mut client = harness.log_in("USER02");
    client.enter(7, harness.now_ns);
    client.write(&harness.network);
    harness.now_ns += 5_000;
    harness.turn_without_venue();
    let mut submitted = Vec::new();
    harness.venue.submissions.drain(10, |submission, _| submitted.push(*submission));
    let [submission] = submitted[..] else { panic!("one order: {submitted:?}") };
    assert_eq!(submission.received.0, START + 5_000);
    let Command::Enter(order) = submission.command else { panic!("{submission:?}") };
    assert_eq!(order.key.session_id, SessionId(2));
    assert_eq!(order.key.user_ref_num, 7);
}

/// Orders cut anywhere by the network arrive whole and in order.
#[test]
fn packets_may_be_cut_anywhere() {
    for piece in [1, 2, 3, 7, 49, 50, 51, 97, 1000] {
        let mut harness = Harness::new();
        let mut client = harness.log_in("USER01");
        for number in 1..=20 {
            client.enter(number, harness.now_ns);
        }
        let bytes = client.client.outgoing().to_vec();
        for bytes in bytes.chunks(piece) {
            harness.network.deliver(client.connection, bytes);
            harness.turn();
        }
        assert_eq!(entered(&harness.venue.asked), (1..=20).collect::<Vec<_>>(), "{piece}");
    }
}

/// Bytes sent together with the login are taken after it.
#[test]
fn orders_may_follow_the_login_at_once() {
    let mut harness = Harness::new();
    let connection = harness.network.connect("10.0.0.1:1".parse().unwrap());
    let mut bytes = b"\x00\x2fLUSER01PASSWORD01          ".to_vec();
    bytes.extend(b"                   1");
    for number in 1..=3 {
        let message = enter(number);
        bytes.extend((message.len() as u16 + 1).to_be_bytes());
        bytes.push(b'U');
        bytes.extend(message);
    }
    harness.network.deliver(connection, &bytes);
    harness.turn();
    assert_eq!(entered(&harness.venue.asked), [1, 2, 3]);
}

/// While the ring is full, orders wait in the network; none is lost and none overtakes another.
#[test]
fn a_full_ring_holds_orders_back() {
    let mut harness = Harness::with(config(), 4);
    let mut one = harness.log_in("USER01");
    let mut two = harness.log_in("USER02");
    for number in 1..=300 {
        one.enter(number, harness.now_ns);
        two.enter(1000 + number, harness.now_ns);
    }
    one.write(&harness.network);
    two.write(&harness.network);
    harness.turn_without_venue();
    assert_eq!(harness.count().submitted, 4);
    assert!(harness.count().stalls > 0);
    // Nothing changes while no order is taken from the ring.
    harness.turn_without_venue();
    assert_eq!(harness.count().submitted, 4);

    harness.turn();
    let numbers = entered(&harness.venue.asked);
    let (ones, twos): (Vec<u32>, Vec<u32>) =
        numbers.into_iter().partition(|number| *number <= 1000);
    assert_eq!(ones, (1..=300).collect::<Vec<_>>());
    assert_eq!(twos, (1001..=1300).collect::<Vec<_>>());
}

/// While the ring is full a login is answered, right or wrong; its orders wait like those of others.
#[test]
fn a_full_ring_keeps_no_login_waiting() {
    let mut harness = Harness::with(config(), 4);
    let mut one = harness.log_in("USER01");
    for number in 1..=300 {
        one.enter(number, harness.now_ns);
    }
    one.write(&harness.network);
    harness.turn_without_venue();
    assert_eq!(harness.count().submitted, 4, "the ring is full");
    let mut come = |username: &str, password: &str| {
        let id = harness.network.connect("10.0.0.2:5000".parse().unwrap());
        let login = LoginRequest::new(username, password).unwrap();
        let mut client = TestClient::new(id, login, harness.now_ns);
        client.write(&harness.network);
        harness.turn_without_venue();
        client.read(&harness.network, harness.now_ns);
        client
    };
    let mut two = come("USER02", "PASSWORD01");
    assert_eq!(two.seen, [Seen::Accepted(1)]);
    assert_eq!(come("USER03", "GUESS").seen, [Seen::Rejected(NotAuthorized)]);
    two.enter(1001, harness.now_ns);
    two.write(&harness.network);
    harness.turn_without_venue();
    assert_eq!(harness.count().submitted, 4, "no order is taken without a slot");
    harness.turn();
    assert_eq!(entered(&harness.venue.asked).len(), 301);
}

/// A client that is held back because the ring is full does not count as silent.
#[test]
fn who_is_held_back_is_not_silent() {
    let mut harness = Harness::with(config(), 1);
    let mut client = harness.log_in("USER01");
    for number in 1..=1000 {
        client.enter(number, harness.now_ns);
    }
    client.write(&harness.network);
    for _ in 0..20 {
        harness.now_ns += crate::harness::SECOND;
        harness.turn_without_venue();
    }
    assert!(harness.network.is_open(client.connection));
    harness.turn();
    assert_eq!(harness.venue.asked.len(), 1000);
}

/// A client with many orders has its share of a turn, and others have theirs.
#[test]
fn a_flood_does_not_keep_others_waiting() {
    let mut harness = Harness::with(config(), 1 << 14);
    let mut flood = harness.log_in("USER01");
    let mut other = harness.log_in("USER02");
    for number in 1..=10_000 {
        flood.enter(number, harness.now_ns);
    }
    flood.write(&harness.network);
    other.enter(20_000, harness.now_ns);
    other.write(&harness.network);
    ring::Agent::do_work(&mut harness.agent, harness.now_ns).unwrap();
    harness.venue.answer();
    let place = entered(&harness.venue.asked).iter().position(|number| *number == 20_000);
    assert!(place.is_some_and(|place| place <= 32), "{place:?}");
    harness.turn();
    assert_eq!(harness.venue.asked.len(), 10_001);
}

/// Many clients with many orders have a total share of a turn, and each its own; clients that were not reached come
/// first in the next turn.
#[test]
fn floods_share_a_turn() {
    const USERS: usize = 20;
    let named = |number| format!("USER{number:02}");
    let users = (1..=USERS).map(|number| Credentials::new(&named(number), "PASSWORD01").unwrap());
    let mut harness =
        Harness::with(OrderEntryOptions { users: users.collect(), ..config() }, 1 << 14);
    for number in crate::harness::users().len() + 1..=USERS {
        harness.venue.add_session(&named(number));
    }
    harness.turn();
    let mut clients: Vec<_> = (1..=USERS).map(|number| harness.log_in(&named(number))).collect();
    for (number, client) in (1..).zip(&mut clients) {
        for order in 1..=1_000 {
            client.enter(1_000 * number + order, harness.now_ns);
        }
        client.write(&harness.network);
    }
    let mut reached = BTreeSet::new();
    for turn in 0..3 {
        ring::Agent::do_work(&mut harness.agent, harness.now_ns).unwrap();
        let before = harness.venue.asked.len();
        harness.venue.answer();
        let taken = entered(&harness.venue.asked[before..]);
        assert!((128..=256).contains(&taken.len()), "{} in turn {turn}", taken.len());
        let mut of_user = [0; USERS + 1];
        for number in taken {
            of_user[(number - 1) as usize / 1_000] += 1;
            reached.insert((number - 1) / 1_000);
        }
        assert!(of_user.iter().all(|orders| *orders <= 32), "{of_user:?} in turn {turn}");
    }
    assert_eq!(reached.len(), USERS);
}

/// A turn takes an eighth as many commands for which the core looks at hundreds of orders as other commands.
#[test]
fn a_turn_has_few_searches() {
    // A read is a step too.
    for (minimum, is_shared, few) in
        [(0, false, 31..=32), (0, true, 31..=32), (2, false, 3..=4), (2, true, 1..=1)]
    {
        let mut harness = Harness::with(config(), 1 << 14);
        let mut client = harness.log_in("USER01");
        if is_shared {
            let mut other = harness.log_in("USER02");
            other.enter(1, harness.now_ns);
            client.enter(1, harness.now_ns);
            harness.turn_with(&mut [&mut other, &mut client]);
        }
        let before = harness.venue.asked.len();
        for number in 2..=201 {
            let mut order = order(SessionId(0), number);
            order.conditions.minimum_quantity = Lots::new(minimum);
            client.client.send(&ouch::request(&Command::Enter(order)).unwrap(), harness.now_ns);
        }
        client.write(&harness.network);
        ring::Agent::do_work(&mut harness.agent, harness.now_ns).unwrap();
        harness.venue.answer();
        let taken = harness.venue.asked.len() - before;
        assert!(few.contains(&taken), "{taken} with a minimum of {minimum}, shared: {is_shared}");
        harness.turn();
        assert_eq!(harness.venue.asked.len() - before, 200);
    }
}
