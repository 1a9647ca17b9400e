//! Quantities, in lots: 64 bits wide, and 48 bits in commands and events of orders.
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

    /// Sum; the largest quantity if it is beyond 64 bits.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The same quantity in 48 bits.
    ///
    /// # Panics
    /// The quantity exceeds 48 bits; every order quantity fits.
    #[must_use]
    #[inline]
    pub const fn lots(self) -> Lots {
        Lots::new(self.0)
    }

    /// True for 0 lots.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// A quantity in 48 bits, in lots: every quantity of an order fits.
///
/// It takes 6 bytes and needs an alignment of 2, so that commands and events keep their two cache lines.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(C, packed(2))]
pub struct Lots {
    low: u32,
    high: u16,
}

const _: () = assert!(size_of::<Lots>() == 6 && align_of::<Lots>() == 2);

impl Lots {
    /// 0 lots.
    pub const ZERO: Self = Self { low: 0, high: 0 };

    /// 2⁴⁸ − 1 lots.
    pub const MAX: Self = Self { low: u32::MAX, high: u16::MAX };

    /// A number of lots.
    ///
    /// # Panics
    /// It exceeds 48 bits.
    #[must_use]
    #[inline]
    pub const fn new(lots: u64) -> Self {
        assert!(lots >> 48 == 0, "the lots of an order fit in 48 bits");
        Self { low: lots as u32, high: (lots >> 32) as u16 }
    }

    /// A number of lots; `None` if it exceeds 48 bits.
    #[must_use]
    pub const fn checked(lots: u64) -> Option<Self> {
        if lots >> 48 == 0 { Some(Self::new(lots)) } else { None }
    }

    /// The number of lots.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.low as u64 | (self.high as u64) << 32
    }

    /// The same quantity in 64 bits.
    #[must_use]
    #[inline]
    pub const fn quantity(self) -> Quantity {
        Quantity(self.get())
    }

    /// True for 0 lots.
    #[must_use]
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.any_bits() == 0
    }

    /// A number that is 0 for 0 lots only, for a test of several fields at once.
    #[must_use]
    #[inline]
    pub const fn any_bits(self) -> u32 {
        self.low | self.high as u32
    }
}

impl PartialOrd for Lots {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Lots {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.get().cmp(&other.get())
    }
}

impl fmt::Debug for Lots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lots").field(&self.get()).finish()
    }
}

impl fmt::Display for Lots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

/// As a number.
impl serde::Serialize for Lots {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All 48 bits are kept, ordered as numbers, and nothing beyond them is.
    #[test]
    fn lots_keep_48_bits() {
        let mut before = Lots::ZERO;
        for bit in 0..48 {
            for number in [1 << bit, (1 << bit) | 1 << 20] {
                let lots = Lots::new(number);
                assert_eq!((lots.get(), lots.quantity()), (number, Quantity(number)));
                assert_eq!((lots.is_zero(), Lots::checked(number)), (false, Some(lots)));
            }
            assert!(before < Lots::new(1 << bit));
            before = Lots::new(1 << bit);
        }
        assert_eq!(Lots::MAX.get(), (1 << 48) - 1);
        assert_eq!(Lots::checked(1 << 48), None);
        assert!(Lots::ZERO.is_zero());
    }

    #[test]
    #[should_panic = "fit in 48 bits"]
    fn lots_do_not_wrap() {
        let _ = Quantity(1 << 48).lots();
    }
}
