//! The feed: encodes outputs as ITCH, sends them in MoldUDP64 packets, and hands them to the feed server, which serves
//! subscribers that join late or lost packets.
//!
//! Invariant: a message leaves only when its cause is durable, and keeps its number for ever.

use std::{net::SocketAddr, sync::Arc};

use market::OutputLine;
use ring::{Agent, AgentError, Consumer, Cursor, Producer};
use wire::itch;

use crate::{
    DatagramNetwork, FeedMessage, MarketDataCounters, ReplayStore, StreamFilter,
    message_archive::MessageArchive,
    packets::{HEARTBEAT_NS, PACKET_BYTES_MAX, Packets},
    streams::{FeedStream, each_for_gateways, pull_durable},
};

/// Lines taken from the ring of outputs in one turn.
const OUTPUTS_PER_TURN: usize = 1024;
/// Messages that may be stored and not yet sent; then no more outputs are taken.
const UNSENT_MAX: u64 = 4096;
/// Bytes of messages that are kept to be sent: more than a turn adds to the unsent ones.
const STORE_BYTES: usize = 1 << 20;
const FEED: usize = FeedStream::<ReplayStore>::STREAM;

/// Settings of [`MarketData`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarketDataOptions {
    /// Name of the session: 10 decimal digits. It lives as long as the journal.
    pub session: [u8; 10],
    /// The destination of the feed: a multicast group, or one subscriber.
    pub group: SocketAddr,
}

/// The agent behind the feed: ITCH 5.0 in MoldUDP64 packets.
///
/// The public messages of the outputs are sent in the turn in which the outputs are taken, packed as full as that turn
/// allows. A heartbeat is sent after each second without a packet. Each message is also published to the feed server;
/// while its ring is full, no outputs are taken. With two lines every message is sent on both, under the same number.
pub struct MarketData<N> {
    lines: Vec<Line<N>>,
    outputs: Consumer<OutputLine>,
    durable: Arc<Cursor>,
    messages: FeedStream<ReplayStore>,
    to_server: Producer<FeedMessage>,
    taps: Vec<Tap>,
    packets: Packets,
    /// True if the last turn found no room for the feed server.
    held_up: bool,
    counters: Arc<MarketDataCounters>,
}

/// One of the networks on which the whole feed is sent.
struct Line<N> {
    network: N,
    group: SocketAddr,
    /// Number of the next message to send.
    next_message: u64,
    /// `None` before the first packet.
    sent_ns: Option<u64>,
}

impl<N: DatagramNetwork> Line<N> {
    fn new(network: N, group: SocketAddr) -> Self {
        Self { network, group, next_message: 1, sent_ns: None }
    }

    /// Sends the stored messages that are still unsent, until the network is full, and a heartbeat after a silence.
    fn publish(
        &mut self,
        store: &ReplayStore,
        packets: &mut Packets,
        counters: &MarketDataCounters,
        now_ns: u64,
    ) -> Result<usize, AgentError> {
        let mut work = 0;
        while self.next_message < store.next(FEED) {
            let packet = packets.stored(store, FEED, self.next_message);
            let (count, header, blocks) =
                packet.expect("the store has room for all that is not sent");
            if !self.send(&header, blocks, counters, now_ns)? {
                counters.stalls.add(1);
                break;
            }
            self.next_message += u64::from(count);
            work += 1;
        }
        let is_idle = |sent_ns| now_ns.saturating_sub(sent_ns) >= HEARTBEAT_NS;
        if self.next_message == store.next(FEED)
            && self.sent_ns.is_none_or(is_idle)
            && self.send(packets.heartbeat(self.next_message), &[], counters, now_ns)?
        {
            counters.heartbeats.add(1);
            work += 1;
        }
        self.network.flush().map_err(feed_failed)?;
        Ok(work)
    }

    /// False if the network has no room.
    fn send(
        &mut self,
        header: &[u8],
        blocks: &[u8],
        counters: &MarketDataCounters,
        now_ns: u64,
    ) -> Result<bool, AgentError> {
        if !self.network.send_parts(self.group, header, blocks).map_err(feed_failed)? {
            return Ok(false);
        }
        counters.packets.add(1);
        counters.bytes_out.add((header.len() + blocks.len()) as u64);
        self.sent_ns = Some(now_ns);
        Ok(true)
    }
}

/// The source of a delta stream's messages.
struct Tap {
    filter: StreamFilter,
    /// Number of the next message in the stream.
    next: u64,
    to: Producer<FeedMessage>,
}

impl Tap {
    /// Itself, if the stream takes the message.
    fn taking(&mut self, message: &[u8]) -> Option<&mut Self> {
        self.filter.takes(message).then_some(self)
    }
}

impl<N: DatagramNetwork> MarketData<N> {
    /// Sends by `feed`, and publishes each message in `to_server`. `durable` is the sequence up to
    /// which outputs may leave.
    pub fn new(
        feed: N,
        options: MarketDataOptions,
        outputs: Consumer<OutputLine>,
        durable: Arc<Cursor>,
        to_server: Producer<FeedMessage>,
    ) -> Self {
        Self {
            lines: vec![Line::new(feed, options.group)],
            outputs,
            durable,
            messages: FeedStream::new(ReplayStore::new(1, STORE_BYTES)),
            to_server,
            taps: Vec::new(),
            packets: Packets::new(options.session, PACKET_BYTES_MAX),
            held_up: false,
            counters: Arc::default(),
        }
    }

    /// Sends every packet on another network too, line B: a subscriber to both lines lacks only the packets that both
    /// lost. To be called before the first output.
    pub fn add_line(&mut self, network: N, group: SocketAddr) {
        self.lines.push(Line::new(network, group));
    }

    /// Number of the first message that some line has not sent.
    fn next_unsent(&self) -> u64 {
        self.lines.iter().map(|line| line.next_message).min().expect("there is a line")
    }

    /// Publishes the messages of some instruments in another ring too, under numbers of their own from 1 on. While
    /// a reader that blocks leaves no room there, no outputs are taken.
    pub fn add_stream(&mut self, filter: StreamFilter, to: Producer<FeedMessage>) {
        self.taps.push(Tap { filter, next: 1, to });
    }

    /// Its counters; any thread may read them.
    #[must_use]
    pub fn counters(&self) -> Arc<MarketDataCounters> {
        Arc::clone(&self.counters)
    }

    /// Takes a line of a replayed journal: its messages count as sent, and `each` gets them with their numbers. A
    /// subscriber that missed a message notices it at the next heartbeat.
    pub fn replay(&mut self, line: &OutputLine, each: &mut impl FnMut(u64, &[u8])) {
        each_for_gateways(line, |output| self.messages.take(output));
        let store = self.messages.store();
        for number in self.lines[0].next_message..store.next(FEED) {
            let message = store.get(FEED, number).expect("it was stored just now");
            each(number, message);
            for tap in &mut self.taps {
                tap.filter.takes(message);
            }
        }
        self.count_as_sent();
    }

    fn count_as_sent(&mut self) {
        let next = self.messages.store().next(FEED);
        self.lines.iter_mut().for_each(|line| line.next_message = next);
        self.counters.messages.set(next - 1);
    }

    /// Takes up the messages before a snapshot, before the first output: they count as sent.
    pub fn restore(&mut self, archive: &MessageArchive) {
        self.messages.restore(archive);
        for instrument in archive.instruments() {
            let symbol = instrument.symbol.as_str().as_bytes();
            let locate = instrument.instrument_id.0;
            self.taps.iter_mut().for_each(|tap| tap.filter.learn(locate, symbol));
        }
        self.count_as_sent();
    }

    /// Stores the messages that are durable by now and publishes them to the feed server, unless too many are still
    /// unsent.
    fn take_outputs(&mut self) -> usize {
        let first = self.messages.store().next(FEED);
        if first - self.next_unsent() > UNSENT_MAX {
            return 0;
        }
        let free = self.taps.iter_mut().map(|tap| tap.to.free()).min().unwrap_or(usize::MAX);
        let room = self.to_server.free().min(free) / itch::Encoder::MESSAGES_MAX;
        self.held_up = room == 0;
        let Self { outputs, durable, messages, .. } = self;
        let limit = room.min(OUTPUTS_PER_TURN);
        let count = pull_durable(outputs, durable, limit, |output| messages.take(output));
        if count > 0 {
            let store = self.messages.store();
            for number in first..store.next(FEED) {
                let message = store.get(FEED, number).expect("it was stored just now");
                let published = self.to_server.try_publish(FeedMessage::new(number, message));
                assert!(published.is_ok(), "an output has at most two messages");
                for tap in self.taps.iter_mut().filter_map(|tap| tap.taking(message)) {
                    let published = tap.to.try_publish(FeedMessage::new(tap.next, message));
                    assert!(published.is_ok(), "there is room for two messages of each output");
                    tap.next += 1;
                }
            }
            self.counters.outputs.add(count as u64);
            self.counters.messages.set(store.next(FEED) - 1);
        }
        self.counters.held_up.add(u64::from(self.held_up));
        count
    }

    /// Sends on each line.
    fn publish(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let Self { lines, messages, packets, counters, .. } = self;
        let store = messages.store();
        let mut publish = |line: &mut Line<N>| line.publish(store, packets, counters, now_ns);
        lines.iter_mut().try_fold(0, |work, line| Ok(work + publish(line)?))
    }
}

impl<N: DatagramNetwork + Send + 'static> Agent for MarketData<N> {
    fn name(&self) -> &str {
        "market data"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        Ok(self.take_outputs() + self.publish(now_ns)?)
    }

    fn is_held_up(&self) -> bool {
        self.held_up
    }

    /// Sends the durable messages, as far as the network takes them at once.
    fn close(&mut self) {
        self.take_outputs();
        // The venue is closing, perhaps because of this very socket: a failure is not reported now.
        let _ = self.publish(self.lines[0].sent_ns.unwrap_or(0));
    }
}

fn feed_failed(error: std::io::Error) -> AgentError {
    format!("the feed socket failed: {error}").into()
}
