//! Options of a socket: setsockopt(2), getsockopt(2).
//!
//! Invariant: each call states the length of the value that the kernel reads or writes.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use crate::check;

/// Sets an option that is a number.
pub(crate) fn set_number(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    number: libc::c_int,
) -> io::Result<()> {
    // SAFETY: an integer has no pointers.
    unsafe { set(socket, level, name, &number) }
}

/// Sets an option.
///
/// # Safety
/// The kernel may use the memory that the value points to for this option, for as long as it does.
pub(crate) unsafe fn set<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value is live and of the length given; by the caller's promise the kernel may use the memory it
    // points to.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

/// The value of an option; bytes that the kernel does not write are zero.
///
/// # Safety
/// Every pattern of bytes is a value of `T`.
pub(crate) unsafe fn get<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the value, which is live, and then their number to `len`.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len)
    };
    check(result)?;
    // SAFETY: it was all zeros, the kernel may have written to it, and every pattern of bytes is a value.
    Ok(unsafe { value.assume_init() })
}
