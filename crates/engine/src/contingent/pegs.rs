//! Pegged orders: their price follows the best displayed prices of their book.
//!
//! A pegged order is hidden and follows displayed prices only, so no pegged order follows another.
//! In the book it has a price like any order; without a price to follow it waits outside. After a
//! command with all its other effects, pegged orders whose price is out of date are repriced, one by
//! one by order id: each enters again, trades and rests (see
//! [`follow`](crate::contingent::linked)).
//!
//! Invariant: a command moves at most [`MOVES_MAX`] pegged orders. The others move before the next inputs act;
//! [`Engine::due`] asks for an input. The orders that are left follow from the books alone.
//!
//! Invariant: this ends. Without a trade displayed prices stay, because only hidden orders move,
//! and each moves at most once; and each trade leaves fewer open lots.
//!
//! An instrument keeps its pegged orders by order id, and their last reference prices. A command that
//! changes the reference visits each of them, and the trading status bounds their number; any other
//! command costs one comparison, and in a book without pegged orders the test of a flag.

use alloc::{collections::VecDeque, vec::Vec};

use market::{
    CancelReason, Event, InstrumentId, Lots, OrderId, OrderType, Phase, Price, Pricing,
    RejectReason, RestateReason, SessionId, Side,
};

use crate::{
    Engine,
    book::Book,
    contingent::instructions::{Contingent, ContingentId, Contingents, State},
    intake::classify::{EntryTerms, Proposal},
    order::Order,
};

/// Maximum number of pegged orders that move after a command, and again before a later input while some
/// are left.
pub const MOVES_MAX: usize = 4;

/// The most pegged orders of an instrument, unless the venue sets another number.
pub(crate) const PEGS_MAX: u32 = 1_024;

/// The most pegged orders of one session in an instrument, unless the venue sets another number.
pub(crate) const SESSION_PEGS_MAX: u32 = 256;

/// The largest number that the venue may set for either.
pub(crate) const PEGS_LIMIT: u32 = 8_192;

/// The pegged orders of all books.
#[derive(Debug, Default)]
pub(crate) struct Pegs {
    /// By instrument id less 1; later instruments have none.
    books: Vec<PegBook>,
    /// Instruments whose book changed since their orders were last compared with the reference.
    touched: Vec<InstrumentId>,
    /// Instruments with an order that must move, each with the oldest such order; the instrument with the
    /// oldest of all comes last.
    stale: Vec<(OrderId, InstrumentId)>,
    /// Orders whose market stops; empty at all other times.
    leaving: Vec<ContingentId>,
}

/// The pegged orders of a book.
#[derive(Debug)]
struct PegBook {
    /// By order id.
    pegs: VecDeque<Peg>,
    reference: Reference,
    /// Older orders have the price of the reference.
    unchecked: OrderId,
    /// Its element of [`Pegs::stale`].
    stale: Option<OrderId>,
    is_touched: bool,
}

/// The terms that decide the price of a pegged order, together with the reference.
#[derive(Clone, Copy, Debug)]
struct Peg {
    order_id: OrderId,
    id: ContingentId,
    session_id: SessionId,
    side: Side,
    pricing: Pricing,
    offset: i32,
    /// [`Price::ZERO`] is none.
    limit: Price,
    /// The price that it has; [`Price::ZERO`] is none.
    price: Price,
}

/// The reference of pegged orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference {
    /// Best displayed prices; `None` if there is none, or the instrument does not trade now.
    bid: Option<Price>,
    ask: Option<Price>,
    /// The middle, for an order to buy and for one to sell.
    middle: Option<[Price; 2]>,
    /// The lowest and the highest price of continuous trading.
    low: Price,
    high: Price,
    /// The lowest and the highest price that an order may have.
    lowest: Price,
    highest: Price,
}

impl Reference {
    const NONE: Self = Self {
        bid: None,
        ask: None,
        middle: None,
        low: Price::ZERO,
        high: Price::ZERO,
        lowest: Price::ZERO,
        highest: Price::ZERO,
    };

    /// The reference of a book with these best displayed prices.
    fn new(book: &Book, bid: Option<Price>, ask: Option<Price>) -> Self {
        let increment = book.instrument().price_increment.0;
        let (lowest, highest) = (book.price_lowest(), book.price_highest());
        let (low, high) = book.trading.band().unwrap_or((Price::ZERO, highest));
        let middle = bid.zip(ask).map(|(bid, ask)| {
            let sum = (bid.0 + ask.0) / increment;
            [sum / 2, sum.div_ceil(2)].map(|steps| Price(steps * increment))
        });
        let (low, high) = (book.price_at_or_above(low), book.price_at_or_below(high).max(lowest));
        Self { bid, ask, middle, low, high, lowest, highest }
    }

    /// The price of an order by this reference, if there is one.
    #[inline]
    fn price(&self, peg: &Peg) -> Option<Price> {
        let Peg { side, pricing, offset, limit, .. } = *peg;
        let (own, other) = if side.is_buy() { (self.bid, self.ask) } else { (self.ask, self.bid) };
        let followed = match pricing {
            Pricing::PrimaryPeg => own?,
            Pricing::MarketPeg => other?,
            _ => self.middle?[usize::from(!side.is_buy())],
        };
        let moved = followed.0 as i64 + i64::from(offset);
        let moved = Price(moved.max(self.lowest.0 as i64) as u64).min(self.highest);
        Some(match side.is_buy() {
            true if limit == Price::ZERO => moved.min(self.high),
            true => moved.min(self.high).min(limit),
            false => moved.max(self.low).max(limit),
        })
    }
}

impl Peg {
    /// The pegged order of a record, at this price.
    fn new(contingent: &Contingent, id: ContingentId, side: Side, price: Price) -> Self {
        let Contingent { order_id, key, instructions, limit, .. } = *contingent;
        Self {
            order_id,
            id,
            session_id: key.session_id,
            side,
            pricing: instructions.pricing,
            offset: instructions.offset,
            limit,
            price,
        }
    }
}

impl PegBook {
    const EMPTY: Self = Self {
        pegs: VecDeque::new(),
        reference: Reference::NONE,
        unchecked: OrderId(0),
        stale: None,
        is_touched: false,
    };

    /// The index of an order, or the one that it would have.
    fn index(&self, order_id: OrderId) -> usize {
        self.pegs.partition_point(|peg| peg.order_id < order_id)
    }

    /// Finds the oldest order whose price differs from the reference.
    fn find_stale(&mut self) -> Option<OrderId> {
        let reference = self.reference;
        let differs = |peg: &&Peg| reference.price(peg).unwrap_or(Price::ZERO) != peg.price;
        let (first, second) = self.pegs.as_slices();
        let from = self.index(self.unchecked);
        let first_from = from.min(first.len());
        let first_stale = first[first_from..].iter().find(differs);
        let second_from = from - first_from;
        let stale = first_stale.or_else(|| second[second_from..].iter().find(differs));
        let stale = stale.map(|peg| peg.order_id);
        self.unchecked = stale.unwrap_or(OrderId(u64::MAX));
        stale
    }
}

impl Pegs {
    fn book_mut(&mut self, instrument_id: InstrumentId) -> &mut PegBook {
        let index = usize::from(instrument_id.0) - 1;
        if self.books.len() <= index {
            self.books.resize_with(index + 1, || PegBook::EMPTY);
        }
        &mut self.books[index]
    }

    fn book(&self, instrument_id: InstrumentId) -> &PegBook {
        self.books.get(usize::from(instrument_id.0) - 1).unwrap_or(const { &PegBook::EMPTY })
    }

    /// Marks a book as changed.
    fn touch(&mut self, instrument_id: InstrumentId) {
        let book = self.book_mut(instrument_id);
        if !book.is_touched {
            book.is_touched = true;
            self.touched.push(instrument_id);
        }
    }

    /// The number of changed books.
    #[inline(always)]
    pub(crate) fn touched_count(&self) -> usize {
        self.touched.len()
    }

    /// True if an earlier command left orders that must move.
    pub(crate) fn is_behind(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Records the oldest order of an instrument that must move.
    fn set_stale(&mut self, instrument_id: InstrumentId, stale: Option<OrderId>) {
        let before = core::mem::replace(&mut self.book_mut(instrument_id).stale, stale);
        if before == stale {
            return;
        }
        let index = |list: &[(OrderId, InstrumentId)], order_id| {
            list.partition_point(|(other, _)| order_id < *other)
        };
        if let Some(before) = before {
            self.stale.remove(index(&self.stale, before));
        }
        if let Some(stale) = stale {
            self.stale.insert(index(&self.stale, stale), (stale, instrument_id));
        }
    }
}

impl Contingents {
    /// Adds a pegged order that is in the book, or waits for a price.
    pub(crate) fn add_peg(&mut self, id: ContingentId, order: &Order) {
        let peg = Peg::new(&self[id], id, order.side(), order.price());
        let book = self.pegs.book_mut(order.instrument_id);
        book.pegs.insert(book.index(peg.order_id), peg);
        book.unchecked = book.unchecked.min(peg.order_id);
        // It may have traded as it entered.
        self.pegs.touch(order.instrument_id);
    }

    /// Removes a pegged order.
    pub(crate) fn remove_peg(&mut self, id: ContingentId) {
        let Contingent { instrument_id, order_id, .. } = self[id];
        let book = self.pegs.book_mut(instrument_id);
        let removed = book.pegs.remove(book.index(order_id));
        assert_eq!(removed.map(|peg| peg.id), Some(id), "a pegged order is found by its order id");
        self.pegs.touch(instrument_id);
    }

    /// The pegged orders of an instrument, in the book or waiting for a price, by order id.
    pub(crate) fn pegs_of(
        &self,
        instrument_id: InstrumentId,
    ) -> impl Iterator<Item = ContingentId> {
        self.pegs.book(instrument_id).pegs.iter().map(|peg| peg.id)
    }

    /// Checks that lists are consistent and nothing is pending; returns how many orders are in
    /// them.
    pub(crate) fn check_pegs(&self) -> usize {
        let Pegs { books, touched, stale, leaving } = &self.pegs;
        assert!(touched.is_empty() && leaving.is_empty());
        assert!(stale.is_sorted_by(|one, other| one > other));
        let marked = books.iter().filter(|book| book.stale.is_some()).count();
        assert_eq!(marked, stale.len(), "each instrument is marked once");
        for (order_id, instrument_id) in stale {
            assert_eq!(self.pegs.book(*instrument_id).stale, Some(*order_id));
        }
        let mut listed = 0;
        for (book, number) in books.iter().zip(1..) {
            assert!(!book.is_touched && book.stale.is_none_or(|stale| book.unchecked == stale));
            assert!(book.pegs.iter().is_sorted_by(|one, other| one.order_id < other.order_id));
            for peg in &book.pegs {
                let contingent = &self[peg.id];
                assert_eq!(contingent.instrument_id, InstrumentId(number));
                assert_eq!(contingent.order_id, peg.order_id);
                assert!(contingent.instructions.pricing.is_pegged(), "{contingent:?}");
                assert!(matches!(contingent.state, State::Resting | State::ForReference));
                listed += 1;
            }
        }
        listed
    }
}

impl Engine {
    /// Marks a book whose reference may have changed.
    #[inline(always)]
    pub(crate) fn touch(&mut self, instrument_id: InstrumentId) {
        if self.books[instrument_id].is_pegged {
            self.contingents.pegs.touch(instrument_id);
        }
    }

    /// Marks all books.
    pub(crate) fn touch_all(&mut self) {
        for instrument_id in self.books.ids() {
            self.touch(instrument_id);
        }
    }

    fn reference(&self, instrument_id: InstrumentId) -> Reference {
        let book = &self.books[instrument_id];
        if book.trading.phase != Phase::Continuous || !self.day.is_open() {
            return Reference::NONE;
        }
        let (bid, ask) =
            (book.best_opposite_displayed(Side::Sell), book.best_opposite_displayed(Side::Buy));
        Reference::new(book, bid, ask)
    }

    /// The price of a pegged order by the present reference; `None` if there is none.
    pub(crate) fn price_by_reference(&self, side: Side, id: ContingentId) -> Option<Price> {
        let contingent = &self.contingents[id];
        let peg = Peg::new(contingent, id, side, Price::ZERO);
        self.reference(contingent.instrument_id).price(&peg)
    }

    /// Checks that this pegged order does not exceed the bounds. A replacement of a pegged order takes its place.
    pub(crate) fn check_peg_count(&self, asked: &Proposal) -> Result<(), RejectReason> {
        let replaced = asked.original.and_then(|slot| self.contingents.find(slot));
        let is_one = |id: ContingentId| self.contingents[id].instructions.pricing.is_pegged();
        if replaced.is_some_and(is_one)
            || self.has_room_for_peg(asked.instrument_id, asked.key.session_id)
        {
            return Ok(());
        }
        Err(RejectReason::TooManyPegs)
    }

    /// True if a session may have one more pegged order in an instrument.
    pub(crate) fn has_room_for_peg(
        &self,
        instrument_id: InstrumentId,
        session_id: SessionId,
    ) -> bool {
        let trading = &self.books[instrument_id].trading;
        let pegs = &self.contingents.pegs.book(instrument_id).pegs;
        let own = || pegs.iter().filter(|peg| peg.session_id == session_id).count();
        pegs.len() < trading.pegs_max as usize && own() < trading.session_pegs_max as usize
    }

    /// Enters a new pegged order, which has no slot or price yet, or makes it wait.
    pub(crate) fn begin_pegged(
        &mut self,
        order: Order,
        id: ContingentId,
        emit: &mut dyn FnMut(Event),
    ) {
        // Where other orders wait for a half-matched order, it gets its price after them.
        let price = match self.books[order.instrument_id].trading.holds_new_orders() {
            true => None,
            false => self.price_by_reference(order.side(), id),
        };
        let Some(price) = price else { return self.hold(order, id, State::ForReference) };
        if !self.money.may_follow(&order, price) {
            self.cancel_at_once(&order, CancelReason::Unpaid, emit);
            return self.contingents.finish(id, order.executed());
        }
        let order = self.restate(order, id, price, emit);
        self.come_in_pegged(order, id, emit);
    }

    /// Reprices a pegged order without a slot, to [`Price::ZERO`] for none, with a new order id.
    fn restate(
        &mut self,
        mut order: Order,
        id: ContingentId,
        price: Price,
        emit: &mut dyn FnMut(Event),
    ) -> Order {
        let before = order;
        let order_id_before = self.renumber(&mut order, id);
        order.set_price(price);
        emit(Event::Restated(order.restated_unseen(order_id_before, RestateReason::Repriced)));
        self.money.follow_price(&before, &order, emit);
        order
    }

    /// A pegged order with a price trades and rests; if that stops the market, it waits.
    fn come_in_pegged(&mut self, mut order: Order, id: ContingentId, emit: &mut dyn FnMut(Event)) {
        let instructions = self.contingents[id].instructions;
        let terms =
            EntryTerms { order_type: OrderType::Limit, minimum_quantity: Lots::ZERO, instructions };
        let executed_before = order.executed();
        let came_in = self.trade_or_rest(&mut order, &terms, emit);
        if executed_before < order.executed() {
            self.contingents.execute(id);
        }
        self.keep_record(order, id, came_in, emit);
    }

    /// True if a pegged order that came in stopped the market.
    pub(crate) fn waits_for_reference(&self, order: &Order, id: ContingentId) -> bool {
        self.contingents[id].instructions.pricing.is_pegged()
            && !order.is_done()
            && self.books[order.instrument_id].trading.phase != Phase::Continuous
    }

    /// A pegged order without a slot waits outside the book for a price.
    pub(crate) fn wait_for_reference(
        &mut self,
        order: Order,
        id: ContingentId,
        emit: &mut dyn FnMut(Event),
    ) {
        let order = self.restate(order, id, Price::ZERO, emit);
        self.hold(order, id, State::ForReference);
    }

    /// Makes the pegged orders of an instrument leave the book and wait, by order id, because continuous trading ended.
    pub(crate) fn suspend_pegs(
        &mut self,
        instrument_id: InstrumentId,
        emit: &mut dyn FnMut(Event),
    ) {
        if !self.books[instrument_id].is_pegged {
            return;
        }
        let mut leaving = core::mem::take(&mut self.contingents.pegs.leaving);
        let pegs = self.contingents.pegs_of(instrument_id);
        leaving.extend(pegs.filter(|id| self.contingents[*id].is_resting()));
        for id in leaving.drain(..) {
            let order = self.take(self.contingents[id].slot);
            let order = self.restate(order, id, Price::ZERO, emit);
            self.hold(order, id, State::ForReference);
        }
        self.contingents.pegs.leaving = leaving;
    }

    /// Compares the orders of changed books with their reference; true if an order must move.
    pub(crate) fn compare_references(&mut self) -> bool {
        while let Some(instrument_id) = self.contingents.pegs.touched.pop() {
            let reference = self.reference(instrument_id);
            let book = &mut self.books[instrument_id];
            let pegs = self.contingents.pegs.book_mut(instrument_id);
            book.is_pegged = !pegs.pegs.is_empty();
            pegs.is_touched = false;
            if pegs.reference != reference {
                pegs.reference = reference;
                pegs.unchecked = OrderId(0);
            }
            let stale = pegs.find_stale();
            self.contingents.pegs.set_stale(instrument_id, stale);
        }
        self.contingents.pegs.is_behind()
    }

    /// Moves the oldest pegged order that must move.
    pub(crate) fn follow_reference(&mut self, emit: &mut dyn FnMut(Event)) {
        let pegs = &self.contingents.pegs;
        let &(order_id, instrument_id) = pegs.stale.last().expect("an order must move");
        let book = pegs.book(instrument_id);
        let id = book.pegs[book.index(order_id)].id;
        let slot = self.contingents[id].slot;
        let order = self.pool[slot].order;
        let price = self.price_by_reference(order.side(), id).unwrap_or(Price::ZERO);
        if !self.money.may_follow(&order, price) {
            return self.cancel_all(slot, CancelReason::Unpaid, emit);
        }
        let order = self.take(slot);
        let order = self.restate(order, id, price, emit);
        match price {
            Price::ZERO => self.hold(order, id, State::ForReference),
            _ => self.come_in_pegged(order, id, emit),
        }
    }

    /// True if a pegged order has its price, or is still to move.
    pub(crate) fn is_priced(&self, order: &Order, id: ContingentId) -> bool {
        let price = self.price_by_reference(order.side(), id).unwrap_or(Price::ZERO);
        let stale = self.contingents.pegs.book(order.instrument_id).stale;
        order.price() == price || stale.is_some_and(|stale| stale <= order.order_id())
    }
}
