//! Latency from packet to packet by the clock of the kernel or of the network card, beside that of our own, and the times of
//! each request.
//!
//! Invariant: a latency here has both its times from one clock; an answer that lacks one is counted.

use std::io::{self, Write};

use super::tracker::{Ask, Request};
use crate::latency::Latency;

/// Requests whose times are kept: 15 MiB.
const REQUESTS_MAX: usize = 1 << 18;

/// The latencies of the answers by the times of packets.
#[derive(Debug, Default)]
pub struct PacketLatency {
    /// From the packet that completes a request to the one that completes its answer.
    pub packets: Latency,
    /// The difference between the time from before the request was built to after its answer was read, and that of the
    /// packets.
    pub beyond: Latency,
    /// Answers of which one of the times is unknown.
    pub without: u64,
    /// The first answered requests.
    pub requests: Vec<RequestTimes>,
}

/// The times of an answered request, in nanoseconds: three of Unix time by the clock of the load, which does not follow steps of
/// the wall clock, and two by the clock of its packets ([`PacketTimes`](os::PacketTimes)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimes {
    /// Index of its session.
    pub session: usize,
    pub kind: RequestKind,
    /// Number of the order that it enters, or cancels.
    pub user_ref_num: u32,
    pub due_ns: u64,
    pub sent_ns: u64,
    pub answered_ns: u64,
    pub packet_left_ns: u64,
    pub packet_arrived_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    Enter,
    Replace,
    Cancel,
}

impl RequestKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enter => "enter",
            Self::Replace => "replace",
            Self::Cancel => "cancel",
        }
    }
}

/// An answer that was read at this time by our clock, and whose packet arrived at that time by the clock of packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) request: Request,
    pub(super) answered_ns: u64,
    pub(super) packet_arrived_ns: Option<u64>,
}

impl PacketLatency {
    /// Records an answer, whose request left at this time by the clock of packets.
    pub(super) fn record(
        &mut self,
        session: usize,
        answered: &Answered,
        packet_left_ns: Option<u64>,
    ) {
        let Answered { request, answered_ns, packet_arrived_ns } = *answered;
        let (kind, user_ref_num) = match request.ask {
            Ask::Enter { user_ref_num } => (RequestKind::Enter, user_ref_num),
            Ask::Replace { user_ref_num, .. } => (RequestKind::Replace, user_ref_num),
            Ask::Cancel { user_ref_num } => (RequestKind::Cancel, user_ref_num),
            Ask::Query => return,
        };
        let between = packet_left_ns.zip(packet_arrived_ns);
        // A clock that was set back in between gives no latency.
        let Some((left_ns, arrived_ns)) = between.filter(|(left, arrived)| left <= arrived) else {
            self.without += 1;
            return;
        };
        let packets_ns = arrived_ns - left_ns;
        let own_ns = answered_ns.saturating_sub(request.times.sent_ns);
        self.packets.record(packets_ns);
        self.beyond.record(own_ns.saturating_sub(packets_ns));
        if self.requests.len() < REQUESTS_MAX {
            self.requests.push(RequestTimes {
                session,
                kind,
                user_ref_num,
                due_ns: request.times.scheduled_ns,
                sent_ns: request.times.sent_ns,
                answered_ns,
                packet_left_ns: left_ns,
                packet_arrived_ns: arrived_ns,
            });
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.packets.merge(&other.packets);
        self.beyond.merge(&other.beyond);
        self.without += other.without;
        let room = REQUESTS_MAX.saturating_sub(self.requests.len());
        self.requests.extend(other.requests.into_iter().take(room));
    }

    /// The times of each request that was kept, as CSV.
    ///
    /// # Errors
    /// As the writer says.
    pub fn write_requests(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "session,request,user_ref_num,due_ns,sent_ns,answered_ns,packet_left_ns,packet_arrived_ns"
        )?;
        for it in &self.requests {
            let (session, kind, number) = (it.session, it.kind.as_str(), it.user_ref_num);
            let (due, sent, answered) = (it.due_ns, it.sent_ns, it.answered_ns);
            let (left, arrived) = (it.packet_left_ns, it.packet_arrived_ns);
            writeln!(out, "{session},{kind},{number},{due},{sent},{answered},{left},{arrived}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tracker::Times, *};

    /// An answer that lacks a time of its packets, or has them in the wrong order, is counted and not measured.
    #[test]
    fn only_both_times_make_a_latency() {
        let times = Times { scheduled_ns: 900, sent_ns: 1_000, sent_bytes: 50 };
        let request = Request { ask: Ask::Cancel { user_ref_num: 7 }, times };
        let mut latency = PacketLatency::default();
        for (left, arrived) in [
            (Some(5_100), Some(5_500)),
            (None, Some(5_500)),
            (Some(5_100), None),
            (Some(9), Some(8)),
        ] {
            let answered = Answered { request, answered_ns: 1_700, packet_arrived_ns: arrived };
            latency.record(3, &answered, left);
        }
        assert_eq!((latency.packets.count(), latency.without), (1, 3));
        let (packets, beyond) = (latency.packets.percentiles(), latency.beyond.percentiles());
        assert_eq!((packets.max_ns, beyond.max_ns), (400, 300));
        let mut whole = PacketLatency::default();
        whole.merge(latency);
        let mut csv = Vec::new();
        whole.write_requests(&mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert_eq!(csv.lines().nth(1), Some("3,cancel,7,900,1000,1700,5100,5500"));
        assert_eq!(csv.lines().count(), 2);
    }
}
