//! A live order comes to rest, changes and leaves; all that refers to it changes with it.
//!
//! Invariant: book, session, money, iceberg and state hash agree on which orders are live.

use market::{Display, Firm, Instructions, Lots, OrderId, Phase, Quantity, Shown};

use crate::{
    Engine,
    book::{Book, pool::Slot},
    intake::session::Sessions,
    order::{Order, Waits},
};

impl Engine {
    /// An order rests now, and its session knows it; where, and how much of it is shown.
    #[inline]
    pub(crate) fn add(
        &mut self,
        order: &mut Order,
        instructions: &Instructions,
    ) -> (Slot, Quantity) {
        order.is_reserve = instructions.shown_quantity != Lots::ZERO && order.waits() == Waits::No;
        let slot = self.rest(order);
        self.sessions.owner_mut(order.key).add_live(order.key, slot);
        self.money.add_live(order.key.session_id);
        let shown = match order.is_reserve {
            true => self.reserves.add(slot, order, instructions, &mut self.hash),
            false => order.shown_whole(),
        };
        (slot, shown)
    }

    /// An order rests now.
    #[inline(never)]
    pub(crate) fn rest(&mut self, order: &Order) -> Slot {
        let book = &mut self.books[usize::from(order.instrument_id.0) - 1];
        let slot = book.add(&mut self.pool, order);
        if book.trading.phase == Phase::Continuous {
            book.check_not_crossed();
        }
        self.hash.add(order.hash());
        self.touch(order.instrument_id);
        self.note_patients(order.instrument_id);
        slot
    }

    /// A live order is done; as it was then.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) -> Order {
        if self.pool[slot].order.is_instructed {
            let id = self.standings.of(slot);
            let order = self.take(slot);
            self.standings.finish(id, order.executed());
            return order;
        }
        self.take(slot)
    }

    /// A live order leaves its place, in the book or outside, whatever becomes of it.
    pub(crate) fn take(&mut self, slot: Slot) -> Order {
        let order = self.pool[slot].order;
        if !order.is_instructed || self.lift(slot, &order) {
            let book = &mut self.books[usize::from(order.instrument_id.0) - 1];
            book.remove(&mut self.pool, slot);
            self.touch(order.instrument_id);
        } else {
            self.pool.remove(slot);
        }
        self.sessions.owner_mut(order.key).remove_live(order.key);
        self.money.remove_live(order.key.session_id);
        self.hash.remove(order.hash());
        if order.is_reserve {
            self.reserves.remove(slot, &order, &mut self.hash);
        }
        order
    }

    /// A resting order keeps its place with less open or another kind of sell; or, with nothing
    /// open, rests no more. Says what is shown of it.
    #[inline]
    pub(crate) fn change(&mut self, slot: Slot, after: Order) -> Shown {
        let before = &self.pool[slot].order;
        let shown = match before.is_reserve {
            true => self.reserves.reduce(slot, &after, &mut self.hash),
            false if !self.is_booked(slot) => Shown::NONE,
            false => after.shown_since(before.leaves()),
        };
        if after.is_done() {
            self.remove(slot);
            return shown;
        }
        let order = &mut self.pool[slot].order;
        self.hash.change(order.hash(), after.hash());
        *order = after;
        shown
    }

    /// Lots of a resting order that the feed shows.
    pub(crate) fn shown(&self, slot: Slot) -> Quantity {
        let order = &self.pool[slot].order;
        match order.is_reserve {
            true => self.reserves.get(slot).shown.quantity(),
            false => order.shown_whole(),
        }
    }

    /// What an order is told that is shown like this: what the replacement is told of which the
    /// replace says nothing.
    pub(crate) fn kept(&self, slot: Slot, display: Display) -> Instructions {
        let standing = self.standings.find(slot).map(|id| &self.standings[id]);
        let told = standing.map_or(Instructions::NONE, |standing| standing.instructions);
        // 26.7: nothing is shown of one that rests beside the book.
        let is_beside = self.pool[slot].order.waits() != Waits::No && self.is_booked(slot);
        if !display.is_displayed() || is_beside {
            return told.without_shown();
        }
        if !self.pool[slot].order.is_reserve {
            return told;
        }
        let Instructions { shown_quantity, shown_range, .. } =
            self.reserves.get(slot).instructions();
        Instructions { shown_quantity, shown_range, ..told }
    }

    #[inline]
    pub(crate) fn next_order_id(&mut self) -> OrderId {
        self.order_id_last.0 += 1;
        self.order_id_last
    }

    #[inline]
    pub(crate) fn book_of(&self, order: &Order) -> &Book {
        &self.books[usize::from(order.instrument_id.0) - 1]
    }

    /// The firm under whose name an order is shown; blank if without a name.
    #[inline]
    pub(crate) fn attribution(&self, order: &Order) -> Firm {
        attribution(&self.sessions, order)
    }

    /// Are both on the feed, and under one name or none?
    pub(crate) fn shown_alike(&self, one: &Order, other: &Order) -> bool {
        one.is_displayed()
            && other.is_displayed()
            && self.attribution(one) == self.attribution(other)
    }
}

/// The firm under whose name an order is shown; blank if without a name.
#[inline]
pub(crate) fn attribution(sessions: &Sessions, order: &Order) -> Firm {
    match order.display {
        _ if order.waits() != Waits::No => Firm::BLANK,
        Display::Attributable => sessions.owner(order.key).resolve(order.firm),
        Display::Visible | Display::Hidden => Firm::BLANK,
    }
}
