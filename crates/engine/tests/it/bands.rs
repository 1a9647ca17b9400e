//! Price bands, and the limits of orders: sections 29 and 30 of the rules.

use crate::scenario::check;

/// Rules 29.1, 29.4: trading goes no further from the reference price than the static band; without a pause an order
/// that would trade further is canceled, and orders that rest further stay.
#[test]
fn static_band_bounds_trading() {
    check(
        "
        configure AAPL reference 1000       => configured
        configure AAPL static-band 50000    => configured
        sell A1 1 @ 1050                    => accepted, booked 1 @ 1050
        sell A2 1 @ 1051                    => accepted, booked 1 @ 1051
        buy B1 2 @ 1060                     => accepted, trade A1 B1 1 @ 1050, canceled B1 1 collar
        buy B2 2 @ market                   => accepted, canceled B2 2 collar
        buy B3 2 @ 1050                     => accepted, booked 2 @ 1050
        buy B4 2 @ 1051 ioc                 => accepted, canceled B4 2 collar
        cancel B3                           => canceled B3 2
        buy B5 1 @ 949                      => accepted, booked 1 @ 949
        buy B6 1 @ 950                      => accepted, booked 1 @ 950
        sell A3 2 @ 940                     => accepted, trade B6 A3 1 @ 950, canceled A3 1 collar
        configure AAPL static-band 0        => configured
        sell A4 1 @ 940                     => accepted, trade B5 A4 1 @ 949
        ",
    );
}

/// Rule 29.1: if a band is not a multiple of the increment, the next multiple within it counts.
#[test]
fn band_counts_prices_of_the_increment() {
    check(
        "
        configure MSFT reference 1000       => configured
        configure MSFT static-band 3000     => configured
        buy A1 1 @ 995 of MSFT              => accepted, booked 1 @ 995
        sell A2 1 @ 1005 of MSFT            => accepted, booked 1 @ 1005
        sell B1 1 @ 995 of MSFT             => accepted, canceled B1 1 collar
        buy B2 1 @ market of MSFT           => accepted, canceled B2 1 collar
        ",
    );
}

/// Rule 29.2: trading goes no further from the last price before the order than the dynamic band; before the first
/// trade the reference price counts.
#[test]
fn dynamic_band_bounds_trading() {
    check(
        "
        configure AAPL dynamic-band 10000   => configured
        sell A1 1 @ 1000                    => accepted, booked 1 @ 1000
        buy B1 1 @ 1000                     => accepted, trade A1 B1 1 @ 1000
        sell A2 1 @ 1010                    => accepted, booked 1 @ 1010
        sell A3 1 @ 1011                    => accepted, booked 1 @ 1011
        buy B2 2 @ 1011                     => accepted, trade A2 B2 1 @ 1010, canceled B2 1 collar
        buy B3 2 @ 1011                     => accepted, trade A3 B3 1 @ 1011, booked 1 @ 1011
        configure AAPL dynamic-band 0       => configured
        configure AAPL dynamic-band 10000   => configured
        sell C1 1 @ 1011                    => accepted, trade B3 C1 1 @ 1011
        buy B4 1 @ 1000                     => accepted, booked 1 @ 1000
        sell C2 1 @ 1000                    => accepted, canceled C2 1 collar
        configure AAPL dynamic-band 0       => configured
        configure AAPL dynamic-band 10000   => configured
        configure AAPL reference 900        => configured
        sell C3 1 @ 1000                    => accepted, canceled C3 1 collar
        configure AAPL reference 1000       => configured
        sell C4 1 @ 800                     => accepted, trade B4 C4 1 @ 1000
        sell A4 1 @ 1010                    => accepted, booked 1 @ 1010
        configure AAPL static-band 5000     => configured
        buy B5 1 @ 1010                     => accepted, canceled B5 1 collar
        ",
    );
}

/// Rules 29.3, 29.5: with a pause, an order that would trade further starts a volatility auction, in which its open
/// rest takes part if it may rest; the auction ends automatically.
#[test]
fn price_that_would_go_too_far_pauses_trading() {
    check(
        "
        configure AAPL reference 1000       => configured
        configure AAPL static-band 50000    => configured
        configure AAPL pause 30             => configured
        sell A1 1 @ 1050                    => accepted, booked 1 @ 1050
        sell A2 1 @ 1051                    => accepted, booked 1 @ 1051
        time 100
        buy B1 3 @ 1060                     => accepted, trade A1 B1 1 @ 1050, phase AAPL volatility-auction by band, collar AAPL 950 to 1050, booked 2 @ 1060, indicates AAPL 1 @ 1060 leaving 1 to buy
        buy B2 1 @ 1060 ioc                 => rejected B2 NotInPhase
        time 101
        sell A3 1 @ 1045                    => accepted, booked 1 @ 1045
        time 102                            => indicates AAPL 2 @ 1051
        sell A4 1 @ 1044                    => accepted, booked 1 @ 1044
        time 129                            => indicates AAPL 2 @ 1045
        time 130                            => trade B1 A4 1 @ 1045, trade B1 A3 1 @ 1045, auction AAPL 2 @ 1045, phase AAPL continuous by time
        buy B3 1 @ 1051                     => accepted, trade A2 B3 1 @ 1051
        ",
    );
    check(
        "
        configure AAPL reference 1000       => configured
        configure AAPL static-band 50000    => configured
        configure AAPL pause 30             => configured
        buy A1 1 @ 900                      => accepted, booked 1 @ 900
        sell B1 3 @ market                  => accepted, phase AAPL volatility-auction by band, collar AAPL 950 to 1050, canceled B1 3 ioc, indicates AAPL nothing
        ",
    );
}

/// Rule 29.6: a volatility auction that would end outside its collar continues for the same time again, with the collar
/// widened by the static band; the venue may end it at any time.
#[test]
fn volatility_auction_goes_on_until_its_price_is_within_the_collar() {
    check(
        "
        configure AAPL reference 1000       => configured
        configure AAPL static-band 50000    => configured
        configure AAPL pause 10             => configured
        buy A1 1 @ 1120                     => accepted, booked 1 @ 1120
        time 100
        sell B1 1 @ 1120                    => accepted, phase AAPL volatility-auction by band, collar AAPL 950 to 1050, booked 1 @ 1120, indicates AAPL 1 @ 1120
        time 110                            => collar AAPL 900 to 1100 +1
        time 119
        time 120                            => collar AAPL 850 to 1150 +2
        time 130                            => trade A1 B1 1 @ 1120, auction AAPL 1 @ 1120, phase AAPL continuous by time
        sell B2 1 @ 1050                    => accepted, booked 1 @ 1050
        buy A2 1 @ 1050                     => accepted, phase AAPL volatility-auction by band, collar AAPL 1064 to 1176, booked 1 @ 1050, indicates AAPL 1 @ 1050
        phase AAPL continuous               => trade B2 A2 1 @ 1050, auction AAPL 1 @ 1050, phase AAPL continuous
        ",
    );
}

/// Rule 29.7: a fill-or-kill order and a minimum count only lots that trade within the band; they, and post-only
/// orders, cause no pause.
#[test]
fn what_is_beyond_the_band_does_not_count() {
    check(
        "
        configure AAPL reference 1000       => configured
        configure AAPL static-band 50000    => configured
        configure AAPL pause 10             => configured
        sell A1 1 @ 1050                    => accepted, booked 1 @ 1050
        sell A2 1 @ 1051                    => accepted, booked 1 @ 1051
        buy B1 2 @ 1060 fok                 => accepted, canceled B1 2 ioc
        buy B2 2 @ 1060 ioc minimum 2       => accepted, canceled B2 2 ioc
        buy B3 2 @ 1060 post-only           => accepted, canceled B3 2 post-only
        buy B4 1 @ 1060 fok                 => accepted, trade A1 B4 1 @ 1050
        ",
    );
}

/// Rules 30.1, 30.2, 30.3: an instrument bounds the lots of an order, its notional, and the distance of its limit
/// through the reference price.
#[test]
fn instrument_bounds_its_orders() {
    check(
        "
        configure AAPL quantity-max 100     => configured
        buy A1 101 @ 10                     => rejected A1 QuantityAboveLimit
        buy A2 100 @ 10                     => accepted, booked 100 @ 10
        configure AAPL notional-max 1000    => configured
        buy A3 100 @ 11                     => rejected A3 NotionalAboveLimit
        buy A4 100 @ 10                     => accepted, booked 100 @ 10
        buy A5 100 @ market                 => accepted, canceled A5 100 ioc
        configure AAPL reference 11         => configured
        buy A6 100 @ market                 => rejected A6 NotionalAboveLimit
        configure AAPL quantity-max 0       => configured
        configure AAPL notional-max 0       => configured
        configure AAPL reference 1000       => configured
        configure AAPL collar 100000        => configured
        buy A7 1 @ 1101                     => rejected A7 PriceOutsideCollar
        buy A8 1 @ 1100                     => accepted, booked 1 @ 1100
        cancel A8                           => canceled A8 1
        sell A9 1 @ 899                     => rejected A9 PriceOutsideCollar
        sell A10 1 @ 900                    => accepted, booked 1 @ 900
        buy A11 1 @ 1                       => accepted, booked 1 @ 1
        sell A12 1 @ 9000                   => accepted, booked 1 @ 9000
        phase AAPL pre-open                 => phase AAPL pre-open
        buy A13 1 @ 1101                    => rejected A13 PriceOutsideCollar
        ",
    );
}

/// Rule 30.4: a replace that exceeds these limits cancels its original.
#[test]
fn replace_beyond_bounds_cancels_the_original() {
    check(
        "
        configure AAPL reference 1000       => configured
        buy A1 10 @ 100                     => accepted, booked 10 @ 100
        buy A2 10 @ 100                     => accepted, booked 10 @ 100
        buy A3 10 @ 100                     => accepted, booked 10 @ 100
        configure AAPL quantity-max 10      => configured
        configure AAPL notional-max 1000    => configured
        configure AAPL collar 1             => configured
        replace A1 by A4 11 @ 1             => canceled A1 10
        replace A2 by A5 10 @ 101           => canceled A2 10
        replace A3 by A6 1 @ 1001           => canceled A3 10
        ",
    );
}
