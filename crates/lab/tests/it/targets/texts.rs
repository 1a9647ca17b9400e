//! Texts that people and programs write: the configuration, order files, scenarios, operators' requests.

use std::io::Cursor;

use engine::Engine;
use lab::order_file::{BalanceFile, InstrumentTable, OrderFile};
use market::SessionId;
use proof::scenario;
use venue::{
    config::Config,
    operator::{Directory, OperatorRequest},
    recovery,
};

use super::recorded::recorded;

/// Any text is a configuration or an error, and one that is accepted sets up a venue or is refused
/// with the reason.
pub fn configuration(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match Config::parse(text, "damrak.toml") {
        Ok(config) => drop(recovery::bootstrap(&config, &Engine::new())),
        Err(failure) => assert!(!failure.to_string().is_empty()),
    }
}

/// Any bytes are a file of orders, rows and then an error, or an error; never more rows than lines.
pub fn order_file(bytes: &[u8]) {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    // A gzipped file is longer than its bytes.
    let rows_max = if bytes.starts_with(&[0x1F, 0x8B]) { usize::MAX } else { lines };
    let reader = || Cursor::new(bytes.to_vec());
    let mut rows = 0;
    if let Ok(mut file) = OrderFile::from_reader("o.csv", reader(), InstrumentTable::default()) {
        while let Ok(Some(_)) = file.next_participant() {
            rows += 1;
            let _ = file.command(SessionId(7));
        }
    }
    assert!(rows <= rows_max);
    let mut balances = 0;
    if let Ok(mut file) = BalanceFile::from_reader("b.csv", reader()) {
        while let Ok(Some(_)) = file.next_balance() {
            balances += 1;
        }
    }
    assert!(balances <= rows_max);
}

/// Any text is a scenario that plays, or an error with its line; the engine agrees with itself.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Err(failure) = scenario::run(text, &mut |_, _, _| {}) {
        assert!(failure.line <= text.lines().count(), "{failure}");
    }
}

/// Any body of a request is an operator's command or an error, and a command is read back from its
/// own text.
pub fn operator_request(bytes: &[u8]) {
    let Ok(request) = serde_json::from_slice::<OperatorRequest>(bytes) else { return };
    let text = serde_json::to_string(&request).expect("a request can be written");
    let again: OperatorRequest = serde_json::from_str(&text).expect("what was written is read");
    assert_eq!(format!("{request:?}"), format!("{again:?}"));
    let _ = request.command.action(&Directory::of(&recorded().engine));
}
