//! Busts and corrections of paid trades: the movements are returned, or the difference moves.
//!
//! The movements of a trade are not stored. They are calculated again from the terms, accounts and
//! fees at the time of the trade: the present ones, unless one changed since. The old value of a change
//! is kept while a kept trade needs it.
//!
//! Each of the two accounts and the venue gives or receives one net amount of each asset. So no
//! party needs more than that, and no balance is lower in between than at the end.
//!
//! Invariant: nothing is kept here that no kept trade needs.

use alloc::vec::Vec;

use market::{
    AccountId, Bucket, Event, InstrumentId, LedgerKind, MoneyClass, MoneyTerms, Party, PastTrade,
    Price, Quantity, SessionId, Settlement, TradeId, VenueDeclineReason,
};

use super::{Money, amounts::TradeAmounts, balance::Movement, fees::Fees};
use crate::{Engine, operator::trades::Trades};

/// The values needed to undo trades.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// Old values of changed settings, in the order of the changes.
    pub(super) changed: Vec<Changed>,
}

/// The old value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    /// The last trade that was settled with it.
    pub(crate) until: TradeId,
    pub(crate) was: Was,
}

/// A setting that affects settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    Terms(InstrumentId, MoneyTerms),
    /// The account of a session.
    Owner(SessionId, AccountId),
    /// The fees of a tier.
    Fees(u8, Fees),
    /// The fee tier of an account.
    Tier(AccountId, u8),
}

impl Was {
    /// True if both are the same setting, with any values.
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
    /// The old value of a setting when a trade was made, if it changed since.
    fn find<T>(&self, trade_id: TradeId, of: impl Fn(&Was) -> Option<T>) -> Option<T> {
        let later = self.changed.iter().filter(|changed| trade_id <= changed.until);
        later.map(|changed| &changed.was).find_map(of)
    }

    /// Records a change: keeps the old value if a trade was settled with it, and drops values that
    /// only trades no longer kept needed.
    fn note(&mut self, was: Was, trades: &Trades) {
        let Some((oldest, _)) = trades.iter().next() else { return };
        let (oldest, until) = (oldest.trade_id, trades.last_id());
        self.changed.retain(|changed| oldest <= changed.until);
        let is_known = |it: &Changed| it.until == until && it.was.is_of(&was);
        if !self.changed.iter().any(is_known) {
            self.changed.push(Changed { until, was });
        }
    }

    /// Checks that changes are in order.
    pub(super) fn check(&self) {
        assert!(self.changed.is_sorted_by_key(|it| it.until), "{self:?}");
    }
}

// The parties of a trade, and its assets, as indexes.
const BUYER: usize = Settlement::BUYER;
const SELLER: usize = Settlement::SELLER;
const VENUE: usize = Settlement::VENUE;
const QUOTE: usize = Settlement::QUOTE;
const BASE: usize = Settlement::BASE;

/// The terms, accounts and fees that settle a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basis {
    /// Without the largest quantity: a change of it does not change the movements.
    terms: MoneyTerms,
    /// Only those that this trade pays.
    of_taker: Fees,
    of_maker: Fees,
    taker_id: AccountId,
    maker_id: AccountId,
}

/// The net amounts of buyer, seller and venue, in the quote and in the base asset; below 0 the
/// party gives. The amounts of each asset sum to 0.
type Net = [[i128; 3]; 2];

impl Basis {
    /// The net of the movements of this many lots at this price.
    fn net(&self, taker_is_buy: bool, price: Price, quantity: Quantity) -> Net {
        let mut net = [[0; 3]; 2];
        let mut give = |asset: usize, from: usize, to: usize, amount: u128| {
            net[asset][from] -= amount.cast_signed();
            net[asset][to] += amount.cast_signed();
        };
        let amounts = TradeAmounts::<u128>::without_fees(&self.terms, price, quantity);
        let amounts = amounts.expect("128 bits have every amount");
        let amounts = amounts.with_fees(taker_is_buy, self.of_taker, self.of_maker);
        let TradeAmounts { paid, delivered, taker_fee, rebate, maker_fee } = amounts;
        let (to_taker, to_maker, taker, maker) = match taker_is_buy {
            true => (BASE, QUOTE, BUYER, SELLER),
            false => (QUOTE, BASE, SELLER, BUYER),
        };
        give(QUOTE, BUYER, SELLER, paid);
        give(BASE, SELLER, BUYER, delivered);
        give(to_taker, taker, VENUE, taker_fee);
        give(to_taker, VENUE, maker, rebate);
        give(to_maker, maker, VENUE, maker_fee);
        net
    }
}

/// The net movements that undo or correct a trade.
#[derive(Debug)]
pub(crate) struct Return {
    basis: Basis,
    accounts: [AccountId; 3],
    net: Net,
}

impl Money {
    /// Plans the movements that undo a trade, or change its price and quantity; `None` if nothing
    /// moves.
    pub(crate) fn plan_return(
        &self,
        trade: &PastTrade,
        instead: Option<(Price, Quantity)>,
    ) -> Result<Option<Return>, VenueDeclineReason> {
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

    /// True if each party that gives has enough available. A party that may be short may be so
    /// afterwards.
    fn check_return(&self, planned: &Return) -> Result<(), VenueDeclineReason> {
        let Return { basis, accounts, net } = planned;
        let terms = &basis.terms;
        for (asset, asset_id) in [(QUOTE, terms.quote), (BASE, terms.base)] {
            for party in [BUYER, SELLER, VENUE] {
                let may_be_short = asset == BASE && terms.class == MoneyClass::Position;
                let limits = self.limits(asset_id, accounts[party]);
                let short_max = if may_be_short { limits.short_max.cast_signed() } else { 0 };
                let left = self.available(asset_id, accounts[party]) + net[asset][party];
                if net[asset][party] < 0 && left < -short_max {
                    return Err(VenueDeclineReason::InsufficientBalance);
                }
            }
        }
        Ok(())
    }

    /// Posts the planned movements: for each asset from the givers to the receivers, both in the
    /// order buyer, seller, venue.
    pub(crate) fn carry_out(
        &mut self,
        planned: &Return,
        kind: LedgerKind,
        trade: &PastTrade,
        emit: &mut dyn FnMut(Event),
    ) {
        let Return { basis, accounts, mut net } = *planned;
        let (maker, taker) = (trade.maker.order_id, trade.taker.order_id);
        let orders = if trade.taker_is_buy { [taker, maker] } else { [maker, taker] };
        let terms = &basis.terms;
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
            holding.check_conserved();
        }
    }

    /// The terms, accounts and fees of a trade at its time, or now; `None` if it was not paid for.
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
        Some(Basis {
            terms: MoneyTerms { quantity_max: Quantity::ZERO, ..terms },
            of_taker: Fees { maker_ppm: 0, ..fees(taker_id) },
            of_maker: Fees { taker_ppm: 0, ..fees(maker_id) },
            taker_id,
            maker_id,
        })
    }
}

impl Engine {
    /// Records a change of a setting that affects settlement.
    pub(super) fn note_changed(&mut self, was: Was) {
        self.money.undo.note(was, &self.trades);
    }
}
