//! A batch as bytes: a header with checksum, place, time and chain, then the records without gaps.
//!
//! The checksum is CRC-32C over journal id, epoch and first sequence of the segment, and all of the
//! batch that follows the checksum. So a stale batch, a batch of another journal and a batch in the
//! wrong segment do not verify, and no byte of a batch can change unnoticed.
//!
//! Invariant: a batch exists as a whole or not at all.

use crate::{
    error::BadBatch,
    failpoint::{Failpoint, failpoint},
    record::RECORD_HEAD_LEN_MAX,
    segment::SegmentHeader,
    writer::BUFFER_LEN,
};

/// Bytes before the first record.
pub(crate) const BATCH_HEADER_LEN: usize = 48;

/// Batches begin at multiples of this number of bytes, and their length is a multiple of it.
pub(crate) const ALIGNMENT: usize = 8;

/// The length of the chain over all batches so far, in bytes.
pub(crate) const CHAIN_LEN: usize = 16;

const CHAIN_AT: usize = 32;
const _: () = assert!(CHAIN_AT + CHAIN_LEN == BATCH_HEADER_LEN);

/// The most bytes of a batch with one record, for a payload of this many bytes.
#[must_use]
pub const fn single_record_len_max(payload_len: usize) -> usize {
    (BATCH_HEADER_LEN + RECORD_HEAD_LEN_MAX + payload_len).next_multiple_of(ALIGNMENT)
}

/// The version of a batch and of the payloads in it.
const BATCH_VERSION: u16 = 2;

/// The running hash of all batches of a journal: 128-bit xxHash3 over the chain before and the bytes of
/// the batch. It detects a missing or misplaced batch; it is not a signature.
pub(crate) type Chain = [u8; CHAIN_LEN];

/// The chain of a journal that has no batch yet.
pub(crate) fn chain_begin(journal_id: u64) -> Chain {
    xxhash_rust::xxh3::xxh3_128(&journal_id.to_le_bytes()).to_le_bytes()
}

/// The chain after a batch: over all its bytes but the checksum and the chain itself.
fn chain_after(before: &Chain, bytes: &[u8]) -> Chain {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    hash.update(before);
    hash.update(&bytes[4..CHAIN_AT]);
    hash.update(&bytes[BATCH_HEADER_LEN..]);
    hash.digest128().to_le_bytes()
}

/// The initial checksum for the batches of one segment.
pub(crate) fn seed(header: &SegmentHeader) -> u32 {
    let id = crc32c::crc32c(&header.journal_id.to_le_bytes());
    let epoch = crc32c::crc32c_append(id, &header.epoch.to_le_bytes());
    crc32c::crc32c_append(epoch, &header.first_sequence.to_le_bytes())
}

/// The fields of a batch's header other than checksum, length and chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The number of records, checkpoints included.
    pub(crate) record_count: u32,
    /// The sequence of the first input; without an input, that of the next one.
    pub(crate) first_sequence: u64,
    /// The time of the first record, in ns since the Unix epoch.
    pub(crate) timestamp: u64,
}

impl Batch {
    /// Makes a batch of `bytes`: room for the header, then the records, with zeros to a multiple of
    /// [`ALIGNMENT`]. Returns the chain after it.
    pub(crate) fn seal(&self, seed: u32, before: &Chain, bytes: &mut [u8]) -> Chain {
        let len = bytes.len();
        assert!(len.is_multiple_of(ALIGNMENT) && len <= BUFFER_LEN, "a batch of {len} bytes");
        assert!(self.record_count > 0, "a batch has a record");
        bytes[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&BATCH_VERSION.to_le_bytes());
        bytes[10..12].fill(0);
        bytes[12..16].copy_from_slice(&self.record_count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.timestamp.to_le_bytes());
        let chain = chain_after(before, bytes);
        bytes[CHAIN_AT..BATCH_HEADER_LEN].copy_from_slice(&chain);
        let checksum = crc32c::crc32c_append(seed, &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        chain
    }

    /// Reads the header of a batch that fills `bytes`; its [`Header`] gives that length.
    pub(crate) fn verify(seed: u32, bytes: &[u8]) -> Result<Self, BadBatch> {
        let header = Header::read(bytes.first_chunk().expect("as long as its header says"));
        let computed = crc32c::crc32c_append(seed, &bytes[4..]);
        if computed != header.checksum && !failpoint(Failpoint::Unchecked) {
            return Err(BadBatch::Checksum { stored: header.checksum, computed });
        }
        if !header.is_known() {
            return Err(BadBatch::Unknown { version: header.version });
        }
        Ok(header.batch)
    }

    /// The chain after the batch with these bytes; `None` if the batch has another chain.
    pub(crate) fn chain(before: &Chain, bytes: &[u8]) -> Option<Chain> {
        let chain = chain_after(before, bytes);
        let is_right = bytes[CHAIN_AT..BATCH_HEADER_LEN] == chain;
        (is_right || failpoint(Failpoint::Unchecked)).then_some(chain)
    }
}

/// The fixed part of a batch, before it is verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    checksum: u32,
    len: u32,
    version: u16,
    zero: u16,
    pub(crate) batch: Batch,
}

impl Header {
    pub(crate) fn read(bytes: &[u8; BATCH_HEADER_LEN]) -> Self {
        let u16_at = |at| u16::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        let u32_at = |at| u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        let u64_at = |at| u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        Self {
            checksum: u32_at(0),
            len: u32_at(4),
            version: u16_at(8),
            zero: u16_at(10),
            batch: Batch {
                record_count: u32_at(12),
                first_sequence: u64_at(16),
                timestamp: u64_at(24),
            },
        }
    }

    /// False if no batch of this build can have this header.
    pub(crate) fn is_known(&self) -> bool {
        self.version == BATCH_VERSION && self.zero == 0
    }

    /// The length in the header, in bytes; an error if it is impossible or above `available`.
    pub(crate) fn len(&self, available: u64) -> Result<usize, BadBatch> {
        let len = self.len as usize;
        if len <= BATCH_HEADER_LEN || len > BUFFER_LEN || !len.is_multiple_of(ALIGNMENT) {
            return Err(BadBatch::Length(self.len));
        }
        if len as u64 > available {
            return Err(BadBatch::Short { needed: len as u64, available });
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: Batch = Batch { record_count: 2, first_sequence: 7, timestamp: 9 };

    fn seed_of(journal_id: u64, epoch: u64, first_sequence: u64) -> u32 {
        seed(&SegmentHeader { epoch, ..SegmentHeader::new(journal_id, first_sequence, 0) })
    }

    fn sealed(seed: u32, before: &Chain) -> (Vec<u8>, Chain) {
        let mut bytes = vec![7; BATCH_HEADER_LEN + 24];
        let chain = BATCH.seal(seed, before, &mut bytes);
        (bytes, chain)
    }

    /// A batch reads back as it was sealed, and gives the chain after it.
    #[test]
    fn reads_as_sealed() {
        let before = chain_begin(1);
        let (bytes, chain) = sealed(seed_of(1, 1, 1), &before);
        assert_eq!(Batch::verify(seed_of(1, 1, 1), &bytes), Ok(BATCH));
        assert_eq!(Batch::chain(&before, &bytes), Some(chain));
        let header = Header::read(bytes.first_chunk().unwrap());
        assert_eq!(header.len(72), Ok(72));
        assert_eq!(header.len(71), Err(BadBatch::Short { needed: 72, available: 71 }));
    }

    /// A complete batch of another journal, another epoch or another segment does not verify.
    #[test]
    fn foreign_stale_and_misplaced_batches_do_not_verify() {
        let (bytes, _) = sealed(seed_of(1, 1, 1), &chain_begin(1));
        for (id, epoch, first) in [(2, 1, 1), (1, 2, 1), (1, 1, 7), (0, 0, 0), (u64::MAX, 1, 1)] {
            let read = Batch::verify(seed_of(id, epoch, first), &bytes);
            assert!(matches!(read, Err(BadBatch::Checksum { .. })), "{read:?}");
        }
    }

    /// A change of any bit of a batch is found.
    #[test]
    fn every_bit_is_covered() {
        let (bytes, _) = sealed(3, &chain_begin(1));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Batch::verify(3, &bytes).is_err(), "bit {bit}");
        }
    }

    /// A version of a later build is not reported as damage.
    #[test]
    fn what_is_not_known_is_not_damage() {
        let (mut bytes, _) = sealed(3, &chain_begin(1));
        bytes[8] = 9;
        let checksum = crc32c::crc32c_append(3, &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Batch::verify(3, &bytes), Err(BadBatch::Unknown { version: 9 }));
    }

    /// Lengths that no batch has are refused before anything is read.
    #[test]
    fn impossible_lengths_are_refused() {
        for len in [0, 8, 48, 57, BUFFER_LEN + 8, u32::MAX as usize] {
            let mut bytes = sealed(3, &chain_begin(1)).0;
            bytes[4..8].copy_from_slice(&(len as u32).to_le_bytes());
            let header = Header::read(bytes.first_chunk().unwrap());
            assert_eq!(header.len(u64::MAX), Err(BadBatch::Length(len as u32)));
        }
    }

    /// The chain depends on the chain before, on every byte of header and records, and on nothing
    /// else.
    #[test]
    fn the_chain_covers_everything() {
        let start = chain_begin(1);
        assert_ne!(start, chain_begin(2));
        let (bytes, chain) = sealed(3, &start);
        assert_eq!(sealed(4, &start).1, chain, "the checksum is no part of it");
        assert_ne!(sealed(3, &chain_begin(2)).1, chain);
        for at in (4..CHAIN_AT).chain(BATCH_HEADER_LEN..bytes.len()) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(Batch::chain(&start, &changed), None, "byte {at}");
        }
    }
}
