//! How an instrument trades: its phase, its bands and limits, and the auctions between phases.
//!
//! Invariant: all trades of an auction have one price.

mod bands;
pub(crate) mod count;
pub(crate) mod phases;
pub(crate) mod steps;
pub(crate) mod trading_status;
pub(crate) mod uncross;
