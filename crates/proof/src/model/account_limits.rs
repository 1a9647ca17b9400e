//! The limits of an account on its orders: sections 43 and 44 of the rules.

use market::{
    AccountId, AccountSetting, AssetId, MoneyClass, OrderType, RejectReason, SessionId, Side,
};

use super::{Model, ModelOrder, QUANTITY_MAX, SECOND_NS, acceptance::first_failed};

impl Model {
    /// The largest quantity of an order of an instrument. (5.3, 40.4)
    pub(super) fn quantity_max(&self, instrument_id: market::InstrumentId) -> u64 {
        let terms = self.money.terms.get(&instrument_id);
        terms.map_or(QUANTITY_MAX, |terms| terms.quantity_max.0)
    }

    /// Counts an order request of an account at the present time. (44.5)
    pub(super) fn count_asked(&mut self, session_id: SessionId) {
        let account_id = self.money.owner(session_id);
        let limit = self.money.setting(account_id, AccountSetting::OrdersPerSecondMax, AssetId(0));
        if account_id != AccountId(0) && limit > 0 {
            let second = self.now_ns / SECOND_NS;
            self.money.asked.entry(account_id).or_default().push(second);
        }
    }

    /// Does its account allow an order, which may replace another? (44.1)
    pub(super) fn account_takes(
        &self,
        order: &ModelOrder,
        original: Option<&ModelOrder>,
    ) -> Result<(), RejectReason> {
        use AccountSetting::*;
        let account_id = self.money.owner(order.key.session_id);
        let terms = self.money.paid(order.instrument_id);
        if account_id == AccountId(0) {
            return if terms.is_some() { Err(RejectReason::NoAccount) } else { Ok(()) };
        }
        let limit = |setting, asset_id| match self.money.setting(account_id, setting, asset_id) {
            0 => i128::MAX,
            limit => i128::try_from(limit).unwrap(),
        };
        let leaves = i128::from(order.leaves().0);
        let is_short = [Side::SellShort, Side::SellShortExempt].contains(&order.side);
        let others = self.orders.iter().filter(|it| original.is_none_or(|o| o.key != it.key));
        let own: Vec<_> =
            others.filter(|it| self.money.owner(it.key.session_id) == account_id).collect();

        // The checks against the terms; without terms all of them pass.
        let (mut short_fits, mut cost_fits, mut position_fits, mut balance_fits) =
            (true, true, true, true);
        if let Some(terms) = terms {
            let short_max =
                i128::try_from(self.money.setting(account_id, ShortMax, terms.base)).unwrap();
            let is_position = terms.class == MoneyClass::Position;
            short_fits = !is_short || (is_position && short_max > 0);
            // 6.12: without a limit the cost is known only when the order comes in.
            let waits =
                order.order_type != OrderType::Limit && self.comes_in_later(order.instrument_id);
            let cost = if waits { 0 } else { self.cost_of(order, &terms) };
            cost_fits = cost <= limit(OrderNotionalMax, terms.quote);
            let freed = original.map_or(0, |it| it.held);
            let has = |asset_id| self.balance(account_id, asset_id);
            let base_amount = leaves * i128::from(terms.base_units);
            if order.side == Side::Buy {
                // 43.4: over all orders in the asset, in any instrument.
                let buying: i128 = own
                    .iter()
                    .filter(|it| it.side == Side::Buy)
                    .filter_map(|it| Some((it, self.money.paid(it.instrument_id)?)))
                    .filter(|(_, its)| its.class == MoneyClass::Position && its.base == terms.base)
                    .map(|(it, its)| i128::from(it.leaves().0) * i128::from(its.base_units))
                    .sum();
                let (available, reserved) = has(terms.base);
                position_fits = !is_position
                    || limit(PositionMax, terms.base)
                        >= available + reserved + buying + base_amount;
                balance_fits = has(terms.quote).0 + freed >= cost;
            } else if is_short {
                position_fits = has(terms.base).0 + freed - base_amount >= -short_max;
            } else {
                balance_fits = has(terms.base).0 + freed >= base_amount;
            }
        }
        // 44.2
        let other_side = if order.side == Side::Buy { Side::Sell } else { Side::Buy };
        let price_fits = match self.best_displayed(order.instrument_id, other_side) {
            Some(best) if order.order_type == OrderType::Limit => {
                let (best, price) = (i128::from(best.0), i128::from(order.price.0));
                let through = if order.side == Side::Buy { price - best } else { best - price };
                let ppm = self.money.setting(account_id, PriceAwayMax, AssetId(0));
                ppm == 0 || through * 1_000_000 <= best * i128::try_from(ppm).unwrap()
            }
            _ => true,
        };
        // 44.5
        let now = self.now_ns / SECOND_NS;
        let asked = self.money.asked.get(&account_id);
        let asked = asked.map_or(0, |it| it.iter().filter(|second| **second == now).count());
        let rate_fits = asked as i128 <= limit(OrdersPerSecondMax, AssetId(0));
        let live_fits =
            original.is_some() || (own.len() as i128) < limit(LiveOrdersMax, AssetId(0));
        first_failed(&[
            (short_fits, RejectReason::ShortSaleNotAllowed),
            (price_fits, RejectReason::PriceTooFar),
            (leaves <= limit(OrderQuantityMax, AssetId(0)), RejectReason::OrderQuantityLimit),
            (cost_fits, RejectReason::OrderNotionalLimit),
            (live_fits, RejectReason::TooManyOrders),
            (rate_fits, RejectReason::OrderRateLimit),
            (position_fits, RejectReason::PositionLimit),
            (balance_fits, RejectReason::InsufficientBalance),
            (!self.money.stopped.contains(&account_id), RejectReason::AccountStopped),
        ])
    }

    /// May a live order have this side instead? (43.1, 43.5)
    pub(super) fn may_have_side(&self, order: &ModelOrder, side: Side) -> bool {
        let Some(terms) = self.money.paid(order.instrument_id) else { return true };
        let account_id = self.money.owner(order.key.session_id);
        let short_max = self.money.setting(account_id, AccountSetting::ShortMax, terms.base);
        match side {
            Side::Buy => true,
            Side::Sell => self.balance(account_id, terms.base).0 >= 0,
            _ => terms.class == MoneyClass::Position && short_max > 0,
        }
    }
}
