//! Order entry over TCP by each way that the venue has to watch connections, with few and with many of them.
//!
//! Start at [`measure`]. Each figure is of a venue in a process of its own: the memory that a quiet session takes, then a
//! closed loop with one request on each connection, then an open loop at a rate.
//!
//! Invariant: a row measures the way that it names. Where the system refuses that way, the row reports it and has no
//! figures.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use os::SystemFiles;
use serde_json::{Value, json};
use venue::{clock::SystemClock, config::TcpBackendName, failure::Failure};
use wire::soupbintcp::LoginRequest;

use super::{
    DriveError,
    crowd::{Crowd, CrowdRun, Pace},
    pin, prepared,
};
use crate::{
    bench::Runs,
    crash_trial::{VenueProcess, unusable},
    latency::Percentiles,
    own_venue::{OwnVenueOptions, config_text},
};

/// The most connections: names of participants have 6 characters, and memory is finite.
pub const CONNECTIONS_MAX: usize = 10_000;
/// How long sessions are quiet before their memory is read: heartbeats of the venue have passed.
const QUIET_NS: u64 = 2_500_000_000;
/// Live orders of all sessions together: a request cancels the oldest of its session once there are so many.
const LIVE_ORDERS: usize = 4_096;
const PASSWORD: &str = "crowd";

#[derive(Clone, Debug)]
pub struct ConnectionsOptions {
    /// Ways to watch connections, which take turns.
    pub backends: Vec<TcpBackendName>,
    /// Numbers of connections.
    pub connections: Vec<usize>,
    /// Requests a second of the open loop, of all connections together.
    pub per_second: u64,
    /// How long the open loop issues requests, in nanoseconds.
    pub open_ns: u64,
    /// Requests of the closed loop, of all connections together.
    pub closed_requests: usize,
    /// An answer of the open loop that takes longer is late; in nanoseconds.
    pub late_ns: u64,
    /// Runs of each row.
    pub runs: usize,
    /// Core of the client; `None` leaves it to the system.
    pub client_core: Option<usize>,
    /// Cores of all threads of the venue; an empty list leaves them to the system.
    pub venue_cores: Vec<usize>,
    /// Where journals go while a run lasts.
    pub scratch: PathBuf,
}

/// A way to watch connections with a number of them, and a value for each run.
#[derive(Clone, Debug)]
pub struct ConnectionsRow {
    pub backend: TcpBackendName,
    pub connections: usize,
    /// The system refuses the way, so there are no figures.
    pub is_refused: bool,
    /// Resident memory of the venue before the first login, in bytes.
    pub started_bytes: Runs,
    /// The memory added with all sessions logged in and quiet, in bytes per session.
    pub session_bytes: Runs,
    /// Of the closed loop: from send to answer.
    pub closed_per_second: Runs,
    pub closed_p50_ns: Runs,
    pub closed_p99_ns: Runs,
    /// Of the open loop: from the time at which a request was due.
    pub open_per_second: Runs,
    pub open_p50_ns: Runs,
    pub open_p99_ns: Runs,
    pub open_p999_ns: Runs,
    pub open_max_ns: Runs,
    /// Answers that were late.
    pub open_late: Runs,
}

impl ConnectionsRow {
    fn new(backend: TcpBackendName, connections: usize) -> Self {
        Self {
            backend,
            connections,
            is_refused: false,
            started_bytes: Runs::default(),
            session_bytes: Runs::default(),
            closed_per_second: Runs::default(),
            closed_p50_ns: Runs::default(),
            closed_p99_ns: Runs::default(),
            open_per_second: Runs::default(),
            open_p50_ns: Runs::default(),
            open_p99_ns: Runs::default(),
            open_p999_ns: Runs::default(),
            open_max_ns: Runs::default(),
            open_late: Runs::default(),
        }
    }

    fn push_closed(&mut self, run: &CrowdRun) {
        let Percentiles { p50_ns, p99_ns, .. } = run.latency.percentiles();
        self.closed_per_second.push(per_second(run));
        self.closed_p50_ns.push(p50_ns as f64);
        self.closed_p99_ns.push(p99_ns as f64);
    }

    fn push_open(&mut self, run: &CrowdRun) {
        let Percentiles { p50_ns, p99_ns, p999_ns, max_ns, .. } = run.latency.percentiles();
        self.open_per_second.push(per_second(run));
        self.open_p50_ns.push(p50_ns as f64);
        self.open_p99_ns.push(p99_ns as f64);
        self.open_p999_ns.push(p999_ns as f64);
        self.open_max_ns.push(max_ns as f64);
        self.open_late.push(run.late as f64);
    }

    pub fn json(&self) -> Value {
        if self.is_refused {
            return json!({
                "backend": self.backend.as_str(),
                "connections": self.connections,
                "skipped": "the system refuses this backend",
            });
        }
        json!({
            "backend": self.backend.as_str(),
            "connections": self.connections,
            "started_bytes": self.started_bytes.all(),
            "session_bytes": self.session_bytes.all(),
            "closed": {
                "answered_per_second": self.closed_per_second.all(),
                "p50_ns": self.closed_p50_ns.all(),
                "p99_ns": self.closed_p99_ns.all(),
            },
            "open": {
                "answered_per_second": self.open_per_second.all(),
                "p50_ns": self.open_p50_ns.all(),
                "p99_ns": self.open_p99_ns.all(),
                "p999_ns": self.open_p999_ns.all(),
                "max_ns": self.open_max_ns.all(),
                "late": self.open_late.all(),
            },
        })
    }
}

fn per_second(run: &CrowdRun) -> f64 {
    run.answered as f64 * 1e9 / run.elapsed_ns.max(1) as f64
}

/// Measures a row for each number of connections and each way to watch them.
///
/// # Errors
/// A venue does not start, or a request has no answer.
pub fn measure(
    options: &ConnectionsOptions,
    clock: SystemClock,
    mut done: impl FnMut(&ConnectionsRow) -> Result<(), Failure>,
) -> Result<Vec<ConnectionsRow>, Failure> {
    fs::create_dir_all(&options.scratch).map_err(|error| unusable(&options.scratch, &error))?;
    let mut rows = Vec::new();
    for connections in options.connections.iter().copied() {
        let row = |backend: &TcpBackendName| ConnectionsRow::new(*backend, connections);
        let mut of_count: Vec<_> = options.backends.iter().map(row).collect();
        for _ in 0..options.runs {
            for row in &mut of_count {
                // Client and venue each have their own thread, because a thread is pinned to its cores for good.
                thread::scope(|scope| {
                    let measured = scope.spawn(|| measure_run(row, options, clock));
                    measured.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })?;
            }
        }
        of_count.iter().try_for_each(&mut done)?;
        rows.append(&mut of_count);
    }
    Ok(rows)
}

fn measure_run(
    row: &mut ConnectionsRow,
    options: &ConnectionsOptions,
    clock: SystemClock,
) -> Result<(), Failure> {
    let (backend, connections) = (row.backend.as_str(), row.connections);
    let journal = options.scratch.join("journal");
    let _ = fs::remove_dir_all(&journal);
    let path = options.scratch.join("venue.toml");
    fs::write(&path, configuration(&journal, row.backend, connections)?)
        .map_err(|error| unusable(&path, &error))?;
    let venue = start(&path, options)?;
    if venue.started["network"]["tcp"] != backend {
        row.is_refused = true;
        return venue.stop();
    }
    pin(options.client_core)?;
    let failed = |what: &str, error: DriveError| {
        Failure::runtime(format!("{backend}, {connections} connections, {what}: {error}"))
    };
    let server = venue.address("order_entry")?;
    let live_orders = (LIVE_ORDERS / connections).max(1) as u32;
    // Threads of the venue prepare memory after the start.
    let before = settled_bytes(&venue)?;
    let mut crowd = Crowd::log_in(server, (1..=connections).map(login), live_orders, clock)
        .map_err(|error| failed("the logins", error))?;
    crowd.rest(QUIET_NS).map_err(|error| failed("a quiet time", error))?;
    let more = resident_bytes(&venue)?.saturating_sub(before);
    row.started_bytes.push(before as f64);
    row.session_bytes.push(more as f64 / connections as f64);

    let closed = crowd.run(Pace::Closed, options.closed_requests, u64::MAX);
    row.push_closed(&closed.map_err(|error| failed("the closed loop", error))?);
    let pace = Pace::Open { per_second: options.per_second };
    let count = u128::from(options.per_second) * u128::from(options.open_ns) / 1_000_000_000;
    let open = crowd.run(pace, count as usize, options.late_ns);
    row.push_open(&open.map_err(|error| failed("the open loop", error))?);
    drop(crowd);
    venue.stop()?;
    fs::remove_dir_all(&journal).map_err(|error| unusable(&journal, &error))
}

/// Starts a venue that has its cores from its first thread on.
fn start(config: &Path, options: &ConnectionsOptions) -> Result<VenueProcess, Failure> {
    let log = options.scratch.join("venue.log");
    thread::scope(|scope| {
        let started = scope.spawn(|| {
            if !options.venue_cores.is_empty() {
                os::pin_to_cores(&options.venue_cores).map_err(|error| {
                    Failure::environment(format!("cores {:?}: {error}", options.venue_cores))
                        .hint("--venue-cores names cores that this process may use")
                })?;
            }
            VenueProcess::start(config, &log)
        });
        started.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The default venue of `damrak serve`, on one thread and with this many participants.
fn configuration(
    journal: &Path,
    backend: TcpBackendName,
    connections: usize,
) -> Result<String, Failure> {
    let mut more = format!("[network]\ntcp = {:?}\n", backend.as_str());
    for number in 1..=connections {
        more += &format!(
            "[[participants]]\nusername = {:?}\npassword = {PASSWORD:?}\nfirm = \"FIRM\"\n",
            username(number)
        );
    }
    let options = OwnVenueOptions {
        symbols: vec![prepared::SYMBOL.to_owned()],
        order_entry: format!("connections_max = {}\n", (connections + 256).max(1024)),
        market_data: more,
        layout: "threads = \"single\"\n".to_owned(),
        ..OwnVenueOptions::default()
    };
    config_text(journal, &options)
}

fn username(number: usize) -> String {
    format!("u{number:05}")
}

fn login(number: usize) -> LoginRequest {
    LoginRequest::new(&username(number), PASSWORD).expect("names fit their fields")
}

/// As [`resident_bytes`], once the value has not changed for a second, or after ten.
fn settled_bytes(venue: &VenueProcess) -> Result<u64, Failure> {
    const LOOK: Duration = Duration::from_millis(100);
    let (mut bytes, mut same) = (resident_bytes(venue)?, 0);
    for _ in 0..100 {
        if same == 10 {
            break;
        }
        thread::sleep(LOOK);
        let now = resident_bytes(venue)?;
        same = if now == bytes { same + 1 } else { 0 };
        bytes = now;
    }
    Ok(bytes)
}

/// Resident memory of the venue's process, in bytes.
fn resident_bytes(venue: &VenueProcess) -> Result<u64, Failure> {
    let process = venue.started["pid"].as_u64().unwrap_or_default().to_string();
    SystemFiles::of_this_machine()
        .memory(&process, "VmRSS:")
        .ok_or_else(|| Failure::environment("the system does not show the memory of the venue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A venue with the most connections has a sound configuration, with a login for each and the way that is asked for.
    #[test]
    fn each_connection_has_a_participant() {
        for backend in [TcpBackendName::Epoll, TcpBackendName::Threads] {
            let text = configuration(Path::new("/x/journal"), backend, 1_000).unwrap();
            let config = venue::config::Config::parse(&text, "venue.toml").unwrap();
            assert_eq!(config.participants.len(), 1_000);
            assert_eq!(config.network.tcp, backend);
            assert!(1_000 < config.order_entry.connections_max);
            let last = &config.participants[999].username;
            assert!(last.eq_ignore_ascii_case(login(1_000).username.as_str()), "{last}");
        }
    }
}
