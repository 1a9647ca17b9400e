//! The state hash: equal where states are equal, however they were reached.
//!
//! The state is a set of elements (an instrument, a trading status, a trade, a session, the last number of a channel,
//! an order, a balance). Each type computes a 64-bit hash of all its fields, and their sum does not depend on an order.
//! A walk over the whole state computes the hash, so the core keeps no data for it while it trades.
//!
//! Invariant: this module depends on no type of the engine, so that every type can use it.
//!
//! Priority needs no element: within a level it is the order of the order ids.

use market::Text;
pub(crate) use market::mix::{fold, mix};

/// The sum of the elements of the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateHash(u64);

impl StateHash {
    pub(crate) fn add(&mut self, element: u64) {
        self.0 = self.0.wrapping_add(element);
    }

    /// The hash of the state, with sequence, time and counters.
    pub(crate) fn finish(self, words: [u64; 7]) -> u64 {
        let [a, b, c, d, e, f, g] = words;
        mix([WHOLE, self.0, a, b, c, d, e, f, g])
    }
}

// The first word of each element identifies its type. All of them are here, so that they stay
// unique; the other words are beside each type.
const WHOLE: u64 = 0;
pub(crate) const INSTRUMENT: u64 = 1;
pub(crate) const SESSION: u64 = 2;
pub(crate) const CHANNEL: u64 = 3;
pub(crate) const FIRM_DISABLED: u64 = 4;
pub(crate) const ICEBERG: u64 = 5;
pub(crate) const ORDER: u64 = 6;
pub(crate) const TRADE: u64 = 7;
pub(crate) const PENDING_CANCEL: u64 = 8;
pub(crate) const HELD_CANCEL: u64 = 9;
pub(crate) const TRADING: u64 = 20;
pub(crate) const BLOCK: u64 = 21;
pub(crate) const OPERATOR: u64 = 23;
pub(crate) const HELD_SETTING: u64 = 24;
pub(crate) const UNCROSSING: u64 = 25;
pub(crate) const SWEEP: u64 = 26;
pub(crate) const HALF_MATCHED: u64 = 27;
pub(crate) const COUNTED: u64 = 28;
pub(crate) const AUCTION_END: u64 = 29;
pub(crate) const CONTINGENT: u64 = 40;
pub(crate) const LAST_TRADE: u64 = 41;
pub(crate) const TRAILING: u64 = 42;
pub(crate) const TURN: u64 = 45;
pub(crate) const NOTED_FOR_QUANTITY: u64 = 43;
pub(crate) const CHECK_FOR_QUANTITY: u64 = 44;
pub(crate) const ASSET: u64 = 60;
pub(crate) const ACCOUNT: u64 = 61;
pub(crate) const ASSIGNMENT: u64 = 62;
pub(crate) const TERMS: u64 = 63;
pub(crate) const FEES: u64 = 64;
pub(crate) const ASSET_LIMITS: u64 = 65;
pub(crate) const BALANCE: u64 = 66;
pub(crate) const CHANGED: u64 = 68;

/// Up to eight characters as a number.
#[inline]
pub(crate) fn word<const N: usize>(text: &Text<N>) -> u64 {
    const { assert!(N <= 8) };
    let mut bytes = [0; 8];
    // A loop of a known length becomes one load; a copy of slices may stay a call.
    for (to, from) in bytes.iter_mut().zip(text.as_bytes()) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

/// A hash of any bytes.
pub(crate) fn bytes(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    let start = fold(bytes.len() as u64 ^ 0x9FB2_1C65_1E98_DF25);
    bytes.chunks(8).fold(start, |state, chunk| fold(state ^ word(chunk)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of the same elements is equal in any order, and differs with one more of them.
    #[test]
    fn sum_has_no_order() {
        let [mut one, mut other] = [StateHash::default(); 2];
        for element in 1..=9 {
            one.add(mix([element]));
            other.add(mix([10 - element]));
        }
        assert_eq!(one, other);
        other.add(mix([9]));
        assert_ne!(one, other);
    }
}
