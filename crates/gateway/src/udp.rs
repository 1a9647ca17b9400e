//! UDP on a real machine: up to 64 datagrams in one system call, or runs of them, where the system joins those that
//! go together.
//!
//! Invariant: a datagram is delivered whole or counted as lost.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use socket2::{Domain, Protocol, Socket, Type};

use os::{BATCH, DatagramBatch};

use crate::{DatagramNetwork, SocketOptions, UdpLossCount, counters::UdpLossCounters};

/// Messages that one call receives where each may be joined of many datagrams: their room is 2 MiB.
const BATCH_JOINED: usize = 32;

/// How a [`Udp`] socket is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Receive buffer to ask of the system, in bytes. A queued datagram of one order is charged
    /// some 800, so the 4 MiB of the default bridge 10 ms at 500,000 a second; more is slower.
    pub receive_buffer_bytes: usize,
    /// The longest datagram that is received or sent.
    pub datagram_bytes_max: usize,
    /// Datagrams that a client sent together are received together, where the system can (UDP_GRO): for a
    /// socket that receives many datagrams, since its buffers take 2 MiB.
    pub joins_received: bool,
    /// Datagrams of one length to one address leave together, where the system can (UDP_SEGMENT).
    pub joins_sent: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            receive_buffer_bytes: 4 << 20,
            datagram_bytes_max: 2048,
            joins_received: false,
            joins_sent: true,
        }
    }
}

/// A UDP socket that receives and sends up to 64 datagrams in one system call, in buffers taken
/// once.
///
/// What is queued by `send` goes out at `flush`, or when 64 are queued.
pub struct Udp {
    socket: Arc<UdpSocket>,
    address: SocketAddr,
    receive_buffer_bytes: usize,
    datagram_bytes_max: usize,
    incoming: DatagramBatch,
    outgoing: DatagramBatch,
    /// The queued datagrams of `outgoing`: from `first`, before `end`.
    first: usize,
    end: usize,
    joins_sent: bool,
    /// Why datagrams are not joined on the way in, though that was wanted.
    refused_join: Option<io::Error>,
    counters: Arc<UdpLossCounters>,
    /// Senders of datagrams of the last batch that were too long.
    too_long: Vec<SocketAddr>,
}

/// What was lost at a [`Udp`] socket; may be read from any thread. It keeps the socket open.
#[derive(Clone, Debug)]
pub struct UdpLosses {
    socket: Arc<UdpSocket>,
    counters: Arc<UdpLossCounters>,
}

impl UdpLosses {
    /// As of now.
    #[must_use]
    pub fn read(&self) -> UdpLossCount {
        let count = self.counters.read();
        match os::dropped_datagrams(self.socket.as_fd()) {
            Ok(dropped) => UdpLossCount { dropped: dropped.into(), ..count },
            // The start has said that this system does not tell.
            Err(_) => count,
        }
    }
}

impl Udp {
    /// A socket bound to `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is taken or not ours, or the system has no descriptor left.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let socket = new_socket(address)?;
        socket.bind(&address.into())?;
        Self::over(socket, options)
    }

    /// A socket that sends to multicast groups by `interface`; this machine receives the datagrams too.
    ///
    /// Datagrams by a loopback interface never leave the machine (TTL 0), others stay on the
    /// network they are sent to (TTL 1).
    ///
    /// # Errors
    /// There is no such interface, or the system has no descriptor left.
    pub fn multicast_sender(interface: Ipv4Addr, options: &UdpOptions) -> io::Result<Self> {
        let address = SocketAddr::from((interface, 0));
        let socket = new_socket(address)?;
        socket.bind(&address.into())?;
        socket.set_multicast_if_v4(&interface)?;
        socket.set_multicast_ttl_v4(if interface.is_loopback() { 0 } else { 1 })?;
        socket.set_multicast_loop_v4(true)?;
        Self::over(socket, options)
    }

    /// A socket that hears the multicast `group` on `interface`. Others may hear it beside this.
    ///
    /// # Errors
    /// The address is no group, the interface cannot join it, or the system has no descriptor left.
    pub fn multicast_receiver(
        group: SocketAddrV4,
        interface: Ipv4Addr,
        options: &UdpOptions,
    ) -> io::Result<Self> {
        let socket = new_socket(group.into())?;
        socket.set_reuse_address(true)?;
        // Bound to the group, so that what is sent to the same port of this machine is not heard.
        socket.bind(&SocketAddr::from(group).into())?;
        socket.join_multicast_v4(group.ip(), &interface)?;
        Self::over(socket, options)
    }

    fn over(socket: Socket, options: &UdpOptions) -> io::Result<Self> {
        // The system may grant less: the size is read back and reported.
        socket.set_recv_buffer_size(options.receive_buffer_bytes)?;
        let receive_buffer_bytes = socket.recv_buffer_size()?;
        let joined = options.joins_received.then(|| os::join_datagrams(socket.as_fd()));
        let (incoming, refused_join) = match joined {
            Some(Ok(())) => (DatagramBatch::for_joined(BATCH_JOINED), None),
            refused => {
                (DatagramBatch::new(options.datagram_bytes_max), refused.and_then(Result::err))
            }
        };
        let socket = UdpSocket::from(socket);
        Ok(Self {
            address: socket.local_addr()?,
            socket: Arc::new(socket),
            receive_buffer_bytes,
            datagram_bytes_max: options.datagram_bytes_max,
            incoming,
            outgoing: DatagramBatch::new(options.datagram_bytes_max),
            first: 0,
            end: 0,
            joins_sent: options.joins_sent,
            refused_join,
            counters: Arc::default(),
            too_long: Vec::new(),
        })
    }

    /// Binds it to the one interface that the options name, if they do.
    ///
    /// # Errors
    /// There is no such interface, or only a privileged process may name it.
    pub fn bind_device(&self, options: &SocketOptions) -> io::Result<()> {
        options.bind_device(self.socket.as_fd())
    }

    /// Has the system look at the network card for as long as the options say.
    ///
    /// # Errors
    /// The system cannot, or lets only a privileged process ask for it.
    pub fn poll_busily(&self, options: &SocketOptions) -> io::Result<()> {
        options.poll_busily(self.socket.as_fd())
    }

    /// Where it is bound, with the port it really has.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The receive buffer that was granted, in bytes as the kernel counts them: its own
    /// bookkeeping included, so up to twice what was asked for.
    #[must_use]
    pub const fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    /// Why datagrams are not received joined, where that was asked for and the system refused it.
    #[must_use]
    pub const fn refused_join(&self) -> Option<&io::Error> {
        self.refused_join.as_ref()
    }

    /// What was lost here; may be read from any thread.
    #[must_use]
    pub fn losses(&self) -> UdpLosses {
        UdpLosses { socket: Arc::clone(&self.socket), counters: Arc::clone(&self.counters) }
    }

    /// Sends the first queued datagram by itself, after the first run was refused. Where that works, it is runs that
    /// this way does not carry, and no more of them are sent.
    fn send_first_alone(&mut self, error: io::Error) -> io::Result<usize> {
        if !self.joins_sent {
            return Err(error);
        }
        let count = self.outgoing.send(self.socket.as_fd(), self.first, self.first + 1)?;
        self.joins_sent = false;
        self.counters.runs_refused.add(1);
        Ok(count)
    }

    /// A descriptor that is readable when a datagram waits.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn readiness(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }
}

impl DatagramNetwork for Udp {
    fn receive(&mut self, deliver: &mut dyn FnMut(SocketAddr, &[u8])) -> io::Result<usize> {
        self.too_long.clear();
        let count = self.incoming.receive(self.socket.as_fd())?;
        let mut datagrams = 0;
        for index in 0..count {
            let received = self.incoming.received(index);
            let mut take = |datagram: &[u8]| match received.from {
                Some(from) if !received.truncated && datagram.len() <= self.datagram_bytes_max => {
                    deliver(from, datagram);
                }
                from => {
                    self.counters.truncated.add(1);
                    self.too_long.extend(from);
                }
            };
            received.datagrams().for_each(|datagram| {
                take(datagram);
                datagrams += 1;
            });
        }
        Ok(datagrams)
    }

    fn may_have_more(&self) -> bool {
        self.incoming.is_full()
    }

    fn too_long(&mut self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.too_long)
    }

    fn send_parts(&mut self, to: SocketAddr, head: &[u8], body: &[u8]) -> io::Result<bool> {
        let len = head.len() + body.len();
        if len > self.datagram_bytes_max {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a datagram of {len} bytes, where {} are the most",
                    self.datagram_bytes_max
                ),
            ));
        }
        if self.end == BATCH {
            self.flush()?;
            if self.end == BATCH {
                return Ok(false);
            }
        }
        self.outgoing.put(self.end, to, head, body);
        self.end += 1;
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.first < self.end {
            let socket = self.socket.as_fd();
            let sent = match self.joins_sent {
                true => self.outgoing.send_runs(socket, self.first, self.end),
                false => self.outgoing.send(socket, self.first, self.end),
            };
            match sent {
                Ok(count) => self.first += count,
                Err(error) if os::is_not_now(&error) => return Ok(()),
                Err(error) => match error.raw_os_error() {
                    // The kernel's own queues are full: it is a wait like the ones above.
                    Some(libc::ENOBUFS | libc::ENOMEM) => return Ok(()),
                    Some(libc::EBADF | libc::EFAULT | libc::ENOTSOCK) => return Err(error),
                    _ => match self.send_first_alone(error) {
                        Ok(count) => self.first += count,
                        // This datagram cannot go; those behind it may.
                        Err(_) => {
                            self.counters.refused.add(1);
                            self.first += 1;
                        }
                    },
                },
            }
        }
        self.first = 0;
        self.end = 0;
        Ok(())
    }
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// True for an address that many may hear: the feed's destination is multicast, else unicast.
#[must_use]
pub const fn is_multicast(address: SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip.is_multicast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    }
}
