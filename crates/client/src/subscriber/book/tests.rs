//! Books from messages of the feed: their order, their states, and messages that cannot be.

use wire::{
    field::U48,
    itch::{
        AddOrder, AddOrderAttributed, BrokenTrade, CrossTrade, OrderCancel, OrderDelete,
        OrderExecuted, OrderExecutedWithPrice, OrderReplace, StockDirectory, StockTradingAction,
        SystemEvent, Trade,
    },
    layout::Message as _,
};

use super::*;

const AAA: u16 = 1;
const BBB: u16 = 2;

fn stock(locate: u16) -> [u8; 8] {
    if locate == AAA { *b"AAA     " } else { *b"BBB     " }
}

/// A feed of two instruments, and the books built from it.
struct Scene {
    book: FeedBook,
    stream_sequence: u64,
}

impl Scene {
    fn new() -> Self {
        let mut scene = Self { book: FeedBook::new(), stream_sequence: 0 };
        scene.accepts(&directory(AAA, *b"AAA     "));
        scene.accepts(&directory(BBB, *b"BBB     "));
        scene
    }

    fn apply(&mut self, message: &[u8]) -> Result<(), FeedError> {
        self.stream_sequence += 1;
        self.book.apply(self.stream_sequence, message)
    }

    fn accepts(&mut self, message: &Message<'_>) {
        self.apply(message.as_bytes()).unwrap();
    }

    /// Checks that the message is refused for this reason, and changes nothing.
    fn refused(&mut self, message: &Message<'_>, violation: FeedViolation) {
        let before = format!("{:?}", self.book);
        let error = self.apply(message.as_bytes()).unwrap_err();
        assert_eq!(
            error,
            FeedError { stream_sequence: self.stream_sequence, violation },
            "{error}"
        );
        assert_eq!(format!("{:?}", self.book), before);
    }

    /// Each order as (reference, price, shares).
    fn bids(&self, locate: u16) -> Vec<(u64, u32, u32)> {
        self.book.bids(locate).map(as_tuple).collect()
    }

    fn asks(&self, locate: u16) -> Vec<(u64, u32, u32)> {
        self.book.asks(locate).map(as_tuple).collect()
    }
}

fn as_tuple(order: FeedOrder) -> (u64, u32, u32) {
    (order.order_reference_number, order.price, order.shares)
}

/// The messages live as long as the tests.
fn leak<T>(message: T) -> &'static T {
    Box::leak(Box::new(message))
}

macro_rules! message {
        ($name:ident { $($field:ident: $value:expr),+ $(,)? }) => {
            Message::$name(leak($name {
                message_type: $name::TYPE,
                tracking_number: 0.into(),
                timestamp: U48::new(1),
                $($field: $value,)+
            }))
        };
    }

fn directory(locate: u16, symbol: [u8; 8]) -> Message<'static> {
    message!(StockDirectory {
        stock_locate: locate.into(),
        stock: symbol,
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
    })
}

fn add(locate: u16, reference: u64, side: u8, shares: u32, price: u32) -> Message<'static> {
    message!(AddOrder {
        stock_locate: locate.into(),
        order_reference_number: reference.into(),
        buy_sell_indicator: side,
        shares: shares.into(),
        stock: stock(locate),
        price: price.into(),
    })
}

fn executed(locate: u16, reference: u64, shares: u32) -> Message<'static> {
    message!(OrderExecuted {
        stock_locate: locate.into(),
        order_reference_number: reference.into(),
        executed_shares: shares.into(),
        match_number: 1.into(),
    })
}

fn cancel(locate: u16, reference: u64, shares: u32) -> Message<'static> {
    message!(OrderCancel {
        stock_locate: locate.into(),
        order_reference_number: reference.into(),
        canceled_shares: shares.into(),
    })
}

fn delete(locate: u16, reference: u64) -> Message<'static> {
    message!(OrderDelete { stock_locate: locate.into(), order_reference_number: reference.into() })
}

fn replace(locate: u16, original: u64, new: u64, shares: u32, price: u32) -> Message<'static> {
    message!(OrderReplace {
        stock_locate: locate.into(),
        original_order_reference_number: original.into(),
        new_order_reference_number: new.into(),
        shares: shares.into(),
        price: price.into(),
    })
}

/// Best prices come first on both sides, older orders first at a price, instruments apart.
#[test]
fn orders_stand_by_price_then_time() {
    let mut scene = Scene::new();
    for (reference, side, shares, price) in [
        (1, b'B', 10, 100),
        (2, b'B', 20, 101),
        (3, b'B', 30, 100),
        (4, b'S', 40, 103),
        (5, b'S', 50, 102),
        (6, b'S', 60, 103),
    ] {
        scene.accepts(&add(AAA, reference, side, shares, price));
    }
    scene.accepts(&message!(AddOrderAttributed {
        stock_locate: BBB.into(),
        order_reference_number: 7.into(),
        buy_sell_indicator: b'B',
        shares: 70.into(),
        stock: stock(BBB),
        price: u32::MAX.into(),
        attribution: *b"FIRM",
    }));
    assert_eq!(scene.bids(AAA), [(2, 101, 20), (1, 100, 10), (3, 100, 30)]);
    assert_eq!(scene.asks(AAA), [(5, 102, 50), (4, 103, 40), (6, 103, 60)]);
    assert_eq!(scene.bids(BBB), [(7, u32::MAX, 70)]);
    let levels: Vec<Level> = scene.book.bid_levels(AAA).collect();
    assert_eq!(levels[1], Level { price: 100, shares: 40, order_count: 2 });
    let best = scene.book.ask_levels(AAA).next();
    assert_eq!(best, Some(Level { price: 102, shares: 50, order_count: 1 }));
    assert_eq!((scene.book.order_count(), scene.bids(9).len()), (7, 0));
    assert!(!scene.book.is_crossed(AAA) && !scene.book.is_crossed(BBB));
    scene.accepts(&add(AAA, 8, b'B', 1, 103));
    assert!(scene.book.is_crossed(AAA));
}

/// Executions take shares and count as volume; with its last share an order leaves.
#[test]
fn executions_reduce_orders() {
    let mut scene = Scene::new();
    scene.accepts(&add(AAA, 1, b'B', 10, 100));
    scene.accepts(&add(AAA, 2, b'B', 10, 100));
    scene.accepts(&executed(AAA, 1, 4));
    assert_eq!(scene.bids(AAA), [(1, 100, 6), (2, 100, 10)]);
    scene.accepts(&executed(AAA, 1, 6));
    assert_eq!(scene.bids(AAA), [(2, 100, 10)]);
    let at_price = |shares: u32, printable: u8| {
        message!(OrderExecutedWithPrice {
            stock_locate: AAA.into(),
            order_reference_number: 2.into(),
            executed_shares: shares.into(),
            match_number: 2.into(),
            printable: printable,
            execution_price: 99.into(),
        })
    };
    scene.accepts(&at_price(3, b'Y'));
    scene.accepts(&at_price(3, b'N'));
    assert_eq!(scene.bids(AAA), [(2, 100, 4)]);
    let instrument = scene.book.instruments().next().unwrap();
    assert_eq!((instrument.volume, instrument.price_last), (13, Some(99)));
    assert_eq!(scene.book.trade_count(), 3);
}

/// Cancels take shares, deletes take orders, and neither is volume.
#[test]
fn cancels_and_deletes_reduce_orders() {
    let mut scene = Scene::new();
    for reference in 1..=3 {
        scene.accepts(&add(AAA, reference, b'S', 10, 100));
    }
    scene.accepts(&cancel(AAA, 1, 4));
    scene.accepts(&cancel(AAA, 2, 10));
    scene.accepts(&delete(AAA, 3));
    assert_eq!(scene.asks(AAA), [(1, 100, 6)]);
    assert_eq!(scene.book.instruments().next().unwrap().volume, 0);
    assert_eq!(scene.book.trade_count(), 0);
}

/// A replacement keeps the side and loses the time, also at the same price.
#[test]
fn replacement_goes_to_the_end() {
    let mut scene = Scene::new();
    scene.accepts(&add(AAA, 1, b'S', 10, 100));
    scene.accepts(&add(AAA, 2, b'S', 10, 100));
    scene.accepts(&replace(AAA, 1, 3, 25, 100));
    assert_eq!(scene.asks(AAA), [(2, 100, 10), (3, 100, 25)]);
    scene.refused(&delete(AAA, 1), FeedViolation::UnknownOrder(1));
}

/// Prints against no order of the book, and trades undone, leave the books as they are.
#[test]
fn prints_touch_no_book() {
    let mut scene = Scene::new();
    scene.accepts(&add(AAA, 1, b'S', 10, 100));
    scene.accepts(&message!(Trade {
        stock_locate: AAA.into(),
        order_reference_number: 0.into(),
        buy_sell_indicator: b'B',
        shares: 5.into(),
        stock: stock(AAA),
        price: 100.into(),
        match_number: 3.into(),
    }));
    scene.accepts(&message!(CrossTrade {
        stock_locate: AAA.into(),
        shares: 5.into(),
        stock: stock(AAA),
        cross_price: 100.into(),
        match_number: 4.into(),
        cross_type: b'O',
    }));
    scene.accepts(&message!(BrokenTrade { stock_locate: AAA.into(), match_number: 3.into() }));
    assert_eq!(scene.asks(AAA), [(1, 100, 10)]);
    assert_eq!(scene.book.message_count(), 6);
}

/// The latest message gives the state of the day and of each instrument.
#[test]
fn states_are_kept() {
    let mut scene = Scene::new();
    scene.accepts(&message!(SystemEvent { stock_locate: 0.into(), event_code: b'Q' }));
    let action = |locate: u16, symbol: [u8; 8]| {
        message!(StockTradingAction {
            stock_locate: locate.into(),
            stock: symbol,
            trading_state: b'T',
            reserved: b' ',
            reason: *b"    ",
        })
    };
    scene.accepts(&action(AAA, stock(AAA)));
    scene.refused(&action(BBB, stock(AAA)), FeedViolation::UnknownInstrument(BBB));
    assert_eq!(scene.book.system_event(), Some(b'Q'));
    let states: Vec<_> = scene.book.instruments().map(|stock| stock.trading_state).collect();
    assert_eq!(states, [Some(b'T'), None]);
}

/// Messages that a sound feed cannot contain are refused with their number, and change nothing.
#[test]
fn impossible_messages_are_refused() {
    use FeedViolation as V;

    let mut scene = Scene::new();
    scene.accepts(&add(AAA, 1, b'B', 10, 100));
    let other = |reference| V::OtherInstrument { reference, stock_locate: BBB };
    let too_many = V::TooManyShares { reference: 1, taken: 11, open: 10 };
    let table = [
        (add(AAA, 1, b'B', 10, 100), V::KnownOrder(1)),
        (add(AAA, 2, b'B', 0, 100), V::NoShares(2)),
        (add(AAA, 2, b'T', 10, 100), V::Side(b'T')),
        (add(7, 2, b'B', 10, 100), V::UnknownInstrument(7)),
        (executed(AAA, 2, 1), V::UnknownOrder(2)),
        (executed(AAA, 1, 11), too_many),
        (executed(AAA, 1, 0), V::NoShares(1)),
        (executed(BBB, 1, 1), other(1)),
        (cancel(AAA, 1, 11), too_many),
        (cancel(AAA, 2, 1), V::UnknownOrder(2)),
        (delete(AAA, 2), V::UnknownOrder(2)),
        (delete(BBB, 1), other(1)),
        (replace(AAA, 2, 3, 1, 100), V::UnknownOrder(2)),
        (replace(AAA, 1, 1, 1, 100), V::KnownOrder(1)),
        (replace(AAA, 1, 3, 0, 100), V::NoShares(3)),
        (directory(AAA, *b"OTHER   "), V::KnownInstrument(AAA)),
        (directory(7, *b"\x07       "), V::Symbol(7)),
    ];
    for (message, violation) in table {
        scene.refused(&message, violation);
    }
    let error = scene.apply(b"A").unwrap_err();
    assert!(matches!(error.violation, V::Malformed(_)), "{error}");
    assert_eq!(scene.bids(AAA), [(1, 100, 10)]);
}

/// After any orders are added, reduced, replaced and deleted, the books equal a plain list, sorted by price and then by
/// arrival; orders leave and come at many prices, so that both parts of a ladder are used.
#[test]
fn books_are_those_of_a_plain_list() {
    for seed in 1..=6_u64 {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut scene = Scene::new();
        // Reference, side, price, shares, in the order of arrival.
        let mut plain: Vec<(u64, bool, u32, u32)> = Vec::new();
        let mut last = 0;
        for step in 0..6_000 {
            let grows = step % 3_000 < 2_000;
            let adds = if grows { 7 } else { 3 };
            if plain.is_empty() || random(10) < adds {
                last += 1 + random(5);
                let (is_bid, shares) = (random(2) == 0, 1 + random(100) as u32);
                let reach = if random(4) == 0 { 900 } else { 20 };
                let distance = 1 + random(reach) as u32;
                let price = if is_bid { 10_000 - distance } else { 10_000 + distance };
                scene.accepts(&add(AAA, last, if is_bid { b'B' } else { b'S' }, shares, price));
                plain.push((last, is_bid, price, shares));
                continue;
            }
            let place = random(plain.len() as u64) as usize;
            let (reference, is_bid, price, open) = plain[place];
            match random(4) {
                0 => {
                    scene.accepts(&delete(AAA, reference));
                    plain.remove(place);
                }
                1 => {
                    last += 1;
                    let shares = 1 + random(100) as u32;
                    scene.accepts(&replace(AAA, reference, last, shares, price));
                    plain.remove(place);
                    plain.push((last, is_bid, price, shares));
                }
                _ => {
                    let shares = 1 + random(u64::from(open)) as u32;
                    scene.accepts(&executed(AAA, reference, shares));
                    plain[place].3 -= shares;
                    if plain[place].3 == 0 {
                        plain.remove(place);
                    }
                }
            }
            if step % 50 == 0 {
                for is_bid in [true, false] {
                    let mut side: Vec<_> = plain.iter().filter(|it| it.1 == is_bid).collect();
                    side.sort_by_key(|it| if is_bid { u32::MAX - it.2 } else { it.2 });
                    let expected: Vec<_> = side.iter().map(|it| (it.0, it.2, it.3)).collect();
                    let found = if is_bid { scene.bids(AAA) } else { scene.asks(AAA) };
                    assert_eq!(found, expected, "seed {seed}, step {step}");
                    let first = scene.book.first(AAA, is_bid).map(as_tuple);
                    assert_eq!(first, expected.first().copied(), "seed {seed}");
                }
                assert_eq!(scene.book.order_count(), plain.len(), "seed {seed}");
            }
        }
    }
}
