//! One record as bytes: checksum, length, sequence, timestamp, payload, padding to 8.
//!
//! The checksum is CRC-32C over the journal id, the segment's first sequence, and all of the
//! record that follows the checksum. So a record that is stale, of another journal or in another
//! segment does not verify, and there is no byte that may change unseen.

use crate::error::BadRecord;

/// The longest payload, in bytes.
pub const PAYLOAD_LEN_MAX: usize = 64 * 1024;

/// Bytes before the payload.
pub(crate) const RECORD_HEADER_LEN: usize = 24;

/// The longest record, in bytes.
pub(crate) const RECORD_LEN_MAX: usize = encoded_len(PAYLOAD_LEN_MAX);

/// Records begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 8;

/// What was recorded, with its place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place: from 1, without gaps.
    pub sequence: u64,
    /// Its time, in ns since the Unix epoch; never before that of the record before it.
    pub timestamp: u64,
    /// What it says; at most [`PAYLOAD_LEN_MAX`] bytes.
    pub payload: &'a [u8],
}

/// How many bytes a record with this payload takes.
#[must_use]
pub const fn encoded_len(payload_len: usize) -> usize {
    RECORD_HEADER_LEN + payload_len.next_multiple_of(ALIGNMENT)
}

/// The checksum of nothing, for the records of one segment.
pub(crate) fn seed(journal_id: u64, first_sequence: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&journal_id.to_le_bytes()), &first_sequence.to_le_bytes())
}

impl<'a> Record<'a> {
    /// Puts the record at the end of `buffer`; allocates nothing if there is room.
    pub(crate) fn encode(&self, seed: u32, buffer: &mut Vec<u8>) {
        let start = buffer.len();
        let payload_len = u32::try_from(self.payload.len()).expect("at most PAYLOAD_LEN_MAX");
        let mut header = [0; RECORD_HEADER_LEN];
        header[4..8].copy_from_slice(&payload_len.to_le_bytes());
        header[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        header[16..].copy_from_slice(&self.timestamp.to_le_bytes());
        buffer.extend_from_slice(&header);
        buffer.extend_from_slice(self.payload);
        buffer.resize(start + encoded_len(self.payload.len()), 0);
        let checksum = crc32c::crc32c_append(seed, &buffer[start + 4..]);
        buffer[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads the record that takes all of `bytes`, as long as its [`Header`] says.
    pub(crate) fn decode(seed: u32, bytes: &'a [u8]) -> Result<Self, BadRecord> {
        let header = Header::read(bytes.first_chunk().expect("as long as its header says"));
        let computed = crc32c::crc32c_append(seed, &bytes[4..]);
        if computed != header.checksum {
            return Err(BadRecord::Checksum { stored: header.checksum, computed });
        }
        Ok(Self {
            sequence: header.sequence,
            timestamp: header.timestamp,
            payload: &bytes[RECORD_HEADER_LEN..][..header.payload_len as usize],
        })
    }
}

/// The fixed part of a record, before anything is known to be true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    checksum: u32,
    payload_len: u32,
    pub(crate) sequence: u64,
    timestamp: u64,
}

impl Header {
    pub(crate) fn read(bytes: &[u8; RECORD_HEADER_LEN]) -> Self {
        let u32_at = |at| u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        let u64_at = |at| u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        Self {
            checksum: u32_at(0),
            payload_len: u32_at(4),
            sequence: u64_at(8),
            timestamp: u64_at(16),
        }
    }

    /// How many bytes the record says it takes, of the `available` ones.
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

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: Record<'_> = Record { sequence: 7, timestamp: 9, payload: b"hello" };

    fn encoded(seed: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        RECORD.encode(seed, &mut bytes);
        bytes
    }

    /// A record reads as it was written, and takes a multiple of 8 bytes.
    #[test]
    fn reads_as_written() {
        let bytes = encoded(seed(1, 1));
        assert_eq!(bytes.len(), 32);
        assert_eq!(Record::decode(seed(1, 1), &bytes), Ok(RECORD));
    }

    /// A whole record of another journal or another segment does not verify.
    #[test]
    fn foreign_and_misplaced_records_do_not_verify() {
        let bytes = encoded(seed(1, 1));
        for (journal_id, first_sequence) in [(2, 1), (1, 2), (1, 7), (0, 0), (u64::MAX, 1)] {
            let read = Record::decode(seed(journal_id, first_sequence), &bytes);
            assert!(matches!(read, Err(BadRecord::Checksum { .. })), "{read:?}");
        }
    }

    /// No bit of a record may change unseen, those of the padding included.
    #[test]
    fn every_bit_is_covered() {
        let bytes = encoded(3);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(3, &bytes).is_err(), "bit {bit}");
        }
    }
}
