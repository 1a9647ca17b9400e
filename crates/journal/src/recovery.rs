//! Opening a journal: what is there is replayed, a torn tail is cut, anything else that does not
//! verify is refused. The decision table is in docs/journal.md, row by row what `read` does.

use std::{
    ffi::OsStr,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use crate::{
    error::{BoxError, Damage, DamageKind, HeaderFault, OpenError, ReadError, VerifyError},
    reader::{Next, SegmentReader, read_exact_at},
    record::{self, Record, encoded_len},
    segment::{
        BLOCK_LEN, Name, SEGMENT_HEADER_LEN, SegmentHeader, file_name, is_half_made, read_name,
    },
    storage::{Access, LOCK_FILE, Lock, Storage, StorageFile},
    writer::{Durability, Tail, Writer},
};

/// How a journal is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// What a commit waits for.
    pub durability: Durability,
    /// A segment ends before the record that would make it longer than this, in bytes, headers
    /// included; it has at least one record.
    pub segment_bytes: u64,
    /// The identity of the journal, if there is none yet. Two journals should not share one: by it
    /// their records are told apart.
    pub journal_id_if_new: u64,
    /// The time now, in ns since the Unix epoch; kept in the first segment and nowhere used.
    pub created: u64,
    /// Segments that end before this sequence are not read and need not be there: what they say is
    /// known from a snapshot. 0 reads all from the first record of the journal on.
    pub from: u64,
}

impl Options {
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

/// What a journal holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
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
    /// How many records verified.
    pub record_count: u64,
    /// How many bytes they and the headers take.
    pub byte_count: u64,
    /// How many segments there are.
    pub segment_count: u64,
    /// The torn tail that was cut, or that the next [`open`] would cut.
    pub cut: Option<Cut>,
    /// Copies of headers that are damaged, where the other copy verifies. Nothing is lost; a copy
    /// of the folder should be taken.
    pub damaged_headers: Vec<HeaderCopy>,
}

/// A torn tail: bytes of which nothing was confirmed, unless the medium lost what it had synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment.
    pub path: PathBuf,
    /// Where in it the tail begins; 0 if its header was not whole, and then the file is removed.
    pub offset: u64,
    /// How many bytes it has.
    pub byte_count: u64,
}

/// One of the two copies of a segment's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderCopy {
    /// The segment.
    pub path: PathBuf,
    /// Where in it the copy begins.
    pub offset: u64,
}

/// Takes the journal in `storage` for this writer alone, makes it if there is none, shows every
/// record to `replay` in order (those from the segment on that has [`Options::from`]), cuts a torn tail, and leaves the writer at the end. All that is
/// replayed is on the medium before it is read.
///
/// # Errors
/// The folder is held, holds something else, cannot be read or written, or holds bytes that are
/// neither the journal nor a torn tail of it; or `replay` failed. What was replayed until then is
/// to be thrown away.
pub fn open<E: Into<BoxError>>(
    mut storage: Box<dyn Storage>,
    options: &Options,
    replay: &mut impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<(Writer, Report), OpenError> {
    list_ours(&mut *storage)?; // before the lock is made: the folder may be somebody else's
    lock(&mut *storage)?;
    let segments = list_ours(&mut *storage)?; // again: its last writer may just have left
    bring_to_the_medium(&mut *storage, &segments)?;

    let (mut report, end) = read(&mut *storage, &segments, options.from, replay)?;
    if let Some(cut) = &report.cut {
        apply(&mut *storage, cut)?;
    }
    let end = match end {
        Some(end) => end,
        None => begin(&mut *storage, options, &mut report)?,
    };

    let name = file_name(end.header.first_sequence);
    let path = storage.place().join(&name);
    let file = storage.open(&name, Access::Append).map_err(failed("open", &path))?;
    let tail = Tail {
        file,
        header: end.header,
        file_len: end.file_len,
        last_sequence: report.last_sequence,
        last_timestamp: report.last_timestamp,
    };
    let Options { durability, segment_bytes, .. } = *options;
    Ok((Writer::new(storage, durability, segment_bytes, tail), report))
}

/// Shows every record to `visit` in order and changes nothing, not even a torn tail. It takes no
/// lock: beside a venue that writes, it sees what was written when it came to the last segment.
///
/// # Errors
/// The folder holds no journal, cannot be read, or holds bytes that are neither the journal nor a
/// torn tail of it; or `visit` failed.
pub fn verify<E: Into<BoxError>>(
    storage: &mut dyn Storage,
    visit: &mut impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<Report, VerifyError> {
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
) -> Result<Report, VerifyError> {
    let path = storage.place();
    let names = storage.list().map_err(failed("list", &path))?;
    let listing = Listing::of(&names);
    if listing.segments.is_empty() {
        return Err(VerifyError::NotAJournal { path });
    }
    listing.refuse_misnamed(&path)?;
    let (report, _) = read(storage, &listing.segments, from, visit)?;
    Ok(report)
}

/// The identity of the journal in `storage`, without reading its records; `None` if there is no
/// journal, or none that [`open`] would take up.
pub fn identity(storage: &mut dyn Storage) -> Option<u64> {
    let names = storage.list().ok()?;
    let segments = Listing::of(&names).segments;
    let first_sequence = *segments.first().filter(|first_sequence| **first_sequence > 0)?;
    let name = file_name(first_sequence);
    let mut file = storage.open(&name, Access::Read).ok()?;
    let file_len = file.byte_count().ok()?;
    let path = storage.place().join(&name);
    let segment = Segment { path, first_sequence, next: segments.get(1).copied(), file_len };
    let mut before = Report { last_sequence: first_sequence - 1, ..Report::default() };
    let header = segment.read_header(&mut *file, &mut before).ok()??;
    Some(header.journal_id)
}

/// Where the last whole segment ends.
struct End {
    header: SegmentHeader,
    file_len: u64,
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
        for name in names.iter().filter(|name| *name != LOCK_FILE) {
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
pub(crate) fn list_segments(storage: &mut dyn Storage) -> Result<Vec<u64>, ReadError> {
    let path = storage.place();
    match storage.list() {
        Ok(names) => Ok(Listing::of(&names).segments),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed("list", &path)(error)),
    }
}

/// The segments of a journal, or none where one may be made.
fn list_ours(storage: &mut dyn Storage) -> Result<Vec<u64>, OpenError> {
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

fn lock(storage: &mut dyn Storage) -> Result<(), OpenError> {
    let path = storage.place();
    match storage.lock().map_err(failed("lock", &path))? {
        Lock::Taken => Ok(()),
        Lock::HeldBy(holder) => Err(OpenError::Locked { path, holder }),
    }
}

/// What a killed process wrote may be in the page cache only. It is brought to the medium before
/// it is acted on, or the next power cut would take back what this run has answered. Segments
/// before the last were synced when they ended.
fn bring_to_the_medium(storage: &mut dyn Storage, segments: &[u64]) -> Result<(), ReadError> {
    let place = storage.place();
    storage.sync_folder().map_err(failed("sync", &place))?;
    if let Some(last) = segments.last() {
        let name = file_name(*last);
        let mut file =
            storage.open(&name, Access::Append).map_err(failed("open", &place.join(&name)))?;
        file.sync().map_err(failed("sync", &place.join(&name)))?;
    }
    Ok(())
}

fn apply(storage: &mut dyn Storage, cut: &Cut) -> Result<(), ReadError> {
    let name = cut.path.file_name().and_then(OsStr::to_str).expect("the name of a segment");
    let done = if cut.offset == 0 {
        storage.remove(name).and_then(|()| storage.sync_folder())
    } else {
        storage.open(name, Access::Append).and_then(|mut file| {
            file.truncate(cut.offset)?;
            file.sync()
        })
    };
    done.map_err(failed("cut the torn tail of", &cut.path))
}

/// Makes the first segment of a journal that has none.
fn begin(
    storage: &mut dyn Storage,
    options: &Options,
    report: &mut Report,
) -> Result<End, ReadError> {
    let header = SegmentHeader {
        journal_id: options.journal_id_if_new,
        first_sequence: 1,
        created: options.created,
    };
    let path = storage.place().join(file_name(1));
    header.create(storage).map_err(failed("create", &path))?;
    report.add_segment(&header);
    Ok(End { header, file_len: SEGMENT_HEADER_LEN })
}

/// Where in the list the segment stands that has the record `from`, or should have it; the first if
/// it is none's.
pub(crate) fn index_of(segments: &[u64], from: u64) -> usize {
    segments.partition_point(|first_sequence| *first_sequence <= from).saturating_sub(1)
}

/// Reads the segments from the one on that has the record `from`. What is returned beside the report
/// is where to go on; `None` if there is no whole segment.
fn read<E: Into<BoxError>>(
    storage: &mut dyn Storage,
    segments: &[u64],
    from: u64,
    replay: &mut impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<(Report, Option<End>), ReadError> {
    let first_index = index_of(segments, from);
    let mut report = Report::default();
    if let Some(first_sequence) = segments.get(first_index).filter(|it| (1..=from).contains(*it)) {
        // What comes before is known from elsewhere, or `from` would not say so.
        report.last_sequence = first_sequence - 1;
    }
    let mut end = None;
    for (index, &first_sequence) in segments.iter().enumerate().skip(first_index) {
        let name = file_name(first_sequence);
        let path = storage.place().join(&name);
        let mut file = storage.open(&name, Access::Read).map_err(failed("open", &path))?;
        let file_len = file.byte_count().map_err(failed("read", &path))?;
        let segment =
            Segment { path, first_sequence, next: segments.get(index + 1).copied(), file_len };

        let Some(header) = segment.read_header(&mut *file, &mut report)? else {
            if end.is_none() && index > 0 {
                // It never had a record: the one before it is where to begin, and to go on.
                return read(storage, segments, segments[index - 1], replay);
            }
            report.cut = Some(Cut { path: segment.path, offset: 0, byte_count: file_len });
            break;
        };
        report.add_segment(&header);
        let file_len = segment.read_records(&header, file, &mut report, replay)?;
        end = Some(End { header, file_len });
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
    /// The header, if it is the one that should be here; `None` if a crash left it half made.
    pub(crate) fn read_header(
        &self,
        file: &mut dyn StorageFile,
        report: &mut Report,
    ) -> Result<Option<SegmentHeader>, ReadError> {
        let expected = report.last_sequence + 1;
        let damaged = |offset, kind| Err(self.damage(offset, expected, kind));
        if self.first_sequence != expected {
            let found = self.first_sequence;
            return damaged(0, DamageKind::MissingSegment { expected, found });
        }

        let mut bytes = vec![0; self.file_len.min(SEGMENT_HEADER_LEN) as usize];
        read_exact_at(file, 0, &mut bytes).map_err(failed("read", &self.path))?;
        let (first, second) = bytes.split_at(bytes.len().min(BLOCK_LEN));
        let copies = [SegmentHeader::decode(first), SegmentHeader::decode(second)];
        // No record is written before the header is whole, so nothing is lost with it.
        let may_be_half_made = self.next.is_none() && self.file_len <= SEGMENT_HEADER_LEN;

        let (header, damaged_copy) = match copies {
            [Ok(first), Ok(second)] if first == second => (first, None),
            [Ok(_), Ok(_) | Err(HeaderFault::Version(_))]
            | [Err(HeaderFault::Version(_)), Ok(_)] => {
                return damaged(0, DamageKind::HeaderContradicts);
            }
            [Ok(first), Err(_)] => (first, Some(BLOCK_LEN as u64)),
            [Err(_), Ok(second)] => (second, Some(0)),
            [Err(HeaderFault::Version(version)), _] => {
                return damaged(0, DamageKind::UnknownVersion(version));
            }
            [_, Err(HeaderFault::Version(version))] => {
                return damaged(BLOCK_LEN as u64, DamageKind::UnknownVersion(version));
            }
            [Err(_), Err(_)] if may_be_half_made && is_half_made(&bytes) => return Ok(None),
            [Err(first), Err(second)] => {
                return damaged(0, DamageKind::HeaderDamaged { first, second });
            }
        };
        if let Some(expected) = report.journal_id
            && header.journal_id != expected
        {
            return damaged(0, DamageKind::ForeignJournal { expected, found: header.journal_id });
        }
        if header.first_sequence != self.first_sequence {
            return damaged(0, DamageKind::Misnamed);
        }
        if let Some(offset) = damaged_copy {
            if may_be_half_made {
                return Ok(None);
            }
            if self.file_len < SEGMENT_HEADER_LEN {
                return damaged(self.file_len, DamageKind::HeaderCutShort);
            }
            report.damaged_headers.push(HeaderCopy { path: self.path.clone(), offset });
        }
        Ok(Some(header))
    }

    /// Replays the records, and says where the whole ones end.
    fn read_records<E: Into<BoxError>>(
        &self,
        header: &SegmentHeader,
        file: Box<dyn StorageFile>,
        report: &mut Report,
        replay: &mut impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<u64, ReadError> {
        let seed = record::seed(header.journal_id, header.first_sequence);
        let mut reader = SegmentReader::new(file, self.file_len, seed);
        loop {
            let offset = reader.offset();
            let expected = report.last_sequence + 1;
            match reader.next().map_err(failed("read", &self.path))? {
                Next::Record(record) => {
                    report.check(&record).map_err(|kind| self.damage(offset, expected, kind))?;
                    replay(record).map_err(|error| ReadError::Refused {
                        path: self.path.clone(),
                        offset,
                        sequence: record.sequence,
                        source: error.into(),
                    })?;
                    report.add_record(&record);
                }
                Next::End => return Ok(offset),
                Next::Bad(fault) => {
                    let later = match self.next {
                        Some(next) => Some((next, None)),
                        None => reader
                            .find_after(self.first_sequence)
                            .map_err(failed("read", &self.path))?
                            .map(|(sequence, offset)| (sequence, Some(offset))),
                    };
                    if let Some((later_sequence, later_offset)) = later {
                        let kind = DamageKind::BadRecord { fault, later_sequence, later_offset };
                        return Err(self.damage(offset, expected, kind));
                    }
                    let byte_count = self.file_len - offset;
                    report.cut = Some(Cut { path: self.path.clone(), offset, byte_count });
                    return Ok(offset);
                }
            }
        }
    }

    fn damage(&self, offset: u64, sequence: u64, kind: DamageKind) -> ReadError {
        ReadError::Damaged(Box::new(Damage { path: self.path.clone(), offset, sequence, kind }))
    }
}

impl Report {
    /// A record that verifies is the next one, and not older than the one before it.
    pub(crate) fn check(&self, record: &Record<'_>) -> Result<(), DamageKind> {
        let expected = self.last_sequence + 1;
        if record.sequence != expected {
            return Err(DamageKind::SequenceGap { expected, found: record.sequence });
        }
        if record.timestamp < self.last_timestamp {
            let previous = self.last_timestamp;
            return Err(DamageKind::TimeWentBack { previous, found: record.timestamp });
        }
        Ok(())
    }

    pub(crate) fn add_segment(&mut self, header: &SegmentHeader) {
        if self.segment_count == 0 {
            self.journal_id = Some(header.journal_id);
            self.created = header.created;
        }
        self.segment_count += 1;
        self.byte_count += SEGMENT_HEADER_LEN;
    }

    pub(crate) fn add_record(&mut self, record: &Record<'_>) {
        if self.record_count == 0 {
            self.first_sequence = record.sequence;
        }
        self.last_sequence = record.sequence;
        self.last_timestamp = record.timestamp;
        self.record_count += 1;
        self.byte_count += encoded_len(record.payload.len()) as u64;
    }
}

pub(crate) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ReadError {
    move |source| ReadError::Storage { doing, path: path.to_owned(), source }
}
