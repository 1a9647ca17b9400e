//! The states that the state hash distinguishes, and the views of the state.

use engine::{Counters, DepthLevel, Engine};
use market::{Command, Input, InstrumentId, Price, Quantity, Sequence, SystemEvent, Timestamp};

use crate::scenario::World;

const MARKET: &str = "
    instrument AAPL             => instrument 1
    session A firm ACME         => session 1
    session B firm BETA         => session 2
    day start-of-system-hours   => day start-of-system-hours
";

/// Each of these differs from each other in one thing; they have as many inputs and as many ids.
#[test]
fn hash_tells_states_apart() {
    let states = [
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 => accepted, booked 4 @ 100",
        // Another price, quantity, side, owner, channel, number, group, firm, display, instrument.
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 101 => accepted, booked 4 @ 101",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 5 @ 100 => accepted, booked 5 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         sell A2 4 @ 101 => accepted, booked 4 @ 101",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         short A2 4 @ 101 => accepted, booked 4 @ 101",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy B2 4 @ 100 => accepted, booked 4 @ 100",
        "buy B2 4 @ 100 => accepted, booked 4 @ 100
         buy A1 4 @ 100 => accepted, booked 4 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A/1:2 4 @ 100 => accepted, booked 4 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A3 4 @ 100 => accepted, booked 4 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 group 1 => accepted, booked 4 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 firm OTHR => accepted, booked 4 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 attributable => accepted, booked 4 @ 100 as ACME",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 capacity A => accepted, booked 4 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 retail => accepted, booked 4 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 prevent W => accepted, booked 4 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 among G1 => accepted, booked 4 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 post-only => accepted, booked 4 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 hidden => accepted, booked 4 @ 100 hidden",
        // State other than orders.
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         buy A2 4 @ 100 ioc => accepted, canceled A2 4 ioc",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         cancel A1 to 3 => canceled A1 1 leaving 3",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         sell B1 1 @ 100 => accepted, trade A1 B1 1 @ 100",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         disable A2 ACME => disabled",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         enable A2 ACME => enabled",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         instrument IBM => instrument 2",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         instrument IBM increment 2 => instrument 2",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         session C => session 3 open",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         session C max 7 => session 3 open",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         session C prevent D => session 3 open",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         sell A2 1 @ 100 prevent D => accepted, prevented A1 1 @ 100 D leaving 3, prevented A2 1 @ 100 D",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         day start-of-market-hours => day start-of-market-hours",
        "buy A1 4 @ 100 => accepted, booked 4 @ 100
         query A => next 2",
    ];
    let hashes = states.map(|scenario| {
        let mut world = World::default();
        world.play(MARKET);
        world.play(scenario);
        world.engine().state_hash()
    });
    for (index, hash) in hashes.iter().enumerate() {
        let same = hashes.iter().position(|other| other == hash);
        assert_eq!(same, Some(index), "two states have one hash:\n{}", states[index]);
    }
}

/// The same for money: each state has as many inputs, and differs from each other in one thing.
#[test]
fn hash_tells_money_apart() {
    const ACCOUNTS: &str = "
        asset SHR 0                     => asset 1
        asset USD 2                     => asset 2
        account P                       => account 1
        account Q                       => account 2
        assign A P                      => A is of P
    ";
    let states = [
        "deposit P 100 USD              => deposit P 100 USD",
        "deposit P 101 USD              => deposit P 101 USD",
        "deposit P 18446744073709551716 USD => deposit P 18446744073709551716 USD",
        "deposit P 100 SHR              => deposit P 100 SHR",
        "deposit Q 100 USD              => deposit Q 100 USD",
        "deposit - 100 USD              => deposit - 100 USD",
        "deposit P 0 USD                => declined InvalidAmount",
        "asset EUR 2                    => asset 3",
        "asset EUR 3                    => asset 3",
        "asset EUX 2                    => asset 3",
        "account R                      => account 3",
        "account S                      => account 3",
        "assign B P                     => B is of P",
        "assign B Q                     => B is of Q",
        "assign A Q                     => A is of Q",
        "stop P                         => stopped P",
        "stop Q                         => stopped Q",
        "fees 1 1 2                     => fees of 1",
        "fees 2 1 2                     => fees of 2",
        "fees 1 2 1                     => fees of 1",
        "fees 1 0 2                     => fees of 1",
        "set P FeeTier 5                => set FeeTier to 5",
        "set P OrderQuantityMax 5       => set OrderQuantityMax to 5",
        "set P LiveOrdersMax 5          => set LiveOrdersMax to 5",
        "set P OrdersPerSecondMax 5     => set OrdersPerSecondMax to 5",
        "set P PriceAwayMax 5           => set PriceAwayMax to 5",
        "set Q PriceAwayMax 5           => set PriceAwayMax to 5",
        "set P OrderNotionalMax 5 USD   => set OrderNotionalMax to 5",
        "set P PositionMax 5 USD        => set PositionMax to 5",
        "set P ShortMax 5 USD           => set ShortMax to 5",
        "set P ShortMax 5 SHR           => set ShortMax to 5",
        "set Q ShortMax 5 SHR           => set ShortMax to 5",
        "terms AAPL cash SHR USD        => terms of AAPL",
        "terms AAPL position SHR USD    => terms of AAPL",
        "terms AAPL cash USD SHR        => terms of AAPL",
        "terms AAPL cash SHR USD units 2    => terms of AAPL",
        "terms AAPL cash SHR USD pay 2 / 1  => terms of AAPL",
        "terms AAPL cash SHR USD pay 1 / 2  => terms of AAPL",
        "terms AAPL cash SHR USD max 2      => terms of AAPL",
        "terms AAPL none max 2              => terms of AAPL",
    ];
    let hashes = states.map(|scenario| {
        let mut world = World::default();
        world.play(MARKET);
        world.play(ACCOUNTS);
        world.play(scenario);
        world.engine().state_hash()
    });
    for (index, hash) in hashes.iter().enumerate() {
        let same = hashes.iter().position(|other| other == hash);
        assert_eq!(same, Some(index), "two states have one hash:\n{}", states[index]);
    }
}

/// Two histories of one length that end in the same state have the same hash, wherever the window
/// of the ladder and the free slots of the pool are by then.
#[test]
fn hash_forgets_how_a_state_came_about() {
    let last = "
        buy A5 4 @ 100      => accepted, booked 4 @ 100
        sell A6 4 @ 101     => accepted, booked 4 @ 101
        ";
    let histories = [
        "buy A1 9 @ 10      => accepted, booked 9 @ 10
         sell A2 9 @ 9000   => accepted, booked 9 @ 9000
         cancel A1          => canceled A1 9
         cancel A2          => canceled A2 9",
        "sell B1 1 @ 777    => accepted, booked 1 @ 777
         cancel B1          => canceled B1 1
         buy B2 2 @ 777     => accepted, booked 2 @ 777
         cancel B2          => canceled B2 2",
    ];
    let [one, other] = histories.map(|history| {
        let mut world = World::default();
        world.play(MARKET);
        world.play(history);
        // The numbers used differ so far; with the same last ones the states are equal.
        world.play("buy A3 0 @ 1 => rejected A3 InvalidQuantity");
        world.play("reject B4 InvalidSide => rejected B4 InvalidSide");
        world.play(last);
        world.engine().state_hash()
    });
    assert_eq!(one, other);
}

/// Books, depth, sessions, orders and counters are seen as they are.
#[test]
fn state_can_be_seen() {
    let mut world = World::default();
    world.play(MARKET);
    world.play(
        "
        buy A1 4 @ 100              => accepted, booked 4 @ 100
        buy B1 5 @ 100              => accepted, booked 5 @ 100
        buy A2 6 @ 98               => accepted, booked 6 @ 98
        sell A3 7 @ 103             => accepted, booked 7 @ 103
        sell B2 1 @ 100             => accepted, trade A1 B2 1 @ 100
        replace A2 by A4 6 @ 99     => replaced A2 by A4 buy 6 @ 99 in place
        ",
    );
    let engine = world.engine();
    assert_eq!(
        engine.counters(),
        Counters { orders_accepted: 5, orders_replaced: 1, trades: 1, orders_live: 4 }
    );
    assert_eq!(engine.sequence(), Sequence(10));
    assert_eq!(engine.timestamp(), Timestamp(9_000));
    assert_eq!(engine.system_event(), Some(SystemEvent::StartOfSystemHours));
    assert!(engine.is_open());

    let book = engine.book(InstrumentId(1)).unwrap();
    assert_eq!(book.best_bid(), Some(Price(100)));
    assert_eq!(book.best_ask(), Some(Price(103)));
    let level = |price, leaves, order_count| DepthLevel {
        price: Price(price),
        leaves: Quantity(leaves),
        order_count,
    };
    assert!(book.bid_levels().eq([level(100, 8, 2), level(99, 6, 1)]));
    assert!(book.ask_levels().eq([level(103, 7, 1)]));
    for order in book.bids().chain(book.asks()) {
        assert_eq!(engine.order(order.key), Some(order));
    }
    assert!(engine.book(InstrumentId(0)).is_none());
    assert!(engine.book(InstrumentId(2)).is_none());

    let live: Vec<_> = engine.sessions().map(|session| session.live_orders()).collect();
    assert_eq!(live, [3, 1]);
    let last: Vec<_> = engine.sessions().map(|session| session.user_ref_num_last(0)).collect();
    assert_eq!(last, [4, 2]);
}

fn input(sequence: u64, timestamp: u64) -> Input {
    Input {
        sequence: Sequence(sequence),
        timestamp: Timestamp(timestamp),
        command: Command::System(SystemEvent::StartOfMessages),
    }
}

/// A gap in the log is a fault that no later input could repair.
#[test]
#[should_panic(expected = "0 then")]
fn gap_in_the_sequence_stops_the_engine() {
    Engine::new().apply(&input(2, 1), &mut |_| ());
}

/// Time that goes back is such a fault, too.
#[test]
#[should_panic(expected = "Timestamp(7) then")]
fn time_that_goes_back_stops_the_engine() {
    let mut engine = Engine::new();
    engine.apply(&input(1, 7), &mut |_| ());
    engine.apply(&input(2, 6), &mut |_| ());
}
