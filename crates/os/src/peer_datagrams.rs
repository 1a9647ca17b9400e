//! Many datagrams to and from one peer in one system call: sendmmsg(2) and recvmmsg(2) on a connected socket, with
//! segmentation by the kernel (UDP_SEGMENT, UDP_GRO) where it is asked for.
//!
//! Invariant: pointers for the kernel are made from live borrows right before the call that uses them,
//! and are not used after it.

use std::{
    io, iter, mem,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use crate::{check, datagrams::set_number, is_not_now};

/// The most datagrams that the kernel makes of one message.
const SEGMENTS_MAX: usize = 64;
/// The most bytes of one message: the longest datagram there is, without its headers.
const MESSAGE_BYTES_MAX: usize = 65_507;
/// How many messages are asked for when the last call found few.
const WANTED_SMALL: usize = 2;

/// True if the kernel splits what is sent on this socket into segments (UDP_SEGMENT, since Linux 4.18).
#[must_use]
pub fn sends_segments(socket: BorrowedFd<'_>) -> bool {
    // No segment size for the whole socket: each message states its own.
    set_number(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok()
}

/// What goes with a message to the kernel, or comes from it: one block of length, level, type and a number.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct Control([u8; 24]);

const WORD: usize = size_of::<usize>();

impl Control {
    /// A message of segments of so many bytes.
    fn segments(bytes: u16) -> Self {
        let mut control = [0; 24];
        control[..WORD].copy_from_slice(&(WORD + 8 + 2).to_ne_bytes());
        control[WORD..WORD + 4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        control[WORD + 4..WORD + 8].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
        control[WORD + 8..WORD + 10].copy_from_slice(&bytes.to_ne_bytes());
        Self(control)
    }

    /// The bytes of each segment but the last, if the first `len` bytes say so.
    fn segment_bytes(&self, len: usize) -> Option<usize> {
        let bytes = self.0.get(..len.min(self.0.len()))?;
        let number = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let is_size = number(WORD)? == libc::SOL_UDP && number(WORD + 4)? == libc::UDP_GRO;
        if is_size { usize::try_from(number(WORD + 8)?).ok() } else { None }
    }
}

/// Datagrams that wait to be sent to the peer of a connected socket, in the order of their sending.
#[derive(Debug)]
pub struct SendQueue {
    bytes: Vec<u8>,
    /// Where each closed datagram begins and ends.
    datagrams: Vec<(usize, usize)>,
    /// So many of them were sent.
    sent: usize,
    /// Where the datagram being filled begins.
    open_from: usize,
    by_segments: bool,
    headers: Headers,
}

impl SendQueue {
    /// An empty queue. With `by_segments` datagrams of one length leave as one message, which the kernel splits:
    /// [`sends_segments`] says whether it can.
    #[must_use]
    pub fn new(by_segments: bool) -> Self {
        Self {
            bytes: Vec::new(),
            datagrams: Vec::new(),
            sent: 0,
            open_from: 0,
            by_segments,
            headers: Headers::default(),
        }
    }

    /// Datagrams that wait, without the one being filled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.datagrams.len() - self.sent
    }

    /// True if no datagram waits but the one being filled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the datagram being filled.
    #[must_use]
    pub fn open_len(&self) -> usize {
        self.bytes.len() - self.open_from
    }

    /// Adds bytes to the datagram being filled.
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The datagram being filled is complete, without its first `left_out` bytes.
    pub fn close(&mut self, left_out: usize) {
        self.datagrams.push((self.open_from + left_out, self.bytes.len()));
        self.open_from = self.bytes.len();
    }

    /// The datagram that is sent next.
    #[must_use]
    pub fn first(&self) -> Option<&[u8]> {
        let &(start, end) = self.datagrams.get(self.sent)?;
        Some(&self.bytes[start..end])
    }

    /// So many datagrams were sent; their memory is used again once all were.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.datagrams.len() {
            self.bytes.drain(..self.open_from);
            self.datagrams.clear();
            (self.sent, self.open_from) = (0, 0);
        }
    }

    /// Sends what waits, as far as the kernel takes it.
    ///
    /// # Errors
    /// The kernel does not take the next datagram, or says what became of an earlier one.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while !self.is_empty() {
            let count = self.headers.send(
                socket,
                &self.bytes,
                &self.datagrams[self.sent..],
                self.by_segments,
            )?;
            self.advance(count);
        }
        Ok(())
    }
}

/// What a call of sendmmsg(2) is given: kept for its memory alone.
#[derive(Debug, Default)]
struct Headers {
    /// One per datagram: where its bytes are.
    pieces: Vec<libc::iovec>,
    /// One per message: its pieces, as their number, and the bytes of a segment if it has several.
    messages: Vec<(usize, u16)>,
    controls: Vec<Control>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in `pieces` and `headers` are written anew before each call that follows
// them, so none of those written on another thread is ever followed.
unsafe impl Send for Headers {}

impl Headers {
    /// Sends datagrams as far as the kernel takes them, and says how many it took: at least one.
    fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        datagrams: &[(usize, usize)],
        by_segments: bool,
    ) -> io::Result<usize> {
        const MESSAGES_MAX: usize = 64;
        self.pieces.clear();
        self.messages.clear();
        let mut rest = datagrams;
        while !rest.is_empty() && self.messages.len() < MESSAGES_MAX {
            let count = if by_segments { run_of(rest) } else { 1 };
            let (run, after) = rest.split_at(count);
            self.pieces.extend(run.iter().map(|&(start, end)| libc::iovec {
                iov_base: bytes[start..end].as_ptr().cast_mut().cast(),
                iov_len: end - start,
            }));
            let (start, end) = run[0];
            let segment = if count > 1 { (end - start) as u16 } else { 0 };
            self.messages.push((count, segment));
            rest = after;
        }
        self.controls.clear();
        self.controls.extend(self.messages.iter().map(|(_, segment)| Control::segments(*segment)));
        self.headers.clear();
        let mut first = 0;
        for ((count, segment), control) in self.messages.iter().zip(&mut self.controls) {
            // SAFETY: an `mmsghdr` is integers and pointers, for which all zeros is a value.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            header.msg_hdr.msg_iov = self.pieces[first..first + count].as_mut_ptr();
            header.msg_hdr.msg_iovlen = *count as _;
            if *segment > 0 {
                header.msg_hdr.msg_control = (&raw mut *control).cast();
                header.msg_hdr.msg_controllen = size_of::<Control>() as _;
            }
            self.headers.push(header);
            first += count;
        }
        // SAFETY: the count is that of the vector, and each header points to pieces of the count and, in them, to
        // bytes of the lengths stated, and to a control block or none; all are borrowed for the whole call, and the
        // kernel only reads them.
        let result = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        let taken = check(result)?;
        Ok(self.messages[..taken].iter().map(|(count, _)| count).sum())
    }
}

/// How many datagrams from the first on may be one message: all as long as the first, but for a shorter last one.
fn run_of(datagrams: &[(usize, usize)]) -> usize {
    let len = |at: &(usize, usize)| at.1 - at.0;
    let first = len(&datagrams[0]);
    if first == 0 {
        return 1;
    }
    let count_max = SEGMENTS_MAX.min(MESSAGE_BYTES_MAX / first).max(1);
    let alike = datagrams.iter().take(count_max).take_while(|it| len(it) == first).count();
    let is_shorter = |it: &(usize, usize)| (1..first).contains(&len(it));
    alike + usize::from(alike < count_max && datagrams.get(alike).is_some_and(is_shorter))
}

/// Room for what a call of recvmmsg(2) takes from the peer of a connected socket.
#[derive(Debug)]
pub struct ReceiveBatch {
    message_bytes_max: usize,
    wanted: usize,
    bytes: Box<[u8]>,
    controls: Box<[Control]>,
    /// One per message: where its bytes are.
    pieces: Box<[libc::iovec]>,
    /// One per message: where its piece and its control block are.
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers in `pieces` and `headers` are written anew before each call that follows
// them, so none of those written on another thread is ever followed.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Room for so many messages of up to so many bytes each. Pages that no message reaches are not touched.
    #[must_use]
    pub fn new(messages_max: usize, message_bytes_max: usize) -> Self {
        let piece = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        // SAFETY: an `mmsghdr` is integers and pointers, for which all zeros is a value.
        let header: libc::mmsghdr = unsafe { mem::zeroed() };
        Self {
            message_bytes_max,
            wanted: WANTED_SMALL.min(messages_max),
            bytes: vec![0; messages_max * message_bytes_max].into_boxed_slice(),
            controls: vec![Control([0; 24]); messages_max].into_boxed_slice(),
            pieces: vec![piece; messages_max].into_boxed_slice(),
            headers: vec![header; messages_max].into_boxed_slice(),
        }
    }

    /// Receives what waits, as far as there is room, without blocking; 0 if nothing does.
    ///
    /// # Errors
    /// The socket reports an error, for example of an earlier send.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let wanted = self.wanted;
        let (bytes, pieces) = (self.bytes.as_mut_ptr(), self.pieces.as_mut_ptr());
        let controls = self.controls.as_mut_ptr();
        for index in 0..wanted {
            self.pieces[index] = libc::iovec {
                iov_base: bytes.wrapping_add(index * self.message_bytes_max).cast(),
                iov_len: self.message_bytes_max,
            };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = pieces.wrapping_add(index);
            header.msg_iovlen = 1;
            header.msg_control = controls.wrapping_add(index).cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        let headers = &mut self.headers[..wanted];
        // SAFETY: the count is that of the slice, and each header points to a piece and a control block of the
        // lengths it states, all borrowed here for the whole of the call.
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
        let small = WANTED_SMALL.min(self.headers.len());
        self.wanted = if count < wanted { small } else { self.headers.len() };
        Ok(count)
    }

    /// Has `read` put a datagram into each place until there is no more, as [`receive`](Self::receive) does at once.
    ///
    /// # Errors
    /// As `read` says, if it is the first to be asked for.
    pub fn receive_each(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let places = self.bytes.chunks_exact_mut(self.message_bytes_max);
        for (index, (place, header)) in iter::zip(places, &mut self.headers).enumerate() {
            match read(place) {
                Ok(len) => header.msg_len = len as libc::c_uint,
                Err(error) if is_not_now(&error) => return Ok(index),
                Err(_) if index > 0 => return Ok(index),
                Err(error) => return Err(error),
            }
            header.msg_hdr.msg_controllen = 0;
        }
        Ok(self.headers.len())
    }

    /// The datagrams of the message at `index`, which is below what the last call returned.
    pub fn datagrams(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let header = &self.headers[index];
        let len = (header.msg_len as usize).min(self.message_bytes_max);
        #[allow(clippy::unnecessary_cast, reason = "its type is not the same in every libc")]
        let control_len = header.msg_hdr.msg_controllen as usize;
        let segment = self.controls[index].segment_bytes(control_len).filter(|bytes| *bytes > 0);
        let start = index * self.message_bytes_max;
        let bytes = &self.bytes[start..start + len];
        // A datagram may be empty, and has no segments then.
        let empty = len == 0;
        iter::once(bytes).filter(move |_| empty).chain(bytes.chunks(segment.unwrap_or(len.max(1))))
    }
}

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, os::fd::AsFd};

    use super::*;
    use crate::join_datagrams;

    fn pair() -> (UdpSocket, UdpSocket) {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        sockets[0].connect(sockets[1].local_addr().unwrap()).unwrap();
        sockets[1].connect(sockets[0].local_addr().unwrap()).unwrap();
        let [one, other] = sockets;
        (one, other)
    }

    /// Datagrams of many lengths, an empty one among them.
    fn datagrams() -> Vec<Vec<u8>> {
        let lengths = [50, 50, 50, 9, 50, 50, 9, 9, 9, 0, 50, 1_400, 1_400, 1_399, 1_400, 50];
        lengths.iter().enumerate().map(|(at, &length)| vec![at as u8; length]).collect()
    }

    fn received(batch: &mut ReceiveBatch, socket: &UdpSocket) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let count = batch.receive(socket.as_fd()).unwrap();
            if count == 0 {
                return all;
            }
            (0..count).for_each(|at| all.extend(batch.datagrams(at).map(<[u8]>::to_vec)));
        }
    }

    /// The same datagrams arrive in the same order, however they are handed to the kernel and taken from it.
    #[test]
    fn datagrams_arrive_as_they_were_put() {
        for (by_segments, gathered) in [(false, false), (true, false), (true, true)] {
            let (near, far) = pair();
            if by_segments && !sends_segments(near.as_fd()) {
                println!("skipped: this kernel has no UDP_SEGMENT");
                continue;
            }
            if gathered && join_datagrams(far.as_fd()).is_err() {
                println!("skipped: this kernel has no UDP_GRO");
                continue;
            }
            let mut queue = SendQueue::new(by_segments);
            for datagram in datagrams() {
                queue.append(b"??");
                queue.append(&datagram);
                queue.close(2);
            }
            queue.append(b"open");
            queue.send(near.as_fd()).unwrap();
            assert_eq!((queue.len(), queue.open_len()), (0, 4));
            let mut batch = ReceiveBatch::new(16, 65_536);
            assert_eq!(received(&mut batch, &far), datagrams(), "{by_segments} {gathered}");
            queue.close(0);
            queue.send(near.as_fd()).unwrap();
            assert_eq!(received(&mut batch, &far), [b"open"]);
        }
    }

    /// A message has datagrams of one length, of which only the last may be shorter, and is no longer than one may be.
    #[test]
    fn runs_are_what_the_kernel_splits_alike() {
        let ranges = |lengths: &[usize]| -> Vec<(usize, usize)> {
            let mut end = 0;
            let next = |len: &usize| {
                end += len;
                (end - len, end)
            };
            lengths.iter().map(next).collect()
        };
        let run = |lengths: &[usize]| run_of(&ranges(lengths));
        assert_eq!(run(&[50, 50, 9, 9]), 3);
        assert_eq!(run(&[9, 50, 50]), 1);
        assert_eq!(run(&[50, 50]), 2);
        assert_eq!(run(&[50, 0]), 1);
        assert_eq!(run(&[0, 0]), 1);
        assert_eq!(run(&[50; 100]), SEGMENTS_MAX);
        assert_eq!(run(&[1_400; 100]), 46);
        assert_eq!(run(&[65_507, 1]), 1);
    }

    /// What is read one by one is handed over like what comes at once, up to the first error.
    #[test]
    fn one_by_one_is_the_same() {
        let mut batch = ReceiveBatch::new(4, 100);
        let mut left = 2_usize;
        let count = batch.receive_each(|place| {
            left = left.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
            place[0] = 7;
            Ok(1)
        });
        assert_eq!(count.unwrap(), 2);
        assert_eq!(batch.datagrams(1).collect::<Vec<_>>(), [[7]]);
        let refused = batch.receive_each(|_| Err(io::ErrorKind::ConnectionRefused.into()));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
