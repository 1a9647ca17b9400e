//! `damrak bench feed`: the cost of the feed, each row beside a plain loop over the same bytes.

use clap::Args;
use lab::{
    bench::{
        feed::{self, FeedOptions},
        feed_snapshots::{self, SnapshotOptions, SnapshotRow},
    },
    environment::{Environment, machine_line},
};
use serde_json::json;
use venue::failure::Failure;

use super::{
    super::output::{grouped, print_json, print_line, table},
    paired::{print_rows, row_json},
};

/// Measure the feed on both sides: encoding, sending, reading, building books, snapshots.
///
/// Each row takes turns with a plain loop over the same bytes. Figures are CPU time of one thread; quote the ratio of the
/// two. `encode` makes ITCH messages of events and packs them into MoldUDP64; its plain loop copies the same messages.
/// `streams` is one agent that packs and sends many delta streams over loopback; its plain loop sends as many packets by
/// sendmmsg. `parse` reads every field of every message, and `books` builds the books order by order; their plain loop
/// sums the same bytes.
///
/// Snapshots have a table of their own: the times from the first login to the first and to the last message, for the
/// joiner that waited longest, compared with a plain server that writes as many bytes into as many connections.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak bench feed\n  \
    damrak bench feed --divisor 10 --runs 3 --json\n  \
    damrak bench feed --streams 1\n  \
    damrak bench feed --snapshots-only")]
pub struct Arguments {
    /// Seed of the messages.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Divide the numbers of messages (12 million are read) and of events (a million are encoded) by this.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    divisor: u64,
    /// Symbols of the messages that are read.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    symbols: u16,
    /// Delta streams of the agent.
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u64).range(1..=64))]
    streams: u64,
    /// Runs of each row; the plain loop and ours take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    runs: u64,
    /// Measure the snapshots alone.
    #[arg(long)]
    snapshots_only: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const MESSAGES: u64 = 12_000_000;
const EVENTS: u64 = 1_000_000;
/// Orders of the snapshots, and joiners at once.
const ORDERS: [u64; 2] = [100_000, 1_000_000];
const JOINERS: [usize; 2] = [1, 100];

/// Runs `damrak bench feed`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let started = Environment::now();
    let options = FeedOptions {
        seed: arguments.seed,
        messages: (MESSAGES / arguments.divisor) as usize,
        symbols: arguments.symbols,
        events: (EVENTS / arguments.divisor) as usize,
        streams: arguments.streams as usize,
        runs: arguments.runs as usize,
    };
    let snapshots = SnapshotOptions {
        orders: ORDERS.map(|orders| orders / arguments.divisor).into(),
        joiners: JOINERS.into(),
        runs: options.runs,
    };
    let rows = match arguments.snapshots_only {
        true => Vec::new(),
        false => feed::measure(&options)?,
    };
    let snapshots = feed_snapshots::measure(&snapshots)?;
    let environment = Environment::now().since(&started);
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/bench-feed/2",
            "seed": options.seed,
            "divisor": arguments.divisor,
            "symbols": options.symbols,
            "streams": options.streams,
            "runs": options.runs,
            "rows": rows.iter().map(row_json).collect::<Vec<_>>(),
            "snapshots": snapshots.iter().map(|row| {
                let mut value = json!(row);
                value["ratio"] = json!(row.ratio());
                value
            }).collect::<Vec<_>>(),
            "environment": environment,
        }));
    }
    if !rows.is_empty() {
        print_rows(&rows)?;
    }
    let header =
        ["orders", "joiners", "MB each", "first ms", "last ms", "plain ms", "ratio", "copies"];
    print_line(&table(header, snapshots.iter().map(snapshot_cells)))?;
    print_line(&machine_line(&environment))
}

fn snapshot_cells(row: &SnapshotRow) -> [String; 8] {
    [
        grouped(row.orders),
        row.joiners.to_string(),
        format!("{:.1}", row.bytes as f64 / 1e6),
        format!("{:.2}", row.first_ms.median()),
        format!("{:.1}", row.last_ms.median()),
        format!("{:.1}", row.beside_ms.median()),
        format!("{:.2}", row.ratio()),
        row.copies.to_string(),
    ]
}
