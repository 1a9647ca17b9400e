//! Idle strategies of a thread (spin, yield or park), and the doorbells that wake parked groups.
//!
//! Invariant: no wake-up is lost. A group that parks either finds the work in its last turn or is
//! woken for it.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    failpoint::{Failpoint, failpoint},
    sync::{AtomicU8, Ordering, fence},
};

/// The action of a group after a turn in which none of its agents had work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleStrategy {
    /// Continues at once: the lowest latency. Takes a whole core, and delays all other threads if no core is free.
    Spin,
    /// Offers the core to other threads, then continues. Takes a whole core if no other thread needs it.
    Yield,
    /// Spins, then yields, then parks longer and longer until there is work.
    Backoff {
        /// Empty turns after which the group stops spinning.
        spins: u32,
        /// Further empty turns after which the group stops yielding.
        yields: u32,
        /// Longest time to park, and so the interval of the turns of an agent that no bell wakes.
        /// The first time is a 64th of it.
        park_max: Duration,
    },
}

impl IdleStrategy {
    /// Backs off in a way that suits `threads` busy threads on `cores` cores.
    ///
    /// Spinning helps only if each thread has a core: with more threads than cores, a spinning thread
    /// keeps the core from the thread that has the work. Idle groups always park in the end, at most
    /// 10 ms at a time, so an idle venue costs little CPU time.
    ///
    /// ```
    /// use ring::IdleStrategy::{self, Backoff};
    ///
    /// assert!(matches!(IdleStrategy::adaptive(4, 8), Backoff { spins: 2000, .. }));
    /// assert!(matches!(IdleStrategy::adaptive(4, 1), Backoff { spins: 0, .. }));
    /// ```
    #[must_use]
    pub const fn adaptive(threads: usize, cores: usize) -> Self {
        let (spins, yields) = if threads < cores {
            (2_000, 8)
        } else if threads == cores {
            (200, 4)
        } else {
            (0, 2)
        };
        Self::Backoff { spins, yields, park_max: Duration::from_millis(10) }
    }
}

/// The action after an empty turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Spin,
    Yield,
    Park(Duration),
}

/// The progress of a group's backing off.
pub(crate) struct Idling {
    strategy: IdleStrategy,
    /// Empty turns since the last turn with work, as far as they matter.
    empty_turns: u32,
    /// The time that it parked last; zero if it has not parked since the last turn with work.
    parked: Duration,
}

impl Idling {
    pub(crate) fn new(strategy: IdleStrategy) -> Self {
        Self { strategy, empty_turns: 0, parked: Duration::ZERO }
    }

    /// Starts again after a turn with work.
    #[inline]
    pub(crate) fn worked(&mut self) {
        self.empty_turns = 0;
        self.parked = Duration::ZERO;
    }

    /// The action after one more empty turn.
    pub(crate) fn next(&mut self) -> Wait {
        let IdleStrategy::Backoff { spins, yields, park_max } = self.strategy else {
            return if self.strategy == IdleStrategy::Spin { Wait::Spin } else { Wait::Yield };
        };
        let empty_turns = self.empty_turns;
        if empty_turns < spins.saturating_add(yields) {
            self.empty_turns += 1;
            return if empty_turns < spins { Wait::Spin } else { Wait::Yield };
        }
        self.parked = (self.parked * 2).max(park_max / 64).min(park_max);
        Wait::Park(self.parked)
    }
}

/// Puts a group's thread to sleep. A parker that watches sockets also wakes for those.
pub trait Parker: Send {
    /// Sleeps until unparked, or until `at_most` has passed, or for no reason at all. Returns at
    /// once if it was unparked since the last `park` returned.
    fn park(&mut self, at_most: Duration);
    /// The handle that wakes the parker. Called once, before the group's thread starts.
    fn unparker(&self) -> Arc<dyn Unparker>;
}

/// Wakes a [`Parker`].
pub trait Unparker: Send + Sync {
    /// Makes the current `park`, or else the next one, return.
    fn unpark(&self);
}

/// A [`Parker`] that waits only for its unparker.
///
/// ```
/// use ring::{Parker, ThreadParker};
/// use std::time::Duration;
///
/// let mut parker = ThreadParker::default();
/// parker.unparker().unpark();
/// parker.park(Duration::MAX); // returns at once
/// ```
#[derive(Default)]
pub struct ThreadParker(Arc<Token>);

#[derive(Default)]
struct Token {
    given: Mutex<bool>,
    gave: Condvar,
}

impl Token {
    fn lock(&self) -> MutexGuard<'_, bool> {
        // No code panics with the lock held, and a bool has no intermediate state.
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parker for ThreadParker {
    fn park(&mut self, at_most: Duration) {
        let given = self.0.lock();
        let wait = self.0.gave.wait_timeout_while(given, at_most, |given| !*given);
        *wait.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    fn unparker(&self) -> Arc<dyn Unparker> {
        Arc::clone(&self.0) as Arc<dyn Unparker>
    }
}

impl Unparker for Token {
    fn unpark(&self) {
        *self.lock() = true;
        self.gave.notify_one();
    }
}

/// The doorbells of groups on different threads: a group that has worked wakes groups that are parked.
///
/// A group that wants to park *marks* itself parked, takes one more turn, and parks if that turn
/// was empty too. A group that has worked *rings* for marked groups: always for the readers of its
/// rings; for the writers of the rings it reads only if they are marked as held up, since other
/// writers lack work and not room. Between its two steps each side has a sequentially consistent
/// fence, so at least one side sees the other's write, "I am parked" or "there is work": either the
/// last turn finds the work, or the bell rings. The unparker remembers, so a bell that rings before
/// the park ends it at once. This is the one place where release and acquire are not enough: each
/// side writes first and reads second.
pub struct Doorbells(Box<[Doorbell]>);

#[repr(align(128))]
struct Doorbell {
    /// One of the three below.
    parked: AtomicU8,
    unparker: Arc<dyn Unparker>,
}

const AWAKE: u8 = 0;
const PARKED: u8 = 1;
const HELD_UP: u8 = 2;

/// The groups that wait for a group. A group in neither list does not wait for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WakeTargets {
    /// Groups that read the rings or cursors of the group.
    pub readers: Vec<usize>,
    /// Groups that write the rings that the group reads, and may wait for room in them.
    pub writers: Vec<usize>,
}

impl Doorbells {
    /// One for each group, in the order of the groups.
    #[must_use]
    pub fn new(unparkers: impl IntoIterator<Item = Arc<dyn Unparker>>) -> Self {
        let doorbell = |unparker| Doorbell { parked: AtomicU8::new(AWAKE), unparker };
        Self(unparkers.into_iter().map(doorbell).collect())
    }

    /// Marks that `group` will park unless its next turn finds work, or finds the group held up.
    /// That turn must follow.
    pub fn mark_parked(&self, group: usize) {
        self.mark(group, PARKED);
    }

    /// Marks that `group`, which waits for room in a ring, will park unless its next turn finds
    /// work. That turn must follow.
    pub fn mark_held_up(&self, group: usize) {
        self.mark(group, HELD_UP);
    }

    fn mark(&self, group: usize, parked: u8) {
        self.0[group].parked.store(parked, Ordering::Relaxed);
        meet(); // pairs with the ones in `ring_others` and `ring`
    }

    /// Marks that `group` is awake.
    pub fn clear(&self, group: usize) {
        self.0[group].parked.store(AWAKE, Ordering::Relaxed);
    }

    /// Wakes every marked group except `group`; each of them sees all earlier writes of `group`.
    #[inline]
    pub fn ring_others(&self, group: usize) {
        if self.0.len() < 2 {
            return;
        }
        meet(); // pairs with the one in `mark`
        for (index, doorbell) in self.0.iter().enumerate() {
            if index != group {
                doorbell.ring(PARKED);
            }
        }
    }

    /// Wakes the marked groups among these, writers only if they are held up; each of them sees all
    /// earlier writes of the caller.
    #[inline]
    pub fn ring(&self, wake_targets: &WakeTargets) {
        if wake_targets.readers.is_empty() && wake_targets.writers.is_empty() {
            return;
        }
        meet(); // pairs with the one in `mark`
        for reader in &wake_targets.readers {
            self.0[*reader].ring(PARKED);
        }
        for writer in &wake_targets.writers {
            self.0[*writer].ring(HELD_UP);
        }
    }

    /// Wakes every group, marked or not.
    pub fn ring_all(&self) {
        for doorbell in &self.0 {
            doorbell.unparker.unpark();
        }
    }
}

impl Doorbell {
    /// Wakes the group if its mark is at least this one.
    #[inline]
    fn ring(&self, at_least: u8) {
        // Loaded first: a swap takes the cache line away from the group that owns it.
        if self.parked.load(Ordering::Relaxed) >= at_least
            && self.parked.swap(AWAKE, Ordering::Relaxed) != AWAKE
        {
            self.unparker.unpark();
        }
    }
}

#[inline]
fn meet() {
    if !failpoint(Failpoint::NoDoorbellFence) {
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Backing off spins, yields, and then parks twice as long each time, up to the longest.
    #[test]
    fn backoff_goes_from_spin_over_yield_to_longer_and_longer_parks() {
        let park_max = Duration::from_millis(1);
        let mut idling = Idling::new(IdleStrategy::Backoff { spins: 2, yields: 1, park_max });
        for _ in 0..2 {
            assert_eq!(idling.next(), Wait::Spin);
            assert_eq!(idling.next(), Wait::Spin);
            assert_eq!(idling.next(), Wait::Yield);
            for doubled in 0..6 {
                assert_eq!(idling.next(), Wait::Park(park_max / 64 * (1 << doubled)));
            }
            assert_eq!(idling.next(), Wait::Park(park_max));
            assert_eq!(idling.next(), Wait::Park(park_max));
            idling.worked();
        }
    }

    /// The other two strategies never change.
    #[test]
    fn spin_and_yield_stay_what_they_are() {
        let mut spinning = Idling::new(IdleStrategy::Spin);
        let mut yielding = Idling::new(IdleStrategy::Yield);
        for _ in 0..10_000 {
            assert_eq!(spinning.next(), Wait::Spin);
            assert_eq!(yielding.next(), Wait::Yield);
        }
    }

    /// The strategy chosen for a machine always parks in the end, and spins only with cores to
    /// spare.
    #[test]
    fn adaptive_spins_less_with_fewer_cores_and_always_parks() {
        let mut spins_before = u32::MAX;
        for (threads, cores) in [(1, 64), (4, 8), (4, 4), (5, 4), (4, 1)] {
            let IdleStrategy::Backoff { spins, park_max, .. } =
                IdleStrategy::adaptive(threads, cores)
            else {
                panic!("{threads} threads on {cores} cores do not park");
            };
            assert!(spins <= spins_before && (threads <= cores || spins == 0));
            assert!(park_max >= Duration::from_millis(1));
            spins_before = spins;
        }
    }
}
