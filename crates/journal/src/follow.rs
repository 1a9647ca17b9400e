//! Follows a journal that another process writes: reads the existing records, then the new ones.
//!
//! Invariant: a follower takes no lock and changes nothing.

use std::path::PathBuf;

use crate::{
    batch::Chain,
    error::{BoxError, Damage, DamageKind, ReadError, VerifyError},
    reader::{Next, SegmentReader},
    record::{Record, RecordKind},
    recovery::{RecoveryReport, Segment, failed, index_of, list_segments},
    segment::file_name,
    storage::{FileAccess, Storage},
};

/// A reader of a journal that continues to grow. It takes no lock and changes nothing.
///
/// Every batch is verified as in recovery. The follower waits for an incomplete batch to be
/// completed; an incomplete batch before a complete one, or before another segment, is damage.
pub struct JournalFollower {
    storage: Box<dyn Storage>,
    /// The sequence and time of the last record that was shown or skipped.
    report: RecoveryReport,
    /// Records before this sequence are read but not shown.
    from: u64,
    with_checkpoints: bool,
    current: Option<Current>,
}

struct Current {
    reader: SegmentReader,
    path: PathBuf,
    first_sequence: u64,
    /// The number of records shown of the last batch read.
    shown: usize,
}

impl JournalFollower {
    /// Shows inputs from the sequence `from` on; 0 and 1 are the first. Segments that end before it
    /// need not exist.
    #[must_use]
    pub fn new(storage: Box<dyn Storage>, from: u64) -> Self {
        Self {
            storage,
            report: RecoveryReport::default(),
            from,
            with_checkpoints: false,
            current: None,
        }
    }

    /// Shows notes as well.
    #[must_use]
    pub fn with_checkpoints(self) -> Self {
        Self { with_checkpoints: true, ..self }
    }

    /// Shows at most `limit` new records, none after the sequence `until`. Returns the number
    /// shown; 0 means that no further record exists yet.
    ///
    /// # Errors
    /// The journal cannot be read or is damaged, or `visit` failed; a journal that does not exist
    /// yet is no error. After an error, do not poll again.
    pub fn poll<E: Into<BoxError>>(
        &mut self,
        limit: usize,
        until: u64,
        visit: &mut impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<usize, VerifyError> {
        let mut shown = 0;
        while shown < limit && self.report.last_sequence < until {
            if self.current.is_none() && !self.begin()? {
                break;
            }
            if self.show_next(&mut shown, visit)? {
                continue;
            }
            let current = self.current.as_mut().expect("it was begun");
            current.shown = 0;
            let next = match current.reader.next() {
                Ok(next) => next,
                // The recovery of its venue cut the file while it was read. The complete batches
                // are still there.
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    self.grow()?;
                    continue;
                }
                Err(error) => return Err(failed("read", &current.path)(error).into()),
            };
            match next {
                Next::Batch => {}
                Next::Wrong(offset, kind) => return Err(self.damage(offset, kind)),
                Next::End => {
                    if !self.grow()? && !self.next_segment()? {
                        break;
                    }
                }
                Next::Bad(offset, fault) => {
                    if self.grow()? {
                        continue;
                    }
                    self.refuse_if_damaged(offset, fault)?;
                    break;
                }
            }
        }
        assert!(shown <= limit, "{shown} of {limit} records");
        Ok(shown)
    }

    /// The sequence of the last record read; 0 is none.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.report.last_sequence
    }

    /// The identity of the journal, once a segment was read.
    #[must_use]
    pub fn journal_id(&self) -> Option<u64> {
        self.report.journal_id
    }

    /// Syncs the segment that was read last: the records shown then survive a power cut, as do
    /// those of all segments before it.
    ///
    /// # Errors
    /// The sync failed; do not try it again.
    pub fn sync(&mut self) -> Result<(), VerifyError> {
        let Some(current) = &self.current else { return Ok(()) };
        let first_sequence = current.first_sequence;
        let segments = self.list()?;
        // Where commits do not sync, the previous segment may still be on its way.
        let at = segments.partition_point(|it| *it < first_sequence);
        for first_sequence in segments[..segments.len().min(at + 1)].iter().rev().take(2) {
            let name = file_name(*first_sequence);
            let done = self.storage.open(&name, FileAccess::Write).and_then(|mut file| file.sync());
            done.map_err(failed("sync", &self.storage.place().join(&name)))?;
        }
        Ok(())
    }

    /// Shows the next record of the current batch; false if all were shown.
    fn show_next<E: Into<BoxError>>(
        &mut self,
        shown: &mut usize,
        visit: &mut impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<bool, VerifyError> {
        let current = self.current.as_mut().expect("one was begun");
        if current.shown == current.reader.record_count() {
            return Ok(false);
        }
        assert!(current.shown < current.reader.record_count(), "it was read");
        let (offset, record) = current.reader.record(current.shown);
        current.shown += 1;
        if record.sequence >= self.from
            && (record.kind == RecordKind::Input || self.with_checkpoints)
        {
            visit(record).map_err(|error| VerifyError::Refused {
                path: current.path.clone(),
                offset,
                sequence: record.sequence,
                source: error.into(),
            })?;
            *shown += 1;
        }
        self.report.add_record(&record);
        Ok(true)
    }

    /// Opens the first segment to read; false if there is none yet.
    fn begin(&mut self) -> Result<bool, VerifyError> {
        assert!(self.current.is_none(), "it begins once");
        let segments = self.list()?;
        if segments.is_empty() {
            return Ok(false);
        }
        let first_sequence = segments[index_of(&segments, self.from)];
        if (2..=self.from).contains(&first_sequence) {
            self.report.last_sequence = first_sequence - 1;
        }
        self.open(first_sequence, None)
    }

    /// Moves on to the segment after the completed one; false if there is none yet.
    fn next_segment(&mut self) -> Result<bool, VerifyError> {
        let next = self.report.last_sequence + 1;
        assert!(self.current.is_some(), "a segment was read");
        let current = self.current.as_ref().expect("one was read");
        let is_empty = next == current.first_sequence;
        if is_empty {
            // The segment has no record yet. A venue that starts again recreates it.
            let chain = current.reader.first_chain();
            return Ok(self.is_made_anew(next)? && self.open(next, Some(chain))?);
        }
        let Some(found) = self.list()?.into_iter().find(|segment| *segment >= next) else {
            return Ok(false);
        };
        // The writer ended the old segment before it began the new one: look a last time.
        self.grow()?;
        let current = self.current.as_mut().expect("one was read");
        match current.reader.next().map_err(failed("read", &current.path))? {
            Next::End if found == next => {
                let chain = current.reader.chain();
                self.open(next, Some(chain))
            }
            // Segments are created in order, so the next one existed and was removed.
            Next::End => Err(self.damage(0, DamageKind::MissingSegment { expected: next, found })),
            Next::Batch => Ok(true),
            Next::Bad(..) | Next::Wrong(..) => Ok(true), // judged when it is read again
        }
    }

    /// True if the file with the name of the current segment is not the one that was opened.
    fn is_made_anew(&mut self, first_sequence: u64) -> Result<bool, VerifyError> {
        if !self.list()?.contains(&first_sequence) {
            return Ok(false);
        }
        let (segment, mut file) = Segment::open(&mut *self.storage, first_sequence, None)?;
        let mut report =
            RecoveryReport { last_sequence: first_sequence - 1, ..RecoveryReport::default() };
        let header = segment.read_header(&mut *self.storage, &mut *file, None, &mut report)?;
        let current = self.current.as_ref().expect("one was read");
        Ok(header.is_some_and(|header| header.epoch > current.reader.epoch()))
    }

    fn list(&mut self) -> Result<Vec<u64>, VerifyError> {
        let place = self.storage.place();
        Ok(list_segments(&mut *self.storage).map_err(failed("list", &place))?)
    }

    /// Opens a segment; false if its header is not complete yet.
    fn open(&mut self, first_sequence: u64, chain: Option<Chain>) -> Result<bool, VerifyError> {
        let (segment, mut file) = match Segment::open(&mut *self.storage, first_sequence, None) {
            Ok(opened) => opened,
            // The segment was recreated meanwhile.
            Err(ReadError::Storage { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        let header =
            segment.read_header(&mut *self.storage, &mut *file, chain, &mut self.report)?;
        let Some(header) = header else { return Ok(false) };
        self.report.add_segment(&header);
        let RecoveryReport { last_sequence, last_timestamp, .. } = self.report;
        let reader =
            SegmentReader::new(file, segment.file_len, header, last_sequence, last_timestamp);
        self.current = Some(Current { reader, path: segment.path, first_sequence, shown: 0 });
        Ok(true)
    }

    /// Checks whether the segment has become longer.
    fn grow(&mut self) -> Result<bool, VerifyError> {
        let current = self.current.as_mut().expect("one was begun");
        Ok(current.reader.grow().map_err(failed("read", &current.path))?)
    }

    /// An incomplete batch must be the last one.
    fn refuse_if_damaged(
        &mut self,
        offset: u64,
        fault: crate::BadBatch,
    ) -> Result<(), VerifyError> {
        let segments = self.list()?;
        let current = self.current.as_mut().expect("one was read");
        let read = |error| failed("read", &current.path)(error);
        let later = match segments.iter().find(|it| **it > current.first_sequence) {
            // The writer began that segment after it had completed this one.
            Some(next) => Some((*next, None)),
            None => current
                .reader
                .find_after(offset)
                .map_err(read)?
                .map(|later| (later.sequence, Some(later.offset))),
        };
        let Some((later_sequence, later_offset)) = later else { return Ok(()) };
        // The later bytes may have been written after the earlier ones were read: then both are
        // there now.
        current.reader.grow().map_err(failed("read", &current.path))?;
        if current.reader.is_whole().map_err(failed("read", &current.path))? {
            return Ok(());
        }
        let kind = DamageKind::BadBatch { fault, later_sequence, later_offset };
        Err(self.damage(offset, kind))
    }

    fn damage(&self, offset: u64, kind: DamageKind) -> VerifyError {
        let sequence = self.report.last_sequence + 1;
        let path = self.current.as_ref().expect("one was read").path.clone();
        ReadError::Damaged(Box::new(Damage { path, offset, sequence, kind })).into()
    }
}
