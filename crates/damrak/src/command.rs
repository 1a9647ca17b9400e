//! The command line: one module for each verb.

mod at;
mod bench;
mod ctl;
mod demo;
mod doctor;
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
mod password;
mod profile;
mod recover;
mod report;
mod run;
mod scenario;
mod serve;
mod sim;
mod snapshot;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use ::journal::TornTail;
use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand,
    builder::{PathBufValueParser, TypedValueParser},
};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use venue::{
    config::Config,
    failure::{ExitCode, Failure},
    notices::{self, LogConfig},
};

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
  5  an objective of --slo was not met
  6  the venue rejected every order

Start with:
  damrak demo
  damrak serve";

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(demo::Arguments),
    Serve(serve::Arguments),
    Ctl(ctl::Arguments),
    Password(password::Arguments),
    Load(Box<load::Arguments>),
    Feed(Box<feed::Arguments>),
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
    Profile(profile::Arguments),
    Report(report::Arguments),
    Lab(lab::Arguments),
    Doctor(doctor::Arguments),
    Man(man::Arguments),
}

/// Parses the command line and runs its verb.
///
/// # Errors
/// The verb failed; the failure has the exit code.
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
    let verb = Cli::from_arg_matches(&matches).map_err(Failure::usage)?.verb;
    if matches!(verb, Verb::Run(_) | Verb::Bench(_)) {
        // The stages of these verbs give notices, as those of `serve` do.
        notices::write_to_stderr(LogConfig::default());
    }
    match verb {
        Verb::Demo(arguments) => demo::run(&arguments),
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::Ctl(arguments) => ctl::run(&arguments),
        Verb::Password(arguments) => password::run(&arguments),
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
        Verb::Profile(arguments) => profile::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::Lab(arguments) => lab::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Man(arguments) => man::run(&arguments, &Cli::command()),
    }
}

/// Options whose value is `USER:PASSWORD`.
const LOGIN_OPTIONS: [&str; 2] = ["--session", "--fix"];

/// The command line, quoted for a shell, without the passwords.
fn command_line() -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+{}".contains(c);
    let quoted = |word: String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let mut words = vec!["damrak".to_owned()];
    let mut is_login = false;
    for word in std::env::args().skip(1) {
        let option = LOGIN_OPTIONS
            .iter()
            .find(|option| word.strip_prefix(**option).is_some_and(|rest| rest.starts_with('=')));
        let login = match option {
            Some(option) => Some((format!("{option}="), &word[option.len() + 1..])),
            None => is_login.then_some((String::new(), word.as_str())),
        };
        let shown = match login {
            Some((option, login)) => {
                let user = login.split_once(':').map_or(login, |(user, _)| user);
                format!("{option}{user}:PASSWORD")
            }
            None => word.clone(),
        };
        is_login = LOGIN_OPTIONS.contains(&&*word);
        words.push(quoted(shown));
    }
    words.join(" ")
}

/// The journal that a verb reads, and the form of its output.
#[derive(Debug, Args)]
struct JournalArguments {
    /// The folder of the journal.
    #[arg(value_parser = journal_folder())]
    directory: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Refuses a folder that does not exist, before any code looks into it.
fn journal_folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let what = match (path.is_dir(), path.exists()) {
            (true, _) => return Ok(path),
            (false, true) => "not a folder",
            (false, false) => "no such folder",
        };
        Err(format!("{what}: {}; name the journal's folder", path.display()))
    })
}

/// A flag that SIGINT, SIGTERM or one of `others` sets; a second signal ends the process at once.
fn stop_flag(others: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM].iter().chain(others) {
        signal_hook::flag::register_conditional_shutdown(*signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(*signal, Arc::clone(&stop)))
            .map_err(|error| Failure::environment(format!("cannot catch signals: {error}")))?;
    }
    Ok(stop)
}

/// The configuration in a file, or the default one.
fn configuration(path: Option<&Path>) -> Result<Config, Failure> {
    path.map_or_else(|| Ok(Config::default()), Config::read)
}

/// The unfinished batch at the end of a journal, if there is one.
fn torn_tail(found: Option<&TornTail>) -> Value {
    let tail =
        found.map(|cut| json!({"path": cut.path, "offset": cut.offset, "bytes": cut.byte_count}));
    json!(tail)
}
