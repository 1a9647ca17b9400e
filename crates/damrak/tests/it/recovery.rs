//! From a journal and a configuration to the commands that are still missing.

use damrak::{config::Config, recovery};
use engine::Engine;
use market::{Command, Input, Sequence, SystemEvent, Timestamp};

fn applied(commands: &[Command]) -> Engine {
    let mut engine = Engine::new();
    for (number, command) in commands.iter().enumerate() {
        let (sequence, timestamp) = (Sequence(number as u64 + 1), Timestamp(1));
        engine.apply(&Input { sequence, timestamp, command: *command }, &mut |_| {});
    }
    engine
}

/// A new journal gets all that the configuration says, and the day begins.
#[test]
fn a_new_journal_gets_everything() {
    let config = Config::default();
    let commands = recovery::bootstrap(&config, &Engine::new()).unwrap();
    assert_eq!(commands[0], Command::System(SystemEvent::StartOfMessages));
    assert_eq!(commands.last(), Some(&Command::System(SystemEvent::StartOfMarketHours)));
    let engine = applied(&commands);
    assert_eq!(engine.instruments().len(), config.instruments.len());
    assert_eq!(recovery::bootstrap(&config, &engine).unwrap(), []);
}

/// What was added to the configuration is added to the journal; what was taken out stays.
#[test]
fn an_old_journal_gets_what_is_new() {
    let old = Config::default();
    let engine = applied(&recovery::bootstrap(&old, &Engine::new()).unwrap());
    let mut new = old;
    new.instruments.remove(0);
    new.instruments[0].symbol = "DAMRAK".into();
    let commands = recovery::bootstrap(&new, &engine).unwrap();
    assert!(
        matches!(&commands[..], [Command::AddInstrument(add)] if add.symbol.as_str() == "DAMRAK"),
        "{commands:?}"
    );
}

/// A configuration that contradicts the journal is refused, with what to do.
#[test]
fn a_contradiction_is_refused() {
    let config = Config::default();
    let engine = applied(&recovery::bootstrap(&config, &Engine::new()).unwrap());
    let mut other = config.clone();
    other.instruments[1].round_lot = 1;
    let failure = recovery::bootstrap(&other, &engine).unwrap_err().to_string();
    assert!(failure.contains("instrument MSFT") && failure.contains("hint:"), "{failure}");
    let mut other = config;
    other.participants[0].firm = "ELSE".into();
    let failure = recovery::bootstrap(&other, &engine).unwrap_err().to_string();
    assert!(failure.contains("participant USER01 has firm FIRM"), "{failure}");
}
