//! The phases of an instrument: allowed changes, and the orders that each phase accepts.
//!
//! Invariant: all functions here depend on their arguments alone.

use market::{OrderType, Phase, RejectReason, TimeInForce};

use crate::{intake::classify::OrderClass, order::ForAuction};

/// True if an instrument may go from one phase to the other.
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

/// True if an auction takes place between the two phases.
pub(crate) fn uncrosses(from: Phase, to: Phase) -> bool {
    to == Phase::Continuous || (from, to) == (Phase::ClosingAuction, Phase::Closed)
}

/// True if a phase accepts any orders.
pub(crate) fn is_open(phase: Phase) -> Result<(), RejectReason> {
    match phase {
        Phase::Halted => Err(RejectReason::Halted),
        Phase::Closed => Err(RejectReason::InstrumentClosed),
        _ => Ok(()),
    }
}

/// True if an open phase accepts an order of this class and time in force.
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

/// The auction of an auction-only order that comes in now.
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

/// True if an auction-only order takes part in the auction at the end of this phase.
pub(crate) fn takes_part(waits: ForAuction, phase: Phase) -> bool {
    match waits {
        ForAuction::No | ForAuction::Next | ForAuction::AsMarket => true,
        ForAuction::Open => matches!(phase, Phase::PreOpen | Phase::OpeningAuction),
        ForAuction::Close => phase == Phase::ClosingAuction,
    }
}

/// True if an auction-only order expires when an instrument enters this phase.
pub(crate) fn is_over(waits: ForAuction, phase: Phase) -> bool {
    match phase {
        Phase::Continuous => {
            matches!(waits, ForAuction::Open | ForAuction::Next | ForAuction::AsMarket)
        }
        Phase::Closed => waits != ForAuction::No,
        _ => false,
    }
}
