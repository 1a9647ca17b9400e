//! Money: whose orders are whose, what they cost, and who has what. The order of things is that of
//! an order's life: checked, reserved, settled with each trade, released when it needs no more.
//!
//! What an order holds is a function of its side, limit and open lots alone, so nothing of it is
//! kept beside the order, and whatever makes those lots fewer says by how much less it holds. A
//! market order has no limit: what it will pay is found by walking the book before it trades.
//!
//! Invariant: reserved is the sum of what the live orders hold; what a trade costs never exceeds
//! what the buyer's order held for those lots; sums of an asset change only by what comes in or
//! goes out.

mod order;
mod check;
mod reserve;
mod settle;
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

use market::{AccountId, AssetId, InstrumentId, SessionId, Side, Text, Timestamp};

use crate::{intake::name_index::NameIndex, state::hash::StateHash};
use account::{Account, AssetLimits, HotAccount, TIER_COUNT};
use balance::{Balance, Holding};
use fees::Fees;
use terms::Terms;
use undo::Undo;

pub(crate) use reserve::Claim;

/// All that is known of money.
#[derive(Debug)]
pub(crate) struct Money {
    /// True once there is an asset or an account; before, nothing here has anything to do.
    is_used: bool,
    /// True if a trade can cost anybody a fee.
    has_fees: bool,
    /// True once a limit of an asset was set for any account.
    has_asset_limits: bool,
    /// By account id; the first is the venue's own.
    accounts: Vec<Account>,
    /// By account id: of each what most orders ask, side by side.
    hot: Vec<HotAccount>,
    account_names: NameIndex,
    /// By asset id, less 1.
    holdings: Vec<Holding>,
    asset_names: NameIndex,
    /// By asset id, less 1, and account id; an asset for which none was ever set has none.
    limits: Vec<Vec<AssetLimits>>,
    /// By session id; sessions after the last have no account.
    account_ids: Vec<AccountId>,
    /// By instrument id, less 1; instruments after the last are not paid for.
    terms: Vec<Terms>,
    /// By tier.
    fees: [Fees; TIER_COUNT],
    /// By what trades that can be undone are reckoned.
    undo: Undo,
    /// What an incoming order to buy that has no limit holds; 0 between commands.
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
    /// False as long as there is neither an asset nor an account.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whose the orders of a session are; [`AccountId::VENUE`] is nobody's.
    #[inline]
    pub(crate) fn account_id(&self, session_id: SessionId) -> AccountId {
        self.account_ids.get(usize::from(session_id.0)).copied().unwrap_or(AccountId::VENUE)
    }

    /// The terms of an instrument; `None` where orders are not paid for.
    #[inline]
    pub(crate) fn terms(&self, instrument_id: InstrumentId) -> Option<&Terms> {
        self.terms.get(usize::from(instrument_id.0) - 1).filter(|terms| terms.is_paid())
    }

    /// Something of an account has changed that is not counted.
    pub(crate) fn note_account(&mut self, account_id: AccountId, hash: &mut StateHash) {
        let account = &mut self.accounts[account_id.0 as usize];
        account.rehash(account_id, hash);
        let hot = &mut self.hot[account_id.0 as usize];
        hot.fee_tier = account.fee_tier;
        hot.is_limited = account.is_limited();
    }

    /// An account asks for an order.
    #[inline]
    pub(crate) fn count_asked(
        &mut self,
        session_id: SessionId,
        timestamp: Timestamp,
        hash: &mut StateHash,
    ) {
        let account_id = self.account_id(session_id);
        if account_id == AccountId::VENUE {
            return;
        }
        let account = &mut self.accounts[account_id.0 as usize];
        if account.count(timestamp) {
            account.rehash(account_id, hash);
        }
    }

    /// An order of a session became live.
    #[inline]
    pub(crate) fn add_live(&mut self, session_id: SessionId) {
        let account_id = self.account_id(session_id);
        if account_id != AccountId::VENUE {
            self.add_live_of(account_id);
        }
    }

    /// An order of an account became live.
    #[inline(always)]
    pub(crate) fn add_live_of(&mut self, account_id: AccountId) {
        self.hot[account_id.0 as usize].live_orders += 1;
    }

    /// An order of a session is live no more.
    #[inline(always)]
    pub(crate) fn remove_live(&mut self, session_id: SessionId) {
        let account_id = self.account_id(session_id);
        if account_id != AccountId::VENUE {
            self.hot[account_id.0 as usize].live_orders -= 1;
        }
    }

    /// Has memory bring the balance with which an order of a session is paid for; see
    /// [`ahead`](mod@crate::intake::prefetch).
    #[inline]
    pub(crate) fn fetch(
        &self,
        session_id: SessionId,
        instrument_id: InstrumentId,
        side: Side,
        fetch: impl Fn(*const u8),
    ) {
        let Some(terms) = self.terms(instrument_id) else { return };
        let asset_id = terms.reserved_asset(side);
        let balance = self.balance(asset_id, self.account_id(session_id));
        fetch(core::ptr::from_ref(balance).cast());
    }

    /// What an account has of an asset.
    #[inline(always)]
    pub(crate) fn balance(&self, asset_id: AssetId, account_id: AccountId) -> &Balance {
        self.holdings[usize::from(asset_id.0) - 1].balance(account_id)
    }

    #[inline(always)]
    fn holding_mut(&mut self, asset_id: AssetId) -> &mut Holding {
        &mut self.holdings[usize::from(asset_id.0) - 1]
    }

    /// What an account may do with an asset.
    #[inline]
    pub(crate) fn limits(&self, asset_id: AssetId, account_id: AccountId) -> AssetLimits {
        let of_asset = &self.limits[usize::from(asset_id.0) - 1];
        of_asset.get(account_id.0 as usize).copied().unwrap_or_default()
    }
}
