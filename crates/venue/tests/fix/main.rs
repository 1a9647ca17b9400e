//! FIX order entry over real sockets: orders and their reports, faults, and the example of the docs.

mod client;
mod complaints;
mod drop_copy;
mod faults;
mod instruments;
mod market_data;
mod restarts;

use std::{io::Write, path::Path, process::Command, thread, time::Duration};

use venue::clock::SystemClock;
use wire::fix::Version;

use crate::client::{FixClient, config};

const IDS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-123456789";

/// A day of orders in both versions: each request has the reports of the order state matrices.
#[test]
fn orders_are_reported_by_the_matrices() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
        let old = version == Version::Fix42;
        // ExecTransType and ExecType as each version writes them.
        let kind = |transaction: char, in_42: char, in_44: char| match old {
            true => format!("20={transaction}|150={in_42}|"),
            false => format!("150={in_44}|"),
        };
        let (mut alice, answer) = FixClient::log_on(&running, version, "ALICE", 1, "141=Y|");
        assert_eq!(answer, "35=A|34=1|98=0|108=1000|141=Y|");
        let (mut bob, answer) = FixClient::log_on(&running, version, "BOB", 1, "");
        assert_eq!(answer, "35=A|34=1|98=0|108=1000|");

        alice.send("D", &format!("11={IDS}|21=1|55=AAPL|54=2|38=100|40=2|44=150.00|59=0|"));
        let new = kind('0', '0', '0');
        alice.expect(&format!(
            "35=8|34=2|37=1|17=E1|{new}39=0|11={IDS}|55=AAPL|54=2|38=100|40=2|44=150|59=0|151=100|\
             14=0|6=0|"
        ));
        bob.send("D", "11=B1|21=1|55=AAPL|54=1|38=40|40=2|44=150.01|59=3|");
        bob.expect(&format!(
            "35=8|34=2|37=2|17=E1|{new}39=0|11=B1|55=AAPL|54=1|38=40|40=2|44=150.01|59=3|151=40|\
             14=0|6=0|"
        ));
        let fill = kind('0', '2', 'F');
        bob.expect(&format!(
            "35=8|34=3|37=2|17=T1B|{fill}39=2|11=B1|55=AAPL|54=1|38=40|40=2|44=150.01|59=3|32=40|\
             31=150|151=0|14=40|6=150|"
        ));
        let part = kind('0', '1', 'F');
        alice.expect(&format!(
            "35=8|34=3|37=1|17=T1S|{part}39=1|11={IDS}|55=AAPL|54=2|38=100|40=2|44=150|59=0|32=40|\
             31=150|151=60|14=40|6=150|"
        ));

        // A replacement keeps OrderID and CumQty, and names the order before.
        alice.send("G", &format!("11=A2|41={IDS}|21=1|55=AAPL|54=2|38=200|40=2|44=150.35|59=0|"));
        let replaced = kind('0', '5', '5');
        alice.expect(&format!(
            "35=8|34=4|37=1|17=E3|{replaced}39=1|11=A2|41={IDS}|55=AAPL|54=2|38=200|40=2|44=150.35|\
             59=0|151=160|14=40|6=150|"
        ));
        // The order before is no longer there.
        alice.send("F", &format!("11=A3|41={IDS}|55=AAPL|54=2|38=200|"));
        alice.expect(&format!(
            "35=9|34=5|37=1|11=A3|41={IDS}|39=4|434=1|102=0|58=too late: the order is done|"
        ));
        bob.send("D", "11=B2|21=1|55=AAPL|54=1|38=10|40=1|59=0|");
        bob.read();
        bob.read();
        // The average of 40 at 150.00 and 10 at 150.35.
        alice.expect(&format!(
            "35=8|34=6|37=1|17=T2S|{part}39=1|11=A2|55=AAPL|54=2|38=200|40=2|44=150.35|59=0|32=10|\
             31=150.35|151=150|14=50|6=150.07|"
        ));
        alice.send("H", "11=A2|55=AAPL|54=2|");
        let (id, status) =
            if old { ("0", kind('3', '1', 'I')) } else { ("E5", kind('3', '1', 'I')) };
        alice.expect(&format!(
            "35=8|34=7|37=1|17={id}|{status}39=1|11=A2|55=AAPL|54=2|38=200|40=2|44=150.35|59=0|\
             151=150|14=50|6=150.07|"
        ));
        // A total that is executed already cancels the balance.
        alice.send("G", "11=A4|41=A2|21=1|55=AAPL|54=2|38=50|40=2|44=150.35|59=0|");
        let balance = alice.read();
        assert!(balance.contains("39=2|11=A4|41=A2|"), "{balance}");
        assert!(balance.contains("38=50|") && balance.contains("151=0|14=50|"), "{balance}");

        // Cancels: of an order, of one already done, of one that never existed.
        alice.send("D", "11=A5|21=1|55=AAPL|54=1|38=10|40=2|44=1|");
        alice.read();
        alice.send("F", "11=A6|41=A5|55=AAPL|54=1|");
        let canceled = kind('0', '4', '4');
        let report = alice.read();
        assert!(report.contains(&format!("{canceled}39=4|11=A6|41=A5|")), "{report}");
        assert!(report.contains("151=0|14=0|6=0|"), "{report}");
        alice.send("F", "11=A7|41=A5|55=AAPL|54=1|");
        assert!(alice.read().contains("11=A7|41=A5|39=4|434=1|102=0|"));
        alice.send("F", "11=A8|41=NEVER|55=AAPL|54=1|");
        alice.expect(
            "35=9|34=12|37=NONE|11=A8|41=NEVER|39=8|434=1|102=1|58=OrigClOrdID names no order|",
        );

        // Rejections: by the engine, of a name already used, of a value that is not supported.
        let rejected = kind('0', '8', '8');
        alice.send("D", "11=A9|21=1|55=NONE|54=1|38=10|40=2|44=1|");
        let report = alice.read();
        assert!(
            report.contains(&format!("37=NONE|17=E9|{rejected}39=8|11=A9|55=NONE|")),
            "{report}"
        );
        assert!(report.ends_with("151=0|14=0|6=0|103=1|58=unknown symbol|"), "{report}");
        alice.send("D", "11=A2|21=1|55=AAPL|54=1|38=10|40=2|44=1|");
        assert!(alice.read().ends_with("103=6|58=ClOrdID was used before|"));
        alice.send("D", "11=A10|21=1|55=AAPL|54=1|38=10|40=2|");
        assert!(alice.read().contains("Price, StopPx"));
        alice.send("D", "11=A11|21=1|55=AAPL|54=1|38=10|40=D|44=1|");
        assert!(alice.read().contains("is not offered"));

        // The session rejects a message with a fault; the application rejects an unsupported one.
        let number = alice.next;
        alice.send("D", "11=A12|21=1|55=AAPL|54=1|38=ten|40=2|44=1|");
        assert!(alice.read().contains(&format!("45={number}|371=38|372=D|373=6|")));
        alice.send("E", "66=L1|");
        assert!(alice.read().contains("372=E|380=3|"));

        if !old {
            // A mass cancel reports each order, then itself.
            alice.send("D", "11=M1|55=AAPL|54=1|38=10|40=2|44=1|");
            alice.send("D", "11=M2|55=MSFT|54=1|38=10|40=2|44=1|111=3|");
            alice.send("q", "11=M3|530=7|");
            let reports: Vec<String> = (0..5).map(|_| alice.read()).collect();
            assert!(reports[2].contains("150=4|39=4|11=M1|") && reports[3].contains("11=M2|"));
            assert!(reports[4].contains("35=r|") && reports[4].ends_with("530=7|531=7|533=2|"));
        }
        alice.log_out();
        bob.log_out();
        running.stop().unwrap();
    }
}

/// Stops, icebergs, pegs, expiries, minimum quantities: terms that OUCH cannot express are entered by their tags.
#[test]
fn standard_tags_reach_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    for (fields, echoed) in [
        ("40=3|99=151.5|", "40=3|99=151.5|59=0|"),
        ("40=4|99=151.5|44=152|", "40=4|44=152|99=151.5|59=0|"),
        ("40=2|44=1|111=5|", "40=2|44=1|59=0|"),
        ("40=2|44=1|110=5|", "40=2|44=1|59=0|"),
        ("40=2|44=1|59=6|126=20990101-00:00:00|", "40=2|44=1|59=6|"),
        ("40=2|44=1|59=6|432=20990101|", "40=2|44=1|59=6|"),
        ("40=2|44=1|59=1|", "40=2|44=1|59=1|"),
        ("40=2|44=1|18=6|", "40=2|44=1|59=0|"),
        ("40=J|99=149|", "40=J|99=149|59=0|"),
        ("40=P|44=1|18=R|", "40=P|44=1|59=0|"),
    ] {
        let number = alice.next;
        alice.send("D", &format!("11=A{number}|55=AAPL|54=1|38=10|{fields}"));
        let report = alice.read();
        assert!(report.contains("150=0|39=0|") && report.contains(echoed), "{fields}: {report}");
        if fields.contains("40=P|") {
            // The pegged order has no price to follow, and its report says so.
            assert!(alice.read().contains("150=D|39=0|"), "{fields}");
        }
    }
    for fields in
        ["40=2|44=1|59=6|", "40=2|44=1|126=20990101-00:00:00|", "40=3|", "40=2|44=1|99=2|", "40=P|"]
    {
        let number = alice.next;
        alice.send("D", &format!("11=A{number}|55=AAPL|54=1|38=10|{fields}"));
        assert!(alice.read().contains("150=8|39=8|"), "{fields}");
    }
    alice.log_out();
    running.stop().unwrap();
}

/// Logons that cannot be answered are closed without a message. So is a second connection of a name, and the first one
/// stays. An OUCH session and a FIX session have names of their own.
#[test]
fn logons_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix42, "ALICE", 1, "");
    for (name, msg_type, fields) in [
        ("ALICE", "A", "98=0|108=30|95=5|96=alice|"),
        ("BOB", "A", "98=0|108=30|95=5|96=wrong|"),
        ("BOB", "A", "98=1|108=30|95=3|96=bob|"),
        ("BOB", "A", "98=0|95=3|96=bob|"),
        ("NOBODY", "A", "98=0|108=30|95=3|96=bob|"),
        ("USER01", "A", "98=0|108=30|95=10|96=password01|"),
        ("BOB", "0", ""),
    ] {
        let mut other = FixClient::connect(&running, Version::Fix42, name, 1);
        other.send(msg_type, fields);
        other.expect("closed");
    }
    alice.send("1", "112=STILL|");
    alice.expect("35=0|34=2|112=STILL|");
    alice.log_out();
    running.stop().unwrap();
}

/// The examples of docs/connect.md run, each twice in a row. Skipped where Python is not installed.
#[test]
fn the_examples_of_the_docs_run() {
    let folder = tempfile::tempdir().unwrap();
    let port = "[market_data_fix]\naddress = \"127.0.0.1:0\"\n";
    let running = venue::start(&config(folder.path(), port), SystemClock::start()).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/connect.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (title, written, name) in [
        ("\n## FIX\n", "26402", "order_entry_fix"),
        ("\n### Market data by FIX\n", "26405", "market_data_fix"),
    ] {
        let section = &page[page.find(title).expect("there is such a section")..];
        let start = section.find("```python\n").unwrap() + "```python\n".len();
        let script = &section[start..start + section[start..].find("```").unwrap()];
        let address = running.started()["addresses"][name].as_str().unwrap();
        let (_, port) = address.rsplit_once(':').unwrap();
        assert!(script.contains(written));
        let script = script.replace(written, port);
        for run in 1..=2 {
            let Ok(output) = Command::new("python3").args(["-c", &script]).output() else {
                eprintln!("skipped: python3 is not installed");
                break;
            };
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name}, run {run}: {errors}");
        }
    }
    running.stop().unwrap();
}

/// Garbled bytes are skipped and appear as a gap; faults of the session have their reasons; orders are canceled with
/// their connection if the participant is configured so.
#[test]
fn faults_and_cuts() {
    let folder = tempfile::tempdir().unwrap();
    let running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    let (mut bob, _) = FixClient::log_on(&running, Version::Fix42, "BOB", 1, "");
    bob.stream.write_all(b"8=FIX.4.2\x019=5\x0135=0\x0110=999\x01").unwrap();
    bob.next += 1;
    bob.send("0", "");
    bob.expect("35=2|34=2|7=2|16=0|");
    bob.send_as(2, "4", "43=Y|123=Y|36=4|");
    bob.send("2", "7=900|16=0|");
    bob.expect("35=3|34=3|45=4|371=7|372=2|373=5|58=value out of range|");
    bob.send("4", "123=N|36=2|");
    bob.expect("35=3|34=4|45=5|371=36|372=4|373=5|58=value out of range|");
    bob.next = 9;
    bob.send_as(1, "4", "123=N|36=9|");
    bob.send("D", "11=B1|21=1|55=AAPL|54=2|38=100|40=2|44=150|");
    assert!(bob.read().contains("39=0|11=B1|"));
    drop(bob.stream);

    // Until the venue has seen the end of the first connection, it refuses the second.
    let mut bob = loop {
        let (bob, answer) = FixClient::log_on(&running, Version::Fix42, "BOB", 10, "");
        if answer != "closed" {
            break bob;
        }
        thread::sleep(Duration::from_millis(10));
    };
    // The report of the cancel comes before or after the Logon.
    bob.send("2", "7=6|16=7|");
    bob.send("H", "11=B1|55=AAPL|54=2|");
    let mut canceled = false;
    loop {
        let message = bob.read();
        canceled |=
            message.contains("39=4|11=B1|") && message.ends_with("58=canceled by the venue|");
        if message.contains("20=3|") {
            assert!(message.contains("150=4|39=4|11=B1|"), "{message}");
            break;
        }
    }
    assert!(canceled, "the cancel was reported");
    bob.send("D", "11=B1|21=1|55=AAPL|54=2|38=100|40=2|44=150|");
    assert!(bob.read().ends_with("58=ClOrdID was used before|"));
    // A message sent again as possibly known (97=Y) gets no second answer.
    bob.send("D", "97=Y|11=B1|21=1|55=AAPL|54=2|38=100|40=2|44=150|");
    bob.send("1", "112=NEXT|");
    assert!(bob.read().contains("112=NEXT|"));
    bob.log_out();
    running.stop().unwrap();
}
