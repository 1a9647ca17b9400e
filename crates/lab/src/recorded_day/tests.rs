//! Days of our own venue, and days by hand, made into orders, taken by another venue, and compared.

use std::io::Cursor;

use engine::Engine;
use market::{
    Command, Display, Event, Input, MoneyCommand, MoneyTerms, Output, Price, Quantity,
    ReplaceOrder, Sequence, SessionId, SetTerms, Symbol, Timestamp,
};
use proof::{
    generator::{CommandFlow, Profile},
    rng::Rng,
};
use venue::config::{Config, MoneyClassName};
use wire::itch::Encoder;

use super::*;
use crate::{
    bench::market_set_up,
    order_file::{InstrumentTable, OrderFile},
};

const SESSIONS: u16 = 3;

/// The feed of a venue that takes these commands.
fn feed_of(commands: impl IntoIterator<Item = Command>) -> Vec<Vec<u8>> {
    let (mut engine, mut encoder) = (Engine::new(), Encoder::new());
    let mut messages = Vec::new();
    for (sequence, command) in (1..).map(Sequence).zip(commands) {
        let timestamp = Timestamp(sequence.0 * 1_000);
        engine.apply(&Input { sequence, timestamp, command }, &mut |event: Event| {
            let output = Output { cause: sequence, timestamp, event };
            encoder.encode(&output, &mut |message| messages.push(message.to_vec()));
        });
    }
    messages
}

/// A day as orders.
struct Made {
    rows: RowCounts,
    divergences: Divergences,
    symbols: Vec<Symbol>,
    file: Vec<u8>,
}

fn orders_of(day: &[Vec<u8>], sessions: u16) -> Made {
    let mut made = DayOrders::new(Vec::new(), sessions).unwrap();
    for (number, message) in (1..).zip(day) {
        made.take(number, message).unwrap();
    }
    let (rows, divergences, symbols) = (made.rows(), made.divergences().clone(), made.symbols());
    Made { rows, divergences, symbols, file: made.into_inner() }
}

/// The feed of a fresh venue that takes the orders, read from the files as they were written.
fn replayed(made: &Made, sessions: u16) -> Vec<Vec<u8>> {
    let mut instruments = Vec::new();
    write_instruments(&made.symbols, &mut instruments).unwrap();
    let table = InstrumentTable::from_reader("instruments", Cursor::new(instruments)).unwrap();
    let set_up = market_set_up(&made.symbols, (Price(1), Quantity(100)), u32::from(sessions))
        .collect::<Vec<_>>();
    let mut file = OrderFile::from_reader("day", Cursor::new(made.file.clone()), table).unwrap();
    let mut commands = set_up;
    // As in the configuration of `write_venue`.
    let terms = MoneyTerms::unpaid(Quantity(to_orders::QUANTITY_MAX));
    commands.extend(
        made.symbols.iter().map(|symbol| {
            Command::Money(MoneyCommand::SetTerms(SetTerms { symbol: *symbol, terms }))
        }),
    );
    while let Some(participant) = file.next_participant().unwrap() {
        file.time_ns().unwrap();
        let session = participant.as_str().strip_prefix("user").unwrap().parse().unwrap();
        commands.push(file.command(SessionId(session)).unwrap());
    }
    feed_of(commands)
}

/// Reads both feeds as `damrak feed compare` does.
fn compared(day: &[Vec<u8>], venue: &[Vec<u8>]) -> DayComparison {
    let mut comparison = DayComparison::default();
    let (mut day, mut venue) = ((1..).zip(day).peekable(), (1..).zip(venue).peekable());
    while day.peek().is_some() || venue.peek().is_some() {
        let is_day = match comparison.behind() {
            LineName::Day => day.peek().is_some(),
            LineName::Venue => venue.peek().is_none(),
        };
        if is_day {
            let (number, message) = day.next().unwrap();
            comparison.take_day(number, message);
        } else {
            let (number, message) = venue.next().unwrap();
            comparison.take_venue(number, message);
        }
    }
    comparison.end();
    comparison
}

/// A profile of a market without hidden orders, auctions or waiting orders: the orders repeat all of its day.
fn plain() -> Profile {
    Profile {
        conditions_percent: 0,
        beyond_ouch_percent: 0,
        waits_percent: 0,
        minimum_percent: 0,
        good_till_time_percent: 0,
        odd_percent: 0,
        spread: 5,
        ..Profile::default()
    }
}

/// Whatever the day of a venue had, the orders made of it lead to its visible books, message by message. Trades
/// that a venue cannot repeat are named, and no others are missing.
#[test]
fn a_day_of_a_venue_leads_to_its_books() {
    let odd = Profile { spread: 5, odd_percent: 10, ..Profile::default() };
    let auctions = Profile { venue_per_mille: 5, ..odd.clone() };
    let (mut takes, mut replaces, mut hidden, mut crosses) = (0, 0, 0, 0);
    for (name, profile) in [("plain", plain()), ("odd", odd), ("auctions", auctions)] {
        for seed in 1..=8 {
            let case = format!("profile {name}, seed {seed}");
            let mut flow = CommandFlow::new(seed, profile.clone());
            let day = feed_of((0..20_000).map(|_| flow.next_command()));
            let made = orders_of(&day, SESSIONS);
            let venue = replayed(&made, SESSIONS);
            let comparison = compared(&day, &venue);
            assert_eq!(comparison.differences(), [], "{case}");
            let (instruments, books) = comparison.book_differences();
            assert_eq!(books, [], "{case}");
            assert!(instruments >= 3, "{case}: {instruments}");
            assert_eq!(comparison.refused(), 0, "{case}");
            assert!(!comparison.is_out_of_step(), "{case}");
            let lost: u64 = [
                Divergence::ExecutedInCross,
                Divergence::ExecutedAtOtherPrice,
                Divergence::ExecutedOutOfTurn,
            ]
            .map(|reason| made.divergences.messages_of(reason))
            .iter()
            .sum();
            assert_eq!(comparison.trades_missing().0, lost, "{case}");
            assert_eq!(made.divergences.messages_of(Divergence::Contradiction), 0, "{case}");
            takes += made.rows.takes;
            replaces += made.rows.replaces;
            hidden += made.divergences.messages_of(Divergence::HiddenExecution);
            crosses += made.divergences.messages_of(Divergence::Cross);
        }
    }
    assert!(
        takes > 1_000 && replaces > 100 && hidden > 10 && crosses > 10,
        "{takes} {replaces} {hidden} {crosses}"
    );
}

/// A day of orders that a venue can have is repeated in full, down to the last trade.
#[test]
fn a_plain_day_is_repeated_in_full() {
    let profile = Profile { jumps_per_million: 0, far_per_mille: 0, ..plain() };
    let mut flow = CommandFlow::new(3, profile);
    let shown = |mut command: Command| {
        match &mut command {
            Command::Enter(order) => order.display = Display::Visible,
            Command::Replace(ReplaceOrder { terms: Some(terms), .. }) => {
                terms.display = Display::Visible;
            }
            _ => {}
        }
        command
    };
    let day = feed_of((0..20_000).map(|_| shown(flow.next_command())));
    let made = orders_of(&day, SESSIONS);
    let noted: Vec<_> = made.divergences.iter().collect();
    let comparison = compared(&day, &replayed(&made, SESSIONS));
    assert!(made.rows.takes > 100, "{:?}", made.rows);
    assert_eq!(noted, []);
    assert_eq!(comparison.trades_missing(), (0, 0));
}

/// One message of a day by hand: its type and its fields after the time.
fn message(kind: u8, locate: u16, time_ns: u64, fields: &[&[u8]]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend(locate.to_be_bytes());
    message.extend([0; 2]);
    message.extend(&time_ns.to_be_bytes()[2..]);
    fields.iter().for_each(|field| message.extend(*field));
    wire::itch::decode(&message).unwrap();
    message
}

const AAA: u16 = 1;

fn listed() -> Vec<u8> {
    let mut fields = b"AAA     QN".to_vec();
    fields.extend(100_u32.to_be_bytes());
    fields.extend(b"NCZ PN NN1N");
    fields.resize(28, b' ');
    message(b'R', AAA, 1, &[&fields])
}

fn add(reference: u64, side: u8, shares: u32, price: u32) -> Vec<u8> {
    let (shares, price) = (shares.to_be_bytes(), price.to_be_bytes());
    message(b'A', AAA, 2, &[&reference.to_be_bytes(), &[side], &shares, b"AAA     ", &price])
}

fn executed(reference: u64, shares: u32) -> Vec<u8> {
    message(b'E', AAA, 3, &[&reference.to_be_bytes(), &shares.to_be_bytes(), &[0; 8]])
}

fn executed_at(reference: u64, shares: u32, printable: u8, price: u32) -> Vec<u8> {
    let (shares, price) = (shares.to_be_bytes(), price.to_be_bytes());
    message(b'C', AAA, 3, &[&reference.to_be_bytes(), &shares, &[0; 8], &[printable], &price])
}

fn deleted(reference: u64) -> Vec<u8> {
    message(b'D', AAA, 4, &[&reference.to_be_bytes()])
}

fn canceled(reference: u64, shares: u32) -> Vec<u8> {
    message(b'X', AAA, 4, &[&reference.to_be_bytes(), &shares.to_be_bytes()])
}

fn replaced(original: u64, new: u64, shares: u32, price: u32) -> Vec<u8> {
    let (shares, price) = (shares.to_be_bytes(), price.to_be_bytes());
    message(b'U', AAA, 5, &[&original.to_be_bytes(), &new.to_be_bytes(), &shares, &price])
}

fn hidden(shares: u32) -> Vec<u8> {
    let fields: &[&[u8]] =
        &[&[0; 8], b"B", &shares.to_be_bytes(), b"AAA     ", &100_u32.to_be_bytes(), &[0; 8]];
    message(b'P', AAA, 6, fields)
}

fn cross(shares: u64) -> Vec<u8> {
    let fields: &[&[u8]] =
        &[&shares.to_be_bytes(), b"AAA     ", &100_u32.to_be_bytes(), &[0; 8], b"O"];
    message(b'Q', AAA, 6, fields)
}

/// Each row as the file has it, without the time and the participant.
fn rows(made: &Made) -> Vec<String> {
    let text = std::str::from_utf8(&made.file).unwrap();
    let rows = text.lines().skip(1);
    rows.map(|row| row.splitn(3, ',').nth(2).unwrap().to_owned()).collect()
}

fn reasons(made: &Made) -> Vec<(Divergence, u64, u64)> {
    made.divergences.iter().map(|(reason, noted)| (reason, noted.messages, noted.shares)).collect()
}

/// The venue that takes the orders has the day's final books, without the orders that it cannot have.
fn leads_to_the_same(day: &[Vec<u8>], made: &Made) -> DayComparison {
    let comparison = compared(day, &replayed(made, 1));
    assert_eq!(comparison.differences(), []);
    comparison
}

/// Orders, executions, cancels, replaces: each becomes the request that leads to it. Quantities of cancels and replaces
/// include the shares that the chain of orders executed.
#[test]
fn each_message_becomes_its_request() {
    let day = [
        listed(),
        add(70, b'B', 500, 1_000_000),
        add(71, b'S', 300, 1_000_100),
        executed(70, 100),
        canceled(70, 50),
        replaced(70, 72, 400, 1_000_050),
        executed(72, 100),
        canceled(72, 100),
        executed_at(71, 300, b'Y', 1_000_100),
        deleted(72),
    ];
    let made = orders_of(&day, 1);
    assert_eq!(
        rows(&made),
        [
            "1,place,,AAA,buy,day,100.0000,500",
            "2,place,,AAA,sell,day,100.0100,300",
            "3,place,,AAA,sell,ioc,100.0000,100",
            "1,cancel,,AAA,,,,450",
            "1,replace,4,AAA,,day,100.0050,500",
            "5,place,,AAA,sell,ioc,100.0050,100",
            "4,cancel,,AAA,,,,400",
            "6,place,,AAA,buy,ioc,100.0100,300",
            "4,cancel,,AAA,,,,",
        ]
    );
    assert_eq!(reasons(&made), []);
    let comparison = leads_to_the_same(&day, &made);
    assert_eq!((comparison.agreed(), comparison.trades_missing()), (10, (0, 0)));
}

/// A sum of cross shares beyond 64 bits is reported as the largest value of 64 bits.
#[test]
fn shares_of_crosses_have_a_highest_sum() {
    let day = [listed(), cross(u64::MAX), cross(900)];
    assert_eq!(reasons(&orders_of(&day, 1)), [(Divergence::Cross, 2, u64::MAX)]);
}

/// Divergences are named, with their shares and first messages; the books follow all the same.
#[test]
fn what_cannot_be_repeated_is_named() {
    let day = [
        listed(),
        add(1, b'B', 500, 1_000_000),
        add(2, b'B', 500, 1_000_000),
        hidden(40),
        cross(900),
        cross(0),
        executed(2, 100),                    // not the first at its price
        executed_at(1, 10, b'Y', 999_900),   // at another price
        executed_at(1, 20, b'N', 1_000_000), // in a cross
        executed(9, 10),                     // never added
        add(3, b'S', 7, 1_000_000),          // would trade with 1
        canceled(3, 2),                      // and so never is
        replaced(3, 4, 6, 1_000_100),
        deleted(4),
        add(6, b'S', 1, 2_000_000_000),     // above the highest price
        add(1, b'S', 1, 1_000_200),         // the number of a live order
        replaced(2, 8, 700, 2_000_000_000), // a replacement that cannot be
        message(b'H', AAA, 7, &[b"AAA     ", b"H", b" ", b"T1  "]),
        message(b'H', AAA, 8, &[b"AAA     ", b"T", b" ", b"    "]),
        message(b'B', AAA, 9, &[&[0; 8]]),
    ];
    let made = orders_of(&day, 1);
    assert_eq!(
        reasons(&made),
        [
            (Divergence::HiddenExecution, 1, 40),
            (Divergence::Cross, 1, 900),
            (Divergence::ExecutedInCross, 1, 20),
            (Divergence::ExecutedAtOtherPrice, 1, 10),
            (Divergence::ExecutedOutOfTurn, 1, 100),
            (Divergence::WouldTrade, 1, 7),
            (Divergence::PriceLimit, 2, 1 + 700),
            (Divergence::UnknownReference, 1, 10),
            (Divergence::FollowsLeftOut, 3, 2 + 5 + 6),
            (Divergence::Contradiction, 1, 1),
            (Divergence::Stopped, 1, 0),
            (Divergence::BrokenTrade, 1, 0),
        ]
    );
    let (_, noted) = made.divergences.iter().next().unwrap();
    assert_eq!((noted.examples[0].message, noted.examples[0].symbol.as_str()), (4, "AAA"));
    assert_eq!(
        rows(&made),
        [
            "1,place,,AAA,buy,day,100.0000,500",
            "2,place,,AAA,buy,day,100.0000,500",
            "2,cancel,,AAA,,,,400",
            "1,cancel,,AAA,,,,490",
            "1,cancel,,AAA,,,,470",
            "2,cancel,,AAA,,,,",
        ]
    );
    let comparison = leads_to_the_same(&day, &made);
    assert_eq!(comparison.trades_missing(), (3, 130));
    // The day's books have the orders left out; here all of them are gone, so nothing differs.
    assert_eq!(comparison.book_differences(), (1, vec![]));
}

/// Orders of all the lots that ITCH can express are repeated. A chain of replaces whose executions leave no room for a
/// quantity goes on as a new order.
#[test]
fn a_chain_at_its_limit_goes_on_as_a_new_order() {
    let most = u32::MAX;
    let mut day = vec![listed(), add(1, b'B', most, 1_000_000), executed(1, 4_000_000_000)];
    day.extend([replaced(1, 2, 500_000_000, 1_000_000), canceled(2, 1), executed(2, 10)]);
    day.extend([add(3, b'S', 1, 1_000_100), replaced(3, 4, most, 1_000_200)]);
    let made = orders_of(&day, 1);
    assert_eq!(
        rows(&made),
        [
            "1,place,,AAA,buy,day,100.0000,4294967295",
            "2,place,,AAA,sell,ioc,100.0000,4000000000",
            "1,cancel,,AAA,,,,",
            "3,place,,AAA,buy,day,100.0000,500000000",
            "3,cancel,,AAA,,,,499999999",
            "4,place,,AAA,sell,ioc,100.0000,10",
            "5,place,,AAA,sell,day,100.0100,1",
            "5,replace,6,AAA,,day,100.0200,4294967295",
        ]
    );
    assert_eq!(reasons(&made), []);
    assert_eq!(leads_to_the_same(&day, &made).trades_missing(), (0, 0));
}

/// The venue of a replay takes orders of so many lots, without money.
#[test]
fn the_venue_of_a_replay_takes_such_orders() {
    let mut written = Vec::new();
    let symbols = [Symbol::new("AAA").unwrap()];
    write_venue(&symbols, 1, &mut written).unwrap();
    let config = Config::parse(std::str::from_utf8(&written).unwrap(), "venue.toml").unwrap();
    let money = config.instruments[0].money.as_ref().unwrap();
    assert_eq!((money.class, money.quantity_max), (MoneyClassName::None, u32::MAX.into()));
}

/// A venue that lost an order, or had one more, is detected: the report has the place where its feed parts, the likely
/// reason, and the books at the end.
#[test]
fn a_venue_that_differs_is_found_out() {
    let day = [
        listed(),
        add(1, b'B', 500, 1_000_000),
        hidden(3),
        add(2, b'B', 200, 1_000_000),
        deleted(1),
    ];
    let made = orders_of(&day, 1);
    let venue = replayed(&made, 1);
    let adds = |it: &&Vec<u8>| it[0] == b'A';
    let second = venue.iter().filter(adds).nth(1).unwrap().clone();
    let without: Vec<_> = venue.iter().filter(|it| **it != second).cloned().collect();
    let comparison = compared(&day, &without);
    let [parted] = comparison.differences() else { panic!("{:?}", comparison.differences()) };
    assert_eq!(parted.symbol, "AAA");
    assert_eq!(parted.day, Some((4, "order buys 200 at 100.0000".to_owned())));
    let lost = parted.venue.as_ref().map(|it| it.1.as_str());
    assert_eq!(lost, Some("order number 1 of the book loses 500"));
    assert_eq!(parted.after, Some((3, Divergence::HiddenExecution)));
    let (_, books) = comparison.book_differences();
    let expected = BookDifference {
        symbol: "AAA".to_owned(),
        side: "buy",
        place: 1,
        day: Some((1_000_000, 200)),
        venue: None,
    };
    assert_eq!(books, [expected]);

    let nothing = compared(&day, &[]);
    assert_eq!(nothing.differences()[0].venue, None);
    assert_eq!(nothing.book_differences().1.len(), 1);
}

/// Whatever the messages are, the rows are ones that an order file may have, and memory of orders that are gone is
/// given back.
#[test]
fn any_messages_become_readable_rows() {
    for seed in 1..=20 {
        let mut rng = Rng::new(seed);
        let mut day = vec![listed()];
        for _ in 0..2_000 {
            let (one, two) = (rng.below(12), rng.below(12));
            let shares = [0, 1, 100, 5_000, 999_999, 1_000_000][rng.below(6) as usize];
            let price = [0, 1, 999_900, 1_000_000, 1_000_100, u32::MAX][rng.below(6) as usize];
            let side = [b'B', b'S', b'?'][rng.below(11).saturating_sub(8) as usize];
            day.push(match rng.below(8) {
                0..=2 => add(one, side, shares, price),
                3 => executed(one, shares),
                4 => executed_at(one, shares, [b'Y', b'N'][rng.below(2) as usize], price),
                5 => canceled(one, shares),
                6 => deleted(one),
                _ => replaced(one, two, shares, price),
            });
        }
        let made = orders_of(&day, 1);
        let comparison = compared(&day, &replayed(&made, 1));
        assert_eq!(comparison.differences(), [], "seed {seed}");
        assert!(made.rows.rows() > 100, "seed {seed}: {:?}", made.rows);
    }
}
