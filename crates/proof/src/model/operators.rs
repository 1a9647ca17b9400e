//! The commands of operators as one would explain them: the model remembers each operator's last
//! command with its result, and returns that result for a repetition.

use market::{
    Event, MoneyCommand, MoneyEvent, OperatorAction, OperatorCommand, OperatorDecline,
    OperatorEffect, OperatorOutcome, OperatorResult, Scope, Sequence, VenueCommand, VenueEvent,
};

use super::{Model, pending_cancels::Pending};

/// The most operators (51.3).
const OPERATORS_MAX: usize = 256;

impl Model {
    pub(super) fn operate(&mut self, asked: &OperatorCommand, sequence: Sequence) {
        let OperatorCommand { operator, number, .. } = *asked;
        let known = self.operators.get(&operator);
        let last = known.map_or(0, |(last, _)| last.number);
        let result = match known {
            // 51.2
            Some((command, result)) if command == asked => {
                OperatorResult { repeated: true, ..*result }
            }
            _ => {
                let is_new = known.is_none();
                let has_room = !operator.is_blank() && self.operators.len() < OPERATORS_MAX;
                let outcome = if number <= last {
                    OperatorOutcome::Declined(OperatorDecline::NumberUsed(last))
                } else if is_new && !has_room {
                    OperatorOutcome::Declined(OperatorDecline::TooManyOperators)
                } else {
                    self.carry_out(&asked.action)
                };
                let result =
                    OperatorResult { operator, number, sequence, repeated: false, outcome };
                if number > last && (!is_new || has_room) {
                    self.operators.insert(operator, (*asked, result));
                }
                result
            }
        };
        self.events.push(Event::Venue(VenueEvent::Operated(result)));
    }

    /// Carries out an operator's action. (51.1)
    fn carry_out(&mut self, action: &OperatorAction) -> OperatorOutcome {
        let first = self.events.len();
        // 24.5
        let waiting = |model: &Self| {
            let in_line = model.pending.iter().map(|(_, pending)| pending);
            in_line.chain(&model.stuck).filter(|it| matches!(it, Pending::Order(..))).count()
        };
        let waiting_before = waiting(self);
        match action {
            OperatorAction::Venue(command) => self.venue(command),
            OperatorAction::Money(command) => self.money(command),
        }
        let caused = &self.events[first..];
        let count = |meant: fn(&Event) -> bool| caused.iter().filter(|it| meant(it)).count() as u32;
        let corrected = caused.iter().find_map(|event| match event {
            Event::Venue(VenueEvent::TradeCorrected(it)) => Some(it.trade.trade_id),
            _ => None,
        });
        let declined = caused.iter().find_map(|event| match event {
            Event::Venue(VenueEvent::Declined(it)) => Some(OperatorDecline::Venue(it.reason)),
            Event::Money(MoneyEvent::Declined(it)) => Some(OperatorDecline::Money(it.reason)),
            _ => None,
        });
        if let Some(declined) = declined {
            return OperatorOutcome::Declined(declined);
        }
        OperatorOutcome::Done(OperatorEffect {
            orders_canceled: count(|it| matches!(it, Event::Canceled(it) if it.leaves.is_zero()))
                + match whole_sessions(action) {
                    Some(scope) => self.live_in(&scope),
                    None => waiting(self) - waiting_before,
                } as u32,
            phases_changed: count(|it| matches!(it, Event::Venue(VenueEvent::PhaseChanged(_)))),
            trades: count(|it| matches!(it, Event::Traded(_))) + u32::from(corrected.is_some()),
            movements: count(|it| matches!(it, Event::Ledger(_))),
            trade_id: corrected.unwrap_or_default(),
        })
    }
}

/// The scope of a command that cancels all orders of some sessions. (24.5)
fn whole_sessions(action: &OperatorAction) -> Option<Scope> {
    let scope = match action {
        OperatorAction::Venue(VenueCommand::SupervisoryCancel(scope)) => *scope,
        OperatorAction::Venue(VenueCommand::KillSwitch(block)) if block.blocked => block.scope,
        OperatorAction::Money(MoneyCommand::StopAccount(stop)) if stop.stopped => {
            Scope { account_id: stop.account_id, ..Scope::ALL }
        }
        _ => return None,
    };
    let Scope { session_id, account_id, .. } = scope;
    (scope == Scope { session_id, account_id, ..Scope::ALL }).then_some(scope)
}
