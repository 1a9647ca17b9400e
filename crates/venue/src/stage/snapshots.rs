use std::sync::Arc;

use journal::Storage;
use ring::{Agent, AgentError, Latest};

use super::{Whim, Whims};
use crate::{config::OldSegments, shadow::Shadow};

/// Inputs a turn takes up at most, so that a stop need not wait.
const TURN_LIMIT: usize = 8192;

/// Snapshots that are kept.
const KEPT: usize = 2;

/// How long it waits after a snapshot that could not be written, in nanoseconds.
const RETRY_NS: u64 = 60_000_000_000;

/// When snapshots are made, and of what.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPlan {
    /// After so many inputs; 0 never.
    pub inputs: u64,
    /// After so long, in nanoseconds, if there were inputs; 0 never.
    pub time_ns: u64,
    /// Bytes of replies that a snapshot has, and of the feed.
    pub history_bytes: usize,
    /// What happens to segments of the journal that both snapshots cover.
    pub old_segments: OldSegments,
}

/// What [`Snapshots`] has done, for any thread to read.
#[derive(Debug)]
pub struct SnapshotFigures {
    /// The last input that is in a snapshot; 0 if there is none.
    pub sequence: Latest,
    /// Bytes of the newest one made.
    pub bytes: Latest,
    /// Made so far.
    pub made: Latest,
    /// Not made because storage failed.
    pub failed: Latest,
    /// Segments of the journal that were removed, or archived.
    pub segments_removed: Latest,
}

impl Default for SnapshotFigures {
    fn default() -> Self {
        let none = || Latest::new(0);
        Self {
            sequence: none(),
            bytes: none(),
            made: none(),
            failed: none(),
            segments_removed: none(),
        }
    }
}

/// Makes snapshots beside the venue, by a core of its own that reads the journal.
///
/// It takes nothing from the others but what they have written: it waits until enough is in the
/// journal, reads it, brings it to the medium, writes its state, removes older snapshots, and waits
/// again. What it reads is verified; where that is not what was written, all stops. A snapshot that
/// cannot be written is counted, and tried again later: the journal has everything.
pub struct Snapshots {
    storage: Box<dyn Storage>,
    /// Inputs up to here are in the journal.
    journaled: Arc<Latest>,
    plan: SnapshotPlan,
    shadow: Option<Shadow>,
    /// Of the newest snapshot.
    last_sequence: u64,
    /// When that was made, or the first turn was.
    last_ns: Option<u64>,
    not_before_ns: u64,
    /// The sequence a snapshot is being made of.
    target: Option<u64>,
    figures: Arc<SnapshotFigures>,
    whims: Whims,
}

impl Snapshots {
    /// Beside a venue whose newest snapshot is of `last_sequence` (0 if it has none) and whose
    /// journal lies in `storage`, as the snapshots do.
    #[must_use]
    pub fn new(
        storage: Box<dyn Storage>,
        journaled: Arc<Latest>,
        plan: SnapshotPlan,
        last_sequence: u64,
    ) -> Self {
        let figures = Arc::<SnapshotFigures>::default();
        figures.sequence.set(last_sequence);
        Self {
            storage,
            journaled,
            plan,
            shadow: None,
            last_sequence,
            last_ns: None,
            not_before_ns: 0,
            target: None,
            figures,
            whims: Whims::default(),
        }
    }

    /// Chooses now and then as they say.
    #[must_use]
    pub fn with_whims(mut self, whims: Whims) -> Self {
        self.whims = whims;
        self
    }

    /// What it has done; may be read from any thread.
    #[must_use]
    pub fn figures(&self) -> Arc<SnapshotFigures> {
        Arc::clone(&self.figures)
    }

    /// The sequence to make a snapshot of, if it is time for one.
    fn due(&mut self, now_ns: u64) -> Option<u64> {
        let since_ns = now_ns.saturating_sub(*self.last_ns.get_or_insert(now_ns));
        let journaled = self.journaled.get();
        let count = journaled.saturating_sub(self.last_sequence);
        let by_count = self.plan.inputs > 0 && count >= self.plan.inputs;
        let by_time = self.plan.time_ns > 0 && since_ns >= self.plan.time_ns && count > 0;
        let early = count > 0 && self.whims.strike_rarely(Whim::EarlySnapshot);
        (now_ns >= self.not_before_ns && (by_count || by_time || early)).then_some(journaled)
    }

    /// Reads on towards `target`; true once the state is the one to write.
    fn catch_up(&mut self, target: u64) -> Result<(bool, usize), AgentError> {
        let shadow = match &mut self.shadow {
            Some(shadow) => shadow,
            none => {
                let storage = self.storage.second();
                let bytes = self.plan.history_bytes;
                none.insert(Shadow::begin(&*storage, &mut *self.storage, target, bytes)?)
            }
        };
        let limit = self.whims.at_most(Whim::ShortSnapshotTurn, TURN_LIMIT);
        let taken = shadow.poll(limit, target, &mut |_, _| {}, &mut |_| {})?;
        let sequence = shadow.engine().sequence().0;
        // What was journaled and is not in the file is in the buffer of a writer that does not
        // promise anything: then so much is enough.
        Ok((sequence == target || taken == 0, taken))
    }

    fn write(&mut self, now_ns: u64) -> Result<(), AgentError> {
        self.last_ns = Some(now_ns);
        let shadow = self.shadow.as_mut().expect("it has caught up");
        let sequence = shadow.engine().sequence().0;
        if sequence <= self.last_sequence {
            return Ok(());
        }
        shadow.sync_journal()?;
        match shadow.write(&mut *self.storage, now_ns) {
            Ok(bytes) => {
                self.last_sequence = sequence;
                self.figures.sequence.set(sequence);
                self.figures.bytes.set(bytes);
                self.figures.made.set(self.figures.made.get() + 1);
                self.tidy(now_ns);
            }
            Err(_) => self.put_off(now_ns),
        }
        Ok(())
    }

    /// Removes what is not needed any more. What cannot be removed is left to the next time.
    fn tidy(&mut self, now_ns: u64) {
        let journal_id = self.shadow.as_ref().and_then(Shadow::journal_id);
        let removed = journal::remove_snapshots_but(&mut *self.storage, KEPT).and_then(|_| {
            if self.plan.old_segments == OldSegments::Keep {
                return Ok(0);
            }
            let kept = journal::snapshots(&mut *self.storage)?;
            let Some(older) = kept.get(KEPT - 1) else { return Ok(0) };
            // Only what two snapshots cover that can be read is given up.
            let is_whole = kept.iter().all(|sequence| {
                let nothing = &mut |_: u16, _: &[u8]| Ok::<(), journal::BoxError>(());
                journal::read_snapshot(&mut *self.storage, journal_id, *sequence, nothing).is_ok()
            });
            if !is_whole {
                return Ok(0);
            }
            match self.plan.old_segments {
                OldSegments::Keep => Ok(0),
                OldSegments::Archive => {
                    journal::archive_segments_before(&mut *self.storage, *older)
                }
                OldSegments::Remove => journal::remove_segments_before(&mut *self.storage, *older),
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

impl Agent for Snapshots {
    fn name(&self) -> &str {
        "snapshots"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let Some(target) = self.target.or_else(|| self.due(now_ns)) else { return Ok(0) };
        self.target = Some(target);
        let (is_there, taken) = self.catch_up(target)?;
        if is_there {
            self.target = None;
            self.write(now_ns)?;
        }
        Ok(taken.max(1))
    }
}
