//! The subscribers of one TCP listener: their admission, and the messages to each, from its own place.
//!
//! Invariant: a subscriber holds only its place and 64 KiB; one that is slow, silent or broken is cut off and costs the
//! others nothing. A subscriber whose socket is full is not visited until the socket takes bytes again, except for its
//! timers.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc};

use ring::AgentError;
use wire::{
    glimpse::EndOfSnapshot,
    layout::IntoBytes,
    soupbintcp::{LoginRejectReason, LoginRequest, Server, ServerHappening},
};

use super::{
    FeedServerOptions, Stored,
    books::{FrozenBooks, Place},
};
use crate::{
    ConnectionId, FeedServerCounters, LoginFault, NetworkEvent, PasswordAsker, StreamNetwork,
    counters::Counter,
    logins::{Decided, Decision, Logins},
    network::SUBSCRIBER_BYTES_PER_TURN,
    order_entry::{
        admission::Strangers,
        connection::{Connection, OUTGOING_BYTES_MAX, ReadOutcome, Stage},
    },
    replay_store::Missing,
};

/// Subscribers of one listener at a time, and connections without a login beside them.
const LIVE_MAX: usize = 128;
const STRANGERS_MAX: usize = 64;
/// Connections without a login from one address.
const STRANGERS_PER_ADDRESS_MAX: usize = 32;
/// Connections that one user may have at a time.
const CONNECTIONS_PER_USER_MAX: usize = 32;
/// The most connections of one listener at a time.
pub const SUBSCRIBERS_MAX: usize = LIVE_MAX + STRANGERS_MAX;

/// Reads of one connection in one turn: a login is one, and subscribers send nothing more of interest.
const READS_PER_TURN: usize = 2;
const READ_BYTES: usize = 4096;
/// Logins that are answered in one turn after their check.
const LOGINS_PER_TURN: usize = 16;
/// Bytes that a packet adds to its message.
const PACKET_BYTES: usize = 3;
/// The interval between two checks of the timers, and of older messages that were read.
const TICK_NS: u64 = 10_000_000;
/// How long a connection that we have ended may take to read our last messages.
const CLOSING_NS: u64 = 1_000_000_000;
/// How long a snapshot may take.
const SNAPSHOT_NS_MAX: u64 = 60_000_000_000;

const SECOND: u64 = 1_000_000_000;

/// The service of a listener to its subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// A snapshot, then the end.
    Snapshot,
    /// The feed from any number on.
    Stream,
}

pub(super) struct Door<N> {
    network: N,
    service: Service,
    subscribers: Vec<Option<Box<Subscriber>>>,
    /// Places of the subscribers with work to do, each once: those without a login, then longest waiting first.
    queue: VecDeque<u32>,
    /// Places of the subscribers that have all messages, each once: new messages and time bring them back. A subscriber
    /// whose socket is full is not among them.
    idle: Vec<u32>,
    strangers: Strangers,
    logins: Logins<LoginRequest>,
    /// Connections of each user.
    of_user: Vec<usize>,
    live: usize,
    open: usize,
    /// Connections whose sockets were full at the last check of the timers.
    stalled: usize,
    ticked_ns: u64,
    events: Vec<NetworkEvent>,
    buffer: Box<[u8]>,
}

struct Subscriber {
    connection: Connection<Server>,
    user: Option<usize>,
    /// The delta stream of its messages or snapshot; `None` is the feed.
    stream: Option<usize>,
    snapshot: Option<Snapshot>,
    /// True if its place is in `idle`.
    is_idle: bool,
}

/// A snapshot being sent.
struct Snapshot {
    books: Arc<FrozenBooks>,
    /// The next part to send.
    place: Place,
    /// The deadline.
    until_ns: u64,
    /// Number of the first message to apply, in the feed or the stream.
    next: u64,
}

/// An admitted login: the user, the delta stream if it is one, and the number of the first message.
type Admission = (usize, Option<usize>, u64);

/// The next step for a subscriber that was served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// It has all messages.
    Idle,
    /// Its socket is full.
    Full,
    Again,
    Close,
}

impl<N: StreamNetwork> Door<N> {
    pub(super) fn new(network: N, service: Service, users: usize) -> Self {
        Self {
            network,
            service,
            subscribers: Vec::new(),
            queue: VecDeque::new(),
            idle: Vec::new(),
            strangers: Strangers::new(STRANGERS_MAX, STRANGERS_PER_ADDRESS_MAX),
            logins: Logins::new(5, 60 * SECOND, 60 * SECOND),
            of_user: vec![0; users],
            live: 0,
            open: 0,
            stalled: 0,
            ticked_ns: 0,
            events: Vec::new(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        }
    }

    pub(super) fn check_passwords_by(&mut self, asker: PasswordAsker) {
        self.logins.check_by(asker);
    }

    /// Connections open now.
    pub(super) const fn open(&self) -> usize {
        self.open
    }

    /// Connections whose sockets were full at the last check of the timers.
    pub(super) const fn stalled(&self) -> usize {
        self.stalled
    }

    /// One turn. `has_news` is true if there are new messages since the last.
    pub(super) fn turn(
        &mut self,
        options: &FeedServerOptions,
        stored: &mut Stored,
        counters: &FeedServerCounters,
        has_news: bool,
        now_ns: u64,
    ) -> Result<usize, AgentError> {
        let mut work = self.take_network_events(options, counters, now_ns)?;
        if self.logins.is_busy() {
            work += self.answer_logins(options, stored, counters, now_ns);
        }
        let is_time = now_ns.saturating_sub(self.ticked_ns) >= TICK_NS;
        if is_time {
            self.ticked_ns = now_ns;
            work += self.tick(options, counters, now_ns);
        }
        if is_time || (has_news && self.service == Service::Stream) {
            let mut idle = std::mem::take(&mut self.idle);
            for index in idle.drain(..) {
                if let Some(subscriber) = &mut self.subscribers[index as usize] {
                    subscriber.is_idle = false;
                }
                self.enqueue(index);
            }
            self.idle = idle;
        }
        let mut waiting = std::mem::take(&mut self.queue);
        let mut written = 0;
        while let Some(index) = waiting.front().copied()
            && (written < SUBSCRIBER_BYTES_PER_TURN || self.is_pending(index))
        {
            waiting.pop_front();
            let Some(mut subscriber) = self.subscribers[index as usize].take() else { continue };
            subscriber.connection.queued = false;
            let before = written;
            counters.served.add(1);
            let served =
                self.serve(&mut subscriber, options, stored, counters, now_ns, &mut written);
            work +=
                usize::from(written > before || matches!(served, Served::Again | Served::Close));
            if served == Served::Close {
                self.drop_subscriber(&subscriber);
                continue;
            }
            if served == Served::Idle && !subscriber.is_idle {
                subscriber.is_idle = true;
                self.idle.push(index);
            }
            self.subscribers[index as usize] = Some(subscriber);
            if served == Served::Again {
                self.enqueue(index);
            }
        }
        waiting.append(&mut self.queue);
        self.queue = waiting;
        counters.bytes_out.add(written as u64);
        Ok(work)
    }

    /// Closes all connections, without an end of session: the session goes on when the venue does.
    pub(super) fn close(&mut self) {
        for subscriber in self.subscribers.drain(..).flatten() {
            self.network.close(subscriber.connection.id);
        }
    }

    fn take_network_events(
        &mut self,
        options: &FeedServerOptions,
        counters: &FeedServerCounters,
        now_ns: u64,
    ) -> Result<usize, AgentError> {
        let mut events = std::mem::take(&mut self.events);
        self.network
            .poll(&mut events)
            .map_err(|error| format!("a listener of market data failed: {error}"))?;
        let count = events.len();
        for event in events.drain(..) {
            match event {
                NetworkEvent::Accepted(id, address) => {
                    counters.accepted.add(1);
                    self.accept(id, address, options, counters, now_ns);
                }
                NetworkEvent::Refused(_) => counters.turned_away.add(1),
                NetworkEvent::Readable(id) => self.wake(id, |it| it.readable = true),
                NetworkEvent::Ending(id) => self.wake(id, |it| it.ending = true),
                NetworkEvent::Writable(id) => self.wake(id, |it| it.writable = true),
            }
        }
        self.events = events;
        Ok(count)
    }

    fn accept(
        &mut self,
        id: ConnectionId,
        address: SocketAddr,
        options: &FeedServerOptions,
        counters: &FeedServerCounters,
        now_ns: u64,
    ) {
        if let Some(leaves) = self.strangers.add(id, address.ip())
            && let Some(subscriber) = self.subscribers[leaves.index as usize].take()
        {
            counters.turned_away.add(1);
            self.drop_subscriber(&subscriber);
        }
        let index = id.index as usize;
        if self.subscribers.len() <= index {
            self.subscribers.resize_with(index + 1, || None);
        }
        let mut connection = Connection::new(id, address, Server::new(options.timers, now_ns));
        connection.readable = true;
        self.open += 1;
        self.subscribers[index] = Some(Box::new(Subscriber {
            connection,
            user: None,
            stream: None,
            snapshot: None,
            is_idle: false,
        }));
        self.enqueue(id.index);
    }

    fn wake(&mut self, id: ConnectionId, note: impl FnOnce(&mut Connection<Server>)) {
        let place = self.subscribers.get_mut(id.index as usize).and_then(Option::as_mut);
        if let Some(subscriber) = place.filter(|it| it.connection.id == id) {
            note(&mut subscriber.connection);
            self.enqueue(id.index);
        }
    }

    fn enqueue(&mut self, index: u32) {
        if let Some(subscriber) = &mut self.subscribers[index as usize]
            && !subscriber.connection.queued
        {
            subscriber.connection.queued = true;
            // A login that has been sent is read before its sender may have to make room for newcomers.
            match subscriber.connection.stage {
                Stage::Pending => self.queue.push_front(index),
                Stage::Live(_) | Stage::Closing { .. } => self.queue.push_back(index),
            }
        }
    }

    /// True if the connection at this place has not logged in.
    fn is_pending(&self, index: u32) -> bool {
        let subscriber = self.subscribers[index as usize].as_ref();
        subscriber.is_some_and(|it| matches!(it.connection.stage, Stage::Pending))
    }

    fn serve(
        &mut self,
        subscriber: &mut Subscriber,
        options: &FeedServerOptions,
        stored: &mut Stored,
        counters: &FeedServerCounters,
        now_ns: u64,
        written: &mut usize,
    ) -> Served {
        let was_pending = matches!(subscriber.connection.stage, Stage::Pending);
        for _ in 0..READS_PER_TURN {
            match subscriber.connection.read(&mut self.network, &mut self.buffer) {
                ReadOutcome::Bytes(count) => {
                    if !self.hear(subscriber, count, options, stored, counters, now_ns) {
                        return Served::Close;
                    }
                }
                ReadOutcome::Nothing => break,
                ReadOutcome::Ended => return Served::Close,
            }
        }
        let has_more = match subscriber.connection.stage {
            // Only the answer to its login: all logins are read before any subscriber is sent more.
            Stage::Live(_) if was_pending => true,
            Stage::Live(_) => fill(subscriber, stored, counters, now_ns),
            Stage::Pending | Stage::Closing { .. } => false,
        };
        let connection = &mut subscriber.connection;
        let Ok(count) =
            connection.write_by(Server::outgoing, Server::sent, &mut self.network, now_ns)
        else {
            return Served::Close;
        };
        *written += count;
        if !connection.session.outgoing().is_empty() {
            // `Writable` brings it back.
            return Served::Full;
        }
        if let Stage::Closing { finished: finished @ false, .. } = &mut connection.stage {
            *finished = true;
            self.network.finish(connection.id);
        }
        let may_read = connection.readable && !connection.awaits_login;
        if has_more || may_read { Served::Again } else { Served::Idle }
    }

    /// Takes the bytes that were read. False if the connection is over.
    fn hear(
        &mut self,
        subscriber: &mut Subscriber,
        count: usize,
        options: &FeedServerOptions,
        stored: &mut Stored,
        counters: &FeedServerCounters,
        now_ns: u64,
    ) -> bool {
        if matches!(subscriber.connection.stage, Stage::Closing { .. }) {
            return true;
        }
        let mut result = subscriber.connection.session.receive(&self.buffer[..count], now_ns);
        while result.is_ok() {
            let happening = match subscriber.connection.session.next() {
                Ok(Some(happening)) => happening,
                Ok(None) => return true,
                Err(violation) => {
                    result = Err(violation);
                    break;
                }
            };
            match happening {
                ServerHappening::Login(request) => {
                    let connection = &mut subscriber.connection;
                    let from = (connection.id, connection.address.ip());
                    let named = (&request.username, &request.password);
                    match self.logins.begin(&options.users, from, named, request, now_ns) {
                        Decision::Known(request, user) => {
                            let login = self.admit(user, &request, options, stored);
                            self.answer_login(subscriber, login, options, stored, counters, now_ns);
                        }
                        Decision::Awaited => {
                            connection.awaits_login = true;
                            self.strangers.set_asks(connection.id, true);
                        }
                    }
                }
                // No message of a subscriber changes the messages to it.
                ServerHappening::Message(_) | ServerHappening::Taken => {}
                ServerHappening::Logout => return false,
            }
        }
        if let Err(violation) = result {
            counters.violations.add(1);
            end(subscriber, &violation.to_string(), now_ns);
        }
        true
    }

    /// Answers logins whose passwords were checked, and begins the next check.
    fn answer_logins(
        &mut self,
        options: &FeedServerOptions,
        stored: &mut Stored,
        counters: &FeedServerCounters,
        now_ns: u64,
    ) -> usize {
        let mut work = 0;
        while work < LOGINS_PER_TURN
            && let Some(Decided { connection: id, login: request, outcome }) =
                self.logins.next(&options.users, now_ns)
        {
            work += 1;
            let place = self.subscribers[id.index as usize].take();
            let mut subscriber = place.expect("who has left is not told of its login");
            let connection = &mut subscriber.connection;
            assert!(connection.id == id && connection.awaits_login, "{id} waits for its login");
            connection.awaits_login = false;
            self.strangers.set_asks(id, false);
            let login = self.admit(outcome, &request, options, stored);
            self.answer_login(&mut subscriber, login, options, stored, counters, now_ns);
            self.subscribers[id.index as usize] = Some(subscriber);
            self.enqueue(id.index);
        }
        work
    }

    fn answer_login(
        &mut self,
        subscriber: &mut Subscriber,
        login: Result<Admission, (LoginRejectReason, String)>,
        options: &FeedServerOptions,
        stored: &mut Stored,
        counters: &FeedServerCounters,
        now_ns: u64,
    ) {
        match login {
            Ok((user, stream, first)) => {
                let connection = &mut subscriber.connection;
                let session =
                    stream.map_or(&options.session, |stream| &options.streams[stream].session);
                connection.session.accept(session, first, now_ns);
                subscriber.stream = stream;
                connection.stage = Stage::Live(user);
                connection.next_reply = first;
                subscriber.user = Some(user);
                self.of_user[user] += 1;
                self.live += 1;
                self.strangers.remove(connection.id);
                match self.service {
                    Service::Stream => counters.streams.add(1),
                    Service::Snapshot => {
                        counters.snapshots.add(1);
                        subscriber.snapshot = Some(Snapshot {
                            books: stored.books.freeze(),
                            place: Place::default(),
                            until_ns: now_ns + SNAPSHOT_NS_MAX,
                            next: stored.next_of(stream),
                        });
                        counters.copies.set(stored.books.copies());
                    }
                }
            }
            Err((reason, text)) => {
                counters.logins_rejected.add(1);
                let server = &mut subscriber.connection.session;
                if !text.is_empty() {
                    server.send_debug(&text, now_ns);
                }
                server.reject(reason, now_ns);
                begin_closing(subscriber, now_ns);
            }
        }
    }

    /// Admits a user whose password was right.
    fn admit(
        &self,
        user: Result<usize, LoginFault>,
        request: &LoginRequest,
        options: &FeedServerOptions,
        stored: &Stored,
    ) -> Result<Admission, (LoginRejectReason, String)> {
        use LoginRejectReason::{NotAuthorized, SessionNotAvailable};

        let Ok(user) = user else { return Err((NotAuthorized, String::new())) };
        let refused = |text: String| Err((SessionNotAvailable, text));
        let session = request.session.as_str().as_bytes();
        let open = options.session.trim_ascii();
        let stream =
            stored.session_of(if session.is_empty() { open } else { session }, &options.session);
        let Some(stream) = stream else {
            let open = String::from_utf8_lossy(open);
            return refused(format!("there is no such session; {open} is open"));
        };
        if self.live >= LIVE_MAX || self.of_user[user] >= CONNECTIONS_PER_USER_MAX {
            return refused("too many subscribers; try again later".into());
        }
        let (next, first_kept) = (stored.next_of(stream), stored.first_kept_of(stream));
        match (self.service, request.sequence_number) {
            (Service::Snapshot, None | Some(0 | 1)) => Ok((user, stream, 1)),
            (Service::Snapshot, Some(_)) => refused("a snapshot begins with message 1".into()),
            (Service::Stream, Some(0)) => Ok((user, stream, (next - 1).max(1))),
            (Service::Stream, number) => match number.unwrap_or(1) {
                first if first > next => refused(format!("the next message is {next}")),
                first if first < first_kept => refused(format!(
                    "messages before {first_kept} are no longer {}; take a snapshot",
                    place_of(stream)
                )),
                first => Ok((user, stream, first)),
            },
        }
    }

    /// Checks every connection's timers.
    fn tick(
        &mut self,
        options: &FeedServerOptions,
        counters: &FeedServerCounters,
        now_ns: u64,
    ) -> usize {
        let mut work = 0;
        self.stalled = 0;
        for index in 0..self.subscribers.len() {
            let Some(mut subscriber) = self.subscribers[index].take() else { continue };
            let Some(counter) = timed_out(&mut subscriber, options, counters, now_ns) else {
                self.stalled += usize::from(subscriber.connection.blocked_since_ns.is_some());
                self.subscribers[index] = Some(subscriber);
                continue;
            };
            counter.add(1);
            work += 1;
            self.drop_subscriber(&subscriber);
        }
        work
    }

    fn drop_subscriber(&mut self, subscriber: &Subscriber) {
        self.open -= 1;
        if subscriber.connection.awaits_login {
            self.logins.forget(subscriber.connection.id);
        }
        self.network.close(subscriber.connection.id);
        self.strangers.remove(subscriber.connection.id);
        if let Some(user) = subscriber.user {
            self.of_user[user] -= 1;
            self.live -= 1;
        }
    }
}

/// Adds the next messages to the bytes that wait for the socket, as far as there is room. True if more messages are
/// available now.
fn fill(
    subscriber: &mut Subscriber,
    stored: &mut Stored,
    counters: &FeedServerCounters,
    now_ns: u64,
) -> bool {
    let Subscriber { connection, snapshot, stream, .. } = subscriber;
    let stream = *stream;
    let server = &mut connection.session;
    let mut sent = 0;
    let mut put = |message: &[u8]| {
        let has_room = server.outgoing().len() + PACKET_BYTES + message.len() <= OUTGOING_BYTES_MAX;
        if has_room {
            server.send_sequenced(message, now_ns);
            sent += 1;
        }
        has_room
    };
    let mut gone = None;
    let has_more = if let Some(Snapshot { books, place, next, .. }) = snapshot {
        !books.read(place, |message| match EndOfSnapshot::read(message) {
            Some(_) => put(EndOfSnapshot::new(*next).as_bytes()),
            None => !stored.has(stream, message) || put(message),
        })
    } else {
        loop {
            match stored.get_of(stream, connection.next_reply) {
                Ok(message) if put(message) => connection.next_reply += 1,
                Ok(_) => break true,
                Err(Missing::Future(_)) => break false,
                Err(Missing::Dropped(_)) => {
                    if connection.next_reply < stored.first_kept_of(stream) {
                        gone = Some(stored.first_kept_of(stream));
                    }
                    stored.want_of(stream, connection.next_reply);
                    break false;
                }
            }
        }
    };
    counters.messages_sent.add(sent);
    if snapshot.is_some() && !has_more {
        counters.snapshots_complete.add(1);
        connection.session.end_of_session(now_ns);
        begin_closing(subscriber, now_ns);
    } else if let Some(first_kept) = gone {
        let text = format!(
            "messages before {first_kept} are no longer {}; take a snapshot, or log in \
             from {first_kept} on",
            place_of(stream)
        );
        end(subscriber, &text, now_ns);
    }
    has_more
}

/// Names the place in which older messages are searched.
const fn place_of(stream: Option<usize>) -> &'static str {
    match stream {
        None => "in the journal",
        Some(_) => "in memory",
    }
}

/// Ends a connection, with a reason as readable text.
fn end(subscriber: &mut Subscriber, text: &str, now_ns: u64) {
    subscriber.connection.session.send_debug(text, now_ns);
    begin_closing(subscriber, now_ns);
}

/// From here on the messages of the connection are ignored. Its snapshot is released.
fn begin_closing(subscriber: &mut Subscriber, now_ns: u64) {
    subscriber.snapshot = None;
    subscriber.connection.stage = Stage::Closing { until_ns: now_ns + CLOSING_NS, finished: false };
}

/// The counter for a connection that timed out; `None` if it has not.
fn timed_out<'a>(
    subscriber: &mut Subscriber,
    options: &FeedServerOptions,
    counters: &'a FeedServerCounters,
    now_ns: u64,
) -> Option<&'a Counter> {
    let Subscriber { connection, snapshot, .. } = subscriber;
    if let Stage::Closing { until_ns, .. } = connection.stage {
        return (now_ns >= until_ns).then_some(&counters.closed);
    }
    if connection.session.tick(now_ns).is_err() {
        return Some(&counters.silent_closed);
    }
    let is_late = snapshot.as_ref().is_some_and(|snapshot| now_ns >= snapshot.until_ns);
    let is_slow = connection
        .blocked_since_ns
        .is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= options.slow_client_timeout_ns);
    (is_late || is_slow).then_some(&counters.slow_closed)
}
