//! `damrak journal backup`: copies a journal, also while its venue runs.

use std::path::PathBuf;

use clap::Args;
use journal::{BackupError, Folder};
use serde_json::json;

use crate::command::{
    JournalArguments,
    output::{grouped, print_json, print_line},
};
use venue::{clock::SystemClock, failure::Failure, recovery::verify_failure};

/// Copy a journal into a new folder, also while its venue runs.
///
/// The copy holds every whole batch of the journal, the newest snapshots and the archived segments.
/// It is synced and verified, and a venue starts from it. The journal is only read, without its
/// lock. An interrupted backup cannot be used as a journal: remove it and start again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak journal backup damrak-data /backup/2026-11-22\n  \
                        damrak journal backup damrak-data /backup/2026-11-22 --json")]
pub struct Arguments {
    #[command(flatten)]
    journal: JournalArguments,
    /// The folder of the copy: a new one, or an empty one.
    target: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let mut source = Folder::new(&arguments.journal.directory);
    let mut target = Folder::new(&arguments.target);
    let backup = journal::backup(&mut source, &mut target).map_err(|error| match &error {
        BackupError::Source(error) => verify_failure(error),
        BackupError::NotEmpty { .. } => Failure::usage(&error),
        BackupError::Target { .. } | BackupError::NoSnapshot { .. } => Failure::environment(&error),
        BackupError::Copy(_) => Failure::verification(&error),
    })?;
    let seconds = clock.since_start().as_secs_f64();
    let input_count = (backup.last_sequence + 1).saturating_sub(backup.first_sequence);
    if arguments.journal.json {
        return print_json(&json!({
            "schema": "damrak/journal-backup/1",
            "directory": arguments.journal.directory,
            "target": arguments.target,
            "journal_id": format!("{:016x}", backup.journal_id),
            "inputs": input_count,
            "first_sequence": backup.first_sequence,
            "last_sequence": backup.last_sequence,
            "segments": backup.segment_count,
            "archives": backup.archive_count,
            "snapshots": backup.snapshots,
            "bytes": backup.byte_count,
            "seconds": seconds,
        }));
    }
    print_line(&format!(
        "{}: {} inputs, sequences {} to {}, {} bytes, verified, {seconds:.3} s",
        arguments.target.display(),
        grouped(input_count),
        grouped(backup.first_sequence),
        grouped(backup.last_sequence),
        grouped(backup.byte_count),
    ))
}
