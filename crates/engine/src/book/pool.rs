//! The pool: storage of all resting orders, each in its own slot. Invariant: an order never moves
//! while it rests.

use alloc::{boxed::Box, vec::Vec};

use crate::order::Order;

/// The index of a slot of the pool.
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

    /// The slot as a number, from 0 in the order of first use.
    #[inline]
    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    /// The slot with this number, which may never have been used.
    #[inline]
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// What the pool requires of an order type.
pub(crate) trait PoolOrder: Copy {
    /// The value of a slot that was never used: an order without open lots.
    fn vacant() -> Self;

    /// True if it has open lots, as it has while it rests.
    fn is_open(&self) -> bool;
}

/// A resting order and its links in the queue of its level.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Resting<T = Order> {
    pub(crate) order: T,
    /// The next younger order of the level; in a free slot, the next free slot.
    pub(crate) younger: Slot,
    /// The next older order of the level.
    pub(crate) older: Slot,
}

market::assert_layout! {
    Resting, 64 { order: 0, younger: 56, older: 60 }
}

/// The neighbors of an order in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbors {
    pub(crate) older: Slot,
    pub(crate) younger: Slot,
}

/// Slots in a chunk: 64 KiB of orders. Adding a chunk takes microseconds and moves no order.
const CHUNK_LEN: usize = 1024;

/// Slots aligned to a cache line, so that slots of 64 or 32 bytes never straddle two lines.
#[derive(Debug)]
#[repr(C, align(64))]
struct Chunk<T>([Resting<T>; CHUNK_LEN]);

/// All resting orders of all books.
///
/// The slot freed last is reused first, while it is in the cache. The capacity is the most orders
/// that ever rested at a time.
#[derive(Debug)]
pub(crate) struct Pool<T = Order> {
    /// Chunks never move.
    chunks: Vec<Box<Chunk<T>>>,
    /// Number of slots ever used; later ones are in no list.
    used: usize,
    /// Head of the free list.
    free: Slot,
    live_count: u32,
}

impl<T: PoolOrder> Pool<T> {
    /// A pool without slots.
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new(), used: 0, free: Slot::NONE, live_count: 0 }
    }

    /// Number of resting orders.
    pub(crate) fn live_count(&self) -> u32 {
        self.live_count
    }

    /// Adds an order at the end of a queue, behind `older`, whose link the caller must set. The
    /// order is built in place.
    #[inline(always)]
    pub(crate) fn add(&mut self, make: impl FnOnce() -> T, older: Slot) -> Slot {
        if self.free.is_none() {
            self.free = self.fresh();
        }
        let slot = self.free;
        let resting = &mut self[slot];
        let free = resting.younger;
        resting.order = make();
        assert!(resting.order.is_open(), "an order rests with what is open of it");
        resting.younger = Slot::NONE;
        resting.older = older;
        self.free = free;
        self.live_count += 1;
        slot
    }

    /// Removes an order; returns its neighbors in the queue.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) -> Neighbors {
        let free = self.free;
        let resting = &mut self[slot];
        let neighbors = Neighbors { older: resting.older, younger: resting.younger };
        resting.younger = free;
        self.free = slot;
        self.live_count -= 1;
        neighbors
    }

    /// The order in a slot, if the slot exists; a free slot has an order without open lots.
    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&Resting<T>> {
        let chunk = self.chunks.get(slot.0 as usize / CHUNK_LEN)?;
        Some(&chunk.0[slot.0 as usize % CHUNK_LEN])
    }

    /// Allocates and touches memory for this many orders in total, so that the operating system has
    /// mapped it.
    pub(crate) fn reserve(&mut self, orders: usize) {
        while self.chunks.len() * CHUNK_LEN < orders {
            self.add_chunk();
        }
    }

    /// Number of slots, used or free.
    pub(crate) fn slot_count(&self) -> usize {
        self.used
    }

    /// Number of slots in the free list.
    ///
    /// # Panics
    /// The free list is cyclic.
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

    /// Memory of the slots, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.chunks.len() * size_of::<Chunk<T>>() + self.chunks.capacity() * size_of::<usize>()
    }

    /// A slot that was never used.
    #[cold]
    #[inline(never)]
    fn fresh(&mut self) -> Slot {
        let slot = Slot(u32::try_from(self.used).expect("orders are counted in 32 bits"));
        assert!(!slot.is_none(), "the last number is no slot");
        if self.used == self.chunks.len() * CHUNK_LEN {
            self.add_chunk();
        }
        self.used += 1;
        slot
    }

    fn add_chunk(&mut self) {
        let vacant = Resting { order: T::vacant(), younger: Slot::NONE, older: Slot::NONE };
        self.chunks.push(Box::new(Chunk([vacant; CHUNK_LEN])));
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
