//! The promises of the journal, as scenarios: on a folder, on a disk that crashes, on damaged
//! bytes.

mod support;

mod append;
mod backup;
mod recovery;
mod room;
mod lock;
mod live;
mod damage;
mod crash;
mod truncate;
mod fault;
mod golden;
mod snapshot;
mod follow;
mod archive;
mod from;
