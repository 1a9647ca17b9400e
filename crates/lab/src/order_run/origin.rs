//! The balances as the origin's rounding leaves them.
//!
//! The reference system rounds each step down separately: a buyer's reservation, the cost of each
//! trade, the amount returned by a trade below the limit, the amount returned by a cancel. The rounding
//! differences stay reserved for ever.
//!
//! Invariant: the sum of available and reserved equals ours; only the split differs. So this is computed
//! from the events, outside the engine.

use std::collections::BTreeMap;

use crate::order_file::InstrumentTable;
use market::{
    AccountId, AssetId, Bucket, Event, LedgerKind, MoneyTerms, OrderId, OrderType, Output, Price,
    Quantity, SessionId, TimeInForce,
};
use ring::AgentError;

use super::{Balance, ledger::BalanceTable};

/// The origin's balances, as the top of this module explains them. Accounts have the numbers of their sessions.
#[derive(Debug)]
pub(super) struct OriginRounding {
    terms: Vec<MoneyTerms>,
    balances: BalanceTable,
    limits: BTreeMap<OrderId, Price>,
    incoming: Option<Incoming>,
}

#[derive(Clone, Copy, Debug)]
struct Incoming {
    order_id: OrderId,
    limit: Price,
}

/// The cost of some lots, rounded down.
fn cost_of(terms: &MoneyTerms, price: Price, quantity: Quantity) -> u128 {
    (price * quantity).units(terms.quote_numerator, terms.quote_denominator)
}

impl OriginRounding {
    pub(super) fn new(instruments: &InstrumentTable) -> Self {
        Self {
            terms: instruments.money_terms(),
            balances: BalanceTable::new(instruments.assets().len()),
            limits: BTreeMap::new(),
            incoming: None,
        }
    }

    pub(super) fn balance(&self, account_id: AccountId, asset_id: AssetId) -> Balance {
        self.balances.get(account_id, asset_id)
    }

    pub(super) fn take(&mut self, output: &Output) -> Result<(), AgentError> {
        match &output.event {
            Event::Ledger(entry) if entry.kind == LedgerKind::Deposit => {
                assert_eq!(entry.to.bucket, Bucket::Available, "a deposit is free");
                self.balances.get_mut(entry.to.account_id, entry.asset_id).available +=
                    entry.amount.get();
            }
            Event::Accepted(order) => {
                if order.order_type != OrderType::Limit || order.time_in_force != TimeInForce::Day {
                    return Err(unknown("an order that is not a plain limit order"));
                }
                let terms = self.terms_of(order.instrument_id);
                let account = account(order.key.session_id);
                let (asset, held) = if order.side.is_buy() {
                    (terms.quote, cost_of(&terms, order.price.price(), order.quantity.quantity()))
                } else {
                    (terms.base, order.quantity.quantity().units(terms.base_units))
                };
                let balance = self.balances.get_mut(account, asset);
                lower(&mut balance.available, held)?;
                balance.reserved += held;
                let (order_id, limit) = (order.order_id, order.price.price());
                self.incoming = Some(Incoming { order_id, limit });
            }
            Event::Booked(booked) if booked.side.is_buy() => {
                self.limits.insert(booked.order_id, booked.price);
            }
            Event::Traded(trade) => {
                let terms = self.terms_of(trade.instrument_id);
                let cost = cost_of(&terms, trade.price, trade.quantity);
                let lots = trade.quantity.units(terms.base_units);
                let (taker, maker) =
                    (account(trade.taker.key.session_id), account(trade.maker.key.session_id));
                let is_buy = trade.taker_side.is_buy();
                let (buyer, seller) = if is_buy { (taker, maker) } else { (maker, taker) };
                lower(&mut self.balances.get_mut(buyer, terms.quote).reserved, cost)?;
                self.balances.get_mut(buyer, terms.base).available += lots;
                lower(&mut self.balances.get_mut(seller, terms.base).reserved, lots)?;
                self.balances.get_mut(seller, terms.quote).available += cost;
                if is_buy {
                    let incoming = self.incoming.filter(|it| it.order_id == trade.taker.order_id);
                    let incoming = incoming.expect("an incoming order was accepted before");
                    let better = Price(incoming.limit.0 - trade.price.0);
                    let refund = cost_of(&terms, better, trade.quantity);
                    let balance = self.balances.get_mut(taker, terms.quote);
                    lower(&mut balance.reserved, refund)?;
                    balance.available += refund;
                } else if trade.maker.leaves.is_zero() {
                    self.limits.remove(&trade.maker.order_id);
                }
            }
            Event::Canceled(canceled) => {
                if !canceled.booked || !canceled.leaves.is_zero() {
                    return Err(unknown("a cancel of a part, or of an incoming order"));
                }
                let terms = self.terms_of(canceled.instrument_id);
                let (asset, held) = match self.limits.remove(&canceled.order_id) {
                    Some(limit) => (terms.quote, cost_of(&terms, limit, canceled.quantity)),
                    None => (terms.base, canceled.quantity.units(terms.base_units)),
                };
                let balance = self.balances.get_mut(account(canceled.key.session_id), asset);
                lower(&mut balance.reserved, held)?;
                balance.available += held;
            }
            Event::Replaced(_) => return Err(unknown("a replace")),
            Event::Modified(_) => return Err(unknown("a modify")),
            _ => {}
        }
        Ok(())
    }

    fn terms_of(&self, instrument_id: market::InstrumentId) -> MoneyTerms {
        self.terms[usize::from(instrument_id.0) - 1]
    }
}

fn account(session_id: SessionId) -> AccountId {
    AccountId(u32::from(session_id.0))
}

fn lower(held: &mut u128, amount: u128) -> Result<(), AgentError> {
    let left = held.checked_sub(amount);
    *held = left.ok_or_else(|| unknown("an order that its rounding would reject"))?;
    Ok(())
}

fn unknown(what: &str) -> AgentError {
    format!("--rounding origin: the reference results do not cover {what}").into()
}
