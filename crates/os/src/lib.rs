//! The system calls that the standard library does not offer, behind functions that are safe to
//! call, and an allocator of large pages ([`memory`]).
//!
//! Pointers for the kernel are made from what is borrowed right before the call that uses them, and
//! are not used after it.
#![allow(unsafe_code)]

pub mod memory;

use std::{
    fs::File,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::Path,
    ptr,
    time::Duration,
};

/// How many datagrams cross into or out of the kernel in one call, at most.
pub const BATCH: usize = 64;
/// How many datagrams are asked for when the last call found few: less to prepare where nothing
/// comes, which is most calls of an agent that does not sleep.
const BATCH_SMALL: usize = 8;

/// Restricts the calling thread to one core, counted from 0.
///
/// # Errors
/// There is no such core, or this process may not use it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: a `cpu_set_t` is an array of integers, for which all zeros is a value.
    let mut cores: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `core` is below CPU_SETSIZE, the number of bits in the set.
    unsafe { libc::CPU_SET(core, &mut cores) };
    // SAFETY: the pointer is to a live set of the length given; thread 0 is the calling one.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const cores) };
    check(result).map(drop)
}

/// Lets other threads go before the calling one where there are not enough cores for all.
///
/// # Errors
/// The system does not allow it.
pub fn lower_priority() -> io::Result<()> {
    const NICE: libc::c_int = 10;
    // SAFETY: it takes numbers only; process 0 is, to Linux, the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) }).map(drop)
}

/// Ends the file system of this folder as a power cut would: what was not on its medium is gone, and
/// nothing can be read or written until it is mounted anew.
///
/// # Errors
/// The folder cannot be opened, its file system has no such end, or this process may not ask for it.
pub fn cut_power(folder: &Path) -> io::Result<()> {
    /// `EXT4_IOC_SHUTDOWN`, which other file systems took up: `_IOR('X', 125, __u32)`.
    const SHUTDOWN: libc::Ioctl = 0x8004_587d;
    /// Neither what waits to be written nor the log of the file system is brought to the medium.
    const WITHOUT_FLUSH: u32 = 2;
    let folder = File::open(folder)?;
    let how = WITHOUT_FLUSH;
    // SAFETY: the kernel reads one u32 from the pointer, which is to one that lives.
    check(unsafe { libc::ioctl(folder.as_raw_fd(), SHUTDOWN, &raw const how) }).map(drop)
}

/// Processor time the calling thread has used so far, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time all threads of this process have used so far, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// How often the calling thread waited for the system to give it memory that it had already.
#[must_use]
pub fn thread_page_faults() -> u64 {
    // SAFETY: a `rusage` is numbers alone, for which 0 is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a struct that lives, and the kernel writes no more than that.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if result == 0 { usage.ru_minflt.cast_unsigned() } else { 0 }
}

/// Counts the instructions that the calling thread carries out outside the kernel: perf_event_open(2).
#[derive(Debug)]
pub struct InstructionCounter(File);

impl InstructionCounter {
    /// Counts from now on; `None` where the processor or the system does not let count, as in most
    /// virtual machines.
    #[must_use]
    pub fn start() -> Option<Self> {
        /// `struct perf_event_attr` as it was at first, which every kernel takes.
        #[derive(Default)]
        #[repr(C)]
        struct Attributes {
            kind: u32,
            size: u32,
            config: u64,
            sample_period: u64,
            sample_type: u64,
            read_format: u64,
            flags: u64,
            wakeup_events: u32,
            breakpoint_kind: u32,
            breakpoint_address: u64,
        }
        const _: () = assert!(size_of::<Attributes>() == 64);
        /// `PERF_COUNT_HW_INSTRUCTIONS` of the kind 0, the processor's own.
        const INSTRUCTIONS: u64 = 1;
        /// `exclude_kernel` and `exclude_hv`.
        const ONLY_OURS: u64 = 1 << 5 | 1 << 6;
        /// `PERF_FLAG_FD_CLOEXEC`.
        const CLOSE_ON_EXEC: libc::c_ulong = 8;
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            config: INSTRUCTIONS,
            flags: ONLY_OURS,
            ..Attributes::default()
        };
        // This thread on any processor, in no group.
        let (thread, processor, group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
        // SAFETY: the kernel reads `size` bytes from the pointer, which is to a struct that lives.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                thread,
                processor,
                group,
                CLOSE_ON_EXEC,
            )
        };
        let descriptor = i32::try_from(descriptor).ok().filter(|descriptor| 0 <= *descriptor)?;
        // SAFETY: the kernel has just opened it, and nobody else has it.
        Some(Self(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) })))
    }

    /// So many were carried out so far; `None` if the processor counted something else meanwhile.
    #[must_use]
    pub fn count(&mut self) -> Option<u64> {
        let mut count = [0; 8];
        self.0.read_exact(&mut count).ok()?;
        Some(u64::from_ne_bytes(count))
    }
}

/// Reports which of many descriptors became readable or writable: epoll(7), edge-triggered.
#[derive(Debug)]
pub struct Epoll {
    epoll: OwnedFd,
    happened: Vec<libc::epoll_event>,
}

/// A change of one descriptor's readiness.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// The token that the descriptor was added with.
    pub token: u64,
    /// A read would not block: there are bytes, an end, or an error.
    pub readable: bool,
    /// A write would not block: there is room, an end, or an error.
    pub writable: bool,
}

impl Epoll {
    /// Reports at most `events_max` descriptors a call.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(events_max: usize) -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Self { epoll, happened: vec![libc::epoll_event { events: 0, u64: 0 }; events_max] })
    }

    /// Reports `fd` from now on, until it is closed.
    ///
    /// # Errors
    /// `fd` cannot be watched, or the system has no memory left.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: both descriptors are open while borrowed; the event is live and is only read.
        let result = unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                fd.as_raw_fd(),
                &raw mut event,
            )
        };
        check(result).map(drop)
    }

    /// Reports what has changed since the last call, without waiting.
    ///
    /// # Errors
    /// Only a fault of this program.
    pub fn poll(&mut self, mut report: impl FnMut(Readiness)) -> io::Result<()> {
        let events_max = i32::try_from(self.happened.len()).unwrap_or(i32::MAX);
        // SAFETY: the kernel writes at most `events_max` events, and the vector holds as many.
        let result = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), self.happened.as_mut_ptr(), events_max, 0)
        };
        let count = match check(result) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        for event in &self.happened[..count] {
            // Fields of a packed struct are copied out before they are used.
            let (events, token) = (event.events as i32, event.u64);
            let ended = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
            report(Readiness {
                token,
                readable: events & (libc::EPOLLIN | ended) != 0,
                writable: events & (libc::EPOLLOUT | ended) != 0,
            });
        }
        Ok(())
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// A counter in the kernel that can be waited for like a socket: eventfd(2).
#[derive(Debug)]
pub struct EventFd(File);

impl EventFd {
    /// Not signaled.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let fd = owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        Ok(Self(File::from(fd)))
    }

    /// Makes it readable.
    pub fn signal(&self) {
        // It fails only where the counter is full, and then it is readable as it should be.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Makes it unreadable until the next signal.
    pub fn clear(&self) {
        // It fails only where nobody signaled, and then it is unreadable as it should be.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Descriptors to wait for, any of them: poll(2).
pub struct PollSet {
    /// Held so that no entry of `entries` outlives its descriptor.
    descriptors: Vec<OwnedFd>,
    entries: Vec<libc::pollfd>,
}

impl PollSet {
    /// Waits for all of these.
    #[must_use]
    pub fn new(descriptors: Vec<OwnedFd>) -> Self {
        let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let entries = descriptors.iter().map(|descriptor| entry(descriptor.as_raw_fd())).collect();
        Self { descriptors, entries }
    }

    /// Waits until one of the descriptors is readable, a signal arrives, or the time is over.
    pub fn wait(&mut self, at_most: Duration) {
        debug_assert_eq!(self.descriptors.len(), self.entries.len());
        let at_most = libc::timespec {
            tv_sec: libc::time_t::try_from(at_most.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: at_most.subsec_nanos() as _,
        };
        // SAFETY: the entries and the time are live, the count is that of the entries, no signal
        // mask is passed, and the descriptors are open because `descriptors` owns them.
        unsafe {
            libc::ppoll(
                self.entries.as_mut_ptr(),
                self.entries.len() as libc::nfds_t,
                &raw const at_most,
                ptr::null(),
            );
        }
    }
}

/// Asks that each received datagram carries how many the socket has dropped (SO_RXQ_OVFL).
///
/// # Errors
/// The socket is not one of datagrams.
pub fn tell_drops(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option takes an integer, which is live and of the length given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RXQ_OVFL,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

/// Room for [`BATCH`] datagrams and what the kernel says about each: recvmmsg(2), sendmmsg(2).
pub struct Batch {
    datagram_bytes_max: usize,
    /// How many datagrams to ask for next.
    wanted: usize,
    bytes: Box<[u8]>,
    /// Bytes of each datagram to send.
    lengths: [usize; BATCH],
    names: Box<[Name]>,
    name_lengths: [libc::socklen_t; BATCH],
    controls: Box<[Control]>,
    /// One per datagram: where its bytes are.
    pieces: Box<[libc::iovec]>,
    /// One per datagram: where its name, its piece and its control block are.
    headers: Box<[libc::mmsghdr]>,
}

/// A socket address as the kernel writes it; long enough for IPv6.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Name([u8; 28]);

/// What the kernel adds to a datagram: here only a count of drops.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

// SAFETY: the pointers in `pieces` and `headers` are written anew before each call that follows
// them, so none of those written on another thread is ever followed.
unsafe impl Send for Batch {}

/// One datagram of a batch that was received.
pub struct Received<'a> {
    /// `None` for an address that is neither IPv4 nor IPv6.
    pub from: Option<SocketAddr>,
    /// The datagram, without what there was no room for.
    pub bytes: &'a [u8],
    /// It was longer than there was room for.
    pub truncated: bool,
    /// How many the socket had dropped before this one, in all; `None` for none.
    pub dropped: Option<u32>,
}

impl Batch {
    /// Room for datagrams of up to `datagram_bytes_max` bytes each.
    #[must_use]
    pub fn new(datagram_bytes_max: usize) -> Self {
        let piece = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        // SAFETY: an `mmsghdr` is integers and pointers, for which all zeros is a value.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Self {
            datagram_bytes_max,
            wanted: BATCH_SMALL,
            bytes: vec![0; BATCH * datagram_bytes_max].into_boxed_slice(),
            lengths: [0; BATCH],
            names: vec![Name([0; 28]); BATCH].into_boxed_slice(),
            name_lengths: [0; BATCH],
            controls: vec![Control([0; 64]); BATCH].into_boxed_slice(),
            pieces: vec![piece; BATCH].into_boxed_slice(),
            headers: vec![header; BATCH].into_boxed_slice(),
        }
    }

    /// The longest datagram there is room for, in bytes.
    #[must_use]
    pub fn datagram_bytes_max(&self) -> usize {
        self.datagram_bytes_max
    }

    /// Receives what waits, at most [`BATCH`] datagrams, without blocking; 0 if none does.
    ///
    /// # Errors
    /// The socket reports an error, for example of an earlier send.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let wanted = self.wanted;
        self.lengths[..wanted].fill(self.datagram_bytes_max);
        self.name_lengths[..wanted].fill(size_of::<Name>() as libc::socklen_t);
        self.link(0, wanted);
        let controls = self.controls.as_mut_ptr();
        let headers = &mut self.headers[..wanted];
        for (index, header) in headers.iter_mut().enumerate() {
            header.msg_hdr.msg_control = controls.wrapping_add(index).cast();
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: the count is that of the slice, and each header points to a name, a piece and a
        // control block of the lengths it states, all borrowed here for the whole of the call.
        let result = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        let count = match check(result) {
            Err(error) if is_not_now(&error) => 0,
            other => other?,
        };
        self.wanted = if count < BATCH_SMALL { BATCH_SMALL } else { BATCH };
        Ok(count)
    }

    /// What the last [`receive`](Self::receive) put at `index`, which is below what it returned.
    #[must_use]
    pub fn received(&self, index: usize) -> Received<'_> {
        let header = &self.headers[index];
        let len = (header.msg_len as usize).min(self.datagram_bytes_max);
        #[allow(clippy::unnecessary_cast, reason = "its type is not the same in every libc")]
        let control_len = header.msg_hdr.msg_controllen as usize;
        let start = index * self.datagram_bytes_max;
        Received {
            from: self.names[index].to_address(),
            bytes: &self.bytes[start..start + len],
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            dropped: self.controls[index].dropped(control_len),
        }
    }

    /// Puts a datagram at `index`, which is below [`BATCH`].
    ///
    /// # Panics
    /// It is longer than there is room for.
    pub fn put(&mut self, index: usize, to: SocketAddr, datagram: &[u8]) {
        assert!(
            datagram.len() <= self.datagram_bytes_max,
            "a datagram of {} bytes",
            datagram.len()
        );
        let start = index * self.datagram_bytes_max;
        self.bytes[start..start + datagram.len()].copy_from_slice(datagram);
        self.lengths[index] = datagram.len();
        self.name_lengths[index] = self.names[index].put(to);
    }

    /// Sends the datagrams from `first` to before `end` as far as the kernel takes them, and says
    /// how many it took.
    ///
    /// # Errors
    /// The kernel does not take the first of them.
    pub fn send(&mut self, socket: BorrowedFd<'_>, first: usize, end: usize) -> io::Result<usize> {
        self.link(first, end);
        let headers = &mut self.headers[first..end];
        // SAFETY: the count is that of the slice, and each header points to a name and a piece of
        // the lengths it states, and to no control block; all are borrowed here for the whole call.
        let result = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        check(result)
    }

    /// Points the headers from `first` to before `end` to their names and, through their pieces,
    /// to their bytes, with the lengths stated here.
    fn link(&mut self, first: usize, end: usize) {
        let bytes = self.bytes.as_mut_ptr();
        for index in first..end {
            self.pieces[index] = libc::iovec {
                iov_base: bytes.wrapping_add(index * self.datagram_bytes_max).cast(),
                iov_len: self.lengths[index],
            };
        }
        let (names, pieces) = (self.names.as_mut_ptr(), self.pieces.as_mut_ptr());
        for index in first..end {
            let header = &mut self.headers[index].msg_hdr;
            header.msg_name = names.wrapping_add(index).cast();
            header.msg_namelen = self.name_lengths[index];
            header.msg_iov = pieces.wrapping_add(index);
            header.msg_iovlen = 1;
        }
    }
}

impl Name {
    fn put(&mut self, address: SocketAddr) -> libc::socklen_t {
        let bytes = &mut self.0;
        *bytes = [0; 28];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address {
            SocketAddr::V4(address) => {
                bytes[4..8].copy_from_slice(&address.ip().octets());
                (libc::AF_INET, size_of::<libc::sockaddr_in>())
            }
            SocketAddr::V6(address) => {
                bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                (libc::AF_INET6, size_of::<libc::sockaddr_in6>())
            }
        };
        bytes[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
        len as libc::socklen_t
    }

    fn to_address(self) -> Option<SocketAddr> {
        let bytes = &self.0;
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(*bytes[4..].first_chunk::<4>()?);
                Some(SocketAddr::new(IpAddr::V4(ip), port))
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(*bytes[8..].first_chunk::<16>()?);
                let flow = u32::from_ne_bytes(*bytes[4..].first_chunk()?);
                let scope = u32::from_ne_bytes(*bytes[24..].first_chunk()?);
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)))
            }
            _ => None,
        }
    }
}

impl Control {
    /// The count of drops among the first `len` bytes: one block of length, level, type, count.
    fn dropped(&self, len: usize) -> Option<u32> {
        const WORD: usize = size_of::<usize>();
        let bytes = self.0.get(..len.min(self.0.len()))?;
        let number = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let is_count = number(WORD)? == libc::SOL_SOCKET && number(WORD + 4)? == libc::SO_RXQ_OVFL;
        if is_count { number(WORD + 8).map(i32::cast_unsigned) } else { None }
    }
}

/// True for the errors that say: nothing now, try again.
#[must_use]
pub fn is_not_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live `timespec`, which the kernel fills.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "the clocks of processor time are always there");
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: a call that makes a descriptor has just returned it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a system call returned: a count, or the error it left behind.
fn check(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address comes back from the kernel's form as it went in.
    #[test]
    fn addresses_survive_the_kernels_form() {
        for address in ["127.0.0.1:80", "10.1.2.3:65535", "[::1]:1", "[fe80::1%7]:4001"] {
            let address: SocketAddr = address.parse().unwrap();
            let mut name = Name([0xff; 28]);
            name.put(address);
            assert_eq!(name.to_address(), Some(address));
        }
    }

    /// Processor time goes forward, and that of the process includes that of the thread.
    #[test]
    fn processor_time_is_read() {
        let before = thread_cpu_ns();
        let mut sum = 0_u64;
        while thread_cpu_ns() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(process_cpu_ns() >= thread_cpu_ns());
    }

    /// Where instructions are counted, more work is more of them; elsewhere nothing is said.
    #[test]
    fn instructions_are_counted_or_not_at_all() {
        let Some(mut counter) = InstructionCounter::start() else { return };
        let before = counter.count().unwrap();
        let sum: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
        assert_eq!(sum, 4_999_950_000);
        assert!(before + 100_000 <= counter.count().unwrap());
    }

    /// A core that cannot exist is an error, not a write beyond the set.
    #[test]
    fn pinning_to_a_core_that_cannot_exist_is_an_error() {
        assert!(pin_to_core(libc::CPU_SETSIZE as usize).is_err());
        assert!(pin_to_core(usize::MAX).is_err());
    }

    /// A signal is seen until it is cleared, however many there were.
    #[test]
    fn a_signal_wakes_and_is_cleared() {
        let event = EventFd::new().unwrap();
        let mut epoll = Epoll::new(4).unwrap();
        epoll.add(event.as_fd(), 7).unwrap();
        let readable = |epoll: &mut Epoll| {
            let mut seen = false;
            epoll.poll(|told| seen |= told.readable && told.token == 7).unwrap();
            seen
        };
        assert!(!readable(&mut epoll));
        event.signal();
        event.signal();
        assert!(readable(&mut epoll));
        event.clear();
        let mut set = PollSet::new(vec![event.as_fd().try_clone_to_owned().unwrap()]);
        set.wait(Duration::from_millis(1));
        assert_eq!(set.entries[0].revents, 0);
        event.signal();
        set.wait(Duration::from_secs(60));
        assert_ne!(set.entries[0].revents, 0);
    }
}
