//! The book of one instrument: both sides of it, and what rests there.

pub(crate) mod pool;
pub(crate) mod level;
pub(crate) mod far;
pub(crate) mod window;
pub(crate) mod ladder;
pub(crate) mod matching;

use market::{Display, Instrument, Price, Side};

use crate::order::{Order, PRICE_MAX};
use ladder::Ladder;
use level::Level;
use pool::{Pool, Slot};

/// Both sides of one instrument, each with its displayed and its hidden orders.
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
    /// The number of the highest price, in increments.
    number_max: u32,
    bids: BookSide,
    asks: BookSide,
}

/// One side. At one price all displayed orders trade before all hidden ones.
#[derive(Debug, Default)]
pub(crate) struct BookSide {
    displayed: Ladder,
    hidden: Ladder,
    /// Orders in `hidden`: mostly none, and then it need not be looked at.
    hidden_count: u32,
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
            number_max: PRICE_MAX.0 as u32 / increment,
            bids: BookSide::default(),
            asks: BookSide::default(),
        }
    }

    /// What is traded here.
    pub(crate) fn instrument(&self) -> &Instrument {
        &self.instrument
    }

    /// True for a price that a limit order may have here.
    pub(crate) fn is_price(&self, price: Price) -> bool {
        Price::ZERO < price && price <= PRICE_MAX && (price.0 as u32).is_multiple_of(self.increment)
    }

    /// True if an order with this limit would meet another at once. `None` is any price.
    pub(crate) fn would_cross(&self, side: Side, limit: Option<Price>) -> bool {
        let rank_worst = limit.map_or(u32::MAX, |price| self.rank_opposite(side, price));
        self.opposite(side).best().is_some_and(|(rank, _)| rank <= rank_worst)
    }

    /// Puts an order behind all others at its price.
    pub(crate) fn add(&mut self, pool: &mut Pool, order: Order) -> Slot {
        let rank = self.rank(order.side, order.price());
        let slot = pool.add(order);
        self.side_mut(order.side).append(pool, order.display, rank, slot);
        slot
    }

    /// Takes an order out, and lets it go.
    pub(crate) fn remove(&mut self, pool: &mut Pool, slot: Slot) -> Order {
        let order = pool[slot].order;
        let rank = self.rank(order.side, order.price());
        self.side_mut(order.side).unlink(pool, order.display, rank, slot);
        pool.remove(slot);
        order
    }

    /// The best bid, displayed or hidden, in ticks.
    pub(crate) fn best_bid(&self) -> Option<Price> {
        self.bids.best().map(|(rank, _)| self.price(Side::Buy, rank))
    }

    /// The best ask, displayed or hidden, in ticks.
    pub(crate) fn best_ask(&self) -> Option<Price> {
        self.asks.best().map(|(rank, _)| self.price(Side::Sell, rank))
    }

    /// The first level of a side, its price and its oldest order, that is not before `place`, with
    /// the place after it. Places go by price, and at one price from displayed to hidden; 0 is the
    /// first.
    pub(crate) fn level_at_or_after(&self, side: Side, place: u64) -> Option<(u64, Price, Slot)> {
        let (at, slot) = self.side(side).level_at_or_after(place)?;
        Some((at + 1, self.price(side, BookSide::rank(at)), slot))
    }

    /// Asserts that the best bid is below the best ask.
    pub(crate) fn check_not_crossed(&self) {
        if let (Some((bid, _)), Some((ask, _))) = (self.bids.best(), self.asks.best()) {
            assert!(self.number_max - bid < ask, "{} is crossed", self.instrument.symbol);
        }
    }

    /// Asserts what holds within the ladders.
    pub(crate) fn check(&self) {
        self.check_not_crossed();
        for side in [&self.bids, &self.asks] {
            side.check();
        }
    }

    fn side(&self, side: Side) -> &BookSide {
        if side.is_buy() { &self.bids } else { &self.asks }
    }

    fn opposite(&self, side: Side) -> &BookSide {
        if side.is_buy() { &self.asks } else { &self.bids }
    }

    fn opposite_mut(&mut self, side: Side) -> &mut BookSide {
        if side.is_buy() { &mut self.asks } else { &mut self.bids }
    }

    fn side_mut(&mut self, side: Side) -> &mut BookSide {
        if side.is_buy() { &mut self.bids } else { &mut self.asks }
    }

    /// The rank of a price among the orders of a side.
    fn rank(&self, side: Side, price: Price) -> u32 {
        let number = price.0 as u32 / self.increment;
        if side.is_buy() { self.number_max - number } else { number }
    }

    /// The rank of a price among the orders that a side meets.
    fn rank_opposite(&self, side: Side, price: Price) -> u32 {
        let number = price.0 as u32 / self.increment;
        if side.is_buy() { number } else { self.number_max - number }
    }

    fn price(&self, side: Side, rank: u32) -> Price {
        let number = if side.is_buy() { self.number_max - rank } else { rank };
        Price(u64::from(number) * u64::from(self.increment))
    }
}

impl BookSide {
    /// The best level and its rank.
    fn best(&self) -> Option<(u32, Level)> {
        let displayed = self.displayed.best();
        if self.hidden_count == 0 {
            return displayed;
        }
        match (displayed, self.hidden.best()) {
            (Some((rank, _)), Some((hidden, _))) if rank <= hidden => displayed,
            (_, hidden @ Some(_)) => hidden,
            (_, None) => unreachable!("hidden orders have a best level"),
        }
    }

    /// Puts an order behind all others of its rank that are displayed or hidden as it is.
    fn append(&mut self, pool: &mut Pool, display: Display, rank: u32, slot: Slot) {
        if display.is_displayed() {
            return self.displayed.append(pool, rank, slot);
        }
        self.hidden.append(pool, rank, slot);
        self.hidden_count += 1;
    }

    /// Takes an order out of its queue.
    fn unlink(&mut self, pool: &mut Pool, display: Display, rank: u32, slot: Slot) {
        if display.is_displayed() {
            return self.displayed.unlink(pool, rank, slot);
        }
        self.hidden.unlink(pool, rank, slot);
        self.hidden_count -= 1;
    }

    /// Asserts what holds within the ladders.
    fn check(&self) {
        self.displayed.check();
        self.hidden.check();
        assert_eq!(self.hidden_count == 0, self.hidden.best().is_none());
    }

    /// The first level that is not before `place`: its place, and its oldest order.
    fn level_at_or_after(&self, place: u64) -> Option<(u64, Slot)> {
        let displayed = self.displayed.at_or_after(Self::rank(place + 1));
        let hidden = self.hidden.at_or_after(Self::rank(place));
        let displayed = displayed.map(|(rank, level)| (2 * u64::from(rank), level.oldest));
        let hidden = hidden.map(|(rank, level)| (2 * u64::from(rank) + 1, level.oldest));
        displayed.into_iter().chain(hidden).min_by_key(|(place, _)| *place)
    }

    /// The rank of a place.
    fn rank(place: u64) -> u32 {
        u32::try_from(place / 2).expect("ranks are counted in 32 bits")
    }
}
