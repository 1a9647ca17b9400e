//! The calls of bpf(2) that a program for an interface needs.
//!
//! Invariant: pointers for the kernel are made from live borrows right before the call that reads them, and the kernel keeps
//! none.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use super::program::Instruction;

/// Commands of bpf(2) (`enum bpf_cmd`).
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
#[cfg(test)]
const PROGRAM_TEST_RUN: libc::c_int = 10;
const LINK_CREATE: libc::c_int = 28;

/// `BPF_MAP_TYPE_XSKMAP`: sockets by the number of their queue.
const MAP_OF_SOCKETS: u32 = 17;
/// `BPF_PROG_TYPE_XDP`, and `BPF_XDP`: where such a program is attached.
const PROGRAM_OF_INTERFACE: u32 = 6;
const ATTACHED_TO_INTERFACE: u32 = 37;
/// `XDP_FLAGS_DRV_MODE`: by the driver, which sees frames as they are on the wire. Further up, runs of datagrams that a
/// client on this machine sent together would look like one.
const BY_DRIVER: u32 = 1 << 2;

/// Makes a call with its part of `union bpf_attr`, and returns its result: a descriptor for most commands.
///
/// # Safety
/// The attributes are those of the command, without padding, and their pointers are to live memory of the lengths that they
/// state.
unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads, and for some commands writes, as many bytes as the attributes have; they are borrowed here.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>())
    };
    match libc::c_int::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// As for [`bpf`]; also, the command returns a new descriptor.
unsafe fn opened<T>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: by the caller's promise.
    let descriptor = unsafe { bpf(command, attributes) }?;
    // SAFETY: it is new, and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The socket that gets the frames, for each queue of an interface.
pub(super) struct SocketMap(OwnedFd);

impl SocketMap {
    /// A map for the queues up to this one.
    pub(super) fn new(last_queue: u32) -> io::Result<Self> {
        #[repr(C)]
        struct Attributes {
            map_type: u32,
            key_bytes: u32,
            value_bytes: u32,
            entries_max: u32,
        }
        let mut attributes = Attributes {
            map_type: MAP_OF_SOCKETS,
            key_bytes: size_of::<u32>() as u32,
            value_bytes: size_of::<libc::c_int>() as u32,
            entries_max: last_queue.saturating_add(1),
        };
        // SAFETY: these are the attributes; they have no pointers.
        unsafe { opened(MAP_CREATE, &mut attributes) }.map(Self)
    }

    /// Sends the frames of a queue to a socket.
    pub(super) fn put(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        #[repr(C)]
        struct Attributes {
            map: u32,
            unused: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let descriptor = socket.as_raw_fd();
        let mut attributes = Attributes {
            map: self.0.as_raw_fd() as u32,
            unused: 0,
            key: (&raw const queue).addr() as u64,
            value: (&raw const descriptor).addr() as u64,
            flags: 0,
        };
        // SAFETY: these are the attributes; the key and the value are live and of the lengths that the map was made for.
        unsafe { bpf(MAP_UPDATE, &mut attributes) }.map(drop)
    }
}

impl AsFd for SocketMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes the kernel verify and translate a program. The program uses no function of the kernel that is for GPL programs
/// only.
pub(super) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program_type: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_bytes: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        attached_to: u32,
    }
    let license = c"MIT OR Apache-2.0";
    let mut attributes = Attributes {
        program_type: PROGRAM_OF_INTERFACE,
        instruction_count: program.len() as u32,
        instructions: program.as_ptr().addr() as u64,
        license: license.as_ptr().addr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: *b"damrak_udp\0\0\0\0\0\0",
        interface: 0,
        attached_to: ATTACHED_TO_INTERFACE,
    };
    // SAFETY: these are the attributes; the instructions are live and as many as stated, and the license ends with a zero.
    unsafe { opened(PROGRAM_LOAD, &mut attributes) }
}

/// Runs a program for each frame that an interface receives, while the returned descriptor is open.
pub(super) fn attach(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        interface: u32,
        attached_to: u32,
        flags: u32,
    }
    let mut attributes = Attributes {
        program: program.as_raw_fd() as u32,
        interface,
        attached_to: ATTACHED_TO_INTERFACE,
        flags: BY_DRIVER,
    };
    // SAFETY: these are the attributes; they have no pointers.
    unsafe { opened(LINK_CREATE, &mut attributes) }
}

/// The verdict of a program on a frame: the kernel runs it once.
#[cfg(test)]
pub(super) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        result: u32,
        frame_bytes: u32,
        copy_bytes: u32,
        frame: u64,
        copy: u64,
        repeat: u32,
        nanos: u32,
    }
    let mut attributes = Attributes {
        program: program.as_raw_fd() as u32,
        result: 0,
        frame_bytes: frame.len() as u32,
        copy_bytes: 0,
        frame: frame.as_ptr().addr() as u64,
        copy: 0,
        repeat: 1,
        nanos: 0,
    };
    // SAFETY: these are the attributes; the frame is live and of the length stated, and no copy of it is requested.
    unsafe { bpf(PROGRAM_TEST_RUN, &mut attributes) }?;
    Ok(attributes.result)
}
