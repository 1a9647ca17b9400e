//! Money: whose orders are whose, what they cost, and who has what. The order of things is that of
//! an order's life: checked, reserved, settled with each trade, released when it needs no more.
//!
//! What an order holds is a function of its side, limit and open lots alone, so nothing of it is
//! kept beside the order, and whatever makes those lots fewer says by how much less it holds. A
//! market order has no limit: what it will pay is found by walking the book before it trades.
//!
//! Invariant: reserved is the sum of what the live orders hold; what a trade costs never exceeds
//! what the buyer's order held for those lots; sums of an asset change only by what comes in or
//! goes out.

pub(crate) mod account;
pub(crate) mod balance;
pub(crate) mod command;
pub(crate) mod fees;
mod hash;
mod order;
pub(crate) mod terms;
pub(crate) mod undo;
pub(crate) mod view;
mod invariants;
mod snapshot;

use alloc::vec::Vec;
use core::hint::select_unpredictable;

use market::{
    AccountId, AssetId, Bucket, Event, InstrumentId, LedgerEntry, LedgerKind, LedgerPlace,
    MoneyClass, OrderId, Price, Quantity, RejectReason, SessionId, Side, Text, Timestamp, TradeId,
    Units,
};

use crate::{
    Emit, book::cross::Match, intake::name_index::NameIndex, order::Order, state::hash::StateHash,
};
use account::{Account, AssetLimits, Brief, TIER_COUNT};
use balance::{Balance, Holding, Leg, Movement, Shift};
use fees::Fees;
use terms::Terms;
use undo::Undo;

/// All that is known of money.
#[derive(Debug)]
pub(crate) struct Money {
    /// True once there is an asset or an account; before, nothing here has anything to do.
    is_used: bool,
    /// True if a trade can cost anybody a fee.
    has_fees: bool,
    /// True once a limit of an asset was set for any account.
    has_asset_limits: bool,
    /// By account id; the first is the venue's own.
    accounts: Vec<Account>,
    /// By account id: of each what most orders ask, side by side.
    briefs: Vec<Brief>,
    account_names: NameIndex,
    /// By asset id, less 1.
    holdings: Vec<Holding>,
    asset_names: NameIndex,
    /// By asset id, less 1, and account id; an asset for which none was ever set has none.
    limits: Vec<Vec<AssetLimits>>,
    /// By session id; sessions after the last have no account.
    account_ids: Vec<AccountId>,
    /// By instrument id, less 1; instruments after the last are not paid for.
    terms: Vec<Terms>,
    /// By tier.
    fees: [Fees; TIER_COUNT],
    /// By what trades that can be undone are reckoned.
    undo: Undo,
    /// What an incoming order to buy that has no limit holds; 0 between commands.
    market_reserved: u128,
}

/// An order that asks to be accepted.
pub(crate) struct Asked<'a> {
    pub(crate) session_id: SessionId,
    pub(crate) instrument_id: InstrumentId,
    pub(crate) side: Side,
    /// `None` is any price.
    pub(crate) limit: Option<Price>,
    /// What would be open of it.
    pub(crate) leaves: Quantity,
    /// The order that it replaces, and whose reservation it takes over.
    pub(crate) original: Option<&'a Order>,
}

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
    account_id: AccountId,
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

impl Default for Money {
    fn default() -> Self {
        Self {
            is_used: false,
            has_fees: false,
            has_asset_limits: false,
            accounts: alloc::vec![Account::new(Text::BLANK)],
            briefs: alloc::vec![Brief::default()],
            account_names: NameIndex::default(),
            holdings: Vec::new(),
            asset_names: NameIndex::default(),
            limits: Vec::new(),
            account_ids: Vec::new(),
            terms: Vec::new(),
            fees: [Fees::default(); TIER_COUNT],
            undo: Undo::default(),
            market_reserved: 0,
        }
    }
}

impl Money {
    /// False as long as there is neither an asset nor an account.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whose the orders of a session are; [`AccountId::VENUE`] is nobody's.
    #[inline]
    pub(crate) fn account_id(&self, session_id: SessionId) -> AccountId {
        self.account_ids.get(usize::from(session_id.0)).copied().unwrap_or(AccountId::VENUE)
    }

    /// The terms of an instrument; `None` where orders are not paid for.
    #[inline]
    pub(crate) fn terms(&self, instrument_id: InstrumentId) -> Option<&Terms> {
        self.terms.get(usize::from(instrument_id.0) - 1).filter(|terms| terms.is_paid())
    }

    /// Something of an account has changed that is not counted.
    pub(crate) fn note_account(&mut self, account_id: AccountId, hash: &mut StateHash) {
        let account = &mut self.accounts[account_id.0 as usize];
        account.rehash(account_id, hash);
        let brief = &mut self.briefs[account_id.0 as usize];
        brief.fee_tier = account.fee_tier;
        brief.is_limited = account.is_limited();
    }

    /// An account asks for an order.
    #[inline]
    pub(crate) fn count_asked(
        &mut self,
        session_id: SessionId,
        timestamp: Timestamp,
        hash: &mut StateHash,
    ) {
        if !self.is_used {
            return;
        }
        let account_id = self.account_id(session_id);
        if account_id == AccountId::VENUE {
            return;
        }
        let account = &mut self.accounts[account_id.0 as usize];
        if account.count(timestamp) {
            account.rehash(account_id, hash);
        }
    }

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

    /// What was held for an order is held for one that rests.
    #[inline(always)]
    pub(crate) fn add_live_held(&mut self, held: &Held) {
        self.briefs[held.account_id.0 as usize].live_orders += 1;
    }

    /// An order of a session became live.
    #[inline]
    pub(crate) fn add_live(&mut self, session_id: SessionId) {
        if !self.is_used {
            return;
        }
        let account_id = self.account_id(session_id);
        if account_id != AccountId::VENUE {
            self.briefs[account_id.0 as usize].live_orders += 1;
        }
    }

    /// An order of a session is live no more.
    #[inline]
    pub(crate) fn remove_live(&mut self, session_id: SessionId) {
        if !self.is_used {
            return;
        }
        let account_id = self.account_id(session_id);
        if account_id != AccountId::VENUE {
            self.briefs[account_id.0 as usize].live_orders -= 1;
        }
    }

    /// Has memory bring the balance with which an order of a session is paid for; see
    /// [`ahead`](mod@crate::intake::prefetch).
    #[inline]
    pub(crate) fn fetch(
        &self,
        session_id: SessionId,
        instrument_id: InstrumentId,
        side: Side,
        fetch: impl Fn(*const u8),
    ) {
        let Some(terms) = self.terms(instrument_id) else { return };
        let asset_id = paid_with(terms, side);
        let balance = self.balance(asset_id, self.account_id(session_id));
        fetch(core::ptr::from_ref(balance).cast());
    }

    /// May the session have this order? `best` says the best displayed price of the other side, and
    /// `walk` what the order would cost if it has no limit.
    #[inline]
    pub(crate) fn check(
        &self,
        asked: &Asked<'_>,
        best: impl FnOnce() -> Option<Price>,
        walk: impl FnOnce(&Terms) -> u128,
    ) -> Result<(), RejectReason> {
        let account_id = self.account_id(asked.session_id);
        let terms = self.terms(asked.instrument_id);
        if account_id == AccountId::VENUE {
            return if terms.is_some() { Err(RejectReason::NoAccount) } else { Ok(()) };
        }
        self.check_account(account_id, terms, asked, best, walk)
    }

    /// May the account have this order? The checks stand in the order of precedence of the rules.
    fn check_account(
        &self,
        account_id: AccountId,
        terms: Option<&Terms>,
        asked: &Asked<'_>,
        best: impl FnOnce() -> Option<Price>,
        walk: impl FnOnce(&Terms) -> u128,
    ) -> Result<(), RejectReason> {
        let account = &self.accounts[account_id.0 as usize];
        let brief = &self.briefs[account_id.0 as usize];
        // Most accounts have no limits, and most orders are not short sales.
        if let (Some(terms), Some(limit)) = (terms, asked.limit)
            && !self.has_asset_limits
            && !brief.is_limited
            && matches!(asked.side, Side::Buy | Side::Sell)
        {
            let asset_id = paid_with(terms, asked.side);
            let needed = terms.reservation(asked.side, limit, asked.leaves);
            return self.check_available(asset_id, account_id, needed, freed(terms, asked));
        }
        let limits = terms.map_or(AssetLimits::default(), |it| self.limits(it.0.base, account_id));
        // An order to sell costs nothing, but what it could bring may not be too much.
        let cost = terms.map_or(0, |terms| match asked.limit {
            Some(limit) => terms.cost(limit, asked.leaves),
            None => walk(terms),
        });

        if let Some(terms) = terms
            && matches!(asked.side, Side::SellShort | Side::SellShortExempt)
            && !(terms.is_position() && limits.short_max != 0)
        {
            return Err(RejectReason::ShortSaleNotAllowed);
        }
        if account.price_away_max != 0
            && let (Some(limit), Some(best)) = (asked.limit, best())
            && is_too_far(asked.side, limit, best, account.price_away_max)
        {
            return Err(RejectReason::PriceTooFar);
        }
        if account.order_quantity_max != 0 && u64::from(account.order_quantity_max) < asked.leaves.0
        {
            return Err(RejectReason::OrderQuantityLimit);
        }
        if let Some(terms) = terms {
            let notional_max = self.limits(terms.0.quote, account_id).order_notional_max;
            if notional_max != 0 && notional_max < cost {
                return Err(RejectReason::OrderNotionalLimit);
            }
        }
        if account.live_orders_max != 0
            && account.live_orders_max <= brief.live_orders
            && asked.original.is_none()
        {
            return Err(RejectReason::TooManyOrders);
        }
        account.check_rate()?;
        if let Some(terms) = terms {
            self.check_balance(asked, terms, account_id, cost, &limits)?;
        }
        if account.stopped {
            return Err(RejectReason::AccountStopped);
        }
        Ok(())
    }

    /// Has the account what an order could cost or deliver, and may it have what it could bring?
    fn check_balance(
        &self,
        asked: &Asked<'_>,
        terms: &Terms,
        account_id: AccountId,
        cost: u128,
        limits: &AssetLimits,
    ) -> Result<(), RejectReason> {
        let freed = freed(terms, asked);
        let goods = terms.goods(asked.leaves);
        let base = self.balance(terms.0.base, account_id);
        if asked.side.is_buy() {
            if terms.is_position() && limits.position_max != 0 {
                let freed = asked.original.map_or(0, |order| terms.goods(order.leaves()));
                let buying = base.buying - freed + goods;
                if limits.position_max.cast_signed() < base.position() + buying.cast_signed() {
                    return Err(RejectReason::PositionLimit);
                }
            }
            return self.check_available(terms.0.quote, account_id, cost, freed);
        }
        if asked.side == Side::Sell {
            return self.check_available(terms.0.base, account_id, goods, freed);
        }
        let left = base.available + freed.cast_signed() - goods.cast_signed();
        if left < -limits.short_max.cast_signed() {
            return Err(RejectReason::PositionLimit);
        }
        Ok(())
    }

    /// Has the account so much available, what is freed included?
    #[inline]
    fn check_available(
        &self,
        asset_id: AssetId,
        account_id: AccountId,
        needed: u128,
        freed: u128,
    ) -> Result<(), RejectReason> {
        let available = self.balance(asset_id, account_id).available;
        if available + freed.cast_signed() < needed.cast_signed() {
            return Err(RejectReason::InsufficientBalance);
        }
        Ok(())
    }

    /// May a live order to sell become one of this side?
    pub(crate) fn may_become(&self, order: &Order, side: Side) -> bool {
        let Some(terms) = self.terms(order.instrument_id) else { return true };
        let account_id = self.account_id(order.key.session_id);
        match side {
            Side::Buy => true,
            Side::Sell => 0 <= self.balance(terms.0.base, account_id).available,
            Side::SellShort | Side::SellShortExempt => {
                terms.is_position() && self.limits(terms.0.base, account_id).short_max != 0
            }
        }
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

    /// Has the account what an order would hold with another price?
    pub(crate) fn may_follow(&self, order: &Order, price: Price) -> bool {
        let Some(terms) = self.terms(order.instrument_id) else { return true };
        let held = |price| terms.reservation(order.side, price, order.leaves());
        let account_id = self.account_id(order.key.session_id);
        let available = self.balance(paid_with(terms, order.side), account_id).available;
        // What is available of something that may be short is below 0, and nothing is needed.
        held(price) <= held(order.price())
            || (held(price) - held(order.price())).cast_signed() <= available
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

    /// Pays for a trade, delivers what was bought, and charges both.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        met: &Match<'_>,
        trade_id: TradeId,
        hash: &mut StateHash,
        emit: &mut (impl Emit + ?Sized),
    ) {
        if self.is_used
            && let Some(&terms) = self.terms(met.taker.instrument_id)
        {
            self.settle_paid(&terms, met, trade_id, hash, emit);
        }
    }

    fn settle_paid(
        &mut self,
        terms: &Terms,
        met: &Match<'_>,
        trade_id: TradeId,
        hash: &mut StateHash,
        emit: &mut (impl Emit + ?Sized),
    ) {
        let Match { taker, maker, price, quantity, .. } = *met;
        let taker_buys = taker.side.is_buy();
        let (buyer, seller) = if taker_buys { (taker, maker) } else { (maker, taker) };
        let leaves_before = Quantity(buyer.leaves().0 + quantity.0);
        let buyer_id = self.account_id(buyer.key.session_id);
        let seller_id = self.account_id(seller.key.session_id);
        let cost = terms.cost(price, quantity);
        let goods = terms.goods(quantity);
        let freed = if is_market_buy(buyer) {
            self.market_reserved =
                self.market_reserved.checked_sub(cost).expect("the walk counted this trade");
            cost
        } else if buyer.price() == price && terms.is_exact() {
            cost
        } else {
            terms.cost(buyer.price(), leaves_before) - terms.cost(buyer.price(), buyer.leaves())
        };
        self.count_buying(terms, buyer, leaves_before, buyer.leaves());
        let improvement = freed.checked_sub(cost).expect("no trade is beyond the buyer's limit");

        let is_of_two = buyer_id != seller_id
            && buyer_id != AccountId::VENUE
            && seller_id != AccountId::VENUE
            && terms.0.base != terms.0.quote;
        let is_moderate = cost != 0 && goods != 0 && (freed | goods) < Leg::AMOUNT_MAX;
        if !is_of_two || !is_moderate {
            let amounts = Amounts { cost, goods, improvement };
            let emit = &mut |event| emit.emit(event);
            return self.settle_one_by_one(terms, met, trade_id, &amounts, hash, emit);
        }

        let (cost, goods) = (cost as u64, goods as u64);
        let (mut fee_taker, mut rebate, mut fee_maker) = (0, 0, 0);
        let is_charged = self.has_fees && !terms.is_position();
        if is_charged {
            let fees = |it: AccountId| &self.fees[usize::from(self.briefs[it.0 as usize].fee_tier)];
            let (taker_id, maker_id) =
                if taker_buys { (buyer_id, seller_id) } else { (seller_id, buyer_id) };
            let (to_taker, to_maker) = if taker_buys { (goods, cost) } else { (cost, goods) };
            let maker_fees = fees(maker_id);
            fee_taker = fees(taker_id).of_taker(to_taker.into()) as u64;
            rebate = maker_fees.rebate_of_maker(to_taker.into()) as u64;
            fee_maker = maker_fees.of_maker(to_maker.into()) as u64;
        }
        let paid = Leg {
            asset_id: terms.0.quote,
            payer: buyer_id,
            receiver: seller_id,
            amount: cost,
            back: improvement as u64,
            fee: if taker_buys { fee_maker } else { fee_taker },
            rebate: if taker_buys { 0 } else { rebate },
        };
        let bought = Leg {
            asset_id: terms.0.base,
            payer: seller_id,
            receiver: buyer_id,
            amount: goods,
            back: 0,
            fee: if taker_buys { fee_taker } else { fee_maker },
            rebate: if taker_buys { rebate } else { 0 },
        };
        // All that moves first, then all that is told of it.
        let paid_before = self.holdings[usize::from(terms.0.quote.0) - 1].settle(&paid, hash);
        let bought_before = self.holdings[usize::from(terms.0.base.0) - 1].settle(&bought, hash);
        emit.emit(paid.pays(paid_before, buyer.order_id, trade_id));
        if paid.back != 0 {
            emit.emit(paid.gives_back(paid_before, buyer.order_id, trade_id));
        }
        emit.emit(bought.pays(bought_before, seller.order_id, trade_id));
        if is_charged {
            let (to_taker, taker_before, to_maker, maker_before) = match taker_buys {
                true => (&bought, bought_before, &paid, paid_before),
                false => (&paid, paid_before, &bought, bought_before),
            };
            if fee_taker != 0 {
                emit.emit(to_taker.charges(taker_before, taker.order_id, trade_id));
            }
            if rebate != 0 {
                emit.emit(to_taker.rebates(taker_before, maker.order_id, trade_id));
            }
            if fee_maker != 0 {
                emit.emit(to_maker.charges(maker_before, maker.order_id, trade_id));
            }
        }
    }

    /// As [`settle_paid`](Self::settle_paid), one movement after the other: where one account is on
    /// both sides, or something is too little to be moved.
    #[cold]
    fn settle_one_by_one(
        &mut self,
        terms: &Terms,
        met: &Match<'_>,
        trade_id: TradeId,
        amounts: &Amounts,
        hash: &mut StateHash,
        emit: &mut dyn FnMut(Event),
    ) {
        let Match { taker, maker, .. } = *met;
        let (buyer, seller) = if taker.side.is_buy() { (taker, maker) } else { (maker, taker) };
        let buyer_id = self.account_id(buyer.key.session_id);
        let seller_id = self.account_id(seller.key.session_id);
        let Amounts { cost, goods, improvement } = *amounts;
        let pays = Movement {
            kind: LedgerKind::Settle,
            from: (buyer_id, Bucket::Reserved),
            to: (seller_id, Bucket::Available),
            amount: cost,
            order_id: buyer.order_id,
            trade_id,
        };
        let keeps = Shift { trade_id, ..hold(LedgerKind::Release, buyer_id, improvement, buyer) };
        let delivers = Movement {
            from: (seller_id, Bucket::Reserved),
            to: (buyer_id, Bucket::Available),
            amount: goods,
            order_id: seller.order_id,
            ..pays
        };
        self.post(terms.0.quote, &pays, emit);
        if improvement != 0 {
            let entry = self.holdings[usize::from(terms.0.quote.0) - 1].shift(&keeps);
            emit(Event::Ledger(entry));
        }
        self.post(terms.0.base, &delivers, emit);
        if self.has_fees && !terms.is_position() {
            self.charge(terms, met, trade_id, (cost, goods), hash, emit);
        }
        for asset_id in [terms.0.quote, terms.0.base] {
            let holding = &mut self.holdings[usize::from(asset_id.0) - 1];
            holding.rehash(buyer_id, hash);
            holding.rehash(seller_id, hash);
        }
    }

    /// Charges both orders of a trade a part of what they received, and pays rebates.
    fn charge(
        &mut self,
        terms: &Terms,
        met: &Match<'_>,
        trade_id: TradeId,
        (cost, goods): (u128, u128),
        hash: &mut StateHash,
        emit: &mut dyn FnMut(Event),
    ) {
        let Match { taker, maker, .. } = *met;
        let bought = (terms.0.base, goods);
        let paid = (terms.0.quote, cost);
        let (to_taker, to_maker) =
            if taker.side.is_buy() { (bought, paid) } else { (paid, bought) };
        let taker_id = self.account_id(taker.key.session_id);
        let maker_id = self.account_id(maker.key.session_id);
        let taker_fees = self.fees[usize::from(self.briefs[taker_id.0 as usize].fee_tier)];
        let maker_fees = self.fees[usize::from(self.briefs[maker_id.0 as usize].fee_tier)];
        let venue = (AccountId::VENUE, Bucket::Available);
        let fee = |account_id, amount, order_id| Movement {
            kind: LedgerKind::Fee,
            from: (account_id, Bucket::Available),
            to: venue,
            amount,
            order_id,
            trade_id,
        };
        let (asset_id, amount) = to_taker;
        self.post(asset_id, &fee(taker_id, taker_fees.of_taker(amount), taker.order_id), emit);
        let rebate = Movement {
            kind: LedgerKind::Rebate,
            from: venue,
            to: (maker_id, Bucket::Available),
            amount: maker_fees.rebate_of_maker(amount),
            order_id: maker.order_id,
            trade_id,
        };
        self.post(asset_id, &rebate, emit);
        let (asset_id, amount) = to_maker;
        self.post(asset_id, &fee(maker_id, maker_fees.of_maker(amount), maker.order_id), emit);
        for asset_id in [terms.0.quote, terms.0.base] {
            self.holdings[usize::from(asset_id.0) - 1].rehash(AccountId::VENUE, hash);
        }
    }

    /// What an account has of an asset.
    #[inline]
    pub(crate) fn balance(&self, asset_id: AssetId, account_id: AccountId) -> &Balance {
        self.holdings[usize::from(asset_id.0) - 1].balance(account_id)
    }

    /// What an account may do with an asset.
    #[inline]
    pub(crate) fn limits(&self, asset_id: AssetId, account_id: AccountId) -> AssetLimits {
        let of_asset = &self.limits[usize::from(asset_id.0) - 1];
        of_asset.get(account_id.0 as usize).copied().unwrap_or_default()
    }

    /// Live orders could bring in more or less of what is limited.
    #[inline]
    fn count_buying(&mut self, terms: &Terms, order: &Order, before: Quantity, after: Quantity) {
        if terms.is_position() && order.side.is_buy() {
            let account_id = self.account_id(order.key.session_id);
            let holding = &mut self.holdings[usize::from(terms.0.base.0) - 1];
            holding.change_buying(account_id, terms.goods(before), terms.goods(after));
        }
    }

    /// Moves an amount between the two buckets of an account, unless it is nothing.
    #[inline(always)]
    fn shift(
        &mut self,
        asset_id: AssetId,
        shift: &Shift,
        hash: &mut StateHash,
        emit: &mut (impl Emit + ?Sized),
    ) {
        if shift.amount == 0 {
            return;
        }
        let holding = &mut self.holdings[usize::from(asset_id.0) - 1];
        let entry = holding.shift(shift);
        holding.rehash(shift.account_id, hash);
        emit.emit(Event::Ledger(entry));
    }

    /// Carries out a movement, unless it is of nothing; what it touches is to be rehashed.
    fn post(&mut self, asset_id: AssetId, movement: &Movement, emit: &mut dyn FnMut(Event)) {
        if movement.amount == 0 {
            return;
        }
        let holding = &mut self.holdings[usize::from(asset_id.0) - 1];
        let entry = holding.apply(movement);
        emit(Event::Ledger(entry));
    }
}

/// What a trade moves.
struct Amounts {
    cost: u128,
    goods: u128,
    /// What the buyer held for it, less what it cost.
    improvement: u128,
}

/// True for an order to buy whose limit is not known, so that a walk told what it holds.
#[inline]
fn is_market_buy(order: &Order) -> bool {
    order.price() == Price::ZERO && order.side.is_buy()
}

/// What an order of this side pays with, or delivers.
#[inline]
fn paid_with(terms: &Terms, side: Side) -> AssetId {
    select_unpredictable(side.is_buy(), terms.0.quote, terms.0.base)
}

/// An amount that is held for an order, or is not any more.
#[inline]
fn hold(kind: LedgerKind, account_id: AccountId, amount: u128, order: &Order) -> Shift {
    Shift { kind, account_id, amount, order_id: order.order_id, trade_id: NO_TRADE }
}

/// What the order that is replaced holds.
#[inline]
fn freed(terms: &Terms, asked: &Asked<'_>) -> u128 {
    asked.original.map_or(0, |order| terms.reservation(order.side, order.price(), order.leaves()))
}

/// Is a limit further through the best price of the other side than so many millionths of it?
fn is_too_far(side: Side, limit: Price, best: Price, away_max: u32) -> bool {
    let through =
        if side.is_buy() { limit.0.saturating_sub(best.0) } else { best.0.saturating_sub(limit.0) };
    u128::from(best.0) * u128::from(away_max) < u128::from(through) * 1_000_000
}

/// Of no order.
const NO_ORDER: OrderId = OrderId(0);

/// Of no trade.
const NO_TRADE: TradeId = TradeId(0);
