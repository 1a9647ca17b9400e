//! Acceptance: section 5 of the rules.

use crate::scenario::{check, check_from_nothing};

/// Rule 5.1: the first check that fails gives the reason; each line corrects one more field.
#[test]
fn first_failing_check_gives_the_reason() {
    check_from_nothing(
        "
        instrument AAPL increment 5         => instrument 1
        session A firm ACME max 1           => session 1
        disable A1 ACME                     => disabled
        buy A2 0 @ 3 of IBM                 => rejected A2 MarketClosed
        day start-of-system-hours           => day start-of-system-hours
        buy A3 0 @ 3 of IBM                 => rejected A3 EntryDisabled
        enable A4 ACME                      => enabled
        buy A5 0 @ 3 of IBM                 => rejected A5 InvalidSymbol
        buy A6 1 @ 5                        => accepted, booked 1 @ 5
        buy A7 0 @ 3                        => rejected A7 InvalidQuantity
        buy A8 1 @ 3                        => rejected A8 InvalidPrice
        buy A9 1 @ 5                        => rejected A9 TooManyOrders
        cancel A6                           => canceled A6 1
        buy A10 1 @ 5                       => accepted, booked 1 @ 5
        ",
    );
}

/// Rule 5.2: a rejected order is in no book, but its number is used up and its name is echoed.
#[test]
fn rejected_order_leaves_only_its_number() {
    check(
        "
        buy A1 0 @ 100 client mine  => rejected A1 InvalidQuantity client mine
        book AAPL
        cancel A1
        buy A1 1 @ 100
        ",
    );
}

/// Rule 5.3: 1 to 999,999 lots.
#[test]
fn quantity_has_bounds() {
    check(
        "
        buy A1 0 @ 100                      => rejected A1 InvalidQuantity
        buy A2 1 @ 100                      => accepted, booked 1 @ 100
        buy A3 999999 @ 100                 => accepted, booked 999999 @ 100
        buy A4 1000000 @ 100                => rejected A4 InvalidQuantity
        buy A5 18446744073709551615 @ 100   => rejected A5 InvalidQuantity
        buy A6 4294967297 @ market          => rejected A6 InvalidQuantity
        ",
    );
}

/// Rule 5.4: a limit is above 0, not too high, and a multiple of the increment.
#[test]
fn price_has_bounds_and_steps() {
    check(
        "
        buy A1 1 @ 0                        => rejected A1 InvalidPrice
        buy A2 1 @ 1                        => accepted, booked 1 @ 1
        sell A3 1 @ 1999999900              => accepted, booked 1 @ 1999999900
        sell A4 1 @ 1999999901              => rejected A4 InvalidPrice
        sell A5 1 @ 18446744073709551615    => rejected A5 InvalidPrice
        sell A6 1 @ 4294967301              => rejected A6 InvalidPrice
        buy A7 1 @ 12 of MSFT               => rejected A7 InvalidPrice
        buy A8 1 @ 15 of MSFT               => accepted, booked 1 @ 15
        ",
    );
}

/// Rule 5.4: the highest increment leaves one price, and both sides can rest and trade there.
#[test]
fn one_price_is_enough_to_trade() {
    check(
        "
        instrument ONE increment 1999999900 lot 1   => instrument 3
        buy A1 2 @ 1999999900 of ONE                => accepted, booked 2 @ 1999999900
        sell B1 1 @ 1999999900 of ONE               => accepted, trade A1 B1 1 @ 1999999900
        sell B2 1 @ 100 of ONE                      => rejected B2 InvalidPrice
        book ONE                                    => bid A1 1 @ 1999999900
        ",
    );
}

/// Rule 5.5: while a session has its maximum of live orders, it enters no more.
#[test]
fn live_orders_have_a_bound() {
    check(
        "
        session D max 2         => session 4 open
        session E max 0         => session 5 open
        buy E1 1 @ market       => rejected E1 TooManyOrders
        buy D1 1 @ 100          => accepted, booked 1 @ 100
        buy D2 1 @ 100          => accepted, booked 1 @ 100
        sell D3 1 @ 100         => rejected D3 TooManyOrders
        sell A1 1 @ 100         => accepted, trade D1 A1 1 @ 100
        sell D4 1 @ 100 ioc     => accepted, trade D2 D4 1 @ 100
        buy D5 1 @ 100          => accepted, booked 1 @ 100
        ",
    );
}

/// Rule 5.6: an order refused at the edge is answered with the reason of the edge, whatever the engine would say.
#[test]
fn refused_request_is_answered_with_the_reason_found() {
    check_from_nothing(
        "
        session A                                       => session 1
        reject A1 PeggingNotAllowed client mine         => rejected A1 PeggingNotAllowed client mine
        day start-of-system-hours                       => day start-of-system-hours
        reject A2 InvalidMinimumQuantity                => rejected A2 InvalidMinimumQuantity
        reject A2 InvalidMinimumQuantity
        ",
    );
}

/// Rules 50.1, 50.2: a request that the venue cannot record is rejected and uses up its number; the original of a
/// replace lives on, and can be canceled.
#[test]
fn what_cannot_be_recorded_is_rejected() {
    check(
        "
        buy A1 5 @ 100                  => accepted, booked 5 @ 100
        reject A2 NoRoom                => rejected A2 NoRoom
        reject A3 TooSlow client mine   => rejected A3 TooSlow client mine
        buy A3 1 @ 100
        book AAPL                       => bid A1 5 @ 100
        cancel A1                       => canceled A1 5
        buy A4 1 @ 100                  => accepted, booked 1 @ 100
        ",
    );
}
