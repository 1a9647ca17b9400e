//! An OUCH 5.0 client built from third-party crates, against a running venue.
//!
//! The packets are those of crate `soupbintcp_model`, the messages those of crate `slouch`; the sockets
//! and the checks are ours. The client enters orders, trades with itself, replaces, cancels, cancels many
//! at a time, forbids and allows entry, logs out, and logs in again from earlier numbers for the same
//! bytes. `slouch` must be able to read every reply.
//!
//! Start at [`trade`]; below it is [`Client`], one connection.

use std::{
    env, fmt,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    process::ExitCode,
    thread,
    time::Duration,
};

use byteserde::prelude::*;
use slouch::{
    account_query, cancel, disable_entry, enable_entry, enter, mass_cancel,
    msg::{OuchRequest, OuchResponse},
    replace,
    types::*,
};
use soupbintcp_model::prelude::{CltSoupBinTcpMsg, SvcSoupBinTcpMsg, VecPayload};

/// The longest wait for an answer, or for the end of a connection.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// A stream from which nothing came for this long is at rest.
const QUIET: Duration = Duration::from_millis(300);

type Result<T> = std::result::Result<T, Failed>;
type ClientPacket = CltSoupBinTcpMsg<VecPayload>;
type ServerPacket = SvcSoupBinTcpMsg<VecPayload>;

/// The check that did not hold.
struct Failed(String);

impl<E: fmt::Display> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

macro_rules! require {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err(Failed(format!($($what)*)));
        }
    };
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [address, username, password, firm, symbol] = arguments.as_slice() else {
        eprintln!("usage: damrak-interop-slouch HOST:PORT USERNAME PASSWORD FIRM SYMBOL");
        return ExitCode::from(2);
    };
    let account = Account { address, username, password };
    match check(account, firm, symbol) {
        Ok(messages) => {
            println!(r#"{{"check": "slouch", "ok": true, "messages": {messages}}}"#);
            ExitCode::SUCCESS
        }
        Err(Failed(why)) => {
            println!(r#"{{"check": "slouch", "ok": false, "why": {why:?}}}"#);
            ExitCode::FAILURE
        }
    }
}

/// Trades, then reads the stream again from its start and from its middle.
fn check(account: Account, firm: &str, symbol: &str) -> Result<usize> {
    let mut client = Client::login(account, 1)?;
    require!(client.first_number == 1, "asked for 1, the venue starts at {}", client.first_number);
    client.at_rest()?;
    trade(&mut client, firm, symbol)?;
    client.at_rest()?;
    let stream = client.logout()?;

    for number in [1, stream.len() / 2 + 1, stream.len() + 1] {
        let mut again = Client::login(account, number)?;
        require!(
            again.first_number == number,
            "asked for {number}, the venue starts at {}",
            again.first_number
        );
        again.at_rest()?;
        let messages = again.logout()?;
        require!(
            messages == stream[number - 1..],
            "read from {number}, {} messages are not the {} that came before",
            messages.len(),
            stream.len() + 1 - number
        );
    }
    Ok(stream.len())
}

/// Sends every request of OUCH except modify, which is about kinds of sell, and checks its answers.
fn trade(client: &mut Client, firm: &str, symbol: &str) -> Result<()> {
    let firm = Mpid::from(firm)?;
    let symbol = StockSymbol::from(symbol)?;
    let price = Price::new(1_501_200)?;
    let mut number = client.next_user_ref_num()?;
    let mut take_number = || {
        let taken = number;
        number.increment();
        taken
    };
    let order = |number: UserRefNum, side: Side, quantity: u32| -> Result<OuchRequest> {
        Ok(enter! {
            user_ref_num: number,
            side: side,
            quantity: quantity,
            symbol: symbol,
            price: price,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            capacity: Capacity::Principal,
            intermarket_sweep: false,
            cross_type: CrossType::ContinuousMarket,
            order_token: OrderToken::from(format!("SLOUCH{}", number.val()))?,
        })
    };
    use OuchResponse as R;

    // The client sells, and buys a part of that from itself.
    let maker = take_number();
    let entered = client.accepted(order(maker, Side::Sell, 500)?, maker)?;
    require!(entered.quantity() == 500 && entered.price() == price, "accepted {entered:?}");
    let taker = take_number();
    client.accepted(order(taker, Side::Buy, 200)?, taker)?;
    let mut fills = Vec::new();
    for _ in 0..2 {
        match client.reply()? {
            R::OrderExecuted(fill) => fills.push(fill),
            other => return Err(unexpected("a fill", &other)),
        }
    }
    fills.sort_by_key(|fill| fill.user_ref_num().val());
    let [added, removed] = &fills[..] else { unreachable!("two were taken") };
    require!(
        added.user_ref_num() == maker && removed.user_ref_num() == taker,
        "fills of the wrong orders: {fills:?}"
    );
    require!(
        added.liquidity() == Liquidity::Added && removed.liquidity() == Liquidity::Removed,
        "maker and taker: {fills:?}"
    );
    require!(
        fills.iter().all(|fill| fill.quantity() == 200 && fill.price() == price)
            && added.match_number() == removed.match_number(),
        "one trade of 200: {fills:?}"
    );

    // 600 for the chain, of which 200 are executed.
    let replacement = take_number();
    client.send(replace! {
        old_ref_num: maker,
        new_ref_num: replacement,
        quantity: 600,
        price: Price::new(1_501_300)?,
        time_in_force: TimeInForce::Day,
        display: Display::Visible,
        intermarket_sweep: false,
        order_token: OrderToken::from("SLOUCHREPLACED")?,
    })?;
    match client.reply()? {
        R::OrderReplaced(replaced) => require!(
            replaced.old_ref_num() == maker
                && replaced.new_ref_num() == replacement
                && replaced.quantity() == 400
                && replaced.price().val() == 1_501_300
                && replaced.order_state() == OrderState::Live
                && replaced.order_ref_num() != entered.order_ref_num(),
            "replaced {replaced:?}"
        ),
        other => return Err(unexpected("a replacement", &other)),
    }
    client.canceled(cancel! { user_ref_num: replacement, quantity: 0 }, replacement, 400)?;

    // A cancel names the intended size, its answer the lots taken off.
    let reduced = take_number();
    client.accepted(order(reduced, Side::Sell, 300)?, reduced)?;
    client.canceled(cancel! { user_ref_num: reduced, quantity: 100 }, reduced, 200)?;

    // Two orders of one instrument, canceled by one request.
    let other = take_number();
    client.accepted(order(other, Side::Sell, 700)?, other)?;
    let request = take_number();
    client.send(mass_cancel! { user_ref_num: request, firm: firm, symbol: symbol })?;
    let mut canceled = Vec::new();
    let mut echoed = false;
    while canceled.len() < 2 || !echoed {
        match client.reply()? {
            R::MassCancelResponse(echo) => {
                require!(
                    !echoed && echo.user_ref_num() == request && echo.symbol() == symbol,
                    "mass cancel echo {echo:?}"
                );
                echoed = true;
            }
            R::OrderCanceled(gone) => canceled.push((gone.user_ref_num().val(), gone.quantity())),
            other => return Err(unexpected("what a mass cancel gives", &other)),
        }
    }
    canceled.sort_unstable();
    require!(
        canceled == [(reduced.val(), 100), (other.val(), 700)],
        "the mass cancel gave {canceled:?}"
    );

    // A firm that may not enter, and may again.
    let request = take_number();
    client.send(disable_entry! { user_ref_num: request, firm: firm })?;
    match client.reply()? {
        R::DisableOrderEntryResponse(echo) if echo.user_ref_num() == request => {}
        other => return Err(unexpected("entry disabled", &other)),
    }
    let refused = take_number();
    client.send(order(refused, Side::Buy, 100)?)?;
    match client.reply()? {
        R::OrderRejected(rejected) if rejected.user_ref_num() == refused => {}
        other => return Err(unexpected("a rejection", &other)),
    }
    let request = take_number();
    client.send(enable_entry! { user_ref_num: request, firm: firm })?;
    match client.reply()? {
        R::EnableOrderEntryResponse(echo) if echo.user_ref_num() == request => {}
        other => return Err(unexpected("entry enabled", &other)),
    }
    let allowed = take_number();
    client.accepted(order(allowed, Side::Buy, 100)?, allowed)?;
    client.canceled(cancel! { user_ref_num: allowed, quantity: 0 }, allowed, 100)?;

    let next = client.next_user_ref_num()?;
    require!(next == take_number(), "the next number is {}, not ours", next.val());
    Ok(())
}

/// The account of a session, and the venue's address.
#[derive(Clone, Copy)]
struct Account<'a> {
    address: &'a str,
    username: &'a str,
    password: &'a str,
}

/// One connection, and the messages received over it.
struct Client {
    socket: TcpStream,
    received: Vec<u8>,
    /// Number of the first message, as the venue stated at login.
    first_number: usize,
    messages: Vec<Vec<u8>>,
    /// The number of messages that the caller has taken.
    taken: usize,
}

impl Client {
    /// Logs in to the current session, to receive from a number on.
    fn login(account: Account, number: usize) -> Result<Self> {
        let socket = TcpStream::connect(account.address)?;
        socket.set_nodelay(true)?;
        let mut client =
            Self { socket, received: Vec::new(), first_number: 0, messages: Vec::new(), taken: 0 };
        client.write(&ClientPacket::login(
            account.username.as_bytes().into(),
            account.password.as_bytes().into(),
            b"".as_slice().into(),
            number.into(),
        ))?;
        match client.packet(REPLY_TIMEOUT)? {
            Some(Packet::LoginAccepted(number)) => client.first_number = number,
            Some(other) => return Err(Failed(format!("login answered by {other:?}"))),
            None => return Err(Failed("no answer to the login".into())),
        }
        Ok(client)
    }

    /// Logs out, requires the venue to close, and returns all received messages.
    fn logout(mut self) -> Result<Vec<Vec<u8>>> {
        self.write(&ClientPacket::logout())?;
        self.socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => self.received.extend_from_slice(&buffer[..len]),
                Err(error) => return Err(Failed(format!("not closed after the logout: {error}"))),
            }
        }
        // The venue may need a moment to see that the session is free again.
        thread::sleep(Duration::from_millis(50));
        Ok(self.messages)
    }

    fn send(&mut self, request: OuchRequest) -> Result<()> {
        self.write(&ClientPacket::udata(VecPayload::new(request.encode())))
    }

    /// The next reply, read by `slouch` with nothing left over but an empty appendage.
    fn reply(&mut self) -> Result<OuchResponse> {
        while self.messages.len() == self.taken {
            match self.packet(REPLY_TIMEOUT)? {
                Some(Packet::Message(message)) => self.messages.push(message),
                Some(Packet::Heartbeat) => {}
                Some(other) => return Err(Failed(format!("expected a reply, came {other:?}"))),
                None => return Err(Failed("no reply came in time".into())),
            }
        }
        let message = &self.messages[self.taken];
        self.taken += 1;
        match OuchResponse::parse(message) {
            Ok((_, OuchResponse::Unknown(kind, _))) => {
                Err(Failed(format!("slouch does not know {kind:?}: {message:02x?}")))
            }
            Ok((rest, response)) if rest.is_empty() || rest == [0, 0] => Ok(response),
            Ok((rest, response)) => Err(Failed(format!("{rest:02x?} is left after {response:?}"))),
            Err(error) => Err(Failed(format!("slouch cannot read {message:02x?}: {error}"))),
        }
    }

    /// Sends an order, which must be accepted and live.
    fn accepted(
        &mut self,
        order: OuchRequest,
        number: UserRefNum,
    ) -> Result<slouch::msg::OrderAccepted> {
        self.send(order)?;
        match self.reply()? {
            OuchResponse::OrderAccepted(accepted)
                if accepted.user_ref_num() == number
                    && accepted.order_state() == OrderState::Live =>
            {
                Ok(accepted)
            }
            other => Err(unexpected("an accepted order", &other)),
        }
    }

    /// Sends a cancel, which must take this quantity off.
    fn canceled(&mut self, request: OuchRequest, number: UserRefNum, quantity: u32) -> Result<()> {
        self.send(request)?;
        match self.reply()? {
            OuchResponse::OrderCanceled(canceled)
                if canceled.user_ref_num() == number
                    && canceled.quantity() == quantity
                    && canceled.reason() == CancelReason::UserRequested =>
            {
                Ok(())
            }
            other => Err(unexpected("a canceled order", &other)),
        }
    }

    fn next_user_ref_num(&mut self) -> Result<UserRefNum> {
        self.send(account_query!())?;
        match self.reply()? {
            OuchResponse::AccountQueryResponse(answer) => Ok(answer.next_user_ref_num()),
            other => Err(unexpected("an answer to the account query", &other)),
        }
    }

    /// Takes all messages until the stream is at rest.
    fn at_rest(&mut self) -> Result<()> {
        loop {
            match self.packet(QUIET)? {
                Some(Packet::Message(message)) => self.messages.push(message),
                // A heartbeat shows that there is nothing else.
                Some(Packet::Heartbeat) | None => break,
                Some(other) => return Err(Failed(format!("expected messages, came {other:?}"))),
            }
        }
        while self.taken < self.messages.len() {
            self.reply()?;
        }
        Ok(())
    }

    fn write(&mut self, packet: &ClientPacket) -> Result<()> {
        let bytes: ByteSerializerStack<256> =
            to_serializer_stack(packet).map_err(|error| Failed(format!("{error:?}")))?;
        Ok(self.socket.write_all(bytes.as_slice())?)
    }

    /// The next packet; `None` if none comes in time.
    fn packet(&mut self, timeout: Duration) -> Result<Option<Packet>> {
        loop {
            if let Some(packet) = self.cut_packet()? {
                return Ok(Some(packet));
            }
            self.socket.set_read_timeout(Some(timeout))?;
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) => return Ok(Some(Packet::Closed)),
                Ok(len) => self.received.extend_from_slice(&buffer[..len]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes a packet off the received bytes, if a whole packet is there.
    fn cut_packet(&mut self) -> Result<Option<Packet>> {
        let Some((length, _)) = self.received.split_first_chunk() else { return Ok(None) };
        let end = 2 + usize::from(u16::from_be_bytes(*length));
        if self.received.len() < end {
            return Ok(None);
        }
        let bytes: Vec<u8> = self.received.drain(..end).collect();
        let packet: ServerPacket = from_slice(&bytes).map_err(|error| {
            Failed(format!("soupbintcp_model cannot read {bytes:02x?}: {error:?}"))
        })?;
        Ok(Some(match packet {
            ServerPacket::LoginAccepted(_) => {
                let number = String::from_utf8_lossy(&bytes[13..33]).trim().parse()?;
                Packet::LoginAccepted(number)
            }
            ServerPacket::SPayload(message) => Packet::Message(message.payload.payload),
            ServerPacket::HBeat(_) => Packet::Heartbeat,
            other => return Err(Failed(format!("the venue sent {other:?}"))),
        }))
    }
}

/// The meaning of a packet.
#[derive(Debug)]
enum Packet {
    LoginAccepted(usize),
    Message(Vec<u8>),
    Heartbeat,
    Closed,
}

fn unexpected(wanted: &str, came: &OuchResponse) -> Failed {
    Failed(format!("expected {wanted}, came {came:?}"))
}
