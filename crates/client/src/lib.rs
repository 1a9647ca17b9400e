//! Both ends of the wire as a client sees them: participants who enter orders, subscribers who
//! rebuild books from the feed.
//!
//! Start at [`participant`] (OUCH 5.0 over TCP and UDP) or [`subscriber`] (ITCH 5.0, gaps filled);
//! [`recording`] has the feed in files.
//!
//! Invariant: a client knows the wire and nothing of the venue behind it.

pub mod participant;
pub mod recording;
pub mod subscriber;
