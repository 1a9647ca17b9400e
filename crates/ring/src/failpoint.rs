//! Failpoints: faults that a loom test switches on, to show that it finds them.
//!
//! Without `--cfg loom` every question is a constant `false`.

use crate::sync::Ordering;

/// What to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// [`Cursor::set`](crate::Cursor::set) no longer releases.
    RelaxedCursor,
    /// A gate is let go before the last slot has been read.
    EarlyRelease,
    /// A batch shows each value at once.
    EagerBatch,
    /// A tap does not look at the stamp again after it has read the words.
    UncheckedStamp,
    /// The writer does not fence between the stamp it clears and the words it stores.
    NoStampFence,
    /// Neither side of a doorbell fences.
    NoDoorbellFence,
}

#[cfg(loom)]
std::thread_local! {
    /// One for each test: loom runs all threads of a model on the thread of its test.
    static ACTIVE: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Runs `f` with `fault` switched on.
#[cfg(loom)]
pub fn with<R>(fault: Fault, f: impl FnOnce() -> R) -> R {
    ACTIVE.set(Some(fault));
    let result = f();
    ACTIVE.set(None);
    result
}

#[cfg(loom)]
pub(crate) fn failpoint(fault: Fault) -> bool {
    ACTIVE.get() == Some(fault)
}

#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn failpoint(_: Fault) -> bool {
    false
}

/// `Release`, unless `fault` is switched on.
#[inline(always)]
pub(crate) fn release_unless(fault: Fault) -> Ordering {
    if failpoint(fault) { Ordering::Relaxed } else { Ordering::Release }
}
