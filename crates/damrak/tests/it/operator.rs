//! Commands of operators to a running venue: by `damrak ctl`, by HTTP with a key, and exactly once under kill -9.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use client::participant;
use engine::HeldSetting;
use market::{
    AccountId, AssetId, Event, InstrumentId, Phase, Price, Quantity, SessionId, Side, Symbol,
    TimeInForce, VenueEvent,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use venue::{Running, clock::SystemClock, config::Config, recovery};

use crate::{
    program::{self, Venue, damrak, stderr},
    whole_venue::{Participant, config, limit},
};

const KEY: &str = "a key that nobody guesses";

/// Two participants with accounts, and an operator with a key.
fn settings() -> String {
    let digest = Sha256::digest(KEY).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!(
        "
        [admin]
        address = \"127.0.0.1:0\"
        operators = [{{ name = \"bob\", key_sha256 = \"{digest}\" }}]
        [[assets]]
        name = \"EUR\"
        decimals = 2
        [[assets]]
        name = \"SHR\"
        [[accounts]]
        name = \"ALICE\"
        opening = {{ EUR = \"1000000\", SHR = \"1000\" }}
        [[participants]]
        username = \"user01\"
        password = \"password01\"
        firm = \"FIRM\"
        account = \"ALICE\"
        live_orders_max = 100
        [[participants]]
        username = \"user02\"
        password = \"password02\"
        firm = \"FIRM\"
        [[instruments]]
        symbol = \"AAPL\"
        [[instruments]]
        symbol = \"MSFT\"
        "
    )
}

/// Runs `damrak ctl`; returns its exit code and its answer.
fn ctl(journal: &Path, arguments: &[&str]) -> (Option<i32>, Value, String) {
    let journal = journal.to_str().unwrap();
    let mut all = vec!["ctl", "--json", "--operator", "alice", "--journal", journal];
    all.extend(arguments);
    let output = damrak(&all);
    let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), answer, stderr(&output))
}

/// Sends a request by HTTP; returns its status and its answer.
fn http(running: &Running, request: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
    let address: SocketAddr =
        running.started()["addresses"]["admin"].as_str().unwrap().parse().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let key = key.map_or(String::new(), |key| format!("Authorization: Bearer {key}\r\n"));
    let length = body.len();
    let text =
        format!("{request} HTTP/1.1\r\nHost: {address}\r\n{key}Content-Length: {length}\r\n\r\n");
    stream.write_all((text + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

/// Every command of an operator, each to a running venue, with the effect that participants see.
#[test]
fn commands_by_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let config = config(folder.path(), &settings());
    let running = venue::start(&config, SystemClock::start()).unwrap();
    let mut seller = Participant::login(&running, 1, 1);
    let mut buyer = Participant::login(&running, 2, 1);
    let done = |arguments: &[&str]| {
        let (code, answer, said) = ctl(&journal, arguments);
        assert_eq!((code, &answer["result"]), (Some(0), &json!("done")), "{arguments:?}: {said}");
        answer
    };
    // The first two replies: the start of the day, and the answer.
    seller.send(&limit(1, Side::Sell, 100, 1_500_000));
    seller.hear(2);
    buyer.send(&limit(1, Side::Buy, 40, 1_500_000));
    buyer.hear(3);

    let halted = done(&["halt", "AAPL", "--reason", "T1"]);
    assert_eq!((&halted["number"], &halted["effect"]["phases_changed"]), (&json!(1), &json!(1)));
    buyer.send(&limit(2, Side::Buy, 40, 1_500_000));
    buyer.hear(4);
    assert_eq!(buyer.types(), "SAEJ", "an order is rejected while it is halted");
    let (code, again, _) = ctl(&journal, &["halt", "AAPL", "--reason", "T1", "--number", "1"]);
    assert_eq!((code, &again["repeated"]), (Some(0), &json!(true)));
    assert_eq!(again["sequence"], halted["sequence"]);
    let (code, declined, said) = ctl(&journal, &["halt", "AAPL"]);
    assert_eq!((code, &declined["reason"]), (Some(1), &json!("PhaseNotNext")), "{said}");
    done(&["quote-only", "AAPL"]);
    done(&["resume", "AAPL"]);

    let bust = done(&["bust", "1", "--dry-run"]);
    assert_eq!(bust["dry_run"], true);
    done(&["bust", "1"]);
    buyer.hear(5);
    assert_eq!(buyer.types(), "SAEJB");
    let (code, _, said) = ctl(&journal, &["bust", "1"]);
    assert!(code == Some(1) && said.contains("no such trade"), "{said}");

    let tried = done(&["cancel", "--session", "user01", "--dry-run"]);
    assert_eq!(tried["effect"]["orders_canceled"], 1, "{tried}");
    let canceled = done(&["cancel", "--session", "user01"]);
    assert_eq!(canceled["effect"]["orders_canceled"], 1, "the dry run has left it");

    done(&["limit", "--session", "user02", "live_orders_max", "0"]);
    buyer.send(&limit(3, Side::Buy, 40, 1_500_000));
    buyer.hear(6);
    assert_eq!(buyer.types(), "SAEJBJ");
    done(&["limit", "--account", "ALICE", "order_quantity_max", "50"]);
    let deposit = done(&["deposit", "ALICE", "EUR", "10.50"]);
    assert_eq!(deposit["effect"]["movements"], 1);
    let (code, _, said) = ctl(&journal, &["withdraw", "ALICE", "EUR", "9999999"]);
    assert!(code == Some(1) && said.contains("InsufficientBalance"), "{said}");
    done(&["log-out", "user01"]);
    seller.hear_the_end();
    let mut seller = Participant::login(&running, 1, 1);
    done(&["kill", "--session", "user02"]);
    done(&["revive", "--session", "user02"]);
    done(&["auction", "MSFT", "--release", "3600"]);
    done(&["release", "MSFT"]);
    done(&["configure", "MSFT", "static_band_ppm", "50000"]);
    done(&["halt", "--all", "--reason", "MWC1"]);

    for (arguments, words) in [
        (&["cancel", "--session", "nobody"][..], "there is no session"),
        (&["deposit", "ALICE", "EUR", "1.005"], "more than 2 decimals"),
        (&["bust", "1", "--reason", "mistake"], "erroneous, consent"),
        (&["halt", "AAPL", "--reason", "TOO LONG"], "at most 4"),
    ] {
        let (code, _, said) = ctl(&journal, arguments);
        assert!(code == Some(2) && said.contains(words), "{arguments:?}: {code:?} {said}");
    }
    // A stop ends the sessions, so that clients know that the venue has not failed.
    let stopping = thread::spawn(move || running.stop().unwrap());
    seller.hear_the_end();
    buyer.hear_the_end();
    stopping.join().unwrap();
    let (code, _, said) = ctl(&journal, &["resume", "--all"]);
    assert!(code == Some(3) && said.contains("no venue runs"), "{code:?} {said}");

    // An operator's settings stay at the next start, whatever the file has.
    let running = venue::start(&config, SystemClock::start()).unwrap();
    running.stop().unwrap();
    let state =
        recovery::replay_folder(&journal, &mut |_, _, _| (), &mut |_| ()).unwrap().state.engine;
    assert!(state.is_held(HeldSetting::LiveOrdersMax(SessionId(2))));
    let sessions: Vec<_> = state.sessions().map(|session| session.live_orders_max()).collect();
    assert_eq!(sessions, [100, 0]);
    assert_eq!(state.account(AccountId(1)).unwrap().order_quantity_max, 50);
    assert_eq!(state.phase(InstrumentId(2)), Some(Phase::Halted));
    assert_eq!(state.balance(AccountId(1), AssetId(1)).unwrap().available, 100_001_050);
}

/// By HTTP a command needs the key of an operator, whose name is then in the log. A query needs no key, and without a
/// ledger the answer says so.
#[test]
fn commands_by_http_need_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &settings());
    let running = venue::start(&config, SystemClock::start()).unwrap();
    let (mut seller, mut buyer) =
        (Participant::login(&running, 1, 1), Participant::login(&running, 2, 1));
    seller.send(&limit(1, Side::Sell, 100, 1_500_000));
    seller.hear(2);
    buyer.send(&limit(1, Side::Buy, 40, 1_500_000));
    buyer.hear(3);
    let halt = json!({"command": {"verb": "halt", "instruments": {"symbol": "AAPL"}}});
    for key in [None, Some("another key"), Some("")] {
        let (status, answer) = http(&running, "POST /operator", key, &halt);
        assert_eq!((status, &answer["reason"]), (401, &json!("unauthorized")));
        assert_eq!(http(&running, "GET /operator/last", key, &Value::Null).0, 401);
    }
    let (status, answer) = http(&running, "POST /operator", Some(KEY), &halt);
    assert_eq!((status, &answer["operator"], &answer["number"]), (200, &json!("bob"), &json!(1)));
    let (status, answer) = http(&running, "POST /operator", Some(KEY), &halt);
    assert_eq!((status, &answer["reason"]), (409, &json!("PhaseNotNext")));
    let (_, last) = http(&running, "GET /operator/last", Some(KEY), &Value::Null);
    assert_eq!(last["number"], 2);
    for (nth, command) in [
        json!({"verb": "resume", "instruments": {"symbol": "AAPL"}}),
        json!({"verb": "bust", "trade": 1, "reason": "erroneous"}),
        json!({"verb": "cancel", "orders": {"all": true}}),
        json!({"verb": "limit", "session": "user01", "setting": "live_orders_max", "value": "7"}),
        json!({"verb": "deposit", "account": "ALICE", "asset": "EUR", "amount": "1"}),
        json!({"verb": "kill", "orders": {"account": "ALICE"}}),
        json!({"verb": "revive", "orders": {"account": "ALICE"}}),
        json!({"verb": "log-out", "session": "user01"}),
    ]
    .into_iter()
    .enumerate()
    {
        for repeated in [false, true] {
            let body = json!({"number": 10 + nth, "command": command});
            let (status, answer) = http(&running, "POST /operator", Some(KEY), &body);
            assert_eq!((status, &answer["repeated"]), (200, &json!(repeated)), "{answer}");
            if command["verb"] == "cancel" {
                assert_eq!(answer["effect"]["orders_canceled"], 1, "{answer}");
            }
        }
    }
    // One bust and one cancel, although each was requested twice.
    buyer.hear(4);
    seller.hear_the_end();
    assert_eq!((seller.types().as_str(), buyer.types().as_str()), ("SAEBC", "SAEB"));
    let used = json!({"number": 17, "command": {"verb": "bust", "trade": 1, "reason": "consent"}});
    assert_eq!(http(&running, "POST /operator", Some(KEY), &used).1["reason"], "NumberUsed");
    for wrong in [
        json!({"command": {"verb": "cancel", "orders": {"sesion": "user01", "all": true}}}),
        json!({"command": {"verb": "cancel", "orders": {}}}),
        json!({"command": {"verb": "explode"}}),
        json!({"verb": "halt"}),
        json!([]),
    ] {
        assert_eq!(http(&running, "POST /operator", Some(KEY), &wrong).0, 400, "{wrong}");
    }
    let (status, answer) = http(&running, "GET /accounts", None, &Value::Null);
    assert_eq!((status, &answer["reason"]), (404, &json!("no_ledger")));
    assert_eq!(http(&running, "GET /status", None, &Value::Null).0, 200);
    running.stop().unwrap();
}

/// A venue is killed while a command is on its way; after the restart the command is repeated under its
/// number. It is carried out once: a second deposit would be counted, a second mass cancel would find no
/// order, a second halt, resume or bust would be declined.
#[test]
fn commands_are_carried_out_once_under_kill_9() {
    const ROUNDS: u64 = 24;
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let config = program::config(folder.path(), &settings());
    // Three trades to bust, and orders for three mass cancels.
    let running =
        venue::start(&Config::read(Path::new(&config)).unwrap(), SystemClock::start()).unwrap();
    let (mut seller, mut buyer) =
        (Participant::login(&running, 1, 1), Participant::login(&running, 2, 1));
    seller.send(&limit(1, Side::Sell, 30, 1_500_000));
    seller.hear(2);
    for nth in 1..=3 {
        buyer.send(&limit(nth, Side::Buy, 10, 1_500_000));
    }
    let msft = Symbol::new("MSFT").unwrap();
    let (lots, price) = (Quantity(5), Some(Price(1_000_000)));
    buyer.send(&participant::enter(4, Side::Buy, msft, lots, price, TimeInForce::Day));
    for nth in 5..=6 {
        buyer.send(&limit(nth, Side::Buy, 5, 1_000_000));
    }
    for nth in 7..=9 {
        buyer.send(&limit(nth, Side::Sell, 5, 2_000_000));
    }
    buyer.hear(13);
    running.stop().unwrap();
    let cancels = [(&["--symbol", "MSFT"][..], 1), (&["--side", "buy"], 2), (&["--all"], 3)];
    for round in 1..=ROUNDS {
        let (mut venue, _) = Venue::start(&config, &[]);
        let number = round.to_string();
        let trade = (round / 8 + 1).to_string();
        let (scope, cancel_count) = cancels[(round / 8 % 3) as usize];
        let (command, key, effect) = match round % 8 {
            0 => (vec!["deposit", "ALICE", "EUR", "1"], "movements", 1),
            1 => (vec!["halt", "AAPL"], "phases_changed", 1),
            2 => (vec!["kill", "--session", "user01"], "orders_canceled", 0),
            3 => (vec!["resume", "AAPL"], "phases_changed", 1),
            4 => (
                vec!["limit", "--account", "ALICE", "order_quantity_max", "9"],
                "orders_canceled",
                0,
            ),
            5 => (vec!["revive", "--session", "user01"], "orders_canceled", 0),
            6 => ([&["cancel"], scope].concat(), "orders_canceled", cancel_count),
            _ => (vec!["bust", &trade], "trades", 0),
        };
        let mut asked = vec!["ctl", "--operator", "alice", "--number", &number];
        let place = journal.to_str().unwrap();
        asked.extend(["--journal", place]);
        asked.extend(&command);
        let mut first = Command::new(env!("CARGO_BIN_EXE_damrak")).args(&asked).spawn().unwrap();
        // The kill falls between a moment before the command is sent and one after it is answered.
        thread::sleep(Duration::from_millis(round * 7 % 29));
        venue.child.kill().unwrap();
        venue.child.wait().unwrap();
        let _ = first.wait();
        drop(venue);

        let (venue, _) = Venue::start(&config, &[]);
        let mut again = vec!["--number", &number];
        again.extend(&command);
        for nth in 0..2 {
            let (code, answer, said) = ctl(&journal, &again);
            assert_eq!(code, Some(0), "round {round}: {said}");
            assert!(nth == 0 || answer["repeated"] == true, "{answer}");
            assert_eq!(answer["effect"][key], effect, "{command:?}: {answer}");
        }
        drop(venue);
    }
    let (mut busted, mut canceled) = (Vec::new(), 0);
    let replay = recovery::replay_folder(&journal, &mut |_, _, _| (), &mut |line| {
        line.each(|output| match output.event {
            Event::Venue(VenueEvent::TradeBusted(bust)) => busted.push(bust.trade.trade_id.0),
            Event::Canceled(_) => canceled += 1,
            _ => {}
        })
    });
    let state = replay.unwrap().state.engine;
    let available = state.balance(AccountId(1), AssetId(1)).unwrap().available;
    assert_eq!(available, 100_000_000 + i128::from(ROUNDS / 8) * 100);
    assert_eq!((busted, canceled), (vec![1, 2, 3], 6));
}

/// No signal but SIGTERM, SIGINT and SIGQUIT ends a venue: SIGUSR1 prints figures, SIGUSR2 does nothing, and SIGHUP
/// applies the settings that may change, but none of an invalid configuration.
#[test]
fn signals_do_not_end_a_venue() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let settings = settings();
    let path = program::config(folder.path(), &settings);
    let (mut venue, _) = Venue::start(&path, &[]);
    let pid = venue.child.id().to_string();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    // The figures come after the work requested before them.
    let settled = |venue: &mut Venue| {
        signal("-USR1");
        assert_eq!(venue.next()["event"], "status");
    };
    signal("-USR2");
    settled(&mut venue);
    let name = "name = \"ALICE\"";
    for (more, expected) in [("live_orders_max = 7", 7), ("no_such_key = 1", 7)] {
        program::config(folder.path(), &settings.replace(name, &format!("{name}\n{more}")));
        signal("-HUP");
        settled(&mut venue);
        // The desk takes commands in their order, so this one comes after the reload's.
        let (code, _, said) = ctl(&journal, &["cancel", "--all"]);
        assert_eq!(code, Some(0), "{said}");
        let state =
            recovery::replay_folder(&journal, &mut |_, _, _| (), &mut |_| ()).unwrap().state.engine;
        assert_eq!(state.account(AccountId(1)).unwrap().live_orders_max, expected);
    }
    signal("-QUIT");
    assert_eq!(venue.next()["event"], "stopped");
    assert_eq!(venue.child.wait().unwrap().code(), Some(0));
}
