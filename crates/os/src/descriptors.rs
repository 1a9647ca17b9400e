//! The number of files that this process may have open.
//!
//! Invariant: the limit is read and set as a whole; a process may raise its soft limit up to the hard one.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd},
};

use crate::{check, readiness::EventFd};

/// The most file descriptors of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The current limit.
    pub soft: u64,
    /// The limit up to which the soft limit may be raised.
    pub hard: u64,
}

/// The limit of open files.
///
/// # Errors
/// The system does not report it.
pub fn descriptor_limit() -> io::Result<DescriptorLimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a struct that lives, and the kernel writes no more than that.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(DescriptorLimit { soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// Sets the soft limit.
///
/// # Errors
/// `soft` is above the hard limit.
pub fn set_descriptor_limit(soft: u64) -> io::Result<()> {
    let DescriptorLimit { hard, .. } = descriptor_limit()?;
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the pointer is to a struct that lives, and the kernel only reads it.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

/// Makes room in the kernel's table for descriptors 0 to `count - 1`.
///
/// The table doubles when it is full. In a process with threads the kernel waits until no core can read the old table any more, so
/// the accept(2) or open(2) that needs the next descriptor takes up to 30 ms. Call this before threads that must not wait.
///
/// # Errors
/// The soft limit is below `count`, or the system has no memory.
pub fn reserve_descriptors(count: u64) -> io::Result<()> {
    let event = EventFd::new()?;
    let last = libc::c_int::try_from(count.saturating_sub(1)).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open, and the call takes no pointer.
    let copy = unsafe { libc::fcntl(event.as_fd().as_raw_fd(), libc::F_DUPFD_CLOEXEC, last) };
    check(copy)?;
    // SAFETY: the kernel made this descriptor just now, and nothing else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(copy) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table keeps its size when the descriptors are closed.
    #[test]
    fn descriptors_are_reserved_in_the_table() {
        let size = || -> u64 {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
            line.trim().parse().unwrap()
        };
        let count = 2 * size() + 1;
        let limit = descriptor_limit().unwrap();
        set_descriptor_limit(limit.soft.max(count)).unwrap();
        reserve_descriptors(count).unwrap();
        assert!(size() >= count, "{} of {count}", size());
        assert!(reserve_descriptors(descriptor_limit().unwrap().soft + 1).is_err());
    }
}
