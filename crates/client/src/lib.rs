//! The clients of a venue: participants that enter orders, and subscribers that rebuild books from the feed.
//!
//! Start at [`participant`] (OUCH 5.0 over TCP and UDP) or [`subscriber`] (ITCH 5.0, gaps filled);
//! [`recording`] reads and writes recordings of the feed.
//!
//! Invariant: a client depends on the wire only, never on the venue behind it.

pub mod participant;
pub mod recording;
pub mod subscriber;
