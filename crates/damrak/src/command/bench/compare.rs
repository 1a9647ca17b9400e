//! `damrak bench compare`: the changes between two results of a benchmark.
//!
//! Invariant: figures of the machine and of the run are not compared.

use std::{fs, path::PathBuf};

use clap::Args;
use lab::bench::changes::{Change, changes};
use serde_json::{Value, json};
use venue::failure::Failure;

use super::super::output::{print_json, print_line, table};

/// Show the changes between two results of the same benchmark, beyond noise.
///
/// Both files are outputs of `damrak bench ... --json`. Rows are matched by name, in any order. Results of different
/// machines, or of a machine that was busy with other work, differ for reasons other than the program.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  damrak bench gateway --json > before.json\n  \
                        damrak bench gateway --json > after.json\n  \
                        damrak bench compare before.json after.json --noise 3")]
pub struct Arguments {
    /// The earlier result.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The later one.
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// The largest change that counts as noise, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    noise: f64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak bench compare`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let read = |path: &PathBuf| -> Result<Value, Failure> {
        let name = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!(
                "{name} is not the output of `damrak bench ... --json`: {error}"
            ))
        })
    };
    let (before, after) = (read(&arguments.before)?, read(&arguments.after)?);
    let found = changes(&before, &after, arguments.noise).map_err(Failure::usage)?;
    if arguments.json {
        let change = |change: &Change| {
            let percent = change.percent();
            json!({"name": change.name, "before": change.before, "after": change.after,
                   "percent": percent.is_finite().then_some(percent)})
        };
        return print_json(&json!({
            "schema": "damrak/bench-changes/1",
            "noise_percent": arguments.noise,
            "changed": found.changed.iter().map(change).collect::<Vec<_>>(),
            "unchanged": found.unchanged,
            "only_before": found.only_before,
            "only_after": found.only_after,
        }));
    }
    if !found.changed.is_empty() {
        let rows = found.changed.iter().map(|change| {
            let percent = change.percent();
            [
                change.name.clone(),
                figure(change.before),
                figure(change.after),
                if percent.is_finite() { format!("{percent:+.1} %") } else { "from 0".to_owned() },
            ]
        });
        print_line(&table(["figure", "before", "after", "change"], rows))?;
    }
    for (names, file) in
        [(&found.only_before, &arguments.before), (&found.only_after, &arguments.after)]
    {
        if !names.is_empty() {
            print_line(&format!("only in {}: {}", file.display(), names.join(", ")))?;
        }
    }
    print_line(&format!(
        "{} figures changed by more than {} %, {} did not",
        found.changed.len(),
        arguments.noise,
        found.unchanged
    ))
}

fn figure(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
