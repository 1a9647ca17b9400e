//! A venue in this process, on free loopback ports: for experiments that look at its rings and its journal. Those that
//! start a process of its own use the same configuration.
//!
//! Invariant: it is the venue of `damrak serve`, started by the same function from the same configuration.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::LazyLock,
};

use engine::Engine;
use journal::Folder;
use market::{Price, Symbol};
use ring::RingReport;
use serde_json::Value;
use venue::{Running, clock::SystemClock, config::Config, failure::Failure, follower::Follower};
use wire::soupbintcp::LoginRequest;

use crate::{
    crash_trial::unusable,
    load::{LoadOptions, LoadSession, LoadSymbol},
};

/// 150.00, in ticks.
const MID: Price = Price(1_500_000);
/// 0.01, in ticks.
const PRICE_INCREMENT: Price = Price(100);
/// Load that runs until it is stopped.
const NO_END_NS: u64 = u64::MAX / 4;
/// Records that the journal's reader applies in one step.
const RECORDS_PER_STEP: usize = 10_000;

/// A venue that runs.
pub struct OwnVenue {
    running: Running,
    folder: PathBuf,
    users: usize,
    symbols: Vec<String>,
}

/// How a venue differs from one with default settings.
#[derive(Clone, Debug, Default)]
pub struct OwnVenueOptions {
    pub symbols: Vec<String>,
    /// Participants over SoupBinTCP.
    pub users: usize,
    /// Participants over UDP, by their addresses.
    pub locals: Vec<SocketAddr>,
    /// Lines of `[journal]` without its folder.
    pub journal: String,
    /// Lines of `[market_data]` without the addresses that every such venue has, and sections after it.
    pub market_data: String,
    /// Lines of `[order_entry]` without its address.
    pub order_entry: String,
    /// Lines of `[layout]`.
    pub layout: String,
}

impl OwnVenue {
    /// Starts it with its files in `folder`, which is made, is empty, or holds a venue of before.
    ///
    /// # Errors
    /// The folder cannot be made, the configuration is wrong, or the venue does not start.
    pub fn start(
        folder: &Path,
        options: &OwnVenueOptions,
        clock: SystemClock,
    ) -> Result<Self, Failure> {
        fs::create_dir_all(folder).map_err(|error| unusable(folder, &error))?;
        let journal = folder.join("journal");
        let config =
            Config::parse(&config_text(&journal, options)?, "the venue of the experiment")?;
        let running = venue::start(&config, clock)?;
        Ok(Self {
            running,
            folder: folder.to_owned(),
            users: options.users,
            symbols: options.symbols.clone(),
        })
    }

    /// # Errors
    /// The venue has none of this name.
    pub fn address(&self, name: &str) -> Result<SocketAddr, Failure> {
        let text = self.running.started()["addresses"][name].as_str();
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| Failure::runtime(format!("the venue has no address {name}")))
    }

    /// The report of its start.
    pub fn started(&self) -> &Value {
        self.running.started()
    }

    /// Every ring, since this was last asked.
    pub fn rings(&self) -> Vec<RingReport> {
        self.running.rings()
    }

    /// All its figures.
    pub fn figures(&mut self) -> Value {
        self.running.status()
    }

    /// Inputs so far: each is an accepted request.
    pub fn requests(&self) -> u64 {
        let rings = self.running.rings();
        let inputs = rings.iter().find(|ring| ring.name == "inputs");
        inputs.expect("every venue has this ring").published
    }

    /// Messages of the feed that were published so far.
    pub fn feed_messages(&self) -> u64 {
        self.running.feed_messages()
    }

    /// Load of all its participants on all its symbols at this rate, until it is stopped.
    ///
    /// # Errors
    /// The venue has no address for them.
    pub fn load(&self, rate_per_second: u64) -> Result<LoadOptions, Failure> {
        let server = self.address("order_entry")?;
        let session = |number| LoadSession::Tcp { server, login: login(number) };
        let symbol = |name: &String| LoadSymbol {
            symbol: Symbol::new(name).expect("the configuration took it"),
            mid: MID,
            price_increment: PRICE_INCREMENT,
        };
        Ok(LoadOptions::new(
            (1..=self.users).map(session).collect(),
            self.symbols.iter().map(symbol).collect(),
            rate_per_second,
            NO_END_NS,
        ))
    }

    /// Stops it, and replays its journal: the engine that its feed must agree with.
    ///
    /// # Errors
    /// An agent failed, or the journal is not sound.
    pub fn stop_and_replay(self) -> Result<Engine, Failure> {
        let Self { running, folder, .. } = self;
        running.stop()?;
        let journal = folder.join("journal");
        let (storage, mut snapshots) = (Folder::new(&journal), Folder::new(&journal));
        let mut follower = Follower::begin(&storage, &mut snapshots, u64::MAX, None)?;
        while follower.poll(RECORDS_PER_STEP, u64::MAX, &mut |_| {})? > 0 {}
        Ok(follower.into_engine())
    }

    /// Stops it, and removes its files.
    ///
    /// # Errors
    /// An agent failed, or the files cannot be removed.
    pub fn stop_and_remove(self) -> Result<(), Failure> {
        let Self { running, folder, .. } = self;
        running.stop()?;
        fs::remove_dir_all(&folder).map_err(|error| unusable(&folder, &error))
    }
}

/// The login of a participant, by its number from 1.
pub fn login(number: usize) -> LoginRequest {
    LoginRequest::new(&user(number), &password(number)).expect("names fit their fields")
}

fn user(number: usize) -> String {
    format!("user{number:02}")
}

fn password(number: usize) -> String {
    format!("pass{number:02}")
}

/// Distinct local addresses over UDP, with sockets that keep them until this is dropped. Those of participants are kept
/// until these bind them: a venue that starts meanwhile binds ports too, and gets none of these.
#[derive(Debug)]
pub(crate) struct ReservedAddresses {
    pub(crate) addresses: Vec<SocketAddr>,
    _sockets: Vec<UdpSocket>,
}

impl ReservedAddresses {
    /// # Errors
    /// The system has too few.
    pub(crate) fn udp(count: usize) -> Result<Self, Failure> {
        let reserve = || {
            let bind = |_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
            let sockets: Vec<_> = (0..count).map(bind).collect::<io::Result<_>>()?;
            let addresses = sockets.iter().map(UdpSocket::local_addr).collect::<io::Result<_>>()?;
            Ok(Self { addresses, _sockets: sockets })
        };
        reserve().map_err(|error| no_udp_port(&error))
    }
}

/// The address for an unread feed: a socket of this process. The system discards the datagrams that it has no room for;
/// to a port without a socket it answers each datagram with an ICMP error, which costs the sender half as much again.
///
/// # Errors
/// The system has no socket or no port left.
pub(crate) fn unread_address() -> Result<SocketAddr, Failure> {
    static UNREAD: LazyLock<io::Result<UdpSocket>> =
        LazyLock::new(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    let socket = UNREAD.as_ref().map_err(no_udp_port)?;
    socket.local_addr().map_err(|error| no_udp_port(&error))
}

fn no_udp_port(error: &io::Error) -> Failure {
    Failure::environment(format!("no free UDP port on {}: {error}", Ipv4Addr::LOCALHOST))
}

/// The configuration of a venue with its journal there. Without symbols it has the instruments that come with Damrak.
///
/// # Errors
/// As [`unread_address`].
pub(crate) fn config_text(folder: &Path, options: &OwnVenueOptions) -> Result<String, Failure> {
    let OwnVenueOptions { symbols, users, locals, journal, market_data, order_entry, layout } =
        options;
    let has_group = market_data.lines().any(|line| line.starts_with("group ="));
    let group = match has_group {
        true => String::new(),
        false => format!("group = \"{}\"\n", unread_address()?),
    };
    let mut text = format!(
        "[journal]\ndirectory = {folder:?}\n{journal}\n\
         [order_entry]\naddress = \"127.0.0.1:0\"\n{order_entry}\n\
         [order_entry_udp]\naddress = \"127.0.0.1:0\"\n\
         [throttle]\nmessages_per_second = 0\nno_effect_per_second = 0\n\
         [layout]\n{layout}\n\
         [market_data]\n{group}re_request = \"127.0.0.1:0\"\nsnapshot = \"127.0.0.1:0\"\n\
         tcp = \"127.0.0.1:0\"\n{market_data}\n"
    );
    for symbol in symbols {
        text += &format!("[[instruments]]\nsymbol = {symbol:?}\n");
    }
    for number in 1..=*users {
        text += &format!(
            "[[participants]]\nusername = {:?}\npassword = {:?}\nfirm = \"FIRM\"\n",
            user(number),
            password(number)
        );
    }
    for (number, local) in locals.iter().enumerate() {
        text += &format!(
            "[[participants]]\nusername = \"u{number}\"\nfirm = \"FIRM\"\nudp = \"{local}\"\n"
        );
    }
    Ok(text)
}
