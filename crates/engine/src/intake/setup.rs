//! Venue setup: parts of the day, instruments, sessions.
//!
//! Invariant: instruments and sessions are numbered from 1 in the order of addition.

use market::{
    AddInstrument, AddSession, Event, Instrument, Price, Quantity, SessionAdded, SystemEvent,
};

use crate::{
    Engine,
    book::Book,
    contingent::stop_book::Triggers,
    order::{PRICE_MAX, QUANTITY_MAX},
};

impl Engine {
    #[inline(never)]
    pub(crate) fn advance(&mut self, event: SystemEvent, emit: &mut dyn FnMut(Event)) {
        let was_over = self.day.is_over();
        if self.day.advance(event) {
            emit(Event::System(event));
            if self.day.is_over() && !was_over {
                self.end_day(emit);
            }
            self.touch_all();
        }
    }

    #[inline(never)]
    pub(crate) fn add_instrument(&mut self, add: &AddInstrument, emit: &mut dyn FnMut(Event)) {
        let Some(instrument_id) = self.books.next_id() else { return };
        let increment_allowed =
            Price::ZERO < add.price_increment && add.price_increment <= PRICE_MAX;
        let lot_allowed = Quantity::ZERO < add.round_lot && add.round_lot <= QUANTITY_MAX;
        let symbol_allowed = !add.symbol.is_blank() && self.symbols.find(&add.symbol).is_none();
        if !increment_allowed || !lot_allowed || !symbol_allowed {
            return;
        }
        let instrument = Instrument {
            instrument_id,
            symbol: add.symbol,
            price_increment: add.price_increment,
            round_lot: add.round_lot,
        };
        self.symbols.add(&add.symbol, instrument_id.0);
        self.books.push(Book::new(instrument));
        self.triggers.push(Triggers::new(instrument_id));
        emit(Event::InstrumentAdded(instrument));
    }

    #[inline(never)]
    pub(crate) fn add_session(&mut self, add: &AddSession, emit: &mut dyn FnMut(Event)) {
        let Some(session) = self.sessions.add(add) else { return };
        emit(Event::SessionAdded(SessionAdded {
            session_id: session.session_id(),
            username: add.username,
            firm: add.firm,
            system_hours: self.day.is_open(),
        }));
    }
}
