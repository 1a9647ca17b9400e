//! Derived data by feeds made by hand: statistics, undone trades, days, and a mirror that was lapped.

use std::sync::Arc;

use ring::{AtomicGauge, Builder, Words};
use wire::{
    field::U48,
    itch::{
        AddOrder, BrokenTrade, CrossTrade, OrderExecuted, OrderExecutedWithPrice, StockDirectory,
        Trade,
    },
    layout::{IntoBytes, Message as _},
};

use super::*;
use crate::FeedBooks;

const STOCK: [u8; 8] = *b"AAA     ";
const HOUR_NS: u64 = 3_600_000_000_000;
/// 12:00 of a day.
const NOON: u64 = 20_000 * NANOS_PER_DAY + 12 * HOUR_NS;

/// A feed that is made by hand, with its books and the derived data.
struct Bench {
    books: FeedBooks,
    data: DerivedData,
    number: u64,
    now_ns: u64,
    updates: Vec<DerivedUpdate>,
}

impl Bench {
    fn new(trades_max: usize) -> Self {
        let mut bench = Self {
            books: FeedBooks::new(),
            data: DerivedData::new(trades_max),
            number: 0,
            now_ns: NOON,
            updates: Vec::new(),
        };
        bench.take(&directory_bytes(NOON));
        bench
    }

    fn time(&self) -> U48 {
        U48::new(self.now_ns % NANOS_PER_DAY)
    }

    fn take(&mut self, message: &[u8]) {
        self.number += 1;
        let mut changes = Vec::new();
        self.books.take(self.number, message, &mut |change| changes.push(change));
        let Self { data, number, now_ns, updates, .. } = self;
        data.take(*number, message, &changes, *now_ns, &mut |update| updates.push(update));
    }

    fn add(&mut self, order: u64, price: u32, lots: u32) {
        self.take(&add_bytes(self.now_ns, order, price, lots));
    }

    fn execute(&mut self, order: u64, lots: u32, match_number: u64) {
        self.take(&executed_bytes(self.now_ns, order, lots, match_number));
    }

    /// An order rests and is executed in full.
    fn trade(&mut self, price: u32, lots: u32, match_number: u64) {
        self.add(1_000_000 + match_number, price, lots);
        self.execute(1_000_000 + match_number, lots, match_number);
    }

    fn undo(&mut self, match_number: u64) {
        let timestamp = self.time();
        self.take(
            BrokenTrade {
                message_type: BrokenTrade::TYPE,
                stock_locate: 1.into(),
                tracking_number: 0.into(),
                timestamp,
                match_number: match_number.into(),
            }
            .as_bytes(),
        );
    }

    fn prices(&self) -> [Option<u32>; 4] {
        let it = self.data.statistics(1).unwrap();
        [it.open, it.high, it.low, it.last]
    }

    fn volume(&self) -> (u64, u64) {
        let it = self.data.statistics(1).unwrap();
        (it.volume, it.trades)
    }
}

/// Open, high, low, last and volume are those of the trades; orders that trade nothing do not count.
#[test]
fn statistics_are_those_of_the_trades() {
    let mut bench = Bench::new(100);
    assert_eq!((bench.prices(), bench.volume()), ([None; 4], (0, 0)));
    bench.add(1, 400, 10);
    for (number, price) in [(1, 100), (2, 130), (3, 90), (4, 110)] {
        bench.trade(price, 5, number);
    }
    assert_eq!(bench.prices(), [Some(100), Some(130), Some(90), Some(110)]);
    assert_eq!(bench.volume(), (20, 4));
    assert!(bench.data.statistics(1).unwrap().is_whole_day);
    let timestamp = bench.time();
    bench.take(
        Trade {
            message_type: Trade::TYPE,
            stock_locate: 1.into(),
            tracking_number: 0.into(),
            timestamp,
            order_reference_number: 0.into(),
            buy_sell_indicator: b'B',
            shares: 7.into(),
            stock: STOCK,
            price: 140.into(),
            match_number: 5.into(),
        }
        .as_bytes(),
    );
    assert_eq!(bench.prices(), [Some(100), Some(140), Some(90), Some(140)]);
    assert_eq!(bench.volume(), (27, 5));
}

/// A trade that is undone leaves no trace in the statistics, also if it was the first, the last, the highest or the
/// lowest. An undone trade that is no longer known stays in them, and is counted.
#[test]
fn an_undone_trade_leaves_the_statistics() {
    let mut bench = Bench::new(4);
    for (number, price) in [(1, 100), (2, 130), (3, 90), (4, 110)] {
        bench.trade(price, 5, number);
    }
    bench.undo(2);
    assert_eq!(bench.prices(), [Some(100), Some(110), Some(90), Some(110)]);
    bench.undo(1);
    assert_eq!(bench.prices(), [Some(90), Some(110), Some(90), Some(110)]);
    bench.undo(4);
    assert_eq!(bench.prices(), [Some(90); 4]);
    assert_eq!(bench.volume(), (5, 1));
    bench.undo(3);
    assert_eq!((bench.prices(), bench.volume()), ([None; 4], (0, 0)));
    let it = bench.data.statistics(1).unwrap();
    assert_eq!((it.undone, it.undone_unknown), (4, 0));
    for number in 10..16 {
        bench.trade(200 + number as u32, 1, number);
    }
    bench.undo(10);
    let it = bench.data.statistics(1).unwrap();
    assert_eq!((it.volume, it.trades, it.undone_unknown), (6, 6, 1), "only four are known");
}

/// A cross counts once, with all its lots; its single trades do not, and lower the volume when they are undone.
#[test]
fn a_cross_counts_once() {
    let mut bench = Bench::new(100);
    bench.add(1, 120, 10);
    bench.add(2, 120, 10);
    let timestamp = bench.time();
    let part = |order: u64, match_number: u64| OrderExecutedWithPrice {
        message_type: OrderExecutedWithPrice::TYPE,
        stock_locate: 1.into(),
        tracking_number: 0.into(),
        timestamp,
        order_reference_number: order.into(),
        executed_shares: 10.into(),
        match_number: match_number.into(),
        printable: b'N',
        execution_price: 115.into(),
    };
    // The two displayed orders of one trade.
    bench.take(part(1, 7).as_bytes());
    bench.take(part(2, 7).as_bytes());
    assert_eq!(bench.volume(), (0, 0));
    let cross = |shares: u64| CrossTrade {
        message_type: CrossTrade::TYPE,
        stock_locate: 1.into(),
        tracking_number: 0.into(),
        timestamp,
        shares: shares.into(),
        stock: STOCK,
        cross_price: 115.into(),
        match_number: 8.into(),
        cross_type: b'O',
    };
    bench.take(cross(25).as_bytes());
    assert_eq!((bench.prices(), bench.volume()), ([Some(115); 4], (25, 1)));
    bench.undo(7);
    assert_eq!((bench.prices(), bench.volume()), ([Some(115); 4], (15, 1)));
    bench.take(cross(0).as_bytes());
    assert_eq!(bench.volume(), (15, 1), "an auction without a trade is none");
}

/// The first trade after midnight begins a new day, also while the clock of the machine is still before it.
#[test]
fn a_new_day_begins_with_its_first_trade() {
    let mut bench = Bench::new(100);
    bench.trade(100, 5, 1);
    let midnight = 20_001 * NANOS_PER_DAY;
    bench.now_ns = midnight - 1;
    bench.trade(90, 5, 2);
    assert_eq!(bench.volume(), (10, 2));
    bench.now_ns = midnight + 1;
    bench.trade(95, 3, 3);
    assert_eq!((bench.prices(), bench.volume()), ([Some(95); 4], (3, 1)));
    assert_eq!(bench.data.statistics(1).unwrap().day, 20_001);
    assert_eq!(moment(1, midnight - 5), midnight + 1);
    assert_eq!(moment(NANOS_PER_DAY - 1, midnight + 5), midnight - 1);
}

/// Statistics that begin in the middle of a day say so, until the next day.
#[test]
fn a_day_that_is_not_whole_says_so() {
    let mut bench = Bench::new(100);
    bench.data.begin_after_trades(2, NOON);
    bench.data.list(1, STOCK, 20_000);
    bench.trade(100, 5, 1);
    let it = *bench.data.statistics(1).unwrap();
    assert_eq!((it.is_whole_day, it.since, it.volume), (false, 2, 5));
    bench.now_ns += NANOS_PER_DAY;
    bench.trade(110, 5, 2);
    let it = *bench.data.statistics(1).unwrap();
    assert_eq!((it.is_whole_day, it.volume), (true, 5));
}

/// An update reads back as it was written.
#[test]
fn updates_go_through_words() {
    let trade = DerivedTrade {
        number: u64::MAX - 1,
        stock_locate: 65_535,
        price: u32::MAX - 1,
        lots: 1 << 40,
        match_number: 1 << 63,
        time_ns: NOON,
        kind: TradeKind::Cross,
    };
    let mut bench = Bench::new(100);
    bench.trade(100, 5, 1);
    let statistics = *bench.data.statistics(1).unwrap();
    let empty = Statistics::begin(7, 8, false);
    let level = PriceLevel { price: 5, lots: 1 << 35, orders: 9 };
    let facts = [
        DerivedFact::Held,
        DerivedFact::Instrument { stock_locate: 3, symbol: STOCK, trading_state: b'T' },
        DerivedFact::Level { stock_locate: 4, is_bid: true, level },
        DerivedFact::Level { stock_locate: 4, is_bid: false, level },
        DerivedFact::Trade { ordinal: 6, trade },
        DerivedFact::Trade { ordinal: 6, trade: DerivedTrade { kind: TradeKind::Hidden, ..trade } },
        DerivedFact::Undone { ordinal: 1, number: 2, stock_locate: 3, match_number: 4 },
        DerivedFact::Statistics { stock_locate: 2, statistics },
        DerivedFact::Statistics { stock_locate: 2, statistics: empty },
        DerivedFact::Begin { request: 5 },
        DerivedFact::End { request: 5, ordinal: 77 },
    ];
    for (number, fact) in (1..).zip(facts) {
        for is_last in [false, true] {
            let update = DerivedUpdate { number, is_last, fact };
            let mut words = [u64::MAX; DerivedUpdate::WORDS];
            update.to_words(&mut words);
            assert_eq!(DerivedUpdate::from_words(&words), update);
        }
    }
}

/// A mirror that was lapped shows nothing until everything was repeated, part by part while the feed goes on; then it
/// shows the same, and knows how many trades it missed.
#[test]
fn a_mirror_that_missed_something_has_it_repeated() {
    let mut builder = Builder::new("derived", 4096);
    let from = builder.lossy("mirror");
    let (to, _) = builder.build();
    let wanted = Arc::new(AtomicGauge::new(0));
    let mut publisher = DerivedPublisher::new();
    publisher.add(to, Arc::clone(&wanted), 64);
    let mut mirror = DerivedMirror::new(from, wanted, 64);
    let mut books = FeedBooks::new();
    let feed: Vec<_> =
        (1..=3_000).map(|order| add_bytes(NOON, order, 1_000 + order as u32, 10)).collect();
    let mut number = 0;
    let mut give = |publisher: &mut DerivedPublisher, message: &[u8]| {
        number += 1;
        publisher.take(&mut books, number, message, NOON);
    };
    give(&mut publisher, &directory_bytes(NOON));
    let (first, rest) = feed.split_at(2_500);
    first.iter().for_each(|message| give(&mut publisher, message));
    assert!(!mirror.is_held(), "nothing was repeated yet");
    let mut turns = 0;
    while !mirror.is_held() {
        publisher.turn();
        mirror.poll(usize::MAX);
        turns += 1;
    }
    assert!(turns >= 2_500 / 1024, "a turn repeats a part: {turns}");
    assert_eq!((mirror.number(), mirror.instruments()[0].levels.bids().count()), (2_501, 2_500));
    let request = mirror.request();
    // More than the ring holds, with trades among it.
    for message in rest {
        give(&mut publisher, message);
    }
    for round in 0..2_500 {
        give(&mut publisher, &executed_bytes(NOON, round + 1, 1, round + 1));
    }
    mirror.poll(usize::MAX);
    assert!(!mirror.is_held() && mirror.counts().1 > 0);
    for round in 0..20 {
        // The feed goes on between the parts.
        publisher.turn();
        give(&mut publisher, &executed_bytes(NOON, round + 1, 1, 10_000 + round));
        mirror.poll(usize::MAX);
    }
    assert!(mirror.is_held() && mirror.request() == request + 1);
    assert_eq!(mirror.number(), 1 + 3_000 + 2_500 + 20);
    let own = &mirror.instruments()[0];
    assert_eq!(Some(&own.levels), publisher.data.levels(1));
    assert_eq!(Some(&own.statistics), publisher.data.statistics(1));
    assert_eq!((own.statistics.trades, mirror.ordinal_next()), (2_520, 2_520));
    let ordinals: Vec<_> = mirror.tape().map(|(ordinal, _)| *ordinal).collect();
    assert_eq!(ordinals.last(), Some(&2_519));
    assert!(ordinals.len() <= 64 && ordinals.is_sorted());
}

fn directory_bytes(now_ns: u64) -> Vec<u8> {
    StockDirectory {
        message_type: StockDirectory::TYPE,
        stock_locate: 1.into(),
        tracking_number: 0.into(),
        timestamp: U48::new(now_ns % NANOS_PER_DAY),
        stock: STOCK,
        market_category: b' ',
        financial_status_indicator: b' ',
        round_lot_size: 100.into(),
        round_lots_only: b'N',
        issue_classification: b'C',
        issue_sub_type: *b"Z ",
        authenticity: b'P',
        short_sale_threshold_indicator: b' ',
        ipo_flag: b' ',
        luld_reference_price_tier: b' ',
        etp_flag: b' ',
        etp_leverage_factor: 0.into(),
        inverse_indicator: b'N',
    }
    .as_bytes()
    .to_vec()
}

fn add_bytes(now_ns: u64, order: u64, price: u32, lots: u32) -> Vec<u8> {
    AddOrder {
        message_type: AddOrder::TYPE,
        stock_locate: 1.into(),
        tracking_number: 0.into(),
        timestamp: U48::new(now_ns % NANOS_PER_DAY),
        order_reference_number: order.into(),
        buy_sell_indicator: b'B',
        shares: lots.into(),
        stock: STOCK,
        price: price.into(),
    }
    .as_bytes()
    .to_vec()
}

fn executed_bytes(now_ns: u64, order: u64, lots: u32, match_number: u64) -> Vec<u8> {
    OrderExecuted {
        message_type: OrderExecuted::TYPE,
        stock_locate: 1.into(),
        tracking_number: 0.into(),
        timestamp: U48::new(now_ns % NANOS_PER_DAY),
        order_reference_number: order.into(),
        executed_shares: lots.into(),
        match_number: match_number.into(),
    }
    .as_bytes()
    .to_vec()
}
