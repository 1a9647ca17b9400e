//! The verbs `snapshot` and `follow`, and a venue that starts from a snapshot, from a user's view.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use client::participant::{self, TcpClient};
use market::{Price, Quantity, Side, Symbol, TimeInForce};
use serde_json::Value;
use venue::{clock::SystemClock, config::Config};
use wire::soupbintcp::{LoginRequest, Timers};

use crate::patience::wait_for;

fn damrak(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_damrak"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn json(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn config(folder: &Path, more: &str) -> Config {
    let text = format!(
        "[journal]\ndirectory = {:?}\n{more}\
         [order_entry]\naddress = \"127.0.0.1:0\"\nreceive_timeout = \"1000s\"\n\
         [order_entry_udp]\naddress = \"127.0.0.1:0\"\n\
         [market_data]\ngroup = \"127.0.0.1:0\"\nre_request = \"127.0.0.1:0\"\nsnapshot = \"127.0.0.1:0\"\ntcp = \"127.0.0.1:0\"\n",
        folder.join("journal")
    );
    Config::parse(&text, "test").unwrap()
}

/// Logs in as user01 from a number on, enters buy orders with these numbers, and returns the messages once there are
/// `wanted` of them.
fn trade(
    running: &venue::Running,
    from: u64,
    orders: std::ops::Range<u32>,
    wanted: usize,
) -> Vec<Vec<u8>> {
    let clock = SystemClock::start();
    let mut login = LoginRequest::new("user01", "password01").unwrap();
    login.sequence_number = Some(from);
    let address = running.started()["addresses"]["order_entry"].as_str().unwrap().parse().unwrap();
    let mut client = TcpClient::connect(address, login, Timers::default(), clock.now_ns()).unwrap();
    let mut messages = Vec::new();
    let mut entered = orders.clone();
    let look = |messages: &mut Vec<Vec<u8>>| {
        client.poll(clock.now_ns(), &mut |_, message| messages.push(message.to_vec())).unwrap();
        if client.is_logged_in()
            && let Some(number) = entered.next()
        {
            let symbol = Symbol::new("AAPL").unwrap();
            let price = Some(Price(1_000_000 + u64::from(number) * 100));
            let order = participant::enter(
                number,
                Side::Buy,
                symbol,
                Quantity(10),
                price,
                TimeInForce::Day,
            );
            client.send(&order, clock.now_ns()).unwrap();
            client.flush().unwrap();
        }
        (entered.is_empty() && messages.len() >= wanted).then_some(())
    };
    wait_for("messages", &mut messages, look, |messages| format!("{} of {wanted}", messages.len()));
    messages
}

/// A venue makes snapshots while it runs, starts from the newest, sends every stream again byte for byte, and
/// continues; old segments are removed if configured. A follower of its journal has its state.
#[test]
fn a_venue_starts_from_its_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let journal = journal.to_str().unwrap();
    let config = config(
        folder.path(),
        "[snapshots]\ninputs = 10\ntime = \"0s\"\nold_segments = \"remove\"\n",
    );
    let running = venue::start(&config, SystemClock::start()).unwrap();
    assert!(running.started()["recovered"]["snapshot"].is_null());
    let mut messages = trade(&running, 1, 1..41, 41);
    let mut running = settle(running, 40);
    let status = running.status();
    running.stop().unwrap();

    let listed = &json(&damrak(&["snapshot", "list", journal, "--json"], ""))[0]["snapshots"];
    assert_eq!(listed[0]["sequence"], status["snapshots"]["sequence"], "{listed}");
    let running = venue::start(&config, SystemClock::start()).unwrap();
    let recovered = running.started()["recovered"].clone();
    assert_eq!(recovered["snapshot"]["sequence"], listed[0]["sequence"], "{recovered}");
    assert_eq!(recovered["digest"], status["digest"]);
    let again = trade(&running, 1, 41..81, 81);
    assert_eq!(again[..41], messages, "all of it comes again");
    messages = again;
    let running = settle(running, 80);
    running.stop().unwrap();

    let running = venue::start(&config, SystemClock::start()).unwrap();
    assert_eq!(trade(&running, 1, 81..81, 81), messages);
    let answers = damrak(
        &["follow", journal, "--json"],
        "counters\nbook AAPL 2\norders user01\ninstruments\nbook NONE\n",
    );
    let answers = json(&answers);
    let mut running = settle(running, 80);
    let status = running.status();
    for figure in ["sequence", "digest", "orders", "live_orders", "trades"] {
        assert_eq!(answers[0][figure], status[figure], "{figure}");
    }
    assert_eq!(answers[1]["bids"][0]["price"], 1_008_000, "{}", answers[1]);
    assert_eq!(answers[2]["orders"].as_array().unwrap().len(), 80);
    assert_eq!(answers[3]["instruments"][0], "AAPL");
    assert_eq!(answers[4]["event"], "error");
    running.stop().unwrap();
    let verified = json(&damrak(&["snapshot", "verify", journal, "--json"], ""));
    assert_eq!(
        (&verified[0]["bad"], verified[0]["snapshots"].as_array().unwrap().len()),
        (&Value::from(0), 2)
    );
}

/// Waits until the core has this many live orders, and the newest snapshot covers nearly all of them.
fn settle(mut running: venue::Running, live_orders: u64) -> venue::Running {
    let look = |running: &mut venue::Running| {
        let status = running.status();
        let number = |value: &Value| value.as_u64().unwrap();
        let behind =
            number(&status["sequence"]).saturating_sub(number(&status["snapshots"]["sequence"]));
        (number(&status["live_orders"]) == live_orders && behind < 10).then_some(())
    };
    wait_for("a snapshot", &mut running, look, |running| running.status().to_string());
    running
}

/// Snapshots are made offline, at any sequence; a damaged one is reported and ignored.
#[test]
fn snapshots_are_made_listed_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = path.to_str().unwrap();
    let config = config(folder.path(), "");
    let running = venue::start(&config, SystemClock::start()).unwrap();
    trade(&running, 1, 1..21, 21);
    running.stop().unwrap();

    assert_eq!(damrak(&["snapshot", "list", journal], "").stdout, b"no snapshot\n");
    let made = &json(&damrak(&["snapshot", "make", journal, "--at", "15", "--json"], ""))[0];
    assert_eq!((&made["sequence"], &made["began_with"]), (&Value::from(15), &Value::Null));
    let made = &json(&damrak(&["snapshot", "make", journal, "--json"], ""))[0];
    let last = made["sequence"].as_u64().unwrap();
    assert!(last > 25 && made["began_with"] == 15, "{made}");
    let state_hash = made["state_hash"].clone();
    let too_far = damrak(&["snapshot", "make", journal, "--at", "99999"], "");
    assert_eq!(too_far.status.code(), Some(2));
    let verified = &json(&damrak(&["snapshot", "verify", journal, "--replay", "--json"], ""))[0];
    assert_eq!(verified["bad"], 0);
    assert_eq!(verified["snapshots"][0]["replay_equal"], true, "{verified}");

    let newest = path.join(journal::snapshot_file_name(last));
    let mut bytes = fs::read(&newest).unwrap();
    bytes[300] ^= 1;
    fs::write(&newest, bytes).unwrap();
    let verified = damrak(&["snapshot", "verify", journal], "");
    assert_eq!(verified.status.code(), Some(4));
    let output = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(output.contains("a section is damaged"), "{output}");
    let running = venue::start(&config, SystemClock::start()).unwrap();
    let recovered = &running.started()["recovered"];
    assert_eq!(recovered["snapshot"]["sequence"], 15);
    assert_eq!(recovered["replayed"], last - 15);
    assert!(recovered["passed_over"][0].as_str().unwrap().contains("damaged"), "{recovered}");
    assert_eq!(recovered["state_hash"], state_hash);
    running.stop().unwrap();
}

/// A follower stops at the first damaged record, and names the place.
#[test]
fn following_stops_at_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    trade(&running, 1, 1..21, 21);
    running.stop().unwrap();
    let first = path.join(journal::file_name(1));
    let mut bytes = fs::read(&first).unwrap();
    bytes[journal::SEGMENT_HEADER_LEN as usize + 60] ^= 1;
    fs::write(&first, bytes).unwrap();
    let followed = damrak(&["follow", path.to_str().unwrap()], "counters\n");
    assert_eq!(followed.status.code(), Some(4));
    let output = String::from_utf8_lossy(&followed.stderr).into_owned();
    assert!(output.contains("00000000000000000001.damrak, byte "), "{output}");
}
