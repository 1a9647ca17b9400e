//! Conditions of an order on the book: self-match prevention, post-only, minimum quantity.

use crate::{Lots, SelfMatchGroup, order::code_enum};

code_enum! {
    /// What happens instead of a trade where an order would meet one of its own. The incoming
    /// order's decides. The codes are OUCH 5.0's AIQ strategies, and two of ours for cancel both.
    ///
    /// The upper-case ones act among the orders of one firm that its own sessions enter, the
    /// lower-case ones among all orders of the sessions of one firm.
    SelfMatchPrevention {
        /// What the session was added with.
        SessionDefault = b'*',
        /// Nothing: they trade.
        Off = b'N',
        /// Cancels what is left of the incoming order.
        CancelNewest = b'W',
        /// Cancels the resting order; the incoming one goes on.
        CancelOldest = b'O',
        /// Cancels both.
        CancelBoth = b'B',
        /// Takes from both what they would have traded.
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
    /// True if it acts whatever firm the orders were entered for, so long as the sessions are of
    /// one firm.
    #[must_use]
    pub const fn is_of_sessions(self) -> bool {
        self.code().is_ascii_lowercase()
    }
}

/// What an order asks of the book beyond its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// What happens where it would meet one of its own.
    pub self_match_prevention: SelfMatchPrevention,
    /// Orders are its own only if they have the same group; blank is a group like any other.
    pub self_match_group: SelfMatchGroup,
    /// True for an order that is canceled rather than traded when it comes in.
    pub post_only: bool,
    /// It trades at least so many lots at once, or none at all; a limit order that may rest waits
    /// outside the book until it can. 0 is none.
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

/// The conditions that a replace names; the others stay those of the original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// No condition is named.
    pub const NONE: Self = Self {
        self_match_prevention: None,
        self_match_group: None,
        post_only: None,
        minimum_quantity: None,
    };

    /// The conditions of a replacement of an order that had these.
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
