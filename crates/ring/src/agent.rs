//! Agents, the groups that share a thread, and the threads.
//!
//! Invariant: an agent is only ever called by the thread of its group, and never waits inside a turn.
//! The first failure stops all groups, and every agent is closed.

use std::{
    any::Any,
    error::Error,
    fmt, hint, mem, panic,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crate::idle::{Doorbells, IdleStrategy, Idling, Parker, ThreadParker, Wait, WakeTargets};

/// The error with which an agent stops all groups.
pub type AgentError = Box<dyn Error + Send + Sync>;

/// A stage of the exchange: does one turn of work when asked, and never waits.
///
/// An agent that cannot proceed (a full ring, a socket that takes no more) keeps its data and
/// returns. So agents can share a thread in any number and order.
pub trait Agent: Any + Send {
    /// The agent's name in thread lists, figures and failures.
    fn name(&self) -> &str;

    /// One turn at `now_ns` (Unix time in nanoseconds): a bounded batch of the available work. Returns
    /// the amount of work done, 0 for none; anything that another agent may wait for (a published value,
    /// a freed slot, a moved cursor) counts as work.
    ///
    /// # Errors
    /// The agent cannot continue. All groups stop.
    fn do_work(&mut self, now_ns: u64) -> Result<usize, AgentError>;

    /// Called before each turn: `true` if agents with earlier turns on this thread did work. The
    /// agent should then postpone checks that can wait, such as a look at an idle socket, so as not
    /// to delay that work.
    fn note_busy(&mut self, _is_busy: bool) {}

    /// True if the last turn left work undone because a ring was full, so that a reader that frees slots
    /// should wake this agent. An agent that does not know returns true, and is woken too often.
    fn is_held_up(&self) -> bool {
        true
    }

    /// Closes the agent: all groups have stopped, perhaps because an agent failed, perhaps this
    /// one.
    fn close(&mut self) {}
}

impl fmt::Debug for dyn Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The source of the time.
pub trait Clock: Send + Sync {
    /// Unix time in nanoseconds.
    fn now_ns(&self) -> u64;
}

/// The failure of an agent.
#[derive(Debug)]
pub struct AgentFailure {
    /// The agent's name.
    pub agent: String,
    /// The reason.
    pub error: AgentError,
}

impl fmt::Display for AgentFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stopped: {}", self.agent, self.error)
    }
}

impl Error for AgentFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.error)
    }
}

/// Goes round a group of agents on the calling thread.
///
/// [`launch`] runs one on each thread; a simulator runs one by hand, with a clock of its own:
///
/// ```
/// use ring::{Agent, AgentError, Clock, Runner};
/// use std::sync::Arc;
///
/// struct Midnight;
/// impl Clock for Midnight {
///     fn now_ns(&self) -> u64 { 0 }
/// }
///
/// struct Countdown(usize);
/// impl Agent for Countdown {
///     fn name(&self) -> &str { "countdown" }
///     fn do_work(&mut self, _now_ns: u64) -> Result<usize, AgentError> {
///         let work = self.0.min(1);
///         self.0 -= work;
///         Ok(work)
///     }
/// }
///
/// let mut runner = Runner::new(vec![Box::new(Countdown(2)), Box::new(Countdown(1))], Arc::new(Midnight));
/// assert_eq!(runner.turn()?, 2);
/// assert_eq!(runner.turn()?, 1);
/// assert_eq!(runner.turn()?, 0);
/// runner.close();
/// # Ok::<(), ring::AgentFailure>(())
/// ```
pub struct Runner {
    agents: Vec<Box<dyn Agent>>,
    clock: Arc<dyn Clock>,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    RunningAgents,
    Failed,
    Closed,
}

impl Runner {
    /// A runner for agents in the order of their turns. Dropping it without [`close`](Self::close)
    /// simulates a crash: no agent is closed.
    #[must_use]
    pub fn new(agents: Vec<Box<dyn Agent>>, clock: Arc<dyn Clock>) -> Self {
        Self { agents, clock, life: Life::RunningAgents }
    }

    /// One turn of each agent, all at the same time of the clock. Returns the sum of their work.
    ///
    /// # Errors
    /// The first failure; later agents of the round have no turn.
    ///
    /// # Panics
    /// An agent has failed before, or all are closed.
    #[inline]
    pub fn turn(&mut self) -> Result<usize, AgentFailure> {
        assert!(self.life == Life::RunningAgents, "a turn after the end: {:?}", self.life);
        let now_ns = self.clock.now_ns();
        let mut work = 0;
        for agent in &mut self.agents {
            agent.note_busy(work > 0);
            match agent.do_work(now_ns) {
                Ok(done) => work += done,
                Err(error) => {
                    self.life = Life::Failed;
                    return Err(AgentFailure { agent: agent.name().to_owned(), error });
                }
            }
        }
        Ok(work)
    }

    /// True if an agent's last turn left work undone for want of room in a ring.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.agents.iter().any(|agent| agent.is_held_up())
    }

    /// Closes every agent, in order. A second call has no effect.
    pub fn close(&mut self) {
        if self.life != Life::Closed {
            self.life = Life::Closed;
            self.agents.iter_mut().for_each(|agent| agent.close());
        }
    }
}

/// Agents that share a thread.
pub struct Group {
    /// Name of the thread; systems show the first 15 bytes.
    pub name: String,
    /// The agents, in the order of their turns.
    pub agents: Vec<Box<dyn Agent>>,
    /// The action after an empty turn.
    pub idle: IdleStrategy,
    /// The means to sleep.
    pub parker: Box<dyn Parker>,
    /// The groups of the launch, by number, that wait for the work of this group; `None` means all.
    pub wake_targets: Option<WakeTargets>,
    /// Runs first on the thread, for example to bind it to a core.
    pub on_start: Option<Box<dyn FnOnce() + Send>>,
}

impl Group {
    /// A group that sleeps with a [`ThreadParker`].
    #[must_use]
    pub fn new(name: impl Into<String>, agents: Vec<Box<dyn Agent>>, idle: IdleStrategy) -> Self {
        let parker = Box::new(ThreadParker::default());
        Self { name: name.into(), agents, idle, parker, wake_targets: None, on_start: None }
    }
}

/// Starts a thread for each group.
///
/// A thread that cannot be started stops the others and is the failure that
/// [`join`](RunningAgents::join) returns, under the name of its group.
///
/// # Panics
/// A wake target is not a group of this launch.
#[must_use]
pub fn launch(groups: Vec<Group>, clock: Arc<dyn Clock>) -> RunningAgents {
    for WakeTargets { readers, writers } in groups.iter().filter_map(|it| it.wake_targets.as_ref())
    {
        let are_there = readers.iter().chain(writers).all(|number| *number < groups.len());
        assert!(are_there, "a wake target must be one of the {} groups", groups.len());
    }
    let doorbells = Doorbells::new(groups.iter().map(|group| group.parker.unparker()));
    let shared =
        Arc::new(Shared { stopping: AtomicBool::new(false), doorbells, failure: Mutex::new(None) });
    let mut threads = Vec::with_capacity(groups.len());
    for (index, group) in groups.into_iter().enumerate() {
        let name = group.name.clone();
        let (clock, of_thread) = (Arc::clone(&clock), Arc::clone(&shared));
        let thread = thread::Builder::new().name(name.clone());
        match thread.spawn(move || of_thread.run(index, group, clock)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                shared.fail(AgentFailure { agent: name, error: error.into() });
                break;
            }
        }
    }
    RunningAgents { threads, shared }
}

/// Running groups. Dropping this value requests them to stop, and does not wait.
pub struct RunningAgents {
    threads: Vec<JoinHandle<Vec<Box<dyn Agent>>>>,
    shared: Arc<Shared>,
}

impl RunningAgents {
    /// Requests all groups to stop. Each ends its current turn and closes its agents.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// True once an agent has failed or `stop` was called.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Waits until all groups have ended; does not request them to stop. Returns their agents,
    /// group by group; [`take_agent`] finds one by its type.
    ///
    /// # Errors
    /// The first failure of an agent, or of starting a thread.
    ///
    /// # Panics
    /// With the panic of an agent, if one panicked; the others were stopped and closed.
    pub fn join(mut self) -> Result<Vec<Box<dyn Agent>>, AgentFailure> {
        let mut agents = Vec::new();
        let mut panicked: Option<Box<dyn Any + Send>> = None;
        for thread in mem::take(&mut self.threads) {
            match thread.join() {
                Ok(ended) => agents.extend(ended),
                Err(payload) => _ = panicked.get_or_insert(payload),
            }
        }
        if let Some(payload) = panicked {
            panic::resume_unwind(payload);
        }
        self.shared.failure().take().map_or(Ok(agents), Err)
    }
}

impl Drop for RunningAgents {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes the first agent of this type out of those that have ended.
pub fn take_agent<A: Agent>(agents: &mut Vec<Box<dyn Agent>>) -> Option<Box<A>> {
    let place = agents.iter().position(|agent| (&**agent as &dyn Any).is::<A>())?;
    let agent: Box<dyn Any> = agents.remove(place);
    agent.downcast().ok()
}

/// The state that the groups of one launch share.
struct Shared {
    stopping: AtomicBool,
    doorbells: Doorbells,
    /// The first failure.
    failure: Mutex<Option<AgentFailure>>,
}

impl Shared {
    /// The life of a group's thread.
    fn run(&self, index: usize, group: Group, clock: Arc<dyn Clock>) -> Vec<Box<dyn Agent>> {
        let _stop = StopAll(self);
        let Group { agents, idle, mut parker, wake_targets, on_start, name: _ } = group;
        if let Some(on_start) = on_start {
            on_start();
        }
        let mut runner = Runner::new(agents, clock);
        if let Err(failure) =
            self.go_round(index, &mut runner, idle, &mut *parker, wake_targets.as_ref())
        {
            self.fail(failure);
        }
        runner.close();
        runner.agents
    }

    /// Takes turns until all groups must stop or an agent fails.
    fn go_round(
        &self,
        index: usize,
        runner: &mut Runner,
        idle: IdleStrategy,
        parker: &mut dyn Parker,
        wake_targets: Option<&WakeTargets>,
    ) -> Result<(), AgentFailure> {
        let mut idling = Idling::new(idle);
        while !self.is_stopping() {
            let mut work = runner.turn()?;
            if work == 0 {
                match idling.next() {
                    Wait::Spin => hint::spin_loop(),
                    Wait::Yield => thread::yield_now(),
                    Wait::Park(at_most) => {
                        let is_held_up = runner.is_held_up();
                        if is_held_up {
                            self.doorbells.mark_held_up(index);
                        } else {
                            self.doorbells.mark_parked(index);
                        }
                        // This turn finds the work done before the mark; later work rings the bell.
                        // If the group is held up only now, its mark is the wrong one, and it does
                        // not park.
                        work = runner.turn()?;
                        let is_marked_right = is_held_up || !runner.is_held_up();
                        if work == 0 && is_marked_right && !self.is_stopping() {
                            parker.park(at_most);
                        }
                        self.doorbells.clear(index);
                    }
                }
            }
            if work > 0 {
                idling.worked();
                match wake_targets {
                    Some(wake_targets) => self.doorbells.ring(wake_targets),
                    None => self.doorbells.ring_others(index),
                }
            }
        }
        Ok(())
    }

    fn stop(&self) {
        // Release, pairs with the Acquire in `is_stopping`. A group that parks is marked or not,
        // and is woken in either case: the unparker remembers.
        self.stopping.store(true, Ordering::Release);
        self.doorbells.ring_all();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) // pairs with the Release in `stop`
    }

    fn fail(&self, failure: AgentFailure) {
        self.failure().get_or_insert(failure);
        self.stop();
    }

    fn failure(&self) -> MutexGuard<'_, Option<AgentFailure>> {
        // No code panics with the lock held.
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops all groups when one has ended, even by a panic.
struct StopAll<'a>(&'a Shared);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
