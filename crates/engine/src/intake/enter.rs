//! A new order and a replacement, from the command to the order that trades and rests.
//!
//! Invariant: an order that is accepted has passed every check, and holds what it may cost.

use market::{
    Accepted, CancelReason, ClientOrderId, Conditions, EnterOrder, Event, Instructions,
    InstrumentId, Lots, OrderAttributes, OrderKey, OrderType, Price, Quantity, RejectReason,
    Rejected, ReplaceOrder, ReplaceTerms, Replaced, TimeInForce,
};

use crate::{
    Engine,
    auction::phases,
    contingent::minimum_quantity::is_patient,
    intake::check,
    order::{Order, OrderTerms, Waits},
};

/// How an incoming order differs from one that rests.
pub(crate) struct EntryTerms {
    pub(crate) order_type: OrderType,
    pub(crate) minimum_quantity: Lots,
    pub(crate) instructions: Instructions,
}

impl Engine {
    pub(crate) fn enter(&mut self, order: &EnterOrder, emit: &mut dyn FnMut(Event)) {
        if !self.consume(order.key) {
            return;
        }
        self.money.count_asked(order.key.session_id, self.timestamp, &mut self.hash);
        let instrument_id = match self.check(order) {
            Ok(instrument_id) => instrument_id,
            Err(reason) => {
                return self.reject(order.key, reason, order.attributes.client_order_id, emit);
            }
        };
        let order_id = self.next_order_id();
        self.orders_accepted += 1;
        emit(Event::Accepted(Accepted {
            key: order.key,
            order_id,
            instrument_id,
            side: order.side,
            order_type: order.order_type,
            time_in_force: order.time_in_force,
            display: order.display,
            quantity: order.quantity.lots(),
            price: order.price.ticks(),
            attributes: order.attributes,
            conditions: order.conditions,
            instructions: order.instructions,
        }));
        let mut incoming = Order::entered(order, order_id, instrument_id, order.display);
        incoming.is_instructed = order.instructions.without_shown().is_some()
            || is_patient(
                order.order_type,
                order.time_in_force,
                order.conditions.minimum_quantity,
                &order.instructions,
            );
        let phase = self.trading(instrument_id).phase;
        incoming.set_waits(phases::waits(phase, order.order_type, order.time_in_force));
        let terms = EntryTerms {
            order_type: order.order_type,
            minimum_quantity: order.conditions.minimum_quantity,
            instructions: order.instructions,
        };
        if incoming.is_instructed {
            return self.enter_instructed(incoming, &terms, &order.instructions, emit);
        }
        self.reserve(&incoming, &terms, emit);
        self.trade_and_rest(incoming, &terms, emit);
    }

    #[inline(never)]
    pub(crate) fn replace(&mut self, replace: &ReplaceOrder, emit: &mut dyn FnMut(Event)) {
        let key = replace.key;
        let Some(session) = self.sessions.get(key.session_id) else { return };
        let original_key = OrderKey { user_ref_num: replace.original_user_ref_num, ..key };
        let Some(slot) = session.find(original_key) else { return };
        if !session.is_unused(key) {
            return;
        }
        let original = self.pool[slot].order;
        if let Err(reason) = check::entry(self.day, session, original.firm) {
            let name = replace.terms.map_or(ClientOrderId::BLANK, |terms| terms.client_order_id);
            self.consume(key);
            return self.reject(key, reason, name, emit);
        }
        let book = self.book_of(&original);
        let symbol = book.instrument().symbol;
        let taken = self
            .check_blocks(key, original.firm, symbol, original.side, original.group_id)
            .and_then(|()| phases::is_open(book.trading.phase));
        if let Err(reason) = taken {
            let name = replace.terms.map_or(ClientOrderId::BLANK, |terms| terms.client_order_id);
            self.consume(key);
            return self.reject(key, reason, name, emit);
        }
        let phase = book.trading.phase;
        let named = replace.terms.map(|terms| keep_auction(&original, terms));
        let accepted = named.and_then(|terms| {
            let instructions = self.instructions_of_replacement(slot, &terms)?;
            let type_in_book = check::type_in_book(terms.order_type, &instructions);
            let waits = phases::waits(phase, type_in_book, terms.time_in_force);
            let id = original.instrument_id;
            let book = self.book_of(&original);
            let acceptable =
                check::replacement(book, &original, &terms, &instructions, self.timestamp)
                    && self.check_bounded(id, original.side, type_in_book, waits).is_ok();
            acceptable.then_some((terms, instructions))
        });
        let Some((terms, instructions)) = accepted else {
            return self.cancel_all(slot, CancelReason::User, emit);
        };
        self.money.count_asked(key.session_id, self.timestamp, &mut self.hash);
        if let Err(reason) = self.check_replacement(&original, &terms, &instructions) {
            self.consume(key);
            return self.reject(key, reason, terms.client_order_id, emit);
        }
        let book = self.book_of(&original);

        let minimum_quantity = terms.conditions.minimum_quantity.unwrap_or_default();
        let (order_type, life) = (terms.order_type, terms.time_in_force);
        let is_patient = is_patient(order_type, life, minimum_quantity, &instructions);
        let rests_at_once = terms.order_type == OrderType::Limit
            && terms.time_in_force.may_rest()
            && (phase.collects() || !book.would_cross(original.side, Some(terms.price)))
            && !instructions.pricing.is_triggered()
            && !is_patient;
        let was_booked = self.is_booked(slot);
        self.consume(key);
        let standing_id = self.instruct(slot, is_patient, &instructions);
        self.take(slot);
        let mut replacement = Order::new(OrderTerms {
            order_id: self.next_order_id(),
            key,
            price: terms.price,
            quantity: terms.quantity,
            executed: original.executed(),
            prevented: original.prevented(),
            instrument_id: original.instrument_id,
            group_id: original.group_id,
            firm: original.firm,
            side: terms.side.unwrap_or(original.side),
            display: terms.display,
            capacity: original.capacity,
            customer_type: original.customer_type,
            conditions: terms.conditions.apply(original.conditions()),
            time_in_force: terms.time_in_force,
            is_instructed: standing_id.is_some(),
        });
        let type_in_book = check::type_in_book(terms.order_type, &instructions);
        replacement.set_waits(phases::waits(phase, type_in_book, terms.time_in_force));
        if instructions.pricing.is_pegged() {
            replacement.set_price(Price::ZERO);
        }
        let in_place = was_booked && rests_at_once && self.shown_alike(&original, &replacement);
        let entry_terms =
            EntryTerms { order_type: terms.order_type, minimum_quantity, instructions };
        if let Some(id) = standing_id {
            self.rename(id, &replacement, &entry_terms, terms.price);
        }
        emit(Event::Replaced(Replaced {
            key,
            original_user_ref_num: replace.original_user_ref_num,
            original_order_id: original.order_id,
            order_id: replacement.order_id,
            instrument_id: replacement.instrument_id,
            side: replacement.side,
            order_type: terms.order_type,
            time_in_force: terms.time_in_force,
            display: replacement.display,
            in_place,
            original_displayed: was_booked && original.is_displayed(),
            leaves: replacement.leaves().lots(),
            price: terms.price.ticks(),
            client_order_id: terms.client_order_id,
            firm: replacement.firm,
            capacity: replacement.capacity,
            conditions: Conditions { minimum_quantity, ..replacement.conditions() },
            instructions,
        }));
        self.release(&original, original.leaves(), Quantity::ZERO, emit);
        self.reserve(&replacement, &entry_terms, emit);
        match standing_id {
            None if in_place => {
                self.add(&mut replacement, &instructions);
            }
            None => {
                self.trade_and_rest(replacement, &entry_terms, emit);
            }
            Some(id) if in_place => self.rest_instructed(replacement, id),
            Some(id) => self.begin(replacement, id, emit),
        }
    }

    /// All checks of a new order; what it trades, if it passes them.
    #[inline]
    pub(crate) fn check(&self, order: &EnterOrder) -> Result<InstrumentId, RejectReason> {
        let session = self.sessions.owner(order.key);
        check::entry(self.day, session, order.attributes.firm)?;
        let number = self.symbols.find(&order.symbol).ok_or(RejectReason::InvalidSymbol)?;
        let book = &self.books[usize::from(number) - 1];
        let OrderAttributes { firm, group_id, .. } = order.attributes;
        self.check_blocks(order.key, firm, order.symbol, order.side, group_id)?;
        let trading = &book.trading;
        phases::is_open(trading.phase)?;
        check::terms(book, order.order_type, order.quantity, order.price)?;
        let instructions = &order.instructions;
        check::display(order.display, instructions)?;
        let type_in_book = check::type_in_book(order.order_type, instructions);
        check::minimum(
            order.conditions.minimum_quantity,
            order.order_type,
            order.time_in_force,
            instructions.pricing.is_pegged(),
            order.quantity,
        )?;
        check::reserve(order.display, order.quantity, instructions)?;
        check::peg(book, order.order_type, order.time_in_force, instructions)?;
        let conditions = &order.conditions;
        check::offered(order.order_type, order.time_in_force, conditions, instructions)?;
        check::expiry(order.time_in_force, instructions.expires_s, self.timestamp)?;
        if instructions.is_some() {
            check::trigger(book, order.side, order.order_type, instructions)?;
            self.check_links(order, InstrumentId(number))?;
        }
        if !trading.is_plain || order.time_in_force.is_for_auction() {
            let minimum_quantity = order.conditions.minimum_quantity;
            let EnterOrder { order_type, time_in_force, side, quantity, price, .. } = *order;
            let phase = trading.phase;
            phases::takes(phase, type_in_book, time_in_force, minimum_quantity, instructions)?;
            let waits = phases::waits(phase, type_in_book, time_in_force);
            self.check_bounded(InstrumentId(number), side, type_in_book, waits)?;
            trading.limits(side, order_type, quantity, price)?;
        }
        if session.is_full() {
            return Err(RejectReason::TooManyOrders);
        }
        let instrument_id = InstrumentId(number);
        self.check_money(order, instrument_id)?;
        Ok(instrument_id)
    }

    /// Uses a number up; false, and nothing is done, if the session is unknown or the number is
    /// not above the last.
    #[inline]
    pub(crate) fn consume(&mut self, key: OrderKey) -> bool {
        let session = self.sessions.get_mut(key.session_id);
        session.is_some_and(|session| session.consume(key, &mut self.hash))
    }

    /// An order, or another request, is rejected.
    pub(crate) fn reject(
        &self,
        key: OrderKey,
        reason: RejectReason,
        client_order_id: ClientOrderId,
        emit: &mut dyn FnMut(Event),
    ) {
        emit(Event::Rejected(Rejected { key, reason, client_order_id, cause: self.cause }));
    }
}

/// An order for one auction only stays one, unless the replace names another life than the day.
pub(crate) fn keep_auction(original: &Order, terms: ReplaceTerms) -> ReplaceTerms {
    let time_in_force = match (terms.time_in_force, original.waits()) {
        (TimeInForce::Day, Waits::Open) => TimeInForce::AtTheOpen,
        (TimeInForce::Day, Waits::Close) => TimeInForce::AtTheClose,
        (TimeInForce::Day, Waits::Next) => TimeInForce::GoodForAuction,
        (named, _) => named,
    };
    ReplaceTerms { time_in_force, ..terms }
}
