//! The whole exchange: configuration, wiring, commands.
//!
//! Start at [`pipeline`] (who hands what to whom), then [`stage`] (what happens between the
//! edges), [`config`] (every setting), [`command`] (what a user can ask for), [`sim`] (the whole
//! venue in one thread, from a seed), [`orders`] (an order file through the whole pipeline),
//! [`mod@bench`] (what an operation costs).
//!
//! Architecture invariant: only [`clock`] reads time; order and time are given once, by the
//! sequencer; no reply and no market data leaves before its input is as durable as configured.

pub mod config;
pub mod clock;
pub mod log;
pub mod stage;
pub mod neighbors;
pub mod pipeline;
pub mod sockets;
pub mod venue;
pub mod note;
pub mod plain;
pub mod recovery;
pub mod remote;
pub mod snapshot;
pub mod shadow;
pub mod ledger;
pub mod admin;
pub mod audit;
pub mod failure;
pub mod command;
pub mod sim;
pub mod orders;
pub mod bench;
