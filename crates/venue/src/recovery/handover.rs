//! The ring between two threads of a replay, and how they wait for each other.
//!
//! Both threads sleep instead of yielding: on a busy machine a thread that yields gives away a whole time slice each
//! time, and a thread that has slept gets the core at once.
//!
//! Invariant: a reader takes each value once, in order. If the reader has ended (only a panic ends it), the writer
//! continues alone.

use std::{hint, thread, time::Duration};

use ring::{Builder, Consumer, Producer};

/// Slots of the ring, half a mebibyte of lines or inputs: as much work as fits the cache, for the time in which the
/// other thread waits for a core. Unit tests use few, so that it is full at times.
pub(super) const SLOTS: usize = if cfg!(test) { 16 } else { 4096 };

/// The time of a sleep. The system adds about 50 µs.
const NAP: Duration = Duration::from_micros(50);

/// True if two threads can run at the same time. Otherwise a replay has one thread, since a second one would only cost.
pub(super) fn has_two_cores() -> bool {
    thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// The writing end.
pub(super) struct Giver<T>(Producer<T>);

/// Makes a ring with this name and this name of its reader.
pub(super) fn make_ring<T: Copy + Send + Sync + 'static>(
    name: &'static str,
    reader: &'static str,
) -> (Giver<T>, Consumer<T>) {
    let mut builder = Builder::new(name, SLOTS);
    let consumer = builder.gating(reader);
    (Giver(builder.build().0), consumer)
}

impl<T: Copy + Send + Sync + 'static> Giver<T> {
    /// Hands a value over; with a full ring, once half of it is free.
    #[inline]
    pub(super) fn give(&mut self, value: T) {
        if self.0.try_publish(value).is_err() {
            self.wait(SLOTS / 2);
            assert!(self.0.try_publish(value).is_ok(), "half of the ring is free");
        }
    }

    /// Sleeps until at most this many values are unread.
    #[cold]
    pub(super) fn wait(&mut self, unread: usize) {
        while self.0.free() + unread < SLOTS {
            thread::sleep(NAP);
        }
    }
}

/// The wait of a reader for the next value.
#[derive(Debug, Default)]
pub(super) struct Patience {
    spins: u32,
}

impl Patience {
    /// About 5 µs.
    const SPINS_MAX: u32 = 200;

    pub(super) fn wait(&mut self) {
        if self.spins < Self::SPINS_MAX {
            self.spins += 1;
            return hint::spin_loop();
        }
        thread::sleep(NAP);
    }
}
