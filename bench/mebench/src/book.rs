//! The books of the core, alone, under the benchmark: one book, and a table from the benchmark's names
//! to the slots of its orders.
//!
//! The benchmark chooses any names for its orders, and reuses a name once the order is done. An order
//! has its name as its payload, so the slot in the table for a name shows whether the order with that
//! name still rests there: if another order or none rests there, the order is done. Names come in no
//! order, so most waits for memory are for the table; hence its entries have 4 bytes, on large pages.

use std::collections::BTreeMap;

use engine::matcher::{BookIndex, Matcher, MatcherOrder, NewOrder as Incoming};
use market::{Price, Quantity, Side};

use crate::{
    abi,
    api::{
        BUY, CANCEL_ACK, CANCEL_REJECT, Cancel, MODIFY_ACK, MODIFY_REJECT, Modify, NewOrder,
        ORDER_ACK, Report, SELL, TRADE,
    },
};

/// The number of names with room from the start: those in the benchmark's scenarios.
const NAMES_EXPECTED: usize = 1 << 21;

/// The number of orders that can rest at a time without a further allocation.
const ORDERS_EXPECTED: usize = 1 << 20;

/// Names below this index a table, which grows with them up to 64 MiB; higher names are searched for.
const NAME_NEAR_MAX: u64 = 1 << 24;

/// The benchmark's price that is our price 0: the benchmark's prices are signed.
const PRICE_MIN: i64 = -(1 << 30);

/// One book and the benchmark's names.
#[derive(Debug)]
pub struct Participant {
    matcher: Matcher,
    book: BookIndex,
    /// Slots by the benchmark's name.
    near: Vec<u32>,
    /// Slots of orders with names too high for the table.
    far: BTreeMap<u64, u32>,
}

impl Participant {
    /// An empty book. All memory that the benchmark's scenarios need is allocated now.
    #[must_use]
    pub fn new() -> Self {
        let mut matcher = Matcher::new();
        matcher.reserve(ORDERS_EXPECTED);
        let book = matcher.add_book();
        let mut near = Vec::with_capacity(NAMES_EXPECTED);
        abi::ask_for_large_pages(&mut near);
        near.resize(NAMES_EXPECTED, NOWHERE);
        Self { matcher, book, near, far: BTreeMap::new() }
    }

    /// Enters an order. Reports an acknowledgment, its trades, and a cancellation of the remainder of
    /// an immediate-or-cancel order.
    ///
    /// There is no report for an order whose terms no book could hold, so nothing is reported and
    /// nothing changes. A name belongs to the order entered last. The benchmark promises that no other
    /// live order has the name.
    #[inline]
    pub fn enter(&mut self, order: &NewOrder, report: impl FnMut(&Report)) {
        let &NewOrder { order_id, sequence_number, price_ticks, quantity, side, .. } = order;
        let acknowledgment = Report {
            report_type: ORDER_ACK,
            side,
            sequence_number,
            order_id,
            price_ticks,
            quantity,
            ..Report::default()
        };
        if let Some(incoming) = incoming(&acknowledgment, order.ioc == 0) {
            self.enter_incoming(&incoming, &acknowledgment, report);
        }
    }

    /// Cancels an order. Reports an acknowledgment if the order rested, else a rejection.
    #[inline]
    pub fn cancel(&mut self, cancel: &Cancel, mut report: impl FnMut(&Report)) {
        let &Cancel { order_id, sequence_number } = cancel;
        let answer = match self.cancel_resting(order_id) {
            Some(resting) => Report {
                report_type: CANCEL_ACK,
                side: if resting.side.is_buy() { BUY } else { SELL },
                sequence_number,
                order_id,
                price_ticks: ticks(resting.price),
                ..Report::default()
            },
            None => rejection(CANCEL_REJECT, sequence_number, order_id),
        };
        report(&answer);
    }

    /// Cancels an order and enters it again, behind all other orders at its new price. Reports an
    /// acknowledgment and its trades if the order rested, else a rejection. Terms that no book could
    /// hold are rejected, and the order stays as it is.
    #[inline]
    pub fn modify(&mut self, modify: &Modify, mut report: impl FnMut(&Report)) {
        let &Modify { order_id, sequence_number, .. } = modify;
        let acknowledgment = Report {
            report_type: MODIFY_ACK,
            side: modify.side,
            sequence_number,
            order_id,
            price_ticks: modify.new_price_ticks,
            quantity: modify.new_quantity,
            ..Report::default()
        };
        match incoming(&acknowledgment, true) {
            Some(incoming) if self.cancel_resting(order_id).is_some() => {
                self.enter_incoming(&incoming, &acknowledgment, report);
            }
            _ => report(&rejection(MODIFY_REJECT, sequence_number, order_id)),
        }
    }

    /// The best bid, in ticks of the benchmark.
    #[must_use]
    pub fn best_bid(&self) -> Option<i64> {
        self.matcher.best(self.book, Side::Buy).map(ticks)
    }

    /// The best ask, in ticks of the benchmark.
    #[must_use]
    pub fn best_ask(&self) -> Option<i64> {
        self.matcher.best(self.book, Side::Sell).map(ticks)
    }

    /// All open lots at a price; 0 for a price or side that no order can have.
    #[must_use]
    pub fn depth_at(&self, price_ticks: i64, side: u8) -> u64 {
        match (side_of(side), price(price_ticks)) {
            (Some(side), Some(price)) => self.matcher.depth_at(self.book, side, price).0,
            _ => 0,
        }
    }

    #[inline]
    fn enter_incoming(
        &mut self,
        incoming: &Incoming<u64>,
        acknowledgment: &Report,
        mut report: impl FnMut(&Report),
    ) {
        report(acknowledgment);
        let entered = self.matcher.enter(self.book, incoming, |trade| {
            report(&Report {
                report_type: TRADE,
                price_ticks: ticks(trade.price),
                quantity: trade.quantity.0 as u32,
                maker_order_id: trade.maker,
                taker_order_id: incoming.payload,
                ..*acknowledgment
            });
        });
        let entered = entered.expect("the terms are within the book's bounds, and it is there");
        match entered.handle {
            Some(handle) => *self.slot_mut(incoming.payload) = handle.slot(),
            None if entered.leaves.is_zero() => {}
            None => report(&Report {
                report_type: CANCEL_ACK,
                quantity: entered.leaves.0 as u32,
                ..*acknowledgment
            }),
        }
    }

    #[inline]
    fn cancel_resting(&mut self, order_id: u64) -> Option<MatcherOrder<u64>> {
        let slot = if order_id < NAME_NEAR_MAX {
            *self.near.get(order_id as usize)?
        } else {
            *self.far.get(&order_id)?
        };
        let (handle, resting) = self.matcher.resting_in(slot)?;
        if resting.payload != order_id {
            return None;
        }
        self.matcher.cancel(handle)
    }

    #[inline]
    fn slot_mut(&mut self, order_id: u64) -> &mut u32 {
        if NAME_NEAR_MAX <= order_id {
            return self.far.entry(order_id).or_insert(NOWHERE);
        }
        let index = order_id as usize;
        if self.near.len() <= index {
            self.near.resize(index + 1, NOWHERE);
        }
        &mut self.near[index]
    }
}

impl Default for Participant {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of a slot that does not exist, so no order rests in it.
const NOWHERE: u32 = u32::MAX;

/// The order requested by the message with this acknowledgment; `None` for terms that no book could
/// hold.
#[inline]
fn incoming(acknowledgment: &Report, rests: bool) -> Option<Incoming<u64>> {
    if acknowledgment.quantity == 0 {
        return None;
    }
    Some(Incoming {
        side: side_of(acknowledgment.side)?,
        limit: price(acknowledgment.price_ticks)?,
        quantity: Quantity(acknowledgment.quantity.into()),
        rests,
        payload: acknowledgment.order_id,
    })
}

#[inline]
fn side_of(side: u8) -> Option<Side> {
    match side {
        BUY => Some(Side::Buy),
        SELL => Some(Side::Sell),
        _ => None,
    }
}

/// A price that an order may have, from ticks of the benchmark.
#[inline]
fn price(price_ticks: i64) -> Option<Price> {
    let price = Price(price_ticks.wrapping_sub(PRICE_MIN).cast_unsigned());
    (price <= engine::matcher::LIMIT_MAX).then_some(price)
}

/// A price in ticks of the benchmark.
#[inline]
fn ticks(price: Price) -> i64 {
    price.0.cast_signed() + PRICE_MIN
}

fn rejection(report_type: u8, sequence_number: u64, order_id: u64) -> Report {
    Report { report_type, sequence_number, order_id, ..Report::default() }
}
