//! A venue that is just enough to be loaded: every order is accepted, orders above 100 lots trade
//! against nobody, cancels and replaces of live orders are answered, others are not.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use wire::{
    layout::Message,
    moldudp64::{PACKET_LEN_DEFAULT, Packetizer, Request},
    ouch::{
        AccountQueryResponse, Inbound, MessageBuffer, OrderAccepted, OrderCanceled, OrderExecuted,
        OrderReplaced, Rejected, decode_inbound,
    },
    soupbintcp::{LoginRejectReason, Server, ServerHappening, Timers},
};

use client::subscriber::RECEIVE_BUFFER_BYTES;
use ring::Clock;

/// How far time goes on at a turn of the venue.
const TICK_NS: u64 = 100_000;

/// Of the turns before which nobody read the clock, one in so many lets time pass as well.
const UNREAD_TURNS: u32 = 20;

/// Time that goes on with the turns of the venue, and as a rule only where somebody has read it since:
/// neither side is silent for long only because the machine gave it no core.
pub(super) struct TurnClock {
    now_ns: AtomicU64,
    is_read: AtomicBool,
}

impl TurnClock {
    pub(super) fn new() -> Self {
        Self { now_ns: AtomicU64::new(1_700_000_000_000_000_000), is_read: AtomicBool::new(false) }
    }
}

impl Clock for TurnClock {
    fn now_ns(&self) -> u64 {
        self.is_read.store(true, Ordering::Relaxed);
        self.now_ns.load(Ordering::Relaxed)
    }
}

/// How a venue misbehaves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// From this message on it answers nothing.
    pub(super) mute_from: Option<u64>,
    /// From this message on it closes every connection from which one comes.
    pub(super) close_from: Option<u64>,
    /// It loses every so many of the datagrams that it should send.
    pub(super) lose_sent: Option<u64>,
    /// It loses every so many of the datagrams that it gets.
    pub(super) lose_received: Option<u64>,
    /// The first number of every session, as if it had a history.
    pub(super) first_user_ref_num: u32,
}

/// A running venue; stops when dropped.
pub(super) struct FakeVenue {
    pub(super) tcp: SocketAddr,
    pub(super) udp: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeVenue {
    pub(super) fn start(faults: Faults, clock: Arc<TurnClock>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // On a busy machine this thread may have to wait while requests come in.
        socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_BYTES).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (tcp, udp) = (listener.local_addr().unwrap(), socket.local_addr().unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut venue = Venue {
                    faults,
                    listener,
                    socket,
                    connections: Vec::new(),
                    tcp_sessions: BTreeMap::new(),
                    udp_sessions: BTreeMap::new(),
                    received: 0,
                    datagrams_sent: 0,
                    datagrams_received: 0,
                    heartbeat_ns: 0,
                };
                let mut unread_turns = 0;
                while !stop.load(Ordering::Relaxed) {
                    let worked = venue.turn(clock.now_ns.load(Ordering::Relaxed));
                    unread_turns += 1;
                    if clock.is_read.swap(false, Ordering::Relaxed) || unread_turns >= UNREAD_TURNS
                    {
                        clock.now_ns.fetch_add(TICK_NS, Ordering::Relaxed);
                        unread_turns = 0;
                    }
                    if !worked {
                        thread::sleep(Duration::from_micros(50));
                    }
                }
            }
        });
        Self { tcp, udp, stop, thread: Some(thread) }
    }
}

impl Drop for FakeVenue {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("dropped once").join().expect("the venue does not panic");
    }
}

const SOUP_SESSION: &[u8; 10] = b"      FAKE";
const MOLD_SESSION: &[u8; 10] = b"0000000001";

struct Venue {
    faults: Faults,
    listener: TcpListener,
    socket: UdpSocket,
    connections: Vec<Connection>,
    tcp_sessions: BTreeMap<String, Account>,
    udp_sessions: BTreeMap<SocketAddr, Account>,
    received: u64,
    datagrams_sent: u64,
    datagrams_received: u64,
    heartbeat_ns: u64,
}

struct Connection {
    stream: TcpStream,
    server: Server,
    username: Option<String>,
    is_closed: bool,
}

/// A session of the venue: its orders and its replies.
#[derive(Default)]
struct Account {
    next_user_ref_num: u32,
    orders: BTreeMap<u32, u32>,
    replies: Vec<Vec<u8>>,
    /// How many of the replies were sent live.
    published: usize,
}

impl Venue {
    fn turn(&mut self, now_ns: u64) -> bool {
        let mut worked = false;
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            let server = Server::new(Timers::default(), now_ns);
            self.connections.push(Connection { stream, server, username: None, is_closed: false });
            worked = true;
        }
        let mut connections = std::mem::take(&mut self.connections);
        for connection in &mut connections {
            worked |= self.turn_connection(connection, now_ns);
        }
        connections.retain(|connection| !connection.is_closed);
        self.connections = connections;
        self.turn_datagrams(now_ns) || worked
    }

    /// Counts a message; false if the venue shall not answer it.
    fn takes_message(&mut self) -> bool {
        self.received += 1;
        self.faults.mute_from.is_none_or(|mute_from| self.received < mute_from)
    }

    fn turn_connection(&mut self, connection: &mut Connection, now_ns: u64) -> bool {
        let mut buffer = [0; 65_536];
        let worked = match connection.stream.read(&mut buffer) {
            Ok(0) => {
                connection.is_closed = true;
                return true;
            }
            Ok(len) => {
                connection.server.receive(&buffer[..len], now_ns).unwrap();
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) => {
                connection.is_closed = true;
                return true;
            }
        };
        let mut messages = Vec::new();
        while let Some(happening) = connection.server.next().unwrap() {
            match happening {
                ServerHappening::Login(login) if login.password_is("SECRET") => {
                    let username = login.username.as_str().to_owned();
                    let account = self.tcp_sessions.entry(username.clone()).or_default();
                    account.open(self.faults.first_user_ref_num);
                    // 0 asks for the newest message and what follows.
                    let newest = account.replies.len().max(1) as u64;
                    let next = login.sequence_number.filter(|number| *number > 0).unwrap_or(newest);
                    connection.username = Some(username);
                    connection.server.accept(SOUP_SESSION, next, now_ns);
                    for reply in &account.replies[next as usize - 1..] {
                        connection.server.send_sequenced(reply, now_ns);
                    }
                }
                ServerHappening::Login(_) => {
                    connection.server.reject(LoginRejectReason::NotAuthorized, now_ns);
                }
                ServerHappening::Message(message) => messages.push(message.to_vec()),
                ServerHappening::Logout => connection.is_closed = true,
            }
        }
        for message in messages {
            let answers = self.takes_message();
            if self.faults.close_from.is_some_and(|close_from| self.received >= close_from) {
                connection.is_closed = true;
            }
            if !answers || connection.is_closed {
                continue;
            }
            let username = connection.username.as_ref().expect("messages come after the login");
            let account = self.tcp_sessions.get_mut(username).expect("logged in");
            let first = account.replies.len();
            account.take(&message);
            for reply in &account.replies[first..] {
                connection.server.send_sequenced(reply, now_ns);
            }
        }
        connection.server.tick(now_ns).unwrap();
        while !connection.server.outgoing().is_empty() {
            match connection.stream.write(connection.server.outgoing()) {
                Ok(written) => connection.server.sent(written),
                Err(_) => break,
            }
        }
        worked
    }

    fn turn_datagrams(&mut self, now_ns: u64) -> bool {
        let mut buffer = [0; 2_048];
        let mut worked = false;
        while let Ok((len, peer)) = self.socket.recv_from(&mut buffer) {
            worked = true;
            self.datagrams_received += 1;
            if is_turn(self.faults.lose_received, self.datagrams_received) {
                continue;
            }
            let datagram = &buffer[..len];
            if datagram[0].is_ascii_digit() {
                let request = Request::parse(datagram).unwrap();
                let count = usize::from(request.count);
                self.publish(peer, request.sequence_number as usize - 1, count);
                continue;
            }
            for message in messages_of(datagram) {
                if self.takes_message() {
                    let account = self.udp_sessions.entry(peer).or_default();
                    account.open(self.faults.first_user_ref_num);
                    account.take(message);
                }
            }
        }
        let peers: Vec<SocketAddr> = self.udp_sessions.keys().copied().collect();
        for peer in &peers {
            let account = &self.udp_sessions[peer];
            if account.published < account.replies.len() {
                let (first, count) = (account.published, account.replies.len() - account.published);
                self.publish(*peer, first, count);
                let account = self.udp_sessions.get_mut(peer).expect("it was there");
                account.published = account.replies.len();
            }
        }
        if now_ns >= self.heartbeat_ns {
            self.heartbeat_ns = now_ns + 100_000_000;
            for peer in &peers {
                let next = self.udp_sessions[peer].replies.len() as u64 + 1;
                let heartbeat =
                    Packetizer::new(*MOLD_SESSION, next, PACKET_LEN_DEFAULT).heartbeat();
                self.transmit(*peer, &heartbeat);
            }
        }
        worked
    }

    /// Sends replies from index `first` on, at most `count`, in as many packets as it takes.
    fn publish(&mut self, peer: SocketAddr, first: usize, count: usize) {
        let Some(account) = self.udp_sessions.get(&peer) else { return };
        let replies: Vec<Vec<u8>> =
            account.replies.iter().skip(first).take(count).cloned().collect();
        let mut packets = Packetizer::new(*MOLD_SESSION, first as u64 + 1, PACKET_LEN_DEFAULT);
        for reply in &replies {
            if !packets.push(reply) {
                let packet = packets.packet().to_vec();
                self.transmit(peer, &packet);
                packets.advance();
                assert!(packets.push(reply));
            }
        }
        if !packets.is_empty() {
            let packet = packets.packet().to_vec();
            self.transmit(peer, &packet);
        }
    }

    fn transmit(&mut self, peer: SocketAddr, packet: &[u8]) {
        self.datagrams_sent += 1;
        if !is_turn(self.faults.lose_sent, self.datagrams_sent) {
            let _ = self.socket.send_to(packet, peer);
        }
    }
}

fn is_turn(every: Option<u64>, count: u64) -> bool {
    every.is_some_and(|every| count.is_multiple_of(every))
}

/// The messages of a datagram: one as it is, or several with their lengths.
fn messages_of(datagram: &[u8]) -> Vec<&[u8]> {
    if datagram[0].is_ascii_alphabetic() {
        return vec![datagram];
    }
    let mut messages = Vec::new();
    let mut rest = datagram;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (message, next) = after.split_at(usize::from(u16::from_be_bytes(*length)));
        messages.push(message);
        rest = next;
    }
    messages
}

impl Account {
    fn open(&mut self, first_user_ref_num: u32) {
        if self.next_user_ref_num == 0 {
            self.next_user_ref_num = first_user_ref_num.max(1);
        }
    }

    fn reply(&mut self, reply: &MessageBuffer) {
        self.replies.push(reply.to_vec());
    }

    fn take(&mut self, message: &[u8]) {
        match decode_inbound(message).unwrap() {
            Inbound::EnterOrder(order, _) => {
                let user_ref_num = order.user_ref_num.get();
                if user_ref_num < self.next_user_ref_num {
                    return;
                }
                self.next_user_ref_num = user_ref_num + 1;
                if user_ref_num.is_multiple_of(50) {
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
                } else {
                    self.orders.insert(user_ref_num, quantity);
                }
            }
            Inbound::ReplaceOrderRequest(replace, _) => {
                let original = replace.orig_user_ref_num.get();
                if self.orders.remove(&original).is_none() {
                    return;
                }
                let user_ref_num = replace.user_ref_num.get();
                assert!(user_ref_num >= self.next_user_ref_num);
                self.next_user_ref_num = user_ref_num + 1;
                self.orders.insert(user_ref_num, replace.quantity.get());
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
                let user_ref_num = cancel.user_ref_num.get();
                if let Some(leaves) = self.orders.remove(&user_ref_num) {
                    self.canceled(user_ref_num, leaves, b'U');
                }
            }
            Inbound::AccountQueryRequest(..) => {
                self.reply(&MessageBuffer::new(&AccountQueryResponse {
                    message_type: AccountQueryResponse::TYPE,
                    timestamp: 1.into(),
                    next_user_ref_num: self.next_user_ref_num.into(),
                }));
            }
            other => panic!("load does not send {other:?}"),
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
