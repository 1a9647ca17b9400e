//! Errors: one enum for each operation. Each message names the fault, its place and the remedy.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
};

use thiserror::Error;

use crate::segment::FORMAT_VERSION;

/// An error of the caller's replay function.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a journal was not opened. No verified record was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Storage failed.
    #[error("cannot {doing} {}; {}", .path.display(), advice(.source))]
    Storage {
        /// The operation that failed.
        doing: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The error from storage.
        source: io::Error,
    },
    /// Another writer holds the journal.
    #[error(
        "{} is being written by {holder}; stop it first, or name another folder",
        .path.display()
    )]
    Locked {
        /// The path of the folder.
        path: PathBuf,
        /// The process that holds it, as far as it is known.
        holder: String,
    },
    /// The folder holds other files. Nothing was written into it.
    #[error(
        "{} is not a journal: it holds `{found}`; name an empty folder, or one that does not exist",
        .path.display()
    )]
    NotAJournal {
        /// The path of the folder.
        path: PathBuf,
        /// The name of one of those files.
        found: String,
    },
    /// The bytes differ from those written.
    #[error(transparent)]
    Damaged(#[from] Box<Damage>),
    /// The record is valid, but the replay function rejects its content.
    #[error("{}, byte {offset}: the record with sequence {sequence} does not replay", .path.display())]
    Refused {
        /// The path of the segment.
        path: PathBuf,
        /// The offset of the record in the segment, in bytes.
        offset: u64,
        /// The sequence of the record.
        sequence: u64,
        /// The error of the replay function.
        source: BoxError,
    },
}

impl OpenError {
    /// True if the journal itself is damaged, not its surroundings: the journal must be restored,
    /// and a retry does not help.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Damaged(damage) => damage.is_corruption(),
            Self::Refused { .. } => true,
            Self::Storage { .. } | Self::Locked { .. } | Self::NotAJournal { .. } => false,
        }
    }
}

/// The reason why a journal was not read to its end.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// Storage failed.
    #[error("cannot {doing} {}; {}", .path.display(), advice(.source))]
    Storage {
        /// The operation that failed.
        doing: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The error from storage.
        source: io::Error,
    },
    /// The folder holds no segment.
    #[error("{} is not a journal: it holds no segment; name the journal's folder", .path.display())]
    NotAJournal {
        /// The path of the folder.
        path: PathBuf,
    },
    /// The bytes differ from those written.
    #[error(transparent)]
    Damaged(#[from] Box<Damage>),
    /// The record is valid, but the visitor rejects its content.
    #[error("{}, byte {offset}: the record with sequence {sequence} does not replay", .path.display())]
    Refused {
        /// The path of the segment.
        path: PathBuf,
        /// The offset of the record in the segment, in bytes.
        offset: u64,
        /// The sequence of the record.
        sequence: u64,
        /// The error of the visitor.
        source: BoxError,
    },
}

impl VerifyError {
    /// True if the journal itself is damaged, not its surroundings.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Damaged(damage) => damage.is_corruption(),
            Self::Refused { .. } => true,
            Self::Storage { .. } | Self::NotAJournal { .. } => false,
        }
    }
}

/// The reason why a writer has stopped. Confirmed records stay confirmed; no later record is.
#[derive(Debug, Error)]
pub enum AppendError {
    /// Storage failed. The operation is not retried: a second sync may succeed without the bytes.
    #[error(
        "cannot {doing} {}; unacknowledged records after sequence {durable} may be lost; {}",
        .path.display(), advice(.source)
    )]
    Storage {
        /// The operation that failed.
        doing: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The last sequence that is durable under the policy; without a policy, the last written
        /// one.
        durable: u64,
        /// The error from storage.
        source: io::Error,
    },
    /// An earlier call failed.
    #[error("the journal has stopped: {first}")]
    Poisoned {
        /// The durable sequence when that call failed.
        durable: u64,
        /// The message of that failure.
        first: String,
    },
}

impl AppendError {
    /// False: the confirmed records are intact, and opening the journal again finds its end.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        false
    }
}

/// Bytes that differ from those written and are not the torn tail of a crash.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{}, byte {offset}: {kind}; nothing was changed; {}",
    .path.display(),
    .kind.advice(*.sequence)
)]
pub struct Damage {
    /// The path of the segment.
    pub path: PathBuf,
    /// The offset of the damage in the segment, in bytes.
    pub offset: u64,
    /// The first sequence that cannot be read: all before it verify; 0 if unknown.
    pub sequence: u64,
    /// The kind of damage.
    pub kind: DamageKind,
}

impl Damage {
    /// False if a newer version of this program would read the bytes.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        !self.kind.is_newer()
    }
}

/// The kind of damage: the rows of the decision table in docs/journal.md.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DamageKind {
    /// The batch does not verify, and a later batch does.
    #[error("{fault}, and sequence {later_sequence} follows it")]
    BadBatch {
        /// The fault of the batch.
        fault: BadBatch,
        /// The first sequence of a later batch that verifies, or of the next segment.
        later_sequence: u64,
        /// The offset of that batch in this segment, in bytes; `None` for the next segment.
        later_offset: Option<u64>,
    },
    /// The batch does not verify, and the watermark requires it.
    #[error(
        "{fault}, though the watermark says that everything up to sequence {marked} was written"
    )]
    BadEnd {
        /// The fault of the batch.
        fault: BadBatch,
        /// The least sequence that must exist.
        marked: u64,
    },
    /// The journal ends too soon: the end of a segment, or whole segments, are missing.
    #[error(
        "the journal ends here, though the watermark says that everything up to sequence {marked} was \
         written"
    )]
    EndMissing {
        /// The least sequence that must exist.
        marked: u64,
    },
    /// The batch verifies but is not the next one.
    #[error("expected sequence {expected}, found {found}")]
    SequenceGap {
        /// The sequence after the last one read.
        expected: u64,
        /// The first sequence of the batch.
        found: u64,
    },
    /// The batch verifies, but its bytes are not the number of records in its header.
    #[error("the batch verifies, but at its byte {at} there is no record that fits into it")]
    RecordMalformed {
        /// The offset in the batch, in bytes.
        at: u64,
    },
    /// The batch verifies, but its time is before that of the previous record.
    #[error("time goes back from {previous} to {found} ns")]
    TimeWentBack {
        /// The time of the previous record, in ns.
        previous: u64,
        /// The time of the batch, in ns.
        found: u64,
    },
    /// The batch verifies, but the records before it are not those from when it was written.
    #[error("the chain of this batch does not continue the records before it")]
    ChainBroken,
    /// The batch verifies, but this build does not know its version.
    #[error("a batch has version {version}, which this build does not know")]
    UnknownBatch {
        /// The version of the batch.
        version: u16,
    },
    /// The batch verifies, but has a record of a kind that this build does not know.
    #[error("a record has kind {kind}, which this build does not know")]
    UnknownRecord {
        /// The kind of the record.
        kind: u8,
    },
    /// The segment does not begin where the previous one ends; segments between them are missing.
    #[error("the segment should begin with sequence {expected}, but begins with {found}")]
    MissingSegment {
        /// The sequence after the last one read.
        expected: u64,
        /// The sequence in the segment's name.
        found: u64,
    },
    /// The segment begins before the end of the previous one.
    #[error("the segment begins with sequence {found}, which is also in the segment before it")]
    OverlappingSegment {
        /// The sequence in the segment's name.
        found: u64,
    },
    /// Neither copy of the header can be used.
    #[error("both copies of the segment's header are damaged ({first}; {second})")]
    HeaderDamaged {
        /// The fault of the first copy.
        first: HeaderFault,
        /// The fault of the second copy.
        second: HeaderFault,
    },
    /// The first copy of the header verifies, but the file ends before the second copy does, and
    /// another segment follows.
    #[error("the segment ends within its header, and another segment follows")]
    HeaderCutShort,
    /// Both copies of the header verify, but they differ.
    #[error("the two copies of the segment's header contradict each other")]
    HeaderContradicts,
    /// The segment was written by another version of this program.
    #[error("the segment has format version {0}, and this build reads version {FORMAT_VERSION}")]
    UnknownVersion(u32),
    /// The segment belongs to another journal.
    #[error("the segment is of journal {found:016x}, and this is journal {expected:016x}")]
    ForeignSegment {
        /// The identity in the segments before it.
        expected: u64,
        /// The identity in this segment.
        found: u64,
    },
    /// The segment is from an earlier life of this journal: the records before it have changed
    /// since it was written.
    #[error(
        "the segment is stale: epoch {found} after epoch {previous}, and it does not continue the \
         records before it"
    )]
    StaleSegment {
        /// The epoch of the previous segment.
        previous: u64,
        /// The epoch of this segment.
        found: u64,
    },
    /// The file has the name of one segment and holds a copy of another, which also exists.
    #[error("the file is a duplicate of the segment that begins with sequence {of}")]
    DuplicateSegment {
        /// The first sequence of the segment in the file.
        of: u64,
    },
    /// Two files have each other's names.
    #[error("the file is exchanged with that of the segment that begins with sequence {with}")]
    ReorderedSegment {
        /// The first sequence of the segment in the file.
        with: u64,
    },
    /// The file has the name of one segment and holds another, which exists nowhere else.
    #[error("the file holds the segment that begins with sequence {found}, under another name")]
    MisdirectedSegment {
        /// The first sequence of the segment in the file.
        found: u64,
    },
    /// The file has the extension of a segment, but not the name of one.
    #[error("the file name ends in .damrak, but is not the name of a segment")]
    Misnamed,
    /// The journal has segments but no watermark.
    #[error("the file `watermark` is missing")]
    WatermarkMissing,
    /// Neither copy of the watermark verifies.
    #[error("both copies of the watermark are damaged")]
    WatermarkDamaged,
    /// The watermark belongs to another journal.
    #[error("the watermark is of journal {found:016x}, and this is journal {expected:016x}")]
    WatermarkForeign {
        /// The identity in the segments.
        expected: u64,
        /// The identity in the watermark.
        found: u64,
    },
}

impl DamageKind {
    /// True if a newer version of this program would read the bytes.
    fn is_newer(&self) -> bool {
        use DamageKind::{UnknownBatch, UnknownRecord, UnknownVersion};
        matches!(self, UnknownVersion(_) | UnknownBatch { .. } | UnknownRecord { .. })
    }

    fn advice(&self, sequence: u64) -> String {
        match self {
            _ if self.is_newer() => "use the version of the program that wrote it".to_owned(),
            Self::ForeignSegment { .. }
            | Self::Misnamed
            | Self::StaleSegment { .. }
            | Self::OverlappingSegment { .. }
            | Self::DuplicateSegment { .. } => {
                "move the file out of the folder, or restore the folder from a copy".to_owned()
            }
            Self::ReorderedSegment { .. } | Self::MisdirectedSegment { .. } => {
                "give the file its own name, or restore the folder from a copy".to_owned()
            }
            Self::WatermarkMissing | Self::WatermarkDamaged | Self::WatermarkForeign { .. } => {
                "restore it from a copy of the folder, or accept the records that are there with \
                 `damrak journal cut`; an interrupted backup has no watermark: make it again"
                    .to_owned()
            }
            _ => format!(
                "restore the folder from a copy that has sequence {sequence}, or truncate the \
                 journal with `damrak journal cut`; if this folder was copied while its venue \
                 was running, copy it again with `damrak journal backup`"
            ),
        }
    }
}

/// The reason why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadBatch {
    /// The segment ends before the batch does.
    #[error("the batch is cut short ({available} of {needed} bytes)")]
    Short {
        /// The length in the header of the batch, or the length of that header, in bytes.
        needed: u64,
        /// The number of bytes available.
        available: u64,
    },
    /// No batch is that long.
    #[error("the batch header gives a length of {0} bytes, which is invalid")]
    Length(u32),
    /// The checksum does not match the bytes.
    #[error("the batch has checksum {stored:08x}, its bytes have {computed:08x}")]
    Checksum {
        /// The checksum in the header.
        stored: u32,
        /// The checksum computed from the bytes.
        computed: u32,
    },
    /// The checksum matches, but this build does not know the version.
    #[error("the batch has the unknown version {version}")]
    Unknown {
        /// The version in the header.
        version: u16,
    },
    /// A byte between two batches is not zero.
    #[error("a byte between two batches is not zero")]
    NotZero,
}

/// The reason why bytes are not a copy of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderFault {
    /// The file ends before the header does.
    #[error("cut short")]
    Short,
    /// The header does not begin as every segment does.
    #[error("not a segment's header")]
    Magic,
    /// The checksum does not match the bytes.
    #[error("wrong checksum")]
    Checksum,
    /// The header verifies, but this build does not know its version.
    #[error("version {0}")]
    Version(u32),
}

/// Errors of reading, for every reader.
#[derive(Debug)]
pub(crate) enum ReadError {
    Storage { doing: &'static str, path: PathBuf, source: io::Error },
    Damaged(Box<Damage>),
    Refused { path: PathBuf, offset: u64, sequence: u64, source: BoxError },
}

macro_rules! from_read_error {
    ($name:ident) => {
        impl From<ReadError> for $name {
            fn from(error: ReadError) -> Self {
                match error {
                    ReadError::Storage { doing, path, source } => {
                        Self::Storage { doing, path, source }
                    }
                    ReadError::Damaged(damage) => Self::Damaged(damage),
                    ReadError::Refused { path, offset, sequence, source } => {
                        Self::Refused { path, offset, sequence, source }
                    }
                }
            }
        }
    };
}
from_read_error!(OpenError);
from_read_error!(VerifyError);

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "check the path",
        ErrorKind::NotADirectory => "name a folder, not a file",
        ErrorKind::PermissionDenied => "let this user read and write the folder, or name another",
        ErrorKind::ReadOnlyFilesystem => "name a folder on a disk that can be written",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, then start again",
        _ => "check the disk, then start again",
    }
}
