//! `damrak load`: open-loop load on a venue over the wire.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::Args;
use client::participant::ClientError;
use lab::{
    latency::Percentiles,
    load::{
        FailureReason, LoadError, LoadOptions, LoadProgress, LoadReport, LoadSession, LoadSymbol,
    },
    schedule::Arrivals,
};
use market::{Price, Symbol};
use serde_json::{Value, json};
use wire::soupbintcp::{LoginRejectReason, LoginRequest};

use super::output::{duration, grouped, print_json, print_line};
use venue::{
    clock::SystemClock,
    config::{Decimal, Rate, Span},
    failure::Failure,
};

/// Send OUCH load to a venue and measure its answers.
///
/// Open loop: each request is due at a fixed time, whether or not those before it were answered, and
/// latency counts from that time. A stall shows in every request that had to wait for it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak load --rate 50k/s --for 10s\n  \
    damrak load --session user01:password01 --session user02:password02 --rate 1k/s\n  \
    damrak load --udp 127.0.0.1:26404 --pack 8 --rate 80k/s --json")]
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
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::environment(format!("cannot catch signals: {error}")))?;
    }
    let clock = SystemClock::start();
    let report = lab::load::run(&options, &clock, &stop, &mut |progress| {
        if !arguments.json {
            // A closed pipe ends the process, so an error needs no handling here.
            let _ = print_line(&progress_line(progress));
        }
    })
    .map_err(|error| not_begun(arguments, error))?;
    if let Some(folder) = &arguments.out {
        write_distributions(folder, &report)?;
    }
    if arguments.json {
        print_json(&summary(&report, arguments))?;
    } else {
        print_line(&format!(
            "open loop   rate {}/s   sessions {}   OUCH 5.0",
            grouped(arguments.rate.0),
            report.session_count
        ))?;
        print_line(report.to_string().trim_end())?;
    }
    if report.failures.is_empty() || stop.load(Ordering::Relaxed) {
        Ok(())
    } else {
        let reasons: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
        Err(Failure::runtime(format!("connections lost: {}", reasons.join("; "))))
    }
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

fn progress_line(progress: &LoadProgress<'_>) -> String {
    let latency = progress.scheduled.percentiles();
    format!(
        "{:>4.0} s  sent {}  acked {}  fills {}  waiting {}  p50 {}  p99 {}  p99.9 {}  max {}",
        (progress.since_ns + progress.interval_ns) as f64 / 1e9,
        grouped(progress.counts.requests()),
        grouped(progress.counts.replies),
        grouped(progress.counts.fills),
        progress.outstanding,
        duration(latency.p50_ns),
        duration(latency.p99_ns),
        duration(latency.p999_ns),
        duration(latency.max_ns),
    )
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

fn summary(report: &LoadReport, arguments: &Arguments) -> Value {
    let counts = &report.counts;
    let rejects = counts.rejects.iter();
    let rejects = rejects.map(|(reason, count)| (format!("{reason:#06x}"), json!(count)));
    let mut summary = json!(counts);
    summary["rejects"] = Value::Object(rejects.collect());
    for (key, value) in [
        ("schema", json!("damrak/load/1")),
        ("open_loop", json!(true)),
        ("rate_per_second", json!(arguments.rate.0)),
        ("sessions", json!(report.session_count)),
        ("seconds", json!(report.elapsed_ns as f64 / 1e9)),
        ("requests", json!(counts.requests())),
        ("latency_ns", percentiles(&report.scheduled.percentiles())),
        ("latency_from_send_ns", percentiles(&report.sent.percentiles())),
        ("failures", report.failures.iter().map(ToString::to_string).collect()),
    ] {
        summary[key] = value;
    }
    summary
}
