//! An incoming order trades as far as it may; the open rest stays in the book or is canceled.
//!
//! Invariant: afterwards the order is done, resting or canceled, or trades on in later steps.

use market::{
    Booked, CancelReason, Event, Instructions, OrderType, Phase, PhaseCause, Price, Quantity,
    TimeInForce, TradeId,
};

use super::{in_steps::MEETINGS_MAX, on_match::MatchEffects, self_match};
use crate::{
    Emit, Engine,
    auction::trading_status::TradingStatus,
    book::{cross::Reach, pool::Slot},
    intake::classify::EntryTerms,
    operator::venue_commands::PhaseStep,
    order::{ForAuction, Order},
};

/// Maximum number of orders of the other side that are counted for a minimum quantity, fill or kill, or the
/// cost of an order without a limit. It bounds the work for an order that is then canceled or rejected.
pub(crate) const COUNTED_MAX: usize = 256;

/// The outcome of an incoming order.
#[must_use]
pub(crate) enum CameIn {
    /// It rests, in this slot.
    Rests(Slot),
    /// It is done or canceled; a pegged order may have stopped the market and wait.
    IsOver,
    /// The step is over; the order continues in later ones.
    TradesOn(Cut),
}

/// Where the first step of an order ended.
pub(crate) struct Cut {
    /// The limit of its trades: its own, or that of a band.
    pub(crate) limit: Option<Price>,
    /// The price of its last trade, if it had one.
    pub(crate) price_last: Option<Price>,
}

impl Engine {
    /// Trades an order without a record of instructions; the open rest goes into the book, or is
    /// canceled if it may not rest.
    pub(crate) fn trade_and_rest(
        &mut self,
        mut order: Order,
        terms: &EntryTerms,
        emit: &mut (impl Emit + ?Sized),
    ) {
        if let CameIn::TradesOn(cut) = self.trade_or_rest(&mut order, terms, emit) {
            self.trade_on_with_record(order, terms, &cut);
        }
    }

    /// Trades an order, as far as a step goes; then the open rest goes into the book, or is canceled
    /// if it may not rest.
    pub(crate) fn trade_or_rest(
        &mut self,
        order: &mut Order,
        terms: &EntryTerms,
        emit: &mut (impl Emit + ?Sized),
    ) -> CameIn {
        let TradingStatus { is_unrestricted, phase, .. } = self.books[order.instrument_id].trading;
        if !is_unrestricted && phase.collects() || order.for_auction() != ForAuction::No {
            return CameIn::Rests(self.rest_and_tell(order, &terms.instructions, emit));
        }
        let limit = terms.limit_of(order);
        let crosses = self.books[order.instrument_id].would_cross(order.side(), limit);
        if crosses && order.post_only() {
            self.cancel_at_once(order, CancelReason::PostOnly, emit);
            return CameIn::IsOver;
        }
        let minimum = match order.time_in_force() {
            TimeInForce::FillOrKill => order.leaves(),
            _ => terms.minimum_quantity.quantity(),
        };
        // No trade is beyond a band; `None` allows no trade at all.
        let within = if is_unrestricted { Some(limit) } else { self.within_band(order, limit) };
        let reaches = || within.is_some_and(|limit| self.reaches_minimum(order, limit, minimum));
        if !minimum.is_zero() && !reaches() {
            self.cancel_at_once(order, CancelReason::ImmediateOrCancel, emit);
            return CameIn::IsOver;
        }
        let price_last = match within {
            Some(limit) if crosses => self.trade(order, limit, emit),
            _ => None,
        };
        if !is_unrestricted {
            self.keep_price_last(order, price_last);
        }
        match within {
            Some(limit) if crosses && self.trades_on(order, limit) => {
                CameIn::TradesOn(Cut { limit, price_last })
            }
            _ => self.rest_or_cancel(order, terms, within, price_last, emit),
        }
    }

    /// Puts the open rest of an order that has traded as far as it may, within this limit, into the book, or cancels
    /// it.
    pub(crate) fn rest_or_cancel(
        &mut self,
        order: &mut Order,
        terms: &EntryTerms,
        within: Option<Option<Price>>,
        price_last: Option<Price>,
        emit: &mut (impl Emit + ?Sized),
    ) -> CameIn {
        if order.is_done() {
            self.money.finish_market(order, &mut |event| emit.emit(event));
            return CameIn::IsOver;
        }
        let limit = terms.limit_of(order);
        let is_stopped = within != Some(limit)
            && self.books[order.instrument_id].would_cross(order.side(), limit);
        if is_stopped && self.books[order.instrument_id].trading.pause_s == 0 {
            self.cancel_at_once(order, CancelReason::Collar, emit);
            return CameIn::IsOver;
        }
        if is_stopped {
            let (to, cause) = (Phase::VolatilityAuction, PhaseCause::Band);
            let emit = &mut |event| emit.emit(event);
            self.enter_phase(order.instrument_id, &PhaseStep::new(to, cause), emit);
        }
        // A pegged order has no price in an auction.
        if is_stopped && terms.instructions.pricing.is_pegged() {
            self.indicate(order.instrument_id, true, &mut |event| emit.emit(event));
            return CameIn::IsOver;
        }
        let limit = match terms.order_type {
            OrderType::MarketToLimit => price_last,
            _ => limit,
        };
        let came_in = if let Some(limit) = limit
            && order.time_in_force().may_rest()
        {
            if order.price() != limit {
                order.set_price(limit);
                self.money.rest_market(order, &mut |event| emit.emit(event));
            }
            CameIn::Rests(self.rest_and_tell(order, &terms.instructions, emit))
        } else {
            self.cancel_at_once(order, CancelReason::ImmediateOrCancel, emit);
            CameIn::IsOver
        };
        if is_stopped {
            self.indicate(order.instrument_id, true, &mut |event| emit.emit(event));
        }
        came_in
    }

    /// Adds an order to the book; returns its slot.
    #[inline]
    pub(crate) fn rest_and_tell(
        &mut self,
        order: &mut Order,
        instructions: &Instructions,
        emit: &mut (impl Emit + ?Sized),
    ) -> Slot {
        let (slot, shown) = self.add(order, instructions);
        emit.emit(Event::Booked(Booked {
            order_id: order.order_id(),
            instrument_id: order.instrument_id,
            side: order.side(),
            price: order.price(),
            leaves: order.leaves(),
            shown,
            attribution: self.attribution(order),
        }));
        slot
    }

    /// True if an incoming order would trade its minimum at once.
    #[inline(never)]
    pub(crate) fn reaches_minimum(
        &self,
        order: &Order,
        limit: Option<Price>,
        minimum: Quantity,
    ) -> bool {
        let prevention = self_match::meant(&self.sessions, order);
        self.books[order.instrument_id].would_trade(
            &self.pool,
            order,
            Reach { limit, orders_max: COUNTED_MAX },
            minimum,
            |maker| {
                let is_own = self_match::is_own(&self.sessions, prevention, order, maker);
                is_own.then_some(prevention)
            },
            |slot| self.icebergs.get(slot).shown.quantity(),
        )
    }

    /// Trades an order, as far as a step goes; returns the price of its last trade.
    #[inline(never)]
    pub(crate) fn trade(
        &mut self,
        order: &mut Order,
        limit: Option<Price>,
        emit: &mut (impl Emit + ?Sized),
    ) -> Option<Price> {
        let Self {
            sessions,
            books,
            pool,
            icebergs,
            contingents,
            money,
            order_id_last,
            trade_id_last,
            trades,
            ..
        } = self;
        let book = &mut books[order.instrument_id];
        let prevention = self_match::meant(sessions, order);
        let trade_id_before = *trade_id_last;
        let mut effects = MatchEffects {
            prevention,
            sessions,
            icebergs,
            contingents,
            money: money.is_used().then_some(money),
            order_id_last,
            trade_id_last,
            trades,
            emit,
            trade_id_end: TradeId(trade_id_before.0 + MEETINGS_MAX),
            price_last: Price::ZERO,
        };
        book.cross(pool, order, limit, &mut effects);
        let last = effects.price_last;
        self.touch(order.instrument_id);
        let trades = self.trade_id_last.0 - trade_id_before.0;
        if trades == 0 {
            return None;
        }
        let first = if trades == 1 { last } else { self.trades.price(trade_id_before.0 + 1) };
        self.note_trades(order.instrument_id, first, last);
        Some(last)
    }

    /// True if an order that a step's trades left open would trade on within this limit.
    #[inline]
    pub(crate) fn trades_on(&self, order: &Order, limit: Option<Price>) -> bool {
        !order.is_done() && self.books[order.instrument_id].would_cross(order.side(), limit)
    }
}
