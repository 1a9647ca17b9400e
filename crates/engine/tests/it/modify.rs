//! Modify: section 8 of the rules.

use crate::scenario::check;

/// Rule 8.1: any kind of sell becomes any other.
#[test]
fn kind_of_sell_may_change() {
    check(
        "
        sell A1 10 @ 100        => accepted, booked 10 @ 100
        modify A1 short to 10   => modified A1 short 0 leaving 10
        modify A1 exempt to 10  => modified A1 exempt 0 leaving 10
        modify A1 sell to 10    => modified A1 sell 0 leaving 10
        ",
    );
}

/// Rule 8.1: a buy stays a buy and a sell a sell; any other modify has no effect.
#[test]
fn modify_to_the_other_side_is_ignored() {
    check(
        "
        sell A1 10 @ 100        => accepted, booked 10 @ 100
        buy A2 10 @ 90          => accepted, booked 10 @ 90
        modify A1 buy to 5
        modify A2 sell to 5
        modify A2 short to 0
        book AAPL               => bid A2 10 @ 90, ask A1 10 @ 100
        ",
    );
}

/// Rule 8.2: a modify lowers the intended quantity, of the chain; of an increase only the side counts.
#[test]
fn modify_lowers_the_intended_quantity() {
    check(
        "
        sell A1 10 @ 100            => accepted, booked 10 @ 100
        buy B1 2 @ 100              => accepted, trade A1 B1 2 @ 100
        replace A1 by A2 10 @ 100   => replaced A1 by A2 sell 8 @ 100 in place
        modify A2 sell to 9         => modified A2 sell 1 leaving 7
        modify A2 sell to 20
        modify A2 short to 20       => modified A2 short 0 leaving 7
        modify A2 sell to 3         => modified A2 sell 6 leaving 1
        ",
    );
}

/// Rule 8.3: a modified order stays in its place.
#[test]
fn modified_order_keeps_its_priority() {
    check(
        "
        sell A1 10 @ 100        => accepted, booked 10 @ 100
        sell A2 10 @ 100        => accepted, booked 10 @ 100
        modify A1 short to 5    => modified A1 short 5 leaving 5
        buy B1 6 @ 100          => accepted, trade A1 B1 5 @ 100, trade A2 B1 1 @ 100
        ",
    );
}

/// Rule 8.4: a modify to nothing ends the order; one that changes nothing is not answered.
#[test]
fn modify_says_what_is_open() {
    check(
        "
        buy A1 10 @ 100         => accepted, booked 10 @ 100
        modify A1 buy to 10
        modify A1 buy to 4      => modified A1 buy 6 leaving 4
        modify A1 buy to 0      => modified A1 buy 4 leaving 0
        modify A1 buy to 0
        book AAPL
        ",
    );
}
