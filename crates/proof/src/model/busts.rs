//! Busts and corrections, as one would explain them: section 33 of the rules, and 42.7 to 42.11. The
//! model keeps each trade with the terms of its settlement, so that its movements can be found again.

use std::{collections::BTreeMap, sync::Arc};

use market::{
    AccountId, AccountSetting, AssetId, Bucket, BustReason, CorrectTrade, Event, Fill, LedgerKind,
    MoneyClass, MoneyTerms, OrderId, Party, PastTrade, Price, Quantity, Side, TradeBusted,
    TradeCorrected, TradeId, Traded, VenueDeclineReason, VenueEvent,
};

use super::{Model, is_price};

/// The number of latest trades that can be undone (33.2).
const TRADES_KEPT: usize = 65_536;

/// A trade, and whether it still stands.
#[derive(Clone, Debug)]
pub(super) struct KeptTrade {
    trade: PastTrade,
    is_undone: bool,
    pub(super) settlement: Option<Settlement>,
}

/// The units of each asset that each account gained; negative if it gave them.
type Gains = BTreeMap<(AssetId, AccountId), i128>;

/// The terms that settle a trade that is paid for. (42.11)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settlement {
    terms: MoneyTerms,
    maker: AccountId,
    taker: AccountId,
    maker_ppm: i32,
    taker_ppm: u32,
}

/// An amount that a trade moves, from one account to another.
pub(super) struct Movement {
    pub(super) kind: LedgerKind,
    pub(super) asset_id: AssetId,
    pub(super) from: AccountId,
    pub(super) to: AccountId,
    pub(super) amount: i128,
}

impl Settlement {
    /// Payment, delivery, the taker's fee, the maker's rebate, the maker's fee. (40.5, 42.3, 46)
    pub(super) fn movements(
        &self,
        taker_is_buy: bool,
        price: Price,
        quantity: Quantity,
    ) -> [Movement; 5] {
        let (maker, taker, venue) = (self.maker, self.taker, AccountId(0));
        let (buyer, seller) = if taker_is_buy { (taker, maker) } else { (maker, taker) };
        let paid = (self.terms.quote, self.terms.quote_amount(price, quantity).cast_signed());
        let delivered = (self.terms.base, self.terms.base_amount(quantity).cast_signed());
        let (to_taker, to_maker) = if taker_is_buy { (delivered, paid) } else { (paid, delivered) };
        let up = |amount: i128, ppm: i128| (amount * ppm + 999_999).div_euclid(1_000_000);
        let maker_ppm = i128::from(self.maker_ppm);
        // 46.1, 46.2
        let taker_fee = up(to_taker.1, i128::from(self.taker_ppm));
        let rebate = to_taker.1 * (-maker_ppm).max(0) / 1_000_000;
        let maker_fee = up(to_maker.1, maker_ppm.max(0));
        [
            (LedgerKind::Settle, paid.0, buyer, seller, paid.1),
            (LedgerKind::Settle, delivered.0, seller, buyer, delivered.1),
            (LedgerKind::Fee, to_taker.0, taker, venue, taker_fee),
            (LedgerKind::Rebate, to_taker.0, venue, maker, rebate),
            (LedgerKind::Fee, to_maker.0, maker, venue, maker_fee),
        ]
        .map(|(kind, asset_id, from, to, amount)| Movement {
            kind,
            asset_id,
            from,
            to,
            amount,
        })
    }

    fn gains(&self, trade: &PastTrade) -> Gains {
        let mut gains = Gains::new();
        for it in self.movements(trade.taker_is_buy, trade.price, trade.quantity) {
            *gains.entry((it.asset_id, it.from)).or_default() -= it.amount;
            *gains.entry((it.asset_id, it.to)).or_default() += it.amount;
        }
        gains
    }
}

impl Model {
    /// Keeps a trade, so that it can be undone. (33.2)
    pub(super) fn keep_trade(&mut self, traded: &Traded) {
        let party = |fill: &Fill| Party { key: fill.key, order_id: fill.order_id };
        self.keep(PastTrade {
            trade_id: traded.trade_id,
            instrument_id: traded.instrument_id,
            taker_is_buy: traded.taker_side == Side::Buy,
            price: traded.price,
            quantity: traded.quantity,
            maker: party(&traded.maker),
            taker: party(&traded.taker),
        });
    }

    fn keep(&mut self, trade: PastTrade) {
        let settlement = self.settlement(&trade);
        let kept = KeptTrade { trade, is_undone: false, settlement };
        Arc::make_mut(&mut self.past).push(kept);
    }

    /// The terms that would settle a trade now.
    fn settlement(&self, trade: &PastTrade) -> Option<Settlement> {
        let terms = self.money.paid(trade.instrument_id)?;
        let [maker, taker] =
            [trade.maker, trade.taker].map(|party| self.money.owner(party.key.session_id));
        // 46.4
        let is_charged = terms.class == MoneyClass::Cash;
        let (maker_ppm, _) = self.money.fees_of(maker);
        let (_, taker_ppm) = self.money.fees_of(taker);
        Some(Settlement {
            // The largest quantity has no effect on movements.
            terms: MoneyTerms { quantity_max: Quantity(0), ..terms },
            maker,
            taker,
            maker_ppm: if is_charged { maker_ppm } else { 0 },
            taker_ppm: if is_charged { taker_ppm } else { 0 },
        })
    }

    /// A kept trade that was not undone. (33.1)
    fn can_be_undone(&self, trade_id: TradeId) -> Result<KeptTrade, VenueDeclineReason> {
        let oldest = self.past.len().saturating_sub(TRADES_KEPT);
        let kept = self.past[oldest..].iter().find(|it| it.trade.trade_id == trade_id);
        kept.filter(|it| !it.is_undone).cloned().ok_or(VenueDeclineReason::UnknownTrade)
    }

    /// Undoes a trade. (33.1, 42.8)
    pub(super) fn bust_trade(
        &mut self,
        trade_id: TradeId,
        reason: BustReason,
    ) -> Result<(), VenueDeclineReason> {
        let kept = self.can_be_undone(trade_id)?;
        let changes = self.changes(&kept, None)?;
        self.undo(trade_id);
        let trade = kept.trade;
        self.events.push(Event::Venue(VenueEvent::TradeBusted(TradeBusted { trade, reason })));
        self.give_and_get(changes, &kept, LedgerKind::Undo, trade.trade_id);
        Ok(())
    }

    /// Undoes a trade, and puts a corrected one in its place. (33.3, 42.10, 42.11)
    pub(super) fn correct(&mut self, asked: &CorrectTrade) -> Result<(), VenueDeclineReason> {
        let CorrectTrade { trade_id: busted, price, quantity, reason } = *asked;
        let kept = self.can_be_undone(busted)?;
        let before = kept.trade;
        if !is_price(self.instrument(before.instrument_id), price)
            || !(1..=before.quantity.0).contains(&quantity.0)
        {
            return Err(VenueDeclineReason::InvalidValue);
        }
        if kept.settlement != self.settlement(&before) {
            return Err(VenueDeclineReason::TermsChanged);
        }
        let mut trade = PastTrade { price, quantity, ..before };
        let changes = self.changes(&kept, Some(&trade))?;
        self.undo(busted);
        trade.trade_id = self.new_trade_id();
        self.keep(trade);
        let corrected = TradeCorrected { busted, trade, reason };
        self.events.push(Event::Venue(VenueEvent::TradeCorrected(corrected)));
        self.give_and_get(changes, &kept, LedgerKind::Correct, trade.trade_id);
        Ok(())
    }

    fn undo(&mut self, trade_id: TradeId) {
        let mut past = Arc::make_mut(&mut self.past).iter_mut();
        past.find(|it| it.trade.trade_id == trade_id).expect("it was found").is_undone = true;
    }

    /// The gains of all accounts if another trade, or none, takes the place of this one. An error if an
    /// account has less than it would give. (42.9)
    fn changes(
        &self,
        kept: &KeptTrade,
        instead: Option<&PastTrade>,
    ) -> Result<Gains, VenueDeclineReason> {
        let Some(settlement) = kept.settlement else { return Ok(Gains::new()) };
        let mut changes = instead.map_or(Gains::new(), |trade| settlement.gains(trade));
        for (of, gain) in settlement.gains(&kept.trade) {
            *changes.entry(of).or_default() -= gain;
        }
        let terms = settlement.terms;
        for ((asset_id, account_id), change) in &changes {
            let short = self.money.setting(*account_id, AccountSetting::ShortMax, *asset_id);
            let may_be_short = terms.class == MoneyClass::Position && *asset_id == terms.base;
            let lowest = if may_be_short { -short.cast_signed() } else { 0 };
            if *change < 0 && self.balance(*account_id, *asset_id).0 + change < lowest {
                return Err(VenueDeclineReason::InsufficientBalance);
            }
        }
        Ok(changes)
    }

    /// The buyer gives first, then the seller, then the venue; they receive in the same order. (42.8)
    fn give_and_get(
        &mut self,
        mut changes: Gains,
        kept: &KeptTrade,
        kind: LedgerKind,
        trade_id: TradeId,
    ) {
        let Some(Settlement { terms, maker, taker, .. }) = kept.settlement else { return };
        let trade = &kept.trade;
        let (maker, taker) = ((maker, trade.maker.order_id), (taker, trade.taker.order_id));
        let (buyer, seller) = if trade.taker_is_buy { (taker, maker) } else { (maker, taker) };
        let all = [buyer, seller, (AccountId(0), OrderId(0))];
        for asset_id in [terms.quote, terms.base] {
            let change = |changes: &Gains, party: &(AccountId, OrderId)| {
                changes.get(&(asset_id, party.0)).copied().unwrap_or(0)
            };
            while let Some(from) = all.iter().find(|it| change(&changes, it) < 0) {
                let to = all.iter().find(|it| change(&changes, it) > 0);
                let to = to.expect("what is given somebody gets");
                let amount = change(&changes, to).min(-change(&changes, from));
                *changes.entry((asset_id, from.0)).or_default() += amount;
                *changes.entry((asset_id, to.0)).or_default() -= amount;
                // The venue has no order: the entry names the receiver's order.
                let order_id = if from.0 == AccountId(0) { to.1 } else { from.1 };
                let ends = [(from.0, Bucket::Available), (to.0, Bucket::Available)];
                self.post(kind, asset_id, ends, amount, order_id, trade_id);
            }
        }
    }
}
