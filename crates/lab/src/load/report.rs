//! Counts and latencies of a load run, as text.

use std::{collections::BTreeMap, fmt};

use super::FailureReason;
use crate::latency::{Latency, duration_text, order_to_ack_block};

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LoadCounts {
    pub enters: u64,
    pub cancels: u64,
    pub replaces: u64,
    /// Requests that went out later than the options allow.
    pub late_sends: u64,
    /// Requests that were due and never went out.
    pub unsent: u64,
    /// Answers: the first message that says what became of a request.
    pub replies: u64,
    pub accepted: u64,
    pub replaced: u64,
    pub canceled: u64,
    pub rejected: u64,
    /// Those, by the reason that OUCH gives.
    pub rejects: BTreeMap<u16, u64>,
    /// Executed messages: each trade tells both its sides.
    pub fills: u64,
    /// Lots executed.
    pub shares: u64,
    /// Requests that got no answer though the venue went on, or that waited for one at the end.
    pub unanswered: u64,
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
        self.superfluous += other.superfluous;
        self.duplicates += other.duplicates;
        self.unexpected += other.unexpected;
        for (reason, count) in &other.rejects {
            *self.rejects.entry(*reason).or_default() += count;
        }
    }
}

/// What a running load tells once an interval.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress<'a> {
    /// When the interval began, in nanoseconds since the start of the run.
    pub since_ns: u64,
    /// How long it was, in nanoseconds.
    pub interval_ns: u64,
    /// What was counted since the start of the run.
    pub counts: &'a LoadCounts,
    pub outstanding: usize,
    /// Latencies of the interval, from when the requests were due.
    pub scheduled: &'a Latency,
    /// Latencies of the interval, from when the requests were sent.
    pub sent: &'a Latency,
}

#[derive(Debug, Default)]
pub struct LoadReport {
    /// How long it took, the wait for the last answers included, in nanoseconds.
    pub elapsed_ns: u64,
    pub session_count: usize,
    pub counts: LoadCounts,
    /// Latencies from when the requests were due: those to quote.
    pub scheduled: Latency,
    /// Latencies from when the requests were handed to the system to be sent.
    pub sent: Latency,
    /// Sessions that did not last, and why.
    pub failures: Vec<SessionFailure>,
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

/// The report for people: counts, then the percentiles.
impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        let late_percent = if counts.requests() == 0 {
            0.0
        } else {
            counts.late_sends as f64 * 100.0 / counts.requests() as f64
        };
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
        parts.extend(
            counts
                .rejects
                .iter()
                .map(|(reason, count)| format!("reject {reason:#06x} {}", grouped(*count))),
        );
        if !parts.is_empty() {
            writeln!(f, "{}", parts.join("   "))?;
        }
        f.write_str(&order_to_ack_block(&self.scheduled.percentiles(), &self.sent.percentiles()))?;
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        Ok(())
    }
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

    /// The report for people, byte for byte.
    #[test]
    fn report_is_golden() {
        let mut report = LoadReport {
            elapsed_ns: 30_000_000_000,
            session_count: 2,
            counts: LoadCounts {
                enters: 5_999_000,
                cancels: 1_000,
                replies: 5_999_997,
                fills: 12,
                late_sends: 1_200,
                unanswered: 3,
                ..LoadCounts::default()
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
                "sent 6 000 000   acked 5 999 997   fills 12   rejects 1   late sends 0.02 %   in 30.0s\n",
                "unanswered 3   reject 0x0013 1\n",
                "                        p50     p90     p99   p99.9  p99.99 p99.999     max\n",
                "order→ack  (sched)    1.5µs   1.5µs   1.5µs   1.5µs   1.5µs   1.5µs   1.5µs\n",
                "order→ack  (sent)     1.0µs   1.0µs   1.0µs   1.0µs   1.0µs   1.0µs   1.0µs\n",
                "session 1: the venue ended the session\n",
            )
        );
    }
}
