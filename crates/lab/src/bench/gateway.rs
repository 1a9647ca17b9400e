//! The edges of a venue beside bare programs: requests a second and round trips over UDP, SoupBinTCP and FIX.
//!
//! Start at [`measure`]. A path drives prepared requests through a venue, and in turns with it through a bare
//! program that answers the same client: over UDP [`bare_exchange`], which keeps a book, writes a log and sends
//! a feed, but knows no sessions, balances or recovery; over TCP [`bare_echo`], which answers with as many bytes
//! as the venue does. The client is one thread that never sleeps (`datagrams`, `stream`).
//!
//! Invariant: each request has one answer, in order, or the run fails; so both sides did the same work.

mod bare_echo;
mod bare_exchange;
pub mod connections;
mod crowd;
mod datagrams;
pub mod generator;
mod prepared;
mod resend;
mod stream;

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::{Value, json};
use venue::{clock::SystemClock, failure::Failure};

use super::Runs;
use crate::{
    latency::{Latency, Percentiles},
    load::SILENCE_NS_MAX,
    own_venue::{OwnVenue, OwnVenueOptions, unread_address},
};

use datagrams::DatagramDrive;
use prepared::Prepared;
pub use resend::{OrderTimes, ResendFigures};
use stream::{Framing, StreamDrive};

/// Live orders of the session: a request cancels the oldest once there are so many, and enters one otherwise.
const LIVE_ORDERS: u32 = 256;

/// Cancels one after the other where datagrams are to travel together, for which they must be of one length.
const CANCELS_IN_A_ROW: u32 = 64;

/// How the requests of a path travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// OUCH 5.0 in datagrams, so many requests in each; both sides send those of one length together (UDP_SEGMENT),
    /// if they are joined.
    Datagrams { requests: usize, joined: bool },
    /// OUCH 5.0 over SoupBinTCP.
    SoupBinTcp,
    /// FIX 4.4.
    Fix,
    /// One ResendRequest of FIX 4.4 for the reports to all requests; from memory, or nearly all from the journal.
    FixResend { from_disk: bool },
}

/// How the thread that answers waits for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// It polls without pause.
    Spins,
    /// It waits in the kernel.
    Sleeps,
}

/// A way through the edge of a venue.
#[derive(Clone, Copy, Debug)]
pub struct GatewayPath {
    pub name: &'static str,
    /// The bare program of this path, in words.
    pub bare: &'static str,
    carrier: Carrier,
    waits: Waits,
    /// The most requests without an answer.
    outstanding: usize,
    /// Requests in a run.
    requests: usize,
}

const EXCHANGE: &str = "an exchange with a book, a log and a feed; replies packed";
const ECHO: &str = "an echo of the same bytes";
const SENDER: &str = "a program that writes as many bytes";

/// All paths.
pub const PATHS: [GatewayPath; 12] = [
    path("udp", EXCHANGE, datagrams(1, false), Waits::Spins, 1, 20_000),
    path("udp-1024", EXCHANGE, datagrams(1, false), Waits::Spins, 1_024, 400_000),
    path("udp-gso", EXCHANGE, datagrams(1, true), Waits::Spins, 1_024, 1_000_000),
    path("udp-packed", EXCHANGE, datagrams(31, false), Waits::Spins, 4_092, 1_500_000),
    path("tcp", ECHO, Carrier::SoupBinTcp, Waits::Spins, 1, 20_000),
    path(
        "tcp-parked",
        "an echo that sleeps in read(2)",
        Carrier::SoupBinTcp,
        Waits::Sleeps,
        1,
        20_000,
    ),
    path("tcp-1024", ECHO, Carrier::SoupBinTcp, Waits::Spins, 1_024, 1_000_000),
    path("fix", ECHO, Carrier::Fix, Waits::Spins, 1, 20_000),
    path("fix-64", ECHO, Carrier::Fix, Waits::Spins, 64, 200_000),
    path("fix-1024", ECHO, Carrier::Fix, Waits::Spins, 1_024, 200_000),
    path(
        "fix-resend",
        SENDER,
        Carrier::FixResend { from_disk: false },
        Waits::Spins,
        1_024,
        100_000,
    ),
    path(
        "fix-resend-disk",
        SENDER,
        Carrier::FixResend { from_disk: true },
        Waits::Spins,
        1_024,
        100_000,
    ),
];

const fn path(
    name: &'static str,
    bare: &'static str,
    carrier: Carrier,
    waits: Waits,
    outstanding: usize,
    requests: usize,
) -> GatewayPath {
    GatewayPath { name, bare, carrier, waits, outstanding, requests }
}

const fn datagrams(requests: usize, joined: bool) -> Carrier {
    Carrier::Datagrams { requests, joined }
}

#[derive(Clone, Debug)]
pub struct GatewayOptions {
    pub paths: Vec<GatewayPath>,
    /// Runs of each side of a path, in turns.
    pub runs: usize,
    /// Divides the number of requests in a run; at least 1.
    pub divisor: usize,
    /// The number of reports to resend, in place of the path's own; before division.
    pub reports: Option<usize>,
    /// Core of the client; `None` leaves it to the system.
    pub client_core: Option<usize>,
    /// Core of the venue, and of the bare program.
    pub venue_core: Option<usize>,
    /// Where journals and logs go while a run lasts.
    pub scratch: PathBuf,
}

/// The figures of one side of a path, a value for each run.
#[derive(Clone, Debug, Default)]
pub struct GatewaySide {
    pub answered_per_second: Runs,
    /// From a request's send to its answer; of a resend, to the first message.
    pub p50_ns: Runs,
    pub p99_ns: Runs,
    pub p999_ns: Runs,
}

#[derive(Clone, Debug)]
pub struct GatewayRow {
    pub path: GatewayPath,
    pub venue: GatewaySide,
    pub bare: GatewaySide,
    /// Of a resend.
    pub resend: Option<ResendFigures>,
}

impl GatewayPath {
    /// True if the path measures the round trip, false if it measures the rate.
    pub fn is_round_trip(&self) -> bool {
        self.outstanding == 1
    }
}

impl GatewaySide {
    fn push(&mut self, run: &Driven) {
        let Percentiles { p50_ns, p99_ns, p999_ns, .. } = run.latency.percentiles();
        self.answered_per_second.push(run.answered as f64 * 1e9 / run.elapsed_ns.max(1) as f64);
        self.p50_ns.push(p50_ns as f64);
        self.p99_ns.push(p99_ns as f64);
        self.p999_ns.push(p999_ns as f64);
    }

    fn json(&self) -> Value {
        json!({
            "answered_per_second": self.answered_per_second.all(),
            "p50_ns": self.p50_ns.all(),
            "p99_ns": self.p99_ns.all(),
            "p999_ns": self.p999_ns.all(),
        })
    }
}

impl GatewayRow {
    /// The venue as a multiple of the bare program, by medians: of its rate, or of its median round trip.
    pub fn ratio(&self) -> f64 {
        let figure = |side: &GatewaySide| match self.path.is_round_trip() {
            true => side.p50_ns.median(),
            false => side.answered_per_second.median(),
        };
        figure(&self.venue) / figure(&self.bare)
    }

    pub fn json(&self) -> Value {
        json!({
            "path": self.path.name,
            "outstanding": self.path.outstanding,
            "ratio_of": if self.path.is_round_trip() { "p50_ns" } else { "answered_per_second" },
            "ratio": self.ratio(),
            "venue": self.venue.json(),
            "bare": self.bare.json(),
            "bare_is": self.path.bare,
            "resend": self.resend.as_ref().map(ResendFigures::json),
        })
    }
}

/// The figures of a client in one run.
struct Driven {
    answered: usize,
    elapsed_ns: u64,
    latency: Latency,
    /// Bytes of the last answer over TCP, framing included.
    answer_len: usize,
}

/// The error of a run.
#[derive(Debug, thiserror::Error)]
enum DriveError {
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("the connection was closed")]
    Closed,
    #[error("{answered} of {asked} requests were answered, then none for {SILENCE_NS_MAX} ns")]
    Silence { answered: usize, asked: usize },
    #[error("answer {number} is {found}, not an accepted or canceled order")]
    Answer { number: usize, found: String },
    #[error("answer {expected} is missing: the next one is {found}")]
    Gap { expected: u64, found: u64 },
}

/// Measures the paths one after the other; on each, venue and bare program take turns.
///
/// # Errors
/// A venue does not start, or a run does not get an answer to each request.
pub fn measure(
    options: &GatewayOptions,
    clock: SystemClock,
    mut done: impl FnMut(&GatewayRow) -> Result<(), Failure>,
) -> Result<Vec<GatewayRow>, Failure> {
    let mut rows = Vec::with_capacity(options.paths.len());
    for path in &options.paths {
        // The client has its own thread, because a thread is pinned to its core for good.
        let row = thread::scope(|scope| {
            let measured = scope.spawn(|| measure_path(*path, options, clock));
            measured.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        done(&row)?;
        rows.push(row);
    }
    Ok(rows)
}

fn measure_path(
    path: GatewayPath,
    options: &GatewayOptions,
    clock: SystemClock,
) -> Result<GatewayRow, Failure> {
    pin(options.client_core)?;
    let of_path = |what: &str| format!("path {}, {what}", path.name);
    let failed =
        |what: &str, error: &DriveError| Failure::runtime(format!("{}: {error}", of_path(what)));
    let (venue, bare) = (GatewaySide::default(), GatewaySide::default());
    let mut row = GatewayRow { path, venue, bare, resend: None };
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Failure::runtime)?;
    let local = socket.local_addr().map_err(Failure::runtime)?;
    let folder = options.scratch.join(path.name);
    let mut venue = OwnVenue::start(&folder, &venue_options(&path, local, options), clock)?;
    let count = (path.requests / options.divisor).max(path.outstanding).max(1);
    let addresses = ["order_entry", "order_entry_fix", "order_entry_udp"];
    let addresses = addresses.map(|name| (name, venue.address(name).ok()));
    let at = |name: &str| {
        let found = addresses.iter().find(|(it, _)| *it == name).and_then(|(_, address)| *address);
        found.ok_or_else(|| Failure::runtime(format!("the venue has no address {name}")))
    };
    let outcome = (|| {
        match path.carrier {
            Carrier::Datagrams { requests, joined } => {
                let server = at("order_entry_udp")?;
                let mut drive = DatagramDrive::new(socket, server, requests, joined, clock)
                    .map_err(|error| failed("the socket", &error))?;
                let mut prepared = Prepared::ouch(LIVE_ORDERS, in_a_row(joined));
                let feed_to = unread_address()?;
                for _ in 0..options.runs {
                    prepared.fill(count);
                    let driven = drive.run(&prepared, path.outstanding);
                    row.venue.push(&driven.map_err(|error| failed("the venue", &error))?);
                    let driven = beside_exchange(&path, count, feed_to, options, clock);
                    row.bare.push(&driven.map_err(|error| failed("the bare exchange", &error))?);
                }
            }
            Carrier::FixResend { from_disk } => {
                let (entry, fix) = (at("order_entry")?, at("order_entry_fix")?);
                let asked = resend::ResendOptions {
                    count: (options.reports.unwrap_or(path.requests) / options.divisor).max(1),
                    outstanding: path.outstanding,
                    runs: options.runs,
                    from_disk,
                };
                let mut status = || venue.figures();
                let mut drives =
                    resend::ResendDrives::after_reports(fix, entry, &asked, &mut status, clock)
                        .map_err(|error| failed("the reports", &error))?;
                let mut figures = ResendFigures::new(asked.count, drives.waited_ns);
                for _ in 0..asked.runs {
                    let driven = drives.run(&asked, &mut figures);
                    let driven = driven.map_err(|error| failed("the resend", &error))?;
                    row.venue.push(&driven);
                    let driven = beside_sender(&asked, driven.answer_len, options, clock);
                    row.bare.push(&driven.map_err(|error| failed("the bare sender", &error))?);
                }
                row.resend = Some(figures);
            }
            Carrier::SoupBinTcp | Carrier::Fix => {
                let framing = match path.carrier {
                    Carrier::Fix => Framing::Fix,
                    _ => Framing::SoupBinTcp,
                };
                let server = at(match framing {
                    Framing::Fix => "order_entry_fix",
                    Framing::SoupBinTcp => "order_entry",
                })?;
                let mut prepared = Prepared::of(framing, LIVE_ORDERS, clock);
                let mut drive = StreamDrive::log_in(server, &mut prepared, clock)
                    .map_err(|error| failed("the login", &error))?;
                for _ in 0..options.runs {
                    prepared.fill(count);
                    let driven = drive.run(&prepared, path.outstanding);
                    let driven = driven.map_err(|error| failed("the venue", &error))?;
                    row.venue.push(&driven);
                    let driven =
                        beside_echo(&path, framing, count, driven.answer_len, options, clock);
                    row.bare.push(&driven.map_err(|error| failed("the bare echo", &error))?);
                }
            }
        }
        Ok(())
    })();
    venue.stop_and_remove()?;
    outcome.map(|()| row)
}

fn in_a_row(joined: bool) -> u32 {
    if joined { CANCELS_IN_A_ROW } else { 1 }
}

/// One run of the same client with a bare exchange.
fn beside_exchange(
    path: &GatewayPath,
    count: usize,
    feed_to: SocketAddr,
    options: &GatewayOptions,
    clock: SystemClock,
) -> Result<Driven, DriveError> {
    let Carrier::Datagrams { requests, joined } = path.carrier else {
        unreachable!("it is for datagrams")
    };
    fs::create_dir_all(&options.scratch)?;
    let log = options.scratch.join(format!("{}.log", path.name));
    let exchange = bare_exchange::BareExchange::new(&log, feed_to, joined)?;
    let server = exchange.address()?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut prepared = Prepared::ouch(LIVE_ORDERS, in_a_row(joined));
    prepared.fill(count);
    let driven = beside(
        |stop| pin_io(options.venue_core).and_then(|()| exchange.run(stop)),
        || {
            DatagramDrive::new(socket, server, requests, joined, clock)?
                .run(&prepared, path.outstanding)
        },
    );
    fs::remove_file(&log)?;
    driven
}

/// One run of the same client with a bare echo.
fn beside_echo(
    path: &GatewayPath,
    framing: Framing,
    count: usize,
    answer_len: usize,
    options: &GatewayOptions,
    clock: SystemClock,
) -> Result<Driven, DriveError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let server = listener.local_addr()?;
    let mut prepared = Prepared::of(framing, LIVE_ORDERS, clock);
    prepared.fill(count);
    let mut drive = StreamDrive::connect(server, framing, clock)?;
    let echo =
        bare_echo::BareEcho::accept(&listener, framing, answer_len, path.waits == Waits::Sleeps)?;
    beside(
        |stop| pin_io(options.venue_core).and_then(|()| echo.run(stop)),
        || {
            let driven = drive.run(&prepared, path.outstanding);
            // An echo that sleeps wakes at the end of the connection.
            drop(drive);
            driven
        },
    )
}

/// One run of the same client with a program that answers a request with as many bytes. It has a bound: the program
/// makes them all before.
fn beside_sender(
    asked: &resend::ResendOptions,
    answer_len: usize,
    options: &GatewayOptions,
    clock: SystemClock,
) -> Result<Driven, DriveError> {
    const COUNT_MAX: usize = 100_000;
    let numbers = 2..asked.count.min(COUNT_MAX) as u64 + 2;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut drive = StreamDrive::connect(listener.local_addr()?, Framing::Fix, clock)?;
    let (stream, _) = listener.accept()?;
    let bytes = bare_echo::resent(numbers.clone(), answer_len);
    beside(
        |_| pin_io(options.venue_core).and_then(|()| bare_echo::send_all(stream, &bytes)),
        || drive.resend(b"any", numbers, asked.from_disk),
    )
}

/// Runs a bare program in a thread of its own until the client is done.
fn beside(
    program: impl FnOnce(&AtomicBool) -> io::Result<()> + Send,
    client: impl FnOnce() -> Result<Driven, DriveError>,
) -> Result<Driven, DriveError> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        let program = scope.spawn(move || program(stop));
        let driven = client();
        stop.store(true, Ordering::Relaxed);
        program.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        driven
    })
}

/// The default venue of `damrak serve`, except for addresses, throttles, and the agents that share its thread.
fn venue_options(
    path: &GatewayPath,
    local: SocketAddr,
    options: &GatewayOptions,
) -> OwnVenueOptions {
    let (mut agents, mut more) =
        ("sequencer+journaler+engine+order-entry+order-entry-udp".to_owned(), String::new());
    match path.carrier {
        Carrier::Datagrams { .. } => {
            more += &format!(
                "[[participants]]\nusername = \"udp\"\nfirm = \"FIRM\"\nudp = \"{local}\"\n"
            );
        }
        Carrier::SoupBinTcp => {}
        Carrier::Fix | Carrier::FixResend { .. } => {
            agents += "+order-entry-fix";
            more += "[order_entry_fix]\naddress = \"127.0.0.1:0\"\n";
            if path.carrier == (Carrier::FixResend { from_disk: true }) {
                more += "reply_store = \"1MiB\"\n";
            }
            more += &format!(
                "[[participants]]\nusername = {:?}\npassword = {:?}\nprotocol = \"fix\"\nfirm = \"FIRM\"\n",
                prepared::FIX_USER,
                prepared::FIX_PASSWORD
            );
        }
    }
    agents += "+market-data+feed-server";
    let layout = match (path.waits, options.venue_core) {
        (Waits::Spins, Some(core)) => format!("threads = \"{agents}@{core}:spin\"\n"),
        (Waits::Spins, None) => "threads = \"single\"\nwait = \"spin\"\n".to_owned(),
        // On a core of its own, as the bare program: the system wakes a thread near its waker, here a client that never
        // sleeps, and lets it wait there for a slice of 4 ms.
        (Waits::Sleeps, Some(core)) => format!("threads = \"{agents}@{core}\"\n"),
        (Waits::Sleeps, None) => "threads = \"single\"\n".to_owned(),
    };
    OwnVenueOptions {
        symbols: vec![prepared::SYMBOL.to_owned()],
        users: 1,
        market_data: more,
        layout,
        ..OwnVenueOptions::default()
    }
}

fn pin(core: Option<usize>) -> Result<(), Failure> {
    pin_io(core).map_err(|error| {
        Failure::environment(format!("core {}: {error}", core.unwrap_or_default()))
            .hint("--client-core and --venue-core name cores that this process may use")
    })
}

fn pin_io(core: Option<usize>) -> io::Result<()> {
    core.map_or(Ok(()), os::pin_to_core)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each path is answered by the venue and by its bare program, request by request.
    #[test]
    fn each_path_has_one_answer_for_each_request() {
        let scratch =
            std::env::temp_dir().join(format!("damrak-bench-gateway-{}", std::process::id()));
        for path in PATHS {
            // On a machine with one core the client would wait for a spinning thread's slice to end.
            let path =
                GatewayPath { waits: Waits::Sleeps, outstanding: path.outstanding.min(64), ..path };
            let options = GatewayOptions {
                paths: vec![path],
                runs: 2,
                divisor: path.requests / 300,
                reports: None,
                client_core: None,
                venue_core: None,
                scratch: scratch.clone(),
            };
            let rows = measure(&options, SystemClock::start(), |_| Ok(())).unwrap();
            assert_eq!(rows.len(), 1, "{}", path.name);
            for side in [&rows[0].venue, &rows[0].bare] {
                assert_eq!(side.p50_ns.all().len(), 2, "{}", path.name);
                assert!(side.p50_ns.all().iter().all(|it| 0.0 < *it), "{}", path.name);
            }
            let of_resend =
                rows[0].resend.as_ref().map(|it| it.orders_meanwhile.p50_ns.all().len());
            let is_resend = matches!(path.carrier, Carrier::FixResend { .. });
            assert_eq!(of_resend, is_resend.then_some(2), "{}", path.name);
        }
        fs::remove_dir_all(&scratch).unwrap();
    }
}
