//! `damrak load` from a user's view, on a venue of known speed.

use std::os::fd::AsFd;

use lab::load::{NullVenue, NullVenueFaults};
use serde_json::{Value, json};
use venue::clock::SystemClock;

use super::program::{Venue, config, damrak, free_address, stderr};

/// A venue that takes half of the requested rate: the run reports it and ends with 5. A slow machine only makes
/// latencies longer and rates lower, so this test does not depend on speed.
#[test]
fn half_of_the_rate_asked_is_exit_code_5() {
    const PER_SECOND: u64 = 1_000;
    let faults = NullVenueFaults { per_second_max: Some(PER_SECOND), ..NullVenueFaults::default() };
    let clock = SystemClock::start();
    let venue = NullVenue::with_faults(faults, move || ring::Clock::now_ns(&clock)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("figures");
    let output = damrak(&[
        "load",
        "--json",
        "--no-floor",
        "--to",
        &venue.tcp.to_string(),
        "--session",
        "n0:SECRET",
        "--rate",
        "2k/s",
        "--for",
        "1s",
        "--slo",
        "answered>=1500/s,p99<200ms,max<3600s",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    let load: Value = serde_json::from_slice(&output.stdout).unwrap();
    let passed: Vec<&Value> =
        load["slo"].as_array().unwrap().iter().map(|result| &result["passed"]).collect();
    assert_eq!(passed, [&json!(false), &json!(false), &json!(true)], "{load}");
    assert_eq!((&load["passed"], &load["requested_per_second"]), (&json!(false), &json!(2_000)));
    assert!(load["answered_per_second"].as_u64() <= Some(PER_SECOND + PER_SECOND / 10), "{load}");
    assert_ne!(load["limit"], "none", "{load}");
    // The last of 2,000 requests was due after a second, and is answered after two at the earliest.
    let latency = |name: &str| load["latency_ns"][name].as_u64().unwrap();
    assert!(latency("max") >= 900_000_000, "{load}");
    assert!(latency("p50") >= 400_000_000, "{load}");
    assert!(folder.path().join("figures/load.json").exists());
}

/// A load waits for the last answers as long as it is asked to; a venue that is mute leaves it waiting to the end.
#[test]
fn a_load_waits_for_the_last_answers() {
    let faults = NullVenueFaults { mute_from: Some(5), ..NullVenueFaults::default() };
    let clock = SystemClock::start();
    let venue = NullVenue::with_faults(faults, move || ring::Clock::now_ns(&clock)).unwrap();
    let to = venue.tcp.to_string();
    let start = ["load", "--json", "--no-floor", "--to", &to, "--session", "n0:SECRET"];
    let load = ["--rate", "100/s", "--for", "100ms", "--grace", "3s"];
    let output = damrak(&[&start[..], &load].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(figures["unanswered"].as_u64() > Some(0), "{figures}");
    assert!(figures["seconds"].as_f64() >= Some(3.0), "{figures}");
}

/// A load by FIX: every request is answered as by OUCH, in both versions, and a second run begins anew.
#[test]
fn load_by_fix_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(
        folder.path(),
        "[order_entry_fix]\naddress = \"127.0.0.1:0\"\ncomp_id = \"VENUE\"\n\
         [[participants]]\nusername = \"ALICE\"\npassword = \"alice\"\nprotocol = \"fix\"\nfirm = \"FIRM\"\n",
    );
    let (_venue, started) = Venue::start(&path, &[]);
    let address = started["addresses"]["order_entry_fix"].as_str().unwrap().to_owned();
    let load = |more: &[&str]| {
        let start =
            ["load", "--json", "--grace", "60s", "--to-fix", &address, "--fix", "ALICE:alice"];
        let output = damrak(&[&start[..], &["--fix-venue", "VENUE", "--for", "1s"], more].concat());
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output, figures)
    };
    for version in ["4.2", "4.4"] {
        let (output, figures) = load(&["--fix-version", version, "--rate", "1k/s"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let count = |name: &str| figures[name].as_u64().unwrap();
        assert_eq!(count("requests"), 1_000, "{figures}");
        assert_eq!(count("replies") + count("superfluous"), 1_000, "{figures}");
        for name in ["unanswered", "unexpected", "duplicates", "rejected"] {
            assert_eq!(count(name), 0, "{name}: {figures}");
        }
        assert_eq!(count("accepted"), count("enters"), "{figures}");
        for name in ["fills", "shares", "canceled", "replaced"] {
            assert!(count(name) > 0, "{name}: {figures}");
        }
        assert_eq!(figures["protocols"], json!([format!("FIX {version}")]));
        assert_eq!(figures["floor"], Value::Null);
        assert!(!figures["command"].as_str().unwrap().contains(":alice"), "{figures}");
    }
    let (output, figures) = load(&["--symbols", "NOPE", "--rate", "100/s"]);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert_eq!(figures["rejects"]["invalid symbol"], figures["rejected"], "{figures}");
    assert_eq!(damrak(&["load", "--fix", "ALICE"]).status.code(), Some(2));
    assert_eq!(damrak(&["load", "--fix", "A:b", "--fix-version", "5"]).status.code(), Some(2));
}

/// A sweep runs each cell once: the second time the results exist, and a cell whose result is gone runs again.
#[test]
fn a_sweep_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("sweep.toml"), folder.path().join("out"));
    let text = "for = \"200ms\"\n[matrix]\nprotocol = [\"tcp\", \"udp\"]\nconnections = [2]\nrate = [\"1k/s\"]\n\
                layout = [\"single\"]\ngrace = [\"60s\"]\n";
    std::fs::write(&file, text).unwrap();
    let sweep = || {
        let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
        let output = damrak(&["lab", "sweep", file, "--out", out, "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let sweep: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(sweep["cells_total"], 2, "{sweep}");
        let cells = sweep["cells"].as_array().unwrap().clone();
        let answered = |cell: &Value| {
            let count = |name: &str| cell["figures"][name].as_u64().unwrap();
            assert_eq!(count("requests"), 200, "{cell}");
            assert_eq!(count("replies") + count("superfluous"), 200, "{cell}");
            assert_eq!(count("sessions"), 2, "{cell}");
            let command = cell["figures"]["command"].as_str().unwrap();
            assert!(command.contains("--grace 60s"), "{command}");
        };
        cells.iter().for_each(answered);
        cells.iter().map(|cell| cell["earlier"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sweep(), [false, false]);
    assert_eq!(sweep(), [true, true]);
    std::fs::remove_file(out.join("protocol-udp/load.json")).unwrap();
    assert_eq!(sweep(), [true, false]);
    assert!(!out.join("protocol-udp/journal").exists(), "journals do not stay");
}

/// A venue shows the times of orders from stage to stage, and a load reports those of its own period. Each order is
/// answered before the next is sent, so followed orders have passed every stage, however slow the machine is.
#[test]
fn a_load_shows_the_stages_of_the_venue() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(
        folder.path(),
        "[admin]\naddress = \"127.0.0.1:0\"\n\
         [[participants]]\nusername = \"user01\"\npassword = \"pass01\"\nfirm = \"FIRM\"\n",
    );
    let (_venue, started) = Venue::start(&path, &[]);
    let address = |name: &str| started["addresses"][name].as_str().unwrap().to_owned();
    let (to, admin) = (address("order_entry"), address("admin"));
    let load = |admin: &str| {
        damrak(&[
            "load",
            "--json",
            "--no-floor",
            "--to",
            &to,
            "--session",
            "user01:pass01",
            "--closed-loop",
            "1",
            "--for",
            "500ms",
            "--admin",
            admin,
        ])
    };
    let followed = (0..60).find_map(|_| {
        let output = load(&admin);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
        let legs = figures["stages"]["legs"].as_array().unwrap().clone();
        let counts: Vec<_> = legs.iter().map(|leg| leg["count"].as_u64().unwrap()).collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{figures}");
        (counts[0] > 0).then_some(legs)
    });
    let legs = followed.expect("an order was followed in 30 s");
    let names: Vec<_> = legs.iter().map(|leg| leg["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sequence", "journal", "match", "reply", "feed", "whole"]);
    let longest = |name: &str| {
        let leg = legs.iter().find(|leg| leg["name"] == name).unwrap();
        leg["max_ns"].as_u64().unwrap()
    };
    for part in ["sequence", "match", "reply"] {
        assert!(longest(part) <= longest("whole"), "{part}: {legs:?}");
    }
    let output = load(&to);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("--admin takes"), "{}", stderr(&output));
}

/// A venue configured to measure it shows the time that orders waited in their socket, over TCP and UDP.
#[test]
fn arrivals_are_the_first_leg() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    if let Err(error) = os::stamp_arrivals(socket.as_fd(), os::PacketTimes::Software) {
        println!("skipped: this system has no times of packets: {error}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let local = free_address();
    let path = config(
        folder.path(),
        &format!(
            "[admin]\naddress = \"127.0.0.1:0\"\n[network]\narrival_times = \"software\"\n\
             [[participants]]\nusername = \"user01\"\npassword = \"pass01\"\nfirm = \"FIRM\"\n\
             [[participants]]\nusername = \"user02\"\nudp = \"{local}\"\nfirm = \"FIRM\"\n"
        ),
    );
    let (_venue, started) = Venue::start(&path, &[]);
    let address = |name: &str| started["addresses"][name].as_str().unwrap().to_owned();
    let (tcp, udp, admin) = (address("order_entry"), address("order_entry_udp"), address("admin"));
    let (local, login) = (local.to_string(), "user01:pass01".to_owned());
    let ways = [
        ["--to", &tcp, "--session", &login, "--no-floor"],
        ["--udp", &local, "--to-udp", &udp, "--no-floor"],
    ];
    for way in ways {
        // The kernel takes a moment until it stamps arrivals.
        let has_waits = (0..60).any(|_| {
            let common =
                ["load", "--json", "--closed-loop", "1", "--for", "500ms", "--admin", &admin];
            let output = damrak(&[&common[..], &way].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
            let leg = &figures["stages"]["legs"][0];
            assert_eq!((&leg["name"], &leg["from"]), (&json!("socket"), &json!("arrived")));
            leg["count"].as_u64().unwrap() > 0 && leg["p50_ns"].as_u64().unwrap() > 0
        });
        assert!(has_waits, "{way:?}: nothing was counted in 30 s");
    }
}

/// A venue configured not to follow orders says so to a load that requests their stages.
#[test]
fn stages_can_be_turned_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(
        folder.path(),
        "[admin]\naddress = \"127.0.0.1:0\"\n[layout]\nstage_times = false\n\
         [[participants]]\nusername = \"user01\"\npassword = \"pass01\"\nfirm = \"FIRM\"\n",
    );
    let (_venue, started) = Venue::start(&path, &[]);
    let address = |name: &str| started["addresses"][name].as_str().unwrap();
    let (to, admin) = (address("order_entry"), address("admin"));
    let output = damrak(&["load", "--to", to, "--session", "user01:pass01", "--admin", admin]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("layout.stage_times is false"), "{}", stderr(&output));
}

/// A client beside the load answers the orders in the venue's feed; its figures are in the output and in files. Its own
/// orders are never in the feed, so it does not answer itself.
#[test]
fn a_client_answers_the_feed_of_the_venue() {
    let folder = tempfile::tempdir().unwrap();
    let participant = |number: u8| {
        format!(
            "[[participants]]\nusername = \"user0{number}\"\npassword = \"pass01\"\nfirm = \"FIRM\"\n"
        )
    };
    let path = config(folder.path(), &(participant(1) + &participant(2)));
    let (_venue, started) = Venue::start(&path, &[]);
    let address = |name: &str| started["addresses"][name].as_str().unwrap().to_owned();
    let out = folder.path().join("figures");
    let load = |feed: &str, for_: &str| {
        damrak(&[
            "load",
            "--json",
            "--no-floor",
            "--packet-times",
            "--to",
            &address("order_entry"),
            "--session",
            "user01:pass01",
            "--tick-to-trade",
            "user02:pass01",
            "--feed",
            feed,
            "--rate",
            "500/s",
            "--grace",
            "60s",
            "--for",
            for_,
            "--out",
            out.to_str().unwrap(),
        ])
    };
    let output = load(&address("market_data"), "1s");
    if stderr(&output).contains("SO_TIMESTAMPING") {
        println!("skipped: {}", stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ticks = &figures["tick_to_trade"];
    let count = |name: &str| ticks[name].as_u64().unwrap();
    assert!(count("orders") > 0, "{figures}");
    // The client sees no more than the load's orders that rested.
    assert!(
        count("ticks")
            <= figures["accepted"].as_u64().unwrap() + figures["replaced"].as_u64().unwrap()
    );
    assert!(count("orders") + count("passed_over") <= count("ticks"), "{figures}");
    for interval in figures["intervals"].as_array().unwrap() {
        assert!(interval["ticks"].as_u64().unwrap() <= count("ticks"), "{interval}");
    }
    let measured = ticks["tick_to_ack_ns"]["count"].as_u64().unwrap();
    assert!(measured > 0 && measured <= count("orders"), "{figures}");
    assert!(ticks["tick_to_order_ns"]["p50"].as_u64() <= ticks["tick_to_ack_ns"]["p50"].as_u64());
    let packets = &figures["packets"];
    assert_eq!(packets["clock"], "software", "{figures}");
    let own = figures["latency_from_send_ns"]["max"].as_u64();
    assert!(packets["latency_ns"]["max"].as_u64() <= own, "{figures}");
    let answered = packets["latency_ns"]["count"].as_u64().unwrap();
    let rows = std::fs::read_to_string(out.join("order-to-ack.csv")).unwrap();
    assert_eq!(rows.lines().count() as u64, answered + 1);
    for name in ["tick-to-order.hgrm", "tick-to-ack.hgrm", "order-to-ack-packet.hgrm"] {
        assert!(out.join(name).exists(), "{name}");
    }

    let output = load("127.0.0.1:0", "100ms");
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings = figures["warnings"].as_array().unwrap();
    let named = |warning: &Value| warning.as_str().unwrap().contains("is --feed the venue's?");
    assert!(warnings.iter().any(named), "{figures}");
    let refused = damrak(&["load", "--tick-to-trade", "nobody"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}

/// Times of the network card are refused if there are none, and are not replaced by others.
#[test]
fn loopback_has_no_times_of_a_card() {
    let clock = SystemClock::start();
    let venue = NullVenue::start(move || ring::Clock::now_ns(&clock)).unwrap();
    let load = |clock: &str| {
        let to = venue.tcp.to_string();
        let session = ["--session", "n0:SECRET", "--no-floor", "--for", "100ms"];
        damrak(&[&["load", "--to", &to, clock][..], &session].concat())
    };
    let refused = load("--packet-times=hardware");
    let text = stderr(&refused);
    assert_ne!(refused.status.code(), Some(0), "{text}");
    assert!(text.contains("the card of lo takes no times of packets"), "{text}");
    assert!(refused.stdout.is_empty(), "{refused:?}");
    let unknown = load("--packet-times=sundial");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("neither software nor hardware"), "{}", stderr(&unknown));
}
