//! The slots, the one end that writes them and the ends that read them in place.
//!
//! This is the only file with `unsafe` that must be proved. The proof, for a ring of `capacity` slots:
//!
//! 1. There is one [`Writer`] (it is made with the slots and cannot be cloned), and each gate
//!    belongs to one [`Reader`], attached before anything was written.
//! 2. A reader looks only at sequences `s` with `gate < s <= published`, and moves its gate past
//!    `s` only through `&mut self`, when no reference into the slots is left.
//! 3. The writer writes sequence `w` only if `w <= gate + capacity` for each gate still open, and
//!    never writes a sequence again.
//! 4. Only this file sets `published` and gates: each from the one end that owns it.
//!
//! Two sequences share a slot if they differ by a multiple of `capacity`. Let a reader look at `s`
//! while the writer writes `w` in the same slot. `w == s` was written before `s` was published,
//! and the Acquire of `published` puts the look after it. `w < s` was written before `s`, so too.
//! `w > s` means `w >= s + capacity > gate + capacity`, which 3 excludes with the gate it has
//! seen; and if it has seen a later gate, its Acquire puts the write after the look.
#![allow(unsafe_code)]

use std::{mem::MaybeUninit, ops::Range, sync::Arc};

use crate::{
    failpoint::{Failpoint, failpoint},
    ring::{ReaderState, WriterState},
    sync::UnsafeCell,
};

struct Slot<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: several readers may hold `&T` of one slot on different threads, hence `T: Sync`; the
// value was made on the writer's thread, hence `T: Send`. That a write never overlaps a look is
// the proof above.
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

/// A slot that begins a cache line: a value of 64 bytes touches one, and the writer of a slot does not
/// disturb the reader of the one before.
#[repr(align(64))]
struct Line<T>(Slot<T>);

/// The slots of a ring, all in one of the two forms.
struct Slots<T> {
    lines: Arc<[Line<T>]>,
    /// Values of at most half a cache line: one line holds several.
    packed: Arc<[Slot<T>]>,
}

impl<T> Clone for Slots<T> {
    fn clone(&self) -> Self {
        Self { lines: Arc::clone(&self.lines), packed: Arc::clone(&self.packed) }
    }
}

impl<T> Slots<T> {
    const ARE_PACKED: bool = size_of::<T>() <= 32;

    /// # Panics
    /// `capacity` is not a power of two.
    fn new(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two(), "{capacity} slots");
        let slot = |_| Slot(UnsafeCell::new(MaybeUninit::uninit()));
        let (lines, packed) = if Self::ARE_PACKED { (0, capacity) } else { (capacity, 0) };
        Self {
            lines: (0..lines).map(slot).map(Line).collect(),
            packed: (0..packed).map(slot).collect(),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        if Self::ARE_PACKED { self.packed.len() } else { self.lines.len() }
    }

    /// The slot that holds `sequence` now or will hold it.
    #[inline]
    fn slot(&self, sequence: u64) -> &UnsafeCell<MaybeUninit<T>> {
        let index = sequence as usize & (self.len() - 1);
        // SAFETY: `new` has seen that the length is a power of two, so not 0, and `index` is at
        // most the length less one.
        unsafe {
            if Self::ARE_PACKED {
                &self.packed.get_unchecked(index).0
            } else {
                &self.lines.get_unchecked(index).0.0
            }
        }
    }
}

/// The one end that writes.
pub(crate) struct Writer<T> {
    slots: Slots<T>,
    state: Arc<WriterState>,
    gates: Vec<Arc<ReaderState>>,
    /// The first sequence that is not written.
    next: u64,
    /// The last sequence that is published.
    shown: u64,
    /// The last sequence that may be written, by the gates when last read.
    limit: u64,
}

impl<T: Copy + Send + Sync> Writer<T> {
    pub(crate) fn new(state: Arc<WriterState>) -> Self {
        let capacity = state.capacity;
        assert!(capacity.is_power_of_two(), "ring `{}` of {capacity} slots", state.name);
        let slots = Slots::new(capacity);
        Self { slots, state, gates: Vec::new(), next: 1, shown: 0, limit: 0 }
    }

    /// Attaches one more end, which reads from the first sequence and gates this writer.
    pub(crate) fn attach(&mut self, gate: Arc<ReaderState>) -> Reader<T> {
        assert!(self.next == 1, "a reader joins before the first write");
        assert!(gate.cursor.get() == 0, "a gate begins at nothing read");
        self.limit = 0;
        self.gates.push(Arc::clone(&gate));
        Reader { slots: self.slots.clone(), writer: Arc::clone(&self.state), gate, next: 1, end: 0 }
    }

    /// Makes a value in the slot of the next sequence and returns that sequence; no reader sees the
    /// value before `publish`. `None`, without making a value, if the slot is still gated.
    // Where the value is made field by field, those are stored where they will be read, once. That
    // takes the whole way down to be one function.
    #[inline(always)]
    pub(crate) fn write(&mut self, make: impl FnOnce() -> T) -> Option<u64> {
        let sequence = self.next;
        if sequence > self.limit && !self.has_room_now() {
            return None;
        }
        self.slots.slot(sequence).with_mut(|slot| {
            // SAFETY: `sequence` is not published and at most `limit`: every open gate has passed
            // the earlier value of this slot (3), so no reader looks at it. `make` cannot reach
            // this writer.
            unsafe { (*slot).write(make()) };
        });
        self.next = sequence + 1;
        Some(sequence)
    }

    /// The value of a sequence that is written but not published.
    pub(crate) fn unpublished(&self, sequence: u64) -> &T {
        assert!(self.unpublished_all().contains(&sequence), "sequence {sequence} is not ours");
        self.slots.slot(sequence).with(|slot| {
            // SAFETY: it is written, since it is before `next`, and its slot holds no later one,
            // since it is less than a lap before. Only this end writes, and it is borrowed.
            unsafe { (*slot).assume_init_ref() }
        })
    }

    /// The sequences that are written but not published. Without a gate these may be more than the
    /// ring has slots; the oldest are then overwritten.
    pub(crate) fn unpublished_all(&self) -> Range<u64> {
        let oldest = self.next.saturating_sub(self.slots.len() as u64);
        oldest.max(self.shown + 1)..self.next
    }

    /// The first sequence that is not written.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Publishes all written values to the readers.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.shown = self.next - 1;
        self.state.published.set(self.shown);
    }

    /// Number of values that can be written now.
    pub(crate) fn free(&mut self) -> usize {
        self.look_at_gates();
        // Without a gate `limit` is no bound; the number of slots is a sensible one.
        let free = (self.limit - (self.next - 1)).min(self.slots.len() as u64);
        usize::try_from(free).expect("at most the number of slots")
    }

    /// Number of readers that still gate the writer.
    pub(crate) fn open_gates(&self) -> usize {
        self.gates.iter().filter(|gate| !gate.is_closed()).count()
    }

    #[cold]
    fn has_room_now(&mut self) -> bool {
        self.look_at_gates();
        self.next <= self.limit
    }

    fn look_at_gates(&mut self) {
        // A closed gate stays closed and its Acquire comes after its reader's last look, so it may
        // be left out.
        let open = self.gates.iter().filter(|gate| !gate.is_closed());
        self.limit = match open.map(|gate| gate.cursor.get()).min() {
            Some(gate) => gate + self.slots.len() as u64,
            None => u64::MAX,
        };
    }
}

impl<T> Writer<T> {
    #[inline]
    pub(crate) fn state(&self) -> &WriterState {
        &self.state
    }
}

impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.state.close();
    }
}

/// An end that reads in place and gates the writer.
pub(crate) struct Reader<T> {
    slots: Slots<T>,
    writer: Arc<WriterState>,
    gate: Arc<ReaderState>,
    /// The first sequence that is not released; the gate is one less.
    next: u64,
    /// The last sequence known to be published.
    end: u64,
}

impl<T> Reader<T> {
    /// Reads the writer's cursor and returns the sequences that can be read: `first..=last`.
    #[inline]
    pub(crate) fn look(&mut self) -> (u64, u64) {
        self.end = self.writer.published.get();
        (self.next, self.end)
    }

    /// The value of a sequence that `look` has returned and that is not released.
    #[inline]
    pub(crate) fn get(&self, sequence: u64) -> &T {
        assert!(self.next <= sequence && sequence <= self.end, "sequence {sequence} is not ours");
        self.slots.slot(sequence).with(|slot| {
            // SAFETY: gate < next <= sequence <= end <= published (2), so it is written, and it is
            // not written again before `release`, which no reference outlives.
            unsafe { (*slot).assume_init_ref() }
        })
    }

    /// Releases all slots up to and including `sequence` to the writer.
    #[inline]
    pub(crate) fn release(&mut self, sequence: u64) {
        assert!(self.next <= sequence && sequence <= self.end, "sequence {sequence} is not ours");
        self.next = sequence + 1;
        let early = u64::from(failpoint(Failpoint::EarlyRelease));
        self.gate.cursor.set(sequence + early);
    }

    /// The last released sequence.
    #[inline]
    pub(crate) fn released(&self) -> u64 {
        self.next - 1
    }

    #[inline]
    pub(crate) fn state(&self) -> &ReaderState {
        &self.gate
    }

    #[inline]
    pub(crate) fn writer(&self) -> &WriterState {
        &self.writer
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.gate.high_water.raise(self.writer.published.get() - self.released());
        }
        self.gate.close();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Short values lie side by side, and a longer one begins a cache line.
    #[test]
    fn a_line_has_several_short_values_or_one_long_one() {
        fn distance<T>() -> usize {
            let slots = Slots::<T>::new(4);
            let place = |sequence| std::ptr::from_ref(slots.slot(sequence)).addr();
            assert_eq!(place(4), place(0), "a lap later it is the same slot");
            place(1) - place(0)
        }
        let lengths = [
            distance::<u64>(),
            distance::<[u64; 4]>(),
            distance::<[u64; 5]>(),
            distance::<[u64; 16]>(),
        ];
        assert_eq!(lengths, [8, 32, 64, 128]);
        assert_eq!(std::ptr::from_ref(Slots::<[u8; 40]>::new(2).slot(1)).addr() % 64, 0);
    }
}
