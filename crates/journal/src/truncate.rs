//! Giving up the end of a journal on purpose: what an operator decides where opening refuses.
//!
//! Nothing is thrown away: what is cut is put aside in the folder, under names that opening does not
//! look at.

use std::{convert::Infallible, io, path::PathBuf};

use crate::{
    error::{OpenError, ReadError},
    record::Record,
    recovery::{self, Range, failed, list_ours, lock, read},
    segment::{SEGMENT_HEADER_LEN, file_name},
    storage::{ASIDE, Access, Storage, WATERMARK_FILE},
    watermark::{self, Found, Watermark, WatermarkValue},
};

/// What a cut came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The last sequence that is there now.
    pub last_sequence: u64,
    /// The files that what followed was put into.
    pub aside: Vec<PathBuf>,
    /// What was wrong behind it, if that is why it ends there.
    pub because: Option<String>,
}

/// Gives up all batches that go beyond `last`, and whatever is wrong behind them; without `last`, all
/// that cannot be had. The watermark says so from then on, and the journal can be opened.
///
/// # Errors
/// The journal is held, cannot be read or written, or has something wrong before `last`.
pub fn truncate(mut storage: Box<dyn Storage>, last: Option<u64>) -> Result<Truncated, OpenError> {
    let place = storage.place();
    let segments = list_ours(&mut *storage)?;
    if segments.is_empty() {
        return Err(OpenError::NotAJournal { path: place, found: "no segment".to_owned() });
    }
    lock(&mut *storage)?;
    let found =
        watermark::read(&mut *storage).map_err(failed("read", &place.join(WATERMARK_FILE)))?;
    let journal_id = recovery::identity(&mut *storage).unwrap_or(0);
    // What the watermark says is what is given up.
    let without_watermark = match found {
        Found::Unknown(version) => Found::Unknown(version),
        _ => Found::Value(WatermarkValue { journal_id, sequence: 0, count: 0 }, None),
    };

    let mut because = None;
    let all = Range { from: segments[0], until: u64::MAX };
    let mut accept = |_: Record<'_>| Ok::<(), Infallible>(());
    let end_of_all = match read(&mut *storage, &segments, without_watermark, all, &mut accept) {
        Ok((report, _)) => report.last_sequence,
        Err(ReadError::Damaged(damage)) if damage.is_corruption() => {
            because = Some(damage.to_string());
            damage.sequence.saturating_sub(1)
        }
        Err(error) => return Err(error.into()),
    };
    let until = last.unwrap_or(end_of_all).min(end_of_all);
    let range = Range { until, ..all };
    let (last_sequence, end) = if until < segments[0] {
        (0, None)
    } else {
        let (report, end) = read(&mut *storage, &segments, without_watermark, range, &mut accept)?;
        (report.last_sequence, end)
    };

    // First the watermark, which would refuse what is left; then from the end, so that what is left is
    // the beginning whenever this is interrupted.
    Watermark::create(&mut *storage, journal_id, last_sequence, found)
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
        let name = file_name(end.first_sequence);
        let other =
            put_aside(&mut *storage, &name, end.offset).map_err(failed("put aside", &place))?;
        let truncated = storage.open(&name, Access::Write).and_then(|mut file| {
            file.truncate(end.offset.max(SEGMENT_HEADER_LEN))?;
            file.sync()
        });
        truncated.map_err(failed("truncate", &place.join(&name)))?;
        aside.push(place.join(other));
    }
    storage.sync_folder().map_err(failed("sync", &place))?;
    Ok(Truncated { last_sequence, aside, because })
}

/// Copies what a file has from `offset` on into one whose name is free, and gives that name.
fn put_aside(storage: &mut dyn Storage, name: &str, offset: u64) -> io::Result<String> {
    let stem = name.trim_end_matches(".damrak");
    let names = storage.list()?;
    let free = (1..)
        .map(|nth| format!("{ASIDE}{nth}-of-{stem}-from-{offset}"))
        .find(|free| !names.contains(free));
    let free = free.expect("numbers do not end");
    let mut from = storage.open(name, Access::Read)?;
    let mut to = storage.create(&free)?;
    let mut chunk = vec![0; 1 << 20];
    let mut at = offset;
    loop {
        let len = from.read_at(at, &mut chunk)?;
        if len == 0 {
            break;
        }
        to.write_at(at - offset, &chunk[..len])?;
        at += len as u64;
    }
    to.sync()?;
    storage.sync_folder()?;
    Ok(free)
}
