//! Memory for what grows with the orders: in pages of 2 MiB, which are there before they are used.
//!
//! The allocator of the system gives pages of 4 KiB, each when it is first written. So who takes 2 MiB
//! waits for the kernel five hundred times, and with ten million orders each look at one of them
//! misses the table of pages as well as the caches. Pieces of 32 KiB and more, and all that begin
//! with a cache line, therefore come from one range of addresses, for which large pages are asked,
//! and which a thread of its own writes to [ahead of those who take from it](keep_ready).
//!
//! Whatever else is asked for, and everything where the system has no such range, comes from the
//! allocator of the system. Only time depends on it.
//!
//! What is given back waits for who takes as much again; it is neither joined nor returned. Sizes go
//! by quarters of a power of two, so no more than a fifth of a large piece is not used.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io, ptr,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
};

use crate::check;

/// Addresses of the range. They cost nothing until they are written to.
const RANGE: usize = 256 << 30;

/// A large page, of most processors.
const PAGE: usize = 2 << 20;

/// So much is written to ahead of those who take.
const READY: usize = 32 << 20;

/// What begins with a cache line is of the range, if it is of one or more.
const LINE: usize = 64;

/// So large is of the range, wherever it begins.
const LARGE: usize = 32 << 10;

/// What is larger is not: it is taken once, by who starts something.
const LARGEST: usize = 8 << 20;

/// What large pieces begin with.
const LARGE_ALIGNMENT: usize = 4096;

/// Pieces that are not large are cut from spans, so that those of one size lie side by side.
const SPAN: usize = 64 << 10;

/// Four for each doubling from 32 bytes to [`LARGEST`].
const CLASSES: usize = 72;

const _: () = assert!(Class::of_len(LARGEST).index == CLASSES - 1);

/// The allocator, to be named as `#[global_allocator]`.
#[derive(Debug)]
pub struct Allocator;

/// The first address of the range; null before it is asked for, and where there is none.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// So much of the range was ever taken. Changes only while [`PIECES`] is locked.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

static PIECES: Mutex<Pieces> = Mutex::new(Pieces {
    is_asked: false,
    free: [None; CLASSES],
    spans: [Span { next: 0, end: 0 }; CLASSES],
});

/// The thread that writes ahead, once there is one.
static KEEPER: OnceLock<Thread> = OnceLock::new();

/// What of the range is in use by none. Places are counted from its first address.
struct Pieces {
    /// True once the system was asked for the range.
    is_asked: bool,
    /// By class: the piece given back last, in which the place of the next stands.
    free: [Option<usize>; CLASSES],
    /// By class: where the next small piece is cut.
    spans: [Span; CLASSES],
}

#[derive(Clone, Copy)]
struct Span {
    next: usize,
    end: usize,
}

/// All pieces of a length, rounded up.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Class {
    len: usize,
    index: usize,
}

impl Class {
    /// The class of what has this layout; `None` if that is not of the range.
    #[inline]
    fn of(layout: Layout) -> Option<Self> {
        let (len, alignment) = (layout.size(), layout.align());
        let is_large = (LARGE..=LARGEST).contains(&len) && alignment <= LARGE_ALIGNMENT;
        let is_line = alignment == LINE && (1..LARGE).contains(&len);
        (is_large || is_line).then(|| Self::of_len(len))
    }

    /// Whole lines, in quarters of a power of two.
    const fn of_len(len: usize) -> Self {
        let len = if len < LINE { LINE } else { len };
        let doubling = (len - 1).ilog2();
        let quarter = 1 << (doubling - 2);
        let len = len.next_multiple_of(if quarter < LINE { LINE } else { quarter });
        let doubling = (len - 1).ilog2();
        let quarter = (len - 1) >> (doubling - 2) & 3;
        Self { len, index: (doubling as usize - 5) * 4 + quarter }
    }
}

impl Pieces {
    fn lock() -> MutexGuard<'static, Self> {
        // Nothing below panics; and what was taken or given back was so in one step.
        PIECES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a piece, and true if it was never used, so that it is all 0; `None` if the range
    /// is used up or there is none.
    fn take(&mut self, class: Class) -> Option<(usize, bool)> {
        if let Some(place) = self.free[class.index] {
            // SAFETY: a piece in the list is of the range and in use by none, and its first bytes are
            // what `give_back` has written there. It begins with a line.
            self.free[class.index] =
                unsafe { BASE.load(Ordering::Relaxed).add(place).cast::<Option<usize>>().read() };
            return Some((place, false));
        }
        if LARGE <= class.len {
            return self.take_fresh(class.len).map(|place| (place, true));
        }
        if self.spans[class.index].end - self.spans[class.index].next < class.len {
            let next = self.take_fresh(SPAN)?;
            self.spans[class.index] = Span { next, end: next + SPAN };
        }
        let span = &mut self.spans[class.index];
        let place = span.next;
        span.next += class.len;
        Some((place, true))
    }

    /// A part of the range that nobody ever had.
    fn take_fresh(&mut self, len: usize) -> Option<usize> {
        if !self.is_asked {
            self.is_asked = true;
            BASE.store(ask_for_range(), Ordering::Release);
        }
        let place = TAKEN.load(Ordering::Relaxed);
        let taken = place + len.next_multiple_of(LARGE_ALIGNMENT);
        if BASE.load(Ordering::Relaxed).is_null() || RANGE < taken {
            return None;
        }
        TAKEN.store(taken, Ordering::Release);
        Some(place)
    }

    /// Takes a piece back.
    ///
    /// # Safety
    /// It is one of this class that [`take`](Self::take) gave, and nobody uses it any more.
    unsafe fn give_back(&mut self, class: Class, place: usize) {
        let next = self.free[class.index];
        // SAFETY: nobody else uses the piece, which is longer than this and begins with a line.
        unsafe { BASE.load(Ordering::Relaxed).add(place).cast::<Option<usize>>().write(next) };
        self.free[class.index] = Some(place);
    }
}

/// Asks the system for addresses, and for large pages behind them; null if it has none.
fn ask_for_range() -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: without an address that it must be at, the kernel maps where nothing is.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), RANGE + PAGE, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    let mapped = mapped.cast::<u8>();
    // SAFETY: the mapping is longer than the range by a page.
    let base = unsafe { mapped.add(mapped.align_offset(PAGE)) };
    // SAFETY: the addresses are those of the mapping, in which nobody has anything. Where the system
    // does not know the advice, its pages are small ones.
    let _ = unsafe { libc::madvise(base.cast(), RANGE, libc::MADV_HUGEPAGE) };
    base
}

/// Where in the range something is; `None` if it is elsewhere.
#[inline]
fn place_of(pointer: *mut u8) -> Option<usize> {
    let base = BASE.load(Ordering::Acquire);
    let place = pointer.addr().wrapping_sub(base.addr());
    (!base.is_null() && place < RANGE).then_some(place)
}

/// A piece of the range, and true if it is all 0.
fn take(class: Class) -> Option<(*mut u8, bool)> {
    let (place, is_zero) = Pieces::lock().take(class)?;
    if is_zero
        && place / PAGE != (place + class.len) / PAGE
        && let Some(keeper) = KEEPER.get()
    {
        keeper.unpark();
    }
    // SAFETY: the place is of the range, which is mapped as long as the process lives.
    Some((unsafe { BASE.load(Ordering::Acquire).add(place) }, is_zero))
}

// SAFETY: what comes from the system's allocator goes back to it, by the same layout. A piece of the
// range is at least as long as was asked for, begins with a line, or if it is large with a page of
// 4 KiB, and is in no list and no span while it is in use. Nothing here allocates or panics: the lock,
// and waking a thread, are a number each that the kernel is asked to wait for.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Class::of(layout).and_then(take) {
            Some((pointer, _)) => pointer,
            // SAFETY: the caller keeps the contract of `alloc`.
            None => unsafe { System.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match Class::of(layout).and_then(take) {
            Some((pointer, true)) => pointer,
            Some((pointer, false)) => {
                // SAFETY: the piece has at least so many bytes, and nobody else uses it.
                unsafe { pointer.write_bytes(0, layout.size()) };
                pointer
            }
            // SAFETY: the caller keeps the contract of `alloc_zeroed`.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        match (place_of(pointer), Class::of(layout)) {
            // SAFETY: what is of the range was taken from it by this layout, and the caller does not
            // use it any more.
            (Some(place), Some(class)) => unsafe { Pieces::lock().give_back(class, place) },
            // SAFETY: the caller keeps the contract of `dealloc`, and `System` gave the memory.
            _ => unsafe { System.dealloc(pointer, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: the caller says that `len`, rounded up to the alignment, is no more than a layout
        // may have.
        let wanted = unsafe { Layout::from_size_align_unchecked(len, layout.align()) };
        let (before, after) = (place_of(pointer).and(Class::of(layout)), Class::of(wanted));
        if before.is_some() && before == after {
            return pointer;
        }
        if before.is_none() && (after.is_none() || BASE.load(Ordering::Acquire).is_null()) {
            // SAFETY: the caller keeps the contract of `realloc`, and `System` gave the memory.
            return unsafe { System.realloc(pointer, layout, len) };
        }
        // SAFETY: `len` is not 0, says the caller.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both have so many bytes, and one is not the other; then the old one is not
            // used any more.
            unsafe {
                ptr::copy_nonoverlapping(pointer, moved, layout.size().min(len));
                self.dealloc(pointer, layout);
            }
        }
        moved
    }
}

/// From now on a thread writes to memory before it is taken, so that nobody else waits for the system.
/// Where [`Allocator`] is not the allocator, or the system does not know how, it does nothing.
///
/// # Errors
/// There can be no further thread.
pub fn keep_ready() -> io::Result<()> {
    if KEEPER.get().is_some() {
        return Ok(());
    }
    let keeper = thread::Builder::new().name("damrak-memory".to_owned()).spawn(keep)?;
    // If two threads call this at once there are two that write ahead, and one of them sleeps.
    let _ = KEEPER.set(keeper.thread().clone());
    Ok(())
}

fn keep() {
    let mut ready = TAKEN.load(Ordering::Acquire) / PAGE * PAGE;
    loop {
        let wanted = RANGE.min(TAKEN.load(Ordering::Acquire) + READY);
        let base = BASE.load(Ordering::Acquire);
        while !base.is_null() && ready + PAGE <= wanted {
            // SAFETY: the page is of the range. The kernel writes what was there before, so whoever
            // has a part of it meanwhile sees no change.
            let written =
                unsafe { libc::madvise(base.add(ready).cast(), PAGE, libc::MADV_POPULATE_WRITE) };
            if check(written).is_err() {
                return;
            }
            ready += PAGE;
        }
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A class is as long as what is of it, with no more than a fifth or a line beside; the larger the
    /// length, the higher the class.
    #[test]
    fn classes_waste_little() {
        let mut last = Class::of_len(1);
        for len in 1..=LARGEST {
            let class = Class::of_len(len);
            assert!(len <= class.len && class.len.is_multiple_of(LINE), "{len}");
            assert!(class.len - len < LINE.max(class.len / 5), "{len} in {}", class.len);
            assert!(last.index <= class.index && class.index < CLASSES, "{len}");
            assert_eq!(last.index == class.index, last.len == class.len, "{len}");
            assert!(class.len < LARGE || class.len.is_multiple_of(LARGE_ALIGNMENT), "{len}");
            last = class;
        }
    }
}
