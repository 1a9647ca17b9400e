//! Numbers that look random and follow from a seed: the same on every machine, in every version.
//!
//! The parts of an iceberg are drawn with it, so its numbers are part of what a journal means and
//! never change. It keeps no secret: whoever knows one number knows the next.

/// SplitMix64, the generator of Steele, Lea and Flood: 64 bits of state, a period of 2^64.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator of this seed. Each seed, 0 included, has its own sequence.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any 64-bit number.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = self.0;
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Any number below `bound`, as even as the remainder of 64 bits is.
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

    /// The sequence of seed 1234567, as the generator's authors publish it.
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
