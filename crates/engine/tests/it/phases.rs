//! Phases of an instrument, and orders for one auction: sections 25 and 26 of the rules.

use crate::scenario::{check, check_from_nothing};

/// Rule 25.1: a new instrument is in continuous trading; each has a phase of its own.
#[test]
fn new_instrument_trades_as_orders_come_in() {
    check(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        sell A1 4 @ 100                 => accepted, booked 4 @ 100
        buy B1 4 @ 100                  => accepted, booked 4 @ 100
        sell A2 4 @ 100 of MSFT         => accepted, booked 4 @ 100
        buy B2 4 @ 100 of MSFT          => accepted, trade A2 B2 4 @ 100
        instrument NVDA                 => instrument 3
        sell A3 4 @ 100 of NVDA         => accepted, booked 4 @ 100
        buy B3 4 @ 100 of NVDA          => accepted, trade A3 B3 4 @ 100
        ",
    );
}

/// Rules 25.2, 34.1: from each phase only some others are next; any other is declined, and nothing happens.
#[test]
fn phases_follow_each_other() {
    let nexts = [
        ("pre-open", "opening-auction continuous halted closed"),
        ("opening-auction", "continuous halted"),
        ("continuous", "pre-open opening-auction volatility-auction halted closing-auction closed"),
        ("volatility-auction", "continuous halted closing-auction"),
        ("halted", "pre-open opening-auction continuous volatility-auction closing-auction closed"),
        ("closing-auction", "halted closed"),
        ("closed", "pre-open"),
    ];
    for (from, next) in nexts {
        for (to, _) in nexts {
            let enters = if from == "continuous" { "" } else { from };
            let indicates = |phase: &str| match phase.ends_with("-auction") {
                true => ", indicates AAPL nothing",
                false => "",
            };
            let uncrosses = to == "continuous" || (from, to) == ("closing-auction", "closed");
            let auction = if uncrosses { "auction AAPL nothing, " } else { "" };
            let expected = match next.split(' ').any(|it| it == to) {
                true => format!("{auction}phase AAPL {to}{}", indicates(to)),
                false => "declined PhaseNotNext".to_string(),
            };
            let first = match enters {
                "" => String::new(),
                enters => {
                    format!("phase AAPL {enters} => phase AAPL {enters}{}", indicates(enters))
                }
            };
            check(&format!("{first}\n phase AAPL {to} => {expected}"));
        }
    }
}

/// Rule 25.2: without a named instrument each that may change its phase does, and the others stay.
#[test]
fn all_instruments_that_may_go_on() {
    check(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        phase all opening-auction       => phase AAPL opening-auction, indicates AAPL nothing, phase MSFT opening-auction, indicates MSFT nothing
        phase AAPL halted               => phase AAPL halted
        phase MSFT continuous           => auction MSFT nothing, phase MSFT continuous
        phase all opening-auction       => phase AAPL opening-auction, indicates AAPL nothing, phase MSFT opening-auction, indicates MSFT nothing
        phase all opening-auction
        phase NONE halted               => declined UnknownInstrument
        ",
    );
}

/// Rules 25.3, 25.4: a halted or closed instrument accepts no order and no replace, but every
/// cancel; a closed day or a disabled firm is the first reject reason.
#[test]
fn halted_and_closed_instruments_take_cancels_only() {
    for (phase, reason) in [("halted", "Halted"), ("closed", "InstrumentClosed")] {
        check(&format!(
            "
            sell A1 4 @ 100                 => accepted, booked 4 @ 100
            sell A2 4 @ 101 gtc             => accepted, booked 4 @ 101
            sell A3 4 @ 102                 => accepted, booked 4 @ 102
            phase AAPL {phase}              => phase AAPL {phase}
            buy B1 4 @ 100                  => rejected B1 {reason}
            buy B2 0 @ 7 of AAPL fok        => rejected B2 {reason}
            buy B3 0 @ 7 of NONE            => rejected B3 InvalidSymbol
            replace A1 by A4 4 @ 99         => rejected A4 {reason}
            replace A1 by A5 unreadable     => rejected A5 {reason}
            cancel A1 to 3                  => canceled A1 1 leaving 3
            modify A2 short to 3            => modified A2 short 1 leaving 3
            mass-cancel A6 ACME side sell   => mass-canceled, canceled A1 3, canceled A3 4
            disable B4 BETA                 => disabled
            buy B5 4 @ 100                  => rejected B5 EntryDisabled
            day end-of-system-hours         => day end-of-system-hours
            buy C1 4 @ 100                  => rejected C1 MarketClosed
            cut-off A                       => canceled A2 3 supervisory
            "
        ));
    }
}

/// Rules 25.5, 6.8: a phase that collects lets orders rest where bids are above asks; they are
/// canceled, modified and replaced like any other.
#[test]
fn collected_orders_rest_crossed() {
    for phase in ["pre-open", "opening-auction", "volatility-auction", "closing-auction"] {
        let indicates = if phase == "pre-open" { "" } else { ", indicates AAPL nothing" };
        check(&format!(
            "
            phase AAPL {phase}              => phase AAPL {phase}{indicates}
            sell A1 4 @ 100                 => accepted, booked 4 @ 100
            buy B1 4 @ 102                  => accepted, booked 4 @ 102
            replace A1 by A2 5 @ 98         => replaced A1 by A2 sell 5 @ 98 in place
            replace A2 by A3 5 @ 97 hidden  => replaced A2 by A3 sell 5 @ 97 hidden, booked 5 @ 97 hidden
            book AAPL                       => bid B1 4 @ 102, ask A3 5 @ 97
            cancel A3 to 2                  => canceled A3 3 leaving 2
            modify B1 buy to 3              => modified B1 buy 1 leaving 3
            phase AAPL halted               => phase AAPL halted
            book AAPL                       => bid B1 3 @ 102, ask A3 2 @ 97
            "
        ));
    }
}

/// Rule 25.6: an order that must act at once is not accepted where orders are collected; post-only has no effect.
#[test]
fn collecting_takes_nothing_that_must_act_at_once() {
    check(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        sell A1 4 @ 100                 => accepted, booked 4 @ 100
        buy B1 4 @ 100 ioc              => rejected B1 NotInPhase
        buy B2 4 @ 100 fok              => rejected B2 NotInPhase
        buy B3 4 @ market-to-limit      => rejected B3 NotInPhase
        buy B4 4 @ market minimum 2     => rejected B4 NotInPhase
        buy B5 4 @ market ioc           => rejected B5 NotInPhase
        buy B6 4 @ 100 post-only        => accepted, booked 4 @ 100
        replace B6 by B7 4 @ 100 ioc    => canceled B6 4
        buy B7 4 @ 100 minimum 2        => accepted
        ",
    );
}

/// Rule 25.7: a market order waits for the next auction, and its open rest is then canceled.
#[test]
fn market_order_waits_for_the_next_auction() {
    check(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        buy B1 9 @ market               => accepted, booked 9 for auction
        sell A1 4 @ 100                 => accepted, booked 4 @ 100
        phase AAPL opening-auction      => phase AAPL opening-auction, indicates AAPL 4 @ 100 leaving 5 to buy
        phase AAPL continuous           => trade B1 A1 4 @ 100, auction AAPL 4 @ 100, canceled B1 5 expired, phase AAPL continuous
        cancel B1
        ",
    );
}

/// Rules 26.1, 26.5: at the open is taken until the opening auction, at the close and for auction
/// whenever orders are.
#[test]
fn orders_for_an_auction_are_taken_in_time() {
    check(
        "
        buy A1 4 @ 100 at-the-open                  => rejected A1 NotInPhase
        buy A2 4 @ 100 at-the-close                 => accepted, booked 4 for auction
        buy A3 4 @ 100 for-auction                  => accepted, booked 4 for auction
        buy A4 4 @ market at-the-close              => accepted, booked 4 for auction
        buy A5 4 @ 100 at-the-close minimum 2       => rejected A5 InvalidMinimumQuantity
        buy A6 4 @ market at-the-close minimum 2    => rejected A6 InvalidMinimumQuantity
        buy A7 4 @ market-to-limit at-the-close     => rejected A7 NotSupported
        phase AAPL closing-auction                  => phase AAPL closing-auction, indicates AAPL nothing
        buy A8 4 @ 100 at-the-open                  => rejected A8 NotInPhase
        phase AAPL halted                           => phase AAPL halted
        buy A9 4 @ 100 at-the-close                 => rejected A9 Halted
        phase AAPL pre-open                         => phase AAPL pre-open
        buy A10 4 @ 100 at-the-open                 => accepted, booked 4 for auction
        phase AAPL opening-auction                  => phase AAPL opening-auction, indicates AAPL nothing
        buy A11 4 @ market at-the-open              => accepted, booked 4 for auction
        ",
    );
}

/// Rules 26.2, 26.4: in continuous trading no order meets an order for an auction; it is canceled like any other, and
/// counts among the live orders.
#[test]
fn order_for_an_auction_rests_beside_the_book() {
    check_from_nothing(
        "
        instrument AAPL                             => instrument 1
        session A firm ACME max 3                   => session 1
        session B firm BETA                         => session 2
        day start-of-system-hours                   => day start-of-system-hours
        sell A1 4 @ 100 at-the-close                => accepted, booked 4 for auction
        sell A2 4 @ 100 attributable for-auction    => accepted, booked 4 for auction
        buy B1 4 @ 100 ioc                          => accepted, canceled B1 4 ioc
        buy B2 4 @ 100 post-only                    => accepted, booked 4 @ 100
        sell A3 4 @ 101 at-the-close                => accepted, booked 4 for auction
        sell A4 4 @ 101                             => rejected A4 TooManyOrders
        book AAPL                                   => bid B2 4 @ 100
        cancel A1 to 3                              => canceled A1 1 leaving 3
        modify A1 short to 2                        => modified A1 short 1 leaving 2
        mass-cancel A5 ACME                         => mass-canceled, canceled A1 2, canceled A2 4, canceled A3 4
        ",
    );
}

/// Rule 26.3: each takes part in its own auction only, and is over with it.
#[test]
fn order_takes_part_in_its_own_auction() {
    check(
        "
        buy A1 1 @ 104 at-the-close     => accepted, booked 1 for auction
        phase AAPL pre-open             => phase AAPL pre-open
        buy A2 1 @ 103 at-the-open      => accepted, booked 1 for auction
        buy A3 1 @ 102 for-auction      => accepted, booked 1 for auction
        sell B1 9 @ 100                 => accepted, booked 9 @ 100
        phase AAPL opening-auction      => phase AAPL opening-auction, indicates AAPL 2 @ 100 leaving 7 to sell
        buy A4 1 @ 99 at-the-open       => accepted, booked 1 for auction
        phase AAPL continuous           => trade A2 B1 1 @ 100, trade A3 B1 1 @ 100, auction AAPL 2 @ 100, canceled A4 1 expired, phase AAPL continuous
        buy A5 1 @ 105 for-auction      => accepted, booked 1 for auction
        phase AAPL volatility-auction   => phase AAPL volatility-auction, indicates AAPL 1 @ 100 leaving 6 to sell
        phase AAPL continuous           => trade B1 A5 1 @ 100, auction AAPL 1 @ 100, phase AAPL continuous
        buy A6 1 @ 105 for-auction      => accepted, booked 1 for auction
        phase AAPL closing-auction      => phase AAPL closing-auction, indicates AAPL 2 @ 100 leaving 4 to sell
        phase AAPL closed               => trade B1 A6 1 @ 100, trade A1 B1 1 @ 100, auction AAPL 2 @ 100, phase AAPL closed
        book AAPL                       => ask B1 4 @ 100
        ",
    );
}

/// Rule 26.4: an instrument that is closed without its auction ends the orders for one as well, and
/// one that trades again ends those for the open.
#[test]
fn orders_are_over_with_their_auction() {
    check(
        "
        buy A1 1 @ 104 at-the-close     => accepted, booked 1 for auction
        buy B1 1 @ 104 for-auction      => accepted, booked 1 for auction
        phase AAPL closed               => canceled A1 1 expired, canceled B1 1 expired, phase AAPL closed
        phase AAPL pre-open             => phase AAPL pre-open
        buy A2 1 @ 104 at-the-open      => accepted, booked 1 for auction
        buy A3 1 @ 104 at-the-close     => accepted, booked 1 for auction
        phase AAPL halted               => phase AAPL halted
        phase AAPL continuous           => auction AAPL nothing, canceled A2 1 expired, phase AAPL continuous
        ",
    );
}

/// Rule 26.6: a replacement stays for the auction of its original, unless it names another life than
/// the day; one that does leaves it.
#[test]
fn replacement_stays_for_its_auction() {
    check(
        "
        sell B1 4 @ 105                     => accepted, booked 4 @ 105
        buy A1 4 @ 100 at-the-close         => accepted, booked 4 for auction
        replace A1 by A2 5 @ 105            => replaced A1 by A2 buy 5 @ 105 at-the-close, booked 5 for auction
        replace A2 by A3 5 @ market         => replaced A2 by A3 buy 5 @ market at-the-close, booked 5 for auction
        replace A3 by A4 5 @ 100 for-auction => replaced A3 by A4 buy 5 @ 100 for-auction, booked 5 for auction
        replace A4 by A5 5 @ 104 gtc        => replaced A4 by A5 buy 5 @ 104 gtc, booked 5 @ 104
        replace A5 by A6 5 @ 104 at-the-close => replaced A5 by A6 buy 5 @ 104 at-the-close, booked 5 for auction
        replace A6 by A7 5 @ 105 ioc        => replaced A6 by A7 buy 5 @ 105 ioc, trade B1 A7 4 @ 105, canceled A7 1 ioc
        phase AAPL pre-open                 => phase AAPL pre-open
        buy A8 5 @ market                   => accepted, booked 5 for auction
        replace A8 by A9 5 @ 100            => replaced A8 by A9 buy 5 @ 100, booked 5 @ 100
        ",
    );
}

/// Rule 26.7: nothing is shown of an order for an auction, and its replacement keeps no shown part.
#[test]
fn order_for_an_auction_has_no_shown_part() {
    check(
        "
        buy A1 9 @ 100 show 2 at-the-close  => accepted show 2, booked 9 for auction
        replace A1 by A2 9 @ 100 gtc        => replaced A1 by A2 buy 9 @ 100 gtc, booked 9 @ 100
        replace A2 by A3 9 @ 100 show 2     => replaced A2 by A3 buy 9 @ 100 show 2 in place
        ",
    );
}
