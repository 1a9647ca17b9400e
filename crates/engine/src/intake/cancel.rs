//! Cancels and modifies: of one order or of many, in full or in part.
//!
//! Invariant: an order that loses lots releases their reservation at once.

use market::{
    CancelOnDisconnect, CancelOrder, CancelReason, Canceled, Event, InstrumentId, MassCancel,
    MassCanceled, Modified, ModifyOrder, OrderKey, OrderWithdrawn, Outcome, OwnMovement, Quantity,
    Shown,
};

use crate::{
    Emit, Engine,
    book::pool::Slot,
    intake::{cancel_line::Selection, check, pending_cancels::Whose},
    money::Claim,
    order::Order,
};

impl Engine {
    #[inline(always)]
    pub(crate) fn cancel(&mut self, cancel: &CancelOrder, emit: &mut (impl Emit + ?Sized)) {
        let Some(slot) = self.find(cancel.key) else { return };
        // Read once: nearly always the order is then removed.
        let order = self.pool[slot].order;
        let (quantity, leaves) = (order.excess(cancel.quantity), order.leaves());
        if quantity.is_zero() {
            return;
        }
        if self.books[order.instrument_id].trading.is_uncrossing && self.is_in_auction(slot) {
            let emit = &mut |event| emit.emit(event);
            self.answer_in_auction(slot, quantity == leaves, emit);
        } else if quantity == leaves {
            self.cancel_whole(slot, &order, CancelReason::User, true, emit);
        } else {
            self.cancel_some(slot, quantity, CancelReason::User, emit);
        }
        self.follow(&mut |event| emit.emit(event));
    }

    #[inline(never)]
    pub(crate) fn modify(&mut self, modify: &ModifyOrder, emit: &mut dyn FnMut(Event)) {
        let Some(slot) = self.find(modify.key) else { return };
        let before = self.pool[slot].order;
        let quantity = before.excess(modify.quantity);
        let changes = modify.side != before.side() || !quantity.is_zero();
        let may_become = check::side_change(before.side(), modify.side)
            && (modify.side == before.side() || self.money.may_become(&before, modify.side));
        if !changes || !may_become {
            return;
        }
        if self.is_in_auction(slot) {
            return self.answer_in_auction(slot, quantity == before.leaves(), emit);
        }
        let mut after = before;
        after.set_side(modify.side);
        after.reduce(quantity);
        let shown = self.change(slot, after);
        emit(Event::Modified(Modified {
            key: after.key,
            order_id: after.order_id(),
            instrument_id: after.instrument_id,
            side: after.side(),
            quantity,
            leaves: after.leaves(),
            shown,
        }));
        self.release(&after, before.leaves(), after.leaves(), emit);
    }

    #[inline(never)]
    pub(crate) fn mass_cancel(&mut self, mass: &MassCancel, emit: &mut dyn FnMut(Event)) {
        if !self.consume(mass.key) {
            return;
        }
        emit(Event::MassCanceled(MassCanceled {
            key: mass.key,
            firm: mass.firm,
            symbol: mass.symbol,
            side: mass.side,
            group_id: mass.group_id,
        }));
        let MassCancel { key, symbol, side, group_id, firm } = *mass;
        let instrument_id = self.symbols.find(&symbol).map(InstrumentId);
        if instrument_id.is_none() && !symbol.is_blank() {
            return;
        }
        let firm = Some(self.sessions.owner(key).resolve(firm));
        let selection = Selection { firm, instrument_id, side, group_id, of_the_day: false };
        self.cancel_selected(Whose::own(key.session_id), selection, CancelReason::User, emit);
    }

    #[inline(never)]
    pub(crate) fn cancel_on_disconnect(
        &mut self,
        cancel: &CancelOnDisconnect,
        emit: &mut dyn FnMut(Event),
    ) {
        let session_id = cancel.session_id;
        if self.sessions.get(session_id).is_some() {
            let whose = Whose::own(session_id);
            self.cancel_selected(whose, Selection::ALL, CancelReason::Supervisory, emit);
        }
    }

    /// The live order with this key.
    #[inline]
    pub(crate) fn find(&self, key: OrderKey) -> Option<Slot> {
        self.sessions.get(key.session_id)?.find(key)
    }

    /// Cancels the open lots of an order that does not rest.
    pub(crate) fn cancel_at_once(
        &mut self,
        order: &Order,
        reason: CancelReason,
        emit: &mut (impl Emit + ?Sized),
    ) {
        emit.emit(Event::Canceled(Canceled {
            key: order.key,
            order_id: order.order_id(),
            instrument_id: order.instrument_id,
            quantity: order.leaves(),
            leaves: Quantity::ZERO,
            booked: false,
            shown: Shown::NONE,
            reason,
            cause: self.cause,
        }));
        self.release(order, order.leaves(), Quantity::ZERO, emit);
    }

    /// Cancels all open lots of a live order.
    #[inline(never)]
    pub(crate) fn cancel_all(
        &mut self,
        slot: Slot,
        reason: CancelReason,
        emit: &mut dyn FnMut(Event),
    ) {
        let order = self.pool[slot].order;
        self.cancel_whole(slot, &order, reason, false, emit);
    }

    /// As [`cancel_all`](Self::cancel_all). The cancel by its owner's command is emitted as one line.
    #[inline(always)]
    fn cancel_whole(
        &mut self,
        slot: Slot,
        order: &Order,
        reason: CancelReason,
        is_own_command: bool,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let booked = self.is_booked_as(slot, order);
        let before = if booked { self.shown_of(slot, order) } else { Quantity::ZERO };
        self.remove(slot, order);
        let (key, order_id, instrument_id) = (order.key, order.order_id(), order.instrument_id);
        let quantity = order.leaves();
        let released = self.money.released(&Claim::from(order), quantity, Quantity::ZERO);
        let own = released.map_or(Some(OwnMovement::NONE), |shift| shift.own());
        if is_own_command
            && booked
            && !order.is_iceberg()
            && let Some(released) = own
        {
            return emit.emit_at_once(Outcome::Withdrawn(OrderWithdrawn {
                key,
                order_id,
                instrument_id,
                quantity: quantity.lots(),
                is_shown: !before.is_zero(),
                released,
            }));
        }
        let shown = Shown { before, after: Quantity::ZERO };
        emit.emit(Event::Canceled(Canceled {
            key,
            order_id,
            instrument_id,
            quantity,
            leaves: Quantity::ZERO,
            booked,
            shown,
            reason,
            cause: self.cause,
        }));
        if let Some(shift) = released {
            emit.emit(Event::Ledger(shift.entry(order_id)));
        }
    }

    /// Cancels some open lots of a live order, or all.
    #[inline(never)]
    pub(crate) fn cancel_some(
        &mut self,
        slot: Slot,
        quantity: Quantity,
        reason: CancelReason,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let booked = self.is_booked(slot);
        let before = &self.pool[slot].order;
        let mut order = *before;
        order.reduce(quantity);
        let shown = self.change(slot, order);
        emit.emit(Event::Canceled(Canceled {
            key: order.key,
            order_id: order.order_id(),
            instrument_id: order.instrument_id,
            quantity,
            leaves: order.leaves(),
            booked,
            shown,
            reason,
            cause: self.cause,
        }));
        let leaves = order.leaves();
        self.release(&order, Quantity(leaves.0 + quantity.0), leaves, emit);
    }
}
