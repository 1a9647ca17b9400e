//! The incoming side of a [`Udp`](super::Udp): one of the backends of [`UdpBackend`].
//!
//! Invariant: the datagrams a socket has received are handed over by the backend in use, in the order of arrival
//! there.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use socket2::Socket;

use os::{DatagramBatch, DatagramRing, Received};

#[cfg(feature = "af-xdp")]
use super::queue::Queue;
use super::{UdpBackend, UdpOptions};
use crate::counters::UdpLossCounters;

/// The number of messages that one call receives where each may be joined from many datagrams: their room is 2 MiB.
const BATCH_JOINED: usize = 32;
/// The number of buffers of a socket that receives by io_uring: 1 MiB of datagrams of 2,048 bytes.
const RING_BUFFERS: u16 = 512;

/// The backend in use, with its buffers.
pub(super) enum Incoming {
    Batch(DatagramBatch),
    Ring {
        ring: Box<DatagramRing>,
        /// True if the last look found datagrams, so that the next one may too.
        may_have_more: bool,
    },
    #[cfg(feature = "af-xdp")]
    Queue(Box<Queue>),
}

impl Incoming {
    pub(super) fn new(
        backend: UdpBackend,
        socket: &Socket,
        options: &UdpOptions,
    ) -> io::Result<Self> {
        let datagram_bytes_max = options.datagram_bytes_max;
        match backend {
            UdpBackend::Mmsg => Ok(Self::Batch(DatagramBatch::new(datagram_bytes_max))),
            UdpBackend::Gro => {
                os::join_datagrams(socket.as_fd())?;
                Ok(Self::Batch(DatagramBatch::for_joined(BATCH_JOINED)))
            }
            UdpBackend::IoUring { poller_core } => {
                DatagramRing::probe(poller_core)?;
                let socket = socket.as_fd();
                let ring =
                    DatagramRing::new(socket, RING_BUFFERS, datagram_bytes_max, poller_core)?;
                Ok(Self::Ring { ring: Box::new(ring), may_have_more: false })
            }
            #[cfg(feature = "af-xdp")]
            UdpBackend::Xdp { queue } => {
                Ok(Self::Queue(Box::new(Queue::new(queue, socket, options)?)))
            }
            #[cfg(not(feature = "af-xdp"))]
            UdpBackend::Xdp { .. } => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this program was built without it: cargo build --release --features af-xdp",
            )),
        }
    }

    /// Hands over the datagrams that have arrived.
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        counters: &UdpLossCounters,
        mut take: impl FnMut(Received<'_>),
    ) -> io::Result<()> {
        match self {
            Self::Batch(batch) => take_batch(batch, socket, &mut take)?,
            Self::Ring { ring, may_have_more } => {
                *may_have_more = ring.receive(take)? > 0;
                counters.buffers_exhausted.set(ring.exhausted());
            }
            #[cfg(feature = "af-xdp")]
            Self::Queue(queue) => {
                queue.receive(socket, take)?;
                counters.damaged.set(queue.damaged());
            }
        }
        Ok(())
    }

    pub(super) fn may_have_more(&self) -> bool {
        match self {
            Self::Batch(batch) => batch.is_full(),
            Self::Ring { may_have_more, .. } => *may_have_more,
            #[cfg(feature = "af-xdp")]
            Self::Queue(queue) => queue.may_have_more(),
        }
    }

    /// A descriptor that is readable when a datagram waits.
    pub(super) fn readiness(&self, socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        match self {
            Self::Batch(_) => socket.try_clone_to_owned(),
            Self::Ring { ring, .. } => ring.as_fd().try_clone_to_owned(),
            #[cfg(feature = "af-xdp")]
            Self::Queue(queue) => queue.readiness(socket),
        }
    }

    /// The losses before the port's own socket.
    pub(super) fn queue_losses(&self) -> io::Result<QueueLosses> {
        match self {
            Self::Batch(_) | Self::Ring { .. } => Ok(QueueLosses(None)),
            #[cfg(feature = "af-xdp")]
            Self::Queue(queue) => {
                Ok(QueueLosses(Some(Arc::new(queue.as_fd().try_clone_to_owned()?))))
            }
        }
    }
}

/// The frames that the kernel drops at a queue of a card: the socket that counts them, where there is one.
#[derive(Clone, Debug)]
pub(super) struct QueueLosses(Option<Arc<OwnedFd>>);

impl QueueLosses {
    /// The current count.
    pub(super) fn read(&self) -> u64 {
        match &self.0 {
            // A socket of this family always reports it.
            #[cfg(feature = "af-xdp")]
            Some(socket) => os::dropped_frames(socket.as_fd()).unwrap_or_default(),
            _ => 0,
        }
    }
}

/// Hands over the datagrams that one call receives.
pub(super) fn take_batch(
    batch: &mut DatagramBatch,
    socket: BorrowedFd<'_>,
    take: &mut impl FnMut(Received<'_>),
) -> io::Result<()> {
    let count = batch.receive(socket)?;
    (0..count).for_each(|index| take(batch.received(index)));
    Ok(())
}
