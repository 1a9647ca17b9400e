//! A ladder: one side of a book, by price.
//!
//! A price is addressed by its *rank*; the lower rank is the better price, so both sides share one implementation.
//! Levels near the market are in a window, indexed by rank; the others are far levels, found by binary search. The
//! window follows the market lazily: each access to a far level moves it some steps, as many as the accesses have paid
//! for. So no order waits for more than two strips of levels, and a market that jumps back and forth costs no more work
//! than its orders.
//!
//! Invariant: each level is in the window or among the far levels, never in both.
//! window work more than the orders did.

use alloc::boxed::Box;

use super::{
    level::{self, Level},
    pool::{Neighbors, Pool, PoolOrder, Slot},
    window::{STRIP_LEN, STRIPS_MAX, Window},
};
use crate::book::paged_map::PagedMap;

/// Strips of the first window: 1,024 ranks, 640 bytes.
const STRIPS_MIN: usize = 16;

/// Strips that a window may grow to in a market that moves back and forth, with any number of levels: 65,536 ranks, 40
/// KiB. A larger window has at most two strips for each level.
const STRIPS_WANDERING: usize = 1024;

/// Accesses to far levels, for each strip of the window, before it grows for that reason.
const TOUCHES_PER_STRIP: usize = 2;

/// Far levels in a page: 768 bytes.
const FAR_PAGE_LEN: usize = 62;

type FarLevels = PagedMap<Level, FAR_PAGE_LEN>;

/// Steps of the window, or moved levels, for each access to a far level.
const STEPS_PER_TOUCH: i32 = 4;

/// Above every rank of a price.
pub(crate) const NO_RANK: u32 = u32::MAX;

/// One side of a book. The fields that most orders need are in the first of two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Ladder {
    /// The lowest rank with a level; [`NO_RANK`] if there is none.
    best_rank: u32,
    window: Window,
    /// Levels outside the window; `None` before the first.
    far: Option<Box<Far>>,
}

market::assert_layout! {
    Ladder, 128 { best_rank: 0, window: 8, far: 120 }
}

/// An incoming order, as a ladder sees it.
pub(crate) trait Take<T> {
    /// True if it trades with this order without special cases, for all lots that both have open.
    fn is_plain(&self, maker: &T) -> bool;

    /// Trades with a resting order for which [`is_plain`](Self::is_plain) holds, for all lots that
    /// both have open. Returns true if the incoming order is filled, which it must be if the
    /// resting one is not.
    fn trade(&mut self, maker: &mut T) -> bool;

    /// True if it may meet more orders in this step.
    fn has_left(&self) -> bool;
}

/// The parts of a ladder beside its window.
#[derive(Debug, Default)]
struct Far {
    levels: FarLevels,
    /// The first strip that the window should cover.
    wanted: u32,
    /// Steps that the window may still take; below 0 while it has taken too many.
    steps: i32,
    /// Accesses to far levels since the window last grew.
    touches: usize,
}

impl Default for Ladder {
    fn default() -> Self {
        Self { best_rank: NO_RANK, window: Window::default(), far: None }
    }
}

impl Ladder {
    /// The rank of the best level; [`NO_RANK`] if there is none.
    #[inline]
    pub(crate) fn best_rank(&self) -> u32 {
        self.best_rank
    }

    /// The first order to trade.
    ///
    /// # Panics
    /// The ladder is empty.
    #[inline]
    pub(crate) fn best_oldest(&self) -> Slot {
        if self.window.covers(self.best_rank) {
            return self.window.level(self.best_rank).oldest;
        }
        let far = self.far.as_ref().and_then(|far| far.levels.first());
        far.expect("the best level is somewhere").1.oldest
    }

    /// The level of a rank, if the window has it.
    #[inline]
    pub(crate) fn level_in_block(&self, rank: u32) -> Option<&Level> {
        self.window.level_in_block(rank)
    }

    /// The last order of a rank, if the window has it.
    #[inline]
    pub(crate) fn youngest(&self, rank: u32) -> Option<Slot> {
        Some(self.window.level_in_block(rank)?.youngest)
    }

    /// The best level at or after `rank`; passing the rank after it returns the next one.
    pub(crate) fn at_or_after(&self, rank: u32) -> Option<(u32, Level)> {
        let near = self.window.rank_at_or_after(rank).map(|at| (at, self.window.level(at)));
        let far = self.far.as_ref().and_then(|far| far.levels.at_or_after(rank));
        match (near, far) {
            (Some(near), Some(far)) => Some(if near.0 < far.0 { near } else { far }),
            (near, None) => near,
            (None, far) => far,
        }
    }

    /// Adds an order behind all others of its rank.
    #[inline(always)]
    pub(crate) fn append<T: PoolOrder>(
        &mut self,
        pool: &mut Pool<T>,
        rank: u32,
        make: impl FnOnce() -> T,
    ) -> Slot {
        let Some(level) = self.window.level_in_block_mut(rank) else {
            return self.append_elsewhere(pool, rank, &make());
        };
        let (slot, fills) = level.append(pool, make);
        if fills {
            self.window.fill(rank);
            self.best_rank = self.best_rank.min(rank);
        }
        slot
    }

    /// Moves an order behind all others of its rank; it keeps its slot.
    pub(crate) fn move_last<T: PoolOrder>(&mut self, pool: &mut Pool<T>, rank: u32, slot: Slot) {
        let order = pool[slot].order;
        self.remove(pool, rank, slot);
        let again = self.append(pool, rank, || order);
        assert!(again == slot, "the slot that was freed last is used first");
    }

    /// Removes an order of a rank.
    #[inline(always)]
    pub(crate) fn remove<T: PoolOrder>(&mut self, pool: &mut Pool<T>, rank: u32, slot: Slot) {
        let neighbors = pool.remove(slot);
        if !level::close_between(pool, neighbors) {
            self.close_end(pool, rank, slot, neighbors);
        }
    }

    /// Trades with the orders of the best level, oldest first, until the incoming order is filled,
    /// the level is empty, or the next order is not plain; returns true in that last case.
    ///
    /// # Panics
    /// The ladder is empty.
    #[inline]
    pub(crate) fn cross_best<T: PoolOrder>(
        &mut self,
        pool: &mut Pool<T>,
        taker: &mut impl Take<T>,
    ) -> bool {
        let rank = self.best_rank;
        let near = self.window.covers(rank);
        let level = if near {
            self.window.level_mut(rank)
        } else {
            let far = self.far.as_mut().and_then(|far| far.levels.get_mut(rank));
            far.expect("the best level is somewhere")
        };
        let oldest = level.oldest;
        let mut slot = oldest;
        let mut stopped = false;
        loop {
            let resting = &mut pool[slot];
            if !taker.is_plain(&resting.order) {
                stopped = true;
                break;
            }
            let taker_is_done = taker.trade(&mut resting.order);
            if resting.order.is_open() {
                break;
            }
            slot = pool.remove(slot).younger;
            if slot.is_none() || taker_is_done || !taker.has_left() {
                break;
            }
        }
        if slot != oldest {
            level.oldest = slot;
            if slot.is_none() {
                level.youngest = slot;
                if near { self.vacate(rank) } else { self.vacate_far(rank) }
            } else {
                pool[slot].older = Slot::NONE;
            }
        }
        stopped
    }

    /// Memory allocated, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let far = self.far.as_ref().map_or(0, |far| size_of::<Far>() + far.levels.memory());
        self.window.memory() + far
    }

    /// Removes an empty level of the window.
    #[inline]
    fn vacate(&mut self, rank: u32) {
        self.window.vacate(rank);
        if rank == self.best_rank {
            self.best_rank = self.best_after(rank);
        }
    }

    /// The best rank, which is at least `rank`.
    #[inline]
    fn best_after(&self, rank: u32) -> u32 {
        let near = self.window.rank_at_or_after(rank).unwrap_or(NO_RANK);
        match &self.far {
            Some(far) => near.min(far.levels.first_key().unwrap_or(NO_RANK)),
            None => near,
        }
    }

    /// Adds an order whose rank has no block, or without a window.
    #[inline(never)]
    fn append_elsewhere<T: PoolOrder>(&mut self, pool: &mut Pool<T>, rank: u32, order: &T) -> Slot {
        if !self.window.covers(rank) {
            return self.append_far(pool, rank, order);
        }
        self.window.add_block(rank);
        self.append(pool, rank, || *order)
    }

    /// Closes the gap of an order that left one end of its queue.
    #[inline(never)]
    fn close_end<T: PoolOrder>(
        &mut self,
        pool: &mut Pool<T>,
        rank: u32,
        slot: Slot,
        neighbors: Neighbors,
    ) {
        if !self.window.covers(rank) {
            return self.close_end_far(pool, rank, slot, neighbors);
        }
        let level = self.window.level_mut(rank);
        level.close_end(pool, slot, neighbors);
        if level.is_empty() {
            self.vacate(rank);
        }
    }

    #[cold]
    #[inline(never)]
    fn append_far<T: PoolOrder>(&mut self, pool: &mut Pool<T>, rank: u32, order: &T) -> Slot {
        if self.best_rank == NO_RANK {
            // The ladder is empty, so the window may start anywhere.
            let len = self.window.len().max(STRIPS_MIN);
            if self.window.len() < len {
                self.window.grow(len);
            }
            let first = first_wanted(rank, len);
            self.window.cover(first, first + len as u32);
            if let Some(far) = &mut self.far {
                far.wanted = first;
            }
            return self.append(pool, rank, || *order);
        }
        self.best_rank = self.best_rank.min(rank);
        let far = self.far.get_or_insert_default();
        let slot = match far.levels.get_mut(rank) {
            Some(level) => level.append(pool, || *order).0,
            None => {
                let mut level = Level::EMPTY;
                let (slot, _) = level.append(pool, || *order);
                far.levels.insert(rank, level);
                slot
            }
        };
        self.touch_far();
        slot
    }

    #[cold]
    #[inline(never)]
    fn close_end_far<T: PoolOrder>(
        &mut self,
        pool: &mut Pool<T>,
        rank: u32,
        slot: Slot,
        neighbors: Neighbors,
    ) {
        let far = self.far.as_mut().and_then(|far| far.levels.get_mut(rank));
        let level = far.expect("a resting order has a level");
        level.close_end(pool, slot, neighbors);
        if level.is_empty() {
            self.vacate_far(rank);
        }
    }

    #[cold]
    fn vacate_far(&mut self, rank: u32) {
        let far = self.far.as_mut().expect("there was a level");
        far.levels.remove(rank);
        if rank == self.best_rank {
            self.best_rank = self.best_after(rank);
        }
        self.touch_far();
    }

    /// Moves the window some steps, because a far level was accessed.
    fn touch_far(&mut self) {
        let best = self.best_rank;
        if best == NO_RANK {
            return;
        }
        let far = self.far.as_mut().expect("a level of it was touched");
        far.steps = (far.steps + STEPS_PER_TOUCH).min(STEPS_PER_TOUCH);
        if far.steps <= 0 {
            return;
        }
        let len = self.window.len();
        let levels = self.window.level_count() + far.levels.len();
        far.touches += 1;
        let wanders = len < STRIPS_WANDERING && TOUCHES_PER_STRIP * len <= far.touches;
        if wanders || (len < STRIPS_MAX && len < levels) {
            self.window.grow(2 * len);
            far.touches = 0;
        }
        let len = self.window.len() as u32;
        let strip = best / STRIP_LEN;
        if strip.wrapping_sub(far.wanted) >= len / 2 {
            far.wanted = first_wanted(best, len as usize);
        }
        if self.window.first() == far.wanted && self.window.end() == far.wanted + len {
            return;
        }
        while 0 < far.steps
            && let Some(moved) = step(&mut self.window, &mut far.levels, far.wanted)
        {
            far.steps -= 1 + moved;
        }
    }

    /// Checks that the parts agree.
    pub(crate) fn check(&self) {
        self.window.check();
        assert_eq!(self.best_rank, self.best_after(0));
        let Some(far) = &self.far else { return };
        far.levels.check();
        for (rank, level) in far.levels.iter() {
            assert!(!self.window.covers(rank), "rank {rank} belongs in the window");
            assert!(!level.is_empty());
        }
    }
}

/// The first strip of a window of `len` strips around this best rank: one eighth of it covers
/// better ranks.
fn first_wanted(best: u32, len: usize) -> u32 {
    (best / STRIP_LEN).saturating_sub(len as u32 / 8)
}

/// Moves the window one step towards the strips from `wanted` on: past all empty strips, or past
/// one strip with levels. Returns the number of moved levels; `None` if the window is there.
fn step(window: &mut Window, far: &mut FarLevels, wanted: u32) -> Option<i32> {
    let wanted_end = wanted + window.len() as u32;
    let (first, end) = (window.first(), window.end());
    if wanted <= first && end <= wanted_end {
        return join_more(window, far, wanted);
    }
    let (Some(first_full), Some(last_full)) =
        (window.strip_at_or_after(first), window.strip_last())
    else {
        window.cover(wanted, wanted);
        return join_more(window, far, wanted);
    };
    if wanted_end < end {
        // Strips behind the wanted ones leave.
        if last_full + 1 == end {
            return Some(leave(window, far, last_full, first, last_full));
        }
        window.cover(first, wanted_end.max(last_full + 1));
        return Some(0);
    }
    if first < wanted {
        // Strips beyond the wanted ones leave.
        if first_full == first {
            return Some(leave(window, far, first, first + 1, end));
        }
        window.cover(wanted.min(first_full), end);
        return Some(0);
    }
    join_more(window, far, wanted)
}

/// Extends the window to more of the wanted strips; nothing beyond them is covered.
fn join_more(window: &mut Window, far: &mut FarLevels, wanted: u32) -> Option<i32> {
    let wanted_end = wanted + window.len() as u32;
    let (first, end) = (window.first(), window.end());
    if wanted < first {
        let better = far.last_before(first * STRIP_LEN).map(|rank| rank / STRIP_LEN);
        return Some(match better.filter(|strip| wanted <= *strip) {
            Some(strip) => join(window, far, strip, strip, end),
            None => cover(window, wanted, end),
        });
    }
    if end < wanted_end {
        let worse = far.at_or_after(end * STRIP_LEN).map(|(rank, _)| rank / STRIP_LEN);
        return Some(match worse.filter(|strip| *strip < wanted_end) {
            Some(strip) => join(window, far, strip, first, strip + 1),
            None => cover(window, first, wanted_end),
        });
    }
    None
}

/// Changes the coverage by empty strips.
fn cover(window: &mut Window, first: u32, end: u32) -> i32 {
    window.cover(first, end);
    0
}

/// Moves the levels of a strip into the window.
fn join(window: &mut Window, far: &mut FarLevels, strip: u32, first: u32, end: u32) -> i32 {
    window.cover(first, end);
    let mut moved = 0;
    while let Some((rank, level)) = far.at_or_after(strip * STRIP_LEN)
        && rank / STRIP_LEN == strip
    {
        far.remove(rank);
        if window.level_in_block_mut(rank).is_none() {
            window.add_block(rank);
        }
        *window.level_in_block_mut(rank).expect("it was added if it was not there") = level;
        window.fill(rank);
        moved += 1;
    }
    moved
}

/// Moves the levels of a strip out of the window.
fn leave(window: &mut Window, far: &mut FarLevels, strip: u32, first: u32, end: u32) -> i32 {
    let mut moved = 0;
    window.clear(strip, |rank, level| {
        far.insert(rank, level);
        moved += 1;
    });
    window.cover(first, end);
    moved
}

#[cfg(test)]
mod tests {
    use alloc::{
        collections::{BTreeMap, VecDeque},
        vec::Vec,
    };

    use market::{
        Capacity, Conditions, CustomerType, Display, Firm, InstrumentId, OrderId, OrderKey, Price,
        Quantity, Side, SplitMix64, TimeInForce,
    };

    use super::*;
    use crate::order::{Order, OrderTerms};

    fn order(order_id: u64) -> Order {
        Order::new(OrderTerms {
            order_id: OrderId(order_id),
            key: OrderKey::default(),
            price: Price(1),
            quantity: Quantity(1),
            executed: Quantity::ZERO,
            prevented: Quantity::ZERO,
            conditions: Conditions::NONE,
            time_in_force: TimeInForce::Day,
            is_contingent: false,
            instrument_id: InstrumentId(1),
            group_id: 0,
            firm: Firm::BLANK,
            side: Side::Buy,
            display: Display::Visible,
            capacity: Capacity::Other,
            customer_type: CustomerType::SessionDefault,
        })
    }

    /// All orders by rank, oldest first.
    fn walk(ladder: &Ladder, pool: &Pool) -> Vec<(u32, u64)> {
        let mut walked = Vec::new();
        let mut rank = 0;
        while let Some((at, level)) = ladder.at_or_after(rank) {
            let mut slot = level.oldest;
            while !slot.is_none() {
                walked.push((at, pool[slot].order.order_id().0));
                slot = pool[slot].younger;
            }
            rank = at + 1;
        }
        walked
    }

    /// For slow and jumping markets, the ladder has the orders and queues of a sorted map.
    #[test]
    fn agrees_with_a_sorted_map_wherever_the_market_goes() {
        for seed in 1..=12_u64 {
            let mut random = SplitMix64::new(seed);
            let mut pool: Pool = Pool::new();
            let mut ladder = Ladder::default();
            let mut map: BTreeMap<(u32, u64), Slot> = BTreeMap::new();
            let mut market = 1_000_000_000_u32;
            let spread = [30, 300, 3_000, 100_000][seed as usize % 4];
            for step in 0..20_000_u64 {
                market = market.wrapping_add(random.below(5) as u32).wrapping_sub(2);
                if random.below(2_000) == 0 {
                    market = random.below(2_000_000_000) as u32;
                }
                let live_max = if step / 5_000 % 2 == 0 { 2_000 } else { 50 };
                if map.len() < live_max && random.below(100) < 60 {
                    let rank = market.saturating_add(random.below(spread) as u32);
                    let slot = ladder.append(&mut pool, rank, || order(step));
                    map.insert((rank, step), slot);
                } else if !map.is_empty() {
                    let index = match random.below(2) {
                        0 => 0,
                        _ => random.below(map.len() as u64) as usize,
                    };
                    let (&(rank, order_id), &slot) = map.iter().nth(index).unwrap();
                    map.remove(&(rank, order_id));
                    ladder.remove(&mut pool, rank, slot);
                }
                let best = map.keys().next().map_or(NO_RANK, |&(rank, _)| rank);
                assert_eq!(ladder.best_rank(), best, "seed {seed}, step {step}");
                if step % 256 == 0 {
                    ladder.check();
                    let expected: Vec<_> = map.keys().copied().collect();
                    assert_eq!(walk(&ladder, &pool), expected, "seed {seed}, step {step}");
                }
            }
            assert_eq!(pool.live_count() as usize, map.len());
            assert_eq!(pool.free_count() + map.len(), pool.slot_count());
        }
    }

    /// The window follows a market that moves away, so that levels are found by rank.
    #[test]
    fn window_follows_the_market() {
        let mut pool: Pool = Pool::new();
        let mut ladder = Ladder::default();
        let mut slots = Vec::new();
        for step in 0..10_000 {
            let rank = 1_000_000 + 10 * step as u32;
            let slot = ladder.append(&mut pool, rank, || order(step));
            slots.push((rank, slot));
            if slots.len() > 20 {
                let (rank, slot) = slots.remove(0);
                ladder.remove(&mut pool, rank, slot);
            }
        }
        assert!(ladder.window.covers(ladder.best_rank()), "the best level is in the window");
        assert!(ladder.window.len() <= 64, "{} strips for 20 orders", ladder.window.len());
    }

    /// A market that crosses all prices, or alternates between two far prices, leaves at most the
    /// maximum window and nothing else.
    #[test]
    fn memory_does_not_follow_the_price_range() {
        for jumps in [false, true] {
            let mut pool = Pool::new();
            let mut ladder = Ladder::default();
            let mut slots: VecDeque<(u32, Slot)> = VecDeque::new();
            for step in 0..60_000_u32 {
                let rank = match jumps {
                    true => 1_500_000_000 * (step % 2) + 10_000 + step % 100,
                    false => step * 30_000,
                };
                let slot = ladder.append(&mut pool, rank, || order(u64::from(step) + 1));
                slots.push_back((rank, slot));
                if slots.len() > 100 {
                    let (rank, slot) = slots.pop_front().unwrap();
                    ladder.remove(&mut pool, rank, slot);
                }
                if step % 1_000 == 0 {
                    ladder.check();
                }
            }
            ladder.check();
            assert!(ladder.window.len() <= STRIPS_WANDERING, "{} strips", ladder.window.len());
            assert!(ladder.memory() < 120_000, "{} bytes for 100 orders", ladder.memory());
            for (rank, slot) in slots {
                ladder.remove(&mut pool, rank, slot);
            }
            ladder.check();
            assert_eq!((ladder.best_rank(), pool.live_count()), (NO_RANK, 0));
        }
    }

    /// Single orders at their prices, adjacent or far apart, in any order: memory is in proportion
    /// to them.
    #[test]
    fn memory_follows_the_levels() {
        for (apart, bytes_max) in [(1, 20), (1_000, 250)] {
            let mut random = SplitMix64::new(7);
            let mut pool = Pool::new();
            let mut ladder = Ladder::default();
            let mut ranks: Vec<u32> = (0..200_000).map(|place| 5_000 + place * apart).collect();
            for last in (1..ranks.len()).rev() {
                ranks.swap(last, random.below(last as u64 + 1) as usize);
            }
            for (rank, order_id) in ranks.iter().zip(1..) {
                ladder.append(&mut pool, *rank, || order(order_id));
            }
            ladder.check();
            let each = ladder.memory() / ranks.len();
            assert!(each <= bytes_max, "{each} bytes a level, {apart} apart");
            assert_eq!(ladder.best_rank(), 5_000);
        }
    }
}
