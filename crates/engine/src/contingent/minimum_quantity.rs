//! Minimum-quantity orders: limit orders that trade at least their minimum at once, or nothing yet.
//! They wait outside the book until the minimum can trade, and then enter it like new orders.
//!
//! The engine tests whether one can enter when it is accepted, and again after a command with all
//! its effects. Then it tests all those of each instrument where an order was booked, or the
//! phase or terms changed, one by one in order of age (see [`follow`](crate::contingent::linked)).
//! Invariant: this ends, because an order that enters waits no more.
//!
//! Without bounds, orders that wait and never enter would slow down the commands of others. So at most
//! [`WAITING_MAX`] may wait in an instrument, each test counts at most [`COUNTED_MAX`] orders of the
//! other side, and a command tests at most [`CHECKS_MAX`]. The others are tested before the next inputs
//! act; [`Engine::due`] asks for an input. An instrument without waiting orders costs nothing.

use alloc::{collections::VecDeque, vec::Vec};
use core::mem;

use market::{
    CancelReason, Event, Instructions, InstrumentId, Lots, OrderId, OrderKey, OrderType, Phase,
    Quantity, RestateReason, TimeInForce,
};

use crate::{
    Engine,
    book::{Book, cross::Reach},
    contingent::instructions::{Contingent, ContingentId, State},
    order::Order,
    state::hash::{self, StateHash},
    trading::self_match,
};

/// The most orders that may wait in an instrument.
const WAITING_MAX: usize = 64;

/// The most orders of the other side that count for a minimum.
const COUNTED_MAX: usize = 64;

/// Maximum number of orders that are tested after a command, and again before a later input while some
/// are left.
pub(crate) const CHECKS_MAX: usize = 4;

/// True if a minimum-quantity order waits outside the book until it can trade; any other order is canceled.
#[inline]
pub(crate) fn waits_for_quantity(
    order_type: OrderType,
    time_in_force: TimeInForce,
    minimum_quantity: Lots,
    instructions: &Instructions,
) -> bool {
    (!minimum_quantity.is_zero() || instructions.handling.is_all_or_none())
        && order_type == OrderType::Limit
        && time_in_force.may_rest()
}

/// The waiting minimum-quantity orders of all books.
#[derive(Debug, Default)]
pub(crate) struct MinimumQuantityOrders {
    /// By instrument id less 1; later instruments never had any.
    books: Vec<Waiting>,
    /// Instruments to test, in the order in which they changed.
    noted: VecDeque<InstrumentId>,
    /// The orders of one such instrument that are still to test, oldest first, each with its order
    /// id at that time. One may be done by now.
    line: VecDeque<(OrderKey, OrderId)>,
    /// True while `noted` or `line` is not empty.
    is_pending: bool,
    /// True if an earlier command left orders to test.
    pub(crate) is_behind: bool,
}

/// The waiting orders of one instrument.
#[derive(Debug, Default)]
struct Waiting {
    /// By order id.
    ids: Vec<ContingentId>,
    is_noted: bool,
}

impl MinimumQuantityOrders {
    /// Marks an instrument whose waiting orders may be able to trade.
    #[cold]
    fn note(&mut self, instrument_id: InstrumentId) {
        let waiting = self.waiting_mut(instrument_id);
        if !waiting.is_noted {
            waiting.is_noted = true;
            self.noted.push_back(instrument_id);
            self.is_pending = true;
        }
    }

    /// True if there are orders to test.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending
    }

    fn waiting_mut(&mut self, instrument_id: InstrumentId) -> &mut Waiting {
        let index = usize::from(instrument_id.0) - 1;
        if self.books.len() <= index {
            self.books.resize_with(index + 1, Waiting::default);
        }
        &mut self.books[index]
    }

    /// The next order to test.
    fn next(&mut self) -> Option<(OrderKey, OrderId)> {
        let next = self.line.pop_front();
        self.is_pending = !self.line.is_empty() || !self.noted.is_empty();
        next
    }

    /// The instruments to test, in that order.
    pub(crate) fn noted(&self) -> impl Iterator<Item = InstrumentId> {
        self.noted.iter().copied()
    }

    /// The orders of one more instrument that are still to test, in that order.
    pub(crate) fn line(&self) -> impl Iterator<Item = (OrderKey, OrderId)> {
        self.line.iter().copied()
    }

    /// Restores an instrument to test; false if it is there already.
    pub(crate) fn restore_noted(&mut self, instrument_id: InstrumentId) -> bool {
        let is_new = !self.waiting_mut(instrument_id).is_noted;
        self.note(instrument_id);
        self.is_behind = true;
        is_new
    }

    /// Restores an order that is still to test.
    pub(crate) fn restore_line(&mut self, key: OrderKey, order_id: OrderId) {
        self.line.push_back((key, order_id));
        (self.is_pending, self.is_behind) = (true, true);
    }

    /// Adds the orders that are still to be tested to a state hash.
    pub(crate) fn add_hashes(&self, sum: &mut StateHash) {
        for (instrument_id, place) in self.noted().zip(0..) {
            sum.add(hash::mix([hash::NOTED_FOR_QUANTITY, place, u64::from(instrument_id.0)]));
        }
        for ((key, order_id), place) in self.line().zip(0..) {
            sum.add(hash::mix([
                hash::CHECK_FOR_QUANTITY,
                place,
                u64::from(key.session_id.0) << 40 | u64::from(key.channel) << 32,
                u64::from(key.user_ref_num),
                order_id.0,
            ]));
        }
    }

    /// Adds the youngest waiting order; returns the number that wait.
    fn add(&mut self, instrument_id: InstrumentId, id: ContingentId) {
        let ids = &mut self.waiting_mut(instrument_id).ids;
        ids.reserve_exact(WAITING_MAX - ids.len());
        ids.push(id);
    }

    /// Removes a waiting order; true if it was the last one of its instrument.
    fn remove(&mut self, instrument_id: InstrumentId, id: ContingentId) -> bool {
        let ids = &mut self.books[usize::from(instrument_id.0) - 1].ids;
        let place = ids.iter().position(|it| *it == id).expect("it waits here");
        ids.remove(place);
        ids.is_empty()
    }

    /// The waiting orders of an instrument, by order id.
    pub(crate) fn of(&self, instrument_id: InstrumentId) -> &[ContingentId] {
        let waiting = self.books.get(usize::from(instrument_id.0) - 1);
        waiting.map_or(&[], |waiting| &waiting.ids)
    }

    /// Checks that the marks agree with the orders that are still to be tested.
    pub(crate) fn check(&self) {
        let is_left = !self.noted.is_empty() || !self.line.is_empty();
        assert_eq!((self.is_pending, self.is_behind), (is_left, is_left));
        assert!(self.line.len() <= WAITING_MAX);
        let is_noted = |id: &InstrumentId| self.books[usize::from(id.0) - 1].is_noted;
        assert!(self.noted.iter().all(is_noted));
        let noted = self.books.iter().filter(|waiting| waiting.is_noted).count();
        assert_eq!(noted, self.noted.len(), "each instrument is marked once");
    }
}

impl Engine {
    /// Marks an instrument where an order was booked, or the trading status changed.
    #[inline(always)]
    pub(crate) fn note_minimum_quantity(&mut self, instrument_id: InstrumentId) {
        if self.books[instrument_id].has_waiting_for_quantity {
            self.contingents.minimum_quantity_orders.note(instrument_id);
        }
    }

    /// Makes a minimum-quantity order wait, which has no slot and cannot enter.
    pub(crate) fn wait_for_quantity(
        &mut self,
        order: Order,
        id: ContingentId,
        emit: &mut dyn FnMut(Event),
    ) {
        if self.contingents.minimum_quantity_orders.of(order.instrument_id).len() == WAITING_MAX {
            self.cancel_at_once(&order, CancelReason::ImmediateOrCancel, emit);
            return self.contingents.finish(id, order.executed());
        }
        self.hold(order, id, State::ForQuantity);
        self.add_waiting_for_quantity(order.instrument_id, id);
    }

    /// Indexes a waiting order, so that changes of its instrument find it.
    fn add_waiting_for_quantity(&mut self, instrument_id: InstrumentId, id: ContingentId) {
        self.contingents.minimum_quantity_orders.add(instrument_id, id);
        self.books[instrument_id].has_waiting_for_quantity = true;
    }

    /// As [`add_waiting_for_quantity`](Self::add_waiting_for_quantity), for a restored order; false
    /// if the maximum is reached or it has no minimum quantity.
    pub(crate) fn restore_waiting_for_quantity(
        &mut self,
        instrument_id: InstrumentId,
        id: ContingentId,
    ) -> bool {
        let Contingent { order_type, minimum_quantity, instructions, slot, .. } =
            self.contingents[id];
        let life = self.pool[slot].order.time_in_force();
        let fits = self.contingents.minimum_quantity_orders.of(instrument_id).len() < WAITING_MAX
            && waits_for_quantity(order_type, life, minimum_quantity, &instructions);
        if fits {
            self.add_waiting_for_quantity(instrument_id, id);
        }
        fits
    }

    /// Removes a minimum-quantity order from its place outside the book.
    pub(crate) fn remove_waiting_for_quantity(
        &mut self,
        instrument_id: InstrumentId,
        id: ContingentId,
    ) {
        if self.contingents.minimum_quantity_orders.remove(instrument_id, id) {
            self.books[instrument_id].has_waiting_for_quantity = false;
        }
    }

    /// True if a minimum-quantity order, which is in no book, can trade its minimum now.
    pub(crate) fn has_enough(&self, order: &Order, id: ContingentId) -> bool {
        let book = &self.books[order.instrument_id];
        let limit = Some(order.price());
        if book.trading.phase != Phase::Continuous
            || !self.day.is_open()
            || !book.would_cross(order.side(), limit)
        {
            return false;
        }
        let Some(limit) = self.within_band(order, limit) else { return false };
        let minimum = self.minimum_of(order, id);
        let prevention = self_match::meant(&self.sessions, order);
        book.would_trade(
            &self.pool,
            order,
            Reach { limit, orders_max: COUNTED_MAX },
            minimum,
            |maker| {
                let is_own = self_match::is_own(&self.sessions, prevention, order, maker);
                is_own.then_some(prevention)
            },
            |slot| self.icebergs.get(slot).shown.quantity(),
        )
    }

    /// The minimum of an order, in lots, at most its open lots.
    pub(crate) fn minimum_of(&self, order: &Order, id: ContingentId) -> Quantity {
        let Contingent { minimum_quantity, instructions, .. } = &self.contingents[id];
        match instructions.handling.is_all_or_none() {
            true => order.leaves(),
            false => minimum_quantity.quantity().min(order.leaves()),
        }
    }

    /// Tests the next marked minimum-quantity order, if any, and enters it if it can trade enough.
    pub(crate) fn follow_minimum_quantity(&mut self, emit: &mut dyn FnMut(Event)) {
        let minimum_quantity_orders = &mut self.contingents.minimum_quantity_orders;
        if minimum_quantity_orders.line.is_empty()
            && let Some(instrument_id) = minimum_quantity_orders.noted.pop_front()
        {
            self.line_up(instrument_id);
        }
        let Some((key, order_id)) = self.contingents.minimum_quantity_orders.next() else { return };
        let Some(slot) = self.find(key) else { return };
        let Some(id) = self.contingents.find(slot) else { return };
        let Contingent { state, .. } = self.contingents[id];
        if state != State::ForQuantity || self.contingents[id].order_id != order_id {
            return;
        }
        if !self.has_enough(&self.pool[slot].order, id) {
            return;
        }
        let mut order = self.take(slot);
        let order_id_before = self.renumber(&mut order, id);
        emit(Event::Restated(order.restated_unseen(order_id_before, RestateReason::Ready)));
        self.come_in(order, id, emit);
    }

    /// Marks the orders of an instrument for a test.
    fn line_up(&mut self, instrument_id: InstrumentId) {
        let mut line = mem::take(&mut self.contingents.minimum_quantity_orders.line);
        let waiting =
            &mut self.contingents.minimum_quantity_orders.books[usize::from(instrument_id.0) - 1];
        waiting.is_noted = false;
        let ids = self.contingents.minimum_quantity_orders.of(instrument_id).iter();
        line.extend(ids.map(|id| (self.contingents[*id].key, self.contingents[*id].order_id)));
        self.contingents.minimum_quantity_orders.line = line;
    }

    /// Checks the invariants of the minimum-quantity orders of a book; returns how many there are.
    pub(crate) fn check_minimum_quantity(&self, book: &Book) -> usize {
        let instrument_id = book.instrument().instrument_id;
        let ids = self.contingents.minimum_quantity_orders.of(instrument_id);
        assert_eq!(book.has_waiting_for_quantity, !ids.is_empty());
        assert!(ids.len() <= WAITING_MAX);
        assert!(ids.is_sorted_by_key(|id| self.contingents[*id].order_id));
        for id in ids {
            let Contingent { state, slot, order_type, minimum_quantity, instructions, .. } =
                &self.contingents[*id];
            let order = &self.pool[*slot].order;
            assert_eq!((*state, order.instrument_id), (State::ForQuantity, instrument_id));
            let life = order.time_in_force();
            assert!(
                waits_for_quantity(*order_type, life, *minimum_quantity, instructions),
                "{order:?}"
            );
        }
        ids.len()
    }
}
