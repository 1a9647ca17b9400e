//! The sockets of a venue, made from its configuration.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    os::fd::OwnedFd,
    sync::Arc,
    thread,
    time::Duration,
};

use gateway::{
    ACCEPTED_MAX, DatagramNetwork, FeedServerNetworks, SocketOptions, Tcp, TcpBackend, TcpOptions,
    TimeCounts, Udp, UdpBackend, UdpLosses, UdpOptions, is_multicast,
};

use crate::{
    config::{Config, FeedLine, ProtocolName, StreamConfig, TcpBackendName, UdpBackendName},
    failure::Failure,
    layout::AgentName,
    pipeline::Networks,
};

/// The number of multicast probes sent before the group counts as unusable.
const PROBE_TRIES: u32 = 20;
const PROBE_INTERVAL: Duration = Duration::from_millis(10);

pub struct Sockets {
    /// To be wired to the agents.
    pub networks: Networks<Tcp, Udp>,
    /// The bound addresses, with their actual ports.
    pub addresses: Addresses,
    /// Notices for the user: a fallback in use, a buffer that was not granted.
    pub notices: Vec<String>,
    /// How the venue receives datagrams of order entry.
    pub udp: UdpInUse,
    /// How the venue watches connections of order entry.
    pub tcp: TcpBackendName,
    /// The datagrams lost at each receiving socket, by the name of its agent.
    pub losses: Vec<(&'static str, UdpLosses)>,
    /// The waiting times of arrivals at each port of order entry, where they are measured.
    pub arrivals: Vec<Arc<TimeCounts>>,
    descriptors: Vec<(AgentName, OwnedFd)>,
}

/// How the venue receives datagrams of order entry.
#[derive(Clone, Copy, Debug)]
pub struct UdpInUse {
    /// The backend of the port that has the exclusive one.
    pub backend: UdpBackend,
    pub receive_buffer_asked: usize,
    /// The size that the kernel reports, with its own bookkeeping: twice the size requested, if that was granted in
    /// full.
    pub receive_buffer_granted: usize,
}

/// The backends of the two ports for datagrams of order entry.
struct UdpBackends {
    plain: UdpBackend,
    sluice: UdpBackend,
}

impl UdpBackends {
    /// Only one port can use a thread of the kernel, or a queue of a network card.
    const fn new(wanted: UdpBackend, has_sluice: bool) -> Self {
        match wanted {
            UdpBackend::IoUring { .. } => {
                Self { plain: wanted, sluice: UdpBackend::IoUring { poller_core: None } }
            }
            UdpBackend::Xdp { .. } if has_sluice => Self { plain: wanted.next(), sluice: wanted },
            other => Self { plain: other, sluice: other },
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub order_entry: SocketAddr,
    /// `None` unless FIX is configured.
    pub order_entry_fix: Option<SocketAddr>,
    /// `None` unless OUCH 4.2 is configured.
    pub order_entry_ouch42: Option<SocketAddr>,
    /// `None` unless Sluice is configured.
    pub order_entry_sluice: Option<SocketAddr>,
    pub order_entry_udp: SocketAddr,
    /// The feed: a multicast group, or a unicast address.
    pub market_data: SocketAddr,
    /// Line B of the feed, where there is one.
    pub market_data_b: Option<SocketAddr>,
    /// The server that answers requests for lost messages.
    pub re_request: SocketAddr,
    /// Snapshots of the books.
    pub snapshot: SocketAddr,
    /// The feed over TCP.
    pub feed_tcp: SocketAddr,
    /// Market data by FIX, where it is configured.
    pub market_data_fix: Option<SocketAddr>,
}

impl Sockets {
    /// Binds all sockets.
    pub fn bind(config: &Config) -> Result<Self, Failure> {
        let wanted = &config.network;
        let options = UdpOptions {
            receive_buffer_bytes: wanted.receive_buffer.0 as usize,
            joins_sent: wanted.udp.joins(),
            ..UdpOptions::default()
        };
        let entry = |backend| UdpOptions { backend, reuse_port: wanted.reuse_port, ..options };
        let backends = UdpBackends::new(wanted.udp_backend(), config.order_entry_sluice.is_some());
        let mut notices = Vec::new();
        let enter = |key: &str, address: SocketAddr, protocol| {
            let backend = match wanted.tcp {
                TcpBackendName::Epoll => TcpBackend::Epoll,
                TcpBackendName::IoUring => TcpBackend::IoUring,
                TcpBackendName::Threads => {
                    TcpBackend::Threads { count: connection_threads(config, protocol) }
                }
            };
            let options = TcpOptions { backend, reuse_port: wanted.reuse_port };
            Tcp::bind_with(address, options).map_err(|error| taken(key, address, &error))
        };
        let mut order_entry =
            enter("order_entry.address", config.order_entry.address, ProtocolName::Ouch)?;
        let mut order_entry_udp = Udp::bind(config.order_entry_udp.address, &entry(backends.plain))
            .map_err(|e| taken("order_entry_udp.address", config.order_entry_udp.address, &e))?;
        let sluice = config.order_entry_sluice.as_ref().map(|it| it.address);
        let sluice = sluice.map(|address| {
            Udp::bind(address, &entry(backends.sluice))
                .map_err(|error| taken("order_entry_sluice.address", address, &error))
        });
        let mut order_entry_sluice = sluice.transpose()?;
        let re_request = Udp::bind(config.market_data.re_request, &options).map_err(|error| {
            taken("market_data.re_request", config.market_data.re_request, &error)
        })?;
        let listen = |key: &str, address: SocketAddr| {
            Tcp::bind(address).map_err(|error| taken(key, address, &error))
        };
        let fix = config.order_entry_fix.as_ref();
        let fix = fix.map(|it| enter("order_entry_fix.address", it.address, ProtocolName::Fix));
        let mut order_entry_fix = fix.transpose()?;
        let ouch42 = config.order_entry_ouch42.as_ref();
        let ouch42 =
            ouch42.map(|it| enter("order_entry_ouch42.address", it.address, ProtocolName::Ouch42));
        let mut order_entry_ouch42 = ouch42.transpose()?;
        let snapshot = listen("market_data.snapshot", config.market_data.snapshot)?;
        let stream = listen("market_data.tcp", config.market_data.tcp)?;
        let fix = config.market_data_fix.as_ref();
        let market_data_fix =
            fix.map(|fix| listen("market_data_fix.address", fix.address)).transpose()?;
        let first = match (&order_entry_sluice, backends.sluice) {
            (Some(sluice), UdpBackend::Xdp { .. }) => sluice,
            _ => &order_entry_udp,
        };
        let udp = UdpInUse {
            backend: first.backend(),
            receive_buffer_asked: options.receive_buffer_bytes,
            receive_buffer_granted: order_entry_udp.receive_buffer_bytes(),
        };
        notices.extend(buffer_notice(&udp));
        let udp_ports = [Some(&order_entry_udp), order_entry_sluice.as_ref()];
        notices.extend(refusals(wanted.udp, &udp_ports.map(|it| it.map_or(&[][..], Udp::refused))));
        let settings = SocketOptions {
            busy_poll: wanted.busy_poll.0,
            device: wanted.device.clone(),
            arrival_times: wanted.arrival_times.packet_times(),
        };
        let ports = [Some(&order_entry), order_entry_fix.as_ref(), order_entry_ouch42.as_ref()];
        let refused = ports.into_iter().flatten().find_map(Tcp::refused_backend);
        if let Some(error) = refused {
            notices.push(tcp_refusal(wanted.tcp, error));
        }
        let tcp = if refused.is_some() { TcpBackendName::Epoll } else { wanted.tcp };
        let mut bound = order_entry_udp.bind_device(&settings);
        let mut polled = order_entry_udp.poll_busily(&settings);
        if let Some(port) = &order_entry_sluice {
            bound = bound.and_then(|()| port.bind_device(&settings));
            polled = polled.and_then(|()| port.poll_busily(&settings));
        }
        for port in ports.into_iter().flatten() {
            bound = bound.and_then(|()| port.bind_device(&settings));
            polled = polled.and_then(|()| port.poll_busily(&settings));
        }
        bound.map_err(|error| {
            let device = settings.device.as_deref().unwrap_or_default();
            Failure::environment(format!("cannot use network.device {device:?}: {error}"))
                .hint("`ip link` lists the interfaces; naming one may need CAP_NET_RAW")
        })?;
        if let Err(error) = polled {
            notices.push(format!(
                "network.busy_poll is {:?}, and the system refuses it ({error}): order entry waits for \
                 the card; give the venue CAP_NET_ADMIN, or set net.core.busy_read",
                settings.busy_poll
            ));
        }
        // Try each port, even after one has refused.
        let by_tcp =
            [Some(&mut order_entry), order_entry_fix.as_mut(), order_entry_ouch42.as_mut()];
        let by_udp = [Some(&mut order_entry_udp), order_entry_sluice.as_mut()];
        let counted: Vec<io::Result<()>> = by_tcp
            .into_iter()
            .flatten()
            .map(|port| port.count_arrivals(&settings))
            .chain(by_udp.into_iter().flatten().map(|port| port.count_arrivals(&settings)))
            .collect();
        if let Some(error) = counted.into_iter().find_map(Result::err) {
            notices.push(format!(
                "network.arrival_times: {error}: waits are not measured at every port; give each port of order \
                 entry the address of a card that has such times, or use \"software\""
            ));
        }
        let by_tcp = [Some(&order_entry), order_entry_fix.as_ref(), order_entry_ouch42.as_ref()];
        let by_udp = [Some(&order_entry_udp), order_entry_sluice.as_ref()];
        let by_tcp = by_tcp.into_iter().flatten().filter_map(Tcp::arrivals);
        let arrivals =
            by_tcp.chain(by_udp.into_iter().flatten().filter_map(Udp::arrivals)).collect();
        let mut losses = vec![
            ("order_entry_udp", order_entry_udp.losses()),
            ("re_request", re_request.losses()),
        ];
        losses.extend(order_entry_sluice.as_ref().map(|it| ("order_entry_sluice", it.losses())));
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
        let sluice = order_entry_sluice.as_ref();
        let sluice = sluice.map(|it| (AgentName::OrderEntrySluice, it.readiness()));
        let data = market_data_fix.as_ref().map(|it| (AgentName::MarketDataFix, it.readiness()));
        let all = [
            (AgentName::OrderEntry, order_entry.readiness()),
            (AgentName::OrderEntryUdp, order_entry_udp.readiness()),
            (AgentName::FeedServer, re_request.readiness()),
            (AgentName::FeedServer, snapshot.readiness()),
            (AgentName::FeedServer, stream.readiness()),
        ];
        let more = fix.into_iter().chain(ouch42).chain(sluice).chain(data);
        for (agent, descriptor) in all.into_iter().chain(more) {
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
            order_entry_sluice: order_entry_sluice.as_ref().map(Udp::address),
            order_entry_udp: order_entry_udp.address(),
            market_data: destination,
            market_data_b: line_b.as_ref().map(|(_, destination)| *destination),
            re_request: re_request.address(),
            snapshot: snapshot.address(),
            feed_tcp: stream.address(),
            market_data_fix: market_data_fix.as_ref().map(Tcp::address),
        };
        let feed_server = FeedServerNetworks { requests: re_request, snapshot, stream };
        let networks = Networks {
            order_entry,
            order_entry_fix,
            order_entry_ouch42,
            order_entry_sluice,
            order_entry_udp,
            market_data: feed,
            market_data_b: line_b,
            feed_server,
            market_data_fix,
            streams,
        };
        Ok(Self { networks, addresses, notices, udp, tcp, losses, arrivals, descriptors })
    }

    /// Takes the descriptors that wake a group of these agents. Each descriptor is taken only once.
    pub fn take_descriptors(&mut self, agents: &[AgentName]) -> Vec<OwnedFd> {
        let (taken, kept) =
            self.descriptors.drain(..).partition(|(agent, _)| agents.contains(agent));
        self.descriptors = kept;
        let taken: Vec<(AgentName, OwnedFd)> = taken;
        taken.into_iter().map(|(_, descriptor)| descriptor).collect()
    }
}

/// A notice for each backend that the system refuses to the ports for datagrams: the reason, the fallback and the
/// remedy.
fn refusals(wanted: UdpBackendName, ports: &[&[(UdpBackend, io::Error)]]) -> Vec<String> {
    let mut named = Vec::new();
    let mut notices = Vec::new();
    for (refused, error) in ports.iter().copied().flatten() {
        if named.contains(refused) {
            continue;
        }
        named.push(*refused);
        let remedy = match refused {
            UdpBackend::IoUring { poller_core: Some(core) } => format!(
                "core {core} must be one that this process may use, and `network.sqpoll_core` names it; {}",
                uring_remedy(error)
            ),
            UdpBackend::IoUring { poller_core: None } => uring_remedy(error).into(),
            UdpBackend::Xdp { .. } => xdp_remedy(error).into(),
            UdpBackend::Gro | UdpBackend::Mmsg => {
                "UDP_GRO needs Linux 5.0 or newer, and a sandbox that lets it pass".into()
            }
        };
        notices.push(format!(
            "network.udp is {wanted}, and the system refuses {refused} ({error}): {} is used; {remedy}",
            refused.next()
        ));
    }
    notices
}

/// Threads for the connections of a port: one for each, and a few for connections that were just closed.
pub(crate) fn connection_threads(config: &Config, protocol: ProtocolName) -> usize {
    match config.connections_of(protocol) {
        0 => 0,
        connections => connections + ACCEPTED_MAX,
    }
}

/// The notice that the system refuses a TCP backend: the reason, the fallback and the remedy.
fn tcp_refusal(wanted: TcpBackendName, error: &io::Error) -> String {
    let remedy = match wanted {
        TcpBackendName::Threads => {
            "raise `ulimit -u`, `sysctl kernel.threads-max` or pids.max of its control group, or lower connections_max: \
             each connection has a thread"
        }
        TcpBackendName::Epoll | TcpBackendName::IoUring => uring_remedy(error),
    };
    let wanted = wanted.as_str();
    format!("network.tcp is {wanted}, and the system refuses it ({error}): epoll is used; {remedy}")
}

/// The remedy that makes io_uring available, by the error.
fn uring_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "`sysctl -w kernel.io_uring_disabled=0` allows it, and a sandbox or container may forbid it by seccomp"
        }
        io::ErrorKind::OutOfMemory => "raise `ulimit -l`",
        _ => "it needs Linux 6.0 or newer",
    }
}

/// The remedy that makes AF_XDP available, by the error.
fn xdp_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "give the venue CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, and let a sandbox pass bpf(2)"
        }
        io::ErrorKind::AddrNotAvailable => {
            "give the port an address of the card: `ip address` lists them"
        }
        io::ErrorKind::ResourceBusy | io::ErrorKind::AlreadyExists => {
            "another program uses the card or its queue: `ip link` and `bpftool net` show which"
        }
        io::ErrorKind::InvalidInput => "`ethtool -l` says how many queues the card has",
        io::ErrorKind::Unsupported => {
            "it needs Linux 5.9 and a card whose driver has XDP; loopback has none"
        }
        _ => {
            "docs/notes/datagrams.md has its requirements; if locked memory is the limit, raise `ulimit -l`"
        }
    }
}

/// The notice that the receive buffer is too small. The kernel counts its bookkeeping, and grants twice the size
/// requested, or less.
fn buffer_notice(udp: &UdpInUse) -> Option<String> {
    let granted = udp.receive_buffer_granted / 2;
    (granted < udp.receive_buffer_asked).then(|| {
        format!(
            "the system grants a UDP receive buffer of {granted} bytes where {} were asked for \
             (network.receive_buffer): bursts may lose datagrams; `sysctl -w net.core.rmem_max={}` \
             raises the limit",
            udp.receive_buffer_asked, udp.receive_buffer_asked
        )
    })
}

/// The sending socket of a feed line and its destination: the group if this machine carries multicast on the interface,
/// otherwise the unicast address, with a notice.
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
            let why =
                result.err().map_or("a probe did not come back".into(), |error| error.to_string());
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

/// The sending socket of a delta stream.
fn stream_socket(config: &Config, stream: &StreamConfig) -> Result<Udp, Failure> {
    let datagram_bytes_max = stream.packet_size.0 as usize;
    let joins_sent = config.network.udp.joins();
    let options = UdpOptions { datagram_bytes_max, joins_sent, ..UdpOptions::default() };
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

/// True if a datagram to the configured group comes back; `None` if the feed goes to one address.
pub fn feed_group_works(config: &Config) -> Option<bool> {
    match config.market_data.group {
        SocketAddr::V4(group) if group.ip().is_multicast() => {
            let interface = config.market_data.interface;
            Some(multicast_works(group, interface, &UdpOptions::default()))
        }
        _ => None,
    }
}

/// Sends probes to the group on a separate port, and returns true if one comes back.
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
            "another program, perhaps another venue, uses it: set {key} to another address, or to \
             port 0 for a free one"
        )),
        io::ErrorKind::AddrNotAvailable => {
            failure.hint("this machine has no such address: `ip address` lists its addresses")
        }
        io::ErrorKind::PermissionDenied => {
            failure.hint("ports below 1024 need root or CAP_NET_BIND_SERVICE; set another port")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The notice of a refused TCP backend names the reason, the fallback and the remedy.
    #[test]
    fn a_refused_way_has_its_remedy() {
        let error = io::ErrorKind::WouldBlock.into();
        let text = tcp_refusal(TcpBackendName::Threads, &error);
        assert!(text.starts_with("network.tcp is threads, and the system refuses it ("), "{text}");
        assert!(text.contains("epoll is used; raise `ulimit -u`"), "{text}");
        let error = io::ErrorKind::PermissionDenied.into();
        let text = tcp_refusal(TcpBackendName::IoUring, &error);
        assert!(text.contains("epoll is used; `sysctl -w kernel.io_uring_disabled=0`"), "{text}");
    }

    /// Only one port can use a queue of a network card or a thread of the kernel. A refused backend has its remedy.
    #[test]
    fn one_port_has_what_only_one_can_have() {
        let queue = UdpBackend::Xdp { queue: 3 };
        let backends = UdpBackends::new(queue, true);
        assert_eq!((backends.plain, backends.sluice), (UdpBackend::Gro, queue));
        assert_eq!(UdpBackends::new(queue, false).plain, queue);
        let ring = UdpBackend::IoUring { poller_core: Some(1) };
        let backends = UdpBackends::new(ring, true);
        assert_eq!(backends.plain, ring);
        assert_eq!(backends.sluice, UdpBackend::IoUring { poller_core: None });
        for (kind, remedy) in [
            (io::ErrorKind::PermissionDenied, "gro is used; give the venue CAP_NET_ADMIN"),
            (io::ErrorKind::ResourceBusy, "gro is used; another program uses the card"),
            (io::ErrorKind::AddrNotAvailable, "gro is used; give the port an address of the card"),
        ] {
            let text = refusals(UdpBackendName::Xdp, &[&[(queue, kind.into())]]).remove(0);
            assert!(
                text.starts_with("network.udp is xdp, and the system refuses xdp (")
                    && text.contains(remedy),
                "{text}"
            );
        }
    }

    /// An open port has a thread for each connection; a closed port has none.
    #[test]
    fn a_port_has_a_thread_for_each_connection() {
        let config = Config::parse("[order_entry]\nconnections_max = 100\n", "venue.toml");
        let config = config.expect("it is valid");
        assert_eq!(connection_threads(&config, ProtocolName::Ouch), 100 + ACCEPTED_MAX);
        assert_eq!(connection_threads(&config, ProtocolName::Fix), 0);
    }
}
