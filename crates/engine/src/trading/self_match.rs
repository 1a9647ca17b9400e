//! Self-match prevention: which orders are a participant's own, and what is to be done where they
//! meet.

use market::SelfMatchPrevention;

use crate::{intake::session::Sessions, order::Order};

/// What is meant where an incoming order meets its own; never the session's default.
#[inline]
pub(crate) fn meant(sessions: &Sessions, taker: &Order) -> SelfMatchPrevention {
    match taker.self_match_prevention {
        SelfMatchPrevention::SessionDefault => sessions.owner(taker.key).self_match_prevention(),
        named => named,
    }
}

/// May these two not trade, if this is what is meant?
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

/// Are their sessions one session, or of one firm?
fn are_of_one_firm(sessions: &Sessions, one: &Order, other: &Order) -> bool {
    if one.key.session_id == other.key.session_id {
        return true;
    }
    let firm = sessions.owner(one.key).firm();
    !firm.is_blank() && firm == sessions.owner(other.key).firm()
}

/// Were they entered for one firm?
fn are_for_one_firm(sessions: &Sessions, one: &Order, other: &Order) -> bool {
    sessions.owner(one.key).resolve(one.firm) == sessions.owner(other.key).resolve(other.firm)
}
