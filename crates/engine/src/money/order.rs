//! Money in the life of an order: one call for each step that the engine takes. Invariant: each
//! step that changes open lots changes the reservation with them.

use market::{Event, OrderId, OrderType, Price, Quantity, RejectReason, TimeInForce};

use super::{check::Asked, reserve::Claim, terms::Terms};
use crate::{
    Emit, Engine,
    book::cross::Reach,
    intake::classify::{EntryTerms, OrderClass, Proposal},
    order::{ForAuction, Order},
    trading::{incoming::COUNTED_MAX, self_match},
};

/// More than an account can have, in units.
const UNAFFORDABLE: u128 = 1 << 126;

impl Engine {
    /// Checks that the account may have this new order or replacement. If it has no limit and
    /// enters the book at once, also returns its cost or proceeds now.
    pub(crate) fn check_money(
        &self,
        asked: &Proposal,
        class: &OrderClass,
    ) -> Result<u128, RejectReason> {
        let book = &self.books[asked.instrument_id];
        let order = Asked {
            session_id: asked.key.session_id,
            instrument_id: asked.instrument_id,
            side: asked.side,
            limit: (asked.order_type == OrderType::Limit).then_some(asked.price),
            leaves: asked.leaves(),
            original: asked.original.map(|slot| &self.pool[slot].order),
        };
        let mut walked = 0;
        let walk = |terms: &Terms| {
            if !asked.instructions.waits_outside() && !book.trading.holds_new_orders() {
                let incoming = asked.order(OrderId(0), class);
                walked = self.walk(&incoming, rests(asked.order_type, asked.time_in_force), terms);
            }
            walked
        };
        self.money.check(&order, || book.best_opposite_displayed(asked.side), walk)?;
        Ok(walked)
    }

    /// Reserves for an accepted order. Without a limit it holds the cost that its check found, or
    /// nothing while it is contingent.
    pub(crate) fn reserve(
        &mut self,
        order: &Order,
        terms: &EntryTerms,
        walked: u128,
        emit: &mut dyn FnMut(Event),
    ) {
        let is_walked = terms.order_type.is_priceless() && !order.is_contingent();
        let walked = if is_walked { walked } else { 0 };
        self.money.reserve(order, walked, emit);
    }

    /// Reserves the cost of a contingent order without a limit as it enters the book; false if too
    /// little is available.
    pub(crate) fn reserve_walk(
        &mut self,
        order: &Order,
        order_type: OrderType,
        emit: &mut dyn FnMut(Event),
    ) -> bool {
        let Some(terms) = self.money.terms(order.instrument_id) else { return true };
        if !order.side().is_buy() {
            return true;
        }
        let walked = self.walk(order, rests(order_type, order.time_in_force()), terms);
        self.money.reserve_market(order, walked, emit)
    }

    /// Releases the part of a reservation that fewer open lots do not need.
    #[inline(never)]
    pub(crate) fn release(
        &mut self,
        order: &Order,
        before: Quantity,
        after: Quantity,
        emit: &mut (impl Emit + ?Sized),
    ) {
        self.money.release(&Claim::from(order), before, after, emit);
    }

    /// The cost of a buy order without a limit if it entered the book now, including its rest at
    /// the price of its last trade; for a sell order, its proceeds. [`UNAFFORDABLE`] if it would
    /// trade with more than [`COUNTED_MAX`] orders.
    fn walk(&self, order: &Order, rests: bool, terms: &Terms) -> u128 {
        let prevention = self_match::meant(&self.sessions, order);
        let prevention = |maker: &Order| {
            let is_own = self_match::is_own(&self.sessions, prevention, order, maker);
            is_own.then_some(prevention)
        };
        let shown = |slot| self.icebergs.get(slot).shown.quantity();
        // The lots at one price count as one trade, which costs no less than its parts.
        let mut cost = 0;
        let mut at = (Price::ZERO, Quantity::ZERO);
        // A collected order does not trade now.
        if order.for_auction() != ForAuction::No {
            return 0;
        }
        let Some(limit) = self.within_band(order, None) else { return 0 };
        let book = &self.books[order.instrument_id];
        let reach = Reach { limit, orders_max: COUNTED_MAX };
        let walked = book.walk(&self.pool, order, reach, prevention, shown, |price, quantity| {
            if price != at.0 {
                cost += terms.0.quote_amount(at.0, at.1);
                at = (price, Quantity::ZERO);
            }
            at.1 = Quantity(at.1.0 + quantity.0);
            true
        });
        let Some(leaves) = walked else { return UNAFFORDABLE };
        cost += terms.0.quote_amount(at.0, at.1);
        let is_stopped = limit.is_some_and(|limit| book.goes_beyond(order.side(), limit));
        if rests && !(is_stopped && book.trading.pause_s == 0) {
            cost += terms.0.quote_amount(at.0, leaves);
        }
        cost
    }
}

/// True if the rest of an order without a limit would rest.
fn rests(order_type: OrderType, time_in_force: TimeInForce) -> bool {
    order_type == OrderType::MarketToLimit && time_in_force.may_rest()
}
