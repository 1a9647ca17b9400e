//! Random orders and replacements: terms that mostly fit each other, near the market.

use market::{
    Capacity, ClientOrderId, Command, ConditionChanges, Conditions, CustomerType, Display,
    EnterOrder, Firm, Instructions, Lots, OrderAttributes, OrderType, Price, Pricing, Quantity,
    ReplaceTerms, SelfMatchGroup, SelfMatchPrevention, Side, Ticks, TimeInForce,
};

use super::{CommandFlow, LiveOrder, PRICE_MAX, QUANTITY_LIMIT, replace, symbol, text};

impl CommandFlow {
    pub(super) fn enter(&mut self) -> Command {
        let key = self.any_next_key();
        let instrument = self.any_instrument();
        let side = self.any_side();
        let (order_type, time_in_force) = match self.rng.below(20) {
            0 => (OrderType::Market, TimeInForce::Day),
            1 => (OrderType::Market, TimeInForce::ImmediateOrCancel),
            2 => (OrderType::Limit, TimeInForce::ImmediateOrCancel),
            _ => self.resting_kind(),
        };
        let price = self.price_of_type(order_type, instrument, side);
        let quantity = self.quantity();
        let at_once = order_type == OrderType::Market || !time_in_force.may_rest();
        let mut order = EnterOrder {
            key,
            side,
            order_type,
            time_in_force,
            display: self.display(),
            quantity: Quantity(quantity),
            price,
            symbol: symbol(instrument),
            attributes: self.attributes(),
            conditions: self.conditions(at_once, quantity),
            instructions: self.instructions(),
        };
        if self.rng.chance(self.profile.good_till_time_percent, 100) {
            self.limit_life(&mut order.time_in_force, &mut order.instructions);
        }
        if self.rng.chance(self.profile.waits_percent, 100) {
            self.tie(&mut order, instrument);
        }
        if self.profile.pegs_percent > 0 && self.rng.chance(self.profile.pegs_percent, 100) {
            self.peg(&mut order.instructions, &mut order.display);
            let mut price = order.price;
            self.bound(&mut order.order_type, &mut price, &mut order.time_in_force);
            order.price = price;
        }
        if self.rng.chance(self.profile.minimum_percent, 100) {
            self.take_minimum(
                &mut order.instructions,
                &mut order.conditions.minimum_quantity,
                &mut order.conditions.post_only,
                quantity,
            );
        }
        let rests = order.order_type == OrderType::Limit && order.time_in_force.may_rest();
        let is_for_auction = order.time_in_force.is_for_auction();
        if rests || is_for_auction || order.instructions.waits_outside() {
            self.live.push(LiveOrder { key: order.key, instrument, side: order.side, quantity });
        }
        Command::Enter(order)
    }

    /// Sets an expiry: mostly a time that is near, sometimes an invalid one.
    fn limit_life(&mut self, time_in_force: &mut TimeInForce, instructions: &mut Instructions) {
        let now_s = self.profile.starts_s + (self.issued / self.profile.commands_per_second) as u32;
        if time_in_force.may_rest() || self.rng.chance(1, 40) {
            *time_in_force = TimeInForce::GoodTillTime;
        }
        if *time_in_force == TimeInForce::GoodTillTime || self.rng.chance(1, 40) {
            instructions.expires_s = match self.rng.below(40) {
                0 => 0,
                1 => now_s.saturating_sub(1),
                2 => u32::MAX,
                _ => now_s + self.rng.range(1, 30) as u32,
            };
        }
    }

    /// Gives an order a trigger, a parent, a partner, or several of these.
    fn tie(&mut self, order: &mut EnterOrder, instrument: usize) {
        let what = self.rng.below(10);
        let mut waits_in = instrument;
        if what >= 5 {
            // Mostly to an order of the same instrument.
            let Some(mut other) = self.any_live() else { return };
            for _ in 0..8 {
                if other.instrument != instrument {
                    other = self.any_live().expect("there was one above");
                }
            }
            order.key = self.next_key_of(other.key.session_id, other.key.channel);
            order.symbol = symbol(other.instrument);
            if self.rng.chance(1, 60) {
                order.symbol = symbol(instrument);
            }
            if what <= 7 {
                order.instructions.parent = other.key.user_ref_num;
                if self.rng.chance(9, 10) {
                    order.side = if other.side.is_buy() { self.kind_of_sell() } else { Side::Buy };
                }
                // The other leg of a bracket follows directly.
                if let Some(leg) = self.live.iter().rev().take(8).find(|it| {
                    it.key.session_id == other.key.session_id
                        && it.key.channel == other.key.channel
                        && it.key.user_ref_num > other.key.user_ref_num
                        && it.side.is_buy() == order.side.is_buy()
                }) {
                    order.instructions.partner = leg.key.user_ref_num;
                }
            } else {
                order.instructions.partner = other.key.user_ref_num;
                if self.rng.chance(1, 2) {
                    order.side = other.side;
                }
            }
            if order.order_type == OrderType::Limit {
                order.price = self.price(other.instrument, order.side);
            }
            if self.rng.chance(1, 3) {
                return;
            }
            waits_in = other.instrument;
        }
        self.wait(&mut order.instructions, order.order_type, order.side, waits_in);
    }

    /// Gives an order a trigger near the market, on either side of it.
    fn wait(
        &mut self,
        instructions: &mut Instructions,
        order_type: OrderType,
        side: Side,
        instrument: usize,
    ) {
        let pricings = [Pricing::Stop, Pricing::TakeProfit, Pricing::TrailingStop];
        instructions.pricing = *self.rng.pick(&pricings);
        let waits_for_fall = side.is_buy() == (instructions.pricing == Pricing::TakeProfit);
        let sided = if waits_for_fall { Side::Buy } else { Side::Sell };
        instructions.trigger = Ticks(self.price(instrument, sided).0 as u32);
        if instructions.pricing == Pricing::TrailingStop {
            let increment = self.profile.price_increment.0;
            instructions.offset = (self.rng.range(1, self.profile.spread) * increment) as i32;
            if order_type != OrderType::Limit && self.rng.chance(3, 4) {
                instructions.trigger = Ticks::ZERO;
            }
        }
        match self.rng.below(60) {
            0 => instructions.trigger = Ticks::ZERO,
            1 => instructions.trigger.0 += 1,
            2 => instructions.offset += 1,
            3 => instructions.offset = -instructions.offset,
            _ => {}
        }
    }

    /// Pegs an order near a market price.
    fn peg(&mut self, instructions: &mut Instructions, display: &mut Display) {
        let pricings = [Pricing::PrimaryPeg, Pricing::MarketPeg, Pricing::MidpointPeg];
        instructions.pricing = *self.rng.pick(&pricings);
        let increment = self.profile.price_increment.0 as i32;
        instructions.offset = match self.rng.below(4) {
            0 => 0,
            1 => increment * (self.rng.below(2 * self.profile.spread) as i32 + 1),
            _ => increment * (self.rng.below(9) as i32 - 4),
        };
        instructions.trigger = Ticks::ZERO;
        if !self.rng.chance(1, 40) {
            *display = Display::Hidden;
            (instructions.shown_quantity, instructions.shown_range) = (Lots::ZERO, 0);
        }
        match self.rng.below(60) {
            0 => instructions.offset += 1,
            1 => instructions.offset = -instructions.offset,
            2 => instructions.offset = *self.rng.pick(&[i32::MIN, i32::MAX]),
            3 => instructions.trigger = Ticks(self.profile.price_increment.0 as u32),
            _ => {}
        }
    }

    /// Sets type, price and life of a pegged order: mostly valid ones, a third of them without
    /// a bound.
    fn bound(
        &mut self,
        order_type: &mut OrderType,
        price: &mut Price,
        time_in_force: &mut TimeInForce,
    ) {
        if !time_in_force.may_rest() && !self.rng.chance(1, 8) {
            *time_in_force = TimeInForce::Day;
        }
        let is_unbounded = match order_type {
            OrderType::MarketToLimit => !self.rng.chance(1, 8),
            OrderType::Limit => self.rng.chance(1, 3),
            OrderType::Market => false,
        };
        if is_unbounded {
            (*order_type, *price) = (OrderType::Market, Price::ZERO);
        } else if *order_type == OrderType::Limit {
            // Mostly beyond the market, so that the bound takes effect now and then.
            let increment = self.profile.price_increment.0;
            let (number, highest) = (price.0 / increment, PRICE_MAX / increment);
            let away = self.rng.below(2 * self.profile.spread);
            let number = match self.rng.chance(1, 2) {
                true => number.saturating_sub(away).max(1),
                false => (number + away).min(highest),
            };
            *price = Price(number * increment);
        }
    }

    /// Makes an order all-or-none, gives it a minimum quantity, or lets it slide.
    fn take_minimum(
        &mut self,
        instructions: &mut Instructions,
        minimum_quantity: &mut Lots,
        post_only: &mut bool,
        quantity: u64,
    ) {
        *post_only = self.rng.chance(1, 30);
        match self.rng.below(9) {
            0..=2 => instructions.handling = instructions.handling.with_all_or_none(),
            3..=5 => {
                let most = quantity.clamp(1, self.profile.quantity_scale << 20);
                *minimum_quantity = Lots::new(self.rng.range(1, most.min(QUANTITY_LIMIT)));
            }
            _ => {
                instructions.handling = instructions.handling.with_slide();
                *post_only = self.rng.chance(9, 10);
            }
        }
    }

    /// Type and life of an order that may rest: mostly a limit for the day.
    fn resting_kind(&mut self) -> (OrderType, TimeInForce) {
        use {OrderType::*, TimeInForce::*};
        if self.profile.venue_per_mille > 0 && self.rng.chance(1, 8) {
            let order_type = self.rng.weighted(&[(1, MarketToLimit), (4, Market), (15, Limit)]);
            let lives = [(1, AtTheOpen), (1, AtTheClose), (2, GoodForAuction)];
            return (order_type, self.rng.weighted(&lives));
        }
        if !self.rng.chance(self.profile.beyond_ouch_percent, 100) {
            return (Limit, Day);
        }
        self.rng.weighted(&[
            (1, (Limit, FillOrKill)),
            (1, (MarketToLimit, Day)),
            (1, (MarketToLimit, ImmediateOrCancel)),
            (3, (Limit, GoodTillCancel)),
        ])
    }

    pub(super) fn replace(&mut self, order: LiveOrder) -> Command {
        let key = self.next_key_of(order.key.session_id, order.key.channel);
        let terms = self.terms(order);
        let rests = terms.order_type == OrderType::Limit && terms.time_in_force.may_rest();
        let waits = terms.instructions.is_some_and(|it| it.waits_outside());
        if rests || waits || terms.time_in_force.is_for_auction() {
            self.live.push(LiveOrder { key, quantity: terms.quantity.0, ..order });
        }
        replace(order.key, key, Some(terms))
    }

    pub(super) fn terms(&mut self, order: LiveOrder) -> ReplaceTerms {
        let (order_type, time_in_force) = match self.rng.below(30) {
            0 => (OrderType::Market, TimeInForce::Day),
            1 => (OrderType::Limit, TimeInForce::ImmediateOrCancel),
            _ => self.resting_kind(),
        };
        let price = self.price_of_type(order_type, order.instrument, order.side);
        let side = match order.side {
            Side::Buy => None,
            _ if self.rng.chance(3, 4) => None,
            _ => Some(self.kind_of_sell()),
        };
        let quantity = self.quantity();
        let at_once = order_type == OrderType::Market || !time_in_force.may_rest();
        let mut terms = ReplaceTerms {
            side,
            order_type,
            time_in_force,
            display: self.display(),
            quantity: Quantity(quantity),
            price,
            client_order_id: self.client_order_id(),
            shares_located: self.rng.chance(1, 4),
            locate_broker: if self.rng.chance(1, 8) { text("LEND") } else { Firm::BLANK },
            conditions: self.condition_changes(at_once, quantity),
            instructions: self.rng.chance(1, 4).then(|| self.instructions()),
        };
        if self.rng.chance(self.profile.good_till_time_percent, 100) {
            let mut instructions = terms.instructions.unwrap_or_default();
            self.limit_life(&mut terms.time_in_force, &mut instructions);
            // Half of them keep the previous expiry.
            terms.instructions = self.rng.chance(1, 2).then_some(instructions);
        }
        if self.rng.chance(self.profile.waits_percent, 200) {
            let instructions = terms.instructions.get_or_insert_default();
            self.wait(instructions, terms.order_type, order.side, order.instrument);
            if self.rng.chance(1, 20) {
                instructions.partner = 1;
            }
        }
        if self.profile.pegs_percent > 0 {
            if self.rng.chance(self.profile.pegs_percent, 200) {
                self.peg(terms.instructions.get_or_insert_default(), &mut terms.display);
                self.bound(&mut terms.order_type, &mut terms.price, &mut terms.time_in_force);
            } else if self.rng.chance(1, 2) {
                // The replacement of a pegged order may stay pegged.
                terms.display = Display::Hidden;
            }
        }
        if self.rng.chance(self.profile.minimum_percent, 100) {
            let instructions = terms.instructions.get_or_insert_default();
            let minimum = terms.conditions.minimum_quantity.insert(Lots::ZERO);
            let post_only = terms.conditions.post_only.insert(false);
            self.take_minimum(instructions, minimum, post_only, quantity);
        }
        terms
    }

    /// The price for an order of this type; none for a market order.
    fn price_of_type(&mut self, order_type: OrderType, instrument: usize, side: Side) -> Price {
        match order_type {
            OrderType::Limit => self.price(instrument, side),
            OrderType::Market | OrderType::MarketToLimit => Price::ZERO,
        }
    }

    /// A price near the middle, a little through it, or anywhere. Each call may move the middle.
    pub(super) fn price(&mut self, instrument: usize, side: Side) -> Price {
        let highest = PRICE_MAX / self.profile.price_increment.0;
        let spread = self.profile.spread;
        let mid = &mut self.mids[instrument];
        *mid = match self.rng.below(8) {
            0 => *mid + 1,
            1 => mid.saturating_sub(1),
            _ => *mid,
        };
        if self.rng.chance(self.profile.jumps_per_million, 1_000_000) {
            *mid = self.rng.range(1, highest);
        }
        *mid = (*mid).clamp(1 + spread.min(highest / 4), highest - spread.min(highest / 4));
        let mid = *mid;
        if self.rng.chance(self.profile.far_per_mille, 1_000) {
            return Price(self.rng.range(1, highest) * self.profile.price_increment.0);
        }
        // Most prices are near: the smaller of two distances.
        let distance = self.rng.below(spread).min(self.rng.below(spread));
        let through = self.rng.chance(1, 8);
        let below = side.is_buy() != through;
        let number = if below { mid.saturating_sub(distance) } else { mid + distance };
        Price(number.clamp(1, highest) * self.profile.price_increment.0)
    }

    pub(super) fn quantity(&mut self) -> u64 {
        if self.profile.lots_each > 0 {
            return self.profile.lots_each;
        }
        let (scale, most) = (self.profile.quantity_scale, self.profile.quantity_max());
        let lots = match self.rng.below(50) {
            0 => self.rng.range(1, most),
            1..=20 => 100 * scale * self.rng.range(1, 10),
            _ => scale * self.rng.range(1, 100),
        };
        if scale == 1 {
            return lots;
        }
        // Numbers of large quantities are mostly not round, and sometimes the largest.
        match self.rng.below(20) {
            0 => most,
            1 => most + 1,
            2..=5 => lots.min(most),
            _ => (lots - self.rng.below(scale)).clamp(1, most),
        }
    }

    fn attributes(&mut self) -> OrderAttributes {
        OrderAttributes {
            client_order_id: self.client_order_id(),
            firm: self.firm(),
            capacity: *self.rng.pick(Capacity::ALL),
            customer_type: *self.rng.pick(CustomerType::ALL),
            group_id: self.group_id(),
            shares_located: self.rng.chance(1, 4),
            locate_broker: if self.rng.chance(1, 8) { text("LEND") } else { Firm::BLANK },
        }
    }

    /// Instructions: mostly none; most of the rest make reserve orders.
    fn instructions(&mut self) -> Instructions {
        if !self.rng.chance(self.profile.conditions_percent, 100) || self.rng.chance(1, 2) {
            return Instructions::NONE;
        }
        let shown = self.rng.range(1, 40) * self.profile.quantity_scale;
        let range = match self.rng.below(3) {
            0 => self.rng.below(shown),
            _ => 0,
        };
        let (shown, range) = match self.rng.below(40) {
            0 => (shown, shown),
            1 => (0, shown),
            2 => (QUANTITY_LIMIT, 0),
            _ => (shown, range),
        };
        let shown_range = u32::try_from(range).unwrap_or(u32::MAX);
        Instructions { shown_quantity: Lots::new(shown), shown_range, ..Instructions::NONE }
    }

    fn conditions(&mut self, at_once: bool, quantity: u64) -> Conditions {
        if !self.rng.chance(self.profile.conditions_percent, 100) {
            return Conditions::NONE;
        }
        Conditions {
            self_match_prevention: self.self_match_prevention(),
            self_match_group: self.self_match_group(),
            post_only: self.rng.chance(1, 4),
            minimum_quantity: self.minimum_quantity(at_once, quantity),
        }
    }

    fn condition_changes(&mut self, at_once: bool, quantity: u64) -> ConditionChanges {
        if !self.rng.chance(self.profile.conditions_percent, 100) {
            return ConditionChanges::NONE;
        }
        ConditionChanges {
            self_match_prevention: self.rng.chance(1, 2).then(|| self.self_match_prevention()),
            self_match_group: self.rng.chance(1, 4).then(|| self.self_match_group()),
            post_only: self.rng.chance(1, 3).then(|| self.rng.chance(1, 3)),
            minimum_quantity: self
                .rng
                .chance(1, 3)
                .then(|| self.minimum_quantity(at_once, quantity)),
        }
    }

    /// A minimum quantity, mostly a valid one for the order.
    fn minimum_quantity(&mut self, at_once: bool, quantity: u64) -> Lots {
        let quantity = quantity.min(self.profile.quantity_max());
        match self.rng.below(20) {
            0 => Lots::new(self.rng.below(1 << 48)),
            1..=2 => Lots::new(quantity),
            _ if at_once => Lots::new(self.rng.below(quantity + 1)),
            _ => Lots::ZERO,
        }
    }

    fn self_match_prevention(&mut self) -> SelfMatchPrevention {
        *self.rng.pick(SelfMatchPrevention::ALL)
    }

    /// A self-match group: mostly none, so that orders meet orders of their group.
    fn self_match_group(&mut self) -> SelfMatchGroup {
        self.rng.weighted(&[(1, text("G1")), (3, SelfMatchGroup::BLANK)])
    }

    pub(super) fn client_order_id(&mut self) -> ClientOrderId {
        match self.rng.below(4) {
            0 => ClientOrderId::BLANK,
            _ => text(&format!("C{}", self.rng.below(1_000_000))),
        }
    }

    pub(super) fn group_id(&mut self) -> u16 {
        self.rng.below(4) as u16
    }

    /// A firm, mostly the session's own.
    pub(super) fn firm(&mut self) -> Firm {
        let own = self.profile.firm;
        self.rng.weighted(&[(1, text("ACME")), (1, text("BETA")), (2, own), (6, Firm::BLANK)])
    }

    pub(super) fn display(&mut self) -> Display {
        self.rng.weighted(&[
            (2, Display::Attributable),
            (1, Display::Hidden),
            (7, Display::Visible),
        ])
    }
}
