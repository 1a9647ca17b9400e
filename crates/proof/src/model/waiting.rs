//! Orders that wait, orders tied to each other, and lives by time: sections 20 to 23 of the rules.
//!
//! Every waiting order looks at every trade, and every tied order is found by going through all.

use market::{
    CancelReason, EnterOrder, Event, Instructions, InstrumentId, OrderKey, OrderType, Phase, Price,
    Pricing, Released, ReplaceTerms, Side, Ticks, TimeInForce, TradeId, Triggered,
};

use super::{Model, ModelOrder, PRICE_MAX, allowed_price, canceled_at_once, same_side_of_book};

/// So many orders are moved after a command (36.12).
const MOVES_MAX: usize = 16;

/// Where a live order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the book, or on its way there.
    Book,
    /// It waits for its parent. (22.1)
    Parent,
    /// It waits for its trigger. (20.1)
    Trigger,
    /// It waits for a price to follow. (36.6)
    Reference,
    /// It waits until it can trade enough. (37.1)
    Quantity,
    /// It is triggered, and comes in when the orders triggered before it have. (20.4)
    Line,
}

impl ModelOrder {
    /// Does it wait for the market to fall? (20.1)
    fn waits_for_fall(&self) -> bool {
        (self.side == Side::Buy) == (self.instructions.pricing == Pricing::TakeProfit)
    }

    /// The price at which it is triggered, if there is one yet. (20.1, 20.5)
    #[must_use]
    pub fn trigger(&self) -> Option<u64> {
        let Instructions { pricing, trigger: Ticks(told), offset, .. } = self.instructions;
        let told = (told != 0).then_some(u64::from(told));
        if pricing != Pricing::TrailingStop {
            return told;
        }
        let distance = offset.unsigned_abs().into();
        match self.side {
            Side::Buy => {
                let followed = self.best.map(|best| best + distance);
                told.into_iter().chain(followed).min()
            }
            _ => {
                let followed = self.best.map(|best| best.saturating_sub(distance));
                told.into_iter().chain(followed).max()
            }
        }
    }

    /// Would a trade at this price trigger it?
    fn is_met(&self, price: u64) -> bool {
        self.trigger().is_some_and(|trigger| match self.waits_for_fall() {
            true => price <= trigger,
            false => price >= trigger,
        })
    }

    /// Its owner's name for an order of the same channel.
    fn sibling(&self, number: u32) -> OrderKey {
        OrderKey { user_ref_num: number, ..self.key }
    }
}

/// An order that is to be one of two: how it is priced, and whether it is in the book. (21.3)
struct Candidate {
    side: Side,
    order_type: OrderType,
    price: Price,
    pricing: Pricing,
}

impl Candidate {
    fn of(order: &ModelOrder) -> Self {
        let (order_type, price) = match order.bound {
            Some(bound) => (OrderType::Limit, bound),
            None if order.is_pegged() => (OrderType::Market, order.price),
            None => (order.order_type, order.price),
        };
        Self { side: order.side, order_type, price, pricing: order.instructions.pricing }
    }

    fn may_be_with(&self, other: &Self) -> bool {
        if self.pricing.is_triggered() || other.pricing.is_triggered() {
            return true;
        }
        let bid_below_ask = match (self.side, other.side) {
            (Side::Buy, Side::Buy) => false,
            (Side::Buy, _) => self.price < other.price,
            (_, Side::Buy) => other.price < self.price,
            _ => false,
        };
        self.order_type == OrderType::Limit && other.order_type == OrderType::Limit && bid_below_ask
    }
}

impl Model {
    /// The orders that wait for a trigger: those for a fall, then those for a rise, in each the
    /// nearest first and then by age. One without a trigger yet is the furthest.
    #[must_use]
    pub fn waiting(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        let mut waiting: Vec<_> = self
            .orders
            .iter()
            .filter(|it| it.place == Place::Trigger && it.instrument_id == instrument_id)
            .copied()
            .collect();
        waiting.sort_by_key(|it| (turn(it, it.trigger()), it.order_id));
        waiting
    }

    /// The orders that wait for another, by age.
    #[must_use]
    pub fn held(&self) -> Vec<ModelOrder> {
        let mut held: Vec<_> =
            self.orders.iter().filter(|it| it.place == Place::Parent).copied().collect();
        held.sort_by_key(|it| it.order_id);
        held
    }

    /// The earliest moment at which an order expires.
    pub(super) fn next_expiry_ns(&self) -> Option<u64> {
        let moments = self.orders.iter().map(|it| u64::from(it.instructions.expires_s));
        moments.filter(|it| *it != 0).min().map(|it| it * 1_000_000_000)
    }

    /// Orders expire at the earliest moment of all, with what follows. (23.2)
    pub(super) fn expire_next(&mut self, events: &mut Vec<Event>) {
        let due = self.next_expiry_ns();
        self.cancel_by_age(CancelReason::Expired, events, |it| {
            due == Some(u64::from(it.instructions.expires_s) * 1_000_000_000)
        });
        self.follow(events);
    }

    /// Orders for the day end with it. (2.4)
    pub(super) fn end_day(&mut self, events: &mut Vec<Event>) {
        self.cancel_by_age(CancelReason::EndOfDay, events, |it| {
            it.time_in_force != TimeInForce::GoodTillCancel
                && it.time_in_force != TimeInForce::GoodTillTime
        });
    }

    fn cancel_by_age(
        &mut self,
        reason: CancelReason,
        events: &mut Vec<Event>,
        is_meant: impl Fn(&ModelOrder) -> bool,
    ) {
        let mut meant: Vec<_> =
            self.orders.iter().filter(|it| is_meant(it)).map(|it| (it.order_id, it.key)).collect();
        meant.sort();
        for (_, key) in meant {
            self.cancel_all_of(key, reason, events);
        }
    }

    pub(super) fn cancel_all_of(
        &mut self,
        key: OrderKey,
        reason: CancelReason,
        events: &mut Vec<Event>,
    ) {
        let place = self.place_of(key).expect("it was found live");
        let leaves = self.orders[place].leaves().0;
        self.cancel(place, leaves, reason, events);
    }

    /// 23.3
    pub(super) fn allowed_expiry(&self, time_in_force: TimeInForce, expires_s: u32) -> bool {
        match time_in_force {
            TimeInForce::GoodTillTime => u64::from(expires_s) * 1_000_000_000 > self.now_ns,
            _ => expires_s == 0,
        }
    }

    /// 21.3, 21.4, 22.3
    pub(super) fn allowed_links(&self, asked: &EnterOrder) -> bool {
        let Instructions { parent, partner, pricing, .. } = asked.instructions;
        let instrument = self.listed(asked.symbol);
        let named = |number| {
            let key = OrderKey { user_ref_num: number, ..asked.key };
            let order = self.orders.iter().find(|it| it.key == key)?;
            (instrument?.instrument_id == order.instrument_id).then_some(order)
        };
        let parent_fits = parent == 0
            || named(parent).is_some_and(|parent| !same_side_of_book(parent.side, asked.side));
        let asked_for = Candidate {
            side: asked.side,
            order_type: asked.order_type,
            price: asked.price,
            pricing,
        };
        let partner_fits = partner == 0
            || partner != parent
                && named(partner).is_some_and(|other| {
                    other.instructions.partner == 0 && asked_for.may_be_with(&Candidate::of(other))
                });
        parent_fits && partner_fits
    }

    /// The instructions of a replacement, if they are allowed. (20.9, 21.6, 23.3, 35.7)
    pub(super) fn told_next(
        &self,
        original: &ModelOrder,
        terms: &ReplaceTerms,
    ) -> Option<Instructions> {
        let mut kept = original.instructions;
        if terms.display == market::Display::Hidden {
            kept = kept.without_shown();
        }
        if terms.time_in_force != TimeInForce::GoodTillTime {
            kept.expires_s = 0;
        }
        let mut told = terms.instructions.unwrap_or(kept);
        if terms.instructions.is_some() && (told.parent != 0 || told.partner != 0) {
            return None;
        }
        told.parent = original.instructions.parent;
        told.partner = original.instructions.partner;
        if told.partner != 0 {
            let key = original.sibling(told.partner);
            let other = self.orders.iter().find(|it| it.key == key).expect("partners are live");
            let replacement = Candidate {
                side: original.side,
                order_type: terms.order_type,
                price: terms.price,
                pricing: told.pricing,
            };
            if !replacement.may_be_with(&Candidate::of(other)) {
                return None;
            }
        }
        Some(told)
    }

    /// Orders tied to one that was replaced are tied to its replacement. (21.6)
    pub(super) fn rename(&mut self, original: OrderKey, number: u32) {
        for order in &mut self.orders {
            let names = |it| {
                order.key.session_id == original.session_id
                    && order.key.channel == original.channel
                    && it == original.user_ref_num
            };
            let (is_child, is_partner) =
                (names(order.instructions.parent), names(order.instructions.partner));
            if is_child {
                order.instructions.parent = number;
            }
            if is_partner {
                order.instructions.partner = number;
            }
        }
    }

    /// The order that was entered as one of two is one of two for the other, too. (21.4)
    pub(super) fn tie(&mut self, order: &ModelOrder) {
        if order.instructions.partner != 0 {
            let place = self.place_of(order.sibling(order.instructions.partner));
            let other = &mut self.orders[place.expect("it was checked")];
            other.instructions.partner = order.key.user_ref_num;
        }
    }

    /// An accepted order waits, or comes in.
    pub(super) fn begin(&mut self, mut order: ModelOrder, events: &mut Vec<Event>) {
        order.place = Place::Book;
        order.best = self.last_trades.get(&order.instrument_id).copied();
        if order.instructions.parent != 0 {
            order.place = Place::Parent;
            return self.orders.push(order);
        }
        if order.is_pegged() {
            return self.begin_pegged(order, events);
        }
        if !order.instructions.pricing.is_triggered() {
            return self.come_in(order, events);
        }
        // 20.3
        if let Some(last) = order.best
            && order.is_met(last)
        {
            return self.come_in_triggered(order, events);
        }
        order.place = Place::Trigger;
        self.orders.push(order);
    }

    /// 20.2, 20.6, 21.2
    fn come_in_triggered(&mut self, mut order: ModelOrder, events: &mut Vec<Event>) {
        let trigger = order.trigger().expect("it was met");
        let told = order.instructions;
        if told.pricing == Pricing::TrailingStop && order.order_type == OrderType::Limit {
            let instrument = &self.instruments[usize::from(order.instrument_id.0) - 1];
            let increment = instrument.price_increment.0;
            let highest = PRICE_MAX / increment * increment;
            let moved = order.price.0 + trigger;
            let moved = moved.saturating_sub(u64::from(told.trigger.0));
            order.price = Price(moved.clamp(increment, highest));
            assert!(allowed_price(instrument, OrderType::Limit, order.price));
            self.give_back(&mut order, TradeId(0), events);
        }
        order.instructions =
            Instructions { pricing: Pricing::Limit, trigger: Ticks::ZERO, offset: 0, ..told };
        let order_id_before = order.order_id;
        order.order_id = self.new_order_id();
        events.push(Event::Triggered(Triggered {
            key: order.key,
            order_id_before,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            trigger: Price(trigger),
            price: order.price,
        }));
        self.cancel_partner_of(&mut order, events);
        self.come_in(order, events);
    }

    /// It trades and rests, and what that means for others is to follow.
    pub(super) fn come_in(&mut self, mut order: ModelOrder, events: &mut Vec<Event>) {
        order.place = Place::Book;
        let executed_before = order.executed;
        let mut why_not = self.why_not_now_either(&order);
        if why_not.is_none() && !self.hold_without_limit(&mut order, events) {
            why_not = Some(CancelReason::Unpaid);
        }
        let mut after = match why_not {
            None => match self.come_in_with_minimum(order, events) {
                Some(after) => after,
                None => return,
            },
            Some(reason) => {
                events.push(canceled_at_once(&order, reason));
                self.let_go(&order, events);
                order
            }
        };
        let has_executed = after.executed > executed_before;
        if self.place_of(order.key).is_none() {
            // It is done; what it leaves behind stays until the end of the command.
            after.canceled += after.leaves().0;
            self.orders.push(after);
        }
        self.note(&after, has_executed);
    }

    /// An order has executed, or something else happened to it. (22.4)
    pub(super) fn note(&mut self, order: &ModelOrder, has_executed: bool) {
        let has_executed = has_executed && order.instructions.partner != 0;
        let is_done = order.leaves().0 == 0;
        if !has_executed && !is_done {
            return;
        }
        match self.noted.iter_mut().find(|(key, _)| *key == order.key) {
            Some((_, executed)) => *executed |= has_executed,
            None => self.noted.push((order.key, has_executed)),
        }
    }

    /// The continuous market traded. (20.4, 20.5)
    pub(super) fn note_trade(&mut self, instrument_id: InstrumentId, price: Price) {
        self.last_trades.insert(instrument_id, price.0);
        let mut triggered = Vec::new();
        for order in &mut self.orders {
            if order.place != Place::Trigger || order.instrument_id != instrument_id {
                continue;
            }
            let better = |best: u64| match order.side {
                Side::Buy => best.min(price.0),
                _ => best.max(price.0),
            };
            order.best = Some(order.best.map_or(price.0, better));
            if order.is_met(price.0) {
                triggered.push((turn(order, order.trigger()), order.order_id, order.key));
                order.place = Place::Line;
            }
        }
        triggered.sort();
        self.line.extend(triggered.into_iter().map(|(_, _, key)| key));
    }

    /// All that follows from what happened. (22.4)
    pub(super) fn follow(&mut self, events: &mut Vec<Event>) {
        // 36.12
        let mut moves_left = if self.behind_since_ns.is_some() { 0 } else { MOVES_MAX };
        loop {
            if !self.noted.is_empty() {
                let (key, has_executed) = self.noted.remove(0);
                self.follow_links(key, has_executed, events);
            } else if !self.line.is_empty() {
                let key = self.line.remove(0);
                let is_meant =
                    |it: &ModelOrder| it.key == key && it.place == Place::Line && it.leaves().0 > 0;
                if let Some(place) = self.orders.iter().position(is_meant) {
                    let order = self.orders.remove(place);
                    self.come_in_triggered(order, events);
                }
            } else if moves_left > 0
                && let Some(key) = self.next_to_move()
            {
                moves_left -= 1;
                self.move_order(key, events);
            } else if self.look_at_minimums(events) {
            } else {
                // A done order is no order any more. (6.9)
                self.orders.retain(|order| order.leaves().0 > 0);
                let is_behind = self.next_to_move().is_some();
                self.behind_since_ns =
                    is_behind.then(|| self.behind_since_ns.unwrap_or(self.now_ns));
                return;
            }
        }
    }

    fn follow_links(&mut self, key: OrderKey, has_executed: bool, events: &mut Vec<Event>) {
        let Some(place) = self.place_of(key) else { return };
        if has_executed {
            let mut order = self.orders[place];
            self.cancel_partner_of(&mut order, events);
        }
        let place = self.place_of(key).expect("it was there above");
        let order = self.orders[place];
        if order.leaves().0 > 0 {
            return;
        }
        // 21.5
        let name = key.user_ref_num;
        let is_sibling =
            |it: &ModelOrder| (it.key.session_id, it.key.channel) == (key.session_id, key.channel);
        for other in &mut self.orders {
            if is_sibling(other) && other.instructions.partner == name {
                other.instructions.partner = 0;
            }
        }
        // 22.1, 22.2
        let mut children: Vec<_> = self
            .orders
            .iter()
            .filter(|it| is_sibling(it) && it.instructions.parent == name && it.leaves().0 > 0)
            .map(|it| (it.order_id, it.key))
            .collect();
        children.sort();
        for (_, child) in children {
            let place = self.place_of(child).expect("it was found above");
            if self.orders[place].leaves().0 == 0 {
                // One that came in before it was its partner.
                continue;
            }
            self.orders[place].instructions.parent = 0;
            let partner = self.orders[place].sibling(self.orders[place].instructions.partner);
            let is_too_late = self.noted.iter().any(|(key, executed)| *executed && *key == partner);
            let phase = self.phase(self.orders[place].instrument_id);
            let is_taken = self.is_open()
                && ![None, Some(Phase::Halted), Some(Phase::Closed)].contains(&phase);
            // 36.13
            let waiting = self.orders[place];
            let is_crowded = waiting.is_pegged()
                && !self.may_follow_too(waiting.instrument_id, waiting.key.session_id);
            if order.executed == 0 || !is_taken || is_too_late || is_crowded {
                self.cancel_all_of(child, CancelReason::Linked, events);
                continue;
            }
            let too_much = self.orders[place].leaves().0.saturating_sub(order.executed);
            self.cancel(place, too_much, CancelReason::Linked, events);
            let mut child = self.orders.remove(place);
            let order_id_before = child.order_id;
            child.order_id = self.new_order_id();
            events.push(Event::Released(Released {
                key: child.key,
                order_id_before,
                order_id: child.order_id,
                instrument_id: child.instrument_id,
                parent: name,
                leaves: child.leaves(),
            }));
            self.begin(child, events);
        }
    }

    /// 21.1, 21.2; what it means that the partner has executed, too, is still to follow.
    fn cancel_partner_of(&mut self, order: &mut ModelOrder, events: &mut Vec<Event>) {
        let partner = order.sibling(order.instructions.partner);
        order.instructions.partner = 0;
        if let Some(place) = self.place_of(order.key) {
            self.orders[place].instructions.partner = 0;
        }
        let is_partner = |it: &ModelOrder| it.key == partner && it.leaves().0 > 0;
        let has_executed = self.noted.iter().any(|(key, executed)| *executed && *key == partner);
        if let Some(place) = self.orders.iter().position(is_partner) {
            if !has_executed {
                self.orders[place].instructions.partner = 0;
            }
            self.cancel_all_of(partner, CancelReason::Linked, events);
        }
    }
}

/// When it is the turn of an order with such a trigger: a fall before a rise, the nearest first.
fn turn(order: &ModelOrder, trigger: Option<u64>) -> (bool, u64) {
    match order.waits_for_fall() {
        true => (false, u64::MAX - trigger.unwrap_or(0)),
        false => (true, trigger.unwrap_or(u64::MAX)),
    }
}

/// 20.7
pub(super) fn allowed_trigger(
    instrument: &market::Instrument,
    side: Side,
    order_type: OrderType,
    told: Instructions,
) -> bool {
    let trigger = Price(told.trigger.0.into());
    let is_price = |price| allowed_price(instrument, OrderType::Limit, price);
    match told.pricing {
        Pricing::Limit => told.trigger == Ticks::ZERO && told.offset == 0,
        Pricing::Stop | Pricing::TakeProfit => is_price(trigger) && told.offset == 0,
        Pricing::TrailingStop => {
            let Ok(distance) = u64::try_from(told.offset) else { return false };
            let trigger_fits = match told.trigger {
                Ticks::ZERO => order_type != OrderType::Limit,
                _ => is_price(trigger) && (side != Side::Buy || trigger.0 > distance),
            };
            is_price(Price(distance)) && trigger_fits
        }
        Pricing::PrimaryPeg | Pricing::MarketPeg | Pricing::MidpointPeg => {
            told.trigger == Ticks::ZERO
        }
    }
}
