//! What is derived from the feed for readers by HTTP, and their bounds.

use std::time::Duration;

use serde::Deserialize;

use super::Span;

/// Levels that one stream may watch, over all its instruments.
pub const STREAM_LEVELS_MAX: usize = 4096;

/// `[derived_data]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DerivedDataConfig {
    /// Price levels of a side that may be asked for. Default 50.
    pub depth_max: usize,
    /// Trades that are kept for those that ask, over all instruments. Default 10000.
    pub trades: usize,
    /// The shortest time between two events about an instrument in a stream: what changed in between is one event.
    /// Default `100ms`.
    pub interval: Span,
    /// Streams at a time. Default 64.
    pub streams_max: usize,
    /// Streams of one address at a time. Default 16.
    pub streams_per_address_max: usize,
    /// A stream whose client takes nothing for this time is closed. Default `10s`.
    pub slow_client_timeout: Span,
}

impl Default for DerivedDataConfig {
    fn default() -> Self {
        Self {
            depth_max: 50,
            trades: 10_000,
            interval: Span(Duration::from_millis(100)),
            streams_max: 64,
            streams_per_address_max: 16,
            slow_client_timeout: Span(Duration::from_secs(10)),
        }
    }
}

impl DerivedDataConfig {
    pub(super) fn check(&self, has_address: bool) -> Result<(), String> {
        if !has_address {
            return Err("derived_data needs admin.address, where it is served".into());
        }
        let within = |key: &str, value: usize, low: usize, high: usize| match (low..=high)
            .contains(&value)
        {
            true => Ok(()),
            false => Err(format!("derived_data.{key} is {value}: it must be from {low} to {high}")),
        };
        within("depth_max", self.depth_max, 1, 1000)?;
        within("trades", self.trades, 16, 1_000_000)?;
        within("streams_max", self.streams_max, 1, 4096)?;
        within("streams_per_address_max", self.streams_per_address_max, 1, 4096)?;
        let times = [
            ("interval", self.interval.0, Duration::from_millis(1), Duration::from_secs(60)),
            (
                "slow_client_timeout",
                self.slow_client_timeout.0,
                Duration::from_millis(100),
                Duration::from_secs(3600),
            ),
        ];
        for (key, value, low, high) in times {
            if !(low..=high).contains(&value) {
                return Err(format!(
                    "derived_data.{key} is {value:?}: it must be from {low:?} to {high:?}"
                ));
            }
        }
        Ok(())
    }
}
