//! Drop copies without sockets: events in, reports out, saved state, notes.

use market::{
    Accepted, CancelReason, Canceled, CommandKind, Conditions, Display, Event, Fill, Instructions,
    Instrument, InstrumentId, Lots, OrderAttributes, OrderId, OrderKey, OrderType, Price, Quantity,
    SessionId, Shown, Side, Symbol, Ticks, TimeInForce, TradeId, Traded,
};
use wire::fix::{
    ClOrdId, CompId, Directory, DropCopyNote, Fields, FixNote, Reports, RequestNote, Version,
};

use crate::{
    fix_world::{START, output},
    seeded::for_seeds,
};

const COPY: SessionId = SessionId(9);

fn source(number: u16, is_first: bool, is_last: bool) -> DropCopyNote {
    DropCopyNote {
        is_first,
        is_last,
        source: SessionId(number),
        username: market::Text::new(&format!("USER0{number}")).unwrap(),
        version: Version::Fix44,
        venue: CompId::new("EXCH").unwrap(),
        client: CompId::new("COPY").unwrap(),
    }
}

fn key(session: u16, user_ref_num: u32) -> OrderKey {
    OrderKey { session_id: SessionId(session), channel: 0, user_ref_num }
}

fn accepted(key: OrderKey, client_order_id: &str) -> Event {
    let client_order_id = market::ClientOrderId::new(client_order_id).unwrap();
    Event::Accepted(Accepted {
        key,
        order_id: OrderId(u64::from(key.session_id.0) * 1000 + u64::from(key.user_ref_num)),
        instrument_id: InstrumentId(1),
        side: Side::Sell,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        display: Display::Visible,
        quantity: Lots::new(10),
        price: Ticks(15_000),
        attributes: OrderAttributes { client_order_id, ..OrderAttributes::default() },
        conditions: Conditions::NONE,
        instructions: Instructions::NONE,
    })
}

/// The taker buys.
fn traded(maker: OrderKey, taker: OrderKey, quantity: u64, leaves: u64) -> Event {
    let fill = |key: OrderKey| Fill { key, order_id: OrderId(5), leaves: Quantity(leaves) };
    Event::Traded(Traded {
        trade_id: TradeId(3),
        instrument_id: InstrumentId(1),
        taker_side: Side::Buy,
        price: Price(15_000),
        quantity: Quantity(quantity),
        maker_shown: Quantity(1_000),
        maker: fill(maker),
        taker: fill(taker),
        auction: None,
    })
}

fn canceled(key: OrderKey) -> Event {
    Event::Canceled(Canceled {
        key,
        order_id: OrderId(1),
        instrument_id: InstrumentId(1),
        quantity: Quantity(10),
        leaves: Quantity::ZERO,
        booked: true,
        shown: Shown::NONE,
        reason: CancelReason::User,
        cause: CommandKind::Cancel,
    })
}

/// A drop copy of sessions 1 and 2.
struct Copy {
    reports: Reports,
    directory: Directory,
}

impl Copy {
    fn new() -> Self {
        let mut directory = Directory::default();
        directory.add(&Instrument {
            instrument_id: InstrumentId(1),
            symbol: Symbol::new("AAPL").unwrap(),
            price_increment: Price(100),
            round_lot: Quantity(100),
        });
        let mut copy = Self { reports: Reports::new(&source(1, true, false).logon()), directory };
        copy.configure(&[source(1, true, false), source(2, false, true)]);
        copy
    }

    fn configure(&mut self, notes: &[DropCopyNote]) {
        for note in notes {
            let event = Event::Noted(FixNote::DropCopy(*note).note(COPY));
            let is_own = |key: &OrderKey| key.session_id == COPY;
            self.reports.take(&output(START, event), &self.directory, is_own, &mut |_| {
                panic!("a configuration has no message")
            });
        }
    }

    fn take(&mut self, event: Event) -> Vec<String> {
        let mut said = Vec::new();
        self.reports.copy(&output(START, event), &self.directory, &mut |it| {
            let mut fields = Fields::default();
            let read = fields.read(it);
            let fields = read.fields().filter(|(tag, _)| {
                matches!(tag, 34 | 115 | 17 | 150 | 39 | 11 | 41 | 40 | 54 | 38 | 151 | 14)
            });
            said.push(fields.map(|(tag, it)| format!("{tag}={}|", it.escape_ascii())).collect());
        });
        said
    }
}

/// An order by OUCH has its ClOrdID, or its number if it has none; each session has separate orders, and one that is
/// not copied has none.
#[test]
fn orders_by_ouch_are_named() {
    let mut copy = Copy::new();
    let named = copy.take(accepted(key(1, 7), "TOKEN"));
    assert_eq!(named, ["34=1|115=USER01|17=E1|150=0|39=0|11=TOKEN|54=2|38=10|40=2|151=10|14=0|"]);
    let by_number = copy.take(accepted(key(2, 7), ""));
    assert_eq!(by_number, ["34=2|115=USER02|17=E2|150=0|39=0|11=#7|54=2|38=10|40=2|151=10|14=0|"]);
    assert_eq!(copy.take(accepted(key(3, 7), "OTHER")), Vec::<String>::new());
    // Both sides of a trade are copied, each once; a side of an uncopied session never is.
    let both = copy.take(traded(key(1, 7), key(2, 7), 4, 6));
    assert_eq!(both.len(), 2);
    assert!(both[0].contains("34=3|115=USER01|17=T3S|150=F|39=1|11=TOKEN|"), "{both:?}");
    assert!(both[1].contains("34=4|115=USER02|17=T3S|150=F|39=1|11=#7|"), "{both:?}");
    assert_eq!(copy.take(traded(key(3, 7), key(1, 7), 6, 0)).len(), 1);
    assert!(copy.take(canceled(key(2, 7)))[0].contains("150=4|39=4|11=#7|"));
}

/// Names of orders by FIX are in their notes; refusals, statuses and messages of their session are not copied.
#[test]
fn orders_by_fix_have_their_names() {
    let mut copy = Copy::new();
    let id = |text: &str| ClOrdId::new(text).unwrap();
    let noted = |request| Event::Noted(FixNote::Request(request).note(SessionId(1)));
    let mut order = RequestNote::new(b'D', 2, id("A1"));
    (order.number, order.quantity, order.code) = (1, Lots::new(10), b'2');
    order.symbol = Symbol::new("AAPL").unwrap();
    let nothing = Vec::<String>::new();
    assert_eq!(copy.take(noted(order)), nothing);
    assert!(copy.take(accepted(key(1, 1), ""))[0].contains("39=0|11=A1|"));
    let refused = RequestNote { refusal: 4, ..RequestNote::new(b'D', 3, id("A2")) };
    for request in [refused, RequestNote::new(b'H', 4, id("A1"))] {
        assert_eq!(copy.take(noted(request)), nothing);
    }
    let text = FixNote::Session { counted: 5, fields: b"0\x01" };
    assert_eq!(copy.take(Event::Noted(text.note(SessionId(1)))), nothing);
    let mut cancel = RequestNote::new(b'F', 6, id("A3"));
    (cancel.original, cancel.original_id) = (9, id("NEVER"));
    assert_eq!(copy.take(noted(cancel)), nothing);
    let end = FixNote::End { counted: 6 };
    assert_eq!(copy.take(Event::Noted(end.note(SessionId(1)))), nothing);
    (cancel.counted, cancel.original, cancel.original_id) = (7, 1, id("A1"));
    assert_eq!(copy.take(noted(cancel)), nothing);
    assert!(copy.take(canceled(key(1, 1)))[0].contains("150=4|39=4|11=A3|41=A1|"));
}

/// An order that was live before it was copied has reports of its trades, with the facts in these trades.
#[test]
fn an_order_from_before_has_its_trades() {
    let mut copy = Copy::new();
    let report = copy.take(traded(key(1, 3), key(4, 1), 4, 6));
    assert_eq!(report, ["34=1|115=USER01|17=T3S|150=F|39=1|11=#3|54=2|38=10|151=6|14=4|"]);
    assert!(copy.take(canceled(key(1, 3)))[0].contains("150=4|39=4|11=#3|"));
    assert_eq!(copy.take(canceled(key(1, 4))), Vec::<String>::new(), "its side is not known");
}

/// A saved drop copy goes on with the same bytes; a configuration replaces the previous one, and drops sessions that
/// are no longer copied.
#[test]
fn a_saved_drop_copy_goes_on() {
    for_seeds(20, |seeded| {
        let mut copy = Copy::new();
        let mut numbers = [0, 0];
        let random = |seeded: &mut crate::seeded::Seeded, numbers: &mut [u32; 2]| {
            let session = seeded.below(2);
            let live = numbers[session];
            match seeded.below(3) {
                _ if live == 0 || seeded.once_in(2) => {
                    numbers[session] += 1;
                    accepted(key(session as u16 + 1, live + 1), "")
                }
                0 => traded(key(session as u16 + 1, live), key(3, 1), 1, 5),
                _ => canceled(key(session as u16 + 1, live)),
            }
        };
        for _ in 0..500 {
            let event = random(seeded, &mut numbers);
            copy.take(event);
        }
        let mut restored = None;
        copy.reports.save(&mut |piece| Reports::restore(&mut restored, piece).unwrap());
        let mut again = Copy { reports: restored.unwrap(), directory: copy.directory.clone() };
        for _ in 0..50 {
            let event = random(seeded, &mut numbers);
            assert_eq!(again.take(event), copy.take(event));
        }
        copy.configure(&[source(2, true, true)]);
        assert_eq!(copy.reports.sources().collect::<Vec<_>>(), [SessionId(2)]);
        assert_eq!(copy.take(accepted(key(1, 9_999), "")), Vec::<String>::new());
        assert_eq!(copy.take(accepted(key(2, 9_999), "")).len(), 1);
    });
}
