use std::{
    error::Error,
    path::{Path, PathBuf},
};

use engine::Engine;
use journal::{Folder, Follower, Record};
use market::{Output, Sequence};

use super::{
    projection::{Batch, Projection},
    store::StoreError,
};
use crate::{
    shadow::{self, Choice},
    snapshot::{self, NotACommand},
};

/// The history in a snapshot is of no use here.
const HISTORY_BYTES: usize = 0;

/// The outputs of a journal, part by part, by an engine of its own.
pub struct JournalOutputs {
    follower: Follower,
    engine: Engine,
    place: PathBuf,
    journal_id: Option<u64>,
}

impl JournalOutputs {
    /// Of the journal in `directory`, which may be written at the same time: the outputs of inputs
    /// after `mark`, and of some before it. It begins with the newest snapshot of a state that is
    /// not after the mark, or with the first input.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn new(directory: &Path, mark: Sequence) -> Result<Self, StoreError> {
        let (storage, mut snapshots) = (Folder::new(directory), Folder::new(directory));
        let found = if directory.is_dir() && mark > Sequence::NONE {
            let chosen = shadow::choose(
                &storage,
                &mut snapshots,
                shadow::Age::Newest,
                mark.0,
                HISTORY_BYTES,
            );
            let Choice { found, .. } =
                chosen.map_err(|error| StoreError::unavailable(error.what))?;
            found
        } else {
            None
        };
        let (journal_id, engine) = match found {
            Some((summary, state)) => (Some(summary.header.journal_id), state.engine),
            None => (None, Engine::new()),
        };
        let from = engine.sequence().next().0;
        let follower = Follower::new(Box::new(storage), from);
        Ok(Self { follower, engine, place: directory.to_owned(), journal_id })
    }

    /// The state after the last input that was read.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The identity of the journal, once something was read.
    #[must_use]
    pub fn journal_id(&self) -> Option<u64> {
        self.follower.journal_id().or(self.journal_id)
    }

    /// Reads at most `limit` inputs, none after `until`, and brings the projection to the last of
    /// them, unless it is there already. Says how many were read; 0 is that no more are there.
    ///
    /// # Errors
    /// The journal cannot be read, or is damaged; or the rows so far are not those of its outputs.
    pub fn advance(
        &mut self,
        limit: usize,
        until: u64,
        projection: &mut Projection,
        batch: &mut Batch,
    ) -> Result<usize, StoreError> {
        let begins = projection.sequence();
        let engine = &mut self.engine;
        let mut wrong = Ok(());
        let read = self.follower.poll(limit, until, &mut |record: Record<'_>| {
            let input = snapshot::input_of(record.sequence, record.timestamp, record.payload)?;
            snapshot::apply(engine, &input, &mut |output: &Output| {
                if output.cause > begins && wrong.is_ok() {
                    wrong = projection.take(output, batch);
                }
            });
            Ok::<(), NotACommand>(())
        });
        let read = read.map_err(|error| {
            let mut what = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                what = format!("{what}: {error}");
                cause = error.source();
            }
            StoreError::corrupt(format!(
                "the ledger cannot follow the journal in {}: {what}",
                self.place.display()
            ))
        })?;
        wrong?;
        if self.engine.sequence() > projection.sequence() {
            projection.complete(self.engine.sequence(), batch);
        }
        Ok(read)
    }
}
