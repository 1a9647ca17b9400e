//! Rules 40 to 43, 46: accounts, balances, reservations, the two classes, and fees.

use engine::{Section, TRADES_KEPT};

use crate::{
    scenario::{World, check},
    trades_in_steps::in_steps,
};

/// A market where A and B pay USD for AAPL, in shares, from the accounts P and Q.
pub const PAID: &str = "
    asset SHR 0                     => asset 1
    asset USD 2                     => asset 2
    account P                       => account 1
    account Q                       => account 2
    assign A P                      => A is of P
    assign B Q                      => B is of Q
    terms AAPL cash SHR USD         => terms of AAPL
    deposit P 1000 USD              => deposit P 1000 USD
    deposit Q 10 SHR                => deposit Q 10 SHR
";

#[track_caller]
pub fn check_paid(scenario: &str) {
    check(&format!("{PAID}{scenario}"));
}

/// Rule 40.1: assets and accounts have unique names and separate numbers.
#[test]
fn names_are_unique() {
    check(
        "
        asset USD 2         => asset 1
        asset USD 3         => declined InvalidName
        asset - 2           => declined InvalidName
        asset EUR 2         => asset 2
        account P           => account 1
        account P           => declined InvalidName
        account -           => declined InvalidName
        account Q           => account 2
        ",
    );
}

/// Rule 40.2: the orders of a session are an account's from the moment it is assigned, which is declined while it has
/// live orders, and for unknown sessions and accounts.
#[test]
fn sessions_are_assigned_while_they_have_no_orders() {
    check_paid(
        "
        assign A R                      => declined UnknownAccount
        assign Z P                      => declined UnknownSession
        buy A1 4 @ 100                  => accepted, reserve P 400 USD, booked 4 @ 100
        assign A Q                      => declined OrdersLive
        cancel A1                       => canceled A1 4, release P 400 USD
        assign A -                      => A is of -
        buy A2 1 @ 100                  => rejected A2 NoAccount
        buy C1 1 @ 100                  => rejected C1 NoAccount
        buy C2 1 @ 100 of MSFT          => accepted, booked 1 @ 100
        ",
    );
}

/// Rule 40.3: an instrument without terms is not paid for; terms are set while nothing rests in it,
/// and must name two assets and no zero.
#[test]
fn terms_say_what_is_paid_for() {
    check_paid(
        "
        buy C1 1 @ 100 of MSFT              => accepted, booked 1 @ 100
        terms MSFT cash SHR USD             => declined OrdersLive
        cancel C1                           => canceled C1 1
        terms MSFT cash SHR SHR             => declined InvalidTerms
        terms MSFT cash SHR USD units 0     => declined InvalidTerms
        terms MSFT cash SHR USD pay 0 / 1   => declined InvalidTerms
        terms MSFT cash SHR USD pay 1 / 0   => declined InvalidTerms
        terms MSFT cash SHR EUR             => declined UnknownAsset
        terms NONE cash SHR USD             => declined UnknownInstrument
        terms MSFT none units 1             => declined InvalidTerms
        terms MSFT cash SHR USD             => terms of MSFT
        buy A1 1 @ 100 of MSFT              => accepted, reserve P 100 USD, booked 1 @ 100
        cancel A1                           => canceled A1 1, release P 100 USD
        terms MSFT none                     => terms of MSFT
        buy C2 1 @ 100 of MSFT              => accepted, booked 1 @ 100
        ",
    );
}

/// Rule 40.4: terms set the largest quantity, up to 2⁴⁸ − 1 lots.
#[test]
fn terms_say_the_largest_quantity() {
    check_paid(
        "
        buy A1 1000000 @ 1                          => rejected A1 InvalidQuantity
        terms AAPL cash SHR USD max 0               => declined InvalidTerms
        terms AAPL cash SHR USD max 281474976710656 => declined InvalidTerms
        terms AAPL cash SHR USD max 281474976710655 => terms of AAPL
        deposit P 281474976709655 USD               => deposit P 281474976709655 USD
        buy A2 281474976710655 @ 1                  => accepted, reserve P 281474976710655 USD, booked 281474976710655 @ 1
        sell B1 10 @ 1                              => accepted, reserve Q 10 SHR, trade A2 B1 10 @ 1, settle P Q 10 USD, settle Q P 10 SHR
        modify A2 buy to 4                          => modified A2 buy 281474976710645 leaving 0, release P 281474976710645 USD
        terms AAPL cash SHR USD max 2               => terms of AAPL
        buy A3 3 @ 1                                => rejected A3 InvalidQuantity
        terms AAPL none max 1000000                 => terms of AAPL
        buy A4 1000000 @ 1                          => accepted, booked 1000000 @ 1
        ",
    );
}

/// Rule 40.5: the payment is rounded down, for each trade separately, and the reservation of an order is rounded down
/// for all its open lots, so the remainder is released and nothing is stranded.
#[test]
fn amounts_are_rounded_down_and_nothing_is_stranded() {
    check_paid(
        "
        terms AAPL cash SHR USD units 3 pay 2 / 7   => terms of AAPL
        deposit Q 20 SHR                            => deposit Q 20 SHR
        buy A1 10 @ 9                               => accepted, reserve P 25 USD, booked 10 @ 9
        sell B1 1 @ 9   => accepted, reserve Q 3 SHR, trade A1 B1 1 @ 9, settle P Q 2 USD, settle Q P 3 SHR
        balance P USD                               => 975 and 23
        sell B2 1 @ 9   => accepted, reserve Q 3 SHR, trade A1 B2 1 @ 9, settle P Q 2 USD, release P 1 USD, settle Q P 3 SHR
        sell B3 1 @ 9   => accepted, reserve Q 3 SHR, trade A1 B3 1 @ 9, settle P Q 2 USD, settle Q P 3 SHR
        cancel A1 to 4                              => canceled A1 6 leaving 1, release P 16 USD
        balance P USD                               => 992 and 2
        cancel A1                                   => canceled A1 1, release P 2 USD
        balance P USD                               => 994 and 0
        buy A2 1 @ 3                                => accepted, booked 1 @ 3
        sell B4 1 @ 3   => accepted, reserve Q 3 SHR, trade A2 B4 1 @ 3, settle Q P 3 SHR
        ",
    );
}

/// Rules 41.1, 40.6: deposits, withdrawals and transfers; an impossible one is declined and changes nothing.
#[test]
fn amounts_come_and_go() {
    check_paid(
        "
        deposit P 0 USD                     => declined InvalidAmount
        deposit P 1 EUR                     => declined UnknownAsset
        deposit R 1 USD                     => declined UnknownAccount
        withdraw P 0 USD                    => declined InvalidAmount
        withdraw P 1001 USD                 => declined InsufficientBalance
        withdraw P 1 EUR                    => declined UnknownAsset
        withdraw R 1 USD                    => declined UnknownAccount
        buy A1 4 @ 100                      => accepted, reserve P 400 USD, booked 4 @ 100
        withdraw P 601 USD                  => declined InsufficientBalance
        transfer P Q 601 USD                => declined InsufficientBalance
        transfer P Q 0 USD                  => declined InvalidAmount
        transfer P P 1 USD                  => declined InvalidAmount
        transfer P R 1 USD                  => declined UnknownAccount
        transfer R P 1 USD                  => declined UnknownAccount
        transfer P Q 500 USD                => transfer P Q 500 USD
        withdraw P 100 USD                  => withdrawal P 100 USD
        balance P USD                       => 0 and 400
        balance Q USD                       => 500 and 0
        ",
    );
}

/// Rules 41.2, 41.3: there are never more than 2¹²⁰ units of an asset. Each movement is an event
/// with both ends, and versions without gaps; the ledger gives all balances after each line of each
/// scenario.
#[test]
fn assets_have_a_bound() {
    check_paid(
        "
        deposit P 1329227995784915872903807060280343577 USD     => declined TooMuch
        deposit P 1329227995784915872903807060280343576 USD     => deposit P 1329227995784915872903807060280343576 USD
        deposit Q 1 USD                                         => declined TooMuch
        deposit Q 340282366920938463463374607431768211455 USD   => declined TooMuch
        withdraw P 1 USD                                        => withdrawal P 1 USD
        deposit Q 1 USD                                         => deposit Q 1 USD
        ",
    );
}

/// Rule 42.1: an order to buy holds its possible cost, one to sell its possible delivery; an order beyond the available
/// balance is rejected, and nothing moves.
#[test]
fn orders_hold_what_they_could_cost() {
    check_paid(
        "
        buy A1 4 @ 100          => accepted, reserve P 400 USD, booked 4 @ 100
        buy A2 7 @ 100          => rejected A2 InsufficientBalance
        buy A3 6 @ 100          => accepted, reserve P 600 USD, booked 6 @ 100
        buy A4 1 @ 1            => rejected A4 InsufficientBalance
        sell B1 11 @ 101        => rejected B1 InsufficientBalance
        sell B2 10 @ 101        => accepted, reserve Q 10 SHR, booked 10 @ 101
        sell B3 1 @ 101         => rejected B3 InsufficientBalance
        sell A5 1 @ 101         => rejected A5 InsufficientBalance
        balance P USD           => 0 and 1000
        balance Q SHR           => 0 and 10
        ",
    );
}

/// Rule 42.1: no product is too large to be counted.
#[test]
fn largest_products_are_counted() {
    check_paid(
        "
        terms AAPL cash SHR USD units 18446744073709551615 pay 18446744073709551615 / 1 max 268435455  => terms of AAPL
        buy A1 268435455 @ 1999999900       => rejected A1 InsufficientBalance
        sell B1 268435455 @ 1999999900      => rejected B1 InsufficientBalance
        buy A2 1 @ market                   => accepted, canceled A2 1 ioc
        terms AAPL cash SHR USD units 17592186044416 pay 17592186044416 / 1 max 281474976710655     => terms of AAPL
        buy A3 281474976710655 @ 1999999900     => rejected A3 InsufficientBalance
        sell B2 281474976710655 @ 1999999900    => rejected B2 InsufficientBalance
        terms AAPL cash SHR USD units 17592186044417 pay 1 / 1 max 281474976710655      => declined InvalidTerms
        terms AAPL cash SHR USD units 1 pay 17592186044417 / 1 max 281474976710655      => declined InvalidTerms
        terms AAPL cash SHR USD units 1 pay 18446744073709551615 / 1 max 268435457      => declined InvalidTerms
        ",
    );
}

/// Rule 42.2: every event that leaves an order fewer open lots releases their reservation, at once.
#[test]
fn what_is_not_needed_is_released() {
    check_paid(
        "
        buy A1 4 @ 100          => accepted, reserve P 400 USD, booked 4 @ 100
        cancel A1 to 3          => canceled A1 1 leaving 3, release P 100 USD
        modify A1 buy to 2      => modified A1 buy 1 leaving 2, release P 100 USD
        cancel A1               => canceled A1 2, release P 200 USD
        buy A2 5 @ 100          => accepted, reserve P 500 USD, booked 5 @ 100
        buy A3 5 @ 90           => accepted, reserve P 450 USD, booked 5 @ 90
        mass-cancel A4 ACME     => mass-canceled, canceled A2 5, release P 500 USD, canceled A3 5, release P 450 USD
        buy A5 5 @ 100          => accepted, reserve P 500 USD, booked 5 @ 100
        cut-off A               => canceled A5 5 supervisory, release P 500 USD
        sell B1 4 @ 100         => accepted, reserve Q 4 SHR, booked 4 @ 100
        buy A6 5 @ 100 ioc      => accepted, reserve P 500 USD, trade B1 A6 4 @ 100, settle P Q 400 USD, settle Q P 4 SHR, canceled A6 1 ioc, release P 100 USD
        sell B2 2 @ 100         => accepted, reserve Q 2 SHR, booked 2 @ 100
        buy A7 1 @ 100 post-only            => accepted, reserve P 100 USD, canceled A7 1 post-only, release P 100 USD
        buy A8 3 @ 100 ioc minimum 3        => accepted, reserve P 300 USD, canceled A8 3 ioc, release P 300 USD
        sell A9 3 @ 101                     => accepted, reserve P 3 SHR, booked 3 @ 101
        buy A10 4 @ 101 prevent D   => accepted, reserve P 404 USD, trade B2 A10 2 @ 100, settle P Q 200 USD, release P 2 USD, settle Q P 2 SHR, prevented A9 2 @ 101 D leaving 1, release P 2 SHR, prevented A10 2 @ 101 D, release P 202 USD
        balance P USD           => 400 and 0
        balance P SHR           => 5 and 1
        ",
    );
}

/// Rule 42.3: a trade moves its cost and its delivery, and the excess of the buyer's limit over the price is released.
#[test]
fn trades_are_settled() {
    check_paid(
        "
        sell B1 4 @ 90      => accepted, reserve Q 4 SHR, booked 4 @ 90
        sell B2 4 @ 95      => accepted, reserve Q 4 SHR, booked 4 @ 95
        buy A1 6 @ 100      => accepted, reserve P 600 USD, trade B1 A1 4 @ 90, settle P Q 360 USD, release P 40 USD, settle Q P 4 SHR, trade B2 A1 2 @ 95, settle P Q 190 USD, release P 10 USD, settle Q P 2 SHR
        balance P USD       => 450 and 0
        balance P SHR       => 6 and 0
        balance Q USD       => 550 and 0
        balance Q SHR       => 2 and 2
        sell A2 1 @ 100     => accepted, reserve P 1 SHR, booked 1 @ 100
        buy A3 1 @ 100 ioc  => accepted, reserve P 100 USD, trade B2 A3 1 @ 95, settle P Q 95 USD, release P 5 USD, settle Q P 1 SHR
        buy B3 1 @ 100      => accepted, reserve Q 100 USD, trade B2 B3 1 @ 95, settle Q Q 95 USD, release Q 5 USD, settle Q Q 1 SHR
        ",
    );
}

/// Rule 14.7: a post-only order that slides holds its cost at its new price, and one that waits until it can trade
/// enough holds its cost at its limit.
#[test]
fn orders_that_slide_or_wait_hold_what_they_need() {
    check_paid(
        "
        sell B1 4 @ 91                      => accepted, reserve Q 4 SHR, booked 4 @ 91
        buy A1 5 @ 100 post-only slide      => accepted slide, reserve P 500 USD, repriced A1 @ 90, release P 50 USD, booked 5 @ 90
        sell B2 2 @ 85 post-only slide      => accepted slide, reserve Q 2 SHR, repriced B2 @ 91, booked 2 @ 91
        buy A2 5 @ 92 all-or-none           => accepted all-or-none, reserve P 460 USD, trade B1 A2 4 @ 91, settle P Q 364 USD, release P 4 USD, settle Q P 4 SHR, trade B2 A2 1 @ 91, settle P Q 91 USD, release P 1 USD, settle Q P 1 SHR
        sell B3 4 @ 95 minimum 2            => accepted, reserve Q 4 SHR
        cancel B3                           => canceled B3 4, release Q 4 SHR
        ",
    );
}

/// Rule 42.4: an order without a limit holds its future payment, which a walk over the book finds before; a
/// market-to-limit order also holds the cost of its resting part.
#[test]
fn market_orders_hold_what_they_will_pay() {
    check_paid(
        "
        sell B1 4 @ 90              => accepted, reserve Q 4 SHR, booked 4 @ 90
        sell B2 6 @ 200             => accepted, reserve Q 6 SHR, booked 6 @ 200
        buy A1 8 @ market           => rejected A1 InsufficientBalance
        buy A2 5 @ market           => accepted, reserve P 560 USD, trade B1 A2 4 @ 90, settle P Q 360 USD, settle Q P 4 SHR, trade B2 A2 1 @ 200, settle P Q 200 USD, settle Q P 1 SHR
        balance P USD               => 440 and 0
        cancel B2 to 2              => canceled B2 4 leaving 1, release Q 4 SHR
        buy A3 3 @ market-to-limit  => rejected A3 InsufficientBalance
        buy A4 2 @ market-to-limit  => accepted, reserve P 400 USD, trade B2 A4 1 @ 200, settle P Q 200 USD, settle Q P 1 SHR, booked 1 @ 200
        balance P USD               => 40 and 200
        sell B3 3 @ market          => accepted, reserve Q 3 SHR, trade A4 B3 1 @ 200, settle P Q 200 USD, settle Q P 1 SHR, canceled B3 2 ioc, release Q 2 SHR
        buy A5 2 @ market           => accepted, canceled A5 2 ioc
        buy A6 2 @ market-to-limit  => accepted, canceled A6 2 ioc
        sell B4 1 @ 3               => accepted, reserve Q 1 SHR, booked 1 @ 3
        buy A7 99 @ market-to-limit ioc     => accepted, reserve P 3 USD, trade B4 A7 1 @ 3, settle P Q 3 USD, settle Q P 1 SHR, canceled A7 98 ioc
        sell B5 2 @ 10              => accepted, reserve Q 2 SHR, booked 2 @ 10
        sell A8 5 @ 20              => accepted, reserve P 5 SHR, booked 5 @ 20
        buy A9 3 @ market prevent W => accepted, reserve P 20 USD, trade B5 A9 2 @ 10, settle P Q 20 USD, settle Q P 2 SHR, prevented A9 1 @ 20 W
        ",
    );
}

/// Rule 42.4: an order without a limit counts the first 256 orders of the other side; one that would
/// trade with more is rejected.
#[test]
fn market_orders_count_so_many_orders() {
    let sell =
        |number| format!("sell B{number} 1 @ 1 => accepted, reserve Q 1 SHR, booked 1 @ 1\n");
    let sells: String = (1..=257).map(sell).collect();
    let trade = |number| format!("trade B{number} A2 1 @ 1, settle P Q 1 USD, settle Q P 1 SHR");
    let trades: Vec<_> = (1..=256).map(trade).collect();
    let steps = in_steps("buy A2 256 @ market", "accepted, reserve P 256 USD", &trades);
    check_paid(&format!(
        "
        live-orders B 2000          => live-orders B 2000
        deposit P 9000 USD          => deposit P 9000 USD
        deposit Q 9000 SHR          => deposit Q 9000 SHR
        {sells}
        buy A1 257 @ market         => rejected A1 InsufficientBalance
        {steps}
        buy A3 9 @ market           => accepted, reserve P 1 USD, trade B257 A3 1 @ 1, settle P Q 1 USD, settle Q P 1 SHR, canceled A3 8 ioc
        "
    ));
}

/// Rule 42.5: a replacement holds its own reservation instead of that of its original; if the account has too little,
/// it is rejected and the original stays.
#[test]
fn replacements_take_over_what_was_held() {
    check_paid(
        "
        buy A1 9 @ 100                      => accepted, reserve P 900 USD, booked 9 @ 100
        replace A1 by A2 11 @ 100           => rejected A2 InsufficientBalance
        replace A1 by A3 10 @ 100           => replaced A1 by A3 buy 10 @ 100 in place, release P 900 USD, reserve P 1000 USD
        sell B1 4 @ 120                     => accepted, reserve Q 4 SHR, booked 4 @ 120
        replace B1 by B2 11 @ 120           => rejected B2 InsufficientBalance
        replace B1 by B3 10 @ 100           => replaced B1 by B3 sell 10 @ 100, release Q 4 SHR, reserve Q 10 SHR, trade A3 B3 10 @ 100, settle P Q 1000 USD, settle Q P 10 SHR
        sell A4 4 @ 200                     => accepted, reserve P 4 SHR, booked 4 @ 200
        buy B4 1 @ 50                       => accepted, reserve Q 50 USD, booked 1 @ 50
        replace B4 by B5 5 @ market         => replaced B4 by B5 buy 5 @ market, release Q 50 USD, reserve Q 800 USD, trade A4 B5 4 @ 200, settle Q P 800 USD, settle P Q 4 SHR, canceled B5 1 ioc
        balance Q USD                       => 200 and 0
        ",
    );
}

/// Rule 42.6: in an auction the cost of a trade is counted at the price of the auction.
#[test]
fn auctions_settle_at_their_price() {
    check_paid(
        "
        phase AAPL pre-open         => phase AAPL pre-open
        buy A1 4 @ 100              => accepted, reserve P 400 USD, booked 4 @ 100
        sell B1 3 @ 90              => accepted, reserve Q 3 SHR, booked 3 @ 90
        sell B2 2 @ market          => accepted, reserve Q 2 SHR, booked 2 for auction
        buy A2 1 @ market           => rejected A2 NotInPhase
        phase AAPL halted           => phase AAPL halted
        phase AAPL continuous       => trade A1 B2 2 @ 90, settle P Q 180 USD, release P 20 USD, settle Q P 2 SHR, trade A1 B1 2 @ 90, settle P Q 180 USD, release P 20 USD, settle Q P 2 SHR, auction AAPL 4 @ 90, phase AAPL continuous
        balance P USD               => 640 and 0
        ",
    );
}

/// Rule 42.7: a trade that was paid for is undone or corrected like any other, once.
#[test]
fn paid_trades_are_undone_once() {
    check_paid(
        "
        sell B1 3 @ 100             => accepted, reserve Q 3 SHR, booked 3 @ 100
        buy A1 1 @ 100              => accepted, reserve P 100 USD, trade B1 A1 1 @ 100, settle P Q 100 USD, settle Q P 1 SHR
        bust 2 E                    => declined UnknownTrade
        correct 1 9 @ 90 E          => declined InvalidValue
        bust 1 E                    => busted 1: B1 A1 1 @ 100, undo Q P 100 USD, undo P Q 1 SHR
        bust 1 E                    => declined UnknownTrade
        balance P USD               => 1000 and 0
        balance P SHR               => 0 and 0
        balance Q USD               => 0 and 0
        balance Q SHR               => 8 and 2
        ",
    );
}

/// Rule 42.8: undoing a trade returns the amounts that it moved and nothing else: the buyer's improvement stays
/// released, fees and rebates go back, and each has one amount of each asset to give or to get.
#[test]
fn undoing_gives_back_what_a_trade_moved() {
    // No tier's rebate may be above another one's fee.
    let fees = (0..16).map(|tier| format!("fees {tier} 0 200000 => fees of {tier}\n"));
    check_paid(&format!(
        "{}{}",
        fees.collect::<String>(),
        "
        fees 0 -100000 200000       => fees of 0
        deposit P 90 SHR            => deposit P 90 SHR
        sell A1 10 @ 10             => accepted, reserve P 10 SHR, booked 10 @ 10
        deposit Q 120 USD           => deposit Q 120 USD
        buy B1 10 @ 12              => accepted, reserve Q 120 USD, trade A1 B1 10 @ 10, settle Q P 100 USD, release Q 20 USD, settle P Q 10 SHR, fee Q 2 SHR, rebate P 1 SHR
        bust 1 S                    => busted 1: A1 B1 10 @ 10, undo P Q 100 USD, undo Q P 8 SHR, undo - P 1 SHR
        balance P USD               => 1000 and 0
        balance P SHR               => 90 and 0
        balance Q USD               => 120 and 0
        balance Q SHR               => 10 and 0
        balance - USD               => 0 and 0
        balance - SHR               => 0 and 0
        fees 0 100000 200000        => fees of 0
        buy B2 10 @ 10              => accepted, reserve Q 100 USD, booked 10 @ 10
        sell A2 10 @ 10             => accepted, reserve P 10 SHR, trade B2 A2 10 @ 10, settle Q P 100 USD, settle P Q 10 SHR, fee P 20 USD, fee Q 1 SHR
        bust 2 S                    => busted 2: B2 A2 10 @ 10, undo P Q 80 USD, undo - Q 20 USD, undo Q P 9 SHR, undo - P 1 SHR
        balance P USD               => 1000 and 0
        balance Q USD               => 120 and 0
        ",
    ));
}

/// Rule 42.8: amounts that moved from an account to itself are not returned; its charges are.
#[test]
fn undoing_within_one_account_gives_back_fees() {
    check_paid(
        "
        fees 0 100000 200000        => fees of 0
        assign B P                  => B is of P
        deposit P 10 SHR            => deposit P 10 SHR
        sell A1 10 @ 10             => accepted, reserve P 10 SHR, booked 10 @ 10
        buy B1 10 @ 10              => accepted, reserve P 100 USD, trade A1 B1 10 @ 10, settle P P 100 USD, settle P P 10 SHR, fee P 2 SHR, fee P 10 USD
        bust 1 S                    => busted 1: A1 B1 10 @ 10, undo - P 10 USD, undo - P 2 SHR
        balance P USD               => 1000 and 0
        balance P SHR               => 10 and 0
        ",
    );
}

/// Rule 42.8: trades in an auction, and those of an order without a limit, are undone in the same way.
#[test]
fn trades_of_auctions_and_market_orders_are_undone() {
    check_paid(
        "
        terms AAPL cash SHR USD pay 2 / 3    => terms of AAPL
        phase AAPL pre-open         => phase AAPL pre-open
        buy A1 4 @ 100              => accepted, reserve P 266 USD, booked 4 @ 100
        sell B1 3 @ 90              => accepted, reserve Q 3 SHR, booked 3 @ 90
        phase AAPL halted           => phase AAPL halted
        phase AAPL continuous       => trade A1 B1 3 @ 100, settle P Q 200 USD, settle Q P 3 SHR, auction AAPL 3 @ 100, phase AAPL continuous
        sell B2 1 @ 101             => accepted, reserve Q 1 SHR, booked 1 @ 101
        buy A2 1 @ market           => accepted, reserve P 67 USD, trade B2 A2 1 @ 101, settle P Q 67 USD, settle Q P 1 SHR
        bust 1 S                    => busted 1: A1 B1 3 @ 100, undo Q P 200 USD, undo P Q 3 SHR
        bust 3 S                    => busted 3: B2 A2 1 @ 101, undo Q P 67 USD, undo P Q 1 SHR
        balance P USD               => 934 and 66
        balance Q SHR               => 10 and 0
        ",
    );
}

/// Rule 42.9: a trade is not undone while an account, or the venue of its revenue, has too little available of the
/// asset that it would return. Then nothing moves and nothing is undone.
#[test]
fn a_bust_needs_the_money_to_be_there() {
    check_paid(
        "
        fees 0 0 100000             => fees of 0
        sell B1 10 @ 10             => accepted, reserve Q 10 SHR, booked 10 @ 10
        buy A1 10 @ 10              => accepted, reserve P 100 USD, trade B1 A1 10 @ 10, settle P Q 100 USD, settle Q P 10 SHR, fee P 1 SHR
        withdraw Q 1 USD            => withdrawal Q 1 USD
        bust 1 E                    => declined InsufficientBalance
        deposit Q 1 USD             => deposit Q 1 USD
        sell A2 1 @ 50              => accepted, reserve P 1 SHR, booked 1 @ 50
        bust 1 E                    => declined InsufficientBalance
        cancel A2                   => canceled A2 1, release P 1 SHR
        transfer - P 1 SHR          => transfer - P 1 SHR
        bust 1 E                    => declined InsufficientBalance
        transfer P - 1 SHR          => transfer P - 1 SHR
        bust 1 E                    => busted 1: B1 A1 10 @ 10, undo Q P 100 USD, undo P Q 9 SHR, undo - Q 1 SHR
        ",
    );
}

/// Rule 42.9: in the class position the base balance may be as far below 0 as the account may be short, the quote
/// balance may not; a party that receives may have less than that.
#[test]
fn undoing_may_leave_a_position_short() {
    check_paid(
        "
        terms AAPL position SHR USD => terms of AAPL
        sell B1 10 @ 10             => accepted, reserve Q 10 SHR, booked 10 @ 10
        buy A1 10 @ 10              => accepted, reserve P 100 USD, trade B1 A1 10 @ 10, settle P Q 100 USD, settle Q P 10 SHR
        withdraw P 4 SHR            => withdrawal P 4 SHR
        bust 1 E                    => declined InsufficientBalance
        set P ShortMax 3 SHR        => set ShortMax to 3
        bust 1 E                    => declined InsufficientBalance
        set P ShortMax 4 SHR        => set ShortMax to 4
        withdraw Q 1 USD            => withdrawal Q 1 USD
        set Q ShortMax 9 USD        => set ShortMax to 9
        bust 1 E                    => declined InsufficientBalance
        deposit Q 1 USD             => deposit Q 1 USD
        bust 1 E                    => busted 1: B1 A1 10 @ 10, undo Q P 100 USD, undo P Q 10 SHR
        balance P SHR               => -4 and 0
        set Q ShortMax 20 SHR       => set ShortMax to 20
        short B2 20 @ 10            => accepted, reserve Q 20 SHR, booked 20 @ 10
        buy A2 20 @ 10              => accepted, reserve P 200 USD, trade B2 A2 20 @ 10, settle P Q 200 USD, settle Q P 20 SHR
        set Q ShortMax 0 SHR        => set ShortMax to 0
        deposit P 4 SHR             => deposit P 4 SHR
        correct 2 11 @ 10 E         => corrected 2 to 3: B2 A2 11 @ 10, correct Q P 90 USD, correct P Q 9 SHR
        balance Q SHR               => -1 and 0
        ",
    );
}

/// Rule 42.10: a correction moves the difference between the amounts of the trade and those of the corrected one, and
/// needs no more than that; it may be corrected or undone in turn.
#[test]
fn correcting_moves_the_difference() {
    check_paid(
        "
        fees 0 100000 200000        => fees of 0
        sell B1 10 @ 10             => accepted, reserve Q 10 SHR, booked 10 @ 10
        buy A1 10 @ 10              => accepted, reserve P 100 USD, trade B1 A1 10 @ 10, settle P Q 100 USD, settle Q P 10 SHR, fee P 2 SHR, fee Q 10 USD
        withdraw P 899 USD          => withdrawal P 899 USD
        withdraw P 8 SHR            => withdrawal P 8 SHR
        correct 1 10 @ 11 C         => declined InsufficientBalance
        correct 1 9 @ 10 C          => declined InsufficientBalance
        deposit P 9 USD             => deposit P 9 USD
        correct 1 10 @ 11 C         => corrected 1 to 2: B1 A1 10 @ 11, correct P Q 9 USD, correct P - 1 USD
        balance P USD               => 0 and 0
        balance Q USD               => 99 and 0
        balance - USD               => 11 and 0
        deposit P 5 SHR             => deposit P 5 SHR
        correct 2 5 @ 4 C           => corrected 2 to 3: B1 A1 5 @ 4, correct Q P 81 USD, correct - P 9 USD, correct P Q 4 SHR, correct - Q 1 SHR
        balance P USD               => 90 and 0
        balance Q USD               => 18 and 0
        balance - USD               => 2 and 0
        balance P SHR               => 1 and 0
        balance Q SHR               => 5 and 0
        balance - SHR               => 1 and 0
        bust 2 C                    => declined UnknownTrade
        deposit P 3 SHR             => deposit P 3 SHR
        bust 3 C                    => busted 3: B1 A1 5 @ 4, undo Q P 18 USD, undo - P 2 USD, undo P Q 4 SHR, undo - Q 1 SHR
        balance P USD               => 110 and 0
        balance Q USD               => 0 and 0
        balance Q SHR               => 10 and 0
        ",
    );
}

/// Rule 42.11: a trade is undone by the settings with which it was settled, whatever was changed since; it can no
/// longer be corrected.
#[test]
fn trades_are_undone_by_what_held_when_they_were_made() {
    check_paid(
        "
        account R                   => account 3
        fees 0 0 100000             => fees of 0
        fees 1 0 200000             => fees of 1
        sell B1 5 @ 10              => accepted, reserve Q 5 SHR, booked 5 @ 10
        buy A1 5 @ 10               => accepted, reserve P 50 USD, trade B1 A1 5 @ 10, settle P Q 50 USD, settle Q P 5 SHR, fee P 1 SHR
        sell B2 5 @ 10              => accepted, reserve Q 5 SHR, booked 5 @ 10
        buy A2 5 @ 10               => accepted, reserve P 50 USD, trade B2 A2 5 @ 10, settle P Q 50 USD, settle Q P 5 SHR, fee P 1 SHR
        terms AAPL cash SHR USD max 7   => terms of AAPL
        fees 2 0 300000             => fees of 2
        correct 1 4 @ 10 C          => corrected 1 to 3: B1 A1 4 @ 10, correct Q P 10 USD, correct P Q 1 SHR
        set P FeeTier 1             => set FeeTier to 1
        correct 3 3 @ 10 C          => declined TermsChanged
        fees 0 0 0                  => fees of 0
        set P FeeTier 0             => set FeeTier to 0
        correct 3 3 @ 10 C          => declined TermsChanged
        fees 0 0 100000             => fees of 0
        correct 3 3 @ 10 C          => corrected 3 to 4: B1 A1 3 @ 10, correct Q P 10 USD, correct P Q 1 SHR
        fees 0 0 500000             => fees of 0
        assign A R                  => A is of R
        assign B -                  => B is of -
        terms AAPL cash SHR USD units 2 pay 3 / 1   => terms of AAPL
        correct 4 2 @ 10 C          => declined TermsChanged
        bust 4 C                    => busted 4: B1 A1 3 @ 10, undo Q P 30 USD, undo P Q 2 SHR, undo - Q 1 SHR
        terms AAPL none             => terms of AAPL
        correct 2 2 @ 10 C          => declined TermsChanged
        bust 2 C                    => busted 2: B2 A2 5 @ 10, undo Q P 50 USD, undo P Q 4 SHR, undo - Q 1 SHR
        balance P USD               => 1000 and 0
        balance Q SHR               => 10 and 0
        balance - SHR               => 0 and 0
        ",
    );
}

/// Rule 42.11: a trade that moved nothing moves nothing when it is undone, even if its instrument is
/// paid for by now.
#[test]
fn unpaid_trades_move_nothing_back() {
    check_paid(
        "
        buy A1 1 @ 100 of MSFT          => accepted, booked 1 @ 100
        sell B1 1 @ 100 of MSFT         => accepted, trade A1 B1 1 @ 100
        buy A2 2 @ 100 of MSFT          => accepted, booked 2 @ 100
        sell B2 2 @ 100 of MSFT         => accepted, trade A2 B2 2 @ 100
        terms MSFT cash SHR USD         => terms of MSFT
        correct 2 1 @ 100 S             => declined TermsChanged
        bust 1 S                        => busted 1: A1 B1 1 @ 100
        terms MSFT none                 => terms of MSFT
        correct 2 1 @ 100 S             => corrected 2 to 3: A2 B2 1 @ 100
        ",
    );
}

/// Rule 42.11: the old value of a change is kept as long as a trade that was settled with it, and only once if no trade
/// was between two changes.
#[test]
fn changes_are_forgotten_with_their_trades() {
    let mut world = World::default();
    world.play(
        "
        instrument AAPL             => instrument 1
        session A                   => session 1
        day start-of-system-hours   => day start-of-system-hours
        asset USD 2                 => asset 1
        fees 0 0 7                  => fees of 0
        ",
    );
    let len = |world: &World| {
        let mut len = 0;
        world.engine().snapshot(&mut |section, bytes| {
            len += if section == Section::Money { bytes.len() } else { 0 };
        });
        len
    };
    let before = len(&world);
    let mut each = 0;
    for nth in 1..=3 {
        world.trade_with_itself(nth);
        world.play(&format!("fees 0 0 {} => fees of 0", 10 * nth));
        each = len(&world) - before;
        world.play(&format!("fees 0 0 {} => fees of 0", 10 * nth + 1));
        assert_eq!(len(&world) - before, each, "no trade between");
    }
    // Kept are the trades from the third on, then from the fourth on.
    let kept = TRADES_KEPT as u32;
    (4..=kept + 2).for_each(|nth| world.trade_with_itself(nth));
    world.play("fees 0 0 8 => fees of 0");
    assert_eq!(len(&world) - before, each / 3 * 2);
    world.trade_with_itself(kept + 3);
    world.play("fees 0 0 9 => fees of 0");
    assert_eq!(len(&world) - before, each / 3 * 2);
    world.engine().check_invariants();
}

/// Rule 43.1: in the class cash nothing is sold short.
#[test]
fn cash_is_never_short() {
    check_paid(
        "
        short B1 1 @ 100            => rejected B1 ShortSaleNotAllowed
        exempt B2 1 @ 100           => rejected B2 ShortSaleNotAllowed
        set Q ShortMax 5 SHR        => set ShortMax to 5
        short B3 1 @ 100            => rejected B3 ShortSaleNotAllowed
        sell B4 1 @ 100             => accepted, reserve Q 1 SHR, booked 1 @ 100
        modify B4 short to 1        =>
        ",
    );
}

/// Rules 43.2, 43.3: in the class position holdings may be sold, and short sales go as far as the account's limit;
/// their proceeds are buying power.
#[test]
fn positions_may_be_short_within_limits() {
    check_paid(
        "
        terms AAPL position SHR USD units 10    => terms of AAPL
        deposit Q 30 SHR                        => deposit Q 30 SHR
        sell B1 5 @ 100                         => rejected B1 InsufficientBalance
        short B2 1 @ 100                        => rejected B2 ShortSaleNotAllowed
        set Q ShortMax 25 SHR                   => set ShortMax to 25
        short B3 7 @ 100                        => rejected B3 PositionLimit
        short B4 6 @ 100                        => accepted, reserve Q 60 SHR, booked 6 @ 100
        balance Q SHR                           => -20 and 60
        sell B5 1 @ 100                         => rejected B5 InsufficientBalance
        buy A1 6 @ 100                          => accepted, reserve P 600 USD, trade B4 A1 6 @ 100, settle P Q 600 USD, settle Q P 60 SHR
        balance Q SHR                           => -20 and 0
        withdraw Q 1 SHR                        => declined InsufficientBalance
        buy B6 6 @ 100                          => accepted, reserve Q 600 USD, booked 6 @ 100
        sell A2 2 @ 100                         => accepted, reserve P 20 SHR, trade B6 A2 2 @ 100, settle Q P 200 USD, settle P Q 20 SHR
        balance Q SHR                           => 0 and 0
        ",
    );
}

/// Rule 43.4: holdings and open buy orders stay within the account's limit.
#[test]
fn positions_have_a_limit() {
    check_paid(
        "
        terms AAPL position SHR USD         => terms of AAPL
        set P PositionMax 6 SHR             => set PositionMax to 6
        buy A1 7 @ 10                       => rejected A1 PositionLimit
        buy A2 4 @ 10                       => accepted, reserve P 40 USD, booked 4 @ 10
        buy A3 3 @ 10                       => rejected A3 PositionLimit
        buy A4 2 @ 9                        => accepted, reserve P 18 USD, booked 2 @ 9
        cancel A2 to 3                      => canceled A2 1 leaving 3, release P 10 USD
        replace A4 by A5 4 @ 9              => rejected A5 PositionLimit
        replace A4 by A6 3 @ 9              => replaced A4 by A6 buy 3 @ 9 in place, release P 18 USD, reserve P 27 USD
        sell B1 3 @ 10                      => accepted, reserve Q 3 SHR, trade A2 B1 3 @ 10, settle P Q 30 USD, settle Q P 3 SHR
        buy A7 1 @ 9                        => rejected A7 PositionLimit
        sell A8 2 @ 11                      => accepted, reserve P 2 SHR, booked 2 @ 11
        buy A9 1 @ 9                        => rejected A9 PositionLimit
        buy B2 2 @ 11                       => accepted, reserve Q 22 USD, trade A8 B2 2 @ 11, settle Q P 22 USD, settle P Q 2 SHR
        buy A10 2 @ 9                       => accepted, reserve P 18 USD, booked 2 @ 9
        ",
    );
}

/// Rule 43.5: an order becomes a long sale only while the account is not short, and a short sale only where it may sell
/// short.
#[test]
fn kinds_of_sell_follow_the_position() {
    check_paid(
        "
        terms AAPL position SHR USD     => terms of AAPL
        sell B1 2 @ 100                 => accepted, reserve Q 2 SHR, booked 2 @ 100
        modify B1 short to 2            =>
        set Q ShortMax 5 SHR            => set ShortMax to 5
        modify B1 short to 2            => modified B1 short 0 leaving 2
        modify B1 sell to 2             => modified B1 sell 0 leaving 2
        short B2 9 @ 100                => accepted, reserve Q 9 SHR, booked 9 @ 100
        modify B2 sell to 9             =>
        modify B2 sell to 8             =>
        modify B2 short to 8            => modified B2 short 1 leaving 8, release Q 1 SHR
        modify B2 sell to 8             => modified B2 sell 0 leaving 8
        ",
    );
}

/// Rules 46.1, 46.3: in the class cash both pay a part of the amounts they receive, by their account's tier, rounded
/// up; the venue's revenue can be withdrawn.
#[test]
fn fees_are_parts_of_what_is_received() {
    check_paid(
        "
        fees 0 1000 2500            => fees of 0
        fees 3 0 100000             => fees of 3
        fees 16 0 0                 => declined InvalidFees
        fees 1 0 1000001            => declined InvalidFees
        fees 1 1000001 0            => declined InvalidFees
        set P FeeTier 16            => declined InvalidValue
        set P FeeTier 3             => set FeeTier to 3
        sell B1 10 @ 50             => accepted, reserve Q 10 SHR, booked 10 @ 50
        buy A1 10 @ 50              => accepted, reserve P 500 USD, trade B1 A1 10 @ 50, settle P Q 500 USD, settle Q P 10 SHR, fee P 1 SHR, fee Q 1 USD
        balance P SHR               => 9 and 0
        balance Q USD               => 499 and 0
        balance - SHR               => 1 and 0
        balance - USD               => 1 and 0
        withdraw - 1 USD            => withdrawal - 1 USD
        transfer - P 1 SHR          => transfer - P 1 SHR
        ",
    );
}

/// Rule 46.2: a rebate is paid out of the incoming order's fee, in its asset, rounded down; no
/// schedule pays more than it takes.
#[test]
fn rebates_come_out_of_fees() {
    check_paid(
        "
        fees 0 -1 0                 => declined InvalidFees
        fees 0 0 300000             => fees of 0
        fees 1 -200000 300000       => declined InvalidFees
        fees 1 0 250000             => fees of 1
        fees 2 0 250000             => fees of 2
        fees 3 0 250000             => fees of 3
        fees 4 0 250000             => fees of 4
        fees 5 0 250000             => fees of 5
        fees 6 0 250000             => fees of 6
        fees 7 0 250000             => fees of 7
        fees 8 0 250000             => fees of 8
        fees 9 0 250000             => fees of 9
        fees 10 0 250000            => fees of 10
        fees 11 0 250000            => fees of 11
        fees 12 0 250000            => fees of 12
        fees 13 0 250000            => fees of 13
        fees 14 0 250000            => fees of 14
        fees 15 0 250000            => fees of 15
        fees 1 -250001 300000       => declined InvalidFees
        fees 1 -250000 300000       => fees of 1
        fees 2 0 249999             => declined InvalidFees
        set Q FeeTier 1             => set FeeTier to 1
        sell B1 7 @ 50              => accepted, reserve Q 7 SHR, booked 7 @ 50
        buy A1 7 @ 50               => accepted, reserve P 350 USD, trade B1 A1 7 @ 50, settle P Q 350 USD, settle Q P 7 SHR, fee P 3 SHR, rebate Q 1 SHR
        balance - SHR               => 2 and 0
        ",
    );
}

/// Rule 46.4: trades in the class position are billed elsewhere.
#[test]
fn positions_pay_no_fees() {
    check_paid(
        "
        fees 0 1000 2500                => fees of 0
        terms AAPL position SHR USD     => terms of AAPL
        sell B1 10 @ 50                 => accepted, reserve Q 10 SHR, booked 10 @ 50
        buy A1 10 @ 50                  => accepted, reserve P 500 USD, trade B1 A1 10 @ 50, settle P Q 500 USD, settle Q P 10 SHR
        ",
    );
}

/// The view of money agrees with its state.
#[test]
fn money_can_be_seen() {
    let mut world = World::default();
    world.play(
        "
        instrument AAPL             => instrument 1
        session A                   => session 1
        session B                   => session 2
        session C                   => session 3
        day start-of-system-hours   => day start-of-system-hours
        ",
    );
    world.play(PAID);
    world.play(
        "
        buy A2 4 @ 100              => accepted, reserve P 400 USD, booked 4 @ 100
        buy A3 1 @ 99               => accepted, reserve P 99 USD, booked 1 @ 99
        set P LiveOrdersMax 9       => set LiveOrdersMax to 9
        ",
    );
    let engine = world.engine();
    let account = engine.account_named(&market::Text::new("P").unwrap()).unwrap();
    assert_eq!((account.live_orders, account.live_orders_max, account.stopped), (2, 9, false));
    assert_eq!(engine.account_of(market::SessionId(1)), Some(account.account_id));
    assert_eq!(engine.account_of(market::SessionId(3)), None);
    let prices: Vec<_> = engine.orders_of(account.account_id).map(|it| it.price.0).collect();
    assert_eq!(prices, [100, 99]);
    let balances: Vec<_> =
        engine.balances(account.account_id).map(|it| (it.available, it.reserved)).collect();
    assert_eq!(balances, [(0, 0), (501, 499)]);
    assert_eq!(engine.accounts().len(), 3);
    assert_eq!(engine.issued(market::AssetId(2)), Some(1_000));
    assert_eq!(engine.money_terms(market::InstrumentId(1)).unwrap().base, market::AssetId(1));
}
