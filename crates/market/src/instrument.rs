//! An instrument as it is added: its number, symbol, price increment and round lot.

use crate::{InstrumentId, Price, Quantity, Symbol};

/// What is traded. Prices of its orders are ticks, quantities are lots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instrument {
    /// Its number, from 1.
    pub instrument_id: InstrumentId,
    /// Its printed name, unique.
    pub symbol: Symbol,
    /// Limit prices must be a multiple of this, in ticks; at least 1.
    pub price_increment: Price,
    /// The round lot, in lots; informs, does not restrict; at least 1.
    pub round_lot: Quantity,
}
