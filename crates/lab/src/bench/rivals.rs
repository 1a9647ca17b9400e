//! Third-party engines and queues in processes of their own, which take turns with ours.
//!
//! A rival may be written in any language and needs none of our code. It is started with the path of
//! a flow file ([`crate::comparison::file`]), reads it, warms up, and prints its engines; then it
//! answers each line on standard input with one line, until the input ends. Started with the word
//! `queues` in place of a path it has queues between threads, for the kinds of work of [`super::queues`].
//!
//! | on its standard input | on its standard output, one JSON object on one line |
//! |---|---|
//! | nothing yet | `{"engines": ["name", ...]}` |
//! | `run I` | the flow through engine I: `{"ns_per_op": 51.5, "trades": 532132, "quantity": 20368852, "hash": "b9a3625869d9d0ff"}`, with `instructions_per_op` if it is known |
//! | `latency I` | the same with each operation timed: `{"p50": 60, "p99": 371, "p999": 731, "max": 90210}` in nanoseconds |
//! | `queue I WORK VALUES SLOTS` | that work by queue I: `{"ns_per_value": 21.5, "digests": ["9ae0f00c5c2d1b07"]}`, or `null` if it cannot do it |
//!
//! The time of the prefill, of translating the flow and of the hash is not included. An idle program
//! blocks on its input, so it does not disturb the others.
//!
//! Start at `Rivals::start`; [`serve`] and [`serve_queues`] are the rival's side for programs in Rust, such as
//! bench/rivals.
//!
//! Invariant: a rival's trades are compared here, never by the rival.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::comparison::{ComparisonFlow, FlowName, Tally};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Entrant, OperationTimes, Run,
    queues::{QueueEntrant, QueueOptions, QueueRun, Work},
};
use venue::clock::SystemClock;

#[derive(Debug, thiserror::Error)]
pub enum RivalError {
    #[error("cannot write the flow to {}: {source}", path.display())]
    Flow { path: PathBuf, source: io::Error },
    #[error("cannot run {}: {source}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("{} ended before it answered {question:?}", program.display())]
    Ended { program: PathBuf, question: String },
    #[error("{} answered {question:?} with {answer:?}", program.display())]
    Answer { program: PathBuf, question: String, answer: String },
}

#[derive(Debug)]
pub(super) struct Rivals {
    programs: Vec<Program>,
    /// Removed with the last program.
    _flow: FlowFile,
}

impl Rivals {
    /// Starts each program with the flow, one after the other, and waits until it is warm.
    pub(super) fn start(
        name: FlowName,
        flow: &ComparisonFlow,
        paths: &[PathBuf],
    ) -> Result<Self, RivalError> {
        let file = FlowFile(env::temp_dir().join(format!(
            "damrak-flow-{}-{}.bin",
            name.name(),
            std::process::id()
        )));
        if paths.is_empty() {
            return Ok(Self { programs: Vec::new(), _flow: file });
        }
        let written = fs::File::create(&file.0).and_then(|out| {
            let mut out = BufWriter::new(out);
            flow.write(&mut out)?;
            out.flush()
        });
        written.map_err(|source| RivalError::Flow { path: file.0.clone(), source })?;
        let programs = paths
            .iter()
            .map(|path| Program::start(path, file.0.as_ref()))
            .collect::<Result<_, _>>()?;
        Ok(Self { programs, _flow: file })
    }

    pub(super) fn engines(&self) -> impl Iterator<Item = String> {
        self.programs.iter().flat_map(|program| program.engines.iter().cloned())
    }

    /// One turn of each engine, in the order of [`engines`](Self::engines).
    pub(super) fn run(&mut self) -> Result<Vec<Turn>, RivalError> {
        self.each(Turn::from_json, "run")
    }

    /// One turn of each engine in which every operation is timed.
    pub(super) fn latencies(&mut self) -> Result<Vec<OperationTimes>, RivalError> {
        self.each(latency_from_json, "latency")
    }

    fn each<T>(&mut self, read: fn(&Value) -> Option<T>, what: &str) -> Result<Vec<T>, RivalError> {
        let mut answers = Vec::new();
        for program in &mut self.programs {
            for index in 0..program.engines.len() {
                answers.push(program.ask(&format!("{what} {index}"), read)?);
            }
        }
        Ok(answers)
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Turn {
    pub ns_per_op: f64,
    pub instructions_per_op: Option<f64>,
    /// Without the notional, which rivals do not report.
    #[serde(flatten)]
    pub tally: Tally,
}

impl Turn {
    fn from_json(value: &Value) -> Option<Self> {
        let turn = Self::deserialize(value).ok()?;
        (turn.ns_per_op.is_finite() && turn.ns_per_op > 0.0).then_some(turn)
    }

    /// Whether its trades equal the expected ones. The comparison is made here, not by the rival.
    pub(super) fn agrees(&self, expected: &Tally) -> bool {
        let compared = |tally: &Tally| (tally.trades, tally.quantity, tally.hash);
        compared(&self.tally) == compared(expected)
    }
}

fn latency_from_json(value: &Value) -> Option<OperationTimes> {
    let times = OperationTimes::deserialize(value).ok()?;
    Some(OperationTimes { least_p50: times.p50, least_p999: times.p999, ..times })
}

/// A flow file that is removed when the last program has ended.
#[derive(Debug)]
struct FlowFile(PathBuf);

impl Drop for FlowFile {
    fn drop(&mut self) {
        // Without rivals there is no file to remove.
        let _ = fs::remove_file(&self.0);
    }
}

#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    engines: Vec<String>,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program with the path of a flow, or with `queues`, and waits until it is warm.
    pub(super) fn start(path: &Path, argument: &OsStr) -> Result<Self, RivalError> {
        let mut command = Command::new(path);
        command.arg(argument).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|source| RivalError::Start { program: path.to_owned(), source })?;
        let input = child.stdin.take().expect("stdin is piped");
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut program = Self { path: path.to_owned(), engines: Vec::new(), child, input, output };
        program.engines = program.answer("which engines", |value| {
            let names = value["engines"].as_array()?;
            names.iter().map(|name| Some(name.as_str()?.to_owned())).collect::<Option<_>>()
        })?;
        Ok(program)
    }

    pub(super) fn engines(&self) -> &[String] {
        &self.engines
    }

    /// One run of each of its queues; `None` for one that cannot do the work.
    pub(super) fn queue_runs(
        &mut self,
        work: &Work,
        options: &QueueOptions,
    ) -> Result<Vec<Option<QueueRun>>, RivalError> {
        let (name, values, slots) = (work.name, options.values, options.slots);
        let run = |value: &Value| Option::<QueueRun>::deserialize(value).ok();
        (0..self.engines.len())
            .map(|index| self.ask(&format!("queue {index} {name} {values} {slots}"), run))
            .collect()
    }

    fn ask<T>(
        &mut self,
        question: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, RivalError> {
        match writeln!(self.input, "{question}") {
            Ok(()) => self.answer(question, read),
            Err(_) => {
                Err(RivalError::Ended { program: self.path.clone(), question: question.to_owned() })
            }
        }
    }

    fn answer<T>(
        &mut self,
        question: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, RivalError> {
        let (program, question) = (self.path.clone(), question.to_owned());
        let mut line = String::new();
        if !matches!(self.output.read_line(&mut line), Ok(1..)) {
            return Err(RivalError::Ended { program, question });
        }
        let value = serde_json::from_str(&line).ok();
        value.as_ref().and_then(read).ok_or_else(|| RivalError::Answer {
            program,
            question,
            answer: line.trim().to_owned(),
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program is idle and has nothing to save. If it has ended already, that is fine too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rival's side of the protocol: reads the flow at `path`, and answers the requests on standard
/// input with the measurements of `entrants`.
///
/// # Errors
/// The flow cannot be read, a line cannot be understood, or standard output cannot be written.
pub fn serve(path: &Path, entrants: &[Entrant]) -> Result<(), String> {
    let file = fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let flow = ComparisonFlow::read(&mut BufReader::new(file))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let operations = flow.split().1.len().max(1) as f64;
    let names: Vec<_> = entrants.iter().map(Entrant::name).collect();
    // The number of trades, so that their memory is allocated before the clock starts.
    let first = entrants.first().ok_or("there are no engines")?;
    let expected = (first.run)(&flow, &Tally::default()).tally;
    say(&json!({ "engines": names }))?;
    let clock = SystemClock::start();
    for line in io::stdin().lines() {
        let line = line.map_err(|error| format!("standard input: {error}"))?;
        let entrant = line
            .split_once(' ')
            .and_then(|(what, index)| Some((what, entrants.get(index.parse::<usize>().ok()?)?)));
        match entrant {
            Some(("run", entrant)) => {
                let Run { cpu_ns, instructions, tally } = (entrant.run)(&flow, &expected);
                let ns_per_op = cpu_ns as f64 / operations;
                let instructions_per_op = instructions.map(|it| it as f64 / operations);
                say(&json!(Turn { ns_per_op, instructions_per_op, tally }))?;
            }
            Some(("latency", entrant)) => {
                say(&json!((entrant.latency)(&flow, &expected, &clock, 1)))?;
            }
            _ => return Err(format!("unknown request {line:?}; expected `run I` or `latency I`")),
        }
    }
    Ok(())
}

/// The rival's side of the protocol for queues: answers the requests on standard input with runs of `entrants`.
///
/// # Errors
/// A line cannot be understood, or standard output cannot be written.
pub fn serve_queues(entrants: &[QueueEntrant]) -> Result<(), String> {
    let names: Vec<_> = entrants.iter().map(QueueEntrant::name).collect();
    say(&json!({ "engines": names }))?;
    for line in io::stdin().lines() {
        let line = line.map_err(|error| format!("standard input: {error}"))?;
        let words: Vec<_> = line.split(' ').collect();
        let request = match words[..] {
            ["queue", index, work, values, slots] => index
                .parse()
                .ok()
                .and_then(|index: usize| entrants.get(index))
                .zip(Work::named(work))
                .zip(values.parse().ok().zip(slots.parse().ok())),
            _ => None,
        };
        let Some(((entrant, work), (values, slots))) = request else {
            return Err(format!("unknown request {line:?}; expected `queue I WORK VALUES SLOTS`"));
        };
        say(&json!(entrant.run(&work, values, slots)))?;
    }
    Ok(())
}

fn say(answer: &Value) -> Result<(), String> {
    let mut out = io::stdout().lock();
    writeln!(out, "{answer}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("standard output: {error}"))
}
