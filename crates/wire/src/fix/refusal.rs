//! The reasons to refuse a request, in the codes and words of FIX.
//!
//! Invariant: codes of refusals are stored in journals, and are never reused.

use market::RejectReason;

use super::Version;

/// A reason to refuse a request before it reaches the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The ClOrdID was used before.
    DuplicateId = 1,
    /// OrigClOrdID names no order of the session.
    UnknownOrder = 2,
    /// A value that FIX defines but the venue does not offer.
    NotOffered = 3,
    /// The order type needs a price and there is none, or the price is not valid.
    Price = 4,
    /// There is no quantity, or it is not a whole number below 2^32.
    Quantity = 5,
    /// A symbol of more than 8 characters.
    Symbol = 6,
    /// Side or symbol differ from those of the order.
    OtherOrder = 7,
    /// There is no expiry, or it is not a time in the future that fits the field.
    Expiry = 8,
}

impl Refusal {
    /// All refusals.
    pub const ALL: [Self; 8] = [
        Self::DuplicateId,
        Self::UnknownOrder,
        Self::NotOffered,
        Self::Price,
        Self::Quantity,
        Self::Symbol,
        Self::OtherOrder,
        Self::Expiry,
    ];

    /// The refusal of a code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u8 == code)
    }

    /// The reason in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::DuplicateId => "ClOrdID was used before",
            Self::UnknownOrder => "OrigClOrdID names no order",
            Self::NotOffered => "OrdType, TimeInForce, ExecInst or HandlInst is not offered",
            Self::Price => "Price, StopPx or PegOffsetValue is missing or invalid",
            Self::Quantity => "OrderQty, MinQty or MaxFloor is missing or invalid",
            Self::Symbol => "unknown symbol",
            Self::OtherOrder => "Side or Symbol is not that of the order",
            Self::Expiry => "ExpireTime or ExpireDate is missing or invalid",
        }
    }

    /// OrdRejReason (103).
    #[must_use]
    pub const fn order_code(self, version: Version) -> u64 {
        match (self, version) {
            (Self::DuplicateId, _) => 6,
            (Self::UnknownOrder, _) => 5,
            (Self::Symbol, _) => 1,
            (Self::Quantity, Version::Fix44 | Version::Fix50Sp1) => 13,
            (_, Version::Fix44 | Version::Fix50Sp1) => 11,
            (_, Version::Fix42) => 0,
        }
    }

    /// CxlRejReason (102).
    #[must_use]
    pub const fn cancel_code(self, version: Version) -> u64 {
        match (self, version) {
            (Self::UnknownOrder, _) => 1,
            (Self::DuplicateId, Version::Fix44 | Version::Fix50Sp1) => 6,
            (_, Version::Fix44 | Version::Fix50Sp1) => 99,
            (_, Version::Fix42) => 2,
        }
    }
}

/// OrdRejReason (103) of a rejection by the engine.
#[must_use]
pub(super) const fn order_reject_code(reason: RejectReason, version: Version) -> u64 {
    match (reason, version) {
        (RejectReason::InvalidSymbol, _) => 1,
        (
            RejectReason::MarketClosed
            | RejectReason::Halted
            | RejectReason::InstrumentClosed
            | RejectReason::NotInPhase,
            _,
        ) => 2,
        (
            RejectReason::TooManyOrders
            | RejectReason::TooManyPegs
            | RejectReason::QuantityAboveLimit
            | RejectReason::NotionalAboveLimit
            | RejectReason::PriceOutsideCollar
            | RejectReason::PriceTooFar
            | RejectReason::OrderQuantityLimit
            | RejectReason::OrderNotionalLimit
            | RejectReason::OrderRateLimit
            | RejectReason::PositionLimit
            | RejectReason::InsufficientBalance,
            _,
        ) => 3,
        (RejectReason::InvalidQuantity, Version::Fix44 | Version::Fix50Sp1) => 13,
        (RejectReason::NoAccount, Version::Fix44 | Version::Fix50Sp1) => 15,
        (
            RejectReason::NotSupported
            | RejectReason::InvalidDisplay
            | RejectReason::InvalidMinimumQuantity
            | RejectReason::InvalidMaxFloor
            | RejectReason::InvalidPegType
            | RejectReason::PeggingNotAllowed
            | RejectReason::InvalidTrigger
            | RejectReason::InvalidExpiry,
            Version::Fix44 | Version::Fix50Sp1,
        ) => 11,
        (_, Version::Fix44 | Version::Fix50Sp1) => 99,
        (_, Version::Fix42) => 0,
    }
}

/// A rejection by the engine in words.
#[must_use]
pub const fn reject_text(reason: RejectReason) -> &'static str {
    match reason {
        RejectReason::MarketClosed => "market closed",
        RejectReason::EntryDisabled => "order entry disabled for the firm",
        RejectReason::InvalidSide => "invalid side",
        RejectReason::InvalidSymbol => "unknown symbol",
        RejectReason::InvalidQuantity => "invalid quantity",
        RejectReason::InvalidPrice => "invalid price",
        RejectReason::InvalidDisplay => "invalid display",
        RejectReason::InvalidMinimumQuantity => "invalid minimum quantity",
        RejectReason::InvalidMaxFloor => "invalid MaxFloor",
        RejectReason::InvalidPegType => "invalid peg",
        RejectReason::PeggingNotAllowed => "pegging not allowed",
        RejectReason::InvalidCrossOrder => "invalid auction order",
        RejectReason::SweepNotAllowed => "sweeps are not offered",
        RejectReason::InvalidSelfMatchPrevention => "invalid self-match prevention",
        RejectReason::NotSupported => "not supported",
        RejectReason::TooManyOrders => "too many live orders",
        RejectReason::ReplaceNotAllowed => "replace not allowed",
        RejectReason::EntryBlocked => "order entry blocked",
        RejectReason::Halted => "instrument halted",
        RejectReason::InstrumentClosed => "instrument closed",
        RejectReason::NotInPhase => "not in this phase of trading",
        RejectReason::QuantityAboveLimit => "quantity above the limit",
        RejectReason::NotionalAboveLimit => "notional above the limit",
        RejectReason::PriceOutsideCollar => "price outside the collar",
        RejectReason::TooManyPegs => "too many pegged orders",
        RejectReason::NoAccount => "the session has no account",
        RejectReason::ShortSaleNotAllowed => "short sale not allowed",
        RejectReason::PriceTooFar => "price too far through the market",
        RejectReason::OrderQuantityLimit => "quantity above the account's limit",
        RejectReason::OrderNotionalLimit => "notional above the account's limit",
        RejectReason::OrderRateLimit => "order rate above the limit",
        RejectReason::PositionLimit => "position limit",
        RejectReason::InsufficientBalance => "insufficient balance",
        RejectReason::AccountStopped => "account stopped",
        RejectReason::NoRoom => "no room in the journal",
        RejectReason::TooSlow => "the journal is too slow",
        RejectReason::InvalidTrigger => "invalid StopPx",
        RejectReason::InvalidExpiry => "invalid expiry",
        RejectReason::InvalidLink => "invalid link",
    }
}
