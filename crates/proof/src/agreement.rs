//! The engine against the model: two programs that share no code must say the same of any commands.
//!
//! Start at [`play_all`]: seeds of every profile, over all cores. [`play`] is one of them, and
//! [`missing`] says what of [`EXPECTED`] they did not meet.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    ops::RangeInclusive,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use engine::{Engine, Restoration, WaitsFor};
use market::{
    AccountId, AssetId, Bucket, Command, Display, Event, Indication, Input, Instructions,
    MoneyCommand, MoneyEvent, OperatorAction, OperatorCommand, OperatorDecline, OperatorOutcome,
    OrderKey, OrderType, Price, RestateReason, SelfMatchPrevention, Sequence, Ticks, Timestamp,
    Traded, VenueCommand, VenueEvent,
};

use crate::{
    generator::{CommandFlow, Profile},
    model::{Model, ModelOrder, Place},
};

/// As many as the profiles say, in nanoseconds.
const COMMAND_INTERVAL_NS: u64 = 10_000_000;

/// Every so many commands the books are compared order by order and the hash is recomputed.
const LOOK_EVERY: u64 = 1_000;

/// Markets that differ in what they try hardest. Their books are small, for the model is slow.
///
/// The day of some closes towards the end of as many commands.
#[must_use]
pub fn profiles(commands: u64) -> Vec<(&'static str, Profile)> {
    let usual = Profile { live_orders: 150, ..Profile::default() };
    vec![
        ("usual", usual.clone()),
        ("odd", Profile { sessions: 2, odd_percent: 50, ..usual.clone() }),
        ("one price matters", Profile { spread: 3, instruments: 1, ..usual.clone() }),
        (
            "wild prices",
            Profile {
                spread: 3_000,
                far_per_mille: 200,
                jumps_per_million: 2_000,
                price_increment: Price(1),
                live_orders: 300,
                ..usual.clone()
            },
        ),
        (
            "crowded sessions",
            Profile { sessions: 20, channels: 3, live_orders_max: 6, ..usual.clone() },
        ),
        (
            "conditions",
            Profile {
                sessions: 3,
                spread: 5,
                conditions_percent: 70,
                self_match_preventions: vec![
                    SelfMatchPrevention::DecrementBoth,
                    SelfMatchPrevention::Off,
                    SelfMatchPrevention::SessionDefault,
                ],
                ..usual.clone()
            },
        ),
        (
            "money",
            Profile { instruments: 4, sessions: 5, accounts: 3, live_orders: 100, ..usual.clone() },
        ),
        (
            "money and conditions",
            Profile {
                instruments: 3,
                sessions: 4,
                accounts: 2,
                spread: 5,
                conditions_percent: 70,
                odd_percent: 20,
                live_orders: 60,
                self_match_preventions: vec![SelfMatchPrevention::DecrementBoth],
                ..usual.clone()
            },
        ),
        (
            "trades undone",
            Profile {
                instruments: 4,
                sessions: 5,
                accounts: 3,
                undo_per_mille: 40,
                live_orders: 30,
                spread: 8,
                ..usual.clone()
            },
        ),
        ("phases", Profile { venue_per_mille: 30, live_orders: 80, spread: 10, ..usual.clone() }),
        (
            "bands",
            Profile {
                venue_per_mille: 15,
                instruments: 2,
                spread: 20,
                live_orders: 100,
                jumps_per_million: 0,
                ..usual.clone()
            },
        ),
        (
            "auctions of equal sides",
            Profile {
                venue_per_mille: 80,
                lots_each: 100,
                live_orders: 30,
                spread: 6,
                odd_percent: 2,
                ..usual.clone()
            },
        ),
        (
            "phases and money",
            Profile {
                venue_per_mille: 25,
                instruments: 4,
                sessions: 5,
                accounts: 3,
                spread: 8,
                live_orders: 60,
                ..usual.clone()
            },
        ),
        (
            "waiting",
            Profile {
                sessions: 3,
                instruments: 2,
                spread: 12,
                beyond_ouch_percent: 30,
                waits_percent: 70,
                good_till_time_percent: 15,
                live_orders: 120,
                jumps_per_million: 200,
                ..usual.clone()
            },
        ),
        (
            "waiting for anything",
            Profile {
                sessions: 2,
                channels: 1,
                instruments: 1,
                spread: 40,
                far_per_mille: 60,
                price_increment: Price(1),
                mid: 300,
                beyond_ouch_percent: 30,
                waits_percent: 50,
                good_till_time_percent: 5,
                jumps_per_million: 0,
                ..usual.clone()
            },
        ),
        (
            "pegs",
            Profile {
                sessions: 3,
                instruments: 2,
                spread: 10,
                beyond_ouch_percent: 30,
                pegs_percent: 70,
                waits_percent: 30,
                conditions_percent: 20,
                live_orders: 200,
                jumps_per_million: 0,
                ..usual.clone()
            },
        ),
        (
            "pegs, phases and money",
            Profile {
                sessions: 4,
                accounts: 3,
                pegs_percent: 30,
                venue_per_mille: 25,
                spread: 8,
                live_orders: 80,
                self_match_preventions: vec![
                    SelfMatchPrevention::Off,
                    SelfMatchPrevention::DecrementBoth,
                ],
                ..usual.clone()
            },
        ),
        (
            "patience",
            Profile {
                sessions: 3,
                instruments: 2,
                spread: 8,
                conditions_percent: 30,
                beyond_ouch_percent: 20,
                waits_percent: 20,
                minimum_percent: 50,
                live_orders: 100,
                jumps_per_million: 200,
                self_match_preventions: vec![
                    SelfMatchPrevention::Off,
                    SelfMatchPrevention::CancelNewest,
                    SelfMatchPrevention::DecrementBoth,
                ],
                ..usual.clone()
            },
        ),
        (
            "pegs between few orders",
            Profile {
                instruments: 1,
                pegs_percent: 60,
                price_increment: Price(7),
                mid: 30,
                spread: 25,
                venue_per_mille: 4,
                live_orders: 30,
                ..usual.clone()
            },
        ),
        (
            "patience and money",
            Profile {
                sessions: 4,
                instruments: 3,
                accounts: 3,
                spread: 8,
                minimum_percent: 40,
                live_orders: 60,
                ..usual.clone()
            },
        ),
        (
            "everything",
            Profile {
                sessions: 4,
                instruments: 3,
                accounts: 3,
                spread: 10,
                conditions_percent: 30,
                beyond_ouch_percent: 25,
                waits_percent: 40,
                minimum_percent: 25,
                pegs_percent: 20,
                good_till_time_percent: 8,
                venue_per_mille: 25,
                live_orders: 90,
                jumps_per_million: 0,
                self_match_preventions: vec![
                    SelfMatchPrevention::Off,
                    SelfMatchPrevention::DecrementBoth,
                    SelfMatchPrevention::CancelOldest,
                ],
                ..usual.clone()
            },
        ),
        (
            "closing",
            Profile {
                closes_after: Some(commands * 3 / 4),
                beyond_ouch_percent: 40,
                waits_percent: 40,
                pegs_percent: 20,
                ..usual
            },
        ),
    ]
}

/// How often each kind of event was seen, with the flags and reasons that matter, by what caused it.
pub type Coverage = BTreeMap<String, u64>;

fn cover(coverage: &mut Coverage, command: &Command, event: &Event) {
    if let Event::Venue(VenueEvent::Operated(result)) = event {
        let outcome = match result.outcome {
            OperatorOutcome::Done(_) => "done".to_string(),
            OperatorOutcome::Declined(OperatorDecline::NumberUsed(_)) => "number used".into(),
            OperatorOutcome::Declined(why) => {
                format!("{why:?}").split('(').next().expect("a name").to_string()
            }
        };
        let name = format!("Operate: {outcome}, repeated {}", result.repeated);
        *coverage.entry(name).or_default() += 1;
        return;
    }
    let command = &match command {
        Command::Operate(OperatorCommand { action: OperatorAction::Venue(it), .. }) => {
            Command::Venue(*it)
        }
        Command::Operate(OperatorCommand { action: OperatorAction::Money(it), .. }) => {
            Command::Money(*it)
        }
        other => *other,
    };
    let cause = match command {
        Command::System(_) => "System",
        Command::AddInstrument(_) => "AddInstrument",
        Command::AddSession(_) => "AddSession",
        Command::Enter(_) => "Enter",
        Command::Replace(replace) if replace.terms.is_none() => "Replace without terms",
        Command::Replace(_) => "Replace",
        Command::Cancel(_) => "Cancel",
        Command::Modify(_) => "Modify",
        Command::MassCancel(_) => "MassCancel",
        Command::SwitchEntry(_) => "SwitchEntry",
        Command::QueryAccount(_) => "QueryAccount",
        Command::Reject(_) => "Reject",
        Command::CancelOnDisconnect(_) => "CancelOnDisconnect",
        Command::Money(command) => match command {
            MoneyCommand::AddAsset(_) => "AddAsset",
            MoneyCommand::AddAccount(_) => "AddAccount",
            MoneyCommand::AssignSession(_) => "AssignSession",
            MoneyCommand::SetTerms(_) => "SetTerms",
            MoneyCommand::SetFees(_) => "SetFees",
            MoneyCommand::SetAccount(_) => "SetAccount",
            MoneyCommand::StopAccount(_) => "StopAccount",
            MoneyCommand::Deposit(_) => "Deposit",
            MoneyCommand::Withdraw(_) => "Withdraw",
            MoneyCommand::Transfer(_) => "Transfer",
        },
        Command::Time => "Time",
        Command::Venue(command) => match command {
            VenueCommand::SetPhase(_) => "SetPhase",
            VenueCommand::ConfigureInstrument(_) => "ConfigureInstrument",
            VenueCommand::RemoveInstrument(_) => "RemoveInstrument",
            VenueCommand::SupervisoryCancel(_) => "SupervisoryCancel",
            VenueCommand::BlockEntry(_) => "BlockEntry",
            VenueCommand::BustTrade(_) => "BustTrade",
            VenueCommand::CorrectTrade(_) => "CorrectTrade",
            VenueCommand::KillSwitch(_) => "KillSwitch",
            VenueCommand::SetLiveOrdersMax(_) => "SetLiveOrdersMax",
            VenueCommand::LogOut(_) => "LogOut",
        },
        Command::Operate(_) => unreachable!("it was taken apart above"),
    };
    let name = match event {
        Event::System(event) => format!("System {event:?}"),
        Event::InstrumentAdded(_) => "InstrumentAdded".into(),
        Event::SessionAdded(added) => format!("SessionAdded, open {}", added.system_hours),
        Event::Accepted(accepted) => {
            format!("Accepted {:?} {:?}", accepted.order_type, accepted.time_in_force)
        }
        Event::Triggered(triggered) => {
            format!("Triggered, limit {}", triggered.price != Price::ZERO)
        }
        Event::Released(_) => "Released".into(),
        Event::Rejected(rejected) => format!("Rejected {:?}", rejected.reason),
        Event::Replaced(replaced) => format!("Replaced, in place {}", replaced.in_place),
        Event::Booked(booked) if booked.shown.is_zero() => "Booked hidden".into(),
        Event::Booked(booked) => format!("Booked, named {}", !booked.attribution.is_blank()),
        Event::Traded(Traded { auction: Some(auction), maker_displayed, .. }) => format!(
            "Traded in auction {:?}, shown {maker_displayed} {}",
            auction.phase, auction.taker_displayed
        ),
        Event::Traded(traded) => format!(
            "Traded{}, maker done {}, taker done {}",
            if traded.maker_displayed { "" } else { " hidden" },
            traded.maker.leaves.is_zero(),
            traded.taker.leaves.is_zero()
        ),
        Event::SelfMatchPrevented(prevented) => format!(
            "SelfMatchPrevented {:?}, booked {}, done {}",
            prevented.prevention,
            prevented.booked,
            prevented.leaves.is_zero()
        ),
        Event::Canceled(canceled) => {
            format!("Canceled {:?}, done {}", canceled.reason, canceled.leaves.is_zero())
        }
        Event::Restated(restated) if restated.order_id == restated.order_id_before => "Slid".into(),
        Event::Restated(restated) if restated.reason == RestateReason::Repriced => {
            format!("Repriced, waits {}", restated.price == Price::ZERO)
        }
        Event::Restated(restated) => format!("Restated {:?}", restated.reason),
        Event::Modified(modified) => format!(
            "Modified {:?}, lots {}, done {}",
            modified.side,
            !modified.quantity.is_zero(),
            modified.leaves.is_zero()
        ),
        Event::MassCanceled(_) => "MassCanceled".into(),
        Event::EntrySwitched(switched) => format!("EntrySwitched {}", switched.enabled),
        Event::AccountQueried(_) => "AccountQueried".into(),
        Event::Ledger(entry) => format!("Ledger {:?}", entry.kind),
        Event::Money(MoneyEvent::Declined(declined)) => format!("Declined {:?}", declined.reason),
        Event::Money(MoneyEvent::AccountSet(set)) => format!("AccountSet {:?}", set.setting),
        Event::Money(MoneyEvent::AccountStopped(stop)) => {
            format!("AccountStopped {}", stop.stopped)
        }
        Event::Money(event) => {
            let name = format!("{event:?}");
            name.split('(').next().expect("a name").into()
        }
        Event::Venue(event) => cover_venue(event),
    };
    *coverage.entry(format!("{cause}: {name}")).or_default() += 1;
    let instructions = match event {
        Event::Accepted(accepted) => accepted.instructions,
        Event::Replaced(replaced) => replaced.instructions,
        _ => Instructions::NONE,
    };
    if instructions.is_some() {
        let name = format!("{cause}: with instructions, {:?}", instructions.pricing);
        *coverage.entry(name).or_default() += 1;
    }
}

fn cover_venue(event: &VenueEvent) -> String {
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
        VenueEvent::InstrumentChanged(it) => {
            let change = format!("{:?}", it.change);
            format!("InstrumentChanged {}", change.split('(').next().unwrap_or_default())
        }
        VenueEvent::InstrumentRemoved(_) => "InstrumentRemoved".into(),
        VenueEvent::EntryBlocked(it) => format!("EntryBlocked {}", it.blocked),
        VenueEvent::TradeBusted(_) => "TradeBusted".into(),
        VenueEvent::TradeCorrected(_) => "TradeCorrected".into(),
        VenueEvent::LiveOrdersMaxSet(_) => "LiveOrdersMaxSet".into(),
        VenueEvent::LoggedOut(_) => "LoggedOut".into(),
        VenueEvent::Operated(_) => "Operated".into(),
        VenueEvent::Declined(it) => format!("VenueDeclined {:?}", it.reason),
    }
}

/// Orders that had a minimum, by whether they reached it.
fn cover_minimum(coverage: &mut Coverage, events: &[Event]) {
    let (cause, conditions) = match events.first() {
        Some(Event::Accepted(accepted)) => ("Enter", accepted.conditions),
        Some(Event::Replaced(replaced)) => ("Replace", replaced.conditions),
        _ => return,
    };
    if conditions.minimum_quantity.0 > 0 {
        let traded = events.iter().any(|event| matches!(event, Event::Traded(_)));
        let name = format!("{cause}: Accepted with a minimum, traded {traded}");
        *coverage.entry(name).or_default() += 1;
    }
}

/// Orders that wait until they can trade enough.
fn cover_minimum_quantity(coverage: &mut Coverage, engine: &Engine, events: &[Event]) {
    let name = |key: OrderKey, name| {
        let order = engine.order(key)?;
        (order.waits_for == Some(WaitsFor::Quantity)).then_some(name)
    };
    let names = events.iter().filter_map(|event| match event {
        Event::Accepted(it) => name(it.key, "An order that comes in waits for quantity"),
        Event::Replaced(it) => name(it.key, "A replacement waits for quantity"),
        Event::Triggered(it) => name(it.key, "A triggered order waits for quantity"),
        Event::Released(it) => name(it.key, "A released order waits for quantity"),
        Event::Canceled(it) if !it.leaves.is_zero() => {
            name(it.key, "An order that waits for quantity is reduced")
        }
        _ => None,
    });
    for name in names {
        *coverage.entry(name.to_string()).or_default() += 1;
    }
}

/// All that the engine can be seen to do, by what caused it: every event, flag and reason.
pub const EXPECTED: &str = "\
    AddInstrument: InstrumentAdded
    AddSession: SessionAdded, open false
    AddSession: SessionAdded, open true
    CancelOnDisconnect: Canceled Supervisory, done true
    Cancel: Canceled User, done false
    Cancel: Canceled User, done true
    Enter: Accepted Limit Day
    Enter: Accepted Limit ImmediateOrCancel
    Enter: Accepted Limit FillOrKill
    Enter: Accepted Limit GoodTillCancel
    Enter: Accepted MarketToLimit Day
    Enter: Accepted MarketToLimit ImmediateOrCancel
    Enter: Accepted Market Day
    Enter: Accepted Market ImmediateOrCancel
    Enter: Booked hidden
    Enter: Booked, named false
    Enter: Traded hidden, maker done false, taker done true
    Enter: Traded hidden, maker done true, taker done false
    Enter: Traded hidden, maker done true, taker done true
    Enter: Booked, named true
    Enter: Canceled ImmediateOrCancel, done true
    Enter: Rejected EntryDisabled
    Enter: Canceled PostOnly, done true
    Enter: Rejected InvalidMinimumQuantity
    Enter: Accepted with a minimum, traded true
    Enter: Accepted with a minimum, traded false
    Enter: Accepted Limit GoodTillTime
    Enter: with instructions, Limit
    Enter: with instructions, Stop
    Enter: with instructions, TakeProfit
    Enter: with instructions, TrailingStop
    Enter: with instructions, PrimaryPeg
    Enter: with instructions, MarketPeg
    Enter: with instructions, MidpointPeg
    Enter: Repriced, waits false
    Enter: Repriced, waits true
    Enter: Rejected InvalidDisplay
    Enter: Rejected InvalidPegType
    Enter: Rejected PeggingNotAllowed
    Enter: Canceled Unpaid, done true
    Replace: with instructions, PrimaryPeg
    Replace: with instructions, MarketPeg
    Replace: with instructions, MidpointPeg
    Replace: Repriced, waits false
    Replace: Repriced, waits true
    Cancel: Repriced, waits false
    Cancel: Repriced, waits true
    MassCancel: Repriced, waits false
    MassCancel: Repriced, waits true
    System: Repriced, waits true
    SetPhase: Repriced, waits false
    SetPhase: Repriced, waits true
    ConfigureInstrument: Repriced, waits false
    Enter: Rejected InvalidExpiry
    Enter: Rejected InvalidLink
    Enter: Rejected InvalidTrigger
    Enter: Triggered, limit false
    Enter: Triggered, limit true
    Enter: Released
    Enter: Canceled Linked, done false
    Enter: Canceled Linked, done true
    Enter: Canceled Expired, done true
    Cancel: Canceled Linked, done false
    Cancel: Canceled Linked, done true
    Cancel: Released
    Cancel: Triggered, limit false
    Cancel: Triggered, limit true
    Modify: Canceled Linked, done true
    MassCancel: Canceled Linked, done true
    MassCancel: Released
    Replace: with instructions, Limit
    Replace: with instructions, Stop
    Replace: with instructions, TakeProfit
    Replace: with instructions, TrailingStop
    Replace: Triggered, limit false
    Replace: Triggered, limit true
    Replace: Released
    Replace: Canceled Linked, done false
    Replace: Canceled Linked, done true
    System: Canceled EndOfDay, done true
    Time: Canceled Expired, done true
    Enter: Rejected InvalidPrice
    Enter: Rejected InvalidQuantity
    Enter: Rejected InvalidSymbol
    Enter: Rejected MarketClosed
    Enter: Rejected TooManyOrders
    Enter: Traded, maker done false, taker done true
    Enter: Traded, maker done true, taker done false
    Enter: Traded, maker done true, taker done true
    Enter: SelfMatchPrevented CancelNewest, booked false, done true
    Enter: SelfMatchPrevented CancelNewestOfSessions, booked false, done true
    Enter: SelfMatchPrevented CancelOldest, booked true, done true
    Enter: SelfMatchPrevented CancelOldestOfSessions, booked true, done true
    Enter: SelfMatchPrevented CancelBoth, booked true, done true
    Enter: SelfMatchPrevented CancelBoth, booked false, done true
    Enter: SelfMatchPrevented CancelBothOfSessions, booked true, done true
    Enter: SelfMatchPrevented CancelBothOfSessions, booked false, done true
    Enter: SelfMatchPrevented DecrementBoth, booked true, done true
    Enter: SelfMatchPrevented DecrementBoth, booked true, done false
    Enter: SelfMatchPrevented DecrementBoth, booked false, done true
    Enter: SelfMatchPrevented DecrementBoth, booked false, done false
    Enter: SelfMatchPrevented DecrementBothOfSessions, booked true, done true
    Enter: SelfMatchPrevented DecrementBothOfSessions, booked true, done false
    Enter: SelfMatchPrevented DecrementBothOfSessions, booked false, done true
    Enter: SelfMatchPrevented DecrementBothOfSessions, booked false, done false
    Replace: SelfMatchPrevented CancelNewest, booked false, done true
    Replace: SelfMatchPrevented CancelNewestOfSessions, booked false, done true
    Replace: SelfMatchPrevented CancelOldest, booked true, done true
    Replace: SelfMatchPrevented CancelOldestOfSessions, booked true, done true
    Replace: SelfMatchPrevented CancelBoth, booked true, done true
    Replace: SelfMatchPrevented CancelBoth, booked false, done true
    Replace: SelfMatchPrevented CancelBothOfSessions, booked true, done true
    Replace: SelfMatchPrevented CancelBothOfSessions, booked false, done true
    Replace: SelfMatchPrevented DecrementBoth, booked true, done true
    Replace: SelfMatchPrevented DecrementBoth, booked true, done false
    Replace: SelfMatchPrevented DecrementBoth, booked false, done true
    Replace: SelfMatchPrevented DecrementBoth, booked false, done false
    Replace: SelfMatchPrevented DecrementBothOfSessions, booked true, done true
    Replace: SelfMatchPrevented DecrementBothOfSessions, booked true, done false
    Replace: SelfMatchPrevented DecrementBothOfSessions, booked false, done true
    Replace: SelfMatchPrevented DecrementBothOfSessions, booked false, done false
    MassCancel: Canceled User, done true
    MassCancel: MassCanceled
    Modify: Modified Buy, lots true, done false
    Modify: Modified Buy, lots true, done true
    Modify: Modified Sell, lots false, done false
    Modify: Modified Sell, lots true, done false
    Modify: Modified Sell, lots true, done true
    Modify: Modified SellShort, lots false, done false
    Modify: Modified SellShort, lots true, done false
    Modify: Modified SellShort, lots true, done true
    Modify: Modified SellShortExempt, lots false, done false
    Modify: Modified SellShortExempt, lots true, done false
    Modify: Modified SellShortExempt, lots true, done true
    QueryAccount: AccountQueried
    Enter: Rejected InvalidMaxFloor
    Enter: Restated Refreshed
    Enter: Restated Ready
    Enter: Slid
    Replace: Restated Ready
    Replace: Slid
    SetPhase: Restated Ready
    An order that comes in waits for quantity
    A replacement waits for quantity
    A triggered order waits for quantity
    A released order waits for quantity
    An order that waits for quantity is reduced
    Enter: with instructions, Limit
    Replace: Restated Refreshed
    Replace: with instructions, Limit
    Reject: Rejected InvalidCrossOrder
    Reject: Rejected InvalidDisplay
    Reject: Rejected InvalidMaxFloor
    Reject: Rejected InvalidMinimumQuantity
    Reject: Rejected InvalidPegType
    Reject: Rejected InvalidSelfMatchPrevention
    Reject: Rejected InvalidSide
    Reject: Rejected NoRoom
    Reject: Rejected NotSupported
    Reject: Rejected PeggingNotAllowed
    Reject: Rejected ReplaceNotAllowed
    Reject: Rejected SweepNotAllowed
    Reject: Rejected TooSlow
    Replace without terms: Canceled User, done true
    Replace: Booked hidden
    Replace: Booked, named false
    Replace: Traded hidden, maker done false, taker done true
    Replace: Traded hidden, maker done true, taker done false
    Replace: Traded hidden, maker done true, taker done true
    Replace: Booked, named true
    Replace: Canceled ImmediateOrCancel, done true
    Replace: Canceled User, done true
    Replace: Canceled PostOnly, done true
    Replace: Accepted with a minimum, traded true
    Replace: Accepted with a minimum, traded false
    Replace: Rejected EntryDisabled
    Replace: Rejected MarketClosed
    Replace: Replaced, in place false
    Replace: Replaced, in place true
    Replace: Traded, maker done false, taker done true
    Replace: Traded, maker done true, taker done false
    Replace: Traded, maker done true, taker done true
    SwitchEntry: EntrySwitched false
    SwitchEntry: EntrySwitched true
    SwitchEntry: Rejected NotSupported
    AddAsset: AssetAdded
    AddAccount: AccountAdded
    AssignSession: SessionAssigned
    AssignSession: Declined OrdersLive
    AssignSession: Declined UnknownAccount
    Deposit: Ledger Deposit
    Deposit: Declined InvalidAmount
    Deposit: Declined TooMuch
    Deposit: Declined UnknownAccount
    Deposit: Declined UnknownAsset
    Withdraw: Ledger Withdrawal
    Withdraw: Declined InsufficientBalance
    Withdraw: Declined InvalidAmount
    Withdraw: Declined UnknownAccount
    Withdraw: Declined UnknownAsset
    Transfer: Ledger Transfer
    Transfer: Declined InsufficientBalance
    Transfer: Declined InvalidAmount
    Transfer: Declined UnknownAccount
    Transfer: Declined UnknownAsset
    SetTerms: TermsSet
    SetTerms: Declined InvalidTerms
    SetTerms: Declined OrdersLive
    SetTerms: Declined UnknownAsset
    SetTerms: Declined UnknownInstrument
    SetFees: FeesSet
    SetFees: Declined InvalidFees
    SetAccount: AccountSet FeeTier
    SetAccount: AccountSet LiveOrdersMax
    SetAccount: AccountSet OrderNotionalMax
    SetAccount: AccountSet OrderQuantityMax
    SetAccount: AccountSet OrdersPerSecondMax
    SetAccount: AccountSet PositionMax
    SetAccount: AccountSet PriceAwayMax
    SetAccount: AccountSet ShortMax
    SetAccount: Declined InvalidValue
    SetAccount: Declined UnknownAccount
    SetAccount: Declined UnknownAsset
    StopAccount: AccountStopped false
    StopAccount: AccountStopped true
    StopAccount: Canceled Supervisory, done true
    StopAccount: Ledger Release
    StopAccount: Declined UnknownAccount
    Cancel: Ledger Release
    CancelOnDisconnect: Ledger Release
    MassCancel: Ledger Release
    Modify: Ledger Release
    Replace without terms: Ledger Release
    Enter: Ledger Reserve
    Enter: Ledger Settle
    Enter: Ledger Release
    Enter: Ledger Fee
    Enter: Ledger Rebate
    Enter: Rejected NoAccount
    Enter: Rejected ShortSaleNotAllowed
    Enter: Rejected PriceTooFar
    Enter: Rejected OrderQuantityLimit
    Enter: Rejected OrderNotionalLimit
    Enter: Rejected OrderRateLimit
    Enter: Rejected PositionLimit
    Enter: Rejected InsufficientBalance
    Enter: Rejected AccountStopped
    Replace: Ledger Reserve
    Replace: Ledger Settle
    Replace: Ledger Release
    Replace: Ledger Fee
    Replace: Ledger Rebate
    Replace: Rejected ShortSaleNotAllowed
    Replace: Rejected PriceTooFar
    Replace: Rejected OrderQuantityLimit
    Replace: Rejected OrderNotionalLimit
    Replace: Rejected OrderRateLimit
    Replace: Rejected InsufficientBalance
    System: System EndOfMarketHours
    System: System EndOfMessages
    System: System EndOfSystemHours
    System: System StartOfMarketHours
    System: System StartOfMessages
    System: System StartOfSystemHours
    Enter: Accepted Limit AtTheOpen
    Enter: Accepted Limit AtTheClose
    Enter: Accepted Limit GoodForAuction
    Enter: Accepted Market AtTheOpen
    Enter: Accepted Market AtTheClose
    Enter: Accepted Market GoodForAuction
    Enter: Canceled Collar, done true
    Replace: Canceled Collar, done true
    Enter: Rejected EntryBlocked
    Enter: Rejected Halted
    Enter: Rejected InstrumentClosed
    Enter: Rejected NotInPhase
    Enter: Rejected QuantityAboveLimit
    Enter: Rejected NotionalAboveLimit
    Enter: Rejected PriceOutsideCollar
    Enter: Rejected TooManyPegs
    Replace: Rejected EntryBlocked
    Replace: Rejected Halted
    Replace: Rejected InstrumentClosed
    Enter: Continuous to VolatilityAuction by Band
    Replace: Continuous to VolatilityAuction by Band
    Enter: VolatilityAuction to Continuous by Time
    Enter: CollarSet, widened false
    Enter: CollarSet, widened true
    Enter: Indicated OpeningAuction, some true, left true, to buy true
    Enter: Indicated ClosingAuction, some true, left true, to buy false
    Enter: Indicated VolatilityAuction, some true, left true, to buy true
    SetPhase: PreOpen to OpeningAuction by Command
    SetPhase: PreOpen to Halted by Command
    SetPhase: PreOpen to Closed by Command
    SetPhase: OpeningAuction to Continuous by Command
    SetPhase: OpeningAuction to Halted by Command
    SetPhase: Continuous to PreOpen by Command
    SetPhase: Continuous to OpeningAuction by Command
    SetPhase: Continuous to VolatilityAuction by Command
    SetPhase: Continuous to Halted by Command
    SetPhase: Continuous to ClosingAuction by Command
    SetPhase: Continuous to Closed by Command
    SetPhase: VolatilityAuction to Continuous by Command
    SetPhase: VolatilityAuction to Halted by Command
    SetPhase: VolatilityAuction to ClosingAuction by Command
    SetPhase: Halted to PreOpen by Command
    SetPhase: Halted to OpeningAuction by Command
    SetPhase: Halted to Continuous by Command
    SetPhase: Halted to VolatilityAuction by Command
    SetPhase: Halted to ClosingAuction by Command
    SetPhase: Halted to Closed by Command
    SetPhase: ClosingAuction to Halted by Command
    SetPhase: ClosingAuction to Closed by Command
    SetPhase: Closed to PreOpen by Command
    SetPhase: Canceled Expired, done true
    SetPhase: Restated Refreshed
    SetPhase: Ledger Settle
    SetPhase: Ledger Release
    SetPhase: Ledger Fee
    SetPhase: Traded in auction OpeningAuction, shown true true
    SetPhase: Traded in auction OpeningAuction, shown true false
    SetPhase: Traded in auction OpeningAuction, shown false true
    SetPhase: Traded in auction OpeningAuction, shown false false
    SetPhase: Traded in auction VolatilityAuction, shown true true
    SetPhase: Traded in auction Halted, shown true true
    SetPhase: Traded in auction ClosingAuction, shown true true
    SetPhase: Uncrossed OpeningAuction, some true
    SetPhase: Uncrossed OpeningAuction, some false
    SetPhase: Uncrossed VolatilityAuction, some true
    SetPhase: Uncrossed Halted, some true
    SetPhase: Uncrossed ClosingAuction, some true
    SetPhase: VenueDeclined PhaseNotNext
    SetPhase: VenueDeclined UnknownInstrument
    A price is shared out
    Auction decided by Volume
    Auction decided by Imbalance
    Auction decided by BuyPressure
    Auction decided by SellPressure
    Auction decided by Reference
    Auction decided by Lowest
    Auction decided by Nothing
    ConfigureInstrument: InstrumentChanged PriceIncrement
    ConfigureInstrument: InstrumentChanged RoundLot
    ConfigureInstrument: InstrumentChanged ReferencePrice
    ConfigureInstrument: InstrumentChanged StaticBand
    ConfigureInstrument: InstrumentChanged DynamicBand
    ConfigureInstrument: InstrumentChanged PauseSeconds
    ConfigureInstrument: InstrumentChanged PriceCollar
    ConfigureInstrument: InstrumentChanged QuantityMax
    ConfigureInstrument: InstrumentChanged NotionalMax
    ConfigureInstrument: InstrumentChanged PegsMax
    ConfigureInstrument: InstrumentChanged SessionPegsMax
    ConfigureInstrument: InstrumentChanged Allocation
    ConfigureInstrument: VenueDeclined InvalidValue
    ConfigureInstrument: VenueDeclined OrdersLive
    ConfigureInstrument: VenueDeclined UnknownInstrument
    RemoveInstrument: Canceled Supervisory, done true
    RemoveInstrument: InstrumentRemoved
    SupervisoryCancel: Canceled Supervisory, done true
    SupervisoryCancel: VenueDeclined UnknownInstrument
    SupervisoryCancel: VenueDeclined UnknownSession
    SupervisoryCancel: VenueDeclined UnknownAccount
    BlockEntry: EntryBlocked true
    BlockEntry: EntryBlocked false
    BlockEntry: VenueDeclined UnknownBlock
    BlockEntry: VenueDeclined TooManyBlocks
    BlockEntry: VenueDeclined UnknownAccount
    BustTrade: TradeBusted
    BustTrade: Ledger Undo
    BustTrade: VenueDeclined UnknownTrade
    BustTrade: VenueDeclined InsufficientBalance
    CorrectTrade: VenueDeclined TermsChanged
    CorrectTrade: VenueDeclined InsufficientBalance
    CorrectTrade: TradeCorrected
    CorrectTrade: Ledger Correct
    CorrectTrade: VenueDeclined InvalidValue
    CorrectTrade: VenueDeclined UnknownTrade
    KillSwitch: Canceled Supervisory, done true
    KillSwitch: EntryBlocked true
    KillSwitch: EntryBlocked false
    KillSwitch: VenueDeclined UnknownBlock
    KillSwitch: VenueDeclined UnknownSession
    SetLiveOrdersMax: LiveOrdersMaxSet
    SetLiveOrdersMax: VenueDeclined UnknownSession
    LogOut: LoggedOut
    LogOut: VenueDeclined UnknownSession
    SetPhase: VenueDeclined InvalidValue
    Operate: done, repeated false
    Operate: done, repeated true
    Operate: Venue, repeated false
    Operate: Venue, repeated true
    Operate: Money, repeated false
    Operate: Money, repeated true
    Operate: number used, repeated false";

/// What of [`EXPECTED`] was never seen.
#[must_use]
pub fn missing(coverage: &Coverage) -> Vec<&'static str> {
    EXPECTED.lines().map(str::trim).filter(|name| !coverage.contains_key(*name)).collect()
}

/// Plays the given number of commands for each seed of every profile, on as many threads; returns
/// the coverage. The result is the same on any number of threads.
///
/// # Errors
/// Engine and model differ; the first run that shows it, in the order of profiles and seeds.
///
/// # Panics
/// There is to be no thread; or an invariant of the engine does not hold.
pub fn play_all(
    seeds: RangeInclusive<u64>,
    commands: u64,
    threads: usize,
) -> Result<Coverage, String> {
    assert!(threads > 0, "somebody must play");
    let runs: Vec<_> = profiles(commands)
        .into_iter()
        .flat_map(|(name, profile)| seeds.clone().map(move |seed| (name, profile.clone(), seed)))
        .collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        let mut played = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((name, profile, seed)) = runs.get(number) else { break };
            let outcome = play(name, profile.clone(), *seed, commands);
            failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
            played.push((number, outcome));
        }
        played
    };
    let mut played: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter();
        ended.flat_map(|thread| thread.join().expect("a run that panics says why")).collect()
    });
    played.sort_by_key(|(number, _)| *number);
    let mut coverage = Coverage::new();
    for (_, outcome) in played {
        for (name, count) in outcome? {
            *coverage.entry(name).or_default() += count;
        }
    }
    Ok(coverage)
}

/// Plays one seed of one profile, for so many commands.
///
/// # Errors
/// Engine and model differ.
///
/// # Panics
/// An invariant of the engine does not hold.
pub fn play(name: &str, profile: Profile, seed: u64, commands: u64) -> Result<Coverage, String> {
    let mut coverage = Coverage::new();
    let mut flow = CommandFlow::new(seed, profile);
    let mut engine = Engine::new();
    let mut model = Model::default();
    let mut events = Vec::new();
    let mut ledger = Ledger::new();
    for number in 1..=commands {
        let input = Input {
            sequence: Sequence(number),
            timestamp: Timestamp(number / 2 * 2 * COMMAND_INTERVAL_NS),
            command: flow.next_command(),
        };
        events.clear();
        engine.apply(&input, &mut |event| events.push(event));
        let expected = model.apply(&input);
        if events != expected {
            let at = events.iter().zip(&expected).take_while(|(a, b)| a == b).count();
            let (ours, theirs) = (events.get(at), expected.get(at));
            return Err(format!(
                "profile {name}, seed {seed}, command {number}, event {at}: the engine says \
                 {ours:?}, the model {theirs:?}, of {:?}",
                input.command
            ));
        }
        events.iter().for_each(|event| cover(&mut coverage, &input.command, event));
        cover_minimum(&mut coverage, &events);
        cover_minimum_quantity(&mut coverage, &engine, &events);
        events.iter().for_each(|event| enter_in(&mut ledger, event));
        if number % LOOK_EVERY == 0 {
            let place = format!("profile {name}, seed {seed}, command {number}");
            compare_books(&engine, &model, &place)?;
            compare_balances(&engine, &model, &ledger, &place)?;
            engine.check_invariants();
            same("hash", engine.state_hash(), engine.state_hash_slow(), &place)?;
            engine = restored(&engine, &place)?;
            same("hash", engine.state_hash(), engine.state_hash_slow(), &place)?;
        }
    }
    *coverage.entry("A price is shared out".to_string()).or_default() += model.shared_out();
    for (step, count) in model.auction_steps() {
        *coverage.entry(format!("Auction decided by {step:?}")).or_default() += count;
    }
    Ok(coverage)
}

/// # Errors
/// The two are not the same.
fn same<T: PartialEq + Debug>(what: &str, ours: T, theirs: T, place: &str) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{place}: {what}: the engine has {ours:?}, not {theirs:?}"))
}

/// The same engine, from its snapshot.
///
/// # Errors
/// It is not one.
pub fn restored(engine: &Engine, place: &str) -> Result<Engine, String> {
    let mut restoration = Restoration::new();
    let mut outcome = Ok(());
    engine.snapshot(&mut |section, bytes| {
        if outcome.is_ok() {
            outcome = restoration.section(section, bytes);
        }
    });
    let restored = outcome.and_then(|()| restoration.finish());
    restored.map_err(|error| format!("{place}: the snapshot is not one: {error}"))
}

/// What ledger entries alone say is where; what is outside is below 0.
pub type Ledger = BTreeMap<(AssetId, AccountId, Bucket), i128>;

/// Takes up an event, if it is an entry.
///
/// # Panics
/// Its amount is beyond 127 bits.
pub fn enter_in(ledger: &mut Ledger, event: &Event) {
    let Event::Ledger(entry) = event else { return };
    let amount = i128::try_from(entry.amount.get()).expect("there is not so much");
    *ledger.entry((entry.asset_id, entry.from.account_id, entry.from.bucket)).or_default() -=
        amount;
    *ledger.entry((entry.asset_id, entry.to.account_id, entry.to.bucket)).or_default() += amount;
}

/// What every account has: by the engine, by the model, and by the ledger alone; and that the sum of
/// it came in.
///
/// # Errors
/// They differ; `place` says where, for the message.
///
/// # Panics
/// The engine has an account without a balance.
pub fn compare_balances(
    engine: &Engine,
    model: &Model,
    ledger: &Ledger,
    place: &str,
) -> Result<(), String> {
    for asset in engine.assets() {
        let asset_id = asset.asset_id;
        let entered = |id, bucket| ledger.get(&(asset_id, id, bucket)).copied().unwrap_or_default();
        let mut sum = 0;
        for account in engine.accounts() {
            let id = account.account_id;
            let balance = engine.balance(id, asset_id).expect("each account has one of each asset");
            let ours = (balance.available, balance.reserved.cast_signed());
            same("balance", ours, model.balance(id, asset_id), place)?;
            let alone = (entered(id, Bucket::Available), entered(id, Bucket::Reserved));
            same("balance by its entries", ours, alone, place)?;
            let may_be_short = 0 < balance.short_max || asset_id == AssetId(4);
            same("no debt", 0 <= ours.0 || may_be_short, true, place)?;
            sum += ours.0 + ours.1;
        }
        let outside = -entered(AccountId::VENUE, Bucket::Outside);
        same("sum of an asset", sum, outside, place)?;
        same("issued", engine.issued(asset_id), u128::try_from(sum).ok(), place)?;
    }
    Ok(())
}

/// Every order of every book, in priority.
///
/// # Errors
/// They differ; `place` says where, for the message.
///
/// # Panics
/// The engine has an instrument without a book.
pub fn compare_books(engine: &Engine, model: &Model, place: &str) -> Result<(), String> {
    same("instruments", engine.instruments().eq(model.instruments()), true, place)?;
    for instrument in model.instruments() {
        let id = instrument.instrument_id;
        let book = engine.book(id).expect("each instrument has a book");
        let ours = |order: engine::RestingOrder| {
            (
                (order.order_id, order.key, order.side, order.price, order.leaves, order.display),
                (order.quantity.0, order.executed.0, order.canceled.0, order.prevented.0),
                (order.self_match_prevention, order.self_match_group, order.post_only),
                (order.group_id, order.capacity, order.customer_type),
                (order.shown.0, order.instructions, order.time_in_force, order.limit),
            )
        };
        let theirs = |order: ModelOrder| {
            (
                (order.order_id, order.key, order.side, order.price, order.leaves(), order.display),
                (order.quantity, order.executed, order.canceled, order.prevented),
                (
                    order.conditions.self_match_prevention,
                    order.conditions.self_match_group,
                    order.conditions.post_only,
                ),
                (
                    order.attributes.group_id,
                    order.attributes.capacity,
                    order.attributes.customer_type,
                ),
                (
                    match (order.display, order.place) {
                        _ if order.time_in_force.is_for_auction()
                            || order.order_type == OrderType::Market =>
                        {
                            0
                        }
                        (Display::Hidden, _) => 0,
                        (_, Place::Book) => order.part.unwrap_or(order.leaves().0),
                        _ => 0,
                    },
                    told_now(&order),
                    order.time_in_force,
                    order.bound,
                ),
            )
        };
        let [bids, asks] = [model.bids(id), model.asks(id)];
        same("best bid", book.best_bid(), bids.first().map(|order| order.price), place)?;
        same("best ask", book.best_ask(), asks.first().map(|order| order.price), place)?;
        let bids: Vec<_> = bids.into_iter().map(theirs).collect();
        let asks: Vec<_> = asks.into_iter().map(theirs).collect();
        same("bids", book.bids().map(ours).collect(), bids, place)?;
        same("asks", book.asks().map(ours).collect(), asks, place)?;
        let waiting: Vec<_> = model.stop_book(id).into_iter().map(theirs).collect();
        same("waiting", book.waiting().map(ours).collect(), waiting, place)?;
        let pegged: Vec<_> = model.pegged(id).into_iter().map(theirs).collect();
        same("pegged", book.pegged().map(ours).collect(), pegged, place)?;
        for held in model.held(id) {
            let order = engine.order(held.key);
            let waits_for = order.as_ref().and_then(|order| order.waits_for);
            same("held", waits_for, Some(WaitsFor::Parent), place)?;
            same("held", order.map(ours), Some(theirs(held)), place)?;
        }
        let minimum: Vec<_> = model.waiting_for_quantity(id).into_iter().map(theirs).collect();
        let waits = |order: &engine::RestingOrder| order.waits_for == Some(WaitsFor::Quantity);
        same(
            "all wait for quantity",
            book.waiting_for_quantity().all(|order| waits(&order)),
            true,
            place,
        )?;
        same("minimum", book.waiting_for_quantity().map(ours).collect(), minimum, place)?;
        let beside: Vec<_> = model.auction_orders(id).into_iter().map(theirs).collect();
        let mut ours: Vec<_> = book.auction_orders().map(ours).collect();
        ours.sort_by_key(|order| order.0.0);
        same("for an auction", ours, beside, place)?;
        same("phase", engine.phase(id), model.phase(id), place)?;
    }
    same("live orders", engine.counters().orders_live as usize, model.live_count(), place)
}

/// An order's instructions, with its trigger as it is now; without a trigger where no price reaches it.
fn told_now(order: &ModelOrder) -> Instructions {
    let mut told = order.instructions;
    if order.place == Place::Trigger {
        let furthest = if order.side.is_buy() { u32::MAX } else { 0 };
        told.trigger = Ticks(order.trigger().map_or(furthest, |trigger| trigger as u32));
    }
    told
}
