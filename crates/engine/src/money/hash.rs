//! The elements of the state hash that money is made of.
//!
//! Invariant: what was never set or moved is no element, so that a venue without money has none.

use market::{AccountId, Asset, AssetId, InstrumentId, MoneyTerms, SessionId, Text, TradeId};

use super::{
    account::AssetLimits,
    fees::Fees,
    terms::NO_TERMS,
    undo::{Changed, Was},
};
use crate::state::hash::{
    ACCOUNT, ASSET, ASSET_LIMITS, ASSIGNMENT, BALANCE, CHANGED, FEES, TERMS, UNDO, fold_pair, mix,
    word,
};

/// An asset, and how many movements of it came in or went out.
pub(crate) fn asset(asset: &Asset, version: u64) -> u64 {
    let id = u64::from(asset.asset_id.0) << 8 | u64::from(asset.decimals);
    mix([ASSET, id, word(&asset.name), version])
}

/// What an account has of an asset, after so many movements. What is reserved follows from the
/// orders. A trade changes four of them, so it is one round.
#[inline(always)]
pub(crate) fn balance(
    asset_id: AssetId,
    account_id: AccountId,
    available: i128,
    version: u64,
) -> u64 {
    let place = u64::from(asset_id.0) << 32 | u64::from(account_id.0);
    let low = available as u64;
    let high = (available >> 64) as u64;
    fold_pair(place.wrapping_mul(BALANCE) ^ low, version ^ high.rotate_left(40))
}

/// An account: what it may do and has done this second.
pub(crate) fn account(account_id: AccountId, name: &Text<8>, words: [u64; 4]) -> u64 {
    let [a, b, c, d] = words;
    mix([ACCOUNT, u64::from(account_id.0), word(name), a, b, c, d])
}

/// Whose the orders of a session are; nobody's is no element.
pub(crate) fn assignment(session_id: SessionId, account_id: AccountId) -> u64 {
    if account_id == AccountId::VENUE {
        return 0;
    }
    mix([ASSIGNMENT, u64::from(session_id.0), u64::from(account_id.0)])
}

/// What an account may do with an asset; without limits it is no element.
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

/// What orders in an instrument cost; not to be paid for, and no larger than others, is no element.
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

/// The fees of a tier; none are no element.
pub(crate) fn fees(tier: usize, fees: &Fees) -> u64 {
    if *fees == Fees::default() {
        return 0;
    }
    let ppm = u64::from(fees.maker_ppm.cast_unsigned()) << 32 | u64::from(fees.taker_ppm);
    mix([FEES, tier as u64, ppm])
}

/// After which trade those that are paid for can be undone; before that is allowed, no element.
pub(crate) fn undo(since: Option<TradeId>) -> u64 {
    since.map_or(0, |since| mix([UNDO, since.0]))
}

/// What held until it was changed: its element while it was, with how long that was.
pub(crate) fn changed(changed: &Changed) -> u64 {
    let (kind, was) = match &changed.was {
        // Terms that are no element are some here.
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
