//! The participant's end of the wire: OUCH 5.0 clients over TCP and UDP, and the messages of a FIX client.
//!
//! Start at [`TcpClient`] (SoupBinTCP) and [`UdpClient`] (raw messages to the venue, MoldUDP64 back). The
//! owner calls `poll`, which does one turn of reading, delivers the sequenced messages in order and
//! returns. The functions [`enter`] to [`query_account`] make the messages to send, and
//! [`collect`] reads a session's whole history.
//!
//! Invariant: only [`TcpClient::connect`], [`connect_tcp`], [`collect`] and [`collect_udp`] block, for a stated time, and
//! memory has a bound: when too many bytes wait to be written, the answer is [`ClientError::Full`].

mod fix;
mod tcp;
mod stamped;
mod udp;

use std::{io, net::SocketAddr, thread, time::Duration};

use market::{
    AccountQuery, CancelOrder, Command, EnterOrder, EntrySwitch, Firm, MassCancel, ModifyOrder,
    OrderKey, OrderType, Price, Quantity, ReplaceOrder, ReplaceTerms, Side, Symbol, TimeInForce,
};
use wire::{
    moldudp64,
    ouch::{self, MessageBuffer},
    soupbintcp::{self, LoginRequest, Timers},
};

use ring::Clock;

pub use fix::{
    FixFrames, FixWriter, Garbled, replaced as fix_replaced, side_code as fix_side_code,
};
pub use stamped::{Connection, StampedStream};
pub use tcp::{ClientState, TcpClient, connect_tcp};
pub use udp::{DatagramBatching, DatagramSocket, UdpClient, UdpClientReport};

/// The error of a client: it cannot continue, or not now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The venue did not take the connection.
    #[error("cannot connect to {address}")]
    Connect {
        /// The venue's address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The local address cannot be used.
    #[error("cannot use the local address {address}")]
    Bind {
        /// The local address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The kernel does not split and gather datagrams.
    #[error("this kernel has no UDP_SEGMENT and UDP_GRO: they need Linux 5.0 or newer")]
    Segments(#[source] io::Error),
    /// The kernel or the network card does not provide the times at which packets leave and arrive.
    #[error("the system does not give the times of packets (SO_TIMESTAMPING)")]
    Stamps(#[source] io::Error),
    /// The socket failed while reading.
    #[error("cannot read from the venue")]
    Receive(#[source] io::Error),
    /// The socket failed while writing.
    #[error("cannot write to the venue")]
    Send(#[source] io::Error),
    /// The venue broke the rules of SoupBinTCP.
    #[error("the venue broke the protocol of SoupBinTCP")]
    Violation(#[source] soupbintcp::Violation),
    /// The venue sent nothing, not even a heartbeat, for too long.
    #[error("the venue sent nothing for too long, not even a heartbeat")]
    Timeout(#[source] soupbintcp::Timeout),
    /// The venue closed the connection without ending the session.
    #[error("the venue closed the connection")]
    Closed,
    /// The replies over UDP do not belong together.
    #[error("the replies do not belong to one stream")]
    Replies(#[source] moldudp64::ReceiveError),
    /// The venue rejected the login.
    #[error("login rejected: {0}")]
    Rejected(soupbintcp::LoginRejectReason),
    /// The client is not logged in, or no longer.
    #[error("not logged in")]
    NotLoggedIn,
    /// Too many bytes wait to be written; try again after the next turn.
    #[error("the venue does not read: too many bytes wait to be sent")]
    Full,
    /// The message is longer than the maximum for a packet of this client.
    #[error("a message of {0} bytes is too long")]
    TooLong(usize),
    /// The requested history was not complete in time.
    #[error("the venue did not answer in time")]
    NoAnswer,
}

/// Enters an order: market if `price` is `None`, otherwise limit, visible, as principal.
#[must_use]
pub fn enter(
    user_ref_num: u32,
    side: Side,
    symbol: Symbol,
    quantity: Quantity,
    price: Option<Price>,
    time_in_force: TimeInForce,
) -> MessageBuffer {
    let key = key(user_ref_num);
    let mut order = match price {
        Some(price) => EnterOrder::limit(key, side, symbol, quantity, price),
        None => EnterOrder::market(key, side, symbol, quantity),
    };
    order.time_in_force = time_in_force;
    order.attributes.capacity = market::Capacity::Principal;
    message(&Command::Enter(order))
}

/// Replaces a live order: `quantity` is that of the whole chain, with the executed lots; market if
/// `price` is `None`.
#[must_use]
pub fn replace(
    original_user_ref_num: u32,
    user_ref_num: u32,
    quantity: Quantity,
    price: Option<Price>,
    time_in_force: TimeInForce,
) -> MessageBuffer {
    message(&Command::Replace(ReplaceOrder {
        original_user_ref_num,
        key: key(user_ref_num),
        terms: Some(ReplaceTerms {
            order_type: order_type(price),
            time_in_force,
            ..ReplaceTerms::limit(quantity, price.unwrap_or(Price::ZERO))
        }),
    }))
}

/// Reduces a live order so that it executes at most `quantity` over its life; 0 cancels it.
#[must_use]
pub fn cancel(user_ref_num: u32, quantity: Quantity) -> MessageBuffer {
    message(&Command::Cancel(CancelOrder { key: key(user_ref_num), quantity }))
}

/// Changes a live order's kind of sell, or reduces it as [`cancel`] does.
#[must_use]
pub fn modify(user_ref_num: u32, side: Side, quantity: Quantity) -> MessageBuffer {
    message(&Command::Modify(ModifyOrder { key: key(user_ref_num), side, quantity }))
}

/// Cancels the live orders of a firm: in one symbol or, if `None`, in all.
#[must_use]
pub fn mass_cancel(user_ref_num: u32, firm: Firm, symbol: Option<Symbol>) -> MessageBuffer {
    message(&Command::MassCancel(MassCancel {
        key: key(user_ref_num),
        firm,
        symbol: symbol.unwrap_or(Symbol::BLANK),
        side: None,
        group_id: None,
    }))
}

/// Allows or forbids a firm to enter orders on this session.
#[must_use]
pub fn switch_entry(user_ref_num: u32, firm: Firm, enabled: bool) -> MessageBuffer {
    message(&Command::SwitchEntry(EntrySwitch { key: key(user_ref_num), firm, enabled }))
}

/// Requests the lowest number that the venue would accept next.
#[must_use]
pub fn query_account() -> MessageBuffer {
    message(&Command::QueryAccount(AccountQuery {
        session_id: market::SessionId::default(),
        channel: 0,
    }))
}

/// The interval at which [`collect`] and [`collect_udp`] check for messages.
const COLLECT_PAUSE: Duration = Duration::from_micros(200);
/// The time limit of both, in nanoseconds.
const COLLECT_NS_MAX: u64 = 120_000_000_000;

/// Logs in and reads the session's sequenced messages from number `from_sequence` on, until there are
/// `count_min` of them and none came for `until_quiet_ns`, or the session ended; then logs out. Waits
/// at most two minutes.
///
/// # Errors
/// [`ClientError::Rejected`], [`ClientError::NoAnswer`] after two minutes, or the error that ended the
/// connection.
pub fn collect(
    address: SocketAddr,
    login: LoginRequest,
    from_sequence: u64,
    count_min: usize,
    until_quiet_ns: u64,
    clock: &dyn Clock,
) -> Result<Vec<Vec<u8>>, ClientError> {
    let login = LoginRequest { sequence_number: Some(from_sequence), ..login };
    let start_ns = clock.now_ns();
    let mut client = TcpClient::connect(address, login, Timers::default(), start_ns)?;
    let mut messages = Vec::new();
    let mut heard_ns = start_ns;
    loop {
        let now_ns = clock.now_ns();
        let delivered = client.poll(now_ns, &mut |_, message| messages.push(message.to_vec()))?;
        match client.state() {
            ClientState::Rejected(reason) => return Err(ClientError::Rejected(reason)),
            ClientState::Ended => return Ok(messages),
            ClientState::Connecting => heard_ns = now_ns,
            ClientState::LoggedIn { .. } if delivered > 0 => heard_ns = now_ns,
            ClientState::LoggedIn { .. } => {
                let is_quiet = now_ns.saturating_sub(heard_ns) >= until_quiet_ns;
                if is_quiet && messages.len() >= count_min {
                    say_goodbye(&mut client, clock)?;
                    return Ok(messages);
                }
            }
        }
        wait_for_more(delivered, start_ns, now_ns)?;
    }
}

/// Reads the replies of a UDP session from number `from_sequence` on, until there are `count_min` of
/// them and none came for `until_quiet_ns`, or the session ended; `local` is the address that names it.
/// Waits at most two minutes.
///
/// With the name of the reply stream it requests the replies; without the name it waits until the venue
/// sends a packet, which may be a heartbeat.
///
/// # Errors
/// [`ClientError::NoAnswer`] if the stream never became quiet or the venue never sent a packet, or the
/// error of the socket.
pub fn collect_udp(
    local: SocketAddr,
    server: SocketAddr,
    session: Option<moldudp64::Session>,
    from_sequence: u64,
    count_min: usize,
    until_quiet_ns: u64,
    clock: &dyn Clock,
) -> Result<Vec<Vec<u8>>, ClientError> {
    const ASK_EVERY_NS: u64 = 20_000_000;
    let mut client = UdpClient::bind(local, server, Some(from_sequence), 1)?;
    let mut messages = Vec::new();
    let start_ns = clock.now_ns();
    let (mut heard_ns, mut asked_ns) = (start_ns, None);
    loop {
        let now_ns = clock.now_ns();
        let delivered = client.poll(now_ns, &mut |_, message| messages.push(message.to_vec()))?;
        if client.is_ended() {
            return Ok(messages);
        }
        if delivered > 0 {
            heard_ns = now_ns;
            asked_ns = None;
        } else if messages.len() >= count_min && now_ns.saturating_sub(heard_ns) >= until_quiet_ns {
            let was_answered = client.report().datagrams_received > 0;
            return if was_answered { Ok(messages) } else { Err(ClientError::NoAnswer) };
        }
        // The length of the session is unknown, so the next messages are requested until none arrives.
        let is_due =
            asked_ns.is_none_or(|asked_ns| now_ns.saturating_sub(asked_ns) >= ASK_EVERY_NS);
        if let Some(session) = client.session().or(session).filter(|_| is_due) {
            client.ask_again(&moldudp64::Request {
                session,
                sequence_number: client.next_sequence().unwrap_or(from_sequence),
                count: moldudp64::MESSAGE_COUNT_MAX,
            })?;
            asked_ns = Some(now_ns);
        }
        wait_for_more(delivered, start_ns, now_ns)?;
    }
}

/// Logs out and gives the venue a moment to close the connection, so that the next login finds the
/// session free.
fn say_goodbye(client: &mut TcpClient, clock: &dyn Clock) -> Result<(), ClientError> {
    const GOODBYE_NS_MAX: u64 = 500_000_000;
    let start_ns = clock.now_ns();
    client.logout(start_ns)?;
    loop {
        let now_ns = clock.now_ns();
        let has_ended = client.poll(now_ns, &mut |_, _| {}).is_err()
            || client.state() == ClientState::Ended
            || now_ns.saturating_sub(start_ns) >= GOODBYE_NS_MAX;
        if has_ended {
            return Ok(());
        }
        thread::sleep(COLLECT_PAUSE);
    }
}

fn wait_for_more(delivered: usize, start_ns: u64, now_ns: u64) -> Result<(), ClientError> {
    if now_ns.saturating_sub(start_ns) >= COLLECT_NS_MAX {
        return Err(ClientError::NoAnswer);
    }
    if delivered == 0 {
        thread::sleep(COLLECT_PAUSE);
    }
    Ok(())
}

/// The connection names the session, so a message does not carry it.
fn key(user_ref_num: u32) -> OrderKey {
    OrderKey { user_ref_num, ..OrderKey::default() }
}

fn order_type(price: Option<Price>) -> OrderType {
    if price.is_some() { OrderType::Limit } else { OrderType::Market }
}

fn message(command: &Command) -> MessageBuffer {
    ouch::request(command).expect("a participant may ask for this")
}

#[cfg(test)]
mod tests {
    use market::{SessionId, Timestamp};

    use super::*;

    /// Each message states its request: the gateway decodes the original terms from it.
    #[test]
    fn messages_say_what_was_asked() {
        let session_id = SessionId(7);
        let symbol = Symbol::new("AAA").unwrap();
        let firm = Firm::new("FIRM").unwrap();
        let read = |message: MessageBuffer| {
            ouch::command(&message, session_id, Timestamp::default()).unwrap()
        };
        let key = |user_ref_num| OrderKey { session_id, channel: 0, user_ref_num };
        let (five, ten) = (Quantity(5), Price(10));

        let limit = enter(1, Side::Buy, symbol, five, Some(ten), TimeInForce::Day);
        let Command::Enter(order) = read(limit) else { panic!("not an order") };
        assert_eq!((order.key, order.side, order.symbol), (key(1), Side::Buy, symbol));
        assert_eq!((order.order_type, order.price, order.quantity), (OrderType::Limit, ten, five));

        let market = enter(2, Side::Sell, symbol, five, None, TimeInForce::ImmediateOrCancel);
        let Command::Enter(order) = read(market) else { panic!("not an order") };
        assert_eq!((order.order_type, order.price), (OrderType::Market, Price::ZERO));
        assert_eq!(order.time_in_force, TimeInForce::ImmediateOrCancel);

        let Command::Replace(order) = read(replace(1, 3, five, Some(ten), TimeInForce::Day)) else {
            panic!("not a replace")
        };
        let terms = order.terms.unwrap();
        assert_eq!((order.original_user_ref_num, order.key), (1, key(3)));
        assert_eq!((terms.price, terms.quantity), (ten, five));

        assert_eq!(
            read(cancel(3, Quantity::ZERO)),
            Command::Cancel(CancelOrder { key: key(3), quantity: Quantity::ZERO })
        );
        assert_eq!(
            read(modify(3, Side::SellShort, five)),
            Command::Modify(ModifyOrder { key: key(3), side: Side::SellShort, quantity: five })
        );
        assert_eq!(
            read(mass_cancel(4, firm, None)),
            Command::MassCancel(MassCancel {
                key: key(4),
                firm,
                symbol: Symbol::BLANK,
                side: None,
                group_id: None
            })
        );
        assert_eq!(
            read(switch_entry(5, firm, false)),
            Command::SwitchEntry(EntrySwitch { key: key(5), firm, enabled: false })
        );
        assert_eq!(
            read(query_account()),
            Command::QueryAccount(AccountQuery { session_id, channel: 0 })
        );
    }
}
