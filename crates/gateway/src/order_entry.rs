//! Order entry over TCP: sessions in, submissions out; replies back. The session protocol is OUCH in SoupBinTCP
//! packets, or another [`ClientSession`].
//!
//! Invariant: a reply leaves only when its cause is durable; a client that is slow, silent or broken costs no other
//! client anything; no connection is read while the submissions ring is full.

pub(crate) mod admission;
mod client_session;
pub(crate) mod connection;
pub(crate) mod fix_session;
mod sluice_session;
mod serving;
mod past_replies;
mod resend_turns;
mod login;
mod closing;

use std::{collections::VecDeque, net::SocketAddr, sync::Arc};

use market::{
    CancelOnDisconnect, Command, Event, OutputLine, SessionId, Text, Timestamp, VenueEvent,
};
use ring::{Agent, AgentError, AtomicGauge, Consumer, Cursor, Producer};
use wire::fix::FixNote;

pub use self::fix_session::FixSession;
pub use self::past_replies::{
    PAST_BLOCK_LEN, PAST_REPLIES_BYTES_MAX, PastReplies, PastReplyAnswer, PastReplyBlock,
    PastReplyEnds, PastReplyRange, SessionReplies, past_reply_rings,
};
pub use self::sluice_session::SluiceSession;
pub use self::{
    admission::FAILED_LOGINS_MAX,
    client_session::{
        ClientSession, FirstReply, Known, Login, Ouch42, Ouch50, OuchVersion, SessionEvent,
        SoupBinTcp, SoupBinTcpOptions,
    },
    connection::CONNECTION_BYTES_MAX,
};
use self::{
    admission::Strangers,
    connection::{Connection, READ_BYTES, Stage},
    login::LoginTerms,
    resend_turns::ResendTurns,
};
use crate::{
    CloseReason, ConnectionId, Credentials, NetworkEvent, Newcomers, OperatorEvent,
    OperatorEventSink, OrderEntryCounters, OrderEntryPort, PasswordAsker, ReplayStore,
    StreamNetwork, Submission,
    contention::Contention,
    drain::DRAIN_REFUSES,
    faults::{FaultTable, Injector},
    gate::{self, Gate, Throttle},
    logins::Logins,
    looks::{ENTRY_INTERVAL_NS, HotConnection, Looks},
    message_archive::MessageArchive,
    operator_event::OperatorEvents,
    streams::{ReplyStreams, each_for_gateways, pull_durable},
};

/// The most lines taken from the ring of outputs in one turn.
const OUTPUTS_PER_TURN: usize = 1024;

/// The time a session may take to begin before the request is repeated.
const BEGIN_RETRY_NS: u64 = 1_000_000_000;

/// The options of [`OrderEntry`].
#[derive(Clone, Debug)]
pub struct OrderEntryOptions<P> {
    /// The options of the session protocol.
    pub protocol: P,
    /// The users that may log in; each name once.
    pub users: Vec<Credentials>,
    /// The limits on connections, logins and memory.
    pub limits: OrderEntryLimits,
    /// The amount that each session may send.
    pub throttle: Throttle,
}

/// The limits of [`OrderEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderEntryLimits {
    /// The most connections at a time. Each user has a reserved place among them, and the rest, at least one, is for
    /// connections without a session.
    pub connections_max: usize,
    /// The most connections without a session at a time, if there are as many places for them.
    pub strangers_max: usize,
    /// The most of these from one address.
    pub strangers_per_address_max: usize,
    /// The most malformed messages a connection may send; one more closes it.
    pub malformed_max: u32,
    /// The number of wrong passwords for one user from one address within the window that pauses this user's logins
    /// from there.
    pub failed_logins_max: usize,
    /// The window for wrong passwords, in nanoseconds.
    pub failed_login_window_ns: u64,
    /// The pause of logins, in nanoseconds.
    pub login_pause_ns: u64,
    /// The longest time, in nanoseconds, that a client may take no bytes while some wait for it.
    pub slow_client_timeout_ns: u64,
    /// Memory for replies of all users, index included; at most 2 GiB. About 160 KiB of the newest replies are kept
    /// for each user in any case.
    pub store_bytes_max: usize,
}

impl Default for OrderEntryLimits {
    fn default() -> Self {
        const SECOND: u64 = 1_000_000_000;
        Self {
            connections_max: 1024,
            strangers_max: 256,
            strangers_per_address_max: 64,
            malformed_max: 64,
            failed_logins_max: 5,
            failed_login_window_ns: 60 * SECOND,
            login_pause_ns: 60 * SECOND,
            slow_client_timeout_ns: 10 * SECOND,
            store_bytes_max: 1 << 30,
        }
    }
}

/// The agent behind an order entry port. `S` is the session protocol.
///
/// Requests of logged-in clients go to the sequencer by way of the submissions ring, and only while the ring has a
/// free slot: else connections are not read, and TCP holds the clients back. Replies of the exchange are stored per
/// user, numbered from 1, and every connection sends from its own place in that store. So a client that stops reading
/// costs others nothing; it is cut off after a time limit, and may log in again and continue from any number that is
/// still kept.
pub struct OrderEntry<N, S: ClientSession = SoupBinTcp> {
    network: N,
    protocol: S::Options,
    users: Vec<Credentials>,
    newcomers: Newcomers,
    throttle: Throttle,
    limits: OrderEntryLimits,
    submissions: Producer<Submission>,
    outputs: Consumer<OutputLine>,
    durable: Arc<Cursor>,
    replies: ReplyStreams<ReplayStore>,
    /// By place in the network's table.
    connections: Vec<Option<Box<Connection<S>>>>,
    /// The reader of older messages, if there is one.
    past: Option<PastReplies>,
    /// The turns of users to be resent messages.
    resend_turns: ResendTurns,
    /// The last scheduled time whose sessions have all begun.
    begun_ns: u64,
    /// The time at which the remaining sessions were last asked to begin.
    begin_asked_ns: u64,
    /// The gate of each user, which limits its messages.
    gates: Vec<Gate>,
    /// The faults that an operator injects for each user.
    injectors: Vec<Injector>,
    /// The connection of each user that has one.
    live: Vec<Option<ConnectionId>>,
    /// The state of each session between its connections.
    memories: Vec<S::Memory>,
    /// The commands of one message; reused.
    commands: Vec<Command>,
    /// Accounts whose orders must be canceled because they were cut off, each once: submitted before anything else, as
    /// soon as the ring has a slot. Mostly empty.
    cut_off: VecDeque<usize>,
    /// Places of connections with a session and work to do, each once, longest waiting first.
    queue: VecDeque<u32>,
    /// As above, for connections without a session.
    queue_of_strangers: VecDeque<u32>,
    pending: usize,
    open: usize,
    /// True if the last turn found the submissions ring full.
    held_up: bool,
    /// Slots of the submissions ring known to be free: looked up again only at 0, because the lookup reads memory that
    /// another core writes.
    free: usize,
    /// The checks of the network as a whole.
    looks: Looks,
    hot: HotConnection,
    /// Shared with the sessions of all ports.
    contention: Contention,
    strangers: Strangers,
    logins: Logins<LoginTerms>,
    ticked_ns: u64,
    /// Reused every turn.
    events: Vec<NetworkEvent>,
    buffer: Box<[u8]>,
    counters: Arc<OrderEntryCounters>,
    operator_events: OperatorEvents,
    /// The stage of the venue's stop; see [`DRAIN_REFUSES`].
    drain: Arc<AtomicGauge>,
    has_ended: bool,
}

impl<N: StreamNetwork, S: ClientSession> OrderEntry<N, S> {
    /// Runs over a network that listens. `durable` is the sequence up to which outputs may leave.
    ///
    /// # Panics
    /// Two users share a name, or a limit is out of its range: no place for strangers, for example.
    pub fn new(
        network: N,
        config: OrderEntryOptions<S::Options>,
        submissions: Producer<Submission>,
        outputs: Consumer<OutputLine>,
        durable: Arc<Cursor>,
    ) -> Self {
        let OrderEntryOptions { protocol, users, limits, throttle } = config;
        let usernames: Vec<Text<6>> = users.iter().map(Credentials::username).collect();
        let places = limits.connections_max.saturating_sub(users.len());
        let strangers =
            Strangers::new(places.min(limits.strangers_max), limits.strangers_per_address_max);
        let logins = Logins::new(
            limits.failed_logins_max,
            limits.failed_login_window_ns,
            limits.login_pause_ns,
        );
        Self {
            network,
            protocol,
            replies: ReplyStreams::of_users(
                &usernames,
                ReplayStore::new(usernames.len(), limits.store_bytes_max),
            ),
            live: vec![None; users.len()],
            past: None,
            resend_turns: ResendTurns::default(),
            begun_ns: 0,
            begin_asked_ns: 0,
            memories: users.iter().map(|_| S::Memory::default()).collect(),
            commands: Vec::with_capacity(S::COMMANDS_MAX),
            injectors: users.iter().map(|_| Injector::default()).collect(),
            gates: users.iter().map(|user| Gate::new(throttle, user.firms.clone())).collect(),
            cut_off: VecDeque::new(),
            users,
            newcomers: Newcomers::default(),
            throttle,
            limits,
            submissions,
            outputs,
            durable,
            connections: Vec::new(),
            queue: VecDeque::new(),
            queue_of_strangers: VecDeque::new(),
            pending: 0,
            open: 0,
            held_up: false,
            free: 0,
            looks: Looks::new(ENTRY_INTERVAL_NS),
            hot: HotConnection::default(),
            contention: Contention::default(),
            strangers,
            logins,
            ticked_ns: 0,
            events: Vec::new(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            counters: Arc::default(),
            operator_events: OperatorEvents::default(),
            drain: Arc::new(AtomicGauge::new(0)),
            has_ended: false,
        }
    }

    /// Has messages that the store no longer keeps read from the journal, by the other ends of [`past_reply_rings`].
    pub fn set_past(&mut self, past: PastReplies) {
        self.past = Some(past);
    }

    /// Has passwords compared with hashes by the other end. Call it before the first turn.
    pub fn check_passwords_by(&mut self, asker: PasswordAsker) {
        self.logins.check_by(asker);
    }

    /// The handle by which users are announced that the agent adds while it runs.
    #[must_use]
    pub fn newcomers(&self) -> Newcomers {
        self.newcomers.clone()
    }

    /// The counters; may be read from any thread.
    #[must_use]
    pub fn counters(&self) -> Arc<OrderEntryCounters> {
        Arc::clone(&self.counters)
    }

    /// Stores the replies that are now durable, and wakes the connections they are for.
    fn take_outputs(&mut self, now_ns: u64) -> usize {
        let Self {
            contention,
            replies,
            outputs,
            durable,
            gates,
            injectors,
            memories,
            live,
            users,
            newcomers,
            strangers,
            limits,
            throttle,
            ..
        } = self;
        // Mostly empty, and then it takes no memory.
        let mut logged_out = Vec::new();
        let count = pull_durable(outputs, durable, OUTPUTS_PER_TURN, |output| {
            if let Event::SessionAdded(added) = &output.event
                && let Some(user) = newcomers.take(added.username)
            {
                // The user exists before its session is added.
                replies.add_user(user.username());
                gates.push(Gate::new(*throttle, user.firms.clone()));
                injectors.push(Injector::default());
                memories.push(S::Memory::default());
                live.push(None);
                users.push(user);
                strangers.limit(limits.connections_max.saturating_sub(users.len()));
            }
            if let Event::Venue(VenueEvent::LoggedOut(session_id)) = &output.event {
                logged_out.extend(replies.stream(*session_id));
            }
            contention.take(&output.event, now_ns);
            replies.take(output);
            gate::learn(gates, output, |session_id| replies.stream(session_id));
        });
        while let Some(user) = self.replies.next_touched() {
            if let Some(connection) = self.live[user] {
                self.enqueue(connection.index);
            }
        }
        for user in logged_out {
            if let Some(id) = self.live[user] {
                self.wake(id, |connection| connection.ends = Some(CloseReason::ByOperator));
            }
        }
        if count > 0 {
            self.counters.outputs.add(count as u64);
            self.count_replies();
        }
        count
    }

    /// Takes older messages that were read, and wakes the connections they are for.
    fn take_past(&mut self) -> usize {
        let Self { past, live, connections, replies, .. } = self;
        let Some(past) = past else { return 0 };
        let wanted = |user: usize| {
            let connection = connections[live[user]?.index as usize].as_ref()?;
            let wanted = connection.session.resend_range()?;
            let end = wanted.end.min(replies.store().first(user));
            (wanted.start < end).then_some(wanted.start..end)
        };
        let served = past.poll(wanted);
        for user in &served {
            if let Some(id) = self.live[*user] {
                self.enqueue(id.index);
            }
        }
        served.len()
    }

    fn count_replies(&self) {
        self.counters.replies.set(self.replies.count());
        self.counters.store_bytes.set(self.replies.store().bytes() as u64);
    }

    fn take_network_events(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        if let Some(id) = self.hot.get(now_ns) {
            self.wake(id, |connection| connection.readable = true);
        }
        if !self.hot.is_shared(now_ns) && !self.looks.is_due(now_ns) {
            return Ok(0);
        }
        let mut events = std::mem::take(&mut self.events);
        self.network
            .poll(&mut events)
            .map_err(|error| format!("the order entry listener failed: {error}"))?;
        let count = events.len();
        for event in events.drain(..) {
            match event {
                NetworkEvent::Accepted(id, address) => self.accept(id, address, now_ns),
                NetworkEvent::Refused(address) => {
                    self.counters.turned_away.add(1);
                    self.notify(OperatorEvent::OutOfDescriptors { address });
                }
                NetworkEvent::Readable(id) => {
                    self.wake(id, |connection| connection.readable = true);
                }
                NetworkEvent::Ending(id) => self.wake(id, |connection| connection.ending = true),
                NetworkEvent::Writable(id) => {
                    self.wake(id, |connection| connection.writable = true);
                }
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
            return self.notify(OperatorEvent::Draining { address });
        }
        self.add_stranger(id, address, now_ns);
        let index = id.index as usize;
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        let session = S::open(&self.protocol, now_ns);
        let mut connection = Box::new(Connection::new(id, address, session));
        connection.readable = true;
        self.connections[index] = Some(connection);
        self.open += 1;
        self.pending += 1;
        self.enqueue(id.index);
    }

    /// Gives a connection without a session its place; another connection may lose its place for it.
    fn add_stranger(&mut self, id: ConnectionId, address: SocketAddr, now_ns: u64) {
        let Some(leaves) = self.strangers.add(id, address.ip()) else { return };
        let place = self.connections.get_mut(leaves.index as usize).and_then(Option::take);
        let mut connection = place.expect("a stranger has a connection, and is not being served");
        self.counters.pushed_out.add(1);
        if connection.stage == Stage::Pending {
            // As much as the socket takes at once.
            connection.session.send_text("closed: too many connections without login", now_ns);
            let _ = connection.write(&mut self.network, now_ns);
        }
        self.drop_connection(*connection, CloseReason::PushedOut);
    }

    fn wake(&mut self, id: ConnectionId, note: impl FnOnce(&mut Connection<S>)) {
        let place = self.connections.get_mut(id.index as usize);
        if let Some(connection) = place.and_then(Option::as_mut).filter(|there| there.id == id) {
            note(connection);
            self.enqueue(id.index);
        }
    }

    fn enqueue(&mut self, index: u32) {
        if let Some(connection) = &mut self.connections[index as usize]
            && !connection.queued
        {
            connection.queued = true;
            match connection.stage {
                Stage::Live(_) => self.queue.push_back(index),
                Stage::Pending | Stage::Closing { .. } => self.queue_of_strangers.push_back(index),
            }
        }
    }

    /// Cancels the orders of users that were cut off and want this. Their earlier commands are submitted already, and
    /// those of their next connection come later.
    fn cancel_for_cut_off(&mut self, now_ns: u64) -> usize {
        let mut work = 0;
        while let Some(user) = self.cut_off.front().copied() {
            if self.submissions.free() == 0 {
                self.held_up = true;
                break;
            }
            let session_id = self.replies.session(user).expect("who was logged in has a session");
            let command = Command::CancelOnDisconnect(CancelOnDisconnect { session_id });
            let submission = Submission { received: Timestamp(now_ns), command };
            self.submissions.try_publish(submission).expect("there was a free slot");
            self.free = 0;
            self.cut_off.pop_front();
            self.counters.disconnect_cancels.add(1);
            work += 1;
        }
        work
    }

    /// Records in the log that sessions begin, where their schedule says so. A session that is connected still ends
    /// first.
    fn begin_sessions(&mut self, now_ns: u64) {
        let begin = S::begin_ns(&self.protocol, now_ns).filter(|it| *it != self.begun_ns);
        let Some(start_ns) = begin else { return };
        if now_ns.saturating_sub(self.begin_asked_ns) < BEGIN_RETRY_NS {
            return;
        }
        let mut is_done = true;
        for user in 0..self.users.len() {
            let waits = self.replies.reports(user).is_some_and(|it| it.begun_ns() < start_ns);
            if !waits {
                continue;
            }
            is_done = false;
            if self.live[user].is_some() || self.submissions.free() == 0 {
                continue;
            }
            let session_id = self.replies.session(user).expect("who has reports has a session");
            let command = Command::Note(FixNote::Begin { start_ns }.note(session_id));
            let submission = Submission { received: Timestamp(now_ns), command };
            self.submissions.try_publish(submission).expect("there was a free slot");
            self.free = 0;
            self.begin_asked_ns = now_ns;
        }
        if is_done {
            self.begun_ns = start_ns;
        }
    }

    fn notify(&mut self, event: OperatorEvent) {
        self.operator_events.notify(event);
    }
}

impl<N, S> OrderEntryPort for OrderEntry<N, S>
where
    N: StreamNetwork + Send + 'static,
    S: ClientSession<Options: Send, Memory: Send> + Send + 'static,
{
    fn component(&self) -> &'static str {
        S::AGENT
    }

    fn set_operator_events(&mut self, sink: Box<dyn OperatorEventSink>) {
        self.operator_events.go_to(sink);
    }

    fn set_drain(&mut self, drain: Arc<AtomicGauge>) {
        self.drain = drain;
    }

    fn set_faults(&mut self, faults: &FaultTable) {
        for (user, injector) in self.users.iter().zip(&mut self.injectors) {
            if let Some(faults) = faults.of(user.username()) {
                *injector = Injector::new(faults);
            }
        }
    }

    fn restore(&mut self, archive: &MessageArchive) {
        self.replies.restore(archive);
        self.count_replies();
    }

    fn replay(&mut self, line: &OutputLine) {
        each_for_gateways(line, |output| self.replies.take(output));
        while self.replies.next_touched().is_some() {}
        self.count_replies();
    }

    fn know_used(&mut self, session_id: SessionId, channel: u8, user_ref_num: u32) {
        if let Some(user) = self.replies.stream(session_id) {
            self.gates[user].know_used(channel, user_ref_num);
        }
    }
}

impl<N, S> Agent for OrderEntry<N, S>
where
    N: StreamNetwork + Send + 'static,
    S: ClientSession<Options: Send, Memory: Send> + Send + 'static,
{
    fn name(&self) -> &str {
        self.component()
    }

    fn note_busy(&mut self, is_busy: bool) {
        self.looks.note_busy(is_busy);
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        self.held_up = false;
        self.operator_events.turn(now_ns);
        let outputs = self.take_outputs(now_ns);
        self.resend_turns.begin(outputs > 0 || self.looks.is_busy());
        let mut work = outputs + self.take_past();
        if self.drain.get() < DRAIN_REFUSES {
            work += self.cancel_for_cut_off(now_ns);
            if self.is_tick_due(now_ns) {
                self.begin_sessions(now_ns);
            }
        }
        if work > 0 {
            work += self.send_replies(now_ns);
        }
        self.end_sessions();
        work += self.take_network_events(now_ns)?;
        work += self.serve_queues(now_ns);
        if self.logins.is_busy() && self.drain.get() < DRAIN_REFUSES {
            work += self.answer_logins(now_ns);
        }
        work += self.tick(now_ns);
        self.counters.connections.set(self.open as u64);
        self.counters.connections_pending.set(self.pending as u64);
        Ok(work)
    }

    fn is_held_up(&self) -> bool {
        self.held_up
    }

    /// Sends the durable replies as far as sockets take them at once, and closes the connections not yet closed with
    /// an end of session.
    fn close(&mut self) {
        self.take_outputs(self.ticked_ns);
        for index in 0..self.connections.len() {
            let Some(mut connection) = self.connections[index].take() else { continue };
            let mut work = 0;
            self.give_replies(&mut connection, self.ticked_ns, &mut work);
            self.drop_connection(*connection, CloseReason::GatewayClosed);
        }
        self.queue.clear();
        self.queue_of_strangers.clear();
    }
}
