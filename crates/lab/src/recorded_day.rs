//! A recorded day of an ITCH feed: made into orders, and compared with the feed of a venue that took them.
//!
//! Start at [`DayOrders`], which turns messages into the rows of an order file; [`DayComparison`] reads the day and the
//! venue's feed side by side. docs/recorded-day.md has the treatment of each message.
//!
//! Invariant: memory is bounded by the live orders and instruments of the day, not by its length; whatever the
//! orders cannot repeat is counted by its reason.

mod compare;
mod divergences;
mod setup;
mod to_orders;

pub use compare::{BookDifference, DayComparison, FirstDifference, LineName, OUT_OF_STEP_MAX};
pub use divergences::{Divergence, Divergences, Example, Noted};
pub use setup::{SESSIONS_MAX, participant, write_instruments, write_venue};
pub use to_orders::{DayOrders, RowCounts};

#[cfg(test)]
mod tests;
