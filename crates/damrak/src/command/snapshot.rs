//! `damrak snapshot`: make, list and verify snapshots of a journal.

use std::path::Path;

use clap::{Args, Subcommand};
use engine::Engine;
use journal::{Folder, SnapshotError, SnapshotHeader, Storage};
use market::EventDigest;
use serde_json::{Value, json};

use super::{
    JournalArguments,
    output::{grouped, print_json, print_line},
};
use venue::{
    clock::SystemClock, config::Bytes, failure::Failure, follower::Follower, recovery,
    snapshot::VenueState,
};

/// Inputs applied between two checks of the progress.
const STEP: usize = 1 << 16;

/// Make, list and verify snapshots of a journal.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak snapshot make damrak-data\n  \
                        damrak snapshot list damrak-data\n  damrak snapshot verify damrak-data")]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Make(Make),
    List(List),
    Verify(Verify),
}

/// Replay a journal and write its state as a snapshot.
///
/// May run while a venue writes the journal, and does not change the journal. Begins with the newest
/// usable snapshot. Older snapshots are kept.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak snapshot make damrak-data\n  \
                        damrak snapshot make damrak-data --at 100000 --from-the-first --json")]
struct Make {
    #[command(flatten)]
    journal: JournalArguments,
    /// The last input of the snapshot [default: the last of the journal].
    #[arg(long, value_name = "SEQUENCE")]
    at: Option<u64>,
    /// Keep this many bytes of replies, and as many bytes of the feed.
    #[arg(long, value_name = "BYTES", default_value = "64MiB")]
    replies: Bytes,
    /// Replay from the first input, without an older snapshot.
    #[arg(long)]
    from_the_first: bool,
}

/// List the snapshots of a folder with the contents of their headers, the newest first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak snapshot list damrak-data\n  \
                        damrak snapshot list damrak-data --json")]
struct List {
    #[command(flatten)]
    journal: JournalArguments,
}

/// Read every snapshot of a folder in full, and compare each with the journal.
///
/// Restores the state of each snapshot, compares its hash, and looks for its last record in the journal.
/// With --replay, also compares event digest and state hash with those of a replay from the first
/// record. Exit code 4 if a snapshot cannot be used.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak snapshot verify damrak-data\n  \
                        damrak snapshot verify damrak-data --replay --json")]
struct Verify {
    #[command(flatten)]
    journal: JournalArguments,
    /// Also compare with a replay of the journal from the first record.
    #[arg(long)]
    replay: bool,
}

/// Runs `damrak snapshot`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.verb {
        Verb::Make(arguments) => make(arguments),
        Verb::List(arguments) => list(arguments),
        Verb::Verify(arguments) => verify(arguments),
    }
}

fn make(arguments: &Make) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let folder = Folder::new(&arguments.journal.directory);
    let mut files = folder.second();
    let until = arguments.at.unwrap_or(u64::MAX);
    let archive_bytes = arguments.replies.0.min(2 << 30) as usize;
    let mut follower = if arguments.from_the_first {
        Follower::from_the_first(&folder, Some(archive_bytes))
    } else {
        Follower::begin(&folder, &mut *files, until, Some(archive_bytes))?
    };
    for error in follower.passed_over() {
        eprintln!("note: {error}");
    }
    while follower.poll(STEP, until, &mut |_| {})? > 0 {}
    let sequence = follower.engine().sequence().0;
    let directory = arguments.journal.directory.display();
    if sequence == 0 {
        return Err(Failure::environment(format!(
            "{directory}: the journal is empty, so there is nothing to write as a snapshot"
        )));
    }
    if let Some(at) = arguments.at.filter(|at| *at != sequence) {
        return Err(Failure::usage(format!(
            "the journal ends with sequence {sequence}, before {at}"
        )));
    }
    let began_with = follower.began_with().map(|summary| summary.header.sequence);
    if began_with == Some(sequence) {
        return Err(Failure::usage(format!("there is a snapshot of sequence {sequence} already"))
            .hint("`damrak snapshot verify` compares it with the journal"));
    }
    follower.sync_journal()?;
    let bytes = follower.write(&mut *files, clock.now_ns()).map_err(|error| {
        Failure::runtime(format!("cannot write a snapshot into {directory}: {error}"))
    })?;
    let (digest, state_hash) = (follower.digest().word(), follower.engine().state_hash());
    let seconds = clock.since_start().as_secs_f64();
    if arguments.journal.json {
        return print_json(&json!({
            "schema": "damrak/snapshot-make/1",
            "directory": arguments.journal.directory,
            "file": journal::snapshot_file_name(sequence),
            "sequence": sequence,
            "digest": format!("{digest:016x}"),
            "state_hash": format!("{state_hash:016x}"),
            "bytes": bytes,
            "began_with": began_with,
            "live_orders": follower.engine().counters().orders_live,
            "seconds": seconds,
        }));
    }
    print_line(&format!(
        "{}: {} inputs, {} live orders, event digest {digest:016x}, state hash {state_hash:016x}, {} \
         bytes, {seconds:.3} s",
        journal::snapshot_file_name(sequence),
        grouped(sequence),
        grouped(follower.engine().counters().orders_live.into()),
        grouped(bytes),
    ))
}

/// The figures of a snapshot: from its header, or from all of it.
struct Found {
    sequence: u64,
    header: Result<SnapshotHeader, SnapshotError>,
}

fn found(files: &mut dyn Storage, directory: &Path) -> Result<Vec<Found>, Failure> {
    let sequences = journal::snapshots(files).map_err(|error| {
        Failure::environment(format!("cannot list {}: {error}", directory.display()))
    })?;
    let of =
        |sequence| Found { sequence, header: journal::read_snapshot_header(files, None, sequence) };
    Ok(sequences.into_iter().map(of).collect())
}

fn list(arguments: &List) -> Result<(), Failure> {
    let mut files = Folder::new(&arguments.journal.directory);
    let found = found(&mut files, &arguments.journal.directory)?;
    if arguments.journal.json {
        return print_json(&json!({
            "schema": "damrak/snapshot-list/1",
            "directory": arguments.journal.directory,
            "snapshots": found.iter().map(|it| figures(it, &[])).collect::<Vec<_>>(),
        }));
    }
    if found.is_empty() {
        return print_line("no snapshot");
    }
    for it in &found {
        print_line(&match &it.header {
            Ok(header) => format!(
                "{}  journal {:016x}  event digest {:016x}",
                journal::snapshot_file_name(it.sequence),
                header.journal_id,
                header.digest,
            ),
            Err(error) => error.to_string(),
        })?;
    }
    Ok(())
}

fn figures(found: &Found, more: &[(&str, Value)]) -> Value {
    let mut figures = json!({
        "file": journal::snapshot_file_name(found.sequence),
        "sequence": found.sequence,
        "journal_id": found.header.as_ref().ok().map(|it| format!("{:016x}", it.journal_id)),
        "timestamp": found.header.as_ref().ok().map(|it| it.timestamp),
        "created": found.header.as_ref().ok().map(|it| it.created),
        "digest": found.header.as_ref().ok().map(|it| format!("{:016x}", it.digest)),
        "fault": found.header.as_ref().err().map(ToString::to_string),
    });
    for (name, value) in more {
        figures[name] = value.clone();
    }
    figures
}

fn verify(arguments: &Verify) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let folder = Folder::new(&arguments.journal.directory);
    let mut files = folder.second();
    let found = found(&mut *files, &arguments.journal.directory)?;
    let replayed = if arguments.replay {
        let wanted: Vec<u64> = found.iter().map(|it| it.sequence).collect();
        replayed_states(&arguments.journal.directory, &wanted)?
    } else {
        Vec::new()
    };
    let journal_id = journal::identity(&mut *folder.second());
    let mut bad = 0;
    let mut figures_of_all = Vec::new();
    for it in &found {
        let read = VenueState::read(&mut *files, journal_id, it.sequence, None);
        let read = read.and_then(|(summary, state)| {
            recovery::confirm(&folder, &*files, &summary.header).map(|()| (summary, state))
        });
        let replay = replayed.iter().find(|replay| replay.sequence == it.sequence);
        let line = match read {
            Err(error) => Err(error.to_string()),
            Ok((summary, state)) => {
                let found = Passed::of(&state.engine, state.digest);
                match replay.and_then(|replay| found.difference(replay)) {
                    Some(what) => {
                        let file = journal::snapshot_file_name(it.sequence);
                        Err(format!("{file}: {what}"))
                    }
                    None => Ok((summary, state.engine.counters().orders_live, found.state_hash)),
                }
            }
        };
        bad += usize::from(line.is_err());
        if arguments.journal.json {
            figures_of_all.push(match line {
                Ok((summary, live, state_hash)) => figures(
                    it,
                    &[
                        ("state_hash", json!(format!("{state_hash:016x}"))),
                        ("bytes", json!(summary.byte_count)),
                        ("sections", json!(summary.section_count)),
                        ("live_orders", json!(live)),
                        ("replay_equal", json!(replay.map(|_| true))),
                    ],
                ),
                Err(fault) => figures(it, &[("fault", json!(fault))]),
            });
        } else {
            print_line(&match line {
                Ok((summary, live, state_hash)) => format!(
                    "{}: whole, {} bytes, {} live orders, event digest {:016x}, state hash \
                     {state_hash:016x}{}",
                    journal::snapshot_file_name(it.sequence),
                    grouped(summary.byte_count),
                    grouped(live.into()),
                    summary.header.digest,
                    if replay.is_some() { ", equal to a replay" } else { "" },
                ),
                Err(fault) => fault,
            })?;
        }
    }
    if arguments.journal.json {
        print_json(&json!({
            "schema": "damrak/snapshot-verify/1",
            "directory": arguments.journal.directory,
            "snapshots": figures_of_all,
            "bad": bad,
            "seconds": clock.since_start().as_secs_f64(),
        }))?;
    }
    if found.is_empty() {
        let directory = arguments.journal.directory.display();
        return Err(Failure::environment(format!("{directory} has no snapshot to verify"))
            .hint("`damrak snapshot make` makes one"));
    }
    match bad {
        0 => Ok(()),
        1 => Err(Failure::verification("a snapshot cannot be used")
            .hint("a start ignores it; remove the file once an older or newer one is whole")),
        bad => Err(Failure::verification(format!("{bad} snapshots cannot be used"))
            .hint("a start ignores them; `damrak snapshot make` makes a new one")),
    }
}

/// The numbers by which a state after an input is compared: event digest and state hash.
struct Passed {
    sequence: u64,
    digest: u64,
    state_hash: u64,
}

impl Passed {
    fn of(engine: &Engine, digest: EventDigest) -> Self {
        let (digest, state_hash) = (digest.word(), engine.state_hash());
        Self { sequence: engine.sequence().0, digest, state_hash }
    }

    /// How it differs from that of a replay, if it does.
    fn difference(&self, replay: &Self) -> Option<String> {
        [
            ("event digest", self.digest, replay.digest),
            ("state hash", self.state_hash, replay.state_hash),
        ]
        .into_iter()
        .find(|(_, ours, replayed)| ours != replayed)
        .map(|(what, ours, replayed)| {
            format!("its {what} is {ours:016x}, but a replay gives {replayed:016x}")
        })
    }
}

/// Those of a replay after these inputs.
fn replayed_states(directory: &Path, wanted: &[u64]) -> Result<Vec<Passed>, Failure> {
    let mut found = Vec::new();
    recovery::replay_folder(
        directory,
        &mut |input, engine, digest| {
            if wanted.contains(&input.sequence.0) {
                found.push(Passed::of(engine, digest));
            }
        },
        &mut |_| {},
    )?;
    Ok(found)
}
