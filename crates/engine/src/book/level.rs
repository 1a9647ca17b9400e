//! A level: the orders at one price, oldest first. Invariant: both ends are set, or none.

use super::pool::{Neighbors, Pool, PoolOrder, Slot};

/// The ends of a queue; the links are in the orders themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Level {
    /// The first to trade.
    pub(crate) oldest: Slot,
    /// The last to trade.
    pub(crate) youngest: Slot,
}

market::assert_layout! {
    Level, 8 { oldest: 0, youngest: 4 }
}

impl Level {
    /// An empty level.
    pub(crate) const EMPTY: Self = Self { oldest: Slot::NONE, youngest: Slot::NONE };

    /// True if it has no orders.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.oldest.is_none()
    }

    /// Adds an order behind all others; returns its slot, and true if the level was empty.
    #[inline(always)]
    pub(crate) fn append<T: PoolOrder>(
        &mut self,
        pool: &mut Pool<T>,
        make: impl FnOnce() -> T,
    ) -> (Slot, bool) {
        let older = self.youngest;
        let slot = pool.add(make, older);
        self.youngest = slot;
        if older.is_none() {
            self.oldest = slot;
            return (slot, true);
        }
        pool[older].younger = slot;
        (slot, false)
    }

    /// Closes the gap of an order that left one of the ends; [`close_between`] does the others
    /// without the level.
    #[inline]
    pub(crate) fn close_end<T: PoolOrder>(
        &mut self,
        pool: &mut Pool<T>,
        slot: Slot,
        neighbors: Neighbors,
    ) {
        let Neighbors { older, younger } = neighbors;
        if older.is_none() {
            assert!(self.oldest == slot, "the first order of a queue has none before it");
            self.oldest = younger;
        } else {
            pool[older].younger = younger;
        }
        if younger.is_none() {
            assert!(self.youngest == slot, "the last order of a queue has none after it");
            self.youngest = older;
        } else {
            pool[younger].older = older;
        }
    }
}

/// Closes the gap of an order that left between two others. Returns false, with no effect, if it
/// was at an end.
#[inline]
pub(crate) fn close_between<T: PoolOrder>(pool: &mut Pool<T>, neighbors: Neighbors) -> bool {
    let Neighbors { older, younger } = neighbors;
    let between = !older.is_none() && !younger.is_none();
    if between {
        pool[older].younger = younger;
        pool[younger].older = older;
    }
    between
}
