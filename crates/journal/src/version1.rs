//! Records of format version 1, which is read for ever and no longer written: no kinds, no batches,
//! no chain. docs/journal.md has its map.

use crate::{
    error::BadRecord,
    record::{ALIGNMENT, Class, Entry, Kind, PAYLOAD_LEN_MAX},
    segment::SegmentHeader,
};

/// Bytes before the payload.
pub(crate) const RECORD_HEADER_LEN: usize = 24;

/// The checksum of nothing, for the records of one segment.
pub(crate) fn seed(header: &SegmentHeader) -> u32 {
    let id = crc32c::crc32c(&header.journal_id.to_le_bytes());
    crc32c::crc32c_append(id, &header.first_sequence.to_le_bytes())
}

/// How many bytes the record with this header says it takes, of the `available` ones.
pub(crate) fn encoded_len(
    header: &[u8; RECORD_HEADER_LEN],
    available: u64,
) -> Result<usize, BadRecord> {
    let payload_len = u32::from_le_bytes(*header[4..].first_chunk().expect("inside"));
    if payload_len as usize > PAYLOAD_LEN_MAX {
        return Err(BadRecord::Length(payload_len));
    }
    let len = RECORD_HEADER_LEN + (payload_len as usize).next_multiple_of(ALIGNMENT);
    if len as u64 > available {
        return Err(BadRecord::Short { needed: len as u64, available });
    }
    Ok(len)
}

/// The sequence a record with this header says it has.
pub(crate) fn sequence(header: &[u8; RECORD_HEADER_LEN]) -> u64 {
    u64::from_le_bytes(*header[8..].first_chunk().expect("inside"))
}

/// Reads the record that takes all of `bytes`, as long as its header says.
pub(crate) fn decode(seed: u32, bytes: &[u8]) -> Result<Entry<'_>, BadRecord> {
    let u32_at = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("a header"));
    let u64_at = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("a header"));
    let (stored, computed) = (u32_at(0), crc32c::crc32c_append(seed, &bytes[4..]));
    if computed != stored {
        return Err(BadRecord::Checksum { stored, computed });
    }
    Ok(Entry {
        class: Class::Shown(Kind::Input),
        nth: 0,
        sequence: u64_at(8),
        timestamp: u64_at(16),
        payload: &bytes[RECORD_HEADER_LEN..][..u32_at(4) as usize],
    })
}
