//! The counts and records of a worker, and the evidence for the verdict on the run.
//!
//! Invariant: every request that was due is recorded once in `scheduled`: with its latency, or with the
//! time that it had waited when it was given up. A cancel or replace that came too late for its order is
//! the exception: OUCH does not answer it.

use super::{LoadCounts, LoadOptions, PacketLatency, tracker::Times};
use crate::latency::Latency;

/// Counted since the start, and recorded since it was last handed over.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: LoadCounts,
    pub(super) scheduled: Latency,
    pub(super) sent: Latency,
    /// Where the times of packets are asked.
    pub(super) packets: Option<PacketLatency>,
    /// When the last request was sent and the last answer taken; 0 before the first.
    pub(super) sent_ns_last: u64,
    pub(super) answered_ns_last: u64,
}

impl Tally {
    /// Records answers, which it takes.
    pub(super) fn answered(
        &mut self,
        answers: &mut Vec<Times>,
        options: &LoadOptions,
        now_ns: u64,
    ) {
        self.answered_ns_last = now_ns;
        // Requests of a burst share the reading of the clock before it, and their answers that of this batch.
        for burst in answers.chunk_by(|one, next| one.sent_ns == next.sent_ns) {
            self.sent.record_many(now_ns.saturating_sub(burst[0].sent_ns), burst.len() as u64);
        }
        for due in answers.chunk_by(|one, next| one.scheduled_ns == next.scheduled_ns) {
            let latency_ns = now_ns.saturating_sub(due[0].scheduled_ns);
            self.scheduled.record_many(latency_ns, due.len() as u64);
        }
        if let Some(on_answer) = &options.on_answer {
            for Times { scheduled_ns, .. } in answers.iter() {
                on_answer(*scheduled_ns, now_ns.saturating_sub(*scheduled_ns));
            }
        }
        answers.clear();
    }

    /// Records requests without an answer, by the time that they waited for one.
    pub(super) fn gave_up(&mut self, requests: impl Iterator<Item = Times>, now_ns: u64) {
        for Times { scheduled_ns, sent_ns, .. } in requests {
            self.scheduled.record(now_ns.saturating_sub(scheduled_ns));
            self.sent.record(now_ns.saturating_sub(sent_ns));
        }
    }

    /// Records a request that was due and is not sent any more.
    pub(super) fn unsent(&mut self, scheduled_ns: u64, now_ns: u64) {
        self.counts.unsent += 1;
        self.scheduled.record(now_ns.saturating_sub(scheduled_ns));
    }
}

/// Why requests that were due were not sent at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Backlog {
    #[default]
    None,
    /// No connection took another request.
    Connection,
    /// Every session had as many requests without an answer as it may.
    OutstandingMax,
    /// There was room, and the generator had not got so far.
    Generator,
}

/// The generator's observations of itself while it sent, of all its threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LoadEvidence {
    /// Threads that sent.
    pub threads: u64,
    /// Time from the first to the last send, of all threads together, in nanoseconds, as all here.
    pub sending_ns: u64,
    /// Time with requests due that no connection took.
    pub held_by_connection_ns: u64,
    /// Time with requests due beyond the limit of outstanding requests.
    pub held_by_outstanding_max_ns: u64,
    /// Time with requests due and room for them.
    pub behind_ns: u64,
    /// Processor time of the threads.
    pub cpu_ns: u64,
    /// Time that the threads were ready to run and had no core; `None` where the kernel does not say.
    pub core_wait_ns: Option<u64>,
    /// Requests without an answer when sending ended.
    pub outstanding_at_end: u64,
    /// The most requests without an answer at one time, each thread at its own.
    pub outstanding_high_water: u64,
    /// Replies that did not arrive the first time and were requested again.
    pub lost_replies: u64,
}

impl LoadEvidence {
    pub(super) fn waited(&mut self, backlog: Backlog, waited_ns: u64) {
        match backlog {
            Backlog::None => {}
            Backlog::Connection => self.held_by_connection_ns += waited_ns,
            Backlog::OutstandingMax => self.held_by_outstanding_max_ns += waited_ns,
            Backlog::Generator => self.behind_ns += waited_ns,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.threads += other.threads;
        self.sending_ns += other.sending_ns;
        self.held_by_connection_ns += other.held_by_connection_ns;
        self.held_by_outstanding_max_ns += other.held_by_outstanding_max_ns;
        self.behind_ns += other.behind_ns;
        self.cpu_ns += other.cpu_ns;
        self.core_wait_ns = match (self.threads == other.threads, self.core_wait_ns) {
            (true, _) => other.core_wait_ns,
            (false, own) => own.zip(other.core_wait_ns).map(|(own, other)| own + other),
        };
        self.outstanding_at_end += other.outstanding_at_end;
        self.outstanding_high_water += other.outstanding_high_water;
        self.lost_replies += other.lost_replies;
    }
}
