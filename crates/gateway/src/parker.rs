//! Sleeping until a socket is readable or another thread wakes this one.
//!
//! Invariant: a wake-up that comes before the sleep is kept.

use std::{io, os::fd::AsFd, os::fd::OwnedFd, sync::Arc, time::Duration};

use os::{EventFd, PollSet};
use ring::{Parker, Unparker};

/// Parks a group of agents that has sockets: bytes that arrive on one of them wake it, and so does an [`Unparker`] from
/// another thread.
///
/// A wake-up that comes before the park is kept, so none is lost. One `SocketParker` serves one
/// thread.
pub struct SocketParker {
    event: Arc<EventFd>,
    set: PollSet,
}

impl SocketParker {
    /// Over descriptors that become readable when there is work: [`Tcp::readiness`] and
    /// [`Udp::readiness`].
    ///
    /// # Errors
    /// The system has no descriptor left.
    ///
    /// [`Tcp::readiness`]: crate::Tcp::readiness
    /// [`Udp::readiness`]: crate::Udp::readiness
    pub fn new(mut descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        let event = Arc::new(EventFd::new()?);
        descriptors.push(event.as_fd().try_clone_to_owned()?);
        Ok(Self { event, set: PollSet::new(descriptors) })
    }
}

impl Parker for SocketParker {
    fn park(&mut self, at_most: Duration) {
        self.set.wait(at_most);
        self.event.clear();
    }

    fn unparker(&self) -> Arc<dyn Unparker> {
        Arc::new(Signal(Arc::clone(&self.event)))
    }
}

struct Signal(Arc<EventFd>);

impl Unparker for Signal {
    fn unpark(&self) {
        self.0.signal();
    }
}
