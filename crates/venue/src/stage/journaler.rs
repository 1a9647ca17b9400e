//! The journaler's stage: writes inputs to the journal in group commits.
//!
//! Invariant: the durable cursor never passes an input that is less durable than configured.

use std::sync::Arc;

use journal::Writer;
use market::Input;
use ring::{Agent, AgentError, AtomicGauge, Consumer, Cursor, Flow};

use super::{Digester, Perturbation, Perturbations, load_shedding::LoadShedding};
use crate::checkpoint::{self, DigestRecord};

/// The most inputs written by one commit; bounds the time of a turn.
const COMMIT_LIMIT: usize = 4096;

/// The most lines hashed in a turn: more than the inputs of one commit cause, so that the engine does not wait for the
/// digest.
const HASH_LIMIT: usize = 1 << 14;

/// Writes all waiting inputs to the journal with one write, and one sync if the policy asks for it, and then moves the
/// durable cursor.
pub struct Journaler {
    inputs: Consumer<Input>,
    writer: Writer,
    /// Replies and market data of inputs up to here may leave.
    durable: Arc<Cursor>,
    /// True if replies do not wait for the journal.
    unconditional: bool,
    /// Inputs up to here are in the journal, and as durable as they will be for now.
    journaled: Option<Arc<AtomicGauge>>,
    digester: Option<Digester>,
    load_shedding: Option<LoadShedding>,
    perturbations: Perturbations,
}

impl Journaler {
    /// A stage that takes the inputs after the last record of `writer`. With `unconditional`,
    /// replies do not wait and the durable cursor is left alone.
    pub fn new(
        inputs: Consumer<Input>,
        writer: Writer,
        durable: Arc<Cursor>,
        unconditional: bool,
    ) -> Self {
        let perturbations = Perturbations::default();
        Self {
            inputs,
            writer,
            durable,
            unconditional,
            journaled: None,
            digester: None,
            load_shedding: None,
            perturbations,
        }
    }

    pub fn with_perturbations(mut self, perturbations: Perturbations) -> Self {
        self.perturbations = perturbations;
        self
    }

    /// Publishes the last input that the journal has committed, whatever the policy.
    pub fn telling(mut self, journaled: Arc<AtomicGauge>) -> Self {
        journaled.set(self.writer.last_sequence());
        self.journaled = Some(journaled);
        self
    }

    /// Hashes the events, and records their digests.
    pub fn with_digester(mut self, digester: Digester) -> Self {
        self.digester = Some(digester);
        self
    }

    /// Rejects new orders while the disk is full or slow.
    pub fn with_load_shedding(mut self, load_shedding: LoadShedding) -> Self {
        self.load_shedding = Some(load_shedding);
        self
    }

    /// Records the known digests up to inputs that are in the journal.
    fn record_digests(&mut self) -> Result<(), AgentError> {
        let Some(digester) = &mut self.digester else { return Ok(()) };
        let every = digester.every();
        while let Some((sequence, digest)) = digester.take_record(self.writer.last_sequence()) {
            let fingerprint = checkpoint::fingerprint();
            let record = DigestRecord { sequence: sequence.0, digest, every, fingerprint };
            self.writer.checkpoint(&record.encode())?;
        }
        Ok(())
    }

    /// Hashes events once the inputs of the turn are in the journal, since replies wait for those.
    fn hash_events(&mut self) -> usize {
        match &mut self.digester {
            Some(digester) if !self.perturbations.happens(Perturbation::LateDigest) => {
                digester.turn(HASH_LIMIT)
            }
            _ => 0,
        }
    }
}

impl Agent for Journaler {
    fn name(&self) -> &str {
        "journaler"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let (mut failed, mut wait_ns) = (None, None);
        let writer = &mut self.writer;
        let limit = self.perturbations.at_most(Perturbation::ShortCommit, COMMIT_LIMIT);
        let taken = self.inputs.poll(limit, |input, _| {
            wait_ns.get_or_insert_with(|| now_ns.saturating_sub(input.timestamp.0));
            let Input { sequence, timestamp, command } = input;
            match writer.append_with(sequence.0, timestamp.0, |payload| command.encode(payload)) {
                Ok(()) => Flow::Continue,
                Err(error) => {
                    failed = Some(error);
                    Flow::Hold
                }
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        if taken > 0 {
            self.record_digests()?;
            if self.perturbations.happens(Perturbation::EarlyFlush) {
                self.writer.flush()?;
            }
            let sequence = self.writer.commit()?;
            if !self.unconditional {
                self.durable.set(sequence);
            }
            if let Some(journaled) = &self.journaled {
                journaled.set(sequence);
            }
        }
        if let Some(load_shedding) = &mut self.load_shedding {
            load_shedding.look(&mut self.writer, now_ns, wait_ns)?;
        }
        Ok(taken + self.hash_events())
    }

    fn is_held_up(&self) -> bool {
        false
    }

    fn close(&mut self) {
        // The rings were drained before, except for events that came since. Syncs everything and moves the watermark.
        // After a failure here no reply is withheld, and the next start reads the true end of the journal.
        while self.digester.as_mut().is_some_and(|digester| digester.turn(HASH_LIMIT) > 0) {}
        let _ = self.record_digests();
        let _ = self.writer.sync();
    }
}
