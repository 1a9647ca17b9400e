//! Generator and null venue on one thread, with memory for a wire and time that only the test moves: every
//! figure is the same on every machine.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use client::participant::{Connection, TcpClient};

use crate::latency::Percentiles;

use super::{
    null_venue::{Desk, Stream},
    *,
};

const MICROS: u64 = 1_000;
const MILLIS: u64 = 1_000 * MICROS;
const SECOND: u64 = 1_000 * MILLIS;
/// How much time passes between two turns.
const STEP_NS: u64 = 10 * MICROS;
const START_NS: u64 = 1_700_000_000 * SECOND;

struct StillClock(AtomicU64);

impl Clock for StillClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One end of a connection; each direction has room for 64 KiB.
struct Wire {
    inbox: Arc<Mutex<VecDeque<u8>>>,
    outbox: Arc<Mutex<VecDeque<u8>>>,
}

impl Wire {
    fn pair() -> [Self; 2] {
        let [up, down] = [Arc::<Mutex<VecDeque<u8>>>::default(), Arc::default()];
        let other = Self { inbox: Arc::clone(&up), outbox: Arc::clone(&down) };
        [Self { inbox: down, outbox: up }, other]
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut inbox = self.inbox.lock().unwrap();
        if inbox.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { inbox.read(buffer) }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut outbox = self.outbox.lock().unwrap();
        let len = bytes.len().min(65_536 - outbox.len());
        outbox.extend(&bytes[..len]);
        if len == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(len) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Connection for Wire {}

impl Stream for Wire {}

/// Runs a load of one session, and gives its report and the median latency of each interval.
fn simulate(faults: NullVenueFaults, change: impl Fn(&mut LoadOptions)) -> (LoadReport, Vec<u64>) {
    let symbol = LoadSymbol {
        symbol: Symbol::new("AAA").unwrap(),
        mid: Price(1_000_000),
        price_increment: Price(100),
    };
    let login = LoginRequest::new("TCP1", "SECRET").unwrap();
    let session = LoadSession::Tcp { server: ([127, 0, 0, 1], 1).into(), login };
    let mut options = LoadOptions::new(vec![session], vec![symbol], 10_000, SECOND);
    change(&mut options);

    let clock = StillClock(AtomicU64::new(START_NS));
    let mut desk = Desk::new(faults);
    let [near, far] = Wire::pair();
    desk.connect(Box::new(far), START_NS);
    let mut client = TcpClient::over(near, login, options.timers, START_NS);
    while !client.is_logged_in() {
        client.poll(START_NS, &mut |_, _| {}).unwrap();
        desk.turn(START_NS);
    }
    let (stop, exchange) = (AtomicBool::new(false), Exchange::default());
    let sessions = vec![Session::new(0, Box::new(client), 1, START_NS)];
    let mut worker = Worker::new(&options, &clock, &stop, &exchange, sessions, START_NS, 0, 1);
    let mut report = LoadReport::of(&options, Vec::new());
    let mut interval = Interval::new(START_NS, None);
    let mut medians = Vec::new();
    while worker.turn().is_some() {
        desk.turn(clock.now_ns());
        let now_ns = clock.0.fetch_add(STEP_NS, Ordering::Relaxed) + STEP_NS;
        let exchanges = std::slice::from_ref(&exchange);
        interval.turn(&options, now_ns, exchanges, &mut report, &mut |made| {
            medians.push(made.scheduled.percentiles().p50_ns);
        });
    }
    exchange.take_into(&mut report.scheduled, &mut report.sent);
    report.add(worker.outcome(), START_NS);
    report.end(&options, clock.now_ns() - START_NS);
    (report, medians)
}

fn stalled() -> NullVenueFaults {
    let stalled_ns = START_NS + 300 * MILLIS..START_NS + 400 * MILLIS;
    NullVenueFaults { stalled_ns, ..NullVenueFaults::default() }
}

/// A venue that answers at once: every request is on time, and the latency is one step.
#[test]
fn quick_venue_is_no_limit() {
    let (report, _) = simulate(NullVenueFaults::default(), |_| {});
    assert_eq!(report.counts.requests(), 10_000, "{report}");
    assert_eq!((report.sent_per_second(), report.answered_per_second()), (10_000, 10_000));
    assert!(report.scheduled.percentiles().max_ns <= 2 * STEP_NS, "{report}");
    assert_eq!(report.scheduled.count(), 10_000, "{report}");
    assert_eq!(report.limit(), LoadLimit::None, "{report}");
    assert!("p99<200us,loss==0".parse::<Slo>().unwrap().is_met(&report), "{report}");
}

/// A stall of 100 ms in a run of 1 s delays a tenth of the requests of an open loop: those due in it, by the rest of
/// it. The latency that one in a hundred exceeds is therefore 90 ms.
#[test]
fn stall_shows_in_an_open_loop() {
    let (report, _) = simulate(stalled(), |_| {});
    let Percentiles { p50_ns, p99_ns, p999_ns, max_ns, count, .. } = report.scheduled.percentiles();
    assert_eq!(count, 10_000, "{report}");
    assert!(p50_ns < 2 * STEP_NS, "{report}");
    assert!((89 * MILLIS..91 * MILLIS).contains(&p99_ns), "{report}");
    assert!((98 * MILLIS..100 * MILLIS).contains(&p999_ns), "{report}");
    assert!((99 * MILLIS..=101 * MILLIS).contains(&max_ns), "{report}");
}

/// The same stall in a closed loop is one slow request in thousands, and no percentile has it. The output
/// says that the loop is closed.
#[test]
fn stall_hides_in_a_closed_loop() {
    let (report, _) =
        simulate(stalled(), |options| options.pacing = Loop::Closed { outstanding: 1 });
    let Percentiles { p9999_ns, max_ns, count, .. } = report.sent.percentiles();
    assert!(count > 10_000, "{report}");
    assert!(p9999_ns <= 2 * STEP_NS, "{report}");
    assert!(max_ns >= 99 * MILLIS, "{report}");
    assert!(report.to_string().starts_with("CLOSED LOOP 1"), "{report}");
}

/// A venue that takes half of the rate asked is named as the limit, with the rate achieved. Latency grows
/// as long as the load lasts, and requests that were never sent or answered count.
#[test]
fn venue_at_half_the_rate_is_the_limit() {
    let faults = NullVenueFaults { per_second_max: Some(5_000), ..NullVenueFaults::default() };
    let (report, medians) = simulate(faults, |options| {
        options.duration_ns = 4 * SECOND;
        options.grace_ns = 100 * MILLIS;
    });
    let counts = &report.counts;
    assert_eq!(report.limit(), LoadLimit::Venue, "{report}");
    let results = "p99<200us,loss==0,late<1%".parse::<Slo>().unwrap().results(&report);
    assert!(results.iter().all(|result| !result.passed), "{results:?}");
    assert!((4_900..=5_050).contains(&report.answered_per_second()), "{report}");
    assert_eq!(report.due(), 40_000, "{report}");
    assert!(counts.unsent > 0 && counts.unanswered > 0, "{report}");
    let gone = counts.replies + counts.unanswered + counts.unsent + counts.superfluous;
    assert_eq!(gone, 40_000, "{report}");
    assert_eq!(report.scheduled.count() + counts.superfluous, 40_000, "{report}");
    assert!(medians.len() >= 4 && medians.is_sorted(), "{medians:?}");
    let Percentiles { p50_ns, max_ns, .. } = report.scheduled.percentiles();
    assert!(p50_ns > SECOND / 2 && max_ns > SECOND, "{report}");
    let text = report.to_string();
    assert!(
        text.contains("requested 10 000/s") && text.contains("verdict: the venue was"),
        "{text}"
    );
}

/// The limit of outstanding requests, where it binds, is reported: the loop was not open as long.
#[test]
fn limit_of_outstanding_requests_is_reported() {
    let (report, _) = simulate(stalled(), |options| options.outstanding_max = 100);
    assert_eq!(report.evidence.outstanding_high_water, 100, "{report}");
    assert_eq!(report.evidence.held_by_outstanding_max_ns / MILLIS, 90, "{report}");
    assert!(report.warnings().iter().any(|line| line.contains("--outstanding-max")), "{report}");
    // The latency counts from the schedule all the same.
    assert!(report.scheduled.percentiles().max_ns >= 99 * MILLIS, "{report}");
}

/// A venue that rejects everything gives no measurement of a venue, and the report says so.
#[test]
fn rejected_orders_are_named() {
    let faults = NullVenueFaults { rejects_all: true, ..NullVenueFaults::default() };
    let (report, _) = simulate(faults, |_| {});
    assert!(report.is_all_rejected(), "{report}");
    let text = report.to_string();
    assert!(text.contains("warning: the venue rejected every order"), "{text}");
    assert!(text.contains("invalid quantity 10 000"), "{text}");
}
