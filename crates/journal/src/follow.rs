//! Reading a journal while another writes it: what is there is shown, then what comes.

use std::path::PathBuf;

use crate::{
    error::{BoxError, Damage, DamageKind, ReadError, VerifyError},
    reader::{Next, SegmentReader},
    record::{self, Record},
    recovery::{Report, Segment, failed, index_of, list_segments},
    segment::file_name,
    storage::{Access, Storage},
};

/// A reader at some place of a journal that goes on growing. It takes no lock and changes nothing.
///
/// Every record is verified as recovery verifies it. What is not whole yet is waited for; what is
/// followed by something whole, or by another segment, is damage.
pub struct Follower {
    storage: Box<dyn Storage>,
    /// The sequence and time of the last record that was read.
    report: Report,
    /// Records before it are read and not shown.
    from: u64,
    current: Option<Current>,
}

struct Current {
    reader: SegmentReader,
    path: PathBuf,
    first_sequence: u64,
}

impl Follower {
    /// Shows records from the sequence `from` on; 0 and 1 are the first. Segments that end before it
    /// need not be there.
    #[must_use]
    pub fn new(storage: Box<dyn Storage>, from: u64) -> Self {
        Self { storage, report: Report::default(), from, current: None }
    }

    /// Shows at most `limit` records that were not shown yet, none after the sequence `until`; says
    /// how many. 0 is: nothing more is there now.
    ///
    /// # Errors
    /// The journal cannot be read or is damaged, or `visit` failed; that it is not there yet is no
    /// error. After an error, nothing more is to be asked.
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
            let current = self.current.as_mut().expect("it was begun");
            let offset = current.reader.offset();
            let next =
                match current.reader.next() {
                    Ok(next) => next,
                    // It was cut while it was read: by the recovery of its venue. What was whole is
                    // still there.
                    Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                        if self.grow()? { continue } else { break }
                    }
                    Err(error) => return Err(failed("read", &current.path)(error).into()),
                };
            match next {
                Next::Record(record) => {
                    let damage = |kind| {
                        let (path, sequence) = (current.path.clone(), record.sequence);
                        Damage { path, offset, sequence, kind }
                    };
                    self.report.check(&record).map_err(|kind| Box::new(damage(kind)))?;
                    if record.sequence >= self.from {
                        visit(record).map_err(|error| VerifyError::Refused {
                            path: current.path.clone(),
                            offset,
                            sequence: record.sequence,
                            source: error.into(),
                        })?;
                        shown += 1;
                    }
                    self.report.add_record(&record);
                }
                Next::End => {
                    if !self.grow()? && !self.next_segment()? {
                        break;
                    }
                }
                Next::Bad(fault) => {
                    if self.grow()? {
                        continue;
                    }
                    self.refuse_if_damaged(offset, fault)?;
                    break;
                }
            }
        }
        Ok(shown)
    }

    /// The sequence of the last record that was read; 0 is none.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.report.last_sequence
    }

    /// The identity of the journal, once something was read.
    #[must_use]
    pub fn journal_id(&self) -> Option<u64> {
        self.report.journal_id
    }

    /// Brings the segment that was read last to the medium: what was shown then survives a power
    /// cut, as all segments before it do.
    ///
    /// # Errors
    /// It may not; never to be tried again.
    pub fn sync(&mut self) -> Result<(), VerifyError> {
        let Some(current) = &self.current else { return Ok(()) };
        let name = file_name(current.first_sequence);
        let done = self.storage.open(&name, Access::Append).and_then(|mut file| file.sync());
        Ok(done.map_err(failed("sync", &current.path))?)
    }

    /// Opens the segment to begin with; false if there is none yet.
    fn begin(&mut self) -> Result<bool, VerifyError> {
        let segments = list_segments(&mut *self.storage)?;
        if segments.is_empty() {
            return Ok(false);
        }
        let first_sequence = segments[index_of(&segments, self.from)];
        if (2..=self.from).contains(&first_sequence) {
            self.report.last_sequence = first_sequence - 1;
        }
        self.open(first_sequence)
    }

    /// Moves on to the segment after the one that was read to its end; false if there is none yet.
    fn next_segment(&mut self) -> Result<bool, VerifyError> {
        let next = self.report.last_sequence + 1;
        let current = self.current.as_ref().expect("one was read");
        if next == current.first_sequence {
            return Ok(false); // it has no record yet
        }
        if !list_segments(&mut *self.storage)?.contains(&next) {
            return Ok(false);
        }
        // The writer ended the old one before it began the new one: look a last time.
        if self.grow()? {
            return Ok(true);
        }
        self.open(next)
    }

    /// Opens a segment; false if its header is not whole yet.
    fn open(&mut self, first_sequence: u64) -> Result<bool, VerifyError> {
        let name = file_name(first_sequence);
        let path = self.storage.place().join(&name);
        let mut file = self.storage.open(&name, Access::Read).map_err(failed("open", &path))?;
        let file_len = file.byte_count().map_err(failed("read", &path))?;
        let segment = Segment { path, first_sequence, next: None, file_len };
        let Some(header) = segment.read_header(&mut *file, &mut self.report)? else {
            return Ok(false);
        };
        self.report.add_segment(&header);
        let seed = record::seed(header.journal_id, header.first_sequence);
        let reader = SegmentReader::new(file, file_len, seed);
        self.current = Some(Current { reader, path: segment.path, first_sequence });
        Ok(true)
    }

    /// Looks whether the segment has become longer.
    fn grow(&mut self) -> Result<bool, VerifyError> {
        let current = self.current.as_mut().expect("one was begun");
        Ok(current.reader.grow().map_err(failed("read", &current.path))?)
    }

    /// A record that is not whole yet is the last thing there is.
    fn refuse_if_damaged(
        &mut self,
        offset: u64,
        fault: crate::BadRecord,
    ) -> Result<(), VerifyError> {
        let segments = list_segments(&mut *self.storage)?;
        let current = self.current.as_mut().expect("one was read");
        let later = match segments.iter().find(|it| **it > current.first_sequence) {
            // The writer began it after all of this one was there.
            Some(next) if !current.reader.grow().map_err(failed("read", &current.path))? => {
                Some((*next, None))
            }
            Some(_) => None,
            None => current
                .reader
                .find_after(current.first_sequence)
                .map_err(failed("read", &current.path))?
                .map(|(sequence, offset)| (sequence, Some(offset))),
        };
        let Some((later_sequence, later_offset)) = later else { return Ok(()) };
        // What is behind may have come after what is before was read: then it is there as well now.
        if current.reader.grow().map_err(failed("read", &current.path))?
            || current.reader.is_whole().map_err(failed("read", &current.path))?
        {
            return Ok(());
        }
        let kind = DamageKind::BadRecord { fault, later_sequence, later_offset };
        let sequence = self.report.last_sequence + 1;
        let path = current.path.clone();
        Err(ReadError::Damaged(Box::new(Damage { path, offset, sequence, kind })).into())
    }
}
