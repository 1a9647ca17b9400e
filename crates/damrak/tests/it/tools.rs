//! The tools for a journal, from a user's view.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use journal::{Durability, Folder, Writer, WriterOptions};
use market::{Command as Asked, EventDigest, Input, Sequence, Timestamp};
use proof::generator::{CommandFlow, Profile};
use serde_json::Value;
use venue::{
    checkpoint::{self, DigestRecord},
    config::Config,
    recovery,
    snapshot::VenueState,
};

const EVERY: u64 = 50;

fn damrak(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_damrak")).args(arguments).output().expect("damrak runs")
}

fn json(arguments: &[&str]) -> Value {
    let output = damrak(arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text} {}", stderr(&output));
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_else(|error| {
        panic!("{arguments:?}: {error} in {text}");
    })
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A writer and the state that its journal leads to.
struct Venue {
    state: VenueState,
    writer: Writer,
}

impl Venue {
    fn open(folder: &Path) -> Self {
        let options = WriterOptions { durability: Durability::Written, ..WriterOptions::new(9, 1) };
        let storage = Box::new(Folder::new(folder));
        let (mut state, mut writer, _) = recovery::recover(storage, &options, &mut |_| {}).unwrap();
        let mut config = Config::default();
        config.journal.digest_every = EVERY;
        recovery::complete(&config, 1_000, &mut state, &mut writer, &mut |_| {}).unwrap();
        Self { state, writer }
    }

    fn take(&mut self, command: Asked) {
        let sequence = self.state.engine.sequence().next();
        let timestamp = Timestamp(1_000 + sequence.0);
        let mut payload = [0; Asked::ENCODED_LEN_MAX];
        let len = command.encode(&mut payload);
        self.writer.append(sequence.0, timestamp.0, &payload[..len]).unwrap();
        self.state.apply(&Input { sequence, timestamp, command }, &mut |_| {});
        if sequence.0.is_multiple_of(EVERY) {
            self.note(self.state.digest);
        }
        if sequence.0.is_multiple_of(7) {
            self.writer.commit().unwrap();
        }
    }

    fn note(&mut self, digest: EventDigest) {
        let Sequence(sequence) = self.state.engine.sequence();
        let fingerprint = checkpoint::fingerprint();
        let note = DigestRecord { sequence, digest, every: EVERY, fingerprint };
        self.writer.checkpoint(&note.encode()).unwrap();
    }
}

/// Writes the journal of a generated day; returns its last sequence and state hash.
fn journal(folder: &Path) -> (u64, u64) {
    let mut venue = Venue::open(folder);
    let mut flow = CommandFlow::new(5, Profile::default());
    while venue.state.engine.sequence().0 < 900 {
        venue.take(flow.next_command());
    }
    venue.writer.sync().unwrap();
    (venue.state.engine.sequence().0, venue.state.engine.state_hash())
}

/// Every tool reports the same content, state and checks of a journal.
#[test]
fn tools_agree() {
    let folder = tempfile::tempdir().unwrap();
    let (last, hash) = journal(folder.path());
    let (path, hash) = (folder.path().to_str().unwrap(), format!("{hash:016x}"));

    let verified = json(&["journal", "verify", path, "--json"]);
    assert_eq!(
        (&verified["last_sequence"], &verified["state_hash"]),
        (&last.into(), &Value::from(hash.as_str()))
    );
    assert_eq!(verified["digests_equal"], last / EVERY + 1, "{verified}");
    assert_eq!(verified["digests_unknown"], 0, "{verified}");

    let inspected = json(&["journal", "inspect", path, "--json"]);
    assert_eq!((&inspected["watermark"], &inspected["epoch"]), (&last.into(), &1.into()));
    assert_eq!(inspected["segments"][0]["inputs"], last, "{inspected}");
    assert!(stderr(&damrak(&["journal", "inspect", path])).is_empty());

    let replayed = json(&["journal", "replay", path, "--from", "20", "--to", "21"]);
    assert_eq!(replayed["state_hash"], hash.as_str());

    let exported = damrak(&["journal", "export", path, "--checkpoints"]);
    let lines: Vec<Value> = String::from_utf8_lossy(&exported.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len() as u64, last + last / EVERY + 1);
    let enter = lines.iter().find(|line| line["kind"] == "Enter").expect("orders come");
    assert!(enter["fields"]["Enter"]["price"].as_u64() > Some(0), "{enter}");
    let csv = damrak(&["journal", "export", path, "--format", "csv", "--from", "5", "--to", "6"]);
    assert_eq!(String::from_utf8_lossy(&csv.stdout).lines().count(), 3);

    let before = fs::read(folder.path().join("watermark")).unwrap();
    let at = json(&["at", path, "--json"]);
    assert_eq!((&at["sequence"], &at["state_hash"]), (&last.into(), &Value::from(hash.as_str())));
    assert_eq!(
        fs::read(folder.path().join("watermark")).unwrap(),
        before,
        "looking changes nothing"
    );

    let recovered = json(&["recover", path, "--json"]);
    assert_eq!(
        (&recovered["last_sequence"], &recovered["state_hash"]),
        (&last.into(), &Value::from(hash.as_str()))
    );
}

/// A page ends quietly when its reader goes away.
#[test]
fn a_page_ends_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_damrak"))
        .args(["man", "serve"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("damrak runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

/// The state at a sequence is that of a journal that ends there; the difference between two sequences is the orders
/// that are in one state and not in the other.
#[test]
fn the_past_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let (last, _) = journal(folder.path());
    let path = folder.path().to_str().unwrap();
    let early = json(&["at", path, "--json", "--sequence", "400"]);
    let by_time = json(&["at", path, "--json", "--time", "1400"]);
    assert_eq!(early, by_time);
    let difference = json(&["at", path, "--json", "--sequence", "400", "--and", "800"]);
    let count = |value: &Value| value.as_array().unwrap().len() as i64;
    let (gone, come) = (count(&difference["gone"]), count(&difference["come"]));
    let orders = |end: &str| difference[end]["orders"].as_i64().unwrap();
    assert_eq!(orders("from") - gone + come, orders("to"), "{difference}");
    assert!(come > 0 && difference["from"]["state_hash"] == early["state_hash"]);
    assert_eq!(damrak(&["at", path, "--sequence", "99999"]).status.code(), Some(2));
    assert_eq!(damrak(&["at", path, "--time", "today"]).status.code(), Some(2));
    let unknown = damrak(&["at", path, "--symbol", "NOSUCH"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("no instrument NOSUCH"), "{}", stderr(&unknown));
    assert!(stderr(&unknown).contains("hint: it has "), "{}", stderr(&unknown));

    // A journal cut there has the same state.
    let cut = json(&["journal", "cut", path, "--to", "400", "--force", "--json"]);
    let kept = cut["last_sequence"].as_u64().unwrap();
    assert!((394..=400).contains(&kept) && kept < last, "{cut}");
    let then = json(&["at", path, "--json"]);
    assert_eq!(then["sequence"], kept);
    assert_eq!(json(&["journal", "verify", path, "--json"])["last_sequence"], kept);
}

/// Events that differ from those of the journal stop the replay with the sequence, and a venue does not start; after a
/// cut before that sequence, it starts.
#[test]
fn other_events_are_exit_code_4() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path());
    let mut venue = Venue::open(folder.path());
    let sequence = venue.state.engine.sequence().0;
    venue.note(EventDigest::from_word(1));
    venue.writer.sync().unwrap();
    drop(venue);
    let path = folder.path().to_str().unwrap();
    for arguments in [&["journal", "verify", path][..], &["recover", path]] {
        let output = damrak(arguments);
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        let message = stderr(&output);
        assert!(message.contains(&format!("up to sequence {sequence} the venue had")), "{message}");
    }
}

/// All tools refuse a damaged journal, and it can be cut at the damage.
#[test]
fn damage_can_be_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (last, _) = journal(folder.path());
    let path = folder.path().to_str().unwrap();
    let segment = folder.path().join(journal::file_name(1));
    let mut bytes = fs::read(&segment).unwrap();
    bytes[8_192 + 20_000] ^= 8;
    fs::write(&segment, bytes).unwrap();
    for arguments in [
        &["journal", "verify", path][..],
        &["journal", "inspect", path],
        &["journal", "export", path],
        &["journal", "replay", path, "--quiet"],
        &["recover", path],
        &["at", path],
    ] {
        assert_eq!(damrak(arguments).status.code(), Some(4), "{arguments:?}");
    }
    let cut = json(&["journal", "cut", path, "--at-damage", "--json"]);
    assert!(cut["because"].as_str().unwrap().contains(", byte 2"), "{cut}");
    let kept = cut["last_sequence"].as_u64().unwrap();
    assert!(100 < kept && kept < last, "{cut}");
    assert_eq!(json(&["recover", path, "--json"])["last_sequence"], kept);
}

/// A folder that does not exist gives exit code 2 with the same words, for every verb.
#[test]
fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nosuch");
    let path = path.to_str().unwrap();
    let copy = folder.path().join("copy");
    for arguments in [
        &["journal", "verify", path][..],
        &["journal", "inspect", path],
        &["journal", "export", path],
        &["journal", "replay", path],
        &["journal", "cut", path, "--at-damage"],
        &["journal", "backup", path, copy.to_str().unwrap()],
        &["recover", path],
        &["snapshot", "make", path],
        &["snapshot", "list", path],
        &["snapshot", "verify", path],
        &["follow", path],
        &["at", path],
    ] {
        let output = damrak(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(&format!("no such folder: {path}")), "{arguments:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
    // A folder without the requested files is not a success either.
    let empty = folder.path().to_str().unwrap();
    for arguments in [&["journal", "verify", empty][..], &["snapshot", "verify", empty]] {
        assert_eq!(damrak(arguments).status.code(), Some(3), "{arguments:?}");
    }
}

/// A healthy journal is truncated only with --force, and the message names the inputs given up and the reason for the
/// place.
#[test]
fn a_healthy_journal_is_cut_by_force_only() {
    let folder = tempfile::tempdir().unwrap();
    let (last, _) = journal(folder.path());
    let path = folder.path().to_str().unwrap();
    let output = damrak(&["journal", "cut", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--to SEQUENCE or --at-damage"), "{}", stderr(&output));

    let asked = (last / 2).to_string();
    let output = damrak(&["journal", "cut", path, "--to", &asked]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("the journal is healthy") && text.contains("--force"), "{text}");
    assert_eq!(json(&["journal", "verify", path, "--json"])["last_sequence"], last);

    let cut = json(&["journal", "cut", path, "--to", &asked, "--force", "--json"]);
    let kept = cut["last_sequence"].as_u64().unwrap();
    assert!(kept <= last / 2, "{cut}");
    assert_eq!(cut["given_up"], last - kept, "{cut}");
    assert_eq!(json(&["recover", path, "--json"])["last_sequence"], kept);
    // No input is given up, so no force is needed.
    let output = damrak(&["journal", "cut", path, "--to", &asked]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// A backup has the state of its journal, and overwrites nothing.
#[test]
fn a_backup_has_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("journal");
    let (last, hash) = journal(&source);
    let copy = folder.path().join("copy");
    let (source, copy) = (source.to_str().unwrap(), copy.to_str().unwrap());
    let made = json(&["journal", "backup", source, copy, "--json"]);
    assert_eq!((&made["inputs"], &made["last_sequence"]), (&last.into(), &last.into()));
    let recovered = json(&["recover", copy, "--json"]);
    assert_eq!(recovered["state_hash"], format!("{hash:016x}"));
    let again = damrak(&["journal", "backup", source, copy]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("is not empty"), "{}", stderr(&again));
}
