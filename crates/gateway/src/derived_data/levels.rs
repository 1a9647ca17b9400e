//! Displayed lots and orders of one instrument, by price.
//!
//! Invariant: a level has at least one order; levels without orders are not kept.

use std::collections::BTreeMap;

/// The displayed orders at one price, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriceLevel {
    /// In ticks.
    pub price: u32,
    pub lots: u64,
    /// 0 if the level is gone.
    pub orders: u32,
}

/// Both sides of an instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceLevels {
    bids: BTreeMap<u32, Total>,
    asks: BTreeMap<u32, Total>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Total {
    lots: u64,
    orders: u32,
}

impl PriceLevels {
    /// The bids, highest first.
    pub fn bids(&self) -> impl Iterator<Item = PriceLevel> + Clone {
        self.bids.iter().rev().map(level)
    }

    /// The asks, lowest first.
    pub fn asks(&self) -> impl Iterator<Item = PriceLevel> + Clone {
        self.asks.iter().map(level)
    }

    /// The best levels of a side, best first.
    #[must_use]
    pub fn best(&self, is_bid: bool, depth: usize) -> Vec<PriceLevel> {
        match is_bid {
            true => self.bids().take(depth).collect(),
            false => self.asks().take(depth).collect(),
        }
    }

    /// Adds an order, and returns the level as it is now.
    pub fn add(&mut self, is_bid: bool, price: u32, lots: u32) -> PriceLevel {
        let total = self.side(is_bid).entry(price).or_default();
        total.lots += u64::from(lots);
        total.orders += 1;
        level((&price, total))
    }

    /// Takes lots from an order, perhaps all that it had, and returns the level as it is now.
    ///
    /// # Panics
    /// There is no such level, or it has fewer lots.
    pub fn reduce(&mut self, is_bid: bool, price: u32, lots: u32, is_removed: bool) -> PriceLevel {
        let total = self.side(is_bid).get_mut(&price).expect("an order rests at a level");
        total.lots = total.lots.checked_sub(lots.into()).expect("a level has its orders' lots");
        total.orders -= u32::from(is_removed);
        let after = level((&price, total));
        if after.orders == 0 {
            self.side(is_bid).remove(&price);
        }
        after
    }

    /// Replaces the level.
    pub fn set(&mut self, is_bid: bool, level: PriceLevel) {
        let PriceLevel { price, lots, orders } = level;
        match orders {
            0 => drop(self.side(is_bid).remove(&price)),
            _ => drop(self.side(is_bid).insert(price, Total { lots, orders })),
        }
    }

    /// The levels of a side from a price up.
    pub(super) fn from(&self, is_bid: bool, price: u32) -> impl Iterator<Item = PriceLevel> {
        let side = if is_bid { &self.bids } else { &self.asks };
        side.range(price..).map(level)
    }

    fn side(&mut self, is_bid: bool) -> &mut BTreeMap<u32, Total> {
        if is_bid { &mut self.bids } else { &mut self.asks }
    }
}

fn level((price, total): (&u32, &Total)) -> PriceLevel {
    PriceLevel { price: *price, lots: total.lots, orders: total.orders }
}
