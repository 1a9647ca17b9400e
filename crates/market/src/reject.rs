//! The reasons for which an order is rejected.
//!
//! Invariant: their order is the precedence of the checks; their codes are stored and never reused.

use crate::order::code_enum;

code_enum! {
    /// Why an order is not accepted, in the order in which the checks are made.
    ///
    /// The codes are stored in journals: never renumbered, never reused. `wire` maps them to OUCH.
    RejectReason {
        /// The market is not open for orders.
        MarketClosed = 1,
        /// The firm may not enter orders on this session.
        EntryDisabled = 2,
        /// No such side.
        InvalidSide = 3,
        /// No such instrument.
        InvalidSymbol = 4,
        /// Quantity outside 1 to 999,999.
        InvalidQuantity = 5,
        /// Price 0, or not a multiple of the instrument's price increment.
        InvalidPrice = 6,
        /// Not a way in which an order can be shown here.
        InvalidDisplay = 7,
        /// A minimum quantity is not offered here.
        InvalidMinimumQuantity = 8,
        /// A displayed part (reserve) is not offered here.
        InvalidMaxFloor = 9,
        /// No such price type, or an offset that an order which follows the market cannot have.
        InvalidPegType = 10,
        /// An order of this type or life cannot follow the market.
        PeggingNotAllowed = 11,
        /// Only the continuous market is offered here.
        InvalidCrossOrder = 12,
        /// Intermarket sweeps are not offered here.
        SweepNotAllowed = 13,
        /// No such self-match prevention.
        InvalidSelfMatchPrevention = 14,
        /// A field or an option that is unknown or not offered here.
        NotSupported = 15,
        /// The session has as many live orders as it may have.
        TooManyOrders = 16,
        /// The replaced order's own rules forbid it.
        ReplaceNotAllowed = 17,
        /// The venue takes no such orders for now.
        EntryBlocked = 20,
        /// The instrument is halted.
        Halted = 21,
        /// The instrument is closed.
        InstrumentClosed = 22,
        /// The instrument's phase does not take an order of this type and life.
        NotInPhase = 23,
        /// More lots than an order in this instrument may have.
        QuantityAboveLimit = 24,
        /// The order could cost more than one in this instrument may.
        NotionalAboveLimit = 25,
        /// The limit is further through the reference price than one may be.
        PriceOutsideCollar = 26,
        /// Orders in this instrument are paid for, and the session has no account.
        NoAccount = 40,
        /// The account may not sell short here.
        ShortSaleNotAllowed = 41,
        /// The limit is further through the best price than the account may go.
        PriceTooFar = 42,
        /// More lots than the account may ask for at a time.
        OrderQuantityLimit = 43,
        /// The order could cost more than one of the account may.
        OrderNotionalLimit = 44,
        /// The account has asked for too much this second.
        OrderRateLimit = 45,
        /// The account would hold more of it, or be short of more, than it may.
        PositionLimit = 46,
        /// The account has less available than the order could cost or deliver.
        InsufficientBalance = 47,
        /// The account is stopped.
        AccountStopped = 48,
        /// The venue has no room to record more orders.
        NoRoom = 50,
        /// The venue cannot record orders as fast as they come.
        TooSlow = 51,
        /// A trigger or a distance that an order of its pricing cannot have, or one that it has no
        /// use for.
        InvalidTrigger = 70,
        /// A good-till-time order whose time has come already, or none that has a time.
        InvalidExpiry = 71,
        /// An order that cannot wait for the one it names, or not be one of two with it.
        InvalidLink = 72,
    }
}
