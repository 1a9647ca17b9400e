//! The money that orders hold, and the payment of trades: section 42 of the rules.
//!
//! After each change of an order the model computes the amount that the order needs, and gives the
//! excess back. It finds the cost of an order without a limit by trying it, on a copy of its whole state.

use std::collections::BTreeMap;

use market::{
    AssetId, Bucket, Event, Handling, InstrumentId, LedgerKind, Lots, MoneyTerms, OrderType, Price,
    Quantity, Side, TimeInForce, TradeId, Traded,
};

use super::{Model, ModelOrder, Place, continuous::COUNTED_MAX};

impl ModelOrder {
    /// The amount that it needs to hold for its open lots; a buy order without a limit keeps its amount.
    fn needs(&self, terms: &MoneyTerms) -> i128 {
        match (self.side, self.order_type) {
            _ if self.is_done() => 0,
            (Side::Buy, OrderType::Limit) => cost(terms, self.price, self.leaves()),
            (Side::Buy, _) => self.held,
            _ => i128::from(self.leaves().0) * i128::from(terms.base_units),
        }
    }

    fn buys_without_limit(&self) -> bool {
        self.side == Side::Buy && self.order_type != OrderType::Limit
    }

    /// The asset that it pays with or delivers.
    fn gives(&self, terms: &MoneyTerms) -> AssetId {
        if self.side == Side::Buy { terms.quote } else { terms.base }
    }
}

impl Model {
    /// Are orders in an instrument paid for? (40.2)
    pub(super) fn is_paid(&self, instrument_id: InstrumentId) -> bool {
        self.money.paid(instrument_id).is_some()
    }

    /// The cost of an order, or its proceeds, at its limit. Without a limit: the cost of its trades if it
    /// came in now, and of the remainder that would then rest. (42.4)
    pub(super) fn cost_of(&self, order: &ModelOrder, terms: &MoneyTerms) -> i128 {
        if order.order_type == OrderType::Limit {
            return cost(terms, order.price, order.leaves());
        }
        if order.instructions.waits_outside() {
            return 0;
        }
        let mut rehearsal = self.rehearsal();
        rehearsal.money.terms.clear();
        // 42.4
        let beyond = self.beyond(order, COUNTED_MAX);
        let market = self.market(order.instrument_id);
        let is_reached = |it: &ModelOrder| market.is_within_bands(it.price);
        let is_more = !self.is_collected(order)
            && self.orders.iter().any(|it| beyond.contains(&it.key) && is_reached(it));
        if is_more {
            rehearsal.orders.retain(|it| !beyond.contains(&it.key));
        }
        let order_id = rehearsal.new_order_id();
        let mut copy = ModelOrder { place: Place::Book, order_id, ..*order };
        copy.conditions.minimum_quantity = Lots::ZERO;
        copy.conditions.post_only = false;
        copy.instructions.handling = Handling::new(false, copy.instructions.handling.slides());
        if copy.time_in_force == TimeInForce::FillOrKill {
            copy.time_in_force = TimeInForce::ImmediateOrCancel;
        }
        let after = rehearsal.trade_then_rest(copy);
        if is_more && !after.is_done() {
            return 1 << 126;
        }
        let mut traded: BTreeMap<Price, u64> = BTreeMap::new();
        let mut rests = 0;
        for event in &rehearsal.events {
            match event {
                Event::Traded(it) => *traded.entry(it.price).or_default() += it.quantity.0,
                Event::Booked(it) => rests += cost(terms, it.price, it.leaves),
                _ => {}
            }
        }
        let costs = traded.into_iter().map(|(price, lots)| cost(terms, price, Quantity(lots)));
        costs.sum::<i128>() + rests
    }

    /// Reserves the amount that an accepted order needs. (42.1)
    pub(super) fn hold(&mut self, order: &mut ModelOrder) {
        let Some(terms) = self.money.paid(order.instrument_id) else { return };
        // A buy order without a limit holds its cost only once it comes in. (42.4, 20.11)
        order.held = if order.buys_without_limit() { 0 } else { order.needs(&terms) };
        self.post_held(order, &terms, order.held);
    }

    /// Reserves the cost of a buy order without a limit as it comes in; false if less is
    /// available. (42.4, 20.11)
    pub(super) fn hold_without_limit(&mut self, order: &mut ModelOrder) -> bool {
        let Some(terms) = self.money.paid(order.instrument_id) else { return true };
        if !order.buys_without_limit() {
            return true;
        }
        let account_id = self.money.owner(order.key.session_id);
        let cost = self.cost_of(order, &terms);
        if self.balance(account_id, terms.quote).0 < cost {
            return false;
        }
        order.held = cost;
        self.post_held(order, &terms, cost);
        true
    }

    /// Has the owner of an order the amount that the order needs at another price? (36.10)
    pub(super) fn can_hold_at(&self, order: &ModelOrder, price: Price) -> bool {
        let Some(terms) = self.money.paid(order.instrument_id) else { return true };
        let more = ModelOrder { price, ..*order }.needs(&terms) - order.held;
        let account_id = self.money.owner(order.key.session_id);
        more <= 0 || more <= self.balance(account_id, order.gives(&terms)).0
    }

    /// Makes an order hold exactly the amount that it needs at its price. (36.10)
    pub(super) fn hold_at(&mut self, order: &mut ModelOrder) {
        let Some(terms) = self.money.paid(order.instrument_id) else { return };
        let more = order.needs(&terms) - order.held;
        if more <= 0 {
            return self.give_back(order, TradeId(0));
        }
        order.held += more;
        self.post_held(order, &terms, more);
    }

    fn post_held(&mut self, order: &ModelOrder, terms: &MoneyTerms, amount: i128) {
        let account_id = self.money.owner(order.key.session_id);
        let ends = [(account_id, Bucket::Available), (account_id, Bucket::Reserved)];
        let (kind, asset_id) = (LedgerKind::Reserve, order.gives(terms));
        self.post(kind, asset_id, ends, amount, order.order_id, TradeId(0));
    }

    /// Gives back the amount that an order holds and no longer needs. (42.2)
    pub(super) fn give_back(&mut self, order: &mut ModelOrder, trade_id: TradeId) {
        let Some(terms) = self.money.paid(order.instrument_id) else { return };
        let too_much = order.held - order.needs(&terms);
        order.held -= too_much;
        let account_id = self.money.owner(order.key.session_id);
        let ends = [(account_id, Bucket::Reserved), (account_id, Bucket::Available)];
        let (kind, asset_id) = (LedgerKind::Release, order.gives(&terms));
        self.post(kind, asset_id, ends, too_much, order.order_id, trade_id);
    }

    /// Gives back the whole amount of an order that has ended or never rests.
    pub(super) fn let_go(&mut self, order: &ModelOrder) {
        let mut gone = *order;
        gone.canceled += gone.leaves().0;
        self.give_back(&mut gone, TradeId(0));
    }

    /// Settles the last trade: payment and delivery. (42.3, 46)
    pub(super) fn settle(&mut self, place: usize, taker: &mut ModelOrder, traded: &Traded) {
        let Some(settlement) = self.past.last().expect("it was kept").settlement else { return };
        let is_bought = taker.side == Side::Buy;
        let [payment, delivery, taker_fee, rebate, maker_fee] =
            settlement.movements(is_bought, traded.price, traded.quantity);
        let trade_id = traded.trade_id;
        let mut maker = self.orders[place];
        let (buyer, seller) =
            if is_bought { (&mut *taker, &mut maker) } else { (&mut maker, &mut *taker) };
        for (order, it) in [(buyer, payment), (seller, delivery)] {
            order.held -= it.amount;
            let ends = [(it.from, Bucket::Reserved), (it.to, Bucket::Available)];
            self.post(it.kind, it.asset_id, ends, it.amount, order.order_id, trade_id);
            if order.side == Side::Buy && order.order_type == OrderType::Limit {
                self.give_back(order, trade_id);
            }
        }
        self.orders[place] = maker;
        for (order, it) in [(&*taker, taker_fee), (&maker, rebate), (&maker, maker_fee)] {
            let ends = [(it.from, Bucket::Available), (it.to, Bucket::Available)];
            self.post(it.kind, it.asset_id, ends, it.amount, order.order_id, trade_id);
        }
    }
}

/// The units of the quote asset that lots cost at a price. (40.5)
fn cost(terms: &MoneyTerms, price: Price, quantity: Quantity) -> i128 {
    i128::try_from(terms.quote_amount(price, quantity)).expect("no product is too large")
}
