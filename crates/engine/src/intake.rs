//! The entry of a command: session, checks, class, and the way that it takes from there.
//!
//! Invariant: a request that is rejected here has changed nothing but the number that it used up.

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
