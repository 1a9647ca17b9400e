//! Rules 44 and 45: the limits of an account, and the kill switch.

use crate::money::check_paid;

/// Rule 44.1: the checks are made in the order of the table; the first that fails is the reason.
#[test]
fn account_checks_have_an_order() {
    check_paid(
        "
        set Q PriceAwayMax 100000           => set PriceAwayMax to 100000
        set Q OrderQuantityMax 5            => set OrderQuantityMax to 5
        set Q OrderNotionalMax 400 USD      => set OrderNotionalMax to 400
        set Q LiveOrdersMax 1               => set LiveOrdersMax to 1
        set Q OrdersPerSecondMax 1          => set OrdersPerSecondMax to 1
        buy A1 1 @ 100                      => accepted, reserve P 100 USD, booked 1 @ 100
        time 1
        sell B1 1 @ 200                     => accepted, reserve Q 1 SHR, booked 1 @ 200
        stop Q                              => stopped Q, canceled B1 1 supervisory, release Q 1 SHR
        time 2
        short B2 99 @ 50                    => rejected B2 ShortSaleNotAllowed
        sell B3 99 @ 50                     => rejected B3 PriceTooFar
        sell B4 99 @ 100                    => rejected B4 OrderQuantityLimit
        sell B5 5 @ 100                     => rejected B5 OrderNotionalLimit
        sell B6 4 @ 100                     => rejected B6 OrderRateLimit
        time 3
        buy B7 4 @ 100                      => rejected B7 InsufficientBalance
        time 4
        sell B8 4 @ 100                     => rejected B8 AccountStopped
        set Q LiveOrdersMax 0               => set LiveOrdersMax to 0
        ",
    );
}

/// Rule 44.2: a limit may be through the best displayed price of the other side by a bounded distance; hidden orders do
/// not count, and without a displayed price there is no such limit.
#[test]
fn prices_may_be_only_so_far_away() {
    check_paid(
        "
        set P PriceAwayMax 100000       => set PriceAwayMax to 100000
        sell B1 1 @ 20 hidden           => accepted, reserve Q 1 SHR, booked 1 @ 20 hidden
        buy A1 1 @ 19                   => accepted, reserve P 19 USD, booked 1 @ 19
        sell B2 1 @ 100                 => accepted, reserve Q 1 SHR, booked 1 @ 100
        cancel B1                       => canceled B1 1, release Q 1 SHR
        buy A2 1 @ 111                  => rejected A2 PriceTooFar
        replace A1 by A3 1 @ 111        => rejected A3 PriceTooFar
        buy A4 1 @ 110                  => accepted, reserve P 110 USD, trade B2 A4 1 @ 100, settle P Q 100 USD, release P 10 USD, settle Q P 1 SHR
        sell A5 1 @ 18                  => accepted, reserve P 1 SHR, trade A1 A5 1 @ 19, settle P P 19 USD, settle P P 1 SHR
        buy A6 1 @ 20                   => accepted, reserve P 20 USD, booked 1 @ 20
        sell A7 1 @ 17                  => rejected A7 PriceTooFar
        sell A8 1 @ 18                  => accepted, reserve P 1 SHR, trade A6 A8 1 @ 20, settle P P 20 USD, settle P P 1 SHR
        buy A9 1 @ 900                  => accepted, reserve P 900 USD, booked 1 @ 900
        ",
    );
}

/// Rule 44.3: quantity and notional of one order are limited, for an order without a limit by the notional of its
/// possible trades.
#[test]
fn orders_are_only_so_large() {
    check_paid(
        "
        set P OrderQuantityMax 5            => set OrderQuantityMax to 5
        set P OrderNotionalMax 400 USD      => set OrderNotionalMax to 400
        buy A1 6 @ 10                       => rejected A1 OrderQuantityLimit
        buy A2 5 @ 81                       => rejected A2 OrderNotionalLimit
        buy A3 5 @ 80                       => accepted, reserve P 400 USD, booked 5 @ 80
        replace A3 by A4 6 @ 80             => rejected A4 OrderQuantityLimit
        cancel A3                           => canceled A3 5, release P 400 USD
        sell B1 2 @ 100                     => accepted, reserve Q 2 SHR, booked 2 @ 100
        sell B2 3 @ 101                     => accepted, reserve Q 3 SHR, booked 3 @ 101
        buy A5 4 @ market                   => rejected A5 OrderNotionalLimit
        buy A6 3 @ market                   => accepted, reserve P 301 USD, trade B1 A6 2 @ 100, settle P Q 200 USD, settle Q P 2 SHR, trade B2 A6 1 @ 101, settle P Q 101 USD, settle Q P 1 SHR
        buy C1 6 @ 100 of MSFT              => accepted, booked 6 @ 100
        assign C P                          => declined OrdersLive
        buy A7 6 @ 100 of MSFT              => rejected A7 OrderQuantityLimit
        set P OrderQuantityMax 0            => set OrderQuantityMax to 0
        buy A8 6 @ 100 of MSFT              => accepted, booked 6 @ 100
        ",
    );
}

/// Rule 44.4: an account has a bounded number of live orders, on all its sessions; a replacement takes the place of its
/// original.
#[test]
fn accounts_have_only_so_many_orders() {
    check_paid(
        "
        assign C P                      => C is of P
        set P LiveOrdersMax 2           => set LiveOrdersMax to 2
        buy A1 1 @ 10                   => accepted, reserve P 10 USD, booked 1 @ 10
        buy C1 1 @ 10 of MSFT           => accepted, booked 1 @ 10
        buy A2 1 @ 10                   => rejected A2 TooManyOrders
        buy C2 1 @ 10                   => rejected C2 TooManyOrders
        replace A1 by A3 1 @ 11         => replaced A1 by A3 buy 1 @ 11 in place, release P 10 USD, reserve P 11 USD
        sell B1 1 @ 11                  => accepted, reserve Q 1 SHR, trade A3 B1 1 @ 11, settle P Q 11 USD, settle Q P 1 SHR
        buy C3 1 @ 10                   => accepted, reserve P 10 USD, booked 1 @ 10
        ",
    );
}

/// Rule 44.5: in a second of the venue's time an account has a bounded number of new orders and replaces, those
/// rejected by the account checks included; cancels are not counted.
#[test]
fn accounts_ask_only_so_often() {
    check_paid(
        "
        set P OrdersPerSecondMax 2      => set OrdersPerSecondMax to 2
        time 1
        buy A1 1 @ 10                   => accepted, reserve P 10 USD, booked 1 @ 10
        cancel A1                       => canceled A1 1, release P 10 USD
        buy A2 9 @ 900                  => rejected A2 InsufficientBalance
        buy A3 1 @ 10                   => rejected A3 OrderRateLimit
        sell B1 1 @ 90                  => accepted, reserve Q 1 SHR, booked 1 @ 90
        time 2
        buy A4 1 @ 10                   => accepted, reserve P 10 USD, booked 1 @ 10
        replace A4 by A5 1 @ 11         => replaced A4 by A5 buy 1 @ 11 in place, release P 10 USD, reserve P 11 USD
        replace A5 by A6 1 @ 12         => rejected A6 OrderRateLimit
        cancel A5                       => canceled A5 1, release P 11 USD
        set P OrdersPerSecondMax 3      => set OrdersPerSecondMax to 3
        buy A7 1 @ 10                   => accepted, reserve P 10 USD, booked 1 @ 10
        ",
    );
}

/// Rule 44.6: limits are set for existing accounts and assets, to allowed values; they hold for later requests.
#[test]
fn limits_are_set_for_what_there_is() {
    check_paid(
        "
        buy A1 4 @ 10                           => accepted, reserve P 40 USD, booked 4 @ 10
        set P OrderQuantityMax 1                => set OrderQuantityMax to 1
        set R OrderQuantityMax 1                => declined UnknownAccount
        set - OrderQuantityMax 1                => declined UnknownAccount
        set P OrderQuantityMax 1 USD            => declined InvalidValue
        set P OrderQuantityMax 18446744073709551616 => declined InvalidValue
        set P ShortMax 1                        => declined UnknownAsset
        set P ShortMax 1 EUR                    => declined UnknownAsset
        set P ShortMax 79228162514264337593543950337 SHR    => declined InvalidValue
        set P ShortMax 79228162514264337593543950336 SHR    => set ShortMax to 79228162514264337593543950336
        sell B1 4 @ 10                          => accepted, reserve Q 4 SHR, trade A1 B1 4 @ 10, settle P Q 40 USD, settle Q P 4 SHR
        buy A2 4 @ 10                           => rejected A2 OrderQuantityLimit
        set P OrderQuantityMax 0                => set OrderQuantityMax to 0
        buy A3 4 @ 10                           => accepted, reserve P 40 USD, booked 4 @ 10
        ",
    );
}

/// Rules 45.1, 45.2: the kill switch cancels all live orders of all sessions of an account. No new
/// order is accepted until the account is resumed; then the same request may be sent again.
#[test]
fn kill_switch_stops_an_account() {
    check_paid(
        "
        assign C P                      => C is of P
        buy A2 1 @ 10                   => accepted, reserve P 10 USD, booked 1 @ 10
        buy C1 1 @ 11 of MSFT           => rejected C1 InvalidPrice
        buy C2 1 @ 10 of MSFT           => accepted, booked 1 @ 10
        buy A/1:1 1 @ 10                => accepted, reserve P 10 USD, booked 1 @ 10
        sell B1 1 @ 90                  => accepted, reserve Q 1 SHR, booked 1 @ 90
        stop P                          => stopped P, canceled A2 1 supervisory, release P 10 USD, canceled A/1:1 1 supervisory, release P 10 USD, canceled C2 1 supervisory
        buy A3 1 @ 10                   => rejected A3 AccountStopped
        buy C3 1 @ 10 of MSFT           => rejected C3 AccountStopped
        stop P                          => stopped P
        buy B2 1 @ 10                   => rejected B2 InsufficientBalance
        resume P                        => resumed P
        buy A4 1 @ 10                   => accepted, reserve P 10 USD, booked 1 @ 10
        stop R                          => declined UnknownAccount
        stop -                          => declined UnknownAccount
        ",
    );
}

/// Rules 48.1, 48.2: an account is kept out of an instrument on all its sessions, whatever else it trades; its orders
/// there can be canceled separately; and an unknown account is declined.
#[test]
fn an_account_is_kept_out_of_an_instrument() {
    check_paid(
        "
        buy A1 1 @ 100                          => accepted, reserve P 100 USD, booked 1 @ 100
        sell B1 1 @ 200                         => accepted, reserve Q 1 SHR, booked 1 @ 200
        block account P of AAPL                 => blocked
        buy A2 1 @ 100                          => rejected A2 EntryBlocked
        replace A1 by A3 2 @ 90                 => rejected A3 EntryBlocked
        sell B2 1 @ 201                         => accepted, reserve Q 1 SHR, booked 1 @ 201
        buy C1 1 @ 100 of MSFT                  => accepted, booked 1 @ 100
        supervise account P of AAPL             => canceled A1 1 supervisory, release P 100 USD
        unblock account Q of AAPL               => declined UnknownBlock
        unblock of AAPL                         => declined UnknownBlock
        unblock account P of AAPL               => unblocked
        buy A4 1 @ 100                          => accepted, reserve P 100 USD, booked 1 @ 100
        block account NONE                      => declined UnknownAccount
        supervise account NONE                  => declined UnknownAccount
        supervise account P                     => canceled A4 1 supervisory, release P 100 USD
        ",
    );
}

/// Rule 44.1: the checks of an order, and so the lines that its events share, follow from the present limits: an engine
/// that had others before emits the same lines as one that is restored, which each line of a scenario compares.
#[test]
fn a_limit_that_was_removed_leaves_nothing() {
    check_paid(
        "
        set P PositionMax 5 SHR     => set PositionMax to 5
        buy A1 1 @ 100              => accepted, reserve P 100 USD, booked 1 @ 100
        set P PositionMax 0 SHR     => set PositionMax to 0
        set P LiveOrdersMax 9       => set LiveOrdersMax to 9
        buy A2 1 @ 100              => accepted, reserve P 100 USD, booked 1 @ 100
        set P LiveOrdersMax 0       => set LiveOrdersMax to 0
        buy A3 1 @ 100              => accepted, reserve P 100 USD, booked 1 @ 100
        cancel A1                   => canceled A1 1, release P 100 USD
        cancel A3                   => canceled A3 1, release P 100 USD
        ",
    );
}
