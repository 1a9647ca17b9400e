//! Linked orders: sections 21 and 22 of the rules.

use crate::scenario::check;

/// Rule 21.1: an execution of one of two partners cancels the other.
#[test]
fn execution_cancels_the_partner() {
    check(
        "
        sell A1 5 @ 110                     => accepted, booked 5 @ 110
        sell A2 5 @ market stop 95 or A1    => accepted stop 95 or A1
        order A1                            => sell 5 of 5 executed 0 canceled 0 firm ACME capacity O or A2
        buy B1 1 @ 110                      => accepted, trade A1 B1 1 @ 110, canceled A2 5 linked
        book AAPL                           => ask A1 4 @ 110
        order A1                            => sell 4 of 5 executed 1 canceled 0 firm ACME capacity O
        ",
    );
}

/// Rule 21.1: where the order that one partner fills releases one that fills the other, both have executed, and both
/// are canceled, whether or not lots are left open.
#[test]
fn both_partners_execute() {
    check(
        "
        sell A1 10 @ 101                    => accepted, booked 10 @ 101
        buy A2 5 @ 102 after A1             => accepted after A1
        sell A3 5 @ 102                     => accepted, booked 5 @ 102
        buy A4 15 @ 101 or A3               => accepted or A3, trade A1 A4 10 @ 101, booked 5 @ 101, released A2, trade A3 A2 5 @ 102, canceled A4 5 linked
        book AAPL                           =>
        sell A5 10 @ 101                    => accepted, booked 10 @ 101
        buy A6 5 @ 102 after A5             => accepted after A5
        sell A7 8 @ 102                     => accepted, booked 8 @ 102
        buy A8 15 @ 101 or A7               => accepted or A7, trade A5 A8 10 @ 101, booked 5 @ 101, released A6, trade A7 A6 5 @ 102, canceled A7 3 linked, canceled A8 5 linked
        book AAPL                           =>
        ",
    );
}

/// Rule 21.2: the trigger of one also cancels the other, before it comes in.
#[test]
fn trigger_cancels_the_partner() {
    check(
        "
        buy B1 1 @ 95                       => accepted, booked 1 @ 95
        sell A1 5 @ 110                     => accepted, booked 5 @ 110
        sell A2 5 @ 100 stop 95 or A1       => accepted stop 95 or A1
        sell C1 1 @ 95                      => accepted, trade B1 C1 1 @ 95, triggered A2 at 95, canceled A1 5 linked, booked 5 @ 100
        buy A3 5 @ 120 stop 118             => accepted stop 118
        sell A4 5 @ 80 stop 85 or A3        => accepted stop 85 or A3
        buy B2 9 @ 118                      => accepted, trade A2 B2 5 @ 100, booked 4 @ 118
        sell A5 1 @ market stop 119 or A3   => rejected A5 InvalidLink
        sell B3 1 @ 118                     => accepted, trade B2 B3 1 @ 118, triggered A3 at 118, canceled A4 5 linked, booked 5 @ 120
        ",
    );
}

/// Rule 21.3: two that are in the book are limit orders of the two sides, with the bid below the ask, so
/// that no order meets both.
#[test]
fn partners_in_the_book_are_apart() {
    check(
        "
        buy A1 5 @ 95                       => accepted, booked 5 @ 95
        sell A2 5 @ 105 or A1               => accepted or A1, booked 5 @ 105
        buy B1 9 @ 105                      => accepted, trade A2 B1 5 @ 105, booked 4 @ 105, canceled A1 5 linked
        buy A3 5 @ 95                       => accepted, booked 5 @ 95
        buy A4 5 @ 94 or A3                 => rejected A4 InvalidLink
        sell A5 5 @ 95 or A3                => rejected A5 InvalidLink
        sell A6 5 @ market or A3            => rejected A6 InvalidLink
        sell A7 5 @ 110 or A3               => accepted or A3, booked 5 @ 110
        replace A7 by A8 5 @ 95             => canceled A7 5
        sell A9 1 @ 105 ioc or A3           => accepted or A3, trade B1 A9 1 @ 105, canceled A3 5 linked
        ",
    );
}

/// Rule 21.3: a market order that rests for an auction has no limit either.
#[test]
fn partner_that_waits_for_an_auction_has_a_limit() {
    check(
        "
        buy A1 5 @ market for-auction       => accepted, booked 5 for auction
        sell A2 5 @ 110 or A1               => rejected A2 InvalidLink
        buy A3 5 @ 95 for-auction           => accepted, booked 5 for auction
        sell A4 5 @ 110 or A3               => accepted or A3, booked 5 @ 110
        ",
    );
}

/// Rule 21.4: a partner is a live order of the same channel and instrument that has none yet.
#[test]
fn partners_are_checked() {
    check(
        "
        sell A1 5 @ 110                         => accepted, booked 5 @ 110
        sell A2 5 @ market stop 95 or A7        => rejected A2 InvalidLink
        sell A3 5 @ market stop 95 or A3        => rejected A3 InvalidLink
        sell B1 5 @ market stop 95 or A1        => rejected B1 InvalidLink
        sell A4 5 @ market of MSFT stop 95 or A1 => rejected A4 InvalidLink
        sell A5 5 @ market stop 95 or A1        => accepted stop 95 or A1
        sell A6 5 @ market stop 95 or A1        => rejected A6 InvalidLink
        cancel A1                               => canceled A1 5
        sell A8 5 @ market stop 95 or A1        => rejected A8 InvalidLink
        sell A9 5 @ 110 or A5                   => accepted or A5, booked 5 @ 110
        ",
    );
}

/// Rule 21.5: a cancel of one, its expiry and self-match prevention leave the other unchanged, without a partner.
#[test]
fn cancel_leaves_the_partner() {
    check(
        "
        sell A1 5 @ 110                         => accepted, booked 5 @ 110
        sell A2 5 @ market stop 95 or A1        => accepted stop 95 or A1
        cancel A1 to 4                          => canceled A1 1 leaving 4
        order A2                                => sell 5 of 5 executed 0 canceled 0 firm ACME capacity O stop 95 or A1 waiting
        buy A3 4 @ 110 prevent O                => accepted, prevented A1 4 @ 110 O, booked 4 @ 110
        order A2                                => sell 5 of 5 executed 0 canceled 0 firm ACME capacity O stop 95 waiting
        ",
    );
}

/// Rule 21.6: a replacement takes over the partner and the children of its original.
#[test]
fn replacement_keeps_its_links() {
    check(
        "
        sell A1 5 @ 110                         => accepted, booked 5 @ 110
        sell A2 5 @ market stop 95 or A1        => accepted stop 95 or A1
        replace A1 by A3 5 @ 111                => replaced A1 by A3 sell 5 @ 111 or A2 in place
        order A2                                => sell 5 of 5 executed 0 canceled 0 firm ACME capacity O stop 95 or A3 waiting
        replace A2 by A4 5 @ market stop 96     => replaced A2 by A4 sell 5 @ market stop 96 or A3
        replace A4 by A5 5 @ market stop 96 or A3 => canceled A4 5
        sell A6 5 @ market stop 95 or A3        => accepted stop 95 or A3
        buy A7 5 @ market after A3              => accepted after A3
        replace A3 by A8 5 @ 112                => replaced A3 by A8 sell 5 @ 112 or A6 in place
        order A7                                => buy 5 of 5 executed 0 canceled 0 firm ACME capacity O after A8 held
        replace A7 by A9 3 @ 100                => replaced A7 by A9 buy 3 @ 100 after A8
        buy B1 5 @ 112                          => accepted, trade A8 B1 5 @ 112, canceled A6 5 linked, released A9, booked 3 @ 100
        ",
    );
}

/// Rule 22.1: an order that waits for another is held until that is done; then it comes in, or waits for
/// its trigger, with no more lots than that executed.
#[test]
fn bracket_follows_its_parent() {
    check(
        "
        buy A1 10 @ 100                         => accepted, booked 10 @ 100
        sell A2 10 @ 110 after A1               => accepted after A1
        sell A3 10 @ market stop 90 after A1 or A2 => accepted stop 90 after A1 or A2
        order A2                                => sell 10 of 10 executed 0 canceled 0 firm ACME capacity O after A1 or A3 held
        sell B1 4 @ 100                         => accepted, trade A1 B1 4 @ 100
        book AAPL                               => bid A1 6 @ 100
        cancel A1                               => canceled A1 6, canceled A2 6 leaving 4 linked, released A2, booked 4 @ 110, canceled A3 6 leaving 4 linked, released A3
        waiting AAPL                            => sell A3 4 at 90
        buy B2 1 @ 110                          => accepted, trade A2 B2 1 @ 110, canceled A3 4 linked
        ",
    );
}

/// Rule 22.1: children come by age; one that is smaller than its parent keeps its quantity.
#[test]
fn bracket_of_a_parent_that_comes_in() {
    check(
        "
        buy A1 10 @ 100 stop 99                 => accepted stop 99
        sell A2 3 @ market after A1             => accepted after A1
        sell A3 9 @ 105 after A1                => accepted after A1
        sell B1 10 @ 100                        => accepted, booked 10 @ 100
        buy C1 9 @ 95                           => accepted, booked 9 @ 95
        sell B2 1 @ 95                          => accepted, trade C1 B2 1 @ 95
        sell B3 1 @ 99                          => accepted, booked 1 @ 99
        buy C2 1 @ 99                           => accepted, trade B3 C2 1 @ 99, triggered A1 at 99, trade B1 A1 10 @ 100, released A2, trade C1 A2 3 @ 95, released A3, booked 9 @ 105
        ",
    );
}

/// Rule 22.2: if the parent has executed nothing, or no orders may be entered, its children are canceled
/// with it, and theirs with them.
#[test]
fn children_are_canceled_with_their_parent() {
    check(
        "
        buy A1 10 @ 100                         => accepted, booked 10 @ 100
        sell A2 10 @ 110 after A1               => accepted after A1
        buy A3 10 @ 90 after A2                 => accepted after A2
        cancel A1                               => canceled A1 10, canceled A2 10 linked, canceled A3 10 linked
        buy A4 10 @ 100 gtc                     => accepted, booked 10 @ 100
        sell A5 10 @ 110 gtc after A4           => accepted after A4
        sell B1 4 @ 100                         => accepted, trade A4 B1 4 @ 100
        day end-of-system-hours                 => day end-of-system-hours
        cancel A4                               => canceled A4 6, canceled A5 10 linked
        ",
    );
}

/// Rule 22.3: a parent is a live order of the same channel and instrument, on the other side.
#[test]
fn parents_are_checked() {
    check(
        "
        buy A1 10 @ 100                         => accepted, booked 10 @ 100
        sell A2 10 @ 110 after A9               => rejected A2 InvalidLink
        buy A3 10 @ 90 after A1                 => rejected A3 InvalidLink
        sell A4 10 @ 110 of MSFT after A1       => rejected A4 InvalidLink
        sell A/1:5 10 @ 110 after A/1:1         => rejected A/1:5 InvalidLink
        sell A6 10 @ 110 after A1 or A1         => rejected A6 InvalidLink
        sell A7 10 @ 110 after A7               => rejected A7 InvalidLink
        ",
    );
}

/// Rule 22.5: a parent has 16 live children at most.
#[test]
fn a_parent_has_so_many_children() {
    let children: String = (2..=17)
        .map(|number| format!("sell A{number} 1 @ 110 after A1 => accepted after A1\n"))
        .collect();
    check(&format!(
        "
        buy A1 10 @ 100                 => accepted, booked 10 @ 100
        {children}
        sell A18 1 @ 110 after A1       => rejected A18 InvalidLink
        cancel A5                       => canceled A5 1
        sell A19 1 @ 110 after A1       => accepted after A1
        "
    ));
}

/// Rule 22.4: the effects on linked orders happen when the command is done, in the order in which orders executed or
/// were done, and before orders that were triggered come in.
#[test]
fn links_follow_before_triggers() {
    check(
        "
        sell A1 5 @ 105                         => accepted, booked 5 @ 105
        sell A2 5 @ market stop 95 or A1        => accepted stop 95 or A1
        sell B1 5 @ 104                         => accepted, booked 5 @ 104
        sell B2 5 @ 60 stop 90 or B1            => accepted stop 90 or B1
        buy C1 1 @ 110 stop 105                 => accepted stop 105
        buy C2 7 @ 110                          => accepted, trade B1 C2 5 @ 104, trade A1 C2 2 @ 105, canceled B2 5 linked, canceled A2 5 linked, triggered C1 at 105, trade A1 C1 1 @ 105
        ",
    );
}
