//! System calls that the standard library does not offer, behind safe functions; an allocator of
//! large pages ([`memory`]); and the files in which Linux shows its settings ([`system_files`]).
//!
//! Start at the functions of this page. No function here depends on its use in an exchange.
//!
//! Architecture invariant: unsafe code is only here and in `ring`; a safe function here cannot be
//! called in a way that breaks memory.
#![allow(unsafe_code)]

mod socket_option;
mod control_block;
mod datagrams;
mod segments;
mod send_queue;
mod network_interface;
mod packet_times;
mod descriptors;
mod uring;
mod buffer_ring;
mod stream_ring;
mod datagram_ring;
#[cfg(feature = "af-xdp")]
mod xdp_ring;
mod readiness;
mod thread;
mod network_namespace;
mod power;
mod free_space;
mod random;
mod terminal;
pub mod memory;
pub mod system_files;

use std::io;

pub use datagram_ring::DatagramRing;
pub use datagrams::{
    BATCH, DatagramBatch, Received, dropped_datagrams, join_datagrams, set_busy_poll,
};
pub use descriptors::{
    DescriptorLimit, descriptor_limit, reserve_descriptors, set_descriptor_limit,
};
pub use free_space::free_bytes;
pub use network_namespace::enter_network_namespace;
pub use packet_times::{
    PacketSent, PacketTimes, next_packet_sent, receive_stamped, stamp_arrivals, stamp_packets,
    unix_now_ns,
};
pub use power::cut_power;
pub use random::random_u64;
pub use readiness::{Epoll, EventFd, PollSet, Readiness};
pub use send_queue::{SendQueue, sends_segments};
pub use stream_ring::{ReceivedBytes, STREAM_TOKEN_MAX, StreamEnd, StreamEvent, StreamRing};
pub use system_files::{ProcessorTicks, SystemFiles};
pub use terminal::HiddenInput;
pub use thread::{
    InstructionCounter, allowed_cores, ask_for_short_slices, lower_priority, pin_to_core,
    pin_to_cores, process_cpu_ns, run_in_idle_time, thread_core_wait_ns, thread_cpu_ns,
    thread_page_faults, wake_promptly,
};
pub use uring::Uring;
#[cfg(feature = "af-xdp")]
pub use xdp_ring::{XdpRing, dropped_frames};

/// True for the errors that mean: nothing now, try again.
#[must_use]
pub fn is_not_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The result of a system call: a count, or its error.
fn check(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
