//! The book of one instrument: bids and asks, displayed, hidden and for auctions.

pub(crate) mod pool;
pub(crate) mod level;
pub(crate) mod window;
pub(crate) mod ladder;
pub(crate) mod paged_map;
pub(crate) mod cross;
pub(crate) mod sharing;

use alloc::boxed::Box;
use core::hint::select_unpredictable;

use market::{Display, Instrument, Phase, Price, Quantity, RejectReason, Side};

use crate::{
    auction::{count::Count, trading_status::TradingStatus, uncross::AuctionSide},
    order::{ForAuction, Order, PRICE_MAX, QUANTITY_MAX},
    state::hash,
};
use ladder::{Ladder, NO_RANK};
use pool::{Pool, Slot};
use sharing::Sharing;

/// Both sides of one instrument, each with displayed and hidden orders.
///
/// A ladder addresses a price by its rank in price increments: asks count up from 0, bids count
/// down from the highest price. The lower rank is always the better price.
///
/// Invariant: after a command in continuous trading the best bid is below the best ask.
#[derive(Debug)]
pub(crate) struct Book {
    instrument: Instrument,
    /// The largest quantity of an order.
    quantity_max: Quantity,
    /// The price increment, which [`PRICE_MAX`] bounds.
    increment: u32,
    /// 2⁶⁴ divided by the increment, rounded up: a product instead of a division. 0 for 1, which
    /// divides nothing.
    increment_inverse: u64,
    /// The number of the highest price, in increments.
    number_max: u32,
    /// The allocation among the orders at one price.
    pub(crate) sharing: Sharing,
    bids: BookSide,
    asks: BookSide,
    pub(crate) trading: TradingStatus,
    /// True if pegged orders follow this book; may stay true for a while after the last one.
    pub(crate) is_pegged: bool,
    /// True if orders of its auction are counted.
    pub(crate) is_counted: bool,
    /// True if minimum-quantity orders wait for this book.
    pub(crate) has_waiting_for_quantity: bool,
    /// Orders for an auction only, bids and asks; `None` before the first.
    auctions: Option<Box<[AuctionSide; 2]>>,
    /// The counted orders of its auction; `None` before the first.
    pub(crate) count: Option<Box<Count>>,
}

/// The two ranks of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranks {
    /// Rank on its own side.
    pub(crate) own: u32,
    /// The worst rank that it matches on the other side.
    pub(crate) worst: u32,
}

/// One side. At each price all displayed orders trade before all hidden ones.
#[derive(Debug, Default)]
pub(crate) struct BookSide {
    pub(crate) displayed: Ladder,
    /// Hidden orders; `None` before the first, as in most books.
    pub(crate) hidden: Option<Box<Ladder>>,
}

impl Book {
    /// An empty book.
    pub(crate) fn new(instrument: Instrument) -> Self {
        let increment = instrument.price_increment;
        assert!(Price::ZERO < increment && increment <= PRICE_MAX, "{instrument:?}");
        let increment = increment.0 as u32;
        Self {
            instrument,
            quantity_max: QUANTITY_MAX,
            increment,
            increment_inverse: (u64::MAX / u64::from(increment)).wrapping_add(1),
            number_max: PRICE_MAX.0 as u32 / increment,
            sharing: Sharing::PRICE_TIME,
            bids: BookSide::default(),
            asks: BookSide::default(),
            trading: TradingStatus::NEW,
            is_pegged: false,
            is_counted: false,
            has_waiting_for_quantity: false,
            auctions: None,
            count: None,
        }
    }

    /// Changes price increment and round lot.
    ///
    /// # Panics
    /// The increment changes while orders rest.
    pub(crate) fn set_instrument(&mut self, instrument: Instrument) {
        if instrument.price_increment == self.instrument.price_increment {
            self.instrument = instrument;
            return;
        }
        let Self { trading, quantity_max, .. } = *self;
        assert!(self.is_empty(), "{} has no orders while its prices change", instrument.symbol);
        let count = self.count.take();
        *self = Self { trading, quantity_max, count, ..Self::new(instrument) };
    }

    pub(crate) fn instrument(&self) -> &Instrument {
        &self.instrument
    }

    /// The largest quantity of an order, in lots.
    #[inline]
    pub(crate) fn quantity_max(&self) -> Quantity {
        self.quantity_max
    }

    /// Sets the largest quantity of an order.
    pub(crate) fn set_quantity_max(&mut self, quantity_max: Quantity) {
        self.quantity_max = quantity_max;
    }

    /// True if the book takes plain orders as such: in continuous trading without bounds.
    #[inline]
    pub(crate) fn takes_plain(&self) -> bool {
        self.trading.is_unrestricted
    }

    /// True if an order that rests here may move others: pegged ones, or some that wait for a quantity.
    #[inline(always)]
    pub(crate) fn is_followed(&self) -> bool {
        self.is_pegged | self.has_waiting_for_quantity
    }

    /// True if no order rests here.
    pub(crate) fn is_empty(&self) -> bool {
        let [bid, ask] = [&self.bids, &self.asks].map(BookSide::best_rank);
        let for_auction = || [Side::Buy, Side::Sell].map(|it| self.auction_levels(it).next());
        bid == NO_RANK && ask == NO_RANK && for_auction() == [None, None]
    }

    /// True if a limit order may have this price.
    #[inline]
    pub(crate) fn is_price(&self, price: Price) -> bool {
        Price::ZERO < price
            && price <= PRICE_MAX
            && self.number(price) * self.increment == price.0 as u32
    }

    /// The lowest price of a limit order.
    pub(crate) fn price_lowest(&self) -> Price {
        self.instrument.price_increment
    }

    /// The highest price of a limit order.
    pub(crate) fn price_highest(&self) -> Price {
        self.price(Side::Sell, self.number_max)
    }

    /// True if an order with this limit would trade at once. A `None` limit is any price.
    #[inline]
    pub(crate) fn would_cross(&self, side: Side, limit: Option<Price>) -> bool {
        let rank_worst = limit.map_or(NO_RANK - 1, |price| self.rank_opposite(side, price));
        self.opposite(side).best_rank() <= rank_worst
    }

    /// Adds an order behind all others at its price.
    #[inline]
    pub(crate) fn add(&mut self, pool: &mut Pool, order: &Order) -> Slot {
        if order.for_auction() != ForAuction::No {
            return self.add_for_auction(pool, order);
        }
        let rank = self.rank(order.side(), order.price());
        self.side_mut(order.side()).ladder_mut(order.display()).append(pool, rank, || *order)
    }

    /// Removes an order.
    #[inline(always)]
    pub(crate) fn remove(&mut self, pool: &mut Pool, slot: Slot, order: &Order) {
        if order.for_auction() != ForAuction::No {
            return self.remove_from_auction(pool, slot);
        }
        let (side, display) = (order.side(), order.display());
        let rank = self.rank(side, order.price());
        self.side_mut(side).ladder_mut(display).remove(pool, rank, slot);
    }

    /// Updates the auction's count after an order was added to the book.
    #[cold]
    pub(crate) fn count_added(&mut self, pool: &Pool, slot: Slot) {
        self.change_count(|count, book| count.order_added(book, pool, slot));
    }

    /// Updates the auction's count before an order is removed from the book.
    #[cold]
    pub(crate) fn count_removed(&mut self, pool: &Pool, slot: Slot) {
        self.change_count(|count, book| count.order_removed(book, pool, slot));
    }

    /// Updates the auction's count after an order lost some of its open lots.
    #[cold]
    pub(crate) fn count_reduced(&mut self, order: &Order, lots: Quantity) {
        self.change_count(|count, book| count.order_reduced(book, order, lots));
    }

    fn change_count(&mut self, change: impl FnOnce(&mut Count, &Self)) {
        let mut count = self.count.take().expect("its auction is counted");
        change(&mut count, self);
        self.count = Some(count);
    }

    /// True if an order rests on the other side beyond this limit.
    pub(crate) fn goes_beyond(&self, side: Side, limit: Price) -> bool {
        let place = 2 * (u64::from(self.rank_opposite(side, limit)) + 1);
        self.opposite(side).level_at_or_after(place).is_some()
    }

    /// Moves an order behind all others at its price; it keeps its slot.
    pub(crate) fn move_last(&mut self, pool: &mut Pool, slot: Slot) {
        let order = &pool[slot].order;
        let (side, display) = (order.side(), order.display());
        let rank = self.rank(side, order.price());
        self.side_mut(side).ladder_mut(display).move_last(pool, rank, slot);
    }

    /// The best bid, displayed or hidden, in ticks.
    pub(crate) fn best_bid(&self) -> Option<Price> {
        self.price_best(Side::Buy, self.bids.best_rank())
    }

    /// The best ask, displayed or hidden, in ticks.
    pub(crate) fn best_ask(&self) -> Option<Price> {
        self.price_best(Side::Sell, self.asks.best_rank())
    }

    /// Price sliding: the nearest price at which an order of this side does not trade; `None` if
    /// there is none.
    pub(crate) fn price_beside_opposite(&self, side: Side) -> Option<Price> {
        let number = match side.is_buy() {
            true => self.number(self.best_ask()?).checked_sub(1)?,
            false => self.number(self.best_bid()?) + 1,
        };
        let is_price = 0 < number && number <= self.number_max;
        is_price.then(|| self.price(Side::Sell, number))
    }

    /// The best displayed price of the other side.
    pub(crate) fn best_opposite_displayed(&self, side: Side) -> Option<Price> {
        let rank = self.opposite(side).displayed.best_rank();
        let opposite = if side.is_buy() { Side::Sell } else { Side::Buy };
        self.price_best(opposite, rank)
    }

    /// The first level of a side at or after `place`: its price, its oldest order and the next
    /// place. Places go by price, displayed before hidden; 0 is the first.
    pub(crate) fn level_at_or_after(&self, side: Side, place: u64) -> Option<(u64, Price, Slot)> {
        let (at, slot) = self.side(side).level_at_or_after(place)?;
        Some((at + 1, self.price(side, BookSide::rank(at)), slot))
    }

    /// Asserts that the best bid is below the best ask.
    #[inline(always)]
    pub(crate) fn check_not_crossed(&self) {
        let (bid, ask) = (self.bids.best_rank(), self.asks.best_rank());
        // Without a level on one side the sum is more than the highest number.
        let crossed = u64::from(bid) + u64::from(ask) <= u64::from(self.number_max);
        assert!(!crossed, "{} is crossed", self.instrument.symbol);
    }

    /// Checks the invariants of the ladders.
    pub(crate) fn check(&self) {
        if self.trading.phase == Phase::Continuous {
            self.check_not_crossed();
        }
        self.check_auction();
        for side in [&self.bids, &self.asks] {
            side.check();
        }
    }

    pub(crate) fn side(&self, side: Side) -> &BookSide {
        if side.is_buy() { &self.bids } else { &self.asks }
    }

    #[inline]
    pub(crate) fn opposite(&self, side: Side) -> &BookSide {
        if side.is_buy() { &self.asks } else { &self.bids }
    }

    fn opposite_mut(&mut self, side: Side) -> &mut BookSide {
        if side.is_buy() { &mut self.asks } else { &mut self.bids }
    }

    #[inline]
    pub(crate) fn side_mut(&mut self, side: Side) -> &mut BookSide {
        select_unpredictable(side.is_buy(), &mut self.bids, &mut self.asks)
    }

    /// The auction-only orders of a side; `None` before the first.
    pub(crate) fn auction(&self, side: Side) -> Option<&AuctionSide> {
        self.auctions.as_ref().map(|sides| &sides[usize::from(!side.is_buy())])
    }

    pub(crate) fn auction_mut(&mut self, side: Side) -> &mut AuctionSide {
        &mut self.auctions.get_or_insert_default()[usize::from(!side.is_buy())]
    }

    /// A price in increments, rounded down; exact for 32-bit prices.
    #[inline]
    fn number(&self, price: Price) -> u32 {
        if self.increment_inverse == 0 {
            return price.0 as u32;
        }
        ((u128::from(self.increment_inverse) * u128::from(price.0)) >> 64) as u32
    }

    /// The rank of a price on its own side.
    #[inline]
    pub(crate) fn rank(&self, side: Side, price: Price) -> u32 {
        let number = self.number(price);
        select_unpredictable(side.is_buy(), self.number_max - number, number)
    }

    /// The ranks of an order with a limit.
    ///
    /// # Errors
    /// Its quantity or its price is not allowed here.
    #[inline(always)]
    pub(crate) fn ranks(
        &self,
        side: Side,
        quantity: Quantity,
        price: Price,
    ) -> Result<Ranks, RejectReason> {
        if self.quantity_max.0 <= quantity.0.wrapping_sub(1) {
            return Err(RejectReason::InvalidQuantity);
        }
        if PRICE_MAX.0 <= price.0.wrapping_sub(1) {
            return Err(RejectReason::InvalidPrice);
        }
        let number = self.number(price);
        if number.wrapping_mul(self.increment) != price.0 as u32 {
            return Err(RejectReason::InvalidPrice);
        }
        let flipped = self.number_max - number;
        Ok(match side.is_buy() {
            true => Ranks { own: flipped, worst: number },
            false => Ranks { own: number, worst: flipped },
        })
    }

    /// The worst rank of the other side that a price matches.
    #[inline]
    fn rank_opposite(&self, side: Side, price: Price) -> u32 {
        let number = self.number(price);
        if side.is_buy() { number } else { self.number_max - number }
    }

    /// The lowest allowed price at or above this one; the highest allowed price if that is lower.
    pub(crate) fn price_at_or_above(&self, price: Price) -> Price {
        let number = self.number(price);
        let below = Price(u64::from(number) * u64::from(self.increment));
        let number = if below == price { number } else { number + 1 };
        Price(u64::from(number.min(self.number_max)) * u64::from(self.increment))
    }

    /// The highest multiple of the increment at or below this price; may be [`Price::ZERO`].
    pub(crate) fn price_at_or_below(&self, price: Price) -> Price {
        Price(u64::from(self.number(price).min(self.number_max)) * u64::from(self.increment))
    }

    #[inline]
    fn price_best(&self, side: Side, rank: u32) -> Option<Price> {
        (rank != NO_RANK).then(|| self.price(side, rank))
    }

    pub(crate) fn price(&self, side: Side, rank: u32) -> Price {
        let number = if side.is_buy() { self.number_max - rank } else { rank };
        Price(u64::from(number) * u64::from(self.increment))
    }
}

impl BookSide {
    /// The rank of the best level; [`NO_RANK`] if there is none.
    #[inline]
    pub(crate) fn best_rank(&self) -> u32 {
        let displayed = self.displayed.best_rank();
        self.hidden.as_ref().map_or(displayed, |hidden| displayed.min(hidden.best_rank()))
    }

    /// The ladder with the first order to trade; either one if the side is empty.
    #[inline]
    fn best_ladder_mut(&mut self) -> &mut Ladder {
        match &mut self.hidden {
            Some(hidden) if hidden.best_rank() < self.displayed.best_rank() => hidden,
            _ => &mut self.displayed,
        }
    }

    /// The first order to trade.
    ///
    /// # Panics
    /// The side is empty.
    fn best_oldest(&mut self) -> Slot {
        self.best_ladder_mut().best_oldest()
    }

    /// The ladder of displayed or of hidden orders, as this order needs.
    #[inline]
    pub(crate) fn ladder_mut(&mut self, display: Display) -> &mut Ladder {
        if display.is_displayed() {
            &mut self.displayed
        } else {
            self.hidden.get_or_insert_default()
        }
    }

    /// Checks the invariants of the ladders.
    fn check(&self) {
        self.displayed.check();
        if let Some(hidden) = &self.hidden {
            hidden.check();
        }
    }

    /// The first level at or after `place`: its place and its oldest order.
    fn level_at_or_after(&self, place: u64) -> Option<(u64, Slot)> {
        let displayed = self.displayed.at_or_after(Self::rank(place + 1));
        let hidden = self.hidden.as_ref().and_then(|it| it.at_or_after(Self::rank(place)));
        let displayed = displayed.map(|(rank, level)| (2 * u64::from(rank), level.oldest));
        let hidden = hidden.map(|(rank, level)| (2 * u64::from(rank) + 1, level.oldest));
        displayed.into_iter().chain(hidden).min_by_key(|(place, _)| *place)
    }

    /// The rank at a place.
    fn rank(place: u64) -> u32 {
        u32::try_from(place / 2).expect("ranks are counted in 32 bits")
    }
}

/// The instrument's element of the state hash.
pub(crate) fn instrument_hash(instrument: &Instrument) -> u64 {
    hash::mix([
        hash::INSTRUMENT,
        u64::from(instrument.instrument_id.0),
        hash::word(&instrument.symbol),
        instrument.price_increment.0,
        instrument.round_lot.0,
    ])
}
