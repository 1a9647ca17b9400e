//! The price of an auction among the prices of its orders, found without trying each of them.
//!
//! As the price rises, the lots to buy fall and the lots to sell rise. So the volume is largest where
//! the two cross. Prices with the same volume there have no order between them, so only the two nearest
//! prices on each side and the reference price can win.
//!
//! Invariant: the result is that of trying every price; the tests do so.

use core::cmp::Ordering;

use market::Price;

use super::lots_by_price::{BothSides, LotsByPrice};

/// Lots that would buy and would sell at a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) price: Price,
    pub(super) demand: u128,
    pub(super) supply: u128,
}

impl Point {
    pub(super) fn volume(&self) -> u128 {
        self.demand.min(self.supply)
    }

    pub(super) fn imbalance(&self) -> u128 {
        self.demand.abs_diff(self.supply)
    }
}

/// The prices at which most lots trade, and of these least is left over.
#[derive(Clone, Copy, Debug)]
struct Best {
    lowest: Point,
    highest: Point,
    /// The price nearest to the reference price; the higher of two equally near ones.
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

    /// The highest or the lowest price if all have an imbalance on the same side, else the one nearest to
    /// the reference price.
    fn point(&self) -> Point {
        match (self.has_more_demand, self.has_more_supply) {
            (true, _) => self.highest,
            (_, true) => self.lowest,
            _ => self.nearest,
        }
    }
}

/// The best of some prices, from the lowest to the highest; `None` if nothing trades.
fn best(points: impl Iterator<Item = Point>, reference: Price) -> Option<Point> {
    let mut best: Option<Best> = None;
    for point in points.filter(|point| point.volume() != 0) {
        let better = |Best { lowest, .. }: &Best| {
            let more_left = lowest.imbalance().cmp(&point.imbalance());
            point.volume().cmp(&lowest.volume()).then(more_left)
        };
        match &mut best {
            Some(best) => match better(best) {
                Ordering::Greater => *best = Best::of(point),
                Ordering::Equal => best.add(point, reference),
                Ordering::Less => {}
            },
            best => *best = Some(Best::of(point)),
        }
    }
    best.map(|best| best.point())
}

/// The price of an auction of these lots, and of those that trade at any price; `None` if nothing
/// trades. The reference price is one of the prices if an order may have it.
pub(super) fn search(
    priced: &LotsByPrice,
    any_price: BothSides,
    reference: Price,
    may_be_reference: bool,
) -> Option<Point> {
    let turn = priced.turn(any_price);
    let below = match turn {
        Some(turn) => priced.last_before(turn),
        None => priced.highest(),
    };
    let above = turn.and_then(|turn| priced.next(turn));
    let prices = [
        below.and_then(|below| priced.last_before(below)),
        below,
        turn,
        above,
        above.and_then(|above| priced.next(above)),
    ];
    // In order, the reference price once.
    let others = || prices.into_iter().flatten().filter(|price| *price != reference);
    let lower = others().filter(|price| *price < reference);
    let higher = others().filter(|price| reference < *price);
    let is_named = may_be_reference || prices.contains(&Some(reference));
    let prices = lower.chain(is_named.then_some(reference)).chain(higher);
    let points = prices.map(|price| {
        let BothSides { buy, sell } = priced.at(price);
        Point { price, demand: buy + any_price.buy, supply: sell + any_price.sell }
    });
    best(points, reference)
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use market::{Side, SplitMix64};

    use super::*;
    use crate::auction::lots_by_price::DEPTH_MAX;

    /// The most nodes that a search may read: three searches of a way down, four of a neighbor, which
    /// is a way down and one to the nearest, and the sums at six prices, where each node has one
    /// beside it.
    const LOOKS_MAX: usize = DEPTH_MAX * (3 + 4 * 2 + 6 * 2);

    /// An order: its side, its limit, its lots.
    type Offer = (Side, Option<Price>, u128);

    /// Tries every price, each time by going through all orders.
    fn slow(orders: &[Offer], reference: Price, may_be_reference: bool) -> Option<Point> {
        let mut prices: Vec<_> = orders.iter().filter_map(|(_, price, _)| *price).collect();
        prices.extend(may_be_reference.then_some(reference));
        prices.sort_unstable();
        prices.dedup();
        let points = prices.into_iter().map(|at| {
            let lots = |side: Side| {
                let trades = |price: Price| if side.is_buy() { at <= price } else { price <= at };
                let of_side = orders.iter().filter(|order| order.0 == side);
                of_side.filter(|order| order.1.is_none_or(trades)).map(|order| order.2).sum()
            };
            Point { price: at, demand: lots(Side::Buy), supply: lots(Side::Sell) }
        });
        best(points, reference)
    }

    fn fast(orders: &[Offer], reference: Price, may_be_reference: bool) -> Option<Point> {
        let mut priced = LotsByPrice::default();
        let mut any_price = BothSides::default();
        for (side, price, lots) in orders {
            match price {
                Some(price) => priced.add(*side, *price, *lots),
                None if side.is_buy() => any_price.buy += lots,
                None => any_price.sell += lots,
            }
        }
        priced.looks.set(0);
        let found = search(&priced, any_price, reference, may_be_reference);
        assert!(priced.looks.get() <= LOOKS_MAX, "{} looks", priced.looks.get());
        found
    }

    /// Orders with few prices and few lots, so that most books have several prices that are equally
    /// good; also with many of both.
    #[test]
    fn the_price_is_that_of_trying_every_price() {
        let mut random = SplitMix64::new(3);
        let mut found = [0; 2];
        for round in 0..60_000 {
            let span = [2, 4, 9, 30, 1_999_999_900][round % 5];
            let lots_max = [1, 2, 5, (1 << 48) - 1][round / 5 % 4];
            let mut orders: Vec<Offer> = vec![];
            for _ in 0..random.below(12) {
                let side = [Side::Buy, Side::Sell][random.below(2) as usize];
                let price = (random.below(8) != 0).then(|| Price(1 + random.below(span)));
                orders.push((side, price, u128::from(1 + random.below(lots_max))));
            }
            let reference = Price(random.below(span + 3));
            let may_be_reference = reference != Price::ZERO && random.below(4) != 0;
            let expected = slow(&orders, reference, may_be_reference);
            let price = fast(&orders, reference, may_be_reference);
            assert_eq!(price, expected, "{orders:?}, {reference:?} {may_be_reference}");
            found[usize::from(price.is_some())] += 1;
        }
        assert!(found.iter().all(|count| 6_000 < *count), "{found:?}");
    }

    /// A search reads no more of 60,000 prices, at any distance, than its bound.
    #[test]
    fn many_prices_cost_no_more_looks() {
        let mut random = SplitMix64::new(5);
        let order = |number: u64| {
            let side = [Side::Buy, Side::Sell][(number % 2) as usize];
            (side, Some(Price(1 + number)), 3)
        };
        let dense: Vec<Offer> = (0..60_000).map(order).collect();
        let spread = (0..60_000).map(|number| {
            let (side, _, lots) = order(number);
            (side, Some(Price(1 + random.below(1_999_999_900))), lots)
        });
        let spread: Vec<Offer> = spread.collect();
        for orders in [dense, spread] {
            for reference in [1, 30_000, 1_999_999_900] {
                assert!(fast(&orders, Price(reference), true).is_some());
            }
        }
    }
}
