//! A level: the orders at one price, oldest first.

use super::pool::{Pool, Rest, Slot};

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

    /// Puts an order that is in no queue behind all others; true if there was none.
    #[inline]
    pub(crate) fn append<T: Rest>(&mut self, pool: &mut Pool<T>, slot: Slot) -> bool {
        let older = self.youngest;
        self.youngest = slot;
        if older.is_none() {
            self.oldest = slot;
            return true;
        }
        pool[older].younger = slot;
        pool[slot].older = older;
        false
    }

    /// Takes an order at one of the two ends out of the queue; for one in between,
    /// [`unlink_between`] does not need the level.
    #[inline]
    pub(crate) fn unlink_end<T: Rest>(&mut self, pool: &mut Pool<T>, slot: Slot) {
        let (older, younger) = (pool[slot].older, pool[slot].younger);
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

/// Takes an order with others before and after it out of its queue; false, and nothing is done,
/// if it is at an end.
#[inline]
pub(crate) fn unlink_between<T: Rest>(pool: &mut Pool<T>, slot: Slot) -> bool {
    let (older, younger) = (pool[slot].older, pool[slot].younger);
    let between = !older.is_none() && !younger.is_none();
    if between {
        pool[older].younger = younger;
        pool[younger].older = older;
    }
    between
}
