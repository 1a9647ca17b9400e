//! Orders that wait for a trade at their trigger: section 20 of the rules.

use std::ops::RangeInclusive;

use market::Timestamp;

use crate::{
    money::check_paid,
    scenario::{World, check},
};

/// Rules 20.1, 20.2: a stop waits until the market trades at its trigger or beyond, and comes in then as
/// if it had just been entered; meanwhile it is not in the book.
#[test]
fn stop_waits_for_its_trigger() {
    check(
        "
        buy A1 9 @ 100              => accepted, booked 9 @ 100
        sell B1 1 @ 100             => accepted, trade A1 B1 1 @ 100
        sell A2 4 @ market stop 98  => accepted stop 98
        sell A3 4 @ 97 stop 99      => accepted stop 99
        book AAPL                   => bid A1 8 @ 100
        buy A4 3 @ 99               => accepted, booked 3 @ 99
        buy A5 7 @ 97               => accepted, booked 7 @ 97
        sell B2 9 @ 99              => accepted, trade A1 B2 8 @ 100, trade A4 B2 1 @ 99, triggered A3 at 99, trade A4 A3 2 @ 99, trade A5 A3 2 @ 97, triggered A2 at 98, trade A5 A2 4 @ 97
        ",
    );
}

/// Rule 20.1: a buy stops above the market; take-profit orders wait on the other side.
#[test]
fn each_kind_waits_on_its_side() {
    check(
        "
        buy A1 1 @ 100                      => accepted, booked 1 @ 100
        sell B1 1 @ 100                     => accepted, trade A1 B1 1 @ 100
        buy A2 4 @ 103 stop 102             => accepted stop 102
        buy A3 4 @ 97 touch 98              => accepted touch 98
        sell A4 4 @ 105 stop 95             => accepted stop 95
        sell A5 4 @ 101 touch 103           => accepted touch 103
        waiting AAPL                        => buy A3 4 at 98, sell A4 4 at 95, buy A2 4 at 102, sell A5 4 at 103
        sell B2 1 @ 102                     => accepted, booked 1 @ 102
        buy B3 1 @ 102                      => accepted, trade B2 B3 1 @ 102, triggered A2 at 102, booked 4 @ 103
        sell C1 1 @ 103                     => accepted, trade A2 C1 1 @ 103, triggered A5 at 103, trade A2 A5 3 @ 103, booked 1 @ 101
        sell C2 1 @ 98                      => accepted, booked 1 @ 98
        buy C3 1 @ 98                       => accepted, trade C2 C3 1 @ 98, triggered A3 at 98, booked 4 @ 97
        order A3                            => buy 4 of 4 executed 0 canceled 0 firm ACME capacity O
        order A4                            => sell 4 of 4 executed 0 canceled 0 firm ACME capacity O stop 95 waiting
        ",
    );
}

/// Rule 20.3: an order whose trigger the last trade has met already comes in at once.
#[test]
fn trigger_that_is_met_already() {
    check(
        "
        sell A1 4 @ market stop 98          => accepted stop 98
        buy A2 9 @ 97                       => accepted, booked 9 @ 97
        sell B1 1 @ 97                      => accepted, trade A2 B1 1 @ 97, triggered A1 at 98, trade A2 A1 4 @ 97
        sell A3 2 @ market stop 97          => accepted stop 97, triggered A3 at 97, trade A2 A3 2 @ 97
        sell A4 2 @ market touch 90         => accepted touch 90, triggered A4 at 90, trade A2 A4 2 @ 97
        sell A5 2 @ 97 stop 96              => accepted stop 96
        replace A5 by A6 2 @ 98 stop 99     => replaced A5 by A6 sell 2 @ 98 stop 99, triggered A6 at 99, booked 2 @ 98
        ",
    );
}

/// Rule 20.4: the orders that one command triggers come in one after the other: those for a fall before those for a
/// rise, the nearest trigger first, then the first that was accepted; orders that these trigger come after them.
#[test]
fn triggered_orders_come_in_by_trigger_and_then_by_age() {
    check(
        "
        buy A1 1 @ 100                      => accepted, booked 1 @ 100
        sell B1 1 @ 100                     => accepted, trade A1 B1 1 @ 100
        sell A2 1 @ 91 stop 98              => accepted stop 98
        sell A3 1 @ 92 stop 99              => accepted stop 99
        sell A4 1 @ 93 stop 98              => accepted stop 98
        sell A5 1 @ market stop 95          => accepted stop 95
        buy A6 1 @ 97                       => accepted, booked 1 @ 97
        buy A7 2 @ 94                       => accepted, booked 2 @ 94
        sell B2 1 @ market                  => accepted, trade A6 B2 1 @ 97, triggered A3 at 99, trade A7 A3 1 @ 94, triggered A2 at 98, trade A7 A2 1 @ 94, triggered A4 at 98, booked 1 @ 93, triggered A5 at 95, canceled A5 1 ioc
        ",
    );
    check(
        "
        sell A1 1 @ 105 stop 101            => accepted stop 101
        buy A2 1 @ 95 stop 99               => accepted stop 99
        buy A3 1 @ 100                      => accepted, booked 1 @ 100
        sell B1 1 @ 100                     => accepted, trade A3 B1 1 @ 100, triggered A1 at 101, booked 1 @ 105, triggered A2 at 99, booked 1 @ 95
        ",
    );
}

/// Rule 20.5: the trigger of a trailing stop follows the market at its distance, and never goes back.
#[test]
fn trailing_stop_follows_the_market() {
    check(
        "
        buy A1 99 @ 100                     => accepted, booked 99 @ 100
        sell B1 1 @ 100                     => accepted, trade A1 B1 1 @ 100
        sell A2 5 @ market trail 3          => accepted trail 3
        sell A3 5 @ market stop 98 trail 3  => accepted stop 98 trail 3
        sell A4 5 @ market trail 4          => accepted trail 4
        waiting AAPL                        => sell A3 5 at 98, sell A2 5 at 97, sell A4 5 at 96
        sell B2 9 @ 101                     => accepted, booked 9 @ 101
        sell B3 9 @ 104                     => accepted, booked 9 @ 104
        buy C1 10 @ 104                     => accepted, trade B2 C1 9 @ 101, trade B3 C1 1 @ 104
        waiting AAPL                        => sell A2 5 at 101, sell A3 5 at 101, sell A4 5 at 100
        buy B4 1 @ 102                      => accepted, booked 1 @ 102
        sell B5 2 @ 101                     => accepted, trade B4 B5 1 @ 102, booked 1 @ 101
        waiting AAPL                        => sell A2 5 at 101, sell A3 5 at 101, sell A4 5 at 100
        buy C2 1 @ 101                      => accepted, trade B5 C2 1 @ 101, triggered A2 at 101, trade A1 A2 5 @ 100, triggered A3 at 101, trade A1 A3 5 @ 100, triggered A4 at 100, trade A1 A4 5 @ 100
        ",
    );
}

/// Rule 20.5: the trigger of a buy follows the market down; before the first trade there is none.
#[test]
fn trailing_stop_of_a_buy_follows_down() {
    check(
        "
        buy A1 5 @ market trail 3           => accepted trail 3
        sell A2 5 @ market stop 20 trail 3  => accepted stop 20 trail 3
        sell B1 9 @ 50                      => accepted, booked 9 @ 50
        buy B2 1 @ 50                       => accepted, trade B1 B2 1 @ 50
        waiting AAPL                        => sell A2 5 at 47, buy A1 5 at 53
        sell C1 1 @ 48                      => accepted, booked 1 @ 48
        buy C2 1 @ 48                       => accepted, trade C1 C2 1 @ 48
        buy A3 5 @ market stop 49 trail 3   => accepted stop 49 trail 3
        waiting AAPL                        => sell A2 5 at 47, buy A3 5 at 49, buy A1 5 at 51
        buy C3 1 @ 50                       => accepted, trade B1 C3 1 @ 50, triggered A3 at 49, trade B1 A3 5 @ 50
        cancel A2 to 1                      => canceled A2 4 leaving 1
        cancel A1                           => canceled A1 5
        ",
    );
}

/// Rule 20.6: the limit of a trailing stop keeps its distance to the trigger as entered.
#[test]
fn trailing_limit_keeps_its_distance() {
    check(
        "
        buy A1 9 @ 100                          => accepted, booked 9 @ 100
        sell B1 1 @ 100                         => accepted, trade A1 B1 1 @ 100
        sell A2 5 @ 93 stop 95 trail 5          => accepted stop 95 trail 5
        sell B2 1 @ 104                         => accepted, booked 1 @ 104
        buy B3 1 @ 104                          => accepted, trade B2 B3 1 @ 104
        cancel A1                               => canceled A1 8
        buy A3 9 @ 96                           => accepted, booked 9 @ 96
        sell B4 1 @ 96                          => accepted, trade A3 B4 1 @ 96, triggered A2 at 99 @ 97, booked 5 @ 97
        buy C1 5 @ 5 of MSFT stop 1000          => accepted stop 1000
        sell C2 1 @ 1000 of MSFT                => accepted, booked 1 @ 1000
        sell C3 5 @ 5 of MSFT stop 1000 trail 100 => accepted stop 1000 trail 100
        buy B5 1 @ 1000 of MSFT                 => accepted, trade C2 B5 1 @ 1000, triggered C3 at 1000, booked 5 @ 5, triggered C1 at 1000, trade C3 C1 5 @ 5
        ",
    );
}

/// Rule 20.7: an invalid trigger is rejected.
#[test]
fn impossible_triggers_are_rejected() {
    check(
        "
        sell A/1:1 5 @ 95 stop 0                    => rejected A/1:1 InvalidTrigger
        sell A1 5 @ 95 of MSFT stop 96              => rejected A1 InvalidTrigger
        sell A2 5 @ 95 stop 2000000000              => rejected A2 InvalidTrigger
        sell A3 5 @ market trail 0 stop 0           => rejected A3 InvalidTrigger
        sell A4 5 @ 95 trail 5                      => rejected A4 InvalidTrigger
        sell A5 5 @ market of MSFT trail 3          => rejected A5 InvalidTrigger
        buy A6 5 @ market stop 5 trail 5            => rejected A6 InvalidTrigger
        sell A7 5 @ market stop 5 trail 5           => accepted stop 5 trail 5
        replace A7 by A8 5 @ 95 trail 5             => canceled A7 5
        ",
    );
}

/// Rule 20.8: an order that waits is live: it is counted, canceled, reduced, modified, found by a mass cancel and
/// canceled on disconnect like one that rests, and it is not on the feed.
#[test]
fn waiting_orders_are_live() {
    check(
        "
        session D firm DELT max 1               => session 4 open
        short D1 5 @ market stop 95             => accepted stop 95
        sell D2 5 @ 99                          => rejected D2 TooManyOrders
        cancel D1 to 4                          => canceled D1 1 leaving 4
        modify D1 sell to 3                     => modified D1 sell 1 leaving 3
        order D1                                => sell 3 of 5 executed 0 canceled 2 firm DELT capacity O stop 95 waiting
        mass-cancel D3 DELT                     => mass-canceled, canceled D1 3
        sell D4 5 @ market trail 5              => accepted trail 5
        cut-off D                               => canceled D4 5 supervisory
        cancel D4
        ",
    );
}

/// Rule 20.9: a replacement waits as the replace says, or else as its original did, with a fresh
/// mark; without instructions it enters the book.
#[test]
fn waiting_orders_are_replaced() {
    check(
        "
        buy A1 9 @ 100                          => accepted, booked 9 @ 100
        sell B1 1 @ 100                         => accepted, trade A1 B1 1 @ 100
        sell A2 5 @ market stop 95              => accepted stop 95
        replace A2 by A3 6 @ 90                 => replaced A2 by A3 sell 6 @ 90 stop 95
        replace A3 by A4 6 @ 90 stop 96         => replaced A3 by A4 sell 6 @ 90 stop 96
        waiting AAPL                            => sell A4 6 at 96
        replace A4 by A5 3 @ market trail 2     => replaced A4 by A5 sell 3 @ market trail 2
        sell B2 1 @ 103                         => accepted, booked 1 @ 103
        buy B3 1 @ 103                          => accepted, trade B2 B3 1 @ 103
        waiting AAPL                            => sell A5 3 at 101
        sell B4 1 @ 102                         => accepted, booked 1 @ 102
        buy B5 1 @ 102                          => accepted, trade B4 B5 1 @ 102
        replace A5 by A6 3 @ market             => replaced A5 by A6 sell 3 @ market trail 2
        waiting AAPL                            => sell A6 3 at 100
        replace A6 by A7 3 @ 105 without-instructions        => replaced A6 by A7 sell 3 @ 105, booked 3 @ 105
        replace A7 by A8 3 @ 105 stop 90        => replaced A7 by A8 sell 3 @ 105 stop 90
        book AAPL                               => bid A1 8 @ 100
        ",
    );
}

/// Rule 20.10: its life, its conditions and its minimum act when it comes in.
#[test]
fn conditions_act_when_it_comes_in() {
    check(
        "
        sell A1 5 @ 99 ioc stop 100                 => accepted stop 100
        sell A2 5 @ 98 post-only stop 100           => accepted stop 100
        sell A3 5 @ 97 ioc minimum 3 stop 100       => accepted stop 100
        sell A4 2 @ market fok stop 100             => accepted stop 100
        sell A5 9 @ market-to-limit stop 100        => accepted stop 100
        sell A6 9 @ 95 hidden stop 100              => accepted stop 100
        buy B1 8 @ 99                               => accepted, booked 8 @ 99
        sell C1 1 @ market                          => accepted, trade B1 C1 1 @ 99, triggered A1 at 100, trade B1 A1 5 @ 99, triggered A2 at 100, canceled A2 5 post-only, triggered A3 at 100, canceled A3 5 ioc, triggered A4 at 100, trade B1 A4 2 @ 99
        time 0                                      => triggered A5 at 100, canceled A5 9 ioc, triggered A6 at 100, booked 9 @ 95 hidden
        ",
    );
}

/// Rule 20.11: a market order to buy that waits pays when it comes in, if its account can; other orders hold their cost
/// from the beginning.
#[test]
fn waiting_orders_are_paid_for() {
    check_paid(
        "
        sell B1 4 @ 110                     => accepted, reserve Q 4 SHR, booked 4 @ 110
        buy A1 3 @ market stop 95           => accepted stop 95
        buy A2 1 @ market stop 95           => accepted stop 95
        buy A3 1 @ 120 stop 130             => accepted stop 130, reserve P 120 USD
        sell B2 2 @ market stop 80          => accepted stop 80, reserve Q 2 SHR
        buy A4 7 @ 95                       => accepted, reserve P 665 USD, booked 7 @ 95
        balance P USD                       => 215 and 785
        sell B3 1 @ 95                      => accepted, reserve Q 1 SHR, trade A4 B3 1 @ 95, settle P Q 95 USD, settle Q P 1 SHR, triggered A1 at 95, canceled A1 3 unpaid, triggered A2 at 95, reserve P 110 USD, trade B1 A2 1 @ 110, settle P Q 110 USD, settle Q P 1 SHR
        cancel B2                           => canceled B2 2, release Q 2 SHR
        ",
    );
}

/// Joins the expected events of the orders of a range.
fn each(range: RangeInclusive<u32>, happens: impl Fn(u32) -> String) -> String {
    range.map(happens).collect::<Vec<_>>().join(", ")
}

/// Buy stops of A with these numbers, some of them trailing, which a trade at 101 triggers.
fn stops(range: RangeInclusive<u32>) -> String {
    range
        .map(|number| {
            let trail = if number > 7 { " trail 5" } else { "" };
            format!("buy A{number} 1 @ 90 stop 101{trail} => accepted stop 101{trail}\n")
        })
        .collect()
}

const TRADE: &str = "sell B1 9 @ 101 => accepted, booked 9 @ 101
    buy C1 1 @ 101 ioc => accepted, trade B1 C1 1 @ 101";

/// Rule 20.12: 4 triggered orders act at once, and 4 before each later input; until its turn an order is live, and
/// until all have acted no command lets other orders act. The engine requests that input.
#[test]
fn four_triggered_orders_act_at_once() {
    let mut world = World::in_open_market();
    let acts = |number| format!("triggered A{number} at 101, booked 1 @ 90");
    let [first, second, third] = [1..=4, 5..=8, 10..=12].map(|range| each(range, acts));
    world.play(&stops(1..=12));
    world.play(&format!("{TRADE}, {first}"));
    let last = world.engine().timestamp();
    assert_eq!(world.engine().due(), Some(Timestamp(last.0 + 1)), "8 are in line");
    assert_eq!(world.engine().counters().orders_live, 13);
    world.play(&format!(
        "
        buy A41 1 @ 80 stop 100     => {second}, accepted stop 100, triggered A41 at 100, booked 1 @ 80
        "
    ));
    world.play(&format!("time 0 => {}", each(9..=12, acts)));
    assert_eq!(world.engine().due(), None, "none is in line");

    let mut world = World::in_open_market();
    world.play(&stops(1..=12));
    world.play(&format!("{TRADE}, {first}"));
    world.play(&format!(
        "
        cancel A9                              => {second}, canceled A9 1
        time 0                                  => {third}
        ",
    ));
    assert_eq!(world.engine().due(), None, "none is in line");
}

/// Rule 20.12: a triggered order whose instrument takes no orders at its turn is canceled.
#[test]
fn triggered_orders_are_canceled_in_a_halt() {
    let mut world = World::in_open_market();
    let acts = |number| format!("triggered A{number} at 101, booked 1 @ 90");
    let [first, second] = [1..=4, 5..=8].map(|range| each(range, acts));
    world.play(&stops(1..=12));
    world.play(&format!("{TRADE}, {first}"));
    world.play(&format!("phase AAPL halted => {second}, phase AAPL halted"));
    let canceled = each(9..=12, |number| format!("canceled A{number} 1 ioc"));
    world.play(&format!("time 0 => {canceled}"));
}
