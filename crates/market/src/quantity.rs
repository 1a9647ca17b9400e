//! Quantities, in lots: 64 bits wide, and 32 where an order's are kept.
//!
//! Invariant: sums and differences are checked or saturate by name; none wraps.

use core::fmt;

/// A quantity, in lots of the instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(pub u64);

impl Quantity {
    /// No lots.
    pub const ZERO: Self = Self(0);

    /// Units of an asset in so many lots, with this many units in each; cannot overflow.
    #[must_use]
    #[inline]
    pub fn units(self, units_per_lot: u64) -> u128 {
        u128::from(self.0) * u128::from(units_per_lot)
    }

    /// Sum, or `None` where it does not fit.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Difference, or `None` where `other` is larger.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }

    /// Difference, 0 where `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The same quantity in 32 bits.
    ///
    /// # Panics
    /// It does not fit; those of orders do.
    #[must_use]
    #[inline]
    pub fn lots(self) -> Lots {
        Lots(u32::try_from(self.0).expect("the lots of an order fit in 32 bits"))
    }

    /// True for no lots.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// A quantity as the wire carries it, in 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lots(pub u32);

impl Lots {
    /// No lots.
    pub const ZERO: Self = Self(0);

    /// The same quantity, 64 bits wide.
    #[must_use]
    pub const fn quantity(self) -> Quantity {
        Quantity(self.0 as u64)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
