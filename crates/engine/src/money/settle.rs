//! Settlement: what a trade moves between buyer, seller and venue.

use market::{AccountId, Bucket, Event, LedgerKind, Quantity, TradeId};

use super::{
    Money,
    balance::{Leg, Movement, Shift},
    is_market_buy,
    reserve::hold,
    terms::Terms,
};
use crate::{Emit, book::cross::Match, state::hash::StateHash};

impl Money {
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
}

/// What a trade moves.
struct Amounts {
    cost: u128,
    goods: u128,
    /// What the buyer held for it, less what it cost.
    improvement: u128,
}
