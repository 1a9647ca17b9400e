//! One record as bytes: checksum, length, kind, version, place in its batch, sequence, timestamp,
//! payload, padding to 8.
//!
//! The checksum is CRC-32C over journal id, epoch and first sequence of the segment, and all of
//! the record that follows the checksum. So a record that is stale, of another journal or in
//! another segment does not verify, and no byte can change unnoticed.

use crate::{
    error::BadRecord,
    failpoint::{Failpoint, failpoint},
    segment::SegmentHeader,
};

/// The longest payload, in bytes.
pub const PAYLOAD_LEN_MAX: usize = 64 * 1024;

/// Bytes before the payload.
pub(crate) const RECORD_HEADER_LEN: usize = 32;

/// The longest record, in bytes.
pub(crate) const RECORD_LEN_MAX: usize = encoded_len(PAYLOAD_LEN_MAX);

/// Records begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;

/// The length of the chain over all earlier batches, in bytes.
pub(crate) const CHAIN_LEN: usize = 16;

/// The record that ends a batch.
pub(crate) const SEAL_LEN: usize = encoded_len(CHAIN_LEN);

/// The version of the payload of every kind of record, so far.
const RECORD_VERSION: u16 = 1;

/// A record: its payload, sequence and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Whether it has a sequence of its own.
    pub kind: RecordKind,
    /// Its sequence: from 1, without gaps. For a note, that of the input before it; 0 if there is none.
    pub sequence: u64,
    /// Its time, in ns since the Unix epoch; never before that of the record before it.
    pub timestamp: u64,
    /// The payload; at most [`PAYLOAD_LEN_MAX`] bytes.
    pub payload: &'a [u8],
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// It has a sequence of its own.
    Input,
    /// A note about the inputs before it; the state does not depend on it.
    Checkpoint,
}

/// The kind of a record in the file, the journal's own kinds included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Shown(RecordKind),
    /// The end of a batch; its payload is the chain.
    Seal,
}

impl Class {
    fn code(self) -> u16 {
        match self {
            Self::Shown(RecordKind::Input) => 1,
            Self::Shown(RecordKind::Checkpoint) => 2,
            Self::Seal => 3,
        }
    }

    fn from_code(code: u16) -> Option<Self> {
        [Self::Shown(RecordKind::Input), Self::Shown(RecordKind::Checkpoint), Self::Seal]
            .into_iter()
            .find(|class| class.code() == code)
    }
}

/// The length of a record with this payload, in bytes.
#[must_use]
pub const fn encoded_len(payload_len: usize) -> usize {
    RECORD_HEADER_LEN + payload_len.next_multiple_of(ALIGNMENT)
}

/// The initial checksum for the records of one segment.
pub(crate) fn seed(header: &SegmentHeader) -> u32 {
    let id = crc32c::crc32c(&header.journal_id.to_le_bytes());
    let epoch = crc32c::crc32c_append(id, &header.epoch.to_le_bytes());
    crc32c::crc32c_append(epoch, &header.first_sequence.to_le_bytes())
}

/// A record in the layout of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) class: Class,
    /// The number of inputs before it in its batch.
    pub(crate) nth: u32,
    pub(crate) sequence: u64,
    pub(crate) timestamp: u64,
    pub(crate) payload: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Writes the record to `bytes`, which are as many as it [takes](encoded_len).
    pub(crate) fn encode(&self, seed: u32, bytes: &mut [u8]) {
        let Self { class, nth, sequence, timestamp, payload } = *self;
        assert!(payload.len() <= PAYLOAD_LEN_MAX, "a payload of {} bytes", payload.len());
        bytes[RECORD_HEADER_LEN..][..payload.len()].copy_from_slice(payload);
        Head { class, nth, sequence, timestamp }.complete(seed, payload.len(), bytes);
    }

    /// Reads the record that takes all of `bytes`, as long as its [`Header`] says.
    pub(crate) fn decode(seed: u32, bytes: &'a [u8]) -> Result<Self, BadRecord> {
        let header = Header::read(bytes.first_chunk().expect("as long as its header says"));
        let computed = crc32c::crc32c_append(seed, &bytes[4..]);
        if computed != header.checksum && !failpoint(Failpoint::Unchecked) {
            return Err(BadRecord::Checksum { stored: header.checksum, computed });
        }
        let class = Class::from_code(header.kind).filter(|_| header.version == RECORD_VERSION);
        let class =
            class.ok_or(BadRecord::Unknown { kind: header.kind, version: header.version })?;
        Ok(Self {
            class,
            nth: header.nth,
            sequence: header.sequence,
            timestamp: header.timestamp,
            payload: &bytes[RECORD_HEADER_LEN..][..header.payload_len as usize],
        })
    }

    /// The sequence of the first input of its batch, also where the batch has none.
    pub(crate) fn batch_first(&self) -> u64 {
        let own = u64::from(self.class == Class::Shown(RecordKind::Input));
        (self.sequence + 1).wrapping_sub(own).wrapping_sub(u64::from(self.nth))
    }
}

/// The fields of a record beside its payload.
pub(crate) struct Head {
    pub(crate) class: Class,
    pub(crate) nth: u32,
    pub(crate) sequence: u64,
    pub(crate) timestamp: u64,
}

impl Head {
    /// Makes a record of `bytes`, which are as many as it [takes](encoded_len) and hold the payload
    /// already.
    #[inline]
    pub(crate) fn complete(self, seed: u32, payload_len: usize, bytes: &mut [u8]) {
        let payload_end = RECORD_HEADER_LEN + payload_len;
        assert!(bytes.len() == encoded_len(payload_len), "{} for {payload_len}", bytes.len());
        let payload_len = u32::try_from(payload_len).expect("at most PAYLOAD_LEN_MAX");
        bytes[4..8].copy_from_slice(&payload_len.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.class.code().to_le_bytes());
        bytes[10..12].copy_from_slice(&RECORD_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.nth.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.timestamp.to_le_bytes());
        bytes[payload_end..].fill(0);
        let checksum = crc32c::crc32c_append(seed, &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The fixed part of a record, before anything is known to be true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    checksum: u32,
    payload_len: u32,
    kind: u16,
    version: u16,
    nth: u32,
    pub(crate) sequence: u64,
    timestamp: u64,
}

impl Header {
    pub(crate) fn read(bytes: &[u8; RECORD_HEADER_LEN]) -> Self {
        let u16_at = |at| u16::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        let u32_at = |at| u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        let u64_at = |at| u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        Self {
            checksum: u32_at(0),
            payload_len: u32_at(4),
            kind: u16_at(8),
            version: u16_at(10),
            nth: u32_at(12),
            sequence: u64_at(16),
            timestamp: u64_at(24),
        }
    }

    /// False if no record can have this header.
    pub(crate) fn is_known(&self) -> bool {
        Class::from_code(self.kind).is_some() && self.version == RECORD_VERSION
    }

    /// The length that the record claims, in bytes; an error if that is impossible or above `available`.
    pub(crate) fn encoded_len(&self, available: u64) -> Result<usize, BadRecord> {
        let payload_len = self.payload_len as usize;
        if payload_len > PAYLOAD_LEN_MAX {
            return Err(BadRecord::Length(self.payload_len));
        }
        let len = encoded_len(payload_len);
        if len as u64 > available {
            return Err(BadRecord::Short { needed: len as u64, available });
        }
        Ok(len)
    }
}

/// The running hash of all batches of a journal: 128-bit xxHash3 over the chain before and the bytes of
/// the batch. It detects a missing or misplaced record; it is not a signature.
pub(crate) type Chain = [u8; CHAIN_LEN];

/// The chain of a journal that has no batch yet.
pub(crate) fn chain_begin(journal_id: u64) -> Chain {
    xxhash_rust::xxh3::xxh3_128(&journal_id.to_le_bytes()).to_le_bytes()
}

/// The chain after a batch with these bytes, the seal excluded.
pub(crate) fn chain_after(chain: &Chain, batch: &[u8]) -> Chain {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    hash.update(chain);
    hash.update(batch);
    hash.digest128().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Entry<'_> = Entry {
        class: Class::Shown(RecordKind::Input),
        nth: 2,
        sequence: 7,
        timestamp: 9,
        payload: b"hello",
    };

    fn encoded(seed: u32) -> Vec<u8> {
        let mut bytes = vec![7; encoded_len(ENTRY.payload.len())];
        ENTRY.encode(seed, &mut bytes);
        bytes
    }

    fn seed_of(journal_id: u64, epoch: u64, first_sequence: u64) -> u32 {
        seed(&SegmentHeader { epoch, ..SegmentHeader::new(journal_id, first_sequence, 0) })
    }

    /// A record reads as it was written, and takes a multiple of 8 bytes.
    #[test]
    fn reads_as_written() {
        let bytes = encoded(seed_of(1, 1, 1));
        assert_eq!(bytes.len(), 40);
        assert_eq!(Entry::decode(seed_of(1, 1, 1), &bytes), Ok(ENTRY));
        assert_eq!(ENTRY.batch_first(), 5);
    }

    /// A whole record of another journal, another epoch or another segment does not verify.
    #[test]
    fn foreign_stale_and_misplaced_records_do_not_verify() {
        let bytes = encoded(seed_of(1, 1, 1));
        for (id, epoch, first) in [(2, 1, 1), (1, 2, 1), (1, 1, 7), (0, 0, 0), (u64::MAX, 1, 1)] {
            let read = Entry::decode(seed_of(id, epoch, first), &bytes);
            assert!(matches!(read, Err(BadRecord::Checksum { .. })), "{read:?}");
        }
    }

    /// A change of any bit of a record is found, padding included.
    #[test]
    fn every_bit_is_covered() {
        let bytes = encoded(3);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::decode(3, &bytes).is_err(), "bit {bit}");
        }
    }

    /// A kind or version of a later build is not reported as damage.
    #[test]
    fn what_is_not_known_is_not_damage() {
        let mut bytes = encoded(3);
        bytes[8] = 9;
        let checksum = crc32c::crc32c_append(3, &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Entry::decode(3, &bytes), Err(BadRecord::Unknown { kind: 9, version: 1 }));
    }

    /// The chain depends on what came before, on every byte, and on nothing else.
    #[test]
    fn the_chain_covers_everything() {
        let start = chain_begin(1);
        assert_ne!(start, chain_begin(2));
        let after = chain_after(&start, b"batch");
        assert_eq!(after, chain_after(&start, b"batch"));
        assert_ne!(after, chain_after(&start, b"bAtch"));
        assert_ne!(after, chain_after(&chain_begin(2), b"batch"));
    }
}
