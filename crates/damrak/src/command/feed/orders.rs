//! `damrak feed to-orders` and `damrak feed compare`: make orders of a recorded day, and compare a venue's feed with it.
//!
//! Invariant: a day is read as a stream; each kind of message that orders cannot repeat is reported with its reason.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use lab::{
    order_file::FileWriter,
    recorded_day::{
        DayComparison, DayOrders, Divergences, LineName, SESSIONS_MAX, write_instruments,
        write_venue,
    },
};
use serde_json::{Value, json};
use venue::failure::Failure;

use super::{
    super::output::{counted, grouped, price, print_json, print_line},
    files::{self, Recording},
};

/// Make orders of a recorded ITCH day, for a replay into a venue.
///
/// Reads every form of a recording as a stream, also whole ITCH 5.0 days of Nasdaq, and writes an order file with the time
/// of each row: orders that rest, cancels, replaces, and for each execution an order of the other side at that price. All
/// orders of an instrument belong to one participant. Memory grows only with the live orders. Messages that orders cannot
/// repeat (hidden orders, crosses, unknown references) are counted by reason. docs/recorded-day.md describes the
/// translation of each message.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    damrak feed to-orders day.itch orders.csv.gz --instruments instruments.csv --venue venue.toml\n  \
    zcat 01302020.NASDAQ_ITCH50.gz | damrak feed to-orders - orders.csv.gz --sessions 8\n  \
    damrak serve --config venue.toml\n  \
    damrak load --replay orders.csv.gz --instruments instruments.csv --connections 3 --speed 10\n  \
    damrak feed compare day.itch venue.itch")]
pub struct ToOrdersArguments {
    /// The day: BinaryFILE, pcap or CSV, recognized by its first bytes; `-` is standard input.
    day: PathBuf,
    /// The order file to write; gzipped if its name ends in .gz.
    orders: PathBuf,
    /// Participants, named user01, user02, …; instruments are shared among them.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=i64::from(SESSIONS_MAX)))]
    sessions: u16,
    /// Write the instruments of the day to this file, which `load --replay` and `run` need.
    #[arg(long, value_name = "FILE")]
    instruments: Option<PathBuf>,
    /// Write the configuration of a venue with these instruments and participants to this file.
    #[arg(long, value_name = "FILE")]
    venue: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Compare a recorded day with the feed of a venue that took its orders.
///
/// Compares the books of each instrument message by message, and order by order at the end. Order reference numbers and
/// the order of messages of different instruments may differ. Reports for each instrument the first difference, and the
/// last message before it that orders could not repeat. Exit code 4 if books differ at the end or at any earlier message.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak feed record venue.itch --from-start --for 60s\n  \
                        damrak feed compare day.itch venue.itch\n  \
                        damrak feed compare day.itch venue.pcap --json")]
pub struct CompareArguments {
    /// The day that `to-orders` read.
    day: PathBuf,
    /// A recording of the venue's feed from its start.
    feed: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Instruments named one by one; the rest is counted.
const NAMED_MAX: usize = 10;

/// Runs `damrak feed to-orders`.
pub(super) fn to_orders(arguments: &ToOrdersArguments) -> Result<(), Failure> {
    let ToOrdersArguments { day, orders, sessions, instruments, venue, json } = arguments;
    for written in [Some(orders), instruments.as_ref(), venue.as_ref()].into_iter().flatten() {
        files::refuse_same(day, written)?;
    }
    let unwritten = |error| files::unwritten(orders, error);
    let mut reader = files::open(day)?;
    let file = FileWriter::create(orders).map_err(unwritten)?;
    let mut made = DayOrders::new(file, *sessions).map_err(unwritten)?;
    let mut failed = None;
    loop {
        let is_more = reader.next(&mut |recorded| {
            if failed.is_none() {
                failed = made.take(recorded.number, recorded.message).err();
            }
        });
        if let Some(error) = failed {
            return Err(unwritten(error));
        }
        if !is_more.map_err(|error| files::unreadable(day, error))? {
            break;
        }
    }
    let (rows, symbols, divergences) = (made.rows(), made.symbols(), made.divergences().clone());
    let (messages, without_orders) = (made.messages(), made.without_orders());
    made.into_inner().finish().map_err(unwritten)?;
    if let Some(path) = instruments {
        write(path, |file| write_instruments(&symbols, file))?;
    }
    if let Some(path) = venue {
        write(path, |file| write_venue(&symbols, *sessions, file))?;
    }
    let read = reader.report();
    if *json {
        print_json(&json!({
            "schema": "damrak/feed-to-orders/1",
            "messages": messages,
            "without_orders": without_orders,
            "rows": rows.rows(),
            "requests": rows,
            "instruments": symbols.len(),
            "sessions": sessions,
            "divergences": divergences_json(&divergences),
            "missing": read.missing,
        }))?;
    } else {
        print_line(&format!(
            "{}: {} rows of {} messages ({} orders, {} that take, {} cancels, {} replaces), {} instruments",
            orders.display(),
            grouped(rows.rows()),
            grouped(messages),
            grouped(rows.places),
            grouped(rows.takes),
            grouped(rows.cancels),
            grouped(rows.replaces),
            grouped(symbols.len() as u64),
        ))?;
        print_divergences(&divergences)?;
    }
    files::missing(day, read)
}

/// Runs `damrak feed compare`.
pub(super) fn compare(arguments: &CompareArguments) -> Result<(), Failure> {
    let CompareArguments { day, feed, json } = arguments;
    let (mut day_reader, mut feed_reader) = (files::open(day)?, files::open(feed)?);
    let mut comparison = DayComparison::default();
    let (mut day_is_over, mut feed_is_over) = (false, false);
    while !(day_is_over && feed_is_over) {
        let is_day = match comparison.behind() {
            LineName::Day => !day_is_over,
            LineName::Venue => feed_is_over,
        };
        if is_day {
            day_is_over = step(day, &mut day_reader, |number, message| {
                comparison.take_day(number, message);
            })?;
        } else {
            feed_is_over = step(feed, &mut feed_reader, |number, message| {
                comparison.take_venue(number, message);
            })?;
        }
    }
    comparison.end();
    let (instruments, books) = comparison.book_differences();
    if *json {
        let (trades, shares) = comparison.trades_missing();
        print_json(&json!({
            "schema": "damrak/feed-compare/1",
            "messages": { "day": comparison.messages().0, "venue": comparison.messages().1 },
            "instruments": instruments,
            "agreed": comparison.agreed(),
            "trades_missing": { "messages": trades, "shares": shares },
            "parted": comparison.differences(),
            "books": books,
            "out_of_step": comparison.is_out_of_step(),
            "refused": comparison.refused(),
            "divergences": divergences_json(comparison.divergences()),
            "missing": { "day": day_reader.report().missing, "venue": feed_reader.report().missing },
        }))?;
    } else {
        print_comparison(&comparison, instruments, &books)?;
    }
    files::missing(day, day_reader.report())?;
    files::missing(feed, feed_reader.report())?;
    let (parted, differ) = (comparison.differences().len(), books.len());
    if comparison.is_out_of_step() {
        return Err(Failure::verification(
            "the feeds are out of step: too many messages wait for their counterparts",
        )
        .hint(
            "check that the second file is the feed of a venue that took the orders of the first",
        ));
    }
    if parted + differ == 0 {
        return Ok(());
    }
    Err(Failure::verification(format!(
        "the feeds part in {}, and the books of {} differ at the end",
        counted(parted as u64, "instrument"),
        counted(differ as u64, "instrument"),
    )))
}

/// Reads the next record; true at the end of the file.
fn step(
    path: &Path,
    reader: &mut Recording,
    mut take: impl FnMut(u64, &[u8]),
) -> Result<bool, Failure> {
    let is_more = reader.next(&mut |recorded| take(recorded.number, recorded.message));
    Ok(!is_more.map_err(|error| files::unreadable(path, error))?)
}

fn print_comparison(
    comparison: &DayComparison,
    instruments: usize,
    books: &[lab::recorded_day::BookDifference],
) -> Result<(), Failure> {
    let (day, venue) = comparison.messages();
    print_line(&format!(
        "{} messages of the day, {} of the venue: {} changes of books agree",
        grouped(day),
        grouped(venue),
        grouped(comparison.agreed())
    ))?;
    let (trades, shares) = comparison.trades_missing();
    if trades > 0 {
        print_line(&format!(
            "{} of the day ({} shares) are cancels in the venue's feed",
            counted(trades, "trade"),
            grouped(shares)
        ))?;
    }
    if comparison.refused() > 0 {
        let refused = counted(comparison.refused(), "message");
        print_line(&format!("{refused} of the venue's feed contradict its own books"))?;
    }
    for parted in comparison.differences().iter().take(NAMED_MAX) {
        let side = |it: &Option<(u64, String)>| match it {
            Some((number, what)) => format!("message {number}: {what}"),
            None => "nothing more".to_owned(),
        };
        let why = match &parted.after {
            Some((number, reason)) => {
                format!("; the orders could not repeat message {number}: {}", reason.words())
            }
            None => String::new(),
        };
        print_line(&format!(
            "{} parts: the day has {}; the venue has {}{why}",
            parted.symbol,
            side(&parted.day),
            side(&parted.venue)
        ))?;
    }
    let terms = |it: Option<(u32, u32)>| match it {
        Some((at, shares)) => format!("{shares} at {}", price(at.into())),
        None => "none".to_owned(),
    };
    for book in books.iter().take(NAMED_MAX) {
        print_line(&format!(
            "{}: {} order {} of the book at the end is {}; the venue's is {}",
            book.symbol,
            book.side,
            book.place,
            terms(book.day),
            terms(book.venue)
        ))?;
    }
    print_line(&format!(
        "books at the end: {} of {} are the same",
        grouped((instruments - books.len()) as u64),
        counted(instruments as u64, "instrument")
    ))?;
    print_divergences(comparison.divergences())
}

fn print_divergences(divergences: &Divergences) -> Result<(), Failure> {
    if divergences.is_empty() {
        return print_line("the orders repeat the whole day");
    }
    print_line("the orders cannot repeat these messages:")?;
    for (reason, noted) in divergences.iter() {
        let first = noted.examples.first().map_or_else(String::new, |example| {
            let detail = example.detail.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
            format!("; first message {} ({}){detail}", example.message, example.symbol)
        });
        print_line(&format!(
            "  {:>12}  {} shares  {}{first}",
            grouped(noted.messages),
            grouped(noted.shares),
            reason.words()
        ))?;
    }
    Ok(())
}

fn divergences_json(divergences: &Divergences) -> Value {
    let each = divergences.iter().map(|(reason, noted)| {
        let mut row = json!(noted);
        row["reason"] = json!(reason);
        row["words"] = json!(reason.words());
        row
    });
    each.collect()
}

fn write(path: &Path, rows: impl FnOnce(&mut FileWriter) -> io::Result<()>) -> Result<(), Failure> {
    let written = FileWriter::create(path).and_then(|mut file| {
        rows(&mut file)?;
        file.finish()
    });
    written.map_err(|error| files::unwritten(path, error))
}
