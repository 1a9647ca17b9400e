//! The results of a run, and the files that hold them.
//!
//! Invariant: a run whose ledger, core and counts disagree has no results, only an error.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    fmt::Debug,
    fs,
    io::{self, Write as _},
    path::Path,
};

use crate::order_file::{FileWriter, InstrumentTable, InstrumentTerms};
use engine::{BookView, Engine, RestingOrder};
use market::{AccountId, AssetId, InstrumentId, Price, Symbol, Text};
use serde_json::{Value, json};

use super::{
    Balance, Counts, Ended, InstrumentCounts, LedgerSink, ReporterSink, RequestCounts, RunOptions,
    hashed_lines::HashedLines,
};
use venue::failure::Failure;

/// The files that are written while a run goes on.
pub struct Files {
    pub ledger: FileWriter,
    pub trades: FileWriter,
}

impl Files {
    /// Makes them in a folder, which is created if it does not exist.
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

pub(super) struct Parts {
    pub(super) ended: Ended<LedgerSink, ReporterSink>,
    pub(super) instruments: InstrumentTable,
    pub(super) layout: String,
}

#[derive(Clone, Debug)]
pub struct Results {
    pub requests: RequestCounts,
    pub counts: Counts,
    /// By instrument.
    pub books: Vec<BookResult>,
    pub ledger_entries: u64,
    /// Of the trades, in the order in which they happened.
    pub trades_sha256: String,
    pub book_sha256: String,
    /// Of the participants' balances; `None` if nothing is paid for.
    pub balances_sha256: Option<String>,
    /// Of the core, after the last input.
    pub state_hash: u64,
    /// Inputs in all, those included that made instruments and participants.
    pub inputs: u64,
    /// From the first submission to the last event that was taken.
    pub seconds: f64,
    pub layout: String,
}

/// The trades of an instrument, and its resting orders.
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
pub(super) fn gather(options: &RunOptions, parts: Parts) -> Result<Results, Failure> {
    let out = options.out.as_deref();
    let Parts { ended, instruments, layout } = parts;
    let Ended { engine, mut ledger, reporter, begun_ns, last, requests, .. } = ended;
    let seconds = reporter.ended_ns().saturating_sub(begun_ns) as f64 / 1e9;
    let finished = ledger.finish().and_then(|()| reporter.finish());
    let (counts, trades_sha256) =
        finished.map_err(|error| cannot_write(out.unwrap_or(Path::new(".")), &error))?;
    ledger.check().map_err(Failure::verification)?;
    let (asked, made) = (requests.deposits, ledger.deposits());
    let declined: u64 = counts.declined.values().sum();
    if asked != made + declined {
        return Err(Failure::verification(format!(
            "of {asked} deposits {made} are in the ledger and {declined} were declined"
        )));
    }
    let book_sha256 = write_book(&engine, &instruments, out)?;
    let balances_sha256 = match options.balances {
        Some(_) => Some(write_balances(&engine, &ledger, &instruments, out)?),
        None => None,
    };
    let books = views(&engine, &instruments).zip(&counts.instruments);
    let books = books.map(|((terms, view), traded)| BookResult {
        symbol: terms.symbol,
        traded: *traded,
        best_bid: view.best_bid(),
        best_ask: view.best_ask(),
        bid_levels: view.bid_levels().count(),
        ask_levels: view.ask_levels().count(),
        resting: view.bids().count() + view.asks().count(),
    });
    Ok(Results {
        requests,
        books: books.collect(),
        counts,
        ledger_entries: ledger.entries(),
        trades_sha256,
        book_sha256,
        balances_sha256,
        state_hash: engine.state_hash(),
        inputs: last,
        seconds,
        layout,
    })
}

/// Each instrument in the order of the file, and its book.
fn views<'a>(
    engine: &'a Engine,
    instruments: &'a InstrumentTable,
) -> impl Iterator<Item = (&'a InstrumentTerms, BookView<'a>)> {
    instruments.all().iter().zip(1..).map(|(terms, number)| {
        let view = engine.book(InstrumentId(number));
        (terms, view.expect("every instrument of a run was added"))
    })
}

/// Hashes the lines that `write` pushes, and writes them to a file of this folder, if there is one.
fn lines(
    out: Option<&Path>,
    name: &str,
    header: &str,
    write: impl FnOnce(&mut HashedLines) -> io::Result<()>,
) -> Result<String, Failure> {
    let path = out.map(|folder| folder.join(name));
    let file = path.as_deref().map(|path| create(path, header)).transpose()?;
    let mut lines = HashedLines::new(file);
    let written = write(&mut lines).and_then(|()| lines.finish());
    written.map_err(|error| cannot_write(&path.unwrap_or_default(), &error))
}

/// The resting orders: by instrument, bids best first and oldest first, then asks.
fn write_book(
    engine: &Engine,
    instruments: &InstrumentTable,
    out: Option<&Path>,
) -> Result<String, Failure> {
    let names_symbol = instruments.only().is_none();
    let symbol_column = if names_symbol { ",symbol" } else { "" };
    let header = format!("order_id,user_id,side,price,remaining{symbol_column}");
    let names = names(engine);
    lines(out, "book.csv", &header, |lines| {
        for (terms, view) in views(engine, instruments) {
            for RestingOrder { key, side, price, leaves, .. } in view.bids().chain(view.asks()) {
                let (id, side) = (key.user_ref_num, if side.is_buy() { "buy" } else { "sell" });
                let name = names[usize::from(key.session_id.0) - 1];
                let units = leaves.units(terms.base_units_per_lot());
                let symbol = terms.symbol;
                if names_symbol {
                    lines.push(format_args!("{id},{name},{side},{price},{units},{symbol}"))?;
                } else {
                    lines.push(format_args!("{id},{name},{side},{price},{units}"))?;
                }
            }
        }
        Ok(())
    })
}

/// The balances, sorted by participant and asset, after a comparison with those of the core.
fn write_balances(
    engine: &Engine,
    ledger: &LedgerSink,
    instruments: &InstrumentTable,
    out: Option<&Path>,
) -> Result<String, Failure> {
    let mut assets: Vec<_> =
        instruments.assets().iter().map(|asset| asset.name).zip((1..).map(AssetId)).collect();
    assets.sort_by(|(one, _), (other, _)| by_number_or_text(one, other));
    let mut participants: Vec<_> = names(engine).into_iter().zip((1..).map(AccountId)).collect();
    participants.sort_by(|(one, _), (other, _)| by_number_or_text(one, other));
    let mut rows = Vec::with_capacity(participants.len() * assets.len());
    for (participant, account_id) in participants {
        for (asset, asset_id) in &assets {
            let held = ledger.balance(account_id, *asset_id);
            agree_with_core(engine, account_id, *asset_id, held)?;
            let reported = ledger.origin_balance(account_id, *asset_id).unwrap_or(held);
            agree(&participant, asset, held, reported)?;
            rows.push((participant, *asset, reported));
        }
    }
    lines(out, "balances.csv", "user_id,asset_id,avail,frozen", |lines| {
        rows.iter().try_for_each(|(participant, asset, Balance { available, reserved, .. })| {
            lines.push(format_args!("{participant},{asset},{available},{reserved}"))
        })
    })
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

fn names(engine: &Engine) -> Vec<Text<6>> {
    engine.sessions().map(|session| *session.username()).collect()
}

/// Numbers are ordered by their value and before text.
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
        self.requests.places - self.counts.accepted - self.rejected()
    }

    pub fn not_found(&self) -> u64 {
        self.requests.cancels - self.counts.canceled
    }

    pub fn rows(&self) -> u64 {
        self.requests.places
            + self.requests.cancels
            + self.requests.replaces
            + self.requests.modifies
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

    pub fn to_json(&self) -> Value {
        fn reasons<R: Debug>(counts: &BTreeMap<R, u64>) -> BTreeMap<String, u64> {
            counts.iter().map(|(reason, count)| (format!("{reason:?}"), *count)).collect()
        }
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
                "not_found": self.requests.replaces - done,
                "reasons": reasons(&self.counts.replaces_rejected),
            },
            "modifies": {
                "effective": self.counts.modified,
                "not_found": self.requests.modifies - self.counts.modified,
            },
            "declined": reasons(&self.counts.declined),
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
