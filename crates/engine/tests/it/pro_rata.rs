//! Instruments that share pro rata: section 38 of the rules.

use crate::scenario::check;

/// Rule 38.1: each gets its part, rounded down, and the oldest get the rounding rest.
#[test]
fn orders_get_their_part() {
    check(
        "
        configure AAPL pro-rata 1   => configured
        sell A1 10 @ 100            => accepted, booked 10 @ 100
        sell B1 30 @ 100            => accepted, booked 30 @ 100
        sell A2 60 @ 100            => accepted, booked 60 @ 100
        buy C1 50 @ 100             => accepted, trade A1 C1 5 @ 100, trade B1 C1 15 @ 100, trade A2 C1 30 @ 100
        buy C2 2 @ 100              => accepted, trade A1 C2 1 @ 100, trade A2 C2 1 @ 100
        book AAPL                   => ask A1 4 @ 100, ask B1 15 @ 100, ask A2 29 @ 100
        buy C3 13 @ 100             => accepted, trade A1 C3 2 @ 100, trade B1 C3 4 @ 100, trade A2 C3 7 @ 100
        ",
    );
}

/// Rule 38.2: the time share goes to the oldest before the rest is shared.
#[test]
fn time_share_goes_to_the_oldest() {
    check(
        "
        configure AAPL pro-rata 1           => configured
        configure AAPL time-share 400000    => configured
        configure AAPL time-share 1000001   => declined InvalidValue
        sell A1 30 @ 100                    => accepted, booked 30 @ 100
        sell B1 30 @ 100                    => accepted, booked 30 @ 100
        sell A2 60 @ 100                    => accepted, booked 60 @ 100
        buy C1 50 @ 100                     => accepted, trade A1 C1 23 @ 100, trade B1 C1 9 @ 100, trade A2 C1 18 @ 100
        configure AAPL pro-rata 0           => configured
        buy C2 10 @ 100                     => accepted, trade A1 C2 7 @ 100, trade B1 C2 3 @ 100
        ",
    );
}

/// Rule 38.3: an order that takes a whole level takes it by time; hidden orders trade last, by
/// time.
#[test]
fn price_taken_whole_is_taken_by_time() {
    check(
        "
        configure AAPL pro-rata 1   => configured
        sell A1 10 @ 100            => accepted, booked 10 @ 100
        sell B1 30 @ 100            => accepted, booked 30 @ 100
        sell A2 5 @ 100 hidden      => accepted, booked 5 @ 100 hidden
        sell B2 5 @ 100 hidden      => accepted, booked 5 @ 100 hidden
        sell A3 20 @ 101            => accepted, booked 20 @ 101
        sell B3 20 @ 101            => accepted, booked 20 @ 101
        buy C1 66 @ 101             => accepted, trade A1 C1 10 @ 100, trade B1 C1 30 @ 100, trade A2 C1 5 @ 100, trade B2 C1 5 @ 100, trade A3 C1 8 @ 101, trade B3 C1 8 @ 101
        ",
    );
}

/// Rule 38.4: its own orders are met before lots are shared.
#[test]
fn own_orders_are_met_first() {
    check(
        "
        configure AAPL pro-rata 1       => configured
        sell B1 30 @ 100                => accepted, booked 30 @ 100
        sell A1 10 @ 100                => accepted, booked 10 @ 100
        sell C1 30 @ 100                => accepted, booked 30 @ 100
        buy A2 20 @ 100 prevent D       => accepted, prevented A1 10 @ 100 D, prevented A2 10 @ 100 D leaving 10, trade B1 A2 5 @ 100, trade C1 A2 5 @ 100
        sell A3 10 @ 100                => accepted, booked 10 @ 100
        buy A4 20 @ 100 fok prevent W   => accepted, canceled A4 20 ioc
        buy A5 20 @ 100 prevent W       => accepted, prevented A5 20 for 10 @ 100 W
        ",
    );
}

/// Rule 38.5: a reserve order offers its shown part, and its next part as soon as that is shown.
#[test]
fn reserve_orders_offer_what_they_show() {
    check(
        "
        configure AAPL pro-rata 1   => configured
        sell A1 50 @ 100 show 10    => accepted show 10, booked 50 @ 100 showing 10
        sell B1 30 @ 100            => accepted, booked 30 @ 100
        buy C1 20 @ 100             => accepted, trade A1 C1 5 @ 100, trade B1 C1 15 @ 100
        buy C2 24 @ 100             => accepted, trade A1 C2 5 @ 100, refreshed A1 showing 10, trade B1 C2 12 @ 100, trade A1 C2 7 @ 100
        ",
    );
}

/// Rule 38.6: an auction goes by time.
#[test]
fn auctions_are_not_shared() {
    check(
        "
        configure AAPL pro-rata 1       => configured
        phase AAPL pre-open             => phase AAPL pre-open
        sell A1 10 @ 100                => accepted, booked 10 @ 100
        sell B1 30 @ 100                => accepted, booked 30 @ 100
        buy C1 20 @ 100                 => accepted, booked 20 @ 100
        phase AAPL halted               => phase AAPL halted
        phase AAPL continuous           => trade A1 C1 10 @ 100, trade B1 C1 10 @ 100, auction AAPL 20 @ 100, phase AAPL continuous
        ",
    );
}
