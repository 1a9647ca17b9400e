//! `damrak lab sweep`: a matrix of load runs from a file, each on a venue of its own.
//!
//! Invariant: a cell is printed once its result is on the disk.

use std::{fs, path::PathBuf, sync::atomic::Ordering};

use clap::Args;
use lab::{
    environment::{Environment, machine_line},
    sweep::{CellResult, Sweep},
};
use serde_json::json;
use venue::failure::Failure;

use super::super::{
    output::{duration, grouped, print_json, print_line},
    stop_flag,
};

/// Run every combination of rates, connections, layouts and other settings of a file, each on a venue of its own.
///
/// Venue and load are separate processes. The result of each cell goes into a folder in --out, in the form of `damrak load
/// --out`. A cell that has a result with the same settings is not run again, so the same command continues a sweep that was
/// stopped. `damrak report` makes a page of the folders. docs/load.md has the settings.
#[derive(Debug, Args)]
#[command(
    after_help = "Example, in sweep.toml:\n  for = \"2s\"\n  [matrix]\n  rate = [\"10k/s\", \"50k/s\"]\n  \
                        layout = [\"single\", \"core-alone\"]\n  protocol = [\"tcp\", \"udp\"]\n\n  \
                        damrak lab sweep sweep.toml --out sweep-out\n  damrak report sweep-out/*/ -o report.html"
)]
pub(super) struct Arguments {
    /// The TOML file with the matrix.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Folder for the results.
    #[arg(long, value_name = "FOLDER", default_value = "sweep-out")]
    out: PathBuf,
    /// Print the cells without running them.
    #[arg(long)]
    list: bool,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak lab sweep`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.file.display().to_string();
    let text = fs::read_to_string(&arguments.file)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    let sweep = Sweep::parse(&text, &name)?;
    let cells = sweep.cells();
    if arguments.list {
        return cells.iter().try_for_each(|cell| print_line(&cell.name));
    }
    let width = cells.iter().map(|cell| cell.name.chars().count()).max().unwrap_or(0);
    if !arguments.json {
        print_line(&format!(
            "{:<width$} {:>11} {:>11} {:>9} {:>9} {:>9} {:>9}  limit",
            "cell", "sent/s", "answered/s", "p50", "p99", "p99.9", "max"
        ))?;
    }
    let started = Environment::now();
    let stop = stop_flag(&[])?;
    let mut results = Vec::new();
    sweep.run(&arguments.out, &|| stop.load(Ordering::Relaxed), &mut |result| {
        if !arguments.json {
            print_line(&row(result, width))?;
        }
        results.push(json!({
            "cell": result.cell.name,
            "settings": result.cell.settings.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "folder": result.folder,
            "earlier": result.is_earlier,
            "figures": result.figures,
        }));
        Ok(())
    })?;
    let environment = Environment::now().since(&started);
    let is_whole = results.len() == cells.len();
    if arguments.json {
        print_json(&json!({
            "schema": "damrak/sweep/1",
            "cells": results,
            "cells_total": cells.len(),
            "environment": environment,
        }))?;
    } else {
        print_line(&machine_line(&environment))?;
    }
    if is_whole {
        return Ok(());
    }
    let (done, all) = (results.len(), cells.len());
    Err(Failure::runtime(format!("stopped after {done} of {all} cells"))
        .hint("the same command continues with the rest"))
}

fn row(result: &CellResult, width: usize) -> String {
    let figures = &result.figures;
    let rate = |key: &str| figures[key].as_u64().map_or("-".to_owned(), grouped);
    let quoted = match figures["open_loop"].as_bool() {
        Some(true) => &figures["latency_ns"],
        _ => &figures["latency_from_send_ns"],
    };
    let latency = |key: &str| quoted[key].as_u64().map_or("-".to_owned(), duration);
    format!(
        "{:<width$} {:>11} {:>11} {:>9} {:>9} {:>9} {:>9}  {}{}",
        result.cell.name,
        rate("sent_per_second"),
        rate("answered_per_second"),
        latency("p50"),
        latency("p99"),
        latency("p999"),
        latency("max"),
        figures["limit"].as_str().unwrap_or("-"),
        if result.is_earlier { "  (from before)" } else { "" },
    )
}
