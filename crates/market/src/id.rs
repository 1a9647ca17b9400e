//! Identifiers: sessions, instruments, orders, trades, accounts, assets, shards.
//!
//! Invariant: each kind has its own type and counts from 1; 0 is none.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// Place in the one sequenced log of commands: from 1, without gaps, for ever. 0 is none.
    Sequence(u64)
}

id! {
    /// The exchange's name for an order (the wire's order reference number), from 1; a
    /// replacement gets a new one. 0 is none.
    OrderId(u64)
}

id! {
    /// The exchange's name for a trade (the wire's match number), from 1. 0 is none.
    TradeId(u64)
}

id! {
    /// An instrument (the feed's stock locate), from 1 in the order of addition. 0 is none.
    InstrumentId(u16)
}

id! {
    /// A logged-in identity that outlives its connections (an OUCH port), from 1 in the order of
    /// addition. 0 is the exchange itself.
    SessionId(u16)
}

id! {
    /// An asset, from 1 in the order of addition. 0 is none.
    AssetId(u16)
}

id! {
    /// An account, the owner of money and orders, from 1 in the order of addition. 0 is the venue.
    AccountId(u32)
}

impl AccountId {
    /// The venue's own account: its revenue, and the other end of deposits and withdrawals.
    pub const VENUE: Self = Self(0);
}

impl Sequence {
    /// Before the first input.
    pub const NONE: Self = Self(0);

    /// The next sequence.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
