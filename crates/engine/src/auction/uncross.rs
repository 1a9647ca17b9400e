//! Auctions: all orders that can trade at one price trade at once.
//!
//! The price of an auction is found in [`count`](super::count).
//!
//! Invariant: all trades of an auction have one price.

use core::mem;

use market::{
    AuctionTrade, CollarSet, Event, Indicated, InstrumentId, OrderId, Phase, PhaseCause, Price,
    Quantity, RestateReason, Restated, Side, Traded, Uncrossed, VenueEvent,
};

use crate::{
    Engine,
    auction::{
        count::{Count, Counted, ORDERS_MAX, saturated},
        phases,
        steps::Cross,
        trading_status::TradingStatus,
    },
    book::{
        Book, BookSide,
        cross::Match,
        ladder::{Ladder, NO_RANK},
        pool::{Pool, Slot},
    },
    operator::venue_commands::PhaseStep,
    order::{ForAuction, Order},
    trading::on_match::fill,
};

/// Maximum number of auctions that are ended, or whose indication is computed, by a command, and again
/// before each input.
const AUCTIONS_MAX: usize = 4;

/// The remaining budget of a command for auctions that collect orders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looks {
    orders: usize,
    auctions: usize,
}

impl Looks {
    /// The budget of a command, and of the timed effects before it.
    pub(crate) const NEW: Self = Self { orders: ORDERS_MAX, auctions: AUCTIONS_MAX };

    pub(crate) fn are_left(self) -> bool {
        self.orders != 0 && self.auctions != 0
    }

    fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// The budget after one auction.
    fn less(self) -> Self {
        Self { auctions: self.auctions.saturating_sub(1), ..self }
    }
}

/// The queues of auction-only orders in which they end: the side and the auction.
pub(crate) const QUEUES: [(Side, ForAuction); 6] = [
    (Side::Buy, ForAuction::Open),
    (Side::Buy, ForAuction::Close),
    (Side::Buy, ForAuction::Next),
    (Side::Sell, ForAuction::Open),
    (Side::Sell, ForAuction::Close),
    (Side::Sell, ForAuction::Next),
];

/// Indications are computed when a second of the clock begins.
const INDICATION_NS: u64 = 1_000_000_000;

/// The auction-only orders of one side, by auction. They are not on the feed, and trade in no other
/// phase. Rank 0 has those without a price; the others are one below the rank of their price.
#[derive(Debug, Default)]
pub(crate) struct AuctionSide {
    open: Ladder,
    close: Ladder,
    next: Ladder,
}

impl AuctionSide {
    pub(super) fn ladder(&self, waits: ForAuction) -> &Ladder {
        match waits {
            ForAuction::Open => &self.open,
            ForAuction::Close => &self.close,
            ForAuction::Next | ForAuction::AsMarket => &self.next,
            ForAuction::No => unreachable!("it is for no auction"),
        }
    }

    fn ladder_mut(&mut self, waits: ForAuction) -> &mut Ladder {
        match waits {
            ForAuction::Open => &mut self.open,
            ForAuction::Close => &mut self.close,
            ForAuction::Next | ForAuction::AsMarket => &mut self.next,
            ForAuction::No => unreachable!("it is for no auction"),
        }
    }

    /// The ladders that take part in the auction at the end of a phase.
    pub(super) fn taking_part(&self, phase: Phase) -> impl Iterator<Item = &Ladder> {
        [ForAuction::Open, ForAuction::Close, ForAuction::Next]
            .into_iter()
            .filter(move |waits| phases::takes_part(*waits, phase))
            .map(|waits| self.ladder(waits))
    }
}

impl Book {
    /// Adds an auction-only order behind all others of its auction and price.
    #[cold]
    pub(crate) fn add_for_auction(&mut self, pool: &mut Pool, order: &Order) -> Slot {
        let rank = self.auction_rank(order);
        self.auction_mut(order.side()).ladder_mut(order.for_auction()).append(pool, rank, || *order)
    }

    /// Removes an auction-only order.
    #[cold]
    pub(crate) fn remove_from_auction(&mut self, pool: &mut Pool, slot: Slot) {
        let order = pool[slot].order;
        let rank = self.auction_rank(&order);
        self.auction_mut(order.side()).ladder_mut(order.for_auction()).remove(pool, rank, slot);
    }

    /// The first order of a side in the auction at the end of a phase.
    fn first_in_auction(&self, pool: &Pool, side: Side, phase: Phase) -> Option<Slot> {
        let ladder = |ladder: &Ladder, class, shift| {
            let (rank, level) = ladder.at_or_after(0)?;
            // Orders of one class and price may be in two queues, which merge by time.
            let order_id =
                if class == 2 { pool[level.oldest].order.order_id() } else { OrderId(0) };
            Some(((rank + shift, class, order_id), level.oldest))
        };
        let BookSide { displayed, hidden } = self.side(side);
        let for_auction = self.auction(side).into_iter().flat_map(|it| it.taking_part(phase));
        let firsts = for_auction.filter_map(|it| ladder(it, 2, 0));
        let firsts = firsts.chain(ladder(displayed, 0, 1));
        let firsts = firsts.chain(hidden.iter().filter_map(|it| ladder(it, 1, 1)));
        firsts.min_by_key(|(place, _)| *place).map(|(_, slot)| slot)
    }

    /// The oldest auction-only order of each level, by auction and then by price.
    pub(crate) fn auction_levels(&self, side: Side) -> impl Iterator<Item = Slot> {
        let queues = QUEUES.into_iter().filter(move |(of, _)| of.is_buy() == side.is_buy());
        let ladders = queues.filter_map(move |(_, waits)| Some(self.auction(side)?.ladder(waits)));
        ladders.flat_map(|ladder| levels(ladder, NO_RANK).map(|(_, oldest)| oldest))
    }

    /// The first level of a queue at or after a rank: its rank and its oldest order.
    pub(crate) fn auction_level(
        &self,
        (side, waits): (Side, ForAuction),
        rank: u32,
    ) -> Option<(u32, Slot)> {
        let (at, level) = self.auction(side)?.ladder(waits).at_or_after(rank)?;
        Some((at, level.oldest))
    }

    /// Checks the invariants of the ladders.
    pub(crate) fn check_auction(&self) {
        for side in [Side::Buy, Side::Sell] {
            if let Some(orders) = self.auction(side) {
                [&orders.open, &orders.close, &orders.next].into_iter().for_each(Ladder::check);
            }
        }
    }

    /// The rank of an order as in [`AuctionSide`].
    pub(super) fn auction_rank(&self, order: &Order) -> u32 {
        if order.price() == Price::ZERO { 0 } else { self.rank(order.side(), order.price()) + 1 }
    }
}

/// The rank and the oldest order of each level up to a rank.
fn levels(ladder: &Ladder, rank_worst: u32) -> impl Iterator<Item = (u32, Slot)> + use<'_> {
    let mut rank = 0;
    core::iter::from_fn(move || {
        let (at, level) = ladder.at_or_after(rank).filter(|(at, _)| *at <= rank_worst)?;
        rank = at + 1;
        Some((at, level.oldest))
    })
}

/// The worst rank of a side that could trade, as in [`AuctionSide`]; `None` if the other side is
/// empty.
pub(super) fn rank_worst(book: &Book, side: Side, phase: Phase) -> Option<u32> {
    let other = if side.is_buy() { Side::Sell } else { Side::Buy };
    let orders = book.auction(other);
    let ladders = || orders.into_iter().flat_map(|it| it.taking_part(phase));
    if ladders().any(|ladder| ladder.best_rank() == 0) {
        return Some(NO_RANK - 1);
    }
    let priced = ladders().filter_map(|ladder| ladder.at_or_after(1)).map(|(rank, _)| rank - 1);
    let best = priced.min().unwrap_or(NO_RANK).min(book.side(other).best_rank());
    (best != NO_RANK).then(|| book.rank(side, book.price(other, best)) + 1)
}

impl Engine {
    /// Continues the count of the auction that ends the present phase; returns the result once all orders
    /// that could trade are counted.
    pub(super) fn count_step(
        &mut self,
        instrument_id: InstrumentId,
        orders: &mut usize,
    ) -> Option<Cross> {
        let found = self.with_count(instrument_id, |count, book, pool| {
            let is_counted = count.count(book, pool, orders);
            is_counted.then(|| count.cross(book).unwrap_or_default())
        });
        let (price, paired) = found?;
        self.clear_count(instrument_id);
        Some(Cross { price, paired, missing: paired })
    }

    /// Changes the count of an instrument's auction.
    fn with_count<R>(
        &mut self,
        instrument_id: InstrumentId,
        change: impl FnOnce(&mut Count, &Book, &Pool) -> R,
    ) -> R {
        let book = &mut self.books[instrument_id];
        let mut count = book.count.take().unwrap_or_default();
        let result = change(&mut count, book, &self.pool);
        book.is_counted = !count.counted.is_begin();
        book.count = Some(count);
        result
    }

    /// Drops the count of an instrument.
    pub(crate) fn clear_count(&mut self, instrument_id: InstrumentId) {
        if self.books[instrument_id].count.is_some() {
            self.with_count(instrument_id, |count, _, _| count.clear());
        }
    }

    /// Starts the count of an instrument's auction anew, from its first order.
    pub(crate) fn count_anew(&mut self, instrument_id: InstrumentId) {
        if self.books[instrument_id].count.is_some() {
            self.with_count(instrument_id, |count, _, _| {
                let is_first = count.counted.is_first;
                count.clear();
                count.counted.is_first = is_first;
            });
        }
    }

    /// Drops the first indication, if it still waits.
    pub(super) fn forget_first_indication(&mut self, instrument_id: InstrumentId) {
        if self.books[instrument_id].count.is_some() {
            self.with_count(instrument_id, |count, _, _| count.counted.is_first = false);
        }
    }

    /// Restores the places up to which the orders of an instrument are counted; the error is the field that is invalid.
    pub(crate) fn restore_count(
        &mut self,
        instrument_id: InstrumentId,
        counted: &Counted,
    ) -> Result<(), &'static str> {
        let book = self.books.get(instrument_id).ok_or("instrument")?;
        let TradingStatus { phase, is_uncrossing, .. } = book.trading;
        let may_count = match is_uncrossing {
            true => !counted.is_first && self.is_counting(instrument_id),
            false => phase.is_auction(),
        };
        if !may_count || book.count.is_some() || *counted == Counted::default() {
            return Err("instrument");
        }
        if !counted.is_valid() {
            return Err("place");
        }
        self.with_count(instrument_id, |count, book, pool| count.restore(book, pool, counted));
        Ok(())
    }

    /// The lots of a side that could trade at a price, counted without steps.
    pub(crate) fn lots_in_auction(
        &self,
        instrument_id: InstrumentId,
        side: Side,
        price: Price,
    ) -> u128 {
        let (mut count, mut orders) = (Count::default(), usize::MAX);
        count.count(&self.books[instrument_id], &self.pool, &mut orders);
        count.lots(side, price)
    }

    /// Ends an auction after its last trade; emits its result.
    pub(crate) fn end_auction(
        &mut self,
        instrument_id: InstrumentId,
        cross: &Cross,
        phase: Phase,
        emit: &mut dyn FnMut(Event),
    ) {
        let Cross { price, paired, .. } = *cross;
        if paired != 0 {
            self.change_trading(instrument_id, |trading| {
                trading.reference_price = price;
                if trading.dynamic_band != 0 {
                    trading.price_last = price;
                }
            });
        }
        let trade_id = self.next_cross_id();
        emit(Event::Venue(VenueEvent::Uncrossed(Uncrossed {
            instrument_id,
            phase,
            trade_id,
            price,
            quantity: saturated(paired),
        })));
    }

    /// Trades the first order of one side with the first of the other.
    pub(crate) fn pair(
        &mut self,
        instrument_id: InstrumentId,
        cross: &mut Cross,
        phase: Phase,
        emit: &mut dyn FnMut(Event),
    ) {
        let book = &self.books[instrument_id];
        let slots = [Side::Buy, Side::Sell].map(|side| {
            let first = book.first_in_auction(&self.pool, side, phase);
            first.expect("what can trade has orders")
        });
        let [buys, sells] = slots.map(|slot| self.offered(slot));
        let quantity = buys.min(sells).min(saturated(cross.missing));
        self.trade_in_auction(slots, quantity, cross.price, phase, emit);
        cross.missing -= u128::from(quantity.0);
    }

    /// Lots that a resting order offers at a time: for an iceberg, its shown part.
    fn offered(&self, slot: Slot) -> Quantity {
        let order = &self.pool[slot].order;
        if order.is_iceberg() { self.icebergs.get(slot).shown.quantity() } else { order.leaves() }
    }

    /// Trades two resting orders; the one accepted first is the maker.
    fn trade_in_auction(
        &mut self,
        mut slots: [Slot; 2],
        quantity: Quantity,
        price: Price,
        phase: Phase,
        emit: &mut dyn FnMut(Event),
    ) {
        slots.sort_unstable_by_key(|slot| self.pool[*slot].order.order_id());
        let before = slots.map(|slot| self.pool[slot].order);
        let [(maker, maker_shown), (taker, taker_shown)] =
            slots.map(|slot| self.execute_resting(slot, quantity));
        self.trade_id_last.0 += 1;
        let traded = Traded {
            trade_id: self.trade_id_last,
            instrument_id: taker.instrument_id,
            taker_side: taker.side(),
            price,
            quantity,
            maker_shown,
            maker: fill(&maker),
            taker: fill(&taker),
            auction: Some(AuctionTrade { phase, taker_shown }),
        };
        self.trades.add(&traded);
        emit(Event::Traded(traded));
        let met = Match {
            maker_leaves_before: before[0].leaves(),
            maker: &maker,
            taker_leaves_before: before[1].leaves(),
            taker: &taker,
            price,
            quantity,
            prevention: None,
            reserve: None,
            is_unseen: false,
        };
        self.money.settle(&met, self.trade_id_last, emit);
        for (slot, after) in slots.into_iter().zip([maker, taker]) {
            if after.is_iceberg() && !after.is_done() {
                self.refresh_resting(slot, emit);
            }
        }
    }

    /// Executes lots of a resting order, and removes it if filled; returns it after the trade, and the lots
    /// that the feed showed before.
    fn execute_resting(&mut self, slot: Slot, quantity: Quantity) -> (Order, Quantity) {
        let before = self.pool[slot].order;
        let mut after = before;
        after.execute(quantity);
        let mut shown = before.shown_whole();
        if after.is_iceberg() {
            shown = self.icebergs.execute(slot, quantity).before;
        }
        if after.is_contingent() {
            self.execute_contingent(slot, &after);
        } else if after.is_done() {
            self.remove(slot, &before);
        } else {
            self.pool[slot].order = after;
        }
        (after, shown)
    }

    /// Shows the next part of an iceberg, behind all others at its price, if no part is shown.
    fn refresh_resting(&mut self, slot: Slot, emit: &mut dyn FnMut(Event)) {
        if !self.offered(slot).is_zero() {
            return;
        }
        let mut after = self.pool[slot].order;
        let order_id_before = after.order_id();
        after.set_order_id(self.next_order_id());
        let shown = self.icebergs.refresh(slot, &after);
        self.pool[slot].order = after;
        let book = &mut self.books[after.instrument_id];
        book.move_last(&mut self.pool, slot);
        emit(Event::Restated(Restated {
            key: after.key,
            order_id_before,
            order_id: after.order_id(),
            instrument_id: after.instrument_id,
            side: after.side(),
            reason: RestateReason::Refreshed,
            price: after.price(),
            leaves: after.leaves(),
            shown,
            display: after.display(),
            attribution: self.attribution(&after),
        }));
    }

    /// Publishes the indication of an auction, if it is the first one or has changed, once all orders that
    /// could trade are counted; otherwise the count continues before the next input.
    pub(crate) fn indicate(
        &mut self,
        instrument_id: InstrumentId,
        is_first: bool,
        emit: &mut dyn FnMut(Event),
    ) {
        let mut looks = self.looks.take();
        let (indication, is_first) = self.with_count(instrument_id, |count, book, pool| {
            let is_counted = looks.are_left() && count.count(book, pool, &mut looks.orders);
            let is_first = is_first || count.counted.is_first;
            count.counted.is_first = is_first && !is_counted;
            (is_counted.then(|| count.indication(book)), is_first)
        });
        self.looks = looks.less();
        let TradingStatus { phase, reference_price, indicated, .. } =
            self.books[instrument_id].trading;
        let now_ns = self.timestamp.0;
        let Some(indication) = indication else {
            return self.change_trading(instrument_id, |trading| {
                trading.indicates_ns = trading.indicates_ns.min(now_ns);
            });
        };
        self.change_trading(instrument_id, |trading| {
            trading.indicated = indication;
            trading.indicates_ns = (now_ns / INDICATION_NS + 1) * INDICATION_NS;
        });
        if is_first || indication != indicated {
            emit(Event::Venue(VenueEvent::Indicated(Indicated {
                instrument_id,
                phase,
                indication,
                reference_price,
            })));
        }
    }

    /// Ends an auction whose time is over. A volatility auction without an operator's end is
    /// extended instead if its price would be outside the collar, once all orders that could trade
    /// are counted.
    fn end_or_extend(&mut self, instrument_id: InstrumentId, emit: &mut dyn FnMut(Event)) {
        let trading = self.books[instrument_id].trading;
        let mut looks = self.looks.take();
        let is_inside = match trading.collar().filter(|_| !trading.is_scheduled) {
            Some((low, high)) => self.with_count(instrument_id, |count, book, pool| {
                count.count(book, pool, &mut looks.orders).then(|| {
                    let found = count.cross(book);
                    found.is_none_or(|(price, _)| low <= price && price <= high)
                })
            }),
            None => Some(true),
        };
        self.looks = looks.less();
        let Some(is_inside) = is_inside else { return };
        if is_inside {
            let is_last = trading.phase == Phase::ClosingAuction;
            let to = if is_last { Phase::Closed } else { Phase::Continuous };
            let step = PhaseStep::new(to, PhaseCause::Time);
            return self.change_phase(instrument_id, &step, emit);
        }
        let ends_ns = self.after_seconds(trading.pause_s);
        self.change_trading(instrument_id, |trading| {
            trading.extension = trading.extension.saturating_add(1);
            trading.ends_ns = ends_ns;
        });
        self.report_collar(instrument_id, emit);
    }

    /// Publishes the collar of a volatility auction, if it has one.
    pub(crate) fn report_collar(&self, instrument_id: InstrumentId, emit: &mut dyn FnMut(Event)) {
        let trading = &self.books[instrument_id].trading;
        if let Some((low, high)) = trading.collar() {
            emit(Event::Venue(VenueEvent::CollarSet(CollarSet {
                instrument_id,
                reference_price: trading.reference_price,
                low,
                high,
                extension: trading.extension,
            })));
        }
    }

    /// The time this many seconds from now.
    pub(crate) fn after_seconds(&self, seconds: u32) -> u64 {
        self.timestamp.0.saturating_add(u64::from(seconds) * INDICATION_NS)
    }

    /// Carries out the timed effects of auctions, by time and then by instrument, as far as the budget
    /// reaches: ends auctions whose time is over, and publishes the indications of the others.
    #[cold]
    pub(crate) fn pass_auctions(&mut self, due_ns: u64, emit: &mut dyn FnMut(Event)) {
        let was_empty = self.auction_line.line.is_empty();
        while self.looks.are_left()
            && let Some((at_ns, instrument_id)) = self.auctions.first().copied()
            && at_ns <= due_ns
        {
            if self.books[instrument_id].trading.ends_ns <= due_ns {
                self.end_or_extend(instrument_id, emit);
            } else {
                self.indicate(instrument_id, false, emit);
            }
        }
        if was_empty {
            self.trade_in_auctions(emit);
        }
    }
}
