//! Minimum-quantity orders and those that slide, as one would explain them: section 37 of the rules, and 14.5.
//!
//! Whether enough can trade one would see by trying, on a copy of everything.

use market::{
    CancelReason, Event, Firm, InstrumentId, Lots, OrderType, Phase, Price, Quantity,
    RestateReason, Restated, Side, TimeInForce, TradeId,
};

use super::{Model, ModelOrder, allowed_price, canceled_at_once, waiting::Place};

/// So many wait in an instrument (37.6).
const WAITING_MAX: usize = 64;

/// So many orders of the other side count (37.4).
const COUNTED_MAX: usize = 128;

/// 37.1
pub(super) fn has_minimum(order: &ModelOrder) -> bool {
    order.may_rest()
        && (order.instructions.all_or_none || order.conditions.minimum_quantity != Lots::ZERO)
}

/// So much is to trade at once. (37.1, 37.5)
fn least(order: &ModelOrder) -> u64 {
    let leaves = order.leaves().0;
    match order.instructions.all_or_none {
        true => leaves,
        false => leaves.min(order.conditions.minimum_quantity.quantity().0),
    }
}

impl Model {
    /// The orders of an instrument that wait until they can trade enough, by age.
    #[must_use]
    pub fn waiting_for_quantity(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        let waits = |it: &&ModelOrder| {
            it.place == Place::Quantity
                && it.instrument_id == instrument_id
                && it.leaves() > Quantity::ZERO
        };
        let mut waiting: Vec<_> = self.orders.iter().filter(waits).copied().collect();
        waiting.sort_by_key(|it| it.order_id);
        waiting
    }

    /// Something happened in an instrument that its minimum-quantity orders wait for. (37.3)
    pub(super) fn stir(&mut self, instrument_id: InstrumentId) {
        let is_waited_for = !self.waiting_for_quantity(instrument_id).is_empty();
        if is_waited_for && !self.stirred.contains(&instrument_id) {
            self.stirred.push(instrument_id);
        }
    }

    /// Looks at the next minimum-quantity order; false if there is none to look at. (37.3)
    pub(super) fn look_at_minimums(&mut self, events: &mut Vec<Event>) -> bool {
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
            (it.key, it.order_id, it.place) == (key, order_id, Place::Quantity)
                && it.leaves() > Quantity::ZERO
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
        report_restated(&order, order_id_before, RestateReason::Ready, events);
        self.come_in(order, events);
        true
    }

    /// An order trades and rests, beside the other side if it slides; as it is afterwards. `None` if it
    /// waits until it can trade enough. (14.5, 37.1)
    pub(super) fn come_in_with_minimum(
        &mut self,
        mut order: ModelOrder,
        events: &mut Vec<Event>,
    ) -> Option<ModelOrder> {
        if has_minimum(&order) {
            if !self.has_enough(&order) {
                // 37.6
                if self.waiting_for_quantity(order.instrument_id).len() == WAITING_MAX {
                    events.push(canceled_at_once(&order, CancelReason::ImmediateOrCancel));
                    self.let_go(&order, events);
                    return Some(order);
                }
                order.place = Place::Quantity;
                self.orders.push(order);
                return None;
            }
            order.conditions.minimum_quantity = Lots::ZERO;
        }
        self.slide(&mut order, events);
        Some(self.trade_then_rest(order, events))
    }

    /// 14.5, 14.6
    fn slide(&mut self, order: &mut ModelOrder, events: &mut Vec<Event>) {
        let asks = order.instructions.slide && order.conditions.post_only && order.may_rest();
        if !asks || self.is_collected(order) {
            return;
        }
        let Some(met) = self.first_to_trade_with(order) else { return };
        let instrument = &self.instruments[usize::from(order.instrument_id.0) - 1];
        let increment = instrument.price_increment.0;
        let met = self.orders[met].price.0;
        let beside = match order.side {
            Side::Buy => Price(met - increment),
            _ => Price(met + increment),
        };
        if !allowed_price(instrument, OrderType::Limit, beside) {
            return;
        }
        order.price = beside;
        report_restated(order, order.order_id, RestateReason::Repriced, events);
        // 14.7
        self.give_back(order, TradeId(0), events);
    }

    /// Would an order trade enough if it came in now? (37.4, 37.7)
    fn has_enough(&mut self, order: &ModelOrder) -> bool {
        let id = order.instrument_id;
        if self.phase(id) != Some(Phase::Continuous) || !self.is_open() {
            return false;
        }
        let mut others = match order.side {
            Side::Buy => self.asks(id),
            _ => self.bids(id),
        };
        others.retain(|it| it.leaves() > Quantity::ZERO);
        let beyond = others.split_off(others.len().min(COUNTED_MAX));
        let there: u64 =
            others.iter().filter(|it| order.accepts(it.price)).map(|it| it.leaves().0).sum();
        if there < least(order) {
            return false;
        }
        let past = std::mem::take(&mut self.past);
        let mut rehearsal = self.clone();
        self.past = past;
        rehearsal.orders.retain(|it| !beyond.iter().any(|beyond| beyond.key == it.key));
        let mut copy = *order;
        copy.place = Place::Book;
        copy.conditions.minimum_quantity = Lots::ZERO;
        copy.instructions.all_or_none = false;
        copy.time_in_force = TimeInForce::ImmediateOrCancel;
        rehearsal.trade_then_rest(copy, &mut Vec::new());
        rehearsal.volume - self.volume >= least(order)
    }
}

/// An order that is in no book is given another order id, or another price.
fn report_restated(
    order: &ModelOrder,
    order_id_before: market::OrderId,
    reason: RestateReason,
    events: &mut Vec<Event>,
) {
    events.push(Event::Restated(Restated {
        key: order.key,
        order_id_before,
        order_id: order.order_id,
        instrument_id: order.instrument_id,
        side: order.side,
        reason,
        price: order.price,
        leaves: order.leaves(),
        shown: Quantity::ZERO,
        display: order.display,
        attribution: Firm::BLANK,
    }));
}
