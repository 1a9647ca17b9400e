//! Every setting of a venue in one struct, read from TOML and checked once.
//!
//! An unknown key is an error with its line, its column and the nearest known key. Without a file the
//! defaults apply: loopback only, three instruments, four participants.

mod explain;
mod journal;
mod money;
mod trading;
mod units;

pub use self::journal::{
    DurabilityConfig, JournalConfig, MethodName, OldSegments, SnapshotsConfig,
};
pub(crate) use money::{ACCOUNT_SETTINGS, ASSET_SETTINGS};
pub use money::{
    AccountConfig, AssetConfig, FeesConfig, InstrumentMoneyConfig, MoneyClassName, MoneyPlan,
    money_plan,
};
pub use trading::{ScheduleConfig, TradingConfig};
pub use units::{Bytes, Decimal, Rate, Span};
pub(crate) use units::{PRICE_DECIMALS, decimal};

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use gateway::{Credentials, Network, OrderEntryLimits, RequestLimits, Throttle};
use market::{Firm, OperatorName, Price, Quantity, SelfMatchPrevention, Symbol, Text};
use serde::Deserialize;
use wire::fix::CompId;

use self::explain::explain;
use crate::{
    core::RingSlots,
    failure::Failure,
    layout::{Layout, Wait},
    notices::LogConfig,
    pipeline::agents,
};

/// The settings of a venue. Field docs are the reference of the configuration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The place and the durability of the journal.
    pub journal: JournalConfig,
    /// Snapshots of the state, so that a start need not replay the whole journal.
    pub snapshots: SnapshotsConfig,
    /// Order entry by OUCH 5.0 over SoupBinTCP.
    pub order_entry: OrderEntryConfig,
    /// Order entry by FIX 4.2 and 4.4. Default none: the venue speaks no FIX.
    pub order_entry_fix: Option<OrderEntryFixConfig>,
    /// Order entry by OUCH 5.0 over UDP.
    pub order_entry_udp: OrderEntryUdpConfig,
    /// How much a session may send.
    pub throttle: ThrottleConfig,
    /// Market data by ITCH 5.0 over MoldUDP64.
    pub market_data: MarketDataConfig,
    /// The store of the ledger: orders, trades and balances for other programs.
    pub ledger: LedgerConfig,
    /// The admin API: queries and operator commands by HTTP.
    pub admin: AdminConfig,
    /// The notices on standard error.
    pub log: LogConfig,
    /// The threads, and the agents on each.
    pub layout: LayoutConfig,
    /// How many slots the rings have.
    pub rings: RingSlots,
    /// What is traded. An instrument that was ever in the journal stays.
    pub instruments: Vec<InstrumentConfig>,
    /// Assets. Default none: orders are not paid for.
    pub assets: Vec<AssetConfig>,
    /// Fees. Default as in the journal; none at first.
    pub fees: Vec<FeesConfig>,
    /// Accounts, the owners of money.
    pub accounts: Vec<AccountConfig>,
    /// When phases change, every day; at most 60 rows. Default none: always continuous trading.
    pub schedule: Vec<ScheduleConfig>,
    /// Who may enter orders, one row a session.
    pub participants: Vec<ParticipantConfig>,
}

/// `[order_entry]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrderEntryConfig {
    /// Where it listens; port 0 takes a free one. Default `127.0.0.1:26400`.
    pub address: SocketAddr,
    /// Connections at a time. Each participant with a password has a place among them, and at least
    /// one is for logins; the oldest connection without a login makes room for a newer. Default 1024.
    pub connections_max: usize,
    /// A heartbeat is sent after this long without anything else. Default `1s`.
    pub heartbeat: Span,
    /// A connection that is silent for this long is closed. Default `15s`.
    pub receive_timeout: Span,
    /// A connection that has not logged in after this long is closed. Default `5s`.
    pub login_timeout: Span,
    /// A client that takes nothing for this long while there is something to send is
    /// disconnected; it can log in again and continue where it stopped. Default `10s`.
    pub slow_client_timeout: Span,
    /// Memory for the replies of all sessions; the oldest of the longest stream are dropped first. Default `1GiB`.
    pub reply_store: Bytes,
}

/// `[order_entry_fix]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrderEntryFixConfig {
    /// Where it listens; port 0 takes a free one. Default `127.0.0.1:26402`.
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
    /// resend fills their numbers. Default `1GiB`.
    pub reply_store: Bytes,
}

/// `[order_entry_udp]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrderEntryUdpConfig {
    /// Where it receives; port 0 takes a free one. Default `127.0.0.1:26401`.
    pub address: SocketAddr,
    /// Memory for the replies of all sessions; the oldest of the longest stream are dropped first. Default `1GiB`.
    pub reply_store: Bytes,
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
    /// above it the session is logged out and blocked. Each message with an effect gives one more. Default 100.
    pub no_effect_per_second: u64,
    /// Messages without effect at once, on top of the rate. Default 10000.
    pub no_effect_burst: u64,
    /// How long a session is blocked. Default `10s`.
    pub block: Span,
}

impl ThrottleConfig {
    /// As the gateways take it.
    pub const fn throttle(&self) -> Throttle {
        Throttle {
            messages_per_second: self.messages_per_second,
            messages_burst: self.messages_burst,
            no_effect_per_second: self.no_effect_per_second,
            no_effect_burst: self.no_effect_burst,
            block_ns: self.block.0.as_nanos() as u64,
        }
    }

    fn check(&self) -> Result<(), String> {
        for (key, rate, burst) in [
            ("messages", self.messages_per_second, self.messages_burst),
            ("no_effect", self.no_effect_per_second, self.no_effect_burst),
        ] {
            if rate > 0 && burst == 0 {
                return Err(format!(
                    "throttle.{key}_burst is 0, so that no message could pass: set it to 1 at least, \
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

/// `[market_data]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MarketDataConfig {
    /// Multicast group, or one unicast address, the feed is sent to; port 0 takes a free one.
    /// Default `239.10.10.10:26477`.
    pub group: SocketAddr,
    /// Interface a multicast feed leaves by. Default `127.0.0.1`.
    pub interface: Ipv4Addr,
    /// Where the feed goes instead if the interface carries no multicast; the venue says so at
    /// its start. Default `127.0.0.1` with the port of the group.
    pub unicast: Option<SocketAddr>,
    /// The re-request server of lost messages; port 0 takes a free one. Default `127.0.0.1:26478`.
    pub re_request: SocketAddr,
    /// Snapshots of the books, GLIMPSE over SoupBinTCP; port 0 takes a free one. Default
    /// `127.0.0.1:26479`.
    pub snapshot: SocketAddr,
    /// The feed over SoupBinTCP, from any message on; port 0 takes a free one. Default
    /// `127.0.0.1:26482`.
    pub tcp: SocketAddr,
    /// Who may log in to both, beside the participants with a password.
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

/// `[[market_data.subscribers]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscriberConfig {
    /// Up to 6 characters, in any case; no participant has it.
    pub username: String,
    /// Up to 10 characters, in any case.
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

impl MarketDataConfig {
    /// True if other machines reach a service that asks for a password.
    fn is_reachable(&self) -> bool {
        !self.snapshot.ip().is_loopback() || !self.tcp.ip().is_loopback()
    }

    /// Which requests for lost messages are answered.
    ///
    /// # Errors
    /// One of the networks is none.
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

/// `[ledger]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LedgerConfig {
    /// `none` (default), `embedded` (one file, nothing to install), `sqlite` (one file; only where
    /// damrak was built with it) or `postgres` (a server).
    pub store: LedgerStoreName,
    /// The file of an embedded store or of SQLite. Default `damrak-ledger.redb`.
    pub path: PathBuf,
    /// The server, `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    pub url: String,
    /// The longest that a row waits for others before all are committed. Default `100ms`.
    pub commit_interval: Span,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LedgerStoreName {
    #[default]
    None,
    Embedded,
    Sqlite,
    Postgres,
}

impl LedgerConfig {
    pub fn is_kept(&self) -> bool {
        self.store != LedgerStoreName::None
    }

    fn check(&self, durability: DurabilityConfig) -> Result<(), String> {
        if !self.is_kept() {
            return Ok(());
        }
        if durability == DurabilityConfig::None {
            return Err(
                "a ledger needs journal.durability written or synced: with none it could hold \
                        rows of inputs that the journal lost"
                    .into(),
            );
        }
        match self.store {
            LedgerStoreName::Sqlite if cfg!(not(feature = "sqlite")) => Err(not_built("sqlite")),
            #[cfg(feature = "postgres")]
            LedgerStoreName::Postgres => crate::ledger::postgres::Postgres::check_url(&self.url)
                .map_err(|what| format!("ledger.url: {what}")),
            #[cfg(not(feature = "postgres"))]
            LedgerStoreName::Postgres => Err(not_built("postgres")),
            _ => Ok(()),
        }
    }
}

fn not_built(feature: &str) -> String {
    format!(
        "ledger.store is {feature}, and this damrak was built without it; build it with \
         `cargo build --release --features {feature}`"
    )
}

/// `[admin]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// Where it listens for HTTP, `127.0.0.1:26480` for example; port 0 takes a free one. Default
    /// nowhere. Questions need no key: an address that others reach is an error unless `anybody` is
    /// true.
    pub address: Option<SocketAddr>,
    /// True: other machines may reach the address. Default false.
    pub anybody: bool,
    /// Operators with a key, who may give commands there. Default none; `damrak ctl` on this machine needs none.
    pub operators: Vec<OperatorConfig>,
}

/// `[[admin.operators]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorConfig {
    /// The name, as the journal keeps it: up to 16 characters.
    pub name: String,
    /// The SHA-256 of the operator's key, 64 hexadecimal digits: `printf %s KEY | sha256sum`.
    pub key_sha256: String,
}

impl OperatorConfig {
    /// The digest of the key, and the name.
    pub fn key(&self) -> Result<([u8; 32], OperatorName), String> {
        let Self { name, key_sha256 } = self;
        let operator =
            OperatorName::new(name).filter(|name| !name.is_blank()).ok_or_else(|| {
                format!("admin.operators: name {name:?} is not 1 to 16 printable ASCII characters")
            })?;
        let mut digest = [0; 32];
        let is_digest = key_sha256.len() == 64 && key_sha256.is_ascii();
        let read = is_digest
            && digest.iter_mut().enumerate().all(|(index, byte)| {
                match u8::from_str_radix(&key_sha256[2 * index..2 * index + 2], 16) {
                    Ok(value) => {
                        *byte = value;
                        true
                    }
                    Err(_) => false,
                }
            });
        match read {
            true => Ok((digest, operator)),
            false => Err(format!(
                "admin.operators: {name}: key_sha256 is not 64 hexadecimal digits; \
                 `printf %s KEY | sha256sum` prints them"
            )),
        }
    }
}

impl AdminConfig {
    fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        let mut digests = BTreeSet::new();
        for operator in &self.operators {
            let (digest, name) = operator.key()?;
            if !names.insert(name) {
                return Err(format!("admin.operators: {name} is given twice"));
            }
            if !digests.insert(digest) {
                return Err(format!("admin.operators: {name} has the key of another operator"));
            }
        }
        let Some(address) = self.address else { return Ok(()) };
        if !address.ip().is_loopback() && !self.anybody {
            return Err(format!(
                "admin.address is {address}: other machines reach it, and questions need no key; \
                 set admin.anybody to true to allow it"
            ));
        }
        Ok(())
    }
}

/// `[layout]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayoutConfig {
    /// Which agents share threads. `auto` (default): by cores and durability. `single`: one thread.
    /// `engine-alone`: the engine on a thread of its own. `core-alone`: sequencer and engine on a
    /// thread of their own. `entry-core`: all up to the journal on one thread, the engine and the
    /// readers of its events alone on another. `pipeline`: a thread for each agent. Or groups:
    /// `order-entry+order-entry-udp+market-data+feed-server | sequencer+engine@2:spin | journaler`, where `@2`
    /// pins a thread to a core and `:spin` says how it waits.
    pub threads: Layout,
    /// What an idle thread does: `adaptive` (default), `spin`, `yield`, `backoff`.
    pub wait: Wait,
}

/// `[[instruments]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstrumentConfig {
    /// Printed name, up to 8 characters.
    pub symbol: String,
    /// Limit prices must be a multiple of it, in currency with up to 4 decimals. Default `0.01`.
    #[serde(default = "InstrumentConfig::default_increment")]
    pub price_increment: Decimal,
    /// Round lot. Default 100.
    #[serde(default = "InstrumentConfig::default_lot")]
    pub round_lot: u32,
    /// How it is traded from the start.
    #[serde(default)]
    pub trading: TradingConfig,
    /// The payment terms of its orders.
    #[serde(default)]
    pub money: Option<InstrumentMoneyConfig>,
}

/// `[[participants]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParticipantConfig {
    /// Login name, up to 6 characters, upper or lower case alike.
    pub username: String,
    /// The protocol of a participant with a password: `ouch` (default, over SoupBinTCP) or `fix`.
    #[serde(default)]
    pub protocol: ProtocolName,
    /// Password for SoupBinTCP or FIX, up to 10 characters, upper or lower case alike. Required unless
    /// `udp` is given.
    #[serde(default)]
    pub password: Option<String>,
    /// The firms of its orders, each up to 4 characters, upper case: one, or a list. The first is meant
    /// by an order without a firm; an order of a firm that is not here is rejected.
    pub firm: FirmNames,
    /// If given, the session speaks OUCH over UDP from this address, and only so.
    #[serde(default)]
    pub udp: Option<SocketAddr>,
    /// If true, all live orders of the session are canceled when its connection ends. Default
    /// false; not with `udp`, which has no connections.
    #[serde(default)]
    pub cancel_on_disconnect: bool,
    /// Live orders at a time, more are rejected. Default 100000.
    #[serde(default = "ParticipantConfig::default_live_orders")]
    pub live_orders_max: u32,
    /// Self-match prevention of orders that do not request their own. Default none.
    #[serde(default)]
    pub self_match_prevention: PreventionName,
    /// The account of its orders, by name. Default as in the journal; none at first.
    #[serde(default)]
    pub account: Option<String>,
}

/// One firm, or a list of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "firm must be a name such as \"FIRM\", or a list of names")]
pub enum FirmNames {
    /// One.
    One(String),
    /// The default first.
    Many(Vec<String>),
}

/// What a participant with a password speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolName {
    /// OUCH 5.0 over SoupBinTCP.
    #[default]
    Ouch,
    /// FIX 4.2 or 4.4.
    Fix,
}

/// What happens instead of a trade of a participant with itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreventionName {
    /// Nothing: they trade.
    #[default]
    None,
    /// What is left of the incoming order is canceled.
    Newest,
    /// The resting order is canceled.
    Oldest,
    /// Both are canceled.
    Both,
    /// Both lose what they would have traded.
    Decrement,
}

impl PreventionName {
    pub const fn prevention(self) -> SelfMatchPrevention {
        match self {
            Self::None => SelfMatchPrevention::Off,
            Self::Newest => SelfMatchPrevention::CancelNewest,
            Self::Oldest => SelfMatchPrevention::CancelOldest,
            Self::Both => SelfMatchPrevention::CancelBoth,
            Self::Decrement => SelfMatchPrevention::DecrementBoth,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        let participant = |number: u16, udp: Option<u16>| ParticipantConfig {
            username: format!("user{number:02}"),
            protocol: ProtocolName::Ouch,
            password: udp.is_none().then(|| format!("password{number:02}")),
            firm: FirmNames::One("FIRM".into()),
            udp: udp.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            cancel_on_disconnect: false,
            live_orders_max: ParticipantConfig::default_live_orders(),
            self_match_prevention: PreventionName::None,
            account: None,
        };
        let instrument = |symbol: &str| InstrumentConfig {
            symbol: symbol.into(),
            price_increment: InstrumentConfig::default_increment(),
            round_lot: InstrumentConfig::default_lot(),
            trading: TradingConfig::default(),
            money: None,
        };
        Self {
            journal: JournalConfig::default(),
            snapshots: SnapshotsConfig::default(),
            order_entry: OrderEntryConfig::default(),
            order_entry_fix: None,
            order_entry_udp: OrderEntryUdpConfig::default(),
            throttle: ThrottleConfig::default(),
            market_data: MarketDataConfig::default(),
            ledger: LedgerConfig::default(),
            admin: AdminConfig::default(),
            log: LogConfig::default(),
            layout: LayoutConfig::default(),
            rings: RingSlots::default(),
            assets: Vec::new(),
            fees: Vec::new(),
            accounts: Vec::new(),
            schedule: Vec::new(),
            instruments: vec![instrument("AAPL"), instrument("MSFT"), instrument("NVDA")],
            participants: vec![
                participant(1, None),
                participant(2, None),
                participant(3, None),
                participant(4, Some(26_404)),
            ],
        }
    }
}

impl OrderEntryConfig {
    fn check(&self, participants: &[ParticipantConfig]) -> Result<(), String> {
        for (key, span) in [
            ("heartbeat", self.heartbeat),
            ("receive_timeout", self.receive_timeout),
            ("login_timeout", self.login_timeout),
            ("slow_client_timeout", self.slow_client_timeout),
        ] {
            if span.0 < TIMER_MIN {
                return Err(format!(
                    "order_entry.{key} is {:?}: it must be at least {TIMER_MIN:?}, since timers are \
                     looked at that often; leave it out for the default",
                    span.0
                ));
            }
        }
        if self.heartbeat.0 >= self.receive_timeout.0 {
            return Err(format!(
                "order_entry.heartbeat is {:?} and receive_timeout {:?}: a heartbeat must be shorter, \
                 or silent clients are closed before they can show that they live",
                self.heartbeat.0, self.receive_timeout.0
            ));
        }
        check_places("order_entry", self.connections_max, participants, ProtocolName::Ouch)
    }
}

impl OrderEntryFixConfig {
    fn check(&self, participants: &[ParticipantConfig]) -> Result<(), String> {
        self.comp_id()?;
        for (key, span) in [
            ("login_timeout", self.login_timeout),
            ("slow_client_timeout", self.slow_client_timeout),
        ] {
            if span.0 < TIMER_MIN {
                return Err(format!(
                    "order_entry_fix.{key} is {:?}: it must be at least {TIMER_MIN:?}, since timers \
                     are looked at that often; leave it out for the default",
                    span.0
                ));
            }
        }
        check_places("order_entry_fix", self.connections_max, participants, ProtocolName::Fix)
    }

    /// The CompID of the venue.
    ///
    /// # Errors
    /// It is blank, too long, or has a character that FIX does not carry.
    pub fn comp_id(&self) -> Result<CompId, String> {
        CompId::new(&self.comp_id).filter(|it| !it.is_blank()).ok_or_else(|| {
            format!(
                "order_entry_fix.comp_id is {:?}: it must be 1 to 16 printable ASCII characters",
                self.comp_id
            )
        })
    }
}

/// Each participant has a place among the connections of its port, and a login needs one more.
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

/// How often the gateway looks at its timers.
const TIMER_MIN: Duration = Duration::from_millis(10);

/// True for a participant of the default configuration or of the examples.
fn is_example(username: &str, password: &str) -> bool {
    let number = username.to_ascii_lowercase().strip_prefix("user").map(str::to_owned);
    number.is_some_and(|number| password.strip_prefix("password") == Some(&*number))
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self {
            store: LedgerStoreName::None,
            path: "damrak-ledger.redb".into(),
            url: String::new(),
            commit_interval: Span(Duration::from_millis(100)),
        }
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
            reply_store: Bytes(1 << 30),
        }
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
            reply_store: Bytes(1 << 30),
        }
    }
}

impl Default for OrderEntryUdpConfig {
    fn default() -> Self {
        Self { address: loopback(26_401), reply_store: Bytes(1 << 30) }
    }
}

impl Default for MarketDataConfig {
    fn default() -> Self {
        let requests = RequestLimits::default();
        Self {
            group: SocketAddr::from(([239, 10, 10, 10], 26_477)),
            interface: Ipv4Addr::LOCALHOST,
            unicast: None,
            re_request: loopback(26_478),
            snapshot: loopback(26_479),
            tcp: loopback(26_482),
            subscribers: Vec::new(),
            store: Bytes(64 << 20),
            re_request_from: requests.from.iter().map(Network::to_string).collect(),
            re_requests_per_second: requests.per_second,
            re_requests_total_per_second: requests.total_per_second,
        }
    }
}

impl InstrumentConfig {
    const fn default_increment() -> Decimal {
        Decimal(100)
    }

    const fn default_lot() -> u32 {
        100
    }
}

impl ParticipantConfig {
    const fn default_live_orders() -> u32 {
        100_000
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has an unknown key or an invalid value; the failure has
    /// the place.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("cannot read the configuration {}: {error}", path.display()))
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads and checks text; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Failure> {
        let config: Self = toml::from_str(text).map_err(|error| explain(&error, text, origin))?;
        config.check().map_err(|what| Failure::usage(format!("{origin}: {what}")))?;
        Ok(config)
    }

    /// Where participants of a protocol connect.
    fn address_of(&self, protocol: ProtocolName) -> SocketAddr {
        match (protocol, &self.order_entry_fix) {
            (ProtocolName::Fix, Some(fix)) => fix.address,
            _ => self.order_entry.address,
        }
    }

    fn check(&self) -> Result<(), String> {
        for (name, slots) in [
            ("submissions", self.rings.submissions),
            ("inputs", self.rings.inputs),
            ("outputs", self.rings.outputs),
        ] {
            if !slots.is_power_of_two() || !(64..=1 << 24).contains(&slots) {
                return Err(format!(
                    "rings.{name} is {slots}: it must be a power of two from 64 to 16777216"
                ));
            }
        }
        if self.schedule.len() > 60 {
            return Err("schedule has more than 60 rows".into());
        }
        for row in &self.schedule {
            row.command()?;
            if let Some(symbol) = &row.symbol
                && self.instruments.iter().all(|it| it.symbol.trim_end() != symbol.trim_end())
            {
                return Err(format!(
                    "schedule: at = {:?} names the symbol {symbol:?}, which no [[instruments]] has: \
                     correct it, add the instrument, or leave the symbol out for all instruments",
                    row.at
                ));
            }
        }
        self.order_entry.check(&self.participants)?;
        if let Some(fix) = &self.order_entry_fix {
            fix.check(&self.participants)?;
        }
        self.throttle.check()?;
        self.market_data.requests()?;
        if self.journal.segment.0 < 1 << 20 {
            return Err("journal.segment must be at least 1MiB".into());
        }
        let fix_store = self.order_entry_fix.as_ref().map(|fix| fix.reply_store);
        for (key, bytes) in [
            ("order_entry_fix.reply_store", fix_store.unwrap_or(Bytes(1 << 30))),
            ("order_entry.reply_store", self.order_entry.reply_store),
            ("order_entry_udp.reply_store", self.order_entry_udp.reply_store),
            ("market_data.store", self.market_data.store),
            ("snapshots.replies", self.snapshots.replies),
        ] {
            if !(1 << 20..=2 << 30).contains(&bytes.0) {
                return Err(format!("{key} must be from 1MiB to 2GiB"));
            }
        }
        let mut symbols = BTreeSet::new();
        for instrument in &self.instruments {
            let symbol = instrument.symbol()?;
            if !symbols.insert(symbol) {
                return Err(format!("instrument {symbol} is given twice"));
            }
            if instrument.price_increment.0 == 0 || instrument.round_lot == 0 {
                return Err(format!("instrument {symbol}: increment and lot must be above 0"));
            }
        }
        let mut usernames = BTreeSet::new();
        let mut addresses = BTreeSet::new();
        for participant in &self.participants {
            let username = participant.username()?;
            if !usernames.insert(username) {
                return Err(format!("participant {username} is given twice"));
            }
            participant.firms()?;
            match (&participant.password, participant.udp) {
                (Some(_), Some(_)) => {
                    return Err(format!(
                        "participant {username} has both password and udp: a session speaks one \
                         of SoupBinTCP and UDP"
                    ));
                }
                (None, None) => {
                    return Err(format!("participant {username} has neither password nor udp"));
                }
                (password, _)
                    if participant.protocol == ProtocolName::Fix && password.is_none() =>
                {
                    return Err(format!(
                        "participant {username} speaks FIX and has no password: give it one"
                    ));
                }
                (Some(_), None)
                    if participant.protocol == ProtocolName::Fix
                        && self.order_entry_fix.is_none() =>
                {
                    return Err(format!(
                        "participant {username} speaks FIX, and there is no [order_entry_fix]: add it, \
                         or leave out protocol"
                    ));
                }
                (Some(password), None)
                    if (!self.address_of(participant.protocol).ip().is_loopback()
                        || self.market_data.is_reachable())
                        && is_example(&participant.username, password) =>
                {
                    return Err(format!(
                        "participant {username} has the password of the examples, which is \
                         public, and other machines reach {}, market_data.snapshot {} or \
                         market_data.tcp {}: choose another password, or addresses of 127.0.0.1",
                        self.address_of(participant.protocol),
                        self.market_data.snapshot,
                        self.market_data.tcp
                    ));
                }
                (Some(password), None) => {
                    Text::<10>::new(password).filter(|text| !text.is_blank()).ok_or_else(|| {
                        format!("participant {username}: password is not 1 to 10 characters")
                    })?;
                }
                (None, Some(_)) if participant.cancel_on_disconnect => {
                    return Err(format!(
                        "participant {username}: cancel_on_disconnect is not for udp, which has \
                         no connections"
                    ));
                }
                (None, Some(address)) => {
                    if !addresses.insert(address) {
                        return Err(format!("udp address {address} is given twice"));
                    }
                }
            }
        }
        for subscriber in &self.market_data.subscribers {
            let username = subscriber.credentials()?.username();
            if !usernames.insert(username) {
                return Err(format!("subscriber {username} is given twice, or is a participant"));
            }
        }
        money::check(self)?;
        self.ledger.check(self.journal.durability)?;
        self.admin.check()?;
        self.layout.threads.check(&agents(self)).map_err(|what| format!("layout.threads: {what}"))
    }

    /// Where the feed goes if the interface carries no multicast.
    pub fn unicast_fallback(&self) -> SocketAddr {
        self.market_data.unicast.unwrap_or_else(|| {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.market_data.group.port())
        })
    }
}

impl Config {
    /// The most connections of order entry over TCP at a time.
    pub fn connections(&self) -> usize {
        let strangers = OrderEntryLimits::default().strangers_max;
        let of_port = |connections_max: usize, protocol| {
            let speaks = |it: &&ParticipantConfig| it.password.is_some() && it.protocol == protocol;
            let users = self.participants.iter().filter(speaks).count();
            connections_max.min(users + strangers)
        };
        let fix = self.order_entry_fix.as_ref();
        let fix = fix.map_or(0, |fix| of_port(fix.connections_max, ProtocolName::Fix));
        of_port(self.order_entry.connections_max, ProtocolName::Ouch) + fix
    }
}

impl InstrumentConfig {
    /// The symbol in its wire form.
    pub fn symbol(&self) -> Result<Symbol, String> {
        Symbol::new(&self.symbol).filter(|symbol| !symbol.is_blank()).ok_or_else(|| {
            format!("instrument symbol {:?} is not 1 to 8 printable ASCII characters", self.symbol)
        })
    }

    pub const fn price_increment(&self) -> Price {
        Price(self.price_increment.0)
    }

    pub fn round_lot(&self) -> Quantity {
        Quantity(u64::from(self.round_lot))
    }
}

impl ParticipantConfig {
    /// The login name in its wire form, upper case.
    pub fn username(&self) -> Result<Text<6>, String> {
        Text::new(&self.username.to_ascii_uppercase()).filter(|name| !name.is_blank()).ok_or_else(
            || format!("username {:?} is not 1 to 6 printable ASCII characters", self.username),
        )
    }

    /// Its default firm in its wire form.
    ///
    /// # Errors
    /// As [`firms`](Self::firms).
    pub fn firm(&self) -> Result<Firm, String> {
        Ok(self.firms()?[0])
    }

    /// Its firms in their wire form, at least one.
    ///
    /// # Errors
    /// There is none, or one is empty, too long or not upper case.
    pub fn firms(&self) -> Result<Vec<Firm>, String> {
        let names = match &self.firm {
            FirmNames::One(name) => std::slice::from_ref(name),
            FirmNames::Many(names) => names.as_slice(),
        };
        if names.is_empty() {
            return Err(format!("participant {} has no firm: name one", self.username));
        }
        let firm = |name: &String| {
            Firm::new(name)
                .filter(|firm| !firm.is_blank() && !name.bytes().any(|b| b.is_ascii_lowercase()))
                .ok_or_else(|| {
                    let username = &self.username;
                    format!(
                        "participant {username}: firm {name:?} is not 1 to 4 upper-case characters"
                    )
                })
        };
        names.iter().map(firm).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> String {
        Config::parse(text, "venue.toml").unwrap_err().to_string()
    }

    /// An empty file gives the defaults, and they are valid.
    #[test]
    fn empty_file_is_the_default() {
        let config = Config::parse("", "venue.toml").unwrap();
        assert_eq!(config.instruments.len(), 3);
        assert_eq!(config.order_entry.address.to_string(), "127.0.0.1:26400");
        assert_eq!(config.check(), Ok(()));
    }

    /// An unknown key is reported with line, column and the nearest known key.
    #[test]
    fn unknown_key_is_named_with_its_place_and_the_nearest() {
        let message = failure("[journal]\ndurability = \"written\"\nsegmnet = \"1MiB\"\n");
        assert!(message.contains("venue.toml:3:1: unknown field `segmnet`"), "{message}");
        assert!(message.contains("did you mean `segment`?"), "{message}");
    }

    /// An invalid value is reported with its key.
    #[test]
    fn wrong_values_are_named() {
        assert!(failure("[journal]\nsegment = \"12 apples\"").contains("venue.toml:2:11"));
        assert!(failure("[rings]\ninputs = 1000").contains("rings.inputs is 1000"));
        assert!(failure("[[instruments]]\nsymbol = \"TOO LONG A NAME\"").contains("1 to 8"));
        let twice = "[[participants]]\nusername=\"a\"\npassword=\"b\"\nfirm=\"F\"\n".repeat(2);
        assert!(failure(&twice).contains("given twice"));
        assert!(failure("layout.threads = \"sngle\"").contains("`sngle` is neither a layout"));
        assert!(failure("layout.threads = \"engine\"").contains("order-entry is in no group"));
    }

    /// Values that would make a venue useless are refused, with the key, what was found and a remedy.
    #[test]
    fn useless_values_are_refused() {
        let heartbeat = failure("[order_entry]\nheartbeat = \"0s\"");
        assert!(heartbeat.contains("order_entry.heartbeat is 0ns: it must be at least 10ms"));
        let none = failure("[order_entry]\nconnections_max = 0");
        assert!(none.contains("connections_max is 0") && none.contains("to 4 at least"), "{none}");
        assert!(failure("[order_entry]\nconnections_max = 3").contains("to 4 at least"));
        let burst = failure("[throttle]\nmessages_burst = 0");
        assert!(burst.contains("throttle.messages_burst is 0"), "{burst}");
        let participant =
            |firm| format!("[[participants]]\nusername = \"a\"\npassword = \"b\"\nfirm = {firm}");
        assert!(failure(&participant("[]")).contains("participant a has no firm"));
        assert!(failure(&participant("[\"A\", \"low\"]")).contains("firm \"low\" is not 1 to 4"));
        let two = Config::parse(&participant("[\"A\", \"B\"]"), "venue.toml").unwrap();
        assert_eq!(two.participants[0].firm().unwrap().as_str(), "A");
        assert_eq!(two.participants[0].firms().unwrap().len(), 2);
        let network = failure("[market_data]\nre_request_from = [\"10.0.0.0\"]");
        assert!(network.contains("re_request_from: \"10.0.0.0\" is not a network"), "{network}");
        let row = |symbol| {
            format!("[[schedule]]\nat = \"08:00:00\"\nphase = \"closed\"\nsymbol = {symbol:?}")
        };
        let unknown = failure(&row("TSLA"));
        assert!(unknown.contains("\"TSLA\", which no [[instruments]] has"), "{unknown}");
        assert!(Config::parse(&row("AAPL"), "venue.toml").is_ok());
    }

    /// A ledger needs a durable journal and a valid store.
    #[test]
    fn ledger_is_checked() {
        let message = failure("journal.durability = \"none\"\nledger.store = \"embedded\"");
        assert!(message.contains("a ledger needs journal.durability"), "{message}");
        let message = failure("[ledger]\nstore = \"postgres\"\nurl = \"http://x\"");
        if cfg!(feature = "postgres") {
            assert!(message.contains("ledger.url: it must be postgres://"), "{message}");
        } else {
            assert!(message.contains("--features postgres"), "{message}");
        }
        let message = failure("[ledger]\nstore = \"embedded\"\nqueue = 100");
        assert!(message.contains(":3:1: unknown field `queue`"), "{message}");
        assert!(message.contains("ledger.queue was removed"), "{message}");
    }
}
