//! The pool: where resting orders live, each in a slot of its own.

use alloc::{boxed::Box, vec::Vec};

use crate::order::Order;

/// Names a slot of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// No slot.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// True for [`Slot::NONE`].
    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// As a number; slots are counted from 0 in the order of their first use.
    #[inline]
    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    /// The slot of a number, which need not be one that was ever used.
    #[inline]
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// What the book must be able to ask of a resting order.
pub(crate) trait Rest: Copy {
    /// What is open of it, in lots; at least 1 while it rests.
    fn leaves(&self) -> u32;
}

/// A resting order and its place in the queue of its level.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Resting<T = Order> {
    /// The order.
    pub(crate) order: T,
    /// The next younger order of the level; in a free slot, the next free slot.
    pub(crate) younger: Slot,
    /// The next older order of the level.
    pub(crate) older: Slot,
}

const _: () = assert!(size_of::<Resting>() == 64, "a resting order is one cache line");

/// Slots in a chunk: 64 KiB of orders, so that growing by one takes microseconds and moves none.
const CHUNK_LEN: usize = 1024;

/// Slots that begin with a cache line, so that none of 64 or 32 bytes lies across two.
#[derive(Debug)]
#[repr(C, align(64))]
struct Chunk<T>([Resting<T>; CHUNK_LEN]);

/// All resting orders of all books.
///
/// A slot freed last is used first, while it is still in the cache. There is room for the most
/// orders that ever rested at a time, and no more.
#[derive(Debug)]
pub(crate) struct Pool<T = Order> {
    /// No chunk ever moves.
    chunks: Vec<Box<Chunk<T>>>,
    /// How many slots were ever used; those after it are in no list.
    used: usize,
    /// Head of the list of free slots.
    free: Slot,
    live_count: u32,
}

impl<T: Rest> Pool<T> {
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
    pub(crate) fn add(&mut self, order: T) -> Slot {
        assert!(order.leaves() != 0, "an order rests with what is open of it");
        if self.free.is_none() {
            return self.add_fresh(order);
        }
        let slot = self.free;
        let resting = &mut self[slot];
        let free = resting.younger;
        *resting = Resting { order, younger: Slot::NONE, older: Slot::NONE };
        self.free = free;
        self.live_count += 1;
        slot
    }

    /// Lets an order go that is in no queue any more.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        let free = self.free;
        self[slot].younger = free;
        self.free = slot;
        self.live_count -= 1;
    }

    /// The order of a slot, if the slot was ever used.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&Resting<T>> {
        if (slot.0 as usize) < self.used { Some(&self[slot]) } else { None }
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

    /// What the memory of the slots is, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.chunks.len() * size_of::<Chunk<T>>() + self.chunks.capacity() * size_of::<usize>()
    }

    #[cold]
    #[inline(never)]
    fn add_fresh(&mut self, order: T) -> Slot {
        let slot = Slot(u32::try_from(self.used).expect("orders are counted in 32 bits"));
        assert!(!slot.is_none(), "the last number is no slot");
        let resting = Resting { order, younger: Slot::NONE, older: Slot::NONE };
        if self.used == self.chunks.len() * CHUNK_LEN {
            self.chunks.push(Box::new(Chunk([resting; CHUNK_LEN])));
        }
        self.used += 1;
        self.live_count += 1;
        self[slot] = resting;
        slot
    }
}

impl<T> core::ops::Index<Slot> for Pool<T> {
    type Output = Resting<T>;

    #[inline]
    fn index(&self, slot: Slot) -> &Resting<T> {
        &self.chunks[slot.0 as usize / CHUNK_LEN].0[slot.0 as usize % CHUNK_LEN]
    }
}

impl<T> core::ops::IndexMut<Slot> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Resting<T> {
        &mut self.chunks[slot.0 as usize / CHUNK_LEN].0[slot.0 as usize % CHUNK_LEN]
    }
}
