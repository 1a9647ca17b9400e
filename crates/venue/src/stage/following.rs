//! The follower's thread: reads the journal, and feeds snapshots, the ledger and the replies on disk.
//!
//! Invariant: this thread uses only records of the journal, and the venue never waits for it. A record that does not
//! verify, or whose events differ from those that the journal names, stops the venue.

use std::sync::Arc;

use journal::Storage;
use market::Sequence;
use ring::{Agent, AgentError, AtomicGauge};

use super::{Perturbation, Perturbations, Snapshots};
use crate::{
    follower::Follower,
    ledger::{LedgerWriter, store::StoreError},
    reply_files::ReplyFileWriter,
};

/// The most records read in a turn, so that a stop need not wait.
const TURN_LIMIT: usize = 8192;

/// The most turns of a stop, so that the next start has less to read for the ledger.
const CLOSE_TURNS: usize = 8;

/// The most bytes of replies kept for the disk without snapshots: more than the replies of a turn.
const ARCHIVE_BYTES: usize = 16 << 20;

pub struct Following {
    storage: Box<dyn Storage>,
    /// The journal has all inputs up to here.
    journaled: Arc<AtomicGauge>,
    /// Created on first use, and again if the ledger is behind it.
    follower: Option<Follower>,
    snapshots: Option<Snapshots>,
    ledger: Option<LedgerWriter>,
    replies: Option<ReplyFileWriter>,
    perturbations: Perturbations,
}

impl Following {
    /// Follows the journal in `storage`, which also has the snapshots.
    pub fn new(
        storage: Box<dyn Storage>,
        journaled: Arc<AtomicGauge>,
        snapshots: Option<Snapshots>,
        ledger: Option<LedgerWriter>,
    ) -> Self {
        let perturbations = Perturbations::default();
        let (follower, replies) = (None, None);
        Self { storage, journaled, follower, snapshots, ledger, replies, perturbations }
    }

    /// Also writes the messages to FIX sessions to disk.
    pub fn with_replies(mut self, replies: Option<ReplyFileWriter>) -> Self {
        self.replies = replies;
        self
    }

    pub fn with_perturbations(mut self, perturbations: Perturbations) -> Self {
        self.perturbations = perturbations;
        self
    }

    /// Reads on to `until`, where possible, and feeds the ledger the inputs after `position`. Returns the number of
    /// records read; 0 also if the journal has no more.
    fn follow(
        &mut self,
        position: Option<Sequence>,
        until: u64,
        now_ns: u64,
    ) -> Result<usize, AgentError> {
        let is_behind = |it: &Follower| position.is_some_and(|at| at.0 < it.sequence());
        if self.follower.as_ref().is_some_and(is_behind) {
            self.follower = None;
        }
        let follower = match &mut self.follower {
            Some(follower) => follower,
            none => {
                let storage = self.storage.second();
                let at_most = position.map_or(until, |position| position.0);
                let archive_bytes = self.snapshots.as_ref().map(Snapshots::archive_bytes);
                let of_replies = self.replies.as_ref().map(|_| ARCHIVE_BYTES);
                let archive_bytes = archive_bytes.or(of_replies);
                match Follower::begin(&*storage, &mut *self.storage, at_most, archive_bytes) {
                    Ok(follower) => none.insert(follower),
                    Err(failure) => match self.ledger.as_mut().filter(|_| position.is_some()) {
                        // Snapshots need only the records that a start needs, so they go on.
                        Some(ledger) => {
                            ledger.fail(&StoreError::foreign(failure.what), now_ns);
                            return Ok(0);
                        }
                        None => return Err(failure.into()),
                    },
                }
            }
        };
        let mut ledger = self.ledger.as_mut().filter(|_| position.is_some());
        let limit = self.perturbations.at_most(Perturbation::ShortSnapshotTurn, TURN_LIMIT);
        // The messages of a turn are written before the archive drops them.
        let kept = self.snapshots.as_ref().map_or(ARCHIVE_BYTES, Snapshots::archive_bytes);
        let limit = self.replies.as_ref().map_or(limit, |_| limit.min((kept >> 12).max(16)));
        let taken = follower.poll(limit, until, &mut |line| {
            if let Some(ledger) = &mut ledger {
                line.each(|output| ledger.take(output));
            }
        })?;
        let committed = ledger.is_some_and(|ledger| {
            let sequence = follower.engine().sequence();
            ledger.complete(sequence, now_ns)
        });
        let blocks = match (&mut self.replies, follower.archive()) {
            (Some(replies), Some(archive)) => replies.take(archive, follower.sequence(), now_ns),
            _ => 0,
        };
        Ok(taken + blocks + usize::from(committed))
    }
}

impl Agent for Following {
    fn name(&self) -> &str {
        "follower"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let journaled = self.journaled.get();
        let position = self.ledger.as_mut().and_then(|it| it.position(journaled, now_ns));
        let perturbations = &self.perturbations;
        let target =
            self.snapshots.as_mut().and_then(|it| it.target(journaled, now_ns, perturbations));
        // A ledger and replies take every input; a snapshot alone only the inputs that it needs.
        let until = match (position, target) {
            (Some(_), _) => journaled,
            _ if self.replies.is_some() => journaled,
            (None, Some(target)) => target,
            (None, None) => return Ok(0),
        };
        let taken = self.follow(position, until, now_ns)?;
        if let Some(target) = target
            && let Some(snapshots) = &mut self.snapshots
            && let Some(follower) = &mut self.follower
            // An input that is journaled but not in the file is in the buffer of a writer that does not promise
            // durability; the records read are then enough.
            && (follower.sequence() >= target || taken == 0)
        {
            let position = self.ledger.as_ref().and_then(LedgerWriter::stored);
            snapshots.write(follower, &mut *self.storage, position, now_ns)?;
            return Ok(taken.max(1));
        }
        Ok(taken)
    }

    fn close(&mut self) {
        for _ in 0..CLOSE_TURNS {
            let journaled = self.journaled.get();
            let position = self.ledger.as_mut().and_then(|it| it.position(journaled, 0));
            if position.is_none() || !matches!(self.follow(position, journaled, 0), Ok(1..)) {
                break;
            }
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.commit(0);
        }
    }
}
