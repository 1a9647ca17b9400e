//! Commands of the venue and of its operators: instruments, phases, supervisory cancels, busts.
//!
//! Invariant: a declined command changes nothing.

pub(crate) mod requests;
pub(crate) mod trades;
pub(crate) mod venue_commands;
