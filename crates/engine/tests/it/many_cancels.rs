//! Commands that cancel many orders: section 24 of the rules.

use std::ops::RangeInclusive;

use market::Timestamp;

use crate::scenario::World;

/// Joins the expected events of the orders of a range.
fn each(range: RangeInclusive<u32>, happens: impl Fn(u32) -> String) -> String {
    range.map(happens).collect::<Vec<_>>().join(", ")
}

/// Bids of A with these numbers, each a price of its own.
fn bids(range: RangeInclusive<u32>) -> String {
    range
        .map(|number| format!("buy A{number} 2 @ {0} => accepted, booked 2 @ {0}\n", 100 + number))
        .collect()
}

/// An open market with these bids.
fn world_with_bids(range: RangeInclusive<u32>) -> World {
    let mut world = World::in_open_market();
    world.play(&bids(range));
    world
}

fn canceled(range: RangeInclusive<u32>, reason: &str) -> String {
    each(range, |number| format!("canceled A{number} 2 {reason}").trim_end().to_owned())
}

/// Rules 24.1, 24.2: 32 orders are canceled at once, and 32 before each later input. The engine requests that input.
#[test]
fn thirty_two_are_canceled_at_once() {
    let mut world = world_with_bids(1..=80);
    let [first, second, third] = [1..=32, 33..=64, 65..=80].map(|range| canceled(range, ""));
    world.play(&format!("mass-cancel A99 ACME => mass-canceled, {first}"));
    let last = world.engine().timestamp();
    assert_eq!(world.engine().due(), Some(Timestamp(last.0 + 1)), "48 wait");
    world.play(&format!("sell B1 1 @ 300 => {second}, accepted, booked 1 @ 300"));
    assert!(world.engine().due().is_some());
    world.play(&format!("time 0 => {third}"));
    assert_eq!(world.engine().due(), None, "none waits");
}

/// Rules 24.1, 24.4: the orders of another command wait behind, and an order that waits already keeps its place and its
/// reason; one that is done by then counts all the same.
#[test]
fn commands_wait_in_line() {
    let mut world = world_with_bids(1..=70);
    world.play(&format!("cut-off A => {}", canceled(1..=32, "supervisory")));
    let second = canceled(33..=64, "supervisory");
    let third = canceled(65..=69, "supervisory");
    world.play(&format!(
        "
        mass-cancel A99 ACME    => {second}, mass-canceled
        cancel A70              => {third}, canceled A70 2 supervisory
        buy A100 1 @ 90         => accepted, booked 1 @ 90
        "
    ));
}

/// Rule 24.3: until its turn an order trades, and is canceled, modified and replaced; orders entered later stay,
/// replacements too.
#[test]
fn an_order_is_live_until_its_turn() {
    let mut world = world_with_bids(1..=70);
    let (first, second) = (canceled(1..=32, ""), canceled(33..=64, ""));
    world.play(&format!(
        "
        mass-cancel A99 ACME    => mass-canceled, {first}
        sell B1 3 @ 160         => {second}, accepted, trade A70 B1 2 @ 170, trade A69 B1 1 @ 169
        time 0                  => canceled A65 2, canceled A66 2, canceled A67 2, canceled A68 2, canceled A69 1
        "
    ));
    let mut world = world_with_bids(1..=70);
    world.play(&format!(
        "
        mass-cancel A99 ACME            => mass-canceled, {first}
        buy A100 1 @ 90                 => {second}, accepted, booked 1 @ 90
        time 0                          => {}
        book AAPL                       => bid A100 1 @ 90
        ",
        canceled(65..=70, "")
    ));
    let mut world = world_with_bids(1..=100);
    world.play(&format!(
        "
        cut-off A                       => {}
        replace A98 by A101 3 @ 95      => {}, replaced A98 by A101 buy 3 @ 95 in place
        cancel A99 to 1                 => {}, canceled A99 1 leaving 1
        time 0                          => canceled A97 2 supervisory, canceled A99 1 supervisory, canceled A100 2 supervisory
        book AAPL                       => bid A101 3 @ 95
        ",
        canceled(1..=32, "supervisory"),
        canceled(33..=64, "supervisory"),
        canceled(65..=96, "supervisory"),
    ));
}

/// Rules 24.1, 24.2: orders that expire at one moment, 16 at once, or with the day, wait likewise; those
/// of the next moment wait behind them.
#[test]
fn orders_expire_in_steps() {
    let mut world = World::in_open_market();
    let until = |number, second| {
        format!("buy A{number} 2 @ 100 until {second} => accepted until {second}, booked 2 @ 100\n")
    };
    let orders: String = (1..=40).map(|number| until(number, 10)).collect();
    world.play(&format!("{orders}{}", until(41, 11)));
    world.play(&format!("time 11 => {}", canceled(1..=16, "expired")));
    world.play(&format!("time 12 => {}", canceled(17..=32, "expired")));
    world.play(&format!("time 13 => {}", canceled(33..=41, "expired")));
    world.play(&bids(42..=80));
    world.play(&format!(
        "day end-of-system-hours => day end-of-system-hours, {}",
        canceled(42..=73, "end-of-day")
    ));
    world.play(&format!("time 14 => {}", canceled(74..=80, "end-of-day")));
}

/// Rules 24.1, 24.4: expired orders are canceled before those that wait because of a command; one that waits already is
/// also canceled as expired.
#[test]
fn what_expires_is_canceled_first() {
    let mut world = world_with_bids(1..=70);
    world.play(&format!(
        "
        buy A71 2 @ 100 until 10    => accepted until 10, booked 2 @ 100
        buy B1 2 @ 100 until 10     => accepted until 10, booked 2 @ 100
        cut-off A                   => {}
        time 10                     => {}
        time 11                     => canceled A71 2 expired, canceled B1 2 expired, {}
        ",
        canceled(1..=32, "supervisory"),
        canceled(33..=64, "supervisory"),
        canceled(65..=70, "supervisory"),
    ));
    assert_eq!(world.engine().due(), None, "none waits");
}

/// Rules 24.1, 24.5: so do orders that the venue cancels, and its operators learn of all of them.
#[test]
fn the_venue_cancels_in_steps() {
    let mut world = world_with_bids(1..=40);
    let (first, second) = (canceled(1..=32, "supervisory"), canceled(33..=40, "supervisory"));
    world.play(&format!(
        "
        by ALICE 1 supervise session A  => {first}, ALICE 1: done canceled 40
        time 0                          => {second}
        "
    ));
    assert_eq!(world.engine().due(), None, "none waits");
}

/// Rules 24.1, 31.3: so do those of an instrument that is removed. Its symbol is unknown at once, and may be another
/// instrument's; the waiting orders are in a closed instrument, and no order of another is canceled.
#[test]
fn an_instrument_is_removed_in_steps() {
    let mut world = world_with_bids(1..=100);
    let (first, second) = (canceled(1..=32, "supervisory"), canceled(33..=64, "supervisory"));
    world.play(&format!(
        "
        sell A101 2 @ 105 of MSFT           => accepted, booked 2 @ 105
        buy B1 4 @ 150 hidden peg primary   => accepted peg primary, repriced B1 @ 150, booked 4 @ 150 hidden
        remove AAPL                         => {first}, removed AAPL, suspended B1
        instrument AAPL increment 1 lot 1   => {second}, instrument 3
        "
    ));
    assert!(world.engine().due().is_some(), "36 wait");
    world.play(&format!(
        "
        sell B2 1 @ 100                     => {}, accepted, booked 1 @ 100
        time 0                              => {}, canceled B1 4 supervisory
        book AAPL                           => ask B2 1 @ 100
        book MSFT                           => ask A101 2 @ 105
        ",
        canceled(65..=96, "supervisory"),
        canceled(97..=100, "supervisory"),
    ));
    assert_eq!(world.engine().due(), None, "none waits");
}

/// Rules 31.3, 31.4: until its turn an order of a removed instrument is canceled and modified, and not replaced,
/// also where its symbol is another instrument's.
#[test]
fn an_order_of_a_removed_instrument_is_live_until_its_turn() {
    let mut world = world_with_bids(1..=131);
    world.play(&format!(
        "
        remove AAPL                         => {}, removed AAPL
        instrument AAPL increment 1 lot 1   => {}, instrument 3
        replace A130 by A132 3 @ 95         => {}, rejected A132 InstrumentClosed
        cancel A130 to 1                    => {}, canceled A130 1 leaving 1
        time 0                              => canceled A129 2 supervisory, canceled A130 1 supervisory, canceled A131 2 supervisory
        ",
        canceled(1..=32, "supervisory"),
        canceled(33..=64, "supervisory"),
        canceled(65..=96, "supervisory"),
        canceled(97..=128, "supervisory"),
    ));
    assert_eq!(world.engine().due(), None, "none waits");
}

/// Rule 24.6: many orders of a session are found at their turn, by blocks of 128 numbers, these by their binary digits
/// read backwards. Orders entered meanwhile stay.
#[test]
fn many_orders_of_a_session_are_found_at_their_turn() {
    for command in ["mass-cancel A999 ACME", "cut-off A"] {
        let (echo, reason) = match command {
            "cut-off A" => (String::new(), "supervisory"),
            _ => ("mass-canceled, ".to_owned(), ""),
        };
        let mut world = World::in_open_market();
        world.play(&bids(120..=135));
        world.play(&bids(260..=279));
        world.play(&bids(390..=399));
        let blocks = [120..=127, 260..=279, 128..=131, 132..=135, 390..=399];
        let [first, third, second, rest, fourth] = blocks.map(|range| canceled(range, reason));
        world.play(&format!(
            "
            {command}                   => {echo}{first}, {third}, {second}
            buy A1000 1 @ 90            => {rest}, {fourth}, accepted, booked 1 @ 90
            time 0                      =>
            book AAPL                   => bid A1000 1 @ 90
            "
        ));
        assert_eq!(world.engine().due(), None, "none waits");
    }
}

/// Rule 24.7: 96 orders are visited for a firm's, and the end of a channel is the end of a turn.
#[test]
fn a_sweep_looks_at_so_many_orders() {
    let mut world = world_with_bids(1..=130);
    world.play(
        "
        buy A131 1 @ 90 firm FIRM   => accepted, booked 1 @ 90
        mass-cancel A999 FIRM       => mass-canceled
        ",
    );
    assert!(world.engine().due().is_some(), "96 were looked at");
    world.play("time 0 => canceled A131 1");
    assert_eq!(world.engine().due(), None, "none waits");
}

/// Rules 24.6, 24.7: so are those of a mass cancel with criteria, of a cancel of the venue and of a kill switch: 96
/// orders are visited for them at once. The venue's result counts the orders canceled at once (24.5).
#[test]
fn criteria_are_looked_at_in_steps() {
    for (command, echo, reason, result) in [
        ("mass-cancel A999 ACME group 7", "mass-canceled", "", ""),
        ("mass-cancel A999 ACME of AAPL side sell", "mass-canceled", "", ""),
        ("by ALICE 1 supervise of AAPL side sell", "", " supervisory", "ALICE 1: done"),
        ("by ALICE 1 supervise session A group 7", "", " supervisory", "ALICE 1: done"),
    ] {
        let mut world = World::in_open_market();
        world.play(&bids(1..=130));
        world.play(&format!(
            "
            sell A131 1 @ 900 group 7   => accepted, booked 1 @ 900
            {command}                   => {echo}{result}
            "
        ));
        assert!(world.engine().due().is_some(), "96 were looked at: {command}");
        world.play(&format!("time 0 => canceled A131 1{reason}"));
        assert_eq!(world.engine().due(), None, "none waits: {command}");
    }
}

/// Rule 24.7: a session that had many orders at once has its numbers in parts, of which four end at once, also if none
/// of its orders is left in them. So a table that is mostly empty delays no other session.
#[test]
fn empty_numbers_are_passed_in_steps() {
    let mut world = World::in_open_market();
    world.play("live-orders A 1100 => live-orders A 1100");
    world.play(&bids(1..=1_100));
    let left = [5, 130, 900];
    for number in (1..=1_100).filter(|number| !left.contains(number)) {
        world.play(&format!("cancel A{number} => canceled A{number} 2"));
    }
    // It accepted an order while it had 1,024: 16 parts. The blocks 0, 1 and 7 are in the parts 0, 8 and 14.
    world.play("mass-cancel A9999 ACME => mass-canceled, canceled A5 2");
    for step in ["", "canceled A130 2", "canceled A900 2"] {
        assert!(world.engine().due().is_some(), "parts are left before {step:?}");
        world.play(&format!("time 0 => {step}"));
    }
    assert_eq!(world.engine().due(), None, "none waits");
}

/// Rules 2.4, 24.6: the day of many orders ends by session and channel, and of few by age.
#[test]
fn a_day_ends_in_steps() {
    for few in [true, false] {
        let mut world = World::in_open_market();
        world.play(
            "
            buy B/1:1 2 @ 100           => accepted, booked 2 @ 100
            buy B1 2 @ 100              => accepted, booked 2 @ 100
            buy B2 2 @ 100 until 10     => accepted until 10, booked 2 @ 100
            ",
        );
        world.play(&bids(1..=if few { 20 } else { 40 }));
        let ended = "day end-of-system-hours => day end-of-system-hours";
        let of_b = ["B/1:1", "B1"].map(|order| format!("canceled {order} 2 end-of-day"));
        if few {
            let ([channel, own], of_a) = (of_b, canceled(1..=20, "end-of-day"));
            world.play(&format!("{ended}, {channel}, {own}, {of_a}"));
        } else {
            let ([channel, own], rest) = (of_b, canceled(33..=40, "end-of-day"));
            world.play(&format!("{ended}, {}", canceled(1..=32, "end-of-day")));
            // Two parts of A's channel and two of B's first one.
            world.play(&format!("time 0 => {rest}, {own}"));
            world.play(&format!("time 0 => {channel}"));
        }
        world.play("time 9 =>");
        assert_eq!(world.engine().due(), Some(Timestamp(10_000_000_000)), "B2 stays");
    }
}

/// Rule 24.8: a session's commands wait for each other, and those of other sessions for one of them only.
#[test]
fn commands_wait_by_rounds() {
    let mut world = world_with_bids(1..=400);
    world.play(&bids(1..=40).replace("buy A", "buy B"));
    for number in [901, 902, 903] {
        world.play(&format!("mass-cancel A{number} ACME group 7 => mass-canceled"));
    }
    let [first, rest] = [1..=32, 33..=40]
        .map(|range| canceled(range, "supervisory").replace("canceled A", "canceled B"));
    world.play(&format!(
        "
        cut-off B   =>
        time 0      => {first}
        time 0      => {rest}
        "
    ));
    assert!(world.engine().due().is_some(), "the last command of A waits");
}

/// Rules 26.4, 26.8: orders for an auction only that are over go by side, auction, price and age, 32 at
/// a time; one that is accepted later stays.
#[test]
fn orders_for_an_auction_end_in_steps() {
    let mut world = World::in_open_market();
    world.play("phase AAPL pre-open => phase AAPL pre-open");
    for number in 1..=66 {
        let price = 33 + number;
        world.play(&format!(
            "buy A{number} 2 @ {price} at-the-open => accepted, booked 2 for auction"
        ));
    }
    world.play(
        "
        sell B1 2 @ 102 for-auction     => accepted, booked 2 for auction
        sell B2 2 @ 101 for-auction     => accepted, booked 2 for auction
        sell B3 2 @ 103 at-the-open     => accepted, booked 2 for auction
        buy B4 2 @ 70 for-auction       => accepted, booked 2 for auction
        buy B5 2 @ 70 at-the-close      => accepted, booked 2 for auction
        buy B6 2 @ 65 at-the-open       => accepted, booked 2 for auction
        ",
    );
    let expired = |range: RangeInclusive<u32>| {
        let each = range.rev().map(|number| format!("canceled A{number} 2 expired"));
        each.collect::<Vec<_>>().join(", ")
    };
    let [first, second, third, last] = [35..=66, 32..=34, 4..=31, 1..=3].map(expired);
    world.play(&format!(
        "phase AAPL continuous => auction AAPL nothing, {first}, phase AAPL continuous"
    ));
    world.play(&format!(
        "sell B7 2 @ 101 for-auction => {second}, canceled B6 2 expired, {third}, accepted, booked 2 for auction"
    ));
    let of_b = ["B4", "B3", "B2", "B1"].map(|order| format!("canceled {order} 2 expired"));
    world.play(&format!("time 0 => {last}, {}", of_b.join(", ")));
    assert_eq!(world.engine().due(), None, "none waits");
    world.play("mass-cancel B9 BETA => mass-canceled, canceled B5 2, canceled B7 2");
}
