//! Attacks at the port of Sluice, by datagrams with a token and without.

use std::{net::UdpSocket, time::Duration};

use market::{Command, EnterOrder, OrderKey, Quantity, Side, Text, TimeInForce};
use wire::{
    layout::{IntoBytes as _, Message as _},
    sluice::{self, Client, ClientState, RESEND_REPLIES_MAX, ResendRequestPacket},
};

use super::{Attack, free, random};
use crate::attack::target::{
    ANY,
    Effect::{self, None as Nothing, Some as Effective},
    OWN_BOOK, PATIENT, PAUSE, Target, cents, message, password, symbol,
};

/// The participant that attacks.
const USER: &str = "slu1";
/// Tokens fetched for an attack by many clients of one address.
const TOKENS: u64 = 512;
/// Random messages of a session before it is begun again: the venue ends it after 64.
const UNREADABLE: u64 = 100;
/// A hello without an answer is sent again after this time.
const STEP: Duration = Duration::from_millis(20);

pub(super) const ROWS: &[Attack] = &[
    free(
        "sluice-hellos",
        "hellos, each from a new port",
        "nothing is kept for a hello, and its answer is shorter",
        |it| it.datagrams_of_ports(it.at.order_entry_sluice, &hello(1)),
    ),
    free(
        "sluice-logins",
        "logins of one address with 512 tokens in turn, each with a wrong password",
        "connections of a turn; places of strangers, by address",
        logins,
    ),
    free(
        "sluice-garbage",
        "random datagrams, and random messages of a session",
        "what has no token is dropped; a session ends",
        |it| {
            flood(it, |me, turn| {
                let bytes = random(turn, 1 + (turn % 200) as usize);
                send(it, &me.socket, &bytes);
                me.send(&bytes[..bytes.len().min(60)], Nothing);
                // The venue ends such a session silently: another one begins.
                if turn % UNREADABLE == 0 {
                    me.client = None;
                }
            })
        },
    ),
    free(
        "sluice-orders",
        "immediate-or-cancel orders of a session, without a pause",
        "messages of a session; what waits in memory",
        |it| flood(it, |me, turn| me.send(&order(turn), Effective)),
    ),
    free(
        "sluice-resends",
        "requests for all replies again, which nobody reads",
        "16 requests of 1,024 replies wait; they go out by turns",
        |it| {
            let mut me = Member::new(it);
            (1..=1_000).for_each(|turn| me.send(&order(turn), Effective));
            it.begin();
            while !it.is_over() {
                me.resend();
            }
        },
    ),
];

fn login(user: &str, with: &str) -> sluice::Login {
    sluice::Login {
        username: Text::new(user).expect("it fits"),
        password: Text::new(with).expect("it fits"),
        session: Text::BLANK,
        sequence_number: 0,
    }
}

fn hello(nonce: u64) -> Vec<u8> {
    let mut client = Client::new(PATIENT, login(USER, "x"), nonce, 0);
    client.take_outgoing().expect("it greets at once")
}

/// An order that finds nothing to trade with.
fn order(number: u64) -> Vec<u8> {
    let key = OrderKey { user_ref_num: number as u32, ..OrderKey::default() };
    let limit = EnterOrder::limit(key, Side::Buy, symbol(OWN_BOOK), Quantity(1), cents(0));
    let order = EnterOrder { time_in_force: TimeInForce::ImmediateOrCancel, ..limit };
    message(&Command::Enter(order)).to_vec()
}

fn send(it: &Target, socket: &UdpSocket, datagram: &[u8]) {
    if socket.send_to(datagram, it.at.order_entry_sluice).is_ok() {
        it.count(1, Nothing);
    }
}

/// A socket of an attacker, which waits for an answer for a short time.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(ANY).expect("a port is free");
    socket.set_read_timeout(Some(STEP)).expect("every system can");
    socket
}

/// The attacker's session, which sends a message in each turn.
fn flood<'a>(it: &'a Target, mut turn: impl FnMut(&mut Member<'a>, u64)) {
    let mut me = Member::new(it);
    it.begin();
    let mut turns = 1..;
    while !it.is_over() {
        turn(&mut me, turns.next().expect("there is no end"));
    }
}

/// Fetches tokens for one address, and logs in with all of them again and again.
fn logins(it: &Target) {
    let socket = socket();
    let mut logins = Vec::new();
    for nonce in 1..=TOKENS {
        let mut client = Client::new(PATIENT, login(USER, "wrong"), nonce, 0);
        greet(it, &socket, &mut client);
        logins.extend(client.take_outgoing());
    }
    it.begin();
    while !it.is_over() {
        logins.iter().for_each(|login| send(it, &socket, login));
    }
}

/// Sends the client's datagrams until it has a token or the attack is over.
fn greet(it: &Target, socket: &UdpSocket, client: &mut Client) {
    let mut buffer = [0; 2_048];
    let mut asked = client.take_outgoing();
    while client.state() == ClientState::Greets && !it.is_over() {
        asked.iter().for_each(|datagram| send(it, socket, datagram));
        if let Ok(len) = socket.recv(&mut buffer) {
            let _ = client.receive(&buffer[..len], it.clock.now_ns(), &mut |_, _| {});
        }
        if client.state() != ClientState::Greets {
            return;
        }
        client.tick(it.clock.now_ns()).unwrap_or(());
        asked = client.take_outgoing().or(asked);
    }
}

/// The attacker's session, begun again whenever it ends.
struct Member<'a> {
    it: &'a Target,
    socket: UdpSocket,
    client: Option<Client>,
    nonce: u64,
    token: u64,
    sent: u64,
}

impl<'a> Member<'a> {
    fn new(it: &'a Target) -> Self {
        Self { it, socket: socket(), client: None, nonce: 0, token: 0, sent: 0 }
    }

    /// The client once it is logged in; `None` once the attack is over.
    fn client(&mut self) -> Option<&mut Client> {
        while !self.is_in() {
            if self.it.is_over() {
                return None;
            }
            self.nonce += 1;
            let login = login(USER, &password(USER));
            let mut client = Client::new(PATIENT, login, self.nonce, self.it.clock.now_ns());
            greet(self.it, &self.socket, &mut client);
            let mut buffer = [0; 2_048];
            while client.state() == ClientState::LogsIn && !self.it.is_over() {
                while let Some(datagram) = client.take_outgoing() {
                    self.token = sluice::token(&datagram).map_or(0, |(token, _)| token);
                    send(self.it, &self.socket, &datagram);
                }
                if let Ok(len) = self.socket.recv(&mut buffer) {
                    let _ = client.receive(&buffer[..len], self.it.clock.now_ns(), &mut |_, _| {});
                }
                client.tick(self.it.clock.now_ns()).unwrap_or(());
            }
            self.client = Some(client);
            if !self.is_in() {
                std::thread::sleep(PAUSE);
            }
        }
        self.client.as_mut()
    }

    fn is_in(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.state() == ClientState::LoggedIn)
    }

    fn send(&mut self, message: &[u8], effect: Effect) {
        let now_ns = self.it.clock.now_ns();
        let Some(client) = self.client() else { return };
        client.send(message, now_ns);
        self.flush(effect);
    }

    /// Sends the waiting datagrams, and now and then reads those that arrived.
    fn flush(&mut self, effect: Effect) {
        let Some(client) = &mut self.client else { return };
        while let Some(datagram) = client.take_outgoing() {
            if self.socket.send_to(&datagram, self.it.at.order_entry_sluice).is_ok() {
                self.it.count(1, effect);
            }
        }
        self.sent += 1;
        if self.sent.is_multiple_of(64) {
            let mut buffer = [0; 2_048];
            let now_ns = self.it.clock.now_ns();
            let _ = self.socket.set_nonblocking(true);
            while let Ok(len) = self.socket.recv(&mut buffer) {
                let _ = client.receive(&buffer[..len], now_ns, &mut |_, _| {});
            }
            let _ = self.socket.set_nonblocking(false);
            client.tick(now_ns).unwrap_or(());
        }
    }

    /// Asks for as many replies from the first on as a request may name.
    fn resend(&mut self) {
        if self.client().is_none() {
            return;
        }
        let request = ResendRequestPacket {
            packet_type: ResendRequestPacket::TYPE,
            token: self.token.into(),
            sequence_number: 1.into(),
            reply_count: RESEND_REPLIES_MAX.into(),
        };
        send(self.it, &self.socket, request.as_bytes());
    }
}
