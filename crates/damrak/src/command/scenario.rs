//! `damrak scenario`: runs scenarios and reports the first difference of each.

use std::{fs, path::PathBuf};

use clap::Args;
use proof::scenario::{self, ScenarioFault};
use serde_json::{Value, json};

use super::output::{counted, print_json, print_line};
use venue::failure::Failure;

/// Run scenarios: commands to an exchange, each with its expected events.
///
/// A scenario is a text file. Each line has a command and, after `=>`, every event that it causes:
///
///   buy A1 4 @ 100       => accepted, booked 4 @ 100
///   sell B1 6 @ market   => accepted, trade A1 B1 4 @ 100, canceled B1 2 ioc
///
/// It begins in an open market with the instruments AAPL and MSFT and the sessions A, B and C. The
/// language is explained in docs/scenarios.md. After each line the engine's invariants are checked,
/// its state hash is computed from scratch, and the next line goes to an engine restored from a snapshot.
/// Exit code 4 if an event differs from the expected one, with file, line, expected and found; exit
/// code 2 if a line cannot be parsed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak scenario docs/scenarios/stop.scenario\n  \
                        damrak scenario docs/scenarios/*.scenario --json\n  \
                        damrak scenario --show mine.scenario")]
pub struct Arguments {
    /// The scenarios.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print each line with the events that it causes.
    #[arg(long, conflicts_with = "json")]
    show: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak scenario`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (mut results, mut failures) = (Vec::new(), Vec::new());
    let mut is_unreadable = false;
    for path in &arguments.files {
        let file = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("cannot read {file}: {error}")))?;
        let mut lines = Vec::new();
        let played = scenario::run(&text, &mut |line, command, events| {
            if arguments.show {
                lines.push(format!("{file}:{line}: {command:<36} => {events}"));
            }
        });
        for line in &lines {
            print_line(line)?;
        }
        match played {
            Ok(count) => {
                results.push(json!({ "file": path, "passed": true, "lines": count }));
                if !arguments.json {
                    print_line(&format!("{file}: {} as expected", counted(count as u64, "line")))?;
                }
            }
            Err(failure) => {
                let (expected, found, error) = match &failure.fault {
                    ScenarioFault::Different { expected, found } => {
                        (json!(expected), json!(found), Value::Null)
                    }
                    ScenarioFault::Unreadable(why) => {
                        is_unreadable = true;
                        (Value::Null, Value::Null, json!(why))
                    }
                };
                results.push(json!({
                    "file": path,
                    "passed": false,
                    "line": failure.line,
                    "command": failure.command,
                    "expected": expected,
                    "found": found,
                    "error": error,
                }));
                failures.push(format!("{file}:{failure}"));
            }
        }
    }
    if arguments.json {
        print_json(&json!({
            "schema": "damrak/scenario/1",
            "passed": failures.is_empty(),
            "scenarios": results,
        }))?;
    }
    match (failures.is_empty(), is_unreadable) {
        (true, _) => Ok(()),
        (false, false) => Err(Failure::verification(failures.join("\n"))),
        (false, true) => {
            Err(Failure::usage(failures.join("\n")).hint("docs/scenarios.md explains the language"))
        }
    }
}
