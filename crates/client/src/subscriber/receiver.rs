//! Receives the feed's multicast datagrams, by one line or two, and requests missing messages from the re-request server.
//!
//! Invariant: messages reach the caller in order, each once; a gap is never skipped silently.

use std::{
    collections::VecDeque,
    fmt, io,
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
};

use socket2::{Domain, Protocol, Socket, Type};
use wire::moldudp64::{
    self, PacketKind, ReceiveError, Receiver, ReceiverLimits, ReceiverStatistics, Session,
};

use crate::participant::DatagramSocket;

/// The receive buffer that is requested from the system for each socket, in bytes.
pub const RECEIVE_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Datagrams read in one turn.
const READS_PER_POLL: usize = 256;
/// Maximum bytes of datagrams that are kept while a snapshot is received; later ones are dropped, and
/// requested again when the feed is applied.
const HELD_BYTES_MAX: usize = 64 << 20;
/// The length of the longest datagram, in bytes.
const DATAGRAM_LEN_MAX: usize = 65_535;

/// The address at which the feed is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedSource {
    /// A multicast group that this machine joins on one interface; other programs may join it too.
    Multicast {
        /// The group and its port.
        group: SocketAddrV4,
        /// Address of the interface; 127.0.0.1 is loopback.
        interface: Ipv4Addr,
    },
    /// A unicast address of this machine.
    Unicast(SocketAddr),
}

/// The configuration of a [`FeedReceiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedReceiverConfig {
    /// The address at which the feed is received.
    pub feed: FeedSource,
    /// The address of line B, if there is one. The first copy of each message counts.
    pub feed_b: Option<FeedSource>,
    /// The re-request server; `None` if missing messages are not requested.
    pub requests_to: Option<SocketAddr>,
    /// Number of the first message to deliver; 1 is the first of the session.
    pub expected: u64,
    /// The delay before missing messages are requested, and the number of later ones kept meanwhile.
    pub limits: ReceiverLimits,
}

/// The counters of a [`FeedReceiver`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedReceiverReport {
    /// Datagrams received, including answers to requests.
    pub datagrams: u64,
    /// Received datagrams that were not MoldUDP64 packets, and were ignored.
    pub malformed: u64,
    /// Heartbeats received.
    pub heartbeats: u64,
    /// Messages requested; a repeated request counts again.
    pub requested: u64,
    /// Messages known to exist that were not received: lost, unless an answer still brings them.
    pub missing: u64,
    /// The counters of the messages.
    pub messages: ReceiverStatistics,
}

/// The counters of one line of the feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedLineReport {
    /// Datagrams received by this line.
    pub datagrams: u64,
    /// Messages whose first copy arrived by this line.
    pub first: u64,
    /// Messages that had been received already.
    pub duplicates: u64,
}

/// The error of a feed that cannot be received.
#[derive(Debug, thiserror::Error)]
pub enum FeedReceiverError {
    /// The socket for the feed cannot be opened.
    #[error("cannot receive the feed from {feed}")]
    Open {
        /// The address of the feed.
        feed: FeedSource,
        /// The error of the system.
        source: io::Error,
    },
    /// The socket for requests cannot be opened.
    #[error("cannot send requests to {requests_to}")]
    OpenRequests {
        /// The address of the re-request server.
        requests_to: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Reading the feed or sending a request failed.
    #[error("cannot receive the feed")]
    Socket(#[source] io::Error),
    /// The packets are of different sessions.
    #[error("the packets of the feed do not belong to one stream")]
    Stream(#[source] ReceiveError),
}

impl fmt::Display for FeedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Multicast { group, interface } => write!(f, "group {group} on {interface}"),
            Self::Unicast(local) => local.fmt(f),
        }
    }
}

/// Receives the feed from its sockets, in order and each message once, and requests missing messages.
#[derive(Debug)]
pub struct FeedReceiver<S = UdpSocket> {
    /// Line A, then line B if there is one.
    lines: Vec<Line<S>>,
    requests: Option<S>,
    receiver: Receiver,
    limits: ReceiverLimits,
    mode: Mode,
    /// Datagrams that were kept and not taken yet, each with its line.
    held: VecDeque<(usize, Vec<u8>)>,
    held_bytes: usize,
    /// The session of the newest packet of a line.
    heard: Option<Session>,
    buffer: Box<[u8]>,
    report: FeedReceiverReport,
    /// One above the highest number known to exist.
    known_end: u64,
    /// The time since which the first hole is open, and the number of its first message.
    gap: Option<(u64, u64)>,
    receive_buffer_granted: usize,
}

#[derive(Debug)]
struct Line<S> {
    socket: S,
    report: FeedLineReport,
}

impl<S> Line<S> {
    fn new(socket: S) -> Self {
        Self { socket, report: FeedLineReport::default() }
    }
}

/// The treatment of the feed's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Datagrams are kept.
    Hold,
    /// The first datagram gives the number of the first message.
    BeginNext,
    /// Datagrams are taken.
    Take,
}

impl FeedReceiver {
    /// Opens the sockets and joins the group.
    ///
    /// # Errors
    /// [`FeedReceiverError::Open`], [`FeedReceiverError::OpenRequests`].
    pub fn open(config: &FeedReceiverConfig) -> Result<Self, FeedReceiverError> {
        let FeedReceiverConfig { feed, feed_b, requests_to, expected, limits } = *config;
        let open =
            |feed| open_feed(feed).map_err(|source| FeedReceiverError::Open { feed, source });
        let (feed_socket, receive_buffer_granted) = open(feed)?;
        let line_b = feed_b.map(open).transpose()?;
        let requests = requests_to
            .map(|requests_to| {
                open_requests(feed, requests_to)
                    .map_err(|source| FeedReceiverError::OpenRequests { requests_to, source })
            })
            .transpose()?;
        let mut receiver = Self::over(feed_socket, requests, expected, limits);
        receiver.receive_buffer_granted = receive_buffer_granted;
        if let Some((socket, granted)) = line_b {
            receiver.add_line(socket);
            receiver.receive_buffer_granted = receive_buffer_granted.min(granted);
        }
        Ok(receiver)
    }

    /// The addresses at which the feed is received, line A first.
    ///
    /// # Errors
    /// The error of the system.
    pub fn local_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.lines.iter().map(|line| line.socket.local_addr()).collect()
    }

    /// Bytes that the system granted each line for datagrams that wait to be read, of [`RECEIVE_BUFFER_BYTES`]
    /// requested.
    #[must_use]
    pub fn receive_buffer_granted(&self) -> usize {
        self.receive_buffer_granted
    }
}

impl<S: DatagramSocket> FeedReceiver<S> {
    /// A receiver over open sockets: one for the feed, one connected to the re-request server.
    pub fn over(feed: S, requests: Option<S>, expected: u64, limits: ReceiverLimits) -> Self {
        Self {
            lines: vec![Line::new(feed)],
            requests,
            receiver: Receiver::new(expected, limits),
            limits,
            mode: Mode::Take,
            held: VecDeque::new(),
            held_bytes: 0,
            heard: None,
            buffer: vec![0; DATAGRAM_LEN_MAX].into_boxed_slice(),
            report: FeedReceiverReport::default(),
            known_end: expected,
            gap: None,
            receive_buffer_granted: 0,
        }
    }

    /// Takes the feed from one more socket. The first copy of each message counts, whichever line brings it.
    pub fn add_line(&mut self, feed: S) {
        self.lines.push(Line::new(feed));
    }

    /// The counters of each line, line A first. They exclude answers to requests.
    pub fn lines(&self) -> impl Iterator<Item = FeedLineReport> {
        self.lines.iter().map(|line| line.report)
    }

    /// Keeps the datagrams of the feed from here on, until [`begin_at`](Self::begin_at).
    pub fn hold(&mut self) {
        self.mode = Mode::Hold;
        self.gap = None;
    }

    /// Takes the kept datagrams and later ones, from this message of this session on. The counters of messages start
    /// again.
    pub fn begin_at(&mut self, session: Option<Session>, number: u64) {
        self.receiver = match session {
            Some(session) => Receiver::for_session(session, number, self.limits),
            None => Receiver::new(number, self.limits),
        };
        // Datagrams kept from another session do not belong to this feed.
        let is_other = |datagram: &Vec<u8>| {
            moldudp64::parse(datagram).is_ok_and(|it| session.is_some_and(|own| own != it.session))
        };
        self.held.retain(|(_, datagram)| !is_other(datagram));
        self.held_bytes = self.held.iter().map(|(_, datagram)| datagram.len()).sum();
        self.mode = Mode::Take;
        self.known_end = number;
        self.gap = None;
    }

    /// Begins with the first message of the next datagram.
    pub fn begin_next(&mut self) {
        self.mode = Mode::BeginNext;
    }

    /// Reads the next datagram of a line into the buffer.
    fn read_line(&mut self, index: usize) -> Result<Option<usize>, FeedReceiverError> {
        let line = &mut self.lines[index];
        let len = read(&line.socket, &mut self.buffer)?;
        line.report.datagrams += u64::from(len.is_some());
        self.report.datagrams += u64::from(len.is_some());
        Ok(len)
    }

    /// Reads the feed, and keeps its datagrams.
    fn keep(&mut self) -> Result<(), FeedReceiverError> {
        for index in 0..self.lines.len() {
            for _ in 0..READS_PER_POLL {
                let Some(len) = self.read_line(index)? else { break };
                if self.held_bytes + len <= HELD_BYTES_MAX {
                    self.held_bytes += len;
                    self.held.push_back((index, self.buffer[..len].to_vec()));
                }
                let Ok(packet) = moldudp64::parse(&self.buffer[..len]) else { continue };
                let (session, number) = (packet.session, packet.sequence_number);
                self.heard = Some(session);
                if self.mode == Mode::BeginNext {
                    self.begin_at(Some(session), number);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Takes datagrams that were kept.
    fn take_held(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(u64, &[u8]),
    ) -> Result<usize, FeedReceiverError> {
        let mut delivered = 0;
        for _ in 0..READS_PER_POLL {
            let Some((index, datagram)) = self.held.pop_front() else { break };
            self.held_bytes -= datagram.len();
            self.buffer[..datagram.len()].copy_from_slice(&datagram);
            delivered += self.take_of_line(index, datagram.len(), now_ns, on_message)?;
        }
        Ok(delivered)
    }

    /// One turn: reads available datagrams, hands the messages on with their stream sequence numbers, and requests
    /// missing ones. Returns the number of messages handed on.
    ///
    /// # Errors
    /// The socket failed, or the packets are those of another session.
    pub fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(u64, &[u8]),
    ) -> Result<usize, FeedReceiverError> {
        if self.mode != Mode::Take {
            self.keep()?;
            return Ok(0);
        }
        let mut delivered = self.take_held(now_ns, on_message)?;
        for index in 0..self.lines.len() {
            for _ in 0..READS_PER_POLL {
                let Some(len) = self.read_line(index)? else { break };
                delivered += self.take_of_line(index, len, now_ns, on_message)?;
            }
        }
        for _ in 0..READS_PER_POLL {
            let Some(requests) = &self.requests else { break };
            let Some(len) = read(requests, &mut self.buffer)? else { break };
            self.report.datagrams += 1;
            delivered += self.take(len, now_ns, on_message)?;
        }
        self.note_gap(now_ns);
        if let Some(requests) = &self.requests
            && let Some(request) = self.receiver.next_request(now_ns)
        {
            self.report.requested += u64::from(request.count);
            match requests.send(&request.encode()) {
                Ok(()) => {}
                // The request is repeated after the timeout.
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(FeedReceiverError::Socket(error)),
            }
        }
        Ok(delivered)
    }

    /// The counters so far.
    #[must_use]
    pub fn report(&self) -> FeedReceiverReport {
        let messages = self.receiver.statistics();
        let absent = self.known_end.saturating_sub(self.receiver.expected());
        FeedReceiverReport {
            missing: absent.saturating_sub(messages.pending as u64),
            messages,
            ..self.report
        }
    }

    /// The feed's session, known from its first packet.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.receiver.session()
    }

    /// The session of the newest packet that was kept for a snapshot, or that showed a change of session.
    pub(super) const fn heard(&self) -> Option<Session> {
        self.heard
    }

    pub(super) const fn forget_heard(&mut self) {
        self.heard = None;
    }

    /// Number of the next message to be handed on.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.receiver.expected()
    }

    /// True once the session is over and all its messages were handed on.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.receiver.is_ended()
    }

    /// The time that the next message has been missing although later ones exist, in nanoseconds; 0 if it is not
    /// missing. The caller decides when to give it up.
    #[must_use]
    pub fn stalled_ns(&self, now_ns: u64) -> u64 {
        self.gap.map_or(0, |(since_ns, _)| now_ns.saturating_sub(since_ns))
    }

    /// Takes a datagram of a line, and counts its new and its duplicate messages.
    fn take_of_line(
        &mut self,
        index: usize,
        len: usize,
        now_ns: u64,
        on_message: &mut impl FnMut(u64, &[u8]),
    ) -> Result<usize, FeedReceiverError> {
        let before = self.receiver.statistics();
        let delivered = self.take(len, now_ns, on_message)?;
        let after = self.receiver.statistics();
        let here = |it: ReceiverStatistics| it.delivered + it.pending as u64;
        let line = &mut self.lines[index].report;
        line.first += here(after) - here(before);
        line.duplicates += after.duplicates - before.duplicates;
        Ok(delivered)
    }

    fn take(
        &mut self,
        len: usize,
        now_ns: u64,
        on_message: &mut impl FnMut(u64, &[u8]),
    ) -> Result<usize, FeedReceiverError> {
        let datagram = &self.buffer[..len];
        let mut delivered = 0;
        let result = self.receiver.receive(datagram, now_ns, &mut |stream_sequence, message| {
            on_message(stream_sequence, message);
            delivered += 1;
        });
        match result {
            Ok(()) => {}
            Err(ReceiveError::Malformed(_)) => {
                self.report.malformed += 1;
                return Ok(0);
            }
            Err(error) => {
                if let ReceiveError::SessionChanged { received, .. } = &error {
                    self.heard = Some(*received);
                }
                return Err(FeedReceiverError::Stream(error));
            }
        }
        if !self.receiver.has_gap() {
            self.known_end = self.receiver.expected();
        }
        // Only a packet that delivered no message may be a heartbeat, and only one that left a gap may give a later end
        // of the session.
        if (delivered == 0 || self.receiver.has_gap())
            && let Ok(packet) = moldudp64::parse(&self.buffer[..len])
        {
            let count = match packet.kind {
                PacketKind::Data(blocks) => u64::from(blocks.count()),
                PacketKind::Heartbeat => {
                    self.report.heartbeats += 1;
                    0
                }
                PacketKind::EndOfSession => 0,
            };
            self.known_end = self.known_end.max(packet.sequence_number + count);
        }
        Ok(delivered)
    }

    fn note_gap(&mut self, now_ns: u64) {
        let expected = self.receiver.expected();
        self.gap = match self.gap {
            _ if !self.receiver.has_gap() => None,
            Some((since_ns, opens)) if opens == expected => Some((since_ns, opens)),
            _ => Some((now_ns, expected)),
        };
    }
}

/// Reads one datagram; `None` if there is none now.
fn read(
    socket: &impl DatagramSocket,
    buffer: &mut [u8],
) -> Result<Option<usize>, FeedReceiverError> {
    match socket.receive(buffer) {
        Ok(len) => Ok(Some(len)),
        Err(error) if is_passing(&error) => Ok(None),
        Err(error) => Err(FeedReceiverError::Socket(error)),
    }
}

/// True for errors after which a socket can still be used: no datagram, or no program listens at the peer.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused
    )
}

/// A nonblocking socket that receives the feed.
///
/// # Errors
/// [`FeedReceiverError::Open`].
pub fn feed_socket(feed: FeedSource) -> Result<UdpSocket, FeedReceiverError> {
    let opened = open_feed(feed).map_err(|source| FeedReceiverError::Open { feed, source })?;
    Ok(opened.0)
}

fn open_feed(source: FeedSource) -> io::Result<(UdpSocket, usize)> {
    let local = match source {
        FeedSource::Multicast { group, .. } => SocketAddr::V4(group),
        FeedSource::Unicast(local) => local,
    };
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    if matches!(source, FeedSource::Multicast { .. }) {
        // Several receivers on one machine share the group's port.
        socket.set_reuse_address(true)?;
    }
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    // Linux doubles the granted size for its own book-keeping, and reports the double.
    let granted = socket.recv_buffer_size()? / if cfg!(target_os = "linux") { 2 } else { 1 };
    socket.bind(&local.into())?;
    if let FeedSource::Multicast { group, interface } = source {
        socket.join_multicast_v4(group.ip(), &interface)?;
    }
    socket.set_nonblocking(true)?;
    Ok((socket.into(), granted))
}

fn open_requests(source: FeedSource, requests_to: SocketAddr) -> io::Result<UdpSocket> {
    let interface = match source {
        FeedSource::Multicast { interface, .. } => IpAddr::V4(interface),
        FeedSource::Unicast(local) => local.ip(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(interface, 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(requests_to)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::{
        cell::RefCell, collections::VecDeque, net::Ipv4Addr, rc::Rc, thread, time::Duration,
    };

    use wire::moldudp64::{PACKET_LEN_DEFAULT, Packetizer, Request};

    use super::*;

    const SESSION: &[u8; 10] = b"0000000001";
    const SECOND: u64 = 1_000_000_000;

    /// A socket whose datagrams are set and read by the test.
    #[derive(Clone, Default)]
    struct FakeSocket {
        incoming: Rc<RefCell<VecDeque<Vec<u8>>>>,
        outgoing: Rc<RefCell<Vec<Vec<u8>>>>,
    }

    impl FakeSocket {
        fn put(&self, datagram: &[u8]) {
            self.incoming.borrow_mut().push_back(datagram.to_vec());
        }
    }

    impl DatagramSocket for FakeSocket {
        fn send(&self, datagram: &[u8]) -> io::Result<()> {
            self.outgoing.borrow_mut().push(datagram.to_vec());
            Ok(())
        }

        fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
            let datagram =
                self.incoming.borrow_mut().pop_front().ok_or(io::ErrorKind::WouldBlock)?;
            buffer[..datagram.len()].copy_from_slice(&datagram);
            Ok(datagram.len())
        }
    }

    fn packet(first: u64, messages: &[&[u8]]) -> Vec<u8> {
        let mut packets = Packetizer::new(*SESSION, first, PACKET_LEN_DEFAULT);
        messages.iter().for_each(|message| assert!(packets.push(message)));
        packets.packet().to_vec()
    }

    fn heartbeat(next: u64) -> Vec<u8> {
        Packetizer::new(*SESSION, next, PACKET_LEN_DEFAULT).heartbeat().to_vec()
    }

    /// A gap is counted, requested on the other socket, and filled from there; no message is delivered out of order or
    /// twice.
    #[test]
    fn gap_is_asked_for_and_filled() {
        let (feed, requests) = (FakeSocket::default(), FakeSocket::default());
        let mut receiver =
            FeedReceiver::over(feed.clone(), Some(requests.clone()), 1, ReceiverLimits::default());
        let mut seen = Vec::new();
        let mut take = |number: u64, message: &[u8]| seen.push((number, message.to_vec()));

        feed.put(&packet(1, &[b"one"]));
        feed.put(&packet(4, &[b"four"]));
        feed.put(b"not a packet");
        assert_eq!(receiver.poll(0, &mut take).unwrap(), 1);
        let asked = Request::parse(&requests.outgoing.borrow()[0]).unwrap();
        assert_eq!((asked.sequence_number, asked.count), (2, 2));
        let report = receiver.report();
        assert_eq!((report.missing, report.requested, report.malformed), (2, 2, 1));
        assert_eq!((report.messages.gaps, report.messages.pending), (1, 1));
        assert_eq!(receiver.stalled_ns(SECOND / 2), SECOND / 2);

        requests.put(&packet(2, &[b"two", b"three"]));
        assert_eq!(receiver.poll(SECOND / 2, &mut take).unwrap(), 3);
        feed.put(&packet(3, &[b"three", b"four"]));
        feed.put(&heartbeat(5));
        assert_eq!(receiver.poll(SECOND, &mut take).unwrap(), 0);
        let report = receiver.report();
        assert_eq!((report.missing, report.heartbeats), (0, 1));
        assert_eq!((report.messages.delivered, report.messages.duplicates), (4, 2));
        assert_eq!((receiver.stalled_ns(SECOND), receiver.expected()), (0, 5));
        let numbers: Vec<u64> = seen.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(seen[2].1, b"three");
    }

    /// Of two lines the first copy of each message counts, whichever brings it. A message lost on one line is not
    /// requested; one lost on both is, after the delay.
    #[test]
    fn the_second_line_fills_what_the_first_lost() {
        let sockets: [FakeSocket; 3] = Default::default();
        let [a, b, requests] = &sockets;
        let limits = ReceiverLimits { request_delay_ns: SECOND, ..ReceiverLimits::default() };
        let mut receiver = FeedReceiver::over(a.clone(), Some(requests.clone()), 1, limits);
        receiver.add_line(b.clone());
        let mut seen = Vec::new();
        let mut poll = |receiver: &mut FeedReceiver<FakeSocket>, now_ns| {
            receiver.poll(now_ns, &mut |number, _: &[u8]| seen.push(number)).unwrap();
            requests
                .outgoing
                .borrow_mut()
                .drain(..)
                .map(|it| Request::parse(&it).unwrap())
                .collect()
        };
        let mut none: Vec<Request>;

        a.put(&packet(1, &[b"one"]));
        a.put(&packet(3, &[b"three"]));
        b.put(&packet(1, &[b"one"]));
        none = poll(&mut receiver, 0);
        assert_eq!((none.len(), receiver.expected()), (0, 2));
        // Line B is late with it, but not too late.
        b.put(&packet(2, &[b"two"]));
        b.put(&packet(3, &[b"three"]));
        none = poll(&mut receiver, SECOND / 2);
        assert_eq!((none.len(), receiver.expected()), (0, 4));

        for line in [a, b] {
            line.put(&packet(6, &[b"six"]));
        }
        none = poll(&mut receiver, SECOND);
        assert_eq!((none.len(), receiver.report().missing), (0, 2));
        let asked: Vec<Request> = poll(&mut receiver, 2 * SECOND);
        assert_eq!((asked[0].sequence_number, asked[0].count), (4, 2));
        requests.put(&packet(4, &[b"four", b"five"]));
        poll(&mut receiver, 2 * SECOND);
        assert_eq!(seen, [1, 2, 3, 4, 5, 6]);

        let line = |datagrams, first, duplicates| FeedLineReport { datagrams, first, duplicates };
        assert_eq!(receiver.lines().collect::<Vec<_>>(), [line(3, 3, 0), line(4, 1, 3)]);
        assert_eq!((receiver.report().missing, receiver.report().requested), (0, 2));
    }

    /// A subscriber that waits for a snapshot keeps the datagrams of both lines.
    #[test]
    fn both_lines_are_kept_for_a_snapshot() {
        let (a, b) = (FakeSocket::default(), FakeSocket::default());
        let mut receiver = FeedReceiver::over(a.clone(), None, 1, ReceiverLimits::default());
        receiver.add_line(b.clone());
        receiver.hold();
        a.put(&packet(2, &[b"two"]));
        b.put(&packet(1, &[b"one"]));
        b.put(&packet(3, &[b"three"]));
        assert_eq!(receiver.poll(0, &mut |_, _| panic!("it is kept")).unwrap(), 0);
        receiver.begin_at(Some(*SESSION), 2);
        assert_eq!(receiver.poll(0, &mut |_, _| {}).unwrap(), 2);
        let first: Vec<u64> = receiver.lines().map(|line| line.first).collect();
        assert_eq!((first, receiver.expected()), (vec![1, 1], 4));
    }

    /// Without a re-request server, messages that a heartbeat shows to be missing stay missing, and the
    /// receiver reports the stall.
    #[test]
    fn loss_without_a_server_is_reported() {
        let feed = FakeSocket::default();
        let mut receiver = FeedReceiver::over(feed.clone(), None, 1, ReceiverLimits::default());
        feed.put(&heartbeat(11));
        receiver.poll(0, &mut |_, _| panic!("nothing is there")).unwrap();
        let report = receiver.report();
        assert_eq!((report.missing, report.requested, report.heartbeats), (10, 0, 1));
        assert_eq!(receiver.stalled_ns(7 * SECOND), 7 * SECOND);
    }

    /// Packets of another session are an error, not messages.
    #[test]
    fn other_session_is_refused() {
        let feed = FakeSocket::default();
        let mut receiver = FeedReceiver::over(feed.clone(), None, 1, ReceiverLimits::default());
        feed.put(&packet(1, &[b"one"]));
        feed.put(&Packetizer::new(*b"0000000002", 2, PACKET_LEN_DEFAULT).heartbeat());
        let error = receiver.poll(0, &mut |_, _| {}).unwrap_err();
        let FeedReceiverError::Stream(ReceiveError::SessionChanged { received, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(&received, b"0000000002");
        assert_eq!(receiver.session(), Some(*SESSION));
    }

    /// A loopback address, or a multicast group, that this process alone uses. The port is below those that the system
    /// chooses, so nobody else binds it.
    fn own_address(first_byte: u8, port: u16) -> SocketAddrV4 {
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        SocketAddrV4::new(Ipv4Addr::new(first_byte, 64 | high, middle, low), port)
    }

    /// Sends one datagram to a group on loopback, or to one address.
    fn send(datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        let sender = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        sender.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        sender.set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
        UdpSocket::from(sender).send_to(datagram, to).map(drop)
    }

    fn open(feed: FeedSource) -> FeedReceiver {
        let config = FeedReceiverConfig {
            feed,
            feed_b: None,
            requests_to: Some(own_address(127, 20_000).into()),
            expected: 1,
            limits: ReceiverLimits::default(),
        };
        FeedReceiver::open(&config).unwrap()
    }

    fn wait_for_one(receiver: &mut FeedReceiver) -> usize {
        // A minute or more: a message not received by then is truly lost.
        for _ in 0..60_000 {
            let delivered = receiver.poll(0, &mut |_, _| {}).unwrap();
            if delivered > 0 {
                return delivered;
            }
            thread::sleep(Duration::from_millis(1));
        }
        0
    }

    /// The feed is received by unicast to an address of this machine.
    #[test]
    fn unicast_feed_comes_in() {
        let mut receiver = open(FeedSource::Unicast((Ipv4Addr::LOCALHOST, 0).into()));
        assert!(receiver.receive_buffer_granted() > 0);
        send(&packet(1, &[b"one"]), receiver.local_addresses().unwrap()[0]).unwrap();
        assert_eq!(wait_for_one(&mut receiver), 1);
    }

    /// Two receivers on one machine both get the datagrams sent to their group on loopback.
    #[test]
    fn multicast_feed_comes_in_twice() {
        let group = own_address(239, 20_000);
        if let Err(error) = multicast_works(own_address(239, 20_001)) {
            eprintln!("skipped: no multicast on loopback here: {error}");
            return;
        }
        let feed = FeedSource::Multicast { group, interface: Ipv4Addr::LOCALHOST };
        let mut receivers = [open(feed), open(feed)];
        send(&packet(1, &[b"one"]), group.into()).unwrap();
        for receiver in &mut receivers {
            assert_eq!(wait_for_one(receiver), 1, "nothing came from {feed}");
        }
    }

    /// Whether the system supports multicast, checked without the code under test.
    fn multicast_works(group: SocketAddrV4) -> io::Result<()> {
        let socket = UdpSocket::bind(group)?;
        socket.join_multicast_v4(group.ip(), &Ipv4Addr::LOCALHOST)?;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        send(b"?", group.into())?;
        socket.recv(&mut [0; 1]).map(drop)
    }
}
