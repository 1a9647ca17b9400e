//! Instructions of an order beyond its limit: triggers, pegs, icebergs, expiry, linked orders.
//!
//! Invariant: they take 32 bytes. Most orders have none.

use crate::{Lots, OrderId, Price, SplitMix64, order::code_enum};

code_enum! {
    /// The source of an order's price, and the moment at which it enters the book. The codes are
    /// OUCH 5.0's price types where it has one.
    Pricing {
        /// Its own limit, or none; it enters at once.
        Limit = b'L',
        /// Stop: waits until the market trades at its trigger or worse for it (at or above it for a
        /// buy).
        Stop = b'S',
        /// Take profit: waits until the market trades at its trigger or better for it (at or below
        /// it for a buy).
        TakeProfit = b'T',
        /// Trailing stop: its trigger follows the market at a distance, and never moves back.
        TrailingStop = b'F',
        /// Primary peg: follows the best displayed price of its own side.
        PrimaryPeg = b'R',
        /// Market peg: follows the best displayed price of the other side.
        MarketPeg = b'P',
        /// Midpoint peg: follows the middle of the best displayed bid and ask.
        MidpointPeg = b'M',
    }
}

impl Pricing {
    /// True if the order waits outside the book for a trigger.
    #[must_use]
    pub const fn is_triggered(self) -> bool {
        matches!(self, Self::Stop | Self::TakeProfit | Self::TrailingStop)
    }

    /// True if the order is pegged.
    #[must_use]
    pub const fn is_pegged(self) -> bool {
        matches!(self, Self::PrimaryPeg | Self::MarketPeg | Self::MidpointPeg)
    }
}

/// A price in 32 bits, in ticks: every order limit fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Ticks(pub u32);

impl Ticks {
    /// 0 ticks.
    pub const ZERO: Self = Self(0);

    /// The same price in 64 bits.
    #[must_use]
    pub const fn price(self) -> Price {
        Price(self.0 as u64)
    }
}

/// Terms of an order beyond its limit. Most orders have none: [`Instructions::NONE`].
///
/// Fields that the pricing does not use are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Instructions {
    /// The source of its price and of the moment at which it enters the book.
    pub pricing: Pricing,
    /// All-or-none: the order trades as a whole at once or not at all. A limit order that may rest
    /// waits outside the book until it can.
    pub all_or_none: bool,
    /// Price sliding: a post-only order that may rest takes the nearest price at which it does not
    /// trade, instead of being canceled.
    pub slide: bool,
    /// The trigger, in ticks; 0 for a trailing stop whose first trigger is at its distance from the
    /// last trade.
    pub trigger: Ticks,
    /// Trailing stop: distance from the market, in ticks, above 0. Pegged order: offset from the
    /// price that it follows, in ticks; positive is up.
    pub offset: i32,
    /// Iceberg: lots shown at a time; 0 shows all.
    pub shown_quantity: Lots,
    /// Iceberg: the largest random deviation of a refreshed part, in lots, up or down; 0 is none.
    pub shown_range: Lots,
    /// GTT: expiry, in seconds since the Unix epoch; 0 for any other order.
    pub expires_s: u32,
    /// OTO: number of the parent, on the same session and channel; 0 is none.
    pub parent: u32,
    /// OCO: number of the partner, on the same session and channel; 0 is none.
    pub partner: u32,
}

impl Instructions {
    /// No instructions.
    pub const NONE: Self = Self {
        pricing: Pricing::Limit,
        all_or_none: false,
        slide: false,
        trigger: Ticks::ZERO,
        offset: 0,
        shown_quantity: Lots::ZERO,
        shown_range: Lots::ZERO,
        expires_s: 0,
        parent: 0,
        partner: 0,
    };

    /// The next shown part of an iceberg, in lots, given its new order id and its open lots: the
    /// shown quantity plus or minus the range, from 1 to all open lots.
    ///
    /// The part is drawn from order id and open lots alone, so that a replay draws the same.
    #[must_use]
    pub fn next_shown(&self, order_id: OrderId, leaves: Lots) -> Lots {
        let (middle, range) = (u64::from(self.shown_quantity.0), u64::from(self.shown_range.0));
        let mut random = SplitMix64::new(order_id.0 ^ u64::from(leaves.0) << 40);
        let drawn = random.below(2 * range + 1);
        let shown = (middle + drawn).saturating_sub(range).max(1).min(leaves.0.into());
        Lots(shown as u32)
    }

    /// The instructions without the shown quantity and its range.
    #[must_use]
    pub const fn without_shown(self) -> Self {
        Self { shown_quantity: Lots::ZERO, shown_range: Lots::ZERO, ..self }
    }

    /// True if the order waits for a trigger or a parent before it enters the book, or is pegged
    /// and in the book only while it has a price to follow.
    #[must_use]
    pub const fn waits_outside(&self) -> bool {
        self.pricing.is_triggered() || self.pricing.is_pegged() || self.parent != 0
    }

    /// True unless they are [`NONE`](Self::NONE).
    #[must_use]
    #[inline]
    pub fn is_some(&self) -> bool {
        let Self {
            pricing,
            all_or_none,
            slide,
            trigger,
            offset,
            shown_quantity,
            shown_range,
            expires_s,
            parent,
            partner,
        } = *self;
        // One test of all fields without a branch for each: most orders have none.
        let flags = u32::from(pricing.code() ^ Pricing::Limit.code())
            | u32::from(all_or_none)
            | u32::from(slide);
        let words = trigger.0
            | offset.cast_unsigned()
            | shown_quantity.0
            | shown_range.0
            | expires_s
            | parent
            | partner;
        flags | words != 0
    }
}

impl Default for Instructions {
    fn default() -> Self {
        Self::NONE
    }
}

const _: () = assert!(size_of::<Instructions>() == 32, "they fit beside an order");

#[cfg(test)]
mod tests {
    use super::*;

    /// Every part within the range is drawn, none outside it, and never more than the open lots.
    #[test]
    fn shown_parts_are_within_their_range() {
        let reserve =
            Instructions { shown_quantity: Lots(10), shown_range: Lots(3), ..Instructions::NONE };
        let mut drawn = [0_u32; 20];
        for order_id in 1..=2_000 {
            drawn[reserve.next_shown(OrderId(order_id), Lots(1_000)).0 as usize] += 1;
        }
        for (lots, &times) in drawn.iter().enumerate() {
            let expected = if (7..=13).contains(&lots) { 200..400 } else { 0..1 };
            assert!(expected.contains(&times), "{lots} lots {times} times");
        }
        assert_eq!(reserve.next_shown(OrderId(1), Lots(2)), Lots(2));
        let fixed = Instructions { shown_range: Lots::ZERO, ..reserve };
        assert_eq!(fixed.next_shown(OrderId(9), Lots(11)), Lots(10));
    }
}
