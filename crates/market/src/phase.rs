//! The trading status of an instrument: collecting orders, trading continuously, or neither.

use crate::order::code_enum;

code_enum! {
    /// The trading status of an instrument. The codes are stored in journals; a configuration has the
    /// names in kebab case.
    #[derive(serde::Deserialize)]
    #[serde(rename_all(deserialize = "kebab-case"))]
    Phase {
        /// Orders are collected; no indication is published.
        PreOpen = 1,
        /// Orders are collected for the opening auction.
        OpeningAuction = 2,
        /// Continuous trading: orders trade as they come in.
        Continuous = 3,
        /// Volatility auction: orders are collected, because the next trade would have been outside
        /// the price bands.
        VolatilityAuction = 4,
        /// Halted: no orders are accepted; resting orders may be canceled.
        Halted = 5,
        /// Orders are collected for the closing auction.
        ClosingAuction = 6,
        /// Closed: no orders are accepted until the next pre-open; resting orders may be canceled.
        Closed = 7,
    }
}

impl Phase {
    /// True if orders rest without trading, even where bids are above asks.
    #[must_use]
    pub const fn collects(self) -> bool {
        matches!(self, Self::PreOpen) || self.is_auction()
    }

    /// True if the phase ends with an auction; its indication is published meanwhile.
    #[must_use]
    pub const fn is_auction(self) -> bool {
        matches!(self, Self::OpeningAuction | Self::VolatilityAuction | Self::ClosingAuction)
    }
}
