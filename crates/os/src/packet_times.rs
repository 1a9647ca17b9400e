//! When packets left and arrived, by the kernel (SO_TIMESTAMPING).
//!
//! Invariant: control blocks are walked only as far as the kernel says that it wrote them.

use std::{
    io,
    net::{Ipv4Addr, UdpSocket},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr, thread,
    time::Duration,
};

use crate::socket_option::set_number;

/// Room for what the kernel says beside a message: its times, and the error that carries the times of a sent packet.
#[repr(C, align(8))]
struct Control([u8; 256]);

/// A packet that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSent {
    /// Bytes of the connection before its end, since [`stamp_packets`]; modulo 2^32.
    pub bytes: u32,
    /// Unix time.
    pub sent_ns: u64,
}

/// Has the kernel note when packets leave and arrive: where they are handed to the interface, and where they come from it.
/// For a socket by which nothing was sent yet. Returns once the kernel does so, which takes it a moment if no other socket
/// has asked.
///
/// # Errors
/// The system has no such times, or does not begin within about a second.
pub fn stamp_packets(socket: BorrowedFd<'_>) -> io::Result<()> {
    ask(socket)?;
    let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    ask(probe.as_fd())?;
    probe.connect(probe.local_addr()?)?;
    for _ in 0..PROBES_MAX {
        probe.send(&[0])?;
        if receive_stamped(probe.as_fd(), &mut [0])?.1.is_some() {
            return Ok(());
        }
        thread::sleep(PROBE_PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "arrivals have no times"))
}

/// How often a packet to oneself is sent, until the kernel says when it arrived.
const PROBES_MAX: usize = 1_000;
const PROBE_PAUSE: Duration = Duration::from_millis(1);

fn ask(socket: BorrowedFd<'_>) -> io::Result<()> {
    let wanted = libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    set_number(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, wanted as libc::c_int)
}

/// Receives bytes of a connection, or a datagram: how many bytes, and the Unix time in nanoseconds at which the packet arrived that has the
/// last of them; `None` if the kernel does not say.
///
/// # Errors
/// As recvmsg(2).
pub fn receive_stamped(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<u64>)> {
    let mut control = Control([0; 256]);
    let (len, control_len) = receive(socket, buffer, &mut control, 0)?;
    Ok((len, notes(&control, control_len).stamp_ns))
}

/// The next packet of a connection that left and was not told yet.
///
/// # Errors
/// As recvmsg(2).
pub fn next_packet_sent(socket: BorrowedFd<'_>) -> io::Result<Option<PacketSent>> {
    loop {
        let mut control = Control([0; 256]);
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let control_len = match receive(socket, &mut [], &mut control, flags) {
            Ok((_, control_len)) => control_len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // Errors of the network are in the same queue, and are not asked for here.
        let Notes { stamp_ns: Some(sent_ns), sent_bytes: Some(bytes) } =
            notes(&control, control_len)
        else {
            continue;
        };
        return Ok(Some(PacketSent { bytes, sent_ns }));
    }
}

/// Receives a message; gives its length and that of the control block.
fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    control: &mut Control,
    flags: libc::c_int,
) -> io::Result<(usize, usize)> {
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a `msghdr` has integers and pointers, for which all zeros is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    // SAFETY: the header names a live buffer and a live control block, each with its length.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let len = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok((len, header.msg_controllen as usize))
}

/// What the kernel said beside a message.
#[derive(Debug, Default, PartialEq, Eq)]
struct Notes {
    stamp_ns: Option<u64>,
    sent_bytes: Option<u32>,
}

/// Reads a control block, of which the kernel wrote so many bytes.
fn notes(control: &Control, len: usize) -> Notes {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    const ALIGNMENT: usize = size_of::<usize>();
    let block = &control.0[..len.min(control.0.len())];
    let mut found = Notes::default();
    let mut at = 0;
    while let Some(header) = block.get(at..).filter(|rest| rest.len() >= HEADER) {
        // SAFETY: so many bytes are there, and each pattern of bytes is a header.
        let header: libc::cmsghdr = unsafe { ptr::read_unaligned(header.as_ptr().cast()) };
        let end = at + header.cmsg_len as usize;
        let Some(data) = block.get(at + HEADER..end) else { break };
        match (header.cmsg_level, header.cmsg_type) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => found.stamp_ns = software_stamp(data),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                found.sent_bytes = sent_bytes(data);
            }
            _ => {}
        }
        at = end.next_multiple_of(ALIGNMENT);
    }
    found
}

/// The first of three times is that of the software; 0 if there is none.
fn software_stamp(data: &[u8]) -> Option<u64> {
    let time = data.get(..size_of::<libc::timespec>())?;
    // SAFETY: so many bytes are there, and each pattern of bytes is a time.
    let time: libc::timespec = unsafe { ptr::read_unaligned(time.as_ptr().cast()) };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u64::try_from(time.tv_nsec).ok()?;
    Some(seconds * 1_000_000_000 + nanoseconds).filter(|stamp_ns| *stamp_ns > 0)
}

/// How many bytes had left with the packet, if this "error" is its time.
fn sent_bytes(data: &[u8]) -> Option<u32> {
    /// `SCM_TSTAMP_SND`: the packet was handed to the interface.
    const SENT: u32 = 0;
    let error = data.get(..size_of::<libc::sock_extended_err>())?;
    // SAFETY: so many bytes are there, and each pattern of bytes is such a record.
    let error: libc::sock_extended_err = unsafe { ptr::read_unaligned(error.as_ptr().cast()) };
    let is_time = error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING && error.ee_info == SENT;
    // The kernel counts the last byte from 0.
    is_time.then(|| error.ee_data.wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
    };

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nodelay(true).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Each write has a time under the number of bytes up to its end, and what it carries arrives with one that is no
    /// earlier. Where a read takes several packets, it has the time of the last.
    #[test]
    fn packets_have_their_times() {
        let (mut near, far) = pair();
        for socket in [&near, &far] {
            if let Err(error) = stamp_packets(socket.as_fd()) {
                println!("skipped: this system has no times of packets: {error}");
                return;
            }
        }
        let mut buffer = [0; 100];
        let mut total = 0;
        for _ in 0..3 {
            near.write_all(b"four").unwrap();
            total += 4;
            let sent = next_packet_sent(near.as_fd()).unwrap().expect("it has left on loopback");
            assert_eq!(sent.bytes, total);
            assert_eq!(next_packet_sent(near.as_fd()).unwrap(), None);
            let (len, received_ns) = receive_stamped(far.as_fd(), &mut buffer).unwrap();
            assert_eq!((len, &buffer[..len]), (4, &b"four"[..]));
            assert!(sent.sent_ns <= received_ns.unwrap(), "{sent:?} {received_ns:?}");
        }

        near.write_all(b"one").unwrap();
        thread::sleep(Duration::from_millis(2));
        near.write_all(b"more").unwrap();
        let sent = || next_packet_sent(near.as_fd()).unwrap().unwrap();
        let (one, more) = (sent(), sent());
        assert_eq!((one.bytes, more.bytes), (total + 3, total + 7));
        let (len, received_ns) = receive_stamped(far.as_fd(), &mut buffer).unwrap();
        assert_eq!(len, 7);
        assert!(one.sent_ns < more.sent_ns && more.sent_ns <= received_ns.unwrap());
    }

    /// A control block is read as far as it goes, and what is not a time is passed over.
    #[test]
    fn control_blocks_are_read_as_far_as_they_go() {
        let mut control = Control([0; 256]);
        assert_eq!(notes(&control, 0), Notes::default());
        let put = |at: usize, control: &mut Control, len: usize, level: i32, kind: i32| {
            control.0[at..at + 8].copy_from_slice(&len.to_ne_bytes());
            control.0[at + 8..at + 12].copy_from_slice(&level.to_ne_bytes());
            control.0[at + 12..at + 16].copy_from_slice(&kind.to_ne_bytes());
        };
        put(0, &mut control, 20, libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
        put(24, &mut control, 64, libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        control.0[40..48].copy_from_slice(&7_i64.to_ne_bytes());
        control.0[48..56].copy_from_slice(&9_i64.to_ne_bytes());
        assert_eq!(notes(&control, 88).stamp_ns, Some(7_000_000_009));
        assert_eq!(notes(&control, 60), Notes::default(), "cut off");
        put(0, &mut control, 0, libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        assert_eq!(notes(&control, 88), Notes::default(), "shorter than its header");
    }
}
