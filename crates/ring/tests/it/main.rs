//! The ring against a plain model, under real threads, and under loom; the agents on one thread
//! and on many.

#[cfg(not(loom))]
mod model;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod agents;
#[cfg(loom)]
mod loom;
