//! The results of a run, and the files that hold them.
//!
//! Invariant: a run whose ledger, core and counts disagree has no results, only an error.

use std::{
    cmp::Ordering,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
};

use crate::order_file::{FileWriter, InstrumentTable, InstrumentTerms};
use engine::{BookView, Engine, RestingOrder};
use market::{AccountId, AssetId, InstrumentId, Price, Symbol, Text};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    Balance, Counted, Counts, Ended, InstrumentCounts, LedgerSink, ReporterSink, RunOptions,
    reporter::hex,
};
use venue::failure::Failure;

/// The files that are written while a run goes on.
pub struct Files {
    pub ledger: FileWriter,
    pub trades: FileWriter,
}

impl Files {
    /// Makes them in a folder, which is made if it is not there.
    pub fn create(folder: &Path, names_symbol: bool) -> Result<Self, Failure> {
        fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        Ok(Self {
            ledger: create(&folder.join("ledger.csv"), LedgerSink::HEADER)?,
            trades: create(&folder.join("trades.csv"), ReporterSink::header(names_symbol))?,
        })
    }
}

fn create(path: &Path, header: &str) -> Result<FileWriter, Failure> {
    FileWriter::create(path)
        .and_then(|mut file| writeln!(file, "{header}").map(|()| file))
        .map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!("cannot write {}: {error}", path.display()))
}

pub(super) struct Parts<'a> {
    pub(super) ended: Ended<LedgerSink, ReporterSink>,
    pub(super) counted: &'a Counted,
    pub(super) instruments: InstrumentTable,
    pub(super) layout: String,
}

#[derive(Clone, Debug)]
pub struct Results {
    /// Rows of orders, by kind.
    pub places: u64,
    pub cancels: u64,
    pub replaces: u64,
    pub modifies: u64,
    pub counts: Counts,
    /// By instrument.
    pub books: Vec<BookResult>,
    pub ledger_entries: u64,
    /// Of the trades, in the order in which they happened.
    pub trades_sha256: String,
    pub book_sha256: String,
    /// Of what participants have; `None` if nothing is paid for.
    pub balances_sha256: Option<String>,
    /// Of the core, after the last input.
    pub state_hash: u64,
    /// Inputs in all, those included that made instruments and participants.
    pub inputs: u64,
    /// From the first submission to the last event that was taken.
    pub seconds: f64,
    pub layout: String,
}

/// What was traded of an instrument, and what rests of it.
#[derive(Clone, Debug)]
pub struct BookResult {
    pub symbol: Symbol,
    pub traded: InstrumentCounts,
    /// The highest price at which an order would buy.
    pub best_bid: Option<Price>,
    /// The lowest price at which an order would sell.
    pub best_ask: Option<Price>,
    pub bid_levels: usize,
    pub ask_levels: usize,
    pub resting: usize,
}

/// Puts the parts together, writes the final files, and checks that all parts agree.
pub(super) fn gather(options: &RunOptions, mut parts: Parts<'_>) -> Result<Results, Failure> {
    let out = options.out.as_deref();
    let finished = parts.ended.reporter.finish().and_then(|()| parts.ended.ledger.finish());
    finished.map_err(|error| cannot_write(out.unwrap_or(Path::new(".")), &error))?;
    parts.ended.ledger.check().map_err(Failure::verification)?;
    let mut counts = parts.ended.reporter.counts().clone();
    let asked = parts.counted.deposits.load(Relaxed);
    let made = parts.ended.ledger.deposits();
    let declined: u64 = counts.declined.values().sum();
    if asked != made + declined {
        return Err(Failure::verification(format!(
            "of {asked} deposits {made} are in the ledger and {declined} were declined"
        )));
    }

    let book_sha256 = write_book(&parts, out)?;
    let balances_sha256 = match options.balances {
        Some(_) => Some(write_balances(&parts, out)?),
        None => None,
    };
    let books = books(&parts);
    counts.instruments = books.iter().map(|book| book.traded).collect();
    let counted = parts.counted;
    Ok(Results {
        places: counted.places.load(Relaxed),
        cancels: counted.cancels.load(Relaxed),
        replaces: counted.replaces.load(Relaxed),
        modifies: counted.modifies.load(Relaxed),
        counts,
        books,
        ledger_entries: parts.ended.ledger.entries(),
        trades_sha256: parts.ended.reporter.hash(),
        book_sha256,
        balances_sha256,
        state_hash: parts.ended.engine.state_hash(),
        inputs: parts.ended.last,
        seconds: parts.ended.reporter.ended_ns().saturating_sub(parts.ended.begun_ns) as f64 / 1e9,
        layout: parts.layout,
    })
}

/// Each instrument with its number, in the order of the file, and its book.
fn views<'a>(
    parts: &'a Parts<'_>,
) -> impl Iterator<Item = (&'a InstrumentTerms, usize, BookView<'a>)> {
    parts.instruments.all().iter().enumerate().map(|(index, terms)| {
        let instrument_id = InstrumentId(index as u16 + 1);
        let view =
            parts.ended.engine.book(instrument_id).expect("every instrument of a run was added");
        (terms, index, view)
    })
}

fn books(parts: &Parts<'_>) -> Vec<BookResult> {
    let counts = &parts.ended.reporter.counts().instruments;
    views(parts)
        .map(|(terms, index, view)| BookResult {
            symbol: terms.symbol,
            traded: counts[index],
            best_bid: view.best_bid(),
            best_ask: view.best_ask(),
            bid_levels: view.bid_levels().count(),
            ask_levels: view.ask_levels().count(),
            resting: view.bids().count() + view.asks().count(),
        })
        .collect()
}

/// Lines that are hashed, and written if there is somewhere to write them.
struct Lines {
    line: String,
    hash: Sha256,
    file: Option<(PathBuf, FileWriter)>,
}

impl Lines {
    fn new(out: Option<&Path>, name: &str, header: &str) -> Result<Self, Failure> {
        let file = match out.map(|folder| folder.join(name)) {
            Some(path) => Some((path.clone(), create(&path, header)?)),
            None => None,
        };
        Ok(Self { line: String::new(), hash: Sha256::new(), file })
    }

    fn push(&mut self, line: std::fmt::Arguments<'_>) -> Result<(), Failure> {
        self.line.clear();
        writeln!(self.line, "{line}").expect("text can always be added to");
        self.hash.update(self.line.as_bytes());
        match &mut self.file {
            Some((path, file)) => {
                file.write_all(self.line.as_bytes()).map_err(|error| cannot_write(path, &error))
            }
            None => Ok(()),
        }
    }

    fn finish(self) -> Result<String, Failure> {
        if let Some((path, file)) = self.file {
            file.finish().map_err(|error| cannot_write(&path, &error))?;
        }
        Ok(hex(self.hash))
    }
}

/// What rests: by instrument, bids best first and oldest first, then asks.
fn write_book(parts: &Parts<'_>, out: Option<&Path>) -> Result<String, Failure> {
    let names_symbol = parts.instruments.only().is_none();
    let symbol_column = if names_symbol { ",symbol" } else { "" };
    let header = format!("order_id,user_id,side,price,remaining{symbol_column}");
    let mut lines = Lines::new(out, "book.csv", &header)?;
    let names = names(parts);
    for (terms, _, view) in views(parts) {
        let orders = view.bids().chain(view.asks());
        for RestingOrder { key, side, price, leaves, .. } in orders {
            let (order_id, side) = (key.user_ref_num, if side.is_buy() { "buy" } else { "sell" });
            let name = names[usize::from(key.session_id.0) - 1];
            let units = leaves.units(terms.base_units_per_lot());
            if names_symbol {
                let symbol = terms.symbol;
                lines.push(format_args!("{order_id},{name},{side},{price},{units},{symbol}"))?;
            } else {
                lines.push(format_args!("{order_id},{name},{side},{price},{units}"))?;
            }
        }
    }
    lines.finish()
}

/// What everybody has, sorted by participant and asset.
fn write_balances(parts: &Parts<'_>, out: Option<&Path>) -> Result<String, Failure> {
    let mut lines = Lines::new(out, "balances.csv", "user_id,asset_id,avail,frozen")?;
    let mut assets: Vec<_> = parts
        .instruments
        .assets()
        .into_iter()
        .enumerate()
        .map(|(place, asset)| (asset.name, AssetId(place as u16 + 1)))
        .collect();
    assets.sort_by(|(one, _), (other, _)| by_number_or_text(one, other));
    let mut participants: Vec<_> = names(parts).into_iter().zip(1..).collect();
    participants.sort_by(|(one, _), (other, _)| by_number_or_text(one, other));
    for (participant, number) in participants {
        for (asset, asset_id) in &assets {
            let account_id = AccountId(number);
            let held = parts.ended.ledger.balance(account_id, *asset_id);
            agree_with_core(&parts.ended.engine, account_id, *asset_id, held)?;
            let reported = parts.ended.ledger.origin_balance(account_id, *asset_id).unwrap_or(held);
            agree(&participant, asset, held, reported)?;
            let Balance { available, reserved, .. } = reported;
            lines.push(format_args!("{participant},{asset},{available},{reserved}"))?;
        }
    }
    lines.finish()
}

/// The balances that the ledger's entries give are those of the core.
fn agree_with_core(
    engine: &Engine,
    account_id: AccountId,
    asset_id: AssetId,
    held: Balance,
) -> Result<(), Failure> {
    let known = engine.balance(account_id, asset_id);
    let core = known.map_or((0, 0), |known| (known.available, known.reserved));
    if Ok(core.0) == i128::try_from(held.available) && core.1 == held.reserved {
        return Ok(());
    }
    Err(Failure::verification(format!(
        "{account_id:?} has {core:?} of {asset_id:?} in the core, and {held:?} by the ledger"
    )))
}

/// However a balance is split, its sum is the same.
fn agree(
    participant: &Text<6>,
    asset: &Symbol,
    held: Balance,
    reported: Balance,
) -> Result<(), Failure> {
    let sum = |balance: Balance| balance.available + balance.reserved;
    if sum(held) == sum(reported) {
        return Ok(());
    }
    let (held, reported) = (sum(held), sum(reported));
    Err(Failure::verification(format!(
        "participant {participant} has {held} units of {asset}, and {reported} by the origin's rounding"
    )))
}

/// The participants, by number less 1.
fn names(parts: &Parts<'_>) -> Vec<Text<6>> {
    parts.ended.engine.sessions().map(|session| *session.username()).collect()
}

/// Numbers by their value and before text.
fn by_number_or_text<const N: usize>(one: &Text<N>, other: &Text<N>) -> Ordering {
    let key = |text: &Text<N>| (text.as_str().parse::<u64>().unwrap_or(u64::MAX), *text);
    key(one).cmp(&key(other))
}

impl Results {
    pub fn rejected(&self) -> u64 {
        self.counts.rejected.values().sum()
    }

    /// New orders whose number was used before, which are not taken.
    pub fn duplicates(&self) -> u64 {
        self.places - self.counts.accepted - self.rejected()
    }

    pub fn not_found(&self) -> u64 {
        self.cancels - self.counts.canceled
    }

    pub fn rows(&self) -> u64 {
        self.places + self.cancels + self.replaces + self.modifies
    }

    pub fn commands_per_second(&self) -> f64 {
        self.inputs as f64 / self.seconds.max(1e-9)
    }

    pub fn traded(&self) -> InstrumentCounts {
        self.books.iter().fold(InstrumentCounts::default(), |sum, book| InstrumentCounts {
            trades: sum.trades + book.traded.trades,
            self_trades: sum.self_trades + book.traded.self_trades,
            volume: sum.volume + book.traded.volume,
            notional: sum.notional + book.traded.notional,
        })
    }

    /// As `damrak run --json` prints it.
    pub fn to_json(&self) -> Value {
        let reasons = |reasons: &std::collections::BTreeMap<market::RejectReason, u64>| {
            let named = reasons.iter().map(|(reason, count)| (format!("{reason:?}"), json!(count)));
            named.collect::<serde_json::Map<_, _>>()
        };
        let declined = self.counts.declined.iter();
        let declined = declined.map(|(reason, count)| (format!("{reason:?}"), json!(count)));
        let replaces_rejected: u64 = self.counts.replaces_rejected.values().sum();
        let done = self.counts.replaced + replaces_rejected + self.counts.replaces_canceled;
        json!({
            "schema": "damrak/run/1",
            "version": env!("CARGO_PKG_VERSION"),
            "layout": self.layout,
            "rows": self.rows(),
            "inputs": self.inputs,
            "places": {
                "accepted": self.counts.accepted,
                "rejected": self.rejected(),
                "duplicates": self.duplicates(),
                "reasons": reasons(&self.counts.rejected),
            },
            "cancels": { "effective": self.counts.canceled, "not_found": self.not_found() },
            "replaces": {
                "effective": self.counts.replaced,
                "rejected": replaces_rejected,
                "canceled": self.counts.replaces_canceled,
                "not_found": self.replaces - done,
                "reasons": reasons(&self.counts.replaces_rejected),
            },
            "modifies": {
                "effective": self.counts.modified,
                "not_found": self.modifies - self.counts.modified,
            },
            "declined": declined.collect::<serde_json::Map<_, _>>(),
            "trades": self.traded().trades,
            "self_trades": self.traded().self_trades,
            "ledger_entries": self.ledger_entries,
            "instruments": self.books.iter().map(|book| json!({
                "symbol": book.symbol.as_str(),
                "trades": book.traded.trades,
                "self_trades": book.traded.self_trades,
                "volume": book.traded.volume.to_string(),
                "notional": book.traded.notional.to_string(),
                "best_bid": book.best_bid.map(|price| price.0),
                "best_ask": book.best_ask.map(|price| price.0),
                "bid_levels": book.bid_levels,
                "ask_levels": book.ask_levels,
                "resting": book.resting,
            })).collect::<Vec<_>>(),
            "sha256": {
                "trades": self.trades_sha256,
                "book": self.book_sha256,
                "balances": self.balances_sha256,
            },
            "state_hash": format!("{:016x}", self.state_hash),
            "seconds": self.seconds,
            "commands_per_second": self.commands_per_second(),
        })
    }
}
