//! `damrak journal inspect`: the segments of a journal, without replaying it.

use std::convert::Infallible;

use clap::Args;
use serde_json::json;

use crate::command::{
    JournalArguments,
    output::{grouped, hex, print_json, print_line},
    torn_tail,
};
use venue::{
    failure::Failure,
    recovery::{folder_with_archives, verify_failure},
};

/// Print the segments of a journal, its watermark, and any damage.
///
/// Verifies every byte and changes nothing; does not replay. Exit code 4 if something is corrupt.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak journal inspect damrak-data\n  \
                        damrak journal inspect damrak-data --json")]
pub struct Inspect {
    #[command(flatten)]
    journal: JournalArguments,
}

pub fn run(arguments: &Inspect) -> Result<(), Failure> {
    let mut folder = folder_with_archives(&arguments.journal.directory);
    let report = journal::verify(&mut folder, &mut |_| Ok::<(), Infallible>(()))
        .map_err(|error| verify_failure(&error))?;
    if arguments.journal.json {
        let segments: Vec<_> = report
            .segments
            .iter()
            .map(|segment| {
                json!({
                    "path": segment.path,
                    "epoch": segment.epoch,
                    "first_sequence": segment.first_sequence,
                    "last_sequence": segment.last_sequence,
                    "batches": segment.batch_count,
                    "inputs": segment.record_count,
                    "checkpoints": segment.checkpoint_count,
                    "end": segment.end,
                    "bytes": segment.file_len,
                    "chain": hex(&segment.chain),
                })
            })
            .collect();
        return print_json(&json!({
            "schema": "damrak/journal-inspect/1",
            "directory": arguments.journal.directory,
            "journal_id": format!("{:016x}", report.journal_id.unwrap_or(0)),
            "created": report.created,
            "epoch": report.epoch,
            "last_sequence": report.last_sequence,
            "last_timestamp": report.last_timestamp,
            "watermark": report.watermark,
            "segments": segments,
            "torn_tail": torn_tail(report.torn_tail.as_ref()),
            "damaged_copies": report.damaged_copies.iter().map(|copy| json!({
                "path": copy.path, "offset": copy.offset,
            })).collect::<Vec<_>>(),
        }));
    }
    print_line(&format!(
        "journal {:016x}: last sequence {}, durable to {}, opened {}",
        report.journal_id.unwrap_or(0),
        grouped(report.last_sequence),
        grouped(report.watermark),
        match report.epoch {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        },
    ))?;
    print_line(&format!(
        "{:<28}{:>7}{:>14}{:>10}{:>12}{:>8}{:>14}  chain",
        "segment", "epoch", "to sequence", "batches", "inputs", "checkpoints", "bytes used"
    ))?;
    for segment in &report.segments {
        print_line(&format!(
            "{:<28}{:>7}{:>14}{:>10}{:>12}{:>8}{:>14}  {}",
            segment.path.file_name().unwrap_or_default().to_string_lossy(),
            segment.epoch,
            grouped(segment.last_sequence),
            grouped(segment.batch_count),
            grouped(segment.record_count),
            grouped(segment.checkpoint_count),
            grouped(segment.end),
            hex(&segment.chain),
        ))?;
    }
    if let Some(cut) = &report.torn_tail {
        let path = cut.path.display();
        print_line(&format!(
            "torn tail: {} bytes from {path}, byte {}",
            cut.byte_count, cut.offset
        ))?;
    }
    for copy in &report.damaged_copies {
        let path = copy.path.display();
        print_line(&format!(
            "damaged: {path}, byte {}: the other copy of it is used",
            copy.offset
        ))?;
    }
    Ok(())
}
