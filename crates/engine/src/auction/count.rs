//! What trades in an auction: all orders that could trade are counted by price, and then the price
//! is found by [`price_search`](super::price_search).
//!
//! They are counted in steps of [`ORDERS_MAX`], so that the auction of a large book makes nobody
//! wait; see [`steps`](super::steps). How many steps it takes follows from the number of orders
//! alone. What was counted so far is no state: an engine that is restored between two steps counts
//! again.

use market::{Indication, Phase, Price, Quantity, Side};

use super::{
    lots_by_price::{BothSides, LotsByPrice},
    price_search::{self, Point},
    uncross::rank_worst,
};
use crate::book::{
    Book, BookSide,
    ladder::Ladder,
    pool::{Pool, Slot},
};

/// The most orders that are counted in a step.
const ORDERS_MAX: usize = 256;

/// The ladders of a side that may take part: displayed, hidden, and those of three auctions.
const LADDERS: usize = 5;

/// Counts the orders of an auction. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Count {
    /// Steps so far.
    steps: u32,
    /// Lots that trade at any price.
    any_price: BothSides,
    priced: LotsByPrice,
    /// The ladder that is counted, of both sides.
    ladder: usize,
    /// The rank after the level that is counted.
    rank: u32,
    /// The next order of that level.
    next: Option<Slot>,
}

/// A ladder of a side, if it takes part, and what its ranks are below those of a level as in
/// [`AuctionSide`](super::uncross::AuctionSide).
fn ladder(book: &Book, side: Side, index: usize, phase: Phase) -> Option<(&Ladder, u32)> {
    let BookSide { displayed, hidden } = book.side(side);
    match index {
        0 => Some((displayed, 1)),
        1 => hidden.as_deref().map(|hidden| (hidden, 1)),
        _ => book.auction(side)?.taking_part(phase).nth(index - 2).map(|ladder| (ladder, 0)),
    }
}

impl Count {
    /// Begins anew.
    pub(crate) fn clear(&mut self) {
        (self.steps, self.ladder, self.rank, self.next) = (0, 0, 0, None);
        self.any_price = BothSides::default();
        self.priced.clear();
    }

    /// Steps so far.
    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    /// The indication of the auction at the end of a phase, without steps.
    pub(crate) fn look(
        &mut self,
        book: &Book,
        pool: &Pool,
        phase: Phase,
        reference: Price,
    ) -> Indication {
        self.clear();
        self.count(book, pool, phase, usize::MAX);
        let Some(point) = self.search(book, reference) else { return Indication::default() };
        Indication {
            price: point.price,
            paired: saturated(point.volume()),
            imbalance: saturated(point.imbalance()),
            imbalance_is_buy: point.supply < point.demand,
        }
    }

    /// Does the next step; true if it was the last, and [`cross`](Self::cross) has the result.
    pub(crate) fn step(&mut self, book: &Book, pool: &Pool, phase: Phase) -> bool {
        self.steps += 1;
        self.count(book, pool, phase, ORDERS_MAX)
    }

    /// The lots that could trade at a price on a side.
    pub(crate) fn lots(
        &mut self,
        book: &Book,
        pool: &Pool,
        phase: Phase,
        (side, price): (Side, Price),
    ) -> u128 {
        self.clear();
        self.count(book, pool, phase, usize::MAX);
        let (at, any) = (self.priced.at(price), self.any_price);
        if side.is_buy() { at.buy + any.buy } else { at.sell + any.sell }
    }

    /// Counts so many orders; true if all are counted.
    fn count(&mut self, book: &Book, pool: &Pool, phase: Phase, mut orders: usize) -> bool {
        while self.ladder < 2 * LADDERS {
            let (side_index, index) = (self.ladder / LADDERS, self.ladder % LADDERS);
            let side = [Side::Buy, Side::Sell][side_index];
            let found = ladder(book, side, index, phase).zip(rank_worst(book, side, phase));
            if let Some(((ladder, shift), rank_worst)) = found {
                loop {
                    let Some(slot) = self.next else {
                        let level = ladder.at_or_after(self.rank);
                        let level = level.filter(|(rank, _)| rank + shift <= rank_worst);
                        let Some((rank, level)) = level else { break };
                        (self.rank, self.next) = (rank + 1, Some(level.oldest));
                        continue;
                    };
                    if orders == 0 {
                        return false;
                    }
                    self.next = self.count_level(pool, slot, &mut orders);
                }
            }
            (self.ladder, self.rank) = (self.ladder + 1, 0);
        }
        true
    }

    /// Counts so many orders of a level from this one on; returns the first that is left.
    fn count_level(&mut self, pool: &Pool, first: Slot, orders: &mut usize) -> Option<Slot> {
        let (mut slot, mut lots) = (first, 0);
        while *orders != 0 && !slot.is_none() {
            *orders -= 1;
            lots += u128::from(pool[slot].order.leaves().0);
            slot = pool[slot].younger;
        }
        let order = &pool[first].order;
        match order.price() {
            Price::ZERO if order.side().is_buy() => self.any_price.buy += lots,
            Price::ZERO => self.any_price.sell += lots,
            price => self.priced.add(order.side(), price, lots),
        }
        Some(slot).filter(|slot| !slot.is_none())
    }

    fn search(&self, book: &Book, reference: Price) -> Option<Point> {
        price_search::search(&self.priced, self.any_price, reference, book.is_price(reference))
    }

    /// Price and lots of the auction; `None` if nothing trades.
    pub(crate) fn cross(&self, book: &Book, reference: Price) -> Option<(Price, u128)> {
        self.search(book, reference).map(|point| (point.price, point.volume()))
    }
}

/// The largest quantity where 64 bits cannot say so many lots.
pub(super) fn saturated(lots: u128) -> Quantity {
    Quantity(u64::try_from(lots).unwrap_or(u64::MAX))
}
