//! The chain that carries every command: submissions, sequencer, journaler beside engine, outputs. `serve`, `run`,
//! `demo`, the benches and the simulator all build it here.
//!
//! ```text
//! sources ─▶ submissions ─▶ sequencer ─▶ inputs ─┬▶ journaler ─▶ durable cursor ─┐
//!                             ▲    ▲             │                               ▼
//!                             │    └─ refusing ──┘                            readers
//!                             └────── due ─────────── engine ─▶ outputs ─────────▲
//!                                                                  └─▶ journaler ─▶ checkpoints
//! ```
//!
//! Invariant: a reader of outputs gets the durable cursor with them, and passes on nothing beyond it.

use std::sync::Arc;

use gateway::Submission;
use journal::{Durability, Writer};
use market::{Command, Input, OutputLine};
use ring::{AtomicGauge, Consumer, Cursor, LossyConsumer, Producer, Words};
use serde::Deserialize;

use crate::{
    layout::{AgentName, Agents},
    log::LocalLog,
    operator::Answered,
    snapshot::VenueState,
    stage::{
        Checkpoint, Digester, EngineStage, JournalFigures, Journaler, LoadShedding, Perturbations,
        Schedule, Sequencer,
    },
    stage_times::StageTimes,
    wiring::{Ring, Shared, Wiring},
};

/// Slots of the ring of checkpoints; it is lossy, so more would only hold older ones.
pub const CHECKPOINT_SLOTS: usize = 64;

/// The most bytes of an input in the journal: in a batch of its own, with the longest command.
const INPUT_BYTES: usize = journal::single_record_len_max(Command::ENCODED_LEN_MAX);

/// `[rings]`: slots of each ring, a power of two. A full ring stops its writer, which keeps its data; nothing is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RingSlots {
    /// From each source of commands to the sequencer. Default 4096.
    pub submissions: usize,
    /// From the sequencer to journaler and engine. Default 8192.
    pub inputs: usize,
    /// From the engine to the readers of its events. Default 16384.
    pub outputs: usize,
}

impl Default for RingSlots {
    fn default() -> Self {
        Self { submissions: 4096, inputs: 8192, outputs: 16_384 }
    }
}

/// The settings of a chain's stages.
pub struct CoreOptions {
    /// The durability of an input before its outputs leave.
    pub durability: Durability,
    /// Inputs between two event digests in the journal; 0 is never.
    pub digest_every: u64,
    /// Commands that the venue gives at times of the day.
    pub schedule: Option<Schedule>,
    /// True if time passes without commands, so that orders expire. False for commands that have their own times.
    pub has_clock: bool,
    /// The settings for rejecting new orders on a full or slow disk. `None` is never: a full disk then ends the run.
    pub load_shedding: Option<LoadSheddingOptions>,
    /// The ring for the results of operators' commands, if there is a desk for operators.
    pub results: Option<Producer<Answered>>,
    pub perturbations: Perturbations,
}

impl CoreOptions {
    /// The options of a chain that rejects no orders and records no digest.
    pub fn new(durability: Durability) -> Self {
        Self {
            durability,
            digest_every: 0,
            schedule: None,
            has_clock: true,
            load_shedding: None,
            results: None,
            perturbations: Perturbations::default(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct LoadSheddingOptions {
    /// New orders are rejected while inputs wait longer than this for the journal, in nanoseconds; 0 is never.
    pub slow_ns: u64,
}

/// A chain being wired: sources and readers attach to it before it is built.
pub struct Core {
    slots: RingSlots,
    wiring: Wiring,
    sources: Vec<Consumer<Submission>>,
    /// The writer of each source; `None` is outside the layout.
    source_writers: Vec<Option<AgentName>>,
    outputs: Ring<OutputLine>,
    checkpoints: Ring<Checkpoint>,
    durable: Shared<Cursor>,
    applied: Shared<Cursor>,
}

impl Core {
    pub fn new(slots: RingSlots) -> Self {
        Self {
            slots,
            wiring: Wiring::default(),
            sources: Vec::new(),
            source_writers: Vec::new(),
            outputs: Ring::new("outputs", slots.outputs, Some(AgentName::Engine)),
            checkpoints: Ring::new("checkpoints", CHECKPOINT_SLOTS, Some(AgentName::Journaler)),
            durable: Shared::cursor("durable", AgentName::Journaler, 0),
            applied: Shared::cursor("applied", AgentName::Engine, 0),
        }
    }

    /// A source of commands. The sequencer takes from all of them in turn.
    pub fn source(&mut self, name: &'static str, writer: AgentName) -> Producer<Submission> {
        self.submissions(name, self.slots.submissions, Some(writer))
    }

    /// A source of commands outside the layout.
    pub fn source_outside(&mut self, name: &'static str, slots: usize) -> Producer<Submission> {
        self.submissions(name, slots, None)
    }

    fn submissions(
        &mut self,
        name: &'static str,
        slots: usize,
        writer: Option<AgentName>,
    ) -> Producer<Submission> {
        let mut ring = Ring::new(name, slots, writer);
        self.sources.push(ring.gating(AgentName::Sequencer));
        self.source_writers.push(writer);
        ring.build(&mut self.wiring)
    }

    /// A reader of outputs, with the cursor up to which it may pass them on.
    pub fn reader(&mut self, reader: AgentName) -> (Consumer<OutputLine>, Arc<Cursor>) {
        (self.outputs.gating(reader), self.durable.reader(reader))
    }

    /// A ring between two agents beside the chain.
    pub fn ring<T: Copy + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        slots: usize,
        writer: AgentName,
        reader: AgentName,
    ) -> (Producer<T>, Consumer<T>) {
        let mut ring = Ring::new(name, slots, Some(writer));
        let read = ring.gating(reader);
        (ring.build(&mut self.wiring), read)
    }

    /// A ring beside the chain whose reader may fall behind and then loses the overwritten entries.
    pub fn dropping_ring<T: Copy + Send + Sync + Words + 'static>(
        &mut self,
        name: &'static str,
        slots: usize,
        writer: AgentName,
        reader: AgentName,
    ) -> (Producer<T>, LossyConsumer<T>) {
        let mut ring = Ring::new(name, slots, Some(writer));
        let read = ring.dropping(reader);
        (ring.build(&mut self.wiring), read)
    }

    /// A ring beside the chain with only a reader outside the layout, which may lose entries.
    pub fn outside_ring<T: Copy + Send + Sync + Words + 'static>(
        &mut self,
        name: &'static str,
        slots: usize,
        writer: AgentName,
    ) -> (Producer<T>, LossyConsumer<T>) {
        let mut ring = Ring::new(name, slots, Some(writer));
        let read = ring.lossy_outside(name);
        (ring.build(&mut self.wiring), read)
    }

    /// The last input whose events are all in the ring of outputs; not every input has events.
    pub fn applied(&mut self, reader: AgentName) -> Arc<Cursor> {
        self.applied.reader(reader)
    }

    /// The durable cursor and checkpoints of the core, for a reader outside the layout.
    pub fn outside(&mut self, name: &'static str) -> (Arc<Cursor>, LossyConsumer<Checkpoint>) {
        (self.durable.outside(), self.checkpoints.lossy_outside(name))
    }

    /// A cursor between two agents beside the chain: `writer` moves it from 0 on.
    pub fn cursor(
        &mut self,
        name: &'static str,
        writer: AgentName,
        reader: AgentName,
    ) -> (Arc<Cursor>, Arc<Cursor>) {
        let mut cursor = Shared::cursor(name, writer, 0);
        let read = cursor.reader(reader);
        (cursor.build(&mut self.wiring), read)
    }

    /// Builds the stages around a core and a journal at the same input.
    pub fn build(mut self, state: VenueState, writer: Writer, options: CoreOptions) -> Chain {
        let CoreOptions {
            durability,
            digest_every,
            schedule,
            has_clock,
            load_shedding,
            results,
            perturbations,
        } = options;
        let VenueState { engine, digest, archive: _ } = state;
        let unconditional = durability == Durability::None;
        // Before the sequencer notices the hold, it may fill the ring of inputs twice.
        let last_room = (2 * self.slots.inputs * INPUT_BYTES) as u64;
        self.durable.outside().set(if unconditional { u64::MAX } else { engine.sequence().0 });
        let wiring = &mut self.wiring;
        let mut inputs = Ring::new("inputs", self.slots.inputs, Some(AgentName::Sequencer));
        let to_journaler = inputs.gating(AgentName::Journaler);
        let to_engine = inputs.gating(AgentName::Engine);
        let inputs: Producer<Input> = inputs.build(wiring);
        let mut progress = Ring::new("progress", CHECKPOINT_SLOTS, Some(AgentName::Engine));
        let digester = Digester::new(
            self.outputs.gating(AgentName::Journaler),
            self.applied.reader(AgentName::Journaler),
            (engine.sequence(), digest),
            progress.lossy(AgentName::Journaler),
            self.checkpoints.build(wiring),
        );
        let mut due = Shared::gauge("due", AgentName::Engine, u64::MAX);
        let due_of_sequencer = match has_clock {
            true => due.reader(AgentName::Sequencer),
            false => Arc::new(AtomicGauge::new(u64::MAX)),
        };
        let mut refusing = Shared::gauge("refusing", AgentName::Journaler, 0);
        let journaled = Shared::gauge("journaled", AgentName::Journaler, 0);

        let log = LocalLog::new(engine.sequence(), engine.timestamp());
        let stage_times = Arc::new(StageTimes::new(self.source_writers, !unconditional));
        let mut sequencer = Sequencer::new(log, self.sources, inputs, due_of_sequencer)
            .offering(Arc::clone(&stage_times))
            .refusing(refusing.reader(AgentName::Sequencer))
            .with_perturbations(perturbations.clone());
        if let Some(schedule) = schedule {
            sequencer = sequencer.with_schedule(schedule);
        }
        let figures = Arc::new(JournalFigures::new(refusing.build(wiring)));
        let of_outside = journaled.outside();
        let durable = self.durable.build(wiring);
        let mut journaler = Journaler::new(to_journaler, writer, durable, unconditional)
            .telling(journaled.build(wiring))
            .with_digester(digester.recording_every(digest_every))
            .with_perturbations(perturbations.clone());
        if let Some(LoadSheddingOptions { slow_ns }) = load_shedding {
            let figures = Arc::clone(&figures);
            journaler =
                journaler.with_load_shedding(LoadShedding::new(figures, slow_ns, last_room));
        }
        let outputs = self.outputs.build(wiring);
        let applied_outside = self.applied.outside();
        let progress = progress.build(wiring);
        let mut engine = EngineStage::new(to_engine, engine, outputs, progress, due.build(wiring))
            .telling(self.applied.build(wiring))
            .with_perturbations(perturbations);
        if let Some(results) = results {
            engine = engine.answering(results);
        }
        let agents: Agents = Agents::from([
            (AgentName::Sequencer, Box::new(sequencer) as _),
            (AgentName::Journaler, Box::new(journaler) as _),
            (AgentName::Engine, Box::new(engine) as _),
        ]);
        Chain {
            agents,
            wiring: self.wiring,
            journal: figures,
            journaled: of_outside,
            applied: applied_outside,
            stage_times,
        }
    }
}

/// A built chain: its stages, to be joined by the agents around it.
pub struct Chain {
    pub agents: Agents,
    pub wiring: Wiring,
    /// The journal's load shedding figures, for any thread to read.
    pub journal: Arc<JournalFigures>,
    /// Inputs up to here are in the journal, whatever the durability.
    pub journaled: Arc<AtomicGauge>,
    /// The events of inputs up to here are in the ring of outputs.
    pub applied: Arc<Cursor>,
    pub stage_times: Arc<StageTimes>,
}
