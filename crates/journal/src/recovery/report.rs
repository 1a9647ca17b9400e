//! The content of a journal, counted while it is read.
//!
//! Invariant: sequences ascend, time does not go back, and epochs do not descend.

use std::path::PathBuf;

use crate::{
    record::{Record, RecordKind},
    segment::{SEGMENT_HEADER_LEN, SegmentHeader},
};

/// The content of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The identity; `None` if there is no whole segment.
    pub journal_id: Option<u64>,
    /// When the first segment was made, in ns since the Unix epoch.
    pub created: u64,
    /// The first sequence; 0 is none.
    pub first_sequence: u64,
    /// The last sequence; 0 is none.
    pub last_sequence: u64,
    /// The time of the last record, in ns since the Unix epoch; 0 if there is none.
    pub last_timestamp: u64,
    /// The number of verified inputs.
    pub record_count: u64,
    /// The number of verified notes.
    pub checkpoint_count: u64,
    /// The bytes of records and headers, zeros between batches included.
    pub byte_count: u64,
    /// The number of segments.
    pub segment_count: u64,
    /// The number of times that the journal was opened for writing.
    pub epoch: u64,
    /// The sequence in the watermark: all records up to it must exist; 0 without a watermark.
    pub watermark: u64,
    /// The segments, in order.
    pub segments: Vec<SegmentReport>,
    /// The torn tail that was cut, or that the next [`open`](crate::open) would cut.
    pub torn_tail: Option<TornTail>,
    /// Damaged copies of headers and of the watermark whose other copy verifies. No data is lost; a
    /// copy of the folder should be taken.
    pub damaged_copies: Vec<DamagedCopy>,
}

/// The content of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// The path of the file.
    pub path: PathBuf,
    /// The number of the opening that made it.
    pub epoch: u64,
    /// The sequence in its name.
    pub first_sequence: u64,
    /// The last sequence; one less than the first if the segment has no input.
    pub last_sequence: u64,
    /// The number of verified batches.
    pub batch_count: u64,
    /// The number of verified inputs.
    pub record_count: u64,
    /// The number of verified notes.
    pub checkpoint_count: u64,
    /// The end of the last batch, in bytes.
    pub end: u64,
    /// The length of the file, in bytes.
    pub file_len: u64,
    /// The chain over all batches up to that end.
    pub chain: [u8; 16],
}

/// A torn tail: bytes without a confirmed record, unless the medium lost bytes that it had synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The path of the segment.
    pub path: PathBuf,
    /// The offset of the tail; 0 if the header was not whole: then the file is removed.
    pub offset: u64,
    /// The length of the tail, in bytes.
    pub byte_count: u64,
}

/// One of the two copies of a segment's header, or of the watermark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedCopy {
    /// The path of the file.
    pub path: PathBuf,
    /// The offset of the copy, in bytes.
    pub offset: u64,
}

impl RecoveryReport {
    /// The first sequence of the first segment read; 0 if there is none.
    #[must_use]
    pub fn first_segment(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.first_sequence)
    }

    pub(crate) fn add_segment(&mut self, header: &SegmentHeader) {
        if self.segment_count == 0 {
            self.journal_id = Some(header.journal_id);
            self.created = header.created;
        }
        assert!(self.journal_id.is_none_or(|id| id == header.journal_id), "{header:?} is ours");
        assert!(self.epoch <= header.epoch, "{header:?} after epoch {}", self.epoch);
        self.epoch = header.epoch;
        self.segment_count += 1;
        self.byte_count += SEGMENT_HEADER_LEN;
    }

    pub(crate) fn add_record(&mut self, record: &Record<'_>) {
        match record.kind {
            RecordKind::Checkpoint => {
                self.checkpoint_count += 1;
                return;
            }
            RecordKind::Input => self.record_count += 1,
        }
        assert!(record.sequence > self.last_sequence, "{record:?} after {}", self.last_sequence);
        assert!(record.timestamp >= self.last_timestamp, "{record:?} goes back in time");
        if self.first_sequence == 0 {
            self.first_sequence = record.sequence;
        }
        self.last_sequence = record.sequence;
        self.last_timestamp = record.timestamp;
    }
}
