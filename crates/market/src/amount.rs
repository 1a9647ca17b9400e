//! `Amount`, the product of a price and a quantity, and its conversion to units of an asset.
//!
//! Invariant: [`Price`](crate::Price) × [`Quantity`](crate::Quantity) is the only way to make an
//! amount. Arithmetic never wraps: an overflow is `None` or a panic, in release builds too.

use core::fmt;

/// The notional of a price and a quantity, in ticks × lots.
///
/// Made only by [`Price`](crate::Price) × [`Quantity`](crate::Quantity), or from other amounts.
/// 128 bits hold every product of two 64-bit numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(pub(crate) u128);

impl Amount {
    /// 0 ticks × lots.
    pub const ZERO: Self = Self(0);

    /// The bare number, in ticks × lots.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }

    /// This amount in units of the quote asset, rounded down: × numerator ÷ denominator.
    ///
    /// # Panics
    /// `denominator` is 0, or the product has more than 128 bits. An amount below 2⁶⁴ always fits.
    #[must_use]
    #[inline(always)]
    pub fn units(self, numerator: u64, denominator: u64) -> u128 {
        // Two words make one product that cannot overflow; almost every amount is one word.
        let product = match u64::try_from(self.0) {
            Ok(amount) => u128::from(amount) * u128::from(numerator),
            Err(_) => wide_product(self.0, numerator),
        };
        if denominator == 1 { product } else { quotient(product, denominator) }
    }

    /// The same as [`units`](Self::units); `None` if the product exceeds 64 bits.
    ///
    /// # Panics
    /// `denominator` is 0.
    #[must_use]
    #[inline(always)]
    pub fn small_units(self, numerator: u64, denominator: u64) -> Option<u64> {
        let product = u64::try_from(self.0).ok()?.checked_mul(numerator)?;
        Some(if denominator == 1 { product } else { product / denominator })
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
}

#[cold]
fn wide_product(amount: u128, numerator: u64) -> u128 {
    amount.checked_mul(numerator.into()).expect("an amount in units fits 128 bits")
}

#[inline(never)]
fn quotient(product: u128, denominator: u64) -> u128 {
    match u64::try_from(product) {
        Ok(product) => u128::from(product / denominator),
        Err(_) => product / u128::from(denominator),
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

    /// Units are exact at every width, and rounded down.
    #[test]
    fn units_are_exact() {
        let wide = u128::from(u64::MAX) + 1;
        for (amount, numerator, denominator, units) in [
            (0, 7, 3, 0),
            (5, 7, 1, 35),
            (5, 7, 3, 11),
            (u64::MAX.into(), u64::MAX, 1, u128::from(u64::MAX) * u128::from(u64::MAX)),
            (u64::MAX.into(), u64::MAX, u64::MAX, u64::MAX.into()),
            (wide, 3, 2, wide * 3 / 2),
            (u128::MAX, 1, 1, u128::MAX),
        ] {
            let amount = Amount(amount);
            assert_eq!(amount.units(numerator, denominator), units, "{amount}");
            let product = amount.0.checked_mul(numerator.into());
            let is_small = product.is_some_and(|product| product >> 64 == 0);
            let small = is_small.then_some(units as u64);
            assert_eq!(amount.small_units(numerator, denominator), small, "{amount}");
        }
    }

    #[test]
    #[should_panic = "fits 128 bits"]
    fn units_do_not_wrap() {
        let _ = Amount(u128::MAX).units(2, 1);
    }

    /// Sums and differences that do not fit are `None`.
    #[test]
    fn sums_are_checked() {
        assert_eq!(Amount(u128::MAX).checked_add(Amount(1)), None);
        assert_eq!(Amount(1).checked_sub(Amount(2)), None);
        assert_eq!(Amount(3).checked_sub(Amount(2)), Some(Amount(1)));
    }
}
