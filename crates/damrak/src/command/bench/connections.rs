//! `damrak bench connections`: order entry over TCP by each way to watch connections, with few connections and with
//! many.

use std::{env, fs, path::PathBuf, thread};

use clap::Args;
use serde_json::json;

use super::{
    super::output::{duration, grouped, print_json, print_line, table},
    machine,
};
use lab::{
    bench::{
        Runs,
        gateway::connections::{self, CONNECTIONS_MAX, ConnectionsOptions, ConnectionsRow},
    },
    environment::Environment,
};
use venue::{
    clock::SystemClock,
    config::{Rate, Span, TcpBackendName},
    failure::Failure,
};

/// Measure order entry over TCP with few and many connections, by epoll, by io_uring and by a thread for each.
///
/// Each row has a venue in a process of its own (`damrak serve` with `network.tcp`, all agents on one thread, journal
/// `written`), on cores of its own, and a client with one thread that never sleeps. First all sessions log in and stay
/// silent for 2.5 s. The growth of the venue's resident memory up to then, divided by the sessions, is the memory of a
/// session; it is shown for 100 sessions or more and excludes kernel buffers. Then a closed loop keeps one request
/// outstanding on each connection. Then an open loop sends at --rate on the connections in turn; latency counts from the
/// time at which a request was due, so it includes delays of the client. A run fails if a request is rejected or not
/// answered.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak bench connections\n  \
    damrak bench connections --backend epoll,threads --connections 1000 --runs 5 --json\n  \
    damrak bench connections --client-core 2 --venue-cores 3,4,5 --rate 500k/s")]
pub struct Arguments {
    /// Ways to watch connections, comma-separated: epoll, io_uring, threads.
    #[arg(long, value_delimiter = ',', value_parser = backend, default_values = ["epoll", "io_uring", "threads"])]
    backend: Vec<TcpBackendName>,
    /// Numbers of connections, comma-separated.
    #[arg(long, value_delimiter = ',', value_parser = connection_count, default_values = ["1", "10", "100", "1000"])]
    connections: Vec<usize>,
    /// Requests a second of the open loop, of all connections together.
    #[arg(long, default_value = "200k/s")]
    rate: Rate,
    /// How long the open loop sends.
    #[arg(long = "for", value_name = "TIME", default_value = "5s")]
    duration: Span,
    /// Requests of the closed loop, of all connections together.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    requests: u64,
    /// An answer of the open loop that takes longer is late.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    late: Span,
    /// Runs of each row; the ways to watch connections take turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Core of the client.
    #[arg(long, value_name = "CORE", default_value_t = 0)]
    client_core: usize,
    /// Cores for all threads of the venue, comma-separated.
    #[arg(long, value_name = "CORES", value_delimiter = ',', default_values = ["1"])]
    venue_cores: Vec<usize>,
    /// Folder for the journals, which are removed afterwards [default: the temporary folder].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn backend(name: &str) -> Result<TcpBackendName, String> {
    TcpBackendName::ALL.into_iter().find(|backend| backend.as_str() == name).ok_or_else(|| {
        let known = TcpBackendName::ALL.map(TcpBackendName::as_str).join(", ");
        format!("there is no way {name:?} to watch connections; there are {known}")
    })
}

fn connection_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
    count.ok_or_else(|| format!("a number from 1 to {CONNECTIONS_MAX} is expected"))
}

/// With fewer sessions, their memory is lost in the fluctuation of the venue's own.
const SESSIONS_MIN: usize = 100;

/// Runs `damrak bench connections`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 || arguments.venue_cores.contains(&arguments.client_core) {
        return Err(Failure::environment(format!(
            "the client never sleeps, so it needs a core of its own: the client has core {}, the venue {:?}, and this \
             machine has {cores}",
            arguments.client_core, arguments.venue_cores
        ))
        .hint("--client-core names one core, --venue-cores others"));
    }
    let parent = arguments.folder.clone().unwrap_or_else(env::temp_dir);
    let scratch = parent.join(format!("damrak-bench-connections-{}", std::process::id()));
    let options = ConnectionsOptions {
        backends: arguments.backend.clone(),
        connections: arguments.connections.clone(),
        per_second: arguments.rate.0,
        open_ns: arguments.duration.0.as_nanos() as u64,
        closed_requests: arguments.requests as usize,
        late_ns: arguments.late.0.as_nanos() as u64,
        runs: arguments.runs as usize,
        client_core: Some(arguments.client_core),
        venue_cores: arguments.venue_cores.clone(),
        scratch: scratch.clone(),
    };
    let started = Environment::now();
    let measured = connections::measure(&options, SystemClock::start(), |row| {
        let Some(skipped) = row.is_refused.then(|| title(row)) else { return Ok(()) };
        if arguments.json {
            return Ok(());
        }
        print_line(&format!(
            "skipped: {skipped}: the system refuses it; run `damrak doctor` for the reason"
        ))
    });
    // After a failure, the venue's output is worth more than an empty folder.
    let rows = measured.map_err(|failure| match scratch.join("venue.log").exists() {
        true => failure.hint(format!("the venue's log is {}", scratch.join("venue.log").display())),
        false => failure,
    })?;
    fs::remove_dir_all(&scratch).map_err(|error| {
        Failure::runtime(format!("cannot remove {}: {error}", scratch.display()))
    })?;
    let environment = Environment::now().since(&started);
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/bench-connections/1",
            "runs": options.runs,
            "rate_per_second": options.per_second,
            "open_ns": options.open_ns,
            "late_ns": options.late_ns,
            "cores": { "client": arguments.client_core, "venue": arguments.venue_cores },
            "rows": rows.iter().map(ConnectionsRow::json).collect::<Vec<_>>(),
            "environment": environment,
        }));
    }
    print_line(&rows_table(&rows))?;
    print_line(&format!(
        "figures are medians of {} runs; one/s has one request on each connection, open/s sends {}/s on all together for \
         {}; an answer is late after {}. {}",
        options.runs,
        grouped(options.per_second),
        duration(options.open_ns),
        duration(options.late_ns),
        machine(&environment)
    ))
}

fn title(row: &ConnectionsRow) -> String {
    format!("{} with {} connections", row.backend.as_str(), row.connections)
}

fn rows_table(rows: &[ConnectionsRow]) -> String {
    let time = |runs: &Runs| duration(runs.median() as u64);
    let count = |runs: &Runs| grouped(runs.median() as u64);
    let lines = rows.iter().filter(|row| !row.is_refused).map(|row| {
        [
            grouped(row.connections as u64),
            row.backend.as_str().to_owned(),
            count(&row.closed_per_second),
            time(&row.closed_p50_ns),
            time(&row.closed_p99_ns),
            count(&row.open_per_second),
            time(&row.open_p50_ns),
            time(&row.open_p99_ns),
            time(&row.open_p999_ns),
            time(&row.open_max_ns),
            count(&row.open_late),
            match row.connections < SESSIONS_MIN {
                true => "-".to_owned(),
                false => format!("{:.1}", row.session_bytes.median() / 1024.0),
            },
            format!("{:.0}", row.started_bytes.median() / f64::from(1 << 20)),
        ]
    });
    let header = [
        "connections",
        "by",
        "one/s",
        "p50",
        "p99",
        "open/s",
        "p50",
        "p99",
        "p99.9",
        "longest",
        "late",
        "KiB a session",
        "MiB at start",
    ];
    table(header, lines)
}
