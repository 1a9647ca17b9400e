//! The terms of an instrument: what its orders cost or deliver, and so what they hold.
//!
//! The arithmetic itself is [`MoneyTerms`]'; here it meets the side of an order.

use core::hint::select_unpredictable;

use market::{AssetId, MoneyClass, MoneyTerms, Price, Quantity, Side};

use crate::order::QUANTITY_MAX;

/// The terms of an instrument for which none were set.
pub(crate) const NO_TERMS: MoneyTerms = MoneyTerms::unpaid(QUANTITY_MAX);

/// Terms as the engine asks them. The largest quantity of an order is the book's to know.
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

    /// True if what lots cost together is what they cost one by one.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.0.quote_denominator == 1
    }

    /// The asset with which an order of this side pays, or which it delivers.
    #[inline]
    pub(crate) fn reserved_asset(&self, side: Side) -> AssetId {
        select_unpredictable(side.is_buy(), self.0.quote, self.0.base)
    }

    /// What an order with a limit holds while so much of it is open, in units: what it could still
    /// cost, or what it could still deliver.
    #[inline(always)]
    pub(crate) fn reservation(&self, side: Side, price: Price, leaves: Quantity) -> u128 {
        // Either side is as likely, so none is a branch: lots to deliver are lots at one tick.
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

    /// The largest order at the largest terms fits, and so does what it adds to any balance.
    #[test]
    fn the_largest_order_has_a_cost() {
        let terms = MoneyTerms {
            class: MoneyClass::Cash,
            base_units: u64::MAX,
            quote_numerator: u64::MAX,
            quote_denominator: 1,
            ..MoneyTerms::unpaid(QUANTITY_LIMIT)
        };
        for side in [Side::Buy, Side::Sell] {
            assert!(Terms(terms).reservation(side, PRICE_MAX, QUANTITY_LIMIT) < 1 << 126);
        }
    }
}
