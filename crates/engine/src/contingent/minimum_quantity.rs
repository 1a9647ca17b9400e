//! Patient orders: limit orders that trade so many lots at once, or none yet. They are live outside
//! the book until that many can trade, and then come in like orders that were just accepted.
//!
//! Whether one can come in is asked when it was accepted, and when a command is done and all else
//! that follows from it, of all that wait in an instrument in which an order came to rest or of
//! which the phase or the terms changed, one after the other by age (see
//! [`follow`](crate::contingent::linked)). That ends, for each that comes in waits no more.
//!
//! A participant could make others pay for orders that wait and never come in. So [`WAITING_MAX`]
//! may wait in an instrument, and of the other side the first [`COUNTED_MAX`] orders count; and an
//! instrument in which none waits pays for nothing.

use alloc::{collections::VecDeque, vec::Vec};
use core::mem;

use market::{
    CancelReason, Event, Instructions, InstrumentId, Lots, OrderId, OrderType, Phase, Quantity,
    RestateReason, TimeInForce,
};

use crate::{
    Engine,
    book::{Book, cross::Reach},
    contingent::instructions::{Standing, StandingId, State},
    order::Order,
    trading::self_match,
};

/// So many orders wait in an instrument at most.
const WAITING_MAX: usize = 64;

/// So many orders of the other side count at most for what can trade at once.
const COUNTED_MAX: usize = 128;

/// Does an order with a minimum wait outside the book until it can trade so much at once? Others
/// with a minimum are canceled if they cannot.
#[inline]
pub(crate) fn waits_for_quantity(
    order_type: OrderType,
    time_in_force: TimeInForce,
    minimum_quantity: Lots,
    instructions: &Instructions,
) -> bool {
    (minimum_quantity != Lots::ZERO || instructions.all_or_none)
        && order_type == OrderType::Limit
        && time_in_force.may_rest()
}

/// The patient orders of all books that wait.
#[derive(Debug, Default)]
pub(crate) struct Patients {
    /// By instrument id, less 1; in instruments after the last none ever waited.
    books: Vec<Waiting>,
    /// Instruments in which something happened in this command that they wait for, in that order.
    noted: VecDeque<InstrumentId>,
    /// Those of one such instrument that are still to be looked at, the oldest first, each with the
    /// order id that it had then.
    line: VecDeque<(StandingId, OrderId)>,
    /// True while either of these has something.
    is_pending: bool,
}

/// Those of one instrument.
#[derive(Debug, Default)]
struct Waiting {
    /// By order id.
    ids: Vec<StandingId>,
    is_noted: bool,
}

impl Patients {
    /// Something happened in an instrument that orders wait for.
    #[cold]
    fn note(&mut self, instrument_id: InstrumentId) {
        let waiting = &mut self.books[usize::from(instrument_id.0) - 1];
        if !waiting.is_noted {
            waiting.is_noted = true;
            self.noted.push_back(instrument_id);
            self.is_pending = true;
        }
    }

    /// True if orders are to be looked at.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// The next order to look at.
    fn next(&mut self) -> Option<(StandingId, OrderId)> {
        let next = self.line.pop_front();
        self.is_pending = next.is_some() || !self.noted.is_empty();
        next
    }

    /// An order waits, the youngest of all, and how many do so then.
    fn add(&mut self, instrument_id: InstrumentId, id: StandingId) {
        let index = usize::from(instrument_id.0) - 1;
        if self.books.len() <= index {
            self.books.resize_with(index + 1, Waiting::default);
        }
        let ids = &mut self.books[index].ids;
        ids.reserve_exact(WAITING_MAX - ids.len());
        ids.push(id);
    }

    /// An order waits no more; true if it was the last one of its instrument.
    fn remove(&mut self, instrument_id: InstrumentId, id: StandingId) -> bool {
        let ids = &mut self.books[usize::from(instrument_id.0) - 1].ids;
        let place = ids.iter().position(|it| *it == id).expect("it waits here");
        ids.remove(place);
        ids.is_empty()
    }

    /// Those of an instrument, by order id.
    pub(crate) fn of(&self, instrument_id: InstrumentId) -> &[StandingId] {
        let waiting = self.books.get(usize::from(instrument_id.0) - 1);
        waiting.map_or(&[], |waiting| &waiting.ids)
    }

    /// Asserts that nothing is left to do.
    pub(crate) fn check(&self) {
        assert!(self.noted.is_empty() && self.line.is_empty() && !self.is_pending);
        assert!(self.books.iter().all(|waiting| !waiting.is_noted));
    }
}

impl Engine {
    /// An order came to rest in an instrument, or it is traded otherwise from now on.
    #[inline]
    pub(crate) fn note_patients(&mut self, instrument_id: InstrumentId) {
        if self.book_at(instrument_id).has_patient {
            self.standings.patients.note(instrument_id);
        }
    }

    /// A patient order that is in no slot, and cannot come in, waits.
    pub(crate) fn wait_for_quantity(
        &mut self,
        order: Order,
        id: StandingId,
        emit: &mut dyn FnMut(Event),
    ) {
        if self.standings.patients.of(order.instrument_id).len() == WAITING_MAX {
            self.cancel_at_once(&order, CancelReason::ImmediateOrCancel, emit);
            return self.standings.finish(id, order.executed());
        }
        self.hold(order, id, State::ForQuantity);
        self.add_patient(order.instrument_id, id);
    }

    /// The order, which is held, is found from now on when something happens that it waits for.
    fn add_patient(&mut self, instrument_id: InstrumentId, id: StandingId) {
        self.standings.patients.add(instrument_id, id);
        self.books[usize::from(instrument_id.0) - 1].has_patient = true;
    }

    /// As [`add_patient`](Self::add_patient), for one that was restored; false if there are too many,
    /// or it is no patient order.
    pub(crate) fn restore_patient(&mut self, instrument_id: InstrumentId, id: StandingId) -> bool {
        let Standing { order_type, minimum_quantity, instructions, slot, .. } = self.standings[id];
        let life = self.pool[slot].order.time_in_force;
        let fits = self.standings.patients.of(instrument_id).len() < WAITING_MAX
            && waits_for_quantity(order_type, life, minimum_quantity, &instructions);
        if fits {
            self.add_patient(instrument_id, id);
        }
        fits
    }

    /// A patient order leaves its place outside the book.
    pub(crate) fn remove_patient(&mut self, instrument_id: InstrumentId, id: StandingId) {
        if self.standings.patients.remove(instrument_id, id) {
            self.books[usize::from(instrument_id.0) - 1].has_patient = false;
        }
    }

    /// Can a patient order, which is in no book, trade as much at once as it asks for?
    pub(crate) fn has_enough(&self, order: &Order, id: StandingId) -> bool {
        let book = self.book_of(order);
        let limit = Some(order.price());
        if book.trading.phase != Phase::Continuous
            || !self.day.is_open()
            || !book.would_cross(order.side, limit)
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
            |slot| self.reserves.get(slot).shown.quantity(),
        )
    }

    /// So much an order is to trade at once, of what is open of it now.
    pub(crate) fn minimum_of(&self, order: &Order, id: StandingId) -> Quantity {
        let Standing { minimum_quantity, instructions, .. } = &self.standings[id];
        match instructions.all_or_none {
            true => order.leaves(),
            false => minimum_quantity.quantity().min(order.leaves()),
        }
    }

    /// Looks at the next patient order for which something happened, and brings it in if it can
    /// trade enough; or at none.
    pub(crate) fn follow_patients(&mut self, emit: &mut dyn FnMut(Event)) {
        let patients = &mut self.standings.patients;
        if patients.line.is_empty()
            && let Some(instrument_id) = patients.noted.pop_front()
        {
            self.line_up(instrument_id);
        }
        let Some((id, order_id)) = self.standings.patients.next() else { return };
        let Standing { state, slot, .. } = self.standings[id];
        if state != State::ForQuantity || self.standings[id].order_id != order_id {
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

    /// Those of an instrument are to be looked at.
    fn line_up(&mut self, instrument_id: InstrumentId) {
        let mut line = mem::take(&mut self.standings.patients.line);
        let waiting = &mut self.standings.patients.books[usize::from(instrument_id.0) - 1];
        waiting.is_noted = false;
        let ids = self.standings.patients.of(instrument_id).iter();
        line.extend(ids.map(|id| (*id, self.standings[*id].order_id)));
        self.standings.patients.line = line;
    }

    /// Asserts what holds of the patient orders of a book; says how many they are.
    pub(crate) fn check_patients(&self, book: &Book) -> usize {
        let instrument_id = book.instrument().instrument_id;
        let ids = self.standings.patients.of(instrument_id);
        assert_eq!(book.has_patient, !ids.is_empty());
        assert!(ids.len() <= WAITING_MAX);
        assert!(ids.is_sorted_by_key(|id| self.standings[*id].order_id));
        for id in ids {
            let Standing { state, slot, order_type, minimum_quantity, instructions, .. } =
                &self.standings[*id];
            let order = &self.pool[*slot].order;
            assert_eq!((*state, order.instrument_id), (State::ForQuantity, instrument_id));
            let life = order.time_in_force;
            assert!(
                waits_for_quantity(*order_type, life, *minimum_quantity, instructions),
                "{order:?}"
            );
        }
        ids.len()
    }
}
