//! The cost of following orders through a venue's stages: runs with and without, in pairs, and the instructions of the
//! code that follows them, by callgrind(1).
//!
//! Invariant: the runs of a pair differ in nothing but that, and each comes first as often as second.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use venue::failure::Failure;

use super::{ProfileStep, Site, VenueProfile, tools};
use crate::{bench::Runs, crash_trial::unusable, own_venue::unread_address};

const PAIRS: usize = 10;
/// Where the code is that follows orders, as the debug information names it.
const SOURCE: &str = "stage_times.rs";
/// Callgrind counts from where a turn of a watched agent begins to where it ends: starting and stopping are left out.
const TURNS: &str = "--toggle-collect=*Observed*do_work*";

impl VenueProfile {
    /// Both comparisons.
    pub(super) fn stages(
        &self,
        done: &mut dyn FnMut(&ProfileStep) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut tell = |name: &str, outcome: Result<Value, String>| {
            done(&ProfileStep { name: name.to_owned(), outcome })
        };
        tell("requests a second", Ok(self.pairs()?))?;
        let counted = self.instructions()?;
        tell("instructions", counted)
    }

    /// Requests a second with and without, in turns.
    fn pairs(&self) -> Result<Value, Failure> {
        let rate = |follows: bool| {
            let profile = Self { stage_times: follows, ..self.clone() };
            let (report, ()) = profile.beside(1, |_| std::thread::sleep(self.duration))?;
            Ok::<_, Failure>(report.answered_per_second())
        };
        let (mut pairs, mut changes) = (Vec::new(), Runs::default());
        for pair in 0..PAIRS {
            let first = rate(pair % 2 == 0)?;
            let second = rate(pair % 2 == 1)?;
            let (with, without) = if pair % 2 == 0 { (first, second) } else { (second, first) };
            changes.push(100.0 * (with as f64 / without.max(1) as f64 - 1.0));
            pairs.push(json!({ "with": with, "without": without }));
        }
        Ok(json!({
            "pairs": pairs,
            "change_percent": {
                "median": changes.median(),
                "least": changes.least(),
                "most": changes.all().iter().copied().fold(f64::NEG_INFINITY, f64::max),
            },
        }))
    }

    /// Instructions in the turns of agents, and those of them that follow orders.
    fn instructions(&self) -> Result<Result<Value, String>, Failure> {
        if let Err(reason) = tools::is_installed("valgrind") {
            return Ok(Err(reason));
        }
        let file = self.out.join("callgrind.out");
        let written = format!("--callgrind-out-file={}", file.display());
        let tool = ["valgrind", "-q", "--tool=callgrind", TURNS, "--compress-strings=no", &written];
        let site = self.site_under(&tool, 1, unread_address()?)?;
        let (report, ()) = self.load(&site, || std::thread::sleep(self.duration))?;
        Site::stop(site, &self.out)?;
        let text = fs::read_to_string(&file).map_err(|error| unusable(&file, &error))?;
        let by_file = instructions_by_file(&text);
        let all: u64 = by_file.values().sum();
        let is_following =
            |path: &&String| Path::new(path).file_name().is_some_and(|name| name == SOURCE);
        let following: u64 =
            by_file.iter().filter(|(path, _)| is_following(path)).map(|(_, count)| count).sum();
        if following == 0 {
            return Ok(Err("this program was built without line numbers".into()));
        }
        let requests = report.counts.requests().max(1) as f64;
        Ok(Ok(json!({
            "requests": report.counts.requests(),
            "instructions_per_request": all as f64 / requests,
            "following_per_request": following as f64 / requests,
            "following_percent": 100.0 * following as f64 / all as f64,
        })))
    }
}

/// Instructions of each source file in the output of callgrind: those of a line are of the file from which it comes, in
/// whichever function it was inlined.
fn instructions_by_file(text: &str) -> BTreeMap<String, u64> {
    let mut by_file: BTreeMap<String, u64> = BTreeMap::new();
    let mut file = String::new();
    // The line after a call has the callee's instructions, which the callee's own lines have too.
    let mut is_of_callee = false;
    for line in text.lines() {
        let named = ["fl=", "fi=", "fe="].iter().find_map(|key| line.strip_prefix(key));
        if let Some(name) = named {
            name.clone_into(&mut file);
        } else if line.starts_with("calls=") {
            is_of_callee = true;
        } else if line.starts_with(|it: char| it.is_ascii_digit() || "+-*".contains(it)) {
            let count = line.split_whitespace().nth(1).and_then(|count| count.parse::<u64>().ok());
            if let Some(count) = count.filter(|_| !is_of_callee) {
                *by_file.entry(file.clone()).or_default() += count;
            }
            is_of_callee = false;
        }
    }
    by_file
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line belongs to its own file, and a callee's instructions to the callee alone.
    #[test]
    fn instructions_belong_to_the_file_of_their_line() {
        let text = "\
version: 1
positions: line
events: Ir
fl=/src/agent.rs
fn=turn
10 5
fi=/src/stage_times.rs
20 2
fe=/src/agent.rs
+1 3
calls=1 30
11 100
fl=/src/engine.rs
fn=apply
30 100
totals: 110
";
        let expected = [("/src/agent.rs", 8), ("/src/engine.rs", 100), ("/src/stage_times.rs", 2)];
        let expected = expected.map(|(path, count)| (path.to_owned(), count));
        assert_eq!(instructions_by_file(text), BTreeMap::from(expected));
    }
}
