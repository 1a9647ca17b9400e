//! A level: the orders at one price, oldest first.

use super::pool::{Neighbors, Pool, PoolOrder, Slot};

/// The two ends of a queue whose links are in the orders themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// First to trade.
    pub(crate) oldest: Slot,
    /// Last to trade.
    pub(crate) youngest: Slot,
}

impl Level {
    /// Without orders.
    pub(crate) const EMPTY: Self = Self { oldest: Slot::NONE, youngest: Slot::NONE };

    /// True if it has no order.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.oldest.is_none()
    }

    /// Puts an order behind all others; its slot, and true if there were none.
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

    /// Closes the gap that an order at one of the two ends has left; for one in between,
    /// [`close_between`] does not need the level.
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

/// Closes the gap that an order with others before and after it has left; false, and nothing is
/// done, if it was at an end.
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
