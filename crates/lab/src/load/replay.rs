//! The requests of a recorded flow: rows of an order file, sent unchanged at their recorded times.
//!
//! Each worker reads the file separately and passes over the rows of other workers' sessions. The participant that the
//! file names first is the first session, and so on.
//!
//! Invariant: the rows of a participant are sent in the order of the file, each once, by one session.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use market::{Command, Price, ReplaceOrder, SessionId, Text};
use wire::ouch::{self, MessageBuffer};

use super::FailureReason;
use crate::order_file::{InstrumentTable, OrderFile};

/// Decimals of a price of OUCH.
const PRICE_DECIMALS: u8 = 4;

/// A recorded flow to be sent.
#[derive(Clone, Debug)]
pub struct RecordedFlow {
    /// An order file; its participants take the sessions in the order in which it names them.
    pub orders: PathBuf,
    pub instruments: Arc<InstrumentTable>,
    pub pace: ReplayPace,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplayPace {
    /// At the times of the file, `speed` times as fast.
    Recorded { speed: f64 },
    /// At the rate of the load, or in a closed loop.
    Load,
}

/// The rows for the sessions of one worker.
pub(super) struct ReplayRows {
    file: OrderFile,
    pace: ReplayPace,
    /// The session of each participant, for the whole load.
    sessions: BTreeMap<Text<6>, usize>,
    sessions_max: usize,
    /// This worker has the sessions whose index is `part` modulo `parts`.
    part: usize,
    parts: usize,
    /// The time of the file's first row.
    first_ns: Option<u64>,
    next: Option<ReplayRequest>,
}

/// A request that is due.
pub(super) struct ReplayRequest {
    /// The session, for the whole load.
    pub(super) session: usize,
    /// Counted from the start of the load; 0 where the load decides.
    due_ns: u64,
    command: Command,
}

/// A request to the venue, by the numbers of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayAsk {
    Enter { user_ref_num: u32 },
    Replace { original: u32, user_ref_num: u32 },
    Cancel { user_ref_num: u32 },
}

impl ReplayRows {
    pub(super) fn open(
        replay: &RecordedFlow,
        sessions_max: usize,
        (part, parts): (usize, usize),
    ) -> Result<Self, FailureReason> {
        let path: &Path = &replay.orders;
        let file = OrderFile::open(path, InstrumentTable::clone(&replay.instruments))?;
        if replay.pace != ReplayPace::Load && !file.has_times() {
            let what = format!("{} has no column time_ns; a rate sends it without", path.display());
            return Err(FailureReason::Replay(what));
        }
        let mut rows = Self {
            file,
            pace: replay.pace,
            sessions: BTreeMap::new(),
            sessions_max,
            part,
            parts,
            first_ns: None,
            next: None,
        };
        rows.step()?;
        Ok(rows)
    }

    /// The next request; `None` at the end of the file.
    pub(super) fn peek(&self) -> Option<&ReplayRequest> {
        self.next.as_ref()
    }

    /// When the next request is due by the file; never at its end. A load with a pace of its own asks its schedule.
    pub(super) fn next_ns(&self, start_ns: u64) -> u64 {
        self.next.as_ref().map_or(u64::MAX, |request| start_ns.saturating_add(request.due_ns))
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.pace != ReplayPace::Load
    }

    /// Goes on to the next row of this worker's sessions.
    pub(super) fn step(&mut self) -> Result<(), FailureReason> {
        self.next = None;
        while let Some(participant) = self.file.next_participant()? {
            let known = self.sessions.len();
            let session = *self.sessions.entry(participant).or_insert(known);
            if session >= self.sessions_max {
                let expected = format!(
                    "one of the first {known} participants: a load needs a session for each, see --connections"
                );
                return Err(self.file.not_sendable(&expected).into());
            }
            let due_ns = self.due_ns()?;
            if session % self.parts == self.part {
                let command = self.command()?;
                self.next = Some(ReplayRequest { session, due_ns, command });
                break;
            }
        }
        Ok(())
    }

    fn due_ns(&mut self) -> Result<u64, FailureReason> {
        let ReplayPace::Recorded { speed } = self.pace else { return Ok(0) };
        let time_ns = self.file.time_ns()?;
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        // Rows whose clock went back are due at once.
        let elapsed_ns = time_ns.saturating_sub(first_ns);
        Ok((elapsed_ns as f64 / speed) as u64)
    }

    /// The command of the current row, in the units of OUCH.
    fn command(&self) -> Result<Command, FailureReason> {
        let mut command = self.file.command(SessionId::default())?;
        let terms = match &command {
            Command::Enter(order) => Some((order.price, order.instructions != Default::default())),
            Command::Replace(replace) => {
                replace.terms.map(|terms| (terms.price, terms.instructions.is_some()))
            }
            _ => None,
        };
        if let Some((price, has_instructions)) = terms {
            let decimals = self.file.price_decimals()?;
            let scale = PRICE_DECIMALS.checked_sub(decimals).map(|by| 10_u64.pow(by.into()));
            let scaled = scale.and_then(|scale| price.0.checked_mul(scale));
            if scaled.is_none() || (has_instructions && scale != Some(1)) {
                let expected =
                    "an order whose prices have at most 4 decimals, and 4 with instructions";
                return Err(self.file.not_sendable(expected).into());
            }
            let price = Price(scaled.expect("see above"));
            match &mut command {
                Command::Enter(order) => order.price = price,
                Command::Replace(ReplaceOrder { terms: Some(terms), .. }) => terms.price = price,
                _ => {}
            }
        }
        let is_sent = match &command {
            Command::Enter(_) | Command::Cancel(_) => true,
            Command::Replace(replace) => replace.terms.is_some(),
            _ => false,
        };
        if !is_sent {
            let expected = "a place, a cancel or a replace: a load sends no other action";
            return Err(self.file.not_sendable(expected).into());
        }
        // `None` also for a quantity beyond OUCH's 32 bits.
        if ouch::request(&command).is_none() {
            return Err(self.file.not_sendable("an order that OUCH can express").into());
        }
        Ok(command)
    }
}

impl ReplayRequest {
    /// The message of a session whose first number in this run is `first`; `None` if its numbers do not reach.
    pub(super) fn message(&self, first: u32) -> Option<(MessageBuffer, ReplayAsk)> {
        let number = |order_id: u32| order_id.checked_add(first - 1).filter(|it| *it < u32::MAX);
        let mut command = self.command;
        let ask = match &mut command {
            Command::Enter(order) => {
                order.key.user_ref_num = number(order.key.user_ref_num)?;
                ReplayAsk::Enter { user_ref_num: order.key.user_ref_num }
            }
            Command::Replace(replace) => {
                replace.original_user_ref_num = number(replace.original_user_ref_num)?;
                replace.key.user_ref_num = number(replace.key.user_ref_num)?;
                ReplayAsk::Replace {
                    original: replace.original_user_ref_num,
                    user_ref_num: replace.key.user_ref_num,
                }
            }
            Command::Cancel(cancel) => {
                cancel.key.user_ref_num = number(cancel.key.user_ref_num)?;
                ReplayAsk::Cancel { user_ref_num: cancel.key.user_ref_num }
            }
            _ => unreachable!("no other command gets here"),
        };
        let message = ouch::request(&command).expect("it was checked when the row was read");
        Some((message, ask))
    }
}
