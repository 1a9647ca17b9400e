//! The trading status of an instrument: collecting orders, trading continuously, or neither.

use crate::order::code_enum;

code_enum! {
    /// What an instrument's market does now. The codes are stored in journals.
    Phase {
        /// Orders are collected, and no indication is published.
        PreOpen = 1,
        /// Orders are collected for the opening auction.
        OpeningAuction = 2,
        /// Orders trade as they come in.
        Continuous = 3,
        /// Orders are collected, because the price would have moved too far.
        VolatilityAuction = 4,
        /// No order is taken; what rests may be canceled.
        Halted = 5,
        /// Orders are collected for the closing auction.
        ClosingAuction = 6,
        /// No order is taken until the next pre-open; what rests may be canceled.
        Closed = 7,
    }
}

impl Phase {
    /// True if orders rest without trading, even where bids are above asks.
    #[must_use]
    pub const fn collects(self) -> bool {
        matches!(self, Self::PreOpen) || self.is_auction()
    }

    /// True if it ends with an auction, whose indicative price is published meanwhile.
    #[must_use]
    pub const fn is_auction(self) -> bool {
        matches!(self, Self::OpeningAuction | Self::VolatilityAuction | Self::ClosingAuction)
    }
}
