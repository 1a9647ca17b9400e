//! `damrak demo`: one crash trial of a whole venue, with a line of progress for each step.

mod subscriber;

use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    path::PathBuf,
    thread,
    time::Duration,
};

use clap::Args;
use client::participant;
use lab::{
    crash_trial::{
        Participants, ReceivedReplies, VenueProcess, hash_text, prepare_folder, replay,
        trade_until_killed,
    },
    latency::Percentiles,
};
use serde_json::{Value, json};

use super::{
    load::{percentiles, write_distributions},
    output::{duration, grouped, print_json, print_line},
};
use proof::audit::{self, Derived, Digest};
use subscriber::Subscriber;
use venue::{
    clock::SystemClock,
    config::{Rate, Span},
    failure::Failure,
};

/// A stream is complete when it has all expected messages and no further message follows for this long.
const QUIET_NS: u64 = 500_000_000;

/// The longest time for the subscriber to recover missed messages.
const CATCH_UP_MAX: Duration = Duration::from_secs(120);

/// The demo is short, so its venue makes snapshots often.
const SNAPSHOT_INPUTS: u64 = 50_000;

/// Run a venue under load, kill it, and check that nothing is lost.
///
/// Starts a venue on free loopback ports, lets seeded participants trade over TCP and UDP, kills it
/// with SIGKILL in the middle of the load, and starts it again on the same journal. Then checks that
/// every acknowledged order is there, that the state is equal, and that the book rebuilt from the feed
/// is the engine's. docs/demo.md explains each step. Exit code 4 if a check fails.
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
    /// Seed of the orders.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the files; files of an earlier demo are removed.
    #[arg(long, value_name = "FOLDER", default_value = "demo-out")]
    out: PathBuf,
    /// Print one JSON object at the end; progress goes to stderr.
    #[arg(long)]
    json: bool,
}

/// Runs `damrak demo`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let clock = SystemClock::start();
    let stage = Stage::prepare(arguments)?;
    let venue = VenueProcess::start(&stage.config, &stage.log)?;
    stage.fix_addresses(&venue)?;
    print_progress(arguments, &format!("venue      {}", addresses_line(&venue.started)))?;
    let started = venue.started.clone();
    print_progress(
        arguments,
        "rings      high-water / capacity of submissions, submissions udp, inputs, outputs",
    )?;
    let subscriber =
        Subscriber::start(venue.address("market_data")?, venue.address("re_request")?, clock)?;

    let received = ReceivedReplies::new(&stage.participants);
    let options = stage.participants.load(&venue, &received, arguments.rate.0, arguments.seed)?;
    let mut progress = |made: &lab::load::LoadProgress<'_>| {
        // A closed pipe does not end the load.
        let _ =
            print_progress(arguments, &progress_line(made, venue.status().as_ref(), &subscriber));
    };
    let kill = || venue.kill();
    let duration = arguments.duration.0;
    let killed = trade_until_killed(&options, &received, clock, duration, &mut progress, kill)?;
    let report = killed
        .report
        .map_err(|error| Failure::runtime(anyhow::Error::new(error).context("no load")))?;
    write_distributions(&stage.out, &report)?;
    print_progress(
        arguments,
        &format!(
            "killed     SIGKILL in the middle of the load; {} replies had been received",
            grouped(received.count())
        ),
    )?;

    drop(venue);

    // From here on the expected state follows from the journal alone.
    let replayed = replay(&stage.journal, &killed.digests)?;
    let (replay, derived) = (&replayed.replay, &replayed.derived);

    let before = clock.since_start();
    let venue = VenueProcess::start(&stage.config, &stage.log)?;
    let restart_seconds = (clock.since_start() - before).as_secs_f64();
    let recovered = venue.started["recovered"].clone();
    if let Some(sequence) = recovered["snapshot"]["sequence"].as_u64() {
        print_progress(
            arguments,
            &format!(
                "snapshot   of the first {} inputs; {} after it were replayed",
                grouped(sequence),
                grouped(recovered["replayed"].as_u64().unwrap_or(0)),
            ),
        )?;
    }
    print_progress(
        arguments,
        &format!(
            "recovered  {} inputs in {:.3} s, the process in {restart_seconds:.3} s, state {}",
            grouped(recovered["last_sequence"].as_u64().unwrap_or(0)),
            recovered["seconds"].as_f64().unwrap_or(0.0),
            recovered["state_hash"].as_str().unwrap_or("?"),
        ),
    )?;

    let expected_hash = hash_text(replay.state.engine.state_hash());
    let feed_caught_up = subscriber.catch_up(derived.feed_messages(), CATCH_UP_MAX);
    let feed = subscriber.stop();
    let checks = Checks {
        acked: received.count(),
        acked_lost: received.lost(&stage.participants, derived).values().sum(),
        replies_equal: replies_come_again(&stage, &venue, derived, clock)?,
        state_hash_equal: recovered["state_hash"] == expected_hash
            && recovered["last_sequence"] == replay.report.last_sequence,
        digests_equal: replayed.differing.is_empty(),
        digests: replayed.equal_count,
        feed_caught_up,
        feed_error: feed.error.or_else(|| audit::book_difference(&replay.state.engine, &feed.book)),
    };
    venue.stop()?;

    let state = venue::stage::Progress::of(&replay.state.engine);
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
        "digests_equal": checks.digests_equal,
        "state_hash": expected_hash,
        "digest": hash_text(replay.state.digest.word()),
        "feed_book_equal": checks.feed_caught_up && checks.feed_error.is_none(),
        "feed_error": checks.feed_error,
        "feed_messages": derived.feed_messages(),
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

#[derive(Debug)]
struct Checks {
    acked: u64,
    acked_lost: u64,
    replies_equal: bool,
    state_hash_equal: bool,
    digests_equal: bool,
    digests: u64,
    feed_caught_up: bool,
    feed_error: Option<String>,
}

impl Checks {
    fn passed(&self) -> bool {
        self.acked > 0
            && self.acked_lost == 0
            && self.replies_equal
            && self.state_hash_equal
            && self.digests_equal
            && self.feed_caught_up
            && self.feed_error.is_none()
    }
}

/// The folder of a demo, and its participants.
struct Stage {
    out: PathBuf,
    config: PathBuf,
    journal: PathBuf,
    log: PathBuf,
    participants: Participants,
}

impl Stage {
    /// Removes the files of an earlier demo, and writes the configuration.
    fn prepare(arguments: &Arguments) -> Result<Self, Failure> {
        let out = arguments.out.clone();
        prepare_folder(&out, "demo", || ())?;
        // The venue knows a UDP participant by its address, so the address is chosen first.
        let udp_local = UdpSocket::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .map_err(|error| Failure::environment(format!("no free UDP port: {error}")))?;
        let stage = Self {
            config: out.join("venue.toml"),
            journal: out.join("journal"),
            log: out.join("venue.log"),
            out,
            participants: Participants {
                tcp_users: &["user01", "user02", "user03"],
                udp_user: Some(("user04", udp_local)),
                symbols: &["AAPL", "MSFT", "NVDA"],
            },
        };
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        stage.write_config(free, free, SocketAddr::from(([239, 10, 10, 10], 0)), free)?;
        Ok(stage)
    }

    /// Writes the bound addresses of the venue into its configuration, so that the restart uses the same ones.
    fn fix_addresses(&self, venue: &VenueProcess) -> Result<(), Failure> {
        self.write_config(
            venue.address("order_entry")?,
            venue.address("order_entry_udp")?,
            venue.address("market_data")?,
            venue.address("re_request")?,
        )
    }

    fn write_config(
        &self,
        order_entry: SocketAddr,
        order_entry_udp: SocketAddr,
        group: SocketAddr,
        re_request: SocketAddr,
    ) -> Result<(), Failure> {
        let text = format!(
            "[journal]\ndirectory = {:?}\ndurability = \"written\"\n\n\
             [snapshots]\ninputs = {SNAPSHOT_INPUTS}\nreplies = \"256MiB\"\n\n\
             [order_entry]\naddress = \"{order_entry}\"\n\n\
             [order_entry_udp]\naddress = \"{order_entry_udp}\"\n\n\
             [market_data]\ngroup = \"{group}\"\nre_request = \"{re_request}\"\nsnapshot = \"127.0.0.1:0\"\ntcp = \"127.0.0.1:0\"\nstore = \"1GiB\"\n{}",
            self.journal,
            self.participants.config()
        );
        fs::write(&self.config, text).map_err(|error| {
            Failure::runtime(format!("cannot write {}: {error}", self.config.display()))
        })
    }
}

/// True if participants that log in again, or request again by UDP, get the streams that follow from
/// the journal, byte for byte from the first message on.
fn replies_come_again(
    stage: &Stage,
    venue: &VenueProcess,
    derived: &Derived,
    clock: SystemClock,
) -> Result<bool, Failure> {
    let failed = |error| Failure::runtime(anyhow::Error::new(error).context("cannot log in again"));
    let mut equal = true;
    for (index, user) in stage.participants.tcp_users.iter().enumerate() {
        let (server, login) = (venue.address("order_entry")?, stage.participants.login(index));
        let expected = derived.replies_of(user);
        let messages = participant::collect(server, login, 1, expected.len(), QUIET_NS, &clock);
        equal &= is_stream(&messages.map_err(failed)?, expected);
    }
    if let Some((user, local)) = stage.participants.udp_user {
        let server = venue.address("order_entry_udp")?;
        let (expected, quiet_ns) = (derived.replies_of(user), 3 * QUIET_NS);
        let messages =
            participant::collect_udp(local, server, None, 1, expected.len(), quiet_ns, &clock);
        equal &= is_stream(&messages.map_err(failed)?, expected);
    }
    Ok(equal)
}

fn is_stream(messages: &[Vec<u8>], derived: &[Digest]) -> bool {
    messages.iter().map(|message| Digest::of(message)).eq(derived.iter().copied())
}

/// Prints progress to stdout, or to stderr if stdout has the JSON.
fn print_progress(arguments: &Arguments, line: &str) -> Result<(), Failure> {
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
    progress: &lab::load::LoadProgress<'_>,
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
    state: &venue::stage::Progress,
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
        "{} acknowledged: {} replies received before the kill, {} lost",
        mark(checks.acked > 0 && checks.acked_lost == 0),
        grouped(checks.acked),
        checks.acked_lost
    ))?;
    print_line(&format!(
        "{} streams: participants that log in again get the same bytes from the first message on",
        mark(checks.replies_equal)
    ))?;
    print_line(&format!(
        "{} events: {} event digests that the venue printed equal those of a replay",
        mark(checks.digests_equal),
        checks.digests
    ))?;
    print_line(&format!(
        "{} state: the hash after the restart equals that of a replay",
        mark(checks.state_hash_equal)
    ))?;
    print_line(&format!(
        "{} feed: the book rebuilt from it equals the engine's{}",
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
            digests_equal: true,
            digests: 1,
            feed_caught_up: true,
            feed_error: None,
        }
    }

    /// A demo passes only if every check passes, and if there were results to check.
    #[test]
    fn one_failed_check_fails_the_demo() {
        assert!(good().passed());
        let spoil: [fn(&mut Checks); 7] = [
            |checks| checks.acked = 0,
            |checks| checks.acked_lost = 1,
            |checks| checks.replies_equal = false,
            |checks| checks.state_hash_equal = false,
            |checks| checks.digests_equal = false,
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
