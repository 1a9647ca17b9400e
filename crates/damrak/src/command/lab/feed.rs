//! `damrak lab feed`: subscribers over real sockets behind a network that loses packets, and their books at the end.
//!
//! Invariant: the exit code is 0 only if every book equals the engine's.

use std::path::PathBuf;

use clap::Args;
use lab::{
    crash_trial::prepare_folder,
    feed_trial::{self, FeedTrialOptions, SubscriberOutcome},
};
use venue::{clock::SystemClock, failure::Failure};

use super::super::output::{grouped, print_json, print_line};

/// Subscribe to a venue over a network that loses packets, and compare every book with the engine's.
///
/// The venue and its subscribers are in this process and use real sockets on loopback. A relay between them loses 5 % of
/// the datagrams, repeats 5 % and reorders 20 %, independently for each subscriber; this includes requests and answers.
/// One subscriber takes line A, one takes both lines, one joins late by a snapshot, and one takes a delta stream. Once
/// --messages are published and received by all, the journal is replayed. Exit code 4 if a book differs from the engine's.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak lab feed\n  damrak lab feed --messages 100000 --seed 7 --json"
)]
pub(super) struct Arguments {
    /// Minimum number of messages of the feed.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    messages: u64,
    /// Seed of the network and of the orders.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=u64::from(u32::MAX)))]
    seed: u64,
    /// Folder for the files; those of an earlier run are removed.
    #[arg(long, value_name = "FOLDER", default_value = "feed-out")]
    out: PathBuf,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak lab feed`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    prepare_folder(&arguments.out, "lab feed", || ())?;
    let options = FeedTrialOptions { messages: arguments.messages, seed: arguments.seed };
    let trial = feed_trial::run(&options, &arguments.out, SystemClock::start())?;
    if arguments.json {
        print_json(&trial.json())?;
    } else {
        print_line(&format!("{} messages, seed {}", grouped(trial.messages), trial.seed))?;
        for it in &trial.subscribers {
            print_line(&row(it))?;
        }
    }
    let failures = trial.failures();
    match &failures[..] {
        [] => Ok(()),
        _ => Err(Failure::verification(failures.join("; "))),
    }
}

fn row(it: &SubscriberOutcome) -> String {
    format!(
        "{:<20} from {}  messages {}  datagrams {}: {} lost, {} repeated, {} reordered  requests {}  snapshots {}  {}",
        it.name,
        it.join.first_message.map_or("-".to_owned(), grouped),
        grouped(it.join.messages),
        grouped(it.network.datagrams),
        grouped(it.network.lost),
        grouped(it.network.repeated),
        grouped(it.network.reordered),
        grouped(it.received.messages.requests),
        it.join.snapshots,
        if it.difference.is_none() { "books equal" } else { "BOOKS DIFFER" },
    )
}
