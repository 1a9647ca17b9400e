//! One thread of the load: sends the requests due on its sessions and takes the answers.
//!
//! Invariant: every phase ends by the clock, whatever the venue does, and a turn never waits.

use std::{
    hint,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use super::{
    FailureReason, LoadOptions, Loop, SessionFailure,
    exchange::Exchange,
    mix::{Mix, Wish},
    replay::ReplayRows,
    session::Session,
    tally::{Backlog, LoadEvidence, Tally},
    tracker::Times,
};
use crate::schedule::ArrivalSchedule;
use ring::Clock;

/// The most requests sent between two looks for answers.
const BURST_MAX: usize = 64;
/// A worker sleeps if its next send is further away than this.
const SLEEP_FROM_NS: u64 = 200_000;
/// It wakes this long before the next send: a sleep may take longer than asked.
const SLEEP_MARGIN_NS: u64 = 150_000;
/// While answers are awaited it stays awake for this long after the last send or answer: a nap makes the latency of
/// an answer that arrives in it longer, by 0.1 ms on a virtual machine, where the core has to wake up,
const AWAKE_NS: u64 = 20_000_000;
/// and after that sleeps no longer than this at a time.
const NAP_NS_MAX: u64 = 50_000;
/// With nothing to wait for, it sleeps no longer than this at a time, for heartbeats.
const SLEEP_NS_MAX: u64 = 10_000_000;
/// How long the venue may take to close after a logout.
const GOODBYE_NS_MAX: u64 = 500_000_000;
/// Turns without work before it lets others run instead of spinning.
const SPINS: u32 = 64;
/// It checks this often whether it shares its core,
const SHARING_LOOK_NS: u64 = 50_000_000;
/// does so if it was without a core for more than one in this many nanoseconds, and assumes the same for
const SHARING_ONE_IN: u64 = 4;
/// this long.
const SHARING_NS: u64 = 1_000_000_000;
/// On a shared core it sleeps this long instead of spinning.
const SHARED_NAP_NS: u64 = 20_000;

/// Goes round the sessions of one thread: sends the requests due, takes the messages that arrived.
pub(super) struct Worker<'a> {
    options: &'a LoadOptions,
    clock: &'a dyn Clock,
    stop: &'a AtomicBool,
    exchange: &'a Exchange,
    sessions: Vec<Session>,
    /// The session whose turn it is to send, and how many it sent in a row.
    turn: usize,
    turn_sent: usize,
    schedule: ArrivalSchedule,
    phase: Phase,
    start_ns: u64,
    /// When the last request may be due.
    end_ns: u64,
    mix: Mix,
    /// The request that is being sent.
    message: Vec<u8>,
    /// Instead of the mix, the requests of a recorded flow.
    replay: Option<ReplayRows>,
    tally: Tally,
    evidence: LoadEvidence,
    backlog: Backlog,
    /// When the last turn looked for requests to send.
    looked_ns: u64,
    failures: Vec<SessionFailure>,
    /// When something was sent or arrived last.
    busy_ns: u64,
    idle_turns: u32,
    sharing: Sharing,
}

/// Whether the thread shares its core with another that wants it, such as the venue. Then spinning would
/// keep that one waiting: sched_yield(2) gives way only to threads of the same scheduling group.
#[derive(Clone, Copy, Debug, Default)]
struct Sharing {
    looked_ns: u64,
    core_wait_ns: u64,
    until_ns: u64,
}

impl Sharing {
    /// True while the core is shared, as far as the kernel says.
    fn is_shared(&mut self, now_ns: u64) -> bool {
        if now_ns >= self.looked_ns + SHARING_LOOK_NS {
            let core_wait_ns = os::thread_core_wait_ns().unwrap_or(0);
            let waited_ns = core_wait_ns.saturating_sub(self.core_wait_ns);
            if self.looked_ns > 0 && waited_ns * SHARING_ONE_IN > now_ns - self.looked_ns {
                self.until_ns = now_ns + SHARING_NS;
            }
            (self.looked_ns, self.core_wait_ns) = (now_ns, core_wait_ns);
        }
        now_ns < self.until_ns
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Requests are due, or were and could not be sent yet.
    Sending,
    /// Every request is sent; answers are awaited until this time.
    Settling { until_ns: u64 },
    /// Logged out; the venue may close until this time, so that the next login finds the session free.
    Leaving { until_ns: u64 },
}

/// The work of a turn, and until when there is nothing to do but to take answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    now_ns: u64,
    work: usize,
    next_ns: u64,
}

pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) evidence: LoadEvidence,
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
            options.shape(),
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
            phase: Phase::Sending,
            start_ns,
            end_ns: start_ns.saturating_add(options.duration_ns),
            mix: Mix::new(&options.symbols, options.mix, options.live_orders_max, seed),
            message: Vec::new(),
            replay: None,
            tally: Tally::default(),
            evidence: LoadEvidence { threads: 1, ..LoadEvidence::default() },
            backlog: Backlog::None,
            looked_ns: start_ns,
            failures: Vec::new(),
            busy_ns: start_ns,
            idle_turns: 0,
            sharing: Sharing::default(),
        }
    }

    /// Has the worker send the requests of this flow, which are those of its sessions.
    pub(super) fn with_replay(mut self, replay: Option<ReplayRows>) -> Self {
        self.replay = replay;
        self
    }

    /// Sends until the end, waits for the last answers, and logs out.
    pub(super) fn run(mut self) -> Outcome {
        // Otherwise a sleep takes 50 µs longer than asked, and up to 4 ms where a core is shared. Where the call is not
        // allowed, that stays so.
        let _ = os::wake_promptly();
        let _ = os::ask_for_short_slices();
        let (cpu_ns, core_wait_ns) = (os::thread_cpu_ns(), os::thread_core_wait_ns());
        while let Some(turn) = self.turn() {
            self.pace(turn);
        }
        self.evidence.cpu_ns = os::thread_cpu_ns() - cpu_ns;
        let core_wait = os::thread_core_wait_ns().zip(core_wait_ns);
        self.evidence.core_wait_ns = core_wait.map(|(now, before)| now.saturating_sub(before));
        self.outcome()
    }

    pub(super) fn outcome(self) -> Outcome {
        self.exchange.close(&self.tally.counts);
        Outcome { tally: self.tally, evidence: self.evidence, failures: self.failures }
    }

    /// One turn, which does not wait; `None` once the run is over.
    pub(super) fn turn(&mut self) -> Option<Turn> {
        let now_ns = self.clock.now_ns();
        let turn = match self.phase {
            Phase::Sending => self.turn_sending(now_ns),
            Phase::Settling { until_ns } => self.turn_settling(now_ns, until_ns),
            Phase::Leaving { until_ns } => self.turn_leaving(now_ns, until_ns)?,
        };
        if self.exchange.is_asked() {
            let outstanding = self.outstanding() as usize;
            self.exchange.hand_over(&mut self.tally, outstanding);
        }
        Some(turn)
    }

    fn turn_sending(&mut self, now_ns: u64) -> Turn {
        let give_up_ns = self.end_ns.saturating_add(self.options.grace_ns);
        self.evidence.waited(self.backlog, now_ns - self.looked_ns);
        self.backlog = Backlog::None;
        self.looked_ns = now_ns;
        let is_over =
            self.stop.load(Ordering::Relaxed) || now_ns >= give_up_ns || self.sessions.is_empty();
        if is_over || self.next_due_ns(now_ns) >= self.end_ns {
            self.stop_sending(now_ns);
            return Turn { now_ns, work: 1, next_ns: now_ns };
        }
        let sent = self.send_due(now_ns);
        let received = self.turn_sessions(now_ns);
        let outstanding = self.outstanding();
        let high_water = &mut self.evidence.outstanding_high_water;
        *high_water = outstanding.max(*high_water);
        Turn { now_ns, work: sent + received, next_ns: self.next_due_ns(now_ns) }
    }

    fn stop_sending(&mut self, now_ns: u64) {
        if self.options.pacing == Loop::Open {
            let last_ns = now_ns.min(self.end_ns.saturating_sub(1));
            while self.next_due_ns(now_ns) <= last_ns {
                let due_ns = self.take_due(now_ns);
                self.tally.unsent(due_ns, now_ns);
                // A file that cannot be read on has no more requests.
                let _ = self.replay.as_mut().map(ReplayRows::step);
            }
        }
        self.evidence.sending_ns = now_ns - self.start_ns;
        self.evidence.outstanding_at_end = self.outstanding();
        self.phase = Phase::Settling { until_ns: now_ns.saturating_add(self.options.grace_ns) };
    }

    /// Waits until every request is answered or known to get no answer, or the time is over.
    fn turn_settling(&mut self, now_ns: u64, until_ns: u64) -> Turn {
        self.each_session(now_ns, |session, _| {
            if session.tracker.outstanding() > 0 {
                session.settle(now_ns)?;
            }
            Ok(0)
        });
        let work = self.turn_sessions(now_ns);
        if self.outstanding() == 0 || now_ns >= until_ns {
            for session in &mut self.sessions {
                session.abandon(now_ns, &mut self.tally);
                self.evidence.lost_replies += session.lost_replies();
            }
            self.sessions.retain_mut(|session| session.log_out(now_ns));
            self.phase = Phase::Leaving { until_ns: now_ns.saturating_add(GOODBYE_NS_MAX) };
        }
        Turn { now_ns, work, next_ns: until_ns }
    }

    /// Waits until the venue has closed the connections. The run is over: failures are ignored.
    fn turn_leaving(&mut self, now_ns: u64, until_ns: u64) -> Option<Turn> {
        let (options, clock, tally) = (self.options, self.clock, &mut self.tally);
        self.sessions.retain_mut(|session| session.poll(options, clock, now_ns, tally).is_ok());
        let is_over = self.sessions.is_empty() || now_ns >= until_ns;
        (!is_over).then_some(Turn { now_ns, work: 0, next_ns: until_ns })
    }

    fn outstanding(&self) -> u64 {
        self.sessions.iter().map(|session| session.tracker.outstanding() as u64).sum()
    }

    /// When the next request is due. A closed loop has one due as long as a session may send.
    fn next_due_ns(&self, now_ns: u64) -> u64 {
        match (&self.replay, self.options.pacing) {
            (Some(rows), _) if rows.peek().is_none() => u64::MAX,
            (Some(rows), _) if rows.is_recorded() => rows.next_ns(self.start_ns),
            (_, Loop::Open) => self.schedule.next_ns(),
            (_, Loop::Closed { .. }) => now_ns,
        }
    }

    /// Takes the next request out of the schedule; gives when it was due.
    fn take_due(&mut self, now_ns: u64) -> u64 {
        match (&self.replay, self.options.pacing) {
            (Some(rows), _) if rows.is_recorded() => rows.next_ns(self.start_ns),
            (_, Loop::Open) => self.schedule.take_next(),
            (_, Loop::Closed { .. }) => now_ns,
        }
    }

    /// Sends the requests that are due, as far as there is room; returns how many. They share the
    /// clock reading `now_ns` as their time of sending.
    fn send_due(&mut self, now_ns: u64) -> usize {
        let last_ns = now_ns.min(self.end_ns.saturating_sub(1));
        let mut sent = 0;
        while self.next_due_ns(now_ns) <= last_ns {
            if sent == BURST_MAX {
                self.backlog = Backlog::Generator;
                break;
            }
            let next = match self.replay {
                Some(_) => self.session_of_recorded(now_ns),
                None => self.next_session(),
            };
            let Some(at) = next else { break };
            match self.send_next(at, now_ns) {
                Ok(()) => sent += 1,
                Err(reason) => self.fail(at, reason, now_ns),
            }
        }
        if self.options.pacing != Loop::Open {
            self.backlog = Backlog::None;
        }
        if sent > 0 {
            self.tally.sent_ns_last = now_ns;
            self.each_session(now_ns, |session, _| session.flush().map(|()| 0));
        }
        sent
    }

    /// The session of the next recorded request, if it may send; otherwise the reason is in `backlog`. Requests
    /// behind it wait with it: they keep their order. Those of sessions that are over are not sent.
    fn session_of_recorded(&mut self, now_ns: u64) -> Option<usize> {
        let outstanding_max = self.outstanding_max();
        loop {
            let index = self.replay.as_ref()?.peek()?.session;
            let Some(at) = self.sessions.iter().position(|it| it.index == index) else {
                let due_ns = self.take_due(now_ns);
                self.tally.unsent(due_ns, now_ns);
                // A file that cannot be read on has no more requests.
                let _ = self.replay.as_mut()?.step();
                continue;
            };
            let session = &self.sessions[at];
            self.backlog = if session.tracker.outstanding() >= outstanding_max {
                Backlog::OutstandingMax
            } else if !session.has_room() {
                Backlog::Connection
            } else {
                Backlog::None
            };
            return (self.backlog == Backlog::None).then_some(at);
        }
    }

    fn outstanding_max(&self) -> usize {
        match self.options.pacing {
            Loop::Open => self.options.outstanding_max,
            Loop::Closed { outstanding } => outstanding,
        }
    }

    /// The session that sends next: each as many in a row as share a datagram, then the next one
    /// that has room; `None`, with the reason in `backlog`, if none has.
    fn next_session(&mut self) -> Option<usize> {
        if self.turn_sent >= self.options.requests_per_datagram {
            (self.turn, self.turn_sent) = (self.turn + 1, 0);
        }
        let outstanding_max = self.outstanding_max();
        self.backlog = Backlog::OutstandingMax;
        for _ in 0..self.sessions.len() {
            let at = self.turn % self.sessions.len();
            let session = &self.sessions[at];
            if session.tracker.outstanding() < outstanding_max {
                if session.has_room() {
                    self.backlog = Backlog::None;
                    return Some(at);
                }
                self.backlog = Backlog::Connection;
            }
            (self.turn, self.turn_sent) = (at + 1, 0);
        }
        None
    }

    fn send_next(&mut self, at: usize, now_ns: u64) -> Result<(), FailureReason> {
        let session = &mut self.sessions[at];
        let message = &mut self.message;
        let wish = match &self.replay {
            Some(rows) => {
                let request = rows.peek().expect("a request is due");
                request.message(session.tracker.first_user_ref_num()).map(|(recorded, ask)| {
                    message.clear();
                    message.extend_from_slice(&recorded);
                    Wish::Recorded(ask)
                })
            }
            None => self.mix.next(&session.tracker, message),
        };
        let Some(wish) = wish else { return Err(FailureReason::NumbersUsedUp) };
        session.send(message, now_ns)?;
        let scheduled_ns = self.take_due(now_ns);
        let session = &mut self.sessions[at];
        let sent_bytes = if self.options.packet_times.is_some() { session.bytes_sent() } else { 0 };
        let times = Times { scheduled_ns, sent_ns: now_ns, sent_bytes };
        let counts = &mut self.tally.counts;
        wish.sent(&mut session.tracker, counts, times);
        if now_ns.saturating_sub(scheduled_ns) >= self.options.late_ns {
            counts.late_sends += 1;
        }
        self.turn_sent += 1;
        self.replay.as_mut().map_or(Ok(()), ReplayRows::step)
    }

    /// Takes the messages that arrived at each session; returns how many.
    fn turn_sessions(&mut self, now_ns: u64) -> usize {
        let (options, clock) = (self.options, self.clock);
        self.each_session(now_ns, |session, tally| {
            let received = session.poll(options, clock, now_ns, tally)?;
            session.watch(options.silence_ns_max, now_ns)?;
            Ok(received)
        })
    }

    /// One turn of each session; those that fail are over. Returns the sum of the turns' results.
    fn each_session(
        &mut self,
        now_ns: u64,
        mut turn: impl FnMut(&mut Session, &mut Tally) -> Result<usize, FailureReason>,
    ) -> usize {
        let (mut at, mut total) = (0, 0);
        while at < self.sessions.len() {
            match turn(&mut self.sessions[at], &mut self.tally) {
                Ok(count) => {
                    total += count;
                    at += 1;
                }
                Err(reason) => self.fail(at, reason, now_ns),
            }
        }
        total
    }

    fn fail(&mut self, at: usize, reason: FailureReason, now_ns: u64) {
        let mut session = self.sessions.remove(at);
        session.abandon(now_ns, &mut self.tally);
        self.evidence.lost_replies += session.lost_replies();
        self.failures.push(SessionFailure { session: session.index, reason });
        (self.turn, self.turn_sent) = (0, 0);
    }

    /// Returns at once after a turn that worked. Otherwise lets time pass, but not beyond the next send.
    fn pace(&mut self, turn: Turn) {
        if turn.work > 0 {
            self.busy_ns = turn.now_ns;
            self.idle_turns = 0;
            return;
        }
        self.idle_turns = self.idle_turns.saturating_add(1);
        let sleep_ns_max = if matches!(self.phase, Phase::Leaving { .. }) {
            NAP_NS_MAX
        } else if self.outstanding() == 0 {
            SLEEP_NS_MAX
        } else if turn.now_ns.saturating_sub(self.busy_ns) >= AWAKE_NS {
            NAP_NS_MAX
        } else {
            0
        };
        let wait_ns = turn.next_ns.saturating_sub(self.clock.now_ns());
        if sleep_ns_max > 0 && wait_ns > SLEEP_FROM_NS {
            thread::sleep(Duration::from_nanos((wait_ns - SLEEP_MARGIN_NS).min(sleep_ns_max)));
        } else if wait_ns > 0 && self.sharing.is_shared(turn.now_ns) {
            thread::sleep(Duration::from_nanos(wait_ns.min(SHARED_NAP_NS)));
        } else if self.idle_turns < SPINS {
            hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}
