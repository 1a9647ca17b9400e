//! The price and the lots of an auction: all orders that could trade are counted by price, and
//! [`price_search`](super::price_search) finds the price.
//!
//! The count is done in steps, buyers first, each side from the order that would trade first. A side has
//! a place, up to which its orders are counted. An order that is added, changed or removed before that
//! place changes the sums at once. So between two steps the sums are always those of the orders before
//! the places, and an indication needs only a count of the other orders.
//!
//! Invariant: lots are those of the orders before the places; [`Engine::check`](crate::Engine::check) counts them
//! again.

use market::{Indication, InstrumentId, OrderId, Price, Quantity, Side, encoded};

use super::{
    lots_by_price::{BothSides, LotsByPrice},
    phases,
    price_search::{self, Point},
    uncross::rank_worst,
};
use crate::{
    book::{
        Book, BookSide,
        ladder::{Ladder, NO_RANK},
        pool::{Pool, Slot},
    },
    order::{ForAuction, Order, PRICE_MAX},
    state::hash,
};

/// The most orders that are counted in a step.
pub(crate) const ORDERS_MAX: usize = 256;

/// How many orders a price costs as much as, in each step and for each class of its orders: about
/// 190 ns for a new one.
const ORDERS_PER_PRICE: usize = 8;

/// The classes of orders at a price that may take part: displayed, hidden, and those of three auctions.
const CLASSES: u8 = 5;

/// The rank after that of the worst price, which an increment of one tick has.
const RANK_MAX: u32 = PRICE_MAX.0 as u32 + 2;

/// A place among the orders of a side, from the first to trade on: by rank as in
/// [`AuctionSide`](super::uncross::AuctionSide), class and age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    rank: u32,
    class: u8,
    /// 0 is before all of them.
    order_id: OrderId,
}

/// How far the orders of an auction are counted; a part of the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The places of buyers and sellers up to which orders are counted.
    pub(crate) places: [Place; 2],
    /// True if the first indication waits for that.
    pub(crate) is_first: bool,
}

encoded! {
    Place { rank, class, order_id }
}

impl Counted {
    /// Its element of the state hash.
    pub(crate) fn hash(&self, instrument_id: InstrumentId) -> u64 {
        if *self == Self::default() {
            return 0;
        }
        let [buy, sell] = self.places.map(|Place { rank, class, order_id }| {
            [u64::from(rank) | u64::from(class) << 32, order_id.0]
        });
        let flags = u64::from(instrument_id.0) | u64::from(self.is_first) << 32;
        hash::mix([hash::COUNTED, flags, buy[0], buy[1], sell[0], sell[1]])
    }

    /// True if a count can have reached its places.
    pub(crate) fn is_valid(&self) -> bool {
        let is_within = |place: &Place| place.rank <= RANK_MAX && place.class <= CLASSES;
        let is_end =
            |place: &Place| place.rank == NO_RANK && (place.class, place.order_id.0) == (0, 0);
        self.places.iter().all(|place| is_within(place) || is_end(place))
    }

    /// True if no order was counted.
    pub(crate) fn is_begin(&self) -> bool {
        self.places == <[Place; 2]>::default()
    }
}

/// The counted orders of an auction. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) counted: Counted,
    /// By side: the first order of its level that is not counted, if the place is within a level and
    /// that has one.
    next: [Option<Slot>; 2],
    /// Lots that trade at any price.
    any_price: BothSides,
    priced: LotsByPrice,
}

fn index(side: Side) -> usize {
    usize::from(!side.is_buy())
}

/// The ladder of a class of orders that takes part, and the difference of its ranks from those of a place.
fn ladder(book: &Book, side: Side, class: u8) -> Option<(&Ladder, u32)> {
    let BookSide { displayed, hidden } = book.side(side);
    let waits = match class {
        0 => return Some((displayed, 1)),
        1 => return hidden.as_deref().map(|hidden| (hidden, 1)),
        2 => ForAuction::Open,
        3 => ForAuction::Close,
        _ => ForAuction::Next,
    };
    let takes_part = phases::takes_part(waits, book.trading.phase);
    takes_part.then(|| book.auction(side).map(|orders| (orders.ladder(waits), 0)))?
}

/// The place of a resting order; `None` if it takes no part.
fn place_of(book: &Book, order: &Order) -> Option<Place> {
    let waits = order.for_auction();
    let class = match waits {
        ForAuction::No if order.display().is_displayed() => 0,
        ForAuction::No => 1,
        ForAuction::Open => 2,
        ForAuction::Close => 3,
        ForAuction::Next | ForAuction::AsMarket => 4,
    };
    let rank = book.auction_rank(order);
    let takes_part = phases::takes_part(waits, book.trading.phase);
    takes_part.then(|| Place { rank, class, order_id: order.order_id() })
}

impl Count {
    /// Forgets all counted orders.
    pub(crate) fn clear(&mut self) {
        (self.counted, self.next, self.any_price) = Default::default();
        self.priced.clear();
    }

    /// Continues the count with at most `orders` orders, and reduces `orders` by those counted and by the
    /// cost of each price. True if all orders that could trade are counted; otherwise `orders` is used up.
    pub(crate) fn count(&mut self, book: &Book, pool: &Pool, orders: &mut usize) -> bool {
        for side in [Side::Buy, Side::Sell] {
            let Some(rank_worst) = rank_worst(book, side, book.trading.phase) else { continue };
            let at = index(side);
            while let Some((place, slot)) = self.first_left(book, pool, side)
                && place.rank <= rank_worst
            {
                (self.counted.places[at], self.next[at]) = (place, Some(slot));
                if *orders <= ORDERS_PER_PRICE {
                    *orders = 0;
                    return false;
                }
                *orders -= ORDERS_PER_PRICE;
                self.count_level(pool, side, orders, |_| true);
            }
            let end = Place { rank: rank_worst + 1, ..Place::default() };
            if self.counted.places[at] < end {
                (self.counted.places[at], self.next[at]) = (end, None);
            }
        }
        true
    }

    /// The first order of a side that is not counted, and its place.
    fn first_left(&self, book: &Book, pool: &Pool, side: Side) -> Option<(Place, Slot)> {
        let at = index(side);
        let Place { rank, mut class, order_id } = self.counted.places[at];
        if let Some(slot) = self.next[at] {
            return Some((self.counted.places[at], slot));
        }
        if rank == NO_RANK {
            return None;
        }
        // Within a level, without another order there.
        class += u8::from(order_id != OrderId(0));
        let of_class = |it: u8| {
            let (ladder, shift) = ladder(book, side, it)?;
            let from = rank + u32::from(it < class);
            let (at, level) = ladder.at_or_after(from.saturating_sub(shift))?;
            Some((at + shift, it, level.oldest))
        };
        let (rank, class, slot) =
            (0..CLASSES).filter_map(of_class).min_by_key(|(rank, class, _)| (*rank, *class))?;
        Some((Place { rank, class, order_id: pool[slot].order.order_id() }, slot))
    }

    /// Counts at most `orders` orders of a level, from the next one on, up to the first that the condition
    /// excludes.
    fn count_level(
        &mut self,
        pool: &Pool,
        side: Side,
        orders: &mut usize,
        is_meant: impl Fn(OrderId) -> bool,
    ) {
        let at = index(side);
        let first = self.next[at].expect("an order is next");
        let (mut slot, mut lots) = (first, 0);
        while *orders != 0 && !slot.is_none() && is_meant(pool[slot].order.order_id()) {
            *orders -= 1;
            lots += u128::from(pool[slot].order.leaves().0);
            slot = pool[slot].younger;
        }
        self.add(&pool[first].order, lots);
        let place = &mut self.counted.places[at];
        if slot.is_none() {
            self.next[at] = None;
            (place.class, place.order_id) = (place.class + 1, OrderId(0));
        } else {
            self.next[at] = Some(slot);
            place.order_id = pool[slot].order.order_id();
        }
    }

    /// Adds lots at the price of an order.
    fn add(&mut self, order: &Order, lots: u128) {
        match order.price() {
            Price::ZERO => self.any_price.add(BothSides::of(order.side(), lots)),
            price => self.priced.add(order.side(), price, lots),
        }
    }

    /// Removes lots at the price of an order.
    fn remove(&mut self, order: &Order, lots: u128) {
        match order.price() {
            Price::ZERO => self.any_price.remove(BothSides::of(order.side(), lots)),
            price => self.priced.remove(order.side(), price, lots),
        }
    }

    /// Notes that an order entered the book.
    pub(crate) fn order_added(&mut self, book: &Book, pool: &Pool, slot: Slot) {
        let order = &pool[slot].order;
        let Some(place) = place_of(book, order) else { return };
        let at = index(order.side());
        let reached = self.counted.places[at];
        if place < reached {
            self.add(order, order.leaves().0.into());
        } else if (place.rank, place.class) == (reached.rank, reached.class)
            && reached.order_id != OrderId(0)
            && self.next[at].is_none()
        {
            self.next[at] = Some(slot);
        }
    }

    /// Notes that an order is about to leave the book.
    pub(crate) fn order_removed(&mut self, book: &Book, pool: &Pool, slot: Slot) {
        let order = &pool[slot].order;
        let Some(place) = place_of(book, order) else { return };
        let at = index(order.side());
        if place < self.counted.places[at] {
            self.remove(order, order.leaves().0.into());
        } else if self.next[at] == Some(slot) {
            self.next[at] = Some(pool[slot].younger).filter(|younger| !younger.is_none());
        }
    }

    /// Notes that an order lost some of its open lots.
    pub(crate) fn order_reduced(&mut self, book: &Book, order: &Order, lots: Quantity) {
        let place = place_of(book, order);
        if place.is_some_and(|place| place < self.counted.places[index(order.side())]) {
            self.remove(order, lots.0.into());
        }
    }

    /// Counts the orders before these places again, without steps.
    pub(crate) fn restore(&mut self, book: &Book, pool: &Pool, counted: &Counted) {
        self.clear();
        for side in [Side::Buy, Side::Sell] {
            let at = index(side);
            let end = counted.places[at];
            let mut next = None;
            while let Some((place, slot)) = self.first_left(book, pool, side) {
                let is_same_level = (place.rank, place.class) == (end.rank, end.class);
                if end <= place {
                    next = Some(slot).filter(|_| is_same_level && end.order_id != OrderId(0));
                    break;
                }
                (self.counted.places[at], self.next[at]) = (place, Some(slot));
                let mut orders = usize::MAX;
                let is_meant = |order_id| !is_same_level || order_id < end.order_id;
                self.count_level(pool, side, &mut orders, is_meant);
            }
            (self.counted.places[at], self.next[at]) = (end, next);
        }
        self.counted = *counted;
    }

    /// The lots of a side that could trade at a price.
    pub(crate) fn lots(&self, side: Side, price: Price) -> u128 {
        let (at, any) = (self.priced.at(price), self.any_price);
        if side.is_buy() { at.buy + any.buy } else { at.sell + any.sell }
    }

    fn search(&self, book: &Book) -> Option<Point> {
        let reference = book.trading.reference_price;
        price_search::search(&self.priced, self.any_price, reference, book.is_price(reference))
    }

    /// Price and lots of the auction once all are counted; `None` if nothing trades.
    pub(crate) fn cross(&self, book: &Book) -> Option<(Price, u128)> {
        self.search(book).map(|point| (point.price, point.volume()))
    }

    /// The price, the lots and the imbalance of the auction; both numbers of lots are at most 2⁶⁴ − 1.
    pub(crate) fn indication(&self, book: &Book) -> Indication {
        let Some(point) = self.search(book) else { return Indication::default() };
        Indication {
            price: point.price,
            paired: saturated(point.volume()),
            imbalance: saturated(point.imbalance()),
            imbalance_is_buy: point.supply < point.demand,
        }
    }

    /// Asserts that its lots are those of the orders before its places.
    pub(crate) fn check(&self, book: &Book, pool: &Pool) {
        let mut again = Self::default();
        again.restore(book, pool, &self.counted);
        assert_eq!((self.any_price, self.next), (again.any_price, again.next));
        assert!(self.priced.iter().eq(again.priced.iter()), "{:?}", self.counted);
    }
}

/// A number of lots as a quantity; the largest quantity if it exceeds 64 bits.
pub(super) fn saturated(lots: u128) -> Quantity {
    Quantity(u64::try_from(lots).unwrap_or(u64::MAX))
}
