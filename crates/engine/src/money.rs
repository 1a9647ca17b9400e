//! Money: accounts, payment terms and balances. The steps follow an order's life: check, reserve,
//! settle with each trade, release the rest.
//!
//! The reservation of an order is a function of its side, limit and open lots, so it is not stored. Each
//! change of the open lots releases the difference. A market order has no limit: a walk over the book
//! finds its cost before it trades.
//!
//! Invariant: the reserved amount is the sum of the reservations of live orders; the cost of a trade
//! never exceeds the reservation of the buyer's order for its lots; the sum of an asset changes only by
//! deposits and withdrawals.

mod order;
mod check;
mod reserve;
mod settle;
mod amounts;
pub(crate) mod fees;
pub(crate) mod terms;
pub(crate) mod balance;
pub(crate) mod account;
pub(crate) mod command;
pub(crate) mod undo;
pub(crate) mod view;
mod hash;
mod snapshot;
mod invariants;

use alloc::vec::Vec;

use market::{AccountId, AssetId, InstrumentId, SessionId, Text, Timestamp};

use crate::intake::name_index::NameIndex;
use account::{Account, AssetLimits, HotAccount, TIER_COUNT};
use balance::Holding;
use fees::Fees;
use terms::Terms;
use undo::Undo;

pub(crate) use reserve::Claim;

/// Accounts, assets, terms, fees and balances.
#[derive(Debug)]
pub(crate) struct Money {
    /// True once there is an asset or an account; before that, money is off.
    is_used: bool,
    /// True if a trade can have a fee.
    has_fees: bool,
    /// True while an account has a limit of an asset.
    has_asset_limits: bool,
    /// By account id; index 0 is the venue's own account.
    accounts: Vec<Account>,
    /// By account id: the fields that most orders read, packed.
    hot: Vec<HotAccount>,
    account_names: NameIndex,
    /// By asset id, less 1.
    holdings: Vec<Holding>,
    asset_names: NameIndex,
    /// By asset id less 1, then account id; empty for an asset without any limit.
    limits: Vec<Vec<AssetLimits>>,
    /// The account of each session, by session id; later sessions have none.
    account_ids: Vec<AccountId>,
    /// By instrument id less 1; later instruments are not paid for.
    terms: Vec<Terms>,
    /// By fee tier.
    fees: [Fees; TIER_COUNT],
    /// The records to undo trades.
    undo: Undo,
    /// The amount that the incoming market order to buy holds, in units; 0 between commands.
    market_reserved: u128,
}

impl Default for Money {
    fn default() -> Self {
        Self {
            is_used: false,
            has_fees: false,
            has_asset_limits: false,
            accounts: alloc::vec![Account::new(Text::BLANK)],
            hot: alloc::vec![HotAccount::default()],
            account_names: NameIndex::default(),
            holdings: Vec::new(),
            asset_names: NameIndex::default(),
            limits: Vec::new(),
            account_ids: Vec::new(),
            terms: Vec::new(),
            fees: [Fees::default(); TIER_COUNT],
            undo: Undo::default(),
            market_reserved: 0,
        }
    }
}

impl Money {
    /// False while there is neither an asset nor an account.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// The account of a session; [`AccountId::VENUE`] is none.
    #[inline]
    pub(crate) fn account_id(&self, session_id: SessionId) -> AccountId {
        self.account_ids.get(usize::from(session_id.0)).copied().unwrap_or(AccountId::VENUE)
    }

    /// The terms of an instrument; `None` where orders are not paid for.
    #[inline]
    pub(crate) fn terms(&self, instrument_id: InstrumentId) -> Option<&Terms> {
        self.terms.get(usize::from(instrument_id.0) - 1).filter(|terms| terms.is_paid())
    }

    /// True if an account has a limit of an asset; reads the limits of all accounts.
    pub(crate) fn any_asset_limits(&self) -> bool {
        self.limits.iter().flatten().any(|limits| *limits != AssetLimits::default())
    }

    /// Copies the fields of an account that most orders read, after a change.
    pub(crate) fn note_account(&mut self, account_id: AccountId) {
        let account = &mut self.accounts[account_id.0 as usize];
        let hot = &mut self.hot[account_id.0 as usize];
        hot.fee_tier = account.fee_tier;
        hot.is_limited = account.is_limited();
    }

    /// Counts an order of an account against its rate.
    #[inline]
    pub(crate) fn count_asked(&mut self, session_id: SessionId, timestamp: Timestamp) {
        let account_id = self.account_id(session_id);
        if account_id == AccountId::VENUE {
            return;
        }
        self.accounts[account_id.0 as usize].count(timestamp);
    }

    /// Counts a new live order of a session.
    #[inline]
    pub(crate) fn add_live(&mut self, session_id: SessionId) {
        let account_id = self.account_id(session_id);
        if account_id != AccountId::VENUE {
            self.add_live_of(account_id);
        }
    }

    /// Counts a new live order of an account.
    #[inline(always)]
    pub(crate) fn add_live_of(&mut self, account_id: AccountId) {
        self.hot[account_id.0 as usize].live_orders += 1;
    }

    /// Counts a live order of a session that is done.
    #[inline(always)]
    pub(crate) fn remove_live(&mut self, session_id: SessionId) {
        let account_id = self.account_id(session_id);
        if account_id != AccountId::VENUE {
            self.hot[account_id.0 as usize].live_orders -= 1;
        }
    }

    /// The available units of an account in an asset.
    #[inline(always)]
    pub(crate) fn available(&self, asset_id: AssetId, account_id: AccountId) -> i128 {
        self.holdings[usize::from(asset_id.0) - 1].available(account_id)
    }

    #[inline(always)]
    fn holding_mut(&mut self, asset_id: AssetId) -> &mut Holding {
        &mut self.holdings[usize::from(asset_id.0) - 1]
    }

    #[inline]
    pub(crate) fn limits(&self, asset_id: AssetId, account_id: AccountId) -> AssetLimits {
        let of_asset = &self.limits[usize::from(asset_id.0) - 1];
        of_asset.get(account_id.0 as usize).copied().unwrap_or_default()
    }
}
