//! Order entry over UDP: OUCH in datagrams in, submissions out; replies back in MoldUDP64 packets.
//!
//! Invariant: a reply leaves only when its cause is durable; sessions are served by turns, and no datagram is taken
//! while the submissions ring is full.

mod intake;
mod waiting;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
};

use market::{Firm, OutputLine, SessionId, Text, Timestamp};
use ring::{Agent, AgentError, AtomicGauge, Consumer, Cursor, Producer};

use self::{
    intake::{Intake, Request, Share, Shares},
    waiting::Waiting,
};
use crate::{
    DatagramNetwork, OperatorEvent, OperatorEventSink, OrderEntryPort, OrderEntryUdpCounters,
    ReplayStore, Submission,
    contention::Contention,
    credentials::plain_username,
    drain::{DRAIN_ENDS, DRAIN_REFUSES, END_PACKETS},
    gate::{self, Gate, Throttle},
    looks::{ENTRY_INTERVAL_NS, Looks},
    message_archive::MessageArchive,
    operator_event::OperatorEvents,
    packets::{HEARTBEAT_NS, PACKET_BYTES_MAX, Packets},
    replay_store::Missing,
    streams::{Dialect, ReplyStreams, each_for_gateways, pull_durable},
};

/// Datagrams received in one turn; one batch more at most. As many as the kernel's buffer holds, so that a flood
/// leaves room there for others.
const DATAGRAMS_RECEIVED_PER_TURN: usize = 16_384;
/// The most packets of replies sent to one user in one turn.
const PACKETS_PER_USER: usize = 8;
/// The most lines taken from the ring of outputs in one turn.
const OUTPUTS_PER_TURN: usize = 1024;
/// The most requests of one session for earlier replies answered in one turn; further requests are not answered, and
/// are sent again.
const ANSWERS_PER_SESSION: usize = 16;

/// The most messages that may wait for a slot in the submissions ring: one batch of 64 datagrams of 2,048 bytes, each
/// full of messages of one byte after their length.
pub const BACKLOG_MAX: usize = 64 * 2_048 / 3;

/// The interval between checks for heartbeats due.
const TICK_NS: u64 = 10_000_000;

/// The options of [`OrderEntryUdp`].
#[derive(Clone, Debug)]
pub struct OrderEntryUdpOptions {
    /// The name of the session in the packets of replies: 10 decimal digits.
    pub session: [u8; 10],
    /// The participants that may send. Each address and each name once.
    pub users: Vec<UdpParticipant>,
    /// Memory for replies of all users, index included; at most 2 GiB.
    pub store_bytes_max: usize,
    /// The amount that each session may send.
    pub throttle: Throttle,
}

/// A participant that sends datagrams.
#[derive(Clone, Debug)]
pub struct UdpParticipant {
    /// The source of its datagrams and the destination of its replies.
    pub address: SocketAddr,
    /// The user name that the address stands for.
    pub username: Text<6>,
    /// The firms of its orders. An order without a firm is always allowed.
    pub firms: Vec<Firm>,
}

/// The agent behind the order entry port for datagrams: OUCH 5.0 over UDP.
///
/// The source address of a datagram identifies its user. A datagram is one OUCH message (its first byte is a letter),
/// several of them, each after its length in two bytes (its first byte is below `A`), or a MoldUDP64 request for
/// earlier replies (20 bytes, the first a digit). Replies go to the address in MoldUDP64 packets, numbered from 1 for
/// each user, so that lost replies are noticed and requested again; a heartbeat each second gives the next number.
///
/// Sessions are served by turns. Datagrams that a session sends beyond its turn, or while the submissions ring is
/// full, wait in 512 KiB of its own; beyond that they are dropped and counted. The client itself must send orders
/// again that are lost on the way; OUCH makes that safe.
pub struct OrderEntryUdp<N> {
    network: N,
    intake: Intake,
    outputs: Consumer<OutputLine>,
    durable: Arc<Cursor>,
    replies: ReplyStreams<ReplayStore>,
    users: Vec<UdpUser>,
    /// Accounts with replies to send, each once, longest waiting first.
    queue: VecDeque<usize>,
    packets: Packets,
    contention: Contention,
    /// The checks of the socket.
    looks: Looks,
    ticked_ns: u64,
    /// True if the last turn found the submissions ring full.
    held_up: bool,
    counters: Arc<OrderEntryUdpCounters>,
    /// The stage of the venue's stop; see [`DRAIN_REFUSES`](crate::DRAIN_REFUSES).
    drain: Arc<AtomicGauge>,
    /// The number of packets sent so far that announce the end of the sessions.
    ends_sent: u32,
}

struct UdpUser {
    address: SocketAddr,
    /// The number of the next reply to send.
    next_reply: u64,
    sent_ns: u64,
    /// True if it is in the queue.
    queued: bool,
}

impl<N: DatagramNetwork> OrderEntryUdp<N> {
    /// Runs over a bound socket. `durable` is the sequence up to which outputs may leave.
    ///
    /// # Panics
    /// Two users share an address or a name, or a name is blank.
    pub fn new(
        network: N,
        config: OrderEntryUdpOptions,
        mut submissions: Producer<Submission>,
        outputs: Consumer<OutputLine>,
        durable: Arc<Cursor>,
    ) -> Self {
        let OrderEntryUdpOptions { session, users, store_bytes_max, throttle } = config;
        let usernames: Vec<_> = users
            .iter()
            .map(|user| plain_username(user.username.as_bytes()).expect("a name is not blank"))
            .collect();
        let by_address: BTreeMap<_, _> =
            users.iter().enumerate().map(|(index, user)| (user.address, index)).collect();
        assert_eq!(by_address.len(), users.len(), "each user has its own address");
        let gates = users.iter().map(|user| Gate::new(throttle, user.firms.clone())).collect();
        let user = |user: UdpParticipant| UdpUser {
            address: user.address,
            next_reply: 1,
            sent_ns: 0,
            queued: false,
        };
        let counters = Arc::default();
        Self {
            network,
            replies: ReplyStreams::of_users(
                &usernames,
                ReplayStore::new(usernames.len(), store_bytes_max),
            ),
            users: users.into_iter().map(user).collect(),
            intake: Intake {
                session,
                by_address,
                waiting: usernames.iter().map(|_| Waiting::default()).collect(),
                turns: VecDeque::new(),
                shares: Shares::ALONE,
                taken: Share::default(),
                slots: submissions.free(),
                free: 0,
                last_sender: None,
                usernames,
                gates,
                submissions,
                backlog: VecDeque::new(),
                requests: Vec::new(),
                datagram: Vec::new(),
                counters: Arc::clone(&counters),
                operator_events: OperatorEvents::default(),
            },
            outputs,
            durable,
            queue: VecDeque::new(),
            contention: Contention::default(),
            packets: Packets::new(session, PACKET_BYTES_MAX),
            looks: Looks::new(ENTRY_INTERVAL_NS),
            ticked_ns: 0,
            held_up: false,
            counters,
            drain: Arc::new(AtomicGauge::new(0)),
            ends_sent: 0,
        }
    }

    /// The counters; may be read from any thread.
    #[must_use]
    pub fn counters(&self) -> Arc<OrderEntryUdpCounters> {
        Arc::clone(&self.counters)
    }

    /// Stores the replies that are now durable.
    fn take_outputs(&mut self, now_ns: u64) -> usize {
        let Self { replies, outputs, durable, intake, contention, .. } = self;
        let count = pull_durable(outputs, durable, OUTPUTS_PER_TURN, |output| {
            contention.take(&output.event, now_ns);
            replies.take(output);
            gate::learn(&mut intake.gates, output, |session_id| replies.stream(session_id));
        });
        while let Some(user) = self.replies.next_touched() {
            // Replies in another protocol are not sent in datagrams.
            if self.speaks_ouch(user) {
                self.enqueue(user);
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

    fn speaks_ouch(&self, user: usize) -> bool {
        self.replies.dialect(user, false).is_none_or(|dialect| dialect == Dialect::Ouch)
    }

    fn enqueue(&mut self, user: usize) {
        if !self.users[user].queued {
            self.users[user].queued = true;
            self.queue.push_back(user);
        }
    }

    /// Empties the socket, and takes the datagrams for which their sessions have a turn. Waiting datagrams come first.
    fn take_datagrams(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let is_due = self.looks.is_due(now_ns);
        let is_shared = self.contention.is_shared(now_ns);
        let Self { network, intake, replies, users, .. } = self;
        let mut work = intake.empty_backlog();
        if self.drain.get() >= DRAIN_REFUSES {
            return Ok(work);
        }
        intake.begin_turn(is_shared);
        work += intake.take_waiting(replies, users);
        let mut received = 0;
        while is_due && received < DATAGRAMS_RECEIVED_PER_TURN {
            let count = network
                .receive(&mut |from, datagram| {
                    intake.receive(replies, from, datagram, Timestamp(now_ns));
                })
                .map_err(|error| format!("the order entry UDP socket failed: {error}"))?;
            for address in network.too_long() {
                self.counters.datagrams.add(1);
                self.counters.too_long.add(1);
                intake.notify(OperatorEvent::DatagramTooLong { address });
            }
            received += count;
            if count == 0 || !network.may_have_more() {
                break;
            }
        }
        work += received + intake.take_more(replies, users);
        if received > 0 {
            self.looks.heard(now_ns);
        }
        if intake.is_full() && !intake.turns.is_empty() {
            self.counters.stalls.add(1);
            self.held_up = true;
        }
        Ok(work)
    }

    fn answer_requests(&mut self) -> Result<usize, AgentError> {
        let mut requests = std::mem::take(&mut self.intake.requests);
        let count = requests.len();
        for Request { user, first, count } in requests.drain(..) {
            let store = self.replies.store();
            let packet = self.packets.fill(first, count, |number| store.get(user, number));
            let sent = match packet {
                Ok((_, packet)) => {
                    let to = self.users[user].address;
                    send(&mut self.network, to, packet, &[], &self.counters)?
                }
                Err(_) => false,
            };
            if sent {
                self.counters.requests_answered.add(1);
            } else {
                self.counters.requests_unanswered.add(1);
            }
        }
        self.intake.requests = requests;
        Ok(count)
    }

    /// Sends new replies, to each user its share, until the network is full.
    fn send_replies(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let mut work = 0;
        for _ in 0..self.queue.len() {
            let Some(user) = self.queue.pop_front() else { break };
            self.users[user].queued = false;
            for _ in 0..PACKETS_PER_USER {
                let store = self.replies.store();
                let UdpUser { address, next_reply, .. } = self.users[user];
                let (count, header, blocks) = match self.packets.stored(store, user, next_reply) {
                    Ok(packet) => packet,
                    Err(Missing::Future(_)) => break,
                    Err(Missing::Dropped(first)) => {
                        self.skip(user, first);
                        continue;
                    }
                };
                if !send(&mut self.network, address, &header, blocks, &self.counters)? {
                    self.users[user].queued = true;
                    self.queue.push_front(user);
                    return Ok(work);
                }
                work += 1;
                self.users[user].next_reply += u64::from(count);
                self.users[user].sent_ns = now_ns;
            }
            if self.users[user].next_reply < self.replies.store().next(user) {
                self.enqueue(user);
            }
        }
        Ok(work)
    }

    /// Continues where the store begins. The client sees the gap from the numbers.
    fn skip(&mut self, user: usize, first: u64) {
        let skipped = first - self.users[user].next_reply;
        self.users[user].next_reply = first;
        self.counters.replies_skipped.add(skipped);
        let username = self.intake.usernames[user];
        self.intake.notify(OperatorEvent::RepliesDropped { username, first });
    }

    /// Sends the next number to users that have been sent nothing for a second.
    fn send_heartbeats(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        if now_ns.saturating_sub(self.ticked_ns) < TICK_NS {
            return Ok(0);
        }
        self.ticked_ns = now_ns;
        let mut work = 0;
        for index in 0..self.users.len() {
            let user = &self.users[index];
            let is_due = now_ns.saturating_sub(user.sent_ns) >= HEARTBEAT_NS && !user.queued;
            if !is_due || self.replies.session(index).is_none() || !self.speaks_ouch(index) {
                continue;
            }
            let packet = self.packets.heartbeat(user.next_reply);
            if send(&mut self.network, user.address, packet, &[], &self.counters)? {
                self.users[index].sent_ns = now_ns;
                work += 1;
            }
        }
        Ok(work)
    }
}

impl<N: DatagramNetwork> OrderEntryUdp<N> {
    fn flush(&mut self) -> Result<(), AgentError> {
        let flushed = self.network.flush();
        flushed.map_err(|error| format!("the order entry UDP socket failed: {error}").into())
    }

    /// Announces the end of the session to every user, several times, since a packet may be lost.
    fn send_ends(&mut self) -> Result<usize, AgentError> {
        let is_time = self.drain.get() >= DRAIN_ENDS && self.queue.is_empty();
        if !is_time || self.ends_sent == END_PACKETS {
            return Ok(0);
        }
        self.ends_sent += 1;
        for user in 0..self.users.len() {
            if self.replies.session(user).is_some() && self.speaks_ouch(user) {
                let UdpUser { address, next_reply, .. } = self.users[user];
                let packet = self.packets.end_of_session(next_reply);
                send(&mut self.network, address, &packet, &[], &self.counters)?;
            }
        }
        Ok(self.users.len())
    }
}

/// Sends a packet and counts it; false if the network is full for now.
fn send(
    network: &mut impl DatagramNetwork,
    to: SocketAddr,
    header: &[u8],
    blocks: &[u8],
    counters: &OrderEntryUdpCounters,
) -> Result<bool, AgentError> {
    let sent = network
        .send_parts(to, header, blocks)
        .map_err(|error| format!("the order entry UDP socket failed: {error}"))?;
    if sent {
        counters.packets.add(1);
        counters.bytes_out.add((header.len() + blocks.len()) as u64);
    }
    Ok(sent)
}

impl<N: DatagramNetwork + Send + 'static> OrderEntryPort for OrderEntryUdp<N> {
    fn component(&self) -> &'static str {
        "order entry udp"
    }

    fn set_operator_events(&mut self, sink: Box<dyn OperatorEventSink>) {
        self.intake.operator_events.go_to(sink);
    }

    fn set_drain(&mut self, drain: Arc<AtomicGauge>) {
        self.drain = drain;
    }

    fn restore(&mut self, archive: &MessageArchive) {
        self.replies.restore(archive);
        for (index, user) in self.users.iter_mut().enumerate() {
            user.next_reply = self.replies.store().next(index);
        }
        self.count_replies();
    }

    fn replay(&mut self, line: &OutputLine) {
        each_for_gateways(line, |output| self.replies.take(output));
        while let Some(user) = self.replies.next_touched() {
            self.users[user].next_reply = self.replies.store().next(user);
        }
        self.count_replies();
    }

    fn know_used(&mut self, session_id: SessionId, channel: u8, user_ref_num: u32) {
        if let Some(user) = self.replies.stream(session_id) {
            self.intake.gates[user].know_used(channel, user_ref_num);
        }
    }
}

impl<N: DatagramNetwork + Send + 'static> Agent for OrderEntryUdp<N> {
    fn name(&self) -> &str {
        self.component()
    }

    fn note_busy(&mut self, is_busy: bool) {
        self.looks.note_busy(is_busy);
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        self.held_up = false;
        self.intake.operator_events.turn(now_ns);
        let mut work = self.take_outputs(now_ns);
        work += self.send_replies(now_ns)?;
        self.flush()?;
        work += self.take_datagrams(now_ns)?;
        self.counters.backlog.set(self.intake.backlog.len() as u64);
        work += self.answer_requests()?;
        work += self.send_heartbeats(now_ns)?;
        work += self.send_ends()?;
        self.flush()?;
        Ok(work)
    }

    fn is_held_up(&self) -> bool {
        self.held_up
    }

    /// Sends the durable replies as far as the network takes them at once.
    fn close(&mut self) {
        self.take_outputs(self.ticked_ns);
        // The venue is closing, perhaps because of this very socket: failures now are not reported.
        let _ = self.send_replies(self.ticked_ns);
        let _ = self.network.flush();
    }
}
