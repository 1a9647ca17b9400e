//! Command intake: session, checks, order class, and the path into the book.
//!
//! Invariant: a request that is rejected here changes nothing but its used number.

pub(crate) mod batch;
pub(crate) mod cancel;
pub(crate) mod cancel_line;
pub(crate) mod check;
pub(crate) mod classify;
pub(crate) mod client_order_index;
pub(crate) mod enter;
pub(crate) mod name_index;
pub(crate) mod pending_cancels;
pub(crate) mod plain;
pub(crate) mod session;
mod session_requests;
mod setup;
pub(crate) mod trading_day;
