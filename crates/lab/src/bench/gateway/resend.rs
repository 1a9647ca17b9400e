//! A resend of many reports, and its effect on others: the latency of another session's orders, and the memory.
//!
//! Invariant: the other session sends the same orders at the same pace, alone and meanwhile, in turns.

use std::{
    fs,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use os::SystemFiles;
use serde_json::{Value, json};
use venue::clock::SystemClock;

use super::{
    DriveError, Driven, LIVE_ORDERS, Runs,
    prepared::Prepared,
    stream::{Framing, StreamDrive},
};
use crate::latency::{Latency, Percentiles};

/// Requests that are prepared at a time.
const CHUNK: usize = 100_000;
/// The interval between two orders of the other session.
const ORDER_INTERVAL: Duration = Duration::from_millis(1);
/// Orders of the other session alone.
const ORDERS_ALONE: usize = 500;
/// The interval between two looks at the progress of the files.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// The wait for the files ends with an error after this many looks without progress.
const LOOKS_MAX: usize = 3_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct ResendOptions {
    /// The number of reports.
    pub(super) count: usize,
    /// Requests without an answer, while the reports are made.
    pub(super) outstanding: usize,
    pub(super) runs: usize,
    /// True if nearly all of them are on disk only.
    pub(super) from_disk: bool,
}

/// How long the orders of another session take, a value for each run.
#[derive(Clone, Debug, Default)]
pub struct OrderTimes {
    pub p50_ns: Runs,
    pub p99_ns: Runs,
}

impl OrderTimes {
    fn push(&mut self, latency: &Latency) {
        let Percentiles { p50_ns, p99_ns, .. } = latency.percentiles();
        self.p50_ns.push(p50_ns as f64);
        self.p99_ns.push(p99_ns as f64);
    }

    fn json(&self) -> Value {
        json!({ "p50_ns": self.p50_ns.all(), "p99_ns": self.p99_ns.all() })
    }
}

#[derive(Clone, Debug)]
pub struct ResendFigures {
    pub reports: usize,
    /// From the last report until all were on disk.
    pub waited_ns: u64,
    /// Bytes by which the peak of the process's memory exceeds the memory before, for each run; empty where the system
    /// does not report them.
    pub memory_bytes: Runs,
    pub orders_alone: OrderTimes,
    pub orders_meanwhile: OrderTimes,
}

impl ResendFigures {
    pub(super) fn new(reports: usize, waited_ns: u64) -> Self {
        Self {
            reports,
            waited_ns,
            memory_bytes: Runs::default(),
            orders_alone: OrderTimes::default(),
            orders_meanwhile: OrderTimes::default(),
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "reports": self.reports,
            "waited_ns": self.waited_ns,
            "memory_bytes": self.memory_bytes.all(),
            "orders_alone": self.orders_alone.json(),
            "orders_meanwhile": self.orders_meanwhile.json(),
        })
    }
}

/// The session that has the reports, and another.
pub(super) struct ResendDrives {
    session: StreamDrive,
    requests: Prepared,
    other: StreamDrive,
    orders: Prepared,
    pub(super) waited_ns: u64,
}

impl ResendDrives {
    /// Lets the reports be made, and waits until they are on disk if they are to be read from there. The other session
    /// logs in after that: the venue closes a session that is silent for so long.
    pub(super) fn after_reports(
        fix: SocketAddr,
        entry: SocketAddr,
        asked: &ResendOptions,
        status: &mut impl FnMut() -> Value,
        clock: SystemClock,
    ) -> Result<Self, DriveError> {
        let mut requests = Prepared::of(Framing::Fix, LIVE_ORDERS, clock);
        let mut session = StreamDrive::log_in(fix, &mut requests, clock)?;
        let mut left = asked.count;
        while left > 0 {
            let count = left.min(CHUNK);
            requests.fill(count);
            session.run(&requests, asked.outstanding)?;
            left -= count;
        }
        let begun_ns = clock.now_ns();
        if asked.from_disk {
            wait_for_files(asked, status)?;
        }
        let waited_ns = clock.now_ns() - begun_ns;
        let mut orders = Prepared::of(Framing::SoupBinTcp, LIVE_ORDERS, clock);
        let other = StreamDrive::log_in(entry, &mut orders, clock)?;
        Ok(Self { session, requests, other, orders, waited_ns })
    }

    /// One resend of all reports, beside the other session.
    pub(super) fn run(
        &mut self,
        asked: &ResendOptions,
        figures: &mut ResendFigures,
    ) -> Result<Driven, DriveError> {
        let Self { session, requests, other, orders, .. } = self;
        let alone = send_orders(other, orders, |count| count == ORDERS_ALONE)?;
        figures.orders_alone.push(&alone);
        // The first message is the answer to the Logon.
        let numbers = 2..asked.count as u64 + 2;
        let request = requests.resend_request(&numbers);
        let is_over = AtomicBool::new(false);
        let memory = |name| SystemFiles::of_this_machine().memory("self", name);
        // Resets the peak, where the system can.
        let is_reset = fs::write("/proc/self/clear_refs", "5").is_ok();
        let before = memory("VmRSS:").filter(|_| is_reset);
        let (driven, meanwhile) = thread::scope(|scope| {
            let is_over = &is_over;
            let beside =
                scope.spawn(|| send_orders(other, orders, |_| is_over.load(Ordering::Relaxed)));
            let driven = session.resend(&request, numbers, asked.from_disk);
            is_over.store(true, Ordering::Relaxed);
            let beside = beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, DriveError>((driven?, beside?))
        })?;
        figures.orders_meanwhile.push(&meanwhile);
        if let (Some(before), Some(peak)) = (before, memory("VmHWM:")) {
            figures.memory_bytes.push(peak.saturating_sub(before) as f64);
        }
        Ok(driven)
    }
}

/// Waits until the files have the reports to all inputs.
fn wait_for_files(
    asked: &ResendOptions,
    status: &mut impl FnMut() -> Value,
) -> Result<(), DriveError> {
    let (mut looks, mut last) = (0, 0);
    while looks < LOOKS_MAX {
        let status = status();
        let sequence = status["reply_files"]["sequence"].as_u64().unwrap_or(0);
        if status["sequence"].as_u64().is_some_and(|there| there <= sequence) {
            return Ok(());
        }
        looks = if sequence > last { 0 } else { looks + 1 };
        last = sequence;
        thread::sleep(LOOK_INTERVAL);
    }
    Err(DriveError::Silence { answered: 0, asked: asked.count })
}

/// Sends an order or a cancel every millisecond until the resend is over; at least one.
fn send_orders(
    drive: &mut StreamDrive,
    prepared: &mut Prepared,
    is_over: impl Fn(usize) -> bool,
) -> Result<Latency, DriveError> {
    let mut latency = Latency::new();
    for count in 1.. {
        prepared.fill(1);
        latency.merge(&drive.run(prepared, 1)?.latency);
        if is_over(count) {
            break;
        }
        thread::sleep(ORDER_INTERVAL);
    }
    Ok(latency)
}
