//! Order entry: its addresses, timers and throttle.

use std::{net::SocketAddr, time::Duration};

use gateway::Throttle;
use serde::Deserialize;
use wire::fix::{CompId, SessionSchedule};

use crate::reply_files::REPLY_FILES_BYTES_MIN;

use super::{Bytes, FixScheduleConfig, ParticipantConfig, ProtocolName, Span, loopback, units};

/// Room for about 800,000 replies. The store is small because the first write to memory costs more than the reply
/// itself: a small store is soon full, and then reuses its memory.
pub(super) const REPLY_STORE_DEFAULT: Bytes = Bytes(64 << 20);

/// Room for about 17 million execution reports.
const REPLY_FILES_DEFAULT: Bytes = Bytes(4 << 30);

/// `[order_entry]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrderEntryConfig {
    /// The listening address; port 0 takes a free one. Default `127.0.0.1:26400`.
    #[serde(deserialize_with = "units::address")]
    pub address: SocketAddr,
    /// Connections at a time. Each participant with a password has a place among them, and at least
    /// one is for logins; the oldest connection without a login makes room for a newer one. Default 1024.
    pub connections_max: usize,
    /// A heartbeat is sent after this long without anything else. Default `1s`.
    pub heartbeat: Span,
    /// A connection that is silent for this long is closed. Default `15s`.
    pub receive_timeout: Span,
    /// A connection that has not logged in after this long is closed. Default `5s`.
    pub login_timeout: Span,
    /// A client that reads nothing for this long, although replies wait for it, is disconnected; it can
    /// log in again and continue where it stopped. Default `10s`.
    pub slow_client_timeout: Span,
    /// Memory for the replies of all sessions; the oldest of the longest stream are dropped first. Default `64MiB`.
    pub reply_store: Bytes,
}

impl OrderEntryConfig {
    pub(super) fn check(&self, participants: &[ParticipantConfig]) -> Result<(), String> {
        check_timers(
            "order_entry",
            &[
                ("heartbeat", self.heartbeat),
                ("receive_timeout", self.receive_timeout),
                ("login_timeout", self.login_timeout),
                ("slow_client_timeout", self.slow_client_timeout),
            ],
        )?;
        if self.heartbeat.0 >= self.receive_timeout.0 {
            return Err(format!(
                "order_entry.heartbeat is {:?} and receive_timeout {:?}: the heartbeat must be shorter, \
                 or quiet clients are closed before they can show that they are alive",
                self.heartbeat.0, self.receive_timeout.0
            ));
        }
        check_places("order_entry", self.connections_max, participants, ProtocolName::Ouch)
    }
}

impl Default for OrderEntryConfig {
    fn default() -> Self {
        Self {
            address: loopback(26_400),
            connections_max: 1024,
            heartbeat: Span(Duration::from_secs(1)),
            receive_timeout: Span(Duration::from_secs(15)),
            login_timeout: Span(Duration::from_secs(5)),
            slow_client_timeout: Span(Duration::from_secs(10)),
            reply_store: REPLY_STORE_DEFAULT,
        }
    }
}

/// `[order_entry_fix]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrderEntryFixConfig {
    /// The listening address; port 0 takes a free one. Default `127.0.0.1:26402`.
    #[serde(deserialize_with = "units::address")]
    pub address: SocketAddr,
    /// CompID of the venue, up to 16 characters; that of a participant is its username. Default `DAMRAK`.
    pub comp_id: String,
    /// As `order_entry.connections_max`. Default 1024.
    pub connections_max: usize,
    /// A connection that has not logged on after this long is closed. Default `5s`.
    pub login_timeout: Span,
    /// As `order_entry.slow_client_timeout`. Default `10s`.
    pub slow_client_timeout: Span,
    /// Memory for the messages to all sessions; the oldest of the longest stream are dropped first, and a
    /// resend reads them from the disk. Default `64MiB`.
    pub reply_store: Bytes,
    /// Room in `journal.directory` for the messages to all sessions as they were sent, 128 MiB at least; the oldest are
    /// removed first, and a resend derives removed ones from the journal, which is slower. 0 keeps none. Default `4GiB`.
    pub reply_files: Bytes,
    /// The times at which sessions are open. Default always; their numbers then restart only if a Logon requests it.
    pub schedule: Option<FixScheduleConfig>,
}

impl OrderEntryFixConfig {
    pub(super) fn check(&self, participants: &[ParticipantConfig]) -> Result<(), String> {
        self.comp_id()?;
        self.schedule()?;
        if (1..REPLY_FILES_BYTES_MIN).contains(&self.reply_files.0) {
            return Err(format!(
                "order_entry_fix.reply_files is {}: it must be {} at least, or 0 for none",
                self.reply_files,
                Bytes(REPLY_FILES_BYTES_MIN)
            ));
        }
        check_timers(
            "order_entry_fix",
            &[
                ("login_timeout", self.login_timeout),
                ("slow_client_timeout", self.slow_client_timeout),
            ],
        )?;
        check_places("order_entry_fix", self.connections_max, participants, ProtocolName::Fix)
    }

    /// The schedule of sessions; `None` is always open.
    ///
    /// # Errors
    /// See [`FixScheduleConfig::schedule`].
    pub fn schedule(&self) -> Result<Option<SessionSchedule>, String> {
        self.schedule.as_ref().map(FixScheduleConfig::schedule).transpose()
    }

    /// The CompID of the venue.
    ///
    /// # Errors
    /// The text is blank, too long, or has a character that FIX does not carry.
    pub fn comp_id(&self) -> Result<CompId, String> {
        comp_id("order_entry_fix", &self.comp_id)
    }
}

impl Default for OrderEntryFixConfig {
    fn default() -> Self {
        Self {
            address: loopback(26_402),
            comp_id: "DAMRAK".into(),
            connections_max: 1024,
            login_timeout: Span(Duration::from_secs(5)),
            slow_client_timeout: Span(Duration::from_secs(10)),
            reply_store: REPLY_STORE_DEFAULT,
            reply_files: REPLY_FILES_DEFAULT,
            schedule: None,
        }
    }
}

/// `[order_entry_ouch42]`: timers are those of `[order_entry]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrderEntryOuch42Config {
    /// The listening address; port 0 takes a free one. Default `127.0.0.1:26403`.
    #[serde(deserialize_with = "units::address")]
    pub address: SocketAddr,
    /// As `order_entry.connections_max`. Default 1024.
    pub connections_max: usize,
    /// Memory for the replies of all sessions; the oldest of the longest stream are dropped first. Default `64MiB`.
    pub reply_store: Bytes,
}

impl OrderEntryOuch42Config {
    pub(super) fn check(&self, participants: &[ParticipantConfig]) -> Result<(), String> {
        check_places("order_entry_ouch42", self.connections_max, participants, ProtocolName::Ouch42)
    }
}

impl Default for OrderEntryOuch42Config {
    fn default() -> Self {
        Self { address: loopback(26_403), connections_max: 1024, reply_store: REPLY_STORE_DEFAULT }
    }
}

/// `[order_entry_sluice]`: timers are those of `[order_entry]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrderEntrySluiceConfig {
    /// The receiving address; port 0 takes a free one. Default `127.0.0.1:26406`.
    #[serde(deserialize_with = "units::address")]
    pub address: SocketAddr,
    /// Sessions and logins under way at a time, as `order_entry.connections_max`. Default 1024.
    pub connections_max: usize,
    /// Memory for the replies of all sessions; the oldest of the longest stream are dropped first. Default `64MiB`.
    pub reply_store: Bytes,
}

impl OrderEntrySluiceConfig {
    pub(super) fn check(&self, participants: &[ParticipantConfig]) -> Result<(), String> {
        check_places("order_entry_sluice", self.connections_max, participants, ProtocolName::Sluice)
    }
}

impl Default for OrderEntrySluiceConfig {
    fn default() -> Self {
        Self { address: loopback(26_406), connections_max: 1024, reply_store: REPLY_STORE_DEFAULT }
    }
}

/// `[order_entry_udp]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrderEntryUdpConfig {
    /// The receiving address; port 0 takes a free one. Default `127.0.0.1:26401`.
    #[serde(deserialize_with = "units::address")]
    pub address: SocketAddr,
    /// Memory for the replies of all sessions; the oldest of the longest stream are dropped first. Default `64MiB`.
    pub reply_store: Bytes,
}

impl Default for OrderEntryUdpConfig {
    fn default() -> Self {
        Self { address: loopback(26_401), reply_store: REPLY_STORE_DEFAULT }
    }
}

/// `[throttle]`: how much each session may send, over TCP or UDP. A rate of 0 is no bound.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThrottleConfig {
    /// Messages a second; above it new orders and replaces are rejected. Default 100000.
    pub messages_per_second: u64,
    /// Messages at once, on top of the rate. Default 200000.
    pub messages_burst: u64,
    /// Messages without effect a second, such as cancels of nothing, queries and orders above the rate;
    /// above it the session is logged out and blocked. Each message with an effect allows one more. Default 100.
    pub no_effect_per_second: u64,
    /// Messages without effect at once, on top of the rate. Default 10000.
    pub no_effect_burst: u64,
    /// The time for which a session is blocked. Default `10s`.
    pub block: Span,
}

impl ThrottleConfig {
    /// The throttle in the gateways' form.
    pub const fn throttle(&self) -> Throttle {
        Throttle {
            messages_per_second: self.messages_per_second,
            messages_burst: self.messages_burst,
            no_effect_per_second: self.no_effect_per_second,
            no_effect_burst: self.no_effect_burst,
            block_ns: self.block.0.as_nanos() as u64,
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        for (key, rate, burst) in [
            ("messages", self.messages_per_second, self.messages_burst),
            ("no_effect", self.no_effect_per_second, self.no_effect_burst),
        ] {
            if rate > 0 && burst == 0 {
                return Err(format!(
                    "throttle.{key}_burst is 0, so no message could pass: set it to 1 at least, \
                     or throttle.{key}_per_second to 0 for no bound"
                ));
            }
        }
        Ok(())
    }
}

impl Default for ThrottleConfig {
    fn default() -> Self {
        let throttle = Throttle::default();
        Self {
            messages_per_second: throttle.messages_per_second,
            messages_burst: throttle.messages_burst,
            no_effect_per_second: throttle.no_effect_per_second,
            no_effect_burst: throttle.no_effect_burst,
            block: Span(Duration::from_nanos(throttle.block_ns)),
        }
    }
}

/// The CompID of the venue at a port.
pub(super) fn comp_id(section: &str, text: &str) -> Result<CompId, String> {
    CompId::new(text).filter(|it| !it.is_blank()).ok_or_else(|| {
        format!("{section}.comp_id is {text:?}: it must be 1 to 16 printable ASCII characters")
    })
}

/// Checks that each participant has a place among the connections of its port, and a login one more.
fn check_places(
    section: &str,
    connections_max: usize,
    participants: &[ParticipantConfig],
    protocol: ProtocolName,
) -> Result<(), String> {
    let speaks = |it: &&ParticipantConfig| it.password.is_some() && it.protocol == protocol;
    let users = participants.iter().filter(speaks).count();
    if connections_max <= users {
        return Err(format!(
            "{section}.connections_max is {connections_max}: the {users} participants with a \
             password have a place each, and a login needs one more; set it to {} at least",
            users + 1
        ));
    }
    Ok(())
}

/// The interval at which the gateway checks its timers.
const TIMER_MIN: Duration = Duration::from_millis(10);

/// Checks that no timer of a section is shorter than that interval.
pub(super) fn check_timers(section: &str, timers: &[(&str, Span)]) -> Result<(), String> {
    match timers.iter().find(|(_, span)| span.0 < TIMER_MIN) {
        None => Ok(()),
        Some((key, span)) => Err(format!(
            "{section}.{key} is {:?}: it must be at least {TIMER_MIN:?}, since timers are checked that \
             often; leave it out for the default",
            span.0
        )),
    }
}
