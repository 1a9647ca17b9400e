//! An instrument as it is added: its number, symbol, price increment and round lot.

use crate::{InstrumentId, Price, Quantity, Symbol};

/// An instrument. Prices are in ticks, quantities in lots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Instrument {
    /// Its number, from 1.
    pub instrument_id: InstrumentId,
    /// Printed name; unique.
    pub symbol: Symbol,
    /// Limit prices must be a multiple of this, in ticks; at least 1.
    pub price_increment: Price,
    /// The round lot, in lots; informational; at least 1.
    pub round_lot: Quantity,
}
