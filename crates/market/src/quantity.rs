//! Quantities, in lots: 64 bits wide, and 32 bits where an order stores them.
//!
//! Invariant: sums and differences are checked, or saturate by name; none wraps.

use core::fmt;

/// A quantity, in lots of the instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Quantity(pub u64);

impl Quantity {
    /// 0 lots.
    pub const ZERO: Self = Self(0);

    /// Units of an asset in this quantity, given the units of a lot; cannot overflow.
    #[must_use]
    #[inline]
    pub fn units(self, units_per_lot: u64) -> u128 {
        u128::from(self.0) * u128::from(units_per_lot)
    }

    /// Sum; `None` on overflow.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Difference; `None` if `other` is larger.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }

    /// Difference; 0 if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The same quantity in 32 bits.
    ///
    /// # Panics
    /// The quantity exceeds 32 bits; every order quantity fits.
    #[must_use]
    #[inline]
    pub fn lots(self) -> Lots {
        Lots(u32::try_from(self.0).expect("the lots of an order fit in 32 bits"))
    }

    /// True for 0 lots.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// A quantity in 32 bits, in lots, as the wire carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Lots(pub u32);

impl Lots {
    /// 0 lots.
    pub const ZERO: Self = Self(0);

    /// The same quantity in 64 bits.
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
