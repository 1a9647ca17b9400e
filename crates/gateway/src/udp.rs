//! UDP on a real machine: up to 64 datagrams in one system call, or runs of them, where the system joins related
//! datagrams, or without a call, where the kernel receives on its own or a network card's queue is read.
//!
//! Invariant: a datagram is delivered whole or counted as lost.

mod incoming;
#[cfg(feature = "af-xdp")]
mod queue;

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use socket2::{Domain, Protocol, Socket, Type};

use os::{BATCH, DatagramBatch, Received};

use self::incoming::{Incoming, QueueLosses};
use crate::{
    DatagramNetwork, SocketOptions, TimeCounts, UdpLossCount, counters::UdpLossCounters,
    socket_options::no_arrivals,
};

/// The way a [`Udp`] receives. If the system refuses one, the next is tried, in the order of [`next`](Self::next).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpBackend {
    /// Up to 64 datagrams in a call: recvmmsg(2).
    #[default]
    Mmsg,
    /// As `Mmsg`, and datagrams that a client sent together are received together (UDP_GRO). For a socket that
    /// receives many datagrams, since its buffers take 2 MiB.
    Gro,
    /// The kernel receives without further calls: io_uring(7). With a core, a kernel thread on that core does
    /// (IORING_SETUP_SQPOLL), and takes the whole core as long as datagrams come.
    IoUring { poller_core: Option<usize> },
    /// AF_XDP: frames come from this queue of the network card that has the socket's address, before the kernel's
    /// network stack. Packets other than plain UDP over IPv4 come by recvmmsg(2). Its frames take up to 64 MiB.
    /// Programs built without the feature `af-xdp` refuse it.
    Xdp { queue: u32 },
}

impl UdpBackend {
    /// The name of this backend in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mmsg => "mmsg",
            Self::Gro => "gro",
            Self::IoUring { .. } => "io_uring",
            Self::Xdp { .. } => "xdp",
        }
    }

    /// The core of the kernel's thread, if there is one.
    #[must_use]
    pub const fn poller_core(self) -> Option<usize> {
        match self {
            Self::IoUring { poller_core } => poller_core,
            Self::Gro | Self::Mmsg | Self::Xdp { .. } => None,
        }
    }

    /// The queue of the card, if there is one.
    #[must_use]
    pub const fn queue(self) -> Option<u32> {
        match self {
            Self::Xdp { queue } => Some(queue),
            Self::Gro | Self::Mmsg | Self::IoUring { .. } => None,
        }
    }

    /// The backend tried if this one is refused; recvmmsg is never refused.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::IoUring { poller_core: Some(_) } => Self::IoUring { poller_core: None },
            Self::IoUring { poller_core: None } | Self::Xdp { .. } => Self::Gro,
            Self::Gro | Self::Mmsg => Self::Mmsg,
        }
    }
}

impl fmt::Display for UdpBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.poller_core() {
            None => f.write_str(self.name()),
            Some(core) => write!(f, "{} with a thread of the kernel on core {core}", self.name()),
        }
    }
}

/// The options of a [`Udp`] socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// The receive buffer to request from the system, in bytes. A queued datagram of one order is charged about 800
    /// bytes, so the 4 MiB of the default bridge 10 ms at 500,000 a second; more is slower.
    pub receive_buffer_bytes: usize,
    /// The longest datagram received or sent, in bytes.
    pub datagram_bytes_max: usize,
    /// The backend to use, if the system allows it: see [`refused`](Udp::refused).
    pub backend: UdpBackend,
    /// Whether datagrams of one length to one address leave together, where the system can do this (UDP_SEGMENT).
    pub joins_sent: bool,
    /// Whether other sockets of the same user may have the same port (SO_REUSEPORT): the system gives each sender to
    /// one.
    pub reuse_port: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            receive_buffer_bytes: 4 << 20,
            datagram_bytes_max: 2048,
            backend: UdpBackend::Mmsg,
            joins_sent: true,
            reuse_port: false,
        }
    }
}

/// A UDP socket that receives and sends up to 64 datagrams in one system call, in buffers allocated once.
///
/// Datagrams queued by `send` go out at `flush`, or when 64 are queued.
pub struct Udp {
    socket: Arc<UdpSocket>,
    address: SocketAddr,
    receive_buffer_bytes: usize,
    datagram_bytes_max: usize,
    backend: UdpBackend,
    incoming: Incoming,
    outgoing: DatagramBatch,
    /// The range of queued datagrams in `outgoing`; `end` is excluded.
    first: usize,
    end: usize,
    joins_sent: bool,
    /// Backends that were tried before, and the errors with which the system refused them.
    refused: Vec<(UdpBackend, io::Error)>,
    counters: Arc<UdpLossCounters>,
    queue_losses: QueueLosses,
    /// Senders of datagrams of the last batch that were too long.
    too_long: Vec<SocketAddr>,
    /// The times that datagrams waited, if they are counted.
    arrivals: Option<Arc<TimeCounts>>,
}

/// The losses at a [`Udp`] socket; may be read from any thread. It keeps the socket open.
#[derive(Clone, Debug)]
pub struct UdpLosses {
    socket: Arc<UdpSocket>,
    counters: Arc<UdpLossCounters>,
    queue: QueueLosses,
}

impl UdpLosses {
    /// The current counts.
    #[must_use]
    pub fn read(&self) -> UdpLossCount {
        // If this system does not report it, the start has said so.
        let dropped = os::dropped_datagrams(self.socket.as_fd()).map_or(0, u64::from);
        UdpLossCount { dropped: dropped + self.queue.read(), ..self.counters.read() }
    }
}

impl Udp {
    /// Binds a socket to `address`; port 0 takes a free port.
    ///
    /// # Errors
    /// The address is taken or not ours, or the system has no descriptor left.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let socket = new_socket(address)?;
        socket.set_reuse_port(options.reuse_port)?;
        socket.bind(&address.into())?;
        Self::over(socket, options)
    }

    /// Makes a socket that sends to multicast groups by `interface`; this machine receives the datagrams too.
    ///
    /// Datagrams by a loopback interface never leave the machine (TTL 0); others stay on the network they are sent to
    /// (TTL 1).
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

    /// Makes a socket that receives the multicast `group` on `interface`. Other sockets may receive it too.
    ///
    /// # Errors
    /// The address is not a group, the interface cannot join it, or the system has no descriptor left.
    pub fn multicast_receiver(
        group: SocketAddrV4,
        interface: Ipv4Addr,
        options: &UdpOptions,
    ) -> io::Result<Self> {
        let socket = new_socket(group.into())?;
        socket.set_reuse_address(true)?;
        // Bound to the group, so that datagrams sent to the same port of this machine are not received.
        socket.bind(&SocketAddr::from(group).into())?;
        socket.join_multicast_v4(group.ip(), &interface)?;
        Self::over(socket, options)
    }

    fn over(socket: Socket, options: &UdpOptions) -> io::Result<Self> {
        // The system may grant less: the size is read back and reported.
        socket.set_recv_buffer_size(options.receive_buffer_bytes)?;
        let receive_buffer_bytes = socket.recv_buffer_size()?;
        let (mut backend, mut refused) = (options.backend, Vec::new());
        let incoming = loop {
            match Incoming::new(backend, &socket, options) {
                Ok(incoming) => break incoming,
                Err(error) if backend == backend.next() => return Err(error),
                Err(error) => refused.push((backend, error)),
            }
            backend = backend.next();
        };
        let socket = UdpSocket::from(socket);
        Ok(Self {
            address: socket.local_addr()?,
            socket: Arc::new(socket),
            receive_buffer_bytes,
            datagram_bytes_max: options.datagram_bytes_max,
            backend,
            queue_losses: incoming.queue_losses()?,
            incoming,
            outgoing: DatagramBatch::new(options.datagram_bytes_max),
            first: 0,
            end: 0,
            joins_sent: options.joins_sent,
            refused,
            counters: Arc::default(),
            too_long: Vec::new(),
            arrivals: None,
        })
    }

    /// Counts the time from arrival to read, if the options say so.
    ///
    /// With recvmmsg(2) only; each run of joined datagrams counts once.
    ///
    /// # Errors
    /// The system, the card or the backend has no such times; nothing is counted.
    pub fn count_arrivals(&mut self, options: &SocketOptions) -> io::Result<()> {
        let Some(times) = options.arrival_times else { return Ok(()) };
        let Incoming::Batch(batch) = &mut self.incoming else {
            return Err(no_arrivals("recvmmsg"));
        };
        os::stamp_arrivals(self.socket.as_fd(), times)?;
        batch.take_notes();
        self.arrivals = Some(Arc::default());
        Ok(())
    }

    /// The times from arrival to read, if they are counted; may be read from any thread.
    #[must_use]
    pub fn arrivals(&self) -> Option<Arc<TimeCounts>> {
        self.arrivals.clone()
    }

    /// Binds the socket to the one interface that the options name, if they name one.
    ///
    /// # Errors
    /// There is no such interface, or only a privileged process may name it.
    pub fn bind_device(&self, options: &SocketOptions) -> io::Result<()> {
        options.bind_device(self.socket.as_fd())
    }

    /// Makes the system poll the network card for as long as the options say.
    ///
    /// # Errors
    /// The system cannot do this, or allows it only to a privileged process.
    pub fn poll_busily(&self, options: &SocketOptions) -> io::Result<()> {
        options.poll_busily(self.socket.as_fd())
    }

    /// The address it is bound to, with its actual port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The receive buffer granted, in bytes as the kernel counts them: its own bookkeeping included, so up to twice
    /// the requested size.
    #[must_use]
    pub const fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    /// The backend in use.
    #[must_use]
    pub const fn backend(&self) -> UdpBackend {
        self.backend
    }

    /// The backends tried before this one, and the errors with which the system refused them.
    #[must_use]
    pub fn refused(&self) -> &[(UdpBackend, io::Error)] {
        &self.refused
    }

    /// The losses at this socket; may be read from any thread.
    #[must_use]
    pub fn losses(&self) -> UdpLosses {
        UdpLosses {
            socket: Arc::clone(&self.socket),
            counters: Arc::clone(&self.counters),
            queue: self.queue_losses.clone(),
        }
    }

    /// Sends the first queued datagram alone, after the first run was refused. If that works, this route does not
    /// carry runs, and no more of them are sent.
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
        self.incoming.readiness(self.socket.as_fd())
    }
}

impl DatagramNetwork for Udp {
    fn receive(&mut self, deliver: &mut dyn FnMut(SocketAddr, &[u8])) -> io::Result<usize> {
        let Self { socket, incoming, counters, too_long, datagram_bytes_max, arrivals, .. } = self;
        too_long.clear();
        let (mut datagrams, mut read_ns) = (0, None);
        let take = |received: Received<'_>| {
            if let (Some(arrivals), Some(arrived_ns)) = (&arrivals, received.arrived_ns) {
                // One call read all of them.
                let read_ns = *read_ns.get_or_insert_with(os::unix_now_ns);
                arrivals.record(read_ns.saturating_sub(arrived_ns));
            }
            for datagram in received.datagrams() {
                datagrams += 1;
                match received.from {
                    Some(from) if !received.truncated && datagram.len() <= *datagram_bytes_max => {
                        deliver(from, datagram);
                    }
                    from => {
                        counters.truncated.add(1);
                        too_long.extend(from);
                    }
                }
            }
        };
        incoming.receive(socket.as_fd(), counters, take)?;
        Ok(datagrams)
    }

    fn may_have_more(&self) -> bool {
        self.incoming.may_have_more()
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
                    "a datagram of {len} bytes is too long: the maximum is {}",
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
                    // The kernel's own queues are full: wait, as above.
                    Some(libc::ENOBUFS | libc::ENOMEM) => return Ok(()),
                    Some(libc::EBADF | libc::EFAULT | libc::ENOTSOCK) => return Err(error),
                    _ => match self.send_first_alone(error) {
                        Ok(count) => self.first += count,
                        // This datagram cannot be sent; those behind it may be.
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

/// True for an address that several receivers may share: the feed's destination is multicast, else unicast.
#[must_use]
pub const fn is_multicast(address: SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip.is_multicast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    }
}
