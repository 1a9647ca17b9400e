//! Memory and disk, secured before a start: by `serve`, `serve --check` and `doctor`.

use std::process::Command;

use super::program::{Venue, config, damrak, stderr};

const VERBS: [&[&str]; 2] = [&["serve"], &["serve", "--check"]];

/// Under a memory limit that its stores will exceed over time, a venue does not start: it names the memory found, the
/// memory needed and the settings to change. With smaller stores it starts under the same limit.
#[test]
fn a_venue_that_would_run_out_of_memory_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let limited = |verb: &[&str], path: &str| {
        let script = "ulimit -v 900000 && exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_damrak")]).args(verb);
        command.args(["--config", path]);
        command
    };
    let path = config(folder.path(), "");
    let text = std::fs::read_to_string(&path).unwrap();
    let (address, large) = ("address = \"127.0.0.1:0\"\n", "reply_store = \"512MiB\"\n");
    std::fs::write(&path, text.replace(address, &format!("{address}{large}"))).unwrap();
    for verb in VERBS {
        let output = limited(verb, &path).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("of address space (ulimit -v)"), "{said}");
        assert!(said.contains("the configuration needs 1."), "{said}");
        assert!(said.contains("order_entry.reply_store"), "{said}");
        assert!(said.contains("hint: lower the largest of these"), "{said}");
    }
    let output = limited(&["doctor"], &path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find(|line| line.starts_with("✗ memory")).expect("it is named");
    assert!(line.contains("of address space"), "{said}");
    assert_eq!(output.status.code(), Some(3), "{said}");

    let small = config(folder.path(), "").replace("venue.toml", "small.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&small, text.replace("512MiB", "16MiB")).unwrap();
    let mut command = limited(&["serve", "--json"], &small);
    let (venue, started) = Venue::spawn(&mut command);
    assert_eq!(started["event"], "started");
    drop(venue);
}

/// With less free space than journal.free_min a venue does not start, and leaves the disk as it was.
#[test]
fn a_venue_without_room_for_its_journal_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = config(folder.path(), "");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("[journal]\n", "[journal]\nfree_min = \"1000000000GiB\"\n"))
        .unwrap();
    for verb in VERBS {
        let output = damrak(&[verb, &["--config", &path]].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("free in journal.directory"), "{said}");
        assert!(said.contains("to start (journal.free_min)"), "{said}");
    }
    assert!(!folder.path().join("journal").exists());
}
