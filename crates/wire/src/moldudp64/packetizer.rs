//! The sender's side: messages become packets.

use alloc::vec::Vec;

use zerocopy::IntoBytes;

use super::{
    BLOCK_HEADER_LEN, DownstreamHeader, END_OF_SESSION, HEADER_LEN, HEARTBEAT, MESSAGE_COUNT_MAX,
    Session,
};

/// The offset of the count in the header, in bytes.
const COUNT_AT: usize = 18;

/// Builds the packets of one session, one after the other, in one buffer.
///
/// [`push`](Self::push) messages until one does not fit, send [`packet`](Self::packet), and continue with
/// [`advance`](Self::advance).
#[derive(Clone, Debug)]
pub struct Packetizer {
    session: Session,
    packet_len_max: usize,
    /// Number of the first message of the packet that is being built.
    sequence_number: u64,
    count: u16,
    packet: Vec<u8>,
}

impl Packetizer {
    /// A packetizer for a session from this number on, with packets of at most `packet_len_max` bytes.
    ///
    /// # Panics
    /// `packet_len_max` has no room for a message, or is above the length of a UDP datagram.
    #[must_use]
    pub fn new(session: Session, next_sequence: u64, packet_len_max: usize) -> Self {
        assert!(
            (HEADER_LEN + BLOCK_HEADER_LEN < packet_len_max) && packet_len_max <= 65_507,
            "a packet of {packet_len_max} bytes"
        );
        let mut packetizer = Self {
            session,
            packet_len_max,
            sequence_number: next_sequence,
            count: 0,
            packet: Vec::with_capacity(packet_len_max),
        };
        packetizer.restart(next_sequence);
        packetizer
    }

    /// Appends a message and returns true; returns false and changes nothing if it does not fit.
    ///
    /// # Panics
    /// The message does not fit an empty packet.
    #[must_use]
    pub fn push(&mut self, message: &[u8]) -> bool {
        let block_len = BLOCK_HEADER_LEN + message.len();
        assert!(
            HEADER_LEN + block_len <= self.packet_len_max,
            "a message of {} bytes fits no packet",
            message.len()
        );
        if self.packet.len() + block_len > self.packet_len_max || self.count == MESSAGE_COUNT_MAX {
            return false;
        }
        let message_length = u16::try_from(message.len()).expect("it fits a packet");
        self.packet.extend_from_slice(&message_length.to_be_bytes());
        self.packet.extend_from_slice(message);
        self.count += 1;
        self.packet[COUNT_AT..HEADER_LEN].copy_from_slice(&self.count.to_be_bytes());
        true
    }

    /// The packet so far; a heartbeat while it is [empty](Self::is_empty).
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    /// True if the packet has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of messages in the packet.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The sequence number of the next message.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.sequence_number + u64::from(self.count)
    }

    /// Begins the packet after this one.
    pub fn advance(&mut self) {
        self.restart(self.next_sequence());
    }

    /// Drops the packet's messages and begins a packet at another number, to answer a request.
    pub fn restart(&mut self, next_sequence: u64) {
        self.sequence_number = next_sequence;
        self.count = 0;
        self.packet.clear();
        self.packet.extend_from_slice(&self.bare(HEARTBEAT));
    }

    /// A heartbeat, with the number that follows the packets already advanced over.
    #[must_use]
    pub fn heartbeat(&self) -> [u8; HEADER_LEN] {
        self.bare(HEARTBEAT)
    }

    /// An end of session, with the number that follows the packets already advanced over.
    #[must_use]
    pub fn end_of_session(&self) -> [u8; HEADER_LEN] {
        self.bare(END_OF_SESSION)
    }

    fn bare(&self, message_count: u16) -> [u8; HEADER_LEN] {
        header(self.session, self.sequence_number, message_count)
    }
}

/// The header of a packet of this many messages.
#[must_use]
pub fn header(session: Session, sequence_number: u64, message_count: u16) -> [u8; HEADER_LEN] {
    let header = DownstreamHeader {
        session,
        sequence_number: sequence_number.into(),
        message_count: message_count.into(),
    };
    *header.as_bytes().first_chunk().expect("these are all its bytes")
}
