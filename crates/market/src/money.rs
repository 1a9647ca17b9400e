//! Commands about money: assets, accounts, terms, fees, limits, deposits, withdrawals, transfers.
//!
//! Invariant: amounts are whole units, never fractions.

use core::fmt;

use crate::{AccountId, AssetId, Price, Quantity, SessionId, Symbol, Text, order::code_enum};

/// An amount of an asset, in its smallest units.
///
/// Two words rather than one of 128 bits, so that what holds it needs no wider alignment.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Units {
    high: u64,
    low: u64,
}

impl Units {
    /// Nothing.
    pub const ZERO: Self = Self::new(0);

    /// So many.
    #[must_use]
    pub const fn new(units: u128) -> Self {
        Self { high: (units >> 64) as u64, low: units as u64 }
    }

    /// The bare number.
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

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

/// What may be asked about money: who has it, what it is, what orders cost, who may spend how much.
///
/// Each is carried out as a whole and told, or [`Declined`](crate::Declined) and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoneyCommand {
    /// Adds an asset, of which accounts can have some.
    AddAsset(AddAsset),
    /// Adds an account, which can have some of each asset.
    AddAccount(AddAccount),
    /// Says whose orders those of a session are.
    AssignSession(AssignSession),
    /// Says what orders in an instrument cost.
    SetTerms(SetTerms),
    /// Says what trades cost.
    SetFees(SetFees),
    /// Sets one limit, or another property, of an account.
    SetAccount(SetAccount),
    /// The kill switch: stops an account and cancels its orders, or lets it go on.
    StopAccount(StopAccount),
    /// Something comes in from the outside world.
    Deposit(Deposit),
    /// Something goes out to the outside world.
    Withdraw(Withdraw),
    /// Something goes from one account to another.
    Transfer(Transfer),
    /// Trades that are paid for can be undone, those from now on.
    AllowUndo,
}

/// See [`MoneyCommand::AddAsset`]. The engine numbers assets in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddAsset {
    /// Printed name; unique, not blank.
    pub name: Text<8>,
    /// How many of its digits stand behind the point where it is printed; informs.
    pub decimals: u8,
}

/// See [`MoneyCommand::AddAccount`]. The engine numbers accounts in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddAccount {
    /// Printed name; unique, not blank.
    pub name: Text<8>,
}

/// See [`MoneyCommand::AssignSession`]. Only while no order of the session is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignSession {
    /// Whose orders.
    pub session_id: SessionId,
    /// Whose they are from now on; [`AccountId::VENUE`] is nobody's, as at first.
    pub account_id: AccountId,
}

code_enum! {
    /// How orders in an instrument are paid for.
    MoneyClass {
        /// Not here: nothing is checked and nothing moves.
        None = b'N',
        /// Spot: what an order may cost, or deliver, is reserved in full.
        Cash = b'C',
        /// With limits: buying power is reserved, and what is sold may be held or, as far as the
        /// account's limit goes, sold short.
        Position = b'P',
    }
}

/// See [`MoneyCommand::SetTerms`]. Only while no order of the instrument is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTerms {
    /// Of which instrument.
    pub symbol: Symbol,
    /// The terms.
    pub terms: MoneyTerms,
}

/// What orders in an instrument cost.
///
/// What is paid for lots at a price is ticks × lots × numerator / denominator units of the quote
/// asset, rounded down. With a denominator of 1 nothing is ever rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoneyTerms {
    /// How they are paid for.
    pub class: MoneyClass,
    /// What is traded; none where there is no class.
    pub base: AssetId,
    /// What is paid with; another than `base`, none where there is no class.
    pub quote: AssetId,
    /// Units of the base asset in a lot; at least 1, 0 where there is no class.
    pub base_units: u64,
    /// At least 1, 0 where there is no class.
    pub quote_numerator: u64,
    /// At least 1, 0 where there is no class.
    pub quote_denominator: u64,
    /// The largest quantity of an order here, in lots; at least 1, at most 2²⁸ − 1.
    pub quantity_max: Quantity,
}

impl MoneyTerms {
    /// Nothing is paid for; an order is for so many lots at most.
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

    /// Units of the quote asset that `quantity` lots cost at `price`, rounded down.
    ///
    /// # Panics
    /// These are the terms of an instrument that is not paid for; or the product has more than 128
    /// bits, which it never has of a price and a quantity that an order may have.
    #[must_use]
    #[inline(always)]
    pub fn quote_amount(&self, price: Price, quantity: Quantity) -> u128 {
        (price * quantity).units(self.quote_numerator, self.quote_denominator)
    }

    /// Units of the base asset in so many lots.
    #[must_use]
    #[inline(always)]
    pub fn base_amount(&self, quantity: Quantity) -> u128 {
        quantity.units(self.base_units)
    }
}

/// See [`MoneyCommand::SetFees`]. Parts per million of what is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFees {
    /// Of accounts of this tier, 0 to 15.
    pub tier: u8,
    /// Of resting orders; below 0 it is a rebate, never above what any incoming order pays.
    pub maker_ppm: i32,
    /// Of incoming orders.
    pub taker_ppm: u32,
}

code_enum! {
    /// What can be set of an account. A limit of 0 is none, unless it says otherwise.
    AccountSetting {
        /// Which fees it pays, 0 to 15.
        FeeTier = b'T',
        /// The largest quantity of an order, in lots.
        OrderQuantityMax = b'Q',
        /// The most that an order may cost, in units of this quote asset.
        OrderNotionalMax = b'N',
        /// How many live orders it may have, on all its sessions.
        LiveOrdersMax = b'O',
        /// How many new orders and replaces it may ask for in a second.
        OrdersPerSecondMax = b'R',
        /// How far through the best price of the other side a limit may be, in parts per million of
        /// that price.
        PriceAwayMax = b'F',
        /// How much of this asset it may hold and be about to buy, in units, where it is traded
        /// with limits.
        PositionMax = b'P',
        /// How much of this asset it may be short, in units; 0 is nothing: it may not sell short.
        ShortMax = b'S',
    }
}

impl AccountSetting {
    /// True if it is set for one asset.
    #[must_use]
    pub const fn is_of_asset(self) -> bool {
        matches!(self, Self::OrderNotionalMax | Self::PositionMax | Self::ShortMax)
    }
}

/// See [`MoneyCommand::SetAccount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAccount {
    /// Of which account.
    pub account_id: AccountId,
    /// What.
    pub setting: AccountSetting,
    /// For which asset, where it is of one.
    pub asset_id: AssetId,
    /// To what.
    pub value: Units,
}

/// See [`MoneyCommand::StopAccount`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopAccount {
    /// Which.
    pub account_id: AccountId,
    /// True to stop it, false to let it go on.
    pub stopped: bool,
}

/// See [`MoneyCommand::Deposit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deposit {
    /// To whom; [`AccountId::VENUE`] is the venue's own revenue.
    pub account_id: AccountId,
    /// Of what.
    pub asset_id: AssetId,
    /// How much; at least 1.
    pub amount: Units,
}

/// See [`MoneyCommand::Withdraw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdraw {
    /// From whom; [`AccountId::VENUE`] is the venue's own revenue.
    pub account_id: AccountId,
    /// Of what.
    pub asset_id: AssetId,
    /// How much; at least 1, at most what is available.
    pub amount: Units,
}

/// See [`MoneyCommand::Transfer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// From whom.
    pub from: AccountId,
    /// To whom; another.
    pub to: AccountId,
    /// Of what.
    pub asset_id: AssetId,
    /// How much; at least 1, at most what is available.
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
