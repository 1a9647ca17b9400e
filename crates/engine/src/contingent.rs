//! Contingent orders: live outside the book, or tied to a condition while they rest in it.
//!
//! Invariant: the effects of a met condition happen after the command that met it, and before the
//! next.

pub(crate) mod effects;
pub(crate) mod expiry;
pub(crate) mod instructions;
pub(crate) mod lifecycle;
pub(crate) mod linked;
pub(crate) mod minimum_quantity;
pub(crate) mod pegs;
pub(crate) mod stop_book;
pub(crate) mod timers;
