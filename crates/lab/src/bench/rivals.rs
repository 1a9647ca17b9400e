//! Engines of others in programs of their own, which take turns with ours.
//!
//! A rival may be written in any language and needs nothing of ours. It is started with the path of
//! a flow in its form on disk ([`crate::comparison::file`]), reads it, warms up, and says which engines it
//! has; then it waits for a line, does what it says and answers with a line, until there are no more.
//!
//! | on its standard input | on its standard output, one JSON object on one line |
//! |---|---|
//! | nothing yet | `{"engines": ["name", ...]}` |
//! | `run I` | the flow through engine I: `{"ns_per_op": 51.5, "trades": 532132, "quantity": 20368852, "hash": "b9a3625869d9d0ff"}`, with `instructions_per_op` where it knows them |
//! | `latency I` | once more, each operation by itself: `{"p50": 60, "p99": 371, "p999": 731, "max": 90210}` in nanoseconds |
//!
//! The prefill is not measured, and neither is putting the flow into the engine's words or taking the
//! hash. While others have their turn the program only waits, so it disturbs nobody.
//!
//! Start at `Rivals::start`; [`serve`] is the other end for rivals in Rust, as bench/rivals is.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::comparison::{Flow, FlowName, Tally};
use serde_json::{Value, json};

use super::{Entrant, Latency, Least, Run};
use venue::clock::SystemClock;

/// Why a rival could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum RivalError {
    /// The flow could not be written for it.
    #[error("cannot write the flow to {}: {source}", path.display())]
    Flow {
        /// Where to.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It could not be started.
    #[error("cannot run {}: {source}", program.display())]
    Start {
        /// Which program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It ended before its turns were over; what it had to say is on standard error.
    #[error("{} ended before it answered {question:?}", program.display())]
    Ended {
        /// Which program.
        program: PathBuf,
        /// What it was asked.
        question: String,
    },
    /// It answered with something else.
    #[error("{} answered {question:?} with {answer:?}", program.display())]
    Answer {
        /// Which program.
        program: PathBuf,
        /// What it was asked.
        question: String,
        /// What it answered.
        answer: String,
    },
}

/// Programs that have read a flow and wait for their turns.
#[derive(Debug)]
pub(super) struct Rivals {
    programs: Vec<Program>,
    /// Removed with the last of them.
    _flow: FlowFile,
}

impl Rivals {
    /// Gives the flow to each program, one after the other, and waits until it is warm.
    pub(super) fn start(
        name: FlowName,
        flow: &Flow,
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
        let programs =
            paths.iter().map(|path| Program::start(path, &file.0)).collect::<Result<_, _>>()?;
        Ok(Self { programs, _flow: file })
    }

    /// The engines of all programs.
    pub(super) fn engines(&self) -> impl Iterator<Item = String> {
        self.programs.iter().flat_map(|program| program.engines.iter().cloned())
    }

    /// One turn of each engine, in the order of [`engines`](Self::engines).
    pub(super) fn run(&mut self) -> Result<Vec<Turn>, RivalError> {
        self.each(Turn::from_json, "run")
    }

    /// A turn of each engine in which every operation is timed by itself.
    pub(super) fn latencies(&mut self) -> Result<Vec<Latency>, RivalError> {
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

/// One turn of a rival's engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub ns_per_op: f64,
    pub instructions_per_op: Option<f64>,
    /// Without the notional, which is not asked for.
    pub tally: Tally,
}

impl Turn {
    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            ns_per_op: value["ns_per_op"].as_f64().filter(|ns| ns.is_finite() && *ns > 0.0)?,
            instructions_per_op: value["instructions_per_op"].as_f64(),
            tally: Tally {
                trades: value["trades"].as_u64()?,
                quantity: value["quantity"].as_u64()?,
                notional: 0,
                hash: u64::from_str_radix(value["hash"].as_str()?, 16).ok()?,
            },
        })
    }

    /// Whether its trades are those that must come of the flow. The hash is compared here, so a rival
    /// is not taken at its word.
    pub(super) fn agrees(&self, expected: &Tally) -> bool {
        let told = |tally: &Tally| (tally.trades, tally.quantity, tally.hash);
        told(&self.tally) == told(expected)
    }
}

fn latency_from_json(value: &Value) -> Option<Latency> {
    let number = |key: &str| u32::try_from(value[key].as_u64()?).ok();
    let (p50_ns, p999_ns) = (number("p50")?, number("p999")?);
    let least = Least { p50_ns, p999_ns };
    Some(Latency { p50_ns, p99_ns: number("p99")?, p999_ns, max_ns: number("max")?, least })
}

/// A flow on disk for as long as there are programs to read it.
#[derive(Debug)]
struct FlowFile(PathBuf);

impl Drop for FlowFile {
    fn drop(&mut self) {
        // Where no rival was asked for there is none; a file in the folder for such files harms nobody.
        let _ = fs::remove_file(&self.0);
    }
}

/// A program of others that is running.
#[derive(Debug)]
struct Program {
    path: PathBuf,
    engines: Vec<String>,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(path: &Path, flow: &Path) -> Result<Self, RivalError> {
        let mut command = Command::new(path);
        command.arg(flow).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|source| RivalError::Start { program: path.to_owned(), source })?;
        let input = child.stdin.take().expect("its input was asked for");
        let output = BufReader::new(child.stdout.take().expect("its output was asked for"));
        let mut program = Self { path: path.to_owned(), engines: Vec::new(), child, input, output };
        program.engines = program.answer("which engines", |value| {
            let names = value["engines"].as_array()?;
            names.iter().map(|name| Some(name.as_str()?.to_owned())).collect::<Option<_>>()
        })?;
        Ok(program)
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
        // It waits for its next turn and has nothing to put in order. If it has ended, that is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other end, for a program of rivals in Rust: reads the flow at `path`, and answers on standard
/// output what standard input asks of `entrants`.
///
/// # Errors
/// The flow cannot be read, a line cannot be understood, or standard output cannot be written.
pub fn serve(path: &Path, entrants: &[Entrant]) -> Result<(), String> {
    let file = fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let flow = Flow::read(&mut BufReader::new(file))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let operations = flow.split().1.len().max(1) as f64;
    let names: Vec<_> = entrants.iter().map(Entrant::name).collect();
    // How many trades there will be, so that the memory they take is there before the clock starts.
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
                say(&json!({
                    "ns_per_op": cpu_ns as f64 / operations,
                    "instructions_per_op": instructions.map(|it| it as f64 / operations),
                    "trades": tally.trades,
                    "quantity": tally.quantity,
                    "hash": format!("{:016x}", tally.hash),
                }))?;
            }
            Some(("latency", entrant)) => {
                say(&(entrant.latency)(&flow, &expected, &clock, 1).to_json())?;
            }
            _ => return Err(format!("cannot do {line:?}; it is run I or latency I")),
        }
    }
    Ok(())
}

fn say(answer: &Value) -> Result<(), String> {
    let mut out = io::stdout().lock();
    writeln!(out, "{answer}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("standard output: {error}"))
}
