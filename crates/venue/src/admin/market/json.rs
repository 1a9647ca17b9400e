//! The JSON of derived data.
//!
//! Invariant: a price is a decimal string of four places, lots and counts are whole numbers, and every object names the
//! feed message after which it holds.

use gateway::{DerivedMirror, DerivedTrade, MirroredInstrument, PriceLevel, TapeEntry, TradeKind};
use market::{DecimalText, NANOS_PER_DAY, Timestamp};
use serde_json::{Value, json};
use wire::fix::write_time;

use crate::config::PRICE_DECIMALS;

/// The place of an instrument in the mirror.
pub(super) type Place = usize;

pub(super) fn price(ticks: u32) -> Value {
    let text = DecimalText { units: ticks.into(), decimals: PRICE_DECIMALS };
    json!(text.to_string())
}

pub(super) fn symbol(it: &MirroredInstrument) -> String {
    String::from_utf8_lossy(it.symbol.trim_ascii_end()).into_owned()
}

fn level(it: &PriceLevel) -> Value {
    json!({ "price": price(it.price), "lots": it.lots, "orders": it.orders })
}

pub(super) fn side<'a>(levels: impl IntoIterator<Item = &'a PriceLevel>) -> Value {
    levels.into_iter().map(level).collect()
}

pub(super) fn instruments(mirror: &DerivedMirror) -> Value {
    let rows = mirror.instruments().iter().map(|it| {
        json!({ "symbol": symbol(it), "trading_state": char::from(it.trading_state).to_string() })
    });
    json!({
        "schema": "damrak/market-instruments/1",
        "sequence": mirror.number(),
        "instruments": rows.collect::<Vec<_>>(),
    })
}

pub(super) fn top(mirror: &DerivedMirror, place: Place) -> Value {
    let it = &mirror.instruments()[place];
    json!({
        "schema": "damrak/market-top/1",
        "sequence": mirror.number(),
        "symbol": symbol(it),
        "trading_state": char::from(it.trading_state).to_string(),
        "bid": it.levels.best(true, 1).first().map(level),
        "ask": it.levels.best(false, 1).first().map(level),
    })
}

pub(super) fn levels(mirror: &DerivedMirror, place: Place, depth: usize) -> Value {
    let it = &mirror.instruments()[place];
    json!({
        "schema": "damrak/market-levels/1",
        "sequence": mirror.number(),
        "symbol": symbol(it),
        "depth": depth,
        "bids": side(&it.levels.best(true, depth)),
        "asks": side(&it.levels.best(false, depth)),
    })
}

pub(super) fn trades(mirror: &DerivedMirror, place: Place, last: usize) -> Value {
    let it = &mirror.instruments()[place];
    let own = |entry: &&(u64, TapeEntry)| usize::from(entry.1.stock_locate()) == place + 1;
    let newest = mirror.tape().rev().filter(own).take(last);
    let name = symbol(it);
    let mut rows: Vec<_> = newest.map(|(_, entry)| entry_of(entry, &name)).collect();
    rows.reverse();
    json!({
        "schema": "damrak/market-trades/1",
        "sequence": mirror.number(),
        "symbol": name,
        "trades": rows,
    })
}

/// A trade, or the end of one.
pub(super) fn entry_of(entry: &TapeEntry, symbol: &str) -> Value {
    match entry {
        TapeEntry::Trade(trade) => trade_of(trade, symbol),
        TapeEntry::Undone { number, match_number, .. } => json!({
            "symbol": symbol,
            "sequence": number,
            "kind": "undone",
            "match_number": match_number,
        }),
    }
}

fn trade_of(trade: &DerivedTrade, symbol: &str) -> Value {
    let kind = match trade.kind {
        TradeKind::Continuous => "continuous",
        TradeKind::Hidden => "hidden",
        TradeKind::Cross | TradeKind::PartOfCross => "cross",
    };
    json!({
        "symbol": symbol,
        "sequence": trade.number,
        "kind": kind,
        "match_number": trade.match_number,
        "price": price(trade.price),
        "lots": trade.lots,
        "time_ns": trade.time_ns,
    })
}

pub(super) fn statistics(mirror: &DerivedMirror, place: Place) -> Value {
    let it = &mirror.instruments()[place];
    let own = &it.statistics;
    json!({
        "schema": "damrak/market-statistics/1",
        "sequence": mirror.number(),
        "symbol": symbol(it),
        "day": date(own.day),
        "open": own.open.map(price),
        "high": own.high.map(price),
        "low": own.low.map(price),
        "last": own.last.map(price),
        "volume": own.volume,
        "trades": own.trades,
        "undone": own.undone,
        "undone_unknown": own.undone_unknown,
        "since": own.since,
        "is_whole_day": own.is_whole_day,
    })
}

/// A day since 1970 as a date.
fn date(day: u32) -> String {
    let text = write_time(Timestamp(u64::from(day) * NANOS_PER_DAY));
    let [year, month, day] = [&text[..4], &text[4..6], &text[6..8]].map(String::from_utf8_lossy);
    format!("{year}-{month}-{day}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A day has its date.
    #[test]
    fn days_are_dates() {
        assert_eq!([0, 11_016, 20_780].map(date), ["1970-01-01", "2000-02-29", "2026-11-23"]);
    }

    /// Prices have four places, always.
    #[test]
    fn prices_are_decimal_strings() {
        assert_eq!(price(1_500_000), json!("150.0000"));
        assert_eq!(price(1), json!("0.0001"));
    }
}
