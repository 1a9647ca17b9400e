//! An account: its limits, and their use.

use market::{AccountId, AccountSetting, RejectReason, Text, Timestamp, encoded};

use super::hash;

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Number of fee tiers.
pub(crate) const TIER_COUNT: usize = 16;

/// Limits of an account, and its orders of the present second. Limits of 0 are none.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Account {
    pub(crate) name: Text<8>,
    pub(crate) fee_tier: u8,
    pub(crate) stopped: bool,
    pub(crate) order_quantity_max: u64,
    pub(crate) live_orders_max: u32,
    pub(crate) orders_per_second_max: u32,
    /// In ppm.
    pub(crate) price_away_max: u32,
    /// New orders and replaces in `second`; counted only while there is a limit.
    asked: u32,
    /// In seconds since the Unix epoch.
    second: u64,
}

encoded! {
    Account {
        name, fee_tier, stopped, order_quantity_max, live_orders_max, orders_per_second_max,
        price_away_max, asked, second
    }
}

const _: () = assert!(size_of::<Account>() == 64, "an account is one cache line");

/// The hot fields of an account, read by most orders and trades: eight accounts to a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct HotAccount {
    /// Live orders of its sessions.
    pub(crate) live_orders: u32,
    /// A copy of the account's fee tier.
    pub(crate) fee_tier: u8,
    /// A copy of [`Account::is_limited`].
    pub(crate) is_limited: bool,
}

market::assert_layout! {
    HotAccount, 8 { live_orders: 0, fee_tier: 4, is_limited: 5 }
}

impl Account {
    /// An account without limits.
    pub(crate) fn new(name: Text<8>) -> Self {
        Self {
            name,
            fee_tier: 0,
            stopped: false,
            order_quantity_max: 0,
            live_orders_max: 0,
            orders_per_second_max: 0,
            price_away_max: 0,
            asked: 0,
            second: 0,
        }
    }

    /// Changes a setting that is not per asset; false, with no effect, if the value is invalid.
    pub(crate) fn set(&mut self, setting: AccountSetting, value: u128) -> bool {
        if setting == AccountSetting::OrderQuantityMax {
            let Ok(value) = u64::try_from(value) else { return false };
            self.order_quantity_max = value;
            return true;
        }
        let Ok(value) = u32::try_from(value) else { return false };
        match setting {
            AccountSetting::FeeTier if (value as usize) < TIER_COUNT => self.fee_tier = value as u8,
            AccountSetting::LiveOrdersMax => self.live_orders_max = value,
            AccountSetting::OrdersPerSecondMax => {
                self.orders_per_second_max = value;
                (self.asked, self.second) = (0, 0);
            }
            AccountSetting::PriceAwayMax => self.price_away_max = value,
            AccountSetting::FeeTier
            | AccountSetting::OrderQuantityMax
            | AccountSetting::OrderNotionalMax
            | AccountSetting::PositionMax
            | AccountSetting::ShortMax => return false,
        }
        true
    }

    /// Counts an order against the rate; true if it was counted.
    pub(crate) fn count(&mut self, timestamp: Timestamp) -> bool {
        if self.orders_per_second_max == 0 {
            return false;
        }
        let second = timestamp.0 / SECOND_NS;
        if self.second != second {
            self.second = second;
            self.asked = 0;
        }
        self.asked = self.asked.saturating_add(1);
        true
    }

    /// True if the account is within its order rate.
    pub(crate) fn check_rate(&self) -> Result<(), RejectReason> {
        if self.orders_per_second_max != 0 && self.asked > self.orders_per_second_max {
            return Err(RejectReason::OrderRateLimit);
        }
        Ok(())
    }

    /// True if the account has a limit or is stopped.
    pub(crate) fn is_limited(&self) -> bool {
        let limits = self.live_orders_max | self.orders_per_second_max | self.price_away_max;
        self.stopped || self.order_quantity_max != 0 || limits != 0
    }

    /// Its element of the state hash. The number of live orders is left out, because it follows
    /// from the orders.
    pub(crate) fn element(&self, account_id: AccountId) -> u64 {
        hash::account(
            account_id,
            &self.name,
            [
                u64::from(self.fee_tier) << 32 | u64::from(self.stopped) << 40,
                self.order_quantity_max,
                u64::from(self.live_orders_max) << 32 | u64::from(self.orders_per_second_max),
                u64::from(self.price_away_max) << 32 | u64::from(self.asked),
                self.second,
            ],
        )
    }
}

/// Limits of an account for one asset, in units. 0 is no limit, except for the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AssetLimits {
    pub(crate) order_notional_max: u128,
    pub(crate) position_max: u128,
    /// 0 allows no short sale.
    pub(crate) short_max: u128,
}

impl AssetLimits {
    /// The highest limit, in units.
    pub(crate) const MAX: u128 = 1 << 96;

    /// True if no limit is above the maximum.
    pub(crate) fn are_allowed(&self) -> bool {
        let Self { order_notional_max, position_max, short_max } = *self;
        order_notional_max.max(position_max).max(short_max) <= Self::MAX
    }

    /// Changes a per-asset setting.
    pub(crate) fn set(&mut self, setting: AccountSetting, value: u128) {
        match setting {
            AccountSetting::OrderNotionalMax => self.order_notional_max = value,
            AccountSetting::PositionMax => self.position_max = value,
            AccountSetting::ShortMax => self.short_max = value,
            _ => unreachable!("settings that are of an asset"),
        }
    }
}
