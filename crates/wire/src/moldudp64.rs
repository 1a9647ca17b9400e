//! MoldUDP64 1.00: numbered messages in UDP packets, with requests for lost ones.
//! docs/wire/moldudp64.md has the tables and our decisions.
//!
//! Start at [`Packetizer`], which builds packets, and [`parse`], which reads them; [`Receiver`]
//! puts packets in order and requests missing ones.

use core::fmt;

use zerocopy::{FromBytes, IntoBytes};

use crate::{
    field::{Alpha, U16, U64},
    layout::layout,
};

mod packetizer;
mod receiver;

pub use packetizer::{Packetizer, header};
pub use receiver::{ReceiveError, Receiver, ReceiverLimits, ReceiverStatistics};

/// Bytes of a packet's header, and of a request.
pub const HEADER_LEN: usize = 20;

/// Bytes of the length before each message.
pub const BLOCK_HEADER_LEN: usize = 2;

/// The maximum of messages in a packet; one more marks the end of the session.
pub const MESSAGE_COUNT_MAX: u16 = 0xFFFE;

/// Bytes of a packet that a usual network does not fragment.
pub const PACKET_LEN_DEFAULT: usize = 1400;

const HEARTBEAT: u16 = 0;
const END_OF_SESSION: u16 = 0xFFFF;

/// A session's name: 10 characters without padding.
pub type Session = Alpha<10>;

layout! {
    /// Header of a downstream packet, 20 bytes. Message blocks follow it.
    "Downstream Packet header" DownstreamHeader [20] {
        session: Alpha<10>,     "The session; 10 characters in full";
        sequence_number: U64,   "Of the first message; without messages, of the next message";
        message_count: U16,     "Blocks that follow; 0 is a heartbeat, 65,535 the end of the session";
    }

    /// Header of a message block, 2 bytes. The message follows it.
    "Message Block" MessageBlockHeader [2] {
        message_length: U16,    "Bytes of the message, these two not counted; may be 0";
    }

    /// Request packet, 20 bytes: send these messages again.
    "Request Packet" RequestPacket [20] {
        session: Alpha<10>,     "The session";
        sequence_number: U64,   "Of the first message wanted";
        requested_message_count: U16, "How many are wanted from it on";
    }
}

/// The reason why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They end before the header, a block or the stated number of blocks.
    Short,
    /// Bytes follow the last block.
    Long,
    /// The numbers of the messages go beyond 64 bits.
    Numbers,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the packet is cut short",
            Self::Long => "bytes follow the packet",
            Self::Numbers => "the message numbers overflow",
        })
    }
}

impl core::error::Error for Malformed {}

/// A downstream packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The session.
    pub session: Session,
    /// Number of the first message; in a packet without messages, of the next one.
    pub sequence_number: u64,
    /// The content of the packet.
    pub kind: PacketKind<'a>,
}

/// The content of a downstream packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind<'a> {
    /// Messages.
    Data(Blocks<'a>),
    /// No message: a heartbeat, with the number of the next message.
    Heartbeat,
    /// No message: the session ended before this number.
    EndOfSession,
}

/// The messages of a packet, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl Blocks<'_> {
    /// The number of messages; at least 1.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.count
    }
}

impl<'a> IntoIterator for Blocks<'a> {
    type Item = &'a [u8];
    type IntoIter = BlocksIter<'a>;

    fn into_iter(self) -> BlocksIter<'a> {
        BlocksIter { unread: self.bytes }
    }
}

/// Iterates over the messages of a packet.
#[derive(Clone, Debug)]
pub struct BlocksIter<'a> {
    unread: &'a [u8],
}

impl<'a> Iterator for BlocksIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (message, rest) = take_block(self.unread)?;
        self.unread = rest;
        Some(message)
    }
}

fn take_block(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (header, rest) = MessageBlockHeader::ref_from_prefix(bytes).ok()?;
    rest.split_at_checked(usize::from(header.message_length.get()))
}

/// Reads a downstream packet.
///
/// # Errors
/// The bytes are not exactly one packet.
pub fn parse(packet: &[u8]) -> Result<Packet<'_>, Malformed> {
    let (header, bytes) =
        DownstreamHeader::ref_from_prefix(packet).map_err(|_| Malformed::Short)?;
    let sequence_number = header.sequence_number.get();
    let kind = match header.message_count.get() {
        HEARTBEAT => PacketKind::Heartbeat,
        END_OF_SESSION => PacketKind::EndOfSession,
        count => {
            if sequence_number.checked_add(u64::from(count)).is_none() {
                return Err(Malformed::Numbers);
            }
            let mut unread = bytes;
            for _ in 0..count {
                (_, unread) = take_block(unread).ok_or(Malformed::Short)?;
            }
            if !unread.is_empty() {
                return Err(Malformed::Long);
            }
            PacketKind::Data(Blocks { count, bytes })
        }
    };
    if !matches!(kind, PacketKind::Data(_)) && !bytes.is_empty() {
        return Err(Malformed::Long);
    }
    Ok(Packet { session: header.session, sequence_number, kind })
}

/// A request to send messages again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The session.
    pub session: Session,
    /// Number of the first message wanted.
    pub sequence_number: u64,
    /// The number of messages.
    pub count: u16,
}

impl Request {
    /// The request's packet.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let packet = RequestPacket {
            session: self.session,
            sequence_number: self.sequence_number.into(),
            requested_message_count: self.count.into(),
        };
        *packet.as_bytes().first_chunk().expect("a request is a header")
    }

    /// Reads a request packet. Any numbers are accepted here.
    ///
    /// # Errors
    /// The bytes are not exactly one packet.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let (fields, rest) =
            RequestPacket::ref_from_prefix(packet).map_err(|_| Malformed::Short)?;
        if !rest.is_empty() {
            return Err(Malformed::Long);
        }
        Ok(Self {
            session: fields.session,
            sequence_number: fields.sequence_number.get(),
            count: fields.requested_message_count.get(),
        })
    }
}
