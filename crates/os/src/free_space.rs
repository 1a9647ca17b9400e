//! The free space of a file system.
//!
//! Invariant: space that only root may use is not counted.

use std::{ffi::CString, io, mem::MaybeUninit, os::unix::ffi::OsStrExt as _, path::Path};

use crate::check;

/// The bytes that this user may still write on the file system of a path.
///
/// # Errors
/// The path does not exist, or the file system does not report it.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero byte"))?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte and lives; the kernel writes no more than the struct.
    check(unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so the struct is written.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder has a file system; a missing one is an error.
    #[test]
    fn a_folder_has_a_file_system() {
        assert!(free_bytes(&std::env::temp_dir()).is_ok());
        assert_eq!(
            free_bytes(Path::new("/no/such/folder")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
