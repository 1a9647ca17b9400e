//! The sockets of a venue, made from its configuration.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    os::fd::OwnedFd,
    thread,
    time::Duration,
};

use gateway::{DatagramNetwork, FeedServerNetworks, Tcp, Udp, UdpOptions, is_multicast};

use crate::{
    config::{Config, FeedLine, StreamConfig},
    failure::Failure,
    layout::AgentName,
    pipeline::Networks,
};

/// How long a multicast probe is waited for, and how often it is looked for.
const PROBE_TRIES: u32 = 20;
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

pub struct Sockets {
    /// To be wired to the agents.
    pub networks: Networks<Tcp, Udp>,
    /// Where they are, with the ports they really have.
    pub addresses: Addresses,
    /// What the user should know: a fallback that was taken, a buffer that was not granted.
    pub notices: Vec<String>,
    descriptors: Vec<(AgentName, OwnedFd)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub order_entry: SocketAddr,
    /// Where FIX is configured.
    pub order_entry_fix: Option<SocketAddr>,
    /// Where OUCH 4.2 is configured.
    pub order_entry_ouch42: Option<SocketAddr>,
    pub order_entry_udp: SocketAddr,
    /// The feed: a multicast group, or a unicast address.
    pub market_data: SocketAddr,
    /// Line B of the feed, where there is one.
    pub market_data_b: Option<SocketAddr>,
    /// Requests for lost messages.
    pub re_request: SocketAddr,
    /// Snapshots of the books.
    pub snapshot: SocketAddr,
    /// The feed over TCP.
    pub feed_tcp: SocketAddr,
}

impl Sockets {
    /// Binds all of them.
    pub fn bind(config: &Config) -> Result<Self, Failure> {
        let options = UdpOptions::default();
        let mut notices = Vec::new();
        let order_entry = Tcp::bind(config.order_entry.address)
            .map_err(|error| taken("order_entry.address", config.order_entry.address, &error))?;
        let order_entry_udp = Udp::bind(config.order_entry_udp.address, &options)
            .map_err(|e| taken("order_entry_udp.address", config.order_entry_udp.address, &e))?;
        let re_request = Udp::bind(config.market_data.re_request, &options).map_err(|error| {
            taken("market_data.re_request", config.market_data.re_request, &error)
        })?;
        let listen = |key: &str, address: SocketAddr| {
            Tcp::bind(address).map_err(|error| taken(key, address, &error))
        };
        let fix = config.order_entry_fix.as_ref();
        let order_entry_fix =
            fix.map(|fix| listen("order_entry_fix.address", fix.address)).transpose()?;
        let ouch42 = config.order_entry_ouch42.as_ref();
        let order_entry_ouch42 =
            ouch42.map(|it| listen("order_entry_ouch42.address", it.address)).transpose()?;
        let snapshot = listen("market_data.snapshot", config.market_data.snapshot)?;
        let stream = listen("market_data.tcp", config.market_data.tcp)?;
        let granted = order_entry_udp.receive_buffer_bytes();
        if granted < options.receive_buffer_bytes {
            notices.push(format!(
                "the system grants a UDP receive buffer of {granted} bytes where {} were asked \
                 for: bursts may lose datagrams (raise net.core.rmem_max)",
                options.receive_buffer_bytes
            ));
        }
        let market_data = &config.market_data;
        let (feed, destination) = feed_socket(&market_data.line_a(), &options, &mut notices)?;
        let line_b = market_data.line_b();
        let line_b = line_b.map(|line| feed_socket(&line, &options, &mut notices)).transpose()?;
        let streams = config.market_data.streams.iter().map(|stream| stream_socket(config, stream));
        let streams = streams.collect::<Result<Vec<_>, Failure>>()?;
        let mut descriptors = Vec::new();
        let fix = order_entry_fix.as_ref().map(|it| (AgentName::OrderEntryFix, it.readiness()));
        let ouch42 = order_entry_ouch42.as_ref();
        let ouch42 = ouch42.map(|it| (AgentName::OrderEntryOuch42, it.readiness()));
        let all = [
            (AgentName::OrderEntry, order_entry.readiness()),
            (AgentName::OrderEntryUdp, order_entry_udp.readiness()),
            (AgentName::FeedServer, re_request.readiness()),
            (AgentName::FeedServer, snapshot.readiness()),
            (AgentName::FeedServer, stream.readiness()),
        ];
        for (agent, descriptor) in all.into_iter().chain(fix).chain(ouch42) {
            let descriptor = descriptor.map_err(|error| {
                Failure::environment(format!("no file descriptor left: {error}"))
                    .hint("raise `ulimit -n`")
            })?;
            descriptors.push((agent, descriptor));
        }
        let addresses = Addresses {
            order_entry: order_entry.address(),
            order_entry_fix: order_entry_fix.as_ref().map(Tcp::address),
            order_entry_ouch42: order_entry_ouch42.as_ref().map(Tcp::address),
            order_entry_udp: order_entry_udp.address(),
            market_data: destination,
            market_data_b: line_b.as_ref().map(|(_, destination)| *destination),
            re_request: re_request.address(),
            snapshot: snapshot.address(),
            feed_tcp: stream.address(),
        };
        let feed_server = FeedServerNetworks { requests: re_request, snapshot, stream };
        let networks = Networks {
            order_entry,
            order_entry_fix,
            order_entry_ouch42,
            order_entry_udp,
            market_data: feed,
            market_data_b: line_b,
            feed_server,
            streams,
        };
        Ok(Self { networks, addresses, notices, descriptors })
    }

    /// The descriptors that wake a group of these agents. Each is given away once.
    pub fn take_descriptors(&mut self, agents: &[AgentName]) -> Vec<OwnedFd> {
        let (taken, kept) =
            self.descriptors.drain(..).partition(|(agent, _)| agents.contains(agent));
        self.descriptors = kept;
        let taken: Vec<(AgentName, OwnedFd)> = taken;
        taken.into_iter().map(|(_, descriptor)| descriptor).collect()
    }
}

/// The socket a line of the feed leaves by, and where it goes: the group if this machine carries multicast
/// on the interface, the unicast address otherwise, with a notice.
fn feed_socket(
    line: &FeedLine,
    options: &UdpOptions,
    notices: &mut Vec<String>,
) -> Result<(Udp, SocketAddr), Failure> {
    let failed = |error: io::Error| taken(line.key, line.group, &error);
    let group = with_port(line.group).map_err(failed)?;
    let IpAddr::V4(ip) = group.ip() else {
        return Err(Failure::usage(format!("{} must be an IPv4 address", line.key)));
    };
    if !ip.is_multicast() {
        return Ok((sender(options).map_err(failed)?, group));
    }
    let group_v4 = SocketAddrV4::new(ip, group.port());
    match Udp::multicast_sender(line.interface, options) {
        Ok(socket) if multicast_works(group_v4, line.interface, options) => Ok((socket, group)),
        result => {
            let why = result.err().map_or("it does not arrive".into(), |error| error.to_string());
            let fallback = SocketAddr::new(line.fallback.ip(), {
                match line.fallback.port() {
                    0 => group.port(),
                    port => port,
                }
            });
            notices.push(format!(
                "no multicast on {} ({why}): the feed goes to {fallback} by unicast, to one \
                 reader",
                line.interface
            ));
            Ok((sender(options).map_err(failed)?, fallback))
        }
    }
}

/// The socket that a delta stream leaves by.
fn stream_socket(config: &Config, stream: &StreamConfig) -> Result<Udp, Failure> {
    let datagram_bytes_max = stream.packet_size.0 as usize;
    let options = UdpOptions { datagram_bytes_max, ..UdpOptions::default() };
    let socket = match stream.to.iter().any(|to| is_multicast(*to)) {
        true => Udp::multicast_sender(config.market_data.interface, &options),
        false => sender(&options),
    };
    socket.map_err(|error| {
        taken(&format!("market_data.streams {:?}", stream.name), stream.to[0], &error)
    })
}

fn sender(options: &UdpOptions) -> io::Result<Udp> {
    Udp::bind(SocketAddr::from(([0, 0, 0, 0], 0)), options)
}

/// The address itself, with a free port if it has none.
fn with_port(address: SocketAddr) -> io::Result<SocketAddr> {
    if address.port() != 0 {
        return Ok(address);
    }
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    Ok(SocketAddr::new(address.ip(), free.port()))
}

/// True if a datagram to the configured group comes back; nothing if the feed goes to one address.
pub fn feed_group_works(config: &Config) -> Option<bool> {
    match config.market_data.group {
        SocketAddr::V4(group) if group.ip().is_multicast() => {
            let interface = config.market_data.interface;
            Some(multicast_works(group, interface, &UdpOptions::default()))
        }
        _ => None,
    }
}

/// Sends a probe to the group, on a port of its own, and says whether it comes back.
fn multicast_works(group: SocketAddrV4, interface: Ipv4Addr, options: &UdpOptions) -> bool {
    let probe = || -> io::Result<bool> {
        let port = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.local_addr()?.port();
        let group = SocketAddrV4::new(*group.ip(), port);
        let mut receiver = Udp::multicast_receiver(group, interface, options)?;
        let mut sender = Udp::multicast_sender(interface, options)?;
        for _ in 0..PROBE_TRIES {
            sender.send(group.into(), b"damrak probe")?;
            sender.flush()?;
            let mut heard = false;
            receiver.receive(&mut |_, datagram| heard |= datagram == b"damrak probe")?;
            if heard {
                return Ok(true);
            }
            thread::sleep(PROBE_INTERVAL);
        }
        Ok(false)
    };
    probe().unwrap_or(false)
}

fn taken(key: &str, address: SocketAddr, error: &io::Error) -> Failure {
    let failure = Failure::environment(format!("cannot use {address} ({key}): {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => failure.hint(format!(
            "another program, perhaps another venue, has it: set {key} to another address, or to \
             port 0 for a free one"
        )),
        io::ErrorKind::AddrNotAvailable => {
            failure.hint("this machine has no such address: `ip address` lists what it has")
        }
        io::ErrorKind::PermissionDenied => failure.hint("ports below 1024 belong to root"),
        _ => failure,
    }
}
