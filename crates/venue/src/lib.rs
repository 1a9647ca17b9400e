//! The exchange as a library: configuration, wiring, stages, recovery, ledger.
//!
//! Start at [`pipeline`] (the rings and the agents they connect), then [`stage`] (the agents between the edges),
//! [`config`] (every setting), [`running`] (a started venue), [`recovery`] (the start on a journal).
//!
//! Invariants: only [`clock`] reads time; order and time are given once, by the sequencer; no reply
//! and no market data leaves before its input is as durable as configured.

#![allow(missing_docs, reason = "no library for others: docs say what a name does not")]

pub mod config;
pub mod clock;
pub mod log;
pub mod stage;
pub mod wiring;
pub mod stage_times;
pub mod layout;
pub mod core;
pub mod delta_streams;
mod gateways;
pub mod pipeline;
pub mod sockets;
pub mod resources;
mod notice_limiter;
pub mod notices;
pub mod running;
pub mod checkpoint;
pub mod recovery;
pub mod snapshot;
pub mod follower;
pub mod reply_files;
pub mod public_state;
pub mod ledger;
pub mod operator;
pub mod admin;
pub mod failure;

pub use running::{Running, start};
