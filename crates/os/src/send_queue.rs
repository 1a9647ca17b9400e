//! Many datagrams to one peer in one system call: sendmmsg(2) on a connected socket, with segmentation by the kernel
//! (UDP_SEGMENT) where requested.
//!
//! Invariant: pointers for the kernel are made from live borrows right before the call that uses them,
//! and are not used after it.

use std::{
    io, mem,
    os::fd::{AsRawFd, BorrowedFd},
};

use crate::{
    check,
    segments::{Control, run_len},
    socket_option::set_number,
};

/// True if the kernel splits messages sent on this socket into segments (UDP_SEGMENT, since Linux 4.18).
#[must_use]
pub fn sends_segments(socket: BorrowedFd<'_>) -> bool {
    // No segment size for the whole socket: each message states its own.
    set_number(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok()
}

/// Datagrams that wait to be sent to the peer of a connected socket, in the order of sending.
#[derive(Debug)]
pub struct SendQueue {
    bytes: Vec<u8>,
    /// The beginning and end of each closed datagram, in bytes.
    datagrams: Vec<(usize, usize)>,
    /// The number of datagrams sent.
    sent: usize,
    /// The beginning of the datagram being filled, in bytes.
    open_from: usize,
    by_segments: bool,
    headers: Headers,
}

impl SendQueue {
    /// An empty queue. With `by_segments` datagrams of one length leave as one message, which the kernel splits:
    /// [`sends_segments`] returns whether it can.
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

    /// The number of datagrams that wait, without the one being filled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.datagrams.len() - self.sent
    }

    /// True if no datagram waits except the one being filled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of the datagram being filled, in bytes.
    #[must_use]
    pub fn open_len(&self) -> usize {
        self.bytes.len() - self.open_from
    }

    /// Adds bytes to the datagram being filled.
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Completes the datagram being filled, without its first `left_out` bytes.
    pub fn close(&mut self, left_out: usize) {
        self.datagrams.push((self.open_from + left_out, self.bytes.len()));
        self.open_from = self.bytes.len();
    }

    /// The next datagram to send.
    #[must_use]
    pub fn first(&self) -> Option<&[u8]> {
        let &(start, end) = self.datagrams.get(self.sent)?;
        Some(&self.bytes[start..end])
    }

    /// Marks `count` datagrams as sent; their memory is used again once all are.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.datagrams.len() {
            self.bytes.drain(..self.open_from);
            self.datagrams.clear();
            (self.sent, self.open_from) = (0, 0);
        }
    }

    /// Sends the waiting datagrams, as far as the kernel takes them.
    ///
    /// # Errors
    /// The kernel does not take the next datagram, or reports the failure of an earlier one.
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

/// The arguments of sendmmsg(2), kept to reuse their memory.
#[derive(Debug, Default)]
struct Headers {
    /// One per datagram: the place of its bytes.
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
    /// Sends datagrams as far as the kernel takes them, and returns the number taken: at least one.
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
            let lengths = rest.iter().map(|(start, end)| end - start);
            let count = if by_segments { run_len(lengths) } else { 1 };
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
        self.controls
            .extend(self.messages.iter().map(|(_, segment)| Control::of_segments(*segment)));
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

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, os::fd::AsFd};

    use super::*;
    use crate::{DatagramBatch, join_datagrams};

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

    fn received(batch: &mut DatagramBatch, socket: &UdpSocket) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let count = batch.receive(socket.as_fd()).unwrap();
            if count == 0 {
                return all;
            }
            (0..count)
                .for_each(|at| all.extend(batch.received(at).datagrams().map(<[u8]>::to_vec)));
        }
    }

    /// The same datagrams arrive in the same order, however they are passed to the kernel and taken from it.
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
            let mut batch = DatagramBatch::for_joined(16);
            assert_eq!(received(&mut batch, &far), datagrams(), "{by_segments} {gathered}");
            queue.close(0);
            queue.send(near.as_fd()).unwrap();
            assert_eq!(received(&mut batch, &far), [b"open"]);
        }
    }
}
