//! Kinds of faults and attacks, their rates in a run, and the counts of those that struck.

use std::{collections::BTreeMap, str::FromStr};

use gateway::{FeedServerCount, OrderEntryCount, OrderEntryUdpCount};
use venue::stage::Perturbation;

use super::{large_quantities::LargeQuantities, probe::count_defences};
use crate::rng::Rng;

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal $rarity:literal,)+) => {
        /// A kind of accident, or of attack.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FaultKind {
            $($(#[doc = $doc])+ $name,)+
        }

        impl FaultKind {
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name on the command line and in figures.
                    pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The mean number of chances between two strikes, before each seed scales it.
            const fn rarity(self) -> u64 {
                match self { $(Self::$name => $rarity,)+ }
            }
        }
    };
}

faults! {
    /// A datagram does not arrive.
    Loss "loss" 20,
    /// A datagram arrives twice.
    Duplication "duplication" 40,
    /// A datagram arrives late and others overtake it, or some bytes of a stream arrive late.
    Delay "delay" 40,
    /// Nothing passes between the venue and a client for a while.
    Partition "partition" 1_200,
    /// Nothing passes in one of the two directions for a while.
    HalfPartition "half-partition" 1_200,
    /// A connection breaks for both ends.
    Cut "cut" 700,
    /// A connection breaks at a byte from the venue.
    CutInReply "cut-in-reply" 700,
    /// A connection ends at a byte from a client.
    CutInRequest "cut-in-request" 700,
    /// A client takes a few bytes at a time for a while.
    SlowClient "slow-client" 1_000,
    /// A client takes nothing for a while.
    StuckClient "stuck-client" 1_500,
    /// Random bytes come in.
    Noise "noise" 500,
    /// A stage of the venue misses a turn.
    SlowStage "slow-stage" 40,
    /// A stage of the venue has no turn for a while.
    StuckStage "stuck-stage" 1_500,
    /// Time jumps ahead by seconds.
    TimeJump "time-jump" 2_000,
    /// The clock is set back while the venue is down.
    ClockSetBack "clock-set-back" 3,
    /// The venue is killed between the turns of two of its stages.
    Kill "kill" 10_000,
    /// The venue is killed, and the power fails.
    PowerCut "power-cut" 3_000,
    /// A power cut after which the medium keeps any sectors of the unsynced data.
    ScatteredPowerCut "scattered-power-cut" 3_000,
    /// A power cut that the configured durability does not promise to survive.
    UnpromisedPowerCut "unpromised-power-cut" 5_000,
    /// The venue stops within a write that is partly done.
    TornWrite "torn-write" 2_500,
    /// The venue stops within any other operation on storage.
    StoppedOperation "stopped-operation" 2_500,
    /// A write fails.
    FailedWrite "failed-write" 4_000,
    /// A sync fails.
    FailedSync "failed-sync" 4_000,
    /// The disk is full for a while.
    FullDisk "full-disk" 4_000,
    /// A sync reports success without an effect.
    LyingSync "lying-sync" 1_500,
    /// A write reports success without an effect.
    LostWrite "lost-write" 4_000,
    /// A write reports success, but goes to another place.
    MisdirectedWrite "misdirected-write" 4_000,
    /// A write reports success, but changes a byte.
    CorruptedWrite "corrupted-write" 4_000,
    /// A datagram of market data, or a request for one, arrives without its end.
    Truncation "truncation" 40,

    /// Strangers connect and send nothing.
    SilentConnections "silent-connections" 300,
    /// Strangers connect and leave at once.
    ConnectionChurn "connection-churn" 300,
    /// A stranger sends random bytes.
    Garbage "garbage" 200,
    /// A packet claims a length above the limit, or the length 0.
    HugeLengths "huge-lengths" 300,
    /// A login and an order arrive byte by byte.
    ByteByByte "byte-by-byte" 400,
    /// Passwords of all participants are guessed.
    WrongPasswords "wrong-passwords" 300,
    /// A client ends its sending and keeps the connection.
    HalfClosed "half-closed" 400,
    /// A participant logs in while it is logged in.
    SecondLogin "second-login" 400,
    /// A participant connects again and requests all replies.
    RepliesAgain "replies-again" 500,
    /// A participant causes replies and reads none.
    NeverReads "never-reads" 1_000,
    /// Orders for another participant's firm.
    ForeignFirm "foreign-firm" 200,
    /// Unreadable messages.
    UnreadableMessages "unreadable-messages" 400,
    /// An order with a used number, again and again.
    DuplicateFlood "duplicate-flood" 700,
    /// Cancels of orders that never existed.
    CancelsOfNothing "cancels-of-nothing" 1_500,
    /// Account queries.
    QueryFlood "query-flood" 1_000,
    /// Mass cancels of a symbol without own orders.
    MassCancelsOfNothing "mass-cancels-of-nothing" 1_000,
    /// More orders than the throttle passes.
    OrderFlood "order-flood" 1_500,
    /// Hidden pegs follow a best bid that is entered and canceled again and again.
    PegBomb "peg-bomb" 1_500,
    /// Minimum quantities that no search can find.
    MinimumWalk "minimum-walk" 1_500,
    /// Datagrams longer than the buffer.
    LongDatagrams "long-datagrams" 300,
    /// Datagrams from addresses of no participant.
    UnknownDatagrams "unknown-datagrams" 300,
    /// Cancels of orders that never existed, over UDP.
    DatagramFlood "datagram-flood" 1_500,
    /// Requests for replies and for the feed, from addresses anywhere.
    RequestFlood "request-flood" 700,
}

impl FaultKind {
    /// True for an attack; every other kind is an accident.
    pub const fn is_attack(self) -> bool {
        self as u64 >= Self::SilentConnections as u64
    }

    const fn group(self) -> &'static str {
        if self.is_attack() { ATTACKS } else { FAULTS }
    }
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = Self::ALL.iter().find(|kind| kind.as_str() == text);
        kind.copied().ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
            format!("there is no fault {text:?}; there are {}", known.join(", "))
        })
    }
}

/// A set of kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultSet(u64);

const _: () = assert!(FaultKind::ALL.len() <= 64);

impl FaultSet {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self((1 << FaultKind::ALL.len()) - 1);
    /// All accidents, and no attack.
    pub const ACCIDENTS: Self = Self((1 << FaultKind::SilentConnections as u64) - 1);
    /// All attacks, and no accident.
    pub const ATTACKS: Self = Self(Self::ALL.0 & !Self::ACCIDENTS.0);

    pub const fn with(self, kind: FaultKind) -> Self {
        Self(self.0 | 1 << kind as u64)
    }

    pub const fn without(self, kind: FaultKind) -> Self {
        Self(self.0 & !(1 << kind as u64))
    }

    pub const fn has(self, kind: FaultKind) -> bool {
        self.0 & 1 << kind as u64 != 0
    }

    /// The kinds in both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn iter(self) -> impl Iterator<Item = FaultKind> {
        FaultKind::ALL.iter().copied().filter(move |kind| self.has(*kind))
    }
}

impl FromIterator<FaultKind> for FaultSet {
    fn from_iter<I: IntoIterator<Item = FaultKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}

/// The result of starting the venue on a damaged disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judged {
    /// The disk was refused, with file and offset.
    Refused,
    /// A whole beginning of the journal was recovered: docs/journal.md allows the loss of the last batch,
    /// if the watermark does not cover it.
    Shortened,
    /// The damage hit no needed data, for example one of two copies.
    Unharmed,
}

impl Judged {
    pub const ALL: [Self; 3] = [Self::Refused, Self::Shortened, Self::Unharmed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Shortened => "shortened",
            Self::Unharmed => "unharmed",
        }
    }
}

/// Kinds of accidents, as [`Hits`] groups them.
pub const FAULTS: &str = "faults";
/// Kinds of attacks.
pub const ATTACKS: &str = "attacks";
/// Refusals of attacks, as the gateways counted them.
pub const DEFENCES: &str = "defences";
/// Replies to honest orders under attack, by the ticks until they came.
pub const REPLY_TICKS: &str = "reply_ticks";
/// Quantities above the 32 bits of OUCH and ITCH, by the kind of message or event.
pub const LARGE_QUANTITIES: &str = "large_quantities";
/// Stages that made an unusual choice.
pub const PERTURBATIONS: &str = "perturbations";
/// Kills, by the stage that had had the last turn.
pub const KILLED_AFTER: &str = "killed_after";
/// Starts on a damaged disk, by result.
pub const DAMAGED_STARTS: &str = "damaged_starts";

/// Counts by group and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits(pub BTreeMap<&'static str, BTreeMap<String, u64>>);

impl Hits {
    /// All names, with a count of 0.
    pub fn none() -> Self {
        let mut hits = Self::default();
        FaultKind::ALL.iter().for_each(|it| hits.count(it.group(), it.as_str(), 0));
        Perturbation::ALL.iter().for_each(|it| hits.count(PERTURBATIONS, it.as_str(), 0));
        Judged::ALL.iter().for_each(|it| hits.count(DAMAGED_STARTS, it.as_str(), 0));
        count_defences(
            &mut hits,
            &OrderEntryCount::default(),
            &OrderEntryUdpCount::default(),
            &FeedServerCount::default(),
        );
        LargeQuantities::default().count(&mut hits);
        hits.0.entry(KILLED_AFTER).or_default();
        hits
    }

    pub fn count(&mut self, group: &'static str, name: &str, times: u64) {
        *self.0.entry(group).or_default().entry(name.to_owned()).or_default() += times;
    }

    pub fn add(&mut self, other: &Self) {
        for (group, counts) in &other.0 {
            self.0.entry(group).or_default();
            counts.iter().for_each(|(name, times)| self.count(group, name, *times));
        }
    }

    /// The names whose count is 0.
    pub fn missing(&self) -> Vec<&str> {
        let counts = self.0.values().flatten();
        counts.filter(|(_, count)| **count == 0).map(|(name, _)| name.as_str()).collect()
    }
}

/// The faults of a run, and when they strike. Each kind has random numbers of its own, so that leaving
/// one out moves no other.
#[derive(Debug)]
pub struct Faults {
    /// False while everything settles.
    pub on: bool,
    kinds: Vec<Kind>,
    pub hits: Hits,
}

#[derive(Debug)]
struct Kind {
    rng: Rng,
    /// The mean number of chances between two strikes; 0 for never.
    rarity: u64,
}

impl Faults {
    /// The faults of a seed. Each run leaves some kinds out, because constant faults hide the effects of
    /// faults after a long quiet time.
    pub fn new(seed: u64, set: FaultSet) -> Self {
        let kinds = FaultKind::ALL.iter().map(|kind| {
            let mut rng = Rng::new(seed ^ (*kind as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let is_in = rng.below(4) > 0;
            let rarity = (kind.rarity() * rng.range(2, 12) / 4).max(2);
            Kind { rng, rarity: if is_in && set.has(*kind) { rarity } else { 0 } }
        });
        Self { on: set != FaultSet::NONE, kinds: kinds.collect(), hits: Hits::none() }
    }

    /// True if the kind strikes now; the strike is counted.
    pub fn strikes(&mut self, kind: FaultKind) -> bool {
        let strikes = self.wants(kind);
        if strikes {
            self.count(kind);
        }
        strikes
    }

    /// True if the kind should strike now, for a fault that turns out only later to have struck.
    pub fn wants(&mut self, kind: FaultKind) -> bool {
        let Kind { rng, rarity } = &mut self.kinds[kind as usize];
        *rarity > 0 && rng.below(*rarity) == 0 && self.on
    }

    pub fn count(&mut self, kind: FaultKind) {
        self.hits.count(kind.group(), kind.as_str(), 1);
    }

    /// Any number below `bound`, for a fault that strikes.
    pub fn below(&mut self, kind: FaultKind, bound: u64) -> u64 {
        self.kinds[kind as usize].rng.below(bound)
    }
}
