//! Perturbations: places where a simulation chooses in place of a stage.
//!
//! Invariant: every choice is correct; a perturbation changes timing and never results.

use std::sync::{Arc, Mutex, PoisonError};

/// A place where a stage may choose, and every choice is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whim {
    /// The sequencer takes fewer commands than it could.
    ShortSequencerTurn,
    /// The sequencer reads another source first.
    OtherSourceFirst,
    /// The journaler commits fewer inputs than there are.
    ShortCommit,
    /// The journaler hands a batch on before the commit does.
    EarlyFlush,
    /// The journaler records a state hash a turn later.
    LateNote,
    /// The core takes fewer inputs than there are.
    ShortEngineTurn,
    /// The core finds no room for its events and keeps them.
    KeptEvents,
    /// The core publishes a checkpoint early.
    EarlyCheckpoint,
    /// A snapshot is made early.
    EarlySnapshot,
    /// The follower reads fewer records than it could.
    ShortSnapshotTurn,
}

impl Whim {
    pub const ALL: [Self; 10] = [
        Self::ShortSequencerTurn,
        Self::OtherSourceFirst,
        Self::ShortCommit,
        Self::EarlyFlush,
        Self::LateNote,
        Self::ShortEngineTurn,
        Self::KeptEvents,
        Self::EarlyCheckpoint,
        Self::EarlySnapshot,
        Self::ShortSnapshotTurn,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ShortSequencerTurn => "short-sequencer-turn",
            Self::OtherSourceFirst => "other-source-first",
            Self::ShortCommit => "short-commit",
            Self::EarlyFlush => "early-flush",
            Self::LateNote => "late-note",
            Self::ShortEngineTurn => "short-engine-turn",
            Self::KeptEvents => "kept-events",
            Self::EarlyCheckpoint => "early-checkpoint",
            Self::EarlySnapshot => "early-snapshot",
            Self::ShortSnapshotTurn => "short-snapshot-turn",
        }
    }
}

/// What the simulator chooses in place of a stage, so that what seldom happens happens often. A venue
/// that serves has none: then each question is a look at an `Option`, once a turn.
#[derive(Clone, Default)]
pub struct Whims(Option<Arc<Mutex<Chance>>>);

/// Draws a number below its argument, which is at least 1.
pub type Draw = Box<dyn FnMut(u64) -> u64 + Send>;

struct Chance {
    draw: Draw,
    /// One turn in so many.
    rarity: u64,
    counts: [u64; Whim::ALL.len()],
}

impl Whims {
    /// Each strikes one turn in `rarity`, at least 1, as `draw` decides.
    pub fn of(draw: Draw, rarity: u64) -> Self {
        let counts = [0; Whim::ALL.len()];
        Self(Some(Arc::new(Mutex::new(Chance { draw, rarity, counts }))))
    }

    pub fn counts(&self) -> [u64; Whim::ALL.len()] {
        let counts = |chance: &mut Chance| Some(chance.counts);
        self.with(counts).unwrap_or_default()
    }

    /// True if the stage is to choose otherwise than it would.
    pub(super) fn strike(&self, whim: Whim) -> bool {
        self.with(|chance| chance.strikes(whim).then_some(())).is_some()
    }

    /// As [`strike`](Self::strike), for what takes long: once in thirty times.
    pub(super) fn strike_rarely(&self, whim: Whim) -> bool {
        let rarely = |chance: &mut Chance| {
            let strikes = (chance.draw)(30) == 0 && chance.strikes(whim);
            strikes.then_some(())
        };
        self.with(rarely).is_some()
    }

    /// As many as usual, or fewer, but one at least if that is usual.
    pub(super) fn at_most(&self, whim: Whim, usual: usize) -> usize {
        let fewer = |chance: &mut Chance| {
            let strikes = usual > 1 && chance.strikes(whim);
            strikes.then(|| 1 + (chance.draw)(usual.min(8) as u64 - 1) as usize)
        };
        self.with(fewer).unwrap_or(usual)
    }

    fn with<T>(&self, ask: impl FnOnce(&mut Chance) -> Option<T>) -> Option<T> {
        let chance = self.0.as_ref()?;
        ask(&mut chance.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Chance {
    fn strikes(&mut self, whim: Whim) -> bool {
        let strikes = (self.draw)(self.rarity) == 0;
        self.counts[whim as usize] += u64::from(strikes);
        strikes
    }
}
