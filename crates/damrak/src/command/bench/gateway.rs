//! `damrak bench gateway`: the gateways of a venue, compared with bare programs.

use std::{env, fs, path::PathBuf, thread};

use clap::Args;
use serde_json::json;

use super::{
    super::output::{duration, grouped, print_json, print_line, table},
    machine,
};
use lab::{
    bench::gateway::{
        self, GatewayOptions, GatewayPath, GatewayRow, GatewaySide, OrderTimes, PATHS,
    },
    environment::Environment,
};
use venue::{clock::SystemClock, failure::Failure};

/// Measure the gateways of a venue, compared with bare programs that answer the same client.
///
/// Orders and cancels, prepared beforehand, go through a venue of `damrak serve` on one spinning thread
/// (journal `written`, stores of the default size) and, in turns, through a bare program. Over UDP this is an exchange
/// with a book, a log and a feed, but without sessions, balances and recovery; over TCP it is an echo that answers with
/// as many bytes as the venue. The client is one thread that never sleeps, with a fixed number of requests outstanding.
/// `udp`, `tcp` and `fix` have one outstanding, and their ratio is that of the median round trips. A number in the
/// name of a path is the number outstanding, and the ratio is that of the rates. In `tcp-parked` venue and echo sleep
/// while no data arrives. `fix-resend` requests the reports on all requests again, from memory, and `fix-resend-disk`
/// from the disk: the times are those until the first message, and the client sleeps in read(2) while no data arrives.
/// Both also show the memory that the resend took, and the round trips of another session, which sends an order per
/// millisecond, alone and during the resend. A run fails if a request is rejected or not answered. Needs two cores.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak bench gateway\n  \
    damrak bench gateway --path udp,tcp,fix --runs 11 --json\n  \
    damrak bench gateway --path fix-resend-disk --reports 10000000 --runs 3\n  \
    damrak bench gateway --divisor 10 --client-core 2 --venue-core 3")]
pub struct Arguments {
    /// Paths, comma-separated [default: all]: udp, udp-1024, udp-gso (datagrams of one length sent together),
    /// udp-packed (31 requests a datagram), tcp, tcp-parked, tcp-1024, fix, fix-64, fix-1024, fix-resend,
    /// fix-resend-disk.
    #[arg(long, value_delimiter = ',', value_parser = path)]
    path: Vec<GatewayPath>,
    /// Runs of each side of a path; the sides take turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Divide the number of requests of a run by this.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    divisor: u64,
    /// Reports that `fix-resend` and `fix-resend-disk` ask for [default: 100000].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    reports: Option<u64>,
    /// Core of the client.
    #[arg(long, value_name = "CORE", default_value_t = 0)]
    client_core: usize,
    /// Core of the venue and of the bare program.
    #[arg(long, value_name = "CORE", default_value_t = 1)]
    venue_core: usize,
    /// Folder for journals and logs, which are removed afterwards [default: the temporary folder].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn path(name: &str) -> Result<GatewayPath, String> {
    PATHS.into_iter().find(|path| path.name == name).ok_or_else(|| {
        format!("there is no path {name:?}; there are {}", PATHS.map(|path| path.name).join(", "))
    })
}

/// Runs `damrak bench gateway`.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 || arguments.client_core == arguments.venue_core {
        return Err(Failure::environment(format!(
            "client and venue never sleep, so each needs a core: they have {}, and this machine has {cores}",
            if arguments.client_core == arguments.venue_core { "the same one" } else { "one each" },
        ))
        .hint("--client-core and --venue-core name two cores"));
    }
    let parent = arguments.folder.clone().unwrap_or_else(env::temp_dir);
    let scratch = parent.join(format!("damrak-bench-gateway-{}", std::process::id()));
    let options = GatewayOptions {
        paths: if arguments.path.is_empty() { PATHS.into() } else { arguments.path.clone() },
        runs: arguments.runs as usize,
        divisor: arguments.divisor as usize,
        reports: arguments.reports.map(|reports| reports as usize),
        client_core: Some(arguments.client_core),
        venue_core: Some(arguments.venue_core),
        scratch: scratch.clone(),
    };
    let started = Environment::now();
    let measured = gateway::measure(&options, SystemClock::start(), |row| {
        if arguments.json { Ok(()) } else { print_line(&row_table(row)) }
    });
    let removed = fs::remove_dir_all(&scratch);
    let rows = measured?;
    removed.map_err(|error| {
        Failure::runtime(format!("cannot remove {}: {error}", scratch.display()))
    })?;
    let environment = Environment::now().since(&started);
    if arguments.json {
        return print_json(&json!({
            "schema": "damrak/bench-gateway/1",
            "runs": options.runs,
            "divisor": options.divisor,
            "cores": { "client": arguments.client_core, "venue": arguments.venue_core },
            "rows": rows.iter().map(GatewayRow::json).collect::<Vec<_>>(),
            "environment": environment,
        }));
    }
    print_line(&format!("figures are medians of {} runs. {}", options.runs, machine(&environment)))
}

fn row_table(row: &GatewayRow) -> String {
    let line = |name: &str, side: &GatewaySide| {
        let time = |runs: &lab::bench::Runs| duration(runs.median() as u64);
        [
            name.to_owned(),
            grouped(side.answered_per_second.median() as u64),
            time(&side.p50_ns),
            time(&side.p99_ns),
            time(&side.p999_ns),
        ]
    };
    let resend = row.resend.as_ref().map_or(String::new(), |figures| {
        let times = |it: &OrderTimes| {
            let time = |runs: &lab::bench::Runs| duration(runs.median() as u64);
            format!("p50 {} and p99 {}", time(&it.p50_ns), time(&it.p99_ns))
        };
        let memory = match figures.memory_bytes.all() {
            [] => "not shown by this system".into(),
            _ => format!("{:.1} MiB", figures.memory_bytes.median() / f64::from(1 << 20)),
        };
        format!(
            "\n{} reports, on disk {} after the last; memory for the resend {memory}; orders of another session take {} \
             alone, {} during the resend",
            grouped(figures.reports as u64),
            duration(figures.waited_ns),
            times(&figures.orders_alone),
            times(&figures.orders_meanwhile),
        )
    });
    let of = if row.path.is_round_trip() { "median round trip" } else { "rate" };
    format!(
        "{}: {:.2} times the {of} of {}\n{}{resend}",
        row.path.name,
        row.ratio(),
        row.path.bare,
        table(
            ["", "answered/s", "p50", "p99", "p99.9"],
            [line("venue", &row.venue), line("bare", &row.bare)]
        ),
    )
}
