//! The whole exchange, through its agents, its sockets and its command line.

mod admin;
mod follow;
mod full_disk;
mod layouts;
mod ledger;
mod orders;
mod program;
mod recovery;
mod simulation;
mod snapshots;
mod tools;
mod venue;
