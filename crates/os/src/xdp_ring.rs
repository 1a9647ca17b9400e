//! Datagrams of one port straight from a queue of a network card, before the kernel's network stack: AF_XDP.
//!
//! Start at [`XdpRing::new`]. A small program in the kernel ([`program`]) looks at each frame that the queue receives.
//! It passes the datagrams of the port to memory that the kernel shares with this process ([`frame_socket`]). All other
//! frames take their usual path, and a socket that is bound to the port receives them: fragments, IP options, VLAN
//! tags, frames that are too long and those of other queues. So a port needs both, and loses no datagram by this.
//!
//! Invariant: a datagram is handed over once, whole and with the right checksum; its frame belongs to the kernel again when
//! the call returns.

mod bpf;
mod frame;
mod frame_socket;
mod program;

use std::{
    io,
    net::{SocketAddr, SocketAddrV4},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use self::{
    bpf::SocketMap,
    frame_socket::{FRAME_BYTES_MAX, FrameSocket},
};
use crate::{datagrams::Received, network_interface::NetworkInterface, socket_option};

/// The most datagrams that a call hands over.
const CALL_MAX: u32 = crate::BATCH as u32;

/// Receives the datagrams of one port from one queue of the network interface that has its address.
#[derive(Debug)]
pub struct XdpRing {
    /// The program is attached to the interface while this is open.
    _link: OwnedFd,
    socket: FrameSocket,
    damaged: u64,
}

impl XdpRing {
    /// A ring for the datagrams to this address, with room for `frames` waiting ones: a power of two, each of 4 KiB.
    ///
    /// # Errors
    /// No interface has the address, or its driver has no XDP (as loopback); the process lacks CAP_NET_ADMIN, CAP_NET_RAW or
    /// CAP_BPF, or may not lock so much memory; another program is attached to the interface, or another socket to the queue;
    /// Linux is older than 5.9.
    pub fn new(address: SocketAddrV4, queue: u32, frames: u32) -> io::Result<Self> {
        let interface = NetworkInterface::with_address((*address.ip()).into())?.index;
        let at = |what: &str, error: io::Error| {
            io::Error::new(error.kind(), format!("{what} of interface {interface}: {error}"))
        };
        let socket = FrameSocket::new(interface, queue, frames)
            .map_err(|error| at(&format!("queue {queue}"), error))?;
        let sockets = SocketMap::new(queue)?;
        sockets.put(queue, socket.as_fd())?;
        let program = program::instructions(sockets.as_fd(), address, FRAME_BYTES_MAX);
        let program = bpf::load(&program)?;
        let link = bpf::attach(program.as_fd(), interface).map_err(|error| at("XDP", error))?;
        Ok(Self { _link: link, socket, damaged: 0 })
    }

    /// Hands over the datagrams since the last call, 64 at most, and returns their number. Usually makes no system
    /// call.
    ///
    /// # Errors
    /// The kernel does not take frames back: a fault of the driver.
    pub fn receive(&mut self, mut deliver: impl FnMut(Received<'_>)) -> io::Result<usize> {
        let Self { socket, damaged, .. } = self;
        let mut count = 0;
        socket.receive(CALL_MAX, |bytes| match frame::datagram(bytes) {
            Some((from, datagram)) => {
                count += 1;
                deliver(Received::of_frame(SocketAddr::V4(from), datagram));
            }
            None => *damaged += 1,
        })?;
        Ok(count)
    }

    /// The number of received frames without a datagram: their lengths or a checksum were wrong.
    #[must_use]
    pub const fn damaged(&self) -> u64 {
        self.damaged
    }
}

impl AsFd for XdpRing {
    /// Readable when a frame waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Frames for the socket of an [`XdpRing`] that the kernel dropped, because none of its memory was free.
///
/// # Errors
/// The socket is of another kind.
pub fn dropped_frames(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: the structure is integers, for which all bytes are values.
    let found: libc::xdp_statistics =
        unsafe { socket_option::get(socket, libc::SOL_XDP, libc::XDP_STATISTICS) }?;
    Ok(found.rx_dropped + found.rx_ring_full)
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::Ipv4Addr};

    use crate::check;

    use super::{
        frame::tests::{frame_of, sealed},
        *,
    };

    const PORT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 2), 26_400);

    /// The number of loopback in each network namespace.
    const LOOPBACK: u32 = 1;

    /// The kernel's actions on a frame (enum xdp_action).
    const PASS: u32 = 2;
    const REDIRECT: u32 = 4;

    /// Runs a test with a socket on loopback in a separate network namespace, where this system has AF_XDP and permits
    /// both to this process; otherwise prints that it does not.
    fn with_xdp(name: &str, test: impl FnOnce(&FrameSocket)) {
        // SAFETY: it takes a number only, and concerns this thread only.
        let unshared = check(unsafe { libc::unshare(libc::CLONE_NEWNET) });
        let found = unshared.and_then(|_| FrameSocket::new(LOOPBACK, 0, 64));
        match found.and_then(|socket| SocketMap::new(0).map(|_| socket)) {
            Ok(socket) => test(&socket),
            Err(error) => {
                let text = format!("skipped: xdp_ring::{name}: {error}\n");
                io::stderr().write_all(text.as_bytes()).unwrap();
            }
        }
    }

    /// The kernel takes the program, and the program takes only the datagrams of the port.
    #[test]
    fn only_datagrams_of_the_port_leave_the_stack() {
        with_xdp("only_datagrams_of_the_port_leave_the_stack", |socket| {
            assert_eq!(dropped_frames(socket.as_fd()).unwrap(), 0);
            let sockets = SocketMap::new(0).unwrap();
            sockets.put(0, socket.as_fd()).unwrap();
            let program = program::instructions(sockets.as_fd(), PORT, 1_000);
            let program = bpf::load(&program).unwrap();
            let acts = |frame: &[u8]| bpf::test_run(program.as_fd(), frame).unwrap();
            let datagram = frame_of(PORT, b"an order");
            assert_eq!(acts(&datagram), REDIRECT);
            assert_eq!(acts(&frame_of(PORT, b"")), REDIRECT);
            assert_eq!(acts(&frame_of(PORT, &[7; 1_000 - 42])), REDIRECT);
            let others = [
                ("longer than its room", frame_of(PORT, &[7; 1_001 - 42])),
                ("another port", frame_of(SocketAddrV4::new(*PORT.ip(), 26_401), b"an order")),
                (
                    "another address",
                    frame_of(SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 3), 26_400), b"an order"),
                ),
                ("shorter than its headers", datagram[..41].to_vec()),
                ("only Ethernet", datagram[..14].to_vec()),
                ("a VLAN tag", sealed(&datagram, 12, &[0x81, 0x00])),
                ("IPv6", sealed(&datagram, 12, &[0x86, 0xdd])),
                ("IP options", sealed(&datagram, 14, &[0x46])),
                ("a first fragment", sealed(&datagram, 20, &[0x20, 0x00])),
                ("a later fragment", sealed(&datagram, 20, &[0x00, 0x10])),
                ("TCP", sealed(&datagram, 23, &[6])),
            ];
            for (what, frame) in others {
                assert_eq!(acts(&frame), PASS, "{what}");
            }
            // "Don't fragment" is no fragment.
            assert_eq!(acts(&sealed(&datagram, 20, &[0x40, 0x00])), REDIRECT);
            // Frames of a queue without a socket pass as before.
            let none = SocketMap::new(0).unwrap();
            let program = bpf::load(&program::instructions(none.as_fd(), PORT, 1_000)).unwrap();
            assert_eq!(bpf::test_run(program.as_fd(), &datagram).unwrap(), PASS);
        });
    }

    /// An interface whose driver has no XDP, and an address that no interface has, are refused by name.
    #[test]
    fn loopback_has_no_queue_of_a_card() {
        let refused = |address, queue| XdpRing::new(address, queue, 64).unwrap_err();
        let error = refused(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 26_400), 0);
        assert_eq!(error.to_string(), "no network interface has the address 0.0.0.0");
        if let Err(error) = SocketMap::new(0) {
            let text = format!("skipped: xdp_ring::loopback_has_no_queue_of_a_card: {error}\n");
            return io::stderr().write_all(text.as_bytes()).unwrap();
        }
        let error = refused(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 26_400), 0);
        assert!(error.to_string().starts_with("XDP of interface "), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        let error = refused(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 26_400), 9);
        assert!(error.to_string().starts_with("queue 9 of interface "), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }
}
