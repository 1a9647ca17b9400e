//! `damrak scenario`: runs scenarios and reports the first difference of each.

use std::{fs, path::PathBuf};

use clap::{Args, ValueEnum};
use proof::{
    scenario::{self, ScenarioFault},
    scenario_over::{self, Protocol, Transport},
};
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
/// and the next line goes to an engine restored from a snapshot, whose state hash must be the same.
/// Exit code 4 if an event differs from the expected one, with file, line, expected and found; exit
/// code 2 if a line cannot be parsed.
///
/// With --over, sessions of a venue in memory also play the scenario: each line becomes a request of the
/// protocol, and passes through gateway, journal and engine. After each line the venue must have given
/// the same events, and must have the same books and balances. Exit code 2 if the protocol cannot
/// express a line. With --sockets, venue and sessions communicate over the loopback interface.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak scenario docs/scenarios/stop.scenario\n  \
                        damrak scenario docs/scenarios/*.scenario --json\n  \
                        damrak scenario --over fix44 docs/scenarios/stop.scenario\n  \
                        damrak scenario --show mine.scenario")]
pub struct Arguments {
    /// The scenario files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print each line with the events that it causes.
    #[arg(long, conflicts_with = "json")]
    show: bool,
    /// Also play the scenario over this protocol; may be given several times.
    #[arg(long, value_name = "PROTOCOL", value_enum)]
    over: Vec<Over>,
    /// With --over: use sockets on the loopback interface instead of a network in memory.
    #[arg(long, requires = "over")]
    sockets: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A protocol of `--over`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Over {
    /// OUCH 5.0 over SoupBinTCP.
    Soupbintcp,
    /// OUCH 5.0 over UDP.
    Udp,
    /// OUCH 4.2 over SoupBinTCP.
    Ouch42,
    /// OUCH 5.0 by Sluice, sessions over UDP.
    Sluice,
    /// FIX 4.2.
    Fix42,
    /// FIX 4.4.
    Fix44,
    /// FIX 5.0 SP1 over FIXT 1.1.
    Fix50,
}

impl Over {
    const fn protocol(self) -> Protocol {
        match self {
            Self::Soupbintcp => Protocol::SoupBinTcp,
            Self::Udp => Protocol::Udp,
            Self::Ouch42 => Protocol::Ouch42,
            Self::Sluice => Protocol::Sluice,
            Self::Fix42 => Protocol::Fix42,
            Self::Fix44 => Protocol::Fix44,
            Self::Fix50 => Protocol::Fix50Sp1,
        }
    }
}

/// Runs `damrak scenario`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (mut results, mut failures) = (Vec::new(), Vec::new());
    let mut is_unreadable = false;
    let transport = if arguments.sockets { Transport::Loopback } else { Transport::Memory };
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
        let mut over = Vec::new();
        let played = played.and_then(|count| {
            for protocol in &arguments.over {
                over.push((*protocol, scenario_over::run(&text, protocol.protocol(), transport)?));
            }
            Ok(count)
        });
        match played {
            Ok(count) => {
                let protocols: Vec<_> = over
                    .iter()
                    .map(|(protocol, played)| {
                        json!({
                            "protocol": protocol.to_possible_value().map(|it| it.get_name().to_owned()),
                            "trades": played.trades,
                            "trades_hash": format!("{:016x}", played.trades_hash),
                            "state_hash": format!("{:016x}", played.state_hash),
                        })
                    })
                    .collect();
                results.push(json!({
                    "file": path,
                    "passed": true,
                    "lines": count,
                    "over": protocols,
                }));
                if !arguments.json {
                    print_line(&format!("{file}: {} as expected", counted(count as u64, "line")))?;
                    for (protocol, played) in &over {
                        print_line(&format!(
                            "  over {:<11} {}, trades {:016x}, state {:016x}",
                            protocol.protocol().name(),
                            counted(played.trades as u64, "trade"),
                            played.trades_hash,
                            played.state_hash
                        ))?;
                    }
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
