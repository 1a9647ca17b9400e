use gateway::{
    CloseReason, LoginFault, OperatorEvent, OrderEntryLimits, OrderEntryPort as _, PasswordChecker,
};
use wire::soupbintcp::{
    LoginRejectReason::{NotAuthorized, SessionNotAvailable},
    LoginRequest,
};

use crate::harness::{Harness, SECOND, Seen, TestClient, config};

fn login(username: &str, password: &str) -> LoginRequest {
    LoginRequest::new(username, password).unwrap()
}

/// User and password open the session; case does not matter.
#[test]
fn the_right_password_logs_in() {
    let mut harness = Harness::new();
    let client = harness.connect("10.0.0.1:1".parse().unwrap(), login("user01", "Password01"));
    assert_eq!(client.seen, [Seen::Accepted(1)]);
    let operator_events = harness.operator_events.lock().unwrap();
    assert_eq!(operator_events[0].to_string(), "USER01 logged in from 10.0.0.1:1, next reply 1");
}

/// A wrong password and an unknown user get the same bytes, and the connection ends.
#[test]
fn an_unknown_user_and_a_wrong_password_are_answered_alike() {
    let mut harness = Harness::new();
    let wrong = harness.connect("10.0.0.1:1".parse().unwrap(), login("USER01", "PASSWORD02"));
    let unknown = harness.connect("10.0.0.1:2".parse().unwrap(), login("NOBODY", "PASSWORD01"));
    assert_eq!(wrong.seen, [Seen::Rejected(NotAuthorized)]);
    assert_eq!(unknown.seen, wrong.seen);
    assert!(harness.network.is_finished(wrong.connection));
    assert!(harness.network.is_finished(unknown.connection));
    harness.network.finish(wrong.connection);
    harness.turn();
    assert!(!harness.network.is_open(wrong.connection));
    assert_eq!(harness.count().logins_rejected, 2);
}

/// A refused client that does not close is closed a second later.
#[test]
fn a_refused_client_may_not_linger() {
    let mut harness = Harness::new();
    let client = harness.connect("10.0.0.1:1".parse().unwrap(), login("USER01", "WRONG"));
    harness.pass(SECOND / 2, &mut []);
    assert!(harness.network.is_open(client.connection));
    harness.pass(SECOND, &mut []);
    assert!(!harness.network.is_open(client.connection));
    assert_eq!(harness.count().connections, 0);
}

/// A session has one connection: the second login is rejected, and the first stays.
#[test]
fn a_second_login_leaves_the_first_alone() {
    let mut harness = Harness::new();
    let mut first = harness.log_in("USER01");
    let second = harness.log_in("USER01");
    assert_eq!(second.seen, [Seen::Rejected(SessionNotAvailable)]);
    first.enter(1, harness.now_ns);
    harness.turn_with(&mut [&mut first]);
    assert_eq!(first.replies().len(), 1);
}

/// A blank name and the current name stand for the session; any other name does not.
#[test]
fn only_the_current_session_can_be_asked_for() {
    let mut harness = Harness::new();
    let mut request = login("USER01", "PASSWORD01");
    request.session = market::Text::new("0000000042").unwrap();
    let client = harness.connect("10.0.0.1:1".parse().unwrap(), request);
    assert_eq!(client.seen, [Seen::Accepted(1)]);

    let mut request = login("USER02", "PASSWORD01");
    request.session = market::Text::new("0000000041").unwrap();
    let client = harness.connect("10.0.0.1:1".parse().unwrap(), request);
    assert_eq!(client.seen, [Seen::Rejected(SessionNotAvailable)]);
}

/// A user whom the exchange has not announced cannot log in yet, and can as soon as it has.
#[test]
fn an_account_must_be_on_the_exchange() {
    let mut config = config();
    config.users.push(gateway::Credentials::new("LATE", "PASSWORD01").unwrap());
    let mut harness = Harness::with(config, 64);
    assert_eq!(harness.log_in("LATE").seen, [Seen::Rejected(SessionNotAvailable)]);
    harness.venue.add_session("late");
    harness.turn();
    assert_eq!(harness.log_in("LATE").seen, [Seen::Accepted(1)]);
}

/// Five wrong passwords within a minute make that user's logins from that address pause for a minute, each answered.
/// The user can log in from elsewhere, and other users from there.
#[test]
fn wrong_passwords_slow_their_own_address_and_user() {
    let mut harness = Harness::new();
    let bad = "10.9.9.9:1".parse().unwrap();
    for _ in 0..5 {
        let client = harness.connect(bad, login("USER01", "GUESS"));
        assert_eq!(client.seen, [Seen::Rejected(NotAuthorized)]);
    }
    let paused = harness.connect(bad, login("user01", "PASSWORD01"));
    assert_eq!(paused.seen, [Seen::Rejected(NotAuthorized)]);
    let reason = LoginFault::Paused(market::Text::new("USER01").unwrap());
    let event = OperatorEvent::LoginRejected { address: bad, reason };
    assert!(harness.operator_events.lock().unwrap().contains(&event));

    let neighbor = harness.connect(bad, login("USER02", "PASSWORD01"));
    assert_eq!(neighbor.seen, [Seen::Accepted(1)]);
    let mut elsewhere =
        harness.connect("10.9.9.8:1".parse().unwrap(), login("USER01", "PASSWORD01"));
    assert_eq!(elsewhere.seen, [Seen::Accepted(1)]);
    elsewhere.client.logout(harness.now_ns);
    harness.turn_with(&mut [&mut elsewhere]);

    harness.now_ns += 60 * SECOND;
    let back = harness.connect(bad, login("USER01", "PASSWORD01"));
    assert_eq!(back.seen, [Seen::Accepted(1)]);
}

/// A client that has not logged in after five seconds is closed, however busy it looks.
#[test]
fn a_login_must_come_in_time() {
    let mut harness = Harness::new();
    let silent = harness.network.connect("10.0.0.1:1".parse().unwrap());
    let trickling = harness.network.connect("10.0.0.1:2".parse().unwrap());
    let mut live = harness.log_in("USER01");
    let request = b"\x00\x2fLUSER01PASSWORD01";
    for byte in &request[..6] {
        assert!(harness.network.is_open(silent) && harness.network.is_open(trickling));
        harness.network.deliver(trickling, &[*byte]);
        harness.pass(SECOND * 5 / 6, &mut [&mut live]);
    }
    harness.pass(SECOND / 5, &mut [&mut live]);
    assert!(!harness.network.is_open(silent) && !harness.network.is_open(trickling));
    assert_eq!(harness.count().login_timeouts, 2);
    assert!(harness.network.is_open(live.connection));
}

/// Silent connections at every bound keep no user out, from the same address or from another: the oldest of the
/// address with the most makes room. Its client receives the reason, and the operator a report.
#[test]
fn silent_connections_keep_nobody_out() {
    let mut config = config();
    config.limits = OrderEntryLimits {
        connections_max: 8,
        strangers_max: 100,
        strangers_per_address_max: 3,
        ..config.limits
    };
    let mut harness = Harness::with(config, 64);
    let mut live = harness.log_in("USER01");
    let connect = |harness: &mut Harness, address: &str| {
        let connection = harness.network.connect(address.parse().unwrap());
        harness.turn();
        connection
    };
    let silent: Vec<_> = ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.2:1", "10.0.0.2:2"]
        .map(|address| connect(&mut harness, address))
        .into();
    assert_eq!(harness.count().connections_pending, 5, "8 places, and 3 are for the users");
    let here = harness.connect("10.0.0.1:9".parse().unwrap(), login("USER02", "PASSWORD01"));
    assert_eq!(here.seen, [Seen::Accepted(1)]);
    let there = harness.connect("10.0.0.3:9".parse().unwrap(), login("USER03", "PASSWORD01"));
    assert_eq!(there.seen, [Seen::Accepted(1)]);
    let open: Vec<_> = silent.iter().map(|one| harness.network.is_open(*one)).collect();
    assert_eq!(open, [false, true, true, true, true]);
    let told = harness.network.take(silent[0], 4096);
    assert!(String::from_utf8_lossy(&told).contains("too many connections without login"));
    assert_eq!(harness.count().pushed_out, 1);
    assert!(harness.operator_events.lock().unwrap().iter().any(|event| matches!(
        event,
        OperatorEvent::NeverLoggedIn { reason: CloseReason::PushedOut, .. }
    )));
    for number in 0..1000 {
        let _ = connect(&mut harness, &format!("10.0.1.{}:{}", number % 200, 1000 + number));
        assert!(harness.count().connections <= 8);
    }
    live.enter(1, harness.now_ns);
    harness.turn_with(&mut [&mut live]);
    assert_eq!(live.replies().len(), 1);
}

/// Refused connections that linger take no place from a participant either, and a login that has arrived is read
/// before newer connections push it out.
#[test]
fn refused_connections_keep_nobody_out() {
    let mut config = config();
    config.limits = OrderEntryLimits { connections_max: 4, ..config.limits };
    let mut harness = Harness::with(config, 64);
    for _ in 0..50 {
        let client = harness.connect("10.0.0.1:1".parse().unwrap(), login("NOBODY", "X"));
        assert_eq!(client.seen, [Seen::Rejected(NotAuthorized)]);
        assert!(harness.count().connections <= 4);
    }
    for name in ["USER01", "USER02", "USER03"] {
        assert_eq!(harness.log_in(name).seen, [Seen::Accepted(1)]);
    }
}

/// A connection for which the system has no descriptor is counted and logged, with its address.
#[test]
fn a_connection_without_a_descriptor_is_reported() {
    let mut harness = Harness::new();
    let address = "10.0.0.1:1".parse().unwrap();
    harness.network.refuse(address);
    harness.turn();
    assert_eq!((harness.count().turned_away, harness.count().connections), (1, 0));
    let events = harness.operator_events.lock().unwrap();
    assert_eq!(*events, [OperatorEvent::OutOfDescriptors { address }]);
}

/// Connections without a session that send as much as they can have a share of a turn, and the sessions have theirs in
/// the same turn.
#[test]
fn strangers_leave_the_sessions_their_turn() {
    let mut harness = Harness::new();
    let mut live = harness.log_in("USER01");
    let heartbeats = [0, 1, b'R'].repeat(30_000);
    for number in 0..60 {
        let address = format!("10.0.0.{number}:1").parse().unwrap();
        let connection = harness.network.connect(address);
        harness.network.deliver(connection, &heartbeats);
    }
    live.enter(1, harness.now_ns);
    live.write(&harness.network);
    ring::Agent::do_work(&mut harness.agent, harness.now_ns).unwrap();
    assert_eq!(harness.venue.answer(), 1);
}

/// A connection that has not logged in does not disturb the end of the sessions.
#[test]
fn a_silent_connection_does_not_disturb_the_end() {
    let mut harness = Harness::new();
    let drain = std::sync::Arc::new(ring::AtomicGauge::new(0));
    harness.agent.set_drain(std::sync::Arc::clone(&drain));
    let silent = harness.network.connect("10.0.0.1:1".parse().unwrap());
    harness.turn();
    drain.set(gateway::DRAIN_ENDS);
    harness.turn();
    assert!(harness.network.is_finished(silent));
}

/// A logout closes at once, and the session can be resumed.
#[test]
fn logout_closes_and_the_session_goes_on() {
    let mut harness = Harness::new();
    let mut client = harness.log_in("USER01");
    client.enter(1, harness.now_ns);
    client.client.logout(harness.now_ns);
    harness.turn_with(&mut [&mut client]);
    assert!(!harness.network.is_open(client.connection));
    assert_eq!(harness.count().logouts, 1);
    assert_eq!(harness.venue.asked.len(), 1);

    let again = harness.log_in("USER01");
    assert_eq!(again.seen[0], Seen::Accepted(1));
    assert_eq!(again.replies().len(), 1);
}

/// A client that is silent for 15 seconds counts as dead; one that sends heartbeats does not, and receives heartbeats
/// itself.
#[test]
fn a_silent_client_is_taken_for_dead() {
    let mut harness = Harness::new();
    let silent = harness.log_in("USER01");
    let mut alive = harness.log_in("USER02");
    harness.pass(14 * SECOND, &mut [&mut alive]);
    assert!(harness.network.is_open(silent.connection));
    // One heartbeat a second, of 3 bytes, from the first second of silence on.
    assert_eq!(harness.network.take(silent.connection, 4096).len(), 14 * 3);
    harness.pass(2 * SECOND, &mut [&mut alive]);
    assert!(!harness.network.is_open(silent.connection));
    assert!(harness.network.is_open(alive.connection));
    assert_eq!(harness.count().silent_closed, 1);
    harness.pass(60 * SECOND, &mut [&mut alive]);
    assert!(alive.client.is_logged_in());
}

/// A connection that breaks frees its session at once.
#[test]
fn a_broken_connection_frees_its_session() {
    let mut harness = Harness::new();
    let client = harness.log_in("USER01");
    harness.network.cut(client.connection);
    harness.turn();
    assert_eq!(harness.log_in("USER01").seen, [Seen::Accepted(1)]);
    let operator_events = harness.operator_events.lock().unwrap();
    let reason = CloseReason::Gone;
    assert!(operator_events.iter().any(
        |event| matches!(event, OperatorEvent::LoggedOut { reason: found, .. } if *found == reason)
    ));
}

/// A user that reconnects at once, before the gateway has seen the old connection break, can log in.
#[test]
fn a_user_that_reconnects_at_once_gets_in() {
    let mut harness = Harness::new();
    let old = harness.log_in("USER01");
    harness.network.cut(old.connection);
    assert_eq!(harness.log_in("USER01").seen, [Seen::Accepted(1)]);
}

/// Closing the gateway closes every connection, without an end of session.
#[test]
fn closing_leaves_the_session_open() {
    let mut harness = Harness::new();
    let mut client = harness.log_in("USER01");
    client.enter(1, harness.now_ns);
    client.write(&harness.network);
    harness.turn_without_venue();
    harness.venue.answer();
    ring::Agent::close(&mut harness.agent);
    client.read(&harness.network, harness.now_ns);
    assert!(!harness.network.is_open(client.connection));
    assert_eq!(client.replies().len(), 1, "what was durable was still sent");
}

/// The argon2 hash of `SECRET`, with the least memory that argon2 allows.
const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$ODsLdKIDu5zi0rnHxY0qhw";

/// USER01 has a hash, the others have plain passwords; hashes are checked only in the turns of the checker.
fn with_hash() -> (Harness, PasswordChecker) {
    let mut config = config();
    config.users[0] = gateway::Credentials::new("USER01", HASH).unwrap();
    let mut harness = Harness::with(config, 64);
    let mut checker = PasswordChecker::default();
    harness.agent.check_passwords_by(checker.connect());
    (harness, checker)
}

fn checked(harness: &mut Harness, checker: &mut PasswordChecker, clients: &mut [&mut TestClient]) {
    while ring::Agent::do_work(checker, harness.now_ns).unwrap() > 0 {
        harness.turn_with(clients);
    }
}

/// The password of a hash logs in once it was checked; a wrong password and an unknown name get the same bytes; bytes
/// sent behind the login are taken after the answer. From then on the password is known without a check.
#[test]
fn a_hashed_password_logs_in() {
    let (mut harness, mut checker) = with_hash();
    let mut right = harness.connect("10.0.0.1:1".parse().unwrap(), login("user01", "Secret"));
    let mut wrong = harness.connect("10.0.0.2:1".parse().unwrap(), login("USER01", "PASSWORD01"));
    let mut unknown = harness.connect("10.0.0.3:1".parse().unwrap(), login("NOBODY", "SECRET"));
    harness.network.deliver(right.connection, &[0, 1, b'R']);
    harness.turn();
    assert_eq!((right.seen.len(), wrong.seen.len(), unknown.seen.len()), (0, 0, 0));
    assert_eq!(harness.count().logins_waiting, 3);

    checked(&mut harness, &mut checker, &mut [&mut right, &mut wrong, &mut unknown]);
    assert_eq!(right.seen, [Seen::Accepted(1)]);
    assert_eq!(wrong.seen, [Seen::Rejected(NotAuthorized)]);
    assert_eq!(unknown.seen, wrong.seen);
    let count = harness.count();
    assert_eq!((count.password_checks, count.logins_waiting, count.violations), (3, 0, 0));
    right.enter(1, harness.now_ns);
    harness.turn_with(&mut [&mut right]);
    assert_eq!(right.replies().len(), 1);

    right.client.logout(harness.now_ns);
    harness.turn_with(&mut [&mut right]);
    let again = harness.connect("10.0.0.9:1".parse().unwrap(), login("USER01", "SECRET"));
    assert_eq!(again.seen[0], Seen::Accepted(1));
    assert_eq!(harness.count().password_checks, 3);
}

/// Of two logins checked at the same time, the first gets the session, and the other is rejected: the session is
/// taken.
#[test]
fn logins_beside_each_other_get_one_session() {
    let (mut harness, mut checker) = with_hash();
    let mut first = harness.connect("10.0.0.1:1".parse().unwrap(), login("USER01", "SECRET"));
    let mut second = harness.connect("10.0.0.2:1".parse().unwrap(), login("USER01", "SECRET"));
    checked(&mut harness, &mut checker, &mut [&mut first, &mut second]);
    assert_eq!(first.seen, [Seen::Accepted(1)]);
    assert_eq!(second.seen, [Seen::Rejected(SessionNotAvailable)]);
}

/// While a flood of logins waits for checks that do not come, no turn waits: orders are answered, a plain password
/// logs in, and waiting clients are closed in time. Places stay bounded, and a client that waits for its check is
/// pushed out last.
#[test]
fn a_flood_of_logins_does_not_stall_orders() {
    let (mut harness, mut checker) = with_hash();
    let mut live = harness.log_in("USER02");
    let mut honest = harness.connect("10.0.0.1:1".parse().unwrap(), login("USER01", "SECRET"));
    for number in 0..1_000 {
        let address = format!("10.{}.1.{}:1", number / 200, number % 200).parse().unwrap();
        let flood = harness.connect(address, login("USER01", "GUESS"));
        if number % 100 == 0 {
            let number = number / 100 + 1;
            live.enter(number, harness.now_ns);
            harness.turn_with(&mut [&mut live]);
            assert_eq!(live.replies().len(), number as usize, "an order waits for a login");
        }
        assert!(flood.seen.is_empty());
        assert!(harness.count().logins_waiting <= 256 + 1, "{:?}", harness.count());
    }
    assert_eq!(harness.log_in("USER03").seen, [Seen::Accepted(1)]);
    // All wait for a check, so the oldest have made room, the honest one among them.
    assert!(!harness.network.is_open(honest.connection));

    // It comes again, and has its turn: there are never more waiting before it than places.
    honest = harness.connect("10.9.9.9:1".parse().unwrap(), login("USER01", "SECRET"));
    ring::Agent::do_work(&mut checker, harness.now_ns).unwrap();
    harness.turn();
    let before = harness.count().password_checks;
    while honest.seen.is_empty() {
        assert!(ring::Agent::do_work(&mut checker, harness.now_ns).unwrap() > 0);
        harness.turn_with(&mut [&mut honest]);
    }
    assert_eq!(honest.seen, [Seen::Accepted(1)]);
    let checks = harness.count().password_checks - before;
    assert!(checks <= 256, "{checks} checks");

    harness.pass(6 * SECOND, &mut [&mut live, &mut honest]);
    assert_eq!(harness.count().logins_waiting, 0, "who waits is closed in time");
    assert_eq!(harness.count().connections_pending, 0);
    live.enter(11, harness.now_ns);
    harness.turn_with(&mut [&mut live]);
    assert_eq!(live.replies().len(), 11);
}

/// A client that leaves while its login waits is not logged in, whatever its password, and its session is free.
#[test]
fn who_leaves_before_its_check_is_not_let_in() {
    let (mut harness, mut checker) = with_hash();
    let gone = harness.connect("10.0.0.1:1".parse().unwrap(), login("USER01", "SECRET"));
    harness.network.cut(gone.connection);
    harness.turn();
    assert!(!harness.network.is_open(gone.connection));
    let mut back = harness.connect("10.0.0.1:2".parse().unwrap(), login("USER01", "SECRET"));
    checked(&mut harness, &mut checker, &mut [&mut back]);
    assert_eq!(back.seen, [Seen::Accepted(1)]);
    assert_eq!(harness.count().logins, 1);
}

/// Sessions end even while logins wait, and no client is logged in after that.
#[test]
fn a_stop_does_not_wait_for_a_check() {
    let (mut harness, mut checker) = with_hash();
    let drain = std::sync::Arc::new(ring::AtomicGauge::new(0));
    harness.agent.set_drain(std::sync::Arc::clone(&drain));
    let mut waits = harness.connect("10.0.0.1:1".parse().unwrap(), login("USER01", "SECRET"));
    drain.set(gateway::DRAIN_REFUSES);
    checked(&mut harness, &mut checker, &mut [&mut waits]);
    assert!(waits.seen.is_empty());
    drain.set(gateway::DRAIN_ENDS);
    harness.turn();
    assert!(harness.network.is_finished(waits.connection));
    assert_eq!(harness.count().logins_waiting, 0);
}
