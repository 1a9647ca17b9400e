//! A seeded random number generator: the same numbers on every machine and in every version.
//!
//! Invariant: its numbers never change. The parts of an iceberg are drawn with it, so a journal
//! depends on them. It is not for secrets: each number reveals the next.

/// SplitMix64, the generator of Steele, Lea and Flood: 64 bits of state, a period of 2^64.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator of a seed. Each seed, 0 included, has its own sequence.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64-bit number.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = self.0;
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `bound`; the bias is below `bound` ÷ 2⁶⁴.
    ///
    /// # Panics
    /// `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sequence of seed 1234567 as the generator's authors publish it.
    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for number in published {
            assert_eq!(random.next_u64(), number);
        }
    }
}
