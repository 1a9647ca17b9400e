//! Live orders: adding, changing and removing one, with everything that refers to it.
//!
//! Invariant: book, session, money and iceberg agree on which orders are live.

use market::{Display, Firm, Instructions, Phase, Quantity, Shown};

use crate::{
    Engine,
    book::pool::Slot,
    intake::session::Sessions,
    order::{ForAuction, Order},
};

impl Engine {
    /// Adds a resting order to the book and its session; returns its slot and the lots shown.
    #[inline]
    pub(crate) fn add(
        &mut self,
        order: &mut Order,
        instructions: &Instructions,
    ) -> (Slot, Quantity) {
        order.set_iceberg(!instructions.shown_quantity.is_zero() && !order.is_for_auction());
        let slot = self.rest(order);
        self.sessions.owner_mut(order.key).add_live(order.key, slot);
        self.money.add_live(order.key.session_id);
        let shown = match order.is_iceberg() {
            true => self.icebergs.add(slot, order, instructions),
            false => order.shown_whole(),
        };
        (slot, shown)
    }

    /// Adds a resting order.
    #[inline(never)]
    pub(crate) fn rest(&mut self, order: &Order) -> Slot {
        let book = &mut self.books[order.instrument_id];
        let slot = book.add(&mut self.pool, order);
        if book.is_counted {
            book.count_added(&self.pool, slot);
        }
        if book.trading.phase == Phase::Continuous {
            book.check_not_crossed();
        }
        self.touch(order.instrument_id);
        self.note_minimum_quantity(order.instrument_id);
        slot
    }

    /// Removes a live order that is done; `order` is the order in the slot.
    #[inline(always)]
    pub(crate) fn remove(&mut self, slot: Slot, order: &Order) {
        let id = order.is_contingent().then(|| self.contingents.of(slot));
        self.take_out(slot, order);
        if let Some(id) = id {
            self.contingents.finish(id, order.executed());
        }
    }

    /// Removes a live order from its place in the book or outside; returns it.
    pub(crate) fn take(&mut self, slot: Slot) -> Order {
        let order = self.pool[slot].order;
        self.take_out(slot, &order);
        order
    }

    /// As [`take`](Self::take); `order` is the order in the slot.
    #[inline(always)]
    fn take_out(&mut self, slot: Slot, order: &Order) {
        if !order.is_contingent() || self.lift(slot) {
            let book = &mut self.books[order.instrument_id];
            if book.is_counted {
                book.count_removed(&self.pool, slot);
            }
            book.remove(&mut self.pool, slot, order);
            self.touch(order.instrument_id);
        } else {
            self.pool.remove(slot);
        }
        self.sessions.owner_mut(order.key).remove_live(order.key);
        self.money.remove_live(order.key.session_id);
        if order.is_iceberg() {
            self.icebergs.remove(slot);
        }
    }

    /// Reduces a resting order in place, or changes its kind of sell; removes it if no lots are
    /// open. Returns the lots that the feed shows of it.
    #[inline]
    pub(crate) fn change(&mut self, slot: Slot, after: Order) -> Shown {
        let before = &self.pool[slot].order;
        let shown = match before.is_iceberg() {
            true => self.icebergs.reduce(slot, &after),
            false if !self.is_booked(slot) => Shown::NONE,
            false => after.shown_since(before.leaves()),
        };
        if after.is_done() {
            let before = self.pool[slot].order;
            self.remove(slot, &before);
            return shown;
        }
        if self.books[after.instrument_id].is_counted && self.is_booked(slot) {
            let lots = Quantity(self.pool[slot].order.leaves().0 - after.leaves().0);
            self.books[after.instrument_id].count_reduced(&after, lots);
        }
        let order = &mut self.pool[slot].order;
        *order = after;
        shown
    }

    /// Lots of a resting order that the feed shows.
    pub(crate) fn shown(&self, slot: Slot) -> Quantity {
        self.shown_of(slot, &self.pool[slot].order)
    }

    /// As [`shown`](Self::shown); `order` is the order in the slot.
    #[inline(always)]
    pub(crate) fn shown_of(&self, slot: Slot, order: &Order) -> Quantity {
        match order.is_iceberg() {
            true => self.icebergs.get(slot).shown.quantity(),
            false => order.shown_whole(),
        }
    }

    /// The instructions that a replacement with this display keeps if the replace names none.
    pub(crate) fn kept(&self, slot: Slot, display: Display) -> Instructions {
        let contingent = self.contingents.find(slot).map(|id| &self.contingents[id]);
        let instructions =
            contingent.map_or(Instructions::NONE, |contingent| contingent.instructions);
        // Rule 26.7: nothing is shown of an order that rests beside the book.
        let is_beside =
            self.pool[slot].order.for_auction() != ForAuction::No && self.is_booked(slot);
        if !display.is_displayed() || is_beside {
            return instructions.without_shown();
        }
        if !self.pool[slot].order.is_iceberg() {
            return instructions;
        }
        let Instructions { shown_quantity, shown_range, .. } =
            self.icebergs.get(slot).instructions();
        Instructions { shown_quantity, shown_range, ..instructions }
    }

    /// The firm that the feed shows for an order; blank if unattributed.
    #[inline]
    pub(crate) fn attribution(&self, order: &Order) -> Firm {
        attribution(&self.sessions, order)
    }

    /// True if both are on the feed with the same attribution.
    pub(crate) fn shown_alike(&self, one: &Order, other: &Order) -> bool {
        one.is_displayed()
            && other.is_displayed()
            && self.attribution(one) == self.attribution(other)
    }
}

/// The firm that the feed shows for an order; blank if unattributed.
#[inline]
pub(crate) fn attribution(sessions: &Sessions, order: &Order) -> Firm {
    match order.display() {
        _ if order.for_auction() != ForAuction::No => Firm::BLANK,
        Display::Attributable => sessions.owner(order.key).resolve(order.firm),
        Display::Visible | Display::Hidden => Firm::BLANK,
    }
}
