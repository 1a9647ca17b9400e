//! Self-match prevention: section 13 of the rules.

use crate::scenario::{check, check_from_nothing};

/// Rules 13.1, 13.2: a session's default applies to orders without a value; an order's own value takes precedence, and
/// the incoming order's value counts.
#[test]
fn incoming_order_decides_by_its_own_word_or_its_sessions() {
    check(
        "
        session D firm DELT prevent W   => session 4 open
        sell D1 4 @ 100 prevent O       => accepted, booked 4 @ 100
        buy D2 4 @ 100                  => accepted, prevented D2 4 @ 100 W
        buy D3 4 @ 100 prevent *        => accepted, prevented D3 4 @ 100 W
        buy D4 1 @ 100 prevent N        => accepted, trade D1 D4 1 @ 100
        buy D5 1 @ 100 prevent O        => accepted, prevented D1 3 for 1 @ 100 O, booked 1 @ 100
        sell A1 4 @ 101 prevent D       => accepted, booked 4 @ 101
        buy A2 4 @ 101                  => accepted, trade A1 A2 4 @ 101
        ",
    );
}

/// Rule 13.3: upper-case letters mean orders for one firm, entered on sessions of one firm; another
/// participant's orders are never its own, whatever firm and group they name.
#[test]
fn own_orders_are_those_of_one_firm_on_its_own_sessions() {
    check(
        "
        session D firm ACME                     => session 4 open
        session E                               => session 5 open
        session F                               => session 6 open
        sell A1 4 @ 100                         => accepted, booked 4 @ 100
        buy D1 4 @ 100 prevent W                => accepted, prevented D1 4 @ 100 W
        buy D2 1 @ 100 firm OTHR prevent W      => accepted, trade A1 D2 1 @ 100
        buy D3 4 @ 100 firm ACME prevent W      => accepted, prevented D3 4 for 3 @ 100 W
        buy B1 1 @ 100 firm ACME prevent O      => accepted, trade A1 B1 1 @ 100
        buy D4 4 @ 100 prevent O                => accepted, prevented A1 2 @ 100 O, booked 4 @ 100
        sell E1 1 @ 101                         => accepted, booked 1 @ 101
        buy F1 1 @ 101 prevent w                => accepted, trade E1 F1 1 @ 101
        sell E2 1 @ 101                         => accepted, booked 1 @ 101
        buy E3 1 @ 101 prevent W                => accepted, prevented E3 1 @ 101 W
        ",
    );
}

/// Rule 13.3: lower-case letters mean all orders of the sessions of one firm.
#[test]
fn lower_case_means_all_orders_of_a_firms_sessions() {
    check(
        "
        session D firm ACME                     => session 4 open
        sell A1 4 @ 100 firm OTHR               => accepted, booked 4 @ 100
        buy D1 1 @ 100 prevent D                => accepted, trade A1 D1 1 @ 100
        buy D2 1 @ 100 prevent d                => accepted, prevented A1 1 @ 100 d leaving 2, prevented D2 1 @ 100 d
        buy D3 5 @ 100 prevent w                => accepted, prevented D3 5 for 2 @ 100 w
        buy D4 1 @ 100 prevent o                => accepted, prevented A1 2 for 1 @ 100 o, booked 1 @ 100
        sell A2 3 @ 100 prevent b               => accepted, prevented D4 1 @ 100 b, prevented A2 3 for 1 @ 100 b
        ",
    );
}

/// Rule 13.4: only orders of the same group are its own; to have none is a group too.
#[test]
fn group_narrows_what_is_own() {
    check(
        "
        sell A1 1 @ 100 among G1                => accepted, booked 1 @ 100
        sell A2 1 @ 100                         => accepted, booked 1 @ 100
        sell A3 1 @ 100 among G2                => accepted, booked 1 @ 100
        buy A4 2 @ 100 prevent W                => accepted, trade A1 A4 1 @ 100, prevented A4 1 @ 100 W
        buy A5 2 @ 100 prevent o among G2       => accepted, trade A2 A5 1 @ 100, prevented A3 1 @ 100 o, booked 1 @ 100
        sell B1 1 @ 100 prevent w among G2      => accepted, trade A5 B1 1 @ 100
        ",
    );
}

/// Rule 13.5: cancel newest ends the incoming order; its earlier trades stand.
#[test]
fn cancel_newest_ends_the_incoming_order() {
    check(
        "
        sell B1 2 @ 99                  => accepted, booked 2 @ 99
        sell A1 4 @ 100                 => accepted, booked 4 @ 100
        sell B2 2 @ 100                 => accepted, booked 2 @ 100
        buy A2 9 @ 100 prevent W        => accepted, trade B1 A2 2 @ 99, prevented A2 7 for 4 @ 100 W
        book AAPL                       => ask A1 4 @ 100, ask B2 2 @ 100
        buy A3 1 @ market prevent W     => accepted, prevented A3 1 @ 100 W
        ",
    );
}

/// Rule 13.6: cancel oldest cancels the resting order, and the incoming one continues.
#[test]
fn cancel_oldest_takes_the_resting_order_away() {
    check(
        "
        sell A1 4 @ 100                 => accepted, booked 4 @ 100
        sell B1 2 @ 100                 => accepted, booked 2 @ 100
        sell A2 4 @ 101                 => accepted, booked 4 @ 101
        buy A3 5 @ 101 prevent O        => accepted, prevented A1 4 @ 100 O, trade B1 A3 2 @ 100, prevented A2 4 for 3 @ 101 O, booked 3 @ 101
        book AAPL                       => bid A3 3 @ 101
        cancel A1
        ",
    );
}

/// Rule 13.7: cancel both ends both, the resting one first.
#[test]
fn cancel_both_ends_both() {
    check(
        "
        sell A1 4 @ 100                 => accepted, booked 4 @ 100
        sell A2 4 @ 100                 => accepted, booked 4 @ 100
        buy A3 5 @ 101 prevent B        => accepted, prevented A1 4 @ 100 B, prevented A3 5 for 4 @ 100 B
        book AAPL                       => ask A2 4 @ 100
        ",
    );
}

/// Rules 13.8, 13.9: decrement takes from both the lots they would have traded; the one that has more keeps its place.
#[test]
fn decrement_takes_from_both_what_would_have_traded() {
    check(
        "
        sell A1 4 @ 100                 => accepted, booked 4 @ 100
        sell B1 4 @ 100                 => accepted, booked 4 @ 100
        buy A2 1 @ 100 prevent D        => accepted, prevented A1 1 @ 100 D leaving 3, prevented A2 1 @ 100 D
        buy C1 1 @ 100                  => accepted, trade A1 C1 1 @ 100
        order A1                        => sell 2 of 4 executed 1 canceled 0 firm ACME capacity O prevented 1
        buy A3 7 @ 100 prevent D        => accepted, prevented A1 2 @ 100 D, prevented A3 2 @ 100 D leaving 5, trade B1 A3 4 @ 100, booked 1 @ 100
        order A3                        => buy 1 of 7 executed 4 canceled 0 firm ACME capacity O prevented 2
        ",
    );
}

/// Rule 13.9: lots that were prevented count against the quantity of a replacement as executed ones
/// do, and not against that of a cancel.
#[test]
fn prevented_lots_count_in_the_chain() {
    check(
        "
        sell A1 100 @ 100               => accepted, booked 100 @ 100
        buy A2 30 @ 100 prevent D       => accepted, prevented A1 30 @ 100 D leaving 70, prevented A2 30 @ 100 D
        cancel A1 to 70
        replace A1 by A3 100 @ 101      => replaced A1 by A3 sell 70 @ 101 in place
        replace A3 by A4 120 @ 101      => replaced A3 by A4 sell 90 @ 101 in place
        replace A4 by A5 30 @ 101       => canceled A4 90
        ",
    );
}

/// Rules 13.10, 9.7: a replacement keeps its original's prevention and group unless it names others,
/// and meets its own as a new order does.
#[test]
fn replacement_keeps_its_prevention() {
    check(
        "
        sell A1 4 @ 105                             => accepted, booked 4 @ 105
        buy A2 4 @ 100 prevent W                    => accepted, booked 4 @ 100
        replace A2 by A3 4 @ 101                    => replaced A2 by A3 buy 4 @ 101 prevent W in place
        replace A3 by A4 5 @ 105                    => replaced A3 by A4 buy 5 @ 105 prevent W, prevented A4 5 for 4 @ 105 W
        buy A5 4 @ 100 prevent W among G1           => accepted, booked 4 @ 100
        replace A5 by A6 1 @ 101 prevent O          => replaced A5 by A6 buy 1 @ 101 prevent O among G1 in place
        replace A6 by A7 1 @ 105 among -            => replaced A6 by A7 buy 1 @ 105 prevent O, prevented A1 4 for 1 @ 105 O, booked 1 @ 105
        ",
    );
}

/// Rule 13.1: without a setting of the session or the order nothing is prevented.
#[test]
fn nothing_is_prevented_unless_asked() {
    check_from_nothing(
        "
        instrument AAPL                 => instrument 1
        session A firm ACME prevent *   => session 1
        day start-of-system-hours       => day start-of-system-hours
        sell A1 4 @ 100                 => accepted, booked 4 @ 100
        buy A2 4 @ 100                  => accepted, trade A1 A2 4 @ 100
        ",
    );
}
