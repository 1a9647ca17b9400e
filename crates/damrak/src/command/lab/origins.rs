//! `damrak lab origins`: our figures beside the published tables of five systems.
//!
//! Invariant: a case that was not run has a reason.

use std::{fs, path::PathBuf};

use clap::Args;
use lab::{
    environment::{Environment, machine_line},
    origins::{self, Origins},
    report_page::ORIGINS_FILE,
};
use serde_json::{Value, json};
use venue::{config::Span, failure::Failure};

use super::super::{
    command_line,
    output::{print_json, print_line},
};

/// Repeat the published tables of five systems in a small form, with our figures beside theirs.
///
/// A: datagrams a second through the kernel. B: batches of delta streams in several layouts. C: latency of a FIX session
/// while others send a background load. D: two order files, which are not part of this repository: --data names their
/// folder. E: three profiles of sockets. Each row states how the two workloads differ; a case that this machine cannot run
/// has the reason. Figures are valid only on an otherwise idle machine. The rows go into origins.json in the folder of
/// --out, and `damrak report` makes a page of it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak lab origins --json\n  damrak lab origins --only A,E --for 3s\n  \
                        damrak lab origins --only D --data zerox\n  \
                        damrak lab origins --out tables && damrak report tables -o tables.html"
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
    let result = json!({
        "schema": origins::SCHEMA,
        "seconds": arguments.duration.0.as_secs_f64(),
        "command": command_line(),
        "rows": rows,
        "environment": environment,
    });
    let path = arguments.out.join(ORIGINS_FILE);
    fs::write(&path, format!("{result}\n"))
        .map_err(|error| Failure::runtime(format!("cannot write {}: {error}", path.display())))?;
    if arguments.json {
        return print_json(&result);
    }
    print_line(&machine_line(&environment))
}

/// A case: our figures and the published ones, one below the other.
pub(super) fn side_by_side(case: &str, ours: &Result<Value, String>, theirs: &str) -> String {
    let ours = match ours {
        Err(reason) => format!("skipped: {reason}"),
        Ok(figures) => origins::in_words(figures),
    };
    format!("  {case}\n    ours:   {ours}\n    theirs: {theirs}")
}
