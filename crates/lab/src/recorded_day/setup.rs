//! The needs of a replay beside the orders: the instruments of the day, and a venue that has them.
//!
//! Invariant: a venue that starts with this file takes every row of the order file.

use std::io::{self, Write};

use market::Symbol;

use super::to_orders::QUANTITY_MAX;
use crate::order_file::{AssetTerms, InstrumentTable, InstrumentTerms, write_instrument_rows};

/// The most sessions: participants are named with two digits.
pub const SESSIONS_MAX: u16 = 99;

/// The participant of a session, from 1.
#[must_use]
pub fn participant(session: u16) -> String {
    format!("user{session:02}")
}

/// Writes the instruments for [`OrderFile`](crate::order_file::OrderFile): prices of four decimals, whole lots.
///
/// # Errors
/// The file cannot be written.
pub fn write_instruments(symbols: &[Symbol], out: &mut impl Write) -> io::Result<()> {
    let asset = |name, decimals| AssetTerms { name, decimals };
    // The paying asset is one that the day does not trade.
    let quote = ["USD", "CASH", "MONEY"].map(|name| Symbol::new(name).expect("short"));
    let quote = quote.into_iter().find(|name| !symbols.contains(name));
    let quote = quote.unwrap_or_else(|| Symbol::new("QUOTE-01").expect("eight characters"));
    let terms = symbols.iter().map(|symbol| InstrumentTerms {
        symbol: *symbol,
        base: asset(*symbol, 0),
        quote: asset(quote, 4),
        price_decimals: 4,
        quantity_decimals: 0,
    });
    let terms: Vec<_> = terms.collect();
    if terms.is_empty() {
        return write_instrument_rows(&[], out);
    }
    write_instrument_rows(InstrumentTable::of(terms).all(), out)
}

/// Writes the configuration of a venue with these instruments and a participant for each session, without limits on
/// their messages.
///
/// # Errors
/// The file cannot be written.
pub fn write_venue(symbols: &[Symbol], sessions: u16, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "# A venue for the replay of a recorded day; docs/configuration.md has every key."
    )?;
    writeln!(out, "[throttle]\nmessages_per_second = 0\nno_effect_per_second = 0")?;
    for symbol in symbols {
        let symbol = symbol.as_str().trim_end();
        write!(
            out,
            "\n[[instruments]]\nsymbol = {symbol:?}\nprice_increment = \"0.0001\"\n\
             money = {{ class = \"none\", quantity_max = {QUANTITY_MAX} }}\n"
        )?;
    }
    for session in 1..=sessions {
        write!(
            out,
            "\n[[participants]]\nusername = \"{}\"\npassword = \"password{session:02}\"\nfirm = \"FIRM\"\n\
             live_orders_max = {}\n",
            participant(session),
            u32::MAX,
        )?;
    }
    out.flush()
}
