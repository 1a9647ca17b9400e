//! Quantities of up to 2⁴⁸ − 1 lots: every kind of order and of trade at the limit of rule 40.4.

use crate::{money::check_paid, scenario::check};

/// Plays a scenario in an instrument that takes the largest orders.
#[track_caller]
fn check_large(scenario: &str) {
    check(&format!(
        "
        terms AAPL none max 281474976710655     => terms of AAPL
        {scenario}
        "
    ));
}

/// Rule 16.6: an order of more lots than the feed can show is displayed, trades, is reduced and replaced like any
/// other.
#[test]
fn a_large_order_lives_like_any_other() {
    check_large(
        "
        buy A1 281474976710655 @ 100            => accepted, booked 281474976710655 @ 100
        buy A2 281474976710656 @ 100            => rejected A2 InvalidQuantity
        sell B1 4294967296 @ 100                => accepted, trade A1 B1 4294967296 @ 100
        modify A1 buy to 281474976710654        => modified A1 buy 1 leaving 281470681743358
        cancel A1 to 8589934592                 => canceled A1 281466386776062 leaving 4294967296
        book AAPL                               => bid A1 4294967296 @ 100
        replace A1 by A3 281474976710655 @ 101  => replaced A1 by A3 buy 281470681743359 @ 101 in place
        sell B2 281470681743359 @ market        => accepted, trade A3 B2 281470681743359 @ 101
        ",
    );
}

/// Rules 35.2, 35.4: an iceberg shows and draws parts of more than 32 bits.
#[test]
fn an_iceberg_shows_large_parts() {
    check_large(
        "
        sell A1 281474976710655 @ 100 show 8589934592 => rejected A1 InvalidMaxFloor
        sell A2 281474976710655 @ 100 show 140737488355328 => accepted show 140737488355328, booked 281474976710655 @ 100 showing 140737488355328
        sell A3 281474976710655 @ 100 show 140737488355328 range 4294967295 => accepted show 140737488355328 range 4294967295, booked 281474976710655 @ 100 showing 140737488355328
        buy B1 140737488355328 @ 100 => accepted, trade A2 B1 140737488355328 @ 100, refreshed A2 showing 140737488355327
        cancel A2 to 140737488355330 => canceled A2 140737488355325 leaving 2
        buy B2 281474976710655 @ 100 => accepted, trade A3 B2 140737488355328 @ 100, refreshed A3 showing 140733770135044, trade A2 B2 2 @ 100, trade A3 B2 3718220283 @ 100, trade A3 B2 140733770135042 @ 100
        ",
    );
}

/// Rules 15.1, 17.1, 37.1, 37.8: a minimum, fill or kill, and all-or-none count lots beyond 32 bits.
#[test]
fn conditions_count_large_quantities() {
    check_large(
        "
        sell A1 140737488355328 @ 100           => accepted, booked 140737488355328 @ 100
        buy B1 281474976710655 @ 100 ioc minimum 140737488355329 => accepted, canceled B1 281474976710655 ioc
        buy B2 140737488355329 @ 100 fok        => accepted, canceled B2 140737488355329 ioc
        buy B3 281474976710655 @ 100 minimum 140737488355329 => accepted
        buy B4 281474976710655 @ 99 all-or-none => accepted all-or-none
        sell A2 1 @ 100                         => accepted, booked 1 @ 100, ready B3, trade A1 B3 140737488355328 @ 100, trade A2 B3 1 @ 100, booked 140737488355326 @ 100
        sell A3 281474976710655 @ 99            => accepted, trade B3 A3 140737488355326 @ 100, booked 140737488355329 @ 99
        ",
    );
}

/// Rules 20.1, 21.1, 22.1, 36.2: stops, linked orders and pegs take as many lots.
#[test]
fn contingent_orders_take_large_quantities() {
    check_large(
        "
        buy A1 281474976710655 @ 100                        => accepted, booked 281474976710655 @ 100
        sell A2 281474976710655 @ 90 stop 95 after A1       => accepted stop 95 after A1
        sell A3 281474976710655 @ 110 after A1 or A2        => accepted after A1 or A2
        sell B1 281474976710655 @ 100                       => accepted, trade A1 B1 281474976710655 @ 100, released A2, released A3, booked 281474976710655 @ 110
        buy C1 281474976710655 @ 105 hidden peg primary         => accepted peg primary
        buy C2 140737488355328 @ 101                        => accepted, booked 140737488355328 @ 101, repriced C1 @ 101, booked 281474976710655 @ 101 hidden
        sell B2 281474976710655 @ 101                       => accepted, trade C2 B2 140737488355328 @ 101, trade C1 B2 140737488355327 @ 101, suspended C1
        sell B3 1 @ 95                                      => accepted, booked 1 @ 95
        buy C3 1 @ 95                                       => accepted, trade B3 C3 1 @ 95, triggered A2 at 95, canceled A3 281474976710655 linked, booked 281474976710655 @ 90
        buy C4 281474976710655 @ 90                         => accepted, trade A2 C4 281474976710655 @ 90
        ",
    );
}

/// Rules 13.1, 13.2: the lots that self-match prevention takes from an order are counted in as many bits.
#[test]
fn large_quantities_are_prevented() {
    check_large(
        "
        sell A1 281474976710655 @ 100               => accepted, booked 281474976710655 @ 100
        buy A2 140737488355328 @ 100 prevent D      => accepted, prevented A1 140737488355328 @ 100 D leaving 140737488355327, prevented A2 140737488355328 @ 100 D
        buy A3 4294967296 @ 100 prevent D           => accepted, prevented A1 4294967296 @ 100 D leaving 140733193388031, prevented A3 4294967296 @ 100 D
        buy B1 281474976710655 @ 100                => accepted, trade A1 B1 140733193388031 @ 100, booked 140741783322624 @ 100
        book AAPL                                   => bid B1 140741783322624 @ 100
        ",
    );
}

/// Rules 27.2, 27.12, 28.1: an auction of large orders, and its indication.
#[test]
fn an_auction_trades_large_quantities() {
    check_large(
        "
        phase AAPL opening-auction              => phase AAPL opening-auction, indicates AAPL nothing
        buy A1 281474976710655 @ 100            => accepted, booked 281474976710655 @ 100
        buy A2 281474976710655 @ 100            => accepted, booked 281474976710655 @ 100
        sell B1 281474976710655 @ 100           => accepted, booked 281474976710655 @ 100
        sell B2 281474976710654 @ 99            => accepted, booked 281474976710654 @ 99
        phase AAPL continuous                   => trade A1 B2 281474976710654 @ 100, trade A1 B1 1 @ 100, trade A2 B1 281474976710654 @ 100, auction AAPL 562949953421309 @ 100, phase AAPL continuous
        ",
    );
}

/// Rules 32.1, 33.1, 42.2, 42.3: the reservations, payments and deliveries of large orders, with fees; their trades are
/// undone and corrected.
#[test]
fn large_trades_are_settled_and_undone() {
    check_paid(
        "
        terms AAPL cash SHR USD units 100 pay 10000 / 1 max 281474976710655    => terms of AAPL
        deposit P 1000000000000000000000000 USD => deposit P 1000000000000000000000000 USD
        deposit Q 28147497671065500 SHR => deposit Q 28147497671065500 SHR
        fees 0 1000 2000 => fees of 0
        buy A1 281474976710655 @ 200000 => accepted, reserve P 562949953421310000000000 USD, booked 281474976710655 @ 200000
        sell B1 281474976710655 @ 190000 => accepted, reserve Q 28147497671065500 SHR, trade A1 B1 281474976710655 @ 200000, settle P Q 562949953421310000000000 USD, settle Q P 28147497671065500 SHR, fee Q 1125899906842620000000 USD, fee P 28147497671066 SHR
        balance P USD => 437050046578690000001000 and 0
        balance Q USD => 561824053514467380000000 and 0
        correct 1 281474976710654 @ 190001 E => corrected 1 to 2: A1 B1 281474976710654 @ 190001, correct Q P 28088393555457692873080 USD, correct - P 56289365842600586920 USD, correct P Q 100 SHR
        bust 2 E => busted 2: A1 B1 281474976710654 @ 190001, undo Q P 533735659959009687126920 USD, undo - P 1069610541000019413080 USD, undo P Q 28119350173394334 SHR, undo - Q 28147497671066 SHR
        ",
    );
}

/// Rules 41.1, 42.1: orders hold and pay the same while the total of an asset passes 2⁶² units, from where its balances
/// have 128 bits, and when it is back below; an engine restored meanwhile has 64 bits again. The same holds where an
/// account may be short of the asset.
#[test]
fn the_width_of_balances_changes_nothing() {
    check_paid(
        "
        fees 0 1000 2000 => fees of 0
        sell B1 10 @ 50 => accepted, reserve Q 10 SHR, booked 10 @ 50
        buy A1 4 @ 50 => accepted, reserve P 200 USD, trade B1 A1 4 @ 50, settle P Q 200 USD, settle Q P 4 SHR, fee P 1 SHR, fee Q 1 USD
        buy A2 1 @ 40 => accepted, reserve P 40 USD, booked 1 @ 40
        deposit P 4611686018427387903 USD => deposit P 4611686018427387903 USD
        buy A3 2 @ 50 => accepted, reserve P 100 USD, trade B1 A3 2 @ 50, settle P Q 100 USD, settle Q P 2 SHR, fee P 1 SHR, fee Q 1 USD
        cancel A2 => canceled A2 1, release P 40 USD
        withdraw P 4611686018427387903 USD => withdrawal P 4611686018427387903 USD
        buy A4 2 @ 50 => accepted, reserve P 100 USD, trade B1 A4 2 @ 50, settle P Q 100 USD, settle Q P 2 SHR, fee P 1 SHR, fee Q 1 USD
        set Q ShortMax 5 SHR => set ShortMax to 5
        buy A5 1 @ 51 => accepted, reserve P 51 USD, trade B1 A5 1 @ 50, settle P Q 50 USD, release P 1 USD, settle Q P 1 SHR, fee P 1 SHR, fee Q 1 USD
        set Q ShortMax 0 SHR => set ShortMax to 0
        sell A6 1 @ 40 => accepted, reserve P 1 SHR, booked 1 @ 40
        ",
    );
}
