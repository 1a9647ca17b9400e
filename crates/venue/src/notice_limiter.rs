//! Notices by kind: some are printed in each interval, and the others of it are counted.
//!
//! Invariant: no kind is silenced for longer than an interval, whatever came before, and none silences
//! another.

use std::collections::BTreeMap;

/// Notices of one kind that are printed in an interval.
const PRINTED_MAX: u32 = 20;

/// Decides which notices are printed.
#[derive(Debug, Default)]
pub(crate) struct NoticeLimiter {
    kinds: BTreeMap<&'static str, Window>,
}

#[derive(Debug)]
struct Window {
    since_ns: u64,
    printed: u32,
    suppressed: u64,
}

impl NoticeLimiter {
    /// The length of an interval, in seconds.
    pub(crate) const INTERVAL_S: u64 = 10;

    /// True if a notice of this kind is to be printed now.
    pub(crate) fn takes(&mut self, kind: &'static str, now_ns: u64) -> bool {
        let window = self.kinds.entry(kind).or_insert(Window {
            since_ns: now_ns,
            printed: 0,
            suppressed: 0,
        });
        let takes = window.printed < PRINTED_MAX;
        match takes {
            true => window.printed += 1,
            false => window.suppressed += 1,
        }
        takes
    }

    /// Ends the intervals that are over: the kinds of which some were not printed, and how many.
    pub(crate) fn summaries(&mut self, now_ns: u64) -> Vec<(&'static str, u64)> {
        let is_over = |window: &Window| {
            now_ns.saturating_sub(window.since_ns) >= Self::INTERVAL_S * 1_000_000_000
        };
        let over = self.kinds.extract_if(.., |_, window| is_over(window));
        over.filter(|(_, window)| window.suppressed > 0)
            .map(|(kind, window)| (kind, window.suppressed))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A flood of one kind is summed up and leaves the others alone; after the interval it is printed
    /// again, also after any number of intervals.
    #[test]
    fn a_flood_is_summed_up_and_never_silenced_for_good() {
        let mut limiter = NoticeLimiter::default();
        for flood in 0..100 {
            let now_ns = flood * 10 * SECOND;
            let more = if flood == 0 { vec![] } else { vec![("flood", 480)] };
            assert_eq!(limiter.summaries(now_ns), more);
            let printed = (0..500).filter(|_| limiter.takes("flood", now_ns)).count();
            assert_eq!(printed, 20);
            assert!(limiter.takes("other", now_ns + 1));
            assert_eq!(limiter.summaries(now_ns + 9 * SECOND), []);
        }
    }
}
