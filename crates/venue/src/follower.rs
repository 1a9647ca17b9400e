//! A second engine that reads the journal: for snapshots and the ledger, which therefore cost the venue nothing, and
//! for `damrak follow`. A start and a replay apply records the same way.
//!
//! Start at [`Replica::replay`], the one loop; [`Follower`] reads the records for it.
//!
//! Invariants: the state is that of the journal's records up to its sequence, and every event digest in the journal up
//! to there matches its events. Records are read some inputs ahead of the state, and checked in their order.

use std::io;

use engine::{BATCH_MAX, Engine};
use gateway::MessageArchive;
use journal::{Record, RecordKind, SnapshotError, SnapshotHeader, SnapshotSummary, Storage};
use market::{EventDigest, Input, OutputLine};

use crate::{
    checkpoint::{Difference, DigestCheck, DigestRecord},
    failure::Failure,
    recovery::{
        self, NotReplayed,
        choose::{Age, Choice, choose},
        verify_failure,
    },
    snapshot::VenueState,
};

/// Called after each input, with the state after it and the digest of all lines so far.
pub type After<'a> = dyn FnMut(&Input, &Engine, EventDigest) + 'a;

/// Takes a record; fails if it is not a command, or if the events up to a checkpoint differ from the journal's.
pub type TakeRecord<'a> = dyn FnMut(&Record<'_>) -> Result<(), NotReplayed> + 'a;

/// A state to which the records of a journal are applied, one after the other.
#[derive(Debug, Default)]
pub struct Replica {
    /// The state after the last input applied.
    pub state: VenueState,
    /// The results of comparing the digests in the journal.
    pub digests: DigestCheck,
}

impl Replica {
    /// Applies the records that `read` shows, up to the first one refused. `after` is called after each input with the
    /// state after it, `each` with every line. Inputs already in the state are skipped.
    ///
    /// `read` gets the function that takes each record.
    pub fn replay<T>(
        &mut self,
        after: &mut After<'_>,
        each: &mut dyn FnMut(&OutputLine),
        read: impl FnOnce(&mut TakeRecord<'_>) -> T,
    ) -> T {
        let mut ahead = Vec::with_capacity(BATCH_MAX);
        let result = read(&mut |record| {
            if record.kind == RecordKind::Checkpoint {
                self.apply(&ahead, after, each);
                ahead.clear();
                return match DigestRecord::decode(record.payload) {
                    Some(checkpoint) => self.compare(&checkpoint).map_err(NotReplayed::OtherEvents),
                    None => Ok(()),
                };
            }
            let last = ahead.last().map_or(self.state.engine.sequence(), |it: &Input| it.sequence);
            if record.sequence > last.0 {
                ahead.push(recovery::decode(record)?);
            }
            if ahead.len() == BATCH_MAX {
                self.apply(&ahead, after, each);
                ahead.clear();
            }
            Ok(())
        });
        // Also the inputs before a refused record.
        self.apply(&ahead, after, each);
        result
    }

    /// Applies inputs read ahead, as a batch.
    pub(crate) fn apply<'a>(
        &mut self,
        ahead: impl IntoIterator<Item = &'a Input, IntoIter: Clone>,
        after: &mut After<'_>,
        each: &mut dyn FnMut(&OutputLine),
    ) {
        let Self { state, digests } = self;
        let mut after = |input: &Input, engine: &Engine, digest| {
            digests.applied(input.sequence, digest);
            after(input, engine, digest);
        };
        state.apply_batch(ahead, &mut after, each);
    }

    /// Compares the digest of a checkpoint.
    pub(crate) fn compare(&mut self, checkpoint: &DigestRecord) -> Result<(), Difference> {
        self.digests.compare(checkpoint, &self.state)
    }
}

/// A state that follows a journal, and can be written as a snapshot.
pub struct Follower {
    replica: Replica,
    journal: journal::JournalFollower,
    began_with: Option<SnapshotSummary>,
    /// The time of the last input, and the checksum of its payload.
    last: (u64, u32),
    passed_over: Vec<SnapshotError>,
}

impl Follower {
    /// Begins with the newest usable snapshot in `snapshots` without records after `at_most`, or with the first record.
    /// The journal is read from `storage`, later. With `archive_bytes` the follower keeps that many bytes of replies,
    /// and as many of the feed: a snapshot needs them.
    ///
    /// # Errors
    /// The folder cannot be listed, or the journal no longer has the records needed.
    pub fn begin(
        storage: &dyn Storage,
        snapshots: &mut dyn Storage,
        at_most: u64,
        archive_bytes: Option<usize>,
    ) -> Result<Self, Failure> {
        let Choice { found, passed_over } =
            choose(storage, snapshots, Age::Newest, at_most, archive_bytes)?;
        let Some((summary, state)) = found else {
            let first = journal::first_sequence(&mut *storage.second()).unwrap_or(None);
            if let Some(first) = first.filter(|first| *first > 1) {
                return Err(Failure::environment(format!(
                    "the journal in {} begins with input {first}, and no snapshot up to input {at_most} can \
                     be used",
                    storage.place().display()
                ))
                .hint("older segments were removed; old_segments = \"archive\" keeps them"));
            }
            return Ok(Self { passed_over, ..Self::from_the_first(storage, archive_bytes) });
        };
        let header = summary.header;
        Ok(Self {
            replica: Replica { state, digests: DigestCheck::default() },
            journal: journal::JournalFollower::new(storage.second(), header.sequence + 1)
                .with_checkpoints(),
            began_with: Some(summary),
            last: (header.timestamp, header.payload_checksum),
            passed_over,
        })
    }

    /// Begins with the first record of the journal. See [`begin`](Self::begin) for `archive_bytes`.
    pub fn from_the_first(storage: &dyn Storage, archive_bytes: Option<usize>) -> Self {
        Self {
            replica: Replica {
                state: VenueState::new(archive_bytes),
                digests: DigestCheck::default(),
            },
            journal: journal::JournalFollower::new(storage.second(), 0).with_checkpoints(),
            began_with: None,
            last: (0, 0),
            passed_over: Vec::new(),
        }
    }

    /// Applies at most `limit` records, no input after the sequence `until`, and returns the number applied; 0 if the
    /// journal has no more at present. `each` is called with every output.
    ///
    /// # Errors
    /// The journal cannot be read, is damaged, or its events differ from its digests.
    pub fn poll(
        &mut self,
        limit: usize,
        until: u64,
        each: &mut dyn FnMut(&OutputLine),
    ) -> Result<usize, Failure> {
        let Self { replica, journal, last, .. } = self;
        let known = replica.state.engine.sequence().0;
        replica
            .replay(&mut |_, _, _| {}, each, |take| {
                journal.poll(limit, until, &mut |record: Record<'_>| {
                    take(&record)?;
                    if record.kind == RecordKind::Input && record.sequence > known {
                        *last = (record.timestamp, journal::payload_checksum(record.payload));
                    }
                    Ok::<(), NotReplayed>(())
                })
            })
            .map_err(|error| verify_failure(&error))
    }

    /// The state after the last input applied, for a caller to continue with.
    pub fn into_engine(self) -> Engine {
        self.replica.state.engine
    }

    pub fn engine(&self) -> &Engine {
        &self.replica.state.engine
    }

    /// The last input applied; 0 is none.
    pub fn sequence(&self) -> u64 {
        self.engine().sequence().0
    }

    /// The messages that the gateways have sent up to that state, if they are kept.
    pub fn archive(&self) -> Option<&MessageArchive> {
        self.replica.state.archive.as_ref()
    }

    /// Takes the [`archive`](Self::archive), which is not kept from here on.
    pub fn take_archive(&mut self) -> Option<MessageArchive> {
        self.replica.state.archive.take()
    }

    /// The snapshot at the beginning, if there was one.
    pub fn began_with(&self) -> Option<&SnapshotSummary> {
        self.began_with.as_ref()
    }

    /// The digest of all events up to the present state.
    pub fn digest(&self) -> EventDigest {
        self.replica.state.digest
    }

    /// The results of comparing the digests in the journal.
    pub fn digests(&self) -> &DigestCheck {
        &self.replica.digests
    }

    /// Snapshots that could not be used, and the reasons.
    pub fn passed_over(&self) -> &[SnapshotError] {
        &self.passed_over
    }

    pub fn journal_id(&self) -> Option<u64> {
        self.journal.journal_id().or(self.began_with.map(|summary| summary.header.journal_id))
    }

    /// Syncs the bytes read from the journal, so that a power cut cannot take back records covered by a snapshot.
    ///
    /// # Errors
    /// The records may not be on the medium, and a second try would not show it.
    pub fn sync_journal(&mut self) -> Result<(), Failure> {
        self.journal.sync().map_err(|error| verify_failure(&error))
    }

    /// Writes the state as a snapshot made at `created` (ns since the Unix epoch), and returns its length in
    /// bytes. Call [`sync_journal`](Self::sync_journal) first.
    ///
    /// # Errors
    /// Storage failed; there is no new snapshot then.
    ///
    /// # Panics
    /// No record of the journal was read, or messages are not kept.
    pub fn write(&self, snapshots: &mut dyn Storage, created: u64) -> io::Result<u64> {
        let header = SnapshotHeader {
            journal_id: self.journal_id().expect("something was read"),
            sequence: self.sequence(),
            timestamp: self.last.0,
            payload_checksum: self.last.1,
            digest: 0,
            created,
        };
        self.replica.state.write(snapshots, header)
    }
}
