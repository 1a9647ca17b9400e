//! Timestamps, in nanoseconds since the Unix epoch.

/// Nanoseconds in a day of 24 hours.
pub const NANOS_PER_DAY: u64 = 86_400 * 1_000_000_000;

/// A timestamp: nanoseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Nanoseconds since midnight UTC, as OUCH and ITCH print time; below [`NANOS_PER_DAY`].
    ///
    /// Every day has 86,400 seconds, as in Unix time.
    #[must_use]
    pub const fn since_midnight(self) -> u64 {
        self.0 % NANOS_PER_DAY
    }
}
