//! Where the time of a venue goes: a load on a venue in a process of its own, observed from outside, step by step.
//!
//! Start at [`VenueProfile::run`]. The first step has no tool beside the venue; each tool then has a venue of its own. A step
//! that this machine cannot do says why.
//!
//! Invariant: no tool runs while the timing step does.

mod flame_graph;
mod stages;
mod tools;
mod usage;

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use client::participant::DatagramBatching;
use market::{Price, Symbol};
use os::SystemFiles;
use serde_json::{Value, json};
use venue::{
    clock::SystemClock,
    failure::{Failure, causes},
};
use wire::moldudp64::{PacketKind, parse};

use crate::{
    crash_trial::{VenueProcess, unusable},
    load::{self, LoadOptions, LoadProgress, LoadReport, LoadSession, LoadSymbol, Loop},
    own_venue::{OwnVenueOptions, ReservedAddresses, config_text, login, unread_address},
};

pub use usage::{ThreadUsage, Usage};

/// Requests of a session without an answer: enough that the venue is never without work.
const OUTSTANDING: usize = 1_024;
/// A load runs for this long, and until it has an answer, before anything is measured.
const WARM_UP: Duration = Duration::from_millis(300);
/// The connections that are tried one after the other.
const CONNECTIONS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// The receive buffers that are tried, in bytes as asked of the system.
const RECEIVE_BUFFERS: [usize; 5] = [16 << 10, 64 << 10, 208 << 10, 1 << 20, 4 << 20];
/// A subscriber of the feed stops when nothing came for this long.
const SILENCE: Duration = Duration::from_millis(300);

/// The subject of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Order entry over TCP.
    Gateway,
    /// Order entry over UDP, 31 requests a datagram.
    Udp,
    /// Order entry over TCP with more and more connections.
    Connections,
    /// The feed, read with receive buffers of several sizes.
    Feed,
    /// Order entry over UDP with a thread for each agent.
    Pipeline,
    /// The cost of following orders through the venue's stages, with order entry over TCP.
    Stages,
}

impl Subject {
    fn is_udp(self) -> bool {
        matches!(self, Self::Udp | Self::Feed | Self::Pipeline)
    }

    fn layout(self) -> &'static str {
        if self == Self::Pipeline { "pipeline" } else { "single" }
    }
}

/// A step: its figures, or why there are none.
#[derive(Clone, Debug)]
pub struct ProfileStep {
    pub name: String,
    pub outcome: Result<Value, String>,
}

#[derive(Clone)]
pub struct VenueProfile {
    pub subject: Subject,
    /// How long each step looks.
    pub duration: Duration,
    /// Folder for the files of tools.
    pub out: PathBuf,
    /// The venue follows orders through its stages.
    pub stage_times: bool,
}

/// A venue under load, and the data needed to reach it.
struct Site {
    venue: VenueProcess,
    process: u32,
    connections: usize,
    locals: Vec<SocketAddr>,
}

impl VenueProfile {
    /// Runs every step, and gives each to `done` when it is over.
    ///
    /// # Errors
    /// A venue does not start, a load fails, or a file cannot be written. A tool that fails is a step that was skipped.
    pub fn run(
        &self,
        done: &mut dyn FnMut(&ProfileStep) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.run_without_tools(done)?;
        if self.subject == Subject::Stages {
            return self.stages(done);
        }
        let mut tell = |name: &str, outcome: Result<Value, String>| {
            done(&ProfileStep { name: name.to_owned(), outcome })
        };
        let (_, calls) = self.beside(1, |process| tools::system_calls(process, self))?;
        tell("system calls", calls)?;
        let (_, counters) = self.beside(1, |process| tools::counters(process, self))?;
        tell("counters", counters)?;
        let (_, samples) = self.beside(1, |process| tools::samples(process, self))?;
        tell("samples", samples)
    }

    /// The steps with nothing beside the venue.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_without_tools(
        &self,
        done: &mut dyn FnMut(&ProfileStep) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        fs::create_dir_all(&self.out).map_err(|error| unusable(&self.out, &error))?;
        let mut tell =
            |name: String, outcome: Result<Value, String>| done(&ProfileStep { name, outcome });
        match self.subject {
            Subject::Connections => {
                for count in CONNECTIONS {
                    tell(format!("{count} connections"), Ok(self.timing(count)?))?;
                }
            }
            Subject::Feed => {
                for bytes in RECEIVE_BUFFERS {
                    let name = format!("receive buffer {} KiB", bytes >> 10);
                    tell(name, Ok(self.receive_buffer(bytes)?))?;
                }
            }
            Subject::Gateway | Subject::Udp | Subject::Pipeline => {
                tell("timing".into(), Ok(self.timing(1)?))?;
            }
            // Each of its steps has tools, or is a comparison.
            Subject::Stages => {}
        }
        Ok(())
    }

    /// Throughput, latency, and the resources that the venue used, with nothing beside it.
    fn timing(&self, connections: usize) -> Result<Value, Failure> {
        let files = SystemFiles::of_this_machine();
        let (report, usage) = self.beside(connections, |process| {
            let before = Usage::of(&files, process);
            thread::sleep(self.duration);
            Usage::of(&files, process).zip(before).map(|(after, before)| after.since(&before))
        })?;
        let seconds = self.duration.as_secs_f64();
        let latency = report.sent.percentiles();
        let requests = report.answered_per_second() as f64 * seconds;
        let per_request = |ns: u64| (ns as f64 / requests.max(1.0)).round();
        Ok(json!({
            "answered_per_second": report.answered_per_second(),
            "p50_ns": latency.p50_ns,
            "p99_ns": latency.p99_ns,
            "user_ns_per_request": usage.as_ref().map(|it| per_request(it.user_ns)),
            "system_ns_per_request": usage.as_ref().map(|it| per_request(it.system_ns)),
            "generator_limit": report.verdict(),
            "usage": usage,
        }))
    }

    /// Messages that were published and those that a subscriber with this receive buffer got.
    fn receive_buffer(&self, bytes: usize) -> Result<Value, Failure> {
        let cannot = |error| Failure::environment(format!("cannot receive the feed: {error}"));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(cannot)?;
        let granted = socket2::SockRef::from(&socket);
        granted.set_recv_buffer_size(bytes).map_err(cannot)?;
        let granted = granted.recv_buffer_size().map_err(cannot)?;
        socket.set_read_timeout(Some(SILENCE)).map_err(cannot)?;
        let group = socket.local_addr().map_err(cannot)?;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let subscriber = scope.spawn(|| receive(&socket, &is_over));
            let site = self.site(1, group);
            let loaded = site.and_then(|site| {
                // The status is printed ten times a second.
                let messages = || {
                    thread::sleep(SILENCE);
                    site.venue.status().and_then(|it| it["market_data"]["messages"].as_u64())
                };
                // Messages about instruments are in the log and not sent: they are asked for again.
                let before = messages().unwrap_or(0);
                let (report, ()) = self.load(&site, || thread::sleep(self.duration))?;
                let published = messages();
                site.stop(&self.out)?;
                Ok((report, before, published))
            });
            is_over.store(true, Ordering::Relaxed);
            let (received, last) = subscriber.join().expect("the subscriber does not panic");
            let (report, before, published) = loaded?;
            let published = published.unwrap_or(last).max(last).saturating_sub(before);
            Ok(json!({
                "bytes_asked": bytes,
                "bytes_granted": granted,
                "published": published,
                "received": received,
                "lost": published.saturating_sub(received),
                "answered_per_second": report.answered_per_second(),
            }))
        })
    }

    /// A venue under load, with `look` beside it; gives the load's report.
    fn beside<T>(
        &self,
        connections: usize,
        look: impl FnOnce(u32) -> T,
    ) -> Result<(LoadReport, T), Failure> {
        let site = self.site(connections, unread_address()?)?;
        let process = site.process;
        let looked = self.load(&site, || look(process))?;
        site.stop(&self.out)?;
        Ok(looked)
    }

    /// Starts a venue with its files in `out`.
    fn site(&self, connections: usize, group: SocketAddr) -> Result<Site, Failure> {
        self.site_under(&[], connections, group)
    }

    /// The same, under a tool that starts it: its command, and arguments before those of the venue.
    fn site_under(
        &self,
        tool: &[&str],
        connections: usize,
        group: SocketAddr,
    ) -> Result<Site, Failure> {
        let journal = self.out.join("journal");
        let _ = fs::remove_dir_all(&journal);
        let is_udp = self.subject.is_udp();
        let (udp, tcp) = if is_udp { (connections, 0) } else { (0, connections) };
        let reserved = ReservedAddresses::udp(udp)?;
        let options = OwnVenueOptions {
            users: tcp,
            locals: reserved.addresses.clone(),
            market_data: format!("group = \"{group}\"\n"),
            layout: format!(
                "threads = {:?}\nstage_times = {}\n",
                self.subject.layout(),
                self.stage_times
            ),
            ..OwnVenueOptions::default()
        };
        let text = config_text(&journal, &options)?;
        let path = self.out.join("venue.toml");
        fs::write(&path, text).map_err(|error| unusable(&path, &error))?;
        let venue = VenueProcess::start_under(tool, &path, &self.out.join("venue.log"))?;
        let process = venue.started["pid"].as_u64().and_then(|it| u32::try_from(it).ok());
        let process = process
            .ok_or_else(|| Failure::runtime("the venue printed no number of its process"))?;
        Ok(Site { venue, process, connections, locals: options.locals })
    }

    /// Loads the venue as fast as it answers, and runs `look` once it is warm.
    fn load<T>(&self, site: &Site, look: impl FnOnce() -> T) -> Result<(LoadReport, T), Failure> {
        let udp = site.venue.address("order_entry_udp")?;
        let tcp = site.venue.address("order_entry")?;
        let sessions = if self.subject.is_udp() {
            site.locals
                .iter()
                .map(|local| LoadSession::Udp { server: udp, local: *local })
                .collect()
        } else {
            (1..=site.connections)
                .map(|number| LoadSession::Tcp { server: tcp, login: login(number) })
                .collect()
        };
        let symbol = |name| LoadSymbol {
            symbol: Symbol::new(name).expect("it fits"),
            mid: Price(1_500_000),
            price_increment: Price(100),
        };
        let symbols = ["AAPL", "MSFT", "NVDA"].map(symbol).to_vec();
        // It ends when it is stopped.
        let mut options = LoadOptions::new(sessions, symbols, 1, u64::MAX / 4);
        options.pacing = Loop::Closed { outstanding: OUTSTANDING };
        options.requests_per_datagram = 31;
        options.batching = DatagramBatching::Batch;
        options.progress_ns = WARM_UP.as_nanos() as u64;
        let (stop, clock) = (AtomicBool::new(false), SystemClock::start());
        let is_warm = AtomicBool::new(false);
        let mut note_progress = |progress: &LoadProgress<'_>| {
            is_warm.store(progress.counts.replies > 0, Ordering::Relaxed);
        };
        thread::scope(|scope| {
            let loading = scope.spawn(|| load::run(&options, &clock, &stop, &mut note_progress));
            while !is_warm.load(Ordering::Relaxed) && !loading.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
            let looked = look();
            stop.store(true, Ordering::Relaxed);
            let report = loading.join().expect("the load does not panic");
            let report = report.map_err(|error| Failure::runtime(causes(&error)))?;
            match &report.failures[..] {
                [] => Ok((report, looked)),
                [failure, ..] => Err(Failure::runtime(format!("the load failed: {failure}"))),
            }
        })
    }
}

impl Site {
    fn stop(self, out: &Path) -> Result<(), Failure> {
        self.venue.stop()?;
        let journal = out.join("journal");
        fs::remove_dir_all(&journal).map_err(|error| unusable(&journal, &error))
    }
}

/// Counts the messages of the feed until it is over and nothing comes; gives them, and the number of the last.
fn receive(socket: &UdpSocket, is_over: &AtomicBool) -> (u64, u64) {
    let mut packet = vec![0; 65_536];
    let (mut received, mut last) = (0, 0);
    loop {
        match socket.recv(&mut packet) {
            Ok(len) => {
                let Ok(packet) = parse(&packet[..len]) else { continue };
                if let PacketKind::Data(blocks) = packet.kind {
                    received += u64::from(blocks.count());
                    last = packet.sequence_number + u64::from(blocks.count()) - 1;
                }
            }
            Err(_) if is_over.load(Ordering::Relaxed) => return (received, last),
            Err(_) => {}
        }
    }
}
