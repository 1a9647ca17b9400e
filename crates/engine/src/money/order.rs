//! Where money meets the life of an order: what the engine asks of it, one call at each step.

use market::{
    AccountId, CancelReason, EnterOrder, Event, Instructions, InstrumentId, OrderId, OrderType,
    Price, Quantity, RejectReason, ReplaceTerms, TimeInForce,
};

use super::{Asked, terms::Terms};
use crate::{
    Engine,
    auction::phases,
    book::cross::Reach,
    intake::enter::EntryTerms,
    order::{Order, OrderTerms, Waits},
    trading::self_match,
};

impl Engine {
    /// May the account have this new order?
    #[inline]
    pub(crate) fn check_money(
        &self,
        order: &EnterOrder,
        instrument_id: InstrumentId,
    ) -> Result<(), RejectReason> {
        if !self.money.is_used() {
            return Ok(());
        }
        self.check_paid(order, instrument_id)
    }

    fn check_paid(
        &self,
        order: &EnterOrder,
        instrument_id: InstrumentId,
    ) -> Result<(), RejectReason> {
        let asked = Asked {
            session_id: order.key.session_id,
            instrument_id,
            side: order.side,
            limit: (order.order_type == OrderType::Limit).then_some(order.price),
            leaves: order.quantity,
            original: None,
        };
        let book = &self.books[usize::from(instrument_id.0) - 1];
        let walk = |terms: &Terms| {
            if order.instructions.waits() {
                return 0;
            }
            let mut incoming = Order::entered(order, OrderId(0), instrument_id, order.display);
            incoming.set_waits(phases::waits(
                book.trading.phase,
                order.order_type,
                order.time_in_force,
            ));
            self.walk(&incoming, rests(order.order_type, order.time_in_force), terms)
        };
        self.money.check(&asked, || book.best_opposite_displayed(order.side), walk)
    }

    /// May the account have an order of these terms instead of its original?
    pub(crate) fn check_replacement(
        &self,
        original: &Order,
        terms: &ReplaceTerms,
        instructions: &Instructions,
    ) -> Result<(), RejectReason> {
        let side = terms.side.unwrap_or(original.side);
        let leaves = terms.quantity.saturating_sub(original.used());
        let asked = Asked {
            session_id: original.key.session_id,
            instrument_id: original.instrument_id,
            side,
            limit: (terms.order_type == OrderType::Limit).then_some(terms.price),
            leaves,
            original: Some(original),
        };
        let walk = |money_terms: &Terms| {
            if instructions.waits() {
                return 0;
            }
            let mut replacement = Order::new(OrderTerms {
                order_id: OrderId(0),
                key: original.key,
                price: terms.price,
                quantity: leaves,
                executed: Quantity::ZERO,
                prevented: Quantity::ZERO,
                instrument_id: original.instrument_id,
                group_id: original.group_id,
                firm: original.firm,
                side,
                display: terms.display,
                capacity: original.capacity,
                customer_type: original.customer_type,
                conditions: terms.conditions.apply(original.conditions()),
                time_in_force: terms.time_in_force,
                is_instructed: false,
            });
            let phase = self.book_of(original).trading.phase;
            replacement.set_waits(phases::waits(phase, terms.order_type, terms.time_in_force));
            self.walk(&replacement, rests(terms.order_type, terms.time_in_force), money_terms)
        };
        let best = || self.book_of(original).best_opposite_displayed(side);
        self.money.check(&asked, best, walk)
    }

    /// An accepted order holds what it could cost or deliver; one that is told something, and has no
    /// limit, does so when it comes in.
    #[inline]
    pub(crate) fn reserve(
        &mut self,
        order: &Order,
        terms: &EntryTerms,
        emit: &mut dyn FnMut(Event),
    ) {
        if self.money.is_used() {
            self.reserve_paid(order, terms, emit);
        }
    }

    fn reserve_paid(&mut self, order: &Order, terms: &EntryTerms, emit: &mut dyn FnMut(Event)) {
        let Some(money_terms) = self.money.terms(order.instrument_id) else { return };
        let order_type = terms.order_type;
        let walked = match order_type {
            OrderType::Market | OrderType::MarketToLimit if !order.is_instructed => {
                self.walk(order, rests(order_type, order.time_in_force), money_terms)
            }
            _ => 0,
        };
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

    /// An order gives back what it does not need, with so many open lots fewer.
    #[inline]
    pub(crate) fn release(
        &mut self,
        order: &Order,
        before: Quantity,
        after: Quantity,
        emit: &mut dyn FnMut(Event),
    ) {
        self.money.release(order, before, after, &mut self.hash, emit);
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
        let shown = |slot| self.reserves.get(slot).shown.quantity();
        // All that trades at one price is counted as one trade: it costs no less than its parts.
        let mut cost = 0;
        let mut at = (Price::ZERO, Quantity::ZERO);
        // One that is collected trades nothing now.
        if order.waits() != Waits::No {
            return 0;
        }
        let Some(limit) = self.within_band(order, None) else { return 0 };
        let book = self.book_of(order);
        let reach = Reach::all(limit);
        let leaves = book.walk(&self.pool, order, reach, prevention, shown, |price, quantity| {
            if price != at.0 {
                cost += terms.cost(at.0, at.1);
                at = (price, Quantity::ZERO);
            }
            at.1 = Quantity(at.1.0 + quantity.0);
            true
        });
        cost += terms.cost(at.0, at.1);
        let is_stopped = limit.is_some_and(|limit| book.goes_beyond(order.side, limit));
        if rests && !(is_stopped && book.trading.pause_s == 0) {
            cost += terms.cost(at.0, leaves);
        }
        cost
    }
}

/// Does what is left of an order without a limit rest?
fn rests(order_type: OrderType, time_in_force: TimeInForce) -> bool {
    order_type == OrderType::MarketToLimit && time_in_force.may_rest()
}
