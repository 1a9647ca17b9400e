//! The receiver's side: puts packets in order, and requests the missing ones.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::fmt;

use super::{MESSAGE_COUNT_MAX, Malformed, Packet, PacketKind, Request, Session, parse};

/// Delivers the messages of one session exactly once and in order, over a network that may lose packets.
///
/// Packets may be lost, duplicated and reordered, and come from several sources. Messages that come too
/// early are kept, within [`ReceiverLimits`]; missing ones are requested with
/// [`next_request`](Self::next_request).
#[derive(Clone, Debug)]
pub struct Receiver {
    limits: ReceiverLimits,
    /// The session of the first packet, unless it was given.
    session: Option<Session>,
    /// Number of the next message to be delivered.
    expected: u64,
    /// One above the highest number that is known to exist; never below `expected`.
    known_end: u64,
    /// One above the session's last number, once known.
    session_end: Option<u64>,
    /// Messages above `expected`, by number.
    pending: BTreeMap<u64, Vec<u8>>,
    pending_bytes: usize,
    /// The beginning of each hole and the time when it appeared, by number; filled ones are dropped
    /// when a later one is first.
    holes: VecDeque<Hole>,
    last_request: Option<Asked>,
    statistics: ReceiverStatistics,
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    begins: u64,
    since_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    sequence_number: u64,
    at_ns: u64,
}

/// Bounds of a [`Receiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverLimits {
    /// A gap is requested this long after it appeared, in nanoseconds. The delay is for networks that reorder
    /// packets, and for a second line that may bring the packets that the first one lost.
    pub request_delay_ns: u64,
    /// An unanswered request is repeated after this time, in nanoseconds.
    pub request_timeout_ns: u64,
    /// The maximum of messages kept that came too early.
    pub pending_messages_max: usize,
    /// The maximum of their bytes.
    pub pending_bytes_max: usize,
}

impl Default for ReceiverLimits {
    /// Requests at once and again each second; keeps 65,536 messages and 4 MiB.
    fn default() -> Self {
        Self {
            request_delay_ns: 0,
            request_timeout_ns: 1_000_000_000,
            pending_messages_max: 1 << 16,
            pending_bytes_max: 4 << 20,
        }
    }
}

/// Counters of a [`Receiver`]. All count up from 0, except the pending messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStatistics {
    /// Packets of the session, heartbeats included.
    pub packets: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Duplicate messages.
    pub duplicates: u64,
    /// Messages sent before the first packet arrived: a receiver that joins late misses them, and
    /// none of them was lost.
    pub before_joining: u64,
    /// Gaps after that.
    pub gaps: u64,
    /// Messages missing when such a gap opened.
    pub missed: u64,
    /// Requests, repeated ones included.
    pub requests: u64,
    /// Messages that came too early and were dropped for want of room; they are requested later.
    pub dropped: u64,
    /// Messages that came too early and wait now.
    pub pending: usize,
}

/// The reason why a packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// The bytes are not a packet.
    Malformed(Malformed),
    /// The packet belongs to another session; this one continues when its own packets arrive.
    SessionChanged {
        /// The receiver's session.
        expected: Session,
        /// The packet's session.
        received: Session,
    },
    /// The packet goes beyond the end of the session, or puts the end before messages that are known to exist.
    AfterEnd {
        /// One above the last number of the session.
        session_end: u64,
    },
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => fmt::Display::fmt(malformed, f),
            Self::SessionChanged { expected, received } => write!(
                f,
                "the session is '{}' instead of '{}'",
                received.escape_ascii(),
                expected.escape_ascii()
            ),
            Self::AfterEnd { session_end } => {
                write!(f, "the session ended before number {session_end}")
            }
        }
    }
}

impl core::error::Error for ReceiveError {}

impl From<Malformed> for ReceiveError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Receiver {
    /// Waits for message `expected` of whichever session the first packet belongs to; 1 is the
    /// first message of a session.
    #[must_use]
    pub fn new(expected: u64, limits: ReceiverLimits) -> Self {
        Self {
            limits,
            session: None,
            expected,
            known_end: expected,
            session_end: None,
            pending: BTreeMap::new(),
            pending_bytes: 0,
            holes: VecDeque::new(),
            last_request: None,
            statistics: ReceiverStatistics::default(),
        }
    }

    /// Waits for message `expected` of this session only.
    #[must_use]
    pub fn for_session(session: Session, expected: u64, limits: ReceiverLimits) -> Self {
        Self { session: Some(session), ..Self::new(expected, limits) }
    }

    /// Takes a packet and delivers the messages that are next in order, each with its number.
    ///
    /// # Errors
    /// The packet is refused; nothing has changed.
    pub fn receive(
        &mut self,
        packet: &[u8],
        now_ns: u64,
        deliver: &mut impl FnMut(u64, &[u8]),
    ) -> Result<(), ReceiveError> {
        let packet = parse(packet)?;
        self.check(&packet)?;
        self.session = Some(packet.session);
        self.statistics.packets += 1;

        match packet.kind {
            PacketKind::Heartbeat => {
                self.exists_until(packet.sequence_number, packet.sequence_number, now_ns)
            }
            PacketKind::EndOfSession => {
                self.exists_until(packet.sequence_number, packet.sequence_number, now_ns);
                self.session_end = Some(packet.sequence_number);
            }
            PacketKind::Data(blocks) => {
                let end = packet.sequence_number + u64::from(blocks.count());
                self.exists_until(packet.sequence_number, end, now_ns);
                for (number, message) in (packet.sequence_number..end).zip(blocks) {
                    self.take(number, message, deliver);
                }
                self.deliver_pending(deliver);
            }
        }
        Ok(())
    }

    /// The request to send now, if messages are missing: the first gap.
    ///
    /// The request is due once that hole is older than the delay, again as soon as an answer filled only a part of the
    /// gap, and again after the timeout.
    pub fn next_request(&mut self, now_ns: u64) -> Option<Request> {
        let session = self.session?;
        if !self.has_gap() || self.waits(now_ns) {
            return None;
        }
        let hole_end = self.pending.keys().next().copied().unwrap_or(self.known_end);
        let missing = hole_end - self.expected;
        let count = u16::try_from(missing).unwrap_or(MESSAGE_COUNT_MAX).min(MESSAGE_COUNT_MAX);
        self.last_request = Some(Asked { sequence_number: self.expected, at_ns: now_ns });
        self.statistics.requests += 1;
        Some(Request { session, sequence_number: self.expected, count })
    }

    /// Gives up the messages of the first gap, and delivers those that wait behind it. Returns the
    /// number given up; 0 if there is no gap.
    pub fn skip_gap(&mut self, deliver: &mut impl FnMut(u64, &[u8])) -> u64 {
        let gap_end = self.pending.keys().next().copied().unwrap_or(self.known_end);
        let given_up = gap_end - self.expected;
        self.expected = gap_end;
        self.deliver_pending(deliver);
        given_up
    }

    /// True while missing messages may still arrive, late or as an answer.
    fn waits(&mut self, now_ns: u64) -> bool {
        match self.last_request {
            Some(asked) if asked.sequence_number == self.expected => {
                now_ns.saturating_sub(asked.at_ns) < self.limits.request_timeout_ns
            }
            _ => now_ns.saturating_sub(self.hole_since_ns()) < self.limits.request_delay_ns,
        }
    }

    /// The time when the first hole appeared.
    fn hole_since_ns(&mut self) -> u64 {
        self.drop_filled_holes();
        self.holes.front().map_or(0, |hole| hole.since_ns)
    }

    fn drop_filled_holes(&mut self) {
        if !self.has_gap() {
            self.holes.clear();
        }
        while self.holes.get(1).is_some_and(|second| second.begins <= self.expected) {
            self.holes.pop_front();
        }
    }

    /// Number of the next message to be delivered.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// The session, once a packet named it.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.session
    }

    /// True if messages are known to be missing.
    #[must_use]
    pub fn has_gap(&self) -> bool {
        self.expected < self.known_end
    }

    /// True once the session is over and all its messages were delivered.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.session_end.is_some_and(|session_end| session_end <= self.expected)
    }

    /// The counters so far.
    #[must_use]
    pub fn statistics(&self) -> ReceiverStatistics {
        ReceiverStatistics { pending: self.pending.len(), ..self.statistics }
    }

    fn check(&self, packet: &Packet<'_>) -> Result<(), ReceiveError> {
        if let Some(expected) = self.session.filter(|session| *session != packet.session) {
            return Err(ReceiveError::SessionChanged { expected, received: packet.session });
        }
        if packet.kind == PacketKind::EndOfSession && packet.sequence_number < self.known_end {
            return Err(ReceiveError::AfterEnd { session_end: packet.sequence_number });
        }
        let Some(session_end) = self.session_end else { return Ok(()) };
        let is_within = match packet.kind {
            PacketKind::Data(blocks) => {
                packet.sequence_number + u64::from(blocks.count()) <= session_end
            }
            PacketKind::Heartbeat => packet.sequence_number <= session_end,
            PacketKind::EndOfSession => packet.sequence_number == session_end,
        };
        if is_within { Ok(()) } else { Err(ReceiveError::AfterEnd { session_end }) }
    }

    /// Messages below `end` exist; those from `start` have arrived, those between the known end
    /// and `start` have not.
    fn exists_until(&mut self, start: u64, end: u64, now_ns: u64) {
        let missing = start.saturating_sub(self.known_end);
        if missing > 0 {
            self.drop_filled_holes();
            // Holes beyond the bound count as old as the last within it, and are requested earlier.
            if self.holes.len() < self.limits.pending_messages_max.max(1) {
                self.holes.push_back(Hole { begins: self.known_end, since_ns: now_ns });
            }
        }
        if missing > 0 && self.statistics.packets == 1 {
            self.statistics.before_joining = missing;
        } else if missing > 0 {
            self.statistics.gaps += 1;
            self.statistics.missed += missing;
        }
        self.known_end = self.known_end.max(end);
    }

    fn take(&mut self, number: u64, message: &[u8], deliver: &mut impl FnMut(u64, &[u8])) {
        if number < self.expected || self.pending.contains_key(&number) {
            self.statistics.duplicates += 1;
        } else if number == self.expected {
            deliver(number, message);
            self.expected += 1;
            self.statistics.delivered += 1;
        } else if self.pending.len() < self.limits.pending_messages_max
            && self.pending_bytes + message.len() <= self.limits.pending_bytes_max
        {
            self.pending_bytes += message.len();
            self.pending.insert(number, message.to_vec());
        } else {
            self.statistics.dropped += 1;
        }
    }

    fn deliver_pending(&mut self, deliver: &mut impl FnMut(u64, &[u8])) {
        while let Some(message) = self.pending.remove(&self.expected) {
            self.pending_bytes -= message.len();
            deliver(self.expected, &message);
            self.expected += 1;
            self.statistics.delivered += 1;
        }
    }
}
