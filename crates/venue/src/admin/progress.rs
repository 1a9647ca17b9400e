//! The progress of a connection: whether the venue or its client has to act next, and since when.
//!
//! Invariant: a connection that has become a stream stays one.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

use crate::clock::runtime_now;

/// Shared by a connection and the task that answers it.
pub(super) struct Progress {
    /// The client's address; `None` at the socket.
    pub(super) peer: Option<IpAddr>,
    /// True while the venue works on the request, so that the wait is not the client's.
    is_worked_on: AtomicBool,
    /// True once its answer is a stream, which has no end.
    is_stream: AtomicBool,
    begun: Instant,
    /// The time at which the stream last had room for an event, in milliseconds after `begun`.
    room_ms: AtomicU64,
}

impl Progress {
    pub(super) fn new(peer: Option<IpAddr>) -> Self {
        Self {
            peer,
            is_worked_on: AtomicBool::new(false),
            is_stream: AtomicBool::new(false),
            begun: runtime_now(),
            room_ms: AtomicU64::new(0),
        }
    }

    pub(super) fn work(&self, is_worked_on: bool) {
        self.is_worked_on.store(is_worked_on, Ordering::Relaxed);
    }

    pub(super) fn is_worked_on(&self) -> bool {
        self.is_worked_on.load(Ordering::Relaxed)
    }

    /// Marks the answer as a stream.
    pub(super) fn begin_stream(&self) {
        self.has_room();
        self.is_stream.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stream(&self) -> bool {
        self.is_stream.load(Ordering::Relaxed)
    }

    /// Notes that the connection asked for the next event.
    pub(super) fn has_room(&self) {
        self.room_ms.store((runtime_now() - self.begun).as_millis() as u64, Ordering::Relaxed);
    }

    /// The age of the connection.
    pub(super) fn age(&self) -> Duration {
        runtime_now() - self.begun
    }

    /// The time since the client of a stream last had room for an event.
    pub(super) fn full_for(&self) -> Duration {
        let room = Duration::from_millis(self.room_ms.load(Ordering::Relaxed));
        (runtime_now() - self.begun).saturating_sub(room)
    }
}
