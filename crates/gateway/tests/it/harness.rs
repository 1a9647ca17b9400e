//! A stand-in for the exchange, and clients for it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use gateway::{
    ConnectionId, Credentials, OperatorEvent, OrderEntry, OrderEntryCount, OrderEntryLimits,
    OrderEntryOptions, OrderEntryPort as _, SoupBinTcpOptions, StreamNetwork, Submission, Throttle,
    fake::FakeStream,
};
use market::{
    Accepted, Booked, Command, EnterOrder, Event, Firm, Instrument, InstrumentId, OrderId,
    OrderKey, Output, OutputLine, Price, Quantity, Sequence, SessionAdded, SessionId, Side, Symbol,
    Text, Timestamp,
};
use ring::{Agent, Builder, Consumer, Cursor, Producer};
use wire::{
    ouch,
    soupbintcp::{Client, ClientHappening, LoginRejectReason, LoginRequest, Timers},
};

pub const SECOND: u64 = 1_000_000_000;
/// The time at which every test begins: some day at 10:00.
pub const START: u64 = 20_000 * 86_400 * SECOND + 36_000 * SECOND;
pub const SESSION: [u8; 10] = *b"0000000042";

/// The exchange behind the gateway: it accepts every order and books it, and answers every note.
pub struct Venue {
    pub submissions: Consumer<Submission>,
    outputs: Producer<OutputLine>,
    pub durable: Arc<Cursor>,
    /// All its outputs, in order.
    pub log: Vec<Output>,
    /// All commands it received, in order.
    pub asked: Vec<Command>,
    sequence: u64,
    sessions: u16,
    /// While true, its new outputs are not yet durable.
    pub holds: bool,
}

/// The gateway's ends of the rings.
pub struct Ends {
    pub submissions: Producer<Submission>,
    pub outputs: Consumer<OutputLine>,
    pub durable: Arc<Cursor>,
}

impl Venue {
    /// Makes a venue with one instrument.
    pub fn new(submissions_max: usize) -> (Self, Ends) {
        let (mut venue, ends) = Self::empty(submissions_max);
        venue.put_out(&[Event::InstrumentAdded(Instrument {
            instrument_id: InstrumentId(1),
            symbol: Symbol::new("AAPL").unwrap(),
            price_increment: Price(100),
            round_lot: Quantity(100),
        })]);
        (venue, ends)
    }

    /// Makes a venue without instruments or sessions.
    pub fn empty(submissions_max: usize) -> (Self, Ends) {
        let mut builder = Builder::new("submissions", submissions_max);
        let taken = builder.gating("venue");
        let (submissions, _) = builder.build();
        let mut builder = Builder::new("outputs", 1 << 14);
        let outputs = builder.gating("gateway");
        let (producer, _) = builder.build();
        let durable = Arc::new(Cursor::new(0));
        let venue = Self {
            submissions: taken,
            outputs: producer,
            durable: Arc::clone(&durable),
            log: Vec::new(),
            asked: Vec::new(),
            sequence: 0,
            sessions: 0,
            holds: false,
        };
        (venue, Ends { submissions, outputs, durable })
    }

    /// Publishes the events of one input.
    pub fn put_out(&mut self, events: &[Event]) {
        self.sequence += 1;
        for event in events {
            let output = Output {
                cause: Sequence(self.sequence),
                timestamp: Timestamp(START),
                event: *event,
            };
            self.log.push(output);
            self.outputs.try_publish(output.into()).expect("tests leave room");
        }
        if !self.holds {
            self.release();
        }
    }

    pub fn release(&mut self) {
        self.holds = false;
        self.durable.set(self.sequence);
    }

    pub fn add_session(&mut self, username: &str) -> SessionId {
        self.sessions += 1;
        let session_id = SessionId(self.sessions);
        self.put_out(&[Event::SessionAdded(SessionAdded {
            session_id,
            username: Text::new(username).unwrap(),
            firm: Firm::new("FIRM").unwrap(),
            system_hours: false,
        })]);
        session_id
    }

    /// Answers the commands received; returns their number.
    pub fn answer(&mut self) -> usize {
        let mut commands = Vec::new();
        self.submissions.drain(usize::MAX, |submission, _| commands.push(submission.command));
        for command in &commands {
            match command {
                Command::Enter(order) => self.accept(order),
                Command::Note(note) => self.put_out(&[Event::Noted(*note)]),
                _ => {}
            }
        }
        self.asked.extend(&commands);
        commands.len()
    }

    pub fn accept(&mut self, order: &EnterOrder) {
        let order_id = OrderId(self.sequence + 1);
        let accepted = Accepted {
            key: order.key,
            order_id,
            instrument_id: InstrumentId(1),
            side: order.side,
            order_type: order.order_type,
            time_in_force: order.time_in_force,
            display: order.display,
            quantity: order.quantity.lots(),
            price: order.price.ticks(),
            attributes: order.attributes,
            conditions: order.conditions,
            instructions: order.instructions,
        };
        let booked = Booked {
            order_id,
            instrument_id: InstrumentId(1),
            side: order.side,
            price: order.price,
            leaves: order.quantity,
            shown: order.quantity,
            attribution: Firm::BLANK,
        };
        self.put_out(&[Event::Accepted(accepted), Event::Booked(booked)]);
    }
}

/// An order that differs from others only by its number.
pub fn order(session_id: SessionId, user_ref_num: u32) -> EnterOrder {
    let key = OrderKey { session_id, channel: 0, user_ref_num };
    let symbol = Symbol::new("AAPL").unwrap();
    EnterOrder::limit(key, Side::Buy, symbol, Quantity(100), Price(1_500_000))
}

/// The OUCH message that enters this order.
pub fn enter(user_ref_num: u32) -> Vec<u8> {
    ouch::request(&Command::Enter(order(SessionId(0), user_ref_num))).unwrap().to_vec()
}

/// The numbers of the entered orders, in order.
pub fn entered(asked: &[Command]) -> Vec<u32> {
    let number = |command: &Command| match command {
        Command::Enter(order) => Some(order.key.user_ref_num),
        _ => None,
    };
    asked.iter().filter_map(number).collect()
}

/// A venue, an order entry agent over a network, and the time.
pub struct Harness<N = FakeStream> {
    pub agent: OrderEntry<N>,
    pub network: FakeStream,
    pub venue: Venue,
    pub now_ns: u64,
    pub operator_events: Arc<Mutex<Vec<OperatorEvent>>>,
}

pub fn users() -> Vec<Credentials> {
    ["USER01", "USER02", "USER03"]
        .iter()
        .map(|name| Credentials::new(name, "PASSWORD01").unwrap())
        .collect()
}

pub fn config() -> OrderEntryOptions<SoupBinTcpOptions> {
    OrderEntryOptions {
        protocol: SoupBinTcpOptions { session: SESSION, timers: Timers::default() },
        users: users(),
        limits: OrderEntryLimits { store_bytes_max: 1 << 20, ..OrderEntryLimits::default() },
        throttle: Throttle::default(),
    }
}

impl Harness {
    /// Makes a harness of three users, whose sessions have been added.
    pub fn new() -> Self {
        Self::with(config(), 1024)
    }

    /// Makes a harness. The sessions of [`users`] have been added; the caller adds those of more users.
    pub fn with(config: OrderEntryOptions<SoupBinTcpOptions>, submissions_max: usize) -> Self {
        let network = FakeStream::new();
        let venue = Venue::new(submissions_max);
        let mut harness = Self::over(network.clone(), network, config, venue);
        for user in users() {
            harness.venue.add_session(user.username().as_str());
        }
        harness.turn();
        harness
    }

    /// Connects from an address of its own and asks to log in.
    pub fn log_in(&mut self, username: &str) -> TestClient {
        self.log_in_from(username, Some(1))
    }

    pub fn log_in_from(&mut self, username: &str, sequence_number: Option<u64>) -> TestClient {
        let mut login = LoginRequest::new(username, "PASSWORD01").unwrap();
        login.sequence_number = sequence_number;
        self.connect("10.0.0.1:5000".parse().unwrap(), login)
    }

    pub fn connect(&mut self, from: SocketAddr, login: LoginRequest) -> TestClient {
        let connection = self.network.connect(from);
        let mut client = TestClient::new(connection, login, self.now_ns);
        self.turn_with(&mut [&mut client]);
        client
    }

    /// Runs one round: clients write, the gateway and the venue work until no work is left, clients read.
    pub fn turn_with(&mut self, clients: &mut [&mut TestClient]) {
        for client in clients.iter_mut() {
            client.write(&self.network);
        }
        self.turn();
        for client in clients.iter_mut() {
            client.read(&self.network, self.now_ns);
        }
    }

    /// Advances the time in steps of 100 ms, while clients keep up their heartbeats.
    pub fn pass(&mut self, duration_ns: u64, clients: &mut [&mut TestClient]) {
        let end_ns = self.now_ns + duration_ns;
        while self.now_ns < end_ns {
            self.now_ns += SECOND / 10;
            for client in clients.iter_mut() {
                let _ = client.client.tick(self.now_ns);
            }
            self.turn_with(clients);
        }
    }
}

impl<N: StreamNetwork + Send + 'static> Harness<N> {
    pub fn over(
        network: N,
        fake: FakeStream,
        config: OrderEntryOptions<SoupBinTcpOptions>,
        (venue, ends): (Venue, Ends),
    ) -> Self {
        let mut agent =
            OrderEntry::new(network, config, ends.submissions, ends.outputs, ends.durable);
        let operator_events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&operator_events);
        agent.set_operator_events(Box::new(move |event| sink.lock().unwrap().push(event)));
        Self { agent, network: fake, venue, now_ns: START, operator_events }
    }

    /// Runs the gateway and the venue until no work is left.
    pub fn turn(&mut self) {
        for _ in 0..100_000 {
            let work = self.agent.do_work(self.now_ns).unwrap() + self.venue.answer();
            if work == 0 {
                return;
            }
        }
        panic!("the gateway never becomes idle");
    }

    /// Runs the gateway until no work is left; the venue does not run.
    pub fn turn_without_venue(&mut self) {
        while self.agent.do_work(self.now_ns).unwrap() > 0 {}
    }

    pub fn count(&self) -> OrderEntryCount {
        self.agent.counters().read()
    }
}

/// A message that a client received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Accepted(u64),
    Rejected(LoginRejectReason),
    Reply(u64, Vec<u8>),
    Debug(String),
    Ended,
}

/// A client over a network in memory.
pub struct TestClient {
    pub connection: ConnectionId,
    pub client: Client,
    pub seen: Vec<Seen>,
}

impl TestClient {
    pub fn new(connection: ConnectionId, login: LoginRequest, now_ns: u64) -> Self {
        let client = Client::new(Timers::default(), login, now_ns);
        Self { connection, client, seen: Vec::new() }
    }

    pub fn write(&mut self, network: &FakeStream) {
        network.deliver(self.connection, self.client.outgoing());
        self.client.sent(self.client.outgoing().len());
    }

    pub fn read(&mut self, network: &FakeStream, now_ns: u64) {
        loop {
            let bytes = network.take(self.connection, 4096);
            if bytes.is_empty() {
                return;
            }
            see(&mut self.client, &bytes, now_ns, &mut self.seen);
        }
    }

    pub fn enter(&mut self, user_ref_num: u32, now_ns: u64) {
        self.client.send(&enter(user_ref_num), now_ns);
    }

    /// The replies it received, each with its number.
    pub fn replies(&self) -> Vec<(u64, Vec<u8>)> {
        replies(&self.seen)
    }
}

pub fn replies(seen: &[Seen]) -> Vec<(u64, Vec<u8>)> {
    let reply = |seen: &Seen| match seen {
        Seen::Reply(number, message) => Some((*number, message.clone())),
        _ => None,
    };
    seen.iter().filter_map(reply).collect()
}

/// Gives bytes to a client and records the messages in them.
pub fn see(client: &mut Client, bytes: &[u8], now_ns: u64, seen: &mut Vec<Seen>) {
    client.receive(bytes, now_ns).unwrap();
    while let Some(happening) = client.next().unwrap() {
        seen.push(match happening {
            ClientHappening::Accepted { next_sequence, .. } => Seen::Accepted(next_sequence),
            ClientHappening::Rejected(reason) => Seen::Rejected(reason),
            ClientHappening::Sequenced(number, message) => Seen::Reply(number, message.to_vec()),
            ClientHappening::Debug(text) => Seen::Debug(String::from_utf8_lossy(text).into()),
            ClientHappening::EndOfSession => Seen::Ended,
            other @ ClientHappening::Unsequenced(_) => panic!("the gateway never says {other:?}"),
        });
    }
}
