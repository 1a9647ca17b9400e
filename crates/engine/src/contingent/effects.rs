//! The effects of a command on other orders.
//!
//! They happen after the command, in [`Engine::follow`], in this order: orders linked to those that
//! executed or are done, triggered orders, pegged orders, minimum-quantity orders. All effects of one
//! order come before the next order.
//!
//! Invariant: this ends. An order that enters the book here was waiting before, and no effect adds
//! a new order; [`pegs`](mod@crate::contingent::pegs) shows why pegged orders settle.

use market::{CancelReason, Event, InstrumentId, Price};

use crate::{
    Engine,
    auction::phases,
    contingent::{
        instructions::{Contingent, ContingentId},
        minimum_quantity::CHECKS_MAX,
        pegs::MOVES_MAX,
    },
};

/// Maximum number of triggered orders that enter after a command, and again before each later input while
/// some are left.
pub(crate) const TRIGGERED_MAX: usize = 4;

impl Engine {
    /// Reports trades of an instrument to its stop book: the first price, the last, and possibly
    /// others between them that move in one direction.
    #[inline]
    pub(crate) fn note_trades(&mut self, instrument_id: InstrumentId, first: Price, last: Price) {
        let triggers = &mut self.triggers[instrument_id];
        let (first, last) = (first.0 as u32, last.0 as u32);
        triggers.trade(&mut self.contingents, first, last);
    }

    /// Carries out the effects of the last command on other orders. While triggered or pegged orders
    /// are left over from an earlier command, no others act.
    #[inline]
    pub(crate) fn follow(&mut self, emit: &mut dyn FnMut(Event)) {
        if self.contingents.is_pending() {
            let moves = if self.contingents.pegs.is_behind() { 0 } else { MOVES_MAX };
            let triggered = if self.contingents.has_triggered_left { 0 } else { TRIGGERED_MAX };
            let is_behind = self.contingents.minimum_quantity_orders.is_behind;
            let checks = if is_behind { 0 } else { CHECKS_MAX };
            self.follow_all(triggered, moves, checks, emit);
        }
    }

    /// As [`follow`](Self::follow), with this many triggered orders, moves of pegged orders and
    /// tests of minimum-quantity orders; while an order is half matched, without the latter two.
    #[cold]
    pub(crate) fn follow_all(
        &mut self,
        triggered: usize,
        moves: usize,
        checks: usize,
        emit: &mut dyn FnMut(Event),
    ) {
        let (mut triggered_left, mut moves_left, mut checks_left) = (triggered, moves, checks);
        loop {
            if !self.half_matched.is_empty() {
                (moves_left, checks_left) = (0, 0);
            }
            if let Some(id) = self.contingents.next_noted() {
                self.follow_links(id, emit);
            } else if triggered_left != 0
                && let Some(id) = self.first_after_auctions()
            {
                triggered_left -= 1;
                self.come_in_after_auction(id, emit);
            } else if triggered_left != 0
                && let Some(id) = self.contingents.first_triggered()
            {
                triggered_left -= 1;
                self.contingents.triggered.pop_front();
                self.follow_trigger(id, emit);
            } else if self.compare_references() && moves_left != 0 {
                moves_left -= 1;
                self.follow_reference(emit);
            } else if checks_left != 0 && self.contingents.minimum_quantity_orders.is_pending() {
                checks_left -= 1;
                self.follow_minimum_quantity(emit);
            } else {
                let quantity = &mut self.contingents.minimum_quantity_orders;
                quantity.is_behind = quantity.is_pending();
                let has_triggered = self.contingents.first_triggered().is_some();
                self.contingents.has_triggered_left =
                    has_triggered || !self.auction_line.waiting.is_empty();
                return self.plan_resumption();
            }
        }
    }

    /// Enters a triggered order, or cancels it if its instrument takes no orders.
    fn follow_trigger(&mut self, id: ContingentId, emit: &mut dyn FnMut(Event)) {
        let Contingent { slot, instrument_id, turn, .. } = self.contingents[id];
        let phase = self.books[instrument_id].trading.phase;
        if !self.day.is_open() || phases::is_open(phase).is_err() {
            return self.cancel_all(slot, CancelReason::ImmediateOrCancel, emit);
        }
        let order = self.take(slot);
        self.come_in_triggered(order, id, turn.trigger, emit);
    }
}
