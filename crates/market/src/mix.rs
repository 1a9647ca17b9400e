//! Mixing words into a 64-bit hash: multiplications, and no table or key.
//!
//! Invariant: a hash depends on the words alone, so it is the same on every machine. It protects
//! against errors, not against an attacker that searches for collisions.

/// Starts a hash, and keeps a word of 0 from staying 0.
const START: u64 = 0x9FB2_1C65_1E98_DF25;

/// The other factor of a round: odd and otherwise random.
const FACTOR: u64 = 0xD6E8_FEB8_6659_FD93;

/// One round: the folded halves of a 128-bit product.
#[must_use]
#[inline]
pub const fn fold(word: u64) -> u64 {
    halves(word as u128 * FACTOR as u128)
}

/// One round for two words; each keeps the other from being 0. Their order matters.
#[must_use]
#[inline]
pub const fn fold_pair(one: u64, other: u64) -> u64 {
    halves((one ^ START) as u128 * (other ^ FACTOR) as u128)
}

/// A hash of the words; each bit depends on every input bit.
#[must_use]
#[inline]
pub fn mix<const N: usize>(words: [u64; N]) -> u64 {
    let mixed = words.iter().fold(START, |state, word| fold(state ^ word));
    fold(mixed ^ N as u64)
}

#[inline]
const fn halves(product: u128) -> u64 {
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

    /// One bit of either word changes the hash of a pair, and so does their order.
    #[test]
    fn each_word_of_a_pair_matters() {
        let pair = fold_pair(1, 2);
        assert_ne!(pair, fold_pair(2, 1));
        for bit in 0..64 {
            assert_ne!(pair, fold_pair(1 ^ 1 << bit, 2), "bit {bit}");
            assert_ne!(pair, fold_pair(1, 2 ^ 1 << bit), "bit {bit}");
        }
    }
}
