//! Entry switch: section 11 of the rules.

use crate::scenario::check;

/// Rule 11.1: no new order enters while entry is forbidden; resting orders live on.
#[test]
fn forbidden_entry_leaves_what_rests() {
    check(
        "
        sell A1 9 @ 100             => accepted, booked 9 @ 100
        disable A2 ACME             => disabled
        buy A3 1 @ 90               => rejected A3 EntryDisabled
        replace A1 by A4 9 @ 101    => rejected A4 EntryDisabled
        buy B1 1 @ 100              => accepted, trade A1 B1 1 @ 100
        modify A1 short to 8        => modified A1 short 1 leaving 7
        cancel A1 to 5              => canceled A1 3 leaving 4
        enable A5 ACME              => enabled
        replace A1 by A6 9 @ 101    => replaced A1 by A6 short 8 @ 101 in place
        ",
    );
}

/// Rule 11.2: only that firm on that session is concerned.
#[test]
fn switch_concerns_one_firm_on_one_session() {
    check(
        "
        disable A1 ACME             => disabled
        buy A2 1 @ 90 firm OTHR     => accepted, booked 1 @ 90
        buy B1 1 @ 90 firm ACME     => accepted, booked 1 @ 90
        disable A3 OTHR             => disabled
        enable A4 ACME              => enabled
        buy A5 1 @ 90               => accepted, booked 1 @ 90
        buy A6 1 @ 90 firm OTHR     => rejected A6 EntryDisabled
        ",
    );
}

/// Rule 11.3: a second forbidding, or a second allowing, is answered.
#[test]
fn switch_that_changes_nothing_is_answered() {
    check(
        "
        enable A1 ACME      => enabled
        disable A2 ACME     => disabled
        disable A3 -        => disabled
        enable A4 ACME      => enabled
        buy A5 1 @ 90       => accepted, booked 1 @ 90
        ",
    );
}

/// Rule 11.4: the firms forbidden at a time have a bound.
#[test]
fn firms_forbidden_have_a_bound() {
    let mut scenario = String::new();
    for number in 1..=256 {
        scenario += &format!("disable A{number} F{number} => disabled\n");
    }
    check(&format!(
        "{scenario}
        disable A257 F257       => rejected A257 NotSupported
        buy A258 1 @ 90 firm F257 => accepted, booked 1 @ 90
        disable A259 F256       => disabled
        enable A260 F1          => enabled
        disable A261 F257       => disabled
        buy A262 1 @ 90 firm F257 => rejected A262 EntryDisabled
        "
    ));
}
