//! Timed effects: expiries, the ends of auctions, and the remaining work of earlier commands. Invariant:
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
    auction::uncross::Looks,
    intake::{cancel_line::Selection, pending_cancels::Whose},
};

/// Stands for no time.
const NEVER_NS: u64 = u64::MAX;

/// How long a search in vain waits for an input before the engine requests one: its steps are in the journal, and a
/// session can cause many of them.
const SEARCH_PAUSE_NS: u64 = 50_000;

impl Engine {
    /// The time at which the engine needs an input, if none comes earlier: that of the next timed effect. If
    /// sweeps of one session are next in line and the last step found no order, 50 µs after the last input.
    /// `None` if nothing is due.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let mut due_ns = self.due_ns();
        if self.searches_in_vain() {
            let resumes_ns = self.timestamp.0.saturating_add(SEARCH_PAUSE_NS);
            due_ns =
                resumes_ns.min(self.contingents.expiries.expires_ns()).min(self.auctions_due_ns);
        }
        // The work of auctions that exceeded the budget continues before the next input.
        let next_ns = self.timestamp.0.saturating_add(1);
        (due_ns != NEVER_NS).then_some(Timestamp(due_ns.max(next_ns)))
    }

    /// Carries out all effects that are due, in the order of their times, each with its own effects; those of auctions
    /// as far as the budget reaches.
    #[cold]
    pub(crate) fn pass_time(&mut self, emit: &mut dyn FnMut(Event)) {
        self.cause = CommandKind::Time;
        self.looks = Looks::NEW;
        loop {
            if self.contingents.expiries.resumes_ns() <= self.timestamp.0 {
                // Planned anew for a later time if work is left.
                self.resume(emit);
                continue;
            }
            let expiries_ns = self.contingents.expiries.due_ns();
            let has_looks = self.looks.are_left();
            let auctions_ns = if has_looks { self.auctions_due_ns } else { NEVER_NS };
            let due_ns = expiries_ns.min(auctions_ns);
            if self.timestamp.0 < due_ns {
                return;
            }
            if expiries_ns == due_ns {
                self.expire_first(due_ns, emit);
            } else {
                self.pass_auctions(due_ns, emit);
            }
            self.follow(emit);
        }
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

    /// Makes the orders with the earliest expiry wait to be canceled.
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
