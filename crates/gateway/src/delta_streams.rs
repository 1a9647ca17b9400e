//! Delta streams: parts of the feed, each a MoldUDP64 session with its own instruments, destinations and packets.
//!
//! Invariant: a message has one number in its stream whatever is lost; messages that a stream drops are a gap in its
//! numbers, never a message out of order or twice.

use std::{net::SocketAddr, sync::Arc};

use ring::{Agent, AgentError, Consumer, Flow, LossyConsumer};
use wire::moldudp64::{Packetizer, Session};

use crate::{DatagramNetwork, DeltaStreamCounters, FeedMessage, packets::HEARTBEAT_NS};

/// The settings of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaStreamOptions {
    /// Name of its session: 10 decimal digits.
    pub session: Session,
    /// The destinations of each packet: groups or addresses. Two groups are two lines.
    pub destinations: Vec<SocketAddr>,
    /// The most bytes of a packet.
    pub packet_bytes_max: usize,
    /// How long a packet with room may wait for more messages, in nanoseconds; 0 means until the end of its turn.
    pub flush_after_ns: u64,
}

/// A stream's end of its ring, which decides the effect of falling behind.
pub enum StreamReader {
    /// The ring waits for it, and market data with the ring.
    Block(Consumer<FeedMessage>),
    /// The stream loses the messages that the ring has overwritten.
    Drop(LossyConsumer<FeedMessage>),
}

/// One stream.
pub struct DeltaStream<N> {
    network: N,
    options: DeltaStreamOptions,
    reader: StreamReader,
    /// The messages of a turn, and the number of them that are in packets.
    taken: Vec<FeedMessage>,
    packed: usize,
    packet: Packetizer,
    /// The time at which the first message of the packet came.
    packet_ns: u64,
    /// Destinations that have the packet.
    sent_to: usize,
    /// `None` before the first packet.
    sent_ns: Option<u64>,
    counters: Arc<DeltaStreamCounters>,
}

impl<N: DatagramNetwork> DeltaStream<N> {
    /// Sends the messages of `reader` on `network`, in turns of at most `batch_max` messages.
    ///
    /// # Panics
    /// There is no destination, or no room for a message in a packet.
    pub fn new(
        network: N,
        options: DeltaStreamOptions,
        reader: StreamReader,
        batch_max: usize,
    ) -> Self {
        assert!(!options.destinations.is_empty(), "a stream goes somewhere");
        Self {
            packet: Packetizer::new(options.session, 1, options.packet_bytes_max),
            network,
            options,
            reader,
            taken: Vec::with_capacity(batch_max),
            packed: 0,
            packet_ns: 0,
            sent_to: 0,
            sent_ns: None,
            counters: Arc::default(),
        }
    }

    /// Its counters; any thread may read them.
    #[must_use]
    pub fn counters(&self) -> Arc<DeltaStreamCounters> {
        Arc::clone(&self.counters)
    }

    fn turn(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let mut work = self.take();
        let is_sent = self.pack(now_ns)?;
        work += usize::from(is_sent && self.packed > 0);
        if is_sent {
            let waited_ns = now_ns.saturating_sub(self.packet_ns);
            if !self.packet.is_empty() && waited_ns >= self.options.flush_after_ns {
                work += usize::from(self.send(now_ns)?);
            }
            work += self.keep_alive(now_ns)?;
        }
        self.network.flush().map_err(failed)?;
        Ok(work)
    }

    /// Takes the messages of the ring, once all messages taken before are in packets.
    fn take(&mut self) -> usize {
        if self.packed < self.taken.len() {
            return 0;
        }
        self.packed = 0;
        self.taken.clear();
        let limit = self.taken.capacity();
        let Self { reader, taken, counters, .. } = self;
        match reader {
            StreamReader::Block(consumer) => {
                consumer.poll(limit, |message, _end_of_batch| {
                    taken.push(*message);
                    Flow::Continue
                });
            }
            StreamReader::Drop(consumer) => {
                let missed = consumer.poll(limit, |message| taken.push(*message)).missed;
                counters.dropped.add(missed);
            }
        }
        counters.messages.add(taken.len() as u64);
        taken.len()
    }

    /// Puts the messages taken into packets, and sends the full packets. False if the network has no room.
    fn pack(&mut self, now_ns: u64) -> Result<bool, AgentError> {
        while let Some(message) = self.taken.get(self.packed) {
            let is_next = message.number == self.packet.next_sequence();
            if !is_next && self.packet.is_empty() {
                self.counters.gaps.add(1);
                self.packet.restart(message.number);
            }
            if self.packet.is_empty() {
                self.packet_ns = now_ns;
            }
            let message = &self.taken[self.packed];
            if message.number == self.packet.next_sequence() && self.packet.push(message.as_bytes())
            {
                self.packed += 1;
            } else if !self.send(now_ns)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends the packet to the destinations that do not have it. False if the network has no room for all of them.
    fn send(&mut self, now_ns: u64) -> Result<bool, AgentError> {
        let packet = self.packet.packet();
        for destination in &self.options.destinations[self.sent_to..] {
            if !self.network.send(*destination, packet).map_err(failed)? {
                self.counters.stalls.add(1);
                return Ok(false);
            }
            self.sent_to += 1;
            self.counters.packets.add(1);
            self.counters.bytes_out.add(packet.len() as u64);
        }
        self.sent_to = 0;
        self.sent_ns = Some(now_ns);
        self.packet.advance();
        Ok(true)
    }

    /// Sends all waiting messages and then the end of the session, unless the network has no room for it.
    fn end(&mut self) -> Result<(), AgentError> {
        while self.turn(u64::MAX)? > 0 {}
        if self.packed == self.taken.len() && self.packet.is_empty() {
            let end = self.packet.end_of_session();
            for destination in &self.options.destinations {
                self.network.send(*destination, &end).map_err(failed)?;
            }
        }
        self.network.flush().map_err(failed)
    }

    /// Sends a heartbeat after a second of silence. A packet without messages is a heartbeat.
    fn keep_alive(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let is_idle = |sent_ns| now_ns.saturating_sub(sent_ns) >= HEARTBEAT_NS;
        if !self.packet.is_empty() || !self.sent_ns.is_none_or(is_idle) {
            return Ok(0);
        }
        let is_sent = self.send(now_ns)?;
        self.counters.heartbeats.add(u64::from(is_sent));
        Ok(usize::from(is_sent))
    }
}

/// The agent of some streams: one for all of them, unless the configuration spreads them.
pub struct DeltaStreams<N> {
    streams: Vec<DeltaStream<N>>,
}

impl<N: DatagramNetwork> DeltaStreams<N> {
    /// An agent for these streams.
    #[must_use]
    pub const fn new(streams: Vec<DeltaStream<N>>) -> Self {
        Self { streams }
    }
}

impl<N: DatagramNetwork + Send + 'static> Agent for DeltaStreams<N> {
    fn name(&self) -> &str {
        "streams"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        self.streams.iter_mut().try_fold(0, |work, stream| Ok(work + stream.turn(now_ns)?))
    }

    fn is_held_up(&self) -> bool {
        false
    }

    /// Sends the waiting messages, then the end of each session, as far as the network takes them at once.
    fn close(&mut self) {
        for stream in &mut self.streams {
            // The venue is closing, perhaps because of this very socket: a failure is not reported now.
            let _ = stream.end();
        }
    }
}

fn failed(error: std::io::Error) -> AgentError {
    format!("the socket of a stream failed: {error}").into()
}
