//! Reserve orders: section 35 of the rules.

use market::{Command, EnterOrder, Event, OrderKey, Price, Quantity, SessionId, Side, Symbol};

use crate::scenario::{World, check};

/// Rule 35.1: the shown part is the requested quantity, or all open lots.
#[test]
fn part_of_a_reserve_order_is_shown() {
    check(
        "
        buy A1 100 @ 100 show 10        => accepted show 10, booked 100 @ 100 showing 10
        buy A2 5 @ 100 show 10          => accepted show 10, booked 5 @ 100
        sell B1 3 @ 101                 => accepted, booked 3 @ 101
        buy A3 20 @ 101 show 10         => accepted show 10, trade B1 A3 3 @ 101, booked 17 @ 101 showing 10
        ",
    );
}

/// Rule 35.2: only displayed orders have a reserve, and the range is less than the shown quantity.
#[test]
fn shown_part_has_bounds() {
    check(
        "
        buy A1 100 @ 100 show 10 hidden     => rejected A1 InvalidMaxFloor
        buy A2 100 @ 100 show 10 range 10   => rejected A2 InvalidMaxFloor
        buy A3 100 @ 100 range 1            => rejected A3 InvalidMaxFloor
        buy A7 1001 @ 100 show 10           => rejected A7 InvalidMaxFloor
        buy A8 1000 @ 99 show 10            => accepted show 10, booked 1000 @ 99 showing 10
        buy A9 100 @ 100 show 10 range 9    => accepted show 10 range 9, booked 100 @ 100 showing 10
        buy A10 100 @ 101 show 10 ioc       => accepted show 10, canceled A10 100 ioc
        ",
    );
}

/// Rule 35.3: a part that is used up is shown again behind those that came later.
#[test]
fn refreshed_part_goes_behind_the_others() {
    check(
        "
        buy A1 25 @ 100 show 10     => accepted show 10, booked 25 @ 100 showing 10
        buy B1 4 @ 100              => accepted, booked 4 @ 100
        sell C1 6 @ 100             => accepted, trade A1 C1 6 @ 100
        book AAPL                   => bid A1 19 @ 100, bid B1 4 @ 100
        sell C2 5 @ 100             => accepted, trade A1 C2 4 @ 100, refreshed A1 showing 10, trade B1 C2 1 @ 100
        sell C3 14 @ 100            => accepted, trade B1 C3 3 @ 100, trade A1 C3 10 @ 100, refreshed A1 showing 5, trade A1 C3 1 @ 100
        sell C4 9 @ 100             => accepted, trade A1 C4 4 @ 100, booked 5 @ 100
        ",
    );
}

/// Rule 35.4: with a range the parts differ by at most that, and each gets a new order id.
#[test]
fn parts_with_a_range_differ() {
    check(
        "
        buy A1 200 @ 100 show 10 range 5    => accepted show 10 range 5, booked 200 @ 100 showing 10
        sell B1 10 @ 100                    => accepted, trade A1 B1 10 @ 100, refreshed A1 showing 6
        sell B2 6 @ 100                     => accepted, trade A1 B2 6 @ 100, refreshed A1 showing 12
        sell B3 12 @ 100                    => accepted, trade A1 B3 12 @ 100, refreshed A1 showing 9
        ",
    );
}

/// Rule 35.5: canceled lots come from the reserve, as long as there is one; priority stays.
#[test]
fn reserve_is_canceled_before_what_is_shown() {
    check(
        "
        sell A1 30 @ 100 show 10        => accepted show 10, booked 30 @ 100 showing 10
        sell B1 4 @ 100                 => accepted, booked 4 @ 100
        cancel A1 to 12                 => canceled A1 18 leaving 12
        modify A1 short to 6            => modified A1 short 6 leaving 6
        buy C1 7 @ 100                  => accepted, trade A1 C1 6 @ 100, trade B1 C1 1 @ 100
        sell A2 30 @ 101 show 10        => accepted show 10, booked 30 @ 101 showing 10
        cancel A2                       => canceled A2 30
        ",
    );
}

/// Rule 35.6: an order that meets its own loses lots to the whole resting order.
#[test]
fn all_of_a_reserve_order_is_kept_from_its_own() {
    check(
        "
        sell A1 30 @ 100 show 10        => accepted show 10, booked 30 @ 100 showing 10
        buy A2 25 @ 100 prevent D       => accepted, prevented A1 25 @ 100 D leaving 5, prevented A2 25 @ 100 D
        buy B1 3 @ 100                  => accepted, trade A1 B1 3 @ 100
        sell A3 30 @ 101 show 10        => accepted show 10, booked 30 @ 101 showing 10
        buy A4 1 @ 101 prevent O        => accepted, prevented A1 2 for 1 @ 100 O, prevented A3 30 for 1 @ 101 O, booked 1 @ 101
        ",
    );
}

/// Rule 35.7: a replacement keeps the reserve, names another, or is hidden and has none.
#[test]
fn replacement_keeps_the_reserve() {
    check(
        "
        buy A1 30 @ 100 show 10             => accepted show 10, booked 30 @ 100 showing 10
        replace A1 by A2 20 @ 99            => replaced A1 by A2 buy 20 @ 99 show 10 in place
        replace A2 by A3 20 @ 99 show 5     => replaced A2 by A3 buy 20 @ 99 show 5 in place
        replace A3 by A4 20 @ 98 without-instructions     => replaced A3 by A4 buy 20 @ 98 in place
        replace A4 by A5 20 @ 98 show 7     => replaced A4 by A5 buy 20 @ 98 show 7 in place
        replace A5 by A6 20 @ 98 hidden     => replaced A5 by A6 buy 20 @ 98 hidden, booked 20 @ 98 hidden
        replace A6 by A7 20 @ 98 hidden show 7  => canceled A6 20
        ",
    );
}

/// Rule 35.8: a minimum quantity and fill or kill count the reserve.
#[test]
fn reserve_counts_for_a_minimum() {
    check(
        "
        sell A1 25 @ 100 show 10        => accepted show 10, booked 25 @ 100 showing 10
        buy B1 26 @ 100 fok             => accepted, canceled B1 26 ioc
        buy B2 40 @ 100 ioc minimum 12  => accepted, trade A1 B2 10 @ 100, refreshed A1 showing 10, trade A1 B2 5 @ 100, trade A1 B2 10 @ 100, canceled B2 15 ioc
        sell A2 25 @ 100 show 10        => accepted show 10, booked 25 @ 100 showing 10
        sell B3 5 @ 100                 => accepted, booked 5 @ 100
        buy B4 30 @ 100 fok prevent N   => accepted, trade A2 B4 10 @ 100, refreshed A2 showing 10, trade B3 B4 5 @ 100, trade A2 B4 5 @ 100, trade A2 B4 10 @ 100
        ",
    );
}

/// Rule 35.9: after all shown lots, an order trades with the reserves in whole rounds, each iceberg once; their shown
/// parts stay, and take the rest.
#[test]
fn reserves_trade_in_rounds() {
    check(
        "
        sell A1 1000 @ 100 show 10      => accepted show 10, booked 1000 @ 100 showing 10
        sell B1 25 @ 100 show 10        => accepted show 10, booked 25 @ 100 showing 10
        sell A2 3 @ 100                 => accepted, booked 3 @ 100
        sell B2 400 @ 100 show 20       => accepted show 20, booked 400 @ 100 showing 20
        # 43 are shown. Then 15 rounds of 10, 5 at first, and 20 are 455; 16 would be 485.
        buy C1 512 @ 100                => accepted, trade A1 C1 10 @ 100, refreshed A1 showing 10, trade B1 C1 10 @ 100, refreshed B1 showing 10, trade A2 C1 3 @ 100, trade B2 C1 20 @ 100, refreshed B2 showing 20, trade A1 C1 150 @ 100, trade B1 C1 5 @ 100, trade B2 C1 300 @ 100, trade A1 C1 10 @ 100, refreshed A1 showing 10, trade B1 C1 4 @ 100
        book AAPL                       => ask B1 6 @ 100, ask B2 80 @ 100, ask A1 830 @ 100
        # No whole round.
        buy C2 40 @ 100                 => accepted, trade B1 C2 6 @ 100, trade B2 C2 20 @ 100, refreshed B2 showing 20, trade A1 C2 10 @ 100, refreshed A1 showing 10, trade B2 C2 4 @ 100
        ",
    );
}

/// Rule 35.9: an order that takes a thousand icebergs trades three times with each at most.
#[test]
fn an_order_trades_with_an_iceberg_a_few_times() {
    let mut world = World::in_open_market();
    for number in 1..=1_000 {
        let quantity = 100 - number % 7;
        world.play(&format!(
            "sell A{number} {quantity} @ 100 show 1 => accepted show 1, booked {quantity} @ 100 showing 1\n"
        ));
    }
    let key = OrderKey { session_id: SessionId(2), channel: 0, user_ref_num: 1 };
    let (symbol, quantity) = (Symbol::new("AAPL").unwrap(), Quantity(96_543));
    let buy = EnterOrder::limit(key, Side::Buy, symbol, quantity, Price(100));
    let mut events = world.apply(Command::Enter(buy));
    while world.engine().due().is_some() {
        events.extend(world.apply(Command::Time));
    }
    let trades = events.iter().filter(|event| matches!(event, Event::Traded(_))).count();
    assert!(trades <= 3_000, "{trades} trades");
    assert!(1_000 <= trades && world.engine().counters().orders_live <= 1_000);
}
