//! The sockets of the venue: their system calls, buffers and options.

use std::fmt;

use gateway::UdpBackend;
use os::PacketTimes;
use serde::Deserialize;

use super::{Bytes, Span};

/// `[network]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkConfig {
    /// System calls for datagrams. `auto` (default) and `gro`: recvmmsg and sendmmsg; if the system supports it, several
    /// datagrams pass the kernel as one (UDP_GRO, UDP_SEGMENT). `mmsg`: recvmmsg and sendmmsg, each datagram by itself.
    /// `io_uring`: the kernel receives order entry through io_uring, and replies leave by sendmmsg (UDP_SEGMENT). `xdp`: the
    /// venue takes frames of order entry from a queue of the network card, before the network stack (AF_XDP), and replies
    /// leave by sendmmsg (UDP_SEGMENT); it needs a program built with `--features af-xdp`. If the system refuses `io_uring`
    /// or `xdp`, `gro` is used.
    pub udp: UdpBackendName,
    /// With `udp = "io_uring"`: the core of a kernel thread that receives for `order_entry_udp` (SQPOLL). The thread takes
    /// the whole core as long as datagrams arrive. Default none: the thread of the agent receives.
    pub sqpoll_core: Option<usize>,
    /// With `udp = "xdp"`: the queue of the network card that has the port's address, from 0. Default 0. A queue serves one
    /// port: that of `order_entry_sluice` if it is open, else that of `order_entry_udp`.
    pub xdp_queue: Option<u32>,
    /// System calls for connections of order entry. `epoll` (default): the system reports the connections that have data,
    /// and the venue reads each of them. `io_uring`: the kernel accepts and receives through io_uring. `threads`: a thread
    /// for each connection sleeps in its receive call; a port starts as many threads as it may have connections. If the
    /// system refuses one of these, epoll is used.
    pub tcp: TcpBackendName,
    /// The receive buffer of each UDP socket, as requested from the system. Default `4MiB`.
    pub receive_buffer: Bytes,
    /// How long the system polls the network card when a thread receives for order entry (SO_BUSY_POLL). Default `0s`: it
    /// waits for the card.
    pub busy_poll: Span,
    /// The one network interface by which order entry is reached (SO_BINDTODEVICE). Default none: all.
    pub device: Option<String>,
    /// Whether other sockets of the same user may be bound to the ports of order entry (SO_REUSEPORT). The system
    /// then gives each new connection, and each sender of datagrams, to one of the sockets. Default false: a port that
    /// another program has is refused.
    pub reuse_port: bool,
    /// Measures how long arrivals at order entry wait until the venue reads them, by the time of arrival (SO_TIMESTAMPING).
    /// `software`: the time at which the kernel got the packet from the interface. `hardware`: the time at which the card
    /// got it from the wire, by the card's clock, which must follow the system's (phc2sys). The leg `socket` of `/stages`
    /// has the figures. Needs `tcp = "epoll"` and `udp = "auto"`, `"gro"` or `"mmsg"`. Default `none`.
    pub arrival_times: ArrivalTimes,
}

/// `network.arrival_times`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalTimes {
    #[default]
    None,
    Software,
    Hardware,
}

impl ArrivalTimes {
    /// The setting as the socket layer takes it.
    pub const fn packet_times(self) -> Option<PacketTimes> {
        match self {
            Self::None => None,
            Self::Software => Some(PacketTimes::Software),
            Self::Hardware => Some(PacketTimes::Hardware),
        }
    }
}

/// `network.udp`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UdpBackendName {
    #[default]
    Auto,
    Gro,
    Mmsg,
    #[serde(rename = "io_uring")]
    IoUring,
    Xdp,
}

/// `network.tcp`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TcpBackendName {
    #[default]
    Epoll,
    IoUring,
    Threads,
}

impl TcpBackendName {
    pub const ALL: [Self; 3] = [Self::Epoll, Self::IoUring, Self::Threads];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
        }
    }
}

impl UdpBackendName {
    /// True if datagrams should leave together.
    pub const fn joins(self) -> bool {
        !matches!(self, Self::Mmsg)
    }
}

impl fmt::Display for UdpBackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Gro => "gro",
            Self::Mmsg => "mmsg",
            Self::IoUring => "io_uring",
            Self::Xdp => "xdp",
        })
    }
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            udp: UdpBackendName::Auto,
            sqpoll_core: None,
            xdp_queue: None,
            tcp: TcpBackendName::Epoll,
            receive_buffer: Bytes(4 << 20),
            busy_poll: Span(std::time::Duration::ZERO),
            device: None,
            reuse_port: false,
            arrival_times: ArrivalTimes::None,
        }
    }
}

impl NetworkConfig {
    /// The backend by which order entry should receive datagrams.
    pub const fn udp_backend(&self) -> UdpBackend {
        match self.udp {
            UdpBackendName::Auto | UdpBackendName::Gro => UdpBackend::Gro,
            UdpBackendName::Mmsg => UdpBackend::Mmsg,
            UdpBackendName::IoUring => UdpBackend::IoUring { poller_core: self.sqpoll_core },
            UdpBackendName::Xdp => UdpBackend::Xdp { queue: self.queue() },
        }
    }

    const fn queue(&self) -> u32 {
        match self.xdp_queue {
            Some(queue) => queue,
            None => 0,
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if !(64 << 10..=1 << 30).contains(&self.receive_buffer.0) {
            return Err(format!(
                "network.receive_buffer is {}: it must be from 64KiB to 1GiB",
                self.receive_buffer
            ));
        }
        if self.busy_poll.0 > BUSY_POLL_MAX {
            return Err(format!(
                "network.busy_poll is {:?}: it must be {BUSY_POLL_MAX:?} at most",
                self.busy_poll.0
            ));
        }
        if self.sqpoll_core.is_some() && self.udp != UdpBackendName::IoUring {
            return Err(format!(
                "network.sqpoll_core needs network.udp = \"io_uring\": it is {:?}",
                self.udp.to_string()
            ));
        }
        if self.xdp_queue.is_some() && self.udp != UdpBackendName::Xdp {
            return Err(format!(
                "network.xdp_queue needs network.udp = \"xdp\": it is {:?}",
                self.udp.to_string()
            ));
        }
        if self.arrival_times != ArrivalTimes::None {
            let (tcp, udp) = (self.tcp.as_str(), self.udp);
            if self.tcp != TcpBackendName::Epoll {
                return Err(format!(
                    "network.arrival_times needs network.tcp = \"epoll\": it is \"{tcp}\""
                ));
            }
            if matches!(udp, UdpBackendName::IoUring | UdpBackendName::Xdp) {
                return Err(format!(
                    "network.arrival_times needs network.udp = \"auto\", \"gro\" or \"mmsg\": it is \"{udp}\""
                ));
            }
        }
        if self.queue() > QUEUE_MAX {
            return Err(format!(
                "network.xdp_queue is {}: it must be {QUEUE_MAX} at most",
                self.queue()
            ));
        }
        match &self.device {
            Some(name) if name.is_empty() || name.len() > DEVICE_LEN_MAX => Err(format!(
                "network.device is {name:?}: the name of an interface has 1 to {DEVICE_LEN_MAX} characters"
            )),
            _ => Ok(()),
        }
    }
}

/// The longest time that makes sense: while the system polls the card, nothing else runs on the thread.
const BUSY_POLL_MAX: std::time::Duration = std::time::Duration::from_millis(1);

/// No network card has more queues.
const QUEUE_MAX: u32 = 4095;

/// IFNAMSIZ, less the zero at the end.
const DEVICE_LEN_MAX: usize = 15;
