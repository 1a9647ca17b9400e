//! The matching core as a shared library under the C interface of matching-engine-benchmark, so
//! that anyone can rank it. docs/mebench.md says how to build it and point the benchmark at it.
//!
//! Start at [`book`], which turns the benchmark's messages into orders of the matcher and trades into
//! its reports. `exchange` does so with commands and events of the whole exchange; the library uses it
//! with the feature `exchange`. `api` has the structs of the header, `abi` the functions.
//!
//! Architecture invariant: the engine decides everything. No code here keeps a book, knows whether an
//! order is live, or examines a message before its turn.

pub mod api;
pub mod book;
pub mod exchange;
pub mod abi;

#[cfg(not(feature = "exchange"))]
pub use book::Participant;
#[cfg(feature = "exchange")]
pub use exchange::Participant;
