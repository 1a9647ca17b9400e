//! Commands of operators: who gave one, under which number, and with which result.
//!
//! Invariant: an operator's number is carried out at most once. A repetition is answered with what the
//! first one gave.

use crate::{
    DeclineReason, MoneyCommand, Sequence, Text, TradeId, VenueCommand, VenueDeclineReason,
};

/// The name of an operator, as the journal keeps it; not blank.
pub type OperatorName = Text<16>;

/// A command of an operator. See [`Command::Operate`](crate::Command::Operate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorCommand {
    /// The operator; not blank.
    pub operator: OperatorName,
    /// The operator's own number of the command, from 1; carried out only if above the last one.
    pub number: u64,
    /// The command.
    pub action: OperatorAction,
}

/// The commands that an operator may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorAction {
    /// About instruments, orders, trades and sessions.
    Venue(VenueCommand),
    /// About accounts and money.
    Money(MoneyCommand),
}

/// The result of an operator's command. The events of its effect come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorResult {
    /// The operator.
    pub operator: OperatorName,
    /// The operator's number of the command.
    pub number: u64,
    /// The input that carried the command out, or declined it: for a repetition the earlier one.
    pub sequence: Sequence,
    /// True if the command was carried out, or declined, by an earlier input.
    pub repeated: bool,
    /// Done or declined.
    pub outcome: OperatorOutcome,
}

/// Whether a command was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorOutcome {
    /// It was carried out, with this effect.
    Done(OperatorEffect),
    /// It was not carried out and changed nothing.
    Declined(OperatorDecline),
}

/// What a command changed, in numbers. Effects that follow from these, such as a linked order that is
/// canceled with its partner, are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorDecline {
    /// A command about instruments, orders, trades or sessions.
    Venue(VenueDeclineReason),
    /// A command about accounts or money.
    Money(DeclineReason),
    /// The operator has used this number for another command, or a higher number; the last one is given.
    NumberUsed(u64),
    /// There are as many operators as there may be, or the name is blank.
    TooManyOperators,
}
