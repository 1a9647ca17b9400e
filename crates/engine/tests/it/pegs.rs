//! Orders that follow the market: section 36 of the rules.

use market::Timestamp;

use crate::{
    money::check_paid,
    scenario::{World, check},
};

/// A market of 100 to 104, of a firm of its own.
const MARKET: &str = "
    buy C1 9 @ 100      => accepted, booked 9 @ 100
    sell C2 9 @ 104     => accepted, booked 9 @ 104
";

#[track_caller]
fn check_in_market(scenario: &str) {
    check(&format!("{MARKET}{scenario}"));
}

/// Rules 36.1, 36.5: each kind of peg follows its prices with its offset, and its owner receives
/// the price at which it enters.
#[test]
fn each_kind_follows_its_prices() {
    check_in_market(
        "
        buy A1 4 @ 150 hidden peg primary               => accepted peg primary, repriced A1 @ 100, booked 4 @ 100 hidden
        buy A2 4 @ 150 hidden peg primary offset -3     => accepted peg primary offset -3, repriced A2 @ 97, booked 4 @ 97 hidden
        buy A3 4 @ 150 hidden peg market offset -1      => accepted peg market offset -1, repriced A3 @ 103, booked 4 @ 103 hidden
        sell B1 4 @ 50 hidden peg primary offset 2      => accepted peg primary offset 2, repriced B1 @ 106, booked 4 @ 106 hidden
        sell B2 4 @ 50 hidden peg market offset 4       => accepted peg market offset 4, repriced B2 @ 104, booked 4 @ 104 hidden
        buy A4 4 @ market hidden peg midpoint offset -1 => accepted peg midpoint offset -1, repriced A4 @ 101, booked 4 @ 101 hidden
        order A4                                        => buy 4 of 4 executed 0 canceled 0 firm ACME capacity O peg midpoint offset -1
        pegs AAPL                                       => buy A1 4 @ 100, buy A2 4 @ 97, buy A3 4 @ 103, sell B1 4 @ 106, sell B2 4 @ 104, buy A4 4 @ 101
        book AAPL                                       => bid A3 4 @ 103, bid A4 4 @ 101, bid C1 9 @ 100, bid A1 4 @ 100, bid A2 4 @ 97, ask C2 9 @ 104, ask B2 4 @ 104, ask B1 4 @ 106
        ",
    );
}

/// Rule 36.1: the middle is rounded to the increment, down for a buy and up for a sell, so that the two do not meet
/// where no price is between them.
#[test]
fn middle_is_rounded_for_its_owner() {
    check(
        "
        buy C1 9 @ 100 of MSFT                          => accepted, booked 9 @ 100
        sell C2 9 @ 115 of MSFT                         => accepted, booked 9 @ 115
        buy A1 4 @ 200 hidden peg midpoint of MSFT      => accepted peg midpoint, repriced A1 @ 105, booked 4 @ 105 hidden
        sell B1 4 @ 50 hidden peg midpoint of MSFT      => accepted peg midpoint, repriced B1 @ 110, booked 4 @ 110 hidden
        sell C3 1 @ 110 of MSFT                         => accepted, booked 1 @ 110, repriced B1 @ 105, trade A1 B1 4 @ 105
        ",
    );
}

/// Rule 36.1: a price is a multiple of the increment and in range.
#[test]
fn price_is_one_that_there_is() {
    check(
        "
        buy C1 9 @ 3                                    => accepted, booked 9 @ 3
        sell C2 9 @ 1999999898                          => accepted, booked 9 @ 1999999898
        buy A1 4 @ 150 hidden peg primary offset -3     => accepted peg primary offset -3, repriced A1 @ 1, booked 4 @ 1 hidden
        sell A2 4 @ 1 hidden peg primary offset 9       => accepted peg primary offset 9, repriced A2 @ 1999999900, booked 4 @ 1999999900 hidden
        ",
    );
}

/// Rule 36.2: the limit of an order bounds its price.
#[test]
fn limit_bounds_the_price() {
    check_in_market(
        "
        buy A1 4 @ 101 hidden peg primary               => accepted peg primary, repriced A1 @ 100, booked 4 @ 100 hidden
        buy C3 1 @ 102                                  => accepted, booked 1 @ 102, repriced A1 @ 101, booked 4 @ 101 hidden
        buy C4 1 @ 103                                  => accepted, booked 1 @ 103
        sell A2 4 @ 104 hidden peg market               => accepted peg market, repriced A2 @ 104, booked 4 @ 104 hidden
        pegs AAPL                                       => buy A1 4 @ 101, sell A2 4 @ 104
        ",
    );
}

/// Rule 36.2: the band bounds it, too.
#[test]
fn band_bounds_the_price() {
    check_in_market(
        "
        configure AAPL reference 101                    => configured
        configure AAPL static-band 15000                => configured
        buy A1 4 @ 150 hidden peg market                => accepted peg market, repriced A1 @ 102, booked 4 @ 102 hidden
        sell A2 4 @ 50 hidden peg market                => accepted peg market, repriced A2 @ 100, trade A1 A2 4 @ 102
        buy A3 4 @ 150 hidden peg market                => accepted peg market, repriced A3 @ 102, booked 4 @ 102 hidden
        configure AAPL static-band 20000                => configured, repriced A3 @ 103, booked 4 @ 103 hidden
        configure AAPL static-band 0                    => configured, repriced A3 @ 104, trade C2 A3 4 @ 104
        ",
    );
}

/// Rule 36.3: a pegged order is hidden, so none follows another and it has no reserve.
#[test]
fn pegged_orders_are_hidden() {
    check_in_market(
        "
        buy A1 4 @ 150 peg primary                      => rejected A1 InvalidDisplay
        buy A2 4 @ 150 attributable peg primary         => rejected A2 InvalidDisplay
        buy A3 9 @ 150 hidden peg primary show 3        => rejected A3 InvalidMaxFloor
        buy A4 4 @ 150 hidden peg primary offset 2      => accepted peg primary offset 2, repriced A4 @ 102, booked 4 @ 102 hidden
        buy A5 4 @ 150 hidden peg primary offset 1      => accepted peg primary offset 1, repriced A5 @ 101, booked 4 @ 101 hidden
        buy A6 4 @ 103 hidden                           => accepted, booked 4 @ 103 hidden
        pegs AAPL                                       => buy A4 4 @ 102, buy A5 4 @ 101
        ",
    );
}

/// Rule 36.4: the allowed terms of a pegged order.
#[test]
fn what_a_pegged_order_may_be() {
    check_in_market(
        "
        buy A1 4 @ 150 hidden ioc peg primary                   => rejected A1 PeggingNotAllowed
        buy A2 4 @ 150 hidden fok peg primary                   => rejected A2 PeggingNotAllowed
        buy A3 4 @ 150 hidden for-auction peg primary           => rejected A3 PeggingNotAllowed
        buy A4 4 @ market-to-limit hidden peg primary           => rejected A4 PeggingNotAllowed
        buy A5 4 @ 150 hidden minimum 2 peg primary             => rejected A5 InvalidMinimumQuantity
        buy A6 4 @ market hidden minimum 2 peg primary          => rejected A6 InvalidMinimumQuantity
        buy A7 4 @ 150 hidden peg primary offset 7 of MSFT      => rejected A7 InvalidPegType
        buy A8 4 @ 150 hidden peg primary offset -2000000000    => rejected A8 InvalidPegType
        buy A9 4 @ 0 hidden peg primary                         => rejected A9 InvalidPrice
        buy A10 4 @ 150 hidden gtc peg primary                  => accepted peg primary, repriced A10 @ 100, booked 4 @ 100 hidden
        buy A11 4 @ 150 hidden peg primary until 5              => accepted peg primary until 5, repriced A11 @ 100, booked 4 @ 100 hidden
        time 5                                                  => canceled A11 4 expired
        ",
    );
}

/// Rule 36.6: without a price to follow it waits outside the book, live, and comes in when there is one.
#[test]
fn waits_while_there_is_nothing_to_follow() {
    check(
        "
        buy A1 4 @ 150 hidden peg primary               => accepted peg primary
        buy A2 4 @ 150 hidden peg midpoint              => accepted peg midpoint
        sell A3 4 @ 50 hidden peg primary               => accepted peg primary
        sell A4 4 @ 50 hidden peg primary               => accepted peg primary
        order A1                                        => buy 4 of 4 executed 0 canceled 0 firm ACME capacity O peg primary without a price
        book AAPL                                       =>
        cancel A4                                       => canceled A4 4
        modify A3 short to 3                            => modified A3 short 1 leaving 3
        buy C1 9 @ 100                                  => accepted, booked 9 @ 100, repriced A1 @ 100, booked 4 @ 100 hidden
        sell C2 9 @ 104                                 => accepted, booked 9 @ 104, repriced A2 @ 102, booked 4 @ 102 hidden, repriced A3 @ 104, booked 3 @ 104 hidden
        configure AAPL increment 2                      => declined OrdersLive
        cancel C2                                       => canceled C2 9, suspended A2, suspended A3
        pegs AAPL                                       => buy A1 4 @ 100, buy A2 4 waits, short A3 3 waits
        cancel C1                                       => canceled C1 9, suspended A1
        configure AAPL increment 2                      => declined OrdersLive
        mass-cancel A5 -                                => mass-canceled, canceled A1 4, canceled A2 4, canceled A3 3
        pegs AAPL                                       =>
        ",
    );
}

/// Rule 36.6: when orders may no longer be entered there is nothing to follow.
#[test]
fn waits_after_hours() {
    check(
        "
        buy C1 9 @ 100 gtc                              => accepted, booked 9 @ 100
        buy A1 4 @ 150 hidden gtc peg primary           => accepted peg primary, repriced A1 @ 100, booked 4 @ 100 hidden
        buy A2 4 @ 150 hidden peg primary               => accepted peg primary, repriced A2 @ 100, booked 4 @ 100 hidden
        day end-of-system-hours                         => day end-of-system-hours, canceled A2 4 end-of-day, suspended A1
        cancel C1                                       => canceled C1 9
        cancel A1                                       => canceled A1 4
        ",
    );
}

/// Rule 36.7: when displayed prices have changed, the orders that follow them are moved, the oldest
/// first, each behind all others at its price; one whose price stays keeps its place.
#[test]
fn moves_with_the_market_by_age() {
    check_in_market(
        "
        buy A1 4 @ 150 hidden peg primary               => accepted peg primary, repriced A1 @ 100, booked 4 @ 100 hidden
        buy B1 4 @ 101 hidden                           => accepted, booked 4 @ 101 hidden
        buy B2 4 @ 100 hidden peg primary               => accepted peg primary, repriced B2 @ 100, booked 4 @ 100 hidden
        buy A2 4 @ 150 hidden peg primary               => accepted peg primary, repriced A2 @ 100, booked 4 @ 100 hidden
        buy C3 1 @ 101                                  => accepted, booked 1 @ 101, repriced A1 @ 101, booked 4 @ 101 hidden, repriced A2 @ 101, booked 4 @ 101 hidden
        book AAPL                                       => bid C3 1 @ 101, bid B1 4 @ 101, bid A1 4 @ 101, bid A2 4 @ 101, bid C1 9 @ 100, bid B2 4 @ 100, ask C2 9 @ 104
        buy C4 1 @ 101                                  => accepted, booked 1 @ 101
        sell C5 1 @ 101                                 => accepted, trade C3 C5 1 @ 101
        cancel C4                                       => canceled C4 1, repriced A1 @ 100, booked 4 @ 100 hidden, repriced A2 @ 100, booked 4 @ 100 hidden
        book AAPL                                       => bid B1 4 @ 101, bid C1 9 @ 100, bid B2 4 @ 100, bid A1 4 @ 100, bid A2 4 @ 100, ask C2 9 @ 104
        ",
    );
}

/// Rule 36.7: it trades when it comes in, and again when it is moved; its effect on displayed prices moves other
/// orders, and itself, until each has its proper price.
#[test]
fn trades_when_it_is_moved() {
    check_in_market(
        "
        sell C3 2 @ 105                                 => accepted, booked 2 @ 105
        sell C4 2 @ 106                                 => accepted, booked 2 @ 106
        sell C5 2 @ 107                                 => accepted, booked 2 @ 107
        buy A1 3 @ 150 hidden peg primary offset 2      => accepted peg primary offset 2, repriced A1 @ 102, booked 3 @ 102 hidden
        sell B1 4 @ 50 hidden peg market offset 3       => accepted peg market offset 3, repriced B1 @ 103, booked 4 @ 103 hidden
        buy C6 1 @ 101                                  => accepted, booked 1 @ 101, repriced A1 @ 103, trade B1 A1 3 @ 103, repriced B1 @ 104, booked 1 @ 104 hidden
        buy A2 14 @ 106 hidden peg market               => accepted peg market, repriced A2 @ 104, trade C2 A2 9 @ 104, trade B1 A2 1 @ 104, booked 4 @ 104 hidden, repriced A2 @ 105, trade C3 A2 2 @ 105, booked 2 @ 105 hidden, repriced A2 @ 106, trade C4 A2 2 @ 106
        book AAPL                                       => bid C6 1 @ 101, bid C1 9 @ 100, ask C5 2 @ 107
        ",
    );
}

/// Rule 36.7: the effects on linked orders happen before the next is moved, and triggered orders come in before.
#[test]
fn other_things_follow_first() {
    check_in_market(
        "
        buy A1 2 @ 150 hidden peg primary offset 1      => accepted peg primary offset 1, repriced A1 @ 101, booked 2 @ 101 hidden
        buy A2 3 @ 102 hidden peg primary               => accepted peg primary, repriced A2 @ 100, booked 3 @ 100 hidden
        sell A3 2 @ 120 or A2                           => accepted or A2, booked 2 @ 120
        sell B1 2 @ 102 hidden                          => accepted, booked 2 @ 102 hidden
        sell A4 1 @ 119 after A1                        => accepted after A1
        sell B2 5 @ 118 stop 102                        => accepted stop 102
        buy C3 1 @ 101                                  => accepted, booked 1 @ 101, repriced A1 @ 102, trade B1 A1 2 @ 102, released A4, booked 1 @ 119, triggered B2 at 102, booked 5 @ 118, repriced A2 @ 101, booked 3 @ 101 hidden
        sell B3 2 @ 101                                 => accepted, trade C3 B3 1 @ 101, trade A2 B3 1 @ 101, canceled A3 2 linked, repriced A2 @ 100, booked 2 @ 100 hidden
        ",
    );
}

/// Rule 36.8: where an instrument does not trade continuously they wait, the oldest first; they take part
/// in no auction, and come in after it.
#[test]
fn waits_where_nothing_is_traded() {
    check_in_market(
        "
        buy A1 4 @ 150 hidden peg market offset -1      => accepted peg market offset -1, repriced A1 @ 103, booked 4 @ 103 hidden
        sell A2 4 @ 50 hidden peg market offset 2       => accepted peg market offset 2, repriced A2 @ 102, trade A1 A2 4 @ 103
        buy A3 4 @ 150 hidden peg market offset -1      => accepted peg market offset -1, repriced A3 @ 103, booked 4 @ 103 hidden
        buy A4 4 @ market hidden peg primary            => accepted peg primary, repriced A4 @ 100, booked 4 @ 100 hidden
        phase AAPL volatility-auction                   => phase AAPL volatility-auction, suspended A3, suspended A4, indicates AAPL nothing
        sell B1 1 @ 98                                  => accepted, booked 1 @ 98
        buy A5 4 @ 150 hidden peg primary               => accepted peg primary
        phase AAPL continuous                           => trade C1 B1 1 @ 100, auction AAPL 1 @ 100, phase AAPL continuous, repriced A3 @ 103, booked 4 @ 103 hidden, repriced A4 @ 100, booked 4 @ 100 hidden, repriced A5 @ 100, booked 4 @ 100 hidden
        phase AAPL halted                               => phase AAPL halted, suspended A3, suspended A4, suspended A5
        cancel A5                                       => canceled A5 4
        phase AAPL closed                               => phase AAPL closed
        remove AAPL                                     => canceled A3 4 supervisory, canceled A4 4 supervisory, canceled C1 8 supervisory, canceled C2 9 supervisory, removed AAPL
        ",
    );
}

/// Rules 36.9, 14.1: post-only cancels it wherever it would trade; where it stops the market, it waits.
#[test]
fn post_only_and_a_market_that_stops() {
    check_in_market(
        "
        buy A1 4 @ 150 hidden post-only peg market              => accepted peg market, repriced A1 @ 104, canceled A1 4 post-only
        buy A2 4 @ 150 hidden post-only peg primary offset 2    => accepted peg primary offset 2, repriced A2 @ 102, booked 4 @ 102 hidden
        sell B1 1 @ 103 hidden                                  => accepted, booked 1 @ 103 hidden
        buy C3 1 @ 101                                          => accepted, booked 1 @ 101, repriced A2 @ 103, canceled A2 4 post-only
        configure AAPL pause 60                                 => configured
        configure AAPL reference 200                            => configured
        configure AAPL static-band 100000                       => configured
        buy A3 4 @ market hidden peg market                     => accepted peg market, repriced A3 @ 104, phase AAPL volatility-auction by band, collar AAPL 180 to 220, indicates AAPL nothing, suspended A3
        phase AAPL continuous                                   => auction AAPL nothing, phase AAPL continuous, repriced A3 @ 104, phase AAPL volatility-auction by band, collar AAPL 180 to 220, indicates AAPL nothing, suspended A3
        ",
    );
}

/// Rule 36.9: without a pause it is canceled.
#[test]
fn canceled_where_it_would_trade_outside_the_band() {
    check_in_market(
        "
        configure AAPL reference 200                            => configured
        configure AAPL static-band 100000                       => configured
        buy A1 4 @ market hidden peg market                     => accepted peg market, repriced A1 @ 104, canceled A1 4 collar
        ",
    );
}

/// Rule 36.10: it holds its cost at its present price, and is canceled where less is available.
#[test]
fn holds_what_its_price_costs() {
    check_paid(
        "
        deposit Q 1000 USD                      => deposit Q 1000 USD
        buy B1 1 @ 90                           => accepted, reserve Q 90 USD, booked 1 @ 90
        buy A1 5 @ 201 hidden peg primary       => rejected A1 InsufficientBalance
        buy A2 5 @ 200 hidden peg primary       => accepted peg primary, repriced A2 @ 90, reserve P 450 USD, booked 5 @ 90 hidden
        buy A3 1 @ market hidden peg market     => accepted peg market
        balance P USD                           => 550 and 450
        buy B2 1 @ 100                          => accepted, reserve Q 100 USD, booked 1 @ 100, repriced A2 @ 100, reserve P 50 USD, booked 5 @ 100 hidden
        cancel B2                               => canceled B2 1, release Q 100 USD, repriced A2 @ 90, release P 50 USD, booked 5 @ 90 hidden
        cancel B1                               => canceled B1 1, release Q 90 USD, suspended A2, release P 450 USD
        balance P USD                           => 1000 and 0
        buy B3 1 @ 150                          => accepted, reserve Q 150 USD, booked 1 @ 150, repriced A2 @ 150, reserve P 750 USD, booked 5 @ 150 hidden
        withdraw P 200 USD                      => withdrawal P 200 USD
        buy B4 1 @ 160                          => accepted, reserve Q 160 USD, booked 1 @ 160, repriced A2 @ 160, reserve P 50 USD, booked 5 @ 160 hidden
        buy B5 1 @ 161                          => accepted, reserve Q 161 USD, booked 1 @ 161, canceled A2 5 unpaid, release P 800 USD
        withdraw P 700 USD                      => withdrawal P 700 USD
        sell B6 1 @ 170                         => accepted, reserve Q 1 SHR, booked 1 @ 170, canceled A3 1 unpaid
        sell B7 9 @ 100 hidden peg primary      => accepted peg primary, reserve Q 9 SHR, repriced B7 @ 170, booked 9 @ 170 hidden
        ",
    );
}

/// Rule 36.11: a replacement has the instructions of the replace, or else those of its original.
#[test]
fn replaced() {
    check_in_market(
        "
        buy A1 4 @ 150 hidden peg primary               => accepted peg primary, repriced A1 @ 100, booked 4 @ 100 hidden
        replace A1 by A2 6 @ 99 hidden                  => replaced A1 by A2 buy 6 @ 99 hidden peg primary, repriced A2 @ 99, booked 6 @ 99 hidden
        replace A2 by A3 6 @ 120 hidden peg midpoint    => replaced A2 by A3 buy 6 @ 120 hidden peg midpoint, repriced A3 @ 102, booked 6 @ 102 hidden
        replace A3 by A4 6 @ 101 without-instructions                 => replaced A3 by A4 buy 6 @ 101, booked 6 @ 101
        replace A4 by A5 6 @ 101 hidden peg primary     => replaced A4 by A5 buy 6 @ 101 hidden peg primary, repriced A5 @ 100, booked 6 @ 100 hidden
        replace A5 by A6 6 @ 120                        => canceled A5 6
        buy A7 4 @ 150 hidden peg primary               => accepted peg primary, repriced A7 @ 100, booked 4 @ 100 hidden
        replace A7 by A8 6 @ 120 hidden ioc             => canceled A7 4
        ",
    );
}

/// Rules 36.11, 21.3: of two partners that follow the market the limits are apart.
#[test]
fn partners() {
    check_in_market(
        "
        buy A1 4 @ 102 hidden peg primary               => accepted peg primary, repriced A1 @ 100, booked 4 @ 100 hidden
        sell A2 4 @ 102 or A1                           => rejected A2 InvalidLink
        sell A3 4 @ 103 hidden peg market or A1         => accepted peg market or A1, repriced A3 @ 103, booked 4 @ 103 hidden
        sell B1 1 @ 100 ioc                             => accepted, trade C1 B1 1 @ 100
        buy B2 1 @ 103                                  => accepted, trade A3 B2 1 @ 103, canceled A1 4 linked
        buy A4 4 @ market hidden peg primary            => accepted peg primary, repriced A4 @ 100, booked 4 @ 100 hidden
        sell A5 4 @ 120 or A4                           => rejected A5 InvalidLink
        sell A6 4 @ 120 stop 90 or A4                   => accepted stop 90 or A4
        sell A7 4 @ 110 hidden peg primary after A4     => accepted peg primary after A4
        sell B3 10 @ 100                                => accepted, trade C1 B3 8 @ 100, trade A4 B3 2 @ 100, canceled A6 4 linked, suspended A3, suspended A4
        cancel A3                                       => canceled A3 3
        buy C3 1 @ 100                                  => accepted, booked 1 @ 100, repriced A4 @ 100, booked 2 @ 100 hidden
        sell B4 3 @ 100                                 => accepted, trade C3 B4 1 @ 100, trade A4 B4 2 @ 100, released A7, repriced A7 @ 110, booked 4 @ 110 hidden
        ",
    );
}

/// Joins the expected events of the orders of a range.
fn each(range: std::ops::RangeInclusive<u32>, happens: impl Fn(u32) -> String) -> String {
    range.map(happens).collect::<Vec<_>>().join(", ")
}

/// Rule 36.12: a command moves 4 at most; the rest move before the next input acts, the oldest first, and no other
/// moves before them. The engine requests that input.
#[test]
fn a_command_moves_four() {
    let mut world = World::in_open_market();
    let enter = |number| {
        format!(
            "buy A{number} 1 @ 150 hidden peg primary => accepted peg primary, repriced A{number} \
             @ 100, booked 1 @ 100 hidden\n"
        )
    };
    let moved =
        |price| move |number| format!("repriced A{number} @ {price}, booked 1 @ {price} hidden");
    let entered: String = (1..=10).map(enter).collect();
    world.play(&format!("{MARKET}{entered}"));
    assert_eq!(world.engine().due(), None, "each has its price");

    let (first, second) = (each(1..=4, moved(101)), each(5..=8, moved(101)));
    world.play(&format!("buy C3 1 @ 101 => accepted, booked 1 @ 101, {first}"));
    let last = world.engine().timestamp();
    assert_eq!(world.engine().due(), Some(Timestamp(last.0 + 1)), "6 are left");
    world.play(&format!("sell B1 1 @ 105 => {second}, accepted, booked 1 @ 105"));

    // 2 are left; then 10 have another price, and they are still the oldest.
    let (third, fourth) = (each(9..=10, moved(101)), each(1..=4, moved(100)));
    let (fifth, sixth) = (each(5..=8, moved(100)), each(9..=10, moved(100)));
    world.play(&format!("cancel C3 => {third}, canceled C3 1, {fourth}"));
    world.play(&format!("time 0 => {fifth}"));
    assert!(world.engine().due().is_some());
    world.play(&format!("time 0 => {sixth}"));
    assert_eq!(world.engine().due(), None, "each has its price");
}

/// Rule 36.12: an order that is left over trades at its present price; where it is gone, or its price is right again,
/// nothing is left.
#[test]
fn an_order_left_over_keeps_its_price() {
    let entered: String = (1..=6)
        .map(|number| {
            format!(
                "buy A{number} 1 @ 150 hidden peg primary => accepted peg primary, repriced \
                 A{number} @ 100, booked 1 @ 100 hidden\n"
            )
        })
        .collect();
    let down = each(1..=4, |number| format!("repriced A{number} @ 99, booked 1 @ 99 hidden"));
    check_in_market(&format!(
        "
        {entered}
        buy C3 9 @ 99                   => accepted, booked 9 @ 99
        cancel C1                       => canceled C1 9, {down}
        # What was left moves before the next command acts.
        sell B1 1 @ 100 ioc             => repriced A5 @ 99, booked 1 @ 99 hidden, repriced A6 @ 99, booked 1 @ 99 hidden, accepted, canceled B1 1 ioc
        "
    ));
    let suspended = each(1..=4, |number| format!("suspended A{number}"));
    check_in_market(&format!(
        "
        {entered}
        sell B1 9 @ 100                 => accepted, trade C1 B1 9 @ 100, {suspended}
        cancel A5                       => suspended A5, suspended A6, canceled A5 1
        "
    ));
}

/// Rule 36.13: an instrument has a bounded number of pegged orders, and so does each session in it; a replacement takes
/// the place of its original, and one that a parent releases is canceled.
#[test]
fn their_number_is_bounded() {
    check_in_market(
        "
        configure AAPL pegs-max 8193                    => declined InvalidValue
        configure AAPL session-pegs-max 8193            => declined InvalidValue
        configure AAPL session-pegs-max 2               => configured
        buy A1 1 @ 150 hidden peg primary               => accepted peg primary, repriced A1 @ 100, booked 1 @ 100 hidden
        buy A2 1 @ 150 hidden peg primary               => accepted peg primary, repriced A2 @ 100, booked 1 @ 100 hidden
        sell A3 1 @ 50 hidden peg primary               => rejected A3 TooManyPegs
        replace A1 by A4 2 @ 150 hidden                 => replaced A1 by A4 buy 2 @ 150 hidden peg primary, repriced A4 @ 100, booked 2 @ 100 hidden
        buy A5 1 @ 99 hidden                            => accepted, booked 1 @ 99 hidden
        replace A5 by A6 1 @ 99 hidden peg primary      => canceled A5 1
        configure AAPL pegs-max 3                       => configured
        buy B1 1 @ 150 hidden peg primary               => accepted peg primary, repriced B1 @ 100, booked 1 @ 100 hidden
        buy B2 1 @ 150 hidden peg primary               => rejected B2 TooManyPegs
        cancel A4                                       => canceled A4 2
        sell B3 9 @ 104                                 => accepted, booked 9 @ 104
        buy B4 1 @ 150 hidden peg primary after B3      => accepted peg primary after B3
        configure AAPL pegs-max 1                       => configured
        buy C3 10 @ 104                                 => accepted, trade C2 C3 9 @ 104, trade B3 C3 1 @ 104
        buy C4 8 @ 104                                  => accepted, trade B3 C4 8 @ 104, canceled B4 1 linked
        configure AAPL pegs-max 0                       => configured
        buy B5 1 @ 150 hidden peg primary               => rejected B5 TooManyPegs
        ",
    );
}
