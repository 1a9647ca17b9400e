//! `damrak lab stalled`: the throughput of a venue with and without subscribers that stop reading.
//!
//! Invariant: each figure compares a pair of adjacent periods.

use std::path::PathBuf;

use clap::Args;
use lab::{
    crash_trial::prepare_folder,
    environment::{Environment, machine_line},
    stalled::{self, CHANGE_PPM_MAX, Stalled, StalledOptions, StalledOutcome},
};
use serde_json::json;
use venue::{clock::SystemClock, config::Span, failure::Failure};

use super::super::output::{grouped, print_json, print_line};

/// Compare the throughput of a venue with and without subscribers that stop reading.
///
/// One venue is under a closed-loop load for pairs of periods: one without subscribers, and one with subscribers that read
/// nothing after their login. They subscribe to the feed over TCP, to snapshots, to a delta stream, or to derived data by
/// HTTP. Requests are counted from the moment at which all subscribers have stalled. The median of the changes counts. Load,
/// venue and subscribers share the machine, so figures are valid only on an otherwise idle machine. Exit code 4 with
/// --strict if the median is a loss of more than 2 %.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak lab stalled\n  damrak lab stalled --of stream --pairs 9 --for 5s --strict --json"
)]
pub(super) struct Arguments {
    /// Pairs of periods for each kind of subscriber.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    pairs: u8,
    /// Only subscribers of this kind: feed, snapshot, stream or http. May be given several times.
    #[arg(long = "of", value_name = "KIND")]
    kinds: Vec<Stalled>,
    /// How long each period is, after the subscribers have stalled or left.
    #[arg(long = "for", value_name = "TIME", default_value = "3s")]
    duration: Span,
    /// Subscribers that stop reading.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u8).range(1..=31))]
    subscribers: u8,
    /// Fail if the throughput falls by more than 2 %.
    #[arg(long)]
    strict: bool,
    /// Folder for the files; those of an earlier run are removed.
    #[arg(long, value_name = "FOLDER", default_value = "stalled-out")]
    out: PathBuf,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak lab stalled`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    prepare_folder(&arguments.out, "lab stalled", || ())?;
    let kinds = match arguments.kinds.is_empty() {
        true => Stalled::ALL.into(),
        false => arguments.kinds.clone(),
    };
    let options = StalledOptions {
        kinds,
        pairs: arguments.pairs.into(),
        duration: arguments.duration.0,
        subscribers: arguments.subscribers.into(),
    };
    let started = Environment::now();
    let outcomes = stalled::run(&options, &arguments.out, SystemClock::start())?;
    let environment = Environment::now().since(&started);
    if arguments.json {
        print_json(&json!({
            "schema": "damrak/lab-stalled/1",
            "subscribers": arguments.subscribers,
            "outcomes": outcomes.iter().map(StalledOutcome::json).collect::<Vec<_>>(),
            "environment": environment,
        }))?;
    } else {
        for outcome in &outcomes {
            print_line(&text(outcome))?;
        }
        print_line(&machine_line(&environment))?;
    }
    let worse = outcomes.iter().filter(|it| it.change_ppm() < -CHANGE_PPM_MAX);
    let worse: Vec<_> = worse.map(|it| it.stalled.as_str()).collect();
    match worse.is_empty() || !arguments.strict {
        true => Ok(()),
        false => Err(Failure::verification(format!(
            "the venue is more than 2 % slower with stalled subscribers of: {}",
            worse.join(", ")
        ))),
    }
}

fn text(outcome: &StalledOutcome) -> String {
    let pairs = outcome.pairs.iter();
    let pairs = pairs.map(|(without, with)| format!("{}>{}", grouped(*without), grouped(*with)));
    let change = outcome.change_ppm() as f64 / 10_000.0;
    format!(
        "{:<14} {change:+.1} %   requests/s, without>with: {}",
        outcome.stalled.as_str(),
        pairs.collect::<Vec<_>>().join("  ")
    )
}
