//! A global allocator that takes large and cache-aligned blocks from huge pages of 2 MiB, and populates them from a
//! separate thread before they are needed.
//!
//! The system's allocator gives pages of 4 KiB, each when it is first written: 2 MiB cost five
//! hundred page faults, and with ten million orders nearly each access misses the TLB. So blocks of
//! 32 KiB to 8 MiB, all smaller blocks aligned to a cache line, and all larger ones aligned to a cache
//! line or half of one, come from one reserved address range backed by huge pages. [`keep_ready`] starts the thread that populates the range ahead of
//! its use. Everything else, and everything where the range cannot be reserved, comes from the
//! system's allocator. Only speed depends on any of this.
//!
//! Sizes are rounded up to quarters of a power of two, which wastes at most a fifth of a large
//! block. Freed blocks go to a free list per size; they are never joined, and never returned to the
//! system, nor are those of the system's allocator.
//!
//! Invariant: a block is either with one caller or in one free list or span, and a new block from
//! the untouched part of the range is all zeros.
//!
//! Registry crates that were considered: `talc` and `dlmalloc` (pure Rust, well kept) manage memory that the caller
//! maps, and give no mark up to which to populate it; `lgalloc` pools huge pages by size, but by its own calls, not as
//! a global allocator; `hugealloc`, `hugepage-rs` and `numalloc` are at 0.1, `ferroc` is a prerelease; mimalloc and
//! tcmalloc build C or C++.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io, ptr,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
};

use crate::thread::{move_off, run_in_idle_time, thread_id};

/// Bytes of the address range, 256 GiB. Addresses cost nothing until they are written to.
const RANGE: usize = 256 << 30;

/// Bytes of a huge page on most processors.
const PAGE: usize = 2 << 20;

/// Bytes of a page where the system has no huge one.
const SMALL_PAGE: usize = 4 << 10;

/// Bytes that are populated ahead of the blocks taken.
const READY: usize = 32 << 20;

/// Bytes of a cache line. Blocks with exactly this alignment come from the range, however small.
const LINE: usize = 64;

/// Blocks of at least this many bytes come from the range, whatever their alignment up to 4 KiB.
const LARGE: usize = 32 << 10;

/// Larger blocks do not, unless they are aligned to a cache line or half of one: a list that grows leaves behind each block
/// that it had, and a store of slots that share no line is allocated once.
const LARGEST: usize = 8 << 20;

/// Longer blocks do not come from the range, whatever their alignment.
const LARGEST_ALIGNED: usize = 16 << 30;

/// The alignment of large blocks, in bytes.
const LARGE_ALIGNMENT: usize = 4096;

/// Bytes of a span. Small blocks are cut from spans, so that those of one size lie side by side.
const SPAN: usize = 64 << 10;

/// Size classes: four for each doubling from 32 bytes to [`LARGEST_ALIGNED`].
const CLASSES: usize = 116;

const _: () = assert!(Class::of_len(LARGEST_ALIGNED).index == CLASSES - 1);

/// The allocator, to be named as `#[global_allocator]`.
#[derive(Debug)]
pub struct Allocator;

/// The first address of the range; null before the range is requested, and where there is none.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Bytes of the range that were ever taken. Changes only while [`PIECES`] is locked.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

static PIECES: Mutex<Pieces> = Mutex::new(Pieces {
    is_asked: false,
    free: [None; CLASSES],
    spans: [Span { next: 0, end: 0 }; CLASSES],
});

/// The thread that populates the range, once there is one.
static KEEPER: OnceLock<Thread> = OnceLock::new();

/// The system's number of that thread; 0 before it runs.
static KEEPER_ID: AtomicI32 = AtomicI32::new(0);

/// The free part of the range. A place is an offset in bytes from its first address.
struct Pieces {
    /// True once the range was requested from the system.
    is_asked: bool,
    /// By class: the block freed last, whose first bytes hold the place of the previous one.
    free: [Option<usize>; CLASSES],
    /// By class: the place of the next small block.
    spans: [Span; CLASSES],
}

#[derive(Clone, Copy)]
struct Span {
    next: usize,
    end: usize,
}

/// A size class: all blocks of one rounded length.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Class {
    len: usize,
    index: usize,
}

impl Class {
    /// The class of a layout; `None` if the system's allocator serves it.
    #[inline]
    fn of(layout: Layout) -> Option<Self> {
        let (len, alignment) = (layout.size(), layout.align());
        let is_large = (LARGE..=LARGEST).contains(&len) && alignment <= LARGE_ALIGNMENT;
        let is_line = alignment == LINE && (1..LARGE).contains(&len);
        let is_store = (alignment == LINE || alignment == LINE / 2)
            && (LARGEST + 1..=LARGEST_ALIGNED).contains(&len);
        (is_large || is_line || is_store).then(|| Self::of_len(len))
    }

    /// The class of a length in bytes: whole cache lines, in quarters of a power of two.
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
        // No code panics while it is locked, and each change is one step.
        PIECES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a block, and true if it was never used, so that it is all zeros; `None` if the range is used up or
    /// does not exist.
    fn take(&mut self, class: Class) -> Option<(usize, bool)> {
        if let Some(place) = self.free[class.index] {
            // SAFETY: a block in a free list is of the range and not in use; its first bytes are those that `give_back`
            // wrote there, aligned to a cache line.
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

    /// A part of the range that was never used, aligned to 4 KiB.
    fn take_fresh(&mut self, len: usize) -> Option<usize> {
        if !self.is_asked {
            self.is_asked = true;
            keep_freed();
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

    /// Puts a block in the free list of its class.
    ///
    /// # Safety
    /// [`take`](Self::take) gave it for this class, and it is no longer in use.
    unsafe fn give_back(&mut self, class: Class, place: usize) {
        let next = self.free[class.index];
        // SAFETY: the block is not in use, is longer than this, and is aligned to a cache line.
        unsafe { BASE.load(Ordering::Relaxed).add(place).cast::<Option<usize>>().write(next) };
        self.free[class.index] = Some(place);
    }
}

/// Makes the system's allocator keep freed memory. Otherwise it returns the free end of its heap, in the call that
/// frees the last block there: 4 ms for 16 MiB, whose pages the system would have to find again later.
fn keep_freed() {
    #[cfg(target_env = "gnu")]
    {
        const NEVER: libc::c_int = -1;
        // SAFETY: the call takes two numbers, and refuses an unknown one.
        let _ = unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, NEVER) };
    }
}

/// Reserves the address range and requests huge pages for it; null if the system has none.
fn ask_for_range() -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: no address is prescribed, so the kernel maps an unused range.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), RANGE + PAGE, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    let mapped = mapped.cast::<u8>();
    // SAFETY: the mapping is longer than the range by a page.
    let base = unsafe { mapped.add(mapped.align_offset(PAGE)) };
    // SAFETY: the addresses are those of the mapping, which is not in use yet. A system without this advice gives small
    // pages.
    let _ = unsafe { libc::madvise(base.cast(), RANGE, libc::MADV_HUGEPAGE) };
    base
}

/// The place of a pointer in the range; `None` if it points elsewhere.
#[inline]
fn place_of(pointer: *mut u8) -> Option<usize> {
    let base = BASE.load(Ordering::Acquire);
    let place = pointer.addr().wrapping_sub(base.addr());
    (!base.is_null() && place < RANGE).then_some(place)
}

/// A block of the range, and true if it is all zeros.
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

// SAFETY: memory from the system's allocator returns to it, by the same layout. A block of the range is at least as
// long as requested, aligned to a cache line, or to 4 KiB if it is large, and is in no free list and no span while it
// is in use. No code here allocates or panics: the lock and waking a thread are futexes.
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
                // SAFETY: the block has at least this many bytes, and no other code uses it.
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
            // SAFETY: a block of the range was taken with this layout, and the caller does not use
            // it any more.
            (Some(place), Some(class)) => unsafe { Pieces::lock().give_back(class, place) },
            // SAFETY: the caller keeps the contract of `dealloc`, and `System` gave the memory.
            _ => unsafe { System.dealloc(pointer, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `realloc`: `len`, rounded up to the alignment,
        // fits a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(len, layout.align()) };
        let (before, after) = (place_of(pointer).and(Class::of(layout)), Class::of(wanted));
        if before.is_some() && before == after {
            return pointer;
        }
        if before.is_none() && (after.is_none() || BASE.load(Ordering::Acquire).is_null()) {
            // SAFETY: the caller keeps the contract of `realloc`, and `System` gave the memory.
            return unsafe { System.realloc(pointer, layout, len) };
        }
        // SAFETY: the caller keeps the contract of `realloc`: `len` is not 0.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both blocks have so many bytes, and they do not overlap; afterwards the old one
            // is not used any more.
            unsafe {
                ptr::copy_nonoverlapping(pointer, moved, layout.size().min(len));
                self.dealloc(pointer, layout);
            }
        }
        moved
    }
}

/// Bytes of addresses that are reserved but not yet taken: blocks from them need no new addresses. 0 where the range
/// could not be reserved.
pub fn reserved_bytes() -> u64 {
    match BASE.load(Ordering::Acquire).is_null() {
        true => 0,
        false => (RANGE - TAKEN.load(Ordering::Acquire)) as u64,
    }
}

/// Starts the thread that populates pages before they are used, in otherwise idle time, so that no other thread waits
/// for a page fault. Has no effect where [`Allocator`] is not the global allocator, or where the system cannot populate
/// pages (Linux before 5.14 on other processors than x86-64).
///
/// # Errors
/// The system cannot start another thread.
pub fn keep_ready() -> io::Result<()> {
    if KEEPER.get().is_some() {
        return Ok(());
    }
    let keeper = thread::Builder::new().name("damrak-memory".to_owned()).spawn(keep)?;
    // If two threads call this at once, two threads are started, and one of them stays parked.
    let _ = KEEPER.set(keeper.thread().clone());
    Ok(())
}

/// Keeps the thread that populates pages off these cores, where others are left for it: populating a page may take
/// milliseconds, in which a thread that never sleeps would not run there. Has no effect without the thread.
///
/// # Errors
/// The system does not permit moving the thread.
pub fn keep_off(cores: &[usize]) -> io::Result<()> {
    if KEEPER.get().is_none() || cores.is_empty() {
        return Ok(());
    }
    // The thread may have just started: it stores its number first.
    loop {
        match KEEPER_ID.load(Ordering::Acquire) {
            0 => thread::yield_now(),
            id => return move_off(id, cores),
        }
    }
}

fn keep() {
    KEEPER_ID.store(thread_id(), Ordering::Release);
    // A page may take milliseconds. Where no core is free, a thread that needs one is better off getting it itself.
    let _ = run_in_idle_time();
    let mut ready = TAKEN.load(Ordering::Acquire) / PAGE * PAGE;
    loop {
        let wanted = RANGE.min(TAKEN.load(Ordering::Acquire) + READY);
        let base = BASE.load(Ordering::Acquire);
        while !base.is_null() && ready + PAGE <= wanted {
            // SAFETY: the page is of the range.
            if unsafe { populate(base.add(ready)) }.is_err() {
                return;
            }
            ready += PAGE;
        }
        thread::park();
    }
}

/// Makes the kernel put memory behind a page of the range. Its contents stay, so a caller that holds a part of it
/// meanwhile sees no change.
///
/// MADV_POPULATE_WRITE would hold the lock of all mappings of the process meanwhile, for milliseconds where the kernel
/// has to find a huge page first, and a thread that grows its heap waits for that lock. A page fault holds, from Linux
/// 6.4 on, the lock of this mapping alone.
///
/// # Errors
/// The system does not support this.
///
/// # Safety
/// The page is of the range.
unsafe fn populate(page: *mut u8) -> io::Result<()> {
    #[cfg(target_arch = "x86_64")]
    for small in (0..PAGE).step_by(SMALL_PAGE) {
        // SAFETY: the byte is of the page, which may be written to; an atomic addition of 0 changes none, whatever
        // other threads do with it.
        unsafe {
            std::arch::asm!(
                "lock add byte ptr [{byte}], 0",
                byte = in(reg) page.add(small),
                options(nostack),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the page is of the range by the caller's promise, and the advice keeps the contents.
    crate::check(unsafe { libc::madvise(page.cast(), PAGE, libc::MADV_POPULATE_WRITE) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page is present after it was populated, and keeps its contents.
    #[test]
    fn contents_stay() {
        let base = ask_for_range();
        assert!(!base.is_null());
        let in_memory = || {
            let mut pages = [0_u8; PAGE / SMALL_PAGE];
            // SAFETY: the page is mapped, and the list has a byte for each small page of it.
            crate::check(unsafe { libc::mincore(base.cast(), PAGE, pages.as_mut_ptr()) }).unwrap();
            pages.iter().filter(|page| **page & 1 == 1).count()
        };
        assert_eq!(in_memory(), 0);
        // SAFETY: no other code has the range, and the byte is of the page.
        unsafe {
            populate(base).unwrap();
            base.add(SMALL_PAGE).write(7);
            populate(base).unwrap();
            assert_eq!(*base.add(SMALL_PAGE), 7);
            assert_eq!((*base, *base.add(PAGE - 1)), (0, 0));
        }
        assert_eq!(in_memory(), PAGE / SMALL_PAGE);
    }

    /// Blocks come from the range by their length and alignment.
    #[test]
    fn a_store_of_slots_comes_from_the_range() {
        for (len, alignment, is_taken) in [
            (64, 64, true),
            (64, 8, false),
            (LARGE, 8, true),
            (LARGEST, 8, true),
            (LARGEST + 1, 8, false),
            (LARGEST + 1, 32, true),
            (16 << 20, 64, true),
            (LARGEST_ALIGNED, 64, true),
            (LARGEST_ALIGNED + 1, 64, false),
            (16 << 20, 4096, false),
        ] {
            let layout = Layout::from_size_align(len, alignment).unwrap();
            assert_eq!(Class::of(layout).is_some(), is_taken, "{layout:?}");
        }
    }

    /// A class holds its lengths with at most a fifth or a cache line wasted, and classes rise with
    /// the length.
    #[test]
    fn classes_waste_little() {
        let mut last = Class::of_len(1);
        let larger = (24..34).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]);
        for len in (1..=LARGEST).chain(larger) {
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
