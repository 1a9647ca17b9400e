//! Faults that a loom test plants to show that it would find them.
//!
//! Without `--cfg loom` nothing can be planted and each question is a constant `false`.

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
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Runs `f` with `fault` planted.
#[cfg(loom)]
pub fn with<R>(fault: Fault, f: impl FnOnce() -> R) -> R {
    PLANTED.set(Some(fault));
    let result = f();
    PLANTED.set(None);
    result
}

#[cfg(loom)]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn planted(_: Fault) -> bool {
    false
}

/// `Release`, unless `fault` is planted.
#[inline(always)]
pub(crate) fn release_unless(fault: Fault) -> Ordering {
    if planted(fault) { Ordering::Relaxed } else { Ordering::Release }
}
