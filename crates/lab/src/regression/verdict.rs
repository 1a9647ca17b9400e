//! Which layout is healthy on this machine, in words, and why.
//!
//! Invariant: every word follows from a figure of the trials.

use serde_json::{Value, json};

use super::{HEALTHY_PART, Regression, RingRole, Trial};
use crate::load::grouped;

/// A layout that answers less than this percentage of the first one's answers is not healthy. The rate is the limit of
/// the first, so on a machine that is not quiet it may miss the rate itself.
const ANSWERED_PERCENT_OF_FIRST: u64 = 90;

/// The verdict of a layout's trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutVerdict {
    pub layout: String,
    pub is_healthy: bool,
    /// True for the healthy layout with the smallest batches.
    pub is_best: bool,
    /// In a sentence or two.
    pub reason: String,
    /// The largest part of a ring that a batch of delta or snapshot took, in millionths.
    worst_ppm: usize,
}

impl LayoutVerdict {
    pub(super) fn json(&self) -> Value {
        json!({
            "layout": self.layout,
            "healthy": self.is_healthy,
            "best": self.is_best,
            "reason": self.reason,
        })
    }

    /// As a line.
    pub fn line(&self) -> String {
        let word = match (self.is_healthy, self.is_best) {
            (true, true) => "healthy, the best here",
            (true, false) => "healthy",
            (false, _) => "NOT healthy",
        };
        format!("{}: {word}: {}", self.layout, self.reason)
    }
}

/// The verdict on each layout, in the order of the trials.
pub fn verdicts(regression: &Regression) -> Vec<LayoutVerdict> {
    let mut names: Vec<&str> = Vec::new();
    for trial in &regression.trials {
        if !names.contains(&&*trial.layout) {
            names.push(&trial.layout);
        }
    }
    let of = |name: &&str| {
        let trials: Vec<&Trial> =
            regression.trials.iter().filter(|trial| trial.layout == **name).collect();
        verdict(name, &trials, regression)
    };
    let mut verdicts: Vec<_> = names.iter().map(of).collect();
    let healthy = verdicts.iter_mut().filter(|it| it.is_healthy);
    if let Some(best) = healthy.min_by_key(|it| it.worst_ppm) {
        best.is_best = true;
    }
    verdicts
}

/// The answers a second of the first layout with the same instruments.
fn answered_by_first(regression: &Regression, trial: &Trial) -> u64 {
    let same = regression.trials.iter().find(|it| it.instruments == trial.instruments);
    same.map_or(0, |it| it.answered_per_second)
}

fn verdict(layout: &str, trials: &[&Trial], regression: &Regression) -> LayoutVerdict {
    let mut complaints = Vec::new();
    let mut worst_ppm = 0;
    for trial in trials {
        let with = trial.instruments.as_str();
        for role in [RingRole::Delta, RingRole::Snapshot] {
            let Some(reader) = trial.worst(role) else { continue };
            let ppm = reader.batch_max * 1_000_000 / reader.capacity.max(1);
            worst_ppm = worst_ppm.max(ppm);
            if reader.batch_max * HEALTHY_PART >= reader.capacity {
                complaints.push(format!(
                    "with {with} instruments a {} batch of {} filled 1/{HEALTHY_PART} of its ring of {} or more",
                    role.as_str(),
                    grouped(reader.batch_max as u64),
                    grouped(reader.capacity as u64),
                ));
            }
        }
        if trial.dropped() > 0 {
            complaints.push(format!(
                "with {with} instruments streams lost {} messages",
                grouped(trial.dropped())
            ));
        }
        let answered_by_first = answered_by_first(regression, trial);
        if trial.answered_per_second * 100 < answered_by_first * ANSWERED_PERCENT_OF_FIRST {
            complaints.push(format!(
                "with {with} instruments the venue answered {} requests a second, where the first layout \
                 answered {}",
                grouped(trial.answered_per_second),
                grouped(answered_by_first),
            ));
        }
        if let Some(failure) = &trial.failure {
            complaints.push(format!("with {with} instruments the load ended early: {failure}"));
        }
    }
    let is_healthy = complaints.is_empty();
    let reason = if is_healthy { praise(trials) } else { complaints.join("; ") };
    LayoutVerdict {
        layout: layout.to_owned(),
        is_healthy,
        is_best: false,
        reason: format!("{reason}. {}", threads(trials, regression.cores)),
        worst_ppm,
    }
}

/// The largest batches of a healthy layout.
fn praise(trials: &[&Trial]) -> String {
    let largest = |role| {
        let readers = trials.iter().filter_map(|trial| trial.worst(role));
        let worst = readers.max_by_key(|it| it.batch_max * 1_000_000 / it.capacity.max(1));
        worst.map_or("no messages".to_owned(), |it| {
            format!("{} of {}", grouped(it.batch_max as u64), grouped(it.capacity as u64))
        })
    };
    format!(
        "nothing was lost; the largest delta batch was {}, the largest snapshot batch {}",
        largest(RingRole::Delta),
        largest(RingRole::Snapshot)
    )
}

/// The meaning of a layout's threads on this machine.
fn threads(trials: &[&Trial], cores: usize) -> String {
    let threads = trials.iter().map(|trial| trial.threads).max().unwrap_or(0);
    let spinning =
        trials.iter().map(|trial| trial.groups.matches(":spin").count()).max().unwrap_or(0);
    match (threads, spinning) {
        (1, _) => {
            "One thread: a reader takes its messages in the turn that published them".to_owned()
        }
        (_, 1..) if threads > cores => format!(
            "{spinning} of {threads} threads spin on {cores} cores: a thread without work keeps the core \
             from one that has some"
        ),
        _ if threads > cores => format!(
            "{threads} threads share {cores} cores: a batch waits until its thread has a core again"
        ),
        _ => format!("Each of the {threads} threads can have one of the {cores} cores"),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Instruments, ReaderFigures, Sample},
        *,
    };

    fn trial(layout: &str, groups: &str, delta: usize, missed: u64) -> Trial {
        let reader = |ring, reader, capacity, batch_max, missed| ReaderFigures {
            ring,
            reader,
            capacity,
            batch_max,
            high_water: batch_max,
            missed,
            stalls: 0,
        };
        Trial {
            layout: layout.into(),
            instruments: Instruments::Production,
            groups: groups.into(),
            threads: groups.split('|').count(),
            rate_per_second: 1_000,
            answered_per_second: 1_000,
            failure: None,
            readers: vec![
                reader("inputs", "engine", 8_192, 90, 0),
                reader("feed", "feed-server", 16_384, 600, 0),
                reader("stream A", "streams", 8_192, 50, 0),
                reader("stream B", "streams", 8_192, delta, missed),
            ],
            samples: [("stream A", 0, 50), ("stream B", 0, 7), ("stream B", 50, delta)]
                .map(|(ring, at_ms, batch_max)| Sample {
                    at_ms,
                    ring,
                    reader: "streams",
                    capacity: 8_192,
                    batch_max,
                    high_water: batch_max,
                })
                .to_vec(),
        }
    }

    fn regression(trials: Vec<Trial>) -> Regression {
        Regression { streams: 2, cores: 2, rate_per_second: 1_000, search: Vec::new(), trials }
    }

    /// The layout with small batches is the best; one whose batches take an eighth of a ring, or that lost
    /// messages, or that fell behind, is not healthy, and the reason has the figures.
    #[test]
    fn a_verdict_names_the_figures() {
        let mut slow = trial("slow", "engine | streams", 9, 0);
        slow.answered_per_second = 899;
        let it = regression(vec![
            trial("one", "engine+streams", 400, 0),
            trial("spread", "engine | streams", 60, 0),
            trial("large", "engine | streams:spin | streams-2:spin", 1_024, 0),
            trial("lossy", "engine | streams | streams-2", 1_000, 17),
            slow,
        ]);
        let verdicts = verdicts(&it);
        let healthy: Vec<bool> = verdicts.iter().map(|it| it.is_healthy).collect();
        assert_eq!(healthy, [true, true, false, false, false]);
        let best: Vec<_> = verdicts.iter().filter(|it| it.is_best).collect();
        assert_eq!(best.len(), 1);
        assert_eq!(best[0].layout, "spread");
        assert!(
            verdicts[0].reason.contains("in the turn that published them"),
            "{:?}",
            verdicts[0]
        );
        assert!(
            verdicts[2].reason.contains("a delta batch of 1 024 filled 1/8 of its ring of 8 192")
        );
        assert!(verdicts[2].reason.contains("2 of 3 threads spin on 2 cores"));
        assert!(verdicts[3].reason.contains("lost 17 messages"));
        assert!(verdicts[4].reason.contains("answered 899 requests a second"), "{:?}", verdicts[4]);
    }

    /// The experiment fails where the first layout's delta batch is an eighth of its ring, and only there.
    #[test]
    fn the_first_layout_is_judged() {
        let other = || trial("other", "engine | streams:spin", 8_192, 5_000);
        let sound = regression(vec![trial("default", "engine", 1_023, 0), other()]);
        assert_eq!(sound.failures(), Vec::<String>::new());
        let wrong = regression(vec![trial("default", "engine", 1_024, 0), other()]);
        assert_eq!(wrong.failures().len(), 1);
        assert!(wrong.failures()[0].contains("layout default"), "{:?}", wrong.failures());
    }

    /// Over time a role shows the largest batch of all its readers at each look.
    #[test]
    fn a_timeline_has_the_largest_batch_of_each_look() {
        let trial = trial("one", "engine", 300, 0);
        assert_eq!(trial.timeline(RingRole::Delta), (vec![50, 300], 8_192));
        assert_eq!(trial.timeline(RingRole::Snapshot), (vec![], 1));
    }
}
