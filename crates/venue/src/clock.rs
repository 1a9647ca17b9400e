//! The only reader of time in the product.
#![allow(clippy::disallowed_methods, reason = "this is where time is read")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use market::Timestamp;

/// The present time of the admin API's runtime, which its tests can stop.
pub(crate) fn runtime_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Unix time that never goes back: read once at the start, then advanced by the monotonic clock.
///
/// A step of the wall clock does not affect a running venue until its next start.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
    started_unix_ns: u64,
}

impl SystemClock {
    /// A clock that starts at the present Unix time.
    ///
    /// # Panics
    /// The machine's clock is before 1970 or after 2554.
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
        Self {
            started: Instant::now(),
            started_unix_ns: u64::try_from(unix.as_nanos()).expect("the clock is before 2554"),
        }
    }

    /// Continues from `last`, at the pace of the monotonic clock, if that is later than now. Returns the lead over the
    /// wall clock, in nanoseconds; 0 if there is none.
    pub fn continue_from(&mut self, last: Timestamp) -> u64 {
        let ahead_ns = last.0.saturating_sub(self.now_ns());
        self.started_unix_ns += ahead_ns;
        ahead_ns
    }

    pub fn now_ns(&self) -> u64 {
        self.started_unix_ns + self.since_start().as_nanos() as u64
    }

    pub fn now(&self) -> Timestamp {
        Timestamp(self.now_ns())
    }

    pub fn since_start(&self) -> Duration {
        self.started.elapsed()
    }
}

impl ring::Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        Self::now_ns(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the wall clock is behind the journal, time continues from the journal's last moment and does not stand still;
    /// otherwise the wall clock's time is used.
    #[test]
    fn time_goes_on_from_the_journal() {
        let mut clock = SystemClock::start();
        assert_eq!(clock.continue_from(Timestamp(1)), 0);
        let years_ns = 1_000_000_000_000_000_000;
        let last = Timestamp(clock.now_ns() + years_ns);
        let before = clock.since_start();
        let ahead_ns = clock.continue_from(last);
        let now_ns = clock.now_ns();
        let passed = clock.since_start() - before;
        assert!(0 < ahead_ns && ahead_ns <= years_ns);
        assert!(last.0 <= now_ns && u128::from(now_ns - last.0) <= passed.as_nanos());
        while clock.now_ns() <= now_ns {
            std::hint::spin_loop();
        }
    }
}
