//! A number that one thread sets and other threads read.
//!
//! Invariant: a gauge orders no other memory access; to publish other data use a `Cursor`.

use crate::sync::{AtomicU64, Ordering};

/// The latest value of a number that may go up and down.
///
/// One thread owns it and sets it; any thread gets it, perhaps a little late. Unlike a
/// [`Cursor`](crate::Cursor) it orders no other memory access.
///
/// ```
/// let due = ring::AtomicGauge::new(u64::MAX);
/// due.set(7);
/// assert_eq!(due.get(), 7);
/// ```
#[derive(Debug)]
#[repr(align(128))]
pub struct AtomicGauge(AtomicU64);

impl AtomicGauge {
    /// A gauge with this first value.
    #[must_use]
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// The value set last.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        // Relaxed: no other read depends on it.
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the value. Only for its owner.
    #[inline]
    pub fn set(&self, value: u64) {
        // Relaxed: no earlier write has to be seen with it.
        self.0.store(value, Ordering::Relaxed);
    }
}
