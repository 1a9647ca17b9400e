//! The kernel's notes beside a message: the control block of recvmsg(2).
//!
//! Invariant: a block is read only as far as the kernel reports that it wrote it.

use std::ptr;

/// Room for the requested notes: the times of a packet, the length of joined datagrams, and the error that names the
/// packet that has left.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct ControlBlock([u8; CONTROL_BYTES]);

const CONTROL_BYTES: usize = 256;

/// The parts that this program reads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    /// Time of a packet, in nanoseconds, by the requested clock (SO_TIMESTAMPING).
    pub(crate) stamp_ns: Option<u64>,
    /// Bytes that had left with the packet.
    pub(crate) sent_bytes: Option<u32>,
    /// Bytes of each datagram where several are one message, the last perhaps shorter (UDP_GRO).
    pub(crate) segment_bytes: Option<usize>,
}

impl ControlBlock {
    /// An empty block, as room for the kernel.
    pub(crate) const EMPTY: Self = Self([0; CONTROL_BYTES]);

    /// Reads the first `len` bytes, which the kernel wrote.
    pub(crate) fn notes(&self, len: usize) -> Notes {
        const HEADER: usize = size_of::<libc::cmsghdr>();
        const ALIGNMENT: usize = size_of::<usize>();
        let block = &self.0[..len.min(CONTROL_BYTES)];
        let mut found = Notes::default();
        let mut at = 0;
        while let Some(header) = block.get(at..).filter(|rest| rest.len() >= HEADER) {
            // SAFETY: the slice has this many bytes, and each pattern of bytes is a header.
            let header: libc::cmsghdr = unsafe { ptr::read_unaligned(header.as_ptr().cast()) };
            let end = at + header.cmsg_len as usize;
            let Some(data) = block.get(at + HEADER..end) else { break };
            match (header.cmsg_level, header.cmsg_type) {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => found.stamp_ns = stamp(data),
                (libc::SOL_UDP, libc::UDP_GRO) => found.segment_bytes = segment_bytes(data),
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                    found.sent_bytes = sent_bytes(data);
                }
                _ => {}
            }
            at = end.next_multiple_of(ALIGNMENT);
        }
        found
    }
}

/// There are three times: that of the software, one that is no longer used, and that of the card. Times that the socket
/// did not request are 0.
fn stamp(data: &[u8]) -> Option<u64> {
    const TIME: usize = size_of::<libc::timespec>();
    [0, 2].into_iter().find_map(|index| {
        let time = data.get(index * TIME..(index + 1) * TIME)?;
        // SAFETY: the slice has this many bytes, and each pattern of bytes is a time.
        let time: libc::timespec = unsafe { ptr::read_unaligned(time.as_ptr().cast()) };
        let seconds = u64::try_from(time.tv_sec).ok()?;
        let nanoseconds = u64::try_from(time.tv_nsec).ok()?;
        Some(seconds * 1_000_000_000 + nanoseconds).filter(|stamp_ns| *stamp_ns > 0)
    })
}

fn segment_bytes(data: &[u8]) -> Option<usize> {
    let bytes = i32::from_ne_bytes(*data.first_chunk()?);
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// The number of bytes that had left with the packet, if this "error" is its time.
fn sent_bytes(data: &[u8]) -> Option<u32> {
    /// `SCM_TSTAMP_SND`: the packet was handed to the interface.
    const SENT: u32 = 0;
    let error = data.get(..size_of::<libc::sock_extended_err>())?;
    // SAFETY: the slice has this many bytes, and each pattern of bytes is such a record.
    let error: libc::sock_extended_err = unsafe { ptr::read_unaligned(error.as_ptr().cast()) };
    let is_time = error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING && error.ee_info == SENT;
    // The kernel counts the last byte from 0.
    is_time.then(|| error.ee_data.wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A control block is read to its end, and unknown parts are skipped.
    #[test]
    fn control_blocks_are_read_as_far_as_they_go() {
        let mut control = ControlBlock::EMPTY;
        assert_eq!(control.notes(0), Notes::default());
        let put = |at: usize, control: &mut ControlBlock, len: usize, level: i32, kind: i32| {
            control.0[at..at + 8].copy_from_slice(&len.to_ne_bytes());
            control.0[at + 8..at + 12].copy_from_slice(&level.to_ne_bytes());
            control.0[at + 12..at + 16].copy_from_slice(&kind.to_ne_bytes());
        };
        put(0, &mut control, 20, libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
        put(24, &mut control, 64, libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        control.0[40..48].copy_from_slice(&7_i64.to_ne_bytes());
        control.0[48..56].copy_from_slice(&9_i64.to_ne_bytes());
        assert_eq!(control.notes(88).stamp_ns, Some(7_000_000_009));
        assert_eq!(control.notes(60), Notes::default(), "cut off");
        // The time of the card is the third.
        control.0[40..56].fill(0);
        control.0[72..80].copy_from_slice(&3_i64.to_ne_bytes());
        control.0[80..88].copy_from_slice(&4_i64.to_ne_bytes());
        put(88, &mut control, 20, libc::SOL_UDP, libc::UDP_GRO);
        control.0[104..108].copy_from_slice(&47_i32.to_ne_bytes());
        let all =
            Notes { stamp_ns: Some(3_000_000_004), sent_bytes: None, segment_bytes: Some(47) };
        assert_eq!(control.notes(112), all);
        assert_eq!(control.notes(88).segment_bytes, None);
        control.0[104..108].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(control.notes(112).segment_bytes, None);
        put(0, &mut control, 0, libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        assert_eq!(control.notes(112), Notes::default(), "shorter than its header");
    }
}
