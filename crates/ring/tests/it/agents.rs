//! Agents on one thread and on many, with real and with faked sleep.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

use ring::{
    Agent, AgentError, AgentFailure, Builder, Clock, Consumer, Flow, Group, IdleStrategy, Parker,
    Producer, Runner, RunningAgents, ThreadParker, Unparker, WakeTargets, launch,
};

/// Longer than any wait here: a test that waits for all of it hangs. Even on a slow machine, only a
/// lost wake-up takes that long.
const FOREVER: Duration = Duration::from_secs(3600);

/// A clock that a test turns by hand.
#[derive(Default)]
struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now_ns(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(HandClock::default())
}

/// An agent made from a function.
struct Stage<F> {
    name: &'static str,
    work: F,
    closed: Option<Closed>,
}

/// The names of the agents that were closed, in order.
type Closed = Arc<Mutex<Vec<&'static str>>>;

impl<F: FnMut(u64) -> Result<usize, AgentError> + Send + 'static> Agent for Stage<F> {
    fn name(&self) -> &str {
        self.name
    }

    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError> {
        (self.work)(now_ns)
    }

    fn close(&mut self) {
        if let Some(closed) = &self.closed {
            closed.lock().unwrap().push(self.name);
        }
    }
}

fn stage(
    name: &'static str,
    work: impl FnMut(u64) -> Result<usize, AgentError> + Send + 'static,
) -> Box<dyn Agent> {
    Box::new(Stage { name, work, closed: None })
}

/// As `stage`, but notes its close.
fn noted(
    name: &'static str,
    closed: &Closed,
    work: impl FnMut(u64) -> Result<usize, AgentError> + Send + 'static,
) -> Box<dyn Agent> {
    Box::new(Stage { name, work, closed: Some(Arc::clone(closed)) })
}

/// Passes arriving values on, as far as there is room.
fn pass_on(mut from: Consumer<u64>, mut to: Producer<u64>) -> Box<dyn Agent> {
    stage("pass on", move |_| {
        let mut batch = to.batch();
        Ok(from.poll(16, |value, _| match batch.push(*value) {
            Ok(_) => Flow::Continue,
            Err(_) => Flow::Hold,
        }))
    })
}

/// Four stages in a row: `count` numbers go in, and the channel reports when the last came out.
fn pipeline(count: u64) -> ([Box<dyn Agent>; 4], mpsc::Receiver<u64>) {
    let lane = |name| {
        let mut builder = Builder::new(name, 8);
        let consumer = builder.gating("next");
        (builder.build().0, consumer)
    };
    let (mut first, second_in) = lane("first");
    let (second_out, third_in) = lane("second");
    let (third_out, mut last) = lane("third");
    let (done, is_done) = mpsc::channel();

    let mut next = 1;
    let source = stage("source", move |_| {
        let before = next;
        while next <= count && first.try_publish(next).is_ok() {
            next += 1;
        }
        Ok((next - before) as usize)
    });
    let mut seen = 0;
    let sink = stage("sink", move |_| {
        let work = last.drain(16, |value, _| {
            seen += 1;
            assert_eq!(*value, seen);
        });
        if work > 0 && seen == count {
            done.send(seen)?;
        }
        Ok(work)
    });
    ([source, pass_on(second_in, second_out), pass_on(third_in, third_out), sink], is_done)
}

fn wait<T>(running: &RunningAgents, done: &mpsc::Receiver<T>) -> T {
    done.recv_timeout(FOREVER).unwrap_or_else(|error| {
        panic!("{error}; stopped: {}", running.stopped());
    })
}

/// The same four agents finish on one thread, on two, and on four with one core to share.
#[test]
fn four_agents_make_progress_in_every_layout() {
    for (threads, cores) in [(1, 1), (2, 1), (4, 1), (4, 2), (1, 8), (4, 4)] {
        let (agents, done) = pipeline(20_000);
        let idle = IdleStrategy::adaptive(threads, cores);
        let mut groups: Vec<_> =
            (0..threads).map(|index| Group::new(format!("g{index}"), Vec::new(), idle)).collect();
        for (index, agent) in agents.into_iter().enumerate() {
            groups[index * threads / 4].agents.push(agent);
        }
        let running = launch(groups, clock());
        assert_eq!(wait(&running, &done), 20_000);
        running.stop();
        running.join().unwrap();
    }
}

/// Spinning and yielding groups finish too, even with more of them than cores.
#[test]
fn four_threads_make_progress_without_parking() {
    for idle in [IdleStrategy::Yield, IdleStrategy::Spin] {
        let (agents, done) = pipeline(500);
        let groups = agents.map(|agent| Group::new("busy", vec![agent], idle));
        let running = launch(groups.into(), clock());
        wait(&running, &done);
        running.stop();
        running.join().unwrap();
    }
}

/// By hand, with a faked clock, turns are taken one at a time and all agents see one time.
#[test]
fn runner_by_hand_takes_turns_at_the_time_of_its_clock() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let agents = ["a", "b"].map(|name| {
        let times = Arc::clone(&times);
        stage(name, move |now_ns| {
            times.lock().unwrap().push((name, now_ns));
            Ok(2)
        })
    });
    let clock = Arc::new(HandClock::default());
    let mut runner = Runner::new(agents.into(), Arc::clone(&clock) as Arc<dyn Clock>);
    for now_ns in [5, 8] {
        clock.0.store(now_ns, SeqCst);
        assert_eq!(runner.turn().unwrap(), 4);
    }
    assert_eq!(*times.lock().unwrap(), [("a", 5), ("b", 5), ("a", 8), ("b", 8)]);
}

/// Records the turns in which agents before it did work, and does work in its first turn.
struct Listener {
    heard: Arc<Mutex<Vec<(&'static str, bool)>>>,
    name: &'static str,
    work: usize,
}

impl Agent for Listener {
    fn name(&self) -> &str {
        self.name
    }

    fn note_busy(&mut self, is_busy: bool) {
        self.heard.lock().unwrap().push((self.name, is_busy));
    }

    fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
        Ok(std::mem::take(&mut self.work))
    }
}

/// An agent is notified of work by those before it in the same turn, and of no other work.
#[test]
fn agents_hear_of_work_before_them() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let agents = [("a", 0), ("b", 3), ("c", 0)].map(|(name, work)| -> Box<dyn Agent> {
        Box::new(Listener { heard: Arc::clone(&heard), name, work })
    });
    let mut runner = Runner::new(agents.into(), clock());
    assert_eq!((runner.turn().unwrap(), runner.turn().unwrap()), (3, 0));
    let [first, second] = [true, false].map(|is_busy| [("a", false), ("b", false), ("c", is_busy)]);
    assert_eq!(*heard.lock().unwrap(), [first, second].concat());
}

/// A failure names its agent, ends the round, closes all agents in order and once, and is final.
#[test]
fn runner_stops_at_the_first_failure() {
    let closed = Closed::default();
    let never = Arc::new(AtomicBool::new(false));
    let after = Arc::clone(&never);
    let agents = vec![
        noted("first", &closed, |_| Ok(1)),
        noted("broken", &closed, |_| Err("no space left".into())),
        noted("last", &closed, move |_| Ok(usize::from(after.swap(true, SeqCst)))),
    ];
    let mut runner = Runner::new(agents, clock());
    let failure = runner.turn().unwrap_err();
    assert_eq!(failure.to_string(), "broken stopped: no space left");
    assert!(!never.load(SeqCst), "an agent had its turn after a failure");
    runner.close();
    runner.close();
    assert_eq!(*closed.lock().unwrap(), ["first", "broken", "last"]);
    let again = std::panic::AssertUnwindSafe(|| runner.turn().is_ok());
    assert!(std::panic::catch_unwind(again).is_err());
}

/// A failing agent stops the other groups, even sleeping ones, and every agent is closed.
#[test]
fn failing_agent_stops_all_groups_and_all_are_closed() {
    let closed = Closed::default();
    let deep_sleep = IdleStrategy::Backoff { spins: 0, yields: 0, park_max: FOREVER * 64 };
    let idle_agent = |name| noted(name, &closed, |_| Ok(0));
    let mut turns = 0;
    let broken = noted("broken", &closed, move |_| {
        turns += 1;
        thread::sleep(Duration::from_millis(1)); // the others fall asleep meanwhile
        if turns < 20 { Ok(0) } else { Err("disk gone".into()) }
    });
    let running = launch(
        vec![
            Group::new("asleep", vec![idle_agent("a"), idle_agent("b")], deep_sleep),
            Group::new("breaks", vec![idle_agent("c"), broken], IdleStrategy::Yield),
            Group::new("asleep too", vec![idle_agent("d")], deep_sleep),
        ],
        clock(),
    );
    let AgentFailure { agent, error } = running.join().unwrap_err();
    assert_eq!((agent.as_str(), error.to_string().as_str()), ("broken", "disk gone"));
    let mut closed = closed.lock().unwrap().clone();
    closed.sort_unstable();
    assert_eq!(closed, ["a", "b", "broken", "c", "d"]);
}

/// A panicking agent stops the other groups too, and `join` panics with its panic.
#[test]
fn panicking_agent_stops_all_groups() {
    let closed = Closed::default();
    let other = noted("other", &closed, |_| Ok(0));
    let idle = IdleStrategy::Backoff { spins: 0, yields: 0, park_max: FOREVER * 64 };
    let running = launch(
        vec![
            Group::new("other", vec![other], idle),
            Group::new("panics", vec![stage("panics", |_| panic!("planted"))], idle),
        ],
        clock(),
    );
    let join = std::panic::AssertUnwindSafe(|| running.join());
    let payload = std::panic::catch_unwind(join).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"planted"));
    assert_eq!(*closed.lock().unwrap(), ["other"]);
}

/// Each group has a thread of its name, and its start function runs there first.
#[test]
fn start_function_runs_first_on_the_named_thread() {
    let (sender, receiver) = mpsc::channel();
    let groups = ["north", "south"].map(|name| {
        let (at_start, at_turn) = (sender.clone(), sender.clone());
        let mut first = true;
        let agent = stage("agent", move |_| {
            if std::mem::take(&mut first) {
                at_turn.send((name, "turn", thread::current().id()))?;
            }
            Ok(0)
        });
        let mut group = Group::new(name, vec![agent], IdleStrategy::adaptive(2, 1));
        group.on_start = Some(Box::new(move || {
            assert_eq!(thread::current().name(), Some(name));
            at_start.send((name, "start", thread::current().id())).unwrap();
        }));
        group
    });
    let running = launch(groups.into(), clock());
    let all: Vec<_> = (0..4).map(|_| wait(&running, &receiver)).collect();
    for name in ["north", "south"] {
        let of_group: Vec<_> = all.iter().filter(|turn| turn.0 == name).collect();
        assert_eq!((of_group[0].1, of_group[1].1), ("start", "turn"));
        assert_eq!(of_group[0].2, of_group[1].2);
        assert_ne!(of_group[0].2, thread::current().id());
    }
    drop(running); // asks them to stop
}

/// Two groups that would sleep for hours wake each other at once, thousands of times.
#[test]
fn doorbells_lose_no_wake_up() {
    const ROUNDS: u64 = 5_000;
    let mut there = Builder::new("there", 1);
    let mut back = Builder::new("back", 1);
    let (asked, mut answered) = (there.gating("answers"), back.gating("asks"));
    let ((mut ask, _), (answer, _)) = (there.build(), back.build());
    let (done, is_done) = mpsc::channel();

    let mut round = 0;
    let asks = stage("asks", move |_| {
        let mut work = answered.drain(1, |value, _| assert_eq!(*value, round));
        if round == 0 || work == 1 {
            if round == ROUNDS {
                done.send(())?;
                return Ok(work);
            }
            round += 1;
            ask.try_publish(round)?;
            work += 1;
        }
        Ok(work)
    });
    let deep_sleep = IdleStrategy::Backoff { spins: 0, yields: 0, park_max: FOREVER * 64 };
    let running = launch(
        vec![
            Group::new("asks", vec![asks], deep_sleep),
            Group::new("answers", vec![pass_on(asked, answer)], deep_sleep),
        ],
        clock(),
    );
    wait(&running, &is_done);
    running.stop();
    running.join().unwrap();
}

/// An agent that reports whether its last turn was held up for want of room.
struct Aware<F> {
    work: F,
    held_up: bool,
}

impl<F: FnMut(&mut bool) -> usize + Send + 'static> Agent for Aware<F> {
    fn name(&self) -> &str {
        "aware"
    }

    fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
        self.held_up = false;
        Ok((self.work)(&mut self.held_up))
    }

    fn is_held_up(&self) -> bool {
        self.held_up
    }
}

fn aware(work: impl FnMut(&mut bool) -> usize + Send + 'static) -> Box<dyn Agent> {
    Box::new(Aware { work, held_up: false })
}

/// Groups that would sleep for hours, with known wake targets, pass thousands of values on through
/// rings of one slot: readers wake for work, writers for room. A group that is no wake target
/// sleeps on.
#[test]
fn wake_targets_wake_for_work_and_for_room_and_no_other_group_does() {
    const COUNT: u64 = 5_000;
    let lane = |name| {
        let mut builder = Builder::new(name, 1);
        let consumer = builder.gating("next");
        (builder.build().0, consumer)
    };
    let (mut first, mut second_in) = lane("first");
    let (mut second, mut last) = lane("second");
    let (done, is_done) = mpsc::channel();
    let mut next = 1_u64;
    let source = aware(move |held_up| {
        let before = next;
        while next <= COUNT {
            if first.try_publish(next).is_err() {
                *held_up = true;
                break;
            }
            next += 1;
        }
        (next - before) as usize
    });
    let hands_on = aware(move |held_up| {
        second_in.poll(16, |value, _| match second.try_publish(*value) {
            Ok(_) => Flow::Continue,
            Err(_) => {
                *held_up = true;
                Flow::Hold
            }
        })
    });
    let sink = aware(move |_| {
        let work = last.drain(16, |value, _| {
            if *value == COUNT {
                done.send(()).unwrap();
            }
        });
        // Slow, so that the others run into full rings and fall asleep there.
        thread::sleep(Duration::from_micros(if work > 0 { 20 } else { 0 }));
        work
    });
    let turns = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&turns);
    let bystander = aware(move |_| {
        counted.fetch_add(1, SeqCst);
        0
    });
    let deep_sleep = IdleStrategy::Backoff { spins: 0, yields: 0, park_max: FOREVER * 64 };
    let group = |name, agent, readers: &[usize], writers: &[usize]| {
        let mut group = Group::new(name, vec![agent], deep_sleep);
        let (readers, writers) = (readers.to_vec(), writers.to_vec());
        group.wake_targets = Some(WakeTargets { readers, writers });
        group
    };
    let running = launch(
        vec![
            group("source", source, &[1], &[]),
            group("hands on", hands_on, &[2], &[0]),
            group("sink", sink, &[], &[1]),
            group("bystander", bystander, &[], &[]),
        ],
        clock(),
    );
    wait(&running, &is_done);
    let turns = turns.load(SeqCst);
    running.stop();
    running.join().unwrap();
    assert!(turns <= 2, "the bystander was woken: {turns} turns");
}

/// Sleeps in no time and adds up the time asked for; after `total` it sleeps for good.
struct FakeParker {
    slept: Duration,
    parks: Arc<AtomicU64>,
    total: Duration,
    over: mpsc::Sender<()>,
    really: ThreadParker,
}

impl Parker for FakeParker {
    fn park(&mut self, at_most: Duration) {
        if self.slept < self.total {
            self.slept += at_most;
            self.parks.fetch_add(1, SeqCst);
        } else {
            self.over.send(()).unwrap();
            self.really.park(Duration::MAX);
        }
    }

    fn unparker(&self) -> Arc<dyn Unparker> {
        self.really.unparker()
    }
}

/// Ten idle seconds cost a group a few thousand turns: far under 5 % of a core at any price of a
/// turn up to 100 µs.
#[test]
fn idle_group_takes_few_turns() {
    for (threads, cores) in [(1, 8), (4, 4), (4, 1)] {
        let turns = Arc::new(AtomicU64::new(0));
        let parks = Arc::new(AtomicU64::new(0));
        let (over, is_over) = mpsc::channel();
        let counted = Arc::clone(&turns);
        let agent = stage("idle", move |_| {
            counted.fetch_add(1, SeqCst);
            Ok(0)
        });
        let idle = IdleStrategy::adaptive(threads, cores);
        let mut group = Group::new("idle", vec![agent], idle);
        group.parker = Box::new(FakeParker {
            slept: Duration::ZERO,
            parks: Arc::clone(&parks),
            total: Duration::from_secs(10),
            over,
            really: ThreadParker::default(),
        });
        let running = launch(vec![group], clock());
        wait(&running, &is_over);
        let (turns, parks) = (turns.load(SeqCst), parks.load(SeqCst));
        running.stop();
        running.join().unwrap();

        // Before each park two turns, and before the first one the turns of spinning and yielding.
        assert!((1_000..1_010).contains(&parks), "{parks} parks of at most 10 ms in 10 s");
        assert!(turns <= 2 * (parks + 1) + 2_008, "{turns} turns and {parks} parks");
    }
}
