//! One thread of the load: sends what is due on its sessions and takes the answers.
//!
//! Invariant: every loop ends by the clock, whatever the venue does.

use std::{
    hint, mem,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::{FailureReason, LoadCounts, LoadOptions, SessionFailure, mix::Mix, session::Session};
use crate::{latency::Latency, schedule::ArrivalSchedule};
use ring::Clock;

/// The most requests sent between two looks for answers.
const BURST_MAX: usize = 64;
/// Waiting longer than this for the next send, a worker sleeps.
const SLEEP_FROM_NS: u64 = 200_000;
/// So much before the next send it wakes: what a sleep may take too long.
const SLEEP_MARGIN_NS: u64 = 150_000;
/// While answers are awaited it stays awake for so long after the last thing that happened,
const AWAKE_NS: u64 = 1_000_000;
/// and after that sleeps no longer than this at a time.
const NAP_NS_MAX: u64 = 50_000;
/// Without anything to wait for it sleeps no longer than this at a time, for the sake of heartbeats.
const SLEEP_NS_MAX: u64 = 10_000_000;
/// How long the venue may take to close after a logout.
const GOODBYE_NS_MAX: u64 = 500_000_000;
/// Turns without work before it lets others run instead of spinning.
const SPINS: u32 = 64;

/// Goes round the sessions of one thread: sends what is due, takes what arrived.
pub(super) struct Worker<'a> {
    options: &'a LoadOptions,
    clock: &'a dyn Clock,
    stop: &'a AtomicBool,
    exchange: &'a Exchange,
    sessions: Vec<Session>,
    /// Whose turn it is to send, and how many it sent in a row.
    turn: usize,
    turn_sent: usize,
    schedule: ArrivalSchedule,
    /// When the last request may be due.
    end_ns: u64,
    mix: Mix,
    tally: Tally,
    failures: Vec<SessionFailure>,
    /// When something was sent or arrived last.
    busy_ns: u64,
    idle_turns: u32,
}

/// What is counted since the start, and recorded since it was last handed over.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: LoadCounts,
    pub(super) scheduled: Latency,
    pub(super) sent: Latency,
}

pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) failures: Vec<SessionFailure>,
}

impl<'a> Worker<'a> {
    #[expect(clippy::too_many_arguments, reason = "made in one place, from what is at hand there")]
    pub(super) fn new(
        options: &'a LoadOptions,
        clock: &'a dyn Clock,
        stop: &'a AtomicBool,
        exchange: &'a Exchange,
        sessions: Vec<Session>,
        start_ns: u64,
        part: usize,
        parts: usize,
    ) -> Self {
        let schedule = ArrivalSchedule::part(
            options.arrivals,
            options.rate_per_second,
            start_ns,
            options.seed,
            part as u64,
            parts as u64,
        );
        let seed = options.seed.wrapping_add((part as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
        Self {
            options,
            clock,
            stop,
            exchange,
            sessions,
            turn: 0,
            turn_sent: 0,
            schedule,
            end_ns: start_ns.saturating_add(options.duration_ns),
            mix: Mix::new(&options.symbols, options.live_orders_max, seed),
            tally: Tally::default(),
            failures: Vec::new(),
            busy_ns: start_ns,
            idle_turns: 0,
        }
    }

    /// Sends until the end, waits for the last answers, and says goodbye.
    pub(super) fn run(mut self) -> Outcome {
        self.send_all();
        self.settle_all();
        self.say_goodbye();
        self.exchange.close(&self.tally.counts);
        Outcome { tally: self.tally, failures: self.failures }
    }

    /// While requests are due, or were and could not be sent yet.
    fn send_all(&mut self) {
        let give_up_ns = self.end_ns.saturating_add(self.options.grace_ns);
        loop {
            let now_ns = self.clock.now_ns();
            if self.stop.load(Ordering::Relaxed) || now_ns >= give_up_ns || self.sessions.is_empty()
            {
                let until_ns = now_ns.min(self.end_ns.saturating_sub(1));
                self.tally.counts.unsent += self.schedule.due(until_ns);
                return;
            }
            if self.schedule.next_ns() >= self.end_ns {
                return;
            }
            let sent = self.send_due(now_ns);
            let received = self.turn_sessions();
            self.pace(now_ns, sent + received, self.schedule.next_ns());
        }
    }

    /// Until every request is answered, or known to get no answer, or the grace is over.
    fn settle_all(&mut self) {
        let give_up_ns = self.clock.now_ns().saturating_add(self.options.grace_ns);
        loop {
            let now_ns = self.clock.now_ns();
            self.each_session(|session, _| {
                if session.tracker.outstanding() > 0 {
                    session.settle(now_ns)?;
                }
                Ok(0)
            });
            let received = self.turn_sessions();
            let is_settled = |session: &Session| session.tracker.outstanding() == 0;
            if self.sessions.iter().all(is_settled) || now_ns >= give_up_ns {
                break;
            }
            self.pace(now_ns, received, give_up_ns);
        }
        for session in &mut self.sessions {
            session.tracker.abandon(&mut self.tally.counts);
        }
    }

    /// Logs out, and gives the venue a moment to close, so that the next login finds the session free.
    /// The run is over: failures here are ignored.
    fn say_goodbye(&mut self) {
        let now_ns = self.clock.now_ns();
        let mut sessions = mem::take(&mut self.sessions);
        sessions.retain_mut(|session| session.log_out(now_ns));
        while !sessions.is_empty() && self.clock.now_ns() < now_ns.saturating_add(GOODBYE_NS_MAX) {
            thread::sleep(Duration::from_nanos(NAP_NS_MAX));
            let (options, clock, tally) = (self.options, self.clock, &mut self.tally);
            sessions.retain_mut(|session| session.poll(options, clock, tally).is_ok());
        }
    }

    /// Sends the requests that are due, as far as there is room; returns how many.
    fn send_due(&mut self, now_ns: u64) -> usize {
        let last_ns = now_ns.min(self.end_ns.saturating_sub(1));
        let mut sent = 0;
        while sent < BURST_MAX && self.schedule.next_ns() <= last_ns {
            let Some(at) = self.next_session() else { break };
            match self.send_next(at) {
                Ok(()) => sent += 1,
                Err(reason) => self.fail(at, reason),
            }
        }
        if sent > 0 {
            self.each_session(|session, _| session.flush().map(|()| 0));
        }
        sent
    }

    /// The session that sends next: each so many requests as share a datagram, then the next one
    /// that has room; `None` if none has.
    fn next_session(&mut self) -> Option<usize> {
        if self.turn_sent >= self.options.requests_per_datagram {
            (self.turn, self.turn_sent) = (self.turn + 1, 0);
        }
        for _ in 0..self.sessions.len() {
            let at = self.turn % self.sessions.len();
            if self.sessions[at].has_room(self.options.outstanding_max) {
                return Some(at);
            }
            (self.turn, self.turn_sent) = (at + 1, 0);
        }
        None
    }

    fn send_next(&mut self, at: usize) -> Result<(), FailureReason> {
        let session = &mut self.sessions[at];
        let Some(wish) = self.mix.next(&session.tracker) else {
            return Err(FailureReason::NumbersUsedUp);
        };
        let sent_ns = self.clock.now_ns();
        session.send(&wish.message, sent_ns)?;
        let scheduled_ns = self.schedule.take_next();
        let counts = &mut self.tally.counts;
        wish.sent(&mut session.tracker, counts, scheduled_ns, sent_ns);
        if sent_ns.saturating_sub(scheduled_ns) >= self.options.late_ns {
            counts.late_sends += 1;
        }
        self.turn_sent += 1;
        Ok(())
    }

    /// Takes what arrived at each session; returns how many messages did.
    fn turn_sessions(&mut self) -> usize {
        let (options, clock) = (self.options, self.clock);
        self.each_session(|session, tally| {
            let received = session.poll(options, clock, tally)?;
            session.watch(options.silence_ns_max, clock.now_ns())?;
            Ok(received)
        })
    }

    /// One turn of each session; those that fail are over. Returns the sum of what turns return.
    fn each_session(
        &mut self,
        mut turn: impl FnMut(&mut Session, &mut Tally) -> Result<usize, FailureReason>,
    ) -> usize {
        let (mut at, mut total) = (0, 0);
        while at < self.sessions.len() {
            match turn(&mut self.sessions[at], &mut self.tally) {
                Ok(count) => {
                    total += count;
                    at += 1;
                }
                Err(reason) => self.fail(at, reason),
            }
        }
        total
    }

    fn fail(&mut self, at: usize, reason: FailureReason) {
        let mut session = self.sessions.remove(at);
        session.tracker.abandon(&mut self.tally.counts);
        self.failures.push(SessionFailure { session: session.index, reason });
        (self.turn, self.turn_sent) = (0, 0);
    }

    /// After a turn that did `work`: goes on at once, or lets time pass, but not beyond `next_ns`.
    fn pace(&mut self, now_ns: u64, work: usize, next_ns: u64) {
        if self.exchange.is_asked() {
            let waits = self.sessions.iter().map(|session| session.tracker.outstanding()).sum();
            self.exchange.hand_over(&mut self.tally, waits);
        }
        if work > 0 {
            self.busy_ns = now_ns;
            self.idle_turns = 0;
            return;
        }
        self.idle_turns = self.idle_turns.saturating_add(1);
        let awaits = self.sessions.iter().any(|session| session.tracker.outstanding() > 0);
        let sleep_ns_max = if !awaits {
            SLEEP_NS_MAX
        } else if now_ns.saturating_sub(self.busy_ns) >= AWAKE_NS {
            NAP_NS_MAX
        } else {
            0
        };
        let wait_ns = next_ns.saturating_sub(self.clock.now_ns());
        if sleep_ns_max > 0 && wait_ns > SLEEP_FROM_NS {
            thread::sleep(Duration::from_nanos((wait_ns - SLEEP_MARGIN_NS).min(sleep_ns_max)));
        } else if self.idle_turns < SPINS {
            hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}

/// The exchange between a worker and the thread that reports progress: on request the worker hands over its
/// figures and continues with cleared ones. The worker merges nothing.
#[derive(Default)]
pub(super) struct Exchange {
    /// Set by the asker, cleared by the worker; only changed while `window` is locked.
    is_asked: AtomicBool,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    /// As they were when handed over; the latencies are empty while nothing is.
    tally: Tally,
    outstanding: usize,
    is_closed: bool,
}

impl Exchange {
    pub(super) fn ask(&self) {
        let window = self.lock();
        if !window.is_closed {
            self.is_asked.store(true, Ordering::Release); // pairs with `is_asked`
        }
    }

    /// True once the worker handed over, or is done.
    pub(super) fn is_answered(&self) -> bool {
        !self.is_asked()
    }

    /// Adds what the worker counted to `counts`; gives how many requests await their answers.
    pub(super) fn add_counts(&self, counts: &mut LoadCounts) -> usize {
        let window = self.lock();
        counts.merge(&window.tally.counts);
        window.outstanding
    }

    pub(super) fn take_into(&self, scheduled: &mut Latency, sent: &mut Latency) {
        let tally = &mut self.lock().tally;
        scheduled.merge(&tally.scheduled);
        sent.merge(&tally.sent);
        tally.scheduled.clear();
        tally.sent.clear();
    }

    fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire) // pairs with `ask`, `hand_over` and `close`
    }

    fn hand_over(&self, tally: &mut Tally, outstanding: usize) {
        let mut window = self.lock();
        window.tally.counts.clone_from(&tally.counts);
        mem::swap(&mut window.tally.scheduled, &mut tally.scheduled);
        mem::swap(&mut window.tally.sent, &mut tally.sent);
        window.outstanding = outstanding;
        self.is_asked.store(false, Ordering::Release); // pairs with `is_asked`
    }

    /// The worker is done: it hands over no more latencies.
    fn close(&self, counts: &LoadCounts) {
        let mut window = self.lock();
        window.tally.counts.clone_from(counts);
        window.outstanding = 0;
        window.is_closed = true;
        self.is_asked.store(false, Ordering::Release); // pairs with `is_asked`
    }

    fn lock(&self) -> MutexGuard<'_, Window> {
        self.window.lock().expect("no thread panics while it holds the lock")
    }
}
