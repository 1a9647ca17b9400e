//! Steps that run the built program, or scripts that run it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use super::{
    FEATURES,
    Outcome::{self, Passed, Skipped},
    commands::{answers, passes, shown},
    damrak, is_ci, release_cargo, work_folder,
};
use crate::{cargo, root, target_folder};

/// The keys that the summary of a demo must at least have, and the percentiles within `latency_ns`.
const DEMO_KEYS: &[&str] = &[
    "orders",
    "trades",
    "feed_gaps",
    "acked_lost",
    "state_hash_equal",
    "digests_equal",
    "feed_book_equal",
    "latency_ns",
];
const DEMO_PERCENTILES: &[&str] = &["p50", "p99", "p999", "max"];

pub(super) fn demo() -> Result<Outcome, String> {
    demo_in("demo", Command::new(damrak()))
}

pub(super) fn journal() -> Result<Outcome, String> {
    let journal = work_folder("demo").join("demo-out/journal");
    if !journal.is_dir() {
        return Err(format!("the demo left no {}", journal.display()));
    }
    let summary = answers(
        Command::new(damrak()).args(["journal", "verify", "--json"]).arg(journal),
        Duration::from_secs(120),
    )?;
    println!("{summary}");
    Ok(Passed)
}

pub(super) fn one_core() -> Result<Outcome, String> {
    if Command::new("taskset").arg("-V").stdout(Stdio::null()).status().is_err() {
        return Ok(Skipped("taskset is not installed".into()));
    }
    let mut taskset = Command::new("taskset");
    taskset.arg("-c").arg(first_core()).arg(damrak());
    demo_in("demo-one-core", taskset)
}

pub(super) fn kill() -> Result<Outcome, String> {
    for durability in ["written", "synced"] {
        let summary = answers(
            Command::new(damrak())
                .args(["kill", "--times", "15", "--json", "--durability", durability, "--out"])
                .arg(work_folder("kill")),
            Duration::from_secs(300),
        )?;
        println!("{summary}");
        if summary["acked"].as_u64().is_none_or(|count| count == 0) {
            return Err("nothing was acknowledged before the kills".into());
        }
    }
    Ok(Passed)
}

/// Runs each attack for a second; latency is judged by hand, on a machine with spare cores.
pub(super) fn attack() -> Result<Outcome, String> {
    let mut command = Command::new(damrak());
    command.args(["lab", "attack", "--short", "--json", "--out"]).arg(work_folder("attack"));
    let summary = answers(&mut command, Duration::from_secs(900))?;
    println!("{} attacks", summary["attacks"].as_array().map_or(0, Vec::len));
    Ok(Passed)
}

/// Kills on a disk that loses its power before each kill, which needs root and loop devices.
pub(super) fn power() -> Result<Outcome, String> {
    let cuts = |durability: &str, times: &str| {
        let mut command = Command::new(damrak());
        command.args(["kill", "--power-cuts", "--json", "--durability", durability]);
        command.args(["--times", times, "--out"]).arg(work_folder("power"));
        shown(&command);
        let output = command.stdin(Stdio::null()).output();
        output.map_err(|error| format!("damrak kill: {error}"))
    };
    let output = cuts("synced", "8")?;
    let (said, talk) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(3) {
        let why = talk.lines().next().unwrap_or("it cannot be done here").to_owned();
        return Ok(Skipped(why));
    }
    println!("{said}");
    let summary: Value = serde_json::from_str(&said).unwrap_or_default();
    if !output.status.success() || summary["power_cuts"] != 8 {
        return Err(format!("{}: {said}{talk}", output.status));
    }
    if summary["acked"].as_u64().is_none_or(|count| count == 0) {
        return Err("nothing was acknowledged before the power was cut".into());
    }
    // The planted twin: data only written and not synced must be missing, or the check shows nothing.
    let twin = cuts("written", "8")?;
    if twin.status.code() != Some(4) {
        let talk = String::from_utf8_lossy(&twin.stderr);
        return Err(format!("power cuts took nothing that was only written: {talk}"));
    }
    println!("under `written`: {}", String::from_utf8_lossy(&twin.stderr).trim_end());
    Ok(Passed)
}

/// Compares states from the journal of the demo: replayed by the venue's build, replayed by the core in a
/// hardly optimized build with all checks, and opened by venues in every layout, each of which reports its
/// state.
pub(super) fn builds() -> Result<Outcome, String> {
    let journal = work_folder("demo").join("demo-out/journal");
    let mut command = Command::new(damrak());
    command.args(["journal", "verify", "--json"]).arg(&journal);
    let summary = answers(&mut command, Duration::from_secs(120))?;
    if summary["digests_equal"].as_u64().is_none_or(|count| count == 0) {
        return Err(format!("no event digest was compared: {summary}"));
    }
    let mut states = vec![("the venue's build".to_owned(), summary["state_hash"].clone())];
    let summary = answers(replay_with_checks(&[]).arg(&journal), Duration::from_secs(600))?;
    if summary["checked"] != true {
        return Err(format!("that build had no checks: {summary}"));
    }
    states.push(("a build with all checks".to_owned(), summary["state_hash"].clone()));
    for layout in ["single", "core-alone", "entry-core", "pipeline"] {
        states.push((format!("layout {layout}"), opened_in(layout, &journal)?));
    }
    for (of, state) in &states {
        println!("{state} {of}");
    }
    if let Some((of, state)) = states.iter().find(|(_, state)| *state != states[0].1) {
        return Err(format!("{of} has state {state}, not {}", states[0].1));
    }
    // The planted twin: a build that applies some inputs twice must give another state.
    let mut twin = replay_with_checks(&["--features", "journal/failpoints"]);
    twin.arg(&journal).env("DAMRAK_FAILPOINT", "twice");
    let state = answers(&mut twin, Duration::from_secs(600))?["state_hash"].clone();
    println!("{state} with `twice` planted");
    if state == states[0].1 {
        return Err("a build that applies wrong inputs has the same state".into());
    }
    Ok(Passed)
}

/// Replays a journal with the core alone, hardly optimized and with all checks.
fn replay_with_checks(features: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    command.args(["run", "--quiet", "--locked", "-p", "damrak-engine"]).args(features);
    command.args(["--example", "replay", "--"]);
    command
}

/// The state of a venue in this layout after its start on a copy of this journal.
fn opened_in(layout: &str, journal: &Path) -> Result<Value, String> {
    let folder = work_folder("builds");
    let copy = folder.join("journal");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let _ = fs::remove_dir_all(&folder); // there may be none
    fs::create_dir_all(&copy).map_err(failed)?;
    for entry in fs::read_dir(journal).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Without the snapshots: the first record is replayed as well.
        if entry.path().extension().is_none_or(|extension| extension != "snapshot") {
            fs::copy(entry.path(), copy.join(entry.file_name())).map_err(failed)?;
        }
    }
    // The demo's configuration, with other paths and ports.
    let config = folder.join("venue.toml");
    let demo = fs::read_to_string(work_folder("demo").join("demo-out/venue.toml"));
    let mut text = format!("layout.threads = {layout:?}\n");
    for line in demo.map_err(failed)?.lines() {
        text += &match line.split_once(" = ") {
            Some(("directory", _)) => format!("directory = {copy:?}\n"),
            Some((key @ ("address" | "group" | "re_request"), _)) => {
                format!("{key} = \"127.0.0.1:0\"\n")
            }
            _ => format!("{line}\n"),
        };
    }
    fs::write(&config, text).map_err(failed)?;
    let mut command = Command::new(damrak());
    // Its standard input has ended: the venue starts, reports the start and stops.
    command.args(["serve", "--json", "--until-stdin-ends", "--config"]).arg(&config);
    shown(&command);
    let output = command.stdin(Stdio::null()).output().map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let started: Value = said
        .lines()
        .next()
        .and_then(|line| serde_json::from_str(line).ok())
        .ok_or_else(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))?;
    fs::remove_dir_all(&folder).map_err(failed)?;
    Ok(started["recovered"]["state_hash"].clone())
}

/// Seeds of the simulator in this run, and the ticks of each.
const SIM_SEEDS: &str = "1000";
const SIM_TICKS: &str = "1200";

pub(super) fn sim() -> Result<Outcome, String> {
    let summary = answers(
        Command::new(damrak())
            .args(["sim", "--seeds", SIM_SEEDS, "--ticks", SIM_TICKS, "--quiet", "--json"]),
        Duration::from_secs(300),
    )?;
    println!("{summary}");
    match summary["never_hit"].as_array() {
        Some(never) if never.is_empty() => Ok(Passed),
        never => Err(format!("never hit: {never:?}")),
    }
}

/// Runs each file `DAMRAK_ORIGIN_RUNS` times in each layout, once if that is not set. The third-party
/// files lie next to the repository, or the step is skipped.
pub(super) fn orders() -> Result<Outcome, String> {
    const LAYOUTS: [&str; 5] = [
        "single",
        "engine-alone",
        "entry-core",
        "pipeline",
        "source+ledger | sequencer+reporter | engine+journaler",
    ];
    let runs: usize = match env::var("DAMRAK_ORIGIN_RUNS") {
        Ok(runs) => runs.parse().map_err(|_| format!("DAMRAK_ORIGIN_RUNS is {runs:?}"))?,
        Err(_) => 1,
    };
    let data = root().join("../shared/data/zerox");
    let sets = ["100k", "1300k_cancel"].map(|set| data.join(set));
    if let Some(missing) = sets.iter().find(|set| !set.is_dir()) {
        return Ok(Skipped(format!("there is no {}", missing.display())));
    }
    for set in &sets {
        let published = fs::read_to_string(set.join("expected_summary.txt"))
            .map_err(|error| format!("{}: {error}", set.display()))?;
        let mut words = published.split_whitespace();
        // Each figure follows its name.
        let mut after = |name: &str| -> Result<u64, String> {
            let figure = words.by_ref().skip_while(|word| *word != name).nth(1);
            figure
                .and_then(|figure| figure.parse().ok())
                .ok_or_else(|| format!("{} says nothing of {name}", set.display()))
        };
        let expected = [
            ("/places/accepted", after("accepted")?),
            ("/places/rejected", after("rejected")?),
            ("/trades", after("trades")?),
            ("/self_trades", after("self-trades")?),
            ("/cancels/effective", after("cancel_ok")?),
            ("/cancels/not_found", after("cancel_not_found")?),
            ("/instruments/0/best_bid", after("best_bid")?),
            ("/instruments/0/best_ask", after("best_ask")?),
            ("/instruments/0/bid_levels", after("bid_levels")?),
            ("/instruments/0/ask_levels", after("ask_levels")?),
            ("/instruments/0/resting", after("resting")?),
        ];
        for layout in LAYOUTS {
            for run in 1..=runs {
                let mut command = Command::new(damrak());
                command.arg("run").arg(set.join("orders.csv.gz"));
                command.arg("--balances").arg(set.join("balances_init.csv"));
                command.args(["--rounding", "origin", "--layout", layout, "--json"]);
                let results = answers(&mut command, Duration::from_secs(300))?;
                let place = format!("{}, layout {layout}, run {run}", set.display());
                for (pointer, figure) in expected {
                    if results.pointer(pointer) != Some(&figure.into()) {
                        return Err(format!("{place}: {pointer} is not {figure}: {results}"));
                    }
                }
                for of in ["trades", "book", "balances"] {
                    let hash = results["sha256"][of].as_str().unwrap_or("none");
                    if !published.contains(hash) {
                        return Err(format!("{place}: the hash of {of} is {hash}"));
                    }
                }
                let rate = results["commands_per_second"].as_f64().unwrap_or(0.0);
                println!("{place}: as published, {rate:.0} commands a second");
            }
        }
    }
    Ok(Passed)
}

/// Sends a million messages over real sockets; the same in memory is a test of `proof`.
pub(super) fn feed() -> Result<Outcome, String> {
    let mut command = Command::new(damrak());
    command.args(["lab", "feed", "--messages", "1000000", "--json", "--out"]);
    let summary = answers(command.arg(work_folder("feed")), Duration::from_secs(600))?;
    println!("{summary}");
    let subscribers = summary["subscribers"].as_array().map_or(0, Vec::len);
    let messages = summary["messages"].as_u64().unwrap_or(0);
    if subscribers < 4 || messages < 1_000_000 {
        return Err(format!("{subscribers} subscribers of {messages} messages are too few"));
    }
    Ok(Passed)
}

/// Runs the interop scripts. With `CI=true`, a check that is not installed fails instead of being skipped.
pub(super) fn interop() -> Result<Outcome, String> {
    let Some(python) = python() else {
        return Ok(Skipped("python3 is not installed".into()));
    };
    let mut command = Command::new(python);
    command.arg("interop/run.py").arg("--damrak").arg(damrak());
    command.arg("--work").arg(work_folder("interop"));
    command.arg("--target-dir").arg(target_folder().join("interop"));
    if is_ci() {
        command.arg("--require-all");
    }
    passes(&mut command)
}

/// Tests halt, resume, bust, cancel, limit, deposit and kill switch, by `damrak ctl` and by HTTP. Selects the same
/// packages as the step `tests`, so that nothing is built again.
pub(super) fn operator() -> Result<Outcome, String> {
    let mut command = release_cargo();
    command.args(["test", "--release", "--locked", "--workspace", "--test", "it"]);
    passes(command.args(FEATURES).args(["--", "operator::", "program::examples"]))
}

/// Kills of each store in this run, and orders in its journal; docs/ledger.md has the command for
/// more.
const LEDGER_KILLS: &str = "6";
const LEDGER_ORDERS: &str = "5000";

/// Runs both stores at the same time, because they mostly wait.
pub(super) fn ledger() -> Result<Outcome, String> {
    let Some(python) = python() else {
        return Ok(Skipped("python3 is not installed".into()));
    };
    let mut started = Vec::new();
    for store in ["sqlite", "postgres"] {
        let mut command = Command::new(&python);
        command.arg("interop/ledger.py").arg("--damrak").arg(damrak());
        command.args(["--store", store, "--kills", LEDGER_KILLS, "--orders", LEDGER_ORDERS]);
        let line = shown(&command);
        let child = command.current_dir(root()).stdin(Stdio::null()).spawn();
        started.push((store, child.map_err(|error| format!("{line}: {error}")), line));
    }
    let mut outcome = Ok(Passed);
    for (store, child, line) in started {
        // The step waits for every child, even after a failure of an earlier one.
        let status =
            child.and_then(|mut child| child.wait().map_err(|error| format!("{line}: {error}")));
        outcome = match (outcome, status) {
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(before), Ok(status)) => match status.code() {
                Some(0) => Ok(before),
                Some(NOT_INSTALLED) if !is_ci() => Ok(Skipped(format!("{store} is not installed"))),
                _ => Err(format!("{line}: {status}")),
            },
        };
    }
    outcome
}

/// The exit code of the interop scripts if a program that they need is not installed.
const NOT_INSTALLED: i32 = 77;

/// A Python interpreter that runs: the named one, the installed one, or any other.
fn python() -> Option<PathBuf> {
    let python = [
        env::var_os("DAMRAK_INTEROP_PYTHON").map(PathBuf::from),
        Some(target_folder().join("ci/venv/bin/python")),
        Some("python3".into()),
    ];
    let runs = |python: &PathBuf| {
        let mut command = Command::new(python);
        command.arg("-V").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    python.into_iter().flatten().find(runs)
}

/// Runs a demo in a folder of its own and reads its summary.
fn demo_in(folder: &str, mut command: Command) -> Result<Outcome, String> {
    let folder = work_folder(folder);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    command.args(["demo", "--for", "5s", "--json"]).current_dir(&folder);
    let summary = answers(&mut command, Duration::from_secs(240))?;
    println!("{summary}");
    check_demo(&summary)?;
    Ok(Passed)
}

/// Checks that the summary has every promised key, and that every check in it passed.
fn check_demo(summary: &Value) -> Result<(), String> {
    if let Some(key) = DEMO_KEYS.iter().find(|key| summary[**key].is_null()) {
        return Err(format!("the summary has no `{key}`"));
    }
    let latency = &summary["latency_ns"];
    if let Some(key) = DEMO_PERCENTILES.iter().find(|key| latency[**key].as_u64().is_none()) {
        return Err(format!("`latency_ns` has no number `{key}`"));
    }
    for key in ["orders", "trades"] {
        if summary[key].as_u64().is_none_or(|count| count == 0) {
            return Err(format!("`{key}` is {}, not a positive number", summary[key]));
        }
    }
    for (key, wanted) in [
        ("acked_lost", Value::from(0)),
        ("state_hash_equal", Value::from(true)),
        ("digests_equal", Value::from(true)),
        ("feed_book_equal", Value::from(true)),
    ] {
        if summary[key] != wanted {
            return Err(format!(
                "`{key}` is {}, not {wanted}, and yet the demo exits 0",
                summary[key]
            ));
        }
    }
    Ok(())
}

/// The first core this process may run on.
fn first_core() -> String {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let digits = cores.unwrap_or("0").trim().split(|c: char| !c.is_ascii_digit()).next();
    digits.filter(|digits| !digits.is_empty()).unwrap_or("0").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Value {
        serde_json::json!({
            "orders": 5, "trades": 2, "feed_gaps": 0, "acked_lost": 0,
            "state_hash_equal": true, "digests_equal": true, "feed_book_equal": true,
            "latency_ns": {"p50": 1, "p99": 2, "p999": 3, "max": 4},
        })
    }

    /// A demo whose summary reports an error does not pass, whatever its exit code.
    #[test]
    fn a_demo_must_say_that_all_is_well() {
        assert_eq!(check_demo(&summary()), Ok(()));
        for (key, wrong) in [
            ("orders", Value::from(0)),
            ("trades", Value::Null),
            ("feed_gaps", Value::Null),
            ("acked_lost", Value::from(1)),
            ("state_hash_equal", Value::from(false)),
            ("digests_equal", Value::from(false)),
            ("feed_book_equal", Value::Null),
            ("latency_ns", serde_json::json!({"p50": 1, "p99": 2, "max": 4})),
        ] {
            let mut summary = summary();
            summary[key] = wrong;
            assert!(check_demo(&summary).is_err(), "{summary}");
        }
    }
}
