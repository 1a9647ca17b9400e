//! Datagrams from a queue of a network card, and datagrams that came through the network stack.
//!
//! Invariant: neither keeps the other from being read.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use os::{BATCH, DatagramBatch, Epoll, Received, XdpRing};
use socket2::Socket;

use super::{UdpOptions, incoming::take_batch};

/// The socket is read in a turn in which the queue was empty, and in one turn of this many in any case.
const SOCKET_TURNS: u32 = 16;
/// The bytes of a receive buffer that the system charges for a waiting datagram of one order; the queue has as much
/// room.
const BYTES_PER_DATAGRAM: usize = 1024;
/// Limits of the number of frames of a queue, each of 4 KiB.
const FRAMES_MIN: usize = 64;
const FRAMES_MAX: usize = 16 << 10;

pub(super) struct Queue {
    ring: XdpRing,
    batch: DatagramBatch,
    turn: u32,
    may_have_more: bool,
}

impl Queue {
    pub(super) fn new(queue: u32, socket: &Socket, options: &UdpOptions) -> io::Result<Self> {
        let Some(SocketAddr::V4(address)) = socket.local_addr()?.as_socket() else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is for IPv4"));
        };
        let frames = options.receive_buffer_bytes / BYTES_PER_DATAGRAM;
        let frames = frames.next_power_of_two().clamp(FRAMES_MIN, FRAMES_MAX);
        Ok(Self {
            ring: XdpRing::new(address, queue, frames as u32)?,
            batch: DatagramBatch::new(options.datagram_bytes_max),
            turn: 0,
            may_have_more: false,
        })
    }

    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        mut take: impl FnMut(Received<'_>),
    ) -> io::Result<()> {
        let count = self.ring.receive(&mut take)?;
        self.may_have_more = count == BATCH;
        self.turn = self.turn.wrapping_add(1);
        if count == 0 || self.turn.is_multiple_of(SOCKET_TURNS) {
            take_batch(&mut self.batch, socket, &mut take)?;
            self.may_have_more |= self.batch.is_full();
        }
        Ok(())
    }

    pub(super) const fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    pub(super) const fn damaged(&self) -> u64 {
        self.ring.damaged()
    }

    /// A descriptor that is readable when either has datagrams.
    pub(super) fn readiness(&self, socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let both = Epoll::new(1)?;
        both.add_for_bytes(self.ring.as_fd())?;
        both.add_for_bytes(socket)?;
        both.as_fd().try_clone_to_owned()
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
