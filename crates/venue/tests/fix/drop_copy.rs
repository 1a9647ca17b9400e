//! A drop copy over sockets: orders by FIX, by OUCH over TCP and by OUCH over UDP, a kill, a start from a snapshot.

use std::{
    io::Write,
    net::{TcpStream, UdpSocket},
    path::Path,
};

use market::{Command, EnterOrder, OrderKey, Price, Quantity, SessionId, Side, Symbol};
use venue::{Running, clock::SystemClock, config::Config};
use wire::fix::Version;

use crate::{
    client::{FixClient, config},
    restarts::{copy, log_in, snapshot},
};

/// A venue with a participant by UDP, and a drop copy of all of firm FIRM.
fn copied(folder: &Path, by_udp: &UdpSocket, version: &str) -> Config {
    let udp = by_udp.local_addr().unwrap();
    let more = format!(
        "[[participants]]\nusername = \"COPY\"\npassword = \"copy\"\nprotocol = \"fix\"\nfirm = \"BACK\"\n\
         [participants.drop_copy]\nfirms = [\"FIRM\"]\nversion = \"{version}\"\n\
         [[participants]]\nusername = \"USER04\"\nudp = \"{udp}\"\nfirm = \"FIRM\"\n"
    );
    config(folder, &more)
}

fn order(number: u32, side: Side, quantity: u64) -> Vec<u8> {
    let key = OrderKey { session_id: SessionId(0), channel: 0, user_ref_num: number };
    let symbol = Symbol::new("AAPL").unwrap();
    let order = EnterOrder::limit(key, side, symbol, Quantity(quantity), Price(1_500_000));
    wire::ouch::request(&Command::Enter(order)).unwrap().to_vec()
}

fn send_by_ouch(stream: &mut TcpStream, message: &[u8]) {
    stream.write_all(&(message.len() as u16 + 1).to_be_bytes()).unwrap();
    stream.write_all(&[b"U", message].concat()).unwrap();
}

fn send_by_udp(running: &Running, socket: &UdpSocket, message: &[u8]) {
    let address = running.started()["addresses"]["order_entry_udp"].as_str().unwrap().to_owned();
    socket.send_to(message, address).unwrap();
}

/// The content of one message of the drop copy: the owner of the order, the kind of report, and the quantities.
fn said(message: &str) -> String {
    let shown = ["115", "150", "39", "11", "38", "32", "151", "14"];
    let fields = message
        .split('|')
        .filter(|field| field.split_once('=').is_some_and(|(tag, _)| shown.contains(&tag)));
    fields.collect::<Vec<_>>().join("|")
}

/// Reports of all protocols arrive under the numbers of the drop copy, also before its first Logon. They arrive again
/// after a kill and a start from a snapshot, with the same bytes, and orders continue where they were. The drop copy
/// takes no orders.
#[test]
fn a_drop_copy_survives_a_kill() {
    for (version, name, trade) in [(Version::Fix44, "4.4", "F"), (Version::Fix42, "4.2", "1")] {
        let folder = tempfile::tempdir().unwrap();
        let by_udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let running =
            venue::start(&copied(folder.path(), &by_udp, name), SystemClock::start()).unwrap();
        let last = if version == Version::Fix44 { "F" } else { "2" };
        // The drop copy has not logged on.
        let (mut alice, _) = FixClient::log_on(&running, version, "ALICE", 1, "");
        alice.send("D", "11=A1|21=1|55=AAPL|54=2|38=100|40=2|44=150|");
        assert!(alice.read().contains("39=0|11=A1|"));
        // The waiting messages are in the form of one version.
        let other = if version == Version::Fix44 { Version::Fix42 } else { Version::Fix44 };
        let (_, answer) = FixClient::log_on(&running, other, "COPY", 1, "");
        assert_eq!(answer, "closed");
        let (mut copier, answer) = FixClient::log_on(&running, version, "COPY", 1, "");
        assert!(answer.starts_with("35=A|34=2|"), "{answer}");
        copier.send("2", "7=1|16=1|");
        let first = copier.read();
        assert!(first.starts_with("35=8|34=1|43=Y|115=ALICE|37=1|17=E1|"), "{first}");
        assert_eq!(said(&first), "115=ALICE|150=0|39=0|11=A1|38=100|151=100|14=0");

        let (mut by_tcp, _) = log_in(&running, "USER01", "password01");
        send_by_ouch(&mut by_tcp, &order(7, Side::Buy, 40));
        let mut reports: Vec<String> = (0..3).map(|_| copier.read()).collect();
        send_by_udp(&running, &by_udp, &order(1, Side::Buy, 10));
        reports.extend((0..3).map(|_| copier.read()));
        alice.send("F", "11=A2|41=NEVER|55=AAPL|54=2|");
        alice.send("D", "11=A3|21=1|55=NONE|54=2|38=100|40=2|44=150|");
        alice.send("G", "11=A4|41=A1|21=1|55=AAPL|54=2|38=90|40=2|44=150|");
        reports.push(copier.read());
        let said_all: Vec<String> = reports.iter().map(|report| said(report)).collect();
        assert_eq!(
            said_all,
            [
                "115=USER01|150=0|39=0|11=#7|38=40|151=40|14=0".to_owned(),
                format!("115=ALICE|150={trade}|39=1|11=A1|38=100|32=40|151=60|14=40"),
                format!("115=USER01|150={last}|39=2|11=#7|38=40|32=40|151=0|14=40"),
                "115=USER04|150=0|39=0|11=#1|38=10|151=10|14=0".to_owned(),
                format!("115=ALICE|150={trade}|39=1|11=A1|38=100|32=10|151=50|14=50"),
                format!("115=USER04|150={last}|39=2|11=#1|38=10|32=10|151=0|14=10"),
                "115=ALICE|150=5|39=1|11=A4|38=90|151=40|14=50".to_owned(),
            ]
        );
        // An order is refused, and so is a status request; the numbers go on.
        let code = if version == Version::Fix44 { 6 } else { 3 };
        for (number, msg_type, fields) in [
            (10, "D", "11=C1|21=1|55=AAPL|54=2|38=100|40=2|44=150|"),
            (11, "F", "11=C2|41=A4|55=AAPL|54=2|"),
            (12, "H", "11=A4|55=AAPL|54=2|"),
        ] {
            let request = copier.next;
            copier.send(msg_type, fields);
            copier.expect(&format!(
                "35=j|34={number}|45={request}|372={msg_type}|380={code}|58=a drop copy takes no orders|"
            ));
        }
        let (next, alice_next) = (copier.next, alice.next);

        // The files that a crash of the machine would leave now, with a snapshot of them.
        let dead = tempfile::tempdir().unwrap();
        let files = dead.path().join("journal");
        copy(&folder.path().join("journal"), &files);
        running.stop().unwrap();
        let sequence = snapshot(&files);
        let running =
            venue::start(&copied(dead.path(), &by_udp, name), SystemClock::start()).unwrap();
        assert_eq!(running.started()["recovered"]["snapshot"]["sequence"], sequence);
        let (mut alice, _) = FixClient::log_on(&running, version, "ALICE", alice_next, "");
        alice.send("F", "11=A5|41=A4|55=AAPL|54=2|");
        while !alice.read().contains("39=4|11=A5|") {}
        let (mut copier, answer) = FixClient::log_on(&running, version, "COPY", next, "");
        assert!(answer.starts_with("35=A|34=14|"), "the cancel is before it: {answer}");
        copier.send("2", "7=3|16=13|");
        for (number, report) in (3..).zip(&reports) {
            let again = format!("34={number}|43=Y|");
            assert_eq!(copier.read(), report.replacen(&format!("34={number}|"), &again, 1));
        }
        // The refusals are application messages too.
        for number in 10..=12 {
            assert!(copier.read().starts_with(&format!("35=j|34={number}|43=Y|")));
        }
        assert_eq!(said(&copier.read()), "115=ALICE|150=4|39=4|11=A5|38=90|151=0|14=50");
        copier.log_out();
        running.stop().unwrap();
    }
}

/// A drop copy that reads nothing delays no other session: orders by FIX are answered, and when it comes back it gets
/// all reports.
#[test]
fn a_slow_drop_copy_holds_nothing_up() {
    const ORDERS: u64 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let by_udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut small = copied(folder.path(), &by_udp, "4.4");
    let fix = small.order_entry_fix.as_mut().unwrap();
    fix.reply_store = venue::config::Bytes(1 << 20);
    let running = venue::start(&small, SystemClock::start()).unwrap();
    let (copier, answer) = FixClient::log_on(&running, Version::Fix44, "COPY", 1, "");
    assert!(answer.starts_with("35=A|34=1|"), "{answer}");
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    for number in 1..=ORDERS {
        alice.send("D", &format!("11=A{number}|55=AAPL|54=2|38=100|40=2|44=150|59=3|"));
        // Accepted, and canceled because no order trades.
        assert!(alice.read().contains(&format!("39=0|11=A{number}|")));
        assert!(alice.read().contains(&format!("39=4|11=A{number}|")));
    }
    drop(copier);
    let (mut copier, answer) = loop {
        let (copier, answer) = FixClient::log_on(&running, Version::Fix44, "COPY", 2, "");
        if answer != "closed" {
            break (copier, answer);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert_eq!(answer, format!("35=A|34={}|98=0|108=1000|", 2 * ORDERS + 2));
    copier.send("2", &format!("7=2|16={}|", 2 * ORDERS + 1));
    for number in 2..2 * ORDERS + 2 {
        let report = copier.read();
        assert!(report.starts_with(&format!("35=8|34={number}|43=Y|115=ALICE|")), "{report}");
        assert!(report.contains(&format!("|11=A{}|", number / 2)), "{report}");
    }
    copier.log_out();
    running.stop().unwrap();
}
