//! Priority and matching: section 6 of the rules.

use crate::scenario::check;

/// Rule 6.1: an order trades with prices that are its limit or better, and no further.
#[test]
fn limit_order_trades_up_to_its_limit() {
    check(
        "
        sell A1 4 @ 101     => accepted, booked 4 @ 101
        sell A2 4 @ 102     => accepted, booked 4 @ 102
        sell A3 4 @ 103     => accepted, booked 4 @ 103
        buy B1 10 @ 102     => accepted, trade A1 B1 4 @ 101, trade A2 B1 4 @ 102, booked 2 @ 102
        book AAPL           => bid B1 2 @ 102, ask A3 4 @ 103
        sell C1 9 @ 103     => accepted, booked 9 @ 103
        ",
    );
}

/// Rule 6.1: a market order trades at any price, on either side.
#[test]
fn market_order_trades_at_any_price() {
    check(
        "
        sell A1 4 @ 1           => accepted, booked 4 @ 1
        sell A2 4 @ 1999999900  => accepted, booked 4 @ 1999999900
        buy B1 6 @ market       => accepted, trade A1 B1 4 @ 1, trade A2 B1 2 @ 1999999900
        cancel A2               => canceled A2 2
        buy A3 2 @ 1999999900   => accepted, booked 2 @ 1999999900
        buy A4 2 @ 1            => accepted, booked 2 @ 1
        sell B2 4 @ market      => accepted, trade A3 B2 2 @ 1999999900, trade A4 B2 2 @ 1
        ",
    );
}

/// Rules 6.2, 6.3: best price first, then oldest first, always at the resting order's price.
#[test]
fn incoming_order_takes_the_best_then_the_oldest_first() {
    check(
        "
        buy A1 4 @ 100      => accepted, booked 4 @ 100
        buy A2 4 @ 101      => accepted, booked 4 @ 101
        buy B1 4 @ 100      => accepted, booked 4 @ 100
        buy B2 4 @ 101      => accepted, booked 4 @ 101
        book AAPL           => bid A2 4 @ 101, bid B2 4 @ 101, bid A1 4 @ 100, bid B1 4 @ 100
        sell C1 11 @ 100    => accepted, trade A2 C1 4 @ 101, trade B2 C1 4 @ 101, trade A1 C1 3 @ 100
        buy A3 4 @ 100      => accepted, booked 4 @ 100
        sell C2 6 @ 90      => accepted, trade A1 C2 1 @ 100, trade B1 C2 4 @ 100, trade A3 C2 1 @ 100
        ",
    );
}

/// Rule 6.4: one owner's orders trade with each other, unless self-match prevention applies.
#[test]
fn owner_trades_with_itself() {
    check(
        "
        sell A1 4 @ 100     => accepted, booked 4 @ 100
        buy A2 4 @ 100      => accepted, trade A1 A2 4 @ 100
        book AAPL
        ",
    );
}

/// Rule 6.5: every kind of sell stands in one queue, and trades with every buy.
#[test]
fn kinds_of_sell_share_one_queue() {
    check(
        "
        short A1 1 @ 100    => accepted, booked 1 @ 100
        sell A2 1 @ 100     => accepted, booked 1 @ 100
        exempt A3 1 @ 100   => accepted, booked 1 @ 100
        buy B1 3 @ 100      => accepted, trade A1 B1 1 @ 100, trade A2 B1 1 @ 100, trade A3 B1 1 @ 100
        buy B2 3 @ 100      => accepted, booked 3 @ 100
        exempt A4 1 @ 100   => accepted, trade B2 A4 1 @ 100
        short A5 1 @ 90     => accepted, trade B2 A5 1 @ 100
        ",
    );
}

/// Rule 6.6: the open rest of a limit order rests, under its firm's name only if attributable.
#[test]
fn what_is_left_rests_with_or_without_a_name() {
    check(
        "
        sell A1 4 @ 100                             => accepted, booked 4 @ 100
        buy B1 9 @ 100 attributable                 => accepted, trade A1 B1 4 @ 100, booked 5 @ 100 as BETA
        buy B2 9 @ 100 attributable firm CUST       => accepted, booked 9 @ 100 as CUST
        buy B3 9 @ 100 firm CUST                    => accepted, booked 9 @ 100
        ",
    );
}

/// Rule 6.7: the open rest of an immediate-or-cancel order or a market order does not rest.
#[test]
fn what_may_not_rest_is_canceled() {
    check(
        "
        buy B1 9 @ 100 ioc      => accepted, canceled B1 9 ioc
        buy B2 9 @ market       => accepted, canceled B2 9 ioc
        sell A1 4 @ 100         => accepted, booked 4 @ 100
        sell A2 4 @ 101         => accepted, booked 4 @ 101
        buy B3 9 @ 100 ioc      => accepted, trade A1 B3 4 @ 100, canceled B3 5 ioc
        buy B4 9 @ market       => accepted, trade A2 B4 4 @ 101, canceled B4 5 ioc
        book AAPL
        cancel B3
        ",
    );
}

/// Rule 6.8: an order at the other side's price trades instead of resting there (every scenario
/// asserts that books are not crossed).
#[test]
fn book_is_never_locked_or_crossed() {
    check(
        "
        buy A1 4 @ 100      => accepted, booked 4 @ 100
        sell B1 5 @ 100     => accepted, trade A1 B1 4 @ 100, booked 1 @ 100
        buy A2 4 @ 99       => accepted, booked 4 @ 99
        book AAPL           => bid A2 4 @ 99, ask B1 1 @ 100
        ",
    );
}

/// Rule 6.9: no request can name an order that was filled.
#[test]
fn done_order_is_gone() {
    check(
        "
        buy A1 4 @ 100          => accepted, booked 4 @ 100
        sell B1 4 @ 100         => accepted, trade A1 B1 4 @ 100
        cancel A1
        cancel B1
        modify A1 buy to 0
        replace A1 by A2 9 @ 100
        mass-cancel A3 ACME     => mass-canceled
        ",
    );
}

/// Rules 6.1, 6.2: orders of different instruments do not meet.
#[test]
fn instruments_have_their_own_books() {
    check(
        "
        buy A1 4 @ 100              => accepted, booked 4 @ 100
        sell B1 4 @ 100 of MSFT     => accepted, booked 4 @ 100
        book AAPL                   => bid A1 4 @ 100
        book MSFT                   => ask B1 4 @ 100
        ",
    );
}
