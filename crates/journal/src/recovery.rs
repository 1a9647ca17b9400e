//! Opening a journal: replays all records, truncates a torn tail, and refuses any other damage.
//! `recovery_table` has the decisions; this module finds the facts for them.
//!
//! Invariant: every replayed record is on the medium before it is read.

use std::{
    ffi::OsStr,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use crate::{
    error::{BoxError, Damage, DamageKind, HeaderFault, OpenError, ReadError, VerifyError},
    failpoint::{Failpoint, failpoint},
    reader::{Next, SegmentReader, are_zeros, read_exact_at},
    record::{Chain, Record, RecordKind, chain_begin},
    recovery_table::{self, Behind, CopyState, HeaderVerdict, Verdict, decide_end, decide_header},
    segment::{
        BLOCK_LEN, Name, SEGMENT_HEADER_LEN, SegmentHeader, file_name, is_half_made, read_name,
    },
    storage::{FileAccess, Lock, PREPARED_FILE, Storage, StorageFile, WATERMARK_FILE, is_beside},
    watermark::{self, Watermark},
    writer::{Durability, Tail, Writer},
};

/// How a journal is opened.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// What a commit waits for.
    pub durability: Durability,
    /// A segment is made with so many bytes, headers included, and ends before the batch that would
    /// make it longer, if the next one is ready; it has at least one batch. The first one of each
    /// opening is made with 4 MiB at most.
    pub segment_bytes: u64,
    /// The identity of the journal, if there is none yet. Two journals should not share one: it
    /// keeps their records apart.
    pub journal_id_if_new: u64,
    /// The time now, in ns since the Unix epoch; kept in the first segment of this opening and
    /// nowhere used.
    pub created: u64,
    /// Segments that end before this sequence are not read and need not be there: what they say is
    /// known from a snapshot. 0 reads all from the first record of the journal on.
    pub from: u64,
}

impl WriterOptions {
    /// [`Durability::Synced`], segments of 256 MiB.
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

/// The content of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Its identity; `None` if there is no whole segment.
    pub journal_id: Option<u64>,
    /// When its first segment was made, in ns since the Unix epoch.
    pub created: u64,
    /// The first sequence; 0 is none.
    pub first_sequence: u64,
    /// The last sequence; 0 is none.
    pub last_sequence: u64,
    /// The time of the last record, in ns since the Unix epoch; 0 if there is none.
    pub last_timestamp: u64,
    /// How many inputs verified.
    pub record_count: u64,
    /// How many notes verified.
    pub checkpoint_count: u64,
    /// How many bytes they and the headers take, zeros between batches included.
    pub byte_count: u64,
    /// How many segments there are.
    pub segment_count: u64,
    /// How often the journal was opened for writing.
    pub epoch: u64,
    /// The sequence in the watermark: all records up to it must exist; 0 without a watermark.
    pub watermark: u64,
    /// Each of them, in order.
    pub segments: Vec<SegmentReport>,
    /// The torn tail that was cut, or that the next [`open`] would cut.
    pub torn_tail: Option<TornTail>,
    /// Copies of headers and of the watermark that are damaged, where the other copy verifies. Nothing
    /// is lost; a copy of the folder should be taken.
    pub damaged_copies: Vec<DamagedCopy>,
}

/// The content of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// The file.
    pub path: PathBuf,
    /// Which opening made it.
    pub epoch: u64,
    /// The sequence its name says.
    pub first_sequence: u64,
    /// The last sequence in it; one less than the first if there is none.
    pub last_sequence: u64,
    /// How many batches verified.
    pub batch_count: u64,
    /// How many inputs.
    pub record_count: u64,
    /// How many notes.
    pub checkpoint_count: u64,
    /// Where the last batch ends.
    pub end: u64,
    /// How many bytes the file has.
    pub file_len: u64,
    /// The chain over all batches up to its end.
    pub chain: [u8; 16],
}

/// A torn tail: bytes of which nothing was confirmed, unless the medium lost what it had synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment.
    pub path: PathBuf,
    /// Where in it the tail begins; 0 if its header was not whole, and then the file is removed.
    pub offset: u64,
    /// How many bytes it has.
    pub byte_count: u64,
}

/// One of the two copies of a segment's header, or of the watermark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedCopy {
    /// The file.
    pub path: PathBuf,
    /// Where in it the copy begins.
    pub offset: u64,
}

/// Takes the journal in `storage` for this writer alone, makes it if there is none, shows every
/// record to `replay` in order (those from the segment on that has [`WriterOptions::from`]), cuts a torn
/// tail, and leaves the writer at the end. All that is replayed is on the medium before it is read.
///
/// # Errors
/// The folder is held, holds something else, cannot be read or written, or holds bytes that are
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

/// As [`verify`], from the segment on that has the record `from`; 0 is all.
///
/// # Errors
/// See [`verify`].
pub fn verify_from<E: Into<BoxError>>(
    storage: &mut dyn Storage,
    from: u64,
    visit: &mut impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<RecoveryReport, VerifyError> {
    let path = storage.place();
    // Before the names are listed: what it says is then in one of the segments that are.
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

/// Where the last whole segment ends.
pub(crate) struct End {
    pub(crate) first_sequence: u64,
    chain: Chain,
    /// Where in it the last whole batch ends that is wanted.
    pub(crate) offset: u64,
    pub(crate) file_len: u64,
    /// It has no input: the next segment will have its name.
    is_empty: bool,
}

impl End {
    /// Leaves nothing behind the last record: neither zeros, nor a segment without records, since
    /// the next one will have its name.
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

/// What a folder holds, by the names in it.
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

/// The segments of a folder, ascending; none if there is no folder, or nothing in it.
pub(crate) fn list_segments(storage: &mut dyn Storage) -> io::Result<Vec<u64>> {
    match storage.list() {
        Ok(names) => Ok(Listing::of(&names).segments),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The segments of a journal, or none where one may be made.
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
    /// From the segment on that has this record; 0 is all.
    pub(crate) from: u64,
    /// Up to this record, in whole batches.
    pub(crate) until: u64,
}

impl From<u64> for Range {
    fn from(from: u64) -> Self {
        Self { from, until: u64::MAX }
    }
}

/// Where in the list the segment stands that has the record `from`, or should have it; the first if
/// it is none's.
pub(crate) fn index_of(segments: &[u64], from: u64) -> usize {
    let index =
        segments.partition_point(|first_sequence| *first_sequence <= from).saturating_sub(1);
    assert!(segments.is_empty() || index < segments.len(), "{index} of {segments:?}");
    index
}

/// Reads the segments from the one on that has the record `range.from`. What is returned beside the
/// report is where the last of them ends; `None` if there is no whole segment.
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

/// Takes a record that has verified, with its segment and where in it it begins.
type Show<'a> = dyn FnMut(&Path, u64, Record<'_>) -> Result<(), ReadError> + 'a;

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
        // What comes before is known from a snapshot, or `from` would not say so.
        report.last_sequence = first_sequence - 1;
    }
    for (index, &first_sequence) in segments.iter().enumerate().skip(first_index) {
        let next = segments.get(index + 1).copied();
        let (segment, mut file) = Segment::open(storage, first_sequence, next)?;
        let before = end.as_ref().map(|end| end.chain);
        let header = segment.read_header(storage, &mut *file, before, &mut report)?;
        let Some(header) = header else {
            if end.is_none() && index > 0 {
                // It never had a record: the one before it is where to begin, and to go on.
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
        // The records of what there is are judged; here no segment is left to be judged.
        let path =
            segments.last().map_or(watermark_path, |last| storage.place().join(file_name(*last)));
        let offset = end.map_or(0, |end| end.offset);
        let kind = DamageKind::EndMissing { marked: report.watermark };
        let sequence = report.last_sequence + 1;
        return Err(ReadError::Damaged(Box::new(Damage { path, offset, sequence, kind })));
    }
    Ok((report, end))
}

pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    /// As its name says.
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

    /// The header, if it is the one that should be here; `None` if a crash left it half made. What
    /// is before may be unknown where reading begins: then any chain will do.
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

    /// The header belongs to this file, this journal and this place in it.
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
            // What stands under the name that this header would have?
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

    /// True if something other than zeros lies behind the header.
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

    /// Replays the records, and says where the whole ones end.
    fn read_records(
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
        let mut is_empty = true;
        let mut told = SegmentReport {
            path: self.path.clone(),
            epoch: header.epoch,
            first_sequence: header.first_sequence,
            last_sequence: report.last_sequence,
            file_len: self.file_len,
            ..SegmentReport::default()
        };
        let (record_count, checkpoint_count) = (report.record_count, report.checkpoint_count);
        loop {
            let (start, chain) = (reader.offset(), reader.chain());
            if report.last_sequence >= until {
                let (first_sequence, file_len) = (self.first_sequence, self.file_len);
                return Ok(End { first_sequence, chain, offset: start, file_len, is_empty });
            }
            let expected = report.last_sequence + 1;
            let bad = match reader.next().map_err(failed("read", &self.path))? {
                Next::Batch => {
                    if reader.last_sequence() > until {
                        let (first_sequence, file_len) = (self.first_sequence, self.file_len);
                        return Ok(End {
                            first_sequence,
                            chain,
                            offset: start,
                            file_len,
                            is_empty,
                        });
                    }
                    self.show(&reader, report, show)?;
                    assert!(report.last_sequence == reader.last_sequence(), "all of it was shown");
                    report.byte_count += reader.offset() - start;
                    told.batch_count += 1;
                    is_empty = report.last_sequence < self.first_sequence;
                    continue;
                }
                Next::Wrong(offset, kind) => return Err(self.damage(offset, expected, kind)),
                Next::End => None,
                Next::Bad(offset, fault) => Some((offset, fault)),
            };
            let later = match (bad, self.next) {
                (Some((offset, _)), None) => {
                    reader.find_after(offset).map_err(failed("read", &self.path))?
                }
                _ => None,
            };
            let sight = recovery_table::End {
                bad: bad.map(|_| match later {
                    None => Behind::Nothing,
                    Some(later) if later.is_same_batch => Behind::SameBatch,
                    Some(_) => Behind::OtherBatch,
                }),
                is_followed: self.next.is_some(),
                is_required: report.watermark >= expected,
                is_aligned: header.alignment as usize == BLOCK_LEN,
            };
            let verdict = decide_end(sight).1;
            match (verdict, bad) {
                (Verdict::GoOn, _) | (Verdict::Truncate, None) => {}
                (Verdict::Truncate, Some(_)) if failpoint(Failpoint::Torn) => {}
                (Verdict::Truncate, Some(_)) => {
                    let byte_count = self.file_len - reader.offset();
                    assert!(
                        report.watermark <= report.last_sequence,
                        "a torn tail was never promised"
                    );
                    let (path, offset) = (self.path.clone(), reader.offset());
                    report.torn_tail = Some(TornTail { path, offset, byte_count });
                }
                (Verdict::Refuse, None) => {
                    let kind = DamageKind::EndMissing { marked: report.watermark };
                    return Err(self.damage(reader.offset(), expected, kind));
                }
                (Verdict::Refuse, Some((offset, fault))) => {
                    let marked = report.watermark;
                    let kind = match (self.next, later) {
                        (Some(later_sequence), _) => {
                            DamageKind::BadRecord { fault, later_sequence, later_offset: None }
                        }
                        (None, _) if sight.is_required => DamageKind::BadEnd { fault, marked },
                        (None, later) => {
                            let later = later.expect("only a later record refuses it");
                            let later_offset = Some(later.offset);
                            DamageKind::BadRecord {
                                fault,
                                later_sequence: later.sequence,
                                later_offset,
                            }
                        }
                    };
                    return Err(self.damage(offset, expected, kind));
                }
            }
            assert!(
                reader.offset() <= self.file_len,
                "{} ends within the file",
                self.path.display()
            );
            report.segments.push(SegmentReport {
                last_sequence: report.last_sequence,
                record_count: report.record_count - record_count,
                checkpoint_count: report.checkpoint_count - checkpoint_count,
                end: reader.offset(),
                chain: reader.chain(),
                ..told
            });
            return Ok(End {
                first_sequence: self.first_sequence,
                // One without an input is made anew, and its notes are left out.
                chain: if is_empty { header.chain } else { reader.chain() },
                offset: reader.offset(),
                file_len: if verdict == Verdict::Truncate {
                    reader.offset()
                } else {
                    self.file_len
                },
                is_empty,
            });
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
            if failpoint(Failpoint::Twice) && index > 0 && record.sequence.is_multiple_of(100) {
                let (_, before) = reader.record(index - 1);
                (record.kind, record.payload) = (before.kind, before.payload);
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

impl RecoveryReport {
    /// The first sequence of the first segment that was read; 0 if there is none.
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

pub(crate) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ReadError {
    move |source| ReadError::Storage { doing, path: path.to_owned(), source }
}
