//! Faults planted in the journal, on which the checks must fail: a check that passes with a fault shows nothing.
//!
//! The twins of the checks `power` and `builds` are next to these checks, and those of the rings in the
//! tests under loom.

use std::process::{Command, Stdio};

use super::{Outcome, build, commands::shown, damrak, release_cargo, work_folder};
use crate::{root, tidy};

/// A fault, the package of a test, and the test, which must fail on it.
const TWINS: &[(&str, &str, &str)] = &[
    ("unchecked", "damrak-journal", "damage::every_byte_changed"),
    ("torn", "damrak-journal", "recovery::row_5_torn_tail"),
    ("early", "damrak-journal", "crash::a_crash_at_every_operation"),
    ("unchecked", "damrak-proof", "simulation::seeds_with_faults_hold"),
    ("early", "damrak-proof", "simulation::seeds_with_faults_hold"),
];

/// Runs each test with its fault. One build has all faults; the environment chooses the planted one. Our packages are
/// built once more for that, hardly optimized: the tests take seconds, the compiler minutes.
pub(super) fn twins() -> Result<Outcome, String> {
    let members = tidy::members(&root())?;
    for (fault, package, test) in TWINS {
        let mut command = release_cargo();
        for member in &members {
            let name = &member.name;
            command.args(["--config", &format!("profile.release.package.{name}.opt-level=1")]);
        }
        command
            .args(["test", "--release", "--locked", "-p", package, "--features", "failpoints"])
            .args(["--test", "it", "--", "--exact", test])
            .env("DAMRAK_FAILPOINT", fault)
            .env("RUST_BACKTRACE", "0");
        let line = shown(&command);
        let output = command
            .current_dir(root())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{line}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.success() || !said.contains("test result: FAILED. 0 passed; 1 failed") {
            let talk = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{test} does not fail with `{fault}` planted\n{said}{talk}"));
        }
        println!("{test} fails with `{fault}` planted, as it must");
    }
    Ok(Outcome::Passed)
}

/// Builds the program with the faults, kills it, and builds it again without them.
pub(super) fn kill_twin() -> Result<Outcome, String> {
    build_with_faults().and_then(|()| kills_find_early_replies()).and_then(|()| build())
}

/// Builds the program with all faults; the environment chooses one.
fn build_with_faults() -> Result<(), String> {
    let mut command = release_cargo();
    command.args(["build", "--release", "--locked", "-p", "damrak", "--features", "failpoints"]);
    let line = shown(&command);
    let status = command.current_dir(root()).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line}: {status}")),
        Err(error) => Err(format!("{line}: {error}")),
    }
}

/// A venue that replies before it writes loses acknowledged messages, and the kills must report the loss.
fn kills_find_early_replies() -> Result<(), String> {
    let mut command = Command::new(damrak());
    command
        .args(["kill", "--times", "15", "--durability", "written", "--json", "--out"])
        .arg(work_folder("kill-twin"))
        .env("DAMRAK_FAILPOINT", "early");
    let line = shown(&command);
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{line}: {error}"))?;
    let talk = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(4) {
        return Err(format!("{line}: {} with `early` planted\n{talk}", output.status));
    }
    println!("damrak kill fails with `early` planted, as it must: {}", talk.trim_end());
    Ok(())
}
