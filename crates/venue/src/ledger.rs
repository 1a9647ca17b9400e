//! Settlement and ledger, kept for people and other programs: a consumer of the events, never in
//! the path of an order.
//!
//! Start at [`schema`] (the tables), then [`projection`] (how rows follow from events), [`store`]
//! (where they are kept, exactly once), [`Outlet`] and [`Recorder`] (how they get there beside a
//! venue that runs), [`query`] and [`verify`] (what can be asked).
//!
//! Invariant: rows and mark change together, and the mark is the last input whose rows are there.
//! Nothing of the venue waits for a store.

pub mod schema;
pub mod projection;
pub mod store;
pub mod embedded;
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod postgres;
mod outlet;
mod source;
mod recorder;
pub mod query;
pub mod verify;
pub mod export;
pub mod parquet;
pub mod shown;

pub use outlet::{Outlet, Told};
pub use recorder::{LedgerGauges, Recorder, RecorderConfig};
pub use source::JournalOutputs;
