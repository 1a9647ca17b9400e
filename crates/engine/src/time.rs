//! What time alone brings about: it happens at the first input that is not before its moment,
//! before that input acts. So it is the sequenced time that counts, and a replay does the same.
//!
//! A module that waits for a moment keeps its own earliest one and says it in O(1). To add one:
//! name it in [`Engine::due_ns`], and give it a branch in [`Engine::pass_time`], which must leave
//! that moment later than it was, or gone. The engine stage tells the sequencer what
//! [`Engine::due`] says, and the sequencer lets time pass ([`Command::Time`](market::Command)) if
//! nothing else comes by then.

use market::{Event, Timestamp};

use crate::Engine;

/// Never.
const NEVER_NS: u64 = u64::MAX;

impl Engine {
    /// The next moment at which something happens even if nothing is asked; `None` if nothing
    /// waits for one.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let due_ns = self.due_ns();
        (due_ns != NEVER_NS).then_some(Timestamp(due_ns))
    }

    /// Does what is due by now, in the order of the moments at which it was.
    #[inline]
    pub(crate) fn pass_time(&mut self, emit: &mut impl FnMut(Event)) {
        while self.due_ns() <= self.timestamp.0 {
            self.pass_auctions(self.due_ns(), emit);
        }
        assert!(self.timestamp.0 < self.due_ns(), "what was due has happened");
    }

    /// The earliest of the moments of all modules.
    #[inline]
    fn due_ns(&self) -> u64 {
        self.auctions_due_ns
    }
}
