//! The operators' desk: takes a command of an operator, hands it to the sequencer, and returns its result once that is
//! as durable as configured. The socket and the HTTP API both end here.
//!
//! Invariant: every command goes through the log under the operator's name and number, so the core and not the desk
//! answers a repetition; the desk's data may be lost at any time.

mod dry_run;
pub(crate) mod reload;
mod request;

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use engine::Engine;
use gateway::Submission;
use market::{
    Command, OperatorCommand, OperatorDecline, OperatorName, OperatorOutcome, OperatorResult,
    Sequence, SessionId,
};
use ring::{Builder, Consumer, Cursor, Producer};
use serde_json::{Value, json};

use crate::clock::SystemClock;
pub(crate) use dry_run::current_state;
pub use request::{Directory, FaultRequest, OperatorRequest, OperatorVerb};

/// Slots of the ring of the venue's own commands, and of that of results.
pub(crate) const SLOTS: usize = 256;

/// The most commands waiting for their results; fewer than slots, so a result always has room.
const WAITING_MAX: usize = 64;

/// The longest time until the result of a command is durable.
const DURABLE_WITHIN: Duration = Duration::from_secs(10);

/// The interval between two looks for a result.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// A result on its way from the core to the desk.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// The input that caused it.
    pub cause: Sequence,
    pub result: OperatorResult,
}

/// The two rings between the desk and the pipeline.
pub struct DeskEnds {
    pub commands: Producer<Submission>,
    pub(crate) results: Consumer<Answered>,
    /// Results up to here may leave.
    pub(crate) durable: Arc<Cursor>,
    pub(crate) directory: Directory,
    /// The last number of each operator.
    pub(crate) numbers: BTreeMap<OperatorName, u64>,
}

/// The ring of results, from the core to the desk.
pub(crate) fn results() -> (Producer<Answered>, Consumer<Answered>) {
    let mut results = Builder::<Answered>::new("operator results", SLOTS);
    let to_desk = results.gating("operator desk");
    (results.build().0, to_desk)
}

/// The reason why a request has no result.
#[derive(Debug)]
pub enum DeskError {
    Wrong(String),
    /// Too many commands wait; this one was not submitted.
    Busy,
    /// The command was submitted, and its result is unknown: repeat it under the same number.
    Unknown {
        number: u64,
    },
    DryRun(String),
}

/// Takes commands from any thread, one after the other.
#[derive(Clone)]
pub struct Desk {
    inner: Arc<Mutex<Inner>>,
    journal: PathBuf,
}

struct Inner {
    ends: DeskEnds,
    clock: SystemClock,
    /// Commands given and not answered, oldest first: results come in the same order.
    tickets: VecDeque<u64>,
    next_ticket: u64,
    /// Durable results that were not fetched.
    answered: BTreeMap<u64, OperatorResult>,
    /// A result that is not durable yet.
    held: Option<Answered>,
}

impl Desk {
    /// A desk of the venue whose journal is in that folder.
    pub fn new(ends: DeskEnds, clock: SystemClock, journal: PathBuf) -> Self {
        let inner = Inner {
            ends,
            clock,
            tickets: VecDeque::new(),
            next_ticket: 0,
            answered: BTreeMap::new(),
            held: None,
        };
        Self { inner: Arc::new(Mutex::new(inner)), journal }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a command of the configuration, which has no operator; false if there is no room for it.
    pub(crate) fn submit(&self, command: Command) -> bool {
        let mut inner = self.lock();
        let received = inner.clock.now();
        inner.ends.commands.try_publish(Submission { received, command }).is_ok()
    }

    /// Learns the sessions that these commands add to a state, so that operators can name them.
    pub(crate) fn know_sessions(&self, commands: &[Command], engine: &Engine) {
        let mut count = engine.sessions().len() as u16;
        let mut inner = self.lock();
        for command in commands {
            if let Command::AddSession(add) = command {
                count += 1;
                inner.ends.directory.add_session(add.username.as_str(), SessionId(count));
            }
        }
    }

    /// The last number of an operator, as far as the desk knows.
    pub fn last_number(&self, operator: &OperatorName) -> u64 {
        self.lock().ends.numbers.get(operator).copied().unwrap_or(0)
    }

    /// Carries out a request and waits for its result. Returns the answer as JSON: schema
    /// `damrak/operator/1`.
    ///
    /// # Errors
    /// See [`DeskError`]. A command declined by the core is a result, not an error.
    pub async fn operate(
        &self,
        operator: OperatorName,
        request: &OperatorRequest,
    ) -> Result<Value, DeskError> {
        let (number, action) = {
            let inner = self.lock();
            let action = request.command.action(&inner.ends.directory).map_err(DeskError::Wrong)?;
            let last = inner.ends.numbers.get(&operator).copied().unwrap_or(0);
            (request.number.unwrap_or(last + 1), action)
        };
        let command = OperatorCommand { operator, number, action };
        if request.dry_run {
            let (folder, durable) = (self.journal.clone(), self.lock().ends.durable.get());
            let tried =
                tokio::task::spawn_blocking(move || dry_run::run(&folder, durable, command));
            let tried = tried.await.map_err(|error| DeskError::DryRun(error.to_string()))?;
            let result = tried.map_err(|failure| DeskError::DryRun(failure.what))?;
            return Ok(document(&result, true));
        }
        let ticket = self.lock().give(command)?;
        // Polls for the result: operator results are too rare for a doorbell.
        let looks = DURABLE_WITHIN.as_millis() / LOOK_INTERVAL.as_millis();
        for _ in 0..looks {
            if let Some(result) = self.lock().take(ticket) {
                return Ok(document(&result, false));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Err(DeskError::Unknown { number })
    }
}

impl Inner {
    fn give(&mut self, command: OperatorCommand) -> Result<u64, DeskError> {
        self.look();
        if self.tickets.len() >= WAITING_MAX {
            return Err(DeskError::Busy);
        }
        let received = self.clock.now();
        let submission = Submission { received, command: Command::Operate(command) };
        self.ends.commands.try_publish(submission).map_err(|_| DeskError::Busy)?;
        let last = self.ends.numbers.entry(command.operator).or_default();
        *last = command.number.max(*last);
        self.next_ticket += 1;
        self.tickets.push_back(self.next_ticket);
        Ok(self.next_ticket)
    }

    fn take(&mut self, ticket: u64) -> Option<OperatorResult> {
        self.look();
        self.answered.remove(&ticket)
    }

    /// Takes the results that are durable.
    fn look(&mut self) {
        loop {
            let held = &mut self.held;
            if held.is_none() {
                self.ends.results.drain(1, |answered, _| *held = Some(*answered));
            }
            let durable = self.ends.durable.get();
            let Some(Answered { result, .. }) = held.take_if(|held| held.cause.0 <= durable) else {
                return;
            };
            // Results before the first ticket are from a replay or have no waiter.
            if let Some(ticket) = self.tickets.pop_front() {
                self.answered.insert(ticket, result);
            }
            // The oldest results without a waiter are dropped.
            while self.answered.len() > WAITING_MAX {
                self.answered.pop_first();
            }
        }
    }
}

/// The last number of each operator, by the core.
pub(crate) fn numbers(engine: &Engine) -> BTreeMap<OperatorName, u64> {
    engine.operators().collect()
}

fn document(result: &OperatorResult, is_dry_run: bool) -> Value {
    let mut document = json!({
        "schema": "damrak/operator/1",
        "operator": result.operator.as_str(),
        "number": result.number,
        "sequence": result.sequence.0,
        "repeated": result.repeated,
        "dry_run": is_dry_run,
    });
    match result.outcome {
        OperatorOutcome::Done(effect) => {
            document["result"] = json!("done");
            document["effect"] = json!({
                "orders_canceled": effect.orders_canceled,
                "phases_changed": effect.phases_changed,
                "trades": effect.trades,
                "movements": effect.movements,
                "trade_id": (effect.trade_id.0 != 0).then_some(effect.trade_id.0),
            });
        }
        OperatorOutcome::Declined(decline) => {
            let (reason, words) = declined(decline);
            document["result"] = json!("declined");
            document["reason"] = json!(reason);
            document["error"] = json!(words);
        }
    }
    document
}

/// The reason of a decline, for programs and for people.
fn declined(decline: OperatorDecline) -> (String, String) {
    use market::{DeclineReason as Money, VenueDeclineReason as Venue};
    match decline {
        OperatorDecline::NumberUsed(last) => (
            "NumberUsed".into(),
            format!("the operator's last number is {last}, and it was for another command"),
        ),
        OperatorDecline::TooManyOperators => {
            ("TooManyOperators".into(), "there are 256 operators already".into())
        }
        OperatorDecline::Venue(why) => {
            let words = match why {
                Venue::UnknownInstrument => "there is no such instrument",
                Venue::PhaseNotNext => "the instrument does not go from its phase to that one",
                Venue::InvalidValue => "the property cannot have that value",
                Venue::OrdersLive => "there are live orders that it would affect",
                Venue::UnknownTrade => {
                    "there is no such trade, or it was busted already or is too old"
                }
                Venue::UnknownBlock => "no kill switch is set for exactly that scope",
                Venue::TooManyBlocks => {
                    "the kill switch is set for that scope already, or for 256 scopes"
                }
                Venue::UnknownSession => "there is no such session",
                Venue::UnknownAccount => "there is no such account",
                Venue::InsufficientBalance => "an account's balance is too low to undo the trade",
                Venue::TermsChanged => "terms, accounts or fees have changed since the trade",
            };
            (format!("{why:?}"), words.into())
        }
        OperatorDecline::Money(why) => {
            let words = match why {
                Money::InvalidName => "the name is blank or taken",
                Money::TooMany => "the maximum number exists already",
                Money::UnknownAccount => "there is no such account",
                Money::UnknownAsset => "there is no such asset",
                Money::UnknownInstrument => "there is no such instrument",
                Money::UnknownSession => "there is no such session",
                Money::InvalidTerms => "the terms contradict themselves",
                Money::InvalidFees => "a fee is out of range, or a rebate is above the fee paid",
                Money::InvalidValue => "the setting cannot have that value",
                Money::OrdersLive => "there are live orders that it would affect",
                Money::InvalidAmount => "the amount is 0",
                Money::InsufficientBalance => "the available balance of the account is too low",
                Money::TooMuch => "the total of the asset would exceed its maximum",
            };
            (format!("{why:?}"), words.into())
        }
    }
}
