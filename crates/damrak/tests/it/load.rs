//! `damrak load` as a user meets it, on a venue of known speed.

use lab::load::{Faults, NullVenue};
use serde_json::{Value, json};
use venue::clock::SystemClock;

use super::program::{damrak, stderr};

/// A venue that takes half of the rate asked: the run says so and ends with 5. A slow machine makes its latencies
/// only longer and its rates only lower, so nothing here depends on speed.
#[test]
fn half_of_the_rate_asked_is_exit_code_5() {
    const PER_SECOND: u64 = 1_000;
    let faults = Faults { per_second_max: Some(PER_SECOND), ..Faults::default() };
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
        "answered>=1500/s,p99<200ms,max<10h",
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
