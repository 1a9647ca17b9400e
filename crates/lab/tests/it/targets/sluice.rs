//! The port of Sluice: sessions over UDP, with participants and strangers. Bytes set the sender, the message and the
//! time of each step.
//!
//! Invariant: a venue never fails, whatever comes; its connections and buffers stay within their bounds, and a client
//! that has not shown that it receives at its address is sent no more bytes than it sent.

use std::{collections::BTreeMap, net::SocketAddr};

use gateway::fake::FakeDatagram;
use market::Text;
use venue::config::{OrderEntrySluiceConfig, ProtocolName};
use wire::sluice::{Client, ClientState, Login, Timers};

use super::{
    gateways::{Small, address},
    script::Script,
};

/// A participant, or a stranger that pretends to be one.
struct Party {
    address: SocketAddr,
    client: Client,
}

impl Party {
    fn new(small: &Small, script: &mut Script<'_>) -> Self {
        let participant = &small.config.participants[script.below(small.config.participants.len())];
        let password = match (script.byte() % 8, &participant.password) {
            (1.., Some(password)) => password,
            _ => "guess",
        };
        let login = Login {
            username: Text::new(&participant.username).expect("it fits"),
            password: Text::new(password).expect("it fits"),
            session: Text::BLANK,
            sequence_number: u64::from(script.byte()),
        };
        let nonce = u64::from(script.byte());
        let client = Client::new(Timers::default(), login, nonce, small.now_ns());
        Self { address: address(script), client }
    }

    /// Sends the client's datagrams, each whole, cut or twice.
    fn send(&mut self, datagrams: &FakeDatagram, script: &mut Script<'_>) {
        while let Some(mut datagram) = self.client.take_outgoing() {
            let times = match script.byte() {
                250 => 0,
                251 => 2,
                252 => {
                    datagram.truncate(script.below(datagram.len() + 1));
                    1
                }
                253 => {
                    let at = script.below(datagram.len());
                    datagram[at] = script.byte();
                    1
                }
                _ => 1,
            };
            for _ in 0..times {
                datagrams.deliver(self.address, &datagram);
            }
        }
    }
}

/// Whatever datagrams arrive at the port, the venue works on within its bounds.
pub fn sluice(bytes: &[u8]) {
    let mut small = Small::new(|config| {
        let mut sluice = OrderEntrySluiceConfig { connections_max: 12, ..Default::default() };
        sluice.reply_store = venue::config::Bytes(1 << 20);
        config.order_entry_sluice = Some(sluice);
        for participant in config.participants.iter_mut().filter(|it| it.password.is_some()) {
            participant.protocol = ProtocolName::Sluice;
        }
    });
    let datagrams = small.order_entry_sluice.clone();
    let mut parties: Vec<Party> = Vec::new();
    let mut strangers: BTreeMap<SocketAddr, usize> = BTreeMap::new();
    let mut script = Script(bytes);
    while !script.is_over() {
        let kind = script.byte() % 8;
        let party = match parties.len() {
            0 => None,
            len => Some(script.below(len.min(256))),
        };
        match (kind, party) {
            (0, Some(party)) => parties[party].send(&datagrams, &mut script),
            (1, Some(party)) => {
                let party = &mut parties[party];
                if party.client.state() == ClientState::LoggedIn {
                    party.client.send(script.bytes(), small.now_ns());
                }
                party.send(&datagrams, &mut script);
            }
            (2, Some(party)) => {
                // Its token, and anything else.
                let _ = parties[party].client.tick(small.now_ns() + 1_000_000_000);
                parties[party].send(&datagrams, &mut script);
            }
            (3, Some(party)) => parties[party].client.log_out(small.now_ns()),
            (4, _) => {
                let from = SocketAddr::from(([9, 9, 9, script.byte() % 4], 9));
                let hello = Party::new(&small, &mut script).client.take_outgoing();
                let datagram = match script.byte() % 2 {
                    0 => script.bytes(),
                    _ => hello.as_deref().expect("a client begins with it"),
                };
                *strangers.entry(from).or_default() += datagram.len();
                datagrams.deliver(from, datagram);
            }
            (5, _) => small.turn(script.time_ns()),
            _ if parties.len() < 64 => parties.push(Party::new(&small, &mut script)),
            _ => {}
        }
        // Long enough for a look at the socket.
        small.turn(5_000);
        while let Some((to, datagram)) = datagrams.take() {
            assert!(datagram.len() <= 1_400, "{}", datagram.len());
            if let Some(asked) = strangers.get_mut(&to) {
                *asked = asked.checked_sub(datagram.len()).expect("an answer is shorter");
            }
            for party in parties.iter_mut().filter(|it| it.address == to) {
                // Several parties may be at one address; each takes only its own datagrams.
                let _ = party.client.receive(&datagram, small.now_ns(), &mut |_, _| {});
            }
        }
        small.check_bounds();
    }
    small.turn(1_000_000_000);
    small.check_bounds();
}
