//! Commands of the venue: on instruments, orders and past trades. Invariant: a declined command
//! changes nothing.

use market::{
    AccountId, BlockEntry, BustTrade, CancelReason, ConfigureInstrument, CorrectTrade, Event,
    InstrumentChange, InstrumentChanged, InstrumentId, LedgerKind, LiveOrdersMax, PastTrade, Phase,
    PhaseCause, PhaseChanged, Price, RemoveInstrument, Scope, SessionId, SetPhase, Side, Symbol,
    Text, TradeBusted, TradeCorrected, TradeId, VenueCommand, VenueDecline, VenueDeclineReason,
    VenueEvent,
};

use crate::{
    Engine, HeldSetting,
    auction::{phases, trading_status::TradingStatus},
    intake::{cancel_line::Selection, pending_cancels::Whose},
    order::{PRICE_MAX, QUANTITY_MAX},
    state::hash,
};

/// The most blocks at a time.
pub const BLOCKS_MAX: usize = 256;

/// A change of an instrument's phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseStep {
    pub(crate) to: Phase,
    pub(crate) cause: PhaseCause,
    /// The reason on the feed; blank is none.
    pub(crate) reason: Text<4>,
    /// Seconds after which an auction ends, whatever its collar; 0 is no end.
    pub(crate) release_s: u32,
}

impl PhaseStep {
    /// No reason and no end.
    pub(crate) const fn new(to: Phase, cause: PhaseCause) -> Self {
        Self { to, cause, reason: Text::BLANK, release_s: 0 }
    }
}

impl Engine {
    /// Carries out a command of the venue, or declines it.
    #[cold]
    pub(crate) fn venue(&mut self, command: &VenueCommand, emit: &mut dyn FnMut(Event)) {
        let done = match command {
            VenueCommand::SetPhase(set) => self.set_phase(set, emit),
            VenueCommand::ConfigureInstrument(configure) => self.configure(configure, emit),
            VenueCommand::RemoveInstrument(remove) => self.remove_instrument(remove, emit),
            VenueCommand::SupervisoryCancel(scope) => self.supervisory_cancel(scope, emit),
            VenueCommand::BlockEntry(block) => self.block_entry(block, emit),
            VenueCommand::BustTrade(busted) => self.bust_trade(busted, emit),
            VenueCommand::CorrectTrade(correct) => self.correct_trade(correct, emit),
            VenueCommand::KillSwitch(block) => self.kill_switch(block, emit),
            VenueCommand::SetLiveOrdersMax(set) => self.set_live_orders_max(set, emit),
            VenueCommand::LogOut(session_id) => self.log_out(*session_id, emit),
        };
        if let Err(reason) = done {
            emit(Event::Venue(VenueEvent::Declined(VenueDecline { reason })));
        }
    }

    fn set_phase(
        &mut self,
        set: &SetPhase,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), VenueDeclineReason> {
        if set.release_s != 0 && !set.phase.is_auction() {
            return Err(VenueDeclineReason::InvalidValue);
        }
        let step = PhaseStep {
            to: set.phase,
            cause: PhaseCause::Command,
            reason: set.reason,
            release_s: set.release_s,
        };
        let was_empty = self.auction_line.line.is_empty();
        if set.symbol.is_blank() {
            for instrument_id in self.books.ids() {
                if !self.books[instrument_id].trading.is_removed {
                    self.change_phase_if_next(instrument_id, &step, emit);
                }
            }
        } else {
            let instrument_id = self.known(&set.symbol)?;
            if !self.change_phase_if_next(instrument_id, &step, emit) {
                return Err(VenueDeclineReason::PhaseNotNext);
            }
        }
        if was_empty {
            self.trade_in_auctions(emit);
        }
        Ok(())
    }

    /// Moves an instrument to a phase, at once or after its present auction; false if that phase may not
    /// follow.
    fn change_phase_if_next(
        &mut self,
        instrument_id: InstrumentId,
        step: &PhaseStep,
        emit: &mut dyn FnMut(Event),
    ) -> bool {
        let to_come = self.phase_to_come(instrument_id);
        let phase = to_come.unwrap_or(self.books[instrument_id].trading.phase);
        if !phases::may_follow(phase, step.to) {
            return false;
        }
        match to_come {
            Some(_) => self.change_phase_later(instrument_id, step),
            None => self.change_phase(instrument_id, step, emit),
        }
        true
    }

    /// Moves an instrument to a phase, or begins the auction with which the old phase ends.
    pub(crate) fn change_phase(
        &mut self,
        instrument_id: InstrumentId,
        step: &PhaseStep,
        emit: &mut dyn FnMut(Event),
    ) {
        if phases::uncrosses(self.books[instrument_id].trading.phase, step.to) {
            return self.begin_auction(instrument_id, step);
        }
        self.complete_phase_change(instrument_id, step, emit);
    }

    /// Moves an instrument to a phase after its auction, if there was one, and cancels the orders that were only for
    /// that auction.
    pub(crate) fn complete_phase_change(
        &mut self,
        instrument_id: InstrumentId,
        step: &PhaseStep,
        emit: &mut dyn FnMut(Event),
    ) {
        self.end_auction_orders(instrument_id, step.to, emit);
        self.enter_phase(instrument_id, step, emit);
        if step.to.is_auction() {
            self.indicate(instrument_id, true, emit);
        }
    }

    /// Changes the phase of an instrument, without further effects.
    pub(crate) fn enter_phase(
        &mut self,
        instrument_id: InstrumentId,
        step: &PhaseStep,
        emit: &mut dyn FnMut(Event),
    ) {
        let PhaseStep { to, cause, reason, release_s } = *step;
        let from = self.books[instrument_id].trading.phase;
        let is_scheduled = release_s != 0;
        let pause_s = match to {
            _ if is_scheduled => release_s,
            Phase::VolatilityAuction => self.books[instrument_id].trading.pause_s,
            _ => 0,
        };
        let pause_ends_ns = self.after_seconds(pause_s);
        self.clear_count(instrument_id);
        self.change_trading(instrument_id, |trading| {
            let has_end = pause_s != 0;
            trading.is_scheduled = is_scheduled;
            trading.phase = to;
            trading.ends_ns = if has_end { pause_ends_ns } else { TradingStatus::NEW.ends_ns };
            trading.indicates_ns = TradingStatus::NEW.indicates_ns;
            trading.extension = 0;
            trading.indicated = TradingStatus::NEW.indicated;
        });
        if to == Phase::Continuous {
            self.books[instrument_id].check_not_crossed();
        }
        let changed = PhaseChanged { instrument_id, from, to, cause, reason };
        emit(Event::Venue(VenueEvent::PhaseChanged(changed)));
        if to == Phase::VolatilityAuction {
            self.report_collar(instrument_id, emit);
        }
        if from == Phase::Continuous {
            self.suspend_pegs(instrument_id, emit);
        }
        self.touch(instrument_id);
        self.note_minimum_quantity(instrument_id);
    }

    fn configure(
        &mut self,
        configure: &ConfigureInstrument,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), VenueDeclineReason> {
        let instrument_id = self.known(&configure.symbol)?;
        let change = configure.change;
        let mut instrument = *self.books[instrument_id].instrument();
        let mut trading = self.books[instrument_id].trading;
        match change {
            InstrumentChange::PriceIncrement(increment) => {
                if increment == Price::ZERO || PRICE_MAX < increment {
                    return Err(VenueDeclineReason::InvalidValue);
                }
                if !self.books[instrument_id].is_empty() || self.has_waiting(instrument_id) {
                    return Err(VenueDeclineReason::OrdersLive);
                }
                instrument.price_increment = increment;
                self.count_anew(instrument_id);
            }
            InstrumentChange::RoundLot(round_lot) => {
                if round_lot.is_zero() || QUANTITY_MAX < round_lot {
                    return Err(VenueDeclineReason::InvalidValue);
                }
                instrument.round_lot = round_lot;
            }
            _ => {
                if !trading.configure(&change) {
                    return Err(VenueDeclineReason::InvalidValue);
                }
                self.change_trading(instrument_id, |it| *it = trading);
            }
        }
        let book = &mut self.books[instrument_id];
        book.set_instrument(instrument);
        book.sharing = trading.sharing();
        self.touch(instrument_id);
        self.note_minimum_quantity(instrument_id);
        let changed = InstrumentChanged { instrument_id, change };
        emit(Event::Venue(VenueEvent::InstrumentChanged(changed)));
        Ok(())
    }

    fn remove_instrument(
        &mut self,
        remove: &RemoveInstrument,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), VenueDeclineReason> {
        let instrument_id = self.known(&remove.symbol)?;
        if self.books[instrument_id].trading.is_uncrossing {
            return Err(VenueDeclineReason::PhaseNotNext);
        }
        let selection = Selection { instrument_id: Some(instrument_id), ..Selection::ALL };
        self.cancel_selected(Whose::ANY, selection, CancelReason::Supervisory, emit);
        self.symbols.remove(&remove.symbol);
        let TradingStatus { phase: from, waiting, .. } = self.books[instrument_id].trading;
        self.clear_count(instrument_id);
        self.change_trading(instrument_id, |trading| {
            *trading = TradingStatus {
                phase: Phase::Closed,
                is_removed: true,
                waiting,
                ..TradingStatus::NEW
            };
        });
        emit(Event::Venue(VenueEvent::InstrumentRemoved(instrument_id)));
        // Many orders are canceled later: until then they are in a closed instrument.
        if from == Phase::Continuous {
            self.suspend_pegs(instrument_id, emit);
        }
        self.touch(instrument_id);
        self.note_minimum_quantity(instrument_id);
        Ok(())
    }

    fn supervisory_cancel(
        &mut self,
        scope: &Scope,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), VenueDeclineReason> {
        self.check_scope(scope)?;
        let Scope { session_id, firm, symbol, side, group_id, account_id } = *scope;
        let selection = Selection {
            firm: (!firm.is_blank()).then_some(firm),
            instrument_id: self.symbols.find(&symbol).map(InstrumentId),
            side,
            group_id,
            of_the_day: false,
        };
        let whose = Whose { session_id, account_id, ..Whose::ANY };
        self.cancel_selected(whose, selection, CancelReason::Supervisory, emit);
        Ok(())
    }

    fn block_entry(
        &mut self,
        block: &BlockEntry,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), VenueDeclineReason> {
        let place = self.blocks.binary_search(&block.scope);
        match (block.blocked, place) {
            (true, Err(place)) if self.blocks.len() < BLOCKS_MAX => {
                self.check_scope(&block.scope)?;
                self.blocks.insert(place, block.scope);
            }
            (true, _) => return Err(VenueDeclineReason::TooManyBlocks),
            (false, Ok(place)) => {
                self.blocks.remove(place);
            }
            (false, Err(_)) => return Err(VenueDeclineReason::UnknownBlock),
        }
        emit(Event::Venue(VenueEvent::EntryBlocked(*block)));
        Ok(())
    }

    fn bust_trade(
        &mut self,
        busted: &BustTrade,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), VenueDeclineReason> {
        let trade = self.find_past(busted.trade_id)?;
        let planned = self.money.plan_return(&trade, None)?;
        self.trades.bust_trade(busted.trade_id);
        let reason = busted.reason;
        emit(Event::Venue(VenueEvent::TradeBusted(TradeBusted { trade, reason })));
        if let Some(planned) = planned {
            self.money.carry_out(&planned, LedgerKind::Undo, &trade, emit);
        }
        Ok(())
    }

    fn correct_trade(
        &mut self,
        correct: &CorrectTrade,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), VenueDeclineReason> {
        let CorrectTrade { trade_id, price, quantity, reason } = *correct;
        let before = self.find_past(trade_id)?;
        let price_allowed = self.books[before.instrument_id].is_price(price);
        if !price_allowed || quantity.is_zero() || before.quantity < quantity {
            return Err(VenueDeclineReason::InvalidValue);
        }
        let planned = self.money.plan_return(&before, Some((price, quantity)))?;
        self.trades.bust_trade(trade_id);
        self.trade_id_last.0 += 1;
        let trade = PastTrade { trade_id: self.trade_id_last, price, quantity, ..before };
        self.trades.add_past(&trade, false);
        let corrected = TradeCorrected { busted: trade_id, trade, reason };
        emit(Event::Venue(VenueEvent::TradeCorrected(corrected)));
        if let Some(planned) = planned {
            self.money.carry_out(&planned, LedgerKind::Correct, &trade, emit);
        }
        Ok(())
    }

    /// The trade with this id, if it can be undone.
    fn find_past(&self, trade_id: TradeId) -> Result<PastTrade, VenueDeclineReason> {
        let trade = self.trades.find(trade_id).ok_or(VenueDeclineReason::UnknownTrade)?;
        Ok(trade)
    }

    /// Blocks a scope, once, and cancels its orders; or removes that block.
    fn kill_switch(
        &mut self,
        block: &BlockEntry,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), VenueDeclineReason> {
        if block.blocked && self.blocks.binary_search(&block.scope).is_ok() {
            return self.supervisory_cancel(&block.scope, emit);
        }
        self.block_entry(block, emit)?;
        if block.blocked { self.supervisory_cancel(&block.scope, emit) } else { Ok(()) }
    }

    fn set_live_orders_max(
        &mut self,
        set: &LiveOrdersMax,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), VenueDeclineReason> {
        let LiveOrdersMax { session_id, live_orders_max } = *set;
        let session =
            self.sessions.get_mut(session_id).ok_or(VenueDeclineReason::UnknownSession)?;
        session.set_live_orders_max(live_orders_max);
        self.let_go_of(HeldSetting::LiveOrdersMax(session_id));
        emit(Event::Venue(VenueEvent::LiveOrdersMaxSet(*set)));
        Ok(())
    }

    /// Connections are not part of the state: gateways end them when they read the event.
    fn log_out(
        &mut self,
        session_id: SessionId,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), VenueDeclineReason> {
        self.sessions.get(session_id).ok_or(VenueDeclineReason::UnknownSession)?;
        emit(Event::Venue(VenueEvent::LoggedOut(session_id)));
        Ok(())
    }

    fn check_scope(&self, scope: &Scope) -> Result<(), VenueDeclineReason> {
        if scope.session_id != SessionId(0) && self.sessions.get(scope.session_id).is_none() {
            return Err(VenueDeclineReason::UnknownSession);
        }
        if !scope.symbol.is_blank() {
            self.known(&scope.symbol)?;
        }
        if self.account(scope.account_id).is_none() {
            return Err(VenueDeclineReason::UnknownAccount);
        }
        Ok(())
    }

    fn known(&self, symbol: &Symbol) -> Result<InstrumentId, VenueDeclineReason> {
        let number = self.symbols.find(symbol).ok_or(VenueDeclineReason::UnknownInstrument)?;
        Ok(InstrumentId(number))
    }

    /// Changes the trading status of an instrument.
    pub(crate) fn change_trading(
        &mut self,
        instrument_id: InstrumentId,
        change: impl FnOnce(&mut TradingStatus),
    ) {
        let trading = &mut self.books[instrument_id].trading;
        let due_before = trading.auction_due_ns();
        change(trading);
        trading.settle();
        let due_ns = trading.auction_due_ns();
        let is_uncrossing = trading.is_uncrossing;
        if due_before != due_ns {
            if let Some(due_ns) = due_before {
                self.auctions.remove(&(due_ns, instrument_id));
            }
            self.auctions.extend(due_ns.map(|due_ns| (due_ns, instrument_id)));
            self.auctions_due_ns = self.auctions.first().map_or(u64::MAX, |(due_ns, _)| *due_ns);
        }
        self.auction_line.settle_waiting(instrument_id, is_uncrossing);
    }

    /// The number of a whole auction, from the series of trade ids.
    pub(crate) fn next_cross_id(&mut self) -> TradeId {
        self.trade_id_last.0 += 1;
        self.auctions_held += 1;
        self.trade_id_last
    }
}

pub(crate) fn block_hash(scope: &Scope) -> u64 {
    let words = [
        u64::from(scope.session_id.0)
            | u64::from(scope.group_id.is_some()) << 16
            | u64::from(scope.group_id.unwrap_or(0)) << 32
            | u64::from(scope.side.map_or(0, Side::code)) << 48,
        hash::word(&scope.firm),
        hash::word(&scope.symbol),
    ];
    let [entered, firm, symbol] = words;
    match scope.account_id {
        AccountId::VENUE => hash::mix([hash::BLOCK, entered, firm, symbol]),
        AccountId(id) => hash::mix([hash::BLOCK, entered, firm, symbol, u64::from(id)]),
    }
}
