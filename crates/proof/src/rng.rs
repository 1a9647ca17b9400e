//! Random numbers from a seed: the same on every machine and in every version.

use market::SplitMix64;

/// A generator of random numbers: xoshiro256**, its state filled from the seed by SplitMix64.
///
/// For tests and load generation, which need only speed, an even spread and repeatability.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Creates a generator from a seed. Each seed, 0 included, gives its own sequence.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut words = SplitMix64::new(seed);
        Self { state: [(); 4].map(|()| words.next_u64()) }
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let word = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        debug_assert!(self.state != [0; 4], "the state is never all zero");
        word
    }

    /// Any number below `bound`, evenly distributed up to about one part in 2⁶⁴ ÷ `bound`.
    ///
    /// # Panics
    /// `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Any number from `low` to `high`, both included.
    ///
    /// # Panics
    /// `low` is above `high`, or the two are the ends of all 64-bit numbers.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "{low} is above {high}");
        low + self.below(high - low + 1)
    }

    /// True `part` times out of `whole`.
    ///
    /// # Panics
    /// `whole` is 0.
    pub fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }

    /// One of the items, each as often as its weight says.
    ///
    /// # Panics
    /// The weights are all 0.
    pub fn weighted<T: Copy>(&mut self, items: &[(u64, T)]) -> T {
        let mut drawn = self.below(items.iter().map(|(weight, _)| weight).sum());
        for (weight, item) in items {
            if drawn < *weight {
                return *item;
            }
            drawn -= weight;
        }
        unreachable!("what is drawn is below the sum of the weights")
    }

    /// One of the items.
    ///
    /// # Panics
    /// `items` is empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sequence is the published one of xoshiro256** for the state 1, 2, 3, 4.
    #[test]
    fn sequence_is_the_published_one() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected =
            [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240, 1_216_172_134_540_287_360];
        assert_eq!([(); 5].map(|()| rng.next_u64()), expected);
    }

    /// The same seed gives the same sequence, and another seed another one.
    #[test]
    fn seed_decides_the_sequence() {
        let sequence = |seed| {
            let mut rng = Rng::new(seed);
            [(); 8].map(|()| rng.next_u64())
        };
        assert_eq!(sequence(7), sequence(7));
        assert_ne!(sequence(7), sequence(8));
        assert_ne!(sequence(0), [0; 8]);
    }

    /// Numbers stay below their bound, and all of them occur about equally often.
    #[test]
    fn numbers_spread_evenly() {
        let mut rng = Rng::new(1);
        let mut counts = [0; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert!((0..1_000).all(|_| (5..=7).contains(&rng.range(5, 7))));
        let hits = (0..100_000).filter(|_| rng.chance(1, 4)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
    }
}
