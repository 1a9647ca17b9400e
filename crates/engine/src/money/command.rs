//! The commands about money. Invariant: each is carried out in full, or declined and changes
//! nothing.

use core::mem;

use market::{
    AccountAdded, AccountId, AddAccount, AddAsset, Asset, AssetId, AssignSession, Bucket,
    CancelReason, DeclineReason, Declined, Deposit, Event, InstrumentId, LedgerKind, MoneyClass,
    MoneyCommand, MoneyEvent, MoneyTerms, Quantity, SessionAssigned, SetAccount, SetFees, SetTerms,
    StopAccount, TermsSet, Transfer, Withdraw,
};

use super::{
    account::{Account, AssetLimits, HotAccount, TIER_COUNT},
    balance::{Holding, ISSUED_MAX, Movement, NO_ORDER, NO_TRADE},
    fees::Fees,
    terms::{NO_TERMS, Terms},
    undo::Was,
};
use crate::{
    Engine, HeldSetting,
    intake::{cancel_line::Selection, pending_cancels::Whose},
    order::QUANTITY_LIMIT,
};

/// The most balances: accounts, the venue's included, times assets.
pub const BALANCES_MAX: usize = 1 << 24;

impl Engine {
    /// Carries out a command about money, or declines it.
    pub(crate) fn money(&mut self, command: &MoneyCommand, emit: &mut dyn FnMut(Event)) {
        let done = match command {
            MoneyCommand::AddAsset(add) => self.add_asset(add, emit),
            MoneyCommand::AddAccount(add) => self.add_account(add, emit),
            MoneyCommand::AssignSession(assign) => self.assign_session(assign, emit),
            MoneyCommand::SetTerms(set) => self.set_terms(set, emit),
            MoneyCommand::SetFees(set) => self.set_fees(set, emit),
            MoneyCommand::SetAccount(set) => self.set_account(set, emit),
            MoneyCommand::StopAccount(stop) => self.stop_account(stop, emit),
            MoneyCommand::Deposit(deposit) => self.deposit(deposit, emit),
            MoneyCommand::Withdraw(withdraw) => self.withdraw(withdraw, emit),
            MoneyCommand::Transfer(transfer) => self.transfer(transfer, emit),
        };
        if let Err(reason) = done {
            let (account_id, asset_id, movement) = concerned(command);
            let declined = Declined { reason, movement, account_id, asset_id };
            emit(Event::Money(MoneyEvent::Declined(declined)));
        }
    }

    fn add_asset(
        &mut self,
        add: &AddAsset,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let money = &mut self.money;
        if add.name.is_blank() || money.asset_names.find(&add.name).is_some() {
            return Err(DeclineReason::InvalidName);
        }
        let number = u16::try_from(money.holdings.len() + 1).map_err(|_| DeclineReason::TooMany)?;
        if BALANCES_MAX < usize::from(number) * money.accounts.len() {
            return Err(DeclineReason::TooMany);
        }
        let asset = Asset { asset_id: AssetId(number), name: add.name, decimals: add.decimals };
        money.is_used = true;
        money.asset_names.add(&add.name, number);
        money.holdings.push(Holding::new(asset, money.accounts.len()));
        money.limits.push(alloc::vec::Vec::new());
        emit(Event::Money(MoneyEvent::AssetAdded(asset)));
        Ok(())
    }

    fn add_account(
        &mut self,
        add: &AddAccount,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let money = &mut self.money;
        if add.name.is_blank() || money.account_names.find(&add.name).is_some() {
            return Err(DeclineReason::InvalidName);
        }
        let number = u16::try_from(money.accounts.len()).map_err(|_| DeclineReason::TooMany)?;
        if BALANCES_MAX < money.holdings.len() * (money.accounts.len() + 1) {
            return Err(DeclineReason::TooMany);
        }
        let account_id = AccountId(u32::from(number));
        money.is_used = true;
        money.account_names.add(&add.name, number);
        money.accounts.push(Account::new(add.name));
        money.hot.push(HotAccount::default());
        money.note_account(account_id);
        for holding in &mut money.holdings {
            holding.add_account();
        }
        emit(Event::Money(MoneyEvent::AccountAdded(AccountAdded { account_id, name: add.name })));
        Ok(())
    }

    fn assign_session(
        &mut self,
        assign: &AssignSession,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let AssignSession { session_id, account_id } = *assign;
        let session = self.sessions.get(session_id).ok_or(DeclineReason::UnknownSession)?;
        self.money.find_account(account_id)?;
        if session.live_orders() != 0 {
            return Err(DeclineReason::OrdersLive);
        }
        let index = usize::from(session_id.0);
        let account_ids = &mut self.money.account_ids;
        if account_ids.len() <= index {
            account_ids.resize(index + 1, AccountId::VENUE);
        }
        let before = mem::replace(&mut account_ids[index], account_id);
        if before != account_id {
            self.note_changed(Was::Owner(session_id, before));
        }
        let assigned = SessionAssigned { session_id, account_id };
        emit(Event::Money(MoneyEvent::SessionAssigned(assigned)));
        Ok(())
    }

    fn set_terms(
        &mut self,
        set: &SetTerms,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let number = self.symbols.find(&set.symbol).ok_or(DeclineReason::UnknownInstrument)?;
        self.put_terms(InstrumentId(number), set.terms, emit)
    }

    /// Sets the terms of an instrument, which may have been removed.
    pub(crate) fn put_terms(
        &mut self,
        instrument_id: InstrumentId,
        terms: MoneyTerms,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        self.money.check_terms(&terms)?;
        let index = usize::from(instrument_id.0) - 1;
        if !self.books[instrument_id].is_empty() || self.has_waiting(instrument_id) {
            return Err(DeclineReason::OrdersLive);
        }
        self.books[instrument_id].set_quantity_max(terms.quantity_max);
        let all = &mut self.money.terms;
        if all.len() <= index {
            all.resize(index + 1, Terms(NO_TERMS));
        }
        let before = mem::replace(&mut all[index], Terms(terms)).0;
        if before != (MoneyTerms { quantity_max: before.quantity_max, ..terms }) {
            self.note_changed(Was::Terms(instrument_id, before));
        }
        emit(Event::Money(MoneyEvent::TermsSet(TermsSet { instrument_id, terms })));
        Ok(())
    }

    fn set_fees(
        &mut self,
        set: &SetFees,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let tier = usize::from(set.tier);
        let fees = Fees { maker_ppm: set.maker_ppm, taker_ppm: set.taker_ppm };
        if TIER_COUNT <= tier || !fees.are_parts() {
            return Err(DeclineReason::InvalidFees);
        }
        let mut all = self.money.fees;
        all[tier] = fees;
        // A rebate is paid out of the taker's fee, whatever the taker's tier.
        let rebate_ppm_max = all.iter().map(Fees::rebate_ppm).max().expect("there are tiers");
        let taker_ppm_min = all.iter().map(|fees| fees.taker_ppm).min().expect("there are tiers");
        if taker_ppm_min < rebate_ppm_max {
            return Err(DeclineReason::InvalidFees);
        }
        let before = self.money.replace_fees(all)[tier];
        if before != fees {
            self.note_changed(Was::Fees(set.tier, before));
        }
        emit(Event::Money(MoneyEvent::FeesSet(*set)));
        Ok(())
    }

    fn set_account(
        &mut self,
        set: &SetAccount,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let SetAccount { account_id, setting, asset_id, value } = *set;
        let index = self.money.find_account(account_id)?;
        if account_id == AccountId::VENUE {
            return Err(DeclineReason::UnknownAccount);
        }
        if setting.is_of_asset() {
            let asset_index = self.money.find_asset(asset_id)?;
            if AssetLimits::MAX < value.get() {
                return Err(DeclineReason::InvalidValue);
            }
            let limits = &mut self.money.limits[asset_index];
            if limits.len() <= index {
                limits.resize(index + 1, AssetLimits::default());
            }
            limits[index].set(setting, value.get());
            let is_limited = limits[index] != AssetLimits::default();
            if limits[index].short_max != 0 {
                self.money.holdings[asset_index].widen();
            }
            self.money.has_asset_limits = is_limited || self.money.any_asset_limits();
        } else {
            let account = &mut self.money.accounts[index];
            let tier = account.fee_tier;
            if asset_id != AssetId(0) || !account.set(setting, value.get()) {
                return Err(DeclineReason::InvalidValue);
            }
            let is_other = account.fee_tier != tier;
            self.money.note_account(account_id);
            if is_other {
                self.note_changed(Was::Tier(account_id, tier));
            }
        }
        self.let_go_of(HeldSetting::Account(account_id, setting, asset_id));
        emit(Event::Money(MoneyEvent::AccountSet(*set)));
        Ok(())
    }

    fn stop_account(
        &mut self,
        stop: &StopAccount,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let StopAccount { account_id, stopped } = *stop;
        let index = self.money.find_account(account_id)?;
        if account_id == AccountId::VENUE {
            return Err(DeclineReason::UnknownAccount);
        }
        self.money.accounts[index].stopped = stopped;
        self.money.note_account(account_id);
        emit(Event::Money(MoneyEvent::AccountStopped(*stop)));
        if stopped {
            let whose = Whose { account_id, ..Whose::ANY };
            self.cancel_selected(whose, Selection::ALL, CancelReason::Supervisory, emit);
        }
        Ok(())
    }

    fn deposit(
        &mut self,
        deposit: &Deposit,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let Deposit { account_id, asset_id, amount } = *deposit;
        self.money.find_account(account_id)?;
        self.money.check_addition(asset_id, amount.get())?;
        let outside = (AccountId::VENUE, Bucket::Outside);
        let to = (account_id, Bucket::Available);
        self.move_whole(LedgerKind::Deposit, asset_id, outside, to, amount.get(), emit);
        Ok(())
    }

    fn withdraw(
        &mut self,
        withdraw: &Withdraw,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let Withdraw { account_id, asset_id, amount } = *withdraw;
        self.money.find_account(account_id)?;
        self.money.check_removal(account_id, asset_id, amount.get())?;
        let from = (account_id, Bucket::Available);
        let outside = (AccountId::VENUE, Bucket::Outside);
        self.move_whole(LedgerKind::Withdrawal, asset_id, from, outside, amount.get(), emit);
        Ok(())
    }

    fn transfer(
        &mut self,
        transfer: &Transfer,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), DeclineReason> {
        let Transfer { from, to, asset_id, amount } = *transfer;
        self.money.find_account(from)?;
        self.money.find_account(to)?;
        if from == to {
            return Err(DeclineReason::InvalidAmount);
        }
        self.money.check_removal(from, asset_id, amount.get())?;
        let (from, to) = ((from, Bucket::Available), (to, Bucket::Available));
        self.move_whole(LedgerKind::Transfer, asset_id, from, to, amount.get(), emit);
        Ok(())
    }

    /// Posts a movement that belongs to no order.
    pub(super) fn move_whole(
        &mut self,
        kind: LedgerKind,
        asset_id: AssetId,
        from: (AccountId, Bucket),
        to: (AccountId, Bucket),
        amount: u128,
        emit: &mut dyn FnMut(Event),
    ) {
        let movement = Movement { kind, from, to, amount, order_id: NO_ORDER, trade_id: NO_TRADE };
        let holding = self.money.holding_mut(asset_id);
        let entry = holding.post(&movement);
        holding.check_conserved();
        emit(Event::Ledger(entry));
    }
}

impl super::Money {
    /// Sets the fees of all tiers; returns the old ones.
    pub(super) fn replace_fees(&mut self, all: [Fees; TIER_COUNT]) -> [Fees; TIER_COUNT] {
        self.has_fees = all.iter().any(|fees| *fees != Fees::default());
        mem::replace(&mut self.fees, all)
    }

    /// The index of an account, the venue's own included.
    pub(super) fn find_account(&self, account_id: AccountId) -> Result<usize, DeclineReason> {
        let index = account_id.0 as usize;
        if index < self.accounts.len() { Ok(index) } else { Err(DeclineReason::UnknownAccount) }
    }

    /// The index of an asset.
    fn find_asset(&self, asset_id: AssetId) -> Result<usize, DeclineReason> {
        let index = usize::from(asset_id.0).checked_sub(1).ok_or(DeclineReason::UnknownAsset)?;
        if index < self.holdings.len() { Ok(index) } else { Err(DeclineReason::UnknownAsset) }
    }

    /// True if this much of an asset may be deposited.
    pub(super) fn check_addition(
        &self,
        asset_id: AssetId,
        amount: u128,
    ) -> Result<(), DeclineReason> {
        let holding = &self.holdings[self.find_asset(asset_id)?];
        if amount == 0 {
            return Err(DeclineReason::InvalidAmount);
        }
        if ISSUED_MAX - holding.issued() < amount {
            return Err(DeclineReason::TooMuch);
        }
        Ok(())
    }

    pub(super) fn check_removal(
        &self,
        account_id: AccountId,
        asset_id: AssetId,
        amount: u128,
    ) -> Result<(), DeclineReason> {
        let holding = &self.holdings[self.find_asset(asset_id)?];
        if amount == 0 {
            return Err(DeclineReason::InvalidAmount);
        }
        let available = u128::try_from(holding.available(account_id)).unwrap_or(0);
        if available < amount {
            return Err(DeclineReason::InsufficientBalance);
        }
        Ok(())
    }

    pub(super) fn check_terms(&self, terms: &MoneyTerms) -> Result<(), DeclineReason> {
        let numbers = [terms.base_units, terms.quote_numerator, terms.quote_denominator];
        let quantity_allowed =
            Quantity::ZERO < terms.quantity_max && terms.quantity_max <= QUANTITY_LIMIT;
        let terms_allowed = if terms.class == MoneyClass::None {
            numbers == [0; 3] && terms.base == AssetId(0) && terms.quote == AssetId(0)
        } else {
            self.find_asset(terms.base)?;
            self.find_asset(terms.quote)?;
            !numbers.contains(&0) && terms.base != terms.quote && terms.are_bounded()
        };
        if quantity_allowed && terms_allowed { Ok(()) } else { Err(DeclineReason::InvalidTerms) }
    }
}

/// The account and the asset that a command names, and its movement.
fn concerned(command: &MoneyCommand) -> (AccountId, AssetId, Option<LedgerKind>) {
    let (nobody, nothing) = (AccountId::VENUE, AssetId(0));
    match command {
        MoneyCommand::AddAsset(_)
        | MoneyCommand::AddAccount(_)
        | MoneyCommand::SetTerms(_)
        | MoneyCommand::SetFees(_) => (nobody, nothing, None),
        MoneyCommand::AssignSession(assign) => (assign.account_id, nothing, None),
        MoneyCommand::StopAccount(stop) => (stop.account_id, nothing, None),
        MoneyCommand::SetAccount(set) => (set.account_id, set.asset_id, None),
        MoneyCommand::Deposit(deposit) => {
            (deposit.account_id, deposit.asset_id, Some(LedgerKind::Deposit))
        }
        MoneyCommand::Withdraw(withdraw) => {
            (withdraw.account_id, withdraw.asset_id, Some(LedgerKind::Withdrawal))
        }
        MoneyCommand::Transfer(transfer) => {
            (transfer.from, transfer.asset_id, Some(LedgerKind::Transfer))
        }
    }
}
