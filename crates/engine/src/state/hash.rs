//! The state hash: equal where states are equal, kept up to date in O(1) per change.
//!
//! The state is a set of elements (an instrument, a trading status, a trade, a session, the last
//! number of a channel, an order, a balance). Each type computes a 64-bit hash of all its fields.
//! The sum of these is independent of their order, and a change costs one subtraction and one
//! addition. Sequence, time and counters, which change with each input, are mixed in on request.
//!
//! Invariant: this module depends on no type of the engine, so that every type can use it.
//!
//! Priority needs no element: within a level it is the order of the order ids.

use market::Text;

/// The sum of the elements of the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateHash(u64);

impl StateHash {
    #[inline]
    pub(crate) fn add(&mut self, element: u64) {
        self.0 = self.0.wrapping_add(element);
    }

    #[inline]
    pub(crate) fn remove(&mut self, element: u64) {
        self.0 = self.0.wrapping_sub(element);
    }

    /// Changes an element.
    #[inline]
    pub(crate) fn change(&mut self, before: u64, after: u64) {
        self.remove(before);
        self.add(after);
    }

    /// The hash of the state, with the words that change with each input.
    pub(crate) fn finish(self, words: [u64; 6]) -> u64 {
        let [a, b, c, d, e, f] = words;
        mix([WHOLE, self.0, a, b, c, d, e, f])
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
pub(crate) const TRADING: u64 = 20;
pub(crate) const BLOCK: u64 = 21;
pub(crate) const AUCTIONS_HELD: u64 = 22;
pub(crate) const OPERATOR: u64 = 23;
pub(crate) const HELD_SETTING: u64 = 24;
pub(crate) const UNCROSSING: u64 = 25;
pub(crate) const SWEEP: u64 = 26;
pub(crate) const HALF_MATCHED: u64 = 27;
pub(crate) const COUNTED: u64 = 28;
pub(crate) const AUCTION_END: u64 = 29;
pub(crate) const CONTINGENT: u64 = 40;
pub(crate) const LAST_TRADE: u64 = 41;
pub(crate) const TRAILING_LEVEL: u64 = 42;
pub(crate) const NOTED_FOR_QUANTITY: u64 = 43;
pub(crate) const CHECK_FOR_QUANTITY: u64 = 44;
pub(crate) const ASSET: u64 = 60;
pub(crate) const ACCOUNT: u64 = 61;
pub(crate) const ASSIGNMENT: u64 = 62;
pub(crate) const TERMS: u64 = 63;
pub(crate) const FEES: u64 = 64;
pub(crate) const ASSET_LIMITS: u64 = 65;
pub(crate) const CHANGED: u64 = 68;
// Elements of a single round multiply their first word by one of these instead: odd and otherwise
// random, so that fields of different elements cannot cancel.
pub(crate) const BALANCE: u64 = 0x9E6C_63D0_76CC_4765;
pub(crate) const PENDING_CANCEL: u64 = 0xA24B_AED4_963E_E407;
pub(crate) const HELD_CANCEL: u64 = 0xC2B2_AE3D_27D4_EB4F;
pub(crate) const ORDER_IDENTITY: u64 = 0x5851_F42D_4C95_7F2D;
pub(crate) const ORDER_PROGRESS: u64 = 0xE703_7ED1_A0B4_28DB;

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

/// A hash of the words; each bit depends on every input bit.
pub(crate) fn mix<const N: usize>(words: [u64; N]) -> u64 {
    let mixed = words.iter().fold(0x9FB2_1C65_1E98_DF25, |state, word| fold(state ^ word));
    fold(mixed ^ N as u64)
}

/// One round: the folded halves of a 128-bit product.
#[inline]
pub(crate) fn fold(word: u64) -> u64 {
    let product = u128::from(word) * 0xD6E8_FEB8_6659_FD93;
    (product as u64) ^ (product >> 64) as u64
}

/// One round for two words; each keeps the other from being 0.
#[inline]
pub(crate) fn fold_pair(one: u64, other: u64) -> u64 {
    let product =
        u128::from(one ^ 0x9FB2_1C65_1E98_DF25) * u128::from(other ^ 0xD6E8_FEB8_6659_FD93);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changing one bit of a word changes about half of the hash bits.
    #[test]
    fn one_bit_changes_half_of_the_bits() {
        let words = [1, 2, 3, 4];
        for index in 0..words.len() {
            for bit in 0..64 {
                let mut other = words;
                other[index] ^= 1 << bit;
                let changed = (mix(words) ^ mix(other)).count_ones();
                assert!((12..=52).contains(&changed), "word {index}, bit {bit}: {changed} bits");
            }
        }
    }

    /// An element that joins and leaves again has no effect.
    #[test]
    fn sum_forgets_what_left() {
        let mut hash = StateHash::default();
        hash.add(mix([1]));
        let before = hash;
        hash.add(mix([2]));
        hash.change(mix([2]), mix([3]));
        assert_ne!(hash, before);
        hash.remove(mix([3]));
        assert_eq!(hash, before);
    }
}
