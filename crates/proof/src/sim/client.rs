//! A simulated client over TCP or UDP that remembers every message it received.

use std::net::SocketAddr;

use crate::rng::Rng;
use gateway::{
    ConnectionId,
    fake::{FakeDatagram, FakeStream, Transit},
};
use wire::{
    moldudp64::{Receiver, ReceiverLimits},
    soupbintcp::{Client, ClientHappening, LoginRequest, Timers},
};

use super::faults::{FaultKind, Faults};

/// How long a client waits before it connects again, in nanoseconds.
const RECONNECT_NS: u64 = 50_000_000;

/// The longest usual delay of a byte or a datagram, in nanoseconds.
const DELAY_NS_MAX: u64 = 2_000_000;

/// The longest additional delay of late bytes and datagrams, in nanoseconds.
const LATE_NS_MAX: u64 = 400_000_000;

/// The times until which nothing passes in each direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Partition {
    to_venue_until_ns: u64,
    to_client_until_ns: u64,
}

impl Partition {
    /// A partition may begin now, for up to 0.3 s; one in eight lasts up to 20 s, longer than any timeout.
    pub(super) fn may_begin(&mut self, faults: &mut Faults, now_ns: u64) {
        if faults.strikes(FaultKind::Partition) {
            let until_ns = now_ns + Self::length(faults, FaultKind::Partition);
            (self.to_venue_until_ns, self.to_client_until_ns) = (until_ns, until_ns);
        }
        if faults.strikes(FaultKind::HalfPartition) {
            let until_ns = now_ns + Self::length(faults, FaultKind::HalfPartition);
            match faults.below(FaultKind::HalfPartition, 2) {
                0 => self.to_venue_until_ns = until_ns,
                _ => self.to_client_until_ns = until_ns,
            }
        }
    }

    fn length(faults: &mut Faults, kind: FaultKind) -> u64 {
        let is_long = faults.below(kind, 8) == 0;
        faults.below(kind, if is_long { 20_000_000_000 } else { 300_000_000 })
    }

    pub(super) fn reaches_venue(&self, faults: &Faults, now_ns: u64) -> bool {
        !faults.on || self.to_venue_until_ns <= now_ns
    }

    pub(super) fn reaches_client(&self, faults: &Faults, now_ns: u64) -> bool {
        !faults.on || self.to_client_until_ns <= now_ns
    }
}

/// The delay of bytes or of a datagram, in nanoseconds.
fn delay_ns(faults: &mut Faults, rng: &mut Rng) -> u64 {
    let late = faults.strikes(FaultKind::Delay);
    rng.below(DELAY_NS_MAX) + if late { faults.below(FaultKind::Delay, LATE_NS_MAX) } else { 0 }
}

/// A participant that speaks SoupBinTCP over a network that delays, splits and cuts.
pub struct SimulatedTcpClient {
    pub username: String,
    password: String,
    from: SocketAddr,
    /// Every sequenced message of the session, across all connections.
    pub received: Vec<Vec<u8>>,
    connection: Option<Connection>,
    connect_due_ns: u64,
    pub connections: u64,
    partition: Partition,
    /// Until this time the client takes at most `slow_bytes` bytes a turn.
    slow_until_ns: u64,
    slow_bytes: usize,
}

struct Connection {
    id: ConnectionId,
    session: Client,
    to_venue: Direction,
    to_client: Direction,
    logged_in: bool,
    /// The number of further bytes after which the client ends its sending.
    finishes_after: Option<usize>,
}

/// Bytes on their way; they arrive in the order in which they were sent.
struct Direction {
    transit: Transit<Vec<u8>>,
    /// No byte sent later arrives before this time.
    last_ns: u64,
}

impl Direction {
    fn new(now_ns: u64) -> Self {
        Self { transit: Transit::new(), last_ns: now_ns }
    }

    fn send(&mut self, bytes: Vec<u8>, faults: &mut Faults, rng: &mut Rng, now_ns: u64) {
        self.last_ns = self.last_ns.max(now_ns + delay_ns(faults, rng));
        self.transit.send(self.last_ns, bytes);
    }

    fn is_empty(&self) -> bool {
        self.transit.next_due_ns().is_none()
    }
}

impl Connection {
    /// Sends some of the session's outgoing bytes, and delivers those that have arrived at the venue.
    fn send_requests(
        &mut self,
        network: &FakeStream,
        reaches_venue: bool,
        faults: &mut Faults,
        rng: &mut Rng,
        now_ns: u64,
    ) {
        let outgoing = self.session.outgoing();
        if !outgoing.is_empty() && self.finishes_after != Some(0) {
            let mut len = match faults.on {
                true => 1 + rng.below(outgoing.len() as u64) as usize,
                false => outgoing.len(),
            };
            if let Some(left) = &mut self.finishes_after {
                len = len.min(*left);
                *left -= len;
            }
            let bytes = outgoing[..len].to_vec();
            self.session.sent(len);
            self.to_venue.send(bytes, faults, rng, now_ns);
        }
        while reaches_venue && let Some(bytes) = self.to_venue.transit.arrived(now_ns) {
            network.deliver(self.id, &bytes);
        }
        if self.finishes_after == Some(0) && self.to_venue.is_empty() {
            self.finishes_after = None;
            network.finish(self.id);
        }
    }
}

impl SimulatedTcpClient {
    /// A client that is not connected and has received nothing.
    pub fn new(username: &str, password: &str, from: SocketAddr) -> Self {
        Self {
            username: username.into(),
            password: password.into(),
            from,
            received: Vec::new(),
            connection: None,
            connect_due_ns: 0,
            connections: 0,
            partition: Partition::default(),
            slow_until_ns: 0,
            slow_bytes: 0,
        }
    }

    pub fn is_logged_in(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.logged_in)
    }

    /// Sends a message; false if not logged in.
    pub fn send(&mut self, message: &[u8], now_ns: u64) -> bool {
        match &mut self.connection {
            Some(connection) if connection.logged_in => {
                connection.session.send(message, now_ns);
                true
            }
            _ => false,
        }
    }

    /// Applies the faults of this client, or of its connection, that strike now.
    fn suffer(&mut self, network: &FakeStream, faults: &mut Faults, now_ns: u64) {
        self.partition.may_begin(faults, now_ns);
        if faults.strikes(FaultKind::SlowClient) {
            self.slow_until_ns = now_ns + faults.below(FaultKind::SlowClient, 200_000_000);
            self.slow_bytes = 1 + faults.below(FaultKind::SlowClient, 20) as usize;
        }
        if faults.strikes(FaultKind::StuckClient) {
            let is_long = faults.below(FaultKind::StuckClient, 4) == 0;
            let most = if is_long { 20_000_000_000 } else { 200_000_000 };
            self.slow_until_ns = now_ns + faults.below(FaultKind::StuckClient, most);
            self.slow_bytes = 0;
        }
        let Some(connection) = &mut self.connection else { return };
        if self.slow_until_ns > now_ns {
            network.set_room(connection.id, 1 + self.slow_bytes * 16);
        } else {
            network.set_room(connection.id, 64 * 1024);
        }
        if faults.strikes(FaultKind::CutInReply) {
            network.cut_after(connection.id, faults.below(FaultKind::CutInReply, 300) as usize);
        }
        if faults.strikes(FaultKind::CutInRequest) {
            let bytes = faults.below(FaultKind::CutInRequest, 200) as usize;
            connection.finishes_after = Some(bytes);
        }
        if faults.strikes(FaultKind::Cut) {
            network.cut(connection.id);
            self.connection = None;
            self.connect_due_ns = now_ns + RECONNECT_NS;
        }
    }

    /// Drops the connection: it ended with the venue.
    pub fn venue_died(&mut self, now_ns: u64) {
        self.connection = None;
        self.connect_due_ns = now_ns + RECONNECT_NS;
    }

    /// One turn: sends and receives bytes, reads those that arrived, and connects if there is no connection.
    ///
    /// # Errors
    /// The venue broke the protocol.
    pub fn turn(
        &mut self,
        network: &FakeStream,
        faults: &mut Faults,
        rng: &mut Rng,
        now_ns: u64,
    ) -> Result<(), String> {
        self.suffer(network, faults, now_ns);
        let reaches_venue = self.partition.reaches_venue(faults, now_ns);
        let reaches_client = self.partition.reaches_client(faults, now_ns);
        let Some(connection) = &mut self.connection else {
            if now_ns >= self.connect_due_ns && reaches_venue {
                self.connect(network, now_ns);
            }
            return Ok(());
        };
        connection.send_requests(network, reaches_venue, faults, rng, now_ns);
        let taken_max = if !faults.on {
            usize::MAX
        } else if self.slow_until_ns > now_ns {
            self.slow_bytes
        } else {
            1 + rng.below(4096) as usize
        };
        if reaches_client {
            let written = network.take(connection.id, taken_max);
            if !written.is_empty() {
                connection.to_client.send(written, faults, rng, now_ns);
            }
        }
        let mut ended = false;
        while reaches_client
            && let Some(connection) = &mut self.connection
            && let Some(bytes) = connection.to_client.transit.arrived(now_ns)
        {
            let read = self.read(&bytes, now_ns);
            ended |= read.map_err(|what| format!("client {}: {what}", self.username))?;
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let silent = connection.session.tick(now_ns).is_err();
        let gone = reaches_client
            && network.is_finished(connection.id)
            && connection.to_client.is_empty()
            && network.waiting(connection.id) == 0;
        if ended || silent || gone {
            network.cut(connection.id);
            self.connection = None;
            self.connect_due_ns = now_ns + RECONNECT_NS;
        }
        Ok(())
    }

    /// Reads bytes from the venue; true if they end the session.
    fn read(&mut self, bytes: &[u8], now_ns: u64) -> Result<bool, String> {
        let connection = self.connection.as_mut().expect("bytes arrive on a connection");
        let broke = |violation| format!("the venue broke the protocol: {violation}");
        let mut ended = false;
        connection.session.receive(bytes, now_ns).map_err(broke)?;
        while let Some(happening) = connection.session.next().map_err(broke)? {
            match happening {
                ClientHappening::Accepted { next_sequence, .. } => {
                    let expected = self.received.len() as u64 + 1;
                    if next_sequence != expected {
                        return Err(format!(
                            "asked to resume at {expected}, but the venue resumes at {next_sequence}"
                        ));
                    }
                    connection.logged_in = true;
                }
                ClientHappening::Sequenced(number, message) => {
                    if number != self.received.len() as u64 + 1 {
                        return Err(format!("message {number} came out of turn"));
                    }
                    self.received.push(message.to_vec());
                }
                ClientHappening::Rejected(_) | ClientHappening::EndOfSession => ended = true,
                ClientHappening::Unsequenced(_) | ClientHappening::Debug(_) => {}
            }
        }
        Ok(ended)
    }

    fn connect(&mut self, network: &FakeStream, now_ns: u64) {
        self.connections += 1;
        let mut login = LoginRequest::new(&self.username, &self.password)
            .expect("the configuration was checked");
        login.sequence_number = Some(self.received.len() as u64 + 1);
        self.connection = Some(Connection {
            id: network.connect(self.from),
            session: Client::new(Timers::default(), login, now_ns),
            to_venue: Direction::new(now_ns),
            to_client: Direction::new(now_ns),
            logged_in: false,
            finishes_after: None,
        });
    }
}

/// A reader of MoldUDP64 over a network that loses, repeats and reorders: the feed's subscriber,
/// or a participant that speaks OUCH over UDP.
pub struct DatagramClient {
    /// The participant's name; blank for the feed's subscriber.
    pub username: String,
    address: SocketAddr,
    receiver: Receiver,
    pub received: Vec<Vec<u8>>,
    to_client: Transit<Vec<u8>>,
    to_venue: Transit<Vec<u8>>,
    partition: Partition,
}

impl DatagramClient {
    /// A client that has received nothing and expects message 1.
    pub fn new(username: &str, address: SocketAddr) -> Self {
        Self {
            username: username.into(),
            address,
            receiver: Receiver::new(1, ReceiverLimits::default()),
            received: Vec::new(),
            to_client: Transit::new(),
            to_venue: Transit::new(),
            partition: Partition::default(),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a datagram to the venue.
    pub fn send(&mut self, datagram: Vec<u8>, faults: &mut Faults, rng: &mut Rng, now_ns: u64) {
        if self.partition.reaches_venue(faults, now_ns) {
            transmit(&mut self.to_venue, datagram, faults, rng, now_ns);
        }
    }

    /// Puts a datagram from the venue on its way.
    pub fn incoming(&mut self, datagram: Vec<u8>, faults: &mut Faults, rng: &mut Rng, now_ns: u64) {
        if self.partition.reaches_client(faults, now_ns) {
            transmit(&mut self.to_client, datagram, faults, rng, now_ns);
        }
    }

    /// One turn: datagrams arrive both ways, and the client requests missing messages at `requests`.
    ///
    /// # Errors
    /// The venue broke the protocol.
    pub fn turn(
        &mut self,
        requests: &FakeDatagram,
        faults: &mut Faults,
        rng: &mut Rng,
        now_ns: u64,
    ) -> Result<(), String> {
        self.partition.may_begin(faults, now_ns);
        while let Some(datagram) = self.to_venue.arrived(now_ns) {
            requests.deliver(self.address, &datagram);
        }
        while let Some(datagram) = self.to_client.arrived(now_ns) {
            let received = &mut self.received;
            self.receiver
                .receive(&datagram, now_ns, &mut |_, message| received.push(message.to_vec()))
                .map_err(|error| format!("reader {}: {error}", self.address))?;
        }
        if let Some(request) = self.receiver.next_request(now_ns) {
            let bytes = request.encode();
            self.send(bytes.to_vec(), faults, rng, now_ns);
        }
        Ok(())
    }
}

/// Sends a datagram that may be lost, repeated or late.
pub(super) fn transmit(
    transit: &mut Transit<Vec<u8>>,
    datagram: Vec<u8>,
    faults: &mut Faults,
    rng: &mut Rng,
    now_ns: u64,
) {
    if faults.strikes(FaultKind::Loss) {
        return;
    }
    if faults.strikes(FaultKind::Duplication) {
        transit.send(now_ns + delay_ns(faults, rng), datagram.clone());
    }
    // Each datagram has its own delay, so datagrams overtake each other.
    transit.send(now_ns + delay_ns(faults, rng), datagram);
}
