//! The language of the scenarios: one command a line, and after `=>` all events that it causes.
//!
//! ```text
//! buy A1 4 @ 100                     => accepted, booked 4 @ 100
//! sell B1 6 @ market                 => accepted, trade A1 B1 4 @ 100, canceled B1 2 ioc
//! cancel A1                                              (nothing: the order is done)
//! book AAPL                                              (bids, then asks, best first)
//! ```
//!
//! `A1` is request 1 of session A, `A/3:7` is request 7 on its channel 3. docs/scenarios.md lists the
//! commands and their words; `scenario_commands` reads them. Two words are for tests only: a
//! replacement may be `without-instructions` (its instructions are named, and none) or `unreadable`.
//!
//! In addition to the checks in a scenario, each event must fit those before it (`scenario_events`). After
//! each line the engine passes `engine_checks`, and the next line goes to the engine restored from its
//! snapshot. Every command also goes to a second engine that marks no order as plain, which must agree, and
//! to a third that is never restored, which must emit the same lines.

use std::{collections::BTreeMap, fmt};

use engine::{Emit, Engine};
use market::{
    Command, EnterOrder, Event, Input, OrderKey, Outcome, Price, Quantity, SessionId, Side,
    Timestamp,
};

use super::{
    engine_checks::{self, LedgerBalances},
    scenario_events::ReportedOrder,
    scenario_money,
    scenario_words::{Read, Words},
};

/// The states of both paths are compared after each of the first inputs, up to this number, and then at each
/// multiple of it.
const COMPARED_EACH: u64 = 1_000;

/// The market in which a scenario begins.
const OPEN_MARKET: &str = "
    instrument AAPL increment 1 lot 100     => instrument 1
    instrument MSFT increment 5 lot 100     => instrument 2
    session A firm ACME max 1000            => session 1
    session B firm BETA max 1000            => session 2
    session C firm CORE max 1000            => session 3
    day start-of-system-hours               => day start-of-system-hours
";

/// Plays a scenario in an open market with the instruments AAPL (increment 1) and MSFT (increment 5)
/// and the sessions A (firm ACME), B (firm BETA) and C (firm CORE). After a line `from nothing` there
/// is none of that.
///
/// `each` receives each played line: its number, the command, and the events in words. Returns the number
/// of lines.
///
/// # Errors
/// The first line that cannot be read, or whose events differ from those it states.
///
/// # Panics
/// The engine contradicts itself: a fault of the engine, not of the scenario.
pub fn run(
    scenario: &str,
    each: &mut dyn FnMut(usize, &str, &str),
) -> Result<usize, ScenarioFailure> {
    World::in_open_market().try_play(scenario, each)
}

/// As [`run`], but returns every input and the state after it.
pub(super) fn steps(scenario: &str) -> Result<Vec<Step>, ScenarioFailure> {
    let mut world = World::default();
    let mut steps = Vec::new();
    world.try_play_steps(OPEN_MARKET, &mut |_, _, _| {}, Some(&mut steps))?;
    steps.iter_mut().for_each(|step| step.line = 0);
    world.try_play_steps(scenario, &mut |_, _, _| {}, Some(&mut steps))?;
    Ok(steps)
}

/// As [`run`], for tests: a failure is a panic.
#[track_caller]
pub fn check(scenario: &str) {
    if let Err(failure) = run(scenario, &mut |_, _, _| {}) {
        panic!("line {failure}\nin: {scenario}");
    }
}

/// Where a scenario failed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFailure {
    /// Counted from 1.
    pub line: usize,
    pub command: String,
    pub fault: ScenarioFault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioFault {
    /// The line cannot be read.
    Unreadable(String),
    /// The events differ from those that the line states.
    Different { expected: String, found: String },
}

impl fmt::Display for ScenarioFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, command, fault } = self;
        match fault {
            ScenarioFault::Unreadable(why) => write!(f, "{line}: {command}: {why}"),
            ScenarioFault::Different { expected, found } => {
                let [expected, found] = [expected, found].map(|events| match events.as_str() {
                    "" => "nothing",
                    events => events,
                });
                write!(f, "{line}: {command}\n  expected: {expected}\n  found:    {found}")
            }
        }
    }
}

/// Plays a scenario that begins with nothing: no instrument, no session, closed.
#[track_caller]
pub fn check_from_nothing(scenario: &str) {
    World::default().play(scenario);
}

/// An engine, and the states of its orders according to the events so far.
#[derive(Default)]
pub struct World {
    pub(super) engine: Engine,
    /// An engine that marks no order as plain, and must agree.
    unmarked: Engine,
    /// An engine that is never restored, and must emit the same lines.
    running: Engine,
    pub(super) sessions: BTreeMap<String, SessionId>,
    /// Every order that an event reported, done or not.
    pub(super) orders: BTreeMap<OrderKey, ReportedOrder>,
    pub(super) order_id_last: u64,
    pub(super) trade_id_last: u64,
    /// The time in the scenario, in nanoseconds; commands are at least a microsecond apart.
    time_ns: u64,
    pub(super) balances: LedgerBalances,
    /// Every input, and its events.
    inputs: Vec<(Input, Vec<Event>)>,
    /// The scenario's keys of requests, by the venue's keys.
    pub(super) aliases: BTreeMap<OrderKey, OrderKey>,
}

/// The output of an engine, one line for each set of simultaneous events: the journal's digest counts lines.
#[derive(Default)]
struct Lines(Vec<Outcome>);

impl Emit for Lines {
    fn emit(&mut self, event: Event) {
        self.0.push(Outcome::Event(event));
    }

    fn emit_at_once(&mut self, outcome: Outcome) {
        self.0.push(outcome);
    }
}

/// A line that was played.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Counted from 1; 0 is the market in which a scenario begins.
    pub line: usize,
    pub command: String,
    pub input: Input,
    pub events: Vec<Event>,
    /// Books and balances after it, in words.
    pub state: String,
}

impl World {
    /// The open market in which a scenario begins; see [`run`].
    pub fn in_open_market() -> Self {
        let mut world = Self::default();
        world.play(OPEN_MARKET);
        world
    }

    /// Plays the lines of a scenario one after the other.
    #[track_caller]
    pub fn play(&mut self, scenario: &str) {
        if let Err(failure) = self.try_play(scenario, &mut |_, _, _| {}) {
            panic!("line {failure}\nin: {scenario}");
        }
    }

    fn try_play(
        &mut self,
        scenario: &str,
        each: &mut dyn FnMut(usize, &str, &str),
    ) -> Result<usize, ScenarioFailure> {
        self.try_play_steps(scenario, each, None)
    }

    fn try_play_steps(
        &mut self,
        scenario: &str,
        each: &mut dyn FnMut(usize, &str, &str),
        mut steps: Option<&mut Vec<Step>>,
    ) -> Result<usize, ScenarioFailure> {
        let mut played = 0;
        for (text, line) in scenario.lines().zip(1..) {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let (command, expected) = text.split_once("=>").unwrap_or((text, ""));
            let command = command.trim();
            let expected = expected.split(',').map(str::trim).collect::<Vec<_>>().join(", ");
            let failure = |fault| ScenarioFailure { line, command: command.to_owned(), fault };
            let found =
                self.line(command).map_err(|why| failure(ScenarioFault::Unreadable(why)))?;
            let found = found.join(", ");
            if found != expected {
                return Err(failure(ScenarioFault::Different { expected, found }));
            }
            each(line, command, &found);
            played += 1;
            if let Some(steps) = &mut steps {
                if command.starts_with("from") {
                    steps.clear();
                }
                let inputs = std::mem::take(&mut self.inputs);
                steps.extend(inputs.into_iter().map(|(input, events)| {
                    let (command, state) = (command.to_owned(), self.state());
                    Step { line, command, input, events, state }
                }));
            }
            let hashes = [&self.engine, &self.unmarked].map(Engine::state_hash);
            assert_eq!(hashes[0], hashes[1], "after: {text}");
            self.engine = engine_checks::check(&self.engine, &self.balances)
                .unwrap_or_else(|why| panic!("after: {text}: {why}"));
        }
        Ok(played)
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Applies a command to the engine; returns its events.
    pub fn apply(&mut self, command: Command) -> Vec<Event> {
        let input = Input {
            sequence: self.engine.sequence().next(),
            timestamp: Timestamp(self.time_ns.max(1_000 * self.engine.sequence().0)),
            command,
        };
        let [restored, running] = [&mut self.engine, &mut self.running].map(|engine| {
            let mut lines = Lines::default();
            engine.apply_to(&input, &mut lines);
            lines.0
        });
        assert_eq!(restored, running, "the lines of {command:?}, restored before it and not");
        let mut events = Vec::new();
        restored.iter().for_each(|line| line.each(|event| events.push(event)));
        let mut others = Vec::new();
        self.unmarked.apply_unmarked(&input, &mut |event| others.push(event));
        assert_eq!(events, others, "with and without the mark of plain orders: {command:?}");
        // A hash walks over the whole state. With many commands only some states are compared: two states that
        // once differ stay different.
        let nth = input.sequence.0;
        if nth < COMPARED_EACH || nth.is_multiple_of(COMPARED_EACH) {
            assert_eq!(self.engine.state_hash(), self.unmarked.state_hash(), "{command:?}");
        }
        self.inputs.push((input, events.clone()));
        events
    }

    /// Lets session 1 sell a lot of the first instrument to itself, by two of its own numbers.
    pub fn trade_with_itself(&mut self, nth: u32) {
        for (user_ref_num, side) in [(2 * nth - 1, Side::Sell), (2 * nth, Side::Buy)] {
            let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num };
            let symbol = self.engine.instruments().next().expect("there is one").symbol;
            let order = EnterOrder::limit(key, side, symbol, Quantity(1), Price(100));
            self.apply(Command::Enter(order));
        }
    }

    /// Plays a line: a command and its events, or a look at the state.
    fn line(&mut self, line: &str) -> Read<Vec<String>> {
        let all: Vec<_> = line.split_whitespace().collect();
        let mut words = Words(&all);
        let mut command_words = words;
        let found = match words.next()? {
            "from" => {
                words.expect("nothing")?;
                *self = Self::default();
                Vec::new()
            }
            "book" => self.book(words.next()?)?,
            "waiting" => self.stop_book(words.next()?)?,
            "pegs" => self.pegs(words.next()?)?,
            "order" => self.order(words.next()?)?,
            "balance" => {
                let (account, asset) = (words.next()?, words.next()?);
                vec![scenario_money::balance(&self.engine, account, asset)?]
            }
            verb => {
                if verb == "time" {
                    let seconds: u64 = words.number()?;
                    self.time_ns = seconds.checked_mul(1_000_000_000).ok_or("too late a time")?;
                }
                let command = self.command(&mut command_words)?;
                words = command_words;
                words.end()?;
                let events = self.apply(command);
                events.iter().map(|event| self.report(&command, event)).collect()
            }
        };
        words.end()?;
        Ok(found)
    }
}
