//! Notices by kind: each interval prints some, and counts the others.
//!
//! Invariant: no kind is silenced for longer than an interval, whatever its history, and no kind silences another.

use std::collections::BTreeMap;

/// The most notices of one kind printed in an interval.
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
    /// Notices suppressed in earlier intervals, and not yet summed up.
    unreported: u64,
}

impl NoticeLimiter {
    /// The length of an interval, in seconds.
    pub(crate) const INTERVAL_S: u64 = 10;

    /// True if a notice of this kind should be printed now.
    pub(crate) fn takes(&mut self, kind: &'static str, now_ns: u64) -> bool {
        let window = self.kinds.entry(kind).or_insert(Window::from(now_ns));
        if window.is_over(now_ns) {
            // The suppressed notices wait for `end_intervals`, and are never lost.
            *window = Window {
                unreported: window.unreported + window.suppressed,
                ..Window::from(now_ns)
            };
        }
        let takes = window.printed < PRINTED_MAX;
        match takes {
            true => window.printed += 1,
            false => window.suppressed += 1,
        }
        takes
    }

    /// The kinds with suppressed notices in an interval that is over, and their number; each once.
    pub(crate) fn end_intervals(&mut self, now_ns: u64) -> Vec<(&'static str, u64)> {
        let mut summaries = Vec::new();
        self.kinds.retain(|kind, window| {
            let is_over = window.is_over(now_ns);
            let count = window.unreported + if is_over { window.suppressed } else { 0 };
            window.unreported = 0;
            if count > 0 {
                summaries.push((*kind, count));
            }
            !is_over
        });
        summaries
    }
}

impl Window {
    const fn from(since_ns: u64) -> Self {
        Self { since_ns, printed: 0, suppressed: 0, unreported: 0 }
    }

    const fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) >= NoticeLimiter::INTERVAL_S * 1_000_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A flood of one kind is summed up and does not affect the others; after the interval the kind is printed again,
    /// also after any number of intervals.
    #[test]
    fn a_flood_is_summed_up_and_never_silenced_for_good() {
        let mut limiter = NoticeLimiter::default();
        for flood in 0..100 {
            let now_ns = flood * 10 * SECOND;
            let more = if flood == 0 { vec![] } else { vec![("flood", 480)] };
            assert_eq!(limiter.end_intervals(now_ns), more);
            let printed = (0..500).filter(|_| limiter.takes("flood", now_ns)).count();
            assert_eq!(printed, 20);
            assert!(limiter.takes("other", now_ns + 1));
            assert_eq!(limiter.end_intervals(now_ns + 9 * SECOND), []);
        }
    }

    /// An interval that is over ends with the next notice of its kind too, and the summary still comes.
    #[test]
    fn an_interval_ends_without_being_asked_for() {
        let mut limiter = NoticeLimiter::default();
        let printed = |limiter: &mut NoticeLimiter, now_ns| {
            (0..50).filter(|_| limiter.takes("flood", now_ns)).count()
        };
        assert_eq!(printed(&mut limiter, 0), 20);
        assert_eq!(printed(&mut limiter, 10 * SECOND), 20);
        assert_eq!(limiter.end_intervals(11 * SECOND), [("flood", 30)], "the second goes on");
        assert_eq!(limiter.end_intervals(20 * SECOND), [("flood", 30)]);
        assert_eq!(limiter.end_intervals(30 * SECOND), []);
    }
}
