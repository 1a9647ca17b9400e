//! Reading one segment: whether its header belongs here, its records, and the end of the whole
//! ones.
//!
//! Invariant: a record that is shown has verified, and follows the previous one.

use std::path::{Path, PathBuf};

use super::{DamagedCopy, RecoveryReport, SegmentReport, TornTail, failed};
use crate::{
    batch::{Chain, chain_begin},
    error::{BadBatch, Damage, DamageKind, HeaderFault, ReadError},
    failpoint::{Failpoint, failpoint},
    reader::{Next, SegmentReader, are_zeros, read_exact_at},
    record::{Record, RecordKind},
    recovery_table::{self, Bad, CopyState, HeaderVerdict, Verdict, decide_end, decide_header},
    segment::{BLOCK_LEN, SEGMENT_HEADER_LEN, SegmentHeader, file_name, is_half_made},
    storage::{FileAccess, Storage, StorageFile},
};

/// Takes a verified record, with the path of its segment and its offset there.
pub(super) type Show<'a> = dyn FnMut(&Path, u64, Record<'_>) -> Result<(), ReadError> + 'a;

/// The end of the last whole segment.
pub(crate) struct End {
    pub(crate) first_sequence: u64,
    pub(super) chain: Chain,
    /// The offset of the end of the last wanted batch.
    pub(crate) offset: u64,
    pub(crate) file_len: u64,
    /// The segment has no input: the next segment will have its name.
    pub(super) is_empty: bool,
}

pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    /// The first sequence in its name.
    pub(crate) first_sequence: u64,
    /// The first sequence of the next segment; `None` for the last one, which may be torn.
    pub(crate) next: Option<u64>,
    pub(crate) file_len: u64,
}

impl Segment {
    pub(crate) fn open(
        storage: &mut dyn Storage,
        first_sequence: u64,
        next: Option<u64>,
    ) -> Result<(Self, Box<dyn StorageFile>), ReadError> {
        let name = file_name(first_sequence);
        let path = storage.place().join(&name);
        let mut file = storage.open(&name, FileAccess::Read).map_err(failed("open", &path))?;
        let file_len = file.byte_count().map_err(failed("read", &path))?;
        Ok((Self { path, first_sequence, next, file_len }, file))
    }

    /// The header, if it belongs here; `None` if a crash left it half made. Where reading begins,
    /// the chain before may be unknown: then any chain is accepted.
    pub(crate) fn read_header(
        &self,
        storage: &mut dyn Storage,
        file: &mut dyn StorageFile,
        before: Option<Chain>,
        report: &mut RecoveryReport,
    ) -> Result<Option<SegmentHeader>, ReadError> {
        let expected = report.last_sequence + 1;
        let damaged = |offset, kind| Err(self.damage(offset, expected, kind));
        let found = self.first_sequence;
        if found > expected {
            return damaged(0, DamageKind::MissingSegment { expected, found });
        }
        if found < expected {
            return damaged(0, DamageKind::OverlappingSegment { found });
        }

        let bytes = self.read_head(file)?;
        let copies = decode_both(&bytes);
        let are_equal = matches!(copies, [Ok(first), Ok(second)] if first == second);
        let head = recovery_table::Head {
            copies: copies.map(|copy| match copy {
                Ok(_) => CopyState::Whole,
                Err(HeaderFault::Version(_)) => CopyState::OtherVersion,
                Err(_) => CopyState::Bad,
            }),
            are_equal,
            is_followed: self.next.is_some(),
            has_more: !are_equal && self.has_more(file)?, // it takes a while to look
            is_half_made: is_half_made(&bytes),
            is_short: self.file_len < SEGMENT_HEADER_LEN,
        };
        let place_of = |index: usize| (index * BLOCK_LEN) as u64;
        let (header, damaged_copy) = match (decide_header(head).1, copies) {
            (HeaderVerdict::Take, [Ok(header), _]) => (header, None),
            (HeaderVerdict::TakeOnly(0), [Ok(header), _]) => (header, Some(place_of(1))),
            (HeaderVerdict::TakeOnly(_), [_, Ok(header)]) => (header, Some(place_of(0))),
            (HeaderVerdict::Remove, _) => {
                // One whole copy must still be the one that belongs here.
                let whole = copies.iter().find_map(|copy| copy.as_ref().ok());
                if let Some(header) = whole {
                    self.check_header(storage, header, before, report)?;
                }
                return Ok(None);
            }
            (HeaderVerdict::OtherVersion(index), _) => {
                let Err(HeaderFault::Version(version)) = copies[index] else {
                    unreachable!("the copy has another version");
                };
                return damaged(place_of(index), DamageKind::UnknownVersion(version));
            }
            (HeaderVerdict::Contradicts, _) => return damaged(0, DamageKind::HeaderContradicts),
            (HeaderVerdict::CutShort, _) => {
                return damaged(self.file_len, DamageKind::HeaderCutShort);
            }
            (_, [first, second]) => {
                let fault = |copy: Result<_, _>| copy.err().unwrap_or(HeaderFault::Short);
                let (first, second) = (fault(first), fault(second));
                return damaged(0, DamageKind::HeaderDamaged { first, second });
            }
        };
        self.check_header(storage, &header, before, report)?;
        if let Some(offset) = damaged_copy {
            report.damaged_copies.push(DamagedCopy { path: self.path.clone(), offset });
        }
        Ok(Some(header))
    }

    /// Checks that the header belongs to this file, this journal and this place in it.
    fn check_header(
        &self,
        storage: &mut dyn Storage,
        header: &SegmentHeader,
        before: Option<Chain>,
        report: &RecoveryReport,
    ) -> Result<(), ReadError> {
        let damaged = |kind| Err(self.damage(0, report.last_sequence + 1, kind));
        if let Some(expected) = report.journal_id
            && header.journal_id != expected
        {
            return damaged(DamageKind::ForeignSegment { expected, found: header.journal_id });
        }
        let found = header.first_sequence;
        if found != self.first_sequence {
            // Which segment stands under the name that this header would have?
            let other = Self::open(storage, found, None).ok().and_then(|(other, mut file)| {
                let bytes = other.read_head(&mut *file).ok()?;
                decode_both(&bytes).into_iter().find_map(Result::ok)
            });
            return damaged(match other {
                Some(other) if other.first_sequence == found => {
                    DamageKind::DuplicateSegment { of: found }
                }
                Some(other) if other.first_sequence == self.first_sequence => {
                    DamageKind::ReorderedSegment { with: found }
                }
                _ => DamageKind::MisdirectedSegment { found },
            });
        }
        let begins = report.last_sequence == 0;
        let chain = before.or(begins.then(|| chain_begin(header.journal_id)));
        if header.epoch < report.epoch || chain.is_some_and(|chain| chain != header.chain) {
            let (previous, found) = (report.epoch, header.epoch);
            return damaged(DamageKind::StaleSegment { previous, found });
        }
        Ok(())
    }

    fn read_head(&self, file: &mut dyn StorageFile) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; self.file_len.min(SEGMENT_HEADER_LEN) as usize];
        read_exact_at(file, 0, &mut bytes).map_err(failed("read", &self.path))?;
        Ok(bytes)
    }

    /// True if bytes other than zeros lie behind the header.
    fn has_more(&self, file: &mut dyn StorageFile) -> Result<bool, ReadError> {
        let mut chunk = vec![0; 64 * 1024];
        let mut at = SEGMENT_HEADER_LEN;
        loop {
            let place = file.next_written(at).map_err(failed("read", &self.path))?;
            let Some(place) = place.filter(|place| *place < self.file_len) else {
                return Ok(false);
            };
            at = place.max(at);
            let len = (self.file_len - at).min(chunk.len() as u64) as usize;
            read_exact_at(file, at, &mut chunk[..len]).map_err(failed("read", &self.path))?;
            if !are_zeros(&chunk[..len]) {
                return Ok(true);
            }
            at += len as u64;
        }
    }

    /// Shows the records up to `until`, in whole batches, and returns the end of the last whole
    /// one.
    pub(super) fn read_records(
        &self,
        header: &SegmentHeader,
        file: Box<dyn StorageFile>,
        report: &mut RecoveryReport,
        until: u64,
        show: &mut Show<'_>,
    ) -> Result<End, ReadError> {
        let RecoveryReport { last_sequence, last_timestamp, .. } = *report;
        let mut reader =
            SegmentReader::new(file, self.file_len, *header, last_sequence, last_timestamp);
        let mut segment = SegmentReport {
            path: self.path.clone(),
            epoch: header.epoch,
            first_sequence: header.first_sequence,
            file_len: self.file_len,
            ..SegmentReport::default()
        };
        let (record_count, checkpoint_count) = (report.record_count, report.checkpoint_count);
        let bad = loop {
            let (start, chain) = (reader.offset(), reader.chain());
            let wanted = End {
                first_sequence: self.first_sequence,
                chain,
                offset: start,
                file_len: self.file_len,
                is_empty: report.last_sequence < self.first_sequence,
            };
            if report.last_sequence >= until {
                return Ok(wanted);
            }
            match reader.next().map_err(failed("read", &self.path))? {
                Next::Batch if reader.last_sequence() > until => return Ok(wanted),
                Next::Batch => {
                    self.show(&reader, report, show)?;
                    assert!(report.last_sequence == reader.last_sequence(), "all of it was shown");
                    report.byte_count += reader.offset() - start;
                    segment.batch_count += 1;
                }
                Next::Wrong(offset, kind) => {
                    return Err(self.damage(offset, report.last_sequence + 1, kind));
                }
                Next::End => break None,
                Next::Bad(offset, fault) => break Some((offset, fault)),
            }
        };
        let is_truncated = self.judge_end(&mut reader, bad, report)?;
        let end = reader.offset();
        assert!(end <= self.file_len, "{} ends within the file", self.path.display());
        report.segments.push(SegmentReport {
            last_sequence: report.last_sequence,
            record_count: report.record_count - record_count,
            checkpoint_count: report.checkpoint_count - checkpoint_count,
            end,
            chain: reader.chain(),
            ..segment
        });
        let is_empty = report.last_sequence < self.first_sequence;
        Ok(End {
            first_sequence: self.first_sequence,
            // A segment without an input is recreated, and its notes are dropped.
            chain: if is_empty { header.chain } else { reader.chain() },
            offset: end,
            file_len: if is_truncated { end } else { self.file_len },
            is_empty,
        })
    }

    /// Decides on the bytes behind the last whole batch: true if they are a torn tail, to be cut.
    fn judge_end(
        &self,
        reader: &mut SegmentReader,
        bad: Option<(u64, BadBatch)>,
        report: &mut RecoveryReport,
    ) -> Result<bool, ReadError> {
        let expected = report.last_sequence + 1;
        let later = match (bad, self.next) {
            (Some((offset, _)), None) => {
                reader.find_after(offset).map_err(failed("read", &self.path))?
            }
            _ => None,
        };
        let facts = recovery_table::End {
            bad: bad.map(|_| Bad { before_a_good_one: later.is_some() }),
            is_followed: self.next.is_some(),
            is_required: report.watermark >= expected,
        };
        let marked = report.watermark;
        match (decide_end(facts).1, bad) {
            (Verdict::GoOn, _) => Ok(false),
            (Verdict::Truncate, None) => Ok(true),
            (Verdict::Truncate, Some(_)) => {
                if !failpoint(Failpoint::Torn) {
                    assert!(marked <= report.last_sequence, "a torn tail was never promised");
                    let (path, offset) = (self.path.clone(), reader.offset());
                    let byte_count = self.file_len - offset;
                    report.torn_tail = Some(TornTail { path, offset, byte_count });
                }
                Ok(true)
            }
            (Verdict::Refuse, None) => {
                Err(self.damage(reader.offset(), expected, DamageKind::EndMissing { marked }))
            }
            (Verdict::Refuse, Some((offset, fault))) => {
                let kind = match (self.next, later) {
                    (Some(later_sequence), _) => {
                        DamageKind::BadBatch { fault, later_sequence, later_offset: None }
                    }
                    (None, _) if facts.is_required => DamageKind::BadEnd { fault, marked },
                    (None, later) => {
                        let later = later.expect("only a later batch refuses it");
                        DamageKind::BadBatch {
                            fault,
                            later_sequence: later.sequence,
                            later_offset: Some(later.offset),
                        }
                    }
                };
                Err(self.damage(offset, expected, kind))
            }
        }
    }

    /// Shows the records of a batch.
    fn show(
        &self,
        reader: &SegmentReader,
        report: &mut RecoveryReport,
        show: &mut Show<'_>,
    ) -> Result<(), ReadError> {
        for index in 0..reader.record_count() {
            let (offset, mut record) = reader.record(index);
            if failpoint(Failpoint::Twice) && index > 0 && record.sequence.is_multiple_of(10) {
                let (_, before) = reader.record(index - 1);
                // A checkpoint has the sequence of an input: in the place of one it would break the order.
                if [record.kind, before.kind] == [RecordKind::Input; 2] {
                    record.payload = before.payload;
                }
            }
            show(&self.path, offset, record)?;
            report.add_record(&record);
        }
        Ok(())
    }

    fn damage(&self, offset: u64, sequence: u64, kind: DamageKind) -> ReadError {
        ReadError::Damaged(Box::new(Damage { path: self.path.clone(), offset, sequence, kind }))
    }
}

fn decode_both(head: &[u8]) -> [Result<SegmentHeader, HeaderFault>; 2] {
    let (first, second) = head.split_at(head.len().min(BLOCK_LEN));
    [SegmentHeader::decode(first), SegmentHeader::decode(second)]
}
