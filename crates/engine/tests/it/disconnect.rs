//! Cancel on disconnect: section 12 of the rules.

use crate::scenario::check;

/// Rule 12.1: all orders of the session are canceled, on every channel, of every firm and instrument, by channel and
/// number; other sessions keep theirs.
#[test]
fn all_orders_of_the_session_are_canceled() {
    check(
        "
        buy A/2:1 1 @ 105               => accepted, booked 1 @ 105
        sell A1 3 @ 110 firm OTHR       => accepted, booked 3 @ 110
        buy A2 2 @ 100 of MSFT          => accepted, booked 2 @ 100
        buy B1 4 @ 104                  => accepted, booked 4 @ 104
        cut-off A                       => canceled A1 3 supervisory, canceled A2 2 supervisory, canceled A/2:1 1 supervisory
        cut-off A
        sell C1 4 @ 104                 => accepted, trade B1 C1 4 @ 104
        ",
    );
}

/// Rule 12.2: no number is used up, and the session may enter orders again at once.
#[test]
fn the_session_goes_on() {
    check(
        "
        buy A1 1 @ 100                  => accepted, booked 1 @ 100
        cut-off A                       => canceled A1 1 supervisory
        query A                         => next 2
        buy A2 1 @ 100                  => accepted, booked 1 @ 100
        ",
    );
}
