//! Contingent orders, linked orders, and expiry: sections 20 to 23 of the rules.
//!
//! Every order that waits for a trigger examines every trade, and a linked order is found by a search
//! through all orders.

use market::{
    CancelReason, Event, Instructions, InstrumentId, OrderKey, OrderType, Phase, Price, Pricing,
    Released, ReplaceTerms, RestateReason, Scope, Side, Ticks, TimeInForce, TradeId, Triggered,
};

use super::{
    Model, ModelOrder, PRICE_MAX, SECOND_NS, is_price, pending_cancels::Meant, same_side_of_book,
};

/// The most pegged orders moved after a command (36.12).
const MOVES_MAX: usize = 4;

/// The most triggered orders that act at once (20.12).
const TRIGGERED_MAX: usize = 4;

/// The most orders waiting for quantity that are examined after a command (37.11).
const CHECKS_MAX: usize = 4;

/// The most children of an order (22.5).
const CHILDREN_MAX: usize = 16;

/// The place of a live order.
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
    /// It waits until nothing trades in steps in its instrument. (6.12, 27.18)
    Auction,
    /// It trades in steps, and waits for its turn. (6.11)
    Turn,
    /// It is triggered, and comes in after the orders triggered before it. (20.4)
    Line,
}

impl ModelOrder {
    /// Does it wait for the market to fall? (20.1)
    fn waits_for_fall(&self) -> bool {
        (self.side == Side::Buy) == (self.instructions.pricing == Pricing::TakeProfit)
    }

    /// The price at which it is triggered, if there is one yet. (20.1, 20.5)
    pub fn trigger(&self) -> Option<u64> {
        let Instructions { pricing, trigger: Ticks(named), offset, .. } = self.instructions;
        let named = (named != 0).then_some(u64::from(named));
        if pricing != Pricing::TrailingStop {
            return named;
        }
        let distance = offset.unsigned_abs().into();
        match self.side {
            Side::Buy => {
                let followed = self.best.map(|best| best + distance);
                named.into_iter().chain(followed).min()
            }
            _ => {
                let followed = self.best.map(|best| best.saturating_sub(distance));
                named.into_iter().chain(followed).max()
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

    /// The time at which it expires, in nanoseconds; 0 for never. (23.1)
    pub(super) fn expires_ns(&self) -> u64 {
        u64::from(self.instructions.expires_s) * SECOND_NS
    }

    /// The key of an order on the same channel.
    fn sibling(&self, number: u32) -> OrderKey {
        OrderKey { user_ref_num: number, ..self.key }
    }
}

/// An order to be linked as one of two: its pricing, and whether it is in the book. (21.3)
struct Candidate {
    side: Side,
    order_type: OrderType,
    price: Price,
    pricing: Pricing,
}

impl Candidate {
    /// A requested order: its price is its limit, also if it is pegged.
    fn asked(order: &ModelOrder) -> Self {
        let ModelOrder { side, order_type, price, .. } = *order;
        Self { side, order_type, price, pricing: order.instructions.pricing }
    }

    /// A live order.
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
    /// The orders that wait for a trigger: those for a fall, then those for a rise, in each group the
    /// nearest first and then by age. An order without a trigger yet is the furthest.
    pub fn stop_book(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        let mut waiting = self.by_age(instrument_id, |it| it.place == Place::Trigger);
        waiting.sort_by_key(|it| turn(it, it.trigger()));
        waiting
    }

    /// The orders of an instrument that wait for their parent, by age.
    pub fn held(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        self.by_age(instrument_id, |it| it.place == Place::Parent)
    }

    /// The earliest time at which an order expires.
    pub(super) fn next_expiry_ns(&self) -> Option<u64> {
        let moments = self.orders.iter().map(ModelOrder::expires_ns);
        moments.filter(|it| *it > self.expired_ns).min()
    }

    /// Expires the orders of the earliest expiry time, with all consequences. (23.2)
    pub(super) fn expire_next(&mut self) {
        let was_empty = !self.has_cancels_left();
        self.expired_ns = self.next_expiry_ns().expect("an order expires");
        if was_empty {
            self.cancel_portion();
        }
        self.follow();
    }

    /// Is its time over, and its cancel still to come? A stuck order is canceled as such. (23.1, 27.16)
    fn has_expired(&self, order: &ModelOrder) -> bool {
        (1..=self.expired_ns).contains(&order.expires_ns())
            && !order.is_done()
            && !self.is_held_back(order.key)
    }

    /// The first expired order. (24.1)
    pub(super) fn first_expired(&self) -> Option<OrderKey> {
        let expired = self.orders.iter().filter(|it| self.has_expired(it));
        expired.map(|it| (it.expires_ns(), it.key)).min().map(|(_, key)| key)
    }

    /// Does an order wait to be canceled? (24.3)
    pub(super) fn is_leaving(&self, order: &ModelOrder) -> bool {
        order.leaving || self.has_expired(order)
    }

    /// Orders for the day end with it. (2.4)
    pub(super) fn end_day(&mut self) {
        let of_the_day = Meant { of_the_day: true, ..Meant::of(Scope::ALL) };
        self.cancel_meant(&of_the_day, CancelReason::EndOfDay);
    }

    /// Are the parent and the partner of an order valid? (21.3, 21.4, 22.3)
    pub(super) fn allowed_links(&self, asked: &ModelOrder) -> bool {
        let Instructions { parent, partner, .. } = asked.instructions;
        let named = |number| {
            let order = &self.orders[self.place_of(asked.sibling(number))?];
            (asked.instrument_id == order.instrument_id).then_some(order)
        };
        let parent_fits = parent == 0
            || named(parent).is_some_and(|it| {
                let is_child = |it: &&ModelOrder| {
                    it.instructions.parent == parent && asked.sibling(parent) == it.sibling(parent)
                };
                !same_side_of_book(it.side, asked.side)
                    && self.orders.iter().filter(is_child).count() < CHILDREN_MAX
            });
        let partner_fits = partner == 0
            || partner != parent
                && named(partner).is_some_and(|other| {
                    other.instructions.partner == 0
                        && Candidate::asked(asked).may_be_with(&Candidate::of(other))
                });
        parent_fits && partner_fits
    }

    /// The instructions of a replacement, if they are allowed. (20.9, 21.6, 23.3, 35.7)
    pub(super) fn next_instructions(
        &self,
        original: &ModelOrder,
        terms: &ReplaceTerms,
        time_in_force: TimeInForce,
    ) -> Option<Instructions> {
        let mut kept = original.instructions;
        if terms.display == market::Display::Hidden {
            kept = kept.without_shown();
        }
        if time_in_force != TimeInForce::GoodTillTime {
            kept.expires_s = 0;
        }
        let mut next = terms.instructions.unwrap_or(kept);
        if terms.instructions.is_some() && next.has_links() {
            return None;
        }
        next.parent = original.instructions.parent;
        next.partner = original.instructions.partner;
        if next.partner != 0 {
            let place = self.place_of(original.sibling(next.partner)).expect("partners are live");
            let replacement = Candidate {
                side: original.side,
                order_type: terms.order_type,
                price: terms.price,
                pricing: next.pricing,
            };
            if !replacement.may_be_with(&Candidate::of(&self.orders[place])) {
                return None;
            }
        }
        Some(next)
    }

    /// Links the orders that were linked to a replaced order to its replacement. (21.6)
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

    /// Links the partner of an order entered as one of two back to that order. (21.4)
    pub(super) fn link(&mut self, order: &ModelOrder) {
        if order.instructions.partner != 0 {
            let place = self.place_of(order.sibling(order.instructions.partner));
            let other = &mut self.orders[place.expect("it was checked")];
            other.instructions.partner = order.key.user_ref_num;
        }
    }

    /// Lets an accepted order wait or come in.
    pub(super) fn begin(&mut self, mut order: ModelOrder) {
        order.place = Place::Book;
        order.best = self.last_trades.get(&order.instrument_id).copied();
        if order.instructions.parent != 0 {
            order.place = Place::Parent;
            return self.orders.push(order);
        }
        if order.is_pegged() {
            return self.begin_pegged(order);
        }
        if !order.instructions.pricing.is_triggered() {
            return self.come_in(order);
        }
        // 20.3
        if let Some(last) = order.best
            && order.is_met(last)
        {
            return self.come_in_triggered(order);
        }
        order.place = Place::Trigger;
        self.orders.push(order);
    }

    /// Lets an order whose trigger was met come in. (20.2, 20.6, 21.2)
    fn come_in_triggered(&mut self, mut order: ModelOrder) {
        let trigger = order.trigger().expect("it was met");
        let instructions = order.instructions;
        let is_trailing = instructions.pricing == Pricing::TrailingStop;
        if is_trailing && order.order_type == OrderType::Limit {
            let instrument = self.instrument(order.instrument_id);
            let increment = instrument.price_increment.0;
            let highest = PRICE_MAX / increment * increment;
            let moved = order.price.0 + trigger;
            let moved = moved.saturating_sub(instructions.trigger.price().0);
            order.price = Price(moved.clamp(increment, highest));
            assert!(is_price(instrument, order.price));
            self.give_back(&mut order, TradeId(0));
        }
        order.instructions = Instructions {
            pricing: Pricing::Limit,
            trigger: Ticks::ZERO,
            offset: 0,
            ..instructions
        };
        let order_id_before = order.order_id;
        order.order_id = self.new_order_id();
        self.events.push(Event::Triggered(Triggered {
            key: order.key,
            order_id_before,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            trigger: Price(trigger),
            price: order.price,
        }));
        self.cancel_partner_of(&mut order);
        self.come_in(order);
    }

    /// Lets an order come in, or wait for trading in steps to end. The consequences for linked orders
    /// follow later.
    pub(super) fn come_in(&mut self, mut order: ModelOrder) {
        // 6.12, 27.18
        let id = order.instrument_id;
        if self.is_trading_in_steps(id) || self.comes_in_later(id) {
            order.place = Place::Auction;
            return self.orders.push(order);
        }
        self.come_in_now(order);
    }

    /// Lets an order that waited for other orders come in, under a new order id. (6.12)
    fn come_in_at_last(&mut self, mut order: ModelOrder) {
        let order_id_before = order.order_id;
        order.order_id = self.new_order_id();
        self.report_restated(&order, order_id_before, RestateReason::Ready);
        self.come_in_now(order);
    }

    fn come_in_now(&mut self, mut order: ModelOrder) {
        order.place = Place::Book;
        let mut why_not = self.phase_cancels(&order);
        if why_not.is_none() && !self.hold_without_limit(&mut order) {
            why_not = Some(CancelReason::Unpaid);
        }
        let after = match why_not {
            None => match self.come_in_with_minimum(order) {
                Some(after) => after,
                None => return,
            },
            Some(reason) => {
                self.cancel_incoming(&order, reason);
                order
            }
        };
        let has_executed = after.executed > order.executed;
        self.note_after(order, after, has_executed);
    }

    /// Notes, for its linked orders, the outcome of an order that came in.
    pub(super) fn note_after(&mut self, order: ModelOrder, after: ModelOrder, has_executed: bool) {
        if after.is_pegged() {
            return self.note_after_peg(order, after, has_executed);
        }
        if self.place_of(order.key).is_none() {
            // It is done; its entry stays in the list until the end of the command.
            self.bury(after);
        }
        self.note(&after, has_executed);
    }

    /// Notes that an order executed, or that another event concerned it. (22.4)
    pub(super) fn note(&mut self, order: &ModelOrder, has_executed: bool) {
        let has_executed = has_executed && order.instructions.partner != 0;
        let is_done = order.is_done();
        if !has_executed && !is_done {
            return;
        }
        match self.noted.iter_mut().find(|(key, _)| *key == order.key) {
            Some((_, executed)) => *executed |= has_executed,
            None => self.noted.push((order.key, has_executed)),
        }
    }

    /// Notes a trade of the continuous market. (20.4, 20.5)
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

    /// Carries out all consequences of the noted events. (22.4)
    pub(super) fn follow(&mut self) {
        // 36.12
        // 20.12
        let mut triggered_left = if self.is_line_left { 0 } else { TRIGGERED_MAX };
        let mut moves_left = if self.is_behind { 0 } else { MOVES_MAX };
        // 37.11
        let mut checks_left = if self.is_check_left { 0 } else { CHECKS_MAX };
        loop {
            // 6.14
            if !self.halves.is_empty() {
                (moves_left, checks_left) = (0, 0);
            }
            if !self.noted.is_empty() {
                let (key, has_executed) = self.noted.remove(0);
                self.follow_links(key, has_executed);
            } else if triggered_left > 0
                && let Some(place) = self.first_after_auctions()
            {
                // 6.12, 27.18
                triggered_left -= 1;
                self.act_if_open(place, Self::come_in_at_last);
            } else if triggered_left > 0 && !self.line.is_empty() {
                let key = self.line.remove(0);
                let is_meant =
                    |it: &ModelOrder| it.key == key && it.place == Place::Line && !it.is_done();
                if let Some(place) = self.orders.iter().position(is_meant) {
                    triggered_left -= 1;
                    self.act_if_open(place, Self::come_in_triggered);
                }
            } else if moves_left > 0
                && let Some(key) = self.next_to_move()
            {
                moves_left -= 1;
                self.move_order(key);
            } else if checks_left > 0 && self.look_at_minimums() {
                checks_left -= 1;
            } else {
                // Done orders leave the list. (6.9)
                self.orders.retain(|order| !order.is_done());
                self.is_behind = self.next_to_move().is_some();
                let orders = &self.orders;
                self.line.retain(|key| {
                    orders.iter().any(|it| it.key == *key && it.place == Place::Line)
                });
                let waits = self.orders.iter().any(|it| it.place == Place::Auction);
                self.is_line_left = !self.line.is_empty() || waits;
                self.is_check_left = !self.stirred.is_empty() || !self.minimum_line.is_empty();
                let is_left = self.is_line_left
                    || self.is_check_left
                    || self.is_behind
                    || self.has_cancels_left()
                    || !self.auctions.is_empty()
                    || !self.halves.is_empty();
                self.left_since_ns = is_left.then(|| self.left_since_ns.unwrap_or(self.now_ns));
                return;
            }
        }
    }

    /// The oldest order whose wait for trading in steps in its instrument is over. (6.12, 27.18)
    fn first_after_auctions(&self) -> Option<usize> {
        let places = 0..self.orders.len();
        let waits = |it: &ModelOrder| {
            it.place == Place::Auction
                && !it.is_done()
                && !self.is_trading_in_steps(it.instrument_id)
        };
        let waiting = places.filter(|place| waits(&self.orders[*place]));
        waiting.min_by_key(|place| self.orders[*place].order_id)
    }

    /// An order acts, or is canceled if no orders may be entered: a removed instrument is closed. (20.12, 31.3)
    fn act_if_open(&mut self, place: usize, act: impl FnOnce(&mut Self, ModelOrder)) {
        let ModelOrder { key, instrument_id, .. } = self.orders[place];
        let phase = self.market(instrument_id).phase;
        if !self.is_open() || [Phase::Halted, Phase::Closed].contains(&phase) {
            return self.cancel_all_of(key, CancelReason::ImmediateOrCancel);
        }
        let order = self.orders.remove(place);
        act(self, order);
    }

    fn follow_links(&mut self, key: OrderKey, has_executed: bool) {
        let Some(place) = self.place_of(key) else { return };
        if has_executed {
            let mut order = self.orders[place];
            self.cancel_partner_of(&mut order);
        }
        let place = self.place_of(key).expect("it was there above");
        let order = self.orders[place];
        if !order.is_done() {
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
            .filter(|it| is_sibling(it) && it.instructions.parent == name && !it.is_done())
            .map(|it| (it.order_id, it.key))
            .collect();
        children.sort();
        for (_, child) in children {
            let place = self.place_of(child).expect("it was found above");
            if self.orders[place].is_done() {
                // A partner that came in before it.
                continue;
            }
            self.orders[place].instructions.parent = 0;
            let partner = self.orders[place].sibling(self.orders[place].instructions.partner);
            let is_too_late = self.noted.iter().any(|(key, executed)| *executed && *key == partner);
            let phase = self.phase(self.orders[place].instrument_id);
            let is_taken = self.is_open()
                && ![None, Some(Phase::Halted), Some(Phase::Closed)].contains(&phase);
            // 36.13
            let waiting = &self.orders[place];
            let is_crowded = waiting.is_pegged() && !self.takes_another_peg(waiting);
            if order.executed == 0 || !is_taken || is_too_late || is_crowded {
                self.cancel_all_of(child, CancelReason::Linked);
                continue;
            }
            let too_much = self.orders[place].leaves().0.saturating_sub(order.executed);
            self.cancel(place, too_much, CancelReason::Linked);
            let mut child = self.orders.remove(place);
            let order_id_before = child.order_id;
            child.order_id = self.new_order_id();
            self.events.push(Event::Released(Released {
                key: child.key,
                order_id_before,
                order_id: child.order_id,
                instrument_id: child.instrument_id,
                parent: name,
                leaves: child.leaves(),
            }));
            self.begin(child);
        }
    }

    /// Cancels the partner of an order. If the partner has executed too, the consequences follow later. (21.1, 21.2)
    fn cancel_partner_of(&mut self, order: &mut ModelOrder) {
        let partner = order.sibling(order.instructions.partner);
        order.instructions.partner = 0;
        if let Some(place) = self.place_of(order.key) {
            self.orders[place].instructions.partner = 0;
        }
        let is_partner = |it: &ModelOrder| it.key == partner && !it.is_done();
        let has_executed = self.noted.iter().any(|(key, executed)| *executed && *key == partner);
        if let Some(place) = self.orders.iter().position(is_partner) {
            if !has_executed {
                self.orders[place].instructions.partner = 0;
            }
            self.cancel_or_wait(partner, CancelReason::Linked);
        }
    }
}

/// The turn of an order with this trigger: a fall before a rise, the nearest first.
fn turn(order: &ModelOrder, trigger: Option<u64>) -> (bool, u64) {
    match order.waits_for_fall() {
        true => (false, u64::MAX - trigger.unwrap_or(0)),
        false => (true, trigger.unwrap_or(u64::MAX)),
    }
}
