//! The choice of the snapshot that begins a replay: the newest, or the oldest, that is whole and of this journal.
//! docs/snapshot.md has the table.
//!
//! Invariant: a snapshot is used only if the journal still has the same record as the snapshot's last.

use journal::{Record, SnapshotError, SnapshotFault, SnapshotHeader, SnapshotSummary, Storage};

use crate::{failure::Failure, snapshot::VenueState};

/// The first usable snapshot.
pub(crate) struct Choice {
    pub(crate) found: Option<(SnapshotSummary, VenueState)>,
    /// The snapshots tried before it, and the reasons why they cannot be used.
    pub(crate) passed_over: Vec<SnapshotError>,
}

/// The order in which snapshots are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    Newest,
    Oldest,
}

/// Tries the snapshots of a folder in turn, but none after the sequence `at_most`.
pub(crate) fn choose(
    storage: &dyn Storage,
    snapshots: &mut dyn Storage,
    age: Age,
    at_most: u64,
    archive_bytes: Option<usize>,
) -> Result<Choice, Failure> {
    let mut passed_over = Vec::new();
    let mut listed = journal::snapshots(snapshots).map_err(|error| {
        let place = snapshots.place();
        Failure::environment(format!("cannot list {}: {error}", place.display()))
    })?;
    if age == Age::Oldest {
        listed.reverse();
    }
    let journal_id = journal::identity(&mut *storage.second());
    for sequence in listed.into_iter().filter(|sequence| *sequence <= at_most) {
        let confirmed = journal::read_snapshot_header(snapshots, journal_id, sequence)
            .and_then(|header| confirm(storage, snapshots, &header));
        let mut read = || VenueState::read(snapshots, journal_id, sequence, archive_bytes);
        match confirmed.and_then(|()| read()) {
            Ok(found) => return Ok(Choice { found: Some(found), passed_over }),
            Err(error) => passed_over.push(error),
        }
    }
    Ok(Choice { found: None, passed_over })
}

/// Checks whether the journal has the record that a snapshot ends with.
///
/// # Errors
/// The journal ends before the snapshot, has another record there, or cannot be read.
pub fn confirm(
    storage: &dyn Storage,
    snapshots: &dyn Storage,
    header: &SnapshotHeader,
) -> Result<(), SnapshotError> {
    let sequence = header.sequence;
    let mut follower = journal::JournalFollower::new(storage.second(), sequence);
    let mut found = None;
    let read = follower.poll(1, sequence, &mut |record: Record<'_>| {
        found = Some((record.timestamp, journal::payload_checksum(record.payload)));
        Ok::<(), std::convert::Infallible>(())
    });
    let fault = match (read, found) {
        (Ok(_), Some(found)) if found == (header.timestamp, header.payload_checksum) => {
            return Ok(());
        }
        (Ok(_), Some(_)) => SnapshotFault::OtherHistory(sequence),
        (Ok(_), None) => SnapshotFault::AfterTheEnd(follower.last_sequence()),
        (Err(error), _) => SnapshotFault::Refused(error.into()),
    };
    let path = snapshots.place().join(journal::snapshot_file_name(sequence));
    Err(SnapshotError { path, offset: 0, fault })
}
