//! Opening a journal: replays all records, truncates a torn tail, and refuses any other damage.
//! `recovery_table` has the decisions; this module finds the facts for them.
//!
//! Invariant: every replayed record is on the medium before it is read.

mod one_segment;
mod report;

use std::{
    ffi::OsStr,
    io::{self, ErrorKind},
    path::Path,
};

use crate::{
    batch::chain_begin,
    error::{BoxError, Damage, DamageKind, OpenError, ReadError, VerifyError},
    record::Record,
    segment::{Name, SEGMENT_HEADER_LEN, SegmentHeader, file_name, read_name},
    storage::{FileAccess, Lock, PREPARED_FILE, Storage, WATERMARK_FILE, is_beside},
    watermark::{self, Watermark},
    writer::{Durability, Tail, Writer},
};
use one_segment::Show;
pub(crate) use one_segment::{End, Segment};
pub use report::{DamagedCopy, RecoveryReport, SegmentReport, TornTail};

/// The options of opening a journal.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The condition that a commit waits for.
    pub durability: Durability,
    /// The length of a segment when created, in bytes, headers included. A segment has at least one
    /// batch, and ends before the batch that would exceed this length, if the next segment is
    /// ready. The first segment of each opening is created with 4 MiB at most.
    pub segment_bytes: u64,
    /// The identity of a new journal. Two journals should not share one: it keeps their records
    /// apart.
    pub journal_id_if_new: u64,
    /// The time now, in ns since the Unix epoch. It is kept in the first segment of this opening
    /// and used nowhere.
    pub created: u64,
    /// Segments that end before this sequence are not read and need not exist: a snapshot has their
    /// content. 0 reads all from the first record of the journal on.
    pub from: u64,
}

impl WriterOptions {
    /// The defaults: [`Durability::Synced`], segments of 256 MiB.
    #[must_use]
    pub fn new(journal_id_if_new: u64, created: u64) -> Self {
        Self {
            durability: Durability::Synced,
            segment_bytes: 256 << 20,
            journal_id_if_new,
            created,
            from: 0,
        }
    }
}

/// Locks the journal in `storage` for this writer, creates it if there is none, shows every record
/// to `replay` in order (from the segment with [`WriterOptions::from`] on), cuts a torn tail, and
/// leaves the writer at the end. All replayed records are on the medium before they are read.
///
/// # Errors
/// The folder is locked, holds other files, cannot be read or written, or holds bytes that are
/// neither the journal nor a torn tail of it; or `replay` failed. The caller must then discard the
/// replayed state.
pub fn open<E: Into<BoxError>>(
    mut storage: Box<dyn Storage>,
    options: &WriterOptions,
    replay: &mut impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<(Writer, RecoveryReport), OpenError> {
    list_ours(&mut *storage)?; // before the lock is made: the folder may be somebody else's
    lock(&mut *storage)?;
    let segments = list_ours(&mut *storage)?; // again: its last writer may just have left
    let place = storage.place();
    let watermark =
        watermark::read(&mut *storage).map_err(failed("read", &place.join(WATERMARK_FILE)))?;
    bring_to_the_medium(&mut *storage, &segments, watermark)?;

    let (mut report, end) =
        read(&mut *storage, &segments, watermark, Range::from(options.from), replay)?;
    if let Some(tail) = &report.torn_tail {
        remove_tail(&mut *storage, tail)?;
    }
    if let Some(end) = &end {
        end.tidy(&mut *storage)?;
    }
    remove_prepared(&mut *storage)?;

    let journal_id = report.journal_id.unwrap_or(options.journal_id_if_new);
    assert!(report.watermark <= report.last_sequence, "reading refuses less than was promised");
    let watermark = Watermark::create(&mut *storage, journal_id, report.last_sequence, watermark)
        .map_err(failed("write", &place.join(WATERMARK_FILE)))?;
    let first_sequence = report.last_sequence + 1;
    let header = SegmentHeader {
        epoch: report.epoch + 1,
        chain: end.as_ref().map_or(chain_begin(journal_id), |end| end.chain),
        alignment: options.durability.alignment() as u32,
        ..SegmentHeader::new(journal_id, first_sequence, options.created)
    };
    if report.segment_count == 0 {
        report.add_segment(&header);
    }
    let RecoveryReport { last_sequence, last_timestamp, .. } = report;
    let tail = Tail { header, watermark, last_sequence, last_timestamp };
    let path = place.join(file_name(first_sequence));
    let WriterOptions { durability, segment_bytes, .. } = *options;
    let writer =
        Writer::new(storage, durability, segment_bytes, tail).map_err(failed("create", &path))?;
    Ok((writer, report))
}

/// Shows every record to `visit` in order and changes nothing, not even a torn tail. It takes no
/// lock: while a venue writes, it sees the records that were written when it reached the last segment.
///
/// # Errors
/// The folder holds no journal, cannot be read, or holds bytes that are neither the journal nor a
/// torn tail of it; or `visit` failed.
pub fn verify<E: Into<BoxError>>(
    storage: &mut dyn Storage,
    visit: &mut impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<RecoveryReport, VerifyError> {
    verify_from(storage, 0, visit)
}

/// As [`verify`], from the segment with the record `from` on; 0 reads all.
///
/// # Errors
/// See [`verify`].
pub fn verify_from<E: Into<BoxError>>(
    storage: &mut dyn Storage,
    from: u64,
    visit: &mut impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<RecoveryReport, VerifyError> {
    let path = storage.place();
    // Before the names are listed: the records that it requires are then in one of the listed
    // segments.
    let watermark = watermark::read(storage).map_err(failed("read", &path.join(WATERMARK_FILE)))?;
    let names = storage.list().map_err(failed("list", &path))?;
    let listing = Listing::of(&names);
    if listing.segments.is_empty()
        && !matches!(watermark, watermark::Found::Value(said, _) if said.sequence > 0)
    {
        return Err(VerifyError::NotAJournal { path });
    }
    listing.refuse_misnamed(&path)?;
    let (report, _) = read(storage, &listing.segments, watermark, Range::from(from), visit)?;
    Ok(report)
}

/// The identity of the journal in `storage`, without reading its records; `None` if there is no
/// journal, or none that [`open`] would take up.
pub fn identity(storage: &mut dyn Storage) -> Option<u64> {
    let names = storage.list().ok()?;
    let segments = Listing::of(&names).segments;
    let first_sequence = *segments.first().filter(|first_sequence| **first_sequence > 0)?;
    let next = segments.get(1).copied();
    let (segment, mut file) = Segment::open(storage, first_sequence, next).ok()?;
    let mut before =
        RecoveryReport { last_sequence: first_sequence - 1, ..RecoveryReport::default() };
    let header = segment.read_header(storage, &mut *file, None, &mut before).ok()??;
    Some(header.journal_id)
}

impl End {
    /// Removes the bytes behind the last record: zeros, and a segment without records, since the
    /// next segment will have its name.
    fn tidy(&self, storage: &mut dyn Storage) -> Result<(), ReadError> {
        assert!(SEGMENT_HEADER_LEN <= self.offset, "a segment ends behind its header");
        let name = file_name(self.first_sequence);
        let path = storage.place().join(&name);
        let done = if self.is_empty {
            storage.remove(&name).and_then(|()| storage.sync_folder())
        } else if self.offset < self.file_len {
            storage.open(&name, FileAccess::Write).and_then(|mut file| {
                file.truncate(self.offset)?;
                file.sync()
            })
        } else {
            Ok(())
        };
        done.map_err(failed("end", &path))
    }
}

/// The content of a folder, by the names in it.
struct Listing<'a> {
    /// First sequences, ascending.
    segments: Vec<u64>,
    misnamed: Option<&'a str>,
    foreign: Option<&'a str>,
}

impl<'a> Listing<'a> {
    fn of(names: &'a [String]) -> Self {
        let mut listing = Self { segments: Vec::new(), misnamed: None, foreign: None };
        for name in names.iter().filter(|name| !is_beside(name)) {
            match read_name(name) {
                Name::Segment(first_sequence) => listing.segments.push(first_sequence),
                Name::Misnamed => listing.misnamed = Some(name),
                Name::Foreign => listing.foreign = Some(name),
            }
        }
        listing.segments.sort_unstable();
        listing
    }

    fn refuse_misnamed(&self, place: &Path) -> Result<(), ReadError> {
        self.misnamed.map_or(Ok(()), |name| {
            let (path, kind) = (place.join(name), DamageKind::Misnamed);
            Err(ReadError::Damaged(Box::new(Damage { path, offset: 0, sequence: 0, kind })))
        })
    }
}

/// The segments of a folder, ascending; empty if the folder does not exist or is empty.
pub(crate) fn list_segments(storage: &mut dyn Storage) -> io::Result<Vec<u64>> {
    match storage.list() {
        Ok(names) => Ok(Listing::of(&names).segments),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The segments of a journal; empty where a journal may be created.
pub(crate) fn list_ours(storage: &mut dyn Storage) -> Result<Vec<u64>, OpenError> {
    let path = storage.place();
    let names = match storage.list() {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("list", &path)(error).into()),
    };
    let listing = Listing::of(&names);
    if let (true, Some(found)) = (listing.segments.is_empty(), listing.foreign.or(listing.misnamed))
    {
        return Err(OpenError::NotAJournal { path, found: found.to_owned() });
    }
    listing.refuse_misnamed(&path)?;
    Ok(listing.segments)
}

pub(crate) fn lock(storage: &mut dyn Storage) -> Result<(), OpenError> {
    let path = storage.place();
    match storage.lock().map_err(failed("lock", &path))? {
        Lock::Taken => Ok(()),
        Lock::HeldBy(holder) => Err(OpenError::Locked { path, holder }),
    }
}

/// Syncs the records of a killed process, which may be in the page cache only. Otherwise the next power
/// cut could remove records that this run has used. Records up to the watermark are on the medium already.
fn bring_to_the_medium(
    storage: &mut dyn Storage,
    segments: &[u64],
    watermark: watermark::Found,
) -> Result<(), ReadError> {
    let place = storage.place();
    storage.sync_folder().map_err(failed("sync", &place))?;
    let marked = if let watermark::Found::Value(said, _) = watermark { said.sequence } else { 0 };
    for (index, first_sequence) in segments.iter().enumerate() {
        if segments.get(index + 1).is_some_and(|next| *next <= marked) {
            continue;
        }
        let name = file_name(*first_sequence);
        let file = storage.open(&name, FileAccess::Write).and_then(|mut file| file.sync());
        file.map_err(failed("sync", &place.join(&name)))?;
    }
    Ok(())
}

fn remove_prepared(storage: &mut dyn Storage) -> Result<(), ReadError> {
    match storage.remove(PREPARED_FILE) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done.map_err(failed("remove", &storage.place().join(PREPARED_FILE))),
    }
}

fn remove_tail(storage: &mut dyn Storage, tail: &TornTail) -> Result<(), ReadError> {
    assert!(tail.offset == 0 || tail.offset >= SEGMENT_HEADER_LEN, "{tail:?} spares the header");
    let name = tail.path.file_name().and_then(OsStr::to_str).expect("the name of a segment");
    let done = if tail.offset == 0 {
        storage.remove(name).and_then(|()| storage.sync_folder())
    } else {
        storage.open(name, FileAccess::Write).and_then(|mut file| {
            file.truncate(tail.offset)?;
            file.sync()
        })
    };
    done.map_err(failed("truncate the torn tail of", &tail.path))
}

/// The range of records to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// Begins with the segment that has this record; 0 is all.
    pub(crate) from: u64,
    /// Ends with this record, in whole batches.
    pub(crate) until: u64,
}

impl From<u64> for Range {
    fn from(from: u64) -> Self {
        Self { from, until: u64::MAX }
    }
}

/// The index of the segment that has the record `from`, or should have it; 0 if no segment does.
pub(crate) fn index_of(segments: &[u64], from: u64) -> usize {
    let index =
        segments.partition_point(|first_sequence| *first_sequence <= from).saturating_sub(1);
    assert!(segments.is_empty() || index < segments.len(), "{index} of {segments:?}");
    index
}

/// Reads the segments from the one with the record `range.from` on. Returns the report, and the end
/// of the last segment read; `None` if there is no whole segment.
pub(crate) fn read<E: Into<BoxError>>(
    storage: &mut dyn Storage,
    segments: &[u64],
    watermark: watermark::Found,
    range: Range,
    replay: &mut impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<(RecoveryReport, Option<End>), ReadError> {
    read_segments(storage, segments, watermark, range, &mut |path, offset, record| {
        replay(record).map_err(|error| ReadError::Refused {
            path: path.to_owned(),
            offset,
            sequence: record.sequence,
            source: error.into(),
        })
    })
}

fn read_segments(
    storage: &mut dyn Storage,
    segments: &[u64],
    watermark: watermark::Found,
    Range { from, until }: Range,
    show: &mut Show<'_>,
) -> Result<(RecoveryReport, Option<End>), ReadError> {
    assert!(segments.is_sorted_by(|one, next| one < next), "{segments:?} are in order");
    let mut report = RecoveryReport::default();
    let watermark_path = storage.place().join(WATERMARK_FILE);
    let damaged_watermark = |kind| {
        let (path, offset, sequence) = (watermark_path.clone(), 0, 1);
        Err(ReadError::Damaged(Box::new(Damage { path, offset, sequence, kind })))
    };
    if let watermark::Found::Value(said, damaged_copy) = watermark {
        report.watermark = said.sequence;
        if let Some(offset) = damaged_copy {
            report.damaged_copies.push(DamagedCopy { path: watermark_path.clone(), offset });
        }
    }
    if let watermark::Found::Unknown(version) = watermark {
        return damaged_watermark(DamageKind::UnknownVersion(version));
    }

    let mut end: Option<End> = None;
    let first_index = index_of(segments, from);
    if let Some(first_sequence) = segments.get(first_index).filter(|it| (1..=from).contains(*it)) {
        // The records before it are covered by a snapshot; otherwise `from` would be lower.
        report.last_sequence = first_sequence - 1;
    }
    for (index, &first_sequence) in segments.iter().enumerate().skip(first_index) {
        let next = segments.get(index + 1).copied();
        let (segment, mut file) = Segment::open(storage, first_sequence, next)?;
        let before = end.as_ref().map(|end| end.chain);
        let header = segment.read_header(storage, &mut *file, before, &mut report)?;
        let Some(header) = header else {
            if end.is_none() && index > 0 {
                // The segment never had a record: begin with the previous one, and append to it.
                let from = segments[index - 1];
                return read_segments(storage, segments, watermark, Range { from, until }, show);
            }
            let Segment { path, file_len, .. } = segment;
            report.torn_tail = Some(TornTail { path, offset: 0, byte_count: file_len });
            break;
        };
        match watermark {
            watermark::Found::Value(said, _) if said.journal_id != header.journal_id => {
                let (expected, found) = (header.journal_id, said.journal_id);
                return damaged_watermark(DamageKind::WatermarkForeign { expected, found });
            }
            watermark::Found::Absent => {
                return damaged_watermark(DamageKind::WatermarkMissing);
            }
            watermark::Found::Damaged => {
                return damaged_watermark(DamageKind::WatermarkDamaged);
            }
            _ => {}
        }
        report.add_segment(&header);
        end = Some(segment.read_records(&header, file, &mut report, until, show)?);
        let is_cut_short =
            segment.next.is_some_and(|next| until < u64::MAX && report.last_sequence + 1 < next);
        if report.last_sequence >= until || is_cut_short {
            return Ok((report, end)); // no more is wanted, or no whole batch of it
        }
    }
    if report.watermark > report.last_sequence {
        // All existing records have been judged; the missing ones have no segment to judge.
        let path =
            segments.last().map_or(watermark_path, |last| storage.place().join(file_name(*last)));
        let offset = end.map_or(0, |end| end.offset);
        let kind = DamageKind::EndMissing { marked: report.watermark };
        let sequence = report.last_sequence + 1;
        return Err(ReadError::Damaged(Box::new(Damage { path, offset, sequence, kind })));
    }
    Ok((report, end))
}

pub(crate) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ReadError {
    move |source| ReadError::Storage { doing, path: path.to_owned(), source }
}
