//! Matching alone: books with price-time priority, without checks, sessions or money. For a whole
//! exchange start at [`Engine`](crate::Engine); to embed only the matching start at [`Matcher`].
//! Both use the same pool, levels and ladders.
//!
//! A [`Handle`] names a resting order and its place, so a cancel searches nothing. Each order has a
//! payload, which its trades and its cancel return. Example: `cargo run -p damrak-engine --example
//! matching_only`.
//!
//! Invariant: a handle names its order while that rests, and no order afterwards.

use alloc::vec::Vec;
use core::iter;

use market::{Price, Quantity, Side};

use crate::{
    BATCH_MAX,
    book::{
        ladder::{Ladder, NO_RANK, Take},
        pool::{HalfLine, Pool, PoolOrder, Slot},
    },
    intake::batch::LOOK_AHEAD_FROM,
};

/// The highest limit price, in the caller's ticks; the lowest is 0.
pub const LIMIT_MAX: Price = Price(RANK_FLIP as u64);

/// The largest quantity of an order, in lots; the smallest is 1.
pub const LOTS_MAX: Quantity = Quantity(u32::MAX as u64);

/// XOR with this mask turns a bid price into a rank: the highest price gets rank 0.
const RANK_FLIP: u32 = (1 << 31) - 1;

/// Books of orders with a payload each. A resting order takes 32 bytes with a payload of 8.
#[derive(Debug)]
pub struct Matcher<P: Copy + Default = u64> {
    books: Vec<Sides>,
    /// The resting orders of all books.
    pool: Pool<Order<P>>,
    /// Number of orders that ever rested, modulo 2³².
    rested: u32,
}

/// The index of a book of a [`Matcher`], from 0 in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BookIndex(pub u32);

/// Names a resting order; once the order is done, the handle names none. Exception: after 2³² more
/// resting orders the handle may repeat in the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

/// An incoming order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrder<P> {
    /// Buy or sell; all kinds of sell are equal.
    pub side: Side,
    /// Limit price; at most [`LIMIT_MAX`].
    pub limit: Price,
    /// Quantity in lots, from 1 to [`LOTS_MAX`].
    pub quantity: Quantity,
    /// True if the open rest may rest; false discards it.
    pub rests: bool,
    /// The caller's data, returned with each trade.
    pub payload: P,
}

/// The result of an incoming order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    /// Lots that did not trade at once.
    pub leaves: Quantity,
    /// Handle of the resting part; `None` if nothing rests.
    pub handle: Option<Handle>,
}

/// A trade between the incoming order and a resting one, at the resting order's price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade<P> {
    /// Payload of the resting order.
    pub maker: P,
    /// Open lots of the resting order after the trade; 0 if it is done.
    pub maker_leaves: Quantity,
    /// Limit of the resting order.
    pub price: Price,
    /// Lots traded; at least 1.
    pub quantity: Quantity,
}

/// A resting order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatcherOrder<P> {
    /// Its handle.
    pub book: BookIndex,
    /// [`Side::Buy`] or [`Side::Sell`].
    pub side: Side,
    /// Its limit price.
    pub price: Price,
    /// Open lots; at least 1.
    pub leaves: Quantity,
    /// Its payload.
    pub payload: P,
}

/// Why an order was refused; the matcher is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Unknown book.
    Book,
    /// The limit is above [`LIMIT_MAX`].
    Limit,
    /// The quantity is 0, or above [`LOTS_MAX`].
    Quantity,
}

/// Both sides of a book: bids, then asks.
#[derive(Debug, Default)]
struct Sides([Ladder; 2]);

/// A resting order as stored.
#[derive(Clone, Copy, Debug)]
struct Order<P> {
    /// Open lots; 0 once it is done.
    leaves: u32,
    rank: u32,
    generation: u32,
    /// Twice the index of the book, plus 1 for an ask.
    place: u32,
    payload: P,
}

const _: () = assert!(size_of::<crate::book::pool::Resting<Order<u64>>>() == 32);

impl<P: Copy + Default> PoolOrder for Order<P> {
    type Start = HalfLine;

    fn vacant() -> Self {
        Self { leaves: 0, rank: 0, generation: 0, place: 0, payload: P::default() }
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.leaves != 0
    }
}

/// An incoming order while it crosses the other side.
struct Taker<E> {
    leaves: u32,
    /// Mask that turns the rank of a maker into its price.
    flip: u32,
    emit: E,
}

impl<P: Copy + Default, E: FnMut(&Trade<P>)> Take<Order<P>> for Taker<E> {
    #[inline]
    fn is_plain(&self, _: &Order<P>) -> bool {
        true
    }

    #[inline]
    fn trade(&mut self, maker: &mut Order<P>) -> bool {
        let quantity = maker.leaves.min(self.leaves);
        maker.leaves -= quantity;
        self.leaves -= quantity;
        (self.emit)(&Trade {
            maker: maker.payload,
            maker_leaves: Quantity(maker.leaves.into()),
            price: Price((maker.rank ^ self.flip).into()),
            quantity: Quantity(quantity.into()),
        });
        self.leaves == 0
    }

    #[inline]
    fn has_left(&self) -> bool {
        true
    }
}

impl<P: Copy + Default> Matcher<P> {
    /// A matcher without books.
    #[must_use]
    pub const fn new() -> Self {
        Self { books: Vec::new(), pool: Pool::new(), rested: 0 }
    }

    /// Adds an empty book.
    ///
    /// # Panics
    /// There are 2³¹ books already.
    pub fn add_book(&mut self) -> BookIndex {
        let index = u32::try_from(self.books.len()).ok().filter(|index| index >> 31 == 0);
        let index = index.expect("a book fits in memory, so that many do not");
        self.books.push(Sides::default());
        BookIndex(index)
    }

    /// Allocates and touches memory for this many resting orders in total; the pool allocates no
    /// more while there are at most this many.
    pub fn reserve(&mut self, orders: usize) {
        self.pool.reserve(orders);
    }

    /// Matches an order against the other side in price-time priority. The open rest, if it may
    /// rest, goes behind all others at its price.
    ///
    /// # Errors
    /// The order is invalid; the matcher is unchanged.
    #[inline(always)]
    pub fn enter(
        &mut self,
        book: BookIndex,
        order: &NewOrder<P>,
        emit: impl FnMut(&Trade<P>),
    ) -> Result<Entered, Refused> {
        let Self { books, pool, rested } = self;
        let Some(Sides(ladders)) = books.get_mut(book.0 as usize) else {
            return Err(Refused::Book);
        };
        if LIMIT_MAX < order.limit {
            return Err(Refused::Limit);
        }
        if order.quantity.is_zero() || LOTS_MAX < order.quantity {
            return Err(Refused::Quantity);
        }
        let limit = order.limit.0 as u32;
        let own = usize::from(!order.side.is_buy());
        let flip = flip(own);

        let mut leaves = order.quantity.0 as u32;
        let makers = &mut ladders[own ^ 1];
        let rank_worst = limit ^ flip ^ RANK_FLIP;
        if makers.best_rank() <= rank_worst {
            leaves =
                cross(makers, pool, rank_worst, Taker { leaves, flip: flip ^ RANK_FLIP, emit });
        }
        let quantity = Quantity(leaves.into());
        if leaves == 0 || !order.rests {
            return Ok(Entered { leaves: quantity, handle: None });
        }
        *rested = rested.wrapping_add(1);
        let (rank, generation) = (limit ^ flip, *rested);
        let place = book.0 << 1 | own as u32;
        let payload = order.payload;
        let order = Order { leaves, rank, generation, place, payload };
        let slot = ladders[own].append(pool, rank, || order);
        let handle = Handle { slot: slot.to_bits(), generation };
        Ok(Entered { leaves: quantity, handle: Some(handle) })
    }

    /// Cancels a resting order and returns it; `None` if it is done.
    #[inline(always)]
    pub fn cancel(&mut self, handle: Handle) -> Option<MatcherOrder<P>> {
        let slot = self.find(handle)?;
        let order = &mut self.pool[slot].order;
        let canceled = *order;
        order.leaves = 0;
        let Sides(ladders) = &mut self.books[(canceled.place >> 1) as usize];
        ladders[(canceled.place & 1) as usize].remove(&mut self.pool, canceled.rank, slot);
        Some(canceled.resting())
    }

    /// Prefetches the memory for canceling these orders, and then entering orders at these prices: up to
    /// [`BATCH_MAX`] in total. Changes nothing. It helps if the orders do not fit the caches.
    #[inline]
    pub fn prefetch(
        &self,
        cancels: impl IntoIterator<Item = Handle>,
        enters: impl IntoIterator<Item = (BookIndex, Side, Price)>,
    ) {
        if LOOK_AHEAD_FROM <= self.pool.live_count() {
            self.prefetch_in_rounds(cancels, enters);
        }
    }

    #[inline(never)]
    fn prefetch_in_rounds(
        &self,
        cancels: impl IntoIterator<Item = Handle>,
        enters: impl IntoIterator<Item = (BookIndex, Side, Price)>,
    ) {
        let canceled = cancels.into_iter().map(|handle| Slot::from_bits(handle.slot));
        // Each incoming order may use up a level, so the one after it meets the next.
        let mut met = (BookIndex(u32::MAX), 0, 0);
        let met = enters.into_iter().map(|(book, side, limit)| {
            let Some(Sides(ladders)) = self.books.get(book.0 as usize) else { return Slot::NONE };
            let own = usize::from(!side.is_buy());
            let rank = limit.0 as u32 ^ flip(own);
            let makers = &ladders[own ^ 1];
            if makers.best_rank() <= rank ^ RANK_FLIP {
                let from = if (met.0, met.1) == (book, own) { met.2 } else { 0 };
                let Some((at, level)) = makers.at_or_after(from) else { return Slot::NONE };
                met = (book, own, at + 1);
                return level.oldest;
            }
            ladders[own].youngest(rank).unwrap_or(Slot::NONE)
        });
        let mut slots = [Slot::NONE; BATCH_MAX];
        for (place, slot) in slots.iter_mut().zip(canceled.chain(met)) {
            *place = slot;
        }
        self.pool.prefetch(&slots);
    }

    /// Takes lots from a resting order, which keeps its priority. Returns the order after it, done
    /// if nothing is open; `None` if it was done before.
    pub fn reduce(&mut self, handle: Handle, quantity: Quantity) -> Option<MatcherOrder<P>> {
        let slot = self.find(handle)?;
        let order = &mut self.pool[slot].order;
        if u64::from(order.leaves) <= quantity.0 {
            let canceled = self.cancel(handle)?;
            return Some(MatcherOrder { leaves: Quantity::ZERO, ..canceled });
        }
        order.leaves -= quantity.0 as u32;
        Some(order.resting())
    }

    /// A resting order; `None` if it is done.
    #[must_use]
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<MatcherOrder<P>> {
        self.find(handle).map(|slot| self.pool[slot].order.resting())
    }

    /// The order that rests in a slot, if there is one. A caller that identifies orders by payload
    /// can store only [`slot`](Handle::slot), and check here that the slot still holds its order.
    #[must_use]
    #[inline]
    pub fn resting_in(&self, slot: u32) -> Option<(Handle, MatcherOrder<P>)> {
        let order = &self.pool.get(Slot::from_bits(slot))?.order;
        let handle = Handle { slot, generation: order.generation };
        (order.leaves != 0).then(|| (handle, order.resting()))
    }

    /// The best price of a side of a book; `None` if nothing rests there.
    #[must_use]
    #[inline]
    pub fn best(&self, book: BookIndex, side: Side) -> Option<Price> {
        let own = usize::from(!side.is_buy());
        let rank = self.books.get(book.0 as usize)?.0[own].best_rank();
        (rank != NO_RANK).then(|| Price((rank ^ flip(own)).into()))
    }

    /// The orders of a side of a book, in price-time priority.
    pub fn orders(
        &self,
        book: BookIndex,
        side: Side,
    ) -> impl Iterator<Item = MatcherOrder<P>> + use<'_, P> {
        let own = usize::from(!side.is_buy());
        let ladder = self.books.get(book.0 as usize).map(|sides| &sides.0[own]);
        let mut rank = 0;
        let levels = iter::from_fn(move || {
            let (at, level) = ladder?.at_or_after(rank)?;
            rank = at + 1;
            Some(level.oldest)
        });
        levels.flat_map(|oldest| self.queue(oldest)).map(|slot| self.pool[slot].order.resting())
    }

    /// Total open lots at a price of a side of a book.
    #[must_use]
    pub fn depth_at(&self, book: BookIndex, side: Side, price: Price) -> Quantity {
        let own = usize::from(!side.is_buy());
        let Some(Sides(ladders)) = self.books.get(book.0 as usize) else { return Quantity::ZERO };
        if LIMIT_MAX < price {
            return Quantity::ZERO;
        }
        let rank = price.0 as u32 ^ flip(own);
        let level = ladders[own].at_or_after(rank).filter(|(at, _)| *at == rank);
        let slots = level.into_iter().flat_map(|(_, level)| self.queue(level.oldest));
        Quantity(slots.map(|slot| u64::from(self.pool[slot].order.leaves)).sum())
    }

    /// Number of resting orders.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.pool.live_count() as usize
    }

    /// Memory allocated, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let ladders = self.books.iter().flat_map(|sides| &sides.0);
        self.books.capacity() * size_of::<Sides>()
            + self.pool.memory()
            + ladders.map(Ladder::memory).sum::<usize>()
    }

    /// Checks that books, queues and counts agree.
    ///
    /// # Panics
    /// An invariant does not hold, which is a fault of this module.
    pub fn check_invariants(&self) {
        let mut order_count = 0;
        for (index, Sides(ladders)) in (0..).zip(&self.books) {
            let book = BookIndex(index);
            for ladder in ladders {
                ladder.check();
            }
            let (bid, ask) = (self.best(book, Side::Buy), self.best(book, Side::Sell));
            assert!(bid.zip(ask).is_none_or(|(bid, ask)| bid < ask), "{book:?} is crossed");
            for side in [Side::Buy, Side::Sell] {
                for order in self.orders(book, side) {
                    assert!(!order.leaves.is_zero() && order.side == side && order.book == book);
                    order_count += 1;
                }
            }
        }
        assert_eq!(order_count, self.live_count(), "every order is in one queue");
        assert_eq!(order_count + self.pool.free_count(), self.pool.slot_count());
    }

    #[inline]
    fn find(&self, handle: Handle) -> Option<Slot> {
        let slot = Slot::from_bits(handle.slot);
        let order = &self.pool.get(slot)?.order;
        (order.generation == handle.generation && order.leaves != 0).then_some(slot)
    }

    fn queue(&self, oldest: Slot) -> impl Iterator<Item = Slot> + use<'_, P> {
        iter::successors(Some(oldest), |slot| {
            Some(self.pool[*slot].younger).filter(|younger| !younger.is_none())
        })
    }
}

/// Trades with every level at this rank or better until the order is filled; returns the open lots.
#[inline(never)]
fn cross<P: Copy + Default>(
    makers: &mut Ladder,
    pool: &mut Pool<Order<P>>,
    rank_worst: u32,
    mut taker: Taker<impl FnMut(&Trade<P>)>,
) -> u32 {
    while makers.best_rank() <= rank_worst && taker.leaves != 0 {
        makers.cross_best(pool, &mut taker);
    }
    taker.leaves
}

impl<P: Copy + Default> Default for Matcher<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl Handle {
    /// The handle as a number, for storage outside.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.slot as u64) << 32 | self.generation as u64
    }

    /// The slot: half of the handle. [`Matcher::resting_in`] returns the order in it.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// The handle of this number. Any number is allowed; one that belongs to no order finds nothing.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self { slot: (bits >> 32) as u32, generation: bits as u32 }
    }
}

impl<P: Copy> Order<P> {
    #[inline]
    fn resting(&self) -> MatcherOrder<P> {
        let own = (self.place & 1) as usize;
        MatcherOrder {
            book: BookIndex(self.place >> 1),
            side: if own == 0 { Side::Buy } else { Side::Sell },
            price: Price((self.rank ^ flip(own)).into()),
            leaves: Quantity(self.leaves.into()),
            payload: self.payload,
        }
    }
}

/// The mask that turns a price into a rank: bids count down, asks count up.
#[inline]
fn flip(own: usize) -> u32 {
    if own == 0 { RANK_FLIP } else { 0 }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec::Vec};

    use super::*;
    use market::SplitMix64;

    const BOOK: BookIndex = BookIndex(0);

    fn order(side: Side, limit: u64, quantity: u64, payload: u64) -> NewOrder<u64> {
        NewOrder { side, limit: Price(limit), quantity: Quantity(quantity), rests: true, payload }
    }

    fn matcher() -> Matcher {
        let mut matcher = Matcher::new();
        matcher.add_book();
        matcher
    }

    /// An order trades at the resting price, oldest first, and rests with the remaining lots.
    #[test]
    fn incoming_order_takes_the_oldest_first() {
        let mut matcher = matcher();
        let mut trades = Vec::new();
        for (limit, quantity, payload) in [(101, 5, 1), (100, 4, 2), (100, 6, 3)] {
            let sell = order(Side::Sell, limit, quantity, payload);
            matcher.enter(BOOK, &sell, |_| unreachable!()).unwrap();
        }
        let buy = order(Side::Buy, 100, 12, 4);
        let entered = matcher.enter(BOOK, &buy, |trade| trades.push(*trade)).unwrap();
        let trade = |maker, quantity| Trade {
            maker,
            maker_leaves: Quantity::ZERO,
            price: Price(100),
            quantity: Quantity(quantity),
        };
        assert_eq!(trades, [trade(2, 4), trade(3, 6)]);
        assert_eq!(entered.leaves, Quantity(2));
        assert_eq!(matcher.best(BOOK, Side::Buy), Some(Price(100)));
        assert_eq!(matcher.best(BOOK, Side::Sell), Some(Price(101)));
        assert_eq!(matcher.depth_at(BOOK, Side::Sell, Price(101)), Quantity(5));
        matcher.check_invariants();
    }

    /// A handle names its order while the order rests, and no other afterwards, although the slot is reused; a handle
    /// that was never given out names none.
    #[test]
    fn stale_handle_is_refused() {
        let mut matcher = matcher();
        let enter = |matcher: &mut Matcher, payload| {
            let entered = matcher.enter(BOOK, &order(Side::Buy, 10, 2, payload), |_| ());
            entered.unwrap().handle.unwrap()
        };
        let first = enter(&mut matcher, 1);
        assert_eq!(matcher.cancel(first).unwrap().payload, 1);
        assert_eq!(matcher.cancel(first), None, "it is done");
        let second = enter(&mut matcher, 2);
        assert_eq!(second.slot, first.slot, "the slot is used again");
        let (handle, resting) = matcher.resting_in(first.slot()).unwrap();
        assert_eq!(
            (handle, resting.payload),
            (second, 2),
            "the slot has the order that rests there"
        );
        assert_eq!((matcher.get(first), matcher.cancel(first)), (None, None));
        assert_eq!(matcher.reduce(second, Quantity(1)).unwrap().leaves, Quantity(1));
        assert_eq!(matcher.reduce(second, Quantity(1)).unwrap().leaves, Quantity::ZERO);
        assert_eq!((matcher.get(second), matcher.resting_in(second.slot())), (None, None));
        assert_eq!(matcher.resting_in(u32::MAX), None);
        for slot in [0, 1, 1_023, 1_024, u32::MAX] {
            for generation in [0, 1, 2, 3, u32::MAX] {
                assert_eq!(matcher.cancel(Handle { slot, generation }), None);
            }
        }
        matcher.check_invariants();
    }

    /// Orders out of range are refused without effect; the limits of the range are accepted.
    #[test]
    fn bounds_of_price_and_quantity() {
        let mut matcher = matcher();
        let mut enter =
            |book, order: NewOrder<u64>| matcher.enter(book, &order, |_| ()).map(|it| it.leaves);
        assert_eq!(enter(BookIndex(1), order(Side::Buy, 1, 1, 0)), Err(Refused::Book));
        assert_eq!(enter(BOOK, order(Side::Buy, LIMIT_MAX.0 + 1, 1, 0)), Err(Refused::Limit));
        assert_eq!(enter(BOOK, order(Side::Sell, u64::MAX, 1, 0)), Err(Refused::Limit));
        assert_eq!(enter(BOOK, order(Side::Buy, 1, 0, 0)), Err(Refused::Quantity));
        assert_eq!(enter(BOOK, order(Side::Buy, 1, LOTS_MAX.0 + 1, 0)), Err(Refused::Quantity));
        assert_eq!(enter(BOOK, order(Side::Buy, 0, LOTS_MAX.0, 0)), Ok(LOTS_MAX));
        assert_eq!(enter(BOOK, order(Side::Sell, LIMIT_MAX.0, 1, 0)), Ok(Quantity(1)));
        assert_eq!(matcher.best(BOOK, Side::Buy), Some(Price::ZERO));
        assert_eq!(matcher.best(BOOK, Side::Sell), Some(LIMIT_MAX));
        let market = order(Side::Buy, LIMIT_MAX.0, 2, 0);
        assert_eq!(matcher.enter(BOOK, &market, |_| ()).unwrap().leaves, Quantity(1));
        assert_eq!(matcher.best(BOOK, Side::Sell), None);
        matcher.check_invariants();
    }

    /// Over random orders in several books and at any prices, trades and books equal those of
    /// sorted maps.
    #[test]
    fn agrees_with_sorted_maps() {
        for seed in 1..=6_u64 {
            let mut random = SplitMix64::new(seed);
            let mut matcher = Matcher::new();
            let books = [(); 3].map(|()| matcher.add_book());
            // By book, side and rank of price, then by age: the remaining lots, and the handle.
            let mut model: BTreeMap<(u32, bool, u64, u64), (u64, Handle)> = BTreeMap::new();
            let mut mid = 1_000_000;
            for step in 0..30_000_u64 {
                mid = if random.below(3_000) == 0 { random.below(1 << 30) + 9 } else { mid };
                let book = books[random.below(3) as usize];
                if random.below(100) < 45 && !model.is_empty() {
                    let index = random.below(model.len() as u64) as usize;
                    let (&key, &(leaves, handle)) = model.iter().nth(index).unwrap();
                    model.remove(&key);
                    matcher.prefetch_in_rounds([handle], []);
                    let canceled = matcher.cancel(handle).unwrap();
                    assert_eq!((canceled.payload, canceled.leaves.0), (key.3, leaves));
                    continue;
                }
                let spread = [12, 300, 50_000][seed as usize % 3];
                let side = if random.below(2) == 0 { Side::Buy } else { Side::Sell };
                let away = random.below(spread);
                let limit = if side.is_buy() { mid + 4 - away.min(mid) } else { mid - 4 + away };
                let rests = random.below(10) != 0;
                let new = NewOrder { rests, ..order(side, limit, 1 + random.below(50), step) };
                matcher.prefetch_in_rounds([], [(book, side, new.limit)]);
                let mut trades = Vec::new();
                let entered = matcher.enter(book, &new, |trade| trades.push(*trade)).unwrap();

                let rank = |buy: bool, price: u64| if buy { LIMIT_MAX.0 - price } else { price };
                let (buy, mut leaves) = (side.is_buy(), new.quantity.0);
                let worst = rank(!buy, limit);
                let mut expected = Vec::new();
                while leaves > 0
                    && let Some((&key, resting)) =
                        model.range_mut((book.0, !buy, 0, 0)..(book.0, !buy, worst + 1, 0)).next()
                {
                    let quantity = leaves.min(resting.0);
                    leaves -= quantity;
                    resting.0 -= quantity;
                    expected.push(Trade {
                        maker: key.3,
                        maker_leaves: Quantity(resting.0),
                        price: Price(rank(!buy, key.2)),
                        quantity: Quantity(quantity),
                    });
                    if resting.0 == 0 {
                        model.remove(&key);
                    }
                }
                assert_eq!(trades, expected, "seed {seed}, step {step}");
                assert_eq!(entered.leaves.0, leaves);
                if leaves > 0 && rests {
                    let key = (book.0, buy, rank(buy, limit), step);
                    model.insert(key, (leaves, entered.handle.unwrap()));
                } else {
                    assert_eq!(entered.handle, None);
                }
                if step % 512 == 0 {
                    matcher.check_invariants();
                }
            }
            matcher.check_invariants();
            assert_eq!(matcher.live_count(), model.len(), "seed {seed}");
            for (&(book, buy, rank, payload), &(leaves, handle)) in &model {
                let side = if buy { Side::Buy } else { Side::Sell };
                let price = Price(if buy { LIMIT_MAX.0 - rank } else { rank });
                let (book, leaves) = (BookIndex(book), Quantity(leaves));
                let resting = MatcherOrder { book, side, price, leaves, payload };
                assert_eq!(matcher.get(handle), Some(resting));
            }
        }
    }
}
