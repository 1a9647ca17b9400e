//! The wire formats: participants' bytes to commands, outputs to the bytes of replies and feed.
//!
//! Start at [`ouch::command`], which turns a participant's bytes into a [`market::Command`]; then
//! [`ouch::Encoder`] and [`itch::Encoder`], which turn a [`market::Output`] into the bytes that
//! its owners and the feed get. [`soupbintcp`], [`moldudp64`] and [`sluice`] carry those messages over TCP and
//! UDP. Each wire struct is its specification's table, row by row; [`layout`] lets tools and tests
//! read the same rows. The tables with our decisions are in docs/wire.
//!
//! Architecture invariant: no socket, no clock, no dependence on a book. Callers give sessions
//! bytes and time; no bytes make code here panic. Encoding a message allocates no memory.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod field;
mod linear_map;
mod pieces;
pub mod layout;
pub mod soupbintcp;
pub mod ouch;
pub mod ouch42;
pub mod itch;
pub mod fix;
pub mod moldudp64;
pub mod sluice;
pub mod glimpse;
