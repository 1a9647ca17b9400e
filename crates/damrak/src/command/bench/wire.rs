//! `damrak bench wire`: the cost of a message on the wire, by protocol.

use clap::Args;
use lab::{
    bench::codecs::{self, CodecOptions},
    environment::{Environment, machine_line},
};
use serde_json::json;
use venue::failure::Failure;

use super::{
    super::output::{print_json, print_line},
    paired::{print_rows, row_json},
};

/// Measure the cost of a message on the wire: framing, reading, writing, by protocol.
///
/// Each row takes turns with a plain loop; quote the ratio of the two. Time is CPU time of one thread. `ouch-read` makes
/// commands of requests; its plain loop sums the same bytes. `ouch-write` makes replies of the core's outputs; its plain
/// loop copies the same replies. `soupbintcp` and `moldudp64` frame the messages. `fix-read` splits orders into fields,
/// checks them against the dictionary and makes commands of them; `fix-write` makes execution reports, with the state of
/// the session's orders. ITCH is part of `damrak bench feed`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak bench wire\n  damrak bench wire --requests 20000 --runs 11 --json"
)]
pub struct Arguments {
    /// Seed of the messages.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Requests by OUCH, and orders by FIX.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    requests: u64,
    /// Runs of each row; the plain loop and ours take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    runs: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak bench wire`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let started = Environment::now();
    let options = CodecOptions {
        seed: arguments.seed,
        requests: arguments.requests as usize,
        runs: arguments.runs as usize,
    };
    let rows = codecs::measure(&options);
    let environment = Environment::now().since(&started);
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/bench-wire/1",
            "seed": options.seed,
            "requests": options.requests,
            "runs": options.runs,
            "rows": rows.iter().map(row_json).collect::<Vec<_>>(),
            "environment": environment,
        }));
    }
    print_rows(&rows)?;
    print_line(&machine_line(&environment))
}
