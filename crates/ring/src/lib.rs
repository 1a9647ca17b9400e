//! The lanes between threads: rings with one writer and many readers, and the agents that take
//! turns at them.
//!
//! Start at [`Cursor`], whose two orderings carry everything else; then [`Builder`], which makes a
//! ring, its [`Producer`], its gating [`Consumer`]s and its lappable [`Tap`]s; then [`Agent`] and
//! [`launch`], which put agents on threads. `docs/ring.md` tells the same from further off.
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
//! Architecture invariant: threads meet nowhere else. A slot has one writer and is not changed
//! while a gating reader may look at it. Nothing waits inside a turn: what cannot go on says so as
//! a value. All `unsafe` is in `slots.rs`, but for a hint to the processor in `fetch.rs`.

mod sync;
mod fetch;
mod cursor;
mod latest;
mod slots;
mod ring;
mod producer;
mod consumer;
mod tap;
mod monitor;
mod idle;
mod agent;
#[cfg(not(loom))]
mod failpoint;
#[cfg(loom)]
#[doc(hidden)]
pub mod failpoint;

pub use agent::{Agent, AgentError, AgentFailure, Clock, Group, Runner, Running, launch};
pub use consumer::{Consumer, Flow};
pub use cursor::Cursor;
pub use fetch::fetch;
pub use idle::{Doorbells, IdleStrategy, Neighbors, Parker, ThreadParker, Unparker};
pub use latest::Latest;
pub use monitor::{Monitor, ReaderReport, RingReport};
pub use producer::{Batch, Full, Producer};
pub use ring::Builder;
pub use tap::{Tap, Tapped, WordForm, Words};
