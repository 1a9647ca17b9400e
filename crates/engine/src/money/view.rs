//! What can be seen of money from outside.

use market::{AccountId, Asset, AssetId, InstrumentId, MoneyClass, MoneyTerms, SessionId, Text};

use super::account::{Account, AssetLimits, HotAccount};
use crate::{Engine, RestingOrder};

/// What may be asked of an account. Limits of 0 are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountState {
    /// Its number; 0 is the venue itself.
    pub account_id: AccountId,
    /// Its printed name; the venue's is blank.
    pub name: Text<8>,
    /// Which fees it pays.
    pub fee_tier: u8,
    /// True if the kill switch stopped it.
    pub stopped: bool,
    /// How many live orders it has.
    pub live_orders: u32,
    /// How many live orders it may have.
    pub live_orders_max: u32,
    /// The largest quantity of its orders, in lots.
    pub order_quantity_max: u32,
    /// How many orders it may ask for in a second.
    pub orders_per_second_max: u32,
    /// How far through the best price its limits may be, in parts per million.
    pub price_away_max: u32,
}

/// What an account has of an asset, and what it may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountBalance {
    /// Whose.
    pub account_id: AccountId,
    /// Of what.
    pub asset_id: AssetId,
    /// Free; below 0 only of what was sold short.
    pub available: i128,
    /// Held for live orders.
    pub reserved: u128,
    /// How many movements have touched it.
    pub version: u64,
    /// The most that one order may cost; 0 is no limit.
    pub order_notional_max: u128,
    /// The most that may be held and about to be bought; 0 is no limit.
    pub position_max: u128,
    /// How much may be sold short.
    pub short_max: u128,
}

impl Engine {
    /// All assets, by number.
    pub fn assets(&self) -> impl ExactSizeIterator<Item = &Asset> {
        self.money.holdings.iter().map(|holding| holding.asset())
    }

    /// The asset of a printed name.
    #[must_use]
    pub fn asset(&self, name: &Text<8>) -> Option<&Asset> {
        let number = self.money.asset_names.find(name)?;
        Some(self.money.holdings[usize::from(number) - 1].asset())
    }

    /// How much there is of an asset: what came in and has not gone out.
    #[must_use]
    pub fn issued(&self, asset_id: AssetId) -> Option<u128> {
        let index = usize::from(asset_id.0).checked_sub(1)?;
        self.money.holdings.get(index).map(|holding| holding.issued())
    }

    /// All accounts, by number; the first is the venue's own.
    pub fn accounts(&self) -> impl ExactSizeIterator<Item = AccountState> {
        let all = self.money.accounts.iter().zip(&self.money.hot).enumerate();
        all.map(|(index, (account, hot))| state(index, account, hot))
    }

    /// An account.
    #[must_use]
    pub fn account(&self, account_id: AccountId) -> Option<AccountState> {
        let index = account_id.0 as usize;
        let account = self.money.accounts.get(index)?;
        Some(state(index, account, &self.money.hot[index]))
    }

    /// The account of a printed name.
    #[must_use]
    pub fn account_named(&self, name: &Text<8>) -> Option<AccountState> {
        self.account(AccountId(u32::from(self.money.account_names.find(name)?)))
    }

    /// Whose the orders of a session are; `None` is nobody's.
    #[must_use]
    pub fn account_of(&self, session_id: SessionId) -> Option<AccountId> {
        Some(self.money.account_id(session_id)).filter(|it| *it != AccountId::VENUE)
    }

    /// What an account has of an asset; `None` if there is no such account or asset.
    #[must_use]
    pub fn balance(&self, account_id: AccountId, asset_id: AssetId) -> Option<AccountBalance> {
        let holding = self.money.holdings.get(usize::from(asset_id.0).checked_sub(1)?)?;
        let balance = holding.balances().get(account_id.0 as usize)?;
        let AssetLimits { order_notional_max, position_max, short_max } =
            self.money.limits(asset_id, account_id);
        Some(AccountBalance {
            account_id,
            asset_id,
            available: balance.available,
            reserved: balance.reserved,
            version: balance.version,
            order_notional_max,
            position_max,
            short_max,
        })
    }

    /// What an account has of each asset, by asset.
    pub fn balances(&self, account_id: AccountId) -> impl Iterator<Item = AccountBalance> {
        self.assets().filter_map(move |asset| self.balance(account_id, asset.asset_id))
    }

    /// The resting orders of an account, by session, channel and number.
    pub fn orders_of(&self, account_id: AccountId) -> impl Iterator<Item = RestingOrder> {
        let sessions = self.sessions.iter();
        let owned = sessions.filter(move |it| self.account_of(it.session_id()) == Some(account_id));
        owned.flat_map(|session| {
            let mut keys: alloc::vec::Vec<_> = session.iter_live().map(|(key, _)| key).collect();
            keys.sort_unstable();
            keys.into_iter().filter_map(|key| self.order(key))
        })
    }

    /// What trades cost: parts per million of what is received, of the resting and of the incoming
    /// order, by tier.
    #[must_use]
    pub fn fees(&self) -> [(i32, u32); 16] {
        self.money.fees.map(|fees| (fees.maker_ppm, fees.taker_ppm))
    }

    /// True once trades that are paid for can be undone, those since then.
    #[must_use]
    pub fn undo_allowed(&self) -> bool {
        self.money.undo.since.is_some()
    }

    /// What orders in an instrument cost; `None` where they are not paid for.
    #[must_use]
    pub fn money_terms(&self, instrument_id: InstrumentId) -> Option<MoneyTerms> {
        let index = usize::from(instrument_id.0).checked_sub(1)?;
        let terms = self.money.terms.get(index)?.0;
        (terms.class != MoneyClass::None).then_some(terms)
    }
}

fn state(index: usize, account: &Account, hot: &HotAccount) -> AccountState {
    AccountState {
        account_id: AccountId(index as u32),
        name: account.name,
        fee_tier: account.fee_tier,
        stopped: account.stopped,
        live_orders: hot.live_orders,
        live_orders_max: account.live_orders_max,
        order_quantity_max: account.order_quantity_max,
        orders_per_second_max: account.orders_per_second_max,
        price_away_max: account.price_away_max,
    }
}
