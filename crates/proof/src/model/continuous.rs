//! Continuous trading: an incoming order trades with the book, and rests or is canceled. Sections 6,
//! 13 to 17, 29 and 35 of the rules.

use std::collections::VecDeque;

use market::{
    AuctionTrade, Booked, CancelReason, Display, Event, Firm, OrderKey, OrderType, Phase,
    PhaseCause, Price, Quantity, RestateReason, SelfMatchPrevented, SelfMatchPrevention, SetPhase,
    Shown, Side, Symbol, TimeInForce, TradeId, Traded,
};

use super::{Model, ModelOrder, Place, in_steps::Half, same_side_of_book, sharing::Shared};

/// The most orders of the other side that count for a minimum (15.6) and for a cost (42.4).
pub(super) const COUNTED_MAX: usize = 256;

/// The hidden lots that an iceberg trades in `rounds` rounds. (35.9)
fn in_rounds(it: &ModelOrder, rounds: u64) -> u64 {
    let part = it.instructions.shown_quantity.get();
    (it.leaves().0 - it.offered()).min(rounds * part)
}

impl Model {
    /// Trades an order, and lets the remainder rest or cancels it. Returns the order as it is after its trades.
    pub(super) fn trade_then_rest(&mut self, order: ModelOrder) -> ModelOrder {
        if self.is_collected(&order) {
            self.rest(order);
            return order;
        }
        // 14.1
        if order.conditions.post_only && self.first_to_trade_with(&order).is_some() {
            self.cancel_incoming(&order, CancelReason::PostOnly);
            return order;
        }
        // 15.2, 15.6, 17.1, 37.9
        let is_whole = order.time_in_force == TimeInForce::FillOrKill
            || order.instructions.handling.is_all_or_none();
        let minimum = match is_whole {
            true => order.leaves(),
            false => order.conditions.minimum_quantity.quantity(),
        };
        let has_enough = |minimum: Quantity| {
            let beyond = self.beyond(&order, COUNTED_MAX);
            self.would_trade(&order, &beyond) >= minimum.0
        };
        if !minimum.is_zero() && !has_enough(minimum) {
            self.cancel_incoming(&order, CancelReason::ImmediateOrCancel);
            return order;
        }
        let half = self.half(&order);
        self.trade_in_step(order, half)
    }

    /// An order trades as far as it may in a step. If it may go no further, it rests or is canceled.
    /// (6.10)
    pub(super) fn trade_in_step(&mut self, mut order: ModelOrder, mut half: Half) -> ModelOrder {
        let market = half.market;
        let mut step = self.new_step();
        let mut price_last = None;
        let mut is_stopped = false;
        let mut by_time = None;
        while !order.is_done()
            && let Some(place) = self.first_to_trade_with(&order)
        {
            // 29.1 to 29.4
            if !market.is_within_bands(self.orders[place].price) {
                is_stopped = true;
                break;
            }
            if step.is_over() {
                self.note_last(order.instrument_id, price_last);
                half.price_last = price_last.or(half.price_last);
                return self.cut(order, half);
            }
            if let Some((key, lots)) = half.shares.pop_front() {
                let place = self.place_of(key).expect("it offers that");
                step.met(&self.orders[place]);
                price_last = Some(self.orders[place].price);
                self.trade(place, &mut order, lots);
                continue;
            }
            if let Some(key) = half.in_rounds.pop_front() {
                let place = self.place_of(key).expect("it is in the book");
                step.met(&self.orders[place]);
                if self.trade_in_rounds(place, &mut order, half.rounds) {
                    price_last = Some(self.orders[place].price);
                }
                continue;
            }
            // 38.1, 38.4
            let shared = self.share(&order, place, &mut by_time);
            let place = if let Some(Shared::Own(own)) = shared { own } else { place };
            let maker = &self.orders[place];
            // 13.1, 35.6
            if self.are_own(&order, maker) {
                step.met(maker);
                let quantity = order.leaves().min(maker.leaves());
                self.prevent(place, &mut order, quantity);
                continue;
            }
            if let Some(Shared::Out(shares)) = shared {
                half.shares = shares.into();
                continue;
            }
            // 35.9
            if order.order_id < maker.order_id && half.rounds_at != Some(maker.price) {
                half.rounds_at = Some(maker.price);
                (half.rounds, half.in_rounds) = self.rounds(&order, place);
                continue;
            }
            step.met(maker);
            price_last = Some(maker.price);
            let quantity = order.leaves().0.min(maker.offered());
            self.trade(place, &mut order, quantity);
        }
        self.note_last(order.instrument_id, price_last);
        let price_last = price_last.or(half.price_last);
        if order.is_done() {
            self.give_back(&mut order, TradeId(0));
            return order;
        }
        let id = order.instrument_id;
        if is_stopped && market.pause == 0 {
            self.cancel_incoming(&order, CancelReason::Collar);
            return order;
        }
        if is_stopped {
            let pause = SetPhase::new(Symbol::BLANK, Phase::VolatilityAuction);
            self.begin_phase(id, &pause, PhaseCause::Band);
        }
        // 36.9
        if is_stopped && order.is_pegged() {
            self.look_at_auction(id, true);
            order.place = Place::Reference;
            return order;
        }
        // 17.3
        if order.order_type == OrderType::MarketToLimit
            && let Some(price) = price_last
        {
            order.order_type = OrderType::Limit;
            order.price = price;
            if order.may_rest() {
                self.give_back(&mut order, TradeId(0));
            }
        }
        if order.may_rest() {
            self.rest(order);
        } else {
            self.cancel_incoming(&order, CancelReason::ImmediateOrCancel);
        }
        if is_stopped {
            self.look_at_auction(id, true);
        }
        order
    }

    /// The number of whole rounds that an order takes from the reserves of all icebergs at the price of
    /// `first`, and the sequence of these icebergs. (35.9)
    fn rounds(&self, order: &ModelOrder, first: usize) -> (u64, VecDeque<OrderKey>) {
        let first = self.orders[first];
        let is_meant = |it: &ModelOrder| {
            it.is_in_book()
                && !it.is_hidden()
                && it.price == first.price
                && same_side_of_book(it.side, first.side)
        };
        let level = self.by_age(first.instrument_id, is_meant);
        let lots = |rounds| level.iter().map(|it| in_rounds(it, rounds)).sum::<u64>();
        let mut rounds = 0;
        while rounds < 100 && lots(rounds + 1) <= order.leaves().0 {
            rounds += 1;
        }
        let keys = level.iter().map(|it| it.key).filter(|_| rounds > 0);
        (rounds, keys.collect())
    }

    /// Trades with the reserve of an iceberg; false if it has none. (35.9)
    fn trade_in_rounds(&mut self, place: usize, order: &mut ModelOrder, rounds: u64) -> bool {
        let it = self.orders[place];
        let quantity = in_rounds(&it, rounds);
        if quantity == 0 {
            return false;
        }
        // 35.9: the trade is published as that of a hidden order.
        self.orders[place].display = Display::Hidden;
        self.execute(place, order, quantity, it.price, None);
        self.orders[place].display = it.display;
        self.note_trade(order.instrument_id, it.price);
        true
    }

    /// An order rests from now on.
    fn rest(&mut self, mut order: ModelOrder) {
        self.stir(order.instrument_id);
        order.part = order.first_part();
        // 26.7
        if order.is_beside() {
            order.instructions = order.instructions.without_shown();
        }
        self.orders.push(order);
        self.events.push(Event::Booked(Booked {
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            price: order.price,
            leaves: order.leaves(),
            shown: order.on_the_feed(),
            attribution: self.shown_as(&order),
        }));
    }

    /// A trade of the continuous market with the order at a place, at its price.
    pub(super) fn trade(&mut self, place: usize, order: &mut ModelOrder, quantity: u64) {
        let ModelOrder { key, price, .. } = self.orders[place];
        self.execute(place, order, quantity, price, None);
        self.note_trade(order.instrument_id, price);
        self.use_up_part(key, quantity);
    }

    /// The order at a place and another one trade, and pay. (6.3, 42.3)
    pub(super) fn execute(
        &mut self,
        place: usize,
        taker: &mut ModelOrder,
        quantity: u64,
        price: Price,
        auction: Option<AuctionTrade>,
    ) {
        let trade_id = self.new_trade_id();
        let maker = &mut self.orders[place];
        let maker_shown = maker.on_the_feed();
        maker.executed += quantity;
        taker.executed += quantity;
        self.volume += u128::from(quantity);
        let traded = Traded {
            trade_id,
            instrument_id: taker.instrument_id,
            taker_side: taker.side,
            price,
            quantity: Quantity(quantity),
            maker_shown,
            maker: maker.fill(),
            taker: taker.fill(),
            auction,
        };
        self.keep_trade(&traded);
        self.events.push(Event::Traded(traded));
        self.settle(place, taker, &traded);
        let maker = self.orders[place];
        self.note(&maker, true);
    }

    /// Lots of a shown part traded: after the last of them the next part is shown. (35.3)
    pub(super) fn use_up_part(&mut self, key: OrderKey, quantity: u64) {
        let place = self.place_of(key).expect("it is in the list");
        let order = &mut self.orders[place];
        let Some(part) = &mut order.part else { return };
        *part -= quantity;
        if *part == 0 && !order.is_done() {
            self.refresh(place);
        }
    }

    /// Shows the next part of an iceberg, behind all other orders at its price. (35.3)
    fn refresh(&mut self, place: usize) {
        let mut order = self.orders.remove(place);
        let order_id_before = order.order_id;
        order.order_id = self.new_order_id();
        let leaves = order.leaves().lots();
        let part = order.instructions.next_shown(order.order_id, leaves);
        order.part = Some(part.quantity().0);
        self.report_restated(&order, order_id_before, RestateReason::Refreshed);
        self.orders.push(order);
    }

    /// The self-match prevention that applies to this order as the incoming one. (13.2)
    fn prevention(&self, order: &ModelOrder) -> SelfMatchPrevention {
        match order.conditions.self_match_prevention {
            SelfMatchPrevention::SessionDefault => {
                let session = self.session(order.key.session_id).expect("it has an order");
                session.self_match_prevention
            }
            named => named,
        }
    }

    /// Does self-match prevention keep an incoming order from trading with `other`? (13.3, 13.4)
    pub(super) fn are_own(&self, order: &ModelOrder, other: &ModelOrder) -> bool {
        let prevention = self.prevention(order);
        let is_off =
            [SelfMatchPrevention::Off, SelfMatchPrevention::SessionDefault].contains(&prevention);
        let [one_id, other_id] = [order.key.session_id, other.key.session_id];
        let [one_firm, other_firm] =
            [one_id, other_id].map(|id| self.session(id).expect("it has an order").firm);
        let one_participant =
            one_id == other_id || (one_firm == other_firm && one_firm != Firm::BLANK);
        let for_one_firm = self.firm_meant(one_id, order.attributes.firm)
            == self.firm_meant(other_id, other.attributes.firm);
        let any_firm = "wobd".contains(char::from(prevention.code()));
        !is_off
            && order.conditions.self_match_group == other.conditions.self_match_group
            && one_participant
            && (any_firm || for_one_firm)
    }

    /// Takes lots from the order at a place, and from the incoming one, instead of a trade of
    /// `quantity` lots. (13.5 to 13.8)
    fn prevent(&mut self, place: usize, order: &mut ModelOrder, quantity: Quantity) {
        let prevention = self.prevention(order);
        let mut maker = self.orders[place];
        let price = maker.price;
        let (from_maker, from_order) = match prevention.code().to_ascii_uppercase() {
            b'W' => (0, order.leaves().0),
            b'O' => (maker.leaves().0, 0),
            b'B' => (maker.leaves().0, order.leaves().0),
            _ => (quantity.0, quantity.0),
        };
        for (it, lots, booked) in [(&mut maker, from_maker, true), (order, from_order, false)] {
            if lots == 0 {
                continue;
            }
            let before = it.on_the_feed();
            it.prevented += lots;
            it.show_no_more_than_is_open();
            self.events.push(Event::SelfMatchPrevented(SelfMatchPrevented {
                key: it.key,
                order_id: it.order_id,
                instrument_id: it.instrument_id,
                quantity: Quantity(lots),
                leaves: it.leaves(),
                prevented: quantity,
                price,
                booked,
                shown: match booked {
                    true => Shown { before, after: it.on_the_feed() },
                    false => Shown::NONE,
                },
                prevention,
            }));
            self.give_back(it, TradeId(0));
        }
        self.orders[place] = maker;
        self.note(&maker, false);
    }

    /// The order with the best price among those that this one would trade with; at equal prices the
    /// first in the list that is not hidden, or else the first. (6.2, 16.2)
    pub(super) fn first_to_trade_with(&self, order: &ModelOrder) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (place, other) in self.orders.iter().enumerate() {
            let meets = other.instrument_id == order.instrument_id
                && !same_side_of_book(other.side, order.side)
                && other.is_in_book()
                && order.accepts(other.price);
            let better = best.is_none_or(|best| {
                let best = &self.orders[best];
                let better_price = match order.side {
                    Side::Buy => other.price < best.price,
                    _ => other.price > best.price,
                };
                let same_price = other.price == best.price;
                better_price || same_price && best.is_hidden() && !other.is_hidden()
            });
            if meets && better {
                best = Some(place);
            }
        }
        best
    }
}
