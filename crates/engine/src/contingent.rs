//! Contingent orders: live outside the book, or tied to a condition while they rest in it.
//!
//! Invariant: what a condition brings about happens after the command that met it, before the next.

pub(crate) mod expiry;
pub(crate) mod instructions;
pub(crate) mod linked;
pub(crate) mod minimum_quantity;
pub(crate) mod pegs;
pub(crate) mod stop_book;
pub(crate) mod timers;
