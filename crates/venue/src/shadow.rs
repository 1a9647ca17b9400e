//! A second core that reads the journal of the first: for snapshots that do not stall it, and for
//! whoever wants to look at the state without touching the venue.

use std::io;

use engine::Engine;
use gateway::MessageArchive;
use journal::{
    Kind, Record, SnapshotError, SnapshotFault, SnapshotHeader, SnapshotSummary, Storage,
};
use market::{Input, Output};

use crate::{
    checkpoint::{HashCheck, StateHash},
    failure::Failure,
    recovery::{self, NotReplayed, verify_failure},
    snapshot::{self, State},
};

/// A state that follows a journal, and can be written as a snapshot.
pub struct Shadow {
    state: State,
    follower: journal::Follower,
    began_with: Option<SnapshotSummary>,
    /// Of the last record: its time, and the checksum of what it says.
    last: (u64, u32),
    hashes: HashCheck,
    passed_over: Vec<SnapshotError>,
}

impl Shadow {
    /// Begins with the newest snapshot in `snapshots` that can be used and has no record after
    /// `at_most`, or with the first record. The journal is read from `storage`, later. Keeps about so
    /// many bytes of replies, and as much of the feed.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn begin(
        storage: &dyn Storage,
        snapshots: &mut dyn Storage,
        at_most: u64,
        history_bytes: usize,
    ) -> Result<Self, Failure> {
        let Choice { found, passed_over } =
            choose(storage, snapshots, Age::Newest, at_most, history_bytes)?;
        let (began_with, state) = match found {
            Some((summary, state)) => (Some(summary), state),
            None => (None, State::new(history_bytes)),
        };
        let header = began_with.map_or(SnapshotHeader::default(), |summary| summary.header);
        let first = began_with.map_or(0, |_| header.sequence + 1);
        Ok(Self {
            state,
            follower: journal::Follower::new(storage.second(), first).with_checkpoints(),
            hashes: HashCheck::default(),
            began_with,
            last: (header.timestamp, header.payload_checksum),
            passed_over,
        })
    }

    /// Begins with the first record of the journal.
    #[must_use]
    pub fn from_the_first(storage: &dyn Storage, history_bytes: usize) -> Self {
        Self {
            state: State::new(history_bytes),
            follower: journal::Follower::new(storage.second(), 0).with_checkpoints(),
            hashes: HashCheck::default(),
            began_with: None,
            last: (0, 0),
            passed_over: Vec::new(),
        }
    }

    /// Takes up at most `limit` records, no input after the sequence `until`; says how many. `after` is
    /// called after each with the state it led to, `each` with every output.
    ///
    /// # Errors
    /// The journal cannot be read, or is damaged, or leads to another state than it says.
    pub fn poll(
        &mut self,
        limit: usize,
        until: u64,
        after: &mut dyn FnMut(&Input, &Engine),
        each: &mut dyn FnMut(&Output),
    ) -> Result<usize, Failure> {
        let Self { state, follower, last, hashes, .. } = self;
        follower
            .poll(limit, until, &mut |record: Record<'_>| {
                let State { engine, history } = state;
                if record.kind == Kind::Checkpoint {
                    if let Some(checkpoint) = StateHash::decode(record.payload) {
                        hashes.compare(&checkpoint, engine).map_err(NotReplayed::OtherState)?;
                    }
                    return Ok(());
                }
                let input = recovery::decode(&record)?;
                snapshot::apply(engine, &input, &mut |output| {
                    history.take(output);
                    each(output);
                });
                hashes.applied(engine);
                after(&input, engine);
                *last = (record.timestamp, journal::payload_checksum(record.payload));
                Ok::<(), NotReplayed>(())
            })
            .map_err(|error| verify_failure(&error))
    }

    /// The state after the last input that was taken up.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.state.engine
    }

    /// What the edges have said by then.
    #[must_use]
    pub fn history(&self) -> &MessageArchive {
        &self.state.history
    }

    /// The snapshot it began with, if with one.
    #[must_use]
    pub fn began_with(&self) -> Option<&SnapshotSummary> {
        self.began_with.as_ref()
    }

    /// How the state hashes in the journal compared.
    #[must_use]
    pub fn hashes(&self) -> &HashCheck {
        &self.hashes
    }

    /// Snapshots that could not be used, and why.
    #[must_use]
    pub fn passed_over(&self) -> &[SnapshotError] {
        &self.passed_over
    }

    /// The identity of the journal, once something was read of it.
    #[must_use]
    pub fn journal_id(&self) -> Option<u64> {
        self.follower.journal_id().or(self.began_with.map(|summary| summary.header.journal_id))
    }

    /// Brings what was read of the journal to the medium, so that a snapshot of it is never of
    /// records that a power cut takes back.
    ///
    /// # Errors
    /// It may not be there; never to be tried again.
    pub fn sync_journal(&mut self) -> Result<(), Failure> {
        self.follower.sync().map_err(|error| verify_failure(&error))
    }

    /// Writes the state as a snapshot made at `created` (ns since the Unix epoch); says how many
    /// bytes it takes. The journal was synced before.
    ///
    /// # Errors
    /// Storage failed; there is no new snapshot then.
    ///
    /// # Panics
    /// Nothing was read of the journal.
    pub fn write(&self, snapshots: &mut dyn Storage, created: u64) -> io::Result<u64> {
        let header = SnapshotHeader {
            journal_id: self.journal_id().expect("something was read"),
            sequence: self.engine().sequence().0,
            timestamp: self.last.0,
            payload_checksum: self.last.1,
            state_hash: 0,
            created,
        };
        self.state.write(snapshots, header)
    }
}

/// The first snapshot that can be used.
pub(crate) struct Choice {
    pub(crate) found: Option<(SnapshotSummary, State)>,
    /// Those tried before it, and why they cannot.
    pub(crate) passed_over: Vec<SnapshotError>,
}

/// Which snapshots are tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    Newest,
    Oldest,
}

/// Tries the snapshots of a folder in turn: docs/snapshot.md has the table.
pub(crate) fn choose(
    storage: &dyn Storage,
    snapshots: &mut dyn Storage,
    age: Age,
    at_most: u64,
    history_bytes: usize,
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
        match confirmed.and_then(|()| State::read(snapshots, journal_id, sequence, history_bytes)) {
            Ok(found) => return Ok(Choice { found: Some(found), passed_over }),
            Err(error) => passed_over.push(error),
        }
    }
    Ok(Choice { found: None, passed_over })
}

/// Looks whether the journal has the record that a snapshot ends with.
///
/// # Errors
/// The journal ends before the snapshot, has another record there, or cannot be read.
pub fn confirm(
    storage: &dyn Storage,
    snapshots: &dyn Storage,
    header: &SnapshotHeader,
) -> Result<(), SnapshotError> {
    let sequence = header.sequence;
    let mut follower = journal::Follower::new(storage.second(), sequence);
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
