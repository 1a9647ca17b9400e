//! Every setting of a venue in one struct, read from TOML and checked once.
//!
//! An unknown key is an error with its line, its column and the nearest known key. Without a file the
//! defaults apply: loopback only, three instruments, four participants.

mod admin;
mod derived_data;
mod explain;
mod fix_schedule;
mod journal;
mod ledger;
mod market_data;
mod money;
mod network;
mod order_entry;
mod participants;
mod trading;
mod units;

pub use self::{
    admin::{AdminConfig, OperatorConfig},
    derived_data::{DerivedDataConfig, MarketDataFixConfig, STREAM_LEVELS_MAX},
    fix_schedule::{FixScheduleConfig, Weekday},
    journal::{DurabilityConfig, JournalConfig, MethodName, OldSegments, SnapshotsConfig},
    ledger::{LedgerConfig, LedgerStoreName},
    market_data::{FeedLine, MarketDataConfig, Overflow, StreamConfig, SubscriberConfig},
    network::{NetworkConfig, TcpBackendName, UdpBackendName},
    order_entry::{
        OrderEntryConfig, OrderEntryFixConfig, OrderEntryOuch42Config, OrderEntrySluiceConfig,
        OrderEntryUdpConfig, ThrottleConfig,
    },
    participants::{
        DropCopyConfig, FirmNames, FixVersionName, ParticipantConfig, PreventionName, ProtocolName,
    },
};
pub(crate) use money::{ACCOUNT_SETTINGS, ASSET_SETTINGS};
pub use money::{
    AccountConfig, AssetConfig, FeesConfig, InstrumentMoneyConfig, MoneyClassName, MoneyPlan,
    money_plan,
};
pub use trading::{InstrumentConfig, ScheduleConfig, TradingConfig};
pub use units::{Bytes, Decimal, Rate, Span};
pub(crate) use units::{PRICE_DECIMALS, decimal};

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use gateway::{MarketDataFix, OrderEntryLimits, PasswordHash};
use serde::Deserialize;

use self::{explain::explain, order_entry::REPLY_STORE_DEFAULT};
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
    /// Order entry by FIX 4.2, 4.4 and 5.0 SP1. Default none: the venue speaks no FIX.
    pub order_entry_fix: Option<OrderEntryFixConfig>,
    /// Order entry by OUCH 4.2 over SoupBinTCP. Default none: the venue does not speak it.
    pub order_entry_ouch42: Option<OrderEntryOuch42Config>,
    /// Order entry by OUCH 5.0 in sessions over UDP, by Sluice. Default none: the venue does not speak it.
    pub order_entry_sluice: Option<OrderEntrySluiceConfig>,
    /// Order entry by OUCH 5.0 over UDP, without a login.
    pub order_entry_udp: OrderEntryUdpConfig,
    /// The sockets of all ports.
    pub network: NetworkConfig,
    /// The limits on the messages of a session.
    pub throttle: ThrottleConfig,
    /// Market data by ITCH 5.0 over MoldUDP64.
    pub market_data: MarketDataConfig,
    /// The store of the ledger: orders, trades and balances for other programs.
    pub ledger: LedgerConfig,
    /// The admin API: queries and operator commands by HTTP.
    pub admin: AdminConfig,
    /// Price levels, trades and statistics by HTTP at the address of the admin API. Default none: nothing is derived.
    pub derived_data: Option<DerivedDataConfig>,
    /// Price levels and trades by FIX, on a port of its own. Default none.
    pub market_data_fix: Option<MarketDataFixConfig>,
    /// The notices on standard error.
    pub log: LogConfig,
    /// The threads, and the agents on each.
    pub layout: LayoutConfig,
    /// The number of slots of each ring.
    pub rings: RingSlots,
    /// The traded instruments. An instrument that was ever in the journal stays.
    pub instruments: Vec<InstrumentConfig>,
    /// Assets. Default none: orders are not paid for.
    pub assets: Vec<AssetConfig>,
    /// Fees. Default as in the journal; none at first.
    pub fees: Vec<FeesConfig>,
    /// Accounts, the owners of money.
    pub accounts: Vec<AccountConfig>,
    /// The daily times at which phases change; at most 60 rows. Default none: always continuous trading.
    pub schedule: Vec<ScheduleConfig>,
    /// The participants that may enter orders, one row a session.
    pub participants: Vec<ParticipantConfig>,
}

/// `[layout]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayoutConfig {
    /// The assignment of agents to threads. `auto` (default): by cores and durability. `single`: one thread.
    /// `engine-alone`: the engine on a thread of its own. `core-alone`: sequencer and engine on a
    /// thread of their own. `entry-core`: all up to the journal on one thread, the engine and the
    /// readers of its events alone on another. `pipeline`: a thread for each agent. Or groups:
    /// `order-entry+order-entry-udp+market-data+feed-server | sequencer+engine@2:spin | journaler`, where `@2`
    /// pins a thread to a core and `:spin` says how it waits.
    pub threads: Layout,
    /// The behavior of an idle thread: `adaptive` (default), `spin`, `yield`, `backoff`.
    pub wait: Wait,
    /// Whether one input in 256 is followed through the agents, for the times of stages. Default true.
    pub stage_times: bool,
}

impl Default for LayoutConfig {
    fn default() -> Self {
        Self { threads: Layout::default(), wait: Wait::default(), stage_times: true }
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
            drop_copy: None,
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
            order_entry_ouch42: None,
            order_entry_sluice: None,
            order_entry_udp: OrderEntryUdpConfig::default(),
            network: NetworkConfig::default(),
            throttle: ThrottleConfig::default(),
            market_data: MarketDataConfig::default(),
            ledger: LedgerConfig::default(),
            admin: AdminConfig::default(),
            derived_data: None,
            market_data_fix: None,
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

    /// The address to which participants of a protocol connect.
    fn address_of(&self, protocol: ProtocolName) -> SocketAddr {
        let of_port = match protocol {
            ProtocolName::Ouch => None,
            ProtocolName::Ouch42 => self.order_entry_ouch42.as_ref().map(|it| it.address),
            ProtocolName::Sluice => self.order_entry_sluice.as_ref().map(|it| it.address),
            ProtocolName::Fix => self.order_entry_fix.as_ref().map(|it| it.address),
        };
        of_port.unwrap_or(self.order_entry.address)
    }

    /// True if there is a port for a protocol.
    fn has_port(&self, protocol: ProtocolName) -> bool {
        match protocol {
            ProtocolName::Ouch => true,
            ProtocolName::Ouch42 => self.order_entry_ouch42.is_some(),
            ProtocolName::Sluice => self.order_entry_sluice.is_some(),
            ProtocolName::Fix => self.order_entry_fix.is_some(),
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
        trading::check_schedule(&self.schedule, &self.instruments)?;
        self.order_entry.check(&self.participants)?;
        if let Some(fix) = &self.order_entry_fix {
            fix.check(&self.participants)?;
        }
        if let Some(ouch42) = &self.order_entry_ouch42 {
            ouch42.check(&self.participants)?;
        }
        if let Some(sluice) = &self.order_entry_sluice {
            sluice.check(&self.participants)?;
        }
        self.network.check()?;
        self.check_poller()?;
        self.throttle.check()?;
        self.market_data.check()?;
        for (index, stream) in self.market_data.streams.iter().enumerate() {
            stream.check()?;
            if self.market_data.streams[..index].iter().any(|other| other.name == stream.name) {
                return Err(format!(
                    "market_data.streams: stream {:?} is given twice",
                    stream.name
                ));
            }
        }
        if self.journal.segment.0 < 1 << 20 {
            return Err("journal.segment must be at least 1MiB".into());
        }
        let fix_store = self.order_entry_fix.as_ref().map(|fix| fix.reply_store);
        let ouch42_store = self.order_entry_ouch42.as_ref().map(|it| it.reply_store);
        let sluice_store = self.order_entry_sluice.as_ref().map(|it| it.reply_store);
        for (key, bytes) in [
            ("order_entry_sluice.reply_store", sluice_store.unwrap_or(REPLY_STORE_DEFAULT)),
            ("order_entry_ouch42.reply_store", ouch42_store.unwrap_or(REPLY_STORE_DEFAULT)),
            ("order_entry_fix.reply_store", fix_store.unwrap_or(REPLY_STORE_DEFAULT)),
            ("order_entry.reply_store", self.order_entry.reply_store),
            ("order_entry_udp.reply_store", self.order_entry_udp.reply_store),
            ("market_data.store", self.market_data.store),
            ("snapshots.replies", self.snapshots.replies),
        ] {
            if !(1 << 20..=2 << 30).contains(&bytes.0) {
                return Err(format!("{key} must be from 1MiB to 2GiB"));
            }
        }
        trading::check_instruments(&self.instruments)?;
        let mut usernames = participants::check(self)?;
        for subscriber in &self.market_data.subscribers {
            let username = subscriber.credentials()?.username();
            if !usernames.insert(username) {
                return Err(format!("subscriber {username} is given twice, or is a participant"));
            }
        }
        money::check(self)?;
        self.ledger.check(self.journal.durability)?;
        self.admin.check()?;
        if let Some(derived) = &self.derived_data {
            derived.check(self.admin.address.is_some())?;
        }
        if let Some(fix) = &self.market_data_fix {
            fix.check()?;
        }
        self.layout.threads.check(&agents(self)).map_err(|what| format!("layout.threads: {what}"))
    }

    /// True if messages to FIX sessions are kept on disk.
    pub fn has_reply_files(&self) -> bool {
        self.order_entry_fix.as_ref().is_some_and(|fix| fix.reply_files.0 > 0)
    }

    /// Checks that the polling kernel thread shares its core with no thread of the layout, as it leaves nothing of the
    /// core.
    fn check_poller(&self) -> Result<(), String> {
        let Layout::Groups(groups) = &self.layout.threads else { return Ok(()) };
        let core = self.network.sqpoll_core;
        match groups.iter().find(|group| core.is_some() && group.core == core) {
            Some(group) => Err(format!(
                "network.sqpoll_core is the core of `{group}` in layout.threads: the thread of the kernel takes a whole \
                 core, so give it another"
            )),
            None => Ok(()),
        }
    }

    /// The most connections of market data by FIX at a time.
    pub fn market_data_fix_connections(&self) -> usize {
        let users = self.participants.iter().filter(|it| it.password.is_some()).count()
            + self.market_data.subscribers.len();
        let most = MarketDataFix::<gateway::Tcp>::connections_max(users);
        self.market_data_fix.as_ref().map_or(0, |_| most)
    }

    /// A note for the user if the configuration has passwords in plain text, other than those of the examples.
    pub fn plain_passwords_note(&self) -> Option<String> {
        const NAMES_MAX: usize = 5;
        let participants = self.participants.iter();
        let participants =
            participants.filter_map(|it| Some((&it.username, it.password.as_ref()?)));
        let subscribers = self.market_data.subscribers.iter();
        let subscribers = subscribers.map(|it| (&it.username, &it.password));
        let plain: Vec<&str> = participants
            .chain(subscribers)
            .filter(|(name, password)| {
                !PasswordHash::is_meant(password) && !participants::is_example(name, password)
            })
            .map(|(name, _)| name.as_str())
            .collect();
        let first = plain.get(..NAMES_MAX).unwrap_or(&plain).join(", ");
        let more = match plain.len().saturating_sub(NAMES_MAX) {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        (!plain.is_empty()).then(|| {
            format!(
                "the passwords of {first}{more} are plain text in the configuration, and its readers can log in; `damrak \
                 password` makes argon2 hashes to replace them"
            )
        })
    }

    /// The memory of a password check, by the hash that needs the most, in bytes.
    pub(crate) fn password_check_bytes(&self) -> u64 {
        let participants = self.participants.iter().filter_map(|it| it.password.as_deref());
        let subscribers = self.market_data.subscribers.iter().map(|it| it.password.as_str());
        let hashes = participants.chain(subscribers).filter_map(|it| PasswordHash::read(it).ok());
        hashes.map(|hash| hash.memory_bytes()).max().unwrap_or(0)
    }

    /// The most connections of order entry over TCP at a time.
    pub fn connections(&self) -> usize {
        [ProtocolName::Ouch, ProtocolName::Fix, ProtocolName::Ouch42]
            .map(|protocol| self.connections_of(protocol))
            .into_iter()
            .sum()
    }

    /// The most sessions of Sluice and logins to it at a time; they share a socket.
    pub fn sluice_connections(&self) -> usize {
        self.connections_of(ProtocolName::Sluice)
    }

    /// The most connections of the port for a protocol at a time; 0 if there is none.
    pub fn connections_of(&self, protocol: ProtocolName) -> usize {
        let connections_max = match protocol {
            ProtocolName::Ouch => Some(self.order_entry.connections_max),
            ProtocolName::Fix => self.order_entry_fix.as_ref().map(|it| it.connections_max),
            ProtocolName::Ouch42 => self.order_entry_ouch42.as_ref().map(|it| it.connections_max),
            ProtocolName::Sluice => self.order_entry_sluice.as_ref().map(|it| it.connections_max),
        };
        let Some(connections_max) = connections_max else { return 0 };
        let speaks = |it: &&ParticipantConfig| it.password.is_some() && it.protocol == protocol;
        let users = self.participants.iter().filter(speaks).count();
        connections_max.min(users + OrderEntryLimits::default().strangers_max)
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

    /// A plain password is accepted, with a note unless it is one of the examples; a hash is accepted without. An
    /// unreadable hash is an error that names the participant or subscriber.
    #[test]
    fn passwords_are_hashes_or_noted() {
        const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$ODsLdKIDu5zi0rnHxY0qhw";
        let text = |password: &str, of_subscriber: &str| {
            format!(
                "[[participants]]\nusername = \"user01\"\npassword = \"password01\"\nfirm = \"F\"\n\
                 [[participants]]\nusername = \"bob\"\npassword = \"{password}\"\nfirm = \"F\"\n\
                 [[market_data.subscribers]]\nusername = \"sue\"\npassword = \"{of_subscriber}\"\n"
            )
        };
        let note = |password: &str, of_subscriber: &str| {
            let config = Config::parse(&text(password, of_subscriber), "venue.toml");
            config.unwrap().plain_passwords_note().unwrap_or_default()
        };
        assert_eq!(note(HASH, HASH), "");
        assert!(note("plain", "plain").starts_with("the passwords of bob, sue are plain text"));
        assert!(note(HASH, "plain").contains("passwords of sue are plain text"));
        assert_eq!(Config::default().plain_passwords_note(), None, "those of the examples");
        let cut = &HASH[..HASH.len() - 23];
        assert!(
            failure(&text(cut, HASH))
                .contains("venue.toml: participant BOB: the password looks like")
        );
        let of_subscriber = failure(&text(HASH, cut));
        assert!(
            of_subscriber.contains("market_data.subscribers: \"sue\": the password looks like")
        );
        let costly = HASH.replace("m=8", "m=300000");
        assert!(
            failure(&text(&costly, HASH))
                .contains("participant BOB: the argon2 hash takes m=300000")
        );
        let config = Config::parse(&text(HASH, "plain"), "venue.toml").unwrap();
        assert_eq!(config.password_check_bytes(), 8 << 10);
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

    /// Values that would make a venue useless are refused, with the key, the value found and a remedy.
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
        let same = failure("[market_data]\ngroup_b = \"239.10.10.10:26477\"");
        assert!(same.contains("group_b is 239.10.10.10:26477: it must be"), "{same}");
        let alone = failure("[market_data]\ninterface_b = \"10.0.0.1\"");
        assert!(alone.contains("interface_b needs market_data.group_b"), "{alone}");
        let row = |symbol| {
            format!("[[schedule]]\nat = \"08:00:00\"\nphase = \"closed\"\nsymbol = {symbol:?}")
        };
        let unknown = failure(&row("TSLA"));
        assert!(unknown.contains("\"TSLA\", which no [[instruments]] has"), "{unknown}");
        assert!(Config::parse(&row("AAPL"), "venue.toml").is_ok());
    }

    /// Derived data needs an address, and bounds that make sense.
    #[test]
    fn derived_data_is_checked() {
        let with = |lines: &str| {
            failure(&format!("[admin]\naddress = \"127.0.0.1:0\"\n[derived_data]\n{lines}"))
        };
        assert!(failure("[derived_data]").contains("derived_data needs admin.address"));
        let message = with("depth_max = 0");
        assert!(
            message.contains("derived_data.depth_max is 0: it must be from 1 to 1000"),
            "{message}"
        );
        let message = with("interval = \"0s\"");
        assert!(message.contains("derived_data.interval is 0ns: it must be from 1ms"), "{message}");
        assert!(with("trades = 1").contains("from 16 to 1000000"));
        assert!(with("streams_max = 0").contains("streams_max is 0"));
        assert!(with("stream_max = 1").contains("did you mean `streams_max`?"));
    }

    /// Market data by FIX has bounds that fit its messages.
    #[test]
    fn market_data_by_fix_is_checked() {
        let with = |lines: &str| failure(&format!("[market_data_fix]\n{lines}"));
        assert!(with("depth_max = 101").contains("depth_max is 101: it must be from 1 to 100"));
        assert!(with("trades = 1").contains("market_data_fix.trades is 1"));
        assert!(with("comp_id = \"\"").contains("market_data_fix.comp_id is \"\""));
        assert!(with("login_timeout = \"1ms\"").contains("market_data_fix.login_timeout is 1ms"));
        assert!(with("interval = \"2min\"").contains("market_data_fix.interval is 120s"));
        let config = Config::parse("[market_data_fix]\n", "venue.toml").unwrap();
        let names: Vec<_> = agents(&config).iter().map(|it| it.as_str()).collect();
        assert!(names.ends_with(&["feed-server", "market-data-fix"]), "{names:?}");
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
