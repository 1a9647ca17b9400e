//! How many files this process may have open.
//!
//! Invariant: the limit is read and set as a whole; a process may raise its soft limit up to the hard one.

use std::io;

use crate::check;

/// The most file descriptors of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The limit in force.
    pub soft: u64,
    /// What the soft limit may be raised to.
    pub hard: u64,
}

/// The limit of open files.
///
/// # Errors
/// The system does not say.
pub fn descriptor_limit() -> io::Result<DescriptorLimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a struct that lives, and the kernel writes no more than that.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(DescriptorLimit { soft: limit.rlim_cur, hard: limit.rlim_max })
}

/// Sets the soft limit.
///
/// # Errors
/// It is above the hard limit.
pub fn set_descriptor_limit(soft: u64) -> io::Result<()> {
    let DescriptorLimit { hard, .. } = descriptor_limit()?;
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: the pointer is to a struct that lives, and the kernel only reads it.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}
