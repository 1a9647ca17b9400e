//! Reasons for which a venue cannot repeat a day, counted.
//!
//! Invariant: of each reason a fixed number of examples is kept, the first ones.

use std::collections::BTreeMap;

use serde::Serialize;

/// Why a venue that takes the orders of a day differs from the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Divergence {
    /// `P`: a trade with an order that the feed does not show.
    HiddenExecution,
    /// `Q` with shares: an auction.
    Cross,
    /// `C` that is not printable: an order of the book traded in a cross.
    ExecutedInCross,
    /// `C` at another price than that of its order.
    ExecutedAtOtherPrice,
    /// `E` or `C` of an order with others before it.
    ExecutedOutOfTurn,
    /// An order at a price at which a venue in continuous trading would trade it.
    WouldTrade,
    /// An order or a replacement at a price that an order cannot have.
    PriceLimit,
    /// More orders of a session than it has numbers.
    NumbersUsedUp,
    /// An order of a symbol that an order file cannot name.
    Symbol,
    /// An order that no message added: the recording begins later, or has a gap.
    UnknownReference,
    /// A message about an order that was left out for another reason.
    FollowsLeftOut,
    /// A message that contradicts the books of the day.
    Contradiction,
    /// `H`, `h`, `W`: trading of an instrument, or all trading, was stopped.
    Stopped,
    /// `B`: a trade was undone.
    BrokenTrade,
}

impl Divergence {
    /// The divergence in words, and its replacement in the orders.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::HiddenExecution => {
                "trades with hidden orders (P): no orders; the trade is missing"
            }
            Self::Cross => "crosses (Q): no orders; the auction's trade is missing",
            Self::ExecutedInCross => "executions in a cross (C): cancels in their place",
            Self::ExecutedAtOtherPrice => {
                "executions at another price than the order's (C): cancels in their place"
            }
            Self::ExecutedOutOfTurn => {
                "executions of orders with others before them: cancels in their place"
            }
            Self::WouldTrade => "orders that would trade with the book: left out",
            Self::PriceLimit => "orders at a price of 0 or above 199,999.99: left out",
            Self::NumbersUsedUp => "orders beyond the numbers of a session: left out",
            Self::Symbol => "orders of symbols that an order file cannot name: left out",
            Self::UnknownReference => "messages about orders that no message added: left out",
            Self::FollowsLeftOut => "messages about orders that were left out: left out",
            Self::Contradiction => "messages that contradict the books: left out",
            Self::Stopped => "halts and pauses (H, h, W): the venue trades on",
            Self::BrokenTrade => "broken trades (B): the venue keeps its trade",
        }
    }
}

/// A message that has no order, or another one than the day had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The number of the message, from 1.
    pub message: u64,
    /// Nanoseconds since midnight.
    pub time_ns: u64,
    pub symbol: String,
    /// The order, if the message names one.
    pub order_reference_number: Option<u64>,
    /// The finding of the books, for a contradiction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Noted {
    pub messages: u64,
    /// The sum of their shares; 2^64 - 1 if it is larger.
    pub shares: u64,
    /// The first ones.
    pub examples: Vec<Example>,
}

/// Examples kept of each reason.
const EXAMPLES: usize = 3;

/// The reasons that a day has, in their order.
#[derive(Clone, Debug, Default)]
pub struct Divergences {
    by_reason: BTreeMap<Divergence, Noted>,
}

impl Divergences {
    pub fn iter(&self) -> impl Iterator<Item = (Divergence, &Noted)> {
        self.by_reason.iter().map(|(reason, noted)| (*reason, noted))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_reason.is_empty()
    }

    #[must_use]
    pub fn messages_of(&self, reason: Divergence) -> u64 {
        self.by_reason.get(&reason).map_or(0, |noted| noted.messages)
    }

    pub(super) fn note(
        &mut self,
        reason: Divergence,
        shares: u64,
        example: impl FnOnce() -> Example,
    ) {
        let noted = self.by_reason.entry(reason).or_default();
        noted.messages += 1;
        // One cross may have 2^64 - 1 of them.
        noted.shares = noted.shares.saturating_add(shares);
        if noted.examples.len() < EXAMPLES {
            noted.examples.push(example());
        }
    }
}
