//! Which orders and replacements are accepted: sections 5 and 9 of the rules, and the conditions of
//! sections 15, 20 to 23 and 35 to 37 on an order's terms.

use market::Event;
use market::{
    Accepted, CancelReason, Conditions, Display, EnterOrder, Firm, Instructions, Instrument,
    OrderAttributes, OrderId, OrderKey, OrderType, Price, Pricing, RejectReason, ReplaceOrder,
    ReplaceTerms, Replaced, SessionId, Side, Ticks, TimeInForce,
};

use super::{Model, ModelOrder, PRICE_MAX, Place, is_price, same_side_of_book};

impl ModelOrder {
    /// An order as requested, before any event.
    fn asked(asked: &EnterOrder, instrument: &Instrument) -> Self {
        Self {
            order_id: OrderId(0),
            key: asked.key,
            instrument_id: instrument.instrument_id,
            side: asked.side,
            order_type: asked.order_type,
            time_in_force: asked.time_in_force,
            display: asked.display,
            price: asked.price,
            quantity: asked.quantity.0,
            executed: 0,
            canceled: 0,
            prevented: 0,
            held: 0,
            attributes: asked.attributes,
            conditions: asked.conditions,
            instructions: asked.instructions,
            part: None,
            bound: None,
            place: Place::Book,
            leaving: false,
            best: None,
        }
    }

    /// Is it all-or-none, or has it a minimum quantity? (15.1, 37.8)
    pub(super) fn asks_for_quantity(&self) -> bool {
        self.instructions.handling.is_all_or_none() || !self.conditions.minimum_quantity.is_zero()
    }

    fn is_immediate(&self) -> bool {
        matches!(self.time_in_force, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
    }

    /// Can it only trade as it comes in, so that a phase that collects takes no such order? (25.6)
    pub(super) fn trades_at_once(&self) -> bool {
        self.is_immediate()
            || self.order_type == OrderType::MarketToLimit
            || self.asks_for_quantity() && !self.may_rest()
    }

    /// Is this combination of terms offered? (5.7)
    fn is_offered(&self) -> bool {
        let handling = self.instructions.handling;
        let (all_or_none, slide) = (handling.is_all_or_none(), handling.slides());
        // 26.5
        let for_auction = self.time_in_force.is_for_auction()
            && self.order_type != OrderType::MarketToLimit
            && !all_or_none
            && !self.instructions.waits_outside();
        // 37.8, 37.9
        let is_odd = self.time_in_force.may_rest()
            && match self.order_type {
                OrderType::Limit => self.asks_for_quantity() && self.conditions.post_only,
                OrderType::MarketToLimit => all_or_none,
                OrderType::Market => false,
            };
        let is_odd_peg = self.is_pegged() && (all_or_none || slide);
        (!self.time_in_force.is_for_auction() || for_auction) && !is_odd && !is_odd_peg
    }

    /// Has it no minimum quantity, or a valid one? (15.1, 26.5, 36.4)
    fn minimum_fits(&self) -> bool {
        let may_have = !self.is_pegged()
            && !self.time_in_force.is_for_auction()
            && (self.is_immediate() || self.order_type != OrderType::MarketToLimit);
        let minimum = self.conditions.minimum_quantity;
        minimum.is_zero() || may_have && minimum.quantity() <= self.leaves()
    }

    /// Has it no shown part, or a valid one? (35.2)
    fn shown_part_fits(&self) -> bool {
        let Instructions { shown_quantity, shown_range, .. } = self.instructions;
        let (part, range) = (shown_quantity.quantity().0, u64::from(shown_range));
        (part, range) == (0, 0)
            || self.display != Display::Hidden && self.quantity <= 100 * part && part > range
    }

    /// If it is pegged, is its offset valid, without a trigger? (36.4)
    fn offset_fits(&self, instrument: &Instrument) -> bool {
        let distance = u64::from(self.instructions.offset.unsigned_abs());
        !self.is_pegged()
            || self.instructions.trigger == Ticks::ZERO
                && distance <= PRICE_MAX
                && distance.is_multiple_of(instrument.price_increment.0)
    }

    /// If it is pegged, may its type and life be pegged? (36.4)
    fn peg_fits(&self) -> bool {
        !self.is_pegged()
            || self.order_type != OrderType::MarketToLimit && self.time_in_force.may_rest()
    }

    /// Does its price fit its type? (5.4)
    fn price_fits(&self, instrument: &Instrument) -> bool {
        match self.order_type {
            OrderType::Market | OrderType::MarketToLimit => self.price == Price::ZERO,
            OrderType::Limit => is_price(instrument, self.price),
        }
    }

    /// Do trigger and offset fit its pricing? (20.7)
    fn trigger_fits(&self, instrument: &Instrument) -> bool {
        let Instructions { pricing, trigger, offset, .. } = self.instructions;
        let is_trigger = is_price(instrument, trigger.price());
        match pricing {
            Pricing::Limit => trigger == Ticks::ZERO && offset == 0,
            Pricing::Stop | Pricing::TakeProfit => is_trigger && offset == 0,
            Pricing::TrailingStop => {
                let Ok(distance) = u64::try_from(offset) else { return false };
                let trigger_fits = match trigger {
                    Ticks::ZERO => self.order_type != OrderType::Limit,
                    _ => is_trigger && (self.side != Side::Buy || trigger.price().0 > distance),
                };
                is_price(instrument, Price(distance)) && trigger_fits
            }
            Pricing::PrimaryPeg | Pricing::MarketPeg | Pricing::MidpointPeg => {
                trigger == Ticks::ZERO
            }
        }
    }
}

impl Model {
    pub(super) fn enter(&mut self, asked: &EnterOrder) {
        if !self.use_number(asked.key) {
            return;
        }
        self.count_asked(asked.key.session_id);
        let mut order = match self.accepted(asked) {
            Ok(order) => order,
            Err(reason) => {
                return self.reject(asked.key, reason, asked.attributes.client_order_id);
            }
        };
        self.note_size(asked.key.session_id);
        order.order_id = self.new_order_id();
        self.events.push(Event::Accepted(Accepted {
            key: order.key,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            order_type: order.order_type,
            time_in_force: order.time_in_force,
            display: order.display,
            quantity: asked.quantity.lots(),
            price: order.price.ticks(),
            attributes: order.attributes,
            conditions: order.conditions,
            instructions: order.instructions,
        }));
        order.forget_price();
        self.hold(&mut order);
        self.link(&order);
        self.begin(order);
    }

    /// The requested order, or the reason of the first check that it fails. (5.1)
    fn accepted(&self, asked: &EnterOrder) -> Result<ModelOrder, RejectReason> {
        let session_id = asked.key.session_id;
        self.may_enter(session_id, asked.attributes.firm)?;
        let instrument = self.listed(asked.symbol).ok_or(RejectReason::InvalidSymbol)?;
        let order = ModelOrder::asked(asked, instrument);
        self.instrument_takes(&order)?;
        self.terms_fit(&order)?;
        if !self.allowed_links(&order) {
            return Err(RejectReason::InvalidLink);
        }
        self.phase_takes(&order, None)?;
        let live_orders = self.orders.iter().filter(|it| it.key.session_id == session_id).count();
        let session = self.session(session_id).expect("it was looked up before");
        if live_orders >= session.live_orders_max as usize {
            return Err(RejectReason::TooManyOrders);
        }
        self.account_takes(&order, None)?;
        Ok(order)
    }

    /// Checks that a session may enter orders for a firm now. (2.2, 11.1)
    fn may_enter(&self, session_id: SessionId, firm: Firm) -> Result<(), RejectReason> {
        if !self.is_open() {
            return Err(RejectReason::MarketClosed);
        }
        let session = self.session(session_id).expect("it was looked up before");
        match session.firms_forbidden.contains(&self.firm_meant(session_id, firm)) {
            true => Err(RejectReason::EntryDisabled),
            false => Ok(()),
        }
    }

    /// Checks the conditions on an order's terms that do not depend on the market. (5.1)
    fn terms_fit(&self, order: &ModelOrder) -> Result<(), RejectReason> {
        let instrument = self.instrument(order.instrument_id);
        let quantity_fits = (1..=self.quantity_max(order.instrument_id)).contains(&order.quantity);
        // 36.3
        let display_fits = !order.is_pegged() || order.is_hidden();
        let expiry_fits = match order.time_in_force {
            // 23.3
            TimeInForce::GoodTillTime => order.expires_ns() > self.now_ns,
            _ => order.expires_ns() == 0,
        };
        let checks = [
            (quantity_fits, RejectReason::InvalidQuantity),
            (order.price_fits(instrument), RejectReason::InvalidPrice),
            (display_fits, RejectReason::InvalidDisplay),
            (order.minimum_fits(), RejectReason::InvalidMinimumQuantity),
            (order.shown_part_fits(), RejectReason::InvalidMaxFloor),
            (order.offset_fits(instrument), RejectReason::InvalidPegType),
            (order.peg_fits(), RejectReason::PeggingNotAllowed),
            (order.is_offered(), RejectReason::NotSupported),
            (expiry_fits, RejectReason::InvalidExpiry),
            (order.trigger_fits(instrument), RejectReason::InvalidTrigger),
        ];
        first_failed(&checks)
    }

    pub(super) fn replace(&mut self, asked: &ReplaceOrder) {
        let key = asked.key;
        let original_key = OrderKey { user_ref_num: asked.original_user_ref_num, ..key };
        // 9.1
        let Some(place) = self.place_of(original_key) else { return };
        if key.user_ref_num <= self.number_used(key.session_id, key.channel) {
            return;
        }
        // 9.2
        let original = self.orders[place];
        let allowed = self
            .may_enter(key.session_id, original.attributes.firm)
            .and_then(|()| self.instrument_takes(&original))
            .and_then(|()| match self.is_trading_in_steps(original.instrument_id) {
                // 6.12
                true => Err(RejectReason::NotInPhase),
                false => Ok(()),
            });
        if let Err(reason) = allowed {
            self.use_number(key);
            return self.reject(key, reason, asked.client_order_id());
        }
        // 9.3, 9.5
        let replacement = asked.terms.and_then(|terms| self.replacement(&original, &terms, key));
        let Some(mut order) = replacement else {
            return self.cancel(place, original.leaves().0, CancelReason::User);
        };
        self.count_asked(key.session_id);
        self.use_number(key);
        if let Err(reason) = self.account_takes(&order, Some(&original)) {
            return self.reject(key, reason, order.attributes.client_order_id);
        }
        order.order_id = self.new_order_id();
        self.orders.remove(place);
        self.rename(original.key, key.user_ref_num);
        // 9.9
        let in_place = order.may_rest()
            && original.place == Place::Book
            && !order.instructions.pricing.is_triggered()
            && !order.has_minimum()
            && original.is_displayed()
            && !order.is_hidden()
            && (self.is_collected(&order) || self.first_to_trade_with(&order).is_none())
            && self.shown_as(&order) == self.shown_as(&original);
        if in_place {
            order.part = order.first_part();
        }
        self.events.push(Event::Replaced(Replaced {
            key,
            original_user_ref_num: original.key.user_ref_num,
            original_order_id: original.order_id,
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
            order_type: order.order_type,
            time_in_force: order.time_in_force,
            display: order.display,
            in_place,
            original_displayed: original.is_displayed(),
            leaves: order.leaves().lots(),
            price: order.price.ticks(),
            client_order_id: order.attributes.client_order_id,
            firm: order.attributes.firm,
            capacity: order.attributes.capacity,
            conditions: order.conditions,
            instructions: order.instructions,
        }));
        // 42.5
        order.forget_price();
        self.let_go(&original);
        self.hold(&mut order);
        if in_place {
            self.stir(order.instrument_id);
            self.orders.push(order);
        } else {
            self.begin(order);
        }
    }

    /// The order that results from replacing another with these terms, if acceptable. (9.3 to 9.7)
    fn replacement(
        &self,
        original: &ModelOrder,
        terms: &ReplaceTerms,
        key: OrderKey,
    ) -> Option<ModelOrder> {
        // 26.6
        let time_in_force = match (original.time_in_force, terms.time_in_force) {
            (life, TimeInForce::Day) if life.is_for_auction() => life,
            (_, life) => life,
        };
        let order = ModelOrder {
            order_id: OrderId(0),
            key,
            side: terms.side.unwrap_or(original.side),
            order_type: terms.order_type,
            time_in_force,
            display: terms.display,
            price: terms.price,
            quantity: terms.quantity.0,
            canceled: 0,
            conditions: Conditions {
                // 15.5
                minimum_quantity: terms.conditions.minimum_quantity.unwrap_or_default(),
                ..terms.conditions.apply(original.conditions)
            },
            instructions: self.next_instructions(original, terms, time_in_force)?,
            part: None,
            bound: None,
            place: Place::Book,
            leaving: false,
            best: None,
            attributes: OrderAttributes {
                client_order_id: terms.client_order_id,
                shares_located: terms.shares_located,
                locate_broker: terms.locate_broker,
                ..original.attributes
            },
            ..*original
        };
        let is_acceptable = order.quantity > order.executed + order.prevented
            && same_side_of_book(order.side, original.side)
            && self.terms_fit(&order).is_ok()
            && self.phase_takes(&order, Some(original)).is_ok();
        is_acceptable.then_some(order)
    }
}

/// The reason of the first failed check.
pub(super) fn first_failed(checks: &[(bool, RejectReason)]) -> Result<(), RejectReason> {
    match checks.iter().find(|(passed, _)| !passed) {
        Some((_, reason)) => Err(*reason),
        None => Ok(()),
    }
}
