//! What orders hold of balances: reserved when they are accepted, released when they need less.

use market::{
    AccountId, AssetId, Bucket, Event, InstrumentId, LedgerEntry, LedgerKind, LedgerPlace,
    MoneyClass, OrderId, Price, Quantity, SessionId, Side, Units,
};

use super::{Money, NO_TRADE, balance::Shift, is_market_buy, paid_with};
use crate::{Emit, order::Order, state::hash::StateHash};

/// A plain order that is done, with what it held something for.
pub(crate) struct DoneOrder {
    pub(crate) order_id: OrderId,
    pub(crate) side: Side,
    pub(crate) price: Price,
    pub(crate) leaves: Quantity,
}

/// What was held for an order that comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    asset_id: AssetId,
    pub(super) account_id: AccountId,
    amount: u128,
    /// Of the balance, since then.
    version: u64,
}

impl Held {
    /// As it is told, once the order is accepted.
    #[inline(always)]
    pub(crate) fn entry(self, order_id: OrderId) -> LedgerEntry {
        let Self { asset_id, account_id, amount, version } = self;
        LedgerEntry {
            kind: LedgerKind::Reserve,
            asset_id,
            amount: Units::new(amount),
            from: LedgerPlace { account_id, bucket: Bucket::Available, version },
            to: LedgerPlace { account_id, bucket: Bucket::Reserved, version },
            order_id,
            trade_id: NO_TRADE,
        }
    }
}

impl Money {
    /// Holds what an order of these terms could cost or deliver, if its account may have it and is
    /// not to be looked at any closer; `None`, and nothing is done, if not.
    #[inline(always)]
    pub(crate) fn hold_plain(
        &mut self,
        session_id: SessionId,
        instrument_id: InstrumentId,
        (side, price, quantity): (Side, Price, Quantity),
        hash: &mut StateHash,
    ) -> Option<Held> {
        let account_id = self.account_id(session_id);
        let terms = self.terms.get(usize::from(instrument_id.0) - 1)?;
        if account_id == AccountId::VENUE
            || !matches!(terms.0.class, MoneyClass::Cash)
            || !matches!(side, Side::Buy | Side::Sell)
            || self.has_asset_limits
            || self.briefs[account_id.0 as usize].is_limited
        {
            return None;
        }
        let amount = terms.reservation(side, price, quantity);
        let asset_id = paid_with(terms, side);
        let holding = &mut self.holdings[usize::from(asset_id.0) - 1];
        let version = holding.hold(account_id, amount, hash)?;
        Some(Held { asset_id, account_id, amount, version })
    }

    /// A plain order is done, and all that is held for it is given back.
    #[inline(always)]
    pub(crate) fn release_plain(
        &mut self,
        session_id: SessionId,
        instrument_id: InstrumentId,
        order: &DoneOrder,
        hash: &mut StateHash,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let account_id = self.account_id(session_id);
        if account_id != AccountId::VENUE {
            self.briefs[account_id.0 as usize].live_orders -= 1;
        }
        let Some(&terms) = self.terms(instrument_id) else { return };
        let DoneOrder { order_id, side, price, leaves } = *order;
        if terms.is_position() && side.is_buy() {
            let holding = &mut self.holdings[usize::from(terms.0.base.0) - 1];
            holding.change_buying(account_id, terms.goods(leaves), 0);
        }
        let amount = terms.reservation(side, price, leaves);
        let asset_id = paid_with(&terms, side);
        let kind = LedgerKind::Release;
        let shift = Shift { kind, account_id, amount, order_id, trade_id: NO_TRADE };
        self.shift(asset_id, &shift, hash, emit);
    }

    /// Holds what an accepted order could cost or deliver; `walk` as for [`check`](Self::check).
    pub(crate) fn reserve(
        &mut self,
        order: &Order,
        walk: u128,
        hash: &mut StateHash,
        emit: &mut dyn FnMut(Event),
    ) {
        let Some(&terms) = self.terms(order.instrument_id) else { return };
        let account_id = self.account_id(order.key.session_id);
        let amount = if is_market_buy(order) {
            assert!(self.market_reserved == 0, "one order comes in at a time");
            self.market_reserved = walk;
            walk
        } else {
            terms.reservation(order.side, order.price(), order.leaves())
        };
        let asset_id = paid_with(&terms, order.side);
        self.count_buying(&terms, order, Quantity::ZERO, order.leaves());
        self.shift(asset_id, &hold(LedgerKind::Reserve, account_id, amount, order), hash, emit);
    }

    /// Holds what an order to buy without a limit will pay, when it comes in after it was accepted;
    /// false, and nothing is done, if less is available.
    pub(crate) fn reserve_market(
        &mut self,
        order: &Order,
        walk: u128,
        hash: &mut StateHash,
        emit: &mut dyn FnMut(Event),
    ) -> bool {
        let Some(&terms) = self.terms(order.instrument_id) else { return true };
        let account_id = self.account_id(order.key.session_id);
        if self.balance(terms.0.quote, account_id).available < walk.cast_signed() {
            return false;
        }
        assert!(self.market_reserved == 0, "one order comes in at a time");
        self.market_reserved = walk;
        self.shift(terms.0.quote, &hold(LedgerKind::Reserve, account_id, walk, order), hash, emit);
        true
    }

    /// An order has another price, and holds what it needs with that. [`Price::ZERO`] is none, with
    /// which an order to buy holds nothing.
    pub(crate) fn follow_price(
        &mut self,
        before: &Order,
        after: &Order,
        hash: &mut StateHash,
        emit: &mut dyn FnMut(Event),
    ) {
        let Some(&terms) = self.terms(after.instrument_id) else { return };
        let account_id = self.account_id(after.key.session_id);
        let held = |order: &Order| terms.reservation(order.side, order.price(), order.leaves());
        let (before, needed) = (held(before), held(after));
        let kind = if needed < before { LedgerKind::Release } else { LedgerKind::Reserve };
        let asset_id = paid_with(&terms, after.side);
        let amount = before.abs_diff(needed);
        self.shift(asset_id, &hold(kind, account_id, amount, after), hash, emit);
    }

    /// Gives back what an order does not need with so many open lots fewer, or with another limit.
    #[inline]
    pub(crate) fn release(
        &mut self,
        order: &Order,
        before: Quantity,
        after: Quantity,
        hash: &mut StateHash,
        emit: &mut dyn FnMut(Event),
    ) {
        if self.is_used {
            self.release_paid(order, before, after, hash, emit);
        }
    }

    #[inline(never)]
    fn release_paid(
        &mut self,
        order: &Order,
        before: Quantity,
        after: Quantity,
        hash: &mut StateHash,
        emit: &mut dyn FnMut(Event),
    ) {
        let Some(&terms) = self.terms(order.instrument_id) else { return };
        let account_id = self.account_id(order.key.session_id);
        self.count_buying(&terms, order, before, after);
        let amount = if !is_market_buy(order) {
            let held = |leaves| terms.reservation(order.side, order.price(), leaves);
            held(before) - held(after)
        } else if after.is_zero() {
            core::mem::take(&mut self.market_reserved)
        } else {
            return;
        };
        let asset_id = paid_with(&terms, order.side);
        self.shift(asset_id, &hold(LedgerKind::Release, account_id, amount, order), hash, emit);
    }

    /// An order that came in without a limit is executed in full: what rounding left is released.
    pub(crate) fn finish_market(
        &mut self,
        order: &Order,
        hash: &mut StateHash,
        emit: &mut dyn FnMut(Event),
    ) {
        let amount = core::mem::take(&mut self.market_reserved);
        if amount == 0 {
            return;
        }
        let Some(&terms) = self.terms(order.instrument_id) else { return };
        let account_id = self.account_id(order.key.session_id);
        self.shift(
            terms.0.quote,
            &hold(LedgerKind::Release, account_id, amount, order),
            hash,
            emit,
        );
    }

    /// An order that came in without a limit was given one, and rests.
    pub(crate) fn rest_market(
        &mut self,
        order: &Order,
        hash: &mut StateHash,
        emit: &mut dyn FnMut(Event),
    ) {
        let held = core::mem::take(&mut self.market_reserved);
        let Some(&terms) = self.terms(order.instrument_id) else { return };
        if !order.side.is_buy() {
            return;
        }
        let account_id = self.account_id(order.key.session_id);
        let needed = terms.cost(order.price(), order.leaves());
        let amount = held.checked_sub(needed).expect("the walk counted what would rest");
        self.shift(
            terms.0.quote,
            &hold(LedgerKind::Release, account_id, amount, order),
            hash,
            emit,
        );
    }
}

/// An amount that is held for an order, or is not any more.
#[inline]
pub(super) fn hold(kind: LedgerKind, account_id: AccountId, amount: u128, order: &Order) -> Shift {
    Shift { kind, account_id, amount, order_id: order.order_id, trade_id: NO_TRADE }
}
