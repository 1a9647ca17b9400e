//! The venue's own commands, as one would explain them: phases, bands, limits, cancels and blocks.
//! Sections 25, 26 and 29 to 32 of the rules.

use market::{
    AccountId, Allocation, BlockEntry, CancelReason, CollarSet, ConfigureInstrument, Event, Firm,
    Indication, InstrumentChange, InstrumentChanged, InstrumentId, OrderType, Phase, PhaseCause,
    PhaseChanged, Price, Quantity, RejectReason, Scope, SessionId, SetPhase, Side, Symbol,
    TimeInForce, VenueCommand, VenueDecline, VenueDeclineReason, VenueEvent,
};

use super::{
    Model, ModelOrder, PRICE_MAX, QUANTITY_MAX, SECOND_NS,
    auction::{Auction, Reached},
    pending_cancels::Meant,
};

/// The most blocks (32.5).
const BLOCKS_MAX: usize = 256;

/// The highest limit on an order's lots that an instrument, or terms, may set (40.4).
pub(super) const QUANTITY_LIMIT: u64 = (1 << 48) - 1;

/// The market of an instrument: its settings, and the state of its trading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Market {
    pub(super) phase: Phase,
    pub(super) removed: bool,
    static_band: u64,
    dynamic_band: u64,
    pub(super) pause: u64,
    collar: u64,
    quantity_max: u64,
    notional_max: u64,
    /// The most pegged orders of the instrument. (36.13)
    pegs_max: u64,
    session_pegs_max: u64,
    /// Pro rata, or by time. (38.1)
    pub(super) allocation: Allocation,
    /// The share that goes by time, in millionths. (38.2)
    pub(super) time_share: u64,
    /// The reference price, in ticks; 0 if none.
    pub(super) reference: u64,
    /// The last price since the dynamic band was set, in ticks; 0 if none yet.
    last: u64,
    /// The time at which the auction ends without a command, in nanoseconds.
    ends: Option<u64>,
    /// Did a command set that time? (25.9)
    scheduled: bool,
    /// The time at which the auction is next examined, in nanoseconds.
    pub(super) looks: Option<u64>,
    widened: u64,
    pub(super) indicated: Indication,
    /// For buyers and for sellers, the place up to which the orders of the auction are counted. (27.19)
    pub(super) counted: [Reached; 2],
    /// Does the first indication wait for the count? (28.3)
    pub(super) owes_first: bool,
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
            indicated: Indication::default(),
            counted: [(0, 0, 0); 2],
            owes_first: false,
        }
    }
}

impl Market {
    /// The middles of the bands, and how far they reach, in millionths. (29.1, 29.2)
    fn bands(&self) -> [(u64, u64); 2] {
        let last = if self.last == 0 { self.reference } else { self.last };
        [(self.reference, self.static_band), (last, self.dynamic_band)]
    }

    pub(super) fn is_within_bands(&self, price: Price) -> bool {
        self.bands().iter().all(|(middle, parts)| is_near(price, *middle, *parts))
    }

    /// The prices between which the bands let the market trade. (29.1, 29.2)
    pub(super) fn reach(&self) -> (u64, u64) {
        let (mut low, mut high) = (0, PRICE_MAX);
        for (middle, parts) in self.bands() {
            if middle > 0 && parts > 0 {
                let away = middle * parts / 1_000_000;
                low = low.max(middle.saturating_sub(away));
                high = high.min(middle + away);
            }
        }
        (low, high)
    }

    /// The lowest and the highest price of the collar, if there is one. (29.6)
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

/// Is a price within so many millionths of another? True without a price or a bound.
fn is_near(price: Price, other: u64, millionths: u64) -> bool {
    other == 0 || millionths == 0 || price.0.abs_diff(other) <= other * millionths / 1_000_000
}

/// The earliest moment that an auction waits for.
fn moments_of(market: &Market) -> Option<u64> {
    [market.ends, market.looks].into_iter().flatten().min()
}

/// The phases that may follow a phase. (25.2)
fn next_phases(phase: Phase) -> &'static [Phase] {
    use Phase::*;
    match phase {
        PreOpen => &[OpeningAuction, Continuous, Halted, Closed],
        OpeningAuction => &[Continuous, Halted],
        Continuous => &[PreOpen, OpeningAuction, VolatilityAuction, Halted, ClosingAuction, Closed],
        VolatilityAuction => &[Continuous, Halted, ClosingAuction],
        Halted => &[PreOpen, OpeningAuction, Continuous, VolatilityAuction, ClosingAuction, Closed],
        ClosingAuction => &[Halted, Closed],
        Closed => &[PreOpen],
    }
}

/// Does a phase collect orders? (25.5)
fn collects(phase: Phase) -> bool {
    phase == Phase::PreOpen || is_auction(phase)
}

fn is_auction(phase: Phase) -> bool {
    [Phase::OpeningAuction, Phase::VolatilityAuction, Phase::ClosingAuction].contains(&phase)
}

impl Model {
    /// The phase of an instrument; `None` if the instrument was removed.
    pub fn phase(&self, instrument_id: InstrumentId) -> Option<Phase> {
        let market = self.market(instrument_id);
        (!market.removed).then_some(market.phase)
    }

    pub(super) fn market(&self, instrument_id: InstrumentId) -> &Market {
        &self.markets[usize::from(instrument_id.0) - 1]
    }

    pub(super) fn market_mut(&mut self, instrument_id: InstrumentId) -> &mut Market {
        &mut self.markets[usize::from(instrument_id.0) - 1]
    }

    pub(super) fn report(&mut self, event: VenueEvent) {
        self.events.push(Event::Venue(event));
    }

    pub(super) fn venue(&mut self, command: &VenueCommand) {
        if let Err(reason) = self.carry_out_for_venue(command) {
            self.report(VenueEvent::Declined(VenueDecline { reason }));
        }
    }

    fn carry_out_for_venue(&mut self, command: &VenueCommand) -> Result<(), VenueDeclineReason> {
        match command {
            VenueCommand::SetPhase(asked) => self.set_phase(asked)?,
            VenueCommand::ConfigureInstrument(asked) => self.configure(asked)?,
            VenueCommand::RemoveInstrument(asked) => {
                let listed = self.listed(asked.symbol);
                let id = listed.ok_or(VenueDeclineReason::UnknownInstrument)?.instrument_id;
                // 27.17
                if self.is_trading_in_steps(id) {
                    return Err(VenueDeclineReason::PhaseNotNext);
                }
                // 31.3
                let scope = Scope { symbol: asked.symbol, ..Scope::ALL };
                self.cancel_meant(&Meant::of(scope), CancelReason::Supervisory);
                let from = self.market(id).phase;
                *self.market_mut(id) =
                    Market { phase: Phase::Closed, removed: true, ..Market::default() };
                self.report(VenueEvent::InstrumentRemoved(id));
                if from == Phase::Continuous {
                    self.suspend(id);
                }
                self.stir(id);
            }
            VenueCommand::SupervisoryCancel(scope) => {
                self.known_scope(scope)?;
                self.cancel_meant(&Meant::of(*scope), CancelReason::Supervisory);
            }
            VenueCommand::BlockEntry(asked) => self.block(asked)?,
            VenueCommand::BustTrade(asked) => self.bust_trade(asked.trade_id, asked.reason)?,
            VenueCommand::CorrectTrade(asked) => self.correct(asked)?,
            // 32.6
            VenueCommand::KillSwitch(asked) => {
                if !asked.blocked || !self.blocks.contains(&asked.scope) {
                    self.block(asked)?;
                }
                if asked.blocked {
                    self.cancel_meant(&Meant::of(asked.scope), CancelReason::Supervisory);
                }
            }
            // 3.5
            VenueCommand::SetLiveOrdersMax(asked) => {
                self.known_session(asked.session_id)?;
                let session = &mut self.sessions[usize::from(asked.session_id.0) - 1];
                session.live_orders_max = asked.live_orders_max;
                self.report(VenueEvent::LiveOrdersMaxSet(*asked));
            }
            // 3.6
            VenueCommand::LogOut(session_id) => {
                self.known_session(*session_id)?;
                self.report(VenueEvent::LoggedOut(*session_id));
            }
        }
        Ok(())
    }

    fn known_session(&self, session_id: SessionId) -> Result<(), VenueDeclineReason> {
        match self.session(session_id) {
            Some(_) => Ok(()),
            None => Err(VenueDeclineReason::UnknownSession),
        }
    }

    fn set_phase(&mut self, asked: &SetPhase) -> Result<(), VenueDeclineReason> {
        // 25.9
        if asked.release_s > 0 && !is_auction(asked.phase) {
            return Err(VenueDeclineReason::InvalidValue);
        }
        let named = self.listed(asked.symbol).map(|it| it.instrument_id);
        if !asked.symbol.is_blank() && named.is_none() {
            return Err(VenueDeclineReason::UnknownInstrument);
        }
        let was_empty = self.auctions.is_empty();
        let mut is_next = false;
        for number in 1..=self.instruments.len() {
            let id = InstrumentId(number as u16);
            let market = *self.market(id);
            let meant = named.is_none_or(|named| named == id) && !market.removed;
            // 27.17
            let to_come = self.auctions.iter_mut().find(|it| it.id == id);
            let phase = to_come.as_ref().map_or(market.phase, |it| it.asked.phase);
            if meant && next_phases(phase).contains(&asked.phase) {
                is_next = true;
                // 6.13
                let half = self.halves.iter_mut().find(|it| it.id == id);
                match (to_come, half) {
                    (Some(auction), _) => auction.next = Some(*asked),
                    (None, Some(half)) => half.next = Some(*asked),
                    (None, None) => self.go_on(id, asked, PhaseCause::Command),
                }
            }
        }
        if was_empty {
            self.go_on_with_auctions();
        }
        if named.is_some() && !is_next {
            return Err(VenueDeclineReason::PhaseNotNext);
        }
        Ok(())
    }

    pub(super) fn go_on(&mut self, id: InstrumentId, asked: &SetPhase, cause: PhaseCause) {
        let to = asked.phase;
        let from = self.market(id).phase;
        // 27.1
        if to == Phase::Continuous || (from == Phase::ClosingAuction && to == Phase::Closed) {
            let market = self.market_mut(id);
            (market.ends, market.looks, market.owes_first) = (None, None, false);
            self.auctions.push(Auction::new(id, *asked, cause));
        } else {
            self.go_on_after_auction(id, asked, cause);
        }
    }

    pub(super) fn go_on_after_auction(
        &mut self,
        id: InstrumentId,
        asked: &SetPhase,
        cause: PhaseCause,
    ) {
        let to = asked.phase;
        // 26.4
        self.end_auction_orders(id, to);
        self.begin_phase(id, asked, cause);
        if is_auction(to) {
            self.look_at_auction(id, true);
        }
    }

    pub(super) fn begin_phase(&mut self, id: InstrumentId, asked: &SetPhase, cause: PhaseCause) {
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
            ends: (seconds > 0).then(|| now_ns + seconds * SECOND_NS),
            scheduled,
            looks: None,
            widened: 0,
            indicated: Indication::default(),
            counted: [(0, 0, 0); 2],
            owes_first: false,
            ..*market
        };
        let changed = PhaseChanged { instrument_id: id, from, to, cause, reason };
        self.report(VenueEvent::PhaseChanged(changed));
        if to == Phase::VolatilityAuction {
            self.report_collar(id);
        }
        if from == Phase::Continuous {
            self.suspend(id);
        }
        self.stir(id);
    }

    fn report_collar(&mut self, id: InstrumentId) {
        let market = self.market(id);
        let Some((low, high)) = market.collar() else { return };
        let reference_price = Price(market.reference);
        let extension = market.widened as u32;
        let collar = CollarSet { instrument_id: id, reference_price, low, high, extension };
        self.report(VenueEvent::CollarSet(collar));
    }

    /// Does the work that is due by time, moment by moment, and at one moment by instrument.
    pub(super) fn pass_time(&mut self) {
        // 24.2, 36.12
        if self.left_since_ns.is_some_and(|since| since < self.now_ns) {
            (self.is_line_left, self.is_behind, self.left_since_ns) = (false, false, None);
            self.is_check_left = false;
            self.cancel_portion();
            self.go_on_with_auctions();
            self.trade_on();
            self.follow();
        }
        loop {
            let due = self.markets.iter().filter_map(moments_of).min();
            let due = due.filter(|_| self.looks.are_left());
            let expires = self.next_expiry_ns();
            let due = due.into_iter().chain(expires).min();
            let Some(due) = due.filter(|due| *due <= self.now_ns) else { return };
            if expires == Some(due) {
                self.expire_next();
                continue;
            }
            let was_empty = self.auctions.is_empty();
            while self.looks.are_left() {
                let moments = self.markets.iter().enumerate();
                let moments = moments.filter_map(|(index, it)| Some((moments_of(it)?, index)));
                let Some((_, index)) = moments.min().filter(|(first, _)| *first <= due) else {
                    break;
                };
                let id = InstrumentId(index as u16 + 1);
                if self.market(id).ends.is_some_and(|ends| ends <= due) {
                    self.end_pause(id);
                } else {
                    self.look_at_auction(id, false);
                }
            }
            if was_empty {
                self.go_on_with_auctions();
            }
            self.follow();
        }
    }

    /// Ends an auction whose time is over, or widens its collar and extends it. (25.9, 29.5, 29.6)
    fn end_pause(&mut self, id: InstrumentId) {
        let market = *self.market(id);
        let has_collar = !market.scheduled && market.collar().is_some();
        if !self.is_counted_for_end(id, has_collar) {
            return;
        }
        let (Indication { price, .. }, _, _) = self.auction_result(id, market.phase);
        let outside = market.collar().is_some_and(|(low, high)| price < low || price > high);
        if market.scheduled || price == Price(0) || !outside {
            let closes = market.phase == Phase::ClosingAuction;
            let to = if closes { Phase::Closed } else { Phase::Continuous };
            return self.go_on(id, &SetPhase::new(Symbol::BLANK, to), PhaseCause::Time);
        }
        let ends = self.now_ns + market.pause * SECOND_NS;
        let market = self.market_mut(id);
        market.widened += 1;
        market.ends = Some(ends);
        self.report_collar(id);
    }

    fn configure(&mut self, asked: &ConfigureInstrument) -> Result<(), VenueDeclineReason> {
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
            InstrumentChange::PriceIncrement(price) => {
                instrument.price_increment = price;
                market.counted = Default::default();
            }
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
        self.report(VenueEvent::InstrumentChanged(changed));
        self.stir(id);
        Ok(())
    }

    /// Is an order in a scope? (32.1)
    pub(super) fn is_in(&self, scope: &Scope, order: &ModelOrder) -> bool {
        let session_id = order.key.session_id;
        let firm = self.firm_meant(session_id, order.attributes.firm);
        let symbol = self.instrument(order.instrument_id).symbol;
        [SessionId(0), session_id].contains(&scope.session_id)
            && [Firm::BLANK, firm].contains(&scope.firm)
            && [Symbol::BLANK, symbol].contains(&scope.symbol)
            && [None, Some(order.side)].contains(&scope.side)
            && [None, Some(order.attributes.group_id)].contains(&scope.group_id)
            && [AccountId(0), self.money.owner(session_id)].contains(&scope.account_id)
    }

    fn known_scope(&self, scope: &Scope) -> Result<(), VenueDeclineReason> {
        if scope.session_id.0 != 0 {
            self.known_session(scope.session_id)?;
        }
        if !scope.symbol.is_blank() && self.listed(scope.symbol).is_none() {
            return Err(VenueDeclineReason::UnknownInstrument);
        }
        self.money.known(scope.account_id).map_err(|_| VenueDeclineReason::UnknownAccount)
    }

    fn block(&mut self, asked: &BlockEntry) -> Result<(), VenueDeclineReason> {
        let is_there = self.blocks.contains(&asked.scope);
        if asked.blocked {
            if is_there || self.blocks.len() == BLOCKS_MAX {
                return Err(VenueDeclineReason::TooManyBlocks);
            }
            self.known_scope(&asked.scope)?;
            self.blocks.push(asked.scope);
        } else {
            if !is_there {
                return Err(VenueDeclineReason::UnknownBlock);
            }
            self.blocks.retain(|scope| *scope != asked.scope);
        }
        self.report(VenueEvent::EntryBlocked(*asked));
        Ok(())
    }

    /// Does the instrument of an order take orders like this now? (32.3, 25.3)
    pub(super) fn instrument_takes(&self, order: &ModelOrder) -> Result<(), RejectReason> {
        if self.blocks.iter().any(|scope| self.is_in(scope, order)) {
            return Err(RejectReason::EntryBlocked);
        }
        match self.market(order.instrument_id).phase {
            Phase::Halted => Err(RejectReason::Halted),
            Phase::Closed => Err(RejectReason::InstrumentClosed),
            // 6.12: in continuous trading the order waits.
            Phase::Continuous => Ok(()),
            // 27.15
            _ if self.is_trading_in_steps(order.instrument_id) => Err(RejectReason::NotInPhase),
            _ => Ok(()),
        }
    }

    /// May an instrument enter a phase next? (25.2)
    pub(super) fn may_follow(&self, id: InstrumentId, phase: Phase) -> bool {
        next_phases(self.market(id).phase).contains(&phase)
    }

    /// Why an order that waited, and comes in now, is canceled at once: a pause that the same command
    /// caused forbids it. (25.6, 25.8)
    pub(super) fn phase_cancels(&self, order: &ModelOrder) -> Option<CancelReason> {
        if !collects(self.market(order.instrument_id).phase) {
            return None;
        }
        if order.trades_at_once() {
            return Some(CancelReason::ImmediateOrCancel);
        }
        let unbounded = order.order_type == OrderType::Market && order.side == Side::Buy;
        (unbounded && self.is_paid(order.instrument_id)).then_some(CancelReason::Unpaid)
    }

    /// Do the phase of an instrument, and its limits, allow an order, which may replace another?
    /// (25.6, 25.8, 26.1, 30, 36.13)
    pub(super) fn phase_takes(
        &self,
        order: &ModelOrder,
        original: Option<&ModelOrder>,
    ) -> Result<(), RejectReason> {
        let market = self.market(order.instrument_id);
        let has_limit = order.order_type == OrderType::Limit;
        let too_late = order.time_in_force == TimeInForce::AtTheOpen
            && ![Phase::PreOpen, Phase::OpeningAuction].contains(&market.phase);
        let unbounded = order.order_type == OrderType::Market
            && order.side == Side::Buy
            && !order.is_pegged()
            && self.is_collected(order);
        if (collects(market.phase) && order.trades_at_once())
            || too_late
            || (unbounded && self.is_paid(order.instrument_id))
        {
            return Err(RejectReason::NotInPhase);
        }
        if market.quantity_max > 0 && order.quantity > market.quantity_max {
            return Err(RejectReason::QuantityAboveLimit);
        }
        let each = if has_limit { order.price.0 } else { market.reference };
        let notional = (Price(each) * Quantity(order.quantity)).get();
        if market.notional_max > 0 && notional > u128::from(market.notional_max) {
            return Err(RejectReason::NotionalAboveLimit);
        }
        let through = match order.side {
            Side::Buy => order.price.0 > market.reference,
            _ => order.price.0 < market.reference,
        };
        if has_limit && through && !is_near(order.price, market.reference, market.collar) {
            return Err(RejectReason::PriceOutsideCollar);
        }
        let is_another = order.is_pegged() && !original.is_some_and(ModelOrder::is_pegged);
        if is_another && !self.takes_another_peg(order) {
            return Err(RejectReason::TooManyPegs);
        }
        Ok(())
    }

    /// May the session of an order have one more pegged order in its instrument? (36.13)
    pub(super) fn takes_another_peg(&self, order: &ModelOrder) -> bool {
        let market = self.market(order.instrument_id);
        let mut all = self.pegged(order.instrument_id);
        all.retain(|it| !it.is_done());
        let own = all.iter().filter(|it| it.key.session_id == order.key.session_id).count();
        (all.len() as u64) < market.pegs_max && (own as u64) < market.session_pegs_max
    }

    /// Does an order rest as it comes in? (25.5, 26.2)
    pub(super) fn is_collected(&self, order: &ModelOrder) -> bool {
        order.time_in_force.is_for_auction() || collects(self.market(order.instrument_id).phase)
    }

    /// Notes the last price, to which a dynamic band refers.
    pub(super) fn note_last(&mut self, id: InstrumentId, price: Option<Price>) {
        let market = self.market_mut(id);
        if market.dynamic_band > 0
            && let Some(price) = price
        {
            market.last = price.0;
        }
    }
}
