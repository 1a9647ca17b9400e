//! Post-only orders and minimum quantities: sections 14 and 15 of the rules.

use crate::{scenario::check, trades_in_steps::in_steps};

/// Rule 14.1: a post-only order that would trade when it comes in is canceled as a whole, and nothing
/// is traded; one that would not rests.
#[test]
fn post_only_order_rests_or_is_canceled() {
    check(
        "
        sell A1 4 @ 101             => accepted, booked 4 @ 101
        buy B1 9 @ 101 post-only    => accepted, canceled B1 9 post-only
        buy B2 9 @ 100 post-only    => accepted, booked 9 @ 100
        sell C1 1 @ 99 post-only    => accepted, canceled C1 1 post-only
        sell C2 1 @ 100             => accepted, trade B2 C2 1 @ 100
        book AAPL                   => bid B2 8 @ 100, ask A1 4 @ 101
        ",
    );
}

/// Rule 14.2: an order that cannot rest is canceled either way; the reason says whether it could have
/// traded.
#[test]
fn post_only_order_that_cannot_rest_is_canceled() {
    check(
        "
        buy B1 1 @ 100 ioc post-only        => accepted, canceled B1 1 ioc
        buy B2 1 @ market post-only         => accepted, canceled B2 1 ioc
        sell A1 4 @ 101                     => accepted, booked 4 @ 101
        buy B3 1 @ 101 ioc post-only        => accepted, canceled B3 1 post-only
        buy B4 1 @ market post-only         => accepted, canceled B4 1 post-only
        ",
    );
}

/// Rule 14.3: its own orders count like any others; nothing is prevented.
#[test]
fn post_only_comes_before_self_match_prevention() {
    check(
        "
        sell A1 4 @ 101                         => accepted, booked 4 @ 101
        buy A2 1 @ 101 post-only prevent O      => accepted, canceled A2 1 post-only
        book AAPL                               => ask A1 4 @ 101
        ",
    );
}

/// Rule 14.4: a replacement stays post-only unless the replace says otherwise.
#[test]
fn replacement_stays_post_only() {
    check(
        "
        sell A1 4 @ 101                             => accepted, booked 4 @ 101
        buy B1 2 @ 99 post-only                     => accepted, booked 2 @ 99
        replace B1 by B2 2 @ 100                    => replaced B1 by B2 buy 2 @ 100 post-only in place
        replace B2 by B3 2 @ 101                    => replaced B2 by B3 buy 2 @ 101 post-only, canceled B3 2 post-only
        buy B4 2 @ 99 post-only                     => accepted, booked 2 @ 99
        replace B4 by B5 2 @ 101 not-post-only      => replaced B4 by B5 buy 2 @ 101, trade A1 B5 2 @ 101
        buy B6 2 @ 99                               => accepted, booked 2 @ 99
        replace B6 by B7 2 @ 101 post-only          => replaced B6 by B7 buy 2 @ 101 post-only, canceled B7 2 post-only
        ",
    );
}

/// Rule 14.5: a post-only order with price sliding slides beside the best price of the other side, displayed or hidden,
/// and is canceled if there is no price beside it.
#[test]
fn post_only_order_slides() {
    check(
        "
        sell A1 4 @ 101                     => accepted, booked 4 @ 101
        buy B1 9 @ 105 post-only slide      => accepted slide, repriced B1 @ 100, booked 9 @ 100
        sell B2 1 @ 90 post-only slide      => accepted slide, repriced B2 @ 101, booked 1 @ 101
        buy B3 1 @ 99 post-only slide       => accepted slide, booked 1 @ 99
        book AAPL                           => bid B1 9 @ 100, bid B3 1 @ 99, ask A1 4 @ 101, ask B2 1 @ 101
        sell A2 4 @ 110 of MSFT hidden      => accepted, booked 4 @ 110 hidden
        buy B4 9 @ 120 of MSFT post-only slide => accepted slide, repriced B4 @ 105, booked 9 @ 105
        cancel B4                           => canceled B4 9
        buy A3 1 @ 1999999900 of MSFT       => accepted, trade A2 A3 1 @ 110
        cancel A2                           => canceled A2 3
        sell A4 1 @ 5 of MSFT               => accepted, booked 1 @ 5
        buy B5 1 @ 10 of MSFT post-only slide => accepted slide, canceled B5 1 post-only
        cancel A4                           => canceled A4 1
        buy A5 1 @ 1999999900 of MSFT       => accepted, booked 1 @ 1999999900
        sell B6 1 @ 10 of MSFT post-only slide => accepted slide, canceled B6 1 post-only
        ",
    );
}

/// Rule 14.6: it slides once; a replacement begins at its own limit. The instruction has no effect on an order that is
/// not post-only, or may not rest.
#[test]
fn sliding_is_once() {
    check(
        "
        sell A1 4 @ 101                     => accepted, booked 4 @ 101
        buy B1 9 @ 105 post-only slide      => accepted slide, repriced B1 @ 100, booked 9 @ 100
        cancel A1                           => canceled A1 4
        sell A2 4 @ 103                     => accepted, booked 4 @ 103
        book AAPL                           => bid B1 9 @ 100, ask A2 4 @ 103
        replace B1 by B2 9 @ 105            => replaced B1 by B2 buy 9 @ 105 post-only slide, repriced B2 @ 102, booked 9 @ 102
        replace B2 by B3 9 @ 105 without-instructions     => replaced B2 by B3 buy 9 @ 105 post-only, canceled B3 9 post-only
        buy B4 1 @ 105 slide                => accepted slide, trade A2 B4 1 @ 103
        buy B5 1 @ 105 ioc post-only slide  => accepted slide, canceled B5 1 post-only
        buy B6 1 @ market post-only slide   => accepted slide, canceled B6 1 post-only
        sell B7 1 @ 100 post-only stop 103 slide => accepted stop 103 slide, triggered B7 at 103, booked 1 @ 100
        buy B8 3 @ 100 post-only stop 103 slide => accepted stop 103 slide, triggered B8 at 103, repriced B8 @ 99, booked 3 @ 99
        ",
    );
}

/// Rule 15.1: a minimum is not above the quantity, nor for a market-to-limit order that may rest.
#[test]
fn minimum_is_checked() {
    check(
        "
        buy A1 4 @ 100 minimum 5            => rejected A1 InvalidMinimumQuantity
        buy A2 4 @ 100 ioc minimum 5        => rejected A2 InvalidMinimumQuantity
        buy A3 4 @ 100 ioc minimum 4        => accepted, canceled A3 4 ioc
        buy A4 4 @ market minimum 4         => accepted, canceled A4 4 ioc
        buy A5 0 @ 100 ioc minimum 5        => rejected A5 InvalidQuantity
        buy A6 4 @ market-to-limit minimum 1 => rejected A6 InvalidMinimumQuantity
        buy A7 4 @ market-to-limit ioc minimum 1 => accepted, canceled A7 4 ioc
        ",
    );
}

/// Rules 15.2, 15.3: it trades at least the minimum at once, over as many orders and prices as necessary, or nothing;
/// with a minimum of its whole quantity, all or nothing.
#[test]
fn minimum_trades_at_once_or_not_at_all() {
    check(
        "
        sell A1 2 @ 100                     => accepted, booked 2 @ 100
        sell A2 2 @ 100                     => accepted, booked 2 @ 100
        sell A3 2 @ 102                     => accepted, booked 2 @ 102
        buy B1 9 @ 101 ioc minimum 5        => accepted, canceled B1 9 ioc
        buy B2 6 @ 102 ioc minimum 7        => rejected B2 InvalidMinimumQuantity
        buy B3 7 @ 102 ioc minimum 7        => accepted, canceled B3 7 ioc
        buy B4 9 @ 101 ioc minimum 4        => accepted, trade A1 B4 2 @ 100, trade A2 B4 2 @ 100, canceled B4 5 ioc
        buy B5 2 @ market minimum 2         => accepted, trade A3 B5 2 @ 102
        buy A4 2 @ 90                       => accepted, booked 2 @ 90
        sell B6 9 @ 90 ioc minimum 3        => accepted, canceled B6 9 ioc
        sell B7 9 @ 90 ioc minimum 2        => accepted, trade A4 B7 2 @ 90, canceled B7 7 ioc
        ",
    );
}

/// Rule 15.4: lots that self-match prevention would keep from trading do not count, and an order that misses its
/// minimum prevents nothing.
#[test]
fn prevented_lots_do_not_reach_a_minimum() {
    check(
        "
        sell A1 2 @ 100                             => accepted, booked 2 @ 100
        sell B1 2 @ 100                             => accepted, booked 2 @ 100
        buy A2 4 @ 100 ioc minimum 3 prevent O      => accepted, canceled A2 4 ioc
        buy A3 4 @ 100 ioc minimum 1 prevent W      => accepted, canceled A3 4 ioc
        buy A4 4 @ 100 ioc minimum 1 prevent B      => accepted, canceled A4 4 ioc
        buy A5 3 @ 100 ioc minimum 2 prevent D      => accepted, canceled A5 3 ioc
        buy A6 3 @ 100 ioc minimum 1 prevent D      => accepted, prevented A1 2 @ 100 D, prevented A6 2 @ 100 D leaving 1, trade B1 A6 1 @ 100
        sell A7 2 @ 100                             => accepted, booked 2 @ 100
        buy A8 3 @ 100 ioc minimum 1 prevent O      => accepted, trade B1 A8 1 @ 100, prevented A7 2 @ 100 O, canceled A8 2 ioc
        ",
    );
}

/// Rule 15.5: a replacement may have a minimum of its open lots, under the same conditions; one that may not have it
/// cancels the original.
#[test]
fn replacement_may_have_a_minimum() {
    check(
        "
        sell A1 3 @ 101                             => accepted, booked 3 @ 101
        buy B1 5 @ 100                              => accepted, booked 5 @ 100
        replace B1 by B2 5 @ 101 ioc minimum 3      => replaced B1 by B2 buy 5 @ 101 ioc minimum 3, trade A1 B2 3 @ 101, canceled B2 2 ioc
        buy B3 5 @ 100                              => accepted, booked 5 @ 100
        replace B3 by B4 5 @ 101 minimum 6          => canceled B3 5
        buy B4 5 @ 100                              => accepted, booked 5 @ 100
        sell A2 2 @ 100                             => accepted, trade B4 A2 2 @ 100
        replace B4 by B5 5 @ 100 ioc minimum 4      => canceled B4 3
        ",
    );
}

/// Rule 15.6: 256 orders of the other side count for a minimum and for fill or kill, and no more.
#[test]
fn a_minimum_counts_so_many_orders() {
    use std::fmt::Write;

    let mut sells = String::from("session D firm DEAL max 5000 => session 4 open\n");
    for number in 1..=262 {
        writeln!(sells, "sell D{number} 1 @ 100 => accepted, booked 1 @ 100").unwrap();
    }
    let trades: Vec<_> = (1..=256).map(|maker| format!("trade D{maker} A4 1 @ 100")).collect();
    check(&format!(
        "
        {sells}
        buy A1 257 @ 100 fok                => accepted, canceled A1 257 ioc
        buy A2 262 @ 100 ioc minimum 257    => accepted, canceled A2 262 ioc
        buy A3 2000 @ 100 ioc minimum 258   => accepted, canceled A3 2000 ioc
        {}
        buy A5 6 @ 100 fok                  => accepted, {}
        ",
        in_steps("buy A4 256 @ 100 fok", "accepted", &trades),
        (257..=262)
            .map(|maker| format!("trade D{maker} A5 1 @ 100"))
            .collect::<Vec<_>>()
            .join(", "),
    ));
}
