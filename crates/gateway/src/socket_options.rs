//! What a user may ask of the system for the sockets of a port.
//!
//! Invariant: what the system refuses is an error that names the option; nothing else of the socket changes.

use std::{io, os::fd::BorrowedFd, time::Duration};

use os::PacketTimes;
use socket2::SockRef;

/// Options of a socket, beside those that it has in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// How long a receive looks at the network card itself (SO_BUSY_POLL); zero leaves the system's setting.
    pub busy_poll: Duration,
    /// The one interface by which the socket is reached (SO_BINDTODEVICE).
    pub device: Option<String>,
    /// The clock by which it is counted how long what arrives waits until it is read (SO_TIMESTAMPING); none counts nothing.
    pub arrival_times: Option<PacketTimes>,
}

impl SocketOptions {
    /// Sets SO_BUSY_POLL. Connections have it of their listener.
    ///
    /// # Errors
    /// The system has it not, or lets only a privileged process set it.
    pub(crate) fn poll_busily(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.busy_poll.is_zero() {
            return Ok(());
        }
        os::set_busy_poll(socket, self.busy_poll)
    }

    /// Sets SO_BINDTODEVICE. Connections have it of their listener.
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

/// Another way to receive has no times of arrival.
pub(crate) fn no_arrivals(by: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("only {by} has the times of arrivals"))
}
