//! Replace: section 9 of the rules.

use crate::scenario::check;

/// Rule 9.1: without a live original, or with a used number, nothing happens.
#[test]
fn replace_needs_a_live_order_and_an_unused_number() {
    check(
        "
        replace A1 by A2 5 @ 100
        buy A3 5 @ 100              => accepted, booked 5 @ 100
        replace A3 by A3 5 @ 101
        replace A3 by A2 unreadable
        cancel A3                   => canceled A3 5
        replace A3 by A4 5 @ 101
        query A                     => next 4
        ",
    );
}

/// Rule 9.2: while entry is forbidden a replace is rejected before its terms are checked.
#[test]
fn replace_is_rejected_while_entry_is_forbidden() {
    check(
        "
        buy A1 5 @ 100                          => accepted, booked 5 @ 100
        buy A2 5 @ 100 firm OTHR                => accepted, booked 5 @ 100
        disable A3 OTHR                         => disabled
        replace A1 by A4 6 @ 100                => replaced A1 by A4 buy 6 @ 100 in place
        replace A2 by A5 0 @ 100 client again   => rejected A5 EntryDisabled client again
        replace A2 by A6 unreadable             => rejected A6 EntryDisabled
        query A                                 => next 7
        book AAPL                               => bid A2 5 @ 100, bid A4 6 @ 100
        ",
    );
}

/// Rule 9.3: impossible terms cancel the original, and the number stays unused.
#[test]
fn unacceptable_terms_cancel_the_original() {
    for terms in [
        "unreadable",
        "0 @ 100",
        "1000000 @ 100",
        "5 @ 0",
        "5 @ 101",
        "5 @ 2000000000",
        "5 @ 100 side sell",
        "5 @ 100 side exempt",
    ] {
        check(&format!(
            "
            buy A1 5 @ 100 of MSFT      => accepted, booked 5 @ 100
            replace A1 by A2 {terms}    => canceled A1 5
            query A                     => next 2
            buy A2 5 @ 100              => accepted, booked 5 @ 100
            "
        ));
    }
    check(
        "
        short A1 5 @ 100                    => accepted, booked 5 @ 100
        replace A1 by A2 5 @ 100 side buy   => canceled A1 5
        ",
    );
}

/// Rule 9.4: the quantity is that of the chain; the example of the rule.
#[test]
fn quantity_is_that_of_the_chain() {
    check(
        "
        buy A1 500 @ 100            => accepted, booked 500 @ 100
        sell B1 100 @ 100           => accepted, trade A1 B1 100 @ 100
        replace A1 by A2 500 @ 100  => replaced A1 by A2 buy 400 @ 100 in place
        replace A2 by A3 600 @ 100  => replaced A2 by A3 buy 500 @ 100 in place
        order A3                    => buy 500 of 600 executed 100 canceled 0 firm ACME capacity O
        cancel A3 to 300            => canceled A3 300 leaving 200
        replace A3 by A4 500 @ 100  => replaced A3 by A4 buy 400 @ 100 in place
        sell B2 50 @ 100            => accepted, trade A4 B2 50 @ 100
        order A4                    => buy 350 of 500 executed 150 canceled 0 firm ACME capacity O
        replace A4 by A5 999999 @ 100 => replaced A4 by A5 buy 999849 @ 100 in place
        ",
    );
}

/// Rule 9.5: a chain that has executed its new quantity already is canceled.
#[test]
fn chain_that_has_executed_enough_is_canceled() {
    for quantity in [1, 99, 100] {
        check(&format!(
            "
            buy A1 500 @ 100                    => accepted, booked 500 @ 100
            sell B1 100 @ 100                   => accepted, trade A1 B1 100 @ 100
            replace A1 by A2 {quantity} @ 100   => canceled A1 400
            query A                             => next 2
            "
        ));
    }
}

/// Rule 9.6: a replacement goes to the end of the queue, even if it changes nothing.
#[test]
fn replacement_loses_priority() {
    check(
        "
        buy A1 5 @ 100              => accepted, booked 5 @ 100
        buy A2 5 @ 100              => accepted, booked 5 @ 100
        replace A1 by A3 5 @ 100    => replaced A1 by A3 buy 5 @ 100 in place
        book AAPL                   => bid A2 5 @ 100, bid A3 5 @ 100
        replace A2 by A4 4 @ 101    => replaced A2 by A4 buy 4 @ 101 in place
        book AAPL                   => bid A4 4 @ 101, bid A3 5 @ 100
        cancel A1
        cancel A2
        ",
    );
}

/// Rule 9.7: the fields that a replace cannot name stay; the locate must be given again.
#[test]
fn replacement_keeps_what_replace_cannot_name() {
    check(
        "
        short A1 10 @ 100 of MSFT firm CUST group 7 capacity A retail client one located broker LEND => accepted, booked 10 @ 100
        replace A1 by A2 8 @ 105 client two     => replaced A1 by A2 short 8 @ 105 client two firm CUST in place
        order A2                                => short 8 of 8 executed 0 canceled 0 firm CUST capacity A retail group 7
        book MSFT                               => ask A2 8 @ 105
        replace A2 by A3 8 @ 105 side exempt located broker LEND => replaced A2 by A3 exempt 8 @ 105 firm CUST in place
        replace A3 by A4 8 @ 105 side sell      => replaced A3 by A4 sell 8 @ 105 firm CUST in place
        order A4                                => sell 8 of 8 executed 0 canceled 0 firm CUST capacity A retail group 7
        ",
    );
}

/// Rule 9.8: a replacement that meets the other side trades, and its open rest rests or is canceled.
#[test]
fn replacement_trades_like_a_new_order() {
    check(
        "
        sell B1 3 @ 105                 => accepted, booked 3 @ 105
        buy A1 5 @ 100                  => accepted, booked 5 @ 100
        replace A1 by A2 5 @ 105        => replaced A1 by A2 buy 5 @ 105, trade B1 A2 3 @ 105, booked 2 @ 105
        book AAPL                       => bid A2 2 @ 105
        sell B2 1 @ 106                 => accepted, booked 1 @ 106
        replace A2 by A3 9 @ 106 ioc    => replaced A2 by A3 buy 6 @ 106 ioc, trade B2 A3 1 @ 106, canceled A3 5 ioc
        buy A4 2 @ 100                  => accepted, booked 2 @ 100
        sell B3 1 @ 110                 => accepted, booked 1 @ 110
        replace A4 by A5 2 @ market     => replaced A4 by A5 buy 2 @ market, trade B3 A5 1 @ 110, canceled A5 1 ioc
        buy A6 2 @ 100                  => accepted, booked 2 @ 100
        replace A6 by A7 2 @ 100 ioc    => replaced A6 by A7 buy 2 @ 100 ioc, canceled A7 2 ioc
        sell B4 2 @ 110                 => accepted, booked 2 @ 110
        buy A8 1 @ 100                  => accepted, booked 1 @ 100
        replace A8 by A9 2 @ 110        => replaced A8 by A9 buy 2 @ 110, trade B4 A9 2 @ 110
        book AAPL
        ",
    );
}

/// Rule 9.9: another name on the feed, or none instead of one, makes the replacement a new order
/// there.
#[test]
fn replacement_is_in_place_only_under_the_same_name() {
    check(
        "
        buy A1 5 @ 100                              => accepted, booked 5 @ 100
        replace A1 by A2 5 @ 101                    => replaced A1 by A2 buy 5 @ 101 in place
        replace A2 by A3 5 @ 101 attributable       => replaced A2 by A3 buy 5 @ 101 attributable, booked 5 @ 101 as ACME
        replace A3 by A4 6 @ 101 attributable       => replaced A3 by A4 buy 6 @ 101 attributable in place
        replace A4 by A5 6 @ 101                    => replaced A4 by A5 buy 6 @ 101, booked 6 @ 101
        session D                                   => session 4 open
        buy D1 5 @ 100                              => accepted, booked 5 @ 100
        replace D1 by D2 5 @ 100 attributable       => replaced D1 by D2 buy 5 @ 100 attributable in place
        ",
    );
}

/// Rule 9.10: a session that is full can still replace.
#[test]
fn replacement_takes_the_place_of_its_original() {
    check(
        "
        session D max 1             => session 4 open
        buy D1 5 @ 100              => accepted, booked 5 @ 100
        buy D2 5 @ 100              => rejected D2 TooManyOrders
        replace D1 by D3 5 @ 101    => replaced D1 by D3 buy 5 @ 101 in place
        buy D4 5 @ 100              => rejected D4 TooManyOrders
        cancel D3                   => canceled D3 5
        buy D5 5 @ 100              => accepted, booked 5 @ 100
        ",
    );
}
