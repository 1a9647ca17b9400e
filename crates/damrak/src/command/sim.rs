use clap::Args;
use serde_json::json;

use super::output::{grouped, print_json, print_line};
use crate::{
    clock::SystemClock,
    failure::Failure,
    sim::{self, Summary},
};

/// Simulate a whole venue, its clients, network, disk and clock in one thread, from a seed.
///
/// Messages are delayed, lost, repeated, reordered and cut; the venue is killed, with and without
/// the power, and recovers. Afterwards every input is compared with a slow and obvious model,
/// every stream a client collected with what follows from the journal, and the book from the feed
/// with the engine's. Exit code 4, and the seed, if anything differs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak sim --seed 7\n  damrak sim --seed 1 --seeds 100\n  \
                        damrak sim --forever")]
pub struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, one after the other.
    #[arg(long, default_value_t = 1, conflicts_with = "forever")]
    seeds: u64,
    /// Go on until interrupted or until something is found.
    #[arg(long)]
    forever: bool,
    /// Turns of the venue with clients sending, for each seed.
    #[arg(long, default_value_t = 20_000)]
    ticks: u64,
    /// Break nothing: no loss, no cut, no kill.
    #[arg(long)]
    without_faults: bool,
    /// Print one JSON object a seed.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak sim`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let seeds = if arguments.forever { u64::MAX } else { arguments.seeds };
    for number in 0..seeds {
        let seed = arguments.seed.wrapping_add(number);
        let options =
            sim::Options { seed, ticks: arguments.ticks, faults: !arguments.without_faults };
        let clock = SystemClock::start();
        let summary = sim::run(&options).map_err(|violation| {
            Failure::verification(violation).hint(format!(
                "`damrak sim --seed {seed} --ticks {}` shows it again",
                arguments.ticks
            ))
        })?;
        let seconds = clock.since_start().as_secs_f64();
        if arguments.json {
            print_json(&figures(&summary, seconds))?;
        } else {
            print_line(&line(&summary, seconds))?;
        }
    }
    Ok(())
}

fn figures(summary: &Summary, seconds: f64) -> serde_json::Value {
    json!({
        "schema": "damrak/sim/1",
        "seed": summary.seed,
        "inputs": summary.inputs,
        "orders": summary.orders,
        "trades": summary.trades,
        "replies": summary.replies,
        "feed_messages": summary.feed_messages,
        "connections": summary.connections,
        "kills": summary.kills,
        "power_cuts": summary.power_cuts,
        "snapshot_starts": summary.snapshot_starts,
        "simulated_s": summary.simulated_ns as f64 / 1e9,
        "state_hash": format!("{:016x}", summary.state_hash),
        "seconds": seconds,
        "passed": true,
    })
}

fn line(summary: &Summary, seconds: f64) -> String {
    format!(
        "seed {}: {} inputs, {} orders, {} trades, {} replies over {} connections, {} kills ({} \
         with the power), {} starts from a snapshot, state {:016x}: all equal, {seconds:.2} s",
        summary.seed,
        grouped(summary.inputs),
        grouped(summary.orders),
        grouped(summary.trades),
        grouped(summary.replies),
        summary.connections,
        summary.kills,
        summary.power_cuts,
        summary.snapshot_starts,
        summary.state_hash,
    )
}
