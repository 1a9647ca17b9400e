//! Commands about money: assets, accounts, terms, fees, limits, deposits, withdrawals, transfers.
//!
//! Invariant: amounts are whole units, never fractions.

use core::fmt;

use crate::{AccountId, AssetId, Price, Quantity, SessionId, Symbol, Text, order::code_enum};

/// An amount of an asset, in its smallest units.
///
/// Two 64-bit words rather than a `u128`, so that containing types need no wider alignment.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Units {
    high: u64,
    low: u64,
}

impl Units {
    /// 0 units.
    pub const ZERO: Self = Self::new(0);

    /// A number of units.
    #[must_use]
    pub const fn new(units: u128) -> Self {
        Self { high: (units >> 64) as u64, low: units as u64 }
    }

    /// The number of units.
    #[must_use]
    pub const fn get(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }
}

impl fmt::Debug for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Units").field(&self.get()).finish()
    }
}

/// A number up to 64 bits, and text above, because readers of JSON may round larger numbers.
impl serde::Serialize for Units {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(self.get()) {
            Ok(units) => serializer.serialize_u64(units),
            Err(_) => serializer.collect_str(self),
        }
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

/// A command about money: assets, accounts, payment terms, fees, limits and movements.
///
/// Each is carried out in full and reported by events, or changes nothing and is
/// [`Declined`](crate::Declined).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum MoneyCommand {
    /// Adds an asset.
    AddAsset(AddAsset),
    /// Adds an account.
    AddAccount(AddAccount),
    /// Assigns a session to an account.
    AssignSession(AssignSession),
    /// Sets the payment terms of an instrument.
    SetTerms(SetTerms),
    /// Sets the fees of a tier.
    SetFees(SetFees),
    /// Sets a limit or another setting of an account.
    SetAccount(SetAccount),
    /// The kill switch: stops an account and cancels its orders, or resumes it.
    StopAccount(StopAccount),
    /// Moves an amount in from outside.
    Deposit(Deposit),
    /// Moves an amount out.
    Withdraw(Withdraw),
    /// Moves an amount between accounts.
    Transfer(Transfer),
}

/// See [`MoneyCommand::AddAsset`]. The engine numbers assets in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AddAsset {
    /// Printed name; unique, not blank.
    pub name: Text<8>,
    /// Number of decimals where it is printed; informational.
    pub decimals: u8,
}

/// See [`MoneyCommand::AddAccount`]. The engine numbers accounts in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AddAccount {
    /// Printed name; unique, not blank.
    pub name: Text<8>,
}

/// See [`MoneyCommand::AssignSession`]. Only while the session has no live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AssignSession {
    /// The session.
    pub session_id: SessionId,
    /// Its new account; [`AccountId::VENUE`], the initial value, is none.
    pub account_id: AccountId,
}

code_enum! {
    /// How orders in an instrument are paid for: the class of its terms.
    MoneyClass {
        /// No payment: nothing is checked and nothing moves.
        None = b'N',
        /// Cash: the full cost, or the full delivery, of an order is reserved.
        Cash = b'C',
        /// Position: buying power is reserved. The account sells its holdings, and sells short up to its limit.
        Position = b'P',
    }
}

/// See [`MoneyCommand::SetTerms`]. Only while the instrument has no live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SetTerms {
    /// The instrument.
    pub symbol: Symbol,
    /// The terms.
    pub terms: MoneyTerms,
}

/// The payment terms of an instrument.
///
/// The cost of a quantity at a price is ticks × lots × numerator ÷ denominator units of the quote
/// asset, rounded down. With a denominator of 1 there is no rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct MoneyTerms {
    /// The class.
    pub class: MoneyClass,
    /// The asset that is traded; none without a class.
    pub base: AssetId,
    /// The asset that pays; differs from `base`; none without a class.
    pub quote: AssetId,
    /// Units of the base asset in a lot; at least 1; 0 without a class.
    pub base_units: u64,
    /// Numerator of the cost; at least 1; 0 without a class.
    pub quote_numerator: u64,
    /// Denominator of the cost; at least 1; 0 without a class.
    pub quote_denominator: u64,
    /// The largest quantity of an order, in lots; from 1 to 2⁴⁸ − 1.
    pub quantity_max: Quantity,
}

impl MoneyTerms {
    /// Terms without payment, with this largest quantity of an order.
    #[must_use]
    pub const fn unpaid(quantity_max: Quantity) -> Self {
        Self {
            class: MoneyClass::None,
            base: AssetId(0),
            quote: AssetId(0),
            base_units: 0,
            quote_numerator: 0,
            quote_denominator: 0,
            quantity_max,
        }
    }

    /// The bound of the largest quantity, times the units of a lot and times the numerator. With it no cost of
    /// an order exceeds 2¹²³, and the units that 2³² orders could buy do not exceed 2¹²⁴.
    pub const BOUND: u128 = (1 << 92) - 1;

    /// True if the largest quantity is within [`BOUND`](Self::BOUND).
    #[must_use]
    pub fn are_bounded(&self) -> bool {
        self.quantity_max.units(self.base_units.max(self.quote_numerator)) <= Self::BOUND
    }

    /// The cost of `quantity` lots at `price`, in units of the quote asset, rounded down.
    ///
    /// # Panics
    /// The terms have no class, or the product exceeds 128 bits, which no allowed price and
    /// quantity do.
    #[must_use]
    #[inline(always)]
    pub fn quote_amount(&self, price: Price, quantity: Quantity) -> u128 {
        (price * quantity).units(self.quote_numerator, self.quote_denominator)
    }

    /// The same as [`quote_amount`](Self::quote_amount); `None` if it exceeds 64 bits.
    ///
    /// # Panics
    /// The terms have no class.
    #[must_use]
    #[inline(always)]
    pub fn small_quote_amount(&self, price: Price, quantity: Quantity) -> Option<u64> {
        (price * quantity).small_units(self.quote_numerator, self.quote_denominator)
    }

    /// The same as [`base_amount`](Self::base_amount); `None` if it exceeds 64 bits.
    #[must_use]
    #[inline(always)]
    pub fn small_base_amount(&self, quantity: Quantity) -> Option<u64> {
        quantity.0.checked_mul(self.base_units)
    }

    /// Units of the base asset in a quantity.
    #[must_use]
    #[inline(always)]
    pub fn base_amount(&self, quantity: Quantity) -> u128 {
        quantity.units(self.base_units)
    }
}

/// See [`MoneyCommand::SetFees`]. Fees are in parts per million of the amount that the party receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct SetFees {
    /// The tier, 0 to 15.
    pub tier: u8,
    /// Fee of makers, in ppm. Below 0 it is a rebate, at most the lowest taker fee.
    pub maker_ppm: i32,
    /// Fee of takers, in ppm.
    pub taker_ppm: u32,
}

code_enum! {
    /// A setting of an account. A limit of 0 is no limit, unless stated otherwise.
    AccountSetting {
        /// Fee tier, 0 to 15.
        FeeTier = b'T',
        /// The largest quantity of an order, in lots.
        OrderQuantityMax = b'Q',
        /// The largest notional of an order, in units of this quote asset.
        OrderNotionalMax = b'N',
        /// Maximum number of live orders, over all its sessions.
        LiveOrdersMax = b'O',
        /// Maximum number of new orders and replaces in a second.
        OrdersPerSecondMax = b'R',
        /// The furthest that a limit may be through the best price of the other side, in ppm of
        /// that price.
        PriceAwayMax = b'F',
        /// The largest position in this asset, open buy orders included, in units; only where the
        /// asset is traded with class position.
        PositionMax = b'P',
        /// The largest short position in this asset, in units; 0 allows no short sale.
        ShortMax = b'S',
    }
}

impl AccountSetting {
    /// True if the setting is per asset.
    #[must_use]
    pub const fn is_of_asset(self) -> bool {
        matches!(self, Self::OrderNotionalMax | Self::PositionMax | Self::ShortMax)
    }
}

/// See [`MoneyCommand::SetAccount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct SetAccount {
    /// The account.
    pub account_id: AccountId,
    /// The setting.
    pub setting: AccountSetting,
    /// The asset, if the setting is per asset.
    pub asset_id: AssetId,
    /// The new value.
    pub value: Units,
}

/// See [`MoneyCommand::StopAccount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct StopAccount {
    /// The account.
    pub account_id: AccountId,
    /// True stops it, false resumes it.
    pub stopped: bool,
}

/// See [`MoneyCommand::Deposit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Deposit {
    /// The receiver; [`AccountId::VENUE`] is the venue's own revenue.
    pub account_id: AccountId,
    /// The asset.
    pub asset_id: AssetId,
    /// Amount in units; at least 1.
    pub amount: Units,
}

/// See [`MoneyCommand::Withdraw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Withdraw {
    /// The giver; [`AccountId::VENUE`] is the venue's own revenue.
    pub account_id: AccountId,
    /// The asset.
    pub asset_id: AssetId,
    /// Amount in units; at least 1, at most the available balance.
    pub amount: Units,
}

/// See [`MoneyCommand::Transfer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Transfer {
    /// The giver.
    pub from: AccountId,
    /// The receiver; another account.
    pub to: AccountId,
    /// The asset.
    pub asset_id: AssetId,
    /// Amount in units; at least 1, at most the available balance.
    pub amount: Units,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both words count, and the order is that of the numbers.
    #[test]
    fn units_are_numbers() {
        let large = u128::MAX - (1 << 70);
        assert_eq!(Units::new(large).get(), large);
        assert!(Units::new(1 << 64) > Units::new(u128::from(u64::MAX)));
        assert_eq!(align_of::<Units>(), 8);
    }
}
