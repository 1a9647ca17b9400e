//! The book of one instrument: both sides of it, and what rests there.

pub(crate) mod pool;
pub(crate) mod level;
pub(crate) mod window;
pub(crate) mod ladder;
pub(crate) mod matching;

use market::{Instrument, Price, Side};

use crate::order::{Order, PRICE_MAX};
use ladder::{Ladder, NO_RANK};
use pool::{Pool, Slot};

/// Both sides of one instrument.
///
/// A price is known to a ladder by its rank, counted in price increments: from 0 up for the ask
/// side, from the highest price down for the bid side, so that the lower rank is the better price.
///
/// Invariant: after a command the best bid is below the best ask.
#[derive(Debug)]
pub(crate) struct Book {
    instrument: Instrument,
    /// The price increment, which [`PRICE_MAX`] bounds.
    increment: u32,
    /// 2⁶⁴ divided by the increment, rounded up: a product instead of a division. 0 for 1, which
    /// divides nothing.
    increment_inverse: u64,
    /// The number of the highest price, in increments.
    number_max: u32,
    bids: Ladder,
    asks: Ladder,
}

impl Book {
    /// An empty book.
    pub(crate) fn new(instrument: Instrument) -> Self {
        let increment = instrument.price_increment;
        assert!(Price::ZERO < increment && increment <= PRICE_MAX, "{instrument:?}");
        let increment = increment.0 as u32;
        Self {
            instrument,
            increment,
            increment_inverse: (u64::MAX / u64::from(increment)).wrapping_add(1),
            number_max: PRICE_MAX.0 as u32 / increment,
            bids: Ladder::default(),
            asks: Ladder::default(),
        }
    }

    /// What is traded here.
    pub(crate) fn instrument(&self) -> &Instrument {
        &self.instrument
    }

    /// True for a price that a limit order may have here.
    #[inline]
    pub(crate) fn is_price(&self, price: Price) -> bool {
        Price::ZERO < price
            && price <= PRICE_MAX
            && self.number(price) * self.increment == price.0 as u32
    }

    /// True if an order with this limit would meet another at once. `None` is any price.
    #[inline]
    pub(crate) fn would_cross(&self, side: Side, limit: Option<Price>) -> bool {
        let rank_worst = limit.map_or(NO_RANK - 1, |price| self.rank_opposite(side, price));
        let makers = if side.is_buy() { &self.asks } else { &self.bids };
        makers.best_rank() <= rank_worst
    }

    /// Puts an order behind all others at its price.
    #[inline]
    pub(crate) fn add(&mut self, pool: &mut Pool, order: Order) -> Slot {
        let rank = self.rank(order.side, order.price());
        let slot = pool.add(order);
        self.side_mut(order.side).append(pool, rank, slot);
        slot
    }

    /// Takes an order out, and lets it go.
    #[inline]
    pub(crate) fn remove(&mut self, pool: &mut Pool, slot: Slot) -> Order {
        let order = pool[slot].order;
        let rank = self.rank(order.side, order.price());
        self.side_mut(order.side).unlink(pool, rank, slot);
        pool.remove(slot);
        order
    }

    /// The best bid, in ticks.
    pub(crate) fn best_bid(&self) -> Option<Price> {
        self.price_best(Side::Buy, self.bids.best_rank())
    }

    /// The best ask, in ticks.
    pub(crate) fn best_ask(&self) -> Option<Price> {
        self.price_best(Side::Sell, self.asks.best_rank())
    }

    /// The first level, and its price, whose rank is not below `rank`, with the rank after it.
    pub(crate) fn level_at_or_after(&self, side: Side, rank: u32) -> Option<(u32, Price, Slot)> {
        let ladder = if side.is_buy() { &self.bids } else { &self.asks };
        let (at, level) = ladder.at_or_after(rank)?;
        Some((at + 1, self.price(side, at), level.oldest))
    }

    /// Asserts that the best bid is below the best ask.
    #[inline]
    pub(crate) fn check_not_crossed(&self) {
        let (bid, ask) = (self.bids.best_rank(), self.asks.best_rank());
        // Without a level on one side the sum is more than the highest number.
        let crossed = u64::from(bid) + u64::from(ask) <= u64::from(self.number_max);
        assert!(!crossed, "{} is crossed", self.instrument.symbol);
    }

    /// Asserts what holds within the ladders.
    pub(crate) fn check(&self) {
        self.check_not_crossed();
        self.bids.check();
        self.asks.check();
    }

    #[inline]
    fn side_mut(&mut self, side: Side) -> &mut Ladder {
        if side.is_buy() { &mut self.bids } else { &mut self.asks }
    }

    fn opposite_mut(&mut self, side: Side) -> &mut Ladder {
        if side.is_buy() { &mut self.asks } else { &mut self.bids }
    }

    /// A price in increments, rounded down: exact for numbers of 32 bits.
    #[inline]
    fn number(&self, price: Price) -> u32 {
        if self.increment_inverse == 0 {
            return price.0 as u32;
        }
        ((u128::from(self.increment_inverse) * u128::from(price.0)) >> 64) as u32
    }

    /// The rank of a price among the orders of a side.
    #[inline]
    fn rank(&self, side: Side, price: Price) -> u32 {
        let number = self.number(price);
        if side.is_buy() { self.number_max - number } else { number }
    }

    /// The rank of a price among the orders that a side meets.
    #[inline]
    fn rank_opposite(&self, side: Side, price: Price) -> u32 {
        let number = self.number(price);
        if side.is_buy() { number } else { self.number_max - number }
    }

    fn price_best(&self, side: Side, rank: u32) -> Option<Price> {
        (rank != NO_RANK).then(|| self.price(side, rank))
    }

    fn price(&self, side: Side, rank: u32) -> Price {
        let number = if side.is_buy() { self.number_max - rank } else { rank };
        Price(u64::from(number) * u64::from(self.increment))
    }
}
