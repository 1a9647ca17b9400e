//! The simulator: a whole venue with its clients, network, disk and clock in one thread, from one
//! seed.
//!
//! Start at [`run`]. `world` is the venue and what surrounds it, `client` those who trade, `attacker`
//! those who do harm; what must hold when all is said is [`crate::audit`].
//!
//! Architecture invariant: nothing here reads a clock, a socket or a file; one seed is one run.

mod faults;
mod client;
mod attacker;
mod probe;
mod disk;
mod world;
mod minimise;

pub use faults::{
    ATTACKS, DAMAGED_STARTS, DEFENCES, FAULTS, FaultKind, FaultSet, Hits, KILLED_AFTER,
    PERTURBATIONS, REPLY_TICKS,
};
pub use minimise::{Minimised, minimise};
pub use world::{Counts, Options, REPLY_TICKS_MAX, Summary, Violation, commands, run};
