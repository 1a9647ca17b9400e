//! The venue's own doings as one would explain them: phases, auctions, bands, and what it cancels,
//! blocks and undoes.
//!
//! An auction is found by trying every price that somebody named, each time by going through all
//! orders.

use std::collections::BTreeMap;

use market::{
    AccountId, Allocation, AuctionTrade, BlockEntry, CancelReason, CollarSet, ConfigureInstrument,
    Event, Indicated, Indication, Instrument, InstrumentChange, InstrumentChanged, InstrumentId,
    OrderKey, OrderType, Phase, PhaseCause, PhaseChanged, Price, Quantity, RejectReason, Scope,
    SessionId, SetPhase, Side, Symbol, TimeInForce, TradeId, Traded, Uncrossed, VenueCommand,
    VenueDecline, VenueDeclineReason, VenueEvent,
};

use super::{
    Model, ModelOrder, PRICE_MAX, QUANTITY_MAX, allowed_price, is_hidden, same_side_of_book,
};

/// How many blocks there may be (32.5).
const BLOCKS_MAX: usize = 256;

/// The most lots that an instrument may let an order have.
const QUANTITY_LIMIT: u64 = (1 << 28) - 1;

const SECOND: u64 = 1_000_000_000;

/// How an instrument is traded now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Market {
    pub(super) phase: Phase,
    pub(super) removed: bool,
    static_band: u64,
    dynamic_band: u64,
    pause: u64,
    collar: u64,
    quantity_max: u64,
    notional_max: u64,
    /// 36.13
    pegs_max: u64,
    session_pegs_max: u64,
    /// Pro rata, or by time. (38.1)
    pub(super) allocation: Allocation,
    /// In millionths. (38.2)
    pub(super) time_share: u64,
    /// 0 is none.
    reference: u64,
    /// 0 is none yet, since there is a dynamic band.
    last: u64,
    /// When the auction is over by itself.
    ends: Option<u64>,
    /// Is that moment the venue's own? (25.9)
    scheduled: bool,
    /// When the auction is looked at again.
    looks: Option<u64>,
    widened: u64,
    told: Indication,
}

impl Default for Market {
    fn default() -> Self {
        Self {
            phase: Phase::Continuous,
            removed: false,
            static_band: 0,
            dynamic_band: 0,
            pause: 0,
            collar: 0,
            quantity_max: 0,
            notional_max: 0,
            pegs_max: 1_024,
            session_pegs_max: 256,
            allocation: Allocation::PriceTime,
            time_share: 0,
            reference: 0,
            last: 0,
            ends: None,
            scheduled: false,
            looks: None,
            widened: 0,
            told: Indication::default(),
        }
    }
}

impl Market {
    /// 29.1, 29.2
    fn is_within_bands(&self, price: Price) -> bool {
        let last = if self.last == 0 { self.reference } else { self.last };
        is_near(price, self.reference, self.static_band) && is_near(price, last, self.dynamic_band)
    }

    /// The prices between which the bands let the market trade. (29.1, 29.2)
    pub(super) fn reach(&self) -> (u64, u64) {
        let last = if self.last == 0 { self.reference } else { self.last };
        let bands = [(self.reference, self.static_band), (last, self.dynamic_band)];
        let (mut low, mut high) = (0, PRICE_MAX);
        for (middle, parts) in bands {
            if middle > 0 && parts > 0 {
                let away = middle * parts / 1_000_000;
                low = low.max(middle.saturating_sub(away));
                high = high.min(middle + away);
            }
        }
        (low, high)
    }

    /// 29.6
    fn collar(&self) -> Option<(Price, Price)> {
        if self.reference == 0 || self.static_band == 0 {
            return None;
        }
        let parts = (self.static_band * (self.widened + 1)).min(u64::from(u32::MAX));
        let away = self.reference * parts / 1_000_000;
        let low = self.reference.saturating_sub(away);
        Some((Price(low), Price(PRICE_MAX.min(self.reference + away))))
    }
}

/// What an order asks for, as far as its instrument looks at it.
pub(super) struct Asked {
    pub(super) side: Side,
    pub(super) order_type: OrderType,
    pub(super) time_in_force: TimeInForce,
    pub(super) has_minimum: bool,
    /// Does its price follow the market?
    pub(super) follows: bool,
    /// Does it replace one whose price does?
    pub(super) replaces_one_that_follows: bool,
    pub(super) session_id: SessionId,
    pub(super) quantity: u64,
    pub(super) price: Price,
}

/// Which rule decided the price of an auction.
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

/// Without a price or a bound everything is near.
fn is_near(price: Price, other: u64, millionths: u64) -> bool {
    other == 0 || millionths == 0 || price.0.abs_diff(other) <= other * millionths / 1_000_000
}

/// Is it an order that rests beside the book? (25.7, 26.2)
pub(super) fn is_beside(order: &ModelOrder) -> bool {
    order.place == super::Place::Book
        && (order.time_in_force.is_for_auction() || order.order_type == OrderType::Market)
}

/// 25.2
const NEXT: [(Phase, &[Phase]); 7] = [
    (Phase::PreOpen, &[Phase::OpeningAuction, Phase::Continuous, Phase::Halted, Phase::Closed]),
    (Phase::OpeningAuction, &[Phase::Continuous, Phase::Halted]),
    (
        Phase::Continuous,
        &[
            Phase::PreOpen,
            Phase::OpeningAuction,
            Phase::VolatilityAuction,
            Phase::Halted,
            Phase::ClosingAuction,
            Phase::Closed,
        ],
    ),
    (Phase::VolatilityAuction, &[Phase::Continuous, Phase::Halted, Phase::ClosingAuction]),
    (
        Phase::Halted,
        &[
            Phase::PreOpen,
            Phase::OpeningAuction,
            Phase::Continuous,
            Phase::VolatilityAuction,
            Phase::ClosingAuction,
            Phase::Closed,
        ],
    ),
    (Phase::ClosingAuction, &[Phase::Halted, Phase::Closed]),
    (Phase::Closed, &[Phase::PreOpen]),
];

/// 25.5
fn collects(phase: Phase) -> bool {
    phase == Phase::PreOpen || is_auction(phase)
}

fn is_auction(phase: Phase) -> bool {
    [Phase::OpeningAuction, Phase::VolatilityAuction, Phase::ClosingAuction].contains(&phase)
}

impl Model {
    /// The orders of an instrument that are for an auction only, by number.
    #[must_use]
    pub fn auction_orders(&self, instrument_id: InstrumentId) -> Vec<ModelOrder> {
        let meant = |order: &&ModelOrder| order.instrument_id == instrument_id && is_beside(order);
        let mut orders: Vec<_> = self.orders.iter().filter(meant).copied().collect();
        orders.sort_by_key(|order| order.order_id);
        orders
    }

    /// How often each rule decided the price of an auction.
    #[must_use]
    pub fn auction_steps(&self) -> &BTreeMap<AuctionStep, u64> {
        &self.auction_steps
    }

    /// What the market of an instrument does; `None` if it was removed.
    #[must_use]
    pub fn phase(&self, instrument_id: InstrumentId) -> Option<Phase> {
        let market = self.market(instrument_id);
        (!market.removed).then_some(market.phase)
    }

    pub(super) fn market(&self, instrument_id: InstrumentId) -> &Market {
        &self.markets[usize::from(instrument_id.0) - 1]
    }

    fn market_mut(&mut self, instrument_id: InstrumentId) -> &mut Market {
        &mut self.markets[usize::from(instrument_id.0) - 1]
    }

    /// The instrument of a symbol, if it was not removed.
    pub(super) fn listed(&self, symbol: Symbol) -> Option<&Instrument> {
        self.instruments
            .iter()
            .find(|it| it.symbol == symbol && !self.market(it.instrument_id).removed)
    }

    pub(super) fn venue(&mut self, command: &VenueCommand, events: &mut Vec<Event>) {
        let done = match command {
            VenueCommand::SetPhase(asked) => self.set_phase(asked, events),
            VenueCommand::ConfigureInstrument(asked) => self.configure(asked, events),
            VenueCommand::RemoveInstrument(asked) => {
                let scope = Scope { symbol: asked.symbol, ..Scope::ALL };
                match self.listed(asked.symbol).map(|it| it.instrument_id) {
                    None => Err(VenueDeclineReason::UnknownInstrument),
                    Some(instrument_id) => {
                        self.cancel_scope(&scope, events);
                        *self.market_mut(instrument_id) =
                            Market { phase: Phase::Closed, removed: true, ..Market::default() };
                        tell(VenueEvent::InstrumentRemoved(instrument_id), events);
                        Ok(())
                    }
                }
            }
            VenueCommand::SupervisoryCancel(scope) => match self.wrong_with(scope) {
                Some(reason) => Err(reason),
                None => {
                    self.cancel_scope(scope, events);
                    Ok(())
                }
            },
            VenueCommand::BlockEntry(asked) => self.block(asked, events),
            VenueCommand::BustTrade(asked) => self.bust_trade(asked.trade_id, asked.reason, events),
            VenueCommand::CorrectTrade(asked) => self.correct(asked, events),
            // 32.6
            VenueCommand::KillSwitch(asked) => {
                let known = asked.blocked && self.blocks.contains(&asked.scope);
                let done = if known { Ok(()) } else { self.block(asked, events) };
                if asked.blocked && done.is_ok() {
                    self.cancel_scope(&asked.scope, events);
                }
                done
            }
            // 3.5
            VenueCommand::SetLiveOrdersMax(asked) => {
                match self.sessions.get_mut(usize::from(asked.session_id.0).wrapping_sub(1)) {
                    None => Err(VenueDeclineReason::UnknownSession),
                    Some(session) => {
                        session.live_orders_max = asked.live_orders_max;
                        tell(VenueEvent::LiveOrdersMaxSet(*asked), events);
                        Ok(())
                    }
                }
            }
            // 3.6
            VenueCommand::LogOut(session_id) => match self.session(*session_id) {
                None => Err(VenueDeclineReason::UnknownSession),
                Some(_) => {
                    tell(VenueEvent::LoggedOut(*session_id), events);
                    Ok(())
                }
            },
        };
        if let Err(reason) = done {
            tell(VenueEvent::Declined(VenueDecline { reason }), events);
        }
    }

    fn set_phase(
        &mut self,
        asked: &SetPhase,
        events: &mut Vec<Event>,
    ) -> Result<(), VenueDeclineReason> {
        // 25.9
        if asked.release_s > 0 && !is_auction(asked.phase) {
            return Err(VenueDeclineReason::InvalidValue);
        }
        let named = self.listed(asked.symbol).map(|it| it.instrument_id);
        if !asked.symbol.is_blank() && named.is_none() {
            return Err(VenueDeclineReason::UnknownInstrument);
        }
        let mut is_next = false;
        for instrument in self.instruments.clone() {
            let id = instrument.instrument_id;
            let from = self.market(id).phase;
            let next = NEXT.iter().find(|(phase, _)| *phase == from).expect("all are there").1;
            let meant = named.is_none_or(|named| named == id) && !self.market(id).removed;
            if meant && next.contains(&asked.phase) {
                is_next = true;
                self.go_on(id, asked, PhaseCause::Command, events);
            }
        }
        if named.is_some() && !is_next {
            return Err(VenueDeclineReason::PhaseNotNext);
        }
        Ok(())
    }

    fn go_on(
        &mut self,
        id: InstrumentId,
        asked: &SetPhase,
        cause: PhaseCause,
        events: &mut Vec<Event>,
    ) {
        let to = asked.phase;
        let from = self.market(id).phase;
        // 27.1
        if to == Phase::Continuous || (from == Phase::ClosingAuction && to == Phase::Closed) {
            self.hold_auction(id, from, events);
        }
        // 26.4
        let is_over = |order: &ModelOrder| match to {
            Phase::Continuous => order.time_in_force != TimeInForce::AtTheClose,
            Phase::Closed => true,
            _ => false,
        };
        let mut over: Vec<OrderKey> = self
            .orders
            .iter()
            .filter(|it| it.instrument_id == id && it.leaves() > Quantity::ZERO)
            .filter(|it| is_beside(it) && is_over(it))
            .map(|it| it.key)
            .collect();
        over.sort();
        for key in over {
            let place = self.place_of(key).expect("it was found live");
            let leaves = self.orders[place].leaves().0;
            self.cancel(place, leaves, CancelReason::Expired, events);
        }
        self.begin_phase(id, asked, cause, events);
        if is_auction(to) {
            self.look_at_auction(id, true, events);
        }
    }

    pub(super) fn begin_phase(
        &mut self,
        id: InstrumentId,
        asked: &SetPhase,
        cause: PhaseCause,
        events: &mut Vec<Event>,
    ) {
        let SetPhase { phase: to, reason, release_s, .. } = *asked;
        let now_ns = self.now_ns;
        let market = self.market_mut(id);
        let from = market.phase;
        let scheduled = release_s > 0;
        let seconds = match to {
            _ if scheduled => u64::from(release_s),
            Phase::VolatilityAuction => market.pause,
            _ => 0,
        };
        *market = Market {
            phase: to,
            ends: (seconds > 0).then(|| now_ns + seconds * SECOND),
            scheduled,
            looks: None,
            widened: 0,
            told: Indication::default(),
            ..*market
        };
        let changed = PhaseChanged { instrument_id: id, from, to, cause, reason };
        tell(VenueEvent::PhaseChanged(changed), events);
        if to == Phase::VolatilityAuction {
            self.report_collar(id, events);
        }
        if from == Phase::Continuous {
            self.suspend(id, events);
        }
        self.stir(id);
    }

    fn report_collar(&self, id: InstrumentId, events: &mut Vec<Event>) {
        let market = self.market(id);
        if let Some((low, high)) = market.collar() {
            let reference_price = Price(market.reference);
            let extension = market.widened as u32;
            let collar = CollarSet { instrument_id: id, reference_price, low, high, extension };
            tell(VenueEvent::CollarSet(collar), events);
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

    /// The orders of a side that take part in the auction.
    fn taking_part(&self, id: InstrumentId, side: Side, phase: Phase) -> Vec<ModelOrder> {
        self.orders
            .iter()
            .filter(|it| it.instrument_id == id && same_side_of_book(it.side, side))
            .filter(|it| it.place == super::Place::Book)
            .filter(|it| it.leaves() > Quantity::ZERO && Self::takes_part(it, phase))
            .copied()
            .collect()
    }

    /// The auction's price and lots, found by trying every price, and the rule that decided.
    fn would_come_to(&self, id: InstrumentId, phase: Phase) -> (Indication, AuctionStep) {
        let [buys, sells] = [Side::Buy, Side::Sell].map(|side| self.taking_part(id, side, phase));
        let reference = self.market(id).reference;
        let instrument = &self.instruments[usize::from(id.0) - 1];
        let mut prices: Vec<u64> = buys.iter().chain(&sells).map(|it| it.price.0).collect();
        prices.push(reference);
        prices.retain(|price| allowed_price(instrument, OrderType::Limit, Price(*price)));
        prices.sort_unstable();
        prices.dedup();
        let lots = |orders: &[ModelOrder], price: u64| -> u64 {
            let willing = orders.iter().filter(|it| it.accepts(Price(price)));
            willing.map(|it| it.leaves().0).sum()
        };
        // Price, what would buy, what would sell.
        let mut offers: Vec<(u64, u64, u64)> = prices
            .into_iter()
            .map(|price| (price, lots(&buys, price), lots(&sells, price)))
            .collect();
        // 27.2
        let most = offers.iter().map(|(_, buys, sells)| *buys.min(sells)).max().unwrap_or(0);
        if most == 0 {
            return (Indication::default(), AuctionStep::Nothing);
        }
        let mut step = AuctionStep::Volume;
        offers.retain(|(_, buys, sells)| *buys.min(sells) == most);
        if offers.len() > 1 {
            step = AuctionStep::Imbalance;
        }
        // 27.3
        let least = offers.iter().map(|(_, buys, sells)| buys.abs_diff(*sells)).min();
        offers.retain(|(_, buys, sells)| Some(buys.abs_diff(*sells)) == least);
        if offers.len() > 1 {
            step = match &offers {
                all if all.iter().all(|(_, buys, sells)| buys > sells) => AuctionStep::BuyPressure,
                all if all.iter().all(|(_, buys, sells)| buys < sells) => AuctionStep::SellPressure,
                _ if reference == 0 => AuctionStep::Lowest,
                _ => AuctionStep::Reference,
            };
        }
        // 27.4
        let (price, buys, sells) = if offers.iter().all(|(_, buys, sells)| buys > sells) {
            offers[offers.len() - 1]
        } else if offers.iter().all(|(_, buys, sells)| buys < sells) {
            offers[0]
        } else {
            // 27.5
            let mut nearest = offers[0];
            for offer in offers {
                if offer.0.abs_diff(reference) <= nearest.0.abs_diff(reference) {
                    nearest = offer;
                }
            }
            nearest
        };
        let indication = Indication {
            price: Price(price),
            paired: Quantity(most),
            imbalance: Quantity(buys.abs_diff(sells)),
            imbalance_is_buy: buys > sells,
        };
        (indication, step)
    }

    /// Of those that take part on a side, where the first to trade is. (27.7)
    fn first_in_auction(&self, id: InstrumentId, side: Side, phase: Phase) -> usize {
        let rank = |order: &ModelOrder| {
            let unpriced = order.order_type == OrderType::Market;
            let price = if side == Side::Buy { u64::MAX - order.price.0 } else { order.price.0 };
            let class = if is_beside(order) { 2 } else { u8::from(is_hidden(order)) };
            (!unpriced, if unpriced { 0 } else { price }, class, order.order_id)
        };
        let part = self.taking_part(id, side, phase);
        let first = part.iter().min_by_key(|it| rank(it)).expect("what can trade has orders");
        self.place_of(first.key).expect("it is live")
    }

    /// 27
    fn hold_auction(&mut self, id: InstrumentId, phase: Phase, events: &mut Vec<Event>) {
        let (Indication { price, paired, .. }, step) = self.would_come_to(id, phase);
        *self.auction_steps.entry(step).or_default() += 1;
        let mut missing = paired.0;
        while missing > 0 {
            let mut places =
                [Side::Buy, Side::Sell].map(|side| self.first_in_auction(id, side, phase));
            places.sort_by_key(|place| self.orders[*place].order_id);
            let offered =
                |place: usize| self.orders[place].part.unwrap_or(self.orders[place].leaves().0);
            let quantity = missing.min(offered(places[0])).min(offered(places[1]));
            missing -= quantity;
            let displayed = places.map(|place| {
                self.orders[place].executed += quantity;
                !is_hidden(&self.orders[place]) && !is_beside(&self.orders[place])
            });
            self.trade_count += 1;
            let [maker, mut taker] = places.map(|place| self.orders[place]);
            let traded = Traded {
                trade_id: TradeId(self.trade_count),
                instrument_id: id,
                taker_side: taker.side,
                price,
                quantity: Quantity(quantity),
                maker_displayed: displayed[0],
                maker: maker.fill(),
                taker: taker.fill(),
                auction: Some(AuctionTrade { phase, taker_displayed: displayed[1] }),
            };
            self.keep_trade(&traded);
            events.push(Event::Traded(traded));
            self.settle(places[0], &mut taker, Quantity(quantity), price, events);
            self.note_settled(events);
            self.orders[places[1]] = taker;
            for order in places.map(|place| self.orders[place]) {
                self.note(&order, true);
            }
            let keys = places.map(|place| self.orders[place].key);
            for key in keys {
                let place = self.place_of(key).expect("it is in the list");
                let order = &mut self.orders[place];
                if let Some(part) = &mut order.part {
                    *part -= quantity;
                    if *part == 0 && order.leaves() > Quantity::ZERO {
                        self.refresh(place, events);
                    }
                }
            }
        }
        // 27.11
        if paired > Quantity::ZERO {
            let market = self.market_mut(id);
            market.reference = price.0;
            if market.dynamic_band > 0 {
                market.last = price.0;
            }
        }
        // 27.12
        self.trade_count += 1;
        tell(
            VenueEvent::Uncrossed(Uncrossed {
                instrument_id: id,
                phase,
                trade_id: TradeId(self.trade_count),
                price,
                quantity: paired,
            }),
            events,
        );
    }

    /// 28.1
    pub(super) fn look_at_auction(
        &mut self,
        id: InstrumentId,
        first: bool,
        events: &mut Vec<Event>,
    ) {
        let phase = self.market(id).phase;
        let (indication, _) = self.would_come_to(id, phase);
        let next = self.now_ns - self.now_ns % SECOND + SECOND;
        let market = self.market_mut(id);
        let is_new = market.told != indication;
        market.looks = Some(next);
        market.told = indication;
        let reference_price = Price(market.reference);
        if first || is_new {
            let indicated = Indicated { instrument_id: id, phase, indication, reference_price };
            tell(VenueEvent::Indicated(indicated), events);
        }
    }

    /// What time brings about, moment by moment, and at one moment by instrument.
    pub(super) fn pass_time(&mut self, events: &mut Vec<Event>) {
        // 36.12
        if self.behind_since_ns.is_some_and(|since| since < self.now_ns) {
            self.behind_since_ns = None;
            self.follow(events);
        }
        loop {
            let now_ns = self.now_ns;
            let moments = |market: &Market| [market.ends, market.looks].into_iter().flatten().min();
            let due = self.markets.iter().filter_map(moments).min();
            let expires = self.next_expiry_ns();
            let due = due.into_iter().chain(expires).min();
            let Some(due) = due.filter(|due| *due <= now_ns) else { return };
            if expires == Some(due) {
                self.expire_next(events);
                continue;
            }
            for number in 1..=self.markets.len() {
                let id = InstrumentId(number as u16);
                let market = *self.market(id);
                if market.ends.is_some_and(|ends| ends <= due) {
                    self.end_pause(id, events);
                } else if market.looks.is_some_and(|looks| looks <= due) {
                    self.look_at_auction(id, false, events);
                }
            }
            self.follow(events);
        }
    }

    /// 25.9, 29.5, 29.6
    fn end_pause(&mut self, id: InstrumentId, events: &mut Vec<Event>) {
        let market = *self.market(id);
        let (Indication { price, .. }, _) = self.would_come_to(id, market.phase);
        let outside = market.collar().is_some_and(|(low, high)| price < low || price > high);
        if market.scheduled || price == Price(0) || !outside {
            let closes = market.phase == Phase::ClosingAuction;
            let to = if closes { Phase::Closed } else { Phase::Continuous };
            let asked = SetPhase::new(Symbol::BLANK, to);
            return self.go_on(id, &asked, PhaseCause::Time, events);
        }
        let ends = self.now_ns + market.pause * SECOND;
        let market = self.market_mut(id);
        market.widened += 1;
        market.ends = Some(ends);
        self.report_collar(id, events);
    }

    fn configure(
        &mut self,
        asked: &ConfigureInstrument,
        events: &mut Vec<Event>,
    ) -> Result<(), VenueDeclineReason> {
        let listed = self.listed(asked.symbol).ok_or(VenueDeclineReason::UnknownInstrument)?;
        let id = listed.instrument_id;
        let change = asked.change;
        let has_orders = self.orders.iter().any(|it| it.instrument_id == id);
        let allowed = match change {
            InstrumentChange::PriceIncrement(price) => (1..=PRICE_MAX).contains(&price.0),
            InstrumentChange::RoundLot(quantity) => (1..=QUANTITY_MAX).contains(&quantity.0),
            InstrumentChange::ReferencePrice(price) => price.0 <= PRICE_MAX,
            InstrumentChange::QuantityMax(quantity) => quantity.0 <= QUANTITY_LIMIT,
            InstrumentChange::PegsMax(count) | InstrumentChange::SessionPegsMax(count) => {
                count <= 8_192
            }
            // 38.2
            InstrumentChange::TimeShare(parts) => parts <= 1_000_000,
            _ => true,
        };
        if !allowed {
            return Err(VenueDeclineReason::InvalidValue);
        }
        let index = usize::from(id.0) - 1;
        let (instrument, market) = (&mut self.instruments[index], &mut self.markets[index]);
        match change {
            // 31.2
            InstrumentChange::PriceIncrement(_) if has_orders => {
                return Err(VenueDeclineReason::OrdersLive);
            }
            InstrumentChange::PriceIncrement(price) => instrument.price_increment = price,
            InstrumentChange::RoundLot(quantity) => instrument.round_lot = quantity,
            InstrumentChange::ReferencePrice(price) => market.reference = price.0,
            InstrumentChange::StaticBand(parts) => market.static_band = u64::from(parts),
            InstrumentChange::DynamicBand(parts) => {
                market.dynamic_band = u64::from(parts);
                if parts == 0 {
                    market.last = 0;
                }
            }
            InstrumentChange::PauseSeconds(seconds) => market.pause = u64::from(seconds),
            InstrumentChange::PriceCollar(parts) => market.collar = u64::from(parts),
            InstrumentChange::QuantityMax(quantity) => market.quantity_max = quantity.0,
            InstrumentChange::NotionalMax(notional) => market.notional_max = notional,
            InstrumentChange::PegsMax(count) => market.pegs_max = u64::from(count),
            InstrumentChange::SessionPegsMax(count) => market.session_pegs_max = u64::from(count),
            InstrumentChange::Allocation(allocation) => market.allocation = allocation,
            InstrumentChange::TimeShare(parts) => market.time_share = u64::from(parts),
        }
        let changed = InstrumentChanged { instrument_id: id, change };
        tell(VenueEvent::InstrumentChanged(changed), events);
        self.stir(id);
        Ok(())
    }

    /// The orders of a scope. (32.2)
    fn cancel_scope(&mut self, scope: &Scope, events: &mut Vec<Event>) {
        let mut meant: Vec<OrderKey> = self
            .orders
            .iter()
            .filter(|it| {
                let symbol = self.instruments[usize::from(it.instrument_id.0) - 1].symbol;
                self.is_in(
                    scope,
                    it.key,
                    it.attributes.firm,
                    symbol,
                    it.side,
                    it.attributes.group_id,
                )
            })
            .map(|it| it.key)
            .collect();
        meant.sort();
        for key in meant {
            let place = self.place_of(key).expect("it was found live");
            let leaves = self.orders[place].leaves().0;
            self.cancel(place, leaves, CancelReason::Supervisory, events);
        }
    }

    /// 32.1
    fn is_in(
        &self,
        scope: &Scope,
        key: OrderKey,
        firm: market::Firm,
        symbol: Symbol,
        side: Side,
        group_id: u16,
    ) -> bool {
        let firm = self.firm_meant(key.session_id, firm);
        [SessionId(0), key.session_id].contains(&scope.session_id)
            && [market::Firm::BLANK, firm].contains(&scope.firm)
            && [Symbol::BLANK, symbol].contains(&scope.symbol)
            && [None, Some(side)].contains(&scope.side)
            && [None, Some(group_id)].contains(&scope.group_id)
            && [AccountId(0), self.money.owner(key.session_id)].contains(&scope.account_id)
    }

    fn wrong_with(&self, scope: &Scope) -> Option<VenueDeclineReason> {
        if scope.session_id.0 != 0 && self.session(scope.session_id).is_none() {
            return Some(VenueDeclineReason::UnknownSession);
        }
        if !scope.symbol.is_blank() && self.listed(scope.symbol).is_none() {
            return Some(VenueDeclineReason::UnknownInstrument);
        }
        if self.money.known(scope.account_id).is_err() {
            return Some(VenueDeclineReason::UnknownAccount);
        }
        None
    }

    fn block(
        &mut self,
        asked: &BlockEntry,
        events: &mut Vec<Event>,
    ) -> Result<(), VenueDeclineReason> {
        let is_there = self.blocks.contains(&asked.scope);
        if asked.blocked {
            if is_there || self.blocks.len() == BLOCKS_MAX {
                return Err(VenueDeclineReason::TooManyBlocks);
            }
            if let Some(reason) = self.wrong_with(&asked.scope) {
                return Err(reason);
            }
            self.blocks.push(asked.scope);
        } else {
            if !is_there {
                return Err(VenueDeclineReason::UnknownBlock);
            }
            self.blocks.retain(|scope| *scope != asked.scope);
        }
        tell(VenueEvent::EntryBlocked(*asked), events);
        Ok(())
    }

    /// Why an instrument takes no orders like this now, if so. (32.3, 25.3)
    pub(super) fn why_not_now(
        &self,
        instrument: &Instrument,
        key: OrderKey,
        firm: market::Firm,
        side: Side,
        group_id: u16,
    ) -> Option<RejectReason> {
        let blocked = self
            .blocks
            .iter()
            .any(|scope| self.is_in(scope, key, firm, instrument.symbol, side, group_id));
        match self.market(instrument.instrument_id).phase {
            _ if blocked => Some(RejectReason::EntryBlocked),
            Phase::Halted => Some(RejectReason::Halted),
            Phase::Closed => Some(RejectReason::InstrumentClosed),
            _ => None,
        }
    }

    /// Why an order that waited, and comes in now, is canceled at once: a pause that the same command
    /// brought about is against it. (25.6, 25.8)
    pub(super) fn why_not_now_either(&self, order: &ModelOrder) -> Option<CancelReason> {
        if !collects(self.market(order.instrument_id).phase) {
            return None;
        }
        let at_once = [TimeInForce::ImmediateOrCancel, TimeInForce::FillOrKill]
            .contains(&order.time_in_force);
        let asks_for_quantity = order.instructions.all_or_none
            || order.conditions.minimum_quantity != market::Lots::ZERO;
        let has_limit = order.order_type == OrderType::Limit;
        if at_once
            || order.order_type == OrderType::MarketToLimit
            || asks_for_quantity && !has_limit
        {
            return Some(CancelReason::ImmediateOrCancel);
        }
        let unbounded = !has_limit && order.side == Side::Buy;
        (unbounded && self.is_paid(order.instrument_id)).then_some(CancelReason::Unpaid)
    }

    /// Why the phase of an instrument, or one of its limits, is against an order. (25.6, 25.8, 26.1,
    /// 30)
    pub(super) fn why_not_here(&self, id: InstrumentId, asked: &Asked) -> Option<RejectReason> {
        let Asked {
            side,
            order_type,
            time_in_force,
            has_minimum,
            follows,
            replaces_one_that_follows,
            session_id,
            quantity,
            price,
        } = *asked;
        let market = self.market(id);
        let rests = [TimeInForce::Day, TimeInForce::GoodTillCancel, TimeInForce::GoodTillTime]
            .contains(&time_in_force);
        let at_once = [TimeInForce::ImmediateOrCancel, TimeInForce::FillOrKill]
            .contains(&time_in_force)
            || order_type == OrderType::MarketToLimit
            || has_minimum && !(order_type == OrderType::Limit && rests);
        let too_late = time_in_force == TimeInForce::AtTheOpen
            && ![Phase::PreOpen, Phase::OpeningAuction].contains(&market.phase);
        let waits = !follows && (time_in_force.is_for_auction() || collects(market.phase));
        let unbounded = order_type == OrderType::Market && side == Side::Buy && waits;
        if (collects(market.phase) && at_once) || too_late || (unbounded && self.is_paid(id)) {
            return Some(RejectReason::NotInPhase);
        }
        if market.quantity_max > 0 && quantity > market.quantity_max {
            return Some(RejectReason::QuantityAboveLimit);
        }
        let each = if order_type == OrderType::Limit { price.0 } else { market.reference };
        let notional = (Price(each) * Quantity(quantity)).get();
        if market.notional_max > 0 && notional > u128::from(market.notional_max) {
            return Some(RejectReason::NotionalAboveLimit);
        }
        let through = match side {
            Side::Buy => price.0 > market.reference,
            _ => price.0 < market.reference,
        };
        let far = !is_near(price, market.reference, market.collar);
        if order_type == OrderType::Limit && through && far {
            return Some(RejectReason::PriceOutsideCollar);
        }
        let crowded = follows && !replaces_one_that_follows && !self.may_follow_too(id, session_id);
        crowded.then_some(RejectReason::TooManyPegs)
    }

    /// May a session have one more order that follows the market? (36.13)
    pub(super) fn may_follow_too(&self, id: InstrumentId, session_id: SessionId) -> bool {
        let market = self.market(id);
        let mut all = self.pegged(id);
        all.retain(|it| it.leaves() > Quantity::ZERO);
        let own = all.iter().filter(|it| it.key.session_id == session_id).count();
        (all.len() as u64) < market.pegs_max && (own as u64) < market.session_pegs_max
    }

    /// Does an order rest as it comes in? (25.5, 26.2)
    pub(super) fn is_collected(&self, order: &ModelOrder) -> bool {
        order.time_in_force.is_for_auction() || collects(self.market(order.instrument_id).phase)
    }

    /// May an incoming order trade at this price? (29.1, 29.2)
    pub(super) fn is_within_bands(&self, market: &Market, price: Price) -> bool {
        market.is_within_bands(price)
    }

    /// An order that would trade beyond the bands: does a pause begin? (29.3, 29.4)
    pub(super) fn pauses(&self, id: InstrumentId) -> bool {
        self.market(id).pause > 0
    }

    /// A dynamic band refers to the last price.
    pub(super) fn note_last(&mut self, id: InstrumentId, price: Option<Price>) {
        let market = self.market_mut(id);
        if market.dynamic_band > 0
            && let Some(price) = price
        {
            market.last = price.0;
        }
    }
}

fn tell(event: VenueEvent, events: &mut Vec<Event>) {
    events.push(Event::Venue(event));
}
