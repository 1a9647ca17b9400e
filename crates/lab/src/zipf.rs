//! Zipf's law in integers, by which flows and order files spread orders over instruments.
//!
//! Invariant: the weights and the numbers drawn are those of published files.

/// The k-th of some instruments, from 1, has 1/k of the weight of the first.
#[derive(Clone, Debug)]
pub(crate) struct ZipfWeights {
    weights: Vec<u64>,
    sum: u64,
}

impl ZipfWeights {
    pub(crate) fn new(count: usize) -> Self {
        let weights: Vec<u64> = (1..=count as u64).map(|rank| 1_000_000 / rank).collect();
        Self { sum: weights.iter().sum(), weights }
    }

    pub(crate) fn len(&self) -> usize {
        self.weights.len()
    }

    /// Splits `total` by weight, rounded down.
    pub(crate) fn shares(&self, total: u64) -> impl Iterator<Item = u64> {
        self.weights.iter().map(move |weight| total * weight / self.sum)
    }

    /// An index; `below` draws a number below its argument.
    pub(crate) fn pick(&self, below: impl FnOnce(u64) -> u64) -> usize {
        let mut chance = below(self.sum);
        let found = self.weights.iter().position(|weight| match chance.checked_sub(*weight) {
            Some(rest) => {
                chance = rest;
                false
            }
            None => true,
        });
        found.expect("the number is below the sum of the weights")
    }
}
