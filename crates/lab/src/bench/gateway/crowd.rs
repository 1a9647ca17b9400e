//! A client with many connections over SoupBinTCP, on one thread that never sleeps.
//!
//! Invariant: each request has one answer, in order on its connection, or the run fails. Latency of an open loop counts from
//! the time at which a request was due.

use std::{net::SocketAddr, os::fd::AsFd};

use os::Epoll;
use venue::clock::SystemClock;
use wire::soupbintcp::LoginRequest;

use super::{
    DriveError, SILENCE_NS_MAX,
    prepared::Prepared,
    stream::{Framing, StreamDrive},
};
use crate::latency::Latency;

/// Connections whose readiness is asked for in one call.
const EVENTS_MAX: usize = 64;
/// The most requests sent between two looks for answers.
const BURST_MAX: usize = 16;
/// Turns without work before the client yields its core.
const SPINS: u32 = 64;
/// Heartbeat interval: shorter than the venue's timeout for a silent connection.
const HEARTBEAT_NS: u64 = 1_000_000_000;
/// Client Heartbeat of SoupBinTCP.
const HEARTBEAT: [u8; 3] = [0, 1, b'R'];

/// The event that releases the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Its time in the schedule: `per_second` requests a second, on the connections in turn.
    Open { per_second: u64 },
    /// The answer to the one before on its connection.
    Closed,
}

pub(super) struct Crowd {
    epoll: Epoll,
    members: Vec<Member>,
    clock: SystemClock,
}

/// One connection, and the progress of its requests.
struct Member {
    drive: StreamDrive,
    prepared: Prepared,
    /// Requests of this run that were due, sent whole, and answered.
    due: usize,
    sent: usize,
    answered: usize,
    /// Bytes of the next request that were sent already.
    written: usize,
    /// When each request of this run was due.
    due_ns: Vec<u64>,
}

/// The figures of the client in one run.
pub(super) struct CrowdRun {
    pub(super) answered: usize,
    pub(super) elapsed_ns: u64,
    pub(super) latency: Latency,
    /// Answers that came later than the limit.
    pub(super) late: u64,
}

impl Crowd {
    /// Connects and logs in, one after the other.
    pub(super) fn log_in(
        server: SocketAddr,
        logins: impl Iterator<Item = LoginRequest>,
        live_orders: u32,
        clock: SystemClock,
    ) -> Result<Self, DriveError> {
        let epoll = Epoll::new(EVENTS_MAX)?;
        let mut members = Vec::new();
        for (index, login) in logins.enumerate() {
            let drive = StreamDrive::log_in_as(server, login, clock)?;
            epoll.add(drive.unblocked()?.as_fd(), index as u64)?;
            members.push(Member {
                drive,
                prepared: Prepared::of(Framing::SoupBinTcp, live_orders, clock),
                due: 0,
                sent: 0,
                answered: 0,
                written: 0,
                due_ns: Vec::new(),
            });
        }
        Ok(Self { epoll, members, clock })
    }

    /// Keeps all connections for this long without requests.
    pub(super) fn rest(&mut self, for_ns: u64) -> Result<(), DriveError> {
        let begun_ns = self.clock.now_ns();
        let mut beaten_ns = begun_ns;
        loop {
            let now_ns = self.clock.now_ns();
            if for_ns <= now_ns.saturating_sub(begun_ns) {
                return Ok(());
            }
            if HEARTBEAT_NS <= now_ns.saturating_sub(beaten_ns) {
                beaten_ns = now_ns;
                self.members
                    .iter_mut()
                    .try_for_each(|member| member.drive.write(&HEARTBEAT).map(drop))?;
            }
            let mut members = std::mem::take(&mut self.members);
            let taken = self.each_ready(|index| members[index].take_answers(now_ns, &mut |_| {}));
            self.members = members;
            taken?;
            std::thread::yield_now();
        }
    }

    /// Sends `count` requests, at least one on each connection, and takes the answers.
    pub(super) fn run(
        &mut self,
        pace: Pace,
        count: usize,
        late_ns: u64,
    ) -> Result<CrowdRun, DriveError> {
        let share = count.div_ceil(self.members.len()).max(1);
        let asked = share * self.members.len();
        for member in &mut self.members {
            member.begin(share);
        }
        let mut members = std::mem::take(&mut self.members);
        let outcome = self.drive(&mut members, pace, asked, late_ns);
        self.members = members;
        outcome
    }

    fn drive(
        &mut self,
        members: &mut [Member],
        pace: Pace,
        asked: usize,
        late_ns: u64,
    ) -> Result<CrowdRun, DriveError> {
        let mut latency = Latency::new();
        let (mut due, mut answered, mut late, mut idle_turns) = (0, 0, 0, 0_u32);
        let begun_ns = self.clock.now_ns();
        let mut heard_ns = begun_ns;
        if pace == Pace::Closed {
            for member in members.iter_mut() {
                member.ask(begun_ns)?;
            }
        }
        while answered < asked {
            let now_ns = self.clock.now_ns();
            let mut work = 0;
            if let Pace::Open { per_second } = pace {
                while work < BURST_MAX && due < asked {
                    let due_ns = begun_ns + at_ns(due, per_second);
                    if now_ns < due_ns {
                        break;
                    }
                    let at = due % members.len();
                    members[at].ask(due_ns)?;
                    due += 1;
                    work += 1;
                }
            }
            let clock = self.clock;
            let before = answered;
            self.each_ready(|index| {
                let member = &mut members[index];
                // The connection may have had no room for the requests due.
                member.send()?;
                let mut took = 0;
                member.take_answers(clock.now_ns(), &mut |latency_ns| {
                    latency.record(latency_ns);
                    late += u64::from(late_ns < latency_ns);
                    took += 1;
                })?;
                answered += took;
                if pace == Pace::Closed && took > 0 && !member.is_done() {
                    member.ask(clock.now_ns())?;
                }
                Ok(())
            })?;
            if before < answered {
                heard_ns = now_ns;
            }
            if before < answered || work > 0 {
                idle_turns = 0;
                continue;
            }
            idle_turns += 1;
            let waits = pace == Pace::Closed || answered < due;
            if waits && SILENCE_NS_MAX < now_ns.saturating_sub(heard_ns) {
                let asked = members.iter().map(|member| member.sent).sum();
                return Err(DriveError::Silence { answered, asked });
            }
            match idle_turns < SPINS {
                true => std::hint::spin_loop(),
                false => std::thread::yield_now(),
            }
        }
        let elapsed_ns = self.clock.now_ns() - begun_ns;
        Ok(CrowdRun { answered, elapsed_ns, latency, late })
    }

    /// Calls `each` for every connection that the kernel reports as ready.
    fn each_ready(
        &mut self,
        mut each: impl FnMut(usize) -> Result<(), DriveError>,
    ) -> Result<(), DriveError> {
        let mut outcome = Ok(());
        self.epoll.poll(|ready| {
            if outcome.is_ok() {
                outcome = each(ready.token as usize);
            }
        })?;
        outcome
    }
}

impl Member {
    /// Prepares the next `count` requests.
    fn begin(&mut self, count: usize) {
        self.prepared.fill(count);
        (self.due, self.sent, self.answered, self.written) = (0, 0, 0, 0);
        self.due_ns.clear();
        self.due_ns.reserve(count);
    }

    fn is_done(&self) -> bool {
        self.due == self.prepared.len()
    }

    /// The next request is due.
    fn ask(&mut self, due_ns: u64) -> Result<(), DriveError> {
        self.due_ns.push(due_ns);
        self.due += 1;
        self.send()
    }

    /// Sends the requests due, as far as the connection takes them.
    fn send(&mut self) -> Result<(), DriveError> {
        if self.sent == self.due {
            return Ok(());
        }
        let waiting = &self.prepared.bytes(self.sent, self.due)[self.written..];
        self.written += self.drive.write(waiting)?;
        while self.sent < self.due {
            let len = self.prepared.bytes(self.sent, self.sent + 1).len();
            if self.written < len {
                break;
            }
            self.written -= len;
            self.sent += 1;
        }
        Ok(())
    }

    /// Reads the bytes that arrived, and gives the latency of each answer.
    fn take_answers(&mut self, now_ns: u64, answer: &mut dyn FnMut(u64)) -> Result<(), DriveError> {
        loop {
            let (count, may_have_more) = self.drive.read(self.answered)?;
            for due_ns in &self.due_ns[self.answered..self.answered + count] {
                answer(now_ns.saturating_sub(*due_ns));
            }
            self.answered += count;
            if !may_have_more {
                return Ok(());
            }
        }
    }
}

/// When a request is due, from the begin of the run.
fn at_ns(number: usize, per_second: u64) -> u64 {
    (number as u128 * 1_000_000_000 / u128::from(per_second)) as u64
}
