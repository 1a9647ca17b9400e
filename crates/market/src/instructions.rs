//! Instructions of an order beyond its limit: triggers, pegs, icebergs, expiry, linked orders.
//!
//! Invariant: they take 32 bytes. Most orders have none.

use core::fmt;

use serde::ser::SerializeStruct;

use crate::{
    DecodeError, Lots, OrderId, Price, SplitMix64,
    bytes::{ByteReader, ByteWriter, Encoded},
    order::code_enum,
};

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

/// All-or-none and price sliding of an order, in one byte.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Handling {
    bits: u8,
}

impl Handling {
    /// Neither.
    pub const PLAIN: Self = Self { bits: 0 };
    /// All-or-none only.
    pub const ALL_OR_NONE: Self = Self { bits: 1 };
    /// Price sliding only.
    pub const SLIDE: Self = Self { bits: 2 };

    /// One, both or neither.
    #[must_use]
    pub const fn new(all_or_none: bool, slide: bool) -> Self {
        Self { bits: all_or_none as u8 | (slide as u8) << 1 }
    }

    /// All-or-none: the order trades as a whole at once or not at all. A limit order that may rest
    /// waits outside the book until it can.
    #[must_use]
    pub const fn is_all_or_none(self) -> bool {
        self.bits & 1 != 0
    }

    /// Price sliding: a post-only order that may rest takes the nearest price at which it does not
    /// trade, instead of being canceled.
    #[must_use]
    pub const fn slides(self) -> bool {
        self.bits & 2 != 0
    }

    /// The same, and all-or-none.
    #[must_use]
    pub const fn with_all_or_none(self) -> Self {
        Self::new(true, self.slides())
    }

    /// The same, and price sliding.
    #[must_use]
    pub const fn with_slide(self) -> Self {
        Self::new(self.is_all_or_none(), true)
    }
}

impl fmt::Debug for Handling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handling")
            .field("all_or_none", &self.is_all_or_none())
            .field("slide", &self.slides())
            .finish()
    }
}

/// Two flags, a byte each.
impl Encoded for Handling {
    fn write_to(&self, out: &mut impl ByteWriter) {
        out.write(&self.is_all_or_none());
        out.write(&self.slides());
    }

    fn read_from(from: &mut ByteReader<'_>, _: &'static str) -> Result<Self, DecodeError> {
        Ok(Self::new(from.read("all_or_none")?, from.read("slide")?))
    }
}

/// Terms of an order beyond its limit. Most orders have none: [`Instructions::NONE`].
///
/// Fields that the pricing does not use are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instructions {
    /// The source of its price and of the moment at which it enters the book.
    pub pricing: Pricing,
    /// All-or-none, and price sliding.
    pub handling: Handling,
    /// The trigger, in ticks; 0 for a trailing stop whose first trigger is at its distance from the
    /// last trade.
    pub trigger: Ticks,
    /// Trailing stop: distance from the market, in ticks, above 0. Pegged order: offset from the
    /// price that it follows, in ticks; positive is up.
    pub offset: i32,
    /// Iceberg: lots shown at a time; 0 shows all.
    pub shown_quantity: Lots,
    /// Iceberg: the largest random deviation of a refreshed part, in lots, up or down; 0 is none. It has
    /// 32 bits, so that the instructions keep their 32 bytes.
    pub shown_range: u32,
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
        handling: Handling::PLAIN,
        trigger: Ticks::ZERO,
        offset: 0,
        shown_quantity: Lots::ZERO,
        shown_range: 0,
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
        let (middle, range) = (self.shown_quantity.get(), u64::from(self.shown_range));
        // Lots beyond 24 bits come round to the low end, where they still count.
        let mut random = SplitMix64::new(order_id.0 ^ leaves.get().rotate_left(40));
        let drawn = random.below(2 * range + 1);
        let shown = (middle + drawn).saturating_sub(range).max(1).min(leaves.get());
        Lots::new(shown)
    }

    /// The instructions without the shown quantity and its range.
    #[must_use]
    pub const fn without_shown(self) -> Self {
        Self { shown_quantity: Lots::ZERO, shown_range: 0, ..self }
    }

    /// True if the order waits for a trigger or a parent before it enters the book, or is pegged
    /// and in the book only while it has a price to follow.
    #[must_use]
    pub const fn waits_outside(&self) -> bool {
        self.pricing.is_triggered() || self.pricing.is_pegged() || self.parent != 0
    }

    /// True if the order names a parent or a partner.
    #[must_use]
    pub const fn has_links(&self) -> bool {
        self.parent != 0 || self.partner != 0
    }

    /// True unless they are [`NONE`](Self::NONE).
    #[must_use]
    #[inline]
    pub fn is_some(&self) -> bool {
        let Self {
            pricing,
            handling,
            trigger,
            offset,
            shown_quantity,
            shown_range,
            expires_s,
            parent,
            partner,
        } = *self;
        // One test of all fields without a branch for each: most orders have none.
        let flags = u32::from(pricing.code() ^ Pricing::Limit.code()) | u32::from(handling.bits);
        let words = trigger.0
            | offset.cast_unsigned()
            | shown_quantity.any_bits()
            | shown_range
            | expires_s
            | parent
            | partner;
        flags | words != 0
    }
}

/// All fields by name, with the two of [`Handling`] among them.
impl serde::Serialize for Instructions {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            pricing,
            handling,
            trigger,
            offset,
            shown_quantity,
            shown_range,
            expires_s,
            parent,
            partner,
        } = self;
        let mut fields = serializer.serialize_struct("Instructions", 10)?;
        fields.serialize_field("pricing", pricing)?;
        fields.serialize_field("all_or_none", &handling.is_all_or_none())?;
        fields.serialize_field("slide", &handling.slides())?;
        fields.serialize_field("trigger", trigger)?;
        fields.serialize_field("offset", offset)?;
        fields.serialize_field("shown_quantity", shown_quantity)?;
        fields.serialize_field("shown_range", shown_range)?;
        fields.serialize_field("expires_s", expires_s)?;
        fields.serialize_field("parent", parent)?;
        fields.serialize_field("partner", partner)?;
        fields.end()
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
            Instructions { shown_quantity: Lots::new(10), shown_range: 3, ..Instructions::NONE };
        let mut drawn = [0_u32; 20];
        for order_id in 1..=2_000 {
            drawn[reserve.next_shown(OrderId(order_id), Lots::new(1_000)).get() as usize] += 1;
        }
        for (lots, &times) in drawn.iter().enumerate() {
            let expected = if (7..=13).contains(&lots) { 200..400 } else { 0..1 };
            assert!(expected.contains(&times), "{lots} lots {times} times");
        }
        assert_eq!(reserve.next_shown(OrderId(1), Lots::new(2)), Lots::new(2));
        let fixed = Instructions { shown_range: 0, ..reserve };
        assert_eq!(fixed.next_shown(OrderId(9), Lots::new(11)), Lots::new(10));
        let widest = Instructions { shown_quantity: Lots::MAX, shown_range: u32::MAX, ..reserve };
        for order_id in 1..100 {
            let shown = widest.next_shown(OrderId(order_id), Lots::MAX);
            assert!(Lots::MAX.get() - u64::from(u32::MAX) <= shown.get(), "{shown}");
        }
    }
}
