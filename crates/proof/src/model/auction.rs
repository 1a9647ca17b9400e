//! Auctions, as one would explain them: sections 27 and 28 of the rules. The model finds the price by
//! trying the price of every order, each time over all orders.

use std::collections::BTreeMap;

use market::{
    AuctionTrade, Indicated, Indication, InstrumentId, OrderType, Phase, PhaseCause, Price,
    Quantity, SetPhase, Side, TimeInForce, Uncrossed, VenueEvent,
};

use super::{Model, ModelOrder, Place, SECOND_NS, is_price, same_side_of_book};

/// The rule that decided the price of an auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuctionStep {
    /// Nothing traded.
    Nothing,
    /// Most lots (27.2).
    Volume,
    /// Least left over (27.3).
    Imbalance,
    /// Buyers are left at all prices (27.4).
    BuyPressure,
    /// Sellers are left at all prices (27.4).
    SellPressure,
    /// The reference price (27.5).
    Reference,
    /// There was none, so the lowest (27.5).
    Lowest,
}

/// The most trades of auctions in a step. (27.14)
const AUCTION_TRADES_MAX: usize = 16;

/// The most orders counted in a step. (27.19)
const COUNTED_MAX: usize = 256;

/// The number of orders that a price counts as. (27.19)
const FOR_A_PRICE: usize = 8;

/// The most auctions whose price a command, or the work due before an input, finds. (28.3)
const AUCTIONS_MAX: usize = 4;

/// A place among the orders of a side, in the sequence of trading: by price, class and age. (27.19)
pub(super) type Reached = (u64, u8, u64);

/// The orders and auctions that may still be examined in auctions that collect orders. (28.3)
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    orders: usize,
    auctions: usize,
}

impl Looks {
    pub(super) const NEW: Self = Self { orders: COUNTED_MAX, auctions: AUCTIONS_MAX };

    pub(super) fn are_left(self) -> bool {
        self.orders > 0 && self.auctions > 0
    }
}

/// The place of an order among the orders that take part.
fn reached(order: &ModelOrder) -> Reached {
    let class = match order.time_in_force {
        _ if !order.is_beside() => u8::from(order.is_hidden()),
        TimeInForce::AtTheOpen => 2,
        TimeInForce::AtTheClose => 3,
        _ => 4,
    };
    let is_unpriced = order.order_type == OrderType::Market;
    (if is_unpriced { 0 } else { how_far(order.side, order.price) }, class, order.order_id.0)
}

/// A rank by price: the better the price, the lower; 0 for orders without a price.
fn how_far(side: Side, price: Price) -> u64 {
    if side == Side::Buy { u64::MAX - price.0 } else { price.0 }
}

/// An auction that began and is not over. (27.14)
#[derive(Clone, Copy, Debug)]
pub(super) struct Auction {
    pub(super) id: InstrumentId,
    /// The phase that follows.
    pub(super) asked: SetPhase,
    pub(super) cause: PhaseCause,
    /// A phase that the venue requested meanwhile. (27.17)
    pub(super) next: Option<SetPhase>,
    /// The price, all lots, and the lots still to trade; `None` until its turn.
    found: Option<(Price, u128, u128)>,
}

impl Auction {
    pub(super) fn new(id: InstrumentId, asked: SetPhase, cause: PhaseCause) -> Self {
        Self { id, asked, cause, next: None, found: None }
    }
}

/// Does this order take part in the auction at the end of a phase? (25.7, 26.3)
fn takes_part(order: &ModelOrder, phase: Phase) -> bool {
    match order.time_in_force {
        TimeInForce::AtTheOpen => [Phase::PreOpen, Phase::OpeningAuction].contains(&phase),
        TimeInForce::AtTheClose => phase == Phase::ClosingAuction,
        _ => true,
    }
}

impl Model {
    /// The auction-only orders of an instrument, by age.
    pub fn auction_orders(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        self.by_age(instrument_id, ModelOrder::is_beside)
    }

    /// The number of times each rule decided the price of an auction.
    pub fn auction_steps(&self) -> &BTreeMap<AuctionStep, u64> {
        &self.auction_steps
    }

    /// The orders of a side that take part in the auction.
    fn taking_part(&self, id: InstrumentId, side: Side, phase: Phase) -> Vec<ModelOrder> {
        self.by_age(id, |it| {
            same_side_of_book(it.side, side)
                && it.place == Place::Book
                && !it.is_done()
                && takes_part(it, phase)
        })
    }

    /// The auction's price and lots, found by trying every price, and the rule that decided.
    pub(super) fn auction_result(
        &self,
        id: InstrumentId,
        phase: Phase,
    ) -> (Indication, u128, AuctionStep) {
        let [buys, sells] = [Side::Buy, Side::Sell].map(|side| self.taking_part(id, side, phase));
        let reference = self.market(id).reference;
        let instrument = self.instrument(id);
        let mut prices: Vec<u64> = buys.iter().chain(&sells).map(|it| it.price.0).collect();
        prices.push(reference);
        prices.retain(|price| is_price(instrument, Price(*price)));
        prices.sort_unstable();
        prices.dedup();
        let lots = |orders: &[ModelOrder], price: u64| -> u128 {
            let willing = orders.iter().filter(|it| it.accepts(Price(price)));
            willing.map(|it| u128::from(it.leaves().0)).sum()
        };
        // Price, lots that would buy, lots that would sell.
        let mut offers: Vec<(u64, u128, u128)> = prices
            .into_iter()
            .map(|price| (price, lots(&buys, price), lots(&sells, price)))
            .collect();
        // 27.2
        let most = offers.iter().map(|(_, buys, sells)| *buys.min(sells)).max().unwrap_or(0);
        if most == 0 {
            return (Indication::default(), 0, AuctionStep::Nothing);
        }
        offers.retain(|(_, buys, sells)| *buys.min(sells) == most);
        let is_decided = offers.len() == 1;
        // 27.3
        let least = offers.iter().map(|(_, buys, sells)| buys.abs_diff(*sells)).min();
        offers.retain(|(_, buys, sells)| Some(buys.abs_diff(*sells)) == least);
        let all_buy = offers.iter().all(|(_, buys, sells)| buys > sells);
        let all_sell = offers.iter().all(|(_, buys, sells)| buys < sells);
        let step = match offers.len() {
            1 if is_decided => AuctionStep::Volume,
            1 => AuctionStep::Imbalance,
            _ if all_buy => AuctionStep::BuyPressure,
            _ if all_sell => AuctionStep::SellPressure,
            _ if reference == 0 => AuctionStep::Lowest,
            _ => AuctionStep::Reference,
        };
        let (price, buys, sells) = match (all_buy, all_sell) {
            // 27.4
            (true, _) => offers[offers.len() - 1],
            (_, true) => offers[0],
            // 27.5: the nearest to the reference price, of two the higher.
            _ => {
                let mut nearest = offers[0];
                for offer in offers {
                    if offer.0.abs_diff(reference) <= nearest.0.abs_diff(reference) {
                        nearest = offer;
                    }
                }
                nearest
            }
        };
        let indication = Indication {
            price: Price(price),
            paired: in_64_bits(most),
            imbalance: in_64_bits(buys.abs_diff(sells)),
            imbalance_is_buy: buys > sells,
        };
        (indication, most, step)
    }

    /// The index of the order that trades first among those taking part on a side. (27.7)
    fn first_in_auction(&self, id: InstrumentId, side: Side, phase: Phase) -> usize {
        let rank = |order: &ModelOrder| {
            let unpriced = order.order_type == OrderType::Market;
            let price = if side == Side::Buy { u64::MAX - order.price.0 } else { order.price.0 };
            let class = if order.is_beside() { 2 } else { u8::from(order.is_hidden()) };
            (!unpriced, if unpriced { 0 } else { price }, class, order.order_id)
        };
        let part = self.taking_part(id, side, phase);
        let first = part.iter().min_by_key(|it| rank(it)).expect("what can trade has orders");
        self.place_of(first.key).expect("it is live")
    }

    /// Does the auction of an instrument, or an order in it, trade in steps? (6.11, 27.14)
    pub(super) fn is_trading_in_steps(&self, id: InstrumentId) -> bool {
        self.auctions.iter().any(|it| it.id == id) || self.halves.iter().any(|it| it.id == id)
    }

    /// Is an order closed to every change but the trades in steps of its instrument? (6.11, 27.16)
    pub(super) fn is_stuck(&self, order: &ModelOrder) -> bool {
        [Place::Book, Place::Turn].contains(&order.place)
            && self.is_trading_in_steps(order.instrument_id)
    }

    /// Makes the next trades of the auctions that began; the start of an auction counts as a trade. (27.14)
    pub(super) fn go_on_with_auctions(&mut self) {
        let (mut left, mut orders) = (AUCTION_TRADES_MAX, COUNTED_MAX);
        while left > 0 && !self.auctions.is_empty() {
            let mut auction = self.auctions[0];
            let (id, phase) = (auction.id, self.market(auction.id).phase);
            if auction.found.is_none() {
                left -= 1;
                if !self.count(id, &mut orders) {
                    return;
                }
            }
            let (price, paired, mut missing) = auction.found.unwrap_or_else(|| {
                self.market_mut(id).counted = Default::default();
                let (Indication { price, .. }, paired, step) = self.auction_result(id, phase);
                *self.auction_steps.entry(step).or_default() += 1;
                (price, paired, paired)
            });
            while left > 0 && missing > 0 {
                left -= 1;
                missing -= u128::from(self.trade_in_auction(id, phase, price, missing));
            }
            auction.found = Some((price, paired, missing));
            self.auctions[0] = auction;
            if missing == 0 {
                self.auctions.remove(0);
                self.end_auction(id, phase, price, paired);
                self.go_on_after_auction(id, &auction.asked, auction.cause);
                if let Some(next) = auction.next {
                    self.go_on(id, &next, PhaseCause::Command);
                }
            }
        }
    }

    /// Counts at most `orders` more of the orders that could trade; true if all are counted. (27.19)
    fn count(&mut self, id: InstrumentId, orders: &mut usize) -> bool {
        let phase = self.market(id).phase;
        for (index, side) in [Side::Buy, Side::Sell].into_iter().enumerate() {
            let other = if side == Side::Buy { Side::Sell } else { Side::Buy };
            let others = self.taking_part(id, other, phase);
            let is_any = others.iter().any(|it| it.order_type == OrderType::Market);
            let farthest = others.iter().map(|it| how_far(side, it.price)).max();
            let Some(farthest) = farthest else { continue };
            let end = if is_any { (u64::MAX, 0, 0) } else { (farthest + 1, 0, 0) };
            let from = self.market(id).counted[index];
            let places = self.taking_part(id, side, phase).iter().map(reached).collect::<Vec<_>>();
            let mut left: Vec<_> =
                places.into_iter().filter(|it| from <= *it && *it < end).collect();
            left.sort_unstable();
            let mut left = &left[..];
            while let Some(&next) = left.first() {
                if *orders <= FOR_A_PRICE {
                    *orders = 0;
                    self.market_mut(id).counted[index] = next;
                    return false;
                }
                *orders -= FOR_A_PRICE;
                let alike = |it: &&Reached| (it.0, it.1) == (next.0, next.1);
                let now = left.iter().take_while(alike).count().min(*orders);
                *orders -= now;
                left = &left[now..];
            }
            self.market_mut(id).counted[index] = from.max(end);
        }
        true
    }

    /// Trades the first buy order with the first sell order; returns the lots.
    fn trade_in_auction(
        &mut self,
        id: InstrumentId,
        phase: Phase,
        price: Price,
        missing: u128,
    ) -> u64 {
        let mut places = [Side::Buy, Side::Sell].map(|side| self.first_in_auction(id, side, phase));
        places.sort_by_key(|place| self.orders[*place].order_id);
        let [maker, mut taker] = places.map(|place| self.orders[place]);
        let quantity = in_64_bits(missing).0.min(maker.offered()).min(taker.offered());
        let auction = AuctionTrade { phase, taker_shown: taker.on_the_feed() };
        self.execute(places[0], &mut taker, quantity, price, Some(auction));
        self.orders[places[1]] = taker;
        self.note(&taker, true);
        self.use_up_part(maker.key, quantity);
        self.use_up_part(taker.key, quantity);
        quantity
    }

    fn end_auction(&mut self, id: InstrumentId, phase: Phase, price: Price, paired: u128) {
        // 27.11
        if paired != 0 {
            self.market_mut(id).reference = price.0;
            self.note_last(id, Some(price));
        }
        // 27.12
        let trade_id = self.new_trade_id();
        let quantity = in_64_bits(paired);
        let uncrossed = Uncrossed { instrument_id: id, phase, trade_id, price, quantity };
        self.report(VenueEvent::Uncrossed(uncrossed));
    }

    /// Publishes an auction's indication if it is the first or has changed. (28.1, 28.3)
    pub(super) fn look_at_auction(&mut self, id: InstrumentId, first: bool) {
        let mut looks = self.looks;
        let is_counted = looks.are_left() && self.count(id, &mut looks.orders);
        looks.auctions = looks.auctions.saturating_sub(1);
        self.looks = looks;
        let now_ns = self.now_ns;
        let market = self.market_mut(id);
        let first = first || market.owes_first;
        market.owes_first = first && !is_counted;
        if !is_counted {
            market.looks = Some(market.looks.map_or(now_ns, |looks| looks.min(now_ns)));
            return;
        }
        let phase = market.phase;
        let (indication, _, _) = self.auction_result(id, phase);
        let next = now_ns - now_ns % SECOND_NS + SECOND_NS;
        let market = self.market_mut(id);
        let is_new = market.indicated != indication;
        market.looks = Some(next);
        market.indicated = indication;
        let reference_price = Price(market.reference);
        if first || is_new {
            let indicated = Indicated { instrument_id: id, phase, indication, reference_price };
            self.report(VenueEvent::Indicated(indicated));
        }
    }

    /// Are all orders counted that decide whether an auction may end? (28.3)
    pub(super) fn is_counted_for_end(&mut self, id: InstrumentId, has_collar: bool) -> bool {
        let mut looks = self.looks;
        let is_counted = !has_collar || self.count(id, &mut looks.orders);
        looks.auctions -= 1;
        self.looks = looks;
        is_counted
    }
}

/// The lots that an event reports: at most the largest 64-bit number. (27.20)
fn in_64_bits(lots: u128) -> Quantity {
    Quantity(u64::try_from(lots).unwrap_or(u64::MAX))
}
