//! The state as a whole: hash, snapshot, views, invariants.
//!
//! Invariant: nothing here changes the effect of the next command.

pub(crate) mod hash;
pub(crate) mod invariants;
pub(crate) mod snapshot;
pub(crate) mod view;
