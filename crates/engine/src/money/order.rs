//! Where money meets the life of an order: what the engine asks of it, one call at each step.

use market::{
    AccountId, CancelReason, Event, OrderId, OrderType, Price, Quantity, RejectReason, TimeInForce,
};

use super::{check::Asked, reserve::Claim, terms::Terms};
use crate::{
    Engine,
    book::cross::Reach,
    intake::classify::{EntryTerms, OrderClass, Proposal},
    order::{ForAuction, Order},
    trading::self_match,
};

impl Engine {
    /// May the account have this order, new or instead of its original? What it would cost or bring
    /// now, if it has no limit and comes to the book at once.
    pub(crate) fn check_money(
        &self,
        asked: &Proposal,
        class: &OrderClass,
    ) -> Result<u128, RejectReason> {
        let book = self.book_at(asked.instrument_id);
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
            if !asked.instructions.waits_outside() {
                let incoming = asked.order(OrderId(0), class);
                walked = self.walk(&incoming, rests(asked.order_type, asked.time_in_force), terms);
            }
            walked
        };
        self.money.check(&order, || book.best_opposite_displayed(asked.side), walk)?;
        Ok(walked)
    }

    /// An accepted order holds what it could cost or deliver: without a limit what the walk of its
    /// check found, and if it is contingent nothing until it comes in.
    pub(crate) fn reserve(
        &mut self,
        order: &Order,
        terms: &EntryTerms,
        walked: u128,
        emit: &mut dyn FnMut(Event),
    ) {
        let is_walked = terms.order_type.is_priceless() && !order.is_contingent;
        let walked = if is_walked { walked } else { 0 };
        self.money.reserve(order, walked, &mut self.hash, emit);
    }

    /// An order without a limit comes in that holds nothing so far, and holds what it will pay; false
    /// if less is available.
    pub(crate) fn reserve_walk(
        &mut self,
        order: &Order,
        order_type: OrderType,
        emit: &mut dyn FnMut(Event),
    ) -> bool {
        let Some(terms) = self.money.terms(order.instrument_id) else { return true };
        if !order.side.is_buy() {
            return true;
        }
        let walked = self.walk(order, rests(order_type, order.time_in_force), terms);
        self.money.reserve_market(order, walked, &mut self.hash, emit)
    }

    /// Releases what an order does not need with fewer open lots.
    #[inline(never)]
    pub(crate) fn release(
        &mut self,
        order: &Order,
        before: Quantity,
        after: Quantity,
        emit: &mut dyn FnMut(Event),
    ) {
        self.money.release(&Claim::from(order), before, after, &mut self.hash, emit);
    }

    /// Cancels all live orders of an account, by session, channel and number.
    pub(crate) fn cancel_of_account(
        &mut self,
        account_id: AccountId,
        reason: CancelReason,
        emit: &mut dyn FnMut(Event),
    ) {
        let mut found = core::mem::take(&mut self.found);
        for session in self.sessions.iter() {
            if self.money.account_id(session.session_id()) == account_id {
                found.extend(session.iter_live().map(|(_, slot)| slot));
            }
        }
        found.sort_unstable_by_key(|slot| self.pool[*slot].order.key);
        for slot in found.drain(..) {
            self.cancel_all(slot, reason, emit);
        }
        self.found = found;
    }

    /// What an order without a limit would cost if it came in now, with what would rest of it, if
    /// it does, at the price of its last trade; of an order to sell, what it would bring.
    fn walk(&self, order: &Order, rests: bool, terms: &Terms) -> u128 {
        let prevention = self_match::meant(&self.sessions, order);
        let prevention = |maker: &Order| {
            let is_own = self_match::is_own(&self.sessions, prevention, order, maker);
            is_own.then_some(prevention)
        };
        let shown = |slot| self.icebergs.get(slot).shown.quantity();
        // All that trades at one price is counted as one trade: it costs no less than its parts.
        let mut cost = 0;
        let mut at = (Price::ZERO, Quantity::ZERO);
        // One that is collected trades nothing now.
        if order.for_auction() != ForAuction::No {
            return 0;
        }
        let Some(limit) = self.within_band(order, None) else { return 0 };
        let book = self.book_of(order);
        let reach = Reach::all(limit);
        let leaves = book.walk(&self.pool, order, reach, prevention, shown, |price, quantity| {
            if price != at.0 {
                cost += terms.0.quote_amount(at.0, at.1);
                at = (price, Quantity::ZERO);
            }
            at.1 = Quantity(at.1.0 + quantity.0);
            true
        });
        cost += terms.0.quote_amount(at.0, at.1);
        let is_stopped = limit.is_some_and(|limit| book.goes_beyond(order.side, limit));
        if rests && !(is_stopped && book.trading.pause_s == 0) {
            cost += terms.0.quote_amount(at.0, leaves);
        }
        cost
    }
}

/// Does what is left of an order without a limit rest?
fn rests(order_type: OrderType, time_in_force: TimeInForce) -> bool {
    order_type == OrderType::MarketToLimit && time_in_force.may_rest()
}
