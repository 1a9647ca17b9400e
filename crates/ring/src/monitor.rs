//! The figures of a ring, read from any thread.
//!
//! Invariant: reading them changes nothing about how the ring works.

use std::sync::Arc;

use crate::ring::{ReaderState, WriterState};

/// Reads the figures of a ring from outside, without affecting writer and readers.
///
/// All clones share one window: figures "since last read" count since the last read by *any* clone.
#[derive(Clone)]
pub struct Monitor {
    writer: Arc<WriterState>,
    readers: Arc<[Arc<ReaderState>]>,
}

impl Monitor {
    pub(crate) fn new(writer: Arc<WriterState>, readers: Arc<[Arc<ReaderState>]>) -> Self {
        Self { writer, readers }
    }

    /// The name of the ring.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.writer.name
    }

    /// The last published sequence. Begins no new window.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.writer.published.get()
    }

    /// The last sequence read by the reader of this name; `None` if there is no such reader. Begins
    /// no new window.
    #[must_use]
    pub fn reader_cursor(&self, name: &str) -> Option<u64> {
        let reader = self.readers.iter().find(|reader| reader.name == name)?;
        Some(reader.cursor.get())
    }

    /// The figures now. Begins a new window for those that count "since last read".
    ///
    /// Each figure is right at some moment during the call, but not all at the same moment.
    ///
    /// ```
    /// let mut builder = ring::Builder::new("example", 4);
    /// let mut consumer = builder.gating("consumer");
    /// let (mut producer, monitor) = builder.build();
    /// for value in 1..=3_u64 {
    ///     producer.try_publish(value).unwrap();
    /// }
    /// consumer.drain(2, |_, _| {});
    ///
    /// let report = monitor.read();
    /// assert_eq!((report.published, report.occupancy, report.high_water), (3, 1, 3));
    /// assert_eq!((report.readers[0].lag, report.readers[0].batch_max), (1, 2));
    /// assert_eq!(monitor.read().high_water, 1, "a new window");
    /// ```
    #[must_use]
    pub fn read(&self) -> RingReport {
        // Before the cursors of the readers, so that no lag is reported larger than it ever was.
        let published = self.writer.published.get();
        let mut high_water = self.writer.high_water.take();
        let mut occupancy = 0;
        let mut readers = Vec::with_capacity(self.readers.len());
        for reader in &*self.readers {
            let cursor = reader.cursor.get();
            let lag = published.saturating_sub(cursor);
            let closed = reader.is_closed();
            high_water = high_water.max(reader.high_water.take());
            if reader.gating && !closed {
                occupancy = occupancy.max(lag);
            }
            readers.push(ReaderReport {
                name: reader.name,
                gating: reader.gating,
                closed,
                cursor,
                lag,
                batch_max: reader.batch_max.take() as usize,
                missed: reader.missed.get(),
            });
        }
        RingReport {
            name: self.writer.name,
            capacity: self.writer.capacity,
            published,
            occupancy: occupancy as usize,
            high_water: high_water.max(occupancy) as usize,
            stalls: self.writer.stalls.get(),
            closed: self.writer.is_closed(),
            readers,
        }
    }
}

/// The figures of a ring. See [`Monitor::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingReport {
    /// The name of the ring.
    pub name: &'static str,
    /// Number of slots.
    pub capacity: usize,
    /// The last published sequence, which equals the number of published values. Exact.
    pub published: u64,
    /// Slots now held by the slowest gating reader. While threads run, at most the number when the
    /// call began.
    pub occupancy: usize,
    /// Largest occupancy since last read, as the readers found it at the beginning of each poll,
    /// and the whole ring if a publication was refused. While threads run, it may miss values that
    /// were published during the longest poll.
    pub high_water: usize,
    /// Publications refused because the ring was full, in total. Exact; a retry that is refused
    /// counts again.
    pub stalls: u64,
    /// True once the writer is gone.
    pub closed: bool,
    /// The readers, in the order in which they were built.
    pub readers: Vec<ReaderReport>,
}

/// The figures of one reader. See [`Monitor::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderReport {
    /// The name of the reader.
    pub name: &'static str,
    /// True if the reader holds the writer back, false if it may be lapped.
    pub gating: bool,
    /// True once the reader is gone; it then holds no slot back.
    pub closed: bool,
    /// The last sequence that the reader has read or knows to be missed. Exact.
    pub cursor: u64,
    /// Number of values published but not read. For a lossy consumer it may be more than the ring
    /// holds: the rest is missed.
    pub lag: u64,
    /// Largest number of values read in one poll since last read. Exact.
    pub batch_max: usize,
    /// Values missed in total; always 0 for a gating reader. Exact up to `cursor`.
    pub missed: u64,
}
