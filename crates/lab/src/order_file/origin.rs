//! The expected results of an order file, computed simply: one book of sorted maps, one map of
//! balances, row by row. It supports limit orders and cancels, and shares no code with the engine.
//!
//! Invariant: the rules are those of the published results of such files. The reservation of a buyer and
//! the cost of each trade are rounded down to the smallest unit of the quote asset. A buyer that trades
//! below its limit gets the difference back, rounded down again, trade by trade; so reserved fractions
//! that are never spent stay reserved for ever.

use std::collections::{BTreeMap, VecDeque};

use market::{OrderType, Price, Quantity, Side, Text, TimeInForce};

use super::{
    balances::OpeningBalance,
    instruments::{InstrumentTerms, Instruments},
    row::{Place, Request, Row},
};

/// A trade, in ticks and lots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginTrade {
    /// The incoming order, as its participant named it.
    pub taker: u32,
    pub maker: u32,
    /// Ticks.
    pub price: u64,
    /// Lots.
    pub quantity: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginOrder {
    pub order_id: u32,
    pub participant: Text<6>,
    pub side: Side,
    /// Ticks.
    pub price: u64,
    /// Lots.
    pub leaves: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginCounts {
    pub accepted: u64,
    /// New orders that were not, since their owner had too little.
    pub rejected: u64,
    pub canceled: u64,
    pub not_found: u64,
    pub trades: u64,
    pub self_trades: u64,
}

/// What a participant has of an asset, in its smallest units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginBalance {
    pub available: u128,
    pub reserved: u128,
}

/// One instrument, its book, and what everybody has.
#[derive(Debug)]
pub struct OriginReplay {
    terms: InstrumentTerms,
    /// False if nobody's balance is asked for.
    has_money: bool,
    bids: BTreeMap<u64, VecDeque<OriginOrder>>,
    asks: BTreeMap<u64, VecDeque<OriginOrder>>,
    /// By participant and asset.
    balances: BTreeMap<(Text<6>, bool), OriginBalance>,
    resting: BTreeMap<(Text<6>, u32), (Side, u64)>,
    counts: OriginCounts,
}

const BASE: bool = true;
const QUOTE: bool = false;

impl OriginReplay {
    /// Before the first row. Without balances everybody has enough of everything.
    pub fn new(instruments: &Instruments, balances: Option<&[OpeningBalance]>) -> Self {
        let terms = instruments.only().expect("it knows one instrument").clone();
        let opening = balances.unwrap_or_default().iter().map(|opening| {
            let key = (opening.participant, opening.asset == terms.base.name);
            let available = u128::from(opening.available);
            (key, OriginBalance { available, reserved: 0 })
        });
        Self {
            has_money: balances.is_some(),
            balances: opening.collect(),
            bids: BTreeMap::new(),
            asks: BTreeMap::new(),
            resting: BTreeMap::new(),
            counts: OriginCounts::default(),
            terms,
        }
    }

    /// Does what a row asks for; each trade is handed out.
    ///
    /// # Panics
    /// It is something else than a limit order for the day, or a cancel of all of one.
    pub fn apply(&mut self, row: &Row, each: &mut impl FnMut(OriginTrade)) {
        match &row.request {
            Request::Place(place) => self.place(row.participant, place, each),
            Request::Cancel { order_id, quantity } if quantity.is_zero() => {
                self.cancel(row.participant, *order_id);
            }
            other => panic!("the reference does not support {other:?}"),
        }
    }

    pub fn counts(&self) -> OriginCounts {
        self.counts
    }

    /// The resting orders: bids, best first and oldest first, then asks.
    pub fn book(&self) -> impl Iterator<Item = &OriginOrder> {
        self.bids.values().rev().chain(self.asks.values()).flatten()
    }

    /// How many prices there are on either side.
    pub fn levels(&self) -> (usize, usize) {
        (self.bids.len(), self.asks.len())
    }

    /// What everybody has: participant, true for the base asset, and the balance.
    pub fn balances(&self) -> impl Iterator<Item = (Text<6>, bool, OriginBalance)> {
        self.balances
            .iter()
            .map(|((participant, is_base), balance)| (*participant, *is_base, *balance))
    }

    fn place(&mut self, participant: Text<6>, place: &Place, each: &mut impl FnMut(OriginTrade)) {
        let is_plain = place.order_type == OrderType::Limit
            && place.time_in_force == TimeInForce::Day
            && matches!(place.side, Side::Buy | Side::Sell);
        assert!(is_plain, "the reference does not support {place:?}");
        let mut order = OriginOrder {
            order_id: place.order_id,
            participant,
            side: place.side,
            price: place.price.0,
            leaves: place.quantity.0,
        };
        if !self.reserve(&order) {
            self.counts.rejected += 1;
            return;
        }
        self.counts.accepted += 1;
        while order.leaves > 0
            && let Some(maker) = self.best_opposite(&order)
        {
            let quantity = order.leaves.min(maker.leaves);
            self.trade(&order, &maker, quantity);
            order.leaves -= quantity;
            self.take_from_best(&maker, quantity);
            self.counts.trades += 1;
            self.counts.self_trades += u64::from(maker.participant == participant);
            let (taker, maker, price) = (order.order_id, maker.order_id, maker.price);
            each(OriginTrade { taker, maker, price, quantity });
        }
        if order.leaves > 0 {
            let side = if order.side.is_buy() { &mut self.bids } else { &mut self.asks };
            side.entry(order.price).or_default().push_back(order);
            self.resting.insert((participant, order.order_id), (order.side, order.price));
        }
    }

    fn cancel(&mut self, participant: Text<6>, order_id: u32) {
        let Some((side, price)) = self.resting.remove(&(participant, order_id)) else {
            self.counts.not_found += 1;
            return;
        };
        self.counts.canceled += 1;
        let levels = if side.is_buy() { &mut self.bids } else { &mut self.asks };
        let level = levels.get_mut(&price).expect("a resting order has a level");
        let place = level
            .iter()
            .position(|it| it.order_id == order_id && it.participant == participant)
            .expect("it stands in its level");
        let order = level.remove(place).expect("it was just found");
        if level.is_empty() {
            levels.remove(&price);
        }
        let held = self.held(&order);
        let balance = self.balance(participant, !side.is_buy());
        balance.reserved -= held;
        balance.available += held;
    }

    /// What is held for an order that has not traded yet, or would be if it were new.
    fn held(&self, order: &OriginOrder) -> u128 {
        if order.side.is_buy() {
            self.cost(order.price, order.leaves)
        } else {
            Quantity(order.leaves).units(self.terms.base_units_per_lot())
        }
    }

    /// What so many lots cost, rounded down.
    fn cost(&self, price: u64, quantity: u64) -> u128 {
        let (numerator, denominator) = self.terms.quote_units_per_tick_lot();
        (Price(price) * Quantity(quantity)).units(numerator, denominator)
    }

    fn balance(&mut self, participant: Text<6>, is_base: bool) -> &mut OriginBalance {
        self.balances.entry((participant, is_base)).or_default()
    }

    fn reserve(&mut self, order: &OriginOrder) -> bool {
        let held = self.held(order);
        let has_money = self.has_money;
        let balance = self.balance(order.participant, !order.side.is_buy());
        if !has_money {
            balance.available += held;
        }
        if balance.available < held {
            return false;
        }
        balance.available -= held;
        balance.reserved += held;
        true
    }

    fn best_opposite(&self, order: &OriginOrder) -> Option<OriginOrder> {
        let (price, level) = if order.side.is_buy() {
            self.asks.first_key_value().filter(|(price, _)| **price <= order.price)?
        } else {
            self.bids.last_key_value().filter(|(price, _)| order.price <= **price)?
        };
        let maker = *level.front().expect("a level has an order");
        assert_eq!(maker.price, *price);
        Some(maker)
    }

    fn take_from_best(&mut self, maker: &OriginOrder, quantity: u64) {
        let levels = if maker.side.is_buy() { &mut self.bids } else { &mut self.asks };
        let level = levels.get_mut(&maker.price).expect("a resting order has a level");
        let front = level.front_mut().expect("it was just looked at");
        front.leaves -= quantity;
        if front.leaves == 0 {
            level.pop_front();
            if level.is_empty() {
                levels.remove(&maker.price);
            }
            self.resting.remove(&(maker.participant, maker.order_id));
        }
    }

    fn trade(&mut self, taker: &OriginOrder, maker: &OriginOrder, quantity: u64) {
        let cost = self.cost(maker.price, quantity);
        let lots = u128::from(quantity) * u128::from(self.terms.base_units_per_lot());
        let (buyer, seller) = if taker.side.is_buy() { (taker, maker) } else { (maker, taker) };
        self.balance(buyer.participant, QUOTE).reserved -= cost;
        self.balance(buyer.participant, BASE).available += lots;
        self.balance(seller.participant, BASE).reserved -= lots;
        self.balance(seller.participant, QUOTE).available += cost;
        if taker.side.is_buy() {
            let refund = self.cost(taker.price - maker.price, quantity);
            let balance = self.balance(taker.participant, QUOTE);
            balance.reserved -= refund;
            balance.available += refund;
        }
    }
}
