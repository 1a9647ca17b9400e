//! Payment terms of an instrument: the cost or the delivery of its orders, and so their reservations.
//!
//! [`MoneyTerms`] does the arithmetic; this module applies it by side. Invariant: no allowed order
//! overflows.

use core::hint::select_unpredictable;

use market::{AssetId, MoneyClass, MoneyTerms, Price, Quantity, Side};

use crate::order::QUANTITY_MAX;

/// The terms of an instrument for which none were set.
pub(crate) const NO_TERMS: MoneyTerms = MoneyTerms::unpaid(QUANTITY_MAX);

/// Payment terms for the engine. The book has the largest quantity of an order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms(pub(crate) MoneyTerms);

impl Terms {
    /// True if orders are paid for.
    #[inline]
    pub(crate) fn is_paid(&self) -> bool {
        self.0.class != MoneyClass::None
    }

    /// True for class position: holdings are limited, and short sales possible.
    #[inline]
    pub(crate) fn is_position(&self) -> bool {
        self.0.class == MoneyClass::Position
    }

    /// True if the cost of lots together equals the sum of their single costs.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.0.quote_denominator == 1
    }

    /// The asset that an order of this side pays with or delivers.
    #[inline]
    pub(crate) fn reserved_asset(&self, side: Side) -> AssetId {
        select_unpredictable(side.is_buy(), self.0.quote, self.0.base)
    }

    /// The reservation of an order with a limit for this many open lots, in units: its possible cost or delivery.
    #[inline(always)]
    pub(crate) fn reservation(&self, side: Side, price: Price, leaves: Quantity) -> u128 {
        // Both sides are equally likely, so there is no branch: a delivery is lots at one tick.
        let MoneyTerms { base_units, quote_numerator, quote_denominator, .. } = self.0;
        let buys = side.is_buy();
        let price = select_unpredictable(buys, price, Price(1));
        let numerator = select_unpredictable(buys, quote_numerator, base_units);
        let denominator = select_unpredictable(buys, quote_denominator, 1);
        (price * leaves).units(numerator, denominator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{PRICE_MAX, QUANTITY_LIMIT};

    /// The largest order at the largest terms fits, and so do its addition to any balance and the receipts of 2³²
    /// orders, whether the quantity or the units of a lot are large.
    #[test]
    fn the_largest_order_has_a_cost() {
        for (quantity, units) in [(QUANTITY_LIMIT, 1 << 44), (Quantity((1 << 28) - 1), u64::MAX)] {
            let terms = |units| MoneyTerms {
                class: MoneyClass::Cash,
                base_units: units,
                quote_numerator: units,
                quote_denominator: 1,
                ..MoneyTerms::unpaid(quantity)
            };
            assert!(terms(units).are_bounded());
            for side in [Side::Buy, Side::Sell] {
                assert!(Terms(terms(units)).reservation(side, PRICE_MAX, quantity) < 1 << 126);
            }
            assert!(terms(units).base_amount(quantity) < (1 << 126) >> 32);
        }
        let beyond = MoneyTerms { base_units: 1 << 45, ..MoneyTerms::unpaid(QUANTITY_LIMIT) };
        assert!(!beyond.are_bounded());
        assert!(!MoneyTerms { quote_numerator: 1 << 45, base_units: 1, ..beyond }.are_bounded());
    }
}
