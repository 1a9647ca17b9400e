//! The content of the feed.

use market::{
    Booked, CancelReason, Canceled, Capacity, ClientOrderId, CommandKind, Conditions, Display,
    Event, Firm, Instructions, InstrumentId, Lots, Modified, OrderId, OrderKey, OrderType, Price,
    Quantity, RejectReason, Rejected, Replaced, RestateReason, Restated, SelfMatchPrevented,
    SelfMatchPrevention, SessionId, Shown, Side, SystemEvent, Ticks, TimeInForce, TradeId, Traded,
};
use wire::{
    field::U48,
    itch::{self, Encoder, Message},
};

use crate::ouch_encoder::{fill, instrument, output};

fn key() -> OrderKey {
    OrderKey { session_id: SessionId(1), channel: 0, user_ref_num: 1 }
}

/// The messages of an event, by an encoder that knows the instrument.
fn encoded(event: Event) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new();
    let mut messages = Vec::new();
    encoder.encode(&output(Event::InstrumentAdded(instrument())), &mut |_| {});
    encoder.encode(&output(event), &mut |message| messages.push(message.to_vec()));
    messages
}

/// The one message of an event.
fn only(event: Event) -> Vec<u8> {
    let mut messages = encoded(event);
    assert_eq!(messages.len(), 1, "{event:?}");
    messages.remove(0)
}

fn booked() -> Booked {
    Booked {
        order_id: OrderId(1_234_567),
        instrument_id: InstrumentId(1),
        side: Side::Buy,
        price: Price(1_503_400),
        leaves: Quantity(300),
        shown: Quantity(300),
        attribution: Firm::BLANK,
    }
}

/// An order that rests and shows all its open lots.
fn shown(booked: bool, quantity: u32, leaves: u32) -> Shown {
    match booked {
        true => {
            Shown { before: Quantity((quantity + leaves).into()), after: Quantity(leaves.into()) }
        }
        false => Shown::NONE,
    }
}

/// An instrument is put in the directory and reported as trading; its number is its locate.
#[test]
fn instrument_is_listed_and_traded() {
    let mut encoder = Encoder::new();
    let mut messages = Vec::new();
    encoder.encode(&output(Event::InstrumentAdded(instrument())), &mut |message| {
        messages.push(message.to_vec());
    });
    let [directory, action] = &messages[..] else { panic!("{messages:?}") };
    let Ok(Message::StockDirectory(directory)) = itch::decode(directory) else { panic!() };
    assert_eq!(directory.stock_locate.get(), 1);
    assert_eq!(directory.timestamp.get(), 34_200_000_000_123);
    assert_eq!(&directory.stock, b"AAPL    ");
    assert_eq!(directory.round_lot_size.get(), 100);
    let Ok(Message::StockTradingAction(action)) = itch::decode(action) else { panic!() };
    assert_eq!((action.stock_locate.get(), action.trading_state), (1, b'T'));
}

/// Every part of the day is an event of the feed, with the same letter.
#[test]
fn parts_of_the_day_are_published() {
    for event in SystemEvent::ALL {
        let message = only(Event::System(*event));
        let Ok(Message::SystemEvent(fields)) = itch::decode(&message) else { panic!() };
        assert_eq!((fields.event_code, fields.stock_locate.get()), (event.code(), 0));
    }
}

/// A resting order is added, under its firm's name on request.
#[test]
fn booked_order_is_added() {
    let message = only(Event::Booked(booked()));
    let expected = itch::AddOrder {
        message_type: b'A',
        stock_locate: 1.into(),
        tracking_number: 0.into(),
        timestamp: U48::new(34_200_000_000_123),
        order_reference_number: 1_234_567.into(),
        buy_sell_indicator: b'B',
        shares: 300.into(),
        stock: *b"AAPL    ",
        price: 1_503_400.into(),
    };
    assert_eq!(itch::decode(&message), Ok(Message::AddOrder(&expected)));

    for side in [Side::Sell, Side::SellShort, Side::SellShortExempt] {
        let attribution = Firm::new("FIRM").unwrap();
        let message = only(Event::Booked(Booked { side, attribution, ..booked() }));
        let Ok(Message::AddOrderAttributed(fields)) = itch::decode(&message) else { panic!() };
        assert_eq!((fields.buy_sell_indicator, &fields.attribution), (b'S', b"FIRM"));
        assert_eq!((fields.shares, fields.price), (expected.shares, expected.price));
    }
}

/// A trade is an execution of the maker's order.
#[test]
fn trade_executes_the_maker() {
    let message = only(Event::Traded(Traded {
        trade_id: TradeId(9001),
        instrument_id: InstrumentId(1),
        taker_side: Side::Sell,
        price: Price(1_503_400),
        quantity: Quantity(100),
        maker_shown: Quantity(1_000),
        maker: fill(SessionId(1), 0, 1),
        taker: fill(SessionId(2), 0, 1),
        auction: None,
    }));
    let Ok(Message::OrderExecuted(fields)) = itch::decode(&message) else { panic!() };
    assert_eq!(fields.order_reference_number.get(), 123_456_789);
    assert_eq!((fields.executed_shares.get(), fields.match_number.get()), (100, 9001));
}

/// A trade of an order that is not on the feed is a print that names neither order nor side.
#[test]
fn trade_of_a_hidden_order_is_a_print() {
    for taker_side in [Side::Buy, Side::Sell] {
        let message = only(Event::Traded(Traded {
            trade_id: TradeId(9001),
            instrument_id: InstrumentId(1),
            taker_side,
            price: Price(1_503_400),
            quantity: Quantity(100),
            maker_shown: Quantity::ZERO,
            maker: fill(SessionId(1), 0, 1),
            taker: fill(SessionId(2), 0, 1),
            auction: None,
        }));
        let expected = itch::Trade {
            message_type: b'P',
            stock_locate: 1.into(),
            tracking_number: 0.into(),
            timestamp: U48::new(34_200_000_000_123),
            order_reference_number: 0.into(),
            buy_sell_indicator: b'B',
            shares: 100.into(),
            stock: *b"AAPL    ",
            price: 1_503_400.into(),
            match_number: 9001.into(),
        };
        assert_eq!(itch::decode(&message), Ok(Message::Trade(&expected)));
    }
}

/// Rule 16.6: the feed shows at most as many lots of an order as fit in 32 bits. The rest trade and are canceled first,
/// and are printed when they trade; a print of more than 32 bits is a message of our own. No lots are lost.
#[test]
fn lots_beyond_32_bits_are_printed() {
    const MOST: u64 = u32::MAX as u64;
    let large = (1 << 48) - 1;
    let message =
        only(Event::Booked(Booked { leaves: Quantity(large), shown: Quantity(large), ..booked() }));
    let Ok(Message::AddOrder(fields)) = itch::decode(&message) else { panic!() };
    assert_eq!(fields.shares.get(), u32::MAX);

    // The lots that the order loses on the feed, and the lots printed.
    let lost_and_printed = |shown: u64, quantity: u64| {
        let messages = encoded(Event::Traded(Traded {
            trade_id: TradeId(9001),
            instrument_id: InstrumentId(1),
            taker_side: Side::Sell,
            price: Price(1_503_400),
            quantity: Quantity(quantity),
            maker_shown: Quantity(shown),
            maker: fill(SessionId(1), 0, 1),
            taker: fill(SessionId(2), 0, 1),
            auction: None,
        }));
        assert!(messages.len() <= Encoder::MESSAGES_MAX);
        let (mut lost, mut printed) = (0, 0);
        for message in &messages {
            let number = match itch::decode(message).unwrap() {
                Message::OrderExecuted(it) => {
                    assert_eq!((lost, printed), (0, 0), "the order is first");
                    lost = u64::from(it.executed_shares.get());
                    it.match_number
                }
                Message::Trade(it) => {
                    printed += u64::from(it.shares.get());
                    it.match_number
                }
                Message::LargeTrade(it) => {
                    assert!(MOST < it.shares.get() && it.price.get() == 1_503_400);
                    assert_eq!(&it.stock, b"AAPL    ");
                    printed += it.shares.get();
                    it.match_number
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(number.get(), 9001);
        }
        (lost, printed)
    };
    assert_eq!(lost_and_printed(300, 300), (300, 0));
    assert_eq!(lost_and_printed(MOST, MOST), (MOST, 0));
    assert_eq!(lost_and_printed(MOST + 1, 1), (0, 1));
    assert_eq!(lost_and_printed(MOST + 5, 7), (2, 5));
    assert_eq!(lost_and_printed(0, MOST), (0, MOST));
    assert_eq!(lost_and_printed(0, MOST + 1), (0, MOST + 1));
    assert_eq!(lost_and_printed(large, large), (MOST, large - MOST));

    let canceled = |before, after| {
        let mut canceled = Vec::new();
        for message in encoded(Event::Canceled(Canceled {
            key: key(),
            order_id: OrderId(7),
            instrument_id: InstrumentId(1),
            quantity: Quantity(before - after),
            leaves: Quantity(after),
            booked: true,
            shown: Shown { before: Quantity(before), after: Quantity(after) },
            reason: CancelReason::User,
            cause: CommandKind::Cancel,
        })) {
            canceled.push(match itch::decode(&message).unwrap() {
                Message::OrderCancel(it) => Some(it.canceled_shares.get()),
                Message::OrderDelete(_) => None,
                other => panic!("{other:?}"),
            });
        }
        canceled
    };
    assert_eq!(canceled(large, MOST), []);
    assert_eq!(canceled(MOST + 9, MOST - 3), [Some(3)]);
    assert_eq!(canceled(large, 0), [None]);
}

/// Events of a hidden order other than its trades are not on the feed.
#[test]
fn hidden_orders_are_not_on_the_feed() {
    let (order_id, instrument_id) = (OrderId(7), InstrumentId(1));
    let (quantity, leaves) = (Quantity(1), Quantity(1));
    let shown = Shown::NONE;
    for event in [
        Event::Booked(Booked { shown: Quantity::ZERO, ..booked() }),
        Event::Canceled(Canceled {
            key: key(),
            order_id,
            instrument_id,
            quantity,
            leaves,
            booked: true,
            shown,
            reason: CancelReason::User,
            cause: CommandKind::Cancel,
        }),
        Event::Modified(Modified {
            key: key(),
            order_id,
            instrument_id,
            side: Side::SellShort,
            quantity,
            leaves,
            shown,
        }),
        Event::SelfMatchPrevented(SelfMatchPrevented {
            key: key(),
            order_id,
            instrument_id,
            quantity,
            leaves,
            prevented: quantity,
            price: Price(1),
            booked: true,
            shown,
            prevention: SelfMatchPrevention::DecrementBoth,
        }),
    ] {
        assert!(encoded(event).is_empty(), "{event:?}");
    }
}

/// A reduced order loses lots, a canceled one is deleted, one that never rested causes no message.
#[test]
fn cancels_of_resting_orders_are_published() {
    let canceled = |quantity: u32, leaves: u32, booked| {
        Event::Canceled(Canceled {
            key: key(),
            order_id: OrderId(7),
            instrument_id: InstrumentId(1),
            quantity: Quantity(quantity.into()),
            leaves: Quantity(leaves.into()),
            booked,
            shown: shown(booked, quantity, leaves),
            reason: CancelReason::User,
            cause: CommandKind::Cancel,
        })
    };
    let prevented = |quantity: u32, leaves: u32, booked| {
        Event::SelfMatchPrevented(SelfMatchPrevented {
            key: key(),
            order_id: OrderId(7),
            instrument_id: InstrumentId(1),
            quantity: Quantity(quantity.into()),
            leaves: Quantity(leaves.into()),
            prevented: Quantity(1),
            price: Price(1_503_400),
            booked,
            shown: shown(booked, quantity, leaves),
            prevention: SelfMatchPrevention::CancelOldest,
        })
    };
    assert_eq!(only(canceled(60, 40, true)), only(prevented(60, 40, true)));
    assert_eq!(only(canceled(60, 0, true)), only(prevented(60, 0, true)));
    assert!(encoded(prevented(60, 0, false)).is_empty());
    let message = only(canceled(60, 40, true));
    let Ok(Message::OrderCancel(fields)) = itch::decode(&message) else { panic!() };
    assert_eq!((fields.order_reference_number.get(), fields.canceled_shares.get()), (7, 60));
    let message = only(canceled(60, 0, true));
    let Ok(Message::OrderDelete(fields)) = itch::decode(&message) else { panic!() };
    assert_eq!(fields.order_reference_number.get(), 7);
    assert!(encoded(canceled(60, 0, false)).is_empty());
}

/// A modify shows only the removed lots.
#[test]
fn modifies_show_what_they_remove() {
    let modified = |quantity: u32, leaves: u32| {
        Event::Modified(Modified {
            key: key(),
            order_id: OrderId(7),
            instrument_id: InstrumentId(1),
            side: Side::SellShort,
            quantity: Quantity(quantity.into()),
            leaves: Quantity(leaves.into()),
            shown: shown(true, quantity, leaves),
        })
    };
    assert!(encoded(modified(0, 100)).is_empty());
    assert!(matches!(itch::decode(&only(modified(1, 99))), Ok(Message::OrderCancel(_))));
    assert!(matches!(itch::decode(&only(modified(1, 0))), Ok(Message::OrderDelete(_))));
}

/// An iceberg is shown in part: a trade of the rest is not published, and a refreshed part is a separate order.
#[test]
fn reserve_is_not_on_the_feed() {
    let canceled = |before, after| {
        Event::Canceled(Canceled {
            key: key(),
            order_id: OrderId(7),
            instrument_id: InstrumentId(1),
            quantity: Quantity(50),
            leaves: Quantity(10),
            booked: true,
            shown: Shown { before: Quantity(before), after: Quantity(after) },
            reason: CancelReason::User,
            cause: CommandKind::Cancel,
        })
    };
    assert!(encoded(canceled(10, 10)).is_empty());
    let message = only(canceled(30, 10));
    let Ok(Message::OrderCancel(fields)) = itch::decode(&message) else { panic!() };
    assert_eq!(fields.canceled_shares.get(), 20);

    let restated = |shown, display| {
        Event::Restated(Restated {
            key: key(),
            order_id_before: OrderId(7),
            order_id: OrderId(9),
            instrument_id: InstrumentId(1),
            side: Side::Buy,
            reason: RestateReason::Refreshed,
            price: Price(1_503_400),
            leaves: Quantity(500),
            shown: Quantity(shown),
            display,
            attribution: Firm::BLANK,
        })
    };
    let message = only(restated(100, Display::Visible));
    let Ok(Message::AddOrder(fields)) = itch::decode(&message) else { panic!() };
    assert_eq!((fields.order_reference_number.get(), fields.shares.get()), (9, 100));
    assert!(encoded(restated(0, Display::Hidden)).is_empty());
}

/// A replacement that rests at once replaces; one that may trade first deletes the original.
#[test]
fn replaces_are_published() {
    let replaced = |in_place| {
        Event::Replaced(Replaced {
            key: key(),
            original_user_ref_num: 1,
            original_order_id: OrderId(7),
            order_id: OrderId(8),
            instrument_id: InstrumentId(1),
            side: Side::Buy,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            in_place,
            original_displayed: true,
            leaves: Lots::new(200),
            price: Ticks(1_503_500),
            client_order_id: ClientOrderId::BLANK,
            firm: Firm::BLANK,
            capacity: Capacity::Agency,
            conditions: Conditions::NONE,
            instructions: Instructions::NONE,
        })
    };
    let message = only(replaced(true));
    let Ok(Message::OrderReplace(fields)) = itch::decode(&message) else { panic!() };
    assert_eq!(fields.original_order_reference_number.get(), 7);
    assert_eq!(fields.new_order_reference_number.get(), 8);
    assert_eq!((fields.shares.get(), fields.price.get()), (200, 1_503_500));
    let message = only(replaced(false));
    let Ok(Message::OrderDelete(fields)) = itch::decode(&message) else { panic!() };
    assert_eq!(fields.order_reference_number.get(), 7);
}

/// Events for an owner alone are not on the feed.
#[test]
fn answers_are_not_on_the_feed() {
    let rejected = Rejected {
        key: key(),
        reason: RejectReason::InvalidPrice,
        cause: CommandKind::Enter,
        client_order_id: ClientOrderId::BLANK,
    };
    assert!(encoded(Event::Rejected(rejected)).is_empty());
}

/// A price that the feed cannot write is our fault, and panics.
#[test]
#[should_panic(expected = "the engine books no price above")]
fn unwritable_price_stops() {
    encoded(Event::Booked(Booked { price: Price(1 << 32), ..booked() }));
}
