//! A participant's end of each protocol, for one session of a scenario.
//!
//! Invariant: its trades come from the bytes of the venue only.

use std::net::SocketAddr;

use gateway::{
    ConnectionId,
    fake::{FakeDatagram, FakeStream},
};
use market::{Command, SessionId, Text, Timestamp};
use wire::{
    fix::Version,
    moldudp64::{Receiver, ReceiverLimits},
    ouch::{self, Outbound, decode_outbound},
    ouch42::{self, Response42, Token},
    soupbintcp::{Client, ClientHappening, LoginRequest, Timers},
};

use super::{Protocol, fix::FixClient};

/// A session's part of a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TradePart {
    pub trade: u64,
    pub session: SessionId,
    pub quantity: u64,
    pub price: u64,
}

pub struct ScenarioSession {
    name: String,
    address: SocketAddr,
    protocol: Protocol,
    streams: FakeStream,
    datagrams: FakeDatagram,
    /// `None` while there is no connection; of no meaning over UDP.
    connection: Option<ConnectionId>,
    soup: Option<Client>,
    receiver: Receiver,
    fix: FixClient,
    is_logged_on: bool,
    /// OUCH messages, in order.
    heard: Vec<Vec<u8>>,
}

impl ScenarioSession {
    pub fn new(
        protocol: Protocol,
        name: &str,
        address: SocketAddr,
        streams: FakeStream,
        datagrams: FakeDatagram,
    ) -> Self {
        let version = if protocol == Protocol::Fix42 { Version::Fix42 } else { Version::Fix44 };
        Self {
            name: name.to_owned(),
            address,
            protocol,
            streams,
            datagrams,
            connection: None,
            soup: None,
            receiver: Receiver::new(1, ReceiverLimits::default()),
            fix: FixClient::new(version, name),
            is_logged_on: false,
            heard: Vec::new(),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn is_open(&self) -> bool {
        self.is_logged_on
    }

    pub fn is_logged_on(&self) -> bool {
        self.is_logged_on
    }

    /// Begins to log on.
    pub fn open(&mut self, now_ns: u64) {
        match self.protocol {
            Protocol::Udp => self.is_logged_on = true,
            Protocol::SoupBinTcp | Protocol::Ouch42 => {
                let word = |text: &str| Text::new(text).expect("names of sessions are short");
                let login = LoginRequest {
                    username: Text::new(&self.name).expect("it is the name of a session"),
                    password: word(&self.name),
                    session: Text::BLANK,
                    sequence_number: Some(self.heard.len() as u64 + 1),
                    heartbeat_timeout_ms: None,
                };
                self.soup = Some(Client::new(Timers::default(), login, now_ns));
                self.connection = Some(self.streams.connect(self.address));
            }
            Protocol::Fix42 | Protocol::Fix44 => {
                self.fix.log_on(now_ns);
                self.connection = Some(self.streams.connect(self.address));
            }
        }
    }

    /// Asks for something.
    pub fn send(&mut self, command: &Command, now_ns: u64) -> Result<(), String> {
        if let (Command::CancelOnDisconnect(_), Some(connection)) = (command, self.connection) {
            self.streams.finish(connection);
            (self.connection, self.is_logged_on) = (None, false);
            return Ok(());
        }
        if matches!(self.protocol, Protocol::Fix42 | Protocol::Fix44) {
            return self.fix.request(command, now_ns);
        }
        let received = Timestamp(now_ns);
        let message = match self.protocol {
            Protocol::Ouch42 => ouch42::request(command, received, token)
                .ok_or("OUCH 4.2 has no message for this")?,
            _ => ouch::request_at(command, received)
                .ok_or("OUCH 5.0 has no message for this")?
                .to_vec(),
        };
        match &mut self.soup {
            Some(soup) => soup.send(&message, now_ns),
            None => self.datagrams.deliver(self.address, &message),
        }
        Ok(())
    }

    /// Exchanges bytes; returns how much there was to do.
    pub fn turn(&mut self, now_ns: u64) -> Result<usize, String> {
        let Some(connection) = self.connection else {
            // Replies before the first packet are asked for again.
            let Some(request) = self.receiver.next_request(now_ns) else { return Ok(0) };
            self.datagrams.deliver(self.address, &request.encode());
            return Ok(1);
        };
        let bytes = self.streams.take(connection, usize::MAX);
        let mut outgoing = Vec::new();
        if let Some(soup) = &mut self.soup {
            let wrong = |violation| format!("SoupBinTCP: {violation}");
            soup.receive(&bytes, now_ns).map_err(wrong)?;
            while let Some(happening) = soup.next().map_err(wrong)? {
                match happening {
                    ClientHappening::Accepted { .. } => self.is_logged_on = true,
                    ClientHappening::Sequenced(_, message) => self.heard.push(message.to_vec()),
                    ClientHappening::Debug(text) => {
                        return Err(format!("the venue says: {}", text.escape_ascii()));
                    }
                    _ => {}
                }
            }
            outgoing.extend_from_slice(soup.outgoing());
            soup.sent(outgoing.len());
        } else {
            self.fix.receive(&bytes)?;
            self.is_logged_on = self.fix.is_logged_on();
            outgoing = self.fix.take_outgoing();
        }
        self.streams.deliver(connection, &outgoing);
        Ok(bytes.len() + outgoing.len())
    }

    /// A packet of replies over UDP.
    pub fn take_datagram(&mut self, datagram: &[u8], now_ns: u64) -> Result<(), String> {
        let Self { receiver, heard, .. } = self;
        receiver
            .receive(datagram, now_ns, &mut |_, message| heard.push(message.to_vec()))
            .map_err(|error| format!("MoldUDP64: {error}"))
    }

    /// Its part of each trade, as the venue reported it.
    pub fn fills(&self, session: SessionId) -> Result<Vec<TradePart>, String> {
        if matches!(self.protocol, Protocol::Fix42 | Protocol::Fix44) {
            return self.fix.fills(session);
        }
        let mut fills = Vec::new();
        for message in &self.heard {
            if self.protocol == Protocol::Ouch42 {
                let response = Response42::read(message).ok_or("not a message of OUCH 4.2")?;
                if let Response42::ExecutedMessage(executed) = response {
                    fills.push(TradePart {
                        trade: executed.match_number.get(),
                        session,
                        quantity: executed.executed_shares.get().into(),
                        price: executed.execution_price.get().into(),
                    });
                }
                continue;
            }
            let outbound = decode_outbound(message).map_err(|error| format!("OUCH: {error}"))?;
            if let Outbound::OrderExecuted(executed, _) = outbound {
                fills.push(TradePart {
                    trade: executed.match_number.get(),
                    session,
                    quantity: executed.quantity.get().into(),
                    price: executed.price.get(),
                });
            }
        }
        Ok(fills)
    }
}

/// The token of an order of OUCH 4.2.
fn token(number: u32) -> Token {
    Token::new(&format!("ORDER{number}")).expect("a number has ten digits at most")
}
