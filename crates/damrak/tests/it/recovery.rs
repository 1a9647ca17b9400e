//! From a journal and a configuration to the missing commands.

use engine::Engine;
use market::{
    AccountId, AssetId, Command, Event, Input, InstrumentId, MoneyCommand, MoneyEvent, Sequence,
    SessionId, SystemEvent, Text, Timestamp,
};
use venue::{config::Config, recovery};

fn applied(commands: &[Command]) -> Engine {
    let mut engine = Engine::new();
    for (number, command) in commands.iter().enumerate() {
        let (sequence, timestamp) = (Sequence(number as u64 + 1), Timestamp(1));
        engine.apply(&Input { sequence, timestamp, command: *command }, &mut |_| {});
    }
    engine
}

/// A new journal gets all settings of the configuration, and the day begins.
#[test]
fn a_new_journal_gets_everything() {
    let config = Config::default();
    let commands = recovery::bootstrap(&config, &Engine::new()).unwrap().commands;
    assert_eq!(commands[0], Command::System(SystemEvent::StartOfMessages));
    assert_eq!(commands.last(), Some(&Command::System(SystemEvent::StartOfMarketHours)));
    let engine = applied(&commands);
    assert_eq!(engine.instruments().len(), config.instruments.len());
    assert_eq!(recovery::bootstrap(&config, &engine).unwrap().commands, []);
}

/// Additions to the configuration are added to the journal; removed rows stay in the journal.
#[test]
fn an_old_journal_gets_what_is_new() {
    let old = Config::default();
    let engine = applied(&recovery::bootstrap(&old, &Engine::new()).unwrap().commands);
    let mut new = old;
    new.instruments.remove(0);
    new.instruments[0].symbol = "DAMRAK".into();
    let commands = recovery::bootstrap(&new, &engine).unwrap().commands;
    assert!(
        matches!(&commands[..], [Command::AddInstrument(add)] if add.symbol.as_str() == "DAMRAK"),
        "{commands:?}"
    );
}

/// A configuration that contradicts the journal is refused, with the remedy.
#[test]
fn a_contradiction_is_refused() {
    let config = Config::default();
    let engine = applied(&recovery::bootstrap(&config, &Engine::new()).unwrap().commands);
    let mut other = config.clone();
    other.instruments[1].round_lot = 1;
    let failure = recovery::bootstrap(&other, &engine).unwrap_err().to_string();
    assert!(failure.contains("instrument MSFT") && failure.contains("hint:"), "{failure}");
    let mut other = config;
    other.participants[0].firm = venue::config::FirmNames::One("ELSE".into());
    let failure = recovery::bootstrap(&other, &engine).unwrap_err().to_string();
    assert!(failure.contains("participant USER01 has firm FIRM"), "{failure}");
}

const MONEY: &str = "
    assets = [{ name = \"EUR\", decimals = 2 }, { name = \"XYZ\" }]
    [[fees]]
    tier = 0
    maker_ppm = -100
    taker_ppm = 500
    [[fees]]
    tier = 3
    taker_ppm = 200
    [[accounts]]
    name = \"ALICE\"
    fee_tier = 3
    live_orders_max = 10
    opening = { EUR = \"1000.50\" }
    order_notional_max = { EUR = \"500\" }
    [[accounts]]
    name = \"BOB\"
    opening = { XYZ = \"7\" }
    [[participants]]
    username = \"a\"
    password = \"a\"
    firm = \"F\"
    account = \"ALICE\"
    [[participants]]
    username = \"b\"
    password = \"b\"
    firm = \"F\"
    account = \"BOB\"
    [[instruments]]
    symbol = \"XYZ\"
    money = { class = \"cash\", base = \"XYZ\", quote = \"EUR\" }
";

/// Applies commands, none of which may be declined.
fn settle(engine: &mut Engine, commands: &[Command]) {
    for command in commands {
        let (sequence, timestamp) = (engine.sequence().next(), engine.timestamp());
        engine.apply(&Input { sequence, timestamp, command: *command }, &mut |event| {
            let declined = matches!(event, Event::Money(MoneyEvent::Declined(_)));
            assert!(!declined, "{command:?}: {event:?}");
        });
    }
}

/// A new journal gets assets, accounts, fees, terms, limits, opening balances and the accounts of sessions, all before
/// any client can send a request; the next start has nothing to add.
#[test]
fn a_new_journal_gets_money() {
    let config = Config::parse(MONEY, "test").unwrap();
    let mut engine = Engine::new();
    let begun = recovery::bootstrap(&config, &engine).unwrap();
    assert_eq!(begun.changes, [] as [String; 0]);
    assert_eq!(begun.commands.last(), Some(&Command::System(SystemEvent::StartOfMarketHours)));
    settle(&mut engine, &begun.commands);
    let [alice, bob] =
        ["ALICE", "BOB"].map(|name| engine.account_named(&Text::new(name).unwrap()).unwrap());
    assert_eq!((alice.fee_tier, alice.live_orders_max, bob.live_orders_max), (3, 10, 0));
    let balance = |account: AccountId, asset| engine.balance(account, AssetId(asset)).unwrap();
    assert_eq!(balance(alice.account_id, 1).available, 100_050);
    assert_eq!(balance(alice.account_id, 1).order_notional_max, 50_000);
    assert_eq!(balance(bob.account_id, 2).available, 7);
    assert_eq!(engine.account_of(SessionId(1)), Some(alice.account_id));
    assert_eq!(engine.account_of(SessionId(2)), Some(bob.account_id));
    assert_eq!(engine.money_terms(InstrumentId(1)).unwrap().quote_denominator, 100);
    assert_eq!(engine.fees()[0], (-100, 500));
    assert_eq!((engine.fees()[3], engine.fees()[15]), ((0, 200), (-100, 500)));
    let again = recovery::bootstrap(&config, &engine).unwrap();
    assert_eq!((again.commands, again.changes), (vec![], vec![]));
}

/// Settings that differ between file and journal are applied and reported; an opening balance is deposited once, even
/// if a start broke off before it; a setting that cannot change is refused.
#[test]
fn an_old_journal_gets_what_differs_of_money() {
    let config = Config::parse(MONEY, "test").unwrap();
    let mut engine = Engine::new();
    let mut commands = recovery::bootstrap(&config, &engine).unwrap().commands;
    let broken_off =
        commands.iter().position(|it| matches!(it, Command::Money(MoneyCommand::Deposit(_))));
    commands.truncate(broken_off.unwrap());
    settle(&mut engine, &commands);
    let rest = recovery::bootstrap(&config, &engine).unwrap().commands;
    settle(&mut engine, &rest);
    assert_eq!(engine.issued(AssetId(1)), Some(100_050));

    let other = MONEY
        .replace("live_orders_max = 10", "orders_per_second_max = 5")
        .replace("opening = { EUR = \"1000.50\" }", "opening = { EUR = \"9\", XYZ = \"2\" }")
        .replace("taker_ppm = 200", "taker_ppm = 100")
        .replace("account = \"BOB\"", "account = \"ALICE\"");
    let other = Config::parse(&other, "test").unwrap();
    let begun = recovery::bootstrap(&other, &engine).unwrap();
    assert_eq!(
        begun.changes,
        [
            "fees of tier 3: maker 0 and taker 100 millionths, they were 0 and 200",
            "account ALICE: live_orders_max is 0, it was 10",
            "account ALICE: orders_per_second_max is 5, it was 0",
            "participant B: account is ALICE",
        ]
    );
    settle(&mut engine, &begun.commands);
    let issued = [1, 2].map(|asset| engine.issued(AssetId(asset)));
    assert_eq!(issued, [Some(100_050), Some(9)], "EUR was touched before, XYZ was not");
    assert_eq!(recovery::bootstrap(&other, &engine).unwrap().commands, []);

    let decimals = Config::parse(&MONEY.replace("decimals = 2", "decimals = 3"), "test").unwrap();
    let failure = recovery::bootstrap(&decimals, &engine).unwrap_err().to_string();
    assert!(failure.contains("asset EUR has 2 decimals in the journal"), "{failure}");
}
