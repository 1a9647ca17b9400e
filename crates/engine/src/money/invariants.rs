//! The invariants of money, checked by a walk over all of it: for tests and the simulator.

use alloc::{collections::BTreeMap, vec};

use market::{AccountId, AssetId, InstrumentId, SessionId};

use super::{Money, hash};
use crate::{order::Order, state::hash::StateHash};

impl Money {
    /// Checks that reservations, possible purchases and counts equal those of the given live orders, and
    /// that asset sums equal those of the balances. Each order comes with its reservation as an order
    /// without a limit.
    pub(crate) fn check_orders<'a>(&self, orders: impl Iterator<Item = (&'a Order, u128)>) {
        let mut live = vec![0; self.accounts.len()];
        let mut held: BTreeMap<(AssetId, AccountId), (u128, u128)> = BTreeMap::new();
        for (order, without_limit) in orders {
            let account_id = self.account_id(order.key.session_id);
            live[account_id.0 as usize] += 1;
            let Some(terms) = self.terms(order.instrument_id) else { continue };
            assert!(account_id != AccountId::VENUE, "{order:?} is somebody's");
            let asset_id = terms.reserved_asset(order.side());
            let amount = terms.reservation(order.side(), order.price(), order.leaves());
            held.entry((asset_id, account_id)).or_default().0 += amount + without_limit;
            if terms.is_position() && order.side().is_buy() {
                let amount = terms.0.base_amount(order.leaves());
                held.entry((terms.0.base, account_id)).or_default().1 += amount;
            }
        }
        assert_eq!(self.accounts.len(), self.hot.len());
        for ((account, hot), live) in self.accounts.iter().zip(&self.hot).zip(live).skip(1) {
            assert_eq!(hot.live_orders, live, "{account:?}");
            let kept = (hot.fee_tier, hot.is_limited);
            assert_eq!(kept, (account.fee_tier, account.is_limited()), "{account:?}");
        }
        for holding in &self.holdings {
            holding.check();
            let asset_id = holding.asset().asset_id;
            for (account_id, balance) in holding.balances() {
                let key = (asset_id, account_id);
                let (reserved, buying) = held.get(&key).copied().unwrap_or_default();
                let kept = (balance.reserved.unsigned_abs(), holding.buying(account_id));
                assert_eq!(kept, (reserved, buying), "{key:?}");
                assert!(0 <= balance.available || self.may_be_short(asset_id), "{balance:?}");
            }
        }
        assert_eq!(self.market_reserved, 0);
        assert_eq!(self.has_asset_limits, self.any_asset_limits());
        self.undo.check();
    }

    /// True if an asset may have been sold short: only if limits were set for it.
    fn may_be_short(&self, asset_id: AssetId) -> bool {
        !self.limits[usize::from(asset_id.0) - 1].is_empty()
    }

    /// Adds all elements of money to the state hash.
    pub(crate) fn add_hashes(&self, sum: &mut StateHash) {
        for (account, number) in self.accounts.iter().zip(0..).skip(1) {
            sum.add(account.element(AccountId(number)));
        }
        for (account_id, number) in self.account_ids.iter().zip(0..) {
            sum.add(hash::assignment(SessionId(number), *account_id));
        }
        for (terms, number) in self.terms.iter().zip(1..) {
            sum.add(hash::terms(InstrumentId(number), &terms.0));
        }
        for (tier, fees) in self.fees.iter().enumerate() {
            sum.add(hash::fees(tier, fees));
        }
        for changed in &self.undo.changed {
            sum.add(hash::changed(changed));
        }
        for (holding, limits) in self.holdings.iter().zip(&self.limits) {
            sum.add(hash::asset(holding.asset(), holding.version()));
            holding.add_hashes(sum);
            for (limits, number) in limits.iter().zip(0..) {
                let asset_id = holding.asset().asset_id;
                sum.add(hash::asset_limits(asset_id, AccountId(number), limits));
            }
        }
    }
}
