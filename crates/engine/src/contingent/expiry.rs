//! Expiries of GTT orders, by second and owner's name; and the time at which remaining work continues.
//!
//! When a second begins, its orders are the first ones here, and so wait to be canceled: each is visited
//! only at its turn, see [`pending_cancels`](mod@crate::intake::pending_cancels).
//!
//! Invariant: every live good-till-time order is here, except one whose cancel waits for an auction.

use market::{OrderKey, Timestamp};

use super::instructions::{ContingentId, Contingents};
use crate::book::paged_map::PagedMap;

pub(crate) const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Expiry times. Adding and removing cost a search among them.
#[derive(Debug)]
pub(crate) struct Expiries {
    /// By second since the epoch, then session, channel and number.
    by_moment: PagedMap<ContingentId, 64, (u32, OrderKey)>,
    /// The last second that began: its orders and earlier ones wait to be canceled.
    begun_s: u32,
    /// The earliest second that has not begun, in nanoseconds; [`u64::MAX`] is none.
    expires_ns: u64,
    /// The time at which remaining work continues, in nanoseconds; [`u64::MAX`] if there is none.
    resumes_ns: u64,
    /// The earlier of the two times above: one comparison for an input without either.
    due_ns: u64,
}

impl Default for Expiries {
    fn default() -> Self {
        let (by_moment, begun_s) = (PagedMap::default(), 0);
        Self { by_moment, begun_s, expires_ns: u64::MAX, resumes_ns: u64::MAX, due_ns: u64::MAX }
    }
}

impl Expiries {
    /// The earliest moment, in nanoseconds; [`u64::MAX`] is none.
    #[inline]
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// The time at which remaining work continues, in nanoseconds; [`u64::MAX`] if there is none.
    pub(crate) fn resumes_ns(&self) -> u64 {
        self.resumes_ns
    }

    /// The earliest second that has not begun, in nanoseconds; [`u64::MAX`] is none.
    pub(crate) fn expires_ns(&self) -> u64 {
        self.expires_ns
    }

    /// Lets the work that remains at this time continue in the next nanosecond; `None` if there is none.
    pub(crate) fn resume_at(&mut self, now: Option<Timestamp>) {
        self.resumes_ns = now.map_or(u64::MAX, |now| now.0 + 1);
        self.due_ns = self.expires_ns.min(self.resumes_ns);
    }

    /// The earliest second that has not begun, in nanoseconds; [`u64::MAX`] is none.
    fn earliest_ns(&self) -> u64 {
        let next_s = self.begun_s.checked_add(1);
        let next = next_s.and_then(|next| self.by_moment.at_or_after((next, OrderKey::default())));
        next.map_or(u64::MAX, |((second, _), _)| u64::from(second) * NANOS_PER_SECOND)
    }

    /// Finds the earliest expiry anew.
    fn settle(&mut self) {
        self.expires_ns = self.earliest_ns();
        self.due_ns = self.expires_ns.min(self.resumes_ns);
    }

    /// The first of the orders that wait to be canceled because their second began.
    pub(crate) fn first_begun(&self) -> Option<ContingentId> {
        let ((second, _), id) = self.by_moment.first()?;
        (second <= self.begun_s).then_some(id)
    }

    /// True if the second of an order began.
    pub(crate) fn has_begun(&self, expires_s: u32) -> bool {
        (1..=self.begun_s).contains(&expires_s)
    }

    /// Begins the seconds up to this time.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.begun_s = u32::try_from(now_ns / NANOS_PER_SECOND).unwrap_or(u32::MAX);
        self.settle();
    }

    /// Adds an order.
    pub(super) fn add(contingents: &mut Contingents, id: ContingentId) {
        let moment = contingents[id].moment();
        let expiries = &mut contingents.expiries;
        expiries.by_moment.insert(moment, id);
        if !expiries.has_begun(moment.0) {
            let expires_ns = u64::from(moment.0) * NANOS_PER_SECOND;
            expiries.expires_ns = expiries.expires_ns.min(expires_ns);
            expiries.due_ns = expiries.due_ns.min(expires_ns);
        }
    }

    /// Removes an order, if it is here.
    pub(crate) fn remove(contingents: &mut Contingents, id: ContingentId) {
        let moment = contingents[id].moment();
        let expiries = &mut contingents.expiries;
        if expiries.has(moment) {
            expiries.by_moment.remove(moment);
            if !expiries.has_begun(moment.0) {
                expiries.settle();
            }
        }
    }

    /// True if an order is here.
    pub(crate) fn has(&self, moment: (u32, OrderKey)) -> bool {
        self.by_moment.get(moment).is_some()
    }

    /// Number of orders.
    pub(crate) fn len(&self) -> usize {
        self.by_moment.len()
    }

    /// Checks that each order is here by its moment.
    pub(super) fn check(contingents: &Contingents) {
        let Self { by_moment, expires_ns, resumes_ns, due_ns, .. } = &contingents.expiries;
        by_moment.check();
        assert_eq!(*expires_ns, contingents.expiries.earliest_ns());
        assert_eq!(*due_ns, *expires_ns.min(resumes_ns));
        assert!(by_moment.iter().all(|(moment, id)| contingents[id].moment() == moment));
    }
}
