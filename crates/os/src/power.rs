//! Power cuts: makes a file system fail as after a loss of power, for tests of the journal.

use std::{fs::File, io, os::fd::AsRawFd, path::Path};

use crate::check;

/// Ends the file system of this folder as a power cut would: what was not on its medium is gone, and
/// nothing can be read or written until it is mounted anew.
///
/// # Errors
/// The folder cannot be opened, its file system has no such end, or this process may not ask for it.
pub fn cut_power(folder: &Path) -> io::Result<()> {
    /// `EXT4_IOC_SHUTDOWN`, which other file systems took up: `_IOR('X', 125, __u32)`.
    const SHUTDOWN: libc::Ioctl = 0x8004_587d;
    /// Neither what waits to be written nor the log of the file system is brought to the medium.
    const WITHOUT_FLUSH: u32 = 2;
    let folder = File::open(folder)?;
    let how = WITHOUT_FLUSH;
    // SAFETY: the kernel reads one u32 from the pointer, which is to one that lives.
    check(unsafe { libc::ioctl(folder.as_raw_fd(), SHUTDOWN, &raw const how) }).map(drop)
}
