//! Auctions that trade in steps: rules 27.14 to 27.19.

use std::ops::RangeInclusive;

use market::{Command, Input, Timestamp};

use crate::{
    engine_checks::restored,
    scenario::{World, check},
};

/// Joins the expected events of the orders of a range.
fn each(range: RangeInclusive<u32>, happens: impl Fn(u32) -> String) -> String {
    range.map(happens).collect::<Vec<_>>().join(", ")
}

/// Bids of A and asks of B with these numbers, one lot each at 100, in pre-open.
fn collected(range: RangeInclusive<u32>) -> String {
    let pair = |number| {
        format!(
            "buy A{number} 1 @ 100 => accepted, booked 1 @ 100\n\
             sell B{number} 1 @ 100 => accepted, booked 1 @ 100\n"
        )
    };
    format!("phase AAPL pre-open => phase AAPL pre-open\n{}", range.map(pair).collect::<String>())
}

fn traded(range: RangeInclusive<u32>) -> String {
    each(range, |number| format!("trade A{number} B{number} 1 @ 100"))
}

/// The auction of 40 pairs has begun and made its first 15 trades.
fn begun() -> World {
    let mut world = World::in_open_market();
    world.play(&collected(1..=40));
    world.play(&format!("phase AAPL continuous => {}", traded(1..=15)));
    world
}

/// Rule 27.14: an auction makes 16 trades less one when it begins, and 16 before each later input; the engine requests
/// that input.
#[test]
fn sixteen_trades_at_a_time() {
    let mut world = begun();
    let last = world.engine().timestamp();
    assert_eq!(world.engine().due(), Some(Timestamp(last.0 + 1)), "25 are left");
    world.play(&format!("time 0 => {}", traded(16..=31)));
    assert!(world.engine().due().is_some());
    world.play(&format!(
        "
        buy A50 1 @ 90  => {}, auction AAPL 40 @ 100, phase AAPL continuous, accepted, booked 1 @ 90
        ",
        traded(32..=40)
    ));
    assert_eq!(world.engine().due(), None, "it is over");
}

/// Rule 27.14: auctions trade one after the other, in the order in which they began.
#[test]
fn one_auction_after_the_other() {
    let mut world = World::in_open_market();
    world.play(&collected(1..=20));
    world.play(&format!(
        "
        phase MSFT pre-open     => phase MSFT pre-open
        buy A50 1 @ 70 of MSFT     => accepted, booked 1 @ 70
        sell B50 1 @ 70 of MSFT    => accepted, booked 1 @ 70
        phase AAPL continuous   => {}
        phase MSFT continuous   => {}, auction AAPL 20 @ 100, phase AAPL continuous, trade A50 B50 1 @ 70, auction MSFT 1 @ 70, phase MSFT continuous
        ",
        traded(1..=15),
        traded(16..=20),
    ));
}

/// Rule 27.19: orders are counted 256 at a time, of which each price takes eight, and trade with the last
/// of these steps; an engine that is restored meanwhile counts again. The reference price is the
/// one at that moment.
#[test]
fn many_orders_are_counted_in_steps() {
    let mut world = World::in_open_market();
    world.play(&collected(1..=300));
    world.play(
        "
        phase AAPL continuous   =>
        buy A301 1 @ 100        => rejected A301 NotInPhase
        ",
    );
    assert!(world.engine().due().is_some(), "112 orders are left to count");
    let mut other = restored(world.engine()).unwrap();
    world.play(&format!("time 0 => {}", traded(1..=15)));
    let timestamp = other.due().expect("it goes on");
    let sequence = other.sequence().next();
    other.apply(&Input { sequence, timestamp, command: Command::Time }, &mut |_| ());
    assert_eq!(world.engine().counters().trades, other.counters().trades);

    let mut world = World::in_open_market();
    world.play("phase AAPL pre-open => phase AAPL pre-open");
    for number in 1..=40 {
        let (bid, ask) = (1_000 - number, 200 + number);
        world.play(&format!(
            "
            buy A{number} 1 @ {bid}     => accepted, booked 1 @ {bid}
            sell B{number} 1 @ {ask}    => accepted, booked 1 @ {ask}
            "
        ));
    }
    world.play("phase AAPL continuous =>\n configure AAPL reference 555 => configured");
    let pairs = each(1..=15, |number| format!("trade A{number} B{number} 1 @ 555"));
    world.play(&format!("time 0 => {pairs}"));
}

/// Rule 28.3: an indication comes when its orders are counted, 256 before each input, and changes meanwhile count;
/// afterwards an indication costs only the new orders, and so does the auction.
#[test]
fn an_indication_is_counted_in_steps() {
    let mut world = World::in_open_market();
    world.play(&collected(1..=300));
    world.play(
        "
        phase AAPL opening-auction  => phase AAPL opening-auction
        cancel A1                   => canceled A1 1
        ",
    );
    assert!(world.engine().due().is_some(), "352 orders are left to count");
    let mut other = restored(world.engine()).unwrap();
    assert_eq!(other.state_hash(), world.engine().state_hash());
    world.play(
        "
        time 0                      => indicates AAPL 299 @ 100 leaving 1 to sell
        cancel B300                 => canceled B300 1
        time 9                      => indicates AAPL 299 @ 100
        ",
    );
    let (mut events, sequence) = (0, other.sequence().next());
    let timestamp = other.due().expect("it goes on");
    other.apply(&Input { sequence, timestamp, command: Command::Time }, &mut |_| events += 1);
    assert_eq!(events, 1, "the indication");
    world.engine().check_invariants();
    world.play(&format!(
        "phase AAPL continuous => {}",
        each(2..=16, |bid| { format!("trade B{} A{bid} 1 @ 100", bid - 1) })
    ));
}

/// Rule 28.3: 1,200 orders take five steps of 256 before the indication, none after it, and the auction needs no step
/// to count.
#[test]
fn a_step_counts_no_more_than_its_orders() {
    let mut world = World::in_open_market();
    world.play(&collected(1..=600));
    world.play("phase AAPL opening-auction => phase AAPL opening-auction");
    for _ in 0..3 {
        world.play("time 0 =>");
        world.engine().check_invariants();
    }
    world.play("time 0 => indicates AAPL 600 @ 100\n time 9 =>");
    world.play(&format!("phase AAPL continuous => {}", traded(1..=15)));
}

/// Rule 28.3: of five auctions four have their indication at once, and one before the next input.
#[test]
fn four_indications_at_a_time() {
    let mut world = World::in_open_market();
    let symbols = ["AAPL", "MSFT", "ONE", "TWO", "THREE"];
    for (symbol, number) in symbols[2..].iter().zip(3..) {
        world.play(&format!("instrument {symbol} => instrument {number}"));
    }
    let begin =
        |symbol: &&str| format!("phase {symbol} opening-auction, indicates {symbol} nothing");
    let first = symbols[..4].iter().map(begin).collect::<Vec<_>>().join(", ");
    world.play(&format!("phase all opening-auction => {first}, phase THREE opening-auction"));
    assert!(world.engine().due().is_some(), "one is left");
    world.play("time 0 => indicates THREE nothing\n time 0 =>");
}

/// Rule 27.19: 240 orders of two prices are counted when the auction begins.
#[test]
fn as_many_as_a_step_counts_trade_at_once() {
    let mut world = World::in_open_market();
    world.play(&collected(1..=120));
    world.play(&format!("phase AAPL continuous => {}", traded(1..=15)));
}

/// Rule 27.15: until its last trade an instrument takes no orders, and other instruments continue.
#[test]
fn only_its_own_instrument_waits() {
    let mut world = begun();
    world.play(&format!(
        "
        buy A41 1 @ 90                      => {}, rejected A41 NotInPhase
        ",
        traded(16..=31)
    ));
    let mut world = begun();
    world.play(&format!(
        "
        buy A41 1 @ 90 of MSFT                 => {}, accepted, booked 1 @ 90
        ",
        traded(16..=31)
    ));
    let mut world = begun();
    world.play(&format!(
        "
        replace A40 by A41 1 @ 101          => {}, rejected A41 NotInPhase
        time 0                              => {}, auction AAPL 40 @ 100, phase AAPL continuous
        ",
        traded(16..=31),
        traded(32..=40),
    ));
}

/// Rule 27.16: a cancel that would leave no open lots of an order is done after the auction, and one that would leave
/// lots is not done; both are answered.
#[test]
fn cancels_wait_for_the_auction() {
    let mut world = World::in_open_market();
    world.play(&collected(1..=40));
    world.play(&format!(
        "
        buy A41 5 @ 90                      => accepted, booked 5 @ 90
        buy A42 5 @ 89                      => accepted, booked 5 @ 89
        phase AAPL continuous               => {}
        cancel A41                          => {}, A41 leaves later
        ",
        traded(1..=15),
        traded(16..=31),
    ));
    world.play(&format!(
        "
        cancel A42 to 1                     => {}, auction AAPL 40 @ 100, phase AAPL continuous, canceled A42 4 leaving 1
        time 0                              => canceled A41 5
        ",
        traded(32..=40),
    ));
    let mut world = World::in_open_market();
    world.play(&collected(1..=60));
    world.play(&format!(
        "
        buy A61 5 @ 90                      => accepted, booked 5 @ 90
        buy A62 5 @ 89                      => accepted, booked 5 @ 89
        sell C1 5 @ 120                     => accepted, booked 5 @ 120
        phase AAPL continuous               => {}
        cancel A61 to 1                     => {}, A61 stays
        cut-off A                           => {}
        ",
        traded(1..=15),
        traded(16..=31),
        traded(32..=47),
    ));
    // The orders that traded by then are done.
    world.play(&format!(
        "
        cancel A61                          => {}, auction AAPL 60 @ 100, phase AAPL continuous, canceled A61 5
        time 0                              => canceled A62 5 supervisory
        book AAPL                           => ask C1 5 @ 120
        ",
        traded(48..=60),
    ));
}

/// Rule 27.17: a status for the instrument follows the auction, and its removal is declined.
#[test]
fn the_next_status_follows_the_auction() {
    let mut world = begun();
    world.play(&format!(
        "
        phase AAPL halted                   => {}
        time 0                              => {}, auction AAPL 40 @ 100, phase AAPL continuous, phase AAPL halted
        ",
        traded(16..=31),
        traded(32..=40),
    ));
    let mut world = begun();
    world.play(&format!("remove AAPL => {}, declined PhaseNotNext", traded(16..=31)));
    let mut world = begun();
    world.play(&format!("phase AAPL continuous => {}, declined PhaseNotNext", traded(16..=31)));
}

/// Rule 27.18: an order that is released by the auction comes in after it.
#[test]
fn a_released_order_waits_for_the_auction() {
    let mut world = World::in_open_market();
    world.play(&collected(1..=40));
    world.play(&format!(
        "
        sell A41 1 @ 110 after A1           => accepted after A1
        sell A42 1 @ 111 after A2           => accepted after A2
        phase AAPL continuous               => {}, released A41, released A42
        order A41                           => sell 1 of 1 executed 0 canceled 0 firm ACME capacity O waits for the auction
        cancel A42                          => {}, canceled A42 1
        time 0                              => {}, auction AAPL 40 @ 100, phase AAPL continuous, ready A41, booked 1 @ 110
        book AAPL                           => ask A41 1 @ 110
        ",
        traded(1..=15),
        traded(16..=31),
        traded(32..=40),
    ));
}

/// Rule 27.18: an order whose partner executed in the auction leaves after it.
#[test]
fn a_partner_leaves_after_the_auction() {
    let mut world = World::in_open_market();
    world.play(&collected(1..=40));
    world.play(&format!(
        "
        sell A41 1 @ 110 or A1              => accepted or A1, booked 1 @ 110
        phase AAPL continuous               => {}
        time 0                              => {}
        time 0                              => {}, auction AAPL 40 @ 100, phase AAPL continuous
        time 0                              => canceled A41 1 linked
        ",
        traded(1..=15),
        traded(16..=31),
        traded(32..=40),
    ));
}

/// Rule 27.14: an engine restored between two steps continues like its origin.
#[test]
fn a_snapshot_between_two_steps() {
    let mut world = begun();
    world.play(&format!("cancel B40 => {}, B40 leaves later", traded(16..=31)));
    let engine = world.engine();
    let restored = restored(engine).expect("it is an engine's snapshot");
    assert_eq!(restored.state_hash(), engine.state_hash());
    assert_eq!(restored.due(), engine.due());
}

/// Rule 27.14: an auction with fewer trades is over at once.
#[test]
fn a_small_auction_is_over_at_once() {
    check(&format!(
        "{}phase AAPL continuous => {}, auction AAPL 15 @ 100, phase AAPL continuous",
        collected(1..=15),
        traded(1..=15)
    ));
}
