//! A ring as it is built: its slots, its named readers, and the state that the monitor reads.
//!
//! Invariant: readers are named before the first write, so none can miss the beginning.

use std::sync::{
    Arc,
    atomic::{AtomicU64 as Counter, Ordering::Relaxed},
};

use crate::{
    Consumer, Cursor, LossyConsumer, Monitor, Producer, Words,
    lossy::{Mirror, WordForm},
    slots::Writer,
    sync::{AtomicBool, Ordering},
};

/// Makes a ring: first its readers, then its one writer and its monitor.
///
/// A ring is a power-of-two number of slots. Sequence `n`, from 1, is in slot `n` modulo the number of
/// slots until the writer reaches that slot again, a *lap* later. A gating reader holds the writer
/// back; a lossy one is overtaken, and counts the values it missed. All memory is taken here.
///
/// ```
/// let mut builder = ring::Builder::new("example", 4);
/// let mut all = builder.gating("all");
/// let mut some = builder.lossy("some");
/// let (mut producer, _) = builder.build();
///
/// for value in 1..=4_u64 {
///     producer.try_publish(value).unwrap();
/// }
/// assert!(producer.try_publish(5).is_err(), "`all` has not read");
/// all.drain(1, |value, _| assert_eq!(*value, 1));
/// assert_eq!(producer.try_publish(5).unwrap(), 5);
///
/// let polled = some.poll(usize::MAX, |_| {});
/// assert_eq!((polled.read, polled.missed), (4, 1));
/// ```
pub struct Builder<T> {
    state: Arc<WriterState>,
    writer: Writer<T>,
    mirror: Option<Arc<Mirror<T>>>,
    readers: Vec<Arc<ReaderState>>,
}

impl<T: Copy + Send + Sync + 'static> Builder<T> {
    /// A ring called `name` of `capacity` slots.
    ///
    /// # Panics
    /// `capacity` is not a power of two.
    #[must_use]
    pub fn new(name: &'static str, capacity: usize) -> Self {
        let state = Arc::new(WriterState::new(name, capacity));
        Self { writer: Writer::new(Arc::clone(&state)), state, mirror: None, readers: Vec::new() }
    }

    /// A reader that sees everything and holds the writer back.
    pub fn gating(&mut self, name: &'static str) -> Consumer<T> {
        let reader = self.reader(name, true);
        Consumer::new(self.writer.attach(reader))
    }

    /// A reader that never holds the writer back, and may be overtaken.
    ///
    /// From the first lossy reader on, the writer stores each value a second time, as words.
    pub fn lossy(&mut self, name: &'static str) -> LossyConsumer<T>
    where
        T: Words,
    {
        self.lossy_as(name, WordForm::of())
    }

    /// As [`lossy`](Self::lossy), for a value that cannot have [`Words`] because both come
    /// from other crates. All lossy consumers of a ring read the form that was given first.
    ///
    /// # Panics
    /// An earlier form has another number of words.
    pub fn lossy_as(&mut self, name: &'static str, form: WordForm<T>) -> LossyConsumer<T> {
        let capacity = self.state.capacity;
        let mirror = self.mirror.get_or_insert_with(|| Arc::new(Mirror::new(capacity, form)));
        assert!(mirror.words() == form.words, "ring `{}` has two word forms", self.state.name);
        let mirror = Arc::clone(mirror);
        let reader = self.reader(name, false);
        LossyConsumer::new(mirror, Arc::clone(&self.state), reader)
    }

    /// The writer, and the monitor of writer and readers.
    #[must_use]
    pub fn build(self) -> (Producer<T>, Monitor) {
        let monitor = Monitor::new(self.state, self.readers.into());
        (Producer::new(self.writer, self.mirror), monitor)
    }

    fn reader(&mut self, name: &'static str, gating: bool) -> Arc<ReaderState> {
        let reader = Arc::new(ReaderState::new(name, gating));
        self.readers.push(Arc::clone(&reader));
        reader
    }
}

/// The published state of the writer. Only the writer writes here, except for [`Figure::take`].
pub(crate) struct WriterState {
    pub(crate) name: &'static str,
    pub(crate) capacity: usize,
    pub(crate) published: Cursor,
    closed: AtomicBool,
    /// Publications refused because the ring was full.
    pub(crate) stalls: Figure,
    /// Slots in use at a refusal.
    pub(crate) high_water: Figure,
}

impl WriterState {
    fn new(name: &'static str, capacity: usize) -> Self {
        Self {
            name,
            capacity,
            published: Cursor::new(0),
            closed: AtomicBool::new(false),
            stalls: Figure::default(),
            high_water: Figure::default(),
        }
    }

    pub(crate) fn close(&self) {
        close(&self.closed);
    }

    /// True once the writer is gone; nothing more will be published then.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) // pairs with the Release in `close`
    }
}

/// The published state of one reader. Only that reader writes here, except for [`Figure::take`].
pub(crate) struct ReaderState {
    pub(crate) name: &'static str,
    pub(crate) gating: bool,
    /// The last sequence that was read, or counted as missed.
    pub(crate) cursor: Cursor,
    closed: AtomicBool,
    /// Largest number read in one poll.
    pub(crate) batch_max: Figure,
    /// Largest lag found at the beginning of a poll.
    pub(crate) high_water: Figure,
    /// Values that were overwritten before they were read.
    pub(crate) missed: Figure,
}

impl ReaderState {
    fn new(name: &'static str, gating: bool) -> Self {
        Self {
            name,
            gating,
            cursor: Cursor::new(0),
            closed: AtomicBool::new(false),
            batch_max: Figure::default(),
            high_water: Figure::default(),
            missed: Figure::default(),
        }
    }

    pub(crate) fn close(&self) {
        close(&self.closed);
    }

    /// True once the reader is gone; it does not read a slot again.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) // pairs with the Release in `close`
    }
}

fn close(closed: &AtomicBool) {
    // A model that fails is torn down outside of loom, where its atomics may not be touched.
    if cfg!(loom) && std::thread::panicking() {
        return;
    }
    closed.store(true, Ordering::Release); // pairs with the Acquire in `is_closed`
}

/// A number for monitoring, written by one thread with plain loads and stores.
#[derive(Default)]
pub(crate) struct Figure(Counter);

impl Figure {
    /// The total so far.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Adds to a total. Only for its owner, and not for a figure that is taken.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed) + more, Relaxed);
    }

    /// Raises a maximum to at least `value`. Only for its owner.
    #[inline]
    pub(crate) fn raise(&self, value: u64) {
        if self.0.load(Relaxed) < value {
            self.0.store(value, Relaxed);
        }
    }

    /// The maximum since it was last taken. No value is lost between two windows: if this falls
    /// between the load and the store of a `raise`, the value counts in the next window; if that
    /// `raise` stores nothing, a maximum at least as large has been returned here.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Relaxed)
    }
}
