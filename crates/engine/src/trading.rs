//! An incoming order meets resting ones: the effects of each match outside the book.
//!
//! Invariant: self-match prevention is decided before lots trade, and money moves with each trade.

pub(crate) mod iceberg;
pub(crate) mod incoming;
pub(crate) mod live;
pub(crate) mod self_match;
pub(crate) mod on_match;
pub(crate) mod in_steps;
pub(crate) mod instrument_queue;
