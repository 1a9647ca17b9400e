//! Copies a journal into another folder, also while its venue writes it.
//!
//! Invariant: the copy is a whole journal or is not taken for one. A segment gets its name when it
//! is whole, and the watermark is written last, so a copy that was interrupted is refused when it is
//! opened; and the watermark names no record that the copy does not have on its medium.

use std::{
    convert::Infallible,
    io::{self, ErrorKind},
    path::PathBuf,
};

use thiserror::Error;

use crate::{
    archive,
    error::VerifyError,
    record::Record,
    recovery::{self, RecoveryReport, verify_from},
    retention::first_sequence,
    segment::{BLOCK_LEN, file_name},
    snapshot::{snapshot_file_name, snapshots},
    storage::{FileAccess, LOCK_FILE, Lock, Storage, StorageFile},
    watermark::{Found, Watermark},
};

/// How the name of a file ends that is being copied.
const UNFINISHED: &str = ".part";

/// How often a copy begins again because old segments or snapshots were removed meanwhile.
const ATTEMPTS: usize = 3;

/// Snapshots that are copied: the newest, as many as a venue keeps.
const SNAPSHOTS_MAX: usize = 2;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The identity of the journal.
    pub journal_id: u64,
    /// The first input in its segments.
    pub first_sequence: u64,
    /// The last input.
    pub last_sequence: u64,
    /// How many segments it has.
    pub segment_count: u64,
    /// How many compressed segments of before `first_sequence`.
    pub archive_count: u64,
    /// The sequences of its snapshots, newest first.
    pub snapshots: Vec<u64>,
    /// How many bytes all its files have.
    pub byte_count: u64,
}

/// Why there is no backup. The journal itself was not changed.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The journal cannot be read to its end.
    #[error(transparent)]
    Source(VerifyError),
    /// The target folder holds something.
    #[error("{} is not empty: it holds `{found}`; name a new folder", .path.display())]
    NotEmpty {
        /// The target.
        path: PathBuf,
        /// One of the files it holds.
        found: String,
    },
    /// The target cannot be written.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Target {
        /// What failed.
        doing: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// What storage said.
        source: io::Error,
    },
    /// The copy does not verify.
    #[error("the copy does not verify: {0}")]
    Copy(VerifyError),
    /// The journal does not begin with its first input, and no snapshot reaches what it begins with.
    #[error(
        "the journal begins with sequence {first_sequence}, and no snapshot covers the inputs before it; \
         make one with `damrak snapshot make`, then try again"
    )]
    NoSnapshot {
        /// The first input of the journal.
        first_sequence: u64,
    },
}

/// Copies the journal of `source` into `target`, which is made, or is empty: all whole batches that
/// are there now, the newest snapshots and compressed segments. Then verifies the copy. Takes no
/// lock of the journal and changes nothing of it.
///
/// # Errors
/// The journal is damaged or cannot be read, or the target is not empty or cannot be written. What
/// is in the target then is not a journal: it has no watermark.
pub fn backup(source: &mut dyn Storage, target: &mut dyn Storage) -> Result<Backup, BackupError> {
    let place = target.place();
    let failed = |doing| {
        let path = place.clone();
        move |source| BackupError::Target { doing, path, source }
    };
    refuse_if_not_empty(target)?;
    match target.lock().map_err(failed("lock"))? {
        Lock::Taken => {}
        Lock::HeldBy(_) => {
            let found = LOCK_FILE.to_owned();
            return Err(BackupError::NotEmpty { path: place, found });
        }
    }
    let mut attempts = 1..;
    let (snapshots, report) = loop {
        let attempt = attempts.next().expect("attempts are bounded");
        match copy(source, target) {
            Ok(copied) => break copied,
            Err(Interrupted::Moved) if attempt < ATTEMPTS => {
                clear(target).map_err(failed("clear"))?;
            }
            Err(Interrupted::Moved) => {
                let source = io::Error::other("old segments were removed during every attempt");
                return Err(failed("finish the copy in")(source));
            }
            Err(Interrupted::Failed(error)) => return Err(error),
        }
    };
    let journal_id = report.journal_id.expect("a whole segment was copied");
    target.sync_folder().map_err(failed("sync"))?;
    // Last: a copy without it is not taken for a journal.
    Watermark::create(target, journal_id, report.last_sequence, Found::Absent)
        .map_err(failed("write the watermark of"))?;
    let copy =
        verify_from(target, report.first_segment(), &mut accept).map_err(BackupError::Copy)?;
    assert!(
        copy.last_sequence == report.last_sequence && copy.segments.len() == report.segments.len(),
        "{copy:?} is a copy of {report:?}"
    );
    let names = target.list().map_err(failed("list"))?;
    let archive_count = names.iter().filter(|name| archive::is_archive(name)).count() as u64;
    let byte_count = byte_count(target, &names).map_err(failed("read"))?;
    Ok(Backup {
        journal_id,
        first_sequence: report.first_segment(),
        last_sequence: report.last_sequence,
        segment_count: report.segment_count,
        archive_count,
        snapshots,
        byte_count,
    })
}

/// Why one attempt ended.
enum Interrupted {
    /// The venue has removed what was to be copied.
    Moved,
    Failed(BackupError),
}

fn accept(_: Record<'_>) -> Result<(), Infallible> {
    Ok(())
}

fn refuse_if_not_empty(target: &mut dyn Storage) -> Result<(), BackupError> {
    let path = target.place();
    match target.list() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(BackupError::Target { doing: "list", path, source }),
        Ok(names) => match names.into_iter().find(|name| name != LOCK_FILE) {
            Some(found) => Err(BackupError::NotEmpty { path, found }),
            None => Ok(()),
        },
    }
}

/// Removes what an attempt has left.
fn clear(target: &mut dyn Storage) -> io::Result<()> {
    for name in target.list()?.iter().filter(|name| *name != LOCK_FILE) {
        target.remove(name)?;
    }
    Ok(())
}

/// Copies everything but the watermark. Snapshots come first: those that are copied are then never
/// newer than the segments.
fn copy(
    source: &mut dyn Storage,
    target: &mut dyn Storage,
) -> Result<(Vec<u64>, RecoveryReport), Interrupted> {
    let place = source.place();
    let read = |error: io::Error| {
        Interrupted::Failed(BackupError::Source(recovery::failed("read", &place)(error).into()))
    };
    let names = match source.list() {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(read)?,
    };
    let newest: Vec<u64> =
        snapshots(source).map_err(read)?.into_iter().take(SNAPSHOTS_MAX).collect();
    for sequence in &newest {
        copy_file(source, target, &snapshot_file_name(*sequence), None)?;
    }
    for name in names.iter().filter(|name| archive::is_archive(name)) {
        copy_file(source, target, name, None)?;
    }

    let first = first_sequence(source).map_err(read)?.unwrap_or(0);
    let verified = verify_from(source, first, &mut accept);
    let has_moved = |source: &mut dyn Storage| first_sequence(source).ok().flatten() != Some(first);
    let report = match verified {
        Ok(report) => report,
        Err(_) if first > 0 && has_moved(source) => return Err(Interrupted::Moved),
        Err(error) => return Err(Interrupted::Failed(BackupError::Source(error))),
    };
    let Some(last) = report.segments.last() else {
        let error = VerifyError::NotAJournal { path: place.clone() };
        return Err(Interrupted::Failed(BackupError::Source(error)));
    };
    assert!(last.last_sequence == report.last_sequence, "the last segment ends the journal");
    for segment in &report.segments {
        copy_file(source, target, &file_name(segment.first_sequence), Some(segment.end))?;
    }
    let kept: Vec<u64> = newest.into_iter().filter(|it| *it <= report.last_sequence).collect();
    if first > 1 && !kept.iter().any(|sequence| first <= sequence + 1) {
        let error = BackupError::NoSnapshot { first_sequence: first };
        return Err(if has_moved(source) {
            Interrupted::Moved
        } else {
            Interrupted::Failed(error)
        });
    }
    Ok((kept, report))
}

/// Copies the first `len` bytes of a file, or all of it, and brings them to the medium.
fn copy_file(
    source: &mut dyn Storage,
    target: &mut dyn Storage,
    name: &str,
    len: Option<u64>,
) -> Result<(), Interrupted> {
    let from = source.place().join(name);
    let mut file = match source.open(name, FileAccess::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Interrupted::Moved),
        opened => opened.map_err(|error| {
            let error = recovery::failed("open", &from)(error).into();
            Interrupted::Failed(BackupError::Source(error))
        })?,
    };
    let path = target.place().join(name);
    let failed = |source| Interrupted::Failed(BackupError::Target { doing: "write", path, source });
    // A file gets its name when it is whole: half a first segment would look like one that a crash
    // left before its first record.
    let unfinished = format!("{name}{UNFINISHED}");
    let copied = target.create(&unfinished).and_then(|mut copy| {
        let count = copy_range(&mut *file, 0, len.unwrap_or(u64::MAX), &mut *copy)?;
        if len.is_some_and(|len| count < len) {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "the journal became shorter"));
        }
        copy.sync()
    });
    copied.and_then(|()| target.rename(&unfinished, name)).map_err(failed)
}

/// Copies bytes from `offset` on, at most `len` of them, to the beginning of another file; returns
/// how many there were.
pub(crate) fn copy_range(
    from: &mut dyn StorageFile,
    offset: u64,
    len: u64,
    to: &mut dyn StorageFile,
) -> io::Result<u64> {
    let mut chunk = vec![0; 256 * BLOCK_LEN];
    let mut copied = 0;
    while copied < len {
        let wanted = usize::try_from(len - copied).unwrap_or(usize::MAX).min(chunk.len());
        let count = from.read_at(offset + copied, &mut chunk[..wanted])?;
        if count == 0 {
            break;
        }
        to.write_at(copied, &chunk[..count])?;
        copied += count as u64;
    }
    Ok(copied)
}

fn byte_count(storage: &mut dyn Storage, names: &[String]) -> io::Result<u64> {
    names.iter().map(|name| storage.open(name, FileAccess::Read)?.byte_count()).sum()
}
