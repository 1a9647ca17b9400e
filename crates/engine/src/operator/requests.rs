//! Commands of operators: each number is carried out once, and a repetition gets the result of the
//! first.
//!
//! Invariant: the last number of each operator is kept, with its result and a hash of its action,
//! so a repetition gets the same answer after a restart.

use alloc::vec::Vec;

use market::{
    AccountId, AccountSetting, AssetId, BlockEntry, Command, Event, MoneyCommand, MoneyEvent,
    OperatorAction, OperatorCommand, OperatorDecline, OperatorEffect, OperatorName,
    OperatorOutcome, OperatorResult, Scope, Sequence, SessionId, VenueCommand, VenueEvent,
};

use crate::{Engine, intake::pending_cancels::Whose, state::hash};

/// The most operators.
pub const OPERATORS_MAX: usize = 256;

/// The last command of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastCommand {
    pub(crate) operator: OperatorName,
    pub(crate) number: u64,
    /// A hash of the action, to distinguish a repetition from another command with the same number.
    pub(crate) fingerprint: u64,
    /// The input that carried out or declined it.
    pub(crate) sequence: Sequence,
    pub(crate) outcome: OperatorOutcome,
}

impl LastCommand {
    /// Its element of the state hash.
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

/// A setting that the configuration also has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeldSetting {
    /// A limit or the fee tier of an account, with the asset if the setting is per asset.
    Account(AccountId, AccountSetting, AssetId),
    /// The maximum number of live orders of a session.
    LiveOrdersMax(SessionId),
}

impl HeldSetting {
    /// Its element of the state hash.
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

/// The operators, and the settings that they changed.
#[derive(Debug, Default)]
pub(crate) struct Operators {
    /// Last commands, by operator name.
    pub(crate) last: Vec<LastCommand>,
    /// Settings whose present value is from an operator, sorted.
    pub(crate) held: Vec<HeldSetting>,
}

impl Engine {
    /// The result of the last command of an operator.
    #[must_use]
    pub fn operator_result(&self, operator: &OperatorName) -> Option<OperatorResult> {
        let last = self.operators.find(operator).ok()?;
        let LastCommand { operator, number, sequence, outcome, .. } = self.operators.last[last];
        Some(OperatorResult { operator, number, sequence, repeated: false, outcome })
    }

    /// Every operator so far and its last used number, by name.
    pub fn operators(&self) -> impl Iterator<Item = (OperatorName, u64)> {
        self.operators.last.iter().map(|last| (last.operator, last.number))
    }

    /// True if an operator set the present value of a setting; a start then ignores the configured
    /// value.
    #[must_use]
    pub fn is_held(&self, setting: HeldSetting) -> bool {
        self.operators.held.binary_search(&setting).is_ok()
    }

    /// Carries out an operator's command, unless its number was used before, and emits the result.
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
                Ok(place) => self.operators.last[place] = last,
                Err(place) => self.operators.last.insert(place, last),
            }
            (sequence, false, outcome)
        });
        let result = OperatorResult { operator, number, sequence, repeated, outcome };
        emit(Event::Venue(VenueEvent::Operated(result)));
    }

    /// Carries out an action; counts its effect by its events, and the orders that now wait to be canceled: all orders
    /// of its sessions where it cancels all, else those that are found.
    fn carry_out(
        &mut self,
        action: &OperatorAction,
        emit: &mut dyn FnMut(Event),
    ) -> OperatorOutcome {
        let mut effect = OperatorEffect::default();
        let mut declined = None;
        let pending_before = self.pending_cancel_count();
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
                effect.orders_canceled += match whole_sessions(action) {
                    Some(whose) => self.live_orders_of(whose),
                    None => (self.pending_cancel_count() - pending_before) as u32,
                };
                if let Some(setting) = setting_of(action) {
                    self.hold_setting(setting);
                }
                OperatorOutcome::Done(effect)
            }
        }
    }

    /// Marks the value of a setting as an operator's.
    pub(crate) fn hold_setting(&mut self, setting: HeldSetting) {
        if let Err(place) = self.operators.held.binary_search(&setting) {
            self.operators.held.insert(place, setting);
        }
    }

    /// Marks the value of a setting as no operator's, until one is known to have set it.
    pub(crate) fn let_go_of(&mut self, setting: HeldSetting) {
        if let Ok(place) = self.operators.held.binary_search(&setting) {
            self.operators.held.remove(place);
        }
    }
}

impl Operators {
    fn find(&self, operator: &OperatorName) -> Result<usize, usize> {
        self.last.binary_search_by_key(operator, |last| last.operator)
    }
}

/// The setting that an action changes, if the configuration also has it.
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

/// The sessions whose orders an action cancels, if it cancels all of them.
fn whole_sessions(action: &OperatorAction) -> Option<Whose> {
    match action {
        OperatorAction::Venue(
            VenueCommand::SupervisoryCancel(scope)
            | VenueCommand::KillSwitch(BlockEntry { scope, blocked: true }),
        ) => {
            let Scope { session_id, account_id, .. } = *scope;
            let is_whole = *scope == Scope { session_id, account_id, ..Scope::ALL };
            is_whole.then_some(Whose { session_id, account_id, ..Whose::ANY })
        }
        OperatorAction::Money(MoneyCommand::StopAccount(stop)) if stop.stopped => {
            Some(Whose { account_id: stop.account_id, ..Whose::ANY })
        }
        _ => None,
    }
}

/// A hash of all fields of an action.
fn fingerprint(action: &OperatorAction) -> u64 {
    let command = match action {
        OperatorAction::Venue(command) => Command::Venue(*command),
        OperatorAction::Money(command) => Command::Money(*command),
    };
    let mut bytes = [0; Command::ENCODED_LEN_MAX];
    let len = command.encode(&mut bytes);
    hash::bytes(&bytes[..len])
}
