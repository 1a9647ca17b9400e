//! A day of one venue, recorded, made into orders, and replayed into another venue over sockets.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    path::Path,
    sync::atomic::AtomicBool,
};

use client::{
    participant,
    recording::{Format, PacketForm, Recorded, RecordingWriter},
};
use lab::{
    load::{self, LoadOptions, LoadReport, LoadSession, LoadSymbol},
    schedule::Arrivals,
};
use market::{Price, Symbol};
use serde_json::{Value, json};
use venue::{Running, clock::SystemClock, config::Config};
use wire::soupbintcp::LoginRequest;

use crate::{
    program::{damrak, stderr},
    whole_venue::{address, config},
};

const SESSIONS: usize = 3;
const SYMBOLS: [&str; 3] = ["AAPL", "MSFT", "NVDA"];

fn start(config: &Config) -> Running {
    venue::start(config, SystemClock::start()).unwrap()
}

fn login(number: usize) -> LoginRequest {
    LoginRequest::new(&format!("user{number:02}"), &format!("password{number:02}")).unwrap()
}

fn sessions(running: &Running) -> Vec<LoadSession> {
    let server = address(running, "order_entry");
    (1..=SESSIONS).map(|number| LoadSession::Tcp { server, login: login(number) }).collect()
}

fn run(options: &LoadOptions) -> LoadReport {
    let clock = SystemClock::start();
    load::run(options, &clock, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// Records the whole feed of a venue as a BinaryFILE, once all its messages are published.
fn record(running: &Running, path: &Path) {
    let count = running.feed_messages();
    let messages = participant::collect(
        address(running, "feed_tcp"),
        login(1),
        1,
        count as usize,
        200_000_000,
        &SystemClock::start(),
    );
    let form = PacketForm {
        from: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1),
        to: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1),
        session: *b"0000000001",
        packet_len_max: 1_400,
    };
    let mut writer =
        RecordingWriter::new(fs::File::create(path).unwrap(), Format::BinaryFile, form, b"")
            .unwrap();
    for (number, message) in (1..).zip(&messages.unwrap()) {
        let recorded = Recorded { session: None, number, received_ns: None, message };
        writer.write(recorded).unwrap();
    }
    writer.finish().unwrap();
}

fn json_of(arguments: &[&str], code: i32) -> Value {
    let output = damrak(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A day made by a load on one venue leads to the same books in a fresh one, trade by trade, over several sessions and
/// whatever the order of their packets; the feed of the fresh venue then equals the day.
#[test]
fn a_replayed_day_leads_to_the_same_books() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [day, orders, instruments, venue, again] =
        ["day.itch", "orders.csv.gz", "instruments.csv", "venue.toml", "again.itch"].map(path);

    let first = folder.path().join("first");
    fs::create_dir(&first).unwrap();
    let running = start(&config(&first, "[throttle]\nmessages_per_second = 0\n"));
    let symbols = SYMBOLS.map(|symbol| LoadSymbol {
        symbol: Symbol::new(symbol).unwrap(),
        mid: Price(1_500_000),
        price_increment: Price(100),
    });
    let mut options = LoadOptions::new(sessions(&running), symbols.to_vec(), 20_000, 500_000_000);
    options.arrivals = Arrivals::Poisson;
    options.grace_ns = 60_000_000_000;
    let made = run(&options);
    assert!(made.counts.fills > 100, "{made}");
    record(&running, Path::new(&day));
    running.stop().unwrap();

    let report = json_of(
        &[
            "feed",
            "to-orders",
            &day,
            &orders,
            "--instruments",
            &instruments,
            "--venue",
            &venue,
            "--json",
        ],
        0,
    );
    assert_eq!(report["divergences"], json!([]), "{report}");
    let rows = report["rows"].as_u64().unwrap();
    assert!(rows > 5_000 && report["requests"]["takes"].as_u64().unwrap() > 50, "{report}");

    let second = folder.path().join("second");
    fs::create_dir(&second).unwrap();
    let text = fs::read_to_string(&venue).unwrap();
    let running = start(&config(&second, &text));
    let server = address(&running, "order_entry").to_string();
    let report = json_of(
        &[
            "load",
            "--replay",
            &orders,
            "--instruments",
            &instruments,
            "--connections",
            "3",
            "--to",
            &server,
            "--closed-loop",
            "64",
            "--grace",
            "60s",
            "--threads",
            "2",
            "--json",
        ],
        0,
    );
    let sum =
        |names: [&str; 3]| names.iter().map(|name| report[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum(["enters", "cancels", "replaces"]), rows, "{report}");
    assert_eq!(
        [&report["rejected"], &report["unanswered"], &report["superfluous"], &report["unexpected"]],
        [0, 0, 0, 0].map(|it| json!(it)).each_ref(),
        "{report}"
    );
    record(&running, Path::new(&again));
    running.stop().unwrap();

    let compared = json_of(&["feed", "compare", &day, &again, "--json"], 0);
    assert_eq!(
        (&compared["parted"], &compared["books"], &compared["divergences"]),
        (&json!([]), &json!([]), &json!([]))
    );
    assert_eq!(compared["trades_missing"]["messages"], 0);
    assert!(compared["agreed"].as_u64().unwrap() >= report["replies"].as_u64().unwrap() / 2);

    // A feed that ends early is not the day.
    let bytes = fs::read(&again).unwrap();
    let mut end = bytes.len() / 2;
    let mut at = 0;
    while at < end {
        at += 2 + usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    }
    end = at;
    fs::write(&again, &bytes[..end]).unwrap();
    let compared = json_of(&["feed", "compare", &day, &again, "--json"], 4);
    assert!(!compared["parted"].as_array().unwrap().is_empty(), "{compared}");
    // A torn feed is no recording.
    fs::write(&again, &bytes[..end + 1]).unwrap();
    for arguments in
        [&["feed", "compare", &day, &again][..], &["feed", "to-orders", &again, &orders]]
    {
        let output = damrak(arguments);
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        assert!(stderr(&output).contains("cut short"), "{}", stderr(&output));
    }
}

/// The times in the file decide when its rows are sent, and its participants decide the session; an invalid file is
/// reported with its line.
#[test]
fn a_load_sends_recorded_rows_when_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [orders, instruments] = ["orders.csv", "instruments.csv"].map(path);
    let header =
        "symbol,base,quote,price_decimals,quantity_decimals,base_decimals,quote_decimals\n";
    fs::write(&instruments, format!("{header}AAPL,AAPL,USD,2,0,0,2\n")).unwrap();
    fs::write(
        &orders,
        "time_ns,order_id,participant,action,symbol,side,price,quantity\n\
         1000000000,1,A,place,AAPL,buy,150.00,10\n\
         1000000000,1,B,place,AAPL,sell,150.00,4\n\
         1400000000,1,A,cancel,AAPL,,,\n",
    )
    .unwrap();
    let running = start(&config(folder.path(), ""));
    let server = address(&running, "order_entry").to_string();
    let load = |more: &[&str], code| {
        let all = [
            &[
                "load",
                "--grace",
                "60s",
                "--replay",
                &orders,
                "--instruments",
                &instruments,
                "--to",
                &server,
                "--json",
            ],
            more,
        ];
        json_of(&all.concat(), code)
    };
    let report = load(&["--connections", "2", "--speed", "2"], 0);
    assert_eq!((&report["enters"], &report["cancels"]), (&json!(2), &json!(1)), "{report}");
    assert_eq!((&report["fills"], &report["shares"]), (&json!(2), &json!(8)), "{report}");
    assert_eq!(report["requested_per_second"], Value::Null);
    assert!(report["seconds"].as_f64().unwrap() >= 0.2, "{report}");
    // Numbers continue where the session left off.
    let report = load(&["--connections", "2", "--rate", "1000/s"], 0);
    assert_eq!((&report["accepted"], &report["rejected"]), (&json!(2), &json!(0)), "{report}");

    for (row, what) in [
        ("1,3,A,modify,AAPL,buy,,3", "a place, a cancel or a replace"),
        ("1,3,C,place,AAPL,buy,1.00,3", "a load needs a session for each"),
        ("x,3,A,place,AAPL,buy,1.00,3", "time_ns"),
    ] {
        let text = fs::read_to_string(&orders).unwrap();
        let wrong = path("wrong.csv");
        fs::write(&wrong, format!("{text}{row}\n")).unwrap();
        let output = damrak(&[
            "load",
            "--replay",
            &wrong,
            "--instruments",
            &instruments,
            "--to",
            &server,
            "--speed",
            "1000",
            "--connections",
            "2",
        ]);
        assert_eq!(output.status.code(), Some(1), "{row}: {}", stderr(&output));
        let text = stderr(&output);
        assert!(text.contains(what) && text.contains("line 5"), "{row}: {text}");
    }
    running.stop().unwrap();
}
