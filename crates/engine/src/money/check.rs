//! Money checks before an order is accepted: the limits of its account, and its balance.
//!
//! Invariant: a check changes nothing.

use market::{AccountId, AssetId, InstrumentId, Price, Quantity, RejectReason, SessionId, Side};

use super::{Money, account::AssetLimits, terms::Terms};
use crate::order::Order;

/// An order to check.
pub(crate) struct Asked<'a> {
    pub(crate) session_id: SessionId,
    pub(crate) instrument_id: InstrumentId,
    pub(crate) side: Side,
    /// Limit; `None` is any price.
    pub(crate) limit: Option<Price>,
    /// Its open lots, if accepted.
    pub(crate) leaves: Quantity,
    /// The order that it replaces, whose reservation it takes over.
    pub(crate) original: Option<&'a Order>,
}

impl Money {
    /// Checks an order of a session. `best` returns the best displayed price of the other side;
    /// `walk` returns the cost of an order without a limit.
    #[inline]
    pub(crate) fn check(
        &self,
        asked: &Asked<'_>,
        best: impl FnOnce() -> Option<Price>,
        walk: impl FnOnce(&Terms) -> u128,
    ) -> Result<(), RejectReason> {
        let account_id = self.account_id(asked.session_id);
        let terms = self.terms(asked.instrument_id);
        if account_id == AccountId::VENUE {
            return if terms.is_some() { Err(RejectReason::NoAccount) } else { Ok(()) };
        }
        self.check_account(account_id, terms, asked, best, walk)
    }

    /// Checks an order of an account, in the order of precedence of the rules.
    fn check_account(
        &self,
        account_id: AccountId,
        terms: Option<&Terms>,
        asked: &Asked<'_>,
        best: impl FnOnce() -> Option<Price>,
        walk: impl FnOnce(&Terms) -> u128,
    ) -> Result<(), RejectReason> {
        let account = &self.accounts[account_id.0 as usize];
        let hot = &self.hot[account_id.0 as usize];
        // Most accounts have no limits, and most orders are not short sales.
        if let (Some(terms), Some(limit)) = (terms, asked.limit)
            && !self.has_asset_limits
            && !hot.is_limited
            && matches!(asked.side, Side::Buy | Side::Sell)
        {
            let asset_id = terms.reserved_asset(asked.side);
            let needed = terms.reservation(asked.side, limit, asked.leaves);
            return self.check_available(asset_id, account_id, needed, freed(terms, asked));
        }
        let limits = terms.map_or(AssetLimits::default(), |it| self.limits(it.0.base, account_id));
        // A sell order has no cost; its proceeds may still be limited.
        let cost = terms.map_or(0, |terms| match asked.limit {
            Some(limit) => terms.0.quote_amount(limit, asked.leaves),
            None => walk(terms),
        });

        if let Some(terms) = terms
            && matches!(asked.side, Side::SellShort | Side::SellShortExempt)
            && !(terms.is_position() && limits.short_max != 0)
        {
            return Err(RejectReason::ShortSaleNotAllowed);
        }
        if account.price_away_max != 0
            && let (Some(limit), Some(best)) = (asked.limit, best())
            && is_too_far(asked.side, limit, best, account.price_away_max)
        {
            return Err(RejectReason::PriceTooFar);
        }
        if account.order_quantity_max != 0 && account.order_quantity_max < asked.leaves.0 {
            return Err(RejectReason::OrderQuantityLimit);
        }
        if let Some(terms) = terms {
            let notional_max = self.limits(terms.0.quote, account_id).order_notional_max;
            if notional_max != 0 && notional_max < cost {
                return Err(RejectReason::OrderNotionalLimit);
            }
        }
        if account.live_orders_max != 0
            && account.live_orders_max <= hot.live_orders
            && asked.original.is_none()
        {
            return Err(RejectReason::TooManyOrders);
        }
        account.check_rate()?;
        if let Some(terms) = terms {
            self.check_balance(asked, terms, account_id, cost, &limits)?;
        }
        if account.stopped {
            return Err(RejectReason::AccountStopped);
        }
        Ok(())
    }

    /// Checks that the account has the cost or the delivery available, and may hold the amount that it
    /// would receive.
    fn check_balance(
        &self,
        asked: &Asked<'_>,
        terms: &Terms,
        account_id: AccountId,
        cost: u128,
        limits: &AssetLimits,
    ) -> Result<(), RejectReason> {
        let freed = freed(terms, asked);
        let base_amount = terms.0.base_amount(asked.leaves);
        let base = &self.holdings[usize::from(terms.0.base.0) - 1];
        if asked.side.is_buy() {
            if terms.is_position() && limits.position_max != 0 {
                let freed = asked.original.map_or(0, |order| terms.0.base_amount(order.leaves()));
                let buying = base.buying(account_id) - freed + base_amount;
                let position = base.position(account_id);
                if limits.position_max.cast_signed() < position + buying.cast_signed() {
                    return Err(RejectReason::PositionLimit);
                }
            }
            return self.check_available(terms.0.quote, account_id, cost, freed);
        }
        if asked.side == Side::Sell {
            return self.check_available(terms.0.base, account_id, base_amount, freed);
        }
        let left = base.available(account_id) + freed.cast_signed() - base_amount.cast_signed();
        if left < -limits.short_max.cast_signed() {
            return Err(RejectReason::PositionLimit);
        }
        Ok(())
    }

    /// True if the account has this much available, counting the units that would be freed.
    #[inline]
    fn check_available(
        &self,
        asset_id: AssetId,
        account_id: AccountId,
        needed: u128,
        freed: u128,
    ) -> Result<(), RejectReason> {
        let available = self.available(asset_id, account_id);
        if available + freed.cast_signed() < needed.cast_signed() {
            return Err(RejectReason::InsufficientBalance);
        }
        Ok(())
    }

    /// True if the account allows a live sell order to become one of this side.
    pub(crate) fn may_become(&self, order: &Order, side: Side) -> bool {
        let Some(terms) = self.terms(order.instrument_id) else { return true };
        let account_id = self.account_id(order.key.session_id);
        match side {
            Side::Buy => true,
            Side::Sell => 0 <= self.available(terms.0.base, account_id),
            Side::SellShort | Side::SellShortExempt => {
                terms.is_position() && self.limits(terms.0.base, account_id).short_max != 0
            }
        }
    }

    /// True if the account can pay for the order at another price.
    pub(crate) fn may_follow(&self, order: &Order, price: Price) -> bool {
        let Some(terms) = self.terms(order.instrument_id) else { return true };
        let held = |price| terms.reservation(order.side(), price, order.leaves());
        let account_id = self.account_id(order.key.session_id);
        let available = self.available(terms.reserved_asset(order.side()), account_id);
        // The available balance of an asset sold short is below 0; then nothing is needed.
        held(price) <= held(order.price())
            || (held(price) - held(order.price())).cast_signed() <= available
    }
}

/// The reservation of the replaced order, in units.
#[inline]
fn freed(terms: &Terms, asked: &Asked<'_>) -> u128 {
    asked.original.map_or(0, |order| terms.reservation(order.side(), order.price(), order.leaves()))
}

/// True if a limit is further through the best price of the other side than this many ppm of it.
fn is_too_far(side: Side, limit: Price, best: Price, away_max: u32) -> bool {
    let through =
        if side.is_buy() { limit.0.saturating_sub(best.0) } else { best.0.saturating_sub(limit.0) };
    u128::from(best.0) * u128::from(away_max) < u128::from(through) * 1_000_000
}
