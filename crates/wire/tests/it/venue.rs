//! Commands of the venue: their messages on the feed and to the owners of orders.

use market::{
    AuctionTrade, BustReason, ClientOrderId, CollarSet, Command, Event, Indicated, Indication,
    InstrumentChange, InstrumentChanged, InstrumentId, OrderId, OrderKey, Output, Party, PastTrade,
    Phase, PhaseCause, PhaseChanged, Price, Quantity, SessionId, Side, Text, TimeInForce,
    Timestamp, TradeBusted, TradeCorrected, TradeId, Traded, Uncrossed, VenueEvent,
};
use wire::{
    itch::{self, Message},
    ouch::{self, Recipient},
};

use crate::ouch_encoder::{fill, instrument, output};

/// The feed messages of an event, from an encoder that knows the instrument.
fn feed(event: Event) -> Vec<Vec<u8>> {
    let mut encoder = itch::Encoder::new();
    let mut messages: Vec<Vec<u8>> = Vec::new();
    encoder.encode(&output(Event::InstrumentAdded(instrument())), &mut |_| {});
    encoder.encode(&output(event), &mut |message| messages.push(message.to_vec()));
    messages
}

/// The replies to an event.
fn replies(event: Event) -> Vec<(Recipient, Vec<u8>)> {
    let mut encoder = ouch::Encoder::new();
    let mut messages = Vec::new();
    let outputs: [Output; 2] = [output(Event::InstrumentAdded(instrument())), output(event)];
    for output in outputs {
        encoder.encode(&output, &mut |to, message| messages.push((to, message.to_vec())));
    }
    messages
}

const ID: InstrumentId = InstrumentId(1);

fn auction_trade(maker_displayed: bool, taker_displayed: bool, phase: Phase) -> Event {
    Event::Traded(Traded {
        trade_id: TradeId(9),
        instrument_id: ID,
        taker_side: Side::Sell,
        price: Price(1_503_400),
        quantity: Quantity(100),
        maker_shown: Quantity(if maker_displayed { 300 } else { 0 }),
        maker: fill(SessionId(1), 0, 1),
        taker: fill(SessionId(2), 0, 1),
        auction: Some(AuctionTrade {
            phase,
            taker_shown: Quantity(if taker_displayed { 300 } else { 0 }),
        }),
    })
}

/// Each phase is a trading state; a pause caused by the price has its reason.
#[test]
fn phase_is_a_trading_state() {
    let state_of = |to, cause| {
        let from = Phase::Continuous;
        let reason = Text::new(if to == Phase::Halted { "T1" } else { "" }).unwrap();
        let changed = PhaseChanged { instrument_id: ID, from, to, cause, reason };
        let [message] = &feed(Event::Venue(VenueEvent::PhaseChanged(changed)))[..] else {
            panic!()
        };
        let Ok(Message::StockTradingAction(action)) = itch::decode(message) else { panic!() };
        assert_eq!((action.stock_locate.get(), &action.stock), (1, b"AAPL    "));
        (action.trading_state, action.reason)
    };
    assert_eq!(state_of(Phase::PreOpen, PhaseCause::Command), (b'Q', *b"    "));
    assert_eq!(state_of(Phase::OpeningAuction, PhaseCause::Command), (b'Q', *b"    "));
    assert_eq!(state_of(Phase::Continuous, PhaseCause::Time), (b'T', *b"    "));
    assert_eq!(state_of(Phase::VolatilityAuction, PhaseCause::Band), (b'P', *b"LUDP"));
    assert_eq!(state_of(Phase::VolatilityAuction, PhaseCause::Command), (b'P', *b"    "));
    assert_eq!(state_of(Phase::Halted, PhaseCause::Command), (b'H', *b"T1  "));
    assert_eq!(state_of(Phase::ClosingAuction, PhaseCause::Command), (b'Q', *b"    "));
    assert_eq!(state_of(Phase::Closed, PhaseCause::Command), (b'H', *b"    "));
}

/// In an auction each displayed order is executed at the auction's price, and no print counts it;
/// the cross does.
#[test]
fn auction_trade_executes_both_displayed_orders() {
    for (maker, taker, count) in
        [(true, true, 2), (true, false, 1), (false, true, 1), (false, false, 0)]
    {
        let messages = feed(auction_trade(maker, taker, Phase::OpeningAuction));
        assert_eq!(messages.len(), count);
        for message in messages {
            let Ok(Message::OrderExecutedWithPrice(executed)) = itch::decode(&message) else {
                panic!()
            };
            assert_eq!((executed.printable, executed.match_number.get()), (b'N', 9));
            assert_eq!(executed.executed_shares.get(), 100);
            assert_eq!(executed.execution_price.get(), 1_503_400);
        }
    }
    let uncrossed = |phase| Uncrossed {
        instrument_id: ID,
        phase,
        trade_id: TradeId(10),
        price: Price(1_503_400),
        quantity: Quantity(5_000_000_000),
    };
    for (phase, code) in [
        (Phase::OpeningAuction, b'O'),
        (Phase::ClosingAuction, b'C'),
        (Phase::VolatilityAuction, b'H'),
        (Phase::Halted, b'H'),
    ] {
        let messages = feed(Event::Venue(VenueEvent::Uncrossed(uncrossed(phase))));
        let Ok(Message::CrossTrade(cross)) = itch::decode(&messages[0]) else { panic!() };
        assert_eq!((cross.cross_type, cross.match_number.get()), (code, 10));
        assert_eq!((cross.shares.get(), cross.cross_price.get()), (5_000_000_000, 1_503_400));
    }
}

/// The liquidity flag of both orders is the auction's.
#[test]
fn auction_is_the_liquidity_flag() {
    for (phase, code) in [
        (Phase::OpeningAuction, b'O'),
        (Phase::ClosingAuction, b'C'),
        (Phase::VolatilityAuction, b'H'),
    ] {
        let messages = replies(auction_trade(true, true, phase));
        assert_eq!(messages.len(), 2);
        for (_, message) in messages {
            let Ok(ouch::Outbound::OrderExecuted(executed, _)) = ouch::decode_outbound(&message)
            else {
                panic!()
            };
            assert_eq!(executed.liquidity_flag, code);
        }
    }
}

/// The indication of an auction is an imbalance message; its distance from the reference price is a
/// letter.
#[test]
fn indication_is_an_imbalance() {
    let signs_of = |price, paired, imbalance, imbalance_is_buy, reference| {
        let (paired, imbalance) = (Quantity(paired), Quantity(imbalance));
        let price = Price(price);
        let indicated = Indicated {
            instrument_id: ID,
            phase: Phase::ClosingAuction,
            indication: Indication { price, paired, imbalance, imbalance_is_buy },
            reference_price: Price(reference),
        };
        let messages = feed(Event::Venue(VenueEvent::Indicated(indicated)));
        let Ok(Message::NetOrderImbalance(imbalance_message)) = itch::decode(&messages[0]) else {
            panic!()
        };
        assert_eq!(u64::from(imbalance_message.near_price.get()), price.0);
        assert_eq!(
            (imbalance_message.paired_shares.get(), imbalance_message.imbalance_shares.get()),
            (paired.0, imbalance.0)
        );
        assert_eq!(imbalance_message.cross_type, b'C');
        (imbalance_message.imbalance_direction, imbalance_message.price_variation_indicator)
    };
    assert_eq!(signs_of(1_000, 5, 3, true, 1_000), (b'B', b'L'));
    assert_eq!(signs_of(1_010, 5, 3, false, 1_000), (b'S', b'1'));
    assert_eq!(signs_of(901, 5, 0, false, 1_000), (b'N', b'9'));
    assert_eq!(signs_of(1_100, 5, 0, true, 1_000), (b'N', b'A'));
    assert_eq!(signs_of(1_299, 5, 0, true, 1_000), (b'N', b'B'));
    assert_eq!(signs_of(1_300, 5, 0, true, 1_000), (b'N', b'C'));
    assert_eq!(signs_of(1_000, 5, 0, true, 0), (b'N', b' '));
    assert_eq!(signs_of(0, 0, 7, true, 1_000), (b'O', b' '));
}

/// Prices between which an auction may end are a collar.
#[test]
fn collar_is_reported() {
    let collar = CollarSet {
        instrument_id: ID,
        reference_price: Price(100),
        low: Price(90),
        high: Price(110),
        extension: 2,
    };
    let messages = feed(Event::Venue(VenueEvent::CollarSet(collar)));
    let Ok(Message::LuldAuctionCollar(message)) = itch::decode(&messages[0]) else { panic!() };
    assert_eq!(message.auction_collar_reference_price.get(), 100);
    assert_eq!(message.lower_auction_collar_price.get(), 90);
    assert_eq!(message.upper_auction_collar_price.get(), 110);
    assert_eq!(message.auction_collar_extension.get(), 2);
}

/// A new round lot is a new directory entry; a removed instrument is halted for good.
#[test]
fn changed_instrument_is_published() {
    let changed =
        InstrumentChanged { instrument_id: ID, change: InstrumentChange::RoundLot(Quantity(7)) };
    let messages = feed(Event::Venue(VenueEvent::InstrumentChanged(changed)));
    let Ok(Message::StockDirectory(directory)) = itch::decode(&messages[0]) else { panic!() };
    assert_eq!((directory.stock_locate.get(), directory.round_lot_size.get()), (1, 7));
    let change = InstrumentChange::StaticBand(7);
    let changed = InstrumentChanged { instrument_id: ID, change };
    assert!(feed(Event::Venue(VenueEvent::InstrumentChanged(changed))).is_empty());
    let messages = feed(Event::Venue(VenueEvent::InstrumentRemoved(ID)));
    let Ok(Message::StockTradingAction(action)) = itch::decode(&messages[0]) else { panic!() };
    assert_eq!(action.trading_state, b'H');
}

fn past_trade() -> PastTrade {
    let party = |session, user_ref_num| Party {
        key: OrderKey { session_id: SessionId(session), channel: 3, user_ref_num },
        order_id: OrderId(5),
    };
    PastTrade {
        trade_id: TradeId(12),
        instrument_id: ID,
        taker_is_buy: true,
        price: Price(1_503_400),
        quantity: Quantity(40),
        maker: party(1, 70),
        taker: party(2, 80),
    }
}

/// A broken trade is reported to both its owners and on the feed.
#[test]
fn broken_trade_is_reported() {
    let broken = TradeBusted { trade: past_trade(), reason: BustReason::Erroneous };
    let event = Event::Venue(VenueEvent::TradeBusted(broken));
    let messages = feed(event);
    let Ok(Message::BrokenTrade(message)) = itch::decode(&messages[0]) else { panic!() };
    assert_eq!((messages.len(), message.match_number.get()), (1, 12));
    let messages = replies(event);
    assert_eq!(messages.len(), 2);
    for ((to, message), (session, number)) in messages.iter().zip([(1, 70), (2, 80)]) {
        assert_eq!(*to, Recipient::One(SessionId(session)));
        let Ok(ouch::Outbound::BrokenTrade(message, appendage)) = ouch::decode_outbound(message)
        else {
            panic!()
        };
        assert_eq!((message.user_ref_num.get(), message.match_number.get()), (number, 12));
        assert_eq!((message.reason, message.cl_ord_id), (b'E', *ClientOrderId::BLANK.as_bytes()));
        assert_eq!(appendage.iter().count(), 1, "the channel");
    }
}

/// A correction undoes one trade and publishes another in its place.
#[test]
fn corrected_trade_is_published() {
    let corrected =
        TradeCorrected { busted: TradeId(9), trade: past_trade(), reason: BustReason::Consent };
    let event = Event::Venue(VenueEvent::TradeCorrected(corrected));
    let [broken, print] = &feed(event)[..] else { panic!() };
    let Ok(Message::BrokenTrade(message)) = itch::decode(broken) else { panic!() };
    assert_eq!(message.match_number.get(), 9);
    let Ok(Message::Trade(message)) = itch::decode(print) else { panic!() };
    assert_eq!((message.match_number.get(), message.order_reference_number.get()), (12, 0));
    assert_eq!((message.shares.get(), message.price.get()), (40, 1_503_400));
    let types: Vec<_> = replies(event).iter().map(|(to, message)| (*to, message[0])).collect();
    let [maker, taker] = [1, 2].map(|session| Recipient::One(SessionId(session)));
    assert_eq!(types, [(maker, b'B'), (maker, b'E'), (taker, b'B'), (taker, b'E')]);
}

/// OUCH gives the auction of an order by its cross type.
#[test]
fn order_for_an_auction_has_a_cross_type() {
    for (time_in_force, code) in [
        (TimeInForce::AtTheOpen, b'O'),
        (TimeInForce::AtTheClose, b'C'),
        (TimeInForce::GoodForAuction, b'H'),
    ] {
        let order = market::EnterOrder { time_in_force, ..crate::ouch_command::market_order() };
        let message = ouch::request(&Command::Enter(order)).expect("it can be said");
        let Ok(ouch::Inbound::EnterOrder(fields, _)) = ouch::decode_inbound(&message) else {
            panic!()
        };
        assert_eq!((fields.time_in_force, fields.cross_type), (b'0', code));
        let back = ouch::command(&message, order.key.session_id, Timestamp::default())
            .expect("it can be read");
        assert_eq!(back, Command::Enter(order));
    }
}
