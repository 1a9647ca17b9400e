//! Linked orders: of the two partners of an OCO one may execute; the children of an OTO are released
//! when their parent is done.
//!
//! Invariant: between commands, linked orders are live, and both records have the link.

use core::{iter, mem};

use market::{
    CancelReason, Event, Instructions, OrderKey, OrderType, Price, Quantity, RejectReason,
    Released, Side,
};

use crate::{
    Engine,
    auction::phases,
    book::pool::Slot,
    contingent::instructions::{Contingent, ContingentId, List, State},
    intake::classify::Proposal,
    order::Order,
};

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

    /// Links an accepted order to the parent and the partner that it names.
    pub(crate) fn link(&mut self, key: OrderKey, instructions: &Instructions, id: ContingentId) {
        let named = |engine: &Self, number| {
            engine.find(OrderKey { user_ref_num: number, ..key }).expect("links were checked")
        };
        if instructions.parent != 0 {
            let parent_id = self.contingent_of(named(self, instructions.parent));
            self.adopt(parent_id, id);
        }
        if instructions.partner != 0 {
            let partner_id = self.contingent_of(named(self, instructions.partner));
            let partner = &mut self.contingents[partner_id];
            partner.partner_id = id;
            partner.instructions.partner = key.user_ref_num;
            self.contingents[id].partner_id = partner_id;
        }
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

    /// The effects on linked orders when an order has executed or is done.
    pub(crate) fn follow_links(&mut self, id: ContingentId, emit: &mut dyn FnMut(Event)) {
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

    /// After the parent is done: releases as many lots of the child as the parent executed, and cancels the rest.
    fn release_held(
        &mut self,
        id: ContingentId,
        parent: u32,
        executed: Quantity,
        emit: &mut dyn FnMut(Event),
    ) {
        let slot = self.contingents[id].slot;
        let phase = self.books[self.pool[slot].order.instrument_id].trading.phase;
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
    pub(crate) fn cancel_partner(&mut self, id: ContingentId, emit: &mut dyn FnMut(Event)) {
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
}
