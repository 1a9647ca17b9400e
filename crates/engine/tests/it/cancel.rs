//! Cancel: section 7 of the rules.

use crate::scenario::check;

/// Rules 7.1, 7.5: a cancel lowers the lots that may execute in total, and reports the lots it removed now.
#[test]
fn cancel_lowers_the_intended_quantity() {
    check(
        "
        buy A1 10 @ 100     => accepted, booked 10 @ 100
        cancel A1 to 8      => canceled A1 2 leaving 8
        sell B1 3 @ 100     => accepted, trade A1 B1 3 @ 100
        cancel A1 to 7      => canceled A1 1 leaving 4
        cancel A1 to 3      => canceled A1 4
        book AAPL
        buy A2 10 @ 100     => accepted, booked 10 @ 100
        cancel A2 to 0      => canceled A2 10
        ",
    );
}

/// Rule 7.1: an intended quantity below the executed lots removes all open lots.
#[test]
fn cancel_below_what_was_executed_removes_all() {
    check(
        "
        buy A1 10 @ 100     => accepted, booked 10 @ 100
        sell B1 6 @ 100     => accepted, trade A1 B1 6 @ 100
        cancel A1 to 2      => canceled A1 4
        ",
    );
}

/// Rule 7.2: the executed lots of a replaced order count against the intended quantity of its replacement.
#[test]
fn executed_lots_of_the_chain_count() {
    check(
        "
        buy A1 10 @ 100             => accepted, booked 10 @ 100
        sell B1 4 @ 100             => accepted, trade A1 B1 4 @ 100
        replace A1 by A2 12 @ 100   => replaced A1 by A2 buy 8 @ 100 in place
        sell B2 1 @ 100             => accepted, trade A2 B2 1 @ 100
        cancel A2 to 6              => canceled A2 6 leaving 1
        cancel A2 to 5              => canceled A2 1
        ",
    );
}

/// Rule 7.3: a cancel that would remove no lots is ignored.
#[test]
fn superfluous_cancel_is_ignored() {
    check(
        "
        buy A1 10 @ 100         => accepted, booked 10 @ 100
        cancel A1 to 10
        cancel A1 to 11
        cancel A1 to 1000000000
        cancel A1 to 4          => canceled A1 6 leaving 4
        cancel A1 to 5
        cancel A1 to 4
        cancel A2
        cancel A1               => canceled A1 4
        cancel A1
        ",
    );
}

/// Rule 7.3: an original that was replaced is not live, and canceling it does nothing.
#[test]
fn replaced_order_cannot_be_canceled() {
    check(
        "
        buy A1 10 @ 100             => accepted, booked 10 @ 100
        replace A1 by A2 10 @ 100   => replaced A1 by A2 buy 10 @ 100 in place
        cancel A1
        cancel A2                   => canceled A2 10
        ",
    );
}

/// Rule 7.4: an order that is reduced stays in its place.
#[test]
fn reduced_order_keeps_its_priority() {
    check(
        "
        buy A1 10 @ 100     => accepted, booked 10 @ 100
        buy A2 10 @ 100     => accepted, booked 10 @ 100
        cancel A1 to 5      => canceled A1 5 leaving 5
        book AAPL           => bid A1 5 @ 100, bid A2 10 @ 100
        sell B1 6 @ 100     => accepted, trade A1 B1 5 @ 100, trade A2 B1 1 @ 100
        ",
    );
}

/// Rules 6.2, 7.4: from the front, the middle or the back of a queue, the others keep their order.
#[test]
fn others_keep_their_order_when_one_leaves() {
    check(
        "
        buy A1 1 @ 100  => accepted, booked 1 @ 100
        buy A2 1 @ 100  => accepted, booked 1 @ 100
        buy A3 1 @ 100  => accepted, booked 1 @ 100
        buy A4 1 @ 100  => accepted, booked 1 @ 100
        buy A5 1 @ 100  => accepted, booked 1 @ 100
        cancel A3       => canceled A3 1
        book AAPL       => bid A1 1 @ 100, bid A2 1 @ 100, bid A4 1 @ 100, bid A5 1 @ 100
        cancel A1       => canceled A1 1
        cancel A5       => canceled A5 1
        book AAPL       => bid A2 1 @ 100, bid A4 1 @ 100
        buy A6 1 @ 100  => accepted, booked 1 @ 100
        cancel A4       => canceled A4 1
        cancel A2       => canceled A2 1
        book AAPL       => bid A6 1 @ 100
        ",
    );
}
