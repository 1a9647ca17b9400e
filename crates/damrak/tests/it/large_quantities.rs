//! Orders of more lots than 32 bits can express, from FIX and order files to every view of them: reports, drop copies,
//! market data, ledger, snapshots and tools.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
};

use client::participant::{FixFrames, FixWriter};
use serde_json::{Value, json};
use venue::{Running, clock::SystemClock, config::Config};
use wire::fix::{CompId, Fields, Version};

use crate::admin::{self, rows, settle};
use crate::patience::wait_for;
use crate::whole_venue::{address, config};

/// 2^48 - 1, the most lots of an order.
const MOST: u64 = 281_474_976_710_655;
/// The most lots that the feed shows of an order.
const SHOWN: u64 = u32::MAX as u64;
/// Lots of a trade.
const TRADED: u64 = 5_000_000_000;

/// Bitcoin in lots of 10^-8, two participants by FIX with accounts, and a drop copy of both.
fn venue_of(folder: &Path, store: &str) -> Config {
    let participant = |name: &str, more: &str| {
        format!(
            "[[participants]]\nusername = {name:?}\npassword = \"secret\"\nprotocol = \"fix\"\n\
             firm = \"FIRM\"\n{more}\n"
        )
    };
    let text = format!(
        "[admin]\naddress = \"127.0.0.1:0\"\n[derived_data]\n\
         [order_entry_fix]\naddress = \"127.0.0.1:0\"\n\
         [market_data_fix]\naddress = \"127.0.0.1:0\"\n\
         [snapshots]\ninputs = 5\n\
         [ledger]\nstore = {store:?}\npath = {:?}\ncommit_interval = \"1ms\"\n\
         [[assets]]\nname = \"BTC\"\ndecimals = 8\n\
         [[assets]]\nname = \"USD\"\ndecimals = 2\n\
         [[accounts]]\nname = \"ALICE\"\nopening = {{ USD = \"1000000.00\" }}\n\
         [[accounts]]\nname = \"BOB\"\nopening = {{ BTC = \"2814749.76710655\" }}\n\
         [[instruments]]\nsymbol = \"BTCUSD\"\n\
         money = {{ class = \"cash\", base = \"BTC\", quote = \"USD\", lot = \"0.00000001\", quantity_max = {MOST} }}\n\
         {}{}{}",
        folder.join("ledger"),
        participant("ALICE", "account = \"ALICE\""),
        participant("BOB", "account = \"BOB\""),
        participant("COPY", "drop_copy = { participants = [\"ALICE\", \"BOB\"] }"),
    );
    config(folder, &text)
}

/// A participant by FIX 4.4 that numbers from 1, and all messages that it received.
struct Fix {
    stream: TcpStream,
    writer: FixWriter,
    frames: FixFrames,
    clock: SystemClock,
    messages: Vec<Vec<u8>>,
    /// Messages already examined.
    seen: usize,
}

impl Fix {
    fn log_on(running: &Running, port: &str, name: &str) -> Self {
        let stream = TcpStream::connect(address(running, port)).unwrap();
        stream.set_nonblocking(true).unwrap();
        let id = |name: &str| CompId::new(name).unwrap();
        let writer = FixWriter::new(Version::Fix44, id(name), id("DAMRAK"));
        let (frames, clock) = (FixFrames::default(), SystemClock::start());
        let mut fix = Self { stream, writer, frames, clock, messages: Vec::new(), seen: 0 };
        fix.writer.log_on("secret", true, fix.clock.now_ns());
        fix.hear(&[(35, "A")]);
        fix
    }

    fn send(&mut self, msg_type: &str, fields: &str) {
        self.writer.put(msg_type, self.clock.now_ns(), |builder| {
            builder.fields(fields.replace('|', "\x01").as_bytes());
        });
    }

    fn order(&mut self, id: &str, side: u8, lots: u64, price: &str) {
        let now = "60=20260102-09:30:00";
        let terms = format!("11={id}|21=1|55=BTCUSD|54={side}|38={lots}|40=2|44={price}|{now}|");
        self.send("D", &terms);
    }

    fn turn(&mut self) {
        let sent = self.stream.write(self.writer.outgoing()).unwrap_or(0);
        self.writer.sent(sent);
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.stream.read(&mut bytes) {
            self.frames.receive(&bytes[..count]);
        }
        while let Some(message) = self.frames.take().unwrap() {
            self.messages.push(message.to_vec());
        }
    }

    /// Waits for the next message with these fields.
    fn hear(&mut self, fields: &[(u32, &str)]) {
        let look = |fix: &mut Self| {
            fix.turn();
            let has = |bytes: &Vec<u8>| {
                let mut split = Fields::default();
                let message = split.read(bytes);
                fields.iter().all(|(tag, value)| message.get(*tag) == Some(value.as_bytes()))
            };
            let found = fix.messages[fix.seen..].iter().position(has)?;
            fix.seen += found + 1;
            Some(())
        };
        wait_for(&format!("{fields:?}"), self, look, |fix| {
            let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).replace('\x01', "|");
            fix.messages.iter().map(|bytes| text(bytes) + "\n").collect()
        });
    }

    /// Waits for an execution report: its ExecType, OrderQty, LastQty if there is one, CumQty and LeavesQty.
    fn report(&mut self, exec_type: &str, order: u64, last: Option<u64>, done: u64, open: u64) {
        let numbers = [(38, Some(order)), (32, last), (14, Some(done)), (151, Some(open))];
        let numbers: Vec<_> = numbers
            .iter()
            .filter_map(|(tag, number)| Some((*tag, (*number)?.to_string())))
            .collect();
        let mut fields = vec![(35, "8"), (150, exec_type)];
        fields.extend(numbers.iter().map(|(tag, number)| (*tag, number.as_str())));
        self.hear(&fields);
    }
}

/// Waits until derived data has this value.
fn market(running: &Running, what: &str, pointer: &str, expected: &Value) {
    let ask = || admin::ask(running, &format!("/market/BTCUSD/{what}")).1;
    let look = |_: &mut ()| (ask().pointer(pointer) == Some(expected)).then_some(());
    wait_for(&format!("{what} {pointer} {expected}"), &mut (), look, |()| ask().to_string());
}

/// Every view has all lots of an order and of a trade: reports and drop copies by FIX, accounts and market data by
/// HTTP, market data by FIX, in every store of the ledger, and again after a start from a snapshot. Market data shows
/// the quantity that ITCH shows of the order.
#[test]
fn every_view_has_all_lots() {
    let mut stores = vec!["embedded"];
    if cfg!(feature = "sqlite") {
        stores.push("sqlite");
    }
    for store in stores {
        let folder = tempfile::tempdir().unwrap();
        let config = venue_of(folder.path(), store);
        let mut running = venue::start(&config, SystemClock::start()).unwrap();
        let log_on = |running: &Running, name: &str| Fix::log_on(running, "order_entry_fix", name);
        let [mut alice, mut bob, mut copy] =
            ["ALICE", "BOB", "COPY"].map(|name| log_on(&running, name));
        let mut watcher = Fix::log_on(&running, "market_data_fix", "ALICE");
        watcher.send("V", "262=BOOK|263=1|264=0|265=1|267=2|269=1|269=2|146=1|55=BTCUSD|");
        watcher.hear(&[(35, "W")]);

        // One lot more is refused by name.
        bob.order("S0", 2, MOST + 1, "100");
        bob.hear(&[(35, "8"), (150, "8"), (11, "S0")]);
        bob.order("S1", 2, MOST, "100");
        bob.report("0", MOST, None, 0, MOST);
        copy.report("0", MOST, None, 0, MOST);
        watcher.hear(&[(35, "X"), (269, "1"), (271, &SHOWN.to_string())]);
        alice.order("B1", 1, TRADED, "100");
        alice.report("F", TRADED, Some(TRADED), TRADED, 0);
        bob.report("F", MOST, Some(TRADED), TRADED, MOST - TRADED);
        copy.report("F", TRADED, Some(TRADED), TRADED, 0);
        copy.seen = 0;
        copy.report("F", MOST, Some(TRADED), TRADED, MOST - TRADED);
        watcher.hear(&[(35, "X"), (269, "2"), (271, &TRADED.to_string())]);
        settle(&mut running);

        let check = |running: &Running, executed: u64| {
            let (leaves, orders) = (MOST - executed, rows(running, "/accounts/BOB/orders"));
            let of = |key: &str| orders[0][key].clone();
            assert_eq!((of("quantity"), of("leaves")), (json!(MOST), json!(leaves)), "{store}");
            assert_eq!(of("executed"), json!(executed), "{store}");
            for account in ["ALICE", "BOB"] {
                let fills = rows(running, &format!("/accounts/{account}/fills"));
                let lots: u64 = fills.iter().map(|row| row["quantity"].as_u64().unwrap()).sum();
                assert_eq!(lots, executed, "{store} {fills:?}");
            }
            let amount = |account: &str, nth: usize, key: &str| {
                rows(running, &format!("/accounts/{account}/balances"))[nth][key].clone()
            };
            assert_eq!(amount("ALICE", 0, "available"), executed.to_string());
            assert_eq!(amount("BOB", 0, "reserved"), leaves.to_string());
            let level = json!({ "lots": SHOWN, "orders": 1, "price": "100.0000" });
            market(running, "levels", "/asks", &json!([level]));
        };
        check(&running, TRADED);
        assert_eq!(rows(&running, "/trades")[0]["quantity"], TRADED);
        market(&running, "trades", "/trades/0/lots", &json!(TRADED));
        market(&running, "statistics", "/volume", &json!(TRADED));
        drop((alice, bob, copy, watcher));
        let stopped = running.stop().unwrap();

        // A snapshot has the order, and the state for its further reports.
        let recovered = damrak(folder.path(), &["recover", "journal", "--json"]);
        assert_eq!(recovered["digest"], stopped["digest"], "{stopped}");
        let mut running = venue::start(&config, SystemClock::start()).unwrap();
        let recovered = running.started()["recovered"].clone();
        assert!(recovered["snapshot"]["sequence"].as_u64() > Some(0), "{recovered}");
        assert_eq!(running.started()["changes"], json!([]));
        check(&running, TRADED);
        let [mut alice, mut bob] = ["ALICE", "BOB"].map(|name| log_on(&running, name));
        alice.order("B2", 1, TRADED, "100");
        alice.report("F", TRADED, Some(TRADED), TRADED, 0);
        bob.report("F", MOST, Some(TRADED), 2 * TRADED, MOST - 2 * TRADED);
        settle(&mut running);
        check(&running, 2 * TRADED);
        drop((alice, bob));
        running.stop().unwrap();
    }
}

/// An order that is refused, one that rests and is filled, one that is replaced and reduced, and an iceberg.
const ORDERS: &str = "\
order_id,user_id,action,side,price,qty,new_order_id,tif,minimum_quantity,shown_quantity
1,BOB,place,sell,0.02,2814749.76710655,,,,
2,BOB,place,sell,0.02,2814749.76710656,,,,
1,ALICE,place,buy,0.02,50,,,,
2,ALICE,place,buy,0.02,2814699.76710655,,,,
3,ALICE,place,buy,0.01,100.5,,,,
3,ALICE,replace,,0.01,2000000.00000001,4,,,
4,ALICE,cancel,,,50.00000001,,,,
5,ALICE,place,sell,0.05,100,,,,45
3,BOB,place,buy,0.05,46,,ioc,46,
";

fn damrak(folder: &Path, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_damrak"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {printed}");
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text} {printed}"))
}

/// An order file with such quantities runs in every layout, and its output has all lots: trades, book and balances. Its
/// journal recovers, from a snapshot as well, and its ledger is the same.
#[test]
fn order_files_have_large_quantities() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("orders.csv", ORDERS);
    write(
        "instruments.csv",
        "symbol,base,quote,price_decimals,quantity_decimals,base_decimals,quote_decimals\n\
         BTCUSD,BTC,USD,2,8,8,2\n",
    );
    write(
        "balances.csv",
        &format!("participant,asset,available\nBOB,BTC,{MOST}\nALICE,USD,10000000\n"),
    );
    for layout in ["single", "entry-core", "pipeline"] {
        let results = damrak(
            folder.path(),
            &[
                "run",
                "orders.csv",
                "--instruments",
                "instruments.csv",
                "--balances",
                "balances.csv",
                "--layout",
                layout,
                "--journal",
                layout,
                "--out",
                "out",
                "--json",
            ],
        );
        assert_eq!(results["places"]["reasons"], json!({ "InvalidQuantity": 1 }), "{results}");
        let read = |name: &str| {
            let text = fs::read_to_string(folder.path().join("out").join(name)).unwrap();
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        let rest = MOST - TRADED;
        assert_eq!(
            read("trades.csv"),
            [
                format!("1,1,2,{TRADED}"),
                format!("2,1,2,{rest}"),
                "3,5,5,4500000000".into(),
                "3,5,5,100000000".into(),
            ]
        );
        assert_eq!(read("book.csv"), ["4,ALICE,buy,1,5000000001", "5,ALICE,sell,5,5400000000"]);
        let cost = (2 * TRADED / 100_000_000) + (2 * rest / 100_000_000);
        assert_eq!(
            read("balances.csv"),
            [
                format!("ALICE,BTC,{},5400000000", MOST - 10_000_000_000),
                format!("ALICE,USD,{},50", 10_000_000 - cost - 50 + 230),
                "BOB,BTC,4600000000,0".into(),
                format!("BOB,USD,{},0", cost - 230),
            ]
        );

        let hash = &results["state_hash"];
        assert_eq!(damrak(folder.path(), &["recover", layout, "--json"])["state_hash"], *hash);
        let made = damrak(folder.path(), &["snapshot", "make", layout, "--json"]);
        assert_eq!(made["state_hash"], *hash, "{made}");
        let again = damrak(folder.path(), &["recover", layout, "--json"]);
        assert_eq!((&again["state_hash"], &again["snapshot"]), (hash, &made["sequence"]));
        let ask = |what: &str| {
            let rows = damrak(folder.path(), &["ledger", what, "--journal", layout, "--json"]);
            rows["rows"].as_array().unwrap().clone()
        };
        let lots = |rows: Vec<Value>, key: &str| -> Vec<u64> {
            rows.iter().map(|row| row[key].as_u64().unwrap()).collect()
        };
        let mut fills = lots(ask("fills"), "quantity");
        fills.sort_unstable();
        fills.dedup();
        assert_eq!(fills, [100_000_000, 4_500_000_000, TRADED, rest]);
        assert_eq!(lots(ask("orders"), "leaves"), [5_000_000_001, 5_400_000_000]);
    }
}
