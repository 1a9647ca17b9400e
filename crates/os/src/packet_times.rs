//! The times at which packets left and arrived, by the kernel or by the network card (SO_TIMESTAMPING).
//!
//! Invariant: a socket has the times of one clock only.

use std::{
    io,
    net::{Ipv4Addr, UdpSocket},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    ptr, thread,
    time::Duration,
};

use crate::{
    control_block::{ControlBlock, Notes},
    datagrams::Name,
    network_interface::NetworkInterface,
    socket_option::set_number,
};

/// The clock that gives packets their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketTimes {
    /// The kernel's: Unix time, where a packet is handed to the interface and where it comes from it.
    Software,
    /// The network card's, where a packet is on the wire. It need not agree with any other clock, and the operator has to
    /// have turned it on.
    Hardware,
}

/// A packet that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSent {
    /// Bytes of the connection up to its end, since [`stamp_packets`]; modulo 2^32.
    pub bytes: u32,
    /// The time in nanoseconds, by the clock of the socket's [`PacketTimes`].
    pub sent_ns: u64,
}

/// Requests times of the packets that leave and arrive, for a connected socket that has sent no bytes yet. Returns once
/// the system takes times, which needs a moment if no other socket has requested them.
///
/// # Errors
/// The system has no such times, or does not begin within about a second; the card of the socket's interface takes none.
pub fn stamp_packets(socket: BorrowedFd<'_>, times: PacketTimes) -> io::Result<()> {
    ask(socket, times, Both)?;
    match times {
        PacketTimes::Software => await_stamps(),
        PacketTimes::Hardware => Ok(()),
    }
}

/// Requests times of the packets that arrive, for a bound socket; connections inherit this from their listener. Packets
/// that arrive at once may have no time yet.
///
/// # Errors
/// The system has no such times, or the card of the interface that has the socket's address takes none.
pub fn stamp_arrivals(socket: BorrowedFd<'_>, times: PacketTimes) -> io::Result<()> {
    ask(socket, times, Arrivals)
}

/// Unix time in nanoseconds, by the clock of [`PacketTimes::Software`]: for the age of a packet, and for nothing else.
#[must_use]
pub fn unix_now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is live. This clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns once the kernel notes when packets arrive.
fn await_stamps() -> io::Result<()> {
    let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    ask(probe.as_fd(), PacketTimes::Software, Arrivals)?;
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

/// The most packets that a thread sends to itself until the kernel gives one a time of arrival.
const PROBES_MAX: usize = 1_000;
const PROBE_PAUSE: Duration = Duration::from_millis(1);

/// The packets that get a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Both,
    Arrivals,
}
use Direction::{Arrivals, Both};

fn ask(socket: BorrowedFd<'_>, times: PacketTimes, which: Direction) -> io::Result<()> {
    let (arrivals, departures) = match times {
        PacketTimes::Software => (
            libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE,
            libc::SOF_TIMESTAMPING_TX_SOFTWARE,
        ),
        PacketTimes::Hardware => {
            let address = Name::of(socket)?.to_address().ok_or(io::ErrorKind::AddrNotAvailable)?;
            NetworkInterface::with_address(address.ip())?.check_packet_times(socket)?;
            (
                libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE,
                libc::SOF_TIMESTAMPING_TX_HARDWARE,
            )
        }
    };
    let wanted = match which {
        Arrivals => arrivals,
        Both => {
            let numbered = libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
            arrivals | departures | numbered
        }
    };
    set_number(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, wanted as libc::c_int)
}

/// Receives bytes of a connection, or a datagram: how many bytes, and the time in nanoseconds at which the packet arrived
/// that has the last of them, by the clock of the socket's [`PacketTimes`]; `None` if there is no such time.
///
/// # Errors
/// As recvmsg(2).
pub fn receive_stamped(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<u64>)> {
    let mut control = ControlBlock::EMPTY;
    let (len, control_len) = receive(socket, buffer, &mut control, 0)?;
    Ok((len, control.notes(control_len).stamp_ns))
}

/// The next packet of a connection that left and was not reported yet.
///
/// # Errors
/// As recvmsg(2).
pub fn next_packet_sent(socket: BorrowedFd<'_>) -> io::Result<Option<PacketSent>> {
    loop {
        let mut control = ControlBlock::EMPTY;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        let control_len = match receive(socket, &mut [], &mut control, flags) {
            Ok((_, control_len)) => control_len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // Errors of the network are in the same queue, and are skipped here.
        let Notes { stamp_ns: Some(sent_ns), sent_bytes: Some(bytes), .. } =
            control.notes(control_len)
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
    control: &mut ControlBlock,
    flags: libc::c_int,
) -> io::Result<(usize, usize)> {
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a `msghdr` has integers and pointers, for which all zeros is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = ptr::from_mut(control).cast();
    header.msg_controllen = size_of::<ControlBlock>() as _;
    // SAFETY: the header names a live buffer and a live control block, each with its length.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let len = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok((len, header.msg_controllen as usize))
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

    /// Each write has a time under the number of bytes up to its end, and its bytes arrive with a time that is no
    /// earlier. A read of several packets has the time of the last.
    #[test]
    fn packets_have_their_times() {
        let (mut near, far) = pair();
        for socket in [&near, &far] {
            if let Err(error) = stamp_packets(socket.as_fd(), PacketTimes::Software) {
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

    /// A packet that waits has the time of its arrival, not that of the read.
    #[test]
    fn a_wait_begins_with_the_arrival() {
        const PAUSE: Duration = Duration::from_millis(5);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        if let Err(error) =
            stamp_arrivals(socket.as_fd(), PacketTimes::Software).and_then(|()| await_stamps())
        {
            println!("skipped: this system has no times of packets: {error}");
            return;
        }
        let before_ns = unix_now_ns();
        socket.send_to(b"waits", socket.local_addr().unwrap()).unwrap();
        let sent_ns = unix_now_ns();
        thread::sleep(PAUSE);
        let (_, arrived_ns) = receive_stamped(socket.as_fd(), &mut [0; 9]).unwrap();
        let arrived_ns = arrived_ns.unwrap();
        assert!((before_ns..=sent_ns).contains(&arrived_ns), "{before_ns} {arrived_ns} {sent_ns}");
    }

    /// An interface without a card refuses, with the reason; the socket stays as it was.
    #[test]
    fn loopback_has_no_card() {
        let (near, _far) = pair();
        let error = stamp_packets(near.as_fd(), PacketTimes::Hardware).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        assert!(
            error.to_string().starts_with("the card of lo takes no times of packets"),
            "{error}"
        );
    }
}
