//! Trades that were paid for, when they are undone or corrected: what they moved goes back, or the
//! difference moves.
//!
//! What a trade moved is kept nowhere. It is reckoned again by what held when it was made: that is
//! what holds now, but for what was changed since, and of that the value before is kept for as long
//! as a trade that was reckoned by it.
//!
//! Each of the two accounts and the venue has one amount of each asset to give or to get, so nobody
//! needs more than that, and no balance is lower in between than it is at the end.
//!
//! Invariant: until the venue allows it nothing is kept here, so a journal from before there was any
//! of this comes to the same states.

use alloc::vec::Vec;

use market::{
    AccountId, Bucket, Event, InstrumentId, LedgerKind, MoneyClass, MoneyEvent, MoneyTerms, Party,
    PastTrade, Price, Quantity, SessionId, TradeId, VenueDeclineReason,
};

use super::{
    Money,
    balance::Movement,
    fees::Fees,
    hash,
    settle::{BASE, BUYER, QUOTE, SELLER, TradeTerms, VENUE},
};
use crate::{Engine, operator::trades::Trades, state::hash::StateHash};

/// By what trades that can be undone are reckoned.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// Those after this one can be undone; `None`: none that is paid for.
    pub(super) since: Option<TradeId>,
    /// What held before it was changed, the first change first.
    pub(super) changed: Vec<Changed>,
}

/// What held until it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    /// The last trade that was reckoned by it.
    pub(crate) until: TradeId,
    pub(crate) was: Was,
}

/// Something by which trades are reckoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    Terms(InstrumentId, MoneyTerms),
    /// Whose the orders of a session were.
    Owner(SessionId, AccountId),
    /// Of a tier.
    Fees(u8, Fees),
    /// The tier of an account.
    Tier(AccountId, u8),
}

impl Was {
    /// Is it the same thing, whatever it was?
    pub(super) fn is_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Terms(a, _), Self::Terms(b, _)) => a == b,
            (Self::Owner(a, _), Self::Owner(b, _)) => a == b,
            (Self::Fees(a, _), Self::Fees(b, _)) => a == b,
            (Self::Tier(a, _), Self::Tier(b, _)) => a == b,
            _ => false,
        }
    }
}

impl Undo {
    /// May this trade be undone if it was paid for?
    fn covers(&self, trade_id: TradeId) -> bool {
        self.since.is_some_and(|since| since < trade_id)
    }

    /// What held when a trade was made, if it was changed since.
    fn find<T>(&self, trade_id: TradeId, of: impl Fn(&Was) -> Option<T>) -> Option<T> {
        let later = self.changed.iter().filter(|changed| trade_id <= changed.until);
        later.map(|changed| &changed.was).find_map(of)
    }

    /// Something was changed. Kept is what it was, unless no trade was reckoned by that; what only
    /// trades needed that are no longer kept is forgotten.
    fn note(&mut self, was: Was, trades: &Trades, hash: &mut StateHash) {
        let until = trades.last_id();
        if !self.covers(until) {
            return;
        }
        let oldest = trades.iter().next().expect("there is a last one").0.trade_id;
        self.changed.retain(|changed| {
            let is_needed = oldest <= changed.until;
            if !is_needed {
                hash.remove(hash::changed(changed));
            }
            is_needed
        });
        let is_known = |it: &Changed| it.until == until && it.was.is_of(&was);
        if !self.changed.iter().any(is_known) {
            self.changed.push(Changed { until, was });
            hash.add(hash::changed(&Changed { until, was }));
        }
    }

    /// Asserts that changes stand in their order and are of trades that can be undone.
    pub(super) fn check(&self) {
        assert!(self.changed.iter().all(|it| self.covers(it.until)), "{self:?}");
        assert!(self.changed.is_sorted_by_key(|it| it.until), "{self:?}");
    }
}

/// By what one trade was settled, or would be now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basis {
    /// Without the largest quantity, and the fees without those that the trade does not pay: what
    /// moves nothing is left out, so that a change of it is no other basis.
    by: TradeTerms,
    taker_id: AccountId,
    maker_id: AccountId,
}

/// What buyer, seller and venue get, of the quote and of the base asset; below 0 they give it. The
/// sum of each asset is 0.
type Net = [[i128; 3]; 2];

impl Basis {
    /// The net of what so many lots at this price move.
    fn net(&self, taker_is_buy: bool, price: Price, quantity: Quantity) -> Net {
        let mut net = [[0; 3]; 2];
        for leg in self.by.legs(taker_is_buy, price, quantity, |_| 0) {
            net[leg.asset][leg.from] -= leg.amount.cast_signed();
            net[leg.asset][leg.to] += leg.amount.cast_signed();
        }
        net
    }
}

/// What is to move so that a trade comes to nothing, or to something else.
#[derive(Debug)]
pub(crate) struct Return {
    basis: Basis,
    accounts: [AccountId; 3],
    net: Net,
}

impl Money {
    /// May a trade be undone? One that was paid for only since the venue allowed it.
    pub(crate) fn check_final(&self, trade: &PastTrade) -> Result<(), VenueDeclineReason> {
        if self.undo.covers(trade.trade_id) || self.terms(trade.instrument_id).is_none() {
            return Ok(());
        }
        Err(VenueDeclineReason::PaidFor)
    }

    /// What is to move so that a trade is undone, or is at another price and quantity; `None` is
    /// nothing.
    pub(crate) fn plan_return(
        &self,
        trade: &PastTrade,
        instead: Option<(Price, Quantity)>,
    ) -> Result<Option<Return>, VenueDeclineReason> {
        if !self.undo.covers(trade.trade_id) {
            return Ok(None);
        }
        let basis = self.basis(trade, Some(trade.trade_id));
        if instead.is_some() && basis != self.basis(trade, None) {
            return Err(VenueDeclineReason::TermsChanged);
        }
        let Some(basis) = basis else { return Ok(None) };
        let Basis { taker_id, maker_id, .. } = basis;
        let before = basis.net(trade.taker_is_buy, trade.price, trade.quantity);
        let after = instead.map_or([[0; 3]; 2], |(price, quantity)| {
            basis.net(trade.taker_is_buy, price, quantity)
        });
        let (buyer_id, seller_id) =
            if trade.taker_is_buy { (taker_id, maker_id) } else { (maker_id, taker_id) };
        let mut net = before;
        for asset in [QUOTE, BASE] {
            for party in [BUYER, SELLER, VENUE] {
                net[asset][party] = after[asset][party] - before[asset][party];
            }
            if buyer_id == seller_id {
                net[asset][BUYER] += core::mem::take(&mut net[asset][SELLER]);
            }
        }
        let planned = Return { basis, accounts: [buyer_id, seller_id, AccountId::VENUE], net };
        self.check_return(&planned)?;
        Ok(Some(planned))
    }

    /// Has everybody available what is to be given? What may be short may be so after it as well.
    fn check_return(&self, planned: &Return) -> Result<(), VenueDeclineReason> {
        let Return { basis, accounts, net } = planned;
        let terms = &basis.by.terms;
        for (asset, asset_id) in [(QUOTE, terms.quote), (BASE, terms.base)] {
            for party in [BUYER, SELLER, VENUE] {
                let may_be_short = asset == BASE && terms.class == MoneyClass::Position;
                let limits = self.limits(asset_id, accounts[party]);
                let short_max = if may_be_short { limits.short_max.cast_signed() } else { 0 };
                let left = self.balance(asset_id, accounts[party]).available + net[asset][party];
                if net[asset][party] < 0 && left < -short_max {
                    return Err(VenueDeclineReason::InsufficientBalance);
                }
            }
        }
        Ok(())
    }

    /// Moves what was planned: for each asset from buyer, seller and venue, in this order, to whoever
    /// gets something, in the same.
    pub(crate) fn carry_out(
        &mut self,
        planned: &Return,
        kind: LedgerKind,
        trade: &PastTrade,
        hash: &mut StateHash,
        emit: &mut dyn FnMut(Event),
    ) {
        let Return { basis, accounts, mut net } = *planned;
        let (maker, taker) = (trade.maker.order_id, trade.taker.order_id);
        let orders = if trade.taker_is_buy { [taker, maker] } else { [maker, taker] };
        let terms = &basis.by.terms;
        for (asset, asset_id) in [(QUOTE, terms.quote), (BASE, terms.base)] {
            let holding = self.holding_mut(asset_id);
            let left = &mut net[asset];
            for from in [BUYER, SELLER, VENUE] {
                for to in [BUYER, SELLER, VENUE] {
                    let amount = left[to].min(-left[from]).max(0);
                    if amount == 0 {
                        continue;
                    }
                    left[from] += amount;
                    left[to] -= amount;
                    let entry = holding.post(&Movement {
                        kind,
                        from: (accounts[from], Bucket::Available),
                        to: (accounts[to], Bucket::Available),
                        amount: amount.unsigned_abs(),
                        order_id: orders[if from == VENUE { to } else { from }],
                        trade_id: trade.trade_id,
                    });
                    emit(Event::Ledger(entry));
                }
            }
            assert!(*left == [0; 3], "what is given is got: {planned:?}");
            holding.close(accounts, hash);
        }
    }

    /// By what a trade was reckoned when that one was made, or would be now; `None` if not at all.
    fn basis(&self, trade: &PastTrade, made: Option<TradeId>) -> Option<Basis> {
        let made = made.unwrap_or(TradeId(u64::MAX));
        let terms = self.undo.find(made, |was| match was {
            Was::Terms(id, terms) if *id == trade.instrument_id => Some(*terms),
            _ => None,
        });
        let now = || self.terms.get(usize::from(trade.instrument_id.0) - 1).map(|terms| terms.0);
        let terms = terms.or_else(now).filter(|terms| terms.class != MoneyClass::None)?;
        let owner = |party: &Party| {
            let session_id = party.key.session_id;
            let was = self.undo.find(made, |was| match was {
                Was::Owner(id, owner) if *id == session_id => Some(*owner),
                _ => None,
            });
            was.unwrap_or_else(|| self.account_id(session_id))
        };
        let (taker_id, maker_id) = (owner(&trade.taker), owner(&trade.maker));
        let fees = |account_id: AccountId| {
            if terms.class == MoneyClass::Position {
                return Fees::default();
            }
            let tier = self.undo.find(made, |was| match was {
                Was::Tier(id, tier) if *id == account_id => Some(*tier),
                _ => None,
            });
            let tier = tier.unwrap_or(self.accounts[account_id.0 as usize].fee_tier);
            let fees = self.undo.find(made, |was| match was {
                Was::Fees(of, fees) if *of == tier => Some(*fees),
                _ => None,
            });
            fees.unwrap_or(self.fees[usize::from(tier)])
        };
        let by = TradeTerms {
            terms: MoneyTerms { quantity_max: Quantity::ZERO, ..terms },
            taker_fees: Fees { maker_ppm: 0, ..fees(taker_id) },
            maker_fees: Fees { taker_ppm: 0, ..fees(maker_id) },
        };
        Some(Basis { by, taker_id, maker_id })
    }
}

impl Engine {
    /// Trades that are paid for can be undone from now on; said again, it changes nothing.
    pub(super) fn allow_undo(&mut self, emit: &mut dyn FnMut(Event)) {
        let since = self.money.undo.since.unwrap_or(self.trades.last_id());
        self.set_undo(since);
        emit(Event::Money(MoneyEvent::UndoAllowed));
    }

    /// Trades after this one can be undone.
    pub(super) fn set_undo(&mut self, since: TradeId) {
        let before = self.money.undo.since.replace(since);
        self.hash.change(hash::undo(before), hash::undo(Some(since)));
    }

    /// Something was changed by which trades are reckoned.
    pub(super) fn note_changed(&mut self, was: Was) {
        self.money.undo.note(was, &self.trades, &mut self.hash);
    }
}
