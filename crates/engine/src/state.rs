//! The state as a whole: its hash, its snapshot, what can be seen of it, and what must hold of it.
//!
//! Invariant: nothing here changes what the engine does with the next command.

pub(crate) mod hash;
pub(crate) mod invariants;
pub(crate) mod snapshot;
pub(crate) mod view;
