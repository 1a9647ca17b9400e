//! The reading end that sees every value, in place, and holds the writer back.
//!
//! Invariant: values come in order, each consumed once; slots go back when the call ends.

use crate::slots::Reader;

/// An end that reads everything in order, in place, and holds the writer back.
///
/// Dropping it removes its gate, so a dropped reader never stops the writer;
/// [`Producer::consumers`](crate::Producer::consumers) and the monitor show that it is gone.
pub struct Consumer<T> {
    reader: Reader<T>,
}

/// Values of a ring, in order and in place. See [`Consumer::poll_batch`].
pub struct Values<'a, T> {
    reader: &'a Reader<T>,
    next: u64,
    end: u64,
}

impl<T> Clone for Values<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, T> Iterator for Values<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        let sequence = self.next;
        if sequence == self.end {
            return None;
        }
        self.next += 1;
        Some(self.reader.get(sequence))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = (self.end - self.next) as usize;
        (len, Some(len))
    }
}

impl<T> ExactSizeIterator for Values<'_, T> {}

/// The decision about the value just seen, and about the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The value is consumed, and the turn continues.
    Continue,
    /// The value is consumed, and the turn ends.
    Stop,
    /// The value is not consumed: the turn ends, and the next one begins with it.
    Hold,
}

impl<T> Consumer<T> {
    pub(crate) fn new(reader: Reader<T>) -> Self {
        Self { reader }
    }

    /// Hands at most `limit` values to `f` in order and returns how many were consumed.
    ///
    /// The second argument of `f` is true for the last value that this call can hand out: a good
    /// moment to flush. There is no such call if `f` ends the turn earlier. The slots go back to the
    /// writer together, at the end of the call; if `f` panics nothing is consumed.
    ///
    /// ```
    /// use ring::Flow;
    ///
    /// let mut builder = ring::Builder::new("example", 8);
    /// let mut consumer = builder.gating("until durable");
    /// let (mut producer, _) = builder.build();
    /// for value in 1..=5_u64 {
    ///     producer.try_publish(value).unwrap();
    /// }
    ///
    /// let durable = 3;
    /// let consumed = consumer.poll(usize::MAX, |value, _end_of_batch| {
    ///     if *value <= durable { Flow::Continue } else { Flow::Hold }
    /// });
    /// assert_eq!((consumed, consumer.available()), (3, 2));
    /// ```
    #[inline]
    pub fn poll(&mut self, limit: usize, mut f: impl FnMut(&T, bool) -> Flow) -> usize {
        self.poll_batch(limit, |batch| {
            let (count, mut consumed) = (batch.len(), 0);
            for (place, value) in batch.enumerate() {
                let flow = f(value, place + 1 == count);
                consumed += usize::from(flow != Flow::Hold);
                if flow != Flow::Continue {
                    break;
                }
            }
            consumed
        })
    }

    /// Hands the next values, at most `limit`, to `f` together; `f` returns how many of them are consumed, and is not
    /// called without values. The slots go back to the writer when `f` returns.
    ///
    /// # Panics
    /// `f` returns more than the number of values it was given.
    #[inline]
    pub fn poll_batch(&mut self, limit: usize, f: impl FnOnce(Values<'_, T>) -> usize) -> usize {
        let (first, published) = self.reader.look();
        if published < first || limit == 0 {
            return 0;
        }
        let end = (published + 1).min(first.saturating_add(limit as u64));
        let consumed = f(Values { reader: &self.reader, next: first, end });
        assert!(consumed as u64 <= end - first, "{consumed} of {} are consumed", end - first);
        self.reader.state().high_water.raise(published - (first - 1));
        if consumed > 0 {
            self.reader.state().batch_max.raise(consumed as u64);
            self.reader.release(first - 1 + consumed as u64);
        }
        consumed
    }

    /// As [`poll`](Self::poll), but consumes each value.
    #[inline]
    pub fn drain(&mut self, limit: usize, mut f: impl FnMut(&T, bool)) -> usize {
        self.poll(limit, |value, end_of_batch| {
            f(value, end_of_batch);
            Flow::Continue
        })
    }

    /// Number of values that are published but not consumed.
    #[must_use]
    pub fn available(&self) -> usize {
        (self.reader.writer().published.get() - self.reader.released()) as usize
    }

    /// The last sequence consumed; 0 if none.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.reader.released()
    }

    /// True once the writer is gone. There may still be values to read.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.reader.writer().is_closed()
    }

    /// True once the writer is gone and all its values are consumed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        // In this order: once it is closed, `available` cannot grow.
        self.is_closed() && self.available() == 0
    }
}
