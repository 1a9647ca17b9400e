//! A venue in a process of its own: `damrak serve`, started by this program, which is `damrak`.
//!
//! Invariant: the process never outlives the value.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::Value;

use venue::failure::Failure;

/// How long a venue may take from its start to its first line; a long journal takes a while.
const START_TIMEOUT: Duration = Duration::from_secs(600);

/// A running `damrak serve`, and its output so far.
#[derive(Debug)]
pub struct VenueProcess {
    child: Mutex<Child>,
    printed: Arc<Printed>,
    reader: Mutex<Option<JoinHandle<()>>>,
    /// Its first line: addresses, and the result of its recovery.
    pub started: Value,
}

#[derive(Debug, Default)]
struct Printed {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    started: Option<Value>,
    status: Option<Value>,
    digests: PrintedDigests,
    ended: bool,
}

/// Event digests in hexadecimal, each with its sequence.
pub type PrintedDigests = Vec<(u64, String)>;

impl VenueProcess {
    /// Starts `damrak serve` and waits until it is ready. Its stderr is appended to `log`.
    pub fn start(config: &Path, log: &Path) -> Result<Self, Failure> {
        Self::start_under(&[], config, log)
    }

    /// The same, started by a tool: its command, and arguments before those of the venue.
    pub fn start_under(tool: &[&str], config: &Path, log: &Path) -> Result<Self, Failure> {
        let failed = |what: String| Failure::runtime(format!("cannot start the venue: {what}"));
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let log_file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(|error| failed(format!("{}: {error}", log.display())))?;
        let mut command = match tool {
            [] => Command::new(program),
            [name, arguments @ ..] => {
                let mut command = Command::new(name);
                command.args(arguments).arg(program);
                command
            }
        };
        let mut child = command
            .args(["serve", "--json", "--status", "100ms", "--until-stdin-ends", "--config"])
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let printed = Arc::new(Printed::default());
        let reader = {
            let printed = Arc::clone(&printed);
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    printed.take(&line);
                }
                printed.end();
            })
        };
        let mut process = Self {
            child: Mutex::new(child),
            printed,
            reader: Mutex::new(Some(reader)),
            started: Value::Null,
        };
        match process.printed.wait_for_start() {
            Some(started) => {
                process.started = started;
                Ok(process)
            }
            None => Err(failed(format!("it ended or was silent; see {}", log.display()))),
        }
    }

    /// The newest status line it has printed, if any.
    pub fn status(&self) -> Option<Value> {
        self.printed.lines.lock().expect("the reader does not panic").status.clone()
    }

    /// The address that it printed under this name, for example `order_entry`.
    pub fn address(&self, name: &str) -> Result<SocketAddr, Failure> {
        self.started["addresses"][name]
            .as_str()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Failure::runtime(format!("the venue printed no address {name}")))
    }

    /// Kills it with SIGKILL, and gives every event digest that it has printed.
    pub fn kill(&self) -> Result<PrintedDigests, Failure> {
        if let Ok(Some(status)) = self.child().try_wait() {
            return Err(Failure::runtime(format!("the venue ended by itself: {status}")));
        }
        self.kill_if_it_runs()
    }

    /// As [`kill`](Self::kill), but the process may already have ended: its disk was taken away.
    pub fn kill_if_it_runs(&self) -> Result<PrintedDigests, Failure> {
        self.end_by(|child| match child.try_wait()? {
            Some(_) => Ok(()),
            None => child.kill(),
        })?;
        let mut lines = self.printed.lines.lock().expect("the reader does not panic");
        Ok(std::mem::take(&mut lines.digests))
    }

    /// Stops it as a user would, and waits for it.
    pub fn stop(self) -> Result<(), Failure> {
        let status = self.end_by(|child| {
            drop(child.stdin.take());
            Ok(())
        })?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::runtime(format!("the venue stopped with an error: {status}")))
        }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().expect("nobody panics with it")
    }

    fn end_by(
        &self,
        end: impl Fn(&mut Child) -> std::io::Result<()>,
    ) -> Result<std::process::ExitStatus, Failure> {
        let mut child = self.child();
        let status = end(&mut child)
            .and_then(|()| child.wait())
            .map_err(|error| Failure::runtime(format!("cannot end the venue: {error}")))?;
        let reader = self.reader.lock().expect("nobody panics with it").take();
        if let Some(reader) = reader {
            reader.join().expect("the reader does not panic");
        }
        Ok(status)
    }
}

impl Drop for VenueProcess {
    fn drop(&mut self) {
        // It may have ended long ago; there is nothing to do about a failure here.
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Printed {
    fn take(&self, line: &str) {
        let Ok(value) = serde_json::from_str::<Value>(line) else { return };
        let mut lines = self.lines.lock().expect("nobody panics with it");
        if value["event"] == "started" {
            lines.started = Some(value);
        } else {
            if let (Some(sequence), Some(digest)) =
                (value["sequence"].as_u64(), value["digest"].as_str())
            {
                lines.digests.push((sequence, digest.to_owned()));
            }
            lines.status = Some(value);
        }
        self.changed.notify_all();
    }

    fn end(&self) {
        self.lines.lock().expect("nobody panics with it").ended = true;
        self.changed.notify_all();
    }

    fn wait_for_start(&self) -> Option<Value> {
        let lines = self.lines.lock().expect("nobody panics with it");
        let (lines, _) = self
            .changed
            .wait_timeout_while(lines, START_TIMEOUT, |lines| {
                lines.started.is_none() && !lines.ended
            })
            .expect("nobody panics with it");
        lines.started.clone()
    }
}
