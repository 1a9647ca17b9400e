//! Counts of lengths of time.
//!
//! Invariant: one agent counts, any thread reads, and none waits.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// Counts of lengths of time, in buckets of an eighth of an octave.
pub struct TimeCounts([AtomicU64; BUCKETS]);

const BUCKETS: usize = 62 * 8;

impl Default for TimeCounts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl fmt::Debug for TimeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.counts()).finish()
    }
}

impl TimeCounts {
    /// Counts a time, in nanoseconds. Only for its one writer.
    pub fn record(&self, ns: u64) {
        let count = &self.0[bucket(ns)];
        // Relaxed: no other data is read because of it.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The longest time of each non-empty bucket, in nanoseconds, with its count, in rising order.
    #[must_use]
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(at, count)| (longest(at), count)).collect()
    }
}

/// The least time that this part of the counted times does not exceed, to the precision of the buckets; 0 if none was
/// counted.
#[must_use]
pub fn at_most(counts: &[(u64, u64)], part: f64) -> u64 {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let wanted = ((all as f64 * part).ceil() as u64).clamp(1, all.max(1));
    let mut seen = 0;
    let reached = counts.iter().find(|(_, count)| {
        seen += count;
        seen >= wanted
    });
    reached.map_or(0, |(ns, _)| *ns)
}

fn bucket(ns: u64) -> usize {
    let exponent = ns.max(1).ilog2() as usize;
    match exponent.checked_sub(3) {
        None => ns as usize,
        Some(shift) => shift * 8 + (ns >> shift) as usize,
    }
}

/// The longest time of a bucket, in nanoseconds.
fn longest(bucket: usize) -> u64 {
    match (bucket / 8).checked_sub(1) {
        None => bucket as u64,
        Some(shift) => ((((bucket % 8) as u128 + 9) << shift) - 1) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket has the times up to its longest, no bucket is missing, and the longest time exceeds the others by at
    /// most an eighth.
    #[test]
    fn buckets_follow_each_other() {
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for ns in (0..5_000).chain([1 << 20, (1 << 20) - 1, u64::MAX / 3]) {
            let upper = longest(bucket(ns));
            assert!(ns <= upper && upper - ns <= ns / 8, "{ns} {upper}");
            assert_eq!(bucket(upper), bucket(ns));
            assert!(upper == u64::MAX || bucket(upper + 1) == bucket(ns) + 1, "{ns}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_counts() {
        let counts = [(10, 90), (20, 9), (30, 1)];
        assert_eq!(
            [0.5, 0.9, 0.91, 0.99, 1.0].map(|part| at_most(&counts, part)),
            [10, 10, 20, 20, 30]
        );
        assert_eq!(at_most(&[], 0.5), 0);
    }

    #[test]
    fn times_are_counted_in_their_buckets() {
        let times = TimeCounts::default();
        [1, 1_000, 1, 1_001].into_iter().for_each(|ns| times.record(ns));
        assert_eq!(times.counts(), [(1, 2), (1_023, 2)]);
    }
}
