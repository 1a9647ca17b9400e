//! The times of orders between stages: one input in 256 is followed from its bytes to its reply and the feed.
//!
//! Start at [`StageTimes`]. The sequencer offers an input; each agent is watched from outside by an [`observed`]
//! wrapper, which reads the clock after the turn in which the agent passed that input. So no stage reads a clock, and a
//! time is that of the end of a turn: the latest time at which the next stage has the order.
//!
//! Invariant: one input is followed at a time; each figure has one writer, and no thread waits for a figure.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use gateway::{TimeCounts, at_most};
use ring::{Agent, AgentError, AtomicGauge, Clock, Cursor, Monitor};
use serde_json::{Value, json};

use crate::{
    layout::{AgentName, Agents},
    wiring::Wiring,
};

/// One input in this many is followed, unless another is being followed.
pub const ONE_IN: u64 = 256;

/// The stages of an input, in this order except for the journal and the engine, which work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sequenced,
    Journaled,
    Matched,
    Replied,
    Published,
}

const STAGES: usize = 5;

/// A part of an order's time: name, from and to.
type Leg = (&'static str, &'static str, &'static str);

const LEGS: [Leg; 6] = [
    ("sequence", "received", "sequenced"),
    ("journal", "sequenced", "durable"),
    ("match", "sequenced", "matched"),
    ("reply", "durable and matched", "sent"),
    ("feed", "durable and matched", "published"),
    ("whole", "received", "sent"),
];

/// The leg before them: of all arrivals at order entry, not only of followed inputs.
const ARRIVAL: Leg = ("socket", "arrived", "read");

/// The times of followed inputs, for any thread to read.
pub struct StageTimes {
    /// True if replies wait for the journal.
    waits_for_journal: bool,
    /// The sequence of the followed input; 0 before the first. The sequencer writes this and the next two.
    followed: Cursor,
    received_ns: AtomicGauge,
    /// The number of the source of that input.
    source: AtomicGauge,
    /// By stage.
    passed: [Passed; STAGES],
    /// Events in the ring of outputs once the engine had passed it: those of the followed input are among them.
    outputs: AtomicGauge,
    /// By leg.
    times: [TimeCounts; LEGS.len()],
    /// By port of order entry: the waiting times of arrivals in its socket, if measured.
    arrivals: OnceLock<Vec<Arc<TimeCounts>>>,
    /// The writer of each source, by its number; inputs of a source without an agent are not followed.
    sources: Vec<Option<AgentName>>,
}

/// The last followed input that a stage has passed, and the time.
struct Passed {
    at_ns: AtomicGauge,
    input: Cursor,
}

impl StageTimes {
    /// For sources with these writers. Replies wait for the journal if `waits_for_journal`.
    pub fn new(sources: Vec<Option<AgentName>>, waits_for_journal: bool) -> Self {
        let passed = || Passed { at_ns: AtomicGauge::new(0), input: Cursor::new(0) };
        Self {
            waits_for_journal,
            followed: Cursor::new(0),
            received_ns: AtomicGauge::new(0),
            source: AtomicGauge::new(0),
            passed: std::array::from_fn(|_| passed()),
            outputs: AtomicGauge::new(0),
            times: std::array::from_fn(|_| TimeCounts::default()),
            arrivals: OnceLock::new(),
            sources,
        }
    }

    /// Offers an input that may be followed, with its time of receipt. Records the last one if all stages have passed
    /// it.
    pub(crate) fn offer(&self, sequence: u64, received_ns: u64, source: usize) {
        let followed = self.followed.get();
        if self.sources.get(source).copied().flatten().is_none() {
            return;
        }
        if followed > 0 {
            if !self.passed.iter().all(|passed| passed.input.get() == followed) {
                return;
            }
            self.record();
        }
        self.received_ns.set(received_ns);
        self.source.set(source as u64);
        self.followed.set(sequence);
    }

    /// Records the times of the followed input, which all stages have passed.
    fn record(&self) {
        let at = |stage: Stage| self.passed[stage as usize].at_ns.get();
        let received = self.received_ns.get();
        let (sequenced, journaled) = (at(Stage::Sequenced), at(Stage::Journaled));
        let (matched, replied) = (at(Stage::Matched), at(Stage::Replied));
        let ready = if self.waits_for_journal { journaled.max(matched) } else { matched };
        let spans = [
            (received, sequenced),
            (sequenced, journaled),
            (sequenced, matched),
            (ready, replied),
            (ready, at(Stage::Published)),
            (received, replied),
        ];
        for (times, (from, to)) in self.times.iter().zip(spans) {
            times.record(to.saturating_sub(from));
        }
    }

    /// Notes that a stage has passed the followed input.
    fn pass(&self, stage: Stage, input: u64, now_ns: u64) {
        let passed = &self.passed[stage as usize];
        passed.at_ns.set(now_ns);
        passed.input.set(input);
    }

    /// Adds the waiting times of arrivals at these ports. Only the first call counts.
    pub(crate) fn show_arrivals(&self, ports: Vec<Arc<TimeCounts>>) {
        self.arrivals.get_or_init(|| ports);
    }

    /// The percentiles of each leg and, `with_counts`, the number of inputs up to each time.
    pub fn figures(&self, with_counts: bool) -> Value {
        let arrivals = self.arrivals.get().into_iter().filter(|ports| !ports.is_empty());
        let arrivals = arrivals.map(|ports| (&ARRIVAL, sum(ports)));
        let followed = LEGS.iter().zip(self.times.iter().map(TimeCounts::counts));
        let leg = |((name, from, to), counts): (&Leg, Vec<(u64, u64)>)| {
            let at = |part: f64| at_most(&counts, part);
            let mut figures = json!({
                "name": name,
                "from": from,
                "to": to,
                "count": counts.iter().map(|(_, count)| count).sum::<u64>(),
                "p50_ns": at(0.5),
                "p99_ns": at(0.99),
                "p999_ns": at(0.999),
                "max_ns": at(1.0),
            });
            if with_counts {
                figures["counts"] = json!(counts);
            }
            figures
        };
        let legs: Vec<_> = arrivals.chain(followed).map(leg).collect();
        json!({ "one_in": ONE_IN, "legs": legs })
    }
}

/// The sum of several counts.
fn sum(all: &[Arc<TimeCounts>]) -> Vec<(u64, u64)> {
    let mut counts = BTreeMap::new();
    for (ns, count) in all.iter().flat_map(|times| times.counts()) {
        *counts.entry(ns).or_default() += count;
    }
    counts.into_iter().collect()
}

/// The way to see that an agent has passed an input.
enum Watched {
    /// The agent that gives the inputs their sequences: the turn that offered an input has passed it.
    Sequencer,
    Journaler(Arc<AtomicGauge>),
    Engine {
        applied: Arc<Cursor>,
        outputs: Monitor,
    },
    /// A reader of outputs: the reply or the feed.
    Reader {
        stage: Stage,
        name: &'static str,
        outputs: Monitor,
    },
}

/// An agent under watch: its turns are its own.
struct Observed {
    agent: Box<dyn Agent>,
    name: AgentName,
    watched: Watched,
    times: Arc<StageTimes>,
    clock: Arc<dyn Clock>,
    /// The last followed input that it has passed.
    passed: u64,
}

/// The agents of a chain and its gateways; those on the path of an order are watched. `journaled` and `applied` are the
/// inputs in the journal and those whose events are out.
pub fn observed(
    agents: Agents,
    wiring: &Wiring,
    times: &Arc<StageTimes>,
    journaled: &Arc<AtomicGauge>,
    applied: &Arc<Cursor>,
    clock: &Arc<dyn Clock>,
) -> Agents {
    let outputs = wiring.monitors().iter().find(|monitor| monitor.name() == "outputs");
    let Some(outputs) = outputs else { return agents };
    let watch = |(name, agent): (AgentName, Box<dyn Agent>)| {
        let is_source = times.sources.contains(&Some(name));
        let reader =
            |stage| Watched::Reader { stage, name: name.as_str(), outputs: outputs.clone() };
        let watched = match name {
            AgentName::Sequencer => Watched::Sequencer,
            AgentName::Journaler => Watched::Journaler(Arc::clone(journaled)),
            AgentName::Engine => {
                Watched::Engine { applied: Arc::clone(applied), outputs: outputs.clone() }
            }
            AgentName::MarketData => reader(Stage::Published),
            _ if is_source => reader(Stage::Replied),
            _ => return (name, agent),
        };
        let (times, clock) = (Arc::clone(times), Arc::clone(clock));
        let observed = Observed { agent, name, watched, times, clock, passed: 0 };
        (name, Box::new(observed) as Box<dyn Agent>)
    };
    agents.into_iter().map(watch).collect()
}

impl Observed {
    /// Notes the time if the agent has passed the followed input in the turn that just ended.
    fn look(&mut self, followed: u64) {
        let times = &self.times;
        let is_matched = || times.passed[Stage::Matched as usize].input.get() == followed;
        let stage = match &self.watched {
            Watched::Sequencer => Stage::Sequenced,
            Watched::Journaler(journaled) if journaled.get() >= followed => Stage::Journaled,
            Watched::Engine { applied, outputs } if applied.get() >= followed => {
                times.outputs.set(outputs.published());
                Stage::Matched
            }
            Watched::Reader { stage, name, outputs } if is_matched() => {
                if outputs.reader_cursor(name) < Some(times.outputs.get()) {
                    return;
                }
                *stage
            }
            _ => return,
        };
        self.passed = followed;
        let source = times.sources.get(times.source.get() as usize).copied().flatten();
        if stage != Stage::Replied || source == Some(self.name) {
            times.pass(stage, followed, self.clock.now_ns());
        }
    }
}

impl Agent for Observed {
    fn name(&self) -> &str {
        self.agent.name()
    }

    fn note_busy(&mut self, is_busy: bool) {
        self.agent.note_busy(is_busy);
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        let work = self.agent.do_work(now_ns)?;
        let followed = self.times.followed.get();
        if followed != self.passed {
            self.look(followed);
        }
        Ok(work)
    }

    fn is_held_up(&self) -> bool {
        self.agent.is_held_up()
    }

    fn close(&mut self) {
        self.agent.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> StageTimes {
        StageTimes::new(vec![Some(AgentName::OrderEntry), None], true)
    }

    fn pass_all(times: &StageTimes, input: u64, at: [u64; STAGES]) {
        let stages =
            [Stage::Sequenced, Stage::Journaled, Stage::Matched, Stage::Replied, Stage::Published];
        stages.into_iter().zip(at).for_each(|(stage, at)| times.pass(stage, input, at));
    }

    fn medians(times: &StageTimes) -> Vec<u64> {
        let figures = times.figures(false);
        let legs = figures["legs"].as_array().unwrap();
        legs.iter().map(|leg| leg["p50_ns"].as_u64().unwrap()).collect()
    }

    /// Legs are the times between stages; a reply begins when its order is both durable and matched.
    #[test]
    fn legs_are_the_times_between_stages() {
        let times = times();
        times.offer(256, 1_000, 0);
        pass_all(&times, 256, [1_001, 1_007, 1_003, 1_010, 1_012]);
        times.offer(512, 2_000, 0);
        assert_eq!(medians(&times), [1, 6, 2, 3, 5, 10]);
        let without = StageTimes::new(vec![Some(AgentName::OrderEntry)], false);
        without.offer(256, 1_000, 0);
        pass_all(&without, 256, [1_001, 1_007, 1_003, 1_010, 1_012]);
        without.offer(512, 2_000, 0);
        assert_eq!(medians(&without)[3], 7, "a reply that does not wait for the journal");
    }

    /// Arrivals at several ports are one leg, before the others; there is none if nothing is measured.
    #[test]
    fn arrivals_are_a_leg_of_their_own() {
        let times = times();
        assert_eq!(times.figures(false)["legs"][0]["name"], "sequence");
        let ports: Vec<Arc<TimeCounts>> = vec![Arc::default(), Arc::default()];
        times.show_arrivals(ports.clone());
        ports[0].record(5);
        ports[1].record(5);
        ports[1].record(1_000_000);
        let leg = &times.figures(true)["legs"][0];
        assert_eq!(
            (&leg["name"], &leg["count"], &leg["p50_ns"]),
            (&json!("socket"), &json!(3), &json!(5))
        );
        assert_eq!(leg["counts"][0], json!([5, 2]));
    }

    /// An input is followed to its end before the next one; inputs of a source without a gateway are never followed.
    #[test]
    fn one_input_is_followed_at_a_time() {
        let times = times();
        times.offer(256, 1, 1);
        assert_eq!(times.followed.get(), 0);
        times.offer(512, 1_000, 0);
        times.offer(768, 2_000, 0);
        assert_eq!(times.followed.get(), 512, "no stage has passed it");
        assert_eq!(times.figures(true)["legs"][0]["count"], 0);
        pass_all(&times, 512, [1_001, 1_002, 1_003, 1_004, 1_005]);
        times.offer(1_024, 3_000, 0);
        assert_eq!((times.followed.get(), times.received_ns.get()), (1_024, 3_000));
        assert_eq!(times.figures(true)["legs"][0]["counts"], json!([[1, 1]]));
    }
}
