//! The published tables of the systems that Damrak takes up, repeated here in a small form: ours beside theirs, with
//! the differences in words.
//!
//! Start at [`Origins::run`]. Each row is an experiment that exists elsewhere in the laboratory.
//!
//! Invariant: a row that this machine cannot run says why; a figure of theirs is never computed from ours.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use market::{Price, Symbol, Text};
use serde_json::{Value, json};
use venue::{clock::SystemClock, failure::Failure};
use wire::fix::{CompId, Version};

use crate::{
    crash_trial::unusable,
    datagram_ladder::{LADDER_DIFFERENCES, Ladder, LadderPath, Rung, RungFigures},
    latency::duration_text,
    load::{self, FixLogin, LoadOptions, LoadSession, LoadSymbol},
    netns::{Cores, VethPairs},
    own_venue::{OwnVenue, OwnVenueOptions},
    profile::{ProfileStep, Subject, VenueProfile},
};

/// Background rates of the latency matrix, each with its connections, and rates of the stream that is measured.
const BACKGROUND: [(u64, usize); 4] = [(0, 0), (1_000, 1), (2_000, 4), (5_000, 8)];
const MEASURED: [u64; 6] = [50, 100, 500, 1_000, 2_000, 5_000];
/// Participants by FIX: the measured one, and those of the background.
const FIX_USERS: usize = 9;

/// The schema of the file with the rows, and of the JSON printed.
pub const SCHEMA: &str = "damrak/origins/1";

/// A published figure, and ours.
#[derive(Clone, Debug)]
pub struct OriginRow {
    /// The system, as docs/performance.md names it by a letter.
    pub origin: char,
    pub case: String,
    /// Figures, or why there are none.
    pub ours: Result<Value, String>,
    pub theirs: &'static str,
    /// How the two workloads differ.
    pub differences: &'static str,
}

pub struct Origins {
    /// How long each case is measured.
    pub duration: Duration,
    pub out: PathBuf,
    /// The folder with the order files of system D.
    pub data: Option<PathBuf>,
}

impl Origins {
    /// Runs the cases of these systems, all if there are none, and gives each row to `done` as soon as it is there.
    ///
    /// # Errors
    /// A file cannot be written, or `done` fails. An experiment that fails is a row that says why.
    pub fn run(
        &self,
        only: &[char],
        done: &mut dyn FnMut(&OriginRow) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        fs::create_dir_all(&self.out).map_err(|error| unusable(&self.out, &error))?;
        let is_wanted = |origin: char| only.is_empty() || only.contains(&origin);
        if is_wanted('A') {
            self.packets(done)?;
        }
        if is_wanted('B') {
            self.batches(done)?;
        }
        if is_wanted('C') {
            self.latencies(done)?;
        }
        if is_wanted('D') {
            self.order_files(done)?;
        }
        if is_wanted('E') {
            self.sockets(done)?;
        }
        Ok(())
    }

    /// A: datagrams a second through the kernel, one way, over loopback and between two network namespaces.
    fn packets(
        &self,
        done: &mut dyn FnMut(&OriginRow) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut tell = |rung: &Rung, ours: RungFigures| {
            let (case, theirs, differences) = (rung.case.into(), rung.theirs, LADDER_DIFFERENCES);
            done(&OriginRow { origin: 'A', case, ours, theirs, differences })
        };
        Ladder { path: LadderPath::Loopback, duration: self.duration }.climb(&mut tell)?;
        // A failure of the report is no reason to call the pair impossible.
        let mut told = Ok(());
        let climbed = VethPairs::of_this_machine().with_temporary(Cores::one_each(), |pair| {
            let ladder = Ladder { path: LadderPath::Veth(pair), duration: self.duration };
            told = ladder.climb(&mut tell);
            Ok(())
        });
        told?;
        match climbed {
            Ok(()) => Ok(()),
            Err(failure) => tell(&Rung::THROUGH_VETH, Err(failure.to_string())),
        }
    }

    /// B: the largest batches of delta streams in several layouts.
    fn batches(
        &self,
        done: &mut dyn FnMut(&OriginRow) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let out = self.out.join("regression");
        let seconds = format!("{}ms", self.duration.as_millis());
        let out = out.display().to_string();
        let arguments =
            ["lab", "regression", "--json", "--rate", "10k/s", "--for", &seconds, "--out", &out];
        // Exit code 4: a batch was too large. That is a result.
        let found = own_program(&arguments, &[0, 4]);
        let trials = found.map(|found| found["trials"].as_array().cloned().unwrap_or_default());
        let differences = "theirs: 14 streams on 18 shared cores of production hardware, kernel bypass for the deltas; ours: \
                           14 streams over loopback on the cores of this machine, at 10 k/s";
        let theirs = "ring 8,192: batches of thousands with a thread for each stream; about 50 with one thread for all";
        match trials {
            Err(reason) => {
                let (case, ours) = ("14 delta streams".to_owned(), Err(reason));
                done(&OriginRow { origin: 'B', case, ours, theirs, differences })
            }
            Ok(trials) => trials.into_iter().try_for_each(|trial| {
                let name = |key: &str| trial[key].as_str().unwrap_or_default().to_owned();
                let case = format!("{}, {} instruments", name("layout"), name("instruments"));
                done(&OriginRow { origin: 'B', case, ours: Ok(trial), theirs, differences })
            }),
        }
    }

    /// C: latency of a measured stream beside a background, by FIX: `bgRATE.CONNECTIONS_ltRATE.1`.
    fn latencies(
        &self,
        done: &mut dyn FnMut(&OriginRow) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let differences = "theirs: market orders of 2 lots against 18 resting orders, the next after the report of the last, 600 s, \
                           one laptop; ours: adds, cancels and crosses, open loop, latency from when a request was due, both \
                           sides on this machine";
        for (background, connections) in BACKGROUND {
            for rate in MEASURED {
                let case = format!("bg{background}.{connections}_lt{rate}.1");
                let ours = self.latency(background, connections, rate);
                let ours = ours.map_err(|failure| failure.to_string());
                let theirs = match (background, rate) {
                    (0, 5_000) => {
                        "p50 90 µs, p99 207 µs over TCP; p50 2,228 µs, p99 12,110 µs by FIX (v1.0)"
                    }
                    (0, 50) => "p50 742 µs over TCP",
                    (5_000, 50) => "p50 362 µs, p99 1,275 µs over TCP (bg5000.100_lt1.1)",
                    _ => "not published at these rates",
                };
                done(&OriginRow { origin: 'C', case, ours, theirs, differences })?;
            }
        }
        Ok(())
    }

    /// A cell: both streams at a time, on a venue of its own.
    fn latency(&self, background: u64, connections: usize, rate: u64) -> Result<Value, Failure> {
        let folder = self.out.join("fix");
        let mut sections =
            "\n[order_entry_fix]\naddress = \"127.0.0.1:0\"\ncomp_id = \"DAMRAK\"\n".to_owned();
        for number in 0..FIX_USERS {
            sections += &format!(
                "[[participants]]\nusername = \"FIX{number}\"\npassword = \"fixfix\"\nprotocol = \"fix\"\n\
                 firm = \"FIRM\"\n"
            );
        }
        let options = OwnVenueOptions {
            symbols: vec!["AAPL".into()],
            market_data: sections,
            ..OwnVenueOptions::default()
        };
        let clock = SystemClock::start();
        let venue = OwnVenue::start(&folder, &options, clock)?;
        let server = venue.address("order_entry_fix")?;
        let session = |number: usize| {
            let login = FixLogin {
                version: Version::Fix44,
                client: CompId::new(&format!("FIX{number}")).expect("it fits"),
                password: Text::new("fixfix").expect("it fits"),
                venue: CompId::new("DAMRAK").expect("it fits"),
            };
            LoadSession::Fix { server, login }
        };
        let symbol = LoadSymbol {
            symbol: Symbol::new("AAPL").expect("it fits"),
            mid: Price(1_500_000),
            price_increment: Price(100),
        };
        let options = |sessions: Vec<LoadSession>, rate: u64, duration_ns: u64| {
            LoadOptions::new(sessions, vec![symbol], rate, duration_ns)
        };
        let duration_ns = self.duration.as_nanos() as u64;
        let measured = options(vec![session(0)], rate, duration_ns);
        let sessions = (1..=connections).map(session).collect();
        let beside = options(sessions, background.max(1), u64::MAX / 4);
        let stop = AtomicBool::new(false);
        let run = |options: &LoadOptions, stop: &AtomicBool| {
            load::run(options, &clock, stop, &mut |_| {}).map_err(Failure::runtime)
        };
        let (report, background_report) = thread::scope(|scope| {
            let beside = (connections > 0).then(|| scope.spawn(|| run(&beside, &stop)));
            let report = run(&measured, &AtomicBool::new(false));
            stop.store(true, Ordering::Relaxed);
            let beside = beside.map(|it| it.join().expect("the load does not panic"));
            (report, beside)
        });
        venue.stop_and_remove()?;
        let report = report?;
        let background = background_report.transpose()?;
        let latency = report.scheduled.percentiles();
        Ok(json!({
            "p50_ns": latency.p50_ns,
            "p99_ns": latency.p99_ns,
            "max_ns": latency.max_ns,
            "requests": report.counts.requests(),
            "unanswered": report.counts.unanswered + report.counts.unsent,
            "background_answered_per_second": background.map(|it| it.answered_per_second()),
            "verdict": report.verdict(),
        }))
    }

    /// D: the two order files, with their published results.
    fn order_files(
        &self,
        done: &mut dyn FnMut(&OriginRow) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let differences = "theirs: parses the file and matches in one process, no journal that is synced; ours: the same rows \
                           through sequencer, journal, engine and ledger, reading the file included";
        for (name, trades, theirs) in [
            (
                "100k",
                47_886_u64,
                "47,886 trades; 132 k/s to 256 k/s (author); 1.0 CPU s (run again)",
            ),
            (
                "1300k_cancel",
                538_487,
                "538,487 trades; 55 k/s to 84 k/s (author); 45 to 47 CPU s (run again)",
            ),
        ] {
            let ours = match &self.data {
                None => Err(
                    "the order files are not part of this repository: --data names their folder"
                        .to_owned(),
                ),
                Some(data) => self.order_file(&data.join(name), trades),
            };
            done(&OriginRow { origin: 'D', case: name.into(), ours, theirs, differences })?;
        }
        Ok(())
    }

    fn order_file(&self, folder: &Path, trades: u64) -> Result<Value, String> {
        let path = |name: &str| folder.join(name).display().to_string();
        let (orders, balances) = (path("orders.csv.gz"), path("balances_init.csv"));
        let found = own_program(&["run", &orders, "--balances", &balances, "--json"], &[0])?;
        match found["trades"].as_u64() {
            Some(count) if count != trades => Err(format!(
                "{count} trades, and {trades} are published: a difference, not a speed"
            )),
            _ => Ok(found),
        }
    }

    /// E: three profiles of sockets.
    fn sockets(
        &self,
        done: &mut dyn FnMut(&OriginRow) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let profiles = [
            (
                Subject::Gateway,
                "400 to 570 connections a second, each with a process of its own; all CPU time in the kernel",
                "theirs: a new client process for each order; ours: one session that stays, requests in batches",
            ),
            (
                Subject::Connections,
                "threads and epoll compared with up to 64 clients, all but the first of which measured rejects",
                "theirs: order numbers repeat between clients; ours: every request is answered as an order",
            ),
            (
                Subject::Feed,
                "of 14,820 datagrams 0 to 663 lost with a buffer of 4 kB, 0 to 2,224 with 212,992 B, 0 with 8 MiB; run again \
                 42 to 44 % with 212,992 B",
                "theirs: one message a datagram, one burst; ours: packed messages, as long as the case lasts",
            ),
        ];
        for (subject, theirs, differences) in profiles {
            let duration = self.duration;
            let profile = VenueProfile {
                subject,
                duration,
                out: self.out.join("profile"),
                stage_times: true,
            };
            let mut steps = Vec::new();
            let ran = profile.run_without_tools(&mut |step: &ProfileStep| {
                steps.push(step.clone());
                Ok(())
            });
            if let Err(failure) = ran {
                let (case, ours) =
                    (format!("{subject:?}").to_lowercase(), Err(failure.to_string()));
                done(&OriginRow { origin: 'E', case, ours, theirs, differences })?;
            }
            for ProfileStep { name, outcome } in steps {
                let case = format!("{}: {name}", format!("{subject:?}").to_lowercase());
                done(&OriginRow { origin: 'E', case, ours: outcome, theirs, differences })?;
            }
        }
        Ok(())
    }
}

/// The most important figures of a row.
pub fn in_words(figures: &Value) -> String {
    let mut parts = Vec::new();
    for (key, name) in [
        ("received_per_second", "received/s"),
        ("answered_per_second", "answered/s"),
        ("trades", "trades"),
        ("commands_per_second", "commands/s"),
        ("published", "published"),
        ("received", "received"),
        ("lost", "lost"),
    ] {
        if let Some(count) = figures[key].as_f64() {
            parts.push(format!("{} {name}", load::grouped(count as u64)));
        }
    }
    if let Some(percent) = figures["received_percent"].as_f64() {
        parts.push(format!("{percent:.1} % received"));
    }
    if let Some(cores) = figures["cores_used"].as_f64() {
        parts.push(format!("{cores:.1} cores used"));
    }
    for (key, name) in [("p50_ns", "p50"), ("p99_ns", "p99"), ("max_ns", "max")] {
        if let Some(ns) = figures[key].as_u64() {
            parts.push(format!("{name} {}", duration_text(ns)));
        }
    }
    for role in ["application", "snapshot", "delta"] {
        if let Some(batch) = batch_max(figures, role) {
            parts.push(format!("{role}: batches up to {}", load::grouped(batch)));
        }
    }
    if parts.is_empty() { "see origins.json".to_owned() } else { parts.join(", ") }
}

/// The largest batch of the rings of a role.
pub(crate) fn batch_max(figures: &Value, role: &str) -> Option<u64> {
    let rings = figures["rings"].as_array().into_iter().flatten();
    let of_role = rings.filter(|ring| ring["role"].as_str() == Some(role));
    of_role.filter_map(|ring| ring["batch_max"].as_u64()).max()
}

/// Runs a verb of this program, and gives its output as JSON.
fn own_program(arguments: &[&str], codes: &[i32]) -> Result<Value, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.code().is_some_and(|code| codes.contains(&code)) {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("damrak {}: {}", arguments.join(" "), said.trim_end()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the files of system D its rows say so, by name.
    #[test]
    fn order_files_that_are_not_there_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().into();
        let origins = Origins { duration: Duration::from_millis(1), out, data: None };
        let mut rows = Vec::new();
        origins
            .run(&['D'], &mut |row| {
                rows.push((row.case.clone(), row.ours.clone().unwrap_err()));
                Ok(())
            })
            .unwrap();
        assert_eq!(rows.len(), 2);
        assert!(rows[1].0 == "1300k_cancel" && rows[1].1.contains("--data"), "{rows:?}");
    }
}
