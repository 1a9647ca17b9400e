//! Brings outputs into a store, exactly once: rows and position in one transaction.
//!
//! Invariant: the rows in the store follow from the inputs up to its position, and from no others. While the store is
//! down the writer tries again, and keeps its rows; no thread waits for it.

use std::sync::Arc;

use market::{Output, Sequence};
use ring::Cursor;

use super::{
    projection::Projection,
    store::{LedgerStore, StoreError, foreign_journal},
};

/// A batch of this many rows is committed at once.
const ROWS_MAX: usize = 50_000;
/// Inputs without rows wait for this many commit intervals.
const SILENT_INTERVALS: u64 = 10;
/// The first pause before a store is tried again, and the longest, in nanoseconds.
const RETRY_NS_MIN: u64 = 100_000_000;
const RETRY_NS_MAX: u64 = 5_000_000_000;

/// Figures of a ledger, for any thread to read.
#[derive(Debug, Default)]
pub struct LedgerGauges {
    /// The last input in the store.
    pub position: Cursor,
    pub commits: Cursor,
    pub rows: Cursor,
    pub failures: Cursor,
}

pub struct LedgerWriterConfig {
    pub open: Box<dyn FnMut() -> Result<Box<dyn LedgerStore>, StoreError> + Send>,
    pub journal_id: u64,
    /// The longest time that a row waits for others before it is committed, in nanoseconds.
    pub commit_interval_ns: u64,
}

pub struct LedgerWriter {
    config: LedgerWriterConfig,
    gauges: Arc<LedgerGauges>,
    store: Option<Box<dyn LedgerStore>>,
    retry_at_ns: u64,
    retry_ns: u64,
    /// `None` until the store was read.
    rows: Option<Projection>,
    /// The time of the oldest input that the store does not have.
    since_ns: Option<u64>,
    /// True once another try would not help.
    given_up: bool,
}

impl LedgerWriter {
    /// Opens the store, if that is possible now. The journal ends with the input `journaled`.
    ///
    /// # Errors
    /// The store is of another journal or of another version, corrupt, or ahead of the journal.
    pub fn new(config: LedgerWriterConfig, journaled: u64) -> Result<Self, StoreError> {
        let mut writer = Self {
            config,
            gauges: Arc::default(),
            store: None,
            retry_at_ns: 0,
            retry_ns: RETRY_NS_MIN,
            rows: None,
            since_ns: None,
            given_up: false,
        };
        match writer.open(journaled) {
            Ok(()) => Ok(writer),
            Err(error) if error.may_pass() => {
                writer.fail(&error, 0);
                Ok(writer)
            }
            Err(error) => Err(error),
        }
    }

    pub fn gauges(&self) -> Arc<LedgerGauges> {
        Arc::clone(&self.gauges)
    }

    /// The last input whose outputs the writer has; `None` while the store is down. Opens the store again when that is
    /// due.
    pub fn position(&mut self, journaled: u64, now_ns: u64) -> Option<Sequence> {
        if self.given_up {
            return None;
        }
        if self.store.is_none() {
            if now_ns < self.retry_at_ns {
                return None;
            }
            if let Err(error) = self.open(journaled) {
                self.fail(&error, now_ns);
                return None;
            }
        }
        self.rows.as_ref().map(|rows| rows.sequence())
    }

    /// The last input known to be in the store; `None` if the writer has given up.
    pub fn stored(&self) -> Option<u64> {
        (!self.given_up).then(|| self.gauges.position.get())
    }

    /// Takes the next output. Ignores outputs already taken.
    pub fn take(&mut self, output: &Output) {
        self.rows.as_mut().expect("the store was read").take(output);
    }

    /// Notes that all outputs of inputs up to `sequence` were taken. Commits if a commit is due; returns true if it
    /// did.
    pub fn complete(&mut self, sequence: Sequence, now_ns: u64) -> bool {
        let rows = self.rows.as_mut().expect("the store was read");
        if let Err(error) = rows.complete(sequence) {
            self.fail(&error, now_ns);
            return false;
        }
        if self.since_ns.is_none() && rows.is_ahead() {
            self.since_ns = Some(now_ns);
        }
        let row_count = rows.batch.row_count();
        let intervals = if row_count > 0 { 1 } else { SILENT_INTERVALS };
        let wait_ns = self.config.commit_interval_ns.saturating_mul(intervals);
        let is_due = self.since_ns.is_some_and(|since| since.saturating_add(wait_ns) <= now_ns);
        (is_due || row_count >= ROWS_MAX) && self.commit(now_ns)
    }

    /// Commits the rows that the store does not have; returns false if there are none, or the store fails.
    pub fn commit(&mut self, now_ns: u64) -> bool {
        let rows = self.rows.as_ref().filter(|rows| rows.is_ahead());
        let Some((store, rows)) = self.store.as_mut().zip(rows) else { return false };
        match store.commit(self.config.journal_id, &rows.batch) {
            Ok(()) => {
                self.retry_ns = RETRY_NS_MIN;
                self.committed();
                true
            }
            Err(error) => {
                self.fail(&error, now_ns);
                false
            }
        }
    }

    fn open(&mut self, journaled: u64) -> Result<(), StoreError> {
        let mut store = (self.config.open)()?;
        let position = store.position()?;
        if let Some(position) = position
            && position.journal_id != self.config.journal_id
        {
            return Err(foreign_journal(position, self.config.journal_id));
        }
        let sequence = position.map_or(Sequence::NONE, |position| position.sequence);
        if sequence.0 > journaled {
            return Err(StoreError::foreign(format!(
                "the ledger store goes up to input {sequence}, and the journal only to {journaled}"
            )));
        }
        match &self.rows {
            Some(rows) if sequence == rows.batch.after => {}
            // The commit that seemed to fail had succeeded.
            Some(rows) if sequence == rows.batch.sequence => self.committed(),
            _ => {
                self.rows = Some(Projection::load(&mut *store, sequence)?);
                self.since_ns = None;
            }
        }
        self.gauges.position.set(self.gauges.position.get().max(sequence.0));
        self.store = Some(store);
        Ok(())
    }

    fn committed(&mut self) {
        let rows = self.rows.as_mut().expect("rows were committed");
        self.gauges.commits.set(self.gauges.commits.get() + 1);
        self.gauges.rows.set(self.gauges.rows.get() + rows.batch.row_count() as u64);
        self.gauges.position.set(rows.batch.sequence.0);
        rows.stored();
        self.since_ns = None;
    }

    /// Leaves the store alone for a while, or for good.
    pub(crate) fn fail(&mut self, error: &StoreError, now_ns: u64) {
        self.store = None;
        self.gauges.failures.set(self.gauges.failures.get() + 1);
        if error.may_pass() {
            // The first of several failures in a row is printed; the others are counted.
            if self.retry_ns == RETRY_NS_MIN {
                tracing::warn!(
                    component = "ledger",
                    "{error}; the ledger falls behind and catches up later"
                );
            }
            self.retry_at_ns = now_ns + self.retry_ns;
            self.retry_ns = (self.retry_ns * 2).min(RETRY_NS_MAX);
        } else {
            self.given_up = true;
            tracing::error!(component = "ledger", "{error}; the venue no longer writes its ledger");
        }
    }
}
