//! The watermark: a file with the sequence up to which all records must exist. Without it, a journal
//! that lost its end looks like a shorter one.
//!
//! Invariant: every record up to the watermark was on the medium before the watermark was written. Two
//! copies are written in turn, so that one is whole after a power cut at any moment.

use std::io::{self, ErrorKind};

use crate::{
    buffer::Buffer,
    error::HeaderFault,
    segment::{BLOCK_LEN, block_checksum},
    storage::{FileAccess, Storage, StorageFile, WATERMARK_FILE},
};

const MAGIC: [u8; 8] = *b"DamrakW\n";
const VERSION: u32 = 1;

/// The content of one copy of the watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatermarkValue {
    pub(crate) journal_id: u64,
    /// Records up to this sequence must exist.
    pub(crate) sequence: u64,
    /// The number of earlier writes; the copy with the higher count is the later one.
    pub(crate) count: u64,
}

impl WatermarkValue {
    fn encode(&self) -> [u8; BLOCK_LEN] {
        let mut block = [0; BLOCK_LEN];
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[16..24].copy_from_slice(&self.journal_id.to_le_bytes());
        block[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        block[32..40].copy_from_slice(&self.count.to_le_bytes());
        let checksum = block_checksum(&block);
        block[12..16].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    fn decode(block: &[u8]) -> Result<Self, HeaderFault> {
        let block: &[u8; BLOCK_LEN] = block.try_into().map_err(|_| HeaderFault::Short)?;
        let u32_at = |at| u32::from_le_bytes(*block[at..].first_chunk().expect("inside"));
        let u64_at = |at| u64::from_le_bytes(*block[at..].first_chunk().expect("inside"));
        if block[..8] != MAGIC {
            return Err(HeaderFault::Magic);
        }
        if u32_at(12) != block_checksum(block) {
            return Err(HeaderFault::Checksum);
        }
        match u32_at(8) {
            VERSION => Ok(Self { journal_id: u64_at(16), sequence: u64_at(24), count: u64_at(32) }),
            version => Err(HeaderFault::Version(version)),
        }
    }
}

/// The state of the watermark's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The file does not exist.
    Absent,
    /// A copy that verifies, and the offset of the other one if it does not.
    Value(WatermarkValue, Option<u64>),
    /// A version that this build does not know.
    Unknown(u32),
    /// No copy verifies.
    Damaged,
}

/// Reads the watermark of a folder.
pub(crate) fn read(storage: &mut dyn Storage) -> io::Result<Found> {
    let mut file = match storage.open(WATERMARK_FILE, FileAccess::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Absent),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; 2 * BLOCK_LEN];
    let len = file.read_at(0, &mut bytes)?;
    bytes.truncate(len);
    assert!(len <= 2 * BLOCK_LEN, "{len} bytes were read into two blocks");
    let (first, second) = bytes.split_at(len.min(BLOCK_LEN));
    Ok(match [WatermarkValue::decode(first), WatermarkValue::decode(second)] {
        [Ok(first), Ok(second)] => {
            Found::Value(if first.count > second.count { first } else { second }, None)
        }
        [Err(HeaderFault::Version(version)), _] | [_, Err(HeaderFault::Version(version))] => {
            Found::Unknown(version)
        }
        [Ok(first), Err(_)] => Found::Value(first, Some(BLOCK_LEN as u64)),
        [Err(_), Ok(second)] => Found::Value(second, Some(0)),
        [Err(_), Err(_)] => Found::Damaged,
    })
}

/// The watermark, as held by its one writer.
pub(crate) struct Watermark {
    file: Box<dyn StorageFile>,
    said: WatermarkValue,
    /// Both copies have the value.
    is_twice: bool,
    block: Buffer,
}

impl Watermark {
    /// Creates the watermark with `sequence` in both copies, or writes both again if it exists.
    /// Once this returns, the watermark survives a power cut.
    pub(crate) fn create(
        storage: &mut dyn Storage,
        journal_id: u64,
        sequence: u64,
        found: Found,
    ) -> io::Result<Self> {
        let count = if let Found::Value(said, _) = found { said.count } else { 0 };
        let file = match found {
            Found::Absent => storage.create(WATERMARK_FILE)?,
            _ => storage.open(WATERMARK_FILE, FileAccess::Write)?,
        };
        let said = WatermarkValue { journal_id, sequence, count };
        let block = Buffer::with_capacity(BLOCK_LEN);
        let mut watermark = Self { file, said, is_twice: false, block };
        watermark.write_twice(sequence)?;
        storage.sync_folder()?;
        Ok(watermark)
    }

    /// The current sequence.
    pub(crate) fn sequence(&self) -> u64 {
        self.said.sequence
    }

    /// As [`write`](Self::write), in both copies, unless both already have this sequence.
    pub(crate) fn write_twice(&mut self, sequence: u64) -> io::Result<()> {
        if self.is_twice && self.said.sequence == sequence {
            return Ok(());
        }
        let count = self.said.count;
        self.write(sequence)?;
        self.write(sequence)?;
        assert!(self.said.count == count + 2, "one write for each copy");
        self.is_twice = true;
        Ok(())
    }

    /// Requires from now on, also after a power cut, that records up to `sequence` exist. They are
    /// on the medium.
    pub(crate) fn write(&mut self, sequence: u64) -> io::Result<()> {
        assert!(sequence >= self.said.sequence, "{sequence} < {:?}", self.said);
        self.said = WatermarkValue { sequence, count: self.said.count + 1, ..self.said };
        self.is_twice = false;
        self.block.clear();
        let block = self.said.encode();
        assert!(
            WatermarkValue::decode(&block) == Ok(self.said),
            "{:?} reads as written",
            self.said
        );
        self.block.put(&block);
        let offset = self.said.count % 2 * BLOCK_LEN as u64;
        assert!(self.block.len() == BLOCK_LEN, "one copy is one block");
        self.file.write_synced(offset, self.block.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CrashStorage;

    /// The later copy is used; if it is damaged, the earlier one is used and the damage is reported.
    #[test]
    fn the_later_copy_counts() {
        let storage = CrashStorage::new();
        let mut watermark = Watermark::create(&mut storage.clone(), 7, 5, Found::Absent).unwrap();
        watermark.write(9).unwrap();
        let Found::Value(said, None) = read(&mut storage.clone()).unwrap() else { panic!("read") };
        assert_eq!((said.journal_id, said.sequence, said.count), (7, 9, 3));
        let whole = storage.bytes(WATERMARK_FILE).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            storage.set_bytes(WATERMARK_FILE, Some(bytes));
            let damaged_copy = at as u64 / 4096 * 4096;
            let sequence = if damaged_copy == 4096 { 5 } else { 9 };
            match read(&mut storage.clone()).unwrap() {
                Found::Value(said, Some(at)) => {
                    assert_eq!((at, said.sequence), (damaged_copy, sequence));
                }
                found => panic!("byte {at}: {found:?}"),
            }
        }
        storage.set_bytes(WATERMARK_FILE, Some(whole[..100].to_vec()));
        assert_eq!(read(&mut storage.clone()).unwrap(), Found::Damaged);
    }
}
