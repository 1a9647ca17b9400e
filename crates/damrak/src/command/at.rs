//! `damrak at`: the books after a sequence or at a time, and the difference between two. Replays the journal and changes
//! nothing.

use std::{collections::BTreeMap, convert::Infallible};

use clap::Args;
use engine::{Engine, RestingOrder};
use journal::RecordKind;
use market::{Input, Symbol};
use serde_json::{Value, json};

use super::{
    JournalArguments,
    output::{grouped, price, print_json, print_line},
};
use venue::{failure::Failure, recovery};

/// Print the books as they were after a sequence or at a time, or the changes between two.
///
/// Replays the journal and changes nothing; the venue may be running. A time is a number of
/// nanoseconds since 1970, or like 2026-11-22T09:30:00.25Z.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak at damrak-data --sequence 1000 --symbol AAPL\n  \
                        damrak at damrak-data --time 2026-11-22T09:30:00Z --json\n  \
                        damrak at damrak-data --sequence 1000 --and 1100")]
pub struct Arguments {
    #[command(flatten)]
    journal: JournalArguments,
    /// After this input [default: the last one].
    #[arg(long)]
    sequence: Option<u64>,
    /// After the last input at or before this time.
    #[arg(long, conflicts_with = "sequence", value_parser = time)]
    time: Option<u64>,
    /// Print the changes up to this input.
    #[arg(long, value_name = "SEQUENCE")]
    and: Option<u64>,
    /// Print the changes up to the last input at or before this time.
    #[arg(long, value_name = "TIME", conflicts_with = "and", value_parser = time)]
    and_time: Option<u64>,
    /// Only the book of this instrument.
    #[arg(long)]
    symbol: Option<String>,
}

/// Runs `damrak at`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let symbol = match &arguments.symbol {
        None => None,
        Some(text) => Some(Symbol::new(text).ok_or_else(|| {
            Failure::usage(format!("{text:?} is not a symbol of 1 to 8 printable characters"))
        })?),
    };
    let ends = Ends::find(arguments)?;
    let mut first = None;
    let mut second = None;
    let replay = recovery::replay_folder(
        &arguments.journal.directory,
        &mut |input, engine, _| {
            if input.sequence.0 == ends.first {
                first = Some(Picture::of(input, engine, symbol));
            }
            if Some(input.sequence.0) == ends.second {
                second = Some(Picture::of(input, engine, symbol));
            }
        },
        &mut |_| {},
    )?;
    if let Some(symbol) = symbol {
        let known: Vec<_> = replay.state.engine.instruments().map(|it| it.symbol).collect();
        if !known.contains(&symbol) {
            let known: Vec<_> = known.iter().map(Symbol::as_str).collect();
            return Err(Failure::usage(format!("there is no instrument {symbol} in the journal"))
                .hint(format!("it has {}", known.join(" "))));
        }
    }
    let missing = || Failure::usage("the journal has no such sequence");
    let first = first.ok_or_else(missing)?;
    match (ends.second, second) {
        (None, _) => first.print(arguments.journal.json),
        (Some(_), Some(second)) => print_difference(&first, &second, arguments.journal.json),
        (Some(_), None) => Err(missing()),
    }
}

/// The sequence, and the second one of a difference.
struct Ends {
    first: u64,
    second: Option<u64>,
}

impl Ends {
    fn find(arguments: &Arguments) -> Result<Self, Failure> {
        let mut last = 0;
        let mut at_time = 0;
        let mut at_and_time = 0;
        journal::verify(
            &mut recovery::folder_with_archives(&arguments.journal.directory),
            &mut |record| {
                if record.kind == RecordKind::Input {
                    last = record.sequence;
                    if arguments.time.is_some_and(|time| record.timestamp <= time) {
                        at_time = last;
                    }
                    if arguments.and_time.is_some_and(|time| record.timestamp <= time) {
                        at_and_time = last;
                    }
                }
                Ok::<(), Infallible>(())
            },
        )
        .map_err(|error| recovery::verify_failure(&error))?;
        let chosen = |sequence: Option<u64>, time: Option<u64>, at: u64| match (sequence, time) {
            (Some(sequence), _) if (1..=last).contains(&sequence) => Ok(Some(sequence)),
            (Some(sequence), _) => {
                Err(Failure::usage(format!("the journal has no sequence {sequence}"))
                    .hint(format!("it has 1 to {last}")))
            }
            (None, Some(_)) if at == 0 => Err(Failure::usage("the journal begins after that time")),
            (None, Some(_)) => Ok(Some(at)),
            (None, None) => Ok(None),
        };
        let first = chosen(arguments.sequence, arguments.time, at_time)?.unwrap_or(last);
        let second = chosen(arguments.and, arguments.and_time, at_and_time)?;
        Ok(Self { first, second })
    }
}

/// The resting orders after an input.
struct Picture {
    sequence: u64,
    timestamp: u64,
    state_hash: u64,
    /// By symbol and order id.
    orders: BTreeMap<(String, u64), RestingOrder>,
    /// In priority order: by symbol, bids before asks.
    books: Vec<(String, Vec<RestingOrder>, Vec<RestingOrder>)>,
}

impl Picture {
    fn of(input: &Input, engine: &Engine, symbol: Option<Symbol>) -> Self {
        let mut books = Vec::new();
        let mut orders = BTreeMap::new();
        for instrument in engine.instruments() {
            if symbol.is_some_and(|symbol| symbol != instrument.symbol) {
                continue;
            }
            let name = instrument.symbol.as_str().to_owned();
            let book = engine.book(instrument.instrument_id).expect("each instrument has a book");
            let (bids, asks): (Vec<_>, Vec<_>) = (book.bids().collect(), book.asks().collect());
            for order in bids.iter().chain(&asks) {
                orders.insert((name.clone(), order.order_id.0), *order);
            }
            books.push((name, bids, asks));
        }
        let (sequence, timestamp) = (input.sequence.0, input.timestamp.0);
        Self { sequence, timestamp, state_hash: engine.state_hash(), orders, books }
    }

    fn heading(&self) -> Value {
        json!({
            "sequence": self.sequence,
            "timestamp": self.timestamp,
            "state_hash": format!("{:016x}", self.state_hash),
            "orders": self.orders.len(),
        })
    }

    fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            let mut document = self.heading();
            document["schema"] = json!("damrak/at/1");
            let books = self
                .books
                .iter()
                .map(|(symbol, bids, asks)| json!({"symbol": symbol, "bids": bids, "asks": asks}));
            document["books"] = books.collect();
            return print_json(&document);
        }
        print_line(&format!(
            "after sequence {}, time {}, state hash {:016x}",
            grouped(self.sequence),
            self.timestamp,
            self.state_hash
        ))?;
        for (symbol, bids, asks) in &self.books {
            print_line(&format!("{symbol}: {} bids, {} asks", bids.len(), asks.len()))?;
            for (name, orders) in [("bid", bids), ("ask", asks)] {
                for order in orders {
                    print_line(&format!("  {name} {}", line(order)))?;
                }
            }
        }
        Ok(())
    }
}

fn line(order: &RestingOrder) -> String {
    format!(
        "{:>14} {:>12}  order {} of session {} channel {} ref {}",
        price(order.price.0),
        grouped(order.leaves.0),
        order.order_id.0,
        order.key.session_id.0,
        order.key.channel,
        order.key.user_ref_num,
    )
}

fn print_difference(first: &Picture, second: &Picture, json: bool) -> Result<(), Failure> {
    let gone = first.orders.iter().filter(|(key, _)| !second.orders.contains_key(*key));
    let come = second.orders.iter().filter(|(key, _)| !first.orders.contains_key(*key));
    let changed = second.orders.iter().filter_map(|(key, now)| {
        let before = first.orders.get(key)?;
        (before != now).then_some((key, before, now))
    });
    if json {
        let named = |((symbol, _), order): (&(String, u64), &RestingOrder)| json!({"symbol": symbol, "order": order});
        return print_json(&json!({
            "schema": "damrak/at-difference/1",
            "from": first.heading(),
            "to": second.heading(),
            "gone": gone.map(named).collect::<Vec<_>>(),
            "come": come.map(named).collect::<Vec<_>>(),
            "changed": changed.map(|((symbol, _), before, now)| json!({
                "symbol": symbol, "before": before, "now": now,
            })).collect::<Vec<_>>(),
        }));
    }
    print_line(&format!(
        "from sequence {} (hash {:016x}) to sequence {} (hash {:016x})",
        grouped(first.sequence),
        first.state_hash,
        grouped(second.sequence),
        second.state_hash
    ))?;
    for ((symbol, _), order) in gone {
        print_line(&format!("- {symbol:<8} {:?} {}", order.side, line(order)))?;
    }
    for ((symbol, _), order) in come {
        print_line(&format!("+ {symbol:<8} {:?} {}", order.side, line(order)))?;
    }
    for ((symbol, _), before, now) in changed {
        let leaves = grouped(before.leaves.0);
        print_line(&format!("~ {symbol:<8} {:?} {}, was {leaves}", now.side, line(now)))?;
    }
    Ok(())
}

/// Nanoseconds since 1970, or a date and time of UTC.
fn time(text: &str) -> Result<u64, String> {
    if let Ok(ns) = text.parse() {
        return Ok(ns);
    }
    let wrong =
        || format!("{text:?} is neither nanoseconds since 1970 nor like 2026-11-22T09:30:00Z");
    let (date, clock) =
        text.strip_suffix('Z').and_then(|text| text.split_once('T')).ok_or_else(wrong)?;
    let numbers = |text: &str, mark: char| -> Option<Vec<u64>> {
        text.split(mark).map(|part| part.parse().ok()).collect()
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [year, month, day] = numbers(date, '-').ok_or_else(wrong)?[..] else { return Err(wrong()) };
    let [hour, minute, second] = numbers(clock, ':').ok_or_else(wrong)?[..] else {
        return Err(wrong());
    };
    let is_sound = (1970..=2553).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && fraction.len() <= 9
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_sound {
        return Err(wrong());
    }
    // Days since 1970 of the civil calendar, with years that begin in March.
    let (shifted_year, shifted_month) =
        if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * shifted_year + shifted_year / 4 - shifted_year / 100
        + shifted_year / 400
        + (153 * shifted_month + 2) / 5
        + day
        - 1
        - 719_468;
    let ns: u64 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
    Ok((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000 + ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Valid times are parsed; everything else is an error.
    #[test]
    fn times_are_read() {
        assert_eq!(time("17"), Ok(17));
        assert_eq!(time("1970-01-01T00:00:00Z"), Ok(0));
        assert_eq!(time("2026-01-02T09:30:00Z"), Ok(1_767_346_200_000_000_000));
        assert_eq!(time("2000-02-29T23:59:59.25Z"), Ok(951_868_799_250_000_000));
        for wrong in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T25:00:00Z"]
        {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
