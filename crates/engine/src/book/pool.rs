//! The pool: where resting orders live, each in a slot of one cache line.

use alloc::{boxed::Box, vec, vec::Vec};

use crate::order::Order;

/// Names a slot of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// No slot.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// True for [`Slot::NONE`].
    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// A slot that is only looked at, never used.
    #[cfg(test)]
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// A resting order and its place in the queue of its level.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Resting {
    /// The order.
    pub(crate) order: Order,
    /// The next younger order of the level; in a free slot, the next free slot.
    pub(crate) younger: Slot,
    /// The next older order of the level.
    pub(crate) older: Slot,
}

const _: () = assert!(size_of::<Resting>() == 64, "a resting order is one cache line");

/// Slots in a chunk: 64 KiB, so that growing by one takes microseconds and moves no order.
const CHUNK_LEN: usize = 1024;

/// All resting orders of all books.
///
/// A slot freed last is used first, while it is still in the cache. There is room for the most
/// orders that ever rested at a time, and no more.
#[derive(Debug)]
pub(crate) struct Pool {
    /// No chunk ever moves.
    chunks: Vec<Box<[Resting; CHUNK_LEN]>>,
    /// How many slots were ever used; those after it are in no list.
    used: usize,
    /// Head of the list of free slots.
    free: Slot,
    live_count: u32,
}

impl Pool {
    /// Without slots.
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new(), used: 0, free: Slot::NONE, live_count: 0 }
    }

    /// How many orders rest.
    pub(crate) fn live_count(&self) -> u32 {
        self.live_count
    }

    /// Takes an order in; it is in no queue yet.
    #[inline]
    pub(crate) fn add(&mut self, order: Order) -> Slot {
        assert!(!order.is_done(), "{order:?} has nothing to rest with");
        let resting = Resting { order, younger: Slot::NONE, older: Slot::NONE };
        self.live_count += 1;
        if self.free.is_none() {
            return self.add_fresh(resting);
        }
        let slot = self.free;
        self.free = self[slot].younger;
        self[slot] = resting;
        slot
    }

    /// Lets an order go that is in no queue any more.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        self[slot].younger = self.free;
        self.free = slot;
        self.live_count -= 1;
    }

    /// How many slots there are, in use or free.
    pub(crate) fn slot_count(&self) -> usize {
        self.used
    }

    /// How many slots are in the free list.
    ///
    /// # Panics
    /// The list goes round in a circle.
    pub(crate) fn free_count(&self) -> usize {
        let mut count = 0;
        let mut slot = self.free;
        while !slot.is_none() {
            count += 1;
            assert!(count <= self.slot_count(), "the free list ends");
            slot = self[slot].younger;
        }
        count
    }

    #[cold]
    fn add_fresh(&mut self, resting: Resting) -> Slot {
        let slot = Slot(u32::try_from(self.used).expect("orders are counted in 32 bits"));
        assert!(!slot.is_none(), "the last number is no slot");
        if self.used == self.chunks.len() * CHUNK_LEN {
            let chunk = vec![resting; CHUNK_LEN].into_boxed_slice();
            self.chunks.push(chunk.try_into().expect("it is as long as a chunk"));
        }
        self.used += 1;
        self[slot] = resting;
        slot
    }
}

impl core::ops::Index<Slot> for Pool {
    type Output = Resting;

    #[inline]
    fn index(&self, slot: Slot) -> &Resting {
        &self.chunks[slot.0 as usize / CHUNK_LEN][slot.0 as usize % CHUNK_LEN]
    }
}

impl core::ops::IndexMut<Slot> for Pool {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Resting {
        &mut self.chunks[slot.0 as usize / CHUNK_LEN][slot.0 as usize % CHUNK_LEN]
    }
}
