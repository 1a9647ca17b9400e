//! A venue with money, queried by HTTP while it runs.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use market::Side;
use serde_json::{Value, json};
use venue::{Running, clock::SystemClock};

use crate::patience::wait_for;
use crate::whole_venue::{Participant, config, limit};

const MONEY: &str = "
    admin.address = \"127.0.0.1:0\"
    assets = [{ name = \"EUR\", decimals = 2 }, { name = \"AAPL\" }]
    fees = [{ tier = 0, taker_ppm = 1000 }]
    [[accounts]]
    name = \"ALICE A\"
    live_orders_max = 3
    opening = { EUR = \"100000.50\" }
    [[accounts]]
    name = \"BOB\"
    opening = { AAPL = \"1000\" }
    [[participants]]
    username = \"user01\"
    password = \"password01\"
    firm = \"FIRM\"
    account = \"ALICE A\"
    [[participants]]
    username = \"user02\"
    password = \"password02\"
    firm = \"FIRM\"
    account = \"BOB\"
    [[instruments]]
    symbol = \"AAPL\"
    money = { class = \"cash\", base = \"AAPL\", quote = \"EUR\" }
";

fn address(running: &Running) -> SocketAddr {
    running.started()["addresses"]["admin"].as_str().unwrap().parse().unwrap()
}

/// The answer to these bytes: the status, the head, the body.
fn exchange(running: &Running, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address(running)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

pub(crate) fn ask(running: &Running, target: &str) -> (u16, Value) {
    let (status, head, body) =
        exchange(running, &format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert!(head.to_lowercase().contains(&format!("content-length: {}", body.len())), "{head}");
    (status, serde_json::from_str(&body).unwrap())
}

pub(crate) fn rows(running: &Running, target: &str) -> Vec<Value> {
    let (status, body) = ask(running, target);
    assert_eq!(status, 200, "{body}");
    body["rows"].as_array().unwrap().clone()
}

/// Waits until the ledger has caught up with the journal.
pub(crate) fn settle(running: &mut Running) {
    let look = |running: &mut Running| {
        let last = running.status()["sequence"].as_u64().unwrap();
        let (_, status) = ask(running, "/status");
        let is_there =
            status["ledger"]["behind"] == 0 && status["durable"].as_u64().unwrap() >= last;
        is_there.then_some(())
    };
    wait_for("the ledger", running, look, |running| running.status().to_string());
}

/// Accounts get the configured balances, pay for their trades, and can be queried for all of it, from every store.
#[test]
fn accounts_are_asked_for_while_the_venue_runs() {
    let mut stores = vec!["embedded"];
    if cfg!(feature = "sqlite") {
        stores.push("sqlite");
    }
    for store in stores {
        let folder = tempfile::tempdir().unwrap();
        let ledger = format!(
            "ledger = {{ store = {store:?}, path = {:?}, commit_interval = \"1ms\" }}\n{MONEY}",
            folder.path().join("ledger")
        );
        let config = config(folder.path(), "").with(&ledger);
        let mut running = venue::start(&config, SystemClock::start()).unwrap();
        let mut alice = Participant::login(&running, 1, 1);
        let mut bob = Participant::login(&running, 2, 1);
        bob.send(&limit(1, Side::Sell, 100, 1_500_000));
        bob.hear(2);
        for (nth, quantity) in [40, 30, 30].into_iter().enumerate() {
            alice.send(&limit(nth as u32 + 1, Side::Buy, quantity, 1_500_000));
            alice.hear(3 + 2 * nth);
        }
        alice.send(&limit(4, Side::Buy, 2, 1_000_000));
        alice.hear(8);
        settle(&mut running);

        let balances = rows(&running, "/accounts/ALICE%20A/balances");
        let of = |nth: usize, key: &str| balances[nth][key].clone();
        // 100 × 150.00 paid, 2 × 100.00 held; one in a thousand of 100 lots is paid in lots, rounded
        // up in each of three trades.
        assert_eq!((of(0, "asset"), of(0, "available")), (json!("EUR"), json!("8480050")));
        assert_eq!((of(0, "reserved"), of(1, "available")), (json!("20000"), json!("97")));
        assert_eq!(rows(&running, "/accounts/BOB/balances")[0]["available"], "1500000");
        assert_eq!(rows(&running, "/accounts/-/balances")[0]["available"], "3", "fees");

        let orders = rows(&running, "/accounts/ALICE%20A/orders");
        assert_eq!((orders.len(), &orders[0]["leaves"]), (1, &json!(2)), "{orders:?}");
        assert_eq!(rows(&running, "/accounts/ALICE%20A/orders?all=true").len(), 4);
        assert_eq!(rows(&running, "/accounts/BOB/orders"), [] as [Value; 0]);

        // Page by page, last first, and each once.
        for (what, count) in [("fills", 3), ("history", 14), ("orders?all=true", 4)] {
            let all = rows(&running, &format!("/accounts/ALICE%20A/{what}"));
            let (mut found, mut more) = (Vec::new(), String::new());
            loop {
                let joint = if what.contains('?') { '&' } else { '?' };
                let target = format!("/accounts/ALICE%20A/{what}{joint}last=1{more}");
                let (_, page) = ask(&running, &target);
                found.extend(page["rows"].as_array().unwrap().clone());
                let Some(next) = page["next"].as_str() else { break };
                more = format!("&{next}");
            }
            assert_eq!(found, all, "{store} {what}");
            assert_eq!(found.len(), count, "{what}: {found:?}");
        }
        assert_eq!(rows(&running, "/trades")[0]["quantity"], 30);
        assert_eq!(rows(&running, "/accounts").len(), 2);

        for (target, status, reason) in [
            ("/accounts/CAROL/balances", 404, "unknown_account"),
            ("/accounts/BOB/secrets", 404, "unknown_path"),
            ("/accounts/BOB/fills?last=0", 400, "bad_query"),
            ("/accounts/BOB/fills?last=1001", 400, "bad_query"),
            ("/accounts/BOB/fills?before=x", 400, "bad_query"),
            ("/accounts/BOB/orders?all=perhaps", 400, "bad_query"),
            ("/accounts/BOB/balances?last=1", 400, "bad_query"),
            ("/status?x", 400, "bad_query"),
        ] {
            let (found, body) = ask(&running, target);
            assert_eq!((found, body["reason"].as_str()), (status, Some(reason)), "{target} {body}");
        }
        let (status, head, _) = exchange(&running, "DELETE / HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(status, 421, "another host: {head}");
        let (status, head, _) = exchange(&running, "DELETE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        assert!(status == 405 && head.to_lowercase().contains("allow: get,head"), "{head}");
        let (status, _, body) =
            exchange(&running, "HEAD /status HTTP/1.1\r\nHost: [::1]:1\r\n\r\n");
        assert_eq!((status, body.as_str()), (200, ""));
        assert!(ask(&running, "/").1["ask"].as_array().unwrap().len() > 5);
        drop((alice, bob));
        running.stop().unwrap();

        // Settings that differ in the file are applied and reported, and opening balances are not deposited twice.
        let config = config_changed(folder.path(), &ledger);
        let mut running = venue::start(&config, SystemClock::start()).unwrap();
        let changes = running.started()["changes"].clone();
        assert_eq!(changes, json!(["account ALICE A: live_orders_max is 5, it was 3"]));
        settle(&mut running);
        assert_eq!(rows(&running, "/accounts/ALICE%20A/balances"), balances);
        running.stop().unwrap();
    }
}

fn config_changed(folder: &std::path::Path, ledger: &str) -> venue::config::Config {
    config(folder, "").with(&ledger.replace("live_orders_max = 3", "live_orders_max = 5"))
}

/// Adds settings before the tables of a configuration.
trait With {
    fn with(self, more: &str) -> Self;
}

impl With for venue::config::Config {
    fn with(mut self, more: &str) -> Self {
        let other = Self::parse(more, "test").unwrap();
        self.ledger = other.ledger;
        self.admin = other.admin;
        self.assets = other.assets;
        self.fees = other.fees;
        self.accounts = other.accounts;
        self.participants = other.participants;
        self.instruments = other.instruments;
        self
    }
}
