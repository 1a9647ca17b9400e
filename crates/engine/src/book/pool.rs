//! The pool: storage of all resting orders, each in its own slot. Invariant: an order never moves
//! while it rests.

use alloc::{boxed::Box, vec::Vec};
use core::{fmt::Debug, hint::black_box};

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

/// An empty field that aligns its struct to 64 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(crate) struct Line;

/// An empty field that aligns its struct to 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(crate) struct HalfLine;

/// The requirements of the pool on an order type.
pub(crate) trait PoolOrder: Copy {
    /// [`Line`] or [`HalfLine`]: where its slots begin, so that none straddles two cache lines.
    type Start: Copy + Default + Debug;

    /// The value of a slot that was never used: an order without open lots.
    fn vacant() -> Self;

    /// True if it has open lots, which is so while it rests.
    fn is_open(&self) -> bool;
}

/// A resting order and its links in the queue of its level.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Resting<T: PoolOrder = Order> {
    start: T::Start,
    pub(crate) order: T,
    /// The next younger order of the level; in a free slot, the next free slot.
    pub(crate) younger: Slot,
    /// The next older order of the level.
    pub(crate) older: Slot,
}

market::assert_layout! {
    Resting, 64 { start: 0, order: 0, younger: 56, older: 60 }
}

/// The neighbors of an order in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbors {
    pub(crate) older: Slot,
    pub(crate) younger: Slot,
}

impl<T: PoolOrder> Resting<T> {
    fn vacant() -> Self {
        let start = T::Start::default();
        Self { start, order: T::vacant(), younger: Slot::NONE, older: Slot::NONE }
    }
}

/// The fewest slots of the range: 16 MiB of addresses, for which the operating system provides memory as they are used.
/// Unit tests have a short range, so that all of them use slots beyond it.
const RANGE_LEN_MIN: usize = if cfg!(test) { 16 } else { 1 << 18 };

/// Slots in a chunk beyond the range. Adding a chunk takes microseconds and moves no order.
const CHUNK_LEN: usize = 1024;

/// All resting orders of all books.
///
/// The slot freed last is reused first, while it is in the cache. The capacity is the most orders
/// that ever rested at a time.
///
/// Slots are in one range of addresses. Its length is set before the first order rests: as many as are
/// [reserved](Self::reserve), and at least [`RANGE_LEN_MIN`]. Slots beyond it are in chunks. Invariant: no slot moves.
#[derive(Debug)]
pub(crate) struct Pool<T: PoolOrder = Order> {
    /// The slots of the range that were ever used; the capacity never changes.
    range: Vec<Resting<T>>,
    /// The chunks beyond the range; none before it is full.
    chunks: Vec<Box<[Resting<T>; CHUNK_LEN]>>,
    /// Number of slots ever used; later ones are in no list.
    used: usize,
    /// Head of the free list.
    free: Slot,
    live_count: u32,
}

impl<T: PoolOrder> Pool<T> {
    /// A pool without slots.
    pub(crate) const fn new() -> Self {
        Self { range: Vec::new(), chunks: Vec::new(), used: 0, free: Slot::NONE, live_count: 0 }
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

    /// The order in a slot, if the slot exists; a free slot still has its last order.
    #[inline(always)]
    pub(crate) fn get(&self, slot: Slot) -> Option<&Resting<T>> {
        match self.range.get(slot.0 as usize) {
            Some(resting) => Some(resting),
            None => self.get_beyond(slot),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_beyond(&self, slot: Slot) -> Option<&Resting<T>> {
        let place = slot.0 as usize - self.range.len();
        Some(&self.chunks.get(place / CHUNK_LEN)?[place % CHUNK_LEN])
    }

    #[cold]
    #[inline(never)]
    fn get_beyond_mut(&mut self, slot: Slot) -> Option<&mut Resting<T>> {
        let place = slot.0 as usize - self.range.len();
        Some(&mut self.chunks.get_mut(place / CHUNK_LEN)?[place % CHUNK_LEN])
    }

    /// Reads these slots, then their neighbors, by loads that do not wait for each other. Changes nothing.
    #[inline]
    pub(crate) fn prefetch<const N: usize>(&self, slots: &[Slot; N]) {
        let none = Neighbors { older: Slot::NONE, younger: Slot::NONE };
        let mut neighbors = [none; N];
        for (slot, neighbors) in slots.iter().zip(&mut neighbors) {
            if let Some(resting) = self.get(*slot) {
                *neighbors = Neighbors { older: resting.older, younger: resting.younger };
            }
        }
        let mut sum = 0;
        for Neighbors { older, younger } in neighbors {
            for slot in [older, younger] {
                sum ^= self.get(slot).map_or(0, |resting| resting.younger.to_bits());
            }
        }
        black_box(sum);
    }

    /// Allocates and touches memory for this many orders in total, so that the operating system has
    /// mapped it. Before the first order rests, it also sets the range to at least this many.
    pub(crate) fn reserve(&mut self, orders: usize) {
        self.set_range(orders);
        let len = self.range.len();
        self.range.resize(self.range.capacity().min(orders).max(len), Resting::vacant());
        self.range.truncate(len);
        while self.range.capacity() + self.chunks.len() * CHUNK_LEN < orders {
            self.add_chunk();
        }
    }

    /// Sets the range, with the first slot or before it.
    fn set_range(&mut self, orders: usize) {
        if self.range.capacity() == 0 {
            self.range = Vec::with_capacity(orders.max(RANGE_LEN_MIN));
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

    /// Memory of the slots that were ever used, and of all chunks, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let chunk = CHUNK_LEN * size_of::<Resting<T>>() + size_of::<usize>();
        self.range.len() * size_of::<Resting<T>>() + self.chunks.len() * chunk
    }

    /// A slot that was never used.
    #[cold]
    #[inline(never)]
    fn fresh(&mut self) -> Slot {
        let slot = Slot(u32::try_from(self.used).expect("orders are counted in 32 bits"));
        assert!(!slot.is_none(), "the last number is no slot");
        self.set_range(0);
        if self.range.len() < self.range.capacity() {
            self.range.push(Resting::vacant());
        } else if self.used == self.range.len() + self.chunks.len() * CHUNK_LEN {
            self.add_chunk();
        }
        self.used += 1;
        slot
    }

    fn add_chunk(&mut self) {
        self.chunks.push(Box::new([Resting::vacant(); CHUNK_LEN]));
    }
}

/// Panics because a link leads to no slot.
#[cold]
fn no_slot(slot: Slot) -> ! {
    panic!("{slot:?} was never used");
}

impl<T: PoolOrder> core::ops::Index<Slot> for Pool<T> {
    type Output = Resting<T>;

    #[inline(always)]
    fn index(&self, slot: Slot) -> &Resting<T> {
        let Some(resting) = self.get(slot) else { no_slot(slot) };
        resting
    }
}

impl<T: PoolOrder> core::ops::IndexMut<Slot> for Pool<T> {
    #[inline(always)]
    fn index_mut(&mut self, slot: Slot) -> &mut Resting<T> {
        if (slot.0 as usize) < self.range.len() {
            return &mut self.range[slot.0 as usize];
        }
        let Some(resting) = self.get_beyond_mut(slot) else { no_slot(slot) };
        resting
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec::Vec};

    use market::SplitMix64;

    use super::*;

    /// An order that is known by a number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Number(u64);

    impl PoolOrder for Number {
        type Start = HalfLine;

        fn vacant() -> Self {
            Self(0)
        }

        fn is_open(&self) -> bool {
            self.0 != 0
        }
    }

    /// Within the range and beyond it, whenever memory is reserved, each order stays where it was put, and slots are reused before
    /// new ones.
    #[test]
    fn no_order_moves() {
        for reserved in [0, 10, 100, 3_000] {
            let mut random = SplitMix64::new(reserved + 1);
            let mut pool: Pool<Number> = Pool::new();
            pool.reserve(reserved as usize);
            let mut placed: BTreeMap<u32, (u64, *const Resting<Number>)> = BTreeMap::new();
            let mut most = 0;
            for step in 1..=20_000_u64 {
                if step % 5_000 == 0 {
                    pool.reserve(random.below(4_000) as usize);
                }
                let live_max = [50, 2_500][step as usize / 4_000 % 2];
                if placed.len() < live_max && random.below(100) < 80 {
                    let slot = pool.add(|| Number(step), Slot::NONE);
                    let before = placed.insert(slot.to_bits(), (step, &raw const pool[slot]));
                    assert_eq!(before, None, "the slot was free");
                    most = most.max(placed.len());
                } else if let Some(&slot) = placed.keys().nth(random.below(50) as usize) {
                    placed.remove(&slot);
                    pool.remove(Slot::from_bits(slot));
                }
                assert_eq!(pool.slot_count(), most);
            }
            for (slot, (number, address)) in &placed {
                let resting = &pool[Slot::from_bits(*slot)];
                assert_eq!((resting.order, &raw const *resting), (Number(*number), *address));
            }
            let beyond = Slot::from_bits(1 << 20);
            assert!(pool.get(beyond).is_none() && pool.get(Slot::NONE).is_none());
            assert_eq!(pool.free_count() + placed.len(), pool.slot_count());
            let starts: Vec<_> = placed.values().map(|(_, address)| address.addr() % 32).collect();
            assert!(starts.iter().all(|start| *start == 0), "a slot is in one cache line");
        }
    }

    #[test]
    #[should_panic = "was never used"]
    fn a_slot_that_was_never_used_has_no_order() {
        let mut pool: Pool<Number> = Pool::new();
        pool.add(|| Number(1), Slot::NONE);
        let _ = pool[Slot::from_bits(1)];
    }
}
