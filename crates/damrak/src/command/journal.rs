//! `damrak journal`: verify, inspect, replay, export, back up and truncate a journal.

mod backup;
mod cut;
mod export;
mod inspect;
mod replay;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    JournalArguments,
    output::{grouped, print_json, print_line},
    torn_tail,
};
use venue::{clock::SystemClock, failure::Failure, recovery, stage::Progress};

/// Verify, inspect, export, back up or truncate a journal.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak journal verify damrak-data\n  \
                        damrak journal inspect damrak-data\n  \
                        damrak journal export damrak-data --format csv\n  \
                        damrak journal backup damrak-data /backup/2026-11-22")]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Verify(Verify),
    Inspect(inspect::Inspect),
    Replay(replay::Replay),
    Export(export::Export),
    Backup(backup::Arguments),
    Cut(cut::Cut),
}

/// Verify a whole journal: read every record, replay it through the core, compare the event digests.
///
/// Changes nothing, and may run while the venue writes. Exit code 4 if a record is corrupt or the
/// replay gives events other than the venue's. A torn tail is reported and is not an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak journal verify damrak-data\n  \
                        damrak journal verify demo-out/journal --json")]
pub struct Verify {
    #[command(flatten)]
    journal: JournalArguments,
}

/// Runs `damrak journal`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.verb {
        Verb::Verify(arguments) => verify(arguments),
        Verb::Inspect(arguments) => inspect::run(arguments),
        Verb::Replay(arguments) => replay::run(arguments),
        Verb::Export(arguments) => export::run(arguments),
        Verb::Backup(arguments) => backup::run(arguments),
        Verb::Cut(arguments) => cut::run(arguments),
    }
}

fn verify(arguments: &Verify) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let replay =
        recovery::replay_folder(&arguments.journal.directory, &mut |_, _, _| {}, &mut |_| {})?;
    let seconds = clock.since_start().as_secs_f64();
    let report = &replay.report;
    let state = Progress::of(&replay.state.engine);
    let digest = format!("{:016x}", replay.state.digest.word());
    let state_hash = format!("{:016x}", replay.state.engine.state_hash());
    if arguments.journal.json {
        return print_json(&json!({
            "schema": "damrak/journal-verify/1",
            "directory": arguments.journal.directory,
            "journal_id": format!("{:016x}", report.journal_id.unwrap_or(0)),
            "segments": report.segment_count,
            "records": report.record_count,
            "bytes": report.byte_count,
            "last_sequence": report.last_sequence,
            "torn_tail": torn_tail(report.torn_tail.as_ref()),
            "watermark": report.watermark,
            "digest": digest,
            "state_hash": state_hash,
            "digests_equal": replay.digests.equal_count,
            "digests_unknown": replay.digests.unknown_count,
            "orders": state.orders,
            "trades": state.trades,
            "live_orders": state.live_orders,
            "seconds": seconds,
        }));
    }
    print_line(&format!(
        "journal {:016x}: {} records in {} segments, {} bytes, last sequence {}",
        report.journal_id.unwrap_or(0),
        grouped(report.record_count),
        report.segment_count,
        grouped(report.byte_count),
        grouped(report.last_sequence),
    ))?;
    if let Some(cut) = &report.torn_tail {
        print_line(&format!(
            "torn tail: {} bytes from offset {} of {} are an unfinished batch; the next \
             start truncates them",
            cut.byte_count,
            cut.offset,
            cut.path.display(),
        ))?;
    }
    print_line(&format!(
        "replay: {} orders, {} trades, {} live, event digest {digest}, state hash {state_hash}, {} \
         event digests equal, {seconds:.3} s",
        grouped(state.orders),
        grouped(state.trades),
        grouped(state.live_orders),
        grouped(replay.digests.equal_count),
    ))
}
