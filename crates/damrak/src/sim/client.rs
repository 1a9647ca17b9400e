use std::net::SocketAddr;

use flow::rng::Rng;
use gateway::{
    ConnectionId,
    fake::{FakeDatagram, FakeStream, Transit},
};
use wire::{
    moldudp64::{Receiver, ReceiverLimits},
    soupbintcp::{Client, ClientHappening, LoginRequest, Timers},
};

use super::faults::Faults;

/// How long a client waits before it connects again, in nanoseconds.
const RECONNECT_NS: u64 = 50_000_000;

/// The longest time a byte or a datagram is under way, in nanoseconds.
const DELAY_NS_MAX: u64 = 2_000_000;

/// A participant who speaks SoupBinTCP over a network that delays, splits and cuts.
pub struct TcpClient {
    username: String,
    password: String,
    from: SocketAddr,
    /// Every sequenced message of the session, across all connections.
    pub heard: Vec<Vec<u8>>,
    connection: Option<Connection>,
    connect_due_ns: u64,
    /// Logins that were refused, with the reason: none should be, once the venue knows the session.
    pub refused: u64,
    /// Connections so far.
    pub connections: u64,
}

struct Connection {
    id: ConnectionId,
    session: Client,
    to_venue: Transit<Vec<u8>>,
    to_client: Transit<Vec<u8>>,
    /// Bytes arrive in the order they were sent: none before these moments.
    to_venue_ns: u64,
    to_client_ns: u64,
    logged_in: bool,
}

impl TcpClient {
    /// Not connected, nothing heard.
    pub fn new(username: &str, password: &str, from: SocketAddr) -> Self {
        Self {
            username: username.into(),
            password: password.into(),
            from,
            heard: Vec::new(),
            connection: None,
            connect_due_ns: 0,
            refused: 0,
            connections: 0,
        }
    }

    /// True while logged in.
    pub fn is_logged_in(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.logged_in)
    }

    /// Sends a message, if logged in; says whether it did.
    pub fn send(&mut self, message: &[u8], now_ns: u64) -> bool {
        match &mut self.connection {
            Some(connection) if connection.logged_in => {
                connection.session.send(message, now_ns);
                true
            }
            _ => false,
        }
    }

    /// The connection breaks, at both ends or only seen from here.
    pub fn cut(&mut self, network: &FakeStream, now_ns: u64) {
        if let Some(connection) = self.connection.take() {
            network.cut(connection.id);
            self.connect_due_ns = now_ns + RECONNECT_NS;
        }
    }

    /// The venue is gone, and all connections with it.
    pub fn venue_died(&mut self, now_ns: u64) {
        self.connection = None;
        self.connect_due_ns = now_ns + RECONNECT_NS;
    }

    /// One turn: bytes move both ways, what arrives is heard, and who is not connected connects.
    ///
    /// # Errors
    /// The venue broke the protocol.
    pub fn turn(
        &mut self,
        network: &FakeStream,
        faults: &Faults,
        rng: &mut Rng,
        now_ns: u64,
    ) -> Result<(), String> {
        let Some(connection) = &mut self.connection else {
            if now_ns >= self.connect_due_ns {
                self.connect(network, now_ns);
            }
            return Ok(());
        };
        let broken = |what: String| format!("client {}: {what}", self.username);

        let outgoing = connection.session.outgoing();
        if !outgoing.is_empty() {
            let len = if faults.on {
                1 + rng.below(outgoing.len() as u64) as usize
            } else {
                outgoing.len()
            };
            let bytes = outgoing[..len].to_vec();
            connection.session.sent(len);
            connection.to_venue_ns = connection.to_venue_ns.max(now_ns + rng.below(DELAY_NS_MAX));
            connection.to_venue.send(connection.to_venue_ns, bytes);
        }
        while let Some(bytes) = connection.to_venue.arrived(now_ns) {
            network.deliver(connection.id, &bytes);
        }
        let taken_max = if faults.on { 1 + rng.below(4096) as usize } else { usize::MAX };
        let written = network.take(connection.id, taken_max);
        if !written.is_empty() {
            connection.to_client_ns = connection.to_client_ns.max(now_ns + rng.below(DELAY_NS_MAX));
            connection.to_client.send(connection.to_client_ns, written);
        }
        let mut ended = false;
        while let Some(bytes) = connection.to_client.arrived(now_ns) {
            connection.session.receive(&bytes, now_ns).map_err(|violation| {
                broken(format!("the venue broke the protocol: {violation}"))
            })?;
            while let Some(happening) = connection
                .session
                .next()
                .map_err(|violation| broken(format!("the venue broke the protocol: {violation}")))?
            {
                match happening {
                    ClientHappening::Accepted { next_sequence, .. } => {
                        let expected = self.heard.len() as u64 + 1;
                        if next_sequence != expected {
                            return Err(broken(format!(
                                "asked to go on at {expected}, was told {next_sequence}"
                            )));
                        }
                        connection.logged_in = true;
                    }
                    ClientHappening::Rejected(_) => {
                        self.refused += 1;
                        ended = true;
                    }
                    ClientHappening::Sequenced(number, message) => {
                        if number != self.heard.len() as u64 + 1 {
                            return Err(broken(format!("message {number} came out of turn")));
                        }
                        self.heard.push(message.to_vec());
                    }
                    ClientHappening::EndOfSession => ended = true,
                    ClientHappening::Unsequenced(_) | ClientHappening::Debug(_) => {}
                }
            }
        }
        let silent = connection.session.tick(now_ns).is_err();
        let gone = network.is_finished(connection.id)
            && connection.to_client.next_due_ns().is_none()
            && network.take(connection.id, 0).is_empty();
        if ended || silent || gone {
            let id = connection.id;
            network.cut(id);
            self.connection = None;
            self.connect_due_ns = now_ns + RECONNECT_NS;
        }
        Ok(())
    }

    fn connect(&mut self, network: &FakeStream, now_ns: u64) {
        self.connections += 1;
        let mut login = LoginRequest::new(&self.username, &self.password)
            .expect("the configuration was checked");
        login.sequence_number = Some(self.heard.len() as u64 + 1);
        self.connection = Some(Connection {
            id: network.connect(self.from),
            session: Client::new(Timers::default(), login, now_ns),
            to_venue: Transit::new(),
            to_client: Transit::new(),
            to_venue_ns: now_ns,
            to_client_ns: now_ns,
            logged_in: false,
        });
    }
}

/// A reader of MoldUDP64 over a network that loses, repeats and reorders: the feed's subscriber,
/// and a participant who speaks OUCH over UDP.
pub struct DatagramClient {
    address: SocketAddr,
    receiver: Receiver,
    /// Every message so far.
    pub heard: Vec<Vec<u8>>,
    to_client: Transit<Vec<u8>>,
    to_venue: Transit<Vec<u8>>,
}

impl DatagramClient {
    /// Nothing heard; expects message 1.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            receiver: Receiver::new(1, ReceiverLimits::default()),
            heard: Vec::new(),
            to_client: Transit::new(),
            to_venue: Transit::new(),
        }
    }

    /// Where it receives.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a datagram to the venue.
    pub fn send(&mut self, datagram: Vec<u8>, faults: &Faults, rng: &mut Rng, now_ns: u64) {
        transmit(&mut self.to_venue, datagram, faults, rng, now_ns);
    }

    /// A datagram of the venue is on its way.
    pub fn incoming(&mut self, datagram: Vec<u8>, faults: &Faults, rng: &mut Rng, now_ns: u64) {
        transmit(&mut self.to_client, datagram, faults, rng, now_ns);
    }

    /// One turn: datagrams arrive both ways, and what is missing is asked for at `requests`.
    ///
    /// # Errors
    /// The venue broke the protocol.
    pub fn turn(
        &mut self,
        requests: &FakeDatagram,
        faults: &Faults,
        rng: &mut Rng,
        now_ns: u64,
    ) -> Result<(), String> {
        while let Some(datagram) = self.to_venue.arrived(now_ns) {
            requests.deliver(self.address, &datagram);
        }
        while let Some(datagram) = self.to_client.arrived(now_ns) {
            let heard = &mut self.heard;
            self.receiver
                .receive(&datagram, now_ns, &mut |_, message| heard.push(message.to_vec()))
                .map_err(|error| format!("reader {}: {error}", self.address))?;
        }
        if let Some(request) = self.receiver.next_request(now_ns) {
            let bytes = request.encode();
            transmit(&mut self.to_venue, bytes.to_vec(), faults, rng, now_ns);
        }
        Ok(())
    }
}

fn transmit(
    transit: &mut Transit<Vec<u8>>,
    datagram: Vec<u8>,
    faults: &Faults,
    rng: &mut Rng,
    now_ns: u64,
) {
    if faults.on && rng.below(1000) < faults.loss_per_mille {
        return;
    }
    if faults.on && rng.below(1000) < faults.duplication_per_mille {
        transit.send(now_ns + rng.below(DELAY_NS_MAX), datagram.clone());
    }
    // Each takes its own time, so datagrams overtake each other.
    transit.send(now_ns + rng.below(DELAY_NS_MAX), datagram);
}
