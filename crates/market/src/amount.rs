//! Amounts of money: price times quantity, in 128 bits.
//!
//! Invariant: sums and differences are checked; none wraps.

use core::fmt;

/// Money: ticks × lots, the notional of a price and a quantity.
///
/// Made only by [`Price`](crate::Price) × [`Quantity`](crate::Quantity), or from other amounts.
/// 128 bits hold every product of two 64-bit numbers; sums are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(pub(crate) u128);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// The bare number, in ticks × lots.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
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
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Price, Quantity};

    /// The largest price times the largest quantity is still exact.
    #[test]
    fn product_never_overflows() {
        let amount = Price(u64::MAX) * Quantity(u64::MAX);
        assert_eq!(amount.get(), u128::from(u64::MAX) * u128::from(u64::MAX));
    }

    /// Sums and differences that do not fit are told, not wrapped.
    #[test]
    fn sums_are_checked() {
        assert_eq!(Amount(u128::MAX).checked_add(Amount(1)), None);
        assert_eq!(Amount(1).checked_sub(Amount(2)), None);
        assert_eq!(Amount(3).checked_sub(Amount(2)), Some(Amount(1)));
    }
}
