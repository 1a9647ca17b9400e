//! A ladder: one side of a book, by price.
//!
//! A price is known here by its *rank*, which is the lower the better it is, so both sides are one
//! code. Levels around the market are in a window, found by their rank; all others are far levels,
//! found by a search. The window follows the market lazily: it moves, or grows, only after far
//! levels were touched as often as there are levels to move, so that a market which jumps to and
//! fro never makes it work more than the orders did.

use super::{
    level::{self, Level},
    pool::{Pool, Slot},
    window::{WINDOW_LEN_MAX, Window},
};
use crate::pages::Pages;

/// Levels of the first window: 512 bytes.
const WINDOW_LEN_MIN: usize = 64;

/// Far levels in a page: 776 bytes.
const FAR_PAGE_LEN: usize = 64;

/// At least so often far levels are touched before the window moves: that is what looking costs.
const FAR_TOUCHES_MIN: usize = 16;

/// Worse than every rank of a price.
pub(crate) const NO_RANK: u32 = u32::MAX;

/// One side of a book.
#[derive(Debug)]
pub(crate) struct Ladder {
    /// The least rank that has a level; [`NO_RANK`] without one.
    best_rank: u32,
    window: Window,
    /// The levels that the window does not cover.
    far: Pages<Level, FAR_PAGE_LEN>,
    /// How often far levels were touched since the window last moved or could have.
    far_touches: usize,
}

impl Default for Ladder {
    fn default() -> Self {
        Self {
            best_rank: NO_RANK,
            window: Window::default(),
            far: Pages::default(),
            far_touches: 0,
        }
    }
}

impl Ladder {
    /// The rank of the best level; [`NO_RANK`] without one.
    #[inline]
    pub(crate) fn best_rank(&self) -> u32 {
        self.best_rank
    }

    /// The first order to trade of all.
    ///
    /// # Panics
    /// There is none.
    #[inline]
    pub(crate) fn best_oldest(&self) -> Slot {
        match self.window.position(self.best_rank) {
            Some(position) => self.window.level(position).oldest,
            None => self.far.first().expect("the best level is somewhere").1.oldest,
        }
    }

    /// The best level whose rank is not below `rank`: with the rank after the last one, the next.
    pub(crate) fn at_or_after(&self, rank: u32) -> Option<(u32, Level)> {
        better(self.window.at_or_after(rank), self.far.at_or_after(rank))
    }

    /// Puts an order behind all others of its rank.
    #[inline]
    pub(crate) fn append(&mut self, pool: &mut Pool, rank: u32, slot: Slot) {
        self.best_rank = self.best_rank.min(rank);
        if let Some(position) = self.window.position(rank) {
            if self.window.level_mut(position).append(pool, slot) {
                self.window.fill(position);
            }
        } else {
            self.append_far(pool, rank, slot);
        }
    }

    /// Takes an order out of the queue of its rank.
    #[inline]
    pub(crate) fn unlink(&mut self, pool: &mut Pool, rank: u32, slot: Slot) {
        if level::unlink_between(pool, slot) {
            return;
        }
        let Some(position) = self.window.position(rank) else {
            return self.unlink_far(pool, rank, slot);
        };
        let level = self.window.level_mut(position);
        level.unlink_end(pool, slot);
        if level.is_empty() {
            self.window.vacate(position);
            if rank == self.best_rank {
                self.best_rank = self.find_best();
            }
        }
    }

    #[cold]
    fn append_far(&mut self, pool: &mut Pool, rank: u32, slot: Slot) {
        match self.far.get_mut(rank) {
            Some(level) => {
                level.append(pool, slot);
            }
            None => {
                let mut level = Level::EMPTY;
                level.append(pool, slot);
                self.far.insert(rank, level);
            }
        }
        self.touch_far();
    }

    #[cold]
    fn unlink_far(&mut self, pool: &mut Pool, rank: u32, slot: Slot) {
        let level = self.far.get_mut(rank).expect("a resting order has a level");
        level.unlink_end(pool, slot);
        if level.is_empty() {
            self.far.remove(rank);
            if rank == self.best_rank {
                self.best_rank = self.find_best();
            }
        }
        self.touch_far();
    }

    fn find_best(&self) -> u32 {
        let window = self.window.first_rank().unwrap_or(NO_RANK);
        window.min(self.far.first_key().unwrap_or(NO_RANK))
    }

    /// Asserts what holds between the parts.
    pub(crate) fn check(&self) {
        self.window.check();
        self.far.check();
        assert_eq!(self.best_rank, self.find_best());
        let mut rank = 0;
        while let Some((at, _)) = self.far.at_or_after(rank) {
            assert!(self.window.position(at).is_none(), "rank {at} belongs in the window");
            rank = at + 1;
        }
    }

    /// Counts a touch of a far level and, when enough are counted, sees whether the window is
    /// still in its place.
    fn touch_far(&mut self) {
        self.far_touches += 1;
        if self.far_touches < FAR_TOUCHES_MIN + self.window.level_count() {
            return;
        }
        self.far_touches = 0;
        let best = self.best_rank;
        if best == NO_RANK {
            return;
        }
        let placed = self.window.position(best).is_some_and(|at| at <= self.window.len() / 2);
        let len = self.len_wanted();
        if !placed || len != self.window.len() {
            self.move_window(best, len);
        }
    }

    /// Twice as long, if a quarter of its places would not hold the far levels.
    fn len_wanted(&self) -> usize {
        let len = self.window.len();
        if self.far.len() > len / 4 { (2 * len).clamp(WINDOW_LEN_MIN, WINDOW_LEN_MAX) } else { len }
    }

    /// Covers a quarter of the window for better prices than the best, and the rest for worse.
    fn move_window(&mut self, best: u32, len: usize) {
        let base = best.saturating_sub(len as u32 / 4);
        let Self { window, far, .. } = self;
        window.move_to(base, len, |rank, level| far.insert(rank, level));
        while let Some((rank, _)) = far.at_or_after(window.base())
            && let Some(position) = window.position(rank)
        {
            *window.level_mut(position) = far.remove(rank);
            window.fill(position);
        }
    }
}

/// The one of lower rank.
fn better(one: Option<(u32, Level)>, other: Option<(u32, Level)>) -> Option<(u32, Level)> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if one.0 < other.0 { one } else { other }),
        (one, None) => one,
        (None, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec::Vec};

    use market::{
        Capacity, Conditions, CustomerType, Display, Firm, InstrumentId, OrderId, OrderKey, Price,
        Quantity, Side,
    };

    use super::*;
    use crate::{
        order::{Order, OrderTerms},
        random::Random,
    };

    fn order(order_id: u64) -> Order {
        Order::new(OrderTerms {
            order_id: OrderId(order_id),
            key: OrderKey::default(),
            price: Price(1),
            quantity: Quantity(1),
            executed: Quantity::ZERO,
            prevented: Quantity::ZERO,
            conditions: Conditions::NONE,
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
                walked.push((at, pool[slot].order.order_id.0));
                slot = pool[slot].younger;
            }
            rank = at + 1;
        }
        walked
    }

    /// Wherever the market goes, slowly or in jumps, the ladder has the orders and the queues that
    /// a sorted map has.
    #[test]
    fn agrees_with_a_sorted_map_wherever_the_market_goes() {
        for seed in 1..=12_u64 {
            let mut random = Random(seed);
            let mut pool = Pool::new();
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
                    let slot = pool.add(order(step));
                    ladder.append(&mut pool, rank, slot);
                    map.insert((rank, step), slot);
                } else if !map.is_empty() {
                    let index = match random.below(2) {
                        0 => 0,
                        _ => random.below(map.len() as u64) as usize,
                    };
                    let (&(rank, order_id), &slot) = map.iter().nth(index).unwrap();
                    map.remove(&(rank, order_id));
                    ladder.unlink(&mut pool, rank, slot);
                    pool.remove(slot);
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

    /// A market that goes away takes the window along, so that its levels are found by their rank.
    #[test]
    fn window_follows_the_market() {
        let mut pool = Pool::new();
        let mut ladder = Ladder::default();
        let mut slots = Vec::new();
        for step in 0..10_000 {
            let rank = 1_000_000 + 10 * step as u32;
            let slot = pool.add(order(step));
            ladder.append(&mut pool, rank, slot);
            slots.push((rank, slot));
            if slots.len() > 20 {
                let (rank, slot) = slots.remove(0);
                ladder.unlink(&mut pool, rank, slot);
                pool.remove(slot);
            }
        }
        assert!(
            ladder.window.position(ladder.best_rank()).is_some(),
            "the best level is in the window"
        );
        assert!(ladder.window.len() <= 512, "{} levels for 20 orders", ladder.window.len());
    }
}
