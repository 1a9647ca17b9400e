//! Pages and streams of derived data over connections in memory, in stopped time.

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use engine::Engine;
use gateway::{
    DerivedData, DerivedFact, DerivedMirror, DerivedUpdate, FeedBooks, PriceLevel, PriceLevels,
};
use market::{DecimalText, SplitMix64};
use ring::{AtomicGauge, Builder, Cursor, Producer};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    runtime::{self, Runtime},
    time::{sleep, timeout},
};
use wire::{
    field::U48,
    itch::{AddOrder, OrderDelete, OrderExecuted, StockDirectory},
    layout::{IntoBytes, Message as _},
};

use super::*;
use crate::{
    admin::{Pages, Served},
    clock::SystemClock,
    config::{AdminConfig, PRICE_DECIMALS, Span},
    operator::{self, Desk, DeskEnds, Directory},
    stage::JournalFigures,
};

const SYMBOLS: [&str; 2] = ["AAPL", "MSFT"];
/// Noon of 2026-11-23.
const NOW_NS: u64 = (20_780 * 24 + 12) * 3_600_000_000_000;
const INTERVAL: Duration = Duration::from_millis(100);

/// A random feed with the data derived from it, and the pages of that data.
struct Source {
    books: FeedBooks,
    data: DerivedData,
    to: Producer<DerivedUpdate>,
    wanted: Arc<AtomicGauge>,
    request: u64,
    number: u64,
    /// Live orders, with their instruments and lots.
    orders: Vec<(u64, u16, u32)>,
    random: SplitMix64,
    pages: Pages,
    figures: Arc<MarketFigures>,
}

fn settings() -> DerivedDataConfig {
    DerivedDataConfig { trades: 50, interval: Span(INTERVAL), ..DerivedDataConfig::default() }
}

fn pages(mirror: DerivedMirror, settings: DerivedDataConfig) -> (Pages, Arc<MarketFigures>) {
    let engine = Engine::new();
    let mut builder = Builder::new("commands", 8);
    let _taken = builder.gating("sequencer");
    let (commands, _) = builder.build();
    let (_, results) = operator::results();
    let ends = DeskEnds {
        commands,
        results,
        durable: Arc::new(Cursor::new(0)),
        directory: Directory::of(&engine),
        numbers: operator::numbers(&engine),
    };
    let market = MarketPages::new(mirror, settings);
    let figures = market.figures();
    let served = Served {
        stage_times: None,
        ledger: None,
        durable: Arc::new(Cursor::new(0)),
        journal: Arc::new(JournalFigures::new(Arc::new(AtomicGauge::new(0)))),
        desk: Desk::new(ends, SystemClock::start(), PathBuf::new()),
        market: Some(market),
        faults: gateway::FaultTable::default(),
    };
    (Pages::new(served, &AdminConfig::default()), figures)
}

impl Source {
    fn new(seed: u64, slots: usize, settings: DerivedDataConfig) -> Self {
        let mut builder = Builder::new("derived", slots);
        let from = builder.lossy("mirror");
        let (to, _) = builder.build();
        let wanted = Arc::new(AtomicGauge::new(0));
        let mirror = DerivedMirror::new(from, Arc::clone(&wanted), settings.trades);
        let (pages, figures) = pages(mirror, settings);
        let mut source = Self {
            books: FeedBooks::new(),
            data: DerivedData::new(1000),
            to,
            wanted,
            request: 0,
            number: 0,
            orders: Vec::new(),
            random: SplitMix64::new(seed),
            pages,
            figures,
        };
        for (stock_locate, symbol) in (1..).zip(SYMBOLS) {
            source.list(stock_locate, symbol);
        }
        source
    }

    fn take(&mut self, message: &[u8]) {
        self.number += 1;
        let mut changes = Vec::new();
        self.books.take(self.number, message, &mut |change| changes.push(change));
        let Self { data, to, number, .. } = self;
        data.take(*number, message, &changes, NOW_NS, &mut |update| {
            assert!(to.try_publish(update).is_ok());
        });
        self.repeat();
    }

    /// Repeats the whole state to a mirror that asks for it.
    fn repeat(&mut self) {
        if self.wanted.get() == self.request {
            return;
        }
        self.request = self.wanted.get();
        let (request, number) = (self.request, self.number);
        let mut facts = vec![DerivedFact::Begin { request }];
        for (stock_locate, symbol) in (1..).zip(SYMBOLS) {
            let Some(levels) = self.data.levels(stock_locate) else { continue };
            let (symbol, trading_state) = (padded(symbol), b'T');
            facts.push(DerivedFact::Instrument { stock_locate, symbol, trading_state });
            let statistics = *self.data.statistics(stock_locate).unwrap();
            facts.push(DerivedFact::Statistics { stock_locate, statistics });
            let sides = [(true, levels.best(true, 9999)), (false, levels.best(false, 9999))];
            for (is_bid, levels) in sides {
                let level = |level| DerivedFact::Level { stock_locate, is_bid, level };
                facts.extend(levels.into_iter().map(level));
            }
        }
        let ordinal = self.trades();
        facts.push(DerivedFact::End { request, ordinal });
        for fact in facts {
            assert!(self.to.try_publish(DerivedUpdate { number, is_last: true, fact }).is_ok());
        }
    }

    fn trades(&self) -> u64 {
        let trades = |stock_locate| self.data.statistics(stock_locate).map_or(0, |it| it.trades);
        (1..=SYMBOLS.len() as u16).map(trades).sum()
    }

    fn list(&mut self, stock_locate: u16, symbol: &str) {
        let directory = StockDirectory {
            message_type: StockDirectory::TYPE,
            stock_locate: stock_locate.into(),
            tracking_number: 0.into(),
            timestamp: U48::new(0),
            stock: padded(symbol),
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
        };
        self.take(directory.as_bytes());
    }

    fn add(&mut self, stock_locate: u16, is_bid: bool, price: u32, lots: u32) {
        let order = 1 + self.number;
        self.orders.push((order, stock_locate, lots));
        let add = AddOrder {
            message_type: AddOrder::TYPE,
            stock_locate: stock_locate.into(),
            tracking_number: 0.into(),
            timestamp: time(),
            order_reference_number: order.into(),
            buy_sell_indicator: if is_bid { b'B' } else { b'S' },
            shares: lots.into(),
            stock: padded(SYMBOLS[usize::from(stock_locate) - 1]),
            price: price.into(),
        };
        self.take(add.as_bytes());
    }

    /// Executes lots of the live order of this index.
    fn execute(&mut self, index: usize, lots: u32) {
        let (order, stock_locate, left) = self.orders[index];
        match left - lots {
            0 => drop(self.orders.swap_remove(index)),
            left => self.orders[index].2 = left,
        }
        let executed = OrderExecuted {
            message_type: OrderExecuted::TYPE,
            stock_locate: stock_locate.into(),
            tracking_number: 0.into(),
            timestamp: time(),
            order_reference_number: order.into(),
            executed_shares: lots.into(),
            match_number: self.number.into(),
        };
        self.take(executed.as_bytes());
    }

    /// A random message: about as many orders are added as removed.
    fn step(&mut self) {
        let count = self.orders.len() as u64;
        if self.random.below(120) >= count {
            let stock_locate = 1 + self.random.below(2) as u16;
            let is_bid = self.random.below(2) == 0;
            let offset = self.random.below(40) as u32 * 100;
            let price = if is_bid { 1_500_000 - offset } else { 1_500_100 + offset };
            let lots = 1 + self.random.below(500) as u32;
            return self.add(stock_locate, is_bid, price, lots);
        }
        let index = self.random.below(count) as usize;
        if self.random.below(3) == 0 {
            let lots = 1 + self.random.below(self.orders[index].2.into()) as u32;
            return self.execute(index, lots);
        }
        let (order, stock_locate, _) = self.orders.swap_remove(index);
        let delete = OrderDelete {
            message_type: OrderDelete::TYPE,
            stock_locate: stock_locate.into(),
            tracking_number: 0.into(),
            timestamp: time(),
            order_reference_number: order.into(),
        };
        self.take(delete.as_bytes());
    }

    fn figure(&self, name: &str) -> u64 {
        self.figures.named().into_iter().find(|(own, _)| *own == name).expect("it is one").1
    }

    /// The levels of a stream of this depth.
    fn best(&self, depth: usize) -> Vec<(Vec<PriceLevel>, Vec<PriceLevel>)> {
        let of = |stock_locate| {
            let levels = self.data.levels(stock_locate).unwrap();
            (levels.best(true, depth), levels.best(false, depth))
        };
        (1..=SYMBOLS.len() as u16).map(of).collect()
    }
}

fn padded(symbol: &str) -> [u8; 8] {
    let mut bytes = *b"        ";
    bytes[..symbol.len()].copy_from_slice(symbol.as_bytes());
    bytes
}

fn time() -> U48 {
    U48::new(NOW_NS % market::NANOS_PER_DAY)
}

fn runtime() -> Runtime {
    runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// A client, and the end of its connection.
struct Client {
    stream: DuplexStream,
    text: String,
    ended: tokio::task::JoinHandle<()>,
}

impl Client {
    /// Sends a query, with this many bytes of room between the two ends.
    async fn ask(source: &Source, target: &str, room: usize, peer: [u8; 4]) -> Self {
        let (mut stream, server) = duplex(room);
        let pages = source.pages.clone();
        let peer = Some(IpAddr::from(peer));
        let ended = tokio::spawn(async move { pages.answer(server, peer).await });
        // Version 1.0 has no chunks: the body is the rest.
        let head = format!("GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { stream, text: String::new(), ended }
    }

    /// Takes the bytes available.
    async fn read(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(read) = timeout(Duration::from_millis(1), self.stream.read(&mut bytes)).await {
            let count = read.unwrap();
            if count == 0 {
                return;
            }
            self.text += str::from_utf8(&bytes[..count]).unwrap();
        }
    }

    /// Takes the whole events so far.
    fn events(&mut self) -> Vec<(String, Value)> {
        if let Some((head, rest)) = self.text.split_once("\r\n\r\n") {
            assert!(
                head.starts_with("HTTP/1.0 200") && head.contains("text/event-stream"),
                "{head}"
            );
            self.text = rest.to_owned();
        }
        let Some(end) = self.text.rfind("\n\n") else { return Vec::new() };
        let rest = self.text.split_off(end + 2);
        let whole = std::mem::replace(&mut self.text, rest);
        let events = whole.split("\n\n").filter(|event| !event.is_empty());
        let read = |event: &str| {
            let (name, data) = event.split_once('\n')?;
            let name = name.strip_prefix("event: ")?.to_owned();
            Some((name, serde_json::from_str(data.strip_prefix("data: ")?).unwrap()))
        };
        // Skips comments.
        events.filter_map(read).collect()
    }
}

/// One query and its answer.
async fn get(source: &Source, target: &str) -> (u16, Value) {
    let mut client = Client::ask(source, target, 1 << 20, [127, 0, 0, 1]).await;
    let mut text = String::new();
    client.stream.read_to_string(&mut text).await.unwrap();
    client.ended.await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head["HTTP/1.0 ".len()..][..3].parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// The state that a client builds from the events of levels.
#[derive(Default)]
struct Rebuilt {
    levels: [PriceLevels; 2],
    sequences: [u64; 2],
    snapshots: Vec<String>,
    deltas: usize,
}

impl Rebuilt {
    fn take(&mut self, (name, data): &(String, Value)) {
        let index = SYMBOLS.iter().position(|symbol| data["symbol"] == *symbol);
        match name.as_str() {
            "snapshot" => {
                self.levels[index.unwrap()] = PriceLevels::default();
                self.snapshots.push(data["reason"].as_str().unwrap().to_owned());
            }
            "delta" => {
                assert_eq!(data["after"], json!(self.sequences[index.unwrap()]));
                self.deltas += 1;
            }
            _ => return,
        }
        let index = index.unwrap();
        self.sequences[index] = data["sequence"].as_u64().unwrap();
        for (is_bid, side) in [(true, "bids"), (false, "asks")] {
            for level in data[side].as_array().unwrap() {
                let price = level["price"].as_str().unwrap();
                let price = market::parse_decimal(price, PRICE_DECIMALS).unwrap();
                let lots = level["lots"].as_u64().unwrap();
                let orders = level["orders"].as_u64().unwrap() as u32;
                self.levels[index].set(is_bid, PriceLevel { price, lots, orders });
            }
        }
    }

    fn sides(&self) -> Vec<(Vec<PriceLevel>, Vec<PriceLevel>)> {
        self.levels.iter().map(|it| (it.bids().collect(), it.asks().collect())).collect()
    }
}

/// The snapshot and the deltas of a stream build the present levels, whatever happens between two events; the trades
/// are all trades, and the last statistics those of the day.
#[test]
fn a_stream_rebuilds_what_is() {
    let mut deltas = 0;
    for seed in 1..=20 {
        deltas += runtime().block_on(async {
            let mut source = Source::new(seed, 4096, settings());
            (0..100).for_each(|_| source.step());
            let depth = 1 + source.random.below(12) as usize;
            let target = format!(
                "/market/stream?symbol=MSFT,AAPL&kind=levels,top,trades,statistics&depth={depth}"
            );
            let mut client = Client::ask(&source, &target, 1 << 16, [127, 0, 0, 1]).await;
            client.read().await;
            let trades_before = source.trades();
            let mut rebuilt = Rebuilt::default();
            let (mut traded, mut tops, mut last) = (0, vec![Value::Null; 2], vec![Value::Null; 2]);
            for round in 0..50 {
                for _ in 0..source.random.below(20) {
                    source.step();
                }
                sleep(INTERVAL).await;
                client.read().await;
                for event in client.events() {
                    rebuilt.take(&event);
                    let (name, data) = event;
                    let index = SYMBOLS.iter().position(|it| data["symbol"] == *it).unwrap();
                    match name.as_str() {
                        "trade" => traded += 1,
                        "top" => tops[index] = data,
                        "statistics" => last[index] = data,
                        "gap" => panic!("seed {seed}: nothing was missed: {data}"),
                        _ => {}
                    }
                }
                assert_eq!(rebuilt.sides(), source.best(depth), "seed {seed}, round {round}");
                assert_eq!(traded, source.trades() - trades_before, "seed {seed}, round {round}");
                for (index, (bids, asks)) in source.best(1).iter().enumerate() {
                    let best =
                        |side: &[PriceLevel]| side.first().map_or(Value::Null, |it| json!(it.lots));
                    let lots = [&tops[index]["bid"]["lots"], &tops[index]["ask"]["lots"]];
                    assert_eq!(lots, [&best(bids), &best(asks)], "seed {seed}, round {round}");
                    let own = source.data.statistics(1 + index as u16).unwrap();
                    assert_eq!(last[index]["volume"], json!(own.volume), "seed {seed}");
                }
            }
            assert_eq!(rebuilt.snapshots, ["start", "start"], "seed {seed}");
            rebuilt.deltas
        });
    }
    assert!(deltas > 1000, "{deltas}: otherwise this shows little");
}

/// For a client that reads nothing no events are made, however much happens, and all other clients are answered. When
/// it reads again, a snapshot replaces the missed events, and an event gives the number of missing trades.
#[test]
fn a_slow_stream_is_conflated() {
    runtime().block_on(async {
        let mut source = Source::new(7, 1 << 16, settings());
        (0..200).for_each(|_| source.step());
        let target = "/market/stream?symbol=AAPL,MSFT&kind=levels,trades&depth=40";
        let mut slow = Client::ask(&source, target, 512, [127, 0, 0, 1]).await;
        sleep(INTERVAL).await;
        let events_before = source.figure("events");
        for _ in 0..30 {
            (0..200).for_each(|_| source.step());
            sleep(INTERVAL).await;
            assert_eq!(get(&source, "/market/AAPL/top").await.0, 200);
        }
        // As many events as fit into the connection.
        assert!(source.figure("events") - events_before < 100, "{}", source.figure("events"));
        let mut rebuilt = Rebuilt::default();
        let mut missed = 0;
        for _ in 0..5 {
            slow.read().await;
            sleep(INTERVAL).await;
        }
        let mut traded = 0;
        for event in slow.events() {
            rebuilt.take(&event);
            traded += u64::from(event.0 == "trade");
            if event.0 == "gap" {
                missed += event.1["missed"].as_u64().unwrap();
            }
        }
        assert_eq!(rebuilt.sides(), source.best(40));
        assert!(rebuilt.snapshots.contains(&"behind".to_owned()), "{:?}", rebuilt.snapshots);
        assert!(missed > 0 && traded > 0, "{missed} {traded}");
        assert_eq!((source.figure("conflated"), source.figure("slow_closed")), (1, 0));
    });
}

/// A client that takes nothing for too long is closed, and its place is free again.
#[test]
fn a_stream_that_takes_nothing_is_closed() {
    runtime().block_on(async {
        let settings =
            DerivedDataConfig { slow_client_timeout: Span(Duration::from_secs(5)), ..settings() };
        let mut source = Source::new(8, 1 << 16, settings);
        let target = "/market/stream?symbol=AAPL,MSFT&kind=levels&depth=40";
        let slow = Client::ask(&source, target, 512, [127, 0, 0, 1]).await;
        let mut quick = Client::ask(&source, target, 1 << 16, [127, 0, 0, 1]).await;
        for _ in 0..100 {
            (0..50).for_each(|_| source.step());
            sleep(INTERVAL).await;
            quick.read().await;
        }
        slow.ended.await.unwrap();
        assert_eq!((source.figure("slow_closed"), source.figure("streams")), (1, 2));
        assert!(!quick.ended.is_finished(), "it outlives the time of a question");
        assert_eq!(source.figure("streams_open"), 1);
        let mut rebuilt = Rebuilt::default();
        quick.events().iter().for_each(|event| rebuilt.take(event));
        assert_eq!(rebuilt.sides(), source.best(40));
    });
}

/// The number of streams is bounded, in total and for each address; a returned place is free.
#[test]
fn streams_have_bounds() {
    runtime().block_on(async {
        let settings =
            DerivedDataConfig { streams_max: 3, streams_per_address_max: 2, ..settings() };
        let mut source = Source::new(9, 4096, settings);
        source.step();
        let target = "/market/stream?symbol=AAPL";
        let mut open = Vec::new();
        for _ in 0..2 {
            open.push(Client::ask(&source, target, 4096, [10, 0, 0, 1]).await);
        }
        sleep(INTERVAL).await;
        let refused = async |peer| {
            let mut client = Client::ask(&source, target, 4096, peer).await;
            sleep(INTERVAL).await;
            client.read().await;
            client.text
        };
        let text = refused([10, 0, 0, 1]).await;
        assert!(text.starts_with("HTTP/1.0 503") && text.contains("from one address"), "{text}");
        open.push(Client::ask(&source, target, 4096, [10, 0, 0, 2]).await);
        sleep(INTERVAL).await;
        let text = refused([10, 0, 0, 3]).await;
        assert!(text.contains("too_many_streams") && text.contains("in all"), "{text}");
        assert_eq!((source.figure("streams_refused"), source.figure("streams_open")), (2, 3));
        // Its client leaves; the next event, or silence, shows it.
        drop(open.remove(0).stream);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(source.figure("streams_open"), 2);
        assert!(refused([10, 0, 0, 3]).await.contains("200 OK"));
    });
}

/// A mirror that was lapped gets the whole state again; the stream says so, and continues with the present state.
#[test]
fn what_was_missed_is_repeated() {
    runtime().block_on(async {
        let mut source = Source::new(10, 256, settings());
        (0..50).for_each(|_| source.step());
        let target = "/market/stream?symbol=AAPL,MSFT&kind=levels,trades&depth=40";
        let mut client = Client::ask(&source, target, 1 << 16, [127, 0, 0, 1]).await;
        sleep(INTERVAL).await;
        client.read().await;
        // More updates than the ring holds, in one turn.
        (0..5000).for_each(|_| source.step());
        for _ in 0..3 {
            sleep(INTERVAL).await;
            source.repeat();
            client.read().await;
        }
        let mut rebuilt = Rebuilt::default();
        let events = client.events();
        events.iter().for_each(|event| rebuilt.take(event));
        assert_eq!(rebuilt.snapshots, ["start", "start", "repeated", "repeated"]);
        assert_eq!(rebuilt.sides(), source.best(40));
        assert!(events.iter().any(|(name, _)| name == "gap"));
        assert!(source.figure("updates_missed") > 0);
    });
}

/// Answers have prices as decimal strings and lots as numbers, with the message after which they hold.
#[test]
fn pages_have_what_is() {
    runtime().block_on(async {
        let mut source = Source::new(11, 4096, settings());
        source.add(1, true, 1_499_900, 300);
        source.add(1, true, 1_499_900, 200);
        source.add(1, true, 1_499_800, 50);
        source.add(1, false, 1_500_150, 70);
        source.execute(3, 30);
        let (status, top) = get(&source, "/market/AAPL/top").await;
        let bid = json!({ "price": "149.9900", "lots": 500, "orders": 2 });
        let ask = json!({ "price": "150.0150", "lots": 40, "orders": 1 });
        assert_eq!((status, &top["bid"], &top["ask"]), (200, &bid, &ask));
        assert_eq!((&top["sequence"], &top["symbol"]), (&json!(7), &json!("AAPL")));
        let (_, levels) = get(&source, "/market/AAPL/levels?depth=1").await;
        assert_eq!((&levels["bids"], &levels["asks"]), (&json!([bid]), &json!([ask])));
        let (_, levels) = get(&source, "/market/AAPL/levels").await;
        assert_eq!(levels["bids"][1]["price"], "149.9800");
        let (_, trades) = get(&source, "/market/AAPL/trades").await;
        let trade = json!({
            "symbol": "AAPL", "sequence": 7, "kind": "continuous", "match_number": 6,
            "price": "150.0150", "lots": 30, "time_ns": NOW_NS,
        });
        assert_eq!(trades["trades"], json!([trade]));
        let (_, statistics) = get(&source, "/market/AAPL/statistics").await;
        let price = DecimalText { units: 1_500_150, decimals: PRICE_DECIMALS }.to_string();
        assert_eq!(
            (&statistics["open"], &statistics["day"]),
            (&json!(price), &json!("2026-11-23"))
        );
        assert_eq!((&statistics["volume"], &statistics["trades"]), (&json!(30), &json!(1)));
        let (_, empty) = get(&source, "/market/MSFT/statistics").await;
        assert_eq!((&empty["last"], &empty["volume"]), (&Value::Null, &json!(0)));
        let (_, all) = get(&source, "/market").await;
        assert_eq!(all["instruments"][1]["symbol"], "MSFT");
    });
}

/// An invalid query is refused with its reason.
#[test]
fn wrong_questions_are_named() {
    runtime().block_on(async {
        let source = Source::new(12, 4096, settings());
        let many = (0..65).map(|number| format!("S{number}")).collect::<Vec<_>>().join(",");
        for (target, status, reason, what) in [
            ("/market/NONE/top", 404, "unknown_symbol", "\"NONE\""),
            ("/market/AAPL", 404, "unknown_path", "/market/AAPL"),
            ("/market/AAPL/book", 404, "unknown_path", "levels"),
            ("/market/AAPL/top/1", 404, "unknown_path", "top"),
            ("/market/AAPL/levels?depth=0", 400, "bad_query", "1 to 50"),
            ("/market/AAPL/levels?depth=51", 400, "bad_query", "\"51\""),
            ("/market/AAPL/levels?deep=1", 400, "bad_query", "`deep`"),
            ("/market/AAPL/top?depth=1", 400, "bad_query", "`depth`"),
            ("/market/AAPL/trades?last=x", 400, "bad_query", "1 to 1000"),
            ("/market?x=1", 400, "bad_query", "`x`"),
            ("/market/stream", 400, "bad_query", "1 to 64"),
            ("/market/stream?symbol=AAPL,AAPL", 400, "bad_query", "twice"),
            ("/market/stream?symbol=NONE", 400, "bad_query", "\"NONE\""),
            ("/market/stream?symbol=AAPL&kind=book", 400, "bad_query", "\"book\""),
            ("/market/stream?symbol=AAPL&kind=top,top", 400, "bad_query", "twice"),
            ("/market/stream?symbol=AAPL&symbol=MSFT", 400, "bad_request", "twice"),
            (&format!("/market/stream?symbol={many}"), 400, "bad_query", "65"),
        ] {
            let (found, body) = get(&source, target).await;
            assert_eq!((found, &body["reason"]), (status, &json!(reason)), "{target}: {body}");
            assert!(body["error"].as_str().unwrap().contains(what), "{target}: {body}");
        }
        let settings = DerivedDataConfig { depth_max: 1000, ..settings() };
        let wanted = "symbol=A,B,C,D,E&kind=levels&depth=1000";
        let parameters = wanted.split('&').filter_map(|it| it.split_once('='));
        let parameters = parameters.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
        let wrong = Query::read("/stream", &parameters, &settings).unwrap_err();
        assert!(wrong.what.contains("at most 4096 levels"), "{}", wrong.what);
    });
}

/// A query waits for a mirror without data, and is then refused: an empty book would be wrong.
#[test]
fn nothing_is_shown_before_it_is_known() {
    runtime().block_on(async {
        let (source, mut builder) = (Source::new(13, 64, settings()), Builder::new("derived", 64));
        let from = builder.lossy("mirror");
        let (_to, _) = builder.build();
        let mirror = DerivedMirror::new(from, Arc::new(AtomicGauge::new(0)), 16);
        let (pages, _) = pages(mirror, settings());
        let source = Source { pages, ..source };
        let (status, body) = get(&source, "/market/AAPL/top").await;
        assert_eq!((status, &body["reason"]), (503, &json!("not_ready")));
    });
}
