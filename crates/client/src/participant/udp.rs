//! Order entry over UDP: requests as plain datagrams, replies in MoldUDP64 packets.
//!
//! Invariant: replies reach the caller in order, each once; missing ones are requested again.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
};

use os::{DatagramBatch, SendQueue};
use socket2::SockRef;
use wire::moldudp64::{
    self, BLOCK_HEADER_LEN, PACKET_LEN_DEFAULT, ReceiveError, Receiver, ReceiverLimits,
    ReceiverStatistics, Request, Session,
};

use super::ClientError;
use crate::subscriber::RECEIVE_BUFFER_BYTES;

/// Datagrams read in one turn, so that one busy session does not starve its neighbours.
const READS_PER_POLL: usize = 64;
/// Datagrams that a client in batches sends or receives with one system call.
const SENDS_PER_CALL: usize = 64;
/// The same for receiving if the kernel joins datagrams: each may then contain many.
const RECEIVES_PER_CALL: usize = 16;
/// A missing reply is requested again after this long.
const REQUEST_TIMEOUT_NS: u64 = 200_000_000;

/// A nonblocking socket that is connected to one peer.
pub trait DatagramSocket {
    /// Sends one datagram.
    ///
    /// # Errors
    /// The error of the system; `WouldBlock` if there is no room now.
    fn send(&self, datagram: &[u8]) -> io::Result<()>;

    /// Receives one datagram and returns its length in bytes.
    ///
    /// # Errors
    /// The error of the system; `WouldBlock` if there is no datagram now.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends the datagrams in the queue, as far as the system takes them.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn send_queue(&self, queue: &mut SendQueue) -> io::Result<()> {
        while let Some(datagram) = queue.first() {
            self.send(datagram)?;
            queue.advance(1);
        }
        Ok(())
    }

    /// Receives waiting datagrams, as many as the batch has room for; 0 if there are none.
    ///
    /// # Errors
    /// As [`receive`](Self::receive), except `WouldBlock`.
    fn receive_batch(&self, batch: &mut DatagramBatch) -> io::Result<usize> {
        batch.receive_each(|buffer| self.receive(buffer))
    }
}

impl DatagramSocket for UdpSocket {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        Self::send(self, datagram).map(drop)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }

    fn send_queue(&self, queue: &mut SendQueue) -> io::Result<()> {
        queue.send(self.as_fd())
    }

    fn receive_batch(&self, batch: &mut DatagramBatch) -> io::Result<usize> {
        batch.receive(self.as_fd())
    }
}

/// The use of the system calls by a [`UdpClient`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DatagramBatching {
    /// A datagram is sent as soon as it is full.
    #[default]
    Single,
    /// Full datagrams wait for [`UdpClient::flush`], up to 64, and leave with one system call.
    Batch,
    /// As `Batch`, and the kernel splits and gathers datagrams of one length (UDP_SEGMENT, UDP_GRO).
    Segments,
}

/// An OUCH client over UDP: it sends messages as they are, one or several per datagram, receives numbered
/// replies in MoldUDP64 packets, and requests missing ones again.
///
/// The local address is the login: it names the session.
#[derive(Debug)]
pub struct UdpClient<S = UdpSocket> {
    socket: S,
    /// `None` until the first packet, which has the next number of the session.
    receiver: Option<Receiver>,
    received: DatagramBatch,
    /// Full datagrams, and the one being filled: message blocks.
    queue: SendQueue,
    /// The most full datagrams that wait.
    datagrams_max: usize,
    /// Messages in the datagram being filled.
    waiting_count: usize,
    messages_per_datagram: usize,
    report: UdpClientReport,
}

/// The counters of a [`UdpClient`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpClientReport {
    /// Datagrams sent, requests for replies not counted.
    pub datagrams_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Received datagrams that were not MoldUDP64 packets, and were ignored.
    pub malformed: u64,
    /// The number of times that the system reported no program listening at the venue's address.
    pub refused: u64,
    /// The counters of the replies.
    pub replies: ReceiverStatistics,
}

impl UdpClient {
    /// Binds the local address that names the session, for a venue at `server`.
    ///
    /// The first reply delivered is number `from`; `None` begins with the first one that arrives,
    /// without the session's history. A datagram carries at most `messages_per_datagram`.
    ///
    /// # Errors
    /// [`ClientError::Bind`], [`ClientError::Connect`].
    ///
    /// # Panics
    /// If a datagram may carry no message.
    pub fn bind(
        local: SocketAddr,
        server: SocketAddr,
        from: Option<u64>,
        messages_per_datagram: usize,
    ) -> Result<Self, ClientError> {
        let socket = UdpSocket::bind(local)
            .and_then(|socket| {
                socket.set_nonblocking(true)?;
                // Replies come in bursts; the system grants as much of this as its limits permit.
                SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
                Ok(socket)
            })
            .map_err(|source| ClientError::Bind { address: local, source })?;
        socket
            .connect(server)
            .map_err(|source| ClientError::Connect { address: server, source })?;
        Ok(Self::over(socket, from, messages_per_datagram))
    }

    /// Makes the client send and receive in batches. Only for a client that has sent nothing yet.
    ///
    /// # Errors
    /// [`ClientError::Segments`] if the kernel is to split and join datagrams, but cannot.
    pub fn with_batching(mut self, batching: DatagramBatching) -> Result<Self, ClientError> {
        let is_split = batching == DatagramBatching::Segments;
        if is_split {
            if !os::sends_segments(self.socket.as_fd()) {
                return Err(ClientError::Segments(io::ErrorKind::Unsupported.into()));
            }
            os::join_datagrams(self.socket.as_fd()).map_err(ClientError::Segments)?;
        }
        if batching != DatagramBatching::Single {
            self.queue = SendQueue::new(is_split);
            self.datagrams_max = SENDS_PER_CALL;
            self.received = DatagramBatch::for_joined(RECEIVES_PER_CALL);
        }
        Ok(self)
    }

    /// The local address in use.
    ///
    /// # Errors
    /// The error of the system.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

impl<S: DatagramSocket> UdpClient<S> {
    /// A client over a connected socket; otherwise as [`bind`](UdpClient::bind).
    ///
    /// # Panics
    /// If a datagram may carry no message.
    pub fn over(socket: S, from: Option<u64>, messages_per_datagram: usize) -> Self {
        assert!(messages_per_datagram > 0, "a datagram carries a message");
        Self {
            socket,
            receiver: from.map(|from| Receiver::new(from, limits())),
            received: DatagramBatch::for_joined(1),
            queue: SendQueue::new(false),
            datagrams_max: 1,
            waiting_count: 0,
            messages_per_datagram,
            report: UdpClientReport::default(),
        }
    }

    /// The session's name on the reply stream, known from its first packet.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.receiver.as_ref().and_then(Receiver::session)
    }

    /// Number of the next reply to be delivered; `None` before the first packet of a client without a start number.
    #[must_use]
    pub fn next_sequence(&self) -> Option<u64> {
        self.receiver.as_ref().map(Receiver::expected)
    }

    /// True once the venue has ended the session and all its replies were delivered.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.receiver.as_ref().is_some_and(Receiver::is_ended)
    }

    /// The counters so far.
    #[must_use]
    pub fn report(&self) -> UdpClientReport {
        let replies = self.receiver.as_ref().map(Receiver::statistics).unwrap_or_default();
        UdpClientReport { replies, ..self.report }
    }

    /// One turn: sends waiting datagrams, reads available ones, hands the replies on with their stream sequence
    /// numbers, and requests missing ones. Returns the number of replies handed on.
    ///
    /// # Errors
    /// The socket failed, or the replies are those of another session. It is no error if no program
    /// listens at the venue's address, since the venue may come back; this is counted.
    pub fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(u64, &[u8]),
    ) -> Result<usize, ClientError> {
        self.flush()?;
        let (mut reads, mut delivered) = (0, 0);
        while reads < READS_PER_POLL {
            let count = match self.socket.receive_batch(&mut self.received) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.report.refused += 1;
                    reads += 1;
                    continue;
                }
                Err(error) => return Err(ClientError::Receive(error)),
            };
            reads += count;
            delivered += self.take_received(count, now_ns, on_message)?;
        }
        if let Some(request) =
            self.receiver.as_mut().and_then(|receiver| receiver.next_request(now_ns))
        {
            self.ask_again(&request)?;
        }
        Ok(delivered)
    }

    /// Adds one message to the datagram being filled, and sends the datagram once it is full;
    /// [`flush`](Self::flush) or the next [`poll`](Self::poll) sends it earlier.
    ///
    /// # Errors
    /// [`ClientError::TooLong`], [`ClientError::Full`] while the system takes no datagram.
    pub fn send(&mut self, message: &[u8]) -> Result<(), ClientError> {
        let block_len = BLOCK_HEADER_LEN + message.len();
        let length = u16::try_from(message.len()).ok().filter(|_| block_len <= PACKET_LEN_DEFAULT);
        let Some(length) = length else { return Err(ClientError::TooLong(message.len())) };
        if !self.fits(message.len()) {
            self.close();
        }
        if self.queue.len() >= self.datagrams_max {
            self.send_full()?;
            if self.queue.len() >= self.datagrams_max {
                return Err(ClientError::Full);
            }
        }
        self.queue.append(&length.to_be_bytes());
        self.queue.append(message);
        self.waiting_count += 1;
        if self.waiting_count == self.messages_per_datagram {
            self.close();
        }
        if self.queue.len() >= self.datagrams_max { self.send_full() } else { Ok(()) }
    }

    /// True if a message of `len` bytes can wait.
    #[must_use]
    pub fn has_room(&self, len: usize) -> bool {
        self.queue.len() + usize::from(!self.fits(len)) < self.datagrams_max
    }

    /// Sends all waiting datagrams, with the one being filled, as far as the system takes them now.
    ///
    /// # Errors
    /// [`ClientError::Send`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        if self.queue.len() < self.datagrams_max {
            self.close();
        }
        self.send_full()
    }

    /// True if a message of `len` bytes fits the datagram being filled.
    fn fits(&self, len: usize) -> bool {
        self.queue.open_len() + BLOCK_HEADER_LEN + len <= PACKET_LEN_DEFAULT
    }

    /// Completes the datagram being filled, if there is one.
    fn close(&mut self) {
        if self.waiting_count > 0 {
            // A single message goes as it is, without a length.
            self.queue.close(if self.waiting_count == 1 { BLOCK_HEADER_LEN } else { 0 });
            self.waiting_count = 0;
        }
    }

    fn send_full(&mut self) -> Result<(), ClientError> {
        let Self { socket, queue, report, .. } = self;
        let before = queue.len();
        let result = transmit(&mut report.refused, || socket.send_queue(queue));
        report.datagrams_sent += (before - queue.len()) as u64;
        result.map(drop)
    }

    /// Requests replies, whether or not they are known to be missing.
    ///
    /// # Errors
    /// [`ClientError::Send`].
    pub fn ask_again(&mut self, request: &Request) -> Result<(), ClientError> {
        // A request that the system does not take now is repeated after the timeout.
        let Self { socket, report, .. } = self;
        transmit(&mut report.refused, || socket.send(&request.encode())).map(drop)
    }

    fn take_received(
        &mut self,
        count: usize,
        now_ns: u64,
        on_message: &mut impl FnMut(u64, &[u8]),
    ) -> Result<usize, ClientError> {
        let mut delivered = 0;
        let Self { receiver, received, report, .. } = self;
        let received = &*received;
        for datagram in (0..count).flat_map(|index| received.received(index).datagrams()) {
            report.datagrams_received += 1;
            delivered += take(receiver, datagram, now_ns, report, on_message)?;
        }
        Ok(delivered)
    }
}

/// Hands on the replies of a datagram.
fn take(
    receiver: &mut Option<Receiver>,
    datagram: &[u8],
    now_ns: u64,
    report: &mut UdpClientReport,
    on_message: &mut impl FnMut(u64, &[u8]),
) -> Result<usize, ClientError> {
    let receiver = match receiver {
        Some(receiver) => receiver,
        None => match moldudp64::parse(datagram) {
            Ok(packet) => receiver.insert(Receiver::for_session(
                packet.session,
                packet.sequence_number,
                limits(),
            )),
            Err(_) => {
                report.malformed += 1;
                return Ok(0);
            }
        },
    };
    let mut delivered = 0;
    let result = receiver.receive(datagram, now_ns, &mut |stream_sequence, message| {
        on_message(stream_sequence, message);
        delivered += 1;
    });
    match result {
        Ok(()) => Ok(delivered),
        Err(ReceiveError::Malformed(_)) => {
            report.malformed += 1;
            Ok(0)
        }
        Err(error) => Err(ClientError::Replies(error)),
    }
}

fn limits() -> ReceiverLimits {
    ReceiverLimits { request_timeout_ns: REQUEST_TIMEOUT_NS, ..ReceiverLimits::default() }
}

/// Sends a datagram; false if the system does not take it now.
fn transmit(
    refused: &mut u64,
    mut send: impl FnMut() -> io::Result<()>,
) -> Result<bool, ClientError> {
    loop {
        match send() {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The error concerns an earlier datagram; the socket remains usable.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                *refused += 1;
                return Ok(false);
            }
            Err(error) => return Err(ClientError::Send(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::VecDeque, rc::Rc};

    use wire::moldudp64::Packetizer;

    use super::*;

    const SESSION: &[u8; 10] = b"0000000001";

    /// A socket whose datagrams are set and read by the test.
    #[derive(Clone, Default)]
    struct FakeSocket(Rc<RefCell<FakeState>>);

    #[derive(Default)]
    struct FakeState {
        incoming: VecDeque<io::Result<Vec<u8>>>,
        outgoing: Vec<Vec<u8>>,
        is_full: bool,
    }

    impl FakeSocket {
        fn put(&self, datagram: &[u8]) {
            self.0.borrow_mut().incoming.push_back(Ok(datagram.to_vec()));
        }

        fn sent(&self) -> Vec<Vec<u8>> {
            std::mem::take(&mut self.0.borrow_mut().outgoing)
        }
    }

    impl DatagramSocket for FakeSocket {
        fn send(&self, datagram: &[u8]) -> io::Result<()> {
            let mut state = self.0.borrow_mut();
            if state.is_full {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            state.outgoing.push(datagram.to_vec());
            Ok(())
        }

        fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
            let next = self.0.borrow_mut().incoming.pop_front();
            let datagram = next.ok_or(io::ErrorKind::WouldBlock)??;
            buffer[..datagram.len()].copy_from_slice(&datagram);
            Ok(datagram.len())
        }
    }

    fn client(
        from: Option<u64>,
        messages_per_datagram: usize,
    ) -> (UdpClient<FakeSocket>, FakeSocket) {
        let socket = FakeSocket::default();
        (UdpClient::over(socket.clone(), from, messages_per_datagram), socket)
    }

    fn packet(first: u64, messages: &[&[u8]]) -> Vec<u8> {
        let mut packets = Packetizer::new(*SESSION, first, PACKET_LEN_DEFAULT);
        messages.iter().for_each(|message| assert!(packets.push(message)));
        packets.packet().to_vec()
    }

    fn poll(client: &mut UdpClient<FakeSocket>, now_ns: u64) -> Vec<(u64, Vec<u8>)> {
        let mut messages = Vec::new();
        let delivered = client
            .poll(now_ns, &mut |number, message| messages.push((number, message.to_vec())))
            .unwrap();
        assert_eq!(delivered, messages.len());
        messages
    }

    /// A single message goes as it is; several go with their lengths, as soon as the datagram is full, or on request.
    #[test]
    fn messages_share_datagrams() {
        let (mut single, socket) = client(None, 1);
        single.send(b"Q").unwrap();
        assert_eq!(socket.sent(), [b"Q"]);

        let (mut several, socket) = client(None, 3);
        for message in [b"one", b"two", b"tri", b"for"] {
            several.send(message).unwrap();
        }
        assert_eq!(socket.sent(), [b"\0\x03one\0\x03two\0\x03tri"]);
        several.flush().unwrap();
        several.flush().unwrap();
        assert_eq!(socket.sent(), [b"for"]);
        assert_eq!(several.report().datagrams_sent, 2);

        // A datagram stays within the length that a network carries whole.
        several.send(&[b'a'; 1_000]).unwrap();
        several.send(&[b'b'; 1_000]).unwrap();
        assert_eq!(socket.sent(), [[b'a'; 1_000]]);
        assert!(matches!(several.send(&[0; 1_399]), Err(ClientError::TooLong(1_399))));
    }

    /// While the system takes no datagram, one waits and no more.
    #[test]
    fn what_waits_is_bounded() {
        let (mut client, socket) = client(None, 2);
        socket.0.borrow_mut().is_full = true;
        client.send(b"one").unwrap();
        client.send(b"two").unwrap();
        assert!(!client.has_room(3));
        assert!(matches!(client.send(b"tri"), Err(ClientError::Full)));
        socket.0.borrow_mut().is_full = false;
        poll(&mut client, 0);
        assert_eq!(socket.sent(), [b"\0\x03one\0\x03two"]);
    }

    /// A client without a start number begins with the first reply that arrives.
    #[test]
    fn live_client_leaves_history_alone() {
        let (mut client, socket) = client(None, 1);
        assert_eq!(client.next_sequence(), None);
        socket.put(b"not a packet");
        socket.put(&packet(700, &[b"a", b"b"]));
        assert_eq!(poll(&mut client, 0), [(700, b"a".to_vec()), (701, b"b".to_vec())]);
        assert_eq!((client.next_sequence(), client.session()), (Some(702), Some(*SESSION)));
        assert_eq!(client.report().malformed, 1);
        assert!(socket.sent().is_empty());
    }

    /// A client that wants the history requests it, and again when no answer comes.
    #[test]
    fn missing_replies_are_asked_for() {
        let (mut client, socket) = client(Some(1), 1);
        socket.put(&packet(3, &[b"c"]));
        assert!(poll(&mut client, 0).is_empty());
        let asked = Request::parse(&socket.sent()[0]).unwrap();
        assert_eq!(asked, Request { session: *SESSION, sequence_number: 1, count: 2 });
        poll(&mut client, REQUEST_TIMEOUT_NS - 1);
        assert!(socket.sent().is_empty());
        poll(&mut client, REQUEST_TIMEOUT_NS);
        assert_eq!(socket.sent(), [asked.encode()]);
        socket.put(&packet(1, &[b"a", b"b"]));
        let numbers: Vec<u64> =
            poll(&mut client, REQUEST_TIMEOUT_NS).iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(client.report().replies.before_joining, 2);
    }

    /// A refused datagram is counted, replies of another session are an error, the end is a state.
    #[test]
    fn odd_arrivals_have_a_count_an_error_or_a_state() {
        let (mut client, socket) = client(Some(1), 1);
        socket.0.borrow_mut().incoming.push_back(Err(io::ErrorKind::ConnectionRefused.into()));
        socket.put(&packet(1, &[b"a"]));
        assert_eq!(poll(&mut client, 0).len(), 1);
        assert_eq!(client.report().refused, 1);
        socket.put(&Packetizer::new(*SESSION, 2, PACKET_LEN_DEFAULT).end_of_session());
        poll(&mut client, 0);
        assert!(client.is_ended());
        socket.put(&Packetizer::new(*b"0000000002", 1, PACKET_LEN_DEFAULT).heartbeat());
        let error = client.poll(0, &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, ClientError::Replies(_)), "{error}");
    }
}
