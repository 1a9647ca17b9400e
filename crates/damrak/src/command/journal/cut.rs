//! `damrak journal cut`: truncates a journal. A healthy one only with `--force`.

use clap::Args;
use journal::{Folder, Truncation};
use serde_json::json;

use crate::command::{
    JournalArguments,
    output::{grouped, print_json, print_line},
};
use venue::{failure::Failure, recovery::open_failure};

/// Truncate a journal, so that a venue can start from the rest.
///
/// Keeps whole batches only. The rest moves into files of the same folder whose names begin with
/// `cut-`; no byte is lost. Inputs that are moved may have been acknowledged, so a healthy journal is
/// truncated only with --force. No venue may be running on it. Back up the folder first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak journal cut damrak-data --at-damage\n  \
                        damrak journal cut damrak-data --to 1000000 --force")]
pub struct Cut {
    #[command(flatten)]
    journal: JournalArguments,
    /// Keep the batches that end at this sequence or before.
    #[arg(long, value_name = "SEQUENCE", conflicts_with = "at_damage")]
    to: Option<u64>,
    /// Keep everything before the first damaged record.
    #[arg(long)]
    at_damage: bool,
    /// Truncate a healthy journal too.
    #[arg(long)]
    force: bool,
}

pub fn run(arguments: &Cut) -> Result<(), Failure> {
    if arguments.to.is_none() && !arguments.at_damage {
        return Err(Failure::usage(
            "the place to truncate at is missing: give --to SEQUENCE or --at-damage",
        ));
    }
    let folder = Box::new(Folder::new(&arguments.journal.directory));
    let plan = Truncation::plan(folder, arguments.to).map_err(|error| open_failure(&error))?;
    let inside = arguments.to.filter(|to| plan.last_sequence < *to.min(&plan.readable_sequence));
    let (last, given_up) = (plan.last_sequence, plan.given_up);
    let why = inside.map_or(String::new(), |to| {
        format!(
            "; sequence {} is inside the batch that begins with {}, and only whole batches are kept",
            grouped(to),
            grouped(last + 1),
        )
    });
    if plan.damage.is_none() && given_up > 0 && !arguments.force {
        return Err(Failure::usage(format!(
            "the journal is healthy: truncating it after sequence {} would give up {}{why}",
            grouped(last),
            inputs(given_up),
        ))
        .hint("--force truncates it anyway"));
    }
    let damage = plan.damage.clone();
    let truncated = plan.apply().map_err(|error| open_failure(&error))?;
    if arguments.journal.json {
        return print_json(&json!({
            "schema": "damrak/journal-cut/1",
            "last_sequence": truncated.last_sequence,
            "given_up": given_up,
            "aside": truncated.aside,
            "because": damage,
        }));
    }
    if let Some(damage) = &damage {
        print_line(&format!("damage: {damage}"))?;
    }
    for path in &truncated.aside {
        print_line(&format!("moved to: {}", path.display()))?;
    }
    let given_up = match given_up {
        0 => "nothing was given up".to_owned(),
        count => format!("{} given up", inputs(count)),
    };
    print_line(&format!("the journal ends with sequence {}, {given_up}{why}", grouped(last)))
}

fn inputs(count: u64) -> String {
    match count {
        1 => "1 input that may have been acknowledged".to_owned(),
        count => format!("{} inputs that may have been acknowledged", grouped(count)),
    }
}
