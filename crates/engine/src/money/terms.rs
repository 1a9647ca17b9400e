//! What orders in an instrument cost.

use core::hint::select_unpredictable;

use market::{MoneyClass, MoneyTerms, Price, Quantity, Side};

use crate::order::{PRICE_MAX, QUANTITY_LIMIT, QUANTITY_MAX};

/// What the largest order could cost. It is counted without overflow, and so is what it adds to
/// any balance.
const COST_MAX: u128 = PRICE_MAX.0 as u128 * QUANTITY_LIMIT.0 as u128 * u64::MAX as u128;

const _: () = assert!(COST_MAX < 1 << 126);

/// The terms of an instrument for which none were set.
pub(crate) const NO_TERMS: MoneyTerms = MoneyTerms::unpaid(QUANTITY_MAX);

/// Without a class nothing is paid for; the largest quantity is then not told here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms(pub(crate) MoneyTerms);

impl Terms {
    /// True where orders are paid for.
    #[inline]
    pub(crate) fn is_paid(&self) -> bool {
        self.0.class != MoneyClass::None
    }

    /// True where what is bought is limited, and what is sold may be short.
    #[inline]
    pub(crate) fn is_position(&self) -> bool {
        self.0.class == MoneyClass::Position
    }

    /// Units of the quote asset for so many lots at this price, rounded down.
    #[inline(always)]
    pub(crate) fn cost(&self, price: Price, quantity: Quantity) -> u128 {
        let amount = price.0 * quantity.0;
        let product = u128::from(amount) * u128::from(self.0.quote_numerator);
        if self.0.quote_denominator == 1 {
            return product;
        }
        self.divide(product)
    }

    #[inline(never)]
    fn divide(&self, product: u128) -> u128 {
        match u64::try_from(product) {
            Ok(product) => u128::from(product / self.0.quote_denominator),
            Err(_) => product / u128::from(self.0.quote_denominator),
        }
    }

    /// True if what lots cost together is what they cost one by one.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.0.quote_denominator == 1
    }

    /// Units of the base asset in so many lots.
    #[inline]
    pub(crate) fn goods(&self, quantity: Quantity) -> u128 {
        u128::from(quantity.0) * u128::from(self.0.base_units)
    }

    /// What an order with a limit holds while so much of it is open: what it could still cost, or
    /// what it could still deliver.
    #[inline(always)]
    pub(crate) fn reservation(&self, side: Side, price: Price, leaves: Quantity) -> u128 {
        // Of two sides nobody knows which comes next, so neither is a branch.
        let buys = side.is_buy();
        let amount = select_unpredictable(buys, price.0 * leaves.0, leaves.0);
        let units = select_unpredictable(buys, self.0.quote_numerator, self.0.base_units);
        let product = u128::from(amount) * u128::from(units);
        if self.0.quote_denominator == 1 || !buys {
            return product;
        }
        self.cost(price, leaves)
    }
}
