//! Reservations: the parts of balances that are held for open orders.
//!
//! The reservation of an order is a function of its side, limit and open lots ([`Terms::reservation`]),
//! so it is not stored. Exception: for a buy order without a limit a walk over the book finds the cost,
//! and `market_reserved` is the part of it that is left.
//!
//! Invariant: the reserved amount of a balance is the sum of the reservations of live orders. Each
//! reservation and each release is one [`Shift`] within a balance, made by
//! [`Holding::shift`](super::balance::Holding::shift).

use core::mem;

use market::{
    AccountId, AssetId, EnterOrder, Event, InstrumentId, LedgerKind, MoneyClass, OrderId,
    OwnMovement, Price, Quantity, SessionId, Side,
};

use super::{Money, balance::Shift, terms::Terms};
use crate::{Emit, order::Order};

/// The fields of an order, besides its open lots, that decide its reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) session_id: SessionId,
    pub(crate) instrument_id: InstrumentId,
    pub(crate) order_id: OrderId,
    pub(crate) side: Side,
    /// Limit in ticks; [`Price::ZERO`] is no limit.
    pub(crate) price: Price,
}

impl From<&Order> for Claim {
    #[inline(always)]
    fn from(order: &Order) -> Self {
        Self {
            session_id: order.key.session_id,
            instrument_id: order.instrument_id,
            order_id: order.order_id(),
            side: order.side(),
            price: order.price(),
        }
    }
}

impl Claim {
    /// True for a buy order without a limit, whose cost a walk over the book finds.
    #[inline(always)]
    pub(super) fn is_market_buy(&self) -> bool {
        self.price == Price::ZERO && self.side.is_buy()
    }
}

impl Money {
    /// Reserves the cost of a plain order, if orders in its instrument are paid for; its quantity and limit are allowed.
    /// `None`, with no effect, if its account has limits or too little available, or if the order needs other checks or
    /// more than 63 bits.
    #[inline(always)]
    pub(crate) fn hold_plain(
        &mut self,
        order: &EnterOrder,
        instrument_id: InstrumentId,
    ) -> Option<OwnMovement> {
        if !self.is_used {
            return Some(OwnMovement::NONE);
        }
        let EnterOrder { key, side, price, quantity, .. } = *order;
        let account_id = self.account_id(key.session_id);
        let terms = self.terms.get(usize::from(instrument_id.0) - 1)?;
        if account_id == AccountId::VENUE
            || !matches!(terms.0.class, MoneyClass::Cash)
            || !matches!(side, Side::Buy | Side::Sell)
            || self.has_asset_limits
            || self.hot[account_id.0 as usize].is_limited
        {
            return None;
        }
        let amount = terms.reservation(side, price, quantity);
        let asset_id = terms.reserved_asset(side);
        if amount == 0 || amount >> 63 != 0 {
            return None;
        }
        let amount = amount as u64;
        let version = self.holding_mut(asset_id).try_reserve(account_id, amount)?;
        Some(OwnMovement::new(account_id, asset_id, amount, version))
    }

    /// Reserves the possible cost or delivery of an accepted order; for a buy order without a
    /// limit, the cost that a walk over the book finds.
    pub(crate) fn reserve(&mut self, order: &Order, walk: u128, emit: &mut dyn FnMut(Event)) {
        let Some(&terms) = self.terms(order.instrument_id) else { return };
        let claim = Claim::from(order);
        self.count_buying(&terms, &claim, Quantity::ZERO, order.leaves());
        if claim.is_market_buy() {
            return self.reserve_walk(&terms, &claim, walk, emit);
        }
        let amount = terms.reservation(order.side(), order.price(), order.leaves());
        let asset_id = terms.reserved_asset(order.side());
        self.hold(&claim, asset_id, LedgerKind::Reserve, amount, emit);
    }

    /// Reserves the cost of a contingent buy order without a limit as it enters the book; false,
    /// with no effect, if too little is available.
    pub(crate) fn reserve_market(
        &mut self,
        order: &Order,
        walk: u128,
        emit: &mut dyn FnMut(Event),
    ) -> bool {
        let Some(&terms) = self.terms(order.instrument_id) else { return true };
        let account_id = self.account_id(order.key.session_id);
        if self.available(terms.0.quote, account_id) < walk.cast_signed() {
            return false;
        }
        self.reserve_walk(&terms, &Claim::from(order), walk, emit);
        true
    }

    fn reserve_walk(
        &mut self,
        terms: &Terms,
        claim: &Claim,
        walk: u128,
        emit: &mut dyn FnMut(Event),
    ) {
        assert!(self.market_reserved == 0, "one order comes in at a time");
        self.market_reserved = walk;
        self.hold(claim, terms.0.quote, LedgerKind::Reserve, walk, emit);
    }

    /// Takes out the remaining reservation of an order without a limit that continues in a later step.
    pub(crate) fn suspend_market(&mut self) -> u128 {
        mem::take(&mut self.market_reserved)
    }

    /// Restores the remaining reservation when the order trades on.
    pub(crate) fn resume_market(&mut self, reserved: u128) {
        assert!(self.market_reserved == 0, "one order comes in at a time");
        self.market_reserved = reserved;
    }

    /// Reserves or releases the difference when an order's price changes. A buy order at
    /// [`Price::ZERO`], no price, holds nothing.
    pub(crate) fn follow_price(
        &mut self,
        before: &Order,
        after: &Order,
        emit: &mut dyn FnMut(Event),
    ) {
        let Some(&terms) = self.terms(after.instrument_id) else { return };
        let held = |order: &Order| terms.reservation(order.side(), order.price(), order.leaves());
        let (before, needed) = (held(before), held(after));
        let (kind, amount) = match before <= needed {
            true => (LedgerKind::Reserve, needed - before),
            false => (LedgerKind::Release, before - needed),
        };
        let asset_id = terms.reserved_asset(after.side());
        self.hold(&Claim::from(after), asset_id, kind, amount, emit);
    }

    /// Releases the part of a reservation that fewer open lots do not need.
    #[inline(always)]
    pub(crate) fn release(
        &mut self,
        claim: &Claim,
        before: Quantity,
        after: Quantity,
        emit: &mut (impl Emit + ?Sized),
    ) {
        if let Some(shift) = self.released(claim, before, after) {
            emit.emit(Event::Ledger(shift.entry(claim.order_id)));
        }
    }

    /// Releases the part of a reservation that fewer open lots do not need; `None` if it is 0.
    #[inline(always)]
    pub(crate) fn released(
        &mut self,
        claim: &Claim,
        before: Quantity,
        after: Quantity,
    ) -> Option<Shift> {
        let terms = *self.terms(claim.instrument_id)?;
        self.count_buying(&terms, claim, before, after);
        let amount = if !claim.is_market_buy() {
            let held = |leaves| terms.reservation(claim.side, claim.price, leaves);
            held(before) - held(after)
        } else if after.is_zero() {
            mem::take(&mut self.market_reserved)
        } else {
            return None;
        };
        self.shift(claim, terms.reserved_asset(claim.side), LedgerKind::Release, amount)
    }

    /// Releases the rounding rest of the walk when an order without a limit is filled.
    pub(crate) fn finish_market(&mut self, order: &Order, emit: &mut dyn FnMut(Event)) {
        if self.market_reserved != 0 {
            self.release_walk(order, 0, emit);
        }
    }

    /// Releases the excess reservation of an order without a limit that gets a limit and rests.
    pub(crate) fn rest_market(&mut self, order: &Order, emit: &mut dyn FnMut(Event)) {
        if let Some(terms) = self.terms(order.instrument_id)
            && order.side().is_buy()
        {
            let needed = terms.0.quote_amount(order.price(), order.leaves());
            self.release_walk(order, needed, emit);
        }
    }

    /// Releases the rest of a walk's reservation, except the amount still needed.
    fn release_walk(&mut self, order: &Order, needed: u128, emit: &mut dyn FnMut(Event)) {
        let left = mem::take(&mut self.market_reserved).checked_sub(needed);
        let amount = left.expect("the walk counted what would rest");
        let Some(&terms) = self.terms(order.instrument_id) else { return };
        self.hold(&Claim::from(order), terms.0.quote, LedgerKind::Release, amount, emit);
    }

    /// Updates the amount that live orders could buy of an asset with a position limit.
    #[inline(always)]
    pub(super) fn count_buying(
        &mut self,
        terms: &Terms,
        claim: &Claim,
        before: Quantity,
        after: Quantity,
    ) {
        if terms.is_position() && claim.side.is_buy() {
            let account_id = self.account_id(claim.session_id);
            let (before, after) = (terms.0.base_amount(before), terms.0.base_amount(after));
            self.holding_mut(terms.0.base).change_buying(account_id, before, after);
        }
    }

    /// Reserves an amount for an order, or releases it; `None` if the amount is 0.
    #[inline(always)]
    fn shift(
        &mut self,
        claim: &Claim,
        asset_id: AssetId,
        kind: LedgerKind,
        amount: u128,
    ) -> Option<Shift> {
        let account_id = self.account_id(claim.session_id);
        if amount == 0 {
            return None;
        }
        Some(self.holding_mut(asset_id).shift(account_id, kind, amount))
    }

    /// As [`shift`](Self::shift), and emits the movement.
    fn hold(
        &mut self,
        claim: &Claim,
        asset_id: AssetId,
        kind: LedgerKind,
        amount: u128,
        emit: &mut dyn FnMut(Event),
    ) {
        if let Some(shift) = self.shift(claim, asset_id, kind, amount) {
            emit(Event::Ledger(shift.entry(claim.order_id)));
        }
    }
}
