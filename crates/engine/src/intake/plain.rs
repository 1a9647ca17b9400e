//! Plain orders: the common order, found by a few tests.
//!
//! Most orders are plain: a displayed limit order, day or IOC, in continuous trading without bounds, from
//! a session and an account without limits, that passes every check. [`Engine::enter`] takes them and
//! all others, and leaves out for a plain order the steps that have no effect on it.
//!
//! Invariant: a plain order has the same effects without the mark. A new order feature must either
//! be excluded by [`Engine::plain`], or every branch on the mark must know of it.

use market::{Conditions, Display, EnterOrder, InstrumentId, OrderType, TimeInForce};

use crate::{Engine, book::Ranks, money::PlainHold};

/// The mark of a plain order that passes every check, and what they found.
#[derive(Clone, Copy)]
pub(crate) struct Plain {
    /// The instrument that its symbol names.
    pub(crate) instrument_id: InstrumentId,
    /// The ranks of its limit.
    pub(crate) ranks: Ranks,
    /// What it will reserve.
    pub(crate) hold: PlainHold,
}

/// True if an order has conditions, instructions or terms that a plain order has not.
#[inline]
fn asks_for_more(order: &EnterOrder) -> bool {
    let Conditions { self_match_prevention: _, self_match_group: _, post_only, minimum_quantity } =
        order.conditions;
    let lives = matches!(
        order.time_in_force,
        TimeInForce::Day | TimeInForce::GoodTillCancel | TimeInForce::ImmediateOrCancel
    );
    // One test of all fields: none of them is likely.
    let unusual = u32::from(order.key.channel)
        | u32::from(order.order_type.code() ^ OrderType::Limit.code())
        | u32::from(order.display.code() ^ Display::Visible.code())
        | u32::from(post_only)
        | u32::from(!lives)
        | minimum_quantity.any_bits();
    unusual != 0 || order.instructions.is_some()
}

impl Engine {
    /// The mark of an order, if it is plain and passes every check but that of its number.
    #[inline(always)]
    pub(crate) fn plain(&self, order: &EnterOrder) -> Option<Plain> {
        if asks_for_more(order) || !self.day.is_open() || !self.blocks.is_empty() {
            return None;
        }
        let EnterOrder { key, side, price, quantity, .. } = *order;
        let number = self.symbols.find(&order.symbol)?;
        let (instrument_id, book) = (InstrumentId(number), &self.books[usize::from(number) - 1]);
        if !self.sessions.get(key.session_id)?.takes_plain() || !book.takes_plain() {
            return None;
        }
        let ranks = book.ranks(side, quantity, price).ok()?;
        // After the checks of its terms: only an allowed price and quantity have a cost.
        let hold = match self.money.is_used() {
            true => self.money.plain_hold(key.session_id, instrument_id, side, price, quantity)?,
            false => PlainHold::NONE,
        };
        Some(Plain { instrument_id, ranks, hold })
    }
}
