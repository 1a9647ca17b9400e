//! The life of a contingent order: it waits outside the book, enters it when its condition is met, and is
//! replaced or removed.
//!
//! Invariant: the record of a live order says where the order is, in the book or outside.

use market::{
    CancelReason, Event, Instructions, InstrumentId, Lots, OrderId, OrderType, Phase, Price,
    Pricing, ReplaceTerms, RestateReason, Ticks, TimeInForce, Triggered,
};

use crate::{
    Engine,
    auction::phases,
    book::pool::Slot,
    contingent::instructions::{Contingent, ContingentId, List, State},
    intake::classify::EntryTerms,
    order::{ForAuction, Order},
    trading::incoming::CameIn,
};

impl Engine {
    /// Accepts a contingent order.
    pub(crate) fn enter_contingent(
        &mut self,
        mut order: Order,
        terms: &EntryTerms,
        emit: &mut dyn FnMut(Event),
    ) {
        let instructions = &terms.instructions;
        let mut contingent =
            Contingent::new(&order, *instructions, terms.order_type, terms.minimum_quantity);
        if instructions.pricing.is_pegged() {
            contingent.limit = order.price();
            order.set_price(Price::ZERO);
        }
        let id = self.contingents.add(contingent);
        // An order without a limit reserves when it enters the book.
        self.reserve(&order, terms, 0, emit);
        if instructions.has_links() {
            self.link(order.key, instructions, id);
        }
        self.begin(order, id, emit);
    }

    /// The record of a live order; adds one if the order was not contingent.
    pub(crate) fn contingent_of(&mut self, slot: Slot) -> ContingentId {
        let order = &mut self.pool[slot].order;
        if order.is_contingent() {
            let id = self.contingents.of(slot);
            self.contingents[id].forget();
            return id;
        }
        order.set_contingent(true);
        let contingent = Contingent::new(order, Instructions::NONE, OrderType::Limit, Lots::ZERO);
        let id = self.contingents.add(contingent);
        let order = &self.pool[slot].order;
        self.contingents.place(id, slot, State::Resting, order);
        id
    }

    /// Lets a contingent order without a slot wait or enter the book, by its instructions.
    pub(crate) fn begin(&mut self, order: Order, id: ContingentId, emit: &mut dyn FnMut(Event)) {
        let contingent = &self.contingents[id];
        if !contingent.parent_id.is_none() {
            return self.hold(order, id, State::ForParent);
        }
        if contingent.instructions.pricing.is_pegged() {
            return self.begin_pegged(order, id, emit);
        }
        if !contingent.instructions.pricing.is_triggered() {
            return self.come_in(order, id, emit);
        }
        let triggers = &mut self.triggers[order.instrument_id];
        match triggers.met(order.side(), contingent) {
            Some(trigger) => self.come_in_triggered(order, id, trigger, emit),
            None => {
                triggers.add(&mut self.contingents, order.side(), id);
                self.hold(order, id, State::ForTrigger);
            }
        }
    }

    /// Makes an order wait outside the book: live and in a slot, but in no queue.
    pub(crate) fn hold(&mut self, mut order: Order, id: ContingentId, state: State) {
        // Its auction, if any, is decided when it enters.
        order.set_for_auction(ForAuction::No);
        let slot = self.pool.add(|| order, Slot::NONE);
        self.sessions.owner_mut(order.key).add_live(order.key, slot);
        self.money.add_live(order.key.session_id);
        self.contingents.place(id, slot, state, &order);
    }

    /// An order whose condition is met trades and rests like any other, or waits until nothing trades in
    /// steps in its instrument.
    pub(crate) fn come_in(&mut self, order: Order, id: ContingentId, emit: &mut dyn FnMut(Event)) {
        let trading = &self.books[order.instrument_id].trading;
        if trading.is_uncrossing || trading.holds_new_orders() {
            return self.wait_for_auction(order, id);
        }
        self.come_in_now(order, id, emit);
    }

    /// An order that waits for no other trades and rests.
    pub(crate) fn come_in_now(
        &mut self,
        mut order: Order,
        id: ContingentId,
        emit: &mut dyn FnMut(Event),
    ) {
        let Contingent { order_type, minimum_quantity, instructions, .. } = self.contingents[id];
        let mut terms = EntryTerms { order_type, minimum_quantity, instructions };
        let phase = self.books[order.instrument_id].trading.phase;
        let class = terms.class(phase, order.time_in_force());
        order.set_for_auction(class.auction);
        if phases::takes(phase, order.time_in_force(), &class).is_err() {
            // Only a pause started by this command can prevent it.
            self.cancel_at_once(&order, CancelReason::ImmediateOrCancel, emit);
            return self.contingents.finish(id, order.executed());
        }
        if class.auction != ForAuction::No {
            // Nothing is shown of an auction-only order, nor of its replacement.
            self.contingents[id].instructions = instructions.without_shown();
        }
        if self.check_bounded(order.instrument_id, order.side(), &class).is_err() {
            self.cancel_at_once(&order, CancelReason::Unpaid, emit);
            return self.contingents.finish(id, order.executed());
        }
        if order_type.is_priceless() && !self.reserve_walk(&order, order_type, emit) {
            self.cancel_at_once(&order, CancelReason::Unpaid, emit);
            return self.contingents.finish(id, order.executed());
        }
        if class.waits_for_quantity {
            if !self.has_enough(&order, id) {
                return self.wait_for_quantity(order, id, emit);
            }
            // After it has traded its minimum, the open rest is a normal order.
            self.contingents[id].minimum_quantity = Lots::ZERO;
            terms.minimum_quantity = Lots::ZERO;
        } else if instructions.handling.is_all_or_none() {
            terms.minimum_quantity = order.leaves().lots();
        }
        if order.post_only() && instructions.handling.slides() {
            self.slide_price(&mut order, order_type, emit);
        }
        let executed_before = order.executed();
        let came_in = self.trade_or_rest(&mut order, &terms, emit);
        if executed_before < order.executed() {
            self.contingents.execute(id);
        }
        self.keep_record(order, id, came_in, emit);
    }

    /// Updates the record of an incoming order to its outcome.
    pub(crate) fn keep_record(
        &mut self,
        order: Order,
        id: ContingentId,
        came_in: CameIn,
        emit: &mut dyn FnMut(Event),
    ) {
        match came_in {
            CameIn::Rests(slot) => {
                self.contingents.place(id, slot, State::Resting, &order);
            }
            CameIn::TradesOn(cut) => self.trade_on_later(order, id, &cut),
            CameIn::IsOver if self.waits_for_reference(&order, id) => {
                self.wait_for_reference(order, id, emit);
            }
            CameIn::IsOver => self.contingents.finish(id, order.executed()),
        }
    }

    /// Price sliding: a post-only order that would trade gets the nearest price at which it does
    /// not, if there is one and it may rest there.
    fn slide_price(
        &mut self,
        order: &mut Order,
        order_type: OrderType,
        emit: &mut dyn FnMut(Event),
    ) {
        let book = &self.books[order.instrument_id];
        let rests_now = order_type == OrderType::Limit
            && order.time_in_force().may_rest()
            && book.trading.phase == Phase::Continuous;
        if !rests_now || !book.would_cross(order.side(), Some(order.price())) {
            return;
        }
        let Some(price) = book.price_beside_opposite(order.side()) else { return };
        let before = *order;
        order.set_price(price);
        emit(Event::Restated(order.restated_unseen(order.order_id(), RestateReason::Repriced)));
        self.money.follow_price(&before, order, emit);
    }

    /// Triggers an order without a slot: the market traded at its trigger.
    pub(crate) fn come_in_triggered(
        &mut self,
        mut order: Order,
        id: ContingentId,
        trigger: u32,
        emit: &mut dyn FnMut(Event),
    ) {
        let Contingent { order_type, instructions, .. } = self.contingents[id];
        if instructions.pricing == Pricing::TrailingStop && order_type == OrderType::Limit {
            // Its limit keeps its distance to the trigger, within the allowed prices.
            let moved = i64::from(trigger) - i64::from(instructions.trigger.0);
            let book = &self.books[order.instrument_id];
            let price = (order.price().0 as i64 + moved)
                .clamp(book.price_lowest().0 as i64, book.price_highest().0 as i64);
            let before = order;
            order.set_price(Price(price as u64));
            self.money.follow_price(&before, &order, emit);
        }
        let order_id_before = self.renumber(&mut order, id);
        self.contingents[id].instructions = Instructions {
            pricing: Pricing::Limit,
            trigger: Ticks::ZERO,
            offset: 0,
            ..instructions
        };
        emit(Event::Triggered(Triggered {
            key: order.key,
            order_id_before,
            order_id: order.order_id(),
            instrument_id: order.instrument_id,
            trigger: Price(trigger.into()),
            price: order.price(),
        }));
        self.cancel_partner(id, emit);
        self.come_in(order, id, emit);
    }

    /// Gives an order that waited a new order id, because the order of ids is time priority.
    pub(crate) fn renumber(&mut self, order: &mut Order, id: ContingentId) -> OrderId {
        let order_id = self.next_order_id();
        self.contingents[id].order_id = order_id;
        let order_id_before = order.order_id();
        order.set_order_id(order_id);
        order_id_before
    }

    /// Removes a contingent order from its place; true if that was in the book.
    #[cold]
    pub(crate) fn lift(&mut self, slot: Slot) -> bool {
        let order = self.pool[slot].order;
        let id = self.contingents.of(slot);
        let state = self.contingents[id].state;
        if state == State::ForTrigger {
            let triggers = &mut self.triggers[order.instrument_id];
            triggers.remove(&mut self.contingents, order.side(), id);
        }
        if state == State::ForQuantity {
            self.remove_waiting_for_quantity(order.instrument_id, id);
        }
        if state == State::ForAuction {
            self.remove_waiting(&order);
        }
        self.contingents.lift(id);
        state == State::Resting
    }

    /// A resting contingent order executed in an auction; removes it if it is filled.
    pub(crate) fn execute_contingent(&mut self, slot: Slot, after: &Order) {
        let id = self.contingents.of(slot);
        self.contingents.execute(id);
        self.pool[slot].order = *after;
        if after.is_done() {
            self.remove(slot, after);
        }
    }

    /// The instructions of a replacement: those that the replace names, or those of the original.
    /// Links are kept; `None` if the replace names links.
    pub(crate) fn instructions_of_replacement(
        &self,
        slot: Slot,
        terms: &ReplaceTerms,
    ) -> Option<Instructions> {
        let instructions = self.kept(slot, terms.display);
        let Instructions { parent, partner, .. } = instructions;
        let new = match terms.instructions {
            Some(new) if new.has_links() => return None,
            Some(new) => Instructions { parent, partner, ..new },
            None if terms.time_in_force == TimeInForce::GoodTillTime => instructions,
            None => Instructions { expires_s: 0, ..instructions },
        };
        Some(new)
    }

    /// A replacement takes over the record of its original, which has no slot.
    pub(crate) fn rename(
        &mut self,
        id: ContingentId,
        replacement: &Order,
        terms: &EntryTerms,
        limit: Price,
    ) {
        let instructions = terms.instructions;
        self.contingents.expire_at(id, replacement.key, instructions.expires_s);
        let contingent = &mut self.contingents[id];
        contingent.limit = if instructions.pricing.is_pegged() { limit } else { Price::ZERO };
        contingent.order_id = replacement.order_id();
        contingent.instructions = instructions;
        contingent.order_type = terms.order_type;
        contingent.minimum_quantity = terms.minimum_quantity;
        let number = replacement.key.user_ref_num;
        if let Some(partner_id) = contingent.partner_id.some() {
            self.contingents[partner_id].instructions.partner = number;
        }
        let mut next = self.contingents[id].children.some();
        while let Some(child) = next {
            self.contingents[child].instructions.parent = number;
            next = self.contingents.next(List::Family, child);
        }
    }

    /// A contingent replacement rests at once.
    pub(crate) fn rest_contingent(&mut self, mut order: Order, id: ContingentId) {
        let instructions = self.contingents[id].instructions;
        let (slot, _) = self.add(&mut order, &instructions);
        self.contingents.place(id, slot, State::Resting, &order);
    }

    /// True if an order of an instrument waits outside the book. Costs O(contingent orders).
    pub(crate) fn has_waiting(&self, instrument_id: InstrumentId) -> bool {
        self.contingents.iter().map(|id| &self.contingents[id]).any(|contingent| {
            let order = &self.pool[contingent.slot].order;
            !contingent.is_resting() && order.instrument_id == instrument_id
        })
    }

    /// True if a live order is in the book.
    pub(crate) fn is_booked(&self, slot: Slot) -> bool {
        self.is_booked_as(slot, &self.pool[slot].order)
    }

    /// As [`is_booked`](Self::is_booked); `order` is the order in the slot.
    #[inline(always)]
    pub(crate) fn is_booked_as(&self, slot: Slot, order: &Order) -> bool {
        !order.is_contingent() || self.contingents[self.contingents.of(slot)].is_resting()
    }
}
