//! The outcome of an attack: the service that the honest clients got, the cost to the venue, and the limits exceeded.
//!
//! Invariant: a latency belongs to the phase in which its request was due, whenever the answer came.

use serde_json::{Value, json};

use crate::latency::{Latency, duration_text};

/// The periods of a run, after the clients have warmed up, which is stage 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Quiet = 1,
    Preparing,
    Attacked,
    After,
}

const STAGES: usize = Stage::After as usize + 1;

/// The latencies of an honest client, by stage.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// When each stage began, except the first.
    begun_ns: Vec<u64>,
    latencies: [Latency; STAGES],
}

impl Timeline {
    /// The next stage begins.
    pub(super) fn begin(&mut self, stage: Stage, now_ns: u64) {
        self.begun_ns.push(now_ns);
        assert_eq!(self.begun_ns.len(), stage as usize, "stages follow one another");
    }

    pub(super) fn record(&mut self, due_ns: u64, latency_ns: u64) {
        let stage = self.begun_ns.partition_point(|begun_ns| *begun_ns <= due_ns);
        self.latencies[stage].record(latency_ns);
    }

    pub(super) fn count(&self) -> u64 {
        self.latencies.iter().map(Latency::count).sum()
    }

    /// The 50th and the 99th percentile and the maximum.
    pub(super) fn pairs(&self) -> [Pair; 3] {
        let [quiet, attacked] = [Stage::Quiet, Stage::Attacked]
            .map(|stage| self.latencies[stage as usize].percentiles());
        [
            Pair { quiet_ns: quiet.p50_ns, attacked_ns: attacked.p50_ns },
            Pair { quiet_ns: quiet.p99_ns, attacked_ns: attacked.p99_ns },
            Pair { quiet_ns: quiet.max_ns, attacked_ns: attacked.max_ns },
        ]
    }
}

/// A latency before the attack and during it, of the same client on the same venue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Latency before the attack, in nanoseconds.
    pub quiet_ns: u64,
    /// Latency during the attack, in nanoseconds.
    pub attacked_ns: u64,
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.attacked_ns as f64 / self.quiet_ns.max(1) as f64
    }
}

/// The service that an honest client got.
#[derive(Clone, Debug, Default)]
pub struct Honest {
    /// The 50th and the 99th percentile and the maximum.
    pub latency: [Pair; 3],
    /// Requests in all.
    pub requests: u64,
    /// Requests without any reply. Over UDP this includes those whose datagram the system dropped.
    pub unanswered: u64,
    /// Why its session ended, if it did.
    pub cut_off: Option<String>,
}

/// The outcome of one attack; of several runs, the medians of latency and the worst of the rest.
#[derive(Clone, Debug, Default)]
pub struct AttackOutcome {
    /// Name of the attack.
    pub name: &'static str,
    /// The client over TCP.
    pub tcp: Honest,
    /// The client over UDP.
    pub udp: Honest,
    /// Times that a newcomer tried to log in and enter an order during the attack, and failed.
    pub newcomer_tries: u64,
    /// See [`newcomer_tries`](Self::newcomer_tries).
    pub newcomer_failures: u64,
    /// From the attack's end to the first reply to a newcomer; `None` if there was none in 90 s.
    pub served_again_ns: Option<u64>,
    /// Resident memory of the venue before the attack.
    pub memory_bytes_quiet: u64,
    /// The highest resident memory at any time, in bytes.
    pub memory_bytes_max: u64,
    /// Bytes used in the journal, in the end.
    pub journal_bytes: u64,
    /// Messages, datagrams, requests and connections sent by the attacker.
    pub sent: u64,
    /// Messages of all clients that may have an effect.
    pub effective: u64,
    /// Why the venue ended, if it did.
    pub venue_ended: Option<String>,
    /// False if the attacker could not place all of its orders in time.
    pub prepared: bool,
    /// Time in which the venue's busiest thread was ready to run during the attack and had no core: the machine's share
    /// of the latencies.
    pub core_wait_ns: u64,
    /// Why the attack ran again: latencies above the factor that the limits allow. `latency` is then that of more runs.
    pub doubts: Vec<Excess>,
}

/// The limits on the effect of an attack.
#[derive(Clone, Copy, Debug)]
pub struct AttackLimits {
    /// Attacked p50 and p99 in multiples of quiet, each with the latency that never counts as too long. `None` where
    /// latency is not judged.
    pub latency: Option<[(u64, u64); 2]>,
    /// Time from the attack's end to a reply.
    pub served_again_ns: u64,
    /// Memory of the venue at any time.
    pub memory_bytes: u64,
    /// Bytes in the journal for each effective message, and besides them.
    pub journal_bytes: (u64, u64),
}

impl AttackLimits {
    /// The limits of a full measurement.
    pub const FULL: Self = Self {
        latency: Some([(3, 500_000), (5, 5_000_000)]),
        served_again_ns: 1_000_000_000,
        memory_bytes: 512 << 20,
        journal_bytes: (128, 4 << 20),
    };

    /// The limits of a short run on a busy machine: latency is not judged.
    pub const SHORT: Self = Self { latency: None, served_again_ns: 10_000_000_000, ..Self::FULL };

    /// The factors of latency without their floors, and no other limit.
    pub(super) fn factors_alone(&self) -> Option<[(u64, u64); 2]> {
        self.latency.map(|latency| latency.map(|(factor, _)| (factor, 0)))
    }
}

/// The value of a time that never came.
const NEVER: u64 = u64::MAX;

/// A limit that was exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The name of the limit; a suffix `_ns` or `_bytes` gives the unit, other names are counts.
    pub limit: &'static str,
    /// The figure; `u64::MAX` for a time that never came.
    pub found: u64,
    /// The highest figure allowed.
    pub allowed: u64,
}

impl Excess {
    fn is_one(&self) -> bool {
        self.found > self.allowed
    }

    fn json(&self) -> Value {
        json!({ "limit": self.limit, "found": self.found, "allowed": self.allowed })
    }
}

impl std::fmt::Display for Excess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { limit, found, allowed } = *self;
        if found == NEVER {
            return write!(f, "{limit}: never, allowed {}", duration_text(allowed));
        }
        let text = |figure| match limit.rsplit_once('_') {
            Some((_, "ns")) => duration_text(figure),
            Some((_, "bytes")) => bytes_text(figure),
            _ => figure.to_string(),
        };
        write!(f, "{limit} {}, allowed {}", text(found), text(allowed))?;
        match allowed {
            0 => Ok(()),
            _ => write!(f, " ({:.1} times)", found as f64 / allowed as f64),
        }
    }
}

/// A size in readable units: `1.5 MiB`.
#[must_use]
pub fn bytes_text(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

impl AttackOutcome {
    /// The bytes that the limits allow for the journal.
    #[must_use]
    pub fn journal_bytes_explained(&self, limits: &AttackLimits) -> u64 {
        let (each, besides) = limits.journal_bytes;
        self.effective * each + besides
    }

    /// The latencies that are longer than allowed: see [`AttackLimits::latency`].
    pub(super) fn long_latencies(&self, allowed: [(u64, u64); 2]) -> Vec<Excess> {
        let figures = [
            ("tcp_p50_ns", &self.tcp, 0),
            ("tcp_p99_ns", &self.tcp, 1),
            ("udp_p50_ns", &self.udp, 0),
            ("udp_p99_ns", &self.udp, 1),
        ];
        let excesses = figures.into_iter().map(|(limit, honest, index)| {
            let ((factor, floor_ns), pair) = (allowed[index], honest.latency[index]);
            let allowed = pair.quiet_ns.saturating_mul(factor).max(floor_ns);
            Excess { limit, found: pair.attacked_ns, allowed }
        });
        excesses.filter(Excess::is_one).collect()
    }

    /// The limits that were exceeded.
    #[must_use]
    pub fn excesses(&self, limits: &AttackLimits) -> Vec<Excess> {
        let others = [
            ("tcp_unanswered", self.tcp.unanswered, 0),
            ("tcp_cut_off", u64::from(self.tcp.cut_off.is_some()), 0),
            ("udp_cut_off", u64::from(self.udp.cut_off.is_some()), 0),
            ("newcomer_failures", self.newcomer_failures, 0),
            ("served_again_ns", self.served_again_ns.unwrap_or(NEVER), limits.served_again_ns),
            ("memory_bytes", self.memory_bytes_max, limits.memory_bytes),
            ("journal_bytes", self.journal_bytes, self.journal_bytes_explained(limits)),
            ("venue_ended", u64::from(self.venue_ended.is_some()), 0),
        ];
        let others = others.map(|(limit, found, allowed)| Excess { limit, found, allowed });
        let mut excesses = limits.latency.map_or(vec![], |allowed| self.long_latencies(allowed));
        excesses.extend(others.into_iter().filter(Excess::is_one));
        excesses
    }

    /// With the latency of more runs, and the worst of all runs for the rest.
    pub(super) fn repeated(self, doubts: Vec<Excess>, more: Self) -> Self {
        let latency = [more.tcp.latency, more.udp.latency];
        let mut both = Self::of_runs(&[self, more]).expect("there are two");
        [both.tcp.latency, both.udp.latency] = latency;
        Self { doubts, ..both }
    }

    /// Combines several runs of one attack; `None` without a run.
    #[must_use]
    pub fn of_runs(runs: &[Self]) -> Option<Self> {
        let (first, others) = runs.split_first()?;
        let mut all = first.clone();
        for run in others {
            for (mine, its) in [(&mut all.tcp, &run.tcp), (&mut all.udp, &run.udp)] {
                mine.requests += its.requests;
                mine.unanswered += its.unanswered;
                mine.cut_off = mine.cut_off.take().or_else(|| its.cut_off.clone());
            }
            all.newcomer_tries += run.newcomer_tries;
            all.newcomer_failures += run.newcomer_failures;
            // `None` is the worst.
            all.served_again_ns =
                all.served_again_ns.zip(run.served_again_ns).map(|(a, b)| a.max(b));
            all.memory_bytes_quiet = all.memory_bytes_quiet.max(run.memory_bytes_quiet);
            all.memory_bytes_max = all.memory_bytes_max.max(run.memory_bytes_max);
            // The run with the most bytes for each effective message.
            if run.journal_bytes * all.effective > all.journal_bytes * run.effective {
                (all.journal_bytes, all.effective) = (run.journal_bytes, run.effective);
            }
            all.sent = all.sent.max(run.sent);
            all.venue_ended = all.venue_ended.or_else(|| run.venue_ended.clone());
            all.prepared &= run.prepared;
            all.core_wait_ns = all.core_wait_ns.max(run.core_wait_ns);
        }
        for index in 0..3 {
            let median = |of: fn(&Self) -> &Honest| {
                let mut pairs: Vec<Pair> = runs.iter().map(|run| of(run).latency[index]).collect();
                pairs.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
                pairs[pairs.len() / 2]
            };
            all.tcp.latency[index] = median(|run| &run.tcp);
            all.udp.latency[index] = median(|run| &run.udp);
        }
        Some(all)
    }

    /// The outcome as a JSON object.
    #[must_use]
    pub fn json(&self, limits: &AttackLimits) -> Value {
        let honest = |honest: &Honest| {
            let [p50, p99, max] = honest
                .latency
                .map(|pair| json!({ "quiet": pair.quiet_ns, "attacked": pair.attacked_ns }));
            json!({
                "latency_ns": { "p50": p50, "p99": p99, "max": max },
                "requests": honest.requests,
                "unanswered": honest.unanswered,
                "cut_off": honest.cut_off,
            })
        };
        let json_of = |excesses: &[Excess]| excesses.iter().map(Excess::json).collect::<Vec<_>>();
        json!({
            "name": self.name,
            "tcp": honest(&self.tcp),
            "udp": honest(&self.udp),
            "newcomer_tries": self.newcomer_tries,
            "newcomer_failures": self.newcomer_failures,
            "served_again_ns": self.served_again_ns,
            "memory_bytes": { "quiet": self.memory_bytes_quiet, "max": self.memory_bytes_max },
            "journal_bytes": self.journal_bytes,
            "journal_bytes_explained": self.journal_bytes_explained(limits),
            "sent": self.sent,
            "effective": self.effective,
            "prepared": self.prepared,
            "core_wait_ns": self.core_wait_ns,
            "venue_ended": self.venue_ended,
            "excesses": json_of(&self.excesses(limits)),
            "doubts": json_of(&self.doubts),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(quiet_ns: u64, attacked_ns: u64) -> Pair {
        Pair { quiet_ns, attacked_ns }
    }

    fn good() -> AttackOutcome {
        let latency = [pair(200_000, 600_000), pair(2_000_000, 10_000_000), pair(1, 1_000_000_000)];
        let honest = Honest { latency, requests: 400, ..Honest::default() };
        AttackOutcome {
            tcp: honest.clone(),
            udp: Honest { unanswered: 7, ..honest },
            newcomer_tries: 5,
            served_again_ns: Some(1_000_000_000),
            memory_bytes_max: 512 << 20,
            effective: 1_000,
            journal_bytes: 128_000 + (4 << 20),
            prepared: true,
            ..AttackOutcome::default()
        }
    }

    /// Each limit is passed by one more than it allows, and by nothing else; the bounds are within.
    #[test]
    fn each_limit_is_passed_alone() {
        assert_eq!(good().excesses(&AttackLimits::FULL), []);
        type Spoil = fn(&mut AttackOutcome);
        let spoil: [(&str, Spoil); 12] = [
            ("tcp_p50_ns", |it| it.tcp.latency[0].attacked_ns += 1),
            ("tcp_p99_ns", |it| it.tcp.latency[1].attacked_ns += 1),
            ("udp_p50_ns", |it| it.udp.latency[0].attacked_ns += 1),
            ("udp_p99_ns", |it| it.udp.latency[1].attacked_ns += 1),
            ("tcp_unanswered", |it| it.tcp.unanswered = 1),
            ("tcp_cut_off", |it| it.tcp.cut_off = Some("silent".into())),
            ("udp_cut_off", |it| it.udp.cut_off = Some("silent".into())),
            ("newcomer_failures", |it| it.newcomer_failures = 1),
            ("served_again_ns", |it| it.served_again_ns = None),
            ("memory_bytes", |it| it.memory_bytes_max += 1),
            ("journal_bytes", |it| it.journal_bytes += 1),
            ("venue_ended", |it| it.venue_ended = Some("exit status: 1".into())),
        ];
        for (limit, spoil) in spoil {
            let mut outcome = good();
            spoil(&mut outcome);
            let excesses = outcome.excesses(&AttackLimits::FULL);
            assert_eq!(excesses.iter().map(|it| it.limit).collect::<Vec<_>>(), [limit]);
            let is_latency = limit.contains("_p");
            let short = outcome.excesses(&AttackLimits::SHORT).is_empty();
            assert_eq!(short, is_latency, "{limit}: a short run judges all but latency");
        }
    }

    /// Where quiet is quick, a factor means little: the floor counts.
    #[test]
    fn noise_has_a_floor() {
        let mut outcome = good();
        outcome.tcp.latency[0] = pair(20_000, 500_000);
        assert_eq!(outcome.excesses(&AttackLimits::FULL), []);
        outcome.tcp.latency[0] = pair(20_000, 1_000_000);
        let text = outcome.excesses(&AttackLimits::FULL)[0].to_string();
        assert!(text.starts_with("tcp_p50_ns ") && text.ends_with("(2.0 times)"), "{text}");
    }

    /// A latency above its factor is in doubt even below the floor; more runs then have the last word on latency, not on the rest.
    #[test]
    fn more_runs_decide_latency() {
        let factors = AttackLimits::FULL.factors_alone().unwrap();
        assert_eq!(AttackLimits::SHORT.factors_alone(), None);
        assert_eq!(good().long_latencies(factors), []);
        let doubtful = pair(20_000, 60_001);
        let mut first = AttackOutcome { newcomer_failures: 1, ..good() };
        first.udp.latency[0] = doubtful;
        let doubts = first.long_latencies(factors);
        assert_eq!(doubts, [Excess { limit: "udp_p50_ns", found: 60_001, allowed: 60_000 }]);
        let median = pair(20_000, 20_001);
        let mut more = AttackOutcome { memory_bytes_max: 600 << 20, ..good() };
        more.udp.latency[0] = median;
        let outcome = first.repeated(doubts.clone(), more);
        assert_eq!((outcome.udp.latency[0], outcome.doubts), (median, doubts));
        assert_eq!((outcome.newcomer_failures, outcome.memory_bytes_max), (1, 600 << 20));
    }

    /// An answer that comes after the attack counts where its request was due.
    #[test]
    fn latency_belongs_to_the_time_of_its_request() {
        let mut timeline = Timeline::default();
        timeline.record(5, 1);
        timeline.begin(Stage::Quiet, 10);
        timeline.record(10, 2);
        timeline.begin(Stage::Preparing, 20);
        timeline.record(25, 900);
        timeline.begin(Stage::Attacked, 30);
        timeline.begin(Stage::After, 40);
        timeline.record(39, 70);
        timeline.record(40, 800);
        assert_eq!(timeline.pairs()[2], pair(2, 70));
        assert_eq!(timeline.count(), 5);
    }

    /// Of several runs, latency is that of the median ratio, and the rest is the worst.
    #[test]
    fn runs_give_medians_and_the_worst() {
        let run = |quiet_ns, attacked_ns, served_again_ns, journal_bytes| AttackOutcome {
            tcp: Honest { latency: [pair(quiet_ns, attacked_ns); 3], ..Honest::default() },
            served_again_ns,
            journal_bytes,
            effective: 10,
            newcomer_failures: 1,
            core_wait_ns: journal_bytes,
            ..good()
        };
        let runs = [run(10, 90, Some(5), 1), run(10, 20, Some(9), 8), run(1, 3, Some(1), 2)];
        let all = AttackOutcome::of_runs(&runs).unwrap();
        assert_eq!(all.tcp.latency[0], pair(1, 3));
        assert_eq!((all.served_again_ns, all.journal_bytes), (Some(9), 8));
        assert_eq!((all.newcomer_failures, all.core_wait_ns), (3, 8));
        let silent = AttackOutcome::of_runs(&[run(1, 1, None, 0), run(1, 1, Some(1), 0)]);
        assert_eq!(silent.unwrap().served_again_ns, None);
        assert!(AttackOutcome::of_runs(&[]).is_none());
    }
}
