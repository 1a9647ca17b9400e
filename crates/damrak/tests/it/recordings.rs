//! Recordings of a feed: converted to other forms, sent again, and received as a feed.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::program::{damrak, free_address, stderr};

/// A day written by hand: two instruments, three orders, a trade. Fields that a message does not have are empty.
const DAY: &str = "\
message_type,stock_locate,timestamp,event_code,stock,market_category,round_lot_size,trading_state,\
order_reference_number,buy_sell_indicator,shares,price,executed_shares,match_number
S,0,34200000000000,O,,,,,,,,,,
R,1,34200000000000,,AAPL,Q,100,,,,,,,
R,2,34200000000000,,MSFT,Q,100,,,,,,,
H,1,34200000000000,,AAPL,,,T,,,,,,
H,2,34200000000000,,MSFT,,,T,,,,,,
A,1,34200050000000,,AAPL,,,,7,B,300,150.34,,
A,1,34200050000001,,AAPL,,,,8,S,200,150.35,,
A,2,34200060000000,,MSFT,,,,9,S,500,400.0001,,
E,1,34200100000000,,,,,,7,,,,100,1
";

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

fn converted(from: &str, to: &str) -> Value {
    let output = damrak(&["feed", "convert", from, to, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A recording keeps its messages through every form, and its table can be read on standard output.
#[test]
fn a_recording_takes_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let [day, itch, pcap, again, table] =
        ["day.csv", "day.itch", "day.pcap", "again.itch", "again.csv"]
            .map(|name| path(folder.path(), name));
    fs::write(&day, DAY).unwrap();
    for (from, to) in [(&day, &itch), (&itch, &pcap), (&pcap, &again), (&again, &table)] {
        let report = converted(from, to);
        assert_eq!((&report["messages"], &report["written"]), (&json!(9), &json!(9)), "{report}");
    }
    assert_eq!(fs::read(&itch).unwrap(), fs::read(&again).unwrap());
    let output = damrak(&["feed", "convert", &itch, "-", "--types", "AE"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 5, "{text}");
    assert_eq!(rows[3], "8,,MSFT,A,2,0,34200060000000,9,S,500,MSFT,400.0001,,");
    assert_eq!(rows[4], "9,,AAPL,E,1,0,34200100000000,7,,,,,100,1");

    for (arguments, code, what) in [
        (vec!["convert", &itch, "-", "--types", "Az"], 2, "--types has 'z'"),
        (vec!["convert", &itch, &itch], 2, "cannot be written while it is read"),
        (vec!["convert", "no-such-file", "-"], 2, "cannot read no-such-file"),
        (vec!["replay", &itch, "--to", "127.0.0.1:9", "--speed", "0"], 2, "a number above 0"),
        (vec!["replay", &itch, "--to", "127.0.0.1:9", "--session", "x"], 2, "10 characters"),
    ] {
        let output = damrak(&[&["feed"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(what), "{arguments:?}: {}", stderr(&output));
    }
    let cut = &fs::read(&itch).unwrap()[..20];
    fs::write(&itch, cut).unwrap();
    let output = damrak(&["feed", "convert", &itch, "-"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("its last record begins at byte 14"), "{}", stderr(&output));
}

/// A recording sent again is received like a feed: from messages, and from packets, each message once and in order,
/// until the session ends.
#[test]
fn a_recording_is_received_again() {
    let folder = tempfile::tempdir().unwrap();
    let [day, itch, pcap, received] =
        ["day.csv", "day.itch", "day.pcap", "received.itch"].map(|name| path(folder.path(), name));
    fs::write(&day, DAY).unwrap();
    converted(&day, &itch);
    converted(&day, &pcap);
    for (recording, speed) in [(&itch, "1"), (&itch, "max"), (&pcap, "0.5x")] {
        let group = free_address().to_string();
        let mut watch = Command::new(env!("CARGO_BIN_EXE_damrak"))
            .args(["feed", "record", &received, "--group", &group, "--from-start"])
            .args(["--re-request", "none"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap());
        let mut first = String::new();
        // The program prints once its socket is open.
        lines.read_line(&mut first).unwrap();
        let arguments = ["feed", "replay", recording, "--to", &group, "--speed", speed];
        let replay = damrak(&[&arguments[..], &["--json"]].concat());
        assert_eq!(replay.status.code(), Some(0), "{}", stderr(&replay));
        let report: Value = serde_json::from_slice(&replay.stdout).unwrap();
        assert_eq!(report["refused"], 0, "{report}");
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        assert!(watch.wait().unwrap().success(), "{first}{rest}");
        assert!(rest.contains("messages 9 "), "{first}{rest}");
        assert_eq!(
            fs::read(&received).unwrap(),
            fs::read(&itch).unwrap(),
            "{recording} at {speed}"
        );
    }
}
