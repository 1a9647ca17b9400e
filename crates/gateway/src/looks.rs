//! The times at which a socket is looked at. A look is a system call, and most find nothing.
//!
//! Invariant: a socket on which bytes arrived a moment ago is looked at in every turn; any other one at least once in
//! its interval, or in [`BUSY_INTERVAL_NS`] in turns in which other agents of the thread have work under way; and every
//! socket in every turn where time stands still between two turns.

use crate::ConnectionId;

/// How long a socket is looked at in every turn after bytes arrived.
pub(crate) const HOT_NS: u64 = 200_000;
/// The interval between looks at a quiet socket of order entry: the delay that a venue busy elsewhere adds to an order.
pub(crate) const ENTRY_INTERVAL_NS: u64 = 4_000;
/// The interval between looks at a quiet socket while other agents of the thread have work under way: each look delays
/// that work.
pub(crate) const BUSY_INTERVAL_NS: u64 = 50_000;

/// The looks at one socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    interval_ns: u64,
    looked_ns: u64,
    /// The time of the last call of [`is_due`](Self::is_due).
    asked_ns: u64,
    /// The time of the last bytes; `None` before the first.
    heard_ns: Option<u64>,
    /// True if other agents of the thread did work in this turn.
    is_busy: bool,
}

impl Looks {
    pub(crate) const fn new(interval_ns: u64) -> Self {
        Self { interval_ns, looked_ns: 0, asked_ns: 0, heard_ns: None, is_busy: false }
    }

    /// As [`Agent::note_busy`](ring::Agent::note_busy).
    pub(crate) fn note_busy(&mut self, is_busy: bool) {
        self.is_busy = is_busy;
    }

    /// True if other agents of the thread did work in this turn.
    pub(crate) const fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// True if a look is due, which then counts as done.
    pub(crate) fn is_due(&mut self, now_ns: u64) -> bool {
        let stands_still = now_ns == self.asked_ns;
        self.asked_ns = now_ns;
        let passed_ns = now_ns.saturating_sub(self.looked_ns);
        let interval_ns = match self.is_busy {
            true => self.interval_ns.max(BUSY_INTERVAL_NS),
            false => self.interval_ns,
        };
        let is_due = stands_still || interval_ns <= passed_ns || self.is_hot(now_ns);
        if is_due {
            self.looked_ns = now_ns;
        }
        is_due
    }

    /// Notes that bytes arrived.
    pub(crate) fn heard(&mut self, now_ns: u64) {
        self.heard_ns = Some(now_ns);
    }

    /// True if bytes arrived a moment ago.
    pub(crate) fn is_hot(&self, now_ns: u64) -> bool {
        self.heard_ns.is_some_and(|heard_ns| now_ns.saturating_sub(heard_ns) < HOT_NS)
    }
}

/// The connection that is read without a poll of the network first, because bytes keep arriving on it and on no other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HotConnection {
    last: Option<ConnectionId>,
    heard_ns: u64,
    /// The time at which bytes last arrived on a second connection shortly after the first.
    shared_ns: Option<u64>,
}

impl HotConnection {
    /// Notes that bytes arrived.
    pub(crate) fn heard(&mut self, connection: ConnectionId, now_ns: u64) {
        if self.last.is_some_and(|last| last != connection) && self.is_recent(self.heard_ns, now_ns)
        {
            self.shared_ns = Some(now_ns);
        }
        (self.last, self.heard_ns) = (Some(connection), now_ns);
    }

    /// The connection, while it is the only one.
    pub(crate) fn get(&self, now_ns: u64) -> Option<ConnectionId> {
        self.last.filter(|_| self.is_recent(self.heard_ns, now_ns) && !self.is_shared(now_ns))
    }

    /// True while bytes arrive on several connections.
    pub(crate) fn is_shared(&self, now_ns: u64) -> bool {
        self.shared_ns.is_some_and(|then_ns| self.is_recent(then_ns, now_ns))
    }

    fn is_recent(&self, then_ns: u64, now_ns: u64) -> bool {
        now_ns.saturating_sub(then_ns) < HOT_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quiet socket is looked at by its interval, a busy one always, and every one where time stands still.
    #[test]
    fn looks_are_due_by_time() {
        let mut looks = Looks::new(4_000);
        let due: Vec<u64> = (0..10_000).step_by(500).filter(|now| looks.is_due(*now)).collect();
        assert_eq!(due, [0, 4_000, 8_000]);
        looks.heard(9_900);
        assert!((10_000..10_000 + HOT_NS / 2).step_by(1_000).all(|now| looks.is_due(now)));
        let end_ns = 9_900 + HOT_NS;
        assert!(looks.is_due(end_ns) && looks.is_due(end_ns) && !looks.is_due(end_ns + 1));
        assert!(looks.is_due(end_ns + 1), "time stands still");
    }

    /// A quiet socket waits longer in turns with work of other agents; a busy one does not.
    #[test]
    fn looks_wait_for_work_of_others() {
        let mut looks = Looks::new(4_000);
        let due = |looks: &mut Looks, times: std::ops::Range<u64>| -> Vec<u64> {
            times.step_by(1_000).filter(|now| looks.is_due(*now)).collect()
        };
        looks.note_busy(true);
        assert_eq!(due(&mut looks, 1..BUSY_INTERVAL_NS), []);
        assert_eq!(due(&mut looks, BUSY_INTERVAL_NS..2 * BUSY_INTERVAL_NS), [BUSY_INTERVAL_NS]);
        looks.note_busy(false);
        assert!(looks.is_due(2 * BUSY_INTERVAL_NS));
        looks.heard(200_000);
        looks.note_busy(true);
        assert_eq!(due(&mut looks, 200_000..203_000), [200_000, 201_000, 202_000]);
    }

    /// A connection is hot while bytes come on it and on no other.
    #[test]
    fn one_connection_is_hot() {
        let [a, b] = [1, 2].map(|index| ConnectionId { index, generation: 0 });
        let mut hot = HotConnection::default();
        assert_eq!(hot.get(0), None);
        hot.heard(a, 1_000);
        assert_eq!((hot.get(1_000), hot.get(1_000 + HOT_NS)), (Some(a), None));
        hot.heard(b, 2_000);
        assert_eq!((hot.get(2_000), hot.is_shared(2_000)), (None, true));
        hot.heard(b, 2_000 + HOT_NS);
        assert_eq!(hot.get(2_000 + HOT_NS), Some(b));
    }
}
