//! The writing end of a ring: publishes one value at a time, or a batch as a whole.
//!
//! Invariant: it never waits and never overwrites a slot that a gating consumer has not given back;
//! a full ring gives the value back.

use std::{error::Error, fmt, sync::Arc};

use crate::{
    failpoint::{Failpoint, failpoint},
    lossy::{Mirror, MirrorWriter},
    slots::Writer,
};

/// The one end that writes a ring. After it is dropped, readers can still read the published values.
pub struct Producer<T> {
    writer: Writer<T>,
    mirror: Option<MirrorWriter<T>>,
}

impl<T: Copy + Send + Sync + 'static> Producer<T> {
    pub(crate) fn new(writer: Writer<T>, mirror: Option<Arc<Mirror<T>>>) -> Self {
        Self { writer, mirror: mirror.map(MirrorWriter::new) }
    }

    /// Publishes `value` and returns its sequence, from 1 and without gaps.
    ///
    /// # Errors
    /// [`Full`] with the value if a gating reader is a whole ring behind; this counts one stall.
    ///
    /// ```
    /// let mut builder = ring::Builder::new("example", 1);
    /// let _consumer = builder.gating("slow");
    /// let (mut producer, _) = builder.build();
    /// assert_eq!(producer.try_publish('a'), Ok(1));
    /// assert_eq!(producer.try_publish('b'), Err(ring::Full('b')));
    /// ```
    #[inline]
    pub fn try_publish(&mut self, value: T) -> Result<u64, Full<T>> {
        let Some(sequence) = self.write(|| value) else { return Err(Full(value)) };
        self.publish();
        Ok(sequence)
    }

    /// Number of values that can be published now without [`Full`]; looks at all gating readers.
    pub fn free(&mut self) -> usize {
        self.writer.free()
    }

    /// Begins a batch: all its values become visible together, when it is dropped.
    ///
    /// ```
    /// let mut builder = ring::Builder::new("example", 8);
    /// let consumer = builder.gating("consumer");
    /// let (mut producer, _) = builder.build();
    /// let mut batch = producer.batch();
    /// batch.push(1_u64)?;
    /// batch.push(2)?;
    /// assert_eq!(consumer.available(), 0);
    /// drop(batch);
    /// assert_eq!(consumer.available(), 2);
    /// # Ok::<(), ring::Full<u64>>(())
    /// ```
    #[inline]
    pub fn batch(&mut self) -> Batch<'_, T> {
        let begin = self.writer.next();
        Batch { producer: self, begin }
    }

    /// The last published sequence; 0 if none.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.writer.state().published.get()
    }

    /// Number of gating readers that still exist. Without any, only lossy consumers read the
    /// values.
    #[must_use]
    pub fn consumers(&self) -> usize {
        self.writer.open_gates()
    }

    #[inline(always)]
    fn write(&mut self, make: impl FnOnce() -> T) -> Option<u64> {
        let sequence = self.writer.write(make);
        if sequence.is_none() {
            self.count_stall();
        }
        sequence
    }

    /// Publishes the written values: first to the lossy consumers, which find them by the cursor of the others.
    #[inline]
    fn publish(&mut self) {
        if self.mirror.is_some() {
            self.reflect();
        }
        self.writer.publish();
    }

    /// Writes the values to be published into the mirror.
    #[inline(never)]
    fn reflect(&mut self) {
        let Some(mirror) = &mut self.mirror else { return };
        for sequence in self.writer.unpublished_all() {
            mirror.write(sequence, self.writer.unpublished(sequence));
        }
    }

    #[cold]
    fn count_stall(&self) {
        let state = self.writer.state();
        state.stalls.add(1);
        state.high_water.raise(state.capacity as u64);
    }
}

/// Several values that become visible with one store. See [`Producer::batch`].
pub struct Batch<'a, T: Copy + Send + Sync + 'static> {
    producer: &'a mut Producer<T>,
    /// The sequence of the first value.
    begin: u64,
}

impl<T: Copy + Send + Sync + 'static> Batch<'_, T> {
    /// Adds `value` and returns the sequence it will have.
    ///
    /// # Errors
    /// [`Full`] with the value if there is no slot for it; this counts one stall. Values that were
    /// pushed before stay in the batch.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<u64, Full<T>> {
        self.push_with(|| value).ok_or(Full(value))
    }

    /// Adds a value that is made in its slot, and returns the sequence it will have; without a free
    /// slot, makes no value, counts one stall and returns `None`.
    ///
    /// ```
    /// let mut builder = ring::Builder::new("example", 1);
    /// let _consumer = builder.gating("slow");
    /// let (mut producer, _) = builder.build();
    /// let mut batch = producer.batch();
    /// assert_eq!(batch.push_with(|| 'a'), Some(1));
    /// assert_eq!(batch.push_with(|| unreachable!()), None);
    /// ```
    #[inline(always)]
    pub fn push_with(&mut self, make: impl FnOnce() -> T) -> Option<u64> {
        let sequence = self.producer.write(make)?;
        if failpoint(Failpoint::EagerBatch) {
            self.producer.publish();
        }
        Some(sequence)
    }
}

impl<T: Copy + Send + Sync + 'static> Drop for Batch<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.begin < self.producer.writer.next() {
            self.producer.publish();
        }
    }
}

/// The ring is full: back-pressure as a return value. Holds the value that could not be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the ring is full")
    }
}

impl<T: fmt::Debug> Error for Full<T> {}
