//! Failpoints: faults that a loom test switches on, to show that it finds them.
//!
//! Without `--cfg loom` every query is a constant `false`.

use crate::sync::Ordering;

/// A safeguard that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failpoint {
    /// [`Cursor::set`](crate::Cursor::set) no longer releases.
    RelaxedCursor,
    /// A gate is moved before the last slot has been read.
    EarlyRelease,
    /// A batch publishes each value separately.
    EagerBatch,
    /// A lossy consumer does not look at the stamp again after it has read the words.
    UncheckedStamp,
    /// The writer does not fence between the stamp it clears and the words it stores.
    NoStampFence,
    /// Neither side of a doorbell fences.
    NoDoorbellFence,
}

#[cfg(loom)]
std::thread_local! {
    /// One for each test: loom runs all threads of a model on the thread of its test.
    static ACTIVE: std::cell::Cell<Option<Failpoint>> = const { std::cell::Cell::new(None) };
}

/// Runs `f` with the failpoint switched on.
#[cfg(loom)]
pub fn with<R>(failpoint: Failpoint, f: impl FnOnce() -> R) -> R {
    ACTIVE.set(Some(failpoint));
    let result = f();
    ACTIVE.set(None);
    result
}

#[cfg(loom)]
pub(crate) fn failpoint(asked: Failpoint) -> bool {
    ACTIVE.get() == Some(asked)
}

#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn failpoint(_: Failpoint) -> bool {
    false
}

/// `Release`, unless the failpoint is switched on.
#[inline(always)]
pub(crate) fn release_unless(switched: Failpoint) -> Ordering {
    if failpoint(switched) { Ordering::Relaxed } else { Ordering::Release }
}
