//! `damrak bench generator`: the cost of the load generator, compared with that of the venue it measures.

use std::{env, fs, path::PathBuf};

use clap::Args;
use serde_json::json;

use super::{
    super::output::{grouped, print_json, print_line, table},
    machine,
};
use lab::{
    bench::gateway::generator::{self, GeneratorOptions, GeneratorRow, RATIO_MIN},
    environment::Environment,
};
use venue::{clock::SystemClock, config::Span, failure::Failure};

/// Measure the cost of a request to the load generator and to the venue, on one core.
///
/// The generator of `damrak load` drives a venue in a process of its own (`damrak serve`, all agents on one thread,
/// journal `written`) by a closed loop, with both on one core: over SoupBinTCP, over UDP with 31 requests per
/// datagram, and over UDP with one. The CPU time of each side's threads, from login to logout, divided by the
/// answered requests, gives the rate that this side could have with the core to itself. Over TCP and with packed
/// datagrams the ratio of the two rates should be at least 1.5. With one request per datagram both sides cost about
/// the same, so the verdict names the slower side. The verdict does not affect the exit code.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak bench generator\n  \
    damrak bench generator --core 2 --runs 11 --for 5s --json")]
pub struct Arguments {
    /// Runs of each path; the paths take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// How long each run sends.
    #[arg(long = "for", value_name = "TIME", default_value = "2s")]
    duration: Span,
    /// Core of generator and venue.
    #[arg(long, value_name = "CORE", default_value_t = 0)]
    core: usize,
    /// Folder for the journals, which are removed afterwards [default: the temporary folder].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak bench generator`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let parent = arguments.folder.clone().unwrap_or_else(env::temp_dir);
    let scratch = parent.join(format!("damrak-bench-generator-{}", std::process::id()));
    let options = GeneratorOptions {
        runs: arguments.runs as usize,
        duration_ns: arguments.duration.0.as_nanos() as u64,
        core: Some(arguments.core),
        scratch: scratch.clone(),
    };
    let started = Environment::now();
    let measured = generator::measure(&options, SystemClock::start());
    let removed = fs::remove_dir_all(&scratch);
    let rows = measured?;
    removed.map_err(|error| {
        Failure::runtime(format!("cannot remove {}: {error}", scratch.display()))
    })?;
    let environment = Environment::now().since(&started);
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/bench-generator/1",
            "runs": options.runs,
            "duration_ns": options.duration_ns,
            "core": arguments.core,
            "rows": rows.iter().map(GeneratorRow::json).collect::<Vec<_>>(),
            "environment": environment,
        }));
    }
    let header =
        ["", "generator ns", "venue ns", "generator/s", "venue/s", "ratio", "target", "verdict"];
    print_line(&format!(
        "CPU time per answered request, and the rate of a core to itself\n{}\nfigures are medians of {} runs. {}",
        table(header, rows.iter().map(line)),
        options.runs,
        machine(&environment)
    ))
}

fn line(row: &GeneratorRow) -> [String; 8] {
    [
        row.path.name.to_owned(),
        format!("{:.0}", row.generator_ns.median()),
        format!("{:.0}", row.venue_ns.median()),
        grouped(row.generator_per_second() as u64),
        grouped(row.venue_per_second() as u64),
        format!("{:.2}", row.ratio()),
        if row.path.has_target { format!("at least {RATIO_MIN}") } else { "-".to_owned() },
        row.verdict().text().to_owned(),
    ]
}
