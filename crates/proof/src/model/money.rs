//! Money, as one would explain it: one list has the holdings of every account. Sections 40, 41, 45
//! and 46 of the rules.

use std::collections::{BTreeMap, BTreeSet};

use market::{
    AccountAdded, AccountId, AccountSetting, Asset, AssetId, AssignSession, Bucket, CancelReason,
    DeclineReason, Declined, Event, InstrumentId, LedgerEntry, LedgerKind, LedgerPlace, MoneyClass,
    MoneyCommand, MoneyEvent, MoneyTerms, OrderId, Scope, SessionAssigned, SessionId, SetAccount,
    SetFees, SetTerms, StopAccount, TermsSet, Text, TradeId, Units,
};

use super::{COUNT_MAX, Model, pending_cancels::Meant, venue::QUANTITY_LIMIT};

/// The most units of an asset (41.3).
const ISSUED_MAX: i128 = 1 << 120;

/// The highest limit of an asset, in units.
const LIMIT_MAX: u128 = 1 << 96;

/// The most balances (40.1).
const BALANCES_MAX: usize = 16_777_216;

/// The whole state of money.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelMoney {
    assets: Vec<Text<8>>,
    accounts: Vec<Text<8>>,
    owners: BTreeMap<SessionId, AccountId>,
    pub(super) terms: BTreeMap<InstrumentId, MoneyTerms>,
    /// Maker and taker fees by tier.
    fees: BTreeMap<u8, (i32, u32)>,
    /// Values of the account settings; a setting never set is 0.
    settings: BTreeMap<(AccountId, AccountSetting, AssetId), u128>,
    pub(super) stopped: BTreeSet<AccountId>,
    /// The times of an account's order requests since its limit was set, in seconds.
    pub(super) asked: BTreeMap<AccountId, Vec<u64>>,
    /// Amounts by place; the amounts outside are negative.
    amounts: BTreeMap<(AssetId, AccountId, Bucket), i128>,
    /// The number of movements that touched a balance, or the amount outside.
    versions: BTreeMap<(AssetId, AccountId, bool), u64>,
}

impl Model {
    /// An account's available and reserved amounts of an asset.
    pub fn balance(&self, account_id: AccountId, asset_id: AssetId) -> (i128, i128) {
        let amount = |bucket| self.money.amount(asset_id, account_id, bucket);
        (amount(Bucket::Available), amount(Bucket::Reserved))
    }

    pub(super) fn money(&mut self, command: &MoneyCommand) {
        let (nobody, none) = (AccountId(0), AssetId(0));
        let outside = (nobody, Bucket::Outside);
        let at = |account_id| (account_id, Bucket::Available);
        let mut movement = None;
        let (done, account_id, asset_id) = match *command {
            MoneyCommand::AddAsset(add) => (self.add_asset(add.name, add.decimals), nobody, none),
            MoneyCommand::AddAccount(add) => (self.add_account(add.name), nobody, none),
            MoneyCommand::AssignSession(it) => (self.assign_session(it), it.account_id, none),
            MoneyCommand::SetTerms(set) => (self.set_terms(set), nobody, none),
            MoneyCommand::SetFees(set) => (self.set_fees(set), nobody, none),
            MoneyCommand::SetAccount(set) => (self.set_account(set), set.account_id, set.asset_id),
            MoneyCommand::StopAccount(stop) => (self.stop_account(stop), stop.account_id, none),
            // 41.1: all three are movements between two ends.
            MoneyCommand::Deposit(it) => {
                let kind = *movement.insert(LedgerKind::Deposit);
                let done = self.give(kind, it.asset_id, [outside, at(it.account_id)], it.amount);
                (done, it.account_id, it.asset_id)
            }
            MoneyCommand::Withdraw(it) => {
                let kind = *movement.insert(LedgerKind::Withdrawal);
                let done = self.give(kind, it.asset_id, [at(it.account_id), outside], it.amount);
                (done, it.account_id, it.asset_id)
            }
            MoneyCommand::Transfer(it) => {
                let kind = *movement.insert(LedgerKind::Transfer);
                let done = self.give(kind, it.asset_id, [at(it.from), at(it.to)], it.amount);
                (done, it.from, it.asset_id)
            }
        };
        if let Err(reason) = done {
            let declined = Declined { reason, movement, account_id, asset_id };
            self.report_money(MoneyEvent::Declined(declined));
        }
    }

    fn report_money(&mut self, event: MoneyEvent) {
        self.events.push(Event::Money(event));
    }

    fn assign_session(&mut self, asked: AssignSession) -> Result<(), DeclineReason> {
        let AssignSession { session_id, account_id } = asked;
        if self.session(session_id).is_none() {
            return Err(DeclineReason::UnknownSession);
        }
        self.money.known(account_id)?;
        // 40.2
        if self.orders.iter().any(|order| order.key.session_id == session_id) {
            return Err(DeclineReason::OrdersLive);
        }
        self.money.owners.insert(session_id, account_id);
        self.report_money(MoneyEvent::SessionAssigned(SessionAssigned { session_id, account_id }));
        Ok(())
    }

    fn set_terms(&mut self, asked: SetTerms) -> Result<(), DeclineReason> {
        let SetTerms { symbol, terms } = asked;
        let instrument = self.listed(symbol);
        let instrument_id = instrument.ok_or(DeclineReason::UnknownInstrument)?.instrument_id;
        // 40.3, 40.4
        let numbers = [terms.base_units, terms.quote_numerator, terms.quote_denominator];
        let mut allowed = terms.quantity_max.0 > 0 && terms.quantity_max.0 <= QUANTITY_LIMIT;
        if terms.class == MoneyClass::None {
            allowed &= numbers.iter().all(|number| *number == 0);
            allowed &= terms.base.0 == 0 && terms.quote.0 == 0;
        } else {
            self.money.known_asset(terms.base)?;
            self.money.known_asset(terms.quote)?;
            allowed &= numbers.iter().all(|number| *number > 0) && terms.base != terms.quote;
            // 40.5
            let lots = u128::from(terms.quantity_max.0);
            allowed &= numbers[..2].iter().all(|units| lots * u128::from(*units) < 1 << 92);
        }
        if !allowed {
            return Err(DeclineReason::InvalidTerms);
        }
        if self.orders.iter().any(|order| order.instrument_id == instrument_id) {
            return Err(DeclineReason::OrdersLive);
        }
        self.money.terms.insert(instrument_id, terms);
        self.report_money(MoneyEvent::TermsSet(TermsSet { instrument_id, terms }));
        Ok(())
    }

    /// Stops an account, or lets it continue. (45.1)
    fn stop_account(&mut self, asked: StopAccount) -> Result<(), DeclineReason> {
        self.money.known_owner(asked.account_id)?;
        self.report_money(MoneyEvent::AccountStopped(asked));
        if !asked.stopped {
            self.money.stopped.remove(&asked.account_id);
            return Ok(());
        }
        self.money.stopped.insert(asked.account_id);
        let scope = Scope { account_id: asked.account_id, ..Scope::ALL };
        self.cancel_meant(&Meant::of(scope), CancelReason::Supervisory);
        Ok(())
    }

    /// Adds an asset. (40.1)
    fn add_asset(&mut self, name: Text<8>, decimals: u8) -> Result<(), DeclineReason> {
        let count = self.money.assets.len() + 1;
        let balances = count * (self.money.accounts.len() + 1);
        may_add(name, &self.money.assets, balances)?;
        self.money.assets.push(name);
        let asset = Asset { asset_id: AssetId(count as u16), name, decimals };
        self.report_money(MoneyEvent::AssetAdded(asset));
        Ok(())
    }

    /// Adds an account. (40.1)
    fn add_account(&mut self, name: Text<8>) -> Result<(), DeclineReason> {
        let count = self.money.accounts.len() + 1;
        let balances = self.money.assets.len() * (count + 1);
        may_add(name, &self.money.accounts, balances)?;
        self.money.accounts.push(name);
        let added = AccountAdded { account_id: AccountId(count as u32), name };
        self.report_money(MoneyEvent::AccountAdded(added));
        Ok(())
    }

    /// Sets the fees of a tier. (46.2)
    fn set_fees(&mut self, asked: SetFees) -> Result<(), DeclineReason> {
        let mut after = self.money.fees.clone();
        after.insert(asked.tier, (asked.maker_ppm, asked.taker_ppm));
        let of = |tier: u8| after.get(&tier).copied().unwrap_or((0, 0));
        let mut allowed = asked.tier < 16 && asked.maker_ppm.abs_diff(0) <= 1_000_000;
        allowed &= asked.taker_ppm <= 1_000_000;
        for maker_tier in 0..16 {
            for taker_tier in 0..16 {
                let rebate = -i64::from(of(maker_tier).0);
                allowed &= rebate <= i64::from(of(taker_tier).1);
            }
        }
        if !allowed {
            return Err(DeclineReason::InvalidFees);
        }
        self.money.fees = after;
        self.report_money(MoneyEvent::FeesSet(asked));
        Ok(())
    }

    /// Sets a setting of an account. (44.6)
    fn set_account(&mut self, asked: SetAccount) -> Result<(), DeclineReason> {
        use AccountSetting::*;
        let SetAccount { account_id, setting, asset_id, value } = asked;
        self.money.known_owner(account_id)?;
        let of_asset = [OrderNotionalMax, PositionMax, ShortMax].contains(&setting);
        let highest = match setting {
            FeeTier => 15,
            OrderQuantityMax => u128::from(u64::MAX),
            _ if of_asset => LIMIT_MAX,
            _ => u128::from(u32::MAX),
        };
        if of_asset {
            self.money.known_asset(asset_id)?;
        }
        if !of_asset && asset_id != AssetId(0) || value.get() > highest {
            return Err(DeclineReason::InvalidValue);
        }
        self.money.settings.insert((account_id, setting, asset_id), value.get());
        if setting == OrdersPerSecondMax {
            self.money.asked.remove(&account_id);
        }
        self.report_money(MoneyEvent::AccountSet(asked));
        Ok(())
    }

    /// Moves an amount that belongs to no order. (41.1, 41.3)
    fn give(
        &mut self,
        kind: LedgerKind,
        asset_id: AssetId,
        ends: [(AccountId, Bucket); 2],
        amount: Units,
    ) -> Result<(), DeclineReason> {
        let [from, to] = ends;
        self.money.known(from.0)?;
        self.money.known(to.0)?;
        if from == to {
            return Err(DeclineReason::InvalidAmount);
        }
        self.money.known_asset(asset_id)?;
        if amount == Units::ZERO {
            return Err(DeclineReason::InvalidAmount);
        }
        let amount = i128::try_from(amount.get()).unwrap_or(i128::MAX);
        let there = self.money.amount(asset_id, from.0, from.1);
        if from.1 == Bucket::Outside {
            if amount > ISSUED_MAX + there {
                return Err(DeclineReason::TooMuch);
            }
        } else if amount > there {
            return Err(DeclineReason::InsufficientBalance);
        }
        self.post(kind, asset_id, ends, amount, OrderId(0), TradeId(0));
        Ok(())
    }

    /// Moves an amount, if it is not 0, and reports it. (41.2)
    pub(super) fn post(
        &mut self,
        kind: LedgerKind,
        asset_id: AssetId,
        ends: [(AccountId, Bucket); 2],
        amount: i128,
        order_id: OrderId,
        trade_id: TradeId,
    ) {
        if amount == 0 {
            return;
        }
        let money = &mut self.money;
        let [from, to] = ends;
        *money.amounts.entry((asset_id, from.0, from.1)).or_default() -= amount;
        *money.amounts.entry((asset_id, to.0, to.1)).or_default() += amount;
        let touched =
            ends.map(|(account_id, bucket)| (asset_id, account_id, bucket == Bucket::Outside));
        for balance in BTreeSet::from(touched) {
            *money.versions.entry(balance).or_default() += 1;
        }
        let [from, to] = [0, 1].map(|end| LedgerPlace {
            account_id: ends[end].0,
            bucket: ends[end].1,
            version: money.versions[&touched[end]],
        });
        let amount = Units::new(u128::try_from(amount).expect("amounts move forward"));
        let entry = LedgerEntry { kind, asset_id, amount, from, to, order_id, trade_id };
        self.events.push(Event::Ledger(entry));
    }
}

impl ModelMoney {
    /// The account that owns a session's orders; 0 if none.
    pub(super) fn owner(&self, session_id: SessionId) -> AccountId {
        self.owners.get(&session_id).copied().unwrap_or(AccountId(0))
    }

    /// The terms of an instrument whose trades are paid for.
    pub(super) fn paid(&self, instrument_id: InstrumentId) -> Option<MoneyTerms> {
        self.terms.get(&instrument_id).copied().filter(|terms| terms.class != MoneyClass::None)
    }

    pub(super) fn setting(
        &self,
        account_id: AccountId,
        setting: AccountSetting,
        asset_id: AssetId,
    ) -> u128 {
        self.settings.get(&(account_id, setting, asset_id)).copied().unwrap_or(0)
    }

    fn amount(&self, asset_id: AssetId, account_id: AccountId, bucket: Bucket) -> i128 {
        self.amounts.get(&(asset_id, account_id, bucket)).copied().unwrap_or(0)
    }

    pub(super) fn fees_of(&self, account_id: AccountId) -> (i32, u32) {
        let tier = self.setting(account_id, AccountSetting::FeeTier, AssetId(0)) as u8;
        self.fees.get(&tier).copied().unwrap_or((0, 0))
    }

    /// Does the account exist? The venue counts as one.
    pub(super) fn known(&self, account_id: AccountId) -> Result<(), DeclineReason> {
        if account_id.0 as usize > self.accounts.len() {
            return Err(DeclineReason::UnknownAccount);
        }
        Ok(())
    }

    /// Does the account exist, other than the venue's own?
    fn known_owner(&self, account_id: AccountId) -> Result<(), DeclineReason> {
        match account_id {
            AccountId(0) => Err(DeclineReason::UnknownAccount),
            account_id => self.known(account_id),
        }
    }

    fn known_asset(&self, asset_id: AssetId) -> Result<(), DeclineReason> {
        if asset_id.0 == 0 || usize::from(asset_id.0) > self.assets.len() {
            return Err(DeclineReason::UnknownAsset);
        }
        Ok(())
    }
}

/// May a name be added to `names` if there are then `balances` balances? (40.1)
fn may_add(name: Text<8>, names: &[Text<8>], balances: usize) -> Result<(), DeclineReason> {
    if name.is_blank() || names.contains(&name) {
        return Err(DeclineReason::InvalidName);
    }
    if names.len() == COUNT_MAX || balances > BALANCES_MAX {
        return Err(DeclineReason::TooMany);
    }
    Ok(())
}
