//! Pegged orders, whose price follows the market: section 36 of the rules.
//!
//! After each command the model computes the price that each of them should have.

use market::{
    CancelReason, InstrumentId, OrderKey, OrderType, Phase, Price, Pricing, RestateReason, Side,
};

use super::{Model, ModelOrder, PRICE_MAX, Place};

impl ModelOrder {
    pub(super) fn is_pegged(&self) -> bool {
        self.instructions.pricing.is_pegged()
    }

    /// Turns the limit of a pegged order into its bound; the order has no price at first. (36.2, 36.5)
    pub(super) fn forget_price(&mut self) {
        if self.is_pegged() {
            self.bound = (self.order_type == OrderType::Limit).then_some(self.price);
            self.order_type = OrderType::Limit;
            self.price = Price(0);
        }
    }
}

impl Model {
    /// The pegged orders of an instrument that wait for no other order, by age.
    pub fn pegged(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        self.by_age(instrument_id, |it| {
            it.is_pegged() && ![Place::Parent, Place::Turn].contains(&it.place)
        })
    }

    /// The price that an order should have now; 0 if none. (36.1, 36.2, 36.6)
    fn price_to_have(&self, order: &ModelOrder) -> Price {
        let id = order.instrument_id;
        if self.market(id).phase != Phase::Continuous || !self.is_open() {
            return Price(0);
        }
        let increment = self.instrument(id).price_increment.0;
        let is_buy = order.side == Side::Buy;
        let [bid, ask] =
            [Side::Buy, Side::Sell].map(|side| self.best_displayed(id, side).map(|it| it.0));
        let followed = match (order.instructions.pricing, is_buy, bid, ask) {
            (Pricing::PrimaryPeg, true, Some(bid), _) => bid,
            (Pricing::PrimaryPeg, false, _, Some(ask)) => ask,
            (Pricing::MarketPeg, true, _, Some(ask)) => ask,
            (Pricing::MarketPeg, false, Some(bid), _) => bid,
            (Pricing::MidpointPeg, _, Some(bid), Some(ask)) => {
                let steps = 2 * increment;
                let below = (bid + ask) / steps * increment;
                if is_buy || (bid + ask).is_multiple_of(steps) { below } else { below + increment }
            }
            _ => return Price(0),
        };
        let highest = PRICE_MAX / increment * increment;
        let moved = i128::from(followed) + i128::from(order.instructions.offset);
        let moved = moved.clamp(increment.into(), highest.into()) as u64;
        let (low, high) = self.market(id).reach();
        let bound = order.bound.map(|it| it.0);
        Price(if is_buy {
            let high = (high / increment * increment).max(increment);
            moved.min(high).min(bound.unwrap_or(u64::MAX))
        } else {
            moved.max(low.div_ceil(increment) * increment).max(bound.unwrap_or(0))
        })
    }

    /// The next order that has to be moved. (36.7)
    pub(super) fn next_to_move(&self) -> Option<OrderKey> {
        self.orders
            .iter()
            .filter(|it| it.is_pegged() && !it.is_done())
            .filter(|it| [Place::Book, Place::Reference].contains(&it.place))
            .filter(|it| self.price_to_have(it) != it.price)
            .min_by_key(|it| it.order_id)
            .map(|it| it.key)
    }

    /// An order gets the price that it should have. (36.7, 36.10)
    pub(super) fn move_order(&mut self, key: OrderKey) {
        let place = self.place_of(key).expect("it was found live");
        let order = self.orders[place];
        let price = self.price_to_have(&order);
        if !self.can_hold_at(&order, price) {
            return self.cancel_all_of(key, CancelReason::Unpaid);
        }
        self.orders.remove(place);
        self.take_price(order, price);
    }

    /// A pegged order was accepted or released. (36.5)
    pub(super) fn begin_pegged(&mut self, mut order: ModelOrder) {
        let price = self.price_to_have(&order);
        // 6.12
        if price == Price(0) || self.comes_in_later(order.instrument_id) {
            order.place = Place::Reference;
            return self.orders.push(order);
        }
        if self.can_hold_at(&order, price) {
            return self.take_price(order, price);
        }
        self.cancel_incoming(&order, CancelReason::Unpaid);
        self.bury(order);
    }

    /// Gives an order another price; it comes in at that price, or waits without one.
    fn take_price(&mut self, mut order: ModelOrder, price: Price) {
        let order_id_before = order.order_id;
        order.order_id = self.new_order_id();
        order.price = price;
        self.report_restated(&order, order_id_before, RestateReason::Repriced);
        self.hold_at(&mut order);
        if price == Price(0) {
            order.place = Place::Reference;
            return self.orders.push(order);
        }
        order.place = Place::Book;
        let after = self.trade_then_rest(order);
        self.note_after_peg(order, after, after.executed > order.executed);
    }

    /// Notes, for its linked orders, the outcome of a pegged order that came in.
    pub(super) fn note_after_peg(
        &mut self,
        order: ModelOrder,
        after: ModelOrder,
        has_executed: bool,
    ) {
        if after.place == Place::Reference {
            // 36.9
            self.take_price(after, Price(0));
        } else if self.place_of(order.key).is_none() {
            self.bury(after);
        }
        let now = self.orders[self.place_of(order.key).expect("it is there, done or not")];
        self.note(&now, has_executed);
    }

    /// Ends an order that is done; it stays in the list until the command is done.
    pub(super) fn bury(&mut self, mut order: ModelOrder) {
        order.place = Place::Book;
        order.canceled += order.leaves().0;
        self.orders.push(order);
        self.note(&order, false);
    }

    /// Takes the prices of pegged orders away when continuous trading of their instrument stops. (36.8)
    pub(super) fn suspend(&mut self, id: InstrumentId) {
        for order in self.pegged(id) {
            if order.place == Place::Book && !order.is_done() {
                let place = self.place_of(order.key).expect("it is live");
                self.orders.remove(place);
                self.take_price(order, Price(0));
            }
        }
    }
}
