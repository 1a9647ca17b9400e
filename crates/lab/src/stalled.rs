//! Whether subscribers that stop reading change the throughput of a venue: pairs of runs, one with them and one
//! without, in turns.
//!
//! Start at [`run`].
//!
//! Invariant: the runs of a pair differ in the subscribers and in nothing else. What is measured begins when all
//! subscribers have stalled: what they were sent before is not their stalling.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    path::Path,
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use client::participant::{ClientState, TcpClient};
use serde_json::{Value, json};
use socket2::SockRef;
use venue::{
    clock::SystemClock,
    failure::{Failure, causes},
};
use wire::soupbintcp::{LoginRequest, Timers};

use crate::{
    load::{self, Loop},
    own_venue::{OwnVenue, OwnVenueOptions, login},
};

/// Requests of a participant without an answer.
const OUTSTANDING: usize = 256;
/// What is asked of the system as room for bytes that a subscriber does not read.
const RECEIVE_BUFFER_BYTES: usize = 4096;
/// How long a login may take; it is a bound of the harness, and nothing is judged by it.
const LOGIN_WITHIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);
const STREAM_REQUEST: &[u8] =
    b"GET /market/stream?symbol=AAPL,MSFT&kind=top,levels,trades,statistics&depth=50 HTTP/1.1\r\n\
      Host: localhost\r\n\r\n";
/// How long subscribers may take to stall; a bound of the harness too.
const STALLED_WITHIN: Duration = Duration::from_secs(60);
/// Packets after which a subscriber in datagrams that reads nothing has stalled: more than its system keeps.
const PACKETS_STALLED: u64 = 2_000;
/// How often subscribers that read do so.
const READ_INTERVAL: Duration = Duration::from_millis(2);
/// How often it is looked whether they have.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The venue runs under load for this long at least before it is measured.
const WARM_AFTER: Duration = Duration::from_secs(3);
/// Millionths by which the throughput may change.
pub const CHANGE_PPM_MAX: i64 = 20_000;

/// Who stops reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stalled {
    /// Subscribers of the feed over TCP, from its first message on.
    Feed,
    /// Clients of the snapshot service.
    Snapshot,
    /// Subscribers of a delta stream, in datagrams.
    Stream,
    /// Streams of derived data by HTTP.
    Http,
}

impl Stalled {
    pub const ALL: [Self; 4] = [Self::Feed, Self::Snapshot, Self::Stream, Self::Http];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Feed => "feed over TCP",
            Self::Snapshot => "snapshot",
            Self::Stream => "delta stream",
            Self::Http => "HTTP stream",
        }
    }

    /// What a venue needs for them beside what it has: the same in the run without them. A stream goes to `sinks`.
    fn sections(self, sinks: &[SocketAddr]) -> String {
        match self {
            Self::Feed | Self::Snapshot => String::new(),
            Self::Stream => {
                let to: Vec<_> =
                    sinks.iter().map(|to| format!("{to:?}", to = to.to_string())).collect();
                format!(
                    "[[market_data.streams]]\nname = \"all\"\ninstruments = [\"*\"]\nto = [{}]\n",
                    to.join(", ")
                )
            }
            Self::Http => "[admin]\naddress = \"127.0.0.1:0\"\n\
                 [derived_data]\ninterval = \"10ms\"\nslow_client_timeout = \"10min\"\n\
                 streams_per_address_max = 64\n"
                .to_owned(),
        }
    }

    /// Of so many subscribers those that take nothing any more, by the figures of the venue.
    fn count(self, subscribers: u64, figures: &Value) -> u64 {
        let figure = |name: &str| figures["feed_server"][name].as_u64().unwrap_or(0);
        match self {
            Self::Feed => figure("stalled"),
            // One whose system took the whole snapshot is through.
            Self::Snapshot => figure("stalled").max(figure("snapshots_complete")),
            // Packets to each that no buffer holds.
            Self::Stream => {
                let packets = figures["streams"][0]["packets"].as_u64().unwrap_or(0);
                if packets >= subscribers * PACKETS_STALLED { subscribers } else { 0 }
            }
            Self::Http => figures["derived_data"]["streams_stalled"].as_u64().unwrap_or(0),
        }
    }

    /// The service where they log in; datagrams come by themselves.
    const fn address(self) -> Option<&'static str> {
        match self {
            Self::Feed => Some("feed_tcp"),
            Self::Snapshot => Some("snapshot"),
            Self::Stream => None,
            Self::Http => Some("admin"),
        }
    }
}

impl FromStr for Stalled {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "feed" => Ok(Self::Feed),
            "snapshot" => Ok(Self::Snapshot),
            "stream" => Ok(Self::Stream),
            "http" => Ok(Self::Http),
            _ => Err("it is feed, snapshot, stream or http".to_owned()),
        }
    }
}

/// A connection that nothing reads any more.
enum Held {
    Subscriber(#[expect(dead_code, reason = "it is kept open")] Box<TcpClient>),
    Stream(#[expect(dead_code, reason = "it is kept open")] TcpStream),
}

#[derive(Clone, Debug)]
pub struct StalledOptions {
    pub kinds: Vec<Stalled>,
    /// Pairs of runs for each kind.
    pub pairs: usize,
    /// How long each run is measured.
    pub duration: Duration,
    /// Subscribers that stop reading.
    pub subscribers: usize,
}

/// Requests a second in each run of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalledOutcome {
    pub stalled: Stalled,
    /// Without and with the subscribers.
    pub pairs: Vec<(u64, u64)>,
}

impl StalledOutcome {
    /// The median of the changes of the pairs, in millionths; below 0 the subscribers cost something.
    pub fn change_ppm(&self) -> i64 {
        let change = |(without, with): &(u64, u64)| {
            (*with as i64 - *without as i64) * 1_000_000 / (*without).max(1) as i64
        };
        let mut changes: Vec<i64> = self.pairs.iter().map(change).collect();
        changes.sort_unstable();
        let middle = changes.len() / 2;
        match changes.len() {
            0 => 0,
            count if count % 2 == 1 => changes[middle],
            _ => i64::midpoint(changes[middle - 1], changes[middle]),
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "stalled": self.stalled.as_str(),
            "requests_per_second": self.pairs.iter().map(|(without, with)| {
                json!({ "without": without, "with": with })
            }).collect::<Vec<_>>(),
            "change_ppm_median": self.change_ppm(),
        })
    }
}

/// Runs the pairs of each kind, in venues in `folder`.
///
/// # Errors
/// A venue does not start, or the load fails.
pub fn run(
    options: &StalledOptions,
    folder: &Path,
    clock: SystemClock,
) -> Result<Vec<StalledOutcome>, Failure> {
    let kinds = options.kinds.iter();
    let mut outcomes: Vec<_> =
        kinds.map(|kind| StalledOutcome { stalled: *kind, pairs: Vec::new() }).collect();
    for pair in 0..options.pairs {
        for outcome in &mut outcomes {
            let one = |with: bool| one(options, outcome.stalled, with, folder, clock);
            // The first run of a pair is now the one, now the other: a machine that gets slower favors neither.
            let (without, with) = if pair.is_multiple_of(2) {
                let without = one(false)?;
                (without, one(true)?)
            } else {
                let with = one(true)?;
                (one(false)?, with)
            };
            outcome.pairs.push((without, with));
        }
    }
    Ok(outcomes)
}

/// Requests a second of one run, measured after the subscribers have stalled.
fn one(
    options: &StalledOptions,
    stalled: Stalled,
    has_subscribers: bool,
    folder: &Path,
    clock: SystemClock,
) -> Result<u64, Failure> {
    let symbols = ["AAPL", "MSFT"].map(str::to_owned).to_vec();
    let count = if stalled == Stalled::Stream { options.subscribers } else { 0 };
    let (sinks, addresses) = sinks(count)?;
    let settings = OwnVenueOptions {
        symbols,
        users: 2,
        market_data: stalled.sections(&addresses),
        // None is closed for what it is here to do.
        order_entry: "slow_client_timeout = \"10min\"\nreceive_timeout = \"10min\"".to_owned(),
        ..OwnVenueOptions::default()
    };
    let mut venue = OwnVenue::start(&folder.join("venue"), &settings, clock)?;
    let mut load = venue.load(1)?;
    load.pacing = Loop::Closed { outstanding: OUTSTANDING };
    load.live_orders_max = 10_000;
    let stop = AtomicBool::new(false);
    let (report, requests) = thread::scope(|scope| {
        let report = scope.spawn(|| load::run(&load, &clock, &stop, &mut |_| {}));
        if !has_subscribers && !sinks.is_empty() {
            // Datagrams are sent in any case; in this run they are read.
            scope.spawn(|| read_until(&sinks, &stop));
        }
        let stalled = has_subscribers.then_some(stalled);
        let measured = measure(options, stalled, &mut venue, clock);
        stop.store(true, Ordering::Relaxed);
        (report.join().unwrap_or_else(|it| std::panic::resume_unwind(it)), measured)
    });
    let requests = requests?;
    venue.stop_and_remove()?;
    let report = report.map_err(|error| Failure::runtime(causes(&error)))?;
    match report.failures.first() {
        Some(failure) => Err(Failure::runtime(format!("the load ended early: {failure}"))),
        None => Ok(requests),
    }
}

/// Lets the load run for a while, with subscribers that log in and stop reading; then counts the requests that the
/// venue takes in the time of the run. Nothing but the load and the venue has anything to do in that time.
fn measure(
    options: &StalledOptions,
    stalled: Option<Stalled>,
    venue: &mut OwnVenue,
    clock: SystemClock,
) -> Result<u64, Failure> {
    let begun = clock.since_start();
    let mut held = Vec::new();
    if let Some(stalled) = stalled {
        if let Some(name) = stalled.address() {
            let address = venue.address(name)?;
            for _ in 0..options.subscribers {
                held.push(match stalled {
                    Stalled::Http => Held::Stream(open_stream(address)?),
                    _ => Held::Subscriber(Box::new(log_in(address, clock)?)),
                });
            }
        }
        let count = options.subscribers as u64;
        while stalled.count(count, &venue.figures()) < count {
            if clock.since_start() - begun > STALLED_WITHIN {
                return Err(Failure::runtime(format!(
                    "{} of {} subscribers of {} have stalled after {} s",
                    stalled.count(count, &venue.figures()),
                    options.subscribers,
                    stalled.as_str(),
                    STALLED_WITHIN.as_secs()
                )));
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
    // The venue is equally warm in both runs.
    thread::sleep(WARM_AFTER.saturating_sub(clock.since_start() - begun));
    let (requests, from) = (venue.requests(), clock.since_start());
    thread::sleep(options.duration);
    let (requests, took) = (venue.requests() - requests, clock.since_start() - from);
    drop(held);
    Ok((requests as f64 / took.as_secs_f64()) as u64)
}

/// So many sockets that a stream may go to, and their addresses.
fn sinks(count: usize) -> Result<(Vec<UdpSocket>, Vec<SocketAddr>), Failure> {
    let bind = |_| -> std::io::Result<_> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    };
    let bound = (0..count).map(bind).collect::<std::io::Result<Vec<_>>>();
    let bound =
        bound.map_err(|it| Failure::environment(format!("no socket for a subscriber: {it}")))?;
    Ok(bound.into_iter().unzip())
}

/// Takes what comes, now and then, until the end.
fn read_until(sinks: &[UdpSocket], stop: &AtomicBool) {
    let mut buffer = [0; 2_048];
    while !stop.load(Ordering::Relaxed) {
        for sink in sinks {
            while sink.recv(&mut buffer).is_ok() {}
        }
        thread::sleep(READ_INTERVAL);
    }
}

/// Opens a stream of everything, and reads that it was taken.
fn open_stream(address: SocketAddr) -> Result<TcpStream, Failure> {
    let refused = |what: String| Failure::runtime(format!("a stream at {address}: {what}"));
    let failed = |error: std::io::Error| refused(error.to_string());
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    SockRef::from(&stream).set_recv_buffer_size(RECEIVE_BUFFER_BYTES).map_err(failed)?;
    stream.set_read_timeout(Some(LOGIN_WITHIN)).map_err(failed)?;
    stream.write_all(STREAM_REQUEST).map_err(failed)?;
    let mut status = [0; 12];
    stream.read_exact(&mut status).map_err(failed)?;
    match &status {
        b"HTTP/1.1 200" => Ok(stream),
        other => Err(refused(format!("the answer is {}", other.escape_ascii()))),
    }
}

fn log_in(address: SocketAddr, clock: SystemClock) -> Result<TcpClient, Failure> {
    let refused = |what: String| Failure::runtime(format!("a subscriber at {address}: {what}"));
    let stream = TcpStream::connect(address).map_err(|error| refused(error.to_string()))?;
    let sized = SockRef::from(&stream).set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
    sized.and_then(|()| stream.set_nonblocking(true)).map_err(|it| refused(it.to_string()))?;
    let login = LoginRequest { sequence_number: Some(1), ..login(1) };
    let mut client = TcpClient::over(stream, login, Timers::default(), clock.now_ns());
    let begun = clock.since_start();
    // A snapshot may be over with the first bytes.
    while client.state() == ClientState::Connecting {
        client.poll(clock.now_ns(), &mut |_, _| {}).map_err(|it| refused(causes(&it)))?;
        if let ClientState::Rejected(reason) = client.state() {
            return Err(refused(format!("login rejected: {reason}")));
        }
        if clock.since_start() - begun > LOGIN_WITHIN {
            return Err(refused("no answer to the login".to_owned()));
        }
        thread::sleep(PAUSE);
    }
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The change is the median of the pairs; one bad run decides nothing.
    #[test]
    fn the_change_is_the_median_of_the_pairs() {
        let of = |pairs: &[(u64, u64)]| {
            StalledOutcome { stalled: Stalled::Feed, pairs: pairs.to_vec() }.change_ppm()
        };
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[(1_000, 990), (1_000, 100), (1_000, 1_010)]), -10_000);
        assert_eq!(of(&[(1_000, 1_020), (1_000, 1_000)]), 10_000);
    }
}
