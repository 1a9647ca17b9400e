//! The only reader of time in the product.
#![allow(clippy::disallowed_methods, reason = "this is where time is read")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use market::Timestamp;

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
    #[must_use]
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
        Self {
            started: Instant::now(),
            started_unix_ns: u64::try_from(unix.as_nanos()).expect("the clock is before 2554"),
        }
    }

    /// Now, in nanoseconds since the Unix epoch.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.started_unix_ns + self.since_start().as_nanos() as u64
    }

    /// Now, as a timestamp.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp(self.now_ns())
    }

    /// Time since the start of this clock.
    #[must_use]
    pub fn since_start(&self) -> Duration {
        self.started.elapsed()
    }
}

impl ring::Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        Self::now_ns(self)
    }
}
