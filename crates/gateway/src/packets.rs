//! MoldUDP64 packets of stored messages.
//!
//! Invariant: a packet has whole messages with consecutive numbers, and fits a usual network whole.

use wire::moldudp64::{HEADER_LEN, PACKET_LEN_DEFAULT, Packetizer};

use crate::replay_store::Missing;

/// The longest packet we send, in bytes: it fits a usual network whole.
pub(crate) const PACKET_BYTES_MAX: usize = PACKET_LEN_DEFAULT;
/// A heartbeat goes out when nothing else did for this long.
pub(crate) const HEARTBEAT_NS: u64 = 1_000_000_000;

/// Builds MoldUDP64 packets from stored messages, from any number on, in one buffer.
pub(crate) struct Packets(Packetizer);

impl Packets {
    pub(crate) fn new(session: [u8; 10], packet_bytes_max: usize) -> Self {
        Self(Packetizer::new(session, 1, packet_bytes_max))
    }

    /// A packet of whole messages from number `first` on: as many as fit, there are and are
    /// wanted; and how many that is, at least 1. `get` has the messages.
    ///
    /// # Errors
    /// The first is not there, or none is wanted.
    pub(crate) fn fill<'a>(
        &mut self,
        first: u64,
        count_max: u16,
        get: impl Fn(u64) -> Result<&'a [u8], Missing>,
    ) -> Result<(u16, &[u8]), Missing> {
        self.0.restart(first);
        let mut next = get(first);
        while self.0.count() < count_max
            && let Ok(message) = next
            && self.0.push(message)
        {
            next = get(self.0.next_sequence());
        }
        match next {
            Err(missing) if self.0.is_empty() => Err(missing),
            _ if self.0.is_empty() => Err(Missing::Future(first)),
            _ => Ok((self.0.count(), self.0.packet())),
        }
    }

    /// A packet that says that no message with this number will come.
    pub(crate) fn end_of_session(&mut self, next: u64) -> [u8; HEADER_LEN] {
        self.0.restart(next);
        self.0.end_of_session()
    }

    /// A packet without messages, which tells the number of the next.
    pub(crate) fn heartbeat(&mut self, next: u64) -> &[u8] {
        self.0.restart(next);
        self.0.packet()
    }
}
