//! What the venue itself does to instruments, to orders, and to trades that are over; and who told it to.
//!
//! Invariant: a command that is declined has changed nothing.

pub(crate) mod requests;
pub(crate) mod trades;
pub(crate) mod venue_commands;
