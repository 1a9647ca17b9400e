//! Network namespaces: setns(2) for one thread.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use crate::check;

/// Moves the calling thread into the network namespace of this descriptor, as `/run/netns/NAME` opens one. Other threads
/// stay where they are, and so do sockets that were made before.
///
/// # Errors
/// The descriptor is of another kind, or the process lacks CAP_SYS_ADMIN.
pub fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: it takes numbers only, and the descriptor is open for the whole call.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsFd};

    use super::*;

    /// A descriptor of another kind is refused, and the thread stays where it is.
    #[test]
    fn only_a_network_namespace_can_be_entered() {
        let own = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let before = own();
        for path in ["/dev/null", "/proc/thread-self/ns/uts"] {
            let file = File::open(path).unwrap();
            assert!(enter_network_namespace(file.as_fd()).is_err(), "{path}");
        }
        assert_eq!(own(), before);
    }
}
