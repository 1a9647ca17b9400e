//! Lives by time: section 23 of the rules.

use crate::scenario::check;

/// Rules 23.1, 23.2: a good-till-time order expires at the first input that is not before its moment,
/// before that acts.
#[test]
fn good_till_time_expires_before_the_next_input_acts() {
    check(
        "
        buy A1 5 @ 100 until 10     => accepted until 10, booked 5 @ 100
        buy A2 5 @ 99 until 11      => accepted until 11, booked 5 @ 99
        time 9
        sell B1 1 @ 100             => accepted, trade A1 B1 1 @ 100
        time 10                     => canceled A1 4 expired
        sell B2 1 @ 99              => accepted, trade A2 B2 1 @ 99
        sell B3 1 @ 80 until 12     => accepted until 12, trade A2 B3 1 @ 99
        time 30                     => canceled A2 3 expired
        ",
    );
}

/// Rule 23.2: orders of one moment expire by session, channel and number, earlier moments first; orders that wait
/// outside the book expire too.
#[test]
fn orders_expire_by_moment_and_then_by_name() {
    check(
        "
        sell A1 5 @ 100 until 12            => accepted until 12, booked 5 @ 100
        sell B1 5 @ 101 hidden until 11     => accepted until 11, booked 5 @ 101 hidden
        sell A2 5 @ 90 stop 95 until 11     => accepted stop 95 until 11
        buy A3 5 @ 90 until 12 after A1     => accepted until 12 after A1
        buy A4 5 @ 90 until 13 after A1     => accepted until 13 after A1
        sell A5 5 @ 102 until 11            => accepted until 11, booked 5 @ 102
        replace A5 by A6 5 @ 103            => replaced A5 by A6 sell 5 @ 103 in place
        replace A1 by A7 5 @ 100 good-till-time => replaced A1 by A7 sell 5 @ 100 good-till-time until 12 in place
        time 20                             => canceled A2 5 expired, canceled B1 5 expired, canceled A3 5 expired, canceled A7 5 expired, canceled A4 5 linked
        book AAPL                           => ask A6 5 @ 103
        ",
    );
}

/// Rule 23.3: the expiry must be in the future, and only a good-till-time order has one.
#[test]
fn moments_are_checked() {
    check(
        "
        time 10
        buy A1 5 @ 100 until 10             => rejected A1 InvalidExpiry
        buy A2 5 @ 100 until 0              => rejected A2 InvalidExpiry
        buy A3 5 @ 100 until 20 gtc         => rejected A3 InvalidExpiry
        buy A4 5 @ 100 until 11             => accepted until 11, booked 5 @ 100
        replace A4 by A5 5 @ 100 until 10   => canceled A4 5
        buy A6 5 @ 100                      => accepted, booked 5 @ 100
        replace A6 by A7 5 @ 100 good-till-time => canceled A6 5
        ",
    );
}

/// Rule 23.4: it stays beyond the end of the day, and time passes there too.
#[test]
fn good_till_time_outlives_the_day() {
    check(
        "
        buy A1 5 @ 100 until 10     => accepted until 10, booked 5 @ 100
        day end-of-system-hours     => day end-of-system-hours
        time 10                     => canceled A1 5 expired
        ",
    );
}
