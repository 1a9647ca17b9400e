//! Admission of new connections: the places of connections without a session, and the recent failed logins.
//!
//! Invariant: connections that have not logged in never keep a participant out. A new connection always gets a place,
//! and a right password is refused only where its own address and user name failed too often. Memory is bounded,
//! whatever addresses connect.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
};

use crate::{ConnectionId, network::origin};

/// Connections that have a place but no session: they have not logged in, or they are being closed.
#[derive(Debug)]
pub(crate) struct Strangers {
    max: usize,
    per_origin_max: usize,
    /// Oldest first.
    by_age: VecDeque<Stranger>,
    by_origin: BTreeMap<IpAddr, usize>,
}

#[derive(Clone, Copy, Debug)]
struct Stranger {
    id: ConnectionId,
    origin: IpAddr,
    /// True while its login is being checked.
    asks: bool,
}

impl Strangers {
    /// Allows at most `max` at a time, and `per_origin_max` from one origin; both are at least 1.
    pub(crate) fn new(max: usize, per_origin_max: usize) -> Self {
        assert!(max > 0 && per_origin_max > 0, "a participant is a stranger until it logs in");
        Self { max, per_origin_max, by_age: VecDeque::new(), by_origin: BTreeMap::new() }
    }

    /// Lowers the limit to `max`, but not below 1. Connections above the new limit stay.
    pub(crate) fn limit(&mut self, max: usize) {
        self.max = self.max.min(max).max(1);
    }

    /// Adds a connection, and returns the connection that must make room, if one must.
    ///
    /// That is the oldest of the same origin if this origin has its full share, else the oldest of the origin with the
    /// most. Connections whose login is being checked make room only where all others are being checked too.
    pub(crate) fn add(&mut self, id: ConnectionId, address: IpAddr) -> Option<ConnectionId> {
        let origin = origin(address);
        let most = self.by_origin.values().copied().max().unwrap_or(0);
        let oldest = |of: &dyn Fn(&Stranger) -> bool| {
            let idle = self.by_age.iter().find(|it| !it.asks && of(it));
            idle.or_else(|| self.by_age.iter().find(|it| of(it)))
        };
        let leaves = if self.count(origin) >= self.per_origin_max {
            oldest(&|it| it.origin == origin)
        } else if self.by_age.len() >= self.max {
            oldest(&|it| self.count(it.origin) == most)
        } else {
            None
        };
        let leaves = leaves.map(|it| it.id);
        if let Some(id) = leaves {
            self.remove(id);
        }
        self.by_age.push_back(Stranger { id, origin, asks: false });
        *self.by_origin.entry(origin).or_default() += 1;
        leaves
    }

    /// Removes a connection; does nothing if it is not among them.
    pub(crate) fn remove(&mut self, id: ConnectionId) {
        let place = self.by_age.iter().position(|it| it.id == id);
        let stranger = place.and_then(|place| self.by_age.remove(place));
        let Some(Stranger { origin, .. }) = stranger else { return };
        let count = self.by_origin.get_mut(&origin).expect("its origin was counted");
        *count -= 1;
        if *count == 0 {
            self.by_origin.remove(&origin);
        }
    }

    /// Records that the login of a connection is being checked, or that it is answered.
    pub(crate) fn set_asks(&mut self, id: ConnectionId, asks: bool) {
        if let Some(stranger) = self.by_age.iter_mut().find(|it| it.id == id) {
            stranger.asks = asks;
        }
    }

    fn count(&self, origin: IpAddr) -> usize {
        self.by_origin.get(&origin).copied().unwrap_or(0)
    }
}

/// The most pairs of origin and user remembered; beyond that, the pair whose last failure is oldest is forgotten.
pub const FAILED_LOGINS_MAX: usize = 4096;

/// The users with so many wrong passwords from an origin that their logins from there are rejected for a while.
#[derive(Debug)]
pub(crate) struct FailedLogins {
    limit: usize,
    window_ns: u64,
    pause_ns: u64,
    pairs: BTreeMap<(IpAddr, usize), Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// Times of the failures, oldest first; none was older than the window when the newest was added.
    failures_ns: VecDeque<u64>,
    last_ns: u64,
    paused_until_ns: u64,
}

impl FailedLogins {
    /// Pauses logins of a user from one origin for `pause_ns` after `limit` wrong passwords within `window_ns`.
    pub(crate) const fn new(limit: usize, window_ns: u64, pause_ns: u64) -> Self {
        Self { limit, window_ns, pause_ns, pairs: BTreeMap::new() }
    }

    /// Records a wrong password for this user from this address.
    pub(crate) fn record(&mut self, address: IpAddr, user: usize, now_ns: u64) {
        let pair = (origin(address), user);
        if self.pairs.len() >= FAILED_LOGINS_MAX && !self.pairs.contains_key(&pair) {
            let oldest = self.pairs.iter().min_by_key(|(_, record)| record.last_ns);
            if let Some(oldest) = oldest.map(|(pair, _)| *pair) {
                self.pairs.remove(&oldest);
            }
        }
        let record = self.pairs.entry(pair).or_default();
        record.last_ns = now_ns;
        record.failures_ns.push_back(now_ns);
        while record.failures_ns.front().is_some_and(|first| first + self.window_ns <= now_ns) {
            record.failures_ns.pop_front();
        }
        if record.failures_ns.len() >= self.limit {
            record.failures_ns.clear();
            record.paused_until_ns = now_ns + self.pause_ns;
        }
    }

    /// The number of pairs remembered now.
    pub(crate) fn kept(&self) -> usize {
        self.pairs.len()
    }

    /// True while logins of this user from this address are rejected.
    pub(crate) fn pauses(&self, address: IpAddr, user: usize, now_ns: u64) -> bool {
        let record = self.pairs.get(&(origin(address), user));
        record.is_some_and(|record| now_ns < record.paused_until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn id(index: u32) -> ConnectionId {
        ConnectionId { index, generation: 0 }
    }

    /// The oldest connection of the same origin makes room where this origin has its share; else the oldest of the
    /// origin with the most. An origin with fewer connections loses none.
    #[test]
    fn the_fullest_origin_makes_room() {
        let mut strangers = Strangers::new(5, 3);
        assert_eq!(strangers.add(id(9), ip("10.0.0.9")), None, "the oldest of all");
        for index in 0..3 {
            assert_eq!(strangers.add(id(index), ip("10.0.0.1")), None);
        }
        assert_eq!(strangers.add(id(3), ip("10.0.0.1")), Some(id(0)), "its share is 3");
        assert_eq!(strangers.add(id(4), ip("10.0.0.2")), None);
        assert_eq!(strangers.add(id(5), ip("10.0.0.3")), Some(id(1)), "10.0.0.1 has the most");
        assert_eq!(strangers.add(id(6), ip("10.0.0.4")), Some(id(2)));
        assert_eq!(strangers.add(id(7), ip("10.0.0.5")), Some(id(9)), "all have one");
        strangers.remove(id(5));
        assert_eq!(strangers.add(id(8), ip("10.0.0.4")), None);
        let held: usize = strangers.by_origin.values().sum();
        assert_eq!((held, strangers.by_age.len()), (5, 5));
    }

    /// A client waiting for its login check makes room only when all others are waiting for theirs too.
    #[test]
    fn who_is_being_checked_makes_room_last() {
        let mut strangers = Strangers::new(3, 2);
        for (index, from) in ["10.0.0.1", "10.0.0.2", "10.0.0.3"].into_iter().enumerate() {
            assert_eq!(strangers.add(id(index as u32), ip(from)), None);
        }
        strangers.set_asks(id(0), true);
        assert_eq!(strangers.add(id(3), ip("10.0.0.4")), Some(id(1)));
        strangers.set_asks(id(2), true);
        strangers.set_asks(id(3), true);
        assert_eq!(strangers.add(id(4), ip("10.0.0.5")), Some(id(0)), "all are being checked");
        strangers.set_asks(id(2), false);
        assert_eq!(strangers.add(id(5), ip("10.0.0.6")), Some(id(2)), "it was answered");
    }

    /// Five wrong passwords within a minute pause logins of that user from there for a minute. Four do not, and
    /// neither do five over a longer time.
    #[test]
    fn five_in_a_minute_pause_a_user_at_an_origin() {
        let mut failed = FailedLogins::new(5, 60 * SECOND, 60 * SECOND);
        let address = ip("10.0.0.1");
        for second in 0..4 {
            failed.record(address, 0, second * SECOND);
        }
        assert!(!failed.pauses(address, 0, 4 * SECOND));
        failed.record(address, 0, 61 * SECOND);
        assert!(!failed.pauses(address, 0, 61 * SECOND));
        // The failures of seconds 2, 3 and 61 still count.
        failed.record(address, 0, 61 * SECOND);
        assert!(!failed.pauses(address, 0, 61 * SECOND));
        failed.record(address, 0, 61 * SECOND);
        assert!(failed.pauses(address, 0, 61 * SECOND));
        assert!(!failed.pauses(address, 1, 61 * SECOND), "another user from there");
        assert!(!failed.pauses(ip("10.0.0.2"), 0, 61 * SECOND), "the user from elsewhere");
        assert!(!failed.pauses(address, 0, (61 + 60) * SECOND));
    }

    /// The memory of failures is bounded, and the most recent stay.
    #[test]
    fn memory_of_addresses_is_bounded() {
        let mut failed = FailedLogins::new(1, SECOND, 1000 * SECOND);
        for number in 0..10_000_u32 {
            failed.record(IpAddr::from(number.to_be_bytes()), 0, u64::from(number));
        }
        assert_eq!(failed.pairs.len(), FAILED_LOGINS_MAX);
        assert!(failed.pauses(IpAddr::from(9_999_u32.to_be_bytes()), 0, 10_000));
    }
}
