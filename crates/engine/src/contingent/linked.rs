//! Linked orders (OCO, OTO); how contingent orders wait outside the book and enter it.
//!
//! Effects of a command on other orders happen after the command, in [`Engine::follow`], in this
//! order: orders linked to those that executed or are done, triggered orders, pegged orders,
//! minimum-quantity orders. All effects of one order come before the next order.
//!
//! Invariant: this ends. An order that enters the book here was waiting before, and no effect adds
//! a new order; [`pegs`](mod@crate::contingent::pegs) shows why pegged orders settle.

use core::{iter, mem};

use market::{
    CancelReason, Event, Instructions, InstrumentId, Lots, OrderId, OrderKey, OrderType, Phase,
    Price, Pricing, Quantity, RejectReason, Released, ReplaceTerms, RestateReason, Side, Ticks,
    TimeInForce, Triggered,
};

use crate::{
    Engine,
    auction::phases,
    book::pool::Slot,
    contingent::{
        instructions::{Contingent, ContingentId, List, State},
        minimum_quantity::CHECKS_MAX,
        pegs::MOVES_MAX,
    },
    intake::classify::{EntryTerms, Proposal},
    order::{ForAuction, Order},
};

/// Maximum number of triggered orders that enter after a command, and again before each later input while
/// some are left.
pub(crate) const TRIGGERED_MAX: usize = 4;

/// The most children of a parent.
const CHILDREN_MAX: usize = 16;

/// One leg of an OCO: only one of the two partners may execute.
struct OcoLeg {
    side: Side,
    /// True if it has a trigger.
    waits: bool,
    order_type: OrderType,
    price: Price,
}

impl OcoLeg {
    /// True if one command can never execute both partners.
    ///
    /// A partner with a trigger is outside the book, and triggering it cancels the other. Two
    /// partners in the book must be on opposite sides, because an incoming order meets one side
    /// only, and their prices must not cross.
    fn excludes(&self, other: &Self) -> bool {
        let are_limits = [self.order_type, other.order_type] == [OrderType::Limit; 2];
        let are_apart = match (self.side.is_buy(), other.side.is_buy()) {
            (true, false) => self.price < other.price,
            (false, true) => other.price < self.price,
            _ => false,
        };
        self.waits || other.waits || (are_limits && are_apart)
    }
}

impl Engine {
    /// Checks that a new order may have the parent and the partner that it names, or that a
    /// replacement may keep its original's partner.
    pub(crate) fn check_links(&self, asked: &Proposal) -> Result<(), RejectReason> {
        let Instructions { parent, partner, pricing, .. } = asked.instructions;
        let leg = OcoLeg {
            side: asked.side,
            waits: pricing.is_triggered(),
            order_type: asked.order_type,
            price: asked.price,
        };
        if let Some(original) = asked.original {
            // It keeps the links of its original.
            let contingent = self.contingents.find(original).map(|id| &self.contingents[id]);
            let Some(partner_id) = contingent.and_then(|it| it.partner_id.some()) else {
                return Ok(());
            };
            let slot = self.contingents[partner_id].slot;
            let excludes = leg.excludes(&self.oco_leg(slot, &self.pool[slot].order));
            return if excludes { Ok(()) } else { Err(RejectReason::InvalidLink) };
        }
        let live = |number| {
            let slot = self.find(OrderKey { user_ref_num: number, ..asked.key })?;
            let linked = &self.pool[slot].order;
            (linked.instrument_id == asked.instrument_id).then_some((slot, linked))
        };
        if parent != 0 {
            let (slot, parent) = live(parent).ok_or(RejectReason::InvalidLink)?;
            if parent.side().is_buy() == asked.side.is_buy() || self.has_most_children(slot) {
                return Err(RejectReason::InvalidLink);
            }
        }
        if partner != 0 {
            let (slot, other) = live(partner).ok_or(RejectReason::InvalidLink)?;
            let is_free = match self.contingents.find(slot) {
                Some(id) => self.contingents[id].partner_id.is_none(),
                None => true,
            };
            if partner == parent || !is_free || !leg.excludes(&self.oco_leg(slot, other)) {
                return Err(RejectReason::InvalidLink);
            }
        }
        Ok(())
    }

    /// True if an order may have no further child.
    fn has_most_children(&self, slot: Slot) -> bool {
        let first = self.contingents.find(slot).and_then(|id| self.contingents[id].children.some());
        let next = |id: &ContingentId| self.contingents.next(List::Family, *id);
        iter::successors(first, next).nth(CHILDREN_MAX - 1).is_some()
    }

    /// The OCO leg of a live order.
    fn oco_leg(&self, slot: Slot, order: &Order) -> OcoLeg {
        let contingent = self.contingents.find(slot).map(|id| &self.contingents[id]);
        let is_pegged = contingent.is_some_and(|it| it.instructions.pricing.is_pegged());
        OcoLeg {
            side: order.side(),
            waits: contingent.is_some_and(|it| it.instructions.pricing.is_triggered()),
            order_type: match contingent {
                Some(contingent) if !contingent.is_resting() || is_pegged => contingent.order_type,
                // It rests for an auction.
                _ if order.price() == Price::ZERO => OrderType::Market,
                _ => OrderType::Limit,
            },
            // The price of a pegged order is never beyond its limit.
            price: contingent.filter(|_| is_pegged).map_or(order.price(), |it| it.limit),
        }
    }

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
        let key = |number| OrderKey { user_ref_num: number, ..order.key };
        if instructions.parent != 0 {
            let slot = self.find(key(instructions.parent)).expect("links were checked");
            let parent_id = self.contingent_of(slot);
            self.adopt(parent_id, id);
        }
        if instructions.partner != 0 {
            let slot = self.find(key(instructions.partner)).expect("links were checked");
            let partner_id = self.contingent_of(slot);
            let partner = &mut self.contingents[partner_id];
            partner.partner_id = id;
            partner.instructions.partner = order.key.user_ref_num;
            self.contingents[id].partner_id = partner_id;
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
        let triggers = &mut self.triggers[usize::from(order.instrument_id.0) - 1];
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
        let instrument_id = order.instrument_id;
        if self.trading(instrument_id).is_uncrossing || self.comes_in_later(instrument_id) {
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
        let phase = self.trading(order.instrument_id).phase;
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

    /// Price sliding: a post-only order that would trade gets the nearest price at which it does
    /// not, if there is one and it may rest there.
    fn slide_price(
        &mut self,
        order: &mut Order,
        order_type: OrderType,
        emit: &mut dyn FnMut(Event),
    ) {
        let book = self.book_of(order);
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
    fn come_in_triggered(
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
            let book = self.book_of(&order);
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
            let triggers = &mut self.triggers[usize::from(order.instrument_id.0) - 1];
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

    /// Reports trades of an instrument to its stop book: the first price, the last, and possibly
    /// others between them that move in one direction.
    #[inline]
    pub(crate) fn note_trades(&mut self, instrument_id: InstrumentId, first: Price, last: Price) {
        let triggers = &mut self.triggers[usize::from(instrument_id.0) - 1];
        let (first, last) = (first.0 as u32, last.0 as u32);
        triggers.trade(&mut self.contingents, first, last);
    }

    /// Carries out the effects of the last command on other orders. While triggered or pegged orders
    /// are left over from an earlier command, no others act.
    #[inline]
    pub(crate) fn follow(&mut self, emit: &mut dyn FnMut(Event)) {
        if self.contingents.is_pending() {
            let moves = if self.contingents.pegs.is_behind() { 0 } else { MOVES_MAX };
            let triggered = if self.contingents.has_triggered_left { 0 } else { TRIGGERED_MAX };
            let is_behind = self.contingents.minimum_quantity_orders.is_behind;
            let checks = if is_behind { 0 } else { CHECKS_MAX };
            self.follow_all(triggered, moves, checks, emit);
        }
    }

    /// As [`follow`](Self::follow), with this many triggered orders, moves of pegged orders and
    /// tests of minimum-quantity orders; while an order is half matched, without the latter two.
    #[cold]
    pub(crate) fn follow_all(
        &mut self,
        triggered: usize,
        moves: usize,
        checks: usize,
        emit: &mut dyn FnMut(Event),
    ) {
        let (mut triggered_left, mut moves_left, mut checks_left) = (triggered, moves, checks);
        loop {
            if !self.half_matched.is_empty() {
                (moves_left, checks_left) = (0, 0);
            }
            if let Some(id) = self.contingents.next_noted() {
                self.follow_links(id, emit);
            } else if triggered_left != 0
                && let Some(id) = self.first_after_auctions()
            {
                triggered_left -= 1;
                self.come_in_after_auction(id, emit);
            } else if triggered_left != 0
                && let Some(id) = self.contingents.first_triggered()
            {
                triggered_left -= 1;
                self.contingents.triggered.pop_front();
                self.follow_trigger(id, emit);
            } else if self.compare_references() && moves_left != 0 {
                moves_left -= 1;
                self.follow_reference(emit);
            } else if checks_left != 0 && self.contingents.minimum_quantity_orders.is_pending() {
                checks_left -= 1;
                self.follow_minimum_quantity(emit);
            } else {
                let quantity = &mut self.contingents.minimum_quantity_orders;
                quantity.is_behind = quantity.is_pending();
                let has_triggered = self.contingents.first_triggered().is_some();
                self.contingents.has_triggered_left =
                    has_triggered || !self.auction_line.waiting.is_empty();
                return self.plan_resumption();
            }
        }
    }

    /// Enters a triggered order, or cancels it if its instrument takes no orders.
    fn follow_trigger(&mut self, id: ContingentId, emit: &mut dyn FnMut(Event)) {
        let Contingent { slot, instrument_id, turn, .. } = self.contingents[id];
        let phase = self.trading(instrument_id).phase;
        if !self.day.is_open() || phases::is_open(phase).is_err() {
            return self.cancel_all(slot, CancelReason::ImmediateOrCancel, emit);
        }
        let order = self.take(slot);
        self.come_in_triggered(order, id, turn.trigger, emit);
    }

    /// The effects on linked orders when an order has executed or is done.
    fn follow_links(&mut self, id: ContingentId, emit: &mut dyn FnMut(Event)) {
        if mem::take(&mut self.contingents[id].has_executed) {
            self.cancel_partner(id, emit);
        }
        if self.contingents[id].state != State::Done {
            return;
        }
        self.untie_partner(id);
        self.untie_parent(id);
        let mut children = mem::take(&mut self.contingents.family);
        let mut next = self.contingents[id].children.some();
        while let Some(child) = next {
            children.push(child);
            next = self.contingents.next(List::Family, child);
        }
        children.sort_unstable_by_key(|child| self.contingents[*child].order_id);
        let executed = self.contingents[id].executed;
        for child in children.drain(..) {
            self.untie_parent(child);
            if self.contingents[child].state == State::ForParent {
                self.release_held(child, self.contingents[id].key.user_ref_num, executed, emit);
            }
        }
        self.contingents.family = children;
        self.contingents.let_go(id);
    }

    /// The parent is done: releases as much of the child as the parent executed, and cancels the
    /// rest.
    fn release_held(
        &mut self,
        id: ContingentId,
        parent: u32,
        executed: Quantity,
        emit: &mut dyn FnMut(Event),
    ) {
        let slot = self.contingents[id].slot;
        let phase = self.trading(self.pool[slot].order.instrument_id).phase;
        // Its partner may have executed in the same command, with effects that come next.
        let partner_id = self.contingents[id].partner_id.some();
        let is_too_late = partner_id.is_some_and(|it| self.contingents[it].has_executed);
        let is_open = self.day.is_open() && phases::is_open(phase).is_ok();
        let Contingent { key, instrument_id, instructions, .. } = self.contingents[id];
        let has_room = !instructions.pricing.is_pegged()
            || self.has_room_for_peg(instrument_id, key.session_id);
        if executed.is_zero() || !is_open || is_too_late || !has_room {
            return self.cancel_all(slot, CancelReason::Linked, emit);
        }
        let excess = self.pool[slot].order.leaves().saturating_sub(executed);
        if !excess.is_zero() {
            self.cancel_some(slot, excess, CancelReason::Linked, emit);
        }
        let mut order = self.take(slot);
        let order_id_before = self.renumber(&mut order, id);
        emit(Event::Released(Released {
            key: order.key,
            order_id_before,
            order_id: order.order_id(),
            instrument_id: order.instrument_id,
            parent,
            leaves: order.leaves(),
        }));
        self.begin(order, id, emit);
    }

    /// Cancels the live partner of an order that executed or was triggered.
    fn cancel_partner(&mut self, id: ContingentId, emit: &mut dyn FnMut(Event)) {
        let Some(partner_id) = self.contingents[id].partner_id.some() else { return };
        // If the partner executed too, its effects on this order are still to come.
        if !self.contingents[partner_id].has_executed {
            self.untie_partner(id);
        }
        let partner = &self.contingents[partner_id];
        match partner.state {
            State::Resting
            | State::ForParent
            | State::ForTrigger
            | State::Triggered
            | State::ForReference
            | State::ForQuantity
            | State::ForAuction
            | State::HalfMatched => {
                self.cancel_when_possible(partner.slot, CancelReason::Linked, emit);
            }
            State::Done | State::Incoming => {}
        }
    }

    /// Unlinks an order and its partner.
    fn untie_partner(&mut self, id: ContingentId) {
        let Some(partner_id) = self.contingents[id].partner_id.some() else { return };
        for id in [id, partner_id] {
            let contingent = &mut self.contingents[id];
            contingent.partner_id = ContingentId::NONE;
            contingent.instructions.partner = 0;
        }
    }

    /// Unlinks an order from its parent.
    fn untie_parent(&mut self, id: ContingentId) {
        let Some(parent_id) = self.contingents[id].parent_id.some() else { return };
        let children = self.contingents[parent_id].children;
        self.contingents[parent_id].children = self.contingents.unlink(List::Family, children, id);
        let contingent = &mut self.contingents[id];
        contingent.parent_id = ContingentId::NONE;
        contingent.instructions.parent = 0;
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
            Some(new) if new.parent != 0 || new.partner != 0 => return None,
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

    /// Links a restored order to the orders that it names; the error is the field that names no
    /// valid order.
    pub(crate) fn restore_links(&mut self, id: ContingentId) -> Result<(), &'static str> {
        let Contingent { key, instructions, partner_id, .. } = self.contingents[id];
        let find = |engine: &Self, number| {
            let slot = engine.find(OrderKey { user_ref_num: number, ..key })?;
            (slot != engine.contingents[id].slot).then_some(slot)
        };
        if instructions.parent != 0 {
            let slot = find(self, instructions.parent).ok_or("parent")?;
            let parent_id = self.contingent_of(slot);
            self.adopt(parent_id, id);
        }
        if instructions.partner != 0 && partner_id.is_none() {
            let slot = find(self, instructions.partner).ok_or("partner")?;
            let other = self.contingent_of(slot);
            let is_mutual = self.contingents[other].instructions.partner == key.user_ref_num;
            if !is_mutual || !self.contingents[other].partner_id.is_none() {
                return Err("partner");
            }
            self.contingents[id].partner_id = other;
            self.contingents[other].partner_id = id;
        }
        Ok(())
    }

    /// Links an order to its parent.
    fn adopt(&mut self, parent_id: ContingentId, id: ContingentId) {
        let children = self.contingents[parent_id].children;
        self.contingents[parent_id].children = self.contingents.push(List::Family, children, id);
        self.contingents[id].parent_id = parent_id;
    }

    /// A contingent replacement rests at once.
    pub(crate) fn rest_contingent(&mut self, mut order: Order, id: ContingentId) {
        let instructions = self.contingents[id].instructions;
        let (slot, _) = self.add(&mut order, &instructions);
        self.contingents.place(id, slot, State::Resting, &order);
    }
}
