//! `damrak load`: open-loop load on a venue over the wire.

use std::{fs, io::IsTerminal, net::SocketAddr, path::PathBuf, sync::atomic::Ordering};

use clap::Args;
use client::participant::ClientError;
use lab::{
    environment::{Environment, machine_line},
    latency::Percentiles,
    load::{
        FailureReason, LoadError, LoadOptions, LoadProgress, LoadReport, LoadSession, LoadSymbol,
        Loop, OUTSTANDING_MAX_DEFAULT, Slo, reject_name,
    },
    schedule::Arrivals,
};
use market::{Price, Symbol};
use serde_json::{Value, json};
use wire::soupbintcp::{LoginRejectReason, LoginRequest};

use super::{
    output::{duration, grouped, print_json, print_line},
    stop_flag,
};
use venue::{
    clock::SystemClock,
    config::{Decimal, Rate, Span},
    failure::{ExitCode, Failure},
};

/// Send OUCH load to a venue and measure its answers.
///
/// Open loop: each request is due at a fixed time, whether or not those before it were answered, and
/// latency counts from that time. A stall shows in every request that had to wait for it, and a request
/// that was not sent or not answered counts with the time that it waited.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak load --rate 50k/s --for 10s\n  \
    damrak load --session user01:password01 --session user02:password02 --rate 1k/s\n  \
    damrak load --udp 127.0.0.1:26404 --pack 8 --rate 80k/s --json\n  \
    damrak load --rate 20k/s --slo 'p99<200us,loss==0'\n\n\
    Exit codes of its own:\n  5  an objective of --slo was not met\n  \
    6  the venue rejected every order")]
pub struct Arguments {
    /// Order entry over SoupBinTCP.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:26400")]
    to: SocketAddr,
    /// A session over SoupBinTCP; may be repeated. Without any, and without --udp: user01.
    #[arg(long, value_name = "USER:PASSWORD")]
    session: Vec<String>,
    /// Order entry over UDP.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:26401")]
    to_udp: SocketAddr,
    /// A session over UDP, named by its local address; may be repeated.
    #[arg(long, value_name = "LOCAL ADDRESS")]
    udp: Vec<SocketAddr>,
    /// Most requests in a datagram; requests that are due together share one.
    #[arg(long, default_value_t = 1)]
    pack: usize,
    /// Requests of all sessions together. A venue rejects orders of a session above
    /// throttle.messages_per_second, 100,000 by default.
    #[arg(long, default_value = "10k/s")]
    rate: Rate,
    /// Duration.
    #[arg(long = "for", value_name = "TIME", default_value = "10s")]
    duration: Span,
    /// Closed loop instead: each session keeps this many requests without an answer, and sends the next
    /// when one is answered. --rate and --poisson have no effect. It finds what a venue takes, and hides
    /// stalls, so all its results are labelled.
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "poisson"])]
    closed_loop: Option<usize>,
    /// Requests of a session that may be without an answer; beyond it requests are sent late, and a
    /// warning says for how long that held.
    #[arg(long, value_name = "N", default_value_t = OUTSTANDING_MAX_DEFAULT)]
    outstanding_max: usize,
    /// Objectives that the run must meet, or exit code 5: p99<200us, max<5ms, loss==0, late<1%,
    /// rejects==0, sent>=50k/s, answered>=50k/s; comma-separated, with < <= > >= ==.
    #[arg(long, value_name = "OBJECTIVES")]
    slo: Option<Slo>,
    /// Requests at random times (Poisson) instead of evenly spread.
    #[arg(long)]
    poisson: bool,
    /// Symbols to trade, comma-separated: AAPL,MSFT.
    #[arg(long, value_delimiter = ',', default_value = "AAPL,MSFT,NVDA")]
    symbols: Vec<String>,
    /// Price around which orders begin, in currency.
    #[arg(long, default_value = "150.00")]
    price: Decimal,
    /// Price increment, in currency.
    #[arg(long, default_value = "0.01")]
    price_increment: Decimal,
    /// Number of threads; sessions are spread over them.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seed of the requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the percentile distributions (.hgrm) into this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak load`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut options = LoadOptions::new(
        sessions(arguments)?,
        symbols(&arguments.symbols, arguments.price, arguments.price_increment)?,
        arguments.rate.0,
        arguments.duration.0.as_nanos() as u64,
    );
    if arguments.poisson {
        options.arrivals = Arrivals::Poisson;
    }
    options.seed = arguments.seed;
    options.threads = arguments.threads;
    options.requests_per_datagram = arguments.pack;
    options.outstanding_max = arguments.outstanding_max;
    if let Some(outstanding) = arguments.closed_loop {
        options.pacing = Loop::Closed { outstanding };
    }
    let stop = stop_flag(&[])?;
    let clock = SystemClock::start();
    let started = Environment::now();
    let is_watched = std::io::stderr().is_terminal();
    let mut intervals = Vec::new();
    let report = lab::load::run(&options, &clock, &stop, &mut |progress| {
        intervals.push(interval(progress));
        if is_watched {
            eprint!("\r{:<79}", progress_line(progress));
        }
    })
    .map_err(|error| not_begun(arguments, error))?;
    if is_watched {
        eprint!("\r{:<79}\r", "");
    }
    let environment = Environment::now().since(&started);
    if let Some(folder) = &arguments.out {
        write_distributions(folder, &report)?;
    }
    let results = arguments.slo.as_ref().map_or_else(Vec::new, |slo| slo.results(&report));
    if arguments.json {
        let mut summary = summary(&report, arguments, &options);
        summary["environment"] = environment;
        summary["intervals"] = Value::Array(intervals);
        summary["slo"] = results
            .iter()
            .map(|result| {
                json!({"objective": result.objective, "measured": result.measured,
                       "passed": result.passed})
            })
            .collect();
        summary["passed"] = json!(results.iter().all(|result| result.passed));
        print_json(&summary)?;
    } else {
        print_line(report.to_string().trim_end())?;
        for result in &results {
            print_line(&result.to_string())?;
        }
        print_line(&venue_line(&report, &options))?;
        print_line(&machine_line(&environment))?;
    }
    let stopped = stop.load(Ordering::Relaxed);
    if !report.failures.is_empty() && !stopped {
        let reasons: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
        return Err(Failure::runtime(format!("connections lost: {}", reasons.join("; "))));
    }
    if report.is_all_rejected() {
        return Err(Failure::new(ExitCode::Rejected, "the venue rejected every order").hint(
            "the reasons are above; are the symbols, prices and limits those of the venue?",
        ));
    }
    let missed: Vec<_> =
        results.iter().filter(|result| !result.passed).map(ToString::to_string).collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(ExitCode::Slo, format!("objectives not met: {}", missed.join(", "))))
}

/// The venue: its addresses and the names of its reply streams.
fn venue_line(report: &LoadReport, options: &LoadOptions) -> String {
    let names = match &report.stream_names[..] {
        [] => "unknown".to_owned(),
        names => names.join(", "),
    };
    format!("venue: {}   session {names}", addresses(options).join(", "))
}

/// The addresses of the venue to which the sessions go, each once.
fn addresses(options: &LoadOptions) -> Vec<String> {
    let mut addresses: Vec<String> = options
        .sessions
        .iter()
        .map(|session| match session {
            LoadSession::Tcp { server, .. } => format!("tcp {server}"),
            LoadSession::Udp { server, .. } => format!("udp {server}"),
        })
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Why the load did not begin, with the name of the session.
fn not_begun(arguments: &Arguments, error: LoadError) -> Failure {
    let LoadError::Session { session, source } = error else { return Failure::runtime(error) };
    let named = |text: &String| text.split(':').next().unwrap_or_default().to_owned();
    let user = match (arguments.session.get(session), arguments.session.is_empty()) {
        (Some(text), _) => named(text),
        (None, true) if arguments.udp.is_empty() => "user01".to_owned(),
        _ => format!("session {session}"),
    };
    match source {
        FailureReason::Client(ClientError::Rejected(LoginRejectReason::NotAuthorized)) => {
            Failure::runtime(format!("{user}: wrong user name or password"))
        }
        FailureReason::Client(ClientError::Rejected(LoginRejectReason::SessionNotAvailable)) => {
            Failure::runtime(format!("{user} is logged in already"))
        }
        source => {
            Failure::runtime(anyhow::Error::new(source).context(format!("cannot use {user}")))
                .hint("is the venue running? `damrak serve` prints its addresses")
        }
    }
}

fn sessions(arguments: &Arguments) -> Result<Vec<LoadSession>, Failure> {
    let default = ["user01:password01".to_owned()];
    let named: &[String] = match (&arguments.session[..], &arguments.udp[..]) {
        ([], []) => &default,
        (named, _) => named,
    };
    let tcp = named.iter().map(|text| {
        let (username, password) = text
            .split_once(':')
            .ok_or_else(|| Failure::usage(format!("--session {text:?} is not USER:PASSWORD")))?;
        let login = LoginRequest::new(username, password).ok_or_else(|| {
            Failure::usage(format!(
                "--session {text:?}: a user has up to 6 characters, a password up to 10"
            ))
        })?;
        Ok(LoadSession::Tcp { server: arguments.to, login })
    });
    let udp = arguments
        .udp
        .iter()
        .map(|local| Ok(LoadSession::Udp { server: arguments.to_udp, local: *local }));
    tcp.chain(udp).collect()
}

/// Symbols to trade around a price.
///
/// # Errors
/// A name is not a valid symbol.
pub(super) fn symbols(
    names: &[String],
    price: Decimal,
    price_increment: Decimal,
) -> Result<Vec<LoadSymbol>, Failure> {
    names
        .iter()
        .map(|name| {
            let symbol =
                Symbol::new(name).filter(|symbol| !symbol.is_blank()).ok_or_else(|| {
                    Failure::usage(format!("{name:?} is not a symbol of 1 to 8 characters"))
                })?;
            let (mid, price_increment) = (Price(price.0), Price(price_increment.0));
            Ok(LoadSymbol { symbol, mid, price_increment })
        })
        .collect()
}

/// Writes `order-to-ack.hgrm` and `order-to-ack-sent.hgrm`.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write_distributions(folder: &PathBuf, report: &LoadReport) -> Result<(), Failure> {
    fs::create_dir_all(folder)
        .and_then(|()| {
            fs::write(folder.join("order-to-ack.hgrm"), report.scheduled.distribution())?;
            fs::write(folder.join("order-to-ack-sent.hgrm"), report.sent.distribution())
        })
        .map_err(|error| Failure::runtime(format!("cannot write {}: {error}", folder.display())))
}

/// One line of at most 79 characters.
fn progress_line(progress: &LoadProgress<'_>) -> String {
    let latency = progress.scheduled.percentiles();
    let line = format!(
        "{:>4.0} s  {}/s answered  {} waiting  p50 {}  p99 {}  max {}",
        (progress.since_ns + progress.interval_ns) as f64 / 1e9,
        grouped((latency.count as f64 * 1e9 / progress.interval_ns as f64) as u64),
        grouped(progress.outstanding as u64),
        duration(latency.p50_ns),
        duration(latency.p99_ns),
        duration(latency.max_ns),
    );
    line.chars().take(79).collect()
}

/// An interval for JSON: counts since the start of the run, percentiles of the interval.
fn interval(progress: &LoadProgress<'_>) -> Value {
    json!({
        "start_ns": progress.since_ns,
        "length_ns": progress.interval_ns,
        "requests": progress.counts.requests(),
        "replies": progress.counts.replies,
        "outstanding": progress.outstanding,
        "latency_ns": percentiles(&progress.scheduled.percentiles()),
    })
}

/// Percentiles for JSON, in nanoseconds.
pub(super) fn percentiles(latency: &Percentiles) -> Value {
    json!({
        "count": latency.count,
        "min": latency.min_ns,
        "p50": latency.p50_ns,
        "p90": latency.p90_ns,
        "p99": latency.p99_ns,
        "p999": latency.p999_ns,
        "p9999": latency.p9999_ns,
        "p99999": latency.p99999_ns,
        "max": latency.max_ns,
    })
}

fn summary(report: &LoadReport, arguments: &Arguments, options: &LoadOptions) -> Value {
    let counts = &report.counts;
    let rejects = counts.rejects.iter();
    let rejects = rejects.map(|(code, count)| (reject_name(*code), json!(count)));
    let mut summary = json!(counts);
    summary["rejects"] = Value::Object(rejects.collect());
    let latency = match report.pacing {
        Loop::Open => percentiles(&report.scheduled.percentiles()),
        // Without a schedule there is nothing to count from but the send.
        Loop::Closed { .. } => Value::Null,
    };
    let service = percentiles(&report.sent.percentiles());
    for (key, value) in [
        ("schema", json!("damrak/load/2")),
        ("open_loop", json!(report.pacing == Loop::Open)),
        ("closed_loop", json!(arguments.closed_loop)),
        ("requested_per_second", json!(report.rate_per_second)),
        ("sent_per_second", json!(report.sent_per_second())),
        ("answered_per_second", json!(report.answered_per_second())),
        ("sessions", json!(report.session_count)),
        ("seed", json!(arguments.seed)),
        ("seconds", json!(report.elapsed_ns as f64 / 1e9)),
        ("requests", json!(counts.requests())),
        ("latency_ns", latency),
        ("latency_from_send_ns", service),
        ("limit", json!(report.limit())),
        ("verdict", json!(report.verdict())),
        ("warnings", json!(report.warnings())),
        ("evidence", json!(report.evidence)),
        ("venue", json!({"addresses": addresses(options), "streams": report.stream_names})),
        ("failures", report.failures.iter().map(ToString::to_string).collect()),
    ] {
        summary[key] = value;
    }
    summary
}
