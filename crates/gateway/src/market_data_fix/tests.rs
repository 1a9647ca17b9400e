//! Market data by FIX over a network in memory: the messages to clients, and the cost of a slow, wrong or hostile one.

use std::collections::BTreeMap;

use market::Timestamp;
use ring::{Builder as RingBuilder, Producer};
use wire::fix::{Builder, FixService, Framed, Version, frame};

use super::*;
use crate::{
    DerivedFact, DerivedTrade, DerivedUpdate, PriceLevel, Statistics, TradeKind, fake::FakeStream,
};

const NOW: u64 = 1_795_271_400 * SECOND;
const SLOTS: usize = 1024;

type Book = BTreeMap<[String; 4], String>;

/// The agent with a ring that the test fills.
struct World {
    agent: MarketDataFix<FakeStream>,
    network: FakeStream,
    to: Producer<DerivedUpdate>,
    number: u64,
    ordinal: u64,
    now_ns: u64,
}

/// A client, and the book that it builds.
struct Client {
    id: ConnectionId,
    name: &'static str,
    version: Version,
    next: u64,
    bytes: Vec<u8>,
    /// MsgSeqNum of the venue's next message.
    expected: u64,
    /// Lots by MDReqID, symbol, side and price.
    book: Book,
}

impl World {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut MarketDataFixOptions)) -> Self {
        let mut builder = RingBuilder::new("derived", SLOTS);
        let from = builder.lossy("fix");
        let (to, _) = builder.build();
        let network = FakeStream::new();
        let users = ["A", "B"].map(|name| Credentials::new(name, "secret").unwrap());
        let mut options = MarketDataFixOptions {
            timers: FixTimers {
                schedule: None,
                venue: CompId::new("VENUE").unwrap(),
                login_timeout_ns: 5 * SECOND,
                service: FixService::MarketData,
            },
            users: users.to_vec(),
            depth_max: 10,
            subscriptions_max: 4,
            interval_ns: 0,
            slow_client_timeout_ns: 10 * SECOND,
        };
        change(&mut options);
        let mirror = DerivedMirror::new(from, Arc::new(AtomicGauge::new(0)), 16);
        let agent = MarketDataFix::new(network.clone(), options, mirror);
        let mut world = Self { agent, network, to, number: 1, ordinal: 0, now_ns: NOW };
        world.publish(DerivedFact::Begin { request: 1 });
        for (stock_locate, symbol) in [(1, *b"AAPL    "), (2, *b"MSFT    ")] {
            world.publish(DerivedFact::Instrument { stock_locate, symbol, trading_state: b'T' });
        }
        world.level(1, true, 1_500_000, 300);
        world.level(1, true, 1_499_900, 100);
        world.level(1, false, 1_500_100, 50);
        world.publish(DerivedFact::End { request: 1, ordinal: 0 });
        world.turn();
        world
    }

    fn publish(&mut self, fact: DerivedFact) {
        self.number += 1;
        let update = DerivedUpdate { number: self.number, is_last: true, fact };
        self.to.try_publish(update).expect("nothing holds this ring up");
    }

    fn level(&mut self, stock_locate: u16, is_bid: bool, price: u32, lots: u64) {
        let level = PriceLevel { price, lots, orders: u32::from(lots > 0) };
        self.publish(DerivedFact::Level { stock_locate, is_bid, level });
    }

    fn trade(&mut self, stock_locate: u16, price: u32, lots: u64) {
        let trade = DerivedTrade {
            number: self.number + 1,
            stock_locate,
            price,
            lots,
            match_number: 100 + self.ordinal,
            time_ns: NOW,
            kind: TradeKind::Continuous,
        };
        let ordinal = self.ordinal;
        self.ordinal += 1;
        self.publish(DerivedFact::Trade { ordinal, trade });
    }

    fn turn(&mut self) {
        for _ in 0..20 {
            self.agent.do_work(self.now_ns).expect("the network works");
        }
    }

    fn count(&self) -> crate::MarketDataFixCount {
        self.agent.counters.read()
    }

    fn connect(&mut self, name: &'static str) -> Client {
        let id = self.network.connect("10.0.0.1:5".parse().unwrap());
        let (bytes, book) = (Vec::new(), BTreeMap::new());
        self.turn();
        Client { id, name, version: Version::Fix44, next: 1, bytes, expected: 1, book }
    }

    /// A client that has logged on.
    fn log_on(&mut self, name: &'static str) -> Client {
        let mut client = self.connect(name);
        self.say(&mut client, "A", "98=0|108=1000|141=Y|554=secret|");
        assert_eq!(self.hear(&mut client), ["35=A|98=0|108=1000|141=Y|"]);
        client
    }

    fn say(&mut self, client: &mut Client, msg_type: &str, fields: &str) {
        self.deliver(client, msg_type, fields);
        self.turn();
    }

    /// Puts a message where the next turn finds it.
    fn deliver(&mut self, client: &mut Client, msg_type: &str, fields: &str) {
        let mut buffer = [0; 8192];
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, msg_type).number(34, client.next).text(49, client.name);
        builder.time(52, Timestamp(self.now_ns)).text(56, "VENUE");
        builder.fields(fields.replace('|', "\x01").as_bytes());
        client.next += 1;
        self.network.deliver(client.id, builder.finish(client.version));
    }

    /// All messages so far, without header and trailer. Their numbers have no gap but those that are filled.
    fn hear(&mut self, client: &mut Client) -> Vec<String> {
        let mut shown = Vec::new();
        self.turn();
        loop {
            let taken = self.network.take(client.id, usize::MAX);
            if taken.is_empty() {
                break;
            }
            client.bytes.extend(taken);
            while let Framed::Whole(len) = frame(&client.bytes) {
                let bytes: Vec<u8> = client.bytes.drain(..len).collect();
                shown.push(client.take(&bytes));
            }
            self.turn();
        }
        assert!(client.bytes.is_empty(), "only whole messages");
        shown
    }

    /// The levels of AAPL that a client should have by this request, in the form of its book.
    fn book(&self, id: &str, depth: usize) -> Book {
        let levels = &self.agent.mirror.instruments()[0].levels;
        let decimal = |price: u32| {
            let text = format!("{}.{:04}", price / 10_000, price % 10_000);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        let bids = levels.bids().take(depth).map(|it| ("0", it));
        let offers = levels.asks().take(depth).map(|it| ("1", it));
        let row = |(side, it): (&str, PriceLevel)| {
            ([id.into(), "AAPL".into(), side.into(), decimal(it.price)], it.lots.to_string())
        };
        bids.chain(offers).map(row).collect()
    }
}

impl Client {
    fn take(&mut self, bytes: &[u8]) -> String {
        // More fields than a message of a client may have.
        let text = String::from_utf8(bytes.to_vec()).unwrap().replace('\x01', "|");
        let fields: Vec<(&str, &str)> =
            text.split_terminator('|').map(|field| field.split_once('=').unwrap()).collect();
        let value = |tag| fields.iter().find(|(own, _)| *own == tag).map_or("", |(_, it)| it);
        let number: u64 = value("34").parse().unwrap();
        assert!(number == self.expected || value("43") == "Y", "{text}");
        match (value("35"), value("43")) {
            ("4", "Y") => assert_eq!(value("36"), self.expected.to_string(), "{text}"),
            _ => self.expected += 1,
        }
        self.apply(value("35"), &fields);
        let shown = |(tag, _): &&(&str, &str)| {
            !matches!(*tag, "8" | "9" | "34" | "49" | "52" | "56" | "10" | "122")
        };
        fields.iter().filter(shown).map(|(tag, value)| format!("{tag}={value}|")).collect()
    }

    fn apply(&mut self, msg_type: &str, fields: &[(&str, &str)]) {
        let value = |tag| fields.iter().find(|(own, _)| *own == tag).map_or("", |(_, it)| *it);
        let (id, symbol) = (value("262"), value("55"));
        match msg_type {
            "W" => self.book.retain(|key, _| key[0] != id || key[1] != symbol),
            "X" => {}
            _ => return,
        }
        let mut action = "0";
        let mut key = [id, symbol, "", ""].map(str::to_owned);
        for (tag, value) in fields {
            match *tag {
                "279" => action = value,
                "269" => key[2] = (*value).to_owned(),
                "270" => key[3] = (*value).to_owned(),
                _ => {}
            }
            let (book, lots) = (&mut self.book, (*value).to_owned());
            match (*tag, action, &key[2][..]) {
                (_, _, "2") => {}
                ("270", "2", _) => _ = book.remove(&key).expect("what is deleted was there"),
                ("271", "0", _) => {
                    let before = book.insert(key.clone(), lots);
                    assert_eq!(before, None, "what is new was not there");
                }
                ("271", _, _) => {
                    let before = book.insert(key.clone(), lots);
                    assert!(before.is_some(), "what changes was there");
                }
                _ => {}
            }
        }
    }
}

const BOTH: &str = "267=2|269=0|269=1|";

fn subscription(id: &str, depth: usize, entries: &str, symbols: &[&str]) -> String {
    let symbols: String = symbols.iter().map(|symbol| format!("55={symbol}|")).collect();
    let count = symbols.matches("55=").count();
    format!("262={id}|263=1|264={depth}|265=1|{entries}146={count}|{symbols}")
}

/// A subscription begins with a snapshot of each instrument, goes on with changes, and ends when the client says so.
#[test]
fn a_subscription_begins_with_a_snapshot_and_goes_on_with_changes() {
    let mut world = World::new();
    let mut client = world.log_on("A");
    world.say(&mut client, "V", &subscription("R1", 0, BOTH, &["AAPL", "MSFT"]));
    assert_eq!(
        world.hear(&mut client),
        [
            "35=W|262=R1|55=AAPL|268=3|269=0|270=150|271=300|346=1|269=0|270=149.99|271=100|346=1|\
             269=1|270=150.01|271=50|346=1|",
            "35=W|262=R1|55=MSFT|268=0|",
        ]
    );
    world.level(1, true, 1_500_000, 200);
    world.level(1, true, 1_499_900, 0);
    world.level(1, false, 1_500_200, 70);
    world.turn();
    assert_eq!(
        world.hear(&mut client),
        ["35=X|262=R1|268=3|279=1|269=0|278=B1500000|55=AAPL|270=150|271=200|346=1|\
          279=2|269=0|278=B1499900|55=AAPL|270=149.99|\
          279=0|269=1|278=S1500200|55=AAPL|270=150.02|271=70|346=1|"]
    );
    world.say(&mut client, "V", &subscription("R1", 0, BOTH, &["AAPL"]).replace("263=1", "263=2"));
    world.level(1, true, 1_500_000, 100);
    world.turn();
    assert_eq!(world.hear(&mut client), Vec::<String>::new());
    assert_eq!(world.count().subscriptions, 0);
    // One snapshot, without any message after it.
    let once = subscription("R2", 1, BOTH, &["AAPL"]).replace("263=1", "263=0");
    world.say(&mut client, "V", &once);
    world.level(1, true, 1_500_000, 90);
    world.turn();
    assert_eq!(
        world.hear(&mut client),
        ["35=W|262=R2|55=AAPL|268=2|269=0|270=150|271=100|346=1|269=1|270=150.01|271=50|346=1|"]
    );
}

/// The top of a book is its best levels; one that leaves the depth is deleted, one that comes into it is new.
#[test]
fn depth_is_the_best_levels() {
    let mut world = World::new();
    let mut client = world.log_on("A");
    world.say(&mut client, "V", &subscription("TOP", 1, BOTH, &["AAPL"]));
    world.hear(&mut client);
    assert_eq!(client.book, world.book("TOP", 1));
    world.level(1, true, 1_500_050, 10);
    world.turn();
    let changes = world.hear(&mut client);
    assert_eq!(changes.len(), 1);
    assert!(changes[0].contains("279=0|269=0|278=B1500050|"), "{changes:?}");
    assert!(changes[0].contains("279=2|269=0|278=B1500000|"), "{changes:?}");
    assert_eq!(client.book, world.book("TOP", 1));
    // Changes beyond the depth are not sent.
    world.level(1, true, 1_400_000, 10);
    world.turn();
    assert_eq!(world.hear(&mut client), Vec::<String>::new());
    // The whole book at each change, where that is requested.
    let full = subscription("FULL", 2, BOTH, &["AAPL"]).replace("265=1", "265=0");
    world.say(&mut client, "V", &full);
    world.hear(&mut client);
    world.level(1, false, 1_500_060, 10);
    world.turn();
    let all = world.hear(&mut client);
    assert!(all.iter().any(|it| it.starts_with("35=W|262=FULL|55=AAPL|268=4|")), "{all:?}");
}

/// Trades come in their order, one by one; the end of one is a deletion of its id.
#[test]
fn trades_are_sent_one_by_one() {
    let mut world = World::new();
    let mut client = world.log_on("A");
    world.trade(1, 1_500_000, 5);
    world.turn();
    world.say(&mut client, "V", &subscription("T", 1, "267=1|269=2|", &["AAPL"]));
    assert_eq!(world.hear(&mut client), ["35=W|262=T|55=AAPL|268=1|269=2|270=150|"]);
    world.trade(1, 1_500_100, 10);
    world.trade(2, 900_000, 11);
    world.trade(1, 1_500_000, 12);
    let ordinal = world.ordinal;
    world.ordinal += 1;
    let number = world.number;
    world.publish(DerivedFact::Undone { ordinal, number, stock_locate: 1, match_number: 101 });
    world.turn();
    let time = "272=20261121|273=14:30:00.000|";
    assert_eq!(
        world.hear(&mut client),
        [format!(
            "35=X|262=T|268=3|279=0|269=2|278=T101|55=AAPL|270=150.01|271=10|{time}\
             279=0|269=2|278=T103|55=AAPL|270=150|271=12|{time}279=2|269=2|278=T101|55=AAPL|"
        )]
    );
}

/// A request that cannot be met is rejected with its reason, and the session goes on.
#[test]
fn wrong_requests_are_rejected_with_their_reason() {
    let mut world = World::new();
    let mut client = world.log_on("A");
    let good = subscription("R", 5, BOTH, &["AAPL"]);
    world.say(&mut client, "V", &good);
    world.hear(&mut client);
    let more = |id: &str| subscription(id, 5, BOTH, &["AAPL"]);
    let none = Some("281=0|");
    for (request, code) in [
        (good.clone(), Some("281=1|")),
        (subscription("X", 5, BOTH, &["AAPL", "NONE"]), none),
        (subscription("X", 5, BOTH, &["A-LONG-SYMBOL"]), none),
        (subscription("X", 11, BOTH, &["AAPL"]), Some("281=5|")),
        (more("X").replace("265=1|", ""), Some("281=6|")),
        (more("X").replace("265=1|", "265=1|266=N|"), Some("281=7|")),
        (subscription("X", 5, "267=1|269=4|", &["AAPL"]), Some("281=8|")),
        (subscription("X", 5, "267=1|269=2|", &["AAPL"]).replace("265=1", "265=0"), Some("281=6|")),
        (more("X").replace("263=1", "263=2"), Some("58=no subscription")),
    ] {
        world.say(&mut client, "V", &request);
        let answers = world.hear(&mut client);
        let is_reject =
            |it: &String| it.starts_with("35=Y|262=") && code.is_none_or(|code| it.contains(code));
        assert!(answers.len() == 1 && is_reject(&answers[0]), "{request}: {answers:?}");
    }
    // Faults of the session, and messages that belong to another port.
    for (msg_type, fields, answer) in [
        ("V", good.replace("264=5|", ""), "35=3|45=12|371=264|372=V|373=1|"),
        ("V", good.replace("263=1", "263=7"), "35=3|45=13|371=263|372=V|373=5|"),
        ("V", good.replace("146=1", "146=2"), "35=3|45=14|371=146|372=V|373=16|"),
        ("D", "11=1|55=AAPL|54=1|38=1|40=1|".into(), "35=j|45=15|372=D|380=3|"),
    ] {
        world.say(&mut client, msg_type, &fields);
        let answers = world.hear(&mut client);
        assert!(answers.len() == 1 && answers[0].starts_with(answer), "{answers:?}");
    }
    // As many as a session may have.
    for id in ["R1", "R2", "R3", "R4"] {
        world.say(&mut client, "V", &more(id));
    }
    let answers = world.hear(&mut client);
    assert!(answers.last().unwrap().starts_with("35=Y|262=R4|281=2|"), "{answers:?}");
    assert_eq!(world.count().subscriptions, 4);
}

/// A client that reads slowly has fewer and larger changes, the bytes that wait for it are bounded, and it ends with
/// the current book. Another client is not held up.
#[test]
fn a_slow_client_has_what_is_and_holds_nothing_up() {
    let mut world = World::new();
    let (mut slow, mut quick) = (world.log_on("A"), world.log_on("B"));
    for client in [&mut slow, &mut quick] {
        let request = subscription("R", 10, BOTH, &["AAPL"]);
        world.say(client, "V", &request);
        world.hear(client);
    }
    world.network.set_room(slow.id, 0);
    let mut seed = 7_u64;
    let mut changes = 0;
    for _ in 0..2_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let is_bid = seed >> 40 & 1 == 0;
        let offset = (seed >> 33) as u32 % 8 * 100;
        let price = if is_bid { 1_500_000 - offset } else { 1_500_100 + offset };
        world.level(1, is_bid, price, (seed >> 50) % 3 * 10);
        world.agent.do_work(world.now_ns).unwrap();
        changes += world.hear(&mut quick).len();
        assert_eq!(quick.book, world.book("R", 10));
        let held = world.agent.clients[slow.id.index as usize].as_ref().unwrap();
        assert!(held.connection.session.outgoing().len() <= OUTGOING_BYTES_MAX);
    }
    assert!(changes > 1_000, "{changes}");
    assert!(world.count().held_back > 0);
    world.network.set_room(slow.id, usize::MAX);
    let fewer = world.hear(&mut slow).len();
    assert!(0 < fewer && fewer < changes, "{fewer} of {changes}");
    assert_eq!(slow.book, world.book("R", 10));
    // A client that takes nothing for too long is closed.
    world.network.set_room(slow.id, 0);
    for lots in 1..2_000 {
        world.level(1, true, 1_500_000, 1_000 + lots);
        world.hear(&mut quick);
    }
    world.now_ns += 11 * SECOND;
    world.turn();
    assert!(!world.network.is_open(slow.id) && world.network.is_open(quick.id));
    assert_eq!(world.count().slow_closed, 1);
}

/// Requests of a client that reads no answers wait in its socket: no more than 64 KiB wait for it here. Once it reads, each
/// has its answer.
#[test]
fn a_flood_that_is_not_read_waits_in_the_socket() {
    const REQUESTS: usize = 3_000;
    for (msg_type, fields) in
        [("V", subscription("X", 11, BOTH, &["AAPL"])), ("1", "112=T|".into())]
    {
        let mut world = World::new();
        let mut client = world.log_on("A");
        world.network.set_room(client.id, 0);
        for _ in 0..REQUESTS {
            world.say(&mut client, msg_type, &fields);
            let held = world.agent.clients[client.id.index as usize].as_ref().unwrap();
            assert!(held.connection.session.outgoing().len() <= OUTGOING_BYTES_MAX);
        }
        assert!(
            world.network.calls(client.id) < 100 * REQUESTS as u64,
            "it is not asked again and again"
        );
        world.network.set_room(client.id, usize::MAX);
        assert_eq!(world.hear(&mut client).len(), REQUESTS);
    }
}

/// Trades that are no longer available to a client end its subscription, with a message that says so; levels go on
/// elsewhere.
#[test]
fn missed_trades_end_their_subscription() {
    let mut world = World::new();
    let mut client = world.log_on("A");
    world.say(&mut client, "V", &subscription("L", 1, BOTH, &["AAPL"]));
    world.say(&mut client, "V", &subscription("T", 1, "267=1|269=2|", &["AAPL"]));
    world.hear(&mut client);
    // More than the mirror keeps, in one turn.
    (0..20).for_each(|_| world.trade(1, 1_500_000, 1));
    world.turn();
    let answers = world.hear(&mut client);
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers[0].starts_with("35=Y|262=T|58=trades were missed"), "{answers:?}");
    assert_eq!((world.count().subscriptions, world.count().trades_missed), (1, 1));
    world.say(&mut client, "V", &subscription("T", 1, "267=1|269=2|", &["AAPL"]));
    world.hear(&mut client);
    world.trade(1, 1_500_000, 1);
    world.turn();
    assert!(world.hear(&mut client)[0].starts_with("35=X|262=T|268=1|279=0|269=2|"));
}

/// Updates of the ring that the agent missed are repeated to it, and its clients have the book as it is then.
#[test]
fn what_the_agent_missed_is_repeated() {
    let mut world = World::new();
    let mut client = world.log_on("A");
    world.say(&mut client, "V", &subscription("R", 10, BOTH, &["AAPL"]));
    world.hear(&mut client);
    for round in 0..2 * SLOTS as u64 {
        world.level(1, true, 1_500_000, 1 + round);
    }
    world.turn();
    // It shows nothing until everything was repeated, and requests wait.
    world.say(&mut client, "V", &subscription("S", 10, BOTH, &["MSFT"]));
    assert_eq!(world.hear(&mut client), Vec::<String>::new());
    world.publish(DerivedFact::Begin { request: 2 });
    world.publish(DerivedFact::Instrument {
        stock_locate: 1,
        symbol: *b"AAPL    ",
        trading_state: b'T',
    });
    world.level(1, true, 1_500_000, 9);
    world.publish(DerivedFact::Statistics { stock_locate: 1, statistics: Statistics::default() });
    world.publish(DerivedFact::End { request: 2, ordinal: 0 });
    world.turn();
    let answers = world.hear(&mut client);
    assert!(answers.iter().any(|it| it.starts_with("35=W|262=S|55=MSFT|")), "{answers:?}");
    assert!(answers.iter().any(|it| it.starts_with("35=X|262=R|268=3|")), "{answers:?}");
    assert!(world.count().updates_missed > 0);
}

/// Nothing is sent again: a resend is one fill, and the books begin with snapshots again, because changes may have been
/// among the messages that the client lacks.
#[test]
fn a_resend_is_filled_and_the_books_are_sent_anew() {
    let mut world = World::new();
    let mut client = world.log_on("A");
    world.say(&mut client, "V", &subscription("R", 10, BOTH, &["AAPL"]));
    world.level(1, true, 1_500_000, 1);
    world.turn();
    world.hear(&mut client);
    world.say(&mut client, "2", "7=2|16=0|");
    let answers = world.hear(&mut client);
    assert_eq!(answers[0], "35=4|43=Y|123=Y|36=4|");
    assert!(answers[1].starts_with("35=W|262=R|55=AAPL|268=3|"), "{answers:?}");
    assert_eq!(world.count().resends_filled, 1);
    world.say(&mut client, "1", "112=STILL|");
    assert_eq!(world.hear(&mut client), ["35=0|112=STILL|"]);
    world.say(&mut client, "5", "");
    assert_eq!(world.hear(&mut client), ["35=5|"]);
    world.now_ns += 2 * SECOND;
    world.turn();
    assert!(!world.network.is_open(client.id));
}

/// The numbers begin with the connection: a Logon that does not reset them is refused with the reason, one with a wrong
/// password or a name that is connected closes the connection without a message.
#[test]
fn a_logon_resets_the_numbers_or_is_refused() {
    let mut world = World::new();
    let mut client = world.connect("A");
    world.say(&mut client, "A", "98=0|108=30|554=secret|");
    let answers = world.hear(&mut client);
    assert!(answers.len() == 1 && answers[0].starts_with("35=5|58=market data is not kept"));
    let first = world.log_on("A");
    for (name, fields) in [
        ("A", "98=0|108=30|141=Y|554=secret|"),
        ("B", "98=0|108=30|141=Y|554=wrong|"),
        ("C", "98=0|108=30|141=Y|554=secret|"),
        ("B", "98=0|141=Y|554=secret|"),
    ] {
        let mut other = world.connect(name);
        world.say(&mut other, "A", fields);
        assert_eq!(world.hear(&mut other), Vec::<String>::new(), "{name} {fields}");
        assert!(!world.network.is_open(other.id), "{name} {fields}");
    }
    assert!(world.network.is_open(first.id), "the first connection of a name stays");
    assert_eq!((world.count().logins, world.count().logins_rejected), (1, 4));
    // A silent client is asked, then closed; strangers have less time.
    let stranger = world.connect("B");
    world.now_ns += 6 * SECOND;
    world.turn();
    assert!(!world.network.is_open(stranger.id));
    // The venue stops.
    let mut client = world.log_on("B");
    let drain = Arc::new(AtomicGauge::new(0));
    world.agent.set_drain(Arc::clone(&drain));
    drain.set(DRAIN_ENDS);
    world.turn();
    assert_eq!(world.hear(&mut client), ["35=5|58=the venue is shutting down|"]);
    world.now_ns += 2 * SECOND;
    world.turn();
    assert_eq!((world.count().connections, world.count().subscriptions), (0, 0));
}

/// However many clients ask for a deep book at once, a turn writes 128 KiB and the messages of one client more, and
/// each client gets its book.
#[test]
fn a_turn_writes_so_much() {
    const TURN_BYTES_MAX: usize = (128 + 32) << 10;
    const DEPTH: usize = FIX_DEPTH_MAX;
    let names: Vec<&'static str> = (0..80).map(|number| &*format!("C{number}").leak()).collect();
    let mut world = World::with(|options| {
        options.depth_max = DEPTH;
        options.users =
            names.iter().map(|name| Credentials::new(name, "secret").unwrap()).collect();
    });
    for level in 0..DEPTH as u32 {
        world.level(1, true, 1_400_000 - level * 100, 10);
        world.level(1, false, 1_600_000 + level * 100, 10);
    }
    world.turn();
    let mut clients: Vec<Client> = names.iter().map(|name| world.log_on(name)).collect();
    for client in &mut clients {
        world.deliver(client, "V", &subscription("R", 0, BOTH, &["AAPL"]));
    }
    let waiting = |world: &World| -> usize {
        clients.iter().map(|client| world.network.waiting(client.id)).sum()
    };
    let (mut before, mut turns) = (waiting(&world), 0);
    while world.agent.do_work(world.now_ns).unwrap() > 0 {
        let after = waiting(&world);
        assert!(after - before <= TURN_BYTES_MAX, "{} bytes", after - before);
        (before, turns) = (after, turns + 1);
    }
    assert!(TURN_BYTES_MAX < before && turns > 1, "{before} bytes in {turns} turns");
    for client in &mut clients {
        world.hear(client);
        assert_eq!(client.book, world.book("R", DEPTH));
    }
}
