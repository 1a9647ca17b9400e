//! The replies to an order's owner.

use market::{
    Accepted, AccountQueried, Booked, CancelHeld, CancelReason, Canceled, Capacity, ClientOrderId,
    CommandKind, Conditions, CustomerType, Display, EntrySwitched, Event, Fill, Firm, Instructions,
    Instrument, InstrumentId, Lots, MassCanceled, Modified, NANOS_PER_DAY, OrderAttributes,
    OrderId, OrderKey, OrderType, Output, Price, Pricing, Quantity, RejectReason, Rejected,
    Replaced, RestateReason, Restated, SelfMatchGroup, SelfMatchPrevented, SelfMatchPrevention,
    Sequence, SessionAdded, SessionId, Shown, Side, Symbol, SystemEvent, Text, Ticks, TimeInForce,
    Timestamp, TradeId, Traded,
};
use wire::{
    layout::Message as _,
    ouch::{self, Encoder, MessageBuffer, Recipient, Tag, reject_code},
};

const NOW: u64 = 34_200_000_000_123;
const FIRST: SessionId = SessionId(1);
const SECOND: SessionId = SessionId(2);

pub fn output(event: Event) -> Output {
    Output { cause: Sequence(1), timestamp: Timestamp(20_000 * NANOS_PER_DAY + NOW), event }
}

pub fn instrument() -> Instrument {
    Instrument {
        instrument_id: InstrumentId(1),
        symbol: Symbol::new("AAPL").unwrap(),
        price_increment: Price(100),
        round_lot: Quantity(100),
    }
}

pub fn fill(session_id: SessionId, channel: u8, user_ref_num: u32) -> Fill {
    Fill {
        key: OrderKey { session_id, channel, user_ref_num },
        order_id: OrderId(123_456_789),
        leaves: Quantity::ZERO,
    }
}

fn key(channel: u8, user_ref_num: u32) -> OrderKey {
    OrderKey { session_id: FIRST, channel, user_ref_num }
}

/// The replies to an event, by an encoder that knows the instrument.
fn encoded(event: Event) -> Vec<(Recipient, Vec<u8>)> {
    let mut encoder = Encoder::new();
    let mut messages = Vec::new();
    for event in [Event::InstrumentAdded(instrument()), event] {
        encoder.encode(&output(event), &mut |recipient, message| {
            messages.push((recipient, message.to_vec()));
        });
    }
    messages
}

/// Checks that an event gives this message to the first session and no other message.
fn gives(event: Event, message: &MessageBuffer) {
    assert_eq!(encoded(event), [(Recipient::One(FIRST), message.to_vec())], "{event:?}");
}

fn conditions() -> Conditions {
    Conditions {
        self_match_prevention: SelfMatchPrevention::CancelNewest,
        self_match_group: SelfMatchGroup::new("G1").unwrap(),
        post_only: true,
        minimum_quantity: Lots::new(258),
    }
}

fn accepted() -> Accepted {
    Accepted {
        key: key(0, 1),
        order_id: OrderId(123_456_789),
        instrument_id: InstrumentId(1),
        side: Side::Buy,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        display: Display::Visible,
        quantity: Lots::new(100),
        price: Ticks(1_503_400),
        attributes: OrderAttributes {
            client_order_id: ClientOrderId::new("CLORD1").unwrap(),
            capacity: Capacity::Agency,
            ..OrderAttributes::default()
        },
        conditions: Conditions::NONE,
        instructions: Instructions::NONE,
    }
}

fn accepted_fields() -> ouch::OrderAccepted {
    ouch::OrderAccepted {
        message_type: ouch::OrderAccepted::TYPE,
        timestamp: NOW.into(),
        user_ref_num: 1.into(),
        side: b'B',
        quantity: 100.into(),
        symbol: *b"AAPL    ",
        price: 1_503_400.into(),
        time_in_force: b'0',
        display: b'Y',
        order_reference_number: 123_456_789.into(),
        capacity: b'A',
        inter_market_sweep_eligibility: b'N',
        cross_type: b'N',
        order_state: b'L',
        cl_ord_id: *b"CLORD1        ",
    }
}

fn replaced() -> Replaced {
    let Accepted { instrument_id, side, order_type, time_in_force, display, price, .. } =
        accepted();
    Replaced {
        key: key(0, 2),
        original_user_ref_num: 1,
        original_order_id: OrderId(123_456_789),
        order_id: OrderId(123_456_790),
        instrument_id,
        side,
        order_type,
        time_in_force,
        display,
        in_place: true,
        original_displayed: true,
        leaves: Lots::new(400),
        price,
        client_order_id: accepted().attributes.client_order_id,
        firm: Firm::new("FIRM").unwrap(),
        capacity: accepted().attributes.capacity,
        conditions: Conditions::NONE,
        instructions: Instructions::NONE,
    }
}

/// Accepted echoes the order and, of its tags, those that are not at their default.
#[test]
fn accepted_echoes_the_order() {
    gives(Event::Accepted(accepted()), &MessageBuffer::with_appendage(&accepted_fields()));

    let attributes = OrderAttributes {
        firm: Firm::new("FIRM").unwrap(),
        customer_type: CustomerType::NotRetail,
        group_id: 258,
        shares_located: true,
        locate_broker: Firm::new("LOCA").unwrap(),
        ..accepted().attributes
    };
    let mut message = MessageBuffer::with_appendage(&accepted_fields());
    message
        .tag(Tag::Firm, b"FIRM")
        .tag(Tag::MinQty, &[0, 0, 1, 2])
        .tag(Tag::CustomerType, b"N")
        .tag(Tag::PostOnly, b"P")
        .tag(Tag::GroupId, &[1, 2])
        .tag(Tag::SharesLocated, b"Y")
        .tag(Tag::UserRefIdx, &[5])
        .tag(Tag::AiqStrategy, b"W")
        .tag(Tag::AiqGroupId, b"G1");
    let conditions = conditions();
    gives(
        Event::Accepted(Accepted { key: key(5, 1), attributes, conditions, ..accepted() }),
        &message,
    );
}

/// A market order has no price; the wire's price for it comes back.
#[test]
fn market_orders_are_echoed_as_such() {
    let market = Accepted { order_type: OrderType::Market, price: Ticks::ZERO, ..accepted() };
    let fields = ouch::OrderAccepted { price: ouch::MARKET_PRICE.into(), ..accepted_fields() };
    gives(Event::Accepted(market), &MessageBuffer::with_appendage(&fields));
}

/// Replaced gives the open lots, and echoes the only tags it may carry.
#[test]
fn replaced_says_what_is_open() {
    let fields = ouch::OrderReplaced {
        message_type: ouch::OrderReplaced::TYPE,
        timestamp: NOW.into(),
        orig_user_ref_num: 1.into(),
        user_ref_num: 2.into(),
        side: b'B',
        quantity: 400.into(),
        symbol: *b"AAPL    ",
        price: 1_503_400.into(),
        time_in_force: b'0',
        display: b'Y',
        order_reference_number: 123_456_790.into(),
        capacity: b'A',
        inter_market_sweep_eligibility: b'N',
        cross_type: b'N',
        order_state: b'L',
        cl_ord_id: *b"CLORD1        ",
    };
    let mut message = MessageBuffer::with_appendage(&fields);
    message.tag(Tag::Firm, b"FIRM");
    gives(Event::Replaced(replaced()), &message);
    message.tag(Tag::UserRefIdx, &[9]);
    gives(Event::Replaced(Replaced { key: key(9, 2), ..replaced() }), &message);
}

/// A trade is reported to both its owners, the maker first, with the same match number.
#[test]
fn trade_tells_maker_then_taker() {
    let traded = Traded {
        trade_id: TradeId(987_654_321),
        instrument_id: InstrumentId(1),
        taker_side: Side::Sell,
        price: Price(1_503_400),
        quantity: Quantity(100),
        maker_shown: Quantity(1_000),
        maker: fill(FIRST, 0, 1),
        taker: fill(SECOND, 3, 77),
        auction: None,
    };
    let maker = ouch::OrderExecuted {
        message_type: ouch::OrderExecuted::TYPE,
        timestamp: NOW.into(),
        user_ref_num: 1.into(),
        quantity: 100.into(),
        price: 1_503_400.into(),
        liquidity_flag: b'A',
        match_number: 987_654_321.into(),
    };
    let taker = ouch::OrderExecuted { user_ref_num: 77.into(), liquidity_flag: b'R', ..maker };
    let mut to_taker = MessageBuffer::with_appendage(&taker);
    to_taker.tag(Tag::UserRefIdx, &[3]);
    assert_eq!(
        encoded(Event::Traded(traded)),
        [
            (Recipient::One(FIRST), MessageBuffer::with_appendage(&maker).to_vec()),
            (Recipient::One(SECOND), to_taker.to_vec()),
        ]
    );
}

/// A message whose appendage is optional has one only to name a channel.
#[test]
fn optional_appendage_names_the_channel() {
    for channel in [0, 5] {
        let with_channel = |mut message: MessageBuffer| {
            message.user_ref_idx(channel);
            message
        };
        let client_order_id = ClientOrderId::new("BADPX").unwrap();
        gives(
            Event::Rejected(Rejected {
                key: key(channel, 9),
                reason: RejectReason::InvalidPrice,
                cause: CommandKind::Enter,
                client_order_id,
            }),
            &with_channel(MessageBuffer::new(&ouch::Rejected {
                message_type: ouch::Rejected::TYPE,
                timestamp: NOW.into(),
                user_ref_num: 9.into(),
                reason: 0x001D.into(),
                cl_ord_id: *b"BADPX         ",
            })),
        );
        for reason in CancelReason::ALL {
            gives(
                Event::Canceled(Canceled {
                    key: key(channel, 9),
                    order_id: OrderId(1),
                    instrument_id: InstrumentId(1),
                    quantity: Quantity(60),
                    leaves: Quantity(40),
                    booked: true,
                    shown: Shown { before: Quantity(100), after: Quantity(40) },
                    reason: *reason,
                    cause: CommandKind::Cancel,
                }),
                &with_channel(MessageBuffer::new(&ouch::OrderCanceled {
                    message_type: ouch::OrderCanceled::TYPE,
                    timestamp: NOW.into(),
                    user_ref_num: 9.into(),
                    quantity: 60.into(),
                    // OUCH has no letter for these two.
                    reason: match reason {
                        CancelReason::Linked | CancelReason::Unpaid => b'Z',
                        reason => reason.code(),
                    },
                })),
            );
        }
        for (booked, displayed, liquidity_flag) in
            [(true, true, b'A'), (true, false, b'J'), (false, false, b'R')]
        {
            gives(
                Event::SelfMatchPrevented(SelfMatchPrevented {
                    key: key(channel, 9),
                    order_id: OrderId(1),
                    instrument_id: InstrumentId(1),
                    quantity: Quantity(60),
                    leaves: Quantity(0),
                    prevented: Quantity(40),
                    price: Price(1_503_400),
                    booked,
                    shown: Shown {
                        before: Quantity(if displayed { 60 } else { 0 }),
                        after: Quantity::ZERO,
                    },
                    prevention: SelfMatchPrevention::CancelOldestOfSessions,
                }),
                &with_channel(MessageBuffer::new(&ouch::AiqCanceled {
                    message_type: ouch::AiqCanceled::TYPE,
                    timestamp: NOW.into(),
                    user_ref_num: 9.into(),
                    decrement_shares: 60.into(),
                    reason: b'Q',
                    quantity_prevented_from_trading: 40.into(),
                    execution_price: 1_503_400.into(),
                    liquidity_flag,
                    aiq_strategy: b'o',
                })),
            );
        }
        gives(
            Event::Modified(Modified {
                key: key(channel, 9),
                order_id: OrderId(1),
                instrument_id: InstrumentId(1),
                side: Side::SellShortExempt,
                quantity: Quantity(10),
                leaves: Quantity(40),
                shown: Shown { before: Quantity(50), after: Quantity(40) },
            }),
            &with_channel(MessageBuffer::new(&ouch::OrderModified {
                message_type: ouch::OrderModified::TYPE,
                timestamp: NOW.into(),
                user_ref_num: 9.into(),
                side: b'E',
                quantity: 40.into(),
            })),
        );
        let held = |is_pending| Event::CancelHeld(CancelHeld { key: key(channel, 9), is_pending });
        gives(
            held(true),
            &with_channel(MessageBuffer::new(&ouch::CancelPending {
                message_type: ouch::CancelPending::TYPE,
                timestamp: NOW.into(),
                user_ref_num: 9.into(),
            })),
        );
        gives(
            held(false),
            &with_channel(MessageBuffer::new(&ouch::CancelReject {
                message_type: ouch::CancelReject::TYPE,
                timestamp: NOW.into(),
                user_ref_num: 9.into(),
            })),
        );
        gives(
            Event::AccountQueried(AccountQueried {
                session_id: FIRST,
                channel,
                next_user_ref_num: 14,
            }),
            &with_channel(MessageBuffer::new(&ouch::AccountQueryResponse {
                message_type: ouch::AccountQueryResponse::TYPE,
                timestamp: NOW.into(),
                next_user_ref_num: 14.into(),
            })),
        );
    }
}

/// The answers to requests about many orders echo the request.
#[test]
fn answers_echo_the_request() {
    let firm = Firm::new("FIRM").unwrap();
    let asked = MassCanceled {
        key: key(0, 10),
        firm,
        symbol: Symbol::new("MSFT").unwrap(),
        side: None,
        group_id: None,
    };
    let fields = ouch::MassCancelResponse {
        message_type: ouch::MassCancelResponse::TYPE,
        timestamp: NOW.into(),
        user_ref_num: 10.into(),
        firm: *b"FIRM",
        symbol: *b"MSFT    ",
    };
    gives(Event::MassCanceled(asked), &MessageBuffer::with_appendage(&fields));
    let mut message = MessageBuffer::with_appendage(&fields);
    message.tag(Tag::GroupId, &[0, 0]).tag(Tag::Side, b"S").tag(Tag::UserRefIdx, &[2]);
    gives(
        Event::MassCanceled(MassCanceled {
            key: key(2, 10),
            side: Some(Side::Sell),
            group_id: Some(0),
            ..asked
        }),
        &message,
    );

    let disabled = ouch::DisableOrderEntryResponse {
        message_type: ouch::DisableOrderEntryResponse::TYPE,
        timestamp: NOW.into(),
        user_ref_num: 12.into(),
        firm: *b"FIRM",
    };
    let enabled = ouch::EnableOrderEntryResponse {
        message_type: ouch::EnableOrderEntryResponse::TYPE,
        timestamp: NOW.into(),
        user_ref_num: 12.into(),
        firm: *b"FIRM",
    };
    let switched = EntrySwitched { key: key(0, 12), firm, enabled: false };
    gives(Event::EntrySwitched(switched), &MessageBuffer::with_appendage(&disabled));
    let switched = EntrySwitched { enabled: true, ..switched };
    gives(Event::EntrySwitched(switched), &MessageBuffer::with_appendage(&enabled));
}

/// The day's start and end go to all; a session added later gets only the start.
#[test]
fn day_starts_and_ends_for_all() {
    let event = |event_code| {
        let fields = ouch::SystemEvent {
            message_type: ouch::SystemEvent::TYPE,
            timestamp: NOW.into(),
            event_code,
        };
        MessageBuffer::new(&fields).to_vec()
    };
    for system_event in SystemEvent::ALL {
        let expected = match system_event {
            SystemEvent::StartOfSystemHours => vec![(Recipient::All, event(b'S'))],
            SystemEvent::EndOfSystemHours => vec![(Recipient::All, event(b'E'))],
            _ => vec![],
        };
        assert_eq!(encoded(Event::System(*system_event)), expected, "{system_event:?}");
    }
    let added = SessionAdded {
        session_id: SECOND,
        username: Text::new("USER02").unwrap(),
        firm: Firm::new("FIRM").unwrap(),
        system_hours: true,
    };
    let expected = [(Recipient::One(SECOND), event(b'S'))];
    assert_eq!(encoded(Event::SessionAdded(added)), expected);
    let before = SessionAdded { system_hours: false, ..added };
    assert_eq!(encoded(Event::SessionAdded(before)), []);
}

/// The reference price of a pegged order, and an order's time to live, are echoed; the seconds are the remaining ones,
/// the current one not counted.
#[test]
fn instructions_are_echoed() {
    let instructions = Instructions {
        pricing: Pricing::MarketPeg,
        offset: -300,
        expires_s: (20_000 * NANOS_PER_DAY / 1_000_000_000) as u32 + 34_200 + 31,
        ..Instructions::NONE
    };
    let time_in_force = TimeInForce::GoodTillTime;
    let mut encoder = Encoder::new();
    let mut messages = Vec::new();
    for event in [
        Event::InstrumentAdded(instrument()),
        Event::Accepted(Accepted { time_in_force, instructions, ..accepted() }),
        Event::Replaced(Replaced { time_in_force, instructions, ..replaced() }),
        Event::Accepted(accepted()),
    ] {
        encoder.encode(&output(event), &mut |_, message| messages.push(message.to_vec()));
    }
    let fields = ouch::OrderAccepted { time_in_force: b'6', ..accepted_fields() };
    let mut message = MessageBuffer::with_appendage(&fields);
    message
        .tag(Tag::PriceType, b"P")
        .tag(Tag::PegOffset, &(-300_i32).to_be_bytes())
        .tag(Tag::ExpireTime, &30_u32.to_be_bytes());
    assert_eq!(messages[0], message.to_vec());
    let Ok(ouch::Outbound::OrderReplaced(_, appendage)) = ouch::decode_outbound(&messages[1])
    else {
        panic!()
    };
    let tags: Vec<_> = appendage.iter().map(|(tag, value)| (tag, value.to_vec())).collect();
    let life = (Tag::ExpireTime as u8, 30_u32.to_be_bytes().to_vec());
    assert_eq!(tags, [(2, b"FIRM".to_vec()), (Tag::PriceType as u8, b"P".to_vec()), life]);
    let plain = MessageBuffer::with_appendage(&accepted_fields());
    assert_eq!(messages[2], plain.to_vec(), "they are of the next order alone");
}

/// A refreshed part is restated under its new name on the feed; an order whose price follows the
/// market has another priority.
#[test]
fn restated_orders_are_reported() {
    let restated = |reason| {
        Event::Restated(Restated {
            key: key(0, 9),
            order_id_before: OrderId(1),
            order_id: OrderId(5),
            instrument_id: InstrumentId(1),
            side: Side::Buy,
            reason,
            price: Price(1_503_400),
            leaves: Quantity(400),
            shown: Quantity(100),
            display: Display::Visible,
            attribution: Firm::BLANK,
        })
    };
    let mut refreshed = MessageBuffer::with_appendage(&ouch::OrderRestated {
        message_type: ouch::OrderRestated::TYPE,
        timestamp: NOW.into(),
        user_ref_num: 9.into(),
        reason: b'R',
    });
    refreshed.tag(Tag::SecondaryOrdRefNum, &5_u64.to_be_bytes());
    refreshed.tag(Tag::DisplayQuantity, &100_u32.to_be_bytes());
    gives(restated(RestateReason::Refreshed), &refreshed);
    let moved = MessageBuffer::new(&ouch::OrderPriorityUpdate {
        message_type: ouch::OrderPriorityUpdate::TYPE,
        timestamp: NOW.into(),
        user_ref_num: 9.into(),
        price: 1_503_400.into(),
        display: b'Y',
        order_reference_number: 5.into(),
    });
    gives(restated(RestateReason::Repriced), &moved);
}

/// An event for the feed alone causes no reply.
#[test]
fn booking_causes_no_reply() {
    let booked = Booked {
        order_id: OrderId(1),
        instrument_id: InstrumentId(1),
        side: Side::Buy,
        price: Price(100),
        leaves: Quantity(1),
        shown: Quantity(1),
        attribution: Firm::BLANK,
    };
    assert_eq!(encoded(Event::Booked(booked)), []);
}

/// No two reasons share a code, so that a participant can distinguish them; but reasons without an OUCH code share that
/// of an unsupported feature, or that of too much to be processed.
#[test]
fn reasons_have_codes_of_their_own() {
    use RejectReason::{
        InvalidExpiry, InvalidLink, InvalidTrigger, NoRoom, NotSupported, TooManyOrders,
        TooManyPegs, TooSlow,
    };
    let other = [
        (InvalidTrigger, NotSupported),
        (InvalidExpiry, NotSupported),
        (InvalidLink, NotSupported),
        (NoRoom, TooManyOrders),
        (TooManyPegs, TooManyOrders),
        (TooSlow, TooManyOrders),
    ];
    for (reason, like) in other {
        assert_eq!(reject_code(reason), reject_code(like), "{reason:?}");
    }
    let mut codes: Vec<_> = RejectReason::ALL.iter().map(|reason| reject_code(*reason)).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), RejectReason::ALL.len() - other.len());
}
