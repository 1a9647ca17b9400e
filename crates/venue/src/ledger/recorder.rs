use std::{path::PathBuf, sync::Arc};

use market::{Output, Sequence};
use ring::{Agent, AgentError, Consumer, Cursor, Flow};

use super::{
    outlet::Told,
    projection::{Batch, Projection},
    source::JournalOutputs,
    store::{LedgerStore, Mark, StoreError, foreign_journal},
};

/// Outputs taken from the ring in one turn.
const TURN_LIMIT: usize = 4096;
/// Inputs replayed in one turn.
const REPLAY_LIMIT: usize = 4096;
/// A batch of so many rows is committed at once.
const ROWS_MAX: usize = 50_000;
/// Inputs that made no row wait for so many intervals of commits.
const SILENT_INTERVALS: u64 = 10;
/// The first wait before a store is tried again, and the longest.
const RETRY_NS_MIN: u64 = 100_000_000;
const RETRY_NS_MAX: u64 = 5_000_000_000;
/// The replaying engine is kept for so many commits, in case the ring is too short again.
const SPARE_COMMITS: u64 = 100;

/// What can be read of a recorder while it runs.
#[derive(Debug, Default)]
pub struct LedgerGauges {
    /// The last input that is in the store.
    pub mark: Cursor,
    /// Batches that were committed.
    pub commits: Cursor,
    /// Rows that were committed.
    pub rows: Cursor,
    /// Times the ring was full, so that the journal was read.
    pub gaps: Cursor,
    /// Times the store did not do what was asked.
    pub failures: Cursor,
}

/// How a recorder works.
pub struct RecorderConfig {
    /// Opens the store that the rows go to.
    pub open: Box<dyn FnMut() -> Result<Box<dyn LedgerStore>, StoreError> + Send>,
    /// The folder of the journal.
    pub journal: PathBuf,
    /// The identity of the journal.
    pub journal_id: u64,
    /// The longest that a row waits for others before it is committed.
    pub commit_interval_ns: u64,
    /// How far behind the journal it may be when it goes over to the ring, in inputs.
    pub near: u64,
    /// Takes what a person should know.
    pub notice: fn(&str),
}

/// Brings outputs into a store, exactly once: rows and mark in one transaction.
///
/// It takes what comes by the ring of the outlet. When it starts, when the ring was too short and
/// when the store was changed by others it takes what is missing from the journal, by an engine of
/// its own, and goes over to the ring when it is near its end. While the store is down it tries
/// again and again, and keeps what it has. Nobody ever waits for it.
///
/// Its turns wait for the store, so it has a thread of its own.
pub struct Recorder {
    config: RecorderConfig,
    told: Consumer<Told>,
    durable: Arc<Cursor>,
    requests: Arc<Cursor>,
    gauges: Arc<LedgerGauges>,
    store: Option<Box<dyn LedgerStore>>,
    retry_at_ns: u64,
    retry_ns: u64,
    /// What follows from all up to its sequence; none until the store was read.
    projection: Option<Projection>,
    /// The rows that the store does not have yet.
    batch: Batch,
    batch_since_ns: Option<u64>,
    source: Source,
    /// Outputs of an input that is not complete.
    pending: Vec<Output>,
    replay: Option<Box<JournalOutputs>>,
    replay_spare_commits: u64,
    /// True once it is of no use to go on.
    given_up: bool,
}

/// Where the next outputs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// From the journal, until near its end.
    Journal,
    /// From the journal, until the answer to a request says from where on the ring has them.
    Asked,
    /// From the journal up to there, then from the ring.
    JournalUpTo(Sequence),
    /// From the ring.
    Ring,
}

impl Recorder {
    /// Opens the store, if that is possible now.
    ///
    /// # Errors
    /// The store is of another journal, of another version, corrupt or ahead of the journal:
    /// `durable` says up to where that goes.
    pub fn new(
        config: RecorderConfig,
        told: Consumer<Told>,
        durable: Arc<Cursor>,
        requests: Arc<Cursor>,
        gauges: Arc<LedgerGauges>,
    ) -> Result<Self, StoreError> {
        let mut recorder = Self {
            config,
            told,
            durable,
            requests,
            gauges,
            store: None,
            retry_at_ns: 0,
            retry_ns: RETRY_NS_MIN,
            projection: None,
            batch: Batch::default(),
            batch_since_ns: None,
            source: Source::Journal,
            pending: Vec::new(),
            replay: None,
            replay_spare_commits: 0,
            given_up: false,
        };
        match recorder.open() {
            Ok(()) => {}
            Err(error) if error.may_pass() => recorder.fail(&error, 0),
            Err(error) => return Err(error),
        }
        Ok(recorder)
    }

    fn open(&mut self) -> Result<(), StoreError> {
        let mut store = (self.config.open)()?;
        let mark = store.mark()?;
        if let Some(mark) = mark
            && mark.journal_id != self.config.journal_id
        {
            return Err(foreign_journal(mark, self.config.journal_id));
        }
        let sequence = mark.map_or(Sequence::NONE, |mark: Mark| mark.sequence);
        if sequence.0 > self.durable.get() {
            return Err(StoreError::foreign(format!(
                "the ledger store goes up to input {sequence}, and the journal only to {}",
                self.durable.get()
            )));
        }
        let is_where_it_was = self.projection.is_some() && sequence == self.batch.after;
        if !is_where_it_was && self.projection.is_some() && sequence == self.batch.sequence {
            // The commit that seemed to fail had not.
            self.committed();
        } else if !is_where_it_was {
            let projection = Projection::load(&mut *store, sequence)?;
            if self.replay.as_ref().is_some_and(|replay| replay.engine().sequence() > sequence) {
                self.replay = None;
            }
            self.projection = Some(projection);
            self.batch = Batch::new(sequence);
            self.batch_since_ns = None;
            self.pending.clear();
            self.source = Source::Journal;
        }
        self.gauges.mark.set(self.gauges.mark.get().max(sequence.0));
        self.store = Some(store);
        Ok(())
    }

    fn committed(&mut self) {
        self.gauges.commits.set(self.gauges.commits.get() + 1);
        self.gauges.rows.set(self.gauges.rows.get() + self.batch.row_count() as u64);
        self.gauges.mark.set(self.batch.sequence.0);
        self.batch = Batch::new(self.batch.sequence);
        self.batch_since_ns = None;
        if self.source == Source::Ring {
            self.replay_spare_commits = self.replay_spare_commits.saturating_sub(1);
            if self.replay_spare_commits == 0 {
                self.replay = None;
            }
        }
    }

    /// Leaves the store alone for a while, or for good.
    fn fail(&mut self, error: &StoreError, now_ns: u64) {
        self.store = None;
        self.gauges.failures.set(self.gauges.failures.get() + 1);
        if error.may_pass() {
            // The first of a row of failures is told; the others are counted.
            if self.retry_ns == RETRY_NS_MIN {
                (self.config.notice)(&format!(
                    "{error}; the ledger falls behind and catches up later"
                ));
            }
            self.retry_at_ns = now_ns + self.retry_ns;
            self.retry_ns = (self.retry_ns * 2).min(RETRY_NS_MAX);
        } else {
            self.given_up = true;
            (self.config.notice)(&format!("{error}; the ledger is not written any more"));
        }
    }

    /// One turn with an open store.
    fn work(&mut self, now_ns: u64) -> Result<usize, StoreError> {
        let work = match self.source {
            Source::Journal => {
                let durable = self.durable.get();
                let behind = durable - self.sequence().0.min(durable);
                if behind > self.config.near {
                    self.advance(durable)?
                } else {
                    self.requests.set(self.requests.get() + 1);
                    self.source = Source::Asked;
                    1
                }
            }
            Source::Asked => self.await_answer(),
            Source::JournalUpTo(after) if self.sequence() < after => self.advance(after.0)?,
            Source::JournalUpTo(_) => {
                self.source = Source::Ring;
                self.replay_spare_commits = SPARE_COMMITS;
                1
            }
            Source::Ring => self.take()?,
        };
        if self.batch_since_ns.is_none() && self.batch.sequence > self.batch.after {
            self.batch_since_ns = Some(now_ns);
        }
        let rows = self.batch.row_count();
        let intervals = if rows > 0 { 1 } else { SILENT_INTERVALS };
        let wait_ns = self.config.commit_interval_ns.saturating_mul(intervals);
        let is_due =
            self.batch_since_ns.is_some_and(|since| since.saturating_add(wait_ns) <= now_ns);
        if is_due || rows >= ROWS_MAX {
            self.commit()?;
            return Ok(work + 1);
        }
        Ok(work)
    }

    fn sequence(&self) -> Sequence {
        self.projection.as_ref().map_or(Sequence::NONE, Projection::sequence)
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let store = self.store.as_mut().expect("work is done with an open store");
        store.commit(self.config.journal_id, &self.batch)?;
        self.retry_ns = RETRY_NS_MIN;
        self.committed();
        Ok(())
    }

    /// Takes the next inputs from the journal.
    fn advance(&mut self, until: u64) -> Result<usize, StoreError> {
        let projection = self.projection.as_mut().expect("the store was read");
        let replay = match &mut self.replay {
            Some(replay) => replay,
            none => {
                let source = JournalOutputs::new(&self.config.journal, projection.sequence())?;
                none.insert(Box::new(source))
            }
        };
        replay.advance(REPLAY_LIMIT, until, projection, &mut self.batch)
    }

    /// Passes over what is old in the ring.
    fn await_answer(&mut self) -> usize {
        let (request, source) = (self.requests.get(), &mut self.source);
        self.told.poll(TURN_LIMIT, |told, _| match told {
            Told::Resumed { request: answered, after } if *answered == request => {
                *source = Source::JournalUpTo(*after);
                Flow::Stop
            }
            _ => Flow::Continue,
        })
    }

    /// Takes the next outputs from the ring.
    fn take(&mut self) -> Result<usize, StoreError> {
        let projection = self.projection.as_mut().expect("the store was read");
        let (pending, batch) = (&mut self.pending, &mut self.batch);
        let mut is_gap = false;
        let mut wrong = Ok(());
        let work = self.told.poll(TURN_LIMIT, |told, _| {
            match told {
                // Of an input that the journal has given already, if it is not after.
                Told::Output(output) => {
                    if output.cause > projection.sequence() {
                        pending.push(*output);
                    }
                }
                Told::Complete(sequence) => {
                    if *sequence > projection.sequence() {
                        let count = pending.partition_point(|output| output.cause <= *sequence);
                        wrong =
                            pending.drain(..count).try_for_each(|it| projection.take(&it, batch));
                        if wrong.is_err() {
                            return Flow::Stop;
                        }
                        projection.complete(*sequence, batch);
                    }
                }
                Told::Gap => {
                    is_gap = true;
                    return Flow::Stop;
                }
                Told::Resumed { .. } => {}
            }
            if batch.row_count() >= ROWS_MAX { Flow::Stop } else { Flow::Continue }
        });
        if is_gap {
            self.gauges.gaps.set(self.gauges.gaps.get() + 1);
            self.pending.clear();
            self.source = Source::Journal;
        }
        wrong.map(|()| work)
    }

    /// What came by the ring is still taken, so that the next start has less to replay. What is not
    /// told any more, that takes from the journal.
    fn finish(&mut self) -> Result<(), StoreError> {
        while self.source == Source::Ring && self.take()? > 0 {}
        if self.batch.sequence > self.batch.after {
            self.commit()?;
        }
        Ok(())
    }
}

impl Agent for Recorder {
    fn name(&self) -> &str {
        "ledger recorder"
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        if self.given_up || (self.store.is_none() && now_ns < self.retry_at_ns) {
            return Ok(0);
        }
        let done = if self.store.is_none() { self.open().map(|()| 1) } else { self.work(now_ns) };
        Ok(done.unwrap_or_else(|error| {
            self.fail(&error, now_ns);
            0
        }))
    }

    fn close(&mut self) {
        if self.store.is_some() && !self.given_up {
            let finished = self.finish();
            if let Err(error) = finished {
                self.fail(&error, 0);
            }
        }
    }
}
