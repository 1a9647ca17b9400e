//! Counts and latencies of a load run, as text.
//!
//! Invariant: the facts that a reader needs before the percentiles stand above them.

use std::{collections::BTreeMap, fmt};

use wire::ouch::reject_reasons;

use super::{FailureReason, LoadEvidence, Loop, PacketLatency, TickToTrade};
use crate::latency::{Latency, block, duration_text};

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LoadCounts {
    pub enters: u64,
    pub cancels: u64,
    pub replaces: u64,
    /// Requests that went out later than [`LoadOptions::late_ns`](super::LoadOptions::late_ns).
    pub late_sends: u64,
    /// Requests that were due and never went out.
    pub unsent: u64,
    /// Answers: the first message that gives the result of a request.
    pub replies: u64,
    pub accepted: u64,
    pub replaced: u64,
    pub canceled: u64,
    pub rejected: u64,
    /// Rejects by the reason that OUCH gives.
    pub rejects: BTreeMap<u16, u64>,
    /// Executed messages: each trade has one for each side.
    pub fills: u64,
    /// Lots executed.
    pub shares: u64,
    /// Requests that got no answer though the venue went on, or that waited for one at the end.
    pub unanswered: u64,
    /// Of those, requests that were lost on the way: later ones were answered.
    pub lost: u64,
    /// Cancels and replaces that went unanswered while the venue went on: they came too late for
    /// their order, which OUCH does not answer, or over UDP they may have got lost.
    pub superfluous: u64,
    pub duplicates: u64,
    /// Answers to orders that were never entered.
    pub unexpected: u64,
}

impl LoadCounts {
    pub fn requests(&self) -> u64 {
        self.enters + self.cancels + self.replaces
    }

    pub(super) fn reject(&mut self, reason: u16) {
        self.rejected += 1;
        *self.rejects.entry(reason).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.enters += other.enters;
        self.cancels += other.cancels;
        self.replaces += other.replaces;
        self.late_sends += other.late_sends;
        self.unsent += other.unsent;
        self.replies += other.replies;
        self.accepted += other.accepted;
        self.replaced += other.replaced;
        self.canceled += other.canceled;
        self.rejected += other.rejected;
        self.fills += other.fills;
        self.shares += other.shares;
        self.unanswered += other.unanswered;
        self.lost += other.lost;
        self.superfluous += other.superfluous;
        self.duplicates += other.duplicates;
        self.unexpected += other.unexpected;
        for (reason, count) in &other.rejects {
            *self.rejects.entry(*reason).or_default() += count;
        }
    }
}

/// Figures of a running load, once an interval.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress<'a> {
    /// When the interval began, in nanoseconds since the start of the run.
    pub since_ns: u64,
    /// How long it was, in nanoseconds.
    pub interval_ns: u64,
    /// The counts since the start of the run.
    pub counts: &'a LoadCounts,
    pub outstanding: usize,
    /// The ticks that the reference client has seen since the start of the run, if there is one.
    pub ticks: Option<u64>,
    /// Latencies of the interval, from when the requests were due.
    pub scheduled: &'a Latency,
    /// Latencies of the interval, from when the requests were sent.
    pub sent: &'a Latency,
}

#[derive(Debug, Default)]
pub struct LoadReport {
    pub pacing: Loop,
    /// Requests a second that were asked for, on average; `None` in a closed loop.
    pub rate_per_second: Option<u64>,
    /// The time during which requests became due, in nanoseconds: less than asked for if the run was
    /// stopped.
    pub duration_ns: u64,
    /// How long it took, the wait for the last answers included, in nanoseconds.
    pub elapsed_ns: u64,
    /// From the start to the last send, and to the last answer, in nanoseconds.
    pub sent_ns_span: u64,
    pub answered_ns_span: u64,
    pub session_count: usize,
    /// The protocols of the sessions, each once.
    pub protocols: Vec<&'static str>,
    /// The names that the venue gave the reply streams, each once.
    pub stream_names: Vec<String>,
    pub late_ns: u64,
    pub outstanding_max: usize,
    pub counts: LoadCounts,
    /// Latencies from when the requests were due: those to quote. Requests without an answer, and those
    /// that were not sent, count with the time that they waited.
    pub scheduled: Latency,
    /// Service time: latencies from when the requests were handed to the system to be sent.
    pub sent: Latency,
    /// Latencies by the kernel, if its times were asked.
    pub packets: Option<PacketLatency>,
    /// The figures of the reference client, if there was one.
    pub tick_to_trade: Option<TickToTrade>,
    pub evidence: LoadEvidence,
    /// Sessions that did not last, and why.
    pub failures: Vec<SessionFailure>,
}

impl LoadReport {
    /// Requests that were due.
    pub fn due(&self) -> u64 {
        self.counts.requests() + self.counts.unsent
    }

    /// Requests sent, by the second from the start to the last send, or to the end of the schedule if
    /// that is later.
    pub fn sent_per_second(&self) -> u64 {
        per_second(self.counts.requests(), self.sent_ns_span.max(self.duration_ns))
    }

    /// Requests answered, likewise; those that came too late for their order count as answered.
    pub fn answered_per_second(&self) -> u64 {
        let answered = self.counts.replies + self.counts.superfluous;
        per_second(answered, self.answered_ns_span.max(self.duration_ns))
    }

    /// The latencies to quote: from the schedule or, in a closed loop, from the send.
    pub fn quoted(&self) -> &Latency {
        if self.pacing == Loop::Open { &self.scheduled } else { &self.sent }
    }

    /// True if the venue rejected every order that it answered.
    pub fn is_all_rejected(&self) -> bool {
        self.counts.rejected > 0 && self.counts.accepted == 0
    }
}

fn per_second(count: u64, span_ns: u64) -> u64 {
    (u128::from(count) * 1_000_000_000 / u128::from(span_ns.max(1))) as u64
}

/// The names of a reject code: of all reasons that share it.
pub fn reject_name(code: u16) -> String {
    let names: Vec<String> =
        reject_reasons(code).map(|reason| words(&format!("{reason:?}"))).collect();
    if names.is_empty() { format!("unknown reason {code:#06x}") } else { names.join(" or ") }
}

/// `InvalidMaxFloor` as `invalid max floor`.
fn words(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// A session that did not last.
#[derive(Debug)]
pub struct SessionFailure {
    /// Its index.
    pub session: usize,
    pub reason: FailureReason,
}

impl fmt::Display for SessionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}: {}", self.session, self.reason)
    }
}

/// The report for people: the rates, the warnings, the counts, the percentiles, the verdict.
impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        match (self.pacing, self.rate_per_second) {
            (Loop::Open, Some(rate)) => write!(f, "open loop   requested {}/s", grouped(rate))?,
            (Loop::Open, None) => f.write_str("open loop")?,
            (Loop::Closed { outstanding }, _) => {
                write!(f, "CLOSED LOOP {outstanding} a session   (hides stalls)")?;
            }
        }
        writeln!(
            f,
            "   sent {}/s   answered {}/s   sessions {}   {}",
            grouped(self.sent_per_second()),
            grouped(self.answered_per_second()),
            self.session_count,
            self.protocols.join(", ")
        )?;
        for warning in self.warnings() {
            writeln!(f, "warning: {warning}")?;
        }
        let late_percent = counts.late_sends as f64 * 100.0 / counts.requests().max(1) as f64;
        writeln!(
            f,
            "sent {}   acked {}   fills {}   rejects {}   late sends {late_percent:.2} %   in {}",
            grouped(counts.requests()),
            grouped(counts.replies),
            grouped(counts.fills),
            grouped(counts.rejected),
            duration_text(self.elapsed_ns),
        )?;
        let oddities = [
            ("unanswered", counts.unanswered),
            ("too late for their order", counts.superfluous),
            ("unsent", counts.unsent),
            ("answered twice", counts.duplicates),
            ("unexpected", counts.unexpected),
        ];
        let mut parts: Vec<String> = oddities
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{what} {}", grouped(*count)))
            .collect();
        let rejects = counts.rejects.iter();
        parts.extend(
            rejects.map(|(code, count)| format!("{} {}", reject_name(*code), grouped(*count))),
        );
        if !parts.is_empty() {
            writeln!(f, "{}", parts.join("   "))?;
        }
        let (scheduled, sent) = (self.scheduled.percentiles(), self.sent.percentiles());
        let packets = self.packets.as_ref();
        let packets = packets.map(|it| (it.packets.percentiles(), it.beyond.percentiles()));
        let mut rows = match self.pacing {
            Loop::Open => vec![("order→ack  (sched)", &scheduled), ("order→ack  (sent)", &sent)],
            Loop::Closed { .. } => vec![("order→ack  (CLOSED)", &sent)],
        };
        if let Some((packets, beyond)) = &packets {
            rows.extend([("order→ack  (packet)", packets), ("  sent − packet", beyond)]);
        }
        f.write_str(&block(&rows))?;
        if let Some(ticks) = &self.tick_to_trade {
            f.write_str(&tick_block(ticks))?;
        }
        writeln!(f, "verdict: {}", self.verdict())?;
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        Ok(())
    }
}

/// The legs of the reference client, and how many ticks it answered.
fn tick_block(ticks: &TickToTrade) -> String {
    let legs = [
        ("tick→order (packet)", &ticks.tick_to_order),
        ("order→ack  (packet)", &ticks.order_to_ack),
        ("tick→ack   (packet)", &ticks.tick_to_ack),
        ("  to send the order", &ticks.answering),
    ];
    let legs = legs.map(|(name, latency)| (name, latency.percentiles()));
    let rows: Vec<_> = legs.iter().map(|(name, percentiles)| (*name, percentiles)).collect();
    let counts = [
        ("", ticks.orders),
        ("passed over ", ticks.passed_over),
        ("without times ", ticks.without),
        ("messages missed ", ticks.missed),
    ];
    let mut text = format!("tick to trade: ticks {}   answered", grouped(ticks.ticks));
    for (index, (name, count)) in counts.into_iter().enumerate() {
        if index == 0 {
            text += &format!(" {}", grouped(count));
        } else if count > 0 {
            text += &format!("   {name}{}", grouped(count));
        }
    }
    text + "\n" + &block(&rows)
}

/// A number in groups of three digits: `6 000 000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merging adds every count; none is forgotten.
    #[test]
    fn merging_adds_every_count() {
        let once = LoadCounts {
            enters: 1,
            cancels: 2,
            replaces: 3,
            late_sends: 4,
            unsent: 5,
            replies: 6,
            accepted: 7,
            replaced: 8,
            canceled: 9,
            rejected: 10,
            fills: 11,
            shares: 12,
            unanswered: 13,
            lost: 18,
            superfluous: 14,
            duplicates: 15,
            unexpected: 16,
            rejects: BTreeMap::from([(0x13, 17)]),
        };
        let mut twice = once.clone();
        twice.merge(&once);
        let figures = |counts: &LoadCounts| serde_json::to_value(counts).unwrap();
        let (once, twice) = (figures(&once), figures(&twice));
        assert_eq!(twice["rejects"]["19"], 34);
        for name in once.as_object().unwrap().keys().filter(|name| *name != "rejects") {
            assert_eq!(twice[name].as_u64(), once[name].as_u64().map(|count| 2 * count), "{name}");
        }
    }

    /// Reject codes have the names of the rules; a code that the venue does not use keeps its digits.
    #[test]
    fn rejects_have_names() {
        assert_eq!(reject_name(0x0013), "invalid quantity");
        assert_eq!(reject_name(0x000a), "too many orders or too many pegs or no room or too slow");
        assert_eq!(reject_name(0x7777), "unknown reason 0x7777");
    }

    /// The report for people, byte for byte, of an open and of a closed loop.
    #[test]
    fn report_is_golden() {
        let mut report = LoadReport {
            rate_per_second: Some(200_000),
            duration_ns: 30_000_000_000,
            elapsed_ns: 30_000_100_000,
            session_count: 2,
            protocols: vec!["OUCH 5.0"],
            counts: LoadCounts {
                enters: 5_999_000,
                cancels: 1_000,
                accepted: 5_998_000,
                replies: 5_999_997,
                fills: 12,
                late_sends: 1_200,
                unanswered: 3,
                ..LoadCounts::default()
            },
            evidence: LoadEvidence {
                threads: 1,
                sending_ns: 30_000_000_000,
                cpu_ns: 15_000_000_000,
                core_wait_ns: Some(30_000_000),
                ..LoadEvidence::default()
            },
            failures: vec![SessionFailure { session: 1, reason: FailureReason::Ended }],
            ..LoadReport::default()
        };
        report.counts.reject(0x13);
        report.scheduled.record(1_500);
        report.sent.record(1_000);
        assert_eq!(
            report.to_string(),
            concat!(
                "open loop   requested 200 000/s   sent 200 000/s   answered 199 999/s   sessions 2   OUCH 5.0\n",
                "warning: 3 of 6 000 000 requests were sent and not answered; the percentiles count the time that they waited\n",
                "sent 6 000 000   acked 5 999 997   fills 12   rejects 1   late sends 0.02 %   in 30.0s\n",
                "unanswered 3   invalid quantity 1\n",
                "                        p50     p90     p99   p99.9  p99.99 p99.999     max\n",
                "order→ack  (sched)    1.5µs   1.5µs   1.5µs   1.5µs   1.5µs   1.5µs   1.5µs\n",
                "order→ack  (sent)     1.0µs   1.0µs   1.0µs   1.0µs   1.0µs   1.0µs   1.0µs\n",
                "verdict: nothing limited the rate (its threads: 50 % CPU, 0.10 % without a core)\n",
                "session 1: the venue ended the session\n",
            )
        );
        report.pacing = Loop::Closed { outstanding: 4 };
        let text = report.to_string();
        assert!(text.starts_with("CLOSED LOOP 4 a session   (hides stalls)   sent"), "{text}");
        assert!(text.contains("order→ack  (CLOSED)") && !text.contains("(sched)"), "{text}");
    }
}
