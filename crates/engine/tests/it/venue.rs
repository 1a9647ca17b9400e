//! The venue's own commands: sections 31 to 34 of the rules.

use engine::{BLOCKS_MAX, TRADES_KEPT};
use market::{
    BlockEntry, BustReason, BustTrade, Command, Event, Scope, TradeId, VenueCommand,
    VenueDeclineReason, VenueEvent,
};

use crate::scenario::{World, check};

/// Rules 31.1, 31.2, 34.1: an instrument gets another increment only while no order rests in it, and no property gets
/// an invalid value.
#[test]
fn properties_change_while_running() {
    check(
        "
        sell A1 4 @ 101                     => accepted, booked 4 @ 101
        configure AAPL increment 5          => declined OrdersLive
        configure AAPL lot 10               => configured
        cancel A1                           => canceled A1 4
        buy A2 4 @ 101 at-the-close         => accepted, booked 4 for auction
        configure AAPL increment 5          => declined OrdersLive
        cancel A2                           => canceled A2 4
        configure AAPL increment 5          => configured
        sell A3 4 @ 101                     => rejected A3 InvalidPrice
        sell A4 4 @ 105                     => accepted, booked 4 @ 105
        configure AAPL increment 5          => declined OrdersLive
        configure AAPL increment 0          => declined InvalidValue
        configure AAPL increment 2000000000 => declined InvalidValue
        configure AAPL lot 0                => declined InvalidValue
        configure AAPL lot 1000000          => declined InvalidValue
        configure AAPL reference 1999999901 => declined InvalidValue
        configure AAPL quantity-max 281474976710656 => declined InvalidValue
        configure NONE lot 10               => declined UnknownInstrument
        buy B1 4 @ 105                      => accepted, trade A4 B1 4 @ 105
        ",
    );
}

/// Rule 31.3: an instrument that is removed loses its orders, in the book or not, and is unknown.
#[test]
fn removed_instrument_is_unknown() {
    check(
        "
        buy B1 4 @ 100                      => accepted, booked 4 @ 100
        sell A1 4 @ 101                     => accepted, booked 4 @ 101
        sell A2 4 @ 101 at-the-close        => accepted, booked 4 for auction
        sell A3 4 @ 105 of MSFT             => accepted, booked 4 @ 105
        remove AAPL                         => canceled A1 4 supervisory, canceled A2 4 supervisory, canceled B1 4 supervisory, removed AAPL
        remove AAPL                         => declined UnknownInstrument
        buy B2 4 @ 100                      => rejected B2 InvalidSymbol
        phase AAPL halted                   => declined UnknownInstrument
        phase all halted                    => phase MSFT halted
        ",
    );
}

/// Rule 31.4: its symbol may be added again, as another instrument with another number.
#[test]
fn symbol_may_be_added_again() {
    check(
        "
        sell A1 4 @ 101                     => accepted, booked 4 @ 101
        buy B1 4 @ 101                      => accepted, trade A1 B1 4 @ 101
        phase AAPL pre-open                 => phase AAPL pre-open
        remove AAPL                         => removed AAPL
        instrument AAPL increment 5 lot 1   => instrument 3
        sell A2 4 @ 105                     => accepted, booked 4 @ 105
        buy B2 4 @ 105                      => accepted, trade A2 B2 4 @ 105
        bust 1 S                            => busted 1: A1 B1 4 @ 101
        correct 2 4 @ 101 S                 => declined InvalidValue
        ",
    );
}

/// Rules 32.1, 32.2: the venue cancels the orders that match every criterion it names, by session, channel and number;
/// their owners' numbers are not touched.
#[test]
fn supervisory_cancel_means_a_scope() {
    let orders = "
        buy B1 1 @ 90                           => accepted, booked 1 @ 90
        buy A1 1 @ 90 group 1                   => accepted, booked 1 @ 90
        short A2 1 @ 100 firm OTHR              => accepted, booked 1 @ 100
        sell A3 1 @ 100 of MSFT                 => accepted, booked 1 @ 100
        sell A/3:1 1 @ 100 at-the-close         => accepted, booked 1 for auction
        sell C1 1 @ 100 group 1                 => accepted, booked 1 @ 100
    ";
    let cases = [
        ("", "A1 A2 A3 A/3:1 B1 C1"),
        ("session A", "A1 A2 A3 A/3:1"),
        ("firm ACME", "A1 A3 A/3:1"),
        ("firm OTHR", "A2"),
        ("of MSFT", "A3"),
        ("side sell", "A3 A/3:1 C1"),
        ("side short", "A2"),
        ("group 1", "A1 C1"),
        ("session A group 1 of AAPL", "A1"),
        ("session B group 1", ""),
    ];
    for (scope, meant) in cases {
        let canceled: Vec<_> = meant
            .split_whitespace()
            .map(|order| format!("canceled {order} 1 supervisory"))
            .collect();
        check(&format!("{orders}\n supervise {scope} => {}", canceled.join(", ")));
    }
    check(
        "
        supervise of NONE               => declined UnknownInstrument
        supervise session NONE          => declined UnknownSession
        supervise
        query A                         => next 1
        ",
    );
}

/// Rules 32.3, 32.4: while a scope is blocked its new orders and replaces are rejected; resting orders stay. Only
/// exactly that scope can be allowed again.
#[test]
fn blocked_scope_enters_nothing() {
    check(
        "
        buy A1 1 @ 90                           => accepted, booked 1 @ 90
        block session A                         => blocked
        buy A2 1 @ 90                           => rejected A2 EntryBlocked
        replace A1 by A3 2 @ 90                 => rejected A3 EntryBlocked
        sell B1 1 @ 91                          => accepted, booked 1 @ 91
        sell B2 1 @ 90 ioc                      => accepted, trade A1 B2 1 @ 90
        unblock firm ACME                       => declined UnknownBlock
        unblock session A                       => unblocked
        unblock session A                       => declined UnknownBlock
        block of MSFT side sell group 3         => blocked
        block of MSFT side sell group 3         => declined TooManyBlocks
        sell A4 1 @ 90 of MSFT group 3          => rejected A4 EntryBlocked
        short A5 1 @ 90 of MSFT group 3         => accepted, booked 1 @ 90
        sell A6 1 @ 95 of MSFT                  => accepted, booked 1 @ 95
        sell A7 1 @ 95 group 3                  => accepted, booked 1 @ 95
        block firm OTHR                         => blocked
        buy B3 1 @ 80 firm OTHR                 => rejected B3 EntryBlocked
        block                                   => blocked
        buy C1 1 @ 80 of NONE                   => rejected C1 InvalidSymbol
        buy C2 1 @ 80                           => rejected C2 EntryBlocked
        phase AAPL halted                       => phase AAPL halted
        buy C3 1 @ 80                           => rejected C3 EntryBlocked
        cancel A6                               => canceled A6 1
        block of NONE                           => declined UnknownInstrument
        block session NONE                      => declined UnknownSession
        ",
    );
}

/// Rule 32.5: the number of blocks at a time is bounded.
#[test]
fn blocks_have_a_bound() {
    let mut world = World::default();
    let mut block = |group: usize, blocked| {
        let scope = Scope { group_id: Some(group as u16), ..Scope::ALL };
        let command = VenueCommand::BlockEntry(BlockEntry { scope, blocked });
        let events = world.apply(Command::Venue(command));
        matches!(events[..], [Event::Venue(VenueEvent::EntryBlocked(_))])
    };
    assert!((0..BLOCKS_MAX).all(|group| block(group, true)));
    assert!(!block(BLOCKS_MAX, true));
    assert!(block(7, false));
    assert!(block(BLOCKS_MAX, true));
}

/// Rules 33.1, 33.4: a trade is undone once; no order, book or number is touched.
#[test]
fn trade_is_busted_once() {
    check(
        "
        sell A1 4 @ 100                     => accepted, booked 4 @ 100
        buy B1 3 @ 100                      => accepted, trade A1 B1 3 @ 100
        bust 1 E                            => busted 1: A1 B1 3 @ 100
        bust 1 C                            => declined UnknownTrade
        correct 1 1 @ 100 C                 => declined UnknownTrade
        bust 2 E                            => declined UnknownTrade
        order A1                            => sell 1 of 4 executed 3 canceled 0 firm ACME capacity O
        buy B2 1 @ 100                      => accepted, trade A1 B2 1 @ 100
        bust 2 S                            => busted 2: A1 B2 1 @ 100
        ",
    );
}

/// Rule 33.2: a bounded number of the latest trades can be undone.
#[test]
fn only_the_latest_trades_are_kept() {
    let mut world = World::default();
    world.play(
        "
        instrument AAPL                     => instrument 1
        session A                           => session 1
        day start-of-system-hours           => day start-of-system-hours
        ",
    );
    let busted = |world: &mut World, number: u64| {
        let command = BustTrade { trade_id: TradeId(number), reason: BustReason::Consent };
        match world.apply(Command::Venue(VenueCommand::BustTrade(command)))[..] {
            [Event::Venue(VenueEvent::TradeBusted(busted))] => {
                assert_eq!(busted.trade.trade_id, TradeId(number));
                true
            }
            [Event::Venue(VenueEvent::Declined(declined))] => {
                assert_eq!(declined.reason, VenueDeclineReason::UnknownTrade);
                false
            }
            ref events => panic!("{events:?}"),
        }
    };
    let trades = TRADES_KEPT as u64 + 10;
    for number in 1..=trades {
        world.trade_with_itself(number as u32);
    }
    for number in [1, 9, 10, trades + 1] {
        assert!(!busted(&mut world, number), "{number}");
    }
    for number in [11, 12, trades / 2, trades - 11, trades] {
        assert!(busted(&mut world, number), "{number}");
        assert!(!busted(&mut world, number), "{number}");
    }
    world.play("query A => next 131093");
}

/// Rule 33.3: a corrected trade is another, with a number of its own; it may be undone again.
#[test]
fn trade_is_corrected_by_another() {
    check(
        "
        sell A1 4 @ 100                     => accepted, booked 4 @ 100
        buy B1 3 @ 100                      => accepted, trade A1 B1 3 @ 100
        correct 1 4 @ 100 E                 => declined InvalidValue
        correct 1 0 @ 100 E                 => declined InvalidValue
        correct 1 3 @ 0 E                   => declined InvalidValue
        correct 1 2 @ 90 E                  => corrected 1 to 2: A1 B1 2 @ 90
        bust 1 E                            => declined UnknownTrade
        buy B2 1 @ 100                      => accepted, trade A1 B2 1 @ 100
        correct 2 1 @ 91 E                  => corrected 2 to 4: A1 B1 1 @ 91
        bust 4 E                            => busted 4: A1 B1 1 @ 91
        ",
    );
}

/// Rule 33.1: trades of an auction are undone like others, one by one.
#[test]
fn trade_of_an_auction_is_busted() {
    check(
        "
        phase AAPL pre-open                 => phase AAPL pre-open
        sell A1 4 @ 100                     => accepted, booked 4 @ 100
        buy B1 3 @ 100                      => accepted, booked 3 @ 100
        buy C1 1 @ 100                      => accepted, booked 1 @ 100
        phase AAPL opening-auction          => phase AAPL opening-auction, indicates AAPL 4 @ 100
        phase AAPL continuous               => trade A1 B1 3 @ 100, trade A1 C1 1 @ 100, auction AAPL 4 @ 100, phase AAPL continuous
        bust 2 E                            => busted 2: A1 C1 1 @ 100
        bust 3 E                            => declined UnknownTrade
        ",
    );
}
