//! A subscriber that joins at any time: takes a snapshot of the books, applies the feed from there on, fills gaps, and
//! takes a new snapshot where that is not possible.
//!
//! Invariant: the books have exactly the messages before the next one, or there are no books yet.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
};

use market::Text;
use wire::{
    glimpse::EndOfSnapshot,
    moldudp64::{ReceiveError, Session},
    soupbintcp::{LoginRejectReason, LoginRequest, Timers},
};

use super::{FeedBook, FeedError, FeedReceiver, FeedReceiverError};
use crate::participant::{ClientError, ClientState, DatagramSocket, TcpClient};

/// The time that a message may be missing before a new snapshot is taken, in nanoseconds.
const GAP_NS_MAX: u64 = 5_000_000_000;
/// The wait after a failed join, in nanoseconds.
const RETRY_NS: u64 = 1_000_000_000;
/// Turns of a connection in one poll, so that a snapshot does not wait for packets of the feed.
const TURNS_PER_POLL: usize = 16;

/// Connects to a service of the venue with this beginning, at this time in nanoseconds.
pub type Connect<T> = Box<dyn FnMut(Begin, u64) -> Result<TcpClient<T>, ClientError> + Send>;

/// The session and the first message that a login to a service requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The session in the packets of the feed, if any arrived: that of the feed, or of a delta stream.
    pub session: Option<Session>,
    /// Number of the first message.
    pub number: u64,
}

impl Begin {
    /// The login with this session and message. Without a session the login keeps its own.
    #[must_use]
    pub fn login(self, login: LoginRequest) -> LoginRequest {
        let heard = self.session.and_then(|it| Text::new(str::from_utf8(&it).ok()?.trim()));
        let session = heard.unwrap_or(login.session);
        LoginRequest { session, sequence_number: Some(self.number), ..login }
    }
}

/// Connects to a service at an address.
pub fn connect_to(address: SocketAddr, login: LoginRequest) -> Connect<TcpStream> {
    Box::new(move |begin, now_ns| {
        TcpClient::connect(address, begin.login(login), Timers::default(), now_ns)
    })
}

/// The channel by which the feed is received.
#[expect(clippy::large_enum_variant, reason = "a subscriber has one")]
pub enum FeedChannel<S = UdpSocket, T = TcpStream> {
    /// MoldUDP64 packets, with requests for lost messages.
    Datagrams(FeedReceiver<S>),
    /// SoupBinTCP.
    Tcp(TcpFeed<T>),
}

/// The feed over TCP.
pub struct TcpFeed<T> {
    connect: Connect<T>,
    client: Option<TcpClient<T>>,
    /// Number of the next message; `None` while a snapshot is on its way.
    next: Option<u64>,
    /// True once the feed was connected: from then on a broken connection is opened again.
    was_connected: bool,
    retry_ns: u64,
}

/// The beginning of a subscription.
pub enum Start<T = TcpStream> {
    /// With a snapshot of this service.
    Snapshot(Connect<T>),
    /// With the message of this number. There are books only if it is message 1.
    Message(u64),
    /// With the next message that arrives. There are no books.
    Next,
}

/// The counters of a subscriber, beside those of its channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinReport {
    /// Snapshots that were applied.
    pub snapshots: u64,
    /// Messages in these snapshots.
    pub snapshot_messages: u64,
    /// Number of the first message of the feed after the newest snapshot.
    pub first_message: Option<u64>,
    /// Messages of the feed that were handed on.
    pub messages: u64,
    /// Joins because the session changed, or because packets and snapshot were of different sessions.
    pub session_changes: u64,
    /// Joins because messages were lost for good.
    pub lost_gaps: u64,
    /// Joins that failed and were tried again.
    pub failed_joins: u64,
}

/// The error of a subscriber that cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum FeedSubscriberError {
    /// The feed cannot be received.
    #[error(transparent)]
    Receive(#[from] FeedReceiverError),
    /// The feed contradicts the books.
    #[error(transparent)]
    Book(#[from] FeedError),
    /// The snapshot service, or the feed over TCP, is not available.
    #[error("{service}: {source}")]
    Service {
        /// The name of the service.
        service: &'static str,
        /// The error of the client.
        source: ClientError,
    },
    /// A login was rejected.
    #[error("{service}: login rejected: {reason}{}", said(.text))]
    Rejected {
        /// The name of the service.
        service: &'static str,
        /// The venue's reason code.
        reason: LoginRejectReason,
        /// The venue's text for a human reader.
        text: Option<String>,
    },
    /// The feed over TCP ended, with this text of the venue.
    #[error("the feed over TCP ended: {0}")]
    Ended(String),
}

/// A message that a subscriber hands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered<'a> {
    /// A message of a snapshot.
    Snapshot(&'a [u8]),
    /// A message of the feed, with its number.
    Feed(u64, &'a [u8]),
}

fn said(text: &Option<String>) -> String {
    text.as_ref().map_or(String::new(), |text| format!(": {text}"))
}

const SNAPSHOT: &str = "snapshot";
const TCP_FEED: &str = "feed over TCP";

enum State<T> {
    /// A snapshot is on its way; the feed is kept meanwhile.
    Joining(Box<Joining<T>>),
    /// A join failed; the next begins at this time.
    Waiting(u64),
    /// The feed is applied.
    Live,
}

struct Joining<T> {
    client: TcpClient<T>,
    book: FeedBook,
    message_count: u64,
    /// The number in the end of the snapshot.
    next: Option<u64>,
}

/// A subscriber of the feed with its books.
pub struct FeedSubscriber<S = UdpSocket, T = TcpStream> {
    channel: FeedChannel<S, T>,
    snapshots: Option<Connect<T>>,
    state: State<T>,
    book: FeedBook,
    has_books: bool,
    report: JoinReport,
}

impl<S: DatagramSocket, T: Read + Write> FeedSubscriber<S, T> {
    /// Begins a subscription; the first [`poll`](Self::poll) connects if a snapshot is needed.
    ///
    /// # Errors
    /// The snapshot service cannot be reached.
    pub fn start(
        mut channel: FeedChannel<S, T>,
        start: Start<T>,
        now_ns: u64,
    ) -> Result<Self, FeedSubscriberError> {
        let (mut snapshots, mut has_books) = (None, false);
        match start {
            Start::Snapshot(connect) => snapshots = Some(connect),
            Start::Message(number) => {
                has_books = number == 1;
                channel.begin_at(None, number);
            }
            Start::Next => channel.begin_next(),
        }
        let (book, report) = (FeedBook::new(), JoinReport::default());
        let mut subscriber =
            Self { channel, snapshots, state: State::Live, book, has_books, report };
        if subscriber.snapshots.is_some() {
            subscriber.join(now_ns)?;
        }
        Ok(subscriber)
    }

    /// One turn: takes the available messages, applies them to the books and hands them on. Returns the
    /// number of messages of the feed. If a join other than the first fails, it is tried again each second.
    ///
    /// # Errors
    /// The feed cannot be received, or contradicts the books.
    pub fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(Delivered<'_>),
    ) -> Result<usize, FeedSubscriberError> {
        if let State::Waiting(until_ns) = self.state {
            self.channel.poll(now_ns, &mut |_, _| {})?;
            if until_ns <= now_ns {
                let joined = self.join(now_ns);
                self.put_off(joined, now_ns)?;
            }
            return Ok(0);
        }
        if matches!(self.state, State::Joining(_)) {
            self.channel.poll(now_ns, &mut |_, _| {})?;
            let read = self.read_snapshot(now_ns, on_message);
            self.put_off(read, now_ns)?;
            return Ok(0);
        }
        let Self { channel, book, report, has_books, .. } = self;
        let mut wrong = None;
        let polled = channel.poll(now_ns, &mut |number, message| {
            if wrong.is_some() {
                return;
            }
            if *has_books && let Err(error) = book.apply(number, message) {
                wrong = Some(error);
                return;
            }
            report.first_message.get_or_insert(number);
            report.messages += 1;
            on_message(Delivered::Feed(number, message));
        });
        if let Some(error) = wrong {
            return Err(error.into());
        }
        let is_lost = channel.stalled_ns(now_ns) >= GAP_NS_MAX;
        match polled {
            Err(FeedSubscriberError::Receive(FeedReceiverError::Stream(
                ReceiveError::SessionChanged { .. },
            ))) if self.snapshots.is_some() => self.report.session_changes += 1,
            Ok(_) if is_lost && self.snapshots.is_some() => self.report.lost_gaps += 1,
            polled => return polled,
        }
        let joined = self.join(now_ns);
        self.put_off(joined, now_ns)?;
        Ok(0)
    }

    /// The books, once there are any: after the first snapshot, or from the first message on.
    pub fn book(&self) -> Option<&FeedBook> {
        self.has_books.then_some(&self.book)
    }

    /// The books, as [`book`](Self::book) shows them.
    pub fn into_book(self) -> Option<FeedBook> {
        self.has_books.then_some(self.book)
    }

    /// True while the feed is applied; false while a snapshot is taken.
    pub const fn is_live(&self) -> bool {
        matches!(self.state, State::Live)
    }

    /// The feed's session, once it is known.
    pub fn session(&self) -> Option<Session> {
        match &self.channel {
            FeedChannel::Datagrams(receiver) => receiver.session(),
            FeedChannel::Tcp(feed) => {
                feed.client.as_ref()?.session_name().map(|session| *session.as_bytes())
            }
        }
    }

    /// True once the session is over and all its messages were handed on.
    pub fn is_ended(&self) -> bool {
        match &self.channel {
            FeedChannel::Datagrams(receiver) => self.is_live() && receiver.is_ended(),
            FeedChannel::Tcp(_) => false,
        }
    }

    /// The counters so far.
    pub const fn report(&self) -> JoinReport {
        self.report
    }

    /// The channel by which the feed is received.
    pub const fn channel(&self) -> &FeedChannel<S, T> {
        &self.channel
    }

    fn join(&mut self, now_ns: u64) -> Result<(), FeedSubscriberError> {
        self.channel.hold();
        // If it cannot connect, it waits.
        self.state = State::Waiting(now_ns + RETRY_NS);
        let connect = self.snapshots.as_mut().expect("it joins by snapshots");
        let client = connect(Begin { session: self.channel.heard(), number: 1 }, now_ns)
            .map_err(|source| FeedSubscriberError::Service { service: SNAPSHOT, source })?;
        let joining = Joining { client, book: FeedBook::new(), message_count: 0, next: None };
        self.state = State::Joining(Box::new(joining));
        Ok(())
    }

    fn read_snapshot(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(Delivered<'_>),
    ) -> Result<(), FeedSubscriberError> {
        let State::Joining(joining) = &mut self.state else { return Ok(()) };
        let Joining { client, book, message_count, next } = &mut **joining;
        for _ in 0..TURNS_PER_POLL {
            let mut wrong = None;
            let polled = client.poll(now_ns, &mut |number, message| {
                if let Some(end) = EndOfSnapshot::read(message) {
                    *next = Some(end);
                } else if let Err(error) = book.apply(number, message) {
                    wrong.get_or_insert(error);
                } else {
                    *message_count += 1;
                    on_message(Delivered::Snapshot(message));
                }
            });
            if let Some(error) = wrong {
                return Err(error.into());
            }
            if let Some(next) = *next {
                let session = client.session_name().map(|session| *session.as_bytes());
                if let Some(heard) = self.channel.heard()
                    && session.is_some_and(|session| session != heard)
                {
                    // The packets are a delta stream: its own snapshot has its instruments and numbers.
                    self.report.session_changes += 1;
                    return self.join(now_ns);
                }
                self.report.snapshots += 1;
                self.report.snapshot_messages += *message_count;
                self.report.first_message = Some(next);
                (self.book, self.has_books) = (std::mem::take(book), true);
                self.channel.begin_at(session, next);
                self.state = State::Live;
                return Ok(());
            }
            let failed = |source| FeedSubscriberError::Service { service: SNAPSHOT, source };
            if let ClientState::Rejected(reason) = client.state() {
                let text = client.debug_text().map(str::to_owned);
                // The session may have been that of packets from before the venue started again.
                self.channel.forget_heard();
                return Err(FeedSubscriberError::Rejected { service: SNAPSHOT, reason, text });
            }
            if polled.map_err(failed)? == 0 {
                break;
            }
        }
        if client.state() == ClientState::Ended {
            let source = ClientError::Closed;
            return Err(FeedSubscriberError::Service { service: SNAPSHOT, source });
        }
        Ok(())
    }

    /// Postpones a join that failed, unless it is the first.
    fn put_off(
        &mut self,
        joined: Result<(), FeedSubscriberError>,
        now_ns: u64,
    ) -> Result<(), FeedSubscriberError> {
        match joined {
            Err(FeedSubscriberError::Service { .. } | FeedSubscriberError::Rejected { .. })
                if self.report.snapshots + self.report.session_changes > 0 =>
            {
                self.report.failed_joins += 1;
                self.state = State::Waiting(now_ns + RETRY_NS);
                Ok(())
            }
            joined => joined,
        }
    }
}

impl<S: DatagramSocket, T: Read + Write> FeedChannel<S, T> {
    /// The session of the newest packet, if the feed comes in packets.
    fn heard(&self) -> Option<Session> {
        match self {
            Self::Datagrams(receiver) => receiver.heard(),
            Self::Tcp(_) => None,
        }
    }

    fn forget_heard(&mut self) {
        match self {
            Self::Datagrams(receiver) => receiver.forget_heard(),
            Self::Tcp(_) => {}
        }
    }

    fn hold(&mut self) {
        match self {
            Self::Datagrams(receiver) => receiver.hold(),
            Self::Tcp(feed) => (feed.client, feed.next) = (None, None),
        }
    }

    fn begin_at(&mut self, session: Option<Session>, number: u64) {
        match self {
            Self::Datagrams(receiver) => receiver.begin_at(session, number),
            Self::Tcp(feed) => feed.next = Some(number),
        }
    }

    fn begin_next(&mut self) {
        match self {
            Self::Datagrams(receiver) => receiver.begin_next(),
            // Number 0 stands for the newest message.
            Self::Tcp(feed) => feed.next = Some(0),
        }
    }

    fn stalled_ns(&self, now_ns: u64) -> u64 {
        match self {
            Self::Datagrams(receiver) => receiver.stalled_ns(now_ns),
            Self::Tcp(_) => 0,
        }
    }

    fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(u64, &[u8]),
    ) -> Result<usize, FeedSubscriberError> {
        match self {
            Self::Datagrams(receiver) => Ok(receiver.poll(now_ns, on_message)?),
            Self::Tcp(feed) => feed.poll(now_ns, on_message),
        }
    }
}

impl<T: Read + Write> TcpFeed<T> {
    /// A channel that connects once the first message is known.
    pub fn new(connect: Connect<T>) -> Self {
        Self { connect, client: None, next: None, was_connected: false, retry_ns: 0 }
    }

    /// Takes available messages; connects, and reconnects after the connection broke.
    fn poll(
        &mut self,
        now_ns: u64,
        on_message: &mut impl FnMut(u64, &[u8]),
    ) -> Result<usize, FeedSubscriberError> {
        let Some(next) = &mut self.next else { return Ok(0) };
        let Some(client) = &mut self.client else {
            if now_ns < self.retry_ns {
                return Ok(0);
            }
            self.retry_ns = now_ns + RETRY_NS;
            match (self.connect)(Begin { session: None, number: *next }, now_ns) {
                Ok(client) => (self.client, self.was_connected) = (Some(client), true),
                // A venue that restarts is back soon.
                Err(_) if self.was_connected => {}
                Err(source) => {
                    return Err(FeedSubscriberError::Service { service: TCP_FEED, source });
                }
            }
            return Ok(0);
        };
        let mut other = None;
        let polled = client.poll(now_ns, &mut |number, message| {
            // The newest message was requested by 0, so any number is accepted.
            if *next != 0 && number != *next {
                other.get_or_insert(number);
            } else if other.is_none() {
                *next = number.saturating_add(1);
                on_message(number, message);
            }
        });
        if let Some(number) = other {
            return Err(FeedSubscriberError::Ended(format!(
                "it continues with message {number}, but {next} was requested"
            )));
        }
        if let ClientState::Rejected(reason) = client.state() {
            let text = client.debug_text().map(str::to_owned);
            return Err(FeedSubscriberError::Rejected { service: TCP_FEED, reason, text });
        }
        match polled {
            Ok(delivered) => Ok(delivered),
            Err(ClientError::Closed) if client.debug_text().is_some() => {
                Err(FeedSubscriberError::Ended(client.debug_text().unwrap_or_default().to_owned()))
            }
            // The connection broke, or the venue stopped: the session goes on when the venue is back.
            Err(_) => {
                self.client = None;
                Ok(0)
            }
        }
    }
}
