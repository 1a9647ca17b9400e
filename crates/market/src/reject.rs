//! The reasons for rejecting an order.
//!
//! Invariant: their order is the precedence of the checks; their codes are stored and never reused.

use crate::order::code_enum;

code_enum! {
    /// Why an order was rejected, in the order of the checks.
    ///
    /// The codes are stored in journals: never renumbered, never reused. `wire` maps them to OUCH.
    RejectReason {
        /// The market is not open for orders.
        MarketClosed = 1,
        /// Order entry is disabled for the firm on this session.
        EntryDisabled = 2,
        /// Unknown side.
        InvalidSide = 3,
        /// Unknown instrument.
        InvalidSymbol = 4,
        /// Quantity outside 1 to 999,999, or to the maximum in the terms of the instrument.
        InvalidQuantity = 5,
        /// Price 0, or not a multiple of the instrument's price increment.
        InvalidPrice = 6,
        /// A display that the venue does not offer.
        InvalidDisplay = 7,
        /// The venue does not offer a minimum quantity for this order.
        InvalidMinimumQuantity = 8,
        /// The venue does not offer a displayed part (iceberg) for this order.
        InvalidMaxFloor = 9,
        /// Unknown price type, or an offset that a pegged order cannot have.
        InvalidPegType = 10,
        /// An order of this type or time in force cannot be pegged.
        PeggingNotAllowed = 11,
        /// Only continuous trading is offered for this order.
        InvalidCrossOrder = 12,
        /// Intermarket sweeps are not offered.
        SweepNotAllowed = 13,
        /// Unknown self-match prevention.
        InvalidSelfMatchPrevention = 14,
        /// A field or an option that is unknown or not offered.
        NotSupported = 15,
        /// The session has its maximum number of live orders.
        TooManyOrders = 16,
        /// The rules of the replaced order forbid the replacement.
        ReplaceNotAllowed = 17,
        /// The venue has blocked such orders.
        EntryBlocked = 20,
        /// The instrument is halted.
        Halted = 21,
        /// The instrument is closed.
        InstrumentClosed = 22,
        /// The phase of the instrument does not accept this order type and time in force.
        NotInPhase = 23,
        /// The quantity exceeds the instrument's maximum.
        QuantityAboveLimit = 24,
        /// The notional exceeds the instrument's maximum.
        NotionalAboveLimit = 25,
        /// The limit is outside the price collar.
        PriceOutsideCollar = 26,
        /// The instrument, or the session in it, has its maximum number of pegged orders.
        TooManyPegs = 27,
        /// Orders in this instrument are paid for, and the session has no account.
        NoAccount = 40,
        /// The account may not sell short in this instrument.
        ShortSaleNotAllowed = 41,
        /// The limit is further through the best price than the account allows.
        PriceTooFar = 42,
        /// The quantity exceeds the account's maximum for an order.
        OrderQuantityLimit = 43,
        /// The notional exceeds the account's maximum for an order.
        OrderNotionalLimit = 44,
        /// The account has used up its order rate for this second.
        OrderRateLimit = 45,
        /// The order could take the account beyond its position limit, long or short.
        PositionLimit = 46,
        /// The account has too little available for the cost or the delivery.
        InsufficientBalance = 47,
        /// The account is stopped.
        AccountStopped = 48,
        /// The journal has no room for more orders.
        NoRoom = 50,
        /// The journal is too slow for the present load.
        TooSlow = 51,
        /// A trigger or a distance that is invalid for, or not used by, the order's pricing.
        InvalidTrigger = 70,
        /// A GTT order whose expiry has passed or is missing, or an expiry on another order.
        InvalidExpiry = 71,
        /// The order cannot be linked to the order that it names.
        InvalidLink = 72,
    }
}
