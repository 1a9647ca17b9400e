//! `damrak profile` and `damrak lab origins` from a user's view: figures, or the reason for their absence.

use std::io::Write;

use serde_json::{Value, json};

use super::program::{damrak, stderr};

/// The timing step has figures on every Linux; each tool has figures, or the reason why it was skipped.
#[test]
fn a_profile_has_figures_or_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("profile");
    let output =
        damrak(&["profile", "udp", "--for", "200ms", "--json", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let profile: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&profile["schema"], &profile["subject"]),
        (&json!("damrak/profile/1"), &json!("udp"))
    );
    let steps = profile["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(names, ["timing", "system calls", "counters", "samples"]);
    let timing = &steps[0]["figures"];
    assert!(timing["answered_per_second"].as_u64() > Some(0), "{timing}");
    assert!(timing["usage"]["memory_peak_bytes"].as_u64() > Some(0), "{timing}");
    let threads = timing["usage"]["threads"].as_array().unwrap();
    assert!(threads.iter().any(|thread| thread["name"] == "damrak-admin"), "{timing}");
    for step in steps {
        let has_reason = step["skipped"].as_str().is_some_and(|reason| !reason.is_empty());
        assert!(step["figures"].is_object() != has_reason, "{step}");
    }
    if let Some(picture) = steps[3]["figures"]["flame_graph"].as_str() {
        let picture = std::fs::read_to_string(picture).unwrap();
        assert!(picture.contains("<title>all ("), "{picture}");
    }
    assert!(!out.join("journal").exists(), "journals do not stay");
    assert_eq!(damrak(&["profile", "everything"]).status.code(), Some(2));
}

/// Each row of the ladder has our figures and the published ones, and states the differences; a case that was not run
/// has the reason.
#[test]
fn origins_have_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("origins");
    let out = out.to_str().unwrap();
    let output =
        damrak(&["lab", "origins", "--only", "A,D", "--for", "50ms", "--json", "--out", out]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let origins: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = origins["rows"].as_array().unwrap();
    let of = |letter: &str| rows.iter().filter(|row| row["origin"] == letter).count();
    assert_eq!(of("D"), 2, "{origins}");
    let through_veth = |row: &&Value| row["case"].as_str().unwrap().starts_with("through a veth");
    let through_veth: Vec<_> = rows.iter().filter(through_veth).collect();
    // One row gives the reason for the missing ones.
    assert!(through_veth.len() == 10 || through_veth[0]["skipped"].is_string(), "{origins}");
    for row in rows {
        assert!(row["ours"].is_object() != row["skipped"].is_string(), "{row}");
        for key in ["case", "theirs", "differences"] {
            assert!(row[key].as_str().is_some_and(|text| !text.is_empty()), "{row}");
        }
    }
    assert!(rows[0]["ours"]["received_per_second"].as_u64() > Some(0), "{origins}");
    assert_eq!(damrak(&["lab", "origins", "--only", "F"]).status.code(), Some(2));
}

/// Two results of a benchmark are compared figure by figure; a file that is no result is a user error.
#[test]
fn results_of_benchmarks_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let before =
        write("before.json", r#"{"schema": "x/1", "rows": [{"path": "tcp", "p50_ns": 100}]}"#);
    let after =
        write("after.json", r#"{"schema": "x/1", "rows": [{"path": "tcp", "p50_ns": 150}]}"#);
    let output = damrak(&["bench", "compare", &before, &after]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(text.contains("rows / tcp / p50_ns") && text.contains("+50.0 %"), "{text}");
    let none = write("none.json", "{");
    assert_eq!(damrak(&["bench", "compare", &before, &none]).status.code(), Some(2));
}

/// The generator and the venue have a cost on each path, and rates, ratio and verdict follow from them.
#[test]
fn the_generator_is_measured_beside_the_venue() {
    let core = os::allowed_cores().unwrap()[0].to_string();
    let arguments = ["bench", "generator", "--core", &core, "--runs", "1", "--for", "200ms"];
    let output = damrak(&[&arguments[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["schema"], "damrak/bench-generator/1");
    assert!(printed["environment"]["kernel"].is_string(), "{printed}");
    let rows = printed["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["tcp", "udp-packed", "udp"]);
    for row in rows {
        let cost = |side: &str| row[side]["cpu_ns_per_request"][0].as_f64().unwrap();
        let near = |figure: &Value, expected: f64| {
            (figure.as_f64().unwrap() / expected - 1.0).abs() < 1e-9
        };
        for side in ["generator", "venue"] {
            assert!(0.0 < cost(side), "{row}");
            assert!(near(&row[side]["possible_per_second"], 1e9 / cost(side)), "{row}");
        }
        assert!(near(&row["ratio"], cost("venue") / cost("generator")), "{row}");
        assert!(0.0 < row["answered"][0].as_f64().unwrap(), "{row}");
        let verdicts = match row["ratio_min"].as_f64() {
            Some(1.5) => ["met", "missed"],
            _ => ["the venue is the limit", "the generator is the limit"],
        };
        assert!(verdicts.contains(&row["verdict"].as_str().unwrap()), "{row}");
    }
    let text = damrak(&arguments);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(names.iter().all(|name| text.contains(name)), "{text}");
}

/// Each way to watch connections answers each request of a few connections, and has its figures in the result; a way
/// that the system refuses is reported as skipped.
#[test]
fn connections_are_measured_by_each_backend() {
    let cores = os::allowed_cores().unwrap();
    let [client, venue, ..] = cores[..] else {
        let text = "skipped: connections_are_measured_by_each_backend: it needs two cores\n";
        return std::io::stderr().write_all(text.as_bytes()).unwrap();
    };
    let (client, venue) = (client.to_string(), venue.to_string());
    let mut arguments =
        vec!["bench", "connections", "--client-core", &client, "--venue-cores", &venue];
    arguments.extend(["--connections", "3", "--runs", "1", "--rate", "1k/s", "--for", "100ms"]);
    arguments.extend(["--requests", "60", "--json"]);
    let output = damrak(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["schema"], "damrak/bench-connections/1");
    let rows = printed["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["backend"].as_str().unwrap()).collect();
    assert_eq!(names, ["epoll", "io_uring", "threads"]);
    for row in rows.iter().filter(|row| row["skipped"].is_null()) {
        for (of, figure) in
            [("closed", "answered_per_second"), ("closed", "p99_ns"), ("open", "max_ns")]
        {
            assert!(row[of][figure][0].as_f64() > Some(0.0), "{row}");
        }
        assert!(row["started_bytes"][0].as_f64() > Some(1e6), "{row}");
    }
    let wrong = damrak(&["bench", "connections", "--backend", "select"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("there are epoll, io_uring, threads"), "{}", stderr(&wrong));
}
