//! Retention: removes or archives the first segments of a journal, once snapshots cover them.
//!
//! Invariant: the segment with the record `sequence`, and every later one, stays.

use std::io;

use crate::{recovery::list_segments, segment::file_name, storage::Storage};

/// The first sequence of the first segment; `None` if there is none.
///
/// # Errors
/// The folder cannot be listed.
pub fn first_sequence(storage: &mut dyn Storage) -> io::Result<Option<u64>> {
    Ok(list_segments(storage)?.first().copied())
}

/// The first sequences of the segments that end before the one with the record `sequence`,
/// ascending. A start from a snapshot of that sequence does not need these segments.
///
/// # Errors
/// The folder cannot be listed.
pub fn segments_before(storage: &mut dyn Storage, sequence: u64) -> io::Result<Vec<u64>> {
    let segments = list_segments(storage)?;
    let ends = segments.iter().skip(1);
    let before = segments.iter().zip(ends).filter(|(_, next)| **next <= sequence);
    let before: Vec<u64> = before.map(|(first, _)| *first).collect();
    // A start needs a segment to append to: the last one is never among them.
    assert!(before.len() < segments.len().max(1), "{before:?} of {segments:?}");
    assert!(before.iter().all(|first| *first < sequence), "{before:?} end before {sequence}");
    Ok(before)
}

/// Removes these segments, the oldest first, so that an interruption leaves no hole. Returns their
/// number.
///
/// # Errors
/// The folder cannot be listed, or a segment cannot be removed.
pub fn remove_segments_before(storage: &mut dyn Storage, sequence: u64) -> io::Result<usize> {
    let segments = segments_before(storage, sequence)?;
    for first_sequence in &segments {
        storage.remove(&file_name(*first_sequence))?;
        // One by one: a power cut then removes only the first names.
        storage.sync_folder()?;
    }
    Ok(segments.len())
}
