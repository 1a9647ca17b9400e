//! The venue's notices: time, level, component, and the participant or address concerned, a line each, as
//! text or JSON on standard error.
//!
//! Invariant: a thread that gives a notice never waits for standard error. Lines go through a bounded queue to a
//! separate thread; lines that find it full are counted, and the count is a line too.

use std::{
    io::{self, Write},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use clap::ValueEnum;
use serde::Deserialize;
use tracing::{Subscriber, level_filters::LevelFilter};

use gateway::{OperatorEvent, OperatorEventSink};

use crate::notice_limiter::NoticeLimiter;

/// Lines that may wait for standard error.
const LINES_MAX: usize = 1024;
/// The longest wait for standard error at the end of the program, in steps.
const FLUSH_STEPS: u32 = 100;
const FLUSH_STEP: Duration = Duration::from_millis(10);

/// `[log]`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// The format of notices. Default `text`.
    pub format: LogFormat,
    /// The least important notices that are written. Default `info`.
    pub level: LogLevel,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// An event that stops the venue or a part of it.
    Error,
    /// An event that needs an operator's attention.
    Warn,
    /// Logins, ends of sessions, reloads.
    #[default]
    Info,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
        }
    }
}

/// The queue of this program, once notices are written.
static QUEUE: OnceLock<Arc<LineQueue>> = OnceLock::new();

/// Writes the notices of this program to standard error from now on; only the first call has an effect.
pub fn write_to_stderr(config: LogConfig) {
    let queue = QUEUE.get_or_init(|| LineQueue::start(LINES_MAX, io::stderr()));
    // This fails only if notices are already being written.
    let _ = tracing::subscriber::set_global_default(subscriber(config, queue));
}

/// Waits until the notices so far are written, a second at most.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush();
    }
}

/// Notices that were dropped because standard error was too slow.
pub(crate) fn dropped() -> u64 {
    QUEUE.get().map_or(0, |queue| queue.dropped.load(Ordering::Relaxed))
}

fn subscriber(
    config: LogConfig,
    queue: &Arc<LineQueue>,
) -> Box<dyn Subscriber + Send + Sync + 'static> {
    let builder = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(config.level))
        .with_target(false)
        .with_ansi(false)
        .with_writer(Arc::clone(queue));
    match config.format {
        LogFormat::Text => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    }
}

/// Lines on their way to a slow output.
struct LineQueue {
    entries: SyncSender<Entry>,
    /// Relaxed: a figure.
    dropped: AtomicU64,
}

enum Entry {
    Line(Vec<u8>),
    /// Answered once all lines before it are written.
    Flush(SyncSender<()>),
}

impl LineQueue {
    fn start(lines_max: usize, out: impl Write + Send + 'static) -> Arc<Self> {
        let (entries, receiver) = sync_channel(lines_max);
        let queue = Arc::new(Self { entries, dropped: AtomicU64::new(0) });
        let of_thread = Arc::clone(&queue);
        thread::Builder::new()
            .name("damrak-log".to_owned())
            .spawn(move || of_thread.write_lines(&receiver, out))
            .expect("the system has room for a thread at the start");
        queue
    }

    fn write_lines(&self, entries: &Receiver<Entry>, mut out: impl Write) {
        let mut reported = 0;
        for entry in entries {
            // Standard error may be closed: the venue goes on without it.
            match entry {
                Entry::Line(line) => drop(out.write_all(&line)),
                Entry::Flush(done) => drop((out.flush(), done.send(()))),
            }
            let dropped = self.dropped.load(Ordering::Relaxed);
            if reported < dropped {
                let count = dropped - reported;
                reported = dropped;
                tracing::warn!(component = "log", count, "notices dropped: the log was too slow");
            }
        }
    }

    fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        for _ in 0..FLUSH_STEPS {
            match self.entries.try_send(Entry::Flush(done.clone())) {
                Ok(()) => {
                    let _ = is_done.recv_timeout(FLUSH_STEP * FLUSH_STEPS);
                    return;
                }
                Err(TrySendError::Full(_)) => thread::sleep(FLUSH_STEP),
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
    }
}

/// One call is one line.
impl Write for &LineQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.entries.try_send(Entry::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The operator events of one gateway as notices. Each kind is limited by interval and then summed up, so that a flood
/// can neither fill a disk nor silence later notices.
pub(crate) struct EventNotices {
    component: &'static str,
    limiter: NoticeLimiter,
}

impl EventNotices {
    pub(crate) fn sink(component: &'static str) -> Box<dyn OperatorEventSink> {
        Box::new(Self { component, limiter: NoticeLimiter::default() })
    }
}

impl OperatorEventSink for EventNotices {
    fn take(&mut self, event: OperatorEvent, now_ns: u64) {
        self.tick(now_ns);
        if !self.limiter.takes(event.kind(), now_ns) {
            return;
        }
        let component = self.component;
        let participant = event.username().map(tracing::field::display);
        let address = event.address().map(tracing::field::display);
        if event.is_warning() {
            tracing::warn!(component, participant, address, "{event}");
        } else {
            tracing::info!(component, participant, address, "{event}");
        }
    }

    fn tick(&mut self, now_ns: u64) {
        let component = self.component;
        for (kind, count) in self.limiter.end_intervals(now_ns) {
            let seconds = NoticeLimiter::INTERVAL_S;
            tracing::warn!(component, count, "{count} more {kind} in the last {seconds} s");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use gateway::CloseReason;
    use market::Text;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `work` writes, with this configuration.
    fn lines(config: LogConfig, work: impl FnOnce()) -> Vec<String> {
        let memory = Memory::default();
        let queue = LineQueue::start(LINES_MAX, memory.clone());
        tracing::subscriber::with_default(subscriber(config, &queue), work);
        queue.flush();
        let written = memory.0.lock().unwrap();
        String::from_utf8(written.clone()).unwrap().lines().map(str::to_owned).collect()
    }

    fn login() -> OperatorEvent {
        OperatorEvent::LoggedIn {
            username: Text::new("USER01").unwrap(),
            address: "10.0.0.1:5".parse().unwrap(),
            next_reply: 1,
        }
    }

    fn rejected() -> OperatorEvent {
        OperatorEvent::NeverLoggedIn {
            address: "10.0.0.9:1".parse().unwrap(),
            reason: CloseReason::PushedOut,
        }
    }

    /// A notice has its time, level and component, and the participant and address concerned.
    #[test]
    fn a_notice_names_time_level_component_and_who() {
        let json = LogConfig { format: LogFormat::Json, ..LogConfig::default() };
        let work = || EventNotices::sink("order entry").take(login(), 0);
        let line: serde_json::Value = serde_json::from_str(&lines(json, work)[0]).unwrap();
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        let fields = ["level", "component", "participant", "address", "message"];
        assert_eq!(
            fields.map(|field| line[field].as_str().unwrap()),
            [
                "INFO",
                "order entry",
                "USER01",
                "10.0.0.1:5",
                "USER01 logged in from 10.0.0.1:5, next reply 1"
            ]
        );
        let text = &lines(LogConfig::default(), work)[0];
        assert!(text.contains("Z  INFO USER01 logged in") && text.contains("component="), "{text}");
    }

    /// Less important notices than the level are not written.
    #[test]
    fn the_level_leaves_out_what_is_less_important() {
        let config = LogConfig { level: LogLevel::Warn, ..LogConfig::default() };
        let lines = lines(config, || {
            let mut sink = EventNotices::sink("order entry");
            sink.take(login(), 0);
            sink.take(rejected(), 0);
        });
        assert!(lines.len() == 1 && lines[0].contains("WARN"), "{lines:?}");
    }

    /// The summary of a flood appears when its interval ends, without another notice.
    #[test]
    fn a_flood_is_summed_up_when_its_interval_ends() {
        const SECOND: u64 = 1_000_000_000;
        let lines = lines(LogConfig::default(), || {
            let mut sink = EventNotices::sink("order entry");
            for _ in 0..500 {
                sink.take(rejected(), SECOND);
            }
            sink.tick(10 * SECOND);
            sink.tick(11 * SECOND);
            sink.tick(12 * SECOND);
        });
        assert_eq!(lines.len(), 21);
        assert!(
            lines[20].contains("480 more connections that ended without a login in the last 10 s"),
            "{lines:?}"
        );
    }

    /// With a slow log, a thread that gives notices does not wait: lines without room are counted, and the count is
    /// reported.
    #[test]
    fn a_slow_log_delays_nobody_and_says_what_is_missing() {
        /// Takes a line for each signal.
        struct Slow(mpsc::Receiver<()>, Memory);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv();
                self.1.write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (go_on, signals) = mpsc::channel();
        let memory = Memory::default();
        let queue = LineQueue::start(4, Slow(signals, memory.clone()));
        for number in 0..100 {
            (&*queue).write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        // Four lines wait, and the thread may hold one.
        let dropped = queue.dropped.load(Ordering::Relaxed);
        assert!((95..=96).contains(&dropped), "{dropped}");
        drop(go_on);
        queue.flush();
        let kept = u64::try_from(memory.0.lock().unwrap().split(|it| *it == b'\n').count() - 1);
        assert_eq!(kept.unwrap() + dropped, 100);
    }
}
