//! `damrak lab origins`: the published tables of the systems that Damrak takes up, ours beside theirs.
//!
//! Invariant: a case that was not run says why.

use std::path::PathBuf;

use clap::Args;
use lab::{
    environment::{Environment, machine_line},
    origins::Origins,
};
use serde_json::{Value, json};
use venue::{config::Span, failure::Failure};

use super::super::output::{duration, grouped, print_json, print_line};

/// Repeat the published tables of five systems in a small form, ours beside theirs.
///
/// A: datagrams a second through the kernel. B: batches of delta streams in several layouts. C: latency of a stream beside a
/// background, by FIX. D: two order files, which are not part of this repository: --data names their folder. E: three
/// profiles of sockets. Each row says how the two workloads differ; a case that this machine cannot run says why. Figures
/// mean something only where nothing else runs.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak lab origins --json\n  damrak lab origins --only A,E --for 3s\n  \
                        damrak lab origins --only D --data zerox"
)]
pub(super) struct Arguments {
    /// Only these systems, comma-separated: A, B, C, D, E.
    #[arg(long, value_delimiter = ',', value_name = "LETTERS", value_parser = letter)]
    only: Vec<char>,
    /// How long each case is measured.
    #[arg(long = "for", value_name = "TIME", default_value = "1s")]
    duration: Span,
    /// Folder with the order files of D: 100k and 1300k_cancel, each with orders.csv.gz and balances_init.csv.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Folder for the files.
    #[arg(long, value_name = "FOLDER", default_value = "origins-out")]
    out: PathBuf,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

fn letter(text: &str) -> Result<char, String> {
    match text.to_ascii_uppercase().as_str() {
        "A" => Ok('A'),
        "B" => Ok('B'),
        "C" => Ok('C'),
        "D" => Ok('D'),
        "E" => Ok('E'),
        _ => Err("A, B, C, D or E".to_owned()),
    }
}

/// Runs `damrak lab origins`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let origins = Origins {
        duration: arguments.duration.0,
        out: arguments.out.clone(),
        data: arguments.data.clone(),
    };
    let started = Environment::now();
    let mut rows = Vec::new();
    let mut last = None;
    origins.run(&arguments.only, &mut |row| {
        if !arguments.json {
            if last != Some(row.origin) {
                last = Some(row.origin);
                print_line(&format!("{}: {}", row.origin, row.differences))?;
            }
            print_line(&side_by_side(&row.case, &row.ours, row.theirs))?;
        }
        rows.push(json!({
            "origin": row.origin.to_string(),
            "case": row.case,
            "ours": row.ours.as_ref().ok(),
            "skipped": row.ours.as_ref().err(),
            "theirs": row.theirs,
            "differences": row.differences,
        }));
        Ok(())
    })?;
    let environment = Environment::now().since(&started);
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/origins/1",
            "seconds": arguments.duration.0.as_secs_f64(),
            "rows": rows,
            "environment": environment,
        }));
    }
    print_line(&machine_line(&environment))
}

/// A case, with ours and theirs below each other.
pub(super) fn side_by_side(case: &str, ours: &Result<Value, String>, theirs: &str) -> String {
    let ours = match ours {
        Err(reason) => format!("skipped: {reason}"),
        Ok(figures) => in_words(figures),
    };
    format!("  {case}\n    ours:   {ours}\n    theirs: {theirs}")
}

/// The figures of a row that say most.
fn in_words(figures: &Value) -> String {
    let mut parts = Vec::new();
    for (key, name) in [
        ("received_per_second", "received/s"),
        ("answered_per_second", "answered/s"),
        ("trades", "trades"),
        ("commands_per_second", "commands/s"),
        ("published", "published"),
        ("received", "received"),
        ("lost", "lost"),
    ] {
        if let Some(count) = figures[key].as_u64() {
            parts.push(format!("{} {name}", grouped(count)));
        }
    }
    if let Some(percent) = figures["received_percent"].as_f64() {
        parts.push(format!("{percent:.1} % received"));
    }
    if let Some(cores) = figures["cores_used"].as_f64() {
        parts.push(format!("{cores:.1} cores used"));
    }
    for (key, name) in [("p50_ns", "p50"), ("p99_ns", "p99"), ("max_ns", "max")] {
        if let Some(ns) = figures[key].as_u64() {
            parts.push(format!("{name} {}", duration(ns)));
        }
    }
    for role in ["application", "snapshot", "delta"] {
        let rings = figures["rings"].as_array().into_iter().flatten();
        let of_role = rings.filter(|ring| ring["role"].as_str() == Some(role));
        if let Some(batch) = of_role.filter_map(|ring| ring["batch_max"].as_u64()).max() {
            parts.push(format!("{role}: batches up to {}", grouped(batch)));
        }
    }
    if parts.is_empty() { "see --json".to_owned() } else { parts.join("   ") }
}
