//! `damrak lab regression`: many delta streams in several layouts, and which layout is healthy.
//!
//! Invariant: printed figures are those in the files.

use std::{fs, path::PathBuf};

use clap::Args;
use lab::{
    crash_trial::{prepare_folder, unusable},
    environment::{Environment, machine_line},
    regression::{
        self, NamedLayout, Regression, RegressionOptions, RingRole, Trial, built_in_layouts,
        verdicts,
    },
};
use venue::{
    clock::SystemClock,
    config::{Rate, Span},
    failure::Failure,
    layout::Layout,
};

use super::super::output::{grouped, print_json, print_line};

/// Run many delta streams in several layouts, and report which layout is healthy on this machine.
///
/// Each trial is a venue of its own under the same load: first with eight instruments for each stream, then with two
/// instruments in all, as on a test machine. The built-in layouts are: the venue's default with one agent for all streams;
/// that agent on a thread of its own; a thread for each stream that parks; and a thread for each stream that spins. The
/// rate is --rate, or else the highest at which the first layout keeps up and no reader drops messages. Prints the largest
/// batch of application, snapshot and delta rings over time; the files in --out have every ring. Exit code 4 if a delta
/// batch of the first layout fills an eighth of its ring or more. docs/regression.md has more.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak lab regression\n  damrak lab regression --streams 4 --rate 10k/s --for 1s --json\n  \
                        damrak lab regression --layout auto --layout pipeline --layout 'single'"
)]
pub(super) struct Arguments {
    /// Delta streams.
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u8).range(1..=16))]
    streams: u8,
    /// A layout in the form of `layout.threads`, instead of the built-in ones; may be given several times. Its agents
    /// include streams, streams-2 and so on.
    #[arg(long, value_name = "THREADS")]
    layout: Vec<String>,
    /// Requests a second, like 50k/s [default: the highest rate at which no reader drops messages, found by a search].
    #[arg(long)]
    rate: Option<Rate>,
    /// How long each layout is under load, with each set of instruments.
    #[arg(long = "for", value_name = "TIME", default_value = "3s")]
    duration: Span,
    /// Duration of each step of the search.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    search: Span,
    /// Folder for the files; those of an earlier run are removed.
    #[arg(long, value_name = "FOLDER", default_value = "regression-out")]
    out: PathBuf,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak lab regression`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = RegressionOptions {
        streams: arguments.streams.into(),
        layouts: layouts(arguments)?,
        rate_per_second: arguments.rate.map(|rate| rate.0),
        duration: arguments.duration.0,
        search_duration: arguments.search.0,
    };
    prepare_folder(&arguments.out, "lab regression", || ())?;
    let started = Environment::now();
    let mut print = |trial: &Trial| match arguments.json {
        true => Ok(()),
        false => print_line(&text(trial)),
    };
    let regression = regression::run(&options, &arguments.out, SystemClock::start(), &mut print)?;
    let environment = Environment::now().since(&started);
    let summary = regression.json(&environment);
    for (name, text) in
        [("regression.json", format!("{summary}\n")), ("samples.csv", regression.csv())]
    {
        let path = arguments.out.join(name);
        fs::write(&path, text).map_err(|error| unusable(&path, &error))?;
    }
    if arguments.json {
        print_json(&summary)?;
    } else {
        print_end(&regression)?;
        print_line(&machine_line(&environment))?;
    }
    match &regression.failures()[..] {
        [] => Ok(()),
        failures => Err(Failure::verification(failures.join("; "))
            .hint("docs/regression.md explains large batches")),
    }
}

fn layouts(arguments: &Arguments) -> Result<Vec<NamedLayout>, Failure> {
    if arguments.layout.is_empty() {
        return Ok(built_in_layouts(arguments.streams.into()));
    }
    for text in &arguments.layout {
        text.parse::<Layout>().map_err(|what| Failure::usage(format!("--layout: {what}")))?;
    }
    Ok(arguments.layout.iter().map(|text| NamedLayout::new(text, text)).collect())
}

fn text(trial: &Trial) -> String {
    let mut lines = format!(
        "{}, {} instruments, {} thread(s), {}/s asked, {}/s answered, {} lost",
        trial.layout,
        trial.instruments.as_str(),
        trial.threads,
        grouped(trial.rate_per_second),
        grouped(trial.answered_per_second),
        grouped(trial.dropped()),
    );
    for role in RingRole::ALL {
        let (batches, _) = trial.timeline(role);
        let Some(worst) = trial.worst(role) else { continue };
        lines += &format!(
            "\n  {:<12} {} {:>6} of {:>6}  {}",
            role.as_str(),
            if role == RingRole::Application { "most waiting " } else { "largest batch" },
            grouped(worst.size() as u64),
            grouped(worst.capacity as u64),
            plot(&batches, worst.capacity),
        );
    }
    lines
}

/// The most columns of a plot.
const PLOT_COLUMNS: usize = 60;

/// The largest batches over time, on a logarithmic scale: a full block is a full ring.
fn plot(batches: &[usize], capacity: usize) -> String {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let columns = batches.chunks(batches.len().div_ceil(PLOT_COLUMNS).max(1));
    let height = |batch: usize| match batch {
        0 => 0,
        _ => 1 + batch.ilog2() as usize * (BLOCKS.len() - 2) / capacity.ilog2().max(1) as usize,
    };
    columns
        .map(|column| {
            BLOCKS[height(column.iter().copied().max().unwrap_or(0)).min(BLOCKS.len() - 1)]
        })
        .collect()
}

fn print_end(regression: &Regression) -> Result<(), Failure> {
    if !regression.search.is_empty() {
        print_line(&format!(
            "highest rate at which the first layout kept up and no reader dropped: {}/s",
            grouped(regression.rate_per_second)
        ))?;
    }
    verdicts(regression).iter().try_for_each(|verdict| print_line(&verdict.line()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plot has a column for each sample up to the limit, and its height is that of the batch.
    #[test]
    fn a_plot_shows_batches() {
        assert_eq!(plot(&[0, 1, 8192], 8192), " ▁█");
        assert_eq!(plot(&[4; 600], 8192).chars().count(), PLOT_COLUMNS);
        assert_eq!(plot(&[], 8192), "");
    }
}
