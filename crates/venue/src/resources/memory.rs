//! Memory of a venue: the most that each part may use by the configuration, against the limits of the process, its
//! control groups and the machine.
//!
//! Invariant: everything that grows while the venue runs has a part here, or is a constant with its reason.

use std::{cmp::Reverse, fmt::Write as _, path::Path};

use gateway::{
    CONNECTION_BYTES_MAX, DerivedTrade, DerivedUpdate, FIX_LEVELS_MAX, FeedMessage,
    INBOX_BYTES_MAX, PAST_REPLIES_BYTES_MAX, PriceLevel, SUBSCRIBERS_MAX, Submission,
    THREAD_BYTES_MAX,
};
use market::{Input, OutputLine};
use os::SystemFiles;
use wire::fix::Reports;

use super::{ResourceFinding, ResourceState};
use crate::{
    config::{Bytes, Config, ParticipantConfig, ProtocolName, TcpBackendName},
    operator, pipeline,
    sockets::connection_threads,
};

/// Program, threads, directories, and the allocator's reserve: an estimate.
const PROGRAM_BYTES: u64 = 96 << 20;

/// A stream of replies keeps its newest chunks, whatever the bound of its store.
const STREAM_BYTES_MIN: u64 = 160 << 10;

/// The most bytes in queues of a session over UDP: 512 KiB waiting, as much already taken, in a list that doubles.
const UDP_SESSION_BYTES: u64 = 2 << 20;

/// ClOrdIDs, trades and orders kept for a session by FIX, once in its gateway and once for snapshots.
const FIX_SESSION_BYTES: u64 = 2 * Reports::BYTES_MAX as u64;

/// Tokens kept for a session by OUCH 4.2, once in its gateway and once for snapshots.
const OUCH42_SESSION_BYTES: u64 = 8 << 20;

/// Older messages read from the journal: 16 MiB of the feed, 16 MiB for FIX, its two pages, and the rings.
const HISTORY_BYTES: u64 = (34 << 20) + PAST_REPLIES_BYTES_MAX as u64;

/// The place of a block of messages on disk, in bytes, while the list of places grows.
const REPLY_PLACE_BYTES: u64 = 48;
const REPLY_BLOCK_BYTES_MIN: u64 = 31 << 10;

/// A stream of derived data: its client's levels, a batch of events, and the system's buffers for it.
const STREAM_BYTES: u64 = 2 << 20;

/// A session of market data by FIX: its requests, and its levels of both sides.
const MARKET_DATA_FIX_BYTES: u64 =
    FIX_LEVELS_MAX as u64 * 2 * size_of::<PriceLevel>() as u64 + (64 << 10);

/// A price level with one order, in the feed server or where it is served.
const LEVEL_BYTES: u64 = 48;

/// The most of a live order: 378 bytes in the engine (docs/performance.md) and 64 in its indexes, both once more in the
/// engine of the follower, and 128 in the feed server's books.
const ORDER_BYTES: u64 = 2 * (378 + 64) + 128;

/// The fewest bytes of a feed message in the store. The index of each stream has 8 more for it, and doubles.
const MESSAGE_BYTES_MIN: u64 = 19 + 2 + 4;

/// The time at which a part takes its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// At the start.
    Start,
    /// Over time, in any venue that runs long enough.
    InTime,
    /// When every participant has the most live orders allowed.
    AtWorst,
}

#[derive(Clone, Debug)]
struct Part {
    name: &'static str,
    bytes: u64,
    when: When,
}

/// Memory that the system lets this process use, in bytes; `None` is no limit, or an unknown one.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryOffer {
    /// The rest of RLIMIT_AS.
    pub address_space: Option<u64>,
    /// The rest of the narrowest control group.
    pub control_group: Option<u64>,
    /// All memory of the machine.
    pub total: Option<u64>,
    /// Memory available on the machine now.
    pub available: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct MemoryNeeds {
    parts: Vec<Part>,
}

/// The most live orders that all participants may have.
pub(super) fn live_orders(config: &Config) -> u64 {
    config.participants.iter().map(|it| u64::from(it.live_orders_max)).sum()
}

impl MemoryNeeds {
    pub(super) fn of(config: &Config) -> Self {
        let users = |protocol| {
            let speaks = |it: &&ParticipantConfig| it.password.is_some() && it.protocol == protocol;
            config.participants.iter().filter(speaks).count() as u64
        };
        let udp = config.participants.iter().filter(|it| it.udp.is_some()).count() as u64;
        let store = |bytes: Bytes, streams: u64| bytes.0.max(streams * STREAM_BYTES_MIN);
        let mut parts = vec![
            Part { name: "the program", bytes: PROGRAM_BYTES, when: When::Start },
            Part { name: "rings", bytes: ring_bytes(config), when: When::Start },
        ];
        let mut in_time = |name, bytes| parts.push(Part { name, bytes, when: When::InTime });
        let entry = config.order_entry.reply_store;
        in_time("order_entry.reply_store", store(entry, users(ProtocolName::Ouch)));
        in_time("order_entry_udp.reply_store", store(config.order_entry_udp.reply_store, udp));
        if let Some(fix) = &config.order_entry_fix {
            let sessions = users(ProtocolName::Fix);
            in_time("order_entry_fix.reply_store", store(fix.reply_store, sessions));
            let places = fix.reply_files.0 / REPLY_BLOCK_BYTES_MIN * REPLY_PLACE_BYTES;
            in_time("order_entry_fix.reply_files", places);
            let rows = &config.participants;
            let copies = rows.iter().filter_map(|row| row.drop_copy.as_ref());
            let copies =
                copies.map(|copy| rows.iter().filter(|row| copy.copies(row)).count() as u64);
            in_time("sessions by FIX", (sessions + copies.sum::<u64>()) * FIX_SESSION_BYTES);
        }
        if let Some(ouch42) = &config.order_entry_ouch42 {
            let sessions = users(ProtocolName::Ouch42);
            in_time("order_entry_ouch42.reply_store", store(ouch42.reply_store, sessions));
            in_time("sessions by OUCH 4.2", sessions * OUCH42_SESSION_BYTES);
        }
        if let Some(sluice) = &config.order_entry_sluice {
            let sessions = users(ProtocolName::Sluice);
            in_time("order_entry_sluice.reply_store", store(sluice.reply_store, sessions));
        }
        let feed = config.market_data.store.0;
        in_time("market_data.store", feed);
        let indexed = feed / MESSAGE_BYTES_MIN * 2 * size_of::<u64>() as u64;
        in_time("market_data.streams", config.market_data.streams.len() as u64 * indexed);
        if pipeline::follows(config) {
            in_time("snapshots.replies", 2 * config.snapshots.replies.0);
        }
        if let Some(derived) = &config.derived_data {
            // Kept by both the feed server and the pages.
            in_time("derived_data.trades", (derived.trades * 2 * size_of::<DerivedTrade>()) as u64);
            in_time("derived_data.streams_max", derived.streams_max as u64 * STREAM_BYTES);
        }
        if let Some(fix) = &config.market_data_fix {
            in_time("market_data_fix.trades", (fix.trades * 2 * size_of::<DerivedTrade>()) as u64);
            let sessions = config.market_data_fix_connections() as u64;
            in_time("sessions of market data by FIX", sessions * MARKET_DATA_FIX_BYTES);
        }
        in_time("older messages", HISTORY_BYTES);
        in_time("a check of a password", config.password_check_bytes());
        in_time("connections", connection_bytes(config));
        if config.network.tcp == TcpBackendName::Threads {
            let of_port = |protocol| connection_threads(config, protocol);
            let threads =
                [ProtocolName::Ouch, ProtocolName::Fix, ProtocolName::Ouch42].map(of_port);
            let threads = threads.into_iter().sum::<usize>();
            in_time("network.tcp", (threads * THREAD_BYTES_MAX) as u64);
        }
        in_time("sessions over UDP", udp * UDP_SESSION_BYTES);
        let readers = derived_readers(config) as u64;
        let level_bytes = if readers > 0 { (1 + readers) * LEVEL_BYTES } else { 0 };
        let orders = live_orders(config) * (ORDER_BYTES + level_bytes);
        parts.push(Part { name: "live_orders_max", bytes: orders, when: When::AtWorst });
        Self { parts }
    }

    /// The bytes of all parts up to this stage.
    fn up_to(&self, last: &[When]) -> u64 {
        self.parts.iter().filter(|it| last.contains(&it.when)).map(|it| it.bytes).sum()
    }

    pub(super) fn judge(&self, offer: &MemoryOffer) -> ResourceFinding {
        let at_start = self.up_to(&[When::Start]);
        let in_time = self.up_to(&[When::Start, When::InTime]);
        let at_worst = self.up_to(&[When::Start, When::InTime, When::AtWorst]);
        let limits = [
            (offer.address_space, "of address space (ulimit -v)"),
            (offer.control_group, "in its control group (memory.max)"),
            (offer.total, "in all"),
        ];
        let limits = limits.into_iter().filter_map(|(bytes, of)| Some((bytes?, of)));
        let narrowest = limits.min_by_key(|(bytes, _)| *bytes);
        let available = offer.available.map(|bytes| (bytes, "available"));
        let (state, found) = match (narrowest, available) {
            (Some(limit), _) if limit.0 < in_time => (ResourceState::Short, Some(limit)),
            (_, Some(now)) if now.0 < at_start => (ResourceState::Short, Some(now)),
            (_, Some(now)) if now.0 < in_time => (ResourceState::Scarce, Some(now)),
            (Some(limit), _) if limit.0 < at_worst => (ResourceState::Scarce, Some(limit)),
            (None, None) => (ResourceState::Unknown, None),
            (limit, now) => (ResourceState::Enough, now.or(limit)),
        };
        let (needed, kinds) = match state {
            ResourceState::Short => (in_time, &[When::Start, When::InTime][..]),
            _ => (at_worst, &[When::Start, When::InTime, When::AtWorst][..]),
        };
        ResourceFinding {
            name: "memory",
            state,
            found: found.map_or("not shown by this system".into(), |(bytes, of)| {
                format!("{} {of}", Bytes(bytes))
            }),
            needed: format!("{}: {}", Bytes(needed), self.largest(kinds)),
            lost: "the system kills the venue if memory runs out".into(),
            remedy: "lower the largest of these, or give the venue more memory: `ulimit -v`, MemoryMax= in the \
                     systemd unit, the limit of the container, or a machine with more memory"
                .into(),
        }
    }

    /// The largest parts, as text.
    fn largest(&self, kinds: &[When]) -> String {
        const NAMED: usize = 4;
        let mut parts: Vec<_> = self.parts.iter().filter(|it| kinds.contains(&it.when)).collect();
        parts.sort_by_key(|it| Reverse(it.bytes));
        let rest: u64 = parts.iter().skip(NAMED).map(|it| it.bytes).sum();
        let mut text = String::new();
        for part in parts.iter().take(NAMED) {
            let _ = write!(text, "{} {}, ", Bytes(part.bytes), part.name);
        }
        let _ = write!(text, "{} others", Bytes(rest));
        text
    }
}

/// The slots of all rings; each begins a cache line.
fn ring_bytes(config: &Config) -> u64 {
    let slots = |count: usize, bytes: usize| (count * bytes.next_multiple_of(64)) as u64;
    let ports = [
        config.order_entry_fix.is_some(),
        config.order_entry_ouch42.is_some(),
        config.order_entry_sluice.is_some(),
    ];
    let ports = 2 + ports.into_iter().filter(|is_there| *is_there).count();
    let submissions = ports * config.rings.submissions + operator::SLOTS;
    let streams: usize = config.market_data.streams.iter().map(|stream| stream.slots).sum();
    let derived = derived_readers(config) * pipeline::DERIVED_SLOTS;
    slots(submissions, size_of::<Submission>())
        + slots(config.rings.inputs, size_of::<Input>())
        + slots(config.rings.outputs, size_of::<OutputLine>())
        + slots(pipeline::FEED_SLOTS + streams, size_of::<FeedMessage>())
        // Lossy readers have a copy of each slot.
        + slots(derived, 2 * size_of::<DerivedUpdate>())
}

/// The mirrors of derived data.
fn derived_readers(config: &Config) -> usize {
    usize::from(config.derived_data.is_some()) + usize::from(config.market_data_fix.is_some())
}

/// Buffers of participants and subscribers.
fn connection_bytes(config: &Config) -> u64 {
    let of_fix = config.market_data_fix_connections();
    let of_sluice = config.sluice_connections();
    let of_entry = config.connections() + of_sluice;
    let of_sessions = (of_entry + 2 * SUBSCRIBERS_MAX + of_fix) * CONNECTION_BYTES_MAX;
    (of_sessions + of_sluice * 2 * INBOX_BYTES_MAX) as u64
}

impl MemoryOffer {
    /// The memory that the system files report. This process has already reserved `reserved` bytes of address space.
    pub fn of(files: &SystemFiles, reserved: u64) -> Self {
        let kib = |path, key: &str| -> Option<u64> {
            let line = files.line(path, key)?;
            line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
        };
        let limit = files.limit("Max address space").filter(|limit| *limit != u64::MAX);
        let used = kib("proc/self/status", "VmSize:").map(|used| used.saturating_sub(reserved));
        Self {
            address_space: limit.zip(used).map(|(limit, used)| limit.saturating_sub(used)),
            control_group: control_groups(files).into_iter().min(),
            total: kib("proc/meminfo", "MemTotal:"),
            available: kib("proc/meminfo", "MemAvailable:"),
        }
    }
}

/// The files of each version of control groups: limit, use, and the line of the page cache, which the kernel frees on
/// demand.
const VERSIONS: [(&str, &str, &str, &str); 2] = [
    ("sys/fs/cgroup", "memory.max", "memory.current", "file "),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache "),
];

/// The memory left to this process by each of its control groups, from the innermost to the outermost, without those
/// that have no limit.
fn control_groups(files: &SystemFiles) -> Vec<u64> {
    let text = files.text("proc/self/cgroup").unwrap_or_default();
    let of_version = |line: &str| -> Option<(usize, String)> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let version = match controllers {
            "" => 0,
            names if names.split(',').any(|name| name == "memory") => 1,
            _ => return None,
        };
        Some((version, path.to_owned()))
    };
    let mut left = Vec::new();
    for (version, path) in text.lines().filter_map(of_version) {
        let (root, limit, used, cache) = VERSIONS[version];
        for place in Path::new(&path).ancestors() {
            let folder = format!("{root}{}", place.display());
            let folder = folder.trim_end_matches('/');
            let number = |name| files.number(&format!("{folder}/{name}"));
            // "max" is no number, and no machine has 4 EiB.
            let Some(limit) = number(limit).filter(|limit| *limit < 1 << 62) else { continue };
            let cache = files.line(&format!("{folder}/memory.stat"), cache);
            let cache = cache.and_then(|bytes| bytes.parse::<i64>().ok()).unwrap_or(0);
            let used = number(used).unwrap_or(0).saturating_sub(cache).max(0);
            left.push(u64::try_from(limit.saturating_sub(used)).unwrap_or(0));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn config(changes: &str) -> Config {
        Config::parse(changes, "venue.toml").unwrap()
    }

    /// Every key that costs memory is counted: raising it raises the need by as much.
    #[test]
    fn memory_is_counted_by_the_configuration() {
        let worst = |changes: &str| {
            let all = [When::Start, When::InTime, When::AtWorst];
            MemoryNeeds::of(&config(changes)).up_to(&all)
        };
        let default = worst("");
        for (changes, more) in [
            ("[order_entry]\nreply_store = \"1GiB\"", GIB - (64 << 20)),
            ("[order_entry_udp]\nreply_store = \"65MiB\"", 1 << 20),
            ("[market_data]\nstore = \"65MiB\"", 1 << 20),
            ("[snapshots]\nreplies = \"65MiB\"", 2 << 20),
            ("[snapshots]\ninputs = 0\ntime = \"0s\"", 0_u64.wrapping_sub(128 << 20)),
            ("[rings]\nsubmissions = 8192", 2 * 4096 * 128),
            // Places of three participants and 256 connections without a login, and some to spare.
            ("[network]\ntcp = \"threads\"", ((3 + 256 + 32) * THREAD_BYTES_MAX) as u64),
            // Its store, its ring, and the places of 256 connections without a login.
            (
                "[order_entry_fix]\nreply_files = \"0KiB\"",
                (64 << 20) + 4096 * 128 + 256 * CONNECTION_BYTES_MAX as u64,
            ),
            // And the places of 4 GiB of messages on disk.
            (
                "[order_entry_fix]",
                (64 << 20)
                    + 4096 * 128
                    + 256 * CONNECTION_BYTES_MAX as u64
                    + 4 * GIB / (31 << 10) * 48,
            ),
        ] {
            assert_eq!(worst(changes).wrapping_sub(default), more, "{changes}");
        }
        let participants = |count: usize| {
            let row = |n| {
                format!("[[participants]]\nusername = \"u{n}\"\npassword = \"p\"\nfirm = \"F\"\n")
            };
            worst(&(0..count).map(row).collect::<String>())
        };
        let each = CONNECTION_BYTES_MAX as u64 + 100_000 * ORDER_BYTES;
        assert_eq!(participants(7) - participants(5), 2 * each);
    }

    /// The memory that a venue certainly uses over time must be below every limit, and the memory of its start
    /// available. The memory that only the worst behavior of all participants uses is a warning.
    #[test]
    fn memory_is_compared_with_every_limit() {
        let large = "reply_store = \"512MiB\"\n";
        let needs =
            MemoryNeeds::of(&config(&format!("[order_entry]\n{large}[order_entry_udp]\n{large}")));
        let in_time = needs.up_to(&[When::Start, When::InTime]);
        assert!(in_time < 2 * GIB, "even this configuration starts with 2 GiB");
        let plenty = Some(100 * GIB);
        let good = MemoryOffer { total: plenty, available: plenty, ..MemoryOffer::default() };
        assert_eq!(needs.judge(&good).state, ResourceState::Enough);
        type OfferOf = fn(u64) -> MemoryOffer;
        let limits: [(&str, OfferOf); 3] = [
            ("ulimit -v", |bytes| MemoryOffer { address_space: Some(bytes), ..good_offer() }),
            ("memory.max", |bytes| MemoryOffer { control_group: Some(bytes), ..good_offer() }),
            ("in all", |bytes| MemoryOffer { total: Some(bytes), ..good_offer() }),
        ];
        for (name, with) in limits {
            let finding = needs.judge(&with(in_time - 1));
            assert_eq!(finding.state, ResourceState::Short, "{finding:?}");
            assert!(finding.found.contains(name), "{finding:?}");
            let largest = "512.0 MiB order_entry.reply_store, 512.0 MiB order_entry_udp";
            assert!(finding.needed.contains(largest), "{finding:?}");
            assert_eq!(needs.judge(&with(in_time)).state, ResourceState::Scarce);
        }
        let now = |bytes| needs.judge(&MemoryOffer { available: Some(bytes), ..good }).state;
        assert_eq!(now(needs.up_to(&[When::Start]) - 1), ResourceState::Short);
        assert_eq!(
            (now(in_time - 1), now(in_time)),
            (ResourceState::Scarce, ResourceState::Enough)
        );
    }

    fn good_offer() -> MemoryOffer {
        MemoryOffer { total: Some(100 * GIB), available: Some(100 * GIB), ..MemoryOffer::default() }
    }

    /// The limits are those of the process, of its control groups up to the outermost, in both versions of their
    /// files, and of the machine.
    #[test]
    fn limits_are_read_from_the_system() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let read = || MemoryOffer::of(&SystemFiles::under(root.path()), GIB);
        let nothing = read();
        assert_eq!(
            (nothing.address_space, nothing.control_group, nothing.total),
            (None, None, None)
        );

        write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n");
        write("proc/self/status", "VmSize:\t 2097152 kB\n");
        write("proc/self/limits", "Max address space  unlimited unlimited bytes\n");
        assert_eq!((read().address_space, read().total), (None, Some(8 * GIB)));
        assert_eq!(read().available, Some(4 * GIB));
        write("proc/self/limits", "Max address space  4294967296 unlimited bytes\n");
        // Of the 2 GiB in use, one is reserved for the counted memory.
        assert_eq!(read().address_space, Some(3 * GIB));

        write("proc/self/cgroup", "0::/outer/inner\n");
        write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
        assert_eq!(read().control_group, None);
        write("sys/fs/cgroup/outer/memory.max", "3221225472\n");
        write("sys/fs/cgroup/outer/memory.current", "2147483648\n");
        write("sys/fs/cgroup/outer/memory.stat", "anon 5\nfile 1073741824\n");
        assert_eq!(read().control_group, Some(2 * GIB));
        write("proc/self/cgroup", "5:cpu:/x\n4:memory:/gone\n0::/outer\n");
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
        write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1024\n");
        assert_eq!(read().control_group, Some(GIB - 1024));
    }
}
