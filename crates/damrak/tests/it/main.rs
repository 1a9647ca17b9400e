//! The whole exchange, through its agents, its sockets and its command line.

mod admin;
mod attack;
mod follow;
mod full_disk;
mod full_disk_venue;
mod laboratory;
mod large_quantities;
mod late_join;
mod layouts;
mod ledger;
mod load;
mod netns;
mod operator;
mod order_run;
mod patience;
mod program;
mod recorded_day;
mod recordings;
mod recovery;
mod resources;
mod snapshots;
mod tools;
mod whole_venue;
