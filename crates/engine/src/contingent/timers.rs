//! Timed effects: expiries and the ends of auctions. Each happens at the first input at or after its
//! moment, before that input acts: sequenced time decides, so a replay does the same.
//!
//! A module that waits for a moment keeps its own earliest one and says it in O(1). To add one:
//! name it in [`Engine::due_ns`], and give it a branch in [`Engine::pass_time`], which must leave
//! that moment later than it was, or gone. The engine stage tells the sequencer what
//! [`Engine::due`] says, and the sequencer lets time pass ([`Command::Time`](market::Command)) if
//! nothing else comes by then.

use alloc::vec::Vec;
use core::mem;

use market::{CancelReason, CommandKind, Event, TimeInForce, Timestamp};

use crate::{Engine, book::pool::Slot, contingent::instructions::List};

/// No moment.
const NEVER_NS: u64 = u64::MAX;

impl Engine {
    /// The next moment at which something happens even if nothing is asked; `None` if nothing
    /// waits for one.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let due_ns = self.due_ns();
        (due_ns != NEVER_NS).then_some(Timestamp(due_ns))
    }

    /// Does what is due by now, in the order of the moments at which it was, each time with all that
    /// follows from it.
    #[cold]
    pub(crate) fn pass_time(&mut self, emit: &mut dyn FnMut(Event)) {
        self.cause = CommandKind::Time;
        while self.is_due() {
            let due_ns = self.due_ns();
            if self.contingents.expiries.due_ns() == due_ns {
                self.expire_first(emit);
            } else {
                self.pass_auctions(due_ns, emit);
            }
            self.follow(emit);
        }
        assert!(self.timestamp.0 < self.due_ns(), "what was due has happened");
    }

    /// Has a moment come for which something waits?
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due_ns() <= self.timestamp.0
    }

    /// The earliest of the moments of all modules.
    #[inline]
    fn due_ns(&self) -> u64 {
        self.auctions_due_ns.min(self.contingents.expiries.due_ns())
    }

    /// The orders whose moment is the earliest expire, by order id.
    #[cold]
    fn expire_first(&mut self, emit: &mut dyn FnMut(Event)) {
        let mut found = mem::take(&mut self.found);
        let mut next = self.contingents.expiries.first();
        while let Some(id) = next {
            found.push(self.contingents[id].slot);
            next = self.contingents.next(List::Expiry, id);
        }
        self.cancel_by_age(found, CancelReason::Expired, emit);
    }

    /// The day is over: orders for it are canceled, by order id.
    pub(crate) fn end_day(&mut self, emit: &mut dyn FnMut(Event)) {
        use TimeInForce::{GoodTillCancel, GoodTillTime};
        let mut found = mem::take(&mut self.found);
        let live = self.sessions.iter().flat_map(|session| session.iter_live());
        let stays = |slot: Slot| {
            matches!(self.pool[slot].order.time_in_force, GoodTillCancel | GoodTillTime)
        };
        found.extend(live.map(|(_, slot)| slot).filter(|slot| !stays(*slot)));
        self.cancel_by_age(found, CancelReason::EndOfDay, emit);
    }

    /// Cancels orders that were found, by order id.
    fn cancel_by_age(
        &mut self,
        mut found: Vec<Slot>,
        reason: CancelReason,
        emit: &mut dyn FnMut(Event),
    ) {
        found.sort_unstable_by_key(|slot| self.pool[*slot].order.order_id);
        for slot in found.drain(..) {
            self.cancel_all(slot, reason, emit);
        }
        self.found = found;
    }
}
