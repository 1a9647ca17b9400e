//! Plain orders: which orders these are, and what is left of the checks for them.
//!
//! Most orders are plain: a displayed limit order, day or IOC, in unrestricted continuous trading, from
//! a session and an account without limits. [`Engine::enter`] takes them and all others, and leaves out
//! for a plain order what has no effect on it.
//!
//! Invariant: a plain order has the same effects without the mark. A new order feature must either
//! be excluded by [`Engine::plain`], or every branch on the mark must know of it.

use market::{
    Conditions, Display, EnterOrder, InstrumentId, LedgerEntry, OrderEntered, OrderId, OrderType,
    OwnMovement, RejectReason, TimeInForce,
};

use crate::{Engine, book::Ranks, money::Claim};

/// The mark of a plain order.
#[derive(Clone, Copy)]
pub(crate) struct Plain {
    /// The instrument that its symbol names.
    pub(crate) instrument_id: InstrumentId,
}

/// What is known of a plain order that passed its checks.
pub(crate) struct PlainChecked {
    pub(crate) instrument_id: InstrumentId,
    pub(crate) ranks: Ranks,
    /// What it reserves, which is reserved already; `None` if that is nothing.
    pub(crate) reserved: Option<LedgerEntry>,
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
    /// The mark of an order, if it is plain.
    #[inline(always)]
    pub(crate) fn plain(&self, order: &EnterOrder) -> Option<Plain> {
        if asks_for_more(order) || !self.day.is_open() || !self.blocks.is_empty() {
            return None;
        }
        let number = self.symbols.find(&order.symbol)?;
        let instrument_id = InstrumentId(number);
        let is_plain = self.sessions.get(order.key.session_id)?.takes_plain()
            && self.books[usize::from(number) - 1].takes_plain()
            && self.money.takes_plain(order.key.session_id, instrument_id, order.side);
        is_plain.then_some(Plain { instrument_id })
    }

    /// Checks a plain order, and reserves for it.
    #[inline(always)]
    pub(crate) fn check_plain(
        &mut self,
        order: &EnterOrder,
        Plain { instrument_id }: Plain,
        order_id: OrderId,
    ) -> Result<PlainChecked, RejectReason> {
        let EnterOrder { key, side, price, quantity, .. } = *order;
        let ranks = self.books[usize::from(instrument_id.0) - 1].ranks(side, quantity, price)?;
        // After the checks of its terms: only an allowed price and quantity have a cost.
        let claim = Claim { session_id: key.session_id, instrument_id, order_id, side, price };
        let reserved = self.money.reserve_plain(&claim, quantity)?;
        Ok(PlainChecked { instrument_id, ranks, reserved })
    }
}

/// What is reported of a plain order that was accepted.
#[inline(always)]
pub(crate) fn entered(
    order: &EnterOrder,
    order_id: OrderId,
    instrument_id: InstrumentId,
    reserved: OwnMovement,
    rests: bool,
) -> OrderEntered {
    OrderEntered {
        key: order.key,
        order_id,
        instrument_id,
        side: order.side,
        time_in_force: order.time_in_force,
        quantity: order.quantity.lots(),
        price: order.price.ticks(),
        attributes: order.attributes,
        self_match_prevention: order.conditions.self_match_prevention,
        self_match_group: order.conditions.self_match_group,
        rests,
        reserved,
    }
}
