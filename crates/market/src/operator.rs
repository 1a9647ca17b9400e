//! Commands of operators: the operator's name and number, and the result.
//!
//! Invariant: each command number of an operator is carried out at most once. A repetition gets the
//! result of the first.

use crate::{
    DeclineReason, MoneyCommand, Sequence, Text, TradeId, VenueCommand, VenueDeclineReason,
};

/// The name of an operator, as the journal keeps it; not blank.
pub type OperatorName = Text<16>;

/// A command of an operator. See [`Command::Operate`](crate::Command::Operate).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OperatorCommand {
    /// The operator; not blank.
    pub operator: OperatorName,
    /// The operator's own number for the command, from 1; carried out only if above the last one.
    pub number: u64,
    /// The command.
    pub action: OperatorAction,
}

/// The commands that an operator may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum OperatorAction {
    /// A command about instruments, orders, trades or sessions.
    Venue(VenueCommand),
    /// A command about accounts and money.
    Money(MoneyCommand),
}

/// The result of an operator's command. The events of its effect come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct OperatorResult {
    /// The operator.
    pub operator: OperatorName,
    /// The operator's number for the command.
    pub number: u64,
    /// The input that carried out or declined the command; for a repetition, the earlier input.
    pub sequence: Sequence,
    /// True for a repetition: an earlier input carried out or declined the command.
    pub repeated: bool,
    /// Done or declined.
    pub outcome: OperatorOutcome,
}

/// Whether a command was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum OperatorOutcome {
    /// The command was carried out, with this effect.
    Done(OperatorEffect),
    /// The command was declined and changed nothing.
    Declined(OperatorDecline),
}

/// Counts of the changes by a command. Indirect effects, such as a partner canceled with its linked
/// order, are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub struct OperatorEffect {
    /// Orders canceled in full.
    pub orders_canceled: u32,
    /// Instruments that changed their phase.
    pub phases_changed: u32,
    /// Trades of an auction that the command ended, and of a correction.
    pub trades: u32,
    /// Movements of money.
    pub movements: u32,
    /// The number of the trade that a correction put in place of another; 0 is none.
    pub trade_id: TradeId,
}

/// Why a command of an operator was declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum OperatorDecline {
    /// A command about instruments, orders, trades or sessions.
    Venue(VenueDeclineReason),
    /// A command about accounts or money.
    Money(DeclineReason),
    /// The operator used this number for another command, or has used a higher one; the last number
    /// is given.
    NumberUsed(u64),
    /// The maximum number of operators is reached, or the name is blank.
    TooManyOperators,
}
