//! The common part of rings that receive: an io_uring(7), and buffers that the kernel fills with the bytes that arrive.
//!
//! Invariant: a buffer belongs to the kernel, or to the caller from the completion that names it until it is given
//! back. The memory of the buffers is never freed, because the kernel may write to it a moment after a ring was closed.

use std::{
    io::{self, ErrorKind},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr,
    sync::atomic::{AtomicU16, Ordering},
};

use io_uring::{IoUring, cqueue, squeue, types};

use crate::{is_not_now, uring::checked};

/// The most requests that wait for the kernel.
const REQUESTS: u32 = 256;
/// The most completions that wait to be taken; beyond them the kernel keeps them for later.
const COMPLETIONS: u32 = 4096;
/// The one group of buffers.
pub(crate) const GROUP: u16 = 0;
/// The time that the kernel's thread of a ring looks for work before it sleeps, in milliseconds.
const POLLER_IDLE_MS: u32 = 2;

/// Requests to the kernel, and their results. All of it happens on the thread that makes the first request, except for
/// the work of a thread of the kernel.
pub(crate) struct BufferRing {
    ring: IoUring,
    buffers: Buffers,
}

/// The result of a request.
pub(crate) struct Completion {
    pub(crate) user_data: u64,
    pub(crate) result: io::Result<i32>,
    pub(crate) buffer: Option<u16>,
    /// More completions of the same request follow.
    pub(crate) goes_on: bool,
}

/// Memory that the kernel fills, and the ring that lists the parts it may fill.
pub(crate) struct Buffers {
    entries: *mut types::BufRingEntry,
    bytes: *mut u8,
    count: u16,
    len: usize,
    /// Buffers given to the kernel so far, modulo 65,536.
    given: u16,
}

// SAFETY: the memory behind the pointers belongs to this value and the kernel only.
unsafe impl Send for Buffers {}

impl Buffers {
    /// `count` is a power of two.
    fn new(count: u16, len: usize) -> io::Result<Self> {
        let entries = map(usize::from(count) * size_of::<types::BufRingEntry>())?.cast();
        let bytes = map(usize::from(count) * len)?;
        Ok(Self { entries, bytes, count, len, given: 0 })
    }

    /// Lets the kernel fill a buffer.
    pub(crate) fn give(&mut self, buffer: u16) {
        assert!(buffer < self.count, "buffer {buffer} of {}", self.count);
        let place = usize::from(self.given & (self.count - 1));
        // SAFETY: the place is below the count of entries, and the kernel reads it only once the tail has passed it.
        let entry = unsafe { &mut *self.entries.add(place) };
        // SAFETY: the buffer is below their count.
        let bytes = unsafe { self.bytes.add(usize::from(buffer) * self.len) };
        entry.set_addr(bytes.addr() as u64);
        entry.set_len(self.len as u32);
        entry.set_bid(buffer);
        self.given = self.given.wrapping_add(1);
        // SAFETY: the address is that of the first entry, which lives; the tail in it is aligned, and is written and read
        // by atomic operations only.
        let tail = unsafe { &*types::BufRingEntry::tail(self.entries).cast::<AtomicU16>() };
        // Pairs with the kernel's acquire of the tail: it sees the entry above.
        tail.store(self.given, Ordering::Release);
    }

    /// The address of these buffers, which no other ring has.
    pub(crate) fn address(&self) -> usize {
        self.bytes.addr()
    }

    /// The first bytes of a buffer.
    ///
    /// # Safety
    /// A completion has named the buffer, and the buffer has not been given back since, nor is it while the bytes are
    /// borrowed.
    pub(crate) unsafe fn bytes(&self, buffer: u16, len: usize) -> &[u8] {
        assert!(buffer < self.count && len <= self.len, "{len} bytes of buffer {buffer}");
        let start = usize::from(buffer) * self.len;
        // SAFETY: the bytes are of the mapping, and by the caller's promise the kernel does not write to them.
        unsafe { std::slice::from_raw_parts(self.bytes.add(start), len) }
    }
}

/// Memory of zeros that is never unmapped.
pub(crate) fn map(len: usize) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: no address is prescribed, so the kernel maps an unused range.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped.cast()) }
}

impl BufferRing {
    /// A ring with this many buffers, a power of two up to 32,768, of this many bytes. With a core given, a thread of
    /// the kernel executes the requests on that core (IORING_SETUP_SQPOLL), otherwise the requesting thread.
    pub(crate) fn new(
        buffer_count: u16,
        buffer_len: usize,
        poller_core: Option<u32>,
    ) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(COMPLETIONS);
        match poller_core {
            Some(core) => builder.setup_sqpoll(POLLER_IDLE_MS).setup_sqpoll_cpu(core),
            None => builder.setup_coop_taskrun().setup_taskrun_flag(),
        };
        let ring = builder.build(REQUESTS)?;
        let mut buffers = Buffers::new(buffer_count, buffer_len)?;
        let entries = buffers.entries.addr() as u64;
        // SAFETY: the entries begin a page, have the stated count, and are never unmapped.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(entries, buffer_count, GROUP, 0)?;
        }
        (0..buffer_count).for_each(|buffer| buffers.give(buffer));
        Ok(Self { ring, buffers })
    }

    pub(crate) fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    pub(crate) fn buffers_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// Hands a request to the kernel, which resolves its descriptor before this returns or, where a thread of the
    /// kernel takes the request, a moment later.
    ///
    /// # Safety
    /// The request points to no memory but that of buffers, or to memory that is never freed.
    pub(crate) unsafe fn request(
        &mut self,
        entry: &squeue::Entry,
        user_data: u64,
    ) -> io::Result<()> {
        let entry = entry.clone().user_data(user_data);
        // SAFETY: by the caller's promise the memory it points to is never freed.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| io::Error::other("the ring is full of requests"))?;
        self.enter()
    }

    /// Lets the kernel take requests and do the work that waits for this thread.
    fn enter(&self) -> io::Result<()> {
        match self.ring.submit() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted || is_not_now(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Hands over the completions since the last call. Usually makes no system call.
    ///
    /// # Errors
    /// Only a fault of this program.
    pub(crate) fn poll(
        &mut self,
        mut take: impl FnMut(&mut Buffers, Completion),
    ) -> io::Result<()> {
        let submission = self.ring.submission();
        let needs_kernel =
            submission.taskrun() || submission.cq_overflow() || !submission.is_empty();
        drop(submission);
        if needs_kernel {
            self.enter()?;
        }
        for completion in self.ring.completion() {
            let flags = completion.flags();
            let completion = Completion {
                user_data: completion.user_data(),
                result: checked(completion.result()),
                buffer: cqueue::buffer_select(flags),
                goes_on: cqueue::more(flags),
            };
            take(&mut self.buffers, completion);
        }
        Ok(())
    }
}

impl AsFd for BufferRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the ring that is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}
