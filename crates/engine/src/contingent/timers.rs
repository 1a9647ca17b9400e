//! Timed effects: expiries, the ends of auctions, and what an earlier command left over. Invariant:
//! each happens at the first input at or after its time, before that input acts. Sequenced time
//! decides, so a replay does the same.
//!
//! Each module with timers keeps its own earliest time, in O(1). To add a timer: name it in
//! [`Engine::due_ns`], and give it a branch in [`Engine::pass_time`] that removes that time or
//! makes it later. The engine stage passes [`Engine::due`] on to the sequencer, which makes a
//! [`Command::Time`](market::Command) if no other command comes by then.

use market::{CancelReason, CommandKind, Event, Timestamp};

use crate::{
    Engine,
    intake::{cancel_line::Selection, pending_cancels::Whose},
};

/// No time.
const NEVER_NS: u64 = u64::MAX;

impl Engine {
    /// The time of the next timed effect; `None` if there is none.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let due_ns = self.due_ns();
        (due_ns != NEVER_NS).then_some(Timestamp(due_ns))
    }

    /// Carries out all effects that are due, in the order of their times, each with its own
    /// effects.
    #[cold]
    pub(crate) fn pass_time(&mut self, emit: &mut dyn FnMut(Event)) {
        self.cause = CommandKind::Time;
        while self.is_due() {
            let due_ns = self.due_ns();
            if self.contingents.expiries.resumes_ns() == due_ns {
                // Planned anew for a later time if something is left.
                self.resume(emit);
                continue;
            }
            if self.contingents.expiries.due_ns() == due_ns {
                self.expire_first(due_ns, emit);
            } else {
                self.pass_auctions(due_ns, emit);
            }
            self.follow(emit);
        }
        assert!(self.timestamp.0 < self.due_ns(), "what was due has happened");
    }

    /// True if a timed effect is due.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due_ns() <= self.timestamp.0
    }

    /// The earliest time of all modules.
    #[inline]
    fn due_ns(&self) -> u64 {
        self.auctions_due_ns.min(self.contingents.expiries.due_ns())
    }

    /// The orders with the earliest expiry wait to be canceled.
    #[cold]
    fn expire_first(&mut self, due_ns: u64, emit: &mut dyn FnMut(Event)) {
        let was_empty = !self.has_cancels_left();
        self.contingents.expiries.begin(due_ns);
        self.begin_cancels(was_empty, emit);
    }

    /// End of day: cancels day orders.
    pub(crate) fn end_day(&mut self, emit: &mut dyn FnMut(Event)) {
        let of_the_day = Selection { of_the_day: true, ..Selection::ALL };
        self.cancel_selected(Whose::ANY, of_the_day, CancelReason::EndOfDay, emit);
    }
}
