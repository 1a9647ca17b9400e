//! How an instrument trades: its phase, its bands and limits, and the auctions between phases.
//!
//! Invariant: all trades of an auction have one price.

mod bands;
pub(crate) mod count;
mod lots_by_price;
pub(crate) mod phases;
mod price_search;
pub(crate) mod steps;
pub(crate) mod trading_status;
pub(crate) mod uncross;
