//! What a user can ask for: one module a verb.

mod at;
mod bench;
mod ctl;
mod demo;
mod feed;
mod follow;
mod generate;
mod journal;
mod ledger;
mod kill;
mod lab;
mod load;
mod man;
pub(crate) mod output;
mod recover;
mod run;
mod scenario;
mod serve;
mod sim;
mod snapshot;

use std::{ffi::OsString, path::Path};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use venue::failure::{ExitCode, Failure};

/// A complete electronic exchange to run on a laptop and measure like a laboratory.
#[derive(Debug, Parser)]
#[command(name = "damrak", version, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something failed while running
  2  the command line or the configuration is wrong
  3  the machine lacks something that is needed
  4  a check found a difference, or a file is corrupt

Start with:
  damrak demo
  damrak serve";

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(demo::Arguments),
    Serve(serve::Arguments),
    Ctl(ctl::Arguments),
    Load(load::Arguments),
    Feed(feed::Arguments),
    Journal(journal::Arguments),
    Recover(recover::Arguments),
    At(at::Arguments),
    Ledger(ledger::Arguments),
    Snapshot(snapshot::Arguments),
    Follow(follow::Arguments),
    Sim(sim::Arguments),
    Kill(kill::Arguments),
    Run(run::Arguments),
    Generate(generate::Arguments),
    Scenario(scenario::Arguments),
    Bench(bench::Arguments),
    Lab(lab::Arguments),
    Man(man::Arguments),
}

/// Runs the command line and says how it went.
///
/// # Errors
/// What could not be done, with the exit code for it.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let matches = match Cli::command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            // clap prints help and version itself, and its errors with the usage beside them.
            let _ = error.print();
            std::process::exit(match error.use_stderr() {
                true => ExitCode::Usage as i32,
                false => ExitCode::Ok as i32,
            });
        }
    };
    match Cli::from_arg_matches(&matches).map_err(Failure::usage)?.verb {
        Verb::Demo(arguments) => demo::run(&arguments),
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::Ctl(arguments) => ctl::run(&arguments),
        Verb::Load(arguments) => load::run(&arguments),
        Verb::Feed(arguments) => feed::run(&arguments),
        Verb::Journal(arguments) => journal::run(&arguments),
        Verb::Recover(arguments) => recover::run(&arguments),
        Verb::At(arguments) => at::run(&arguments),
        Verb::Ledger(arguments) => ledger::run(&arguments),
        Verb::Snapshot(arguments) => snapshot::run(&arguments),
        Verb::Follow(arguments) => follow::run(&arguments),
        Verb::Sim(arguments) => sim::run(&arguments),
        Verb::Kill(arguments) => kill::run(&arguments),
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Generate(arguments) => generate::run(&arguments),
        Verb::Scenario(arguments) => scenario::run(&arguments),
        Verb::Bench(arguments) => bench::run(&arguments),
        Verb::Lab(arguments) => lab::run(&arguments),
        Verb::Man(arguments) => man::run(&arguments, &Cli::command()),
    }
}

/// Refuses a folder that does not exist, before anything looks into it: every verb with the same
/// words and exit code.
fn existing_folder(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Ok(());
    }
    let what = if path.exists() { "not a folder" } else { "no such folder" };
    Err(Failure::usage(format!("{what}: {}", path.display())).hint("name the journal's folder"))
}
