//! A venue whose disk is full: sequencer, journaler and engine, turn by turn, on a disk in memory.

use std::sync::Arc;

use gateway::Submission;
use journal::{CrashStorage, Durability, WriterOptions};
use market::{
    AddInstrument, AddSession, CancelOrder, Command, EnterOrder, Event, Firm, OrderKey, OutputLine,
    Price, Quantity, RejectReason, SelfMatchPrevention, Sequence, SessionId, Side, Symbol,
    SystemEvent, Text, Timestamp,
};
use ring::{AgentError, Consumer, Cursor, Flow, Producer};
use venue::{
    core::{Chain, Core, CoreOptions, LoadSheddingOptions, RingSlots},
    layout::{AgentName, Agents},
    recovery,
    stage::{EngineStage, JournalFigures},
};

const S: u64 = 1_000_000_000;

fn key(user_ref_num: u32) -> OrderKey {
    OrderKey { session_id: SessionId(1), channel: 0, user_ref_num }
}

fn symbol() -> Symbol {
    Symbol::new("AAPL").unwrap()
}

fn enter(number: u32) -> Command {
    let order = EnterOrder::limit(key(number), Side::Buy, symbol(), Quantity(100), Price(10_000));
    Command::Enter(order)
}

fn cancel(number: u32) -> Command {
    Command::Cancel(CancelOrder { key: key(number), quantity: Quantity::ZERO })
}

struct World {
    submissions: Producer<Submission>,
    agents: Agents,
    outputs: Consumer<OutputLine>,
    figures: Arc<JournalFigures>,
    /// Outputs up to here may leave the venue.
    durable: Arc<Cursor>,
    now_ns: u64,
}

impl World {
    fn new(storage: &CrashStorage, durability: Durability) -> Self {
        Self::with(storage, durability, Some(LoadSheddingOptions { slow_ns: 2 * S }))
    }

    fn with(
        storage: &CrashStorage,
        durability: Durability,
        load_shedding: Option<LoadSheddingOptions>,
    ) -> Self {
        let options =
            WriterOptions { durability, segment_bytes: 64 << 10, ..WriterOptions::new(1, 1) };
        let (state, writer, _) =
            recovery::recover(Box::new(storage.clone()), &options, &mut |_| {}).unwrap();
        let mut core = Core::new(RingSlots { submissions: 64, inputs: 64, outputs: 256 });
        let submissions = core.source("submissions", AgentName::Source);
        let (outputs, durable) = core.reader(AgentName::Reporter);
        let options = CoreOptions { load_shedding, ..CoreOptions::new(durability) };
        let Chain { agents, journal: figures, .. } = core.build(state, writer, options);
        Self { submissions, agents, outputs, figures, durable, now_ns: S }
    }

    /// Sends this command, and returns its published events.
    fn ask(&mut self, command: Command) -> Vec<Event> {
        let received = Timestamp(self.now_ns);
        assert!(self.submissions.try_publish(Submission { received, command }).is_ok());
        self.turn();
        let mut events = Vec::new();
        let durable = self.durable.get();
        self.outputs.poll(256, |line, _| {
            assert!(line.cause.0 <= durable, "no output leaves before its input is recorded");
            line.each(|output| events.push(output.event));
            Flow::Continue
        });
        events
    }

    fn turn(&mut self) {
        self.now_ns += 1_000_000;
        for agent in self.agents.values_mut() {
            agent.do_work(self.now_ns).unwrap();
        }
    }

    fn work(&mut self, agent: AgentName) -> Result<usize, AgentError> {
        self.agents.get_mut(&agent).unwrap().do_work(self.now_ns)
    }
}

fn is_accepted(events: &[Event]) -> bool {
    matches!(events, [Event::Accepted(_), ..])
}

fn is_canceled(events: &[Event]) -> bool {
    matches!(events, [Event::Canceled(_), ..])
}

fn is_rejected(events: &[Event], reason: RejectReason) -> bool {
    matches!(events, [Event::Rejected(rejected)] if rejected.reason == reason)
}

fn open_market(world: &mut World) {
    for command in [
        Command::AddInstrument(AddInstrument {
            symbol: symbol(),
            price_increment: Price(100),
            round_lot: Quantity(100),
        }),
        Command::AddSession(AddSession {
            username: Text::new("U1").unwrap(),
            firm: Firm::new("FIRM").unwrap(),
            live_orders_max: u32::MAX,
            self_match_prevention: SelfMatchPrevention::Off,
        }),
        Command::System(SystemEvent::StartOfSystemHours),
    ] {
        world.ask(command);
    }
}

/// Rule 50.1: when the disk is full new orders are rejected, with the reason, and orders are canceled;
/// when there is room again orders are accepted; and the journal alone gives the same state.
#[test]
fn a_full_disk_rejects_orders_and_takes_cancels() {
    for durability in [Durability::Written, Durability::Synced] {
        let storage = CrashStorage::new();
        let mut world = World::new(&storage, durability);
        open_market(&mut world);
        storage.set_capacity(Some(100_000));
        let mut accepted = 0;
        while world.figures.reason().is_none() {
            accepted += 1;
            assert!(is_accepted(&world.ask(enter(accepted))), "{durability:?} {accepted}");
        }
        assert_eq!(world.figures.reason(), Some(RejectReason::NoRoom));
        let refused = accepted + 1;
        assert!(is_rejected(&world.ask(enter(refused)), RejectReason::NoRoom), "{durability:?}");
        assert!(is_canceled(&world.ask(cancel(1))), "{durability:?}");

        storage.set_capacity(None);
        world.now_ns += 2 * S;
        for _ in 0..9 {
            world.turn();
        }
        assert_eq!((world.figures.reason(), world.figures.alarms.get()), (None, 1));
        for number in refused + 1..refused + 600 {
            assert!(is_accepted(&world.ask(enter(number))), "{durability:?} {number}");
        }
        let segments = journal::segments_before(&mut storage.clone(), u64::MAX).unwrap();
        assert!(!segments.is_empty(), "the journal went on in another segment");

        world.agents.get_mut(&AgentName::Journaler).unwrap().close();
        let replay =
            recovery::replay(&mut storage.clone(), &mut |_, _, _| {}, &mut |_| {}).unwrap();
        let mut agents = world.agents.into_values().collect();
        let engine = ring::take_agent::<EngineStage>(&mut agents).unwrap().into_engine();
        assert_eq!(replay.state.engine.state_hash(), engine.state_hash());
        assert!(engine.sequence() > Sequence(u64::from(refused)));
    }
}

/// A chain without load shedding continues until its segment is full, and then stops with the remedy; every published
/// output follows from the journal.
#[test]
fn without_load_shedding_a_full_disk_stops_the_chain() {
    let storage = CrashStorage::new();
    let mut world = World::with(&storage, Durability::Synced, None);
    open_market(&mut world);
    storage.set_capacity(Some(100_000));
    let mut number = 0;
    let error = loop {
        number += 1;
        let received = Timestamp(world.now_ns);
        let command = if number % 2 == 1 { enter(number) } else { cancel(number - 1) };
        assert!(world.submissions.try_publish(Submission { received, command }).is_ok());
        world.work(AgentName::Sequencer).unwrap();
        if let Err(error) = world.work(AgentName::Journaler) {
            break error;
        }
        world.work(AgentName::Engine).unwrap();
        world.outputs.poll(256, |_, _| Flow::Continue);
    };
    assert!(error.to_string().contains("free some space, then start again"), "{error}");
    storage.set_capacity(None);
    let replay = recovery::replay(&mut storage.clone(), &mut |_, _, _| {}, &mut |_| {}).unwrap();
    assert!(replay.state.engine.sequence().0 >= world.durable.get());
}
