//! The commands of operators: each number is carried out once, and a repetition is answered with the
//! result of the first.
//!
//! Invariant: of each operator the last number is kept, with its result and with what it asked for; so
//! the answer to a repetition is the same after a restart.

use alloc::vec::Vec;

use market::{
    AccountId, AccountSetting, AssetId, Command, Event, MoneyCommand, MoneyEvent, OperatorAction,
    OperatorCommand, OperatorDecline, OperatorEffect, OperatorName, OperatorOutcome,
    OperatorResult, Sequence, SessionId, VenueCommand, VenueEvent,
};

use crate::{Engine, state::hash};

/// There are at most so many operators.
pub const OPERATORS_MAX: usize = 256;

/// The last command of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastCommand {
    pub(crate) operator: OperatorName,
    pub(crate) number: u64,
    /// Of the action; tells a repetition from another command under the same number.
    pub(crate) fingerprint: u64,
    /// The input that carried it out or declined it.
    pub(crate) sequence: Sequence,
    pub(crate) outcome: OperatorOutcome,
}

impl LastCommand {
    /// As an element of the state.
    pub(crate) fn hash(&self) -> u64 {
        let Self { operator, number, fingerprint, sequence, outcome } = self;
        let [kind, a, b, c] = match outcome {
            OperatorOutcome::Done(effect) => [
                1,
                u64::from(effect.orders_canceled) << 32 | u64::from(effect.phases_changed),
                u64::from(effect.trades) << 32 | u64::from(effect.movements),
                effect.trade_id.0,
            ],
            OperatorOutcome::Declined(OperatorDecline::Venue(why)) => [2, why.code().into(), 0, 0],
            OperatorOutcome::Declined(OperatorDecline::Money(why)) => [3, why.code().into(), 0, 0],
            OperatorOutcome::Declined(OperatorDecline::NumberUsed(number)) => [4, *number, 0, 0],
            OperatorOutcome::Declined(OperatorDecline::TooManyOperators) => [5, 0, 0, 0],
        };
        let name = hash::bytes(operator.as_bytes());
        hash::mix([hash::OPERATOR, name, *number, *fingerprint, sequence.0, kind, a, b, c])
    }
}

/// A setting that a configuration has as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeldSetting {
    /// A limit, or the fee tier, of an account; the asset where the setting is of one.
    Account(AccountId, AccountSetting, AssetId),
    /// How many live orders a session may have.
    LiveOrdersMax(SessionId),
}

impl HeldSetting {
    /// As an element of the state.
    pub(crate) fn hash(&self) -> u64 {
        let words = match self {
            Self::Account(account_id, setting, asset_id) => {
                [u64::from(setting.code()), u64::from(asset_id.0) << 32 | u64::from(account_id.0)]
            }
            Self::LiveOrdersMax(session_id) => [0, u64::from(session_id.0)],
        };
        let [kind, place] = words;
        hash::mix([hash::HELD_SETTING, kind, place])
    }
}

/// Operators and what they have set.
#[derive(Debug, Default)]
pub(crate) struct Operators {
    /// By name.
    pub(crate) last: Vec<LastCommand>,
    /// The settings whose value is an operator's, sorted.
    pub(crate) held: Vec<HeldSetting>,
}

impl Engine {
    /// The last command of an operator that was carried out or declined, as its result.
    #[must_use]
    pub fn operator_result(&self, operator: &OperatorName) -> Option<OperatorResult> {
        let last = self.operators.find(operator).ok()?;
        let LastCommand { operator, number, sequence, outcome, .. } = self.operators.last[last];
        Some(OperatorResult { operator, number, sequence, repeated: false, outcome })
    }

    /// Every operator so far with the last number used, by name.
    pub fn operators(&self) -> impl Iterator<Item = (OperatorName, u64)> {
        self.operators.last.iter().map(|last| (last.operator, last.number))
    }

    /// True if the value of a setting is one that an operator has set, so that a start does not take
    /// the one of the configuration.
    #[must_use]
    pub fn is_held(&self, setting: HeldSetting) -> bool {
        self.operators.held.binary_search(&setting).is_ok()
    }

    /// Carries out the command of an operator, unless its number was used before, and emits the result.
    #[cold]
    pub(crate) fn operate(&mut self, asked: &OperatorCommand, emit: &mut dyn FnMut(Event)) {
        let OperatorCommand { operator, number, action } = *asked;
        let sequence = self.sequence;
        let fingerprint = fingerprint(&action);
        let place = self.operators.find(&operator);
        let known = place.ok().map(|place| self.operators.last[place]);
        let decline = |why| OperatorOutcome::Declined(why);
        let answer = match known {
            Some(last) if last.number == number && last.fingerprint == fingerprint => {
                Some((last.sequence, true, last.outcome))
            }
            Some(last) if number <= last.number => {
                Some((sequence, false, decline(OperatorDecline::NumberUsed(last.number))))
            }
            None if number == 0 => Some((sequence, false, decline(OperatorDecline::NumberUsed(0)))),
            None if operator.is_blank() || self.operators.last.len() == OPERATORS_MAX => {
                Some((sequence, false, decline(OperatorDecline::TooManyOperators)))
            }
            _ => None,
        };
        let (sequence, repeated, outcome) = answer.unwrap_or_else(|| {
            let outcome = self.carry_out(&action, emit);
            let last = LastCommand { operator, number, fingerprint, sequence, outcome };
            match place {
                Ok(place) => {
                    let before = core::mem::replace(&mut self.operators.last[place], last);
                    self.hash.change(before.hash(), last.hash());
                }
                Err(place) => {
                    self.operators.last.insert(place, last);
                    self.hash.add(last.hash());
                }
            }
            (sequence, false, outcome)
        });
        let result = OperatorResult { operator, number, sequence, repeated, outcome };
        emit(Event::Venue(VenueEvent::Operated(result)));
    }

    /// Carries out an action, and counts its effect by its events.
    fn carry_out(
        &mut self,
        action: &OperatorAction,
        emit: &mut dyn FnMut(Event),
    ) -> OperatorOutcome {
        let mut effect = OperatorEffect::default();
        let mut declined = None;
        let mut watched = |event: Event| {
            match &event {
                Event::Canceled(canceled) if canceled.leaves.is_zero() => {
                    effect.orders_canceled += 1;
                }
                Event::Traded(_) => effect.trades += 1,
                Event::Ledger(_) => effect.movements += 1,
                Event::Venue(VenueEvent::PhaseChanged(_)) => effect.phases_changed += 1,
                Event::Venue(VenueEvent::TradeCorrected(corrected)) => {
                    effect.trades += 1;
                    effect.trade_id = corrected.trade.trade_id;
                }
                Event::Venue(VenueEvent::Declined(it)) => {
                    declined = Some(OperatorDecline::Venue(it.reason));
                }
                Event::Money(MoneyEvent::Declined(it)) => {
                    declined = Some(OperatorDecline::Money(it.reason));
                }
                _ => {}
            }
            emit(event);
        };
        match action {
            OperatorAction::Venue(command) => self.venue(command, &mut watched),
            OperatorAction::Money(command) => self.money(command, &mut watched),
        }
        match declined {
            Some(decline) => OperatorOutcome::Declined(decline),
            None => {
                if let Some(setting) = setting_of(action) {
                    self.hold_setting(setting);
                }
                OperatorOutcome::Done(effect)
            }
        }
    }

    /// The value of a setting is an operator's from now on.
    pub(crate) fn hold_setting(&mut self, setting: HeldSetting) {
        if let Err(place) = self.operators.held.binary_search(&setting) {
            self.operators.held.insert(place, setting);
            self.hash.add(setting.hash());
        }
    }

    /// A setting has a new value, which is nobody's until an operator is known to have set it.
    pub(crate) fn let_go_of(&mut self, setting: HeldSetting) {
        if let Ok(place) = self.operators.held.binary_search(&setting) {
            self.operators.held.remove(place);
            self.hash.remove(setting.hash());
        }
    }
}

impl Operators {
    fn find(&self, operator: &OperatorName) -> Result<usize, usize> {
        self.last.binary_search_by_key(operator, |last| last.operator)
    }
}

/// The setting that an action sets, if a configuration has it as well.
fn setting_of(action: &OperatorAction) -> Option<HeldSetting> {
    match action {
        OperatorAction::Money(MoneyCommand::SetAccount(set)) => {
            Some(HeldSetting::Account(set.account_id, set.setting, set.asset_id))
        }
        OperatorAction::Venue(VenueCommand::SetLiveOrdersMax(set)) => {
            Some(HeldSetting::LiveOrdersMax(set.session_id))
        }
        _ => None,
    }
}

/// Of all that an action says.
fn fingerprint(action: &OperatorAction) -> u64 {
    let command = match action {
        OperatorAction::Venue(command) => Command::Venue(*command),
        OperatorAction::Money(command) => Command::Money(*command),
    };
    let mut bytes = [0; Command::ENCODED_LEN_MAX];
    let len = command.encode(&mut bytes);
    hash::bytes(&bytes[..len])
}
