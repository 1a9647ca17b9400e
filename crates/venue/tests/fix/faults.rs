//! Faults that operators inject, as the clients of a venue see them.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

use venue::{Running, clock::SystemClock};
use wire::fix::Version;

use crate::client::{FixClient, config};

/// Requests faults by the operators' socket; returns the status and the body of the answer.
fn inject(running: &Running, body: &str) -> (u16, serde_json::Value) {
    let socket = running.started()["operator_socket"].as_str().unwrap();
    let mut stream = UnixStream::connect(socket).unwrap();
    let head = format!(
        "POST /operator/faults HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\nDamrak-Operator: tester\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap())
}

fn order(client: &mut FixClient) -> String {
    let number = client.next;
    client.send("D", &format!("11=O{number}|55=AAPL|54=1|38=10|40=2|44=1|59=0|"));
    client.read()
}

/// A session has the faults that were switched on for it, others have none, and each fault is counted. A message
/// skipped by a gap arrives by a resend, and a disconnected client continues with its numbers.
#[test]
fn a_session_has_the_faults_that_were_injected() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = venue::start(&config(folder.path(), ""), SystemClock::start()).unwrap();
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    let (mut bob, _) = FixClient::log_on(&running, Version::Fix44, "BOB", 1, "");

    // Half of the orders are rejected, and in the journal as such.
    let (status, body) = inject(&running, r#"{"session": "alice", "reject_percent": 50}"#);
    assert_eq!((status, &body["reject_percent"]), (200, &serde_json::json!(50)));
    let reports: Vec<String> = (0..10).map(|_| order(&mut alice)).collect();
    assert_eq!(reports.iter().filter(|it| it.contains("150=8|39=8|")).count(), 5, "{reports:?}");
    assert!(order(&mut bob).contains("150=0|"));
    inject(&running, r#"{"session": "ALICE", "off": true}"#);
    assert!(order(&mut alice).contains("150=0|"));

    // The next message is skipped; the one after it shows the gap, and the client requests it.
    let before = alice.next;
    inject(&running, r#"{"session": "ALICE", "gap": true}"#);
    alice.send("D", "11=GAP|55=AAPL|54=1|38=10|40=2|44=1|59=0|");
    alice.send("1", "112=SEEN|");
    let seen = alice.read();
    assert!(seen.starts_with(&format!("35=0|34={}|112=SEEN|", before + 1)), "{seen}");
    alice.send("2", &format!("7={before}|16={before}|"));
    let again = alice.read();
    assert!(again.starts_with(&format!("35=8|34={before}|43=Y|")), "{again}");
    assert!(again.contains("11=GAP|"), "{again}");

    // Messages to this session arrive later, but not those to others.
    inject(&running, r#"{"session": "ALICE", "delay_ms": 300}"#);
    let clock = SystemClock::start();
    alice.send("1", "112=LATE|");
    bob.send("1", "112=NOW|");
    assert!(bob.read().contains("112=NOW|"));
    assert!(alice.read().contains("112=LATE|"));
    assert!(clock.since_start() >= Duration::from_millis(300));
    inject(&running, r#"{"session": "ALICE", "delay_ms": 0}"#);

    // Its connection is cut, and it goes on with its numbers.
    inject(&running, r#"{"session": "ALICE", "disconnect": true}"#);
    assert_eq!(alice.read(), "closed");
    let next = alice.next;
    let (mut alice, answer) = loop {
        let (alice, answer) = FixClient::log_on(&running, Version::Fix44, "ALICE", next, "");
        if answer != "closed" {
            break (alice, answer);
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert!(answer.starts_with("35=A|"), "{answer}");
    assert!(order(&mut alice).contains("150=0|"));

    let figures = running.status()["order_entry_fix"].clone();
    for (name, count) in
        [("injected_rejects", 5), ("injected_gaps", 1), ("injected_disconnects", 1), ("delayed", 0)]
    {
        assert_eq!(figures[name], count, "{name} in {figures}");
    }
    // An impossible fault is refused with the reason.
    for (body, status, reason) in [
        (r#"{"session": "NOBODY", "gap": true}"#, 404, "unknown_session"),
        (r#"{"session": "ALICE", "delay_ms": 60001}"#, 400, "bad_request"),
        (r#"{"session": "ALICE", "reject_percent": 101}"#, 400, "bad_request"),
        (r#"{"session": "ALICE", "lose": true}"#, 400, "bad_request"),
        (r#"{"session": "ALICE", "delay_ms": 5, "off": true}"#, 400, "bad_request"),
    ] {
        let (found, answer) = inject(&running, body);
        assert_eq!((found, answer["reason"].as_str().unwrap()), (status, reason), "{body}");
    }
    running.stop().unwrap();
}
