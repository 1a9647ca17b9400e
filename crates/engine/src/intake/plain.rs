//! Plain orders: the common order, found by a few tests.
//!
//! Most orders are plain: a displayed limit order, day or IOC, in continuous trading without bounds, from
//! a session and an account without limits, that passes every check. [`Engine::enter`] takes them and
//! all others. A plain one skips the checks that it is known to pass, and the steps that have no effect on it.
//!
//! Invariant: a plain order has the same effects without the mark. A new order feature must either be
//! excluded by [`Engine::plain`], or be handled in every branch on the mark.

use market::{Conditions, Display, EnterOrder, InstrumentId, OrderType, TimeInForce};

use super::batch::Found;
use crate::{Engine, book::Ranks};

/// The values that follow from the terms of a limit order and the settings of its instrument.
#[derive(Clone, Copy)]
pub(crate) struct LimitTerms {
    /// The instrument that its symbol names.
    pub(crate) instrument_id: InstrumentId,
    /// True if it has only terms that a plain order may have, the day is open, and nothing is blocked.
    pub(crate) is_plain: bool,
    /// The ranks of its limit.
    pub(crate) ranks: Ranks,
}

/// True if an order has conditions, instructions or terms that a plain order may not have.
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
    /// The values of an order's terms; `None` if it has no limit, or one that is not allowed.
    #[inline(always)]
    pub(crate) fn limit_terms(&self, order: &EnterOrder) -> Option<LimitTerms> {
        let is_plain = !asks_for_more(order) && self.day.is_open() && self.blocks.is_empty();
        let instrument_id = InstrumentId(self.symbols.find(&order.symbol)?);
        let ranks = self.books[instrument_id].ranks(order.side, order.quantity, order.price);
        Some(LimitTerms { instrument_id, is_plain, ranks: ranks.ok()? })
    }

    /// The mark of an order, if it is plain and passes every check but those of its number and of its balance.
    #[inline(always)]
    pub(crate) fn plain(&self, order: &EnterOrder, found: Found) -> Option<LimitTerms> {
        let terms = match found {
            Found::Plain(terms) => terms,
            Found::Unusual => return None,
            Found::Nothing => self.limit_terms(order).filter(|terms| terms.is_plain)?,
        };
        let takes_plain = self.sessions.get(order.key.session_id)?.takes_plain()
            && self.books[terms.instrument_id].takes_plain();
        takes_plain.then_some(terms)
    }
}
