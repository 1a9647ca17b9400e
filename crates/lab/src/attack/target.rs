//! The venue that is attacked, and the means of an attacker: sessions, connections, datagrams.
//!
//! Invariant: no call waits longer than the attack lasts, and a message that an attacker cannot send does not count.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use client::participant::{self, ClientError, ClientState, TcpClient};
use market::{
    CancelOrder, Command, EnterOrder, Firm, MassCancel, OrderKey, Price, Quantity, Side, Symbol,
    TimeInForce,
};
use socket2::{Domain, Socket, Type};
use venue::clock::SystemClock;
use wire::{
    moldudp64::Session,
    ouch::{self, MessageBuffer},
    soupbintcp::{LoginRequest, Timers},
};

/// A client that outlasts a frozen venue: 300 s for heartbeats and the answer to a login.
pub(super) const PATIENT: Timers = Timers {
    heartbeat_ns: 1_000_000_000,
    receive_timeout_ns: 300_000_000_000,
    login_timeout_ns: 300_000_000_000,
};

/// The book that attackers have to themselves, and its price, in ticks.
pub(super) const OWN_BOOK: &str = "EVIL";
pub(super) const OWN_PRICE: u64 = 1_000_000;
/// A cent, in ticks.
pub(super) const CENT: u64 = 100;

/// A free port of this machine.
pub(super) const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// How long one step on a raw connection may take.
const STEP: Duration = Duration::from_millis(100);
/// Messages between two looks at the replies.
const BATCH: u32 = 64;
pub(super) const PAUSE: Duration = Duration::from_micros(50);

/// Where the venue listens.
#[derive(Clone, Copy)]
pub(super) struct Doors {
    pub(super) order_entry: SocketAddr,
    pub(super) order_entry_fix: SocketAddr,
    pub(super) order_entry_ouch42: SocketAddr,
    pub(super) order_entry_sluice: SocketAddr,
    pub(super) order_entry_udp: SocketAddr,
    pub(super) re_request: SocketAddr,
    pub(super) snapshot: SocketAddr,
    pub(super) feed_tcp: SocketAddr,
    pub(super) market_data_fix: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// The venue that is attacked, and how far the attack is.
pub(super) struct Target {
    pub(super) clock: SystemClock,
    pub(super) at: Doors,
    /// The address that names the attacker's session over UDP.
    pub(super) udp_local: SocketAddr,
    /// The name of feed and replies.
    pub(super) session: Session,
    /// Divides the orders that an attack places before it begins.
    pub(super) divisor: u32,
    begun: AtomicBool,
    over: AtomicBool,
    sent: AtomicU64,
    effective: AtomicU64,
}

/// Whether a message may change the state of the venue, so that the journal may grow by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Some,
    /// A message by FIX has three records: its note, its command, and the note of its end.
    Fix,
    None,
}

impl Target {
    pub(super) fn new(
        clock: SystemClock,
        at: Doors,
        udp_local: SocketAddr,
        session: Session,
        divisor: u32,
    ) -> Self {
        let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (sent, effective) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { clock, at, udp_local, session, divisor, begun, over, sent, effective }
    }

    /// The orders and messages needed beforehand are in place: latency counts as attacked from here.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Counts messages, datagrams, requests or connections that went out.
    pub(super) fn count(&self, count: u64, effect: Effect) {
        self.sent.fetch_add(count, Ordering::Relaxed);
        let records = match effect {
            Effect::Some => count,
            Effect::Fix => 3 * count,
            Effect::None => 0,
        };
        self.effective.fetch_add(records, Ordering::Relaxed);
    }

    /// All messages sent, and those of them that may have an effect.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.effective.load(Ordering::Relaxed))
    }

    /// A raw connection from 127.0.0.`from`. A reset ends it, so that no port stays in use.
    pub(super) fn connect(&self, to: SocketAddr, from: u8) -> Option<TcpStream> {
        Self::connect_within(to, from, STEP)
    }

    fn connect_within(to: SocketAddr, from: u8, patience: Duration) -> Option<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
        let local = SocketAddr::from((Ipv4Addr::new(127, 0, 0, from), 0));
        socket.bind(&local.into()).ok()?;
        socket.set_linger(Some(Duration::ZERO)).ok()?;
        socket.connect_timeout(&to.into(), patience).ok()?;
        socket.set_write_timeout(Some(STEP)).ok()?;
        socket.set_read_timeout(Some(STEP)).ok()?;
        Some(TcpStream::from(socket))
    }

    /// Logs in at order entry; see [`Target::log_in_at`].
    pub(super) fn log_in(
        &self,
        login: LoginRequest,
        first: u64,
        from: u8,
        patience: Duration,
    ) -> Option<TcpClient> {
        self.log_in_at(self.at.order_entry, login, first, from, patience)
    }

    /// Logs in from 127.0.0.`from`, and asks for the replies from number `first` on, 0 for new ones.
    fn log_in_at(
        &self,
        to: SocketAddr,
        login: LoginRequest,
        first: u64,
        from: u8,
        patience: Duration,
    ) -> Option<TcpClient> {
        // A lost SYN is sent again after a second: a newcomer waits as long as it has patience.
        let stream = Self::connect_within(to, from, patience)?;
        stream.set_nodelay(true).ok()?;
        stream.set_nonblocking(true).ok()?;
        let login = LoginRequest { sequence_number: Some(first), ..login };
        let start_ns = self.clock.now_ns();
        let mut client = TcpClient::over(stream, login, PATIENT, start_ns);
        loop {
            let now_ns = self.clock.now_ns();
            client.poll(now_ns, &mut |_, _| {}).ok()?;
            match client.state() {
                ClientState::LoggedIn { .. } => return Some(client),
                ClientState::Rejected(_) | ClientState::Ended => return None,
                ClientState::Connecting if now_ns - start_ns > patience.as_nanos() as u64 => {
                    return None;
                }
                ClientState::Connecting => thread::sleep(PAUSE),
            }
        }
    }

    /// Keeps `count` connections from each of these addresses open to `to`, writes `bytes(step)` on each of them every
    /// `every`, and reopens those that the venue closes.
    pub(super) fn occupy(
        &self,
        to: SocketAddr,
        from: &[u8],
        count: usize,
        every: Duration,
        bytes: impl Fn(usize) -> Vec<u8>,
    ) {
        let mut open: Vec<(TcpStream, u8, usize)> = Vec::new();
        self.begin();
        while !self.is_over() {
            for from in from {
                let has = open.iter().filter(|(_, address, _)| address == from).count();
                for _ in has..count {
                    let Some(stream) = self.connect(to, *from) else { break };
                    self.count(1, Effect::None);
                    if stream.set_nonblocking(true).is_ok() {
                        open.push((stream, *from, 0));
                    }
                }
            }
            open.retain_mut(|(stream, _, step)| {
                *step += 1;
                let bytes = bytes(*step);
                let is_written = bytes.is_empty() || stream.write_all(&bytes).is_ok();
                // Nothing to read is fine; an end or an error is not.
                is_written
                    && match stream.read(&mut [0; 64]) {
                        Ok(read) => read > 0,
                        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                    }
            });
            thread::sleep(every);
        }
    }

    /// Connects again and again from 127.0.0.9, writes `bytes`, and reads as long as the venue answers
    /// within 100 ms if `reads`.
    pub(super) fn churn(&self, to: SocketAddr, reads: bool, bytes: impl Fn(u64) -> Vec<u8>) {
        self.begin();
        let mut turn = 0;
        while !self.is_over() {
            let Some(mut stream) = self.connect(to, 9) else { continue };
            turn += 1;
            self.count(1, Effect::None);
            if stream.write_all(&bytes(turn)).is_ok() && reads {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|read| read > 0) && !self.is_over() {}
            }
        }
    }

    /// Sends datagrams as fast as the system takes them, and reads nothing of the answers.
    pub(super) fn datagrams(
        &self,
        to: SocketAddr,
        local: impl ToSocketAddrs,
        effect: Effect,
        bytes: impl Fn(u64) -> Vec<u8>,
    ) {
        let socket = UdpSocket::bind(local).expect("the attacker's address is free");
        self.begin();
        let mut turn = 0;
        while !self.is_over() {
            turn += 1;
            if socket.send_to(&bytes(turn), to).is_ok() {
                self.count(1, effect);
            }
        }
    }

    /// Sends each datagram from a new port.
    pub(super) fn datagrams_of_ports(&self, to: SocketAddr, bytes: &[u8]) {
        self.begin();
        while !self.is_over() {
            if let Ok(socket) = UdpSocket::bind(ANY) {
                let _ = socket.send_to(bytes, to);
                self.count(1, Effect::None);
            }
        }
    }

    /// Takes part as a participant: `prepare` once, then `turn` until the attack is over.
    pub(super) fn flood(
        &self,
        prepare: impl FnOnce(&mut Attacker<'_>),
        mut turn: impl FnMut(&mut Attacker<'_>),
    ) {
        let mut attacker = Attacker::new(self, "evil1");
        prepare(&mut attacker);
        attacker.settle();
        self.begin();
        while !self.is_over() {
            turn(&mut attacker);
        }
    }
}

/// The login of a user of these trials.
pub(super) fn login(user: &str) -> LoginRequest {
    LoginRequest::new(user, &password(user)).expect("names fit their fields")
}

pub(super) fn password(user: &str) -> String {
    format!("{user}-pw")
}

/// A participant that attacks over SoupBinTCP: logs in again whenever it loses its connection.
pub(super) struct Attacker<'a> {
    pub(super) target: &'a Target,
    /// The address of the port for its login.
    at: SocketAddr,
    user: &'static str,
    client: Option<TcpClient>,
    /// False for an attacker that never reads its replies.
    pub(super) reads: bool,
    next: u32,
    unread: u32,
}

impl<'a> Attacker<'a> {
    pub(super) fn new(target: &'a Target, user: &'static str) -> Self {
        Self::at(target, target.at.order_entry, user)
    }

    /// An attacker that logs in at another port.
    pub(super) fn at(target: &'a Target, at: SocketAddr, user: &'static str) -> Self {
        Self { target, at, user, client: None, reads: true, next: 1, unread: 0 }
    }

    /// Ends the connection without a logout; the next message logs in again.
    pub(super) fn disconnect(&mut self) {
        self.turn();
        self.client = None;
    }

    /// Sends one message, when the venue takes it.
    pub(super) fn send(&mut self, message: &[u8], effect: Effect) {
        while !self.target.is_over() {
            let Some(client) = &mut self.client else {
                let login = login(self.user);
                let patience = Duration::from_secs(2);
                self.client = self.target.log_in_at(self.at, login, 0, 1, patience);
                continue;
            };
            match client.send(message, self.target.clock.now_ns()) {
                Ok(()) => {
                    self.target.count(1, effect);
                    self.unread += 1;
                    if self.unread == BATCH {
                        self.turn();
                    }
                    return;
                }
                Err(ClientError::Full) => {
                    self.turn();
                    thread::sleep(PAUSE);
                }
                Err(_) => self.client = None,
            }
        }
    }

    /// Writes the waiting bytes, and reads those that arrived.
    pub(super) fn turn(&mut self) {
        self.unread = 0;
        let Some(client) = &mut self.client else { return };
        let result = match self.reads {
            true => client.poll(self.target.clock.now_ns(), &mut |_, _| {}).map(drop),
            false => client.flush(),
        };
        if result.is_err() {
            self.client = None;
        }
    }

    /// Waits until all messages before are answered: for the answer to a query.
    pub(super) fn settle(&mut self) {
        let mut is_answered = false;
        self.send(&participant::query_account(), Effect::None);
        while !is_answered && !self.target.is_over() {
            let now_ns = self.target.clock.now_ns();
            let Some(client) = &mut self.client else { return };
            let answered = client.poll(now_ns, &mut |_, message| {
                is_answered |= message.first() == Some(&b'Q');
            });
            match answered {
                Ok(0) => thread::sleep(PAUSE),
                Ok(_) => {}
                Err(_) => self.client = None,
            }
        }
    }

    /// The name of a new order.
    pub(super) fn key(&mut self) -> OrderKey {
        let user_ref_num = self.next;
        self.next += 1;
        OrderKey { user_ref_num, ..OrderKey::default() }
    }

    /// A new limit order for the day in the attackers' book, at so many cents from its price.
    pub(super) fn order(&mut self, side: Side, above: i64, lots: u64) -> EnterOrder {
        EnterOrder::limit(self.key(), side, symbol(OWN_BOOK), Quantity(lots), cents(above))
    }

    /// Sends an order; gives its number.
    pub(super) fn enter(&mut self, order: EnterOrder) -> u32 {
        self.send(&message(&Command::Enter(order)), Effect::Some);
        order.key.user_ref_num
    }

    /// Sends an order that trades at once or not at all.
    pub(super) fn enter_now(&mut self, order: EnterOrder) {
        let time_in_force = TimeInForce::ImmediateOrCancel;
        self.enter(EnterOrder { time_in_force, ..order });
    }

    /// Sends an order, and cancels it.
    pub(super) fn in_and_out(&mut self, order: EnterOrder) {
        let number = self.enter(order);
        self.cancel(number, Effect::Some);
    }

    pub(super) fn cancel(&mut self, user_ref_num: u32, effect: Effect) {
        let key = OrderKey { user_ref_num, ..OrderKey::default() };
        let cancel = CancelOrder { key, quantity: Quantity::ZERO };
        self.send(&message(&Command::Cancel(cancel)), effect);
    }

    /// Cancels the attacker's orders in this book, of this group if there is one.
    pub(super) fn mass_cancel(&mut self, book: &str, group_id: Option<u16>) {
        let (firm, symbol) = (Firm::new("EVIL").expect("four letters"), symbol(book));
        let cancel = MassCancel { key: self.key(), firm, symbol, side: None, group_id };
        self.send(&message(&Command::MassCancel(cancel)), Effect::Some);
    }

    /// Places this many orders, fewer in a short run, each made from its index.
    pub(super) fn place(&mut self, count: u32, order: impl Fn(EnterOrder, i64) -> EnterOrder) {
        for index in 0..count / self.target.divisor {
            let plain = self.order(Side::Sell, 1, 1);
            self.enter(order(plain, index.into()));
        }
    }
}

/// A price at so many cents from that of the attackers' book.
pub(super) fn cents(cents: i64) -> Price {
    Price(OWN_PRICE.saturating_add_signed(cents * CENT as i64))
}

pub(super) fn symbol(name: &str) -> Symbol {
    Symbol::new(name).expect("up to eight characters")
}

pub(super) fn message(command: &Command) -> MessageBuffer {
    ouch::request(command).expect("a participant may ask for this")
}
