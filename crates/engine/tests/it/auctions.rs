//! Auctions and the events that report them: sections 27 and 28 of the rules.

use crate::scenario::check;

/// Runs an opening auction of these orders, and returns its result.
#[track_caller]
fn auction(orders: &str, comes_of_it: &str) {
    check(&format!(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        {orders}
        phase AAPL halted               => phase AAPL halted
        phase AAPL continuous           => {comes_of_it}, phase AAPL continuous
        "
    ));
}

/// Rule 27.1: an auction takes place on the way to continuous trading, and from the closing auction to the close; other
/// changes of phase have none, and orders are still collected.
#[test]
fn auction_takes_place_at_the_end_of_its_phase() {
    check(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        sell A1 9 @ 100                 => accepted, booked 9 @ 100
        buy B1 1 @ 100                  => accepted, booked 1 @ 100
        phase AAPL opening-auction      => phase AAPL opening-auction, indicates AAPL 1 @ 100 leaving 8 to sell
        phase AAPL halted               => phase AAPL halted
        phase AAPL volatility-auction   => phase AAPL volatility-auction, indicates AAPL 1 @ 100 leaving 8 to sell
        phase AAPL closing-auction      => phase AAPL closing-auction, indicates AAPL 1 @ 100 leaving 8 to sell
        phase AAPL halted               => phase AAPL halted
        phase AAPL continuous           => trade A1 B1 1 @ 100, auction AAPL 1 @ 100, phase AAPL continuous
        phase AAPL closing-auction      => phase AAPL closing-auction, indicates AAPL nothing
        buy B2 1 @ 100                  => accepted, booked 1 @ 100
        phase AAPL closed               => trade A1 B2 1 @ 100, auction AAPL 1 @ 100, phase AAPL closed
        phase AAPL pre-open             => phase AAPL pre-open
        buy B3 1 @ 100                  => accepted, booked 1 @ 100
        phase AAPL closed               => phase AAPL closed
        book AAPL                       => bid B3 1 @ 100, ask A1 7 @ 100
        ",
    );
}

/// Rule 27.2: the price at which most lots trade.
#[test]
fn price_is_where_most_trades() {
    auction(
        "
        buy A1 5 @ 103                  => accepted, booked 5 @ 103
        buy A2 5 @ 101                  => accepted, booked 5 @ 101
        sell B1 4 @ 100                 => accepted, booked 4 @ 100
        sell B2 5 @ 101                 => accepted, booked 5 @ 101
        sell B3 9 @ 103                 => accepted, booked 9 @ 103
        ",
        "trade A1 B1 4 @ 101, trade A1 B2 1 @ 101, trade A2 B2 4 @ 101, auction AAPL 9 @ 101",
    );
}

/// Rule 27.3: of several, the price with the smallest imbalance.
#[test]
fn then_where_least_is_left_over() {
    auction(
        "
        buy A1 5 @ 103                  => accepted, booked 5 @ 103
        buy A2 3 @ 101                  => accepted, booked 3 @ 101
        sell B1 5 @ 100                 => accepted, booked 5 @ 100
        ",
        "trade A1 B1 5 @ 103, auction AAPL 5 @ 103",
    );
    auction(
        "
        buy A1 5 @ 103                  => accepted, booked 5 @ 103
        sell B1 3 @ 102                 => accepted, booked 3 @ 102
        sell B2 5 @ 100                 => accepted, booked 5 @ 100
        ",
        "trade A1 B2 5 @ 100, auction AAPL 5 @ 100",
    );
}

/// Rule 27.4: of several, the price to which the imbalance presses: the highest if buyers are left at all of them, the
/// lowest if sellers are.
#[test]
fn then_where_what_is_left_presses_to() {
    auction(
        "
        buy A1 7 @ 103                  => accepted, booked 7 @ 103
        sell B1 5 @ 100                 => accepted, booked 5 @ 100
        ",
        "trade A1 B1 5 @ 103, auction AAPL 5 @ 103",
    );
    auction(
        "
        buy A1 5 @ 103                  => accepted, booked 5 @ 103
        sell B1 7 @ 100                 => accepted, booked 7 @ 100
        ",
        "trade A1 B1 5 @ 100, auction AAPL 5 @ 100",
    );
}

/// Rule 27.5: of several, the nearest to the reference price, which is itself one of them; of two
/// equally near the higher. Without one, the lowest.
#[test]
fn then_the_nearest_to_the_reference_price() {
    let orders = "
        buy A1 5 @ 104                  => accepted, booked 5 @ 104
        sell B1 5 @ 100                 => accepted, booked 5 @ 100
        ";
    for (reference, price) in [(90, 100), (100, 100), (101, 101), (104, 104), (110, 104), (0, 100)]
    {
        auction(
            &format!("configure AAPL reference {reference} => configured\n{orders}"),
            &format!("trade A1 B1 5 @ {price}, auction AAPL 5 @ {price}"),
        );
    }
    // Buyers are left at one end, sellers at the other, and the reference price is not a valid price here.
    check(
        "
        phase MSFT pre-open             => phase MSFT pre-open
        configure MSFT reference 105    => configured
        configure MSFT increment 10     => configured
        buy A1 5 @ 110 of MSFT          => accepted, booked 5 @ 110
        buy A2 2 @ 100 of MSFT          => accepted, booked 2 @ 100
        sell B1 5 @ 100 of MSFT         => accepted, booked 5 @ 100
        sell B2 2 @ 110 of MSFT         => accepted, booked 2 @ 110
        phase MSFT opening-auction      => phase MSFT opening-auction, indicates MSFT 5 @ 110 leaving 2 to sell
        phase MSFT continuous           => trade A1 B1 5 @ 110, auction MSFT 5 @ 110, phase MSFT continuous
        ",
    );
}

/// Rule 27.6: market orders alone trade at the reference price, and not at all without one.
#[test]
fn market_orders_alone_trade_at_the_reference_price() {
    let orders = "
        buy A1 5 @ market               => accepted, booked 5 for auction
        sell B1 3 @ market              => accepted, booked 3 for auction
        ";
    auction(orders, "auction AAPL nothing, canceled A1 5 expired, canceled B1 3 expired");
    auction(
        &format!("configure AAPL reference 77 => configured\n{orders}"),
        "trade A1 B1 3 @ 77, auction AAPL 3 @ 77, canceled A1 2 expired",
    );
}

/// Rule 27.7: orders without a price trade first, then the better prices, and at one price the displayed, the hidden,
/// and the auction-only orders; of each the oldest first.
#[test]
fn priority_goes_by_price_and_time() {
    auction(
        "
        buy A1 1 @ 100 for-auction      => accepted, booked 1 for auction
        buy A2 1 @ 100 hidden           => accepted, booked 1 @ 100 hidden
        buy A3 1 @ 100                  => accepted, booked 1 @ 100
        buy A4 1 @ 101 hidden           => accepted, booked 1 @ 101 hidden
        buy A5 1 @ 100                  => accepted, booked 1 @ 100
        buy A6 1 @ market               => accepted, booked 1 for auction
        buy A7 1 @ market for-auction   => accepted, booked 1 for auction
        buy A8 1 @ 100 for-auction      => accepted, booked 1 for auction
        sell B1 7 @ 100                 => accepted, booked 7 @ 100
        ",
        "trade A6 B1 1 @ 100, trade A7 B1 1 @ 100, trade A4 B1 1 @ 100, trade A3 B1 1 @ 100, \
         trade A5 B1 1 @ 100, trade A2 B1 1 @ 100, trade A1 B1 1 @ 100, auction AAPL 7 @ 100, \
         canceled A8 1 expired",
    );
    check(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        sell A1 1 @ 100 for-auction     => accepted, booked 1 for auction
        sell A2 1 @ 100 at-the-open     => accepted, booked 1 for auction
        sell A3 1 @ 100 for-auction     => accepted, booked 1 for auction
        buy B1 2 @ 100                  => accepted, booked 2 @ 100
        phase AAPL opening-auction      => phase AAPL opening-auction, indicates AAPL 2 @ 100 leaving 1 to sell
        phase AAPL continuous           => trade A1 B1 1 @ 100, trade A2 B1 1 @ 100, auction AAPL 2 @ 100, canceled A3 1 expired, phase AAPL continuous
        ",
    );
}

/// Rules 27.8, 27.10: all trades are at one price; the order accepted first is the maker; the open lots stay in their
/// place.
#[test]
fn all_trades_are_at_one_price() {
    check(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        sell B1 3 @ 99                  => accepted, booked 3 @ 99
        buy A1 2 @ 102                  => accepted, booked 2 @ 102
        buy A2 4 @ 101                  => accepted, booked 4 @ 101
        sell B2 1 @ 98                  => accepted, booked 1 @ 98
        buy A3 4 @ 101                  => accepted, booked 4 @ 101
        phase AAPL opening-auction      => phase AAPL opening-auction, indicates AAPL 4 @ 101 leaving 6 to buy
        phase AAPL continuous           => trade A1 B2 1 @ 101, trade B1 A1 1 @ 101, trade B1 A2 2 @ 101, auction AAPL 4 @ 101, phase AAPL continuous
        book AAPL                       => bid A2 2 @ 101, bid A3 4 @ 101
        sell B3 5 @ 101                 => accepted, trade A2 B3 2 @ 101, trade A3 B3 3 @ 101
        ",
    );
}

/// Rule 27.9: own orders trade with each other in an auction, and post-only orders trade.
#[test]
fn nothing_is_prevented_in_an_auction() {
    auction(
        "
        buy A1 2 @ 100 prevent W        => accepted, booked 2 @ 100
        sell A2 2 @ 100 prevent B post-only => accepted, booked 2 @ 100
        ",
        "trade A1 A2 2 @ 100, auction AAPL 2 @ 100",
    );
}

/// Rule 27.11: the price of an auction is the reference price of the next.
#[test]
fn auction_sets_the_reference_price() {
    auction(
        "
        buy A1 2 @ 100                  => accepted, booked 2 @ 100
        sell B1 1 @ 100                 => accepted, booked 1 @ 100
        phase AAPL halted               => phase AAPL halted
        phase AAPL continuous           => trade A1 B1 1 @ 100, auction AAPL 1 @ 100, phase AAPL continuous
        phase AAPL pre-open             => phase AAPL pre-open
        cancel A1                       => canceled A1 1
        buy A2 1 @ market               => accepted, booked 1 for auction
        sell B2 1 @ market              => accepted, booked 1 for auction
        ",
        "trade A2 B2 1 @ 100, auction AAPL 1 @ 100",
    );
}

/// Rule 27.12: an auction has a number of its own, behind those of its trades, also if nothing traded.
#[test]
fn auction_has_a_number_among_the_trades() {
    check(
        "
        phase AAPL halted               => phase AAPL halted
        phase AAPL continuous           => auction AAPL nothing, phase AAPL continuous
        sell A1 1 @ 100                 => accepted, booked 1 @ 100
        buy B1 1 @ 100                  => accepted, trade A1 B1 1 @ 100
        bust 1 E                        => declined UnknownTrade
        bust 2 E                        => busted 2: A1 B1 1 @ 100
        ",
    );
}

/// Rules 28.1, 28.2: an auction's indication is published when the auction begins, and at the first
/// input of each second if it changed.
#[test]
fn a_new_indication_is_published_each_second() {
    check(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        buy A1 2 @ 100                  => accepted, booked 2 @ 100
        sell B1 1 @ 100                 => accepted, booked 1 @ 100
        time 1
        phase AAPL opening-auction      => phase AAPL opening-auction, indicates AAPL 1 @ 100 leaving 1 to buy
        sell B2 1 @ 100                 => accepted, booked 1 @ 100
        time 2                          => indicates AAPL 2 @ 100
        sell B3 1 @ 99                  => accepted, booked 1 @ 99
        sell B4 1 @ 99                  => accepted, booked 1 @ 99
        cancel B4                       => canceled B4 1
        time 3                          => indicates AAPL 2 @ 100 leaving 1 to sell
        time 4
        cancel A1                       => canceled A1 2
        time 5                          => indicates AAPL nothing
        phase AAPL halted               => phase AAPL halted
        buy A2 2 @ 100                  => rejected A2 Halted
        time 9
        ",
    );
}

/// Rule 27.13: a reserve order takes part with all its open lots; the shown part has its turn, and the next part stands
/// behind the others at its price.
#[test]
fn reserve_order_takes_part_by_its_parts() {
    check(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        buy A1 7 @ 100 show 2           => accepted show 2, booked 7 @ 100 showing 2
        buy B1 3 @ 100                  => accepted, booked 3 @ 100
        buy B2 1 @ 100 hidden           => accepted, booked 1 @ 100 hidden
        sell C1 6 @ 100                 => accepted, booked 6 @ 100
        phase AAPL opening-auction      => phase AAPL opening-auction, indicates AAPL 6 @ 100 leaving 5 to buy
        phase AAPL continuous           => trade A1 C1 2 @ 100, refreshed A1 showing 2, trade B1 C1 3 @ 100, trade C1 A1 1 @ 100, auction AAPL 6 @ 100, phase AAPL continuous
        order A1                        => buy 4 of 7 executed 3 canceled 0 firm ACME capacity O show 2
        sell C2 5 @ 100                 => accepted, trade A1 C2 1 @ 100, refreshed A1 showing 2, trade A1 C2 1 @ 100, trade A1 C2 2 @ 100, trade B2 C2 1 @ 100
        ",
    );
}

/// Rules 25.8, 27.8: the price paid in an auction is its own; the rest of an order's reservation is released. An order
/// to buy without a limit is not collected where orders are paid for.
#[test]
fn auction_is_paid_for_at_its_price() {
    crate::money::check_paid(
        "
        phase AAPL pre-open             => phase AAPL pre-open
        buy A1 4 @ 120                  => accepted, reserve P 480 USD, booked 4 @ 120
        buy A2 1 @ market               => rejected A2 NotInPhase
        buy A3 1 @ market at-the-close  => rejected A3 NotInPhase
        sell B1 3 @ 100                 => accepted, reserve Q 3 SHR, booked 3 @ 100
        sell B2 1 @ market              => accepted, reserve Q 1 SHR, booked 1 for auction
        replace A1 by A4 4 @ market     => canceled A1 4, release P 480 USD
        buy A4 4 @ 110                  => accepted, reserve P 440 USD, booked 4 @ 110
        configure AAPL reference 104    => configured
        phase AAPL opening-auction      => phase AAPL opening-auction, indicates AAPL 4 @ 104
        phase AAPL continuous           => trade B2 A4 1 @ 104, settle P Q 104 USD, release P 6 USD, settle Q P 1 SHR, trade B1 A4 3 @ 104, settle P Q 312 USD, release P 18 USD, settle Q P 3 SHR, auction AAPL 4 @ 104, phase AAPL continuous
        ",
    );
}
