use std::path::PathBuf;

use clap::Args;
use journal::Folder;
use serde_json::json;

use crate::command::output::{grouped, print_json, print_line};
use venue::{failure::Failure, recovery::open_failure};

/// Give up the end of a journal, so that a venue can start on what is before.
///
/// Only whole batches are kept, and the mark says from then on that no more must be there. What is
/// cut is put aside in the folder, in files whose names begin with `cut-`; nothing is thrown away.
/// Take a copy of the folder before. This gives up what may have been acknowledged.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak journal cut damrak-data --to 1000000\n  \
                        damrak journal cut damrak-data --at-damage")]
pub struct Cut {
    /// The folder of the journal; no venue may have it.
    directory: PathBuf,
    /// Keep the batches that end at this sequence or before.
    #[arg(long, value_name = "SEQUENCE", required_unless_present = "at_damage")]
    to: Option<u64>,
    /// Keep all that can be had: up to the first thing that is wrong, or to the end.
    #[arg(long, conflicts_with = "to")]
    at_damage: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Cut) -> Result<(), Failure> {
    let folder = Box::new(Folder::new(&arguments.directory));
    let given_up = journal::truncate(folder, arguments.to).map_err(|error| open_failure(&error))?;
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/journal-cut/1",
            "last_sequence": given_up.last_sequence,
            "aside": given_up.aside,
            "because": given_up.because,
        }));
    }
    if let Some(because) = &given_up.because {
        print_line(&format!("what was wrong: {because}"))?;
    }
    for path in &given_up.aside {
        print_line(&format!("put aside: {}", path.display()))?;
    }
    print_line(&format!("the journal ends with sequence {}", grouped(given_up.last_sequence)))
}
