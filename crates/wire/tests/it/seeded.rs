//! Randomness that can be repeated from a number.

use market::SplitMix64;

/// A generator of test data.
#[derive(Clone, Debug)]
pub struct Seeded(SplitMix64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    /// True once in `times` on average.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_be_bytes()[0]).collect()
    }
}

/// Runs `check` with seeds 1 to `count`; a failure names its seed.
pub fn for_seeds(count: u64, check: impl Fn(&mut Seeded)) {
    for seed in 1..=count {
        let context = PrintOnPanic(seed);
        check(&mut Seeded::new(seed));
        std::mem::forget(context);
    }
}

struct PrintOnPanic(u64);

impl Drop for PrintOnPanic {
    fn drop(&mut self) {
        eprintln!("the seed is {}", self.0);
    }
}
