//! Datagrams of one socket by io_uring(7): one request, and the kernel puts each datagram that arrives into a buffer.
//!
//! Invariant: a datagram is handed over once; a buffer is given back before the call that handed it over returns.

use std::{
    fmt,
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::net::UnixDatagram,
    },
    thread,
    time::Duration,
};

use io_uring::{opcode, types};

use crate::{
    buffer_ring::{BufferRing, Completion, GROUP},
    datagrams::{Name, Received},
};

/// User data of the one request that receives, and of one that ends it.
const RECEIVE: u64 = 0;
const CANCEL: u64 = 1;
/// The length of the kernel's header before the name of the sender (`struct io_uring_recvmsg_out`).
const HEAD_LEN: usize = 16;
/// Buffers begin at a cache line, of this many bytes.
const ALIGNMENT: usize = 64;
/// The number of looks for a completion that must come at once, and the time between two.
const LOOKS: u32 = 200;
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Receives datagrams from one socket without a call for each. Everything happens on the thread that receives first.
pub struct DatagramRing {
    ring: BufferRing,
    socket: OwnedFd,
    /// Gives the length of a name. The kernel may read it again whenever it goes on, so it is never freed.
    header: &'static libc::msghdr,
    is_receiving: bool,
    exhausted: u64,
}

// SAFETY: the pointers in the header are null.
unsafe impl Send for DatagramRing {}

impl DatagramRing {
    /// A ring for this socket, with this many buffers, a power of two up to 2,048, each for a datagram of up to this
    /// many bytes. With a core given, a thread of the kernel receives, and occupies that core (IORING_SETUP_SQPOLL).
    ///
    /// # Errors
    /// The system has no io_uring (ENOSYS), does not let this process use it (EPERM), has no memory for it (ENOMEM), cannot
    /// provide buffers this way (EINVAL; Linux before 6.0), or the process may not use that core (EINVAL).
    pub fn new(
        socket: BorrowedFd<'_>,
        buffer_count: u16,
        datagram_bytes_max: usize,
        poller_core: Option<usize>,
    ) -> io::Result<Self> {
        // A completion for each, and its end, must have room.
        assert!(buffer_count <= 2_048, "{buffer_count} buffers");
        let poller_core = poller_core.map(u32::try_from).transpose();
        let poller_core = poller_core.map_err(|_| ErrorKind::InvalidInput)?;
        let buffer_len =
            (HEAD_LEN + size_of::<Name>() + datagram_bytes_max).next_multiple_of(ALIGNMENT);
        // SAFETY: a `msghdr` is integers and pointers, for which all zeros is a value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_namelen = size_of::<Name>() as libc::socklen_t;
        Ok(Self {
            ring: BufferRing::new(buffer_count, buffer_len, poller_core)?,
            socket: socket.try_clone_to_owned()?,
            header: Box::leak(Box::new(header)),
            is_receiving: false,
            exhausted: 0,
        })
    }

    /// Receives a datagram on a separate socket, to check that this system can.
    ///
    /// # Errors
    /// As for [`new`](Self::new); also, the system cannot receive many datagrams by one request: Linux before 6.0.
    pub fn probe(poller_core: Option<usize>) -> io::Result<()> {
        let (near, far) = UnixDatagram::pair()?;
        near.send(b"probe")?;
        let mut ring = Self::new(far.as_fd(), 2, 16, poller_core)?;
        for _ in 0..LOOKS {
            let mut is_there = false;
            ring.receive(|received| is_there |= received.bytes == b"probe")?;
            if is_there {
                return Ok(());
            }
            thread::sleep(LOOK_INTERVAL);
        }
        Err(io::Error::new(ErrorKind::TimedOut, "a datagram that was sent did not arrive"))
    }

    /// Hands over the datagrams since the last call, and returns their number. Usually makes no system call.
    ///
    /// # Errors
    /// The socket reports an error.
    pub fn receive(&mut self, mut deliver: impl FnMut(Received<'_>)) -> io::Result<usize> {
        self.request()?;
        let Self { ring, header, is_receiving, exhausted, .. } = self;
        let (mut count, mut failure) = (0, None);
        ring.poll(|buffers, completion| {
            let Completion { user_data, result, buffer, goes_on } = completion;
            if user_data != RECEIVE {
                return;
            }
            *is_receiving = goes_on;
            match (result, buffer) {
                (Ok(len), Some(buffer)) => {
                    // SAFETY: the completion has named the buffer, which is given back below.
                    let bytes = unsafe { buffers.bytes(buffer, len as usize) };
                    let out = types::RecvMsgOut::parse(bytes, header);
                    let out = out.expect("the kernel writes the head and the room of the name");
                    deliver(Received::of_ring(&out));
                    buffers.give(buffer);
                    count += 1;
                }
                (Ok(_), None) => {}
                (Err(error), _) => match error.raw_os_error() {
                    // Datagrams stay with the socket until the next request.
                    Some(libc::ENOBUFS) => *exhausted += 1,
                    Some(libc::ECANCELED | libc::EINTR | libc::EAGAIN) => {}
                    _ => failure = Some(error),
                },
            }
        })?;
        match failure {
            Some(error) => Err(error),
            // Every buffer is free again, also if the last one was used or an empty datagram ended the request.
            None => self.request().map(|()| count),
        }
    }

    /// Requests datagrams from the kernel, unless a request is active.
    fn request(&mut self) -> io::Result<()> {
        if self.is_receiving {
            return Ok(());
        }
        let socket = types::Fd(self.socket.as_raw_fd());
        let receive = opcode::RecvMsgMulti::new(socket, self.header, GROUP).build();
        // SAFETY: the header is never freed.
        unsafe { self.ring.request(&receive, RECEIVE) }?;
        self.is_receiving = true;
        Ok(())
    }

    /// The number of times that no buffer was left for a datagram, which then waited in the socket.
    #[must_use]
    pub const fn exhausted(&self) -> u64 {
        self.exhausted
    }
}

impl Drop for DatagramRing {
    /// Ends the request, which holds the socket and its port, if the kernel does so soon.
    fn drop(&mut self) {
        if !self.is_receiving {
            return;
        }
        let cancel = opcode::AsyncCancel::new(RECEIVE).build();
        // SAFETY: it points to no memory.
        if unsafe { self.ring.request(&cancel, CANCEL) }.is_err() {
            return;
        }
        let mut is_receiving = true;
        for _ in 0..LOOKS {
            let polled = self.ring.poll(|buffers, completion| {
                if completion.user_data == RECEIVE {
                    is_receiving = completion.goes_on;
                    completion.buffer.into_iter().for_each(|buffer| buffers.give(buffer));
                }
            });
            if !is_receiving || polled.is_err() {
                return;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl fmt::Debug for DatagramRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramRing").field("fd", &self.as_fd()).finish_non_exhaustive()
    }
}

impl AsFd for DatagramRing {
    /// Readable when a datagram has arrived, once the ring was received from.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{Ipv4Addr, SocketAddr, UdpSocket},
    };

    use super::*;

    fn bind() -> UdpSocket {
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
    }

    /// Runs a test where the system has these rings, otherwise prints that it does not.
    fn with_ring(name: &str, test: impl FnOnce(&UdpSocket, DatagramRing)) {
        let socket = bind();
        match DatagramRing::probe(None) {
            Ok(()) => {
                let ring = DatagramRing::new(socket.as_fd(), 8, 100, None).unwrap();
                test(&socket, ring);
            }
            Err(error) => {
                let text = format!("skipped: datagram_ring::{name}: {error}\n");
                io::stderr().write_all(text.as_bytes()).unwrap();
            }
        }
    }

    /// Receives `count` datagrams: their senders, their bytes, and whether they were cut.
    fn until(ring: &mut DatagramRing, count: usize) -> Vec<(Option<SocketAddr>, Vec<u8>, bool)> {
        let mut got = Vec::new();
        while got.len() < count {
            ring.receive(|it| got.push((it.from, it.bytes.to_vec(), it.truncated))).unwrap();
        }
        got
    }

    /// Datagrams arrive in order through reused buffers, empty ones too, each with its sender; a long one is cut, and
    /// marked as such.
    #[test]
    fn datagrams_arrive_through_few_buffers() {
        with_ring("datagrams_arrive_through_few_buffers", |socket, mut ring| {
            let (one, other) = (bind(), bind());
            let from = [&one, &other].map(|sender| Some(sender.local_addr().unwrap()));
            for number in 0..200_usize {
                let bytes = vec![number as u8; number % 101];
                let sender = if number % 3 == 0 { &other } else { &one };
                sender.send_to(&bytes, socket.local_addr().unwrap()).unwrap();
                let wanted = (from[usize::from(number % 3 == 0)], bytes, false);
                assert_eq!(until(&mut ring, 1), [wanted], "{number}");
            }
            one.send_to(&[7; 1_000], socket.local_addr().unwrap()).unwrap();
            let (sender, bytes, truncated) = until(&mut ring, 1).remove(0);
            assert!(truncated && bytes.len() >= 100 && bytes.iter().all(|byte| *byte == 7));
            assert_eq!(sender, from[0]);
            assert_eq!(ring.exhausted(), 0);
        });
    }

    /// More than the buffers hold is counted, waits with the socket, and arrives; empty datagrams, which end a request, cost
    /// those behind them nothing.
    #[test]
    fn exhausted_buffers_recover() {
        with_ring("exhausted_buffers_recover", |socket, mut ring| {
            let sender = bind();
            for number in 0..100_u8 {
                let bytes = [number; 3];
                let bytes = if number % 10 == 9 { &[] } else { &bytes[..] };
                sender.send_to(bytes, socket.local_addr().unwrap()).unwrap();
            }
            let got = until(&mut ring, 100);
            for (number, (_, bytes, _)) in got.iter().enumerate() {
                let wanted = if number % 10 == 9 { vec![] } else { vec![number as u8; 3] };
                assert_eq!(*bytes, wanted, "{number}");
            }
            assert!(0 < ring.exhausted(), "8 buffers held 100 datagrams");
        });
    }

    /// The port of a socket is free again once its ring is gone.
    #[test]
    fn a_ring_that_is_gone_holds_no_port() {
        with_ring("a_ring_that_is_gone_holds_no_port", |_, ring| {
            drop(ring);
            let socket = bind();
            let address = socket.local_addr().unwrap();
            let mut ring = DatagramRing::new(socket.as_fd(), 8, 100, None).unwrap();
            ring.receive(|_| {}).unwrap();
            drop(socket);
            assert!(UdpSocket::bind(address).is_err(), "the ring holds it");
            drop(ring);
            UdpSocket::bind(address).unwrap();
        });
    }

    /// A core that is not there is refused, also where it is for the kernel's thread.
    #[test]
    fn a_poller_needs_its_core() {
        assert!(DatagramRing::probe(Some(100_000)).is_err());
        assert!(DatagramRing::probe(Some(usize::MAX)).is_err());
    }
}
