//! Rings between threads, with one writer and many readers, and the agents that work at them.
//!
//! Start at [`Cursor`], on whose two orderings everything else is built; then [`Builder`], which makes a
//! ring with its [`Producer`], its [`Consumer`]s, which hold the writer back, and its
//! [`LossyConsumer`]s, which do not; then [`Agent`] and [`launch`], which put agents on threads.
//! `docs/ring.md` describes the design.
//!
//! The main entry points are [`Producer::try_publish`] and [`Consumer::poll`]. The others are for
//! special needs: [`Producer::batch`] publishes several values together, [`Batch::push_with`] makes a
//! value in its slot, [`Consumer::drain`] is a `poll` that consumes every value, and
//! [`Consumer::poll_batch`] hands out several values together.
//!
//! ```
//! use ring::{Builder, Flow};
//!
//! let mut builder = Builder::new("numbers", 8);
//! let mut consumer = builder.gating("sum");
//! let (mut producer, monitor) = builder.build();
//!
//! producer.try_publish(20_u64).unwrap();
//! producer.try_publish(22).unwrap();
//!
//! let mut sum = 0;
//! consumer.poll(16, |number, _end_of_batch| {
//!     sum += number;
//!     Flow::Continue
//! });
//! assert_eq!(sum, 42);
//! assert_eq!(monitor.read().high_water, 2);
//! ```
//!
//! Architecture invariant: a slot has one writer and does not change while a gating reader may read
//! it. No call waits inside a turn: its result reports whether it could proceed. Unsafe code is in
//! `slots.rs`, and one hint to the processor in `fetch.rs`.

mod sync;
mod fetch;
mod cursor;
mod gauge;
mod slots;
mod ring;
mod producer;
mod consumer;
mod lossy;
mod monitor;
mod idle;
mod agent;
#[cfg(not(loom))]
mod failpoint;
#[cfg(loom)]
#[doc(hidden)]
pub mod failpoint;

pub use agent::{
    Agent, AgentError, AgentFailure, Clock, Group, Runner, RunningAgents, launch, take_agent,
};
pub use consumer::{Consumer, Flow, Values};
pub use cursor::Cursor;
pub use fetch::fetch;
pub use gauge::AtomicGauge;
pub use idle::{Doorbells, IdleStrategy, Parker, ThreadParker, Unparker, WakeTargets};
pub use lossy::{LossyConsumer, LossyPoll, WordForm, Words};
pub use monitor::{Monitor, ReaderReport, RingReport};
pub use producer::{Batch, Full, Producer};
pub use ring::Builder;
