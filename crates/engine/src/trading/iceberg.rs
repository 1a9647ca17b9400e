//! Icebergs: orders that show a part of their quantity; the rest is their reserve.
//!
//! The shown part is stored here by slot, so that other orders need no room for it. An iceberg
//! offers its shown part; once that is filled the next part is shown, under a new order id and
//! behind all others at its price.
//!
//! Invariant: the shown part is from 1 to the open lots, except just before a refresh.

use market::{Instructions, Lots, OrderId, Quantity, Shown};

use crate::{
    book::{paged_map::PagedMap, pool::Slot},
    order::Order,
    state::hash::{self, StateHash},
};

/// The shown part of an iceberg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Iceberg {
    /// Lots shown now; from 1 to the open lots.
    pub(crate) shown: Lots,
    /// Shown quantity, as instructed.
    pub(crate) shown_quantity: Lots,
    /// Its range, as instructed.
    pub(crate) shown_range: Lots,
}

impl Iceberg {
    /// The state hash element of the shown part of the order with this id.
    pub(crate) fn hash(&self, order_id: OrderId) -> u64 {
        let Iceberg { shown, shown_quantity, shown_range } = *self;
        let parts = u64::from(shown.0) | u64::from(shown_quantity.0) << 32;
        hash::mix([hash::ICEBERG, order_id.0, parts, u64::from(shown_range.0)])
    }

    /// The instructions of the order.
    pub(crate) fn instructions(&self) -> Instructions {
        let Self { shown_quantity, shown_range, .. } = *self;
        Instructions { shown_quantity, shown_range, ..Instructions::NONE }
    }
}

/// The icebergs of all books.
#[derive(Debug, Default)]
pub(crate) struct Icebergs {
    by_slot: PagedMap<Iceberg, 64>,
}

impl Icebergs {
    /// Lots shown of an order.
    ///
    /// # Panics
    /// It is not an iceberg.
    pub(crate) fn get(&self, slot: Slot) -> Iceberg {
        self.by_slot.get(slot.to_bits()).expect("a reserve order has its part here")
    }

    pub(crate) fn len(&self) -> usize {
        self.by_slot.len()
    }

    /// Adds an iceberg as instructed; returns the lots shown.
    pub(crate) fn add(
        &mut self,
        slot: Slot,
        order: &Order,
        instructions: &Instructions,
        hash: &mut StateHash,
    ) -> Quantity {
        let shown = instructions.shown_quantity.min(leaves(order));
        let Instructions { shown_quantity, shown_range, .. } = *instructions;
        self.insert(slot, order, Iceberg { shown, shown_quantity, shown_range }, hash);
        shown.quantity()
    }

    /// Adds an iceberg with this many lots shown.
    pub(crate) fn insert(
        &mut self,
        slot: Slot,
        order: &Order,
        reserve: Iceberg,
        hash: &mut StateHash,
    ) {
        hash.add(reserve.hash(order.order_id));
        self.by_slot.insert(slot.to_bits(), reserve);
    }

    /// Removes an order that no longer rests.
    pub(crate) fn remove(&mut self, slot: Slot, order: &Order, hash: &mut StateHash) {
        let reserve = self.by_slot.remove(slot.to_bits());
        hash.remove(reserve.hash(order.order_id));
    }

    /// Takes lots from an order, first from its reserve.
    pub(crate) fn reduce(&mut self, slot: Slot, order: &Order, hash: &mut StateHash) -> Shown {
        let before = self.get(slot).shown;
        let after = before.min(leaves(order));
        self.show(slot, order.order_id, after, hash);
        Shown { before, after }
    }

    /// Takes traded lots from the shown part.
    pub(crate) fn execute(
        &mut self,
        slot: Slot,
        order: &Order,
        quantity: Quantity,
        hash: &mut StateHash,
    ) -> Shown {
        let before = self.get(slot).shown;
        let after = before.quantity().checked_sub(quantity).expect("no more than is shown trades");
        let after = Lots(after.0 as u32);
        self.show(slot, order.order_id, after, hash);
        Shown { before, after }
    }

    /// Shows the next part of an order under its new order id; returns the lots shown.
    pub(crate) fn refresh(
        &mut self,
        slot: Slot,
        order_id_before: OrderId,
        order: &Order,
        hash: &mut StateHash,
    ) -> Quantity {
        let reserve = self.get_mut(slot);
        hash.remove(reserve.hash(order_id_before));
        reserve.shown = reserve.instructions().next_shown(order.order_id, leaves(order));
        hash.add(reserve.hash(order.order_id));
        reserve.shown.quantity()
    }

    fn show(&mut self, slot: Slot, order_id: OrderId, shown: Lots, hash: &mut StateHash) {
        let reserve = self.get_mut(slot);
        hash.remove(reserve.hash(order_id));
        reserve.shown = shown;
        hash.add(reserve.hash(order_id));
    }

    fn get_mut(&mut self, slot: Slot) -> &mut Iceberg {
        self.by_slot.get_mut(slot.to_bits()).expect("a reserve order has its part here")
    }
}

/// The open lots of an order.
fn leaves(order: &Order) -> Lots {
    Lots(order.leaves().0 as u32)
}
