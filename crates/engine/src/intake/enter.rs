//! New orders and replacements: from the command to an order that trades and rests.
//!
//! Invariant: an accepted order has passed every check, and its cost is reserved.

use market::{
    Accepted, AccountId, CancelReason, ClientOrderId, Display, EnterOrder, Event, InstrumentId,
    OrderAttributes, OrderEntered, OrderId, OrderKey, OrderType, Outcome, OwnMovement, Price,
    Quantity, RejectReason, Rejected, ReplaceOrder, Replaced,
};

use super::{
    classify::{EntryTerms, OrderClass, Proposal},
    plain::LimitTerms,
};
use crate::{Emit, Engine, order::Order};

/// A new order that passed every check.
struct Admitted {
    asked: Proposal,
    class: OrderClass,
    /// The cost or proceeds now of an order without a limit.
    walked: u128,
}

impl Engine {
    /// Enters an order: it uses up its number, passes the checks, is accepted, and trades or rests. An order marked as
    /// plain passes the checks if its account pays for it; all other orders are checked one by one.
    #[inline(always)]
    pub(crate) fn enter(
        &mut self,
        order: &EnterOrder,
        plain: Option<LimitTerms>,
        emit: &mut (impl Emit + ?Sized),
    ) {
        if !self.consume(order.key) {
            return;
        }
        if let Some(terms) = plain
            && let Some(reserved) = self.money.hold_plain(order, terms.instrument_id)
        {
            return self.accept_plain(order, &terms, reserved, emit);
        }
        self.check_and_enter(order, &mut |event| emit.emit(event));
    }

    /// Enters an order that used up its number: all checks, one by one, then acceptance or a reject.
    #[inline(never)]
    fn check_and_enter(&mut self, order: &EnterOrder, emit: &mut dyn FnMut(Event)) {
        let Admitted { asked, class, walked } = match self.admit(order) {
            Ok(admitted) => admitted,
            Err(reason) => {
                let client_order_id = order.attributes.client_order_id;
                return self.reject(order.key, reason, client_order_id, emit);
            }
        };
        let order_id = self.next_order_id();
        self.orders_accepted += 1;
        let incoming = asked.order(order_id, &class);
        self.accept(order, order_id, &asked, emit);
        let terms = asked.terms();
        if class.is_contingent {
            self.enter_contingent(incoming, &terms, emit);
        } else {
            self.reserve(&incoming, &terms, walked, emit);
            self.trade_and_rest(incoming, &terms, emit);
        }
        self.follow(emit);
    }

    /// All checks of a new order, in the order of precedence.
    #[inline]
    fn admit(&mut self, order: &EnterOrder) -> Result<Admitted, RejectReason> {
        let EnterOrder { key, side, symbol, attributes, .. } = order;
        self.money.count_asked(key.session_id, self.timestamp);
        let OrderAttributes { firm, group_id, .. } = *attributes;
        let instrument_id = self.check_entry(*key, firm, group_id, *side, symbol)?;
        let asked = Proposal::new_order(order, instrument_id);
        let class = self.class_of(&asked);
        self.check_terms(&asked, &class)?;
        if self.sessions.owner(*key).is_full() {
            return Err(RejectReason::TooManyOrders);
        }
        let walked = self.check_money(&asked, &class)?;
        Ok(Admitted { asked, class, walked })
    }

    /// Reports a new order that was accepted.
    fn accept(
        &mut self,
        order: &EnterOrder,
        order_id: OrderId,
        asked: &Proposal,
        emit: &mut (impl Emit + ?Sized),
    ) {
        emit.emit(Event::Accepted(Accepted {
            key: order.key,
            order_id,
            instrument_id: asked.instrument_id,
            side: order.side,
            order_type: order.order_type,
            time_in_force: order.time_in_force,
            display: order.display,
            quantity: order.quantity.lots(),
            price: order.price.ticks(),
            attributes: order.attributes,
            conditions: order.conditions,
            instructions: order.instructions,
        }));
        self.sessions.owner_mut(order.key).note_accepted();
    }

    /// Accepts a plain order whose cost is reserved; it rests, or trades first.
    #[inline(always)]
    fn accept_plain(
        &mut self,
        order: &EnterOrder,
        terms: &LimitTerms,
        reserved: OwnMovement,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let LimitTerms { instrument_id, ranks, .. } = *terms;
        let EnterOrder { key, side, time_in_force, .. } = *order;
        let order_id = self.next_order_id();
        self.orders_accepted += 1;
        let book = &mut self.books[instrument_id];
        let rests = time_in_force.may_rest() && ranks.worst < book.opposite(side).best_rank();
        let is_followed = book.is_followed();
        let entered = entered(order, order_id, instrument_id, reserved, rests);
        emit.emit_at_once(Outcome::Entered(entered));
        if !rests {
            return self.trade_plain(order, order_id, instrument_id, emit);
        }
        let order = Order::entered(order, order_id, instrument_id, Display::Visible);
        let displayed = &mut book.side_mut(side).displayed;
        let slot = displayed.append(&mut self.pool, ranks.own, || order);
        self.sessions.owner_mut(key).add_live(key, slot);
        if reserved.account_id() != AccountId::VENUE {
            self.money.add_live_of(reserved.account_id());
        }
        if is_followed {
            self.touch(instrument_id);
            self.note_minimum_quantity(instrument_id);
            self.follow(&mut |event| emit.emit(event));
        }
    }

    /// Trades a plain order; the open rest goes into the book if it may.
    #[inline(never)]
    fn trade_plain(
        &mut self,
        order: &EnterOrder,
        order_id: OrderId,
        instrument_id: InstrumentId,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let order = Order::entered(order, order_id, instrument_id, Display::Visible);
        self.trade_and_rest(order, &EntryTerms::LIMIT, emit);
        self.follow(&mut |event| emit.emit(event));
    }

    #[inline(never)]
    pub(crate) fn replace(&mut self, replace: &ReplaceOrder, emit: &mut dyn FnMut(Event)) {
        let key = replace.key;
        let Some(session) = self.sessions.get(key.session_id) else { return };
        let original_key = OrderKey { user_ref_num: replace.original_user_ref_num, ..key };
        let Some(slot) = session.find(original_key) else { return };
        if !session.is_unused(key) {
            return;
        }
        let original = self.pool[slot].order;
        if let Err(reason) = self.check_entry_again(key, &original) {
            return self.reject_replace(replace, reason, emit);
        }
        let Some((asked, class)) = self.propose_replacement(slot, replace) else {
            return self.cancel_all(slot, CancelReason::User, emit);
        };
        self.money.count_asked(key.session_id, self.timestamp);
        match self.check_money(&asked, &class) {
            Ok(walked) => self.give_way(replace, &asked, &class, walked, emit),
            Err(reason) => self.reject_replace(replace, reason, emit),
        }
    }

    /// Replaces an order; the replacement has passed every check.
    fn give_way(
        &mut self,
        replace: &ReplaceOrder,
        asked: &Proposal,
        class: &OrderClass,
        walked: u128,
        emit: &mut dyn FnMut(Event),
    ) {
        let slot = asked.original.expect("a replacement has an original");
        let original = self.pool[slot].order;
        let was_booked = self.is_booked(slot);
        let rests_at_once = self.rests_at_once(asked, class);
        self.consume(asked.key);
        let contingent_id =
            (original.is_contingent() || class.is_contingent).then(|| self.contingent_of(slot));
        self.take(slot);
        let mut replacement = asked.order(self.next_order_id(), class);
        replacement.set_contingent(contingent_id.is_some());
        if asked.instructions.pricing.is_pegged() {
            replacement.set_price(Price::ZERO);
        }
        let in_place = was_booked && rests_at_once && self.shown_alike(&original, &replacement);
        let terms = asked.terms();
        if let Some(id) = contingent_id {
            self.rename(id, &replacement, &terms, asked.price);
        }
        let client_order_id = replace.client_order_id();
        emit(Event::Replaced(Replaced {
            key: asked.key,
            original_user_ref_num: original.key.user_ref_num,
            original_order_id: original.order_id(),
            order_id: replacement.order_id(),
            instrument_id: replacement.instrument_id,
            side: replacement.side(),
            order_type: asked.order_type,
            time_in_force: asked.time_in_force,
            display: replacement.display(),
            in_place,
            original_displayed: was_booked && original.is_displayed(),
            leaves: replacement.leaves().lots(),
            price: asked.price.ticks(),
            client_order_id,
            firm: replacement.firm,
            capacity: replacement.capacity(),
            conditions: asked.conditions,
            instructions: asked.instructions,
        }));
        self.release(&original, original.leaves(), Quantity::ZERO, emit);
        self.reserve(&replacement, &terms, walked, emit);
        match contingent_id {
            None if in_place => {
                self.add(&mut replacement, &asked.instructions);
            }
            None => {
                self.trade_and_rest(replacement, &terms, emit);
            }
            Some(id) if in_place => self.rest_contingent(replacement, id),
            Some(id) => self.begin(replacement, id, emit),
        }
    }

    /// True if a replacement would rest at once, without a trade or a condition to wait for.
    fn rests_at_once(&self, asked: &Proposal, class: &OrderClass) -> bool {
        let book = &self.books[asked.instrument_id];
        asked.order_type == OrderType::Limit
            && asked.time_in_force.may_rest()
            && (book.trading.phase.collects() || !book.would_cross(asked.side, Some(asked.price)))
            && !asked.instructions.pricing.is_triggered()
            && !class.waits_for_quantity
    }

    /// Rejects a replace; the original stays.
    fn reject_replace(
        &mut self,
        replace: &ReplaceOrder,
        reason: RejectReason,
        emit: &mut dyn FnMut(Event),
    ) {
        self.consume(replace.key);
        self.reject(replace.key, reason, replace.client_order_id(), emit);
    }

    /// Uses up a number. Returns false, with no effect, if the session is unknown or the number is
    /// not above the channel's last one.
    #[inline]
    pub(crate) fn consume(&mut self, key: OrderKey) -> bool {
        let session = self.sessions.get_mut(key.session_id);
        session.is_some_and(|session| session.consume(key))
    }

    /// The id of the next order; an order that loses its time priority gets a new one, too.
    #[inline]
    pub(crate) fn next_order_id(&mut self) -> OrderId {
        self.order_id_last.0 += 1;
        self.order_id_last
    }

    /// Rejects an order or another request.
    pub(crate) fn reject(
        &self,
        key: OrderKey,
        reason: RejectReason,
        client_order_id: ClientOrderId,
        emit: &mut (impl Emit + ?Sized),
    ) {
        emit.emit(Event::Rejected(Rejected { key, reason, client_order_id, cause: self.cause }));
    }
}

/// The report of a plain order that was accepted.
#[inline(always)]
fn entered(
    order: &EnterOrder,
    order_id: OrderId,
    instrument_id: InstrumentId,
    reserved: OwnMovement,
    rests: bool,
) -> OrderEntered {
    OrderEntered {
        key: order.key,
        order_id,
        instrument_id,
        side: order.side,
        time_in_force: order.time_in_force,
        quantity: order.quantity.lots(),
        price: order.price.ticks(),
        attributes: order.attributes,
        self_match_prevention: order.conditions.self_match_prevention,
        self_match_group: order.conditions.self_match_group,
        rests,
        reserved,
    }
}
