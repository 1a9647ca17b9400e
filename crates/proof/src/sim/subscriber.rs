//! Simulated subscribers of market data: each joins by snapshots, in its own way, over a network that loses, repeats,
//! reorders, truncates and disconnects.
//!
//! Invariant: their faults come from random numbers of their own, so the participants of a seed suffer the same faults
//! without them.

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{self, Read, Write},
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, Mutex, MutexGuard},
};

use client::{
    participant::{ClientError, DatagramSocket, TcpClient},
    subscriber::{
        Begin, Connect, Delivered, FeedBook, FeedChannel, FeedReceiver, FeedReceiverError,
        FeedSubscriber, FeedSubscriberError, Start, TcpFeed,
    },
};
use gateway::{
    ConnectionId,
    fake::{FakeDatagram, FakeStream, Transit},
};
use wire::{
    moldudp64::{ReceiveError, ReceiverLimits},
    soupbintcp::{LoginRequest, Timers},
};

use super::{
    client::{Partition, transmit},
    faults::{FaultKind, FaultSet, Faults},
    outcome::Counts,
};
use crate::rng::Rng;

/// How long a subscriber that could not continue waits before it begins anew, in nanoseconds.
const RETRY_NS: u64 = 50_000_000;
/// The most bytes that a read takes from a connection, while faults strike.
const READ_MAX: u64 = 4_096;
/// The most bytes of a connection that wait for a subscriber.
const ROOM: usize = 64 << 10;

/// The way in which a subscriber takes market data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The feed, in datagrams.
    Feed,
    /// A delta stream of all instruments, in datagrams.
    Stream,
    /// The feed over TCP.
    Tcp,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Feed, Self::Stream, Self::Tcp];

    /// The address that its datagrams go to, and its connections come from.
    pub fn address(self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 51_000 + self as u16))
    }
}

/// The services of a venue between two kills.
#[derive(Clone)]
pub struct FeedDoors {
    pub snapshot: FakeStream,
    pub stream: FakeStream,
}

/// All subscribers of a run.
pub struct Subscribers {
    all: Vec<SimulatedSubscriber>,
    pub faults: Faults,
    rng: Rng,
}

impl Subscribers {
    /// Creates a subscriber of each way; all log in with this name and password.
    pub fn new(seed: u64, faults: FaultSet, (name, password): (&str, &str)) -> Self {
        let mut rng = Rng::new(seed);
        let login = LoginRequest::new(name, password).expect("the configuration was checked");
        let one = |way| SimulatedSubscriber::new(way, login, Rng::new(rng.next_u64()));
        let all = Way::ALL.map(one).into();
        Self { all, faults: Faults::new(rng.next_u64(), faults), rng }
    }

    pub fn venue_died(&mut self) {
        self.all.iter_mut().for_each(|subscriber| subscriber.link().venue_died());
    }

    pub fn venue_started(&mut self, doors: &FeedDoors) {
        self.all.iter_mut().for_each(|subscriber| subscriber.link().doors = Some(doors.clone()));
    }

    /// Sends a datagram of the feed to all its subscribers.
    pub fn feed(&mut self, datagram: &[u8], now_ns: u64) {
        let Self { all, faults, rng } = self;
        for subscriber in all.iter_mut().filter(|subscriber| subscriber.way == Way::Feed) {
            subscriber.incoming(datagram, false, faults, rng, now_ns);
        }
    }

    /// Sends a datagram of the stream, or an answer to a request. False if no subscriber has the address.
    pub fn datagram(
        &mut self,
        to: SocketAddr,
        datagram: &[u8],
        is_answer: bool,
        now_ns: u64,
    ) -> bool {
        let Self { all, faults, rng } = self;
        let subscriber = all.iter_mut().find(|subscriber| subscriber.way.address() == to);
        let Some(subscriber) = subscriber else { return false };
        subscriber.incoming(datagram, is_answer, faults, rng, now_ns);
        true
    }

    /// # Errors
    /// A book is wrong, or the venue broke a protocol.
    pub fn turn(&mut self, requests: &FakeDatagram, now_ns: u64) -> Result<(), String> {
        let Self { all, faults, rng } = self;
        for subscriber in all {
            subscriber.turn(requests, faults, rng, now_ns)?;
        }
        Ok(())
    }

    /// True if the books of each have all messages of the feed and of the stream before these numbers.
    pub fn are_caught_up(&self, next_of_feed: u64, next_of_stream: u64) -> bool {
        self.all.iter().all(|it| it.is_caught_up(next_of_feed, next_of_stream))
    }

    /// The books of each subscriber.
    pub fn books(&self) -> impl Iterator<Item = (Way, Option<&FeedBook>)> {
        self.all.iter().map(|it| (it.way, it.subscriber.as_ref().and_then(FeedSubscriber::book)))
    }

    /// Adds the counts of all subscribers.
    pub fn count(&self, counts: &mut Counts) {
        for subscriber in &self.all {
            let mut report = subscriber.ended;
            report.add(subscriber.subscriber.as_ref());
            counts.joins += report.joins;
            counts.session_changes += report.session_changes;
            counts.lost_gaps += report.lost_gaps;
            counts.subscriptions += subscriber.subscriptions;
        }
    }
}

/// Counts of subscriptions.
#[derive(Clone, Copy, Debug, Default)]
struct Report {
    joins: u64,
    session_changes: u64,
    lost_gaps: u64,
}

impl Report {
    fn add(&mut self, subscriber: Option<&FeedSubscriber<Mailbox, Pipe>>) {
        let Some(report) = subscriber.map(FeedSubscriber::report) else { return };
        self.joins += report.snapshots;
        self.session_changes += report.session_changes;
        self.lost_gaps += report.lost_gaps;
    }
}

struct SimulatedSubscriber {
    way: Way,
    login: LoginRequest,
    link: Arc<Mutex<Link>>,
    feed: Mailbox,
    answers: Mailbox,
    /// Datagrams on the way to it: those of the feed or stream, then answers.
    to_client: [Transit<Vec<u8>>; 2],
    to_venue: Transit<Vec<u8>>,
    partition: Partition,
    stuck_until_ns: u64,
    subscriber: Option<FeedSubscriber<Mailbox, Pipe>>,
    retry_ns: u64,
    /// Number of the next message, once the subscriber has books.
    next: Option<u64>,
    /// Counts of the subscriptions before this one.
    ended: Report,
    subscriptions: u64,
}

impl SimulatedSubscriber {
    fn new(way: Way, login: LoginRequest, rng: Rng) -> Self {
        let link = Link { doors: None, life: 0, is_calm: true, is_stuck: false, open: None, rng };
        Self {
            way,
            login,
            link: Arc::new(Mutex::new(link)),
            feed: Mailbox::default(),
            answers: Mailbox::default(),
            to_client: Default::default(),
            to_venue: Transit::new(),
            partition: Partition::default(),
            stuck_until_ns: 0,
            subscriber: None,
            retry_ns: 0,
            next: None,
            ended: Report::default(),
            subscriptions: 0,
        }
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        lock(&self.link)
    }

    fn incoming(
        &mut self,
        datagram: &[u8],
        is_answer: bool,
        faults: &mut Faults,
        rng: &mut Rng,
        now_ns: u64,
    ) {
        if self.partition.reaches_client(faults, now_ns) {
            let datagram = cut_short(datagram, faults);
            transmit(&mut self.to_client[usize::from(is_answer)], datagram, faults, rng, now_ns);
        }
    }

    /// Applies the faults of its connections that strike now.
    fn suffer(&mut self, faults: &mut Faults, now_ns: u64) {
        self.partition.may_begin(faults, now_ns);
        if faults.strikes(FaultKind::StuckClient) {
            self.stuck_until_ns = now_ns + faults.below(FaultKind::StuckClient, 5_000_000_000);
        }
        let mut link = self.link();
        link.is_calm = !faults.on;
        link.is_stuck = faults.on && now_ns < self.stuck_until_ns;
        let Some((network, connection)) = link.open.clone() else { return };
        network.set_room(connection, if link.is_stuck { 1 } else { ROOM });
        if faults.strikes(FaultKind::CutInReply) {
            network.cut_after(connection, faults.below(FaultKind::CutInReply, 3_000) as usize);
        }
        if faults.strikes(FaultKind::Cut) {
            network.cut(connection);
        }
    }

    fn turn(
        &mut self,
        requests: &FakeDatagram,
        faults: &mut Faults,
        rng: &mut Rng,
        now_ns: u64,
    ) -> Result<(), String> {
        self.suffer(faults, now_ns);
        for (transit, mailbox) in self.to_client.iter_mut().zip([&self.feed, &self.answers]) {
            mailbox.0.borrow_mut().incoming.extend(std::iter::from_fn(|| transit.arrived(now_ns)));
        }
        while let Some(datagram) = self.to_venue.arrived(now_ns) {
            requests.deliver(self.way.address(), &datagram);
        }
        if self.subscriber.is_none() && self.retry_ns <= now_ns {
            self.begin(now_ns);
        }
        self.poll(now_ns)?;
        let asked = std::mem::take(&mut self.answers.0.borrow_mut().outgoing);
        for datagram in asked {
            if self.partition.reaches_venue(faults, now_ns) {
                let datagram = cut_short(&datagram, faults);
                transmit(&mut self.to_venue, datagram, faults, rng, now_ns);
            }
        }
        Ok(())
    }

    fn begin(&mut self, now_ns: u64) {
        let channel = match self.way {
            Way::Feed | Way::Stream => FeedChannel::Datagrams(FeedReceiver::over(
                self.feed.clone(),
                Some(self.answers.clone()),
                1,
                ReceiverLimits::default(),
            )),
            Way::Tcp => FeedChannel::Tcp(TcpFeed::new(self.connect(|doors| &doors.stream))),
        };
        let snapshots = Start::Snapshot(self.connect(|doors| &doors.snapshot));
        self.next = None;
        match FeedSubscriber::start(channel, snapshots, now_ns) {
            Ok(subscriber) => {
                self.subscriptions += 1;
                self.subscriber = Some(subscriber);
            }
            // The venue is down.
            Err(_) => self.retry_ns = now_ns + RETRY_NS,
        }
    }

    fn poll(&mut self, now_ns: u64) -> Result<(), String> {
        let Some(subscriber) = &mut self.subscriber else { return Ok(()) };
        let (way, next) = (self.way, &mut self.next);
        let snapshots = subscriber.report().snapshots;
        let mut skipped = None;
        let polled = subscriber.poll(now_ns, &mut |delivered| {
            if let Delivered::Feed(number, _) = delivered {
                if next.is_some_and(|next| next != number) {
                    skipped.get_or_insert((*next, number));
                }
                *next = Some(number + 1);
            }
        });
        if let Some((next, number)) = skipped {
            return Err(format!("subscriber {way:?} got message {number} where {next:?} is next"));
        }
        let report = subscriber.report();
        if report.snapshots > snapshots {
            *next = report.first_message;
        }
        let Err(error) = polled else { return Ok(()) };
        let is_venues_fault = match &error {
            FeedSubscriberError::Book(_) => true,
            FeedSubscriberError::Receive(FeedReceiverError::Stream(
                ReceiveError::SessionChanged { .. },
            )) => false,
            FeedSubscriberError::Receive(_) => true,
            FeedSubscriberError::Service { source, .. } => {
                matches!(source, ClientError::Violation(_))
            }
            // The venue reports that data is gone, or that other clients have the place. The subscriber begins anew.
            FeedSubscriberError::Rejected { .. } | FeedSubscriberError::Ended(_) => false,
        };
        if is_venues_fault {
            return Err(format!("subscriber {way:?}: {error}"));
        }
        self.ended.add(self.subscriber.as_ref());
        self.subscriber = None;
        self.retry_ns = now_ns + RETRY_NS;
        Ok(())
    }

    fn is_caught_up(&self, next_of_feed: u64, next_of_stream: u64) -> bool {
        let next = match self.way {
            Way::Feed | Way::Tcp => next_of_feed,
            Way::Stream => next_of_stream,
        };
        self.subscriber.as_ref().is_some_and(FeedSubscriber::is_live) && self.next == Some(next)
    }

    /// A function that connects to a service of the venue running at that time.
    fn connect(&self, door: fn(&FeedDoors) -> &FakeStream) -> Connect<Pipe> {
        let (link, login, from) = (Arc::clone(&self.link), self.login, self.way.address());
        Box::new(move |begin: Begin, now_ns| {
            let mut open = lock(&link);
            let Some(network) = open.doors.as_ref().map(|doors| door(doors).clone()) else {
                let source = io::ErrorKind::ConnectionRefused.into();
                return Err(ClientError::Connect { address: from, source });
            };
            let connection = network.connect(from);
            open.open = Some((network.clone(), connection));
            let life = open.life;
            // The client may write to the pipe at once.
            drop(open);
            let pipe = Pipe { network, connection, life, link: Arc::clone(&link) };
            Ok(TcpClient::over(pipe, begin.login(login), Timers::default(), now_ns))
        })
    }
}

/// The datagram, or its beginning.
fn cut_short(datagram: &[u8], faults: &mut Faults) -> Vec<u8> {
    let kind = FaultKind::Truncation;
    let len = match faults.strikes(kind) {
        true => faults.below(kind, datagram.len() as u64 + 1) as usize,
        false => datagram.len(),
    };
    datagram[..len].to_vec()
}

/// The state that a subscriber's connections share.
struct Link {
    /// `None` while the venue is down.
    doors: Option<FeedDoors>,
    /// The number of times the venue ended: an earlier connection is broken.
    life: u64,
    /// True if no fault strikes.
    is_calm: bool,
    /// True if the subscriber reads nothing.
    is_stuck: bool,
    /// The newest connection.
    open: Option<(FakeStream, ConnectionId)>,
    rng: Rng,
}

impl Link {
    fn venue_died(&mut self) {
        (self.doors, self.open) = (None, None);
        self.life += 1;
    }
}

fn lock(link: &Mutex<Link>) -> MutexGuard<'_, Link> {
    link.lock().expect("a run has one thread")
}

/// A subscriber's end of a connection.
struct Pipe {
    network: FakeStream,
    connection: ConnectionId,
    life: u64,
    link: Arc<Mutex<Link>>,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut link = lock(&self.link);
        if link.life != self.life {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if link.is_stuck {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = if link.is_calm { u64::MAX } else { 1 + link.rng.below(READ_MAX) };
        let most = buffer.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        let bytes = self.network.take(self.connection, most);
        if bytes.is_empty() && !self.network.is_finished(self.connection) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if lock(&self.link).life != self.life {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.network.deliver(self.connection, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.network.cut(self.connection);
    }
}

/// A subscriber's socket.
#[derive(Clone, Default)]
struct Mailbox(Rc<RefCell<Mail>>);

#[derive(Default)]
struct Mail {
    incoming: VecDeque<Vec<u8>>,
    outgoing: Vec<Vec<u8>>,
}

impl DatagramSocket for Mailbox {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().outgoing.push(datagram.to_vec());
        Ok(())
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let datagram = self.0.borrow_mut().incoming.pop_front();
        let datagram = datagram.ok_or(io::ErrorKind::WouldBlock)?;
        buffer[..datagram.len()].copy_from_slice(&datagram);
        Ok(datagram.len())
    }
}
