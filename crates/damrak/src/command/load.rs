//! `damrak load`: open-loop load on a venue, by OUCH or FIX.

mod content;
mod stages;

use std::{
    fs,
    io::{self, IsTerminal, Write},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::Args;
use client::participant::{ClientError, DatagramBatching};
use lab::{
    environment::{Environment, machine_line},
    latency::{Latency, Percentiles},
    load::{
        FailureReason, LoadError, LoadMix, LoadOptions, LoadProgress, LoadReport, LoadSession,
        LoadSymbol, Loop, OUTSTANDING_MAX_DEFAULT, PacketLatency, RateSearch, RecordedFlow,
        ReplayPace, SessionFailure, Slo, SloResult, TickClient, TickToTrade, reject_name,
    },
    schedule::Arrivals,
};
use os::PacketTimes;
use serde_json::{Value, json};
use wire::{fix::Version, soupbintcp::LoginRejectReason};

pub(super) use self::content::symbols;
use self::content::{replay, sessions, stock_directory, tick_client};
use super::{
    command_line,
    output::{duration, grouped, print_json, print_line, table},
    stop_flag,
};
use venue::{
    clock::SystemClock,
    config::{Decimal, Rate, Span},
    failure::{ExitCode, Failure},
};

/// Send orders by OUCH or FIX to a venue and measure its answers.
///
/// Open loop: each request is due at a fixed time, whether or not earlier requests were answered, and
/// latency counts from that time. So a stall adds to the latency of every request that waits for it. A
/// request that was not sent or not answered counts with the time that it waited.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak load --rate 50k/s --for 10s\n  \
    damrak load --session user01:password01 --session user02:password02 --rate 1k/s\n  \
    damrak load --udp 127.0.0.1:26404 --pack 8 --rate 80k/s --json\n  \
    damrak load --rate 20k/s --slo 'p99<200us,loss==0'\n  \
    damrak load --rate 10k/s --for 2s --slo 'p99<1ms,loss==0' --find-max\n  \
    damrak load --connections 3 --rate 1k/s..100k/s\n  \
    damrak load --fix ALICE:alice --fix-version 4.2 --rate 1k/s\n  \
    damrak load --rate 1k/s --tick-to-trade user02:password02\n  \
    damrak load --replay orders.csv.gz --instruments instruments.csv --connections 3 --speed 10\n\n\
    Exit codes of its own:\n  5  an objective of --slo was not met\n  \
    6  the venue rejected every order")]
pub struct Arguments {
    /// Order entry over SoupBinTCP.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:26400")]
    to: SocketAddr,
    /// A session over SoupBinTCP; may be given several times [default: user01, if there is no --udp and no --fix].
    #[arg(long, value_name = "USER:PASSWORD")]
    session: Vec<String>,
    /// Order entry over UDP.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:26401")]
    to_udp: SocketAddr,
    /// A session over UDP, named by its local address; may be given several times.
    #[arg(long, value_name = "LOCAL ADDRESS")]
    udp: Vec<SocketAddr>,
    /// Order entry by FIX.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:26402")]
    to_fix: SocketAddr,
    /// A session by FIX; may be given several times. Its Logon resets the sequence numbers of both sides.
    #[arg(long, value_name = "USER:PASSWORD")]
    fix: Vec<String>,
    /// The version of FIX: 4.2, 4.4 or 5.0sp1.
    #[arg(long, value_name = "VERSION", default_value = "4.4", value_parser = fix_version)]
    fix_version: Version,
    /// CompID of the venue (its order_entry_fix.comp_id).
    #[arg(long, value_name = "COMP ID", default_value = "DAMRAK")]
    fix_venue: String,
    /// Maximum number of requests in a datagram; requests that are due together share one.
    #[arg(long, default_value_t = 1)]
    pack: usize,
    /// Profile of the order flow: balanced, cancel-heavy, match-heavy, deep-book, origin-a.
    #[arg(long, value_name = "NAME", default_value = "balanced", value_parser = mix, conflicts_with = "replay")]
    mix: LoadMix,
    /// Let the kernel split and join datagrams (UDP_SEGMENT, UDP_GRO): consecutive requests of the same length are sent as
    /// one message. Needs Linux 5.0.
    #[arg(long)]
    gso: bool,
    /// Number of connections: `{}` in --session and --fix becomes 01, 02, …, and each --udp address stands for N
    /// consecutive ports. Without --session: user{}:password{}.
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: u16,
    /// Rate of all sessions together [default: 10k/s]. 10k/s..50k/s rises or falls evenly; 10k/s,20k/s,50k/s is one run
    /// for each rate. A venue rejects orders of a session above throttle.messages_per_second, 100,000 by default.
    #[arg(long)]
    rate: Option<LoadRate>,
    /// Search for the highest rate that meets --slo. The search starts at --rate and doubles it until a run fails, then
    /// bisects down to 5 %. Each run lasts for the time of --for.
    #[arg(long, requires = "slo", conflicts_with = "closed_loop")]
    find_max: bool,
    /// Number of requests that are due at the same time; the rate does not change.
    #[arg(long, value_name = "N", default_value_t = 1)]
    burst: u64,
    /// The venue's admin API (admin.address): adds the times of orders from stage to stage inside the venue.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    /// Also measure latency from packet to packet, by the times at which packets left and arrived (SO_TIMESTAMPING, over
    /// TCP). The clock is the kernel's or, with =hardware, the network card's. With --out, order-to-ack.csv has the times of
    /// each request.
    #[arg(
        long,
        value_name = "CLOCK",
        value_parser = packet_times,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "software",
        conflicts_with = "udp"
    )]
    packet_times: Option<PacketTimes>,
    /// Also run a reference client over SoupBinTCP to --to. It answers each order in the feed with an order of its own that
    /// cannot trade, and measures the times from the feed's packet to the packet of its order and to that of the reply.
    #[arg(long, value_name = "USER:PASSWORD")]
    tick_to_trade: Option<String>,
    /// The feed of --tick-to-trade: the multicast group, or the local address to which it is sent.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "239.10.10.10:26477",
        requires = "tick_to_trade"
    )]
    feed: SocketAddr,
    /// Interface to join the group on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", requires = "tick_to_trade")]
    feed_interface: Ipv4Addr,
    /// Do not measure the floor: the latency of the same load on a null venue, for a second. The floor is the part of the
    /// latency that is due to the generator, the machine and loopback.
    #[arg(long)]
    no_floor: bool,
    /// Duration [default: 10s, or the whole file of --replay].
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Span>,
    /// How long to send late requests and wait for answers after that. A request without an answer by then counts as
    /// unanswered.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    grace: Span,
    /// Send the rows of this order file, which `damrak feed to-orders` writes, instead of the mix: at their recorded times,
    /// at --rate, or with --closed-loop. Each participant in the file needs a session.
    #[arg(long, value_name = "FILE", requires = "instruments", conflicts_with_all = ["symbols", "snapshot", "find_max"])]
    replay: Option<PathBuf>,
    /// The instruments of --replay, which `damrak feed to-orders --instruments` writes.
    #[arg(long, value_name = "FILE", requires = "replay")]
    instruments: Option<PathBuf>,
    /// Send --replay at a multiple of the recorded speed, like 0.5 or 10.
    #[arg(long, value_name = "N", default_value = "1", value_parser = speed, requires = "replay", conflicts_with_all = ["closed_loop", "rate"])]
    speed: f64,
    /// Closed loop: each session keeps N requests outstanding, and sends the next when one is answered. Not with --rate and
    /// --poisson. Measures the throughput of a venue; its latencies hide stalls, so all results are labelled.
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "poisson"])]
    closed_loop: Option<usize>,
    /// Maximum number of unanswered requests of a session. At this number requests are sent late, and a warning gives the
    /// share of the time.
    #[arg(long, value_name = "N", default_value_t = OUTSTANDING_MAX_DEFAULT)]
    outstanding_max: usize,
    /// Objectives of the run, comma-separated; exit code 5 if one is not met: p99<200us, max<5ms, loss==0, late<1%,
    /// rejects==0, sent>=50k/s, answered>=50k/s. Operators are < <= > >= ==.
    #[arg(long, value_name = "OBJECTIVES")]
    slo: Option<Slo>,
    /// Requests at random times (Poisson) instead of evenly spread.
    #[arg(long)]
    poisson: bool,
    /// Symbols to trade, comma-separated [default, without --snapshot: AAPL,MSFT,NVDA, as in `damrak serve`].
    #[arg(long, value_delimiter = ',', conflicts_with = "snapshot")]
    symbols: Vec<String>,
    /// Trade the symbols that the venue's snapshot server (market_data.snapshot) at this address lists.
    #[arg(long, value_name = "ADDRESS")]
    snapshot: Option<SocketAddr>,
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
    /// Write the result with all latency counts (load.json) and the percentile distributions (.hgrm) into this folder;
    /// `damrak report` makes a page of it.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

/// The number of intervals of a run with --out, and the bounds of their length in nanoseconds. Without --out an
/// interval is one second.
const INTERVALS: u64 = 200;
const INTERVAL_NS_MIN: u64 = 100_000_000;
const INTERVAL_NS_MAX: u64 = 1_000_000_000;

const RATE_DEFAULT: u64 = 10_000;
const DURATION_DEFAULT_NS: u64 = 10_000_000_000;
/// The duration if the file ends the load.
const NO_END_NS: u64 = u64::MAX / 4;

/// The rate of a run, or of several.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LoadRate {
    Steady(u64),
    Ramp(u64, u64),
    Steps(Vec<u64>),
}

impl FromStr for LoadRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = |text: &str| text.trim().parse::<Rate>().map(|rate| rate.0);
        if let Some((from, to)) = text.split_once("..") {
            return Ok(Self::Ramp(rate(from)?, rate(to)?));
        }
        let mut rates = text.split(',').map(rate).collect::<Result<Vec<_>, _>>()?;
        Ok(if rates.len() == 1 { Self::Steady(rates.remove(0)) } else { Self::Steps(rates) })
    }
}

/// A run and its surroundings.
struct Measured {
    report: LoadReport,
    intervals: Vec<Value>,
    environment: Value,
    results: Vec<SloResult>,
    floor: Option<LoadReport>,
    /// The times of orders from stage to stage inside the venue; `None` without --admin.
    stages: Option<Value>,
}

/// Runs `damrak load`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let named = sessions(arguments)?;
    let names = match (arguments.snapshot, &arguments.symbols[..]) {
        (Some(address), _) => stock_directory(address, &named, clock)?,
        (None, []) => ["AAPL", "MSFT", "NVDA"].map(str::to_owned).to_vec(),
        (None, names) => names.to_vec(),
    };
    let laboratory = Laboratory {
        arguments,
        named,
        symbols: symbols(&names, arguments.price, arguments.price_increment)?,
        replay: replay(arguments)?,
        tick_client: tick_client(arguments)?,
        stop: stop_flag(&[])?,
        clock,
    };
    let rate = arguments.rate.clone().unwrap_or(LoadRate::Steady(RATE_DEFAULT));
    match &rate {
        LoadRate::Steps(_) if arguments.replay.is_some() => {
            Err(Failure::usage("--replay takes one --rate"))
        }
        LoadRate::Steady(rate) if arguments.find_max => laboratory.find_max(*rate),
        _ if arguments.find_max => {
            Err(Failure::usage("--find-max takes one --rate, to start from"))
        }
        LoadRate::Steps(rates) => laboratory.steps(rates),
        LoadRate::Steady(rate) => laboratory.single(*rate, None),
        LoadRate::Ramp(from, to) => laboratory.single(*from, Some(*to)),
    }
}

/// The settings that all runs of one command share.
struct Laboratory<'a> {
    arguments: &'a Arguments,
    named: Vec<(String, LoadSession)>,
    symbols: Vec<LoadSymbol>,
    replay: Option<RecordedFlow>,
    tick_client: Option<TickClient>,
    stop: Arc<AtomicBool>,
    clock: SystemClock,
}

impl Laboratory<'_> {
    /// Makes one run, with the floor, the stages and the results of its objectives.
    fn single(&self, rate: u64, ramp_to: Option<u64>) -> Result<(), Failure> {
        let mut measured = self.measure(rate, ramp_to)?;
        if !self.arguments.no_floor && !self.stop.load(Ordering::Relaxed) {
            measured.floor = self.floor(rate, ramp_to)?;
        }
        if let Some(folder) = &self.arguments.out {
            write_distributions(folder, &measured.report)?;
            write_result(folder, &self.with_counts(&measured))?;
        }
        if self.arguments.json {
            print_json(&self.summary(&measured))?;
        } else {
            print_line(measured.report.to_string().trim_end())?;
            for result in &measured.results {
                print_line(&result.to_string())?;
            }
            if let Some(stages) = &measured.stages {
                print_line(&stages::text(stages))?;
            }
            if let Some(floor) = &measured.floor {
                print_line(&floor_line(floor))?;
            }
            print_line(&self.venue_line(&measured.report))?;
            print_line(&machine_line(&measured.environment))?;
        }
        self.judge(&measured)
    }

    /// A run at each rate, and a row for each.
    fn steps(&self, rates: &[u64]) -> Result<(), Failure> {
        let mut runs = Vec::new();
        for rate in rates {
            runs.push(self.measure(*rate, None)?);
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        self.print_runs(&runs, None)?;
        runs.iter().try_for_each(|measured| self.judge(measured))
    }

    /// Runs until the highest rate that meets the objectives is known.
    fn find_max(&self, rate: u64) -> Result<(), Failure> {
        let mut search = RateSearch::new(rate);
        let mut runs = Vec::new();
        while let Some(rate) = search.next() {
            let measured = self.measure(rate, None)?;
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            search.tried(measured.is_met() && measured.report.failures.is_empty());
            runs.push(measured);
        }
        self.print_runs(&runs, Some(search.best()))?;
        match search.best() {
            Some(_) => Ok(()),
            None => Err(Failure::new(ExitCode::Slo, "no rate met the objectives")),
        }
    }

    fn options(&self, rate: u64, ramp_to: Option<u64>) -> LoadOptions {
        let arguments = self.arguments;
        let sessions = self.named.iter().map(|(_, session)| *session).collect();
        let duration_ns = match (&arguments.duration, &arguments.replay) {
            (Some(duration), _) => duration.0.as_nanos() as u64,
            (None, Some(_)) => NO_END_NS,
            (None, None) => DURATION_DEFAULT_NS,
        };
        let mut options = LoadOptions::new(sessions, self.symbols.clone(), rate, duration_ns);
        if arguments.poisson {
            options.arrivals = Arrivals::Poisson;
        }
        if let Some(outstanding) = arguments.closed_loop {
            options.pacing = Loop::Closed { outstanding };
        }
        options.replay.clone_from(&self.replay);
        options.ramp_to_per_second = ramp_to;
        options.burst = arguments.burst;
        options.seed = arguments.seed;
        options.threads = arguments.threads;
        options.requests_per_datagram = arguments.pack;
        options.packet_times = arguments.packet_times;
        options.tick_client = self.tick_client;
        options.mix = arguments.mix;
        options.live_orders_max = arguments.mix.live_orders_max();
        if arguments.gso {
            options.batching = DatagramBatching::Segments;
        }
        options.outstanding_max = arguments.outstanding_max;
        options.grace_ns = arguments.grace.0.as_nanos() as u64;
        if arguments.out.is_some() {
            options.progress_ns = (duration_ns / INTERVALS).clamp(INTERVAL_NS_MIN, INTERVAL_NS_MAX);
        }
        options
    }

    /// The multiple of the recorded speed; `None` if recorded times are not kept.
    fn recorded_speed(&self) -> Option<f64> {
        match self.replay.as_ref()?.pace {
            ReplayPace::Recorded { speed } => Some(speed),
            ReplayPace::Load => None,
        }
    }

    fn measure(&self, rate: u64, ramp_to: Option<u64>) -> Result<Measured, Failure> {
        let started = Environment::now();
        let is_watched = std::io::stderr().is_terminal();
        let mut intervals = Vec::new();
        let mut printed_ns = 0;
        let options = self.options(rate, ramp_to);
        let stages_before = self.stages()?;
        let report = lab::load::run(&options, &self.clock, &self.stop, &mut |progress| {
            intervals.push(interval(progress, options.pacing));
            let ended_ns = progress.since_ns + progress.interval_ns;
            if is_watched && printed_ns + INTERVAL_NS_MAX <= ended_ns {
                printed_ns = ended_ns;
                eprint!("\r{:<79}", progress_line(progress));
            }
        });
        if is_watched {
            eprint!("\r{:<79}\r", "");
        }
        let report = report.map_err(|error| self.not_begun(error))?;
        let environment = Environment::now().since(&started);
        let slo = self.arguments.slo.as_ref();
        let results = slo.map_or_else(Vec::new, |slo| slo.results(&report));
        let stages = self.stages()?.zip(stages_before);
        let stages = stages.map(|(after, before)| stages::between(&before, &after));
        Ok(Measured { report, intervals, environment, results, floor: None, stages })
    }

    /// The stage counts of the venue; `None` without --admin.
    fn stages(&self) -> Result<Option<Value>, Failure> {
        let Some(address) = self.arguments.admin else { return Ok(None) };
        stages::ask(address).map(Some).map_err(|reason| {
            Failure::runtime(format!("cannot ask {address} for the times of stages: {reason}"))
                .hint("--admin takes the venue's admin.address; leave it out to do without these times")
        })
    }

    fn floor(&self, rate: u64, ramp_to: Option<u64>) -> Result<Option<LoadReport>, Failure> {
        let options = self.options(rate, ramp_to);
        lab::load::floor(&options, &self.clock, &self.stop).map_err(|error| {
            Failure::runtime(anyhow::Error::new(error).context("cannot measure the floor"))
                .hint("--no-floor leaves it out")
        })
    }

    /// Several runs as one object; `summary` makes the object of each run.
    fn summary_of_runs(
        runs: &[Measured],
        found: Option<Option<u64>>,
        summary: impl Fn(&Measured) -> Value,
    ) -> Value {
        let runs: Vec<_> = runs.iter().map(summary).collect();
        let mut summary = json!({ "schema": "damrak/load-runs/1", "runs": runs });
        if let Some(found) = found {
            summary["rate_max_per_second"] = json!(found);
        }
        summary
    }

    /// Prints a row for each run and, of a search, the rate that it found.
    fn print_runs(&self, runs: &[Measured], found: Option<Option<u64>>) -> Result<(), Failure> {
        if let Some(folder) = &self.arguments.out {
            let result = Self::summary_of_runs(runs, found, |measured| self.with_counts(measured));
            write_result(folder, &result)?;
        }
        if self.arguments.json {
            return print_json(&Self::summary_of_runs(runs, found, |it| self.summary(it)));
        }
        for measured in runs {
            for warning in measured.report.warnings() {
                let rate = measured.report.rate_per_second.map_or("-".to_owned(), grouped);
                print_line(&format!("warning: at {rate}/s: {warning}"))?;
            }
        }
        let header =
            ["requested/s", "sent/s", "answered/s", "p50", "p99", "p99.9", "max", "limit", "slo"];
        let rows = runs.iter().map(|measured| {
            let report = &measured.report;
            let latency = report.quoted().percentiles();
            let slo = match (&measured.results[..], measured.is_met()) {
                ([], _) => "-",
                (_, true) => "✓",
                (_, false) => "✗",
            };
            [
                report.rate_per_second.map_or("-".to_owned(), grouped),
                grouped(report.sent_per_second()),
                grouped(report.answered_per_second()),
                duration(latency.p50_ns),
                duration(latency.p99_ns),
                duration(latency.p999_ns),
                duration(latency.max_ns),
                format!("{:?}", report.limit()).to_lowercase(),
                slo.to_owned(),
            ]
        });
        print_line(&table(header, rows))?;
        if let Some(found) = found {
            let found = found.map_or("none".to_owned(), |rate| format!("{}/s", grouped(rate)));
            print_line(&format!("highest rate that met the objectives, each tried once: {found}"))?;
        }
        if let Some(measured) = runs.last() {
            print_line(&self.venue_line(&measured.report))?;
            print_line(&machine_line(&measured.environment))?;
        }
        Ok(())
    }

    /// The exit code of a run.
    fn judge(&self, measured: &Measured) -> Result<(), Failure> {
        let report = &measured.report;
        if !report.failures.is_empty() && !self.stop.load(Ordering::Relaxed) {
            let name = |failure: &SessionFailure| {
                format!("{}: {}", self.named[failure.session].0, failure.reason)
            };
            let reasons: Vec<_> = report.failures.iter().map(name).collect();
            return Err(Failure::runtime(format!("connections lost: {}", reasons.join("; "))));
        }
        let failed = report.tick_to_trade.as_ref().and_then(|ticks| ticks.failure.as_ref());
        if let Some(reason) = failed {
            let why = format!("the client of --tick-to-trade stopped: {reason}");
            return Err(Failure::runtime(why));
        }
        if report.is_all_rejected() {
            return Err(Failure::new(ExitCode::Rejected, "the venue rejected every order").hint(
                "the reasons are above; check that symbols, prices and limits are those of the venue",
            ));
        }
        let missed: Vec<_> = measured
            .results
            .iter()
            .filter(|result| !result.passed)
            .map(|result| format!("{} was {}", result.objective, result.measured))
            .collect();
        if missed.is_empty() {
            return Ok(());
        }
        Err(Failure::new(ExitCode::Slo, format!("objectives not met: {}", missed.join(", "))))
    }

    /// The failure to begin the load, with the name of the session.
    fn not_begun(&self, error: LoadError) -> Failure {
        let (user, source) = match error {
            LoadError::Session { session, source } => (&*self.named[session].0, source),
            LoadError::TickClient(source) => ("the client of --tick-to-trade", source),
            other => return Failure::runtime(anyhow::Error::new(other)),
        };
        match source {
            FailureReason::Client(ClientError::Rejected(LoginRejectReason::NotAuthorized)) => {
                Failure::runtime(format!("{user}: wrong user name or password"))
            }
            FailureReason::Client(ClientError::Rejected(
                LoginRejectReason::SessionNotAvailable,
            )) => {
                Failure::runtime(format!("{user} is logged in already, or blocked by the throttle"))
            }
            source => {
                Failure::runtime(anyhow::Error::new(source).context(format!("cannot use {user}")))
                    .hint("check that the venue is running; `damrak serve` prints its addresses")
            }
        }
    }

    /// The venue: its addresses and the names of its reply streams.
    fn venue_line(&self, report: &LoadReport) -> String {
        let names = match &report.stream_names[..] {
            [] => "unknown".to_owned(),
            names => names.join(", "),
        };
        format!("venue: {}   session {names}", self.addresses().join(", "))
    }

    /// The addresses of the venue to which the sessions go, each once.
    fn addresses(&self) -> Vec<String> {
        let address = |(_, session): &(String, LoadSession)| match session {
            LoadSession::Tcp { server, .. } => format!("tcp {server}"),
            LoadSession::Udp { server, .. } => format!("udp {server}"),
            LoadSession::Fix { server, .. } => format!("fix {server}"),
        };
        let mut addresses: Vec<String> = self.named.iter().map(address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// The summary, and the number of latencies of each length.
    fn with_counts(&self, measured: &Measured) -> Value {
        let mut summary = self.summary(measured);
        let counts = |latency: &Latency| latency.counts().collect::<Vec<_>>();
        summary["counts"] = json!(counts(measured.report.quoted()));
        summary["counts_from_send"] = json!(counts(&measured.report.sent));
        summary
    }

    /// Latency from packet to packet, and the clock of its times.
    fn packets(&self, report: &LoadReport) -> Value {
        let clock = self.arguments.packet_times.map(|it| match it {
            PacketTimes::Software => SOFTWARE,
            PacketTimes::Hardware => HARDWARE,
        });
        let figures = |packets: &PacketLatency| {
            json!({
                "clock": clock,
                "latency_ns": percentiles(&packets.packets.percentiles()),
                "beyond_ns": percentiles(&packets.beyond.percentiles()),
                "without_times": packets.without,
            })
        };
        report.packets.as_ref().map(figures).into()
    }

    fn summary(&self, measured: &Measured) -> Value {
        let Measured { report, intervals, environment, results, floor, stages } = measured;
        let counts = &report.counts;
        let rejects = counts.rejects.iter();
        let rejects = rejects.map(|(code, count)| (reject_name(*code), json!(count)));
        let mut summary = json!(counts);
        summary["rejects"] = Value::Object(rejects.collect());
        // A closed loop has no schedule to count from.
        let scheduled = (report.pacing == Loop::Open).then_some(&report.scheduled);
        let result = |result: &SloResult| {
            json!({"objective": result.objective, "measured": result.measured,
                   "passed": result.passed})
        };
        for (key, value) in [
            ("schema", json!("damrak/load/2")),
            ("command", json!(command_line())),
            ("open_loop", json!(report.pacing == Loop::Open)),
            ("closed_loop", json!(self.arguments.closed_loop)),
            ("requested_per_second", json!(report.rate_per_second)),
            ("sent_per_second", json!(report.sent_per_second())),
            ("answered_per_second", json!(report.answered_per_second())),
            ("sessions", json!(report.session_count)),
            ("protocols", json!(report.protocols)),
            ("symbols", self.symbols.iter().map(|symbol| symbol.symbol.to_string()).collect()),
            ("mix", json!(self.arguments.replay.is_none().then(|| self.arguments.mix.as_str()))),
            ("seed", json!(self.arguments.seed)),
            ("replay", json!(self.arguments.replay)),
            ("speed", json!(self.recorded_speed())),
            ("seconds", json!(report.elapsed_ns as f64 / 1e9)),
            ("requests", json!(counts.requests())),
            ("latency_ns", scheduled.map(|latency| percentiles(&latency.percentiles())).into()),
            ("latency_from_send_ns", percentiles(&report.sent.percentiles())),
            ("packets", self.packets(report)),
            ("tick_to_trade", report.tick_to_trade.as_ref().map(tick_figures).into()),
            ("limit", json!(report.limit())),
            ("verdict", json!(report.verdict())),
            ("warnings", json!(report.warnings())),
            ("evidence", json!(report.evidence)),
            ("venue", json!({"addresses": self.addresses(), "streams": report.stream_names})),
            ("failures", report.failures.iter().map(ToString::to_string).collect()),
            ("environment", environment.clone()),
            ("intervals", json!(intervals)),
            ("slo", results.iter().map(result).collect()),
            ("stages", json!(stages)),
            ("passed", json!(measured.is_met())),
            ("floor", floor.as_ref().map(floor_figures).into()),
        ] {
            summary[key] = value;
        }
        summary
    }
}

impl Measured {
    fn is_met(&self) -> bool {
        self.results.iter().all(|result| result.passed)
    }
}

fn floor_line(floor: &LoadReport) -> String {
    let latency = floor.quoted().percentiles();
    format!(
        "floor: {}/s answered   p50 {}   p99 {}   p99.9 {}   max {}   (null venue, {}: generator, machine and loopback)",
        grouped(floor.answered_per_second()),
        duration(latency.p50_ns),
        duration(latency.p99_ns),
        duration(latency.p999_ns),
        duration(latency.max_ns),
        duration(floor.duration_ns),
    )
}

fn tick_figures(ticks: &TickToTrade) -> Value {
    json!({
        "ticks": ticks.ticks,
        "orders": ticks.orders,
        "passed_over": ticks.passed_over,
        "without_times": ticks.without,
        "missed": ticks.missed,
        "tick_to_order_ns": percentiles(&ticks.tick_to_order.percentiles()),
        "order_to_ack_ns": percentiles(&ticks.order_to_ack.percentiles()),
        "tick_to_ack_ns": percentiles(&ticks.tick_to_ack.percentiles()),
        "answering_ns": percentiles(&ticks.answering.percentiles()),
        "failure": ticks.failure.as_ref().map(ToString::to_string),
    })
}

fn floor_figures(floor: &LoadReport) -> Value {
    json!({
        "answered_per_second": floor.answered_per_second(),
        "latency_ns": percentiles(&floor.quoted().percentiles()),
        "limit": floor.limit(),
    })
}

fn speed(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('x').parse::<f64>() {
        Ok(times) if times.is_finite() && times > 0.0 => Ok(times),
        _ => Err("a number above 0, like 0.5 or 10".to_owned()),
    }
}

/// Parses the name of a clock of packet times.
const SOFTWARE: &str = "software";
const HARDWARE: &str = "hardware";

fn packet_times(text: &str) -> Result<PacketTimes, String> {
    match text {
        SOFTWARE => Ok(PacketTimes::Software),
        HARDWARE => Ok(PacketTimes::Hardware),
        _ => Err(format!("{text:?} is neither {SOFTWARE} nor {HARDWARE}")),
    }
}

fn mix(text: &str) -> Result<LoadMix, String> {
    let known = LoadMix::ALL.map(LoadMix::as_str).join(", ");
    let mix = LoadMix::ALL.into_iter().find(|mix| mix.as_str() == text);
    mix.ok_or_else(|| format!("{text:?} is none of {known}"))
}

fn fix_version(text: &str) -> Result<Version, String> {
    match text {
        "4.2" => Ok(Version::Fix42),
        "4.4" => Ok(Version::Fix44),
        "5.0sp1" => Ok(Version::Fix50Sp1),
        _ => Err(format!("{text:?} is none of 4.2, 4.4 and 5.0sp1")),
    }
}

/// Writes `order-to-ack.hgrm` and `order-to-ack-sent.hgrm`; of a reference client `tick-to-order.hgrm` and `tick-to-ack.hgrm`; if the times of packets are known also
/// `order-to-ack-packet.hgrm` and `order-to-ack.csv`.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write_distributions(folder: &PathBuf, report: &LoadReport) -> Result<(), Failure> {
    fs::create_dir_all(folder)
        .and_then(|()| {
            fs::write(folder.join("order-to-ack.hgrm"), report.scheduled.distribution())?;
            fs::write(folder.join("order-to-ack-sent.hgrm"), report.sent.distribution())?;
            if let Some(ticks) = &report.tick_to_trade {
                let order = ticks.tick_to_order.distribution();
                fs::write(folder.join("tick-to-order.hgrm"), order)?;
                fs::write(folder.join("tick-to-ack.hgrm"), ticks.tick_to_ack.distribution())?;
            }
            let Some(packets) = &report.packets else { return Ok(()) };
            fs::write(folder.join("order-to-ack-packet.hgrm"), packets.packets.distribution())?;
            let mut csv = io::BufWriter::new(fs::File::create(folder.join("order-to-ack.csv"))?);
            packets.write_requests(&mut csv)?;
            csv.flush()
        })
        .map_err(|error| Failure::runtime(format!("cannot write {}: {error}", folder.display())))
}

/// Writes `load.json`.
fn write_result(folder: &Path, result: &Value) -> Result<(), Failure> {
    let path = folder.join(lab::report_page::LOAD_FILE);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, format!("{result}\n")))
        .map_err(|error| Failure::runtime(format!("cannot write {}: {error}", path.display())))
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

/// An interval as JSON: counts since the start of the run, percentiles of the interval.
fn interval(progress: &LoadProgress<'_>, pacing: Loop) -> Value {
    let quoted = if pacing == Loop::Open { progress.scheduled } else { progress.sent };
    json!({
        "start_ns": progress.since_ns,
        "length_ns": progress.interval_ns,
        "requests": progress.counts.requests(),
        "replies": progress.counts.replies,
        "outstanding": progress.outstanding,
        "ticks": progress.ticks,
        "latency_ns": percentiles(&progress.scheduled.percentiles()),
        "coarse_counts": quoted.coarse_counts(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// One rate, a ramp, and steps; a rate needs its unit in each.
    #[test]
    fn rates_have_three_forms() {
        let rate = |text: &str| text.parse::<LoadRate>();
        assert_eq!(rate("50k/s"), Ok(LoadRate::Steady(50_000)));
        assert_eq!(rate("1k/s..3k/s"), Ok(LoadRate::Ramp(1_000, 3_000)));
        assert_eq!(rate("1k/s, 2k/s,1/s"), Ok(LoadRate::Steps(vec![1_000, 2_000, 1])));
        for text in ["", "1k/s..", "1k/s,", "fast"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
