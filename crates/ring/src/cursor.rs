//! A sequence that one thread owns and others follow, and the two memory orderings on which the rings are built.
//!
//! Invariant: a cursor never goes back, and a thread that gets `n` sees everything that its owner did up to `n`.

use crate::{
    failpoint::{Failpoint, release_unless},
    sync::{AtomicU64, Ordering},
};

/// The last sequence that its owner has finished; 0 if none.
///
/// One thread owns a cursor and sets it; any thread gets it. It never goes back. Sequences count
/// from 1 and never wrap: at a thousand million a second they last 584 years.
///
/// The rings need only these two orderings. `set` is a *release*: reads and writes of the owner before
/// the `set` stay before it. `get` is an *acquire*: reads and writes after the `get` stay after it. So
/// if `get` returns `n`, the caller sees everything that the owner did up to `n`, and nothing that
/// follows the `get` can disturb it. A writer's cursor thus hands slots over to its readers
/// ("written"), and a reader's cursor hands them back to the writer ("no longer read").
///
/// A cursor fills 128 bytes: two cache lines, as processors fetch lines in pairs.
///
/// ```
/// let durable = ring::Cursor::new(0);
/// durable.set(7);
/// assert_eq!(durable.get(), 7);
/// ```
#[derive(Debug)]
#[repr(align(128))]
pub struct Cursor(AtomicU64);

impl Cursor {
    /// A cursor that stands at `sequence`; 0 for one that has finished nothing.
    #[must_use]
    pub fn new(sequence: u64) -> Self {
        Self(AtomicU64::new(sequence))
    }

    /// The last sequence that the owner has finished. The caller sees everything it did up to there.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire) // pairs with the Release in `set`
    }

    /// Publishes that everything up to and including `sequence` is finished. Only for its owner.
    #[inline]
    pub fn set(&self, sequence: u64) {
        debug_assert!(self.0.load(Ordering::Relaxed) <= sequence, "a cursor went back");
        // Release, pairs with the Acquire in `get`.
        self.0.store(sequence, release_unless(Failpoint::RelaxedCursor));
    }
}

impl Default for Cursor {
    fn default() -> Self {
        Self::new(0)
    }
}
