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

/// The suffix of a file that is being copied.
const UNFINISHED: &str = ".part";

/// The number of attempts: a copy begins again if old segments or snapshots were removed meanwhile.
const ATTEMPTS: usize = 3;

/// The number of snapshots copied, newest first: as many as a venue keeps.
const SNAPSHOTS_MAX: usize = 2;

/// The content of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The identity of the copied journal.
    pub journal_id: u64,
    /// The sequence of the first input in the segments.
    pub first_sequence: u64,
    /// The sequence of the last input.
    pub last_sequence: u64,
    /// The number of segments.
    pub segment_count: u64,
    /// The number of compressed segments from before `first_sequence`.
    pub archive_count: u64,
    /// The sequences of the snapshots, newest first.
    pub snapshots: Vec<u64>,
    /// The total length of all files, in bytes.
    pub byte_count: u64,
}

/// The reason why there is no backup. The journal itself was not changed.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The journal cannot be read to its end.
    #[error(transparent)]
    Source(VerifyError),
    /// The target folder is not empty.
    #[error("{} is not empty: it holds `{found}`; name a new folder", .path.display())]
    NotEmpty {
        /// The path of the target.
        path: PathBuf,
        /// The name of one file in it.
        found: String,
    },
    /// The target cannot be written.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Target {
        /// The operation that failed.
        doing: &'static str,
        /// The path of the folder or file.
        path: PathBuf,
        /// The error from storage.
        source: io::Error,
    },
    /// The copy does not verify.
    #[error("the copy does not verify: {0}")]
    Copy(VerifyError),
    /// The journal does not begin with its first input, and no snapshot reaches its first sequence.
    #[error(
        "the journal begins with sequence {first_sequence}, and no snapshot covers the inputs before it; \
         make one with `damrak snapshot make`, then try again"
    )]
    NoSnapshot {
        /// The first sequence of the journal.
        first_sequence: u64,
    },
}

/// Copies the journal of `source` into `target`, a new or empty folder, and verifies the copy.
/// Copies all batches that are complete now, the newest snapshots and the compressed segments. Does
/// not lock or change the journal.
///
/// # Errors
/// The journal is damaged or cannot be read, or the target is not empty or cannot be written. The
/// files then in the target are not a journal: the watermark is missing.
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

/// The reason why one attempt ended.
enum Interrupted {
    /// The venue has removed a file that was to be copied.
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

/// Removes the files of a failed attempt.
fn clear(target: &mut dyn Storage) -> io::Result<()> {
    for name in target.list()?.iter().filter(|name| *name != LOCK_FILE) {
        target.remove(name)?;
    }
    Ok(())
}

/// Copies every file except the watermark. Snapshots come first, so the copied snapshots are never
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

/// Copies the first `len` bytes of a file, or all of it, and syncs the copy.
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
    // A file gets its name once it is complete: half a first segment would look like a segment that
    // a crash left before its first record.
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

/// Copies at most `len` bytes from `offset` on to the beginning of another file; returns the number
/// of bytes copied.
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
