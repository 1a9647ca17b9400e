//! The other side of the market: seeded order flow, a slow and obvious model of the exchange,
//! clients that speak the wire, and the measuring of what they see.
//!
//! Start at [`generator`] (who asks for what), then [`model`] (what must come of it) and [`agreement`]
//! (whether it does), [`client`] and [`feed`] (the two ends of the wire), [`load`] (open-loop
//! measurement). [`wlf`] has the flows by which matching engines are compared, [`orders`] the files in
//! which flows are kept.
//!
//! Architecture invariant: everything random comes from a seed, and time arrives as an argument or
//! through `load::Clock`; latency counts from the scheduled send time, never from the actual one. Only
//! `agreement` has heard of the engine: a model that asked it would agree with anything.

pub mod rng;
pub mod generator;
mod money;
pub mod model;
pub mod agreement;
pub mod wlf;
pub mod orders;
pub mod client;
pub mod feed;
pub mod schedule;
pub mod latency;
pub mod load;
