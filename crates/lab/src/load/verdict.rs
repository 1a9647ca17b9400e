//! The limit of a run: generator, venue, machine or network.
//!
//! Invariant: the verdict follows from the figures of the report alone.

use super::report::{LoadReport, grouped};
use crate::latency::duration_text;

/// The limit of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadLimit {
    /// Every request went out on time and was answered.
    None,
    /// The threads of the generator had more to do than time.
    Generator,
    /// The venue took or answered requests too slowly.
    Venue,
    /// The generator's threads were ready and had no core.
    Machine,
    /// Datagrams were lost on the way.
    Network,
}

/// Of this share of the requests on, in parts of the whole, something was a limit.
const ONE_IN: u64 = 100;
/// Of this share of lost datagrams on, the network was a limit.
const LOST_ONE_IN: u64 = 1_000;

impl LoadReport {
    /// The limit of the run.
    pub fn limit(&self) -> LoadLimit {
        let (counts, seen) = (&self.counts, &self.evidence);
        let due = self.due();
        let is_on_time = counts.unsent == 0 && counts.late_sends * ONE_IN <= due;
        // In a closed loop requests without an answer are the setting, not a sign.
        let is_answered =
            self.pacing != super::Loop::Open || seen.outstanding_at_end * ONE_IN <= due;
        let is_lost = (seen.lost_replies + counts.lost) * LOST_ONE_IN > due;
        if is_on_time && is_answered {
            return if is_lost { LoadLimit::Network } else { LoadLimit::None };
        }
        let venue_ns = seen.held_by_connection_ns + seen.held_by_outstanding_max_ns;
        let machine_ns = seen.core_wait_ns.unwrap_or(0);
        let generator_ns = seen.behind_ns.saturating_sub(machine_ns);
        let is_venue = venue_ns >= machine_ns.max(generator_ns) && venue_ns > 0;
        match (is_on_time, is_venue) {
            (true, _) | (false, true) if is_lost => LoadLimit::Network,
            (true, _) | (false, true) => LoadLimit::Venue,
            _ if machine_ns > generator_ns => LoadLimit::Machine,
            _ => LoadLimit::Generator,
        }
    }

    /// The verdict in words.
    pub fn verdict(&self) -> String {
        let (counts, seen) = (&self.counts, &self.evidence);
        let share = |part_ns: u64| percent(part_ns, seen.sending_ns);
        let answered = format!("{}/s", grouped(self.answered_per_second()));
        let outstanding = grouped(seen.outstanding_at_end);
        let core_wait = match seen.core_wait_ns {
            Some(core_wait_ns) => format!("{} without a core", share(core_wait_ns)),
            None => "time without a core unknown".to_owned(),
        };
        let own = format!("its threads: {} CPU, {core_wait}", share(seen.cpu_ns));
        match self.limit() {
            LoadLimit::None if self.pacing != super::Loop::Open => {
                format!(
                    "a closed loop goes as fast as it is answered, so nothing else limits its rate ({own})"
                )
            }
            LoadLimit::None => format!("nothing limited the rate ({own})"),
            LoadLimit::Generator => format!(
                "the generator was the limit: behind its schedule for {} of the time ({own})",
                share(seen.behind_ns)
            ),
            LoadLimit::Venue => format!(
                "the venue was the limit: it answered {answered}; {outstanding} requests had no answer \
                 when sending ended, and for {} of the time no connection took a due request",
                share(seen.held_by_connection_ns + seen.held_by_outstanding_max_ns)
            ),
            LoadLimit::Machine => format!(
                "the machine was the limit: too few cores, or neighbours that use them ({own})"
            ),
            LoadLimit::Network => format!(
                "the network was the limit, or a receive buffer: {} replies and {} requests were lost",
                grouped(seen.lost_replies),
                grouped(counts.lost)
            ),
        }
    }

    /// The warnings that a reader needs before the percentiles, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let (counts, seen) = (&self.counts, &self.evidence);
        let due = self.due();
        let mut warnings = Vec::new();
        if let Some(requested) = self.rate_per_second
            && self.sent_per_second() * ONE_IN < requested * (ONE_IN - 1)
        {
            warnings.push(format!(
                "{}/s requested, {}/s sent, {}/s answered",
                grouped(requested),
                grouped(self.sent_per_second()),
                grouped(self.answered_per_second())
            ));
        }
        for (count, what) in [
            (counts.unsent, "were due and not sent"),
            (counts.unanswered, "were sent and not answered"),
        ] {
            if count > 0 {
                warnings.push(format!(
                    "{} of {} requests {what}; the percentiles count the time that they waited",
                    grouped(count),
                    grouped(due)
                ));
            }
        }
        if counts.late_sends * ONE_IN > due {
            warnings.push(format!(
                "{} of the requests were sent more than {} late",
                percent(counts.late_sends, due),
                duration_text(self.late_ns)
            ));
        }
        if counts.rejected > 0 && counts.accepted == 0 {
            warnings
                .push("the venue rejected every order; latencies are those of rejections".into());
        } else if counts.rejected * ONE_IN > counts.enters {
            warnings.push(format!(
                "{} of the orders were rejected",
                percent(counts.rejected, counts.enters)
            ));
        }
        if seen.held_by_outstanding_max_ns > 0 && self.pacing == super::Loop::Open {
            warnings.push(format!(
                "a session had its {} requests without an answer (--outstanding-max) for {} of the time: \
                 the loop was not open then",
                grouped(self.outstanding_max as u64),
                percent(seen.held_by_outstanding_max_ns, seen.sending_ns)
            ));
        }
        if let Some(core_wait_ns) = seen.core_wait_ns
            && core_wait_ns * ONE_IN > seen.sending_ns
        {
            warnings.push(format!(
                "the generator's threads were without a core for {} of the time: tails may be the machine's",
                percent(core_wait_ns, seen.sending_ns)
            ));
        }
        if let Some(packets) = self.packets.as_ref().filter(|packets| packets.without > 0) {
            warnings.push(format!(
                "the kernel did not say when the packets of {} answers left or arrived",
                grouped(packets.without)
            ));
        }
        if let Some(ticks) = &self.tick_to_trade {
            if let Some(failure) = &ticks.failure {
                warnings.push(format!("the client of --tick-to-trade stopped: {failure}"));
            }
            if ticks.ticks == 0 {
                warnings.push(
                    "the feed showed no order to the client of --tick-to-trade: is --feed the venue's?"
                        .into(),
                );
            }
        }
        warnings
    }
}

/// A share with the digits that it deserves: `0.02 %`, `48 %`.
fn percent(part: u64, whole: u64) -> String {
    let share = part as f64 * 100.0 / whole.max(1) as f64;
    if share < 10.0 { format!("{share:.2} %") } else { format!("{share:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadCounts, LoadEvidence};

    /// A run of 1,000 requests in a second of sending, with these figures.
    fn report(change: impl Fn(&mut LoadCounts, &mut LoadEvidence)) -> LoadReport {
        let mut report = LoadReport {
            rate_per_second: Some(1_000),
            duration_ns: 1_000_000_000,
            counts: LoadCounts { enters: 1_000, ..LoadCounts::default() },
            evidence: LoadEvidence {
                threads: 1,
                sending_ns: 1_000_000_000,
                core_wait_ns: Some(0),
                ..LoadEvidence::default()
            },
            ..LoadReport::default()
        };
        change(&mut report.counts, &mut report.evidence);
        report
    }

    /// The limit is the part that the requests waited for.
    #[test]
    fn the_limit_is_what_requests_waited_for() {
        let late = |counts: &mut LoadCounts| counts.late_sends = 500;
        let limit = |change: &dyn Fn(&mut LoadCounts, &mut LoadEvidence)| report(change).limit();
        assert_eq!(limit(&|_, _| {}), LoadLimit::None);
        assert_eq!(limit(&|_, seen| seen.outstanding_at_end = 500), LoadLimit::Venue);
        let venue = |counts: &mut LoadCounts, seen: &mut LoadEvidence| {
            late(counts);
            seen.held_by_connection_ns = 400_000_000;
            seen.behind_ns = 100_000_000;
        };
        assert_eq!(limit(&venue), LoadLimit::Venue);
        let generator = |counts: &mut LoadCounts, seen: &mut LoadEvidence| {
            late(counts);
            seen.held_by_connection_ns = 100_000_000;
            seen.behind_ns = 400_000_000;
        };
        assert_eq!(limit(&generator), LoadLimit::Generator);
        let machine = |counts: &mut LoadCounts, seen: &mut LoadEvidence| {
            generator(counts, seen);
            seen.core_wait_ns = Some(350_000_000);
        };
        assert_eq!(limit(&machine), LoadLimit::Machine);
        assert_eq!(limit(&|_, seen| seen.lost_replies = 10), LoadLimit::Network);
        let lost = |counts: &mut LoadCounts, seen: &mut LoadEvidence| {
            venue(counts, seen);
            counts.lost = 10;
        };
        assert_eq!(limit(&lost), LoadLimit::Network);
    }

    /// A run without a flaw has no warning; each flaw has one.
    #[test]
    fn warnings_name_every_flaw() {
        let sent = |report: &mut LoadReport| report.sent_ns_span = 1_000_000_000;
        let mut plain = report(|_, _| {});
        sent(&mut plain);
        assert_eq!(plain.warnings(), Vec::<String>::new());
        let mut flawed = report(|counts, seen| {
            counts.enters = 500;
            counts.unsent = 500;
            counts.unanswered = 3;
            counts.late_sends = 400;
            counts.rejected = 20;
            counts.accepted = 1;
            seen.held_by_outstanding_max_ns = 300_000_000;
            seen.core_wait_ns = Some(20_000_000);
        });
        sent(&mut flawed);
        flawed.late_ns = 1_000_000;
        flawed.outstanding_max = 64;
        let warnings = flawed.warnings();
        let words = [
            "requested",
            "not sent",
            "not answered",
            "late",
            "rejected",
            "outstanding-max",
            "core",
        ];
        assert_eq!(warnings.len(), words.len(), "{warnings:?}");
        for (warning, word) in warnings.iter().zip(words) {
            assert!(warning.contains(word), "{warning}");
        }
    }
}
