//! Open-loop load, by OUCH or FIX: requests go out when they are due, whether or not earlier ones were answered.
//!
//! Start at [`run`]. Latency is counted from the time at which a request was due: where the sender
//! or the venue stalls, every request that had to wait shows it, and those without an answer count with
//! the time that they waited. The latency from the actual send is kept beside it.
//!
//! Invariant: no wait is endless. A venue that is silent, closes, or does not read ends its session,
//! which the report lists with the reason; memory is bounded by the options.

mod exchange;
mod fix_link;
mod link;
mod mix;
mod null_venue;
mod packet_latency;
mod replay;
mod report;
mod search;
mod session;
mod slo;
mod tally;
mod tick_to_trade;
mod tracker;
mod verdict;
mod worker;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use market::{Price, Symbol};
use os::PacketTimes;
use ring::Clock;
use wire::{
    ouch,
    soupbintcp::{LoginRequest, Timers},
};

use crate::{
    latency::Latency,
    order_file::FileError,
    schedule::{ArrivalShape, Arrivals},
};
use client::{
    participant::{ClientError, DatagramBatching},
    subscriber::FeedReceiverError,
};

pub use fix_link::FixLogin;
pub use mix::LoadMix;
pub use null_venue::{NullVenue, NullVenueFaults};
pub use packet_latency::{PacketLatency, RequestKind, RequestTimes};
pub use replay::{RecordedFlow, ReplayPace};
pub use report::{LoadCounts, LoadProgress, LoadReport, SessionFailure, grouped, reject_name};
pub use search::RateSearch;
pub use slo::{Slo, SloResult};
pub use tally::LoadEvidence;
pub use tick_to_trade::{TickClient, TickToTrade};
pub use verdict::LoadLimit;

use exchange::Exchange;
use session::Session;
use worker::{Outcome, Worker};

/// Called with every sequenced message as it arrives: index of the session, stream sequence number,
/// bytes. It runs on the measuring threads, so it should be quick.
pub type Observer = Arc<dyn Fn(usize, u64, &[u8]) + Send + Sync>;

/// Called with every answer: when its request was due, and the latency from then, in nanoseconds.
pub type AnswerObserver = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A session from which load comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadSession {
    Tcp {
        server: SocketAddr,
        /// The login. The session's history is not requested, whatever number this names.
        login: LoginRequest,
    },
    Udp {
        server: SocketAddr,
        /// Our address, by which the venue knows the session.
        local: SocketAddr,
    },
    /// Numbers of both sides begin anew with the Logon.
    Fix { server: SocketAddr, login: FixLogin },
}

impl LoadSession {
    /// The protocol of its requests.
    pub fn protocol(&self) -> &'static str {
        match self {
            Self::Tcp { .. } | Self::Udp { .. } => "OUCH 5.0",
            Self::Fix { login, .. } => login.version.name(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadSymbol {
    pub symbol: Symbol,
    /// Prices begin around this, in ticks; at least one increment.
    pub mid: Price,
    /// Prices are multiples of this, in ticks; at least 1.
    pub price_increment: Price,
}

/// The event that releases the next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loop {
    /// Its time in the schedule.
    #[default]
    Open,
    /// An answer: each session has this many requests without one. A venue that stalls is sent less, so
    /// the percentiles hide the stall.
    Closed { outstanding: usize },
}

#[derive(Clone)]
pub struct LoadOptions {
    pub sessions: Vec<LoadSession>,
    pub symbols: Vec<LoadSymbol>,
    pub pacing: Loop,
    /// Requests a second, of all sessions together; at least 1. A closed loop ignores it.
    pub rate_per_second: u64,
    /// The rate at the end of the duration, if it is another; the rate rises or falls evenly.
    pub ramp_to_per_second: Option<u64>,
    /// Requests that are due at a time; at least 1. The rate stays as it is.
    pub burst: u64,
    pub arrivals: Arrivals,
    /// The time during which requests become due, in nanoseconds.
    pub duration_ns: u64,
    /// Seed of the mix and of Poisson arrivals.
    pub seed: u64,
    /// Threads over which the sessions are spread; at least 1.
    pub threads: usize,
    /// The most requests in a datagram of a UDP session. Requests that are due together share one;
    /// none waits for another.
    pub requests_per_datagram: usize,
    /// How UDP sessions use the system: requests of a turn leave together.
    pub batching: DatagramBatching,
    /// Ask when packets left and arrived, by this clock; only for sessions over TCP.
    pub packet_times: Option<PacketTimes>,
    pub mix: LoadMix,
    pub live_orders_max: usize,
    /// The most requests of a session that may wait for answers; beyond, they are sent late, and the
    /// report has the time for which that held.
    pub outstanding_max: usize,
    /// A request sent this many nanoseconds after it was due counts as late.
    pub late_ns: u64,
    /// A session that awaits an answer and receives nothing for this long, in nanoseconds, is over.
    pub silence_ns_max: u64,
    /// How long connecting and logging in may take, in nanoseconds.
    pub ready_ns_max: u64,
    /// How long to wait for the last answers, in nanoseconds.
    pub grace_ns: u64,
    /// Interval of the progress reports, in nanoseconds.
    pub progress_ns: u64,
    pub timers: Timers,
    pub on_message: Option<Observer>,
    /// Called with every answer, on the measuring threads.
    pub on_answer: Option<AnswerObserver>,
    /// A reference client beside the load, which answers the orders of the feed.
    pub tick_client: Option<TickClient>,
    /// A recorded flow to send instead of the mix; the load ends with it. Symbols and seed have no effect.
    pub replay: Option<RecordedFlow>,
}

/// Requests of a session that may wait for answers, unless the options say otherwise: TCP holds back far fewer; the
/// requests that a silent UDP venue leaves unanswered take 40 MiB.
pub const OUTSTANDING_MAX_DEFAULT: usize = 1 << 20;

/// A session that awaits an answer for this long has lost its venue. A venue that its disk, a debugger or a busy machine
/// stops for seconds is slow: those seconds are latency. The end of a venue over TCP is noticed at once.
pub(crate) const SILENCE_NS_MAX: u64 = 60_000_000_000;

/// How long connecting and logging in may take, unless the options say otherwise.
const READY_NS_MAX: u64 = 30_000_000_000;

impl LoadOptions {
    /// Fixed arrivals on one thread, one request a datagram, progress every second.
    pub fn new(
        sessions: Vec<LoadSession>,
        symbols: Vec<LoadSymbol>,
        rate_per_second: u64,
        duration_ns: u64,
    ) -> Self {
        Self {
            sessions,
            symbols,
            pacing: Loop::Open,
            rate_per_second,
            ramp_to_per_second: None,
            burst: 1,
            arrivals: Arrivals::Fixed,
            duration_ns,
            seed: 1,
            threads: 1,
            requests_per_datagram: 1,
            batching: DatagramBatching::Batch,
            packet_times: None,
            mix: LoadMix::default(),
            live_orders_max: LoadMix::default().live_orders_max(),
            outstanding_max: OUTSTANDING_MAX_DEFAULT,
            late_ns: 1_000_000,
            silence_ns_max: SILENCE_NS_MAX,
            ready_ns_max: READY_NS_MAX,
            grace_ns: 2_000_000_000,
            progress_ns: 1_000_000_000,
            timers: Timers::default(),
            on_message: None,
            on_answer: None,
            tick_client: None,
            replay: None,
        }
    }

    /// True if a recorded flow says when its requests are due.
    fn has_recorded_times(&self) -> bool {
        self.replay.as_ref().is_some_and(|replay| replay.pace != ReplayPace::Load)
    }

    fn shape(&self) -> ArrivalShape {
        ArrivalShape {
            rate_per_second: self.rate_per_second,
            ramp: self.ramp_to_per_second.map(|to| (to, self.duration_ns)),
            burst: self.burst,
        }
    }

    /// The rate on average.
    fn rate_mean(&self) -> u64 {
        let to = self.ramp_to_per_second.unwrap_or(self.rate_per_second);
        self.rate_per_second.midpoint(to)
    }

    fn check(&self) -> Result<(), LoadError> {
        let is_sound = |symbol: &LoadSymbol| {
            symbol.price_increment.0 > 0 && symbol.mid.0 >= symbol.price_increment.0
        };
        let is_udp = |session: &LoadSession| matches!(session, LoadSession::Udp { .. });
        let mistake = if self.sessions.is_empty() {
            "no session is given"
        } else if self.symbols.is_empty() && self.replay.is_none() {
            "no symbol is given"
        } else if self.has_recorded_times() && self.pacing != Loop::Open {
            "a closed loop cannot send at recorded times"
        } else if !self.symbols.iter().all(is_sound) {
            "a symbol has no price increment, or its price is below the increment"
        } else if self.rate_per_second == 0 || self.ramp_to_per_second == Some(0) {
            "the rate is 0"
        } else if self.burst == 0 {
            "the number of requests in a burst is 0"
        } else if self.threads == 0 {
            "the number of threads is 0"
        } else if self.requests_per_datagram == 0 {
            "the number of requests per datagram is 0"
        } else if self.outstanding_max == 0 || self.pacing == (Loop::Closed { outstanding: 0 }) {
            "the number of outstanding requests is limited to 0"
        } else if self.packet_times.is_some() && self.sessions.iter().any(is_udp) {
            "packet times need sessions over TCP"
        } else if self.progress_ns == 0 {
            "the progress interval is 0"
        } else {
            return Ok(());
        };
        Err(LoadError::Options(mistake))
    }
}

/// Why a load run did not begin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("invalid load options: {0}")]
    Options(&'static str),
    #[error("session {session} is not ready")]
    Session {
        /// Its index.
        session: usize,
        source: FailureReason,
    },
    #[error("the client of --tick-to-trade is not ready")]
    TickClient(#[source] FailureReason),
    #[error("stopped before the load began")]
    Stopped,
    #[error("cannot replay the recorded flow")]
    Replay(#[source] FailureReason),
    #[error("cannot start the null venue")]
    NullVenue(#[source] std::io::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum FailureReason {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the venue ended the session")]
    Ended,
    #[error("the venue did not answer for {} ms", silent_ns / 1_000_000)]
    Silent {
        /// How long it was silent, in nanoseconds.
        silent_ns: u64,
    },
    #[error("the venue sent an invalid OUCH message")]
    Malformed(#[from] ouch::Malformed),
    #[error("the session's order numbers are used up")]
    NumbersUsedUp,
    #[error(transparent)]
    Feed(#[from] FeedReceiverError),
    #[error("FIX: {0}")]
    Fix(String),
    #[error("{0}")]
    Replay(String),
    #[error(transparent)]
    OrderFile(#[from] FileError),
}

/// Runs the load of `options` on its threads. Returns when all requests are sent and answered or given
/// up, or soon after `stop` became true.
///
/// Each session first asks for the number of its next order, so the venue may have a history.
pub fn run(
    options: &LoadOptions,
    clock: &dyn Clock,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress<'_>),
) -> Result<LoadReport, LoadError> {
    options.check()?;
    let sessions = session::open_all(options, clock, stop)?;
    let open_tick_client = |client| tick_to_trade::open(client, options, clock, stop);
    let tick_client = options.tick_client.as_ref().map(open_tick_client).transpose()?;

    let mut stream_names: Vec<String> = sessions.iter().filter_map(Session::stream_name).collect();
    stream_names.sort_unstable();
    stream_names.dedup();
    let thread_count = options.threads.min(sessions.len());
    let mut shares: Vec<Vec<Session>> = (0..thread_count).map(|_| Vec::new()).collect();
    for (index, session) in sessions.into_iter().enumerate() {
        shares[index % thread_count].push(session);
    }
    let rows = (0..thread_count).map(|part| {
        let open = |it| replay::ReplayRows::open(it, options.sessions.len(), (part, thread_count));
        options.replay.as_ref().map(open).transpose().map_err(LoadError::Replay)
    });
    let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
    let exchanges: Vec<Exchange> = (0..thread_count).map(|_| Exchange::default()).collect();
    let start_ns = clock.now_ns();

    let (is_over, ticks) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (is_over, ticks) = (&is_over, &ticks);
        let answering =
            tick_client.map(|client| scope.spawn(move || client.run(clock, is_over, ticks)));
        let workers: Vec<_> = shares
            .into_iter()
            .zip(&exchanges)
            .zip(rows)
            .enumerate()
            .map(|(part, ((sessions, exchange), rows))| {
                let worker = Worker::new(
                    options,
                    clock,
                    stop,
                    exchange,
                    sessions,
                    start_ns,
                    part,
                    thread_count,
                );
                let worker = worker.with_replay(rows);
                scope.spawn(move || worker.run())
            })
            .collect();

        let mut report = LoadReport::of(options, stream_names);
        let mut interval = Interval::new(start_ns, answering.as_ref().map(|_| ticks));
        while !workers.iter().all(|worker| worker.is_finished()) {
            thread::sleep(Duration::from_millis(2));
            interval.turn(options, clock.now_ns(), &exchanges, &mut report, progress);
        }
        for exchange in &exchanges {
            exchange.take_into(&mut report.scheduled, &mut report.sent);
        }
        for worker in workers {
            let outcome = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            report.add(outcome, start_ns);
        }
        is_over.store(true, Ordering::Relaxed);
        report.tick_to_trade = answering
            .map(|client| client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        report.end(options, clock.now_ns().saturating_sub(start_ns));
        Ok(report)
    })
}

/// Longest measurement of a floor, in nanoseconds.
const FLOOR_NS_MAX: u64 = 1_000_000_000;

/// Runs the same load on a null venue, for a second at most, and so measures the share of the generator, the machine
/// and loopback in every latency. `None` for a load with sessions over FIX, which the null venue does not speak, and
/// for a recorded flow.
pub fn floor(
    options: &LoadOptions,
    clock: &(impl Clock + Clone + 'static),
    stop: &AtomicBool,
) -> Result<Option<LoadReport>, LoadError> {
    let is_fix = |session: &LoadSession| matches!(session, LoadSession::Fix { .. });
    if options.replay.is_some() || options.sessions.iter().any(is_fix) {
        return Ok(None);
    }
    let venue_clock = clock.clone();
    let venue = NullVenue::start(move || venue_clock.now_ns()).map_err(LoadError::NullVenue)?;
    let sessions = options.sessions.iter().enumerate().map(|(index, session)| match session {
        LoadSession::Tcp { .. } => {
            LoadSession::Tcp { server: venue.tcp, login: venue.login(index) }
        }
        LoadSession::Udp { .. } => {
            LoadSession::Udp { server: venue.udp, local: (Ipv4Addr::LOCALHOST, 0).into() }
        }
        LoadSession::Fix { .. } => unreachable!("there is none, see above"),
    });
    let options = LoadOptions {
        sessions: sessions.collect(),
        duration_ns: options.duration_ns.min(FLOOR_NS_MAX),
        rate_per_second: options.rate_mean(),
        ramp_to_per_second: None,
        on_message: None,
        on_answer: None,
        packet_times: None,
        tick_client: None,
        replay: None,
        ..options.clone()
    };
    run(&options, clock, stop, &mut |_| {}).map(Some)
}

/// The protocols of the sessions, each once.
fn protocols(sessions: &[LoadSession]) -> Vec<&'static str> {
    let mut names: Vec<_> = sessions.iter().map(LoadSession::protocol).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl LoadReport {
    /// The report of a run that begins.
    fn of(options: &LoadOptions, stream_names: Vec<String>) -> Self {
        Self {
            pacing: options.pacing,
            rate_per_second: (options.pacing == Loop::Open && !options.has_recorded_times())
                .then_some(options.rate_mean()),
            session_count: options.sessions.len(),
            protocols: protocols(&options.sessions),
            late_ns: options.late_ns,
            outstanding_max: options.outstanding_max,
            stream_names,
            packets: options.packet_times.map(|_| PacketLatency::default()),
            ..Self::default()
        }
    }

    /// Adds the counts and latencies of a worker.
    fn add(&mut self, outcome: Outcome, start_ns: u64) {
        let Outcome { tally, evidence, failures } = outcome;
        self.counts.merge(&tally.counts);
        self.scheduled.merge(&tally.scheduled);
        self.sent.merge(&tally.sent);
        if let Some((all, packets)) = self.packets.as_mut().zip(tally.packets) {
            all.merge(packets);
        }
        self.evidence.merge(&evidence);
        let span = |last_ns: u64| last_ns.saturating_sub(start_ns);
        self.sent_ns_span = self.sent_ns_span.max(span(tally.sent_ns_last));
        self.answered_ns_span = self.answered_ns_span.max(span(tally.answered_ns_last));
        self.failures.extend(failures);
    }

    /// The run is over, `elapsed_ns` after its start.
    fn end(&mut self, options: &LoadOptions, elapsed_ns: u64) {
        self.failures.sort_by_key(|failure| failure.session);
        self.elapsed_ns = elapsed_ns;
        self.duration_ns = options.duration_ns.min(elapsed_ns);
    }
}

/// Reports progress once an interval is over and every worker has handed over its figures.
struct Interval<'a> {
    start_ns: u64,
    since_ns: u64,
    is_asked: bool,
    /// The ticks that the reference client has seen.
    ticks: Option<&'a AtomicU64>,
    scheduled: Latency,
    sent: Latency,
}

impl<'a> Interval<'a> {
    fn new(start_ns: u64, ticks: Option<&'a AtomicU64>) -> Self {
        let (scheduled, sent) = (Latency::new(), Latency::new());
        Self { start_ns, since_ns: start_ns, is_asked: false, ticks, scheduled, sent }
    }

    fn turn(
        &mut self,
        options: &LoadOptions,
        now_ns: u64,
        exchanges: &[Exchange],
        report: &mut LoadReport,
        progress: &mut dyn FnMut(&LoadProgress<'_>),
    ) {
        if !self.is_asked {
            self.is_asked = now_ns.saturating_sub(self.since_ns) >= options.progress_ns;
            if self.is_asked {
                exchanges.iter().for_each(Exchange::ask);
            }
            return;
        }
        if !exchanges.iter().all(Exchange::is_answered) {
            return;
        }
        self.is_asked = false;
        self.scheduled.clear();
        self.sent.clear();
        let mut counts = LoadCounts::default();
        let mut outstanding = 0;
        for exchange in exchanges {
            outstanding += exchange.add_counts(&mut counts);
            exchange.take_into(&mut self.scheduled, &mut self.sent);
        }
        report.scheduled.merge(&self.scheduled);
        report.sent.merge(&self.sent);
        progress(&LoadProgress {
            since_ns: self.since_ns - self.start_ns,
            interval_ns: now_ns - self.since_ns,
            counts: &counts,
            outstanding,
            ticks: self.ticks.map(|ticks| ticks.load(Ordering::Relaxed)),
            scheduled: &self.scheduled,
            sent: &self.sent,
        });
        self.since_ns = now_ns;
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod simulated;
