//! Money as snapshot records, each with its kind in front. Invariant: reserved amounts are not
//! written, because they follow from the orders.

use alloc::vec::Vec;

use market::{
    AccountId, AddAccount, AddAsset, AssetId, AssignSession, DecodeError, InstrumentId,
    MoneyCommand, Quantity, TradeId,
    bytes::{ByteReader, ByteWriter},
};

use super::{
    Money,
    account::{AssetLimits, TIER_COUNT},
    fees::Fees,
    hash,
    reserve::Claim,
    terms::NO_TERMS,
    undo::{Changed, Was},
};
use crate::{
    Engine,
    order::Order,
    state::snapshot::{Records, Section, StateError},
};

const ASSET: u8 = b'A';
const ACCOUNT: u8 = b'C';
const FEES: u8 = b'F';
const ASSIGNMENT: u8 = b'S';
const TERMS: u8 = b'T';
const LIMITS: u8 = b'L';
const BALANCE: u8 = b'B';
const UNDO: u8 = b'U';
const CHANGED: u8 = b'H';

// The kinds of changed settings.
const WAS_TERMS: u8 = b'T';
const WAS_OWNER: u8 = b'S';
const WAS_FEES: u8 = b'F';
const WAS_TIER: u8 = b'C';

/// One record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record {
    Asset(usize),
    Account(usize),
    Fees(usize),
    Assignment(usize),
    Terms(usize),
    /// Per account and asset.
    Limits(usize, usize),
    /// Per account and asset.
    Balance(usize, usize),
    Undo(TradeId),
    Changed(Changed),
}

impl Money {
    /// All records, in an order in which they can be read.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        records.extend((0..self.holdings.len()).map(Record::Asset));
        records.extend((1..self.accounts.len()).map(Record::Account));
        let fees = (0..TIER_COUNT).filter(|tier| self.fees[*tier] != Fees::default());
        records.extend(fees.map(Record::Fees));
        let assigned =
            (0..self.account_ids.len()).filter(|it| self.account_ids[*it] != AccountId::VENUE);
        records.extend(assigned.map(Record::Assignment));
        let terms = (0..self.terms.len()).filter(|index| self.terms[*index].0 != NO_TERMS);
        records.extend(terms.map(Record::Terms));
        for (asset, limits) in self.limits.iter().enumerate() {
            let set = (0..limits.len()).filter(|it| limits[*it] != AssetLimits::default());
            records.extend(set.map(|account| Record::Limits(asset, account)));
        }
        for (asset, holding) in self.holdings.iter().enumerate() {
            let balances = holding.balances();
            let touched = (0..balances.len()).filter(|it| balances[*it].version != 0);
            records.extend(touched.map(|account| Record::Balance(asset, account)));
        }
        records.extend(self.undo.since.map(Record::Undo));
        records.extend(self.undo.changed.iter().copied().map(Record::Changed));
        records
    }

    /// Writes one record.
    pub(crate) fn write(&self, out: &mut Records, record: Record) {
        match record {
            Record::Asset(index) => {
                let holding = &self.holdings[index];
                out.u8(ASSET);
                out.text(&holding.asset().name);
                out.u8(holding.asset().decimals);
                out.u64(holding.version());
            }
            Record::Account(index) => {
                out.u8(ACCOUNT);
                self.accounts[index].write(out);
            }
            Record::Fees(tier) => {
                out.u8(FEES);
                out.u8(tier as u8);
                out.i32(self.fees[tier].maker_ppm);
                out.u32(self.fees[tier].taker_ppm);
            }
            Record::Assignment(index) => {
                out.u8(ASSIGNMENT);
                out.u16(index as u16);
                out.u32(self.account_ids[index].0);
            }
            Record::Terms(index) => {
                out.u8(TERMS);
                out.u16(index as u16 + 1);
                out.money_terms(&self.terms[index].0);
            }
            Record::Limits(asset, account) => {
                let limits = &self.limits[asset][account];
                out.u8(LIMITS);
                out.u16(asset as u16 + 1);
                out.u32(account as u32);
                out.u128(limits.order_notional_max);
                out.u128(limits.position_max);
                out.u128(limits.short_max);
            }
            Record::Balance(asset, account) => {
                let balance = &self.holdings[asset].balances()[account];
                out.u8(BALANCE);
                out.u16(asset as u16 + 1);
                out.u32(account as u32);
                out.u128(balance.available.cast_unsigned());
                out.u64(balance.version);
            }
            Record::Undo(since) => {
                out.u8(UNDO);
                out.u64(since.0);
            }
            Record::Changed(Changed { until, was }) => {
                out.u8(CHANGED);
                out.u64(until.0);
                write_was(out, &was);
            }
        }
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
        let amount = terms.reservation(order.side, order.price(), order.leaves());
        let asset_id = terms.reserved_asset(order.side);
        let holding = &mut self.holdings[usize::from(asset_id.0) - 1];
        holding.restore_reserved(account_id, amount).ok_or(nobody)?;
        self.count_buying(&terms, &Claim::from(order), Quantity::ZERO, order.leaves());
        Ok(())
    }

    /// After the last record: sets the total of each asset to the sum of its balances.
    pub(crate) fn restore_issued(&mut self) -> Result<(), StateError> {
        let field = Section::Money.field("balance");
        self.holdings.iter_mut().try_for_each(|it| it.restore_issued().ok_or(field))
    }
}

impl Engine {
    /// Restores one record.
    pub(crate) fn restore_money(&mut self, from: &mut ByteReader<'_>) -> Result<(), DecodeError> {
        let kind = from.u8()?;
        match kind {
            ASSET => {
                let add = AddAsset { name: from.text("asset")?, decimals: from.u8()? };
                let version = from.u64()?;
                self.restore_by(MoneyCommand::AddAsset(add)).ok_or(DecodeError::Field("asset"))?;
                let holding = self.money.holdings.last_mut().expect("it was added");
                let before = hash::asset(holding.asset(), 0);
                holding.restore_version(version);
                self.hash.change(before, hash::asset(holding.asset(), version));
            }
            ACCOUNT => {
                let add = AddAccount { name: from.text("account")? };
                self.restore_by(MoneyCommand::AddAccount(add))
                    .ok_or(DecodeError::Field("account"))?;
                let account_id = AccountId(self.money.accounts.len() as u32 - 1);
                let account = self.money.accounts.last_mut().expect("it was added");
                account.read(from)?;
                self.money.note_account(account_id, &mut self.hash);
            }
            FEES => {
                let tier = from.u8()?;
                let fees = Fees { maker_ppm: from.i32()?, taker_ppm: from.u32()? };
                let mut all = self.money.fees;
                let known = all.get_mut(usize::from(tier));
                let place = known.filter(|_| fees.are_parts()).ok_or(DecodeError::Field("fees"))?;
                *place = fees;
                let before = self.money.replace_fees(all)[usize::from(tier)];
                let tier = usize::from(tier);
                self.hash.change(hash::fees(tier, &before), hash::fees(tier, &fees));
            }
            ASSIGNMENT => {
                let session_id = from.session_id()?;
                let assign = AssignSession { session_id, account_id: from.account_id()? };
                let command = MoneyCommand::AssignSession(assign);
                self.restore_by(command).ok_or(DecodeError::Field("account of a session"))?;
            }
            TERMS => {
                let instrument_id = InstrumentId(from.u16()?);
                let terms = from.money_terms()?;
                let book = self.book(instrument_id).ok_or(DecodeError::Field("instrument"))?;
                let instrument_id = book.instrument().instrument_id;
                let put = self.put_terms(instrument_id, terms, &mut |_| ());
                put.map_err(|_| DecodeError::Field("terms"))?;
            }
            LIMITS => {
                let (asset_id, account_id) = (from.asset_id()?, from.account_id()?);
                let limits = AssetLimits {
                    order_notional_max: from.u128()?,
                    position_max: from.u128()?,
                    short_max: from.u128()?,
                };
                self.restore_limits(asset_id, account_id, limits)
                    .ok_or(DecodeError::Field("limits"))?;
            }
            BALANCE => {
                let (asset_id, account_id) = (from.asset_id()?, from.account_id()?);
                let (available, version) = (from.u128()?.cast_signed(), from.u64()?);
                let index = usize::from(asset_id.0).checked_sub(1);
                let holding = index.and_then(|index| self.money.holdings.get_mut(index));
                let restored = holding.and_then(|holding| {
                    holding.restore_balance(account_id, available, version, &mut self.hash)
                });
                restored.ok_or(DecodeError::Field("balance"))?;
            }
            UNDO => {
                let since = TradeId(from.u64()?);
                if self.money.undo.since.is_some() || self.trade_id_last < since {
                    return Err(DecodeError::Field("undo"));
                }
                self.set_undo(since);
            }
            CHANGED => {
                let changed = Changed { until: TradeId(from.u64()?), was: read_was(from)? };
                self.restore_changed(changed).ok_or(DecodeError::Field("what was changed"))?;
            }
            _ => return Err(DecodeError::Field("kind")),
        }
        Ok(())
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
        let earlier =
            undo.changed.last().map(|it| it.until).max(undo.since.map(|it| TradeId(it.0 + 1)));
        let is_new =
            !undo.changed.iter().any(|it| it.until == changed.until && it.was.is_of(&changed.was));
        if !is_known || !is_new || changed.until < earlier? || self.trade_id_last < changed.until {
            return None;
        }
        undo.changed.push(changed);
        self.hash.add(hash::changed(&changed));
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
        self.money.has_asset_limits = true;
        let before = core::mem::replace(&mut of_asset[index], limits);
        self.hash.change(
            hash::asset_limits(asset_id, account_id, &before),
            hash::asset_limits(asset_id, account_id, &limits),
        );
        Some(())
    }
}

fn write_was(out: &mut Records, was: &Was) {
    match was {
        Was::Terms(instrument_id, terms) => {
            out.u8(WAS_TERMS);
            out.u16(instrument_id.0);
            out.money_terms(terms);
        }
        Was::Owner(session_id, account_id) => {
            out.u8(WAS_OWNER);
            out.u16(session_id.0);
            out.u32(account_id.0);
        }
        Was::Fees(tier, fees) => {
            out.u8(WAS_FEES);
            out.u8(*tier);
            out.i32(fees.maker_ppm);
            out.u32(fees.taker_ppm);
        }
        Was::Tier(account_id, tier) => {
            out.u8(WAS_TIER);
            out.u32(account_id.0);
            out.u8(*tier);
        }
    }
}

fn read_was(from: &mut ByteReader<'_>) -> Result<Was, DecodeError> {
    Ok(match from.u8()? {
        WAS_TERMS => Was::Terms(InstrumentId(from.u16()?), from.money_terms()?),
        WAS_OWNER => Was::Owner(from.session_id()?, from.account_id()?),
        WAS_FEES => {
            let tier = from.u8()?;
            let fees = Fees { maker_ppm: from.i32()?, taker_ppm: from.u32()? };
            Was::Fees(tier, fees)
        }
        WAS_TIER => Was::Tier(from.account_id()?, from.u8()?),
        _ => return Err(DecodeError::Field("what was changed")),
    })
}
