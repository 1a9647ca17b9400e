//! The order of commands, the day, instruments and sessions: sections 1 to 3 of the rules.

use crate::scenario::{World, check, check_from_nothing};

/// Rule 1.1: commands act one after another, each completely, and repetition gives the same.
#[test]
fn same_commands_give_the_same_state() {
    let scenario = "
        session A max 10            => session 1
        session B max 10            => session 2
        instrument AAPL             => instrument 1
        day start-of-system-hours   => day start-of-system-hours
        buy A1 4 @ 100              => accepted, booked 4 @ 100
        sell B1 3 @ 99              => accepted, trade A1 B1 3 @ 100
    ";
    let [mut one, mut other] = [World::default(), World::default()];
    one.play(scenario);
    other.play(scenario);
    assert_eq!(one.engine().state_hash(), other.engine().state_hash());
}

/// Rules 1.2, 1.3: `Accepted` is the first event of an order. Orders, trades, instruments and
/// sessions are numbered without gaps (every scenario asserts it for orders and trades).
#[test]
fn accepted_comes_first_and_ids_have_no_gaps() {
    check(
        "
        instrument IBM increment 1 lot 10   => instrument 3
        session D firm DELT max 5           => session 4 open
        sell A1 4 @ 100                     => accepted, booked 4 @ 100
        sell A2 4 @ 101                     => accepted, booked 4 @ 101
        buy B1 10 @ 101                     => accepted, trade A1 B1 4 @ 100, trade A2 B1 4 @ 101, booked 2 @ 101
        sell D1 2 @ market                  => accepted, trade B1 D1 2 @ 101
        ",
    );
}

/// Rule 1.4: a command of a session that does not exist has no effect.
#[test]
fn unknown_session_is_ignored() {
    check(
        "
        buy Z1 4 @ 100
        reject Z1 InvalidSide
        mass-cancel Z2 ACME
        disable Z3 ACME
        query Z
        cancel Z1
        modify Z1 buy to 1
        replace Z1 by Z4 4 @ 100
        ",
    );
}

/// Rule 2.1: the day only goes forward; parts may be left out.
#[test]
fn day_only_goes_forward() {
    check_from_nothing(
        "
        day start-of-messages       => day start-of-messages
        day start-of-messages
        day start-of-market-hours   => day start-of-market-hours
        day start-of-system-hours
        day end-of-system-hours     => day end-of-system-hours
        day end-of-market-hours
        day end-of-messages         => day end-of-messages
        day start-of-messages
        ",
    );
}

/// Rule 2.2: orders are entered and trade from the start to the end of system hours.
#[test]
fn orders_trade_throughout_system_hours() {
    check_from_nothing(
        "
        instrument AAPL             => instrument 1
        session A                   => session 1
        day start-of-messages       => day start-of-messages
        buy A1 1 @ 100              => rejected A1 MarketClosed
        day start-of-system-hours   => day start-of-system-hours
        buy A2 3 @ 100              => accepted, booked 3 @ 100
        sell A3 1 @ 100             => accepted, trade A2 A3 1 @ 100
        day start-of-market-hours   => day start-of-market-hours
        sell A4 1 @ 100             => accepted, trade A2 A4 1 @ 100
        day end-of-market-hours     => day end-of-market-hours
        sell A5 1 @ 100             => accepted, trade A2 A5 1 @ 100
        day end-of-system-hours     => day end-of-system-hours
        sell A6 1 @ 100             => rejected A6 MarketClosed
        ",
    );
}

/// Rule 2.3: after the close resting orders may be canceled, but no order may enter.
#[test]
fn closed_market_lets_orders_go_and_none_come() {
    check(
        "
        buy A1 5 @ 100 gtc          => accepted, booked 5 @ 100
        short A2 5 @ 110 gtc        => accepted, booked 5 @ 110
        buy A3 5 @ 99 gtc           => accepted, booked 5 @ 99
        day end-of-system-hours     => day end-of-system-hours
        book AAPL                   => bid A1 5 @ 100, bid A3 5 @ 99, ask A2 5 @ 110
        buy A4 5 @ 100              => rejected A4 MarketClosed
        replace A1 by A5 5 @ 100 client again => rejected A5 MarketClosed client again
        replace A1 by A6 unreadable => rejected A6 MarketClosed
        cancel A1 to 3              => canceled A1 2 leaving 3
        modify A2 sell to 4         => modified A2 sell 1 leaving 4
        disable A7 ACME             => disabled
        enable A8 ACME              => enabled
        mass-cancel A9 ACME side buy => mass-canceled, canceled A1 3, canceled A3 5
        query A                     => next 10
        reject A10 InvalidSide      => rejected A10 InvalidSide
        ",
    );
}

/// Rule 2.4: the end of system hours ends orders for the day, in the order of their acceptance, those
/// that wait too; others stay. It ends them once.
#[test]
fn orders_for_the_day_end_with_it() {
    check(
        "
        buy A1 5 @ 100              => accepted, booked 5 @ 100
        buy B1 5 @ 101 gtc          => accepted, booked 5 @ 101
        sell B2 5 @ 110 hidden      => accepted, booked 5 @ 110 hidden
        buy A2 5 @ 99               => accepted, booked 5 @ 99
        buy C1 5 @ 98 until 1000    => accepted until 1000, booked 5 @ 98
        sell A3 5 @ market ioc stop 90 => accepted stop 90
        sell A4 5 @ 80 gtc stop 91  => accepted stop 91
        replace A2 by A5 5 @ 97     => replaced A2 by A5 buy 5 @ 97 in place
        day end-of-system-hours     => day end-of-system-hours, canceled A1 5 end-of-day, canceled B2 5 end-of-day, canceled A3 5 end-of-day, canceled A5 5 end-of-day
        book AAPL                   => bid B1 5 @ 101, bid C1 5 @ 98
        waiting AAPL                => sell A4 5 at 91
        day end-of-messages         => day end-of-messages
        ",
    );
}

/// Rules 3.1, 3.3: names are given once, and an instrument that no order could trade is not added.
#[test]
fn names_are_given_once() {
    check_from_nothing(
        "
        instrument AAPL increment 1 lot 1           => instrument 1
        instrument AAPL increment 5 lot 1
        instrument - increment 1 lot 1
        instrument IBM increment 0 lot 1
        instrument IBM increment 1999999901 lot 1
        instrument IBM increment 1 lot 0
        instrument IBM increment 1 lot 1000000
        instrument IBM increment 1999999900 lot 999999 => instrument 2
        session A firm ACME     => session 1
        session A firm BETA
        session - firm ACME
        session B firm ACME     => session 2
        ",
    );
}

/// Rule 3.2: an order need not be a multiple of the round lot.
#[test]
fn round_lot_restricts_nothing() {
    check("buy A1 7 @ 100 => accepted, booked 7 @ 100");
}

/// Rule 3.4: a blank firm is the session's own, in an order, a mass cancel and a switch.
#[test]
fn blank_firm_is_the_sessions_own() {
    check(
        "
        buy A1 1 @ 100 attributable             => accepted, booked 1 @ 100 as ACME
        buy A2 1 @ 100 attributable firm ACME   => accepted, booked 1 @ 100 as ACME
        buy A3 1 @ 100 attributable firm OTHR   => accepted, booked 1 @ 100 as OTHR
        mass-cancel A4 -                        => mass-canceled, canceled A1 1, canceled A2 1
        disable A5 -                            => disabled
        buy A6 1 @ 100 firm ACME                => rejected A6 EntryDisabled
        ",
    );
}
