//! The amounts of a trade: in 64 bits if they fit, which is the usual case, otherwise in 128.

use core::ops::Sub;

use market::{MoneyTerms, Price, Quantity};

use super::fees::{self, Fees};

/// An amount in units: a `u64`, which fits nearly every amount, or a `u128`, which fits all.
pub(super) trait AmountWidth:
    Copy + Default + Ord + Into<u128> + Sub<Output = Self>
{
    /// See [`MoneyTerms::quote_amount`]; `None` if the amount does not fit this width.
    fn quote_amount(terms: &MoneyTerms, price: Price, quantity: Quantity) -> Option<Self>;

    /// See [`MoneyTerms::base_amount`]; `None` if the amount does not fit this width.
    fn base_amount(terms: &MoneyTerms, quantity: Quantity) -> Option<Self>;

    /// This many ppm of it, at most a million, rounded down.
    fn part_down(self, ppm: u32) -> Self;

    /// This many ppm of it, at most a million, rounded up.
    fn part_up(self, ppm: u32) -> Self;
}

impl AmountWidth for u64 {
    #[inline(always)]
    fn quote_amount(terms: &MoneyTerms, price: Price, quantity: Quantity) -> Option<Self> {
        terms.small_quote_amount(price, quantity)
    }

    #[inline(always)]
    fn base_amount(terms: &MoneyTerms, quantity: Quantity) -> Option<Self> {
        terms.small_base_amount(quantity)
    }

    #[inline(always)]
    fn part_down(self, ppm: u32) -> Self {
        fees::small_part_down(self, ppm)
    }

    #[inline(always)]
    fn part_up(self, ppm: u32) -> Self {
        fees::small_part_up(self, ppm)
    }
}

impl AmountWidth for u128 {
    fn quote_amount(terms: &MoneyTerms, price: Price, quantity: Quantity) -> Option<Self> {
        Some(terms.quote_amount(price, quantity))
    }

    fn base_amount(terms: &MoneyTerms, quantity: Quantity) -> Option<Self> {
        Some(terms.base_amount(quantity))
    }

    fn part_down(self, ppm: u32) -> Self {
        fees::part_down(self, ppm)
    }

    fn part_up(self, ppm: u32) -> Self {
        fees::part_up(self, ppm)
    }
}

/// The amounts that a trade moves, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TradeAmounts<N> {
    /// The payment of the buyer.
    pub(super) paid: N,
    /// The delivery of the seller.
    pub(super) delivered: N,
    /// The taker's fee, out of the amount it receives.
    pub(super) taker_fee: N,
    /// The maker's rebate, in the asset of the taker's fee.
    pub(super) rebate: N,
    /// The maker's fee, out of the amount it receives.
    pub(super) maker_fee: N,
}

impl<N: AmountWidth> TradeAmounts<N> {
    /// The amounts of a trade without fees; `None` if one of them does not fit this width.
    #[inline(always)]
    pub(super) fn without_fees(
        terms: &MoneyTerms,
        price: Price,
        quantity: Quantity,
    ) -> Option<Self> {
        let paid = N::quote_amount(terms, price, quantity)?;
        let delivered = N::base_amount(terms, quantity)?;
        Some(Self { paid, delivered, ..Self::default() })
    }

    /// The amounts with fees. A party pays fees out of the amount it receives: the buyer in the base asset, the seller
    /// in the quote asset.
    #[inline(always)]
    pub(super) fn with_fees(self, taker_is_buy: bool, of_taker: Fees, of_maker: Fees) -> Self {
        let (taken, made) =
            if taker_is_buy { (self.delivered, self.paid) } else { (self.paid, self.delivered) };
        Self {
            taker_fee: of_taker.of_taker(taken),
            rebate: of_maker.rebate_of_maker(taken),
            maker_fee: of_maker.of_maker(made),
            ..self
        }
    }
}
