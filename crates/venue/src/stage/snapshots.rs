//! The schedule of snapshots, writing them, and the removal of files that two newer ones cover.
//!
//! Invariant: nothing is removed that a start or the ledger still needs.

use std::sync::Arc;

use journal::Storage;
use ring::{AgentError, AtomicGauge};

use super::{Perturbation, Perturbations};
use crate::{config::OldSegments, follower::Follower};

/// The number of snapshots kept.
const KEPT: usize = 2;

/// The pause after a snapshot that could not be written, in nanoseconds.
const RETRY_NS: u64 = 60_000_000_000;

/// The schedule of snapshots, and the limits of their contents.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPlan {
    /// Inputs between two snapshots; 0 is never.
    pub inputs: u64,
    /// Nanoseconds between two snapshots, if there were inputs; 0 is never.
    pub time_ns: u64,
    /// The most bytes of replies in a snapshot, and also the most of the feed.
    pub archive_bytes: usize,
    /// The treatment of journal segments that both snapshots cover.
    pub old_segments: OldSegments,
}

impl SnapshotPlan {
    /// True if any snapshots are made.
    pub const fn is_wanted(&self) -> bool {
        self.inputs > 0 || self.time_ns > 0
    }
}

/// Figures of the snapshots, for any thread to read.
#[derive(Debug)]
pub struct SnapshotFigures {
    /// The last input in a snapshot; 0 if there is none.
    pub sequence: AtomicGauge,
    pub bytes: AtomicGauge,
    pub made: AtomicGauge,
    pub failed: AtomicGauge,
    /// Journal segments removed or archived.
    pub segments_removed: AtomicGauge,
}

impl Default for SnapshotFigures {
    fn default() -> Self {
        let none = || AtomicGauge::new(0);
        Self {
            sequence: none(),
            bytes: none(),
            made: none(),
            failed: none(),
            segments_removed: none(),
        }
    }
}

/// Makes snapshots of the state of a [`Follower`].
///
/// A snapshot that cannot be written is counted, and tried again later: the journal has everything.
pub struct Snapshots {
    plan: SnapshotPlan,
    /// The sequence of the newest snapshot.
    last_sequence: u64,
    /// The time of the newest snapshot, or of the first turn.
    last_ns: Option<u64>,
    not_before_ns: u64,
    /// The lowest sequence of the next snapshot, once it is due.
    target: Option<u64>,
    figures: Arc<SnapshotFigures>,
}

impl Snapshots {
    /// For a venue whose newest snapshot is at `last_sequence` (0 if it has none).
    pub fn new(plan: SnapshotPlan, last_sequence: u64) -> Self {
        let figures = Arc::<SnapshotFigures>::default();
        figures.sequence.set(last_sequence);
        Self { plan, last_sequence, last_ns: None, not_before_ns: 0, target: None, figures }
    }

    pub fn figures(&self) -> Arc<SnapshotFigures> {
        Arc::clone(&self.figures)
    }

    /// Bytes of replies that a follower must keep, and as many of the feed.
    pub(super) fn archive_bytes(&self) -> usize {
        self.plan.archive_bytes
    }

    /// The lowest sequence of the next snapshot, if one is due. The journal ends with `journaled`.
    pub(super) fn target(
        &mut self,
        journaled: u64,
        now_ns: u64,
        perturbations: &Perturbations,
    ) -> Option<u64> {
        if self.target.is_none() {
            let since_ns = now_ns.saturating_sub(*self.last_ns.get_or_insert(now_ns));
            let count = journaled.saturating_sub(self.last_sequence);
            let by_count = self.plan.inputs > 0 && count >= self.plan.inputs;
            let by_time = self.plan.time_ns > 0 && since_ns >= self.plan.time_ns && count > 0;
            let early = count > 0 && perturbations.happens_rarely(Perturbation::EarlySnapshot);
            let is_due = now_ns >= self.not_before_ns && (by_count || by_time || early);
            self.target = is_due.then_some(journaled);
        }
        self.target
    }

    /// Writes the state as a snapshot, and removes the files no longer needed. The ledger, if there is one, has all
    /// inputs up to `ledger`.
    pub(super) fn write(
        &mut self,
        follower: &mut Follower,
        storage: &mut dyn Storage,
        ledger: Option<u64>,
        now_ns: u64,
    ) -> Result<(), AgentError> {
        (self.target, self.last_ns) = (None, Some(now_ns));
        if follower.sequence() <= self.last_sequence {
            return Ok(());
        }
        follower.sync_journal()?;
        match follower.write(storage, now_ns) {
            Ok(bytes) => {
                self.last_sequence = follower.sequence();
                self.figures.sequence.set(self.last_sequence);
                self.figures.bytes.set(bytes);
                self.figures.made.set(self.figures.made.get() + 1);
                self.remove_old(storage, follower.journal_id(), ledger, now_ns);
            }
            Err(_) => self.put_off(now_ns),
        }
        Ok(())
    }

    /// Removes the files no longer needed. A file that cannot be removed is left for the next time.
    fn remove_old(
        &mut self,
        storage: &mut dyn Storage,
        journal_id: Option<u64>,
        ledger: Option<u64>,
        now_ns: u64,
    ) {
        let removed = journal::snapshots(storage).and_then(|found| {
            let Some(older) = found.get(KEPT - 1).copied() else { return Ok(0) };
            // A ledger that is behind continues from a snapshot before its position.
            if ledger.is_some_and(|position| position < older) {
                return Ok(0);
            }
            journal::remove_snapshots_but(storage, KEPT)?;
            if self.plan.old_segments == OldSegments::Keep {
                return Ok(0);
            }
            // Segments are removed only if both snapshots can be read.
            let is_whole = found[..KEPT].iter().all(|sequence| {
                let nothing = &mut |_: u16, _: &[u8]| Ok::<(), journal::BoxError>(());
                journal::read_snapshot(storage, journal_id, *sequence, nothing).is_ok()
            });
            match self.plan.old_segments {
                OldSegments::Archive if is_whole => {
                    journal::archive_segments_before(storage, older)
                }
                OldSegments::Remove if is_whole => journal::remove_segments_before(storage, older),
                _ => Ok(0),
            }
        });
        match removed {
            Ok(count) => {
                let figure = &self.figures.segments_removed;
                figure.set(figure.get() + count as u64);
            }
            Err(_) => self.put_off(now_ns),
        }
    }

    fn put_off(&mut self, now_ns: u64) {
        self.figures.failed.set(self.figures.failed.get() + 1);
        self.not_before_ns = now_ns + RETRY_NS;
    }
}
