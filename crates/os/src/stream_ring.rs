//! Connections by io_uring(7): they are accepted, and their bytes arrive, without a call for each.
//!
//! Invariant: bytes that were received are the caller's until they are given back.

use std::{
    fmt, io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use io_uring::{opcode, squeue, types};

use crate::buffer_ring::{BufferRing, Completion, GROUP};

/// The kind of a completion stands above the token of a connection.
const KIND_SHIFT: u32 = 60;
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const WRITABLE: u64 = 2;
const CANCEL: u64 = 3;

/// The greatest token.
pub const STREAM_TOKEN_MAX: u64 = (1 << KIND_SHIFT) - 1;

/// Accepts connections and receives from them, into buffers that the kernel takes from those given to it. All of it
/// happens on the first thread that calls it.
pub struct StreamRing {
    ring: BufferRing,
}

/// An event of a ring.
#[derive(Debug)]
pub enum StreamEvent {
    /// A connection, or the reason why none could be accepted.
    Accepted(io::Result<OwnedFd>),
    /// No further connection is accepted until the next request.
    AcceptingEnded,
    /// Bytes of a connection.
    Received {
        /// The token of the connection.
        token: u64,
        /// The bytes, still in their buffer.
        bytes: ReceivedBytes,
    },
    /// No further bytes are received until the next request.
    ReceivingEnded {
        /// The token of the connection.
        token: u64,
        /// The reason.
        end: StreamEnd,
    },
    /// The connection takes bytes again.
    Writable {
        /// The token of the connection.
        token: u64,
    },
}

/// The reason why no further bytes are received.
#[derive(Debug)]
pub enum StreamEnd {
    /// The peer has ended its stream.
    Finished,
    /// No buffer was left, or the caller paused the connection.
    Paused,
    /// The connection is broken.
    Broken(io::Error),
}

/// Bytes in a buffer, to be given back.
#[derive(Debug)]
pub struct ReceivedBytes {
    /// The address of the buffers, which only one ring has.
    ring: usize,
    buffer: u16,
    len: usize,
}

impl ReceivedBytes {
    /// The number of bytes, at least 1.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// False: there is at least one.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl StreamRing {
    /// A ring with this many buffers, a power of two up to 32,768, of this many bytes.
    ///
    /// # Errors
    /// The system has no io_uring (ENOSYS), does not let this process use it (EPERM), has no memory for it (ENOMEM), or
    /// cannot provide buffers this way: Linux before 6.0.
    pub fn new(buffer_count: u16, buffer_len: usize) -> io::Result<Self> {
        Ok(Self { ring: BufferRing::new(buffer_count, buffer_len, None)? })
    }

    /// Accepts connections from now on.
    ///
    /// # Errors
    /// The kernel does not take the request.
    pub fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let accept = opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).flags(flags);
        self.request(&accept.build(), ACCEPT, 0)
    }

    /// Stops accepting; an [`AcceptingEnded`](StreamEvent::AcceptingEnded) reports when it has ended.
    ///
    /// # Errors
    /// The kernel does not take the request.
    pub fn pause_accepting(&mut self) -> io::Result<()> {
        self.request(&opcode::AsyncCancel::new(ACCEPT << KIND_SHIFT).build(), CANCEL, 0)
    }

    /// Receives from a connection from now on.
    ///
    /// # Errors
    /// The kernel does not take the request.
    pub fn receive(&mut self, connection: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let receive = opcode::RecvMulti::new(types::Fd(connection.as_raw_fd()), GROUP);
        self.request(&receive.build(), RECEIVE, token)
    }

    /// Stops receiving from a connection; a [`ReceivingEnded`](StreamEvent::ReceivingEnded) reports when it has ended.
    ///
    /// # Errors
    /// The kernel does not take the request.
    pub fn pause(&mut self, token: u64) -> io::Result<()> {
        self.request(
            &opcode::AsyncCancel::new(RECEIVE << KIND_SHIFT | token).build(),
            CANCEL,
            token,
        )
    }

    /// Reports once when a connection takes bytes, or is broken.
    ///
    /// # Errors
    /// The kernel does not take the request.
    pub fn report_writable(&mut self, connection: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let poll = opcode::PollAdd::new(types::Fd(connection.as_raw_fd()), libc::POLLOUT as u32);
        self.request(&poll.build(), WRITABLE, token)
    }

    /// Hands a request to the kernel, which resolves the descriptor before this returns.
    fn request(&mut self, entry: &squeue::Entry, kind: u64, token: u64) -> io::Result<()> {
        assert!(token <= STREAM_TOKEN_MAX, "token {token}");
        // SAFETY: the requests made here point to no memory but the provided buffers.
        unsafe { self.ring.request(entry, kind << KIND_SHIFT | token) }
    }

    /// Appends the events since the last call to `events`. Usually makes no system call.
    ///
    /// # Errors
    /// Only a fault of this program.
    pub fn poll(&mut self, events: &mut Vec<StreamEvent>) -> io::Result<()> {
        self.ring.poll(|buffers, completion| {
            let Completion { user_data, result, buffer, goes_on } = completion;
            let (kind, token) = (user_data >> KIND_SHIFT, user_data & STREAM_TOKEN_MAX);
            match kind {
                ACCEPT => {
                    // SAFETY: the kernel has just created the descriptor, and no other code has it.
                    let accepted = result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
                    events.push(StreamEvent::Accepted(accepted));
                    if !goes_on {
                        events.push(StreamEvent::AcceptingEnded);
                    }
                }
                RECEIVE => {
                    let end = match (result, buffer) {
                        (Ok(0), _) => Some(StreamEnd::Finished),
                        (Ok(len), Some(buffer)) => {
                            let ring = buffers.address();
                            let bytes = ReceivedBytes { ring, buffer, len: len as usize };
                            events.push(StreamEvent::Received { token, bytes });
                            (!goes_on).then_some(StreamEnd::Paused)
                        }
                        (Ok(len), None) => unreachable!("{len} bytes in no buffer"),
                        (Err(error), _) => match error.raw_os_error() {
                            Some(libc::ENOBUFS | libc::ECANCELED) => Some(StreamEnd::Paused),
                            _ => Some(StreamEnd::Broken(error)),
                        },
                    };
                    if let Some(end) = end {
                        events.push(StreamEvent::ReceivingEnded { token, end });
                    }
                }
                WRITABLE => events.push(StreamEvent::Writable { token }),
                // A cancel without effect: its request has ended.
                _ => {}
            }
        })
    }

    /// The bytes of a buffer.
    #[must_use]
    pub fn bytes(&self, received: &ReceivedBytes) -> &[u8] {
        let buffers = self.ring.buffers();
        assert!(received.ring == buffers.address(), "the bytes are of another ring");
        // SAFETY: the completion named the buffer, and giving it back would consume `received`.
        unsafe { buffers.bytes(received.buffer, received.len) }
    }

    /// Lets the kernel fill the buffer again.
    pub fn give_back(&mut self, received: ReceivedBytes) {
        let buffers = self.ring.buffers_mut();
        assert!(received.ring == buffers.address(), "the bytes are of another ring");
        buffers.give(received.buffer);
    }
}

impl fmt::Debug for StreamRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRing").field("fd", &self.as_fd()).finish_non_exhaustive()
    }
}

impl AsFd for StreamRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{Shutdown, TcpListener, TcpStream},
    };

    use super::*;

    fn until(ring: &mut StreamRing, mut holds: impl FnMut(&mut StreamRing, StreamEvent) -> bool) {
        let mut events = Vec::new();
        loop {
            ring.poll(&mut events).unwrap();
            for event in events.drain(..) {
                if holds(ring, event) {
                    return;
                }
            }
            std::thread::yield_now();
        }
    }

    /// A connection is accepted, and its bytes arrive in order, through buffers that go round many times; a pause and the
    /// end are reported.
    #[test]
    fn bytes_arrive_through_few_buffers() {
        let mut ring = match StreamRing::new(8, 512) {
            Ok(ring) => ring,
            Err(error) => {
                let text = format!("skipped: bytes_arrive_through_few_buffers: {error}\n");
                return io::stderr().write_all(text.as_bytes()).unwrap();
            }
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        ring.accept(listener.as_fd()).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut accepted = None;
        until(&mut ring, |_, event| match event {
            StreamEvent::Accepted(connection) => {
                accepted = Some(TcpStream::from(connection.unwrap()));
                true
            }
            other => panic!("{other:?}"),
        });
        let mut server = accepted.unwrap();
        ring.receive(server.as_fd(), 7).unwrap();
        let sent: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
        let mut got = Vec::new();
        for part in sent.chunks(3_000) {
            client.write_all(part).unwrap();
            let wanted = got.len() + part.len();
            until(&mut ring, |ring, event| {
                match event {
                    StreamEvent::Received { token: 7, bytes } => {
                        got.extend_from_slice(ring.bytes(&bytes));
                        ring.give_back(bytes);
                    }
                    StreamEvent::ReceivingEnded { token: 7, end: StreamEnd::Paused } => {
                        ring.receive(server.as_fd(), 7).unwrap();
                    }
                    other => panic!("{other:?}"),
                }
                got.len() == wanted
            });
        }
        assert!(got == sent);
        ring.pause(7).unwrap();
        until(&mut ring, |_, event| {
            matches!(event, StreamEvent::ReceivingEnded { end: StreamEnd::Paused, .. })
        });
        ring.receive(server.as_fd(), 7).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        until(&mut ring, |_, event| {
            matches!(event, StreamEvent::ReceivingEnded { end: StreamEnd::Finished, .. })
        });
        ring.report_writable(server.as_fd(), 7).unwrap();
        until(&mut ring, |_, event| matches!(event, StreamEvent::Writable { token: 7 }));
        server.write_all(b"bye").unwrap();
        drop(server);
        let mut last = Vec::new();
        client.read_to_end(&mut last).unwrap();
        assert_eq!(last, b"bye");
    }
}
