//! `damrak journal replay`: every event that follows from a journal.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::command::{
    journal_folder,
    output::{grouped, print_json, print_line},
};
use venue::{clock::SystemClock, failure::Failure, recovery};

/// Replay a journal through the core and print every event.
///
/// One JSON object a line: the sequence of the cause, its time in nanoseconds since 1970, and the
/// event. The last line has the totals, the event digest, the state hash and the speed. Exit code 4
/// if a record is corrupt or the events differ from those of the venue.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak journal replay damrak-data --from 100 --to 120\n  \
                        damrak journal replay damrak-data --quiet")]
pub struct Replay {
    /// The folder of the journal.
    #[arg(value_parser = journal_folder())]
    directory: PathBuf,
    /// Print only events of this input and later ones.
    #[arg(long, default_value_t = 1, value_name = "SEQUENCE")]
    from: u64,
    /// Print only events of this input and earlier ones.
    #[arg(long, default_value_t = u64::MAX, value_name = "SEQUENCE", hide_default_value = true)]
    to: u64,
    /// Print the last line only.
    #[arg(long)]
    quiet: bool,
}

pub fn run(arguments: &Replay) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let mut printed = Ok(());
    let mut event_count = 0_u64;
    let wanted = arguments.from..=arguments.to;
    let replay = recovery::replay_folder(&arguments.directory, &mut |_, _, _| {}, &mut |line| {
        line.each(|output| {
            event_count += 1;
            if !arguments.quiet && printed.is_ok() && wanted.contains(&output.cause.0) {
                let event = json!(output.event);
                printed = print_json(&json!({
                    "sequence": output.cause.0,
                    "timestamp": output.timestamp.0,
                    "event": kind(&event),
                    "says": event,
                }));
            }
        })
    })?;
    printed?;
    let seconds = clock.since_start().as_secs_f64();
    let (digest, state_hash) = (replay.state.digest.word(), replay.state.engine.state_hash());
    let rate = replay.report.record_count as f64 / seconds;
    if arguments.quiet {
        return print_line(&format!(
            "{} inputs, {} events, event digest {digest:016x}, state hash {state_hash:016x}, {} \
             event digests equal, {seconds:.3} s, {} inputs a second",
            grouped(replay.report.record_count),
            grouped(event_count),
            grouped(replay.digests.equal_count),
            grouped(rate as u64),
        ));
    }
    print_json(&json!({
        "schema": "damrak/journal-replay/1",
        "last_sequence": replay.report.last_sequence,
        "inputs": replay.report.record_count,
        "events": event_count,
        "digest": format!("{digest:016x}"),
        "state_hash": format!("{state_hash:016x}"),
        "digests_equal": replay.digests.equal_count,
        "digests_unknown": replay.digests.unknown_count,
        "seconds": seconds,
        "inputs_per_second": rate,
    }))
}

/// The name of the variant that a command or an event serializes to.
pub(super) fn kind(value: &Value) -> &str {
    match value {
        Value::String(name) => name,
        Value::Object(fields) => fields.keys().next().map_or("?", String::as_str),
        _ => "?",
    }
}
