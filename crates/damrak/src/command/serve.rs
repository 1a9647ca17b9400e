//! `damrak serve`: runs a venue until a signal, and prints its start, its figures and its end.
//!
//! Invariant: the verb only configures, starts and stops; [`venue`] does the work.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use clap::Args;
use os::memory;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

use super::{
    configuration,
    output::{grouped, print_json, print_line},
    stop_flag,
};
use venue::{
    Running,
    clock::SystemClock,
    config::{Config, Span},
    failure::Failure,
    notices::{self, LogConfig, LogFormat, LogLevel},
    resources,
};

/// The interval at which the main thread looks for a signal or a failed agent.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Run a venue until it is stopped.
///
/// Without a configuration: loopback only, three instruments, three participants by password
/// (user01/password01 to user03/password03) and one by UDP, the journal in ./damrak-data. Stops
/// at SIGTERM, SIGQUIT or Ctrl-C; every acknowledged command is in the journal, and the next start recovers it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  damrak serve\n  damrak serve --config venue.toml --status 1s\n  \
                        damrak serve --check --config venue.toml"
)]
pub struct Arguments {
    /// Configuration file; docs/configuration.md has every key.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print a line of figures this often, like 1s or 250ms.
    #[arg(long, value_name = "TIME")]
    status: Option<Span>,
    /// Print JSON: one object a line, `started`, `status` (with --status), `stopped`.
    #[arg(long)]
    json: bool,
    /// Stop when standard input ends, so that the venue does not outlive the program that started it.
    #[arg(long)]
    until_stdin_ends: bool,
    /// Format of the notices on standard error [default: log.format of the configuration].
    #[arg(long, value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Leave out notices below this level [default: log.level of the configuration].
    #[arg(long, value_enum, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
    /// Check the configuration, and whether this machine has enough resources for it, then stop. Exit code 3 if a resource
    /// is too scarce.
    #[arg(long)]
    check: bool,
}

/// Runs `damrak serve`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let config = configuration(arguments.config.as_deref())?;
    if arguments.check {
        return check(&config);
    }
    notices::write_to_stderr(LogConfig {
        format: arguments.log_format.unwrap_or(config.log.format),
        level: arguments.log_level.unwrap_or(config.log.level),
    });
    memory::keep_ready().map_err(Failure::environment)?;
    let signals = Signals::catch()?;
    let stop = stop_flag(&[SIGQUIT])?;
    if arguments.until_stdin_ends {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            // A read error counts as the end of the input.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            stop.store(true, Ordering::Relaxed);
        });
    }
    let clock = SystemClock::start();
    let mut running = venue::start(&config, clock)?;
    announce(&running, &config, arguments.json)?;

    let status_every = arguments.status.map(|span| span.0);
    let mut status_due = status_every.unwrap_or(Duration::MAX);
    let mut config = config;
    while !stop.load(Ordering::Relaxed) && !running.stopped() {
        thread::sleep(LOOK_INTERVAL);
        if Signals::take(&signals.reload) {
            reload(&running, &mut config, arguments.config.as_deref());
        }
        if Signals::take(&signals.unused) {
            tracing::info!(
                component = "venue",
                "SIGUSR2 does nothing; SIGUSR1 prints figures, SIGHUP reloads"
            );
        }
        if Signals::take(&signals.figures) {
            let status = running.status();
            if arguments.json { print_json(&status)? } else { print_line(&status_line(&status))? }
        }
        if clock.since_start() >= status_due {
            status_due += status_every.unwrap_or(Duration::MAX);
            let status = running.status();
            if arguments.json { print_json(&status)? } else { print_line(&status_line(&status))? }
        }
    }
    if Signals::take(&signals.quit) {
        tracing::info!(component = "venue", "SIGQUIT stops the venue, as SIGTERM does");
    }
    let last = running.stop()?;
    if arguments.json {
        print_json(&last)
    } else {
        print_line(&format!(
            "stopped after {} inputs; every acknowledged command is in {}",
            grouped(last["sequence"].as_u64().unwrap_or(0)),
            config.journal.directory.display(),
        ))
    }
}

/// Prints the warnings about this machine that a start with a valid configuration would print.
fn check(config: &Config) -> Result<(), Failure> {
    print_line("the configuration is valid")?;
    for warning in resources::warnings(&resources::examine(config))? {
        print_line(&format!("warning: {warning}"))?;
    }
    config.plain_passwords_note().map_or(Ok(()), |note| print_line(&format!("note: {note}")))
}

/// Signals with a purpose other than an immediate stop.
struct Signals {
    /// SIGHUP.
    reload: Arc<AtomicBool>,
    /// SIGUSR1.
    figures: Arc<AtomicBool>,
    /// SIGUSR2.
    unused: Arc<AtomicBool>,
    /// SIGQUIT, which stops as well.
    quit: Arc<AtomicBool>,
}

impl Signals {
    fn catch() -> Result<Self, Failure> {
        let catch = |signal| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .map(|_| flag)
                .map_err(|error| Failure::environment(format!("cannot catch signals: {error}")))
        };
        Ok(Self {
            reload: catch(SIGHUP)?,
            figures: catch(SIGUSR1)?,
            unused: catch(SIGUSR2)?,
            quit: catch(SIGQUIT)?,
        })
    }

    /// True once for each arrival of the signal; arrivals between two calls count as one.
    fn take(flag: &AtomicBool) -> bool {
        flag.swap(false, Ordering::Relaxed)
    }
}

/// Reloads the configuration and applies the settings that may change. An invalid file changes nothing.
fn reload(running: &Running, config: &mut Config, path: Option<&Path>) {
    let Some(path) = path else {
        return tracing::warn!(
            component = "venue",
            "SIGHUP: there is no configuration file to reload"
        );
    };
    let read = Config::read(path);
    match read.and_then(|new| running.reload(config, &new).map(|lines| (new, lines))) {
        Ok((new, lines)) => {
            tracing::info!(component = "venue", "{} was reloaded", path.display());
            for line in lines {
                tracing::info!(component = "venue", "{line}");
            }
            *config = new;
        }
        Err(failure) => tracing::error!(
            component = "venue",
            "nothing was reloaded, and the venue continues with its settings: {failure}"
        ),
    }
}

fn announce(running: &Running, config: &Config, json: bool) -> Result<(), Failure> {
    let started = running.started();
    for notice in running.notices() {
        tracing::warn!(component = "venue", "{notice}");
    }
    if json {
        return print_json(started);
    }
    let addresses = &started["addresses"];
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let rows = [
        ("order entry", "OUCH 5.0, SoupBinTCP", text(&addresses["order_entry"])),
        ("order entry udp", "OUCH 5.0, UDP", text(&addresses["order_entry_udp"])),
        ("market data", "ITCH 5.0, MoldUDP64", text(&addresses["market_data"])),
        ("re-request", "MoldUDP64", text(&addresses["re_request"])),
        ("snapshot", "GLIMPSE 5.0, SoupBinTCP", text(&addresses["snapshot"])),
        ("feed over tcp", "ITCH 5.0, SoupBinTCP", text(&addresses["feed_tcp"])),
    ];
    print_line(&format!("damrak {} serves", env!("CARGO_PKG_VERSION")))?;
    for (name, protocol, address) in rows {
        print_line(&format!("  {name:<16} {protocol:<23} {address}"))?;
    }
    if addresses["market_data_b"].is_string() {
        let address = text(&addresses["market_data_b"]);
        print_line(&format!("  {:<16} {:<23} {address}", "market data, B", "ITCH 5.0, MoldUDP64"))?;
    }
    if addresses["order_entry_fix"].is_string() {
        let address = text(&addresses["order_entry_fix"]);
        print_line(&format!(
            "  {:<16} {:<23} {address}",
            "order entry fix", "FIX 4.2, 4.4, 5.0 SP1"
        ))?;
    }
    if addresses["order_entry_ouch42"].is_string() {
        let address = text(&addresses["order_entry_ouch42"]);
        let name = "order entry 4.2";
        print_line(&format!("  {name:<16} {:<23} {address}", "OUCH 4.2, SoupBinTCP"))?;
    }
    if addresses["order_entry_sluice"].is_string() {
        let address = text(&addresses["order_entry_sluice"]);
        let name = "order entry";
        print_line(&format!("  {name:<16} {:<23} {address}", "OUCH 5.0, Sluice"))?;
    }
    if addresses["market_data_fix"].is_string() {
        let address = text(&addresses["market_data_fix"]);
        print_line(&format!("  {:<16} {:<23} {address}", "market data fix", "FIX, V W X Y"))?;
    }
    if addresses["admin"].is_string() {
        print_line(&format!("  {:<16} {:<23} {}", "admin", "HTTP", text(&addresses["admin"])))?;
    }
    let network = &started["network"];
    print_line(&format!(
        "  network          tcp by {}, udp by {}, receive buffer {} bytes",
        text(&network["tcp"]),
        text(&network["udp"]),
        grouped(network["receive_buffer"]["granted"].as_u64().unwrap_or(0)),
    ))?;
    let symbols: Vec<_> = config.instruments.iter().map(|i| i.symbol.as_str()).collect();
    print_line(&format!("  instruments      {}", symbols.join(" ")))?;
    let participants: Vec<_> = config
        .participants
        .iter()
        .map(|participant| match participant.udp {
            Some(address) => format!("{} (udp {address})", participant.username),
            None => participant.username.clone(),
        })
        .collect();
    print_line(&format!("  participants     {}", participants.join(" ")))?;
    print_line(&format!(
        "  journal          {} ({}, {}), {} inputs recovered in {:.3} s",
        config.journal.directory.display(),
        text(&started["durability"]),
        text(&started["journal_method"]),
        grouped(started["recovered"]["last_sequence"].as_u64().unwrap_or(0)),
        started["recovered"]["seconds"].as_f64().unwrap_or(0.0),
    ))?;
    if started["ledger"].is_string() {
        print_line(&format!("  ledger           {}", text(&started["ledger"])))?;
    }
    let snapshot = &started["recovered"]["snapshot"];
    if snapshot.is_object() {
        print_line(&format!(
            "  snapshot         of sequence {}; {} inputs after it were replayed",
            grouped(snapshot["sequence"].as_u64().unwrap_or(0)),
            grouped(started["recovered"]["replayed"].as_u64().unwrap_or(0)),
        ))?;
    }
    for passed_over in started["recovered"]["passed_over"].as_array().into_iter().flatten() {
        tracing::warn!(component = "snapshot", "snapshot ignored: {}", text(passed_over));
    }
    let cut = &started["recovered"]["torn_tail"];
    if cut.is_object() {
        print_line(&format!(
            "  torn tail        {} bytes from offset {} of {} were an unfinished record and \
             were truncated",
            cut["bytes"],
            cut["offset"],
            text(&cut["path"]),
        ))?;
    }
    for change in started["changes"].as_array().into_iter().flatten() {
        print_line(&format!("  changed          {}", text(change)))?;
    }
    print_line(&format!("  layout           {}", text(&started["layout"])))?;
    if io::stdout().is_terminal() {
        print_line("Ctrl-C stops it. Try: damrak load, damrak feed")?;
    }
    Ok(())
}

/// The figures as one line of text.
fn status_line(status: &Value) -> String {
    let number = |value: &Value| grouped(value.as_u64().unwrap_or(0));
    let rings: Vec<_> = status["rings"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|ring| {
            format!(
                "{} {}/{}",
                ring["name"].as_str().unwrap_or("?"),
                ring["high_water"].as_u64().unwrap_or(0),
                ring["capacity"].as_u64().unwrap_or(0)
            )
        })
        .collect();
    let refusing = status["journal"]["refusing"].as_str();
    let refusing = match status["journal"]["holding"].as_bool() {
        Some(true) => "TAKES NO COMMAND: NoRoom  ".to_owned(),
        _ => refusing.map_or(String::new(), |reason| format!("REFUSES ORDERS: {reason}  ")),
    };
    format!(
        "{refusing}sequence {}  orders {}  trades {}  live {}  connections {}  high water: {}",
        number(&status["sequence"]),
        number(&status["orders"]),
        number(&status["trades"]),
        number(&status["live_orders"]),
        number(&status["order_entry"]["connections"]),
        rings.join(", "),
    )
}
