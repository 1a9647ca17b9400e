//! The phases of an instrument: which may follow which, and which orders each accepts.
//!
//! Invariant: all functions here depend on their arguments alone.

use market::{OrderType, Phase, RejectReason, TimeInForce};

use crate::{intake::classify::OrderClass, order::ForAuction};

/// May an instrument go from one phase to the other?
pub(crate) fn may_follow(from: Phase, to: Phase) -> bool {
    use Phase::*;
    match from {
        PreOpen => matches!(to, OpeningAuction | Continuous | Halted | Closed),
        OpeningAuction => matches!(to, Continuous | Halted),
        Continuous => !matches!(to, Continuous),
        VolatilityAuction => matches!(to, Continuous | Halted | ClosingAuction),
        Halted => !matches!(to, Halted),
        ClosingAuction => matches!(to, Halted | Closed),
        Closed => matches!(to, PreOpen),
    }
}

/// Does an auction take place between the two?
pub(crate) fn uncrosses(from: Phase, to: Phase) -> bool {
    to == Phase::Continuous || (from, to) == (Phase::ClosingAuction, Phase::Closed)
}

/// Is a phase one in which orders are taken at all?
pub(crate) fn is_open(phase: Phase) -> Result<(), RejectReason> {
    match phase {
        Phase::Halted => Err(RejectReason::Halted),
        Phase::Closed => Err(RejectReason::InstrumentClosed),
        _ => Ok(()),
    }
}

/// Does a phase that takes orders take one of this class and life?
pub(crate) fn takes(
    phase: Phase,
    time_in_force: TimeInForce,
    class: &OrderClass,
) -> Result<(), RejectReason> {
    let before_open = matches!(phase, Phase::PreOpen | Phase::OpeningAuction);
    let is_too_late = time_in_force == TimeInForce::AtTheOpen && !before_open;
    if phase.collects() && class.acts_at_once || is_too_late {
        return Err(RejectReason::NotInPhase);
    }
    Ok(())
}

/// The auction that an order is for that comes in now, if it is for one only.
pub(crate) fn auction_of(
    phase: Phase,
    type_in_book: OrderType,
    time_in_force: TimeInForce,
) -> ForAuction {
    match time_in_force {
        TimeInForce::AtTheOpen => ForAuction::Open,
        TimeInForce::AtTheClose => ForAuction::Close,
        TimeInForce::GoodForAuction => ForAuction::Next,
        _ if phase.collects() && type_in_book == OrderType::Market => ForAuction::AsMarket,
        _ => ForAuction::No,
    }
}

/// Does an order that is for one auction only take part in that at the end of this phase?
pub(crate) fn takes_part(waits: ForAuction, phase: Phase) -> bool {
    match waits {
        ForAuction::No | ForAuction::Next | ForAuction::AsMarket => true,
        ForAuction::Open => matches!(phase, Phase::PreOpen | Phase::OpeningAuction),
        ForAuction::Close => phase == Phase::ClosingAuction,
    }
}

/// Is an order over that is for one auction only, when an instrument gets to this phase?
pub(crate) fn is_over(waits: ForAuction, phase: Phase) -> bool {
    match phase {
        Phase::Continuous => {
            matches!(waits, ForAuction::Open | ForAuction::Next | ForAuction::AsMarket)
        }
        Phase::Closed => waits != ForAuction::No,
        _ => false,
    }
}
