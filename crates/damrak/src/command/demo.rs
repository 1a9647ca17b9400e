pub(super) mod child;
mod subscriber;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use clap::Args;
use client::participant;
use lab::{
    latency::Percentiles,
    load::{LoadOptions, LoadReport, LoadSession},
    schedule::Arrivals,
};
use serde_json::{Value, json};
use wire::soupbintcp::LoginRequest;

use super::{
    load::{percentiles, symbols, write_distributions},
    output::{duration, grouped, print_json, print_line},
};
use child::Venue;
use proof::audit::{self, Derived, Digest};
use subscriber::Subscriber;
use venue::{
    clock::SystemClock,
    config::{Decimal, Rate, Span},
    failure::Failure,
    recovery,
};

/// Sessions over SoupBinTCP.
const TCP_USERS: [&str; 3] = ["user01", "user02", "user03"];

/// The session over UDP.
const UDP_USER: &str = "user04";

const SYMBOLS: [&str; 3] = ["AAPL", "MSFT", "NVDA"];

/// The load goes on for this long after the kill, so that the kill meets it.
const LOAD_AFTER_KILL: Duration = Duration::from_secs(3);

/// How long participants wait for answers after the kill; there will be none.
const GRACE_NS: u64 = 100_000_000;

/// A stream is complete when nothing came for this long.
const QUIET_NS: u64 = 500_000_000;

/// How long the subscriber may take to get what it missed.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

/// The demo is short, so its venue makes snapshots often.
const SNAPSHOT_INPUTS: u64 = 50_000;

/// A file by which the demo knows a folder as its own.
const MARKER: &str = "demo.marker";

/// Watch a venue at work, see it killed, and see that nothing is lost.
///
/// Starts a venue on free loopback ports, lets seeded participants trade over TCP and UDP, kills
/// it with SIGKILL in the middle of the load, starts it again on the same journal, and checks that
/// every acknowledged order is there, that the state is equal, and that the book rebuilt from the
/// feed is the engine's. docs/demo.md tells it step by step.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  damrak demo\n  damrak demo --for 5s --json\n  \
                        damrak demo --rate 50k/s --out /tmp/demo-out")]
pub struct Arguments {
    /// How long participants trade before the kill.
    #[arg(long = "for", value_name = "TIME", default_value = "20s")]
    duration: Span,
    /// Requests of all participants together.
    #[arg(long, default_value = "10k/s")]
    rate: Rate,
    /// What they ask for follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the files go; what an earlier demo left there is removed.
    #[arg(long, value_name = "FOLDER", default_value = "demo-out")]
    out: PathBuf,
    /// Print one JSON object at the end; what happens goes to stderr.
    #[arg(long)]
    json: bool,
}

/// What a participant heard: numbers and digests of its sequenced messages.
type Heard = Arc<Vec<Mutex<Vec<(u64, Digest)>>>>;

/// Runs `damrak demo`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let stage = Stage::prepare(arguments)?;
    let venue = Venue::start(&stage.config, &stage.log)?;
    stage.fix_addresses(&venue.started)?;
    tell(arguments, &format!("venue      {}", addresses_line(&venue.started)))?;
    let started = venue.started.clone();
    tell(
        arguments,
        "rings      submissions, submissions udp, inputs, outputs: fullest lately / slots",
    )?;
    let subscriber = Subscriber::start(
        address(&venue.started, "market_data")?,
        address(&venue.started, "re_request")?,
        clock,
    )?;

    let heard: Heard = Arc::new((0..=TCP_USERS.len()).map(|_| Mutex::default()).collect());
    let (report, state_hashes) =
        trade_and_kill(arguments, &stage, &venue, &subscriber, &heard, clock)?;
    write_distributions(&stage.out, &report)?;
    let heard_count: u64 =
        heard.iter().map(|stream| stream.lock().expect("no panic").len() as u64).sum();
    tell(
        arguments,
        &format!(
            "killed     SIGKILL in the middle of the load; {} replies had been heard",
            grouped(heard_count)
        ),
    )?;

    drop(venue);

    // What must be there now follows from the journal alone.
    let mut derived = Derived::new();
    let mut at_sequence = BTreeMap::new();
    let told: BTreeSet<u64> = state_hashes.iter().map(|(sequence, _)| *sequence).collect();
    let replay = recovery::replay_folder(
        &stage.journal,
        &mut |input, engine| {
            if told.contains(&input.sequence.0) {
                at_sequence.insert(input.sequence.0, format!("{:016x}", engine.state_hash()));
            }
        },
        &mut |output| derived.output(output),
    )?;

    let before = clock.since_start();
    let venue = Venue::start(&stage.config, &stage.log)?;
    let restart_seconds = (clock.since_start() - before).as_secs_f64();
    let recovered = venue.started["recovered"].clone();
    if let Some(sequence) = recovered["snapshot"]["sequence"].as_u64() {
        tell(
            arguments,
            &format!(
                "snapshot   of the first {} inputs; {} after it were replayed",
                grouped(sequence),
                grouped(recovered["replayed"].as_u64().unwrap_or(0)),
            ),
        )?;
    }
    tell(
        arguments,
        &format!(
            "recovered  {} inputs in {:.3} s, the process in {restart_seconds:.3} s, state {}",
            grouped(recovered["last_sequence"].as_u64().unwrap_or(0)),
            recovered["seconds"].as_f64().unwrap_or(0.0),
            recovered["state_hash"].as_str().unwrap_or("?"),
        ),
    )?;

    let mut checks = Checks::default();
    let usernames = TCP_USERS.iter().chain([&UDP_USER]);
    for (username, heard) in usernames.zip(heard.iter()) {
        let heard = heard.lock().expect("no panic");
        checks.acked += heard.len() as u64;
        checks.acked_lost += audit::lost(heard.iter().copied(), derived.replies_of(username));
    }
    checks.replies_equal = replies_come_again(&stage, &venue.started, &derived, clock)?;
    let expected_hash = format!("{:016x}", replay.engine.state_hash());
    checks.state_hashes = state_hashes.len();
    checks.state_hash_equal = recovered["state_hash"] == expected_hash
        && recovered["last_sequence"] == replay.report.last_sequence
        && state_hashes
            .iter()
            .all(|(sequence, hash)| *sequence == 0 || at_sequence.get(sequence) == Some(hash));
    checks.feed_caught_up = subscriber.catch_up(derived.feed_messages, CATCH_UP_MAX);
    let feed = subscriber.stop();
    checks.feed_error = feed.error.or_else(|| audit::book_difference(&replay.engine, &feed.book));
    venue.stop()?;

    let state = venue::stage::Checkpoint::of(&replay.engine);
    let latency = report.scheduled.percentiles();
    let summary = json!({
        "schema": "damrak/demo/1",
        "passed": checks.passed(),
        "orders": state.orders,
        "trades": state.trades,
        "inputs": state.sequence.0,
        "requests": report.counts.requests(),
        "acked": checks.acked,
        "acked_lost": checks.acked_lost,
        "replies_equal": checks.replies_equal,
        "state_hash_equal": checks.state_hash_equal,
        "state_hash": expected_hash,
        "feed_book_equal": checks.feed_caught_up && checks.feed_error.is_none(),
        "feed_error": checks.feed_error,
        "feed_messages": derived.feed_messages,
        "feed_gaps": feed.report.messages.gaps,
        "feed_missing": feed.report.missing,
        "latency_ns": percentiles(&latency),
        "late_sends": report.counts.late_sends,
        "recovery_seconds": recovered["seconds"],
        "snapshot_sequence": recovered["snapshot"]["sequence"],
        "replayed": recovered["replayed"],
        "restart_seconds": restart_seconds,
        "rate_per_second": arguments.rate.0,
        "seed": arguments.seed,
        "layout": started["layout"],
        "cores": thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "seconds": clock.since_start().as_secs_f64(),
        "out": stage.out,
    });
    fs::write(stage.out.join("summary.json"), format!("{summary:#}\n"))
        .map_err(|error| Failure::runtime(format!("cannot write the summary: {error}")))?;
    if arguments.json {
        print_json(&summary)?;
    } else {
        print_summary(&checks, &state, &latency, &feed.report, &stage)?;
    }
    if checks.passed() {
        Ok(())
    } else {
        Err(Failure::verification("a check of the demo failed")
            .hint(format!("{} has the details", stage.out.join("summary.json").display())))
    }
}

#[derive(Debug, Default)]
struct Checks {
    acked: u64,
    acked_lost: u64,
    replies_equal: bool,
    state_hash_equal: bool,
    state_hashes: usize,
    feed_caught_up: bool,
    feed_error: Option<String>,
}

impl Checks {
    fn passed(&self) -> bool {
        self.acked > 0
            && self.acked_lost == 0
            && self.replies_equal
            && self.state_hash_equal
            && self.feed_caught_up
            && self.feed_error.is_none()
    }
}

/// The folder of a demo and what is in it.
struct Stage {
    out: PathBuf,
    config: PathBuf,
    journal: PathBuf,
    log: PathBuf,
    /// The address the UDP participant sends from.
    udp_local: SocketAddr,
}

impl Stage {
    /// Empties the folder of what an earlier demo left, and writes the configuration.
    fn prepare(arguments: &Arguments) -> Result<Self, Failure> {
        let out = arguments.out.clone();
        let failed = |what: &Path, error: std::io::Error| {
            Failure::environment(format!("cannot use {}: {error}", what.display()))
                .hint("--out names another folder")
        };
        let marker = out.join(MARKER);
        let is_used = fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some());
        if is_used {
            if !marker.exists() {
                return Err(Failure::usage(format!(
                    "{} is not the folder of a demo: it has other files",
                    out.display()
                ))
                .hint("--out names another folder"));
            }
            fs::remove_dir_all(&out).map_err(|error| failed(&out, error))?;
        }
        fs::create_dir_all(&out).map_err(|error| failed(&out, error))?;
        fs::write(&marker, "made by `damrak demo`; removed and made anew by the next one\n")
            .map_err(|error| failed(&marker, error))?;
        // The venue knows a UDP participant by its address, so that is chosen first.
        let udp_local = UdpSocket::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .map_err(|error| Failure::environment(format!("no free UDP port: {error}")))?;
        let stage = Self {
            config: out.join("venue.toml"),
            journal: out.join("journal"),
            log: out.join("venue.log"),
            out,
            udp_local,
        };
        stage.write_config("127.0.0.1:0", "127.0.0.1:0", "239.10.10.10:0", "127.0.0.1:0")?;
        Ok(stage)
    }

    /// Writes the addresses the venue has found into its configuration, so that it comes back
    /// where it was.
    fn fix_addresses(&self, started: &Value) -> Result<(), Failure> {
        let text = |name: &str| address(started, name).map(|address| address.to_string());
        self.write_config(
            &text("order_entry")?,
            &text("order_entry_udp")?,
            &text("market_data")?,
            &text("re_request")?,
        )
    }

    fn write_config(
        &self,
        order_entry: &str,
        order_entry_udp: &str,
        group: &str,
        re_request: &str,
    ) -> Result<(), Failure> {
        let mut text = format!(
            "[journal]\ndirectory = {:?}\ndurability = \"written\"\n\n\
             [snapshots]\ninputs = {SNAPSHOT_INPUTS}\nreplies = \"256MiB\"\n\n\
             [order_entry]\naddress = {order_entry:?}\n\n\
             [order_entry_udp]\naddress = {order_entry_udp:?}\n\n\
             [market_data]\ngroup = {group:?}\nre_request = {re_request:?}\nstore = \"1GiB\"\n",
            self.journal
        );
        for symbol in SYMBOLS {
            text += &format!("\n[[instruments]]\nsymbol = {symbol:?}\n");
        }
        for (number, username) in (1..).zip(TCP_USERS) {
            text += &format!(
                "\n[[participants]]\nusername = {username:?}\npassword = \"password{number:02}\"\n\
                 firm = \"FIRM\"\n"
            );
        }
        text += &format!(
            "\n[[participants]]\nusername = {UDP_USER:?}\nfirm = \"FIRM\"\nudp = \"{}\"\n",
            self.udp_local
        );
        fs::write(&self.config, text).map_err(|error| {
            Failure::runtime(format!("cannot write {}: {error}", self.config.display()))
        })
    }
}

fn address(started: &Value, name: &str) -> Result<SocketAddr, Failure> {
    started["addresses"][name]
        .as_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Failure::runtime(format!("the venue did not tell its address {name}")))
}

fn login(index: usize) -> LoginRequest {
    LoginRequest::new(TCP_USERS[index], &format!("password{:02}", index + 1))
        .expect("the names of the demo fit their fields")
}

/// Lets participants trade for the time asked for, kills the venue, and lets them find out.
/// Gives what they measured, and every state hash the venue had told.
fn trade_and_kill(
    arguments: &Arguments,
    stage: &Stage,
    venue: &Venue,
    subscriber: &Subscriber,
    heard: &Heard,
    clock: SystemClock,
) -> Result<(LoadReport, Vec<(u64, String)>), Failure> {
    let mut sessions: Vec<LoadSession> = Vec::new();
    let server = address(&venue.started, "order_entry")?;
    for index in 0..TCP_USERS.len() {
        sessions.push(LoadSession::Tcp { server, login: login(index) });
    }
    sessions.push(LoadSession::Udp {
        server: address(&venue.started, "order_entry_udp")?,
        local: stage.udp_local,
    });
    let names: Vec<String> = SYMBOLS.iter().map(|symbol| (*symbol).to_owned()).collect();
    let mut options = LoadOptions::new(
        sessions,
        symbols(&names, Decimal(1_500_000), Decimal(100))?,
        arguments.rate.0,
        (arguments.duration.0 + LOAD_AFTER_KILL).as_nanos() as u64,
    );
    options.seed = arguments.seed;
    options.arrivals = Arrivals::Poisson;
    options.grace_ns = GRACE_NS;
    let streams = Arc::clone(heard);
    options.on_message = Some(Arc::new(move |session, number, message| {
        let digest = Digest::of(message);
        streams[session].lock().expect("no panic").push((number, digest));
    }));

    let (stop, begun_ns) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let load = {
            let (options, stop, begun_ns) = (&options, &stop, &begun_ns);
            scope.spawn(move || {
                begun_ns.store(clock.now_ns(), Ordering::Relaxed);
                lab::load::run(options, &clock, stop, &mut |progress| {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let line = progress_line(progress, venue.status().as_ref(), subscriber);
                    // Talk: a reader that went away is no reason to end the load.
                    let _ = tell(arguments, &line);
                })
            })
        };
        let kill_at_ns = arguments.duration.0.as_nanos() as u64;
        loop {
            thread::sleep(Duration::from_millis(5));
            let begun = begun_ns.load(Ordering::Relaxed);
            let passed_ns = clock.now_ns().saturating_sub(begun);
            if load.is_finished() || (begun > 0 && passed_ns >= kill_at_ns) {
                break;
            }
        }
        let ended_early = load.is_finished();
        let state_hashes = if ended_early { Vec::new() } else { venue.kill()? };
        // They notice by themselves; after a moment they are told as well.
        thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        let report = load
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(|error| Failure::runtime(anyhow::Error::new(error).context("no load")))?;
        if ended_early {
            let reasons: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
            return Err(Failure::runtime(format!(
                "the participants ended before the kill: {}",
                reasons.join("; ")
            )));
        }
        Ok((report, state_hashes))
    })
}

/// True if who logs in again, or asks again by UDP, gets the very streams that follow from the
/// journal, from the first message on.
fn replies_come_again(
    stage: &Stage,
    started: &Value,
    derived: &Derived,
    clock: SystemClock,
) -> Result<bool, Failure> {
    let failed = |error| Failure::runtime(anyhow::Error::new(error).context("cannot log in again"));
    let mut equal = true;
    for (index, username) in TCP_USERS.iter().enumerate() {
        let server = address(started, "order_entry")?;
        let messages =
            participant::collect(server, login(index), 1, QUIET_NS, &clock).map_err(failed)?;
        equal &= is_stream(&messages, derived.replies_of(username));
    }
    let server = address(started, "order_entry_udp")?;
    let messages = participant::collect_udp(stage.udp_local, server, None, 1, 3 * QUIET_NS, &clock)
        .map_err(failed)?;
    Ok(equal && is_stream(&messages, derived.replies_of(UDP_USER)))
}

fn is_stream(messages: &[Vec<u8>], derived: &[Digest]) -> bool {
    messages.iter().map(|message| Digest::of(message)).eq(derived.iter().copied())
}

/// Talk goes to stdout, unless that is for JSON.
fn tell(arguments: &Arguments, line: &str) -> Result<(), Failure> {
    if arguments.json {
        eprintln!("{line}");
        Ok(())
    } else {
        print_line(line)
    }
}

fn addresses_line(started: &Value) -> String {
    let text = |name: &str| started["addresses"][name].as_str().unwrap_or("?").to_owned();
    format!(
        "OUCH/SoupBinTCP {}  OUCH/UDP {}  ITCH/MoldUDP64 {}  re-request {}  layout {}",
        text("order_entry"),
        text("order_entry_udp"),
        text("market_data"),
        text("re_request"),
        started["layout"].as_str().unwrap_or("?"),
    )
}

fn progress_line(
    progress: &lab::load::Progress<'_>,
    status: Option<&Value>,
    subscriber: &Subscriber,
) -> String {
    let latency = progress.scheduled.percentiles();
    let per_second = |count: u64| count as f64 / (progress.interval_ns as f64 / 1e9);
    let figure = |name: &str| status.and_then(|status| status[name].as_u64()).unwrap_or(0);
    let rings: Vec<String> = status
        .and_then(|status| status["rings"].as_array())
        .into_iter()
        .flatten()
        .map(|ring| {
            let number = |name: &str| ring[name].as_u64().unwrap_or(0);
            format!("{}/{}", number("high_water"), number("capacity"))
        })
        .collect();
    format!(
        "{:>4.0} s  {:>7.0} req/s  orders {}  trades {}  p50 {}  p99 {}  p99.9 {}  max {}  rings {}  {}",
        (progress.since_ns + progress.interval_ns) as f64 / 1e9,
        per_second(latency.count),
        grouped(figure("orders")),
        grouped(figure("trades")),
        duration(latency.p50_ns),
        duration(latency.p99_ns),
        duration(latency.p999_ns),
        duration(latency.max_ns),
        rings.join(" "),
        subscriber.top_of_book(),
    )
}

fn print_summary(
    checks: &Checks,
    state: &venue::stage::Checkpoint,
    latency: &Percentiles,
    feed: &client::subscriber::FeedReceiverReport,
    stage: &Stage,
) -> Result<(), Failure> {
    let mark = |good: bool| if good { "✓" } else { "✗" };
    print_line("")?;
    print_line(&format!(
        "demo finished: {} orders, {} trades, {} feed gaps",
        grouped(state.orders),
        grouped(state.trades),
        feed.messages.gaps
    ))?;
    print_line(&format!(
        "order→ack  p50 {}  p99 {}  p99.9 {}  max {}",
        duration(latency.p50_ns),
        duration(latency.p99_ns),
        duration(latency.p999_ns),
        duration(latency.max_ns)
    ))?;
    print_line(&format!(
        "{} acknowledged: {} replies heard before the kill, {} lost",
        mark(checks.acked > 0 && checks.acked_lost == 0),
        grouped(checks.acked),
        checks.acked_lost
    ))?;
    print_line(&format!(
        "{} streams: who logs in again gets the same bytes from the first message on",
        mark(checks.replies_equal)
    ))?;
    print_line(&format!(
        "{} state: {} hashes told while it ran, and that after the restart, equal a replay's",
        mark(checks.state_hash_equal),
        checks.state_hashes
    ))?;
    print_line(&format!(
        "{} feed: the book rebuilt from it is the engine's{}",
        mark(checks.feed_caught_up && checks.feed_error.is_none()),
        checks.feed_error.as_ref().map_or(String::new(), |error| format!(": {error}"))
    ))?;
    print_line(
        "Measured open loop over loopback, on a machine shared with the load itself: latency of\n\
         the whole round trip, not of the venue alone, and a demo rather than a benchmark.",
    )?;
    print_line(&format!(
        "files in {}: venue.toml journal/ venue.log summary.json order-to-ack.hgrm",
        stage.out.display()
    ))?;
    print_line("next:  damrak serve   damrak load   damrak feed   docs/connect.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Checks {
        Checks {
            acked: 1,
            acked_lost: 0,
            replies_equal: true,
            state_hash_equal: true,
            state_hashes: 1,
            feed_caught_up: true,
            feed_error: None,
        }
    }

    /// A demo passes only if every check does, and if there was something to check.
    #[test]
    fn one_failed_check_fails_the_demo() {
        assert!(good().passed());
        let spoil: [fn(&mut Checks); 6] = [
            |checks| checks.acked = 0,
            |checks| checks.acked_lost = 1,
            |checks| checks.replies_equal = false,
            |checks| checks.state_hash_equal = false,
            |checks| checks.feed_caught_up = false,
            |checks| checks.feed_error = Some("the books differ".into()),
        ];
        for (index, spoil) in spoil.iter().enumerate() {
            let mut checks = good();
            spoil(&mut checks);
            assert!(!checks.passed(), "check {index}");
        }
    }
}
