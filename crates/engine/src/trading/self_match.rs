//! Self-match prevention: the orders that count as a participant's own, and the effect when they meet.
//!
//! Invariant: depends on the two orders and their sessions alone.

use market::SelfMatchPrevention;

use crate::{intake::session::Sessions, order::Order};

/// The strategy of an incoming order, with the session's default filled in.
#[inline]
pub(crate) fn meant(sessions: &Sessions, taker: &Order) -> SelfMatchPrevention {
    match taker.self_match_prevention() {
        SelfMatchPrevention::SessionDefault => sessions.owner(taker.key).self_match_prevention(),
        named => named,
    }
}

/// True if this strategy prevents a trade of these two orders.
#[inline]
pub(crate) fn is_own(
    sessions: &Sessions,
    prevention: SelfMatchPrevention,
    taker: &Order,
    maker: &Order,
) -> bool {
    prevention != SelfMatchPrevention::Off
        && taker.self_match_group == maker.self_match_group
        && are_of_one_firm(sessions, taker, maker)
        && (prevention.is_of_sessions() || are_for_one_firm(sessions, taker, maker))
}

/// True if both sessions are the same or of one firm.
fn are_of_one_firm(sessions: &Sessions, one: &Order, other: &Order) -> bool {
    if one.key.session_id == other.key.session_id {
        return true;
    }
    let firm = sessions.owner(one.key).firm();
    !firm.is_blank() && firm == sessions.owner(other.key).firm()
}

/// True if both orders were entered for one firm.
fn are_for_one_firm(sessions: &Sessions, one: &Order, other: &Order) -> bool {
    sessions.owner(one.key).resolve(one.firm) == sessions.owner(other.key).resolve(other.firm)
}
