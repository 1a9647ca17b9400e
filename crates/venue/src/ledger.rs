//! The ledger of a venue, for people and other programs: built from the events, never on the path of an order.
//!
//! Start at [`schema`] (the tables), then [`projection`] (how rows follow from events), [`store`]
//! (where they are kept, exactly once), [`LedgerWriter`] (how they get there while the venue runs),
//! [`query`] and [`verify`].
//!
//! Invariant: rows and position change together, and the position is the last input whose rows are stored. No part of
//! the venue waits for a store.

pub mod schema;
pub mod projection;
pub mod store;
pub mod embedded;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "postgres")]
pub mod postgres;
mod writer;
pub mod query;
pub mod verify;
pub mod export;
pub mod readable;

pub use writer::{LedgerGauges, LedgerWriter, LedgerWriterConfig};
