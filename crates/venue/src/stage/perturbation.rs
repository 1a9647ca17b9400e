//! Perturbations: points at which a simulation chooses in place of a stage.
//!
//! Invariant: every choice is correct; a perturbation changes timing and never results.

use std::sync::{Arc, Mutex, PoisonError};

/// A point at which a stage may choose, and every choice is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Perturbation {
    /// The sequencer takes fewer commands than it could.
    ShortSequencerTurn,
    /// The sequencer reads another source first.
    OtherSourceFirst,
    /// The journaler commits fewer inputs than there are.
    ShortCommit,
    /// The journaler passes a batch on before the commit does.
    EarlyFlush,
    /// The journaler hashes events a turn later.
    LateDigest,
    /// The core takes fewer inputs than there are.
    ShortEngineTurn,
    /// The core finds no room for its events and keeps them.
    KeptEvents,
    /// The core looks up the data of its inputs although few orders are live.
    EarlyLookups,
    /// The core notes its progress early.
    EarlyCheckpoint,
    /// A snapshot is made early.
    EarlySnapshot,
    /// The follower reads fewer records than it could.
    ShortSnapshotTurn,
}

impl Perturbation {
    pub const ALL: [Self; 11] = [
        Self::ShortSequencerTurn,
        Self::OtherSourceFirst,
        Self::ShortCommit,
        Self::EarlyFlush,
        Self::LateDigest,
        Self::ShortEngineTurn,
        Self::KeptEvents,
        Self::EarlyLookups,
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
            Self::LateDigest => "late-digest",
            Self::ShortEngineTurn => "short-engine-turn",
            Self::KeptEvents => "kept-events",
            Self::EarlyLookups => "early-lookups",
            Self::EarlyCheckpoint => "early-checkpoint",
            Self::EarlySnapshot => "early-snapshot",
            Self::ShortSnapshotTurn => "short-snapshot-turn",
        }
    }
}

/// The choices of a simulation in place of a stage, so that rare cases are common. A production venue has
/// none: a stage then checks an `Option` once a turn.
#[derive(Clone, Default)]
pub struct Perturbations(Option<Arc<Mutex<Chance>>>);

/// Draws a number below its argument, which is at least 1.
pub type Draw = Box<dyn FnMut(u64) -> u64 + Send>;

struct Chance {
    draw: Draw,
    /// One turn in this many.
    rarity: u64,
    counts: [u64; Perturbation::ALL.len()],
}

impl Perturbations {
    /// Each perturbation happens in one of `rarity` turns (at least 1), as `draw` decides.
    pub fn of(draw: Draw, rarity: u64) -> Self {
        let counts = [0; Perturbation::ALL.len()];
        Self(Some(Arc::new(Mutex::new(Chance { draw, rarity, counts }))))
    }

    pub fn counts(&self) -> [u64; Perturbation::ALL.len()] {
        let counts = |chance: &mut Chance| Some(chance.counts);
        self.with(counts).unwrap_or_default()
    }

    /// True if the stage must deviate from the usual.
    pub(super) fn happens(&self, perturbation: Perturbation) -> bool {
        self.with(|chance| chance.draws(perturbation).then_some(())).is_some()
    }

    /// As [`happens`](Self::happens), for slow work: a thirtieth as often.
    pub(super) fn happens_rarely(&self, perturbation: Perturbation) -> bool {
        let rarely = |chance: &mut Chance| {
            let happens = (chance.draw)(30) == 0 && chance.draws(perturbation);
            happens.then_some(())
        };
        self.with(rarely).is_some()
    }

    /// The usual number, or a lower one; at least 1 if `usual` is.
    pub(super) fn at_most(&self, perturbation: Perturbation, usual: usize) -> usize {
        let fewer = |chance: &mut Chance| {
            let happens = usual > 1 && chance.draws(perturbation);
            happens.then(|| 1 + (chance.draw)(usual.min(8) as u64 - 1) as usize)
        };
        self.with(fewer).unwrap_or(usual)
    }

    fn with<T>(&self, ask: impl FnOnce(&mut Chance) -> Option<T>) -> Option<T> {
        let chance = self.0.as_ref()?;
        ask(&mut chance.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Chance {
    fn draws(&mut self, perturbation: Perturbation) -> bool {
        let happens = (self.draw)(self.rarity) == 0;
        self.counts[perturbation as usize] += u64::from(happens);
        happens
    }
}
