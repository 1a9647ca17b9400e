//! Truncates a journal: an operator's decision where opening refuses.
//!
//! Invariant: no byte is deleted. The removed part moves into files of the same folder that opening
//! ignores; after an interruption at any moment the rest is a prefix of the journal.

use std::{convert::Infallible, io, path::PathBuf};

use crate::{
    backup::copy_range,
    error::{OpenError, ReadError},
    record::Record,
    recovery::{self, End, Range, failed, list_ours, lock, read},
    segment::{SEGMENT_HEADER_LEN, file_name},
    storage::{ASIDE, FileAccess, Storage, WATERMARK_FILE},
    watermark::{self, Found, Watermark, WatermarkValue},
};

/// A planned truncation. It holds the lock of the journal.
pub struct Truncation {
    storage: Box<dyn Storage>,
    segments: Vec<u64>,
    watermark: Found,
    journal_id: u64,
    /// The end of the last batch kept; `None` if no batch is kept.
    end: Option<End>,
    /// The last sequence kept; 0 is none.
    pub last_sequence: u64,
    /// The last sequence that verifies.
    pub readable_sequence: u64,
    /// The number of inputs given up that can be read, or that were once on the medium.
    pub given_up: u64,
    /// The damage of the journal; `None` if it is intact and would open as it is.
    pub damage: Option<String>,
}

/// The result of a truncation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The last sequence of the journal now; 0 is none.
    pub last_sequence: u64,
    /// The files with the bytes that were cut off.
    pub aside: Vec<PathBuf>,
}

impl Truncation {
    /// Plans the part to keep: all whole batches up to `last`, or without it, up to the first
    /// damage. Changes nothing.
    ///
    /// # Errors
    /// Another process holds the journal, it cannot be read, or it is damaged before `last`.
    pub fn plan(mut storage: Box<dyn Storage>, last: Option<u64>) -> Result<Self, OpenError> {
        let place = storage.place();
        let segments = list_ours(&mut *storage)?;
        if segments.is_empty() {
            return Err(OpenError::NotAJournal { path: place, found: "no segment".to_owned() });
        }
        lock(&mut *storage)?;
        let path = place.join(WATERMARK_FILE);
        let watermark = watermark::read(&mut *storage).map_err(failed("read", &path))?;
        let journal_id = recovery::identity(&mut *storage).unwrap_or(0);
        // A truncation gives up records that the watermark requires.
        let no_promise = match watermark {
            Found::Unknown(version) => Found::Unknown(version),
            _ => Found::Value(WatermarkValue { journal_id, sequence: 0, count: 0 }, None),
        };

        let all = Range { from: segments[0], until: u64::MAX };
        let mut accept = |_: Record<'_>| Ok::<(), Infallible>(());
        let read_all = read(&mut *storage, &segments, no_promise, all, &mut accept);
        let (readable_sequence, mut damage) = match read_all {
            Ok((report, _)) => (report.last_sequence, None),
            Err(ReadError::Damaged(damage)) if damage.is_corruption() => {
                (damage.sequence.saturating_sub(1), Some(damage.to_string()))
            }
            Err(error) => return Err(error.into()),
        };
        let promised = match watermark {
            Found::Value(value, _) if value.journal_id == journal_id => value.sequence,
            Found::Value(..) => {
                damage.get_or_insert("the watermark is of another journal".to_owned());
                0
            }
            _ => {
                damage.get_or_insert("the watermark is missing or damaged".to_owned());
                0
            }
        };
        if readable_sequence < promised {
            damage.get_or_insert(format!(
                "the journal ends with sequence {readable_sequence}, below its watermark {promised}"
            ));
        }
        let until = last.unwrap_or(readable_sequence).min(readable_sequence);
        let range = Range { until, ..all };
        let (last_sequence, end) = if until < segments[0] {
            (0, None)
        } else {
            let (report, end) = read(&mut *storage, &segments, no_promise, range, &mut accept)?;
            (report.last_sequence, end)
        };
        assert!(last_sequence <= until, "{last_sequence} is kept, {until} was asked for");
        let given_up = readable_sequence.max(promised) - last_sequence;
        Ok(Self {
            storage,
            segments,
            watermark,
            journal_id,
            end,
            last_sequence,
            readable_sequence,
            given_up,
            damage,
        })
    }

    /// Truncates the journal. The journal then opens, and continues after `last_sequence`.
    ///
    /// # Errors
    /// The journal cannot be written. The rest is a prefix of it.
    pub fn apply(self) -> Result<Truncated, OpenError> {
        let Self { mut storage, segments, watermark, journal_id, end, last_sequence, .. } = self;
        let place = storage.place();
        // The watermark first: it would refuse the shorter journal. Then from the end backwards.
        Watermark::create(&mut *storage, journal_id, last_sequence, watermark)
            .map_err(failed("write", &place.join(WATERMARK_FILE)))?;
        let mut aside = Vec::new();
        let kept = end.as_ref().map_or(0, |end| end.first_sequence);
        for first_sequence in segments.iter().rev().filter(|it| **it > kept) {
            let name = file_name(*first_sequence);
            let other = put_aside(&mut *storage, &name, 0).map_err(failed("put aside", &place))?;
            storage.remove(&name).map_err(failed("remove", &place.join(&name)))?;
            aside.push(place.join(other));
        }
        if let Some(end) = end.filter(|end| end.offset < end.file_len) {
            assert!(end.offset >= SEGMENT_HEADER_LEN, "a segment that is kept keeps its header");
            let name = file_name(end.first_sequence);
            let other =
                put_aside(&mut *storage, &name, end.offset).map_err(failed("put aside", &place))?;
            let truncated = storage.open(&name, FileAccess::Write).and_then(|mut file| {
                file.truncate(end.offset)?;
                file.sync()
            });
            truncated.map_err(failed("truncate", &place.join(&name)))?;
            aside.push(place.join(other));
        }
        storage.sync_folder().map_err(failed("sync", &place))?;
        Ok(Truncated { last_sequence, aside })
    }
}

/// Copies the bytes of a file from `offset` on into a file with a free name; returns the name.
fn put_aside(storage: &mut dyn Storage, name: &str, offset: u64) -> io::Result<String> {
    let stem = name.trim_end_matches(".damrak");
    let names = storage.list()?;
    let free = (1..)
        .map(|nth| format!("{ASIDE}{nth}-of-{stem}-from-{offset}"))
        .find(|free| !names.contains(free));
    let free = free.expect("numbers do not end");
    let mut from = storage.open(name, FileAccess::Read)?;
    let mut to = storage.create(&free)?;
    copy_range(&mut *from, offset, u64::MAX, &mut *to)?;
    to.sync()?;
    storage.sync_folder()?;
    Ok(free)
}
