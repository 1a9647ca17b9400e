//! `damrak ledger`: queries, export, catch-up from the journal, and verification of a venue's ledger.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, json};

use super::{
    configuration,
    output::{grouped, print_json, print_line},
};
use venue::{
    clock::SystemClock,
    config::{Config, LedgerStoreName},
    failure::Failure,
    ledger::{
        export,
        query::{self, Ledger},
        readable::{cell, heading, json_row},
        schema::Table,
        store::{Filter, Location, StoreError, StoreErrorKind},
        verify,
    },
};

/// Query the ledger: balances, orders, fills, movements.
///
/// Reads the store that the configuration names. If it names none, or if another process has the store open, the
/// rows are computed from the journal: the same rows, but slower.
/// Amounts in JSON and files are in the smallest units of their asset, prices in ten-thousandths.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak ledger balances\n  \
                        damrak ledger fills --account ALICE --config venue.toml\n  \
                        damrak ledger verify --json\n  damrak ledger export ledger-csv")]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Balances of accounts: available, reserved, and the number of movements.
    Balances(Ask),
    Orders(Orders),
    /// Fills, one for each side of a trade, oldest first.
    Fills(Ask),
    /// Every movement of money, oldest first.
    History(Ask),
    Export(Export),
    CatchUp(CatchUp),
    Verify(Verify),
}

#[derive(Debug, Args)]
struct Place {
    /// Configuration file, which names the ledger store and the journal's folder.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use the journal in this folder instead of the configured one.
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Ask {
    #[command(flatten)]
    place: Place,
    /// Only rows of the account with this name.
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Only the last N rows.
    #[arg(long, value_name = "COUNT")]
    last: Option<usize>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Live orders, or all orders.
#[derive(Debug, Args)]
struct Orders {
    #[command(flatten)]
    ask: Ask,
    /// Also filled, canceled and replaced orders.
    #[arg(long)]
    all: bool,
}

/// Write each table to a file of comma-separated values or of JSON lines.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak ledger export ledger-csv --table trades\n  \
                        damrak ledger export ledger-json --format jsonl")]
struct Export {
    /// The folder; made if missing.
    directory: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Only this table; can be given more than once.
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    /// The format of the files.
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The format of a table's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Comma-separated values; the first line has their names.
    Csv,
    /// One JSON object per line, in the form of a row of --json: names beside numbers, amounts as text.
    Jsonl,
}

/// Bring the store to the end of the journal; create it if it does not exist.
///
/// For a store that was added, moved or restored while the venue was down. It may be interrupted at any time;
/// the next run continues.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak ledger catch-up --config venue.toml\n  \
                        damrak ledger catch-up --config venue.toml --journal backup/journal")]
struct CatchUp {
    #[command(flatten)]
    place: Place,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Verify the ledger.
///
/// The ledger entries alone must give the balances, with each version exactly once. Every table must
/// equal, row by row, the table that follows from the journal, and the balances must equal the
/// engine's. Exit code 4 if one of these does not hold.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  damrak ledger verify --config venue.toml")]
struct Verify {
    #[command(flatten)]
    place: Place,
    /// Only check that the entries give the balances; do not read the journal.
    #[arg(long)]
    alone: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak ledger`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.verb {
        Verb::Balances(ask) => list(ask, "balances", Table::Balances, false, BALANCES),
        Verb::Orders(orders) => list(&orders.ask, "orders", Table::Orders, !orders.all, ORDERS),
        Verb::Fills(ask) => list(ask, "fills", Table::Fills, false, FILLS),
        Verb::History(ask) => list(ask, "history", Table::Entries, false, ENTRIES),
        Verb::Export(arguments) => export(arguments),
        Verb::CatchUp(arguments) => catch_up(arguments),
        Verb::Verify(arguments) => verify(arguments),
    }
}

/// The columns of each table in the printed list.
const BALANCES: &[&str] = &["account_id", "asset_id", "available", "reserved", "version"];
const ORDERS: &[&str] = &[
    "order_id",
    "account_id",
    "instrument_id",
    "side",
    "order_type",
    "price",
    "quantity",
    "executed",
    "leaves",
    "state",
];
const FILLS: &[&str] = &[
    "trade_id",
    "timestamp",
    "account_id",
    "instrument_id",
    "side",
    "role",
    "price",
    "quantity",
    "leaves",
    "order_id",
];
const ENTRIES: &[&str] = &[
    "sequence",
    "nth",
    "kind",
    "asset_id",
    "amount",
    "from_account_id",
    "from_bucket",
    "to_account_id",
    "to_bucket",
    "order_id",
    "trade_id",
];

impl Place {
    fn config(&self) -> Result<Config, Failure> {
        configuration(self.config.as_deref())
    }

    /// The ledger to query.
    fn open(&self) -> Result<Ledger, Failure> {
        let config = self.config()?;
        let directory = self.journal.as_ref().unwrap_or(&config.journal.directory);
        let location = Location::of(&config.ledger).filter(|_| self.journal.is_none());
        if let Some(location) = location {
            if !location.exists() {
                return Err(Failure::usage(format!("there is no ledger store {location}"))
                    .hint("`damrak ledger catch-up` creates it from the journal"));
            }
            match location.open().and_then(Ledger::new) {
                Ok(ledger) => return Ok(ledger),
                Err(error)
                    if error.kind == StoreErrorKind::Unavailable
                        && config.ledger.store == LedgerStoreName::Embedded =>
                {
                    eprintln!("note: {error}; the answer is computed from the journal");
                }
                Err(error) => return Err(failure(&error)),
            }
        }
        Ledger::of_journal(directory).map_err(|error| failure(&error))
    }
}

fn failure(error: &StoreError) -> Failure {
    match error.kind {
        StoreErrorKind::Unavailable | StoreErrorKind::Moved => Failure::environment(error),
        StoreErrorKind::Foreign => Failure::usage(error),
        StoreErrorKind::Corrupt => Failure::verification(error),
    }
}

fn list(ask: &Ask, verb: &str, table: Table, live: bool, shown: &[&str]) -> Result<(), Failure> {
    let mut ledger = ask.place.open()?;
    let account_id = match &ask.account {
        None => None,
        Some(name) => Some(ledger.names().account(name).ok_or_else(|| {
            Failure::usage(format!("the ledger has no account {name:?}"))
                .hint("names are those of the configuration and are case-sensitive")
        })?),
    };
    let sequence = ledger.sequence().map_err(|error| failure(&error))?;
    let mut rows = Vec::new();
    let filter = Filter { live, last: ask.last, ..Filter::of(account_id) };
    ledger
        .scan(table, &filter, &mut |values| {
            rows.push(values.to_vec());
            true
        })
        .map_err(|error| failure(&error))?;
    if ask.last.is_some() {
        rows.reverse();
    }
    let names = ledger.names();
    if ask.json {
        let rows: Vec<_> = rows.iter().map(|values| json_row(table, values, names)).collect();
        return print_json(&json!({
            "schema": format!("damrak/ledger-{verb}/1"),
            "sequence": sequence.0,
            "rows": rows,
        }));
    }
    let columns: Vec<_> = shown.iter().filter_map(|name| table.column(name)).collect();
    let head = columns.iter().map(|nth| heading(table.columns()[*nth].name).to_owned()).collect();
    let lines = rows.iter().map(|values| {
        columns.iter().map(|nth| cell(table, values, *nth, names)).collect::<Vec<_>>()
    });
    print_table(std::iter::once(head).chain(lines).collect())?;
    print_line(&format!("{} rows, up to input {sequence}", grouped(rows.len() as u64)))
}

/// Prints a table with aligned columns; the first line has the headings.
fn print_table(lines: Vec<Vec<String>>) -> Result<(), Failure> {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<_> = (0..columns)
        .map(|nth| lines.iter().map(|line| line[nth].len()).max().unwrap_or(0))
        .collect();
    for line in lines {
        let cells: Vec<_> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        print_line(cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn export(arguments: &Export) -> Result<(), Failure> {
    let tables = match arguments.table.is_empty() {
        true => Table::ALL.to_vec(),
        false => arguments.table.iter().map(|name| named(name)).collect::<Result<_, _>>()?,
    };
    let mut ledger = arguments.place.open()?;
    let failed = |what: &PathBuf, error: &io::Error| {
        Failure::environment(format!("cannot write {}: {error}", what.display()))
    };
    fs::create_dir_all(&arguments.directory)
        .map_err(|error| failed(&arguments.directory, &error))?;
    let sequence = ledger.sequence().map_err(|error| failure(&error))?;
    let mut counts = Map::new();
    for table in tables {
        let ending = match arguments.format {
            Format::Csv => "csv",
            Format::Jsonl => "jsonl",
        };
        let path = arguments.directory.join(format!("{}.{ending}", table.name()));
        let file = File::create(&path).map_err(|error| failed(&path, &error))?;
        let mut out = BufWriter::with_capacity(1 << 16, file);
        let filter = Filter::default();
        let count = match arguments.format {
            Format::Csv => export::csv(&mut ledger, table, &filter, &mut out),
            Format::Jsonl => export::json_lines(&mut ledger, table, &filter, &mut out),
        };
        let count = count.map_err(|error| failure(&error))?;
        out.flush().map_err(|error| failed(&path, &error))?;
        counts.insert(table.name().to_owned(), json!(count));
        if !arguments.json {
            print_line(&format!("{}: {} rows", path.display(), grouped(count)))?;
        }
    }
    if arguments.json {
        print_json(&json!({
            "schema": "damrak/ledger-export/1", "sequence": sequence.0, "rows": counts,
        }))?;
    }
    Ok(())
}

fn named(name: &str) -> Result<Table, Failure> {
    Table::named(name).ok_or_else(|| {
        let known: Vec<_> = Table::ALL.iter().map(|table| table.name()).collect();
        Failure::usage(format!("the ledger has no table {name:?}"))
            .hint(format!("it has {}", known.join(", ")))
    })
}

fn catch_up(arguments: &CatchUp) -> Result<(), Failure> {
    let config = arguments.place.config()?;
    let location = Location::of(&config.ledger).ok_or_else(|| {
        Failure::usage("the configuration keeps no ledger")
            .hint("set `store = \"embedded\"` under `[ledger]`")
    })?;
    let clock = SystemClock::start();
    let mut store = location.open().map_err(|error| failure(&error))?;
    let from = store
        .position()
        .map_err(|error| failure(&error))?
        .map_or(0, |position| position.sequence.0);
    let mut commits = 0_u64;
    let directory = arguments.place.journal.as_ref().unwrap_or(&config.journal.directory);
    let follower = query::catch_up(&mut *store, directory, u64::MAX, &mut |_| commits += 1)
        .map_err(|error| failure(&error))?;
    let (sequence, seconds) = (follower.sequence(), clock.since_start().as_secs_f64());
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/ledger-catch-up/1",
            "store": location.to_string(),
            "from": from,
            "sequence": sequence,
            "commits": commits,
            "seconds": seconds,
        }));
    }
    print_line(&format!(
        "{location}: from input {} to {}, {commits} commits, {seconds:.3} s",
        grouped(from),
        grouped(sequence)
    ))
}

fn verify(arguments: &Verify) -> Result<(), Failure> {
    let config = arguments.place.config()?;
    let location = Location::of(&config.ledger).ok_or_else(|| {
        Failure::usage("the configuration keeps no ledger, so there is nothing to verify")
            .hint("`damrak journal verify` checks the journal")
    })?;
    if !location.exists() {
        return Err(Failure::usage(format!("there is no ledger store {location}"))
            .hint("`damrak ledger catch-up` creates it from the journal"));
    }
    let clock = SystemClock::start();
    let mut store = location.open().map_err(|error| failure(&error))?;
    let directory = arguments.place.journal.as_ref().unwrap_or(&config.journal.directory);
    let directory = (!arguments.alone).then_some(directory.as_path());
    let findings = verify::verify(&mut *store, directory).map_err(|error| failure(&error))?;
    let seconds = clock.since_start().as_secs_f64();
    if arguments.json {
        let tables: Map<_, _> = findings
            .tables
            .iter()
            .map(|(table, digest)| {
                let digest = json!({ "rows": digest.row_count, "sha256": digest.sha256 });
                (table.name().to_owned(), digest)
            })
            .collect();
        print_json(&json!({
            "schema": "damrak/ledger-verify/1",
            "store": location.to_string(),
            "sequence": findings.sequence.0,
            "tables": tables,
            "journal": directory,
            "wrong": findings.wrong,
            "seconds": seconds,
        }))?;
    } else {
        for (table, digest) in &findings.tables {
            let (rows, sha256) = (grouped(digest.row_count), &digest.sha256);
            print_line(&format!("{:<15} {rows:>12} rows  {sha256}", table.name()))?;
        }
    }
    match findings.wrong.split_first() {
        None if arguments.json => Ok(()),
        None => print_line(&format!(
            "the ledger is correct up to input {}, {seconds:.3} s",
            grouped(findings.sequence.0)
        )),
        Some((first, others)) => Err(Failure::verification(format!(
            "the ledger is not correct: {first}{}",
            match others.len() {
                0 => String::new(),
                count => format!(" (and {count} more)"),
            }
        ))
        .hint(
            "move the store away, then rebuild it from the journal with `damrak ledger catch-up`",
        )),
    }
}
