//! The kinds of answers that a comparison met, and those that it must meet.
//!
//! Invariant: [`EXPECTED`] names every observable behaviour of the engine. A comparison that never
//! meets one of them fails.

use std::{
    collections::BTreeMap,
    fmt::{self, Debug, Write},
};

use engine::{Engine, WaitsFor};
use market::{
    Canceled, Command, CommandKind, Event, Indication, Instructions, MoneyEvent, OperatorAction,
    OperatorCommand, OperatorDecline, OperatorOutcome, Price, RestateReason, Traded, VenueEvent,
};

/// The count of each kind of event, with the flags and reasons that matter, by its cause.
pub type Coverage = BTreeMap<String, u64>;

/// Every kind of event, with its cause. Braces hold alternatives.
const EXPECTED: &str = "\
    AddInstrument: InstrumentAdded
    AddSession: SessionAdded, open {false|true}
    System: System {Start|End}Of{Messages|SystemHours|MarketHours}
    System: Canceled EndOfDay, done true
    Time: Canceled Expired, done true
    QueryAccount: AccountQueried
    Note: Noted
    {Cancel|CancelOnDisconnect|MassCancel|Modify|Replace without terms|StopAccount}: Ledger Release
    {CancelOnDisconnect|StopAccount}: Canceled Supervisory, done true
    {RemoveInstrument|SupervisoryCancel|KillSwitch}: Canceled Supervisory, done true
    Cancel: Canceled {User|Linked}, done {false|true}
    {MassCancel|Replace without terms|Replace}: Canceled User, done true
    {Modify|MassCancel}: Canceled Linked, done true
    {Enter|Replace}: Canceled {ImmediateOrCancel|PostOnly|Collar}, done true
    {Enter|Replace}: Canceled Linked, done {false|true}
    Enter: Canceled {Unpaid|Expired}, done true
    MassCancel: MassCanceled
    Modify: Modified Buy, lots true, done {false|true}
    Modify: Modified {Sell|SellShort|SellShortExempt}, lots true, done {false|true}
    Modify: Modified {Sell|SellShort|SellShortExempt}, lots false, done false
    SwitchEntry: EntrySwitched {false|true}
    SwitchEntry: Rejected NotSupported
    Enter: Accepted Limit {Day|ImmediateOrCancel|FillOrKill|GoodTillCancel|GoodTillTime}
    Enter: Accepted {Market|MarketToLimit} {Day|ImmediateOrCancel}
    Enter: Accepted {Limit|Market} {AtTheOpen|AtTheClose|GoodForAuction}
    Replace: Replaced, in place {false|true}
    {Enter|Replace}: Accepted with a minimum, traded {false|true}
    {Enter|Replace}: with instructions, {Limit|Stop|TakeProfit|TrailingStop}
    {Enter|Replace}: with instructions, {PrimaryPeg|MarketPeg|MidpointPeg}
    {Enter|Replace}: Booked hidden
    {Enter|Replace}: Booked, named {false|true}
    {Enter|Replace}: Traded{| hidden}, maker done true, taker done {false|true}
    {Enter|Replace}: Traded{| hidden}, maker done false, taker done true
    {Enter|Replace}: SelfMatchPrevented CancelNewest{|OfSessions}, booked false, done true
    {Enter|Replace}: SelfMatchPrevented CancelOldest{|OfSessions}, booked true, done true
    {Enter|Replace}: SelfMatchPrevented CancelBoth{|OfSessions}, booked {false|true}, done true
    {Enter|Replace}: SelfMatchPrevented DecrementBoth{|OfSessions}, booked {false|true}, done true
    {Enter|Replace}: SelfMatchPrevented DecrementBoth{|OfSessions}, booked {false|true}, done false
    {Enter|Replace}: {Slid|Restated Refreshed|Restated Ready}
    {Enter|Replace|Cancel}: Triggered, limit {false|true}
    {Enter|Replace|Cancel|MassCancel}: Released
    {Enter|Replace|Cancel|MassCancel|SetPhase}: Repriced, waits {false|true}
    System: Repriced, waits true
    ConfigureInstrument: Repriced, waits false
    A{n order that comes in| replacement| triggered order| released order} waits for quantity
    An order that waits for quantity is reduced
    Enter: Rejected Invalid{Display|Expiry|Link|MaxFloor|MinimumQuantity|PegType|Price|Quantity}
    Enter: Rejected {InvalidSymbol|InvalidTrigger|PeggingNotAllowed|TooManyOrders|NotInPhase}
    Enter: Rejected {QuantityAboveLimit|NotionalAboveLimit|PriceOutsideCollar|NoAccount}
    Enter: Rejected {PositionLimit|AccountStopped|TooManyPegs}
    {Enter|Replace}: Rejected {EntryDisabled|MarketClosed|EntryBlocked|Halted|InstrumentClosed}
    {Enter|Replace}: Rejected {ShortSaleNotAllowed|PriceTooFar|InsufficientBalance}
    {Enter|Replace}: Rejected Order{Quantity|Notional|Rate}Limit
    Reject: Rejected {InvalidCrossOrder|InvalidDisplay|InvalidMaxFloor|InvalidMinimumQuantity}
    Reject: Rejected {InvalidPegType|InvalidSelfMatchPrevention|InvalidSide|NoRoom|NotSupported}
    Reject: Rejected {PeggingNotAllowed|ReplaceNotAllowed|SweepNotAllowed|TooSlow}
    {Enter|Replace}: Ledger {Reserve|Settle|Release|Fee|Rebate}
    AddAsset: AssetAdded
    AddAccount: AccountAdded
    AssignSession: SessionAssigned
    AssignSession: Declined {OrdersLive|UnknownAccount}
    Deposit: Ledger Deposit
    Deposit: Declined TooMuch
    Withdraw: Ledger Withdrawal
    Transfer: Ledger Transfer
    {Withdraw|Transfer}: Declined InsufficientBalance
    {Deposit|Withdraw|Transfer}: Declined {InvalidAmount|UnknownAccount|UnknownAsset}
    SetTerms: TermsSet
    SetTerms: Declined {InvalidTerms|OrdersLive|UnknownAsset|UnknownInstrument}
    SetFees: FeesSet
    SetFees: Declined InvalidFees
    SetAccount: AccountSet {FeeTier|LiveOrdersMax|OrderNotionalMax|OrderQuantityMax}
    SetAccount: AccountSet {OrdersPerSecondMax|PositionMax|PriceAwayMax|ShortMax}
    SetAccount: Declined {InvalidValue|UnknownAccount|UnknownAsset}
    StopAccount: AccountStopped {false|true}
    StopAccount: Declined UnknownAccount
    {Enter|Replace}: Continuous to VolatilityAuction by Band
    Enter: VolatilityAuction to Continuous by Time
    Enter: CollarSet, widened {false|true}
    Enter: Indicated {OpeningAuction|VolatilityAuction}, some true, left true, to buy true
    Enter: Indicated ClosingAuction, some true, left true, to buy false
    SetPhase: PreOpen to {OpeningAuction|Halted|Closed} by Command
    SetPhase: OpeningAuction to {Continuous|Halted} by Command
    SetPhase: Continuous to {PreOpen|OpeningAuction|VolatilityAuction} by Command
    SetPhase: Continuous to {Halted|ClosingAuction|Closed} by Command
    SetPhase: VolatilityAuction to {Continuous|Halted|ClosingAuction} by Command
    SetPhase: Halted to {PreOpen|OpeningAuction|Continuous} by Command
    SetPhase: Halted to {VolatilityAuction|ClosingAuction|Closed} by Command
    SetPhase: ClosingAuction to {Halted|Closed} by Command
    SetPhase: Closed to PreOpen by Command
    SetPhase: Canceled Expired, done true
    SetPhase: Restated {Refreshed|Ready}
    SetPhase: Ledger {Settle|Release|Fee}
    SetPhase: Traded in auction OpeningAuction, shown {false|true} {false|true}
    SetPhase: Traded in auction {VolatilityAuction|Halted|ClosingAuction}, shown true true
    SetPhase: Uncrossed OpeningAuction, some {false|true}
    SetPhase: Uncrossed {VolatilityAuction|Halted|ClosingAuction}, some true
    SetPhase: VenueDeclined {PhaseNotNext|UnknownInstrument|InvalidValue}
    Cancel: CancelHeld, pending {false|true}
    Modify: CancelHeld, pending false
    Replace: Rejected NotInPhase
    Auction in a later step, traded {false|true}
    An order waits for an auction to be over
    An order trades in steps
    Canceled in a later step {User|Supervisory|EndOfDay}
    Time: Triggered, limit true
    A price is shared out
    Auction decided by {Nothing|Volume|Imbalance|BuyPressure|SellPressure|Reference|Lowest}
    ConfigureInstrument: InstrumentChanged {PriceIncrement|RoundLot|ReferencePrice|Allocation}
    ConfigureInstrument: InstrumentChanged {StaticBand|DynamicBand|PauseSeconds|PriceCollar}
    ConfigureInstrument: InstrumentChanged {QuantityMax|NotionalMax|PegsMax|SessionPegsMax}
    ConfigureInstrument: VenueDeclined {InvalidValue|OrdersLive|UnknownInstrument}
    RemoveInstrument: InstrumentRemoved
    SupervisoryCancel: VenueDeclined Unknown{Instrument|Session|Account}
    {BlockEntry|KillSwitch}: EntryBlocked {false|true}
    BlockEntry: VenueDeclined {UnknownBlock|TooManyBlocks|UnknownAccount}
    KillSwitch: VenueDeclined {UnknownBlock|UnknownSession}
    BustTrade: TradeBusted
    BustTrade: Ledger Undo
    CorrectTrade: TradeCorrected
    CorrectTrade: Ledger Correct
    {BustTrade|CorrectTrade}: VenueDeclined {UnknownTrade|InsufficientBalance}
    CorrectTrade: VenueDeclined {TermsChanged|InvalidValue}
    SetLiveOrdersMax: LiveOrdersMaxSet
    LogOut: LoggedOut
    {SetLiveOrdersMax|LogOut}: VenueDeclined UnknownSession
    Operate: {done|Venue|Money}, repeated {false|true}
    Operate: number used, repeated false";

/// The names in [`EXPECTED`] that were never seen.
pub fn missing(coverage: &Coverage) -> Vec<String> {
    let expected = EXPECTED.lines().flat_map(|line| alternatives(line.trim()));
    expected.filter(|name| !coverage.contains_key(name)).collect()
}

/// Every name that a line with alternatives gives.
fn alternatives(line: &str) -> Vec<String> {
    let Some((before, rest)) = line.split_once('{') else { return vec![line.to_owned()] };
    let (inside, after) = rest.split_once('}').expect("a brace is closed");
    let tails = alternatives(after);
    let with = |word| tails.iter().map(move |tail| format!("{before}{word}{tail}"));
    inside.split('|').flat_map(with).collect()
}

pub(super) fn count(coverage: &mut Coverage, name: impl Into<String>, times: u64) {
    *coverage.entry(name.into()).or_default() += times;
}

/// Counts the events of a command.
pub(super) fn cover(coverage: &mut Coverage, engine: &Engine, command: &Command, events: &[Event]) {
    let cause = match command {
        Command::Operate(OperatorCommand { action: OperatorAction::Venue(it), .. })
        | Command::Venue(it) => variant(it),
        Command::Operate(OperatorCommand { action: OperatorAction::Money(it), .. })
        | Command::Money(it) => variant(it),
        Command::Replace(replace) if replace.terms.is_none() => "Replace without terms".into(),
        other => variant(other),
    };
    for event in events {
        if let Event::Venue(VenueEvent::Operated(result)) = event {
            let outcome = match result.outcome {
                OperatorOutcome::Done(_) => "done".into(),
                OperatorOutcome::Declined(OperatorDecline::NumberUsed(_)) => "number used".into(),
                OperatorOutcome::Declined(reason) => variant(&reason),
            };
            count(coverage, format!("Operate: {outcome}, repeated {}", result.repeated), 1);
            continue;
        }
        count(coverage, format!("{cause}: {}", name_of(event)), 1);
        if let Event::Canceled(Canceled { reason, cause: CommandKind::Time, .. }) = event {
            count(coverage, format!("Canceled in a later step {reason:?}"), 1);
        }
        let is_phase = cause == "SetPhase" || cause == "Time";
        if let Event::Venue(VenueEvent::Uncrossed(it)) = event
            && !is_phase
        {
            let traded = !it.quantity.is_zero();
            count(coverage, format!("Auction in a later step, traded {traded}"), 1);
        }
        let instructions = match event {
            Event::Accepted(accepted) => accepted.instructions,
            Event::Replaced(replaced) => replaced.instructions,
            _ => Instructions::NONE,
        };
        if instructions.is_some() {
            count(coverage, format!("{cause}: with instructions, {:?}", instructions.pricing), 1);
        }
        if let Some(name) = waits_for_quantity(engine, event) {
            count(coverage, name, 1);
        }
    }
    let minimum = match events.first() {
        Some(Event::Accepted(accepted)) => accepted.conditions.minimum_quantity,
        Some(Event::Replaced(replaced)) => replaced.conditions.minimum_quantity,
        _ => return,
    };
    if !minimum.is_zero() {
        let traded = events.iter().any(|event| matches!(event, Event::Traded(_)));
        count(coverage, format!("{cause}: Accepted with a minimum, traded {traded}"), 1);
    }
}

/// An event's kind, with the flags and reasons that matter.
fn name_of(event: &Event) -> String {
    match event {
        Event::System(event) => format!("System {event:?}"),
        Event::SessionAdded(it) => format!("SessionAdded, open {}", it.system_hours),
        Event::Accepted(it) => format!("Accepted {:?} {:?}", it.order_type, it.time_in_force),
        Event::Triggered(it) => format!("Triggered, limit {}", it.price != Price::ZERO),
        Event::Rejected(it) => format!("Rejected {:?}", it.reason),
        Event::Replaced(it) => format!("Replaced, in place {}", it.in_place),
        Event::Booked(it) if it.shown.is_zero() => "Booked hidden".into(),
        Event::Booked(it) => format!("Booked, named {}", !it.attribution.is_blank()),
        Event::Traded(Traded { auction: Some(auction), maker_shown, .. }) => format!(
            "Traded in auction {:?}, shown {} {}",
            auction.phase,
            !maker_shown.is_zero(),
            !auction.taker_shown.is_zero()
        ),
        Event::Traded(it) => format!(
            "Traded{}, maker done {}, taker done {}",
            if !it.maker_shown.is_zero() { "" } else { " hidden" },
            it.maker.leaves.is_zero(),
            it.taker.leaves.is_zero()
        ),
        Event::SelfMatchPrevented(it) => format!(
            "SelfMatchPrevented {:?}, booked {}, done {}",
            it.prevention,
            it.booked,
            it.leaves.is_zero()
        ),
        Event::Canceled(it) => format!("Canceled {:?}, done {}", it.reason, it.leaves.is_zero()),
        Event::Restated(it) if it.order_id == it.order_id_before => "Slid".into(),
        Event::Restated(it) if it.reason == RestateReason::Repriced => {
            format!("Repriced, waits {}", it.price == Price::ZERO)
        }
        Event::Restated(it) => format!("Restated {:?}", it.reason),
        Event::Modified(it) => format!(
            "Modified {:?}, lots {}, done {}",
            it.side,
            !it.quantity.is_zero(),
            it.leaves.is_zero()
        ),
        Event::CancelHeld(it) => format!("CancelHeld, pending {}", it.is_pending),
        Event::EntrySwitched(it) => format!("EntrySwitched {}", it.enabled),
        Event::Ledger(entry) => format!("Ledger {:?}", entry.kind),
        Event::Money(MoneyEvent::Declined(it)) => format!("Declined {:?}", it.reason),
        Event::Money(MoneyEvent::AccountSet(it)) => format!("AccountSet {:?}", it.setting),
        Event::Money(MoneyEvent::AccountStopped(it)) => format!("AccountStopped {}", it.stopped),
        Event::Money(event) => variant(event),
        Event::Venue(event) => name_of_venue_event(event),
        event => variant(event),
    }
}

fn name_of_venue_event(event: &VenueEvent) -> String {
    match event {
        VenueEvent::PhaseChanged(it) => format!("{:?} to {:?} by {:?}", it.from, it.to, it.cause),
        VenueEvent::Indicated(it) => {
            let Indication { paired, imbalance, imbalance_is_buy, .. } = it.indication;
            format!(
                "Indicated {:?}, some {}, left {}, to buy {imbalance_is_buy}",
                it.phase,
                !paired.is_zero(),
                !imbalance.is_zero()
            )
        }
        VenueEvent::CollarSet(it) => format!("CollarSet, widened {}", it.extension > 0),
        VenueEvent::Uncrossed(it) => {
            format!("Uncrossed {:?}, some {}", it.phase, !it.quantity.is_zero())
        }
        VenueEvent::InstrumentChanged(it) => format!("InstrumentChanged {}", variant(&it.change)),
        VenueEvent::EntryBlocked(it) => format!("EntryBlocked {}", it.blocked),
        VenueEvent::Declined(it) => format!("VenueDeclined {:?}", it.reason),
        event => variant(event),
    }
}

/// The name of an event after which its order waits: for quantity, for an auction, or for its turn.
fn waits_for_quantity(engine: &Engine, event: &Event) -> Option<&'static str> {
    let (key, name) = match event {
        Event::Accepted(it) => (it.key, "An order that comes in waits for quantity"),
        Event::Replaced(it) => (it.key, "A replacement waits for quantity"),
        Event::Triggered(it) => (it.key, "A triggered order waits for quantity"),
        Event::Released(it) => (it.key, "A released order waits for quantity"),
        Event::Canceled(it) if !it.leaves.is_zero() => {
            (it.key, "An order that waits for quantity is reduced")
        }
        _ => return None,
    };
    match engine.order(key)?.waits_for {
        Some(WaitsFor::Quantity) => Some(name),
        Some(WaitsFor::Auction) => Some("An order waits for an auction to be over"),
        Some(WaitsFor::Turn) => Some("An order trades in steps"),
        _ => None,
    }
}

/// The name of an enum's variant.
fn variant(value: &impl Debug) -> String {
    /// Keeps the text up to the first parenthesis.
    struct Name(String);

    impl Write for Name {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let end = text.find('(');
            self.0.push_str(&text[..end.unwrap_or(text.len())]);
            if end.is_some() { Err(fmt::Error) } else { Ok(()) }
        }
    }

    let mut name = Name(String::new());
    // The error is the end of the name.
    let _ = write!(name, "{value:?}");
    name.0
}
