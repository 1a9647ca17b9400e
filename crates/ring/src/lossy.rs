//! The reading end that never holds the writer back: it misses overwritten values, and counts them.
//!
//! Invariant: each value handed out is whole, and each value is either read or counted as missed.

use std::sync::Arc;

use crate::{
    failpoint::{Failpoint, failpoint},
    ring::{ReaderState, WriterState},
    sync::{AtomicU64, Ordering, fence},
};

/// A reader that never blocks the writer: the writer may lap it, and it counts the values it missed.
///
/// A lossy consumer cannot borrow a slot that may be overwritten meanwhile. So the writer of a ring with lossy
/// consumers stores each value a second time, as atomic words under a stamp, and a lossy consumer copies the words and
/// keeps the copy only if the stamp shows that they belong together.
pub struct LossyConsumer<T> {
    mirror: Arc<Mirror<T>>,
    writer: Arc<WriterState>,
    state: Arc<ReaderState>,
    /// The first sequence neither read nor missed.
    next: u64,
    words: Box<[u64]>,
}

/// The result of one poll of a lossy consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossyPoll {
    /// Values read.
    pub read: usize,
    /// Values that were overwritten before they could be read.
    pub missed: u64,
}

impl<T> LossyConsumer<T> {
    pub(crate) fn new(
        mirror: Arc<Mirror<T>>,
        writer: Arc<WriterState>,
        state: Arc<ReaderState>,
    ) -> Self {
        let words = vec![0; mirror.words()].into();
        Self { mirror, writer, state, next: 1, words }
    }

    /// Hands at most `limit` values to `f`, oldest first, and returns the numbers of values read
    /// and missed.
    ///
    /// A poll reads only values that were published before it began, so it ends however fast the
    /// writer is. The values read and missed, over all polls, are all values published up to
    /// [`cursor`](Self::cursor).
    ///
    /// ```
    /// let mut builder = ring::Builder::new("example", 2);
    /// let mut lossy = builder.lossy("late");
    /// let (mut producer, _) = builder.build();
    /// for value in 1..=5_u64 {
    ///     producer.try_publish(value).unwrap();
    /// }
    ///
    /// let mut seen = Vec::new();
    /// let polled = lossy.poll(usize::MAX, |value| seen.push(*value));
    /// assert_eq!(seen, [4, 5]);
    /// assert_eq!((polled.read, polled.missed), (2, 3));
    /// ```
    pub fn poll(&mut self, limit: usize, mut f: impl FnMut(&T)) -> LossyPoll {
        let begin = self.next;
        let end = self.writer.published.get();
        let mut read = 0;
        self.next = self.next.max(self.oldest(end));
        while read < limit && self.next <= end {
            if let Some(value) = self.mirror.read(self.next, &mut self.words) {
                self.next += 1;
                read += 1;
                f(&value);
            } else {
                // The writer is a lap ahead; it may be further by now.
                let oldest = self.oldest(self.writer.published.get());
                self.next = (self.next + 1).max(oldest);
            }
        }
        let missed = self.next - begin - read as u64;
        if self.next > begin {
            self.state.batch_max.raise(read as u64);
            self.state.missed.add(missed);
            self.state.cursor.set(self.next - 1);
        }
        LossyPoll { read, missed }
    }

    /// The last sequence that was read or missed; 0 if none.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.next - 1
    }

    /// True once the writer is gone and all its values are read or missed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        // In this order: once it is closed, `published` cannot grow.
        self.writer.is_closed() && self.writer.published.get() == self.cursor()
    }

    /// The oldest sequence that a ring still holds when `published` is its last.
    fn oldest(&self, published: u64) -> u64 {
        published.saturating_sub(self.writer.capacity as u64) + 1
    }
}

impl<T> Drop for LossyConsumer<T> {
    fn drop(&mut self) {
        self.state.close();
    }
}

/// The conversion of a value to words for a lossy consumer, and back.
///
/// ```
/// #[derive(Clone, Copy)]
/// struct Quote { bid: u64, ask: u64 }
///
/// impl ring::Words for Quote {
///     const WORDS: usize = 2;
///     fn to_words(&self, words: &mut [u64]) {
///         words.copy_from_slice(&[self.bid, self.ask]);
///     }
///     fn from_words(words: &[u64]) -> Self {
///         Self { bid: words[0], ask: words[1] }
///     }
/// }
/// ```
pub trait Words: Copy {
    /// Number of words; at least 1.
    const WORDS: usize;
    /// Writes all of `words`, of which there are [`WORDS`](Self::WORDS).
    fn to_words(&self, words: &mut [u64]);
    /// The value that `to_words` has written as `words`.
    fn from_words(words: &[u64]) -> Self;
}

impl Words for u64 {
    const WORDS: usize = 1;

    fn to_words(&self, words: &mut [u64]) {
        words[0] = *self;
    }

    fn from_words(words: &[u64]) -> Self {
        words[0]
    }
}

impl<const N: usize> Words for [u64; N] {
    const WORDS: usize = N;

    fn to_words(&self, words: &mut [u64]) {
        words.copy_from_slice(self);
    }

    fn from_words(words: &[u64]) -> Self {
        words.try_into().expect("as many words as were written")
    }
}

/// [`Words`] as a table of functions, for a type that cannot implement the trait in the crate of the ring.
pub struct WordForm<T> {
    /// Number of words; at least 1.
    pub words: usize,
    /// See [`Words::to_words`].
    pub to_words: fn(&T, &mut [u64]),
    /// See [`Words::from_words`].
    pub from_words: fn(&[u64]) -> T,
}

impl<T: Words> WordForm<T> {
    /// The form of a type that has [`Words`].
    #[must_use]
    pub fn of() -> Self {
        Self { words: T::WORDS, to_words: T::to_words, from_words: T::from_words }
    }
}

impl<T> Clone for WordForm<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for WordForm<T> {}

/// The values of a ring as atomic words, each slot under a stamp: the sequence it holds, or 0
/// while it is written.
///
/// All accesses are atomic, so there is no data race. The writer clears the stamp, fences
/// (release), stores the words, and stores the stamp (release). A lossy consumer loads the stamp
/// (acquire), loads the words, fences (acquire), and loads the stamp again. If one of the words
/// loaded belongs to a later lap, the two fences order that lap's cleared stamp before the second
/// load, which then cannot return the first value. Sequences never repeat, so equal stamps mean
/// that no write happened in between.
pub(crate) struct Mirror<T> {
    /// For each slot the stamp, then the words.
    atoms: Box<[AtomicU64]>,
    mask: u64,
    form: WordForm<T>,
}

impl<T> Mirror<T> {
    pub(crate) fn new(capacity: usize, form: WordForm<T>) -> Self {
        assert!(form.words > 0, "a value of no words needs no lossy consumer");
        let atoms = (0..capacity * (form.words + 1)).map(|_| AtomicU64::new(0)).collect();
        Self { atoms, mask: capacity as u64 - 1, form }
    }

    pub(crate) fn words(&self) -> usize {
        self.form.words
    }

    fn slot(&self, sequence: u64) -> (&AtomicU64, &[AtomicU64]) {
        let stride = self.form.words + 1;
        let begin = (sequence & self.mask) as usize * stride;
        self.atoms[begin..begin + stride].split_first().expect("a stamp and at least one word")
    }

    /// The value of a published sequence, unless the writer has overwritten it or is overwriting
    /// it.
    fn read(&self, sequence: u64, words: &mut [u64]) -> Option<T> {
        let (stamp, atoms) = self.slot(sequence);
        // Acquire, pairs with the Release of the stamp in `MirrorWriter::write`.
        if stamp.load(Ordering::Acquire) != sequence {
            return None;
        }
        for (word, atom) in words.iter_mut().zip(atoms) {
            *word = atom.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire); // pairs with the fence in `MirrorWriter::write`
        if stamp.load(Ordering::Relaxed) != sequence && !failpoint(Failpoint::UncheckedStamp) {
            return None;
        }
        Some((self.form.from_words)(words))
    }
}

/// The end that writes a mirror; belongs to the producer.
pub(crate) struct MirrorWriter<T> {
    mirror: Arc<Mirror<T>>,
    words: Box<[u64]>,
}

impl<T> MirrorWriter<T> {
    pub(crate) fn new(mirror: Arc<Mirror<T>>) -> Self {
        let words = vec![0; mirror.words()].into();
        Self { mirror, words }
    }

    pub(crate) fn write(&mut self, sequence: u64, value: &T) {
        (self.mirror.form.to_words)(value, &mut self.words);
        let (stamp, atoms) = self.mirror.slot(sequence);
        stamp.store(0, Ordering::Relaxed);
        if !failpoint(Failpoint::NoStampFence) {
            fence(Ordering::Release); // pairs with the fence in `Mirror::read`
        }
        for (atom, word) in atoms.iter().zip(&self.words) {
            atom.store(*word, Ordering::Relaxed);
        }
        stamp.store(sequence, Ordering::Release); // pairs with the Acquire in `Mirror::read`
    }
}
