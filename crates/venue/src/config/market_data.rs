//! Market data: the addresses of the feed, the networks that may re-request it, the messages that are kept.

use std::net::{Ipv4Addr, SocketAddr};

use gateway::{Credentials, Network, RequestLimits, StreamFilter};
use serde::Deserialize;
use wire::moldudp64::PACKET_LEN_DEFAULT;

use super::{Bytes, Span, loopback};
use crate::layout::AgentName;

/// `[market_data]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MarketDataConfig {
    /// The multicast group, or the unicast address, to which the feed is sent; port 0 takes a free one.
    /// Default `239.10.10.10:26477`.
    pub group: SocketAddr,
    /// The interface that sends a multicast feed. Default `127.0.0.1`.
    pub interface: Ipv4Addr,
    /// The address to which the feed is sent if the interface carries no multicast; the start prints a
    /// notice then. Default `127.0.0.1` with the port of the group.
    #[serde(deserialize_with = "super::units::optional_address")]
    pub unicast: Option<SocketAddr>,
    /// Line B: a second group or unicast address that every message is sent to as well; port 0 takes
    /// a free one. If its interface carries no multicast, it goes to the address of `unicast` with the port of
    /// this group. Default none.
    pub group_b: Option<SocketAddr>,
    /// The interface that sends line B. Default that of the feed.
    pub interface_b: Option<Ipv4Addr>,
    /// The re-request server of lost messages; port 0 takes a free one. Default `127.0.0.1:26478`.
    #[serde(deserialize_with = "super::units::address")]
    pub re_request: SocketAddr,
    /// Snapshots of the books, GLIMPSE over SoupBinTCP; port 0 takes a free one. Default
    /// `127.0.0.1:26479`.
    #[serde(deserialize_with = "super::units::address")]
    pub snapshot: SocketAddr,
    /// The feed over SoupBinTCP, from any message on; port 0 takes a free one. Default
    /// `127.0.0.1:26482`.
    #[serde(deserialize_with = "super::units::address")]
    pub tcp: SocketAddr,
    /// Parts of the feed, each a session of its own. Default none.
    pub streams: Vec<StreamConfig>,
    /// Subscribers that may log in to both, beside the participants with a password.
    pub subscribers: Vec<SubscriberConfig>,
    /// Memory for messages that can be re-requested; the oldest are dropped first. Default `64MiB`.
    pub store: Bytes,
    /// Networks whose requests are answered, such as `10.1.0.0/16`. Default loopback, private and
    /// link-local networks.
    pub re_request_from: Vec<String>,
    /// Requests of one address that are answered in a second; 0 is no bound. Default 5000.
    pub re_requests_per_second: u64,
    /// Requests of all addresses that are answered in a second; 0 is no bound. Default 50000.
    pub re_requests_total_per_second: u64,
}

/// A line of the feed: its group or address, its interface, and its destination without multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedLine {
    /// The key of its group, for messages.
    pub key: &'static str,
    pub group: SocketAddr,
    pub interface: Ipv4Addr,
    pub fallback: SocketAddr,
}

impl MarketDataConfig {
    /// Line A of the feed.
    #[must_use]
    pub fn line_a(&self) -> FeedLine {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, self.group.port()));
        FeedLine {
            key: "market_data.group",
            group: self.group,
            interface: self.interface,
            fallback: self.unicast.unwrap_or(loopback),
        }
    }

    /// Line B of the feed, if there is one.
    #[must_use]
    pub fn line_b(&self) -> Option<FeedLine> {
        let group = self.group_b?;
        Some(FeedLine {
            key: "market_data.group_b",
            group,
            interface: self.interface_b.unwrap_or(self.interface),
            fallback: SocketAddr::new(self.line_a().fallback.ip(), group.port()),
        })
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.requests()?;
        if let Some(group) = self.group_b
            && (group == self.group && group.port() != 0 || !group.is_ipv4())
        {
            return Err(format!(
                "market_data.group_b is {group}: it must be an IPv4 address other than market_data.group"
            ));
        }
        if self.interface_b.is_some() && self.group_b.is_none() {
            return Err(
                "market_data.interface_b needs market_data.group_b, which is not set".into()
            );
        }
        Ok(())
    }

    /// True if other machines reach a service that asks for a password.
    pub(super) fn is_reachable(&self) -> bool {
        !self.snapshot.ip().is_loopback() || !self.tcp.ip().is_loopback()
    }

    /// The limits of the requests for lost messages that are answered.
    ///
    /// # Errors
    /// One of the texts is not a network.
    pub fn requests(&self) -> Result<RequestLimits, String> {
        let read = |text: &String| {
            text.parse::<Network>().map_err(|what| format!("market_data.re_request_from: {what}"))
        };
        Ok(RequestLimits {
            from: self.re_request_from.iter().map(read).collect::<Result<_, _>>()?,
            per_second: self.re_requests_per_second,
            total_per_second: self.re_requests_total_per_second,
        })
    }
}

impl Default for MarketDataConfig {
    fn default() -> Self {
        let requests = RequestLimits::default();
        Self {
            group: SocketAddr::from(([239, 10, 10, 10], 26_477)),
            interface: Ipv4Addr::LOCALHOST,
            unicast: None,
            group_b: None,
            interface_b: None,
            re_request: loopback(26_478),
            snapshot: loopback(26_479),
            tcp: loopback(26_482),
            streams: Vec::new(),
            subscribers: Vec::new(),
            store: Bytes(64 << 20),
            re_request_from: requests.from.iter().map(Network::to_string).collect(),
            re_requests_per_second: requests.per_second,
            re_requests_total_per_second: requests.total_per_second,
        }
    }
}

/// `[[market_data.streams]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamConfig {
    /// The name for people and figures; each stream has another.
    pub name: String,
    /// Symbols, or prefixes of symbols followed by a `*`.
    pub instruments: Vec<String>,
    /// Multicast groups, or unicast addresses; two of them are two lines. Port 0 is not allowed.
    pub to: Vec<SocketAddr>,
    /// Maximum bytes of a packet. Default `1400B`.
    #[serde(default = "packet_size")]
    pub packet_size: Bytes,
    /// The longest wait of a packet with room for more messages. Default `0s`: it is sent in the same turn.
    #[serde(default)]
    pub flush_after: Span,
    /// The behavior of a stream that falls behind. Default `drop`.
    #[serde(default)]
    pub overflow: Overflow,
    /// Messages that may wait for it, a power of two. Default 8192.
    #[serde(default = "slots")]
    pub slots: usize,
    /// The agent that sends the stream, from 1 to 16. Default 1: one agent for all streams.
    #[serde(default = "first_agent")]
    pub agent: usize,
}

/// The behavior of a ring whose reader falls behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overflow {
    /// The reader loses messages, which its subscribers request again.
    #[default]
    Drop,
    /// The venue waits for the reader.
    Block,
}

const fn packet_size() -> Bytes {
    Bytes(PACKET_LEN_DEFAULT as u64)
}

const fn slots() -> usize {
    8192
}

const fn first_agent() -> usize {
    1
}

impl StreamConfig {
    /// The filter of the stream's instruments.
    ///
    /// # Errors
    /// The list is empty, or one of its texts is no symbol.
    pub fn filter(&self) -> Result<StreamFilter, String> {
        StreamFilter::new(&self.instruments)
            .map_err(|what| format!("market_data.streams: stream {:?}: {what}", self.name))
    }

    /// The agent that sends it.
    pub fn agent_name(&self) -> AgentName {
        AgentName::STREAMS[self.agent - 1]
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let wrong =
            |what: String| Err(format!("market_data.streams: stream {:?}: {what}", self.name));
        self.filter()?;
        if self.name.is_empty() || self.name.len() > 32 {
            return wrong("a name has 1 to 32 characters".to_owned());
        }
        if self.to.is_empty() {
            return wrong("to is empty: name a group or an address".to_owned());
        }
        if let Some(to) = self.to.iter().find(|to| to.port() == 0 || !to.is_ipv4()) {
            return wrong(format!("to has {to}, which is not an IPv4 address with a port"));
        }
        if !(128..=65_000).contains(&self.packet_size.0) {
            return wrong(format!(
                "packet_size is {} bytes: it must be 128 to 65000",
                self.packet_size.0
            ));
        }
        if !self.slots.is_power_of_two() || !(64..=1 << 20).contains(&self.slots) {
            let slots = self.slots;
            return wrong(format!(
                "slots is {slots}: it must be a power of two from 64 to 1048576"
            ));
        }
        if !(1..=AgentName::STREAMS.len()).contains(&self.agent) {
            return wrong(format!(
                "agent is {}: it must be 1 to {}",
                self.agent,
                AgentName::STREAMS.len()
            ));
        }
        Ok(())
    }
}

/// `[[market_data.subscribers]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscriberConfig {
    /// Up to 6 characters, in any case; no participant has it.
    pub username: String,
    /// Up to 10 characters, in any case, or their argon2 hash, as `damrak password` prints it.
    pub password: String,
}

impl SubscriberConfig {
    /// # Errors
    /// Name or password does not fit its field of a login.
    pub fn credentials(&self) -> Result<Credentials, String> {
        Credentials::new(&self.username, &self.password)
            .map_err(|what| format!("market_data.subscribers: {:?}: {what}", self.username))
    }
}
