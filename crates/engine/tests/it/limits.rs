//! The most instruments and sessions, and prices over the whole range.

use market::{
    AddAccount, AddAsset, AddInstrument, AddSession, Command, DeclineReason, Event, Firm,
    InstrumentId, MoneyCommand, MoneyEvent, Price, Quantity, SelfMatchPrevention, SessionId,
    Symbol, Text,
};

use crate::{
    scenario::{World, check},
    trades_in_steps::in_steps,
};

/// Rule 3.1: there are 65,535 instruments at most, and each of them is found by its symbol.
#[test]
fn instruments_have_a_bound() {
    let mut world = World::default();
    let symbol = |number: u32| Symbol::new(&format!("S{number}")).unwrap();
    for number in 1..=65_536 {
        let add = AddInstrument {
            symbol: symbol(number),
            price_increment: Price(1),
            round_lot: Quantity(1),
        };
        let events = world.apply(Command::AddInstrument(add));
        match number {
            65_536 => assert_eq!(events, []),
            _ => assert!(matches!(events[..], [Event::InstrumentAdded(_)])),
        }
    }
    let found = world.engine().instrument(&symbol(65_535)).unwrap();
    assert_eq!(found.instrument_id, InstrumentId(65_535));
    assert_eq!(world.engine().instrument(&symbol(65_536)), None);
}

/// Rule 3.3: there are 65,535 sessions at most.
#[test]
fn sessions_have_a_bound() {
    let mut world = World::default();
    for number in 1..=65_536 {
        let add = AddSession {
            username: Text::new(&format!("U{number}")).unwrap(),
            firm: Firm::BLANK,
            live_orders_max: 1,
            self_match_prevention: SelfMatchPrevention::Off,
        };
        let events = world.apply(Command::AddSession(add));
        match number {
            65_536 => assert_eq!(events, []),
            _ => assert!(matches!(events[..], [Event::SessionAdded(_)])),
        }
    }
    assert_eq!(world.engine().sessions().last().unwrap().session_id(), SessionId(65_535));
}

/// Rule 40.1: there are 65,535 assets and 65,535 accounts at most.
#[test]
fn assets_and_accounts_have_a_bound() {
    let name = |number: u32| Text::new(&format!("N{number}")).unwrap();
    let asset = |number| MoneyCommand::AddAsset(AddAsset { name: name(number), decimals: 0 });
    let account = |number| MoneyCommand::AddAccount(AddAccount { name: name(number) });
    let too_many = |events: &[Event]| match events {
        [Event::Money(MoneyEvent::Declined(declined))] => declined.reason == DeclineReason::TooMany,
        _ => false,
    };
    let mut assets = World::default();
    let mut accounts = World::default();
    for number in 1..=65_536 {
        let events = assets.apply(Command::Money(asset(number)));
        assert_eq!(too_many(&events), number == 65_536, "{events:?}");
        let events = accounts.apply(Command::Money(account(number)));
        assert_eq!(too_many(&events), number == 65_536, "{events:?}");
    }
    assert_eq!(assets.engine().assets().len(), 65_535);
    assert_eq!(accounts.engine().accounts().len(), 65_536);
    // This many accounts with one asset are far from the maximum of balances.
    let events = accounts.apply(Command::Money(asset(1)));
    assert!(!too_many(&events), "{events:?}");
}

/// Rules 5.4, 6.2: orders at both ends of the price range and in jumps between keep price-time
/// priority, wherever the market was before.
#[test]
fn priority_holds_over_the_whole_price_range() {
    let mut scenario = String::new();
    let mut number = 0;
    for price in (1..2_000_000_000_u64).step_by(7_919_111) {
        number += 1;
        scenario += &format!("sell A{number} 1 @ {price} => accepted, booked 1 @ {price}\n");
    }
    let trades: Vec<_> = (1..=number)
        .map(|maker| format!("trade A{maker} B1 1 @ {}", 1 + (maker - 1) * 7_919_111))
        .collect();
    scenario += &in_steps(&format!("buy B1 {number} @ market"), "accepted", &trades);
    check(&scenario);
}
