//! The attacker: strangers at each socket, and two participants, one over TCP and one over UDP, that
//! misuse their sessions.
//!
//! Invariant: the attacker sends only bytes that a client may send over a socket, and knows no more than
//! a participant. Nothing delays its bytes: it sits next to the venue.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use gateway::{
    ConnectionId,
    fake::{FakeDatagram, FakeStream},
};
use market::{
    CancelOrder, Command, Conditions, Display, EnterOrder, Firm, Instructions, Lots,
    OrderAttributes, OrderKey, Price, Pricing, Quantity, Side, Symbol, TimeInForce,
};
use wire::{
    moldudp64::Request,
    ouch,
    soupbintcp::{Client, LoginRequest, Timers},
};

use super::faults::{FaultKind, Faults};

/// The number of messages of a flood: more than the throttle of a simulated venue passes at once.
const FLOOD: u32 = 600;

/// A number above all used ones: a message's place in its flood bounds its number.
const NEVER_USED: u32 = 4_000_000_000;

/// The book of the attacker's own orders.
const OWN_BOOK: &str = "MSFT";

/// The attacker's ends of the venue's sockets.
pub struct Doors<'a> {
    pub order_entry: &'a FakeStream,
    pub order_entry_udp: &'a FakeDatagram,
    pub re_request: &'a FakeDatagram,
}

pub struct Attacker {
    /// Name and password over TCP.
    pub login: (String, String),
    /// The participant over UDP.
    pub udp: SocketAddr,
    /// Names of the participants whose passwords it guesses.
    pub others: Vec<String>,
    /// The name of the venue's streams.
    pub stream: [u8; 10],
    lines: Vec<Line>,
    /// The connection of the participant over TCP.
    session: Option<Line>,
    /// The last numbers used over TCP and UDP.
    numbers: [u32; 2],
}

/// A connection and the bytes still to be sent on it.
struct Line {
    id: ConnectionId,
    bytes: VecDeque<u8>,
    /// Bytes sent in a tick.
    pace: usize,
    /// False if the attacker never reads the venue's bytes.
    reads: bool,
    /// True if the attacker ends its sending after the last byte.
    finishes: bool,
    until_tick: u64,
}

impl Attacker {
    pub fn new(
        login: (String, String),
        udp: SocketAddr,
        others: Vec<String>,
        stream: [u8; 10],
    ) -> Self {
        Self { login, udp, others, stream, lines: Vec::new(), session: None, numbers: [0; 2] }
    }

    /// True for an address whose requests for the feed may be answered: one of a private network.
    pub fn may_be_answered(&self, address: SocketAddr) -> bool {
        matches!(address.ip(), IpAddr::V4(ip) if ip.octets()[0] == 10)
    }

    /// Drops all connections: they ended with the venue.
    pub fn venue_died(&mut self) {
        self.lines.clear();
        self.session = None;
    }

    /// One turn: attacks may begin, and those under way continue; none once faults have ended.
    pub fn turn(&mut self, doors: &Doors<'_>, faults: &mut Faults, tick: u64) {
        if !faults.on {
            self.lines.drain(..).chain(self.session.take()).for_each(|line| line.end(doors));
            return;
        }
        for kind in FaultKind::ALL.iter().filter(|kind| kind.is_attack()) {
            if faults.strikes(*kind) {
                self.attack(*kind, doors, faults, tick);
            }
        }
        for mut line in std::mem::take(&mut self.lines) {
            if line.turn(doors, tick) {
                self.lines.push(line);
            } else {
                line.end(doors);
            }
        }
        if let Some(mut line) = self.session.take() {
            match line.turn(doors, tick) {
                true => self.session = Some(line),
                false => line.end(doors),
            }
        }
    }

    fn attack(&mut self, kind: FaultKind, doors: &Doors<'_>, faults: &mut Faults, tick: u64) {
        let count = 1 + faults.below(kind, 20);
        let until_tick = tick + faults.below(kind, 400);
        match kind {
            FaultKind::SilentConnections => {
                for _ in 0..count {
                    self.connect(doors, kind, faults, vec![], until_tick);
                }
            }
            FaultKind::ConnectionChurn => {
                for _ in 0..count {
                    self.connect(doors, kind, faults, vec![], tick);
                }
            }
            FaultKind::Garbage => {
                let bytes = random(kind, faults, 500);
                self.connect(doors, kind, faults, bytes, until_tick);
            }
            FaultKind::HugeLengths => {
                let length = [0, 48, 2_000, 65_535][faults.below(kind, 4) as usize];
                let mut bytes = match faults.below(kind, 2) {
                    0 => Vec::new(),
                    _ => login(&self.login.0, &self.login.1, 0),
                };
                bytes.extend(u16::to_be_bytes(length));
                bytes.extend([b'U'; 1_000]);
                self.connect(doors, kind, faults, bytes, until_tick);
            }
            FaultKind::ByteByByte => {
                let mut bytes = login(&self.login.0, &self.login.1, 0);
                let order = self.order(0, Side::Buy, 1, 1);
                bytes.extend(packet(&message(&Command::Enter(order))));
                self.connect(doors, kind, faults, bytes, until_tick).pace = 1;
            }
            FaultKind::WrongPasswords => {
                for _ in 0..count {
                    let other = faults.below(kind, self.others.len() as u64) as usize;
                    let bytes = login(&self.others[other], "guess", 0);
                    self.connect(doors, kind, faults, bytes, until_tick);
                }
            }
            FaultKind::HalfClosed => {
                let mut bytes = login(&self.login.0, &self.login.1, 0);
                let cut = faults.below(kind, 2 * bytes.len() as u64) as usize;
                bytes.truncate(cut);
                self.connect(doors, kind, faults, bytes, until_tick).finishes = true;
            }
            FaultKind::SecondLogin => {
                self.say(doors, &[]);
                let bytes = login(&self.login.0, &self.login.1, 0);
                self.connect(doors, kind, faults, bytes, until_tick);
            }
            FaultKind::RepliesAgain => {
                if let Some(line) = self.session.take() {
                    line.end(doors);
                }
                self.say(doors, &[]);
            }
            FaultKind::NeverReads => {
                for _ in 0..50 {
                    let order = self.order(0, Side::Buy, 1, 1);
                    self.say(doors, &message(&Command::Enter(order)));
                }
                if let Some(line) = &mut self.session {
                    line.reads = false;
                    doors.order_entry.set_room(line.id, 64);
                }
            }
            FaultKind::ForeignFirm => {
                let order = self.order(0, Side::Sell, 2, 1);
                let firm = Firm::new("FIRM").expect("four letters");
                let attributes = OrderAttributes { firm, ..order.attributes };
                self.say(doors, &message(&Command::Enter(EnterOrder { attributes, ..order })));
            }
            FaultKind::UnreadableMessages => {
                for _ in 0..4 * count {
                    let bytes = random(kind, faults, 40);
                    self.say(doors, &bytes);
                }
            }
            FaultKind::DuplicateFlood => {
                let order = message(&Command::Enter(self.order(0, Side::Buy, 1, 1)));
                (0..FLOOD).for_each(|_| self.say(doors, &order));
            }
            FaultKind::CancelsOfNothing => {
                (0..FLOOD).for_each(|_| self.say(doors, &cancel(NEVER_USED)));
            }
            FaultKind::QueryFlood => {
                let query = client::participant::query_account();
                (0..FLOOD / 4).for_each(|_| self.say(doors, &query));
            }
            FaultKind::MassCancelsOfNothing => {
                for _ in 0..50 {
                    let order = self.order(0, Side::Sell, 9, 1);
                    self.say(doors, &message(&Command::Enter(order)));
                }
                for _ in 0..FLOOD / 6 {
                    let mass = self.mass_cancel("NVDA");
                    self.say(doors, &mass);
                }
                let mass = self.mass_cancel(OWN_BOOK);
                self.say(doors, &mass);
            }
            FaultKind::OrderFlood => {
                for _ in 0..FLOOD {
                    let time_in_force = TimeInForce::ImmediateOrCancel;
                    let order = self.order(0, Side::Buy, 1, 1);
                    let order = EnterOrder { time_in_force, ..order };
                    self.say(doors, &message(&Command::Enter(order)));
                }
            }
            FaultKind::PegBomb => self.peg_bomb(doors),
            FaultKind::MinimumWalk => self.minimum_walk(doors),
            FaultKind::LongDatagrams => {
                for index in 0..count {
                    let from = if index % 2 == 0 { self.udp } else { address(kind, faults) };
                    let datagram = vec![b'O'; 2_049 + faults.below(kind, 4_000) as usize];
                    doors.order_entry_udp.deliver(from, &datagram);
                }
            }
            FaultKind::UnknownDatagrams => {
                for _ in 0..10 * count {
                    let datagram = random(kind, faults, 60);
                    doors.order_entry_udp.deliver(address(kind, faults), &datagram);
                }
            }
            FaultKind::DatagramFlood => {
                let cancel = cancel(NEVER_USED);
                let block = [&(cancel.len() as u16).to_be_bytes()[..], &cancel].concat();
                for _ in 0..FLOOD / 20 {
                    doors.order_entry_udp.deliver(self.udp, &block.repeat(20));
                    let order = message(&Command::Enter(self.order(1, Side::Buy, 1, 1)));
                    doors.order_entry_udp.deliver(self.udp, &order);
                }
            }
            FaultKind::RequestFlood => {
                for index in 0..20 * count {
                    let request = Request {
                        session: self.stream,
                        sequence_number: faults.below(kind, 100),
                        count: u16::MAX - 1,
                    };
                    let request = request.encode();
                    match index % 3 {
                        0 => doors.order_entry_udp.deliver(self.udp, &request),
                        1 => doors.re_request.deliver(address(kind, faults), &request),
                        _ => doors.re_request.deliver(([10, 0, 0, 1], 9).into(), &request),
                    }
                }
            }
            _ => unreachable!("{kind:?} is no attack"),
        }
    }

    /// Enters pegs that follow the best bid, then enters and cancels better bids.
    fn peg_bomb(&mut self, doors: &Doors<'_>) {
        let bid = self.order(0, Side::Buy, 1, 100);
        self.say(doors, &message(&Command::Enter(bid)));
        for _ in 0..60 {
            let order = self.order(0, Side::Buy, 5, 1);
            let instructions = Instructions { pricing: Pricing::PrimaryPeg, ..Instructions::NONE };
            let peg = EnterOrder { display: Display::Hidden, instructions, ..order };
            self.say(doors, &message(&Command::Enter(peg)));
        }
        for turn in 0..20 {
            let better = self.order(0, Side::Buy, 2 + turn % 3, 100);
            self.say(doors, &message(&Command::Enter(better)));
            self.say(doors, &cancel(better.key.user_ref_num));
        }
        let mass = self.mass_cancel(OWN_BOOK);
        self.say(doors, &mass);
    }

    /// Enters orders of one lot each, and orders whose minimum is above the sum of these lots.
    fn minimum_walk(&mut self, doors: &Doors<'_>) {
        for _ in 0..100 {
            let order = self.order(0, Side::Sell, 9, 1);
            self.say(doors, &message(&Command::Enter(order)));
        }
        for _ in 0..20 {
            let order = self.order(0, Side::Buy, 9, 10_000);
            let conditions = Conditions { minimum_quantity: Lots::new(5_000), ..Conditions::NONE };
            let order = EnterOrder { conditions, ..order };
            self.say(doors, &message(&Command::Enter(order)));
            self.say(doors, &cancel(order.key.user_ref_num));
        }
        let mass = self.mass_cancel(OWN_BOOK);
        self.say(doors, &mass);
    }

    fn key(&mut self, protocol: usize) -> OrderKey {
        self.numbers[protocol] += 1;
        OrderKey { user_ref_num: self.numbers[protocol], ..OrderKey::default() }
    }

    /// An order with the next number, at a price in whole currency units.
    fn order(&mut self, protocol: usize, side: Side, price: u64, lots: u64) -> EnterOrder {
        let symbol = Symbol::new(OWN_BOOK).expect("a symbol");
        EnterOrder::limit(self.key(protocol), side, symbol, Quantity(lots), Price(price * 10_000))
    }

    fn mass_cancel(&mut self, book: &str) -> ouch::MessageBuffer {
        let number = self.key(0).user_ref_num;
        let firm = Firm::new("EVIL").expect("four letters");
        client::participant::mass_cancel(number, firm, Symbol::new(book))
    }

    /// Sends a message in the session over TCP, and begins the session if there is none.
    fn say(&mut self, doors: &Doors<'_>, message: &[u8]) {
        let is_open = |line: &Line| doors.order_entry.is_open(line.id);
        if !self.session.as_ref().is_some_and(is_open) {
            if let Some(line) = self.session.take() {
                line.end(doors);
            }
            let bytes = login(&self.login.0, &self.login.1, 1);
            self.session = Some(Line::new(doors, ([10, 0, 0, 9], 9).into(), bytes));
        }
        if let Some(line) = &mut self.session
            && !message.is_empty()
        {
            line.bytes.extend(packet(message));
        }
    }

    /// Opens a connection of a stranger, from one of three addresses.
    fn connect(
        &mut self,
        doors: &Doors<'_>,
        kind: FaultKind,
        faults: &mut Faults,
        bytes: Vec<u8>,
        until_tick: u64,
    ) -> &mut Line {
        let from = ([10, 0, 1, faults.below(kind, 3) as u8], 9).into();
        self.lines.push(Line { until_tick, ..Line::new(doors, from, bytes) });
        self.lines.last_mut().expect("it was pushed")
    }
}

impl Line {
    fn new(doors: &Doors<'_>, from: SocketAddr, bytes: Vec<u8>) -> Self {
        Self {
            id: doors.order_entry.connect(from),
            bytes: bytes.into(),
            pace: usize::MAX,
            reads: true,
            finishes: false,
            until_tick: u64::MAX,
        }
    }

    /// Sends and reads; false once it is over.
    fn turn(&mut self, doors: &Doors<'_>, tick: u64) -> bool {
        let count = self.bytes.len().min(self.pace);
        let bytes: Vec<u8> = self.bytes.drain(..count).collect();
        doors.order_entry.deliver(self.id, &bytes);
        if self.finishes && self.bytes.is_empty() {
            self.finishes = false;
            doors.order_entry.finish(self.id);
        }
        if self.reads {
            drop(doors.order_entry.take(self.id, usize::MAX));
        }
        doors.order_entry.is_open(self.id) && tick < self.until_tick
    }

    fn end(self, doors: &Doors<'_>) {
        doors.order_entry.cut(self.id);
        drop(doors.order_entry.take(self.id, usize::MAX));
    }
}

/// A login packet.
fn login(username: &str, password: &str, next: u64) -> Vec<u8> {
    let mut login = LoginRequest::new(username, password).expect("they fit their fields");
    login.sequence_number = Some(next);
    Client::new(Timers::default(), login, 0).outgoing().to_vec()
}

/// A message in its packet.
fn packet(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16 + 1).to_be_bytes()[..], b"U", message].concat()
}

fn message(command: &Command) -> ouch::MessageBuffer {
    ouch::request(command).expect("OUCH can say it")
}

fn cancel(user_ref_num: u32) -> ouch::MessageBuffer {
    let key = OrderKey { user_ref_num, ..OrderKey::default() };
    message(&Command::Cancel(CancelOrder { key, quantity: Quantity::ZERO }))
}

fn random(kind: FaultKind, faults: &mut Faults, len_max: u64) -> Vec<u8> {
    (0..faults.below(kind, len_max)).map(|_| faults.below(kind, 256) as u8).collect()
}

/// Any address; half of the addresses are in a private network.
fn address(kind: FaultKind, faults: &mut Faults) -> SocketAddr {
    let host = faults.below(kind, 1 << 16) as u32;
    let network = if faults.below(kind, 2) == 0 { 0x0A02_0000 } else { 0x0808_0000 };
    SocketAddr::from((Ipv4Addr::from_bits(network | host), 9))
}
