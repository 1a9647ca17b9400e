//! A socket of the family AF_XDP that receives: memory for frames, and two rings that pass their ownership.
//!
//! Invariant: a frame is the kernel's from the moment it is in the fill ring until the receive ring names it, and ours from
//! then until it is put back. There are as many frames as a ring has places, so both always have room.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use crate::{check, socket_option};

/// Bytes of the memory for a frame: a page, which has room for every datagram that order entry takes.
const CHUNK_LEN: usize = 4096;
/// The longest frame that has room there: the kernel keeps 256 bytes before it (XDP_PACKET_HEADROOM).
pub(super) const FRAME_BYTES_MAX: usize = CHUNK_LEN - 256;
/// The number of retries while a queue is busy, and the time between.
const BUSY_TRIES: u32 = 200;
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// The socket sends nothing, but cannot exist without a ring for sent frames.
const COMPLETIONS: u32 = 2;

/// The socket, bound to a queue of an interface.
#[derive(Debug)]
pub(super) struct FrameSocket {
    socket: OwnedFd,
    chunks: Mapping,
    /// Places of frames that the kernel may fill.
    fill: Ring<u64>,
    /// Frames that the kernel has filled.
    received: Ring<libc::xdp_desc>,
}

impl FrameSocket {
    /// A socket with `frames` frames, a power of two.
    pub(super) fn new(interface: u32, queue: u32, frames: u32) -> io::Result<Self> {
        assert!(frames.is_power_of_two() && frames <= 1 << 16, "{frames} frames");
        // SAFETY: no memory is passed.
        let socket = check(unsafe {
            libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
        })?;
        // SAFETY: the descriptor is new, and no other code has it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket as libc::c_int) };
        let chunks = Mapping::new(frames as usize * CHUNK_LEN, None, 0)?;
        let memory = libc::xdp_umem_reg {
            addr: chunks.start.addr() as u64,
            len: chunks.len as u64,
            chunk_size: CHUNK_LEN as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        // SAFETY: the structure is that of the option. The kernel holds the pages of the memory itself, so that they outlive
        // the mapping where they must.
        unsafe {
            socket_option::set(socket.as_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, &memory)?;
        }
        let set = |name, number: u32| {
            socket_option::set_number(socket.as_fd(), libc::SOL_XDP, name, number as libc::c_int)
        };
        set(libc::XDP_UMEM_FILL_RING, frames)?;
        set(libc::XDP_UMEM_COMPLETION_RING, COMPLETIONS)?;
        set(libc::XDP_RX_RING, frames)?;
        // SAFETY: the structure is integers, for which all bytes are values.
        let offsets: libc::xdp_mmap_offsets =
            unsafe { socket_option::get(socket.as_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS) }?;
        let fill_page = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let mut fill = Ring::new(socket.as_fd(), fill_page, &offsets.fr, frames)?;
        let received = Ring::new(socket.as_fd(), libc::XDP_PGOFF_RX_RING, &offsets.rx, frames)?;
        for frame in 0..frames {
            fill.put(frame, u64::from(frame) * CHUNK_LEN as u64);
        }
        fill.publish(frames);
        bind(socket.as_fd(), interface, queue)?;
        Ok(Self { socket, chunks, fill, received })
    }

    /// Hands over waiting frames, at most `most`, and gives them back.
    ///
    /// # Errors
    /// The driver needs a wake-up, and it fails.
    pub(super) fn receive(&mut self, most: u32, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let count = self.received.waiting().min(most);
        for place in 0..count {
            let found = self.received.get(place);
            let (start, len) = (found.addr as usize, found.len as usize);
            assert!(
                len <= FRAME_BYTES_MAX && start + len <= self.chunks.len,
                "the kernel names {len} bytes at {start}"
            );
            // SAFETY: the bytes are in the mapping, and the frame is ours until it is published below.
            take(unsafe { std::slice::from_raw_parts(self.chunks.start.add(start), len) });
            self.fill.put(place, (start - start % CHUNK_LEN) as u64);
        }
        self.received.publish(count);
        self.fill.publish(count);
        if self.fill.needs_wakeup() { self.wake() } else { Ok(()) }
    }

    /// Makes the driver look at the fill ring.
    fn wake(&self) -> io::Result<()> {
        // SAFETY: no memory is passed.
        let result = unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        if result >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // The driver is busy, or the interface is down for a moment: the next call tries again.
            Some(libc::EAGAIN | libc::EBUSY | libc::EINTR | libc::ENETDOWN | libc::ENOBUFS) => {
                Ok(())
            }
            _ => Err(error),
        }
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Binds a socket to a queue. The kernel frees a queue a moment after its socket was closed, so a venue that starts again waits
/// for that.
fn bind(socket: BorrowedFd<'_>, interface: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        // Without a copy where the driver can do that.
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is live, and of the length given.
    let try_it =
        || check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) });
    for _ in 0..BUSY_TRIES {
        match try_it() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(BUSY_PAUSE),
            done => return done.map(drop),
        }
    }
    try_it().map(drop)
}

/// One of the rings shared with the kernel; this process moves one end.
#[derive(Debug)]
struct Ring<T> {
    /// The memory that all the pointers point to.
    _mapping: Mapping,
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
    flags: *const AtomicU32,
    entries: *mut T,
    mask: u32,
    /// The position of our end: the entries that we have put in or taken.
    position: u32,
    end: OwnEnd,
}

/// The end of a ring that is ours.
#[derive(Clone, Copy, Debug)]
enum OwnEnd {
    Producer,
    Consumer,
}

// SAFETY: the memory behind the pointers is this value's mapping, which goes with it.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn new(
        socket: BorrowedFd<'_>,
        page: libc::off_t,
        offsets: &libc::xdp_ring_offset,
        places: u32,
    ) -> io::Result<Self> {
        let entries_len = places as usize * size_of::<T>();
        let mapping = Mapping::new(offsets.desc as usize + entries_len, Some(socket), page)?;
        let at = |offset: u64| {
            assert!(offset <= offsets.desc, "offset {offset} in a ring");
            // SAFETY: the offset is in the mapping.
            unsafe { mapping.start.add(offset as usize) }
        };
        let end = if page == libc::XDP_PGOFF_RX_RING { OwnEnd::Consumer } else { OwnEnd::Producer };
        Ok(Self {
            producer: at(offsets.producer).cast(),
            consumer: at(offsets.consumer).cast(),
            flags: at(offsets.flags).cast(),
            entries: at(offsets.desc).cast(),
            _mapping: mapping,
            mask: places - 1,
            position: 0,
            end,
        })
    }

    /// The entry `place` places after our end.
    fn entry(&self, place: u32) -> *mut T {
        let index = (self.position.wrapping_add(place) & self.mask) as usize;
        // SAFETY: the index is below the number of places.
        unsafe { self.entries.add(index) }
    }

    /// Entries that the kernel has put in and that we have not taken.
    fn waiting(&self) -> u32 {
        // Pairs with the kernel's release: the entries and the frames are written.
        number(self.producer).load(Ordering::Acquire).wrapping_sub(self.position)
    }

    fn get(&self, place: u32) -> T {
        // SAFETY: the entry is in the mapping and the kernel has put it in, so it does not write to it.
        unsafe { self.entry(place).read() }
    }

    fn put(&mut self, place: u32, value: T) {
        // SAFETY: the entry is in the mapping, and the kernel has taken the one there before: there are no more frames
        // than places.
        unsafe { self.entry(place).write(value) };
    }

    /// Moves our end.
    fn publish(&mut self, count: u32) {
        if count == 0 {
            return;
        }
        self.position = self.position.wrapping_add(count);
        let own = match self.end {
            OwnEnd::Producer => self.producer,
            OwnEnd::Consumer => self.consumer,
        };
        // Pairs with the kernel's acquire: our reads or writes of the entries came before.
        number(own).store(self.position, Ordering::Release);
    }

    /// True if the driver looks at the ring only after a wake-up.
    fn needs_wakeup(&self) -> bool {
        number(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A number in a ring.
fn number<'a>(at: *const AtomicU32) -> &'a AtomicU32 {
    // SAFETY: the kernel has aligned it, the mapping lives as long as the ring that asks, and both sides read and write it by
    // atomic operations only.
    unsafe { &*at }
}

/// Memory that is shared with the kernel.
#[derive(Debug)]
struct Mapping {
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to this value and the kernel only.
unsafe impl Send for Mapping {}

impl Mapping {
    /// A mapping of a page of a socket, or of no file.
    fn new(len: usize, socket: Option<BorrowedFd<'_>>, page: libc::off_t) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_POPULATE
            | match socket {
                Some(_) => libc::MAP_SHARED,
                None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            };
        let descriptor = socket.map_or(-1, |socket| socket.as_raw_fd());
        // SAFETY: no address is prescribed, so the kernel maps an unused range.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, descriptor, page) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and the pointers into it go with it.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}
