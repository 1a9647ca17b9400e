//! FIX sessions without sockets: heartbeats, numbers, saved state, notes.

use market::{
    Accepted, BustReason, CancelHeld, CancelReason, Canceled, CommandKind, Conditions, Display,
    Event, Fill, Instructions, InstrumentId, Lots, Note, OrderAttributes, OrderId, OrderKey,
    OrderType, Party, PastTrade, Price, Quantity, SessionId, Shown, Side, Ticks, TimeInForce,
    TradeCorrected, TradeId, Traded, VenueEvent,
};
use wire::fix::{
    ClOrdId, CompId, Directory, DropCopyNote, Fields, FixHappening, FixNote, LogonNote, PageNote,
    QueryNote, Reports, RequestNote, Version, dictionary,
};

use crate::{
    fix::framed,
    fix_world::{SECOND, SESSION, START, World, output},
    seeded::{Seeded, for_seeds},
};

fn message(number: u64, msg_type: &str, fields: &str) -> Vec<u8> {
    let body = format!("35={msg_type}|34={number}|49=CLIENT|52=20261121-14:30:00|56=EXCH|{fields}");
    framed(Version::Fix42, &body)
}

/// Heartbeats in both directions by time alone: one of ours after an interval without a message sent, a TestRequest
/// after 1.2 intervals without one received, and the end after one more.
#[test]
fn silence_is_asked_about_and_ended() {
    let mut world = World::new();
    world.receive(&message(1, "A", "98=0|108=10|"));
    assert_eq!(world.sent().len(), 1);
    let mut seen = Vec::new();
    for second in 1..=60 {
        world.now_ns = START + second * SECOND;
        if world.acceptor.tick(world.now_ns).is_err() {
            seen.push((second, "end".to_owned()));
            break;
        }
        world.run();
        for sent in world.sent() {
            let msg_type =
                String::from_utf8(Fields::default().read(&sent).msg_type().to_vec()).unwrap();
            seen.push((second, format!("35={msg_type}")));
        }
    }
    let expected = [(10, "35=0"), (12, "35=1"), (22, "end")];
    let seen: Vec<_> = seen.iter().map(|(second, what)| (*second, &what[..])).collect();
    assert_eq!(seen, expected);
}

/// Each step takes one message of the session, or one piece of garbled bytes: several in one read cost the client as
/// many steps.
#[test]
fn each_step_takes_one_message() {
    let mut world = World::new();
    world.receive(&message(1, "A", "98=0|108=0|"));
    let heartbeats = (2..=100).flat_map(|number| message(number, "0", ""));
    // Beginnings of messages one within the other, each with a wrong sum: summing all of them at once is quadratic.
    let garbled = b"8=FIX.4.2\x019=1000\x0135=0\x01".repeat(100);
    let bytes: Vec<u8> = heartbeats.chain(garbled).collect();
    world.acceptor.receive(&bytes, START).unwrap();
    let mut steps = 0;
    while let Some(happening) = world.acceptor.next().unwrap() {
        assert!(matches!(happening, FixHappening::Taken), "{happening:?}");
        steps += 1;
    }
    assert_eq!(world.acceptor.expected(), 101);
    assert!((99 + 50..=99 + 100).contains(&steps), "{steps}");
}

/// For any mix of numbers, the venue's messages are numbered without a gap, each of them is well formed, and no message
/// of the application is taken twice.
#[test]
fn any_order_of_messages_is_survived() {
    for_seeds(300, |seeded| {
        let mut world = World::new();
        world.receive(&message(1, "A", "98=0|108=0|"));
        let mut next = 2;
        for _ in 0..100 {
            if world.is_over {
                world.reconnect();
                next = world.expected;
                world.receive(&message(next, "A", "98=0|108=0|"));
                next += 1;
            }
            let number = if seeded.once_in(4) { seeded.below(30) as u64 } else { next };
            let bytes = random_message(seeded, number);
            let before = world.acceptor.expected();
            world.receive(&bytes);
            if world.acceptor.expected() > before {
                next = world.acceptor.expected();
            }
            world.now_ns += SECOND / 10;
            world.acceptor.tick(world.now_ns).ok();
        }
        for sent in world.sent() {
            let mut fields = Fields::default();
            let read = fields.read(&sent);
            let row = dictionary::message(read.msg_type(), Version::Fix42).unwrap();
            let checked = dictionary::check(&read, row, Version::Fix42);
            assert_eq!(checked, Ok(()), "{}", sent.escape_ascii());
        }
        for (index, message) in world.stream.iter().enumerate() {
            assert_eq!(Fields::default().read(message).number(34), Some(index as u64 + 1));
        }
        assert!(world.applications.is_sorted_by(|one, other| one < other));
    });
}

fn random_message(seeded: &mut Seeded, number: u64) -> Vec<u8> {
    let order = "11=A|21=1|55=AAPL|54=1|60=20261121-14:30:00|38=1|40=2|44=1|";
    let (msg_type, fields) = match seeded.below(12) {
        0 => ("0", String::new()),
        1 => ("1", "112=x|".to_owned()),
        2 => ("2", format!("7={}|16={}|", seeded.below(10), seeded.below(10))),
        3 => ("4", format!("43=Y|122=20261121-14:30:00|123=Y|36={}|", seeded.below(40))),
        4 => ("4", format!("36={}|", seeded.below(40))),
        5 => ("D", "38=broken|".to_owned()),
        6 => ("Z9", "9999=1|".to_owned()),
        7 => ("D", format!("43=Y|122=20261121-14:29:00|{order}")),
        8 if seeded.once_in(10) => ("5", String::new()),
        9 if seeded.once_in(10) => ("A", "98=0|108=0|".to_owned()),
        _ => ("D", order.to_owned()),
    };
    let mut bytes = message(number, msg_type, &fields);
    if seeded.once_in(10) {
        let at = seeded.below(bytes.len());
        bytes[at] ^= 0x10;
    }
    bytes
}

fn logon() -> LogonNote {
    LogonNote {
        version: Version::Fix44,
        reset: false,
        counted: 1,
        heartbeat_s: 30,
        venue: CompId::new("EXCH").unwrap(),
        client: CompId::new("CLIENT").unwrap(),
    }
}

fn key(user_ref_num: u32) -> OrderKey {
    OrderKey { session_id: SESSION, channel: 0, user_ref_num }
}

/// The request for order `A<number>`, and its acceptance.
fn asked(number: u32) -> Event {
    let id = ClOrdId::new(&format!("A{number}")).unwrap();
    let mut request = RequestNote::new(b'D', number + 1, id);
    (request.number, request.quantity, request.code) = (number, Lots::new(10), b'1');
    request.symbol = market::Symbol::new("AAPL").unwrap();
    Event::Noted(FixNote::Request(request).note(SESSION))
}

fn accepted(number: u32) -> Event {
    Event::Accepted(Accepted {
        key: key(number),
        order_id: OrderId(number.into()),
        instrument_id: InstrumentId(1),
        side: Side::Buy,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        display: Display::Visible,
        quantity: Lots::new(10),
        price: Ticks(15_000),
        attributes: OrderAttributes::default(),
        conditions: Conditions::NONE,
        instructions: Instructions::NONE,
    })
}

/// A cancel that waits for an auction is pending, and its order ends under the id of the cancel.
#[test]
fn a_cancel_waits_for_an_auction() {
    let mut request = RequestNote::new(b'F', 3, ClOrdId::new("C1").unwrap());
    (request.original, request.original_id) = (1, ClOrdId::new("A1").unwrap());
    let canceled = Event::Canceled(Canceled {
        key: key(1),
        order_id: OrderId(1),
        instrument_id: InstrumentId(1),
        quantity: Quantity(10),
        leaves: Quantity::ZERO,
        booked: true,
        shown: Shown::NONE,
        reason: CancelReason::User,
        cause: CommandKind::Time,
    });
    let mut reports = Reports::new(&logon());
    let mut said = |event| {
        let mut said = Vec::new();
        reports.take(&output(START, event), &Directory::default(), |_| true, &mut |it| {
            said.push(String::from_utf8(it.to_vec()).unwrap().replace('\x01', "|"));
        });
        said
    };
    let nothing = Vec::<String>::new();
    assert_eq!(said(asked(1)), nothing);
    assert_eq!(said(accepted(1)).len(), 1);
    assert_eq!(said(Event::Noted(FixNote::Request(request).note(SESSION))), nothing);
    let held = said(Event::CancelHeld(CancelHeld { key: key(1), is_pending: true }));
    assert!(held[0].contains("|150=6|39=6|11=C1|41=A1|"), "{held:?}");
    assert_eq!(said(Event::Noted(FixNote::End { counted: 3 }.note(SESSION))), nothing);
    let ended = said(canceled);
    assert!(ended[0].contains("|150=4|39=4|11=C1|"), "{ended:?}");
}

/// A session that is saved and restored goes on with the same bytes.
#[test]
fn a_saved_state_goes_on() {
    let logon = logon();
    let mut events = vec![Event::Noted(FixNote::Logon(logon).note(SESSION))];
    for number in 1..=3_000_u32 {
        events.push(asked(number));
        if number == 3_000 {
            break;
        }
        events.push(accepted(number));
        let fill = |number: u32| Fill {
            key: key(number),
            order_id: OrderId(number.into()),
            leaves: Quantity(4),
        };
        events.push(Event::Traded(Traded {
            trade_id: TradeId(number.into()),
            instrument_id: InstrumentId(1),
            taker_side: Side::Buy,
            price: Price(14_999),
            quantity: Quantity(6),
            maker_shown: Quantity(1_000),
            maker: Fill { key: OrderKey { session_id: SessionId(2), ..key(1) }, ..fill(1) },
            taker: fill(number),
            auction: None,
        }));
    }
    let is_own = |key: &OrderKey| key.session_id == SESSION;
    let mut reports = Reports::new(&logon);
    let mut count = 0;
    for event in &events {
        reports.take(&output(START, *event), &Directory::default(), is_own, &mut |_| count += 1);
    }
    assert_eq!(count, 1 + 2 * 2_999);
    let mut restored = None;
    let mut pieces = 0;
    reports.save(&mut |piece| {
        pieces += 1;
        Reports::restore(&mut restored, piece).unwrap();
    });
    assert!(pieces > 3, "{pieces}");
    assert_eq!(restored.as_ref(), Some(&reports));
    let mut again = None;
    assert!(Reports::restore(&mut again, b"O").is_err(), "an order comes after its session");
    assert!(Reports::restore(&mut restored, b"H").is_err(), "a session comes once");
}

/// Every note is read as it was written, and other bytes are no note.
#[test]
fn notes_go_both_ways() {
    let id = |text: &str| ClOrdId::new(text).unwrap();
    let longest = "X".repeat(36);
    let order = RequestNote {
        number: 7,
        quantity: Lots::new(100),
        code: b'2',
        symbol: market::Symbol::new("AAPL").unwrap(),
        ..RequestNote::new(b'D', 5, id(&longest))
    };
    let replace = RequestNote {
        number: u32::MAX,
        original: u32::MAX - 1,
        refusal: 3,
        quantity: Lots::MAX,
        code: b'6',
        original_id: id(&longest),
        ..RequestNote::new(b'G', u32::MAX, id(&longest))
    };
    let query = QueryNote {
        msg_type: b'x',
        counted: 9,
        code: b'4',
        subscription: b'0',
        symbol: market::Symbol::new("AAPL").unwrap(),
        id: id(&longest),
    };
    let copy = DropCopyNote {
        is_first: true,
        is_last: false,
        source: SessionId(7),
        username: market::Text::new("USER01").unwrap(),
        version: Version::Fix42,
        venue: CompId::new("EXCH").unwrap(),
        client: CompId::new("COPY").unwrap(),
    };
    for note in [
        FixNote::Request(order),
        FixNote::Request(replace),
        FixNote::End { counted: 9 },
        FixNote::Begin { start_ns: u64::MAX - 1 },
        FixNote::Session { counted: 3, fields: b"0\x01112=T\x01" },
        FixNote::Query(query),
        FixNote::DropCopy(copy),
        FixNote::More(PageNote { counted: 7, first: u32::MAX }),
    ] {
        assert_eq!(FixNote::read(note.note(SESSION).bytes()), Some(note));
    }
    for_seeds(500, |seeded| {
        let len = seeded.below(Note::LEN_MAX);
        let mut bytes = seeded.bytes(len);
        if !bytes.is_empty() {
            bytes[0] = *seeded.pick(b"LSREQMC");
        }
        let _ = FixNote::read(&bytes);
    });
}

/// The messages that an event causes.
fn said(reports: &mut Reports, event: Event) -> Vec<String> {
    let mut said = Vec::new();
    let is_own = |key: &OrderKey| key.session_id == SESSION;
    reports.take(&output(START, event), &Directory::default(), is_own, &mut |it| {
        said.push(String::from_utf8(it.to_vec()).unwrap().replace('\x01', "|"));
    });
    said
}

fn fill_of(number: u32, trade_id: u64) -> Event {
    let fill = |session_id, leaves| Fill {
        key: OrderKey { session_id, ..key(number) },
        order_id: OrderId(number.into()),
        leaves: Quantity(leaves),
    };
    Event::Traded(Traded {
        trade_id: TradeId(trade_id),
        instrument_id: InstrumentId(1),
        taker_side: Side::Buy,
        price: Price(10_000),
        quantity: Quantity(1),
        maker_shown: Quantity(1_000),
        maker: fill(SessionId(2), 1),
        taker: fill(SESSION, 1),
        auction: None,
    })
}

/// ClOrdIDs of done orders are dropped beyond the newest 65,536; those of live orders never.
#[test]
fn used_names_are_forgotten() {
    const KEPT: u32 = 65_536;
    let mut reports = Reports::new(&logon());
    let id = |number: u32| ClOrdId::new(&format!("A{number}")).unwrap();
    for number in 1..=KEPT + 100 {
        said(&mut reports, asked(number));
        said(&mut reports, accepted(number));
        if number > 1 {
            said(
                &mut reports,
                Event::Canceled(Canceled {
                    key: key(number),
                    order_id: OrderId(number.into()),
                    instrument_id: InstrumentId(1),
                    quantity: Quantity(10),
                    leaves: Quantity::ZERO,
                    booked: true,
                    shown: Shown::NONE,
                    reason: CancelReason::ImmediateOrCancel,
                    cause: CommandKind::Enter,
                }),
            );
        }
    }
    assert_eq!(reports.number(&id(1)), Some(1), "it is live");
    assert_eq!((reports.number(&id(2)), reports.order(2)), (None, None));
    assert_eq!(reports.number(&id(KEPT + 100)), Some(KEPT + 100));
    let known = (2..=KEPT + 100).filter(|number| reports.number(&id(*number)).is_some()).count();
    assert!((KEPT as usize - 1..=KEPT as usize).contains(&known), "{known}");
}

/// Trades are dropped beyond the newest 65,536: a correction of an older one cannot undo its effect.
#[test]
fn old_trades_are_forgotten() {
    const KEPT: u64 = 65_536;
    let mut reports = Reports::new(&logon());
    said(&mut reports, asked(1));
    said(&mut reports, accepted(1));
    for trade_id in 1..=KEPT + 1 {
        assert_eq!(said(&mut reports, fill_of(1, trade_id)).len(), 1);
    }
    let mut correct = |busted: u64, trade_id: u64| {
        let party =
            |session_id| Party { key: OrderKey { session_id, ..key(1) }, order_id: OrderId(1) };
        let trade = PastTrade {
            trade_id: TradeId(trade_id),
            instrument_id: InstrumentId(1),
            taker_is_buy: true,
            price: Price(20_000),
            quantity: Quantity(1),
            maker: party(SessionId(2)),
            taker: party(SESSION),
        };
        let reason = BustReason::Erroneous;
        let busted = TradeId(busted);
        let corrected = TradeCorrected { busted, trade, reason };
        let report = said(&mut reports, Event::Venue(VenueEvent::TradeCorrected(corrected)));
        assert!(report.len() == 1 && report[0].contains("|150=G|"), "{report:?}");
        report[0].split('|').find(|field| field.starts_with("6=")).unwrap().to_owned()
    };
    // The newest is known: its price is replaced in the average. The first is not, and the average stays.
    assert_eq!(correct(KEPT + 1, KEPT + 2), "6=1.00001526");
    assert_eq!(correct(1, KEPT + 3), "6=1.00001526");
    assert_eq!(correct(KEPT, KEPT + 4), "6=1.00003052");
}

/// FIX 5.0 SP1 in a session of FIXT 1.1: both Logons give the version of the messages, a message may repeat it, and one
/// of another version is rejected. The fields of FIXT are no fields of the earlier versions.
#[test]
fn a_session_of_fixt_speaks_fix_50_sp1() {
    let text = |message: &[u8]| String::from_utf8(message.to_vec()).unwrap().replace('\x01', "|");
    let says = |world: &mut World, version, number: u64, more: &str| {
        let (kind, fields) = more.split_once('|').unwrap();
        let body = format!("35={kind}|34={number}|49=CLIENT|52=20261121-14:30:00|56=EXCH|{fields}");
        world.receive(&framed(version, &body));
        world.sent().iter().map(|message| text(message)).collect::<Vec<_>>()
    };
    let fixt = Version::Fix50Sp1;
    for (version, fields) in [
        (fixt, "A|98=0|108=0|"),
        (fixt, "A|98=0|108=0|1137=9|"),
        (Version::Fix44, "A|98=0|108=0|1137=8|"),
    ] {
        let mut world = World::new();
        assert_eq!(says(&mut world, version, 1, fields), Vec::<String>::new());
        assert!(world.is_over, "{fields}");
    }
    let mut world = World::new();
    let answers = says(&mut world, fixt, 1, "A|98=0|108=0|1137=8|");
    assert!(answers.len() == 1 && answers[0].starts_with("8=FIXT.1.1|9="), "{answers:?}");
    assert!(answers[0].contains("|98=0|108=0|1137=8|10="), "{answers:?}");
    assert_eq!(says(&mut world, fixt, 2, "H|11=A|54=1|1128=8|"), Vec::<String>::new());
    assert_eq!(world.applications, [2]);
    let answers = says(&mut world, fixt, 3, "H|11=A|54=1|1128=6|");
    assert!(answers[0].contains("35=3|") && answers[0].contains("|371=1128|372=H|373=18|"));
    // The names of FIX 4.4 go on: only the session is another.
    let answers = says(&mut world, fixt, 4, "H|54=1|");
    assert!(answers[0].contains("|371=11|372=H|373=1|"), "{answers:?}");
    let answers = says(&mut world, Version::Fix44, 5, "0|");
    assert!(answers[0].contains("35=5|") && answers[0].contains("BeginString is not that"));

    let mut world = World::new();
    says(&mut world, Version::Fix44, 1, "A|98=0|108=0|");
    let answers = says(&mut world, Version::Fix44, 2, "H|11=A|54=1|1128=8|");
    assert!(answers[0].contains("|371=1128|372=H|373=3|"), "{answers:?}");
}
