//! The WLF1 flows: the same orders for every matching engine, with the trades that they must give.
//!
//! Three flows, each computed from a seed by integer arithmetic, so that their bytes are the same on
//! every machine. A canceled or replaced order is always live, so an engine accepts every operation,
//! and engines with price-time priority make the same trades, which [`Tally`] compares by count, sums
//! and hash. Start at [`ComparisonFlow::generate`]; [`mod@file`] has the file format.
//!
//! Invariant: a flow and its trades depend on name, seed and divisor only.

pub mod file;
mod generate;
mod plain_book;

use market::Side;

pub(crate) use plain_book::PlainBooks;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub enum FlowName {
    /// One symbol with 10,000 live orders, 2,000,000 operations near a market that wanders.
    A,
    /// Two symbols and a book that grows to 158,000 live orders, 1,300,000 operations.
    B,
    /// A hundred symbols with 100,000 live orders in all, 2,000,000 operations.
    C,
}

impl FlowName {
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flow| flow.name() == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OperationKind {
    /// A new limit order; the rest that does not trade stays in the book.
    New = 0,
    /// Cancels a live order; price, quantity and side are those of the order.
    Cancel = 1,
    /// Cancels a live order and enters it again with the same id, a new price and quantity: it
    /// loses its priority, and it may trade.
    Replace = 2,
    /// A new limit order; the rest that does not trade is canceled.
    NewImmediateOrCancel = 3,
}

impl OperationKind {
    /// Every value, in the order of the codes.
    pub const ALL: [Self; 4] = [Self::New, Self::Cancel, Self::Replace, Self::NewImmediateOrCancel];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOperation {
    /// The order: dense from 1 over the flow.
    pub order_id: u64,
    /// Limit, in ticks.
    pub price: i64,
    /// Lots.
    pub quantity: u32,
    /// The participant: `order_id % 1000`.
    pub user: u32,
    /// Index of the symbol, from 0.
    pub symbol: u16,
    pub kind: OperationKind,
    pub side: Side,
}

/// The trades of a flow: counts, sums and a hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Tally {
    pub trades: u64,
    pub quantity: u64,
    /// Price × quantity over the trades, modulo 2⁶⁴.
    #[serde(skip)]
    pub notional: u64,
    /// Hash of makers, takers, quantities and prices in the order of the trades.
    #[serde(with = "hexadecimal")]
    pub hash: u64,
}

/// Hashes in reports: 16 hexadecimal digits.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{hash:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        u64::from_str_radix(&String::deserialize(deserializer)?, 16).map_err(D::Error::custom)
    }
}

impl Tally {
    pub fn trade(&mut self, maker: u64, taker: u64, quantity: u32, price: i64) {
        self.trades += 1;
        self.quantity += u64::from(quantity);
        self.notional =
            self.notional.wrapping_add(u64::from(quantity).wrapping_mul(price.cast_unsigned()));
        let word = maker
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .wrapping_add(taker.wrapping_mul(0xC2B2_AE3D_27D4_EB4F))
            .wrapping_add(u64::from(quantity) << 32)
            .wrapping_add(price.cast_unsigned());
        self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    }
}

/// A whole flow: the operations replayed before the clock starts, and those measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparisonFlow {
    /// The seed that it was generated from.
    pub seed: u64,
    pub symbols: u16,
    pub users: u32,
    /// Order ids go from 1 to this.
    pub order_id_max: u64,
    /// How many of the operations come before the clock starts.
    pub prefill: usize,
    /// All operations, the prefill first.
    pub operations: Vec<FlowOperation>,
}

pub const USERS: u32 = 1_000;
/// Below every price of every flow, in ticks.
pub const PRICE_LOW: i64 = 24_000;
/// Above every price of every flow, in ticks.
pub const PRICE_HIGH: i64 = 76_000;

impl ComparisonFlow {
    /// The flow of a name and a seed with its operations divided by `divisor`, and the tally expected of it. The
    /// prefill is never divided.
    pub fn generate(name: FlowName, seed: u64, divisor: u64) -> (Self, Tally) {
        assert!(divisor > 0, "operations are divided by at least 1");
        generate::generate(name, seed, divisor)
    }

    /// The operations that come before the clock starts, and those that are measured.
    pub fn split(&self) -> (&[FlowOperation], &[FlowOperation]) {
        self.operations.split_at(self.prefill)
    }
}
