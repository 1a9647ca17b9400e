//! Expiries of GTT orders: one list for each second; and when work that is left over goes on.
//!
//! Invariant: every live good-till-time order that has not expired is in the list of its second.

use market::Timestamp;

use super::instructions::{ContingentId, Contingents, List};
use crate::book::paged_map::PagedMap;

pub(crate) const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Expiry times. Adding and removing cost a search among them.
#[derive(Debug)]
pub(crate) struct Expiries {
    /// The first order of each second since the epoch.
    by_second: PagedMap<ContingentId, 64>,
    /// The earliest of them, in nanoseconds; [`u64::MAX`] is none.
    expires_ns: u64,
    /// When work that is left over goes on; [`u64::MAX`] if none is.
    resumes_ns: u64,
    /// The earlier of the two: one comparison for an input without either.
    due_ns: u64,
}

impl Default for Expiries {
    fn default() -> Self {
        let by_second = PagedMap::default();
        Self { by_second, expires_ns: u64::MAX, resumes_ns: u64::MAX, due_ns: u64::MAX }
    }
}

impl Expiries {
    /// The earliest moment, in nanoseconds; [`u64::MAX`] is none.
    #[inline]
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// When work that is left over goes on; [`u64::MAX`] if none is.
    pub(crate) fn resumes_ns(&self) -> u64 {
        self.resumes_ns
    }

    /// What is left over at this time goes on in the next nanosecond; `None` if nothing is.
    pub(crate) fn resume_at(&mut self, now: Option<Timestamp>) {
        self.resumes_ns = now.map_or(u64::MAX, |now| now.0 + 1);
        self.due_ns = self.expires_ns.min(self.resumes_ns);
    }

    /// Finds the earliest expiry anew.
    fn settle(&mut self) {
        let second = self.by_second.first_key();
        self.expires_ns = second.map_or(u64::MAX, |it| u64::from(it) * NANOS_PER_SECOND);
        self.due_ns = self.expires_ns.min(self.resumes_ns);
    }

    /// The first order of those that expire first.
    pub(crate) fn first(&self) -> Option<ContingentId> {
        self.by_second.first().map(|(_, id)| id)
    }

    /// True if orders expire in this second.
    pub(super) fn has(&self, second: u32) -> bool {
        self.by_second.get(second).is_some()
    }

    /// Ends the list of those that expire first; its orders are in no list then.
    pub(crate) fn remove_first(&mut self) {
        let first = self.by_second.first_key().expect("orders expire");
        self.by_second.remove(first);
        self.settle();
    }

    /// Ends the lists up to this time, whose orders wait to be canceled.
    pub(crate) fn remove_until(&mut self, now: Timestamp) {
        while self.expires_ns <= now.0 {
            self.remove_first();
        }
    }

    /// Adds an order to the list of its second.
    pub(super) fn add(contingents: &mut Contingents, id: ContingentId) {
        let second = contingents[id].instructions.expires_s;
        let head = contingents.expiries.by_second.get(second);
        let first = contingents.push(List::Expiry, head.unwrap_or(ContingentId::NONE), id);
        let expiries = &mut contingents.expiries;
        match expiries.by_second.get_mut(second) {
            Some(head) => *head = first,
            None => expiries.by_second.insert(second, first),
        }
        expiries.settle();
    }

    /// Removes an order from the list of its second, if that has not ended.
    pub(super) fn remove(contingents: &mut Contingents, id: ContingentId) {
        let second = contingents[id].instructions.expires_s;
        let Some(head) = contingents.expiries.by_second.get(second) else { return };
        let first = contingents.unlink(List::Expiry, head, id);
        let expiries = &mut contingents.expiries;
        match first.some() {
            Some(_) => *expiries.by_second.get_mut(second).expect("it was found above") = first,
            None => {
                expiries.by_second.remove(second);
            }
        }
        expiries.settle();
    }

    /// Checks that the lists are consistent; returns how many orders are in them.
    pub(super) fn check(contingents: &Contingents) -> usize {
        let Self { by_second, expires_ns, resumes_ns, due_ns } = &contingents.expiries;
        by_second.check();
        let first = by_second.first_key().map(|second| u64::from(second) * NANOS_PER_SECOND);
        assert_eq!(*expires_ns, first.unwrap_or(u64::MAX));
        assert_eq!(*due_ns, *expires_ns.min(resumes_ns));
        let mut count = 0;
        for (second, head) in by_second.iter() {
            let mut next = head.some();
            while let Some(id) = next {
                assert_eq!(contingents[id].instructions.expires_s, second);
                count += 1;
                next = contingents.next(List::Expiry, id);
            }
        }
        count
    }
}
