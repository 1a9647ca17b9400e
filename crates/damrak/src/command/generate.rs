//! `damrak generate`: order files from a seed.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use lab::order_file::{FileWriter, generate::FileProfile};
use serde_json::json;

use super::output::{grouped, print_json, print_line};
use venue::failure::Failure;

/// Write an order file from a seed.
///
/// The same profile, seed and number of orders give the same rows on every machine. Profiles:
/// `origin` (one instrument, a deep and wide book, 3 cancels for 10 orders, sellers run out), `calm`
/// (one instrument, a narrow book, no rejects), `many` (a hundred instruments, every action and order
/// type), `contingent` (as `many`, with stop, pegged, iceberg and linked orders). docs/order-files.md has the
/// columns.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    damrak generate --orders 1000000 --out orders.csv.gz --balances balances.csv\n  \
    damrak generate --profile many --seed 7 --out orders.csv --balances balances.csv \
    --instruments instruments.csv")]
pub struct Arguments {
    /// Kind of market: origin, calm, many, contingent.
    #[arg(long, default_value = "origin")]
    profile: String,
    /// Seed of all rows.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of new orders; cancels and modifies are extra.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    orders: u64,
    /// Write the orders to this file; gzipped if its name ends in .gz.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Write opening balances to this file.
    #[arg(long, value_name = "FILE")]
    balances: Option<PathBuf>,
    /// Write the instruments (units, decimals) to this file.
    #[arg(long, value_name = "FILE")]
    instruments: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak generate`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let profile = FileProfile::from_name(&arguments.profile).ok_or_else(|| {
        let known: Vec<_> = FileProfile::all().iter().map(FileProfile::name).collect();
        let known = known.join(", ");
        Failure::usage(format!("there is no profile {:?}; there are {known}", arguments.profile))
    })?;
    let Arguments { seed, orders, .. } = *arguments;
    let written = write(&arguments.out, |file| profile.write_orders(seed, orders, file))?;
    if let Some(path) = &arguments.balances {
        write(path, |file| profile.write_balances(file))?;
    }
    if let Some(path) = &arguments.instruments {
        write(path, |file| profile.write_instruments(file))?;
    }
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/generate/1",
            "profile": profile.name(),
            "seed": seed,
            "rows": written.rows,
            "orders": written.orders,
            "cancels": written.cancels,
            "out": arguments.out,
            "balances": arguments.balances,
            "instruments": arguments.instruments,
        }));
    }
    print_line(&format!(
        "{}: {} rows ({} orders, {} cancels), profile {}, seed {seed}",
        arguments.out.display(),
        grouped(written.rows),
        grouped(written.orders),
        grouped(written.cancels),
        profile.name(),
    ))
}

fn write<T>(
    path: &Path,
    rows: impl FnOnce(&mut FileWriter) -> io::Result<T>,
) -> Result<T, Failure> {
    let written = FileWriter::create(path).and_then(|mut file| {
        let written = rows(&mut file)?;
        file.finish()?;
        Ok(written)
    });
    written
        .map_err(|error| Failure::environment(format!("cannot write {}: {error}", path.display())))
}
