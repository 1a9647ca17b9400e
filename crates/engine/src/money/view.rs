//! A read-only view of money, for callers outside the engine.

use market::{
    AccountId, Asset, AssetId, InstrumentId, MoneyClass, MoneyTerms, Quantity, SessionId, Text,
};

use super::account::{Account, AssetLimits, HotAccount};
use crate::{Engine, RestingOrder};

/// Limits and state of an account. Limits of 0 are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountState {
    /// Its number; 0 is the venue itself.
    pub account_id: AccountId,
    /// Its printed name; the venue's is blank.
    pub name: Text<8>,
    /// Its fee tier.
    pub fee_tier: u8,
    /// True if the kill switch stopped it.
    pub stopped: bool,
    /// Number of live orders.
    pub live_orders: u32,
    /// Maximum number of live orders.
    pub live_orders_max: u32,
    /// Largest quantity of an order, in lots.
    pub order_quantity_max: u64,
    /// Maximum number of orders in a second.
    pub orders_per_second_max: u32,
    /// The furthest that a limit may be through the best price, in ppm.
    pub price_away_max: u32,
}

/// Balance and limits of an account in an asset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountBalance {
    /// The account.
    pub account_id: AccountId,
    /// The asset.
    pub asset_id: AssetId,
    /// Available units; below 0 only for an asset sold short.
    pub available: i128,
    /// Reserved for live orders, in units.
    pub reserved: u128,
    /// Version: the number of movements of this balance.
    pub version: u64,
    /// Largest notional of an order, in units; 0 is no limit.
    pub order_notional_max: u128,
    /// Largest position, open buy orders included, in units; 0 is no limit.
    pub position_max: u128,
    /// Largest short position, in units.
    pub short_max: u128,
}

impl Engine {
    /// All assets, by number.
    pub fn assets(&self) -> impl ExactSizeIterator<Item = &Asset> {
        self.money.holdings.iter().map(|holding| holding.asset())
    }

    /// The asset with this name.
    #[must_use]
    pub fn asset(&self, name: &Text<8>) -> Option<&Asset> {
        let number = self.money.asset_names.find(name)?;
        Some(self.money.holdings[usize::from(number) - 1].asset())
    }

    /// Units of an asset in the venue: deposits less withdrawals.
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

    /// The account with this name.
    #[must_use]
    pub fn account_named(&self, name: &Text<8>) -> Option<AccountState> {
        self.account(AccountId(u32::from(self.money.account_names.find(name)?)))
    }

    /// The account of a session; `None` if it has none.
    #[must_use]
    pub fn account_of(&self, session_id: SessionId) -> Option<AccountId> {
        Some(self.money.account_id(session_id)).filter(|it| *it != AccountId::VENUE)
    }

    /// The balance of an account in an asset; `None` if there is no such account or asset.
    #[must_use]
    pub fn balance(&self, account_id: AccountId, asset_id: AssetId) -> Option<AccountBalance> {
        let holding = self.money.holdings.get(usize::from(asset_id.0).checked_sub(1)?)?;
        let balance = holding.balance(account_id)?;
        let AssetLimits { order_notional_max, position_max, short_max } =
            self.money.limits(asset_id, account_id);
        Some(AccountBalance {
            account_id,
            asset_id,
            available: balance.available,
            reserved: balance.reserved.unsigned_abs(),
            version: balance.version,
            order_notional_max,
            position_max,
            short_max,
        })
    }

    /// The balances of an account, by asset.
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

    /// The maker and the taker fee of each tier, in ppm of the amount that the party receives.
    #[must_use]
    pub fn fees(&self) -> [(i32, u32); 16] {
        self.money.fees.map(|fees| (fees.maker_ppm, fees.taker_ppm))
    }

    /// The payment terms of an instrument; `None` if it is not paid for.
    #[must_use]
    pub fn money_terms(&self, instrument_id: InstrumentId) -> Option<MoneyTerms> {
        let index = usize::from(instrument_id.0).checked_sub(1)?;
        let terms = self.money.terms.get(index)?.0;
        (terms.class != MoneyClass::None).then_some(terms)
    }

    /// The largest quantity of an order of an instrument, paid for or not.
    #[must_use]
    pub fn order_quantity_max(&self, instrument_id: InstrumentId) -> Option<Quantity> {
        Some(self.books.get(instrument_id)?.quantity_max())
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
