//! The matching core as a shared library under the C interface of matching-engine-benchmark, so
//! that anyone can rank it. docs/mebench.md says how to build it and point the benchmark at it.
//!
//! Start at [`participant`], which turns the benchmark's messages into commands and events into
//! its reports; `api` has the structs of its header, `abi` the functions.
//!
//! Architecture invariant: the engine decides everything. Nothing here keeps a book, knows whether
//! an order is live, or looks at a message before its turn.

pub mod api;
pub mod participant;
pub mod abi;
