//! The search for the highest rate that meets objectives.
//!
//! Invariant: each rate tried is between the highest that passed and the lowest that failed, so the search
//! ends.

/// Doubles the rate until one fails, then halves the interval left between the two, down to 5 %.
#[derive(Clone, Copy, Debug)]
pub struct RateSearch {
    next: u64,
    passed: u64,
    failed: Option<u64>,
}

impl RateSearch {
    /// Begins with this rate, in requests a second; at least 1.
    pub fn new(rate_per_second: u64) -> Self {
        Self { next: rate_per_second.max(1), passed: 0, failed: None }
    }

    /// The rate to try next; `None` once the search is over.
    pub fn next(&self) -> Option<u64> {
        let is_over = self.failed.is_some_and(|failed| failed - self.passed <= failed.div_ceil(20));
        (!is_over).then_some(self.next)
    }

    /// Takes the result of the rate tried.
    pub fn tried(&mut self, passes: bool) {
        if passes {
            self.passed = self.next;
        } else {
            self.failed = Some(self.next);
        }
        self.next = match self.failed {
            None => self.passed.saturating_mul(2),
            Some(failed) => self.passed + (failed - self.passed) / 2,
        }
        .max(1);
    }

    /// The highest rate that passed, if one did.
    pub fn best(&self) -> Option<u64> {
        (self.passed > 0).then_some(self.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The search finds the highest rate within 5 %, from below and from above, and none where none is.
    #[test]
    fn search_finds_the_highest_rate() {
        for limit in [0, 1, 2, 999, 10_000, 1_234_567] {
            for start in [1, 10_000, 50_000_000] {
                let mut search = RateSearch::new(start);
                let mut tries = 0;
                while let Some(rate) = search.next() {
                    search.tried(rate <= limit);
                    tries += 1;
                    assert!(tries < 64, "{limit} from {start}");
                }
                let best = search.best().unwrap_or(0);
                assert!(
                    best <= limit && best * 100 >= limit * 94,
                    "{best} of {limit} from {start}"
                );
            }
        }
    }
}
