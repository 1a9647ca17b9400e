//! The simulator: a whole venue with its clients, network, disk and clock in one thread, from one
//! seed.
//!
//! Start at [`run`]. `setup` derives configuration and commands from a seed. `world` is the venue and its surroundings,
//! `client` the participants, `subscriber` the readers of market data, `attacker` the hostile clients. `world::audit`
//! checks the properties of the run.
//!
//! Architecture invariant: nothing here reads a clock, a socket or a file; one seed is one run.

mod faults;
mod setup;
mod outcome;
mod client;
mod subscriber;
mod attacker;
mod probe;
mod large_quantities;
mod disk;
mod world;
mod minimise;

pub use faults::{
    ATTACKS, DAMAGED_STARTS, DEFENCES, FAULTS, FaultKind, FaultSet, Hits, KILLED_AFTER,
    LARGE_QUANTITIES, PERTURBATIONS, REPLY_TICKS,
};
pub use minimise::{Minimised, minimise};
pub use outcome::{Counts, Summary, Violation};
pub use world::{Options, REPLY_TICKS_MAX, commands, run};
