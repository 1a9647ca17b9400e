//! Requests for instruments and for the status of the day, over sockets.

use venue::clock::SystemClock;
use wire::fix::Version;

use crate::{
    client::{FixClient, config},
    restarts::{copy, snapshot},
};

/// Instruments of the test, more than one page has.
const COUNT: usize = 120;

fn instruments() -> String {
    (1..=COUNT)
        .map(|number| {
            let phase = if number == 7 { "halted" } else { "continuous" };
            format!(
                "[[instruments]]\nsymbol = \"S{number}\"\nround_lot = {number}\n\
                 [instruments.trading]\nphase = \"{phase}\"\n"
            )
        })
        .collect()
}

/// All symbols of a list, which is sent in several messages.
fn symbols(client: &mut FixClient) -> Vec<String> {
    let mut symbols = Vec::new();
    loop {
        let message = client.read();
        assert!(message.starts_with("35=y|") && message.contains("320=ALL|"), "{message}");
        let named = message.split('|').filter_map(|field| field.strip_prefix("55="));
        symbols.extend(named.map(str::to_owned));
        if message.contains("|893=Y|") {
            return symbols;
        }
    }
}

/// A client gets all instruments and their statuses, also from a venue that was killed and starts from a snapshot.
/// Messages that it missed arrive again by a resend, since they are in the log.
#[test]
fn instruments_and_statuses_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let running =
        venue::start(&config(folder.path(), &instruments()), SystemClock::start()).unwrap();
    let (mut alice, _) = FixClient::log_on(&running, Version::Fix44, "ALICE", 1, "");
    let ask = |alice: &mut FixClient| {
        alice.send("x", "320=ALL|559=4|");
        let expected: Vec<String> = (1..=COUNT).map(|number| format!("S{number}")).collect();
        assert_eq!(symbols(alice), expected);
        alice.send("e", "324=R1|55=S7|263=0|");
        assert!(alice.read().ends_with("|55=S7|336=DAY|326=2|58=halted|"));
        alice.send("e", "324=R2|55=S8|263=0|");
        assert!(alice.read().ends_with("|55=S8|336=DAY|326=17|58=continuous trading|"));
        alice.send("c", "320=R3|321=0|55=S9|");
        let definition = alice.read();
        assert!(definition.ends_with("323=1|55=S9|107=price increment 0.0100|561=9|336=DAY|"));
        alice.send("g", "335=R4|263=0|");
        assert!(alice.read().contains("|340=2|"));
    };
    ask(&mut alice);
    let next = alice.next;

    let dead = tempfile::tempdir().unwrap();
    let files = dead.path().join("journal");
    copy(&folder.path().join("journal"), &files);
    running.stop().unwrap();
    let last = snapshot(&files);

    let running = venue::start(&config(dead.path(), &instruments()), SystemClock::start()).unwrap();
    assert_eq!(running.started()["recovered"]["snapshot"]["sequence"], last);
    let (mut alice, answer) = FixClient::log_on(&running, Version::Fix44, "ALICE", next, "");
    // The answers before, ten messages of the list among them, and those of the session.
    assert!(answer.starts_with("35=A|34=16|"), "{answer}");
    alice.send("2", "7=2|16=11|");
    for number in 2..=11 {
        let again = alice.read();
        assert!(
            again.starts_with(&format!("35=y|34={number}|43=Y|320=ALL|322={number}|")),
            "{again}"
        );
    }
    ask(&mut alice);
    alice.log_out();
    running.stop().unwrap();
}
