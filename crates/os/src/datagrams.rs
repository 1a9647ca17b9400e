//! Many datagrams in one system call: recvmmsg(2), sendmmsg(2).
//!
//! Invariant: pointers for the kernel are made from live borrows right before the call that uses them,
//! and are not used after it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use crate::{check, is_not_now};

/// How many datagrams cross into or out of the kernel in one call, at most.
pub const BATCH: usize = 64;
/// How many datagrams are asked for when the last call found few: less to prepare where nothing
/// comes, which is most calls of an agent that does not sleep.
const BATCH_SMALL: usize = 8;

/// Asks that each received datagram carries how many the socket has dropped (SO_RXQ_OVFL).
///
/// # Errors
/// The socket is not one of datagrams.
pub fn count_drops(socket: BorrowedFd<'_>) -> io::Result<()> {
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
pub struct DatagramBatch {
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
unsafe impl Send for DatagramBatch {}

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

impl DatagramBatch {
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
}
