//! A venue on real sockets, files and threads: start, figures, reload and stop.
//!
//! Invariant: a stop waits for the replies to all taken commands, up to a limit, before it ends sessions.

use std::{sync::Arc, thread, time::Duration};

use gateway::{Newcomers, SocketParker, UdpLosses};
use journal::{Folder, Method};
use ring::{Group, IdleStrategy, Parker, RingReport};
use serde_json::{Value, json};

use crate::{
    admin::{Admin, Listeners, MarketFigures, MarketPages, Served},
    clock::SystemClock,
    config::{Config, DurabilityConfig, MethodName, ProtocolName},
    delta_streams::StreamGauges,
    failure::Failure,
    layout::{self, AgentGroup, Machine, PARK_MAX},
    ledger::store::Location,
    notices::{self, EventNotices},
    operator::{
        Desk, current_state,
        reload::{self, ReloadPlan},
    },
    pipeline::{self, Edges, Gauges, Recovered},
    resources,
    sockets::{Addresses, Sockets},
    stage::{Checkpoint, Perturbations, Progress, journal_status},
    stage_times,
};

/// The longest sleep of the follower if there is a ledger: no thread wakes it, so this bounds the delay of rows.
const LEDGER_PARK_MAX: Duration = Duration::from_millis(5);

/// The longest wait of a stop for the replies to commands already taken.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// The longest wait of a stop for clients to take the end of their session.
const ENDED_WITHIN: Duration = Duration::from_millis(500);

/// Consecutive checks that must find the rings empty; a parked thread runs between two checks.
const DRAIN_LOOKS: u32 = 15;

/// A running venue.
pub struct Running {
    threads: ring::RunningAgents,
    /// The follower, the feed history and the password checker; separate, since the groups never wake them.
    aside: ring::RunningAgents,
    admin: Admin,
    desk: Desk,
    gauges: Gauges,
    /// Figures of derived data, if configured.
    market_figures: Option<Arc<MarketFigures>>,
    started: Value,
    notices: Vec<String>,
    newcomers: Vec<(ProtocolName, Newcomers)>,
    losses: Vec<(&'static str, UdpLosses)>,
    clock: SystemClock,
    /// The lead of venue time over the wall clock at the start, in nanoseconds.
    clock_ahead_ns: u64,
}

/// Starts a venue: binds its sockets, replays its journal, launches its threads.
///
/// # Errors
/// An address is taken, the journal cannot be used, or the configuration contradicts it.
pub fn start(config: &Config, mut clock: SystemClock) -> Result<Running, Failure> {
    let warnings = resources::reserve(config)?;
    let mut sockets = Sockets::bind(config)?;
    sockets.notices.extend(warnings);
    sockets.notices.extend(config.plain_passwords_note());
    if let Some(core) = sockets.udp.backend.poller_core()
        && let Err(error) = os::memory::keep_off(&[core])
    {
        sockets.notices.push(format!(
            "cannot keep the thread that prepares memory off core {core}, which network.sqpoll_core names: {error}"
        ));
    }
    let mut listeners = Listeners::bind(config.admin.address).map_err(|error| {
        let address = config.admin.address.map_or(String::new(), |it| it.to_string());
        Failure::environment(format!("cannot listen at admin.address {address}: {error}"))
    })?;
    let addresses = sockets.addresses;
    let is_synced = config.journal.durability == DurabilityConfig::Synced;
    let groups =
        config.layout.threads.groups(&pipeline::agents(config), Machine::this(true, is_synced));
    let groups = groups.map_err(Failure::usage)?;
    let mut descriptors: Vec<_> =
        groups.iter().map(|group| sockets.take_descriptors(&group.agents)).collect();

    let method = config.journal.method()?;
    if method == Method::Buffered && is_synced && config.journal.method == MethodName::Auto {
        let folder = config.journal.directory.display();
        sockets.notices.push(format!(
            "journal.method is auto, and {folder} does not support direct writes: buffered is used"
        ));
    }
    let edges = Edges {
        feed_destination: addresses.market_data,
        operator_events: |component| Some(EventNotices::sink(component)),
        start_id: os::random_u64().map_err(|error| {
            Failure::environment(format!("cannot get a random number from the system: {error}"))
        })?,
        perturbations: Perturbations::default(),
    };
    let now_ns = clock.now_ns();
    let before = clock.since_start();
    let venue = pipeline::assemble(
        config,
        sockets.networks,
        &edges,
        Box::new(Folder::with_method(&config.journal.directory, method)),
        Box::new(Folder::new(&config.journal.directory)),
        now_ns,
        now_ns,
    )?;
    let recovery_seconds = (clock.since_start() - before).as_secs_f64();
    // This venue now owns the journal, and the socket in its folder.
    listeners.bind_socket(&config.journal.directory).map_err(|error| {
        let folder = config.journal.directory.display();
        Failure::environment(format!("cannot make the operator socket in {folder}: {error}"))
    })?;
    sockets.notices.append(&mut listeners.notices);

    let ahead_ns = clock.continue_from(venue.recovered.timestamp);
    if ahead_ns > 0 {
        sockets.notices.push(format!(
            "the machine's clock is {:.3} s behind the journal: venue time goes on from the journal's \
             last input, at the usual pace, and stays ahead until the clock is corrected and the \
             venue restarted; expiries and the schedule follow venue time",
            ahead_ns as f64 / 1e9
        ));
    }
    let clock_of_agents: Arc<dyn ring::Clock> = Arc::new(clock);
    let Gauges { stage_times, journaled, applied, .. } = &venue.gauges;
    stage_times.show_arrivals(std::mem::take(&mut sockets.arrivals));
    let agents = if config.layout.stage_times {
        let (agents, wiring) = (venue.agents, &venue.wiring);
        stage_times::observed(agents, wiring, stage_times, journaled, applied, &clock_of_agents)
    } else {
        venue.agents
    };
    let mut descriptors = descriptors.drain(..);
    let parker = |_: &AgentGroup| -> Result<Box<dyn Parker>, Failure> {
        let parker = SocketParker::new(descriptors.next().expect("one list for each group"));
        let cannot = |error| Failure::environment(format!("cannot make an eventfd: {error}"));
        Ok(Box::new(parker.map_err(cannot)?))
    };
    let (wait, clock_of_threads) = (config.layout.wait, Arc::clone(&clock_of_agents));
    let threads = layout::launch(agents, &venue.wiring, &groups, wait, clock_of_threads, parker)?;
    let park_max = if config.ledger.is_kept() { LEDGER_PARK_MAX } else { PARK_MAX };
    let follower = venue.follower.map(|agent| aside("damrak-follower", agent, park_max));
    let mut history = aside("damrak-history", venue.feed_history, PARK_MAX);
    if let Some(parker) = venue.history_parker {
        history.parker = parker;
    }
    let mut checker = venue.passwords;
    let parker = checker.take_parker();
    let mut passwords = aside("damrak-password", Box::new(checker), PARK_MAX);
    passwords.parker = parker;
    let all = follower.into_iter().chain([history, passwords]).collect();
    let aside = ring::launch(all, clock_of_agents);
    let durable = Arc::clone(&venue.desk.durable);
    let desk = Desk::new(venue.desk, clock, config.journal.directory.clone());
    let journal = Arc::clone(&venue.gauges.journal);
    let market = venue.derived.zip(config.derived_data.clone());
    let market = market.map(|(mirror, settings)| MarketPages::new(mirror, settings));
    let market_figures = market.as_ref().map(MarketPages::figures);
    let stage_times = Arc::clone(&venue.gauges.stage_times);
    let served = Served {
        ledger: venue.admin,
        durable,
        journal,
        stage_times: config.layout.stage_times.then_some(stage_times),
        desk: desk.clone(),
        market,
        faults: venue.faults,
    };
    let admin = Admin::start(listeners, served, &config.admin)
        .map_err(|error| Failure::environment(format!("cannot start the admin server: {error}")))?;
    let layout = layout::describe(&groups);
    let mut started =
        started(config, &addresses, &venue.recovered, method, &layout, recovery_seconds);
    started["network"] = json!({
        "udp": sockets.udp.backend.name(),
        "sqpoll_core": sockets.udp.backend.poller_core(),
        "xdp_queue": sockets.udp.backend.queue(),
        "tcp": sockets.tcp.as_str(),
        "receive_buffer": {
            "asked": sockets.udp.receive_buffer_asked,
            "granted": sockets.udp.receive_buffer_granted,
        },
    });
    started["streams"] = venue.gauges.streams.iter().map(stream_address).collect();
    started["addresses"]["admin"] =
        admin.address().map_or(Value::Null, |address| json!(address.to_string()));
    started["operator_socket"] = json!(admin.socket());
    Ok(Running {
        threads,
        aside,
        admin,
        gauges: venue.gauges,
        market_figures,
        desk,
        newcomers: venue.newcomers,
        started,
        notices: sockets.notices,
        losses: sockets.losses,
        clock,
        clock_ahead_ns: ahead_ns,
    })
}

impl Running {
    /// The report of the start, as `damrak serve --json` prints it.
    pub fn started(&self) -> &Value {
        &self.started
    }

    /// Notes for the user: a fallback in use, a buffer that was not granted.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// True once an agent has failed; the threads then end on their own.
    pub fn stopped(&self) -> bool {
        self.threads.stopped() || self.aside.stopped()
    }

    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Applies the settings of a new configuration that may change while the venue runs: limits, fees and the kill
    /// switch of accounts, the live orders of participants, and new participants with a login. Returns the changes, and
    /// the settings that need a restart, a line each. Reads the journal, and so takes a while.
    ///
    /// # Errors
    /// The configuration contradicts the journal, or too many commands wait. In that case no setting, or not every
    /// setting, has changed.
    pub fn reload(&self, old: &Config, new: &Config) -> Result<Vec<String>, Failure> {
        let engine = current_state(&old.journal.directory, self.gauges.durable().0)?;
        let ReloadPlan { commands, newcomers, lines } = reload::plan(old, new, &engine)?;
        for (protocol, user) in newcomers {
            let port = self.newcomers.iter().find(|(of_port, _)| *of_port == protocol);
            port.expect("the port of a newcomer is open").1.announce(user);
        }
        self.desk.know_sessions(&commands, &engine);
        match commands.into_iter().all(|command| self.desk.submit(command)) {
            true => Ok(lines),
            false => Err(Failure::runtime("too many commands wait; reload again")),
        }
    }

    pub fn status(&mut self) -> Value {
        self.document("status")
    }

    /// Reports of all rings since the last call of this or of [`status`](Self::status).
    pub fn rings(&self) -> Vec<RingReport> {
        self.gauges.rings()
    }

    /// Messages of the feed published so far.
    pub fn feed_messages(&self) -> u64 {
        self.gauges.market_data.read().messages
    }

    /// Stops the threads and returns the last figures.
    pub fn stop(mut self) -> Result<Value, Failure> {
        // Before the last figures: commands of operators end with the drain.
        self.drain();
        let figures = self.document("stopped");
        let failed = |failure: ring::AgentFailure| {
            Failure::runtime(format!("the venue stopped: {failure}"))
                .hint("every acknowledged command is in the journal")
        };
        self.admin.stop();
        self.threads.stop();
        self.threads.join().map_err(failed)?;
        // After the journaler, so that the ledger has all inputs of the journal.
        self.aside.stop();
        self.aside.join().map_err(failed)?;
        Ok(figures)
    }

    /// Stops the intake of the gateways, waits until all commands taken are answered, and ends the sessions. Does not
    /// wait for a client that reads nothing, or for a failed agent.
    fn drain(&mut self) {
        self.gauges.drain.set(gateway::DRAIN_REFUSES);
        self.wait(ANSWERED_WITHIN, |it| {
            // Two checks: an entry that left one ring may not be in the next one yet.
            it.gauges.rings().iter().all(|ring| ring.occupancy == 0)
        });
        self.gauges.drain.set(gateway::DRAIN_ENDS);
        self.wait(ENDED_WITHIN, |it| {
            let ports = [
                Some(&it.gauges.order_entry),
                it.gauges.order_entry_fix.as_ref(),
                it.gauges.order_entry_ouch42.as_ref(),
                it.gauges.order_entry_sluice.as_ref(),
            ];
            let market_data = it.gauges.market_data_fix.as_ref();
            market_data.is_none_or(|port| port.read().connections == 0)
                && ports.into_iter().flatten().all(|port| port.read().connections == 0)
        });
    }

    /// Waits until a condition holds in several checks in a row, or the time is over.
    fn wait(&mut self, within: Duration, mut holds: impl FnMut(&mut Self) -> bool) {
        const LOOK_INTERVAL: Duration = Duration::from_millis(2);
        let mut times = 0;
        for _ in 0..within.as_millis() / LOOK_INTERVAL.as_millis() {
            times = if holds(self) { times + 1 } else { 0 };
            if times == DRAIN_LOOKS || self.stopped() {
                return;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    fn document(&mut self, event: &str) -> Value {
        let Checkpoint { progress, digest } = self.gauges.checkpoint();
        let Progress { sequence, orders, trades, live_orders } = progress;
        json!({
            "event": event,
            "uptime_s": self.clock.since_start().as_secs_f64(),
            "clock_ahead_s": self.clock_ahead_ns as f64 / 1e9,
            "sequence": sequence.0,
            "digest": format!("{:016x}", digest.word()),
            "orders": orders,
            "trades": trades,
            "live_orders": live_orders,
            "rings": self.gauges.rings().iter().map(ring_figures).collect::<Vec<_>>(),
            "order_entry": figures(&self.gauges.order_entry.read().named()),
            "order_entry_fix": self
                .gauges
                .order_entry_fix
                .as_ref()
                .map(|counters| figures(&counters.read().named())),
            "order_entry_ouch42": self
                .gauges
                .order_entry_ouch42
                .as_ref()
                .map(|counters| figures(&counters.read().named())),
            "order_entry_sluice": self
                .gauges
                .order_entry_sluice
                .as_ref()
                .map(|counters| figures(&counters.read().named())),
            "sluice": self.gauges.sluice.as_ref().map(|counters| figures(&counters.read().named())),
            "order_entry_udp": figures(&self.gauges.order_entry_udp.read().named()),
            "market_data": figures(&self.gauges.market_data.read().named()),
            "feed_server": figures(&self.gauges.feed_server.read().named()),
            "sockets": self
                .losses
                .iter()
                .map(|(name, losses)| ((*name).to_owned(), figures(&losses.read().named())))
                .collect::<Value>(),
            "market_data_fix": self
                .gauges
                .market_data_fix
                .as_ref()
                .map(|counters| figures(&counters.read().named())),
            "derived_data": self.market_figures.as_ref().map(|it| figures(&it.named())),
            "streams": self.gauges.streams.iter().map(stream_figures).collect::<Vec<_>>(),
            "journal": journal_status(&self.gauges.journal),
            "stages": self.gauges.stage_times.figures(false),
            "snapshots": self.gauges.snapshots.as_deref().map(|figures| json!({
                "sequence": figures.sequence.get(),
                "bytes": figures.bytes.get(),
                "made": figures.made.get(),
                "failed": figures.failed.get(),
                "segments_removed": figures.segments_removed.get(),
            })),
            "reply_files": self.gauges.reply_files.as_deref().map(|figures| json!({
                "sequence": figures.sequence.get(),
                "bytes": figures.bytes.get(),
                "blocks": figures.blocks.get(),
                "failed": figures.failed.get(),
            })),
            "ledger": self.gauges.ledger.as_ref().map(|ledger| json!({
                "sequence": ledger.position.get(),
                "behind": self.gauges.durable().0.saturating_sub(ledger.position.get()),
                "rows": ledger.rows.get(),
                "commits": ledger.commits.get(),
                "failures": ledger.failures.get(),
            })),
            "notices_dropped": notices::dropped(),
            "cpu_s": os::process_cpu_ns() as f64 / 1e9,
        })
    }
}

/// A thread of low priority that mostly sleeps and that no other thread wakes. A venue thread that wakes on its core
/// gets the core after 0.1 ms; a displaced one waits for the next tick of the scheduler, 4 ms on many kernels.
fn aside(name: &'static str, agent: Box<dyn ring::Agent>, park_max: Duration) -> Group {
    let idle = IdleStrategy::Backoff { spins: 0, yields: 0, park_max };
    Group {
        on_start: Some(Box::new(move || {
            if let Err(error) = os::lower_priority() {
                tracing::warn!(component = name, "{name} runs at the normal priority: {error}");
            }
            if let Err(error) = os::ask_for_short_slices() {
                tracing::warn!(
                    component = name,
                    "{name} keeps the time slices of the system: {error}"
                );
            }
        })),
        ..Group::new(name, vec![agent], idle)
    }
}

fn figures(named: &[(&'static str, u64)]) -> Value {
    named.iter().map(|(name, figure)| ((*name).to_owned(), json!(figure))).collect()
}

fn stream_figures(stream: &StreamGauges) -> Value {
    let mut document = stream_address(stream);
    let counters = figures(&stream.counters.read().named());
    document
        .as_object_mut()
        .expect("it is one")
        .extend(counters.as_object().expect("it is one").clone());
    document
}

/// The address of a delta stream, and its session.
fn stream_address(stream: &StreamGauges) -> Value {
    json!({
        "name": stream.name,
        "session": String::from_utf8_lossy(&stream.session),
        "to": stream.destinations.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn ring_figures(ring: &RingReport) -> Value {
    json!({
        "name": ring.name,
        "capacity": ring.capacity,
        "published": ring.published,
        "occupancy": ring.occupancy,
        "high_water": ring.high_water,
        "stalls": ring.stalls,
        "readers": ring.readers.iter().map(|reader| json!({
            "name": reader.name,
            "lag": reader.lag,
            "batch_max": reader.batch_max,
            "missed": reader.missed,
        })).collect::<Vec<_>>(),
    })
}

fn started(
    config: &Config,
    addresses: &Addresses,
    recovered: &Recovered,
    method: Method,
    layout: &str,
    recovery_seconds: f64,
) -> Value {
    let report = &recovered.report;
    json!({
        "schema": "damrak/serve/1",
        "event": "started",
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "addresses": {
            "order_entry": addresses.order_entry.to_string(),
            "order_entry_fix": addresses.order_entry_fix.map(|address| address.to_string()),
            "order_entry_ouch42": addresses.order_entry_ouch42.map(|address| address.to_string()),
            "order_entry_sluice": addresses.order_entry_sluice.map(|address| address.to_string()),
            "order_entry_udp": addresses.order_entry_udp.to_string(),
            "market_data": addresses.market_data.to_string(),
            "market_data_b": addresses.market_data_b.map(|address| address.to_string()),
            "re_request": addresses.re_request.to_string(),
            "snapshot": addresses.snapshot.to_string(),
            "feed_tcp": addresses.feed_tcp.to_string(),
            "market_data_fix": addresses.market_data_fix.map(|address| address.to_string()),
        },
        "session": String::from_utf8_lossy(&pipeline::stream_session(recovered.journal_id)),
        "journal": config.journal.directory,
        "durability": config.journal.durability,
        "journal_method": method.as_str(),
        "ledger": Location::of(&config.ledger).map(|location| location.to_string()),
        "layout": layout,
        "changes": recovered.changes,
        "recovered": {
            "last_sequence": report.last_sequence,
            "records": report.record_count,
            "bytes": report.byte_count,
            "snapshot": recovered.snapshot.map(|summary| json!({
                "sequence": summary.header.sequence,
                "bytes": summary.byte_count,
            })),
            "replayed": report.last_sequence
                - recovered.snapshot.map_or(0, |summary| summary.header.sequence),
            "passed_over": recovered.passed_over.iter().map(ToString::to_string)
                .collect::<Vec<_>>(),
            "seconds": recovery_seconds,
            "state_hash": format!("{:016x}", recovered.state_hash),
            "digest": format!("{:016x}", recovered.checkpoint.digest.word()),
            "torn_tail": report.torn_tail.as_ref().map(|cut| json!({
                "path": cut.path, "offset": cut.offset, "bytes": cut.byte_count,
            })),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use market::Timestamp;

    use super::*;

    /// A venue on free ports of loopback, with these additional keys.
    fn config(journal: &Path, more: &str) -> Config {
        let text = format!(
            "journal.directory = {journal:?}\n\
             order_entry.address = \"127.0.0.1:0\"\n\
             order_entry_udp.address = \"127.0.0.1:0\"\n\
             market_data.group = \"127.0.0.1:0\"\n\
             market_data.re_request = \"127.0.0.1:0\"\n\
             market_data.snapshot = \"127.0.0.1:0\"\n\
             market_data.tcp = \"127.0.0.1:0\"\n\
             {more}"
        );
        Config::parse(&text, "venue.toml").expect("it is valid")
    }

    /// The sockets of a venue use the configured methods, as far as the system has them; if not, a notice gives the
    /// reason. The figures have the losses of each socket.
    #[test]
    fn the_network_is_reported() {
        let folder = tempfile::tempdir().expect("the system has a folder for this");
        for (number, (udp, tcp)) in [
            ("auto", "epoll"),
            ("mmsg", "io_uring"),
            ("gro", "threads"),
            ("io_uring", "epoll"),
            ("xdp", "epoll"),
        ]
        .into_iter()
        .enumerate()
        {
            let more = format!(
                "network.udp = {udp:?}\nnetwork.tcp = {tcp:?}\nnetwork.receive_buffer = \"64KiB\"\n{}",
                if udp == "io_uring" { "network.sqpoll_core = 9999\n" } else { "" },
            );
            let config = config(&folder.path().join(number.to_string()), &more);
            let mut venue = start(&config, SystemClock::start()).expect("it starts");
            let is_noticed = |what: &str| venue.notices().iter().any(|it| it.contains(what));
            let network = &venue.started()["network"];
            let wanted = if udp == "auto" { "gro" } else { udp };
            let has_it = network["udp"] == wanted;
            assert!(has_it || is_noticed(&format!("the system refuses {wanted}")), "{network}");
            let has_it = network["tcp"] == tcp;
            assert!(
                has_it || network["tcp"] == "epoll" && is_noticed("epoll is used"),
                "{network}"
            );
            // No machine has the core requested for io_uring, so its thread is refused.
            assert_eq!(network["sqpoll_core"], Value::Null);
            let is_refused =
                is_noticed("refuses io_uring with a thread of the kernel on core 9999");
            assert_eq!(is_refused, udp == "io_uring");
            // Loopback is no network card.
            let is_refused = is_noticed("network.udp is xdp, and the system refuses xdp (");
            assert_eq!(is_refused, udp == "xdp");
            assert_eq!(network["xdp_queue"], Value::Null);
            assert_eq!(network["receive_buffer"]["asked"], 64 << 10);
            let sockets = &venue.status()["sockets"];
            assert_eq!(sockets["order_entry_udp"]["dropped"], 0);
            assert_eq!(sockets["re_request"]["truncated"], 0);
            venue.stop().expect("it stops");
        }
        for wrong in [
            "network.sqpoll_core = 1\n",
            "network.udp = \"io_uring\"\nnetwork.sqpoll_core = 1\nlayout.threads = \"order-entry+order-entry-udp+\
             sequencer+journaler+market-data+feed-server | engine@1\"\n",
        ] {
            let error = Config::parse(wrong, "venue.toml").expect_err("it is refused").to_string();
            assert!(error.contains("network.sqpoll_core"), "{error}");
        }
        for (wrong, why) in [
            (
                "network.xdp_queue = 0\n",
                "network.xdp_queue needs network.udp = \"xdp\": it is \"auto\"",
            ),
            ("network.udp = \"xdp\"\nnetwork.xdp_queue = 4096\n", "it must be 4095 at most"),
            (
                "network.arrival_times = \"software\"\nnetwork.tcp = \"threads\"\n",
                "network.arrival_times needs network.tcp = \"epoll\": it is \"threads\"",
            ),
            (
                "network.arrival_times = \"hardware\"\nnetwork.udp = \"io_uring\"\n",
                "network.arrival_times needs network.udp = \"auto\", \"gro\" or \"mmsg\": it is \"io_uring\"",
            ),
        ] {
            let error = Config::parse(wrong, "venue.toml").expect_err("it is refused").to_string();
            assert!(error.contains(why), "{error}");
        }
        let wrong = "network.receive_buffer = \"1KiB\"\n";
        let error = Config::parse(wrong, "venue.toml").expect_err("it is too small").to_string();
        assert!(error.contains("network.receive_buffer is 1.0 KiB"), "{error}");
    }

    /// Loopback has no card whose clock could stamp arrivals: the venue says so and counts nothing.
    #[test]
    fn arrivals_by_a_card_need_a_card() {
        let folder = tempfile::tempdir().expect("the system has a folder for this");
        let more = "network.arrival_times = \"hardware\"\n";
        let config = config(&folder.path().join("journal"), more);
        let mut venue = start(&config, SystemClock::start()).expect("it starts");
        let notice = "network.arrival_times: the card of lo takes no times of packets";
        assert!(venue.notices().iter().any(|it| it.contains(notice)), "{:?}", venue.notices());
        assert_eq!(venue.status()["stages"]["legs"][0]["name"], "sequence");
        venue.stop().expect("it stops");
    }

    /// A venue whose machine's clock is behind its journal says so at the start and in its figures.
    #[test]
    fn a_clock_behind_the_journal_is_reported() {
        let folder = tempfile::tempdir().expect("the system has a folder for this");
        let config = config(&folder.path().join("journal"), "");
        let run = |clock| {
            let mut venue = start(&config, clock).expect("it starts");
            let is_reported = venue.notices().iter().any(|it| it.contains("behind the journal"));
            let ahead_s = venue.status()["clock_ahead_s"].as_f64().expect("a figure");
            venue.stop().expect("it stops");
            (is_reported, ahead_s)
        };
        let mut future = SystemClock::start();
        let years_ns = 1_000_000_000_000_000_000;
        future.continue_from(Timestamp(future.now_ns() + years_ns));
        assert_eq!(run(future), (false, 0.0));
        let (is_reported, ahead_s) = run(SystemClock::start());
        assert!(is_reported && 1e6 < ahead_s, "{ahead_s}");
    }
}
