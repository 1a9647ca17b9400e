//! Complaints of users about open FIX engines, one test for each that no other test covers; docs/wire/fix.md has the
//! list.

use std::{
    io::{Read, Write},
    path::Path,
    thread,
    time::Duration,
};

use market::Timestamp;
use venue::{Running, clock::SystemClock};
use wire::fix::{Fields, Framed, Version, frame, write_time};

use crate::{
    client::{FixClient, config},
    restarts::log_in,
};

/// Memory for messages that is soon full, and a timeout long enough that slow clients stay connected during a test.
const SMALL: &str = "reply_store = \"1MiB\"\nslow_client_timeout = \"30min\"\n";

fn start(folder: &Path) -> Running {
    venue::start(&config(folder, SMALL), SystemClock::start()).unwrap()
}

/// The bytes of orders that rest far from any other price, from the present MsgSeqNum on.
fn orders(client: &mut FixClient, count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        let number = client.next;
        client.next += 1;
        bytes.extend(client.message(
            number,
            "D",
            &format!("11=O{number}|55=AAPL|54=1|38=10|40=2|44=1|59=0|"),
        ));
    }
    bytes
}

/// Reads reports as long as `goes_on` returns true for their MsgSeqNum and whether they are sent again.
fn read_while(client: &mut FixClient, mut goes_on: impl FnMut(u64, bool) -> bool) {
    let mut buffer = vec![0; 1 << 16];
    let mut is_over = false;
    while !is_over {
        let len = client.stream.read(&mut buffer).unwrap();
        assert!(len > 0, "the connection was closed");
        client.bytes.extend_from_slice(&buffer[..len]);
        let mut taken = 0;
        while !is_over && let Framed::Whole(len) = frame(&client.bytes[taken..]) {
            let mut fields = Fields::default();
            let message = fields.read(&client.bytes[taken..taken + len]);
            taken += len;
            if message.msg_type() == b"8" {
                is_over = !goes_on(message.number(34).unwrap(), message.is_yes(43));
            }
        }
        client.bytes.drain(..taken);
    }
}

/// Reads this many new reports, whose numbers have no gap from `next` on.
fn read_reports(client: &mut FixClient, next: u64, count: u64) {
    let mut expected = next;
    read_while(client, |number, is_again| {
        assert!(number == expected && !is_again, "{number} is not {expected}");
        expected += 1;
        expected < next + count
    });
}

/// A store is not written under the lock of a session, report by report: all waiting inputs are one commit. 3,000
/// orders of one write have 6,000 records and more, and far fewer commits; a store for each report would have one for
/// each.
#[test]
fn reports_are_not_stored_one_by_one() {
    const ORDERS: u64 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let mut running = start(folder.path());
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    let bytes = orders(&mut alice, ORDERS);
    alice.stream.write_all(&bytes).unwrap();
    read_reports(&mut alice, 2, ORDERS);
    let status = running.status();
    let rings = status["rings"].as_array().unwrap();
    let inputs = rings.iter().find(|ring| ring["name"] == "inputs").unwrap();
    assert!(inputs["published"].as_u64().unwrap() >= 2 * ORDERS);
    let readers = inputs["readers"].as_array().unwrap();
    let journaler = readers.iter().find(|reader| reader["name"] == "journaler").unwrap();
    // The most inputs of one commit.
    assert!(journaler["batch_max"].as_u64().unwrap() > 1, "{inputs}");
    running.stop().unwrap();
}

/// A resend of a long history needs one page of memory, waits for a client that does not read it, and delays no other
/// session: another session trades meanwhile. Then all of it arrives, each message once and in order.
#[test]
fn a_long_resend_is_bounded_and_holds_nobody_up() {
    const ORDERS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let mut running = start(folder.path());
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    let (mut bob, _) = FixClient::log_on(&running, Version::Fix44, "BOB", 1, "");
    for turn in 0..ORDERS / 500 {
        let bytes = orders(&mut alice, 500);
        alice.stream.write_all(&bytes).unwrap();
        read_reports(&mut alice, 2 + 500 * turn, 500);
    }
    let held = |running: &mut Running| {
        let figures = running.status()["order_entry_fix"].clone();
        ["store_bytes", "connection_bytes"].map(|name| figures[name].as_u64().unwrap())
    };
    let [store, _] = held(&mut running);
    assert!(store < 3 << 20, "most is on disk only: {store} bytes are stored");

    // Requested twice, and no answer is read.
    alice.send("2", "7=1|16=0|");
    alice.send("2", "7=1|16=0|");
    for turn in 1..=200 {
        bob.send("D", &format!("11=B{turn}|55=MSFT|54=1|38=10|40=2|44=1|59=3|"));
        assert!(bob.read().contains("150=0|") && bob.read().contains("150=4|"));
    }
    let [store, connections] = held(&mut running);
    assert!(store < 3 << 20 && connections < 1 << 20, "{store} and {connections} bytes");
    // The second request begins the resend anew; the progress of the first by then depends on the socket.
    let (mut last, mut begun, mut missing) = (0, 0, ORDERS);
    read_while(&mut alice, |number, is_again| {
        assert!(is_again);
        if number == 2 {
            (begun, missing) = (begun + 1, ORDERS);
        } else {
            assert_eq!(number, last + 1);
        }
        last = number;
        missing -= 1;
        missing > 0
    });
    assert!((1..=2).contains(&begun), "{begun}");
    alice.send("1", "112=AFTER|");
    while !alice.read().contains("112=AFTER|") {}
    running.stop().unwrap();
}

/// A gap is requested once, however many messages follow it, and a request of the other side at the same time is
/// served: neither side requests without end.
#[test]
fn a_gap_is_asked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path());
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    let bytes = orders(&mut alice, 3);
    alice.stream.write_all(&bytes).unwrap();
    read_reports(&mut alice, 2, 3);
    // Numbers 5 and 6 are missing; the client has missed two reports, and requests them while the venue requests its
    // own.
    let gap = alice.next;
    alice.next += 2;
    let mut bytes = orders(&mut alice, 100);
    bytes.extend(alice.message(alice.next, "2", "7=3|16=4|"));
    alice.next += 1;
    alice.stream.write_all(&bytes).unwrap();
    let mut requests = 0;
    let mut again = Vec::new();
    while again.len() < 2 || requests == 0 {
        let message = alice.read();
        requests += usize::from(message.starts_with("35=2|"));
        if message.contains("|43=Y|") {
            again.push(message);
        }
    }
    assert!(again[0].contains("34=3|43=Y|") && again[1].contains("34=4|43=Y|"), "{again:?}");
    alice.send_as(gap, "4", &format!("43=Y|123=Y|36={}|", alice.next));
    alice.send("1", "112=DONE|");
    loop {
        let message = alice.read();
        requests += usize::from(message.starts_with("35=2|"));
        if message.contains("112=DONE|") {
            break;
        }
    }
    assert_eq!(requests, 1);
    running.stop().unwrap();
}

/// Both sides may send at once without reading: the venue takes orders of a client that does not read its reports, and
/// keeps those in its store.
#[test]
fn both_sides_may_send_at_once() {
    const ORDERS: u64 = 30_000;
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "slow_client_timeout = \"30min\"\n");
    let running = venue::start(&config, SystemClock::start()).unwrap();
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    // Several times the capacity of the sockets of both sides.
    let bytes = orders(&mut alice, ORDERS);
    assert!(bytes.len() > 4 << 20);
    alice.stream.write_all(&bytes).unwrap();
    let (mut bob, _) = FixClient::log_on(&running, Version::Fix44, "BOB", 1, "");
    bob.send("1", "112=STILL|");
    bob.expect("35=0|34=2|112=STILL|");
    read_reports(&mut alice, 2, ORDERS);
    running.stop().unwrap();
}

/// The time of day this many seconds later, in the form of a schedule.
fn time_of_day(now_ns: u64, later_s: u64) -> String {
    let text = write_time(Timestamp(now_ns + later_s * 1_000_000_000));
    str::from_utf8(&text[9..17]).unwrap().to_owned()
}

/// A session begins with number 1 on both sides, without a flag, even if the venue did not run at its start time. A
/// restart within a session changes no number.
#[test]
fn a_schedule_begins_sessions_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path());
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    alice.send("1", "112=X|");
    alice.expect("35=0|34=2|112=X|");
    alice.log_out();
    running.stop().unwrap();

    // The session of a whole day begins in the next second: it comes before the next start.
    let at = time_of_day(SystemClock::start().now_ns(), 1);
    thread::sleep(Duration::from_millis(1_100));
    let more = format!("[order_entry_fix.schedule]\nstart = {at:?}\nend = {at:?}\n");
    let config = config(folder.path(), &more);
    let running = venue::start(&config, SystemClock::start()).unwrap();
    let (mut alice, answer) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    assert!(answer.starts_with("35=A|34=1|98=0|108=1000|"), "{answer}");
    alice.send("1", "112=Y|");
    alice.expect("35=0|34=2|112=Y|");
    let next = alice.next;
    drop(alice);
    running.stop().unwrap();

    let running = venue::start(&config, SystemClock::start()).unwrap();
    let (_, answer) = FixClient::log_on(&running, Version::Fix44, "ALICE", next, "");
    assert_eq!(answer, "35=A|34=3|98=0|108=1000|", "a restart begins no session");
    running.stop().unwrap();
}

/// Outside its schedule a session is refused, and the answer has the opening time, even for a session that was never
/// open.
#[test]
fn a_logon_outside_of_the_schedule_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let now_ns = SystemClock::start().now_ns();
    let (start, end) = (time_of_day(now_ns, 7_200), time_of_day(now_ns, 14_400));
    let more = format!("[order_entry_fix.schedule]\nstart = {start:?}\nend = {end:?}\n");
    let running = venue::start(&config(folder.path(), &more), SystemClock::start()).unwrap();
    for (number, name) in [(2, "ALICE"), (3, "ALICE"), (2, "BOB")] {
        let (mut client, answer) = FixClient::log_on(&running, Version::Fix44, name, 1, "");
        let expected = format!("35=5|34={number}|58=the session is closed until 2");
        assert!(answer.starts_with(&expected), "{answer}");
        assert!(answer.ends_with(&format!("-{start}.000 UTC|")), "{answer}");
        client.expect("closed");
    }
    running.stop().unwrap();
}

/// A participant in a reloaded configuration logs on while the venue runs, by each protocol with a login, and trades
/// with an earlier participant, whose session continues; a restart changes none of this.
#[test]
fn sessions_are_added_while_the_venue_runs() {
    let folder = tempfile::tempdir().unwrap();
    let old = config(folder.path(), "");
    let running = venue::start(&old, SystemClock::start()).unwrap();
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    alice.send("D", "11=A1|55=AAPL|54=2|38=100|40=2|44=150|");
    assert!(alice.read().contains("|39=0|11=A1|"));
    let (_, answer) = FixClient::log_on(&running, Version::Fix44, "CAROL", 1, "");
    assert_eq!(answer, "closed");

    let row = |name: &str, terms: &str| {
        format!("[[participants]]\nusername = {name:?}\nfirm = \"FIRM\"\n{terms}\n")
    };
    let rows = row("CAROL", "password = \"carol\"\nprotocol = \"fix\"")
        + &row("DAVE", "password = \"dave\"");
    let new = config(folder.path(), &rows);
    let lines = running.reload(&old, &new).unwrap();
    for name in ["CAROL", "DAVE"] {
        let line =
            format!("participant {name} was added; it may log in to the feed after a restart");
        assert!(lines.contains(&line), "{lines:?}");
    }
    assert_eq!(lines.len(), 2, "{lines:?}");
    // The log has the participant soon.
    let mut carol = loop {
        let (carol, answer) = FixClient::log_on(&running, Version::Fix44, "CAROL", 1, "");
        if answer != "closed" {
            assert_eq!(answer, "35=A|34=1|98=0|108=1000|");
            break carol;
        }
        thread::sleep(Duration::from_millis(5));
    };
    carol.send("D", "11=C1|55=AAPL|54=1|38=40|40=2|44=150|");
    assert!(carol.read().contains("|39=0|11=C1|"));
    assert!(carol.read().contains("|39=2|11=C1|"));
    assert!(alice.read().contains("|39=1|11=A1|"));
    let (_, answer) = log_in(&running, "DAVE", "dave");
    assert_eq!(answer, "A");
    let next = carol.next;
    drop(carol);
    let nothing = running.reload(&new, &new).unwrap();
    assert_eq!(nothing, ["no setting has changed"]);
    running.stop().unwrap();

    let running = venue::start(&new, SystemClock::start()).unwrap();
    let (mut carol, answer) = FixClient::log_on(&running, Version::Fix44, "CAROL", next, "");
    assert_eq!(answer, "35=A|34=4|98=0|108=1000|");
    carol.send("2", "7=2|16=3|");
    assert!(carol.read().starts_with("35=8|34=2|43=Y|"));
    assert!(carol.read().starts_with("35=8|34=3|43=Y|"));
    // A participant without a login, or without a place, needs a restart.
    let udp = row("ERIN", "udp = \"127.0.0.1:9\"");
    let lines = running.reload(&new, &config(folder.path(), &(rows + &udp))).unwrap();
    let restart = "instruments, participants, accounts, assets or terms: need a restart";
    assert!(lines.iter().any(|line| line == restart), "{lines:?}");
    running.stop().unwrap();
}
