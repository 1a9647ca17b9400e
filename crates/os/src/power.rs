//! Power cuts: makes a file system fail as after a loss of power, for tests of the journal.

use std::{fs::File, io, os::fd::AsRawFd, path::Path};

use crate::check;

/// Shuts down the file system of this folder like a power cut: the bytes that were not on its
/// medium are lost, and nothing can be read or written until it is mounted again.
///
/// # Errors
/// The folder cannot be opened, its file system does not support this, or this process may not
/// request it.
pub fn cut_power(folder: &Path) -> io::Result<()> {
    /// `EXT4_IOC_SHUTDOWN`, which other file systems adopted: `_IOR('X', 125, __u32)`.
    const SHUTDOWN: libc::Ioctl = 0x8004_587d;
    /// Flushes neither pending writes nor the log of the file system to the medium.
    const WITHOUT_FLUSH: u32 = 2;
    let folder = File::open(folder)?;
    let how = WITHOUT_FLUSH;
    // SAFETY: the kernel reads one u32 from the pointer, which is to a live one.
    check(unsafe { libc::ioctl(folder.as_raw_fd(), SHUTDOWN, &raw const how) }).map(drop)
}
