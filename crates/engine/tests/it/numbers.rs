//! Numbers of requests: section 4 of the rules.

use crate::scenario::check;

/// Rule 4.1: numbers rise on each channel separately, with gaps or without.
#[test]
fn each_channel_counts_by_itself() {
    check(
        "
        buy A5 1 @ 100      => accepted, booked 1 @ 100
        buy A/1:1 1 @ 100   => accepted, booked 1 @ 100
        buy A/255:3 1 @ 100 => accepted, booked 1 @ 100
        buy A/1:9 1 @ 100   => accepted, booked 1 @ 100
        buy B1 1 @ 100      => accepted, booked 1 @ 100
        buy A6 1 @ 100      => accepted, booked 1 @ 100
        book AAPL => bid A5 1 @ 100, bid A/1:1 1 @ 100, bid A/255:3 1 @ 100, bid A/1:9 1 @ 100, bid B1 1 @ 100, bid A6 1 @ 100
        ",
    );
}

/// Rule 4.2: a request with a number that is not above the last is a repetition, whatever its content.
#[test]
fn repetition_is_ignored() {
    check(
        "
        buy A0 1 @ 100
        buy A7 1 @ 100          => accepted, booked 1 @ 100
        buy A7 1 @ 100
        buy A6 1 @ 100
        sell A7 9 @ 1
        replace A7 by A7 5 @ 100
        replace A7 by A6 5 @ 100
        mass-cancel A7 ACME
        disable A7 ACME
        enable A1 ACME
        reject A7 InvalidSide
        buy A8 1 @ 100          => accepted, booked 1 @ 100
        ",
    );
}

/// Rule 4.3: a request that is answered as an order, a mass cancel or a switch uses its number up; one that is ignored,
/// cancels an original, or has no number does not.
#[test]
fn numbers_are_used_up_by_what_is_answered() {
    check(
        "
        query A                     => next 1
        buy A1 10 @ 100             => accepted, booked 10 @ 100
        query A                     => next 2
        buy A2 0 @ 100              => rejected A2 InvalidQuantity
        query A                     => next 3
        replace A1 by A3 10 @ 101   => replaced A1 by A3 buy 10 @ 101 in place
        query A                     => next 4
        cancel A3 to 9              => canceled A3 1 leaving 9
        modify A3 buy to 8          => modified A3 buy 1 leaving 8
        replace A9 by A10 5 @ 100
        query A                     => next 4
        replace A3 by A11 0 @ 100   => canceled A3 8
        query A                     => next 4
        mass-cancel A4 ACME         => mass-canceled
        query A                     => next 5
        disable A5 ACME             => disabled
        query A                     => next 6
        reject A6 InvalidSide       => rejected A6 InvalidSide
        query A                     => next 7
        enable A7 ACME              => enabled
        buy A8 5 @ 100              => accepted, booked 5 @ 100
        disable A9 ACME             => disabled
        replace A8 by A10 5 @ 100   => rejected A10 EntryDisabled
        query A                     => next 11
        ",
    );
}

/// Rule 4.4: a query answers for the channel that it names; after the highest number none is left.
#[test]
fn query_answers_the_least_number_that_would_be_taken() {
    check(
        "
        query A/9                   => next 1
        buy A/9:41 1 @ 100          => accepted, booked 1 @ 100
        query A/9                   => next 42
        query A                     => next 1
        buy A4294967295 1 @ 100     => accepted, booked 1 @ 100
        query A                     => next 4294967295
        buy A4294967295 1 @ 100
        cancel A4294967295          => canceled A4294967295 1
        ",
    );
}

/// Rule 4.5: another session or channel cannot name an order.
#[test]
fn order_is_named_only_where_it_was_entered() {
    check(
        "
        buy A/1:1 5 @ 100           => accepted, booked 5 @ 100
        cancel A1
        cancel A/2:1
        cancel B/1:1
        modify B/1:1 buy to 1
        replace A1 by A2 3 @ 100
        replace B/1:1 by B/1:2 3 @ 100
        cancel A/1:1                => canceled A/1:1 5
        ",
    );
}

/// Rules 4.1, 4.5: among a thousand orders, most of them done, each number names its own.
#[test]
fn each_number_names_its_own_order() {
    let mut scenario = String::new();
    for number in 1..=1_000 {
        let (number, quantity) = (3 * number, number);
        scenario +=
            &format!("buy A{number} {quantity} @ 100 => accepted, booked {quantity} @ 100\n");
        if quantity % 10 != 0 {
            scenario += &format!("cancel A{number} => canceled A{number} {quantity}\n");
        }
    }
    for number in 1..=1_000 {
        let (number, quantity) = (3 * number, number);
        scenario += &format!("cancel A{}\n", number - 1);
        if quantity % 10 == 0 {
            scenario += &format!("cancel A{number} => canceled A{number} {quantity}\n");
        } else {
            scenario += &format!("cancel A{number}\n");
        }
    }
    check(&scenario);
}
