//! The rules of docs/rules.md as scenarios, and the invariants of the state after each command.

// The language of the scenarios lives in `proof`, where users have it too. Compiled from here, these
// tests need nothing above the engine.
#[expect(dead_code, reason = "the steps of a scenario are for gateways; these tests have none")]
#[path = "../../../proof/src/scenario.rs"]
mod scenario;
#[path = "../../../proof/src/scenario_words.rs"]
mod scenario_words;
#[path = "../../../proof/src/scenario_commands.rs"]
mod scenario_commands;
#[path = "../../../proof/src/scenario_events.rs"]
mod scenario_events;
#[path = "../../../proof/src/scenario_money.rs"]
mod scenario_money;
#[path = "../../../proof/src/engine_checks.rs"]
mod engine_checks;

mod day;
mod numbers;
mod acceptance;
mod matching;
mod cancel;
mod modify;
mod replace;
mod mass_cancel;
mod entry_switch;
mod disconnect;
mod self_match;
mod conditions;
mod hidden;
mod types;
mod waiting;
mod links;
mod pegs;
mod lives;
mod many_cancels;
mod money;
mod money_checks;
mod reserve;
mod pro_rata;
mod minimum_quantity;
mod phases;
mod auctions;
mod auction_steps;
mod trades_in_steps;
mod bands;
mod venue;
mod operators;
mod snapshot;
mod limits;
mod large_quantities;
mod state;
mod rulebook;
