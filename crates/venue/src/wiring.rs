//! Rings, cursors and gauges between agents, each with its writer and its readers.
//!
//! Invariant: agents get their ends from here, each under its own name, and an end is registered when its ring, cursor
//! or gauge is built. So the list of edges is complete, and the wake targets of a group follow from it.

use std::sync::Arc;

use ring::{
    AtomicGauge, Builder, Consumer, Cursor, LossyConsumer, Monitor, Producer, WakeTargets, Words,
};

use crate::layout::{AgentGroup, AgentName};

/// One writer and one reader of a ring, a cursor or a gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The name of the ring, the cursor or the gauge.
    pub name: &'static str,
    /// The writer; `None` is outside the layout.
    pub writer: Option<AgentName>,
    /// The reader.
    pub reader: AgentName,
    /// True if a write wakes the reader. The reader of a gauge or of a lossy ring looks when it has a turn anyway.
    pub wakes: bool,
}

/// All edges of a pipeline, and monitors of its rings.
#[derive(Default)]
pub struct Wiring {
    edges: Vec<Edge>,
    monitors: Vec<Monitor>,
}

impl Wiring {
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Monitors of the rings with a reader in the layout, in the order of their creation.
    pub fn monitors(&self) -> &[Monitor] {
        &self.monitors
    }

    /// The groups that wait for the group of this number: for its writes, or for room in a ring that it reads.
    pub fn wake_targets(&self, number: usize, groups: &[AgentGroup]) -> WakeTargets {
        let reads = |writer: &AgentGroup, reader: &AgentGroup| {
            let mut edges = self.edges.iter().filter(|edge| edge.wakes);
            edges.any(|edge| {
                edge.writer.is_some_and(|agent| writer.agents.contains(&agent))
                    && reader.agents.contains(&edge.reader)
            })
        };
        let (mut readers, mut writers) = (Vec::new(), Vec::new());
        let own = &groups[number];
        for (other, group) in groups.iter().enumerate().filter(|(other, _)| *other != number) {
            if reads(own, group) {
                readers.push(other);
            }
            if reads(group, own) {
                writers.push(other);
            }
        }
        WakeTargets { readers, writers }
    }
}

/// A ring under construction.
pub struct Ring<T> {
    name: &'static str,
    writer: Option<AgentName>,
    builder: Builder<T>,
    edges: Vec<Edge>,
}

impl<T: Copy + Send + Sync + 'static> Ring<T> {
    /// A ring of this many slots, a power of two; without a `writer`, it is written from outside the layout.
    pub fn new(name: &'static str, slots: usize, writer: Option<AgentName>) -> Self {
        Self { name, writer, builder: Builder::new(name, slots), edges: Vec::new() }
    }

    /// A reader that gets every entry, and holds the writer up while it is behind.
    pub fn gating(&mut self, reader: AgentName) -> Consumer<T> {
        self.register(reader, true);
        self.builder.gating(reader.as_str())
    }

    /// A reader that the writer wakes, but does not wait for.
    pub fn dropping(&mut self, reader: AgentName) -> LossyConsumer<T>
    where
        T: Words,
    {
        self.register(reader, true);
        self.builder.lossy(reader.as_str())
    }

    /// A reader that the writer neither waits for nor wakes.
    pub fn lossy(&mut self, reader: AgentName) -> LossyConsumer<T>
    where
        T: Words,
    {
        self.register(reader, false);
        self.builder.lossy(reader.as_str())
    }

    /// A lossy reader outside the layout.
    pub fn lossy_outside(&mut self, name: &'static str) -> LossyConsumer<T>
    where
        T: Words,
    {
        self.builder.lossy(name)
    }

    /// The writer's end.
    pub fn build(self, wiring: &mut Wiring) -> Producer<T> {
        let (producer, monitor) = self.builder.build();
        if self.edges.iter().any(|edge| edge.wakes) {
            wiring.monitors.push(monitor);
        }
        wiring.edges.extend(self.edges);
        producer
    }

    fn register(&mut self, reader: AgentName, wakes: bool) {
        self.edges.push(Edge { name: self.name, writer: self.writer, reader, wakes });
    }
}

/// A cursor or a gauge under construction: one number that one agent writes.
pub struct Shared<C> {
    name: &'static str,
    writer: AgentName,
    wakes: bool,
    cell: Arc<C>,
    edges: Vec<Edge>,
}

impl Shared<Cursor> {
    /// A cursor, starting at `value`; a move wakes its readers.
    pub fn cursor(name: &'static str, writer: AgentName, value: u64) -> Self {
        let cell = Arc::new(Cursor::new(value));
        Self { name, writer, wakes: true, cell, edges: Vec::new() }
    }
}

impl Shared<AtomicGauge> {
    /// A gauge, starting at `value`; its readers look at it in their turns.
    pub fn gauge(name: &'static str, writer: AgentName, value: u64) -> Self {
        let cell = Arc::new(AtomicGauge::new(value));
        Self { name, writer, wakes: false, cell, edges: Vec::new() }
    }
}

impl<C> Shared<C> {
    /// A reader's end.
    pub fn reader(&mut self, reader: AgentName) -> Arc<C> {
        let Self { name, writer, wakes, .. } = *self;
        self.edges.push(Edge { name, writer: Some(writer), reader, wakes });
        Arc::clone(&self.cell)
    }

    /// An end for a reader outside the layout, which is never woken.
    pub fn outside(&self) -> Arc<C> {
        Arc::clone(&self.cell)
    }

    /// The writer's end.
    pub fn build(self, wiring: &mut Wiring) -> Arc<C> {
        wiring.edges.extend(self.edges);
        self.cell
    }
}

#[cfg(test)]
mod tests {
    use AgentName::{Engine, Journaler, Sequencer};

    use super::*;

    /// Groups wake each other if an agent of one reads a ring or a cursor that an agent of the other writes, but not
    /// for gauges.
    #[test]
    fn wake_targets_follow_from_the_edges() {
        let mut wiring = Wiring::default();
        let mut inputs = Ring::<u64>::new("inputs", 8, Some(Sequencer));
        let _consumers = (inputs.gating(Journaler), inputs.gating(Engine));
        let _producer = inputs.build(&mut wiring);
        let mut durable = Shared::cursor("durable", Journaler, 0);
        let _cursor = (durable.reader(Sequencer), durable.build(&mut wiring));
        let mut due = Shared::gauge("due", Engine, 0);
        let _gauge = (due.reader(Sequencer), due.build(&mut wiring));
        let groups = |groups: &[&[AgentName]]| -> Vec<AgentGroup> {
            let group = |agents: &&[AgentName]| AgentGroup {
                agents: agents.to_vec(),
                core: None,
                wait: None,
            };
            groups.iter().map(group).collect()
        };
        let alone = groups(&[&[Sequencer], &[Journaler], &[Engine]]);
        let targets = |readers: &[usize], writers: &[usize]| WakeTargets {
            readers: readers.to_vec(),
            writers: writers.to_vec(),
        };
        assert_eq!(wiring.wake_targets(0, &alone), targets(&[1, 2], &[1]));
        assert_eq!(wiring.wake_targets(1, &alone), targets(&[0], &[0]));
        assert_eq!(wiring.wake_targets(2, &alone), targets(&[], &[0]));
        let together = groups(&[&[Sequencer, Journaler, Engine]]);
        assert_eq!(wiring.wake_targets(0, &together), WakeTargets::default());
        assert_eq!(wiring.monitors().len(), 1);
        assert_eq!(wiring.edges().iter().filter(|edge| !edge.wakes).count(), 1);
    }
}
