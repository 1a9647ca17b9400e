//! Commands from a participant's bytes.

use market::{
    AccountQuery, CancelOrder, Capacity, ClientOrderId, Command, ConditionChanges, Conditions,
    CustomerType, Display, EnterOrder, EntrySwitch, Firm, Instructions, Lots, MassCancel,
    ModifyOrder, OrderAttributes, OrderKey, OrderType, Price, Pricing, Quantity, RejectOrder,
    RejectReason, ReplaceOrder, ReplaceTerms, SelfMatchGroup, SelfMatchPrevention, SessionId, Side,
    Symbol, TimeInForce, Timestamp,
};
use wire::{
    layout::Message as _,
    ouch::{self, Malformed, MessageBuffer, Tag},
};

use crate::seeded::{Seeded, for_seeds};

const SESSION: SessionId = SessionId(4);

/// A moment within a second.
const RECEIVED: Timestamp = Timestamp(1_700_000_000_000_000_001);

/// Buy 100 AAPL at 150.3400 for the day, number 9 of channel 0.
fn enter() -> ouch::EnterOrder {
    ouch::EnterOrder {
        message_type: ouch::EnterOrder::TYPE,
        user_ref_num: 9.into(),
        side: b'B',
        quantity: 100.into(),
        symbol: *b"AAPL    ",
        price: 1_503_400.into(),
        time_in_force: b'0',
        display: b'Y',
        capacity: b'A',
        inter_market_sweep_eligibility: b'N',
        cross_type: b'N',
        cl_ord_id: *b"MINE          ",
    }
}

/// The terms of [`enter`].
pub fn market_order() -> EnterOrder {
    entered(&with_tags(&enter(), &[]))
}

fn replace() -> ouch::ReplaceOrderRequest {
    ouch::ReplaceOrderRequest {
        message_type: ouch::ReplaceOrderRequest::TYPE,
        orig_user_ref_num: 9.into(),
        user_ref_num: 10.into(),
        quantity: 500.into(),
        price: 1_503_500.into(),
        time_in_force: b'0',
        display: b'Y',
        inter_market_sweep_eligibility: b'N',
        cl_ord_id: *b"MINE TOO      ",
    }
}

fn key(channel: u8, user_ref_num: u32) -> OrderKey {
    OrderKey { session_id: SESSION, channel, user_ref_num }
}

fn with_tags(fixed: &impl wire::layout::Message, tags: &[(Tag, &[u8])]) -> Vec<u8> {
    let mut message = MessageBuffer::with_appendage(fixed);
    for (tag, value) in tags {
        message.tag(*tag, value);
    }
    message.to_vec()
}

/// The message with elements that our writers never write.
fn with_raw(fixed: &impl wire::layout::Message, elements: &[u8]) -> Vec<u8> {
    let mut message = MessageBuffer::new(fixed).to_vec();
    message.extend_from_slice(&u16::try_from(elements.len()).unwrap().to_be_bytes());
    message.extend_from_slice(elements);
    message
}

fn entered(message: &[u8]) -> EnterOrder {
    match ouch::command(message, SESSION, RECEIVED) {
        Ok(Command::Enter(order)) => order,
        other => panic!("{other:?}"),
    }
}

/// The reason for which an order is refused.
fn refused(message: &[u8]) -> RejectReason {
    match ouch::command(message, SESSION, RECEIVED) {
        Ok(Command::Reject(refused)) => {
            assert_eq!(refused.key.session_id, SESSION);
            assert_eq!(refused.key.user_ref_num, 9);
            refused.reason
        }
        other => panic!("{other:?}"),
    }
}

/// An order's fields and tags are its command's.
#[test]
fn enter_order_is_read_whole() {
    let plain = entered(&with_tags(&enter(), &[]));
    let expected = EnterOrder {
        key: key(0, 9),
        side: Side::Buy,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        display: Display::Visible,
        quantity: Quantity(100),
        price: Price(1_503_400),
        symbol: Symbol::new("AAPL").unwrap(),
        attributes: OrderAttributes {
            client_order_id: ClientOrderId::new("MINE").unwrap(),
            capacity: Capacity::Agency,
            ..OrderAttributes::default()
        },
        conditions: Conditions::NONE,
        instructions: Instructions::NONE,
    };
    assert_eq!(plain, expected);

    let tags: [(Tag, &[u8]); 10] = [
        (Tag::MinQty, &[0, 0, 1, 2]),
        (Tag::PostOnly, b"P"),
        (Tag::Firm, b"FIRM"),
        (Tag::CustomerType, b"R"),
        (Tag::GroupId, &[0x01, 0x02]),
        (Tag::SharesLocated, b"Y"),
        (Tag::LocateBroker, b"LOCA"),
        (Tag::UserRefIdx, &[200]),
        (Tag::AiqStrategy, b"d"),
        (Tag::AiqGroupId, b"AB"),
    ];
    let full = entered(&with_tags(&enter(), &tags));
    let expected = EnterOrder {
        key: key(200, 9),
        attributes: OrderAttributes {
            firm: Firm::new("FIRM").unwrap(),
            customer_type: CustomerType::Retail,
            group_id: 0x0102,
            shares_located: true,
            locate_broker: Firm::new("LOCA").unwrap(),
            ..expected.attributes
        },
        conditions: Conditions {
            self_match_prevention: SelfMatchPrevention::DecrementBothOfSessions,
            self_match_group: SelfMatchGroup::new("AB").unwrap(),
            post_only: true,
            minimum_quantity: Lots::new(0x0102),
        },
        ..expected
    };
    assert_eq!(full, expected);
}

/// A price from 200,000.0000 up is a market order, one below it a limit order.
#[test]
fn prices_beyond_all_limits_are_market_orders() {
    for (price, order_type, ticks) in [
        (0, OrderType::Limit, 0),
        (ouch::LIMIT_PRICE_MAX, OrderType::Limit, ouch::LIMIT_PRICE_MAX),
        (ouch::MARKET_PRICE_MIN - 1, OrderType::Limit, ouch::MARKET_PRICE_MIN - 1),
        (ouch::MARKET_PRICE_MIN, OrderType::Market, 0),
        (ouch::MARKET_PRICE, OrderType::Market, 0),
        (u64::MAX, OrderType::Market, 0),
    ] {
        let order = entered(&with_tags(&ouch::EnterOrder { price: price.into(), ..enter() }, &[]));
        assert_eq!((order.order_type, order.price), (order_type, Price(ticks)), "{price}");
    }
}

/// Quantities are not checked here, so that the engine answers in its order of checks.
#[test]
fn quantities_are_passed_on() {
    for quantity in [0, 1, 999_999, 1_000_000, u32::MAX] {
        let order = ouch::EnterOrder { quantity: quantity.into(), ..enter() };
        assert_eq!({ entered(&with_tags(&order, &[])).quantity }, Quantity(u64::from(quantity)));
    }
}

/// Each undefined value, and each request for a feature that is not offered, has its reason.
#[test]
fn fields_not_offered_are_refused() {
    use RejectReason::*;
    let check = |order: ouch::EnterOrder, reason| {
        assert_eq!(refused(&with_tags(&order, &[])), reason, "{order:?}");
    };
    for side in [b'b', b'X', 0, b' '] {
        check(ouch::EnterOrder { side, ..enter() }, InvalidSide);
    }
    check(ouch::EnterOrder { symbol: *b"AA\0L    ", ..enter() }, InvalidSymbol);
    for display in [b'X', b'Z', 0] {
        check(ouch::EnterOrder { display, ..enter() }, InvalidDisplay);
    }
    for cross_type in [b'S', b'R', b'E', b'A', 0] {
        check(ouch::EnterOrder { cross_type, ..enter() }, InvalidCrossOrder);
    }
    check(ouch::EnterOrder { cross_type: b'O', time_in_force: b'3', ..enter() }, InvalidCrossOrder);
    for inter_market_sweep_eligibility in [b'Y', 0] {
        check(ouch::EnterOrder { inter_market_sweep_eligibility, ..enter() }, SweepNotAllowed);
    }
    for time_in_force in [b'5', b'E', b'1', 0] {
        check(ouch::EnterOrder { time_in_force, ..enter() }, NotSupported);
    }
    check(ouch::EnterOrder { capacity: b'X', ..enter() }, NotSupported);
    check(ouch::EnterOrder { cl_ord_id: *b"\x80             ", ..enter() }, NotSupported);
}

/// Of several reasons the reply has the first in the order of the checks, for fields and tags alike.
#[test]
fn first_reason_is_reported() {
    let order = ouch::EnterOrder { side: b'?', cross_type: b'S', capacity: b'?', ..enter() };
    assert_eq!(refused(&with_tags(&order, &[])), RejectReason::InvalidSide);
    let order = ouch::EnterOrder { cross_type: b'S', capacity: b'?', ..enter() };
    let tags: [(Tag, &[u8]); 2] = [(Tag::AiqStrategy, b"Y"), (Tag::PriceType, b"x")];
    assert_eq!(refused(&with_tags(&order, &tags)), RejectReason::InvalidPegType);
    assert_eq!(refused(&with_tags(&order, &tags[..1])), RejectReason::InvalidCrossOrder);
    let order = ouch::EnterOrder { capacity: b'?', ..enter() };
    assert_eq!(refused(&with_tags(&order, &tags[..1])), RejectReason::InvalidSelfMatchPrevention);
}

/// A tag for a feature that is not offered is accepted if it requests no effect, otherwise refused with its reason.
#[test]
fn tags_not_offered_must_ask_for_nothing() {
    use RejectReason::*;
    let one: &[u8] = &[0, 0, 0, 1];
    type Nothing<'a> = &'a [&'a [u8]];
    type Something<'a> = &'a [(&'a [u8], RejectReason)];
    let cases: &[(Tag, Nothing, Something)] = &[
        (Tag::MaxFloor, &[&[0; 4], one], &[]),
        (
            Tag::PriceType,
            &[b"L", b"P", b"M", b"R"],
            &[(b"Q", PeggingNotAllowed), (b"m", PeggingNotAllowed), (b"x", InvalidPegType)],
        ),
        (Tag::PegOffset, &[&[0; 4]], &[(&[255; 4], PeggingNotAllowed)]),
        (Tag::DiscretionPrice, &[&[0; 8]], &[(&[0, 0, 0, 0, 0, 0, 0, 1], NotSupported)]),
        (Tag::DiscretionPriceType, &[b"L"], &[(b"P", NotSupported)]),
        (Tag::DiscretionPegOffset, &[&[0; 4]], &[(one, NotSupported)]),
        (Tag::PostOnly, &[b"N", b"P"], &[(b"Y", NotSupported)]),
        (Tag::RandomReserves, &[&[0; 4], one], &[]),
        (Tag::ExpireTime, &[&[0; 4], one], &[(&86_400_u32.to_be_bytes(), NotSupported)]),
        (Tag::TradeNow, &[b"N", b" "], &[(b"Y", NotSupported)]),
        (Tag::HandleInst, &[b" "], &[(b"I", NotSupported)]),
        (Tag::AiqStrategy, &[b"*", b"N", b"o"], &[(b"Y", InvalidSelfMatchPrevention)]),
        (Tag::AiqGroupId, &[b"**", b"AB"], &[(b"A\0", InvalidSelfMatchPrevention)]),
    ];
    for (tag, nothing, something) in cases {
        for value in *nothing {
            entered(&with_tags(&enter(), &[(*tag, value)]));
        }
        for (value, reason) in *something {
            assert_eq!(refused(&with_tags(&enter(), &[(*tag, value)])), *reason, "{tag:?}");
            assert!(
                replaced(&with_tags(&replace(), &[(*tag, value)])).terms.is_none(),
                "{tag:?} on a replace"
            );
        }
    }
}

/// An order that follows the market names its reference price and its distance; no other order has an offset.
#[test]
fn pegged_orders_are_read() {
    for (code, pricing) in [
        (b"R", Pricing::PrimaryPeg),
        (b"P", Pricing::MarketPeg),
        (b"M", Pricing::MidpointPeg),
        (b"L", Pricing::Limit),
    ] {
        let instructions = Instructions { pricing, ..Instructions::NONE };
        let tags: [(Tag, &[u8]); 2] =
            [(Tag::PriceType, code), (Tag::PegOffset, &(-300_i32).to_be_bytes())];
        assert_eq!(entered(&with_tags(&enter(), &tags[..1])).instructions, instructions);
        let named = replaced(&with_tags(&replace(), &tags[..1])).terms.unwrap().instructions;
        assert_eq!(named, Some(instructions), "a named tag sets the instructions, also to no peg");
        match pricing.is_pegged() {
            true => {
                let order = entered(&with_tags(&enter(), &tags));
                assert_eq!(order.instructions, Instructions { offset: -300, ..instructions });
            }
            false => {
                let reason = RejectReason::PeggingNotAllowed;
                assert_eq!(refused(&with_tags(&enter(), &tags)), reason);
            }
        }
    }
}

/// An order's seconds to live count from the next full second on.
#[test]
fn seconds_to_live_are_a_moment() {
    let order = ouch::EnterOrder { time_in_force: b'6', ..enter() };
    let tags: &[(Tag, &[u8])] = &[(Tag::ExpireTime, &30_u32.to_be_bytes())];
    let order = entered(&with_tags(&order, tags));
    assert_eq!(order.time_in_force, TimeInForce::GoodTillTime);
    assert_eq!(order.instructions.expires_s, 1_700_000_001 + 30);
    let command = Command::Enter(order);
    assert!(ouch::request(&command).is_none(), "its life counts from a moment");
    let request = ouch::request_at(&command, RECEIVED).expect("it can be said");
    assert_eq!(ouch::command(&request, SESSION, RECEIVED), Ok(command));
    for expires_s in [1_700_000_001, 1_700_000_001 + 86_400] {
        let instructions = Instructions { expires_s, ..Instructions::NONE };
        let command = Command::Enter(EnterOrder { instructions, ..order });
        assert!(ouch::request_at(&command, RECEIVED).is_none(), "{expires_s}");
    }
}

/// Values of offered tags must be defined.
#[test]
fn tags_offered_must_mean_something() {
    for (tag, value) in [
        (Tag::Firm, &b"firm"[..]),
        (Tag::Firm, b"F\0RM"),
        (Tag::CustomerType, b"X"),
        (Tag::SharesLocated, b" "),
        (Tag::LocateBroker, b"\xff   "),
    ] {
        assert_eq!(refused(&with_tags(&enter(), &[(tag, value)])), RejectReason::NotSupported);
    }
}

/// Tags that are unknown, misplaced, doubled or of the wrong length refuse an order, keep its
/// channel, and void a replace.
#[test]
fn tags_that_cannot_be_read_are_refused() {
    for elements in [
        &[2, 99, 0][..],                  // unknown
        &[2, 8, 0],                       // unassigned
        &[5, 14, b'N', b'A', b'S', b'D'], // route is not for requests
        &[3, 12, b'N', b'N'],             // post only takes one byte
        &[1, 12],                         // and not none
        &[2, 12, b'N', 2, 12, b'N'],      // and not twice
        &[2, 28, 5, 2, 99, 0],            // unknown, on channel 5
    ] {
        let message = with_raw(&enter(), elements);
        assert_eq!(refused(&message), RejectReason::NotSupported, "{elements:?}");
        let channel = if elements.starts_with(&[2, 28]) { 5 } else { 0 };
        let Ok(Command::Reject(refusal)) = ouch::command(&message, SESSION, RECEIVED) else {
            panic!()
        };
        assert_eq!(refusal.key, key(channel, 9));
        assert_eq!(refusal.client_order_id.as_str(), "MINE");
        assert!(replaced(&with_raw(&replace(), elements)).terms.is_none(), "{elements:?}");
    }
    let side = with_tags(&enter(), &[(Tag::Side, b"B")]);
    assert_eq!(refused(&side), RejectReason::NotSupported, "a side tag is not for Enter");
}

/// A message with an ambiguous channel is ignored: another channel's order has the same number.
#[test]
fn unclear_channel_is_malformed() {
    for elements in [&[2, 28, 5, 2, 28, 5][..], &[3, 28, 0, 5], &[1, 28]] {
        for message in [with_raw(&enter(), elements), with_raw(&replace(), elements)] {
            assert_eq!(
                ouch::command(&message, SESSION, RECEIVED),
                Err(Malformed::Channel),
                "{elements:?}"
            );
        }
    }
}

/// Lengths that do not add up are malformed in any message.
#[test]
fn lengths_must_add_up() {
    let whole = with_tags(&enter(), &[(Tag::Firm, b"FIRM")]);
    for len in 0..whole.len() {
        let malformed = ouch::command(&whole[..len], SESSION, RECEIVED).unwrap_err();
        let expected = match len {
            0 => Malformed::Empty,
            1..45 => Malformed::Short { message_type: b'O', len },
            _ => Malformed::Appendage,
        };
        assert_eq!(malformed, expected);
    }
    let mut longer = whole;
    longer.push(0);
    assert_eq!(ouch::command(&longer, SESSION, RECEIVED), Err(Malformed::Appendage));
    assert_eq!(
        ouch::command(&with_raw(&enter(), &[0]), SESSION, RECEIVED),
        Err(Malformed::Appendage),
        "an element has at least a tag"
    );
    for code in 0..=u8::MAX {
        if !b"OUXMCDEQ".contains(&code) {
            assert_eq!(
                ouch::command(&[code; 60], SESSION, RECEIVED),
                Err(Malformed::UnknownType(code))
            );
        }
    }
}

fn replaced(message: &[u8]) -> ReplaceOrder {
    match ouch::command(message, SESSION, RECEIVED) {
        Ok(Command::Replace(replace)) => replace,
        other => panic!("{other:?}"),
    }
}

/// A replace names its chain and gives new terms.
#[test]
fn replace_is_read_whole() {
    let tags: [(Tag, &[u8]); 8] = [
        (Tag::MinQty, &[0; 4]),
        (Tag::PostOnly, b"N"),
        (Tag::SharesLocated, b"Y"),
        (Tag::LocateBroker, b"LOCA"),
        (Tag::Side, b"T"),
        (Tag::UserRefIdx, &[3]),
        (Tag::AiqStrategy, b"N"),
        (Tag::AiqGroupId, b"**"),
    ];
    let expected = ReplaceOrder {
        original_user_ref_num: 9,
        key: key(3, 10),
        terms: Some(ReplaceTerms {
            side: Some(Side::SellShort),
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            quantity: Quantity(500),
            price: Price(1_503_500),
            client_order_id: ClientOrderId::new("MINE TOO").unwrap(),
            shares_located: true,
            locate_broker: Firm::new("LOCA").unwrap(),
            conditions: ConditionChanges {
                self_match_prevention: Some(SelfMatchPrevention::Off),
                self_match_group: Some(SelfMatchGroup::BLANK),
                post_only: Some(false),
                minimum_quantity: Some(Lots::new(0)),
            },
            instructions: None,
        }),
    };
    assert_eq!(replaced(&with_tags(&replace(), &tags)), expected);
    let market = ouch::ReplaceOrderRequest { price: ouch::MARKET_PRICE.into(), ..replace() };
    let terms = replaced(&with_tags(&market, &[])).terms.unwrap();
    assert_eq!((terms.order_type, terms.price), (OrderType::Market, Price::ZERO));
}

/// A replace with any unacceptable value has no terms, but still names its orders.
#[test]
fn replace_that_cannot_be_accepted_has_no_terms() {
    let void = |request: ouch::ReplaceOrderRequest, tags: &[(Tag, &[u8])]| {
        let expected = ReplaceOrder { original_user_ref_num: 9, key: key(0, 10), terms: None };
        assert_eq!(replaced(&with_tags(&request, tags)), expected, "{request:?} {tags:?}");
    };
    void(ouch::ReplaceOrderRequest { time_in_force: b'5', ..replace() }, &[]);
    void(ouch::ReplaceOrderRequest { display: b'Z', ..replace() }, &[]);
    void(ouch::ReplaceOrderRequest { inter_market_sweep_eligibility: b'Y', ..replace() }, &[]);
    void(ouch::ReplaceOrderRequest { cl_ord_id: [7; 14], ..replace() }, &[]);
    void(replace(), &[(Tag::Firm, b"FIRM")]);
    void(replace(), &[(Tag::GroupId, &[0, 1])]);
    void(replace(), &[(Tag::Side, b"X")]);
}

/// Cancel, modify and query are read with and without an appendage, empty or not.
#[test]
fn appendage_of_short_requests_may_be_left_off() {
    let cancel = ouch::CancelOrderRequest {
        message_type: ouch::CancelOrderRequest::TYPE,
        user_ref_num: 9.into(),
        quantity: 40.into(),
    };
    let modify = ouch::ModifyOrderRequest {
        message_type: ouch::ModifyOrderRequest::TYPE,
        user_ref_num: 9.into(),
        side: b'T',
        quantity: 40.into(),
    };
    let query = ouch::AccountQueryRequest { message_type: ouch::AccountQueryRequest::TYPE };
    for (channel, form) in [(0, None), (0, Some(&[][..])), (6, Some(&[2, 28, 6][..]))] {
        let ask = |bare: &[u8], with: Vec<u8>| {
            ouch::command(if form.is_none() { bare } else { &with }, SESSION, RECEIVED).unwrap()
        };
        let elements = form.unwrap_or(&[]);
        let key = key(channel, 9);
        assert_eq!(
            ask(&MessageBuffer::new(&cancel), with_raw(&cancel, elements)),
            Command::Cancel(CancelOrder { key, quantity: Quantity(40) })
        );
        assert_eq!(
            ask(&MessageBuffer::new(&modify), with_raw(&modify, elements)),
            Command::Modify(ModifyOrder { key, side: Side::SellShort, quantity: Quantity(40) })
        );
        assert_eq!(
            ask(&MessageBuffer::new(&query), with_raw(&query, elements)),
            Command::QueryAccount(AccountQuery { session_id: SESSION, channel })
        );
    }
    for elements in [&[2, 99, 1][..], &[5, 2, b'F', b'I', b'R', b'M'], &[2, 24, 0]] {
        for message in
            [with_raw(&cancel, elements), with_raw(&modify, elements), with_raw(&query, elements)]
        {
            assert_eq!(
                ouch::command(&message, SESSION, RECEIVED),
                Err(Malformed::Tag),
                "{elements:?}"
            );
        }
    }
    let located = [2, 25, b'Y', 5, 26, b'L', b'O', b'C', b'A'];
    assert!(ouch::command(&with_raw(&modify, &located), SESSION, RECEIVED).is_ok());
    assert_eq!(ouch::command(&with_raw(&cancel, &located), SESSION, RECEIVED), Err(Malformed::Tag));
    let odd = ouch::ModifyOrderRequest { side: b'?', ..modify };
    assert_eq!(
        ouch::command(&MessageBuffer::new(&odd), SESSION, RECEIVED),
        Err(Malformed::Field("Side"))
    );
}

/// Mass cancel carries its criteria; group 0 differs from no group.
#[test]
fn mass_cancel_is_read_whole() {
    let request = ouch::MassCancelRequest {
        message_type: ouch::MassCancelRequest::TYPE,
        user_ref_num: 9.into(),
        firm: *b"FIRM",
        symbol: *b"        ",
    };
    let expected = MassCancel {
        key: key(0, 9),
        firm: Firm::new("FIRM").unwrap(),
        symbol: Symbol::BLANK,
        side: None,
        group_id: None,
    };
    let read = |tags: &[(Tag, &[u8])]| ouch::command(&with_tags(&request, tags), SESSION, RECEIVED);
    assert_eq!(read(&[]), Ok(Command::MassCancel(expected)));
    assert_eq!(
        read(&[(Tag::Side, b"S"), (Tag::GroupId, &[0, 0]), (Tag::UserRefIdx, &[1])]),
        Ok(Command::MassCancel(MassCancel {
            key: key(1, 9),
            side: Some(Side::Sell),
            group_id: Some(0),
            ..expected
        }))
    );
    assert_eq!(read(&[(Tag::Side, b"X")]), Err(Malformed::Tag));
    assert_eq!(read(&[(Tag::Firm, b"FIRM")]), Err(Malformed::Tag));
    let lower = ouch::MassCancelRequest { firm: *b"firm", ..request };
    assert_eq!(
        ouch::command(&with_tags(&lower, &[]), SESSION, RECEIVED),
        Err(Malformed::Field("Firm"))
    );
}

/// The two switches differ in their target state.
#[test]
fn entry_switches_are_read() {
    let firm = Firm::new("FIRM").unwrap();
    let disable = ouch::DisableOrderEntryRequest {
        message_type: ouch::DisableOrderEntryRequest::TYPE,
        user_ref_num: 9.into(),
        firm: *b"FIRM",
    };
    let enable = ouch::EnableOrderEntryRequest {
        message_type: ouch::EnableOrderEntryRequest::TYPE,
        user_ref_num: 9.into(),
        firm: *b"FIRM",
    };
    for (message, enabled) in [(with_tags(&disable, &[]), false), (with_tags(&enable, &[]), true)] {
        let expected = Command::SwitchEntry(EntrySwitch { key: key(0, 9), firm, enabled });
        assert_eq!(ouch::command(&message, SESSION, RECEIVED), Ok(expected));
    }
}

/// Every command that a client can request is read back as it was meant.
#[test]
fn requests_round_trip() {
    for_seeds(2_000, |seeded| {
        let command = random_command(seeded);
        let request = ouch::request_at(&command, RECEIVED).expect("participants can ask it");
        assert_eq!(ouch::command(&request, SESSION, RECEIVED), Ok(command));
    });
}

/// A command that no participant can request has no message.
#[test]
fn commands_of_the_exchange_have_no_request() {
    let refused = RejectOrder {
        key: key(0, 1),
        client_order_id: ClientOrderId::BLANK,
        reason: RejectReason::InvalidSide,
    };
    let void = ReplaceOrder { original_user_ref_num: 1, key: key(0, 2), terms: None };
    for command in [
        Command::System(market::SystemEvent::StartOfMessages),
        Command::Reject(refused),
        Command::Replace(void),
    ] {
        assert!(ouch::request(&command).is_none(), "{command:?}");
    }
}

/// A quantity that needs more than 32 bits has no message, in any field.
#[test]
fn quantities_beyond_32_bits_cannot_be_said() {
    let (most, beyond) = (u64::from(u32::MAX), u64::from(u32::MAX) + 1);
    let symbol = Symbol::new("AAPL").unwrap();
    let limit =
        |quantity| EnterOrder::limit(key(0, 1), Side::Buy, symbol, Quantity(quantity), Price(100));
    let commands = |lots: u64| {
        let (quantity, minimum) = (Quantity(lots), Lots::new(lots));
        let mut with_minimum = limit(1);
        with_minimum.conditions.minimum_quantity = minimum;
        let mut iceberg = limit(1);
        iceberg.instructions.shown_quantity = minimum;
        let terms = ReplaceTerms::limit(quantity, Price(100));
        let conditions =
            ConditionChanges { minimum_quantity: Some(minimum), ..ConditionChanges::NONE };
        let few = Quantity(1);
        let with_minimum_again = ReplaceTerms { quantity: few, conditions, ..terms };
        let replace = |terms| {
            let (original_user_ref_num, key) = (1, key(0, 2));
            Command::Replace(ReplaceOrder { original_user_ref_num, key, terms: Some(terms) })
        };
        [
            Command::Enter(limit(lots)),
            Command::Enter(with_minimum),
            Command::Enter(iceberg),
            replace(terms),
            replace(with_minimum_again),
            Command::Cancel(CancelOrder { key: key(0, 1), quantity }),
            Command::Modify(ModifyOrder { key: key(0, 1), side: Side::Buy, quantity }),
        ]
    };
    for command in commands(most) {
        let message = ouch::request(&command).expect("32 bits say it");
        let read = ouch::command(&message, SESSION, RECEIVED).unwrap();
        assert_eq!(read, command);
    }
    for command in commands(beyond) {
        assert!(ouch::request(&command).is_none(), "{command:?}");
    }
}

fn random_command(seeded: &mut Seeded) -> Command {
    let channel = if seeded.once_in(2) { 0 } else { seeded.bytes(1)[0] };
    let key = key(channel, u32::try_from(seeded.below(1 << 32)).unwrap());
    let quantity = Quantity(u64::try_from(seeded.below(1_000_001)).unwrap());
    let order_type = *seeded.pick(&[OrderType::Limit, OrderType::Market]);
    let price = match order_type {
        OrderType::Limit => Price(1 + seeded.next() % ouch::LIMIT_PRICE_MAX),
        _ => Price::ZERO,
    };
    let side = *seeded.pick(Side::ALL);
    let firm = *seeded.pick(&[Firm::BLANK, Firm::new("FIRM").unwrap(), Firm::new("A1").unwrap()]);
    let symbol = Symbol::new(seeded.pick::<&str>(&["AAPL", "BRK.B", "X"])).unwrap();
    let client_order_id = ClientOrderId::new(&format!("C{}", seeded.below(1 << 30))).unwrap();
    let group = *seeded.pick(&[SelfMatchGroup::BLANK, SelfMatchGroup::new("G1").unwrap()]);
    let minimum = Lots::new(seeded.below(3) as u64);
    let pricings = [Pricing::Limit, Pricing::PrimaryPeg, Pricing::MarketPeg, Pricing::MidpointPeg];
    let pricing = *seeded.pick(&pricings);
    let lives = [TimeInForce::Day, TimeInForce::ImmediateOrCancel, TimeInForce::GoodTillTime];
    let time_in_force = *seeded.pick(&lives);
    let instructions = Instructions {
        pricing,
        offset: if pricing.is_pegged() { seeded.next() as i32 } else { 0 },
        shown_quantity: Lots::new(seeded.below(3) as u64),
        shown_range: u32::try_from(seeded.below(2)).unwrap(),
        expires_s: match seeded.below(2) {
            0 => 0,
            _ => 1_700_000_002 + u32::try_from(seeded.below(86_399)).unwrap(),
        },
        ..Instructions::NONE
    };
    match seeded.below(7) {
        0 => Command::Enter(EnterOrder {
            key,
            side,
            order_type,
            time_in_force,
            display: *seeded.pick(Display::ALL),
            quantity,
            price,
            symbol,
            attributes: OrderAttributes {
                client_order_id,
                firm,
                capacity: *seeded.pick(Capacity::ALL),
                customer_type: *seeded.pick(CustomerType::ALL),
                group_id: u16::try_from(seeded.below(3)).unwrap(),
                shares_located: seeded.once_in(2),
                locate_broker: firm,
            },
            conditions: if seeded.once_in(2) {
                Conditions::NONE
            } else {
                Conditions {
                    self_match_prevention: *seeded.pick(SelfMatchPrevention::ALL),
                    self_match_group: group,
                    post_only: seeded.once_in(2),
                    minimum_quantity: minimum,
                }
            },
            instructions,
        }),
        1 => Command::Replace(ReplaceOrder {
            original_user_ref_num: 7,
            key,
            terms: Some(ReplaceTerms {
                side: seeded.once_in(2).then_some(side),
                order_type,
                time_in_force,
                display: *seeded.pick(Display::ALL),
                quantity,
                price,
                client_order_id,
                shares_located: seeded.once_in(2),
                locate_broker: firm,
                conditions: ConditionChanges {
                    self_match_prevention: seeded
                        .once_in(2)
                        .then(|| *seeded.pick(SelfMatchPrevention::ALL)),
                    self_match_group: seeded.once_in(2).then_some(group),
                    post_only: seeded.once_in(2).then(|| seeded.once_in(2)),
                    minimum_quantity: seeded.once_in(2).then_some(minimum),
                },
                instructions: seeded.once_in(2).then_some(instructions),
            }),
        }),
        2 => Command::Cancel(CancelOrder { key, quantity }),
        3 => Command::Modify(ModifyOrder { key, side, quantity }),
        4 => Command::MassCancel(MassCancel {
            key,
            firm,
            symbol,
            side: seeded.once_in(2).then_some(side),
            group_id: seeded.once_in(2).then_some(5),
        }),
        5 => Command::SwitchEntry(EntrySwitch { key, firm, enabled: seeded.once_in(2) }),
        _ => Command::QueryAccount(AccountQuery { session_id: SESSION, channel }),
    }
}
