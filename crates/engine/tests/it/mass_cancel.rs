//! Mass cancel: section 10 of the rules.

use crate::scenario::check;

/// The orders that the scenarios choose from.
const ORDERS: &str = "
    buy A1 1 @ 100                          => accepted, booked 1 @ 100
    sell A2 2 @ 110 group 7                 => accepted, booked 2 @ 110
    short A/1:1 3 @ 110                     => accepted, booked 3 @ 110
    buy A/2:1 4 @ 100 of MSFT group 7       => accepted, booked 4 @ 100
    exempt A3 5 @ 110 of MSFT firm OTHR     => accepted, booked 5 @ 110
    buy B1 6 @ 100 firm ACME                => accepted, booked 6 @ 100
";

/// Rule 10.1: each criterion given narrows the selected orders; orders of other sessions are never selected.
#[test]
fn criteria_narrow_the_orders_meant() {
    for (criteria, canceled) in [
        ("ACME", "canceled A1 1, canceled A2 2, canceled A/1:1 3, canceled A/2:1 4"),
        ("OTHR", "canceled A3 5"),
        ("- of AAPL", "canceled A1 1, canceled A2 2, canceled A/1:1 3"),
        ("ACME of MSFT", "canceled A/2:1 4"),
        ("ACME side buy", "canceled A1 1, canceled A/2:1 4"),
        ("ACME side sell", "canceled A2 2"),
        ("ACME side short", "canceled A/1:1 3"),
        ("ACME group 7", "canceled A2 2, canceled A/2:1 4"),
        ("ACME group 0", "canceled A1 1, canceled A/1:1 3"),
        ("ACME of AAPL side sell group 7", "canceled A2 2"),
    ] {
        check(&format!("{ORDERS} mass-cancel A9 {criteria} => mass-canceled, {canceled}"));
    }
    for criteria in ["NONE", "ACME of IBM", "ACME side exempt", "ACME group 8", "OTHR of AAPL"] {
        check(&format!("{ORDERS} mass-cancel A9 {criteria} => mass-canceled"));
    }
}

/// Rule 10.2: the echo comes first, then the orders by channel and number, not by price or age.
#[test]
fn orders_are_canceled_by_channel_and_number() {
    check(
        "
        buy A/2:1 1 @ 105       => accepted, booked 1 @ 105
        buy A1 1 @ 100          => accepted, booked 1 @ 100
        buy A/1:9 1 @ 104       => accepted, booked 1 @ 104
        buy A2 1 @ 103          => accepted, booked 1 @ 103
        mass-cancel A/2:5 ACME  => mass-canceled, canceled A1 1, canceled A2 1, canceled A/1:9 1, canceled A/2:1 1
        book AAPL
        ",
    );
}

/// Rule 10.3: a mass cancel that selects no order is echoed all the same.
#[test]
fn mass_cancel_of_nothing_is_echoed() {
    check(
        "
        mass-cancel A1 ACME     => mass-canceled
        query A                 => next 2
        mass-cancel A1 ACME
        ",
    );
}

/// Rule 10.1: a mass cancel finds the orders that earlier ones left, with their present side.
#[test]
fn mass_cancels_follow_each_other() {
    check(&format!(
        "{ORDERS}
        mass-cancel A9 ACME side exempt         => mass-canceled
        mass-cancel A10 ACME group 8            => mass-canceled
        modify A2 short to 2                       => modified A2 short 0 leaving 2
        mass-cancel A11 ACME side sell          => mass-canceled
        modify A2 sell to 2                        => modified A2 sell 0 leaving 2
        modify A2 short to 2                       => modified A2 short 0 leaving 2
        sell A12 7 @ 110 group 7                => accepted, booked 7 @ 110
        mass-cancel A13 ACME side short         => mass-canceled, canceled A2 2, canceled A/1:1 3
        mass-cancel A14 ACME side short         => mass-canceled
        mass-cancel A15 ACME of AAPL group 7    => mass-canceled, canceled A12 7
        mass-cancel A16 ACME                    => mass-canceled, canceled A1 1, canceled A/2:1 4
        mass-cancel A17 OTHR                    => mass-canceled, canceled A3 5
        "
    ));
}
