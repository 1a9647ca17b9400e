//! The feed: encodes outputs as ITCH, sends them in MoldUDP64 packets, and answers re-requests.
//!
//! Invariant: a message leaves only when its cause is durable, and keeps its number for ever.

use std::{net::SocketAddr, sync::Arc};

use market::Output;
use ring::{Agent, AgentError, AtomicGauge, Consumer, Cursor};
use wire::moldudp64;

use crate::{
    DatagramNetwork, MarketDataCounters, ReplayStore,
    drain::{DRAIN_ENDS, END_PACKETS},
    message_archive::MessageArchive,
    packets::{HEARTBEAT_NS, PACKET_BYTES_MAX, Packets},
    replay_store::Missing,
    requesters::{RequestLimits, Requesters},
    streams::{FeedStream, pull_durable},
};

/// Outputs taken from the ring in one turn.
const OUTPUTS_PER_TURN: usize = 1024;
/// Messages that may be stored and not yet sent; then no more outputs are taken.
const UNSENT_MAX: u64 = 4096;
/// Batches of requests received in one turn.
const REQUEST_BATCHES_PER_TURN: usize = 2;
/// Requests answered in one turn; more are not answered, and come again.
const ANSWERS_PER_TURN: usize = 64;
const FEED: usize = FeedStream::<ReplayStore>::STREAM;

/// What [`MarketData`] needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketDataOptions {
    /// Name of the session: 10 decimal digits. It outlives restarts of the venue.
    pub session: [u8; 10],
    /// Where the feed goes: a multicast group, or one subscriber.
    pub group: SocketAddr,
    /// Memory for messages that may be asked for again, index included; at most 2 GiB.
    pub store_bytes_max: usize,
    /// Which requests are answered.
    pub requests: RequestLimits,
}

impl MarketDataOptions {
    /// For this session and group, with 64 MiB of memory.
    #[must_use]
    pub fn new(session: [u8; 10], group: SocketAddr) -> Self {
        let requests = RequestLimits::default();
        Self { session, group, store_bytes_max: 64 << 20, requests }
    }
}

/// The agent behind the feed: ITCH 5.0 in MoldUDP64 packets.
///
/// What the outputs say to the public goes out in the turn in which it is taken, packed as full as
/// that turn allows; a heartbeat goes out each second in which nothing else did. What was sent is
/// kept in memory, the oldest dropped at the bound, and a second socket answers requests for it:
/// one packet each, to who asked, nothing where there is nothing.
pub struct MarketData<N> {
    feed: N,
    requests: N,
    session: [u8; 10],
    group: SocketAddr,
    outputs: Consumer<Output>,
    durable: Arc<Cursor>,
    messages: FeedStream<ReplayStore>,
    packets: Packets,
    /// Number of the next message to send.
    next_message: u64,
    /// `None` before the first packet.
    sent_ns: Option<u64>,
    /// Re-requests of this turn: requester, first message, number of messages.
    asked: Vec<(SocketAddr, u64, u16)>,
    requesters: Requesters,
    counters: Arc<MarketDataCounters>,
    /// How far the venue is in stopping; see [`DRAIN_REFUSES`](crate::DRAIN_REFUSES).
    drain: Arc<AtomicGauge>,
    /// Packets that say that the session ends, sent so far.
    ends_sent: u32,
}

impl<N: DatagramNetwork> MarketData<N> {
    /// Sends by `feed` and answers requests on `requests`. `durable` is the sequence up to which
    /// outputs may leave.
    pub fn new(
        feed: N,
        requests: N,
        config: MarketDataOptions,
        outputs: Consumer<Output>,
        durable: Arc<Cursor>,
    ) -> Self {
        Self {
            feed,
            requests,
            session: config.session,
            group: config.group,
            outputs,
            durable,
            messages: FeedStream::new(ReplayStore::new(1, config.store_bytes_max)),
            packets: Packets::new(config.session, PACKET_BYTES_MAX),
            next_message: 1,
            sent_ns: None,
            asked: Vec::with_capacity(ANSWERS_PER_TURN),
            requesters: Requesters::new(config.requests),
            counters: Arc::default(),
            drain: Arc::new(AtomicGauge::new(0)),
            ends_sent: 0,
        }
    }

    /// Stops as that says; see [`DRAIN_REFUSES`](crate::DRAIN_REFUSES).
    pub fn set_drain(&mut self, drain: Arc<AtomicGauge>) {
        self.drain = drain;
    }

    /// What it counts; may be read from any thread.
    #[must_use]
    pub fn counters(&self) -> Arc<MarketDataCounters> {
        Arc::clone(&self.counters)
    }

    /// Takes an output of a replayed journal: its messages are stored as they were and count as
    /// sent. Who missed one learns it from the next heartbeat.
    pub fn replay(&mut self, output: &Output) {
        self.messages.take(output);
        self.next_message = self.messages.store().next(FEED);
        self.count_messages();
    }

    /// Takes up what was said before a snapshot, before the first output: it counts as sent.
    pub fn restore(&mut self, archive: &MessageArchive) {
        self.messages.restore(archive);
        self.next_message = self.messages.store().next(FEED);
        self.count_messages();
    }

    /// Stores what is durable by now, unless too much has not been sent yet.
    fn take_outputs(&mut self) -> usize {
        if self.messages.store().next(FEED) - self.next_message > UNSENT_MAX {
            return 0;
        }
        let Self { outputs, durable, messages, .. } = self;
        let count =
            pull_durable(outputs, durable, OUTPUTS_PER_TURN, |output| messages.take(output));
        if count > 0 {
            self.counters.outputs.add(count as u64);
            self.count_messages();
        }
        count
    }

    fn count_messages(&self) {
        self.counters.messages.set(self.messages.store().next(FEED) - 1);
        self.counters.store_bytes.set(self.messages.store().bytes() as u64);
    }

    /// Sends what is stored and has not been sent, until the network is full.
    fn publish(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let mut work = 0;
        loop {
            let filled =
                self.packets.fill(self.messages.store(), FEED, self.next_message, u16::MAX);
            let (count, packet) = match filled {
                Ok(filled) => filled,
                Err(Missing::Future(_)) => break,
                Err(Missing::Dropped(first)) => {
                    // Only with a store too small for one turn. Subscribers see the gap.
                    self.counters.messages_skipped.add(first - self.next_message);
                    self.next_message = first;
                    continue;
                }
            };
            if !self.feed.send(self.group, packet).map_err(feed_failed)? {
                self.counters.stalls.add(1);
                break;
            }
            self.counters.packets.add(1);
            self.counters.bytes_out.add(packet.len() as u64);
            self.next_message += u64::from(count);
            self.sent_ns = Some(now_ns);
            work += 1;
        }
        let is_idle = |sent_ns| now_ns.saturating_sub(sent_ns) >= HEARTBEAT_NS;
        if self.next_message == self.messages.store().next(FEED) && self.sent_ns.is_none_or(is_idle)
        {
            let packet = self.packets.heartbeat(self.next_message);
            if self.feed.send(self.group, packet).map_err(feed_failed)? {
                self.counters.packets.add(1);
                self.counters.heartbeats.add(1);
                self.counters.bytes_out.add(packet.len() as u64);
                self.sent_ns = Some(now_ns);
                work += 1;
            }
        }
        let is_over =
            self.drain.get() >= DRAIN_ENDS && self.next_message == self.messages.store().next(FEED);
        if is_over && self.ends_sent < END_PACKETS {
            let packet = self.packets.end_of_session(self.next_message);
            if self.feed.send(self.group, &packet).map_err(feed_failed)? {
                self.counters.packets.add(1);
                self.counters.bytes_out.add(packet.len() as u64);
                self.ends_sent += 1;
                work += 1;
            }
        }
        self.feed.flush().map_err(feed_failed)?;
        Ok(work)
    }

    fn take_requests(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let Self { requests, asked, session, counters, requesters, .. } = self;
        let mut work = 0;
        for _ in 0..REQUEST_BATCHES_PER_TURN {
            let count = requests
                .receive(&mut |from, datagram| {
                    counters.requests.add(1);
                    match moldudp64::Request::parse(datagram) {
                        Ok(request)
                            if request.session == *session && asked.len() < ANSWERS_PER_TURN =>
                        {
                            match requesters.may_ask(from, now_ns) {
                                true => asked.push((from, request.sequence_number, request.count)),
                                false => counters.requests_refused.add(1),
                            }
                        }
                        _ => counters.requests_unanswered.add(1),
                    }
                })
                .map_err(requests_failed)?;
            let too_long = requests.too_long().len() as u64;
            counters.requests.add(too_long);
            counters.requests_unanswered.add(too_long);
            if count == 0 {
                break;
            }
            work += count;
        }
        Ok(work)
    }

    fn answer_requests(&mut self) -> Result<(), AgentError> {
        for (from, first, count) in self.asked.drain(..) {
            let answered = match self.packets.fill(self.messages.store(), FEED, first, count) {
                Ok((_, packet)) => self.requests.send(from, packet).map_err(requests_failed)?,
                Err(_) => false,
            };
            let counter = match answered {
                true => &self.counters.requests_answered,
                false => &self.counters.requests_unanswered,
            };
            counter.add(1);
        }
        self.requests.flush().map_err(requests_failed)
    }
}

impl<N: DatagramNetwork + Send + 'static> Agent for MarketData<N> {
    fn name(&self) -> &str {
        "market data"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let mut work = self.take_outputs();
        work += self.publish(now_ns)?;
        work += self.take_requests(now_ns)?;
        self.answer_requests()?;
        Ok(work)
    }

    fn is_held_up(&self) -> bool {
        false
    }

    /// Sends what is durable as far as the network takes it at once.
    fn close(&mut self) {
        self.take_outputs();
        // The venue is closing, perhaps because of this very socket: what fails now is not told.
        let _ = self.publish(self.sent_ns.unwrap_or(0));
    }
}

fn feed_failed(error: std::io::Error) -> AgentError {
    format!("the feed socket failed: {error}").into()
}

fn requests_failed(error: std::io::Error) -> AgentError {
    format!("the request socket failed: {error}").into()
}
