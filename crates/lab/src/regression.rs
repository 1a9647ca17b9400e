//! The regression that a venue once had, as an experiment: many delta streams on threads of their own against one
//! agent, in several layouts, with many instruments and with few.
//!
//! Start at [`run`]. `setting` makes the venues, `verdict` says which layout is healthy and why.
//!
//! Invariant: the venues are ordinary ones. Layouts are texts of the configuration, figures are those of the
//! rings, load is that of `damrak load`.

mod setting;
mod verdict;

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ring::RingReport;
use serde_json::{Value, json};
use venue::{
    clock::SystemClock,
    failure::{Failure, causes},
};

use crate::{
    load::{self, LoadReport, RateSearch},
    own_venue::OwnVenue,
};

pub use setting::{Instruments, NamedLayout, built_in_layouts};
pub use verdict::{LayoutVerdict, verdicts};

use setting::Setting;

/// A delta batch under this part of its ring is healthy.
pub const HEALTHY_PART: usize = 8;
/// How often the rings are looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// Percent of the rate that must be answered, or the venue has not kept up.
const ANSWERED_PERCENT: u64 = 95;
/// Where the search for the rate begins, in requests a second.
const SEARCH_FROM: u64 = 16_000;

#[derive(Clone, Debug)]
pub struct RegressionOptions {
    /// Number of delta streams, 1 to 16.
    pub streams: usize,
    /// The layouts; the limit of the first is searched and judged.
    pub layouts: Vec<NamedLayout>,
    /// Requests a second; `None` searches for the highest at which no reader drops.
    pub rate_per_second: Option<u64>,
    /// How long each layout is under load.
    pub duration: Duration,
    /// How long each rate of the search is tried.
    pub search_duration: Duration,
}

/// The state of a ring at one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Since the load began.
    pub at_ms: u64,
    pub ring: &'static str,
    pub reader: &'static str,
    pub capacity: usize,
    /// The largest batch since the look before.
    pub batch_max: usize,
    /// The most entries that waited in the ring since then.
    pub high_water: usize,
}

/// The figures of one reader of a ring in a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderFigures {
    pub ring: &'static str,
    pub reader: &'static str,
    pub capacity: usize,
    pub batch_max: usize,
    /// The most entries that waited in the ring.
    pub high_water: usize,
    /// Messages that it lost.
    pub missed: u64,
    /// Times the writer found the ring full.
    pub stalls: u64,
}

/// A venue in one layout with one set of instruments, under load.
#[derive(Clone, Debug)]
pub struct Trial {
    pub layout: String,
    pub instruments: Instruments,
    /// The groups, as the venue printed them.
    pub groups: String,
    pub threads: usize,
    pub rate_per_second: u64,
    pub answered_per_second: u64,
    /// The load's first failure, in its own words, where there was one.
    pub failure: Option<String>,
    pub readers: Vec<ReaderFigures>,
    pub samples: Vec<Sample>,
}

/// The role of a ring in the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingRole {
    /// The engine reads its inputs.
    Application,
    /// The snapshot agent (feed server) reads the feed.
    Snapshot,
    /// A stream reads its messages.
    Delta,
}

impl RingRole {
    pub const ALL: [Self; 3] = [Self::Application, Self::Snapshot, Self::Delta];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Snapshot => "snapshot",
            Self::Delta => "delta",
        }
    }

    /// That of a reader of a ring, if the experiment is about it.
    pub fn of(ring: &str, reader: &str) -> Option<Self> {
        match (ring, reader) {
            ("inputs", "engine") => Some(Self::Application),
            ("feed", _) => Some(Self::Snapshot),
            _ if ring.starts_with("stream ") => Some(Self::Delta),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Regression {
    pub streams: usize,
    pub cores: usize,
    /// The rate of all trials, in requests a second.
    pub rate_per_second: u64,
    /// The rates that were tried for it, and which passed.
    pub search: Vec<(u64, bool)>,
    pub trials: Vec<Trial>,
}

/// Runs all trials, in venues in `folder`, and reports each when it is over.
///
/// # Errors
/// A layout is wrong for these streams, or a venue does not start.
pub fn run(
    options: &RegressionOptions,
    folder: &Path,
    clock: SystemClock,
    progress: &mut dyn FnMut(&Trial) -> Result<(), Failure>,
) -> Result<Regression, Failure> {
    let first = options.layouts.first().ok_or_else(|| Failure::usage("there is no layout"))?;
    let mut search = Vec::new();
    let rate_per_second = match options.rate_per_second {
        Some(rate) => rate,
        None => {
            let mut try_rate = |rate| {
                let busy = Instruments::Production;
                let duration = options.search_duration;
                one(options.streams, first, busy, rate, duration, folder, clock)
            };
            highest_rate(&mut search, &mut try_rate)?
        }
    };
    let mut trials = Vec::new();
    for layout in &options.layouts {
        for instruments in Instruments::ALL {
            let duration = options.duration;
            let trial = one(
                options.streams,
                layout,
                instruments,
                rate_per_second,
                duration,
                folder,
                clock,
            )?;
            progress(&trial)?;
            trials.push(trial);
        }
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Ok(Regression { streams: options.streams, cores, rate_per_second, search, trials })
}

/// The highest rate at which no reader drops and the venue keeps up.
fn highest_rate(
    tried: &mut Vec<(u64, bool)>,
    try_rate: &mut dyn FnMut(u64) -> Result<Trial, Failure>,
) -> Result<u64, Failure> {
    let mut search = RateSearch::new(SEARCH_FROM);
    while let Some(rate) = search.next() {
        let trial = try_rate(rate)?;
        let passes = trial.dropped() == 0 && trial.kept_up();
        tried.push((rate, passes));
        search.tried(passes);
    }
    search.best().ok_or_else(|| {
        Failure::runtime(
            "the first layout dropped messages or fell behind at every rate of the search",
        )
        .hint("check that the machine is idle, or give a rate with --rate")
    })
}

/// One trial.
fn one(
    streams: usize,
    layout: &NamedLayout,
    instruments: Instruments,
    rate_per_second: u64,
    duration: Duration,
    folder: &Path,
    clock: SystemClock,
) -> Result<Trial, Failure> {
    let setting = Setting::new(streams, layout, instruments)?;
    let venue = OwnVenue::start(&folder.join("venue"), &setting.options, clock)?;
    let groups = venue.started()["layout"].as_str().unwrap_or_default().to_owned();
    let mut load = venue.load(rate_per_second)?;
    load.duration_ns = duration.as_nanos() as u64;
    let over = AtomicBool::new(false);
    let stop = AtomicBool::new(false);
    // The work of the start is no part of the trial.
    let before = venue.rings();
    let (report, samples) = thread::scope(|scope| {
        let loading = scope.spawn(|| {
            let report = load::run(&load, &clock, &stop, &mut |_| {});
            over.store(true, Ordering::Relaxed);
            report
        });
        let samples = sample(&venue, &over, clock);
        (loading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), samples)
    });
    let report = report.map_err(|error| Failure::runtime(causes(&error)))?;
    let after = venue.rings();
    venue.stop_and_remove()?;
    Ok(Trial {
        layout: layout.name.clone(),
        instruments,
        threads: groups.split('|').count(),
        groups,
        rate_per_second,
        answered_per_second: report.answered_per_second(),
        failure: failure(&report),
        readers: figures(&before, &after, &samples),
        samples,
    })
}

/// Looks at the rings until the load is over.
fn sample(venue: &OwnVenue, over: &AtomicBool, clock: SystemClock) -> Vec<Sample> {
    let begun = clock.since_start();
    let mut samples = Vec::new();
    let mut is_last = false;
    while !is_last {
        // One more look after the end: it has the work of the last interval.
        is_last = over.load(Ordering::Relaxed);
        let at_ms = (clock.since_start() - begun).as_millis() as u64;
        for ring in venue.rings() {
            let RingReport { name, capacity, .. } = ring;
            let of_interest =
                ring.readers.iter().filter(|it| RingRole::of(name, it.name).is_some());
            samples.extend(of_interest.map(|reader| Sample {
                at_ms,
                ring: name,
                reader: reader.name,
                capacity,
                batch_max: reader.batch_max,
                high_water: ring.high_water,
            }));
        }
        thread::sleep(SAMPLE_INTERVAL);
    }
    samples
}

fn figures(before: &[RingReport], after: &[RingReport], samples: &[Sample]) -> Vec<ReaderFigures> {
    let mut figures = Vec::new();
    for (before, after) in before.iter().zip(after) {
        for (was, is) in before.readers.iter().zip(&after.readers) {
            if RingRole::of(after.name, is.name).is_none() {
                continue;
            }
            let of_reader = |it: &&Sample| it.ring == after.name && it.reader == is.name;
            let batches = samples.iter().filter(of_reader).map(|sample| sample.batch_max);
            let waiting = samples.iter().filter(of_reader).map(|sample| sample.high_water);
            figures.push(ReaderFigures {
                ring: after.name,
                reader: is.name,
                capacity: after.capacity,
                batch_max: batches.max().unwrap_or(0).max(is.batch_max),
                high_water: waiting.max().unwrap_or(0).max(after.high_water),
                missed: is.missed - was.missed,
                stalls: after.stalls - before.stalls,
            });
        }
    }
    figures
}

fn failure(report: &LoadReport) -> Option<String> {
    report.failures.first().map(ToString::to_string)
}

impl Sample {
    /// The measure of how far behind the reader was.
    pub fn size(&self) -> usize {
        size(self.ring, self.batch_max, self.high_water)
    }
}

impl ReaderFigures {
    /// The measure of how far behind the reader was.
    pub fn size(&self) -> usize {
        size(self.ring, self.batch_max, self.high_water)
    }
}

/// The engine takes few inputs at a time, however many wait: for its ring, the most inputs that waited count; for the
/// others, the largest batch.
fn size(ring: &str, batch_max: usize, high_water: usize) -> usize {
    if ring == "inputs" { high_water } else { batch_max }
}

impl Trial {
    /// Messages that readers lost.
    pub fn dropped(&self) -> u64 {
        self.readers.iter().map(|reader| reader.missed).sum()
    }

    /// True if nothing failed and the venue answered at least `ANSWERED_PERCENT` of the requested rate.
    pub fn kept_up(&self) -> bool {
        self.failure.is_none()
            && self.answered_per_second * 100 >= self.rate_per_second * ANSWERED_PERCENT
    }

    /// The reader of this role with the largest size as a share of its ring.
    pub fn worst(&self, role: RingRole) -> Option<&ReaderFigures> {
        let of_role =
            self.readers.iter().filter(|it| RingRole::of(it.ring, it.reader) == Some(role));
        of_role.max_by_key(|it| it.size() * 1_000_000 / it.capacity.max(1))
    }

    /// The largest size of the readers of a role over time, with the largest ring among theirs.
    pub fn timeline(&self, role: RingRole) -> (Vec<usize>, usize) {
        let (mut sizes, mut capacity, mut at_ms) = (Vec::<usize>::new(), 1, None);
        for sample in &self.samples {
            if RingRole::of(sample.ring, sample.reader) != Some(role) {
                continue;
            }
            capacity = capacity.max(sample.capacity);
            if at_ms == Some(sample.at_ms) {
                let last = sizes.last_mut().expect("a look has begun");
                *last = sample.size().max(*last);
            } else {
                at_ms = Some(sample.at_ms);
                sizes.push(sample.size());
            }
        }
        (sizes, capacity)
    }

    fn json(&self) -> Value {
        json!({
            "layout": self.layout,
            "instruments": self.instruments.as_str(),
            "groups": self.groups,
            "threads": self.threads,
            "rate_per_second": self.rate_per_second,
            "answered_per_second": self.answered_per_second,
            "kept_up": self.kept_up(),
            "failure": self.failure,
            "dropped": self.dropped(),
            "rings": self.readers.iter().map(|it| json!({
                "ring": it.ring,
                "reader": it.reader,
                "role": RingRole::of(it.ring, it.reader).map(RingRole::as_str),
                "capacity": it.capacity,
                "batch_max": it.batch_max,
                "high_water": it.high_water,
                "missed": it.missed,
                "stalls": it.stalls,
            })).collect::<Vec<_>>(),
            "over_time": RingRole::ALL.iter().map(|role| {
                (role.as_str().to_owned(), json!(self.timeline(*role).0))
            }).collect::<serde_json::Map<_, _>>(),
        })
    }
}

impl Regression {
    /// The conditions that must hold of the first layout and do not.
    pub fn failures(&self) -> Vec<String> {
        let Some(first) = self.trials.first() else { return Vec::new() };
        let of_first = self.trials.iter().filter(|trial| trial.layout == first.layout);
        let delta = of_first.filter_map(|trial| Some((trial, trial.worst(RingRole::Delta)?)));
        let wrong = delta.filter(|(_, it)| it.batch_max * HEALTHY_PART >= it.capacity);
        wrong
            .map(|(trial, it)| {
                format!(
                    "layout {} with {} instruments: a delta batch of {} messages is 1/{HEALTHY_PART} of its ring of \
                     {} or more",
                    trial.layout, trial.instruments.as_str(), it.batch_max, it.capacity
                )
            })
            .collect()
    }

    pub fn json(&self, environment: &Value) -> Value {
        json!({
            "schema": "damrak/lab-regression/1",
            "streams": self.streams,
            "cores": self.cores,
            "rate_per_second": self.rate_per_second,
            "search": self.search.iter().map(|(rate, passed)| {
                json!({ "rate_per_second": rate, "passed": passed })
            }).collect::<Vec<_>>(),
            "sample_ms": SAMPLE_INTERVAL.as_millis() as u64,
            "trials": self.trials.iter().map(Trial::json).collect::<Vec<_>>(),
            "verdicts": verdicts(self).iter().map(LayoutVerdict::json).collect::<Vec<_>>(),
            "failures": self.failures(),
            "environment": environment,
        })
    }

    /// Every sample as a row of a table.
    pub fn csv(&self) -> String {
        let mut text =
            "layout,instruments,at_ms,ring,reader,capacity,batch_max,high_water\n".to_owned();
        for trial in &self.trials {
            for Sample { at_ms, ring, reader, capacity, batch_max, high_water } in &trial.samples {
                let (layout, instruments) = (&trial.layout, trial.instruments.as_str());
                text += &format!(
                    "{layout},{instruments},{at_ms},{ring},{reader},{capacity},{batch_max},{high_water}\n"
                );
            }
        }
        text
    }
}
