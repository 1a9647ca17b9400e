//! The language of the scenarios: one command a line, and after `=>` all that comes of it.
//!
//! ```text
//! buy A1 4 @ 100                     => accepted, booked 4 @ 100
//! sell B1 6 @ market                 => accepted, trade A1 B1 4 @ 100, canceled B1 2 ioc
//! cancel A1                                              (nothing: the order is done)
//! book AAPL                                              (bids, then asks, best first)
//! waiting AAPL                            (for a fall, then for a rise, the nearest first)
//! pegs AAPL                               (what follows the market, the oldest first)
//! time 5                                  (nothing is asked, but it is 5 s after the epoch now)
//! phase AAPL opening-auction              (or `all` instruments; the venue's own commands)
//! configure AAPL static-band 50000
//! remove AAPL
//! supervise session A of AAPL side buy    (cancels what is meant; without words, everything)
//! block firm ACME                         (and unblock)
//! bust 3 E
//! correct 3 5 @ 100 C
//! kill session A                          (and revive: the kill switch of a scope)
//! live-orders A 5                         (how many live orders it may have)
//! log-out A
//! by alice 7 phase AAPL halted reason T1  (operator alice gives it, under number 7)
//! ```
//!
//! `A1` is request 1 of session A, `A/3:7` is request 7 on its channel 3. An order may carry
//! `of SYMBOL` (else AAPL), `ioc`, `fok`, `gtc`, `at-the-open`, `at-the-close`, `for-auction`, `attributable`, `hidden`, `firm F`, `group N`, `client X`, `capacity A`,
//! `retail`, `located`, `broker B`, `prevent P` with the letter of a self-match prevention, `among G`
//! with a self-match group, `post-only`, `minimum N`, `show N`, `range N`, `until S` with the second at which it expires,
//! `stop 105`, `touch 95`, `trail 5` (from the last trade, or after `stop 95` from there) for what
//! it waits, `peg primary`, `peg market` or `peg midpoint` with `offset -2` for what it follows, `after A1` for its parent, `or A2` for its partner. A replacement may be
//! `untold`. Lines about money are those of `scenario_money`. A firm or a group written `-` is blank.
//!
//! Beside what a scenario says, each event must fit those before it: ids without gaps, open lots
//! that add up, echoes that equal what was asked. After each line the engine's invariants hold, its
//! state hash is the one that is computed from scratch, and the next line is asked of an engine that
//! was restored from its snapshot.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    str::FromStr,
};

use engine::{Engine, Restoration, WaitsFor};
use market::{
    Accepted, AccountId, AccountQuery, AddInstrument, AddSession, Allocation, BlockEntry, Booked,
    BustReason, BustTrade, CancelOnDisconnect, CancelOrder, CancelReason, Canceled, Capacity,
    ClientOrderId, CollarSet, Command, ConditionChanges, Conditions, ConfigureInstrument,
    CorrectTrade, CustomerType, Display, EnterOrder, EntrySwitch, EntrySwitched, Event, Fill, Firm,
    Indicated, Indication, Input, Instructions, InstrumentChange, InstrumentId, LiveOrdersMax,
    Lots, MassCancel, MassCanceled, Modified, ModifyOrder, OperatorAction, OperatorCommand,
    OperatorEffect, OperatorOutcome, OperatorResult, OrderAttributes, OrderId, OrderKey, OrderType,
    PastTrade, Phase, PhaseCause, PhaseChanged, Price, Pricing, Quantity, RejectOrder,
    RejectReason, Released, RemoveInstrument, ReplaceOrder, ReplaceTerms, Replaced, RestateReason,
    Restated, Scope, SelfMatchPrevented, SelfMatchPrevention, SessionId, SetPhase, Shown, Side,
    Symbol, SystemEvent, Text, Ticks, TimeInForce, Timestamp, TradeBusted, TradeCorrected, TradeId,
    Traded, Triggered, Uncrossed, VenueCommand, VenueEvent,
};

use super::scenario_money::{self, Books};

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
/// `each` is given each line that was played: its number, the command, and what happened. Returns how
/// many there were.
///
/// # Errors
/// The first line that cannot be read, or after which something else happens than it says.
///
/// # Panics
/// The engine contradicts itself: a fault of the engine, not of the scenario.
pub fn run(
    scenario: &str,
    each: &mut dyn FnMut(usize, &str, &str),
) -> Result<usize, ScenarioFailure> {
    World::in_open_market().try_play(scenario, each)
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
    /// The command of that line.
    pub command: String,
    /// Why.
    pub fault: ScenarioFault,
}

/// Why a scenario failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioFault {
    /// The line cannot be read.
    Unreadable(String),
    /// Something else happens than the line says.
    Different {
        /// What the line says.
        expected: String,
        /// What happens.
        found: String,
    },
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

/// An engine, and what the events so far say of its orders.
#[derive(Default)]
pub struct World {
    engine: Engine,
    /// Takes every command on the general path, and must agree.
    general: Engine,
    sessions: BTreeMap<String, SessionId>,
    /// Every order that an event reported, done or not.
    told: BTreeMap<OrderKey, Told>,
    order_id_last: u64,
    trade_id_last: u64,
    /// As the scenario says, in nanoseconds; commands are a microsecond apart at least.
    time_ns: u64,
    books: Books,
}

/// The same engine, from its snapshot; every scenario goes on with one.
fn restored(engine: &Engine) -> Engine {
    let mut restoration = Restoration::new();
    engine.snapshot(&mut |section, bytes| {
        restoration.section(section, bytes).expect("it was just written");
    });
    let restored = restoration.finish().expect("it was just written");
    restored.check_invariants();
    restored
}

/// What the events so far say of an order.
struct Told {
    order_id: OrderId,
    instrument_id: InstrumentId,
    price: Price,
    leaves: u64,
    booked: bool,
    display: Display,
    /// It is for an auction only, so the feed does not tell of it.
    for_auction: bool,
    /// Lots on the feed; 0 while it does not know the order.
    shown: u64,
}

impl Told {
    fn displayed(&self) -> bool {
        self.booked && self.display != Display::Hidden && !self.for_auction
    }

    /// Something happened to what the feed shows of it.
    fn show(&mut self, shown: Shown) {
        assert_eq!(self.shown, shown.before.quantity().0);
        assert!(shown.after <= shown.before && shown.after.quantity().0 <= self.leaves);
        assert_eq!(self.displayed() && self.leaves > 0, shown.after != Lots::ZERO);
        self.shown = shown.after.quantity().0;
    }
}

/// Only what is not 0.
fn tell_effect(effect: &OperatorEffect) -> String {
    let OperatorEffect { orders_canceled, phases_changed, trades, movements, trade_id } = *effect;
    let parts = [
        (u64::from(orders_canceled), "canceled"),
        (u64::from(phases_changed), "phases"),
        (u64::from(trades), "trades"),
        (u64::from(movements), "movements"),
        (trade_id.0, "as"),
    ];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    parts.fold("done".into(), |told, (number, name)| format!("{told} {name} {number}"))
}

impl World {
    /// The open market in which a scenario begins; see [`run`].
    #[must_use]
    pub fn in_open_market() -> Self {
        let mut world = Self::default();
        world.play(OPEN_MARKET);
        world
    }

    /// Plays one line after the other.
    #[track_caller]
    pub fn play(&mut self, scenario: &str) {
        if let Err(failure) = self.try_play(scenario, &mut |_, _, _| {}) {
            panic!("line {failure}\nin: {scenario}");
        }
    }

    /// See [`run`].
    fn try_play(
        &mut self,
        scenario: &str,
        each: &mut dyn FnMut(usize, &str, &str),
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
            self.engine.check_invariants();
            self.books.check(&self.engine);
            assert_eq!(self.engine.state_hash(), self.engine.state_hash_slow(), "after: {text}");
            self.engine = restored(&self.engine);
        }
        Ok(played)
    }

    /// The engine, to look at.
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
        let mut events = Vec::new();
        self.engine.apply(&input, &mut |event| events.push(event));
        let mut others = Vec::new();
        self.general.apply_on_general_path(&input, &mut |event| others.push(event));
        assert_eq!(events, others, "the fast path and the general path: {command:?}");
        assert_eq!(self.engine.state_hash(), self.general.state_hash(), "{command:?}");
        events
    }

    /// Session 1 sells a lot of the first instrument to itself, by two numbers of its own.
    pub fn trade_with_itself(&mut self, nth: u32) {
        for (user_ref_num, side) in [(2 * nth - 1, Side::Sell), (2 * nth, Side::Buy)] {
            let key = OrderKey { session_id: SessionId(1), channel: 0, user_ref_num };
            let symbol = self.engine.instruments().next().expect("there is one").symbol;
            let order = EnterOrder::limit(key, side, symbol, Quantity(1), Price(100));
            self.apply(Command::Enter(order));
        }
    }

    fn line(&mut self, asked: &str) -> Read<Vec<String>> {
        let all: Vec<_> = asked.split_whitespace().collect();
        let mut words = Words { words: &all };
        let mut rest = Words { words: &all };
        let told = match rest.next()? {
            "from" => {
                rest.expect("nothing")?;
                *self = Self::default();
                Vec::new()
            }
            "book" => self.book(rest.next()?)?,
            "waiting" => self.waiting(rest.next()?)?,
            "pegs" => self.pegs(rest.next()?)?,
            "order" => self.order(rest.next()?)?,
            "balance" => {
                let (account, asset) = (rest.next()?, rest.next()?);
                vec![scenario_money::tell_balance(&self.engine, account, asset)?]
            }
            verb => {
                if verb == "time" {
                    let seconds: u64 = rest.number()?;
                    self.time_ns = seconds.checked_mul(1_000_000_000).ok_or("too late a time")?;
                }
                let command = self.command(&mut words)?;
                rest = words;
                rest.end()?;
                let events = self.apply(command);
                events.iter().map(|event| self.tell(&command, event)).collect()
            }
        };
        rest.end()?;
        Ok(told)
    }

    fn command(&self, words: &mut Words<'_>) -> Read<Command> {
        Ok(match words.next()? {
            "day" => {
                let event = words.next()?;
                let days = SystemEvent::ALL.iter().copied();
                let named = days.into_iter().find(|it| day(*it) == event);
                Command::System(named.ok_or_else(|| unknown(event))?)
            }
            "time" => {
                words.next()?;
                Command::Time
            }
            "instrument" => {
                let mut add = AddInstrument {
                    symbol: text(words.next()?)?,
                    price_increment: Price(1),
                    round_lot: Quantity(1),
                };
                words.each(|word, words| {
                    match word {
                        "increment" => add.price_increment = Price(words.number()?),
                        "lot" => add.round_lot = Quantity(words.number()?),
                        _ => return Err(unknown(word)),
                    }
                    Ok(())
                })?;
                Command::AddInstrument(add)
            }
            "session" => {
                let mut add = AddSession {
                    username: text(words.next()?)?,
                    firm: Firm::BLANK,
                    live_orders_max: 1_000,
                    self_match_prevention: SelfMatchPrevention::Off,
                };
                words.each(|word, words| {
                    match word {
                        "firm" => add.firm = text(words.next()?)?,
                        "prevent" => add.self_match_prevention = words.prevention()?,
                        "max" => add.live_orders_max = words.number()?,
                        _ => return Err(unknown(word)),
                    }
                    Ok(())
                })?;
                Command::AddSession(add)
            }
            word @ ("buy" | "sell" | "short" | "exempt") => self.enter(side(word)?, words)?,
            "replace" => self.replace(words)?,
            "cancel" => {
                let mut cancel =
                    CancelOrder { key: self.key(words.next()?)?, quantity: Quantity(0) };
                words.each(|word, words| {
                    match word {
                        "to" => cancel.quantity = Quantity(words.number()?),
                        _ => return Err(unknown(word)),
                    }
                    Ok(())
                })?;
                Command::Cancel(cancel)
            }
            "modify" => {
                let key = self.key(words.next()?)?;
                let side = side(words.next()?)?;
                words.expect("to")?;
                Command::Modify(ModifyOrder { key, side, quantity: Quantity(words.number()?) })
            }
            "mass-cancel" => {
                let mut mass = MassCancel {
                    key: self.key(words.next()?)?,
                    firm: text(words.next()?)?,
                    symbol: Symbol::BLANK,
                    side: None,
                    group_id: None,
                };
                words.each(|word, words| {
                    match word {
                        "of" => mass.symbol = text(words.next()?)?,
                        "side" => mass.side = Some(side(words.next()?)?),
                        "group" => mass.group_id = Some(words.number()?),
                        _ => return Err(unknown(word)),
                    }
                    Ok(())
                })?;
                Command::MassCancel(mass)
            }
            word @ ("enable" | "disable") => Command::SwitchEntry(EntrySwitch {
                key: self.key(words.next()?)?,
                firm: text(words.next()?)?,
                enabled: word == "enable",
            }),
            "cut-off" => Command::CancelOnDisconnect(CancelOnDisconnect {
                session_id: self.session(words.next()?),
            }),
            "query" => {
                let (session, channel) = channel(words.next()?)?;
                Command::QueryAccount(AccountQuery { session_id: self.session(session), channel })
            }
            "phase" => {
                let symbol = match words.next()? {
                    "all" => Symbol::BLANK,
                    word => text(word)?,
                };
                let mut set = SetPhase::new(symbol, phase(words.next()?)?);
                words.each(|word, words| {
                    match word {
                        "reason" => set.reason = text(words.next()?)?,
                        "release" => set.release_s = words.number()?,
                        _ => return Err(unknown(word)),
                    }
                    Ok(())
                })?;
                Command::Venue(VenueCommand::SetPhase(set))
            }
            "configure" => {
                let symbol = text(words.next()?)?;
                let property = words.next()?;
                let change = change(property, words.number()?)?;
                let configure = ConfigureInstrument { symbol, change };
                Command::Venue(VenueCommand::ConfigureInstrument(configure))
            }
            "remove" => {
                let symbol = text(words.next()?)?;
                Command::Venue(VenueCommand::RemoveInstrument(RemoveInstrument { symbol }))
            }
            "supervise" => Command::Venue(VenueCommand::SupervisoryCancel(self.scope(words)?)),
            word @ ("block" | "unblock") => {
                let (scope, blocked) = (self.scope(words)?, word == "block");
                Command::Venue(VenueCommand::BlockEntry(BlockEntry { scope, blocked }))
            }
            word @ ("kill" | "revive") => {
                let (scope, blocked) = (self.scope(words)?, word == "kill");
                Command::Venue(VenueCommand::KillSwitch(BlockEntry { scope, blocked }))
            }
            "live-orders" => {
                let session_id = self.session(words.next()?);
                let live_orders_max = words.number()?;
                let set = LiveOrdersMax { session_id, live_orders_max };
                Command::Venue(VenueCommand::SetLiveOrdersMax(set))
            }
            "log-out" => Command::Venue(VenueCommand::LogOut(self.session(words.next()?))),
            "by" => {
                let operator = match words.next()? {
                    "-" => Text::BLANK,
                    name => text(name)?,
                };
                let number = words.number()?;
                let action = match self.command(words)? {
                    Command::Venue(command) => OperatorAction::Venue(command),
                    Command::Money(command) => OperatorAction::Money(command),
                    _ => return Err("an operator gives no such command".into()),
                };
                Command::Operate(OperatorCommand { operator, number, action })
            }
            "bust" => {
                let trade_id = TradeId(words.number()?);
                let reason = words.break_reason()?;
                Command::Venue(VenueCommand::BustTrade(BustTrade { trade_id, reason }))
            }
            "correct" => {
                let trade_id = TradeId(words.number()?);
                let quantity = Quantity(words.number()?);
                let (_, price) = words.price()?;
                let reason = words.break_reason()?;
                let correct = CorrectTrade { trade_id, price, quantity, reason };
                Command::Venue(VenueCommand::CorrectTrade(correct))
            }
            "refuse" => {
                let key = self.key(words.next()?)?;
                let reason = words.next()?;
                let reasons = RejectReason::ALL.iter().copied();
                let reason = reasons.into_iter().find(|it| format!("{it:?}") == reason);
                let mut client_order_id = ClientOrderId::BLANK;
                words.each(|word, words| {
                    match word {
                        "client" => client_order_id = text(words.next()?)?,
                        _ => return Err(unknown(word)),
                    }
                    Ok(())
                })?;
                let reason = reason.ok_or("not a reason to reject")?;
                Command::Reject(RejectOrder { key, client_order_id, reason })
            }
            verb => scenario_money::command(&self.engine, |name| self.session(name), verb, words)?,
        })
    }

    fn enter(&self, side: Side, words: &mut Words<'_>) -> Read<Command> {
        let key = self.key(words.next()?)?;
        let quantity = Quantity(words.number()?);
        let (order_type, price) = words.price()?;
        let mut order = EnterOrder {
            key,
            side,
            order_type,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            quantity,
            price,
            symbol: text("AAPL")?,
            attributes: OrderAttributes::default(),
            conditions: Conditions::NONE,
            instructions: Instructions::NONE,
        };
        words.each(|word, words| {
            match word {
                "of" => order.symbol = text(words.next()?)?,
                "ioc" => order.time_in_force = TimeInForce::ImmediateOrCancel,
                "fok" => order.time_in_force = TimeInForce::FillOrKill,
                "gtc" => order.time_in_force = TimeInForce::GoodTillCancel,
                "for-auction" => order.time_in_force = TimeInForce::GoodForAuction,
                "at-the-open" => order.time_in_force = TimeInForce::AtTheOpen,
                "at-the-close" => order.time_in_force = TimeInForce::AtTheClose,
                "attributable" => order.display = Display::Attributable,
                "hidden" => order.display = Display::Hidden,
                "firm" => order.attributes.firm = text(words.next()?)?,
                "group" => order.attributes.group_id = words.number()?,
                "client" => order.attributes.client_order_id = text(words.next()?)?,
                "capacity" => {
                    let code = words.next()?.as_bytes()[0];
                    order.attributes.capacity =
                        Capacity::from_code(code).ok_or("not the letter of a capacity")?;
                }
                "retail" => order.attributes.customer_type = CustomerType::Retail,
                "located" => order.attributes.shares_located = true,
                "broker" => order.attributes.locate_broker = text(words.next()?)?,
                "prevent" => order.conditions.self_match_prevention = words.prevention()?,
                "post-only" => order.conditions.post_only = true,
                "minimum" => order.conditions.minimum_quantity = Lots(words.number()?),
                "among" => order.conditions.self_match_group = text(words.next()?)?,
                "until" => {
                    order.time_in_force = TimeInForce::GoodTillTime;
                    order.instructions.expires_s = words.number()?;
                }
                word => self.instruct(&mut order.instructions, word, words)?,
            }
            Ok(())
        })?;
        Ok(Command::Enter(order))
    }

    fn replace(&self, words: &mut Words<'_>) -> Read<Command> {
        let original = self.key(words.next()?)?;
        words.expect("by")?;
        let key = self.key(words.next()?)?;
        let mut terms = None;
        if words.words.first() == Some(&"unreadable") {
            words.next()?;
        } else {
            let quantity = Quantity(words.number()?);
            let (order_type, price) = words.price()?;
            let mut asked = ReplaceTerms {
                side: None,
                order_type,
                time_in_force: TimeInForce::Day,
                display: Display::Visible,
                quantity,
                price,
                client_order_id: ClientOrderId::BLANK,
                shares_located: false,
                locate_broker: Firm::BLANK,
                conditions: ConditionChanges::NONE,
                instructions: None,
            };
            words.each(|word, words| {
                match word {
                    "side" => asked.side = Some(side(words.next()?)?),
                    "ioc" => asked.time_in_force = TimeInForce::ImmediateOrCancel,
                    "fok" => asked.time_in_force = TimeInForce::FillOrKill,
                    "gtc" => asked.time_in_force = TimeInForce::GoodTillCancel,
                    "at-the-close" => asked.time_in_force = TimeInForce::AtTheClose,
                    "for-auction" => asked.time_in_force = TimeInForce::GoodForAuction,
                    "attributable" => asked.display = Display::Attributable,
                    "hidden" => asked.display = Display::Hidden,
                    "client" => asked.client_order_id = text(words.next()?)?,
                    "located" => asked.shares_located = true,
                    "broker" => asked.locate_broker = text(words.next()?)?,
                    "prevent" => asked.conditions.self_match_prevention = Some(words.prevention()?),
                    "post-only" => asked.conditions.post_only = Some(true),
                    "not-post-only" => asked.conditions.post_only = Some(false),
                    "minimum" => {
                        asked.conditions.minimum_quantity = Some(Lots(words.number()?));
                    }
                    "among" => asked.conditions.self_match_group = Some(text(words.next()?)?),
                    "until" => {
                        asked.time_in_force = TimeInForce::GoodTillTime;
                        asked.instructions.get_or_insert_default().expires_s = words.number()?;
                    }
                    "good-till-time" => asked.time_in_force = TimeInForce::GoodTillTime,
                    word => {
                        let instructions = asked.instructions.get_or_insert_default();
                        self.instruct(instructions, word, words)?;
                    }
                }
                Ok(())
            })?;
            terms = Some(asked);
        }
        let original_user_ref_num = original.user_ref_num;
        Ok(Command::Replace(ReplaceOrder { original_user_ref_num, key, terms }))
    }

    fn scope(&self, words: &mut Words<'_>) -> Read<Scope> {
        let mut scope = Scope::ALL;
        words.each(|word, words| {
            match word {
                "session" => scope.session_id = self.session(words.next()?),
                "firm" => scope.firm = text(words.next()?)?,
                "of" => scope.symbol = text(words.next()?)?,
                "side" => scope.side = Some(side(words.next()?)?),
                "group" => scope.group_id = Some(words.number()?),
                "account" => {
                    let known = self.engine.account_named(&text(words.next()?)?);
                    // One that there is not has a number that there is not.
                    scope.account_id = known.map_or(AccountId(60_000), |known| known.account_id);
                }
                _ => return Err(unknown(word)),
            }
            Ok(())
        })?;
        Ok(scope)
    }

    /// Reads a word of the instructions of an order.
    fn instruct(
        &self,
        instructions: &mut Instructions,
        word: &str,
        words: &mut Words<'_>,
    ) -> Read<()> {
        match word {
            "untold" => {}
            "all-or-none" => instructions.all_or_none = true,
            "slide" => instructions.slide = true,
            "show" => instructions.shown_quantity = Lots(words.number()?),
            "range" => instructions.shown_range = Lots(words.number()?),
            "stop" => {
                instructions.pricing = Pricing::Stop;
                instructions.trigger = Ticks(words.number()?);
            }
            "touch" => {
                instructions.pricing = Pricing::TakeProfit;
                instructions.trigger = Ticks(words.number()?);
            }
            "trail" => {
                instructions.pricing = Pricing::TrailingStop;
                instructions.offset = words.number()?;
            }
            "peg" => {
                instructions.pricing = match words.next()? {
                    "primary" => Pricing::PrimaryPeg,
                    "market" => Pricing::MarketPeg,
                    "midpoint" => Pricing::MidpointPeg,
                    other => return Err(unknown(other)),
                }
            }
            "offset" => instructions.offset = words.parse("ticks, up or down")?,
            "after" => instructions.parent = self.key(words.next()?)?.user_ref_num,
            "or" => instructions.partner = self.key(words.next()?)?.user_ref_num,
            _ => return Err(unknown(word)),
        }
        Ok(())
    }

    /// `A1` or `A/3:7`.
    fn key(&self, word: &str) -> Read<OrderKey> {
        let wrong = || format!("{word:?} is not a request like A1 or A/3:7");
        let (place, number) = match word.split_once(':') {
            Some(parts) => parts,
            None => word.split_at(word.find(|it: char| it.is_ascii_digit()).ok_or_else(wrong)?),
        };
        let (session, channel) = channel(place)?;
        let user_ref_num = number.parse().map_err(|_| wrong())?;
        Ok(OrderKey { session_id: self.session(session), channel, user_ref_num })
    }

    /// A session that was never added has a number that none has.
    fn session(&self, name: &str) -> SessionId {
        self.sessions.get(name).copied().unwrap_or(SessionId(65_535))
    }

    fn session_name(&self, session_id: SessionId) -> String {
        let named = self.sessions.iter().find(|(_, id)| **id == session_id);
        named.expect("only of sessions there are").0.clone()
    }

    fn name(&self, key: OrderKey) -> String {
        let session = self.session_name(key.session_id);
        match key.channel {
            0 => format!("{session}{}", key.user_ref_num),
            channel => format!("{session}/{channel}:{}", key.user_ref_num),
        }
    }

    /// Says an event in the words of the language, having seen that it fits.
    fn tell(&mut self, command: &Command, event: &Event) -> String {
        match event {
            Event::System(event) => format!("day {}", day(*event)),
            Event::InstrumentAdded(added) => format!("instrument {}", added.instrument_id),
            Event::SessionAdded(added) => {
                self.sessions.insert(added.username.to_string(), added.session_id);
                let open = if added.system_hours { " open" } else { "" };
                format!("session {}{open}", added.session_id)
            }
            Event::Triggered(triggered) => self.tell_triggered(triggered),
            Event::Released(released) => self.tell_released(released),
            Event::Accepted(accepted) => self.tell_accepted(command, accepted),
            Event::Replaced(replaced) => self.tell_replaced(replaced),
            Event::Booked(booked) => self.tell_booked(booked),
            Event::Traded(traded) => self.report_traded(traded),
            Event::SelfMatchPrevented(prevented) => self.report_prevented(prevented),
            Event::Canceled(canceled) => self.tell_canceled(canceled),
            Event::Restated(restated) => self.report_restated(restated),
            Event::Modified(modified) => self.tell_modified(modified),
            Event::Rejected(rejected) => {
                let client = optional(" client ", &rejected.client_order_id);
                format!("rejected {} {:?}{client}", self.name(rejected.key), rejected.reason)
            }
            Event::MassCanceled(MassCanceled { key, firm, symbol, side, group_id }) => {
                let echo = MassCancel {
                    key: *key,
                    firm: *firm,
                    symbol: *symbol,
                    side: *side,
                    group_id: *group_id,
                };
                assert_eq!(Command::MassCancel(echo), *command);
                "mass-canceled".to_string()
            }
            Event::EntrySwitched(EntrySwitched { key, firm, enabled }) => {
                let echo = EntrySwitch { key: *key, firm: *firm, enabled: *enabled };
                assert_eq!(Command::SwitchEntry(echo), *command);
                if *enabled { "enabled".to_string() } else { "disabled".to_string() }
            }
            Event::AccountQueried(queried) => format!("next {}", queried.next_user_ref_num),
            Event::Ledger(entry) => {
                self.books.enter(entry);
                scenario_money::tell_entry(&self.engine, entry)
            }
            Event::Money(event) => {
                scenario_money::tell_money(&self.engine, |id| self.session_name(id), event)
            }
            Event::Venue(event) => self.tell_venue(event),
        }
    }

    fn tell_venue(&mut self, event: &VenueEvent) -> String {
        match event {
            VenueEvent::PhaseChanged(PhaseChanged { instrument_id, from, to, cause, reason }) => {
                assert_ne!(from, to);
                let by = match cause {
                    PhaseCause::Command => "",
                    PhaseCause::Band => " by band",
                    PhaseCause::Time => " by time",
                };
                let why = if reason.is_blank() { String::new() } else { format!(" {reason}") };
                format!("phase {} {}{by}{why}", self.symbol(*instrument_id), phase_word(*to))
            }
            VenueEvent::Indicated(indicated) => {
                let Indicated { instrument_id, indication, .. } = indicated;
                let Indication { price, paired, imbalance, imbalance_is_buy } = *indication;
                let symbol = self.symbol(*instrument_id);
                if paired.is_zero() {
                    assert_eq!(*indication, Indication::default());
                    return format!("indicates {symbol} nothing");
                }
                let left = match (imbalance.0, imbalance_is_buy) {
                    (0, _) => String::new(),
                    (lots, true) => format!(" leaving {lots} to buy"),
                    (lots, false) => format!(" leaving {lots} to sell"),
                };
                format!("indicates {symbol} {paired} @ {price}{left}")
            }
            VenueEvent::CollarSet(CollarSet { instrument_id, low, high, extension, .. }) => {
                let more = if *extension == 0 { String::new() } else { format!(" +{extension}") };
                format!("collar {} {low} to {high}{more}", self.symbol(*instrument_id))
            }
            VenueEvent::Uncrossed(Uncrossed {
                instrument_id, trade_id, price, quantity, ..
            }) => {
                self.trade_id_last += 1;
                assert_eq!(*trade_id, TradeId(self.trade_id_last));
                match quantity.0 {
                    0 => format!("auction {} nothing", self.symbol(*instrument_id)),
                    lots => format!("auction {} {lots} @ {price}", self.symbol(*instrument_id)),
                }
            }
            VenueEvent::InstrumentChanged(_) => "configured".to_string(),
            VenueEvent::InstrumentRemoved(instrument_id) => {
                assert_eq!(self.engine.phase(*instrument_id), None);
                format!("removed {}", self.symbol(*instrument_id))
            }
            VenueEvent::EntryBlocked(block) => {
                assert_eq!(self.engine.blocks().contains(&block.scope), block.blocked);
                if block.blocked { "blocked".to_string() } else { "unblocked".to_string() }
            }
            VenueEvent::TradeBusted(TradeBusted { trade, .. }) => {
                format!("busted {}", self.past(trade))
            }
            VenueEvent::TradeCorrected(TradeCorrected { broken, trade, .. }) => {
                self.trade_id_last += 1;
                assert_eq!(trade.trade_id, TradeId(self.trade_id_last));
                format!("corrected {broken} to {}", self.past(trade))
            }
            VenueEvent::LiveOrdersMaxSet(LiveOrdersMax { session_id, live_orders_max }) => {
                format!("live-orders {} {live_orders_max}", self.session_name(*session_id))
            }
            VenueEvent::LoggedOut(session_id) => {
                format!("logged-out {}", self.session_name(*session_id))
            }
            VenueEvent::Operated(result) => {
                let OperatorResult { operator, number, sequence, repeated, outcome } = result;
                assert_eq!(*repeated, *sequence < self.engine.sequence());
                let again = if *repeated { " again" } else { "" };
                let outcome = match outcome {
                    OperatorOutcome::Done(effect) => tell_effect(effect),
                    OperatorOutcome::Declined(why) => format!("declined {why:?}"),
                };
                format!("{operator} {number}{again}: {outcome}")
            }
            VenueEvent::Declined(decline) => format!("declined {:?}", decline.reason),
        }
    }

    fn past(&self, trade: &PastTrade) -> String {
        let [maker, taker] = [&trade.maker, &trade.taker].map(|party| {
            assert_eq!(self.told[&party.key].order_id, party.order_id);
            self.name(party.key)
        });
        let PastTrade { trade_id, quantity, price, .. } = trade;
        format!("{trade_id}: {maker} {taker} {quantity} @ {price}")
    }

    fn symbol(&self, instrument_id: InstrumentId) -> String {
        let instrument = self.engine.instruments().nth(usize::from(instrument_id.0) - 1);
        instrument.expect("it was added").symbol.to_string()
    }

    fn tell_accepted(&mut self, command: &Command, accepted: &Accepted) -> String {
        let Command::Enter(asked) = command else { panic!("{command:?} accepts no order") };
        let echo = Accepted {
            key: asked.key,
            order_id: self.next_order_id(),
            instrument_id: accepted.instrument_id,
            side: asked.side,
            order_type: asked.order_type,
            time_in_force: asked.time_in_force,
            display: asked.display,
            quantity: asked.quantity.lots(),
            price: asked.price.ticks(),
            attributes: asked.attributes,
            conditions: asked.conditions,
            instructions: asked.instructions,
        };
        assert_eq!(*accepted, echo);
        let instrument = self.engine.instrument(&asked.symbol).expect("orders are of instruments");
        assert_eq!(accepted.instrument_id, instrument.instrument_id);
        self.told.insert(
            accepted.key,
            Told {
                order_id: accepted.order_id,
                instrument_id: accepted.instrument_id,
                price: accepted.price.price(),
                leaves: accepted.quantity.0.into(),
                booked: false,
                display: accepted.display,
                for_auction: accepted.time_in_force.is_for_auction(),
                shown: 0,
            },
        );
        format!("accepted{}", self.instructions(accepted.key, &accepted.instructions))
    }

    fn tell_replaced(&mut self, replaced: &Replaced) -> String {
        let original_key =
            OrderKey { user_ref_num: replaced.original_user_ref_num, ..replaced.key };
        let original =
            self.told.get_mut(&original_key).expect("an event reported the order before");
        assert!(0 < original.leaves, "only a live order is replaced");
        assert_eq!(replaced.original_order_id, original.order_id);
        assert_eq!(replaced.original_displayed, original.displayed());
        let both = original.displayed() && replaced.display != Display::Hidden;
        assert!(both || !replaced.in_place, "the feed replaces what it knows by what it may");
        assert_eq!(replaced.instrument_id, original.instrument_id);
        original.leaves = 0;
        assert_eq!(replaced.order_id, self.next_order_id());
        let told = Told {
            order_id: replaced.order_id,
            instrument_id: replaced.instrument_id,
            price: replaced.price.price(),
            leaves: replaced.leaves.0.into(),
            booked: replaced.in_place,
            display: replaced.display,
            for_auction: replaced.time_in_force.is_for_auction(),
            shown: replaced.shown().0.into(),
        };
        self.told.insert(replaced.key, told);
        let mut line = format!(
            "replaced {} by {} {} {} @ {}",
            self.name(original_key),
            self.name(replaced.key),
            side_word(replaced.side),
            replaced.leaves.0,
            match replaced.order_type {
                OrderType::Limit => replaced.price.0.to_string(),
                OrderType::Market => "market".to_string(),
                OrderType::MarketToLimit => "market-to-limit".to_string(),
            }
        );
        line.push_str(match replaced.time_in_force {
            TimeInForce::Day => "",
            TimeInForce::ImmediateOrCancel => " ioc",
            TimeInForce::FillOrKill => " fok",
            TimeInForce::GoodTillCancel => " gtc",
            TimeInForce::AtTheOpen => " at-the-open",
            TimeInForce::AtTheClose => " at-the-close",
            TimeInForce::GoodForAuction => " for-auction",
            TimeInForce::GoodTillTime => " good-till-time",
        });
        if replaced.display == Display::Attributable {
            line.push_str(" attributable");
        }
        if replaced.display == Display::Hidden {
            line.push_str(" hidden");
        }
        line += &optional(" client ", &replaced.client_order_id);
        line += &optional(" firm ", &replaced.firm);
        line += &conditions(&replaced.conditions);
        line += &self.instructions(replaced.key, &replaced.instructions);
        if replaced.in_place {
            line.push_str(" in place");
        }
        line
    }

    fn tell_booked(&mut self, booked: &Booked) -> String {
        let told = self.told.values_mut().find(|told| told.order_id == booked.order_id);
        let told = told.expect("an event reported the order before");
        assert!(!told.booked, "an order is booked once");
        assert_eq!(told.leaves, booked.leaves.0);
        if told.price == Price::ZERO {
            // Market to limit: it rests where it traded last.
            told.price = booked.price;
        }
        assert_eq!(told.price, booked.price);
        assert_eq!(told.instrument_id, booked.instrument_id);
        told.booked = true;
        told.shown = booked.shown.0;
        // A market order that is collected has no price, and waits for the auction.
        told.for_auction |= booked.price == Price::ZERO;
        if told.for_auction {
            assert_eq!((booked.shown, booked.attribution), (Quantity::ZERO, Firm::BLANK));
            return format!("booked {} for auction", booked.leaves);
        }
        let name = optional(" as ", &booked.attribution);
        let hidden = match (told.display, booked.shown) {
            (Display::Hidden, shown) => {
                assert_eq!(shown, Quantity::ZERO);
                " hidden".to_string()
            }
            (_, shown) if shown < booked.leaves => format!(" showing {shown}"),
            (_, shown) => {
                assert_eq!(shown, booked.leaves);
                String::new()
            }
        };
        format!("booked {} @ {}{name}{hidden}", booked.leaves, booked.price)
    }

    fn report_traded(&mut self, traded: &Traded) -> String {
        self.trade_id_last += 1;
        assert_eq!(traded.trade_id, TradeId(self.trade_id_last));
        for fill in [&traded.maker, &traded.taker] {
            let told = self.take(fill.key, fill.order_id, traded.quantity, fill.leaves);
            assert_eq!(told.instrument_id, traded.instrument_id);
        }
        assert!(self.told[&traded.maker.key].booked);
        assert_eq!(self.told[&traded.taker.key].booked, traded.auction.is_some());
        match traded.auction {
            Some(auction) => {
                assert!(traded.maker.order_id < traded.taker.order_id);
                self.take_shown(traded.taker.key, traded.quantity, auction.taker_displayed);
            }
            None => assert_eq!(self.told[&traded.maker.key].price, traded.price),
        }
        self.take_shown(traded.maker.key, traded.quantity, traded.maker_displayed);
        let [maker, taker] = [&traded.maker, &traded.taker].map(|fill: &Fill| self.name(fill.key));
        format!("trade {maker} {taker} {} @ {}", traded.quantity, traded.price)
    }

    /// A resting order traded so many lots of those that the feed shows.
    fn take_shown(&mut self, key: OrderKey, quantity: Quantity, displayed: bool) {
        let told = self.told.get_mut(&key).expect("an event reported the order before");
        assert_eq!(told.shown > 0, displayed);
        if displayed {
            told.shown = told.shown.checked_sub(quantity.0).expect("only what is shown");
        }
    }

    fn report_prevented(&mut self, event: &SelfMatchPrevented) -> String {
        let SelfMatchPrevented { key, order_id, quantity, leaves, prevented, .. } = *event;
        assert!(!prevented.is_zero() && prevented <= quantity);
        let told = self.take(key, order_id, quantity, leaves);
        assert_eq!((told.booked, told.instrument_id), (event.booked, event.instrument_id));
        told.show(event.shown);
        if event.booked {
            assert_eq!(told.price, event.price);
        }
        let name = self.name(key);
        let prevention = char::from(event.prevention.code());
        let mut line = format!("prevented {name} {quantity}");
        if prevented != quantity {
            write!(line, " for {prevented}").expect("a string takes all");
        }
        write!(line, " @ {} {prevention}", event.price).expect("a string takes all");
        if !leaves.is_zero() {
            write!(line, " leaving {leaves}").expect("a string takes all");
        }
        line
    }

    fn tell_canceled(&mut self, canceled: &Canceled) -> String {
        let Canceled { key, order_id, quantity, leaves, .. } = *canceled;
        let told = self.take(key, order_id, quantity, leaves);
        assert_eq!(told.booked, canceled.booked);
        told.show(canceled.shown);
        assert_eq!(told.instrument_id, canceled.instrument_id);
        let mut line = format!("canceled {} {quantity}", self.name(key));
        if !leaves.is_zero() {
            write!(line, " leaving {leaves}").expect("a string takes all");
        }
        match canceled.reason {
            CancelReason::User => {}
            CancelReason::ImmediateOrCancel => line.push_str(" ioc"),
            CancelReason::PostOnly => line.push_str(" post-only"),
            CancelReason::Supervisory => line.push_str(" supervisory"),
            CancelReason::EndOfDay => line.push_str(" end-of-day"),
            CancelReason::Linked => line.push_str(" linked"),
            CancelReason::Unpaid => line.push_str(" unpaid"),
            CancelReason::Collar => line.push_str(" collar"),
            CancelReason::Expired => line.push_str(" expired"),
        }
        line
    }

    fn report_restated(&mut self, restated: &Restated) -> String {
        // One that slides was just accepted, and keeps its order id.
        let order_id = match restated.order_id == restated.order_id_before {
            true => restated.order_id,
            false => self.next_order_id(),
        };
        let told = self.told.get_mut(&restated.key).expect("an event reported the order before");
        assert_eq!((told.order_id, order_id), (restated.order_id_before, restated.order_id));
        assert_eq!((told.leaves, told.display), (restated.leaves.0, restated.display));
        told.order_id = order_id;
        told.price = restated.price;
        told.shown = restated.shown.0;
        match restated.reason {
            RestateReason::Refreshed => {
                format!("refreshed {} showing {}", self.name(restated.key), restated.shown)
            }
            RestateReason::Repriced => {
                told.booked = false;
                match restated.price {
                    Price::ZERO => format!("suspended {}", self.name(restated.key)),
                    price => format!("repriced {} @ {price}", self.name(restated.key)),
                }
            }
            RestateReason::Ready => format!("ready {}", self.name(restated.key)),
        }
    }

    /// Instructions in the words of the language, each with a space before it.
    fn instructions(&self, key: OrderKey, told: &Instructions) -> String {
        let mut line = match told.pricing {
            Pricing::Limit => String::new(),
            Pricing::Stop => format!(" stop {}", told.trigger.0),
            Pricing::TakeProfit => format!(" touch {}", told.trigger.0),
            Pricing::TrailingStop if told.trigger == Ticks::ZERO => {
                format!(" trail {}", told.offset)
            }
            Pricing::TrailingStop => format!(" stop {} trail {}", told.trigger.0, told.offset),
            pegged => {
                let followed = match pegged {
                    Pricing::PrimaryPeg => "primary",
                    Pricing::MarketPeg => "market",
                    _ => "midpoint",
                };
                match told.offset {
                    0 => format!(" peg {followed}"),
                    offset => format!(" peg {followed} offset {offset}"),
                }
            }
        };
        let name = |number| self.name(OrderKey { user_ref_num: number, ..key });
        if told.all_or_none {
            line.push_str(" all-or-none");
        }
        if told.slide {
            line.push_str(" slide");
        }
        if told.shown_quantity != Lots::ZERO {
            write!(line, " show {}", told.shown_quantity.0).expect("a string takes all");
        }
        if told.shown_range != Lots::ZERO {
            write!(line, " range {}", told.shown_range.0).expect("a string takes all");
        }
        if told.expires_s != 0 {
            write!(line, " until {}", told.expires_s).expect("a string takes all");
        }
        if told.parent != 0 {
            write!(line, " after {}", name(told.parent)).expect("a string takes all");
        }
        if told.partner != 0 {
            write!(line, " or {}", name(told.partner)).expect("a string takes all");
        }
        line
    }

    fn tell_triggered(&mut self, triggered: &Triggered) -> String {
        let name = self.name(triggered.key);
        assert_eq!(triggered.order_id, self.next_order_id());
        let told = self.told.get_mut(&triggered.key).expect("an event reported the order before");
        assert!(!told.booked && told.leaves > 0, "it waited");
        assert_eq!(
            (told.order_id, told.instrument_id),
            (triggered.order_id_before, triggered.instrument_id)
        );
        told.order_id = triggered.order_id;
        let moved = if told.price == triggered.price {
            String::new()
        } else {
            format!(" @ {}", triggered.price)
        };
        told.price = triggered.price;
        format!("triggered {name} at {}{moved}", triggered.trigger)
    }

    fn tell_released(&mut self, released: &Released) -> String {
        let parent = OrderKey { user_ref_num: released.parent, ..released.key };
        assert_eq!(self.told[&parent].leaves, 0, "it is done");
        assert_eq!(released.order_id, self.next_order_id());
        let told = self.told.get_mut(&released.key).expect("an event reported the order before");
        assert!(!told.booked, "it waited");
        assert_eq!(
            (told.order_id, told.instrument_id, told.leaves),
            (released.order_id_before, released.instrument_id, released.leaves.0)
        );
        told.order_id = released.order_id;
        format!("released {}", self.name(released.key))
    }

    fn tell_modified(&mut self, modified: &Modified) -> String {
        let Modified { key, order_id, quantity, leaves, .. } = *modified;
        let told = self.take(key, order_id, quantity, leaves);
        told.show(modified.shown);
        let side = side_word(modified.side);
        format!("modified {} {side} {quantity} leaving {leaves}", self.name(key))
    }

    /// Lots that an event takes from an order; what it says is left must be what is.
    fn take(
        &mut self,
        key: OrderKey,
        order_id: OrderId,
        quantity: Quantity,
        leaves: Quantity,
    ) -> &mut Told {
        let told = self.told.get_mut(&key).expect("an event reported the order before");
        assert_eq!(told.order_id, order_id);
        told.leaves = told.leaves.checked_sub(quantity.0).expect("no more than is open");
        assert_eq!(told.leaves, leaves.0);
        told
    }

    fn next_order_id(&mut self) -> OrderId {
        self.order_id_last += 1;
        OrderId(self.order_id_last)
    }

    fn book_of(&self, symbol: &str) -> Read<engine::BookView<'_>> {
        let instrument =
            self.engine.instrument(&text(symbol)?).ok_or("there is no such instrument")?;
        Ok(self.engine.book(instrument.instrument_id).expect("each instrument has a book"))
    }

    fn book(&self, symbol: &str) -> Read<Vec<String>> {
        let book = self.book_of(symbol)?;
        let lines = |side: &'static str, orders: Vec<engine::RestingOrder>| {
            orders.into_iter().map(move |order| {
                format!("{side} {} {} @ {}", self.name(order.key), order.leaves, order.price)
            })
        };
        let bids = lines("bid", book.bids().collect());
        Ok(bids.chain(lines("ask", book.asks().collect())).collect())
    }

    /// The orders that wait for a trigger.
    fn waiting(&self, symbol: &str) -> Read<Vec<String>> {
        let book = self.book_of(symbol)?;
        let told = book
            .waiting()
            .map(|order| {
                let side = side_word(order.side);
                let trigger = order.instructions.trigger.0;
                format!("{side} {} {} at {trigger}", self.name(order.key), order.leaves)
            })
            .collect();
        Ok(told)
    }

    /// The orders that follow the market.
    fn pegs(&self, symbol: &str) -> Read<Vec<String>> {
        let book = self.book_of(symbol)?;
        let told = book
            .pegged()
            .map(|order| {
                let name = self.name(order.key);
                let line = format!("{} {name} {}", side_word(order.side), order.leaves);
                match order.waits_for {
                    None => format!("{line} @ {}", order.price),
                    Some(_) => format!("{line} waits"),
                }
            })
            .collect();
        Ok(told)
    }

    fn order(&self, name: &str) -> Read<Vec<String>> {
        let order = self.engine.order(self.key(name)?);
        let told = order
            .map(|order| {
                let mut line = format!(
                    "{} {} of {} executed {} canceled {} firm {} capacity {}",
                    side_word(order.side),
                    order.leaves,
                    order.quantity,
                    order.executed,
                    order.canceled,
                    order.firm,
                    char::from(order.capacity.code()),
                );
                if order.customer_type == CustomerType::Retail {
                    line.push_str(" retail");
                }
                if !order.prevented.is_zero() {
                    write!(line, " prevented {}", order.prevented).expect("a string takes all");
                }
                if order.group_id != 0 {
                    write!(line, " group {}", order.group_id).expect("a string takes all");
                }
                line += &self.instructions(order.key, &order.instructions);
                line.push_str(match order.waits_for {
                    None => "",
                    Some(WaitsFor::Parent) => " held",
                    Some(WaitsFor::Trigger) => " waiting",
                    Some(WaitsFor::Reference) => " without a price",
                    Some(WaitsFor::Quantity) => " waits for quantity",
                });
                line
            })
            .into_iter()
            .collect();
        Ok(told)
    }
}

/// What is read from a scenario, or what is wrong with it.
pub(super) type Read<T> = Result<T, String>;

fn unknown(word: &str) -> String {
    format!("{word:?} is not a word of the language here")
}

/// The words of a line that are still to be read.
pub(super) struct Words<'a> {
    words: &'a [&'a str],
}

impl<'a> Words<'a> {
    pub(super) fn next(&mut self) -> Read<&'a str> {
        let (first, rest) = self.words.split_first().ok_or("a word is missing at the end")?;
        self.words = rest;
        Ok(first)
    }

    fn end(&self) -> Read<()> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(format!("{word:?} is a word too many")),
        }
    }

    pub(super) fn expect(&mut self, word: &str) -> Read<()> {
        match self.next()? {
            found if found == word => Ok(()),
            found => Err(format!("found {found:?}, expected {word:?}")),
        }
    }

    pub(super) fn parse<T: FromStr>(&mut self, what: &str) -> Read<T> {
        let word = self.next()?;
        word.parse().map_err(|_| format!("found {word:?}, expected {what}"))
    }

    pub(super) fn number<T: FromStr>(&mut self) -> Read<T> {
        self.parse("a number in its range")
    }

    fn break_reason(&mut self) -> Read<BustReason> {
        BustReason::from_code(self.letter()?).ok_or_else(|| "not the letter of a reason".into())
    }

    fn prevention(&mut self) -> Read<SelfMatchPrevention> {
        SelfMatchPrevention::from_code(self.letter()?)
            .ok_or_else(|| "not the letter of a self-match prevention".into())
    }

    fn letter(&mut self) -> Read<u8> {
        Ok(self.next()?.as_bytes()[0])
    }

    /// `@ 100`, `@ market` or `@ market-to-limit`.
    fn price(&mut self) -> Read<(OrderType, Price)> {
        self.expect("@")?;
        Ok(match self.words.first() {
            Some(&"market") => self.next().map(|_| (OrderType::Market, Price::ZERO))?,
            Some(&"market-to-limit") => {
                self.next().map(|_| (OrderType::MarketToLimit, Price::ZERO))?
            }
            _ => (OrderType::Limit, Price(self.number()?)),
        })
    }

    pub(super) fn each(
        &mut self,
        mut take: impl FnMut(&'a str, &mut Self) -> Read<()>,
    ) -> Read<()> {
        while let Some((first, rest)) = self.words.split_first() {
            self.words = rest;
            take(first, self)?;
        }
        Ok(())
    }
}

const PHASES: [(&str, Phase); 7] = [
    ("pre-open", Phase::PreOpen),
    ("opening-auction", Phase::OpeningAuction),
    ("continuous", Phase::Continuous),
    ("volatility-auction", Phase::VolatilityAuction),
    ("halted", Phase::Halted),
    ("closing-auction", Phase::ClosingAuction),
    ("closed", Phase::Closed),
];

fn phase(word: &str) -> Read<Phase> {
    let named = PHASES.iter().find(|(name, _)| *name == word);
    Ok(named.ok_or_else(|| unknown(word))?.1)
}

fn phase_word(phase: Phase) -> &'static str {
    PHASES.iter().find(|(_, it)| *it == phase).expect("each has a word").0
}

fn change(property: &str, value: u64) -> Read<InstrumentChange> {
    let small = || u32::try_from(value).map_err(|_| format!("{value} is too large"));
    Ok(match property {
        "increment" => InstrumentChange::PriceIncrement(Price(value)),
        "lot" => InstrumentChange::RoundLot(Quantity(value)),
        "reference" => InstrumentChange::ReferencePrice(Price(value)),
        "static-band" => InstrumentChange::StaticBand(small()?),
        "dynamic-band" => InstrumentChange::DynamicBand(small()?),
        "pause" => InstrumentChange::PauseSeconds(small()?),
        "collar" => InstrumentChange::PriceCollar(small()?),
        "quantity-max" => InstrumentChange::QuantityMax(Quantity(value)),
        "notional-max" => InstrumentChange::NotionalMax(value),
        "pegs-max" => InstrumentChange::PegsMax(small()?),
        "session-pegs-max" => InstrumentChange::SessionPegsMax(small()?),
        "pro-rata" => {
            let allocation = Allocation::ALL.get(value as usize).ok_or("not an allocation")?;
            InstrumentChange::Allocation(*allocation)
        }
        "time-share" => InstrumentChange::TimeShare(small()?),
        _ => return Err(unknown(property)),
    })
}

fn channel(place: &str) -> Read<(&str, u8)> {
    let Some((session, channel)) = place.split_once('/') else { return Ok((place, 0)) };
    let channel = channel.parse().map_err(|_| format!("{channel:?} is not a channel"))?;
    Ok((session, channel))
}

pub(super) fn text<const N: usize>(word: &str) -> Read<Text<N>> {
    match word {
        "-" => Ok(Text::BLANK),
        word => Text::new(word).ok_or_else(|| format!("{word:?} is longer than {N} characters")),
    }
}

fn optional<const N: usize>(label: &str, text: &Text<N>) -> String {
    if text.is_blank() { String::new() } else { format!("{label}{text}") }
}

fn conditions(conditions: &Conditions) -> String {
    let mut line = String::new();
    if conditions.self_match_prevention != SelfMatchPrevention::SessionDefault {
        line = format!(" prevent {}", char::from(conditions.self_match_prevention.code()));
    }
    line += &optional(" among ", &conditions.self_match_group);
    if conditions.post_only {
        line.push_str(" post-only");
    }
    if conditions.minimum_quantity != Lots::ZERO {
        write!(line, " minimum {}", conditions.minimum_quantity.0).expect("a string takes all");
    }
    line
}

fn side(word: &str) -> Read<Side> {
    let sides = Side::ALL.iter().copied();
    sides.into_iter().find(|side| side_word(*side) == word).ok_or_else(|| unknown(word))
}

fn side_word(side: Side) -> &'static str {
    match side {
        Side::Buy => "buy",
        Side::Sell => "sell",
        Side::SellShort => "short",
        Side::SellShortExempt => "exempt",
    }
}

fn day(event: SystemEvent) -> &'static str {
    match event {
        SystemEvent::StartOfMessages => "start-of-messages",
        SystemEvent::StartOfSystemHours => "start-of-system-hours",
        SystemEvent::StartOfMarketHours => "start-of-market-hours",
        SystemEvent::EndOfMarketHours => "end-of-market-hours",
        SystemEvent::EndOfSystemHours => "end-of-system-hours",
        SystemEvent::EndOfMessages => "end-of-messages",
    }
}
