//! Faults that an operator switches on for a session, for clients that test their own systems against a venue.
//!
//! Invariant: nothing is wrong unless an operator wants it so, and a fault stays with its session. Of the faults only
//! the rejects are in the log, because they are commands: replies stay a function of the log, and a message left out
//! can be requested again.

use std::{collections::VecDeque, sync::Arc};

use market::{Command, RejectReason, Text};
use ring::AtomicGauge;

use crate::{gate::Verdict, refused};

/// The longest delay, in milliseconds.
pub const FAULT_DELAY_MS_MAX: u64 = 60_000;
/// The most moments kept of a delayed session; further replies wait for the last of them.
const MARKS_MAX: usize = 8_192;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// The sessions of a venue that faults can be switched on for: those with a connection.
///
/// Written by one thread, that of the operators; read by the gateways.
#[derive(Clone, Debug, Default)]
pub struct FaultTable(Vec<(Text<6>, Arc<SessionFaults>)>);

/// The faults of one session.
#[derive(Debug)]
pub struct SessionFaults {
    delay_ms: AtomicGauge,
    reject_percent: AtomicGauge,
    /// The number of cuts of its connection requested so far.
    disconnects: AtomicGauge,
    /// The number of left-out messages requested so far.
    gaps: AtomicGauge,
}

impl Default for SessionFaults {
    fn default() -> Self {
        let [delay_ms, reject_percent, disconnects, gaps] = [(); 4].map(|()| AtomicGauge::new(0));
        Self { delay_ms, reject_percent, disconnects, gaps }
    }
}

/// A change of the faults of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultChange {
    /// The delay of messages to the session, in milliseconds.
    pub delay_ms: Option<u64>,
    /// The number of rejects among 100 orders and replaces.
    pub reject_percent: Option<u64>,
    /// Its connection is cut, once.
    pub disconnect: bool,
    /// The next message to it is left out, once.
    pub gap: bool,
}

/// The faults switched on, and those injected so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultState {
    pub delay_ms: u64,
    pub reject_percent: u64,
    pub disconnects: u64,
    pub gaps: u64,
}

impl FaultTable {
    /// A table of these sessions, without faults.
    #[must_use]
    pub fn new(usernames: impl IntoIterator<Item = Text<6>>) -> Self {
        Self(usernames.into_iter().map(|name| (name, Arc::default())).collect())
    }

    /// The faults of a session, if it is one of these.
    #[must_use]
    pub fn of(&self, username: Text<6>) -> Option<Arc<SessionFaults>> {
        self.0.iter().find(|(name, _)| *name == username).map(|(_, faults)| Arc::clone(faults))
    }
}

impl SessionFaults {
    /// Changes the faults, and returns their new state.
    pub fn change(&self, change: &FaultChange) -> FaultState {
        if let Some(delay_ms) = change.delay_ms {
            self.delay_ms.set(delay_ms.min(FAULT_DELAY_MS_MAX));
        }
        if let Some(percent) = change.reject_percent {
            self.reject_percent.set(percent.min(100));
        }
        for (gauge, once) in [(&self.disconnects, change.disconnect), (&self.gaps, change.gap)] {
            gauge.set(gauge.get() + u64::from(once));
        }
        FaultState {
            delay_ms: self.delay_ms.get(),
            reject_percent: self.reject_percent.get(),
            disconnects: self.disconnects.get(),
            gaps: self.gaps.get(),
        }
    }
}

/// The gateway's side of one session.
#[derive(Debug, Default)]
pub(crate) struct Injector {
    faults: Arc<SessionFaults>,
    disconnects: u64,
    gaps: u64,
    /// Percents still to be rejected: at 100 the next order is rejected.
    debt: u64,
    /// The number of the next reply at earlier moments, oldest first.
    marks: VecDeque<(u64, u64)>,
    /// Replies below this number may be sent.
    released: u64,
}

impl Injector {
    pub(crate) fn new(faults: Arc<SessionFaults>) -> Self {
        Self { faults, ..Self::default() }
    }

    /// True if the connection is to be cut now.
    pub(crate) fn takes_disconnect(&mut self) -> bool {
        let wanted = self.faults.disconnects.get();
        std::mem::replace(&mut self.disconnects, wanted) != wanted
    }

    /// True if the next message is to be left out.
    pub(crate) fn takes_gap(&mut self) -> bool {
        let is_wanted = self.gaps < self.faults.gaps.get();
        self.gaps += u64::from(is_wanted);
        is_wanted
    }

    /// The verdict on a command, replaced by a reject where one is due. The rejects are spread evenly, so their number
    /// is certain.
    pub(crate) fn verdict(&mut self, verdict: Verdict, command: &Command) -> Verdict {
        let percent = self.faults.reject_percent.get();
        if percent == 0 || verdict != Verdict::Pass {
            return verdict;
        }
        let Some(refusal) = refused(command, RejectReason::OrderRateLimit) else { return verdict };
        self.debt += percent;
        if self.debt < 100 {
            return verdict;
        }
        self.debt -= 100;
        Verdict::Refuse(refusal)
    }

    /// Replies below this number may be sent now; `next` is the number of the next reply to come.
    pub(crate) fn released(&mut self, next: u64, now_ns: u64) -> u64 {
        let delay_ns = self.faults.delay_ms.get() * NANOS_PER_MILLI;
        if delay_ns == 0 {
            self.marks.clear();
            self.released = next;
            return next;
        }
        let seen = self.marks.back().map_or(self.released, |(number, _)| *number);
        if seen < next {
            let is_full = self.marks.len() >= MARKS_MAX;
            match self.marks.back_mut().filter(|(_, at_ns)| is_full || *at_ns == now_ns) {
                Some(last) => *last = (next, now_ns),
                None => self.marks.push_back((next, now_ns)),
            }
        }
        while let Some((number, _)) =
            self.marks.front().filter(|(_, at_ns)| at_ns + delay_ns <= now_ns)
        {
            self.released = *number;
            self.marks.pop_front();
        }
        self.released
    }

    /// True if replies wait for their time.
    pub(crate) fn holds(&self) -> bool {
        !self.marks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use market::{EnterOrder, OrderKey, Price, Quantity, Side, Symbol};

    use super::*;

    fn injector(change: FaultChange) -> Injector {
        let faults = Arc::new(SessionFaults::default());
        faults.change(&change);
        Injector::new(faults)
    }

    fn order() -> Command {
        let symbol = Symbol::new("AAPL").unwrap();
        Command::Enter(EnterOrder::limit(
            OrderKey::default(),
            Side::Buy,
            symbol,
            Quantity(1),
            Price(1),
        ))
    }

    /// Of 100 orders the wanted number is rejected, spread evenly; commands that are rejected already or are no orders
    /// are left alone.
    #[test]
    fn rejects_are_counted() {
        for percent in [0, 1, 30, 50, 100] {
            let change = FaultChange { reject_percent: Some(percent), ..FaultChange::default() };
            let mut injector = injector(change);
            let rejected = (0..1_000)
                .filter(|_| injector.verdict(Verdict::Pass, &order()) != Verdict::Pass)
                .count();
            assert_eq!(rejected as u64, 10 * percent);
            let other = injector.verdict(Verdict::Duplicate, &order());
            assert_eq!(other, Verdict::Duplicate);
        }
    }

    /// A reply is held back for the delay from the moment it was first seen, and no longer; without a delay all go.
    #[test]
    fn replies_are_held_back() {
        const MS: u64 = NANOS_PER_MILLI;
        let mut injector = injector(FaultChange::default());
        assert_eq!(injector.released(5, 0), 5);
        injector.faults.change(&FaultChange { delay_ms: Some(10), ..FaultChange::default() });
        assert_eq!(injector.released(5, 0), 5);
        assert!(!injector.holds());
        assert_eq!(injector.released(6, 0), 5);
        assert_eq!(injector.released(8, 4 * MS), 5);
        assert_eq!(injector.released(8, 10 * MS - 1), 5);
        assert_eq!(injector.released(8, 10 * MS), 6);
        assert!(injector.holds());
        assert_eq!(injector.released(8, 14 * MS), 8);
        assert!(!injector.holds());
        // Many moments need no more memory than their bound.
        for number in 9..100_000 {
            injector.released(number, 15 * MS);
        }
        assert_eq!(injector.marks.len(), 1, "all of one moment");
        assert_eq!(injector.released(100_000, 25 * MS), 99_999);
        for number in 100_000..120_000 {
            injector.released(number, 25 * MS + number);
        }
        assert!(injector.marks.len() <= MARKS_MAX, "{}", injector.marks.len());
        injector.faults.change(&FaultChange { delay_ms: Some(0), ..FaultChange::default() });
        assert_eq!(injector.released(120_000, 25 * MS), 120_000);
    }

    /// A fault that is injected once happens once, however often it is checked.
    #[test]
    fn cuts_and_gaps_happen_once() {
        let change = FaultChange { disconnect: true, gap: true, ..FaultChange::default() };
        let mut injector = injector(change);
        injector.faults.change(&FaultChange { gap: true, ..FaultChange::default() });
        assert!(injector.takes_disconnect() && !injector.takes_disconnect());
        assert!(injector.takes_gap() && injector.takes_gap() && !injector.takes_gap());
        let table = FaultTable::new([Text::new("A").unwrap()]);
        assert!(table.of(Text::new("A").unwrap()).is_some());
        assert!(table.of(Text::new("B").unwrap()).is_none());
    }
}
