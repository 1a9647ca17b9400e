//! What orders hold of their accounts' money, and how trades are paid: section 42 of the rules.
//!
//! Whatever happens to an order, it is asked what it needs now, and what it holds beyond that is
//! given back. What an order without a limit will cost is found by trying, on a copy of everything.

use std::collections::BTreeMap;

use market::{
    AssetId, Bucket, Event, Handling, InstrumentId, LedgerKind, Lots, MoneyTerms, OrderType, Price,
    Quantity, Side, TimeInForce, TradeId, Traded,
};

use super::{Model, ModelOrder, Place, continuous::COUNTED_MAX};

impl ModelOrder {
    /// What it needs to hold for what is open of it; one without a limit keeps what it has.
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

    /// What an order costs, or brings, at its limit; without one, what it would trade for now, with
    /// what would then rest of it. (42.4)
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

    /// An accepted order holds what it needs. (42.1)
    pub(super) fn hold(&mut self, order: &mut ModelOrder) {
        let Some(terms) = self.money.paid(order.instrument_id) else { return };
        // Without a limit it holds what it will pay when it comes in. (42.4, 20.11)
        order.held = if order.buys_without_limit() { 0 } else { order.needs(&terms) };
        self.post_held(order, &terms, order.held);
    }

    /// An order to buy that has no limit comes in and holds what it will pay; false if less is
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

    /// Has its owner what an order needs at another price? (36.10)
    pub(super) fn can_hold_at(&self, order: &ModelOrder, price: Price) -> bool {
        let Some(terms) = self.money.paid(order.instrument_id) else { return true };
        let more = ModelOrder { price, ..*order }.needs(&terms) - order.held;
        let account_id = self.money.owner(order.key.session_id);
        more <= 0 || more <= self.balance(account_id, order.gives(&terms)).0
    }

    /// An order holds what it needs at its price, not more and not less. (36.10)
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

    /// An order gives back what it holds and does not need any more. (42.2)
    pub(super) fn give_back(&mut self, order: &mut ModelOrder, trade_id: TradeId) {
        let Some(terms) = self.money.paid(order.instrument_id) else { return };
        let too_much = order.held - order.needs(&terms);
        order.held -= too_much;
        let account_id = self.money.owner(order.key.session_id);
        let ends = [(account_id, Bucket::Reserved), (account_id, Bucket::Available)];
        let (kind, asset_id) = (LedgerKind::Release, order.gives(&terms));
        self.post(kind, asset_id, ends, too_much, order.order_id, trade_id);
    }

    /// An order is no more, or never rests: it gives back all that it holds.
    pub(super) fn let_go(&mut self, order: &ModelOrder) {
        let mut gone = *order;
        gone.canceled += gone.leaves().0;
        self.give_back(&mut gone, TradeId(0));
    }

    /// The last trade is paid for and delivered. (42.3, 46)
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

/// 40.5
fn cost(terms: &MoneyTerms, price: Price, quantity: Quantity) -> i128 {
    i128::try_from(terms.quote_amount(price, quantity)).expect("no product is too large")
}
