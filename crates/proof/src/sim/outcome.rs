//! The outcome of a run of the simulator: counts, or the property that did not hold.

use std::fmt;

use super::faults::Hits;

macro_rules! counts {
    ($($(#[doc = $doc:literal])* $name:ident,)+) => {
        /// Counts of a run, or of several.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[doc = $doc])* pub $name: u64,)+
        }

        impl Counts {
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }

            /// Names and numbers.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

counts! {
    inputs,
    orders,
    trades,
    ledger_entries,
    /// Replies that clients received.
    replies,
    /// Messages that the feed's reader received.
    feed_messages,
    /// Subscriptions to market data: a subscriber that cannot continue begins another.
    subscriptions,
    /// Snapshots that subscribers took.
    joins,
    /// Joins because of a new session.
    session_changes,
    /// Joins because messages were lost for good.
    lost_gaps,
    /// Messages that a delta stream dropped.
    stream_drops,
    /// Connections that clients made.
    connections,
    /// Times an operator logged out a session that speaks SoupBinTCP; its client connects again.
    log_outs,
    /// Times the venue was killed, or stopped because its disk failed.
    kills,
    /// Kills together with a power failure.
    power_cuts,
    /// Times the venue started from a snapshot.
    snapshot_starts,
}

/// A run without findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub seed: u64,
    pub counts: Counts,
    pub simulated_ns: u64,
    pub state_hash: u64,
    /// The faults that struck.
    pub hits: Hits,
}

/// A property that did not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    pub seed: u64,
    pub tick: u64,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, tick {}: {}", self.seed, self.tick, self.what)
    }
}

impl std::error::Error for Violation {}
