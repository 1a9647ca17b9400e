//! Hidden orders: section 16 of the rules.

use crate::scenario::check;

/// Rules 16.1, 16.2: a hidden order trades after all displayed ones at its price, whenever they came,
/// and before every worse price.
#[test]
fn hidden_orders_stand_behind_displayed_ones_at_their_price() {
    check(
        "
        sell A1 2 @ 100 hidden      => accepted, booked 2 @ 100 hidden
        sell A2 2 @ 100 hidden      => accepted, booked 2 @ 100 hidden
        sell B1 2 @ 100             => accepted, booked 2 @ 100
        sell B2 2 @ 101             => accepted, booked 2 @ 101
        sell A3 2 @ 99 hidden       => accepted, booked 2 @ 99 hidden
        book AAPL                   => ask A3 2 @ 99, ask B1 2 @ 100, ask A1 2 @ 100, ask A2 2 @ 100, ask B2 2 @ 101
        buy C1 7 @ 100              => accepted, trade A3 C1 2 @ 99, trade B1 C1 2 @ 100, trade A1 C1 2 @ 100, trade A2 C1 1 @ 100
        sell B3 1 @ 100             => accepted, booked 1 @ 100
        buy C2 9 @ market           => accepted, trade B3 C2 1 @ 100, trade A2 C2 1 @ 100, trade B2 C2 2 @ 101, canceled C2 5 ioc
        ",
    );
}

/// Rule 16.2: the same holds on the bid side.
#[test]
fn hidden_bids_stand_behind_displayed_ones() {
    check(
        "
        buy A1 2 @ 100 hidden       => accepted, booked 2 @ 100 hidden
        buy B1 2 @ 100              => accepted, booked 2 @ 100
        buy A2 2 @ 101 hidden       => accepted, booked 2 @ 101 hidden
        sell C1 5 @ 100             => accepted, trade A2 C1 2 @ 101, trade B1 C1 2 @ 100, trade A1 C1 1 @ 100
        book AAPL                   => bid A1 1 @ 100
        ",
    );
}

/// Rule 16.3: an incoming order trades with a hidden one as with any other, so that no book is crossed;
/// post-only and minimum quantity see it too.
#[test]
fn incoming_orders_meet_hidden_ones() {
    check(
        "
        sell A1 2 @ 100 hidden              => accepted, booked 2 @ 100 hidden
        buy B1 1 @ 105 hidden               => accepted, trade A1 B1 1 @ 100
        buy B2 1 @ 100 post-only            => accepted, canceled B2 1 post-only
        sell B3 3 @ 101                     => accepted, booked 3 @ 101
        buy C1 5 @ 101 ioc minimum 5        => accepted, canceled C1 5 ioc
        buy C2 5 @ 101 ioc minimum 4        => accepted, trade A1 C2 1 @ 100, trade B3 C2 3 @ 101, canceled C2 1 ioc
        ",
    );
}

/// Rule 16.4: a hidden order is canceled, modified and kept from matching its own orders like any other.
#[test]
fn hidden_orders_can_be_changed() {
    check(
        "
        short A1 9 @ 100 hidden                 => accepted, booked 9 @ 100 hidden
        cancel A1 to 8                          => canceled A1 1 leaving 8
        modify A1 sell to 7                     => modified A1 sell 1 leaving 7
        buy A2 1 @ 100 prevent D                => accepted, prevented A1 1 @ 100 D leaving 6, prevented A2 1 @ 100 D
        cancel A1                               => canceled A1 6
        ",
    );
}

/// Rule 16.5: a replace may hide or show an order; on the feed neither is a Replace.
#[test]
fn replace_hides_and_shows() {
    check(
        "
        buy A1 4 @ 100                      => accepted, booked 4 @ 100
        replace A1 by A2 4 @ 100 hidden     => replaced A1 by A2 buy 4 @ 100 hidden, booked 4 @ 100 hidden
        replace A2 by A3 4 @ 99 hidden      => replaced A2 by A3 buy 4 @ 99 hidden, booked 4 @ 99 hidden
        replace A3 by A4 4 @ 99             => replaced A3 by A4 buy 4 @ 99, booked 4 @ 99
        replace A4 by A5 4 @ 98             => replaced A4 by A5 buy 4 @ 98 in place
        ",
    );
}
