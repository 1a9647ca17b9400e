//! Sends a recording again: at the speed at which it was recorded, at a multiple of it, or as fast as it can go.
//!
//! Invariant: a replay has no clock and no socket. The caller gives the time, and sends the packets that are due.

use std::io::{self, Read};

use thiserror::Error;
use wire::moldudp64::{self, PacketKind, Packetizer, Session};

use super::{Format, RecordingError, RecordingReader};

/// Packets sent in one turn.
const PACKETS_PER_TURN: u64 = 64;
/// A heartbeat is sent after this long without another packet.
const HEARTBEAT_NS: u64 = 1_000_000_000;
/// The number of times that the end of the session is sent, and the time between: a receiver may lose one.
const ENDS: u32 = 4;
const END_NS: u64 = 100_000_000;

/// The speed at which a recording is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// This multiple of the recorded speed.
    Times(f64),
    /// As fast as the network takes it.
    Unlimited,
}

/// The options of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayOptions {
    /// The speed.
    pub speed: Speed,
    /// Name of the session, for a recording of messages. Packets keep theirs.
    pub session: Session,
    /// Maximum bytes of a packet, for a recording of messages.
    pub packet_len_max: usize,
}

/// The result of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayTurn {
    /// A packet was sent, or the network was full.
    Busy,
    /// No packet is due for this time, in nanoseconds.
    Waits(u64),
    /// All packets were sent.
    Over,
}

/// The counters of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Packets, heartbeats and ends of the session included.
    pub packets: u64,
    /// Messages in them, where the recording has messages.
    pub messages: u64,
    /// Bytes of the packets.
    pub bytes: u64,
}

/// The error of a replay that cannot continue.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The network failed.
    #[error("cannot send")]
    Send(#[source] io::Error),
}

/// Sends a recording again.
pub struct FeedReplay<R> {
    reader: RecordingReader<R>,
    options: ReplayOptions,
    /// The next bytes of the recording: a message or a packet; empty if it has to be read.
    next: Vec<u8>,
    next_ns: u64,
    /// The packet that is built of messages; without one, the number of the next message.
    packets: Packetizer,
    session: Session,
    /// True if the last recorded packet was the end of its session.
    has_end: bool,
    /// The time when the first packet was sent, and its time in the recording.
    begun: Option<(u64, u64)>,
    sent_ns: u64,
    /// The number of session ends sent; `None` before the end of the recording.
    ends: Option<u32>,
    report: ReplayReport,
}

impl<R: Read> FeedReplay<R> {
    /// A replay of the recording of this reader.
    pub fn new(reader: RecordingReader<R>, options: ReplayOptions) -> Self {
        let packets = Packetizer::new(options.session, 1, options.packet_len_max);
        Self {
            reader,
            session: options.session,
            has_end: false,
            options,
            next: Vec::new(),
            next_ns: 0,
            packets,
            begun: None,
            sent_ns: 0,
            ends: None,
            report: ReplayReport::default(),
        }
    }

    /// The counters so far.
    #[must_use]
    pub const fn report(&self) -> ReplayReport {
        self.report
    }

    /// The reader of the recording, with its counters.
    pub const fn reader(&self) -> &RecordingReader<R> {
        &self.reader
    }

    /// Sends the packets that are due. `send` returns false if there is no room for a packet now.
    ///
    /// # Errors
    /// The recording cannot be read, or a packet cannot be sent.
    pub fn turn(
        &mut self,
        now_ns: u64,
        send: &mut impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> Result<ReplayTurn, ReplayError> {
        let before = self.report.packets;
        let is_whole = self.reader.format() == Format::Pcap;
        while self.report.packets - before < PACKETS_PER_TURN {
            let has_next = self.read()?;
            let wait_ns = if has_next { self.wait_ns(now_ns) } else { 0 };
            let is_due = has_next && wait_ns == 0;
            if is_due && !is_whole && self.packets.push(&self.next) {
                self.next.clear();
                continue;
            }
            // A packet that is full, or has all messages that are due, goes first.
            if !self.packets.is_empty() {
                let count = u64::from(self.packets.count());
                if !self.send(now_ns, Sent::Built, send)? {
                    return Ok(ReplayTurn::Busy);
                }
                self.report.messages += count;
                self.packets.advance();
                continue;
            }
            match (is_due, has_next) {
                (true, _) => {
                    if !self.send(now_ns, Sent::Recorded, send)? {
                        return Ok(ReplayTurn::Busy);
                    }
                    self.next.clear();
                }
                (false, true) if is_whole => return Ok(ReplayTurn::Waits(wait_ns)),
                (false, true) => return self.keep_alive(now_ns, wait_ns, send),
                (false, false) if self.has_end => return Ok(ReplayTurn::Over),
                (false, false) => return self.end(now_ns, send),
            }
        }
        Ok(ReplayTurn::Busy)
    }

    /// Reads the next bytes, unless they are already there; false at the end.
    fn read(&mut self) -> Result<bool, RecordingError> {
        while self.next.is_empty() && self.ends.is_none() {
            let Some(stamped) = self.reader.next_timed()? else {
                self.ends = Some(0);
                break;
            };
            self.next.extend(stamped.payload);
            // A time that goes back is ignored.
            self.next_ns = self.next_ns.max(stamped.time_ns);
            if self.reader.format() == Format::Pcap && !self.is_feed() {
                self.reader.report.other_packets += 1;
                self.next.clear();
            }
        }
        Ok(self.ends.is_none())
    }

    /// True if the bytes are a packet of a feed; records the session and its progress, for the end.
    fn is_feed(&mut self) -> bool {
        let Ok(packet) = moldudp64::parse(&self.next) else { return false };
        let count = match packet.kind {
            PacketKind::Data(blocks) => u64::from(blocks.count()),
            PacketKind::Heartbeat | PacketKind::EndOfSession => 0,
        };
        let mut next = packet.sequence_number + count;
        if packet.session == self.session {
            next = next.max(self.packets.next_sequence());
        }
        self.session = packet.session;
        self.packets = Packetizer::new(packet.session, next, self.options.packet_len_max);
        self.has_end = packet.kind == PacketKind::EndOfSession;
        true
    }

    /// The time until the next bytes are due, in nanoseconds.
    fn wait_ns(&mut self, now_ns: u64) -> u64 {
        let Speed::Times(times) = self.options.speed else { return 0 };
        let (begun_ns, first_ns) = *self.begun.get_or_insert((now_ns, self.next_ns));
        let after_ns = (self.next_ns - first_ns) as f64 / times;
        (begun_ns + after_ns as u64).saturating_sub(now_ns)
    }

    fn send(
        &mut self,
        now_ns: u64,
        what: Sent,
        send: &mut impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> Result<bool, ReplayError> {
        let (heartbeat, end) = (self.packets.heartbeat(), self.packets.end_of_session());
        let packet = match what {
            Sent::Built => self.packets.packet(),
            Sent::Recorded => &self.next,
            Sent::Heartbeat => &heartbeat,
            Sent::End => &end,
        };
        if !send(packet).map_err(ReplayError::Send)? {
            return Ok(false);
        }
        self.report.packets += 1;
        self.report.bytes += packet.len() as u64;
        self.sent_ns = now_ns;
        Ok(true)
    }

    fn keep_alive(
        &mut self,
        now_ns: u64,
        wait_ns: u64,
        send: &mut impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> Result<ReplayTurn, ReplayError> {
        let silent_ns = now_ns.saturating_sub(self.sent_ns);
        if silent_ns >= HEARTBEAT_NS {
            self.send(now_ns, Sent::Heartbeat, send)?;
            return Ok(ReplayTurn::Busy);
        }
        Ok(ReplayTurn::Waits(wait_ns.min(HEARTBEAT_NS - silent_ns)))
    }

    fn end(
        &mut self,
        now_ns: u64,
        send: &mut impl FnMut(&[u8]) -> io::Result<bool>,
    ) -> Result<ReplayTurn, ReplayError> {
        let ends = self.ends.expect("the recording is over");
        let silent_ns = now_ns.saturating_sub(self.sent_ns);
        if ends == ENDS {
            return Ok(ReplayTurn::Over);
        }
        if ends > 0 && silent_ns < END_NS {
            return Ok(ReplayTurn::Waits(END_NS - silent_ns));
        }
        if self.send(now_ns, Sent::End, send)? {
            self.ends = Some(ends + 1);
        }
        Ok(ReplayTurn::Busy)
    }
}

/// The kind of the packet to send.
#[derive(Clone, Copy)]
enum Sent {
    /// The packet that was built.
    Built,
    /// The bytes of the recording, a packet.
    Recorded,
    Heartbeat,
    End,
}
