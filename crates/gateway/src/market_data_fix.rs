//! Market data by FIX: sessions that subscribe to levels and trades, made of the data that the feed server derives.
//!
//! Start at [`MarketDataFix`], an agent; `subscription` makes the messages to a client.
//!
//! Invariant: the agent has a mirror of the derived data and no book. Nothing waits for the agent: updates that it
//! missed are repeated, and a client that missed changes gets new ones made from the current state. A client takes the
//! memory of its subscriptions and 64 KiB, however slowly it reads.

mod subscription;

use std::{collections::VecDeque, net::SocketAddr, sync::Arc};

use ring::{Agent, AgentError, AtomicGauge};
use wire::fix::{
    CompId, Fields, FixHappening, FixTimers, LiveSession, MarketDataAction, MarketDataReject,
    MarketDataRequest, Message, market_data_id,
};

use self::subscription::{Change, Filled, Pen, Subscription, has_room, reject};
use crate::{
    CloseReason, ConnectionId, Credentials, DerivedMirror, LoginFault, MarketDataFixCounters,
    NetworkEvent, OperatorEvent, OperatorEventSink, PasswordAsker, StreamNetwork,
    drain::{DRAIN_ENDS, DRAIN_REFUSES},
    logins::{Decided, Decision, Logins},
    network::SUBSCRIBER_BYTES_PER_TURN,
    operator_event::OperatorEvents,
    order_entry::{
        admission::Strangers,
        connection::{Connection, OUTGOING_BYTES_MAX, ReadOutcome, Stage},
        fix_session::text,
    },
};

pub use self::subscription::{DEPTH_MAX as FIX_DEPTH_MAX, LEVELS_MAX as FIX_LEVELS_MAX};

/// Connections without a session beside those of users.
const STRANGERS_MAX: usize = 64;
/// The most of them from one address.
const STRANGERS_PER_ADDRESS_MAX: usize = 32;
/// Updates taken in one turn.
const UPDATES_PER_TURN: usize = 4096;
/// Reads and messages of one connection in one turn.
const READS_PER_TURN: usize = 2;
const MESSAGES_PER_TURN: usize = 32;
/// Room for the answers to one message, as entries of market data: a reject, and the end of a resend.
const ANSWER_ENTRIES: usize = 4;
const READ_BYTES: usize = 4096;
/// Logons that are answered in one turn after their check.
const LOGINS_PER_TURN: usize = 16;
/// The interval between two checks of the timers.
const TICK_NS: u64 = 10_000_000;
/// How long a connection that we have ended may take to read our last messages.
const CLOSING_NS: u64 = 1_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// Settings of the port.
pub struct MarketDataFixOptions {
    pub timers: FixTimers,
    pub users: Vec<Credentials>,
    /// Levels of a side that a request may have, up to [`FIX_DEPTH_MAX`].
    pub depth_max: usize,
    /// Subscriptions of one session at a time.
    pub subscriptions_max: usize,
    /// The shortest time between two rounds of changes to one client.
    pub interval_ns: u64,
    /// How long a client may take none of the bytes that wait for it.
    pub slow_client_timeout_ns: u64,
}

/// The agent.
pub struct MarketDataFix<N> {
    network: N,
    options: MarketDataFixOptions,
    mirror: DerivedMirror,
    clients: Vec<Option<Box<Client>>>,
    /// Places of the clients with work to do, each once: those without a Logon, then longest waiting first.
    queue: VecDeque<u32>,
    strangers: Strangers,
    logins: Logins<CompId>,
    /// The connection of each user.
    live: Vec<Option<ConnectionId>>,
    /// The message of the feed and the repetition up to which clients were served.
    looked_at: Option<(u64, u64)>,
    drain: Arc<AtomicGauge>,
    has_ended: bool,
    ticked_ns: u64,
    events: Vec<NetworkEvent>,
    read_buffer: Box<[u8]>,
    buffer: Box<[u8]>,
    changes: Vec<Change>,
    counters: Arc<MarketDataFixCounters>,
    operator_events: OperatorEvents,
}

struct Client {
    connection: Connection<LiveSession>,
    subscriptions: VecDeque<Subscription>,
    /// The time at which it was last sent changes.
    filled_ns: u64,
    /// True if there are unsent changes and no room for them.
    is_behind: bool,
    fills: u64,
}

/// The next step for a client that was served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    Idle,
    Again,
    Close,
}

impl<N: StreamNetwork> MarketDataFix<N> {
    /// An agent for these connections, with a mirror of its own.
    ///
    /// # Panics
    /// `depth_max` is 0, or more than [`FIX_DEPTH_MAX`].
    pub fn new(network: N, options: MarketDataFixOptions, mirror: DerivedMirror) -> Self {
        assert!((1..=FIX_DEPTH_MAX).contains(&options.depth_max), "{}", options.depth_max);
        Self {
            network,
            mirror,
            clients: Vec::new(),
            queue: VecDeque::new(),
            strangers: Strangers::new(STRANGERS_MAX, STRANGERS_PER_ADDRESS_MAX),
            logins: Logins::new(5, 60 * SECOND, 60 * SECOND),
            live: vec![None; options.users.len()],
            looked_at: None,
            drain: Arc::new(AtomicGauge::new(0)),
            has_ended: false,
            ticked_ns: 0,
            events: Vec::new(),
            read_buffer: vec![0; READ_BYTES].into_boxed_slice(),
            buffer: vec![0; OUTGOING_BYTES_MAX].into_boxed_slice(),
            changes: Vec::new(),
            counters: Arc::default(),
            operator_events: OperatorEvents::default(),
            options,
        }
    }

    /// The most connections at a time with this number of users.
    #[must_use]
    pub const fn connections_max(users: usize) -> usize {
        users + STRANGERS_MAX
    }

    /// Its counters; any thread may read them.
    #[must_use]
    pub fn counters(&self) -> Arc<MarketDataFixCounters> {
        Arc::clone(&self.counters)
    }

    /// Has passwords compared with hashes by the other end, before the first turn.
    pub fn check_passwords_by(&mut self, asker: PasswordAsker) {
        self.logins.check_by(asker);
    }

    pub fn set_operator_events(&mut self, sink: Box<dyn OperatorEventSink>) {
        self.operator_events.go_to(sink);
    }

    /// Sets the gauge that stops the agent; see [`DRAIN_REFUSES`].
    pub fn set_drain(&mut self, drain: Arc<AtomicGauge>) {
        self.drain = drain;
    }

    fn take_network_events(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let mut events = std::mem::take(&mut self.events);
        self.network
            .poll(&mut events)
            .map_err(|error| format!("the listener of market data by FIX failed: {error}"))?;
        let count = events.len();
        for event in events.drain(..) {
            match event {
                NetworkEvent::Accepted(id, address) => self.accept(id, address, now_ns),
                NetworkEvent::Refused(address) => {
                    self.counters.turned_away.add(1);
                    self.operator_events.notify(OperatorEvent::OutOfDescriptors { address });
                }
                NetworkEvent::Readable(id) => self.wake(id, |it| it.readable = true),
                NetworkEvent::Ending(id) => self.wake(id, |it| it.ending = true),
                NetworkEvent::Writable(id) => self.wake(id, |it| it.writable = true),
            }
        }
        self.events = events;
        Ok(count)
    }

    fn accept(&mut self, id: ConnectionId, address: SocketAddr, now_ns: u64) {
        self.counters.accepted.add(1);
        if self.drain.get() >= DRAIN_REFUSES {
            self.counters.turned_away.add(1);
            self.network.close(id);
            return self.operator_events.notify(OperatorEvent::Draining { address });
        }
        self.add_stranger(id, address);
        let index = id.index as usize;
        if self.clients.len() <= index {
            self.clients.resize_with(index + 1, || None);
        }
        let session = LiveSession::new(self.options.timers, now_ns);
        let mut connection = Connection::new(id, address, session);
        connection.readable = true;
        self.clients[index] = Some(Box::new(Client {
            connection,
            subscriptions: VecDeque::new(),
            filled_ns: 0,
            is_behind: false,
            fills: 0,
        }));
        self.counters.connections.set(self.counters.connections.get() + 1);
        self.enqueue(id.index);
    }

    fn wake(&mut self, id: ConnectionId, note: impl FnOnce(&mut Connection<LiveSession>)) {
        let place = self.clients.get_mut(id.index as usize).and_then(Option::as_mut);
        if let Some(client) = place.filter(|it| it.connection.id == id) {
            note(&mut client.connection);
            self.enqueue(id.index);
        }
    }

    fn enqueue(&mut self, index: u32) {
        if let Some(client) = &mut self.clients[index as usize]
            && !client.connection.queued
        {
            client.connection.queued = true;
            // A Logon that has been sent is read before its sender may have to make room for newcomers.
            match client.connection.stage {
                Stage::Pending => self.queue.push_front(index),
                Stage::Live(_) | Stage::Closing { .. } => self.queue.push_back(index),
            }
        }
    }

    /// Serves the clients with work to do, up to a bound.
    fn serve_all(&mut self, now_ns: u64) -> usize {
        let mut waiting = std::mem::take(&mut self.queue);
        let (mut written, mut work) = (0, 0);
        while let Some(index) = waiting.front().copied()
            && (written < SUBSCRIBER_BYTES_PER_TURN || self.is_pending(index))
        {
            waiting.pop_front();
            let Some(mut client) = self.clients[index as usize].take() else { continue };
            client.connection.queued = false;
            let before = written;
            let (served, reason) = self.serve(&mut client, now_ns, &mut written);
            work += usize::from(written > before || served != Served::Idle);
            if served == Served::Close {
                self.drop_client(&client, reason);
                continue;
            }
            self.clients[index as usize] = Some(client);
            if served == Served::Again {
                self.enqueue(index);
            }
        }
        waiting.append(&mut self.queue);
        self.queue = waiting;
        self.counters.bytes_out.add(written as u64);
        work
    }

    /// True if the connection at this place has not logged on.
    fn is_pending(&self, index: u32) -> bool {
        let client = self.clients[index as usize].as_ref();
        client.is_some_and(|it| matches!(it.connection.stage, Stage::Pending))
    }

    fn serve(
        &mut self,
        client: &mut Client,
        now_ns: u64,
        written: &mut usize,
    ) -> (Served, CloseReason) {
        let mut is_again = false;
        // While the mirror shows nothing, requests wait in the socket.
        let hears = match client.connection.stage {
            Stage::Pending => true,
            Stage::Live(_) => self.mirror.is_held(),
            Stage::Closing { .. } => false,
        };
        match client.connection.stage {
            Stage::Closing { .. } => {
                match client.connection.read(&mut self.network, &mut self.read_buffer) {
                    ReadOutcome::Ended => return (Served::Close, CloseReason::Logout),
                    ReadOutcome::Bytes(_) => is_again = true,
                    ReadOutcome::Nothing => {}
                }
            }
            Stage::Pending | Stage::Live(_) if hears => match self.hear(client, now_ns) {
                Ok(more) => is_again = more,
                Err(reason) => return (Served::Close, reason),
            },
            Stage::Pending | Stage::Live(_) => {}
        }
        if matches!(client.connection.stage, Stage::Live(_)) {
            self.fill(client, now_ns);
        }
        let connection = &mut client.connection;
        let Ok(count) = connection.write_by(
            LiveSession::outgoing,
            LiveSession::sent,
            &mut self.network,
            now_ns,
        ) else {
            return (Served::Close, CloseReason::Gone);
        };
        *written += count;
        let is_empty = connection.session.outgoing().is_empty();
        if is_empty && let Stage::Closing { finished: finished @ false, .. } = &mut connection.stage
        {
            *finished = true;
            self.network.finish(connection.id);
        }
        // Messages that had no room have some now.
        let may_read = connection.readable && !connection.awaits_login;
        let had_no_room = client.is_behind || connection.session.has_more() || may_read;
        let is_again = is_again || (is_empty && hears && had_no_room);
        (if is_again { Served::Again } else { Served::Idle }, CloseReason::Gone)
    }

    /// Reads and takes messages, as long as an answer has room. True if there may be more messages whose answers have
    /// room.
    fn hear(&mut self, client: &mut Client, now_ns: u64) -> Result<bool, CloseReason> {
        let mut taken = 0;
        for _ in 0..READS_PER_TURN {
            while taken < MESSAGES_PER_TURN {
                if !has_room(&client.connection.session, ANSWER_ENTRIES) {
                    return Ok(false);
                }
                match self.take_message(client, now_ns)? {
                    true => taken += 1,
                    false => break,
                }
                if matches!(client.connection.stage, Stage::Closing { .. }) {
                    return Ok(true);
                }
            }
            if taken == MESSAGES_PER_TURN {
                return Ok(true);
            }
            match client.connection.read(&mut self.network, &mut self.read_buffer) {
                ReadOutcome::Bytes(count) => client
                    .connection
                    .session
                    .receive(&self.read_buffer[..count], now_ns)
                    .map_err(|what| self.violation(what))?,
                ReadOutcome::Nothing => return Ok(false),
                ReadOutcome::Ended => return Err(CloseReason::Gone),
            }
        }
        Ok(true)
    }

    fn violation(&self, what: &str) -> CloseReason {
        self.counters.violations.add(1);
        CloseReason::Violation(what.to_owned())
    }

    /// Takes the next message; false if there is none.
    fn take_message(&mut self, client: &mut Client, now_ns: u64) -> Result<bool, CloseReason> {
        let happening = client.connection.session.next(now_ns);
        let bytes = match happening.map_err(|what| self.violation(what))? {
            None => {
                let fills = client.connection.session.fills();
                if fills > client.fills {
                    // The messages that a fill replaced may have been changes of the books.
                    self.counters.resends_filled.add(fills - client.fills);
                    client.fills = fills;
                    client.subscriptions.iter_mut().for_each(Subscription::begin_again);
                    client.is_behind = true;
                }
                return Ok(false);
            }
            Some(FixHappening::Logon { client: name, password }) => {
                let (name, username, password) = (text(name), text(name), text(password));
                let connection = &mut client.connection;
                let from = (connection.id, connection.address.ip());
                let named = (&username, &password);
                match self.logins.begin(&self.options.users, from, named, name, now_ns) {
                    Decision::Known(name, user) => self.log_in(client, name, user, now_ns)?,
                    Decision::Awaited => {
                        connection.awaits_login = true;
                        self.strangers.set_asks(connection.id, true);
                    }
                }
                return Ok(true);
            }
            Some(FixHappening::Application(message)) => message.bytes().to_vec(),
            Some(FixHappening::Note(_) | FixHappening::Taken) => return Ok(true),
            Some(FixHappening::Logout) => {
                self.begin_closing(client, CloseReason::Logout, now_ns);
                return Ok(true);
            }
        };
        self.take_request(client, &Fields::default().read(&bytes), now_ns);
        Ok(true)
    }

    /// Answers Logons whose passwords were checked, and begins the next check.
    fn answer_logins(&mut self, now_ns: u64) -> usize {
        let mut work = 0;
        while work < LOGINS_PER_TURN
            && let Some(Decided { connection: id, login: name, outcome }) =
                self.logins.next(&self.options.users, now_ns)
        {
            work += 1;
            let place = self.clients[id.index as usize].take();
            let mut client = place.expect("who has left is not told of its Logon");
            let connection = &mut client.connection;
            assert!(connection.id == id && connection.awaits_login, "{id} waits for its Logon");
            connection.awaits_login = false;
            self.strangers.set_asks(id, false);
            match self.log_in(&mut client, name, outcome, now_ns) {
                Ok(()) => {
                    self.clients[id.index as usize] = Some(client);
                    self.enqueue(id.index);
                }
                Err(reason) => self.drop_client(&client, reason),
            }
        }
        work
    }

    /// Answers a Logon. A refused Logon closes the connection without a message, as FIX requires.
    fn log_in(
        &mut self,
        client: &mut Client,
        name: CompId,
        user: Result<usize, LoginFault>,
        now_ns: u64,
    ) -> Result<(), CloseReason> {
        let address = client.connection.address;
        let user = user.and_then(|user| match self.live[user] {
            Some(_) => Err(LoginFault::AlreadyConnected(self.options.users[user].username())),
            None => Ok(user),
        });
        match user {
            Ok(user) => {
                let connection = &mut client.connection;
                if !connection.session.accept(name, now_ns) {
                    self.counters.logins_rejected.add(1);
                    return Ok(());
                }
                connection.stage = Stage::Live(user);
                self.live[user] = Some(connection.id);
                self.strangers.remove(connection.id);
                self.counters.logins.add(1);
                let username = self.options.users[user].username();
                let event = OperatorEvent::LoggedIn { username, address, next_reply: 1 };
                self.operator_events.notify(event);
                Ok(())
            }
            Err(reason) => {
                self.counters.logins_rejected.add(1);
                self.operator_events.notify(OperatorEvent::LoginRejected { address, reason });
                Err(CloseReason::Gone)
            }
        }
    }

    /// Takes a Market Data Request, or refuses it.
    fn take_request(&mut self, client: &mut Client, message: &Message<'_>, now_ns: u64) {
        self.counters.requests.add(1);
        if let Err(reason) = self.subscribe(client, message) {
            self.counters.requests_rejected.add(1);
            let session = &mut client.connection.session;
            reject(session, &mut self.buffer, &market_data_id(message), reason, now_ns);
        }
        client.filled_ns = 0;
    }

    fn subscribe(
        &self,
        client: &mut Client,
        message: &Message<'_>,
    ) -> Result<(), MarketDataReject> {
        let request = MarketDataRequest::read(message)?;
        let subscriptions = &mut client.subscriptions;
        let known = subscriptions.iter().position(|it| it.id == request.id);
        if request.action == MarketDataAction::End {
            let known = known.ok_or(MarketDataReject::NoSubscription)?;
            subscriptions.remove(known);
            self.counters.subscriptions.set(self.counters.subscriptions.get() - 1);
            return Ok(());
        }
        if known.is_some() {
            return Err(MarketDataReject::DuplicateId);
        }
        let subscription = Subscription::new(&request, &self.mirror, self.options.depth_max)?;
        let levels: usize = subscriptions.iter().map(Subscription::levels).sum();
        if subscriptions.len() >= self.options.subscriptions_max
            || levels + subscription.levels() > FIX_LEVELS_MAX
        {
            return Err(MarketDataReject::TooMany);
        }
        subscriptions.push_back(subscription);
        self.counters.subscriptions.add(1);
        Ok(())
    }

    /// Sends a client the differences from the books it has, as far as there is room.
    fn fill(&mut self, client: &mut Client, now_ns: u64) {
        let connection = &mut client.connection;
        let since_ns = now_ns.saturating_sub(client.filled_ns);
        if !client.is_behind && since_ns < self.options.interval_ns {
            // The next tick comes back to this client, or news after the interval.
            return;
        }
        if !connection.session.is_logged_on() || !self.mirror.is_held() {
            client.is_behind = false;
            return;
        }
        let was_behind = std::mem::take(&mut client.is_behind);
        let mut pen = Pen {
            session: &mut connection.session,
            buffer: &mut self.buffer,
            changes: &mut self.changes,
            now_ns,
            snapshots: 0,
            increments: 0,
        };
        for _ in 0..client.subscriptions.len() {
            let Some(mut subscription) = client.subscriptions.pop_front() else { break };
            match subscription.fill(&self.mirror, &mut pen) {
                Filled::Whole => client.subscriptions.push_back(subscription),
                Filled::Full => {
                    // The next fill continues with this subscription.
                    client.subscriptions.push_front(subscription);
                    client.is_behind = true;
                    break;
                }
                Filled::Over => {
                    self.counters.subscriptions.set(self.counters.subscriptions.get() - 1);
                }
                Filled::Missed if !pen.has_room(0) => {
                    client.subscriptions.push_front(subscription);
                    client.is_behind = true;
                    break;
                }
                Filled::Missed => {
                    let reason = MarketDataReject::TradesMissed;
                    reject(pen.session, pen.buffer, &subscription.id, reason, now_ns);
                    self.counters.trades_missed.add(1);
                    self.counters.subscriptions.set(self.counters.subscriptions.get() - 1);
                }
            }
        }
        if pen.snapshots + pen.increments > 0 {
            client.filled_ns = now_ns;
        }
        self.counters.snapshots.add(pen.snapshots);
        self.counters.increments.add(pen.increments);
        self.counters.held_back.add(u64::from(client.is_behind && !was_behind));
    }

    /// Checks every connection's timers.
    fn tick(&mut self, now_ns: u64) -> usize {
        let mut work = 0;
        for index in 0..self.clients.len() {
            let Some(mut client) = self.clients[index].take() else { continue };
            match self.timed_out(&mut client, now_ns) {
                Some(reason) => {
                    work += 1;
                    self.drop_client(&client, reason);
                }
                None => {
                    self.clients[index] = Some(client);
                    self.enqueue(index as u32);
                }
            }
        }
        work
    }

    /// The reason to close a connection that timed out; `None` if it has not.
    fn timed_out(&self, client: &mut Client, now_ns: u64) -> Option<CloseReason> {
        let connection = &mut client.connection;
        if let Stage::Closing { until_ns, .. } = connection.stage {
            return (now_ns >= until_ns).then_some(CloseReason::Logout);
        }
        if connection.session.tick(now_ns).is_err() {
            self.counters.silent_closed.add(1);
            return Some(CloseReason::Silent);
        }
        let blocked_ns = connection.blocked_since_ns.map(|since| now_ns.saturating_sub(since));
        let is_slow = blocked_ns.is_some_and(|it| it >= self.options.slow_client_timeout_ns);
        self.counters.slow_closed.add(u64::from(is_slow));
        is_slow.then_some(CloseReason::Slow)
    }

    fn drop_client(&mut self, client: &Client, reason: CloseReason) {
        let id = client.connection.id;
        self.network.close(id);
        self.strangers.remove(id);
        self.counters.connections.set(self.counters.connections.get() - 1);
        if client.connection.awaits_login {
            self.logins.forget(id);
        }
        self.release(client, reason);
    }

    /// Ends every session when the venue stops.
    fn end_sessions(&mut self, now_ns: u64) {
        if self.drain.get() < DRAIN_ENDS || std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        for index in 0..self.clients.len() {
            let Some(mut client) = self.clients[index].take() else { continue };
            if client.connection.awaits_login {
                self.drop_client(&client, CloseReason::GatewayClosed);
                continue;
            }
            if !matches!(client.connection.stage, Stage::Closing { .. }) {
                client.connection.session.end("the venue is shutting down", now_ns);
                self.begin_closing(&mut client, CloseReason::GatewayClosed, now_ns);
            }
            self.clients[index] = Some(client);
            self.enqueue(index as u32);
        }
    }

    /// From here on the messages of the connection are ignored, and its user may log on again.
    fn begin_closing(&mut self, client: &mut Client, reason: CloseReason, now_ns: u64) {
        let id = client.connection.id;
        self.release(client, reason);
        if matches!(client.connection.stage, Stage::Live(_)) {
            self.add_stranger(id, client.connection.address);
        }
        client.connection.stage = Stage::Closing { until_ns: now_ns + CLOSING_NS, finished: false };
    }

    fn add_stranger(&mut self, id: ConnectionId, address: SocketAddr) {
        if let Some(leaves) = self.strangers.add(id, address.ip())
            && let Some(client) = self.clients[leaves.index as usize].take()
        {
            self.counters.turned_away.add(1);
            self.drop_client(&client, CloseReason::PushedOut);
        }
    }

    /// Releases the session of a connection, and reports why it ended.
    fn release(&mut self, client: &Client, reason: CloseReason) {
        let Connection { address, stage, .. } = client.connection;
        let open = self.counters.subscriptions.get();
        match stage {
            Stage::Live(user) => {
                self.counters.subscriptions.set(open - client.subscriptions.len() as u64);
                self.live[user] = None;
                let username = self.options.users[user].username();
                let event = OperatorEvent::LoggedOut { username, address, reason };
                self.operator_events.notify(event);
            }
            Stage::Pending => {
                self.operator_events.notify(OperatorEvent::NeverLoggedIn { address, reason });
            }
            Stage::Closing { .. } => {}
        }
    }
}

impl<N: StreamNetwork + Send + 'static> Agent for MarketDataFix<N> {
    fn name(&self) -> &str {
        "market data fix"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        self.operator_events.turn(now_ns);
        let mut work = self.mirror.poll(UPDATES_PER_TURN);
        let (_, missed) = self.mirror.counts();
        self.counters.sequence.set(self.mirror.number());
        self.counters.updates_missed.set(missed);
        work += self.take_network_events(now_ns)?;
        self.end_sessions(now_ns);
        if self.logins.is_busy() && self.drain.get() < DRAIN_REFUSES {
            work += self.answer_logins(now_ns);
        }
        let state = self.mirror.is_held().then(|| (self.mirror.number(), self.mirror.request()));
        if state.is_some() && state != self.looked_at {
            self.looked_at = state;
            for index in 0..self.clients.len() as u32 {
                self.enqueue(index);
            }
        }
        if now_ns.saturating_sub(self.ticked_ns) >= TICK_NS {
            self.ticked_ns = now_ns;
            work += self.tick(now_ns);
        }
        Ok(work + self.serve_all(now_ns))
    }

    fn close(&mut self) {
        for client in self.clients.drain(..).flatten() {
            self.network.close(client.connection.id);
        }
    }
}

#[cfg(test)]
mod tests;
