//! Errors: one enum for each operation. Each message says what was found, where, and what to do.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
};

use thiserror::Error;

use crate::segment::FORMAT_VERSION;

/// An error of the caller that replays.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a journal was not opened. Nothing that verified was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Storage failed.
    #[error("cannot {doing} {}; {}", .path.display(), advice(.source))]
    Storage {
        /// What we were doing.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What storage said.
        source: io::Error,
    },
    /// Another writer has the journal.
    #[error(
        "{} is being written by {holder}; stop it first, or name another folder",
        .path.display()
    )]
    Locked {
        /// The folder.
        path: PathBuf,
        /// The process that has it, as far as it is known.
        holder: String,
    },
    /// The folder holds something else. Nothing was written into it.
    #[error(
        "{} is not a journal: it holds `{found}`; name an empty folder, or one that does not exist",
        .path.display()
    )]
    NotAJournal {
        /// The folder.
        path: PathBuf,
        /// One of the things it holds.
        found: String,
    },
    /// The bytes are not what was written.
    #[error(transparent)]
    Damaged(#[from] Box<Damage>),
    /// The record is whole, and the one who replays does not accept what it says.
    #[error("{}, byte {offset}: the record with sequence {sequence} does not replay", .path.display())]
    Refused {
        /// The segment.
        path: PathBuf,
        /// Where in it the record begins.
        offset: u64,
        /// Its sequence.
        sequence: u64,
        /// Why.
        source: BoxError,
    },
}

impl OpenError {
    /// True if the journal itself is wrong, not its surroundings: it must be restored, and trying
    /// again does not help.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Damaged(damage) => damage.is_corruption(),
            Self::Refused { .. } => true,
            Self::Storage { .. } | Self::Locked { .. } | Self::NotAJournal { .. } => false,
        }
    }
}

/// Why a journal was not read to its end.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// Storage failed.
    #[error("cannot {doing} {}; {}", .path.display(), advice(.source))]
    Storage {
        /// What we were doing.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What storage said.
        source: io::Error,
    },
    /// The folder holds no segment.
    #[error("{} is not a journal: it holds no segment; name the journal's folder", .path.display())]
    NotAJournal {
        /// The folder.
        path: PathBuf,
    },
    /// The bytes are not what was written.
    #[error(transparent)]
    Damaged(#[from] Box<Damage>),
    /// The record is whole, and the one who visits does not accept what it says.
    #[error("{}, byte {offset}: the record with sequence {sequence} does not replay", .path.display())]
    Refused {
        /// The segment.
        path: PathBuf,
        /// Where in it the record begins.
        offset: u64,
        /// Its sequence.
        sequence: u64,
        /// Why.
        source: BoxError,
    },
}

impl VerifyError {
    /// True if the journal itself is wrong, not its surroundings.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Damaged(damage) => damage.is_corruption(),
            Self::Refused { .. } => true,
            Self::Storage { .. } | Self::NotAJournal { .. } => false,
        }
    }
}

/// Why the writer is no longer one. What it had confirmed stays confirmed; nothing later is.
#[derive(Debug, Error)]
pub enum AppendError {
    /// Storage failed. It is not tried again: a second sync may succeed without the bytes.
    #[error(
        "cannot {doing} {}; unacknowledged records after sequence {durable} may be lost; {}",
        .path.display(), advice(.source)
    )]
    Storage {
        /// What we were doing.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The last sequence that is durable as the policy means it; without a policy, the last
        /// that was written.
        durable: u64,
        /// What storage said.
        source: io::Error,
    },
    /// An earlier call failed.
    #[error("the journal has stopped: {first}")]
    Poisoned {
        /// As it was when that call failed.
        durable: u64,
        /// What failed then.
        first: String,
    },
}

impl AppendError {
    /// False: what was confirmed is whole, and opening the journal again finds its end.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        false
    }
}

/// Bytes that are not what was written, and are not the torn tail that a crash leaves.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{}, byte {offset}: {kind}; nothing was changed; {}",
    .path.display(),
    .kind.advice(*.sequence)
)]
pub struct Damage {
    /// The segment.
    pub path: PathBuf,
    /// Where in it, in bytes from its beginning.
    pub offset: u64,
    /// The first sequence that cannot be had, all before it verify; 0 if that is not known.
    pub sequence: u64,
    /// What is wrong.
    pub kind: DamageKind,
}

impl Damage {
    /// False if a newer version of this program would read it.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        !self.kind.is_newer()
    }
}

/// What is wrong with the bytes. The rows of the decision table in docs/journal.md.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DamageKind {
    /// The batch does not verify, and one that does comes after it.
    #[error("{fault}, and sequence {later_sequence} follows it")]
    BadBatch {
        /// What is wrong with it.
        fault: BadBatch,
        /// The first sequence of a later batch that verifies, or of the next segment.
        later_sequence: u64,
        /// Where it begins in this segment; `None` for the next segment.
        later_offset: Option<u64>,
    },
    /// The batch does not verify, and the watermark says that it must be there.
    #[error(
        "{fault}, though the watermark says that everything up to sequence {marked} was written"
    )]
    BadEnd {
        /// What is wrong with it.
        fault: BadBatch,
        /// The least sequence that must be there.
        marked: u64,
    },
    /// The journal ends too soon: the end of a segment, or whole segments, are missing.
    #[error(
        "the journal ends here, though the watermark says that everything up to sequence {marked} was \
         written"
    )]
    EndMissing {
        /// The least sequence that must be there.
        marked: u64,
    },
    /// The batch verifies and is not the next one.
    #[error("expected sequence {expected}, found {found}")]
    SequenceGap {
        /// The one after the last.
        expected: u64,
        /// The one that is there.
        found: u64,
    },
    /// The batch verifies, and its bytes are not as many records as it says.
    #[error("the batch verifies, but at its byte {at} there is no record that fits into it")]
    RecordMalformed {
        /// Where in the batch, in bytes from its beginning.
        at: u64,
    },
    /// The batch verifies and its time is before that of the record before it.
    #[error("time goes back from {previous} to {found} ns")]
    TimeWentBack {
        /// Of the record before it.
        previous: u64,
        /// Its own.
        found: u64,
    },
    /// The batch verifies, and what came before it is not what came before it when it was written.
    #[error("the chain of this batch does not continue the records before it")]
    ChainBroken,
    /// The batch verifies and is of a version that is not known here.
    #[error("a batch has version {version}, which this build does not know")]
    UnknownBatch {
        /// Its version.
        version: u16,
    },
    /// The batch verifies and has a record of a kind that is not known here.
    #[error("a record has kind {kind}, which this build does not know")]
    UnknownRecord {
        /// Its kind.
        kind: u8,
    },
    /// The segment does not begin where the one before it ends; the ones between are missing.
    #[error("the segment should begin with sequence {expected}, but begins with {found}")]
    MissingSegment {
        /// The one after the last.
        expected: u64,
        /// What the segment's name says.
        found: u64,
    },
    /// The segment begins before the one before it ends.
    #[error("the segment begins with sequence {found}, which is also in the segment before it")]
    OverlappingSegment {
        /// What the segment's name says.
        found: u64,
    },
    /// Neither copy of the header can be used.
    #[error("both copies of the segment's header are damaged ({first}; {second})")]
    HeaderDamaged {
        /// What is wrong with the first.
        first: HeaderFault,
        /// What is wrong with the second.
        second: HeaderFault,
    },
    /// The first copy of the header verifies, and the file ends before the second one does, though
    /// another segment follows.
    #[error("the segment ends within its header, and another segment follows")]
    HeaderCutShort,
    /// Both copies of the header verify and they differ.
    #[error("the two copies of the segment's header contradict each other")]
    HeaderContradicts,
    /// The segment was written by another version of this program.
    #[error("the segment has format version {0}, and this build reads version {FORMAT_VERSION}")]
    UnknownVersion(u32),
    /// The segment is of another journal.
    #[error("the segment is of journal {found:016x}, and this is journal {expected:016x}")]
    ForeignSegment {
        /// Of the segments before it.
        expected: u64,
        /// Its own.
        found: u64,
    },
    /// The segment is of an earlier life of this journal: what came before it then is not what
    /// comes before it now.
    #[error(
        "the segment is stale: epoch {found} after epoch {previous}, and it does not continue the \
         records before it"
    )]
    StaleSegment {
        /// The epoch of the segment before it.
        previous: u64,
        /// Its own.
        found: u64,
    },
    /// The file has the name of one segment and holds a copy of another, which is there as well.
    #[error("the file is a duplicate of the segment that begins with sequence {of}")]
    DuplicateSegment {
        /// The first sequence of the segment it holds.
        of: u64,
    },
    /// Two files have each other's name.
    #[error("the file is exchanged with that of the segment that begins with sequence {with}")]
    ReorderedSegment {
        /// The first sequence of the segment it holds.
        with: u64,
    },
    /// The file has the name of one segment and holds another, which is not there.
    #[error("the file holds the segment that begins with sequence {found}, under another name")]
    MisdirectedSegment {
        /// The first sequence of the segment it holds.
        found: u64,
    },
    /// The file has the extension of a segment and is not named as one.
    #[error("the file name ends in .damrak, but is not the name of a segment")]
    Misnamed,
    /// The journal has segments, and not the watermark.
    #[error("the file `watermark` is missing")]
    WatermarkMissing,
    /// Neither copy of the watermark verifies.
    #[error("both copies of the watermark are damaged")]
    WatermarkDamaged,
    /// The watermark is of another journal.
    #[error("the watermark is of journal {found:016x}, and this is journal {expected:016x}")]
    WatermarkForeign {
        /// Of the segments.
        expected: u64,
        /// Its own.
        found: u64,
    },
}

impl DamageKind {
    /// True if a newer version of this program would read it.
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

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadBatch {
    /// The segment ends before it does.
    #[error("the batch is cut short ({available} of {needed} bytes)")]
    Short {
        /// How many bytes it says it takes, or those of its header.
        needed: u64,
        /// How many there are.
        available: u64,
    },
    /// No batch is that long.
    #[error("the batch header gives a length of {0} bytes, which is invalid")]
    Length(u32),
    /// The checksum is not that of its bytes.
    #[error("the batch has checksum {stored:08x}, its bytes have {computed:08x}")]
    Checksum {
        /// What it says.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// The checksum is right, and the version is not known here.
    #[error("the batch has the unknown version {version}")]
    Unknown {
        /// What it says.
        version: u16,
    },
    /// Something stands where nothing was ever written.
    #[error("a byte between two batches is not zero")]
    NotZero,
}

/// Why bytes are not a copy of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderFault {
    /// The file ends before it does.
    #[error("cut short")]
    Short,
    /// It does not begin as every segment does.
    #[error("not a segment's header")]
    Magic,
    /// The checksum is not that of its bytes.
    #[error("wrong checksum")]
    Checksum,
    /// It verifies and has a version that is not known here.
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
