//! Snapshots: the state after a sequence, in a separate file, so that recovery need not begin at
//! the first record.
//!
//! A snapshot is a list of *sections*, each a code and bytes that the journal does not interpret.
//! It is written under another name, synced and then renamed, so a file with the name of a snapshot
//! was whole on the medium. The journal remains the record of truth: a snapshot that is damaged,
//! foreign, unknown or from another history is skipped and reported.
//!
//! Start at [`SnapshotWriter`], then [`read_snapshot`]; `docs/snapshot.md` has the format, and
//! the table of faults.

mod write;
mod read;

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
};

use thiserror::Error;

use crate::{error::BoxError, storage::Storage};

pub use read::{SnapshotSummary, read_snapshot, read_snapshot_header};
pub use write::SnapshotWriter;

/// The version of the format that this crate writes, and the only one it reads.
pub const SNAPSHOT_VERSION: u32 = 3;

/// The longest section, in bytes.
pub const SECTION_LEN_MAX: usize = 16 << 20;

const MAGIC: [u8; 8] = *b"DamrakS\n";
const EXTENSION: &str = ".snapshot";
const UNFINISHED: &str = ".snapshot-unfinished";

const HEADER_LEN: usize = 80;
const SECTION_HEADER_LEN: usize = 16;
/// Sections begin at multiples of this number of bytes.
const ALIGNMENT: usize = 8;

/// The code of the last section, which has the totals and the hash of all sections before it.
const END_CODE: u16 = u16::MAX;
/// Sections, bytes, hash.
const END_LEN: usize = 8 + 8 + 16;

/// The header of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The identity of the journal.
    pub journal_id: u64,
    /// The sequence of the last record covered.
    pub sequence: u64,
    /// The time of that record, in ns since the Unix epoch.
    pub timestamp: u64,
    /// The [`payload_checksum`] of that record: it detects a snapshot of another history of the same
    /// journal.
    pub payload_checksum: u32,
    /// A digest of all events up to that record; the journal does not interpret it.
    pub digest: u64,
    /// When the snapshot was made, in ns since the Unix epoch; informational.
    pub created: u64,
}

/// CRC-32C of a record's payload.
#[must_use]
pub fn payload_checksum(payload: &[u8]) -> u32 {
    crc32c::crc32c(payload)
}

impl SnapshotHeader {
    fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&SNAPSHOT_VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.journal_id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.timestamp.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.payload_checksum.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.digest.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.created.to_le_bytes());
        let checksum = header_checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        assert!(Self::decode(&bytes).is_ok_and(|read| read == *self), "{self:?} reads as written");
        bytes
    }

    /// Magic, version and checksum have the same place in every version, so an unknown version is not
    /// reported as damage.
    fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, SnapshotFault> {
        let u32_at = |at| u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        let u64_at = |at| u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        if bytes[..8] != MAGIC {
            return Err(SnapshotFault::Magic);
        }
        if u32_at(12) != header_checksum(bytes) {
            return Err(SnapshotFault::HeaderChecksum);
        }
        match u32_at(8) {
            SNAPSHOT_VERSION => Ok(Self {
                journal_id: u64_at(16),
                sequence: u64_at(24),
                timestamp: u64_at(32),
                payload_checksum: u32_at(40),
                digest: u64_at(48),
                created: u64_at(56),
            }),
            version => Err(SnapshotFault::Version(version)),
        }
    }

    /// The initial checksum for the sections of this snapshot: a section of another one does not
    /// verify.
    fn seed(&self) -> u32 {
        let id = crc32c::crc32c(&self.journal_id.to_le_bytes());
        crc32c::crc32c_append(id, &self.sequence.to_le_bytes())
    }
}

fn header_checksum(bytes: &[u8; HEADER_LEN]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

/// The header of a section; the bytes after it are padded with zeros to a multiple of 8.
#[derive(Clone, Copy, Debug)]
struct SectionHeader {
    checksum: u32,
    len: u32,
    code: u16,
    /// The number of sections before this one.
    nth: u32,
}

impl SectionHeader {
    fn encode(&self) -> [u8; SECTION_HEADER_LEN] {
        let mut bytes = [0; SECTION_HEADER_LEN];
        bytes[..4].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.code.to_le_bytes());
        bytes[12..].copy_from_slice(&self.nth.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; SECTION_HEADER_LEN]) -> Self {
        let u32_at = |at| u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
        Self {
            checksum: u32_at(0),
            len: u32_at(4),
            code: u16::from_le_bytes([bytes[8], bytes[9]]),
            nth: u32_at(12),
        }
    }
}

/// The name of the snapshot whose last record has this sequence.
#[must_use]
pub fn snapshot_file_name(sequence: u64) -> String {
    format!("{sequence:020}{EXTENSION}")
}

fn unfinished_name(sequence: u64) -> String {
    format!("{sequence:020}{UNFINISHED}")
}

/// The sequences of a folder's snapshots, newest first, by their names alone. Empty if the folder
/// does not exist.
///
/// # Errors
/// The folder cannot be listed.
pub fn snapshots(storage: &mut dyn Storage) -> io::Result<Vec<u64>> {
    let names = match storage.list() {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut sequences: Vec<u64> = names.iter().filter_map(|name| sequence_of(name)).collect();
    sequences.sort_unstable_by(|a, b| b.cmp(a));
    assert!(sequences.is_sorted_by(|one, next| one > next), "a name is there once");
    Ok(sequences)
}

fn sequence_of(name: &str) -> Option<u64> {
    let sequence = name.strip_suffix(EXTENSION)?.parse().ok()?;
    (snapshot_file_name(sequence) == name).then_some(sequence)
}

/// Removes all snapshots but the newest `kept`, and unfinished ones; returns the previous number of
/// snapshots.
///
/// # Errors
/// The folder cannot be listed, or a file cannot be removed.
pub fn remove_snapshots_but(storage: &mut dyn Storage, kept: usize) -> io::Result<usize> {
    let names = storage.list()?;
    assert!(kept > 0, "the newest snapshot is kept");
    let old = snapshots(storage)?.into_iter().skip(kept).map(snapshot_file_name);
    let unfinished = names.into_iter().filter(|name| name.ends_with(UNFINISHED));
    let mut count = 0;
    for name in old.chain(unfinished) {
        storage.remove(&name)?;
        count += 1;
    }
    if count > 0 {
        storage.sync_folder()?;
    }
    Ok(count)
}

/// The reason why a snapshot is not used. No file was changed.
#[derive(Debug, Error)]
#[error("{}, byte {offset}: {fault}", .path.display())]
pub struct SnapshotError {
    /// The path of the file.
    pub path: PathBuf,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The fault.
    #[source]
    pub fault: SnapshotFault,
}

/// The faults of a snapshot: the rows of the table in docs/snapshot.md.
#[derive(Debug, Error)]
pub enum SnapshotFault {
    /// Storage failed.
    #[error("cannot be read: {0}")]
    Storage(io::Error),
    /// The file ends before the snapshot does.
    #[error("the file is too short")]
    Short,
    /// The file does not begin with the magic bytes of a snapshot.
    #[error("not a snapshot file")]
    Magic,
    /// The header does not verify.
    #[error("the header has a wrong checksum")]
    HeaderChecksum,
    /// Another version of this program wrote the snapshot.
    #[error("format version {0}, this build reads version {SNAPSHOT_VERSION}")]
    Version(u32),
    /// The snapshot belongs to another journal.
    #[error("made from journal {found:016x}, this is journal {expected:016x}")]
    Foreign {
        /// The identity of this journal.
        expected: u64,
        /// The identity in the snapshot.
        found: u64,
    },
    /// The sequence differs from the one in the file name.
    #[error("made at sequence {0}, but the file name has another sequence")]
    Misnamed(u64),
    /// A section does not verify, or is in the wrong place.
    #[error("a section is damaged")]
    Section,
    /// The hash over all sections is wrong.
    #[error("the sections do not match the record at the end of the file")]
    End,
    /// The file has bytes after the end of the snapshot.
    #[error("the file has bytes after its last record")]
    TooLong,
    /// The file verifies, but the state in it cannot be restored.
    #[error("the state cannot be restored: {0}")]
    Refused(BoxError),
    /// The journal ends before the snapshot.
    #[error("the journal ends before this snapshot, with sequence {0}")]
    AfterTheEnd(u64),
    /// The journal has another record at the sequence of the snapshot.
    #[error("the journal has a different record at sequence {0}")]
    OtherHistory(u64),
}

impl SnapshotFault {
    /// True if the file itself is damaged.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Short
            | Self::Magic
            | Self::HeaderChecksum
            | Self::Misnamed(_)
            | Self::Section
            | Self::End
            | Self::TooLong
            | Self::Refused(_) => true,
            Self::Storage(_)
            | Self::Version(_)
            | Self::Foreign { .. }
            | Self::AfterTheEnd(_)
            | Self::OtherHistory(_) => false,
        }
    }
}
