//! Minimum-quantity and sliding orders, as one would explain them: section 37 of the rules, and 14.5.
//!
//! The model tests on a copy of its whole state whether enough lots can trade.

use market::{
    CancelReason, InstrumentId, Lots, OrderKey, Phase, Price, RestateReason, Side, TradeId,
};

use super::{Model, ModelOrder, Place, is_price};

/// The most waiting orders of an instrument (37.6).
const WAITING_MAX: usize = 64;

/// The most orders of the other side that count (37.4).
const COUNTED_MAX: usize = 64;

impl ModelOrder {
    /// Can it wait until enough lots trade? (37.1)
    pub(super) fn has_minimum(&self) -> bool {
        self.may_rest() && self.asks_for_quantity()
    }

    /// Lots that must trade at once. (37.1, 37.5)
    fn least(&self) -> u64 {
        let leaves = self.leaves().0;
        match self.instructions.handling.is_all_or_none() {
            true => leaves,
            false => leaves.min(self.conditions.minimum_quantity.quantity().0),
        }
    }
}

impl Model {
    /// The orders of an instrument that wait until they can trade enough, by age.
    pub fn waiting_for_quantity(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        self.by_age(instrument_id, |it| it.place == Place::Quantity && !it.is_done())
    }

    /// Notes a change in an instrument that its minimum-quantity orders wait for. (37.3)
    pub(super) fn stir(&mut self, instrument_id: InstrumentId) {
        let is_waited_for = !self.waiting_for_quantity(instrument_id).is_empty();
        if is_waited_for && !self.stirred.contains(&instrument_id) {
            self.stirred.push(instrument_id);
        }
    }

    /// Examines the next minimum-quantity order; false if there is none to examine. (37.3)
    pub(super) fn look_at_minimums(&mut self) -> bool {
        if self.minimum_line.is_empty() {
            if self.stirred.is_empty() {
                return false;
            }
            let instrument_id = self.stirred.remove(0);
            let waiting = self.waiting_for_quantity(instrument_id).into_iter();
            self.minimum_line = waiting.map(|it| (it.key, it.order_id)).collect();
        }
        if self.minimum_line.is_empty() {
            return true;
        }
        let (key, order_id) = self.minimum_line.remove(0);
        let is_meant = |it: &ModelOrder| {
            (it.key, it.order_id, it.place) == (key, order_id, Place::Quantity) && !it.is_done()
        };
        let Some(place) = self.orders.iter().position(is_meant) else { return true };
        let mut order = self.orders[place];
        if !self.has_enough(&order) {
            return true;
        }
        // 37.2
        self.orders.remove(place);
        let order_id_before = order.order_id;
        order.order_id = self.new_order_id();
        order.place = Place::Book;
        self.report_restated(&order, order_id_before, RestateReason::Ready);
        self.come_in(order);
        true
    }

    /// Trades an order and lets it rest, next to the other side if it slides; returns the order as it is
    /// afterwards. `None` if it waits until it can trade enough. (14.5, 37.1)
    pub(super) fn come_in_with_minimum(&mut self, mut order: ModelOrder) -> Option<ModelOrder> {
        if order.has_minimum() {
            if !self.has_enough(&order) {
                // 37.6
                if self.waiting_for_quantity(order.instrument_id).len() == WAITING_MAX {
                    self.cancel_incoming(&order, CancelReason::ImmediateOrCancel);
                    return Some(order);
                }
                order.place = Place::Quantity;
                self.orders.push(order);
                return None;
            }
            order.conditions.minimum_quantity = Lots::ZERO;
        }
        self.slide(&mut order);
        Some(self.trade_then_rest(order))
    }

    /// Moves an order that would trade, and may slide, to the price next to the other side. (14.5, 14.6)
    fn slide(&mut self, order: &mut ModelOrder) {
        let asks =
            order.instructions.handling.slides() && order.conditions.post_only && order.may_rest();
        if !asks || self.is_collected(order) {
            return;
        }
        let Some(met) = self.first_to_trade_with(order) else { return };
        let instrument = self.instrument(order.instrument_id);
        let increment = instrument.price_increment.0;
        let met = self.orders[met].price.0;
        let beside = match order.side {
            Side::Buy => Price(met - increment),
            _ => Price(met + increment),
        };
        if !is_price(instrument, beside) {
            return;
        }
        order.price = beside;
        self.report_restated(order, order.order_id, RestateReason::Repriced);
        // 14.7
        self.give_back(order, TradeId(0));
    }

    /// Would an order trade enough if it came in now? (37.4, 37.7)
    fn has_enough(&self, order: &ModelOrder) -> bool {
        let id = order.instrument_id;
        if self.phase(id) != Some(Phase::Continuous) || !self.is_open() {
            return false;
        }
        let mut others = match order.side {
            Side::Buy => self.asks(id),
            _ => self.bids(id),
        };
        let beyond = others.split_off(others.len().min(COUNTED_MAX));
        let there = others.iter().filter(|it| order.accepts(it.price)).map(|it| it.leaves().0);
        let beyond: Vec<OrderKey> = beyond.iter().map(|it| it.key).collect();
        there.sum::<u64>() >= order.least() && self.would_trade(order, &beyond) >= order.least()
    }
}
