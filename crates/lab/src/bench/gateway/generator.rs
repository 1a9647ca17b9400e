//! The load generator beside the venue that it measures: the cost of a request to each of them, on one core.
//!
//! Start at [`measure`]. A venue in a process of its own and the generator of `damrak load` share a core, so that each
//! works on the bytes that the other left it, and neither spins while the other works. CPU time of the threads of both,
//! from login to logout, by answered request, says the rate that each could have with the core to itself.
//!
//! Invariant: both costs are of the same requests.

use std::{fs, net::SocketAddr, path::PathBuf, sync::atomic::AtomicBool, thread};

use client::participant::DatagramBatching;
use market::{Price, Symbol};
use os::SystemFiles;
use serde_json::{Value, json};
use venue::{
    clock::SystemClock,
    failure::{Failure, causes},
};

use super::{pin, prepared};
use crate::{
    bench::Runs,
    crash_trial::{VenueProcess, unusable},
    load::{self, LoadOptions, LoadReport, LoadSession, LoadSymbol, Loop, SILENCE_NS_MAX},
    own_venue::{OwnVenueOptions, ReservedAddresses, config_text, login},
    profile::Usage,
};

/// The least ratio of the generator's rate to the venue's, on paths that have a target.
pub const RATIO_MIN: f64 = 1.5;

/// How requests reach the venue.
#[derive(Clone, Copy, Debug)]
pub struct GeneratorPath {
    pub name: &'static str,
    /// Requests that share a datagram; `None` over TCP.
    requests_per_datagram: Option<usize>,
    /// The most requests without an answer.
    outstanding: usize,
    /// True if [`RATIO_MIN`] is required. A datagram for each request costs both sides about the same, so that path has
    /// no target.
    pub has_target: bool,
}

/// All paths.
pub const GENERATOR_PATHS: [GeneratorPath; 3] = [
    GeneratorPath {
        name: "tcp",
        requests_per_datagram: None,
        outstanding: 4_096,
        has_target: true,
    },
    GeneratorPath {
        name: "udp-packed",
        requests_per_datagram: Some(31),
        outstanding: 4_092,
        has_target: true,
    },
    GeneratorPath {
        name: "udp",
        requests_per_datagram: Some(1),
        outstanding: 1_024,
        has_target: false,
    },
];

#[derive(Clone, Debug)]
pub struct GeneratorOptions {
    /// Runs of each path; the paths take turns.
    pub runs: usize,
    /// How long each run sends.
    pub duration_ns: u64,
    /// Core of both; `None` leaves it to the system.
    pub core: Option<usize>,
    /// Where journals go while a run lasts.
    pub scratch: PathBuf,
}

/// The verdict on the figures of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratorVerdict {
    Met,
    Missed,
    /// Without a target: the venue is slower, or as fast.
    VenueIsLimit,
    /// Without a target: the generator is slower.
    GeneratorIsLimit,
}

impl GeneratorVerdict {
    /// Of a generator with `ratio` times the venue's rate.
    pub fn of(has_target: bool, ratio: f64) -> Self {
        match (has_target, ratio) {
            (true, RATIO_MIN..) => Self::Met,
            (true, _) => Self::Missed,
            (false, 1.0..) => Self::VenueIsLimit,
            (false, _) => Self::GeneratorIsLimit,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::VenueIsLimit => "the venue is the limit",
            Self::GeneratorIsLimit => "the generator is the limit",
        }
    }
}

/// A path, and a value for each run.
#[derive(Clone, Debug)]
pub struct GeneratorRow {
    pub path: GeneratorPath,
    pub answered: Runs,
    /// Both on one core.
    pub answered_per_second: Runs,
    /// CPU time by answered request.
    pub generator_ns: Runs,
    pub venue_ns: Runs,
}

impl GeneratorRow {
    fn new(path: GeneratorPath) -> Self {
        let none = Runs::default;
        Self {
            path,
            answered: none(),
            answered_per_second: none(),
            generator_ns: none(),
            venue_ns: none(),
        }
    }

    fn push(&mut self, report: &LoadReport, venue_ns: u64) {
        let answered = report.counts.replies as f64;
        self.answered.push(answered);
        self.answered_per_second.push(report.answered_per_second() as f64);
        self.generator_ns.push(report.evidence.cpu_ns as f64 / answered);
        self.venue_ns.push(venue_ns as f64 / answered);
    }

    /// Requests a second of the generator, with the core to itself.
    pub fn generator_per_second(&self) -> f64 {
        1e9 / self.generator_ns.median()
    }

    /// Requests a second of the venue, with the core to itself.
    pub fn venue_per_second(&self) -> f64 {
        1e9 / self.venue_ns.median()
    }

    /// The generator's rate as a multiple of the venue's, by medians.
    pub fn ratio(&self) -> f64 {
        self.venue_ns.median() / self.generator_ns.median()
    }

    pub fn verdict(&self) -> GeneratorVerdict {
        GeneratorVerdict::of(self.path.has_target, self.ratio())
    }

    pub fn json(&self) -> Value {
        json!({
            "path": self.path.name,
            "outstanding": self.path.outstanding,
            "requests_per_datagram": self.path.requests_per_datagram,
            "answered": self.answered.all(),
            "answered_per_second": self.answered_per_second.all(),
            "generator": {
                "cpu_ns_per_request": self.generator_ns.all(),
                "possible_per_second": self.generator_per_second(),
            },
            "venue": {
                "cpu_ns_per_request": self.venue_ns.all(),
                "possible_per_second": self.venue_per_second(),
            },
            "ratio": self.ratio(),
            "ratio_min": self.path.has_target.then_some(RATIO_MIN),
            "verdict": self.verdict().text(),
        })
    }
}

/// Measures the paths in turns.
///
/// # Errors
/// A venue does not start, the load fails, or the system does not show the CPU time of the venue.
pub fn measure(
    options: &GeneratorOptions,
    clock: SystemClock,
) -> Result<Vec<GeneratorRow>, Failure> {
    fs::create_dir_all(&options.scratch).map_err(|error| unusable(&options.scratch, &error))?;
    let mut rows = GENERATOR_PATHS.map(GeneratorRow::new);
    for _ in 0..options.runs {
        for row in &mut rows {
            // Both are started by a new thread, because a thread and its children keep their core for good.
            let (report, venue_ns) = thread::scope(|scope| {
                let measured = scope.spawn(|| measure_run(&row.path, options, clock));
                measured.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })?;
            row.push(&report, venue_ns);
        }
    }
    Ok(rows.into())
}

/// One run: the generator's report, and the CPU time of the venue meanwhile.
fn measure_run(
    path: &GeneratorPath,
    options: &GeneratorOptions,
    clock: SystemClock,
) -> Result<(LoadReport, u64), Failure> {
    pin(options.core)?;
    let reserved = ReservedAddresses::udp(usize::from(path.requests_per_datagram.is_some()))?;
    let locals = reserved.addresses.clone();
    let of_venue = OwnVenueOptions {
        symbols: vec![prepared::SYMBOL.to_owned()],
        users: 1,
        locals: locals.clone(),
        layout: "threads = \"single\"\n".to_owned(),
        ..OwnVenueOptions::default()
    };
    let journal = options.scratch.join("journal");
    let config = options.scratch.join("venue.toml");
    fs::write(&config, config_text(&journal, &of_venue)?)
        .map_err(|error| unusable(&config, &error))?;
    let venue = VenueProcess::start(&config, &options.scratch.join("venue.log"))?;
    drop(reserved);
    let outcome = load_venue(&venue, path, locals.first().copied(), options, clock);
    venue.stop()?;
    fs::remove_dir_all(&journal).map_err(|error| unusable(&journal, &error))?;
    outcome
}

fn load_venue(
    venue: &VenueProcess,
    path: &GeneratorPath,
    local: Option<SocketAddr>,
    options: &GeneratorOptions,
    clock: SystemClock,
) -> Result<(LoadReport, u64), Failure> {
    let session = match local {
        Some(local) => LoadSession::Udp { server: venue.address("order_entry_udp")?, local },
        None => LoadSession::Tcp { server: venue.address("order_entry")?, login: login(1) },
    };
    let symbol = LoadSymbol {
        symbol: Symbol::new(prepared::SYMBOL).expect("it fits"),
        mid: Price(1_500_000),
        price_increment: Price(100),
    };
    let mut load = LoadOptions::new(vec![session], vec![symbol], 1, options.duration_ns);
    load.pacing = Loop::Closed { outstanding: path.outstanding };
    load.requests_per_datagram = path.requests_per_datagram.unwrap_or(1);
    load.batching = DatagramBatching::Segments;
    load.grace_ns = SILENCE_NS_MAX;
    let before_ns = venue_cpu_ns(venue)?;
    let report = load::run(&load, &clock, &AtomicBool::new(false), &mut |_| {});
    let report = report.map_err(|error| Failure::runtime(causes(&error)))?;
    let venue_ns = venue_cpu_ns(venue)?.saturating_sub(before_ns);
    let failed = |what: String| Err(Failure::runtime(format!("path {}: {what}", path.name)));
    match &report.failures[..] {
        [failure, ..] => failed(format!("the load failed: {failure}")),
        [] if report.counts.replies == 0 => failed("the venue answered no request".to_owned()),
        [] => Ok((report, venue_ns)),
    }
}

/// CPU time of all threads of the venue so far.
fn venue_cpu_ns(venue: &VenueProcess) -> Result<u64, Failure> {
    let process = venue.started["pid"].as_u64().and_then(|it| u32::try_from(it).ok());
    let usage = process.and_then(|it| Usage::of(&SystemFiles::of_this_machine(), it));
    let usage = usage.ok_or_else(|| {
        Failure::environment("the system does not show the CPU time of the venue")
    })?;
    Ok(usage.threads.iter().map(|thread| thread.cpu_ns).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The target is at least 1.5; without one the slower side is the limit. A missing figure meets no target.
    #[test]
    fn the_verdict_is_that_of_the_ratio() {
        use GeneratorVerdict::{GeneratorIsLimit, Met, Missed, VenueIsLimit};
        for (has_target, ratio, verdict) in [
            (true, 1.5, Met),
            (true, 40.0, Met),
            (true, 1.499, Missed),
            (true, f64::NAN, Missed),
            (false, 1.0, VenueIsLimit),
            (false, 1.6, VenueIsLimit),
            (false, 0.999, GeneratorIsLimit),
        ] {
            assert_eq!(GeneratorVerdict::of(has_target, ratio), verdict, "{has_target} {ratio}");
        }
    }

    /// Costs are CPU time by answered request, and the ratio is that of the possible rates.
    #[test]
    fn rates_and_ratio_follow_from_the_costs() {
        let mut row = GeneratorRow::new(GENERATOR_PATHS[0]);
        for (replies, generator_ns, venue_ns) in
            [(1_000, 400_000, 1_000_000), (2_000, 1_000_000, 1_800_000), (500, 300_000, 600_000)]
        {
            let mut report = LoadReport::default();
            report.counts.replies = replies;
            report.evidence.cpu_ns = generator_ns;
            row.push(&report, venue_ns);
        }
        assert_eq!(row.generator_ns.all(), [400.0, 500.0, 600.0]);
        assert_eq!(row.venue_ns.all(), [1_000.0, 900.0, 1_200.0]);
        assert_eq!((row.generator_per_second(), row.venue_per_second()), (2e6, 1e6));
        assert_eq!((row.ratio(), row.verdict()), (2.0, GeneratorVerdict::Met));
        let json = row.json();
        assert_eq!((&json["path"], &json["ratio"]), (&json!("tcp"), &json!(2.0)));
        assert_eq!(json["verdict"], "met");
    }
}
