//! The checks that a change must pass before it lands, one step after the other.
//!
//! Start at [`STEPS`]. A step passes, fails, or is skipped with a reason; the first failure ends the
//! run. All builds use the release profile and the same features, so that tests, demo, ledger and
//! benchmarks share them.

use std::{
    env, fs, hint, io, iter,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{cargo, root, target_folder, tidy};

mod commands;
mod program;
mod twins;

use commands::passes;

/// A step: its name, the property it shows, and its function.
pub struct Step {
    name: &'static str,
    shows: &'static str,
    run: fn() -> Result<Outcome, String>,
}

/// The result of a step that did not fail.
enum Outcome {
    Passed,
    Skipped(String),
}
use Outcome::{Passed, Skipped};

/// The steps, the quick ones first.
const STEPS: &[Step] = &[
    Step { name: "fmt", shows: "the code is formatted", run: fmt },
    Step { name: "tidy", shows: "the rules of the repository hold", run: tidy_rules },
    Step {
        name: "locks",
        shows: "the lock files of packages outside the workspace are current",
        run: locks,
    },
    Step { name: "clippy", shows: "no warning in any target", run: clippy },
    Step { name: "build", shows: "the binary and the tests are built", run: build },
    Step { name: "tests", shows: "every test of the workspace passes", run: tests },
    Step { name: "loom", shows: "the rings are right in every interleaving loom finds", run: loom },
    Step {
        name: "twins",
        shows: "the checks of the journal fail on each fault that is planted for them",
        run: twins::twins,
    },
    Step { name: "docs", shows: "the documentation of the code has no broken link", run: docs },
    Step { name: "benches", shows: "the benchmarks compile", run: benches },
    Step { name: "fuzz", shows: "the fuzz targets compile", run: fuzz },
    Step {
        name: "mebench",
        shows: "the core answers through a benchmark's C interface",
        run: mebench,
    },
    Step {
        name: "demo",
        shows: "the demo trades, dies, recovers, and all adds up",
        run: program::demo,
    },
    Step {
        name: "journal",
        shows: "the journal that the demo left is whole",
        run: program::journal,
    },
    Step { name: "one-core", shows: "the demo completes on one core", run: program::one_core },
    Step {
        name: "kill",
        shows: "no acknowledged order is lost when the venue is killed under load",
        run: program::kill,
    },
    Step {
        name: "power",
        shows: "no acknowledged order is lost when the power is cut under load",
        run: program::power,
    },
    Step {
        name: "attack",
        shows: "no attack stops the venue, takes replies from honest clients or fills its journal",
        run: program::attack,
    },
    Step {
        name: "builds",
        shows: "builds and layouts replay the same journal to the same state",
        run: program::builds,
    },
    Step {
        name: "sim",
        shows: "simulated venues survive every injected fault, and agree with the model",
        run: program::sim,
    },
    Step {
        name: "orders",
        shows: "public order files give the published results in every layout",
        run: program::orders,
    },
    Step {
        name: "feed",
        shows: "every subscriber behind a network that loses has the books of the engine",
        run: program::feed,
    },
    Step {
        name: "interop",
        shows: "clients and decoders of others understand us",
        run: program::interop,
    },
    Step {
        name: "operator",
        shows: "operators command a running venue, by key or by socket, each command once under kill -9",
        run: program::operator,
    },
    Step {
        name: "ledger",
        shows: "under kills of venue and store, PostgreSQL and SQLite match the journal",
        run: program::ledger,
    },
];

/// Long steps that run only if named.
const BY_NAME: &[Step] = &[
    Step {
        name: "kill-twin",
        shows: "kills find a venue that replies too early, which is built for that",
        run: twins::kill_twin,
    },
    Step {
        name: "tests-loaded",
        shows: "every test passes twenty times, five runs side by side, while each core has a busy loop as well",
        run: tests_loaded,
    },
];

/// Features in addition to the default ones, which clippy checks separately. Every build of the program
/// uses these features, so that it is built once.
const FEATURES: [&str; 2] =
    ["--features", "damrak/sqlite,damrak/postgres,damrak/parquet,damrak/af-xdp"];

/// `cargo x ci --list`.
pub fn list() {
    for step in STEPS {
        println!("{:<12} {}", step.name, step.shows);
    }
    for step in BY_NAME {
        println!("{:<12} {}; only by name", step.name, step.shows);
    }
}

/// The steps with these names, in their own order; if none is named, all but those that run by name only. `FIRST..LAST`
/// names all from one to the other, `FIRST..` and `..LAST` all from there and up to there.
pub fn select(names: &[&str]) -> Result<Vec<&'static Step>, String> {
    if names.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    let all = || STEPS.iter().chain(BY_NAME);
    let place = |name: &str| {
        all().position(|step| step.name == name).ok_or_else(|| {
            let known: Vec<&str> = all().map(|step| step.name).collect();
            format!("ci has no step `{name}`; it has: {}", known.join(", "))
        })
    };
    let mut wanted = vec![false; all().count()];
    for name in names {
        let (first, last) = match name.split_once("..") {
            None => (place(name)?, place(name)?),
            Some((first, last)) => (
                if first.is_empty() { 0 } else { place(first)? },
                if last.is_empty() { STEPS.len() - 1 } else { place(last)? },
            ),
        };
        match wanted.get_mut(first..=last) {
            Some(steps) => steps.fill(true),
            None => return Err(format!("`{name}` ends before it begins")),
        }
    }
    Ok(all().zip(wanted).filter(|(_, wanted)| *wanted).map(|(step, _)| step).collect())
}

/// `cargo x ci`.
pub fn run(steps: &[&Step]) -> ExitCode {
    let mut summary = Vec::new();
    let mut failure = None;
    for step in steps {
        if failure.is_some() {
            summary.push((step.name, Duration::ZERO, Duration::ZERO, "not run".to_owned()));
            continue;
        }
        println!("\n=== {}: {}", step.name, step.shows);
        let (started, busy_before) = (now(), processor_time());
        let result = (step.run)();
        let (took, busy) = (now() - started, processor_time().saturating_sub(busy_before));
        let verdict = match result {
            Ok(Passed) => "ok".to_owned(),
            Ok(Skipped(why)) => {
                println!("skipped: {}: {why}", step.name);
                format!("skipped: {why}")
            }
            Err(why) => {
                failure = Some(format!("{}: {why}", step.name));
                "FAILED".to_owned()
            }
        };
        println!("=== {}: {verdict}, {:.1} s", step.name, took.as_secs_f64());
        summary.push((step.name, took, busy, verdict));
    }

    println!("\n{:<10} {:>8} {:>10}  result", "step", "seconds", "processor");
    for (name, took, busy, verdict) in &summary {
        println!("{name:<10} {:>8.1} {:>10.1}  {verdict}", took.as_secs_f64(), busy.as_secs_f64());
    }
    let sum = |part: fn(&(Duration, Duration)) -> Duration| -> f64 {
        summary.iter().map(|(_, took, busy, _)| part(&(*took, *busy)).as_secs_f64()).sum()
    };
    println!("{:<10} {:>8.1} {:>10.1}", "all", sum(|it| it.0), sum(|it| it.1));
    match failure {
        None => {
            println!("\nci: ok");
            ExitCode::SUCCESS
        }
        Some(why) => {
            println!("\nci: failed at {why}");
            ExitCode::FAILURE
        }
    }
}

fn fmt() -> Result<Outcome, String> {
    passes(Command::new(cargo()).args(["fmt", "--all", "--check"]))?;
    for manifest in outside_the_workspace() {
        passes(Command::new(cargo()).args(["fmt", "--check", "--manifest-path"]).arg(manifest))?;
    }
    Ok(Passed)
}

fn tidy_rules() -> Result<Outcome, String> {
    tidy::check()?;
    println!("{} rules", tidy::RULES.len());
    Ok(Passed)
}

/// Checks the lock files. Not every package outside the workspace is built here, and a package with an outdated lock
/// file cannot be built at all. The fuzz targets test the versions that the workspace has.
fn locks() -> Result<Outcome, String> {
    for manifest in outside_the_workspace() {
        passes(Command::new(cargo()).args(["fetch", "--locked", "--manifest-path"]).arg(manifest))?;
    }
    let read = |path: &str| {
        let path = root().join(path);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let others = other_versions(&read("Cargo.lock")?, &read("fuzz/Cargo.lock")?);
    if others.is_empty() {
        return Ok(Passed);
    }
    Err(format!(
        "fuzz/Cargo.lock has other versions than Cargo.lock: {}; copy Cargo.lock over it and run \
         `cargo metadata --manifest-path fuzz/Cargo.toml`",
        others.join(", ")
    ))
}

/// The packages of a lock file that our lock file has in other versions only, each with its version.
fn other_versions(ours: &str, theirs: &str) -> Vec<String> {
    let value = |line: &str, key: &str| {
        let quoted = line.strip_prefix(key)?.strip_prefix(" = \"")?;
        Some(quoted.strip_suffix('"')?.to_owned())
    };
    let packages = |lock: &str| -> Vec<(String, String)> {
        let lines: Vec<&str> = lock.lines().collect();
        let pairs = lines.windows(2);
        pairs.filter_map(|pair| value(pair[0], "name").zip(value(pair[1], "version"))).collect()
    };
    let ours = packages(ours);
    let is_other = |(name, version): &(String, String)| {
        let mut same_name = ours.iter().filter(|(ours, _)| ours == name).peekable();
        same_name.peek().is_some() && same_name.all(|(_, ours)| ours != version)
    };
    let others = packages(theirs).into_iter().filter(is_other);
    others.map(|(name, version)| format!("{name} {version}")).collect()
}

fn clippy() -> Result<Outcome, String> {
    const STRICT: [&str; 3] = ["--", "-D", "warnings"];
    let clippy = |what: &[&str], features: &[&str]| {
        // The same profile as for the builds, so that SQLite is compiled once for both.
        let mut command = release_cargo();
        command.args(["clippy", "--release", "--locked"]).args(what).args(features);
        passes(command.args(STRICT))
    };
    clippy(&["--workspace", "--all-targets"], &FEATURES)?;
    clippy(&["--package", "damrak"], &[])
}

/// Tests enable more features of some dependencies than the binary does. This step builds with the tests' features, so
/// that those dependencies, and all packages that use them, are built once.
fn build() -> Result<Outcome, String> {
    let mut command = release_cargo();
    command.args(["build", "--release", "--locked", "--workspace", "--all-targets"]);
    passes(command.args(FEATURES))
}

fn tests() -> Result<Outcome, String> {
    passes(&mut test_command())
}

fn test_command() -> Command {
    let mut command = release_cargo();
    command.args(["test", "--release", "--locked", "--workspace"]).args(FEATURES);
    command
}

/// Shows that no test outcome depends on speed, on scheduling, or on another run at the same time.
fn tests_loaded() -> Result<Outcome, String> {
    const RUNS: usize = 20;
    const SIDE_BY_SIDE: usize = 5;
    build()?;
    let logs = target_folder().join("ci/tests-loaded");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let cores = thread::available_parallelism().map_err(|error| format!("the cores: {error}"))?;
    let (is_over, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failed = thread::scope(|scope| {
        for _ in 0..cores.get() {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let runs = || {
            let next = || Some(begun.fetch_add(1, Ordering::Relaxed) + 1);
            let numbers = iter::from_fn(next).take_while(|number| *number <= RUNS);
            numbers.filter_map(|run| run_loaded(run, &logs).err()).collect::<Vec<_>>()
        };
        let workers: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(runs)).collect();
        let failed = workers.into_iter().flat_map(|it| it.join().expect("it does not panic"));
        let failed: Vec<_> = failed.collect();
        is_over.store(true, Ordering::Relaxed);
        failed
    });
    if failed.is_empty() { Ok(Passed) } else { Err(failed.join("; ")) }
}

/// A run of all tests; its output goes into a file of `logs`.
fn run_loaded(run: usize, logs: &Path) -> Result<(), String> {
    let path = logs.join(format!("{run}.log"));
    let at = |error: io::Error| format!("{}: {error}", path.display());
    let log = fs::File::create(&path).map_err(at)?;
    let begun = now();
    let mut command = test_command();
    command.arg("--no-fail-fast").current_dir(root()).stdin(Stdio::null());
    let status = command.stdout(log.try_clone().map_err(at)?).stderr(log).status().map_err(at)?;
    println!("run {run}: {status} after {} s", (now() - begun).as_secs());
    if status.success() { Ok(()) } else { Err(format!("run {run}: see {}", path.display())) }
}

fn loom() -> Result<Outcome, String> {
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    passes(
        release_cargo()
            .args(["test", "--release", "--locked", "-p", "damrak-ring", "--tests", "--target-dir"])
            .arg(target_folder().join("loom"))
            .env("RUSTFLAGS", format!("{flags} --cfg loom")),
    )
}

fn docs() -> Result<Outcome, String> {
    passes(
        release_cargo()
            .args(["doc", "--release", "--locked", "--workspace", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"),
    )
}

fn benches() -> Result<Outcome, String> {
    if !tidy::members(&root())?.iter().any(|member| member.has_benches) {
        return Ok(Skipped("the workspace has no benchmark".into()));
    }
    passes(
        release_cargo()
            .args(["bench", "--locked", "--workspace", "--benches", "--profile", "release"])
            .arg("--no-run")
            .args(FEATURES),
    )
}

/// Checks the fuzz targets, in the profile of the workspace and into its folder, so that the packages in both locks are
/// checked once. libFuzzer is C++, which cargo does not compile if the environment names a library elsewhere. The tests
/// of `lab` run the targets on their corpus.
fn fuzz() -> Result<Outcome, String> {
    const AS_THE_WORKSPACE: [&str; 3] =
        ["debug-assertions=false", "overflow-checks=false", "codegen-units=4"];
    let manifest = root().join("fuzz/Cargo.toml");
    if !manifest.exists() {
        return Ok(Skipped("there is no fuzz/Cargo.toml".into()));
    }
    let mut command = release_cargo();
    for setting in AS_THE_WORKSPACE {
        command.args(["--config", &format!("profile.release.{setting}")]);
    }
    passes(
        command
            .args(["check", "--release", "--locked", "--bins", "--manifest-path"])
            .arg(manifest)
            .arg("--target-dir")
            .arg(target_folder())
            .env("CUSTOM_LIBFUZZER_PATH", target_folder().join("libfuzzer.a")),
    )
}

/// Checks the package for the benchmark. The benchmark itself is third-party C++: docs/mebench.md has its results.
fn mebench() -> Result<Outcome, String> {
    let manifest = root().join("bench/mebench/Cargo.toml");
    if !manifest.exists() {
        return Ok(Skipped("there is no bench/mebench/Cargo.toml".into()));
    }
    let cargo_on_it = |verb: &str| {
        let mut command = Command::new(cargo());
        command.args([verb, "--locked", "--manifest-path"]).arg(&manifest);
        command.arg("--target-dir").arg(target_folder().join("mebench"));
        command
    };
    passes(cargo_on_it("clippy").args(["--all-targets", "--", "-D", "warnings"]))?;
    passes(&mut cargo_on_it("test"))
}

/// Cargo for all builds in the profile `release`, with the same settings, so that nothing is built twice.
fn release_cargo() -> Command {
    let mut command = Command::new(cargo());
    command.arg("--config").arg(root().join("xtask/ci.toml"));
    command
}

fn is_ci() -> bool {
    env::var("CI").is_ok_and(|value| value == "true")
}

/// Our packages that are not members of the workspace.
fn outside_the_workspace() -> impl Iterator<Item = PathBuf> {
    ["fuzz", "interop/slouch", "bench/rivals", "bench/mebench"]
        .into_iter()
        .map(|package| root().join(package).join("Cargo.toml"))
        .filter(|manifest| manifest.exists())
}

fn damrak() -> PathBuf {
    target_folder().join("release/damrak")
}

fn work_folder(name: &str) -> PathBuf {
    target_folder().join("ci").join(name)
}

/// The present time, to show the duration of a step; it is not the exchange's time.
#[expect(clippy::disallowed_methods, reason = "a tool of the developers, not of the exchange")]
fn now() -> Instant {
    Instant::now()
}

/// Processor time of all ended child programs, in user and kernel mode: the cost of a step even on a
/// busy machine. Linux counts it in hundredths of a second.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses; the times are the 16th and 17th.
    let (_, after_name) = stat.rsplit_once(')').unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(13).take(2);
    Duration::from_millis(10 * ticks.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package in another version is found; a package that only the other lock file has is no fault.
    #[test]
    fn other_versions_are_found() {
        let lock = |packages: &[(&str, &str)]| {
            let entry = |(name, version): &(&str, &str)| {
                format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n")
            };
            packages.iter().map(entry).collect::<String>()
        };
        let ours = lock(&[("syn", "2.0.1"), ("syn", "3.0.9"), ("bytes", "1.12.1")]);
        let theirs = lock(&[("syn", "3.0.9"), ("bytes", "1.12.2"), ("libfuzzer-sys", "0.4.13")]);
        assert_eq!(other_versions(&ours, &theirs), ["bytes 1.12.2"]);
        assert!(other_versions(&ours, &ours).is_empty());
    }

    /// An unknown step is named in the error, and the existing ones are offered.
    #[test]
    fn unknown_steps_are_refused() {
        let refusal = select(&["fmt", "tets"]).err().unwrap();
        assert!(refusal.contains("`tets`") && refusal.contains("tests"), "{refusal}");
    }

    /// Steps run in their own order, whatever order they are named in.
    #[test]
    fn named_steps_run_in_their_own_order() {
        let names = |steps: Vec<&Step>| steps.iter().map(|step| step.name).collect::<Vec<_>>();
        assert_eq!(names(select(&["tests", "fmt"]).unwrap()), ["fmt", "tests"]);
        assert_eq!(select(&[]).unwrap().len(), STEPS.len());
        assert_eq!(select(&["kill-twin", "fmt"]).unwrap().len(), 2);
    }

    /// The steps before one, and the steps from it on, together are all steps.
    #[test]
    fn a_range_has_its_first_and_last_step() {
        let names = |steps: &[&str]| {
            select(steps).map(|steps| steps.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["tidy..clippy"]).unwrap(), ["tidy", "locks", "clippy"]);
        let halves = [names(&["..build"]).unwrap(), names(&["tests.."]).unwrap()].concat();
        assert_eq!(halves, names(&[]).unwrap());
        assert_eq!(names(&["clippy..fmt"]).unwrap_err(), "`clippy..fmt` ends before it begins");
        assert!(names(&["fmt..tets"]).unwrap_err().contains("`tets`"));
    }
}
