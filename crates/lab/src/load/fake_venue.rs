//! A venue for the tests of the load: an engine behind sockets with faults.
//!
//! Invariant: time moves with the turns of the venue, so no test depends on how fast the machine is.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use client::subscriber::RECEIVE_BUFFER_BYTES;
use engine::Engine;
use gateway::{MessageStore, ReplyStreams};
use market::{
    AddInstrument, AddSession, Command, EnterOrder, Firm, Input, OrderKey, Output, Price, Quantity,
    SelfMatchPrevention, SessionId, Side, Symbol, SystemEvent, Text, TimeInForce, Timestamp,
};
use ring::Clock;
use wire::{
    moldudp64::{PACKET_LEN_DEFAULT, Packetizer, Request},
    ouch,
    soupbintcp::{LoginRejectReason, Server, ServerHappening, Timers},
};

/// Nanoseconds that pass in a turn of the venue.
const TICK_NS: u64 = 100_000;

/// Turns without a reading of the clock after which time passes nevertheless.
const UNREAD_TURNS: u32 = 20;

/// A session with more live orders gets its orders rejected.
const LIVE_ORDERS_MAX: u32 = 10;

/// Time that moves with the turns of the venue, and as a rule only if somebody has read it since the
/// last one: neither side is silent for long only because the machine gave it no core.
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
    /// It ignores this message and all later ones.
    pub(super) mute_from: Option<u64>,
    /// It closes every connection that sends this message or a later one.
    pub(super) close_from: Option<u64>,
    /// It loses each n-th datagram that it sends.
    pub(super) lose_sent: Option<u64>,
    /// It loses each n-th datagram that it receives.
    pub(super) lose_received: Option<u64>,
    /// Sessions have used the order numbers below this one.
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
        // On a busy machine this thread may have to wait while requests arrive.
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
                    core: Core::new(),
                    connections: Vec::new(),
                    peers: Vec::new(),
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

/// The engine and the replies of all sessions.
struct Core {
    engine: Engine,
    replies: ReplyStreams<Replies>,
}

/// By session.
#[derive(Default)]
struct Replies(Vec<Vec<Vec<u8>>>);

impl MessageStore for Replies {
    fn ensure_stream(&mut self, stream: usize) {
        self.0.resize_with(self.0.len().max(stream + 1), Vec::new);
    }

    fn push(&mut self, stream: usize, message: &[u8]) {
        self.0[stream].push(message.to_vec());
    }
}

impl Core {
    fn new() -> Self {
        let replies = ReplyStreams::of_all(Replies::default());
        let mut core = Self { engine: Engine::new(), replies };
        core.apply(Command::System(SystemEvent::StartOfMessages));
        core.apply(Command::AddInstrument(AddInstrument {
            symbol: Symbol::new("AAA").unwrap(),
            price_increment: Price(100),
            round_lot: Quantity(1),
        }));
        core.apply(Command::System(SystemEvent::StartOfSystemHours));
        core
    }

    fn apply(&mut self, command: Command) {
        let cause = self.engine.sequence().next();
        let timestamp = Timestamp(cause.0);
        let Self { engine, replies } = self;
        engine.apply(&Input { sequence: cause, timestamp, command }, &mut |event| {
            replies.take(&Output { cause, timestamp, event });
        });
    }

    /// The session of a user, added if it is new.
    fn session(&mut self, username: &str, first_user_ref_num: u32) -> SessionId {
        let username = Text::new(username).unwrap();
        if let Some((session_id, _)) = self.replies.sessions().find(|(_, name)| **name == username)
        {
            return session_id;
        }
        self.apply(Command::AddSession(AddSession {
            username,
            firm: Firm::new("FAKE").unwrap(),
            live_orders_max: LIVE_ORDERS_MAX,
            self_match_prevention: SelfMatchPrevention::Off,
        }));
        let session_id = SessionId(self.replies.sessions().count() as u16);
        if let Some(user_ref_num) = first_user_ref_num.checked_sub(1) {
            // The history: an order that cannot trade, whose reply is forgotten.
            let key = OrderKey { session_id, channel: 0, user_ref_num };
            let symbol = Symbol::new("AAA").unwrap();
            let mut order = EnterOrder::limit(key, Side::Buy, symbol, Quantity(1), Price(100));
            order.time_in_force = TimeInForce::ImmediateOrCancel;
            let sequence = self.engine.sequence().next();
            let (timestamp, command) = (Timestamp(sequence.0), Command::Enter(order));
            self.engine.apply(&Input { sequence, timestamp, command }, &mut |_| {});
        }
        session_id
    }

    /// The replies to a session after the first `sent`.
    fn replies_after(&self, session_id: SessionId, sent: usize) -> &[Vec<u8>] {
        &self.replies.store().0[usize::from(session_id.0) - 1][sent..]
    }
}

struct Venue {
    faults: Faults,
    listener: TcpListener,
    socket: UdpSocket,
    core: Core,
    connections: Vec<Connection>,
    peers: Vec<Peer>,
    received: u64,
    datagrams_sent: u64,
    datagrams_received: u64,
    heartbeat_ns: u64,
}

struct Connection {
    stream: TcpStream,
    server: Server,
    /// Its session and the replies that it was sent, once it has logged in.
    session: Option<(SessionId, usize)>,
    is_closed: bool,
}

/// A session over UDP.
struct Peer {
    address: SocketAddr,
    session_id: SessionId,
    /// Replies that were sent live.
    published: usize,
}

impl Venue {
    fn turn(&mut self, now_ns: u64) -> bool {
        let mut worked = false;
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            let server = Server::new(Timers::default(), now_ns);
            self.connections.push(Connection { stream, server, session: None, is_closed: false });
            worked = true;
        }
        let mut connections = std::mem::take(&mut self.connections);
        for connection in &mut connections {
            worked |= self.receive(connection, now_ns);
        }
        worked |= self.receive_datagrams();
        for connection in &mut connections {
            self.reply(connection, now_ns);
        }
        connections.retain(|connection| !connection.is_closed);
        self.connections = connections;
        for index in 0..self.peers.len() {
            let Peer { session_id, published, .. } = self.peers[index];
            let replies = self.core.replies_after(session_id, published).to_vec();
            self.peers[index].published += replies.len();
            self.publish(index, published, &replies);
        }
        if now_ns >= self.heartbeat_ns {
            self.heartbeat_ns = now_ns + 100_000_000;
            for index in 0..self.peers.len() {
                let next = self.peers[index].published as u64 + 1;
                let packets = Packetizer::new(*MOLD_SESSION, next, PACKET_LEN_DEFAULT);
                self.transmit(index, &packets.heartbeat());
            }
        }
        worked
    }

    /// Applies a message, unless the venue ignores it.
    fn take(&mut self, session_id: SessionId, message: &[u8]) {
        self.received += 1;
        if self.faults.mute_from.is_none_or(|mute_from| self.received < mute_from) {
            self.core.apply(ouch::command(message, session_id, Timestamp(0)).unwrap());
        }
    }

    fn receive(&mut self, connection: &mut Connection, now_ns: u64) -> bool {
        let mut buffer = [0; 65_536];
        let worked = match connection.stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Ok(0) | Err(_) => {
                connection.is_closed = true;
                return true;
            }
            Ok(len) => {
                connection.server.receive(&buffer[..len], now_ns).unwrap();
                true
            }
        };
        let mut messages = Vec::new();
        while let Some(happening) = connection.server.next().unwrap() {
            match happening {
                ServerHappening::Login(login) if login.password_is("SECRET") => {
                    let first = self.faults.first_user_ref_num;
                    let session_id = self.core.session(login.username.as_str(), first);
                    // 0 asks for the newest message and what follows.
                    let newest = self.core.replies_after(session_id, 0).len().max(1) as u64;
                    let next = login.sequence_number.filter(|number| *number > 0).unwrap_or(newest);
                    connection.session = Some((session_id, next as usize - 1));
                    connection.server.accept(SOUP_SESSION, next, now_ns);
                }
                ServerHappening::Login(_) => {
                    connection.server.reject(LoginRejectReason::NotAuthorized, now_ns);
                }
                ServerHappening::Message(message) => messages.push(message.to_vec()),
                ServerHappening::Logout => connection.is_closed = true,
            }
        }
        for message in messages {
            if self.faults.close_from.is_some_and(|close_from| self.received + 1 >= close_from) {
                self.received += 1;
                connection.is_closed = true;
            }
            if !connection.is_closed {
                let (session_id, _) = connection.session.expect("messages follow the login");
                self.take(session_id, &message);
            }
        }
        worked
    }

    fn reply(&self, connection: &mut Connection, now_ns: u64) {
        let Connection { stream, server, session, .. } = connection;
        if let Some((session_id, sent)) = session {
            for reply in self.core.replies_after(*session_id, *sent) {
                server.send_sequenced(reply, now_ns);
                *sent += 1;
            }
        }
        server.tick(now_ns).unwrap();
        while !server.outgoing().is_empty() {
            match stream.write(server.outgoing()) {
                Ok(written) => server.sent(written),
                Err(_) => break,
            }
        }
    }

    fn receive_datagrams(&mut self) -> bool {
        let mut buffer = [0; 2_048];
        let mut worked = false;
        while let Ok((len, address)) = self.socket.recv_from(&mut buffer) {
            worked = true;
            self.datagrams_received += 1;
            if is_turn(self.faults.lose_received, self.datagrams_received) {
                continue;
            }
            let datagram = &buffer[..len];
            let known = self.peers.iter().position(|peer| peer.address == address);
            if datagram[0].is_ascii_digit() {
                let request = Request::parse(datagram).unwrap();
                let Some(index) = known else { continue };
                let first = request.sequence_number as usize - 1;
                let replies = self.core.replies_after(self.peers[index].session_id, first);
                let count = replies.len().min(request.count.into());
                let replies = replies[..count].to_vec();
                self.publish(index, first, &replies);
                continue;
            }
            let index = known.unwrap_or_else(|| {
                let username = format!("UDP{}", self.peers.len());
                let session_id = self.core.session(&username, self.faults.first_user_ref_num);
                self.peers.push(Peer { address, session_id, published: 0 });
                self.peers.len() - 1
            });
            for message in messages_of(datagram) {
                self.take(self.peers[index].session_id, message);
            }
        }
        worked
    }

    /// Sends replies, of which the first has the index `first`, in as many packets as necessary.
    fn publish(&mut self, index: usize, first: usize, replies: &[Vec<u8>]) {
        let mut packets = Packetizer::new(*MOLD_SESSION, first as u64 + 1, PACKET_LEN_DEFAULT);
        for reply in replies {
            if !packets.push(reply) {
                self.transmit(index, packets.packet());
                packets.advance();
                assert!(packets.push(reply));
            }
        }
        if !packets.is_empty() {
            self.transmit(index, packets.packet());
        }
    }

    fn transmit(&mut self, index: usize, packet: &[u8]) {
        self.datagrams_sent += 1;
        if !is_turn(self.faults.lose_sent, self.datagrams_sent) {
            // A peer that is gone costs nothing.
            let _ = self.socket.send_to(packet, self.peers[index].address);
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
