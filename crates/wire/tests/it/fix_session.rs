//! FIX sessions without sockets: a log that answers at once, a client that sends anything.

use market::{
    Accepted, Conditions, Display, Event, Fill, Instructions, InstrumentId, Lots, Note,
    OrderAttributes, OrderId, OrderKey, OrderType, Output, Price, Quantity, Sequence, SessionId,
    Side, Ticks, TimeInForce, Timestamp, TradeId, Traded,
};
use wire::fix::{
    Acceptor, ClOrdId, CompId, FixHappening, FixNote, FixTimers, Framed, LogonNote, Message,
    Reports, RequestNote, Version, dictionary, frame,
};

use crate::{
    fix::framed,
    seeded::{Seeded, for_seeds},
};

const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 14:30:00.
const START: u64 = 1_795_271_400 * SECOND;
const SESSION: SessionId = SessionId(1);

fn timers() -> FixTimers {
    FixTimers { venue: CompId::new("EXCH").unwrap(), login_timeout_ns: 5 * SECOND }
}

/// A session with its log: notes are events at once, and messages are sent at once.
struct World {
    acceptor: Acceptor,
    reports: Option<Reports>,
    /// Every message of the venue, in the order of the stream.
    stream: Vec<Vec<u8>>,
    applications: Vec<u64>,
    is_over: bool,
    now_ns: u64,
}

impl World {
    fn new() -> Self {
        Self {
            acceptor: Acceptor::new(timers(), START),
            reports: None,
            stream: Vec::new(),
            applications: Vec::new(),
            is_over: false,
            now_ns: START,
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.is_over |= self.acceptor.receive(bytes, self.now_ns).is_err();
        self.run();
    }

    /// Takes all that the acceptor asks for.
    fn run(&mut self) {
        while !self.is_over {
            let happening = match self.acceptor.next() {
                Ok(Some(happening)) => happening,
                Ok(None) => break,
                Err(_) => {
                    self.is_over = true;
                    break;
                }
            };
            match happening {
                FixHappening::Logon { .. } => {
                    let received = self.reports.as_ref().map_or(0, Reports::received);
                    self.acceptor.accept(u64::from(received) + 1, self.now_ns);
                }
                FixHappening::Note(note) => self.take(note),
                FixHappening::Application(message) => {
                    let number = Message::read(message).number(34).unwrap();
                    self.applications.push(number);
                    let counted = number as u32;
                    self.take(FixNote::End { counted }.note(SESSION));
                }
                FixHappening::Logout => self.is_over = true,
            }
            while let Some(number) = self.acceptor.resend_next() {
                let message = self.stream.get(number as usize - 1).map(Vec::as_slice);
                self.acceptor.resend(message, self.now_ns);
            }
        }
    }

    fn take(&mut self, note: Note) {
        if let Some(FixNote::Logon(logon)) = FixNote::read(note.bytes()) {
            self.reports.get_or_insert_with(|| Reports::new(&logon));
        }
        let Some(reports) = &mut self.reports else { return };
        let event = Event::Noted(note);
        let first = self.stream.len();
        let stream = &mut self.stream;
        reports.take(&output(self.now_ns, event), |_| true, &mut |it| stream.push(it.to_vec()));
        for (index, message) in self.stream.iter().enumerate().skip(first) {
            self.acceptor.send(message, index as u64 + 1, self.now_ns);
        }
    }

    /// The messages that wait for the socket, with `|` for SOH.
    fn sent(&mut self) -> Vec<String> {
        let mut messages = Vec::new();
        while let Framed::Whole(len) = frame(self.acceptor.outgoing()) {
            let message = &self.acceptor.outgoing()[..len];
            messages.push(String::from_utf8(message.to_vec()).unwrap().replace('\x01', "|"));
            self.acceptor.sent(len);
        }
        assert!(self.acceptor.outgoing().is_empty(), "only whole messages wait");
        messages
    }
}

fn output(now_ns: u64, event: Event) -> Output {
    Output { cause: Sequence(1), timestamp: Timestamp(now_ns), event }
}

fn message(number: u64, msg_type: &str, fields: &str) -> Vec<u8> {
    let body = format!("35={msg_type}|34={number}|49=CLIENT|52=20261121-14:30:00|56=EXCH|{fields}");
    framed(Version::Fix42, &body)
}

/// Heartbeats in both directions by time alone: one of ours when nothing was sent for an interval, a
/// TestRequest when nothing came for 1.2 intervals, and the end after one more.
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
            let at = sent.find("35=").unwrap();
            seen.push((second, sent[at..at + 4].to_owned()));
        }
    }
    let expected = [(10, "35=0"), (12, "35=1"), (22, "end")];
    let seen: Vec<_> = seen.iter().map(|(second, what)| (*second, &what[..])).collect();
    assert_eq!(seen, expected);
}

/// However numbers are mixed up, the venue's messages are numbered without a gap, every message that it
/// sends is well formed, and no message of the application is taken twice.
#[test]
fn any_order_of_messages_is_survived() {
    for_seeds(300, |seeded| {
        let mut world = World::new();
        world.receive(&message(1, "A", "98=0|108=0|"));
        let mut next = 2;
        for _ in 0..100 {
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
            let bytes = sent.replace('|', "\x01").into_bytes();
            let read = Message::read(&bytes);
            let row = dictionary::message(read.msg_type(), Version::Fix42).unwrap();
            assert_eq!(dictionary::check(&read, row, Version::Fix42), Ok(()), "{sent}");
        }
        for (index, message) in world.stream.iter().enumerate() {
            assert_eq!(Message::read(message).number(34), Some(index as u64 + 1));
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

/// The state of a session that is saved and restored goes on with the same bytes.
#[test]
fn a_saved_state_goes_on() {
    let logon = LogonNote {
        is_44: true,
        reset: false,
        counted: 1,
        heartbeat_s: 30,
        venue: CompId::new("EXCH").unwrap(),
        client: CompId::new("CLIENT").unwrap(),
    };
    let key = |user_ref_num| OrderKey { session_id: SESSION, channel: 0, user_ref_num };
    let mut events = vec![Event::Noted(FixNote::Logon(logon).note(SESSION))];
    for number in 1..=3_000_u32 {
        let id = ClOrdId::new(&format!("A{number}")).unwrap();
        let mut request = RequestNote::new(b'D', number + 1, id);
        (request.number, request.quantity, request.code) = (number, 10, b'1');
        request.symbol = market::Symbol::new("AAPL").unwrap();
        events.push(Event::Noted(FixNote::Request(request).note(SESSION)));
        if number == 3_000 {
            break;
        }
        events.push(Event::Accepted(Accepted {
            key: key(number),
            order_id: OrderId(number.into()),
            instrument_id: InstrumentId(1),
            side: Side::Buy,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            display: Display::Visible,
            quantity: Lots(10),
            price: Ticks(15_000),
            attributes: OrderAttributes::default(),
            conditions: Conditions::NONE,
            instructions: Instructions::NONE,
        }));
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
            maker_displayed: true,
            maker: Fill { key: OrderKey { session_id: SessionId(2), ..key(1) }, ..fill(1) },
            taker: fill(number),
            auction: None,
        }));
    }
    let is_own = |key: &OrderKey| key.session_id == SESSION;
    let mut reports = Reports::new(&logon);
    let mut count = 0;
    for event in &events {
        reports.take(&output(START, *event), is_own, &mut |_| count += 1);
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

/// Every note is read as it was written, and other bytes are none.
#[test]
fn notes_go_both_ways() {
    let id = |text: &str| ClOrdId::new(text).unwrap();
    let longest = "X".repeat(36);
    let order = RequestNote {
        number: 7,
        quantity: 100,
        code: b'2',
        symbol: market::Symbol::new("AAPL").unwrap(),
        ..RequestNote::new(b'D', 5, id(&longest))
    };
    let replace = RequestNote {
        number: u32::MAX,
        original: u32::MAX - 1,
        refusal: 3,
        quantity: u32::MAX,
        code: b'6',
        original_id: id(&longest),
        ..RequestNote::new(b'G', u32::MAX, id(&longest))
    };
    for note in [
        FixNote::Request(order),
        FixNote::Request(replace),
        FixNote::End { counted: 9 },
        FixNote::Session { counted: 3, fields: b"0\x01112=T\x01" },
    ] {
        assert_eq!(FixNote::read(note.note(SESSION).bytes()), Some(note));
    }
    for_seeds(500, |seeded| {
        let len = seeded.below(Note::LEN_MAX);
        let mut bytes = seeded.bytes(len);
        if !bytes.is_empty() {
            bytes[0] = *seeded.pick(b"LSRE");
        }
        let _ = FixNote::read(&bytes);
    });
}
