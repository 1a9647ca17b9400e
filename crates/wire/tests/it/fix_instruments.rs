//! Requests for instruments, their status and that of the day: bytes in, bytes out.

use market::{
    Event, Instrument, InstrumentChange, InstrumentChanged, InstrumentId, Phase, PhaseCause,
    PhaseChanged, Price, Quantity, Symbol, SystemEvent, Text, VenueEvent,
};
use wire::fix::{ClOrdId, Fields, FixNote, QueryNote, Reports, Version, dictionary};

use crate::{
    fix::framed,
    fix_world::{SESSION, World},
};

fn message(version: Version, number: u64, msg_type: &str, fields: &str) -> Vec<u8> {
    let body = format!("35={msg_type}|34={number}|49=CLIENT|52=20261121-14:30:00|56=EXCH|{fields}");
    framed(version, &body)
}

/// A client that has logged on, and a venue with these instruments, which trade.
struct Client {
    world: World,
    version: Version,
}

impl Client {
    fn new(version: Version, symbols: impl IntoIterator<Item = String>) -> Self {
        let mut world = World::new();
        world.directory.take(&Event::System(SystemEvent::StartOfSystemHours));
        for (number, symbol) in (1..).zip(symbols) {
            world.directory.take(&Event::InstrumentAdded(Instrument {
                instrument_id: InstrumentId(number),
                symbol: Symbol::new(&symbol).unwrap(),
                price_increment: Price(100),
                round_lot: Quantity(10),
            }));
        }
        let mut client = Self { world, version };
        let speaks = if version == Version::Fix50Sp1 { "1137=8|" } else { "" };
        client.world.receive(&message(version, 1, "A", &format!("98=0|108=0|{speaks}")));
        client.world.sent();
        client
    }

    /// Sends a request; returns the answers without header, time and trailer.
    fn ask(&mut self, msg_type: &str, fields: &str) -> Vec<String> {
        let number = self.world.acceptor.expected();
        self.world.receive(&message(self.version, number, msg_type, fields));
        self.answers()
    }

    fn answers(&mut self) -> Vec<String> {
        let show = |sent: Vec<u8>| {
            let mut fields = Fields::default();
            let read = fields.read(&sent);
            let row = dictionary::message(read.msg_type(), self.version).unwrap();
            let checked = dictionary::check(&read, row, self.version);
            assert_eq!(checked, Ok(()), "{}", sent.escape_ascii());
            let shown = read
                .fields()
                .filter(|(tag, _)| !matches!(tag, 8 | 9 | 10 | 34 | 49 | 52 | 56 | 60));
            shown.map(|(tag, value)| format!("{tag}={}|", value.escape_ascii())).collect()
        };
        self.world.sent().into_iter().map(show).collect()
    }

    fn venue(&mut self, event: VenueEvent) {
        self.world.directory.take(&Event::Venue(event));
    }
}

fn phase(number: u16, to: Phase) -> VenueEvent {
    let (from, cause) = (Phase::Continuous, PhaseCause::Command);
    let instrument_id = InstrumentId(number);
    VenueEvent::PhaseChanged(PhaseChanged { instrument_id, from, to, cause, reason: Text::BLANK })
}

fn two() -> [String; 2] {
    ["AAPL".into(), "MSFT".into()]
}

/// A list names every existing instrument, with its current terms; the request is echoed.
#[test]
fn a_security_list_names_the_instruments() {
    let mut client = Client::new(Version::Fix44, two());
    let all = client.ask("x", "320=R1|559=4|");
    let instrument = |symbol: &str| format!("55={symbol}|107=price increment 0.0100|561=10|");
    let head = |id: &str, number: u32| format!("35=y|320={id}|322={number}|560=0|");
    let (aapl, msft) = (instrument("AAPL"), instrument("MSFT"));
    assert_eq!(all, [format!("{}393=2|893=Y|146=2|{aapl}{msft}", head("R1", 2))]);
    let one = client.ask("x", "320=R2|559=0|55=MSFT|263=0|");
    assert_eq!(one, [format!("{}393=1|893=Y|146=1|{msft}", head("R2", 3))]);

    client.venue(VenueEvent::InstrumentRemoved(InstrumentId(1)));
    let change = InstrumentChange::PriceIncrement(Price(25_000));
    let instrument_id = InstrumentId(2);
    client.venue(VenueEvent::InstrumentChanged(InstrumentChanged { instrument_id, change }));
    let msft = msft.replace("0.0100", "2.5000");
    let all = client.ask("x", "320=R3|559=4|");
    assert_eq!(all, [format!("{}393=1|893=Y|146=1|{msft}", head("R3", 4))]);
}

/// A request for a feature that is not offered is refused by the code of the version.
#[test]
fn what_is_not_offered_has_its_reason() {
    let mut client = Client::new(Version::Fix44, two());
    for (msg_type, fields, expected) in [
        ("x", "320=R|559=0|55=NONE|", "560=2|58=unknown symbol|"),
        ("x", "320=R|559=0|", "560=2|58=unknown symbol|"),
        ("x", "320=R|559=0|55=LONGER-THAN-8|", "560=2|58=unknown symbol|"),
        ("x", "320=R|559=1|167=CS|", "560=1|58=SecurityListRequestType is 0 or 4|"),
        ("x", "320=R|559=4|263=1|", "560=1|58=lists are sent once: 263=0|"),
        ("c", "320=R|321=0|55=NONE|", "323=6|58=unknown symbol|"),
        ("c", "320=R|321=1|55=AAPL|", "323=5|58=SecurityRequestType is 0, or 3 in FIX 4.2|"),
        ("c", "320=R|321=3|", "323=5|58=lists are requested by Security List Request|"),
        ("c", "320=R|321=0|55=AAPL|263=1|", "323=5|58=definitions are sent once: 263=0|"),
        ("e", "324=R|55=NONE|263=0|", "326=20|58=unknown symbol|"),
        ("e", "324=R|55=AAPL|263=1|", "379=R|380=0|58=a status is sent once: 263=0|"),
        ("g", "335=R|336=NIGHT|263=0|", "340=6|567=1|58=TradingSessionID is DAY|"),
        ("g", "335=R|263=1|", "340=6|567=99|58=the status of the day is sent once: 263=0|"),
        ("x", "320=R|", "371=559|372=x|373=1|58=required tag missing|"),
        ("x", "320=R|559=9|", "371=559|372=x|373=5|58=value out of range|"),
        ("x", "320=|559=4|", "371=320|372=x|373=4|58=tag without a value|"),
        ("x", "320=A NAME OF MORE THAN THIRTY-SIX CHARACTERS|559=4|", "371=320|372=x|373=5|"),
        ("e", "324=R|55=AAPL|55=MSFT|263=0|", "371=55|372=e|373=13|"),
        ("g", "335=R|", "371=263|372=g|373=1|"),
    ] {
        let answers = client.ask(msg_type, fields);
        assert!(answers.len() == 1 && answers[0].contains(expected), "{fields}: {answers:?}");
    }
    let mut old = Client::new(Version::Fix42, two());
    for (msg_type, fields, expected) in [
        ("x", "320=R|559=4|", "372=x|380=3|"),
        ("c", "320=R|321=2|", "323=5|393=0|58=SecurityRequestType is 0, or 3 in FIX 4.2|"),
        ("c", "320=R|321=0|55=NONE|", "323=6|393=0|58=unknown symbol|"),
        ("g", "335=R|336=NIGHT|263=0|", "372=g|379=R|380=1|58=TradingSessionID is DAY|"),
        ("g", "335=R|263=2|", "372=g|379=R|380=0|58=the status of the day is sent once: 263=0|"),
    ] {
        let answers = old.ask(msg_type, fields);
        assert!(answers.len() == 1 && answers[0].contains(expected), "{fields}: {answers:?}");
    }
}

/// A definition has the terms of one instrument; in FIX 4.2, which has no list, the definitions of all make one.
#[test]
fn definitions_are_given() {
    let mut client = Client::new(Version::Fix44, two());
    let one = client.ask("c", "320=R1|321=0|55=AAPL|");
    let terms = "107=price increment 0.0100|561=10|336=DAY|";
    assert_eq!(one, [format!("35=d|320=R1|322=2|323=1|55=AAPL|{terms}")]);

    let mut old = Client::new(Version::Fix42, two());
    let terms = "107=price increment 0.0100, round lot 10|336=DAY|";
    let one = old.ask("c", "320=R1|321=0|55=AAPL|");
    assert_eq!(one, [format!("35=d|320=R1|322=2|323=1|393=1|55=AAPL|{terms}")]);
    let of = |number: u32, symbol: &str| {
        format!("35=d|320=R2|322={number}|323=4|393=2|55={symbol}|{terms}")
    };
    assert_eq!(old.ask("c", "320=R2|321=3|"), [of(3, "AAPL"), of(4, "MSFT")]);
}

/// Each trading status and each part of the day has the code of its version.
#[test]
fn statuses_are_those_of_now() {
    let codes = [
        (Phase::PreOpen, 18, 21),
        (Phase::OpeningAuction, 5, 22),
        (Phase::Continuous, 17, 17),
        (Phase::VolatilityAuction, 5, 5),
        (Phase::Halted, 2, 2),
        (Phase::ClosingAuction, 5, 5),
        (Phase::Closed, 18, 18),
    ];
    let parts = [
        (SystemEvent::StartOfMessages, 4),
        (SystemEvent::StartOfSystemHours, 2),
        (SystemEvent::StartOfMarketHours, 2),
        (SystemEvent::EndOfMarketHours, 2),
        (SystemEvent::EndOfSystemHours, 3),
        (SystemEvent::EndOfMessages, 3),
    ];
    assert_eq!((codes.len(), parts.len()), (Phase::ALL.len(), SystemEvent::ALL.len()));
    for version in Version::ALL {
        let mut client = Client::new(version, two());
        for (to, in_42, in_44) in codes {
            client.venue(phase(2, to));
            let code = if version == Version::Fix42 { in_42 } else { in_44 };
            let status = client.ask("e", "324=R|55=MSFT|263=0|");
            let expected = format!("35=f|324=R|55=MSFT|336=DAY|326={code}|58=");
            assert!(status[0].starts_with(&expected), "{status:?}");
        }
        let other = client.ask("e", "324=R|55=AAPL|263=0|");
        assert!(other[0].contains("326=17|"), "{other:?}");
        for (part, code) in parts {
            client.world.directory.take(&Event::System(part));
            let status = client.ask("g", "335=R|336=DAY|263=0|");
            let expected = format!("35=h|335=R|336=DAY|338=1|339=2|340={code}|58=");
            assert!(status[0].starts_with(&expected), "{status:?}");
        }
    }
}

/// A list goes by pages: one for each note, the next after the previous one was sent. No instrument is repeated or left
/// out.
#[test]
fn a_long_list_goes_by_pages() {
    const COUNT: usize = 1_000;
    for (version, msg_type, code) in
        [(Version::Fix44, "x", "559=4"), (Version::Fix42, "c", "321=3")]
    {
        let symbols: Vec<String> = (1..=COUNT).map(|number| format!("S{number:07}")).collect();
        let mut client = Client::new(version, symbols.clone());
        let number = client.world.acceptor.expected();
        let bytes = message(version, number, msg_type, &format!("320=R1|{code}|"));
        client.world.acceptor.receive(&bytes, client.world.now_ns).unwrap();
        let mut pages = Vec::new();
        let mut list = Vec::new();
        loop {
            let before = client.world.stream.len();
            let is_over = !client.world.step();
            let page = client.world.stream.len() - before;
            pages.extend((page > 0).then_some(page));
            list.extend(client.answers());
            if is_over {
                break;
            }
        }
        assert!(pages.iter().all(|page| *page <= 4), "{pages:?}");
        let listed: Vec<&str> = list
            .iter()
            .flat_map(|it| it.split('|').filter_map(|field| field.strip_prefix("55=")))
            .collect();
        assert_eq!(listed, symbols);
        assert!(list.iter().all(|it| it.contains("393=1000|")));
        if version == Version::Fix44 {
            let lasts = list.iter().filter(|it| it.contains("893=Y|")).count();
            assert!(lasts == 1 && list.last().unwrap().contains("893=Y|"));
        }
        assert_eq!(client.world.reports.as_ref().and_then(Reports::next_page), None);
        let again = client.ask(msg_type, &format!("320=R3|{code}|"));
        assert!(again[0].contains("320=R3|"), "{:?}", again[0]);
    }
}

/// An unfinished list is in the saved state; another one has to wait for its end, and it ends with its connection.
#[test]
fn a_list_ends_with_its_connection() {
    let symbols = (1..=100).map(|number| format!("S{number}"));
    let mut client = Client::new(Version::Fix44, symbols);
    let number = client.world.acceptor.expected();
    let bytes = message(Version::Fix44, number, "x", "320=R1|559=4|");
    client.world.acceptor.receive(&bytes, client.world.now_ns).unwrap();
    assert!(client.world.step());
    let reports = client.world.reports.as_ref().unwrap();
    assert!(reports.next_page().is_some());
    let mut restored = None;
    reports.save(&mut |piece| Reports::restore(&mut restored, piece).unwrap());
    assert_eq!(restored.as_ref(), Some(reports));
    let id = ClOrdId::new("R2").unwrap();
    let (counted, code, subscription, symbol) = (2, b'4', b'0', Symbol::BLANK);
    let query = QueryNote { msg_type: b'x', counted, code, subscription, symbol, id };
    client.answers();
    client.world.take(FixNote::Query(query).note(SESSION));
    let busy = client.answers();
    let expected = "560=4|58=another list is being sent: ask again after its end|";
    assert!(busy.len() == 1 && busy[0].ends_with(expected), "{busy:?}");
    client.world.reconnect();
    let number = client.world.expected;
    client.world.receive(&message(Version::Fix44, number, "A", "98=0|108=0|"));
    assert_eq!(client.world.reports.as_ref().and_then(Reports::next_page), None);
}
