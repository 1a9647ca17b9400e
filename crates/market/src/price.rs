//! Prices, in ticks.
//!
//! Invariant: `Price × Quantity` is the only way to make an [`Amount`].

use core::{fmt, ops::Mul};

use crate::{Amount, Quantity, Ticks};

/// A price, in ticks.
///
/// One tick is the smallest price step: with the four decimals of OUCH and ITCH, 1/10,000 of the
/// quote currency. An instrument may allow only multiples of its
/// [`price_increment`](crate::Instrument::price_increment).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Price(pub u64);

impl Price {
    /// 0 ticks: the price of an order without a limit.
    pub const ZERO: Self = Self(0);

    /// The same price in 32 bits.
    ///
    /// # Panics
    /// The price exceeds 32 bits; every order limit fits.
    #[must_use]
    #[inline]
    pub fn ticks(self) -> Ticks {
        Ticks(u32::try_from(self.0).expect("the limit of an order fits in 32 bits"))
    }
}

/// The notional of `quantity` lots at this price; cannot overflow.
impl Mul<Quantity> for Price {
    type Output = Amount;

    fn mul(self, quantity: Quantity) -> Amount {
        Amount(u128::from(self.0) * u128::from(quantity.0))
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
