//! Settings of derived data: bounds of its readers by HTTP and by FIX.

use std::{net::SocketAddr, time::Duration};

use gateway::FIX_DEPTH_MAX;
use serde::Deserialize;
use wire::fix::CompId;

use super::{
    Span, loopback,
    order_entry::{check_timers, comp_id},
};

/// Levels that one stream may watch, over all its instruments.
pub const STREAM_LEVELS_MAX: usize = 4096;

/// `[derived_data]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DerivedDataConfig {
    /// The most price levels of a side in a query. Default 50.
    pub depth_max: usize,
    /// Trades kept for queries, over all instruments. Default 10000.
    pub trades: usize,
    /// The shortest time between two events about an instrument in a stream: all changes in between are one event.
    /// Default `100ms`.
    pub interval: Span,
    /// Streams at a time. Default 64.
    pub streams_max: usize,
    /// Streams of one address at a time. Default 16.
    pub streams_per_address_max: usize,
    /// A stream whose client reads nothing for this time is closed. Default `10s`.
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

/// `[market_data_fix]`: participants with a password and subscribers may log on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MarketDataFixConfig {
    /// The listening address; port 0 takes a free one. Default `127.0.0.1:26405`.
    #[serde(deserialize_with = "super::units::address")]
    pub address: SocketAddr,
    /// CompID of the venue, up to 16 characters; that of a client is its username. Default `DAMRAK`.
    pub comp_id: String,
    /// Levels of a side that a request may have, 1 to 100; a request for the full book has this number. Default 20.
    pub depth_max: usize,
    /// Subscriptions of one session at a time. Default 64.
    pub subscriptions_max: usize,
    /// Trades that are kept for slow clients, over all instruments. Default 10000.
    pub trades: usize,
    /// The shortest time between two rounds of changes to one client: all changes in between are one change. Default `1ms`.
    pub interval: Span,
    /// A connection that has not logged on after this long is closed. Default `5s`.
    pub login_timeout: Span,
    /// A client that takes nothing for this time is closed. Default `10s`.
    pub slow_client_timeout: Span,
}

impl Default for MarketDataFixConfig {
    fn default() -> Self {
        Self {
            address: loopback(26_405),
            comp_id: "DAMRAK".into(),
            depth_max: 20,
            subscriptions_max: 64,
            trades: 10_000,
            interval: Span(Duration::from_millis(1)),
            login_timeout: Span(Duration::from_secs(5)),
            slow_client_timeout: Span(Duration::from_secs(10)),
        }
    }
}

impl MarketDataFixConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        self.comp_id()?;
        let within = |key: &str, value: usize, low: usize, high: usize| match (low..=high)
            .contains(&value)
        {
            true => Ok(()),
            false => {
                Err(format!("market_data_fix.{key} is {value}: it must be from {low} to {high}"))
            }
        };
        within("depth_max", self.depth_max, 1, FIX_DEPTH_MAX)?;
        within("subscriptions_max", self.subscriptions_max, 1, 1024)?;
        within("trades", self.trades, 16, 1_000_000)?;
        let longest = Duration::from_secs(60);
        if self.interval.0 > longest {
            return Err(format!(
                "market_data_fix.interval is {:?}: it must be from 0s to {longest:?}",
                self.interval.0
            ));
        }
        check_timers(
            "market_data_fix",
            &[
                ("login_timeout", self.login_timeout),
                ("slow_client_timeout", self.slow_client_timeout),
            ],
        )
    }

    /// The CompID of the venue.
    ///
    /// # Errors
    /// The text is blank, too long, or has a character that FIX does not carry.
    pub fn comp_id(&self) -> Result<CompId, String> {
        comp_id("market_data_fix", &self.comp_id)
    }
}
