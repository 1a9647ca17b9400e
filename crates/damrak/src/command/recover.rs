//! `damrak recover`: the recovery of a start, without the venue.

use clap::Args;
use journal::{Durability, Folder, WriterOptions};
use serde_json::json;

use super::{
    JournalArguments,
    output::{grouped, print_json, print_line},
    torn_tail,
};
use venue::{
    clock::SystemClock,
    failure::Failure,
    recovery::{self, Recovery},
};

/// Bytes of messages to keep: few, since no client connects here.
const HISTORY_BYTES: usize = 1 << 20;

/// Recover a journal as at the start of a venue, and stop.
///
/// Takes the lock, begins with the newest usable snapshot, replays the inputs after it, truncates a torn
/// tail, syncs the journal to disk and updates its watermark. Prints the sequence numbers, the event
/// digest, the state hash and the seconds. No venue may be running on the journal. Exit code 4 if the
/// journal is corrupt; it is then left unchanged.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak recover damrak-data\n  \
                        damrak recover damrak-data --json")]
pub struct Arguments {
    #[command(flatten)]
    journal: JournalArguments,
}

/// Runs `damrak recover`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let folder = Folder::new(&arguments.journal.directory);
    if journal::identity(&mut Folder::new(&arguments.journal.directory)).is_none() {
        // The folder must exist: this verb creates nothing.
        recovery::replay_folder(&arguments.journal.directory, &mut |_, _, _| {}, &mut |_| {})?;
    }
    let options = WriterOptions {
        durability: Durability::Written,
        ..WriterOptions::new(clock.now_ns(), clock.now_ns())
    };
    let mut files = Folder::new(&arguments.journal.directory);
    let Recovery { state, mut writer, report, snapshot, passed_over } =
        recovery::resume(Box::new(folder), &mut files, &options, HISTORY_BYTES, &mut |_| {})?;
    writer.sync().map_err(Failure::runtime)?;
    drop(writer);
    let seconds = clock.since_start().as_secs_f64();
    let (digest, state_hash) = (state.digest.word(), state.engine.state_hash());
    let live_orders = u64::from(state.engine.counters().orders_live);
    let began_with = snapshot.map(|summary| summary.header.sequence);
    let replayed = report.last_sequence - began_with.unwrap_or(0);
    for error in &passed_over {
        eprintln!("note: {error}");
    }
    if arguments.journal.json {
        return print_json(&json!({
            "schema": "damrak/recover/1",
            "directory": arguments.journal.directory,
            "journal_id": format!("{:016x}", report.journal_id.unwrap_or(0)),
            "first_sequence": report.first_sequence,
            "last_sequence": report.last_sequence,
            "last_timestamp": report.last_timestamp,
            "snapshot": began_with,
            "replayed": replayed,
            "segments": report.segment_count,
            "bytes": report.byte_count,
            "torn_tail": torn_tail(report.torn_tail.as_ref()),
            "digest": format!("{digest:016x}"),
            "state_hash": format!("{state_hash:016x}"),
            "live_orders": live_orders,
            "seconds": seconds,
            "inputs_per_second": replayed as f64 / seconds,
        }));
    }
    if let Some(cut) = &report.torn_tail {
        let path = cut.path.display();
        print_line(&format!(
            "torn tail truncated: {} bytes from {path}, byte {}",
            cut.byte_count, cut.offset
        ))?;
    }
    if let Some(sequence) = began_with {
        let (sequence, replayed) = (grouped(sequence), grouped(replayed));
        print_line(&format!(
            "began with the snapshot of sequence {sequence}, replayed {replayed}"
        ))?;
    }
    print_line(&format!(
        "sequences {} to {}, event digest {digest:016x}, state hash {state_hash:016x}, {} live orders, \
         {seconds:.3} s ({} inputs a second)",
        grouped(report.first_sequence),
        grouped(report.last_sequence),
        grouped(live_orders),
        grouped((replayed as f64 / seconds) as u64),
    ))
}
