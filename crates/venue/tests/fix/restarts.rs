//! FIX sessions over restarts of the venue: numbers, resends, snapshots, and the protocol of a session.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    path::Path,
    thread,
    time::Duration,
};

use journal::{Folder, Storage};
use market::{Command, EnterOrder, OrderKey, Price, Quantity, SessionId, Side, Symbol};
use venue::{Running, clock::SystemClock, config::ProtocolName, follower::Follower};
use wire::fix::Version;

use crate::client::{FixClient, config};

/// Missed reports arrive by a resend, with their numbers; messages of the session are gap-filled. The same bytes arrive
/// after a restart of the venue, and both sides continue with their numbers.
#[test]
fn numbers_and_resends_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "");
    let running = venue::start(&config, SystemClock::start()).unwrap();
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    alice.send("D", "11=A1|55=AAPL|54=2|38=100|40=2|44=150|");
    let first = alice.read();
    alice.send("1", "112=HELLO|");
    alice.expect("35=0|34=3|112=HELLO|");
    alice.send("F", "11=A2|41=A1|54=2|");
    let canceled = alice.read();
    let again = |report: &str, number: u64| {
        report.replace(&format!("34={number}|"), &format!("34={number}|43=Y|"))
    };
    let resend = |client: &mut FixClient| {
        client.send("2", "7=1|16=4|");
        client.expect("35=4|34=1|43=Y|123=Y|36=2|");
        client.expect(&again(&first, 2));
        client.expect("35=4|34=3|43=Y|123=Y|36=4|");
        client.expect(&again(&canceled, 4));
    };
    resend(&mut alice);
    // A gap on the client's side: one request, and the messages sent again are taken.
    alice.send_as(alice.next + 2, "D", "11=A4|55=AAPL|54=2|38=100|40=2|44=150|");
    alice.expect(&format!("35=2|34=5|7={}|16=0|", alice.next));
    alice.send("D", "43=Y|122=20260101-00:00:00|11=A3|55=AAPL|54=1|38=1|40=2|44=1|");
    assert!(alice.read().contains("11=A3|"));
    alice.send_as(alice.next, "4", &format!("43=Y|123=Y|36={}|", alice.next + 2));
    alice.next += 2;
    alice.send("0", "");
    let next = alice.next;
    drop(alice);
    running.stop().unwrap();

    let running = venue::start(&config, SystemClock::start()).unwrap();
    let (mut alice, answer) = FixClient::log_on(&running, Version::Fix44, "ALICE", next, "");
    // 1 to 4 above, the ResendRequest, the report of A3; so this is 7. The log does not know that the client
    // has filled numbers and sent a heartbeat, and the venue asks for them.
    assert_eq!(answer, "35=A|34=7|98=0|108=1000|");
    alice.expect(&format!("35=2|34=8|7={}|16=0|", next - 3));
    alice.send_as(next - 3, "4", &format!("43=Y|123=Y|36={}|", alice.next));
    resend(&mut alice);
    alice.send("H", "11=A3|54=1|");
    assert!(alice.read().contains("150=I|39=0|11=A3|"));
    // A number already used: the connection is ended, and the expected number stays.
    alice.send_as(2, "0", "");
    let expected = alice.next;
    assert!(alice.read().contains(&format!(
        "35=5|34=10|58=MsgSeqNum too low, expecting {expected} but received 2|"
    )));
    alice.expect("closed");
    let (mut alice, answer) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "141=Y|");
    assert_eq!(answer, "35=A|34=1|98=0|108=1000|141=Y|");
    alice.send("1", "112=X|");
    alice.expect("35=0|34=2|112=X|");
    alice.log_out();
    running.stop().unwrap();
}

/// A snapshot has every message of a session in both directions: a venue that is killed and starts from one has the
/// same numbers, the same bytes to send again, and the same state of each order.
#[test]
fn a_session_goes_on_from_a_snapshot() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
        let (mut alice, _) = FixClient::log_on(&running, version, "ALICE", 1, "");
        let (mut bob, _) = FixClient::log_on(&running, version, "BOB", 1, "");
        alice.send("D", "11=A1|21=1|55=AAPL|54=2|38=100|40=2|44=150|");
        let mut reports = vec![alice.read()];
        bob.send("D", "11=B1|21=1|55=AAPL|54=1|38=40|40=2|44=150|59=3|");
        reports.push(alice.read());
        alice.send("1", "112=HELLO|");
        alice.expect("35=0|34=4|112=HELLO|");
        alice.send("F", "11=A2|41=NEVER|55=AAPL|54=2|");
        reports.push(alice.read());
        let next = alice.next;

        // The files that a crash of the machine would leave now, with a snapshot of them.
        let dead = tempfile::tempdir().unwrap();
        let files = dead.path().join("journal");
        copy(&folder.path().join("journal"), &files);
        running.stop().unwrap();
        let last = snapshot(&files);

        let running = venue::start(&config(dead.path(), ""), SystemClock::start()).unwrap();
        let recovered = &running.started()["recovered"];
        assert_eq!(recovered["snapshot"]["sequence"], last, "{recovered}");
        assert_eq!(recovered["passed_over"], serde_json::json!([]));
        let (mut alice, answer) = FixClient::log_on(&running, version, "ALICE", next, "");
        assert_eq!(answer, "35=A|34=6|98=0|108=1000|", "the numbers go on");
        // The client has a gap.
        alice.send("2", "7=1|16=5|");
        let again = |report: &str| {
            let number = report.split('|').nth(1).unwrap();
            report.replacen(number, &format!("{number}|43=Y"), 1)
        };
        alice.expect("35=4|34=1|43=Y|123=Y|36=2|");
        alice.expect(&again(&reports[0]));
        alice.expect(&again(&reports[1]));
        alice.expect("35=4|34=4|43=Y|123=Y|36=5|");
        alice.expect(&again(&reports[2]));
        // The venue has one.
        let missed = alice.next;
        alice.send_as(missed + 1, "1", "112=LATE|");
        alice.expect(&format!("35=2|34=7|7={missed}|16=0|"));
        alice.send_as(missed, "4", &format!("43=Y|123=Y|36={}|", missed + 1));
        alice.send_as(missed + 1, "1", "43=Y|122=20260101-00:00:00|112=LATE|");
        alice.expect("35=0|34=8|112=LATE|");
        alice.next = missed + 2;
        // Its orders are known with their executed quantities, and its names as used.
        alice.send("G", "11=A3|41=A1|21=1|55=AAPL|54=2|38=200|40=2|44=151|");
        let report = alice.read();
        assert!(report.contains("39=1|11=A3|41=A1|"), "{report}");
        assert!(report.contains("151=160|14=40|6=150|"), "{report}");
        alice.send("D", "11=A2|21=1|55=AAPL|54=2|38=100|40=2|44=150|");
        let report = alice.read();
        assert!(report.ends_with("103=6|58=ClOrdID was used before|"), "{report}");
        alice.log_out();
        running.stop().unwrap();
    }
}

/// Messages that memory no longer holds arrive again from the disk, the same bytes under the same numbers, also after a
/// start from a snapshot; messages that the session sends meanwhile follow them. They are read as they were written, or
/// derived from the journal if they were not written or the file is damaged.
#[test]
fn older_messages_are_read_from_the_disk() {
    for has_files in [true, false] {
        const ORDERS: u64 = 6_000;
        let folder = tempfile::tempdir().unwrap();
        let files = if has_files { "" } else { "reply_files = \"0B\"\n" };
        let small = config(folder.path(), &format!("reply_store = \"1MiB\"\n{files}"));
        let mut running = venue::start(&small, SystemClock::start()).unwrap();
        let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
        let mut reports = Vec::new();
        for number in 1..=ORDERS {
            alice.send("D", &format!("11=A{number}|55=AAPL|54=1|38=10|40=2|44=1|59=3|"));
            reports.extend([alice.read(), alice.read()]);
        }
        let again = |client: &mut FixClient, from: usize| {
            client.send("2", &format!("7={}|16={}|", from + 2, reports.len() + 1));
            client.send("1", "112=LIVE|");
            for (report, number) in reports.iter().zip(2..).skip(from) {
                let expected =
                    report.replacen(&format!("34={number}|"), &format!("34={number}|43=Y|"), 1);
                assert_eq!(client.read(), expected);
            }
            assert!(client.read().contains("112=LIVE|"));
        };
        again(&mut alice, 0);
        wait_for_files(&mut running, has_files);
        again(&mut alice, 0);
        again(&mut alice, 5_000);
        again(&mut alice, 100);
        let next = alice.next;
        drop(alice);
        running.stop().unwrap();

        snapshot(&small.journal.directory);
        let file = small.journal.directory.join("0000000001.replies");
        assert_eq!(file.exists(), has_files);
        if has_files {
            let mut bytes = fs::read(&file).unwrap();
            bytes[100_000] ^= 1;
            fs::write(&file, bytes).unwrap();
        }
        let mut running = venue::start(&small, SystemClock::start()).unwrap();
        assert!(running.started()["recovered"]["snapshot"].is_object());
        wait_for_files(&mut running, has_files);
        let (mut alice, answer) = FixClient::log_on(&running, Version::Fix44, "ALICE", next, "");
        assert!(answer.starts_with("35=A|"), "{answer}");
        again(&mut alice, 0);
        alice.log_out();
        running.stop().unwrap();
    }
}

/// Waits until the messages of all inputs are in files, if they are kept.
fn wait_for_files(running: &mut Running, has_files: bool) {
    loop {
        let status = running.status();
        let files = &status["reply_files"];
        assert_eq!(files.is_object(), has_files, "{files}");
        let behind = files["sequence"].as_u64() < status["sequence"].as_u64();
        if !has_files || !behind && files["blocks"].as_u64().unwrap() > 50 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Copies the files of a folder in their present state.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // Skips the socket of the operators, which is no file.
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Writes a snapshot of the end of a journal; returns its sequence.
pub fn snapshot(directory: &Path) -> u64 {
    let folder = Folder::new(directory);
    let mut files = folder.second();
    let mut follower = Follower::begin(&folder, &mut *files, u64::MAX, Some(1 << 20)).unwrap();
    while follower.poll(1 << 16, u64::MAX, &mut |_| {}).unwrap() > 0 {}
    follower.write(&mut *files, 1).unwrap();
    follower.sequence()
}

/// Logs in by SoupBinTCP; returns the connection and the first packet of the answer.
pub fn log_in(running: &Running, name: &str, password: &str) -> (TcpStream, String) {
    let address = running.started()["addresses"]["order_entry"].as_str().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(format!("\0\x2fL{name:6}{password:10}{:10}{:>20}", "", 1).as_bytes()).unwrap();
    let packet = packet(&mut stream);
    (stream, packet)
}

/// The next packet: the text of a debug packet, or its type and the type of its message.
fn packet(stream: &mut TcpStream) -> String {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut packet = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut packet).unwrap();
    match packet[0] {
        b'+' => String::from_utf8_lossy(&packet[1..]).into_owned(),
        b'S' => packet[..2].escape_ascii().to_string(),
        kind => char::from(kind).to_string(),
    }
}

/// A session keeps the protocol of its first request: the ports of the others refuse it, with the reason.
#[test]
fn a_session_keeps_its_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let text = |name: &str, terms: &str| {
        format!("[[participants]]\nusername = \"{name}\"\nfirm = \"FIRM\"\n{terms}\n")
    };
    let (by_fix, by_ouch) = ("password = \"pass\"\nprotocol = \"fix\"", "password = \"pass\"");
    let running =
        venue::start(&config(folder.path(), &text("CAROL", by_fix)), SystemClock::start()).unwrap();
    let (mut client, _) = FixClient::log_on_as(&running, Version::Fix44, "CAROL", "pass");
    client.send("D", "11=C1|55=AAPL|54=2|38=100|40=2|44=150|");
    assert!(client.read().contains("39=0|11=C1|"));
    client.log_out();
    running.stop().unwrap();

    let running =
        venue::start(&config(folder.path(), &text("CAROL", by_ouch)), SystemClock::start())
            .unwrap();
    let (_, answer) = log_in(&running, "CAROL", "pass");
    assert_eq!(answer, "the session speaks FIX since its first request");
    // A session without a protocol so far chooses OUCH.
    let (mut stream, answer) = log_in(&running, "USER01", "password01");
    assert_eq!(answer, "A");
    let key = OrderKey { session_id: SessionId(0), channel: 0, user_ref_num: 1 };
    let symbol = Symbol::new("AAPL").unwrap();
    let order = EnterOrder::limit(key, Side::Buy, symbol, Quantity(100), Price(10_000));
    let message = wire::ouch::request(&Command::Enter(order)).unwrap();
    stream.write_all(&(message.len() as u16 + 1).to_be_bytes()).unwrap();
    stream.write_all(&[b"U", &message[..]].concat()).unwrap();
    while packet(&mut stream) != "SA" {}
    running.stop().unwrap();

    let mut changed = config(folder.path(), "");
    let user01 = changed.participants.iter_mut().find(|it| it.username == "USER01").unwrap();
    user01.protocol = ProtocolName::Fix;
    let running = venue::start(&changed, SystemClock::start()).unwrap();
    let (_, answer) = FixClient::log_on_as(&running, Version::Fix44, "USER01", "password01");
    assert_eq!(answer, "closed");
    running.stop().unwrap();

    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let by_udp = format!("udp = \"{}\"", client.local_addr().unwrap());
    let mut running =
        venue::start(&config(folder.path(), &text("CAROL", &by_udp)), SystemClock::start())
            .unwrap();
    let address = running.started()["addresses"]["order_entry_udp"].as_str().unwrap().to_owned();
    client.send_to(b"Q", address).unwrap();
    while running.status()["order_entry_udp"]["other_dialect"] != 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(running.status()["order_entry_udp"]["submitted"], 0);
    client.set_nonblocking(true).unwrap();
    assert!(client.recv(&mut [0; 2048]).is_err(), "its replies are not for datagrams");
    running.stop().unwrap();
}
