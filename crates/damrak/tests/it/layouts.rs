//! The same commands give the same events, records and state in every assignment of agents to threads.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use gateway::{
    Submission,
    fake::{FakeDatagram, FakeStream},
};
use journal::{CrashStorage, Durability, Folder, RecordKind, WriterOptions};
use market::{
    Command, EnterOrder, EventDigest, Input, OrderKey, Output, OutputLine, Price, Quantity,
    Sequence, SessionId, Side, Symbol, Timestamp,
};
use proof::generator::{CommandFlow, Profile};
use ring::{Agent, AgentError, Consumer, Cursor, Parker, Producer, ThreadParker};
use venue::{
    clock::SystemClock,
    config::Config,
    core::{Chain, Core, CoreOptions, RingSlots},
    layout::{AgentGroup, AgentName, Layout, Machine, Wait},
    pipeline::{self, Edges, Networks},
    snapshot::VenueState,
    stage::{EngineStage, Perturbations},
};
use wire::{
    itch,
    moldudp64::{self, PacketKind},
    ouch,
};

const COMMANDS: usize = 100_000;

/// All results that must be equal.
#[derive(Debug, PartialEq)]
struct Outcome {
    event_count: u64,
    events_hash: u64,
    digest: EventDigest,
    state_hash: u64,
    journal: Vec<(u64, u64, Vec<u8>)>,
}

/// Replaces the gateways: submits commands with times of its own.
struct Source {
    commands: Arc<[Submission]>,
    submitted: usize,
    submissions: Producer<Submission>,
}

impl Agent for Source {
    fn name(&self) -> &str {
        "source"
    }

    fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
        let before = self.submitted;
        for submission in self.commands.iter().skip(before).take(100) {
            if self.submissions.try_publish(*submission).is_err() {
                break;
            }
            self.submitted += 1;
        }
        Ok(self.submitted - before)
    }
}

/// Replaces order entry and market data: takes durable outputs.
struct Collector {
    outputs: Consumer<OutputLine>,
    durable: Arc<Cursor>,
    digest: Arc<Mutex<u64>>,
    count: Arc<AtomicU64>,
}

impl Agent for Collector {
    fn name(&self) -> &str {
        "collector"
    }

    fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
        let durable = self.durable.get();
        let mut digest = self.digest.lock().unwrap();
        let mut count = 0;
        let taken = self.outputs.poll(1000, |line, _| {
            if line.cause.0 > durable {
                return ring::Flow::Hold;
            }
            line.each(|output| {
                *digest = fold(*digest, output);
                count += 1;
            });
            ring::Flow::Continue
        });
        self.count.fetch_add(count, Ordering::Release);
        Ok(taken)
    }
}

fn fold(digest: u64, output: &Output) -> u64 {
    format!("{output:?}").bytes().fold(digest, |hash, byte| {
        (hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

fn commands() -> Arc<[Submission]> {
    let mut flow = CommandFlow::new(2026, Profile::default());
    (0..COMMANDS)
        .map(|number| Submission {
            received: Timestamp(1_767_346_200_000_000_000 + number as u64 * 1_000),
            command: flow.next_command(),
        })
        .collect()
}

/// The core alone, without a ring or a thread.
fn plain(commands: &[Submission]) -> (u64, u64, VenueState) {
    let mut state = VenueState::default();
    let (mut count, mut events_hash) = (0, 0);
    for (number, submission) in commands.iter().enumerate() {
        let input = Input {
            sequence: Sequence(number as u64 + 1),
            timestamp: submission.received,
            command: submission.command,
        };
        state.apply(&input, &mut |line| {
            line.each(|output| {
                count += 1;
                events_hash = fold(events_hash, output);
            })
        });
    }
    (count, events_hash, state)
}

/// Runs all commands through the chain in this layout.
fn run(commands: &Arc<[Submission]>, layout: &Layout, event_count: u64, folder: &Path) -> Outcome {
    // Rings so small that every one of them fills.
    let mut core = Core::new(RingSlots { submissions: 64, inputs: 128, outputs: 64 });
    let submissions = core.source("submissions", AgentName::Source);
    let (outputs, durable) = core.reader(AgentName::Reporter);
    let (_, mut checkpoints) = core.outside("test");
    let options = WriterOptions { durability: Durability::Written, ..WriterOptions::new(7, 1) };
    let (writer, _) = journal::open(Box::new(Folder::new(folder)), &options, &mut |_| {
        Ok::<(), std::io::Error>(())
    })
    .unwrap();
    let options = CoreOptions { has_clock: false, ..CoreOptions::new(Durability::Written) };
    let Chain { mut agents, wiring, .. } = core.build(VenueState::default(), writer, options);
    let (digest, count) = (Arc::new(Mutex::new(0)), Arc::new(AtomicU64::new(0)));
    let source = Source { commands: Arc::clone(commands), submitted: 0, submissions };
    agents.insert(AgentName::Source, Box::new(source));
    let (of_collector, count_of) = (Arc::clone(&digest), Arc::clone(&count));
    let collector = Collector { outputs, durable, digest: of_collector, count: count_of };
    agents.insert(AgentName::Reporter, Box::new(collector));
    let names: Vec<_> = agents.keys().copied().collect();
    let machine = Machine { cores: 2, has_clients: false, is_synced: false };
    let groups = layout.groups(&names, machine).unwrap();
    let clock = Arc::new(SystemClock::start());
    let parker = |_: &AgentGroup| Ok(Box::new(ThreadParker::default()) as Box<dyn Parker>);
    let running =
        venue::layout::launch(agents, &wiring, &groups, Wait::Adaptive, clock, parker).unwrap();
    let mut digest_last = None;
    while !(running.stopped()
        || digest_last.is_some() && count.load(Ordering::Acquire) >= event_count)
    {
        checkpoints.poll(64, |checkpoint| {
            if checkpoint.progress.sequence.0 == COMMANDS as u64 {
                digest_last = Some(checkpoint.digest);
            }
        });
        thread::sleep(Duration::from_millis(1));
    }
    running.stop();
    let mut agents = running.join().unwrap();
    let engine = ring::take_agent::<EngineStage>(&mut agents).unwrap().into_engine();

    // Batches follow the turns of the threads, and so may differ; records do not.
    let mut journal = Vec::new();
    journal::verify(&mut Folder::new(folder), &mut |record| {
        if record.kind == RecordKind::Input {
            journal.push((record.sequence, record.timestamp, record.payload.to_vec()));
        }
        Ok::<(), std::io::Error>(())
    })
    .unwrap();
    Outcome {
        event_count: count.load(Ordering::Acquire),
        events_hash: *digest.lock().unwrap(),
        digest: digest_last.expect("the engine finished"),
        state_hash: engine.state_hash(),
        journal,
    }
}

/// 100,000 commands in every layout: the same events and event digest, the same journal records, the same
/// state, and those of the core alone.
#[test]
fn layouts_give_identical_results() {
    let commands = commands();
    let (event_count, events_hash, state) = plain(&commands);
    assert!(event_count as usize > COMMANDS, "the flow makes things happen: {event_count} events");

    let folder = tempfile::tempdir().unwrap();
    let outcome =
        |name: &str| run(&commands, &name.parse().unwrap(), event_count, &folder.path().join(name));
    let single = outcome("single");
    assert_eq!(
        (single.event_count, single.events_hash, single.digest, single.state_hash),
        (event_count, events_hash, state.digest, state.engine.state_hash()),
        "one thread differs from the core alone"
    );
    assert_eq!(single.journal.len(), COMMANDS);
    for layout in ["engine-alone", "core-alone", "entry-core", "pipeline"] {
        assert!(single == outcome(layout), "{layout} differs from single");
    }
}

/// The table of edges in ARCHITECTURE.md equals the edges that the wiring of a venue registers.
#[test]
fn architecture_lists_every_edge() {
    let networks = Networks::<FakeStream, FakeDatagram>::default();
    let config = Config::default();
    let edges = Edges {
        feed_destination: config.market_data.line_a().fallback,
        operator_events: |_| None,
        start_id: 1,
        perturbations: Perturbations::default(),
    };
    let storage = || Box::new(CrashStorage::new());
    let venue = pipeline::assemble(&config, networks, &edges, storage(), storage(), 1, 1).unwrap();
    let mut registered: Vec<_> = venue
        .wiring
        .edges()
        .iter()
        .map(|edge| {
            let writer = edge.writer.map_or("-", AgentName::as_str);
            let wakes = if edge.wakes { "yes" } else { "no" };
            format!("| {} | {writer} | {} | {wakes} |", edge.name, edge.reader)
        })
        .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().skip_while(|line| *line != "| what | written by | read by | wakes |");
    let mut printed: Vec<_> =
        rows.skip(2).take_while(|line| line.starts_with('|')).map(str::to_owned).collect();
    registered.sort();
    printed.sort();
    assert_eq!(printed, registered);
}

/// The ports to which packets were sent, in order, and the symbols of the orders in them.
fn orders_of(network: &FakeDatagram) -> (Vec<u16>, Vec<String>) {
    let (mut ports, mut symbols) = (Vec::new(), Vec::new());
    for (to, packet) in std::iter::from_fn(|| network.take()) {
        let PacketKind::Data(blocks) = moldudp64::parse(&packet).unwrap().kind else { continue };
        ports.push(to.port());
        for message in blocks {
            let stock = match itch::decode(message).unwrap() {
                itch::Message::AddOrder(order) => order.stock,
                itch::Message::AddOrderAttributed(order) => order.stock,
                _ => continue,
            };
            symbols.push(String::from_utf8_lossy(&stock).trim().to_owned());
        }
    }
    ports.sort_unstable();
    ports.dedup();
    (ports, symbols)
}

/// Streams of a configuration are sent by the agents that it names, under sessions of their own, in every layout.
#[test]
fn streams_are_sent_by_their_agents() {
    let text = r#"
        [[market_data.streams]]
        name = "one"
        instruments = ["AAPL"]
        to = ["127.0.0.1:7001", "127.0.0.1:7002"]

        [[market_data.streams]]
        name = "rest"
        instruments = ["M*", "NVDA"]
        to = ["127.0.0.1:7003"]
        overflow = "block"
        agent = 2
    "#;
    for layout in ["single", "core-alone", "pipeline"] {
        let mut config = Config::parse(text, "streams").unwrap();
        config.layout.threads = layout.parse().unwrap();
        let networks = [FakeDatagram::new(), FakeDatagram::new()];
        let orders = FakeDatagram::new();
        let given = Networks::<FakeStream, FakeDatagram> {
            order_entry_udp: orders.clone(),
            streams: networks.to_vec(),
            ..Networks::default()
        };
        let edges = Edges {
            feed_destination: config.market_data.line_a().fallback,
            operator_events: |_| None,
            start_id: 1,
            perturbations: Perturbations::default(),
        };
        let storage = || Box::new(CrashStorage::new());
        let mut venue =
            pipeline::assemble(&config, given, &edges, storage(), storage(), 1, 1).unwrap();
        let machine = Machine { cores: 2, has_clients: false, is_synced: false };
        let groups = config.layout.threads.groups(&pipeline::agents(&config), machine).unwrap();
        let named: Vec<_> = groups.iter().flat_map(|group| &group.agents).collect();
        for name in [AgentName::Streams, AgentName::Streams2] {
            assert!(named.contains(&&name) && venue.agents.contains_key(&name), "{layout}: {name}");
        }
        let address = config.participants.iter().find_map(|it| it.udp).unwrap();
        for (symbol, user_ref_num) in ["AAPL", "MSFT", "NVDA"].iter().zip(1..) {
            let key = OrderKey { session_id: SessionId(0), channel: 0, user_ref_num };
            let symbol = Symbol::new(symbol).unwrap();
            let order = EnterOrder::limit(key, Side::Buy, symbol, Quantity(100), Price(10_000));
            orders.deliver(address, &ouch::request(&Command::Enter(order)).unwrap());
        }
        for turn in 1..50_u64 {
            for agent in venue.agents.values_mut() {
                agent.do_work(turn * 1_000_000).unwrap();
            }
        }
        let symbols: Vec<(Vec<u16>, Vec<String>)> = networks.iter().map(orders_of).collect();
        assert_eq!(symbols[0], (vec![7001, 7002], vec!["AAPL".to_owned(); 2]), "{layout}");
        let rest = vec!["MSFT".to_owned(), "NVDA".to_owned()];
        assert_eq!(symbols[1], (vec![7003], rest), "{layout}");
        let [one, two] = [0, 1].map(|index: usize| venue.gauges.streams[index].session);
        assert_ne!(one, two);
    }
}
