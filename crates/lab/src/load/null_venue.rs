//! The null venue: it answers every request at once and matches nothing. A load run on it measures the run's own floor.
//!
//! Orders are accepted; those above 100 lots trade without a counterparty; every 50th is rejected. Its faults make it
//! the fake venue of the tests.
//!
//! Invariant: a turn never waits, and its answers follow from the messages and the time alone.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    ops::Range,
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use client::subscriber::RECEIVE_BUFFER_BYTES;
use os::{BATCH, DatagramBatch, Epoll, PollSet};
use wire::{
    layout::Message,
    moldudp64::{PACKET_LEN_DEFAULT, Packetizer, Request},
    ouch::{
        AccountQueryResponse, Inbound, MessageBuffer, OrderAccepted, OrderCanceled, OrderExecuted,
        OrderReplaced, Rejected, decode_inbound,
    },
    soupbintcp::{LoginRejectReason, LoginRequest, Server, ServerHappening, Timers},
};

/// The password of every user.
const PASSWORD: &str = "SECRET";
/// The least number of bytes kept of a session's replies, for clients that request them again.
const HISTORY_BYTES: usize = 8 << 20;
/// After this many turns without work the venue waits for bytes, for at most this long. It waits early, since it may
/// share a core with the generator.
const IDLE_TURNS_MAX: u32 = 100;
const IDLE_WAIT_MAX: Duration = Duration::from_micros(50);

/// A venue with a permitted rate makes up for time without work, for at most this long, in nanoseconds.
const SPARE_TIME_NS_MAX: u64 = 10_000_000;

/// How the venue misbehaves. Messages are counted over all sessions, from 1.
#[derive(Clone, Debug, Default)]
pub struct NullVenueFaults {
    /// From this message on it answers nothing.
    pub mute_from: Option<u64>,
    /// From this message on it closes every connection from which one comes.
    pub close_from: Option<u64>,
    /// It loses one in this many of the datagrams that it should send.
    pub lose_sent: Option<u64>,
    /// It loses one in this many of the datagrams that it receives.
    pub lose_received: Option<u64>,
    /// The first number of every session, as if it had a history.
    pub first_user_ref_num: u32,
    /// While time is in this range, in nanoseconds, it does nothing.
    pub stalled_ns: Range<u64>,
    /// It takes this many requests a second at most, at least 1, and leaves the others in its connections.
    pub per_second_max: Option<u64>,
    /// It rejects every order.
    pub rejects_all: bool,
}

/// A running null venue; stops when dropped.
pub struct NullVenue {
    pub tcp: SocketAddr,
    pub udp: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NullVenue {
    /// Starts the venue on a thread of its own. `now_ns` gives the time of each turn.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub fn start(now_ns: impl FnMut() -> u64 + Send + 'static) -> io::Result<Self> {
        Self::with_faults(NullVenueFaults::default(), now_ns)
    }

    /// A login that the venue takes.
    pub fn login(&self, index: usize) -> LoginRequest {
        LoginRequest::new(&format!("n{index}"), PASSWORD)
            .expect("up to 99,999 sessions have short names")
    }

    /// As [`start`](Self::start), a venue that misbehaves.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub fn with_faults(
        faults: NullVenueFaults,
        mut now_ns: impl FnMut() -> u64 + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        // On a busy machine this thread may have to wait while requests come in.
        socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        socket.set_nonblocking(true)?;
        let (tcp, udp) = (listener.local_addr()?, socket.local_addr()?);
        let mut epoll = Epoll::new(64)?;
        epoll.add(listener.as_fd(), 0)?;
        epoll.add(socket.as_fd(), 0)?;
        let mut bytes = PollSet::new(vec![epoll.as_fd().try_clone_to_owned()?]);
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("null-venue".into()).spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut desk = Desk::new(faults);
                let mut datagrams = Datagrams::new(socket);
                let mut idle_turns = 0;
                while !stop.load(Ordering::Relaxed) {
                    let now_ns = now_ns();
                    while let Ok((stream, _)) = listener.accept() {
                        let ready = stream.set_nonblocking(true).and(stream.set_nodelay(true));
                        if ready.and(epoll.add(stream.as_fd(), 0)).is_ok() {
                            desk.connect(Box::new(stream), now_ns);
                        }
                    }
                    let worked = desk.turn(now_ns) | datagrams.turn(&mut desk, now_ns);
                    idle_turns = if worked { 0 } else { idle_turns + 1 };
                    match idle_turns {
                        0 => {}
                        IDLE_TURNS_MAX.. => {
                            bytes.wait(IDLE_WAIT_MAX);
                            // Takes the reported events, or the next wait would not wait.
                            let _ = epoll.poll(|_| {});
                        }
                        _ => thread::yield_now(),
                    }
                }
            }
        })?;
        Ok(Self { tcp, udp, stop, thread: Some(thread) })
    }
}

impl Drop for NullVenue {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("dropped once").join().expect("the venue does not panic");
    }
}

const SOUP_SESSION: &[u8; 10] = b"      NULL";
const MOLD_SESSION: &[u8; 10] = b"0000000001";

/// A connection: nonblocking bytes in and out.
pub(super) trait Stream: Read + Write + Send {}
impl Stream for TcpStream {}

/// The sessions of the venue over SoupBinTCP.
pub(super) struct Desk {
    faults: NullVenueFaults,
    connections: Vec<Connection>,
    accounts: BTreeMap<String, Account>,
    /// The message that is being answered.
    message: Vec<u8>,
    /// Bytes that were read last.
    buffer: Box<[u8]>,
    received: u64,
    /// When the permitted rate allows the next message.
    free_ns: u64,
}

struct Connection {
    stream: Box<dyn Stream>,
    server: Server,
    account: Option<String>,
    is_closed: bool,
}

/// A session of the venue: its next order number and its replies.
#[derive(Default)]
struct Account {
    next_user_ref_num: u32,
    replies: Replies,
}

/// Replies by number, from 1. The oldest leave when there are too many bytes.
#[derive(Default)]
struct Replies {
    bytes: Vec<u8>,
    /// Where each kept reply ends in `bytes`.
    ends: Vec<usize>,
    /// Replies that left.
    gone: u64,
}

impl Replies {
    /// Replies so far.
    fn count(&self) -> u64 {
        self.gone + self.ends.len() as u64
    }

    fn push(&mut self, reply: &[u8]) {
        if self.bytes.len() >= HISTORY_BYTES {
            // Half of them stay: the newest may not be sent yet.
            let leave = self.ends.len() / 2;
            let bytes = self.ends[leave - 1];
            self.bytes.drain(..bytes);
            self.ends.drain(..leave);
            self.ends.iter_mut().for_each(|end| *end -= bytes);
            self.gone += leave as u64;
        }
        self.bytes.extend_from_slice(reply);
        self.ends.push(self.bytes.len());
    }

    /// The kept replies from number `from` on.
    fn since(&self, from: u64) -> impl Iterator<Item = &[u8]> {
        let first = from.saturating_sub(self.gone + 1) as usize;
        (first..self.ends.len()).map(|index| {
            let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[index]]
        })
    }
}

impl Desk {
    pub(super) fn new(faults: NullVenueFaults) -> Self {
        let (connections, accounts) = (Vec::new(), BTreeMap::new());
        let buffer = vec![0; 16_384].into_boxed_slice();
        Self { faults, connections, accounts, message: Vec::new(), buffer, received: 0, free_ns: 0 }
    }

    pub(super) fn connect(&mut self, stream: Box<dyn Stream>, now_ns: u64) {
        let server = Server::new(Timers::default(), now_ns);
        self.connections.push(Connection { stream, server, account: None, is_closed: false });
    }

    /// One turn of every connection; true if one worked.
    pub(super) fn turn(&mut self, now_ns: u64) -> bool {
        if self.faults.stalled_ns.contains(&now_ns) {
            return false;
        }
        let mut connections = std::mem::take(&mut self.connections);
        let mut worked = false;
        for connection in &mut connections {
            worked |= self.turn_connection(connection, now_ns);
        }
        connections.retain(|connection| !connection.is_closed);
        self.connections = connections;
        worked
    }

    /// True while the permitted rate allows another request.
    fn has_time(&self, now_ns: u64) -> bool {
        now_ns >= self.free_ns
    }

    /// Counts a message and the time that it takes; gives its number.
    fn count_message(&mut self, now_ns: u64) -> u64 {
        self.received += 1;
        if let Some(per_second) = self.faults.per_second_max {
            let from_ns = self.free_ns.max(now_ns.saturating_sub(SPARE_TIME_NS_MAX));
            self.free_ns = from_ns + 1_000_000_000 / per_second;
        }
        self.received
    }

    fn turn_connection(&mut self, connection: &mut Connection, now_ns: u64) -> bool {
        match self.serve(connection, now_ns) {
            Ok(worked) => worked,
            Err(_) => {
                connection.is_closed = true;
                true
            }
        }
    }

    /// Reads and answers the bytes that came on a connection; an error if it is of no more use.
    fn serve(&mut self, connection: &mut Connection, now_ns: u64) -> io::Result<bool> {
        let mut worked = self.answer(connection, now_ns)?;
        if self.has_time(now_ns) {
            match connection.stream.read(&mut self.buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    let taken = connection.server.receive(&self.buffer[..len], now_ns);
                    taken.map_err(|_| ErrorKind::InvalidData)?;
                    worked |= self.answer(connection, now_ns)? || len > 0;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        connection.server.tick(now_ns).map_err(|_| ErrorKind::TimedOut)?;
        while !connection.server.outgoing().is_empty() {
            match connection.stream.write(connection.server.outgoing()) {
                Ok(written) => connection.server.sent(written),
                Err(_) => break,
            }
        }
        Ok(worked)
    }

    /// Answers the requests that the connection has read, as far as the permitted rate goes.
    fn answer(&mut self, connection: &mut Connection, now_ns: u64) -> io::Result<bool> {
        let mut worked = false;
        while self.has_time(now_ns) {
            let Some(happening) =
                connection.server.next().map_err(|_| io::Error::from(ErrorKind::InvalidData))?
            else {
                break;
            };
            worked = true;
            match happening {
                ServerHappening::Login(login) if login.password_is(PASSWORD) => {
                    let name = login.username.as_str().to_owned();
                    let account = self.accounts.entry(name.clone()).or_default();
                    account.open(self.faults.first_user_ref_num);
                    // 0 asks for the newest message and those that follow.
                    let newest = account.replies.count().max(1);
                    let next = login.sequence_number.filter(|number| *number > 0).unwrap_or(newest);
                    let next = next.max(account.replies.gone + 1);
                    connection.account = Some(name);
                    connection.server.accept(SOUP_SESSION, next, now_ns);
                    for reply in account.replies.since(next) {
                        connection.server.send_sequenced(reply, now_ns);
                    }
                }
                ServerHappening::Login(_) => {
                    connection.server.reject(LoginRejectReason::NotAuthorized, now_ns);
                }
                ServerHappening::Message(message) => {
                    let number = self.count_message(now_ns);
                    if self.faults.close_from.is_some_and(|close_from| number >= close_from) {
                        return Err(ErrorKind::ConnectionAborted.into());
                    }
                    if self.faults.mute_from.is_some_and(|mute_from| number >= mute_from) {
                        continue;
                    }
                    self.message.clear();
                    self.message.extend_from_slice(message);
                    let name = connection.account.as_ref().expect("messages come after the login");
                    let account = self.accounts.get_mut(name).expect("logged in");
                    let first = account.replies.count() + 1;
                    account.take(&self.message, self.faults.rejects_all);
                    for reply in account.replies.since(first) {
                        connection.server.send_sequenced(reply, now_ns);
                    }
                }
                ServerHappening::Taken => {}
                ServerHappening::Logout => return Err(ErrorKind::ConnectionAborted.into()),
            }
        }
        Ok(worked)
    }
}

/// The sessions of the venue over UDP.
struct Datagrams {
    incoming: DatagramBatch,
    /// Datagrams of `incoming` that were not looked at yet.
    unread: Range<usize>,
    outgoing: Outgoing,
    accounts: BTreeMap<SocketAddr, (Account, u64)>,
    received: u64,
    heartbeat_ns: u64,
}

impl Datagrams {
    fn new(socket: UdpSocket) -> Self {
        const DATAGRAM_LEN_MAX: usize = 2_048;
        Self {
            incoming: DatagramBatch::new(DATAGRAM_LEN_MAX),
            unread: 0..0,
            outgoing: Outgoing {
                socket,
                batch: DatagramBatch::new(PACKET_LEN_DEFAULT),
                waiting: 0,
                sent: 0,
            },
            accounts: BTreeMap::new(),
            received: 0,
            heartbeat_ns: 0,
        }
    }

    fn turn(&mut self, desk: &mut Desk, now_ns: u64) -> bool {
        if desk.faults.stalled_ns.contains(&now_ns) {
            return false;
        }
        if self.unread.is_empty() {
            // An error of the socket is of an earlier datagram: that one is lost.
            self.unread = 0..self.incoming.receive(self.outgoing.socket.as_fd()).unwrap_or(0);
        }
        let mut worked = false;
        while desk.has_time(now_ns)
            && let Some(index) = self.unread.next()
        {
            worked = true;
            self.received += 1;
            let received = self.incoming.received(index);
            let Some(peer) = received.from else { continue };
            if is_turn(desk.faults.lose_received, self.received) {
                continue;
            }
            let datagram = received.bytes;
            if datagram.first().is_some_and(u8::is_ascii_digit) {
                if let Ok(request) = Request::parse(datagram)
                    && let Some((account, _)) = self.accounts.get(&peer)
                {
                    let (first, count) = (request.sequence_number, usize::from(request.count));
                    self.outgoing.publish(desk, account, peer, first, count);
                }
                continue;
            }
            let (account, _) = self.accounts.entry(peer).or_default();
            account.open(desk.faults.first_user_ref_num);
            for message in messages_of(datagram) {
                let number = desk.count_message(now_ns);
                if desk.faults.mute_from.is_none_or(|mute_from| number < mute_from) {
                    account.take(message, desk.faults.rejects_all);
                }
            }
        }
        let is_due = now_ns >= self.heartbeat_ns;
        for (peer, (account, published)) in &mut self.accounts {
            let (first, count) = (*published + 1, account.replies.count());
            *published = count;
            if first <= count {
                self.outgoing.publish(desk, account, *peer, first, usize::MAX);
            }
            if is_due {
                let packets = Packetizer::new(*MOLD_SESSION, count + 1, PACKET_LEN_DEFAULT);
                self.outgoing.transmit(desk, *peer, &packets.heartbeat());
            }
        }
        self.outgoing.flush();
        if is_due {
            self.heartbeat_ns = now_ns + 100_000_000;
        }
        worked
    }
}

/// Packets on their way out: those of a turn leave together.
struct Outgoing {
    socket: UdpSocket,
    batch: DatagramBatch,
    waiting: usize,
    sent: u64,
}

impl Outgoing {
    /// Sends replies from number `first` on, at most `count`, in as many packets as it takes.
    fn publish(
        &mut self,
        desk: &Desk,
        account: &Account,
        peer: SocketAddr,
        first: u64,
        count: usize,
    ) {
        let first = first.max(account.replies.gone + 1);
        let mut packets = Packetizer::new(*MOLD_SESSION, first, PACKET_LEN_DEFAULT);
        for reply in account.replies.since(first).take(count) {
            if !packets.push(reply) {
                self.transmit(desk, peer, packets.packet());
                packets.advance();
                assert!(packets.push(reply), "a reply fits an empty packet");
            }
        }
        if !packets.is_empty() {
            self.transmit(desk, peer, packets.packet());
        }
    }

    fn transmit(&mut self, desk: &Desk, peer: SocketAddr, packet: &[u8]) {
        self.sent += 1;
        if is_turn(desk.faults.lose_sent, self.sent) {
            return;
        }
        if self.waiting == BATCH {
            self.flush();
        }
        self.batch.put(self.waiting, peer, packet, &[]);
        self.waiting += 1;
    }

    fn flush(&mut self) {
        let (mut first, end) = (0, std::mem::take(&mut self.waiting));
        while first < end {
            // A datagram that the system does not take is lost, as on a wire.
            first += self.batch.send(self.socket.as_fd(), first, end).unwrap_or(1).max(1);
        }
    }
}

fn is_turn(every: Option<u64>, count: u64) -> bool {
    every.is_some_and(|every| count.is_multiple_of(every))
}

/// The messages of a datagram: one as it is, or several with their lengths.
fn messages_of(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_single = datagram.first().is_some_and(u8::is_ascii_alphabetic);
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if is_single {
            return Some(std::mem::take(&mut rest)).filter(|message| !message.is_empty());
        }
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (message, next) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        rest = next;
        Some(message)
    })
}

impl Account {
    fn open(&mut self, first_user_ref_num: u32) {
        if self.next_user_ref_num == 0 {
            self.next_user_ref_num = first_user_ref_num.max(1);
        }
    }

    fn reply(&mut self, reply: &MessageBuffer) {
        self.replies.push(reply);
    }

    /// Answers a message; one that cannot be read has no answer.
    fn take(&mut self, message: &[u8], rejects_all: bool) {
        let Ok(message) = decode_inbound(message) else { return };
        match message {
            Inbound::EnterOrder(order, _) => {
                let user_ref_num = order.user_ref_num.get();
                if user_ref_num < self.next_user_ref_num {
                    return;
                }
                self.next_user_ref_num = user_ref_num + 1;
                if rejects_all || user_ref_num.is_multiple_of(50) {
                    self.reply(&MessageBuffer::new(&Rejected {
                        message_type: Rejected::TYPE,
                        timestamp: 1.into(),
                        user_ref_num: order.user_ref_num,
                        reason: 0x13.into(),
                        cl_ord_id: order.cl_ord_id,
                    }));
                    return;
                }
                self.reply(&MessageBuffer::with_appendage(&OrderAccepted {
                    message_type: OrderAccepted::TYPE,
                    timestamp: 1.into(),
                    user_ref_num: order.user_ref_num,
                    side: order.side,
                    quantity: order.quantity,
                    symbol: order.symbol,
                    price: order.price,
                    time_in_force: order.time_in_force,
                    display: order.display,
                    order_reference_number: 1.into(),
                    capacity: order.capacity,
                    inter_market_sweep_eligibility: b'N',
                    cross_type: b'N',
                    order_state: b'L',
                    cl_ord_id: order.cl_ord_id,
                }));
                let quantity = order.quantity.get();
                if quantity > 100 {
                    self.reply(&MessageBuffer::with_appendage(&OrderExecuted {
                        message_type: OrderExecuted::TYPE,
                        timestamp: 1.into(),
                        user_ref_num: order.user_ref_num,
                        quantity: 100.into(),
                        price: order.price,
                        liquidity_flag: b'R',
                        match_number: 1.into(),
                    }));
                    self.canceled(user_ref_num, quantity - 100, b'I');
                }
            }
            Inbound::ReplaceOrderRequest(replace, _) => {
                let user_ref_num = replace.user_ref_num.get();
                self.next_user_ref_num = self.next_user_ref_num.max(user_ref_num + 1);
                self.reply(&MessageBuffer::with_appendage(&OrderReplaced {
                    message_type: OrderReplaced::TYPE,
                    timestamp: 1.into(),
                    orig_user_ref_num: replace.orig_user_ref_num,
                    user_ref_num: replace.user_ref_num,
                    side: b'B',
                    quantity: replace.quantity,
                    symbol: *b"AAA     ",
                    price: replace.price,
                    time_in_force: replace.time_in_force,
                    display: replace.display,
                    order_reference_number: 1.into(),
                    capacity: b'P',
                    inter_market_sweep_eligibility: b'N',
                    cross_type: b'N',
                    order_state: b'L',
                    cl_ord_id: replace.cl_ord_id,
                }));
            }
            Inbound::CancelOrderRequest(cancel, _) => {
                // The venue keeps no orders, and reports the most that an order can have as canceled.
                self.canceled(cancel.user_ref_num.get(), 999_999, b'U');
            }
            Inbound::AccountQueryRequest(..) => {
                self.reply(&MessageBuffer::new(&AccountQueryResponse {
                    message_type: AccountQueryResponse::TYPE,
                    timestamp: 1.into(),
                    next_user_ref_num: self.next_user_ref_num.into(),
                }));
            }
            _ => {}
        }
    }

    fn canceled(&mut self, user_ref_num: u32, quantity: u32, reason: u8) {
        self.reply(&MessageBuffer::new(&OrderCanceled {
            message_type: OrderCanceled::TYPE,
            timestamp: 1.into(),
            user_ref_num: user_ref_num.into(),
            quantity: quantity.into(),
            reason,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Old replies leave when there are many, and the newest stay, in their order: those of a turn are sent after it.
    #[test]
    fn the_newest_replies_stay() {
        let mut replies = Replies::default();
        let reply = |number: u64| [number.to_be_bytes(), [7; 8]].concat();
        let count = 3 * HISTORY_BYTES as u64 / 16;
        for number in 1..=count {
            replies.push(&reply(number));
            let from = number.saturating_sub(1_000).max(1);
            let kept = replies.since(from).next().map(<[u8]>::to_vec);
            assert_eq!(kept, Some(reply(from)), "{number}");
        }
        assert_eq!(replies.count(), count);
        assert!(replies.bytes.len() <= HISTORY_BYTES + 16);
        let all: Vec<_> = replies.since(count - 2).map(<[u8]>::to_vec).collect();
        assert_eq!(all, [reply(count - 2), reply(count - 1), reply(count)]);
    }
}
