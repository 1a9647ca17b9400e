//! Many datagrams in one system call: recvmmsg(2), sendmmsg(2).
//!
//! Invariant: pointers for the kernel are made from live borrows right before the call that uses them,
//! and are not used after it.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
    time::Duration,
};

use io_uring::types::RecvMsgOut;

use crate::{
    check,
    control_block::{ControlBlock, Notes},
    is_not_now,
    segments::{Control, run_len},
    socket_option::{self, set_number},
};

/// The most datagrams that cross into or out of the kernel in one call. Joined ones count once.
pub const BATCH: usize = 64;
/// The number of datagrams requested after a call that found few: less to prepare for an empty call, which most calls
/// of an agent are that does not sleep.
const BATCH_SMALL: usize = 8;
/// The longest run of datagrams that the kernel joins, in bytes.
const JOINED_BYTES_MAX: usize = 64 << 10;

/// The number of datagrams that the socket has dropped so far, because its buffer was full (SO_MEMINFO).
///
/// # Errors
/// The system does not report it.
pub fn dropped_datagrams(socket: BorrowedFd<'_>) -> io::Result<u32> {
    /// The kernel's number for it on the supported processors.
    const SO_MEMINFO: libc::c_int = 55;
    /// `SK_MEMINFO_DROPS`, the last of the numbers.
    const DROPS: usize = 8;
    // SAFETY: integers, for which all bytes are values.
    let numbers: [u32; DROPS + 1] =
        unsafe { socket_option::get(socket, libc::SOL_SOCKET, SO_MEMINFO) }?;
    Ok(numbers[DROPS])
}

/// Makes an empty receive poll the network card itself for this time (SO_BUSY_POLL).
///
/// # Errors
/// The system does not support it, or lets only a privileged process raise it.
pub fn set_busy_poll(socket: BorrowedFd<'_>, time: Duration) -> io::Result<()> {
    let micros = i32::try_from(time.as_micros()).map_err(|_| io::ErrorKind::InvalidInput)?;
    set_number(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, micros)
}

/// Makes datagrams that were sent together arrive together, for [`DatagramBatch::for_joined`] (UDP_GRO).
///
/// # Errors
/// The system does not support it: Linux before 5.0.
pub fn join_datagrams(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_number(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Room for many datagrams and the kernel's notes on each: recvmmsg(2), sendmmsg(2). Pages that no datagram reaches are
/// not touched.
pub struct DatagramBatch {
    slots: usize,
    slot_bytes: usize,
    /// The number of datagrams to request next.
    wanted: usize,
    /// The last call found as many datagrams as it requested.
    is_full: bool,
    bytes: Box<[u8]>,
    /// The length of each datagram to send, in bytes.
    lengths: Box<[usize]>,
    names: Box<[Name]>,
    name_lengths: Box<[libc::socklen_t]>,
    /// One per run that is sent.
    controls: Box<[Control]>,
    /// One per message received, if the kernel's notes are requested; otherwise none.
    blocks: Box<[ControlBlock]>,
    /// One per datagram: the place of its bytes.
    pieces: Box<[libc::iovec]>,
    /// One per datagram, or run of datagrams: the place of its name, its pieces and its control block.
    headers: Box<[libc::mmsghdr]>,
}

/// A socket address as the kernel writes it; long enough for IPv6.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub(crate) struct Name([u8; NAME_LEN]);

const NAME_LEN: usize = 28;

// SAFETY: the pointers in `pieces` and `headers` are written anew before each call that follows
// them, so none of those written on another thread is ever followed.
unsafe impl Send for DatagramBatch {}

impl fmt::Debug for DatagramBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slots, slot_bytes, .. } = self;
        write!(f, "DatagramBatch({slots} of {slot_bytes} bytes)")
    }
}

/// One received datagram of a batch, or several that were joined.
pub struct Received<'a> {
    /// The sender; `None` for an address that is neither IPv4 nor IPv6.
    pub from: Option<SocketAddr>,
    /// The bytes, up to the room for them.
    pub bytes: &'a [u8],
    /// The datagram was longer than the room for it.
    pub truncated: bool,
    /// The time of arrival in nanoseconds, if requested: see [`stamp_arrivals`](crate::stamp_arrivals).
    pub arrived_ns: Option<u64>,
    /// The length of each joined datagram in bytes, the last perhaps shorter; `None` for a single one.
    segment_bytes: Option<usize>,
}

impl<'a> Received<'a> {
    /// A datagram received by a ring.
    pub(crate) fn of_ring(out: &'a RecvMsgOut<'_>) -> Self {
        let mut name = Name([0; NAME_LEN]);
        let bytes = out.name_data();
        name.0[..bytes.len()].copy_from_slice(bytes);
        Self {
            from: name.to_address(),
            bytes: out.payload_data(),
            truncated: out.is_payload_truncated(),
            arrived_ns: None,
            segment_bytes: None,
        }
    }

    /// A datagram from a frame of a network card.
    #[cfg(feature = "af-xdp")]
    pub(crate) const fn of_frame(from: SocketAddr, bytes: &'a [u8]) -> Self {
        Self { from: Some(from), bytes, truncated: false, arrived_ns: None, segment_bytes: None }
    }

    /// The datagrams one by one, including empty ones.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let len = self.segment_bytes.unwrap_or(bytes.len()).max(1);
        let empty = bytes.is_empty().then_some(bytes);
        empty.into_iter().chain(bytes.chunks(len))
    }
}

impl DatagramBatch {
    /// Room for [`BATCH`] datagrams of up to `datagram_bytes_max` bytes each.
    #[must_use]
    pub fn new(datagram_bytes_max: usize) -> Self {
        Self::with(BATCH, datagram_bytes_max)
    }

    /// Room for this many messages from a socket that may join datagrams; see [`join_datagrams`]. Each may be 64 KiB.
    #[must_use]
    pub fn for_joined(messages_max: usize) -> Self {
        let mut batch = Self::with(messages_max, JOINED_BYTES_MAX);
        batch.take_notes();
        batch
    }

    /// From now on also requests the kernel's notes on a message: its time of arrival, and the length of joined
    /// datagrams.
    pub fn take_notes(&mut self) {
        self.blocks = vec![ControlBlock::EMPTY; self.slots].into_boxed_slice();
    }

    fn with(slots: usize, slot_bytes: usize) -> Self {
        let piece = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        // SAFETY: an `mmsghdr` is integers and pointers, for which all zeros is a value.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Self {
            slots,
            slot_bytes,
            wanted: BATCH_SMALL.min(slots),
            is_full: false,
            bytes: vec![0; slots * slot_bytes].into_boxed_slice(),
            lengths: vec![0; slots].into_boxed_slice(),
            names: vec![Name([0; 28]); slots].into_boxed_slice(),
            name_lengths: vec![0; slots].into_boxed_slice(),
            controls: vec![Control::EMPTY; slots].into_boxed_slice(),
            blocks: Box::default(),
            pieces: vec![piece; slots].into_boxed_slice(),
            headers: vec![header; slots].into_boxed_slice(),
        }
    }

    /// Receives the waiting datagrams, up to the number of slots, without blocking; 0 if none waits.
    ///
    /// # Errors
    /// The socket reports an error, for example of an earlier send.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let wanted = self.wanted;
        self.lengths[..wanted].fill(self.slot_bytes);
        self.name_lengths[..wanted].fill(size_of::<Name>() as libc::socklen_t);
        self.point(0, wanted);
        for index in 0..wanted {
            self.link(index, index, 1);
            if let Some(block) = self.blocks.get_mut(index) {
                let header = &mut self.headers[index].msg_hdr;
                header.msg_control = ptr::from_mut(block).cast();
                header.msg_controllen = size_of::<ControlBlock>() as _;
            }
        }
        let headers = &mut self.headers[..wanted];
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
        self.is_full = count == wanted;
        self.wanted = if count < BATCH_SMALL { BATCH_SMALL.min(self.slots) } else { self.slots };
        Ok(count)
    }

    /// Makes `read` fill one slot after another until no datagram is left, as [`receive`](Self::receive) does at once.
    /// The senders are unknown.
    ///
    /// # Errors
    /// The error of `read`, if its first call fails.
    pub fn receive_each(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let slots = self.bytes.chunks_exact_mut(self.slot_bytes);
        for (index, (slot, header)) in slots.zip(&mut self.headers).enumerate() {
            match read(slot) {
                Ok(len) => header.msg_len = len as libc::c_uint,
                Err(error) if is_not_now(&error) => return Ok(index),
                Err(_) if index > 0 => return Ok(index),
                Err(error) => return Err(error),
            }
            header.msg_hdr.msg_controllen = 0;
        }
        Ok(self.headers.len())
    }

    /// True if the last [`receive`](Self::receive) found as many datagrams as it requested: there may be more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The datagram at `index` of the last [`receive`](Self::receive); `index` is below its result.
    #[must_use]
    pub fn received(&self, index: usize) -> Received<'_> {
        let header = &self.headers[index];
        let len = (header.msg_len as usize).min(self.slot_bytes);
        #[allow(clippy::unnecessary_cast, reason = "its type is not the same in every libc")]
        let control_len = header.msg_hdr.msg_controllen as usize;
        let start = index * self.slot_bytes;
        let block = self.blocks.get(index);
        let notes = block.map_or_else(Notes::default, |block| block.notes(control_len));
        Received {
            from: self.names[index].to_address(),
            bytes: &self.bytes[start..start + len],
            truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            arrived_ns: notes.stamp_ns,
            segment_bytes: notes.segment_bytes,
        }
    }

    /// Puts a datagram of two parts at `index`, which is below [`BATCH`].
    ///
    /// # Panics
    /// The datagram is longer than the room for it.
    pub fn put(&mut self, index: usize, to: SocketAddr, head: &[u8], body: &[u8]) {
        let len = head.len() + body.len();
        assert!(len <= self.slot_bytes, "a datagram of {len} bytes");
        let start = index * self.slot_bytes;
        let bytes = &mut self.bytes[start..start + len];
        bytes[..head.len()].copy_from_slice(head);
        bytes[head.len()..].copy_from_slice(body);
        self.lengths[index] = len;
        self.name_lengths[index] = self.names[index].put(to);
    }

    /// Sends the datagrams from `first` to before `end` as far as the kernel takes them, and returns the number sent.
    ///
    /// # Errors
    /// The kernel does not take the first of them.
    pub fn send(&mut self, socket: BorrowedFd<'_>, first: usize, end: usize) -> io::Result<usize> {
        self.point(first, end);
        for index in first..end {
            self.link(index, index, 1);
        }
        self.send_headers(socket, first, end)
    }

    /// As [`send`](Self::send), but adjacent datagrams of one length to one address pass the kernel as one, which
    /// splits them at the end (UDP_SEGMENT).
    ///
    /// # Errors
    /// As for [`send`](Self::send); also, the route to the address may not carry runs.
    pub fn send_runs(
        &mut self,
        socket: BorrowedFd<'_>,
        first: usize,
        end: usize,
    ) -> io::Result<usize> {
        self.point(first, end);
        let mut begins = [0; BATCH];
        let (mut run_count, mut next) = (0, first);
        while next < end {
            let len = self.run_len(next, end);
            begins[run_count] = next;
            self.link(first + run_count, next, len);
            if len > 1 {
                let segment_bytes = self.lengths[next] as u16;
                self.controls[first + run_count] = Control::of_segments(segment_bytes);
                self.link_control(first + run_count);
            }
            (run_count, next) = (run_count + 1, next + len);
        }
        let taken = self.send_headers(socket, first, first + run_count)?;
        Ok(if taken == run_count { end - first } else { begins[taken] - first })
    }

    /// The number of datagrams from `first` on that go as one: all have one address.
    fn run_len(&self, first: usize, end: usize) -> usize {
        let names = &self.names;
        let alike = (first..end).take_while(|index| names[*index] == names[first]);
        run_len(alike.map(|index| self.lengths[index]))
    }

    fn send_headers(
        &mut self,
        socket: BorrowedFd<'_>,
        first: usize,
        end: usize,
    ) -> io::Result<usize> {
        let headers = &mut self.headers[first..end];
        // SAFETY: the count is that of the slice, and each header points to a name, pieces and perhaps a
        // control block of the lengths it states; all are borrowed here for the whole call.
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

    /// Points the pieces from `first` to before `end` to their bytes, with the lengths stated here.
    fn point(&mut self, first: usize, end: usize) {
        let bytes = self.bytes.as_mut_ptr();
        for index in first..end {
            self.pieces[index] = libc::iovec {
                iov_base: bytes.wrapping_add(index * self.slot_bytes).cast(),
                iov_len: self.lengths[index],
            };
        }
    }

    /// Points a header to the name and the piece at `index`, and to the pieces after it, `count` in all.
    fn link(&mut self, header: usize, index: usize, count: usize) {
        assert!(index + count <= self.slots, "{count} pieces from {index} on");
        let (names, pieces) = (self.names.as_mut_ptr(), self.pieces.as_mut_ptr());
        let header = &mut self.headers[header].msg_hdr;
        header.msg_name = names.wrapping_add(index).cast();
        header.msg_namelen = self.name_lengths[index];
        header.msg_iov = pieces.wrapping_add(index);
        header.msg_iovlen = count as _;
        header.msg_control = ptr::null_mut();
        header.msg_controllen = 0;
    }

    /// Points a header of a sent message to its control block.
    fn link_control(&mut self, index: usize) {
        let control = &raw mut self.controls[index];
        let header = &mut self.headers[index].msg_hdr;
        header.msg_control = control.cast();
        header.msg_controllen = size_of::<Control>() as _;
    }
}

impl Name {
    /// The address to which a socket is bound.
    ///
    /// # Errors
    /// As getsockname(2).
    pub(crate) fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut name = Self([0; NAME_LEN]);
        let mut len = NAME_LEN as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to the name, which is live, and then their number to `len`.
        let result =
            unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut name).cast(), &raw mut len) };
        check(result).map(|_| name)
    }

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

    /// The address; `None` if it is neither IPv4 nor IPv6.
    pub(crate) fn to_address(self) -> Option<SocketAddr> {
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

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, os::fd::AsFd};

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

    fn received(batch: &mut DatagramBatch, socket: &UdpSocket) -> Vec<(usize, Option<usize>)> {
        socket.set_nonblocking(true).unwrap();
        let mut found = Vec::new();
        loop {
            let count = batch.receive(socket.as_fd()).unwrap();
            if count == 0 {
                return found;
            }
            for index in 0..count {
                let received = batch.received(index);
                found.push((received.bytes.len(), received.segment_bytes));
            }
        }
    }

    /// Runs are cut at another address, a longer datagram, and after a shorter one; each datagram arrives as it
    /// was, and together with its run where the receiver joins them.
    #[test]
    fn runs_arrive_as_the_datagrams_they_are() {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (sender, one, other) = (bind(), bind(), bind());
        join_datagrams(one.as_fd()).unwrap();
        let mut batch = DatagramBatch::new(100);
        let lengths = [50, 50, 50, 20, 50, 60, 60, 60];
        for (index, len) in lengths.into_iter().enumerate() {
            let to = if index < 6 { &one } else { &other };
            batch.put(index, to.local_addr().unwrap(), &[7; 10], &vec![8; len - 10]);
        }
        assert_eq!(batch.send_runs(sender.as_fd(), 1, lengths.len()).unwrap(), 7);
        let joined = received(&mut DatagramBatch::for_joined(BATCH), &one);
        assert_eq!(joined, [(120, Some(50)), (50, None), (60, None)]);
        assert_eq!(received(&mut batch, &other), [(60, None); 2]);
        assert_eq!(dropped_datagrams(other.as_fd()).unwrap(), 0);
    }

    /// Datagrams read one by one are handed over like those read at once, up to the first error; an empty datagram is
    /// one.
    #[test]
    fn one_by_one_is_the_same() {
        let mut batch = DatagramBatch::new(100);
        let mut left = 3_usize;
        let count = batch.receive_each(|slot| {
            left = left.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
            slot[0] = 7;
            Ok(usize::from(left > 0))
        });
        assert_eq!(count.unwrap(), 3);
        let datagrams = |index| batch.received(index).datagrams().collect::<Vec<_>>();
        assert_eq!((datagrams(1), datagrams(2)), (vec![&[7_u8][..]], vec![&[][..]]));
        let refused = batch.receive_each(|_| Err(io::ErrorKind::ConnectionRefused.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
