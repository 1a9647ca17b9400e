//! The laboratory: open-loop load, latency, benchmarks, and order files through the pipeline.
//!
//! Start at [`load`] (open-loop load over the wire), [`mod@bench`] (the cost of an operation), [`crash_trial`] (a venue
//! killed under load), [`attack`] (a venue attacked beside honest clients), [`feed_trial`] (subscribers behind a
//! network that loses), [`regression`] (many delta streams in several layouts), [`stalled`] (subscribers that stop
//! reading), [`sweep`] (a matrix of load runs from a file), [`profile`] (where a venue's time goes), [`netns`] (two
//! network namespaces for load and venue), [`datagram_ladder`] (datagrams a second through the kernel), [`origins`]
//! (published tables, ours beside theirs), [`order_run`] (an order file through the whole pipeline). [`order_file`]
//! reads and writes order files, [`recorded_day`] makes one of an ITCH feed, [`comparison`] has the flows by which
//! matching engines are compared, [`doctor`] reports the lacks of the machine.
//!
//! Invariant: latency counts from the scheduled send time, never from the actual one.

#![allow(
    missing_docs,
    reason = "no library for others: names and types say what short comments would repeat"
)]

pub mod environment;
pub mod doctor;
pub mod schedule;
pub mod latency;
mod zipf;
pub mod comparison;
pub mod order_file;
pub mod order_run;
pub mod recorded_day;
pub mod load;
pub mod report_page;
pub mod crash_trial;
pub mod attack;
mod own_venue;
pub mod feed_trial;
pub mod regression;
pub mod stalled;
pub mod sweep;
pub mod profile;
pub mod netns;
pub mod datagram_ladder;
pub mod origins;
pub mod bench;
