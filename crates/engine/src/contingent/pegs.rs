//! Pegged orders: their price follows the best displayed prices of their book.
//!
//! A pegged order is hidden and follows displayed prices only, so no pegged order follows another.
//! In the book it has a price like any order; without a price to follow it waits outside. After a
//! command with all its other effects, each pegged order whose price is out of date is repriced,
//! one by one by order id: it enters again, trades and rests (see
//! [`follow`](crate::contingent::linked)).
//!
//! Invariant: this ends. Without a trade displayed prices stay, because only hidden orders move,
//! and each moves at most once; and each trade leaves fewer open lots.
//!
//! An instrument keeps a list of its pegged orders and their last reference prices. A command that
//! changes the reference costs a look at each of them; any other costs one comparison; in a book
//! without pegged orders it costs the test of a flag.

use alloc::{collections::BinaryHeap, vec::Vec};
use core::cmp::Reverse;

use market::{
    CancelReason, Event, InstrumentId, Lots, OrderId, OrderType, Phase, Price, Pricing,
    RestateReason, Side,
};

use crate::{
    Engine,
    book::Book,
    contingent::instructions::{Contingent, ContingentId, Contingents, List, State},
    intake::classify::EntryTerms,
    order::Order,
};

/// The pegged orders of all books.
#[derive(Debug)]
pub(crate) struct Pegs {
    /// By instrument id less 1; later instruments have none.
    books: Vec<PegBook>,
    /// Instruments whose book changed in this command; the first is on top.
    touched: BinaryHeap<Reverse<InstrumentId>>,
    /// Orders of one instrument that must move, oldest last.
    queue: Vec<(OrderId, ContingentId)>,
    /// That instrument.
    moving: InstrumentId,
    /// Orders whose market stops; empty at all other times.
    leaving: Vec<(OrderId, ContingentId)>,
}

/// The pegged orders of a book.
#[derive(Clone, Copy, Debug)]
struct PegBook {
    head: ContingentId,
    /// The reference of all its orders that are not queued; `None` if they differ.
    reference: Option<Reference>,
    is_touched: bool,
}

/// The reference of pegged orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference {
    /// Best displayed prices; `None` if there is none, or the instrument does not trade now.
    bid: Option<Price>,
    ask: Option<Price>,
    /// The lowest and the highest price of continuous trading.
    low: Price,
    high: Price,
}

impl Reference {
    const NONE: Self = Self { bid: None, ask: None, low: Price::ZERO, high: Price::ZERO };

    /// The price of an order by this reference, if there is one.
    fn price(&self, book: &Book, side: Side, contingent: &Contingent) -> Option<Price> {
        let increment = book.instrument().price_increment.0;
        let (own, other) = if side.is_buy() { (self.bid, self.ask) } else { (self.ask, self.bid) };
        let followed = match contingent.instructions.pricing {
            Pricing::PrimaryPeg => own?,
            Pricing::MarketPeg => other?,
            _ => {
                let sum = (own?.0 + other?.0) / increment;
                let steps = if side.is_buy() { sum / 2 } else { sum.div_ceil(2) };
                Price(steps * increment)
            }
        };
        let moved = followed.0 as i64 + i64::from(contingent.instructions.offset);
        let lowest = book.price_lowest();
        let moved = Price(moved.max(lowest.0 as i64) as u64).min(book.price_highest());
        let limit = contingent.limit;
        Some(match side.is_buy() {
            true if limit == Price::ZERO => moved.min(self.high),
            true => moved.min(self.high).min(limit),
            false => moved.max(self.low).max(limit),
        })
    }
}

impl PegBook {
    const EMPTY: Self = Self { head: ContingentId::NONE, reference: None, is_touched: false };
}

impl Default for Pegs {
    fn default() -> Self {
        Self {
            books: Vec::new(),
            touched: BinaryHeap::new(),
            queue: Vec::new(),
            moving: InstrumentId(0),
            leaving: Vec::new(),
        }
    }
}

impl Pegs {
    fn book_mut(&mut self, instrument_id: InstrumentId) -> &mut PegBook {
        let index = usize::from(instrument_id.0) - 1;
        if self.books.len() <= index {
            self.books.resize(index + 1, PegBook::EMPTY);
        }
        &mut self.books[index]
    }

    fn head(&self, instrument_id: InstrumentId) -> ContingentId {
        let book = self.books.get(usize::from(instrument_id.0) - 1);
        book.map_or(ContingentId::NONE, |book| book.head)
    }

    fn reference(&self, instrument_id: InstrumentId) -> Option<Reference> {
        self.books.get(usize::from(instrument_id.0) - 1)?.reference
    }

    /// Marks a book as changed.
    fn touch(&mut self, instrument_id: InstrumentId) {
        let book = self.book_mut(instrument_id);
        if !book.is_touched {
            book.is_touched = true;
            self.touched.push(Reverse(instrument_id));
        }
    }

    /// True if an order may have to move.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        !self.touched.is_empty() || !self.queue.is_empty()
    }

    /// Removes and returns the next marked instrument; `None` while queued orders remain and
    /// nothing has changed since they were found.
    fn next_touched(&mut self) -> Option<InstrumentId> {
        let &Reverse(instrument_id) = self.touched.peek()?;
        if !self.queue.is_empty() && instrument_id != self.moving {
            return None;
        }
        self.touched.pop();
        self.book_mut(instrument_id).is_touched = false;
        Some(instrument_id)
    }
}

impl Contingents {
    /// Adds a pegged order that is in the book, or waits for a price.
    pub(crate) fn add_peg(&mut self, id: ContingentId) {
        let instrument_id = self[id].instrument_id;
        let head = self.pegs.head(instrument_id);
        let first = self.push(List::Trigger, head, id);
        self.pegs.book_mut(instrument_id).head = first;
        // It may have traded as it entered.
        self.pegs.touch(instrument_id);
    }

    /// Removes a pegged order.
    pub(crate) fn remove_peg(&mut self, id: ContingentId) {
        let instrument_id = self[id].instrument_id;
        let head = self.pegs.head(instrument_id);
        let first = self.unlink(List::Trigger, head, id);
        self.pegs.book_mut(instrument_id).head = first;
    }

    /// The pegged orders of an instrument, in the book or waiting for a price, in no particular
    /// order.
    pub(crate) fn pegs_of(
        &self,
        instrument_id: InstrumentId,
    ) -> impl Iterator<Item = ContingentId> {
        let first = self.pegs.head(instrument_id).some();
        core::iter::successors(first, |id| self.next(List::Trigger, *id))
    }

    /// Checks that lists are consistent and nothing is pending; returns how many orders are in
    /// them.
    pub(crate) fn check_pegs(&self) -> usize {
        let Pegs { books, touched, queue, leaving, .. } = &self.pegs;
        assert!(touched.is_empty() && queue.is_empty() && leaving.is_empty());
        assert!(books.iter().all(|book| !book.is_touched));
        let ids = (1..=books.len()).map(|number| InstrumentId(number as u16));
        let mut listed = 0;
        for instrument_id in ids {
            for id in self.pegs_of(instrument_id) {
                assert_eq!(self[id].instrument_id, instrument_id);
                assert!(self[id].instructions.pricing.is_pegged(), "{:?}", self[id]);
                assert!(matches!(self[id].state, State::Resting | State::ForReference));
                listed += 1;
            }
        }
        listed
    }
}

impl Engine {
    /// Marks a book whose reference may have changed.
    #[inline]
    pub(crate) fn touch(&mut self, instrument_id: InstrumentId) {
        if self.books[usize::from(instrument_id.0) - 1].is_pegged {
            self.contingents.pegs.touch(instrument_id);
        }
    }

    /// Marks all books.
    pub(crate) fn touch_all(&mut self) {
        for number in 1..=self.books.len() {
            self.touch(InstrumentId(number as u16));
        }
    }

    fn reference(&self, instrument_id: InstrumentId) -> Reference {
        let book = self.book_at(instrument_id);
        if book.trading.phase != Phase::Continuous || !self.day.is_open() {
            return Reference::NONE;
        }
        let all = (Price::ZERO, book.price_highest());
        let (low, high) = book.trading.band().unwrap_or(all);
        Reference {
            bid: book.best_opposite_displayed(Side::Sell),
            ask: book.best_opposite_displayed(Side::Buy),
            low: book.price_at_or_above(low),
            high: book.price_at_or_below(high).max(book.price_lowest()),
        }
    }

    /// The price of a pegged order by the present reference; `None` if there is none.
    pub(crate) fn price_by_reference(&self, side: Side, id: ContingentId) -> Option<Price> {
        let contingent = &self.contingents[id];
        let book = self.book_at(contingent.instrument_id);
        self.reference(contingent.instrument_id).price(book, side, contingent)
    }

    /// Enters a new pegged order, which has no slot or price yet, or makes it wait.
    pub(crate) fn begin_pegged(
        &mut self,
        order: Order,
        id: ContingentId,
        emit: &mut dyn FnMut(Event),
    ) {
        let Some(price) = self.price_by_reference(order.side, id) else {
            return self.wait_for_reference(order, id);
        };
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
        self.money.follow_price(&before, &order, &mut self.hash, emit);
        order
    }

    /// A pegged order with a price trades and rests; if that stops the market, it waits.
    fn come_in_pegged(&mut self, mut order: Order, id: ContingentId, emit: &mut dyn FnMut(Event)) {
        let instructions = self.contingents[id].instructions;
        let terms =
            EntryTerms { order_type: OrderType::Limit, minimum_quantity: Lots::ZERO, instructions };
        let executed_before = order.executed();
        let rested = self.trade_or_rest(&mut order, &terms, emit);
        if executed_before < order.executed() {
            self.contingents.execute(id);
        }
        if let Some(slot) = rested {
            self.contingents.place(id, slot, State::Resting, &mut self.hash);
            return self.compare_reference(&order, id);
        }
        if order.is_done() || self.trading(order.instrument_id).phase == Phase::Continuous {
            return self.contingents.finish(id, order.executed());
        }
        let order = self.restate(order, id, Price::ZERO, emit);
        self.wait_for_reference(order, id);
    }

    /// Makes a pegged order without a price wait outside the book.
    fn wait_for_reference(&mut self, order: Order, id: ContingentId) {
        self.hold(order, id, State::ForReference);
        self.compare_reference(&order, id);
    }

    /// Records the reference by which an order was priced. If it differs from that of the others,
    /// all of them are tested.
    fn compare_reference(&mut self, order: &Order, id: ContingentId) {
        self.books[usize::from(order.instrument_id.0) - 1].is_pegged = true;
        let contingent = &self.contingents[id];
        let book = self.book_of(order);
        let reference = self.contingents.pegs.reference(order.instrument_id);
        let followed = reference.map(|it| it.price(book, order.side, contingent));
        if followed.is_none_or(|price| price.unwrap_or(Price::ZERO) != order.price()) {
            self.contingents.pegs.book_mut(order.instrument_id).reference = None;
        }
    }

    /// Continuous trading ended: the pegged orders of an instrument leave the book and wait, by
    /// order id.
    pub(crate) fn suspend_pegs(
        &mut self,
        instrument_id: InstrumentId,
        emit: &mut dyn FnMut(Event),
    ) {
        if !self.book_at(instrument_id).is_pegged {
            return;
        }
        let mut leaving = core::mem::take(&mut self.contingents.pegs.leaving);
        let pegs = self.contingents.pegs_of(instrument_id).map(|id| (id, &self.contingents[id]));
        let resting = pegs.filter(|(_, contingent)| contingent.is_resting());
        leaving.extend(resting.map(|(id, contingent)| (contingent.order_id, id)));
        leaving.sort_unstable_by_key(|(order_id, _)| *order_id);
        for (_, id) in leaving.drain(..) {
            let order = self.take(self.contingents[id].slot);
            let order = self.restate(order, id, Price::ZERO, emit);
            self.wait_for_reference(order, id);
        }
        self.contingents.pegs.leaving = leaving;
    }

    /// Moves the next pegged order that must move, if any.
    pub(crate) fn follow_reference(&mut self, emit: &mut dyn FnMut(Event)) {
        while let Some(instrument_id) = self.contingents.pegs.next_touched() {
            let reference = self.reference(instrument_id);
            let book = self.contingents.pegs.book_mut(instrument_id);
            // Orders that this reference moves are queued already.
            if book.reference != Some(reference) {
                book.reference = Some(reference);
                self.find_moved(instrument_id, &reference);
            }
        }
        let Some((order_id, id)) = self.contingents.pegs.queue.pop() else { return };
        let Contingent { slot, state, .. } = self.contingents[id];
        let is_live = matches!(state, State::Resting | State::ForReference);
        if !is_live || self.contingents[id].order_id != order_id {
            return;
        }
        let order = self.pool[slot].order;
        let price = self.price_by_reference(order.side, id).unwrap_or(Price::ZERO);
        if price == order.price() {
            return;
        }
        if !self.money.may_follow(&order, price) {
            return self.cancel_all(slot, CancelReason::Unpaid, emit);
        }
        let order = self.take(slot);
        let order = self.restate(order, id, price, emit);
        match price {
            Price::ZERO => self.wait_for_reference(order, id),
            _ => self.come_in_pegged(order, id, emit),
        }
    }

    /// Queues the orders of an instrument whose price differs by a reference.
    fn find_moved(&mut self, instrument_id: InstrumentId, reference: &Reference) {
        let mut queue = core::mem::take(&mut self.contingents.pegs.queue);
        queue.clear();
        let is_pegged = self.contingents.pegs_of(instrument_id).next().is_some();
        self.books[usize::from(instrument_id.0) - 1].is_pegged = is_pegged;
        let book = self.book_at(instrument_id);
        for id in self.contingents.pegs_of(instrument_id) {
            let contingent = &self.contingents[id];
            let order = &self.pool[contingent.slot].order;
            let price = reference.price(book, order.side, contingent).unwrap_or(Price::ZERO);
            if price != order.price() {
                queue.push((contingent.order_id, id));
            }
        }
        queue.sort_unstable_by_key(|(order_id, _)| Reverse(*order_id));
        self.contingents.pegs.queue = queue;
        self.contingents.pegs.moving = instrument_id;
    }

    /// Marks restored orders as correctly priced.
    pub(crate) fn restore_references(&mut self) {
        while let Some(instrument_id) = self.contingents.pegs.next_touched() {
            let reference = self.reference(instrument_id);
            self.contingents.pegs.book_mut(instrument_id).reference = Some(reference);
            self.books[usize::from(instrument_id.0) - 1].is_pegged = true;
        }
    }
}
