//! The proof: a slow and obvious model of the exchange, seeded order flow for it, and a simulator
//! that runs the whole venue in one thread.
//!
//! Start at [`generator`] (seeded commands), then [`model`] (the expected events) and [`agreement`]
//! (the comparison with the engine), [`sim`] (the venue with faults), [`scenario`] (commands and the
//! events they must cause, as text), [`scenario_over`] (the same over a venue's ports), [`audit`] (the replies that
//! clients received against the journal).
//!
//! Invariants: everything random comes from a seed. On the model's side only [`agreement`] knows
//! the engine: a model that asked the engine would agree with any behaviour.

#![allow(missing_docs, reason = "a library for this workspace only")]

pub mod rng;
pub mod generator;
pub mod model;
mod engine_checks;
pub mod agreement;
pub mod audit;
pub mod lossy_link;
pub mod sim;
pub mod scenario;
mod scenario_words;
mod scenario_commands;
mod scenario_events;
mod scenario_money;
pub mod scenario_over;

pub use engine_checks::restored;
