//! Reads snapshots: forward, each section after it has verified.
//!
//! Invariant: a snapshot that was read without error is the whole file as it was written.

use std::io::{self, ErrorKind};

use xxhash_rust::xxh3::Xxh3;

use super::{
    ALIGNMENT, END_CODE, END_LEN, HEADER_LEN, SECTION_HEADER_LEN, SECTION_LEN_MAX, SectionHeader,
    SnapshotError, SnapshotFault, SnapshotHeader, snapshot_file_name,
};
use crate::{
    error::BoxError,
    reader::read_exact_at,
    storage::{FileAccess, Storage, StorageFile},
};

const CHUNK_LEN: usize = 4 << 20;

/// A snapshot that was read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// The header of the snapshot.
    pub header: SnapshotHeader,
    /// The number of sections.
    pub section_count: u64,
    /// The length of the file, in bytes.
    pub byte_count: u64,
}

/// Reads a snapshot by its sequence and shows each section, code and bytes, to `visit`; at its end
/// all of it has verified. On an error, discard the results from the sections.
///
/// # Errors
/// The snapshot does not exist, is damaged or unknown, belongs to another journal than
/// `journal_id`, or `visit` failed.
pub fn read_snapshot<E: Into<BoxError>>(
    storage: &mut dyn Storage,
    journal_id: Option<u64>,
    sequence: u64,
    visit: &mut impl FnMut(u16, &[u8]) -> Result<(), E>,
) -> Result<SnapshotSummary, SnapshotError> {
    let path = storage.place().join(snapshot_file_name(sequence));
    let failed = |(offset, fault)| SnapshotError { path: path.clone(), offset, fault };
    let mut show = |(offset, code, bytes): Shown<'_>| {
        visit(code, bytes).map_err(|error| (offset, SnapshotFault::Refused(error.into())))
    };
    let mut source = Source::open(storage, sequence)
        .map_err(|error| failed((0, SnapshotFault::Storage(error))))?;
    let header = source.header(journal_id, sequence).map_err(|fault| failed((0, fault)))?;
    let byte_count = source.len;
    let section_count = source.sections(&header, &mut show).map_err(failed)?;
    Ok(SnapshotSummary { header, section_count, byte_count })
}

/// A fault and its offset.
type Wrong = (u64, SnapshotFault);

/// A verified section: its offset, its code and its bytes.
type Shown<'a> = (u64, u16, &'a [u8]);

/// Reads only the header of a snapshot; the bytes after it are not read.
///
/// # Errors
/// The file does not exist, or its header does not verify.
pub fn read_snapshot_header(
    storage: &mut dyn Storage,
    journal_id: Option<u64>,
    sequence: u64,
) -> Result<SnapshotHeader, SnapshotError> {
    let path = storage.place().join(snapshot_file_name(sequence));
    let failed = |fault| SnapshotError { path: path.clone(), offset: 0, fault };
    let mut source =
        Source::open(storage, sequence).map_err(|error| failed(SnapshotFault::Storage(error)))?;
    source.header(journal_id, sequence).map_err(failed)
}

/// The bytes of a snapshot, read forward.
struct Source {
    file: Box<dyn StorageFile>,
    len: u64,
    /// The offset of the next section.
    offset: u64,
    chunk: Vec<u8>,
    chunk_offset: u64,
    /// The hash over all bytes before `offset`.
    hash: Xxh3,
    section_count: u64,
}

type Range = std::ops::Range<usize>;

impl Source {
    fn open(storage: &mut dyn Storage, sequence: u64) -> io::Result<Self> {
        let mut file = storage.open(&snapshot_file_name(sequence), FileAccess::Read)?;
        let len = file.byte_count()?;
        Ok(Self {
            file,
            len,
            offset: 0,
            chunk: Vec::new(),
            chunk_offset: 0,
            hash: Xxh3::new(),
            section_count: 0,
        })
    }

    fn header(
        &mut self,
        journal_id: Option<u64>,
        sequence: u64,
    ) -> Result<SnapshotHeader, SnapshotFault> {
        let range = self.load(HEADER_LEN)?;
        let bytes: [u8; HEADER_LEN] = *self.chunk[range.clone()].first_chunk().expect("so many");
        let header = SnapshotHeader::decode(&bytes)?;
        if let Some(expected) = journal_id
            && header.journal_id != expected
        {
            return Err(SnapshotFault::Foreign { expected, found: header.journal_id });
        }
        if header.sequence != sequence {
            return Err(SnapshotFault::Misnamed(header.sequence));
        }
        self.pass(range);
        Ok(header)
    }

    /// Shows all sections: the offset, the code and the bytes of each; returns their number.
    fn sections(
        mut self,
        header: &SnapshotHeader,
        show: &mut dyn FnMut(Shown<'_>) -> Result<(), Wrong>,
    ) -> Result<u64, Wrong> {
        let seed = header.seed();
        let mut nth = 0;
        loop {
            let offset = self.offset;
            let failed = |fault| (offset, fault);
            match self.section(seed, nth).map_err(failed)? {
                (END_CODE, end) => return self.end(end).map_err(failed),
                (code, range) => show((offset, code, &self.chunk[range]))?,
            }
            nth += 1;
            assert!(self.section_count == u64::from(nth), "each section is counted once");
        }
    }

    /// The next section: its code, and the range of its bytes in the chunk.
    fn section(&mut self, seed: u32, nth: u32) -> Result<(u16, Range), SnapshotFault> {
        let range = self.load(SECTION_HEADER_LEN)?;
        let head = SectionHeader::decode(self.chunk[range].first_chunk().expect("so many"));
        let len = head.len as usize;
        if SECTION_LEN_MAX < len {
            return Err(SnapshotFault::Section);
        }
        let range = self.load(SECTION_HEADER_LEN + len.next_multiple_of(ALIGNMENT))?;
        let bytes = &self.chunk[range.clone()];
        let verifies = crc32c::crc32c_append(seed, &bytes[4..]) == head.checksum;
        if !verifies || head.nth != nth {
            return Err(SnapshotFault::Section);
        }
        let start = range.start + SECTION_HEADER_LEN;
        if head.code != END_CODE {
            self.pass(range);
            self.section_count += 1;
        }
        Ok((head.code, start..start + len))
    }

    /// Compares the record at the end with the sections before it; returns their number.
    fn end(&self, range: Range) -> Result<u64, SnapshotFault> {
        let end: &[u8; END_LEN] =
            self.chunk[range].try_into().map_err(|_| SnapshotFault::Section)?;
        let u64_at = |at| u64::from_le_bytes(*end[at..].first_chunk().expect("inside"));
        let agrees = u64_at(0) == self.section_count
            && u64_at(8) == self.offset
            && end[16..] == self.hash.digest128().to_le_bytes();
        if !agrees {
            return Err(SnapshotFault::End);
        }
        if self.offset + (SECTION_HEADER_LEN + END_LEN) as u64 != self.len {
            return Err(SnapshotFault::TooLong);
        }
        Ok(self.section_count)
    }

    fn pass(&mut self, range: Range) {
        assert!(range.end <= self.chunk.len(), "{range:?} was loaded");
        assert!(range.len().is_multiple_of(ALIGNMENT), "{range:?} ends at a multiple of 8");
        self.offset += range.len() as u64;
        self.hash.update(&self.chunk[range]);
    }

    /// Loads the next `len` bytes into the chunk and returns their range there.
    fn load(&mut self, len: usize) -> Result<Range, SnapshotFault> {
        assert!(self.offset <= self.len, "byte {} of {}", self.offset, self.len);
        if self.len - self.offset < len as u64 {
            return Err(SnapshotFault::Short);
        }
        let mut start = usize::try_from(self.offset - self.chunk_offset).expect("in the chunk");
        if self.chunk.len() < start + len {
            self.chunk.drain(..start);
            self.chunk_offset = self.offset;
            start = 0;
            let had = self.chunk.len();
            let wanted = (CHUNK_LEN.max(len) as u64).min(self.len - self.offset);
            self.chunk.resize(usize::try_from(wanted).expect("a chunk"), 0);
            let from = self.offset + had as u64;
            read_exact_at(&mut *self.file, from, &mut self.chunk[had..]).map_err(|error| {
                match error.kind() {
                    ErrorKind::UnexpectedEof => SnapshotFault::Short,
                    _ => SnapshotFault::Storage(error),
                }
            })?;
        }
        assert!(start + len <= self.chunk.len(), "{len} bytes were loaded");
        Ok(start..start + len)
    }
}
