//! Minimum-quantity orders: section 37 of the rules.

use std::ops::RangeInclusive;

use crate::{
    scenario::{World, check},
    trades_in_steps::in_steps,
};

/// Rule 37.1: it waits outside the book until enough can trade, and no order meets it.
#[test]
fn it_waits_outside_the_book() {
    check(
        "
        sell A1 3 @ 100                     => accepted, booked 3 @ 100
        buy B1 5 @ 100 all-or-none          => accepted all-or-none
        buy B2 9 @ 100 minimum 4            => accepted
        book AAPL                           => ask A1 3 @ 100
        order B1                            => buy 5 of 5 executed 0 canceled 0 firm BETA capacity O all-or-none waits for quantity
        order B2                            => buy 9 of 9 executed 0 canceled 0 firm BETA capacity O waits for quantity
        sell C1 5 @ 101 all-or-none         => accepted all-or-none
        buy C2 5 @ 101 all-or-none          => accepted all-or-none
        cancel B1                           => canceled B1 5
        replace B2 by B3 9 @ 99             => replaced B2 by B3 buy 9 @ 99, booked 9 @ 99
        ",
    );
}

/// Rule 37.2: when enough can trade, its owner receives an event and the order enters; after the
/// minimum the open rest goes into the book.
#[test]
fn it_comes_in() {
    check(
        "
        buy B1 5 @ 100 all-or-none          => accepted all-or-none
        buy B2 6 @ 101 minimum 2            => accepted
        sell A1 1 @ 100                     => accepted, booked 1 @ 100
        sell A2 3 @ 100                     => accepted, booked 3 @ 100, ready B2, trade A1 B2 1 @ 100, trade A2 B2 3 @ 100, booked 2 @ 101
        book AAPL                           => bid B2 2 @ 101
        sell A3 1 @ 101                     => accepted, trade B2 A3 1 @ 101
        sell A4 9 @ 100                     => accepted, trade B2 A4 1 @ 101, booked 8 @ 100, ready B1, trade A4 B1 5 @ 100
        buy B3 3 @ 100 all-or-none          => accepted all-or-none, trade A4 B3 3 @ 100
        sell A5 2 @ 99 minimum 1 show 1     => accepted show 1
        buy B4 1 @ 99                       => accepted, booked 1 @ 99, ready A5, trade B4 A5 1 @ 99, booked 1 @ 99
        ",
    );
}

/// Rule 37.3: the oldest is tested first; and all are tested again if an order rests because one of them entered.
#[test]
fn oldest_first() {
    check(
        "
        buy B1 5 @ 99 all-or-none           => accepted all-or-none
        sell C1 6 @ 98 minimum 4            => accepted
        buy B2 4 @ 100 all-or-none          => accepted all-or-none
        buy B3 2 @ 99 all-or-none           => accepted all-or-none
        sell A1 4 @ 100                     => accepted, booked 4 @ 100, ready B2, trade A1 B2 4 @ 100
        buy A2 4 @ 98                       => accepted, booked 4 @ 98, ready C1, trade A2 C1 4 @ 98, booked 2 @ 98, ready B3, trade C1 B3 2 @ 98
        sell A3 1 @ market stop 98          => accepted stop 98, triggered A3 at 98, canceled A3 1 ioc
        sell A4 9 @ 97 stop 97              => accepted stop 97
        buy A5 1 @ 97                       => accepted, booked 1 @ 97
        sell A6 1 @ 97                      => accepted, trade A5 A6 1 @ 97, triggered A4 at 97, booked 9 @ 97, ready B1, trade A4 B1 5 @ 97
        ",
    );
}

/// Rule 37.3: a cancel causes no test, not even of an order that prevention would meet. An order
/// that rests in the same instrument does; one in another instrument does not.
#[test]
fn only_orders_that_rest_count() {
    check(
        "
        sell B1 1 @ 100                     => accepted, booked 1 @ 100
        sell A1 5 @ 100                     => accepted, booked 5 @ 100
        buy B2 5 @ 100 all-or-none prevent W => accepted all-or-none
        cancel B1                           => canceled B1 1
        sell A2 5 @ 100 of MSFT             => accepted, booked 5 @ 100
        order B2                            => buy 5 of 5 executed 0 canceled 0 firm BETA capacity O all-or-none waits for quantity
        buy A3 1 @ 90                       => accepted, booked 1 @ 90, ready B2, trade A1 B2 5 @ 100
        ",
    );
}

/// Rule 37.4: hidden orders and reserves count; its own orders, orders beyond a band, and orders after the first 64 do
/// not.
#[test]
fn what_counts() {
    check(
        "
        sell A1 2 @ 100 hidden              => accepted, booked 2 @ 100 hidden
        sell A2 5 @ 100 show 1              => accepted show 1, booked 5 @ 100 showing 1
        buy B1 7 @ 100 all-or-none          => accepted all-or-none, trade A2 B1 1 @ 100, refreshed A2 showing 1, trade A2 B1 3 @ 100, trade A2 B1 1 @ 100, trade A1 B1 2 @ 100
        sell B2 3 @ 100                     => accepted, booked 3 @ 100
        buy B3 4 @ 101 all-or-none prevent O => accepted all-or-none
        sell A3 3 @ 101                     => accepted, booked 3 @ 101
        sell A4 1 @ 101                     => accepted, booked 1 @ 101, ready B3, prevented B2 3 @ 100 O, trade A3 B3 3 @ 101, trade A4 B3 1 @ 101
        configure AAPL reference 100        => configured
        configure AAPL static-band 100000   => configured
        sell A5 5 @ 111                     => accepted, booked 5 @ 111
        buy B4 5 @ 111 all-or-none          => accepted all-or-none
        configure AAPL static-band 0        => configured, ready B4, trade A5 B4 5 @ 111
        ",
    );
    let many: String =
        (1..=64).map(|n| format!("sell A{n} 1 @ 100 => accepted, booked 1 @ 100\n")).collect();
    check(&format!(
        "{many}
        sell A65 1 @ 100                   => accepted, booked 1 @ 100
        buy B1 65 @ 100 all-or-none        => accepted all-or-none
        cancel A1                           => canceled A1 1
        modify B1 buy to 64                => modified B1 buy 1 leaving 64
        {}
        ",
        in_steps(
            "sell A66 1 @ 200",
            "accepted, booked 1 @ 200, ready B1",
            &(2..=65).map(|n| format!("trade A{n} B1 1 @ 100")).collect::<Vec<_>>(),
        ),
    ));
}

/// Rule 37.5: if fewer lots are open than its minimum, the minimum is all open lots.
#[test]
fn minimum_is_at_most_what_is_open() {
    check(
        "
        buy B1 9 @ 100 minimum 8            => accepted
        cancel B1 to 3                      => canceled B1 6 leaving 3
        sell A1 2 @ 100                     => accepted, booked 2 @ 100
        sell A2 2 @ 100                     => accepted, booked 2 @ 100, ready B1, trade A1 B1 2 @ 100, trade A2 B1 1 @ 100
        ",
    );
}

/// Rule 37.6: at most 64 wait in an instrument.
#[test]
fn so_many_wait() {
    let many: String = (1..=64)
        .map(|n| format!("buy A{n} 5 @ 100 all-or-none => accepted all-or-none\n"))
        .collect();
    check(&format!(
        "{many}
        sell A65 5 @ 110 all-or-none        => accepted all-or-none, canceled A65 5 ioc
        buy A66 5 @ 100 of MSFT all-or-none => accepted all-or-none
        cancel A7                           => canceled A7 5
        sell A67 5 @ 110 all-or-none        => accepted all-or-none
        sell A68 5 @ 100                    => accepted, booked 5 @ 100, ready A1, trade A68 A1 5 @ 100
        "
    ));
}

/// Rule 37.11: a command tests four of those that wait, and the others are tested before the next
/// inputs.
#[test]
fn four_are_tested_at_once() {
    let large = |numbers: RangeInclusive<u32>| -> String {
        numbers.map(|n| format!("buy A{n} 50 @ 100 minimum 40 => accepted\n")).collect()
    };
    let mut world = World::in_open_market();
    world.play(&format!(
        "
        {}
        buy A6 5 @ 100 all-or-none  => accepted all-or-none
        {}
        sell B1 5 @ 100             => accepted, booked 5 @ 100
        ",
        large(1..=5),
        large(7..=10)
    ));
    assert!(world.engine().due().is_some(), "six are left");
    world.play("time 0 => ready A6, trade B1 A6 5 @ 100");
    assert!(world.engine().due().is_some(), "two are left");
    world.play("time 0");
    assert_eq!(world.engine().due(), None, "none is left");
}

/// Rule 37.7: it waits through an auction, and comes in after it; not when the day is over.
#[test]
fn it_stays_out_of_auctions() {
    check(
        "
        phase AAPL opening-auction          => phase AAPL opening-auction, indicates AAPL nothing
        buy A1 5 @ 100 all-or-none          => accepted all-or-none
        buy A2 5 @ 100 ioc minimum 5        => rejected A2 NotInPhase
        buy A3 5 @ market all-or-none       => rejected A3 NotInPhase
        sell B1 5 @ 99                      => accepted, booked 5 @ 99
        phase AAPL continuous               => auction AAPL nothing, phase AAPL continuous, ready A1, trade B1 A1 5 @ 99
        phase AAPL halted                   => phase AAPL halted
        phase AAPL pre-open                 => phase AAPL pre-open
        buy A4 5 @ 100 gtc all-or-none      => accepted all-or-none
        sell B2 5 @ 99 gtc                  => accepted, booked 5 @ 99
        day end-of-system-hours             => day end-of-system-hours
        phase AAPL opening-auction          => phase AAPL opening-auction, indicates AAPL nothing
        phase AAPL continuous               => auction AAPL nothing, phase AAPL continuous
        order A4                            => buy 5 of 5 executed 0 canceled 0 firm ACME capacity O all-or-none waits for quantity
        ",
    );
}

/// Rule 37.8: it is not post-only.
#[test]
fn it_is_not_post_only() {
    check(
        "
        buy A1 5 @ 100 post-only all-or-none    => rejected A1 NotSupported
        buy A2 5 @ 100 post-only minimum 3      => rejected A2 NotSupported
        buy A3 5 @ 100 minimum 3                => accepted
        replace A3 by A4 5 @ 100 minimum 3 post-only => canceled A3 5
        ",
    );
}

/// Rule 37.9: all or none is fill or kill where nothing rests.
#[test]
fn all_or_none_at_once() {
    check(
        "
        sell A1 5 @ 100                         => accepted, booked 5 @ 100
        buy B1 6 @ 100 ioc all-or-none          => accepted all-or-none, canceled B1 6 ioc
        buy B2 6 @ market all-or-none           => accepted all-or-none, canceled B2 6 ioc
        buy B3 6 @ market-to-limit all-or-none  => rejected B3 NotSupported
        buy B4 6 @ 100 for-auction all-or-none  => rejected B4 NotSupported
        buy B5 2 @ 100 fok all-or-none          => accepted all-or-none, trade A1 B5 2 @ 100
        buy B6 3 @ market-to-limit ioc all-or-none => accepted all-or-none, trade A1 B6 3 @ 100
        ",
    );
}

/// Rule 37.10: a replacement keeps all-or-none unless the replace names another value, and never
/// keeps a minimum; it is not replaced in place.
#[test]
fn replacement_of_a_minimum_quantity_order() {
    check(
        "
        buy A1 5 @ 100 all-or-none          => accepted all-or-none
        replace A1 by A2 6 @ 101            => replaced A1 by A2 buy 6 @ 101 all-or-none
        replace A2 by A3 6 @ 101 without-instructions     => replaced A2 by A3 buy 6 @ 101, booked 6 @ 101
        replace A3 by A4 6 @ 101 minimum 2  => replaced A3 by A4 buy 6 @ 101 minimum 2
        replace A4 by A5 6 @ 101            => replaced A4 by A5 buy 6 @ 101, booked 6 @ 101
        ",
    );
}

/// Rules 20.10, 22.1: an order that waited for a trigger or a parent waits for quantity when it comes in.
#[test]
fn triggered_and_released_orders_wait_for_their_minimum() {
    check(
        "
        buy B1 1 @ 95                       => accepted, booked 1 @ 95
        sell A1 5 @ 90 stop 95 all-or-none  => accepted stop 95 all-or-none
        sell C1 1 @ 95                      => accepted, trade B1 C1 1 @ 95, triggered A1 at 95
        order A1                            => sell 5 of 5 executed 0 canceled 0 firm ACME capacity O all-or-none waits for quantity
        buy B2 5 @ 90                       => accepted, booked 5 @ 90, ready A1, trade B2 A1 5 @ 90
        sell A2 2 @ 100                     => accepted, booked 2 @ 100
        buy A3 2 @ 80 minimum 2 after A2    => accepted after A2
        buy B3 2 @ 100                      => accepted, trade A2 B3 2 @ 100, released A3
        sell B4 2 @ 80                      => accepted, booked 2 @ 80, ready A3, trade B4 A3 2 @ 80
        ",
    );
}
