//! The elements of money in the state hash.
//!
//! Invariant: a value that was never set or moved has no element, so a venue without money has
//! none.

use market::{AccountId, Asset, AssetId, InstrumentId, MoneyTerms, SessionId, Text};

use super::{
    account::AssetLimits,
    fees::Fees,
    terms::NO_TERMS,
    undo::{Changed, Was},
};
use crate::state::hash::{
    ACCOUNT, ASSET, ASSET_LIMITS, ASSIGNMENT, BALANCE, CHANGED, FEES, TERMS, mix, word,
};

/// An asset, and its number of deposits and withdrawals.
pub(crate) fn asset(asset: &Asset, version: u64) -> u64 {
    let id = u64::from(asset.asset_id.0) << 8 | u64::from(asset.decimals);
    mix([ASSET, id, word(&asset.name), version])
}

/// A balance and its version. The reserved part follows from the orders.
pub(crate) fn balance(
    asset_id: AssetId,
    account_id: AccountId,
    available: i128,
    version: u64,
) -> u64 {
    let place = u64::from(asset_id.0) << 32 | u64::from(account_id.0);
    let low = available as u64;
    let high = (available >> 64) as u64;
    mix([BALANCE, place, low, high, version])
}

/// An account: its limits, and its orders of the present second.
pub(crate) fn account(account_id: AccountId, name: &Text<8>, words: [u64; 5]) -> u64 {
    let [a, b, c, d, e] = words;
    mix([ACCOUNT, u64::from(account_id.0), word(name), a, b, c, d, e])
}

/// The account of a session; a session without one has no element.
pub(crate) fn assignment(session_id: SessionId, account_id: AccountId) -> u64 {
    if account_id == AccountId::VENUE {
        return 0;
    }
    mix([ASSIGNMENT, u64::from(session_id.0), u64::from(account_id.0)])
}

/// The limits of an account for an asset; no element without limits.
pub(crate) fn asset_limits(asset_id: AssetId, account_id: AccountId, limits: &AssetLimits) -> u64 {
    if *limits == AssetLimits::default() {
        return 0;
    }
    let place = u64::from(asset_id.0) << 32 | u64::from(account_id.0);
    let AssetLimits { order_notional_max, position_max, short_max } = *limits;
    mix([
        ASSET_LIMITS,
        place,
        order_notional_max as u64,
        (order_notional_max >> 64) as u64,
        position_max as u64,
        (position_max >> 64) as u64,
        short_max as u64,
        (short_max >> 64) as u64,
    ])
}

/// The payment terms of an instrument; no element for unpaid terms with the default quantity.
pub(crate) fn terms(instrument_id: InstrumentId, terms: &MoneyTerms) -> u64 {
    if *terms == NO_TERMS {
        return 0;
    }
    let assets = u64::from(terms.base.0) << 16 | u64::from(terms.quote.0);
    mix([
        TERMS,
        u64::from(instrument_id.0) << 8 | u64::from(terms.class.code()),
        assets,
        terms.base_units,
        terms.quote_numerator,
        terms.quote_denominator,
        terms.quantity_max.0,
    ])
}

/// The fees of a tier; no element without fees.
pub(crate) fn fees(tier: usize, fees: &Fees) -> u64 {
    if *fees == Fees::default() {
        return 0;
    }
    let ppm = u64::from(fees.maker_ppm.cast_unsigned()) << 32 | u64::from(fees.taker_ppm);
    mix([FEES, tier as u64, ppm])
}

/// The old value of a changed setting: its former element, with its last trade.
pub(crate) fn changed(changed: &Changed) -> u64 {
    let (kind, was) = match &changed.was {
        // Default terms have no element as such, but have one here.
        Was::Terms(instrument_id, was) if *was == NO_TERMS => (0, u64::from(instrument_id.0)),
        Was::Terms(instrument_id, was) => (1, terms(*instrument_id, was)),
        Was::Owner(session_id, account_id) => {
            (2, u64::from(session_id.0) << 32 | u64::from(account_id.0))
        }
        Was::Fees(tier, Fees { maker_ppm, taker_ppm }) => {
            let tier = u64::from(*tier) << 8 | 3;
            (tier, u64::from(maker_ppm.cast_unsigned()) << 32 | u64::from(*taker_ppm))
        }
        Was::Tier(account_id, tier) => (4, u64::from(account_id.0) << 8 | u64::from(*tier)),
    };
    mix([CHANGED, changed.until.0, kind, was])
}
