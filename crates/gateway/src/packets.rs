//! MoldUDP64 packets of stored messages.
//!
//! Invariant: a packet has whole messages with consecutive numbers, and fits a usual network whole.

use wire::moldudp64::{HEADER_LEN, PACKET_LEN_DEFAULT, Packetizer, Session, header};

use crate::{ReplayStore, replay_store::Missing};

/// The longest packet we send, in bytes: it fits a usual network whole.
pub(crate) const PACKET_BYTES_MAX: usize = PACKET_LEN_DEFAULT;
/// The silence after which a heartbeat is sent.
pub(crate) const HEARTBEAT_NS: u64 = 1_000_000_000;

/// Builds MoldUDP64 packets from stored messages, from any number on, in one buffer.
pub(crate) struct Packets {
    packetizer: Packetizer,
    session: Session,
    bytes_max: usize,
}

impl Packets {
    pub(crate) fn new(session: [u8; 10], packet_bytes_max: usize) -> Self {
        let packetizer = Packetizer::new(session, 1, packet_bytes_max);
        Self { packetizer, session, bytes_max: packet_bytes_max }
    }

    /// Header and messages of a packet from number `first` of a stream on, as full as the memory of its store makes it,
    /// and how many messages it has.
    ///
    /// # Errors
    /// The first message is not stored.
    pub(crate) fn stored<'a>(
        &self,
        store: &'a ReplayStore,
        stream: usize,
        first: u64,
    ) -> Result<(u16, [u8; HEADER_LEN], &'a [u8]), Missing> {
        let (count, blocks) = store.run(stream, first, self.bytes_max - HEADER_LEN)?;
        Ok((count, header(self.session, first, count), blocks))
    }

    /// A packet of whole messages from number `first` on: as many as fit, exist and are wanted; and their number, at
    /// least 1. `get` returns a message by its number.
    ///
    /// # Errors
    /// The first message is not available, or none is wanted.
    pub(crate) fn fill<'a>(
        &mut self,
        first: u64,
        count_max: u16,
        get: impl Fn(u64) -> Result<&'a [u8], Missing>,
    ) -> Result<(u16, &[u8]), Missing> {
        self.packetizer.restart(first);
        let mut next = get(first);
        while self.packetizer.count() < count_max
            && let Ok(message) = next
            && self.packetizer.push(message)
        {
            next = get(self.packetizer.next_sequence());
        }
        match next {
            Err(missing) if self.packetizer.is_empty() => Err(missing),
            _ if self.packetizer.is_empty() => Err(Missing::Future(first)),
            _ => Ok((self.packetizer.count(), self.packetizer.packet())),
        }
    }

    /// A packet that says that no message with this number will come.
    pub(crate) fn end_of_session(&mut self, next: u64) -> [u8; HEADER_LEN] {
        self.packetizer.restart(next);
        self.packetizer.end_of_session()
    }

    /// A packet without messages, which has the number of the next.
    pub(crate) fn heartbeat(&mut self, next: u64) -> &[u8] {
        self.packetizer.restart(next);
        self.packetizer.packet()
    }
}
