//! `damrak doctor`: checks whether this machine can run a venue and give reliable figures.
//!
//! Invariant: it changes nothing; `--fix-script` prints commands for the user to read and run.

use std::path::PathBuf;

use clap::Args;
use lab::doctor::{self, Finding, Needs, Remedy, State};
use os::SystemFiles;
use serde_json::json;
use venue::failure::Failure;

use super::{
    configuration,
    output::{counted, print_json, print_line},
};

/// Examine the machine: cores, clocks, memory, network, rights.
///
/// Prints for each setting the value found, the value wanted, the drawback without it, and the command to
/// set it. Changes nothing. Exit code 3 if the venue could not start as configured. docs/doctor.md
/// explains each setting.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak doctor\n  damrak doctor --config venue.toml --json\n  \
                        damrak doctor --fix-script > tune.sh"
)]
pub struct Arguments {
    /// The configuration of the venue that will run here; docs/configuration.md has every key.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print a shell script with the commands that correct these settings.
    #[arg(long, conflicts_with = "json")]
    fix_script: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak doctor`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = configuration(arguments.config.as_deref())?;
    let needs =
        Needs::of(&config).map_err(|what| Failure::usage(format!("layout.threads: {what}")))?;
    let findings = doctor::examine(&SystemFiles::of_this_machine(), &needs);
    if arguments.fix_script {
        return print_line(doctor::fix_script(&findings).trim_end());
    }
    if arguments.json {
        print_json(&json!({ "schema": "damrak/doctor/1", "findings": findings }))?;
    } else {
        for finding in &findings {
            print_line(&text(finding))?;
        }
        let of = |state| findings.iter().filter(|finding| finding.state == state).count();
        print_line(&format!(
            "{} good, {} could be better, {} missing, {} unknown",
            of(State::Good),
            of(State::Worse),
            of(State::Missing),
            of(State::Unknown)
        ))?;
    }
    match findings.iter().filter(|finding| finding.state == State::Missing).count() {
        0 => Ok(()),
        missing => Err(Failure::environment(format!(
            "the machine lacks {} that the venue needs",
            counted(missing as u64, "setting")
        ))),
    }
}

/// A finding in one line, with the drawback and the remedy below it.
fn text(finding: &Finding) -> String {
    let Finding { name, state, found, wanted, lost, remedy } = finding;
    let mark = match state {
        State::Good => "✓",
        State::Worse => "!",
        State::Missing => "✗",
        State::Unknown => "?",
    };
    let mut text = format!("{mark} {name:<20}{found}");
    if *state != State::Good {
        text += &format!("   (wanted: {wanted})");
    }
    if !lost.is_empty() {
        text += &format!("\n    without it: {lost}");
    }
    match remedy {
        Some(Remedy::Command(command)) => {
            text += &format!("\n    as root: {}", command.replace('\n', "; "));
        }
        Some(Remedy::KernelParameter(words)) => {
            text += &format!("\n    on the kernel's command line: {words}");
        }
        Some(Remedy::Advice(advice)) => text += &format!("\n    remedy: {advice}"),
        None => {}
    }
    text
}
