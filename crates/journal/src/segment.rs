//! A segment: one file, named by its first sequence. It has two copies of its header, each in a
//! block of its own, then the batches, then zeros.

use std::io;

use crate::{
    batch::{ALIGNMENT, Chain, chain_begin},
    error::HeaderFault,
    storage::{Storage, StorageFile},
};

/// The version of the format that this crate writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 1;

/// The offset of the first batch of a segment, in bytes, after two copies of the header.
pub const SEGMENT_HEADER_LEN: u64 = 2 * BLOCK_LEN as u64;

/// The length of one copy of the header, in bytes. A bad sector damages at most one copy.
pub const BLOCK_LEN: usize = 4096;

const MAGIC: [u8; 8] = *b"DamrakJ\n";
const EXTENSION: &str = ".damrak";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) journal_id: u64,
    pub(crate) first_sequence: u64,
    pub(crate) created: u64,
    /// The epoch: the number of the journal's opening that wrote it, counted from 1.
    pub(crate) epoch: u64,
    /// The chain over the batches before the segment.
    pub(crate) chain: Chain,
    /// Batches begin at multiples of this, in bytes.
    pub(crate) alignment: u32,
}

impl SegmentHeader {
    /// The header of the first segment of a journal.
    pub(crate) fn new(journal_id: u64, first_sequence: u64, created: u64) -> Self {
        Self {
            journal_id,
            first_sequence,
            created,
            epoch: 1,
            chain: chain_begin(journal_id),
            alignment: ALIGNMENT as u32,
        }
    }

    /// Creates the segment on storage, with zeros up to `bytes`. Once this returns, the segment
    /// survives a power cut.
    pub(crate) fn create(
        &self,
        storage: &mut dyn Storage,
        bytes: u64,
    ) -> io::Result<Box<dyn StorageFile>> {
        assert!(self.first_sequence > 0, "sequences begin at 1");
        let mut file = storage.create(&file_name(self.first_sequence))?;
        let mut zeros = crate::buffer::Buffer::zeroed(ZEROS_LEN);
        let mut offset = SEGMENT_HEADER_LEN;
        while offset < bytes {
            let len = (bytes - offset).min(ZEROS_LEN as u64) as usize;
            file.write_at(offset, &zeros.bytes()[..len.next_multiple_of(self.alignment as usize)])?;
            offset += len as u64;
        }
        self.write(&mut *file, &mut zeros)?;
        file.sync()?;
        storage.sync_folder()?;
        Ok(file)
    }

    /// Writes both copies at the beginning of the file.
    pub(crate) fn write(
        &self,
        file: &mut dyn StorageFile,
        scratch: &mut crate::buffer::Buffer,
    ) -> io::Result<()> {
        let block = self.encode();
        // Decoded again, since recovery depends on these bytes.
        assert!(Self::decode(&block) == Ok(*self), "{self:?} does not read as it is written");
        scratch.clear();
        scratch.put(&block);
        scratch.put(&block);
        assert!(scratch.len() as u64 == SEGMENT_HEADER_LEN, "two copies are a header");
        let written = file.write_at(0, scratch.bytes());
        scratch.clear();
        written
    }

    fn encode(&self) -> [u8; BLOCK_LEN] {
        assert!(self.alignment.is_power_of_two(), "batches at multiples of {}", self.alignment);
        assert!(self.epoch > 0, "openings are counted from 1");
        let mut block = [0; BLOCK_LEN];
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        block[16..24].copy_from_slice(&self.journal_id.to_le_bytes());
        block[24..32].copy_from_slice(&self.first_sequence.to_le_bytes());
        block[32..40].copy_from_slice(&self.created.to_le_bytes());
        block[40..48].copy_from_slice(&self.epoch.to_le_bytes());
        block[48..64].copy_from_slice(&self.chain);
        block[64..68].copy_from_slice(&self.alignment.to_le_bytes());
        let checksum = block_checksum(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    /// Reads one copy. Magic, version and checksum have the same place in every version, so an unknown
    /// version is not reported as damage.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, HeaderFault> {
        let block: &[u8; BLOCK_LEN] = block.try_into().map_err(|_| HeaderFault::Short)?;
        let u32_at = |at| u32::from_le_bytes(*block[at..].first_chunk().expect("inside"));
        let u64_at = |at| u64::from_le_bytes(*block[at..].first_chunk().expect("inside"));
        if block[..8] != MAGIC {
            return Err(HeaderFault::Magic);
        }
        if u32_at(12) != block_checksum(block) {
            return Err(HeaderFault::Checksum);
        }
        if u32_at(8) != FORMAT_VERSION {
            return Err(HeaderFault::Version(u32_at(8)));
        }
        let alignment = u32_at(64);
        if !alignment.is_power_of_two() || alignment > BLOCK_LEN as u32 {
            return Err(HeaderFault::Checksum);
        }
        Ok(Self {
            journal_id: u64_at(16),
            first_sequence: u64_at(24),
            created: u64_at(32),
            epoch: u64_at(40),
            chain: *block[48..].first_chunk().expect("inside"),
            alignment,
        })
    }
}

/// Bytes zeroed by one write.
pub(crate) const ZEROS_LEN: usize = 1 << 20;

/// The name of the segment whose first record has, or will have, this sequence.
#[must_use]
pub fn file_name(first_sequence: u64) -> String {
    format!("{first_sequence:020}{EXTENSION}")
}

/// The kind of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The segment that begins with this sequence.
    Segment(u64),
    /// A file with the extension of a segment, but not the name of one.
    Misnamed,
    /// A file that is not a segment.
    Foreign,
}

pub(crate) fn read_name(name: &str) -> Name {
    let Some(stem) = name.strip_suffix(EXTENSION) else { return Name::Foreign };
    match stem.parse() {
        Ok(first_sequence) if file_name(first_sequence) == name => Name::Segment(first_sequence),
        _ => Name::Misnamed,
    }
}

/// True for the bytes that a crash may leave while a segment's header is written: of each copy the
/// first bytes and zeros, or only zeros.
pub(crate) fn is_half_made(header: &[u8]) -> bool {
    header.chunks(BLOCK_LEN).all(|copy| {
        let begun = copy.iter().zip(MAGIC).take_while(|(byte, magic)| **byte == *magic).count();
        begun == MAGIC.len() || copy[begun..].iter().all(|byte| *byte == 0)
    })
}

/// The checksum of a block, which is stored at byte 12 of it.
pub(crate) fn block_checksum(block: &[u8; BLOCK_LEN]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&block[..12]), &block[16..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader { epoch: 8, chain: [9; 16], alignment: 4096, ..SegmentHeader::new(5, 6, 7) }
    }

    /// A header reads back as written, and no byte of its block can change unnoticed.
    #[test]
    fn every_byte_is_covered() {
        let block = header().encode();
        assert_eq!(SegmentHeader::decode(&block), Ok(header()));
        for at in 0..block.len() {
            let mut block = block;
            block[at] ^= 0x10;
            assert!(SegmentHeader::decode(&block).is_err(), "byte {at}");
        }
    }

    /// An unknown version is not reported as damage.
    #[test]
    fn unknown_version_is_not_damage() {
        let mut block = header().encode();
        block[8] = 3;
        assert_eq!(SegmentHeader::decode(&block), Err(HeaderFault::Checksum));
        let checksum = block_checksum(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&block), Err(HeaderFault::Version(3)));
    }

    /// Each kind of name is recognized, and a number in another notation is not a name.
    #[test]
    fn names_are_exact() {
        assert_eq!(file_name(1), "00000000000000000001.damrak");
        assert_eq!(read_name(&file_name(u64::MAX)), Name::Segment(u64::MAX));
        assert_eq!(read_name("1.damrak"), Name::Misnamed);
        assert_eq!(read_name("+0000000000000000001.damrak"), Name::Misnamed);
        assert_eq!(read_name("99999999999999999999.damrak"), Name::Misnamed);
        assert_eq!(read_name("00000000000000000001.damrak~"), Name::Foreign);
    }
}
