//! The book's match callback: the effects outside the book when two orders meet in it.
//!
//! The book calls [`MatchEffects`] once for each match, which updates sessions, icebergs,
//! contingent orders, kept trades and money. `money::settle` settles the trade.
//!
//! Invariant: all of these agree with the book after each match.

use market::{
    Event, Fill, OrderId, Price, Quantity, RestateReason, Restated, SelfMatchPrevented,
    SelfMatchPrevention, Shown, TradeId, Traded,
};

use crate::{
    Emit,
    book::{
        cross::{Match, OnMatch},
        pool::Slot,
    },
    contingent::instructions::Contingents,
    intake::session::Sessions,
    money::{Claim, Money},
    operator::trades::Trades,
    order::Order,
    trading::{
        iceberg::{Icebergs, Rounds},
        live::attribution,
        self_match,
    },
};

/// The number of orders as which a step counts an iceberg: its shown part changes, too.
pub(crate) const ICEBERG_COST: u64 = 2;

/// The state outside the book that a match changes.
pub(crate) struct MatchEffects<'a, E: ?Sized> {
    /// The session of the incoming order.
    pub(crate) prevention: SelfMatchPrevention,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) icebergs: &'a mut Icebergs,
    /// `None` if the instrument is not paid for.
    pub(crate) money: Option<&'a mut Money>,
    pub(crate) contingents: &'a mut Contingents,
    pub(crate) order_id_last: &'a mut OrderId,
    pub(crate) trade_id_last: &'a mut TradeId,
    pub(crate) trades: &'a mut Trades,
    pub(crate) emit: &'a mut E,
    /// The trade id at which the step is over; a match that costs more than one trade lowers it.
    pub(crate) trade_id_end: TradeId,
    /// Price of the incoming order's last trade; [`Price::ZERO`] before the first.
    pub(crate) price_last: Price,
}

impl<E: Emit + ?Sized> OnMatch for MatchEffects<'_, E> {
    #[inline]
    fn is_plain(&self, _: &Order, maker: &Order) -> bool {
        self.prevention == SelfMatchPrevention::Off && !maker.is_iceberg() && !maker.is_contingent()
    }

    fn prevention(&self, taker: &Order, maker: &Order) -> Option<SelfMatchPrevention> {
        let is_own = self_match::is_own(self.sessions, self.prevention, taker, maker);
        is_own.then_some(self.prevention)
    }

    #[inline(never)]
    fn matched(&mut self, met: &Match<'_>) {
        let Match { maker, .. } = met;
        // A trade counts by its id.
        let extra = u64::from(met.reserve.is_some()) + u64::from(met.prevention.is_some());
        self.trade_id_end.0 = self.trade_id_end.0.saturating_sub(extra);
        let shown = match met.reserve {
            Some(slot) if !met.is_unseen => self.execute_iceberg(slot, met),
            _ => Shown::NONE,
        };
        if maker.is_contingent() {
            self.meet_contingent(maker, met.prevention.is_none());
        }
        self.progress(met);
        match met.prevention {
            Some(prevention) => self.report_prevented(met, shown, prevention),
            None => {
                let shown = match met.reserve {
                    Some(_) => shown.before,
                    None => maker.shown_before(met.maker_leaves_before),
                };
                self.report_traded(met, shown);
            }
        }
    }

    #[inline(always)]
    fn matched_plain(&mut self, met: &Match<'_>) {
        self.progress(met);
        self.report_traded(met, met.maker.shown_before(met.maker_leaves_before));
    }

    fn shown(&self, slot: Slot) -> Quantity {
        self.icebergs.get(slot).shown.quantity()
    }

    fn part(&self, slot: Slot) -> Quantity {
        self.icebergs.get(slot).shown_quantity.quantity()
    }

    fn has_left(&self) -> bool {
        *self.trade_id_last < self.trade_id_end
    }

    fn pass(&mut self) {
        self.trade_id_end.0 = self.trade_id_end.0.saturating_sub(ICEBERG_COST);
    }

    fn rounds(&mut self, taker: &Order) -> &mut Rounds {
        self.icebergs.rounds_of(taker.order_id())
    }

    fn refresh(&mut self, slot: Slot, maker: &mut Order, taker: &Order) -> Option<Quantity> {
        if !self.icebergs.get(slot).shown.is_zero() {
            return None;
        }
        self.order_id_last.0 += 1;
        let order_id_before = maker.order_id();
        maker.set_order_id(*self.order_id_last);
        let shown = self.icebergs.refresh(slot, maker);
        let reserve = maker.leaves().saturating_sub(shown);
        let part = self.part(slot);
        self.icebergs.rounds_of(taker.order_id()).count_in(maker.price(), reserve, part);
        self.emit.emit(Event::Restated(Restated {
            key: maker.key,
            order_id_before,
            order_id: maker.order_id(),
            instrument_id: maker.instrument_id,
            side: maker.side(),
            reason: RestateReason::Refreshed,
            price: maker.price(),
            leaves: maker.leaves(),
            shown,
            display: maker.display(),
            attribution: attribution(self.sessions, maker),
        }));
        Some(shown)
    }
}

impl<E: Emit + ?Sized> MatchEffects<'_, E> {
    /// Updates a resting order that traded or lost lots, or is done.
    #[inline(always)]
    fn progress(&mut self, met: &Match<'_>) {
        let maker = met.maker;
        if maker.is_done() {
            self.sessions.owner_mut(maker.key).remove_live(maker.key);
            if let Some(money) = &mut self.money {
                money.remove_live(maker.key.session_id);
            }
        }
    }

    /// Records a trade of two orders; the feed showed `maker_shown` lots of the resting one before it.
    #[inline(always)]
    fn report_traded(&mut self, met: &Match<'_>, maker_shown: Quantity) {
        let Match { maker, taker, quantity, .. } = met;
        self.trade_id_last.0 += 1;
        self.price_last = maker.price();
        let traded = Traded {
            trade_id: *self.trade_id_last,
            instrument_id: taker.instrument_id,
            taker_side: taker.side(),
            price: maker.price(),
            quantity: *quantity,
            maker_shown,
            maker: fill(maker),
            taker: fill(taker),
            auction: None,
        };
        self.trades.add(&traded);
        self.emit.emit(Event::Traded(traded));
        if let Some(money) = &mut self.money {
            // Built again here, so that trades without payment need none in memory.
            let met = Match { ..*met };
            money.settle(&met, *self.trade_id_last, self.emit);
        }
    }

    /// Updates a resting order with instructions after a match, while it is still in its slot.
    #[cold]
    fn meet_contingent(&mut self, maker: &Order, has_executed: bool) {
        let slot = self.sessions.owner(maker.key).find(maker.key).expect("it rests");
        let id = self.contingents.of(slot);
        if has_executed {
            self.contingents.execute(id);
        }
        if maker.is_done() {
            self.contingents.lift(id);
            self.contingents.finish(id, maker.executed());
        }
    }

    /// Updates the shown part of an iceberg after a match.
    fn execute_iceberg(&mut self, slot: Slot, met: &Match<'_>) -> Shown {
        let shown = match met.prevention {
            None => self.icebergs.execute(slot, met.quantity),
            Some(_) => self.icebergs.reduce(slot, met.maker),
        };
        if met.maker.is_done() {
            self.icebergs.remove(slot);
        }
        shown
    }

    /// Emits an event for each order that lost lots, the resting one first, with the shown lots of
    /// an iceberg.
    #[inline(never)]
    fn report_prevented(
        &mut self,
        met: &Match<'_>,
        reserve: Shown,
        prevention: SelfMatchPrevention,
    ) {
        let orders = [
            (met.maker, met.maker_leaves_before, true),
            (met.taker, met.taker_leaves_before, false),
        ];
        for (order, leaves_before, booked) in orders {
            let quantity = leaves_before.saturating_sub(order.leaves());
            if quantity.is_zero() {
                continue;
            }
            self.emit.emit(Event::SelfMatchPrevented(SelfMatchPrevented {
                key: order.key,
                order_id: order.order_id(),
                instrument_id: order.instrument_id,
                quantity,
                leaves: order.leaves(),
                prevented: met.quantity,
                price: met.maker.price(),
                booked,
                shown: match booked {
                    true if order.is_iceberg() => reserve,
                    true => order.shown_since(leaves_before),
                    false => Shown::NONE,
                },
                prevention,
            }));
            let emit = &mut |event| self.emit.emit(event);
            if let Some(money) = &mut self.money {
                let claim = Claim::from(order);
                money.release(&claim, leaves_before, order.leaves(), emit);
            }
        }
    }
}

#[inline]
pub(crate) fn fill(order: &Order) -> Fill {
    Fill { key: order.key, order_id: order.order_id(), leaves: order.leaves() }
}
