//! The same scenario over every protocol of a venue: the same trades, books and balances.

use std::{collections::BTreeSet, fs, path::Path};

use proof::{
    scenario::ScenarioFault,
    scenario_over::{Played, Protocol, Transport, crossed, run},
};
use wire::ouch::{Outbound, decode_outbound};

/// Plays a scenario over protocols that can express it; all have the same outcome.
fn check(scenario: &str, protocols: &[Protocol]) -> Played {
    let played = protocols.iter().map(|protocol| {
        run(scenario, *protocol, Transport::Memory)
            .unwrap_or_else(|failure| panic!("line {failure}\nin: {scenario}"))
    });
    let played: Vec<_> = played.collect();
    assert!(played.windows(2).all(|pair| pair[0] == pair[1]), "{played:?}");
    played[0]
}

const FIX: [Protocol; 3] = [Protocol::Fix42, Protocol::Fix44, Protocol::Fix50Sp1];
/// The protocols that carry OUCH 5.0.
const OUCH: [Protocol; 3] = [Protocol::SoupBinTcp, Protocol::Udp, Protocol::Sluice];

/// The scenarios of the docs, over each protocol that has words for them.
#[test]
fn the_scenarios_of_the_docs_lead_to_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios");
    for (name, protocols, trades) in [
        ("halt", &Protocol::ALL[..], 1),
        ("iceberg", &[&OUCH[..], &FIX].concat(), 2),
        ("kill_switch", &Protocol::ALL, 0),
        ("money", &Protocol::ALL, 1),
        ("partial_fill", &Protocol::ALL, 3),
        ("stop", &FIX, 3),
    ] {
        let text = fs::read_to_string(folder.join(format!("{name}.scenario"))).unwrap();
        assert_eq!(check(&text, protocols).trades, trades, "{name}");
    }
    // FIX itself refuses 2^48 lots, so the engine has nothing to reject.
    let text = fs::read_to_string(folder.join("large_quantities.scenario")).unwrap();
    let said: Vec<_> = text.lines().filter(|line| !line.contains("rejected")).collect();
    assert_eq!(said.len() + 1, text.lines().count());
    assert_eq!(check(&said.join("\n"), &FIX).trades, 2);
}

/// An order's life: it is accepted, filled in part, replaced, filled, canceled, rejected, expires.
#[test]
fn an_order_lives_the_same_life_over_every_protocol() {
    let life = "
        sell A1 10 @ 100 capacity P         => accepted, booked 10 @ 100
        buy B1 4 @ 100                      => accepted, trade A1 B1 4 @ 100
        replace A1 by A2 12 @ 101           => replaced A1 by A2 sell 8 @ 101 in place
        buy B2 3 @ 101 ioc                  => accepted, trade A2 B2 3 @ 101
        buy B4 2 @ 101 ioc                  => accepted, trade A2 B4 2 @ 101
        sell C1 5 @ 102 hidden              => accepted, booked 5 @ 102 hidden
        sell C2 5 @ 103 post-only           => accepted, booked 5 @ 103
        buy B5 1 @ 90 until 50              => accepted until 50, booked 1 @ 90
        cancel A2                           => canceled A2 3
        cancel A2
        replace A2 by A3 5 @ 100
        sell A4 7 @ 110 of NOSUCH           => rejected A4 InvalidSymbol
        buy A5 7 @ 90 of MSFT minimum 3     => accepted
        time 60                             => canceled B5 1 expired";
    let played = check(life, &Protocol::ALL);
    assert_eq!(played.trades, 3);
    for protocol in Protocol::ALL {
        assert_eq!(run(life, protocol, Transport::Loopback).as_ref(), Ok(&played), "{protocol:?}");
    }
    let with_logins = Protocol::ALL.into_iter().filter(|it| *it != Protocol::Udp);
    let with_logins: Vec<_> = with_logins.collect();
    let cut = "\n        cut-off C => canceled C1 5 supervisory, canceled C2 5 supervisory";
    let cut_off = check(&format!("{life}{cut}"), &with_logins);
    assert_eq!(cut_off.trades_hash, played.trades_hash);
    assert_ne!(cut_off.state_hash, played.state_hash);
}

/// A request that only one protocol can express succeeds over it, and is a fault of its line over the other.
#[test]
fn a_line_without_words_names_itself() {
    let kill = "
        sell A1 4 @ 100                     => accepted, booked 4 @ 100
        buy B1 9 @ 100 fok                  => accepted, canceled B1 9 ioc";
    check(kill, &FIX);
    let failure = run(kill, Protocol::Udp, Transport::Memory).unwrap_err();
    assert_eq!(failure.line, 3);
    assert_eq!(failure.fault, ScenarioFault::Unreadable("OUCH 5.0 has no message for this".into()));
    let large = "
        terms AAPL none max 281474976710655 => terms of AAPL
        sell A1 4294967295 @ 100            => accepted, booked 4294967295 @ 100
        sell A2 4294967296 @ 100            => accepted, booked 4294967296 @ 100";
    check(large, &FIX);
    for protocol in OUCH.into_iter().chain([Protocol::Ouch42]) {
        let failure = run(large, protocol, Transport::Memory).unwrap_err();
        assert_eq!(failure.line, 4, "{protocol:?}");
        let words = if protocol == Protocol::Ouch42 { "OUCH 4.2" } else { "OUCH 5.0" };
        let expected = format!("{words} has no message for this");
        assert_eq!(failure.fault, ScenarioFault::Unreadable(expected));
    }
    let market = "
        sell A1 4 @ 100                     => accepted, booked 4 @ 100
        buy B1 2 @ market                   => accepted, trade A1 B1 2 @ 100";
    check(market, &[&OUCH[..], &FIX].concat());
    let failure = run(market, Protocol::Ouch42, Transport::Memory).unwrap_err();
    assert_eq!(failure.fault, ScenarioFault::Unreadable("OUCH 4.2 has no message for this".into()));
    let modify = "
        sell A1 4 @ 100                     => accepted, booked 4 @ 100
        modify A1 short to 3                => modified A1 short 1 leaving 3";
    check(modify, &[&OUCH[..], &[Protocol::Ouch42]].concat());
    let failure = run(modify, Protocol::Fix44, Transport::Memory).unwrap_err();
    assert_eq!(failure.fault, ScenarioFault::Unreadable("FIX.4.4 has no message for this".into()));
}

/// Every message and every reject reason of OUCH 5.0 crosses a socket. A Cancel Pending and a Cancel Reject answer
/// a request in the midst of an auction, which no line of a scenario can be.
#[test]
fn every_message_and_reason_of_ouch_crosses_a_socket() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios/ouch.scenario");
    let text = fs::read_to_string(path).unwrap();
    let played = |transport| {
        crossed(&text, Protocol::SoupBinTcp, transport)
            .unwrap_or_else(|failure| panic!("line {failure}"))
    };
    let (over_sockets, messages) = played(Transport::Loopback);
    assert_eq!(played(Transport::Memory), (over_sockets, messages.clone()));
    let types = |from_venue| -> String {
        let of_side = messages.iter().filter(|it| it.from_venue == from_venue);
        of_side.map(|it| char::from(it.bytes[0])).collect::<BTreeSet<_>>().into_iter().collect()
    };
    assert_eq!(types(false), "CDEMOQUX");
    assert_eq!(types(true), "ABCDEGJKMQRSTUX");
    let reasons: BTreeSet<u16> = messages
        .iter()
        .filter_map(|it| match decode_outbound(&it.bytes) {
            Ok(Outbound::Rejected(rejected, _)) if it.from_venue => Some(rejected.reason.get()),
            _ => None,
        })
        .collect();
    let document = include_str!("../../../../docs/wire/ouch.md");
    let in_document: BTreeSet<u16> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| 0x")?.split_once(' '))
        .map(|(code, _)| u16::from_str_radix(code, 16).unwrap())
        .collect();
    assert_eq!(reasons, in_document);
}
