//! Unpredictable numbers from the system: getrandom(2).

use std::io;

use crate::check;

/// A number in which every bit is random.
///
/// # Errors
/// Linux before 3.17, or a sandbox that forbids the call.
pub fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the kernel writes at most the length of the array, which is live.
    let result = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // Up to 256 bytes come whole.
    match check(result as libc::c_int)? {
        8 => Ok(u64::from_ne_bytes(bytes)),
        count => Err(io::Error::other(format!("getrandom gave {count} bytes of 8"))),
    }
}
