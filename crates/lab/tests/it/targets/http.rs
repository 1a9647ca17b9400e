//! The admin API by HTTP: heads, bodies, paths and keys, cut and timed at will.
//!
//! Invariant: every client has one answer or none, within the time of a connection, and no command without a key.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use gateway::{DerivedFact, DerivedMirror, DerivedUpdate, PriceLevel};
use ring::{AtomicGauge, Builder, Cursor};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex, split},
    runtime,
    time::{Instant, sleep, timeout},
};
use venue::{
    admin::{CONNECTION_TIME_MAX, MarketPages, Pages, Served},
    clock::SystemClock,
    config::{AdminConfig, Config, DerivedDataConfig},
    operator::Desk,
};

use super::{gateways::Small, script::Script};

const METHODS: [&[u8]; 6] = [b"GET", b"POST", b"HEAD", b"OPTIONS", b"DELETE", b"PRI"];
const PATHS: [&[u8]; 19] = [
    b"/",
    b"/status",
    b"/trades?last=7&before=9",
    b"/accounts/ALICE/orders?all=",
    b"/accounts/%00/balances",
    b"/operator",
    b"/operator/last",
    b"*",
    b"//",
    b"http://127.0.0.1/assets",
    b"/accounts/..%2f../history?last=99999999999999999999",
    b"/assets?a=1&a=2",
    b"/market",
    b"/market/AAPL/levels?depth=50",
    b"/market/AAPL/trades?last=99999999999999999999",
    b"/market/%00/statistics",
    b"/market/stream?symbol=AAPL&kind=top,levels,trades,statistics",
    b"/market/stream?symbol=,,&kind=,&depth=-1",
    b"/market/AAPL/top/..",
];
const HEADERS: [&[u8]; 10] = [
    b"Host: 127.0.0.1\r\n",
    b"Host: example.com\r\n",
    b"Content-Length: 4\r\n",
    b"Content-Length: 18446744073709551616\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Authorization: Bearer guess\r\n",
    b"Damrak-Operator: mallory\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: keep-alive\r\n",
    b"Content-Type: application/json\r\n",
];
const BODIES: [&[u8]; 4] =
    [br#"{"number":1,"command":"stop"}"#, b"0\r\n\r\n", b"4\r\nabcd\r\n0\r\n\r\n", b"null"];

/// The pages of a venue that has an operator and keeps no ledger.
fn pages() -> &'static Pages {
    static PAGES: OnceLock<Pages> = OnceLock::new();
    PAGES.get_or_init(|| {
        // No key is known that has this digest.
        let digest = "0".repeat(64);
        let text = format!("[[admin.operators]]\nname = \"root\"\nkey_sha256 = \"{digest}\"\n");
        let admin: AdminConfig = Config::parse(&text, "damrak.toml").expect("it is sound").admin;
        let small = Small::new(|_| {});
        let journal = Arc::clone(&small.gauges.journal);
        let desk = Desk::new(small.desk, SystemClock::start(), PathBuf::new());
        let market = Some(MarketPages::new(mirror(), DerivedDataConfig::default()));
        Pages::new(
            Served {
                ledger: None,
                durable: Arc::new(Cursor::new(0)),
                journal,
                stage_times: None,
                desk,
                market,
                faults: small.faults,
            },
            &admin,
        )
    })
}

/// Derived data of one instrument, in which nothing happens any more.
fn mirror() -> DerivedMirror {
    let mut builder = Builder::new("derived", 64);
    let from = builder.lossy("mirror");
    let (mut to, _) = builder.build();
    let level = PriceLevel { price: 1_500_000, lots: 300, orders: 2 };
    let facts = [
        DerivedFact::Begin { request: 1 },
        DerivedFact::Instrument { stock_locate: 1, symbol: *b"AAPL    ", trading_state: b'T' },
        DerivedFact::Level { stock_locate: 1, is_bid: true, level },
        DerivedFact::End { request: 1, ordinal: 0 },
    ];
    for fact in facts {
        let published = to.try_publish(DerivedUpdate { number: 9, is_last: true, fact });
        published.expect("nothing holds this ring up");
    }
    DerivedMirror::new(from, Arc::new(AtomicGauge::new(0)), 16)
}

/// The next bytes of a client.
fn part(script: &mut Script<'_>) -> Vec<u8> {
    match script.byte() % 8 {
        0 => script.bytes().to_vec(),
        1 => {
            let method = METHODS[script.below(METHODS.len())];
            let path = PATHS[script.below(PATHS.len())];
            [method, b" ", path, b" HTTP/1.1\r\n"].concat()
        }
        2..5 => HEADERS[script.below(HEADERS.len())].to_vec(),
        5 => b"\r\n".to_vec(),
        6 => BODIES[script.below(BODIES.len())].to_vec(),
        // Longer than a head or a body may be.
        _ => vec![script.byte(); 1 << (script.byte() % 16)],
    }
}

/// Whatever a client sends and when, it has one answer or none, in time, unless that is a stream; a command is never taken.
pub fn http(bytes: &[u8]) {
    let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without sockets");
    let answer = runtime.block_on(async {
        let mut script = Script(bytes);
        let (client, server) = duplex(1 << (6 + script.byte() % 8));
        let began = Instant::now();
        let answered = tokio::spawn(async move {
            pages().answer(server, None).await;
            began.elapsed()
        });
        let (mut from, mut to) = split(client);
        let read = tokio::spawn(async move {
            let mut answer = Vec::new();
            // A connection that the venue ends in the middle has an end too; a stream has none.
            let _ = timeout(2 * CONNECTION_TIME_MAX, from.read_to_end(&mut answer)).await;
            answer
        });
        let script: Vec<u8> = script.0.to_vec();
        let write = tokio::spawn(async move {
            let mut script = Script(&script);
            while !script.is_over() {
                if to.write_all(&part(&mut script)).await.is_err() {
                    break;
                }
                if script.byte() % 4 == 0 {
                    sleep(Duration::from_nanos(script.time_ns())).await;
                }
            }
            // Half of the clients say that this was all, the others stay silent.
            if script.byte() % 2 == 0 {
                let _ = to.shutdown().await;
            }
            to
        });
        let answer = read.await.expect("it reads");
        write.abort();
        let took = answered.await.expect("the venue goes on");
        let is_stream = answer.windows(17).any(|part| part == b"text/event-stream");
        assert!(is_stream || took <= CONNECTION_TIME_MAX, "{took:?}");
        answer
    });
    let Some(rest) = answer.strip_prefix(b"HTTP/1.") else {
        return assert!(answer.is_empty(), "{}", answer.escape_ascii());
    };
    let status = str::from_utf8(&rest[2..5]).expect("three digits");
    let known =
        ["100", "200", "400", "401", "404", "405", "408", "413", "414", "421", "431", "503"];
    assert!(known.contains(&status), "{status}");
    let is_given = answer.windows(13).any(|part| part == br#""result":"don"#);
    assert!(!is_given, "a command was taken: {}", answer.escape_ascii());
}
