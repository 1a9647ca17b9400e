//! `damrak bench recovery`: the time of a start from a snapshot, and the cost of making one.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::json;

use super::super::output::{duration, grouped, print_json, print_line};
use lab::{bench::recovery, environment::Environment};
use venue::failure::Failure;

/// Measure a start from a snapshot, and the cost of snapshots to the running core.
///
/// Writes a journal of resting orders into a new folder, replays it, makes a snapshot, and starts from
/// it. A bare read of the same bytes is measured too; all reads come from the page cache. Then a core with
/// its journal (durability `written`) enters and cancels orders, with and without a follower that makes
/// one snapshot after the other. Exit code 4 if the states differ.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak bench recovery\n  \
    damrak bench recovery --orders 1000000,10000000 --runs 5 --json\n  \
    damrak bench recovery --orders 100000 --inputs 0")]
pub struct Arguments {
    /// Numbers of resting orders, comma-separated.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000])]
    orders: Vec<u64>,
    /// Inputs of a run of the second measurement; 0 skips it.
    #[arg(long, default_value_t = 4_000_000)]
    inputs: u64,
    /// Resting orders in the second measurement.
    #[arg(long, default_value_t = 100_000)]
    book: u64,
    /// Runs of each measurement.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Folder for the files, which are removed afterwards [default: the temporary folder].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak bench recovery`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let parent = arguments.folder.clone().unwrap_or_else(env::temp_dir);
    let folder = parent.join(format!("damrak-bench-recovery-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| {
        Failure::environment(format!("cannot make {}: {error}", folder.display()))
            .hint("--folder names another place")
    })?;
    let measured = measure(arguments, &folder);
    let removed = fs::remove_dir_all(&folder);
    let agrees = measured?;
    removed.map_err(|error| {
        Failure::runtime(format!("cannot remove {}: {error}", folder.display()))
    })?;
    match agrees {
        true => Ok(()),
        false => {
            Err(Failure::verification("the state from a snapshot differs from that of the replay"))
        }
    }
}

fn measure(arguments: &Arguments, folder: &Path) -> Result<bool, Failure> {
    let started = Environment::now();
    let runs = arguments.runs as usize;
    let mut restarts = Vec::new();
    for orders in &arguments.orders {
        let place = folder.join(format!("orders-{orders}"));
        let row = recovery::restart(&place, *orders, runs)?;
        fs::remove_dir_all(&place).map_err(Failure::runtime)?;
        if !arguments.json {
            print_line(&line(&row))?;
        }
        restarts.push(row);
    }
    let cost = match arguments.inputs {
        0 => None,
        inputs => Some(recovery::cost(folder, arguments.book, inputs, runs)?),
    };
    if let (Some([without, with]), false) = (&cost, arguments.json) {
        print_line(&format!(
            "core beside snapshots: {} inputs/s without, {} with ({:+.1} %), commit p99.9 {} and {} \
             ({:.2} times), {} snapshots",
            grouped(without.rate() as u64),
            grouped(with.rate() as u64),
            100.0 * (with.rate() / without.rate() - 1.0),
            duration(without.p999() as u64),
            duration(with.p999() as u64),
            with.p999() / without.p999(),
            with.snapshots,
        ))?;
    }
    let agrees = restarts.iter().all(|row| row.agrees);
    if arguments.json {
        print_json(&json!({
            "schema": "damrak/bench-recovery/1",
            "runs": runs,
            "restarts": restarts.iter().map(recovery::RestartRow::to_json).collect::<Vec<_>>(),
            "cost": cost,
            "environment": Environment::now().since(&started),
        }))?;
    }
    Ok(agrees)
}

fn line(row: &recovery::RestartRow) -> String {
    format!(
        "{} resting orders: start from a snapshot {:.3} s ({} bytes, bare read {:.3} s), by replay \
         {:.3} s ({} inputs/s, {:.2} of the core alone, {} bytes), of a whole venue {:.3} s ({} inputs/s); the \
         snapshot was written in {:.3} s; states {}",
        grouped(row.orders),
        row.restart_s.least(),
        grouped(row.snapshot_bytes),
        row.bare_read_s.least(),
        row.replay_s,
        grouped((row.orders as f64 / row.replay_s) as u64),
        row.core_s / row.replay_s,
        grouped(row.journal_bytes),
        row.venue_start_s.least(),
        grouped((row.orders as f64 / row.venue_start_s.least()) as u64),
        row.write_s,
        if row.agrees { "equal" } else { "DIFFER" },
    )
}
