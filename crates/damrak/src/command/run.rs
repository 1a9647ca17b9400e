//! `damrak run`: an order file through the whole pipeline, and its results.
//!
//! Invariant: the results depend on the file alone, never on the layout.

use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use clap::{Args, ValueEnum};
use journal::Durability;
use lab::order_file::ReadProgress;
use os::memory;

use super::output::{grouped, print_json, print_line};
use lab::order_run::{self, BookResult, LOOK_INTERVAL, Results, RunOptions};
use venue::{
    clock::SystemClock,
    failure::Failure,
    layout::{Layout, Wait},
};

/// The interval between two updates of the progress bar.
const BAR_INTERVAL: Duration = Duration::from_millis(200);

/// The most books printed one by one; if there are more, only totals are printed.
const BOOKS_PRINTED: usize = 5;

/// Run an order file through the whole pipeline of a venue.
///
/// Runs the sequencer, journal, engine and ledger of a venue at full speed, without sockets. Prints
/// counts of orders and trades, and the SHA-256 of the trades, of the final book and of the balances.
/// The results are the same in every layout. docs/order-files.md describes the columns of the files,
/// the hashed lines and the rounding.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    damrak generate --out orders.csv.gz --balances balances.csv\n  \
    damrak run orders.csv.gz --balances balances.csv\n  \
    damrak run orders.csv.gz --balances balances.csv --layout pipeline --out results --json\n  \
    damrak run orders.csv --layout 'source+ledger+reporter | sequencer+engine | journaler'")]
pub struct Arguments {
    /// The orders, as CSV, gzipped or not.
    #[arg(value_name = "ORDERS")]
    orders: PathBuf,
    /// Opening balances of participants. Without this file there are no balances, and orders are not paid for.
    #[arg(long, value_name = "FILE")]
    balances: Option<PathBuf>,
    /// Units and decimals of each instrument; without this file the only one is BTC_USDT.
    #[arg(long, value_name = "FILE")]
    instruments: Option<PathBuf>,
    /// Which agents share threads: auto, single, engine-alone, core-alone, entry-core, pipeline, or
    /// groups.
    #[arg(long, value_name = "LAYOUT", default_value = "auto", value_parser = layout)]
    layout: Layout,
    /// The behavior of an idle thread: adaptive (by cores and threads), spin, yield or backoff.
    #[arg(long, value_name = "WAIT", default_value_t = Wait::Adaptive)]
    wait: Wait,
    /// How durable a command must be before its result is published.
    #[arg(long, value_enum, default_value_t = DurabilityName::Written)]
    durability: DurabilityName,
    /// Keep the journal in this folder, which must not hold one yet; otherwise it is removed.
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,
    /// Write trades.csv, book.csv, balances.csv and ledger.csv into this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Report exact balances, or balances rounded as in the reference system (`origin`).
    #[arg(long, value_enum, default_value_t = Rounding::None)]
    rounding: Rounding,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// See [`Arguments::rounding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rounding {
    /// Exact balances: every unused reservation is released.
    None,
    /// Balances that include the amounts that the reference system never releases.
    Origin,
}

/// See [`Arguments::durability`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DurabilityName {
    None,
    Written,
    Synced,
}

impl DurabilityName {
    /// The durability of the journal.
    pub(super) fn durability(self) -> Durability {
        match self {
            Self::None => Durability::None,
            Self::Written => Durability::Written,
            Self::Synced => Durability::Synced,
        }
    }
}

/// A layout that has each agent of a run once.
pub(super) fn layout(text: &str) -> Result<Layout, String> {
    let layout: Layout = text.parse()?;
    layout.check(&order_run::AGENTS)?;
    Ok(layout)
}

/// Runs `damrak run`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.rounding == Rounding::Origin && arguments.balances.is_none() {
        return Err(Failure::usage("--rounding origin concerns balances: give --balances"));
    }
    memory::keep_ready().map_err(Failure::environment)?;
    let journal = JournalFolder::of(arguments.journal.as_deref());
    let options = RunOptions {
        orders: arguments.orders.clone(),
        balances: arguments.balances.clone(),
        instruments: arguments.instruments.clone(),
        layout: arguments.layout.clone(),
        wait: arguments.wait,
        durability: arguments.durability.durability(),
        journal: journal.path.clone(),
        out: arguments.out.clone(),
        origin_rounding: arguments.rounding == Rounding::Origin,
        slots: None,
    };
    let clock = SystemClock::start();
    let started = order_run::start(&options, clock)?;
    let mut bar = Bar::new(&clock);
    while !started.is_over() {
        thread::sleep(LOOK_INTERVAL);
        bar.draw(started.progress(), &clock);
    }
    bar.clear();
    let results = started.finish(&options)?;
    if arguments.json { print_json(&results.to_json()) } else { print_results(&results) }
}

fn print_results(results: &Results) -> Result<(), Failure> {
    let (counts, requests) = (&results.counts, &results.requests);
    let (accepted, rejected) = (grouped(counts.accepted), grouped(results.rejected()));
    let mut rows = vec![
        ("rows", grouped(results.rows())),
        ("orders", format!("{accepted} accepted, {rejected} rejected")),
    ];
    for (reason, count) in &counts.rejected {
        rows.push(("", format!("{} {reason:?}", grouped(*count))));
    }
    if results.duplicates() > 0 {
        let duplicates = grouped(results.duplicates());
        rows.push(("", format!("{duplicates} with a number that was used before")));
    }
    if requests.cancels > 0 {
        let (effective, not_found) = (grouped(counts.canceled), grouped(results.not_found()));
        rows.push(("cancels", format!("{effective} effective, {not_found} not found")));
    }
    for (name, effective, asked) in [
        ("replaces", counts.replaced, requests.replaces),
        ("modifies", counts.modified, requests.modifies),
    ] {
        if asked > 0 {
            rows.push((name, format!("{} of {}", grouped(effective), grouped(asked))));
        }
    }
    for (reason, count) in &counts.declined {
        rows.push(("declined", format!("{} {reason:?}", grouped(*count))));
    }
    let traded = results.traded();
    let (trades, self_trades) = (grouped(traded.trades), grouped(traded.self_trades));
    rows.push(("trades", format!("{trades}, {self_trades} of them self-trades")));
    if results.ledger_entries > 0 {
        rows.push(("ledger entries", grouped(results.ledger_entries)));
    }
    for (name, text) in rows {
        print_line(&format!("{name:<16} {text}"))?;
    }
    for book in results.books.iter().take(BOOKS_PRINTED) {
        print_book(book)?;
    }
    if results.books.len() > BOOKS_PRINTED {
        let resting: usize = results.books.iter().map(|book| book.resting).sum();
        let books = results.books.len();
        print_line(&format!("{books} instruments  {} orders rest", grouped(resting as u64)))?;
    }
    print_line(&format!("sha256 trades    {}", results.trades_sha256))?;
    print_line(&format!("sha256 book      {}", results.book_sha256))?;
    if let Some(hash) = &results.balances_sha256 {
        print_line(&format!("sha256 balances  {hash}"))?;
    }
    print_line(&format!("state hash       {:016x}", results.state_hash))?;
    print_line(&format!(
        "{} inputs in {:.3} s, {} a second, layout {}",
        grouped(results.inputs),
        results.seconds,
        grouped(results.commands_per_second() as u64),
        results.layout,
    ))
}

fn print_book(book: &BookResult) -> Result<(), Failure> {
    let price =
        |price: Option<market::Price>| price.map_or("-".to_owned(), |price| grouped(price.0));
    print_line(&format!(
        "{:<16} best {} / {} ticks, {} / {} prices, {} orders rest, {} trades, volume {}, notional {}",
        book.symbol.as_str(),
        price(book.best_bid),
        price(book.best_ask),
        grouped(book.bid_levels as u64),
        grouped(book.ask_levels as u64),
        grouped(book.resting as u64),
        grouped(book.traded.trades),
        book.traded.volume,
        book.traded.notional,
    ))
}

/// The folder of a run's journal; removed at the end unless --journal names it.
struct JournalFolder {
    path: PathBuf,
    is_passing: bool,
}

impl JournalFolder {
    fn of(named: Option<&Path>) -> Self {
        match named {
            Some(path) => Self { path: path.to_owned(), is_passing: false },
            None => {
                let name = format!("damrak-run-{}", std::process::id());
                Self { path: std::env::temp_dir().join(name), is_passing: true }
            }
        }
    }
}

impl Drop for JournalFolder {
    fn drop(&mut self) {
        if self.is_passing {
            // Best effort: the system cleans its temporary folder.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A progress bar on stderr, if that is a terminal and the run takes long enough.
struct Bar {
    is_drawn: bool,
    is_terminal: bool,
    due: Duration,
}

impl Bar {
    fn new(clock: &SystemClock) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { is_drawn: false, is_terminal, due: clock.since_start() + BAR_INTERVAL }
    }

    fn draw(&mut self, progress: &ReadProgress, clock: &SystemClock) {
        if !self.is_terminal || progress.is_empty() || clock.since_start() < self.due {
            return;
        }
        const WIDTH: u64 = 40;
        self.due = clock.since_start() + BAR_INTERVAL;
        self.is_drawn = true;
        let done = progress.read().min(progress.len());
        let full = (done * WIDTH / progress.len()) as usize;
        let per_mille = u128::from(done * 1000 / progress.len());
        let percent = market::DecimalText { units: per_mille, decimals: 1 };
        // An error of the terminal does not stop the run.
        let _ = write!(
            io::stderr(),
            "\r[{:<width$}] {percent:>5} %",
            "#".repeat(full),
            width = WIDTH as usize
        );
    }

    fn clear(&self) {
        if self.is_drawn {
            let _ = write!(io::stderr(), "\r{:60}\r", "");
        }
    }
}
