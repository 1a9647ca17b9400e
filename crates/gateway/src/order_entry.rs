//! Order entry over TCP: OUCH in SoupBinTCP packets in, submissions out; replies back.
//!
//! Invariant: a reply leaves only when its cause is durable; a client that is slow, silent or broken
//! costs no other client anything; no connection is read while the submissions ring is full.

mod admission;
mod connection;

use std::{collections::VecDeque, net::SocketAddr, sync::Arc};

use market::{CancelOnDisconnect, Command, Event, Output, Text, Timestamp, VenueEvent};
use ring::{Agent, AgentError, AtomicGauge, Consumer, Cursor, Producer};
use wire::{
    ouch,
    soupbintcp::{LoginRejectReason, LoginRequest, Server, ServerHappening, Timers},
};

use self::{
    admission::{FailedLogins, Strangers},
    connection::{Connection, READ_BYTES, ReadOutcome, Stage},
};
use crate::{
    CloseReason, ConnectionId, Credentials, LoginFault, NetworkEvent, OperatorEvent,
    OperatorEventSink, OrderEntryCounters, ReplayStore, StreamNetwork, Submission,
    credentials::{authenticate, position},
    drain::{DRAIN_ENDS, DRAIN_REFUSES},
    gate::{self, Gate, Throttle, Verdict},
    message_archive::MessageArchive,
    replay_store::Missing,
    streams::{ReplyStreams, pull_durable},
};

/// Steps (a packet taken or a read) one connection has in one turn.
const STEPS_PER_CONNECTION: usize = 64;
/// Steps all connections with a session have in one turn, before the rest have to wait for the next.
const STEPS_PER_TURN: usize = 1024;
/// Steps all connections without a session have in one turn: they take a fifth of it at most.
const STEPS_OF_STRANGERS: usize = 256;
/// Steps one of them has, many more than a login takes.
const STEPS_PER_STRANGER: usize = 4;
/// Outputs taken from the ring in one turn.
const OUTPUTS_PER_TURN: usize = 1024;
/// How often timers are looked at.
const TICK_NS: u64 = 10_000_000;
/// How long a connection that we have ended may take to read our last words.
const CLOSING_NS: u64 = 1_000_000_000;

/// What [`OrderEntry`] needs to know.
#[derive(Clone, Debug)]
pub struct OrderEntryOptions {
    /// Name of the session: 10 decimal digits. It outlives restarts of the venue.
    pub session: [u8; 10],
    /// Who may log in; each name once.
    pub users: Vec<Credentials>,
    /// Heartbeats and timeouts of the session protocol.
    pub timers: Timers,
    /// How much of everything.
    pub limits: OrderEntryLimits,
    /// How much each session may send.
    pub throttle: Throttle,
}

/// How much of everything [`OrderEntry`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderEntryLimits {
    /// Connections at a time. Each user has a place of its own among them, and the rest, at least
    /// one, is for connections without a session.
    pub connections_max: usize,
    /// Connections without a session at a time, if there are as many places for them.
    pub strangers_max: usize,
    /// Of these, from one address.
    pub strangers_per_address_max: usize,
    /// Malformed messages a connection may send; one more closes it.
    pub malformed_max: u32,
    /// Wrong passwords for one user from one address within the window that make its logins from
    /// there pause.
    pub failed_logins_max: usize,
    /// That window.
    pub failed_login_window_ns: u64,
    /// How long they pause.
    pub login_pause_ns: u64,
    /// How long a client may take nothing while there is something for it.
    pub slow_client_timeout_ns: u64,
    /// Memory for replies of all users, index included; at most 2 GiB. Some 160 KiB of its
    /// newest are kept for each user in any case.
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

/// The agent behind the order entry port: OUCH 5.0 over SoupBinTCP.
///
/// What logged-in clients ask goes to the sequencer by way of the submissions ring, and only while
/// that has a free slot: else connections are not read, and TCP holds the clients back. What the
/// exchange answers is stored per user, numbered from 1, and every connection sends from its own
/// place in that store. So a client that stops reading costs others nothing; it is cut off in time
/// and may log in again and go on from any number that is still kept.
pub struct OrderEntry<N> {
    network: N,
    session: [u8; 10],
    users: Vec<Credentials>,
    timers: Timers,
    limits: OrderEntryLimits,
    submissions: Producer<Submission>,
    outputs: Consumer<Output>,
    durable: Arc<Cursor>,
    replies: ReplyStreams<ReplayStore>,
    /// By the place in the network's table.
    connections: Vec<Option<Box<Connection>>>,
    /// What each user may send.
    gates: Vec<Gate>,
    /// The connection of each user that has one.
    live: Vec<Option<ConnectionId>>,
    /// Accounts whose orders are to be canceled because they were cut off, each once: submitted
    /// before anything else, as soon as the ring has a slot. Mostly empty.
    cut_off: VecDeque<usize>,
    /// Places of connections with a session and something to do, each once, longest waiting first.
    queue: VecDeque<u32>,
    /// As above, of connections without a session.
    queue_of_strangers: VecDeque<u32>,
    pending: usize,
    open: usize,
    /// True if the last turn found the submissions ring full.
    held_up: bool,
    /// Slots of the submissions ring that are free for certain: looked up anew only at 0, because
    /// that reads what another core writes.
    free: usize,
    strangers: Strangers,
    failed_logins: FailedLogins,
    ticked_ns: u64,
    /// Reused every turn.
    events: Vec<NetworkEvent>,
    buffer: Box<[u8]>,
    counters: Arc<OrderEntryCounters>,
    operator_events: Option<OperatorEventSink>,
    /// How far the venue is in stopping; see [`DRAIN_REFUSES`].
    drain: Arc<AtomicGauge>,
    has_ended: bool,
}

/// What is left of a connection after it was served.
enum Served {
    /// It waits for the network or for replies.
    Idle,
    /// It has more to do, as soon as it is its turn again.
    Again,
    /// It is to be closed.
    Close(CloseReason),
}

impl<N: StreamNetwork> OrderEntry<N> {
    /// Over a network that listens. `durable` is the sequence up to which outputs may leave.
    ///
    /// # Panics
    /// Two users share a name, or a limit is out of its range: there is no place for strangers, say.
    pub fn new(
        network: N,
        config: OrderEntryOptions,
        submissions: Producer<Submission>,
        outputs: Consumer<Output>,
        durable: Arc<Cursor>,
    ) -> Self {
        let OrderEntryOptions { session, users, timers, limits, throttle } = config;
        let usernames: Vec<Text<6>> = users.iter().map(Credentials::username).collect();
        let places = limits.connections_max.saturating_sub(users.len());
        let strangers =
            Strangers::new(places.min(limits.strangers_max), limits.strangers_per_address_max);
        let failed_logins = FailedLogins::new(
            limits.failed_logins_max,
            limits.failed_login_window_ns,
            limits.login_pause_ns,
        );
        Self {
            network,
            session,
            replies: ReplyStreams::of_users(
                &usernames,
                ReplayStore::new(usernames.len(), limits.store_bytes_max),
            ),
            live: vec![None; users.len()],
            gates: users.iter().map(|user| Gate::new(throttle, user.firms.clone())).collect(),
            cut_off: VecDeque::new(),
            users,
            timers,
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
            strangers,
            failed_logins,
            ticked_ns: 0,
            events: Vec::new(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            counters: Arc::default(),
            operator_events: None,
            drain: Arc::new(AtomicGauge::new(0)),
            has_ended: false,
        }
    }

    /// Stops as that says; see [`DRAIN_REFUSES`].
    pub fn set_drain(&mut self, drain: Arc<AtomicGauge>) {
        self.drain = drain;
    }

    /// Sends operator events there from now on.
    pub fn set_operator_events(&mut self, operator_events: OperatorEventSink) {
        self.operator_events = Some(operator_events);
    }

    /// What it counts; may be read from any thread.
    #[must_use]
    pub fn counters(&self) -> Arc<OrderEntryCounters> {
        Arc::clone(&self.counters)
    }

    /// Takes an output of a replayed journal: replies are stored as they were, nothing is sent.
    pub fn replay(&mut self, output: &Output) {
        self.replies.take(output);
        gate::learn(&mut self.gates, output, |session_id| self.replies.stream(session_id));
        while self.replies.next_touched().is_some() {}
        self.count_replies();
    }

    /// Takes up what was said before a snapshot, before the first output.
    pub fn restore(&mut self, archive: &MessageArchive) {
        self.replies.restore(archive);
        self.count_replies();
    }

    /// Stores the replies that are durable by now and wakes the connections they are for.
    fn take_outputs(&mut self) -> usize {
        let Self { replies, outputs, durable, gates, .. } = self;
        // Rare, and none takes no memory.
        let mut logged_out = Vec::new();
        let count = pull_durable(outputs, durable, OUTPUTS_PER_TURN, |output| {
            if let Event::Venue(VenueEvent::LoggedOut(session_id)) = &output.event {
                logged_out.extend(replies.stream(*session_id));
            }
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

    fn count_replies(&self) {
        self.counters.replies.set(self.replies.count());
        self.counters.store_bytes.set(self.replies.store().bytes() as u64);
    }

    fn take_network_events(&mut self, now_ns: u64) -> Result<usize, AgentError> {
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
        let server = Server::new(self.timers, now_ns);
        let mut connection = Box::new(Connection::new(id, address, server));
        connection.readable = true;
        self.connections[index] = Some(connection);
        self.open += 1;
        self.pending += 1;
        self.enqueue(id.index);
    }

    /// Gives a connection without a session its place; another may lose its own for it.
    fn add_stranger(&mut self, id: ConnectionId, address: SocketAddr, now_ns: u64) {
        let Some(leaves) = self.strangers.add(id, address.ip()) else { return };
        let place = self.connections.get_mut(leaves.index as usize).and_then(Option::take);
        let mut connection = place.expect("a stranger has a connection, and is not being served");
        self.counters.pushed_out.add(1);
        if connection.stage == Stage::Pending {
            // As far as the socket takes it at once.
            connection.server.send_debug("closed: too many connections without login", now_ns);
            let _ = connection.write(&mut self.network, now_ns);
        }
        self.drop_connection(*connection, CloseReason::PushedOut);
    }

    fn wake(&mut self, id: ConnectionId, note: impl FnOnce(&mut Connection)) {
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

    /// Serves those that wait, each once, until the turn has had its share: first the sessions, so that
    /// one that has ended is free before its user logs in again, then those without a session. Both
    /// have steps of their own, so a login is read before newer connections push it out.
    fn serve_queues(&mut self, now_ns: u64) -> usize {
        let mut waiting = std::mem::take(&mut self.queue);
        let mut work = self.serve_queue(&mut waiting, STEPS_PER_TURN, now_ns);
        // Those that were not reached stay in front of those that come again.
        waiting.append(&mut self.queue);
        self.queue = waiting;
        let mut waiting = std::mem::take(&mut self.queue_of_strangers);
        work += self.serve_queue(&mut waiting, STEPS_OF_STRANGERS, now_ns);
        waiting.append(&mut self.queue_of_strangers);
        self.queue_of_strangers = waiting;
        work
    }

    fn serve_queue(&mut self, waiting: &mut VecDeque<u32>, steps_max: usize, now_ns: u64) -> usize {
        let mut work = 0;
        let mut steps = 0;
        while steps < steps_max {
            let Some(index) = waiting.pop_front() else { break };
            let Some(mut connection) = self.connections[index as usize].take() else { continue };
            connection.queued = false;
            let before = work;
            let served = self.serve(&mut connection, now_ns, &mut work);
            steps += 1 + work - before;
            match served {
                Served::Close(reason) => self.drop_connection(*connection, reason),
                Served::Idle => self.connections[index as usize] = Some(connection),
                Served::Again => {
                    self.connections[index as usize] = Some(connection);
                    self.enqueue(index);
                }
            }
        }
        work
    }

    fn serve(&mut self, connection: &mut Connection, now_ns: u64, work: &mut usize) -> Served {
        if connection.ends.is_some() {
            self.end_session(connection, now_ns);
        }
        let drain = self.drain.get();
        let read = match connection.stage {
            Stage::Closing { .. } => self.discard(connection, work),
            // What it sends from now on is not taken.
            Stage::Pending | Stage::Live(_) if drain >= DRAIN_REFUSES => Served::Idle,
            Stage::Pending | Stage::Live(_) => self.take_packets(connection, now_ns, work),
        };
        if let Served::Close(reason) = read {
            return Served::Close(reason);
        }
        match self.give_replies(connection, now_ns, work) {
            Served::Idle => read,
            other => other,
        }
    }

    /// Takes what the client sent, a packet at a time, while the ring has a slot for it.
    fn take_packets(
        &mut self,
        connection: &mut Connection,
        now_ns: u64,
        work: &mut usize,
    ) -> Served {
        let steps = match connection.stage {
            Stage::Live(_) => STEPS_PER_CONNECTION,
            Stage::Pending | Stage::Closing { .. } => STEPS_PER_STRANGER,
        };
        for _ in 0..steps {
            if self.free == 0 {
                self.free = self.submissions.free();
            }
            if self.free == 0 {
                // Not counted as work: the sequencer wakes us when it has made room.
                self.held_up = true;
                self.counters.stalls.add(1);
                return Served::Again;
            }
            if let Some(served) = self.take_packet(connection, now_ns, work) {
                return served;
            }
        }
        Served::Again
    }

    /// Takes the next packet, or reads if none is whole; the ring has a slot. Returns what is left of
    /// the connection where it has to stop.
    #[inline]
    fn take_packet(
        &mut self,
        connection: &mut Connection,
        now_ns: u64,
        work: &mut usize,
    ) -> Option<Served> {
        let happening = match connection.server.next() {
            Ok(Some(happening)) => happening,
            Ok(None) => return self.read(connection, now_ns, work),
            Err(violation) => {
                self.break_off(connection, &violation.to_string(), now_ns);
                return Some(Served::Again);
            }
        };
        *work += 1;
        match happening {
            ServerHappening::Login(request) => {
                let login = self.log_in(connection.address, &request, now_ns);
                self.answer_login(connection, login, now_ns);
            }
            ServerHappening::Message(message) => {
                let Stage::Live(user) = connection.stage else {
                    unreachable!("messages come after the login was accepted")
                };
                match self.submit(user, message, now_ns) {
                    Ok(Verdict::Block | Verdict::Blocked) => {
                        let text = self.blocked_text(user, now_ns);
                        connection.server.send_debug(&text, now_ns);
                        self.begin_closing(connection, Some(CloseReason::Blocked), now_ns);
                    }
                    Ok(_) => {}
                    Err(fault) => self.answer_malformed(connection, user, fault, now_ns),
                }
            }
            ServerHappening::Logout => return Some(Served::Close(CloseReason::Logout)),
        }
        matches!(connection.stage, Stage::Closing { .. }).then_some(Served::Again)
    }

    /// Reads once, and returns what is left of the connection where it has to stop.
    fn read(
        &mut self,
        connection: &mut Connection,
        now_ns: u64,
        work: &mut usize,
    ) -> Option<Served> {
        let count = match connection.read(&mut self.network, &mut self.buffer) {
            ReadOutcome::Bytes(count) => count,
            ReadOutcome::Nothing => return Some(Served::Idle),
            ReadOutcome::Ended => return Some(Served::Close(CloseReason::Gone)),
        };
        *work += 1;
        self.counters.bytes_in.add(count as u64);
        let violation = connection.server.receive(&self.buffer[..count], now_ns).err()?;
        self.break_off(connection, &violation.to_string(), now_ns);
        Some(Served::Again)
    }

    fn blocked_text(&self, user: usize, now_ns: u64) -> String {
        let seconds = self.gates[user].blocked_s(now_ns);
        format!("blocked for {seconds} s: too many messages without effect")
    }

    /// Submits one OUCH message, if its session may send it; the ring has a slot.
    fn submit(
        &mut self,
        user: usize,
        message: &[u8],
        now_ns: u64,
    ) -> Result<Verdict, ouch::Malformed> {
        self.counters.messages.add(1);
        let session_id = self.replies.session(user).expect("who is logged in has a session");
        let received = Timestamp(now_ns);
        let command = ouch::command(message, session_id, received)?;
        let verdict = self.gates[user].check(&command, now_ns);
        let Some(command) = verdict.submits(command, &self.counters.gate()) else {
            return Ok(verdict);
        };
        let submission = Submission { received, command };
        self.submissions.try_publish(submission).expect("there was a free slot");
        self.free -= 1;
        self.counters.submitted.add(1);
        Ok(verdict)
    }

    /// Has the orders of users canceled that were cut off and want it so. Their commands before
    /// are submitted already, and those of their next connection come after.
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

    fn answer_malformed(
        &mut self,
        connection: &mut Connection,
        user: usize,
        fault: ouch::Malformed,
        now_ns: u64,
    ) {
        self.counters.malformed.add(1);
        let fault = fault.to_string();
        connection.server.send_debug(&format!("message ignored: {fault}"), now_ns);
        self.notify(OperatorEvent::Malformed {
            username: self.users[user].username(),
            address: connection.address,
            fault,
        });
        connection.malformed += 1;
        if connection.malformed > self.limits.malformed_max {
            connection.server.send_debug("too many malformed messages", now_ns);
            self.begin_closing(connection, Some(CloseReason::TooManyMalformed), now_ns);
        }
    }

    /// Decides a login: the user and the number of the first reply to send.
    fn log_in(
        &mut self,
        address: SocketAddr,
        request: &LoginRequest,
        now_ns: u64,
    ) -> Result<(usize, u64), LoginFault> {
        let (ip, asked) = (address.ip(), position(&self.users, &request.username));
        if let Some(user) = asked.filter(|user| self.failed_logins.pauses(ip, *user, now_ns)) {
            return Err(LoginFault::Paused(self.users[user].username()));
        }
        let Some(user) = authenticate(&self.users, &request.username, &request.password) else {
            // A name that nobody has is not remembered: so nobody's memory is pushed out by it.
            if let Some(user) = asked {
                self.failed_logins.record(ip, user, now_ns);
            }
            return Err(LoginFault::Credentials);
        };
        let username = self.users[user].username();
        let session = request.session.as_str().as_bytes();
        if !session.is_empty() && session != self.session.trim_ascii() {
            return Err(LoginFault::NoSuchSession);
        }
        if self.replies.session(user).is_none() {
            return Err(LoginFault::NotYetAdded(username));
        }
        if self.gates[user].blocked_s(now_ns) > 0 {
            return Err(LoginFault::Blocked(username));
        }
        if self.live[user].is_some() {
            return Err(LoginFault::AlreadyConnected(username));
        }
        let store = self.replies.store();
        let next = store.next(user);
        let first = match request.sequence_number {
            // SoupBinTCP 3.00: 0 starts with the most recently generated message.
            Some(0) => (next - 1).max(1),
            Some(number) => number,
            // Who names none gets everything, so that nothing is missed.
            None => 1,
        };
        if first > next {
            return Err(LoginFault::NumberInFuture(username, next));
        }
        if first < store.first(user) {
            return Err(LoginFault::RepliesDropped(username, store.first(user)));
        }
        Ok((user, first))
    }

    fn answer_login(
        &mut self,
        connection: &mut Connection,
        login: Result<(usize, u64), LoginFault>,
        now_ns: u64,
    ) {
        let address = connection.address;
        match login {
            Ok((user, next_reply)) => {
                connection.server.accept(&self.session, next_reply, now_ns);
                connection.stage = Stage::Live(user);
                connection.next_reply = next_reply;
                self.live[user] = Some(connection.id);
                self.strangers.remove(connection.id);
                self.pending -= 1;
                self.counters.logins.add(1);
                let username = self.users[user].username();
                self.notify(OperatorEvent::LoggedIn { username, address, next_reply });
            }
            Err(reason) => {
                let code = match reason {
                    LoginFault::Credentials | LoginFault::Paused(_) => {
                        LoginRejectReason::NotAuthorized
                    }
                    LoginFault::RepliesDropped(_, first) => {
                        let text = format!("replies before {first} are no longer kept");
                        connection.server.send_debug(&text, now_ns);
                        LoginRejectReason::SessionNotAvailable
                    }
                    LoginFault::NumberInFuture(_, next) => {
                        let text = format!("the next reply is {next}");
                        connection.server.send_debug(&text, now_ns);
                        LoginRejectReason::SessionNotAvailable
                    }
                    LoginFault::Blocked(username) => {
                        let user = position(&self.users, &username).expect("it is a user");
                        connection.server.send_debug(&self.blocked_text(user, now_ns), now_ns);
                        LoginRejectReason::SessionNotAvailable
                    }
                    LoginFault::NoSuchSession
                    | LoginFault::NotYetAdded(_)
                    | LoginFault::AlreadyConnected(_) => LoginRejectReason::SessionNotAvailable,
                };
                connection.server.reject(code, now_ns);
                self.counters.logins_rejected.add(1);
                self.notify(OperatorEvent::LoginRejected { address, reason });
                self.begin_closing(connection, None, now_ns);
            }
        }
    }

    /// Ends a connection that broke the protocol, and says so to it first.
    fn break_off(&mut self, connection: &mut Connection, violation: &str, now_ns: u64) {
        self.counters.violations.add(1);
        connection.server.send_debug(violation, now_ns);
        let reason = CloseReason::Violation(violation.to_owned());
        self.begin_closing(connection, Some(reason), now_ns);
    }

    /// Ends a session as soon as all its replies so far were given: they come before its end.
    fn end_session(&mut self, connection: &mut Connection, now_ns: u64) {
        let is_over = match connection.stage {
            Stage::Live(user) => connection.next_reply == self.replies.store().next(user),
            Stage::Pending => true,
            Stage::Closing { .. } => false,
        };
        if is_over && let Some(reason) = connection.ends.take() {
            // A connection that has not logged in has no session that could end.
            if connection.stage != Stage::Pending {
                connection.server.end_of_session(now_ns);
            }
            self.begin_closing(connection, Some(reason), now_ns);
        }
    }

    /// Ends every session, once the venue takes no more and has answered all that it took.
    fn end_sessions(&mut self) {
        if self.drain.get() < DRAIN_ENDS || self.has_ended {
            return;
        }
        self.has_ended = true;
        for index in 0..self.connections.len() {
            if let Some(connection) = &mut self.connections[index] {
                connection.ends = Some(CloseReason::GatewayClosed);
                self.enqueue(index as u32);
            }
        }
    }

    /// From here on nothing is read from the connection, and its user may log in again at once.
    /// Reports the reason once.
    fn begin_closing(
        &mut self,
        connection: &mut Connection,
        reason: Option<CloseReason>,
        now_ns: u64,
    ) {
        self.release(connection, reason);
        if matches!(connection.stage, Stage::Live(_)) {
            self.add_stranger(connection.id, connection.address, now_ns);
        }
        connection.stage = Stage::Closing { until_ns: now_ns + CLOSING_NS, finished: false };
    }

    /// Reads and forgets what a closing connection still sends.
    fn discard(&mut self, connection: &mut Connection, work: &mut usize) -> Served {
        for _ in 0..STEPS_PER_STRANGER {
            match connection.read(&mut self.network, &mut self.buffer) {
                ReadOutcome::Bytes(count) => {
                    *work += 1;
                    self.counters.bytes_in.add(count as u64);
                }
                ReadOutcome::Nothing => return Served::Idle,
                ReadOutcome::Ended => return Served::Close(CloseReason::Gone),
            }
        }
        Served::Again
    }

    /// Sends what the connection has not been sent yet, as far as it takes it.
    fn give_replies(
        &mut self,
        connection: &mut Connection,
        now_ns: u64,
        work: &mut usize,
    ) -> Served {
        let mut filled = 0;
        if let Stage::Live(user) = connection.stage {
            match connection.fill(self.replies.store(), user, now_ns) {
                Ok(count) => filled = count,
                Err(Missing::Dropped(first)) => {
                    let text = format!("replies before {first} are no longer kept");
                    connection.server.send_debug(&text, now_ns);
                    self.begin_closing(connection, Some(CloseReason::FellBehind), now_ns);
                }
                Err(Missing::Future(_)) => unreachable!("it asks only below the next number"),
            }
        }
        self.counters.replies_sent.add(filled);
        let Ok(written) = connection.write(&mut self.network, now_ns) else {
            return Served::Close(CloseReason::Gone);
        };
        self.counters.bytes_out.add(written as u64);
        *work += filled as usize + usize::from(written > 0);
        if !connection.server.outgoing().is_empty() {
            // The socket is full: `Writable` brings the connection back.
            return Served::Idle;
        }
        match &mut connection.stage {
            Stage::Live(user) if connection.next_reply < self.replies.store().next(*user) => {
                Served::Again
            }
            // All was given: what ends it comes next.
            Stage::Live(_) | Stage::Pending if connection.ends.is_some() => Served::Again,
            Stage::Closing { finished, .. } if !*finished => {
                *finished = true;
                self.network.finish(connection.id);
                Served::Again
            }
            _ => Served::Idle,
        }
    }

    /// Looks at every connection's timers.
    fn tick(&mut self, now_ns: u64) -> usize {
        if now_ns.saturating_sub(self.ticked_ns) < TICK_NS {
            return 0;
        }
        self.ticked_ns = now_ns;
        let mut work = 0;
        for index in 0..self.connections.len() {
            let Some(mut connection) = self.connections[index].take() else { continue };
            if let Some(reason) = self.timed_out(&mut connection, now_ns) {
                work += 1;
                self.drop_connection(*connection, reason);
                continue;
            }
            let has_bytes = connection.writable && !connection.server.outgoing().is_empty();
            self.connections[index] = Some(connection);
            if has_bytes {
                work += 1;
                self.enqueue(index as u32);
            }
        }
        work
    }

    fn timed_out(&mut self, connection: &mut Connection, now_ns: u64) -> Option<CloseReason> {
        if let Stage::Closing { until_ns, .. } = connection.stage {
            return (now_ns >= until_ns).then_some(CloseReason::Silent);
        }
        if connection.server.tick(now_ns).is_err() {
            let counter = match connection.stage {
                Stage::Pending => Some(&self.counters.login_timeouts),
                // Who is not read because the ring is full is not silent.
                _ if connection.readable => None,
                _ => Some(&self.counters.silent_closed),
            };
            if let Some(counter) = counter {
                counter.add(1);
                return Some(CloseReason::Silent);
            }
        }
        let blocked_since_ns = connection.blocked_since_ns?;
        let slow = now_ns.saturating_sub(blocked_since_ns) >= self.limits.slow_client_timeout_ns;
        if slow {
            self.counters.slow_closed.add(1);
        }
        slow.then_some(CloseReason::Slow)
    }

    fn drop_connection(&mut self, connection: Connection, reason: CloseReason) {
        if reason == CloseReason::Logout {
            self.counters.logouts.add(1);
        }
        self.network.close(connection.id);
        self.strangers.remove(connection.id);
        self.open -= 1;
        self.release(&connection, Some(reason));
    }

    /// Takes the connection out of the count of its stage, and reports the reason once.
    fn release(&mut self, connection: &Connection, reason: Option<CloseReason>) {
        let address = connection.address;
        let event = match connection.stage {
            Stage::Pending => {
                self.pending -= 1;
                reason.map(|reason| OperatorEvent::NeverLoggedIn { address, reason })
            }
            Stage::Live(user) => {
                self.live[user] = None;
                if self.users[user].cancel_on_disconnect && !self.cut_off.contains(&user) {
                    self.cut_off.push_back(user);
                }
                let username = self.users[user].username();
                reason.map(|reason| OperatorEvent::LoggedOut { username, address, reason })
            }
            Stage::Closing { .. } => None,
        };
        if let Some(event) = event {
            self.notify(event);
        }
    }

    fn notify(&mut self, event: OperatorEvent) {
        if let Some(operator_events) = &mut self.operator_events {
            operator_events(event);
        }
    }
}

impl<N: StreamNetwork + Send + 'static> Agent for OrderEntry<N> {
    fn name(&self) -> &str {
        "order entry"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        self.held_up = false;
        let mut work = self.take_outputs();
        if self.drain.get() < DRAIN_REFUSES {
            work += self.cancel_for_cut_off(now_ns);
        }
        self.end_sessions();
        work += self.take_network_events(now_ns)?;
        work += self.serve_queues(now_ns);
        work += self.tick(now_ns);
        self.counters.connections.set(self.open as u64);
        self.counters.connections_pending.set(self.pending as u64);
        Ok(work)
    }

    fn is_held_up(&self) -> bool {
        self.held_up
    }

    /// Sends what is durable as far as sockets take it at once, and closes those that were not
    /// closed with an end of session before.
    fn close(&mut self) {
        self.take_outputs();
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
