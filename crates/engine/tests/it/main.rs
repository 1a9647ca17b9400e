//! The rules of docs/rules.md as scenarios, and what holds of the state after each command.

mod scenario;
mod money_words;
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
mod money;
mod money_checks;
mod reserve;
mod snapshot;
mod limits;
mod state;
mod rulebook;
