//! Orders that are told more than their limit: how they are tied to each other, how they come to
//! wait outside the book, and how what happens in a command makes them come in.
//!
//! What follows from a command for other orders happens when the command is done, in
//! [`Engine::follow`]: first for orders tied to those that executed or are done, in that order, then
//! for the orders that were triggered, then for those whose price follows the market, then for those
//! that wait until they can trade enough, one after the other; what follows from each comes before the
//! next. It ends, for whatever comes in waited before, and nothing that follows from a command enters a
//! new order; why orders that follow the market come to rest is told in [`pegs`](mod@crate::contingent::pegs).

use core::mem;

use market::{
    CancelReason, Event, Instructions, InstrumentId, Lots, OrderId, OrderKey, OrderType, Phase,
    Price, Pricing, Quantity, RejectReason, Released, ReplaceTerms, RestateReason, Side, Ticks,
    TimeInForce, Triggered,
};

use crate::{
    Engine,
    auction::phases,
    book::pool::Slot,
    contingent::instructions::{List, Standing, StandingId, State},
    intake::classify::{EntryTerms, Proposal},
    order::{Order, Waits},
};

/// One of two orders of which only one may execute.
struct Half {
    side: Side,
    /// True if it waits for a trigger.
    waits: bool,
    order_type: OrderType,
    price: Price,
}

impl Half {
    /// Can it be made sure that one command never executes both?
    ///
    /// Where one of them waits for a trigger it is not in the book, and when it is triggered the
    /// other one is canceled. Two that are both in the book must be on its two sides, for an order
    /// that comes in meets one side only, and must not meet each other.
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
    /// May a new order wait for the one that it names, and be one of two with the other that it
    /// names? May a replacement take the place of its original beside its partner?
    pub(crate) fn check_links(&self, asked: &Proposal) -> Result<(), RejectReason> {
        let Instructions { parent, partner, pricing, .. } = asked.instructions;
        let half = Half {
            side: asked.side,
            waits: pricing.is_triggered(),
            order_type: asked.order_type,
            price: asked.price,
        };
        if let Some(original) = asked.original {
            // It keeps the links of its original.
            let standing = self.standings.find(original).map(|id| &self.standings[id]);
            let Some(partner_id) = standing.and_then(|it| it.partner_id.some()) else {
                return Ok(());
            };
            let slot = self.standings[partner_id].slot;
            let excludes = half.excludes(&self.half(slot, &self.pool[slot].order));
            return if excludes { Ok(()) } else { Err(RejectReason::InvalidLink) };
        }
        let live = |number| {
            let slot = self.find(OrderKey { user_ref_num: number, ..asked.key })?;
            let linked = &self.pool[slot].order;
            (linked.instrument_id == asked.instrument_id).then_some((slot, linked))
        };
        if parent != 0 {
            let (_, parent) = live(parent).ok_or(RejectReason::InvalidLink)?;
            if parent.side.is_buy() == asked.side.is_buy() {
                return Err(RejectReason::InvalidLink);
            }
        }
        if partner != 0 {
            let (slot, other) = live(partner).ok_or(RejectReason::InvalidLink)?;
            let is_free = match self.standings.find(slot) {
                Some(id) => self.standings[id].partner_id.is_none(),
                None => true,
            };
            if partner == parent || !is_free || !half.excludes(&self.half(slot, other)) {
                return Err(RejectReason::InvalidLink);
            }
        }
        Ok(())
    }

    /// What a live order is to a partner.
    fn half(&self, slot: Slot, order: &Order) -> Half {
        let standing = self.standings.find(slot).map(|id| &self.standings[id]);
        let is_pegged = standing.is_some_and(|it| it.instructions.pricing.is_pegged());
        Half {
            side: order.side,
            waits: standing.is_some_and(|it| it.instructions.pricing.is_triggered()),
            order_type: match standing {
                Some(standing) if !standing.is_resting() || is_pegged => standing.order_type,
                // It rests for an auction.
                _ if order.price() == Price::ZERO => OrderType::Market,
                _ => OrderType::Limit,
            },
            // No price that one has which follows the market is beyond its limit.
            price: standing.filter(|_| is_pegged).map_or(order.price(), |it| it.limit),
        }
    }

    /// A contingent order was accepted.
    pub(crate) fn enter_contingent(
        &mut self,
        mut order: Order,
        terms: &EntryTerms,
        emit: &mut dyn FnMut(Event),
    ) {
        let instructions = &terms.instructions;
        let mut standing =
            Standing::new(&order, *instructions, terms.order_type, terms.minimum_quantity);
        if instructions.pricing.is_pegged() {
            standing.limit = order.price();
            order.set_price(Price::ZERO);
        }
        let id = self.standings.add(standing);
        // One without a limit reserves when it comes in.
        self.reserve(&order, terms, 0, emit);
        let key = |number| OrderKey { user_ref_num: number, ..order.key };
        if instructions.parent != 0 {
            let slot = self.find(key(instructions.parent)).expect("links were checked");
            let parent_id = self.standing_of(slot);
            self.adopt(parent_id, id);
        }
        if instructions.partner != 0 {
            let slot = self.find(key(instructions.partner)).expect("links were checked");
            let partner_id = self.standing_of(slot);
            self.standings.change(partner_id, &mut self.hash, |partner| {
                partner.partner_id = id;
                partner.instructions.partner = order.key.user_ref_num;
            });
            self.standings[id].partner_id = partner_id;
        }
        self.begin(order, id, emit);
    }

    /// The standing of a live order, which gets one if it was told nothing so far.
    pub(crate) fn standing_of(&mut self, slot: Slot) -> StandingId {
        let order = &mut self.pool[slot].order;
        if order.is_instructed {
            let id = self.standings.of(slot);
            self.standings[id].forget();
            return id;
        }
        order.is_instructed = true;
        let standing = Standing::new(order, Instructions::NONE, OrderType::Limit, Lots::ZERO);
        let id = self.standings.add(standing);
        self.standings.settle(id, slot, State::Resting, &mut self.hash);
        id
    }

    /// An order that is told something, and is in no slot, waits or comes in, as it is told.
    pub(crate) fn begin(&mut self, order: Order, id: StandingId, emit: &mut dyn FnMut(Event)) {
        let standing = &self.standings[id];
        if !standing.parent_id.is_none() {
            return self.hold(order, id, State::ForParent);
        }
        if standing.instructions.pricing.is_pegged() {
            return self.begin_pegged(order, id, emit);
        }
        if !standing.instructions.pricing.is_triggered() {
            return self.come_in(order, id, emit);
        }
        let triggers = &mut self.triggers[usize::from(order.instrument_id.0) - 1];
        match triggers.met(order.side, standing) {
            Some(trigger) => self.come_in_triggered(order, id, trigger, emit),
            None => {
                triggers.add(&mut self.standings, &mut self.hash, order.side, id);
                self.hold(order, id, State::ForTrigger);
            }
        }
    }

    /// An order waits outside the book: live, and in a slot, but in no queue.
    pub(crate) fn hold(&mut self, mut order: Order, id: StandingId, state: State) {
        // For which auction it is, if for one, is decided when it comes in.
        order.set_waits(Waits::No);
        let slot = self.pool.add(|| order, Slot::NONE);
        self.sessions.owner_mut(order.key).add_live(order.key, slot);
        self.money.add_live(order.key.session_id);
        self.hash.add(order.hash());
        self.standings.settle(id, slot, state, &mut self.hash);
    }

    /// An order that waits for nothing any more trades and rests like any other.
    pub(crate) fn come_in(
        &mut self,
        mut order: Order,
        id: StandingId,
        emit: &mut dyn FnMut(Event),
    ) {
        let Standing { order_type, minimum_quantity, instructions, .. } = self.standings[id];
        let mut terms = EntryTerms { order_type, minimum_quantity, instructions };
        let phase = self.trading(order.instrument_id).phase;
        let class = terms.class(phase, order.time_in_force);
        order.set_waits(class.auction);
        if phases::takes(phase, order.time_in_force, &class).is_err() {
            // Only a pause that this command brought about can be in its way.
            self.cancel_at_once(&order, CancelReason::ImmediateOrCancel, emit);
            return self.standings.finish(id, order.executed());
        }
        if class.auction != Waits::No {
            // Nothing is shown of an order for an auction, nor of what replaces it.
            self.standings[id].instructions = instructions.without_shown();
        }
        if self.check_bounded(order.instrument_id, order.side, &class).is_err() {
            self.cancel_at_once(&order, CancelReason::Unpaid, emit);
            return self.standings.finish(id, order.executed());
        }
        if order_type.is_priceless() && !self.reserve_walk(&order, order_type, emit) {
            self.cancel_at_once(&order, CancelReason::Unpaid, emit);
            return self.standings.finish(id, order.executed());
        }
        if class.waits_for_quantity {
            if !self.has_enough(&order, id) {
                return self.wait_for_quantity(order, id, emit);
            }
            // What is left of it when it has traded so much rests like any other.
            self.standings[id].minimum_quantity = Lots::ZERO;
            terms.minimum_quantity = Lots::ZERO;
        } else if instructions.all_or_none {
            terms.minimum_quantity = order.leaves().lots();
        }
        if order.post_only() && instructions.slide {
            self.slide(&mut order, order_type, emit);
        }
        let executed_before = order.executed();
        let came_in = self.trade_and_rest(order, &terms, emit);
        if executed_before < came_in.executed {
            self.standings.execute(id);
        }
        match came_in.rested {
            Some(slot) => self.standings.settle(id, slot, State::Resting, &mut self.hash),
            None => self.standings.finish(id, came_in.executed),
        }
    }

    /// A post-only order that would trade is given the nearest price at which it does not, if there
    /// is one and it may rest there.
    fn slide(&mut self, order: &mut Order, order_type: OrderType, emit: &mut dyn FnMut(Event)) {
        let book = self.book_of(order);
        let rests_now = order_type == OrderType::Limit
            && order.time_in_force.may_rest()
            && book.trading.phase == Phase::Continuous;
        if !rests_now || !book.would_cross(order.side, Some(order.price())) {
            return;
        }
        let Some(price) = book.price_beside_opposite(order.side) else { return };
        let before = *order;
        order.set_price(price);
        emit(Event::Restated(order.restated_unseen(order.order_id, RestateReason::Repriced)));
        self.money.follow_price(&before, order, &mut self.hash, emit);
    }

    /// The market traded at the trigger of an order, which is in no slot.
    fn come_in_triggered(
        &mut self,
        mut order: Order,
        id: StandingId,
        trigger: u32,
        emit: &mut dyn FnMut(Event),
    ) {
        let Standing { order_type, instructions: told, .. } = self.standings[id];
        if told.pricing == Pricing::TrailingStop && order_type == OrderType::Limit {
            // Its limit keeps its distance to the trigger, within the prices that there are.
            let moved = i64::from(trigger) - i64::from(told.trigger.0);
            let book = self.book_of(&order);
            let price = (order.price().0 as i64 + moved)
                .clamp(book.price_lowest().0 as i64, book.price_highest().0 as i64);
            let before = order;
            order.set_price(Price(price as u64));
            self.money.follow_price(&before, &order, &mut self.hash, emit);
        }
        let order_id_before = self.renumber(&mut order, id);
        self.standings[id].instructions =
            Instructions { pricing: Pricing::Limit, trigger: Ticks::ZERO, offset: 0, ..told };
        emit(Event::Triggered(Triggered {
            key: order.key,
            order_id_before,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            trigger: Price(trigger.into()),
            price: order.price(),
        }));
        self.cancel_partner(id, emit);
        self.come_in(order, id, emit);
    }

    /// Gives an order that waited a new order id, as that of one that came just now: priority is the
    /// order of the ids.
    pub(crate) fn renumber(&mut self, order: &mut Order, id: StandingId) -> OrderId {
        let order_id = self.next_order_id();
        self.standings[id].order_id = order_id;
        mem::replace(&mut order.order_id, order_id)
    }

    /// An order that is told something leaves its place; true if that was in the book.
    pub(crate) fn lift(&mut self, slot: Slot, order: &Order) -> bool {
        let id = self.standings.of(slot);
        let state = self.standings[id].state;
        if state == State::ForTrigger {
            let triggers = &mut self.triggers[usize::from(order.instrument_id.0) - 1];
            triggers.remove(&mut self.standings, &mut self.hash, order.side, id);
        }
        if state == State::ForQuantity {
            self.remove_patient(order.instrument_id, id);
        }
        self.standings.lift(id, &mut self.hash);
        state == State::Resting
    }

    /// A resting order that is told something has executed in an auction; it leaves if that was all.
    pub(crate) fn execute_instructed(&mut self, slot: Slot, after: &Order) {
        let id = self.standings.of(slot);
        self.standings.execute(id);
        self.hash.change(self.pool[slot].order.hash(), after.hash());
        self.pool[slot].order = *after;
        if after.is_done() {
            self.remove(slot);
        }
    }

    /// True if an order of an instrument waits outside the book. Costs time in proportion to all that
    /// are told something.
    pub(crate) fn has_waiting(&self, instrument_id: InstrumentId) -> bool {
        self.standings.iter().map(|id| &self.standings[id]).any(|standing| {
            let order = &self.pool[standing.slot].order;
            !standing.is_resting() && order.instrument_id == instrument_id
        })
    }

    /// True if a live order is in the book.
    pub(crate) fn is_booked(&self, slot: Slot) -> bool {
        !self.pool[slot].order.is_instructed || self.standings[self.standings.of(slot)].is_resting()
    }

    /// The market traded in an instrument, at the first of these prices, at the last, and perhaps at
    /// others between them that go one way.
    #[inline]
    pub(crate) fn note_trades(&mut self, instrument_id: InstrumentId, first: Price, last: Price) {
        let triggers = &mut self.triggers[usize::from(instrument_id.0) - 1];
        let (first, last) = (first.0 as u32, last.0 as u32);
        triggers.trade(&mut self.standings, &mut self.hash, first, last);
    }

    /// Does all that follows for other orders from what has happened.
    #[inline]
    pub(crate) fn follow(&mut self, emit: &mut dyn FnMut(Event)) {
        if self.standings.is_pending() {
            self.follow_all(emit);
        }
    }

    #[cold]
    fn follow_all(&mut self, emit: &mut dyn FnMut(Event)) {
        loop {
            if let Some(id) = self.standings.next_noted() {
                self.follow_links(id, emit);
            } else if let Some((id, order_id, trigger)) = self.standings.triggered.pop_front() {
                self.follow_trigger(id, order_id, trigger, emit);
            } else if self.standings.pegs.is_pending() {
                self.follow_reference(emit);
            } else if self.standings.patients.is_pending() {
                self.follow_patients(emit);
            } else {
                return;
            }
        }
    }

    /// An order that was triggered comes in, unless it is no more.
    fn follow_trigger(
        &mut self,
        id: StandingId,
        order_id: OrderId,
        trigger: u32,
        emit: &mut dyn FnMut(Event),
    ) {
        let standing = &self.standings[id];
        if standing.state == State::Triggered && standing.order_id == order_id {
            let order = self.take(standing.slot);
            self.come_in_triggered(order, id, trigger, emit);
        }
    }

    /// What it means for orders tied to it that an order has executed or is done.
    fn follow_links(&mut self, id: StandingId, emit: &mut dyn FnMut(Event)) {
        if mem::take(&mut self.standings[id].has_executed) {
            self.cancel_partner(id, emit);
        }
        if self.standings[id].state != State::Done {
            return;
        }
        self.untie_partner(id);
        self.untie_parent(id);
        let mut children = mem::take(&mut self.standings.family);
        let mut next = self.standings[id].children.some();
        while let Some(child) = next {
            children.push(child);
            next = self.standings.next(List::Family, child);
        }
        children.sort_unstable_by_key(|child| self.standings[*child].order_id);
        let executed = self.standings[id].executed;
        for child in children.drain(..) {
            self.untie_parent(child);
            if self.standings[child].state == State::ForParent {
                self.release_held(child, self.standings[id].key.user_ref_num, executed, emit);
            }
        }
        self.standings.family = children;
        self.standings.let_go(id);
    }

    /// The parent of an order is done, and has executed so much: so much of the order is no longer
    /// held.
    fn release_held(
        &mut self,
        id: StandingId,
        parent: u32,
        executed: Quantity,
        emit: &mut dyn FnMut(Event),
    ) {
        let slot = self.standings[id].slot;
        let phase = self.trading(self.pool[slot].order.instrument_id).phase;
        // Its partner may have executed in the same command, and what follows from that be next.
        let partner_id = self.standings[id].partner_id.some();
        let is_too_late = partner_id.is_some_and(|it| self.standings[it].has_executed);
        let is_open = self.day.is_open() && phases::is_open(phase).is_ok();
        if executed.is_zero() || !is_open || is_too_late {
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
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            parent,
            leaves: order.leaves(),
        }));
        self.begin(order, id, emit);
    }

    /// The partner of an order that has executed or was triggered is canceled, if it is live.
    fn cancel_partner(&mut self, id: StandingId, emit: &mut dyn FnMut(Event)) {
        let Some(partner_id) = self.standings[id].partner_id.some() else { return };
        // If it has executed as well, what that means for this one is still to happen.
        if !self.standings[partner_id].has_executed {
            self.untie_partner(id);
        }
        let partner = &self.standings[partner_id];
        match partner.state {
            State::Resting
            | State::ForParent
            | State::ForTrigger
            | State::Triggered
            | State::ForReference
            | State::ForQuantity => {
                self.cancel_all(partner.slot, CancelReason::Linked, emit);
            }
            State::Done | State::Incoming => {}
        }
    }

    /// An order has no partner any more, nor has that one.
    fn untie_partner(&mut self, id: StandingId) {
        let Some(partner_id) = self.standings[id].partner_id.some() else { return };
        for id in [id, partner_id] {
            self.standings.change(id, &mut self.hash, |standing| {
                standing.partner_id = StandingId::NONE;
                standing.instructions.partner = 0;
            });
        }
    }

    /// An order waits for no other any more.
    fn untie_parent(&mut self, id: StandingId) {
        let Some(parent_id) = self.standings[id].parent_id.some() else { return };
        let children = self.standings[parent_id].children;
        self.standings[parent_id].children = self.standings.unlink(List::Family, children, id);
        self.standings.change(id, &mut self.hash, |standing| {
            standing.parent_id = StandingId::NONE;
            standing.instructions.parent = 0;
        });
    }

    /// What the replacement of an order is told: what the replace says, or what the order was told;
    /// its links stay. `None` if it cannot be told that.
    pub(crate) fn instructions_of_replacement(
        &self,
        slot: Slot,
        terms: &ReplaceTerms,
    ) -> Option<Instructions> {
        let told = self.kept(slot, terms.display);
        let Instructions { parent, partner, .. } = told;
        let new = match terms.instructions {
            Some(new) if new.parent != 0 || new.partner != 0 => return None,
            Some(new) => Instructions { parent, partner, ..new },
            None if terms.time_in_force == TimeInForce::GoodTillTime => told,
            None => Instructions { expires_s: 0, ..told },
        };
        Some(new)
    }

    /// A replacement takes over the standing of its original, which is in no slot.
    pub(crate) fn rename(
        &mut self,
        id: StandingId,
        replacement: &Order,
        terms: &EntryTerms,
        limit: Price,
    ) {
        let instructions = terms.instructions;
        self.standings.expire_at(id, instructions.expires_s);
        let standing = &mut self.standings[id];
        standing.limit = if instructions.pricing.is_pegged() { limit } else { Price::ZERO };
        standing.key = replacement.key;
        standing.order_id = replacement.order_id;
        standing.instructions = instructions;
        standing.order_type = terms.order_type;
        standing.minimum_quantity = terms.minimum_quantity;
        let number = replacement.key.user_ref_num;
        if let Some(partner_id) = standing.partner_id.some() {
            self.standings.change(partner_id, &mut self.hash, |partner| {
                partner.instructions.partner = number;
            });
        }
        let mut next = self.standings[id].children.some();
        while let Some(child) = next {
            self.standings.change(child, &mut self.hash, |child| {
                child.instructions.parent = number;
            });
            next = self.standings.next(List::Family, child);
        }
    }

    /// Ties an order, which was restored, to those that it names; the field that names no order it
    /// can be tied to.
    pub(crate) fn restore_links(&mut self, id: StandingId) -> Result<(), &'static str> {
        let Standing { key, instructions, partner_id, .. } = self.standings[id];
        let find = |engine: &Self, number| {
            let slot = engine.find(OrderKey { user_ref_num: number, ..key })?;
            (slot != engine.standings[id].slot).then_some(slot)
        };
        if instructions.parent != 0 {
            let slot = find(self, instructions.parent).ok_or("parent")?;
            let parent_id = self.standing_of(slot);
            self.adopt(parent_id, id);
        }
        if instructions.partner != 0 && partner_id.is_none() {
            let slot = find(self, instructions.partner).ok_or("partner")?;
            let other = self.standing_of(slot);
            let is_mutual = self.standings[other].instructions.partner == key.user_ref_num;
            if !is_mutual || !self.standings[other].partner_id.is_none() {
                return Err("partner");
            }
            self.standings[id].partner_id = other;
            self.standings[other].partner_id = id;
        }
        Ok(())
    }

    /// An order waits for another from now on.
    fn adopt(&mut self, parent_id: StandingId, id: StandingId) {
        let children = self.standings[parent_id].children;
        self.standings[parent_id].children = self.standings.push(List::Family, children, id);
        self.standings[id].parent_id = parent_id;
    }

    /// A replacement that is told something rests at once.
    pub(crate) fn rest_instructed(&mut self, mut order: Order, id: StandingId) {
        let instructions = self.standings[id].instructions;
        let (slot, _) = self.add(&mut order, &instructions);
        self.standings.settle(id, slot, State::Resting, &mut self.hash);
    }
}
