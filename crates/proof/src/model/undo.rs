//! Trades undone as one would explain it: with each trade stands what everyone got by it, as the
//! entries of the ledger told, and by what that was reckoned.

use std::{collections::BTreeMap, sync::Arc};

use market::{
    AccountId, AccountSetting, AssetId, Bucket, CorrectTrade, Event, Fill, LedgerKind, MoneyClass,
    MoneyTerms, OrderId, OrderType, Party, PastTrade, Price, Quantity, Side, TradeBusted,
    TradeCorrected, TradeId, Traded, VenueDeclineReason, VenueEvent,
};

use super::{Model, allowed_price};

/// How many of the latest trades can be undone (33.2).
const TRADES_KEPT: usize = 65_536;

/// A trade, and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Past {
    trade: PastTrade,
    is_undone: bool,
    got: Got,
    reckoned: Option<Reckoned>,
}

/// What everyone got; below 0 it was given.
type Got = BTreeMap<(AssetId, AccountId), i128>;

/// By what a trade that is paid for is reckoned. (42.11)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reckoned {
    terms: MoneyTerms,
    maker: AccountId,
    taker: AccountId,
    maker_ppm: i32,
    taker_ppm: u32,
}

impl Reckoned {
    /// What a trade moves at this price. (40.5, 42.3, 46)
    fn got(&self, trade: &PastTrade, price: Price, quantity: Quantity) -> Got {
        let MoneyTerms { base, quote, .. } = self.terms;
        let paid = self.terms.quote_amount(price, quantity).cast_signed();
        let delivered = self.terms.base_amount(quantity).cast_signed();
        let (buyer, seller) =
            if trade.taker_is_buy { (self.taker, self.maker) } else { (self.maker, self.taker) };
        let mut changes = vec![
            (quote, buyer, -paid),
            (quote, seller, paid),
            (base, seller, -delivered),
            (base, buyer, delivered),
        ];
        let mut charge = |asset_id, account_id, amount: i128| {
            changes.push((asset_id, account_id, -amount));
            changes.push((asset_id, AccountId(0), amount));
        };
        let bought = (base, delivered);
        let sold = (quote, paid);
        let (by_taker, by_maker) = if trade.taker_is_buy { (bought, sold) } else { (sold, bought) };
        let fee = |amount: i128, ppm: i128| (amount * ppm + 999_999).div_euclid(1_000_000);
        let maker_ppm = i128::from(self.maker_ppm);
        charge(by_taker.0, self.taker, fee(by_taker.1, i128::from(self.taker_ppm)));
        match maker_ppm < 0 {
            true => charge(by_taker.0, self.maker, -(by_taker.1 * -maker_ppm / 1_000_000)),
            false => charge(by_maker.0, self.maker, fee(by_maker.1, maker_ppm)),
        }
        let mut got = Got::new();
        for (asset_id, account_id, amount) in changes {
            *got.entry((asset_id, account_id)).or_default() += amount;
        }
        got
    }
}

impl Model {
    /// Keeps a trade, so that it can be undone. (33.2)
    pub(super) fn keep_trade(&mut self, traded: &Traded) {
        let party = |fill: &Fill| Party { key: fill.key, order_id: fill.order_id };
        let trade = PastTrade {
            trade_id: traded.trade_id,
            instrument_id: traded.instrument_id,
            taker_is_buy: traded.taker_side == Side::Buy,
            price: traded.price,
            quantity: traded.quantity,
            maker: party(&traded.maker),
            taker: party(&traded.taker),
        };
        self.keep_past(trade, Got::new());
    }

    fn keep_past(&mut self, trade: PastTrade, got: Got) {
        let reckoned = self.reckoned(&trade);
        let past = Past { trade, is_undone: false, got, reckoned };
        Arc::make_mut(&mut self.past).push(past);
    }

    /// The last trade was settled: what everyone got is what the ledger told.
    pub(super) fn note_settled(&mut self, events: &[Event]) {
        let past = Arc::make_mut(&mut self.past).last_mut().expect("it was kept");
        for event in events {
            let Event::Ledger(entry) = event else { continue };
            let is_settled =
                [LedgerKind::Settle, LedgerKind::Fee, LedgerKind::Rebate].contains(&entry.kind);
            if is_settled && entry.trade_id == past.trade.trade_id {
                let amount = entry.amount.get().cast_signed();
                let (from, to) = (entry.from.account_id, entry.to.account_id);
                *past.got.entry((entry.asset_id, from)).or_default() -= amount;
                *past.got.entry((entry.asset_id, to)).or_default() += amount;
            }
        }
    }

    /// By what a trade would be reckoned now.
    fn reckoned(&self, trade: &PastTrade) -> Option<Reckoned> {
        let terms = self.money.paid(trade.instrument_id)?;
        let [maker, taker] =
            [trade.maker, trade.taker].map(|party| self.money.owner(party.key.session_id));
        let is_charged = terms.class == MoneyClass::Cash;
        let (maker_ppm, _) = self.money.fees_of(maker);
        let (_, taker_ppm) = self.money.fees_of(taker);
        Some(Reckoned {
            // The largest quantity moves nothing.
            terms: MoneyTerms { quantity_max: Quantity(0), ..terms },
            maker,
            taker,
            maker_ppm: if is_charged { maker_ppm } else { 0 },
            taker_ppm: if is_charged { taker_ppm } else { 0 },
        })
    }

    /// A trade that is kept, was not undone, and is not final. (33.1, 42.7)
    fn can_be_undone(&self, trade_id: TradeId) -> Result<Past, VenueDeclineReason> {
        let oldest = self.past.len().saturating_sub(TRADES_KEPT);
        let past = self.past[oldest..].iter().find(|it| it.trade.trade_id == trade_id);
        let past = past.filter(|it| !it.is_undone).ok_or(VenueDeclineReason::UnknownTrade)?;
        Ok(past.clone())
    }

    /// 33.1, 42.8
    pub(super) fn bust_trade(
        &mut self,
        trade_id: TradeId,
        reason: market::BustReason,
        events: &mut Vec<Event>,
    ) -> Result<(), VenueDeclineReason> {
        let past = self.can_be_undone(trade_id)?;
        let changes = self.changes(&past, &Got::new())?;
        self.undo(trade_id);
        let trade = past.trade;
        events.push(Event::Venue(VenueEvent::TradeBusted(TradeBusted { trade, reason })));
        self.give_and_get(changes, &past, LedgerKind::Undo, &trade, events);
        Ok(())
    }

    /// 33.3, 42.10, 42.11
    pub(super) fn correct(
        &mut self,
        asked: &CorrectTrade,
        events: &mut Vec<Event>,
    ) -> Result<(), VenueDeclineReason> {
        let past = self.can_be_undone(asked.trade_id)?;
        let before = past.trade;
        let instrument = &self.instruments[usize::from(before.instrument_id.0) - 1];
        if !allowed_price(instrument, OrderType::Limit, asked.price)
            || !(1..=before.quantity.0).contains(&asked.quantity.0)
        {
            return Err(VenueDeclineReason::InvalidValue);
        }
        let now = self.reckoned(&before);
        if past.reckoned != now {
            return Err(VenueDeclineReason::TermsChanged);
        }
        let got = now.map_or(Got::new(), |it| it.got(&before, asked.price, asked.quantity));
        let changes = self.changes(&past, &got)?;
        self.undo(asked.trade_id);
        self.trade_count += 1;
        let trade = PastTrade {
            trade_id: TradeId(self.trade_count),
            price: asked.price,
            quantity: asked.quantity,
            ..before
        };
        self.keep_past(trade, got);
        let CorrectTrade { trade_id: broken, reason, .. } = *asked;
        let corrected = TradeCorrected { broken, trade, reason };
        events.push(Event::Venue(VenueEvent::TradeCorrected(corrected)));
        self.give_and_get(changes, &past, LedgerKind::Correct, &trade, events);
        Ok(())
    }

    fn undo(&mut self, trade_id: TradeId) {
        let mut past = Arc::make_mut(&mut self.past).iter_mut();
        past.find(|it| it.trade.trade_id == trade_id).expect("it was found").is_undone = true;
    }

    /// What everyone gets so that they have got that instead, if all have what they give. (42.9)
    fn changes(&self, past: &Past, instead: &Got) -> Result<Got, VenueDeclineReason> {
        let mut changes = instead.clone();
        for (of, got) in &past.got {
            *changes.entry(*of).or_default() -= got;
        }
        for ((asset_id, account_id), change) in &changes {
            let terms = past.reckoned.expect("it moved something").terms;
            let short = self.money.setting(*account_id, AccountSetting::ShortMax, *asset_id);
            let may_be_short = terms.class == MoneyClass::Position && *asset_id == terms.base;
            let lowest = if may_be_short { -short.cast_signed() } else { 0 };
            if *change < 0 && self.balance(*account_id, *asset_id).0 + change < lowest {
                return Err(VenueDeclineReason::InsufficientBalance);
            }
        }
        Ok(changes)
    }

    /// Who gives, gives to who gets: the buyer first, then the seller, then the venue. (42.8)
    fn give_and_get(
        &mut self,
        mut changes: Got,
        past: &Past,
        kind: LedgerKind,
        trade: &PastTrade,
        events: &mut Vec<Event>,
    ) {
        let Some(Reckoned { terms, maker, taker, .. }) = past.reckoned else { return };
        let (maker, taker) = ((maker, trade.maker.order_id), (taker, trade.taker.order_id));
        let (buyer, seller) = if trade.taker_is_buy { (taker, maker) } else { (maker, taker) };
        let all = [buyer, seller, (AccountId(0), OrderId(0))];
        for asset_id in [terms.quote, terms.base] {
            let change = |changes: &Got, who: &(AccountId, OrderId)| {
                changes.get(&(asset_id, who.0)).copied().unwrap_or(0)
            };
            while let Some(from) = all.iter().find(|who| change(&changes, who) < 0) {
                let to = all.iter().find(|who| change(&changes, who) > 0);
                let to = to.expect("what is given somebody gets");
                let amount = change(&changes, to).min(-change(&changes, from));
                *changes.entry((asset_id, from.0)).or_default() += amount;
                *changes.entry((asset_id, to.0)).or_default() -= amount;
                // The venue has no order: the entry names the receiver's order.
                let order_id = if from.0 == AccountId(0) { to.1 } else { from.1 };
                let ends = [(from.0, Bucket::Available), (to.0, Bucket::Available)];
                let trade_id = trade.trade_id;
                events.extend(self.money.post(kind, asset_id, ends, amount, order_id, trade_id));
            }
        }
    }
}
