//! Whether subscribers that stop reading change the throughput of a venue: pairs of periods, one with them and one
//! without, in turns, all of them in one venue.
//!
//! Start at [`run`].
//!
//! Invariant: the periods of a pair follow each other in one venue under one load, and differ in the subscribers alone.
//! The measurement begins when all subscribers have stalled: the messages sent to them before do not belong to their
//! stalling.

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
/// The room asked of the system for bytes that a subscriber does not read.
const RECEIVE_BUFFER_BYTES: usize = 4096;
/// How long a login may take; it is a bound of the harness, and nothing is judged by it.
const LOGIN_WITHIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);
const STREAM_REQUEST: &[u8] =
    b"GET /market/stream?symbol=AAPL,MSFT&kind=top,levels,trades,statistics&depth=50 HTTP/1.1\r\n\
      Host: localhost\r\n\r\n";
/// How long subscribers may take to stall, or to leave; a bound of the harness too.
const WITHIN: Duration = Duration::from_secs(60);
/// Packets after which a subscriber in datagrams that reads nothing has stalled: more than its system keeps.
const PACKETS_STALLED: u64 = 2_000;
/// How often subscribers that read do so.
const READ_INTERVAL: Duration = Duration::from_millis(2);
/// The interval between two checks of whether they have stalled or left.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The venue runs under load for this long before it is measured.
const WARM: Duration = Duration::from_secs(3);
/// The time between the stalling or leaving of subscribers and the measurement.
const SETTLE: Duration = Duration::from_millis(200);
/// Millionths by which the throughput may change.
pub const CHANGE_PPM_MAX: i64 = 20_000;

/// The kind of subscriber that stops reading.
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

    /// The configuration that a venue needs for them in addition. A stream goes to `sinks`.
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

    /// The venue's count of stalled subscribers, from its figures.
    fn seen(self, figures: &Value) -> u64 {
        let figure = |name: &str| figures["feed_server"][name].as_u64().unwrap_or(0);
        match self {
            Self::Feed => figure("stalled"),
            // A subscriber whose system took the whole snapshot is done.
            Self::Snapshot => figure("stalled") + figure("snapshots_complete"),
            Self::Stream => figures["streams"][0]["packets"].as_u64().unwrap_or(0),
            Self::Http => figures["derived_data"]["streams_stalled"].as_u64().unwrap_or(0),
        }
    }

    /// The growth of that count once this many subscribers read no more.
    const fn when_stalled(self, subscribers: u64) -> u64 {
        match self {
            Self::Feed | Self::Snapshot | Self::Http => subscribers,
            // More packets to each than any buffer holds.
            Self::Stream => subscribers * PACKETS_STALLED,
        }
    }

    /// The address of the service for their login; datagrams come without one.
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
            _ => Err("the kind must be feed, snapshot, stream or http".to_owned()),
        }
    }
}

/// A connection that is not read any more.
enum Held {
    Subscriber(#[expect(dead_code, reason = "it is kept open")] Box<TcpClient>),
    Stream(#[expect(dead_code, reason = "it is kept open")] TcpStream),
}

#[derive(Clone, Debug)]
pub struct StalledOptions {
    pub kinds: Vec<Stalled>,
    /// Pairs of periods for each kind.
    pub pairs: usize,
    /// How long each period is.
    pub duration: Duration,
    /// Subscribers that stop reading.
    pub subscribers: usize,
}

/// Requests a second in each period of one kind.
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

/// Runs the pairs of each kind, in a venue in `folder`.
///
/// # Errors
/// A venue does not start, or the load fails.
pub fn run(
    options: &StalledOptions,
    folder: &Path,
    clock: SystemClock,
) -> Result<Vec<StalledOutcome>, Failure> {
    let one = |stalled: &Stalled| {
        let pairs = pairs(options, *stalled, folder, clock)?;
        Ok(StalledOutcome { stalled: *stalled, pairs })
    };
    options.kinds.iter().map(one).collect()
}

/// Requests a second without and with the subscribers, of each pair.
fn pairs(
    options: &StalledOptions,
    stalled: Stalled,
    folder: &Path,
    clock: SystemClock,
) -> Result<Vec<(u64, u64)>, Failure> {
    let symbols = ["AAPL", "MSFT"].map(str::to_owned).to_vec();
    let count = if stalled == Stalled::Stream { options.subscribers } else { 0 };
    let (sinks, addresses) = sinks(count)?;
    let settings = OwnVenueOptions {
        symbols,
        users: 2,
        market_data: stalled.sections(&addresses),
        // So long that no subscriber is closed for stalling, which is its purpose here.
        order_entry: "slow_client_timeout = \"10min\"\nreceive_timeout = \"10min\"".to_owned(),
        ..OwnVenueOptions::default()
    };
    let mut venue = OwnVenue::start(&folder.join("venue"), &settings, clock)?;
    let mut load = venue.load(1)?;
    load.pacing = Loop::Closed { outstanding: OUTSTANDING };
    load.live_orders_max = 10_000;
    let (stop, reads) = (AtomicBool::new(false), AtomicBool::new(true));
    let (report, pairs) = thread::scope(|scope| {
        let report = scope.spawn(|| load::run(&load, &clock, &stop, &mut |_| {}));
        if !sinks.is_empty() {
            scope.spawn(|| read_until(&sinks, &reads, &stop));
        }
        let mut trial = Trial { options, stalled, venue: &mut venue, reads: &reads, clock };
        let measured = trial.run();
        stop.store(true, Ordering::Relaxed);
        (report.join().unwrap_or_else(|it| std::panic::resume_unwind(it)), measured)
    });
    let pairs = pairs?;
    venue.stop_and_remove()?;
    let report = report.map_err(|error| Failure::runtime(causes(&error)))?;
    match report.failures.first() {
        Some(failure) => Err(Failure::runtime(format!("the load ended early: {failure}"))),
        None => Ok(pairs),
    }
}

/// A venue under load, to which subscribers come and go.
struct Trial<'a> {
    options: &'a StalledOptions,
    stalled: Stalled,
    venue: &'a mut OwnVenue,
    /// False if subscribers in datagrams are to read nothing.
    reads: &'a AtomicBool,
    clock: SystemClock,
}

impl Trial<'_> {
    /// Measures all pairs.
    fn run(&mut self) -> Result<Vec<(u64, u64)>, Failure> {
        thread::sleep(WARM);
        let mut pairs = Vec::new();
        let mut held = Vec::new();
        for pair in 0..self.options.pairs {
            let (mut without, mut with) = (0, 0);
            // The first period of a pair is now the one, now the other: a venue that gets slower favors neither, and
            // subscribers come and go once in two pairs.
            for stalls in [!pair.is_multiple_of(2), pair.is_multiple_of(2)] {
                if stalls {
                    if self.reads.load(Ordering::Relaxed) {
                        held = self.stall()?;
                    }
                    with = self.requests_per_second();
                } else {
                    self.leave(std::mem::take(&mut held))?;
                    without = self.requests_per_second();
                }
            }
            pairs.push((without, with));
        }
        Ok(pairs)
    }

    /// Requests that the venue takes in a second, over a period in which nothing but the load has anything to do.
    fn requests_per_second(&self) -> u64 {
        thread::sleep(SETTLE);
        let (requests, from) = (self.venue.requests(), self.clock.since_start());
        thread::sleep(self.options.duration);
        let requests = self.venue.requests() - requests;
        (requests as f64 / (self.clock.since_start() - from).as_secs_f64()) as u64
    }

    /// Subscribers come and stop reading; returns when all have stalled.
    fn stall(&mut self) -> Result<Vec<Held>, Failure> {
        let before = self.stalled.seen(&self.venue.figures());
        self.reads.store(false, Ordering::Relaxed);
        let mut held = Vec::new();
        if let Some(name) = self.stalled.address() {
            let address = self.venue.address(name)?;
            for _ in 0..self.options.subscribers {
                held.push(match self.stalled {
                    Stalled::Http => Held::Stream(open_stream(address)?),
                    _ => Held::Subscriber(Box::new(log_in(address, self.clock)?)),
                });
            }
        }
        let wanted = before + self.stalled.when_stalled(self.options.subscribers as u64);
        self.wait(|seen| seen >= wanted, "stalled")?;
        Ok(held)
    }

    /// They leave; returns when the venue has noticed.
    fn leave(&mut self, held: Vec<Held>) -> Result<(), Failure> {
        self.reads.store(true, Ordering::Relaxed);
        drop(held);
        match self.stalled {
            Stalled::Feed | Stalled::Http => self.wait(|seen| seen == 0, "left"),
            // Those that were sent a snapshot are counted for good, and the reader of datagrams is a thread of our own.
            Stalled::Snapshot | Stalled::Stream => Ok(()),
        }
    }

    fn wait(&mut self, holds: impl Fn(u64) -> bool, what: &str) -> Result<(), Failure> {
        let begun = self.clock.since_start();
        while !holds(self.stalled.seen(&self.venue.figures())) {
            if self.clock.since_start() - begun > WITHIN {
                return Err(Failure::runtime(format!(
                    "not all {} subscribers of {} have {what} after {} s",
                    self.options.subscribers,
                    self.stalled.as_str(),
                    WITHIN.as_secs()
                )));
            }
            thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }
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

/// Takes arriving datagrams, now and then, while `reads` holds, until the end.
fn read_until(sinks: &[UdpSocket], reads: &AtomicBool, stop: &AtomicBool) {
    let mut buffer = [0; 2_048];
    while !stop.load(Ordering::Relaxed) {
        for sink in sinks {
            while reads.load(Ordering::Relaxed) && sink.recv(&mut buffer).is_ok() {}
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
