//! Orders that trade in steps: rules 6.10 to 6.14.

use std::ops::RangeInclusive;

use market::{
    Command, EnterOrder, Event, Input, OrderKey, Price, Quantity, SessionId, Side, Symbol,
};

use crate::{
    engine_checks::restored,
    scenario::{World, check},
};

/// The most trades of a step.
const STEP: usize = 32;

/// The expected line of a command, with its trades at once and in later steps.
pub(crate) fn in_steps(command: &str, events: &str, trades: &[String]) -> String {
    let mut steps = trades.chunks(STEP).map(|step| step.join(", "));
    let first = steps.next().expect("there are trades");
    let later: String = steps.map(|step| format!("time 0 => {step}\n")).collect();
    format!("{command} => {events}, {first}\n{later}")
}

/// Asks of D with these numbers, one lot each at 100.
fn asks(range: RangeInclusive<u32>) -> String {
    let ask = |number| format!("sell D{number} 1 @ 100 => accepted, booked 1 @ 100\n");
    format!(
        "session D firm DEAL max 5000 => session 4 open\n{}",
        range.map(ask).collect::<String>()
    )
}

/// Trades of this order with asks of D.
fn traded(range: RangeInclusive<u32>, taker: &str) -> String {
    let trade = |number| format!("trade D{number} {taker} 1 @ 100");
    range.map(trade).collect::<Vec<_>>().join(", ")
}

/// B1 buys 70 of 80 lots, and has traded 32.
fn begun() -> World {
    let mut world = World::in_open_market();
    world.play(&asks(1..=80));
    world.play(&format!("buy B1 70 @ 100 => accepted, {}", traded(1..=32, "B1")));
    world
}

/// Rule 6.10: an order meets 32 others at once, and 32 before each later input; the engine requests that input, and
/// continues alike after a restart.
#[test]
fn thirty_two_at_a_time() {
    let mut world = begun();
    assert!(world.engine().due().is_some(), "38 are left");
    let mut other = restored(world.engine()).unwrap();
    world.play(&format!("time 0 => {}", traded(33..=64, "B1")));
    world.play(&format!(
        "
        order B1                => buy 6 of 70 executed 64 canceled 0 firm BETA capacity O trades on
        buy C1 1 @ 90 of MSFT   => {}, accepted, booked 1 @ 90
        ",
        traded(65..=70, "B1"),
    ));
    assert_eq!(world.engine().due(), None, "it is over");
    while let Some(timestamp) = other.due() {
        let sequence = other.sequence().next();
        other.apply(&Input { sequence, timestamp, command: Command::Time }, &mut |_| ());
    }
    assert_eq!(world.engine().counters().trades, other.counters().trades);
}

/// Rule 6.10: an iceberg counts as two, each time that it is met, and so does prevention with one.
#[test]
fn an_iceberg_counts_as_two() {
    let each = |event: &dyn Fn(u32) -> String, range: RangeInclusive<u32>| {
        range.map(event).collect::<Vec<_>>().join(", ")
    };
    let sells: String = (1..=20)
        .map(|number| {
            format!("sell A{number} 3 @ 100 show 1 => accepted show 1, booked 3 @ 100 showing 1\n")
        })
        .collect();
    let first = |number| format!("trade A{number} B1 1 @ 100, refreshed A{number} showing 1");
    let other = |number| format!("trade A{number} B1 1 @ 100");
    check(&format!(
        "{sells}
        buy B1 60 @ 100     => accepted, {}
        time 0              => {}, {}
        time 0              => {}, {}
        time 0              => {}
        ",
        each(&first, 1..=16),
        each(&first, 17..=20),
        each(&other, 1..=12),
        each(&other, 13..=20),
        each(&other, 1..=8),
        each(&other, 9..=20),
    ));
    let own: String = (1..=20)
        .map(|number| {
            format!("sell B{number} 3 @ 100 show 1 => accepted show 1, booked 3 @ 100 showing 1\n")
        })
        .collect();
    let prevented = |number| format!("prevented B{number} 3 for 1 @ 100 O");
    check(&format!(
        "{own}
        buy B21 1 @ 100 prevent O   => accepted, {}
        time 0                      => {}, booked 1 @ 100
        ",
        each(&prevented, 1..=16),
        each(&prevented, 17..=20),
    ));
}

/// Rule 6.11: until it has traded nothing else changes the book, so fill or kill trades all; cancels
/// wait, and one that would leave lots is not done.
#[test]
fn the_book_stays_as_it_is() {
    let mut world = World::in_open_market();
    world.play(&asks(1..=80));
    world.play(&format!("buy B1 70 @ 100 fok => accepted, {}", traded(1..=32, "B1")));
    world.play(&format!(
        "
        cancel D70              => {}, D70 leaves later
        cancel B1               => {}
        book AAPL               => {}
        ",
        traded(33..=64, "B1"),
        traded(65..=70, "B1"),
        (71..=80).map(|n| format!("ask D{n} 1 @ 100")).collect::<Vec<_>>().join(", "),
    ));
    let mut world = begun();
    world.play(&format!(
        "
        cancel D75              => {}, D75 leaves later
        ",
        traded(33..=64, "B1"),
    ));
    world.play(&format!("cut-off D => {}", traded(65..=70, "B1")));
    let mut world = begun();
    world.play(&format!(
        "
        cancel B1               => {}, B1 leaves later
        time 0                  => {}
        ",
        traded(33..=64, "B1"),
        traded(65..=70, "B1"),
    ));
    let mut world = begun();
    world.play(&format!("modify B1 buy to 69 => {}, B1 stays", traded(33..=64, "B1")));
}

/// Rule 6.11: half-matched orders of two instruments take turns.
#[test]
fn half_matched_orders_take_turns() {
    let sells: String = (1..=40)
        .map(|n| format!("sell C{n} 1 @ 100 of MSFT => accepted, booked 1 @ 100\n"))
        .collect();
    let bought = |range: RangeInclusive<u32>| {
        range.map(|n| format!("trade C{n} A1 1 @ 100")).collect::<Vec<_>>().join(", ")
    };
    check(&format!(
        "{sells}{}
        buy B1 150 @ 100        => accepted, {}
        buy A1 40 @ 100 of MSFT => {}, accepted, {}
        time 0                  => {}
        time 0                  => {}
        time 0                  => {}
        time 0                  => {}
        ",
        asks(1..=160),
        traded(1..=32, "B1"),
        traded(33..=64, "B1"),
        bought(1..=32),
        traded(65..=96, "B1"),
        bought(33..=40),
        traded(97..=128, "B1"),
        traded(129..=150, "B1"),
    ));
}

/// Rule 6.12: new orders of the instrument wait, and come in by age under another order id; a replace
/// is rejected.
#[test]
fn new_orders_wait_for_it() {
    let mut world = begun();
    world.play(&format!(
        "
        buy C1 2 @ 100          => {}, accepted
        order C1                => buy 2 of 2 executed 0 canceled 0 firm CORE capacity O waits for the auction
        replace D80 by D81 1 @ 99 => {}, ready C1, trade D71 C1 1 @ 100, trade D72 C1 1 @ 100, replaced D80 by D81 sell 1 @ 99 in place
        ",
        traded(33..=64, "B1"),
        traded(65..=70, "B1"),
    ));
    let mut world = begun();
    world.play(&format!(
        "
        replace D80 by D81 1 @ 99 => {}, rejected D81 NotInPhase
        book AAPL               => {}
        ",
        traded(33..=64, "B1"),
        (65..=80).map(|n| format!("ask D{n} 1 @ 100")).collect::<Vec<_>>().join(", "),
    ));
    let mut world = begun();
    world.play(&format!(
        "
        buy C1 1 @ 100          => {}, accepted
        cancel C1               => {}, ready C1, trade D71 C1 1 @ 100
        ",
        traded(33..=64, "B1"),
        traded(65..=70, "B1"),
    ));
}

/// Rule 6.12: one that is entered before all have come in waits behind them.
#[test]
fn none_overtakes_those_that_wait() {
    let mut world = World::in_open_market();
    world.play(&asks(1..=400));
    world.play(&format!("buy B1 200 @ 100 => accepted, {}", traded(1..=32, "B1")));
    for number in 1..=5 {
        let from = 32 * number + 1;
        world.play(&format!(
            "buy C{number} 1 @ 100 => {}, accepted",
            traded(from..=from + 31, "B1")
        ));
    }
    let came = |number: u32| format!("ready C{number}, trade D{} C{number} 1 @ 100", 200 + number);
    world.play(&format!(
        "
        buy C6 1 @ 100          => {}, {}, {}, {}, {}, accepted
        time 0                  => {}, {}
        ",
        traded(193..=200, "B1"),
        came(1),
        came(2),
        came(3),
        came(4),
        came(5),
        came(6),
    ));
    assert_eq!(world.engine().due(), None);
}

/// Rule 6.13: a status follows when it has traded, and the removal of its instrument is declined.
#[test]
fn a_status_follows() {
    let mut world = begun();
    world.play(&format!(
        "
        phase AAPL halted       => {}
        time 0                  => {}, phase AAPL halted
        ",
        traded(33..=64, "B1"),
        traded(65..=70, "B1"),
    ));
    let mut world = begun();
    world.play(&format!("remove AAPL => {}, declined PhaseNotNext", traded(33..=64, "B1")));
}

/// Rule 6.14: no pegged order moves meanwhile, and those that its trades trigger act after it.
#[test]
fn others_act_after_it() {
    let mut world = World::in_open_market();
    world.play(&asks(1..=80));
    world.play(&format!(
        "
        sell A1 1 @ 101         => accepted, booked 1 @ 101
        sell A2 1 @ 102         => accepted, booked 1 @ 102
        sell C1 1 @ 50 hidden peg primary => accepted peg primary, repriced C1 @ 100, booked 1 @ 100 hidden
        buy C2 1 @ 102 stop 100 => accepted stop 100
        buy B1 80 @ 100         => accepted, {}, triggered C2 at 100
        time 0                  => {}
        ",
        traded(1..=32, "B1"),
        traded(33..=64, "B1"),
    ));
    world.play(&format!(
        "
        time 0 => {}, ready C2, trade C1 C2 1 @ 100
        ",
        traded(65..=80, "B1"),
    ));
}

/// Rule 6.10: whatever an order takes, it has the same trades as in one step, and a step has a bound.
#[test]
fn a_thousand_icebergs_take_steps() {
    let mut world = World::in_open_market();
    for number in 1..=1_000 {
        world.play(&format!(
            "sell A{number} 100 @ 100 show 1 => accepted show 1, booked 100 @ 100 showing 1\n"
        ));
    }
    let key = OrderKey { session_id: SessionId(2), channel: 0, user_ref_num: 1 };
    let (symbol, quantity) = (Symbol::new("AAPL").unwrap(), Quantity(100_000));
    let buy = EnterOrder::limit(key, Side::Buy, symbol, quantity, Price(100));
    let mut command = Command::Enter(buy);
    let mut trades = Vec::new();
    loop {
        let events = world.apply(command);
        let step = events.iter().filter_map(|event| match event {
            Event::Traded(it) => Some((it.maker.key.user_ref_num, it.quantity.0)),
            _ => None,
        });
        let before = trades.len();
        trades.extend(step);
        assert!(trades.len() - before <= STEP / 2, "an iceberg counts as two");
        if world.engine().due().is_none() {
            break;
        }
        command = Command::Time;
    }
    let round = |lots| (1..=1_000).map(move |number| (number, lots));
    assert!(trades.into_iter().eq(round(1).chain(round(98)).chain(round(1))));
    assert_eq!(world.engine().counters().orders_live, 0);
}
