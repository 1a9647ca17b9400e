//! The same commands give the same events, records and state however agents share threads.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use engine::Engine;
use gateway::Submission;
use journal::{Durability, Folder, Kind, Options};
use market::{Input, Output, Sequence, Timestamp};
use proof::generator::{CommandFlow, Profile};
use ring::{
    Agent, AgentError, AtomicGauge, Builder, Consumer, Cursor, Group, IdleStrategy, Producer,
    ThreadParker,
};
use venue::{
    clock::SystemClock,
    log::LocalLog,
    stage::{Checkpoint, EngineStage, Journaler, Sequencer},
};

const COMMANDS: usize = 100_000;

/// Everything that must be equal.
#[derive(Debug, PartialEq)]
struct Outcome {
    event_count: u64,
    events_hash: u64,
    state_hash: u64,
    journal: Vec<(u64, u64, Vec<u8>)>,
}

/// Stands for the gateways: submits commands with times of its own.
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

/// Stands for order entry and market data: takes what is durable.
struct Collector {
    outputs: Consumer<Output>,
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
        let taken = self.outputs.poll(1000, |output, _| {
            if output.cause.0 > durable {
                return ring::Flow::Hold;
            }
            *digest = fold(*digest, output);
            ring::Flow::Continue
        });
        self.count.fetch_add(taken as u64, Ordering::Release);
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
fn plain(commands: &[Submission]) -> (u64, u64, u64) {
    let mut engine = Engine::new();
    let (mut count, mut digest) = (0, 0);
    for (number, submission) in commands.iter().enumerate() {
        let input = Input {
            sequence: Sequence(number as u64 + 1),
            timestamp: submission.received,
            command: submission.command,
        };
        engine.apply(&input, &mut |event| {
            count += 1;
            let (cause, timestamp) = (input.sequence, input.timestamp);
            digest = fold(digest, &Output { cause, timestamp, event });
        });
    }
    (count, digest, engine.state_hash())
}

/// Runs all commands with agents grouped so, by index: source, sequencer, journaler, engine,
/// collector.
fn run(
    commands: &Arc<[Submission]>,
    groups: &[&[usize]],
    event_count: u64,
    folder: &Path,
) -> Outcome {
    // Rings so small that every one of them fills.
    let mut submissions = Builder::<Submission>::new("submissions", 64);
    let to_sequencer = submissions.gating("sequencer");
    let (submissions, _) = submissions.build();
    let mut inputs = Builder::<Input>::new("inputs", 128);
    let (to_journaler, to_engine) = (inputs.gating("journaler"), inputs.gating("engine"));
    let (inputs, _) = inputs.build();
    let mut outputs = Builder::<Output>::new("outputs", 64);
    let to_collector = outputs.gating("collector");
    let (outputs, _) = outputs.build();
    let mut checkpoints = Builder::<Checkpoint>::new("checkpoints", 64);
    let mut tap = checkpoints.lossy("test");
    let (checkpoints, _) = checkpoints.build();

    let options = Options { durability: Durability::Written, ..Options::new(7, 1) };
    let (writer, _) = journal::open(Box::new(Folder::new(folder)), &options, &mut |_| {
        Ok::<(), std::io::Error>(())
    })
    .unwrap();
    let durable = Arc::new(Cursor::new(0));
    let due = Arc::new(AtomicGauge::new(u64::MAX));
    let (digest, count) = (Arc::new(Mutex::new(0)), Arc::new(AtomicU64::new(0)));
    let agents: [Box<dyn Agent>; 5] = [
        Box::new(Source { commands: Arc::clone(commands), submitted: 0, submissions }),
        Box::new(Sequencer::new(
            LocalLog::new(Sequence::NONE, Timestamp(0)),
            vec![to_sequencer],
            inputs,
            Arc::clone(&due),
        )),
        Box::new(Journaler::new(to_journaler, writer, Arc::clone(&durable), false)),
        Box::new(EngineStage::new(to_engine, Engine::new(), outputs, checkpoints, due)),
        Box::new(Collector {
            outputs: to_collector,
            durable,
            digest: Arc::clone(&digest),
            count: Arc::clone(&count),
        }),
    ];
    let mut agents = agents.map(Some);
    let groups = groups
        .iter()
        .map(|members| Group {
            name: format!("{members:?}"),
            agents: members.iter().map(|index| agents[*index].take().unwrap()).collect(),
            idle: IdleStrategy::adaptive(groups.len(), 2),
            parker: Box::new(ThreadParker::default()),
            wake_targets: None,
            on_start: None,
        })
        .collect();
    let running = ring::launch(groups, Arc::new(SystemClock::start()));
    let mut state_hash = None;
    while !(running.stopped()
        || state_hash.is_some() && count.load(Ordering::Acquire) >= event_count)
    {
        tap.poll(64, |checkpoint| {
            if checkpoint.sequence.0 == COMMANDS as u64 {
                state_hash = Some(checkpoint.state_hash);
            }
        });
        thread::sleep(Duration::from_millis(1));
    }
    running.stop();
    running.join().unwrap();

    // Batches follow the turns of the threads, and so may differ; records do not.
    let mut journal = Vec::new();
    journal::verify(&mut Folder::new(folder), &mut |record| {
        if record.kind == Kind::Input {
            journal.push((record.sequence, record.timestamp, record.payload.to_vec()));
        }
        Ok::<(), std::io::Error>(())
    })
    .unwrap();
    Outcome {
        event_count: count.load(Ordering::Acquire),
        events_hash: *digest.lock().unwrap(),
        state_hash: state_hash.expect("the engine came to the end"),
        journal,
    }
}

/// 100,000 commands on one thread, on two, and on one for each agent: the same events, the same
/// journal records, the same state, and those of the core alone.
#[test]
fn layouts_give_identical_results() {
    const SINGLE: &[&[usize]] = &[&[0, 1, 2, 3, 4]];
    const EDGE: &[&[usize]] = &[&[0, 2, 4], &[1, 3]];
    const PIPELINE: &[&[usize]] = &[&[0], &[1], &[2], &[3], &[4]];
    let commands = commands();
    let (event_count, events_hash, state_hash) = plain(&commands);
    assert!(event_count as usize > COMMANDS, "the flow makes things happen: {event_count} events");

    let folder = tempfile::tempdir().unwrap();
    let outcome =
        |name: &str, groups| run(&commands, groups, event_count, &folder.path().join(name));
    let single = outcome("single", SINGLE);
    assert_eq!(
        (single.event_count, single.events_hash, single.state_hash),
        (event_count, events_hash, state_hash),
        "one thread differs from the core alone"
    );
    assert_eq!(single.journal.len(), COMMANDS);
    assert!(single == outcome("edge", EDGE), "two threads differ from one");
    assert!(single == outcome("pipeline", PIPELINE), "a thread for each differs from one");
}
