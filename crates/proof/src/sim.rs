//! The simulator: a whole venue with its clients, network, disk and clock in one thread, from one
//! seed.
//!
//! Start at [`run`]. `world` is the venue and what surrounds it, `client` those who trade; what must
//! hold when all is said is [`crate::audit`].
//!
//! Architecture invariant: nothing here reads a clock, a socket or a file; one seed is one run.

mod faults;
mod client;
mod disk;
mod world;
mod minimise;

pub use faults::{DAMAGED_STARTS, FAULTS, FaultKind, FaultSet, Hits, KILLED_AFTER, PERTURBATIONS};
pub use minimise::{Minimised, minimise};
pub use world::{Counts, Options, Summary, Violation, commands, run};
