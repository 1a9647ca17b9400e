//! Conditions of an order on the book: self-match prevention, post-only, minimum quantity.

use crate::{Lots, SelfMatchGroup, order::code_enum};

code_enum! {
    /// The action where an order would trade with one of its own. The incoming order's value
    /// decides. The codes are OUCH 5.0's AIQ strategies, and two of ours to cancel both.
    ///
    /// Upper-case codes compare orders entered for one firm by that firm's sessions; lower-case
    /// codes compare all orders of the sessions of one firm.
    SelfMatchPrevention {
        /// The default that the session was added with.
        SessionDefault = b'*',
        /// Off: the orders trade.
        Off = b'N',
        /// Cancels the open lots of the incoming order.
        CancelNewest = b'W',
        /// Cancels the resting order; the incoming order continues.
        CancelOldest = b'O',
        /// Cancels both orders.
        CancelBoth = b'B',
        /// Reduces both orders by the lots that would have traded.
        DecrementBoth = b'D',
        /// As [`CancelNewest`](Self::CancelNewest), among all orders of the firm's sessions.
        CancelNewestOfSessions = b'w',
        /// As [`CancelOldest`](Self::CancelOldest), among all orders of the firm's sessions.
        CancelOldestOfSessions = b'o',
        /// As [`CancelBoth`](Self::CancelBoth), among all orders of the firm's sessions.
        CancelBothOfSessions = b'b',
        /// As [`DecrementBoth`](Self::DecrementBoth), among all orders of the firm's sessions.
        DecrementBothOfSessions = b'd',
    }
}

impl SelfMatchPrevention {
    /// True if it compares all orders of the sessions of one firm, whatever firm they were entered
    /// for.
    #[must_use]
    pub const fn is_of_sessions(self) -> bool {
        self.code().is_ascii_lowercase()
    }
}

/// Conditions of an order on the book, beyond its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Conditions {
    /// Self-match prevention.
    pub self_match_prevention: SelfMatchPrevention,
    /// Self-match group: only orders of the same group are its own. Blank is a group too.
    pub self_match_group: SelfMatchGroup,
    /// Post-only: canceled if it would trade when it comes in.
    pub post_only: bool,
    /// Minimum quantity, in lots: the order trades at least this much at once, or not at all. A
    /// limit order that may rest waits outside the book until it can. 0 is none.
    pub minimum_quantity: Lots,
}

impl Conditions {
    /// An order without conditions.
    pub const NONE: Self = Self {
        self_match_prevention: SelfMatchPrevention::SessionDefault,
        self_match_group: SelfMatchGroup::BLANK,
        post_only: false,
        minimum_quantity: Lots::ZERO,
    };
}

impl Default for Conditions {
    fn default() -> Self {
        Self::NONE
    }
}

/// The conditions that a replace changes; the others keep the values of the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ConditionChanges {
    /// See [`Conditions::self_match_prevention`].
    pub self_match_prevention: Option<SelfMatchPrevention>,
    /// See [`Conditions::self_match_group`].
    pub self_match_group: Option<SelfMatchGroup>,
    /// See [`Conditions::post_only`].
    pub post_only: Option<bool>,
    /// See [`Conditions::minimum_quantity`].
    pub minimum_quantity: Option<Lots>,
}

impl ConditionChanges {
    /// No change.
    pub const NONE: Self = Self {
        self_match_prevention: None,
        self_match_group: None,
        post_only: None,
        minimum_quantity: None,
    };

    /// The conditions of a replacement, given those of its original.
    #[must_use]
    pub fn apply(self, original: Conditions) -> Conditions {
        Conditions {
            self_match_prevention: self
                .self_match_prevention
                .unwrap_or(original.self_match_prevention),
            self_match_group: self.self_match_group.unwrap_or(original.self_match_group),
            post_only: self.post_only.unwrap_or(original.post_only),
            minimum_quantity: self.minimum_quantity.unwrap_or(original.minimum_quantity),
        }
    }
}
