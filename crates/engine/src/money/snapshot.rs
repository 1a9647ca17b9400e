//! Money as snapshot records, each with its kind in front. Invariant: reserved amounts are not
//! written, because they follow from the orders.

use market::{
    AccountId, AddAccount, AddAsset, Asset, AssetId, AssignSession, DecodeError, InstrumentId,
    MoneyCommand, MoneyTerms, Quantity, SessionId, TradeId, bytes::ByteReader, encoded, kinds,
};

use super::{
    Money,
    account::{Account, AssetLimits, TIER_COUNT},
    fees::Fees,
    reserve::Claim,
    terms::NO_TERMS,
    undo::{Changed, Was},
};
use crate::{
    Engine,
    order::Order,
    state::snapshot::{Section, StateError},
};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Record {
    /// An asset, with the version of its outside end.
    Asset(AddAsset, u64),
    Account(Account),
    /// The fees of a tier.
    Fees(u8, Fees),
    Assignment(AssignSession),
    Terms(InstrumentId, MoneyTerms),
    Limits(AssetId, AccountId, AssetLimits),
    /// Available, and the version.
    Balance(AssetId, AccountId, i128, u64),
    Changed(Changed),
}

kinds! {
    Record {
        b'A' => Asset(add, version),
        b'C' => Account(account),
        b'F' => Fees(tier, fees),
        b'S' => Assignment(assign),
        b'T' => Terms(instrument_id, terms),
        b'L' => Limits(asset_id, account_id, limits),
        b'B' => Balance(asset_id, account_id, available, version),
        b'H' => Changed(changed),
    }
    Was {
        b'T' => Terms(instrument_id, terms),
        b'S' => Owner(session_id, account_id),
        b'F' => Fees(tier, fees),
        b'C' => Tier(account_id, tier),
    }
}

encoded! {
    AssetLimits { order_notional_max, position_max, short_max }
    Changed { until, was }
    Fees { maker_ppm, taker_ppm }
}

impl Money {
    /// All records, in an order in which they can be read.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        let assets = self.holdings.iter().map(|holding| {
            let Asset { name, decimals, .. } = *holding.asset();
            Record::Asset(AddAsset { name, decimals }, holding.version())
        });
        let accounts = self.accounts[1..].iter().map(|account| Record::Account(*account));
        let fees = self.fees.iter().enumerate().filter(|(_, fees)| **fees != Fees::default());
        let assigned = self.account_ids.iter().enumerate();
        let assigned = assigned.filter(|(_, account_id)| **account_id != AccountId::VENUE);
        let terms = self.terms.iter().enumerate().filter(|(_, terms)| terms.0 != NO_TERMS);
        let limits = self.limits.iter().enumerate().flat_map(|(asset, limits)| {
            let set = limits.iter().enumerate().filter(|(_, it)| **it != AssetLimits::default());
            set.map(move |(account, limits)| {
                Record::Limits(asset_id(asset), AccountId(account as u32), *limits)
            })
        });
        let balances = self.holdings.iter().enumerate().flat_map(|(asset, holding)| {
            let balances = holding.balances().filter(|(_, balance)| balance.version != 0);
            balances.map(move |(account_id, balance)| {
                Record::Balance(asset_id(asset), account_id, balance.available, balance.version)
            })
        });
        assets
            .chain(accounts)
            .chain(fees.map(|(tier, fees)| Record::Fees(tier as u8, *fees)))
            .chain(assigned.map(|(session, account_id)| {
                let session_id = SessionId(session as u16);
                Record::Assignment(AssignSession { session_id, account_id: *account_id })
            }))
            .chain(
                terms.map(|(index, terms)| Record::Terms(InstrumentId(index as u16 + 1), terms.0)),
            )
            .chain(limits)
            .chain(balances)
            .chain(self.undo.changed.iter().copied().map(Record::Changed))
    }

    /// Reserves for a restored resting order.
    pub(crate) fn restore_order(&mut self, order: &Order) -> Result<(), DecodeError> {
        let session_id = order.key.session_id;
        self.add_live(session_id);
        let Some(&terms) = self.terms(order.instrument_id) else { return Ok(()) };
        let account_id = self.account_id(session_id);
        let nobody = DecodeError::Field("account");
        if account_id == AccountId::VENUE {
            return Err(nobody);
        }
        let amount = terms.reservation(order.side(), order.price(), order.leaves());
        let asset_id = terms.reserved_asset(order.side());
        let holding = &mut self.holdings[usize::from(asset_id.0) - 1];
        holding.restore_reserved(account_id, amount).ok_or(nobody)?;
        self.count_buying(&terms, &Claim::from(order), Quantity::ZERO, order.leaves());
        Ok(())
    }

    /// Restores the reservation of a half-matched order without a limit.
    pub(crate) fn restore_walk(&mut self, order: &Order, reserved: u128) -> Option<()> {
        if reserved == 0 {
            return Some(());
        }
        let claim = Claim::from(order);
        let &terms = self.terms(order.instrument_id).filter(|_| claim.is_market_buy())?;
        let account_id = self.account_id(claim.session_id);
        let holding = &mut self.holdings[usize::from(terms.0.quote.0) - 1];
        holding.restore_reserved(account_id, reserved)
    }

    /// After the last record: sets the total of each asset to the sum of its balances.
    pub(crate) fn restore_issued(&mut self) -> Result<(), StateError> {
        let field = Section::Money.field("balance");
        self.holdings.iter_mut().zip(&self.limits).try_for_each(|(holding, limits)| {
            let may_be_short = limits.iter().any(|limits| limits.short_max != 0);
            holding.restore_issued(may_be_short).ok_or(field)
        })
    }
}

impl Engine {
    /// Restores one record.
    pub(crate) fn restore_money(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let done = match from.read("kind")? {
            Record::Asset(add, version) => {
                self.restore_by(MoneyCommand::AddAsset(add)).ok_or(DecodeError::Field("asset"))?;
                let holding = self.money.holdings.last_mut().expect("it was added");
                holding.restore_version(version);
                return Ok(());
            }
            Record::Account(account) => self.restore_account(account).ok_or("account"),
            Record::Fees(tier, fees) => self.restore_fees(tier, fees).ok_or("fees"),
            Record::Assignment(assign) => {
                self.restore_by(MoneyCommand::AssignSession(assign)).ok_or("account of a session")
            }
            Record::Terms(instrument_id, terms) => {
                self.book(instrument_id).ok_or(DecodeError::Field("instrument"))?;
                self.put_terms(instrument_id, terms, &mut |_| ()).map_err(|_| "terms")
            }
            Record::Limits(asset_id, account_id, limits) => {
                self.restore_limits(asset_id, account_id, limits).ok_or("limits")
            }
            Record::Balance(asset_id, account_id, available, version) => {
                let index = usize::from(asset_id.0).checked_sub(1);
                let holding = index.and_then(|index| self.money.holdings.get_mut(index));
                let restored = holding
                    .and_then(|holding| holding.restore_balance(account_id, available, version));
                restored.ok_or("balance")
            }
            Record::Changed(changed) => self.restore_changed(changed).ok_or("what was changed"),
        };
        done.map_err(DecodeError::Field)
    }

    fn restore_account(&mut self, account: Account) -> Option<()> {
        if TIER_COUNT <= usize::from(account.fee_tier) {
            return None;
        }
        self.restore_by(MoneyCommand::AddAccount(AddAccount { name: account.name }))?;
        let account_id = AccountId(self.money.accounts.len() as u32 - 1);
        *self.money.accounts.last_mut()? = account;
        self.money.note_account(account_id);
        Some(())
    }

    fn restore_fees(&mut self, tier: u8, fees: Fees) -> Option<()> {
        let mut all = self.money.fees;
        let tier = usize::from(tier);
        *all.get_mut(tier).filter(|_| fees.are_parts())? = fees;
        self.money.replace_fees(all);
        Some(())
    }

    /// Carries out the command of a record; `None` if it is declined.
    fn restore_by(&mut self, command: MoneyCommand) -> Option<()> {
        let mut done = true;
        self.money(&command, &mut |event| {
            done &= !matches!(event, market::Event::Money(market::MoneyEvent::Declined(_)));
        });
        done.then_some(())
    }

    /// Restores a changed setting; `None` if it is invalid.
    fn restore_changed(&mut self, changed: Changed) -> Option<()> {
        let is_known = match &changed.was {
            Was::Terms(instrument_id, terms) => {
                self.book(*instrument_id).is_some() && self.money.check_terms(terms).is_ok()
            }
            Was::Owner(session_id, account_id) => {
                self.sessions.get(*session_id).is_some()
                    && self.money.find_account(*account_id).is_ok()
            }
            Was::Fees(tier, fees) => usize::from(*tier) < TIER_COUNT && fees.are_parts(),
            Was::Tier(account_id, tier) => {
                usize::from(*tier) < TIER_COUNT && self.money.find_account(*account_id).is_ok()
            }
        };
        let undo = &mut self.money.undo;
        let earlier = undo.changed.last().map_or(TradeId(1), |it| it.until);
        let is_new =
            !undo.changed.iter().any(|it| it.until == changed.until && it.was.is_of(&changed.was));
        if !is_known || !is_new || changed.until < earlier || self.trade_id_last < changed.until {
            return None;
        }
        undo.changed.push(changed);
        Some(())
    }

    fn restore_limits(
        &mut self,
        asset_id: AssetId,
        account_id: AccountId,
        limits: AssetLimits,
    ) -> Option<()> {
        let of_asset = self.money.limits.get_mut(usize::from(asset_id.0).checked_sub(1)?)?;
        let index = account_id.0 as usize;
        if index == 0 || self.money.accounts.len() <= index || !limits.are_allowed() {
            return None;
        }
        if of_asset.len() <= index {
            of_asset.resize(index + 1, AssetLimits::default());
        }
        of_asset[index] = limits;
        self.money.has_asset_limits |= limits != AssetLimits::default();
        Some(())
    }
}

fn asset_id(index: usize) -> AssetId {
    AssetId(index as u16 + 1)
}
