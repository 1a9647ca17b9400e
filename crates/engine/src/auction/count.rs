//! The price of an auction: first all orders that could trade are counted by level, then each price
//! of one of them is tried, lowest first.
//!
//! Both are done in steps of [`ORDERS_MAX`] and [`PRICES_MAX`], so that the auction of a large book makes nobody wait; see
//! [`steps`](super::steps). How many steps they take follows from the number of orders alone. What
//! was counted so far is no state: an engine that is restored between two steps counts again.
//!
//! Levels are searched, never prices: a price without an order costs nothing.

use alloc::vec::Vec;
use core::{array, cmp::Ordering};

use market::{Indication, Phase, Price, Quantity, Side};

use super::uncross::rank_worst;
use crate::book::{
    Book, BookSide,
    ladder::Ladder,
    pool::{Pool, Slot},
};

/// The most orders that are counted in a step.
const ORDERS_MAX: usize = 256;

/// How many steps try prices for each that counts orders: a price costs more than an order.
const SEARCHES: u32 = 4;

/// The most prices that are tried in a step; the reference price is one more than there are orders.
const PRICES_MAX: usize = ORDERS_MAX / SEARCHES as usize + 1;

/// So many orders, and their prices, take one step in all.
const FEW: usize = 128;

/// The ladders of a side that may take part: displayed, hidden, and those of three auctions.
const LADDERS: usize = 5;

/// Orders of one price in one of the ladders that take part.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// As in [`AuctionSide`](super::uncross::AuctionSide).
    rank: u32,
    /// All orders of a price may have more lots than 64 bits say.
    leaves: u128,
}

/// Lots that would buy and would sell at a price.
#[derive(Clone, Copy, Debug)]
struct Point {
    price: Price,
    demand: u128,
    supply: u128,
}

impl Point {
    fn volume(&self) -> u128 {
        self.demand.min(self.supply)
    }

    fn imbalance(&self) -> u128 {
        self.demand.abs_diff(self.supply)
    }
}

/// The prices at which most lots trade, and of these least is left over.
#[derive(Clone, Copy, Debug)]
struct Best {
    lowest: Point,
    highest: Point,
    /// Of two equally near to the reference price the higher.
    nearest: Point,
    has_more_demand: bool,
    has_more_supply: bool,
}

impl Best {
    fn of(point: Point) -> Self {
        Self {
            lowest: point,
            highest: point,
            nearest: point,
            has_more_demand: point.supply < point.demand,
            has_more_supply: point.demand < point.supply,
        }
    }

    /// Considers the next higher price.
    fn add(&mut self, point: Point, reference: Price) {
        let Point { demand, supply, .. } = point;
        self.highest = point;
        self.has_more_demand &= supply < demand;
        self.has_more_supply &= demand < supply;
        let distance = |point: Point| point.price.0.abs_diff(reference.0);
        if distance(point) <= distance(self.nearest) {
            self.nearest = point;
        }
    }

    /// In the direction of what is left over at all of them, else nearest to the reference price.
    fn point(&self) -> Point {
        match (self.has_more_demand, self.has_more_supply) {
            (true, _) => self.highest,
            (_, true) => self.lowest,
            _ => self.nearest,
        }
    }
}

/// The search among the prices.
#[derive(Clone, Copy, Debug)]
struct Search {
    reference: Price,
    /// True once the reference price was tried.
    has_tried_reference: bool,
    /// By ladder: buy levels that still buy at the next price, and sell levels that sell.
    buying: [usize; LADDERS],
    selling: [usize; LADDERS],
    demand: u128,
    supply: u128,
    best: Option<Best>,
}

/// Counts the orders of an auction. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Count {
    /// Steps so far.
    steps: u32,
    /// The last step, once all orders are counted.
    steps_last: Option<u32>,
    /// Orders counted so far.
    orders: usize,
    /// By side and ladder, best price first.
    levels: [[Vec<Level>; LADDERS]; 2],
    /// The ladder that is counted, of both sides.
    ladder: usize,
    /// The rank after the level that is counted.
    rank: u32,
    /// The next order of that level.
    next: Option<Slot>,
    search: Option<Search>,
}

/// A ladder of a side, if it takes part, and what its ranks are below those of a level.
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
        self.levels.as_flattened_mut().iter_mut().for_each(Vec::clear);
        (self.steps, self.orders, self.ladder, self.rank) = (0, 0, 0, 0);
        (self.steps_last, self.next, self.search) = (None, None, None);
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
        self.search(book, reference, usize::MAX);
        self.indication()
    }

    /// Does the next step; true if it was the last, and [`indication`](Self::indication) has the
    /// result.
    pub(crate) fn step(
        &mut self,
        book: &Book,
        pool: &Pool,
        phase: Phase,
        reference: Price,
    ) -> bool {
        self.steps += 1;
        if self.steps_last.is_none() {
            if self.count(book, pool, phase, ORDERS_MAX) {
                let is_few = self.orders <= FEW;
                self.steps_last = Some(if is_few { 1 } else { self.steps * (1 + SEARCHES) });
            }
            if self.steps_last != Some(1) {
                return false;
            }
        }
        let is_few = self.steps_last == Some(1);
        self.search(book, reference, if is_few { FEW + 1 } else { PRICES_MAX });
        if self.steps_last != Some(self.steps) {
            return false;
        }
        if self.search.is_some_and(|search| search.reference != reference) {
            // The venue set another one meanwhile.
            self.search = None;
            self.search(book, reference, usize::MAX);
        }
        true
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
        let rank_worst = book.rank(side, price) + 1;
        let levels = self.levels[usize::from(!side.is_buy())].iter().flatten();
        levels.filter(|level| level.rank <= rank_worst).map(|level| level.leaves).sum()
    }

    /// Counts so many orders; true if all are counted.
    fn count(&mut self, book: &Book, pool: &Pool, phase: Phase, mut orders: usize) -> bool {
        while self.ladder < 2 * LADDERS {
            let (side_index, index) = (self.ladder / LADDERS, self.ladder % LADDERS);
            let side = [Side::Buy, Side::Sell][side_index];
            let found = ladder(book, side, index, phase).zip(rank_worst(book, side, phase));
            if let Some(((ladder, shift), rank_worst)) = found {
                let levels = &mut self.levels[side_index][index];
                loop {
                    let Some(slot) = self.next else {
                        let level = ladder.at_or_after(self.rank);
                        let level = level.filter(|(rank, _)| rank + shift <= rank_worst);
                        let Some((rank, level)) = level else { break };
                        levels.push(Level { rank: rank + shift, leaves: 0 });
                        (self.rank, self.next) = (rank + 1, Some(level.oldest));
                        continue;
                    };
                    if orders == 0 {
                        return false;
                    }
                    orders -= 1;
                    self.orders += 1;
                    let node = &pool[slot];
                    levels.last_mut().expect("it was begun").leaves +=
                        u128::from(node.order.leaves().0);
                    self.next = Some(node.younger).filter(|younger| !younger.is_none());
                }
            }
            (self.ladder, self.rank) = (self.ladder + 1, 0);
        }
        true
    }

    /// Tries so many prices.
    fn search(&mut self, book: &Book, reference: Price, prices: usize) {
        let [bids, asks] = &self.levels;
        // Those without a price trade at any.
        let price = |side, level: &Level| {
            if level.rank == 0 { Price::ZERO } else { book.price(side, level.rank - 1) }
        };
        let search = self.search.get_or_insert_with(|| {
            let unpriced = asks.iter().flatten().filter(|level| level.rank == 0);
            let has_unpriced = |asks: &Vec<Level>| asks.first().is_some_and(|it| it.rank == 0);
            Search {
                reference,
                has_tried_reference: !book.is_price(reference),
                buying: array::from_fn(|index| bids[index].len()),
                selling: array::from_fn(|index| usize::from(has_unpriced(&asks[index]))),
                demand: bids.iter().flatten().map(|level| level.leaves).sum(),
                supply: unpriced.map(|level| level.leaves).sum(),
                best: None,
            }
        });
        for _ in 0..prices {
            let bid = |(bids, buying): (&Vec<Level>, &usize)| {
                let worst = bids[..*buying].last().filter(|level| level.rank != 0)?;
                Some(price(Side::Buy, worst))
            };
            let ask = |(asks, selling): (&Vec<Level>, &usize)| {
                Some(price(Side::Sell, asks.get(*selling)?))
            };
            let bid = bids.iter().zip(&search.buying).filter_map(bid).min();
            let ask = asks.iter().zip(&search.selling).filter_map(ask).min();
            let named = (!search.has_tried_reference).then_some(search.reference);
            let Some(next) = [bid, ask, named].into_iter().flatten().min() else { return };
            search.has_tried_reference |= next == search.reference;
            for (asks, selling) in asks.iter().zip(&mut search.selling) {
                if let Some(level) = asks.get(*selling)
                    && price(Side::Sell, level) == next
                {
                    search.supply += level.leaves;
                    *selling += 1;
                }
            }
            let point = Point { price: next, demand: search.demand, supply: search.supply };
            let better = |best: &Best| {
                let Best { lowest, .. } = best;
                let more_left = lowest.imbalance().cmp(&point.imbalance());
                point.volume().cmp(&lowest.volume()).then(more_left)
            };
            match &mut search.best {
                _ if point.volume() == 0 => {}
                Some(best) => match better(best) {
                    Ordering::Greater => *best = Best::of(point),
                    Ordering::Equal => best.add(point, search.reference),
                    Ordering::Less => {}
                },
                best => *best = Some(Best::of(point)),
            }
            for (bids, buying) in bids.iter().zip(&mut search.buying) {
                if let Some(level) = bids[..*buying].last()
                    && price(Side::Buy, level) == next
                {
                    search.demand -= level.leaves;
                    *buying -= 1;
                }
            }
        }
    }

    /// Price and lots of the auction; `None` if nothing trades.
    pub(crate) fn cross(&self) -> Option<(Price, u128)> {
        let point = self.search?.best?.point();
        Some((point.price, point.volume()))
    }

    /// The result of the search, in lots up to what 64 bits say.
    pub(crate) fn indication(&self) -> Indication {
        let best = self.search.and_then(|search| search.best);
        let Some(point) = best.map(|best| best.point()) else { return Indication::default() };
        Indication {
            price: point.price,
            paired: saturated(point.volume()),
            imbalance: saturated(point.imbalance()),
            imbalance_is_buy: point.supply < point.demand,
        }
    }
}

/// The largest quantity where 64 bits cannot say so many lots.
pub(super) fn saturated(lots: u128) -> Quantity {
    Quantity(u64::try_from(lots).unwrap_or(u64::MAX))
}
