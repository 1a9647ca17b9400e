//! Configurable socket options of a port.
//!
//! Invariant: an option that the system refuses gives an error with its name; no other property of the socket changes.

use std::{io, os::fd::BorrowedFd, time::Duration};

use os::PacketTimes;
use socket2::SockRef;

/// Options of a socket, beside those that are always set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// How long a receive looks at the network card itself (SO_BUSY_POLL); zero leaves the system's setting.
    pub busy_poll: Duration,
    /// The only interface on which the socket is reachable (SO_BINDTODEVICE).
    pub device: Option<String>,
    /// The clock that measures how long arrived packets wait until they are read (SO_TIMESTAMPING); `None` measures
    /// nothing.
    pub arrival_times: Option<PacketTimes>,
}

impl SocketOptions {
    /// Sets SO_BUSY_POLL. Connections inherit it from their listener.
    ///
    /// # Errors
    /// The system lacks the option, or lets only a privileged process set it.
    pub(crate) fn poll_busily(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.busy_poll.is_zero() {
            return Ok(());
        }
        os::set_busy_poll(socket, self.busy_poll)
    }

    /// Sets SO_BINDTODEVICE. Connections inherit it from their listener.
    ///
    /// # Errors
    /// There is no such interface, or the system lets only a privileged process name it.
    pub(crate) fn bind_device(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        match &self.device {
            Some(device) => SockRef::from(&socket).bind_device(Some(device.as_bytes())),
            None => Ok(()),
        }
    }
}

/// The error of a way to receive that has no times of arrival.
pub(crate) fn no_arrivals(by: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("only {by} has the times of arrivals"))
}
