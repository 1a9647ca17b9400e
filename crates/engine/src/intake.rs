//! A command comes in: whose it is, what the checks say of it, and which way it goes.
//!
//! Invariant: a command that is refused here has changed nothing but the number it used up.

pub(crate) mod cancel;
pub(crate) mod check;
pub(crate) mod classify;
pub(crate) mod client_order_index;
pub(crate) mod enter;
pub(crate) mod fast_path;
pub(crate) mod name_index;
pub(crate) mod prefetch;
pub(crate) mod session;
mod session_requests;
mod setup;
pub(crate) mod trading_day;
