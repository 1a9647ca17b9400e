//! A participant's end of each protocol, for one session of a scenario.
//!
//! Invariant: the trades of a session come from the venue's bytes only.

use std::io;

use market::{Command, RejectOrder, RejectReason, SessionId, Text, Timestamp};
use wire::{
    fix::Version,
    layout::Message as _,
    moldudp64::{Receiver, ReceiverLimits},
    ouch::{self, EnterOrder, MessageBuffer, Outbound, Tag, decode_outbound},
    ouch42::{self, Response42, Token},
    sluice::{self, ClientState},
    soupbintcp::{Client, ClientHappening, LoginRequest, Timers},
};

use super::{
    Protocol,
    fix::FixClient,
    network::{DatagramLink, StreamLink},
};

/// A session's part of a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TradePart {
    pub trade: u64,
    pub session: SessionId,
    pub quantity: u64,
    pub price: u64,
}

/// A message that crossed the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossed {
    pub from_venue: bool,
    pub bytes: Vec<u8>,
}

pub struct ScenarioSession {
    name: String,
    protocol: Protocol,
    stream: StreamLink,
    datagrams: DatagramLink,
    soup: Option<Client>,
    sluice: Option<sluice::Client>,
    receiver: Receiver,
    fix: FixClient,
    is_logged_on: bool,
    /// Replies of OUCH, in order.
    replies: Vec<Vec<u8>>,
    /// Requests of OUCH, in order.
    requests: Vec<Vec<u8>>,
}

impl ScenarioSession {
    pub fn new(
        protocol: Protocol,
        name: &str,
        stream: StreamLink,
        datagrams: DatagramLink,
    ) -> Self {
        let version = protocol.fix_version().unwrap_or(Version::Fix44);
        Self {
            name: name.to_owned(),
            protocol,
            stream,
            datagrams,
            soup: None,
            sluice: None,
            receiver: Receiver::new(1, ReceiverLimits::default()),
            fix: FixClient::new(version, name),
            is_logged_on: false,
            replies: Vec::new(),
            requests: Vec::new(),
        }
    }

    pub fn is_logged_on(&self) -> bool {
        self.is_logged_on
    }

    /// Begins to log on.
    pub fn open(&mut self, now_ns: u64) -> Result<(), String> {
        match self.protocol {
            Protocol::Udp => self.is_logged_on = true,
            Protocol::Sluice => {
                let login = sluice::Login {
                    username: Text::new(&self.name).expect("it is the name of a session"),
                    password: Text::new(&self.name).expect("names of sessions are short"),
                    session: Text::BLANK,
                    sequence_number: self.replies.len() as u64 + 1,
                };
                let nonce = self.requests.len() as u64;
                let client = sluice::Client::new(Timers::default(), login, nonce, now_ns);
                self.sluice = Some(client);
            }
            Protocol::SoupBinTcp | Protocol::Ouch42 => {
                let word = |text: &str| Text::new(text).expect("names of sessions are short");
                let login = LoginRequest {
                    username: Text::new(&self.name).expect("it is the name of a session"),
                    password: word(&self.name),
                    session: Text::BLANK,
                    sequence_number: Some(self.replies.len() as u64 + 1),
                    heartbeat_timeout_ms: None,
                };
                self.soup = Some(Client::new(Timers::default(), login, now_ns));
                self.stream.connect().map_err(network)?;
            }
            Protocol::Fix42 | Protocol::Fix44 | Protocol::Fix50Sp1 => {
                self.fix.log_on(now_ns);
                self.stream.connect().map_err(network)?;
            }
        }
        Ok(())
    }

    /// Sends a command as a request.
    pub fn send(&mut self, command: &Command, now_ns: u64) -> Result<(), String> {
        if matches!(command, Command::CancelOnDisconnect(_)) && self.stream.is_connected() {
            self.is_logged_on = false;
            return self.stream.finish().map_err(network);
        }
        if let (Command::CancelOnDisconnect(_), Some(sluice)) = (command, &mut self.sluice) {
            sluice.log_out(now_ns);
            return Ok(());
        }
        if self.protocol.fix_version().is_some() {
            return self.fix.request(command, now_ns);
        }
        let received = Timestamp(now_ns);
        let message = match (self.protocol, command) {
            (Protocol::Ouch42, _) => ouch42::request(command, received, token)
                .ok_or("OUCH 4.2 has no message for this")?,
            (_, Command::Reject(order)) => spoiled(order)?,
            _ => ouch::request_at(command, received)
                .ok_or("OUCH 5.0 has no message for this")?
                .to_vec(),
        };
        match (&mut self.soup, &mut self.sluice) {
            (Some(soup), _) => soup.send(&message, now_ns),
            (None, Some(sluice)) => sluice.send(&message, now_ns),
            (None, None) => self.datagrams.send(&message).map_err(network)?,
        }
        self.requests.push(message);
        Ok(())
    }

    /// Exchanges bytes; returns the amount of work done.
    pub fn turn(&mut self, now_ns: u64) -> Result<usize, String> {
        match self.protocol {
            Protocol::Udp => return self.turn_over_datagrams(now_ns),
            Protocol::Sluice => return self.turn_by_sluice(now_ns),
            _ => {}
        }
        if !self.stream.is_connected() {
            return Ok(0);
        }
        let bytes = self.stream.read().map_err(network)?;
        let mut outgoing = Vec::new();
        if let Some(soup) = &mut self.soup {
            let wrong = |violation| format!("SoupBinTCP: {violation}");
            soup.receive(&bytes, now_ns).map_err(wrong)?;
            while let Some(happening) = soup.next().map_err(wrong)? {
                match happening {
                    ClientHappening::Accepted { .. } => self.is_logged_on = true,
                    ClientHappening::Sequenced(_, message) => self.replies.push(message.to_vec()),
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
        self.stream.write(&outgoing).map_err(network)?;
        Ok(bytes.len() + outgoing.len())
    }

    fn turn_over_datagrams(&mut self, now_ns: u64) -> Result<usize, String> {
        let mut work = 0;
        let Self { receiver, replies, datagrams, .. } = self;
        while let Some(datagram) = datagrams.receive().map_err(network)? {
            receiver
                .receive(&datagram, now_ns, &mut |_, message| replies.push(message.to_vec()))
                .map_err(|error| format!("MoldUDP64: {error}"))?;
            work += 1;
        }
        // Replies before the first packet are requested again.
        if let Some(request) = receiver.next_request(now_ns) {
            datagrams.send(&request.encode()).map_err(network)?;
            work += 1;
        }
        Ok(work)
    }

    fn turn_by_sluice(&mut self, now_ns: u64) -> Result<usize, String> {
        let Self { sluice, replies, datagrams, .. } = self;
        let Some(sluice) = sluice else { return Ok(0) };
        let mut work = 0;
        while let Some(datagram) = datagrams.receive().map_err(network)? {
            sluice
                .receive(&datagram, now_ns, &mut |_, reply| replies.push(reply.to_vec()))
                .map_err(|fault| format!("Sluice: {fault}"))?;
            work += 1;
        }
        if let Some(text) = sluice.take_text() {
            return Err(format!("the venue says: {}", text.escape_ascii()));
        }
        while let Some(datagram) = sluice.take_outgoing() {
            datagrams.send(&datagram).map_err(network)?;
            work += 1;
        }
        self.is_logged_on = sluice.state() == ClientState::LoggedIn;
        Ok(work)
    }

    /// The OUCH messages of the session: requests, then replies.
    pub fn crossed(&self) -> impl Iterator<Item = Crossed> {
        let crossed =
            |from_venue| move |bytes: &Vec<u8>| Crossed { from_venue, bytes: bytes.clone() };
        self.requests.iter().map(crossed(false)).chain(self.replies.iter().map(crossed(true)))
    }

    /// The session's part of each trade, as the venue reported it.
    pub fn fills(&self, session: SessionId) -> Result<Vec<TradePart>, String> {
        if self.protocol.fix_version().is_some() {
            return self.fix.fills(session);
        }
        let mut fills = Vec::new();
        for message in &self.replies {
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

/// The token of an order in OUCH 4.2.
fn token(number: u32) -> Token {
    Token::new(&format!("ORDER{number}")).expect("a number has ten digits at most")
}

fn network(error: io::Error) -> String {
    format!("the network: {error}")
}

/// An order with a fault that a gateway rejects with this reason.
fn spoiled(order: &RejectOrder) -> Result<Vec<u8>, String> {
    let mut message = EnterOrder {
        message_type: EnterOrder::TYPE,
        user_ref_num: order.key.user_ref_num.into(),
        side: b'B',
        quantity: 1.into(),
        symbol: *b"AAPL    ",
        price: 1.into(),
        time_in_force: b'0',
        display: b'Y',
        capacity: b'A',
        inter_market_sweep_eligibility: b'N',
        cross_type: b'N',
        cl_ord_id: *order.client_order_id.as_bytes(),
    };
    let mut tag: Option<(Tag, &[u8])> = None;
    match order.reason {
        RejectReason::InvalidSide => message.side = b'?',
        RejectReason::InvalidSymbol => message.symbol[0] = 7,
        RejectReason::InvalidDisplay => message.display = b'?',
        RejectReason::InvalidCrossOrder => message.cross_type = b'?',
        RejectReason::SweepNotAllowed => message.inter_market_sweep_eligibility = b'Y',
        RejectReason::NotSupported => message.capacity = b'?',
        RejectReason::InvalidPegType => tag = Some((Tag::PriceType, b"?")),
        RejectReason::PeggingNotAllowed => tag = Some((Tag::PriceType, b"Q")),
        RejectReason::InvalidSelfMatchPrevention => tag = Some((Tag::AiqStrategy, b"?")),
        reason => return Err(format!("no field of an order makes a gateway say {reason:?}")),
    }
    let mut message = MessageBuffer::with_appendage(&message);
    if let Some((tag, value)) = tag {
        message.tag(tag, value);
    }
    message.user_ref_idx(order.key.channel);
    Ok(message.to_vec())
}
