//! The stages between the edges: one turn of work each, never a wait inside a turn.

mod perturbation;
mod schedule;
mod sequencer;
mod journaler;
mod digester;
mod load_shedding;
mod engine;
mod snapshots;
mod following;
mod feed_history;
mod reply_history;

pub use digester::{Checkpoint, Digester};
pub use engine::{EngineStage, Progress};
pub use feed_history::FeedHistory;
pub use following::Following;
pub use journaler::Journaler;
pub use load_shedding::{JournalFigures, LoadShedding, journal_status};
pub use perturbation::{Draw, Perturbation, Perturbations};
pub use reply_history::ReplyHistory;
pub use schedule::Schedule;
pub use sequencer::Sequencer;
pub use snapshots::{SnapshotFigures, SnapshotPlan, Snapshots};

/// The most work that one stage does in one turn, so that the other stages of its thread get their turns.
const TURN_LIMIT: usize = 1024;
