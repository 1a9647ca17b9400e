//! Writes by io_uring(7): a write and the sync after it are one call of the kernel, linked there.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::fd::AsRawFd,
};

use io_uring::{IoUring, opcode, squeue::Flags, types};

const WRITE: u64 = 0;
const SYNC: u64 = 1;

/// A ring for one file, empty between calls.
pub struct Uring {
    ring: IoUring,
}

impl Uring {
    /// A ring with room for one write and its sync.
    ///
    /// # Errors
    /// The system has no io_uring, or does not let this process use it.
    pub fn new() -> io::Result<Self> {
        Ok(Self { ring: IoUring::new(2)? })
    }

    /// Writes, then syncs, and returns when both are done; returns the number of bytes written. The
    /// sync took place only if all bytes were written: a short write breaks the link.
    ///
    /// # Errors
    /// Writing or syncing failed. Do not use the ring again.
    pub fn write_synced(&mut self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let descriptor = types::Fd(file.as_raw_fd());
        let len = u32::try_from(bytes.len()).map_err(|_| ErrorKind::InvalidInput)?;
        let write = opcode::Write::new(descriptor, bytes.as_ptr(), len)
            .offset(offset)
            .build()
            .flags(Flags::IO_LINK)
            .user_data(WRITE);
        let sync = opcode::Fsync::new(descriptor)
            .flags(types::FsyncFlags::DATASYNC)
            .build()
            .user_data(SYNC);
        // SAFETY: the kernel only reads `bytes`, and this function returns when it has done so; if
        // entering the kernel fails for good before, the bytes it still reads are garbage at worst,
        // in a file of which nothing was confirmed.
        unsafe { self.ring.submission().push_multiple(&[write, sync]) }
            .map_err(|_| io::Error::other("the ring is not empty"))?;
        let mut results = [None; 2];
        while results.contains(&None) {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            for done in self.ring.completion() {
                results[done.user_data() as usize] = Some(done.result());
            }
        }
        let [written, synced] = results.map(|result| result.expect("both are done"));
        let written = checked(written)? as usize;
        if written == bytes.len() {
            checked(synced)?;
        }
        Ok(written)
    }
}

/// The result of a completion: a count, or an error.
pub(crate) fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}
