//! The state as a whole: hash, snapshot, views, invariants.
//!
//! Invariant: nothing here changes what the engine does with the next command.

pub(crate) mod hash;
pub(crate) mod invariants;
pub(crate) mod snapshot;
pub(crate) mod view;
