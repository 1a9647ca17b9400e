//! Events that gateways report to the operator: logins, rejected logins, closed connections, bad messages.
//!
//! Invariant: an event names its user or its address, and no password.

use std::{fmt, net::SocketAddr};

use market::Text;

use crate::Dialect;

/// A gateway's report to the operator. It is not rate-limited here: the printer does that, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorEvent {
    /// A session has a connection now.
    LoggedIn {
        username: Text<6>,
        address: SocketAddr,
        /// Number of the first reply it is sent.
        next_reply: u64,
    },
    /// A session no longer has a connection.
    LoggedOut { username: Text<6>, address: SocketAddr, reason: CloseReason },
    /// A login was not accepted.
    LoginRejected {
        address: SocketAddr,
        /// The exact reason; the client receives a coarser one.
        reason: LoginFault,
    },
    /// A connection ended before it had logged in.
    NeverLoggedIn { address: SocketAddr, reason: CloseReason },
    /// A connection was closed at once because the system has no file descriptor left.
    OutOfDescriptors { address: SocketAddr },
    /// A connection was closed at once because the venue is stopping.
    Draining { address: SocketAddr },
    /// A message could not be read and was ignored.
    Malformed { username: Text<6>, address: SocketAddr, fault: String },
    /// A session that sends datagrams sent too many messages without effect, and is blocked.
    Blocked {
        username: Text<6>,
        /// For how long, in seconds.
        seconds: u64,
    },
    /// A datagram came from an address that names no session, and was dropped.
    UnknownSender { address: SocketAddr },
    /// A datagram was dropped: its session speaks another protocol than OUCH over UDP.
    OtherDialect { username: Text<6>, address: SocketAddr, dialect: Dialect },
    /// A session has sent more datagrams than may wait for its turns, and one was dropped.
    ExcessDatagrams { username: Text<6>, address: SocketAddr },
    /// A datagram was longer than the receive buffer, and was dropped.
    DatagramTooLong { address: SocketAddr },
    /// Replies were dropped to make room before they could be sent to their client.
    RepliesDropped {
        username: Text<6>,
        /// The oldest reply that is still there.
        first: u64,
    },
}

impl OperatorEvent {
    /// The kind of event, in a few words: events of one kind are limited and counted together.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::LoggedIn { .. } => "logins",
            Self::LoggedOut { .. } => "ends of sessions",
            Self::LoginRejected { .. } => "rejected logins",
            Self::NeverLoggedIn { .. } => "connections that ended without a login",
            Self::OutOfDescriptors { .. } => "connections refused without a file descriptor",
            Self::Draining { .. } => "connections refused during the stop",
            Self::Malformed { .. } => "malformed messages",
            Self::UnknownSender { .. } => "datagrams from unknown addresses",
            Self::OtherDialect { .. } => "datagrams of sessions with another protocol",
            Self::ExcessDatagrams { .. } => "datagrams above the number that may wait",
            Self::DatagramTooLong { .. } => "datagrams that were too long",
            Self::Blocked { .. } => "blocked sessions",
            Self::RepliesDropped { .. } => "dropped replies",
        }
    }
}

impl OperatorEvent {
    /// The participant concerned, where one is known.
    #[must_use]
    pub const fn username(&self) -> Option<Text<6>> {
        match self {
            Self::LoggedIn { username, .. }
            | Self::LoggedOut { username, .. }
            | Self::Malformed { username, .. }
            | Self::ExcessDatagrams { username, .. }
            | Self::OtherDialect { username, .. }
            | Self::Blocked { username, .. }
            | Self::RepliesDropped { username, .. } => Some(*username),
            Self::LoginRejected { reason, .. } => reason.username(),
            Self::NeverLoggedIn { .. }
            | Self::OutOfDescriptors { .. }
            | Self::Draining { .. }
            | Self::UnknownSender { .. }
            | Self::DatagramTooLong { .. } => None,
        }
    }

    /// The address concerned, where there is one.
    #[must_use]
    pub const fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::LoggedIn { address, .. }
            | Self::LoggedOut { address, .. }
            | Self::LoginRejected { address, .. }
            | Self::NeverLoggedIn { address, .. }
            | Self::OutOfDescriptors { address }
            | Self::Draining { address }
            | Self::Malformed { address, .. }
            | Self::ExcessDatagrams { address, .. }
            | Self::UnknownSender { address }
            | Self::OtherDialect { address, .. }
            | Self::DatagramTooLong { address } => Some(*address),
            Self::Blocked { .. } | Self::RepliesDropped { .. } => None,
        }
    }

    /// False for events of a usual day: logins, and connections that their client ends.
    #[must_use]
    pub const fn is_warning(&self) -> bool {
        match self {
            Self::LoggedIn { .. } | Self::Draining { .. } => false,
            Self::LoggedOut { reason, .. } | Self::NeverLoggedIn { reason, .. } => !matches!(
                reason,
                CloseReason::Logout | CloseReason::Gone | CloseReason::GatewayClosed
            ),
            _ => true,
        }
    }
}

impl LoginFault {
    const fn username(&self) -> Option<Text<6>> {
        match self {
            Self::Credentials | Self::NoSuchSession => None,
            Self::Paused(username)
            | Self::Blocked(username)
            | Self::NotYetAdded(username)
            | Self::OtherDialect(username, _)
            | Self::AlreadyConnected(username)
            | Self::RepliesDropped(username, _)
            | Self::NumberInFuture(username, _) => Some(*username),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    Logout,
    /// The client closed it, or the network broke it.
    Gone,
    /// Nothing arrived within the receive timeout, or no login came.
    Silent,
    /// The client read nothing within the send timeout.
    Slow,
    /// The replies it should be sent next are no longer kept.
    FellBehind,
    /// It sent too many messages that could not be read.
    TooManyMalformed,
    /// It broke the session protocol, in this way.
    Violation(String),
    GatewayClosed,
    /// An operator has logged the session out.
    ByOperator,
    /// It had no session, and newer connections needed its place.
    PushedOut,
    /// It sent too many messages without effect, and is blocked for a while.
    Blocked,
    /// An operator injected the cut, for a test.
    Injected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFault {
    /// Unknown user or wrong password: the reply does not distinguish them.
    Credentials,
    /// There were too many recent wrong passwords for the user from that address.
    Paused(Text<6>),
    /// The session sent too much and is blocked for a while.
    Blocked(Text<6>),
    /// No session of that name is here.
    NoSuchSession,
    /// The session speaks another protocol than that of the port.
    OtherDialect(Text<6>, Dialect),
    /// The session has not been added to the exchange yet.
    NotYetAdded(Text<6>),
    /// The user has a connection already, which stays.
    AlreadyConnected(Text<6>),
    /// The requested replies were dropped to make room; has the number of the oldest kept.
    RepliesDropped(Text<6>, u64),
    /// The requested number is beyond the next; has the next number.
    NumberInFuture(Text<6>, u64),
}

/// A receiver of operator events.
pub trait OperatorEventSink: Send {
    fn take(&mut self, event: OperatorEvent, now_ns: u64);

    /// Lets time pass; called every 10 ms or so.
    fn tick(&mut self, _now_ns: u64) {}
}

impl<F: FnMut(OperatorEvent) + Send> OperatorEventSink for F {
    fn take(&mut self, event: OperatorEvent, _now_ns: u64) {
        self(event);
    }
}

/// A gateway's end of its sink; without one, events are dropped.
#[derive(Default)]
pub(crate) struct OperatorEvents {
    sink: Option<Box<dyn OperatorEventSink>>,
    now_ns: u64,
    ticked_ns: u64,
}

impl OperatorEvents {
    pub(crate) fn go_to(&mut self, sink: Box<dyn OperatorEventSink>) {
        self.sink = Some(sink);
    }

    /// Begins a turn.
    pub(crate) fn turn(&mut self, now_ns: u64) {
        const TICK_NS: u64 = 10_000_000;
        self.now_ns = now_ns;
        if let Some(sink) = &mut self.sink
            && now_ns.saturating_sub(self.ticked_ns) >= TICK_NS
        {
            self.ticked_ns = now_ns;
            sink.tick(now_ns);
        }
    }

    pub(crate) fn notify(&mut self, event: OperatorEvent) {
        if let Some(sink) = &mut self.sink {
            sink.take(event, self.now_ns);
        }
    }
}

impl fmt::Display for OperatorEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoggedIn { username, address, next_reply } => {
                write!(f, "{username} logged in from {address}, next reply {next_reply}")
            }
            Self::LoggedOut { username, address, reason } => {
                write!(f, "{username} from {address}: {reason}")
            }
            Self::LoginRejected { address, reason } => {
                write!(f, "login from {address} rejected: {reason}")
            }
            Self::NeverLoggedIn { address, reason } => {
                write!(f, "connection from {address} without login: {reason}")
            }
            Self::OutOfDescriptors { address } => {
                write!(
                    f,
                    "connection from {address} closed: no file descriptor is left (raise `ulimit -n`)"
                )
            }
            Self::Draining { address } => {
                write!(f, "connection from {address} closed: the venue is stopping")
            }
            Self::Malformed { username, address, fault } => {
                write!(f, "{username} from {address}: message ignored: {fault}")
            }
            Self::Blocked { username, seconds } => {
                write!(
                    f,
                    "{username} is blocked for {seconds} s: too many messages without effect \
                     (throttle.no_effect_per_second)"
                )
            }
            Self::UnknownSender { address } => {
                write!(f, "datagram from {address} dropped: the address names no session")
            }
            Self::OtherDialect { username, address, dialect } => {
                write!(
                    f,
                    "datagram of {username} from {address} dropped: the session speaks {dialect} since \
                     its first login"
                )
            }
            Self::ExcessDatagrams { username, address } => {
                write!(
                    f,
                    "datagram of {username} from {address} dropped: 512 KiB of its datagrams wait already"
                )
            }
            Self::DatagramTooLong { address } => {
                write!(f, "datagram from {address} dropped: it is longer than 2,048 bytes")
            }
            Self::RepliesDropped { username, first } => {
                write!(f, "{username}: replies before {first} were dropped before they were sent")
            }
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Logout => write!(f, "logged out"),
            Self::Gone => write!(f, "connection ended"),
            Self::Silent => write!(
                f,
                "closed: nothing received in time (receive_timeout; login_timeout before the login)"
            ),
            Self::Slow => {
                write!(f, "closed: the client read nothing for too long (slow_client_timeout)")
            }
            Self::FellBehind => {
                write!(f, "closed: its next replies are no longer kept (reply_store)")
            }
            Self::TooManyMalformed => write!(f, "closed: too many malformed messages"),
            Self::Violation(violation) => write!(f, "protocol error: {violation}"),
            Self::GatewayClosed => write!(f, "the venue is shutting down"),
            Self::ByOperator => write!(f, "logged out by an operator"),
            Self::Injected => write!(f, "cut: an operator injected a disconnect"),
            Self::Blocked => write!(
                f,
                "closed and blocked: too many messages without effect (throttle.no_effect_per_second)"
            ),
            Self::PushedOut => write!(
                f,
                "closed: newer connections needed its place (order_entry.connections_max)"
            ),
        }
    }
}

impl fmt::Display for LoginFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credentials => write!(f, "wrong user name or password"),
            Self::Paused(username) => {
                write!(f, "too many recent wrong passwords for {username} from this address")
            }
            Self::Blocked(username) => write!(f, "{username} is blocked by the throttle"),
            Self::NoSuchSession => write!(f, "there is no session of that name"),
            Self::OtherDialect(username, dialect) => {
                write!(f, "{username} speaks {dialect}, which is not the protocol of this port")
            }
            Self::NotYetAdded(username) => {
                write!(f, "{username} has not been added to the exchange yet")
            }
            Self::AlreadyConnected(username) => write!(f, "{username} is logged in already"),
            Self::RepliesDropped(username, first) => {
                write!(f, "{username} asked for replies no longer kept; the oldest is {first}")
            }
            Self::NumberInFuture(username, next) => {
                write!(f, "{username} asked for a reply beyond the next, which is {next}")
            }
        }
    }
}
