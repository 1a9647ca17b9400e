//! An incoming order trades as far as it may; the open rest stays in the book or is canceled.
//!
//! Invariant: afterwards the order is done, resting or canceled.

use market::{
    Booked, CancelReason, Event, Instructions, OrderType, Phase, PhaseCause, Price, Quantity,
    TimeInForce,
};

use super::{on_match::MatchEffects, self_match};
use crate::{
    Emit, Engine,
    auction::trading_status::TradingStatus,
    book::{cross::Reach, pool::Slot},
    intake::classify::EntryTerms,
    operator::venue_commands::PhaseStep,
    order::{ForAuction, Order},
};

/// The most orders of the other side that count for a minimum quantity, fill or kill, or the cost of
/// an order without a limit, so that an order that is canceled or rejected for it costs no more.
pub(crate) const COUNTED_MAX: usize = 256;

/// The result of an incoming order.
pub(crate) struct CameIn {
    /// Lots executed so far by its whole chain.
    pub(crate) executed: Quantity,
    /// Its slot, if it rests.
    pub(crate) rested: Option<Slot>,
}

impl Engine {
    /// Trades an order; the open rest goes into the book, or is canceled if it may not rest.
    pub(crate) fn trade_and_rest(
        &mut self,
        mut order: Order,
        terms: &EntryTerms,
        emit: &mut dyn FnMut(Event),
    ) -> CameIn {
        let rested = self.trade_or_rest(&mut order, terms, emit);
        CameIn { executed: order.executed(), rested }
    }

    /// As [`trade_and_rest`](Self::trade_and_rest); returns the slot of the resting order.
    pub(crate) fn trade_or_rest(
        &mut self,
        order: &mut Order,
        terms: &EntryTerms,
        emit: &mut dyn FnMut(Event),
    ) -> Option<Slot> {
        let TradingStatus { is_unrestricted, phase, .. } = self.book_of(order).trading;
        if !is_unrestricted && phase.collects() || order.for_auction() != ForAuction::No {
            return Some(self.rest_and_tell(order, &terms.instructions, emit));
        }
        let limit = match terms.order_type {
            OrderType::Limit => Some(order.price()),
            OrderType::Market | OrderType::MarketToLimit => None,
        };
        let crosses = self.book_of(order).would_cross(order.side, limit);
        if crosses && order.post_only() {
            self.cancel_at_once(order, CancelReason::PostOnly, emit);
            return None;
        }
        let minimum = match order.time_in_force {
            TimeInForce::FillOrKill => order.leaves(),
            _ => terms.minimum_quantity.quantity(),
        };
        // No trade is beyond a band; `None` allows no trade at all.
        let within = if is_unrestricted { Some(limit) } else { self.within_band(order, limit) };
        let reaches = || within.is_some_and(|limit| self.reaches_minimum(order, limit, minimum));
        if !minimum.is_zero() && !reaches() {
            self.cancel_at_once(order, CancelReason::ImmediateOrCancel, emit);
            return None;
        }
        let price_last = match within {
            Some(limit) if crosses => self.trade(order, limit, emit),
            _ => None,
        };
        if !is_unrestricted {
            self.keep_price_last(order, price_last);
        }
        if order.is_done() {
            self.money.finish_market(order, &mut self.hash, emit);
            return None;
        }
        let is_stopped =
            within != Some(limit) && self.book_of(order).would_cross(order.side, limit);
        if is_stopped && self.book_of(order).trading.pause_s == 0 {
            self.cancel_at_once(order, CancelReason::Collar, emit);
            return None;
        }
        if is_stopped {
            let (to, cause) = (Phase::VolatilityAuction, PhaseCause::Band);
            self.enter_phase(order.instrument_id, &PhaseStep::new(to, cause), emit);
        }
        // A pegged order has no price in an auction.
        if is_stopped && terms.instructions.pricing.is_pegged() {
            self.indicate(order.instrument_id, true, emit);
            self.refresh_auctions();
            return None;
        }
        let limit = match terms.order_type {
            OrderType::MarketToLimit => price_last,
            _ => limit,
        };
        let rested = if let Some(limit) = limit
            && order.time_in_force.may_rest()
        {
            if order.price() != limit {
                order.set_price(limit);
                self.money.rest_market(order, &mut self.hash, emit);
            }
            Some(self.rest_and_tell(order, &terms.instructions, emit))
        } else {
            self.cancel_at_once(order, CancelReason::ImmediateOrCancel, emit);
            None
        };
        if is_stopped {
            self.indicate(order.instrument_id, true, emit);
            self.refresh_auctions();
        }
        rested
    }

    /// Adds an order to the book; returns its slot.
    #[inline]
    pub(crate) fn rest_and_tell(
        &mut self,
        order: &mut Order,
        instructions: &Instructions,
        emit: &mut dyn FnMut(Event),
    ) -> Slot {
        let (slot, shown) = self.add(order, instructions);
        emit(Event::Booked(Booked {
            order_id: order.order_id,
            instrument_id: order.instrument_id,
            side: order.side,
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
        self.book_of(order).would_trade(
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

    /// Trades an order; returns the price of its last trade.
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
            hash,
            ..
        } = self;
        let book = &mut books[usize::from(order.instrument_id.0) - 1];
        let prevention = self_match::meant(sessions, order);
        let mut effects = MatchEffects {
            prevention,
            sessions,
            icebergs,
            contingents,
            money: money.is_used().then_some(money),
            order_id_last,
            trade_id_last,
            trades,
            hash,
            emit,
            price_first: Price::ZERO,
            price_last: Price::ZERO,
        };
        book.cross(pool, order, limit, &mut effects);
        let (first, last) = (effects.price_first, effects.price_last);
        self.touch(order.instrument_id);
        let has_traded = last != Price::ZERO;
        if has_traded {
            self.note_trades(order.instrument_id, first, last);
        }
        has_traded.then_some(last)
    }
}
