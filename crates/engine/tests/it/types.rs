//! Types and lives of orders: section 17 of the rules.

use crate::scenario::check;

/// Rule 17.1: fill or kill takes all of its quantity, at several prices if need be, or nothing.
#[test]
fn fill_or_kill_is_all_at_once() {
    check(
        "
        sell A1 4 @ 100             => accepted, booked 4 @ 100
        sell A2 4 @ 101             => accepted, booked 4 @ 101
        buy B1 9 @ 101 fok          => accepted, canceled B1 9 ioc
        buy B2 5 @ 100 fok          => accepted, canceled B2 5 ioc
        buy B3 7 @ 101 fok          => accepted, trade A1 B3 4 @ 100, trade A2 B3 3 @ 101
        buy B4 1 @ market fok       => accepted, trade A2 B4 1 @ 101
        buy B5 1 @ market fok       => accepted, canceled B5 1 ioc
        ",
    );
}

/// Rules 15.4, 17.1: lots that must not trade do not fill it.
#[test]
fn fill_or_kill_is_not_filled_by_its_own() {
    check(
        "
        sell A1 4 @ 100                     => accepted, booked 4 @ 100
        sell B1 4 @ 100                     => accepted, booked 4 @ 100
        buy A2 5 @ 100 fok prevent O        => accepted, canceled A2 5 ioc
        buy A3 4 @ 100 fok prevent O        => accepted, prevented A1 4 @ 100 O, trade B1 A3 4 @ 100
        ",
    );
}

/// Rule 17.2: it rests behind those that came before, like any other.
#[test]
fn good_till_cancel_rests() {
    check(
        "
        buy A1 4 @ 100              => accepted, booked 4 @ 100
        buy B1 4 @ 100 gtc          => accepted, booked 4 @ 100
        sell C1 6 @ 100             => accepted, trade A1 C1 4 @ 100, trade B1 C1 2 @ 100
        replace B1 by B2 3 @ 100 gtc    => replaced B1 by B2 buy 1 @ 100 gtc in place
        book AAPL                   => bid B2 1 @ 100
        ",
    );
}

/// Rule 17.3: market to limit rests at the price of its last trade, and is canceled if it did not trade.
#[test]
fn market_to_limit_rests_where_it_traded() {
    check(
        "
        buy B1 9 @ market-to-limit          => accepted, canceled B1 9 ioc
        sell A1 4 @ 100                     => accepted, booked 4 @ 100
        sell A2 4 @ 102                     => accepted, booked 4 @ 102
        buy B2 9 @ market-to-limit          => accepted, trade A1 B2 4 @ 100, trade A2 B2 4 @ 102, booked 1 @ 102
        sell A3 9 @ market-to-limit ioc     => accepted, trade B2 A3 1 @ 102, canceled A3 8 ioc
        ",
    );
}

/// Rule 5.7: a time in force that is not offered is rejected before the number of orders is checked.
#[test]
fn lives_that_are_not_offered_are_rejected() {
    check(
        "
        buy A1 4 @ market-to-limit for-auction  => rejected A1 NotSupported
        ",
    );
}
