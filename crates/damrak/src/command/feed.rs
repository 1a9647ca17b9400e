//! `damrak feed`: receives and records market data, sends recordings again and converts them.
//!
//! Start at [`watch`], which joins a venue's feed; [`files`] has the verbs that need no venue, [`orders`]
//! makes orders of a recording.
//!
//! Invariant: without a verb it is `damrak feed watch`.

mod files;
mod orders;
mod watch;

use clap::{Args, Subcommand};

use venue::failure::Failure;

pub(super) use watch::source;

/// Join a venue's feed, rebuild its books and report lost messages; record feeds; replay recordings, convert them, and
/// make orders of them.
///
/// Without a verb it watches: `damrak feed` is `damrak feed watch`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  damrak feed\n  damrak feed --for 5s --json --record feed.itch\n  \
                  damrak feed record day.itch day.pcap --for 10s\n  \
                  damrak feed replay day.itch --to 239.10.10.10:26500 --speed 10\n  \
                  damrak feed convert day.itch day.csv\n  \
                  damrak feed to-orders day.itch orders.csv.gz --instruments instruments.csv --venue venue.toml\n  \
                  damrak feed compare day.itch venue.itch"
)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    watch: watch::Arguments,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Watch(watch::Arguments),
    Record(watch::RecordArguments),
    Replay(files::ReplayArguments),
    Convert(files::ConvertArguments),
    ToOrders(orders::ToOrdersArguments),
    Compare(orders::CompareArguments),
}

/// Runs `damrak feed`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.verb {
        None => watch::watch(&arguments.watch),
        Some(Verb::Watch(arguments)) => watch::watch(arguments),
        Some(Verb::Record(arguments)) => watch::record(arguments),
        Some(Verb::Replay(arguments)) => files::replay(arguments),
        Some(Verb::Convert(arguments)) => files::convert(arguments),
        Some(Verb::ToOrders(arguments)) => orders::to_orders(arguments),
        Some(Verb::Compare(arguments)) => orders::compare(arguments),
    }
}
