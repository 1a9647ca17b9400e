//! Expiries of GTT orders: one list for each second.
//!
//! Invariant: every live good-till-time order is in the list of its second.

use super::instructions::{ContingentId, Contingents, List};
use crate::book::paged_map::PagedMap;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Expiry times. Adding and removing cost a search among them.
#[derive(Debug)]
pub(crate) struct Expiries {
    /// The first order of each second since the epoch.
    by_second: PagedMap<ContingentId, 64>,
    /// The earliest of them, in nanoseconds; [`u64::MAX`] is none.
    due_ns: u64,
}

impl Default for Expiries {
    fn default() -> Self {
        Self { by_second: PagedMap::default(), due_ns: u64::MAX }
    }
}

impl Expiries {
    /// The earliest moment, in nanoseconds; [`u64::MAX`] is none.
    #[inline]
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// The first order of those that expire first.
    pub(crate) fn first(&self) -> Option<ContingentId> {
        self.by_second.first().map(|(_, id)| id)
    }

    /// Adds an order to the list of its second.
    pub(super) fn add(contingents: &mut Contingents, id: ContingentId) {
        let second = contingents[id].instructions.expires_s;
        let head = contingents.expiries.by_second.get(second);
        let first = contingents.push(List::Expiry, head.unwrap_or(ContingentId::NONE), id);
        let Self { by_second, due_ns } = &mut contingents.expiries;
        match by_second.get_mut(second) {
            Some(head) => *head = first,
            None => by_second.insert(second, first),
        }
        *due_ns = (*due_ns).min(u64::from(second) * NANOS_PER_SECOND);
    }

    /// Removes an order from the list of its second.
    pub(super) fn remove(contingents: &mut Contingents, id: ContingentId) {
        let second = contingents[id].instructions.expires_s;
        let head = contingents.expiries.by_second.get(second).expect("it was added");
        let first = contingents.unlink(List::Expiry, head, id);
        let Self { by_second, due_ns } = &mut contingents.expiries;
        match first.some() {
            Some(_) => *by_second.get_mut(second).expect("it was found above") = first,
            None => {
                by_second.remove(second);
            }
        }
        *due_ns =
            by_second.first_key().map_or(u64::MAX, |second| u64::from(second) * NANOS_PER_SECOND);
    }

    /// Checks that the lists are consistent; returns how many orders are in them.
    pub(super) fn check(contingents: &Contingents) -> usize {
        let Self { by_second, due_ns } = &contingents.expiries;
        by_second.check();
        let first = by_second.first_key().map(|second| u64::from(second) * NANOS_PER_SECOND);
        assert_eq!(*due_ns, first.unwrap_or(u64::MAX));
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
